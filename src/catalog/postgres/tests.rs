//! The suites of all catalogs over a real PostgreSQL on loopback, and a store made by hand as the original makes it. Where no server
//! can be started the test says why and passes.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::connect::Server;
use crate::catalog::runtime::block_on;
use crate::catalog::tests::{append, attach_with, concurrency, contract, create_logs, ids, plain, processes, pruning};
use crate::catalog::{At, AttachOptions, Catalog, Changes, PruneOptions, TableName, Which};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};

/// A server in a temporary directory, stopped when dropped (or when this process dies).
struct Postgres {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command as a user that PostgreSQL accepts: not root.
fn command(program: &str, root: bool, dies_with_us: bool) -> Command {
    let mut command = Command::new("setpriv");
    if root {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    if dies_with_us {
        command.args(["--pdeathsig", "KILL"]);
    }
    command.arg(program).current_dir("/");
    command
}

/// The directory of the server's programs.
fn programs() -> Option<std::path::PathBuf> {
    let mut places: Vec<std::path::PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        places.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    places.into_iter().find(|place| place.join("initdb").exists() && place.join("postgres").exists())
}

impl Postgres {
    fn start() -> Result<Self, String> {
        let programs =
            programs().ok_or("PostgreSQL is not installed (initdb and postgres in PATH or /usr/lib/postgresql)")?;
        let root =
            std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0).unwrap_or(false);
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let data = directory.path().join("data");
        std::fs::create_dir(&data).map_err(|e| e.to_string())?;
        if root {
            let owned = Command::new("chown").arg("-R").arg("postgres").arg(directory.path()).status();
            if !owned.is_ok_and(|s| s.success()) {
                return Err("there is no user \"postgres\" to run the server as".to_owned());
            }
        }
        let path = |name: &str| programs.join(name).display().to_string();
        let made = command(&path("initdb"), root, false)
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .map_err(|e| format!("initdb: {e}"))?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_err(|e| e.to_string())?.port();
        let child = command(&path("postgres"), root, true)
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "fsync=off", "-c", "max_connections=200", "-k"])
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("postgres: {e}"))?;
        let server = Self { child, port, _directory: directory };
        for _ in 0..300 {
            if server.run("postgres", "SELECT 1").is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("the server did not answer within 30 seconds".to_owned())
    }

    fn address(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    fn run(&self, database: &str, sql: &str) -> crate::Result<()> {
        let server = Server::new(&self.address(database))?;
        block_on(async {
            let client = server.client().await?;
            client.batch_execute(sql).await.map_err(|e| server.failed("run", e))
        })?
    }

    /// A new database.
    fn fresh(&self) -> String {
        let name = format!("t{}", Uuid::new_v4().simple());
        self.run("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        self.address(&name)
    }
}

fn attach(address: &str) -> Arc<dyn Catalog> {
    attach_with(address)
}

#[test]
fn postgres() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    contract::all(|| attach(&server.fresh()));
    for seed in 1..4 {
        pruning::never_loses_a_row(&*attach(&server.fresh()), seed * 15_485_863, 120);
    }
    pruning::each_kind_fires(&*attach(&server.fresh()), false);
    let address = server.fresh();
    concurrency::threads(|| attach(&address), 6, 12);
    processes::appends(&server.fresh());
    processes::kills(&server.fresh());
    opening_at_once(&server.fresh());
    needs_storage(&server);
    original_opens_unchanged(&server);
    original_sees_what_we_append(&server);
    bounds_without_a_name(&server);
}

/// Several processes may create the tables at the same moment.
fn opening_at_once(address: &str) {
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| attach(address).databases().unwrap());
        }
    });
}

fn needs_storage(server: &Postgres) {
    let error = crate::catalog::open(&server.address("postgres"), &AttachOptions::default()).unwrap_err().to_string();
    assert!(error.contains("STORAGE"), "{error}");
    let options = AttachOptions { read_only: true, storage: Some("/data".into()), ..AttachOptions::default() };
    let error = crate::catalog::open(&server.address("postgres"), &options).unwrap_err().to_string();
    assert!(error.contains("not a pensieve catalog"), "{error}");
}

