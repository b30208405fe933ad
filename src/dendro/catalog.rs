//! The catalog of one snapshot as plain data.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, Row};
use serde_json::Value;

use super::clock::ClockSeries;
use super::connect::{IndexLayout, Layout};
use super::snapshot::CatalogError;
use crate::{Error, Result};

/// Sources, streams and segments of an archive at one instant.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Path of the archive.
    pub path: String,
    /// `user_version`: 4 or 5.
    pub schema_version: u32,
    /// By id.
    pub sources: Vec<Arc<SourceInfo>>,
    /// By source id, then name. A stream exists when it has segments or unsealed rows.
    pub streams: Vec<Arc<StreamInfo>>,
    /// What is wrong with the file as a whole but keeps nothing from being read.
    pub warnings: Vec<String>,
}

/// One producer over one span of time: one clock, one set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInfo {
    /// Row id, local to this file; copies renumber it.
    pub id: i64,
    /// Identity across files; `None` is unknown (an archive from before the column).
    pub uuid: Option<String>,
    /// The source's name, for selection and display. Not necessarily unique.
    pub labels: BTreeMap<String, String>,
    /// Everything else the producer said.
    pub metadata: BTreeMap<String, String>,
    /// Cleanly finalized. `false` means that data after the last row may be missing.
    pub complete: bool,
    /// Wall clock at the start, nanoseconds since the Unix epoch: what row timestamps count from.
    pub clock_anchor_wall_ns: i64,
    /// A counter that a running writer raises.
    pub heartbeat: Option<i64>,
    /// How often it does, in nanoseconds.
    pub heartbeat_interval_ns: Option<i64>,
    /// The observations that turn row timestamps into wall clock.
    pub clock: ClockSeries,
}

/// Rows that are committed but in no segment: only their number and span are known without the producer's encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveSpan {
    /// How many.
    pub rows: u64,
    /// Timestamp of the oldest.
    pub first_ts: Option<i64>,
    /// Timestamp of the newest.
    pub last_ts: Option<i64>,
}

/// One stream of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The source's id in this file.
    pub source_id: i64,
    /// The stream's name, an arbitrary string.
    pub name: String,
    /// By `seq`, which may have gaps.
    pub segments: Vec<SegmentInfo>,
    /// Rows past the newest sealed one.
    pub live: LiveSpan,
    /// Unpruned log rows that a segment already covers; they are not data.
    pub shadowed_rows: u64,
}

/// One segment, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Position in the stream.
    pub seq: i64,
    /// Log rows that went in. An encoder may have written more or fewer Parquet rows, so this is not a row count.
    pub rows: u64,
    /// Smallest row timestamp, as the encoder reported it.
    pub first_ts: i64,
    /// Largest row timestamp.
    pub last_ts: i64,
    /// Size of the Parquet file in bytes.
    pub byte_size: u64,
    /// Size of the caller's index, if the segment has one.
    pub index_size: Option<u64>,
}

/// An entry of a source's `events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Row timestamp.
    pub timestamp: Option<i64>,
    /// What happened.
    pub description: Option<String>,
    /// `producer_epoch`, `writer_session` or the producer's own.
    pub kind: Option<String>,
    /// More text.
    pub details: Option<String>,
    /// Stable id, by which a merge recognises duplicates.
    pub id: Option<String>,
}

impl SourceInfo {
    /// Version of the encoder that wrote the rows, if it reported one.
    pub fn encoder(&self) -> Option<&str> {
        self.metadata.get("encoder").map(String::as_str)
    }

    /// Version of the software that produced the values.
    pub fn producer_version(&self) -> Option<&str> {
        self.metadata.get("producer_version").map(String::as_str)
    }

    /// The current counter epoch.
    pub fn producer_epoch(&self) -> Option<&str> {
        self.metadata.get("producer_epoch").map(String::as_str)
    }

    /// The events of the source, in the order stored.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the metadata entry is not of the agreed form.
    pub fn events(&self) -> Result<Vec<Event>> {
        let Some(text) = self.metadata.get("events") else { return Ok(Vec::new()) };
        let malformed = |what: &str| {
            Error::InvalidInput(format!(
                "source {}: metadata \"events\" is not {{\"events\": [...]}} ({what}); read it as text from the metadata",
                self.id
            ))
        };
        let value: Value = serde_json::from_str(text).map_err(|e| malformed(&e.to_string()))?;
        let list = value.get("events").and_then(Value::as_array).ok_or_else(|| malformed("no list"))?;
        list.iter()
            .map(|entry| {
                let entry = entry.as_object().ok_or_else(|| malformed("an entry is not an object"))?;
                let text = |key: &str| entry.get(key).filter(|v| !v.is_null()).map(json_text);
                Ok(Event {
                    timestamp: entry.get("timestamp").and_then(Value::as_i64),
                    description: text("description"),
                    kind: text("kind"),
                    details: text("details"),
                    id: text("id"),
                })
            })
            .collect()
    }

