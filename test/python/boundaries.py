#!/usr/bin/env python3
"""What must not leak or mix: scans of other databases of the process, names with odd characters, files outside what the session may
read, and files that changed without a version to tell.
"""

import argparse
import os
import sqlite3
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import duckdb  # noqa: E402
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem  # noqa: E402
from range_server import RangeServer  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

# Everything that lists were ever separated by, and what means something in a path or a pattern of one.
ODD = "a\x1fb\x1ec\nd\te'f\"g,h;i"


def identifier(name):
    return '"' + name.replace('"', '""') + '"'


def one(connection, query):
    return connection.execute(query).fetchone()[0]


def refused(connection, query, text, kind=duckdb.Error):
    try:
        connection.execute(query).fetchall()
    except kind as error:
        assert text in str(error), f"{query}: {error}"
        return
    raise AssertionError(f"not refused: {query}")


def last_scan_is_of_the_own_instance(extension, directory):
    path = directory / "one.tlm"
    first, second = connect(extension), connect(extension)
    first.execute(f"COPY (SELECT range AS i FROM range(10)) TO {quoted(path)} (FORMAT tlm)")
    assert one(first, f"SELECT sum(i) FROM read_tlm({quoted(path)})") == 45
    assert one(first, "SELECT count(*) FROM pensieve_last_scan()") > 0
    assert one(second, "SELECT count(*) FROM pensieve_last_scan()") == 0
    assert one(second, f"SELECT count(*) FROM read_tlm({quoted(path)}) WHERE i > 3") == 6
    assert one(first, "SELECT count(DISTINCT scan_id) FROM pensieve_last_scan()") == 1
    # a database that was closed leaves nothing to the next one, whatever is numbered or lies where it was
    for _ in range(5):
        first.close()
        first = connect(extension)
        assert one(first, "SELECT count(*) FROM pensieve_last_scan()") == 0
        assert one(first, f"SELECT count(*) FROM read_tlm({quoted(path)})") == 10


def names_and_paths_hold_any_character(extension, directory):
    place = directory / ODD.replace("/", "")
    place.mkdir()
    for address in (place / "log", place / "catalog.db"):
        connection = connect(extension)
        connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve)")
        schemas = [ODD, "a", "b\x1e", "\x1f"]
        tables = ["t", ODD, "\n", "x\x1ey\x1fz"]
        column = "json " + ODD
        for schema in schemas:
            connection.execute(f"CREATE SCHEMA lake.{identifier(schema)}")
            for number, table in enumerate(tables):
                name = f"lake.{identifier(schema)}.{identifier(table)}"
                connection.execute(f"CREATE TABLE {name} (n BIGINT, {identifier(column)} JSON, {identifier(ODD)} VARCHAR)")
                for part in range(2):
                    connection.execute(f"INSERT INTO {name} VALUES ({number}, '{{\"part\": {part}}}', 'x')")
        listed = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY ALL"
        ).fetchall()
        assert listed == sorted((schema, table) for schema in schemas for table in tables), listed
        connection.close()
        connection = connect(extension)
        connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve, READ_ONLY)")
        for schema in schemas:
            for number, table in enumerate(tables):
                name = f"lake.{identifier(schema)}.{identifier(table)}"
                rows = connection.execute(
                    f"SELECT n, {identifier(column)}->>'part', {identifier(ODD)} FROM {name} WHERE n = {number} AND {identifier(ODD)} = 'x' "
                    "ORDER BY ALL"
                ).fetchall()
                assert rows == [(number, "0", "x"), (number, "1", "x")], (name, rows)
        # the catalog rules out both extents, and every one is counted
        name = f"lake.{identifier(ODD)}.{identifier(ODD)}"
        assert one(connection, f"SELECT count(*) FROM {name} WHERE n = 77 OR {identifier(ODD)} = 'y'") == 0
        plan = connection.execute(f"SELECT action, file FROM pensieve_plan({quoted(name)}, 'n = 1')").fetchall()
        assert len(plan) == 2 and all(os.path.isfile(file) for _, file in plan), plan
        connection.close()


