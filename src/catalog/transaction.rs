//! A transaction over a catalog: one pinned view per table, changes gathered until COMMIT, one snapshot per changed table.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::types::{Changes, TableName, TableView};
use super::{At, Catalog};
use crate::Result;

/// Gathers changes to tables of one catalog. Dropping it forgets them (ROLLBACK); objects already written become orphans.
///
/// Tables are committed one after the other in order of their names; a conflict on one leaves those before it committed, and
/// [`Transaction::commit`] says which.
#[derive(Debug)]
pub struct Transaction {
    catalog: Arc<dyn Catalog>,
    views: BTreeMap<TableName, TableView>,
    pending: BTreeMap<TableName, Changes>,
}

impl Transaction {
    /// An empty transaction.
    pub fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog, views: BTreeMap::new(), pending: BTreeMap::new() }
    }

    /// The view of a table in this transaction: the state when it was first asked for. `None`: no such table.
    pub fn view(&mut self, name: &TableName) -> Result<Option<&TableView>> {
        if !self.views.contains_key(name) {
            match self.catalog.table_at(name, At::Head)? {
                Some(view) => self.views.insert(name.clone(), view),
                None => return Ok(None),
            };
        }
        Ok(self.views.get(name))
    }

    /// Uses `view` for its table from now on, for instance after creating it. Replaces an earlier view and drops its pending changes.
    pub fn pin(&mut self, view: TableView) {
        self.pending.remove(&view.name);
        self.views.insert(view.name.clone(), view);
    }

    /// Forgets a table, for instance after dropping it.
    pub fn forget(&mut self, name: &TableName) {
        self.pending.remove(name);
        self.views.remove(name);
    }

    /// The uncommitted changes of a table, which this transaction's own reads add to the view.
    pub fn pending(&self, name: &TableName) -> Option<&Changes> {
        self.pending.get(name)
    }

    /// Adds changes to a table that this transaction has a view of.
    ///
    /// Removing an extent that the transaction itself appended takes it out of the pending changes; its object becomes an orphan.
    pub fn change(&mut self, name: &TableName, changes: Changes) -> Result<()> {
        if self.view(name)?.is_none() {
            return Err(crate::Error::InvalidInput(format!("table {name} does not exist")));
        }
        let pending = self.pending.entry(name.clone()).or_default();
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
        pending.add_columns.extend(changes.add_columns);
        Ok(())
    }

    /// Commits every changed table. The views returned are those after the commit.
    pub fn commit(mut self) -> Result<Vec<TableView>> {
        let mut committed: Vec<TableView> = Vec::new();
        for (name, changes) in std::mem::take(&mut self.pending) {
            let Some(view) = self.views.get(&name) else { continue };
            if changes.is_empty() {
                continue;
            }
            match self.catalog.commit(view, &changes) {
                Ok(view) => committed.push(view),
                Err(error) if committed.is_empty() => return Err(error),
                Err(error) => {
                    let done: Vec<String> = committed.iter().map(|v| v.name.to_string()).collect();
                    return Err(crate::Error::Conflict {
                        table: name.to_string(),
                        what: format!(
                            "the transaction is committed in part: {} done, {name} not ({error})",
                            done.join(", ")
                        ),
                    });
                }
            }
        }
        Ok(committed)
    }
}
