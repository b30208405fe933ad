//! The catalog as Arrow tables with fixed schemas, for the `dendro_*` listing functions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, BinaryArray, BinaryBuilder, BooleanArray, Int64Array, Int64Builder, MapBuilder, RecordBatch, StringArray,
    StringBuilder, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use rusqlite::params;

use super::catalog::{Catalog, SourceInfo};
use super::snapshot::Snapshot;
use super::table::Segment;
use crate::{Error, Result};

/// Caller rows per batch, at most.
const CHUNK_ROWS: usize = 8192;

/// Bytes of caller rows per batch, about.
const CHUNK_BYTES: usize = 16 << 20;

/// `Map(Utf8, Utf8)` as all label and metadata columns have it.
pub fn labels_type() -> DataType {
    let entries =
        Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

fn schema_of(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, t)| Field::new(*name, t.clone(), true)).collect::<Vec<_>>()))
}

fn wall() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

macro_rules! schemas {
    ($($(#[$doc:meta])* $name:ident: [$(($column:literal, $type:expr)),* $(,)?];)*) => {
        $($(#[$doc])*
        pub fn $name() -> SchemaRef {
            static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| schema_of(&[$(($column, $type)),*]));
            SCHEMA.clone()
        })*
    };
}

use DataType::{Binary, Boolean, Int64, UInt32, UInt64, Utf8};

schemas! {
    /// One row per source, by id. Timestamps `first_ts`, `last_ts` span the sealed segments of all its streams.
    sources_schema: [
        ("source_id", Int64), ("source_uuid", Utf8), ("labels", labels_type()), ("metadata", labels_type()),
        ("complete", Boolean), ("clock_anchor_wall_ns", Int64), ("started_at", wall()), ("encoder", Utf8),
        ("producer_version", Utf8), ("producer_epoch", Utf8), ("heartbeat", Int64), ("heartbeat_interval_ns", Int64),
        ("streams", UInt64), ("segments", UInt64), ("byte_size", UInt64), ("first_ts", Int64), ("last_ts", Int64),
        ("live_rows", UInt64), ("schema_version", UInt32),
    ];
    /// One row per stream, by source id and name. `catalog_rows` counts log rows that were sealed, which is not the number of
    /// rows a scan returns. `live_*` describe rows that no scan returns, and `warning` says so when there are any.
    streams_schema: [
        ("source_id", Int64), ("source_uuid", Utf8), ("labels", labels_type()), ("stream", Utf8), ("segments", UInt64),
        ("catalog_rows", UInt64), ("byte_size", UInt64), ("first_ts", Int64), ("last_ts", Int64), ("min_seq", Int64),
        ("max_seq", Int64), ("live_rows", UInt64), ("live_first_ts", Int64), ("live_last_ts", Int64),
        ("shadowed_rows", UInt64), ("encoder", Utf8), ("complete", Boolean), ("warning", Utf8),
    ];
    /// One row per segment, by source id, stream and `seq`. `caller_index` is NULL where there is none, and everywhere unless
    /// asked for.
    segments_schema: [
        ("source_id", Int64), ("source_uuid", Utf8), ("stream", Utf8), ("seq", Int64), ("catalog_rows", UInt64),
        ("first_ts", Int64), ("last_ts", Int64), ("first_wall_ts", wall()), ("last_wall_ts", wall()),
        ("byte_size", UInt64), ("caller_index_size", UInt64), ("caller_index", Binary),
    ];
    /// One row per event, by source id, in stored order.
    events_schema: [
        ("source_id", Int64), ("source_uuid", Utf8), ("timestamp", Int64), ("wall_ts", wall()), ("kind", Utf8),
        ("description", Utf8), ("details", Utf8), ("event_id", Utf8),
    ];
    /// One row per clock observation, by source id and `ts`.
    clock_offsets_schema: [
        ("source_id", Int64), ("source_uuid", Utf8), ("ts", Int64), ("offset_ns", Int64), ("wall_ts", wall()),
    ];
    /// One row per row of the caller's store, by source id, stream, `ts` and insertion order.
    caller_rows_schema: [
        ("source_id", Int64), ("source_uuid", Utf8), ("stream", Utf8), ("ts", Int64), ("blob", Binary),
    ];
    /// One row per document revision, in the order written. `current` marks the newest revision of a document that is not
    /// deleted. Empty for schema version 4.
    documents_schema: [
        ("id", Int64), ("uuid", Utf8), ("kind", Utf8), ("name", Utf8), ("schema", Utf8), ("body", Utf8),
        ("created_at", wall()), ("supersedes", Int64), ("current", Boolean),
    ];
}

/// Which caller rows to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerRowFilter {
    /// The source's id in this file.
    pub source_id: Option<i64>,
    /// The name the rows are kept under. It need not be a stream.
    pub stream: Option<String>,
    /// Smallest and largest timestamp, inclusive.
    pub ts: super::table::TsRange,
}

/// The listings that need nothing but the catalog. Schemas: the functions of the same names.
pub trait CatalogBatches {
    /// [`sources_schema`].
    fn sources_batch(&self) -> Result<RecordBatch>;
    /// [`streams_schema`].
    fn streams_batch(&self) -> Result<RecordBatch>;
    /// [`events_schema`]. Fails when a source's events are malformed.
    fn events_batch(&self) -> Result<RecordBatch>;
    /// [`clock_offsets_schema`].
    fn clock_offsets_batch(&self) -> Result<RecordBatch>;
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(schema, columns).map_err(|e| Error::InvalidInput(format!("building a listing: {e}")))
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn ints(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

fn counts(values: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<UInt64Array>())
}

fn texts<S: AsRef<str>>(values: impl IntoIterator<Item = Option<S>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

fn flags(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

fn instants(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<TimestampNanosecondArray>())
}

fn maps<'a>(values: impl IntoIterator<Item = &'a BTreeMap<String, String>>) -> Result<ArrayRef> {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for map in values {
        for (key, value) in map {
            builder.keys().append_value(key);
            builder.values().append_value(value);
        }
        builder.append(true).map_err(|e| Error::InvalidInput(format!("building a listing: {e}")))?;
    }
    Ok(Arc::new(builder.finish()))
}

impl CatalogBatches for Catalog {
    fn sources_batch(&self) -> Result<RecordBatch> {
        let all = &self.sources;
        let each = || all.iter().map(|s| (s, self.streams.iter().filter(move |t| t.source_id == s.id)));
        batch(
            sources_schema(),
            vec![
                ints(all.iter().map(|s| Some(s.id))),
                texts(all.iter().map(|s| s.uuid.as_deref())),
                maps(all.iter().map(|s| &s.labels))?,
                maps(all.iter().map(|s| &s.metadata))?,
                flags(all.iter().map(|s| s.complete)),
                ints(all.iter().map(|s| Some(s.clock_anchor_wall_ns))),
                instants(all.iter().map(|s| Some(s.clock_anchor_wall_ns))),
                texts(all.iter().map(|s| s.encoder())),
                texts(all.iter().map(|s| s.producer_version())),
                texts(all.iter().map(|s| s.producer_epoch())),
                ints(all.iter().map(|s| s.heartbeat)),
                ints(all.iter().map(|s| s.heartbeat_interval_ns)),
                counts(each().map(|(_, streams)| Some(count(streams.count())))),
                counts(each().map(|(_, streams)| Some(streams.map(|t| count(t.segments.len())).sum::<u64>()))),
                counts(each().map(|(_, streams)| Some(streams.fold(0, |n: u64, t| n.saturating_add(t.byte_size()))))),
                ints(each().map(|(_, streams)| streams.filter_map(|t| t.sealed_span()).map(|s| s.0).min())),
                ints(each().map(|(_, streams)| streams.filter_map(|t| t.sealed_span()).map(|s| s.1).max())),
                counts(each().map(|(_, streams)| Some(streams.fold(0, |n: u64, t| n.saturating_add(t.live.rows))))),
                Arc::new(UInt32Array::from_value(self.schema_version, all.len())),
            ],
        )
    }

    fn streams_batch(&self) -> Result<RecordBatch> {
        let tails = self.unread_tails();
        let all: Vec<_> = self.streams.iter().filter_map(|t| Some((self.source(t.source_id)?, t))).collect();
        let warning = |source: &SourceInfo, stream: &str| {
            let tail = tails.iter().find(|tail| tail.source.id == source.id && tail.stream == stream);
            tail.map(ToString::to_string)
        };
        batch(
            streams_schema(),
            vec![
                ints(all.iter().map(|(s, _)| Some(s.id))),
                texts(all.iter().map(|(s, _)| s.uuid.as_deref())),
                maps(all.iter().map(|(s, _)| &s.labels))?,
                texts(all.iter().map(|(_, t)| Some(&t.name))),
                counts(all.iter().map(|(_, t)| Some(count(t.segments.len())))),
                counts(all.iter().map(|(_, t)| Some(t.catalog_rows()))),
                counts(all.iter().map(|(_, t)| Some(t.byte_size()))),
                ints(all.iter().map(|(_, t)| t.sealed_span().map(|s| s.0))),
                ints(all.iter().map(|(_, t)| t.sealed_span().map(|s| s.1))),
                ints(all.iter().map(|(_, t)| t.segments.first().map(|s| s.seq))),
                ints(all.iter().map(|(_, t)| t.segments.last().map(|s| s.seq))),
                counts(all.iter().map(|(_, t)| Some(t.live.rows))),
                ints(all.iter().map(|(_, t)| t.live.first_ts)),
                ints(all.iter().map(|(_, t)| t.live.last_ts)),
                counts(all.iter().map(|(_, t)| Some(t.shadowed_rows))),
                texts(all.iter().map(|(s, _)| s.encoder())),
                flags(all.iter().map(|(s, _)| s.complete)),
                texts(all.iter().map(|(s, t)| warning(s, &t.name))),
            ],
        )
    }

    fn events_batch(&self) -> Result<RecordBatch> {
        let mut all = Vec::new();
        for source in &self.sources {
            all.extend(source.events()?.into_iter().map(|event| (source, event)));
        }
        batch(
            events_schema(),
            vec![
                ints(all.iter().map(|(s, _)| Some(s.id))),
                texts(all.iter().map(|(s, _)| s.uuid.as_deref())),
                ints(all.iter().map(|(_, e)| e.timestamp)),
                instants(all.iter().map(|(s, e)| s.clock.wall_ts(e.timestamp?))),
                texts(all.iter().map(|(_, e)| e.kind.as_deref())),
                texts(all.iter().map(|(_, e)| e.description.as_deref())),
                texts(all.iter().map(|(_, e)| e.details.as_deref())),
                texts(all.iter().map(|(_, e)| e.id.as_deref())),
            ],
        )
    }

    fn clock_offsets_batch(&self) -> Result<RecordBatch> {
        let all: Vec<_> =
            self.sources.iter().flat_map(|s| s.clock.observations().iter().map(move |o| (s, o.0, o.1))).collect();
        batch(
            clock_offsets_schema(),
            vec![
                ints(all.iter().map(|(s, ..)| Some(s.id))),
                texts(all.iter().map(|(s, ..)| s.uuid.as_deref())),
                ints(all.iter().map(|(_, ts, _)| Some(*ts))),
                ints(all.iter().map(|(.., offset)| Some(*offset))),
                instants(all.iter().map(|(_, ts, offset)| ts.checked_add(*offset))),
            ],
        )
    }
}

impl Snapshot {
    /// [`segments_schema`], for the whole archive. No segment's BLOB is read; `with_index` reads the caller indexes, which in
    /// schema version 4 lie behind the BLOBs.
    pub fn segments_batch(&self, catalog: &Catalog, with_index: bool) -> Result<RecordBatch> {
        let mut all: Vec<Segment> = Vec::new();
        let mut indexes: Vec<Option<Vec<u8>>> = Vec::new();
        for stream in &catalog.streams {
            let Some(source) = catalog.source(stream.source_id) else { continue };
            all.extend(stream.segments.iter().map(|info| Segment {
                source: source.clone(),
                stream: stream.clone(),
                info: info.clone(),
            }));
            if with_index && stream.segments.iter().any(|s| s.index_size.is_some()) {
                let mut by_seq: BTreeMap<i64, Option<Vec<u8>>> =
                    self.caller_indexes(stream.source_id, &stream.name)?.into_iter().collect();
                indexes.extend(stream.segments.iter().map(|s| by_seq.remove(&s.seq).flatten()));
            } else {
                indexes.resize(all.len(), None);
            }
        }
        let index: BinaryArray = indexes.iter().map(|i| i.as_deref()).collect();
        batch(
            segments_schema(),
            vec![
                ints(all.iter().map(|s| Some(s.source.id))),
                texts(all.iter().map(|s| s.source.uuid.as_deref())),
                texts(all.iter().map(|s| Some(&s.stream.name))),
                ints(all.iter().map(|s| Some(s.info.seq))),
                counts(all.iter().map(|s| Some(s.info.rows))),
                ints(all.iter().map(|s| Some(s.info.first_ts))),
                ints(all.iter().map(|s| Some(s.info.last_ts))),
                instants(all.iter().map(|s| s.source.clock.wall_ts(s.info.first_ts))),
                instants(all.iter().map(|s| s.source.clock.wall_ts(s.info.last_ts))),
                counts(all.iter().map(|s| Some(s.info.byte_size))),
                counts(all.iter().map(|s| s.info.index_size)),
                Arc::new(index),
            ],
        )
    }

    /// [`caller_rows_schema`], in batches of bounded size that are handed to `each` as they are read. `each` must not ask
    /// this snapshot anything: it holds the connection.
    pub fn caller_rows(&self, filter: &CallerRowFilter, mut each: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let uuid = if self.layout().uuid { "s.uuid" } else { "NULL" };
        let sql = format!(
            "SELECT c.source_id, {uuid}, c.stream, c.ts, c.blob FROM caller_rows c JOIN sources s ON s.id = c.source_id \
             WHERE (?1 IS NULL OR c.source_id = ?1) AND (?2 IS NULL OR c.stream = ?2) AND (?3 IS NULL OR c.ts >= ?3) \
             AND (?4 IS NULL OR c.ts <= ?4) ORDER BY c.source_id, c.stream, c.ts, c.rowid"
        );
        self.with_conn("reading caller rows", |conn| {
            let mut statement = conn.prepare(&sql)?;
            let mut rows = statement.query(params![filter.source_id, filter.stream, filter.ts.low, filter.ts.high])?;
            let mut chunk = CallerRows::default();
            while let Some(row) = rows.next()? {
                chunk.source.append_value(row.get(0)?);
                chunk.uuid.append_option(row.get::<_, Option<String>>(1)?);
                chunk.stream.append_value(row.get::<_, String>(2)?);
                chunk.ts.append_value(row.get(3)?);
                let blob = row.get_ref(4)?.as_blob().map_err(|e| {
                    rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Blob, Box::new(e))
                })?;
                chunk.bytes += blob.len();
                chunk.blob.append_value(blob);
                chunk.rows += 1;
                if chunk.rows >= CHUNK_ROWS || chunk.bytes >= CHUNK_BYTES {
                    each(chunk.take()?)?;
                }
            }
            if chunk.rows > 0 {
                each(chunk.take()?)?;
            }
            Ok(())
        })
    }

    /// [`documents_schema`].
    pub fn documents_batch(&self) -> Result<RecordBatch> {
        type Row = (i64, String, String, String, Option<String>, Option<String>, i64, Option<i64>, bool);
        let all: Vec<Row> = if self.layout().documents {
            self.with_conn("reading documents", |conn| {
                let mut statement = conn.prepare(
                    "SELECT id, uuid, kind, name, schema, body, created_wall_ns, supersedes, body IS NOT NULL AND id = \
                     (SELECT MAX(id) FROM documents n WHERE n.kind = d.kind AND n.name = d.name) FROM documents d ORDER BY id",
                )?;
                let rows = statement.query_map([], |r| {
                    Ok((
                        r.get(0)?,
                        r.get(1)?,
                        r.get(2)?,
                        r.get(3)?,
                        r.get(4)?,
                        r.get(5)?,
                        r.get(6)?,
                        r.get(7)?,
                        r.get(8)?,
                    ))
                })?;
                Ok(rows.collect::<rusqlite::Result<Vec<Row>>>()?)
            })?
        } else {
            Vec::new()
        };
        batch(
            documents_schema(),
            vec![
                ints(all.iter().map(|d| Some(d.0))),
                texts(all.iter().map(|d| Some(&d.1))),
                texts(all.iter().map(|d| Some(&d.2))),
                texts(all.iter().map(|d| Some(&d.3))),
                texts(all.iter().map(|d| d.4.as_deref())),
                texts(all.iter().map(|d| d.5.as_deref())),
                instants(all.iter().map(|d| Some(d.6))),
                ints(all.iter().map(|d| d.7)),
                flags(all.iter().map(|d| d.8)),
            ],
        )
    }
}

#[derive(Default)]
struct CallerRows {
    source: Int64Builder,
    uuid: StringBuilder,
    stream: StringBuilder,
    ts: Int64Builder,
    blob: BinaryBuilder,
    rows: usize,
    bytes: usize,
}

impl CallerRows {
    fn take(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
        self.bytes = 0;
        batch(
            caller_rows_schema(),
            vec![
                Arc::new(self.source.finish()),
                Arc::new(self.uuid.finish()),
                Arc::new(self.stream.finish()),
                Arc::new(self.ts.finish()),
                Arc::new(self.blob.finish()),
            ],
        )
    }
}
