"""Layouts that compose: which columns a part of a table has, in which order, under which names and types, in which format, by whom.

A composition is drawn from a generator of random numbers and written by the real writers: files through COPY and pyarrow, stores
through INSERT and COPY. Its plain table is what DuckDB makes of the same statements, or what `read_parquet` makes of the same files.
"""

import re
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import data
from .predicates import SPECIAL
from .relation import Relation, quoted

CORE = ["id", "ts", "i", "big", "d", "b", "s", "m", "k", "nul"]
BLOCKS = [100, 500, 777, 1000, 2048, 3000, None]
# Other types of a column, which every cast back can take; `@` is the table. The first ones hold the same values.
VARIANTS = {
    "id": ["@.id::INTEGER", "@.id::DOUBLE"],
    "ts": ["@.ts::TIMESTAMP", "@.ts::TIMESTAMP::TIMESTAMP_MS", "@.ts::TIMESTAMP::TIMESTAMP_S", "@.ts::TIMESTAMP::TIMESTAMPTZ"],
    "us": ["@.us::TIMESTAMPTZ", "@.us::TIMESTAMP_MS", "(CASE WHEN isfinite(@.us) THEN @.us END)::TIMESTAMP_S", "@.us::DATE"],
    "tz": ["@.tz::TIMESTAMP", "@.tz::TIMESTAMP::TIMESTAMP_MS"],
    "dt": ["@.dt::TIMESTAMP", "@.dt + INTERVAL 7 HOUR", "(@.dt + INTERVAL 17 HOUR)::TIMESTAMPTZ", "@.dt::VARCHAR"],
    "i": ["@.i::BIGINT", "@.i::DOUBLE", "(CASE WHEN abs(@.i::BIGINT) < 1000000 THEN @.i + 0.5 ELSE @.i END)::DOUBLE"],
    "k": ["@.k::TINYINT", "(@.k + 0.5)::DOUBLE", "(@.k + 0.5)::DECIMAL(9, 1)", "@.k::VARCHAR"],
    "big": ["(CASE WHEN @.big BETWEEN -9000000000000000000 AND 9000000000000000000 THEN @.big END)::DOUBLE",
            "(CASE WHEN @.big BETWEEN -9000000000000000000 AND 9000000000000000000 THEN @.big END)::FLOAT"],
    "u": ["(CASE WHEN @.u < 18000000000000000000 THEN @.u END)::DOUBLE", "(CASE WHEN @.u < 9223372036854775808 THEN @.u END)::BIGINT"],
    "f": ["@.f::DOUBLE", "@.f::DOUBLE + 1e-9"],
    "n": ["@.n::DECIMAL(38, 5)", "(CASE WHEN abs(@.n) < 1000000000 THEN @.n END)::DECIMAL(18, 1)", "(CASE WHEN abs(@.n) < 1000000000 THEN @.n END)::DOUBLE"],
    "b": ["@.b::INTEGER", "@.b::VARCHAR"],
    "li": ["@.li::BIGINT[]", "@.li::DOUBLE[]"],
    "st": ["CASE WHEN @.st IS NOT NULL THEN {'b': @.st.b, 'a': @.st.a::BIGINT} END",
           "CASE WHEN @.st IS NOT NULL THEN {'a': @.st.a} END",
           "CASE WHEN @.st IS NOT NULL THEN {'c': @.i, 'a': @.st.a, 'b': @.st.b} END"],
}  # fmt: skip
# Shapes that are not drawn, each with the reason. Nothing is left out in silence.
SWITCHED_OFF = {
    "a struct within a struct whose type differs between files": "remap_struct of DuckDB 2.0.1 raises an INTERNAL error where the outer "
    "struct is NULL and the inner one is not read, or not there (read_parquet does, too: STRUCT(p, q STRUCT(r)) beside STRUCT(p))",
    "infinite TIMESTAMP_S in Parquet": "the writer makes milliseconds of them, and infinity times 1,000 is refused as an overflow",
}


