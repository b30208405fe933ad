//! Writing a sealed, complete archive of one stream (schema version 5), which dendro reads and verifies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Int64Type, SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use rusqlite::{Connection, OpenFlags, params};

use super::connect::{side_file, sqlite_error};
use super::sniff::{APPLICATION_ID, SCHEMA_VERSIONS};
use crate::format::parquet::check_columns;
use crate::{Error, Result};

/// The catalog of schema version 5, in the columns and constraints that the format's description gives.
const CATALOG_SQL: &str = "
CREATE TABLE sources(id INTEGER PRIMARY KEY, labels TEXT NOT NULL, metadata TEXT NOT NULL,
  complete INTEGER NOT NULL DEFAULT 0, clock_anchor_wall_ns INTEGER NOT NULL, uuid TEXT, heartbeat INTEGER,
  heartbeat_interval_ns INTEGER);
CREATE TABLE segments(source_id INTEGER NOT NULL REFERENCES sources(id), stream TEXT NOT NULL, seq INTEGER NOT NULL,
  rows INTEGER NOT NULL, first_ts INTEGER NOT NULL, last_ts INTEGER NOT NULL, bytes BLOB NOT NULL,
  PRIMARY KEY (source_id, stream, seq));
CREATE TABLE segment_indexes(source_id INTEGER NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL, bytes BLOB NOT NULL,
  PRIMARY KEY (source_id, stream, seq),
  FOREIGN KEY (source_id, stream, seq) REFERENCES segments(source_id, stream, seq) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX segments_by_time ON segments(source_id, stream, last_ts);
CREATE TABLE wal(source_id INTEGER NOT NULL REFERENCES sources(id), stream TEXT NOT NULL, ts INTEGER NOT NULL,
  wall_offset INTEGER NOT NULL, row BLOB NOT NULL, PRIMARY KEY (source_id, stream, ts));
CREATE TABLE clock_offsets(source_id INTEGER NOT NULL REFERENCES sources(id), ts INTEGER NOT NULL,
  offset_ns INTEGER NOT NULL, PRIMARY KEY (source_id, ts));
CREATE TABLE caller_rows(source_id INTEGER NOT NULL REFERENCES sources(id), stream TEXT NOT NULL, ts INTEGER NOT NULL,
  blob BLOB NOT NULL);
CREATE INDEX caller_rows_by_time ON caller_rows(source_id, stream, ts);
CREATE TABLE documents(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, name TEXT NOT NULL,
  schema TEXT, body TEXT, created_wall_ns INTEGER NOT NULL, supersedes INTEGER REFERENCES documents(id),
  CHECK ((schema IS NULL) = (body IS NULL)));
CREATE INDEX documents_by_name ON documents(kind, name, id);
";

/// The one source an archive written here has.
const SOURCE_ID: i64 = 1;

/// Rows of a Parquet row group.
const ROW_GROUP_ROWS: usize = 122_880;

/// What to write and how.
#[derive(Debug, Clone)]
pub struct ArchiveWriteOptions {
    /// Name of the stream.
    pub stream: String,
    /// Column with the row timestamps: Int64 or UInt64 (nanoseconds), or a timestamp of any unit. No NULLs, never falling.
    pub ts_column: String,
    /// Labels of the source.
    pub labels: BTreeMap<String, String>,
    /// Metadata of the source, besides what is recorded about the writing.
    pub metadata: BTreeMap<String, String>,
    /// Most rows of a segment.
    pub segment_rows: u64,
    /// A segment is sealed when its Parquet file reaches about this size in bytes.
    pub segment_bytes: usize,
    /// Replace a file that is already there.
    pub overwrite: bool,
}

impl ArchiveWriteOptions {
    /// Options for `stream` with row timestamps in `ts_column`: segments of up to a million rows or 32 MiB, no labels, replacing
    /// an existing file.
    pub fn new(stream: impl Into<String>, ts_column: impl Into<String>) -> Self {
        Self {
            stream: stream.into(),
            ts_column: ts_column.into(),
            labels: BTreeMap::new(),
            metadata: BTreeMap::new(),
            segment_rows: 1 << 20,
            segment_bytes: 32 << 20,
            overwrite: true,
        }
    }

    /// Whether rows of `schema` can be written like this.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an empty stream name and a missing or unsuitable timestamp column; [`Error::Unsupported`]
    /// names a column whose type has no Parquet form.
    pub fn check(&self, schema: &SchemaRef) -> Result<()> {
        if self.stream.is_empty() {
            return Err(Error::InvalidInput("a dendro stream needs a name: STREAM '…'".into()));
        }
        timestamp_column(schema, &self.ts_column)?;
        check_columns(schema)
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveWriteResult {
    /// The archive.
    pub path: PathBuf,
    /// The source's new identity.
    pub source_uuid: String,
    /// Rows written.
    pub rows: u64,
    /// Segments written.
    pub segments: u64,
    /// Size of the file in bytes.
    pub byte_size: u64,
    /// Row timestamps of the first and last row; `None` when there were no rows.
    pub span: Option<(i64, i64)>,
}

/// Writes one archive: batches in, one file out. Nothing is visible under the final name before [`ArchiveWriter::finish`];
/// dropping the writer removes what was written.
pub struct ArchiveWriter {
    path: PathBuf,
    temporary: PathBuf,
    options: ArchiveWriteOptions,
    schema: SchemaRef,
    ts_index: usize,
    ts_unit: i64,
    conn: Option<Connection>,
    segment: Option<OpenSegment>,
    source_uuid: String,
    seq: i64,
    rows: u64,
    span: Option<(i64, i64)>,
}

struct OpenSegment {
    parquet: ArrowWriter<Vec<u8>>,
    rows: u64,
    first_ts: i64,
    last_ts: i64,
}

/// Writes `batches` as an archive at `path`. See [`ArchiveWriter`].
pub fn write_archive(
    path: impl AsRef<Path>,
    schema: SchemaRef,
    options: ArchiveWriteOptions,
    batches: impl IntoIterator<Item = Result<RecordBatch>>,
) -> Result<ArchiveWriteResult> {
    let mut writer = ArchiveWriter::create(path, schema, options)?;
    for batch in batches {
        writer.append(&batch?)?;
    }
    writer.finish()
}

impl ArchiveWriter {
    /// Starts an archive that will appear at `path`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an empty stream name, a missing or unsuitable timestamp column, or a file that may not be
    /// replaced; [`Error::Unsupported`] when the file there is in use or a column has no Parquet form.
    pub fn create(path: impl AsRef<Path>, schema: SchemaRef, options: ArchiveWriteOptions) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        options.check(&schema)?;
        let (ts_index, ts_unit) = timestamp_column(&schema, &options.ts_column)?;
        check_target(&path, options.overwrite)?;
        let name =
            path.file_name().ok_or_else(|| Error::InvalidInput(format!("{}: not a file name", path.display())))?;
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.tmp", uuid::Uuid::new_v4()));
        let temporary = path.with_file_name(temporary_name);
        let mut writer = Self {
            path,
            temporary,
            options,
            schema,
            ts_index,
            ts_unit,
            conn: None,
            segment: None,
            source_uuid: uuid::Uuid::new_v4().to_string(),
            seq: 0,
            rows: 0,
            span: None,
        };
        let conn = writer.start_file().map_err(|e| sqlite_error(&writer.temporary, "creating", e))?;
        writer.conn = Some(conn);
        Ok(writer)
    }

    fn start_file(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&self.temporary, flags)?;
        // Page size and vacuum mode are fixed by the first page, so they come first. The file is private until it is renamed,
        // which is why it needs no journal.
        conn.pragma_update(None, "page_size", 4096)?;
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        conn.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        conn.pragma_update(None, "foreign_keys", "ON")?;
        conn.execute_batch("BEGIN")?;
        conn.execute_batch(CATALOG_SQL)?;
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        conn.pragma_update(None, "user_version", *SCHEMA_VERSIONS.end())?;
        // Filled in at the end, when the anchor is known; segments refer to it now.
        conn.execute(
            "INSERT INTO sources(id, labels, metadata, complete, clock_anchor_wall_ns, uuid) VALUES (?1, '{}', '{}', 0, 0, ?2)",
            params![SOURCE_ID, self.source_uuid],
        )?;
        Ok(conn)
    }

    /// Appends rows. The batch's schema must be the writer's; timestamps must not fall, within it or since the last one.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let timestamps = self.timestamps(batch)?;
        let mut offset = 0usize;
        while offset < timestamps.len() {
            let in_segment = self.segment.as_ref().map_or(0, |s| s.rows);
            let room = self.options.segment_rows.max(1).saturating_sub(in_segment).max(1);
            let take = (timestamps.len() - offset).min(usize::try_from(room).unwrap_or(usize::MAX)).min(ROW_GROUP_ROWS);
            let (Some(first), Some(last)) = (timestamps.get(offset), timestamps.get(offset + take - 1)) else { break };
            let mut segment = match self.segment.take() {
                Some(segment) => segment,
                None => OpenSegment { parquet: self.start_parquet()?, rows: 0, first_ts: *first, last_ts: *last },
            };
            segment.parquet.write(&batch.slice(offset, take)).map_err(|e| self.parquet_error(&e))?;
            segment.rows += u64::try_from(take).unwrap_or(u64::MAX);
            segment.last_ts = *last;
            offset += take;
            let size = segment.parquet.bytes_written().saturating_add(segment.parquet.in_progress_size());
            if segment.rows >= self.options.segment_rows || size >= self.options.segment_bytes {
                self.seal(segment)?;
            } else {
                self.segment = Some(segment);
            }
        }
        Ok(())
    }

    /// Seals, marks the source complete, and makes the file visible.
    pub fn finish(mut self) -> Result<ArchiveWriteResult> {
        if let Some(segment) = self.segment.take() {
            self.seal(segment)?;
        }
        let conn = self.conn.take().ok_or_else(|| Error::InvalidInput("the archive is already finished".into()))?;
        self.finish_file(conn).map_err(|e| sqlite_error(&self.temporary, "completing", e))?;
        let io = |doing: &'static str| {
            let name = self.path.display().to_string();
            move |e: std::io::Error| Error::io(name, doing, e)
        };
        let file = std::fs::File::open(&self.temporary).map_err(io("complete"))?;
        file.sync_all().map_err(io("flush"))?;
        let byte_size = file.metadata().map_err(io("measure"))?.len();
        drop(file);
        check_target(&self.path, self.options.overwrite)?;
        std::fs::rename(&self.temporary, &self.path).map_err(io("rename the finished file to"))?;
        if let Some(parent) = self.path.parent().filter(|p| !p.as_os_str().is_empty())
            && let Ok(directory) = std::fs::File::open(parent)
        {
            // Best effort: not every file system lets a directory be flushed, and the file itself is.
            let _ = directory.sync_all();
        }
        Ok(ArchiveWriteResult {
            path: self.path.clone(),
            source_uuid: self.source_uuid.clone(),
            rows: self.rows,
            segments: u64::try_from(self.seq).unwrap_or(0),
            byte_size,
            span: self.span,
        })
    }

    fn finish_file(&self, conn: Connection) -> rusqlite::Result<()> {
        let anchor = self.span.map_or(0, |span| span.0);
        let session = serde_json::json!([{
            "session": uuid::Uuid::new_v4().to_string(),
            "clock_anchor_wall_ns": anchor,
            "dendro": concat!("pensieve ", env!("CARGO_PKG_VERSION")),
        }]);
        let mut metadata = self.options.metadata.clone();
        metadata.insert("writer_sessions".into(), session.to_string());
        let json = |map: &BTreeMap<String, String>| {
            serde_json::to_string(map).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
        };
        conn.execute(
            "UPDATE sources SET labels = ?2, metadata = ?3, complete = 1, clock_anchor_wall_ns = ?4 WHERE id = ?1",
            params![SOURCE_ID, json(&self.options.labels)?, json(&metadata)?, anchor],
        )?;
        conn.execute_batch("COMMIT")?;
        // The journal mode is part of the file. Closing the only connection folds the log in and removes it.
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        conn.close().map_err(|(_, e)| e)
    }

    fn seal(&mut self, segment: OpenSegment) -> Result<()> {
        let OpenSegment { parquet, rows, first_ts, last_ts } = segment;
        let bytes = parquet.into_inner().map_err(|e| self.parquet_error(&e))?;
        let failed = |e| sqlite_error(&self.temporary, "writing a segment", e);
        let conn = self.conn.as_ref().ok_or_else(|| Error::InvalidInput("the archive is already finished".into()))?;
        let count = i64::try_from(rows).unwrap_or(i64::MAX);
        conn.prepare_cached(
            "INSERT INTO segments(source_id, stream, seq, rows, first_ts, last_ts, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut s| s.execute(params![SOURCE_ID, self.options.stream, self.seq, count, first_ts, last_ts, bytes]))
        .map_err(failed)?;
        // The timestamps are taken for wall clock, which is what an offset of zero says.
        conn.prepare_cached("INSERT OR IGNORE INTO clock_offsets(source_id, ts, offset_ns) VALUES (?1, ?2, 0)")
            .and_then(|mut s| s.execute(params![SOURCE_ID, last_ts]))
            .map_err(failed)?;
        self.seq += 1;
        Ok(())
    }

    /// The Parquet settings of dendro's own segments, but with dictionaries: repeated strings are the rule in copied tables.
    fn start_parquet(&self) -> Result<ArrowWriter<Vec<u8>>> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        ArrowWriter::try_new(Vec::new(), self.schema.clone(), Some(properties)).map_err(|e| self.parquet_error(&e))
    }

    fn parquet_error(&self, e: &ParquetError) -> Error {
        Error::unsupported(self.path.display().to_string(), format!("writing stream \"{}\": {e}", self.options.stream))
    }

    /// Row timestamps of `batch` in nanoseconds, after checking that they continue what was written.
    fn timestamps(&mut self, batch: &RecordBatch) -> Result<Vec<i64>> {
        if batch.schema_ref().fields() != self.schema.fields() {
            return Err(Error::InvalidInput("the batch's columns are not the archive's".into()));
        }
        let name = &self.options.ts_column;
        let row = |i: usize| self.rows + u64::try_from(i).unwrap_or(0) + 1;
        let raw = raw_integers(batch.column(self.ts_index), name)?;
        let mut out = Vec::with_capacity(raw.len());
        let mut previous = self.span.map(|span| span.1);
        for (i, value) in raw.into_iter().enumerate() {
            let value = value.ok_or_else(|| {
                Error::InvalidInput(format!(
                    "ts_column \"{name}\" is NULL in row {}: dendro keys every row by time",
                    row(i)
                ))
            })?;
            let ts = value.checked_mul(self.ts_unit).ok_or_else(|| {
                Error::InvalidInput(format!(
                    "ts_column \"{name}\" in row {} is beyond what 64-bit nanoseconds hold (years 1677 to 2262)",
                    row(i)
                ))
            })?;
            if previous.is_some_and(|p| ts < p) {
                return Err(Error::InvalidInput(format!(
                    "ts_column \"{name}\" falls in row {} ({ts} after {}): a dendro stream is in time order; add ORDER BY \
                     \"{name}\" to the query",
                    row(i),
                    previous.unwrap_or_default()
                )));
            }
            previous = Some(ts);
            out.push(ts);
        }
        if let (Some(first), Some(last)) = (out.first(), out.last()) {
            self.span = Some((self.span.map_or(*first, |span| span.0), *last));
        }
        self.rows += u64::try_from(out.len()).unwrap_or(0);
        Ok(out)
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        drop(self.conn.take());
        for suffix in ["", "-wal", "-shm", "-journal"] {
            // After a finished rename there is nothing under these names.
            let _ = std::fs::remove_file(side_file(&self.temporary, suffix));
        }
    }
}

