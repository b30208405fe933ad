//! The manifest log: a catalog made of immutable objects next to the data, with put-if-absent as its only lock.
//!
//! `docs/formats/manifest-log.md` specifies the objects. In short: table `db.t` has one snapshot object per commit, numbered without
//! gaps; whoever creates number n + 1 has committed. A snapshot lists manifests (extents with their time bounds), a manifest may have a
//! companion with the large sets.

mod build;
mod companion;
mod doc;
mod head;
mod read;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::stream;
use object_store::ObjectStore;
use uuid::Uuid;

use self::build::Builder;
use self::doc::{Header, SchemaDoc, SnapshotBody, SnapshotDoc, SnapshotHead, SummaryDoc, TotalsDoc};
use self::store::{LogStore, Put, Traffic};
use super::retry::{MAX_ATTEMPTS, pause};
use super::runtime::block_on;
use super::types::{
    At, Changes, Extent, ExtentStats, RemovedExtent, Snapshot, TableColumn, TableName, TableView, Totals, Which,
    validate_columns, validate_name,
};
use super::{Catalog, ColumnType, PruneOptions, Pruned, column_type, time};
use crate::predicate::BlockPredicate;
use crate::{Error, Result};

/// How often writing one snapshot object is tried when the store fails without saying whether it was written.
const PUT_ATTEMPTS: u32 = 5;

/// A catalog kept in an object store or directory, without a server.
pub struct ManifestLog {
    store: LogStore,
    read_only: bool,
    /// One commit at a time per table and process: threads of one process need not race each other.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl std::fmt::Debug for ManifestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestLog").field("root", &self.store.display).field("read_only", &self.read_only).finish()
    }
}

