"""Reading `.test` files into records, before any variable is substituted."""

import re
from dataclasses import dataclass, field
from pathlib import Path

RESULT_LINE = "----"

# Directives that stand on one line and open no block.
SIMPLE = {
    "halt",
    "hash-threshold",
    "load",
    "mode",
    "reconnect",
    "require",
    "require-env",
    "reset",
    "restart",
    "set",
    "sleep",
    "tags",
    "test-env",
}
LOOPS = {"loop", "foreach", "concurrentloop", "concurrentforeach"}

# Names that stand for a list of words in `foreach`.
COLLECTIONS = {
    "<integral>": ["tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"],
    "<signed>": ["tinyint", "smallint", "integer", "bigint", "hugeint"],
    "<unsigned>": ["utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"],
}
COLLECTIONS["<numeric>"] = COLLECTIONS["<integral>"] + ["float", "double"]
COLLECTIONS["<alltypes>"] = COLLECTIONS["<numeric>"] + ["bool", "interval", "varchar"]


class ParseError(Exception):
    """The file is not in the dialect; the message starts with `file:line`."""


@dataclass
class Record:
    """One directive. `sql` and `expected` are raw lines; `body` holds the records of a loop; `when` holds the
    `skipif`/`onlyif` conditions in front of it as (directive, condition) pairs."""

    kind: str
    line: int
    words: list
    sql: str = ""
    expected: list = field(default_factory=list)
    has_result: bool = False
    body: list = field(default_factory=list)
    when: list = field(default_factory=list)


class Parser:
    def __init__(self, path):
        self.path = path
        self.lines = Path(path).read_text(encoding="utf-8").split("\n")
        self.at = 0

    def fail(self, line, text):
        raise ParseError(f"{self.path}:{line}: {text}")

    def blank(self):
        return self.lines[self.at] == "" or self.lines[self.at].startswith("#")

    def take_sql(self):
        taken = []
        while self.at < len(self.lines) and not self.blank() and self.lines[self.at] != RESULT_LINE:
            taken.append(self.lines[self.at])
            self.at += 1
        return "\n".join(taken)

    def take_expected(self):
        """Lines after `----` up to an empty line, or None when there is no `----`."""
        if self.at >= len(self.lines) or self.lines[self.at] != RESULT_LINE:
            return None
        self.at += 1
        taken = []
        while self.at < len(self.lines) and self.lines[self.at] != "":
            taken.append(self.lines[self.at])
            self.at += 1
        return taken

    def parse(self, opened_at=None):
        """Records up to the end of the file, or of the loop opened at line `opened_at`."""
        records, when = [], []
        while self.at < len(self.lines):
            if self.blank():
                self.at += 1
                continue
            line, words = self.at + 1, self.lines[self.at].split()
            self.at += 1
            if not words:
                continue
            kind = words[0]
            if kind == "endloop":
                if opened_at is None:
                    self.fail(line, "endloop without a loop")
                return records
            if kind in ("skipif", "onlyif"):
                if len(words) != 2:
                    self.fail(line, f"{kind} takes one condition")
                when.append((kind, words[1]))
                continue
            record = Record(kind, line, words[1:], when=when)
            when = []
            if kind in ("statement", "query"):
                self.fill(record)
            elif kind in LOOPS:
                if len(record.words) < (3 if "loop" in kind else 2):
                    self.fail(line, f"{kind} needs a variable and its values")
                record.body = self.parse(opened_at=line)
            elif kind not in SIMPLE:
                self.fail(line, f"unknown directive {kind!r}")
            records.append(record)
        if opened_at is not None:
            self.fail(opened_at, "loop without endloop")
        if when:
            self.fail(len(self.lines), f"{when[-1][0]} with nothing after it")
        return records

    def fill(self, record):
        record.sql = self.take_sql()
        expected = self.take_expected()
        record.has_result = expected is not None
        record.expected = expected or []
        if not record.sql:
            self.fail(record.line, f"{record.kind} without SQL")
        if record.kind == "statement":
            if not record.words or record.words[0] not in ("ok", "error", "maybe"):
                self.fail(record.line, "statement needs ok, error or maybe")
            if record.words[0] == "ok" and record.has_result:
                self.fail(record.line, "statement ok cannot have an expected error")
        elif not record.words or not re.fullmatch(r"[A-Z]+", record.words[0]):
            self.fail(record.line, "query needs a letter per column")


def parse_file(path):
    return Parser(path).parse()


def loop_values(record, words):
    """The bindings of a loop: a list of {variable: text}."""
    if record.kind in ("loop", "concurrentloop"):
        return [{words[0]: str(value)} for value in range(int(words[1]), int(words[2]))]
    names = words[0].split(",")
    values = []
    for word in words[1:]:
        if word.startswith("!"):
            values = [value for value in values if value != word[1:]]
        else:
            values.extend(COLLECTIONS.get(word.lower(), [word]))
    bindings = []
    for value in values:
        parts = value.split(",") if len(names) > 1 else [value]
        if len(parts) != len(names):
            raise ValueError(f"foreach binds {len(names)} names, but {value!r} has {len(parts)} parts")
        bindings.append(dict(zip(names, parts)))
    return bindings
