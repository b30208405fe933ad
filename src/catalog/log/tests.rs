//! What is particular to the manifest log: the objects it leaves, their limits, and damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::build::MAX_PER_BUCKET;
use super::doc::SnapshotDoc;
use crate::Error;
use crate::catalog::tests::{
    DAY_ONE, HOUR, append, attach, columns, create_logs, extent, ids, logs, plain, sequences, with_paths,
};
use crate::catalog::{
    At, Catalog, Changes, ColumnType, EvidenceKind, PruneOptions, Pruned, TableColumn, TableName, TableView,
};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};

struct Log {
    dir: tempfile::TempDir,
    catalog: Arc<dyn Catalog>,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let catalog = attach(dir.path().to_str().unwrap());
        create_logs(&*catalog);
        Self { dir, catalog }
    }

    /// A catalog that has cached nothing.
    fn cold(&self) -> Arc<dyn Catalog> {
        attach(self.dir.path().to_str().unwrap())
    }

    fn table(&self) -> PathBuf {
        self.dir.path().join("_pensieve/otel/logs")
    }

    fn snapshot(&self, sequence: u64) -> SnapshotDoc {
        let path = self.table().join(super::doc::snapshot_key(sequence));
        SnapshotDoc::parse("test", &std::fs::read(path).unwrap()).unwrap()
    }
}

fn files(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeSet::new() };
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn equals(column: &str, value: &str) -> BlockPredicate {
    BlockPredicate::Compare { column: column.into(), op: CompareOp::Eq, value: Scalar::Str(value.into()) }
}

fn hour(start: i64) -> BlockPredicate {
    let (start, end) = (Some(i128::from(start)), Some(i128::from(start + HOUR)));
    BlockPredicate::TimeRange { column: "at".into(), start, end }
}

fn prune(catalog: &dyn Catalog, predicate: &BlockPredicate) -> Pruned {
    let view = catalog.table(&logs()).unwrap().unwrap();
    catalog.prune(&view, predicate, &PruneOptions::default()).unwrap()
}

#[test]
fn a_bucket_never_keeps_more_than_sixteen_manifests() {
    let log = Log::new();
    for i in 0..120_i64 {
        // Two busy hours, and now and then an extent without time bounds.
        let mut new = plain(DAY_ONE + (i % 2) * HOUR + i);
        if i % 5 == 0 {
            new.written.time_ranges.clear();
        }
        let view = append(&*log.catalog, vec![new]);
        let doc = log.snapshot(view.snapshot.sequence);
        let mut buckets: BTreeMap<Option<i64>, usize> = BTreeMap::new();
        doc.body.manifests.iter().for_each(|m| *buckets.entry(m.bucket).or_default() += 1);
        assert!(buckets.values().all(|n| *n <= MAX_PER_BUCKET), "{buckets:?}");
        assert_eq!(doc.head.totals.extents, u64::try_from(i).unwrap() + 1);
    }
    let view = log.catalog.table(&logs()).unwrap().unwrap();
    assert_eq!(ids(&*log.catalog, &view).len(), 120);
    assert_eq!(ids(&*log.cold(), &view).len(), 120);
    // Order of arrival survives merging.
    let order: Vec<u64> = log.cold().extents(&view).unwrap().iter().map(|e| e.sequence).collect();
    assert_eq!(order, (1..=120).collect::<Vec<_>>());
    // Extents without bounds are found whatever the time filter.
    let pruned = prune(&*log.catalog, &hour(DAY_ONE - 100 * HOUR));
    assert_eq!(pruned.extents.len(), 24);
    assert_eq!(pruned.counts.skipped(EvidenceKind::Time), 96);
}

