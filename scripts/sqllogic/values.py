"""Turning results into text as DuckDB's own test runner does, and comparing them with what a test expects."""

import hashlib
import math
import re
import warnings
from decimal import Decimal, InvalidOperation

import duckdb

NUMERIC = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE",
}  # fmt: skip
HASHED = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")
# Types that Arrow output changes; rows with one of them come through Python objects instead.
LOSSY = {"BIT", "TIME WITH TIME ZONE", "UHUGEINT", "BIGNUM"}
# Floating-point results may differ in the last digits between summation orders.
TOLERANCE = 1e-6


class Result:
    """Column types and rows of text."""

    def __init__(self, types, rows):
        self.types = types
        self.rows = rows


class Formatter:
    """Casts results to VARCHAR with DuckDB itself, in a database of its own, so the query under test stays as written."""

    def __init__(self):
        self.helper = duckdb.connect(config={"autoinstall_known_extensions": "false"})

    def close(self):
        self.helper.close()

    def fetch(self, connection):
        """The result pending on `connection`, read to its end; None when the statement returns none."""
        if connection.description is None:
            return None
        described = [str(column[1]) for column in connection.description]
        if LOSSY.intersection(described):
            rows = [self.cast_objects(row) for row in connection.fetchall()]
            return Result(described, [[format_value(value, kind) for value, kind in zip(row, described)] for row in rows])
        with warnings.catch_warnings():
            # DuckDB advises a relation here, which cannot hold the result of EXECUTE, PRAGMA or INSERT.
            warnings.simplefilter("ignore")
            table = connection.to_arrow_table()
        columns = [f"c{i}" for i in range(table.num_columns)]
        if not columns:
            return Result([], [])
        self.helper.register("result", table.rename_columns(columns))
        try:
            types = [row[1] for row in self.helper.execute("DESCRIBE result").fetchall()]
            if "TIMESTAMP WITH TIME ZONE" in "".join(types):
                zone = connection.execute("SELECT current_setting('TimeZone')").fetchall()[0][0]
                self.helper.execute(f"SET TimeZone = '{zone}'")
            casts = ", ".join(f"CAST({name} AS VARCHAR)" for name in columns)
            rows = self.helper.execute(f"SELECT {casts} FROM result").fetchall()
        finally:
            self.helper.unregister("result")
        return Result(types, [[format_value(value, kind) for value, kind in zip(row, types)] for row in rows])

    def cast_objects(self, row):
        texts = []
        for value in row:
            if value is not None and not isinstance(value, str):
                value = self.helper.execute("SELECT CAST(? AS VARCHAR)", [value]).fetchall()[0][0]
            texts.append(value)
        return texts


def format_value(text, kind):
    if text is None:
        return "NULL"
    if kind == "BOOLEAN":
        return "1" if text == "true" else "0"
    if text == "":
        return "(empty)"
    return text.replace("\0", "\\0")


def number(text):
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def matches_pattern(actual, expected):
    """The outcome of `<REGEX>:` or `<!REGEX>:`, or None when `expected` is neither."""
    for mark, wanted in (("<REGEX>:", True), ("<!REGEX>:", False)):
        if expected.startswith(mark):
            found = re.fullmatch(expected[len(mark) :], actual.replace("\r", ""), re.DOTALL) is not None
            return found == wanted
    return None


def equal(actual, expected, kind):
    """Whether one value is as expected, given the column's type."""
    if actual == expected:
        return True
    matched = matches_pattern(actual, expected)
    if matched is not None:
        return matched
    if kind == "BOOLEAN":
        words = {"true": "1", "false": "0"}
        return words.get(expected.lower(), expected) == actual
    if kind in NUMERIC or kind.startswith("DECIMAL"):
        left, right = number(actual), number(expected)
        if left is None or right is None or left.is_nan() or right.is_nan():
            return left is not None and right is not None and left.is_nan() and right.is_nan()
        if left == right:
            return True
        if kind in ("FLOAT", "DOUBLE"):
            return math.isclose(float(left), float(right), rel_tol=TOLERANCE, abs_tol=1e-12)
    return False


def hash_values(values):
    """MD5 of the values, each followed by a newline."""
    return hashlib.md5("".join(value + "\n" for value in values).encode()).hexdigest()


def sort_rows(rows, mode):
    if mode in ("rowsort", "sort"):
        return sorted(rows)
    if mode == "valuesort":
        return [[value] for value in sorted(value for row in rows for value in row)]
    return rows


def split_expected(lines, columns, row_count):
    """Expected lines as rows. They hold a row each, separated by tabs, or a value each."""
    by_row = columns > 1 and (len(lines) == row_count or all("\t" in line for line in lines))
    if columns == 1:
        return [[line] for line in lines]
    if by_row:
        return [line.split("\t") for line in lines]
    return [lines[i : i + columns] for i in range(0, len(lines), columns)]


def difference(result, lines, columns, mode):
    """None when `result` is what `lines` say, otherwise a description of the difference."""
    if result is None:
        return "the statement returned no result"
    if len(result.types) != columns:
        return f"expected {columns} columns, got {len(result.types)} ({', '.join(result.types)})"
    rows = sort_rows(result.rows, mode)
    hashed = HASHED.fullmatch(lines[0]) if len(lines) == 1 else None
    if hashed:
        values = [value for row in rows for value in row]
        actual = (len(values), hash_values(values))
        if actual != (int(hashed.group(1)), hashed.group(2)):
            return f"expected {lines[0]}\ngot {actual[0]} values hashing to {actual[1]}"
        return None
    expected = split_expected(lines, columns, len(rows))
    # Sorting both sides compares them as bags. Patterns and other spellings of a number sort elsewhere than what they
    # stand for, so the order given in the file counts as well.
    if any(same_rows(rows, candidate, result.types, mode) for candidate in (sort_rows(expected, mode), expected)):
        return None
    return side_by_side(rows, expected)


def same_rows(rows, expected, types, mode):
    if mode == "valuesort":
        types = ["VARCHAR"]
    if len(rows) != len(expected):
        return False
    return all(
        len(row) == len(wanted) and all(equal(a, e, kind) for a, e, kind in zip(row, wanted, types))
        for row, wanted in zip(rows, expected)
    )


def side_by_side(rows, expected, limit=20):
    def show(title, table):
        lines = ["  " + "\t".join(row) for row in table[:limit]]
        if len(table) > limit:
            lines.append(f"  ... {len(table) - limit} more")
        return [f"{title} ({len(table)} rows):"] + lines

    return "\n".join(show("expected", expected) + show("actual", rows))