/// The layout after the original's migrations, as the reference states it.
const ORIGINAL: &str = "
CREATE TABLE databases (id uuid PRIMARY KEY, name text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL, UNIQUE (tenant_id, name));
CREATE TABLE tables (id uuid PRIMARY KEY, database_id uuid NOT NULL REFERENCES databases(id) ON DELETE CASCADE, name text NOT NULL, current_snapshot_id uuid, schema_snapshot_id uuid, config jsonb NOT NULL DEFAULT '{}', created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL, UNIQUE (database_id, name));
CREATE TABLE schema_snapshots (id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, arrow_schema jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL);
CREATE TABLE snapshots (id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, parent_id uuid, sequence_number bigint NOT NULL, schema_snapshot_id uuid NOT NULL REFERENCES schema_snapshots(id), summary jsonb NOT NULL DEFAULT '{}', created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL, UNIQUE (table_id, sequence_number));
ALTER TABLE tables ADD FOREIGN KEY (current_snapshot_id) REFERENCES snapshots(id) DEFERRABLE INITIALLY DEFERRED, ADD FOREIGN KEY (schema_snapshot_id) REFERENCES schema_snapshots(id) DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE manifests (id uuid PRIMARY KEY, snapshot_id uuid NOT NULL REFERENCES snapshots(id) ON DELETE CASCADE, kind text NOT NULL CHECK (kind IN ('data','delete','compaction')), extent_count int NOT NULL, byte_size bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL);
CREATE TABLE extents (id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables(id) ON DELETE CASCADE, manifest_id uuid REFERENCES manifests(id) ON DELETE CASCADE, schema_snapshot_id uuid NOT NULL, object_path text NOT NULL, byte_size bigint NOT NULL, row_count bigint NOT NULL, min_timestamp timestamptz, max_timestamp timestamptz, column_stats jsonb NOT NULL DEFAULT '{}', present_paths text[] NOT NULL DEFAULT '{}', bloom_filters bytea, compaction_gen int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL, deleted_at timestamptz, tenant_id uuid NOT NULL);
CREATE INDEX ON extents USING gin (present_paths);
CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY);
BEGIN;
INSERT INTO databases VALUES ('00000000-0000-0000-0000-000000000001', 'otel', now(), '00000000-0000-0000-0000-000000000000');
INSERT INTO tables (id, database_id, name, tenant_id) VALUES ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001', 'logs', '00000000-0000-0000-0000-000000000000');
INSERT INTO schema_snapshots VALUES ('00000000-0000-0000-0000-000000000003', '00000000-0000-0000-0000-000000000002', '{\"fields\":[{\"name\":\"at\",\"type\":\"timestamp\",\"nullable\":true},{\"name\":\"label\",\"type\":\"string\",\"nullable\":true},{\"name\":\"body\",\"type\":\"string\"}]}', now(), '00000000-0000-0000-0000-000000000000');
INSERT INTO snapshots VALUES
 ('00000000-0000-0000-0000-000000000010', '00000000-0000-0000-0000-000000000002', NULL, 0, '00000000-0000-0000-0000-000000000003', '{\"operation\":\"bootstrap\"}', '2026-01-01 00:00:00Z', '00000000-0000-0000-0000-000000000000'),
 ('00000000-0000-0000-0000-000000000011', '00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000010', 1, '00000000-0000-0000-0000-000000000003', '{\"operation\":\"ingest\",\"rows_added\":8,\"rows_removed\":0,\"bytes_added\":80,\"bytes_removed\":0}', '2026-01-01 00:01:00Z', '00000000-0000-0000-0000-000000000000'),
 ('00000000-0000-0000-0000-000000000012', '00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000011', 2, '00000000-0000-0000-0000-000000000003', '{\"operation\":\"compaction\",\"rows_added\":4,\"rows_removed\":4,\"bytes_added\":40,\"bytes_removed\":40}', '2026-01-01 00:02:00Z', '00000000-0000-0000-0000-000000000000');
