"""Random WHERE clauses over the columns of `data.COLUMNS`."""

from .data import WORDS, literal

COMPARED = ["id", "ts", "us", "tz", "dt", "i", "big", "u", "d", "f", "n", "b", "s", "m", "k", "nul"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


class Predicates:
    """Draws predicates; `sample` holds values per column (see `data.build`)."""

    def __init__(self, rng, sample):
        self.rng = rng
        self.sample = sample

    def value(self, column):
        if column == "b":
            return literal("b", self.rng.random() < 0.5)
        return literal(column, self.rng.choice(self.sample[column]))

    def comparison(self, p):
        column = self.rng.choice(COMPARED)
        operator = self.rng.choice(COMPARISONS)
        if self.rng.random() < 0.25 and "DISTINCT" not in operator:
            return f"{self.value(column)} {operator} {p}{column}"
        if self.rng.random() < 0.04:
            return f"{p}{column} {operator} NULL"
        return f"{p}{column} {operator} {self.value(column)}"

    def between(self, p):
        column = self.rng.choice(COMPARED)
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
        column = self.rng.choice(COMPARED)
        values = [self.value(column) for _ in range(self.rng.choice([1, 2, 3, 8]))]
        if self.rng.random() < 0.1:
            values.append("NULL")
        return f"{p}{column} {self.rng.choice(['', '', 'NOT '])}IN ({', '.join(values)})"

    def null_test(self, p):
        column = self.rng.choice(COMPARED + ["st", "li"])
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

    def expression(self, p):
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
            lambda: f"try_cast({p}m AS INTEGER) = 5",
            lambda: f"isnan({p}d)",
            lambda: f"{p}d <> {p}d",
            lambda: f"({p}k, {p}b) = (3, true)",
            lambda: f"greatest({p}i, {p}k) > {rng.randrange(900)}",
        ])()  # fmt: skip

    def leaf(self, p):
        return self.rng.choices(
            [self.comparison, self.between, self.narrow_range, self.membership, self.null_test, self.text, self.expression],
            [6, 2, 3, 2, 1, 3, 4],
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
