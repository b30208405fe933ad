//! The SQLite catalog, in the layout of the original's local mode: a store it wrote opens unchanged, and it sees what is added here.
//!
//! Ids are 16-byte blobs, times RFC 3339 texts with nanoseconds, documents JSON texts. `docs/catalogs.md` says where the rules differ
//! from the original's: pruning here is sound, and a removal checks that its extents are still live.

mod connection;
mod rows;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;
use uuid::Uuid;

use self::connection::{Failure, Pool};
use super::prune::{Cascade, EvidenceKind, Needs};
use super::sql::{self, JsonSets};
use super::types::{
    At, Changes, Extent, ExtentStats, RemovedExtent, Snapshot, Summary, TableColumn, TableName, TableView, Totals,
    Which, validate_columns, validate_name,
};
use super::{Catalog, ColumnType, PruneOptions, Pruned, column_type, time};
use crate::predicate::BlockPredicate;
use crate::{Error, Result};

const SCHEMA: &str = include_str!("schema.sql");

/// A catalog in a SQLite file.
#[derive(Debug)]
pub struct SqliteCatalog {
    pool: Pool,
    storage: String,
    tenant: Uuid,
    read_only: bool,
}

type Outcome<T> = std::result::Result<T, Failure>;

impl SqliteCatalog {
    /// Opens the file, creating it and its tables unless `read_only`. `storage` is the root of the extents.
    pub fn open(path: &Path, storage: String, tenant: Uuid, read_only: bool) -> Result<Self> {
        if read_only && !path.exists() {
            return Err(Error::InvalidInput(format!(
                "{} does not exist, and READ_ONLY does not create it",
                path.display()
            )));
        }
        let catalog = Self { pool: Pool::new(path, read_only), storage, tenant, read_only };
        if read_only {
            let tables: i64 = catalog.pool.transaction(false, |t| {
                let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('extents', 'snapshots', 'tables')";
                Ok(t.query_row(sql, [], |row| row.get(0))?)
            })?;
            if tables < 3 {
                return Err(Error::unsupported(
                    &catalog.pool.display,
                    "is not a pensieve catalog: it has no tables \"tables\", \"snapshots\" and \"extents\"",
                ));
            }
        } else {
            catalog.pool.transaction(true, |t| Ok(t.execute_batch(SCHEMA)?))?;
        }
        Ok(catalog)
    }