UPDATE tables SET current_snapshot_id = '00000000-0000-0000-0000-000000000012', schema_snapshot_id = '00000000-0000-0000-0000-000000000003';
INSERT INTO manifests VALUES
 ('00000000-0000-0000-0000-000000000021', '00000000-0000-0000-0000-000000000011', 'data', 2, 80, now(), '00000000-0000-0000-0000-000000000000'),
 ('00000000-0000-0000-0000-000000000022', '00000000-0000-0000-0000-000000000012', 'data', 1, 40, now(), '00000000-0000-0000-0000-000000000000');
INSERT INTO extents (id, table_id, manifest_id, schema_snapshot_id, object_path, byte_size, row_count, min_timestamp, max_timestamp, column_stats, created_at, deleted_at, tenant_id)
SELECT ('00000000-0000-0000-0000-0000000000' || n)::uuid, '00000000-0000-0000-0000-000000000002', ('00000000-0000-0000-0000-0000000000' || m)::uuid, '00000000-0000-0000-0000-000000000003', 'pensieve/x/' || n || '.pnsv', 40, 4, lo, hi, stats, now(), gone, '00000000-0000-0000-0000-000000000000'
FROM (VALUES
 ('31', '21', '2026-01-01 00:00:00Z'::timestamptz, '2026-01-01 00:00:00Z'::timestamptz, '{\"label\":{\"distinct\":[\"a\"],\"tokens\":[]}}'::jsonb, '2026-01-01 00:01:59.9Z'::timestamptz),
 ('32', '21', '2026-01-01 01:00:00Z', '2026-01-01 01:00:00Z', '{\"label\":{\"distinct\":[\"a\"],\"tokens\":[]},\"body\":{\"distinct\":null,\"tokens\":[\"outofmemoryerror\"]}}', NULL),
 ('33', '22', NULL, 'infinity', '{\"label\":{\"distinct\":null,\"tokens\":null}}', NULL)) AS v(n, m, lo, hi, stats, gone);
COMMIT;";

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn original_opens_unchanged(server: &Postgres) {
    let address = server.fresh();
    let database = address.rsplit('/').next().unwrap();
    server.run(database, ORIGINAL).unwrap();
    let catalog = attach(&address);
    let name = TableName::new("otel", "logs");
    assert_eq!(catalog.tables("otel").unwrap(), ["logs"]);
    let view = catalog.table(&name).unwrap().unwrap();
    assert_eq!((view.snapshot.sequence, view.snapshot.operation.as_str()), (2, "compaction"));
    assert_eq!(ids(&*catalog, &view), [uuid(0x32), uuid(0x33)]);
    let before = catalog.table_at(&name, At::Version(1)).unwrap().unwrap();
    assert_eq!(ids(&*catalog, &before), [uuid(0x31), uuid(0x32)]);
    let kept = |predicate: &BlockPredicate| {
        let pruned = catalog.prune(&view, predicate, &PruneOptions::default()).unwrap();
        let mut kept: Vec<Uuid> = pruned.extents.iter().map(|e| e.id).collect();
        kept.sort_unstable();
        kept
    };
    let compare = |column: &str, op, value| BlockPredicate::Compare { column: column.into(), op, value };
    let hour_one = 1_767_229_200_000_000_000_i128;
    let at = |op, nanos: i128| compare("at", op, Scalar::TimestampNs(nanos));
    // The original loses an extent whose rows share one timestamp for every one of these.
    assert_eq!(kept(&at(CompareOp::Eq, hour_one)), [uuid(0x32), uuid(0x33)]);
    assert_eq!(kept(&at(CompareOp::GtEq, hour_one)), [uuid(0x32), uuid(0x33)]);
    assert_eq!(kept(&at(CompareOp::LtEq, hour_one)), [uuid(0x32), uuid(0x33)]);
    // The true maximum may be up to 999 ns above the stored one.
    assert_eq!(kept(&at(CompareOp::GtEq, hour_one + 999)), [uuid(0x32), uuid(0x33)]);
    assert_eq!(kept(&at(CompareOp::GtEq, hour_one + 1_000)), [uuid(0x33)]);
    assert_eq!(kept(&compare("label", CompareOp::Eq, Scalar::Str("b".into()))), [uuid(0x33)]);
    let part = BlockPredicate::Text { column: "body".into(), pattern: crate::predicate::TextPattern::contains("oom") };
    assert_eq!(kept(&part), [uuid(0x33)]);
    let part =
        BlockPredicate::Text { column: "body".into(), pattern: crate::predicate::TextPattern::contains("Memory") };
    assert_eq!(kept(&part), [uuid(0x32), uuid(0x33)]);
    let next = catalog.commit(&view, &Changes::remove([uuid(0x32)])).unwrap();
    assert_eq!(ids(&*catalog, &next), [uuid(0x33)]);
    assert!(catalog.drop_table(&name, Which::Any).unwrap());
    assert!(catalog.drop_database("otel", false).unwrap());
}