impl ManifestLog {
    /// A log in `store` under the path `prefix`. `root` is what users call the place (`/data/lake`, `s3://bucket/lake`), and the root
    /// of its extents. `cache_bytes` bounds the parsed metadata kept in memory (default 96 MiB).
    ///
    /// The store must implement put-if-absent ([`object_store::PutMode::Create`]); on a local disk use
    /// [`object_store::local::LocalFileSystem`] with fsync on.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        root: &str,
        read_only: bool,
        cache_bytes: Option<u64>,
    ) -> Result<Self> {
        let root = if root.len() > 1 { root.trim_end_matches('/') } else { root };
        let cache_bytes = cache_bytes.unwrap_or(store::DEFAULT_CACHE_BYTES);
        Ok(Self {
            store: LogStore::new(store, prefix, root.to_owned(), cache_bytes)?,
            read_only,
            turns: Mutex::default(),
        })
    }

    fn writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::InvalidInput(format!("{} is attached READ_ONLY", self.store.display)));
        }
        Ok(())
    }

    fn turn(&self, directory: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(directory.to_owned()).or_default())
    }

    fn view(&self, name: &TableName, snapshot: &SnapshotDoc) -> Result<TableView> {
        let key = format!("{}/{}", doc::table_directory(name), doc::snapshot_key(snapshot.head.sequence));
        Ok(TableView {
            name: name.clone(),
            table_id: snapshot.head.table_id,
            snapshot: snapshot.head.snapshot(),
            schema: Arc::new(snapshot.schema(&self.store.name(&key))?),
        })
    }

    /// The snapshot object behind a view.
    async fn pinned(&self, view: &TableView) -> Result<Arc<SnapshotDoc>> {
        let directory = doc::table_directory(&view.name);
        let traffic = Traffic::default();
        match self.store.snapshot(&directory, view.snapshot.sequence, &traffic).await? {
            Some(snapshot) if snapshot.head.snapshot_id == view.snapshot.id => Ok(snapshot),
            _ => Err(Error::Conflict {
                table: view.name.to_string(),
                what: format!("snapshot {} has expired: run the query again", view.snapshot.sequence),
            }),
        }
    }

    async fn find(&self, name: &TableName, at: At) -> Result<Option<Arc<SnapshotDoc>>> {
        let directory = doc::table_directory(name);
        let traffic = Traffic::default();
        let Some(newest) = head::newest(&self.store, &directory, &traffic).await? else { return Ok(None) };
        if newest.head.dropped {
            return Ok(None);
        }
        let table_id = newest.head.table_id;
        let (newest_sequence, oldest_hint) = (newest.head.sequence, "it has not been committed yet or has expired");
        let (found, wanted) = match at {
            At::Head => return Ok(Some(newest)),
            At::Version(n) if n > newest_sequence => (None, format!("version {n}")),
            At::Version(n) => (self.store.snapshot(&directory, n, &traffic).await?, format!("version {n}")),
            At::Timestamp(t) => (
                head::at_instant(&self.store, &directory, newest, t, &traffic).await?,
                format!("snapshot as of {}", time::to_rfc3339(t)),
            ),
        };
        match found {
            // A number below the table's creation belongs to a dropped table of the same name.
            Some(found) if found.head.table_id == table_id => Ok(Some(found)),
            _ => Err(Error::InvalidInput(format!(
                "{name} has no {wanted}: {oldest_hint}; the newest version is {newest_sequence}"
            ))),
        }
    }

    /// Creates a snapshot object. Says whether it is ours, also when the store failed after writing it.
    async fn publish(&self, directory: &str, snapshot: &SnapshotDoc) -> Result<Put> {
        let key = format!("{directory}/{}", doc::snapshot_key(snapshot.head.sequence));
        let bytes = snapshot.to_bytes()?;
        let mut attempt = 0;
        loop {
            let failure = match self.store.create(&key, bytes.clone()).await {
                Ok(Put::Created) => return Ok(Put::Created),
                Ok(Put::Exists) => None,
                Err(error) => Some(error),
            };
            // A retry inside the client, or an answer that got lost, may have met our own object.
            let traffic = Traffic::default();
            match (self.store.get(&key, &traffic).await, failure) {
                (Ok(Some(found)), _) => {
                    let ours = SnapshotDoc::parse(&self.store.name(&key), &found)
                        .is_ok_and(|found| found.head.snapshot_id == snapshot.head.snapshot_id);
                    return Ok(if ours { Put::Created } else { Put::Exists });
                }
                (_, Some(error)) if attempt + 1 >= PUT_ATTEMPTS => return Err(error),
                (Err(error), None) if attempt + 1 >= PUT_ATTEMPTS => return Err(error),
                (Ok(None), None) if attempt + 1 >= PUT_ATTEMPTS => return Ok(Put::Exists),
                _ => {
                    // The same bytes again: put-if-absent makes that harmless.
                    tokio::time::sleep(pause(attempt + 4)).await;
                    attempt += 1;
                }
            }
        }
    }

    async fn commit_async(&self, base: &TableView, changes: &Changes) -> Result<Arc<SnapshotDoc>> {
        let directory = doc::table_directory(&base.name);
        let turn = self.turn(&directory);
        let turn = turn.lock().await;
        let traffic = Traffic::default();
        for attempt in 0..MAX_ATTEMPTS {
            let head = head::newest(&self.store, &directory, &traffic).await?;
            let head = head.filter(|h| !h.head.dropped && h.head.table_id == base.table_id);
            let Some(head) = head else {
                return Err(Error::Conflict {
                    table: base.name.to_string(),
                    what: "the table was dropped since the operation was planned".to_owned(),
                });
            };
            let mut builder = Builder::new(&self.store, &directory, base, changes);
            let outcome = match builder.next(&head).await {
                Ok(next) => self.publish(&directory, &next).await.map(|put| (put, next)),
                Err(error) => {
                    self.clean_up(&directory, &builder.written).await;
                    return Err(error);
                }
            };
            match outcome {
                Ok((Put::Created, next)) => {
                    let sequence = next.head.sequence;
                    self.store.saw(&directory, sequence);
                    drop(turn);
                    head::write_hint(&self.store, &directory, sequence).await;
                    let key = format!("{directory}/{}", doc::snapshot_key(sequence));
                    let weight = next.body.manifests.len() * 220 + 1024;
                    return Ok(self.store.keep_snapshot(key, next, weight));
                }
                Ok((Put::Exists, _)) => {
                    self.clean_up(&directory, &builder.written).await;
                    tokio::time::sleep(pause(attempt)).await;
                }
                // The snapshot may exist after all, so what it refers to must stay.
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict {
            table: base.name.to_string(),
            what: format!("{MAX_ATTEMPTS} attempts to commit lost against other writers: try again later"),
        })
    }

    /// Removes the objects of an attempt that lost. What cannot be removed is an orphan for garbage collection.
    async fn clean_up(&self, directory: &str, keys: &[String]) {
        for key in keys {
            drop(self.store.delete(&format!("{directory}/{key}")).await);
        }
    }

    /// Appends a snapshot that begins or ends a table. `None`: the table is not in the state `make` wants (it returned `None`).
    async fn transition(
        &self,
        name: &TableName,
        make: impl Fn(Option<&SnapshotDoc>) -> Option<SnapshotDoc>,
    ) -> Result<Option<SnapshotDoc>> {
        let directory = doc::table_directory(name);
        let turn = self.turn(&directory);
        let turn = turn.lock().await;
        let traffic = Traffic::default();
        for attempt in 0..MAX_ATTEMPTS {
            let head = head::newest(&self.store, &directory, &traffic).await?;
            let Some(next) = make(head.as_deref()) else { return Ok(None) };
            match self.publish(&directory, &next).await? {
                Put::Created => {
                    self.store.saw(&directory, next.head.sequence);
                    drop(turn);
                    head::write_hint(&self.store, &directory, next.head.sequence).await;
                    return Ok(Some(next));
                }
                Put::Exists => tokio::time::sleep(pause(attempt)).await,
            }
        }
        Err(Error::Conflict { table: name.to_string(), what: "too many other writers: try again later".to_owned() })
    }

    fn database_key(name: &str) -> String {
        format!("_pensieve/{}/database.json", doc::encode_segment(name))
    }

    /// Creates a database. `false`: it is there.
    async fn mark_database(&self, name: &str) -> Result<bool> {
        let json = doc::to_json(&Header::new(doc::DATABASE))?;
        Ok(self.store.create(&Self::database_key(name), json).await? == Put::Created)
    }

    async fn tables_async(&self, database: &str) -> Result<Vec<String>> {
        let traffic = Traffic::default();
        if !self.store.exists(&Self::database_key(database), &traffic).await? {
            return Ok(Vec::new());
        }
        self.live_tables(database).await
    }

    /// The tables of a database, whether the database is there or not.
    async fn live_tables(&self, database: &str) -> Result<Vec<String>> {
        let (directories, _) = self.store.list(&format!("_pensieve/{}", doc::encode_segment(database))).await?;
        let names: Vec<String> = directories.iter().filter_map(|d| doc::decode_segment(d)).collect();
        let mut live = stream::iter(names)
            .map(|table| async move {
                // A table that cannot be read is still there; whoever asks for it learns why.
                let is_gone = matches!(self.find(&TableName::new(database, &table), At::Head).await, Ok(None));
                (!is_gone).then_some(table)
            })
            .buffered(16);
        let mut tables = Vec::new();
        while let Some(table) = live.next().await {
            tables.extend(table);
        }
        drop(live);
        tables.sort_unstable();
        Ok(tables)
    }

    async fn snapshots_async(&self, name: &TableName) -> Result<Vec<SnapshotHead>> {
        let Some(newest) = self.find(name, At::Head).await? else {
            return Err(Error::InvalidInput(format!("table {name} does not exist")));
        };
        let directory = doc::table_directory(name);
        let numbers = head::listed(&self.store, &directory).await?;
        let traffic = Traffic::default();
        let (directory, traffic) = (&directory, &traffic);
        let mut heads = stream::iter(numbers.into_iter().filter(|n| *n <= newest.head.sequence))
            .map(|n| self.snapshot_head(directory, n, traffic))
            .buffered(16);
        let mut all = Vec::new();
        while let Some(head) = heads.next().await {
            all.extend(head?.filter(|h| h.table_id == newest.head.table_id));
        }
        Ok(all)
    }

    /// The first line of a snapshot object, without fetching the rest where it is long.
    async fn snapshot_head(&self, directory: &str, number: u64, traffic: &Traffic) -> Result<Option<SnapshotHead>> {
        let key = format!("{directory}/{}", doc::snapshot_key(number));
        let Some(bytes) = self.store.get_range(&key, 0..2048, traffic).await? else { return Ok(None) };
        if let Some((line, _)) = doc::split_line(&bytes) {
            return doc::parse(&self.store.name(&key), doc::SNAPSHOT, line).map(Some);
        }
        Ok(self.store.snapshot(directory, number, traffic).await?.map(|s| s.head.clone()))
    }
}

