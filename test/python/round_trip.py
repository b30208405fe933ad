#!/usr/bin/env python3
"""What is written comes back: every type of DuckDB, in every nesting, in blocks of any size, in both formats and in stores.

For each type there is one table with a column per nesting (list, struct, map, array and two of them in each other). It is written, read
back and compared inside DuckDB: the values, `IS NULL` both ways as a filter of the scan, and the type's name. Parquet files are compared as
`read_parquet` and pyarrow see them as well. What is known to differ stands in `KNOWN`, with its reason; where it does not differ any more
that is a failure, so that the list stays true. Closes with `N passed, N failed`.
"""

import argparse
import fnmatch
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from support import add_extension_argument, connect, quoted  # noqa: E402

# The values of each type, as the texts that are cast to it. NULL is added to every list; the first value serves as a map's key.
TYPES = {
    "BOOLEAN": ["true", "false", "false", "true", "true"],
    "TINYINT": ["0", "-128", "127"],
    "SMALLINT": ["0", "-32768", "32767"],
    "INTEGER": ["0", "-2147483648", "2147483647"],
    "BIGINT": ["0", "-9223372036854775808", "9223372036854775807"],
    "HUGEINT": ["0", "-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"],
    "UTINYINT": ["0", "255", "7"],
    "USMALLINT": ["0", "65535", "7"],
    "UINTEGER": ["0", "4294967295", "7"],
    "UBIGINT": ["0", "18446744073709551615", "9223372036854775808"],
    "UHUGEINT": ["0", "340282366920938463463374607431768211455", "7"],
    "BIGNUM": ["0", "-123456789012345678901234567890123456789012345678901234567890", "7"],
    "FLOAT": ["0.1", "-0.0", "nan", "-inf", "3.4e38"],
    "DOUBLE": ["0.1", "-0.0", "nan", "inf", "5e-324", "1.7976931348623157e308"],
    "DECIMAL(4,1)": ["0.1", "-999.9", "999.9"],
    "DECIMAL(9,3)": ["0.001", "-999999.999", "999999.999"],
    "DECIMAL(18,4)": ["0.0001", "-99999999999999.9999", "99999999999999.9999"],
    "DECIMAL(38,10)": ["0.1", "-9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999"],
    "VARCHAR": ["a", "", "é☃ 'quoted' \"too\"", "x" * 150, "twelve bytes"],
    "BLOB": ["a", "", "\\x00\\xFF\\x0A", "\\x80" * 20],
    "BIT": ["1", "0101011", "1" * 70],
    "DATE": ["1970-01-01", "0001-01-01", "9999-12-31", "infinity", "-infinity"],
    "TIME": ["12:00:00", "00:00:00", "23:59:59.999999"],
    "TIME_NS": ["12:00:00", "00:00:00.000000001", "23:59:59.999999999"],
    "TIMETZ": ["12:00:00+00", "00:00:00+15:59", "23:59:59.999999-15:59"],
    "TIMESTAMP": ["1970-01-01", "0001-01-01", "9999-12-31 23:59:59.999999", "infinity", "-infinity", "1969-12-31 23:59:59.999999"],
    "TIMESTAMP_S": ["1970-01-01", "0001-01-01", "9999-12-31 23:59:59", "1969-12-31 23:59:59"],
    "TIMESTAMP_MS": ["1970-01-01", "0001-01-01", "9999-12-31 23:59:59.999", "1969-12-31 23:59:59.999"],
    "TIMESTAMP_NS": ["1970-01-01", "1677-09-22", "2262-04-11 23:47:16.854775806", "1969-12-31 23:59:59.999999999"],
    "TIMESTAMPTZ": ["1970-01-01 00:00:00+00", "0001-01-01 00:00:00+00", "9999-12-31 00:00:00+00", "infinity", "2026-06-30 12:34:56.789+02"],
    "INTERVAL": ["1 month", "3 days 00:00:01.5", "0 days", "13 months 40 days 25:00:00"],
    "UUID": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "ENUM('sad','ok','happy')": ["sad", "ok", "happy"],
    "JSON": ['{"a":[1,2]}', "null", '"x"', "[]"],
    "VARIANT": ["a", "", "zz"],
    "GEOMETRY": ["POINT (1 2)", "LINESTRING (0 0, 1 1, 2 1)", "POINT EMPTY"],
    "UNION(n INTEGER, s VARCHAR)": ["7", "text", ""],
    "STRUCT(x INTEGER, y VARCHAR)": ["{'x': 1, 'y': a}", "{'x': NULL, 'y': NULL}", "{'x': 3, 'y': ''}"],
    '"NULL"': [],
}  # fmt: skip

