//! Choosing a stream, and choosing among its segments by what the catalog says.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalog::{Catalog, LiveSpan, SegmentInfo, SourceInfo, StreamInfo};
use super::schema::{TableSchema, VirtualColumn};
use crate::predicate::{ColumnStats, Evidence, Scalar};
use crate::{Error, Result};

/// Which stream of which sources to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A source's id in this file, or its uuid. `None` is every source.
    pub source: Option<String>,
    /// The stream's name. `None` is allowed when the chosen sources have only one.
    pub stream: Option<String>,
    /// Labels that a source must have, all of them.
    pub labels: BTreeMap<String, String>,
}

/// An inclusive range of row timestamps; a missing bound is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TsRange {
    /// Smallest timestamp wanted.
    pub low: Option<i64>,
    /// Largest timestamp wanted.
    pub high: Option<i64>,
}

/// One stream name across the sources that have it: a table.
#[derive(Debug, Clone)]
pub struct StreamTable {
    /// Path of the archive.
    pub path: String,
    /// The stream's name.
    pub name: String,
    /// The sources, by id, each with its own stream of that name.
    pub parts: Vec<(Arc<SourceInfo>, Arc<StreamInfo>)>,
}

/// One segment with the source and stream it belongs to.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Its source.
    pub source: Arc<SourceInfo>,
    /// Its stream.
    pub stream: Arc<StreamInfo>,
    /// What the catalog says about it.
    pub info: SegmentInfo,
}

/// Rows of a stream that exist and were not read, because only the producer's encoder can read them.
#[derive(Debug, Clone)]
pub struct UnreadTail {
    /// The source.
    pub source: Arc<SourceInfo>,
    /// The stream's name.
    pub stream: String,
    /// How many rows, and their span.
    pub live: LiveSpan,
}

impl std::fmt::Display for UnreadTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let span = |ts: Option<i64>| ts.map_or_else(|| "?".to_string(), |ts| ts.to_string());
        write!(
            f,
            "{}, stream \"{}\": {} rows from {} to {} are committed but not sealed into a segment, and were not read: only \
             the producer's encoder ({}) knows their form",
            self.source.describe(),
            self.stream,
            self.live.rows,
            span(self.live.first_ts),
            span(self.live.last_ts),
            self.source.encoder().map_or_else(|| "version not recorded".to_string(), |v| format!("version \"{v}\"")),
        )
    }
}

impl Selection {
    fn wants(&self, source: &SourceInfo) -> bool {
        let named = self.source.as_ref().is_none_or(|wanted| {
            source.uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(wanted))
                || wanted.parse::<i64>().is_ok_and(|id| id == source.id)
        });
        named && self.labels.iter().all(|(k, v)| source.labels.get(k) == Some(v))
    }
}

fn listing<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| format!("\"{n}\"")).collect();
    if quoted.is_empty() { "none".into() } else { quoted.join(", ") }
}

impl Catalog {
    /// The sources that `selection` names, by id.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when it names none, with the sources there are.
    pub fn select_sources(&self, selection: &Selection) -> Result<Vec<Arc<SourceInfo>>> {
        let chosen: Vec<_> = self.sources.iter().filter(|s| selection.wants(s)).cloned().collect();
        if chosen.is_empty() && (selection.source.is_some() || !selection.labels.is_empty()) {
            let have: Vec<String> = self
                .sources
                .iter()
                .map(|s| match &s.uuid {
                    Some(uuid) => format!("{} uuid {uuid}", s.describe()),
                    None => s.describe(),
                })
                .collect();
            return Err(Error::InvalidInput(format!(
                "{}: no source matches {}; the archive has {}",
                self.path,
                match &selection.source {
                    Some(source) => format!("source \"{source}\" and the labels given"),
                    None => "the labels given".to_string(),
                },
                if have.is_empty() { "no sources".to_string() } else { have.join("; ") }
            )));
        }
        Ok(chosen)
    }

    /// The stream that `selection` names, as a table.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when no source or stream matches, or when no stream is named and there are several; the message
    /// lists the choices.
    pub fn table(&self, selection: &Selection) -> Result<StreamTable> {
        let sources = self.select_sources(selection)?;
        let of_source = |id: i64| self.streams.iter().filter(move |s| s.source_id == id);
        let name = match &selection.stream {
            Some(name) => name.clone(),
            None => {
                let names: std::collections::BTreeSet<&str> =
                    sources.iter().flat_map(|s| of_source(s.id)).map(|s| s.name.as_str()).collect();
                match (names.first(), names.len()) {
                    (Some(only), 1) => (*only).to_string(),
                    (None, _) => {
                        return Err(Error::InvalidInput(format!("{}: the archive has no streams to read", self.path)));
                    }
                    _ => {
                        return Err(Error::InvalidInput(format!(
                            "{}: the archive has several streams, name one with stream := '…': {}",
                            self.path,
                            listing(names)
                        )));
                    }
                }
            }
        };
        let parts: Vec<_> = sources
            .iter()
            .filter_map(|source| Some((source.clone(), of_source(source.id).find(|s| s.name == name)?.clone())))
            .collect();
        if parts.is_empty() {
            let names: std::collections::BTreeSet<&str> =
                sources.iter().flat_map(|s| of_source(s.id)).map(|s| s.name.as_str()).collect();
            return Err(Error::InvalidInput(format!(
                "{}: no stream \"{name}\" in the sources chosen; they have {}",
                self.path,
                listing(names)
            )));
        }
        Ok(StreamTable { path: self.path.clone(), name, parts })
    }

