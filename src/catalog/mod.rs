//! Catalogs: which extents a table has, at which snapshot, and what they can hold.
//!
//! One trait, [`Catalog`], and three stores behind it: the manifest log (files next to the data, no server), SQLite and PostgreSQL.
//! `docs/catalogs.md` compares them; `docs/formats/manifest-log.md` specifies the log. Every commit is a compare-and-swap on the
//! table's snapshot: readers keep the snapshot they planned with, writers that lose the race rebase and try again.

pub mod address;
pub mod column_type;
mod evidence;
pub mod log;
mod paths;
mod pinned;
#[cfg(feature = "postgres")]
pub mod postgres;
mod prune;
mod retry;
mod runtime;
mod sql;
pub mod sqlite;
mod time;
mod transaction;
pub mod types;

pub use address::{Address, AttachOptions, open};
pub use column_type::ColumnType;
pub use paths::path_text;
pub use prune::{EvidenceKind, PruneCounts, PruneOptions, Pruned};
pub use transaction::{Seen, Transaction};
pub use types::{
    At, Changes, Extent, ExtentStats, NewExtent, PresentPaths, Removal, RemovedExtent, Snapshot, Summary, TableColumn,
    TableName, TableSchema, TableView, TimeBounds, Totals, Which,
};

use crate::Result;
use crate::predicate::BlockPredicate;

#[cfg(test)]
mod tests;

/// A store of tables. Every method may be called from any thread; methods block while they read or write.
///
/// Errors: [`crate::Error::InvalidInput`] for names that do not exist or arguments that make no sense,
/// [`crate::Error::Conflict`] when somebody else changed the table in a way that cannot be rebased, [`crate::Error::Unsupported`] for a store
/// written by a newer version, and [`crate::Error::Io`] for the disk, the object store or the server.
pub trait Catalog: Send + Sync + std::fmt::Debug {
    /// The address the store was opened with, without passwords.
    fn address(&self) -> &str;

    /// What the user calls this kind of catalog: "manifest log", "sqlite", "postgres".
    fn kind(&self) -> &'static str;

    /// Whether every change is refused.
    fn read_only(&self) -> bool;

    /// The types a column may have, as the catalog spells them, for messages (`vector(N)` and `decimal(P,S)` as such).
    fn type_names(&self) -> &'static [&'static str];

    /// Whether the catalog can name `column_type`.
    fn supports_type(&self, column_type: &ColumnType) -> bool;

    /// TLM magic stem that readers of this store understand (see [`crate::format::WriteOptions::magic`]); `None` when any will do.
    fn extent_magic(&self) -> Option<&'static str> {
        None
    }

    /// Where extents live: a directory or an object store URL, without trailing slash.
    fn storage_root(&self) -> &str;

    /// Object path (relative to [`Catalog::storage_root`]) for a new extent of `table`. `extension` has no dot.
    fn new_extent_path(&self, table: &TableName, extent: uuid::Uuid, extension: &str) -> String;

    /// Path or URL from which the bytes of an extent with this `object_path` are read.
    fn extent_location(&self, object_path: &str) -> String {
        types::join_location(self.storage_root(), object_path)
    }

    /// Names of the databases, sorted.
    fn databases(&self) -> Result<Vec<String>>;

    /// Creates a database. `false`: it existed.
    fn create_database(&self, name: &str) -> Result<bool>;

    /// Drops a database. `false`: there was none. With tables inside it is an error unless `cascade`.
    fn drop_database(&self, name: &str, cascade: bool) -> Result<bool>;

    /// Names of the tables of a database, sorted; empty when the database does not exist.
    fn tables(&self, database: &str) -> Result<Vec<String>>;

    /// Creates a table with snapshot 0 (or the next number of a dropped table's log). `None`: a table of that name exists, other than the
    /// one with the identity `replaces`, which is dropped in the same step. The database must exist.
    fn create_table(
        &self,
        name: &TableName,
        columns: &[TableColumn],
        replaces: Option<uuid::Uuid>,
    ) -> Result<Option<TableView>>;

    /// Drops a table; its extents stay in storage until garbage collection. `false`: there was none, or `which` means another one.
    fn drop_table(&self, name: &TableName, which: Which<'_>) -> Result<bool>;

    /// The table as of `at`: the pinned view that every read takes. `None`: no such table. A version or time before the first
    /// retained snapshot is an error.
    fn table_at(&self, name: &TableName, at: At) -> Result<Option<TableView>>;

    /// The table as of now (or of the snapshot the store is pinned to).
    fn table(&self, name: &TableName) -> Result<Option<TableView>> {
        self.table_at(name, At::Head)
    }

    /// The retained snapshots of a table, oldest first.
    fn snapshots(&self, name: &TableName) -> Result<Vec<Snapshot>>;

    /// Applies `changes`, which were made against `base`, and returns the view after them.
    ///
    /// If the table moved on since `base`, the changes are rebased: appended extents and new columns always can be (a column of the
    /// same name is a conflict), removals if every removed extent is still live. Lost races are retried with a pause.
    fn commit(&self, base: &TableView, changes: &Changes) -> Result<TableView>;

    /// The extents of a view, in the order they were added.
    fn extents(&self, view: &TableView) -> Result<Vec<Extent>>;

    /// The extents of a view in which some row may satisfy `predicate`, in the order they were added, and how many were ruled out by
    /// what.
    fn prune(&self, view: &TableView, predicate: &BlockPredicate, options: &PruneOptions) -> Result<Pruned>;

    /// Extents, rows and bytes of a view.
    fn totals(&self, view: &TableView) -> Result<Totals>;

    /// Calls `visit` with each extent of a view and its statistics, without holding them all in memory.
    fn visit_stats(&self, view: &TableView, visit: &mut dyn FnMut(&Extent, ExtentStats) -> Result<()>) -> Result<()>;

    /// Extents that are no longer part of the current snapshot though a retained snapshot still has them, oldest removal first.
    /// Their objects must stay until no reader can be planning with them.
    fn removed_extents(&self, name: &TableName) -> Result<Vec<RemovedExtent>>;
}