def analyzed_plans_hold_any_character(extension, directory):
    path = directory / "note.tlm"
    connection = connect(extension)
    connection.execute(f"COPY (SELECT range AS i, 's' AS s FROM range(10)) TO {quoted(path)} (FORMAT tlm)")
    text = connection.execute(
        f"EXPLAIN ANALYZE SELECT * FROM read_tlm({quoted(path)}) WHERE i > 3 AND regexp_matches(s, 'a\tb\nc')"
    ).fetchall()[0][1]
    assert "Bytes Read" in text and "Blocks" in text, text


def foreign_catalogs_reach_no_further_than_the_session(extension, directory):
    inside, outside = directory / "inside", directory / "outside"
    inside.mkdir()
    outside.mkdir()
    connection = connect(extension)
    address = inside / "store.db"
    connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve)")
    connection.execute("CREATE SCHEMA lake.db")
    connection.execute("CREATE TABLE lake.db.t (i BIGINT)")
    connection.execute("INSERT INTO lake.db.t SELECT range FROM range(100)")
    path = one(connection, "SELECT path FROM pensieve_extents('lake.db.t')")
    connection.close()
    secret = outside / "secret.pnsv"
    os.rename(path, secret)
    relative = "../../" + os.path.relpath(secret, directory)
    for object_path in (str(secret), relative, f"file://{secret}"):
        catalog = sqlite3.connect(address)
        catalog.execute("UPDATE extents SET object_path = ?", (object_path,))
        catalog.commit()
        catalog.close()
        for allowed in ("directory", "paths"):
            connection = connect(extension)
            if allowed == "directory":
                connection.execute(f"SET allowed_directories = [{quoted(str(inside) + '/')}]")
            else:
                connection.execute(f"SET allowed_paths = [{quoted(address)}]")
            connection.execute("SET enable_external_access = false")
            connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve, READ_ONLY)")
            for query in (
                "SELECT sum(i) FROM lake.db.t",
                "SELECT count(*) FROM lake.db.t",
                "SELECT max(i) FROM lake.db.t WHERE i < 7",
                "FROM pensieve_plan('lake.db.t', 'i < 7')",
                f"FROM tlm_blocks({quoted(secret)})",
            ):
                refused(connection, query, "Cannot access", duckdb.PermissionException)
            connection.close()
        # where the session may, the extent is read
        connection = connect(extension)
        connection.execute(f"SET allowed_directories = [{quoted(str(inside) + '/')}, {quoted(str(outside) + '/')}]")
        connection.execute("SET enable_external_access = false")
        connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve, READ_ONLY)")
        assert one(connection, "SELECT sum(i) FROM lake.db.t") == 4950
        assert one(connection, "SELECT sum(row_count) FROM pensieve_plan('lake.db.t', 'i < 7')") == 100
        connection.close()


