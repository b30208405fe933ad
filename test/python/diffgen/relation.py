"""What a query is run over: a plain table with the expected rows beside what the extension reads."""

from dataclasses import dataclass, field


def quoted(text):
    """A SQL string literal."""
    return "'" + str(text).replace("'", "''") + "'"


@dataclass
class Relation:
    """`expected` is a plain table, `actual` what replaces its name for the extension; `columns` maps names to types."""

    name: str
    columns: dict
    expected: str
    actual: str
    # How it was written, for the report of a failure.
    script: list = field(default_factory=list)
    # Whether rows come in the order of the plain table.
    ordered: bool = True
    # Whether a transaction can append rows of `plain` to both.
    insertable: bool = False
    # Statements that let go of it.
    release: list = field(default_factory=list)
