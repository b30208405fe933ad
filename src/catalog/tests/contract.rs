//! What the trait promises, on every catalog.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::Error;
use crate::catalog::{At, PruneOptions, Removal, Transaction, Which};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};
use crate::stats::extent::TimeRange;

pub(in crate::catalog) fn tables_come_and_go(catalog: &dyn Catalog) {
    assert_eq!(catalog.databases().unwrap(), Vec::<String>::new());
    assert!(catalog.table(&logs()).unwrap().is_none());
    assert!(catalog.create_table(&logs(), &columns(), None).is_err(), "the database does not exist yet");
    assert!(catalog.create_database("otel").unwrap());
    assert!(!catalog.create_database("otel").unwrap());
    let view = catalog.create_table(&logs(), &columns(), None).unwrap().unwrap();
    assert_eq!(view.snapshot.sequence, 0);
    assert_eq!(view.schema.columns, columns());
    assert!(catalog.create_table(&logs(), &columns(), None).unwrap().is_none());
    let odd = TableName::new("otel", "Ünï.1");
    catalog.create_table(&odd, &columns()[..1], None).unwrap().unwrap();
    assert_eq!(catalog.tables("otel").unwrap(), ["logs", "Ünï.1"]);
    assert_eq!(catalog.tables("none").unwrap(), Vec::<String>::new());
    let error = catalog.drop_database("otel", false).unwrap_err().to_string();
    assert!(error.contains("2 tables"), "{error}");

    append(catalog, vec![plain(DAY_ONE)]);
    assert!(catalog.drop_table(&logs(), Which::Any).unwrap());
    assert!(!catalog.drop_table(&logs(), Which::Any).unwrap());
    assert!(catalog.table(&logs()).unwrap().is_none());
    assert_eq!(catalog.tables("otel").unwrap(), ["Ünï.1"]);
    // A new table of the same name is another one: empty, and not to be committed to with the old view.
    let again = catalog.create_table(&logs(), &columns(), None).unwrap().unwrap();
    assert_ne!(again.table_id, view.table_id);
    assert!(ids(catalog, &again).is_empty());
    assert!(matches!(catalog.commit(&view, &Changes::append(vec![plain(1)])), Err(Error::Conflict { .. })));
    assert!(catalog.drop_database("otel", true).unwrap());
    assert!(!catalog.drop_database("otel", true).unwrap());
    assert_eq!(catalog.databases().unwrap(), Vec::<String>::new());
}

