//! Decoding: from a row group, a projection and rows to Arrow columns, reading the bytes of the pages that hold those rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection};
use parquet::arrow::push_decoder::{ParquetPushDecoderBuilder, RowGroupSelection};
use parquet::basic::Compression;

use super::fetch::{File, guarded};
use super::open::Footer;
use super::page_header;
use super::page_index::{Wanted, chunk_range};
use crate::format::{BlockId, RowRanges};
use crate::{Error, Result};

/// Rows decoded at a time. A row group that lies about its size costs at most the buffers of so many rows.
const DECODE_ROWS: usize = 1 << 20;

/// Decodes `projection` (root columns, in any order, repeats allowed) of `rows` of `block`; all rows without `rows`.
pub(super) fn read(
    file: &File,
    footer: &Footer,
    arrow: &ArrowReaderMetadata,
    block: BlockId,
    projection: &[usize],
    rows: Option<&RowRanges>,
) -> Result<RecordBatch> {
    let path = file.path();
    let place = || format!("row group {}", block.0);
    let row_group = usize::try_from(block.0).unwrap_or(usize::MAX);
    let Some(total) = footer.block_rows.get(row_group).copied() else {
        return Err(Error::InvalidInput(format!(
            "\"{path}\" has {} row groups, row group {} was asked for",
            footer.block_rows.len(),
            block.0
        )));
    };
    let count = match rows {
        Some(rows) => checked_rows(path, block, rows, total)?,
        None => total,
    };
    footer.check_readable(path, projection)?;
    let schema = projected(path, arrow.schema(), projection)?;
    let count = usize::try_from(count)
        .map_err(|_| Error::corrupt(path, place(), format!("{count} rows exceed the address space")))?;
    if projection.is_empty() || count == 0 {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let columns = schema.fields().iter().map(|field| arrow::array::new_empty_array(field.data_type())).collect();
        return RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| Error::corrupt(path, place(), error.to_string()));
    }
    let mut roots = projection.to_vec();
    roots.sort_unstable();
    roots.dedup();
    let leaves: Vec<usize> = roots
        .iter()
        .filter_map(|root| footer.columns.root(*root))
        .flat_map(|column| column.leaves.iter().copied())
        .collect();
    check_chunks(file, footer, row_group, &leaves)?;

    let selection = match rows {
        Some(rows) if u64::try_from(count).ok() != Some(total) => {
            let wanted: Vec<Wanted> =
                leaves.iter().map(|leaf| Wanted { row_group, leaf: *leaf, statistics: false }).collect();
            footer.page_index.load(file, &footer.metadata, &wanted)?;
            Some(selection(path, rows, total)?)
        }
        _ => None,
    };
    let mask = ProjectionMask::roots(arrow.parquet_schema(), roots.iter().copied());
    let mut decoder = guarded(path, place, || {
        ParquetPushDecoderBuilder::new_with_metadata(arrow.clone())
            .with_row_group_selections(vec![RowGroupSelection::new(row_group, selection)])
            .with_projection(mask)
            .with_batch_size(count.min(DECODE_ROWS))
            .build()
    })?;
    let mut batches = Vec::new();
    loop {
        match guarded(path, place, || decoder.try_next_reader())? {
            DecodeResult::NeedsData(ranges) => {
                let bytes = file.fetch(&ranges)?;
                check_pages(path, footer, row_group, &leaves, &ranges, &bytes)?;
                guarded(path, place, || decoder.push_ranges(ranges, bytes))?;
            }
            DecodeResult::Data(mut reader) => {
                while let Some(batch) = guarded(path, place, || Ok(reader.next().transpose()?))? {
                    batches.push(batch);
                }
            }
            DecodeResult::Finished => break,
        }
    }
    let decoded = match batches.len() {
        1 => batches.pop(),
        _ => match batches.first() {
            Some(first) => Some(
                concat_batches(&first.schema(), &batches)
                    .map_err(|error| Error::corrupt(path, place(), error.to_string()))?,
            ),
            None => None,
        },
    };
    let decoded = decoded.filter(|batch| batch.num_rows() == count).ok_or_else(|| {
        Error::corrupt(path, place(), format!("its pages do not hold the {count} rows that were asked for"))
    })?;
    arrange(path, block, &decoded, &roots, projection, schema)
}

/// The decoded columns (in the order of `roots`) in the order of `projection`.
fn arrange(
    path: &str,
    block: BlockId,
    decoded: &RecordBatch,
    roots: &[usize],
    projection: &[usize],
    schema: SchemaRef,
) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(projection.len());
    for root in projection {
        let position = roots.binary_search(root).unwrap_or(usize::MAX);
        let Some(column) = decoded.columns().get(position) else {
            return Err(Error::corrupt(
                path,
                format!("row group {}", block.0),
                format!("column {root} was not decoded"),
            ));
        };
        columns.push(Arc::clone(column));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(decoded.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| Error::corrupt(path, format!("row group {}", block.0), error.to_string()))
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