def rows_are_not_written_where_the_session_may_not(extension, directory):
    address = directory / "only.db"
    connection = connect(extension)
    connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve)")
    connection.execute("CREATE SCHEMA lake.db")
    connection.execute("CREATE TABLE lake.db.t (i BIGINT)")
    connection.close()
    connection = connect(extension)
    connection.execute(f"SET allowed_paths = [{quoted(address)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute(f"ATTACH {quoted(address)} AS lake (TYPE pensieve)")
    before = sorted(directory.iterdir())
    refused(connection, "INSERT INTO lake.db.t VALUES (1)", "Cannot access", duckdb.PermissionException)
    refused(
        connection,
        f"COPY (SELECT 1::BIGINT AS i) TO {quoted(address)} (FORMAT pensieve, TABLE 'db.t')",
        "Cannot access",
        duckdb.PermissionException,
    )
    after = sorted(path for path in directory.iterdir() if path.suffix not in (".db-wal", ".db-shm"))
    assert after == [path for path in before if path.suffix not in (".db-wal", ".db-shm")], after


class SessionFiles(MemoryFileSystem):
    """Files that only the session's own file system has."""

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.split("://")[-1].strip("/")


def object_stores_are_asked_by_scheme(extension, directory):
    class Failing(SessionFiles):
        protocol = "s3"
        store = {}

        def _open(self, path, *arguments, **options):
            raise OSError("this needs httpfs and azure")

    connection = connect(extension)
    files = Failing()
    connection.register_filesystem(files)
    files.store["/bucket/file.tlm"] = MemoryFile(files, "/bucket/file.tlm", b"bytes")
    # a file system of the session's serves the scheme: its failures are its own, whatever they say
    refused(connection, "FROM read_tlm('s3://bucket/file.tlm')", "this needs httpfs and azure")
    connection.close()
    connection = connect(extension)
    connection.execute(f"SET allowed_directories = ['s3://bucket/open/', {quoted(str(directory) + '/')}]")
    connection.execute("SET enable_external_access = false")
    for query in (
        "FROM read_tlm('s3://bucket/closed/file.tlm')",
        "FROM read_tlm('s3://bucket/closed/*.tlm')",
        "FROM read_tlm(['s3://bucket/open/*.tlm', 's3://bucket/closed/*.tlm'])",
        "FROM read_tlm('s3://bucket/open/../closed/file.tlm')",
        "FROM read_tlm('abfs://container/file.tlm')",
    ):
        refused(connection, query, "Cannot access", duckdb.PermissionException)


def replaced_files_without_a_version_are_read_anew(extension, directory):
    """Same path, size and time of modification, other bytes."""

    class Unversioned(SessionFiles):
        protocol = "unversioned"
        store = {}

        def modified(self, path):
            return super().modified(path).replace(year=2026, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)

    connection = connect(extension)
    files = Unversioned()
    connection.register_filesystem(files)
    with RangeServer(directory, etags=False) as server:
        sizes = set()
        for first in (1000, 2000, 3000):
            path = directory / "file.tlm"
            connection.execute(
                f"COPY (SELECT range + {first} AS i FROM range(1000)) TO {quoted(path)} (FORMAT tlm, COMPRESSION none)"
            )
            sizes.add(path.stat().st_size)
            os.utime(path, (1_700_000_000, 1_700_000_000))
            files.pipe("/file.tlm", path.read_bytes())
            for source in (f"{server.url}/file.tlm", "unversioned://file.tlm"):
                table = f"read_tlm({quoted(source)})"
                answer = connection.execute(f"SELECT min(i), max(i), sum(i)::BIGINT FROM {table}").fetchone()
                assert answer == (first, first + 999, first * 1000 + 499500), (source, first, answer)
                assert one(connection, f"SELECT count(*) FROM {table} WHERE i < {first}") == 0, (source, first)
                assert one(connection, f"SELECT count(*) FROM {table} WHERE i >= {first}") == 1000, (source, first)
        assert len(sizes) == 1, f"the files differ in size, which tells them apart: {sizes}"


CASES = [
    last_scan_is_of_the_own_instance,
    names_and_paths_hold_any_character,
    analyzed_plans_hold_any_character,
    foreign_catalogs_reach_no_further_than_the_session,
    rows_are_not_written_where_the_session_may_not,
    object_stores_are_asked_by_scheme,
    replaced_files_without_a_version_are_read_anew,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--only", help="the name of one case")
    arguments = parser.parse_args()
    passed = failed = 0
    for case in CASES:
        if arguments.only and case.__name__ != arguments.only:
            continue
        with tempfile.TemporaryDirectory(prefix="pensieve-boundaries-") as directory:
            try:
                case(arguments.extension, Path(directory).resolve())
                passed += 1
            except Exception:
                failed += 1
                print(f"FAILED: {case.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
