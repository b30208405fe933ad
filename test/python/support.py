"""What the Python tests, the demo and the benchmark share: a connection that has the extension."""

from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_EXTENSION = ROOT / "build" / "release" / "pensieve.duckdb_extension"


def add_extension_argument(parser):
    parser.add_argument("--extension", default=str(DEFAULT_EXTENSION), help="the packaged extension")


def connect(extension, database=":memory:", **config):
    """A connection with the extension loaded. Unsigned extensions are a start-up option of DuckDB."""
    path = Path(extension).resolve()
    if not path.is_file():
        raise SystemExit(f"{extension} does not exist; build it with `make release`")
    settings = {"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
    connection = duckdb.connect(database, config=settings)
    connection.execute(f"LOAD '{path}'")
    for name, value in config.items():
        connection.execute(f"SET {name} = {value!r}")
    return connection


def quoted(text):
    """A SQL string literal."""
    return "'" + str(text).replace("'", "''") + "'"


class Tally:
    """What was checked, and how much of it held."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, title, expected, actual):
        if expected == actual:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAIL {title}\n  expected: {str(expected)[:2000]}\n  actual:   {str(actual)[:2000]}")
