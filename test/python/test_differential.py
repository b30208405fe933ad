"""The SQL differential itself: it sees every kind of difference, and its queries are valid, repeatable SQL."""

import random
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "python"))

import differential  # noqa: E402
import duckdb  # noqa: E402
from diffgen import data  # noqa: E402
from diffgen.composed import CORE, VARIANTS  # noqa: E402
from diffgen.queries import Queries, Query  # noqa: E402


class Differences(unittest.TestCase):
    def test_equal(self):
        nan = differential.canonical(float("nan"))
        for rows in ([], [(1,)], [(None, "a"), (nan, "b")]):
            self.assertIsNone(differential.difference((rows, None), (list(rows), None)))

    def test_every_difference_is_seen(self):
        rows = [(1, "a"), (2, "b"), (2, "b")]
        for other, text in (
            (rows[:2], "missing: (2, 'b')"),
            (rows + [(3, "c")], "extra:   (3, 'c')"),
            ([(1, "a"), (2, "b"), (2, "B")], "extra:   (2, 'B')"),
            (rows[::-1], "another order"),
            ([(1, "a"), (2, "b"), (2, None)], "extra:   (2, None)"),
        ):
            with self.subTest(other=other):
                self.assertIn(text, differential.difference((rows, None), (other, None)))

    def test_errors(self):
        error = (None, "ConversionException: one thing")
        self.assertIsNone(differential.difference(error, (None, "ConversionException: another file")))
        self.assertIn("IOException", differential.difference(error, (None, "IOException: x")))
        self.assertIn("1 rows", differential.difference(error, ([(1,)], None)))
        self.assertIn("extension", differential.difference(([(1,)], None), error))

    def test_zeros_and_nans(self):
        self.assertEqual(differential.canonical(-0.0), differential.canonical(0.0))
        self.assertEqual(differential.canonical((float("nan"), {"a": [-0.0]})), ["nan", {"a": ["0.0"]}])


class Generator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table, cls.sample = data.build(random.Random(1), 2000)

    def setUp(self):
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        data.create(self.connection, self.table)
        differential.create_dimension(self.connection)

    def draw(self, number):
        return Queries(random.Random(f"1/{number}"), self.sample).draw()

    def test_repeatable(self):
        for number in range(50):
            self.assertEqual(self.draw(number), self.draw(number))

    def test_queries_are_valid_and_find_rows(self):
        shapes, found = set(), 0
        for number in range(300):
            query = self.draw(number)
            rows, error = differential.run(self.connection, query, "plain", "")
            self.assertIsNone(error, query)
            shapes.add(query.shape)
            found += any(value not in (0, None) for row in rows for value in row)
        self.assertGreater(len(shapes), 25)
        self.assertGreater(found, 150)

    def test_queries_name_only_the_columns_that_are_there(self):
        columns = {name: data.COLUMNS[name] for name in CORE}
        self.connection.execute(f"CREATE VIEW core AS SELECT {', '.join(CORE)} FROM plain")
        for number in range(150):
            query = Queries(random.Random(f"2/{number}"), self.sample, columns).draw()
            self.assertIsNone(differential.run(self.connection, query, "core", "")[1], query)

    def test_other_types_of_a_column_can_be_read_as_its_own(self):
        for name, expressions in VARIANTS.items():
            for expression in expressions:
                cast = f"SELECT ({expression.replace('@', 'plain')})::{data.COLUMNS[name]} FROM plain"
                with self.subTest(expression=expression):
                    self.connection.execute(cast).fetchall()

    def test_a_scan_that_loses_rows_is_caught(self):
        self.connection.execute("CREATE TABLE damaged AS FROM plain WHERE id <> 1500")
        caught = 0
        for number in range(100):
            query = self.draw(number)
            whole = differential.run(self.connection, query, "plain", "")
            caught += differential.difference(whole, differential.run(self.connection, query, "damaged", "")) is not None
        self.assertGreater(caught, 5)

    def test_no_optimizer_changes_the_answer(self):
        query = Query("test", ["SELECT count(*) FROM @T@ WHERE id >= 300 AND id < 330"])
        for disabled in set(differential.DISABLED):
            self.assertEqual(differential.run(self.connection, query, "plain", disabled), ([(10,)], None))


if __name__ == "__main__":
    unittest.main()