    /// The source as messages name it: id and labels.
    pub fn describe(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        if labels.is_empty() {
            format!("source {}", self.id)
        } else {
            format!("source {} ({})", self.id, labels.join(", "))
        }
    }
}

impl StreamInfo {
    /// Smallest and largest row timestamp of the sealed segments.
    pub fn sealed_span(&self) -> Option<(i64, i64)> {
        let first = self.segments.iter().map(|s| s.first_ts).min()?;
        let last = self.segments.iter().map(|s| s.last_ts).max()?;
        Some((first, last))
    }

    /// Log rows sealed, by the catalog.
    pub fn catalog_rows(&self) -> u64 {
        self.segments.iter().fold(0, |sum, s| sum.saturating_add(s.rows))
    }

    /// Bytes of all segments.
    pub fn byte_size(&self) -> u64 {
        self.segments.iter().fold(0, |sum, s| sum.saturating_add(s.byte_size))
    }
}

impl Catalog {
    /// The source with this id in this file.
    pub fn source(&self, id: i64) -> Option<&Arc<SourceInfo>> {
        self.sources.iter().find(|s| s.id == id)
    }

    /// Every stream name, once, sorted.
    pub fn stream_names(&self) -> Vec<&str> {
        let names: std::collections::BTreeSet<&str> = self.streams.iter().map(|s| s.name.as_str()).collect();
        names.into_iter().collect()
    }
}

/// A JSON value as text: a string is itself.
fn json_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn json_map(path: &str, source: i64, column: &str, text: &str) -> Result<BTreeMap<String, String>> {
    let wrong = |what: String| {
        Error::corrupt(
            path,
            format!("source {source}, column {column}"),
            format!("not a JSON object of strings: {what}"),
        )
    };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Ok(map.iter().map(|(k, v)| (k.clone(), json_text(v))).collect()),
        Ok(_) => Err(wrong("another kind of JSON value".into())),
        Err(e) => Err(wrong(e.to_string())),
    }
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// Reads everything but BLOBs, inside the caller's transaction.
pub(super) fn load(
    conn: &Connection,
    path: &str,
    layout: &Layout,
    bytes_on_disk: u64,
) -> std::result::Result<Catalog, CatalogError> {
    let sources = load_sources(conn, path, layout)?;
    let mut streams: BTreeMap<(i64, String), StreamInfo> = BTreeMap::new();
    load_segments(conn, layout, &mut streams)?;
    load_live(conn, &mut streams)?;

    let mut warnings = Vec::new();
    let page_size: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    if let Ok(page_size @ 1..) = u64::try_from(page_size)
        && !bytes_on_disk.is_multiple_of(page_size)
        && !crate::dendro::connect::side_file(std::path::Path::new(path), "-wal").exists()
    {
        warnings.push(format!(
            "the file's {bytes_on_disk} bytes are not whole pages of {page_size}: it was cut short, and what was at its end is \
             unreadable"
        ));
    }
    let known: std::collections::HashSet<i64> = sources.iter().map(|s| s.id).collect();
    let mut orphans: BTreeMap<i64, usize> = BTreeMap::new();
    streams.retain(|(source, _), _| {
        let keep = known.contains(source);
        if !keep {
            *orphans.entry(*source).or_default() += 1;
        }
        keep
    });
    for (source, count) in orphans {
        warnings.push(format!(
            "{count} streams belong to source {source}, which the archive does not have, and are not listed"
        ));
    }
    Ok(Catalog {
        path: path.to_string(),
        schema_version: layout.version,
        sources: sources.into_iter().map(Arc::new).collect(),
        streams: streams.into_values().map(Arc::new).collect(),
        warnings,
    })
}

