//! Decoding: from a row group, a projection and rows to Arrow columns, reading the bytes of the pages that hold those rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, RowSelection};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder, RowGroupSelection};
use parquet::basic::Compression;

use super::fetch::{File, caught, guarded};
use super::open::Footer;
use super::page_header;
use super::page_index::{Wanted, chunk_range};
use super::{fields, interval};
use crate::format::parts::as_decoded;
use crate::format::{BlockId, ColumnPart, RowRanges, RowStream};
use crate::{Error, Result};

/// Rows decoded at a time where all of them are wanted at once. A row group that lies about its size costs at most the buffers of
/// so many rows.
const DECODE_ROWS: usize = 1 << 20;

/// Bytes decoded at a time, about, going by the average of the row group.
const DECODE_BYTES: u64 = 64 << 20;

/// An array of text has at most 2 GiB. Where the average misled so far (long values side by side, or few that repeat), rows are decoded
/// in batches of this part of the size.
const SMALLER_BATCHES: usize = 16;

/// Decodes `projection` (root columns, in any order, repeats allowed) of `rows` of `block`; all rows without `rows`.
pub(super) fn read(
    file: &File,
    footer: &Arc<Footer>,
    arrow: &ArrowReaderMetadata,
    block: BlockId,
    projection: &[usize],
    rows: Option<&RowRanges>,
) -> Result<RecordBatch> {
    let parts = ColumnPart::all_whole(projection);
    let mut stream = Stream::open(file, footer, arrow, block, &parts, rows, DECODE_ROWS)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next_batch()? {
        batches.push(batch);
    }
    match batches.len() {
        1 => Ok(batches.remove(0)),
        _ => {
            let schema = batches.first().map_or_else(|| Arc::clone(&stream.schema), RecordBatch::schema);
            guarded(file.path(), || place(block), || Ok(concat_batches(&schema, &batches)?))
        }
    }
}

fn place(block: BlockId) -> String {
    format!("row group {}", block.0)
}

/// Rows of one row group, decoded as they are asked for. Their bytes are in memory.
pub(super) struct Stream {
    file: File,
    footer: Arc<Footer>,
    block: BlockId,
    /// The columns that are decoded, ascending, and those that are asked for.
    roots: Vec<usize>,
    projection: Vec<usize>,
    /// The fields wanted of each of `roots`.
    parts: BTreeMap<usize, Vec<ColumnPart>>,
    leaves: Vec<usize>,
    schema: SchemaRef,
    arrow: ArrowReaderMetadata,
    /// The rows that are wanted, and how many there are in the row group.
    rows: RowRanges,
    total: u64,
    /// The decoder and the reader that it has made; none if there is nothing to decode.
    decoder: Option<ParquetPushDecoder>,
    reader: Option<ParquetRecordBatchReader>,
    /// Rows that are still to come, and how many of them at a time.
    left: usize,
    batch_rows: usize,
}

impl Stream {
    /// Reads the pages of `projection` (root columns or fields of them, in any order, repeats allowed) that hold `rows` of `block`;
    /// all rows without `rows`. Batches have at most `batch_rows` rows.
    pub(super) fn open(
        file: &File,
        footer: &Arc<Footer>,
        arrow: &ArrowReaderMetadata,
        block: BlockId,
        projection: &[ColumnPart],
        rows: Option<&RowRanges>,
        batch_rows: usize,
    ) -> Result<Self> {
        let path = file.path();
        let row_group = usize::try_from(block.0).unwrap_or(usize::MAX);
        let Some(total) = footer.block_rows.get(row_group).copied() else {
            return Err(Error::InvalidInput(format!(
                "\"{path}\" has {} row groups, row group {} was asked for",
                footer.block_rows.len(),
                block.0
            )));
        };
        let rows = rows.cloned().unwrap_or_else(|| RowRanges::all(total));
        let count = checked_rows(path, block, &rows, total)?;
        let columns = ColumnPart::columns(projection);
        footer.check_readable(path, &columns)?;
        let schema = projected(path, arrow.schema(), &columns)?;
        let left = usize::try_from(count).map_err(|_| {
            Error::unsupported(path, format!("{}: {count} rows exceed the address space", place(block)))
        })?;
        let mut roots = columns.clone();
        roots.sort_unstable();
        roots.dedup();
        let types: Vec<DataType> = arrow.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        let leaves = fields::leaves(arrow.parquet_schema(), &types, projection);
        let mut stream = Self {
            file: file.clone(),
            footer: Arc::clone(footer),
            block,
            roots,
            projection: columns,
            parts: ColumnPart::by_column(projection),
            leaves,
            schema,
            arrow: arrow.clone(),
            rows,
            total,
            decoder: None,
            reader: None,
            left,
            batch_rows: batch_rows.max(1),
        };
        if stream.leaves.is_empty() || left == 0 {
            return Ok(stream);
        }
        check_chunks(file, footer, row_group, &stream.leaves)?;
        stream.batch_rows = stream.batch_rows.min(stream.affordable_rows());
        stream.start()?;
        Ok(stream)
    }

