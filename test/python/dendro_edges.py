#!/usr/bin/env python3
"""Archives that only a program can make: several clock offsets, segments whose columns differ in type, odd labels, and
indexes that a Python function tests. COPY writes them, SQLite changes them."""

import argparse
import sqlite3
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
from dendro_fixtures import DATA, Check  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

SECOND = 1_000_000_000


def write(check, path, query, rows_per_segment=10):
    check.connection.execute(
        f"COPY ({query}) TO {quoted(path)} (FORMAT dendro, STREAM 's', TS_COLUMN 'ts', SEGMENT_ROWS {rows_per_segment})"
    )


def change(path, *statements):
    database = sqlite3.connect(path)
    for sql, parameters in statements:
        database.execute(sql, parameters)
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def clock_offsets(check, directory):
    """The wall clock is a row's timestamp plus the offset in force there, also for pruning."""
    path = Path(directory) / "clock.dendro"
    write(check, path, f"SELECT range * {SECOND} AS ts, range AS n FROM range(40)")
    offsets = [(9, 1000), (19, 500), (25, -3000), (39, 70_000)]
    change(
        path,
        ("DELETE FROM clock_offsets", ()),
        *[("INSERT INTO clock_offsets VALUES (1, ?, ?)", (at * SECOND, by * SECOND)) for at, by in offsets],
    )

    def wall(n):
        return n + ([by for at, by in offsets if at <= n] or [offsets[0][1]])[-1]

    scan = f"read_dendro({quoted(path)})"
    check.equal("wall clock of every row", check.rows(f"SELECT n, epoch_ns(wall_ts) // {SECOND} FROM {scan} ORDER BY n"),
                [(n, wall(n)) for n in range(40)])
    walls = sorted({wall(n) for n in range(40)})
    for bound in sorted({b + d for b in walls for d in (-1, 0, 1)} | {0, 100_000}):
        for operator, holds in (("<", int.__lt__), ("<=", int.__le__), ("=", int.__eq__), (">=", int.__ge__), (">", int.__gt__)):
            check.equal(
                f"wall_ts {operator} {bound} s",
                check.rows(f"SELECT list(n ORDER BY n) FROM {scan} WHERE wall_ts {operator} make_timestamp_ns({bound * SECOND})")[0][0] or [],
                [n for n in range(40) if holds(wall(n), bound)],
            )
    check.rows(f"FROM {scan} WHERE wall_ts > make_timestamp_ns({50_000 * SECOND})")
    check.equal("segments before the last offset are skipped",
                check.rows("SELECT considered, skipped FROM pensieve_last_scan() WHERE unit = 'extent' AND evidence = 'time'"),
                [(4, 3)])


def mixed_types(check, directory):
    """A column whose type differs between segments is widened; filters prune by each segment's own statistics."""
    kinds = [("TINYINT", "range - 5"), ("INTEGER", "range * 1000"), ("BIGINT", "range * 10000000000"), ("USMALLINT", "range + 60000")]
    path = Path(directory) / "mixed.dendro"
    expected = []
    for place, (kind, value) in enumerate(kinds):
        part = Path(directory) / f"part{place}.dendro"
        write(check, part if place else path, f"SELECT (range + {place * 10}) * {SECOND} AS ts, ({value})::{kind} AS v FROM range(10)")
        expected += check.rows(f"SELECT ts, v FROM read_dendro({quoted(part if place else path)})")
        if place:
            source = sqlite3.connect(part)
            rows, first, last, blob = source.execute("SELECT rows, first_ts, last_ts, bytes FROM segments").fetchone()
            source.close()
            change(path, ("INSERT INTO segments VALUES (1, 's', ?, ?, ?, ?, ?)", (place, rows, first, last, blob)))
    scan = f"read_dendro({quoted(path)}, union_by_name := true)"
    check.equal("type of the column", check.rows(f"SELECT DISTINCT typeof(v) FROM {scan}"), [("BIGINT",)])
    check.equal("rows of all types", check.rows(f"SELECT ts, v FROM {scan} ORDER BY ts"), expected)
    for condition in ("v < 0", "v = 3000", "v > 9000", "v >= 60005 AND v < 70000", "v = 20000000000", "v IN (-5, 60009)", "v IS NULL",
                      "v <> 0", "v BETWEEN -1 AND 1", "NOT (v > 0)"):
        native = check.rows(f"SELECT count(*), sum(v) FROM (SELECT unnest({[v for _, v in expected]}) AS v) WHERE {condition}")
        check.equal(f"mixed types: {condition}", check.rows(f"SELECT count(*), sum(v) FROM {scan} WHERE {condition}"), native)
    check.rows(f"FROM {scan} WHERE v = 60005")
    # 60005 is no USMALLINT of the first, and within the bounds of the third
    check.equal("segments of other types are skipped by their statistics",
                check.rows("SELECT skipped FROM pensieve_last_scan() WHERE unit = 'block' AND evidence = 'minmax'"), [(2,)])
    # a text beside numbers has no common type
    part = Path(directory) / "text.dendro"
    write(check, part, f"SELECT 50::BIGINT * {SECOND} AS ts, 'x' AS v")
    source = sqlite3.connect(part)
    rows, first, last, blob = source.execute("SELECT rows, first_ts, last_ts, bytes FROM segments").fetchone()
    source.close()
    change(path, ("INSERT INTO segments VALUES (1, 's', 9, ?, ?, ?, ?)", (rows, first, last, blob)))
    message = check.message(f"FROM {scan}") or ""
    check.equal(f"no common type is an error: {message}", '"v"' in message and "segment 9" in message, True)


