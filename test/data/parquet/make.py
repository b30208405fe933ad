#!/usr/bin/env python3
"""Writes the Parquet files of this directory, and expected.json beside them. See GENERATION.md."""

import datetime as dt
import decimal
import json
import math
import pathlib
import struct
import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
EXPECTED = {}


# --- Thrift compact protocol, as much as a Parquet footer needs -------------------------------------------------------------

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 0x7F) << shift
            if not b & 0x80:
                return value
            shift += 7

    def zigzag(self):
        v = self.varint()
        return (v >> 1) ^ -(v & 1)

    def value(self, kind):
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return kind == BOOL_TRUE
        if kind == BYTE:
            return self.byte()
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == DOUBLE:
            self.at += 8
            return struct.unpack("<d", self.data[self.at - 8 : self.at])[0]
        if kind == BINARY:
            n = self.varint()
            self.at += n
            return self.data[self.at - n : self.at]
        if kind in (LIST, SET):
            head = self.byte()
            n, element = head >> 4, head & 0x0F
            if n == 15:
                n = self.varint()
            if element in (BOOL_TRUE, BOOL_FALSE):
                return (element, [self.byte() == 1 for _ in range(n)])
            return (element, [self.value(element) for _ in range(n)])
        if kind == STRUCT:
            fields, last = {}, 0
            while True:
                head = self.byte()
                if head == 0:
                    return fields
                delta, k = head >> 4, head & 0x0F
                last = last + delta if delta else self.zigzag()
                fields[last] = (k, self.value(k))
        raise ValueError(kind)


class Writer:
    def __init__(self):
        self.out = bytearray()

    def varint(self, v):
        while v >= 0x80:
            self.out.append(v & 0x7F | 0x80)
            v >>= 7
        self.out.append(v)

    def zigzag(self, v):
        self.varint((v << 1) ^ (v >> 63) if v < 0 else v << 1)

    def value(self, kind, v):
        if kind == BYTE:
            self.out.append(v)
        elif kind in (I16, I32, I64):
            self.zigzag(v)
        elif kind == DOUBLE:
            self.out += struct.pack("<d", v)
        elif kind == BINARY:
            self.varint(len(v))
            self.out += v
        elif kind in (LIST, SET):
            element, items = v
            if len(items) < 15:
                self.out.append(len(items) << 4 | element)
            else:
                self.out.append(0xF0 | element)
                self.varint(len(items))
            for item in items:
                if element in (BOOL_TRUE, BOOL_FALSE):
                    self.out.append(1 if item else 2)
                else:
                    self.value(element, item)
        elif kind == STRUCT:
            last = 0
            for field in sorted(v):
                k, inner = v[field]
                if k in (BOOL_TRUE, BOOL_FALSE):
                    k = BOOL_TRUE if inner else BOOL_FALSE
                if 0 < field - last < 16:
                    self.out.append((field - last) << 4 | k)
                else:
                    self.out.append(k)
                    self.zigzag(field)
                last = field
                if k not in (BOOL_TRUE, BOOL_FALSE):
                    self.value(k, inner)
            self.out.append(0)


def edit(name, change):
    """Rewrites the footer of a file. `change` gets the FileMetaData struct."""
    path = HERE / name
    data = path.read_bytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    meta = Reader(data[-8 - length : -8]).value(STRUCT)
    change(meta)
    w = Writer()
    w.value(STRUCT, meta)
    path.write_bytes(data[: -8 - length] + bytes(w.out) + struct.pack("<I", len(w.out)) + b"PAR1")


def chunks(meta, column=None):
    """The ColumnMetaData structs, of one column of every row group or of all."""
    for group in meta[4][1][1]:
        for i, chunk in enumerate(group[1][1][1]):
            if column is None or i == column:
                yield chunk[3][1]


def statistics(meta, column=None):
    for chunk in chunks(meta, column):
        if 12 in chunk:
            yield chunk[12][1]


def leaves(meta):
    return meta[2][1][1][1:]


