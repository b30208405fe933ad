#!/usr/bin/env python3
"""DuckDB reads an archive while another process writes it: nothing is lost, nothing twice, nothing torn.

The writer follows the format: rows go to the log, a seal is one transaction that inserts the segment and removes its log
rows, and retention removes the oldest segments. Row timestamps count up by one, so that any hole or repeat shows.
"""

import argparse
import io
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

ROWS = 50
SEALS = 200


def parquet(first, count):
    """A segment of `count` rows from row timestamp `first` on."""
    ts = list(range(first, first + count))
    table = pa.table({"timestamp": pa.array(ts, pa.int64()), "n": pa.array([3 * t for t in ts], pa.int64()),
                      "text": pa.array([f"row {t}" for t in ts])})
    out = io.BytesIO()
    pq.write_table(table, out, compression="lz4")
    return out.getvalue()


def write(path, keep):
    """The writer process. `keep` segments stay; 0 keeps all."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 20")
    source, seq, ts = db.execute("SELECT source_id, MAX(seq) + 1, MAX(last_ts) + 1 FROM segments").fetchone()
    for _ in range(SEALS):
        for _ in range(5):
            db.execute("BEGIN IMMEDIATE")
            for _ in range(ROWS // 5):
                db.execute("INSERT INTO wal VALUES (?, 's', ?, 0, x'00')", (source, ts))
                ts += 1
            db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO segments(source_id, stream, seq, rows, first_ts, last_ts, bytes) VALUES (?,'s',?,?,?,?,?)",
                   (source, seq, ROWS, ts - ROWS, ts - 1, parquet(ts - ROWS, ROWS)))
        db.execute("INSERT OR REPLACE INTO clock_offsets VALUES (?, ?, 0)", (source, ts - 1))
        db.execute("DELETE FROM wal WHERE ts < ?", (ts,))
        db.execute("COMMIT")
        seq += 1
        if keep:
            db.execute("DELETE FROM segments WHERE seq < ?", (seq - keep,))
    db.close()


def read(extension, path, process, keep):
    """Checks one invariant per query until the writer ends; returns (passed, failures)."""
    connection = connect(extension)
    passed, gone, failures, best, file = 0, 0, [], 0, quoted(path)
    prepared = "EXECUTE q"
    connection.execute(f'PREPARE q AS SELECT count(*), min("timestamp"), max("timestamp"), sum(n) FROM read_dendro({file})')
    running = True
    while running:
        running = process.poll() is None
        for sql in (f'SELECT count(*), min("timestamp"), max("timestamp"), sum(n) FROM read_dendro({file})', prepared):
            try:
                count, low, high, total = connection.execute(sql).fetchone()
            except duckdb.Error as error:
                if keep and "changed during the scan" in str(error) and "segment" in str(error):
                    gone += 1
                else:
                    failures.append(f"{sql}: {error}")
                continue
            whole = count == high - low + 1 and count % ROWS == 0 and total == 3 * (low + high) * count // 2
            if not whole or high < best or (not keep and low != 0):
                failures.append(f"{sql}: {count} rows from {low} to {high}, {best} seen before")
            best = max(best, high)
            passed += 1
        row = connection.execute(f"SELECT last_ts, live_rows, live_first_ts, live_last_ts FROM dendro_streams({file})")
        last, live, live_first, live_last = row.fetchone()
        seam = live == 0 or (live_first == last + 1 and live_last - live_first + 1 == live)
        if not seam:
            failures.append(f"sealed to {last}, {live} rows from {live_first} to {live_last}")
        passed += 1
    return passed, gone, failures, best


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "write":
        return write(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    options = parser.parse_args()
    passed = failed = 0
    for keep in (0, 8):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "live.dendro"
            connect(options.extension).execute(
                f'COPY (SELECT range AS "timestamp", 3 * range AS n, \'row \' || range AS text FROM range({ROWS})) '
                f"TO {quoted(path)} (FORMAT dendro, STREAM 's', TS_COLUMN 'timestamp')")
            started = time.monotonic()
            process = subprocess.Popen([sys.executable, __file__, "write", str(path), str(keep)])
            try:
                good, gone, failures, best = read(options.extension, path, process, keep)
            finally:
                process.kill()
                process.wait()
            if process.returncode != 0 or best != ROWS * (SEALS + 1) - 1:
                failures.append(f"the writer ended with {process.returncode}, the last row seen was {best}")
            for failure in failures[:10]:
                print(f"FAIL {failure}", flush=True)
            passed += good
            failed += len(failures)
            kept = f"{keep} segments kept" if keep else "all kept"
            print(f"{kept}: {good} answers, {gone} refused because a segment was gone, {time.monotonic() - started:.1f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
