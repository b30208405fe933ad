//! Writing a Parquet extent: every appended block is one row group. Blocks can be encoded by many threads and are appended in
//! order.

use std::io;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Fields, Schema, SchemaRef};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::annotations;
use super::fetch::guarded;
use super::layout::Layout;
use super::types::check_columns;
use crate::dictionary::encode_columns;
use crate::format::{BlockEncoder, EncodedBlock, ExtentWriteResult, ExtentWriter, WriteOptions};
use crate::stats::block::BlockStats;
use crate::stats::extent::{BlockPartial, ExtentStats, Summary};
use crate::storage::Sink;
use crate::{Error, Result};

/// The Thrift number of row groups that a footer can count.
const MAX_ROW_GROUPS: usize = i16::MAX as usize;

/// Refuses what [`ParquetWriter::start`] would refuse, and types that fail only once values are encoded.
///
/// # Errors
/// See [`Layout::new`]. The message names the column.
pub(super) fn check(schema: &SchemaRef, options: &WriteOptions) -> Result<()> {
    // as they are stored: an interval that is a column of its own has a form in Parquet
    let stored: Fields = schema.fields().iter().map(annotations::stored).collect();
    check_columns(&Schema::new(stored))?;
    Layout::new("the extent", schema, options).map(drop)
}

/// Encodes row groups for one file, from any thread.
struct ParquetEncoder {
    path: String,
    layout: Arc<Layout>,
    summary: Arc<Summary>,
}

/// An encoded row group.
struct Payload {
    chunks: Vec<ArrowColumnChunk>,
    summary: BlockPartial,
}

impl ParquetEncoder {
    /// Encodes and compresses the stored columns.
    fn chunks(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<ArrowColumnChunk>> {
        let properties = self.layout.row_group_properties(columns, rows);
        guarded(
            &self.path,
            || "a block being written".to_owned(),
            || {
                // The factory takes its properties from a file writer; this one writes nothing anybody sees.
                let scratch = SerializedFileWriter::new(Vec::new(), self.layout.parquet.root_schema_ptr(), properties)?;
                let factory = ArrowRowGroupWriterFactory::new(&scratch, Arc::clone(&self.layout.stored));
                let mut writers = factory.create_column_writers(0)?.into_iter();
                let mut chunks = Vec::with_capacity(writers.len());
                for (field, array) in self.layout.stored.fields().iter().zip(columns) {
                    for leaf in compute_leaves(field, array)? {
                        let mut writer = writers
                            .next()
                            .ok_or_else(|| ParquetError::General("more leaves than columns".to_owned()))?;
                        writer.write(&leaf)?;
                        chunks.push(writer.close()?);
                    }
                }
                Ok(chunks)
            },
        )
    }
}

impl BlockEncoder for ParquetEncoder {
    fn encode(&self, batch: &RecordBatch) -> Result<EncodedBlock> {
        let compact = encode_columns(batch.columns());
        let stats = BlockStats::of_columns(batch.num_rows(), &compact);
        let summary = self.summary.block(&compact, &stats);
        let columns = self.layout.columns(&self.path, batch.columns())?;
        let chunks = if batch.num_rows() == 0 { Vec::new() } else { self.chunks(&columns, batch.num_rows())? };
        let bytes = chunks.iter().fold(0u64, |sum, chunk| sum.saturating_add(chunk.close().bytes_written));
        let payload = Payload { chunks, summary };
        Ok(EncodedBlock { rows: stats.row_count, bytes, payload: Box::new(payload) })
    }
}

/// A sink as the Parquet writer wants it.
struct Output {
    sink: Box<dyn Sink>,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one Parquet extent.
pub struct ParquetWriter {
    path: String,
    encoder: Arc<ParquetEncoder>,
    writer: SerializedFileWriter<Output>,
    stats: ExtentStats,
    rows: u64,
    blocks: usize,
    /// Whether a write has failed, so that the file cannot be completed.
    failed: bool,
}

impl ParquetWriter {
    /// Starts a file.
    ///
    /// # Errors
    /// If an option or a column type is not supported, or the sink refuses the first bytes.
    pub fn start(sink: Box<dyn Sink>, schema: SchemaRef, options: &WriteOptions) -> Result<Self> {
        let path = sink.path().to_owned();
        let layout = Arc::new(Layout::new(&path, &schema, options)?);
        let writer = SerializedFileWriter::new(
            Output { sink },
            layout.parquet.root_schema_ptr(),
            Arc::clone(&layout.properties),
        )
        .map_err(|error| failed(&path, error))?;
        let stats = ExtentStats::new(&schema);
        let encoder = Arc::new(ParquetEncoder { path: path.clone(), layout, summary: stats.summary() });
        Ok(Self { path, encoder, writer, stats, rows: 0, blocks: 0, failed: false })
    }

    fn append_payload(&mut self, rows: u64, payload: Payload) -> Result<()> {
        // A row group without rows would be one that no reader expects.
        if rows == 0 {
            return Ok(());
        }
        if self.blocks >= MAX_ROW_GROUPS {
            return Err(Error::InvalidInput(format!(
                "\"{}\" would have more than {MAX_ROW_GROUPS} row groups: write larger blocks or more files",
                self.path
            )));
        }
        let appended = self.writer.next_row_group().and_then(|mut row_group| {
            for chunk in payload.chunks {
                chunk.append_to_row_group(&mut row_group)?;
            }
            row_group.close().map(drop)
        });
        appended.map_err(|error| failed(&self.path, error))?;
        self.stats.merge(payload.summary);
        self.rows = self.rows.saturating_add(rows);
        self.blocks += 1;
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        if self.failed {
            return Err(Error::io(&self.path, "write", "an earlier write failed, the extent is incomplete"));
        }
        Ok(())
    }
}

impl ExtentWriter for ParquetWriter {
    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_usable()?;
        let block = self.encoder.encode(batch)?;
        self.append_encoded(block)
    }

    fn encoder(&self) -> Option<Arc<dyn BlockEncoder>> {
        let encoder: Arc<ParquetEncoder> = Arc::clone(&self.encoder);
        Some(encoder)
    }

    fn append_encoded(&mut self, block: EncodedBlock) -> Result<()> {
        self.check_usable()?;
        let payload = block
            .payload
            .downcast::<Payload>()
            .map_err(|_| Error::InvalidInput(format!("{}: the block was encoded for another format", self.path)))?;
        let result = self.append_payload(block.rows, *payload);
        self.failed = result.is_err();
        result
    }

    fn bytes_written(&self) -> u64 {
        u64::try_from(self.writer.bytes_written()).unwrap_or(u64::MAX)
    }

    fn finish(self: Box<Self>) -> Result<ExtentWriteResult> {
        self.check_usable()?;
        let Self { path, writer, stats, rows, blocks, .. } = *self;
        let Output { sink } = writer.into_inner().map_err(|error| failed(&path, error))?;
        let byte_size = sink.position();
        sink.finish()?;
        Ok(ExtentWriteResult {
            extent_id: uuid::Uuid::new_v4(),
            object_path: path,
            byte_size,
            row_count: rows,
            block_count: u32::try_from(blocks).unwrap_or(u32::MAX),
            time_ranges: stats.time_ranges(),
            present_paths: None,
            column_stats: stats.column_stats(),
        })
    }
}

/// A failure of the Parquet writer: that of the sink, if there is one inside.
fn failed(path: &str, error: ParquetError) -> Error {
    Error::io(path, "write", error)
}
