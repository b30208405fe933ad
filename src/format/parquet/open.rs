//! Opening a Parquet file: one read of its tail, a second one only when the footer is larger, and checks of what the footer
//! claims before anything believes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};

use super::columns::Columns;
use super::fetch::{Kept, Memory, guarded, into_bytes};
use super::interval::{self, Intervals};
use super::page_index::PageIndex;
use super::{ENCRYPTED_MAGIC, MAGIC, TAIL_BYTES, annotations, lengths, shown};
use crate::format::names::distinct;
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
    /// Root columns that cannot be read, and why.
    unreadable: BTreeMap<usize, String>,
    /// Arrow schema of the file.
    pub(super) schema: SchemaRef,
    /// Rows of each row group.
    pub(super) block_rows: Vec<u64>,
    /// The root columns.
    pub(super) columns: Columns,
    /// Column and offset indexes, filled as they are asked for.
    pub(super) page_index: Arc<PageIndex>,
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
            return Err(short(path));
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

fn short(path: &str) -> Error {
    Error::io(path, "read the end of", "the store returned fewer bytes than it says that the file has")
}

fn footer_length(path: &str, tail: &Bytes, size: u64) -> Result<u64> {
    let Some((head, end)) = tail.split_last_chunk::<8>() else {
        return Err(short(path));
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

/// A decoded footer takes several times its encoded size.
fn weight(metadata: &ParquetMetaData, encoded: usize) -> u64 {
    let later = metadata.row_groups().iter().flat_map(|row_group| row_group.columns()).fold(0u64, |sum, chunk| {
        let lengths = [chunk.column_index_length(), chunk.offset_index_length(), chunk.bloom_filter_length()];
        lengths.into_iter().flatten().filter_map(|length| u64::try_from(length).ok()).fold(sum, u64::saturating_add)
    });
    u64::try_from(encoded).unwrap_or(u64::MAX).saturating_mul(6).saturating_add(later)
}

fn to_usize(path: &str, value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::unsupported(path, format!("{value} exceeds the address space")))
}

impl Footer {
    /// Refuses a projection with a column that cannot be read.
    pub(super) fn check_readable(&self, path: &str, projection: &[usize]) -> Result<()> {
        match projection.iter().find_map(|column| Some((column, self.unreadable.get(column)?))) {
            None => Ok(()),
            Some((column, why)) => Err(Error::unsupported(
                path,
                format!(
                    "column \"{}\" cannot be read: {why}; select the other columns",
                    self.schema.field(*column).name()
                ),
            )),
        }
    }
}

/// The schema with the root columns that have no type as text.
fn with_unreadable(schema: &SchemaRef, unreadable: &BTreeMap<usize, String>) -> SchemaRef {
    if unreadable.is_empty() {
        return Arc::clone(schema);
    }
    let field = |(index, field): (usize, &Arc<Field>)| match unreadable.contains_key(&index) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        false => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
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
    let possible = lengths::without_impossible(bytes).map(Bytes::from);
    let bytes = possible.as_ref().unwrap_or(bytes);
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
    let metadata = Arc::new(ParquetMetaDataBuilder::new_from_metadata(metadata).set_page_index(Some(provider)).build());
    let decoded = |plain: &[usize]| {
        let decoded = guarded(path, place, || interval::as_bytes(&metadata, plain, Arc::clone(&page_index) as _))?;
        let decoded = decoded.map_or_else(|| Arc::clone(&metadata), Arc::new);
        guarded(path, || "schema".to_owned(), || shown::arrow_metadata(&decoded))
    };
    let mut unreadable = BTreeMap::new();
    let arrow = decoded(&intervals.columns).or_else(|error| {
        unreadable = guarded(path, place, || Ok(shown::without_type(&metadata)))?;
        let plain: Vec<usize> = intervals.columns.iter().chain(unreadable.keys()).copied().collect();
        if unreadable.is_empty() { Err(error) } else { decoded(&plain) }
    })?;
    for root in &intervals.nested {
        unreadable.entry(*root).or_insert_with(|| "an INTERVAL within another type is not read here".to_owned());
    }
    let (schema, columns) = as_shown(&metadata, arrow.schema(), &intervals, &unreadable);
    let weight = weight(&metadata, bytes.len());
    Ok(Footer { metadata, arrow, text: None, intervals, unreadable, schema, block_rows, columns, page_index, weight })
}

/// The schema that a file is shown with, and its root columns.
fn as_shown(
    metadata: &ParquetMetaData,
    decoded: &SchemaRef,
    intervals: &Intervals,
    unreadable: &BTreeMap<usize, String>,
) -> (SchemaRef, Columns) {
    let readable = with_unreadable(&with_intervals(decoded, &intervals.columns), unreadable);
    let schema = distinct(&annotations::shown(&readable, metadata));
    let columns = Columns::new(metadata.file_metadata(), &schema);
    (schema, columns)
}

impl Footer {
    /// The footer with bytes that the file says nothing about as text.
    pub(super) fn with_text(&self) -> Self {
        let decoded = annotations::with_text(self.arrow.schema(), &self.schema);
        let (schema, columns) = as_shown(&self.metadata, &decoded, &self.intervals, &self.unreadable);
        Self {
            metadata: Arc::clone(&self.metadata),
            arrow: self.arrow.clone(),
            text: Some(decoded),
            intervals: self.intervals.clone(),
            unreadable: self.unreadable.clone(),
            schema,
            block_rows: self.block_rows.clone(),
            columns,
            page_index: Arc::clone(&self.page_index),
            weight: self.weight,
        }
    }
}
