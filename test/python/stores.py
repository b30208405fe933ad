#!/usr/bin/env python3
"""Stores under many processes, under kill -9, and in the hands of other writers.

    stores.py --extension ...            at a size for every change
    stores.py --extension ... --soak     8 processes x 50 appends, 200 kills

The catalogs are the manifest log (on disk and, where moto is installed, on S3), SQLite and, where a server can be started,
PostgreSQL. What cannot run says so in one line.
"""

import argparse
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from postgres_server import Postgres  # noqa: E402
from support import ROOT, add_extension_argument, connect, quoted  # noqa: E402

ROWS = 7  # of one append


class Store:
    """An address and what ATTACH needs beside it."""

    def __init__(self, name, address, options="", setup=""):
        self.name, self.address, self.options, self.setup = name, address, options, setup

    def attach(self, extension, read_only=False):
        connection = connect(extension)
        if self.setup:
            connection.execute(self.setup)
        options = self.options + (", READ_ONLY" if read_only else "")
        connection.execute(f"ATTACH {quoted(self.address)} AS lake (TYPE pensieve{options})")
        return connection


def worker(arguments):
    """One writer: appends, and says so when it is done with each."""
    store = Store("", arguments.address, arguments.options, arguments.setup)
    connection = store.attach(arguments.extension)
    for number in range(arguments.appends):
        connection.execute(
            f"INSERT INTO lake.db.t SELECT TIMESTAMP_NS '2026-01-01' + INTERVAL 1 SECOND * {number}, {arguments.worker}, {number}, range "
            f"FROM range({ROWS})"
        )
        print(number, flush=True)


def start(extension, store, number, appends):
    command = [sys.executable, __file__, "--extension", str(extension), "--worker", str(number), "--appends", str(appends)]
    command += ["--address", store.address, "--options", store.options, "--setup", store.setup]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def create(extension, store):
    connection = store.attach(extension)
    connection.execute("CREATE SCHEMA IF NOT EXISTS lake.db")
    connection.execute("DROP TABLE IF EXISTS lake.db.t")
    connection.execute("CREATE TABLE lake.db.t (ts TIMESTAMP_NS, worker BIGINT, number BIGINT, part BIGINT)")
    connection.close()


def found(extension, store):
    """Appends in the table as {(worker, number)}; each must be whole and there once."""
    connection = store.attach(extension, read_only=True)
    rows = connection.execute(
        "SELECT worker, number, count(*), count(DISTINCT part) FROM lake.db.t GROUP BY ALL"
    ).fetchall()
    sequences = [row[0] for row in connection.execute("SELECT sequence FROM pensieve_snapshots('lake.db.t')").fetchall()]
    connection.close()
    broken = [row for row in rows if row[2:] != (ROWS, ROWS)]
    assert not broken, f"{store.name}: appends that are torn or there twice: {broken[:5]}"
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences))), f"{store.name}: snapshot numbers have gaps"
    return {row[:2] for row in rows}, len(sequences)


def many_processes(extension, store, processes, appends):
    create(extension, store)
    started = time.monotonic()
    children = [start(extension, store, number, appends) for number in range(processes)]
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, f"{store.name}: a writer failed: {errors[-2000:]}"
    seconds = time.monotonic() - started
    rows, snapshots = found(extension, store)
    expected = {(number, append) for number in range(processes) for append in range(appends)}
    assert rows == expected, f"{store.name}: lost {len(expected - rows)}, unexpected {len(rows - expected)}"
    print(f"{store.name}: {processes} processes x {appends} appends in {seconds:.1f} s, {snapshots} snapshots, none lost, none twice")