# Column name: expression over `id`, with V(e) for the value number e, KEY for a value that is not NULL, and T for the type.
NESTINGS = {
    "plain": "V(id)",
    "list": "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN [] ELSE [V(id), V(id + 1), V(id + 3)] END::T[]",
    "array": "CASE id % 7 WHEN 0 THEN NULL ELSE [V(id), V(id + 1), V(id + 2)] END::T[3]",
    "struct": "CASE id % 5 WHEN 0 THEN NULL ELSE {'a': V(id), 'b': id} END",
    "map": "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN MAP {} ELSE MAP {'k': V(id), 'l': V(id + 1)} END::MAP(VARCHAR, T)",
    "key": "CASE id % 5 WHEN 0 THEN NULL ELSE MAP {KEY: id} END",
    "list_list": "CASE id % 3 WHEN 0 THEN NULL ELSE [[V(id)], NULL, [], [V(id + 1), V(id + 2)]] END::T[][]",
    "list_array": "CASE id % 3 WHEN 0 THEN NULL ELSE [[V(id), V(id + 1)]::T[2], NULL, [V(id + 2), NULL]::T[2]] END::T[2][]",
    "list_struct": "CASE id % 3 WHEN 0 THEN NULL ELSE [{'a': V(id)}, NULL, {'a': V(id + 2)}] END",
    "list_map": "CASE id % 3 WHEN 0 THEN NULL ELSE [MAP {'k': V(id)}, NULL, MAP {}] END::MAP(VARCHAR, T)[]",
    "array_list": "CASE id % 3 WHEN 0 THEN NULL ELSE [[V(id)], NULL] END::T[][2]",
    "array_array": "CASE id % 7 WHEN 0 THEN NULL ELSE [[V(id), V(id + 1), V(id + 2)]::T[3], NULL] END::T[3][2]",
    "array_struct": "CASE id % 7 WHEN 0 THEN NULL ELSE [{'a': V(id)}, NULL]::STRUCT(a T)[2] END",
    "struct_list": "CASE id % 5 WHEN 0 THEN NULL ELSE {'a': [V(id), V(id + 1)]::T[], 'b': id} END",
    "struct_array": "CASE id % 5 WHEN 0 THEN NULL ELSE {'a': [V(id), V(id + 1), V(id + 2)]::T[3]} END",
    "struct_struct": "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN {'s': NULL} ELSE {'s': {'a': V(id)}} END::STRUCT(s STRUCT(a T))",
    "struct_map": "CASE id % 5 WHEN 0 THEN NULL ELSE {'m': MAP {'k': V(id)}} END::STRUCT(m MAP(VARCHAR, T))",
    "map_list": "CASE id % 5 WHEN 0 THEN NULL ELSE MAP {'k': [V(id)], 'l': NULL} END::MAP(VARCHAR, T[])",
    "map_array": "CASE id % 5 WHEN 0 THEN NULL ELSE MAP {'k': [V(id), V(id + 1)], 'l': NULL} END::MAP(VARCHAR, T[2])",
    "map_struct": "CASE id % 5 WHEN 0 THEN NULL ELSE MAP {'k': {'a': V(id)}, 'l': NULL} END::MAP(VARCHAR, STRUCT(a T))",
}

# (name, rows, options, whether DuckDB keeps the order and so hands over whole vectors). None of the sizes divides 2,048.
LAYOUTS = [
    ("1000", 2501, "ROWS_PER_BLOCK 1000", True),
    ("3", 50, "ROWS_PER_BLOCK 3", True),
    ("3000 sorted", 3101, "ROWS_PER_BLOCK 3000, SORT_BY 'id DESC'", False),
    ("bytes", 1201, "BYTES_PER_BLOCK '20kB'", False),
]

