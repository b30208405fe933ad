//! One answer from one archive: a connection with a read transaction, and the BLOBs fetched through it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use rusqlite::{Connection, MAIN_DB, OptionalExtension, params};

use super::catalog::{self, Catalog, SegmentInfo};
use super::connect::{self, Fingerprint, IndexLayout, Layout, Mode};
use crate::storage::IoCounters;
use crate::{Error, Result};

/// How often a listing is tried again when a writer starts on a file that was at rest.
const ATTEMPTS: usize = 3;

/// How an archive is read.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// How long a scan may keep its read transaction open. While it is open the writer goes on, but its checkpoints cannot
    /// recycle the log. Afterwards segments are fetched in short reads; a segment that retention or compaction removed in the
    /// meantime is an error, never a hole.
    pub hold_snapshot: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { hold_snapshot: Duration::from_secs(10) }
    }
}

/// A dendro archive on the local file system. Holds no file open: every answer opens its own [`Snapshot`].
#[derive(Debug, Clone)]
pub struct Archive {
    path: PathBuf,
    options: OpenOptions,
}

impl Archive {
    /// Checks that `path` is an archive this build reads.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names what the file is instead (not SQLite, another application's database, another schema
    /// version, a copy without its catalog) and what to do; [`Error::Corrupt`] a damaged or truncated file; [`Error::Io`] a
    /// file that cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, OpenOptions::default())
    }

    /// [`Archive::open`] with options.
    pub fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let archive = Self { path: path.as_ref().to_path_buf(), options };
        drop(archive.snapshot()?);
        Ok(archive)
    }

    /// Whether there is an archive at `path`, whatever the file is called. Says yes to archives that [`Archive::open`] refuses
    /// (another schema version, damage), because its message is the one that helps.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be opened.
    pub fn is_archive(path: impl AsRef<Path>) -> Result<bool> {
        connect::is_archive(path.as_ref())
    }

    /// The path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts an answer: everything asked of the snapshot sees the archive as it is now. Start one per query, when it runs;
    /// a snapshot that lives on (in a prepared statement, say) keeps the writer's log from shrinking.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let mut attempt = 1;
        loop {
            let before = Fingerprint::of(&self.path)?;
            match Snapshot::begin(&self.path, self.options.hold_snapshot) {
                Err(_) if attempt < ATTEMPTS && Fingerprint::of(&self.path)? != before => attempt += 1,
                done => return done.map(Arc::new),
            }
        }
    }

    /// The catalog as of now, in a snapshot of its own.
    pub fn catalog(&self) -> Result<Catalog> {
        self.read(|snapshot| snapshot.catalog())
    }

    /// Runs `answer` in a snapshot of its own, again if a writer started on the file meanwhile. Not for answers that keep the
    /// snapshot.
    pub fn read<T>(&self, answer: impl Fn(&Arc<Snapshot>) -> Result<T>) -> Result<T> {
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot()?;
            match answer(&snapshot) {
                Err(_) if attempt < ATTEMPTS && snapshot.changed_at_rest() => attempt += 1,
                done => return done,
            }
        }
    }
}

/// What a scan asked of the archive. All are monotone.
#[derive(Debug, Default)]
pub struct ScanCounters {
    /// Segments of whose BLOB at least one byte was read (footers read for a schema included, once per handle).
    pub segments_opened: AtomicU64,
    /// Reads of BLOBs, and their bytes.
    pub io: Arc<IoCounters>,
}

struct Inner {
    conn: Connection,
    /// The transaction that the snapshot began is still open.
    held: bool,
    since: Instant,
}

/// One instant of an archive. Share it between threads; BLOB fetches take turns, decoding does not.
pub struct Snapshot {
    path: PathBuf,
    name: String,
    mode: Mode,
    layout: Layout,
    bytes_on_disk: u64,
    hold: Duration,
    inner: Arc<Mutex<Inner>>,
    counters: ScanCounters,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("path", &self.path).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Snapshot {
    fn begin(path: &Path, hold: Duration) -> Result<Self> {
        let opened = connect::open(path)?;
        let begin = |e| connect::sqlite_error(path, "starting to read", e);
        // DEFERRED: the instant is fixed by the first read, so make one.
        opened.conn.execute_batch("BEGIN DEFERRED").map_err(begin)?;
        opened.conn.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(())).map_err(begin)?;
        let snapshot = Self {
            path: path.to_path_buf(),
            name: path.display().to_string(),
            mode: opened.mode,
            layout: opened.layout,
            bytes_on_disk: opened.bytes_on_disk,
            hold,
            inner: Arc::new(Mutex::new(Inner { conn: opened.conn, held: true, since: Instant::now() })),
            counters: ScanCounters::default(),
        };
        snapshot.check_at_rest()?;
        Ok(snapshot)
    }