fn load_sources(conn: &Connection, path: &str, layout: &Layout) -> std::result::Result<Vec<SourceInfo>, CatalogError> {
    let mut offsets: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    let mut statement = conn.prepare("SELECT source_id, ts, offset_ns FROM clock_offsets ORDER BY source_id, ts")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        offsets.entry(row.get(0)?).or_default().push((row.get(1)?, row.get(2)?));
    }
    let uuid = if layout.uuid { "uuid" } else { "NULL" };
    let beat = if layout.heartbeat { "heartbeat, heartbeat_interval_ns" } else { "NULL, NULL" };
    let sql =
        format!("SELECT id, labels, metadata, complete, clock_anchor_wall_ns, {uuid}, {beat} FROM sources ORDER BY id");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut sources = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let labels = json_map(path, id, "labels", &row.get::<_, String>(1)?)?;
        let metadata = json_map(path, id, "metadata", &row.get::<_, String>(2)?)?;
        let anchor: i64 = row.get(4)?;
        let clock = ClockSeries::new(offsets.remove(&id).unwrap_or_default(), session_anchors(&metadata, anchor));
        sources.push(SourceInfo {
            id,
            uuid: row.get(5)?,
            labels,
            metadata,
            complete: row.get::<_, i64>(3)? != 0,
            clock_anchor_wall_ns: anchor,
            heartbeat: row.get(6)?,
            heartbeat_interval_ns: row.get(7)?,
            clock,
        });
    }
    Ok(sources)
}

/// Anchors of all writer sessions. The metadata is the producer's to write, so whatever is not of the agreed form is ignored.
fn session_anchors(metadata: &BTreeMap<String, String>, first: i64) -> Vec<i64> {
    let sessions: Option<Value> = metadata.get("writer_sessions").and_then(|text| serde_json::from_str(text).ok());
    let list = sessions.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let anchors = list.iter().filter_map(|s| s.get("clock_anchor_wall_ns").and_then(Value::as_i64));
    anchors.chain([first]).collect()
}

fn load_segments(
    conn: &Connection,
    layout: &Layout,
    streams: &mut BTreeMap<(i64, String), StreamInfo>,
) -> std::result::Result<(), CatalogError> {
    // octet_length answers from the record header; no BLOB page is touched.
    let sql = match layout.index {
        IndexLayout::Table => {
            "SELECT s.source_id, s.stream, s.seq, s.rows, s.first_ts, s.last_ts, octet_length(s.bytes), \
             octet_length(i.bytes) FROM segments s LEFT JOIN segment_indexes i ON i.source_id = s.source_id \
             AND i.stream = s.stream AND i.seq = s.seq ORDER BY s.source_id, s.stream, s.seq"
        }
        IndexLayout::Column => {
            "SELECT source_id, stream, seq, rows, first_ts, last_ts, octet_length(bytes), octet_length(caller_index) \
             FROM segments ORDER BY source_id, stream, seq"
        }
        IndexLayout::Absent => {
            "SELECT source_id, stream, seq, rows, first_ts, last_ts, octet_length(bytes), NULL \
             FROM segments ORDER BY source_id, stream, seq"
        }
    };
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let segment = SegmentInfo {
            seq: row.get(2)?,
            rows: unsigned(row, 3)?,
            first_ts: row.get(4)?,
            last_ts: row.get(5)?,
            byte_size: unsigned(row, 6)?,
            index_size: row.get::<_, Option<i64>>(7)?.and_then(|n| u64::try_from(n).ok()),
        };
        stream_entry(streams, row.get(0)?, row.get(1)?).segments.push(segment);
    }
    Ok(())
}

fn stream_entry(streams: &mut BTreeMap<(i64, String), StreamInfo>, source_id: i64, name: String) -> &mut StreamInfo {
    streams.entry((source_id, name.clone())).or_insert_with(|| StreamInfo {
        source_id,
        name,
        segments: Vec::new(),
        live: LiveSpan::default(),
        shadowed_rows: 0,
    })
}

fn load_live(
    conn: &Connection,
    streams: &mut BTreeMap<(i64, String), StreamInfo>,
) -> std::result::Result<(), CatalogError> {
    // A log row is live when it is past its own stream's newest sealed row, or the stream has no segment. Timestamps may be
    // zero or negative, so "no segment" is a NULL and never a sentinel.
    let mut statement = conn.prepare(
        "WITH sealed AS (SELECT source_id, stream, MAX(last_ts) AS mark FROM segments GROUP BY source_id, stream) \
         SELECT w.source_id, w.stream, COUNT(*), \
           SUM(s.mark IS NULL OR w.ts > s.mark), \
           MIN(CASE WHEN s.mark IS NULL OR w.ts > s.mark THEN w.ts END), \
           MAX(CASE WHEN s.mark IS NULL OR w.ts > s.mark THEN w.ts END) \
         FROM wal w LEFT JOIN sealed s ON s.source_id = w.source_id AND s.stream = w.stream \
         GROUP BY w.source_id, w.stream",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let all = unsigned(row, 2)?;
        let live = unsigned(row, 3)?;
        let stream = stream_entry(streams, row.get(0)?, row.get(1)?);
        stream.live = LiveSpan { rows: live, first_ts: row.get(4)?, last_ts: row.get(5)? };
        stream.shadowed_rows = all.saturating_sub(live);
    }
    Ok(())
}
