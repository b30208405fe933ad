//! The suites of all catalogs over SQLite, and a store made by hand as the original makes it.

use std::sync::Arc;

use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::catalog::tests::{attach, concurrency, contract, create_logs, ids, plain, processes, pruning};
use crate::catalog::{At, AttachOptions, Catalog, Changes, PruneOptions, TableName, Which, open};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};

fn fresh(dir: &tempfile::TempDir) -> String {
    dir.path().join(format!("{}.db", Uuid::new_v4())).display().to_string()
}

#[test]
fn contract() {
    let dir = tempfile::tempdir().unwrap();
    contract::all(|| attach(&fresh(&dir)));
}

#[test]
fn prunes_soundly() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 1..4 {
        pruning::never_loses_a_row(&*attach(&fresh(&dir)), seed * 104_729, 120);
    }
    pruning::each_kind_fires(&*attach(&fresh(&dir)), false);
}

#[test]
fn many_threads() {
    let dir = tempfile::tempdir().unwrap();
    let address = fresh(&dir);
    concurrency::threads(|| attach(&address), 6, 12);
}

#[test]
fn many_processes() {
    let dir = tempfile::tempdir().unwrap();
    processes::appends(&fresh(&dir));
}

#[test]
fn killed_writers() {
    let dir = tempfile::tempdir().unwrap();
    processes::kills(&fresh(&dir));
}

#[test]
fn nanoseconds_are_kept_and_storage_defaults_to_data() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = attach(&fresh(&dir));
    create_logs(&*catalog);
    let view = crate::catalog::tests::append(&*catalog, vec![plain(1_767_225_600_000_000_001)]);
    let extents = catalog.extents(&view).unwrap();
    assert_eq!(extents[0].time.max, Some(1_767_225_600_000_000_001));
    let id = Uuid::nil();
    let path = catalog.new_extent_path(&view.name, id, "pnsv");
    assert_eq!(path, "pensieve-local/extents/00000000-0000-0000-0000-000000000000.pnsv");
    assert_eq!(catalog.extent_location(&path), dir.path().join("data").join(&path).display().to_string());
    assert_eq!(catalog.extent_magic(), Some("pnsv"));
}

#[test]
fn read_only_wants_a_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let options = AttachOptions { read_only: true, ..AttachOptions::default() };
    let missing = dir.path().join("none.db");
    assert!(open(missing.to_str().unwrap(), &options).is_err());
    assert!(!missing.exists());
    let other = dir.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    let error = open(other.to_str().unwrap(), &options).unwrap_err().to_string();
    assert!(error.contains("not a pensieve catalog"), "{error}");
}

/// Rows that name no time column: the original's are of the table's first, those of earlier builds of ours of nobody knows which.
#[test]
fn bounds_without_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = fresh(&dir);
    by_hand(&path);
    let db = Connection::open(&path).unwrap();
    let fields = r#"{"fields":[{"name":"at","type":"timestamp"},{"name":"seen","type":"timestamp"}]}"#;
    db.execute("UPDATE schema_snapshots SET arrow_schema = ?1", params![fields]).unwrap();
    let catalog = attach(&path);
    let view = catalog.table(&TableName::new("otel", "logs")).unwrap().unwrap();
    let kept = |column: &str| {
        let value = Scalar::TimestampNs(1_800_000_000_000_000_000);
        let late = BlockPredicate::Compare { column: column.into(), op: CompareOp::Gt, value };
        catalog.prune(&view, &late, &PruneOptions::default()).unwrap().extents.len()
    };
    let all = ids(&*catalog, &view).len();
    assert!(kept("at") < all);
    assert_eq!(kept("seen"), all);
    // As our earlier builds wrote them: the extent's time is its snapshot's.
    let same =
        "UPDATE extents SET created_at = (SELECT s.created_at FROM manifests m JOIN snapshots s ON s.id = m.snapshot_id
                WHERE m.id = extents.manifest_id)";
    db.execute(same, []).unwrap();
    assert_eq!(kept("at"), all);
}