    /// Every unsealed tail of the archive.
    pub fn unread_tails(&self) -> Vec<UnreadTail> {
        let tail = |stream: &Arc<StreamInfo>| Some((self.source(stream.source_id)?.clone(), stream.clone()));
        self.streams.iter().filter_map(tail).filter_map(|(source, stream)| unread(&source, &stream)).collect()
    }
}

fn unread(source: &Arc<SourceInfo>, stream: &StreamInfo) -> Option<UnreadTail> {
    let live = stream.live;
    (live.rows > 0).then(|| UnreadTail { source: source.clone(), stream: stream.name.clone(), live })
}

impl StreamTable {
    /// Every segment: by source, then by `seq`. Concatenated they are the sealed rows, without duplicates.
    pub fn segments(&self) -> Vec<Segment> {
        self.segments_in(TsRange::default())
    }

    /// The segments that may hold rows with timestamps in `range`, in the order of [`StreamTable::segments`]. Asks the catalog
    /// only.
    pub fn segments_in(&self, range: TsRange) -> Vec<Segment> {
        self.parts
            .iter()
            .flat_map(|(source, stream)| {
                stream.segments.iter().filter(move |s| s.overlaps(range)).map(move |info| Segment {
                    source: source.clone(),
                    stream: stream.clone(),
                    info: info.clone(),
                })
            })
            .collect()
    }

    /// Unsealed rows that a scan of this table does not return. A scan has to report them: they are data, not absence.
    pub fn unread_tails(&self) -> Vec<UnreadTail> {
        self.parts.iter().filter_map(|(source, stream)| unread(source, stream)).collect()
    }

    /// For users who prefer no answer to an incomplete one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when [`StreamTable::unread_tails`] is not empty.
    pub fn require_sealed(&self) -> Result<()> {
        let tails: Vec<String> = self.unread_tails().iter().map(ToString::to_string).collect();
        if tails.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(
            self.path.clone(),
            format!("{}; let the writer seal or finalize first", tails.join("; ")),
        ))
    }
}

impl SegmentInfo {
    /// The bounds of the row timestamps, `None` when the pair is reversed and so proves nothing.
    pub fn ts_bounds(&self) -> Option<(i64, i64)> {
        (self.first_ts <= self.last_ts).then_some((self.first_ts, self.last_ts))
    }

    /// Whether some row's timestamp may lie in `range`.
    pub fn overlaps(&self, range: TsRange) -> bool {
        self.ts_bounds().is_none_or(|(first, last)| {
            range.low.is_none_or(|low| last >= low) && range.high.is_none_or(|high| first <= high)
        })
    }
}

impl Segment {
    /// The segment as messages name it, after the archive's path.
    pub fn describe(&self) -> String {
        format!("source {}, stream \"{}\", segment {}", self.source.id, self.stream.name, self.info.seq)
    }
}

/// What the catalog proves about the rows of a segment, for pruning before its BLOB is fetched.
#[derive(Debug, Clone)]
pub struct SegmentEvidence {
    /// Bounds by column name, as the table's schema spells it.
    columns: Vec<(String, ColumnStats)>,
}

impl SegmentEvidence {
    /// Evidence for `segment` read with the columns of `schema`: bounds of the timestamp column and of the wall clock, and the
    /// source columns, which are constant.
    pub fn new(schema: &TableSchema, segment: &Segment) -> Self {
        let mut columns = Vec::new();
        if let Some(time) = schema.time_column()
            && let Some((first, last)) = segment.info.ts_bounds()
        {
            let stats = ColumnStats {
                min: Some(time.lower(first)),
                max: Some(time.upper(last)),
                // An encoder reports the span of what it wrote, but it is not ours to vouch that the ends are rows of the file.
                min_exact: false,
                max_exact: false,
                null_count: None,
                nan_count: Some(0),
            };
            columns.push((time.name.clone(), stats));
        }
        for (name, column) in schema.virtual_columns() {
            columns.extend(virtual_stats(column, schema, segment).map(|stats| (name.to_string(), stats)));
        }
        Self { columns }
    }
}

fn constant(value: Scalar) -> ColumnStats {
    ColumnStats {
        min: Some(value.clone()),
        max: Some(value),
        min_exact: true,
        max_exact: true,
        null_count: Some(0),
        nan_count: Some(0),
    }
}

fn virtual_stats(column: VirtualColumn, schema: &TableSchema, segment: &Segment) -> Option<ColumnStats> {
    match column {
        VirtualColumn::SourceId => Some(constant(Scalar::Int(i128::from(segment.source.id)))),
        VirtualColumn::SourceUuid => segment.source.uuid.clone().map(|uuid| constant(Scalar::Str(uuid))),
        VirtualColumn::Labels => None,
        VirtualColumn::WallTs => {
            let (first, last) = schema.time_column()?.span(segment.info.ts_bounds()?)?;
            let (low, high) = segment.source.clock.wall_bounds(first, last)?;
            Some(ColumnStats {
                min: Some(Scalar::TimestampNs(i128::from(low))),
                max: Some(Scalar::TimestampNs(i128::from(high))),
                min_exact: false,
                max_exact: false,
                null_count: None,
                nan_count: Some(0),
            })
        }
    }
}

impl Evidence for SegmentEvidence {
    fn row_count(&self) -> Option<u64> {
        // The catalog counts log rows, and an encoder may write any number of Parquet rows for one.
        None
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.columns.iter().find(|(n, _)| n == name).map(|(_, stats)| stats.clone())
    }
}
