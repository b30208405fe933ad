"""Random WHERE clauses over the columns of `data.COLUMNS`, or over those of them that a relation has."""

import re

from .data import COLUMNS, WORDS, literal

COMPARED = ["id", "ts", "seen", "us", "tz", "dt", "i", "big", "u", "d", "f", "n", "b", "s", "m", "k", "nul", "uu"]
# Columns that only some relations have: of hive directories, of names that differ by case, and where a row stands.
SPECIAL = ["hv", "I_1", "file_row_number"]
TIMES = ["ts", "seen", "us", "tz", "dt"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


class Predicates:
    """Draws predicates over the columns given; `sample` holds values per column (see `data.build`)."""

    def __init__(self, rng, sample, columns=None):
        self.rng = rng
        self.sample = sample
        self.columns = columns or COLUMNS
        self.compared = [name for name in COMPARED + SPECIAL if name in self.columns]
        self.times = [name for name in TIMES if name in self.columns]

    def has(self, text):
        """Whether the columns that SQL text names are there."""
        words = set(re.findall(r"\w+", re.sub(r"'[^']*'", "", text)))
        return all(name in self.columns for name in words.intersection([*COLUMNS, *SPECIAL]))

    def value(self, column):
        if column == "hv":
            return str(self.rng.randrange(-1, 6))
        if column == "file_row_number":
            return str(self.rng.choice([0, 1, 99, 100, 499, 500, 2047, 2048, self.rng.randrange(5000), 10**6]))
        if column == "I_1":
            column = "big"
        if column == "b":
            return literal("b", self.rng.random() < 0.5)
        return literal(column, self.rng.choice(self.sample[column]))

    def comparison(self, p):
        column = self.rng.choice(self.compared)
        operator = self.rng.choice(COMPARISONS)
        if self.rng.random() < 0.25 and "DISTINCT" not in operator:
            return f"{self.value(column)} {operator} {p}{column}"
        if self.rng.random() < 0.04:
            return f"{p}{column} {operator} NULL"
        return f"{p}{column} {operator} {self.value(column)}"

    def between(self, p):
        column = self.rng.choice(self.compared)
        negated = self.rng.choice(["", "", "NOT "])
        return f"{p}{column} {negated}BETWEEN {self.value(column)} AND {self.value(column)}"

    def narrow_range(self, p):
        """A short stretch of a sorted column: what real queries over logs look like."""
        start = self.rng.randrange(36_000)
        if self.rng.random() < 0.5:
            return f"{p}id >= {start} AND {p}id < {start + self.rng.choice([0, 3, 300, 3000])}"
        base = self.value("ts")
        step = self.rng.choice(["1 MINUTE", "1 HOUR", "1 DAY"])
        return f"{p}ts >= {base} AND {p}ts::TIMESTAMP < ({base}::TIMESTAMP + INTERVAL {step})"

    def membership(self, p):
        column = self.rng.choice(self.compared)
        values = [self.value(column) for _ in range(self.rng.choice([1, 2, 3, 8]))]
        if self.rng.random() < 0.1:
            values.append("NULL")
        return f"{p}{column} {self.rng.choice(['', '', 'NOT '])}IN ({', '.join(values)})"

    def null_test(self, p):
        column = self.rng.choice([name for name in [*COLUMNS, *SPECIAL] if name in self.columns])
        return f"{p}{column} IS {self.rng.choice(['', 'NOT '])}NULL"

    def needle(self):
        word = self.rng.choice(WORDS + ["region 3", "ime", "or", "x" * 256, "auth", "svc", ""])
        return word.replace("'", "''")

    def text(self, p):
        column = self.rng.choice(["s", "m", "m"])
        needle = self.needle()
        form = self.rng.randrange(9)
        if form == 0:
            return f"contains({p}{column}, '{needle}')"
        if form == 1:
            return f"starts_with({p}{column}, '{needle}')"
        if form == 2:
            return f"ends_with({p}{column}, '{needle}')"
        if form == 3:
            return f"{p}{column} ILIKE '%{needle}%'"
        if form == 4:
            return f"{p}{column} NOT LIKE '%{needle}%'"
        if form == 5:
            return f"regexp_matches({p}{column}, '{self.rng.choice(['^re', 'time', 'o+', '[0-9]+$', '^$', 'a.b'])}')"
        if form == 6:
            escaped = needle.replace("!", "!!").replace("%", "!%").replace("_", "!_")
            return f"{p}{column} LIKE '%{escaped}%' ESCAPE '!'"
        pattern = self.rng.choice([f"{needle}%", f"%{needle}", f"%{needle}%", f"_{needle}%", f"{needle}_%", needle, "%"])
        # A trailing backslash is an unfinished escape, an error that depends on which rows are looked at.
        pattern = pattern.replace("\\", "")
        return f"{p}{column} LIKE '{pattern}'"

    def time(self, p):
        """A time against a constant of its own or of another type of time, near the ends of nanoseconds and far beyond them."""
        rng = self.rng
        column = rng.choice(self.times)
        if column in ("ts", "seen"):
            value = rng.choice([
                "TIMESTAMP '1677-09-21 00:12:44'", "TIMESTAMP '2262-04-11 23:47:16.854775'", "TIMESTAMP '2027-01-01'",
                "DATE '2030-06-01'", "TIMESTAMP_S '2025-01-04'", "TIMESTAMP_MS '2031-01-01 00:00:00.001'", "'2025-01-05 10:00:00.000000001'",
                "'infinity'::TIMESTAMP",
            ])  # fmt: skip
        else:
            value = rng.choice([
                "TIMESTAMP '0001-01-01 00:00:01'", "TIMESTAMP '1677-09-21 00:12:43.145224'", "TIMESTAMP '2262-04-11 23:47:16.854776'",
                "TIMESTAMP '2400-01-01'", "DATE '2500-01-01'", "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP", "DATE '2025-01-05'",
                "TIMESTAMP '9999-12-31 23:59:59.999999'", "'infinity'::DATE", "DATE '1700-01-01'",
            ])  # fmt: skip
        return f"{p}{column} {rng.choice(COMPARISONS)} {value}"

    def expression(self, p):
        while True:
            text = self.any_expression(p)
            if self.has(text):
                return text

    def any_expression(self, p):
        rng = self.rng
        return rng.choice([
            lambda: f"{p}b",
            lambda: f"NOT {p}b",
            lambda: f"{p}i::BIGINT > {rng.choice([5, 5_000_000_000, -5_000_000_000, 350])}",
            lambda: f"{p}i > {rng.choice(['1.5', '350.5', '-0.5'])}",
            lambda: f"{p}i < {rng.choice([5_000_000_000, -5_000_000_000])}",
            lambda: f"{p}u > {rng.choice(['-1', '9223372036854775808', '0.5'])}",
            lambda: f"{p}u = {rng.choice(['18446744073709551615', '-1'])}",
            lambda: f"{p}big = {rng.choice(['9007199254740993::DOUBLE', '9007199254740992', '9223372036854775807'])}",
            lambda: f"{p}f = {rng.choice(['0.1', '0.1::DOUBLE', '0.1::FLOAT', '3.25'])}",
            lambda: f"{p}n = {rng.choice(['1', '1.0005', '0', '3.0000'])}",
            lambda: f"{p}n > {rng.choice(['0.0005', '-1e3', '999999999999999.9989'])}",
            lambda: f"{p}id % {rng.choice([7, 8, 100])} = {rng.randrange(7)}",
            lambda: f"{p}id + 1 > {rng.randrange(40_000)}",
            lambda: f"length({p}s) {rng.choice(['=', '>'])} {rng.choice([0, 3, 8, 255, 256])}",
            lambda: f"lower({p}s) = 'auth-svc'",
            lambda: f"{p}s COLLATE NOCASE = 'auth-svc'",
            lambda: f"{p}s > {rng.choice(['upper', 'lower'])}('Gateway')",
            lambda: f"{p}ts::DATE = DATE '2025-01-0{rng.randrange(1, 9)}'",
            lambda: f"{p}ts::TIMESTAMP >= TIMESTAMP '2025-01-0{rng.randrange(1, 9)} 12:00:00.000001'",
            lambda: f"{p}tz >= TIMESTAMPTZ '2025-01-0{rng.randrange(1, 9)} 00:00:00+02'",
            lambda: f"{p}dt >= TIMESTAMP '2025-0{rng.randrange(1, 9)}-01 00:00:00'",
            lambda: f"year({p}dt) = {rng.choice([2025, 1970, 2026])}",
            lambda: f"CASE WHEN {p}i > 300 THEN {p}k ELSE {p}i END = {rng.randrange(40)}",
            lambda: f"coalesce({p}k, -1) = {rng.choice([-1, 5])}",
            lambda: f"{p}k = {p}i % 40",
            lambda: f"{p}i < {p}k",
            lambda: f"{p}st.a = {rng.randrange(50)}",
            lambda: f"{p}st.b = 'search'",
            lambda: f"list_contains({p}li, {rng.randrange(4)})",
            lambda: f"len({p}li) = {rng.randrange(4)}",
            lambda: f"{p}ar[{rng.randrange(1, 4)}] {rng.choice(['>', '='])} {rng.choice([0, 0.5, 20])}",
            lambda: f"{p}ab[{rng.randrange(1, 6)}]",
            lambda: f"{p}ab[{rng.choice([1, 4])}] IS {rng.choice(['', 'NOT '])}NULL",
            lambda: f"{p}sa[{rng.randrange(1, 3)}] = 'search'",
            lambda: f"list_contains({p}sl, '{rng.choice(['search', '', 'zz'])}')",
            lambda: f"len({p}sl) = {rng.choice([0, 3])}",
            lambda: f"{p}ma['a'] {rng.choice(['<', '='])} {rng.randrange(40)}",
            lambda: f"cardinality({p}ma) = {rng.randrange(3)}",
            lambda: f"len({p}ls) > {rng.randrange(3)}",
            lambda: f"{p}ls[1].x = {rng.randrange(4)}",
            lambda: f"{p}ss.p {rng.choice(COMPARISONS)} {rng.randrange(1200)}",
            lambda: f"{p}ss.q.t {rng.choice(['<', '>='])} TIMESTAMP_NS '2025-01-0{rng.randrange(1, 9)}'",
            lambda: f"{p}ss.q.r[1] = 'gateway'",
            lambda: f"{p}ss.q IS {rng.choice(['', 'NOT '])}NULL",
            lambda: f"{p}js->>'$.a' = '{rng.randrange(40)}'",
            lambda: f"{p}js->>'$.b.c' = '{rng.choice(['search', 'gateway', ''])}'",
            lambda: f"{p}js->>'$.n' IS {rng.choice(['', 'NOT '])}NULL",
            lambda: f"({p}js->>'$.a')::INTEGER > {rng.randrange(40)}",
            lambda: f"json_exists({p}js, '$.{rng.choice(['a', 'b.c', 'none'])}')",
            lambda: f"{p}js::VARCHAR LIKE '%{rng.choice(['search', 'text', '1,2'])}%'",
            lambda: f"{p}uu = md5('{rng.randrange(12_000) * 3}')::UUID",
            lambda: f"{p}uu::VARCHAR LIKE 'a%'",
            lambda: f"{p}seen - {p}ts > INTERVAL {rng.choice([1500, 1900])} DAY",
            lambda: f"{p}tz > {p}us",
            lambda: f"{p}hv = {rng.randrange(6)} OR {p}k = {rng.randrange(40)}",
            lambda: f"{p}hv + {p}k > {rng.randrange(40)}",
            lambda: f"{p}file_row_number % {rng.choice([2, 100])} = 0",
            lambda: f"try_cast({p}m AS INTEGER) = 5",
            lambda: f"isnan({p}d)",
            lambda: f"{p}d <> {p}d",
            lambda: f"({p}k, {p}b) = (3, true)",
            lambda: f"greatest({p}i, {p}k) > {rng.randrange(900)}",
        ])()  # fmt: skip

    def leaf(self, p):
        return self.rng.choices(
            [self.comparison, self.between, self.narrow_range, self.membership, self.null_test, self.text, self.expression, self.time],
            [6, 2, 3, 2, 1, 3, 5, 2],
        )[0](p)

    def predicate(self, p="", depth=3):
        """A predicate whose columns carry the prefix `p` (an alias and a dot, or nothing)."""
        roll = self.rng.random()
        if depth == 0 or roll < 0.45:
            return self.leaf(p)
        if roll < 0.65:
            return f"({self.predicate(p, depth - 1)}) AND ({self.predicate(p, depth - 1)})"
        if roll < 0.85:
            return f"({self.predicate(p, depth - 1)}) OR ({self.predicate(p, depth - 1)})"
        if roll < 0.97:
            return f"NOT ({self.predicate(p, depth - 1)})"
        return f"({self.predicate(p, depth - 1)}) IS {self.rng.choice(['TRUE', 'NOT TRUE', 'FALSE', 'NULL'])}"