def kills(extension, store, count, seed=20260101):
    create(extension, store)
    rng = random.Random(seed)
    committed, attempted = set(), set()
    for number in range(count):
        child = start(extension, store, number, 1000)
        # start-up is not what is tested: the clock runs from the first commit
        line = child.stdout.readline()
        assert line, f"{store.name}: a writer failed: {child.stderr.read()[-2000:]}"
        time.sleep(rng.random() * 0.12)
        child.send_signal(signal.SIGKILL)
        # not communicate(): it would pass over the lines that readline() has buffered
        rest = child.stdout.read()
        child.wait()
        done = [int(text) for text in (line + rest).split()]
        committed |= {(number, append) for append in done}
        attempted |= {(number, append) for append in range(max(done) + 2)}
    rows, _ = found(extension, store)
    assert committed <= rows, f"{store.name}: {len(committed - rows)} committed appends are gone"
    assert rows <= attempted, f"{store.name}: rows nobody wrote: {sorted(rows - attempted)[:5]}"
    print(f"{store.name}: {count} kills, {len(committed)} commits reported, {len(rows)} found, none lost, none torn")


def reader_keeps_its_snapshot(extension, store):
    """A query that was planned before the table was dropped, or appended to, finishes on the extents it planned with."""
    create(extension, store)
    writer, reader = store.attach(extension), store.attach(extension)
    for number in range(4):
        writer.execute(f"INSERT INTO lake.db.t SELECT TIMESTAMP_NS '2026-01-01', 0, {number}, range FROM range(50000)")
    reader.execute("BEGIN")
    stream = reader.execute("SELECT part FROM lake.db.t")
    first = len(stream.fetchmany(10))
    writer.execute("INSERT INTO lake.db.t SELECT TIMESTAMP_NS '2026-01-01', 0, 9, range FROM range(10)")
    writer.execute("DROP TABLE lake.db.t")
    rest = len(stream.fetchall())
    assert first + rest == 200000, f"{store.name}: the reader saw {first + rest} rows of 200000"
    reader.execute("COMMIT")
    writer.close()
    reader.close()
    print(f"{store.name}: a reader finished on its snapshot after the table was dropped")


def blob(number):
    return uuid.UUID(int=number).bytes


SCHEMA = (
    '{"fields":[{"name":"ts","type":"timestamp","nullable":true},{"name":"message","type":"string","nullable":true},'
    '{"name":"count","type":"long","nullable":true}]}'
)


def hand_made_extent(extension, directory):
    """Extents with the PNSV magic as a writer of the original leaves them."""
    os.makedirs(directory, exist_ok=True)
    connection = connect(extension)
    for name, day in (("a.pnsv", 1), ("b.pnsv", 2)):
        connection.execute(
            f"COPY (SELECT TIMESTAMP_NS '2026-01-0{day}' + INTERVAL 1 MINUTE * range AS ts, 'word{day} OutOfMemoryError' AS message, range AS count "
            f"FROM range(60)) TO {quoted(Path(directory) / name)} (FORMAT tlm, MAGIC pnsv)"
        )
    connection.close()
    sizes = [os.path.getsize(Path(directory) / name) for name in ("a.pnsv", "b.pnsv")]
    stats = [
        '{"message":{"distinct":["word%d OutOfMemoryError"],"tokens":["outofmemoryerror","word%d"]}}' % (day, day)
        for day in (1, 2)
    ]
    return sizes, stats


def check_hand_made(extension, store):
    connection = store.attach(extension)
    one = lambda sql: connection.execute(sql).fetchall()[0][0]  # noqa: E731
    assert one("SELECT count(*) FROM lake.otel.logs") == 120
    # a part of a word: the original loses these rows, its token test being for whole words
    assert one("SELECT count(*) FROM lake.otel.logs WHERE message LIKE '%OfMemory%'") == 120
    assert one("SELECT count(*) FROM lake.otel.logs WHERE message = 'word2 OutOfMemoryError'") == 60
    skipped = one("SELECT skipped FROM pensieve_last_scan() WHERE unit = 'extent' AND evidence = 'distinct'")
    assert skipped == 1, f"{store.name}: {skipped} extents skipped"
    assert one("SELECT count(*) FROM lake.otel.logs WHERE ts < TIMESTAMP_NS '2026-01-02'") == 60
    connection.execute("INSERT INTO lake.otel.logs VALUES (TIMESTAMP_NS '2026-01-03', 'ours', 1)")
    assert one("SELECT count(*) FROM lake.otel.logs") == 121
    path = one("SELECT path FROM pensieve_extents('lake.otel.logs') WHERE row_count = 1")
    with open(path, "rb") as stream:
        assert stream.read(4) == b"PNSV", "what we append must be readable to the original"
    connection.close()
    print(f"{store.name}: a store made by hand reads back, and what is appended has its magic")


