//! A transaction over a catalog: one pinned view per table, changes gathered until COMMIT, one snapshot per changed table.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::types::{
    Changes, Snapshot, Summary, TableColumn, TableName, TableSchema, TableView, Which, validate_columns, validate_name,
};
use super::{At, Catalog, time};
use crate::{Error, Result};

/// Gathers changes to tables of one catalog, their creation and removal included. Dropping it forgets them (ROLLBACK); objects already
/// written become orphans.
///
/// Tables are committed one after the other in order of their names; a conflict on one leaves those before it committed, and
/// [`Transaction::commit`] says which.
#[derive(Debug)]
pub struct Transaction {
    catalog: Arc<dyn Catalog>,
    tables: BTreeMap<TableName, Table>,
}

/// What the transaction saw of a name and did to it.
#[derive(Debug, Default)]
struct Table {
    /// The table of the catalog.
    base: Option<TableView>,
    /// The catalog's table goes at COMMIT.
    dropped: bool,
    /// The table that comes at COMMIT.
    created: Option<Created>,
    pending: Changes,
}

#[derive(Debug)]
struct Created {
    /// Without extents and with identities that the catalog does not know.
    view: TableView,
    /// A table that somebody else creates meanwhile will do, if it has these columns.
    if_not_exists: bool,
}

/// A table as a transaction sees it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The catalog's view, or for a table that the transaction itself creates one without extents.
    pub view: &'a TableView,
    /// Whether the catalog knows the view.
    pub committed: bool,
    /// The changes that this transaction's own reads add to it.
    pub pending: &'a Changes,
}

impl Table {
    fn seen(&self) -> Option<Seen<'_>> {
        let pending = &self.pending;
        match (&self.created, &self.base) {
            (Some(created), _) => Some(Seen { view: &created.view, committed: false, pending }),
            (None, Some(view)) if !self.dropped => Some(Seen { view, committed: true, pending }),
            _ => None,
        }
    }
}

