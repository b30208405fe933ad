#!/usr/bin/env python3
"""Every archive of `test/data/dendro/manifest.json` through SQL: sources, streams, segments, rows, refusals."""

import argparse
import datetime
import json
import shutil
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
from support import ROOT, add_extension_argument, connect, quoted  # noqa: E402

DATA = ROOT / "test" / "data" / "dendro"

# What the message about a file that is refused has to say, by what is wrong with it.
REFUSALS = {
    "foreign_application_id.dendro": "another application",
    "no_catalog.dendro": "catalog",
    "not_sqlite.dendro": "not a SQLite database",
    "truncated_0.dendro": "",
    "truncated_50.dendro": "",
    "truncated_100.dendro": "cut short",
    "truncated_4096.dendro": "cut short",
    "truncated_half.dendro": "cut short",
    "truncated_minus_one_page.dendro": "cut short",
    "user_version_0.dendro": "version 0",
    "user_version_3.dendro": "version 3",
    "user_version_6.dendro": "version 6",
    "user_version_99.dendro": "version 99",
    "zero_application_id.dendro": "application_id",
}
LISTINGS = ("sources", "streams", "segments", "events", "clock_offsets", "caller_rows", "documents")


class Check:
    def __init__(self, connection):
        self.connection = connection
        self.passed = self.failed = 0

    def equal(self, what, found, expected):
        if found == expected:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAIL {what}\n  found    {found!r}\n  expected {expected!r}", flush=True)

    def rows(self, sql, *parameters):
        return self.connection.execute(sql, parameters).fetchall()

    def message(self, sql):
        """The message of the error that `sql` gives; None when it succeeds. An internal error is not one."""
        try:
            self.connection.execute(sql).fetchall()
        except (duckdb.InternalException, duckdb.FatalException) as error:
            return f"INTERNAL {error}"
        except duckdb.Error as error:
            return str(error)
        return None


def check_refusal(check, path):
    statements = [f"FROM dendro_{name}({quoted(path)})" for name in LISTINGS]
    statements += [f"FROM read_dendro({quoted(path)})", f"ATTACH {quoted(path)} AS refused (TYPE pensieve)"]
    for sql in statements:
        message = check.message(sql)
        said = message is not None and not message.startswith("INTERNAL") and path.name in message
        check.equal(f"{sql} names the file: {message}", said, True)
        wanted = REFUSALS[path.name]
        check.equal(f"{sql} says '{wanted}': {message}", wanted.lower() in (message or "").lower(), True)


def same(found, expected):
    """Whether a value of DuckDB is the one that the manifest has as JSON."""
    if found is None or expected is None:
        return found is expected
    if isinstance(found, (datetime.datetime, datetime.date)):
        return found.isoformat() == expected.removesuffix("Z")
    if isinstance(found, bytes):
        return found.hex() == expected
    if isinstance(found, (float, Decimal)):
        return abs(float(found) - expected) < 1e-4
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], value) for key, value in expected.items())
    return found == expected


