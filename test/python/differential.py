#!/usr/bin/env python3
"""Random SQL over extents against the same SQL over plain DuckDB tables.

Every query is drawn from the seed and its number alone, so a failure is reproduced with `--seed S --only N`. Each runs over one
of several physical layouts, some with optimizers disabled, and must give the rows (or the kind of error) that the plain table
gives. Closes with `N passed, N failed`.
"""

import argparse
import faulthandler
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from diffgen import data  # noqa: E402
from diffgen.queries import Queries  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

DISABLED = ["", "", "", "", "filter_pushdown", "filter_pushdown", "statistics_propagation", "join_filter_pushdown", "top_n"]
SHOWN_DIFFERENCES = 8


class Layout:
    """One way to store the table. `write` fills a directory; `source` is what replaces the table's name in a query."""

    def __init__(self, name, source, options=None, files=None, format="tlm", casts=None):
        self.name = name
        self.format = format
        self.suffix = "tlm" if format == "tlm" else "parquet"
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

    def source(self, directory):
        return self.source_template.format(directory=directory)


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
]  # fmt: skip


def canonical(value):
    """A comparable form. Which of the equal values -0.0 and 0.0 an aggregate returns is open, so they are one here."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    return value


def run(connection, query, source, disabled):
    """Rows of all statements, or the name of the error they raise."""
    rows = []
    connection.execute(f"SET disabled_optimizers = {quoted(disabled)}")
    try:
        for statement in query.statements:
            result = connection.execute(statement.replace("@T@", source))
            rows += [tuple(canonical(value) for value in row) for row in result.fetchall()]
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    finally:
        for statement in query.cleanup:
            try:
                connection.execute(statement)
            except Exception:  # the statement that would have created it failed
                pass
    return rows if query.ordered else sorted(rows, key=repr), None


def difference(expected, actual):
    """Text of how two (rows, error) pairs differ, or None."""
    (rows, error), (got, got_error) = expected, actual
    if error or got_error:
        if error and got_error and error.split(":")[0] == got_error.split(":")[0]:
            return None
        return f"plain table: {error or f'{len(rows)} rows'}\nextension:   {got_error or f'{len(got)} rows'}"
    if rows == got:
        return None
    left, right = [repr(row) for row in rows], [repr(row) for row in got]
    if sorted(left) == sorted(right):
        return "the same rows in another order"
    missing, extra = subtract(left, right), subtract(right, left)
    lines = [f"{len(rows)} rows expected, {len(got)} rows read"]
    lines += [f"missing: {row}" for row in missing[:SHOWN_DIFFERENCES]]
    lines += [f"extra:   {row}" for row in extra[:SHOWN_DIFFERENCES]]
    return "\n".join(lines)


def subtract(left, right):
    counts = {}
    for row in right:
        counts[row] = counts.get(row, 0) + 1
    rest = []
    for row in left:
        if counts.get(row, 0):
            counts[row] -= 1
        else:
            rest.append(row)
    return rest


def create_dimension(connection):
    """The table `dim` that some queries join with."""
    connection.execute(
        "CREATE TABLE dim AS SELECT CASE WHEN range = 44 THEN NULL ELSE range % 43 END::INTEGER AS k, 'n' || range AS name, "
        "range * 800 AS lo, range * 800 + range AS hi FROM range(45)"
    )


def prepare(arguments, directory):
    """A connection with the plain tables, the written layouts and the sample of values."""
    connection = connect(arguments.extension)
    connection.execute("SET TimeZone = 'UTC'")
    table, sample = data.build(random.Random(arguments.seed))
    connection.register("arrow_rows", table)
    connection.execute("CREATE TABLE plain AS FROM arrow_rows")
    connection.unregister("arrow_rows")
    create_dimension(connection)
    for number, layout in enumerate(LAYOUTS):
        layout.write(connection, directory / str(number))
    return connection, sample


def reproduction(arguments, number, layout, disabled, query, source):
    lines = [f"layout: {layout.name}; disabled optimizers: {disabled or 'none'}; shape: {query.shape}"]
    lines += [f"  {statement.replace('@T@', source)};" for statement in query.statements]
    lines.append(f"again: {Path(__file__).name} --seed {arguments.seed} --only {number} --keep DIRECTORY")
    return "\n".join(lines)


def work(arguments, directory):
    """Run the queries; the last line of output is the summary."""
    connection, sample = prepare(arguments, directory)
    numbers = [arguments.only] if arguments.only is not None else range(arguments.queries)
    passed = failed = errors = 0
    shapes = {}
    trace = open(arguments.trace, "w") if arguments.trace else None
    for number in numbers:
        rng = random.Random(f"{arguments.seed}/{number}")
        query = Queries(rng, sample).draw()
        layout_number = rng.randrange(len(LAYOUTS))
        layout, disabled = LAYOUTS[layout_number], rng.choice(DISABLED)
        source = layout.source(directory / str(layout_number))
        connection.execute(f"SET threads = {rng.choice([1, 2, 4])}")
        if trace:
            trace.seek(0)
            trace.write(f"query {number}\n" + reproduction(arguments, number, layout, disabled, query, source) + "\n")
            trace.truncate()
            trace.flush()
        started = time.monotonic()
        expected = run(connection, query, "plain", disabled)
        middle = time.monotonic()
        actual = run(connection, query, source, disabled)
        if arguments.verbose or time.monotonic() - middle > 2:
            print(f"query {number} ({query.shape}): {middle - started:.3f} s plain, {time.monotonic() - middle:.3f} s extents")
        text = difference(expected, actual)
        errors += expected[1] is not None
        shapes[query.shape] = shapes.get(query.shape, 0) + 1
        if text is None:
            passed += 1
            continue
        failed += 1
        print(f"FAIL query {number}\n{reproduction(arguments, number, layout, disabled, query, source)}\n{text}\n", flush=True)
        if failed >= arguments.stop_after:
            print(f"stopping after {failed} failures")
            break
    print(f"seed {arguments.seed}: {len(shapes)} shapes, {errors} queries that are errors on both sides")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


def supervise(arguments, directory):
    """Run the queries in a process of its own, so that a crash is reported with the query that caused it."""
    trace = directory / "trace"
    command = [sys.executable, __file__, *sys.argv[1:], "--worker", str(directory), "--trace", str(trace)]
    status = subprocess.run(command).returncode
    if status in (0, 1):
        return status
    print(f"FAIL: the process died with status {status} at\n{trace.read_text() if trace.exists() else '(start-up)'}")
    print("0 passed, 1 failed")
    return 1


def main():
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--queries", type=int, default=2500)
    parser.add_argument("--only", type=int, help="run this query only")
    parser.add_argument("--keep", help="directory to write the extents to, and keep")
    parser.add_argument("--stop-after", type=int, default=10, help="failures to show")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--trace", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments, Path(arguments.worker) / "extents")
    if arguments.keep:
        Path(arguments.keep).mkdir(parents=True, exist_ok=True)
        return supervise(arguments, Path(arguments.keep))
    with tempfile.TemporaryDirectory(prefix="pensieve-differential-") as directory:
        return supervise(arguments, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
