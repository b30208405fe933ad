"""The SQL logic test runner itself: right results pass, and every kind of wrong result fails."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from sqllogic import values  # noqa: E402
from sqllogic.parse import ParseError, parse_file  # noqa: E402
from sqllogic.run import Runner  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "case.test"

    def run_text(self, text):
        self.path.write_text(textwrap.dedent(text).lstrip("\n"))
        return Runner(self.path).run()

    def assert_counts(self, text, passed, failed=0, skipped=0):
        outcome = self.run_text(text)
        actual = (outcome.passed, len(outcome.failures), outcome.skipped)
        self.assertEqual(actual, (passed, failed, skipped), outcome.failures)
        return outcome


class Queries(Case):
    def test_row_wise_and_value_wise(self):
        self.assert_counts(
            """
            query IT
            SELECT * FROM (VALUES (1, 'a'), (2, 'b c'), (3, NULL), (4, '')) ORDER BY 1
            ----
            1\ta
            2\tb c
            3\tNULL
            4\t(empty)

            query IT
            SELECT 1, 'a'
            ----
            1
            a
            """,
            2,
        )

    def test_wrong_value_fails_with_its_line(self):
        outcome = self.assert_counts(
            """
            # a comment

            query I
            SELECT 41 + 1
            ----
            43
            """,
            0,
            1,
        )
        self.assertEqual(outcome.failures[0]["line"], 3)
        self.assertIn("43", outcome.failures[0]["text"])
        self.assertIn("42", outcome.failures[0]["text"])

    def test_wrong_shapes_fail(self):
        for sql, letters, expected in (
            ("SELECT 1", "I", ""),
            ("SELECT 1 WHERE false", "I", "1"),
            ("SELECT * FROM range(3)", "I", "0\n1"),
            ("SELECT * FROM range(2)", "I", "0\n1\n2"),
            ("SELECT 1, 2", "I", "1"),
            ("SELECT 1", "II", "1\t2"),
            ("SELECT NULL", "I", "(empty)"),
            ("SELECT ''", "T", "NULL"),
            ("SELECT 'a'", "T", "A"),
            ("SELECT '1'", "T", "1.0"),
            ("SELECT true", "I", "false"),
            ("SELECT 0.1::DOUBLE", "R", "0.2"),
            ("SELECT 'nan'::DOUBLE", "R", "1"),
            ("SELECT nope", "I", "1"),
        ):
            with self.subTest(sql=sql, expected=expected):
                self.assert_counts(f"query {letters}\n{sql}\n----\n{expected}\n", 0, 1)

    def test_value_formats(self):
        self.assert_counts(
            """
            query TTTTTTT
            SELECT true, false, 1.50::DECIMAL(4,2), [1, NULL], {'a': 1}, TIMESTAMP_NS '2020-01-01 00:00:00.000000001', '\\x00'::BLOB
            ----
            true\t0\t1.50\t[1, NULL]\t{'a': 1}\t2020-01-01 00:00:00.000000001\t\\x00

            query TTIR
            SELECT '101'::BIT, '10:00:00+02'::TIMETZ, 340282366920938463463374607431768211455::UHUGEINT, 'inf'::DOUBLE
            ----
            101\t10:00:00+02\t340282366920938463463374607431768211455\tinf

            query RR
            SELECT 0.1::DOUBLE + 0.2::DOUBLE, 'nan'::DOUBLE
            ----
            0.3\tnan

            statement ok
            SET TimeZone = 'America/New_York'

            query T
            SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00'
            ----
            2019-12-31 19:00:00-05
            """,
            5,
        )

    def test_sort_modes(self):
        self.assert_counts(
            """
            query II rowsort
            SELECT * FROM (VALUES (2, 1), (1, 2))
            ----
            1\t2
            2\t1

            query II valuesort
            SELECT * FROM (VALUES (2, 1), (1, 2))
            ----
            1
            1
            2
            2

            query II
            SELECT * FROM (VALUES (2, 1), (1, 2)) ORDER BY 1 DESC
            ----
            1\t2
            2\t1
            """,
            2,
            1,
        )

    def test_patterns(self):
        self.assert_counts(
            """
            query T
            SELECT 'abc def'
            ----
            <REGEX>:abc.*

            query T
            SELECT 'abc def'
            ----
            <REGEX>:abc

            query T
            SELECT 'abc def'
            ----
            <!REGEX>:.*xyz.*

            query T
            SELECT 'abc def'
            ----
            <!REGEX>:.*def
            """,
            2,
            2,
        )

    def test_hashes(self):
        digest = values.hash_values([str(i) for i in range(100)])
        self.assert_counts(f"query I\nSELECT * FROM range(100)\n----\n100 values hashing to {digest}\n", 1)
        self.assert_counts(f"query I\nSELECT * FROM range(1, 101)\n----\n100 values hashing to {digest}\n", 0, 1)

    def test_labels(self):
        text = """
            query I nosort same
            SELECT 1
            ----

            query I nosort same
            SELECT 2
            ----
            """
        self.assertEqual(len(self.run_text(text.replace("----", "----\n1", 1)).failures), 1)
        self.assert_counts("query I nosort x\nSELECT 1\n\nquery I nosort x\nSELECT 1\n", 2)
        self.assert_counts("query I nosort x\nSELECT 1\n\nquery I nosort x\nSELECT 2\n", 1, 1)

    def test_missing_result_is_not_a_free_pass(self):
        self.assert_counts("query I\nSELECT 1\n", 0, 1)


class Statements(Case):
    def test_ok_error_maybe(self):
        self.assert_counts(
            """
            statement ok
            CREATE TABLE t(a INT);

            statement error
            SELECT * FROM missing
            ----
            does not exist

            statement error
            SELECT * FROM missing
            ----
            <REGEX>:.*Catalog Error.*missing.*

            statement error
            SELECT * FROM missing
            ----
            <!REGEX>:.*Binder.*

            statement maybe
            SELECT * FROM missing
            ----
            does not exist

            statement maybe
            SELECT 1
            """,
            6,
        )

    def test_wrong_outcomes_fail(self):
        for text in (
            "statement ok\nSELECT * FROM missing\n",
            "statement error\nSELECT 1\n",
            "statement error\nSELECT 1\n----\nanything\n",
            "statement error\nSELECT * FROM missing\n----\nanother message\n",
            "statement error\nSELECT * FROM missing\n----\n<REGEX>:Catalog\n",
            "statement maybe\nSELECT * FROM missing\n----\nanother message\n",
        ):
            with self.subTest(text=text):
                self.assert_counts(text, 0, 1)

    def test_errors_of_later_rows_count(self):
        sql = "SELECT CASE WHEN range = 3000000 THEN error('late') ELSE 1 END FROM range(3000001)"
        self.assert_counts(f"statement error\n{sql}\n----\nlate\n", 1)
        self.assert_counts(f"statement ok\n{sql}\n", 0, 1)

    def test_named_connections(self):
        self.assert_counts(
            """
            statement ok con1
            CREATE TEMP TABLE t AS SELECT 1

            query I con1
            FROM t
            ----
            1

            statement error con2
            FROM t
            ----
            does not exist
            """,
            3,
        )


class Control(Case):
    def test_nested_loops(self):
        self.assert_counts(
            """
            loop i 0 3

            foreach name a b <signed> !hugeint

            query IT
            SELECT ${i}, '${name}'
            ----
            ${i}\t${name}

            endloop

            endloop
            """,
            18,
        )

    def test_a_failing_iteration_fails(self):
        self.assert_counts("loop i 0 3\n\nquery I\nSELECT ${i} * ${i}\n----\n${i}\n\nendloop\n", 2, 1)

    def test_concurrent_loop_shares_the_database(self):
        self.assert_counts(
            """
            statement ok
            CREATE TABLE t(a INT)

            concurrentloop i 0 4

            statement ok
            INSERT INTO t VALUES (${i})

            endloop

            query I
            SELECT count(*) FROM t
            ----
            4
            """,
            6,
        )

    def test_foreach_tuples(self):
        self.assert_counts("foreach a,b 1,one 2,two\n\nquery IT\nSELECT ${a}, '${b}'\n----\n${a}\t${b}\n\nendloop\n", 2)

    def test_conditions_and_modes(self):
        self.assert_counts(
            """
            skipif duckdb
            statement error
            SELECT 1

            onlyif duckdb
            statement ok
            SELECT 1

            onlyif postgres
            statement error
            SELECT 1

            loop i 0 3

            onlyif i=1
            query I
            SELECT ${i}
            ----
            1

            endloop

            mode skip

            statement error
            SELECT 1

            mode unskip

            statement ok
            SELECT 1

            halt

            statement error
            SELECT 1
            """,
            3,
            skipped=5,
        )

    def test_require(self):
        self.assert_counts("require parquet\n\nrequire vector_size 1024\n\nstatement ok\nSELECT 1\n", 1)
        for word in ("httpfs", "vector_size 4096", "pensieve", "no_such_thing"):
            with self.subTest(word=word):
                self.assert_counts(f"statement ok\nSELECT 1\n\nrequire {word}\n\nstatement error\nSELECT 1\n", 1, skipped=1)

    def test_environment(self):
        os.environ["SQLLOGIC_SELFTEST"] = "17"
        self.addCleanup(os.environ.pop, "SQLLOGIC_SELFTEST")
        self.assert_counts("require-env SQLLOGIC_SELFTEST\n\nquery I\nSELECT ${SQLLOGIC_SELFTEST}\n----\n17\n", 1)
        self.assert_counts("require-env SQLLOGIC_SELFTEST 18\n\nstatement error\nSELECT 1\n", 0, skipped=1)
        self.assert_counts("require-env SQLLOGIC_MISSING\n\nstatement error\nSELECT 1\n", 0, skipped=1)

    def test_load_restart_reconnect(self):
        self.assert_counts(
            """
            load __TEST_DIR__/x.db

            statement ok
            CREATE TABLE t AS SELECT 1 AS a

            statement ok
            SET threads = 1

            restart

            query I
            FROM t
            ----
            1

            reconnect

            query I
            FROM t
            ----
            1

            load __TEST_DIR__/x.db readonly

            statement error
            INSERT INTO t VALUES (2)
            ----
            read-only

            load

            statement error
            FROM t
            ----
            does not exist
            """,
            6,
        )

    def test_reconnect_keeps_a_memory_database(self):
        self.assert_counts("statement ok\nCREATE TABLE t(a INT)\n\nreconnect\n\nstatement ok\nFROM t\n", 2)

    def test_directories(self):
        outcome = self.assert_counts(
            """
            statement ok
            COPY (SELECT 1 AS a) TO '{TEST_DIR}/x.csv'

            query I
            FROM '__TEST_DIR__/x.csv'
            ----
            1

            query T
            SELECT '__WORKING_DIRECTORY__'
            ----
            {WORKING_DIR}
            """,
            3,
        )
        self.assertFalse(outcome.failures)

    def test_parse_errors(self):
        for text in ("frobnicate\n", "loop i 0 2\n", "endloop\n", "query\nSELECT 1\n", "statement fine\nSELECT 1\n", "query I\n"):
            with self.subTest(text=text):
                self.path.write_text(text)
                with self.assertRaisesRegex(ParseError, "case.test:"):
                    parse_file(self.path)


class CommandLine(Case):
    def command(self, text):
        self.path.write_text(text)
        command = [sys.executable, str(ROOT / "scripts" / "sqllogictest.py"), str(self.path)]
        return subprocess.run(command, capture_output=True, text=True)

    def test_last_line_and_status(self):
        done = self.command("query I\nSELECT 1\n----\n1\n\nrequire httpfs\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "1 passed, 0 failed, 1 skipped"), done.stderr)
        done = self.command("query I\nSELECT 1\n----\n2\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 1 failed"))
        self.assertIn(f"FAIL {self.path}:1: query I", done.stdout)
        done = self.command("nonsense\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 1 failed"))

    def test_nothing_run_is_a_failure(self):
        done = self.command("require httpfs\n\nstatement ok\nSELECT 1\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 0 failed, 1 skipped"))


if __name__ == "__main__":
    unittest.main()