#[test]
fn quiet_buckets_are_merged_and_wide_tables_get_wider_buckets() {
    let log = Log::new();
    for i in 0..40_i64 {
        append(&*log.catalog, vec![plain(DAY_ONE + i / 8 * HOUR)]);
    }
    let last = log.catalog.table(&logs()).unwrap().unwrap().snapshot.sequence;
    let manifests = log.snapshot(last).body.manifests;
    assert!(manifests.len() <= 8 + 5 + 1, "{} manifests", manifests.len());
    // 3,000 hours in one commit do not become 3,000 buckets.
    append(&*log.catalog, (0..3_000).map(|i| plain(DAY_ONE + i * HOUR)).collect());
    let doc = log.snapshot(last + 1);
    let buckets: BTreeSet<_> = doc.body.manifests.iter().map(|m| m.bucket).collect();
    assert!(buckets.len() <= 256, "{} buckets", buckets.len());
    assert!(doc.body.manifests.iter().all(|m| {
        let bucket = m.bucket.unwrap();
        m.max_ts.unwrap().div_euclid(doc.body.bucket_nanos) == bucket
    }));
    assert_eq!(prune(&*log.cold(), &hour(DAY_ONE + 2_000 * HOUR)).extents.len(), 1);
}

#[test]
fn the_head_is_found_without_with_stale_and_with_broken_hints() {
    let log = Log::new();
    for i in 0..21 {
        append(&*log.catalog, vec![plain(DAY_ONE + i)]);
    }
    let hint = log.table().join(super::head::HINT);
    assert_eq!(std::fs::read_to_string(&hint).unwrap(), r#"{"sequence":21}"#);
    for text in [
        r#"{"sequence":0}"#,
        r#"{"sequence":7}"#,
        r#"{"sequence":9999}"#,
        "{",
        "",
        r#"{"sequence":18446744073709551615}"#,
    ] {
        std::fs::write(&hint, text).unwrap();
        assert_eq!(log.cold().table(&logs()).unwrap().unwrap().snapshot.sequence, 21, "{text}");
    }
    std::fs::remove_file(&hint).unwrap();
    assert_eq!(log.cold().table(&logs()).unwrap().unwrap().snapshot.sequence, 21);
    // Expired snapshots: the lowest numbers are gone, and the hint as well.
    for n in 0..15 {
        std::fs::remove_file(log.table().join(super::doc::snapshot_key(n))).unwrap();
    }
    let cold = log.cold();
    assert_eq!(cold.table(&logs()).unwrap().unwrap().snapshot.sequence, 21);
    assert_eq!(sequences(&*cold), (15..=21).collect::<Vec<_>>());
    assert!(matches!(cold.table_at(&logs(), At::Version(3)), Err(Error::InvalidInput(_))));
    let oldest = cold.snapshots(&logs()).unwrap()[0].clone();
    let found = cold.table_at(&logs(), At::Timestamp(oldest.created_at)).unwrap().unwrap();
    assert_eq!(found.snapshot.sequence, 15);
    assert!(cold.table_at(&logs(), At::Timestamp(oldest.created_at - 1)).is_err());
    // A store attached before others committed finds what they did.
    for i in 0..9 {
        append(&*cold, vec![plain(DAY_ONE + i)]);
    }
    assert_eq!(log.catalog.table(&logs()).unwrap().unwrap().snapshot.sequence, 30);
}

#[test]
fn a_lost_race_leaves_no_objects_behind() {
    let log = Log::new();
    let other = log.cold();
    std::thread::scope(|scope| {
        for catalog in [&log.catalog, &other] {
            scope.spawn(move || (0..20).for_each(|i| drop(append(&**catalog, vec![plain(DAY_ONE + i)]))));
        }
    });
    // Every manifest is in some snapshot.
    let mut referenced = BTreeSet::new();
    for n in 0..=40 {
        referenced.extend(log.snapshot(n).body.manifests.into_iter().map(|m| m.key.replace("manifests/", "")));
    }
    assert_eq!(files(&log.table().join("manifests")), referenced);
}

#[test]
fn newer_versions_are_refused_and_unknown_keys_ignored() {
    let log = Log::new();
    append(&*log.catalog, vec![plain(DAY_ONE)]);
    let path = log.table().join(super::doc::snapshot_key(1));
    let text = std::fs::read_to_string(&path).unwrap();
    let extended = text.replacen("{\"format\"", "{\"colour\":{\"x\":[1]},\"format\"", 1).replacen(
        "\"manifests\":[{",
        "\"manifests\":[{\"colour\":\"red\",",
        1,
    );
    std::fs::write(&path, extended).unwrap();
    assert_eq!(prune(&*log.cold(), &BlockPredicate::Constant(Some(true))).extents.len(), 1);
    std::fs::write(&path, text.replacen("\"version\":1", "\"version\":2", 1)).unwrap();
    let error = log.cold().table(&logs()).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("newer pensieve") && error.to_string().contains("00000001.json"), "{error}");
    for broken in ["", "{", "{}\n", &text[..text.len() / 2]] {
        std::fs::write(&path, broken).unwrap();
        assert!(matches!(log.cold().table(&logs()), Err(Error::Corrupt { .. })), "{broken:?}");
    }
}