    fn writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::InvalidInput(format!("{} is attached READ_ONLY", self.pool.display)));
        }
        Ok(())
    }

    fn database_id(&self, t: &Transaction<'_>, name: &str) -> Outcome<Option<Vec<u8>>> {
        let sql = "SELECT id FROM databases WHERE tenant_id = ?1 AND name = ?2";
        Ok(t.prepare_cached(sql)?.query_row(params![self.tenant.as_bytes(), name], |r| r.get(0)).optional()?)
    }

    /// Id, current snapshot and schema version of a table.
    fn resolve(&self, t: &Transaction<'_>, name: &TableName) -> Outcome<Option<(Uuid, Uuid, Uuid)>> {
        let sql = "SELECT t.id, t.current_snapshot_id, t.schema_snapshot_id FROM tables t JOIN databases d ON d.id = t.database_id
                   WHERE d.tenant_id = ?1 AND t.tenant_id = ?1 AND d.name = ?2 AND t.name = ?3";
        let found = t
            .prepare_cached(sql)?
            .query_row(params![self.tenant.as_bytes(), name.database, name.table], |row| {
                Ok((rows::uuid(row, 0)?, rows::optional_uuid(row, 1)?, rows::optional_uuid(row, 2)?))
            })
            .optional()?;
        match found {
            None => Ok(None),
            Some((id, Some(snapshot), Some(schema))) => Ok(Some((id, snapshot, schema))),
            Some(_) => Err(Failure::Ours(Error::corrupt_catalog(
                &self.pool.display,
                format!("table {name}"),
                "has no current snapshot or schema",
            ))),
        }
    }

    fn schema(&self, t: &Transaction<'_>, name: &TableName, id: Uuid) -> Outcome<super::TableSchema> {
        let sql = "SELECT arrow_schema FROM schema_snapshots WHERE id = ?1";
        let text: Option<String> =
            t.prepare_cached(sql)?.query_row(params![id.as_bytes()], |row| row.get(0)).optional()?;
        let json = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
        Ok(sql::schema_from_json(&format!("table {name} of {}", self.pool.display), id, &json)?)
    }

    fn snapshot_by_id(&self, t: &Transaction<'_>, id: Uuid) -> Outcome<Option<Snapshot>> {
        let sql = format!("SELECT {} FROM snapshots WHERE id = ?1", rows::SNAPSHOT);
        Ok(t.prepare_cached(&sql)?.query_row(params![id.as_bytes()], rows::snapshot).optional()?)
    }

    fn head(&self, t: &Transaction<'_>, name: &TableName) -> Outcome<Option<TableView>> {
        let Some((table_id, snapshot_id, schema_id)) = self.resolve(t, name)? else { return Ok(None) };
        let Some(snapshot) = self.snapshot_by_id(t, snapshot_id)? else {
            return Err(Failure::Ours(Error::corrupt_catalog(
                &self.pool.display,
                format!("table {name}"),
                format!("its current snapshot {snapshot_id} is missing"),
            )));
        };
        let schema = Arc::new(self.schema(t, name, schema_id)?);
        Ok(Some(TableView { name: name.clone(), table_id, snapshot, schema }))
    }

    fn at(&self, t: &Transaction<'_>, name: &TableName, at: At) -> Outcome<Option<TableView>> {
        let Some(head) = self.head(t, name)? else { return Ok(None) };
        let found = match at {
            At::Head => return Ok(Some(head)),
            At::Version(n) => {
                let sql =
                    format!("SELECT {} FROM snapshots WHERE table_id = ?1 AND sequence_number = ?2", rows::SNAPSHOT);
                let n = i64::try_from(n).unwrap_or(i64::MAX);
                let mut statement = t.prepare_cached(&sql)?;
                statement.query_row(params![head.table_id.as_bytes(), n], rows::snapshot).optional()?
            }
            At::Timestamp(instant) => {
                self.all_snapshots(t, head.table_id)?.into_iter().rev().find(|s| s.created_at <= instant)
            }
        };
        match found {
            Some(snapshot) if snapshot.id == head.snapshot.id => Ok(Some(head)),
            Some(snapshot) => {
                let schema = self.schema(t, name, snapshot.schema_id).map_or(head.schema, Arc::new);
                Ok(Some(TableView { snapshot, schema, ..head }))
            }
            None => Err(Failure::Ours(Error::InvalidInput(format!(
                "{name} has no snapshot {}; the newest version is {}",
                match at {
                    At::Timestamp(instant) => format!("as of {}", time::to_rfc3339(instant)),
                    At::Version(n) => n.to_string(),
                    At::Head => String::new(),
                },
                head.snapshot.sequence
            )))),
        }
    }

    /// Oldest first.
    fn all_snapshots(&self, t: &Transaction<'_>, table: Uuid) -> Outcome<Vec<Snapshot>> {
        let sql = format!("SELECT {} FROM snapshots WHERE table_id = ?1 ORDER BY sequence_number", rows::SNAPSHOT);
        let mut statement = t.prepare_cached(&sql)?;
        let all = statement.query_map(params![table.as_bytes()], rows::snapshot)?.collect::<rusqlite::Result<_>>();
        Ok(all?)
    }

    /// Calls `visit` with each extent of a view, in the order they were added, and with its row for the columns after
    /// [`rows::EXTENT`]: `column_stats` is number [`rows::STATS`].
    fn each_extent(
        &self,
        view: &TableView,
        mut visit: impl FnMut(Extent, &rusqlite::Row<'_>) -> Outcome<()>,
    ) -> Result<()> {
        self.pool.transaction(false, |t| {
            let current: Option<Vec<u8>> = t
                .prepare_cached("SELECT current_snapshot_id FROM tables WHERE id = ?1")?
                .query_row(params![view.table_id.as_bytes()], |row| row.get(0))
                .optional()?
                .flatten();
            let is_current = current.as_deref() == Some(view.snapshot.id.as_bytes().as_slice());
            let commits = if is_current { None } else { Some(rows::commits(self.all_snapshots(t, view.table_id)?)) };
            let live = if is_current { "AND e.deleted_at IS NULL" } else { "" };
            let sql = format!(
                "SELECT {} FROM extents e LEFT JOIN manifests m ON m.id = e.manifest_id LEFT JOIN snapshots s ON s.id = m.snapshot_id
                 WHERE e.tenant_id = ?1 AND e.table_id = ?2 {live} ORDER BY coalesce(s.sequence_number, 0), e.rowid",
                rows::EXTENT
            );
            let mut statement = t.prepare_cached(&sql)?;
            let mut found = statement.query(params![self.tenant.as_bytes(), view.table_id.as_bytes()])?;
            while let Some(row) = found.next()? {
                let (extent, deleted_at) = rows::extent(row, &view.schema)?;
                let committed = extent.sequence <= view.snapshot.sequence;
                let live = commits.as_ref().is_none_or(|c| c.live_at(view.snapshot.sequence, deleted_at));
                if committed && live {
                    visit(extent, row)?;
                }
            }
            Ok(())
        })
    }

    fn commit_in(&self, t: &Transaction<'_>, base: &TableView, changes: &Changes) -> Outcome<TableView> {
        let conflict = |what: String| Failure::Ours(Error::Conflict { table: base.name.to_string(), what });
        let head = self.head(t, &base.name)?.filter(|head| head.table_id == base.table_id);
        let Some(mut head) = head else {
            return Err(conflict("the table was dropped since the operation was planned".to_owned()));
        };
        let tenant = self.tenant.as_bytes();
        let now = time::now_nanos().max(head.snapshot.created_at.saturating_add(1_000));
        let now_text = time::to_rfc3339(now);
        if !changes.add_columns.is_empty() {
            let columns = head.schema.with_columns(&base.name, &changes.add_columns)?;
            let id = Uuid::new_v4();
            self.insert_schema(t, head.table_id, id, &columns, &now_text)?;
            t.execute(
                "UPDATE tables SET schema_snapshot_id = ?1 WHERE id = ?2",
                params![id.as_bytes(), head.table_id.as_bytes()],
            )?;
            head.schema = Arc::new(super::TableSchema { id, columns });
        }
        if changes.append.is_empty() && changes.remove.is_empty() {
            return Ok(head);
        }

        let mut summary = changes.added();
        for removal in &changes.remove {
            let sql = "UPDATE extents SET deleted_at = ?1 WHERE id = ?2 AND table_id = ?3 AND tenant_id = ?4 AND deleted_at IS NULL
                       RETURNING row_count, byte_size";
            let parameters = params![now_text, removal.id.as_bytes(), head.table_id.as_bytes(), tenant];
            let mut statement = t.prepare_cached(sql)?;
            let removed: Option<(i64, i64)> =
                statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let Some((rows, bytes)) = removed else {
                return Err(conflict(format!(
                    "extent {} is no longer part of the table: another commit removed it; plan the operation again",
                    removal.id
                )));
            };
            summary.rows_removed = summary.rows_removed.saturating_add(u64::try_from(rows).unwrap_or(0));
            summary.bytes_removed = summary.bytes_removed.saturating_add(u64::try_from(bytes).unwrap_or(0));
        }
        let snapshot = Snapshot {
            id: Uuid::new_v4(),
            sequence: head.snapshot.sequence + 1,
            parent: Some(head.snapshot.id),
            created_at: now,
            operation: changes.operation_name().to_owned(),
            schema_id: head.schema.id,
            summary: Summary { extents_added: None, extents_removed: None, ..summary },
        };
        let time_column = head.schema.time_column();
        self.insert_snapshot(t, head.table_id, &snapshot, time_column, &now_text)?;
        self.insert_extents(t, base, &snapshot, changes, time_column, &now_text)?;
        let sql =
            "UPDATE tables SET current_snapshot_id = ?1 WHERE id = ?2 AND tenant_id = ?3 AND current_snapshot_id = ?4";
        let (new, old) = (snapshot.id.as_bytes(), head.snapshot.id.as_bytes());
        if t.execute(sql, params![new, head.table_id.as_bytes(), tenant, old])? != 1 {
            return Err(conflict("the table changed within the transaction".to_owned()));
        }
        Ok(TableView { snapshot, ..head })
    }

    fn insert_schema(
        &self,
        t: &Transaction<'_>,
        table: Uuid,
        id: Uuid,
        columns: &[TableColumn],
        now: &str,
    ) -> Outcome<()> {
        t.execute(
            "INSERT INTO schema_snapshots (id, table_id, arrow_schema, created_at, tenant_id) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![id.as_bytes(), table.as_bytes(), sql::schema_to_json(columns).to_string(), now, self.tenant.as_bytes()],
        )?;
        Ok(())
    }

    fn insert_snapshot(
        &self,
        t: &Transaction<'_>,
        table: Uuid,
        snapshot: &Snapshot,
        time_column: Option<&str>,
        now: &str,
    ) -> Outcome<()> {
        let summary = if snapshot.parent.is_none() {
            serde_json::json!({ "operation": sql::BOOTSTRAP })
        } else {
            sql::summary_to_json(&snapshot.operation, &snapshot.summary, time_column)
        };
        t.prepare_cached(
            "INSERT INTO snapshots (id, table_id, parent_id, sequence_number, schema_snapshot_id, summary, created_at, tenant_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            snapshot.id.as_bytes(),
            table.as_bytes(),
            snapshot.parent.as_ref().map(Uuid::as_bytes),
            i64::try_from(snapshot.sequence).unwrap_or(i64::MAX),
            snapshot.schema_id.as_bytes(),
            summary.to_string(),
            now,
            self.tenant.as_bytes(),
        ])?;
        Ok(())
    }

    fn insert_extents(
        &self,
        t: &Transaction<'_>,
        base: &TableView,
        snapshot: &Snapshot,
        changes: &Changes,
        time_column: Option<&str>,
        now: &str,
    ) -> Outcome<()> {
        let manifest = Uuid::new_v4();
        let tenant = self.tenant.as_bytes();
        let integer = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let count = i64::try_from(changes.append.len()).unwrap_or(i64::MAX);
        t.prepare_cached(
            "INSERT INTO manifests (id, snapshot_id, kind, extent_count, byte_size, created_at, tenant_id)
             VALUES (?1, ?2, 'data', ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            manifest.as_bytes(),
            snapshot.id.as_bytes(),
            count,
            integer(snapshot.summary.bytes_added),
            now,
            tenant
        ])?;
        let mut insert = t.prepare_cached(
            "INSERT INTO extents (id, table_id, manifest_id, schema_snapshot_id, object_path, byte_size, row_count, min_timestamp,
             max_timestamp, column_stats, present_paths, compaction_gen, created_at, tenant_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, '[]', ?11, ?12, ?13)",
        )?;
        for extent in &changes.append {
            let written = &extent.written;
            let (min, max) = extent.time_bounds(time_column).unzip();
            let stats =
                if written.column_stats.is_object() { written.column_stats.to_string() } else { "{}".to_owned() };
            insert.execute(params![
                written.extent_id.as_bytes(),
                base.table_id.as_bytes(),
                manifest.as_bytes(),
                base.schema.id.as_bytes(),
                written.object_path,
                integer(written.byte_size),
                integer(written.row_count),
                min.map(time::to_rfc3339),
                max.map(time::to_rfc3339),
                stats,
                extent.compaction_gen,
                now,
                tenant,
            ])?;
        }
        Ok(())
    }

    /// Deletes a table and everything that hangs on it, in tables of the original too.
    fn delete_table(t: &Transaction<'_>, id: Uuid) -> Outcome<()> {
        t.execute(
            "DELETE FROM manifests WHERE snapshot_id IN (SELECT id FROM snapshots WHERE table_id = ?1)",
            params![id.as_bytes()],
        )?;
        let mut with_table_id = t.prepare(
            "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'table_id'
             AND m.name IN ('extent_indexes', 'ann_tree', 'extents', 'snapshots', 'schema_snapshots', 'ingest_ledger', 'table_embed_config')",
        )?;
        let names: Vec<String> = with_table_id.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for name in names {
            t.execute(&format!("DELETE FROM {name} WHERE table_id = ?1"), params![id.as_bytes()])?;
        }
        t.execute("DELETE FROM tables WHERE id = ?1", params![id.as_bytes()])?;
        Ok(())
    }
}

