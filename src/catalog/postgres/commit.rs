//! Commits: one short transaction each, in the original's order of steps and locks, so that both can write to the same table.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use deadpool_postgres::Transaction;
use serde_json::{Map, Value};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::{PostgresCatalog, instant};
use crate::catalog::sql;
use crate::catalog::time;
use crate::catalog::types::{Changes, Snapshot, Summary, TableColumn, TableSchema, TableView};
use crate::{Error, Result};

/// How one attempt ended without an answer.
pub(super) enum Failed {
    /// Somebody else was first; try again.
    Lost,
    /// COMMIT was sent and the connection broke: the state of this view may be there.
    Unknown(Box<TableView>, Error),
    Error(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl PostgresCatalog {
    /// One attempt.
    pub(super) async fn attempt(&self, base: &TableView, changes: &Changes) -> std::result::Result<TableView, Failed> {
        let mut client = self.server.client().await?;
        let transaction = client.transaction().await.map_err(|e| self.judge("begin", e))?;
        let view = self.steps(&transaction, base, changes).await?;
        match transaction.commit().await {
            Ok(()) => Ok(view),
            Err(error) if error.as_db_error().is_none() => {
                Err(Failed::Unknown(Box::new(view), self.server.failed("commit", error)))
            }
            Err(error) => Err(self.judge("commit", error)),
        }
    }

    /// Whether the commit that leads to `view` took place. Waits for it if it is still under way.
    pub(super) async fn is_committed(&self, view: &TableView) -> Result<bool> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, false).await?;
        let lock = "SELECT 1 FROM tables WHERE id = $1 FOR SHARE";
        t.query_opt(lock, &[&view.table_id]).await.map_err(|e| self.server.failed("lock", e))?;
        let sql = "SELECT EXISTS (SELECT FROM snapshots WHERE id = $1) AND EXISTS (SELECT FROM schema_snapshots WHERE id = $2)";
        let row = t.query_one(sql, &[&view.snapshot.id, &view.schema.id]).await;
        Ok(row.map_err(|e| self.server.failed("read", e))?.get(0))
    }

    /// Collisions with another writer are lost races, everything else is an error.
    fn judge(&self, operation: &str, error: tokio_postgres::Error) -> Failed {
        let collided = error.code().is_some_and(|code| {
            *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        });
        let sequence_taken = error
            .as_db_error()
            .is_some_and(|db| *db.code() == SqlState::UNIQUE_VIOLATION && db.table() == Some("snapshots"));
        if collided || sequence_taken { Failed::Lost } else { Failed::Error(self.server.failed(operation, error)) }
    }

    async fn steps(
        &self,
        t: &Transaction<'_>,
        base: &TableView,
        changes: &Changes,
    ) -> std::result::Result<TableView, Failed> {
        let conflict = |what: String| Failed::Error(Error::Conflict { table: base.name.to_string(), what });
        let gone = || conflict("the table was dropped since the operation was planned".to_owned());
        // The parent snapshot's row is what the original locks; the table's row follows.
        let read = "SELECT current_snapshot_id, schema_snapshot_id FROM tables WHERE id = $1 AND tenant_id = $2";
        let lock = format!("{read} FOR NO KEY UPDATE");
        let mut parent: Option<Uuid> = None;
        let (parent, schema_id) = loop {
            let wait = "SELECT 1 FROM snapshots WHERE id = $1 FOR UPDATE";
            if let Some(parent) = parent {
                t.query_opt(wait, &[&parent]).await.map_err(|e| self.judge("lock", e))?;
            }
            let statement = if parent.is_some() { lock.as_str() } else { read };
            let row =
                t.query_opt(statement, &[&base.table_id, &self.tenant]).await.map_err(|e| self.judge("lock", e))?;
            let row = row.ok_or_else(gone)?;
            let current: Option<Uuid> = row.get(0);
            let schema: Option<Uuid> = row.get(1);
            let (Some(current), Some(schema)) = (current, schema) else {
                let what = "has no current snapshot or schema";
                return Err(Error::corrupt_catalog(&self.server.display, format!("table {}", base.name), what).into());
            };
            if parent == Some(current) {
                break (current, schema);
            }
            // With the table's row locked the parent cannot change any more, so this ends after one more round at most.
            parent = Some(current);
        };
        let parent = self.snapshot_by_id(t, parent).await?.ok_or_else(gone)?;
        let mut schema = self.schema(t, &base.name, schema_id).await?;
        let now = time::now_nanos().max(parent.created_at.saturating_add(1_000));
        let now_stored = instant::stored(now);
        if !changes.add_columns.is_empty() {
            let columns = schema.with_columns(&base.name, &changes.add_columns)?;
            schema = TableSchema { id: Uuid::new_v4(), columns };
            self.insert_schema(t, base.table_id, &schema, now_stored).await?;
            let update = "UPDATE tables SET schema_snapshot_id = $1 WHERE id = $2 AND schema_snapshot_id = $3";
            let updated = t.execute(update, &[&schema.id, &base.table_id, &schema_id]).await;
            if updated.map_err(|e| self.judge("update", e))? != 1 {
                return Err(Failed::Lost);
            }
        }
        let view = |snapshot| TableView {
            name: base.name.clone(),
            table_id: base.table_id,
            snapshot,
            schema: Arc::new(schema.clone()),
        };
        if changes.append.is_empty() && changes.remove.is_empty() {
            return Ok(view(parent));
        }
        let (rows_removed, bytes_removed) = self.remove(t, base, changes, now_stored).await?;
        let summary =
            Summary { rows_removed, bytes_removed, extents_added: None, extents_removed: None, ..changes.added() };
        let snapshot = Snapshot {
            id: Uuid::new_v4(),
            sequence: parent.sequence + 1,
            parent: Some(parent.id),
            created_at: instant::nanos(now_stored).unwrap_or(now),
            operation: changes.operation_name().to_owned(),
            schema_id: schema.id,
            summary,
        };
        let time_column = schema.time_column();
        self.insert_snapshot(t, base.table_id, &snapshot, time_column, now_stored).await?;
        self.insert_extents(t, base, &snapshot, changes, time_column, now_stored).await?;
        let swap =
            "UPDATE tables SET current_snapshot_id = $1 WHERE tenant_id = $2 AND id = $3 AND current_snapshot_id = $4";
        let swapped = t.execute(swap, &[&snapshot.id, &self.tenant, &base.table_id, &parent.id]).await;
        if swapped.map_err(|e| self.judge("update", e))? != 1 {
            return Err(Failed::Lost);
        }
        Ok(view(snapshot))
    }