class Composer:
    """Draws and writes compositions; `postgres` is a function that gives the address of a new database, or None."""

    def __init__(self, connection, directory, postgres=None):
        self.connection = connection
        self.directory = directory
        self.postgres = postgres
        self.stored = {}

    def compose(self, rng, name):
        """One composition under a name that is a good identifier."""
        kind = rng.choice(["files", "files", "files", "log", "log", "sqlite", "postgres"])
        if kind == "postgres" and self.postgres is None:
            kind = "sqlite"
        make = Files if kind == "files" else Store
        return make(self, rng, name, kind).build()

    def types_of_stores(self, kind, attached):
        """Columns that a catalog has a type for, asked once of each kind."""
        if kind not in self.stored:
            self.stored[kind] = set()
            for column, type in data.COLUMNS.items():
                table = f"{attached}.d.probe_{column}"
                try:
                    self.connection.execute(f"CREATE TABLE {table} (c {type})")
                except Exception:  # says that the catalog has no such type
                    continue
                self.connection.execute(f"DROP TABLE {table}")
                self.stored[kind].add(column)
        return self.stored[kind]


class Composition:
    """What files and stores share: rows of parts, their columns, and the script of statements."""

    def __init__(self, composer, rng, name, kind):
        self.composer, self.rng, self.name, self.kind = composer, rng, name, kind
        self.connection = composer.connection
        self.directory = composer.directory / name
        self.script = []
        self.ordered = True

    def run(self, statement):
        self.script.append(statement)
        try:
            return self.connection.execute(statement)
        except Exception as error:
            raise CompositionError(self.name, self.script, error) from error

    def chance(self, probability):
        return self.rng.random() < probability

    def draw_columns(self, available):
        """The columns of the table in an order of their own."""
        chosen = [name for name in data.COLUMNS if name in available and (name in CORE or self.chance(0.6))]
        self.rng.shuffle(chosen)
        return chosen

    def draw_parts(self, most):
        """Conditions that give each part its rows: runs, stretches that overlap, or all over the place."""
        count = self.rng.randrange(1, most + 1)
        low = self.rng.randrange(0, data.ROWS * 2)
        high = min(data.ROWS * 3, low + 3 * self.rng.choice([400, 1500, 4000, data.ROWS]))
        inside = f"plain.id >= {low} AND plain.id < {high}"
        way = self.rng.choice(["runs", "runs", "stretches", "scattered"])
        if way == "runs":
            cuts = sorted(self.rng.randrange(low, high + 1) for _ in range(count - 1))
            parts = [f"plain.id >= {a} AND plain.id < {b}" for a, b in zip([low, *cuts], [*cuts, high])]
            if self.chance(0.5):
                self.rng.shuffle(parts)
            return parts
        step = 3 if way == "scattered" else self.rng.choice([300, 1500])
        return [f"{inside} AND plain.id // {step} % {count} = {number}" for number in range(count)]

    def draw_subset(self, columns, probability=0.5):
        """The columns that a part has, shuffled; `id` is always one of them."""
        left_out = set()
        if self.chance(probability):
            left_out = set(self.rng.sample(columns, self.rng.randrange(1, max(2, len(columns) // 2)))) - {"id"}
        subset = [name for name in columns if name not in left_out]
        if self.chance(0.6):
            self.rng.shuffle(subset)
        return subset

    def select(self, columns, condition, expressions=None, other_case=()):
        """A query of the part's rows."""
        items = []
        for name in columns:
            expression = (expressions or {}).get(name, f"@.{name}").replace("@", "plain")
            items.append(f'{expression} AS "{name.upper() if name in other_case else name}"')
        return f"SELECT {', '.join(items)} FROM plain WHERE {condition} ORDER BY plain.id"

    def draw_case(self, columns):
        return self.rng.sample(columns, 2) if self.chance(0.15) else ()

    def writer_options(self, format, columns):
        """Options of COPY, without FORMAT."""
        options = []
        rows = self.rng.choice(BLOCKS)
        if format == "parquet":
            # DuckDB's own writer
            return [f"ROW_GROUP_SIZE {rows}"] if rows else []
        if rows:
            options.append(f"ROWS_PER_BLOCK {rows}")
        if self.chance(0.4):
            options.append(f"COMPRESSION {self.rng.choice(['none', 'lz4', 'zstd'])}")
        if self.chance(0.1):
            self.ordered = False
            options.append(f"SORT_BY {quoted(self.rng.choice([name for name in columns if name in CORE]) + self.rng.choice(['', ' DESC']))}")
        if format == "tlm" and self.chance(0.3):
            options.append("DICTIONARY true")
        if format == "pensieve_parquet" and self.chance(0.5):
            names = ", ".join(quoted(name) for name in columns if name in ("id", "i", "big", "s", "m", "k", "uu") and self.chance(0.5))
            if names:
                options.append(f"BLOOM_COLUMNS [{names}]")
        return options

    def relation(self, source, expected, insertable=False, release=()):
        described = self.connection.execute(f"DESCRIBE {expected}").fetchall()
        spelt = {name.lower(): name for name in [*data.COLUMNS, *SPECIAL]}
        columns = {spelt[row[0].lower()]: row[1] for row in described}
        kind = f"{self.kind} {self.name}"
        drop = [f"DROP TABLE IF EXISTS {expected}"]
        return Relation(kind, columns, expected, source, self.script, self.ordered, insertable, [*release, *drop])


def without_infinity(table):
    """The infinite timestamps as NULL: INT96 has no place for them."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            numbers = table.column(index).cast(pa.int64())
            infinite = pc.is_in(numbers, value_set=pa.array([data.US_INFINITY, -data.US_INFINITY]))
            table = table.set_column(index, field, pc.if_else(infinite, pa.scalar(None, field.type), table.column(index)))
    return table


class CompositionError(Exception):
    """A statement that writes a layout was refused."""

    def __init__(self, name, script, error):
        super().__init__(f"layout {name}: {type(error).__name__}: {str(error).splitlines()[0]}")
        self.script = script


class Files(Composition):
    """Files of one or more formats and writers behind one call of `read_extent`."""

    def build(self):
        rng = self.rng
        self.union = self.chance(0.5)
        # Names that differ by case within a file: only pyarrow writes them.
        self.pair = self.chance(0.1)
        # whether a file has JSON and UUID as text that nothing tells from other text
        self.plain_text = False
        self.hive = None if self.pair else rng.choice([None, None, "hv", "k", "dt", "s", "i"])
        columns = self.draw_columns(data.COLUMNS)
        parts = self.draw_parts(5)
        varied = self.chance(0.4) and not self.pair
        self.run("SET preserve_insertion_order = false")
        self.run("SET threads = 1")
        paths, oracles = [], []
        first, seen = None, set()
        for number, condition in enumerate(parts):
            if first is None or self.union:
                subset = self.draw_subset(columns, 0.5 if self.union else 0)
                if number == len(parts) - 1:
                    # queries name these, so one file has them
                    subset += [name for name in CORE if name not in seen and name not in subset]
                seen.update(subset)
                first = first or subset
            else:
                # what the first file has, and perhaps more
                more = [name for name in data.COLUMNS if name not in first and self.chance(0.1)]
                subset = self.draw_subset([*first, *more], 0)
            expressions = {}
            if varied and (self.union or number):
                for name in rng.sample(subset, 3):
                    if name in VARIANTS:
                        expressions[name] = rng.choice(VARIANTS[name])
            path, oracle = self.part(number, self.select(subset, condition, expressions, self.draw_case(subset)), subset)
            paths.append(path)
            oracles.append(oracle)
        self.run("RESET preserve_insertion_order")
        if self.chance(0.3):
            order = list(range(len(paths)))
            if not varied and self.union:
                rng.shuffle(order)
            paths, oracles = [paths[i] for i in order], [oracles[i] for i in order]
        return self.open(paths, oracles)

    def part(self, number, query, columns):
        """One file, and the file that `read_parquet` reads for it."""
        places = []
        folder = ""
        if self.hive:
            values = {"k": ["7", "12", "39"], "dt": ["2024-11-03", "2025-01-02"], "s": ["search", "gateway", "zz"], "i": ["0", "350"]}
            values = values.get(self.hive, ["0", "1", "2", "5"])
            folder = f"{self.hive}={self.rng.choice([*values, *values, '__HIVE_DEFAULT_PARTITION__'])}"
        for tree in ("actual", "oracle"):
            places.append(self.directory / tree / folder)
            places[-1].mkdir(parents=True, exist_ok=True)
        writer = "pyarrow" if self.pair else self.rng.choice(["tlm", "tlm", "pensieve_parquet", "pensieve_parquet", "parquet", "pyarrow", "pyarrow_tlm"])
        oracle = places[1] / f"{number:03}.parquet"
        if writer in ("pyarrow", "parquet"):
            path = places[0] / f"{number:03}.parquet"
            if writer == "parquet":
                self.copy(query, path, "parquet", columns)
            else:
                before = self.directory / "before.parquet"
                self.copy(query, before, "pensieve_parquet", columns)
                try:
                    self.edit(before, path)
                except pa.ArrowException as error:
                    # a type that pyarrow cannot read or write: the file as it was
                    self.script.append(f"-- pyarrow: {error}; copied instead")
                    shutil.copy(before, path)
            shutil.copy(path, oracle)
            return path, oracle
        path = places[0] / f"{number:03}.{'parquet' if writer == 'pensieve_parquet' else 'tlm'}"
        if writer == "pyarrow_tlm":
            self.plain_text = True
            self.arrow_tlm(query, path)
        else:
            self.copy(query, path, writer, columns)
        self.run(f"COPY ({query}) TO {quoted(oracle)} (FORMAT parquet)")
        return path, oracle

    def copy(self, query, path, format, columns):
        options = ", ".join([f"FORMAT {format}", *self.writer_options(format, columns)])
        self.run(f"COPY ({query}) TO {quoted(path)} ({options})")

    def edit(self, before, path):
        """What a tool does that reads a file, changes rows and writes them, the metadata of the file carried along."""
        rng = self.rng
        table = pq.read_table(before)
        group = pq.ParquetFile(before).metadata.row_group(0).num_rows if table.num_rows else 1
        what = []
        if table.num_rows and self.chance(0.5):
            table = table.take(pa.array(rng.sample(range(table.num_rows), table.num_rows)))
            what.append("rows shuffled")
        for name in rng.sample(table.column_names, 3):
            if name.lower() != "id" and self.chance(0.5):
                index = table.column_names.index(name)
                reversed_column = table.column(index).take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
                table = table.set_column(index, table.schema.field(index), reversed_column)
                what.append(f"{name} reversed")
        if self.pair and "i" in [name.lower() for name in table.column_names]:
            other = "I" if "i" in table.column_names else "i"
            at = rng.randrange(len(table.column_names) + 1)
            table = table.add_column(at, other, pa.array([value * 3 for value in range(table.num_rows)], pa.int64()))
            what.append(f"column {other} added")
        table, encoded = self.encode(table, ["s", "m", "sl", "sa"])
        what += encoded
        options = {"row_group_size": rng.choice([max(group, 1), max(group, 1), 333])}
        for name, choices in {
            "use_dictionary": [True, False], "data_page_size": [None, 1000, 20_000], "compression": ["snappy", "none", "zstd", "gzip"],
            "use_deprecated_int96_timestamps": [False, False, True], "store_schema": [True, True, False], "write_page_index": [False, True],
            "coerce_timestamps": [None, None, "us", "ms"], "data_page_version": ["1.0", "2.0"], "write_statistics": [True, True, False],
        }.items():  # fmt: skip
            options[name] = rng.choice(choices)
        if "ss" in table.column_names or "SS" in table.column_names:
            # it has a timestamp in an inner struct; see SWITCHED_OFF
            options.update(use_deprecated_int96_timestamps=False, coerce_timestamps=None)
        if options["use_deprecated_int96_timestamps"]:
            table = without_infinity(table)
        options["allow_truncated_timestamps"] = options["coerce_timestamps"] is not None
        pq.write_table(table, path, **options)
        self.script.append(f"-- pyarrow: {before} -> {path}: {', '.join(what) or 'as it was'}; {options}")

    def encode(self, table, names):
        """Some columns as dictionaries, within lists as well."""
        what = []
        for index, name in enumerate(table.column_names):
            if name.lower() not in names or not self.chance(0.3) or table.num_rows == 0:
                continue
            column = table.column(index).combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = column.chunk(0)
            kind = column.type
            if pa.types.is_list(kind):
                lists = pa.ListArray.from_arrays(column.offsets, column.values.dictionary_encode(), mask=column.is_null())
                column = lists
            elif pa.types.is_fixed_size_list(kind):
                values = column.values.dictionary_encode()
                column = pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=column.is_null())
            else:
                column = column.dictionary_encode()
            table = table.set_column(index, name, column)
            what.append(f"{name} as {column.type}")
        return table, what

    def arrow_tlm(self, query, path):
        """A TLM extent of another writer: version 1, which is an Arrow file behind a magic."""
        table = self.run(query).to_arrow_reader().read_all()
        table, what = self.encode(table, ["s", "m", "n", "b", "dt", "sl", "sa"])
        for index, name in enumerate(table.column_names):
            if table.schema.field(index).type == pa.string() and self.chance(0.3):
                kind = self.rng.choice([pa.large_string(), pa.string_view()])
                table = table.set_column(index, name, table.column(index).cast(kind))
                what.append(f"{name} as {kind}")
        table = table.unify_dictionaries()
        codec = self.rng.choice([None, "lz4", "zstd"])
        rows = self.rng.choice([333, 1000, 5000])
        with open(path, "wb") as file:
            file.write(b"PNSV\x01")
            options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)
            with pa.ipc.new_file(pa.PythonFile(file), table.schema, options=options) as writer:
                writer.write_table(table, max_chunksize=rows)
        self.script.append(f"-- pyarrow: {path} as TLM of {query}: {', '.join(what) or 'plain'}; {codec}, batches of {rows}")

    def open(self, paths, oracles):
        arguments = []
        if self.union:
            arguments.append("union_by_name := true")
        if self.hive:
            arguments.append("hive_partitioning := true")
            if self.hive in ("k", "hv") and self.chance(0.4):
                arguments.append(f"hive_types := {{'{self.hive}': {self.rng.choice(['INTEGER', 'BIGINT', 'VARCHAR'])}}}")
        expected = f"expected_{self.name}"
        stands = self.ordered and self.chance(0.3)
        self.run(f"CREATE TABLE {expected} AS FROM read_parquet([{', '.join(map(quoted, oracles))}]"
                 + "".join(f", {argument}" for argument in [*arguments, *(["file_row_number := true"] if stands else [])]) + ")")  # fmt: skip
        source = f"read_extent([{', '.join(map(quoted, paths))}]{''.join(f', {argument}' for argument in arguments)})"
        if stands:
            # a virtual column, so no part of `*`
            source = f"(SELECT *, file_row_number FROM {source})"
        self.adapt(expected, source)
        return self.relation(source, expected)

    def adapt(self, expected, source):
        """Gives the expected table the types that files carry and plain Parquet does not: fixed sizes, units of time, plain text."""
        described = [dict(self.run(f"SELECT column_name, column_type FROM (DESCRIBE FROM {name})").fetchall()) for name in (expected, source)]
        items = []
        for (name, type), other in zip(described[0].items(), described[1].values()):
            lists = re.sub(r"\[\d+\]", "[]", other)
            same = type == lists or (type == "TIMESTAMP" and other in ("TIMESTAMP_MS", "TIMESTAMP_S"))
            if type != other and (same or (self.plain_text and type in ("JSON", "UUID") and other == "VARCHAR")):
                items.append(f'"{name}"::{other} AS "{name}"')
        if items:
            self.run(f"CREATE OR REPLACE TABLE {expected} AS SELECT * REPLACE ({', '.join(items)}) FROM {expected}")


class Store(Composition):
    """A table of a store, written by INSERT and COPY, with columns added on the way."""

    def build(self):
        rng = self.rng
        self.directory.mkdir(parents=True)
        self.place()
        lake = self.name
        options = f"TYPE pensieve{self.storage}"
        self.run(f"ATTACH {quoted(self.address)} AS {lake} ({options})")
        self.run(f"CREATE SCHEMA IF NOT EXISTS {lake}.d")
        types = self.composer.types_of_stores(self.kind, lake)
        columns = self.draw_columns(types)
        parts = self.draw_parts(6)
        self.table, self.expected = f"{lake}.d.t", f"expected_{self.name}"
        start = columns if self.chance(0.5) else [name for name in columns if name == "id" or self.chance(0.7)]
        later = [name for name in columns if name not in start]
        self.define(start, parts[0])
        old = None
        known = list(start)
        for condition in parts:
            while later and self.chance(0.5):
                name = later.pop()
                for table in (self.table, self.expected):
                    self.run(f"ALTER TABLE {table} ADD COLUMN {name} {data.COLUMNS[name]}")
                known.append(name)
            count = f"SELECT count(*) FROM {self.expected}"
            before = self.run(count).fetchone()
            self.append(known, condition)
            # no rows are no snapshot, and the newest one may be older than the newest column
            if old is None and not later and self.run(count).fetchone() != before and self.chance(0.15):
                old = f"{self.expected}_old"
                self.run(f"CREATE TABLE {old} AS FROM {self.expected}")
                sequence = self.run(f"SELECT max(sequence) FROM pensieve_snapshots('{self.table}')").fetchone()[0]
        for name in later:
            for table in (self.table, self.expected):
                self.run(f"ALTER TABLE {table} ADD COLUMN {name} {data.COLUMNS[name]}")
        return self.open(options, (old, sequence) if old else None)

    def place(self):
        """The address, and what is to be said beside it."""
        self.storage = ""
        if self.kind == "postgres":
            self.address = self.composer.postgres(self.name)
            self.storage = f", STORAGE {quoted(self.directory / 'data')}"
        else:
            self.address = self.directory / ("lake.db" if self.kind == "sqlite" else "lake")

    def define(self, columns, condition):
        text = ", ".join(f"{name} {data.COLUMNS[name]}" for name in columns)
        self.run(f"CREATE TABLE {self.expected} ({text})")
        if self.chance(0.2):
            # the first COPY or CREATE TABLE AS makes the table
            self.run(f"CREATE TABLE {self.table} AS {self.select(columns, condition)} LIMIT 0")
        else:
            self.run(f"CREATE TABLE {self.table} ({text})")

    def append(self, known, condition):
        """The rows of one part, by one of the ways in."""
        rng = self.rng
        subset = self.draw_subset(known)
        case = self.draw_case(subset)
        query = self.select(subset, condition, other_case=case)
        self.run(f"INSERT INTO {self.expected} BY NAME {query}")
        way = rng.choice(["insert", "insert", "copy", "copy", "copy", "load", "transaction"])
        formats = ["tlm", "parquet"] if self.kind == "log" else ["tlm"]
        format = rng.choice(formats)
        writer = "tlm" if format == "tlm" else "pensieve_parquet"
        if way == "copy":
            options = ["FORMAT pensieve", "TABLE 'd.t'", f"EXTENT_FORMAT {format}", *self.writer_options(writer, subset)]
            if self.chance(0.15):
                options.append("FILE_SIZE_BYTES '50KB'")
            self.run(f"COPY ({query}) TO {quoted(self.address)} ({', '.join(options)}{self.storage})")
            return
        self.run(f"SET pensieve_block_rows = {rng.choice(BLOCKS) or 122_880}")
        self.run(f"SET pensieve_write_format = '{format}'")
        names = ", ".join(f'"{name}"' for name in subset)
        if way == "load":
            path = self.directory / "load.parquet"
            self.run(f"COPY ({query}) TO {quoted(path)} (FORMAT parquet)")
            self.run(f"COPY {self.table} ({names}) FROM {quoted(path)} (FORMAT parquet)")
        elif way == "transaction":
            self.run("BEGIN")
            for part in range(2):
                some = self.select(subset, f"({condition}) AND plain.id % 2 = {part}")
                self.run(f"INSERT INTO {self.table} ({names}) {some}")
            self.ordered = False
            self.run("COMMIT")
        elif self.chance(0.5):
            self.run(f"INSERT INTO {self.table} BY NAME {query}")
        else:
            self.run(f"INSERT INTO {self.table} ({names}) {query}")

    def open(self, options, old):
        lake = self.name
        way = self.rng.choice(["attached", "attached again", "read only", "scan", "scan"])
        release = [f"DETACH {lake}"]
        if way in ("attached again", "read only"):
            self.run(f"DETACH {lake}")
            self.run(f"ATTACH {quoted(self.address)} AS {lake} ({options}{', READ_ONLY' if way == 'read only' else ''})")
        if old:
            release.append(f"DROP TABLE {self.expected}")
            expected, sequence = old
            if way == "scan":
                return self.relation(self.scan(f", version := {sequence}"), expected, release=release)
            return self.relation(f"(FROM {self.table} AT (VERSION => {sequence}))", expected, release=release)
        if way == "scan":
            return self.relation(self.scan(""), self.expected, release=release)
        return self.relation(self.table, self.expected, way != "read only", release)

    def scan(self, more):
        storage = self.storage.replace(", STORAGE ", ", storage := ")
        return f"pensieve_scan({quoted(self.address)}, 'd.t'{storage}{more})"
