#!/usr/bin/env python3
"""The wheel around an extension: installed by pip into a fresh environment, it answers a question through `connect()`.

The environment sees the DuckDB that runs this, and no other: an extension that is linked to that DuckDB must find it loaded.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import duckdb  # noqa: E402
import make_wheel  # noqa: E402
from support import Tally, add_extension_argument, quoted  # noqa: E402

QUESTION = "SELECT count(*) FROM 'logs.tlm' WHERE n >= 900"
WRITE = "COPY (SELECT range AS n FROM range(1000)) TO 'logs.tlm'"
MINE = "SELECT loaded, installed, install_path FROM duckdb_extensions() WHERE extension_name = 'pensieve'"


def rows(connection, sql):
    return connection.execute(sql).fetchall()


def inside():
    """What the environment's own Python does, in an empty directory. Prints [title, expected, actual] for each check."""
    import duckdb_extension_pensieve as pensieve

    checks = []
    db = pensieve.connect()
    db.execute(WRITE)
    checks.append(["one question", [[100]], rows(db, QUESTION)])
    db.execute("LOAD pensieve")
    linked = str(Path(pensieve.extension_directory(), f"v{duckdb.__version__}", rows(db, "PRAGMA platform")[0][0], make_wheel.NAME))
    checks.append(["DuckDB lists it", [[True, True, linked]], rows(db, MINE)])
    listed = ["~/.duckdb/extensions", pensieve.extension_directory()]
    checks.append(["others are installed where they always are", [[listed]], rows(db, "SELECT current_setting('extension_directories')")])

    plain = duckdb.connect(
        config={"allow_unsigned_extensions": "true", "extension_directories": [pensieve.extension_directory()]}
    )
    plain.execute("LOAD pensieve")
    checks.append(["LOAD by name without connect()", [[100]], rows(plain, QUESTION)])

    Path(linked).unlink()
    Path(linked).parent.rmdir()
    checks.append(["a link that was cleaned up", True, Path(pensieve.extension_directory()) in Path(linked).parents and Path(linked).exists()])

    # As duckdb_extensions.import_extension does it.
    home = "it's home"
    installed = duckdb.connect(config={"allow_unsigned_extensions": "true", "extension_directories": [home]})
    installed.execute("INSTALL " + quoted(pensieve.extension_file()))
    installed.execute("LOAD pensieve")
    checks.append(["INSTALL of the file", [[100]], rows(installed, QUESTION)])

    stale = next(Path(home).rglob("pensieve.duckdb_extension"))
    # Not over the file, which is mapped into this process.
    stale.unlink()
    stale.write_bytes(b"another one")
    for directories in ([home], json.dumps([home])):
        other = pensieve.connect(config={"extension_directories": directories, "threads": "1"})
        checks.append(["one that was installed before is not taken", [[100]], rows(other, QUESTION)])
        given = [[[home, pensieve.extension_directory()]]]
        checks.append(["directories of the caller", given, rows(other, "SELECT current_setting('extension_directories')")])
        checks.append(["settings of the caller", [["1"]], rows(other, "SELECT current_setting('threads')::VARCHAR")])

    with pensieve.connect(Path("flights.db")) as stored:
        stored.execute("CREATE TABLE t AS FROM 'logs.tlm'")
        with pensieve.connect("flights.db") as second:
            checks.append(["a second connection", [[1000]], rows(second, "SELECT count(*) FROM t")])
    with pensieve.connect("flights.db", read_only=True) as stored:
        checks.append(["a database that exists", [[1000]], rows(stored, "SELECT count(*) FROM t")])
        try:
            stored.execute("CREATE TABLE u (n INTEGER)")
            checks.append(["read_only", "an error", "none"])
        except duckdb.Error as error:
            checks.append(["read_only", True, "read-only" in str(error)])
    try:
        pensieve.connect(config={"allow_unsigned_extensions": "false"})
        checks.append(["a caller who takes signed extensions only", "an error", "none"])
    except duckdb.Error as error:
        checks.append(["a caller who takes signed extensions only", True, "signature" in str(error)])
    print(json.dumps({"checks": checks, "temporary": pensieve.extension_directory()}))


def run(tally, title, command, **options):
    """The output of a command that must succeed, or None."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    tally.check(f"{title} ({' '.join(map(str, command))})", 0, done.returncode or 0)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
        return None
    return done.stdout


def outside(extension):
    tally = Tally()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    with tempfile.TemporaryDirectory(prefix="pensieve-wheel-") as directory:
        directory = Path(directory)
        wheel, _ = make_wheel.make(extension, directory / "wheels", host_linked=True)
        venv.create(directory / "venv", with_pip=True)
        python = directory / "venv" / "bin" / "python"
        site = Path(run(tally, "environment", [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
        (site / "duckdb_of_the_test.pth").write_text(f"{Path(duckdb.__file__).resolve().parents[1]}\n")
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        # Without an index: what the wheel requires must be what the environment has.
        run(tally, "install", [*pip, "install", "--no-index", wheel], env=environment)
        version = wheel.name.split("-")[1]
        shown = run(tally, "show", [*pip, "show", make_wheel.PACKAGE], env=environment) or ""
        tally.check("pip knows the version", True, f"Version: {version}\n" in shown)

        (directory / "empty").mkdir()
        output = run(tally, "questions", [python, Path(__file__).resolve(), "--inside"], env=environment, cwd=directory / "empty")
        if output:
            answer = json.loads(output.splitlines()[-1])
            for title, expected, actual in answer["checks"]:
                tally.check(title, expected, actual)
            tally.check("the link ends with the process", False, Path(answer["temporary"]).exists())

        other = directory / "other"
        other.mkdir()
        (other / "duckdb.py").write_text("__version__ = '1.9.9'\n")
        program = "import duckdb_extension_pensieve as p\ntry: p.connect()\nexcept ImportError as e: print(e)"
        refusal = run(tally, "another DuckDB", [python, "-c", program], env={**environment, "PYTHONPATH": str(other)}) or ""
        said = all(text in refusal for text in (f"for DuckDB {duckdb.__version__}, but DuckDB is 1.9.9", "pip install", "==1.9.9.*"))
        tally.check(f"another DuckDB is refused: {refusal}", True, said)

        run(tally, "uninstall", [*pip, "uninstall", "--yes", make_wheel.PACKAGE], env=environment)
        tally.check("nothing is left behind", [], [path.name for path in site.glob(f"{make_wheel.PACKAGE}*")])
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return inside() if arguments.inside else outside(arguments.extension)


if __name__ == "__main__":
    sys.exit(main())
