#!/usr/bin/env python3
"""Damaged files, interrupts, kills and full disks: an error or the right rows, never a crash and never a torn file.

Each group of cases runs in a process of its own, so that a crash fails that group and is named.
"""

import argparse
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

# Opening a damaged file of a few kilobytes must not cost more than this.
MEMORY_LIMIT_KIB = 512 * 1024
INTERRUPT_SECONDS = 1.0


class Group:
    """Cases of one group; `directory` is empty at the start."""

    def __init__(self, extension, directory):
        self.extension = extension
        self.directory = Path(directory)
        self.connection = connect(extension)
        self.passed = self.failed = 0

    def check(self, holds, text):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            if self.failed <= 10:
                print(f"FAIL {text}", flush=True)

    # Damaged files

    def small_file(self, options="COMPRESSION lz4"):
        """Bytes of an extent with three blocks and several types."""
        path = self.directory / "whole.tlm"
        # Otherwise blocks are whole vectors of 2,048 rows, and the file much larger than what there is to test.
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute(
            "COPY (SELECT range AS i, 's' || range % 7 AS s, make_timestamp_ns(range * 1000) AS ts, [range, NULL] AS l "
            f"FROM range(100)) TO {quoted(path)} (FORMAT tlm, ROWS_PER_BLOCK 40, {options})"
        )
        return path.read_bytes()

    def read(self, data, what):
        """Read damaged bytes every way there is. Any DuckDB error but an internal one is fine, and so is success."""
        path = self.directory / "damaged.tlm"
        path.write_bytes(data)
        outcome = None
        for sql in (
            f"SELECT sum(i), max(s), max(ts), sum(l[1]) FROM read_tlm({quoted(path)})",
            f"SELECT count(*) FROM read_tlm({quoted(path)}) WHERE i >= 90 AND s = 's1'",
            f"SELECT count(*) FROM tlm_blocks({quoted(path)})",
            f"SELECT count(*) FROM tlm_metadata({quoted(path)})",
        ):
            try:
                rows = self.connection.execute(sql).fetchall()
                outcome = outcome or rows
            except (duckdb.InternalException, duckdb.FatalException) as error:
                self.check(False, f"{what}: {sql}\n  {error}")
                return None
            except duckdb.BinderException:
                # a flipped bit in a column's name or type is another valid schema: the query does not fit it
                outcome = outcome or []
            except duckdb.Error as error:
                if "damaged.tlm" not in str(error):
                    self.check(False, f"{what}: the error does not name the file: {error}")
                    return None
        self.passed += 1
        return outcome

    def truncated(self):
        data = self.small_file()
        path = self.directory / "damaged.tlm"
        for length in range(len(data)):
            path.write_bytes(data[:length])
            try:
                self.connection.execute(f"SELECT sum(i) FROM read_tlm({quoted(path)})").fetchall()
                self.check(False, f"the first {length} of {len(data)} bytes were accepted")
            except duckdb.Error as error:
                self.check("damaged.tlm" in str(error) and "INTERNAL" not in str(error), f"first {length} bytes: {error}")

    def flipped(self):
        rng = random.Random(7)
        for options in ("COMPRESSION none", "COMPRESSION lz4", "COMPRESSION zstd", "COMPRESSION none, DICTIONARY true"):
            data = self.small_file(options)
            for _ in range(500):
                damaged = bytearray(data)
                for _ in range(rng.choice([1, 1, 1, 4])):
                    # The header and the footers decide where everything else is.
                    at = rng.choice([rng.randrange(len(data)), rng.randrange(80), len(data) - 1 - rng.randrange(1500)])
                    damaged[at % len(data)] ^= 1 << rng.randrange(8)
                self.read(bytes(damaged), f"flipped bits, {options}")

    def lengths(self):
        data = self.small_file("COMPRESSION none")
        hostile = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), len(data) + 1, len(data) - 18]
        for at in range(len(data) - 4):
            if at % 3 and at < len(data) - 400:
                continue
            value = hostile[at % len(hostile)]
            self.read(data[:at] + struct.pack("<I", value) + data[at + 4 :], f"{value:#x} written at byte {at}")

    def statistics_that_lie(self):
        """Statistics of the wrong shape are not used; the rows are all there."""
        data = self.small_file("COMPRESSION none")
        tail = len(data) - 9 - 4
        length = struct.unpack("<I", data[tail : tail + 4])[0]
        body, text, magic = data[: tail - length], data[tail - length : tail], data[tail + 4 :]
        whole = self.read(data, "the undamaged file")
        for replacement in (
            b"[]",
            b"{}",
            b"null",
            b"",
            b"[",
            b"\xff\xfe",
            b'[{"row_count":40,"cols":{}}]',
            text.replace(b'"row_count":40', b'"row_count":41'),
            text.replace(b'"row_count":40', b'"row_count":-1'),
            text.replace(b'"row_count":40', b'"row_count":1e300'),
            text.replace(b'"i64"', b'"i65"'),
            text.replace(b'"k":', b'"q":'),
            text.replace(b'"min":', b'"max":'),
            text.replace(b'"nulls":0', b'"nulls":4294967296'),
            b"[" * 100_000,
            b'[{"row_count":40,"cols":{"i":' + b'{"k":' * 5000,
        ):
            damaged = body + replacement + struct.pack("<I", len(replacement)) + magic
            rows = self.read(damaged, f"statistics {replacement[:40]!r}")
            if rows is not None:
                self.check(rows == whole, f"statistics {replacement[:40]!r}: read {rows}, not {whole}")

    def memory(self):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.check(peak < MEMORY_LIMIT_KIB, f"peak memory of {peak / 1024:.0f} MiB")

    def damaged_files(self):
        self.statistics_that_lie()
        self.lengths()
        self.flipped()
        self.memory()

    # Interrupts, kills, full disks

    def leftovers(self):
        return sorted(path.name for path in self.directory.iterdir())

    def interrupted(self, sql):
        """Seconds from interrupt to error, or None when the statement ended without one."""
        # The interrupt must arrive while the statement runs, however fast the machine is.
        stopped = []

        def stop():
            time.sleep(0.4)
            stopped.append(time.monotonic())
            self.connection.interrupt()

        thread = threading.Thread(target=stop)
        thread.start()
        try:
            self.connection.execute(sql).fetchall()
            return None
        except duckdb.InterruptException:
            return time.monotonic() - stopped[0]
        finally:
            thread.join()

    def interrupts(self):
        path = self.directory / "big.tlm"
        rows = "SELECT range AS i, md5(range::VARCHAR) AS h FROM range(2000000)"
        self.connection.execute(f"COPY ({rows}) TO {quoted(path)} (FORMAT tlm, COMPRESSION zstd)")
        files = ", ".join([quoted(path)] * 40)
        took = self.interrupted(f"SELECT max(h), sum(i), count(DISTINCT h) FROM read_tlm([{files}])")
        self.check(took is not None and took < INTERRUPT_SECONDS, f"a scan ended {took} s after the interrupt")
        target = self.directory / "written.tlm"
        endless = "SELECT range AS i, md5(range::VARCHAR) AS h FROM range(200000000)"
        took = self.interrupted(f"COPY ({endless}) TO {quoted(target)} (FORMAT tlm, COMPRESSION zstd)")
        self.check(took is not None and took < INTERRUPT_SECONDS, f"a COPY ended {took} s after the interrupt")
        self.check(self.leftovers() == ["big.tlm"], f"left after interrupts: {self.leftovers()}")
        count = self.connection.execute(f"SELECT count(*) FROM read_tlm({quoted(path)})").fetchall()
        self.check(count == [(2000000,)], f"after an interrupt the connection reads {count}")

    def in_child(self, setup, statement):
        """Run a statement in a fresh process; returns the process, which prints `started` before the statement."""
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            f"from support import connect\n{setup}\nc = connect({self.extension!r})\n"
            f"print('started', flush=True)\nc.execute({statement!r})\nprint('done', flush=True)\n"
        )
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kills(self):
        """A COPY killed at any moment leaves the old file, or none, under the final name."""
        old, new = self.directory / "old.tlm", self.directory / "new.tlm"
        self.connection.execute(f"COPY (SELECT 42 AS i) TO {quoted(old)} (FORMAT tlm)")
        for number, delay in enumerate([0.05, 0.2, 0.5, 1.0, 1.5]):
            target = [old, new][number % 2]
            rows = "SELECT range AS i, md5(range::VARCHAR) AS h FROM range(20000000)"
            process = self.in_child("", f"COPY ({rows}) TO {quoted(target)} (FORMAT tlm, ROWS_PER_BLOCK 20000)")
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            value = self.connection.execute(f"SELECT i FROM read_tlm({quoted(old)})").fetchall()
            self.check(value == [(42,)], f"after a kill the old file holds {value}")
            self.check(not new.exists(), f"a kill after {delay} s left a file under its final name")

    def full_disk(self):
        """A limit on file size stands in for a full disk: the write fails in the middle of a block."""
        target = self.directory / "full.tlm"
        self.connection.execute(f"COPY (SELECT 42 AS i) TO {quoted(target)} (FORMAT tlm)")
        setup = (
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))"
        )
        for options in ("COMPRESSION none", "COMPRESSION zstd, ROWS_PER_BLOCK 5000"):
            rows = "SELECT range AS i, md5(range::VARCHAR) AS h FROM range(300000)"
            process = self.in_child(setup, f"COPY ({rows}) TO {quoted(target)} (FORMAT tlm, {options})")
            out, error = process.communicate()
            self.check(process.returncode == 1 and "done" not in out, f"status {process.returncode}: {error[-500:]}")
            self.check("full.tlm" in error and "Error" in error, f"the error does not name the file: {error[-500:]}")
            value = self.connection.execute(f"SELECT i FROM read_tlm({quoted(target)})").fetchall()
            self.check(value == [(42,)], f"after a full disk the old file holds {value}")
            self.check(self.leftovers() == ["full.tlm"], f"left after a full disk: {self.leftovers()}")

    GROUPS = ["truncated", "damaged_files", "interrupts", "kills", "full_disk"]


def run_group(name, arguments):
    """(passed, failed) of one group, run in a process of its own."""
    command = [sys.executable, __file__, "--extension", arguments.extension, "--group", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    print("\n".join(line for line in lines[:-1]), end="\n" if len(lines) > 1 else "")
    words = lines[-1].split() if lines else []
    if done.returncode not in (0, 1) or len(words) != 2:
        print(f"FAIL {name}: the process died with status {done.returncode}")
        return 0, 1
    return int(words[0]), int(words[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--group", choices=Group.GROUPS)
    arguments = parser.parse_args()
    if arguments.group:
        os.environ["PYTHONFAULTHANDLER"] = "1"
        with tempfile.TemporaryDirectory(prefix="pensieve-robustness-") as directory:
            group = Group(arguments.extension, directory)
            getattr(group, arguments.group)()
            print(group.passed, group.failed, flush=True)
            return 1 if group.failed else 0
    counts = [run_group(name, arguments) for name in Group.GROUPS]
    passed, failed = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
