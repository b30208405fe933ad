#!/usr/bin/env python3
"""Random SQL over extents and stores against the same SQL over plain DuckDB tables.

Every query is drawn from the seed and its number alone, so a failure is reproduced with `--seed S --only N`. Each runs over one
of several physical layouts, some with optimizers disabled, and must give the rows (or the kind of error) that the plain table
gives. A quarter of the queries reads the fixed layouts of `diffgen/layouts.py`; the others read compositions (`diffgen/composed.py`):
files of several writers and stores on every catalog, drawn anew for every 400 queries. Closes with `N passed, N failed`.
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
from diffgen.composed import SWITCHED_OFF, Composer, CompositionError  # noqa: E402
from diffgen.layouts import LAYOUTS  # noqa: E402
from diffgen.queries import Queries  # noqa: E402
from postgres_server import Postgres  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

# Compositions that are there at a time, and the queries after which others take their place.
COMPOSITIONS = 8
EPOCH = 400
DISABLED = ["", "", "", "", "filter_pushdown", "filter_pushdown", "statistics_propagation", "join_filter_pushdown", "top_n"]
SHOWN_DIFFERENCES = 8


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


class Relations:
    """What queries are run over, written when a query first wants it."""

    def __init__(self, arguments, directory):
        self.extension, self.seed, self.only_composed = arguments.extension, arguments.seed, arguments.composed
        self.table, self.sample = data.build(random.Random(arguments.seed))
        try:
            self.server = Postgres()
        except RuntimeError as error:
            print(f"stores on PostgreSQL are left out, SQLite takes their place: {error}")
            self.server = None
        self.root, self.starts = directory, 0
        self.start()

    def start(self):
        """A new database: at first, and after an error that invalidated the one before."""
        self.directory = self.root / str(self.starts)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.starts += 1
        self.connection = connect(self.extension)
        self.connection.execute("SET TimeZone = 'UTC'")
        data.create(self.connection, self.table)
        create_dimension(self.connection)
        self.composer = Composer(self.connection, self.directory, self.database if self.server else None)
        self.fixed, self.composed, self.epoch = {}, {}, None

    def database(self, name):
        """The address of a new database of the PostgreSQL server."""
        return self.server.database(f"{name}_{self.starts}")

    def draw(self, number, rng):
        """The relation of query `number`; a `CompositionError` when it cannot be written."""
        if not self.only_composed and rng.random() < 0.25:
            chosen = rng.randrange(len(LAYOUTS))
            if chosen not in self.fixed:
                self.fixed[chosen] = LAYOUTS[chosen].relation(self.connection, self.directory / str(chosen))
            return self.fixed[chosen]
        if number // EPOCH != self.epoch:
            self.release()
            self.epoch = number // EPOCH
        chosen = rng.randrange(COMPOSITIONS)
        if chosen not in self.composed:
            name = f"layout_{self.epoch}_{chosen}"
            try:
                self.composed[chosen] = self.composer.compose(random.Random(f"{self.seed}/{name}"), name)
            except CompositionError as error:
                self.composed[chosen] = error
                for statement in ("ROLLBACK", "RESET preserve_insertion_order"):
                    attempt(self.connection, statement)
        if isinstance(self.composed[chosen], CompositionError):
            raise self.composed[chosen]
        return self.composed[chosen]

    def release(self):
        for relation in self.composed.values():
            for statement in getattr(relation, "release", []):
                attempt(self.connection, statement)
        self.composed = {}

    def stop(self):
        if self.server:
            self.server.stop()


def died(connection):
    """Whether an INTERNAL error has invalidated the database."""
    try:
        connection.execute("SELECT 1").fetchall()
    except Exception as error:
        return "invalidated" in str(error)
    return False


def attempt(connection, statement):
    """Run a statement that may have nothing to do."""
    try:
        connection.execute(statement)
    except Exception:  # what it would undo was never there
        pass


def reproduction(arguments, number, relation, disabled, query):
    lines = list(relation.script)
    lines += [f"layout: {relation.name}; disabled optimizers: {disabled or 'none'}; shape: {query.shape}"]
    lines += [f"  {statement.replace('@T@', relation.actual)};" for statement in query.statements]
    lines.append(again(arguments, number))
    return "\n".join(lines)


def again(arguments, number):
    composed = " --composed" if arguments.composed else ""
    return f"again: {Path(__file__).name} --seed {arguments.seed}{composed} --only {number} --keep DIRECTORY"


class Trace:
    """A file that says what is being done, for when the process dies of it."""

    def __init__(self, path):
        self.file = open(path, "w") if path else None

    def say(self, text):
        if self.file:
            self.file.seek(0)
            self.file.write(text + "\n")
            self.file.truncate()
            self.file.flush()


def draw_query(rng, relations, relation):
    """A query over a relation, now and then beside rows that only its transaction sees."""
    while True:
        query = Queries(rng, relations.sample, relation.columns).draw()
        if relation.ordered or query.shape != "order_preserved":
            break
    if relation.insertable and rng.random() < 0.06:
        names = ", ".join(f'"{name}"' for name in relation.columns)
        start = data.ROWS * 3 + 3
        expressions = ", ".join(f"plain.id + {start} AS id" if name == "id" else f'plain."{name}"' for name in relation.columns)
        low = rng.randrange(0, data.ROWS * 3)
        insert = f"INSERT INTO @T@ ({names}) SELECT {expressions} FROM plain WHERE plain.id BETWEEN {low} AND {low + 600}"
        query.statements = ["BEGIN", insert, *query.statements]
        query.cleanup = [*query.cleanup, "ROLLBACK"]
        query.shape += " in a transaction"
        query.ordered = query.ordered and query.shape.startswith("top_n")
    return query


def work(arguments, directory):
    """Run the queries; the last line of output is the summary."""
    trace = Trace(arguments.trace)
    relations = Relations(arguments, directory)
    try:
        return run_all(arguments, relations, trace)
    finally:
        relations.stop()


def run_all(arguments, relations, trace):
    connection = relations.connection
    numbers = [arguments.only] if arguments.only is not None else range(arguments.start, arguments.start + arguments.queries)
    passed = failed = errors = skipped = 0
    shapes, where, refused = {}, {}, set()
    begun, spent = time.monotonic(), {"plain": 0.0, "extents": 0.0}
    for number in numbers:
        rng = random.Random(f"{arguments.seed}/{number}")
        trace.say(f"query {number}: its layout is being written\n{again(arguments, number)}")
        text = None
        try:
            relation = relations.draw(number, rng)
        except CompositionError as error:
            if str(error) in refused:
                skipped += 1
                continue
            refused.add(str(error))
            failed += 1
            print(f"FAIL query {number}\n" + "\n".join(error.script) + f"\n{again(arguments, number)}\n{error}\n", flush=True)
            if died(connection):
                relations.start()
                connection = relations.connection
            continue
        query = draw_query(rng, relations, relation)
        disabled = rng.choice(DISABLED)
        connection.execute(f"SET threads = {rng.choice([1, 2, 4])}")
        trace.say(f"query {number}\n{reproduction(arguments, number, relation, disabled, query)}")
        started = time.monotonic()
        expected = run(connection, query, relation.expected, disabled)
        middle = time.monotonic()
        actual = run(connection, query, relation.actual, disabled)
        ended = time.monotonic()
        spent["plain"] += middle - started
        spent["extents"] += ended - middle
        if arguments.verbose or ended - middle > 2:
            print(f"query {number} ({query.shape}): {middle - started:.3f} s plain, {ended - middle:.3f} s extents")
        text = difference(expected, actual)
        errors += expected[1] is not None
        shapes[query.shape] = shapes.get(query.shape, 0) + 1
        if text is None:
            passed += 1
            continue
        failed += 1
        where.setdefault(relation.name, []).append(number)
        print(f"FAIL query {number}\n{reproduction(arguments, number, relation, disabled, query)}\n{text}\n", flush=True)
        if died(connection):
            relations.start()
            connection = relations.connection
        if failed >= arguments.stop_after:
            print(f"stopping after {failed} failures")
            break
    for name, failures in where.items():
        print(f"layout {name}: {len(failures)} failures, the first is query {failures[0]}")
    for name, reason in SWITCHED_OFF.items():
        print(f"switched off: {name}: {reason}")
    seconds = time.monotonic() - begun
    print(
        f"seed {arguments.seed}: {len(shapes)} shapes, {errors} queries that are errors on both sides, {skipped} not run, "
        f"{(passed + failed) / seconds:.0f} queries/s ({spent['plain']:.0f} s plain, {spent['extents']:.0f} s extents, {seconds:.0f} s in all)"
    )
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
    parser.add_argument("--start", type=int, default=0, help="number of the first query")
    parser.add_argument("--composed", action="store_true", help="leave the fixed layouts out")
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