def odd_labels(check, directory):
    """Labels are the producer's JSON: what is not a text or an object must neither crash nor become one."""
    path = Path(directory) / "labels.dendro"
    write(check, path, f"SELECT range * {SECOND} AS ts FROM range(3)")
    for stored in ('{"host": null}', '{"host": null, "job": "j"}', '{"host": 7}', '{"host": ["a"]}', '{"host": {"a": "b"}}', "null", "[]", "7",
                   '"x"', "", "{", '{"host": "a", "host": "b"}'):
        change(path, ("UPDATE sources SET labels = ?", (stored,)))
        for sql in (f"SELECT labels FROM read_dendro({quoted(path)})", f"SELECT labels FROM dendro_sources({quoted(path)})",
                    f"SELECT count(*) FROM read_dendro({quoted(path)}, label := {{'host': 'null'}})"):
            message = check.message(sql)
            check.equal(f"labels {stored!r}: {sql}: {message}", message is None or (not message.startswith("INTERNAL") and
                        ("label" in message or "no source" in message)), True)
        if check.message(f"FROM read_dendro({quoted(path)})") is None:
            check.equal(f"labels {stored!r}: rows", check.rows(f"SELECT count(*) FROM read_dendro({quoted(path)})"), [(3,)])


def index_function(check, extension):
    """A Python function rules segments out by the index that their producer stored."""
    connection = connect(extension)
    check.connection = connection
    asked = []

    def has_host(index: bytes, host: str) -> bool:
        asked.append(bytes(index))
        return f'"{host}"'.encode() in bytes(index)

    def fails(index: bytes) -> bool:
        raise ValueError("no such index")

    connection.create_function("has_host", has_host, ["BLOB", "VARCHAR"], "BOOLEAN")
    connection.create_function("fails", fails, ["BLOB"], "BOOLEAN")
    connection.create_function("forgets", lambda index: None, ["BLOB"], "BOOLEAN", null_handling="special")
    connection.create_function("drifts", lambda index: True, ["BLOB"], "BOOLEAN", side_effects=True)
    for version in (4, 5):
        file = quoted(DATA / f"caller_index_v{version}.dendro")
        scan = f"read_dendro({file}, stream := 'idx-log', index_function := '%s'%s)"
        asked.clear()
        check.equal("rows of the segment kept", check.rows(f"SELECT count(*) FROM {scan % ('has_host', ', index_argument := ' + quoted('host2'))}"), [(10,)])
        check.equal("every index was asked about", len(asked), 4)
        check.equal("counted", check.rows("SELECT considered, skipped FROM pensieve_last_scan() WHERE evidence = 'caller_index'"), [(4, 3)])
        asked.clear()
        late = f"SELECT count(*) FROM {scan % ('has_host', ', index_argument := ' + quoted('host3'))} WHERE \"timestamp\" >= 1760000020000000000"
        check.equal("after the time filter", check.rows(late), [(10,)])
        check.equal("indexes of what time ruled out are not read", len(asked), 2)
        check.equal("NULL keeps", check.rows(f"SELECT count(*) FROM {scan % ('forgets', '')}"), [(40,)])
        for function, said in (("fails", "no such index"), ("drifts", "volatile"), ("missing_function", "missing_function"), ("has_host", "has_host")):
            message = check.message(f"FROM {scan % (function, '')}") or ""
            check.equal(f"{function}: {message}", said in message and function in message and "caller_index_v" in message, True)
            check.equal("the connection goes on", check.rows("SELECT 42"), [(42,)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    arguments = parser.parse_args()
    check = Check(connect(arguments.extension))
    with tempfile.TemporaryDirectory(prefix="pensieve-dendro-") as directory:
        for part in (clock_offsets, mixed_types, odd_labels):
            try:
                part(check, directory)
            except duckdb.Error as error:
                check.equal(f"{part.__name__} runs", str(error), None)
        index_function(check, arguments.extension)
    print(f"dendro edges: {check.passed} checks passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
