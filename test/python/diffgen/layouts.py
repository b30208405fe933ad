"""The fixed layouts: one table written in the ways that the formats offer, all of them of the same rows."""

from . import data
from .relation import Relation, quoted


class Layout:
    """One way to store the table. `write` fills a directory; `source` is what replaces the table's name in a query."""

    def __init__(self, name, source, options=None, files=None, format="tlm", casts=None):
        self.name = name
        self.format = format
        self.suffix = {"tlm": "tlm", "dendro": "dendro"}.get(format, "parquet")
        self.source_template = source
        self.options = options or {}
        self.files = files
        # Types that every second file has instead; they hold the same values.
        self.casts = casts

    def write(self, connection, directory):
        directory.mkdir(parents=True)
        # Blocks of exactly the size asked for: with the order kept, COPY hands over whole vectors of 2,048 rows. One thread
        # keeps the order as well.
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET threads = 1")
        self.copy(connection, directory)
        connection.execute("RESET preserve_insertion_order")

    def copy(self, connection, directory):
        options = ", ".join([f"FORMAT {self.format}"] + [f"{key} {value}" for key, value in self.options.items()])
        if self.files is None:
            connection.execute(f"COPY (FROM plain ORDER BY id) TO {quoted(directory / f'all.{self.suffix}')} ({options})")
            return
        # Uneven files, one of them empty, in the order of their names.
        bounds = [0, 1, 1] + [data.ROWS * 3 * i // self.files for i in range(1, self.files + 1)]
        for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
            columns = f"* REPLACE ({self.casts})" if self.casts and number % 2 else "*"
            rows = f"SELECT {columns} FROM plain WHERE plain.id >= {start} AND plain.id < {end} ORDER BY plain.id"
            connection.execute(f"COPY ({rows}) TO {quoted(directory / f'{number:03}.{self.suffix}')} ({options})")

    def relation(self, connection, directory):
        """What queries read."""
        self.write(connection, directory)
        return Relation(self.name, data.COLUMNS, "plain", self.source_template.format(directory=directory))


CASTS = (
    "id::INTEGER AS id, i::BIGINT AS i, k::HUGEINT AS k, nul::BIGINT AS nul, f::DOUBLE AS f, n::DECIMAL(38, 3) AS n, "
    "b::INTEGER AS b, dt::VARCHAR AS dt"
)
LAYOUTS = [
    Layout("one block", "read_tlm('{directory}/all.tlm')"),
    Layout("blocks of 2048, lz4", "read_tlm('{directory}/all.tlm')", {"ROWS_PER_BLOCK": 2048, "COMPRESSION": "lz4"}),
    Layout("blocks of 500, dictionaries, zstd", "read_extent('{directory}/all.tlm')",
           {"ROWS_PER_BLOCK": 500, "COMPRESSION": "zstd", "DICTIONARY": "true"}),
    Layout("blocks of 777, uncompressed, by name", "'{directory}/all.tlm'", {"ROWS_PER_BLOCK": 777, "COMPRESSION": "none"}),
    Layout("files by glob", "read_tlm('{directory}/*.tlm')", {"ROWS_PER_BLOCK": 600}, files=5),
    Layout("files by glob, union by name", "read_tlm('{directory}/*.tlm', union_by_name := true)", {"ROWS_PER_BLOCK": 1024}, files=3),
    Layout("Parquet, one block", "read_extent('{directory}/all.parquet')", format="pensieve_parquet"),
    Layout("Parquet, blocks of 700, filters on strings", "read_extent('{directory}/all.parquet')",
           {"ROWS_PER_BLOCK": 700, "BLOOM_COLUMNS": "['s', 'm', 'i', 'big', 'id']"}, format="pensieve_parquet"),
    Layout("Parquet files by glob", "read_extent('{directory}/*.parquet')", {"ROWS_PER_BLOCK": 2048}, 4, "pensieve_parquet"),
    Layout("files of other types", "read_tlm('{directory}/*.tlm')", {"ROWS_PER_BLOCK": 900}, files=4, casts=CASTS),
    Layout("Parquet files of other types", "read_extent('{directory}/*.parquet')", {"ROWS_PER_BLOCK": 900}, 5,
           "pensieve_parquet", CASTS),
    Layout("sorted Parquet", "read_extent('{directory}/all.parquet')", {"ROWS_PER_BLOCK": 600, "SORT_BY": "id"},
           format="pensieve_parquet"),
    Layout("Parquet of DuckDB", "read_extent('{directory}/all.parquet')", {"ROW_GROUP_SIZE": 2048}, format="parquet"),
    Layout("dendro", "read_dendro('{directory}/all.dendro')", {"STREAM": "'rows'", "TS_COLUMN": "'seen'", "SEGMENT_ROWS": 1500},
           format="dendro"),
]  # fmt: skip