impl Transaction {
    /// An empty transaction.
    pub fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog, tables: BTreeMap::new() }
    }

    /// A table in this transaction: its state when it was first asked for, and what was done to it here. `None`: no such table.
    pub fn table(&mut self, name: &TableName) -> Result<Option<Seen<'_>>> {
        if !self.tables.contains_key(name) {
            let Some(view) = self.catalog.table_at(name, At::Head)? else { return Ok(None) };
            self.tables.insert(name.clone(), Table { base: Some(view), ..Table::default() });
        }
        Ok(self.tables.get(name).and_then(Table::seen))
    }

    /// Names of the tables of a database, sorted.
    pub fn names(&self, database: &str) -> Result<Vec<String>> {
        let mut names = self.catalog.tables(database)?;
        for (name, table) in self.of_database(database) {
            match table.seen() {
                None => names.retain(|other| *other != name.table),
                Some(_) if !names.contains(&name.table) => names.push(name.table.clone()),
                Some(_) => {}
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn of_database(&self, database: &str) -> impl Iterator<Item = (&TableName, &Table)> {
        self.tables.iter().filter(move |(name, _)| name.database == database)
    }

    /// Creates a table at COMMIT. With `if_not_exists` one of the same columns that somebody else creates first is as good. `false`: there
    /// is one.
    pub fn create(&mut self, name: &TableName, columns: &[TableColumn], if_not_exists: bool) -> Result<bool> {
        if self.table(name)?.is_some() {
            return Ok(false);
        }
        validate_name("table", &name.table)?;
        validate_columns(name, columns, self.catalog.type_names(), |t| self.catalog.supports_type(t))?;
        let schema = TableSchema { id: Uuid::new_v4(), columns: columns.to_vec() };
        let snapshot = Snapshot {
            id: Uuid::new_v4(),
            sequence: 0,
            parent: None,
            created_at: time::now_nanos(),
            operation: "create".to_owned(),
            schema_id: schema.id,
            summary: Summary::default(),
        };
        let view = TableView { name: name.clone(), table_id: Uuid::new_v4(), snapshot, schema: Arc::new(schema) };
        self.tables.entry(name.clone()).or_default().created = Some(Created { view, if_not_exists });
        Ok(true)
    }

    /// Drops a table at COMMIT. Objects written for it become orphans. `false`: there is none.
    pub fn drop_table(&mut self, name: &TableName) -> Result<bool> {
        if self.table(name)?.is_none() {
            return Ok(false);
        }
        if let Some(table) = self.tables.get_mut(name) {
            table.pending = Changes::default();
            if table.created.take().is_none() {
                table.dropped = true;
            }
        }
        Ok(true)
    }

    /// Drops a database now, with what this transaction knows of its tables. `false`: there is none.
    pub fn drop_database(&mut self, database: &str, cascade: bool) -> Result<bool> {
        let created = self.of_database(database).filter(|(_, table)| table.created.is_some()).count();
        if created > 0 && !cascade {
            return Err(Error::InvalidInput(format!(
                "database \"{database}\" has {created} tables that this transaction creates: drop them first or use CASCADE"
            )));
        }
        // Dropping a database cannot be undone, and must not find the tables that this transaction dropped.
        for (name, table) in self.of_database(database).filter(|(_, table)| table.dropped) {
            if let Some(base) = &table.base {
                self.catalog.drop_table(name, Which::Table(base.table_id))?;
            }
        }
        self.tables.retain(|name, _| name.database != database);
        self.catalog.drop_database(database, cascade)
    }

    /// Adds changes to a table that this transaction sees.
    ///
    /// Removing an extent that the transaction itself appended takes it out of the pending changes; its object becomes an orphan.
    pub fn change(&mut self, name: &TableName, changes: Changes) -> Result<()> {
        let missing = || Error::InvalidInput(format!("table {name} does not exist"));
        self.table(name)?.ok_or_else(missing)?;
        let table = self.tables.get_mut(name).ok_or_else(missing)?;
        let Table { pending, created, .. } = table;
        if !changes.operation.is_empty() {
            pending.operation = changes.operation;
        }
        for removal in changes.remove {
            let before = pending.append.len();
            pending.append.retain(|e| e.written.extent_id != removal.id);
            if pending.append.len() == before {
                pending.remove.push(removal);
            }
        }
        pending.append.extend(changes.append);
        match created {
            Some(Created { view, .. }) => {
                let columns = view.schema.with_columns(name, &changes.add_columns)?;
                view.schema = Arc::new(TableSchema { id: view.schema.id, columns });
            }
            None => pending.add_columns.extend(changes.add_columns),
        }
        Ok(())
    }

    /// Commits every changed table. The views returned are those after the commit.
    pub fn commit(mut self) -> Result<Vec<TableView>> {
        let mut committed: Vec<TableView> = Vec::new();
        let mut done: Vec<TableName> = Vec::new();
        for (name, table) in std::mem::take(&mut self.tables) {
            match self.commit_table(&name, table) {
                Ok(Committed::Nothing) => continue,
                Ok(Committed::Dropped) => {}
                Ok(Committed::View(view)) => committed.push(*view),
                Err(error) if done.is_empty() => return Err(error),
                Err(error) => {
                    let done: Vec<String> = done.iter().map(ToString::to_string).collect();
                    return Err(Error::Conflict {
                        table: name.to_string(),
                        what: format!(
                            "the transaction is committed in part: {} done, {name} not ({error})",
                            done.join(", ")
                        ),
                    });
                }
            }
            done.push(name);
        }
        Ok(committed)
    }

    fn commit_table(&self, name: &TableName, table: Table) -> Result<Committed> {
        let Table { base, dropped, created, pending } = table;
        let view = |view| Committed::View(Box::new(view));
        match (created, base) {
            (None, Some(base)) if dropped => {
                // A table of that name that somebody else made since is not the one that was dropped.
                self.catalog.drop_table(name, Which::Table(base.table_id))?;
                Ok(Committed::Dropped)
            }
            (None, Some(base)) if !pending.is_empty() => self.catalog.commit(&base, &pending).map(view),
            (None, _) => Ok(Committed::Nothing),
            (Some(created), base) => {
                let replaces = base.filter(|_| dropped).map(|base| base.table_id);
                let columns = &created.view.schema.columns;
                match self.catalog.create_table(name, columns, replaces)? {
                    Some(new) => self.fill(new, &pending).map(view),
                    None if created.if_not_exists => {
                        let found = self.catalog.table_at(name, At::Head)?;
                        let found = found.filter(|f| columns.iter().all(|column| f.schema.columns.contains(column)));
                        match found {
                            Some(found) => self.catalog.commit(&found, &pending).map(view),
                            None => Err(exists(name)),
                        }
                    }
                    None => Err(exists(name)),
                }
            }
        }
    }

    /// The first rows of a table that was created just now. Without them the table goes again, unless somebody has used it meanwhile or
    /// they have arrived after all.
    fn fill(&self, new: TableView, pending: &Changes) -> Result<TableView> {
        if pending.is_empty() {
            return Ok(new);
        }
        self.catalog.commit(&new, pending).inspect_err(|_| {
            let _ = self.catalog.drop_table(&new.name, Which::Unchanged(&new));
        })
    }
}

enum Committed {
    Nothing,
    Dropped,
    View(Box<TableView>),
}

fn exists(name: &TableName) -> Error {
    Error::Conflict {
        table: name.to_string(),
        what: "somebody else has created a table of that name since: run the statement again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::{columns, ids, memory, plain};
    use crate::catalog::types::{Extent, ExtentStats, RemovedExtent, Totals};
    use crate::catalog::{ColumnType, PruneOptions, Pruned};
    use crate::predicate::BlockPredicate;

    /// A catalog whose connection breaks at every commit, after or before it took place.
    #[derive(Debug)]
    struct Breaks {
        inner: Arc<dyn Catalog>,
        after: bool,
    }

    impl Catalog for Breaks {
        fn address(&self) -> &str {
            self.inner.address()
        }
        fn kind(&self) -> &'static str {
            self.inner.kind()
        }
        fn read_only(&self) -> bool {
            false
        }
        fn type_names(&self) -> &'static [&'static str] {
            self.inner.type_names()
        }
        fn supports_type(&self, column_type: &ColumnType) -> bool {
            self.inner.supports_type(column_type)
        }
        fn storage_root(&self) -> &str {
            self.inner.storage_root()
        }
        fn new_extent_path(&self, table: &TableName, extent: Uuid, extension: &str) -> String {
            self.inner.new_extent_path(table, extent, extension)
        }
        fn databases(&self) -> Result<Vec<String>> {
            self.inner.databases()
        }
        fn create_database(&self, name: &str) -> Result<bool> {
            self.inner.create_database(name)
        }
        fn drop_database(&self, name: &str, cascade: bool) -> Result<bool> {
            self.inner.drop_database(name, cascade)
        }
        fn tables(&self, database: &str) -> Result<Vec<String>> {
            self.inner.tables(database)
        }
        fn create_table(
            &self,
            name: &TableName,
            columns: &[TableColumn],
            replaces: Option<Uuid>,
        ) -> Result<Option<TableView>> {
            self.inner.create_table(name, columns, replaces)
        }
        fn drop_table(&self, name: &TableName, which: Which<'_>) -> Result<bool> {
            self.inner.drop_table(name, which)
        }
        fn table_at(&self, name: &TableName, at: At) -> Result<Option<TableView>> {
            self.inner.table_at(name, at)
        }
        fn snapshots(&self, name: &TableName) -> Result<Vec<Snapshot>> {
            self.inner.snapshots(name)
        }
        fn commit(&self, base: &TableView, changes: &Changes) -> Result<TableView> {
            if self.after {
                self.inner.commit(base, changes)?;
            }
            Err(Error::io("the store", "commit to", std::io::Error::other("connection reset")))
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
        fn visit_stats(
            &self,
            view: &TableView,
            visit: &mut dyn FnMut(&Extent, ExtentStats) -> Result<()>,
        ) -> Result<()> {
            self.inner.visit_stats(view, visit)
        }
        fn removed_extents(&self, name: &TableName) -> Result<Vec<RemovedExtent>> {
            self.inner.removed_extents(name)
        }
    }

    #[test]
    fn what_was_committed_after_all_is_not_undone() {
        for after in [true, false] {
            let inner = memory();
            inner.create_database("otel").unwrap();
            let name = TableName::new("otel", "fresh");
            let mut transaction = Transaction::new(Arc::new(Breaks { inner: Arc::clone(&inner), after }));
            transaction.create(&name, &columns(), false).unwrap();
            transaction.change(&name, Changes::append(vec![plain(1)])).unwrap();
            assert!(transaction.commit().is_err());
            let rows = inner.table(&name).unwrap().map(|view| ids(&*inner, &view).len());
            assert_eq!(rows, after.then_some(1), "committed: {after}");
        }
    }
}