def sqlite_by_hand(extension, directory):
    """The layout of local mode, row by row."""
    path = Path(directory) / "hand.db"
    sizes, stats = hand_made_extent(extension, Path(directory) / "data" / "x")
    tenant = blob(0)
    db = sqlite3.connect(path)
    db.executescript(
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE databases (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, name TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(tenant_id, name));
        CREATE TABLE tables (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, database_id BLOB NOT NULL, name TEXT NOT NULL, current_snapshot_id BLOB,
            schema_snapshot_id BLOB, config TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL, UNIQUE(tenant_id, database_id, name));
        CREATE TABLE schema_snapshots (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, arrow_schema TEXT NOT NULL, created_at TEXT NOT NULL);
        CREATE TABLE snapshots (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, parent_id BLOB, sequence_number INTEGER NOT NULL,
            schema_snapshot_id BLOB NOT NULL, summary TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(table_id, sequence_number));
        CREATE TABLE manifests (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, snapshot_id BLOB NOT NULL, kind TEXT NOT NULL, extent_count INTEGER NOT NULL,
            byte_size INTEGER NOT NULL, created_at TEXT NOT NULL);
        CREATE TABLE extents (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, manifest_id BLOB NOT NULL, schema_snapshot_id BLOB NOT NULL,
            object_path TEXT NOT NULL, byte_size INTEGER NOT NULL, row_count INTEGER NOT NULL, min_timestamp TEXT, max_timestamp TEXT,
            column_stats TEXT NOT NULL DEFAULT '{}', present_paths TEXT NOT NULL DEFAULT '[]', compaction_gen INTEGER NOT NULL DEFAULT 0,
            created_at TEXT NOT NULL, deleted_at TEXT);
        """
    )
    now = "2026-01-01T00:00:00+00:00"
    db.execute("INSERT INTO databases VALUES (?, ?, 'otel', ?)", (blob(1), tenant, now))
    db.execute("INSERT INTO tables VALUES (?, ?, ?, 'logs', ?, ?, '{}', ?)", (blob(2), tenant, blob(1), blob(11), blob(3), now))
    db.execute("INSERT INTO schema_snapshots VALUES (?, ?, ?, ?, ?)", (blob(3), tenant, blob(2), SCHEMA, now))
    db.execute("INSERT INTO snapshots VALUES (?, ?, ?, NULL, 0, ?, '{\"operation\":\"bootstrap\"}', ?)", (blob(10), tenant, blob(2), blob(3), now))
    summary = '{"operation":"ingest","rows_added":120,"rows_removed":0,"bytes_added":1,"bytes_removed":0}'
    later = "2026-01-05T00:00:00+00:00"
    db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, 1, ?, ?, ?)", (blob(11), tenant, blob(2), blob(10), blob(3), summary, later))
    db.execute("INSERT INTO manifests VALUES (?, ?, ?, 'data', 2, ?, ?)", (blob(12), tenant, blob(11), sum(sizes), later))
    for index, name in enumerate(("a", "b")):
        day = index + 1
        db.execute(
            "INSERT INTO extents VALUES (?, ?, ?, ?, ?, ?, ?, 60, ?, ?, ?, '[]', 0, ?, NULL)",
            (blob(20 + index), tenant, blob(2), blob(12), blob(3), f"x/{name}.pnsv", sizes[index])
            + (f"2026-01-0{day}T00:00:00+00:00", f"2026-01-0{day}T00:59:00+00:00", stats[index], later),
        )
    db.commit()
    db.close()
    check_hand_made(extension, Store("sqlite", str(path)))


POSTGRES_LAYOUT = """
CREATE TABLE databases (id uuid PRIMARY KEY, name text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL, UNIQUE (tenant_id, name));
CREATE TABLE tables (id uuid PRIMARY KEY, database_id uuid NOT NULL REFERENCES databases(id) ON DELETE CASCADE, name text NOT NULL, current_snapshot_id uuid,
    schema_snapshot_id uuid, config jsonb NOT NULL DEFAULT '{}', created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL, UNIQUE (database_id, name));
CREATE TABLE schema_snapshots (id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    arrow_schema jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL);
CREATE TABLE snapshots (id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, parent_id uuid,
    sequence_number bigint NOT NULL, schema_snapshot_id uuid NOT NULL REFERENCES schema_snapshots(id), summary jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL, UNIQUE (table_id, sequence_number));
ALTER TABLE tables ADD FOREIGN KEY (current_snapshot_id) REFERENCES snapshots(id) DEFERRABLE INITIALLY DEFERRED,
    ADD FOREIGN KEY (schema_snapshot_id) REFERENCES schema_snapshots(id) DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE manifests (id uuid PRIMARY KEY, snapshot_id uuid NOT NULL REFERENCES snapshots(id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('data', 'delete', 'compaction')), extent_count int NOT NULL, byte_size bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL);
CREATE TABLE extents (id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables(id) ON DELETE CASCADE,
    manifest_id uuid REFERENCES manifests(id) ON DELETE CASCADE, schema_snapshot_id uuid NOT NULL, object_path text NOT NULL, byte_size bigint NOT NULL,
    row_count bigint NOT NULL, min_timestamp timestamptz, max_timestamp timestamptz, column_stats jsonb NOT NULL DEFAULT '{}',
    present_paths text[] NOT NULL DEFAULT '{}', bloom_filters bytea, compaction_gen int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL,
    deleted_at timestamptz, tenant_id uuid NOT NULL);
CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY);
"""


def postgres_by_hand(extension, server, directory):
    """The layout of the server, row by row."""
    storage = Path(directory) / "hand"
    sizes, stats = hand_made_extent(extension, storage / "x")
    address = server.database("hand")
    tenant = str(uuid.UUID(int=0))
    ids = {name: str(uuid.UUID(int=number)) for name, number in dict(db=1, table=2, schema=3, s0=10, s1=11, m=12).items()}
    summary = '{"operation":"ingest","rows_added":120,"rows_removed":0,"bytes_added":1,"bytes_removed":0}'
    statements = [POSTGRES_LAYOUT, "BEGIN;"]
    statements.append(f"INSERT INTO databases VALUES ('{ids['db']}', 'otel', now(), '{tenant}');")
    statements.append(f"INSERT INTO tables (id, database_id, name, tenant_id) VALUES ('{ids['table']}', '{ids['db']}', 'logs', '{tenant}');")
    statements.append(f"INSERT INTO schema_snapshots VALUES ('{ids['schema']}', '{ids['table']}', '{SCHEMA}', now(), '{tenant}');")
    for name, parent, number, text in (("s0", None, 0, '{"operation":"bootstrap"}'), ("s1", "s0", 1, summary)):
        parent = f"'{ids[parent]}'" if parent else "NULL"
        statements.append(
            f"INSERT INTO snapshots VALUES ('{ids[name]}', '{ids['table']}', {parent}, {number}, '{ids['schema']}', '{text}', now(), '{tenant}');"
        )
    statements.append(f"UPDATE tables SET current_snapshot_id = '{ids['s1']}', schema_snapshot_id = '{ids['schema']}';")
    statements.append(f"INSERT INTO manifests VALUES ('{ids['m']}', '{ids['s1']}', 'data', 2, {sum(sizes)}, now(), '{tenant}');")
    for index, name in enumerate(("a", "b")):
        day = f"2026-01-0{index + 1}"
        statements.append(
            "INSERT INTO extents (id, table_id, manifest_id, schema_snapshot_id, object_path, byte_size, row_count, min_timestamp, max_timestamp, "
            f"column_stats, created_at, tenant_id) VALUES ('{uuid.UUID(int=20 + index)}', '{ids['table']}', '{ids['m']}', '{ids['schema']}', "
            f"'x/{name}.pnsv', {sizes[index]}, 60, '{day} 00:00:00Z', '{day} 00:59:00Z', '{stats[index]}', now(), '{tenant}');"
        )
    server.sql("hand", "\n".join([*statements, "COMMIT;"]))
    check_hand_made(extension, Store("postgres", address, f", STORAGE '{storage}'"))


SQL_TESTS = ("store_tables", "store_snapshots", "store_refused", "store_copy", "store_time_bounds", "store_transactions")


def run_sql_tests(extension, store, bucket_options=""):
    """The SQL tests of stores, with another address."""
    with tempfile.TemporaryDirectory(prefix="pensieve-sql-") as directory:
        for name in SQL_TESTS:
            text = (ROOT / "test" / "sql" / f"{name}.test").read_text()
            text = re.sub(r"^foreach lake .*$", "foreach lake one", text, count=1, flags=re.M)
            head, _, rest = text.partition("endloop\n\nstatement error\nATTACH '__TEST_DIR__/no_such_directory'")
            text = head + ("endloop\n" if rest else "")
            # what follows is about one kind of catalog
            for rest in ("# microseconds reach further", "# a damaged table is left out"):
                head, mark, _ = text.partition(f"\nendloop\n\n{rest}")
                text = head + ("\nendloop\n" if mark else "")
            address = store.address.replace("NAME", name)
            text = text.replace("'__TEST_DIR__/${lake}' AS lake (TYPE pensieve", f"{quoted(address)} AS lake (TYPE pensieve{store.options}")
            text = re.sub(r"'__TEST_DIR__/\$\{lake\}' AS (\w+) \(TYPE pensieve", rf"{quoted(address)} AS \1 (TYPE pensieve{store.options}", text)
            storage = re.search(r"STORAGE ('[^']*')", store.options)
            extra = f", storage := {storage.group(1)}" if storage else ""
            text = re.sub(r"pensieve_scan\('__TEST_DIR__/\$\{lake\}', ('[^']+')", rf"pensieve_scan({quoted(address)}, \1{extra}", text)
            text = re.sub(r"TO '__TEST_DIR__/\$\{lake\}' \(FORMAT pensieve", f"TO {quoted(address)} (FORMAT pensieve{store.options}", text)
            if store.setup:
                text = text.replace("require pensieve\n", f"require pensieve\n\nstatement ok\n{store.setup}\n", 1)
            target = Path(directory) / f"{name}_{store.name.replace(' ', '_')}.test"
            target.write_text(text)
        command = [sys.executable, str(ROOT / "scripts" / "sqllogictest.py"), "--extension", str(extension), directory]
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"{store.name}: SQL tests: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr}")
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


class Moto:
    """moto's S3 server on loopback."""

    def __init__(self):
        # moto is large: an environment of its own can be named instead of installing it into ours
        python = os.environ.get("PENSIEVE_MOTO_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import moto.server"], capture_output=True).returncode != 0:
            raise RuntimeError("moto is not installed; pip install 'moto[server]' (or PENSIEVE_MOTO_PYTHON) runs the tests on S3")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        self._request("PUT", "/bucket")
        self._request("PUT", "/bucket/probe", {"If-None-Match": "*"}, 200)
        self._request("PUT", "/bucket/probe", {"If-None-Match": "*"}, 412)

    def _request(self, method, path, headers=None, status=200):
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        # moto does not check signatures, but without one a request is anonymous
        credential = "Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        connection.request(method, path, headers={"Authorization": f"AWS4-HMAC-SHA256 {credential}", **(headers or {})})
        answer = connection.getresponse().status
        connection.close()
        if answer != status:
            self.stop()
            raise RuntimeError(f"moto answers {answer} to {method} {path} {headers or ''}, not {status}")

    def secret(self):
        return (
            "CREATE OR REPLACE SECRET s (TYPE pensieve, KEY_ID 'test', SECRET 'test', REGION 'us-east-1', "
            f"ENDPOINT '127.0.0.1:{self.port}', URL_STYLE 'path', USE_SSL false)"
        )

    def stop(self):
        self.process.kill()
        self.process.wait()


