"""Random queries in the shapes that have broken scans with pushed-down filters.

`@T@` stands for the table: a plain DuckDB table for the expected answer, a reader function for the actual one. `dim` is a
small plain table (k INTEGER with a NULL and repeats, name VARCHAR, lo BIGINT, hi BIGINT).
"""

from dataclasses import dataclass, field

from .predicates import COMPARED, SPECIAL, Predicates

# How a column is shown: Python has no nanoseconds and no infinite timestamps.
SHOWN = {
    "ts": "epoch_ns({})", "seen": "epoch_ns({})", "us": "{}::VARCHAR", "tz": "{}::VARCHAR", "dt": "{}::VARCHAR", "uu": "{}::VARCHAR",
    "ss": "{}::VARCHAR",
}  # fmt: skip
AGGREGATED = ["id", "i", "big", "u", "k", "n", "hv", "I_1", "file_row_number"]
GROUPED = ["s", "k", "b", "nul", "i", "f", "hv"]
# What may come in any order, so sums of it may differ in the last digit.
INEXACT = ("DOUBLE", "FLOAT")


@dataclass
class Query:
    """Statements whose results are concatenated; `ordered` when the order of rows is part of the answer."""

    shape: str
    statements: list
    ordered: bool = False
    cleanup: list = field(default_factory=list)


def shown(column, p=""):
    return SHOWN.get(column, "{}").format(p + column)


