#!/usr/bin/env python3
"""A time range in a dendro archive of 10,000 segments: what is read, and how long it takes, three ways.

The other ways are what one has without the extension: Python's sqlite3 picks segments with SQL on the catalog and DuckDB reads
their Parquet bytes from files (with and without the catalog's help). The archive is made once per run.
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


def make(connection, path, segments, rows):
    """An archive made by COPY, then filled with segments: one catalog row and one Parquet file each."""
    connection.execute(
        f"COPY (SELECT i * {STEP} AS timestamp, i % 100 AS host, sin(i) AS value, 'line ' || i AS message "
        f"FROM range({rows}) t(i)) TO {quoted(path)} (FORMAT dendro, STREAM 'cpu', TS_COLUMN 'timestamp')")
    db = sqlite3.connect(path)
    source, = db.execute("SELECT id FROM sources").fetchone()
    for seq in range(1, segments):
        first = seq * rows
        index = range(first, first + rows)
        table = pa.table({"timestamp": pa.array([i * STEP for i in index], pa.int64()),
                          "host": pa.array([i % 100 for i in index], pa.int64()),
                          "value": pa.array([float(i) for i in index], pa.float64()),
                          "message": pa.array([f"line {i}" for i in index])})
        out = io.BytesIO()
        pq.write_table(table, out, compression="lz4")
        db.execute("INSERT INTO segments(source_id, stream, seq, rows, first_ts, last_ts, bytes) VALUES (?,?,?,?,?,?,?)",
                   (source, "cpu", seq, rows, first * STEP, (first + rows - 1) * STEP, out.getvalue()))
    db.commit()
    db.close()


def with_extension(connection, path, low, high):
    return connection.execute(f"SELECT count(*), sum(host) FROM read_dendro({quoted(path)}) "
                              f"WHERE timestamp BETWEEN {low} AND {high}").fetchone()


def with_sqlite(path, low, high, by_catalog):
    """SQLite for the BLOBs, DuckDB for the Parquet files."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    where = f"WHERE last_ts >= {low} AND first_ts <= {high}" if by_catalog else ""
    with tempfile.TemporaryDirectory() as directory:
        for rowid, data in db.execute(f"SELECT rowid, bytes FROM segments {where}"):
            (Path(directory) / f"{rowid}.parquet").write_bytes(data)
        return duckdb.connect().execute(f"SELECT count(*), sum(host) FROM read_parquet('{directory}/*.parquet') "
                                        f"WHERE timestamp BETWEEN {low} AND {high}").fetchone()


def timed(repeat, call):
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - started)
    return result, statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100, help="rows per segment")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    connection = connect(options.extension)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bench.dendro"
        make(connection, path, options.segments, options.rows)
        print(f"{options.segments} segments of {options.rows} rows, {os.path.getsize(path) / 1e6:.1f} MB")
        for name, share in (("one segment's worth", 1 / options.segments), ("1%", 0.01), ("everything", 1.0)):
            total = options.segments * options.rows
            count = max(1, int(total * share))
            first = (total - count) // 2
            low, high = first * STEP, (first + count - 1) * STEP
            answer, seconds = timed(options.repeat, lambda: with_extension(connection, path, low, high))
            considered, skipped, read = connection.execute(
                "SELECT max(considered) FILTER (unit = 'extent'), coalesce(sum(skipped) FILTER (unit = 'extent'), 0), "
                "sum(bytes_read) FROM pensieve_last_scan()").fetchone()
            print(f"{name}: {count} rows")
            print(f"  read_dendro                 {seconds * 1000:9.1f} ms, {considered - skipped} of {considered} segments "
                  f"opened, {read} bytes of BLOBs read")
            expected, seconds = timed(options.repeat, lambda: with_sqlite(path, low, high, True))
            print(f"  sqlite3 by catalog, Parquet {seconds * 1000:9.1f} ms")
            if expected != answer:
                raise SystemExit(f"{answer} is not {expected}")
        _, seconds = timed(1, lambda: with_sqlite(path, 0, STEP, False))
        print(f"sqlite3 without the catalog, Parquet, two rows: {seconds * 1000:.1f} ms")


if __name__ == "__main__":
    main()
