"""Executing the records of one file."""

import os
import shutil
import tempfile
import threading
import time
import uuid
from pathlib import Path

import duckdb

from . import values
from .parse import LOOPS, loop_values, parse_file

BUILT_IN = {"parquet", "json", "icu", "core_functions"}
# `require` words that ask for a property every build we run on has.
PROPERTIES = {"skip_reload", "notwindows", "notmingw", "notmusl", "64bit", "noforcestorage", "nothreadsan", "no_alternative_verify"}
VECTOR_SIZE = 2048
UNITS = {"second": 1, "seconds": 1, "millisecond": 1e-3, "milliseconds": 1e-3, "microsecond": 1e-6, "nanosecond": 1e-9}
UNREACHABLE = ["HTTP", "Unable to connect"]


class Skip(Exception):
    """The rest of the file does not apply here."""


class Halt(Exception):
    """The file ends here."""


class Outcome:
    """Counts and failures of one file. Loops may add to it from several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.passed = 0
        self.skipped = 0
        self.failures = []

    def passes(self):
        with self.lock:
            self.passed += 1

    def skips(self, count=1):
        with self.lock:
            self.skipped += count

    def fails(self, line, title, text):
        with self.lock:
            self.failures.append({"line": line, "title": title, "text": text})


class Runner:
    """State of one file: database, connections, modes, labels. `progress` is told the line before each record.

    `database` only keeps an in-memory database alive; statements run on `default`, a named connection or, in a
    concurrent loop, a connection per iteration.
    """

    def __init__(self, path, extension=None, name="pensieve", progress=lambda line: None):
        self.path = Path(path)
        self.extension = extension
        self.name = name
        self.progress = progress
        self.outcome = Outcome()
        self.test_dir = tempfile.mkdtemp(prefix="sqllogic-")
        self.environment = {}
        self.labels = {}
        self.skipping = False
        self.hash_threshold = 0
        self.ignored_errors = list(UNREACHABLE)
        self.required = set()
        self.location = ":memory:"
        self.read_only = False
        self.database = None
        self.default = None
        self.connections = {}
        self.formatter = values.Formatter()
        self.helper_lock = threading.Lock()

    # Databases and connections

    def open(self):
        self.close()
        # Unsigned extensions are a start-up option; fetching others from the network would make tests depend on it.
        config = {"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
        self.database = duckdb.connect(self.location, read_only=self.read_only, config=config)
        self.default = self.database.cursor()
        for name in sorted(self.required):
            self.load_extension(name)

    def disconnect(self):
        for connection in (self.default, *self.connections.values()):
            if connection is not None:
                connection.close()
        self.default, self.connections = None, {}

    def close(self):
        self.disconnect()
        if self.database is not None:
            self.database.close()
            self.database = None

    def connection(self, name):
        if name not in self.connections:
            self.connections[name] = self.database.cursor()
        return self.connections[name]

    def load_extension(self, name):
        if name == self.name:
            self.database.execute(f"LOAD '{self.extension}'")

    # Text

    def substitute(self, text, variables):
        for name, value in list(variables.items()) + list(self.environment.items()):
            text = text.replace("${" + name + "}", value)
        here = os.getcwd()
        for name, value in (
            ("__TEST_DIR__", self.test_dir),
            ("__WORKING_DIRECTORY__", here),
            ("__BUILD_DIRECTORY__", os.path.join(here, "build")),
            ("{TEST_DIR}", self.test_dir),
            ("{TEMP_DIR}", self.test_dir),
            ("{WORKING_DIR}", here),
            ("{WORKING_DIRECTORY}", here),
            ("{DATA_DIR}", os.path.join(here, "test", "data")),
            ("{TEST_NAME}", self.path.as_posix()),
        ):
            text = text.replace(name, value)
        if "{UUID}" in text:
            text = text.replace("{UUID}", str(uuid.uuid4()))
        return text

    # Records

    def run(self):
        """Run the file and return its outcome."""
        try:
            records = parse_file(self.path)
            self.open()
            self.run_all(records, {})
        except Halt:
            pass
        except Skip:
            self.outcome.skips()
        finally:
            self.close()
            self.formatter.close()
            shutil.rmtree(self.test_dir, ignore_errors=True)
        return self.outcome

    def run_all(self, records, variables, local=None):
        for record in records:
            self.progress(record.line)
            if not self.applies(record, variables):
                self.outcome.skips()
                continue
            words = [self.substitute(word, variables) for word in record.words]
            if record.kind in LOOPS:
                self.run_loop(record, words, variables, local)
            elif record.kind in ("statement", "query"):
                if self.skipping:
                    self.outcome.skips()
                elif record.kind == "statement":
                    self.run_statement(record, words, variables, local)
                else:
                    self.run_query(record, words, variables, local)
            else:
                self.run_directive(record, words)

    def applies(self, record, variables):
        """`skipif`/`onlyif` take an engine's name or a comparison with a loop variable."""
        for directive, condition in record.when:
            holds = condition.lower() == "duckdb"
            for operator in ("!=", ">=", "<=", "=", "<", ">"):
                name, found, right = condition.partition(operator)
                if found:
                    holds = compare(variables.get(name, ""), operator, right)
                    break
            if holds != (directive == "onlyif"):
                return False
        return True

    def run_loop(self, record, words, variables, local):
        try:
            bindings = loop_values(record, words)
        except ValueError as error:
            self.outcome.fails(record.line, record.kind, str(error))
            return
        if not record.kind.startswith("concurrent"):
            for binding in bindings:
                self.run_all(record.body, {**variables, **binding}, local)
            return
        errors = []

        def iterate(binding):
            connection = self.database.cursor()
            try:
                self.run_all(record.body, {**variables, **binding}, connection)
            except (Skip, Halt) as error:
                errors.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=iterate, args=(binding,)) for binding in bindings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def run_directive(self, record, words):
        kind = record.kind
        if kind == "halt":
            raise Halt
        if kind == "mode":
            self.skipping = {"skip": True, "unskip": False}.get(words[0], self.skipping)
        elif kind == "require":
            self.require(words)
        elif kind in ("require-env", "test-env"):
            self.require_environment(kind, words)
        elif kind == "hash-threshold":
            self.hash_threshold = int(words[0])
        elif kind == "sleep":
            time.sleep(float(words[0]) * UNITS[words[1]])
        elif kind == "set":
            if words[0] == "ignore_error_messages":
                self.ignored_errors = words[1:]
        elif kind == "reset":
            if words[0] == "label":
                self.labels.pop(words[1], None)
        elif self.skipping or kind == "tags":
            pass
        elif kind == "reconnect":
            self.disconnect()
            self.default = self.database.cursor()
        else:
            if kind == "load":
                self.location = words[0] if words else ":memory:"
                self.read_only = "readonly" in words[1:]
                if not self.read_only:
                    for leftover in (self.location, self.location + ".wal"):
                        Path(leftover).unlink(missing_ok=True)
            self.open()

    def require(self, words):
        name = words[0].lower()
        if name == self.name and self.extension:
            if name not in self.required:
                self.required.add(name)
                self.load_extension(name)
        elif name == "vector_size":
            if int(words[1]) > VECTOR_SIZE:
                raise Skip
        elif name not in BUILT_IN and name not in PROPERTIES:
            raise Skip

    def require_environment(self, kind, words):
        value = os.environ.get(words[0])
        if kind == "test-env":
            value = value if value is not None else (words[1] if len(words) > 1 else "")
        elif value is None or (len(words) > 1 and value not in words[1:]):
            raise Skip
        self.environment[words[0]] = value

    # Statements and queries

    def execute(self, sql, connection):
        """(result, None) or (None, error text)."""
        try:
            connection.execute(sql)
            with self.helper_lock:
                return self.formatter.fetch(connection), None
        except duckdb.Error as error:
            return None, str(error)
        except Exception as error:  # such as an Arrow error of the fetch: it belongs to this record, not to the runner
            return None, f"{type(error).__name__}: {error}"

    def is_unreachable(self, error):
        return any(text in error for text in self.ignored_errors)

    def run_statement(self, record, words, variables, local):
        sql = self.substitute(record.sql, variables)
        connection = self.connection(words[1]) if len(words) > 1 else (local or self.default)
        # The result is read to its end: DuckDB runs a SELECT lazily, and errors in later rows count too.
        _, error = self.execute(sql, connection)
        title = f"statement {words[0]}\n{sql}"
        if error is None:
            if words[0] == "error":
                self.outcome.fails(record.line, title, "expected an error, but the statement succeeded")
            else:
                self.outcome.passes()
            return
        if words[0] == "ok":
            if self.is_unreachable(error):
                raise Skip
            self.outcome.fails(record.line, title, f"unexpected error: {error}")
            return
        wanted = "\n".join(self.substitute(line, variables) for line in record.expected)
        matched = values.matches_pattern(error, wanted)
        if matched if matched is not None else wanted in error:
            # An internal error is a bug even where some error is expected.
            if "INTERNAL Error" in error and "INTERNAL" not in wanted:
                self.outcome.fails(record.line, title, f"internal error: {error}")
            else:
                self.outcome.passes()
        else:
            self.outcome.fails(record.line, title, f"expected an error with: {wanted}\nactual error: {error}")

    def run_query(self, record, words, variables, local):
        sql = self.substitute(record.sql, variables)
        mode, connection, label = "nosort", local or self.default, None
        if len(words) > 1:
            if words[1] in ("nosort", "rowsort", "sort", "valuesort"):
                mode = words[1]
            else:
                connection = self.connection(words[1])
        if len(words) > 2:
            label = words[2]
        title = f"query {' '.join(words)}\n{sql}"
        result, error = self.execute(sql, connection)
        if error is not None:
            if self.is_unreachable(error):
                raise Skip
            self.outcome.fails(record.line, title, f"unexpected error: {error}")
            return
        text = None
        if record.has_result or label is None:
            expected = [self.substitute(line, variables) for line in record.expected]
            if len(expected) == 1 and expected[0].startswith("<FILE>:"):
                expected = Path(expected[0][len("<FILE>:") :]).read_text().splitlines()
            text = values.difference(result, expected, len(words[0]), mode)
        if text is None and label is not None:
            rows = values.sort_rows(result.rows if result else [], mode)
            before = self.labels.setdefault(label, rows)
            if before != rows:
                text = f"result differs from the first one labelled {label}\n" + values.side_by_side(rows, before)
        if text is None:
            self.outcome.passes()
        else:
            self.outcome.fails(record.line, title, text)


def compare(left, operator, right):
    if operator in ("=", "!="):
        return (left == right) == (operator == "=")
    try:
        left, right = float(left), float(right)
    except ValueError:
        return False
    return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[operator]