#[test]
fn sets_that_cannot_be_read_cost_time_not_rows() {
    let log = Log::new();
    let stats = |v: &str| json!({"service": {"distinct": [v], "tokens": [v]}});
    append(&*log.catalog, vec![extent(1, DAY_ONE, DAY_ONE, stats("auth")), extent(1, DAY_ONE, DAY_ONE, stats("pay"))]);
    assert_eq!(prune(&*log.catalog, &equals("service", "pay")).extents.len(), 1);
    let stats_dir = log.table().join("stats");
    let name = files(&stats_dir).pop_first().unwrap();
    let good = std::fs::read(stats_dir.join(&name)).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    bad[10] ^= 1;
    for broken in [bad, good[..9].to_vec(), Vec::new()] {
        std::fs::write(stats_dir.join(&name), broken).unwrap();
        let pruned = prune(&*log.cold(), &equals("service", "pay"));
        assert_eq!(pruned.extents.len(), 2);
        assert!(pruned.counts.notes.iter().any(|n| n.contains("not used")), "{:?}", pruned.counts.notes);
    }
    std::fs::remove_file(stats_dir.join(&name)).unwrap();
    assert_eq!(prune(&*log.cold(), &equals("service", "pay")).extents.len(), 2);
    // A missing manifest is not a missing statistic: it would hide rows.
    let manifests = log.table().join("manifests");
    let name = files(&manifests).pop_first().unwrap();
    std::fs::remove_file(manifests.join(name)).unwrap();
    let cold = log.cold();
    let view = cold.table(&logs()).unwrap().unwrap();
    let error = cold.extents(&view).unwrap_err().to_string();
    assert!(error.contains("missing though a snapshot refers to it"), "{error}");
}