impl Catalog for SqliteCatalog {
    fn address(&self) -> &str {
        &self.pool.display
    }

    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn type_names(&self) -> &'static [&'static str] {
        column_type::BASE_TYPE_NAMES
    }

    fn supports_type(&self, column_type: &ColumnType) -> bool {
        column_type.is_base()
    }

    fn extent_magic(&self) -> Option<&'static str> {
        Some("pnsv")
    }

    fn storage_root(&self) -> &str {
        &self.storage
    }

    fn new_extent_path(&self, _: &TableName, extent: Uuid, extension: &str) -> String {
        format!("pensieve-local/extents/{extent}.{extension}")
    }

    fn databases(&self) -> Result<Vec<String>> {
        self.pool.transaction(false, |t| {
            let mut statement = t.prepare_cached("SELECT name FROM databases WHERE tenant_id = ?1 ORDER BY name")?;
            let names = statement
                .query_map(params![self.tenant.as_bytes()], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>();
            Ok(names?)
        })
    }

    fn create_database(&self, name: &str) -> Result<bool> {
        self.writable()?;
        validate_name("database", name)?;
        self.pool.transaction(true, |t| {
            let sql = "INSERT OR IGNORE INTO databases (id, name, created_at, tenant_id) VALUES (?1, ?2, ?3, ?4)";
            let now = time::to_rfc3339(time::now_nanos());
            Ok(t.execute(sql, params![Uuid::new_v4().as_bytes(), name, now, self.tenant.as_bytes()])? == 1)
        })
    }

    fn drop_database(&self, name: &str, cascade: bool) -> Result<bool> {
        self.writable()?;
        self.pool.transaction(true, |t| {
            let Some(id) = self.database_id(t, name)? else { return Ok(false) };
            let mut statement = t.prepare("SELECT id FROM tables WHERE database_id = ?1")?;
            let tables: Vec<Uuid> =
                statement.query_map(params![id], |row| rows::uuid(row, 0))?.collect::<rusqlite::Result<_>>()?;
            if !cascade && !tables.is_empty() {
                return Err(Failure::Ours(Error::InvalidInput(format!(
                    "database \"{name}\" has {} tables: drop them first or use CASCADE",
                    tables.len()
                ))));
            }
            for table in tables {
                Self::delete_table(t, table)?;
            }
            t.execute("DELETE FROM databases WHERE id = ?1", params![id])?;
            Ok(true)
        })
    }

    fn tables(&self, database: &str) -> Result<Vec<String>> {
        self.pool.transaction(false, |t| {
            let mut statement = t.prepare_cached(
                "SELECT t.name FROM tables t JOIN databases d ON d.id = t.database_id
                 WHERE d.tenant_id = ?1 AND d.name = ?2 ORDER BY t.name",
            )?;
            let names = statement.query_map(params![self.tenant.as_bytes(), database], |row| row.get(0))?;
            Ok(names.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn create_table(
        &self,
        name: &TableName,
        columns: &[TableColumn],
        replaces: Option<Uuid>,
    ) -> Result<Option<TableView>> {
        self.writable()?;
        validate_name("table", &name.table)?;
        validate_columns(name, columns, self.type_names(), |t| self.supports_type(t))?;
        self.pool.transaction(true, |t| {
            let Some(database) = self.database_id(t, &name.database)? else {
                return Err(Failure::Ours(Error::InvalidInput(format!(
                    "database \"{}\" does not exist: CREATE SCHEMA first",
                    name.database
                ))));
            };
            match self.resolve(t, name)? {
                Some((id, _, _)) if replaces == Some(id) => Self::delete_table(t, id)?,
                Some(_) => return Ok(None),
                None => {}
            }
            let (table_id, schema_id) = (Uuid::new_v4(), Uuid::new_v4());
            let now = time::now_nanos();
            let now_text = time::to_rfc3339(now);
            t.execute(
                "INSERT INTO tables (id, database_id, name, config, created_at, tenant_id) VALUES (?1, ?2, ?3, '{}', ?4, ?5)",
                params![table_id.as_bytes(), database, name.table, now_text, self.tenant.as_bytes()],
            )?;
            self.insert_schema(t, table_id, schema_id, columns, &now_text)?;
            let snapshot = Snapshot {
                id: Uuid::new_v4(),
                sequence: 0,
                parent: None,
                created_at: now,
                operation: sql::BOOTSTRAP.to_owned(),
                schema_id,
                summary: Summary::default(),
            };
            self.insert_snapshot(t, table_id, &snapshot, None, &now_text)?;
            t.execute(
                "UPDATE tables SET current_snapshot_id = ?1, schema_snapshot_id = ?2 WHERE id = ?3",
                params![snapshot.id.as_bytes(), schema_id.as_bytes(), table_id.as_bytes()],
            )?;
            self.head(t, name)
        })
    }

    fn drop_table(&self, name: &TableName, which: Which<'_>) -> Result<bool> {
        self.writable()?;
        self.pool.transaction(true, |t| match self.resolve(t, name)? {
            Some((id, snapshot, schema)) if which.is(id, snapshot, schema) => Self::delete_table(t, id).map(|()| true),
            _ => Ok(false),
        })
    }

    fn table_at(&self, name: &TableName, at: At) -> Result<Option<TableView>> {
        self.pool.transaction(false, |t| self.at(t, name, at))
    }

    fn snapshots(&self, name: &TableName) -> Result<Vec<Snapshot>> {
        self.pool.transaction(false, |t| match self.resolve(t, name)? {
            Some((id, _, _)) => self.all_snapshots(t, id),
            None => Err(Failure::Ours(Error::InvalidInput(format!("table {name} does not exist")))),
        })
    }

    fn commit(&self, base: &TableView, changes: &Changes) -> Result<TableView> {
        self.writable()?;
        changes.validate(&base.name)?;
        if !changes.add_columns.is_empty() {
            validate_columns(&base.name, &changes.add_columns, self.type_names(), |t| self.supports_type(t))?;
        }
        if changes.is_empty() {
            return Ok(base.clone());
        }
        self.pool.transaction(true, |t| self.commit_in(t, base, changes))
    }

    fn extents(&self, view: &TableView) -> Result<Vec<Extent>> {
        let mut all = Vec::new();
        self.each_extent(view, |extent, _| {
            all.push(extent);
            Ok(())
        })?;
        Ok(all)
    }

    fn prune(&self, view: &TableView, predicate: &BlockPredicate, options: &PruneOptions) -> Result<Pruned> {
        let needs = Needs::of(predicate);
        let cascade = Cascade { predicate, needs: &needs, options };
        let mut pruned = Pruned::default();
        self.each_extent(view, |extent, row| {
            pruned.counts.extents_considered += 1;
            // The text of the statistics is only fetched for extents that the bounds leave.
            let ruled_out = if !cascade.keeps_time(extent.row_count, extent.time.facts()) {
                Some(EvidenceKind::Time)
            } else if needs.is_empty() {
                None
            } else {
                let text = row.get_ref(rows::STATS)?.as_str_or_null().unwrap_or(None).unwrap_or("");
                cascade.ruled_out_by(extent.row_count, extent.time.facts(), &JsonSets::parse(text, &needs))
            };
            match ruled_out {
                Some(kind) => pruned.counts.skip(kind, 1),
                None => pruned.extents.push(extent),
            }
            Ok(())
        })?;
        Ok(pruned)
    }

    fn totals(&self, view: &TableView) -> Result<Totals> {
        let mut totals = Totals::default();
        self.each_extent(view, |extent, _| {
            totals.extents += 1;
            totals.rows = totals.rows.saturating_add(extent.row_count);
            totals.bytes = totals.bytes.saturating_add(extent.byte_size);
            Ok(())
        })?;
        Ok(totals)
    }

    fn visit_stats(&self, view: &TableView, visit: &mut dyn FnMut(&Extent, ExtentStats) -> Result<()>) -> Result<()> {
        self.each_extent(view, |extent, row| {
            let text = row.get_ref(rows::STATS)?.as_str_or_null().unwrap_or(None).unwrap_or("null");
            let column_stats = serde_json::from_str(text).unwrap_or(Value::Null);
            visit(&extent, ExtentStats { column_stats, present_paths: None })?;
            Ok(())
        })
    }

    fn removed_extents(&self, name: &TableName) -> Result<Vec<RemovedExtent>> {
        self.pool.transaction(false, |t| {
            let Some((id, _, schema)) = self.resolve(t, name)? else {
                return Err(Failure::Ours(Error::InvalidInput(format!("table {name} does not exist"))));
            };
            let schema = self.schema(t, name, schema)?;
            let sql = format!(
                "SELECT {} FROM extents e LEFT JOIN manifests m ON m.id = e.manifest_id LEFT JOIN snapshots s ON s.id = m.snapshot_id
                 WHERE e.tenant_id = ?1 AND e.table_id = ?2 AND e.deleted_at IS NOT NULL ORDER BY e.deleted_at",
                rows::EXTENT
            );
            let mut statement = t.prepare_cached(&sql)?;
            let parameters = params![self.tenant.as_bytes(), id.as_bytes()];
            let found = statement.query_map(parameters, |row| rows::extent(row, &schema))?;
            let mut removed = Vec::new();
            for row in found {
                let (extent, deleted_at) = row?;
                removed.push(RemovedExtent {
                    id: extent.id,
                    object_path: extent.object_path,
                    byte_size: extent.byte_size,
                    row_count: extent.row_count,
                    removed_at: deleted_at.unwrap_or(0),
                });
            }
            Ok(removed)
        })
    }
}