# What is written and read back otherwise: reader, type, nesting (patterns; the first that fits counts), what happens, and why.
#   refused: the statement fails, naming the column
#   type:    the values are the same, as text, but the type is another
#   values:  the values differ
#   crash:   it is not tried, since it ends the session
KNOWN = [
    ("store of *", "UNION*", "*", "refused", "a catalog's columns have one type"),
    ("store of *", "ENUM*", "*", "type", "enumerations are text in a store"),
    *[("store of *", kind, "*", "refused", "catalogs do not name them") for kind in ("VARIANT", "GEOMETRY", '"NULL"')],
    ("store of parquet", "TIMESTAMP_S", "struct_array", "refused", "DuckDB does not cast arrays within structs"),
    ("parquet", "UNION*", "*", "refused", "Parquet has no values of several types"),
    ("tlm", "UNION*", "key", "same", "keys are not NULL"),
    ("tlm", "UNION*", "*", "values", "Arrow's unions have no NULL of their own: one comes back as a member that is NULL"),
    ("tlm", "ENUM*", "*", "type", "enumerations are written as text"),
    ("parquet", "ENUM*", "*", "type", "enumerations are written as text"),
    ("pyarrow", "ENUM*", "*", "type", "enumerations are written as text"),
    ("read_parquet", "ENUM*", "*", "type", "enumerations are written as text"),
    ("read_parquet", "TIMESTAMP_MS", "*", "type", "DuckDB shows every Parquet timestamp but nanoseconds as TIMESTAMP"),
    ("read_parquet", "TIMESTAMP_S", "*", "type", "DuckDB shows every Parquet timestamp but nanoseconds as TIMESTAMP"),
    ("pyarrow", "TIMESTAMP_S", "*", "type", "Parquet has no timestamps of seconds"),
    ("parquet", "TIMESTAMP_S", "*", "type", "Parquet has no timestamps of seconds"),
    ("parquet", "INTERVAL", "plain", "same", "columns are written"),
    ("store of parquet", "INTERVAL", "plain", "same", "columns are written"),
    ("parquet", "INTERVAL", "*", "refused", "only columns are written, not what is within another type"),
    ("store of parquet", "INTERVAL", "*", "refused", "only columns are written, not what is within another type"),
    *[(reader, "TIMETZ", "key", "same", "the key is in UTC") for reader in ("parquet", "store of parquet", "read_parquet")],
    ("parquet", "TIMETZ", "*", "values", "times with a zone are stored in UTC, as DuckDB's own writer does"),
    ("store of parquet", "TIMETZ", "*", "values", "times with a zone are stored in UTC, as DuckDB's own writer does"),
    ("read_parquet", "TIMETZ", "*", "values", "times with a zone are stored in UTC, as DuckDB's own writer does"),
    ("pyarrow", "INTERVAL", "plain", "values", "pyarrow shows Parquet's intervals as their bytes"),
    ("pyarrow", "TIMETZ", "*", "values", "Arrow's times have no zone"),
    *[
        ("read_parquet", kind, "*", "values", "Parquet has no annotation for them: their bytes are a BLOB")
        for kind in ("HUGEINT", "UHUGEINT", "BIGNUM", "BIT")
    ],
    ("read_parquet", "JSON", "array_list", "type", "as every array"),
    ("read_parquet", "JSON", "array_struct", "type", "as every array"),
    ("read_parquet", "JSON", "*array*", "values", "the text of a list quotes JSON otherwise than that of an array"),
]
# After the types above: every reader but ours and pyarrow shows lists.
KNOWN_NESTINGS = [("read_parquet", "*", "*array*", "type", "Parquet has no fixed-size lists; only Arrow's schema in the file tells them")]


def known(reader, kind, nesting):
    """The outcomes that are right."""
    for entry in KNOWN + KNOWN_NESTINGS:
        if all(fnmatch.fnmatchcase(name, pattern) for name, pattern in zip((reader, kind, nesting), entry[:3])):
            return {entry[3]}
    return {"same"}


def expression(kind, texts, template):
    """The SQL of one column."""
    values = "[" + ", ".join(["NULL" if text is None else quoted(text) for text in [*texts[:1], None, *texts[1:]]]) + "]"
    count = len(texts) + 1

    def value(index):
        if not texts:
            return "NULL"
        return f"({values}::VARCHAR[])[1 + ({index}) % {count}]::{kind}"

    out = template
    while "V(" in out:
        start = out.index("V(")
        end = out.index(")", start)
        out = out[:start] + value(out[start + 2 : end]) + out[end + 1 :]
    out = out.replace("KEY", f"{quoted(texts[0])}::{kind}" if texts else "NULL")
    return out.replace("::T[", f"::{kind}[").replace(", T)", f", {kind})").replace(" T)", f" {kind})").replace(", T[", f", {kind}[")