/// The layout as the reference states it, with rows as the original writes them: removal times that differ from the snapshot's, fractions
/// of 0, 3, 6 and 9 digits, overflowed sets, a table of its own that must be left alone.
fn by_hand(path: &str) -> [Uuid; 4] {
    let db = Connection::open(path).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.execute_batch(
        "CREATE TABLE databases (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, name TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(tenant_id,name));
         CREATE TABLE tables (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, database_id BLOB NOT NULL, name TEXT NOT NULL, current_snapshot_id BLOB, schema_snapshot_id BLOB, config TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL, UNIQUE(tenant_id,database_id,name));
         CREATE TABLE schema_snapshots (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, arrow_schema TEXT NOT NULL, created_at TEXT NOT NULL);
         CREATE TABLE snapshots (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, parent_id BLOB, sequence_number INTEGER NOT NULL, schema_snapshot_id BLOB NOT NULL, summary TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(table_id,sequence_number));
         CREATE TABLE manifests (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, snapshot_id BLOB NOT NULL, kind TEXT NOT NULL, extent_count INTEGER NOT NULL, byte_size INTEGER NOT NULL, created_at TEXT NOT NULL);
         CREATE TABLE extents (id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, manifest_id BLOB NOT NULL, schema_snapshot_id BLOB NOT NULL, object_path TEXT NOT NULL, byte_size INTEGER NOT NULL, row_count INTEGER NOT NULL, min_timestamp TEXT, max_timestamp TEXT, column_stats TEXT NOT NULL DEFAULT '{}', present_paths TEXT NOT NULL DEFAULT '[]', compaction_gen INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL, deleted_at TEXT);
         CREATE TABLE jobs (id TEXT PRIMARY KEY, table_id TEXT); INSERT INTO jobs VALUES ('j', 't');",
    )
    .unwrap();
    let tenant = Uuid::nil();
    let [database, table, schema] = [1, 2, 3].map(Uuid::from_u128);
    let blob = |id: &Uuid| id.as_bytes().to_vec();
    let t0 = "2026-01-01T00:00:00+00:00";
    db.execute("INSERT INTO databases VALUES (?1, ?2, 'otel', ?3)", params![blob(&database), blob(&tenant), t0])
        .unwrap();
    let snapshots = [10, 11, 12].map(Uuid::from_u128);
    db.execute(
        "INSERT INTO tables VALUES (?1, ?2, ?3, 'logs', ?4, ?5, '{\"retention_days\":null}', ?6)",
        params![blob(&table), blob(&tenant), blob(&database), blob(&snapshots[2]), blob(&schema), t0],
    )
    .unwrap();
    let arrow = r#"{"fields":[{"name":"at","type":"timestamp","nullable":true},{"name":"label","type":"string","nullable":true},{"name":"n","type":"int"},{"name":"props","type":"dynamic","nullable":true},{"name":"emb","type":"vector( 3 )","nullable":true}]}"#;
    db.execute(
        "INSERT INTO schema_snapshots VALUES (?1, ?2, ?3, ?4, ?5)",
        params![blob(&schema), blob(&tenant), blob(&table), arrow, t0],
    )
    .unwrap();
    let summaries = [
        r#"{"operation":"bootstrap"}"#,
        r#"{"operation":"ingest","rows_added":8,"rows_removed":0,"bytes_added":80,"bytes_removed":0}"#,
        r#"{"operation":"compaction","rows_added":8,"rows_removed":8,"bytes_added":70,"bytes_removed":80}"#,
    ];
    for (i, (id, summary)) in snapshots.iter().zip(summaries).enumerate() {
        let parent = i.checked_sub(1).map(|p| blob(&snapshots[p]));
        let at = format!("2026-01-01T00:0{i}:00.123456789+00:00");
        db.execute(
            "INSERT INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                blob(id),
                blob(&tenant),
                blob(&table),
                parent,
                i64::try_from(i).unwrap(),
                blob(&schema),
                summary,
                at
            ],
        )
        .unwrap();
        db.execute(
            "INSERT INTO manifests VALUES (?1, ?2, ?3, 'data', 1, 80, ?4)",
            params![blob(&Uuid::from_u128(20 + i as u128)), blob(&tenant), blob(id), at],
        )
        .unwrap();
    }
    let extents = [30, 31, 32, 33].map(Uuid::from_u128);
    type Row<'a> = (usize, Option<&'a str>, Option<&'a str>, &'a str, Option<&'a str>);
    let rows: [Row<'_>; 4] = [
        // Two inputs of the compaction, removed a little before and after the snapshot's own time.
        (
            1,
            Some("2026-01-01T00:00:00+00:00"),
            Some("2026-01-01T00:00:00.500+00:00"),
            r#"{"label":{"distinct":["a"],"tokens":[]}}"#,
            Some("2026-01-01T00:01:59.9+00:00"),
        ),
        (
            1,
            Some("2026-01-01T01:00:00.000001+00:00"),
            Some("2026-01-01T01:00:00.000001+00:00"),
            "{}",
            Some("2026-01-01T00:02:00.2+00:00"),
        ),
        (
            2,
            Some("2026-01-01T00:00:00+00:00"),
            Some("2026-01-01T01:00:00.000001+00:00"),
            r#"{"label":{"distinct":["a","b"],"tokens":null},"n":{"distinct":null,"tokens":null}}"#,
            None,
        ),
        // No timestamps, and statistics that are no JSON.
        (1, None, None, "oops", None),
    ];
    for (id, (snapshot, min, max, stats, deleted)) in extents.iter().zip(rows) {
        db.execute(
            "INSERT INTO extents VALUES (?1, ?2, ?3, ?4, ?5, ?6, 40, 4, ?7, ?8, ?9, '[]', 0, ?10, ?11)",
            params![
                blob(id),
                blob(&tenant),
                blob(&table),
                blob(&Uuid::from_u128(20 + snapshot as u128)),
                blob(&schema),
                format!("pensieve-local/extents/{id}.pnsv"),
                min,
                max,
                stats,
                t0,
                deleted
            ],
        )
        .unwrap();
    }
    extents
}

