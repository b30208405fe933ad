//! Tests that every catalog passes: the same functions run over the manifest log (memory and disk), SQLite and PostgreSQL.

pub(in crate::catalog) mod concurrency;
pub(in crate::catalog) mod contract;
pub(in crate::catalog) mod processes;
pub(in crate::catalog) mod pruning;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::{AttachOptions, Catalog, Changes, ColumnType, NewExtent, TableColumn, TableName, TableView, open};
use crate::format::ExtentWriteResult;
use crate::stats::extent::TimeRange;

/// An hour in nanoseconds.
pub(super) const HOUR: i64 = 3_600_000_000_000;
/// 2026-01-01T00:00:00Z.
pub(super) const DAY_ONE: i64 = 1_767_225_600_000_000_000;

pub(super) fn logs() -> TableName {
    TableName::new("otel", "logs")
}

pub(super) fn columns() -> Vec<TableColumn> {
    vec![
        TableColumn::new("at", ColumnType::Timestamp),
        TableColumn::new("service", ColumnType::String),
        TableColumn::new("message", ColumnType::String),
        TableColumn::new("code", ColumnType::Int),
        TableColumn::new("attributes", ColumnType::Dynamic),
    ]
}

/// A store in memory that nobody else uses.
pub(super) fn memory() -> Arc<dyn Catalog> {
    open(&format!("memory://{}/lake", Uuid::new_v4()), &AttachOptions::default()).unwrap()
}

pub(super) fn attach(address: &str) -> Arc<dyn Catalog> {
    open(address, &AttachOptions::default()).unwrap()
}

/// A SQL catalog with a place for its extents.
pub(super) fn attach_with(address: &str) -> Arc<dyn Catalog> {
    let options = AttachOptions { storage: Some("/nowhere".into()), ..AttachOptions::default() };
    open(address, &options).unwrap()
}

/// `otel.logs` in `catalog`.
pub(super) fn create_logs(catalog: &dyn Catalog) -> TableView {
    catalog.create_database("otel").unwrap();
    catalog.create_table(&logs(), &columns(), None).unwrap().unwrap()
}

/// An extent with the given time bounds and statistics.
pub(super) fn extent(rows: u64, min: i64, max: i64, column_stats: serde_json::Value) -> NewExtent {
    let extent_id = Uuid::new_v4();
    NewExtent::ingested(
        ExtentWriteResult {
            extent_id,
            object_path: format!("otel/logs/{extent_id}.tlm"),
            byte_size: rows * 10,
            row_count: rows,
            block_count: 1,
            time_ranges: BTreeMap::from([("at".to_owned(), TimeRange::Known(min, max))]),
            present_paths: None,
            column_stats,
        },
        "tlm",
    )
}

/// An extent without statistics, one row.
pub(super) fn plain(at: i64) -> NewExtent {
    extent(1, at, at, json!({}))
}

/// The same with the paths of its dynamic column.
pub(super) fn with_paths(mut extent: NewExtent, paths: &[&str]) -> NewExtent {
    let paths = paths.iter().map(|p| (*p).to_owned()).collect();
    extent.written.present_paths = Some(BTreeMap::from([("attributes".to_owned(), paths)]));
    extent
}

/// Commits one append against the current view.
pub(super) fn append(catalog: &dyn Catalog, extents: Vec<NewExtent>) -> TableView {
    let view = catalog.table(&logs()).unwrap().unwrap();
    catalog.commit(&view, &Changes::append(extents)).unwrap()
}

/// Ids of the extents of a view, sorted.
pub(super) fn ids(catalog: &dyn Catalog, view: &TableView) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = catalog.extents(view).unwrap().iter().map(|e| e.id).collect();
    ids.sort_unstable();
    ids
}

/// Numbers of the retained snapshots.
pub(super) fn sequences(catalog: &dyn Catalog) -> Vec<u64> {
    catalog.snapshots(&logs()).unwrap().iter().map(|s| s.sequence).collect()
}