/// Rows that name no time column: the original's are of the table's first, those of earlier builds of ours of nobody knows which.
fn bounds_without_a_name(server: &Postgres) {
    let address = server.fresh();
    let database = address.rsplit('/').next().unwrap();
    server.run(database, ORIGINAL).unwrap();
    let fields = r#"{"fields":[{"name":"at","type":"timestamp"},{"name":"seen","type":"timestamp"}]}"#;
    server.run(database, &format!("UPDATE schema_snapshots SET arrow_schema = '{fields}'")).unwrap();
    let catalog = attach(&address);
    let view = catalog.table(&TableName::new("otel", "logs")).unwrap().unwrap();
    let kept = |column: &str| {
        let value = Scalar::TimestampNs(1_800_000_000_000_000_000);
        let late = BlockPredicate::Compare { column: column.into(), op: CompareOp::Gt, value };
        let pruned = catalog.prune(&view, &late, &PruneOptions::default()).unwrap();
        let mut kept: Vec<Uuid> = pruned.extents.iter().map(|e| e.id).collect();
        kept.sort_unstable();
        kept
    };
    assert_eq!(kept("at"), [uuid(0x33)]);
    assert_eq!(kept("seen"), [uuid(0x32), uuid(0x33)]);
    // As our earlier builds wrote them: the extent's time is its snapshot's.
    server.run(database, "UPDATE extents SET created_at = '2026-01-01 00:01:00Z' WHERE row_count = 4").unwrap();
    assert_eq!(kept("at"), [uuid(0x32), uuid(0x33)]);
}

fn original_sees_what_we_append(server: &Postgres) {
    let address = server.fresh();
    let database = address.rsplit('/').next().unwrap();
    let catalog = attach(&address);
    create_logs(&*catalog);
    let instant = 1_767_225_600_000_000_123;
    let mut extent = plain(instant);
    extent.written.column_stats = serde_json::json!({"service": {"distinct": ["nul\0"], "tokens": ["nul"]}});
    append(&*catalog, vec![extent]);
    // Its half-open overlap finds an extent whose rows share one timestamp, because the stored maximum is a microsecond up.
    server
        .run(
            database,
            "DO $$ BEGIN ASSERT (SELECT count(*) FROM extents WHERE tenant_id = '00000000-0000-0000-0000-000000000000' AND deleted_at IS NULL
             AND tstzrange(min_timestamp, max_timestamp) && tstzrange('2026-01-01T00:00:00Z', '2026-01-01T00:00:00.000001Z')
             AND (column_stats->'service'->'distinct' IS NULL OR jsonb_typeof(column_stats->'service'->'distinct') = 'null')
             AND present_paths = '{}') = 1; END $$",
        )
        .unwrap();
}
