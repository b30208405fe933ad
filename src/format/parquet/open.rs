//! Opening a Parquet file: one read of its tail, a second one only when the footer is larger, and checks of what the footer
//! claims before anything believes it.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use arrow::datatypes::{Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};

use super::columns::Columns;
use super::fetch::{Kept, Memory, guarded, into_bytes};
use super::interval::{self, Intervals};
use super::page_index::PageIndex;
use super::{BLOCK_STATS_KEY, ENCRYPTED_MAGIC, MAGIC, TAIL_BYTES, annotations};
use crate::format::names::{by_shown_name, distinct};
use crate::stats::json::{BlockColumns, parse};
use crate::storage::Source;
use crate::{Error, Result};

/// Bytes after the footer: its length and the magic.
const FOOTER_END: u64 = 8;

/// The most that is looked at of an end that was fetched already.
const MAX_TAIL_BYTES: u64 = 1 << 20;

/// The longest footer that is read: a length beyond it is a damaged file, not a large one.
const MAX_FOOTER_BYTES: u64 = 1 << 30;

/// What an open file is known by.
#[derive(Debug)]
pub(super) struct Footer {
    /// The decoded footer. Its page index is `page_index`.
    pub(super) metadata: Arc<ParquetMetaData>,
    /// The footer with the Arrow schema and the levels of its columns, as the decoder wants it.
    pub(super) arrow: ArrowReaderMetadata,
    /// What the decoder's columns are cast to, where bytes are to be text: the decoder itself would take any bytes for text.
    pub(super) text: Option<SchemaRef>,
    /// Root columns with intervals.
    pub(super) intervals: Intervals,
    /// Arrow schema of the file.
    pub(super) schema: SchemaRef,
    /// Rows of each row group.
    pub(super) block_rows: Vec<u64>,
    /// The root columns.
    pub(super) columns: Columns,
    /// Column and offset indexes, filled as they are asked for.
    pub(super) page_index: Arc<PageIndex>,
    block_stats: OnceLock<Vec<BlockColumns>>,
    /// Bytes of memory that the footer takes, and that the page index and the bloom filters may come to take, roughly.
    pub(super) weight: u64,
}

/// Reads and checks the footer of `source`.
pub(super) fn open(source: &Arc<dyn Source>) -> Result<(Arc<Memory>, Footer)> {
    let identity = source.identity().clone();
    let path = identity.path.as_str();
    let size = identity.size;
    if size < FOOTER_END + 4 {
        return Err(Error::corrupt(
            path,
            "end of file",
            format!("a Parquet file has at least 12 bytes, this one has {size}"),
        ));
    }
    let tail_start = size.saturating_sub(TAIL_BYTES.max(source.fetched_tail().min(MAX_TAIL_BYTES)));
    let tail = into_bytes(source.read(tail_start..size)?);
    let footer_length = footer_length(path, &tail, size)?;
    let footer_start = size - FOOTER_END - footer_length;
    let (footer, before) = if footer_start >= tail_start {
        let cut = to_usize(path, footer_start - tail_start)?;
        let end = to_usize(path, size - FOOTER_END - tail_start)?;
        if cut > end || end > tail.len() {
            return Err(Error::corrupt(path, "end of file", "the store returned fewer bytes than the file has"));
        }
        (tail.slice(cut..end), tail.slice(..cut))
    } else {
        (into_bytes(source.read(footer_start..size - FOOTER_END)?), Bytes::new())
    };
    let footer = decode(path, &footer)?;
    let tail = if source.is_mapped() { Kept::default() } else { worth_keeping(&footer.metadata, tail_start, &before) };
    Ok((Arc::new(Memory::with_tail(tail)), footer))
}