pub(in crate::catalog) fn views_are_isolated_and_travel_in_time(catalog: &dyn Catalog) {
    let v0 = create_logs(catalog);
    let a = plain(DAY_ONE);
    let b = plain(DAY_ONE + HOUR);
    let (id_a, id_b) = (a.written.extent_id, b.written.extent_id);
    let v1 = append(catalog, vec![a]);
    // The instants differ by more than the coarsest clock of the catalogs.
    std::thread::sleep(std::time::Duration::from_millis(5));
    let v2 = append(catalog, vec![b]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let v3 = catalog.commit(&v2, &Changes::remove([id_a])).unwrap();
    assert_eq!([&v0, &v1, &v2, &v3].map(|v| v.snapshot.sequence), [0, 1, 2, 3]);
    assert_eq!(v3.snapshot.parent, Some(v2.snapshot.id));
    let mut both = vec![id_a, id_b];
    both.sort_unstable();
    let check = |view: &TableView, expected: &[Uuid]| {
        assert_eq!(ids(catalog, view), expected, "version {}", view.snapshot.sequence);
        let totals = catalog.totals(view).unwrap();
        assert_eq!((totals.extents, totals.rows), (expected.len() as u64, expected.len() as u64));
        let pruned = catalog.prune(view, &crate::predicate::BlockPredicate::Constant(Some(true)), &Default::default());
        assert_eq!(pruned.unwrap().extents.len(), expected.len());
    };
    for (view, expected) in [(&v0, &[][..]), (&v1, &[id_a]), (&v2, &both), (&v3, &[id_b])] {
        check(view, expected);
        let at = catalog.table_at(&logs(), At::Version(view.snapshot.sequence)).unwrap().unwrap();
        assert_eq!(at.snapshot, view.snapshot);
        check(&at, expected);
        let at = catalog.table_at(&logs(), At::Timestamp(view.snapshot.created_at)).unwrap().unwrap();
        assert_eq!(at.snapshot.sequence, view.snapshot.sequence);
    }
    let just_before = catalog.table_at(&logs(), At::Timestamp(v2.snapshot.created_at - 1_000)).unwrap().unwrap();
    assert_eq!(just_before.snapshot.sequence, 1);
    assert!(catalog.table_at(&logs(), At::Timestamp(DAY_ONE - HOUR * 24 * 365)).is_err());
    assert!(catalog.table_at(&logs(), At::Version(4)).is_err());

    let snapshots = catalog.snapshots(&logs()).unwrap();
    assert_eq!(snapshots.iter().map(|s| s.sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(snapshots[1].summary.rows_added, 1);
    assert_eq!(snapshots[3].summary.rows_removed, 1);
    assert_eq!(snapshots[3].summary.bytes_removed, 10);
    let removed = catalog.removed_extents(&logs()).unwrap();
    assert_eq!(removed.iter().map(|r| r.id).collect::<Vec<_>>(), [id_a]);
    assert_eq!((removed[0].row_count, removed[0].byte_size), (1, 10));
}

pub(in crate::catalog) fn removals_conflict_appends_rebase(catalog: &dyn Catalog) {
    let stale = create_logs(catalog);
    let (a, b, c) = (plain(1), plain(2), plain(3));
    let [id_a, id_b, id_c] = [&a, &b, &c].map(|e| e.written.extent_id);
    let base = append(catalog, vec![a, b]);
    // An append against an old view lands on the newest.
    let after = catalog.commit(&stale, &Changes::append(vec![c])).unwrap();
    assert_eq!(after.snapshot.sequence, 2);
    // Two compactions of the same inputs: the second must not duplicate the rows.
    let replace = |id: Uuid| Changes {
        operation: "compaction".into(),
        append: vec![NewExtent { compaction_gen: 1, ..plain(1) }],
        remove: vec![Removal::from(id)],
        ..Changes::default()
    };
    let compacted = catalog.commit(&base, &replace(id_a)).unwrap();
    assert_eq!(compacted.snapshot.operation, "compaction");
    let error = catalog.commit(&base, &replace(id_a)).unwrap_err();
    assert!(matches!(&error, Error::Conflict { .. }), "{error}");
    assert!(error.to_string().contains(&id_a.to_string()), "{error}");
    let unknown = catalog.commit(&base, &Changes::remove([Uuid::new_v4()])).unwrap_err();
    assert!(matches!(unknown, Error::Conflict { .. }));
    // Another removal against the same old view is fine.
    let extents = catalog.extents(&base).unwrap();
    let of_b = extents.iter().find(|e| e.id == id_b).unwrap();
    let last = catalog.commit(&base, &Changes::remove([of_b])).unwrap();
    let left = ids(catalog, &last);
    assert_eq!(left.len(), 2);
    assert!(left.contains(&id_c) && !left.contains(&id_a) && !left.contains(&id_b));
    assert_eq!(sequences(catalog), [0, 1, 2, 3, 4]);
    let generations: Vec<u32> = catalog.extents(&last).unwrap().iter().map(|e| e.compaction_gen).collect();
    assert_eq!(generations.iter().max(), Some(&1));
    // Nothing to do is no snapshot.
    assert_eq!(catalog.commit(&last, &Changes::default()).unwrap().snapshot.sequence, 4);
}

pub(in crate::catalog) fn columns_are_added_once(catalog: &dyn Catalog) {
    let v0 = create_logs(catalog);
    let region = Changes::add_column(TableColumn::new("region", ColumnType::String));
    let v1 = catalog.commit(&v0, &region).unwrap();
    assert_eq!(v1.schema.columns.len(), 6);
    assert_ne!(v1.schema.id, v0.schema.id);
    assert!(matches!(catalog.commit(&v0, &region), Err(Error::Conflict { .. })));
    let upper = Changes::add_column(TableColumn::new("REGION", ColumnType::String));
    assert!(catalog.commit(&v1, &upper).is_err());
    // An append planned before the column arrived keeps the schema it was written for.
    let v2 = catalog.commit(&v0, &Changes::append(vec![plain(1)])).unwrap();
    assert_eq!(v2.schema.columns.len(), 6);
    assert_eq!(catalog.table(&logs()).unwrap().unwrap().schema.columns[5].name, "region");
    let unsupported = [TableColumn::new("n", ColumnType::Decimal(4, 2))];
    if !catalog.supports_type(&unsupported[0].column_type) {
        let error = catalog.create_table(&TableName::new("otel", "x"), &unsupported, None).unwrap_err().to_string();
        assert!(error.contains("decimal(4,2)") && error.contains("vector(N)"), "{error}");
    }
}

pub(in crate::catalog) fn statistics_read_back(catalog: &dyn Catalog) {
    create_logs(catalog);
    let stats = json!({
        "service": {"distinct": ["auth", "pay"], "tokens": ["auth", "pay"]},
        "message": {"distinct": null, "tokens": ["out", "of"]},
        "code": {"distinct": [1, 2], "tokens": null},
        "emb": {"vec": {"centroid": [0.5], "radius": 0.25, "count": 3, "metric": "cosine"}},
    });
    let view = append(catalog, vec![extent(7, DAY_ONE + 1, DAY_ONE + 1_234, stats.clone()), plain(5)]);
    let mut seen = Vec::new();
    catalog
        .visit_stats(&view, &mut |extent, found| {
            seen.push((extent.row_count, found.column_stats));
            Ok(())
        })
        .unwrap();
    seen.sort_by_key(|(rows, _)| *rows);
    assert_eq!(seen[1], (7, stats));
    assert_eq!(seen.len(), 2);
    let extents = catalog.extents(&view).unwrap();
    let found = extents.iter().find(|e| e.row_count == 7).unwrap();
    assert!(found.time.min.unwrap() <= DAY_ONE + 1 && found.time.max.unwrap() >= DAY_ONE + 1_234);
    assert!(found.time.max.unwrap() <= DAY_ONE + 3_000, "widened by more than the clock's unit");
    assert_eq!((found.byte_size, found.sequence, found.compaction_gen), (70, 1, 0));
}

pub(in crate::catalog) fn transactions_commit_once_per_table(catalog: Arc<dyn Catalog>) {
    create_logs(&*catalog);
    let mut transaction = Transaction::new(Arc::clone(&catalog));
    let (a, b) = (plain(1), plain(2));
    let id_b = b.written.extent_id;
    transaction.change(&logs(), Changes::append(vec![a.clone()])).unwrap();
    append(&*catalog, vec![plain(9)]);
    let seen = transaction.table(&logs()).unwrap().unwrap();
    assert_eq!((seen.view.snapshot.sequence, seen.committed), (0, true), "reads stay at the first view");
    transaction.change(&logs(), Changes::append(vec![b])).unwrap();
    transaction.change(&logs(), Changes::remove([id_b])).unwrap();
    assert_eq!(transaction.table(&logs()).unwrap().unwrap().pending.append.len(), 1);
    let views = transaction.commit().unwrap();
    assert_eq!(views.len(), 1);
    assert_eq!(views[0].snapshot.sequence, 2);
    assert_eq!(ids(&*catalog, &views[0]).len(), 2);
    let mut rolled_back = Transaction::new(Arc::clone(&catalog));
    rolled_back.change(&logs(), Changes::append(vec![plain(3)])).unwrap();
    drop(rolled_back);
    assert_eq!(catalog.table(&logs()).unwrap().unwrap().snapshot.sequence, 2);
    let mut nowhere = Transaction::new(catalog);
    assert!(nowhere.change(&TableName::new("otel", "none"), Changes::default()).is_err());
}

/// Creation and removal wait for COMMIT, and a rollback has nothing to undo.
pub(in crate::catalog) fn transactions_create_and_drop(catalog: Arc<dyn Catalog>) {
    let begin = || Transaction::new(Arc::clone(&catalog));
    let names = || catalog.tables("otel").unwrap();
    let old = create_logs(&*catalog);
    append(&*catalog, vec![plain(1)]);
    let fresh = TableName::new("otel", "fresh");

    let mut transaction = begin();
    assert!(transaction.create(&fresh, &columns(), false).unwrap());
    assert!(!transaction.create(&fresh, &columns(), false).unwrap());
    assert!(transaction.create(&TableName::new("otel", ""), &columns(), false).is_err());
    assert!(transaction.create(&TableName::new("otel", "twice"), &[columns(), columns()].concat(), false).is_err());
    transaction.change(&fresh, Changes::append(vec![plain(1)])).unwrap();
    transaction.change(&fresh, Changes::add_column(TableColumn::new("late", ColumnType::Int))).unwrap();
    let seen = transaction.table(&fresh).unwrap().unwrap();
    assert_eq!((seen.committed, seen.view.schema.columns.len(), seen.pending.append.len()), (false, 6, 1));
    assert!(transaction.drop_table(&logs()).unwrap());
    assert!(!transaction.drop_table(&logs()).unwrap());
    assert!(transaction.table(&logs()).unwrap().is_none());
    assert!(transaction.change(&logs(), Changes::append(vec![plain(1)])).is_err());
    assert_eq!(transaction.names("otel").unwrap(), ["fresh"]);
    assert_eq!(names(), ["logs"], "others see nothing of it");
    drop(transaction);
    assert_eq!(names(), ["logs"]);
    assert_eq!(catalog.table(&logs()).unwrap().unwrap().table_id, old.table_id);

    // Dropped and created again, with other columns: one table of that name at any time, and it is the new one.
    let mut transaction = begin();
    assert!(transaction.drop_table(&logs()).unwrap());
    assert!(transaction.create(&logs(), &columns()[..2], false).unwrap());
    transaction.change(&logs(), Changes::append(vec![plain(7), plain(8)])).unwrap();
    transaction.create(&fresh, &columns(), false).unwrap();
    transaction.drop_table(&fresh).unwrap();
    transaction.commit().unwrap();
    let new = catalog.table(&logs()).unwrap().unwrap();
    assert_ne!(new.table_id, old.table_id);
    assert_eq!((new.schema.columns.len(), ids(&*catalog, &new).len()), (2, 2));
    assert_eq!(names(), ["logs"]);
    let snapshots = catalog.snapshots(&logs()).unwrap();
    assert_eq!(snapshots.first().unwrap().parent, None);
    assert_eq!(snapshots.len(), 2, "those of the table before are not its");

    // What somebody else did meanwhile stays: their table of the same name, and the one that replaced the dropped one.
    let mut creates = begin();
    creates.create(&fresh, &columns(), false).unwrap();
    creates.change(&fresh, Changes::append(vec![plain(1)])).unwrap();
    let theirs = catalog.create_table(&fresh, &columns(), None).unwrap().unwrap();
    assert!(matches!(creates.commit(), Err(Error::Conflict { .. })));
    let mut drops = begin();
    drops.drop_table(&fresh).unwrap();
    catalog.drop_table(&fresh, Which::Any).unwrap();
    let again = catalog.create_table(&fresh, &columns(), None).unwrap().unwrap();
    assert_ne!(theirs.table_id, again.table_id);
    drops.commit().unwrap();
    assert_eq!(catalog.table(&fresh).unwrap().unwrap().table_id, again.table_id);

    // IF NOT EXISTS appends to a table that has the columns, whoever made it first.
    let other = TableName::new("otel", "other");
    let mut first = begin();
    let mut second = begin();
    let mut odd = begin();
    first.create(&other, &columns(), true).unwrap();
    second.create(&other, &columns()[..3], true).unwrap();
    odd.create(&other, &[TableColumn::new("at", ColumnType::Int)], true).unwrap();
    for transaction in [&mut first, &mut second, &mut odd] {
        transaction.change(&other, Changes::append(vec![plain(1)])).unwrap();
    }
    first.commit().unwrap();
    second.commit().unwrap();
    assert!(matches!(odd.commit(), Err(Error::Conflict { .. })));
    let view = catalog.table(&other).unwrap().unwrap();
    assert_eq!(ids(&*catalog, &view).len(), 2);

    let mut transaction = begin();
    transaction.create(&TableName::new("otel", "new"), &columns(), false).unwrap();
    assert!(transaction.drop_database("otel", false).is_err());
    assert!(transaction.drop_database("otel", true).unwrap());
    assert_eq!(catalog.databases().unwrap(), Vec::<String>::new());
}

/// A table is dropped by what it is.
pub(in crate::catalog) fn drops_are_of_identities(catalog: &dyn Catalog) {
    let v0 = create_logs(catalog);
    let other = TableView { table_id: Uuid::new_v4(), ..v0.clone() };
    assert!(!catalog.drop_table(&logs(), Which::Table(other.table_id)).unwrap());
    assert!(!catalog.drop_table(&logs(), Which::Unchanged(&other)).unwrap());
    assert!(catalog.create_table(&logs(), &columns(), Some(other.table_id)).unwrap().is_none());
    let v1 = append(catalog, vec![plain(1)]);
    assert!(!catalog.drop_table(&logs(), Which::Unchanged(&v0)).unwrap(), "somebody's rows are in it");
    let region = Changes::add_column(TableColumn::new("region", ColumnType::String));
    let v2 = catalog.commit(&v1, &region).unwrap();
    assert!(!catalog.drop_table(&logs(), Which::Unchanged(&v1)).unwrap(), "it has another column");
    assert_eq!(ids(catalog, &v2).len(), 1);
    assert!(catalog.drop_table(&logs(), Which::Unchanged(&v2)).unwrap());
    let again = catalog.create_table(&logs(), &columns(), Some(v2.table_id)).unwrap().unwrap();
    assert!(catalog.drop_table(&logs(), Which::Table(again.table_id)).unwrap());
}

/// Bounds are those of the column they name, in whichever order the rows were written and whichever columns they had.
pub(in crate::catalog) fn bounds_name_their_column(catalog: &dyn Catalog) {
    catalog.create_database("otel").unwrap();
    let timestamp = |name: &str| TableColumn::new(name, ColumnType::Timestamp);
    catalog.create_table(&logs(), &[timestamp("ts"), timestamp("seen")], None).unwrap().unwrap();
    let with = |ranges: &[(&str, TimeRange)]| {
        let mut new = plain(0);
        new.written.time_ranges = ranges.iter().map(|(name, range)| ((*name).to_owned(), *range)).collect();
        new
    };
    let day = |n: i64| TimeRange::Known(DAY_ONE + n * 24 * HOUR, DAY_ONE + n * 24 * HOUR + 5_000);
    let both = with(&[("ts", day(0)), ("seen", day(100))]);
    let only_seen = with(&[("seen", day(100))]);
    let no_value = with(&[("ts", TimeRange::Empty), ("seen", day(0))]);
    let unknown = with(&[("ts", TimeRange::Unknown), ("seen", day(0))]);
    let reversed = with(&[("ts", TimeRange::Known(5, 4))]);
    let expected_of = |extent: &NewExtent| extent.written.extent_id;
    let [a, b, c, d, e] = [&both, &only_seen, &no_value, &unknown, &reversed].map(expected_of);
    append(catalog, vec![both, only_seen]);
    let view = append(catalog, vec![no_value, unknown, reversed]);
    let kept = |column: &str, op, nanos: i64| {
        let value = Scalar::TimestampNs(i128::from(nanos));
        let predicate = BlockPredicate::Compare { column: column.into(), op, value };
        let pruned = catalog.prune(&view, &predicate, &PruneOptions::default()).unwrap();
        let mut kept: Vec<Uuid> = pruned.extents.iter().map(|extent| extent.id).collect();
        kept.sort_unstable();
        kept
    };
    let sorted = |mut ids: Vec<Uuid>| {
        ids.sort_unstable();
        ids
    };
    let middle = DAY_ONE + 50 * 24 * HOUR;
    assert_eq!(kept("ts", CompareOp::Lt, middle), sorted(vec![a, b, c, d, e]));
    assert_eq!(kept("ts", CompareOp::Gt, middle), sorted(vec![b, c, d, e]), "the bounds of ts still rule out");
    for op in [CompareOp::Lt, CompareOp::Gt] {
        assert!(kept("seen", op, middle).contains(&a) && kept("seen", op, middle).contains(&b), "{op:?}");
    }
    let extents = catalog.extents(&view).unwrap();
    let of_a = extents.iter().find(|extent| extent.id == a).unwrap();
    assert_eq!(of_a.time.column.as_deref(), Some("ts"));
    // A removal finds its extent by its bounds, whichever column they are of.
    let left = catalog.commit(&view, &Changes::remove([of_a])).unwrap();
    assert_eq!(ids(catalog, &left), sorted(vec![b, c, d, e]));
}

/// Everything above, each on a fresh store.
pub(in crate::catalog) fn all(fresh: impl Fn() -> Arc<dyn Catalog>) {
    tables_come_and_go(&*fresh());
    views_are_isolated_and_travel_in_time(&*fresh());
    removals_conflict_appends_rebase(&*fresh());
    columns_are_added_once(&*fresh());
    statistics_read_back(&*fresh());
    transactions_commit_once_per_table(fresh());
    transactions_create_and_drop(fresh());
    drops_are_of_identities(&*fresh());
    bounds_name_their_column(&*fresh());
}

#[test]
fn manifest_log_in_memory() {
    all(memory);
}

#[test]
fn manifest_log_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    all(|| attach(dir.path().join(Uuid::new_v4().to_string()).to_str().unwrap()));
}

#[test]
fn read_only_and_pinned_stores_refuse_changes() {
    let dir = tempfile::tempdir().unwrap();
    let address = dir.path().to_str().unwrap();
    let catalog = attach(address);
    create_logs(&*catalog);
    let middle = append(&*catalog, vec![plain(1)]);
    let view = append(&*catalog, vec![plain(2)]);
    for options in [
        AttachOptions { read_only: true, ..AttachOptions::default() },
        AttachOptions { at: At::Version(1), ..AttachOptions::default() },
        AttachOptions { at: At::Timestamp(middle.snapshot.created_at), ..AttachOptions::default() },
    ] {
        let other = open(address, &options).unwrap();
        assert!(other.read_only());
        assert!(other.commit(&view, &Changes::append(vec![plain(3)])).is_err());
        assert!(other.create_database("x").is_err());
        assert!(other.drop_table(&logs(), Which::Any).is_err());
        let expected = if options.at == At::Head { 2 } else { 1 };
        let seen = other.table(&logs()).unwrap().unwrap();
        assert_eq!(seen.snapshot.sequence, expected);
        assert_eq!(ids(&*other, &seen).len() as u64, expected);
    }
}
