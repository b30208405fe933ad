//! Objects of the manifest log: reading with bounded caches, put-if-absent, listing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::companion::Section;
use super::doc::{self, ManifestDoc, SectionRef, SnapshotDoc};
use crate::{Error, Result};

/// Bytes of parsed metadata kept in memory by default.
pub(super) const DEFAULT_CACHE_BYTES: u64 = 96 << 20;
/// Objects of the log larger than this are refused rather than read.
const MAX_OBJECT: u64 = 2 << 30;

/// An immutable parsed object and its approximate size in memory.
type Cached<T> = (Arc<T>, u64);

#[derive(Debug, Clone)]
struct ByBytes;

impl<T> Weighter<String, Cached<T>> for ByBytes {
    fn weight(&self, key: &String, value: &Cached<T>) -> u64 {
        value.1 + u64::try_from(key.len()).unwrap_or(0) + 64
    }
}

type ObjectCache<T> = Cache<String, Cached<T>, ByBytes, DefaultHashBuilder, DefaultLifecycle<String, Cached<T>>>;

fn cache<T>(bytes: u64) -> Result<ObjectCache<T>> {
    // One shard: an object may be as large as the whole budget, and contention is nothing next to the parsing it saves.
    let options = OptionsBuilder::new()
        .shards(1)
        .estimated_items_capacity(1024)
        .weight_capacity(bytes)
        .build()
        .map_err(|e| Error::InvalidInput(format!("metadata cache of {bytes} bytes: {e}")))?;
    Ok(Cache::with_options(options, ByBytes, DefaultHashBuilder::default(), DefaultLifecycle::default()))
}

/// What a put-if-absent found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The object is ours.
    Created,
    /// The key was taken.
    Exists,
}

/// Requests and bytes of one operation.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
}

impl Traffic {
    fn add(&self, bytes: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }
}

