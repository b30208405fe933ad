#!/usr/bin/env python3
"""Extents behind HTTP: the answers of local files, few requests, and errors that name the object."""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import logs  # noqa: E402
from range_server import RangeServer  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

ROWS = 300_000
FORMATS = {
    "tlm": "FORMAT tlm, COMPRESSION lz4, ROWS_PER_BLOCK 20480",
    "dictionaries": "FORMAT tlm, DICTIONARY true, ROWS_PER_BLOCK 20480",
    "parquet": "FORMAT pensieve_parquet, ROWS_PER_BLOCK 20480",
}
QUERIES = [
    "SELECT count(*) FROM @T@",
    "SELECT count(*), sum(status), min(ts), max(length(message)) FROM @T@",
    "SELECT service, level, count(*) FROM @T@ GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM @T@ WHERE trace_id = '@ID@'",
    "SELECT * FROM @T@ WHERE ts >= '2026-01-01 00:10:00' AND ts < '2026-01-01 00:10:30' ORDER BY ts",
    "SELECT * FROM @T@ WHERE level = 'ERROR' ORDER BY ts DESC LIMIT 20",
    "SELECT * FROM @T@ ORDER BY ts LIMIT 7",
    "SELECT a.ts, b.message FROM @T@ a JOIN @T@ b USING (trace_id) WHERE a.level = 'ERROR' AND a.status = 503 ORDER BY ALL",
]
# A unique id in a Parquet extent that was never opened: its end, the bloom filters, the ids, the other columns of one row.
NEEDLE_REQUESTS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    arguments = parser.parse_args()
    passed = failed = 0

    def check(holds, text):
        nonlocal passed, failed
        passed += holds
        failed += not holds
        if not holds:
            print(f"FAILED: {text}")

    connection = connect(arguments.extension)
    logs.create(connection, "logs", ROWS)
    needle = connection.execute(f"SELECT trace_id FROM logs LIMIT 1 OFFSET {ROWS // 3}").fetchone()[0]
    with tempfile.TemporaryDirectory(prefix="pensieve-remote-") as directory, RangeServer(directory) as server:
        for name, options in FORMATS.items():
            connection.execute(f"COPY logs TO {quoted(Path(directory) / name)} ({options})")
            for depth in (-1, 0, 2):
                connection.execute(f"SET read_ahead_depth = {depth}")
                for query in QUERIES:
                    query = query.replace("@ID@", needle)
                    expected = connection.execute(query.replace("@T@", "logs")).fetchall()
                    source = f"read_extent({quoted(f'{server.url}/{name}')})"
                    answer = connection.execute(query.replace("@T@", source)).fetchall()
                    check(answer == expected, f"{name}, read_ahead_depth {depth}: {query}")
            connection.execute("RESET read_ahead_depth")
            for budget in (0, 3_000_000):
                connection.execute(f"SET pensieve_prefetch_bytes = {budget}")
                source = f"read_extent({quoted(f'{server.url}/{name}')})"
                total = connection.execute(f"SELECT count(*), max(status) FROM {source}").fetchone()
                check(total == (ROWS, 503), f"{name}: with {budget} bytes ahead {total}")
            connection.execute("RESET pensieve_prefetch_bytes")
            several = ", ".join(quoted(f"{server.url}/{name}") for _ in range(4))
            total = connection.execute(f"SELECT count(*), max(status) FROM read_extent([{several}])").fetchone()
            check(total == (4 * ROWS, 503), f"{name}: four at once give {total}")
        fresh = Path(directory) / "fresh"
        fresh.write_bytes((Path(directory) / "parquet").read_bytes())
        server.reset()
        connection.execute(f"SELECT * FROM read_extent({quoted(f'{server.url}/fresh')}) WHERE trace_id = '{needle}'").fetchall()
        check(server.requests <= NEEDLE_REQUESTS, f"a needle takes {server.requests} requests: {server.log}")
        total = fresh.stat().st_size
        check(server.bytes < total, f"a needle reads {server.bytes} of {total} bytes")
        # a replaced object is read anew, not from what was remembered
        connection.execute(f"COPY (FROM logs LIMIT 1000) TO {quoted(fresh)} (FORMAT tlm)")
        count = connection.execute(f"SELECT count(*) FROM read_extent({quoted(f'{server.url}/fresh')})").fetchone()[0]
        check(count == 1000, f"a replaced object has {count} rows")
        (Path(directory) / "empty").write_bytes(b"")
        (Path(directory) / "cut").write_bytes((Path(directory) / "tlm").read_bytes()[:100_000])
        for name in ("missing", "empty", "cut"):
            try:
                connection.execute(f"FROM read_extent({quoted(f'{server.url}/{name}')})").fetchall()
                check(False, f"{name} was read")
            except Exception as error:  # noqa: BLE001 - any kind, as long as it names the object
                check(f"{server.url}/{name}" in str(error), f"{name}: {error}")
        with RangeServer(directory) as gone:
            address = gone.url
        try:
            connection.execute(f"FROM read_extent({quoted(f'{address}/parquet')})").fetchall()
            check(False, "a store that is gone was read")
        except Exception as error:  # noqa: BLE001
            check(f"{address}/parquet" in str(error), f"a store that is gone: {error}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
