#!/usr/bin/env python3
"""DuckDB reads an archive while the dendro crate writes it in another process: nothing lost, nothing twice, nothing torn.

The writer is `examples/dendro_writer.rs`: two streams that are written and sealed in step, with row timestamps that count up
by one, so that any hole, repeat or difference between the streams shows.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
from support import ROOT, add_extension_argument, connect, quoted  # noqa: E402

ROWS = 50
SEALS = 200
ODD = 'Odd "name"'
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "build" / "cargo"))


class Reader:
    """Checks one invariant per statement."""

    def __init__(self, extension, path, keep):
        self.connection = connect(extension)
        self.path, self.keep = path, keep
        self.passed, self.gone, self.failures, self.newest = 0, 0, [], 0
        totals = 'count(*), min("timestamp"), max("timestamp"), sum(n)'
        odd = ODD.replace('"', '""')
        self.statements = {
            "function": f"SELECT {totals} FROM read_dendro({quoted(path)}, stream := 's')",
            "prepared": "EXECUTE q",
            "table": f"SELECT {totals} FROM a.s",
            "prepared table": "EXECUTE t",
        }
        self.connection.execute(f"ATTACH {quoted(path)} AS a (TYPE pensieve)")
        self.connection.execute(f"PREPARE q AS {self.statements['function']}")
        self.connection.execute(f"PREPARE t AS {self.statements['table']}")
        # rows of one statement are of one instant, whichever stream they are of
        self.both = (f'SELECT (SELECT max("timestamp") FROM a.s), (SELECT max("timestamp") FROM a."{odd}"), '
                     f'(SELECT count(*) FROM a.s), (SELECT count(*) FROM a."{odd}"), '
                     f'(SELECT count(*) FROM a.s JOIN a."{odd}" USING ("timestamp", n, text))')

    def fail(self, text):
        self.failures.append(text)

    def answer(self, sql):
        """The row that `sql` gives; None when retention took a segment, which is an error that says so."""
        try:
            return self.connection.execute(sql).fetchone()
        except duckdb.Error as error:
            if self.keep and "changed during the scan" in str(error) and "segment" in str(error):
                self.gone += 1
            else:
                self.fail(f"{sql}: {error}")
            return None

    def round(self):
        for name, sql in self.statements.items():
            row = self.answer(sql)
            if row is None:
                continue
            count, low, high, total = row
            whole = count == high - low + 1 and count % ROWS == 0 and total == 3 * (low + high) * count // 2
            if not whole or high < self.newest or (not self.keep and low != 1):
                self.fail(f"{name}: {count} rows from {low} to {high}, {self.newest} seen before")
            self.newest = max(self.newest, high)
            self.passed += 1
        row = self.answer(self.both)
        if row is not None:
            if row[0] != row[1] or row[2] != row[3] or row[2] != row[4]:
                self.fail(f"two streams of one statement: {row}")
            self.passed += 1
        rows = self.connection.execute("SELECT last_ts, live_rows, live_first_ts, live_last_ts "
                                       f"FROM dendro_streams({quoted(self.path)})").fetchall()
        for last, live, live_first, live_last in rows:
            if live and (live_first != last + 1 or live_last - live_first + 1 != live):
                self.fail(f"sealed to {last}, {live} rows from {live_first} to {live_last}")
        if len({(last, live) for last, live, *_ in rows}) != 1 or len(rows) != 2:
            self.fail(f"streams written in step differ: {rows}")
        self.passed += 1


def start(writer, path, seals, keep):
    """Starts the writer and waits for its first seal."""
    process = subprocess.Popen([writer, str(path), str(seals), str(keep)], stdout=subprocess.PIPE, text=True)
    if process.stdout.readline().strip() != "1":
        raise SystemExit(f"the writer ended with {process.wait()}")
    return process


def drain(process):
    """What the writer has printed must not fill the pipe."""
    os.set_blocking(process.stdout.fileno(), False)
    while process.stdout.read(4096):
        pass


def run(options, directory, keep):
    path = Path(directory) / "live.dendro"
    started = time.monotonic()
    process = start(options.writer, path, SEALS, keep)
    try:
        reader = Reader(options.extension, path, keep)
        running = True
        while running:
            running = process.poll() is None
            drain(process)
            reader.round()
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0 or reader.newest != ROWS * SEALS:
        reader.fail(f"the writer ended with {process.returncode}, the last row seen was {reader.newest}")
    complete = reader.connection.execute(f"SELECT complete FROM dendro_sources({quoted(path)})").fetchall()
    if complete != [(True,)]:
        reader.fail(f"complete is {complete} after the writer ended")
    kept = f"{keep} segments kept" if keep else "all kept"
    print(f"{kept}: {reader.passed} answers, {reader.gone} refused because a segment was gone, "
          f"{time.monotonic() - started:.1f} s")
    return reader


def run_killed(options, directory):
    """The writer is killed: what was committed is there, and is reported where it cannot be read."""
    path = Path(directory) / "killed.dendro"
    process = start(options.writer, path, 0, 0)
    reader = Reader(options.extension, path, 0)
    while reader.newest < 20 * ROWS and not reader.failures:
        drain(process)
        reader.round()
    process.kill()
    process.wait()
    before = reader.newest
    reader.round()
    if reader.newest < before:
        reader.fail(f"{reader.newest} after {before}")
    sources = reader.connection.execute(f"SELECT complete, encoder FROM dendro_sources({quoted(path)})").fetchall()
    if sources != [(False, "live-1")]:
        reader.fail(f"sources of a killed writer: {sources}")
    print(f"killed: {reader.passed} answers, rows to {reader.newest}")
    return reader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    parser.add_argument("--writer", default=str(TARGET / "debug" / "examples" / "dendro_writer"),
                        help="built by `cargo build --no-default-features --example dendro_writer`")
    options = parser.parse_args()
    passed = failed = 0
    for check in (lambda d: run(options, d, 0), lambda d: run(options, d, 8), lambda d: run_killed(options, d)):
        with tempfile.TemporaryDirectory() as directory:
            reader = check(directory)
        for failure in reader.failures[:10]:
            print(f"FAIL {failure}", flush=True)
        passed += reader.passed
        failed += len(reader.failures)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