def without_arrow_schema(meta):
    if 5 in meta:
        kind, (element, entries) = meta[5]
        meta[5] = (kind, (element, [e for e in entries if e[1][1] != b"ARROW:schema"]))


# --- Files ------------------------------------------------------------------------------------------------------------------


def write(name, table, rows, **options):
    options.setdefault("write_page_index", True)
    options.setdefault("compression", "zstd")
    pq.write_table(table, HERE / name, row_group_size=rows, data_page_size=options.pop("data_page_size", 1 << 20), **options)


def case(name, column, op, value, count, blocks, why):
    """`count` rows of the file satisfy `column op value`, and the row groups `blocks` cannot be skipped and all others are."""
    EXPECTED.setdefault(name, []).append(
        {"column": column, "op": op, "value": value, "count": count, "blocks": blocks, "why": why}
    )


def count(values, test):
    return sum(1 for v in values if v is not None and test(v))


def integers():
    name = "pyarrow_unsigned.parquet"
    u32 = list(range(10)) + [2**31 + i for i in range(10)] + [2**32 - 1 - i for i in range(10)]
    u64 = list(range(10)) + [2**63 + i for i in range(10)] + [2**64 - 1 - i for i in range(10)]
    u8 = [i % 10 for i in range(10)] + [120 + i for i in range(10)] + [246 + i for i in range(10)]
    write(name, pa.table({"u8": pa.array(u8, pa.uint8()), "u32": pa.array(u32, pa.uint32()), "u64": pa.array(u64, pa.uint64())}), 10)
    case(name, "u32", ">", {"int": str(2**31 - 1)}, 20, [1, 2], "unsigned 32-bit values above the signed range")
    case(name, "u32", "<", {"int": "5"}, 5, [0], "unsigned 32-bit values below")
    case(name, "u64", ">=", {"int": str(2**63)}, 20, [1, 2], "unsigned 64-bit values above the signed range")
    case(name, "u64", "=", {"int": str(2**64 - 1)}, 1, [2], "the largest unsigned value")
    case(name, "u64", ">", {"int": "-1"}, 30, [0, 1, 2], "a negative constant against unsigned values")
    case(name, "u8", "=", {"int": "255"}, 1, [2], "unsigned 8-bit values are stored in 32 bits")


def floats():
    nan = math.nan
    name = "pyarrow_nan.parquet"
    values = [float(i) for i in range(9)] + [nan] + [100.0 + i for i in range(10)] + [nan] * 10 + [None] * 5 + [1.0] * 5
    write(name, pa.table({"d": pa.array(values, pa.float64()), "f": pa.array(values, pa.float32()), "h": pa.array(values, pa.float16())}), 10)
    for column in "dfh":
        # The writer does not count NaN: every row group may hold one, and NaN is greater than every number.
        case(name, column, ">", {"float": "1000.0"}, 11, [0, 1, 2, 3], "NaN is greater than 1000 and in no bound")
        case(name, column, "<", {"float": "50.0"}, 14, [0, 2, 3], "NaN is not below anything; the all-NaN row group has no bounds")
        case(name, column, "=", {"float": "105.0"}, 1, [1, 2], "equality with a number")
    name = "pyarrow_zeros.parquet"
    values = [-0.0] * 5 + [0.0] * 5 + [1.0] * 5 + [-1.0] * 5
    write(name, pa.table({"d": pa.array(values), "f": pa.array(values, pa.float32())}), 5)
    for column in "df":
        for constant in ("0.0", "-0.0"):
            case(name, column, "=", {"float": constant}, 10, [0, 1], "both zeros are one value")
            case(name, column, ">=", {"float": constant}, 15, [0, 1, 2, 3], "both zeros are one value; NaN is not counted and would be above")
            case(name, column, "<", {"float": constant}, 5, [3], "both zeros are one value")
    name = "nan_bounds.parquet"
    values = [float(i) for i in range(20)]
    write(name, pa.table({"d": pa.array(values)}), 10, write_page_index=False)

    def poison(meta):
        for stats in statistics(meta):
            stats[5] = (BINARY, struct.pack("<d", nan))
            stats[1] = (BINARY, struct.pack("<d", nan))

    edit(name, poison)
    case(name, "d", "<", {"float": "5.0"}, 5, [0, 1], "a NaN bound discredits the pair")
    case(name, "d", "=", {"float": "15.0"}, 1, [0, 1], "a NaN bound discredits the pair")