/// The first snapshot of a new table, following the one that ended the table before it.
fn first_snapshot(previous: Option<&SnapshotDoc>, columns: &[TableColumn]) -> SnapshotDoc {
    let schema_id = Uuid::new_v4();
    let Header { format, version } = Header::new(doc::SNAPSHOT);
    let now = time::now_nanos();
    SnapshotDoc {
        head: SnapshotHead {
            format,
            version,
            table_id: Uuid::new_v4(),
            snapshot_id: Uuid::new_v4(),
            sequence: previous.map_or(0, |p| p.head.sequence + 1),
            parent_id: None,
            created_at: previous.map_or(now, |p| now.max(p.head.created_at.saturating_add(1))),
            operation: "create".to_owned(),
            dropped: false,
            schema_id,
            summary: SummaryDoc::default(),
            totals: TotalsDoc::default(),
        },
        body: SnapshotBody {
            schemas: vec![SchemaDoc::new(schema_id, columns)],
            bucket_nanos: build::INITIAL_BUCKET_NANOS,
            ..SnapshotBody::default()
        },
    }
}

/// The snapshot that ends a table.
fn last_snapshot(head: &SnapshotDoc) -> SnapshotDoc {
    let mut next = head.clone();
    next.head.parent_id = Some(head.head.snapshot_id);
    next.head.snapshot_id = Uuid::new_v4();
    next.head.sequence = head.head.sequence + 1;
    next.head.created_at = time::now_nanos().max(head.head.created_at.saturating_add(1));
    next.head.operation = "drop".to_owned();
    next.head.dropped = true;
    next.head.summary = SummaryDoc {
        extents_removed: head.head.totals.extents,
        rows_removed: head.head.totals.rows,
        bytes_removed: head.head.totals.bytes,
        ..SummaryDoc::default()
    };
    next.head.totals = TotalsDoc::default();
    next.body.manifests = Vec::new();
    next.body.paths = Vec::new();
    next.body.removed = Vec::new();
    next
}