class Tally:
    def __init__(self):
        self.passed = self.failed = 0
        # what failed alike: the places, and what one of them says
        self.failures = {}

    def outcome(self, reader, kind, nesting, layout, outcome, detail=""):
        """`outcome` is 'same' or one of the kinds of `KNOWN`."""
        expected = known(reader, kind, nesting)
        if outcome in expected:
            self.passed += 1
            return
        self.failed += 1
        places, _ = self.failures.setdefault((reader, kind, outcome, " or ".join(sorted(expected))), ({}, detail))
        places.setdefault(nesting, []).append(layout)

    def report(self):
        for (reader, kind, outcome, expected), (places, detail) in self.failures.items():
            where = ", ".join(f"{nesting} ({'; '.join(layouts)})" for nesting, layouts in places.items())
            print(f"FAIL {reader}: {kind} is {outcome}, expected {expected}: {str(detail)[:300]}\n    in {where}")
        print(f"{self.passed} passed, {self.failed} failed")


def types_of(connection, source):
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE FROM {source}").fetchall()}


def compare(connection, source, target, columns):
    """For each column: 'same', 'type' or 'values', and what differs."""
    before, after = types_of(connection, source), types_of(connection, target)
    parts = []
    for name in columns:
        # As texts where the types differ, and where text tells values apart that are equal (the zeros).
        as_text = before[name] != after[name] or "FLOAT" in before[name] or "DOUBLE" in before[name]
        cast = "::VARCHAR" if as_text else ""
        parts.append(f"count(*) FILTER (s.{name}{cast} IS DISTINCT FROM t.{name}{cast} OR (s.{name} IS NULL) <> (t.{name} IS NULL))")
    sql = f"SELECT count(s.id), count(t.id), {', '.join(parts)} FROM {source} s FULL JOIN {target} t ON s.id = t.id"
    rows, found, *wrong = connection.execute(sql).fetchall()[0]
    if rows != found:
        return {name: ("values", f"{found} rows instead of {rows}") for name in columns}
    result = {}
    for name, count in zip(columns, wrong):
        outcome = "values" if count else "type" if before[name] != after[name] else "same"
        result[name] = (outcome, f"{count} of {rows} rows differ; {before[name]} came as {after[name]}")
    return result


def check_nulls(connection, source, target, columns, result):
    """IS NULL and IS NOT NULL as filters of the scan."""
    for name in columns:
        if result[name][0] == "values":
            continue
        for test in ("IS NULL", "IS NOT NULL"):
            sql = f"SELECT count(*), sum(id) FROM {{}} WHERE {name} {test}"
            before = connection.execute(sql.format(source)).fetchall()
            after = connection.execute(sql.format(target)).fetchall()
            if before != after:
                result[name] = ("values", f"{test}: {after} instead of {before}")


def guarded(action, columns):
    """What `compare` and `check_nulls` find, column by column if the whole fails."""
    try:
        return action(columns)
    except Exception as error:
        if len(columns) == 1:
            return {columns[0]: ("refused", str(error).splitlines()[0])}
        result = {}
        for name in columns:
            result.update(guarded(action, [name]))
        return result


def write(connection, statement, columns):
    """Runs the statement for as many of the columns as it takes; what it refuses."""
    refused = {}
    try:
        connection.execute(statement(columns))
        return columns, refused
    except Exception:
        pass
    kept = []
    for name in columns:
        try:
            connection.execute(statement([name]))
            kept.append(name)
        except Exception as error:
            refused[name] = str(error).splitlines()[0]
    if kept:
        connection.execute(statement(kept))
    return kept, refused


