#!/usr/bin/env python3
"""A time range in a dendro archive of 10,000 segments: what is read, and how long it takes.

The other ways are what one has without the extension. DuckDB's sqlite extension shows the catalog and the BLOBs but cannot
read Parquet out of a BLOB, and there is no build of it for every release; so Python's sqlite3 picks the segments, by the
catalog's time bounds, and their Parquet bytes go to DuckDB as files or, by way of pyarrow, as a table in memory. One more
run ignores the catalog, as one has to who does not know what its columns mean. The archive is made once per run.
"""

import argparse
import io
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "python"))

import duckdb  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

STEP = 1_000_000_000
ANSWER = "count(*), sum(host), max(value)"


def make(connection, path, segments, rows):
    """Rows of a second each, `rows` of them in a segment."""
    connection.execute(
        f"COPY (SELECT i * {STEP} AS timestamp, i % 100 AS host, sin(i) AS value, 'line ' || i AS message "
        f"FROM range({segments * rows}) t(i)) TO {quoted(path)} "
        f"(FORMAT dendro, STREAM 'cpu', TS_COLUMN 'timestamp', SEGMENT_ROWS {rows})")


def scan(connection, source, low, high):
    return connection.execute(f"SELECT {ANSWER} FROM {source} WHERE timestamp BETWEEN {low} AND {high}").fetchone()


def blobs(path, low, high, by_catalog=True):
    """The Parquet files of the segments, by the catalog's time bounds or all of them."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    where = f"WHERE last_ts >= {low} AND first_ts <= {high}" if by_catalog else ""
    try:
        yield from db.execute(f"SELECT seq, bytes FROM segments {where} ORDER BY seq")
    finally:
        db.close()


def by_files(path, low, high, by_catalog=True):
    """SQLite for the BLOBs, DuckDB for the Parquet files."""
    with tempfile.TemporaryDirectory() as directory:
        for seq, data in blobs(path, low, high, by_catalog):
            (Path(directory) / f"{seq}.parquet").write_bytes(data)
        return scan(duckdb.connect(), f"read_parquet('{directory}/*.parquet')", low, high)


def by_arrow(path, low, high):
    """SQLite for the BLOBs, pyarrow for the Parquet files, DuckDB for the query."""
    columns = ["timestamp", "host", "value"]
    tables = [pq.read_table(io.BytesIO(data), columns=columns) for _, data in blobs(path, low, high)]
    connection = duckdb.connect()
    connection.register("segments", pa.concat_tables(tables))
    return scan(connection, "segments", low, high)


def timed(repeat, call):
    """The last answer, and the median of the wall times in milliseconds."""
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        result = call()
        times.append((time.perf_counter() - started) * 1000)
    return result, statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=200, help="rows per segment")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    connection = connect(options.extension)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bench.dendro"
        make(connection, path, options.segments, options.rows)
        connection.execute(f"ATTACH {quoted(path)} AS a (TYPE pensieve)")
        print(f"{options.segments} segments of {options.rows} rows, {os.path.getsize(path) / 1e6:.1f} MB; medians of "
              f"{options.repeat} runs, in milliseconds")
        total = options.segments * options.rows
        for name, share in (("half a segment", 0.5 / options.segments), ("1 %", 0.01), ("10 %", 0.1), ("all", 1.0)):
            count = max(1, round(total * share))
            first = (total - count) // 2
            low, high = first * STEP, (first + count - 1) * STEP
            answer, ours = timed(options.repeat, lambda: scan(connection, f"read_dendro({quoted(path)})", low, high))
            considered, skipped, read = connection.execute(
                "SELECT max(considered) FILTER (unit = 'extent'), coalesce(sum(skipped) FILTER (unit = 'extent'), 0), "
                "sum(bytes_read) FROM pensieve_last_scan()").fetchone()
            needed = sum(1 for _ in blobs(path, low, high))
            print(f"{name}: {count} rows; {considered - skipped} of {considered} segments opened, {needed} needed, "
                  f"{read} bytes of them read")
            if considered - skipped != needed:
                raise SystemExit(f"{considered - skipped} segments opened, {needed} needed")
            ways = {
                "attached table": lambda: scan(connection, "a.cpu", low, high),
                "sqlite3 + Parquet files": lambda: by_files(path, low, high),
                "sqlite3 + pyarrow": lambda: by_arrow(path, low, high),
            }
            print(f"  {'read_dendro':<24}{ours:10.1f}")
            for way, call in ways.items():
                other, median = timed(options.repeat if share < 1 else min(options.repeat, 3), call)
                print(f"  {way:<24}{median:10.1f}   {median / ours:6.2f} x")
                if (answer[:2], round(answer[2], 9)) != (other[:2], round(other[2], 9)):
                    raise SystemExit(f"{way}: {other} is not {answer}")
        low = total // 2 * STEP
        _, median = timed(1, lambda: by_files(path, low, low + STEP, False))
        print(f"two rows by sqlite3 + Parquet files, without the catalog: {median:.0f} ms")


if __name__ == "__main__":
    main()
