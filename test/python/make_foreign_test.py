#!/usr/bin/env python3
"""Write `test/sql/parquet_foreign.test` from `test/data/parquet/expected.json`, which says what each trap must and must not skip.

    configure/venv/bin/python test/python/make_foreign_test.py
"""

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "test" / "data" / "parquet"
TARGET = ROOT / "test" / "sql" / "parquet_foreign.test"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UUIDS = {("duckdb_types.parquet", "id"), ("pyarrow_types.parquet", "uuid")}

HEADER = """# name: test/sql/parquet_foreign.test
# description: Parquet files of other writers: the rows of DuckDB's own reader, and what each filter reads
# group: [sql]
# Written by test/python/make_foreign_test.py from test/data/parquet/expected.json.

require pensieve

require parquet

statement ok
SET TimeZone = 'UTC'

statement ok
CREATE MACRO blocks_read() AS (
    SELECT sum(considered)::BIGINT FROM pensieve_last_scan()
    WHERE unit = 'block' AND evidence = 'read' AND scan_id = (SELECT max(scan_id) FROM pensieve_last_scan()))
"""

# Timestamps in UTC, which have no nanoseconds in DuckDB.
ZONED = {("legacy_types.parquet", "ms"), ("legacy_types.parquet", "us"), ("pyarrow_timestamps.parquet", "utc"), ("duckdb_types.parquet", "tz")}

# Columns that DuckDB's reader gives a type without the meaning of the logical type in the file: a duration as BIGINT.
OWN_TYPES = {("pyarrow_types.parquet", "dur")}


def literal(file, column, value):
    """The SQL of a constant of expected.json, None where DuckDB has none of the column's type."""
    ((kind, text),) = value.items()
    if kind == "int":
        return text
    if kind == "bool":
        return str(text).lower()
    if kind == "float":
        return f"'{text}'::DOUBLE"
    if kind == "str":
        return "'" + text.replace("'", "''") + "'"
    if kind == "ts":
        if (file, column) not in ZONED:
            return f"make_timestamp_ns({text})"
        if int(text) % 1000:
            return None
        return f"'{EPOCH + timedelta(microseconds=int(text) // 1000)}'::TIMESTAMPTZ"
    if kind == "date":
        return f"(DATE '1970-01-01' + {text})"
    if kind == "time":
        microseconds = int(text) // 1000
        return f"(TIME '00:00:00' + INTERVAL ({microseconds}) MICROSECONDS)"
    if kind == "dec":
        digits = Decimal(int(text[0])).scaleb(-text[1])
        return f"{digits:f}"
    if kind == "bytes":
        if (file, column) in UUIDS:
            return f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'::UUID"
        return "'" + "".join(f"\\x{text[at:at + 2]}" for at in range(0, len(text), 2)) + "'::BLOB"
    raise ValueError(f"{file}: unknown kind of constant {kind}")


def condition(file, case):
    if case["op"].startswith("is"):
        return f'"{case["column"]}" {case["op"].upper()}'
    constant = literal(file, case["column"], case["value"])
    return constant and f'"{case["column"]}" {case["op"]} {constant}'


def main():
    lines = [HEADER]
    expected = json.loads((DATA / "expected.json").read_text())
    for path in sorted(DATA.glob("*.parquet")):
        file = path.name
        source = f"read_extent('test/data/parquet/{file}')"
        lines.append(f"# {path.stem}\n")
        for column in pyarrow.parquet.read_schema(path).names:
            if (file, column) in OWN_TYPES:
                continue
            shown = f'SELECT row_number() OVER () AS n, "{column}"::VARCHAR AS v FROM'
            plain = f"read_parquet('test/data/parquet/{file}')"
            if file == "legacy_types.parquet" and column in ("ms", "us"):
                shown = f'SELECT row_number() OVER () AS n, epoch_us("{column}") AS v FROM'
            lines.append(f"query I\nSELECT count(*) FROM (({shown} {plain}) EXCEPT ALL ({shown} {source}))\n----\n0\n")
        for case in expected.get(file, []):
            where = condition(file, case)
            if where is None:
                continue
            lines.append(f"# {case['why']}\nquery I\nSELECT count(*) FROM {source} WHERE {where}\n----\n{case['count']}\n")
            # what statistics alone answer would not be a scan
            lines.append("statement ok\nSET disabled_optimizers = 'statistics_propagation'\n")
            lines.append(f'statement ok\nSELECT max(hash("{case["column"]}")) FROM {source} WHERE {where}\n')
            lines.append(f"query I\nSELECT blocks_read()\n----\n{len(case['blocks'])}\n")
            lines.append("statement ok\nRESET disabled_optimizers\n")
    TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