/// The part of `before` (the bytes at `offset`, up to the footer) that holds indexes and filters, copied so that it does not
/// keep the rest alive.
fn worth_keeping(metadata: &ParquetMetaData, offset: u64, before: &Bytes) -> Kept {
    let starts = metadata.row_groups().iter().flat_map(|row_group| row_group.columns()).flat_map(|chunk| {
        [chunk.column_index_offset(), chunk.offset_index_offset(), chunk.bloom_filter_offset()].into_iter().flatten()
    });
    let first = starts.filter_map(|start| u64::try_from(start).ok()).filter(|start| *start >= offset).min();
    let cut =
        first.and_then(|first| usize::try_from(first - offset).ok()).and_then(|cut| Some((cut, before.get(cut..)?)));
    match cut {
        Some((cut, bytes)) => Kept {
            offset: offset.saturating_add(u64::try_from(cut).unwrap_or(u64::MAX)),
            bytes: Bytes::copy_from_slice(bytes),
        },
        None => Kept::default(),
    }
}

fn footer_length(path: &str, tail: &Bytes, size: u64) -> Result<u64> {
    let Some((head, end)) = tail.split_last_chunk::<8>() else {
        return Err(Error::corrupt(path, "end of file", "the store returned fewer bytes than the file has"));
    };
    let _ = head;
    let [a, b, c, d, magic @ ..] = *end;
    if &magic == ENCRYPTED_MAGIC {
        return Err(Error::unsupported(path, "the Parquet footer is encrypted; encrypted files are not read"));
    }
    if &magic != MAGIC {
        return Err(Error::corrupt(
            path,
            format!("bytes {}..{size}", size - 4),
            format!("a Parquet file ends with \"PAR1\", this one with {:?}", String::from_utf8_lossy(&magic)),
        ));
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if length == 0 || length > MAX_FOOTER_BYTES || length > size - FOOTER_END - 4 {
        return Err(Error::corrupt(
            path,
            format!("bytes {}..{}", size - 8, size - 4),
            format!("the footer is said to be {length} bytes long in a file of {size}"),
        ));
    }
    Ok(length)
}

impl Footer {
    /// The block statistics that this project's writers add, per row group; empty if the file has none that fit it. Parsed
    /// when first asked for: they repeat most of what the footer says itself.
    pub(super) fn block_stats(&self) -> &[BlockColumns] {
        self.block_stats.get_or_init(|| {
            let entries = self.metadata.file_metadata().key_value_metadata().map(Vec::as_slice).unwrap_or_default();
            let entry = entries.iter().find(|entry| entry.key == BLOCK_STATS_KEY);
            let text = entry.and_then(|entry| entry.value.as_deref());
            let file = self.arrow.schema();
            let parsed = text.and_then(|text| parse(text.as_bytes(), file, &self.block_rows).ok()).unwrap_or_default();
            by_shown_name(parsed, file, &self.schema)
        })
    }
}

/// A decoded footer takes several times its encoded size.
fn weight(metadata: &ParquetMetaData, encoded: usize) -> u64 {
    let later = metadata.row_groups().iter().flat_map(|row_group| row_group.columns()).fold(0u64, |sum, chunk| {
        let lengths = [chunk.column_index_length(), chunk.offset_index_length(), chunk.bloom_filter_length()];
        lengths.into_iter().flatten().filter_map(|length| u64::try_from(length).ok()).fold(sum, u64::saturating_add)
    });
    u64::try_from(encoded).unwrap_or(u64::MAX).saturating_mul(6).saturating_add(later)
}

fn to_usize(path: &str, value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::corrupt(path, "footer", format!("{value} exceeds the address space")))
}

impl Footer {
    /// Refuses a projection with a column that cannot be read.
    pub(super) fn check_readable(&self, path: &str, projection: &[usize]) -> Result<()> {
        match projection.iter().find(|column| self.intervals.nested.contains(column)) {
            None => Ok(()),
            Some(column) => Err(Error::unsupported(
                path,
                format!(
                    "column \"{}\" holds a Parquet INTERVAL within another type, which is not read here; select the other columns, \
                     or use read_parquet",
                    self.schema.field(*column).name()
                ),
            )),
        }
    }
}