/// The store under a root, with caches of parsed objects by key. Objects other than the hint never change, so neither do the caches.
#[derive(Debug)]
pub(super) struct LogStore {
    store: Arc<dyn ObjectStore>,
    /// Path of the root within the store.
    prefix: String,
    /// The root as the user wrote it, for messages.
    pub display: String,
    snapshots: ObjectCache<SnapshotDoc>,
    manifests: ObjectCache<ManifestDoc>,
    sections: ObjectCache<Section>,
    /// Newest sequence number seen, by table directory.
    heads: Mutex<HashMap<String, u64>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogStore {
    pub(super) fn new(store: Arc<dyn ObjectStore>, prefix: &str, display: String, cache_bytes: u64) -> Result<Self> {
        Ok(Self {
            store,
            prefix: prefix.trim_matches('/').to_owned(),
            display,
            snapshots: cache(cache_bytes / 4)?,
            manifests: cache(cache_bytes / 8 * 3)?,
            sections: cache(cache_bytes / 8 * 3)?,
            heads: Mutex::default(),
        })
    }

    fn path(&self, key: &str) -> Result<Path> {
        let whole = if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) };
        Path::parse(&whole).map_err(|e| Error::InvalidInput(format!("{}: {e}", self.name(key))))
    }

    /// The key as users find it.
    pub(super) fn name(&self, key: &str) -> String {
        crate::catalog::types::join_location(&self.display, key)
    }

    fn failed(&self, operation: &str, key: &str, error: object_store::Error) -> Error {
        Error::io(self.name(key), operation, error)
    }

    /// The whole object, or `None` when there is none.
    pub(super) async fn get(&self, key: &str, traffic: &Traffic) -> Result<Option<Bytes>> {
        let result = match self.store.get(&self.path(key)?).await {
            Ok(result) => result,
            Err(object_store::Error::NotFound { .. }) => {
                traffic.add(0);
                return Ok(None);
            }
            Err(error) => return Err(self.failed("read", key, error)),
        };
        if result.meta.size > MAX_OBJECT {
            let what = format!(
                "{} bytes are more than the {MAX_OBJECT} that are read of a document of the catalog",
                result.meta.size
            );
            return Err(Error::unsupported(self.name(key), what));
        }
        match result.bytes().await {
            Ok(bytes) => {
                traffic.add(bytes.len());
                Ok(Some(bytes))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", key, error)),
        }
    }

    /// A part of an object; short when the object ends before. `None` when there is none.
    pub(super) async fn get_range(&self, key: &str, range: Range<u64>, traffic: &Traffic) -> Result<Option<Bytes>> {
        match self.store.get_range(&self.path(key)?, range).await {
            Ok(bytes) => {
                traffic.add(bytes.len());
                Ok(Some(bytes))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read a range of", key, error)),
        }
    }

    /// Whether an object exists.
    pub(super) async fn exists(&self, key: &str, traffic: &Traffic) -> Result<bool> {
        traffic.add(0);
        match self.store.head(&self.path(key)?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed("look for", key, error)),
        }
    }

    /// Writes a new object; leaves an existing one alone.
    pub(super) async fn create(&self, key: &str, bytes: Vec<u8>) -> Result<Put> {
        let options = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&self.path(key)?, PutPayload::from(bytes), options).await {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Put::Exists)
            }
            Err(error) => Err(self.failed("create", key, error)),
        }
    }

    /// Writes an object whose key is unique, or the hint.
    pub(super) async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        self.store.put(&self.path(key)?, PutPayload::from(bytes)).await.map_err(|e| self.failed("write", key, e))?;
        Ok(())
    }

    /// Removes an object; one that is missing is fine.
    pub(super) async fn delete(&self, key: &str) -> Result<()> {
        match self.store.delete(&self.path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", key, error)),
        }
    }

    /// Names of the directories and of the objects directly under `key`.
    pub(super) async fn list(&self, key: &str) -> Result<(Vec<String>, Vec<String>)> {
        let path = self.path(key)?;
        let listed = match self.store.list_with_delimiter(Some(&path)).await {
            Ok(listed) => listed,
            Err(object_store::Error::NotFound { .. }) => return Ok(Default::default()),
            Err(error) => return Err(self.failed("list", key, error)),
        };
        let last = |path: &Path| path.parts().next_back().map(|part| part.as_ref().to_owned());
        let directories = listed.common_prefixes.iter().filter_map(last).collect();
        let objects = listed.objects.iter().filter_map(|meta| last(&meta.location)).collect();
        Ok((directories, objects))
    }

    /// Remembers that snapshot `sequence` of a table exists.
    pub(super) fn saw(&self, directory: &str, sequence: u64) {
        let mut heads = locked(&self.heads);
        let newest = heads.entry(directory.to_owned()).or_insert(sequence);
        *newest = (*newest).max(sequence);
    }

    /// The newest snapshot of a table this process has seen.
    pub(super) fn seen(&self, directory: &str) -> Option<u64> {
        locked(&self.heads).get(directory).copied()
    }

    /// Forgets what was seen of a table (its log seems to have been replaced).
    pub(super) fn forget(&self, directory: &str) {
        locked(&self.heads).remove(directory);
    }

    /// A snapshot, or `None` when there is none of that number.
    pub(super) async fn snapshot(
        &self,
        directory: &str,
        sequence: u64,
        traffic: &Traffic,
    ) -> Result<Option<Arc<SnapshotDoc>>> {
        let key = format!("{directory}/{}", doc::snapshot_key(sequence));
        if let Some((found, _)) = self.snapshots.get(&key) {
            return Ok(Some(found));
        }
        let Some(bytes) = self.get(&key, traffic).await? else { return Ok(None) };
        let parsed = SnapshotDoc::parse(&self.name(&key), &bytes)?;
        if parsed.head.sequence != sequence {
            return Err(Error::corrupt_catalog(
                self.name(&key),
                "sequence",
                format!("is {} where the name says {sequence}", parsed.head.sequence),
            ));
        }
        Ok(Some(self.keep_snapshot(key, parsed, bytes.len())))
    }

    /// Puts a snapshot into the cache.
    pub(super) fn keep_snapshot(&self, key: String, snapshot: SnapshotDoc, bytes: usize) -> Arc<SnapshotDoc> {
        let snapshot = Arc::new(snapshot);
        // Parsed it takes about as much as its text.
        self.snapshots.insert(key, (Arc::clone(&snapshot), u64::try_from(bytes).unwrap_or(u64::MAX)));
        snapshot
    }

    /// A manifest.
    pub(super) async fn manifest(&self, directory: &str, key: &str, traffic: &Traffic) -> Result<Arc<ManifestDoc>> {
        let key = format!("{directory}/{key}");
        if let Some((found, _)) = self.manifests.get(&key) {
            return Ok(found);
        }
        let bytes = self.get(&key, traffic).await?.ok_or_else(|| missing(&self.name(&key)))?;
        let parsed: ManifestDoc = doc::parse(&self.name(&key), doc::MANIFEST, &bytes)?;
        let parsed = Arc::new(parsed);
        self.manifests.insert(key, (Arc::clone(&parsed), u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
        Ok(parsed)
    }

    /// A section of a companion of `extents` extents.
    pub(super) async fn section(
        &self,
        directory: &str,
        key: &str,
        section: &SectionRef,
        extents: usize,
        traffic: &Traffic,
    ) -> Result<Arc<Section>> {
        let key = format!("{directory}/{key}");
        let cache_key = format!("{key}#{}", section.offset);
        if let Some((found, _)) = self.sections.get(&cache_key) {
            return Ok(found);
        }
        let end = section.offset.checked_add(section.length).filter(|_| section.length <= MAX_OBJECT);
        let end = end.ok_or_else(|| Error::corrupt_catalog(self.name(&key), "section", "has an impossible length"))?;
        let bytes = self.get_range(&key, section.offset..end, traffic).await?;
        let bytes = bytes.ok_or_else(|| missing(&self.name(&key)))?;
        let decoded = Arc::new(Section::decode(&self.name(&key), section, &bytes, extents)?);
        let weight = decoded.weight();
        self.sections.insert(cache_key, (Arc::clone(&decoded), weight));
        Ok(decoded)
    }
}

/// The error for an object that a snapshot refers to but that is gone.
fn missing(name: &str) -> Error {
    Error::Corrupt {
        kind: "catalog",
        path: name.to_owned(),
        place: "the whole object".to_owned(),
        what: "is missing though a snapshot refers to it".to_owned(),
        remedy: "if snapshots were expired while this query ran, run it again; otherwise restore the object",
    }
}
