"""Rows with hostile values, clustered so that blocks differ and pruning has something to skip."""

import datetime
import decimal
import math

import pyarrow as pa

ROWS = 12_000
# Rows that share a "region": runs in which a column is constant, all NULL, or drawn from a narrow range.
REGION = 1_000

INT_EDGES = [-(2**31), 2**31 - 1, 0, -1, 1]
BIG_EDGES = [-(2**63), 2**63 - 1, 0, -1, 2**53, 2**53 + 1]
UNSIGNED_EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
FLOAT_EDGES = [math.nan, 0.0, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
NS_EDGES = [-(2**63) + 1 + 10**9, 2**63 - 2 - 10**9, 0, -1, 1, 999, 1_000, 1_001]
US_INFINITY = 2**63 - 1
US_EDGES = [US_INFINITY, -US_INFINITY, 0, -1, 253402300799999999, -62135596800000000]
# Times at and beyond what 64 bits of nanoseconds hold: year 1, the days of 1677 and 2262 in which the range ends, 2400, 2500, 9999.
FAR_US = [
    -62_135_596_800_000_000, -9_223_372_036_854_776, -9_223_372_036_854_775, 9_223_372_036_854_775, 9_223_372_036_854_776,
    13_569_465_600_000_000, 16_725_225_600_000_000, 253_402_214_400_000_000,
]  # fmt: skip
# 2025-01-01 in nanoseconds: the start of the "log".
START_NS = 1_735_689_600_000_000_000

SERVICES = ["auth-svc", "payments-svc", "search", "Auth-Svc", "checkout", "", "gateway", "é-service", "zz"]
LONG = ["x" * 255, "x" * 256, "x" * 257, "é" * 128, "x" * 256 + "y"]
WORDS = [
    "timeout", "Timeout", "connection", "refused", "OutOfMemoryError", "oom", "user", "GET", "/api/v1/items", "retry_count=3",
    "cafe\u0301", "café", "\u212aelvin", "kelvin", "%", "_", "100%", "a_b", "\\", "id", "0x1f", "日本語", "☃", "i", "é42", "log-line",
]  # fmt: skip
# What Arrow brings; `DERIVED` has the columns that SQL makes of them.
DRAWN = {
    "id": "BIGINT",
    "ts": "TIMESTAMP_NS",
    "us": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "dt": "DATE",
    "i": "INTEGER",
    "big": "BIGINT",
    "u": "UBIGINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "n": "DECIMAL(18,3)",
    "b": "BOOLEAN",
    "s": "VARCHAR",
    "m": "VARCHAR",
    "k": "INTEGER",
    "nul": "INTEGER",
    "st": "STRUCT(a INTEGER, b VARCHAR)",
    "li": "INTEGER[]",
}
ARROW = {
    "id": pa.int64(),
    "ts": pa.timestamp("ns"),
    "us": pa.timestamp("us"),
    "tz": pa.timestamp("us", "UTC"),
    "dt": pa.date32(),
    "i": pa.int32(),
    "big": pa.int64(),
    "u": pa.uint64(),
    "d": pa.float64(),
    "f": pa.float32(),
    "n": pa.decimal128(18, 3),
    "b": pa.bool_(),
    "s": pa.string(),
    "m": pa.string(),
    "k": pa.int32(),
    "nul": pa.int32(),
    "st": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "li": pa.list_(pa.int32()),
}
# Columns that follow from others by SQL: (type, expression).
DERIVED = {
    # the second column of nanoseconds, and the only time that never falls and is never NULL
    "seen": ("TIMESTAMP_NS", "make_timestamp_ns(1893456000000000000 + id * 40000000000)"),
    "js": ("JSON", """CASE k % 8 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN '"text"' WHEN 3 THEN '[1,2]' WHEN 4 THEN 'null'
        ELSE json_object('a', k, 'b', json_object('c', s), 'n', i)::VARCHAR END"""),
    "uu": ("UUID", "CASE WHEN i % 9 = 0 THEN NULL ELSE md5(id::VARCHAR)::UUID END"),
    "ar": ("FLOAT[3]", "CASE WHEN k % 6 = 0 THEN NULL ELSE [k, i % 7, CASE WHEN b THEN 0.5 END]::FLOAT[3] END"),
    "ab": ("BOOLEAN[5]", "CASE WHEN k % 7 = 0 THEN NULL ELSE [i % 7 = 0, true, false, id % 2 = 1, NULL]::BOOLEAN[5] END"),
    "sa": ("VARCHAR[2]", "CASE WHEN k % 5 = 0 THEN NULL ELSE [s, left(m, 5)]::VARCHAR[2] END"),
    "sl": ("VARCHAR[]", "CASE WHEN id % 3000 < 900 THEN [] WHEN k % 5 = 0 THEN NULL WHEN k % 5 = 1 THEN [] ELSE [s, left(m, 5), NULL] END"),
    "ma": ("MAP(VARCHAR, INTEGER)", """CASE k % 5 WHEN 0 THEN NULL WHEN 1 THEN MAP {}::MAP(VARCHAR, INTEGER)
        ELSE MAP {'a': k, coalesce('s' || s, 'none'): i} END"""),
    "ls": ("STRUCT(x INTEGER, y VARCHAR)[]", "list_transform(li, lambda e: {'x': e, 'y': s})"),
    "ss": ("STRUCT(p INTEGER, q STRUCT(r VARCHAR[], t TIMESTAMP_NS))",
           "CASE WHEN k % 11 = 0 THEN NULL ELSE {'p': i, 'q': CASE WHEN b THEN {'r': [s, left(m, 3)], 't': ts} END} END"),
}  # fmt: skip
COLUMNS = {**DRAWN, **{name: kind for name, (kind, _) in DERIVED.items()}}


def message(rng):
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(0, 7)))
    return rng.choice([text, text.upper(), f"[{text}]", f"{text} {rng.randrange(10_000)}"])


