//! The PostgreSQL catalog, in the layout of the original's server: a store it wrote opens unchanged, and it sees what is added here.
//!
//! Stage 1 runs as SQL over the stored bounds and sets (`rewrite`), then once more in process over the survivors. `docs/catalogs.md`
//! says where the rules differ from the original's.

mod commit;
mod connect;
mod instant;
mod rewrite;
mod rows;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use deadpool_postgres::{Client, GenericClient, Transaction};
use serde_json::Value;
use uuid::Uuid;

use self::commit::Failed;
use self::connect::Server;
use self::rewrite::{Parameter, TimeSource, condition, mention};
use super::prune::{Cascade, EvidenceKind, Needs, PruneCounts};
use super::retry::{MAX_ATTEMPTS, pause};
use super::runtime::block_on;
use super::sql::{self, JsonSets};
use super::types::{
    At, Changes, Extent, ExtentStats, RemovedExtent, Snapshot, TableColumn, TableName, TableSchema, TableView, Totals,
    Which, validate_columns, validate_name,
};
use super::{Catalog, ColumnType, PruneOptions, Pruned, column_type, time};
use crate::predicate::BlockPredicate;
use crate::{Error, Result};

const SCHEMA: &str = include_str!("schema.sql");
/// Number under which concurrent creations of the schema take turns.
const SCHEMA_LOCK: i64 = 0x70656e73;
/// Number of the first parameter of a condition: the tenant and the table come before.
const FIRST_PARAMETER: usize = 3;
/// How often a server that broke the connection at COMMIT is asked what became of it.
const SETTLE_ATTEMPTS: u32 = 8;
/// Extents whose statistics are fetched at once.
const CHUNK: usize = 500;

/// The connection broke at COMMIT and the server does not come back to be asked.
fn unknown_outcome(table: &TableName, error: &Error) -> Error {
    Error::Conflict {
        table: table.to_string(),
        what: format!(
            "whether the commit took place is not known, because the server went away with it ({error}): see pensieve_snapshots \
             when it is back, and repeat the statement only if its snapshot is not there"
        ),
    }
}

/// A catalog in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresCatalog {
    server: Server,
    storage: String,
    prefix: String,
    tenant: Uuid,
    read_only: bool,
}

impl PostgresCatalog {
    /// Connects. In a database that has none of the layout its tables are created, unless `read_only`. `storage` is the root of the
    /// extents, `prefix` what their keys begin with.
    pub fn open(address: &str, storage: String, prefix: String, tenant: Uuid, read_only: bool) -> Result<Self> {
        let catalog = Self { server: Server::new(address)?, storage, prefix, tenant, read_only };
        block_on(catalog.prepare())??;
        Ok(catalog)
    }

