#!/usr/bin/env python3
"""Show the extension at work: write a few million log rows, ask three questions, say what each read and skipped."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "python"))

import flights  # noqa: E402
import logs  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

FILES = 4


def title(text):
    print(f"\n{text}\n{'-' * len(text)}")


def size(count):
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return ""


def show_work(connection, total_bytes):
    """The counters of the last query."""
    stages = connection.execute(
        "SELECT unit, evidence, considered, skipped, bytes_read, requests FROM pensieve_last_scan()"
    ).fetchall()
    read = sum(stage[4] or 0 for stage in stages)
    requests = sum(stage[5] or 0 for stage in stages)
    for unit, evidence, considered, skipped, _, _ in stages:
        if evidence != "read":
            print(f"    {unit}s: {skipped:,} of {considered:,} skipped by {evidence}")
    share = f"{100 * read / total_bytes:.1f} % of {size(total_bytes)}" if total_bytes else "nothing"
    print(f"    read {size(read)} ({share}) in {requests:,} requests")


def ask(connection, question, sql, total_bytes):
    title(question)
    print("    " + "\n    ".join(line.strip() for line in sql.strip().splitlines()))
    started = time.monotonic()
    connection.execute(sql)
    names = [column[0] for column in connection.description]
    rows = connection.fetchall()
    elapsed = time.monotonic() - started
    texts = [["NULL" if value is None else str(value) for value in row] for row in rows[:10]]
    widths = [max(map(len, column)) for column in zip(names, *texts)]
    print()
    for row in [names] + texts:
        print("    " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    print(f"\n    {elapsed * 1000:.0f} ms")
    show_work(connection, total_bytes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--rows", type=int, default=3_000_000)
    arguments = parser.parse_args()
    connection = connect(arguments.extension)
    version = connection.execute("SELECT library_version FROM pragma_version()").fetchall()[0][0]
    with tempfile.TemporaryDirectory(prefix="pensieve-demo-") as directory:
        logs_directory = Path(directory) / "logs"
        logs_directory.mkdir()
        title(f"pensieve in DuckDB {version}: {arguments.rows:,} log rows")
        logs.create(connection, "logs", arguments.rows)
        started = time.monotonic()
        for number in range(FILES):
            low, high = (arguments.rows * part // FILES for part in (number, number + 1))
            path = logs_directory / f"logs-{number}.tlm"
            connection.execute(
                f"COPY (FROM logs LIMIT {high - low} OFFSET {low}) TO {quoted(path)} (FORMAT tlm, COMPRESSION lz4)"
            )
        elapsed = time.monotonic() - started
        total = sum(path.stat().st_size for path in logs_directory.glob("*.tlm"))
        print(f"    COPY ... TO 'logs-N.tlm' (FORMAT tlm, COMPRESSION lz4): {FILES} files, {size(total)}, {elapsed:.1f} s")
        source = f"read_tlm({quoted(logs_directory / '*.tlm')})"
        needle = connection.execute(f"SELECT trace_id FROM logs LIMIT 1 OFFSET {arguments.rows // 3}").fetchall()[0][0]
        connection.execute("DROP TABLE logs")
        connection.execute(f"CREATE VIEW logs AS FROM {source}")
        ask(
            connection,
            "One minute of errors",
            """SELECT service, count(*) AS errors, max(duration_ms) AS slowest FROM logs
               WHERE ts >= '2026-01-01 02:00:00' AND ts < '2026-01-01 02:01:00' AND level = 'ERROR'
               GROUP BY service ORDER BY errors DESC, service""",
            total,
        )
        ask(
            connection,
            "The newest warnings",
            "SELECT ts, service, message FROM logs WHERE level = 'WARN' ORDER BY ts DESC LIMIT 5",
            total,
        )
        ask(
            connection,
            "A trace, by its id and the hour it was seen in",
            f"""SELECT ts, service, host, status, message FROM logs
                WHERE trace_id = '{needle}' AND ts BETWEEN '2026-01-01 01:00:00' AND '2026-01-01 02:00:00'""",
            total,
        )
        flights.load(connection)
        path = Path(directory) / "flights.tlm"
        connection.execute(f"COPY flights TO {quoted(path)} (FORMAT tlm, ROWS_PER_BLOCK 10000)")
        connection.execute("DROP TABLE flights")
        connection.execute(f"CREATE VIEW flights AS FROM read_tlm({quoted(path)})")
        question, sql = flights.QUESTIONS[0]
        ask(connection, f"Real rows, the New York flights of 2013: {question}", sql, path.stat().st_size)
    print("\nThe same from the DuckDB shell: docs/README.md")


if __name__ == "__main__":
    main()