    /// How many rows are about [`DECODE_BYTES`].
    fn affordable_rows(&self) -> usize {
        let row_group = self.footer.metadata.row_groups().get(usize::try_from(self.block.0).unwrap_or(usize::MAX));
        let chunks = row_group.map(|group| group.columns()).unwrap_or_default();
        let sizes = self.leaves.iter().filter_map(|leaf| u64::try_from(chunks.get(*leaf)?.uncompressed_size()).ok());
        let row = sizes.fold(0u64, u64::saturating_add) / self.total.max(1);
        usize::try_from(DECODE_BYTES / row.max(1)).unwrap_or(usize::MAX).max(1)
    }

    /// Makes a decoder for the rows that are still to come.
    fn start(&mut self) -> Result<()> {
        let (path, block) = (self.file.path(), self.block);
        let row_group = usize::try_from(block.0).unwrap_or(usize::MAX);
        let left = u64::try_from(self.left).unwrap_or(u64::MAX);
        let selection = if left == self.total {
            None
        } else {
            let wanted: Vec<Wanted> =
                self.leaves.iter().map(|leaf| Wanted { row_group, leaf: *leaf, statistics: false }).collect();
            self.footer.page_index.load(&self.file, &self.footer.metadata, &wanted)?;
            Some(selection(path, &last_rows(&self.rows, left), self.total)?)
        };
        let mask = ProjectionMask::leaves(self.arrow.parquet_schema(), self.leaves.iter().copied());
        let decoder = guarded(
            path,
            || place(block),
            || {
                ParquetPushDecoderBuilder::new_with_metadata(self.arrow.clone())
                    .with_row_group_selections(vec![RowGroupSelection::new(row_group, selection)])
                    .with_projection(mask)
                    .with_batch_size(self.left.min(self.batch_rows))
                    .build()
            },
        )?;
        self.decoder = Some(decoder);
        self.reader = None;
        self.advance()
    }

    /// What the decoder makes of the next rows; `None` inside if the row group has no more. Rows that do not fit into one array are tried
    /// again, fewer at a time.
    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(reader) = &mut self.reader else { return Ok(None) };
            let decoded = caught(|| Ok(reader.next().transpose()?));
            let error = match decoded {
                Ok(batch) => return Ok(batch),
                Err(error) => error,
            };
            let (path, place) = (self.file.path(), place(self.block));
            if !error.is_overflow() {
                return Err(error.at(path, place));
            }
            if self.batch_rows == 1 {
                let what = format!(
                    "{place}: a row of it holds more than the 2 GiB that one value can have; select other columns"
                );
                return Err(Error::unsupported(path, what));
            }
            self.batch_rows = self.left.min(self.batch_rows).div_ceil(SMALLER_BATCHES);
            self.start()?;
        }
    }

    /// Reads what the decoder needs until it has rows to decode, or no more of them.
    fn advance(&mut self) -> Result<()> {
        let block = self.block;
        let row_group = usize::try_from(block.0).unwrap_or(usize::MAX);
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let path = self.file.path();
        loop {
            match guarded(path, || place(block), || decoder.try_next_reader())? {
                DecodeResult::NeedsData(ranges) => {
                    let bytes = self.file.fetch(&ranges)?;
                    check_pages(path, &self.footer, row_group, &self.leaves, &ranges, &bytes)?;
                    guarded(path, || place(block), || decoder.push_ranges(ranges, bytes))?;
                }
                DecodeResult::Data(reader) => {
                    self.reader = Some(reader);
                    return Ok(());
                }
                DecodeResult::Finished => {
                    self.decoder = None;
                    return Ok(());
                }
            }
        }
    }

    fn miscounted(&self) -> Error {
        let what = "its pages do not hold the rows that were asked for";
        Error::corrupt(self.file.path(), place(self.block), what)
    }
}

impl RowStream for Stream {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.leaves.is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.left)));
            return RecordBatch::try_new_with_options(Arc::clone(&self.schema), Vec::new(), &options)
                .map(Some)
                .map_err(|error| Error::undecodable(self.file.path(), place(self.block), error.to_string()));
        }
        while self.reader.is_some() {
            let Some(batch) = self.decode()? else {
                self.reader = None;
                self.advance()?;
                continue;
            };
            self.left = self.left.checked_sub(batch.num_rows()).ok_or_else(|| self.miscounted())?;
            return self.arrange(&batch).map(Some);
        }
        Err(self.miscounted())
    }
}