    async fn prepare(&self) -> Result<()> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, false).await?;
        if !self.read_only {
            let done = t.query("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).await;
            done.map_err(|e| self.server.failed("lock", e))?;
        }
        let sql = "SELECT to_regclass('extents') IS NOT NULL,
                   EXISTS (SELECT FROM information_schema.columns WHERE table_name = 'extents' AND column_name = 'tenant_id'
                           AND table_schema = ANY (current_schemas(false)))";
        let row = t.query_one(sql, &[]).await.map_err(|e| self.server.failed("read", e))?;
        match (row.get(0), row.get(1)) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::unsupported(
                &self.server.display,
                "has a catalog from before migration 007 (no tenant_id columns): let its server migrate it first",
            )),
            (false, _) if self.read_only => Err(Error::unsupported(
                &self.server.display,
                "is not a pensieve catalog: it has no table \"extents\", and READ_ONLY does not create it",
            )),
            (false, _) => {
                t.batch_execute(SCHEMA).await.map_err(|e| self.server.failed("create the tables of", e))?;
                t.commit().await.map_err(|e| self.server.failed("commit", e))
            }
        }
    }

    fn writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::InvalidInput(format!("{} is attached READ_ONLY", self.server.display)));
        }
        Ok(())
    }

    /// A transaction: for reading one that sees one state throughout.
    async fn begin<'a>(&self, client: &'a mut Client, one_state: bool) -> Result<Transaction<'a>> {
        use deadpool_postgres::tokio_postgres::IsolationLevel;
        let builder = client.build_transaction();
        let builder =
            if one_state { builder.isolation_level(IsolationLevel::RepeatableRead).read_only(true) } else { builder };
        builder.start().await.map_err(|e| self.server.failed("begin", e))
    }

    async fn database_id(&self, t: &impl GenericClient, name: &str) -> Result<Option<Uuid>> {
        let sql = "SELECT id FROM databases WHERE tenant_id = $1 AND name = $2";
        let row = t.query_opt(sql, &[&self.tenant, &name]).await.map_err(|e| self.server.failed("read", e))?;
        Ok(row.map(|row| row.get(0)))
    }

    async fn schema(&self, t: &impl GenericClient, name: &TableName, id: Uuid) -> Result<TableSchema> {
        let sql = "SELECT arrow_schema FROM schema_snapshots WHERE id = $1";
        let row = t.query_opt(sql, &[&id]).await.map_err(|e| self.server.failed("read", e))?;
        let json: Value = row.map_or(Value::Null, |row| row.get(0));
        sql::schema_from_json(&format!("table {name} of {}", self.server.display), id, &json)
    }

    async fn snapshot_by_id(&self, t: &impl GenericClient, id: Uuid) -> Result<Option<Snapshot>> {
        let sql = format!("SELECT {} FROM snapshots s WHERE s.id = $1", rows::SNAPSHOT);
        let row = t.query_opt(&sql, &[&id]).await.map_err(|e| self.server.failed("read", e))?;
        row.map(|row| rows::snapshot(&row)).transpose().map_err(|e| self.server.failed("read", e))
    }

    /// Id, current snapshot and schema version of a table.
    async fn resolve(&self, t: &impl GenericClient, name: &TableName) -> Result<Option<(Uuid, Uuid, Uuid)>> {
        let sql = "SELECT t.id, t.current_snapshot_id, t.schema_snapshot_id FROM tables t JOIN databases d ON d.id = t.database_id
                   WHERE d.tenant_id = $1 AND t.tenant_id = $1 AND d.name = $2 AND t.name = $3";
        let row = t.query_opt(sql, &[&self.tenant, &name.database, &name.table]).await;
        let Some(row) = row.map_err(|e| self.server.failed("read", e))? else { return Ok(None) };
        let (snapshot, schema): (Option<Uuid>, Option<Uuid>) = (row.get(1), row.get(2));
        match (snapshot, schema) {
            (Some(snapshot), Some(schema)) => Ok(Some((row.get(0), snapshot, schema))),
            _ => Err(Error::corrupt_catalog(
                &self.server.display,
                format!("table {name}"),
                "has no current snapshot or schema",
            )),
        }
    }

    async fn view_at(&self, t: &impl GenericClient, name: &TableName, at: At) -> Result<Option<TableView>> {
        let Some((table_id, current, schema_id)) = self.resolve(t, name).await? else { return Ok(None) };
        let newest = self.snapshot_by_id(t, current).await?.ok_or_else(|| {
            Error::corrupt_catalog(&self.server.display, format!("table {name}"), "its current snapshot is missing")
        })?;
        let read = |sql: &str| format!("SELECT {} FROM snapshots s WHERE s.table_id = $1 AND {sql}", rows::SNAPSHOT);
        let (row, wanted) = match at {
            At::Head => (None, String::new()),
            At::Version(n) => {
                let n = i64::try_from(n).unwrap_or(i64::MAX);
                (Some(t.query_opt(&read("s.sequence_number = $2"), &[&table_id, &n]).await), n.to_string())
            }
            At::Timestamp(nanos) => {
                let text = read("s.created_at <= $2 ORDER BY s.sequence_number DESC LIMIT 1");
                let row = t.query_opt(&text, &[&table_id, &instant::stored(nanos)]).await;
                (Some(row), format!("as of {}", time::to_rfc3339(nanos)))
            }
        };
        let snapshot = match row {
            None => newest.clone(),
            Some(row) => {
                let row = row.map_err(|e| self.server.failed("read", e))?.ok_or_else(|| {
                    Error::InvalidInput(format!(
                        "{name} has no snapshot {wanted}; the newest version is {}",
                        newest.sequence
                    ))
                })?;
                rows::snapshot(&row).map_err(|e| self.server.failed("read", e))?
            }
        };
        let mut schema = self.schema(t, name, schema_id).await?;
        if snapshot.id != newest.id && snapshot.schema_id != schema_id {
            schema = self.schema(t, name, snapshot.schema_id).await.unwrap_or(schema);
        }
        Ok(Some(TableView { name: name.clone(), table_id, snapshot, schema: Arc::new(schema) }))
    }

    /// Oldest first.
    async fn all_snapshots(&self, t: &impl GenericClient, table: Uuid) -> Result<Vec<Snapshot>> {
        let sql =
            format!("SELECT {} FROM snapshots s WHERE s.table_id = $1 ORDER BY s.sequence_number", rows::SNAPSHOT);
        let found = t.query(&sql, &[&table]).await.map_err(|e| self.server.failed("read", e))?;
        found
            .iter()
            .map(rows::snapshot)
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| self.server.failed("read", e))
    }

    async fn is_current(&self, t: &impl GenericClient, view: &TableView) -> Result<bool> {
        let sql = "SELECT current_snapshot_id FROM tables WHERE id = $1";
        let row = t.query_opt(sql, &[&view.table_id]).await.map_err(|e| self.server.failed("read", e))?;
        Ok(row.and_then(|row| row.get::<_, Option<Uuid>>(0)) == Some(view.snapshot.id))
    }

    /// The extents of a view. `filter` is a condition over `extents e` with its parameters from `$3` on.
    async fn read_extents(
        &self,
        t: &impl GenericClient,
        view: &TableView,
        current: bool,
        filter: &str,
        parameters: &[Parameter],
    ) -> Result<Vec<Extent>> {
        let live = if current { "AND e.deleted_at IS NULL" } else { "" };
        let sql = format!(
            "SELECT {} {} {live} AND {filter} ORDER BY coalesce(s.sequence_number, 0), e.created_at, e.id",
            rows::EXTENT,
            rows::FROM_EXTENTS
        );
        let all = self.arguments(view, parameters);
        let found = t.query(&sql, &all).await.map_err(|e| self.server.failed("read extents of", e))?;
        let commits = if current { None } else { Some(rows::commits(self.all_snapshots(t, view.table_id).await?)) };
        let mut extents = Vec::with_capacity(found.len());
        for row in &found {
            let (extent, deleted_at) = rows::extent(row, &view.schema).map_err(|e| self.server.failed("read", e))?;
            let live = commits.as_ref().is_none_or(|c| c.live_at(view.snapshot.sequence, deleted_at));
            if live && extent.sequence <= view.snapshot.sequence {
                extents.push(extent);
            }
        }
        Ok(extents)
    }

    /// `$1` tenant, `$2` table, then the given ones.
    fn arguments<'a>(
        &'a self,
        view: &'a TableView,
        parameters: &'a [Parameter],
    ) -> Vec<&'a (dyn tokio_postgres::types::ToSql + Sync)> {
        let mut all: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&self.tenant, &view.table_id];
        for parameter in parameters {
            all.push(parameter.value.as_ref());
        }
        all
    }

    /// `column_stats` of extents as text, by id.
    async fn stats(&self, t: &impl GenericClient, ids: &[Uuid]) -> Result<std::collections::HashMap<Uuid, String>> {
        let sql = "SELECT id, column_stats::text FROM extents WHERE id = ANY($1)";
        let found = t.query(sql, &[&ids]).await.map_err(|e| self.server.failed("read statistics of", e))?;
        Ok(found.iter().map(|row| (row.get(0), row.get::<_, Option<String>>(1).unwrap_or_default())).collect())
    }

    /// The extents that the SQL form of stage 1 leaves, with the counts of what it ruled out.
    async fn prune_in_sql(
        &self,
        t: &impl GenericClient,
        view: &TableView,
        predicate: &BlockPredicate,
        options: &PruneOptions,
        counts: &mut PruneCounts,
    ) -> Result<Vec<Extent>> {
        let mut parameters: Vec<Parameter> = Vec::new();
        let time = TimeSource::of(&view.schema);
        let stages = [EvidenceKind::Time, EvidenceKind::Distinct, EvidenceKind::Tokens];
        let mut select = "count(*)".to_owned();
        for last in 1..=stages.len() {
            let kinds = stages.get(..last).unwrap_or_default();
            let condition = condition(predicate, time, options, kinds, &mut parameters, FIRST_PARAMETER);
            select.push_str(&format!(", count(*) FILTER (WHERE {condition})"));
        }
        let sql = format!(
            "SELECT {select} {} AND e.deleted_at IS NULL {}",
            rows::FROM_EXTENTS,
            mention(&parameters, FIRST_PARAMETER)
        );
        let row = t.query_one(&sql, &self.arguments(view, &parameters)).await;
        let row = row.map_err(|e| self.server.failed("prune extents of", e))?;
        let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        counts.extents_considered = count(0);
        for (stage, kind) in stages.into_iter().enumerate() {
            counts.skip(kind, count(stage).saturating_sub(count(stage + 1)));
        }
        counts.requests += 2;
        // The last condition alone, with parameters of its own.
        let mut parameters: Vec<Parameter> = Vec::new();
        let last = condition(predicate, time, options, &stages, &mut parameters, FIRST_PARAMETER);
        let filter = format!("{last} {}", mention(&parameters, FIRST_PARAMETER));
        self.read_extents(t, view, true, &filter, &parameters).await
    }

    async fn prune_async(
        &self,
        view: &TableView,
        predicate: &BlockPredicate,
        options: &PruneOptions,
    ) -> Result<Pruned> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, true).await?;
        let mut counts = PruneCounts::default();
        let left = if self.is_current(&t, view).await? {
            self.prune_in_sql(&t, view, predicate, options, &mut counts).await?
        } else {
            let all = self.read_extents(&t, view, false, "true", &[]).await?;
            counts.extents_considered = u64::try_from(all.len()).unwrap_or(u64::MAX);
            counts.requests += 2;
            all
        };
        let needs = Needs::of(predicate);
        let cascade = Cascade { predicate, needs: &needs, options };
        let mut in_time = Vec::with_capacity(left.len());
        for extent in left {
            if cascade.keeps_time(extent.row_count, extent.time.facts()) {
                in_time.push(extent);
            } else {
                counts.skip(EvidenceKind::Time, 1);
            }
        }
        if needs.is_empty() {
            return Ok(Pruned { extents: in_time, counts });
        }
        let mut extents = Vec::new();
        for chunk in in_time.chunks(CHUNK) {
            let ids: Vec<Uuid> = chunk.iter().map(|e| e.id).collect();
            let stats = self.stats(&t, &ids).await?;
            counts.requests += 1;
            for extent in chunk {
                let text = stats.get(&extent.id).map_or("", String::as_str);
                counts.bytes_read += u64::try_from(text.len()).unwrap_or(0);
                match cascade.ruled_out_by(extent.row_count, extent.time.facts(), &JsonSets::parse(text, &needs)) {
                    Some(kind) => counts.skip(kind, 1),
                    None => extents.push(extent.clone()),
                }
            }
        }
        Ok(Pruned { extents, counts })
    }

    async fn extents_async(&self, view: &TableView) -> Result<Vec<Extent>> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, true).await?;
        let current = self.is_current(&t, view).await?;
        self.read_extents(&t, view, current, "true", &[]).await
    }

    async fn commit_async(&self, base: &TableView, changes: &Changes) -> Result<TableView> {
        for attempt in 0..MAX_ATTEMPTS {
            match self.attempt(base, changes).await {
                Ok(view) => return Ok(view),
                Err(Failed::Error(error)) => return Err(error),
                Err(Failed::Lost) => tokio::time::sleep(pause(attempt)).await,
                Err(Failed::Unknown(view, error)) => {
                    return match self.settle(|| self.is_committed(&view)).await {
                        Some(true) => Ok(*view),
                        Some(false) => Err(error),
                        None => Err(unknown_outcome(&base.name, &error)),
                    };
                }
            }
        }
        Err(Error::Conflict {
            table: base.name.to_string(),
            what: format!("{MAX_ATTEMPTS} attempts to commit lost against other writers: try again later"),
        })
    }

    /// The answer of `read` after a connection broke at COMMIT, once there is one. `None`: the server does not come back.
    async fn settle<F: Future<Output = Result<bool>>>(&self, read: impl Fn() -> F) -> Option<bool> {
        for attempt in 0..SETTLE_ATTEMPTS {
            tokio::time::sleep(pause(attempt + 5)).await;
            if let Ok(found) = read().await {
                return Some(found);
            }
        }
        None
    }

    /// Whether a table of this identity is there. Waits for transactions under way that create or drop it.
    async fn table_exists(&self, name: &TableName, id: Uuid) -> Result<bool> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, false).await?;
        if let Some(database) = self.database_id(&t, &name.database).await? {
            self.lock_database(&t, database).await?;
        }
        let lock = "SELECT 1 FROM tables WHERE id = $1 FOR SHARE";
        Ok(t.query_opt(lock, &[&id]).await.map_err(|e| self.server.failed("lock", e))?.is_some())
    }

    /// Creators of tables in one database take turns, so that the second finds the first's.
    async fn lock_database(&self, t: &impl GenericClient, database: Uuid) -> Result<()> {
        let lock = "SELECT 1 FROM databases WHERE id = $1 FOR NO KEY UPDATE";
        t.query_opt(lock, &[&database]).await.map(drop).map_err(|e| self.server.failed("lock", e))
    }

    async fn create_table_async(
        &self,
        name: &TableName,
        columns: &[TableColumn],
        replaces: Option<Uuid>,
    ) -> Result<Option<TableView>> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, false).await?;
        let Some(database) = self.database_id(&t, &name.database).await? else {
            return Err(Error::InvalidInput(format!(
                "database \"{}\" does not exist: CREATE SCHEMA first",
                name.database
            )));
        };
        self.lock_database(&t, database).await?;
        match self.resolve(&t, name).await? {
            Some((id, _, _)) if replaces == Some(id) => self.delete_table(&t, id).await?,
            Some(_) => return Ok(None),
            None => {}
        }
        let id = match self.bootstrap(&t, database, &name.table, columns).await {
            Ok(id) => id,
            Err(Failed::Error(error) | Failed::Unknown(_, error)) => return Err(error),
            Err(Failed::Lost) => return Ok(None),
        };
        self.finish(t, name, || self.table_exists(name, id)).await?;
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, true).await?;
        self.view_at(&t, name, At::Head).await
    }

    async fn drop_database_async(&self, name: &str, cascade: bool) -> Result<bool> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, false).await?;
        let Some(id) = self.database_id(&t, name).await? else { return Ok(false) };
        // No table is to be created between the count and the end.
        self.lock_database(&t, id).await?;
        let row = t.query_one("SELECT count(*) FROM tables WHERE database_id = $1", &[&id]).await;
        let tables: i64 = row.map_err(|e| self.server.failed("read", e))?.get(0);
        if tables > 0 && !cascade {
            return Err(Error::InvalidInput(format!(
                "database \"{name}\" has {tables} tables: drop them first or use CASCADE"
            )));
        }
        for sql in [
            // The pointers are foreign keys in the server's own layout.
            "UPDATE tables SET current_snapshot_id = NULL, schema_snapshot_id = NULL WHERE database_id = $1",
            "DELETE FROM tables WHERE database_id = $1",
            "DELETE FROM databases WHERE id = $1",
        ] {
            t.execute(sql, &[&id]).await.map_err(|e| self.server.failed("delete from", e))?;
        }
        t.commit().await.map_err(|e| self.server.failed("commit", e))?;
        Ok(true)
    }

    async fn drop_table_async(&self, name: &TableName, which: Which<'_>) -> Result<bool> {
        let mut client = self.server.client().await?;
        let t = self.begin(&mut client, false).await?;
        let Some((id, _, _)) = self.resolve(&t, name).await? else { return Ok(false) };
        // Commits under way come first: what they make of the table decides.
        let lock = "SELECT 1 FROM tables WHERE id = $1 FOR UPDATE";
        t.query_opt(lock, &[&id]).await.map_err(|e| self.server.failed("lock", e))?;
        match self.resolve(&t, name).await? {
            Some((now, snapshot, schema)) if now == id && which.is(id, snapshot, schema) => {}
            _ => return Ok(false),
        }
        self.delete_table(&t, id).await?;
        self.finish(t, name, || async move { Ok(!self.table_exists(name, id).await?) }).await?;
        Ok(true)
    }

    async fn delete_table(&self, t: &impl GenericClient, id: Uuid) -> Result<()> {
        for sql in [
            // The pointers are foreign keys in the server's own layout.
            "UPDATE tables SET current_snapshot_id = NULL, schema_snapshot_id = NULL WHERE id = $1",
            "DELETE FROM tables WHERE id = $1",
        ] {
            t.execute(sql, &[&id]).await.map_err(|e| self.server.failed("delete from", e))?;
        }
        Ok(())
    }

    /// COMMIT. If the connection breaks, `happened` is asked whether it took place.
    async fn finish<F: Future<Output = Result<bool>>>(
        &self,
        t: Transaction<'_>,
        name: &TableName,
        happened: impl Fn() -> F,
    ) -> Result<()> {
        match t.commit().await {
            Ok(()) => Ok(()),
            Err(error) => {
                let ambiguous = error.as_db_error().is_none();
                let error = self.server.failed("commit", error);
                let settled = if ambiguous { self.settle(happened).await } else { Some(false) };
                match settled {
                    Some(true) => Ok(()),
                    Some(false) => Err(error),
                    None => Err(unknown_outcome(name, &error)),
                }
            }
        }
    }

    async fn removed_async(&self, name: &TableName) -> Result<Vec<RemovedExtent>> {
        let client = self.server.client().await?;
        let Some((table, _, schema)) = self.resolve(&client, name).await? else {
            return Err(Error::InvalidInput(format!("table {name} does not exist")));
        };
        let schema = self.schema(&client, name, schema).await?;
        let sql = format!(
            "SELECT {} {} AND e.deleted_at IS NOT NULL ORDER BY e.deleted_at, e.id",
            rows::EXTENT,
            rows::FROM_EXTENTS
        );
        let found = client.query(&sql, &[&self.tenant, &table]).await.map_err(|e| self.server.failed("read", e))?;
        let mut removed = Vec::with_capacity(found.len());
        for row in &found {
            let (extent, deleted_at) = rows::extent(row, &schema).map_err(|e| self.server.failed("read", e))?;
            removed.push(RemovedExtent {
                id: extent.id,
                object_path: extent.object_path,
                byte_size: extent.byte_size,
                row_count: extent.row_count,
                removed_at: deleted_at.unwrap_or(0),
            });
        }
        Ok(removed)
    }

    async fn names(&self, sql: &str, argument: Option<&str>) -> Result<Vec<String>> {
        let client = self.server.client().await?;
        let found = match &argument {
            Some(argument) => client.query(sql, &[&self.tenant, argument]).await,
            None => client.query(sql, &[&self.tenant]).await,
        };
        let mut names: Vec<String> =
            found.map_err(|e| self.server.failed("read", e))?.iter().map(|row| row.get(0)).collect();
        // The server's collation is not the order the other catalogs use.
        names.sort_unstable();
        Ok(names)
    }
}