    /// Marks extents as deleted. All of them must still be live, which the original does not check.
    async fn remove(
        &self,
        t: &Transaction<'_>,
        base: &TableView,
        changes: &Changes,
        now: SystemTime,
    ) -> std::result::Result<(u64, u64), Failed> {
        let ids: Vec<Uuid> = changes.remove.iter().map(|r| r.id).collect();
        if ids.is_empty() {
            return Ok((0, 0));
        }
        let update = "UPDATE extents SET deleted_at = $1 WHERE tenant_id = $2 AND table_id = $3 AND id = ANY($4) AND deleted_at IS NULL
                      RETURNING id, row_count, byte_size";
        let removed = t.query(update, &[&now, &self.tenant, &base.table_id, &ids]).await;
        let removed = removed.map_err(|e| self.judge("update", e))?;
        let found: HashSet<Uuid> = removed.iter().map(|row| row.get(0)).collect();
        if let Some(missing) = ids.iter().find(|id| !found.contains(id)) {
            return Err(Failed::Error(Error::Conflict {
                table: base.name.to_string(),
                what: format!(
                    "extent {missing} is no longer part of the table: another commit removed it; plan the operation again"
                ),
            }));
        }
        let sum = |column: usize| {
            removed.iter().fold(0_u64, |n, row| n.saturating_add(u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)))
        };
        Ok((sum(1), sum(2)))
    }

    pub(super) async fn insert_schema(
        &self,
        t: &Transaction<'_>,
        table: Uuid,
        schema: &TableSchema,
        now: SystemTime,
    ) -> std::result::Result<(), Failed> {
        let insert = "INSERT INTO schema_snapshots (id, table_id, arrow_schema, created_at, tenant_id) VALUES ($1, $2, $3, $4, $5)";
        let json = sql::schema_to_json(&schema.columns);
        let done = t.execute(insert, &[&schema.id, &table, &json, &now, &self.tenant]).await;
        done.map(drop).map_err(|e| self.judge("insert", e))
    }

    pub(super) async fn insert_snapshot(
        &self,
        t: &Transaction<'_>,
        table: Uuid,
        snapshot: &Snapshot,
        time_column: Option<&str>,
        now: SystemTime,
    ) -> std::result::Result<(), Failed> {
        let summary = match snapshot.parent {
            None => serde_json::json!({ "operation": sql::BOOTSTRAP }),
            Some(_) => sql::summary_to_json(&snapshot.operation, &snapshot.summary, time_column),
        };
        let sequence = i64::try_from(snapshot.sequence).unwrap_or(i64::MAX);
        let insert = "INSERT INTO snapshots (id, table_id, parent_id, sequence_number, schema_snapshot_id, summary, created_at, tenant_id)
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let done = t
            .execute(
                insert,
                &[&snapshot.id, &table, &snapshot.parent, &sequence, &snapshot.schema_id, &summary, &now, &self.tenant],
            )
            .await;
        done.map(drop).map_err(|e| self.judge("insert", e))
    }

    async fn insert_extents(
        &self,
        t: &Transaction<'_>,
        base: &TableView,
        snapshot: &Snapshot,
        changes: &Changes,
        time_column: Option<&str>,
        now: SystemTime,
    ) -> std::result::Result<(), Failed> {
        let integer = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let manifest = Uuid::new_v4();
        let count = i32::try_from(changes.append.len()).unwrap_or(i32::MAX);
        let bytes = integer(snapshot.summary.bytes_added);
        let insert = "INSERT INTO manifests (id, snapshot_id, kind, extent_count, byte_size, created_at, tenant_id)
                      VALUES ($1, $2, 'data', $3, $4, $5, $6)";
        let done = t.execute(insert, &[&manifest, &snapshot.id, &count, &bytes, &now, &self.tenant]).await;
        done.map_err(|e| self.judge("insert", e))?;
        let insert = t
            .prepare_cached(
                "INSERT INTO extents (id, table_id, manifest_id, schema_snapshot_id, object_path, byte_size, row_count, min_timestamp,
                 max_timestamp, column_stats, present_paths, compaction_gen, created_at, tenant_id)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, '{}', $11, $12, $13)",
            )
            .await
            .map_err(|e| self.judge("prepare", e))?;
        for extent in &changes.append {
            let written = &extent.written;
            let (min, max) = extent.time_bounds(time_column).unzip();
            let (min, max) = (min.map(instant::stored), max.map(instant::stored_max));
            let stats = storable_stats(&written.column_stats);
            let generation = i32::try_from(extent.compaction_gen).unwrap_or(i32::MAX);
            let (size, rows) = (integer(written.byte_size), integer(written.row_count));
            let done = t
                .execute(
                    &insert,
                    &[
                        &written.extent_id,
                        &base.table_id,
                        &manifest,
                        &base.schema.id,
                        &written.object_path,
                        &size,
                        &rows,
                        &min,
                        &max,
                        &stats,
                        &generation,
                        &now,
                        &self.tenant,
                    ],
                )
                .await;
            done.map_err(|e| self.judge("insert", e))?;
        }
        Ok(())
    }

    /// The first snapshot of a new table, whose id is the answer.
    pub(super) async fn bootstrap(
        &self,
        t: &Transaction<'_>,
        database: Uuid,
        name: &str,
        columns: &[TableColumn],
    ) -> std::result::Result<Uuid, Failed> {
        let table = Uuid::new_v4();
        let now = instant::stored(time::now_nanos());
        let insert = "INSERT INTO tables (id, database_id, name, config, created_at, tenant_id) VALUES ($1, $2, $3, '{}', $4, $5)";
        let done = t.execute(insert, &[&table, &database, &name, &now, &self.tenant]).await;
        done.map_err(|e| self.judge("insert", e))?;
        let schema = TableSchema { id: Uuid::new_v4(), columns: columns.to_vec() };
        self.insert_schema(t, table, &schema, now).await?;
        let snapshot = Snapshot {
            id: Uuid::new_v4(),
            sequence: 0,
            parent: None,
            created_at: 0,
            operation: sql::BOOTSTRAP.to_owned(),
            schema_id: schema.id,
            summary: Summary::default(),
        };
        self.insert_snapshot(t, table, &snapshot, None, now).await?;
        let point = "UPDATE tables SET current_snapshot_id = $1, schema_snapshot_id = $2 WHERE id = $3";
        let done = t.execute(point, &[&snapshot.id, &schema.id, &table]).await;
        done.map(|_| table).map_err(|e| self.judge("update", e))
    }
}