    /// The same instant through the same connection, with counters of its own: for several scans of one answer.
    pub fn share(&self) -> Self {
        Self {
            path: self.path.clone(),
            name: self.name.clone(),
            mode: self.mode.clone(),
            layout: self.layout,
            bytes_on_disk: self.bytes_on_disk,
            hold: self.hold,
            inner: self.inner.clone(),
            counters: ScanCounters::default(),
        }
    }

    /// Path of the archive, for messages.
    pub fn path(&self) -> &str {
        &self.name
    }

    /// The file's `user_version`: 4 or 5.
    pub fn schema_version(&self) -> u32 {
        self.layout.version
    }

    /// Whether a writer may be at work: the file had side files when the snapshot began.
    pub fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    /// What was read through this snapshot so far.
    pub fn counters(&self) -> &ScanCounters {
        &self.counters
    }

    /// Sources, streams, segments and live spans, all from this snapshot and without reading a BLOB.
    pub fn catalog(&self) -> Result<Catalog> {
        self.with_conn("reading the catalog", |conn| catalog::load(conn, &self.name, &self.layout, self.bytes_on_disk))
    }

    /// The caller's index of every segment of a stream, by `seq`; `None` where the writer stored none.
    pub fn caller_indexes(&self, source_id: i64, stream: &str) -> Result<Vec<(i64, Option<Vec<u8>>)>> {
        let sql = match self.layout.index {
            IndexLayout::Table => {
                "SELECT s.seq, i.bytes FROM segments s LEFT JOIN segment_indexes i ON i.source_id = s.source_id \
                 AND i.stream = s.stream AND i.seq = s.seq WHERE s.source_id = ?1 AND s.stream = ?2 ORDER BY s.seq"
            }
            IndexLayout::Column => {
                "SELECT seq, caller_index FROM segments WHERE source_id = ?1 AND stream = ?2 ORDER BY seq"
            }
            IndexLayout::Absent => "SELECT seq, NULL FROM segments WHERE source_id = ?1 AND stream = ?2 ORDER BY seq",
        };
        self.with_conn("reading caller indexes", |conn| {
            let mut statement = conn.prepare(sql)?;
            let rows = statement.query_map(params![source_id, stream], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        })
    }

    /// The caller's index of one segment; `None` where the writer stored none, and where the segment is gone, which is for
    /// whoever reads it to report.
    pub fn caller_index(&self, source_id: i64, stream: &str, segment: &SegmentInfo) -> Result<Option<Vec<u8>>> {
        // every catalog column is compared, as in find_row
        const SAME: &str = "s.source_id = ?1 AND s.stream = ?2 AND s.seq = ?3 AND s.first_ts = ?4 AND s.last_ts = ?5 \
                            AND octet_length(s.bytes) = ?6";
        let sql = match self.layout.index {
            IndexLayout::Table => format!(
                "SELECT i.bytes FROM segments s JOIN segment_indexes i ON i.source_id = s.source_id \
                 AND i.stream = s.stream AND i.seq = s.seq WHERE {SAME}"
            ),
            IndexLayout::Column => format!("SELECT s.caller_index FROM segments s WHERE {SAME}"),
            IndexLayout::Absent => return Ok(None),
        };
        let size = i64::try_from(segment.byte_size).unwrap_or(i64::MAX);
        let doing =
            format!("reading the caller's index of source {source_id}, stream \"{stream}\", segment {}", segment.seq);
        self.with_conn(&doing, |conn| {
            let mut statement = conn.prepare_cached(&sql)?;
            let row = statement
                .query_row(params![source_id, stream, segment.seq, segment.first_ts, segment.last_ts, size], |row| {
                    row.get::<_, Option<Vec<u8>>>(0)
                })
                .optional()?;
            Ok(row.flatten())
        })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn inode(&self) -> u64 {
        match &self.mode {
            Mode::AtRest(fingerprint) => fingerprint.inode(),
            Mode::Live => Fingerprint::of(&self.path).map(|f| f.inode()).unwrap_or(0),
        }
    }

    pub(super) fn with_conn<T>(
        &self,
        doing: &str,
        ask: impl FnOnce(&Connection) -> std::result::Result<T, CatalogError>,
    ) -> Result<T> {
        let mut inner = self.lock();
        let answer = self.in_transaction(&mut inner, ask);
        drop(inner);
        // A file that changed under an immutable connection explains any failure, and taints any success.
        self.check_at_rest()?;
        answer.map_err(|e| match e {
            CatalogError::Sqlite(e) => connect::sqlite_error(&self.path, doing, e),
            CatalogError::Other(e) => e,
        })
    }

    fn in_transaction<T>(
        &self,
        inner: &mut Inner,
        ask: impl FnOnce(&Connection) -> std::result::Result<T, CatalogError>,
    ) -> std::result::Result<T, CatalogError> {
        if inner.held && self.is_live() && inner.since.elapsed() > self.hold {
            inner.conn.execute_batch("COMMIT")?;
            inner.held = false;
        }
        if inner.held {
            return ask(&inner.conn);
        }
        inner.conn.execute_batch("BEGIN DEFERRED")?;
        let answer = ask(&inner.conn);
        inner.conn.execute_batch("COMMIT")?;
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file that was at rest when the snapshot began has been written to since: this snapshot cannot be read any more,
    /// and a new one sees the segments that are still there.
    pub fn changed_at_rest(&self) -> bool {
        match &self.mode {
            Mode::Live => false,
            Mode::AtRest(before) => Fingerprint::of(&self.path).map_or(true, |now| now != *before),
        }
    }

    fn check_at_rest(&self) -> Result<()> {
        if self.changed_at_rest() {
            return Err(self.changed("the file was written to"));
        }
        Ok(())
    }

    fn changed(&self, what: &str) -> Error {
        Error::io(
            self.name.clone(),
            "read a consistent snapshot of",
            format!("the archive changed during the scan: {what}; run the query again"),
        )
    }

    /// Reads `ranges` of a segment's BLOB, each of which must lie within it, through one BLOB handle.
    pub(super) fn read_blob(
        &self,
        source_id: i64,
        stream: &str,
        segment: &SegmentInfo,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<Vec<Buffer>> {
        let place = || format!("source {source_id}, stream \"{stream}\", segment {}", segment.seq);
        if segment.byte_size > self.bytes_on_disk.max(self.grown_bytes()) {
            return Err(Error::corrupt(
                self.name.clone(),
                place(),
                format!("a BLOB of {} bytes in a file of {} bytes", segment.byte_size, self.bytes_on_disk),
            ));
        }
        let doing = format!("reading {}", place());
        self.with_conn(&doing, |conn| {
            let rowid = self.find_row(conn, source_id, stream, segment)?;
            let Some(rowid) = rowid else {
                return Err(CatalogError::Other(
                    self.changed(&format!("{} is gone (retention or compaction removed it)", place())),
                ));
            };
            let blob = conn.blob_open(MAIN_DB, c"segments", c"bytes", rowid, true)?;
            let mut out = Vec::with_capacity(ranges.len());
            let mut total = 0u64;
            for range in ranges {
                let length = range.end.saturating_sub(range.start);
                let (Ok(start), Ok(size)) = (usize::try_from(range.start), usize::try_from(length)) else {
                    return Err(CatalogError::Other(Error::InvalidInput(format!("range {range:?} is too large"))));
                };
                let mut bytes = vec![0u8; size];
                blob.read_at_exact(&mut bytes, start)?;
                total = total.saturating_add(length);
                out.push(Buffer::from_vec(bytes));
            }
            self.counters.io.requests.fetch_add(u64::try_from(ranges.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.counters.io.bytes.fetch_add(total, Ordering::Relaxed);
            Ok(out)
        })
    }

    /// A live archive may have grown since the snapshot began counting; only its own files bound a BLOB.
    fn grown_bytes(&self) -> u64 {
        if !self.is_live() {
            return 0;
        }
        let length = |path: &Path| std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
        length(&self.path).saturating_add(length(&connect::side_file(&self.path, "-wal")))
    }

    /// The row that holds `segment`, `None` when it no longer does. Row ids are not stable across transactions (VACUUM, reuse),
    /// and a stream whose segments were all evicted numbers new ones from 0, so every catalog column is compared.
    fn find_row(
        &self,
        conn: &Connection,
        source_id: i64,
        stream: &str,
        segment: &SegmentInfo,
    ) -> rusqlite::Result<Option<i64>> {
        let mut statement = conn.prepare_cached(
            "SELECT rowid FROM segments WHERE source_id = ?1 AND stream = ?2 AND seq = ?3 AND first_ts = ?4 \
             AND last_ts = ?5 AND octet_length(bytes) = ?6",
        )?;
        let size = i64::try_from(segment.byte_size).unwrap_or(i64::MAX);
        statement
            .query_row(params![source_id, stream, segment.seq, segment.first_ts, segment.last_ts, size], |row| {
                row.get(0)
            })
            .optional()
    }
}

/// A failure inside a transaction: SQLite's, which still needs the path and the activity, or one already worded.
#[derive(Debug)]
pub(super) enum CatalogError {
    Sqlite(rusqlite::Error),
    Other(Error),
}

impl From<rusqlite::Error> for CatalogError {
    fn from(e: rusqlite::Error) -> Self {
        Self::Sqlite(e)
    }
}

impl From<Error> for CatalogError {
    fn from(e: Error) -> Self {
        Self::Other(e)
    }
}
