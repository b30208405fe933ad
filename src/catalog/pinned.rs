//! A catalog pinned to a version number or an instant (`ATTACH … (SNAPSHOT n)`, `(SNAPSHOT_TIME t)`), and therefore read-only.

use std::sync::Arc;

use super::types::{
    At, Changes, Extent, ExtentStats, RemovedExtent, Snapshot, TableColumn, TableName, TableView, Totals, Which,
};
use super::{Catalog, ColumnType, PruneOptions, Pruned, time};
use crate::predicate::BlockPredicate;
use crate::{Error, Result};

/// Answers "now" with a fixed version or instant.
#[derive(Debug)]
pub(crate) struct PinnedCatalog {
    pub inner: Arc<dyn Catalog>,
    pub at: At,
}

impl PinnedCatalog {
    fn refuse<T>(&self) -> Result<T> {
        Err(Error::InvalidInput(format!(
            "{} is attached at {} and cannot be changed",
            self.inner.address(),
            match self.at {
                At::Version(n) => format!("SNAPSHOT {n}"),
                At::Timestamp(instant) => format!("SNAPSHOT_TIME {}", time::to_rfc3339(instant)),
                At::Head => "its newest snapshot".to_owned(),
            }
        )))
    }
}

impl Catalog for PinnedCatalog {
    fn address(&self) -> &str {
        self.inner.address()
    }
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }
    fn read_only(&self) -> bool {
        true
    }
    fn type_names(&self) -> &'static [&'static str] {
        self.inner.type_names()
    }
    fn supports_type(&self, column_type: &ColumnType) -> bool {
        self.inner.supports_type(column_type)
    }
    fn extent_magic(&self) -> Option<&'static str> {
        self.inner.extent_magic()
    }
    fn storage_root(&self) -> &str {
        self.inner.storage_root()
    }
    fn new_extent_path(&self, table: &TableName, extent: uuid::Uuid, extension: &str) -> String {
        self.inner.new_extent_path(table, extent, extension)
    }
    fn databases(&self) -> Result<Vec<String>> {
        self.inner.databases()
    }
    fn create_database(&self, _: &str) -> Result<bool> {
        self.refuse()
    }
    fn drop_database(&self, _: &str, _: bool) -> Result<bool> {
        self.refuse()
    }
    fn tables(&self, database: &str) -> Result<Vec<String>> {
        self.inner.tables(database)
    }
    fn create_table(&self, _: &TableName, _: &[TableColumn], _: Option<uuid::Uuid>) -> Result<Option<TableView>> {
        self.refuse()
    }
    fn drop_table(&self, _: &TableName, _: Which<'_>) -> Result<bool> {
        self.refuse()
    }
    fn table_at(&self, name: &TableName, at: At) -> Result<Option<TableView>> {
        let at = if at == At::Head { self.at } else { at };
        self.inner.table_at(name, at)
    }
    fn snapshots(&self, name: &TableName) -> Result<Vec<Snapshot>> {
        self.inner.snapshots(name)
    }
    fn commit(&self, _: &TableView, _: &Changes) -> Result<TableView> {
        self.refuse()
    }
    fn extents(&self, view: &TableView) -> Result<Vec<Extent>> {
        self.inner.extents(view)
    }
    fn prune(&self, view: &TableView, predicate: &BlockPredicate, options: &PruneOptions) -> Result<Pruned> {
        self.inner.prune(view, predicate, options)
    }
    fn totals(&self, view: &TableView) -> Result<Totals> {
        self.inner.totals(view)
    }
    fn visit_stats(&self, view: &TableView, visit: &mut dyn FnMut(&Extent, ExtentStats) -> Result<()>) -> Result<()> {
        self.inner.visit_stats(view, visit)
    }
    fn removed_extents(&self, name: &TableName) -> Result<Vec<RemovedExtent>> {
        self.inner.removed_extents(name)
    }
}