def check_stream(check, path, source, stream):
    name = stream["stream"]
    scan = f"read_dendro({quoted(path)}, source := {source['id']}, stream := {quoted(name)})"
    where = f"{path.name} source {source['id']} stream {name}"
    sealed = stream["sealed"]
    damaged = [s for s in stream["segments"] if s["decode_error"]]
    if damaged:
        message = check.message(f"FROM {scan}") or ""
        check.equal(f"{where}: damage names its segment: {message}", f"segment {damaged[0]['seq']}" in message, True)
        return
    check.equal(f"{where}: count", check.rows(f"SELECT count(*) FROM {scan}"), [(sealed["parquet_rows"],)])
    # Python needs another package for timestamps with a zone; these are instants of UTC
    zoned = [name for name, kind, *_ in check.rows(f"DESCRIBE FROM {scan}") if kind.startswith("TIMESTAMPTZ")]
    replace = ", ".join(f'make_timestamp_ns(epoch_ns("{name}")) AS "{name}"' for name in zoned)
    result = check.connection.execute(f"SELECT * {f'REPLACE ({replace})' if zoned else ''} FROM {scan}")
    columns = [column[0] for column in result.description]
    rows = result.fetchall()
    check.equal(f"{where}: rows", len(rows), sealed["parquet_rows"])
    for row, expected in ((0, sealed["first_row"]), (-1, sealed["last_row"])):
        if expected is None:
            continue
        found = dict(zip(columns, rows[row]))
        differing = {k: (found.get(k), v) for k, v in expected.items() if not same(found.get(k), v)}
        check.equal(f"{where}: row {row}", differing, {})
        check.equal(f"{where}: source columns", (found["source_id"], found["source_uuid"], found["labels"]),
                    (source["id"], source["uuid"], source["labels"]))
    if "wall_offset" in columns and rows:
        # the fixtures' encoder records the offset of every row; the catalog has those at seal boundaries
        at = {ts: offset for ts, offset in source["clock_offsets"]}
        found = check.rows(f'SELECT "timestamp", epoch_ns(wall_ts) - "timestamp" FROM {scan}')
        differing = [(ts, offset) for ts, offset in found if ts in at and offset != at[ts]]
        check.equal(f"{where}: wall clock at the observations", differing, [])
    if "timestamp" in columns and rows:
        span = (sealed["first_ts"], sealed["last_ts"])
        check.equal(f"{where}: span", check.rows(f'SELECT min("timestamp"), max("timestamp") FROM {scan}'), [span])
        for segment in stream["segments"]:
            # what pruning by the catalog keeps is what a plain filter keeps
            low, high = segment["first_ts"], segment["last_ts"]
            found = check.rows(f'SELECT count(*) FROM {scan} WHERE "timestamp" BETWEEN {low} AND {high}')
            index = columns.index("timestamp")
            check.equal(f"{where}: segment {segment['seq']}", found,
                        [(sum(1 for row in rows if low <= row[index] <= high),)])


def check_catalog(check, path, expected):
    file = quoted(path)
    sources = expected["sources"]
    check.equal(f"{path.name}: sources",
                check.rows("SELECT source_id, source_uuid, complete, clock_anchor_wall_ns, labels, metadata, encoder, "
                           f"schema_version FROM dendro_sources({file})"),
                [(s["id"], s["uuid"], s["complete"], s["clock_anchor_wall_ns"], s["labels"], s["metadata"],
                  s["metadata"].get("encoder"), expected["user_version"]) for s in sources])
    check.equal(f"{path.name}: streams",
                check.rows("SELECT source_id, stream, segments, catalog_rows, first_ts, last_ts, live_rows, "
                           f"live_first_ts, live_last_ts, warning IS NOT NULL FROM dendro_streams({file})"),
                [(s["id"], t["stream"], len(t["segments"]), t["sealed"]["catalog_rows"], t["sealed"]["first_ts"],
                  t["sealed"]["last_ts"], t["live"]["rows"], t["live"]["first_ts"], t["live"]["last_ts"],
                  t["live"]["rows"] > 0) for s in sources for t in s["streams"]])
    check.equal(f"{path.name}: segments",
                check.rows("SELECT source_id, stream, seq, catalog_rows, first_ts, last_ts, byte_size, "
                           f"decode(caller_index), caller_index_size FROM dendro_segments({file})"),
                [(s["id"], t["stream"], g["seq"], g["catalog_rows"], g["first_ts"], g["last_ts"], g["bytes"],
                  g["caller_index_utf8"], g["caller_index_utf8"] and len(g["caller_index_utf8"]))
                 for s in sources for t in s["streams"] for g in t["segments"]])
    check.equal(f"{path.name}: clock offsets",
                check.rows(f"SELECT source_id, ts, offset_ns FROM dendro_clock_offsets({file})"),
                [(s["id"], ts, offset) for s in sources for ts, offset in s["clock_offsets"]])
    check.equal(f"{path.name}: caller rows",
                sorted(check.rows(f"SELECT source_id, stream, ts, lower(hex(blob)) FROM dendro_caller_rows({file})")),
                sorted((s["id"], c["stream"], ts, blob) for s in sources for c in s["caller_rows"]
                       for ts, blob in c["rows"]))
    for name in LISTINGS:
        check.equal(f"{path.name}: count of {name}", check.rows(f"SELECT count(*) FROM dendro_{name}({file})")[0][0],
                    len(check.rows(f"FROM dendro_{name}({file})")))
    # several streams and none named: the message lists them
    names = sorted({t["stream"] for s in sources for t in s["streams"]})
    message = check.message(f"FROM read_dendro({file})")
    if len(names) > 1:
        listed = message is not None and all(f'"{name}"' in message for name in names)
        check.equal(f"{path.name}: the choices are listed: {message}", listed, True)