def check_type(connection, tally, directory, kind, texts):
    columns = []
    connection.execute("CREATE OR REPLACE TABLE source AS SELECT range AS id FROM range(3101)")
    for name, template in NESTINGS.items():
        sql = expression(kind, texts, template)
        try:
            connection.execute(f"SELECT {sql} FROM source LIMIT 20").fetchall()
        except Exception as error:
            if name == "plain":
                tally.outcome("duckdb", kind, name, "-", "refused", error)
            continue  # not a value of DuckDB
        columns.append((name, sql))
    if not columns:
        return
    connection.execute(f"CREATE OR REPLACE TABLE source AS SELECT id, {', '.join(f'{sql} AS c_{name}' for name, sql in columns)} FROM source")
    names = [f"c_{name}" for name, _ in columns]
    path = directory / "x"

    def record(reader, layout, result):
        for name, (outcome, detail) in result.items():
            tally.outcome(reader, kind, name[2:], layout, outcome, detail)

    for format, suffix in (("tlm", "tlm"), ("pensieve_parquet", "parquet")):
        accepted = names
        for number, (layout, rows, options, ordered) in enumerate(LAYOUTS):
            target = Path(f"{path}{number}.{suffix}")
            connection.execute(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")

            def copy(columns):
                query = f"SELECT id, {', '.join(columns)} FROM source WHERE id < {rows}"
                return f"COPY ({query}) TO {quoted(target)} (FORMAT {format}, {options})"

            accepted, refused = write(connection, copy, accepted)
            record(suffix, layout, {name: ("refused", detail) for name, detail in refused.items()})
            if not accepted:
                break
            connection.execute(f"CREATE OR REPLACE TEMP VIEW expected AS FROM source WHERE id < {rows}")

            def check(reader, nulls):
                def action(columns):
                    result = compare(connection, "expected", reader, columns)
                    if nulls:
                        check_nulls(connection, "expected", reader, columns, result)
                    return result

                return guarded(action, accepted)

            record(suffix, layout, check(f"read_extent({quoted(target)})", number == 0))
            if suffix == "parquet" and number < 2:
                record("read_parquet", layout, check(f"read_parquet({quoted(target)})", False))
                if number == 0:
                    record("pyarrow", layout, guarded(lambda columns: pyarrow_sees(connection, target, columns), accepted))
        connection.execute("SET preserve_insertion_order = true")
        check_store(connection, tally, directory, kind, names, suffix, record)


def pyarrow_sees(connection, path, columns):
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(path).read(columns=["id", *columns])
    connection.register("seen", table)
    try:
        return compare(connection, "expected", "seen", columns)
    finally:
        connection.unregister("seen")


def check_store(connection, tally, directory, kind, names, format, record):
    """CREATE TABLE AS and INSERT into a manifest log."""
    reader = f"store of {format}"
    if "crash" in known(reader, kind, "plain"):
        return
    connection.execute(f"SET pensieve_write_format = {quoted(format)}")
    connection.execute("SET pensieve_block_rows = 1000")
    connection.execute("CREATE OR REPLACE TEMP VIEW expected AS FROM source WHERE id < 1800")

    def create(columns):
        connection.execute("DROP TABLE IF EXISTS lake.d.t")
        return f"CREATE TABLE lake.d.t AS SELECT id, {', '.join(columns)} FROM source WHERE id < 1500"

    accepted, refused = write(connection, create, names)
    record(reader, "1000", {name: ("refused", detail) for name, detail in refused.items()})
    if accepted:
        columns = ", ".join(["id", *accepted])

        def action(columns):
            result = compare(connection, "expected", "lake.d.t", columns)
            check_nulls(connection, "expected", "lake.d.t", columns, result)
            return result

        try:
            connection.execute(f"INSERT INTO lake.d.t ({columns}) SELECT {columns} FROM source WHERE id >= 1500 AND id < 1800")
            record(reader, "1000", guarded(action, accepted))
        except Exception as error:
            record(reader, "1000", {name: ("refused", f"INSERT: {error}") for name in accepted})
    connection.execute("DROP TABLE IF EXISTS lake.d.t")
    connection.execute("RESET pensieve_block_rows")
    connection.execute("RESET pensieve_write_format")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--only", default="*", help="pattern of the types to look at")
    arguments = parser.parse_args()
    connection = connect(arguments.extension)
    connection.execute("SET TimeZone = 'UTC'")
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="pensieve-round-trip-") as directory:
        connection.execute(f"ATTACH {quoted(Path(directory) / 'lake')} AS lake (TYPE pensieve)")
        connection.execute("CREATE SCHEMA lake.d")
        for kind, texts in TYPES.items():
            if fnmatch.fnmatchcase(kind, arguments.only):
                check_type(connection, tally, Path(directory), kind, texts)
        connection.execute("DETACH lake")
    tally.report()
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
