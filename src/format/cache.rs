//! Open extents without their files: what footers said, kept by identity, so that opening the same version of a file again costs no
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::ExtentReader;
use super::registry::FormatRegistry;
use crate::Result;
use crate::storage::{Identity, Source};

/// Everything a format learns when it opens a file, apart from the file itself.
pub trait SharedMetadata: Send + Sync {
    /// Bytes of memory, roughly.
    fn weight(&self) -> u64;
    /// Registry name of the format.
    fn format(&self) -> &'static str;
    /// The extent over `source`, which must be the same version of the same file. Does no I/O.
    fn attach(self: Arc<Self>, source: Arc<dyn Source>) -> Arc<dyn ExtentReader>;
}

#[derive(Clone)]
struct Weight;

impl Weighter<Identity, Arc<dyn SharedMetadata>> for Weight {
    fn weight(&self, key: &Identity, value: &Arc<dyn SharedMetadata>) -> u64 {
        let key = key.path.len().saturating_add(key.version.len());
        value.weight().saturating_add(u64::try_from(key).unwrap_or(u64::MAX)).saturating_add(128)
    }
}

/// Paths that are remembered as opened before.
const PATHS: usize = 100_000;

/// Default capacity in bytes.
pub const DEFAULT_CAPACITY: u64 = 256 << 20;

/// Keeps metadata by the identity of the file. Files without a version in their identity are not kept: their content may change
/// unnoticed.
pub struct ReaderCache {
    entries: Cache<Identity, Arc<dyn SharedMetadata>, Weight>,
    /// Paths that were opened, whichever version.
    paths: Cache<String, ()>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Default for ReaderCache {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl std::fmt::Debug for ReaderCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderCache").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl ReaderCache {
    /// A cache of `bytes` bytes; 0 keeps nothing.
    pub fn new(bytes: u64) -> Self {
        Self {
            entries: Cache::with_weighter(10_000, bytes, Weight),
            paths: Cache::new(PATHS),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Changes the capacity; what no longer fits is dropped.
    pub fn set_capacity(&self, bytes: u64) {
        self.entries.set_capacity(bytes);
    }

    /// Whether `path` has been opened before, so that asking for its version is likely to be all that is needed.
    pub fn knows(&self, path: &str) -> bool {
        self.paths.get(path).is_some()
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.paths.clear();
        self.entries.clear();
    }

    /// How often an extent was opened from the cache, and how often it was not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Opens an extent by its leading bytes, or as the format named `wanted`, from memory if this version of it has been opened
    /// before.
    ///
    /// # Errors
    /// As [`FormatRegistry::open`] and [`FormatRegistry::open_as`].
    pub fn open(
        &self,
        registry: &FormatRegistry,
        source: Arc<dyn Source>,
        wanted: Option<&str>,
    ) -> Result<Arc<dyn ExtentReader>> {
        let identity = source.identity().clone();
        if let Some(metadata) = self.entries.get(&identity)
            && wanted.is_none_or(|name| name == metadata.format())
        {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(metadata.attach(source));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let reader = match wanted {
            None => registry.open(source)?,
            Some(name) => registry.open_as(name, source)?,
        };
        if !identity.version.is_empty()
            && let Some(metadata) = reader.shared_metadata()
        {
            self.paths.insert(identity.path.clone(), ());
            self.entries.insert(identity, metadata);
        }
        Ok(reader)
    }
}