class Queries:
    """Draws queries over a relation with these columns (name to type), by default those of `data.COLUMNS`."""

    def __init__(self, rng, sample, columns=None):
        self.rng = rng
        self.make = Predicates(rng, sample, columns)
        self.known = self.make.columns

    # Pieces

    def where(self, p="", depth=3):
        return self.make.predicate(p, depth)

    def some(self, names):
        """One of the names that the relation has."""
        return self.rng.choice([name for name in names if name in self.known])

    def total(self, column, p=""):
        return f"{'max' if self.known[column] in INEXACT else 'sum'}({p}{column})"

    def columns(self, p="", count=None):
        names = self.rng.sample(list(self.known), count or self.rng.randrange(1, 6))
        return ", ".join(f"{shown(name, p)} AS c{i}" for i, name in enumerate(names))

    def aggregates(self, p=""):
        rng = self.rng
        number = self.some(AGGREGATED)
        options = [
            "count(*)", f"count({p}{rng.choice(list(self.known))})", f"min({p}{number})", f"max({p}{number})", self.total("k", p),
            f"count(DISTINCT {p}s)", f"min({p}s)", f"max({p}m)", f"min({p}d)", f"max({p}f)", f"bool_or({p}b)",
            f"min(epoch_ns({p}ts))", f"max({p}us)::VARCHAR", f"max({p}dt)::VARCHAR", f"sum(len({p}li))", f"max({p}st.a)",
            f"min({p}us)::VARCHAR", f"max({p}tz)::VARCHAR", f"min(epoch_ns({p}seen))", f"sum(len({p}sl))", f"count({p}ab[4])",
            f"max({p}ss.p)", f"min({p}ar[1])", f"count(*) FILTER ({self.where(p, 1)})", self.total(number, p),
        ]  # fmt: skip
        options = [text for text in options if self.make.has(text)]
        return ", ".join(rng.sample(options, rng.randrange(1, 4)))

    # Shapes

    def plain_aggregate(self):
        return [f"SELECT {self.aggregates()} FROM @T@ WHERE {self.where()}"], False

    def plain_rows(self):
        return [f"SELECT {self.columns()} FROM @T@ WHERE {self.where(depth=2)}"], False

    def metadata_only(self):
        column = self.some(AGGREGATED + ["s", "d", "b"])
        return [f"SELECT count(*), min({column}), max({column}), count({column}) FROM @T@"], False

    def group_by(self):
        key = self.some(GROUPED)
        having = self.rng.choice(["", " HAVING count(*) > 3"])
        kind = self.rng.choice(["{}", "{}", "ROLLUP ({})"]).format(key)
        return [f"SELECT {key}, {self.aggregates()} FROM @T@ WHERE {self.where()} GROUP BY {kind}{having}"], False

    def distinct(self):
        key = self.some(GROUPED)
        return [f"SELECT DISTINCT {key}, b FROM @T@ WHERE {self.where()}"], False

    def union_all(self):
        columns = self.columns(count=2)
        arms = [f"SELECT {columns} FROM @T@ WHERE {self.where(depth=2)}" for _ in range(self.rng.choice([2, 2, 3]))]
        return ["SELECT * FROM (" + " UNION ALL ".join(arms) + ")"], False

    def union_all_counts(self):
        arms = [f"SELECT {i} AS arm, {self.aggregates()} FROM @T@ WHERE {self.where()}" for i in range(1)]
        arms += [arms[0].replace("SELECT 0", "SELECT 1").split(" WHERE ")[0] + f" WHERE {self.where()}"]
        return [" UNION ALL ".join(arms)], False

    def two_scalar_subqueries(self):
        what = self.rng.choice(["count(*)", "max(id)", self.total("k"), "count(DISTINCT s)"])
        parts = [f"(SELECT {what} FROM @T@ WHERE {self.where()})" for _ in range(self.rng.choice([2, 2, 3]))]
        return ["SELECT " + ", ".join(parts)], False

    def scalar_comparison(self):
        inner = f"(SELECT {self.rng.choice(['max', 'min'])}(id) FROM @T@ WHERE {self.where(depth=2)})"
        operator = self.rng.choice(["=", "<", ">=", "<>"])
        return [f"SELECT count(*), min(id), max(id) FROM @T@ WHERE id {operator} {inner} AND ({self.where(depth=1)})"], False

    def cte(self):
        hint = self.rng.choice(["", "", "MATERIALIZED ", "NOT MATERIALIZED "])
        uses = [
            f"(SELECT count(*) FROM c WHERE {self.where(depth=1)})",
            f"(SELECT max(id) FROM c WHERE {self.where(depth=1)})",
            "(SELECT count(*) FROM c)",
        ]
        return [f"WITH c AS {hint}(SELECT * FROM @T@ WHERE {self.where(depth=2)}) SELECT {', '.join(uses)}"], False

    def cte_joined(self):
        return [
            f"WITH c AS (SELECT id, k, i, s, b FROM @T@ WHERE {self.make.narrow_range('')}) "
            f"SELECT count(*), {self.total('k', 'a.')} FROM c a JOIN c z ON a.k = z.k AND a.b = z.b WHERE a.i <= z.i"
        ], False

    def self_join(self):
        kind = self.rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = self.rng.choice(["a.id = z.id", "a.id = z.id", "a.id = z.id + 3"])
        return [
            f"SELECT count(*), count(a.id), count(z.id), min(a.k), max(z.s) FROM (SELECT * FROM @T@ WHERE {self.where('', 2)}) a "
            f"{kind} (SELECT * FROM @T@ WHERE {self.where('', 2)}) z ON {on}"
        ], False

    def left_join(self):
        return [
            f"SELECT {self.columns('a.', 2)}, dim.name FROM @T@ a LEFT JOIN dim ON a.k = dim.k AND {self.where('a.', 1)} "
            f"WHERE {self.where('a.', 2)}"
        ], False

    def small_build_side(self):
        condition = self.rng.choice([f"name = 'n{self.rng.randrange(45)}'", f"k < {self.rng.randrange(5)}", "k IS NULL"])
        join = self.rng.choice(["JOIN", "JOIN", "SEMI JOIN", "ANTI JOIN"])
        on = self.rng.choice(["a.k = d.k", "a.k = d.k", "a.id = d.lo", "a.k IS NOT DISTINCT FROM d.k"])
        return [
            f"SELECT count(*), min(a.id), max(a.s) FROM @T@ a {join} (SELECT * FROM dim WHERE {condition}) d ON {on} "
            f"WHERE {self.where('a.', 2)}"
        ], False

    def range_join(self):
        return [
            "SELECT count(*), min(id), max(id) FROM @T@ a JOIN (SELECT * FROM dim ORDER BY k, lo LIMIT 3) d "
            f"ON a.id BETWEEN d.lo AND d.hi WHERE {self.where('a.', 1)}"
        ], False

    def semi_or_anti(self):
        column = self.rng.choice(["k", "id", "s", "i"])
        negated = self.rng.choice(["", "NOT "])
        return [
            f"SELECT count(*), min(id), max(id) FROM @T@ WHERE {column} {negated}IN "
            f"(SELECT {column} FROM @T@ WHERE {self.where(depth=2)}) AND ({self.where(depth=1)})"
        ], False

    def exists(self):
        negated = self.rng.choice(["", "NOT "])
        return [
            f"SELECT count(*), min(a.id), max(a.id) FROM @T@ a WHERE ({self.where('a.', 1)}) AND {negated}EXISTS "
            f"(SELECT 1 FROM @T@ z WHERE z.id = a.id + {self.rng.choice([0, 3, 300])} AND ({self.where('z.', 1)}))"
        ], False

    def correlated(self):
        return [
            f"SELECT dim.k, dim.name, (SELECT count(*) FROM @T@ a WHERE a.k = dim.k AND ({self.where('a.', 1)})) AS n FROM dim"
        ], False

    def set_operation(self):
        columns = ", ".join(self.rng.sample(["k", "s", "b", "i", "nul"], 2))
        operator = self.rng.choice(["INTERSECT", "EXCEPT", "UNION", "INTERSECT ALL", "EXCEPT ALL"])
        arms = [f"SELECT {columns} FROM @T@ WHERE {self.where(depth=2)}" for _ in range(2)]
        return [f"({arms[0]}) {operator} ({arms[1]})"], False

    def window(self):
        function = self.rng.choice([
            "row_number() OVER (PARTITION BY s ORDER BY id)",
            "lag(k) OVER (ORDER BY id)",
            "sum(k) OVER (PARTITION BY b ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
            "max(i) OVER (PARTITION BY k)",
            "count(*) OVER ()",
        ])  # fmt: skip
        qualify = self.rng.choice(["", " QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) <= 2"])
        return [f"SELECT id, {function} AS w FROM @T@ WHERE {self.where(depth=2)}{qualify}"], False

    def top_n(self):
        column = self.some([*COMPARED, *SPECIAL])
        direction = self.rng.choice(["ASC", "DESC"]) + self.rng.choice(["", " NULLS FIRST", " NULLS LAST"])
        limit = self.rng.choice([1, 3, 10, 100])
        offset = self.rng.choice(["", "", f" OFFSET {self.rng.randrange(50)}"])
        where = f" WHERE {self.where(depth=2)}" if self.rng.random() < 0.7 else ""
        order = f"{column} {direction}, id {self.rng.choice(['ASC', 'DESC'])}"
        return [f"SELECT {shown(column)} AS x, id, s FROM @T@{where} ORDER BY {order} LIMIT {limit}{offset}"], True

    def top_n_by_id(self):
        direction = self.rng.choice(["ASC", "DESC"])
        where = self.where(depth=2)
        return [f"SELECT id, {self.columns()} FROM @T@ WHERE {where} ORDER BY id {direction} LIMIT 7"], True

    def order_preserved(self):
        # with several threads DuckDB's LIMIT without ORDER BY may take rows of a later block first, also over its own Parquet reader
        query = f"SELECT id FROM @T@ WHERE {self.where(depth=1)} LIMIT {self.rng.choice([1, 10, 500])}"
        return ["SET threads = 1", query], True

    def limit_below_filter(self):
        inner = f"SELECT id, k, s FROM @T@ WHERE {self.where(depth=1)} ORDER BY id LIMIT {self.rng.randrange(1, 200)}"
        return [f"SELECT id FROM ({inner}) WHERE k > {self.rng.randrange(40)} OR s IS NULL ORDER BY id"], True

    def prepared(self):
        types = {"id": "BIGINT", "i": "INTEGER", "k": "INTEGER", "s": "VARCHAR", "u": "UBIGINT", "d": "DOUBLE", "ts": "TIMESTAMP_NS"}
        column = self.rng.choice(list(types))
        operator = self.rng.choice(["=", "<", ">=", "<>"])
        test = f"{column} {operator} $1::{types[column]}"
        if self.rng.random() < 0.3:
            test = f"({test} OR $1 IS NULL)"
        prepare = f"PREPARE q AS SELECT count(*), min(id), max(id) FROM @T@ WHERE {test} AND ({self.where(depth=1)})"
        values = [self.make.value(column) for _ in range(3)] + self.rng.choice([[], ["NULL"]])
        return [prepare] + [f"EXECUTE q({value})" for value in values], False

    def view(self):
        create = f"CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM @T@ WHERE {self.where(depth=1)}"
        return [create, f"SELECT {self.aggregates()} FROM v WHERE {self.where(depth=2)}"], False

    def copied(self):
        create = f"CREATE OR REPLACE TEMP TABLE copied AS SELECT * FROM @T@ WHERE {self.where(depth=2)}"
        return [create, f"SELECT count(*), min(id), max(s), {self.total('k')} FROM copied"], False

    def asof(self):
        return [
            f"SELECT count(*), sum(z.id) FROM (SELECT * FROM dim WHERE lo IS NOT NULL) d ASOF JOIN "
            f"(SELECT * FROM @T@ WHERE {self.where('', 1)}) z ON d.lo >= z.id"
        ], False

    def unnested(self):
        inner = self.rng.choice(["li", "li", "sl", "ab", "sa", "ar", "map_keys(ma)", "map_values(ma)"])
        return [f"SELECT x, count(*) FROM (SELECT unnest({inner}) AS x FROM @T@ WHERE {self.where(depth=2)}) GROUP BY x"], False

    def described(self):
        # a reader of Parquet tells fixed sizes from the Arrow schema or not at all
        names = ", ".join(self.known)
        return [f"SELECT column_name, regexp_replace(column_type, '\\[\\d+\\]', '[]', 'g') FROM (DESCRIBE SELECT {names} FROM @T@)"], True

    def whole(self):
        return [f"SELECT {', '.join(shown(name) for name in self.known)} FROM @T@ WHERE {self.make.narrow_range('')}"], False

    WEIGHTED = {
        "plain_aggregate": 10, "plain_rows": 8, "metadata_only": 1, "group_by": 5, "distinct": 2, "union_all": 5,
        "union_all_counts": 4, "two_scalar_subqueries": 8, "scalar_comparison": 3, "cte": 5, "cte_joined": 2, "self_join": 4,
        "left_join": 3, "small_build_side": 6, "range_join": 2, "semi_or_anti": 4, "exists": 4, "correlated": 2,
        "set_operation": 4, "window": 4, "top_n": 6, "top_n_by_id": 3, "order_preserved": 2, "limit_below_filter": 2,
        "prepared": 6, "view": 2, "copied": 1, "asof": 1, "unnested": 2,
        "described": 0.5, "whole": 2,
    }  # fmt: skip

    AFTERWARDS = {"prepared": ["DEALLOCATE q"], "order_preserved": ["RESET threads"]}

    def draw(self):
        while True:
            shape = self.rng.choices(list(self.WEIGHTED), list(self.WEIGHTED.values()))[0]
            statements, ordered = getattr(self, shape)()
            if all(self.make.has(statement) for statement in statements):
                break
        return Query(shape, statements, ordered, self.AFTERWARDS.get(shape, []))