def timestamps():
    name = "pyarrow_timestamps.parquet"
    seconds = [i * 3600 for i in range(-5, 25)]

    def column(unit, factor, zone=None):
        return pa.array([s * factor for s in seconds], pa.timestamp(unit, zone))

    table = pa.table(
        {
            "ms": column("ms", 1000),
            "us": column("us", 10**6),
            "ns": column("ns", 10**9),
            "utc": column("us", 10**6, "UTC"),
            "date": pa.array([s // 3600 for s in seconds], pa.date32()),
            "t_ms": pa.array([(s % 86400) * 1000 for s in seconds], pa.time32("ms")),
            "t_us": pa.array([(s % 86400) * 10**6 for s in seconds], pa.time64("us")),
            "t_ns": pa.array([(s % 86400) * 10**9 for s in seconds], pa.time64("ns")),
        }
    )
    write(name, table, 10, version="2.6")

    def cases(name, columns):
        for column in columns:
            ten = {"ts": str(10 * 3600 * 10**9)}
            case(name, column, ">", ten, 14, [1, 2], "bounds in the unit of the column")
            case(name, column, "=", {"ts": str(10 * 3600 * 10**9 + 1)}, 0, [1], "one nanosecond beside a value")
            case(name, column, "<", {"ts": "0"}, 5, [0], "before the epoch")

    cases(name, ["ms", "us", "ns", "utc"])
    case(name, "date", ">=", {"date": 20}, 5, [2], "days")
    case(name, "date", "<", {"date": 0}, 5, [0], "days before the epoch")
    for time in ("t_ms", "t_us", "t_ns"):
        case(name, time, ">", {"time": str(20 * 3600 * 10**9)}, 6, [0, 2], "times of the day")

    legacy = "legacy_types.parquet"
    legacy_table = pa.table(
        {
            "ms": table["ms"], "us": table["us"], "t_ms": table["t_ms"], "t_us": table["t_us"], "date": table["date"],
            "s": pa.array([f"v{s}" for s in range(30)]),
            "u": pa.array([2**31 - 15 + i for i in range(30)], pa.uint32()),
            "dec": pa.array([decimal.Decimal(i).scaleb(-2) for i in range(-10, 20)], pa.decimal128(9, 2)),
        }
    )
    write(legacy, legacy_table, 10, version="2.6", store_decimal_as_integer=True)

    def converted(meta):
        kinds = {"ms": 9, "us": 10, "t_ms": 7, "t_us": 8, "date": 6, "s": 0, "u": 13, "dec": 5}
        for leaf in leaves(meta):
            leaf.pop(10, None)
            leaf[6] = (I32, kinds[leaf[4][1].decode()])
        without_arrow_schema(meta)

    edit(legacy, converted)
    cases(legacy, ["ms", "us"])
    case(legacy, "t_us", ">", {"time": str(20 * 3600 * 10**9)}, 6, [0, 2], "TIME_MICROS without a logical type")
    case(legacy, "date", "<", {"date": 0}, 5, [0], "DATE without a logical type")
    case(legacy, "u", ">=", {"int": str(2**31)}, 15, [1, 2], "UINT_32 without a logical type")
    case(legacy, "dec", "<", {"dec": ["-5", 2]}, 5, [0], "DECIMAL without a logical type")
    case(legacy, "s", "=", {"str": "v9"}, 1, [0], "UTF8 without a logical type")

    name = "pyarrow_int96.parquet"
    write(name, pa.table({"ts": column("ns", 10**9)}), 10, use_deprecated_int96_timestamps=True)
    case(name, "ts", ">", {"ts": str(10 * 3600 * 10**9)}, 14, [0, 1, 2], "INT96 has no order")
    case(name, "ts", "=", {"ts": "0"}, 1, [0, 1, 2], "INT96 has no order")


def decimals():
    values = [decimal.Decimal(i) for i in range(-15, 15)]
    for name, integer in (("pyarrow_decimals.parquet", True), ("pyarrow_decimals_flba.parquet", False)):
        table = pa.table(
            {
                "d9": pa.array([v.scaleb(-2) for v in values], pa.decimal128(9, 2)),
                "d18": pa.array([v.scaleb(-4) for v in values], pa.decimal128(18, 4)),
                "d38": pa.array([v.scaleb(25) for v in values], pa.decimal128(38, 10)),
            }
        )
        write(name, table, 10, store_decimal_as_integer=integer)
        case(name, "d9", ">=", {"dec": ["5", 2]}, 10, [2], "9 digits")
        case(name, "d9", "<", {"dec": ["-5", 2]}, 10, [0], "negative, 9 digits")
        case(name, "d18", "<", {"dec": ["-5", 4]}, 10, [0], "negative, 18 digits")
        case(name, "d38", "<", {"dec": [str(-5 * 10**35), 10]}, 10, [0], "negative, 38 digits")
        case(name, "d38", ">", {"dec": [str(13 * 10**35), 10]}, 1, [2], "38 digits")

    # No writer at hand stores decimals in byte arrays of any length: a binary column is given the annotation afterwards.
    name = "decimal_byte_array.parquet"

    def big_endian(v):
        return v.to_bytes(max(1, (v.bit_length() + 8) // 8), "big", signed=True)

    numbers = [i * 100 for i in range(-15, 15)]
    write(name, pa.table({"d": pa.array([big_endian(v) for v in numbers], pa.binary())}), 10, write_page_index=False, use_dictionary=False)

    def annotate(meta):
        leaf = leaves(meta)[0]
        leaf[6] = (I32, 5)
        leaf[7] = (I32, 2)
        leaf[8] = (I32, 18)
        leaf[10] = (STRUCT, {5: (STRUCT, {1: (I32, 2), 2: (I32, 18)})})
        without_arrow_schema(meta)
        for group, stats in enumerate(statistics(meta)):
            low, high = numbers[group * 10], numbers[group * 10 + 9]
            stats[5], stats[6] = (BINARY, big_endian(high)), (BINARY, big_endian(low))
            stats.pop(1, None), stats.pop(2, None), stats.pop(7, None), stats.pop(8, None)
            if group == 2:
                stats[7] = stats[8] = (BOOL_TRUE, True)

    edit(name, annotate)
    case(name, "d", "<", {"dec": ["0", 2]}, 15, [0, 1], "byte arrays of any length: only an exact bound is a number")


def strings():
    name = "pyarrow_strings.parquet"
    prefix = "p" * 300
    values = [f"{prefix}{i:02}" for i in range(10)] + ["", "a", "\x00", "é", "K", "z", "\U0010ffff", "a\U0010ffff", "ab", "a\x7f"] + [None] * 10
    write(name, pa.table({"s": pa.array(values), "b": pa.array([None if v is None else v.encode() for v in values], pa.binary())}), 10)
    case(name, "s", "=", {"str": prefix + "07"}, 1, [0, 1], "values longer than any truncation")
    case(name, "s", ">", {"str": "z"}, 2, [1], "bytewise order beyond ASCII")
    case(name, "s", "=", {"str": ""}, 1, [1], "the empty string")
    case(name, "b", ">", {"bytes": "7a"}, 2, [1], "bytes")

    name = "truncated_strings.parquet"
    values = [f"prefix-{i:04}" for i in range(30)]
    write(name, pa.table({"s": pa.array(values)}), 10, write_page_index=False)

    def cut(meta):
        for stats in statistics(meta):
            low, high = stats[6][1][:9], stats[5][1][:9]
            stats[6], stats[5] = (BINARY, low), (BINARY, high)
            for field in (1, 2, 7, 8):
                stats.pop(field, None)

    edit(name, cut)
    case(name, "s", "=", {"str": "prefix-0005"}, 1, [0, 1, 2], "a maximum cut without rounding up still bounds its prefix")
    case(name, "s", ">", {"str": "prefix-0025"}, 4, [0, 1, 2], "a maximum cut without rounding up still bounds its prefix")
    case(name, "s", ">", {"str": "prefix-1"}, 0, [], "but nothing beyond the prefix")

    name = "split_character.parquet"
    write(name, pa.table({"s": pa.array(["é" * 6 + str(i) for i in range(10)])}), 10, write_page_index=False)

    def split(meta):
        for stats in statistics(meta):
            stats[6], stats[5] = (BINARY, stats[6][1][:9]), (BINARY, stats[5][1][:9])
            for field in (1, 2, 7, 8):
                stats.pop(field, None)

    edit(name, split)
    case(name, "s", "=", {"str": "é" * 6 + "5"}, 1, [0], "bounds cut inside a character")
    case(name, "s", "<", {"str": "é"}, 0, [], "bounds cut inside a character")


def orders():
    ints = list(range(-10, 20))
    words = ["a", "b", "é", "z", "\U0001f600", "c", "d", "e", "f", "g"] + [f"w{i}" for i in range(20)]
    table = pa.table({"i": pa.array(ints, pa.int32()), "u": pa.array([2**31 - 5 + i for i in range(30)], pa.uint32()), "s": pa.array(words)})

    name = "deprecated_min_max.parquet"
    write(name, table, 10, write_page_index=False)

    def legacy(meta):
        for column in range(3):
            for group, stats in enumerate(statistics(meta, column)):
                low, high = stats[6][1], stats[5][1]
                if column == 1 and group == 0:
                    # What comparing as signed numbers finds.
                    low, high = struct.pack("<i", -(2**31)), struct.pack("<i", 2**31 - 1)
                if column == 2 and group == 0:
                    low, high = "\U0001f600".encode(), b"z"
                stats[2], stats[1] = (BINARY, low), (BINARY, high)
                for field in (5, 6, 7, 8):
                    stats.pop(field, None)
        meta.pop(7, None)

    edit(name, legacy)
    case(name, "i", "<", {"int": "0"}, 10, [0], "signed numbers: the deprecated pair is right")
    case(name, "i", "=", {"int": "15"}, 1, [2], "signed numbers: the deprecated pair is right")
    case(name, "u", ">", {"int": str(2**31 + 10)}, 14, [0, 1, 2], "unsigned numbers: the deprecated pair is ignored")
    case(name, "s", "=", {"str": "é"}, 1, [0, 1, 2], "byte arrays: the deprecated pair is ignored")

    name = "no_column_orders.parquet"
    write(name, table, 10)
    edit(name, lambda meta: (meta.pop(7, None), [[stats.pop(f, None) for f in (1, 2)] for stats in statistics(meta)]))
    case(name, "i", "<", {"int": "0"}, 10, [0, 1, 2], "bounds of an undeclared order")
    case(name, "s", "=", {"str": "é"}, 1, [0, 1, 2], "bounds of an undeclared order")

    name = "unknown_column_order.parquet"
    write(name, table, 10)

    def unknown(meta):
        meta[7] = (LIST, (STRUCT, [{1: (STRUCT, {})}, {9: (STRUCT, {})}, {9: (STRUCT, {})}]))

    edit(name, unknown)
    case(name, "i", "<", {"int": "0"}, 10, [0], "the declared order of one column is known")
    case(name, "u", ">", {"int": str(2**31 + 10)}, 14, [0, 1, 2], "and that of another is not")
    case(name, "s", "=", {"str": "é"}, 1, [0, 1, 2], "and that of another is not")

    name = "reversed_bounds.parquet"
    write(name, table, 10, write_page_index=False)

    def swap(meta):
        for stats in statistics(meta):
            stats[5], stats[6] = stats[6], stats[5]
            for field in (1, 2):
                stats.pop(field, None)

    edit(name, swap)
    case(name, "i", "=", {"int": "5"}, 1, [0, 1, 2], "a minimum above the maximum")
    case(name, "s", "=", {"str": "w5"}, 1, [0, 1, 2], "a minimum above the maximum")

    name = "unknown_logical_type.parquet"
    write(name, pa.table({"b": pa.array([bytes([i]) for i in range(30)], pa.binary())}), 10)

    def foreign(meta):
        leaf = leaves(meta)[0]
        leaf.pop(6, None)
        leaf[10] = (STRUCT, {99: (STRUCT, {})})
        without_arrow_schema(meta)

    edit(name, foreign)
    case(name, "b", "=", {"bytes": "05"}, 1, [0, 1, 2], "an annotation of the future has an unknown order")


def nulls():
    values = [None if i % 3 == 0 else i for i in range(10)] + list(range(10, 20)) + [None] * 10
    table = pa.table({"i": pa.array(values, pa.int64())})
    name = "pyarrow_nulls.parquet"
    write(name, table, 10)
    case(name, "i", "is null", None, 14, [0, 2], "null counts")
    case(name, "i", "is not null", None, 16, [0, 1], "null counts")
    case(name, "i", ">", {"int": "-5"}, 16, [0, 1], "an all-NULL row group satisfies no comparison")
    name = "no_null_counts.parquet"
    write(name, table, 10, write_page_index=False)
    edit(name, lambda meta: [stats.pop(3, None) for stats in statistics(meta)])
    case(name, "i", "is null", None, 14, [0, 1, 2], "an absent null count is not zero")
    case(name, "i", "is not null", None, 16, [0, 1, 2], "an absent null count is not everything")
    name = "impossible_null_counts.parquet"
    write(name, table, 10, write_page_index=False)
    edit(name, lambda meta: [stats.__setitem__(3, (I64, 1000)) for stats in statistics(meta)])
    case(name, "i", "is null", None, 14, [0, 1, 2], "more NULLs than rows")
    case(name, "i", "=", {"int": "15"}, 1, [0, 1, 2], "more NULLs than rows")
    name = "no_statistics.parquet"
    write(name, table, 10, write_statistics=False, write_page_index=False)
    case(name, "i", "is null", None, 14, [0, 1, 2], "no statistics")
    case(name, "i", "=", {"int": "15"}, 1, [0, 1, 2], "no statistics")


def other_types():
    name = "pyarrow_types.parquet"
    n = 40
    table = pa.table(
        {
            "i8": pa.array([i - 20 for i in range(n)], pa.int8()),
            "i16": pa.array([(i - 20) * 1000 for i in range(n)], pa.int16()),
            "i64": pa.array([(-(2**63) if i == 0 else 2**63 - 1 if i == n - 1 else i) for i in range(n)], pa.int64()),
            "flag": pa.array([i >= 20 if i % 7 else None for i in range(n)]),
            "uuid": pa.array([uuid.UUID(int=i << 120).bytes for i in range(n)], pa.uuid()),
            "fixed": pa.array([bytes([i, 255, 0]) for i in range(n)], pa.binary(3)),
            "dict": pa.array([f"k{i // 10}" for i in range(n)]).dictionary_encode(),
            "large": pa.array([f"v{i:02}" for i in range(n)], pa.large_string()),
            "dur": pa.array(list(range(n)), pa.duration("us")),
            "list": pa.array([[i, i + 1] if i % 5 else None for i in range(n)], pa.list_(pa.int32())),
            "point": pa.array([{"x": i, "y": str(i)} if i % 4 else None for i in range(n)]),
            "nothing": pa.nulls(n),
        }
    )
    write(name, table, 10)
    case(name, "i8", "<", {"int": "-15"}, 5, [0], "8 bits")
    case(name, "i16", "=", {"int": "19000"}, 1, [3], "16 bits")
    case(name, "i64", "=", {"int": str(2**63 - 1)}, 1, [3], "the largest")
    case(name, "i64", "<=", {"int": str(-(2**63))}, 1, [0], "the smallest")
    case(name, "flag", "=", {"bool": True}, 17, [2, 3], "booleans")
    case(name, "uuid", "=", {"bytes": (5 << 120).to_bytes(16, "big").hex()}, 1, [0], "UUIDs compare as bytes")
    case(name, "uuid", ">", {"bytes": (25 << 120).to_bytes(16, "big").hex()}, 14, [2, 3], "UUIDs compare as bytes")
    case(name, "fixed", ">=", {"bytes": "1e0000"}, 10, [3], "fixed binary")
    case(name, "dict", "=", {"str": "k2"}, 10, [2], "dictionary columns")
    case(name, "large", "=", {"str": "v13"}, 1, [1], "large strings")
    case(name, "list", "is null", None, 8, [0, 1, 2, 3], "nested columns have no counts of their own")
    case(name, "point", "is null", None, 10, [0, 1, 2, 3], "nested columns have no counts of their own")


def pages():
    """One row group, many pages, columns that cut them at different rows."""
    name = "pyarrow_pages.parquet"
    n = 3000
    table = pa.table(
        {
            "id": pa.array(list(range(n)), pa.int64()),
            "ts": pa.array([i * 10**6 for i in range(n)], pa.timestamp("us")),
            "text": pa.array([f"line {i:05} " + "x" * (i % 40) for i in range(n)]),
            "sparse": pa.array([i if i % 500 < 20 else None for i in range(n)], pa.int32()),
            "list": pa.array([[i] * (i % 4) for i in range(n)], pa.list_(pa.int64())),
        }
    )
    write(name, table, n, data_page_size=1024, write_batch_size=64, use_dictionary=False, compression="snappy")
    case(name, "id", "=", {"int": "1234"}, 1, [0], "one page of many")
    case(name, "sparse", "is not null", None, 120, [0], "pages of NULL only")
    for codec in ("none", "gzip", "brotli", "lz4"):
        for version in ("1.0", "2.0"):
            other = f"pyarrow_{codec}_v{version[0]}.parquet"
            pq.write_table(
                table.slice(0, 400), HERE / other, row_group_size=200, compression=codec, data_page_version=version,
                data_page_size=512, write_batch_size=32, write_page_index=True, use_dictionary=["text"],
            )
            case(other, "id", ">=", {"int": "200"}, 200, [1], f"{codec}, data pages v{version}")


def by_duckdb():
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute("SET TimeZone = 'UTC'")
    select = """
        SELECT i::TINYINT AS i8, i::UTINYINT AS u8, (i * 300)::SMALLINT AS i16, i * 1000000000000 AS i64,
               (i::UBIGINT + 18446744073709551000) AS u64, i::DOUBLE / 4 AS d, i::FLOAT AS f,
               i::DECIMAL(4, 1) AS d4, i::DECIMAL(9, 2) AS d9, i::DECIMAL(18, 3) AS d18, (i - 50)::DECIMAL(38, 4) AS d38,
               'host-' || (i // 10) AS host, encode('b' || i) AS blob,
               (printf('%08x', i) || '-0000-4000-8000-000000000000')::UUID AS id,
               DATE '2024-01-01' + i::INT AS day, TIMESTAMP '2024-01-01' + to_hours(i) AS ts,
               TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_hours(i) AS tz, (TIMESTAMP_NS '2024-01-01 00:00:00.123456789') AS ns,
               TIME '00:00:00' + to_minutes(i) AS t, to_days(i::INT) AS iv, i % 2 = 0 AS flag,
               CASE WHEN i % 3 = 0 THEN NULL ELSE i END AS maybe, [i, i + 1] AS l, {'a': i, 'b': 'x'} AS st
        FROM range(100) t(i)
    """
    name = "duckdb_types.parquet"
    # Row groups of at least 2,048 rows are what the writer likes: ask for fewer by writing one file per part is not worth it.
    con.execute(f"COPY ({select}) TO '{HERE / name}' (FORMAT parquet, COMPRESSION zstd)")
    for column, value, n in (
        ("i8", {"int": "100"}, 0), ("u64", {"int": str(18446744073709551000 + 99)}, 1), ("d9", {"dec": ["9900", 2]}, 1),
        ("d18", {"dec": ["100000", 3]}, 0), ("d38", {"dec": ["-500000", 4]}, 1), ("d38", {"dec": ["-500001", 4]}, 0),
        ("host", {"str": "host-99"}, 0), ("host", {"str": "host-9"}, 10), ("f", {"float": "99.0"}, 1),
        ("ts", {"ts": str(1704067200 * 10**9 + 99 * 3600 * 10**9)}, 1), ("ts", {"ts": str(1704067200 * 10**9 + 100 * 3600 * 10**9)}, 0),
        ("id", {"bytes": "00000063000040008000000000000000"}, 1), ("id", {"bytes": "00000064000040008000000000000000"}, 0),
        ("t", {"time": str(99 * 60 * 10**9)}, 1), ("day", {"date": 19723 + 99}, 1), ("day", {"date": 19723 + 100}, 0),
    ):
        case(name, column, "=", value, n, [0] if n else [], "DuckDB's own bounds")
    case(name, "maybe", "is null", None, 34, [0], "DuckDB's null counts")
    case(name, "i8", "is null", None, 0, [], "DuckDB's null counts")

    name = "duckdb_bloom.parquet"
    con.execute(
        f"""COPY (SELECT 'id-' || (i * 7919 % 1000) AS id, (i * 7919 % 1000)::INT AS n, (i * 7919 % 1000)::BIGINT AS big,
                 (i * 7919 % 1000)::DOUBLE AS d, DATE '2024-01-01' + (i * 7919 % 1000)::INT AS day
            FROM range(12000) t(i) ORDER BY i) TO '{HERE / name}' (FORMAT parquet, ROW_GROUP_SIZE 5120, COMPRESSION zstd)"""
    )
    case(name, "id", "=", {"str": "id-5"}, 12, [0, 1], "in the filter")
    case(name, "id", "=", {"str": "id-5y"}, 0, [], "within the bounds, not in the filter")
    case(name, "n", "=", {"int": "5"}, 12, [0, 1], "in the filter")
    case(name, "big", "=", {"int": "5"}, 12, [0, 1], "in the filter")
    case(name, "d", "=", {"float": "5.0"}, 12, [0, 1], "in the filter")
    case(name, "d", "=", {"float": "5.5"}, 0, [], "within the bounds, not in the filter")

    short = "bloom_without_length.parquet"
    (HERE / short).write_bytes((HERE / name).read_bytes())
    edit(short, lambda meta: [chunk.pop(15, None) for chunk in chunks(meta)])
    case(short, "id", "=", {"str": "id-5"}, 12, [0, 1], "in a filter of unstated length")
    case(short, "id", "=", {"str": "id-5y"}, 0, [], "not in a filter of unstated length")

    name = "duckdb_v2.parquet"
    con.execute(
        f"""COPY (SELECT i, 'k' || (i % 5) AS k, uuid_extract_version(NULL::UUID) AS nothing, i::DOUBLE / 3 AS d, 'text ' || i AS t
            FROM range(6000) t(i)) TO '{HERE / name}' (FORMAT parquet, PARQUET_VERSION v2, ROW_GROUP_SIZE 2048, COMPRESSION zstd)"""
    )
    case(name, "i", "=", {"int": "3000"}, 1, [1], "DuckDB's newer encodings")
    case(name, "t", "=", {"str": "text 3000"}, 1, [0, 1], "overlapping bounds")


def main():
    for old in HERE.glob("*.parquet"):
        old.unlink()
    integers()
    floats()
    timestamps()
    decimals()
    strings()
    orders()
    nulls()
    other_types()
    pages()
    by_duckdb()
    (HERE / "expected.json").write_text(json.dumps(EXPECTED, indent=1, sort_keys=True, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