def row(rng, number, region, quirk):
    """One row. `quirk` says what is special about each column in this region: 'null', 'constant', 'narrow' or None."""

    def pick(column, plain, edges=(), narrow=None):
        kind = quirk[column]
        if kind == "null" or rng.random() < 0.05:
            return None
        if kind == "constant":
            return narrow if narrow is not None else plain
        if edges and rng.random() < 0.04:
            return rng.choice(edges)
        return narrow if kind == "narrow" and narrow is not None else plain

    def far(column):
        """A time of the region's era where the region is a far one."""
        if quirk[column] == "far" and (rng.random() > 0.05):
            era = [*FAR_US, US_INFINITY, -US_INFINITY][quirk["era"]]
            return era if abs(era) == US_INFINITY or rng.random() < 0.3 else era + rng.randrange(10**9)
        return None

    seconds = number * 60 + rng.randrange(120)
    ns = START_NS + seconds * 10**9 + rng.randrange(10**9)
    real = rng.choice([rng.uniform(-1000, 1000), float(rng.randrange(-20, 20)), region * 10.0 + rng.random()])
    return {
        "id": number * 3,
        "ts": pick("ts", ns, NS_EDGES, START_NS + region * REGION * 60 * 10**9),
        "us": far("us") or pick("us", ns // 1000 - rng.randrange(10**12), US_EDGES, START_NS // 1000 + region * 10**9),
        "tz": far("tz") or pick("tz", ns // 1000, (), START_NS // 1000 + region * 10**9),
        "dt": pick("dt", 20_000 + number // 24 + rng.randrange(30), [0, -719_162, 2_932_896], 20_000 + region),
        "i": pick("i", region * 100 + rng.randrange(300), INT_EDGES, region * 100),
        "big": pick("big", rng.randrange(-(10**12), 10**12), BIG_EDGES, region * 10**10),
        "u": pick("u", rng.randrange(10**6), UNSIGNED_EDGES, region + 2**63),
        "d": pick("d", real, FLOAT_EDGES, float(region)),
        "f": pick("f", rng.choice([0.5, -0.5, 0.1, 3.25, float(region)]), FLOAT_EDGES[:5], region / 4),
        "n": pick("n", decimal.Decimal(rng.randrange(-(10**7), 10**7)).scaleb(-3),
                  [decimal.Decimal("999999999999999.999"), decimal.Decimal("-999999999999999.999"), decimal.Decimal(0)],
                  decimal.Decimal(region)),
        "b": pick("b", rng.random() < 0.5, (), region % 2 == 0),
        "s": pick("s", rng.choice(SERVICES[: 3 + region % 7]), LONG, SERVICES[region % len(SERVICES)]),
        "m": pick("m", message(rng), ["", "x" * 300], f"region {region} {WORDS[region % len(WORDS)]}"),
        "k": pick("k", rng.randrange(40)),
        "nul": None,
        "st": pick("st", {"a": pick("i", rng.randrange(50)), "b": pick("s", rng.choice(SERVICES))}),
        "li": pick("li", [rng.choice([None, 1, 2, 3, region]) for _ in range(rng.randrange(4))]),
    }  # fmt: skip


def build(rng, rows=ROWS):
    """The table as Arrow, and a sample of its values per column for predicates to aim at."""
    table = {name: [] for name in DRAWN}
    quirk = {}
    for number in range(rows):
        if number % REGION == 0:
            quirk = {name: rng.choice(["null", "constant", "narrow", "narrow", "far", None, None, None]) for name in DRAWN}
            quirk["era"] = rng.randrange(len(FAR_US) + 2)
        for name, value in row(rng, number, number // REGION, quirk).items():
            table[name].append(value)
    sample = {name: [value for value in rng.sample(values, 60) if value is not None] for name, values in table.items()}
    edges = {
        "ts": NS_EDGES, "us": US_EDGES + FAR_US, "tz": FAR_US, "i": INT_EDGES, "big": BIG_EDGES, "u": UNSIGNED_EDGES, "d": FLOAT_EDGES,
        "f": FLOAT_EDGES[:5], "s": LONG + SERVICES, "m": [""], "nul": [0], "k": [0, 39, 40], "id": [-1, rows * 3],
    }  # fmt: skip
    for name, values in edges.items():
        sample[name] += values
    sample["seen"] = [1_893_456_000_000_000_000 + value * 40_000_000_000 for value in sample["id"]]
    sample["uu"] = sample["id"]
    arrays = [pa.array(table[name], type=ARROW[name]) for name in DRAWN]
    return pa.Table.from_arrays(arrays, names=list(DRAWN)), sample


def create(connection, table, name="plain"):
    """The rows of `build` and the derived columns as a DuckDB table."""
    derived = ", ".join(f"({expression})::{kind} AS {column}" for column, (kind, expression) in DERIVED.items())
    connection.register("arrow_rows", table)
    connection.execute(f"CREATE TABLE {name} AS SELECT *, {derived} FROM arrow_rows")
    connection.unregister("arrow_rows")


def literal(column, value):
    """A SQL literal of the column's type; exact for every value the generator draws."""
    if value is None:
        return "NULL"
    if column in ("ts", "seen"):
        return f"make_timestamp_ns({value})"
    if column in ("us", "tz"):
        kind = "TIMESTAMP" if column == "us" else "TIMESTAMPTZ"
        if abs(value) == US_INFINITY:
            return f"'{'-' if value < 0 else ''}infinity'::{kind}"
        zone = "" if column == "us" else "+00"
        when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
        return f"'{when.isoformat(sep=' ')}{zone}'::{kind}"
    if column == "dt":
        return f"(DATE '1970-01-01' + {value})"
    if column in ("d", "f"):
        return f"'{value!r}'::{COLUMNS[column]}" if not math.isnan(value) else f"'nan'::{COLUMNS[column]}"
    if column == "n":
        return f"{value}::DECIMAL(18,3)"
    if column in ("s", "m"):
        return "'" + value.replace("'", "''") + "'"
    if column == "b":
        return "true" if value else "false"
    if column == "uu":
        return f"md5('{value}')::UUID"
    if column in ("i", "big", "u", "id", "k", "nul"):
        return f"({value})" if value < 0 else str(value)
    raise ValueError(column)