def s3(extension, server, processes, appends):
    store = Store("s3", "s3://bucket/many", "", server.secret())
    many_processes(extension, store, processes, appends)
    connection = connect(extension)
    connection.execute(server.secret())
    # DuckDB itself asks for httpfs before a COPY TO s3://, so the file comes from a store
    connection.execute("ATTACH 's3://bucket/files' AS lake (TYPE pensieve)")
    connection.execute("CREATE TABLE lake.main.t AS SELECT range AS i FROM range(1000)")
    path = connection.execute("SELECT path FROM pensieve_extents('lake.main.t')").fetchone()[0]
    for pattern in (path, "s3://bucket/files/main/t/*.tlm"):
        assert connection.execute(f"SELECT sum(i) FROM read_tlm({quoted(pattern)})").fetchone()[0] == 499500
    # a secret for another place does not apply here
    connection.execute(server.secret().replace("SECRET s (", "SECRET s (SCOPE 's3://elsewhere', "))
    try:
        connection.execute(f"SELECT count(*) FROM read_tlm({quoted(path)})").fetchall()
        raise AssertionError("s3: the secret of another scope was used")
    except AssertionError:
        raise
    except Exception:
        pass
    connection.close()
    run_sql_tests(extension, Store("s3", "s3://bucket/NAME", "", server.secret()))
    print("s3: files and stores through secrets, and If-None-Match holds")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--soak", action="store_true", help="at full size")
    parser.add_argument("--only", help="run the parts whose name contains this")
    for name in ("--worker", "--appends"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    for name in ("--address", "--options", "--setup"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        return worker(arguments)
    extension = Path(arguments.extension).resolve()
    processes, appends, killed = (8, 50, 200) if arguments.soak else (4, 8, 6)
    passed = skipped = 0
    directory = tempfile.mkdtemp(prefix="pensieve-stores-")
    servers = []

    def part(name, call, *parameters):
        nonlocal passed
        if arguments.only and arguments.only not in name:
            return
        call(extension, *parameters)
        passed += 1

    try:
        stores = [Store("manifest log", f"{directory}/lake"), Store("sqlite", f"{directory}/lake.db")]
        part("hand", sqlite_by_hand, directory)
        try:
            postgres = Postgres()
            servers.append(postgres)
            # a server that runs as another user needs no access to the extents: only we read and write them
            options = f", STORAGE '{directory}/postgres'"
            os.makedirs(f"{directory}/postgres", exist_ok=True)
            stores.append(Store("postgres", postgres.database("processes"), options))
            for name in SQL_TESTS:
                postgres.database(name)
            address = stores[-1].address.replace("/processes", "/NAME")
            part("hand postgres", postgres_by_hand, postgres, directory)
            part("sql postgres", run_sql_tests, Store("postgres", address, options))
        except RuntimeError as error:
            skipped += 1
            print(f"SKIPPED postgres: {error}")
        for store in stores:
            part(f"processes {store.name}", many_processes, store, processes, appends)
            part(f"kills {store.name}", kills, store, killed)
            part(f"reader {store.name}", reader_keeps_its_snapshot, store)
        try:
            moto = Moto()
            servers.append(moto)
            part("s3", s3, moto, processes, min(appends, 50))
        except RuntimeError as error:
            skipped += 1
            print(f"SKIPPED s3: {error}")
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{passed} passed, 0 failed, {skipped} skipped")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