#[test]
fn a_store_of_the_original_opens_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let address = fresh(&dir);
    let [first, second, compacted, bare] = by_hand(&address);
    let read_only = AttachOptions { read_only: true, ..AttachOptions::default() };
    let catalogs: [Arc<dyn Catalog>; 2] = [open(&address, &read_only).unwrap(), attach(&address)];
    let name = TableName::new("otel", "logs");
    for catalog in &catalogs {
        assert_eq!(catalog.databases().unwrap(), ["otel"]);
        assert_eq!(catalog.tables("otel").unwrap(), ["logs"]);
        let view = catalog.table(&name).unwrap().unwrap();
        assert_eq!(view.snapshot.sequence, 2);
        assert_eq!(view.snapshot.operation, "compaction");
        let types: Vec<String> = view.schema.columns.iter().map(|c| c.column_type.to_string()).collect();
        assert_eq!(types, ["timestamp", "string", "int", "dynamic", "vector(3)"]);
        let sorted = |mut list: Vec<Uuid>| {
            list.sort_unstable();
            list
        };
        assert_eq!(ids(&**catalog, &view), sorted(vec![compacted, bare]));
        let before = catalog.table_at(&name, At::Version(1)).unwrap().unwrap();
        assert_eq!(ids(&**catalog, &before), sorted(vec![first, second, bare]));
        assert_eq!(catalog.removed_extents(&name).unwrap().len(), 2);

        let label =
            |op, text: &str| BlockPredicate::Compare { column: "label".into(), op, value: Scalar::Str(text.into()) };
        let kept = |predicate: &BlockPredicate| {
            let mut kept: Vec<Uuid> = catalog
                .prune(&view, predicate, &PruneOptions::default())
                .unwrap()
                .extents
                .iter()
                .map(|e| e.id)
                .collect();
            kept.sort_unstable();
            kept
        };
        assert_eq!(kept(&label(CompareOp::Eq, "b")), sorted(vec![compacted, bare]));
        assert_eq!(kept(&label(CompareOp::Eq, "c")), [bare]);
        let late = BlockPredicate::TimeRange { column: "at".into(), start: Some(1_767_229_200_000_001_000), end: None };
        assert_eq!(kept(&late), sorted(vec![compacted, bare]), "a bound that is met exactly is met");
        let later =
            BlockPredicate::TimeRange { column: "at".into(), start: Some(1_767_229_200_000_001_001), end: None };
        assert_eq!(kept(&later), [bare]);
    }

    // What we append is what the original's own reading finds, and its other tables are as they were.
    let catalog = &catalogs[1];
    let view = catalog.table(&name).unwrap().unwrap();
    let added = catalog.commit(&view, &Changes::append(vec![plain(1_767_225_600_000_000_000)])).unwrap();
    assert_eq!(added.snapshot.sequence, 3);
    let db = Connection::open(&address).unwrap();
    let live: i64 = db
        .query_row("SELECT count(*) FROM extents WHERE tenant_id = zeroblob(16) AND deleted_at IS NULL", [], |r| {
            r.get(0)
        })
        .unwrap();
    assert_eq!(live, 3);
    let text: (String, String, String) = db
        .query_row(
            "SELECT e.min_timestamp, s.summary, m.kind FROM extents e JOIN manifests m ON m.id = e.manifest_id
             JOIN snapshots s ON s.id = m.snapshot_id JOIN tables t ON t.current_snapshot_id = s.id",
            [],
            |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)),
        )
        .unwrap();
    assert_eq!(text.0, "2026-01-01T00:00:00+00:00");
    assert!(text.1.contains(r#""operation":"ingest""#) && text.1.contains(r#""rows_added":1"#), "{}", text.1);
    assert_eq!(text.2, "data");
    let jobs: i64 = db.query_row("SELECT count(*) FROM jobs", [], |r| r.get(0)).unwrap();
    assert!(catalog.drop_table(&name, Which::Any).unwrap());
    assert_eq!(jobs, 1);
    let left: i64 = db.query_row("SELECT count(*) FROM extents", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
    let tenant = AttachOptions { tenant: Some(Uuid::from_u128(5)), ..AttachOptions::default() };
    assert!(open(&address, &tenant).unwrap().databases().unwrap().is_empty());
}
