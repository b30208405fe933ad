#!/usr/bin/env python3
"""Files that pyarrow writes, with types and statistics at the edges: every value as read_parquet or pyarrow has it, and one column that
cannot be read takes no other with it.
"""

import argparse
import datetime
import decimal
import io
import math
import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

FOOTER_END = 8


def same(left, right):
    """Equality in which NaN equals itself, and numbers of different types are compared as numbers."""
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right


def plain(value):
    """A value of pyarrow as DuckDB shows it: maps as dictionaries, fixed-size lists as tuples (which lists equal here)."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


class Tests:
    """The cases; each makes its files in `directory`."""

    def __init__(self, extension, directory):
        self.directory = Path(directory)
        self.connection = connect(extension)
        self.passed = self.failed = 0

    def check(self, holds, text):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {text}", flush=True)

    def rows(self, sql):
        """The rows, or the error as text."""
        try:
            return self.connection.execute(sql).fetchall()
        except (duckdb.InternalException, duckdb.FatalException) as error:
            raise SystemExit(f"{sql}\n  {error}") from error
        except duckdb.Error as error:
            return str(error)

    def equal(self, sql, expected):
        found = self.rows(sql)
        self.check(same(found, expected), f"{sql}\n  {str(found)[:2000]}\n  where {str(expected)[:2000]} is right")

    def as_read_parquet(self, path, columns="*", where="true"):
        """Types and values are those of DuckDB's own reader."""
        for form in ("DESCRIBE SELECT {} FROM {}({}) WHERE {}", "SELECT {} FROM {}({}) WHERE {}"):
            theirs = self.rows(form.format(columns, "read_parquet", quoted(path), where))
            self.check(not isinstance(theirs, str), theirs)
            self.equal(form.format(columns, "read_extent", quoted(path), where), theirs)

    def parquet(self, table, name="t.parquet", **options):
        path = self.directory / name
        pq.write_table(table, path, **options)
        return path

    def tlm(self, table, name="t.tlm", block_rows=None):
        """An extent of version 1: an Arrow IPC file behind the magic."""
        body = io.BytesIO()
        with pa.ipc.new_file(body, table.schema) as writer:
            writer.write_table(table, max_chunksize=block_rows)
        path = self.directory / name
        path.write_bytes(b"PENSIEVE\x01" + body.getvalue())
        return path

    # Statistics

    def carried_statistics(self):
        """A tool changed the rows and carried the file's free metadata along."""
        path = self.directory / "ours.parquet"
        self.connection.execute(
            f"COPY (SELECT range AS id, range::DOUBLE AS d FROM range(10000)) TO {quoted(path)} "
            "(FORMAT pensieve_parquet, ROWS_PER_BLOCK 2048)"
        )
        file = pq.ParquetFile(path)
        entries = {**(file.metadata.metadata or {}), **(file.schema_arrow.metadata or {})}
        claim = ",".join(
            f'{{"row_count":{file.metadata.row_group(i).num_rows},"cols":{{}},'
            '"ext":{"d":{"k":"f64","min":"0","max":"9999","nulls":0,"nans":0}}}'
            for i in range(file.metadata.num_row_groups)
        )
        table = file.read()
        changed = [math.nan if i == 5000 else None if i == 7000 else float(i) for i in range(10000)]
        for claimed in ({}, {b"pensieve.block_stats": f"[{claim}]".encode()}):
            edited = table.set_column(1, "d", pa.array(changed)).replace_schema_metadata({**entries, **claimed})
            for options in ({}, {"write_statistics": False}):
                edited_path = self.parquet(edited, "edited.parquet", row_group_size=2048, **options)
                of = f"FROM read_extent({quoted(edited_path)}) WHERE"
                self.equal(f"SELECT id {of} d > 20000", [(5000,)])
                self.equal(f"SELECT id {of} d IS NULL", [(7000,)])
                self.equal(f"SELECT count(*) {of} NOT (d <= 9999)", [(1,)])

    def impossible_lengths(self):
        """A value of a statistic that is longer or shorter than its type is ignored, and nothing else is."""
        low, high = 0x1122334455667788, 0x2132435465768798
        for arrow_type, form, values in (
            (pa.int64(), "<q", [low, low + 1, high]),
            (pa.int32(), "<i", [0x11223344, 0x11223355, 0x21324354]),
            (pa.float64(), "<d", [1.2345678, 2.5, 9.8765432]),
            (pa.float32(), "<f", [1.25, 2.5, 9.3125]),
            (pa.timestamp("us"), "<q", [low >> 8, (low >> 8) + 1, high >> 8]),
        ):
            table = pa.table({"id": [1, 2, 3], "v": pa.array(values, arrow_type), "t": ["a", "b", "c"]})
            for index in (False, True):
                whole = self.parquet(table, "whole.parquet", write_page_index=index, use_dictionary=False)
                data = whole.read_bytes()
                expected = self.rows(f"SELECT * FROM read_parquet({quoted(whole)})")
                for value in (values[0], values[-1]):
                    raw = struct.pack(form, value)
                    for other in (raw + b"\x7f" * 8, raw[:-1], b"", b"\x7f" * (len(raw) + 1)):
                        damaged = self.with_value(data, raw, other, index)
                        path = self.directory / "lengths.parquet"
                        path.write_bytes(damaged)
                        what = f"read_extent({quoted(path)})"
                        self.equal(f"SELECT * FROM {what}", expected)
                        for row in expected:
                            literal = quoted(row[1]) if isinstance(row[1], datetime.datetime) else repr(row[1])
                            self.equal(f"SELECT id FROM {what} WHERE v = {literal}::{self.sql_type(path)}", [(row[0],)])
                        self.equal(f"SELECT id FROM {what} WHERE t = 'c'", [(3,)])
                        self.equal(f"SELECT min(id), max(v) = (SELECT max(v) FROM {what}) FROM {what}", [(1, True)])

    def sql_type(self, path):
        return self.rows(f"DESCRIBE SELECT v FROM read_parquet({quoted(path)})")[0][1]

    def with_value(self, data, value, other, indexes):
        """The file with a value of its statistics replaced: in the column index by one that keeps the length of the index, in the
        footer by one of any length."""
        length = struct.unpack("<I", data[-8:-4])[0]
        body, footer = data[: -FOOTER_END - length], data[-FOOTER_END - length : -FOOTER_END]
        old, new = bytes([len(value)]) + value, bytes([len(other)]) + other
        self.check(old in footer, "the footer has the value")
        footer = footer.replace(old, new)
        if indexes and old in body:
            # one byte more, of the next element's length: the index is impossible as a whole
            body = body.replace(old, bytes([len(value) + 1]) + value)
        return body + footer + struct.pack("<I", len(footer)) + b"PAR1"

    # Types

    def int96(self):
        """Timestamps of 96 bits hold every year that microseconds hold."""
        years = [datetime.datetime(y, 1, 2, 3, 4, 5, 678901) for y in (1, 1500, 1677, 1970, 2262, 2263, 9999)]
        times = pa.array([*years, None], pa.timestamp("us"))
        table = pa.table(
            {
                "ts": times,
                "l": pa.array([[t, None] if t else None for t in times.to_pylist()], pa.list_(pa.timestamp("us"))),
                "s": pa.StructArray.from_arrays([times, pa.array(range(8))], ["a", "b"]),
                "z": times.cast(pa.timestamp("us", "UTC")),
            }
        )
        for store_schema in (True, False):
            path = self.parquet(table, "int96.parquet", use_deprecated_int96_timestamps=True, store_schema=store_schema)
            self.as_read_parquet(path)
            self.equal(f"SELECT DISTINCT column_type FROM (DESCRIBE SELECT ts, z FROM read_extent({quoted(path)}))", [("TIMESTAMP",)])
            self.as_read_parquet(path, where="ts > '2262-06-01'")
            self.as_read_parquet(path, "s.a", where="s.a < '1600-01-01'")
            self.equal(f"SELECT max(ts) FROM read_extent({quoted(path)})", [(years[-1],)])

    def dictionaries(self):
        """Dictionaries anywhere, of anything."""
        words = pa.array(["x", "yy", None, "x", "yy", "x"]).dictionary_encode()
        numbers = pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 1, 0, 1], pa.int8()), pa.array([decimal.Decimal("1.50"), decimal.Decimal("-0.25")])
        )
        flags = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1, 1, 0], pa.int32()), pa.array([True, False]))
        days = pa.array([datetime.date(2026, 1, 1 + i % 2) for i in range(6)]).dictionary_encode()
        offsets = pa.array([0, 2, 2, 6], pa.int32())

        def nested(values):
            return {
                "l": pa.ListArray.from_arrays(offsets, values),
                "f": pa.FixedSizeListArray.from_arrays(values, 2),
                "s": pa.StructArray.from_arrays([values.slice(1, 3), pa.array([1, 2, 3])], ["a", "b"]),
                "m": pa.MapArray.from_arrays(pa.array([0, 1, 3, 6], pa.int32()), pa.array(list("abcdef")), values),
                "n": pa.ListArray.from_arrays(
                    pa.array([0, 1, 1, 2], pa.int32()),
                    pa.StructArray.from_arrays([pa.ListArray.from_arrays(pa.array([0, 3, 6], pa.int32()), values)], ["i"]),
                ),
                "v": values.slice(2, 3),
            }

        for name, values in (("words", words), ("numbers", numbers), ("flags", flags), ("days", days)):
            table = pa.table({"id": [1, 2, 3], **nested(values)})
            expected = [tuple(map(plain, row.values())) for row in table.to_pylist()]
            for block_rows in (None, 2):
                path = self.tlm(table, f"{name}.tlm", block_rows)
                self.equal(f"SELECT * FROM read_tlm({quoted(path)})", expected)
                self.equal(f"SELECT id FROM read_tlm({quoted(path)}) WHERE len(l) = 4 AND v IS NOT NULL", [(3,)])
            path = self.parquet(table, f"{name}.parquet")
            self.as_read_parquet(path, "* EXCLUDE (f)")
            self.equal(f"SELECT f FROM read_extent({quoted(path)})", [(row[2],) for row in expected])

        keys = pa.array([None] * 4, pa.int32())
        empty = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
        hollow = pa.table(
            {
                "id": [1, 2, 3, 4],
                "l": pa.ListArray.from_arrays(pa.array([0, 0, 0, 0, 0], pa.int32()), empty),
                "d": pa.DictionaryArray.from_arrays(keys, pa.array([], pa.string())),
                "b": pa.DictionaryArray.from_arrays(keys, pa.array([], pa.bool_())),
            }
        )
        path = self.tlm(hollow)
        self.equal(f"SELECT * FROM read_tlm({quoted(path)})", [(i, [], None, None) for i in range(1, 5)])
        self.as_read_parquet(self.parquet(hollow))

    def run_ends(self):
        """Run-end encoded values below the top."""
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5, 6], pa.int32()), pa.array(["a", None, "b"]))
        table = pa.table(
            {"l": pa.ListArray.from_arrays(pa.array([0, 1, 4, 6], pa.int32()), runs), "s": pa.StructArray.from_arrays([runs.slice(1, 3)], ["r"])}
        )
        expected = [(["a"], {"r": "a"}), (["a", None, None], {"r": None}), ([None, "b"], {"r": None})]
        self.equal(f"SELECT * FROM read_tlm({quoted(self.tlm(table))})", expected)

    def halves_and_wide_decimals(self):
        """Numbers that DuckDB has no type for come as the nearest it has, wherever they are."""
        halves = pa.array([0.5, -2.0, None, math.inf, 65504.0, math.nan], pa.float16())
        wide = pa.array([decimal.Decimal(v) for v in ("1.25", "-2.5", "123456789012345678901234567890123456.75")] * 2, pa.decimal256(50, 2))
        narrow = wide.slice(0, 2).cast(pa.decimal256(20, 2))
        for values, small in ((halves, halves.slice(0, 3)), (wide, wide.slice(0, 3)), (pa.concat_arrays([narrow] * 3), pa.concat_arrays([narrow] * 2).slice(0, 3))):
            table = pa.table(
                {
                    "id": [1, 2, 3],
                    "v": small,
                    "l": pa.ListArray.from_arrays(pa.array([0, 2, 2, 6], pa.int32()), values),
                    "f": pa.FixedSizeListArray.from_arrays(values, 2),
                    "s": pa.StructArray.from_arrays([values.slice(1, 3), pa.array([1, 2, 3])], ["a", "b"]),
                    "m": pa.MapArray.from_arrays(pa.array([0, 1, 3, 6], pa.int32()), pa.array(list("abcdef")), values),
                }
            )
            path = self.parquet(table)
            columns = "id, v, l, s, m"
            self.as_read_parquet(path, columns)
            self.as_read_parquet(path, "id", "v > 1")
            self.as_read_parquet(path, "id", "v = 123456789012345678901234567890123456.75::DOUBLE")
            expected = self.rows(f"SELECT {columns}, f FROM read_extent({quoted(path)})")
            self.equal(f"SELECT {columns}, f FROM read_tlm({quoted(self.tlm(table))})", expected)
        scaled = pa.array([decimal.Decimal(25)], pa.decimal128(5, 0)).view(pa.decimal128(5, -2))
        deep = pa.array([decimal.Decimal(25)], pa.decimal128(5, 0)).view(pa.decimal128(5, 7))
        path = self.tlm(pa.table({"a": scaled, "b": deep, "l": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), scaled)}))
        self.equal(f"SELECT a, b, l FROM read_tlm({quoted(path)})", [(decimal.Decimal(2500), decimal.Decimal("0.0000025"), [decimal.Decimal(2500)])])

    def unreadable_columns(self):
        """A type that cannot be read is an error of its column only."""
        nothing = pa.list_(pa.int32(), 0)
        no_values = pa.array([[], None, []], nothing)
        table = pa.table(
            {
                "id": [1, 2, 3],
                "z": no_values,
                "s": pa.StructArray.from_arrays([no_values, pa.array([1, 2, 3])], ["z", "i"]),
                "t": ["a", "b", "c"],
            }
        )
        path = self.tlm(table)
        of = f"FROM read_tlm({quoted(path)})"
        self.equal(f"SELECT id, t {of} WHERE id > 1", [(2, "b"), (3, "c")])
        self.equal(f"SELECT count(*) {of}", [(3,)])
        self.equal(f"SELECT column_name FROM (DESCRIBE FROM read_tlm({quoted(path)}))", [(n,) for n in table.column_names])
        for column in ("z", "s"):
            error = self.rows(f"SELECT {column} {of}")
            named = isinstance(error, str) and f'column "{column}" cannot be read' in error and "corrupt" not in error
            self.check(named, f"SELECT {column}: {error}")

    # Sizes

    def long_text(self):
        """More text in a row group than one Arrow array holds."""
        rows = 17000
        letters = [chr(97 + i % 26) * 140_000 for i in range(170)]
        chunk = pa.array(letters)
        text = pa.chunked_array([chunk] * 100)
        ids = pa.array(range(rows))
        expected = [(rows, 140_000 * rows, "a" * 3, "z" * 3)]
        measure = "SELECT count(*), sum(length(t)), min(t)[:3], max(t)[:3] FROM read_extent({})"
        path = self.parquet(
            pa.table({"id": ids, "t": text}), "plain.parquet", use_dictionary=False, compression="zstd", row_group_size=rows
        )
        self.equal(measure.format(quoted(path)), expected)
        self.equal(f"SELECT id, length(t) FROM read_extent({quoted(path)}) WHERE id IN (3, 16999) ORDER BY ALL", [(3, 140_000), (16999, 140_000)])
        path.unlink()
        # values that repeat: a small chunk, and no hint of what it becomes
        lists = pa.chunked_array([pa.ListArray.from_arrays(pa.array(range(171), pa.int32()), chunk)] * 100)
        path = self.parquet(pa.table({"id": ids, "l": lists}), "lists.parquet", compression="zstd", row_group_size=rows)
        self.equal(measure.replace("(t)", "(l[1])").format(quoted(path)), expected)
        self.equal(f"SELECT length(l[1]) FROM read_extent({quoted(path)}) WHERE id > 16997", [(140_000,)] * 2)
        path.unlink()

    CASES = (
        "carried_statistics",
        "impossible_lengths",
        "int96",
        "dictionaries",
        "run_ends",
        "halves_and_wide_decimals",
        "unreadable_columns",
        "long_text",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_extension_argument(parser)
    parser.add_argument("--only", nargs="*", choices=Tests.CASES, default=Tests.CASES, help="these cases")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        tests = Tests(args.extension, directory)
        for case in args.only:
            getattr(tests, case)()
        print(f"{tests.passed} passed, {tests.failed} failed")
        return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