impl Catalog for PostgresCatalog {
    fn address(&self) -> &str {
        &self.server.display
    }

    fn kind(&self) -> &'static str {
        "postgres"
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
        let prefix = self.prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        format!("{prefix}{}/extents/{extent}.{extension}", self.tenant)
    }

    fn databases(&self) -> Result<Vec<String>> {
        block_on(self.names("SELECT name FROM databases WHERE tenant_id = $1", None))?
    }

    fn create_database(&self, name: &str) -> Result<bool> {
        self.writable()?;
        validate_name("database", name)?;
        block_on(async {
            let client = self.server.client().await?;
            let sql = "INSERT INTO databases (id, name, created_at, tenant_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            let now = instant::stored(time::now_nanos());
            let done = client.execute(sql, &[&Uuid::new_v4(), &name, &now, &self.tenant]).await;
            Ok(done.map_err(|e| self.server.failed("insert into", e))? == 1)
        })?
    }

    fn drop_database(&self, name: &str, cascade: bool) -> Result<bool> {
        self.writable()?;
        block_on(self.drop_database_async(name, cascade))?
    }

    fn tables(&self, database: &str) -> Result<Vec<String>> {
        let sql = "SELECT t.name FROM tables t JOIN databases d ON d.id = t.database_id WHERE d.tenant_id = $1 AND d.name = $2";
        block_on(self.names(sql, Some(database)))?
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
        block_on(self.create_table_async(name, columns, replaces))?
    }

    fn drop_table(&self, name: &TableName, which: Which<'_>) -> Result<bool> {
        self.writable()?;
        block_on(self.drop_table_async(name, which))?
    }

    fn table_at(&self, name: &TableName, at: At) -> Result<Option<TableView>> {
        block_on(async {
            let mut client = self.server.client().await?;
            let t = self.begin(&mut client, true).await?;
            self.view_at(&t, name, at).await
        })?
    }

    fn snapshots(&self, name: &TableName) -> Result<Vec<Snapshot>> {
        block_on(async {
            let client = self.server.client().await?;
            match self.resolve(&client, name).await? {
                Some((id, _, _)) => self.all_snapshots(&client, id).await,
                None => Err(Error::InvalidInput(format!("table {name} does not exist"))),
            }
        })?
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
        block_on(self.commit_async(base, changes))?
    }

    fn extents(&self, view: &TableView) -> Result<Vec<Extent>> {
        block_on(self.extents_async(view))?
    }

    fn prune(&self, view: &TableView, predicate: &BlockPredicate, options: &PruneOptions) -> Result<Pruned> {
        block_on(self.prune_async(view, predicate, options))?
    }

    fn totals(&self, view: &TableView) -> Result<Totals> {
        let extents = self.extents(view)?;
        let sum = |f: fn(&Extent) -> u64| extents.iter().fold(0_u64, |n, e| n.saturating_add(f(e)));
        Ok(Totals { extents: sum(|_| 1), rows: sum(|e| e.row_count), bytes: sum(|e| e.byte_size) })
    }

    fn visit_stats(&self, view: &TableView, visit: &mut dyn FnMut(&Extent, ExtentStats) -> Result<()>) -> Result<()> {
        for chunk in self.extents(view)?.chunks(CHUNK) {
            let ids: Vec<Uuid> = chunk.iter().map(|e| e.id).collect();
            let stats = block_on(async {
                let client = self.server.client().await?;
                self.stats(&client, &ids).await
            })??;
            for extent in chunk {
                let text = stats.get(&extent.id).map_or("null", String::as_str);
                let column_stats = serde_json::from_str(text).unwrap_or(Value::Null);
                visit(extent, ExtentStats { column_stats, present_paths: None })?;
            }
        }
        Ok(())
    }

    fn removed_extents(&self, name: &TableName) -> Result<Vec<RemovedExtent>> {
        block_on(self.removed_async(name))?
    }
}