def check_attached(check, path, expected):
    """The streams as tables of a database."""
    check.rows(f"ATTACH {quoted(path)} AS fixture (TYPE pensieve)")
    streams = [(s["id"], t) for s in expected["sources"] for t in s["streams"]]
    check.equal(f"{path.name}: tables", check.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'fixture'"),
                [(name,) for name in sorted({t["stream"] for _, t in streams})])
    damaged = {t["stream"] for _, t in streams if any(g["decode_error"] for g in t["segments"])}
    for source, stream in streams:
        if stream["stream"] in damaged:
            continue
        table = 'fixture."' + stream["stream"].replace('"', '""') + '"'
        rows = check.rows(f"SELECT count(*) FROM {table} WHERE source_id = {source}")
        check.equal(f"{path.name}: {table} of source {source}", rows, [(stream["sealed"]["parquet_rows"],)])
    check.rows("DETACH fixture")


def check_tail(check, path, expected):
    """Unsealed rows are a note, and with pensieve_strict an error."""
    file = quoted(path)
    for source in expected["sources"]:
        for stream in source["streams"]:
            live = stream["live"]["rows"]
            if any(s["decode_error"] for s in stream["segments"]):
                continue
            scan = f"read_dendro({file}, source := {source['id']}, stream := {quoted(stream['stream'])})"
            check.rows(f"SELECT count(*) FROM {scan}")
            note = check.rows("SELECT string_agg(note, '') FROM pensieve_last_scan()")[0][0] or ""
            check.equal(f"{path.name} {stream['stream']}: note: {note}", f"{live} rows" in note, live > 0)
            check.rows("SET pensieve_strict = true")
            message = check.message(f"FROM {scan}")
            check.equal(f"{path.name} {stream['stream']}: strict: {message}",
                        message is not None and f"{live} rows" in message, live > 0)
            check.rows("RESET pensieve_strict")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    options = parser.parse_args()
    check = Check(connect(options.extension))
    manifest = json.loads((DATA / "manifest.json").read_text())
    with tempfile.TemporaryDirectory() as directory:
        for name, expected in sorted(manifest.items()):
            path = Path(directory) / name
            for suffix in ("", "-wal"):
                if (DATA / (name + suffix)).exists():
                    shutil.copy(DATA / (name + suffix), str(path) + suffix)
            before = path.read_bytes()
            if "open_error" in expected or "catalog_error" in expected:
                check_refusal(check, path)
            else:
                check_catalog(check, path, expected)
                for source in expected["sources"]:
                    for stream in source["streams"]:
                        check_stream(check, path, source, stream)
                check_tail(check, path, expected)
                check_attached(check, path, expected)
            check.equal(f"{name} is not written to", path.read_bytes() == before, True)
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed or not check.passed else 0


if __name__ == "__main__":
    sys.exit(main())