/// The schema with the root columns `columns` as intervals.
fn with_intervals(schema: &SchemaRef, columns: &[usize]) -> SchemaRef {
    if columns.is_empty() {
        return Arc::clone(schema);
    }
    let field = |(index, field): (usize, &Arc<Field>)| match columns.contains(&index) {
        true => field.as_ref().clone().with_data_type(interval::TYPE),
        false => field.as_ref().clone(),
    };
    let fields: Vec<Field> = schema.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn decode(path: &str, bytes: &Bytes) -> Result<Footer> {
    let place = || "footer".to_owned();
    let options = ParquetMetaDataOptions::new()
        .with_encoding_stats_as_mask(true)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let metadata = guarded(path, place, || ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)))?;

    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let mut block_rows = Vec::with_capacity(metadata.num_row_groups());
    for (index, row_group) in metadata.row_groups().iter().enumerate() {
        let rows = u64::try_from(row_group.num_rows()).map_err(|_| {
            Error::corrupt(path, format!("row group {index}"), format!("it claims {} rows", row_group.num_rows()))
        })?;
        if row_group.num_columns() != leaves {
            return Err(Error::corrupt(
                path,
                format!("row group {index}"),
                format!("it has {} columns, the schema has {leaves}", row_group.num_columns()),
            ));
        }
        block_rows.push(rows);
    }
    if u32::try_from(block_rows.len()).is_err() {
        return Err(Error::corrupt(path, "footer", format!("{} row groups", block_rows.len())));
    }

    let page_index = Arc::new(PageIndex::new(&metadata));
    let provider: Arc<PageIndex> = Arc::clone(&page_index);
    let intervals = Intervals::of(&metadata);
    let decoded = guarded(path, place, || intervals.as_bytes(&metadata, Arc::clone(&page_index) as _))?;
    let metadata = Arc::new(ParquetMetaDataBuilder::new_from_metadata(metadata).set_page_index(Some(provider)).build());
    let decoded = decoded.map_or_else(|| Arc::clone(&metadata), Arc::new);
    // A damaged or foreign ARROW:schema is a hint that cannot be taken, not a reason to refuse the file.
    let arrow = guarded(path, place, || ArrowReaderMetadata::try_new(Arc::clone(&decoded), ArrowReaderOptions::new()))
        .or_else(|_| {
            guarded(
                path,
                || "schema".to_owned(),
                || {
                    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
                    ArrowReaderMetadata::try_new(Arc::clone(&decoded), options)
                },
            )
        })?;
    let (schema, columns) = shown(&metadata, arrow.schema(), &intervals);
    let weight = weight(&metadata, bytes.len());
    Ok(Footer {
        metadata,
        arrow,
        text: None,
        intervals,
        schema,
        block_rows,
        columns,
        page_index,
        block_stats: OnceLock::new(),
        weight,
    })
}

/// The schema that a file is shown with, and its root columns.
fn shown(metadata: &ParquetMetaData, decoded: &SchemaRef, intervals: &Intervals) -> (SchemaRef, Columns) {
    let schema = distinct(&annotations::shown(&with_intervals(decoded, &intervals.columns), metadata));
    let columns = Columns::new(metadata.file_metadata(), &schema);
    (schema, columns)
}

impl Footer {
    /// The footer with bytes that the file says nothing about as text.
    pub(super) fn with_text(&self) -> Self {
        let decoded = annotations::with_text(self.arrow.schema(), &self.schema);
        let (schema, columns) = shown(&self.metadata, &decoded, &self.intervals);
        Self {
            metadata: Arc::clone(&self.metadata),
            arrow: self.arrow.clone(),
            text: Some(decoded),
            intervals: self.intervals.clone(),
            schema,
            block_rows: self.block_rows.clone(),
            columns,
            page_index: Arc::clone(&self.page_index),
            block_stats: OnceLock::new(),
            weight: self.weight,
        }
    }
}