impl Catalog for ManifestLog {
    fn address(&self) -> &str {
        &self.store.display
    }

    fn kind(&self) -> &'static str {
        "manifest log"
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn type_names(&self) -> &'static [&'static str] {
        column_type::LOG_TYPE_NAMES
    }

    fn supports_type(&self, _: &ColumnType) -> bool {
        true
    }

    fn storage_root(&self) -> &str {
        &self.store.display
    }

    fn new_extent_path(&self, table: &TableName, extent: Uuid, extension: &str) -> String {
        let (database, table) = (doc::encode_segment(&table.database), doc::encode_segment(&table.table));
        format!("{database}/{table}/{extent}.{extension}")
    }

    fn databases(&self) -> Result<Vec<String>> {
        block_on(async {
            let traffic = Traffic::default();
            let (directories, _) = self.store.list("_pensieve").await?;
            let mut names = Vec::new();
            for name in directories.iter().filter_map(|d| doc::decode_segment(d)) {
                if self.store.exists(&Self::database_key(&name), &traffic).await? {
                    names.push(name);
                }
            }
            names.sort_unstable();
            Ok(names)
        })?
    }

    fn create_database(&self, name: &str) -> Result<bool> {
        self.writable()?;
        validate_name("database", name)?;
        block_on(self.mark_database(name))?
    }

    fn drop_database(&self, name: &str, cascade: bool) -> Result<bool> {
        self.writable()?;
        let key = Self::database_key(name);
        if !block_on(async { self.store.exists(&key, &Traffic::default()).await })?? {
            return Ok(false);
        }
        let tables = self.tables(name)?;
        if !cascade && !tables.is_empty() {
            return Err(Error::InvalidInput(format!(
                "database \"{name}\" has {} tables: drop them first or use CASCADE",
                tables.len()
            )));
        }
        for table in tables {
            self.drop_table(&TableName::new(name, table), Which::Any)?;
        }
        let created_since = block_on(async {
            self.store.delete(&key).await?;
            // A table that somebody created meanwhile must not stand in a database that is gone.
            let created_since = self.live_tables(name).await?;
            if !created_since.is_empty() {
                self.mark_database(name).await?;
            }
            Ok::<_, Error>(created_since)
        })??;
        match created_since.first() {
            None => Ok(true),
            Some(table) => Err(Error::Conflict {
                table: format!("{name}.{table}"),
                what: format!("somebody else created it while database \"{name}\" was dropped, which therefore stays"),
            }),
        }
    }

    fn tables(&self, database: &str) -> Result<Vec<String>> {
        block_on(self.tables_async(database))?
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
        let created = block_on(async {
            if !self.store.exists(&Self::database_key(&name.database), &Traffic::default()).await? {
                return Err(Error::InvalidInput(format!(
                    "database \"{}\" does not exist: CREATE SCHEMA first",
                    name.database
                )));
            }
            let created = self
                .transition(name, |head| match head {
                    Some(head) if !head.head.dropped && replaces != Some(head.head.table_id) => None,
                    previous => Some(first_snapshot(previous, columns)),
                })
                .await?;
            if created.is_some() {
                // Whoever dropped the empty database meanwhile did not see the table.
                self.mark_database(&name.database).await?;
            }
            Ok(created)
        })??;
        created.map(|snapshot| self.view(name, &snapshot)).transpose()
    }

    fn drop_table(&self, name: &TableName, which: Which<'_>) -> Result<bool> {
        self.writable()?;
        let is_meant =
            |h: &&SnapshotDoc| !h.head.dropped && which.is(h.head.table_id, h.head.snapshot_id, h.head.schema_id);
        let dropped = block_on(self.transition(name, |head| head.filter(is_meant).map(last_snapshot)))??;
        Ok(dropped.is_some())
    }

    fn table_at(&self, name: &TableName, at: At) -> Result<Option<TableView>> {
        let found = block_on(self.find(name, at))??;
        found.map(|snapshot| self.view(name, &snapshot)).transpose()
    }

    fn snapshots(&self, name: &TableName) -> Result<Vec<Snapshot>> {
        Ok(block_on(self.snapshots_async(name))??.iter().map(SnapshotHead::snapshot).collect())
    }

    fn commit(&self, base: &TableView, changes: &Changes) -> Result<TableView> {
        self.writable()?;
        changes.validate(&base.name)?;
        if changes.is_empty() {
            return Ok(base.clone());
        }
        let committed = block_on(self.commit_async(base, changes))??;
        self.view(&base.name, &committed)
    }

    fn extents(&self, view: &TableView) -> Result<Vec<Extent>> {
        block_on(async {
            let snapshot = self.pinned(view).await?;
            read::extents(&self.store, &doc::table_directory(&view.name), &snapshot, view.schema.only_time_column())
                .await
        })?
    }

    fn prune(&self, view: &TableView, predicate: &BlockPredicate, options: &PruneOptions) -> Result<Pruned> {
        block_on(async {
            let snapshot = self.pinned(view).await?;
            let directory = doc::table_directory(&view.name);
            let nameless = view.schema.only_time_column();
            read::prune(&self.store, &directory, &snapshot, nameless, predicate, options).await
        })?
    }

    fn totals(&self, view: &TableView) -> Result<Totals> {
        Ok(block_on(self.pinned(view))??.head.totals.into())
    }

    fn visit_stats(&self, view: &TableView, visit: &mut dyn FnMut(&Extent, ExtentStats) -> Result<()>) -> Result<()> {
        // The caller's closure need not be Send, so the objects are loaded first, one manifest at a time.
        let directory = doc::table_directory(&view.name);
        let nameless = view.schema.only_time_column();
        let snapshot = block_on(self.pinned(view))??;
        let dictionary = block_on(read::dictionary_or_none(&self.store, &directory, &snapshot))?;
        for manifest in &snapshot.body.manifests {
            let rows = block_on(read::stats_of(&self.store, &directory, manifest, nameless, dictionary.as_ref()))??;
            for (extent, stats) in rows {
                visit(&extent, stats)?;
            }
        }
        Ok(())
    }

    fn removed_extents(&self, name: &TableName) -> Result<Vec<RemovedExtent>> {
        let heads = block_on(self.snapshots_async(name))??;
        let directory = doc::table_directory(name);
        let mut removed = Vec::new();
        for head in heads.iter().filter(|h| h.summary.extents_removed > 0) {
            let snapshot =
                block_on(async { self.store.snapshot(&directory, head.sequence, &Traffic::default()).await })??;
            removed.extend(snapshot.iter().flat_map(|s| &s.body.removed).map(|r| RemovedExtent {
                id: r.id,
                object_path: r.path.clone(),
                byte_size: r.bytes,
                row_count: r.rows,
                removed_at: head.created_at,
            }));
        }
        Ok(removed)
    }
}