#[test]
fn paths_are_numbered_per_table_across_commits_and_merges() {
    let log = Log::new();
    for i in 0..40_i64 {
        let paths: Vec<String> = (0..=i % 4).map(|p| format!("/p{p}/x")).chain([format!("/only{i}")]).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        append(&*log.catalog, vec![with_paths(plain(DAY_ONE + i), &paths)]);
    }
    append(&*log.catalog, vec![with_paths(plain(DAY_ONE), &[]), plain(DAY_ONE)]);
    let exists = |path: &str| BlockPredicate::DynamicPathExists {
        column: "attributes".into(),
        path: path.split('.').map(str::to_owned).collect(),
    };
    let cold = log.cold();
    let kept = |path: &str| prune(&*cold, &exists(path)).extents.len();
    // The extent whose paths are unknown is always kept, the one without paths never.
    assert_eq!(kept("only7"), 2);
    assert_eq!(kept("p3"), 11);
    assert_eq!(kept("p0.x"), 41);
    assert_eq!(kept("nowhere"), 1);
    let view = cold.table(&logs()).unwrap().unwrap();
    let (mut known, mut empty) = (0, 0);
    cold.visit_stats(&view, &mut |_, stats| {
        match stats.present_paths.as_ref().and_then(|p| p.get("attributes")) {
            Some(paths) if paths.is_empty() => empty += 1,
            Some(_) => known += 1,
            None => {}
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((known, empty), (40, 1));
    assert!(log.snapshot(view.snapshot.sequence).body.paths.len() <= 17);
}

#[test]
fn sets_survive_removals_and_merges() {
    let log = Log::new();
    for i in 0..50_i64 {
        let stats = json!({"service": {"distinct": [format!("s{i}")], "tokens": [format!("s{i}")]}});
        append(&*log.catalog, vec![extent(1, DAY_ONE + i, DAY_ONE + i, stats)]);
    }
    let view = log.catalog.table(&logs()).unwrap().unwrap();
    let odd: Vec<_> = log.catalog.extents(&view).unwrap().into_iter().filter(|e| e.sequence % 2 == 1).collect();
    log.catalog.commit(&view, &Changes::remove(&odd)).unwrap();
    let cold = log.cold();
    for i in 0..50 {
        let found = prune(&*cold, &equals("service", &format!("s{i}"))).extents;
        assert_eq!(found.len(), i % 2, "s{i}");
    }
    // The old view still has them all.
    let before = cold.table_at(&logs(), At::Version(50)).unwrap().unwrap();
    assert_eq!(ids(&*cold, &before).len(), 50);
    assert_eq!(cold.removed_extents(&logs()).unwrap().len(), 25);
}

/// A table of `extents` extents, a minute apart, with statistics of 20 services and 30 tokens each.
fn synthetic(log: &Log, extents: i64) {
    let mut view = log.catalog.table(&logs()).unwrap().unwrap();
    for start in (0..extents).step_by(2_000) {
        let new = (start..(start + 2_000).min(extents)).map(|i| {
            let services: Vec<String> = (0..20).map(|s| format!("service-{:04}", (i * 7 + s) % 5_000)).collect();
            let tokens: Vec<String> = (0..30).map(|t| format!("token{:05}", (i * 31 + t * 17) % 40_000)).collect();
            let stats = json!({
                "service": {"distinct": services, "tokens": services},
                "message": {"distinct": null, "tokens": tokens},
                "code": {"distinct": [i % 7, 100 + i % 11], "tokens": null},
            });
            let at = DAY_ONE + i * HOUR / 60;
            extent(100_000, at, at + HOUR / 60, stats)
        });
        view = log.catalog.commit(&view, &Changes::append(new.collect())).unwrap();
    }
}

/// Size of the synthetic table: small here, 100,000 in the long runs.
#[test]
fn planning_an_hour_of_many_extents() {
    let extents: i64 = std::env::var("PENSIEVE_TEST_EXTENTS").ok().and_then(|v| v.parse().ok()).unwrap_or(4_000);
    let log = Log::new();
    let begun = Instant::now();
    synthetic(&log, extents);
    let written = begun.elapsed();
    let middle = DAY_ONE + extents / 2 / 60 * HOUR;
    let predicate = BlockPredicate::And(vec![hour(middle), equals("service", "service-0100")]);
    let cold_catalog = log.cold();
    let begun = Instant::now();
    let pruned = prune(&*cold_catalog, &predicate);
    let cold = begun.elapsed();
    let begun = Instant::now();
    let again = prune(&*cold_catalog, &predicate);
    let warm = begun.elapsed();
    assert_eq!(again.extents, pruned.extents);
    let begun = Instant::now();
    let everywhere = prune(&*cold_catalog, &equals("service", "service-0100"));
    println!(
        "{extents} extents: written in {written:?}; hour + equality cold {cold:?}, warm {warm:?}; equality alone {:?}; {:?}; peak {}",
        begun.elapsed(),
        pruned.counts,
        peak_memory()
    );
    assert_eq!(pruned.counts.extents_considered, u64::try_from(extents).unwrap());
    assert!(pruned.counts.manifests_skipped > pruned.counts.manifests_considered / 2);
    assert!(pruned.extents.len() <= 61);
    assert!(!everywhere.extents.is_empty());
    assert!(everywhere.extents.iter().all(|e| e.row_count == 100_000));
    // An unoptimised build on a busy machine is allowed ten times the target.
    assert!(cold.as_secs_f64() < 10.0 && warm.as_secs_f64() < 1.0, "cold {cold:?}, warm {warm:?}");
}

/// The process's peak resident memory, where the system tells.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("unknown").to_owned()
}

#[test]
fn odd_names_stay_inside_the_root() {
    let log = Log::new();
    log.catalog.create_database("../x").unwrap();
    let name = crate::catalog::TableName::new("../x", "a/b.c");
    log.catalog.create_table(&name, &columns(), None).unwrap().unwrap();
    assert_eq!(log.catalog.databases().unwrap(), ["../x", "otel"]);
    assert_eq!(log.cold().tables("../x").unwrap(), ["a/b.c"]);
    assert_eq!(files(&log.dir.path().join("_pensieve")), BTreeSet::from(["%2E%2E%2Fx".to_owned(), "otel".to_owned()]));
    let path = log.catalog.new_extent_path(&name, uuid::Uuid::nil(), "tlm");
    assert_eq!(path, "%2E%2E%2Fx/a%2Fb%2Ec/00000000-0000-0000-0000-000000000000.tlm");
}

/// Logs of earlier builds do not say which column the bounds are of: they count only where the table has one timestamp.
#[test]
fn bounds_without_a_column_count_only_where_there_is_one() {
    for columns in [1, 2] {
        let log = Log::new();
        let name = TableName::new("otel", "times");
        let both = [TableColumn::new("at", ColumnType::Timestamp), TableColumn::new("seen", ColumnType::Timestamp)];
        log.catalog.create_table(&name, &both[..columns], None).unwrap().unwrap();
        let commit = |catalog: &dyn Catalog, changes: &Changes| {
            let view = catalog.table(&name).unwrap().unwrap();
            catalog.commit(&view, changes).unwrap()
        };
        commit(&*log.catalog, &Changes::append(vec![plain(DAY_ONE)]));
        let directory = log.dir.path().join("_pensieve/otel/times");
        for folder in ["snapshots", "manifests"] {
            for file in files(&directory.join(folder)) {
                let path = directory.join(folder).join(file);
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, text.replace(r#""ts_column":"at","#, "")).unwrap();
            }
        }
        let later = BlockPredicate::Compare {
            column: "at".into(),
            op: CompareOp::Gt,
            value: Scalar::TimestampNs(i128::from(DAY_ONE + HOUR)),
        };
        let kept = |view: &TableView| log.cold().prune(view, &later, &PruneOptions::default()).unwrap().extents.len();
        let expected = columns - 1;
        assert_eq!(kept(&log.cold().table(&name).unwrap().unwrap()), expected);
        // Written again together with others, they are of the column they must have been of, or of none.
        let cold = log.cold();
        for i in 0..17 {
            commit(&*cold, &Changes::append(vec![plain(DAY_ONE + i)]));
        }
        let merged = cold.table(&name).unwrap().unwrap();
        assert_eq!(kept(&merged), expected);
        let two = Changes::add_column(TableColumn::new("third", ColumnType::Timestamp));
        assert_eq!(kept(&commit(&*cold, &two)), expected, "the names stay when another timestamp is added");
    }
}

#[test]
fn a_damaged_table_is_listed_with_the_others() {
    let log = Log::new();
    let other = TableName::new("otel", "other");
    log.catalog.create_table(&other, &columns(), None).unwrap().unwrap();
    std::fs::write(log.table().join(super::doc::snapshot_key(0)), "{").unwrap();
    let cold = log.cold();
    assert_eq!(cold.tables("otel").unwrap(), ["logs", "other"]);
    assert!(cold.table(&logs()).is_err());
    assert!(cold.table(&other).unwrap().is_some());
}