/// Statistics as jsonb takes them: a set with a NUL in it becomes unknown.
fn storable_stats(stats: &Value) -> Value {
    let Some(columns) = stats.as_object() else { return Value::Object(Map::new()) };
    let nul = |value: &Value| value.to_string().contains("\\u0000");
    let mut kept = Map::new();
    for (column, entry) in columns {
        if column.contains('\0') {
            continue;
        }
        let Some(entry) = entry.as_object() else { continue };
        let entry = entry
            .iter()
            .filter(|(key, _)| !key.contains('\0'))
            .map(|(key, value)| (key.clone(), if nul(value) { Value::Null } else { value.clone() }));
        kept.insert(column.clone(), Value::Object(entry.collect()));
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_with_nul_become_unknown() {
        let stats = json!({"a": {"distinct": ["x\0y"], "tokens": ["xy"]}, "b\0": {"distinct": [1]}, "c": {"distinct": [1], "tokens": null}});
        assert_eq!(
            storable_stats(&stats),
            json!({"a": {"distinct": null, "tokens": ["xy"]}, "c": {"distinct": [1], "tokens": null}})
        );
        assert_eq!(storable_stats(&Value::Null), json!({}));
        // A backslash before u0000 in the text itself is kept out too, which only costs pruning.
        assert_eq!(storable_stats(&json!({"a": {"distinct": ["\\u0000"]}})), json!({"a": {"distinct": null}}));
    }
}
