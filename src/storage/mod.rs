//! Reading and writing bytes: always by range, always through [`Source`] and [`Sink`].
//!
//! A [`Source`] is one immutable file that has been opened: its identity is known, its bytes are fetched by range. The
//! format rooms never see a path scheme, a client or a runtime.

pub mod glob;
pub mod host;
pub mod local;
pub mod memory;
pub mod ranges;
pub mod remote;
pub mod sink;
pub(crate) mod tls;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;

use crate::Result;

pub use ranges::Coalesce;

/// What names one exact version of a file. Evidence and cached metadata are keyed by it, never by modification time alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Path or URL as the user or catalog gave it.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// ETag, content hash or, on a local disk, `inode-mtime_ns`; empty when the store offers none.
    pub version: String,
}

/// Counts of what was asked of a store, shared by every [`Source`] of a scan. All are monotone.
#[derive(Debug, Default)]
pub struct IoCounters {
    /// Requests sent (coalesced ranges count once; memory-mapped reads count once per range).
    pub requests: std::sync::atomic::AtomicU64,
    /// Bytes fetched.
    pub bytes: std::sync::atomic::AtomicU64,
}

/// One opened immutable file.
pub trait Source: Send + Sync + fmt::Debug {
    /// The identity of the version that was opened.
    fn identity(&self) -> &Identity;

    /// Bytes `[range.start, range.end)`. Errors name the path and the range; a range past the end is an error.
    fn read(&self, range: Range<u64>) -> Result<Buffer> {
        let mut out = self.read_many(std::slice::from_ref(&range))?;
        Ok(out.pop().unwrap_or_else(|| Buffer::from(Vec::<u8>::new())))
    }

    /// Several ranges, each answered in order. Implementations coalesce close ranges into one request.
    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>>;

    /// Whether the bytes are memory-mapped, so that a read costs no copy and reading more than needed costs nothing.
    fn is_mapped(&self) -> bool {
        false
    }

    /// The counters every read adds to.
    fn counters(&self) -> &Arc<IoCounters>;

    /// How many bytes at the end of the file can be read without a request.
    fn fetched_tail(&self) -> u64 {
        0
    }

    /// The source behind this one, if this one only adds bytes that were fetched ahead. A reader that stays open keeps that
    /// instead, so that the bytes of a footer do not outlive its parsing.
    fn base(&self) -> Option<Arc<dyn Source>> {
        None
    }
}

/// Where a writer puts one new file. Nothing is visible under the final name before [`Sink::finish`]; dropping an unfinished
/// sink removes what was written.
pub trait Sink: Send {
    /// Appends `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Bytes written so far.
    fn position(&self) -> u64;
    /// The final name, for messages.
    fn path(&self) -> &str;
    /// Makes the file visible under its final name (rename, or completion of a multipart upload).
    fn finish(self: Box<Self>) -> Result<()>;
}

/// How files are reached, by path or URL.
#[derive(Debug, Clone, Default)]
pub struct StorageOptions {
    /// Files of the local disk.
    pub local: local::LocalOptions,
    /// Objects of object stores.
    pub remote: remote::RemoteOptions,
}

/// Opens a local path, a `file://` URL or an object store URL.
pub fn open(path: &str, options: &StorageOptions, counters: Arc<IoCounters>) -> Result<Arc<dyn Source>> {
    if remote::is_remote(path) {
        return Ok(Arc::new(remote::RemoteSource::open(path, &options.remote, counters)?));
    }
    Ok(Arc::new(local::LocalSource::open(local_path(path), options.local, counters)?))
}

/// As [`open`], for a file that has not been opened before: of an object, size, version and its last `tail` bytes come with one
/// request, where the store allows that.
///
/// # Errors
/// As [`open`].
pub fn open_with_tail(
    path: &str,
    options: &StorageOptions,
    counters: Arc<IoCounters>,
    tail: u64,
) -> Result<Arc<dyn Source>> {
    if remote::is_remote(path) {
        return remote::open_with_tail(path, &options.remote, counters, tail);
    }
    open(path, options, counters)
}

/// Starts writing a local path, a `file://` URL or an object store URL.
pub fn create(path: &str, options: &StorageOptions) -> Result<Box<dyn Sink>> {
    if remote::is_remote(path) {
        return Ok(Box::new(remote::RemoteSink::create(path, &options.remote)?));
    }
    Ok(Box::new(sink::LocalSink::create(local_path(path))?))
}

fn local_path(path: &str) -> &str {
    path.strip_prefix("file://").unwrap_or(path)
}