/// A file with side files belongs to a writer, or holds commits that a new file under its name would inherit.
fn check_target(path: &Path, overwrite: bool) -> Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let side = side_file(path, suffix);
        if side.exists() {
            return Err(Error::unsupported(
                path.display().to_string(),
                format!(
                    "\"{}\" exists, so the archive there is in use or was not closed; let its writer finish, or remove both \
                     files, or write elsewhere",
                    side.display()
                ),
            ));
        }
    }
    if !overwrite && path.exists() {
        return Err(Error::InvalidInput(format!(
            "{}: the file exists; remove it or allow overwriting",
            path.display()
        )));
    }
    Ok(())
}

fn timestamp_column(schema: &SchemaRef, name: &str) -> Result<(usize, i64)> {
    let index = schema
        .index_of(name)
        .ok()
        .or_else(|| schema.fields().iter().position(|f| f.name().eq_ignore_ascii_case(name)))
        .ok_or_else(|| {
            let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            Error::InvalidInput(format!("no column \"{name}\" for TS_COLUMN; there are: {}", names.join(", ")))
        })?;
    let unit = match schema.field(index).data_type() {
        DataType::Int64 | DataType::UInt64 | DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        other => {
            return Err(Error::InvalidInput(format!(
                "TS_COLUMN \"{name}\" is {other}; it has to be a BIGINT or UBIGINT of nanoseconds, or a timestamp"
            )));
        }
    };
    Ok((index, unit))
}

fn raw_integers(column: &Arc<dyn Array>, name: &str) -> Result<Vec<Option<i64>>> {
    Ok(match column.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            column.as_primitive::<TimestampNanosecondType>().iter().collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().iter().collect()
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().iter().collect()
        }
        DataType::Timestamp(TimeUnit::Second, _) => column.as_primitive::<TimestampSecondType>().iter().collect(),
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().collect(),
        DataType::UInt64 => {
            let convert = |v: Option<u64>| {
                v.map(|v| {
                    i64::try_from(v).map_err(|_| {
                        Error::InvalidInput(format!("ts_column \"{name}\" holds {v}, beyond a signed 64-bit timestamp"))
                    })
                })
                .transpose()
            };
            column.as_primitive::<UInt64Type>().iter().map(convert).collect::<Result<_>>()?
        }
        other => return Err(Error::InvalidInput(format!("ts_column \"{name}\" is {other}"))),
    })
}