impl Stream {
    /// The decoded columns in the order of the projection.
    fn arrange(&self, decoded: &RecordBatch) -> Result<RecordBatch> {
        let failed = |what: String| Error::undecodable(self.file.path(), place(self.block), what);
        let mut columns = Vec::with_capacity(self.projection.len());
        for (root, field) in self.projection.iter().zip(self.schema.fields()) {
            let position = self.roots.binary_search(root).unwrap_or(usize::MAX);
            let column =
                decoded.columns().get(position).ok_or_else(|| failed(format!("column {root} was not decoded")))?;
            let parts = self.parts.get(root).map(Vec::as_slice).unwrap_or_default();
            let mut column =
                fields::complete(column, field.data_type(), parts).map_err(|error| failed(error.to_string()))?;
            if self.footer.intervals.columns.contains(root) {
                column = interval::from_bytes(&column);
            }
            columns.push(column);
        }
        let schema = as_decoded(&self.schema, &columns);
        let options = RecordBatchOptions::new().with_row_count(Some(decoded.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(|error| failed(error.to_string()))
    }
}

/// The last `count` of `rows`.
pub(super) fn last_rows(rows: &RowRanges, count: u64) -> RowRanges {
    let mut before = rows.row_count().saturating_sub(count);
    let mut last = Vec::with_capacity(rows.0.len());
    for range in &rows.0 {
        let passed = before.min(range.end - range.start);
        before -= passed;
        if range.start + passed < range.end {
            last.push(range.start + passed..range.end);
        }
    }
    RowRanges(last)
}

fn projected(path: &str, schema: &Schema, projection: &[usize]) -> Result<SchemaRef> {
    schema.project(projection).map(Arc::new).map_err(|_| {
        Error::InvalidInput(format!(
            "\"{path}\" has {} columns, the projection {projection:?} names others",
            schema.fields().len()
        ))
    })
}

fn checked_rows(path: &str, block: BlockId, rows: &RowRanges, total: u64) -> Result<u64> {
    let mut end = 0;
    let mut count = 0;
    for range in &rows.0 {
        if range.start < end || range.end <= range.start || range.end > total {
            return Err(Error::InvalidInput(format!(
                "rows {}..{} of row group {} of \"{path}\" are out of order or beyond its {total} rows",
                range.start, range.end, block.0
            )));
        }
        end = range.end;
        count += range.end - range.start;
    }
    Ok(count)
}

fn selection(path: &str, rows: &RowRanges, total: u64) -> Result<RowSelection> {
    let narrow = |row: u64| usize::try_from(row).map_err(|_| Error::InvalidInput(format!("row {row} of \"{path}\"")));
    let ranges = rows.0.iter().map(|range| Ok(narrow(range.start)?..narrow(range.end)?)).collect::<Result<Vec<_>>>()?;
    Ok(RowSelection::from_consecutive_ranges(ranges.into_iter(), narrow(total)?))
}

/// Refuses pages that claim sizes their bytes cannot have.
fn check_pages(
    path: &str,
    footer: &Footer,
    row_group: usize,
    leaves: &[usize],
    ranges: &[Range<u64>],
    buffers: &[Bytes],
) -> Result<()> {
    let chunks = footer.metadata.row_groups().get(row_group).map(|group| group.columns()).unwrap_or_default();
    let chunks: Vec<(usize, Range<u64>, Compression)> = leaves
        .iter()
        .filter_map(|leaf| chunks.get(*leaf).and_then(|chunk| Some((*leaf, chunk_range(chunk)?, chunk.compression()))))
        .collect();
    for (range, bytes) in ranges.iter().zip(buffers) {
        if let Some((leaf, _, codec)) = chunks.iter().find(|(_, chunk, _)| chunk.contains(&range.start)) {
            page_header::check(bytes, *codec).map_err(|what| {
                Error::corrupt(
                    path,
                    format!("row group {row_group}, leaf column {leaf}, page at {}", range.start),
                    what,
                )
            })?;
        }
    }
    Ok(())
}

/// Refuses chunks whose place the footer cannot mean; the decoder would panic on some of them.
fn check_chunks(file: &File, footer: &Footer, row_group: usize, leaves: &[usize]) -> Result<()> {
    let place = |leaf: usize| format!("row group {row_group}, leaf column {leaf}");
    let chunks = footer.metadata.row_groups().get(row_group).map(|group| group.columns()).unwrap_or_default();
    for leaf in leaves {
        let Some(chunk) = chunks.get(*leaf) else {
            return Err(Error::corrupt(file.path(), place(*leaf), "the column chunk is missing"));
        };
        if let Some(other) = chunk.file_path() {
            return Err(Error::unsupported(
                file.path(),
                format!(
                    "{} is stored in another file, \"{other}\": only files that hold their own data are read",
                    place(*leaf)
                ),
            ));
        }
        if !chunk_range(chunk).is_some_and(|range| file.holds(&range)) {
            return Err(Error::corrupt(
                file.path(),
                place(*leaf),
                format!(
                    "the footer puts {} bytes at offset {} of a file of {}",
                    chunk.compressed_size(),
                    chunk.data_page_offset(),
                    file.size()
                ),
            ));
        }
    }
    Ok(())
}
