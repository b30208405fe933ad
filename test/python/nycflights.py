#!/usr/bin/env python3
"""Questions about the New York flights of 2013: over extents they must have the answers they have over the CSV.

Also checks that a file read back equals its source row by row, and that a question about six hours skips most blocks.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from flights import QUESTIONS, load  # noqa: E402
from support import Tally, add_extension_argument, connect, quoted  # noqa: E402

LAYOUTS = [
    ("blocks of 10,000, lz4", "COMPRESSION lz4, ROWS_PER_BLOCK 10000"),
    ("blocks of 25,000, zstd, dictionaries", "COMPRESSION zstd, ROWS_PER_BLOCK 25000, DICTIONARY true"),
    ("defaults", ""),
]


def rows(connection, sql):
    return connection.execute(sql).fetchall()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    arguments = parser.parse_args()
    connection = connect(arguments.extension)
    load(connection)
    tally = Tally()
    tally.check("rows of flights", [(336776,)], rows(connection, "SELECT count(*) FROM flights"))
    answers = [rows(connection, sql) for _, sql in QUESTIONS]
    for (question, _), answer in zip(QUESTIONS, answers):
        if not answer:
            tally.check(f"{question} has an answer", "rows", answer)
    with tempfile.TemporaryDirectory(prefix="pensieve-flights-") as directory:
        for number, (layout, options) in enumerate(LAYOUTS):
            connection.execute("CREATE SCHEMA extents")
            for table in ("flights", "weather"):
                path = Path(directory) / f"{number}-{table}.tlm"
                clause = f"FORMAT tlm, {options}" if options else "FORMAT tlm"
                connection.execute(f"COPY {table} TO {quoted(path)} ({clause})")
                connection.execute(f"CREATE VIEW extents.{table} AS FROM read_tlm({quoted(path)})")
                for one, other in ((f"main.{table}", f"extents.{table}"), (f"extents.{table}", f"main.{table}")):
                    difference = f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})"
                    tally.check(f"{layout}: {one} EXCEPT {other}", [(0,)], rows(connection, difference))
            connection.execute("SET search_path = 'extents'")
            for (question, sql), answer in zip(QUESTIONS, answers):
                tally.check(f"{layout}: {question}\n  {sql}", answer, rows(connection, sql))
            if number == 0:
                rows(connection, QUESTIONS[0][1])
                skipped = rows(connection, "SELECT sum(skipped) FROM pensieve_last_scan() WHERE unit = 'block'")[0][0] or 0
                tally.check("six hours of a year skip most of the 34 blocks", True, skipped >= 30)
            connection.execute("SET search_path = 'main'")
            connection.execute("DROP SCHEMA extents CASCADE")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
