//! A plain Parquet reader behind the extent interface, and helpers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::statistics::Statistics;
use serde_json::Value;

use crate::format::{
    BlockId, BlockLocation, ExtentMetadata, ExtentReader, ExtentWriter, RowRanges, SegmentFormat, WriteOptions,
};
use crate::predicate::{BlockPredicate, ColumnStats, Evidence, Outcomes, Scalar};
use crate::storage::{Sink, Source};
use crate::{Error, Result};

/// The folder of the fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("test/data/dendro")
}

pub fn manifest() -> serde_json::Map<String, Value> {
    let text = std::fs::read_to_string(fixtures().join("manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A copy of a fixture, with its log if it has one: reading a live archive makes SQLite create a file beside it.
pub fn copy_of(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::copy(fixtures().join(name), &path).unwrap();
    let wal = fixtures().join(format!("{name}-wal"));
    if wal.exists() {
        std::fs::copy(wal, dir.path().join(format!("{name}-wal"))).unwrap();
    }
    (dir, path)
}

/// Reads whole Parquet files, with row-group statistics of integer and timestamp columns as evidence.
pub struct PlainParquet;

impl SegmentFormat for PlainParquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        head.starts_with(b"PAR1")
    }

    fn open_extent(&self, source: Arc<dyn Source>) -> Result<Arc<dyn ExtentReader>> {
        let path = source.identity().path.clone();
        let buffer = source.read(0..source.identity().size)?;
        let bytes = Bytes::copy_from_slice(&buffer);
        let parquet = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::new())
            .map_err(|e| Error::corrupt(path.clone(), "footer", e.to_string()))?;
        let groups = parquet.metadata().row_groups();
        let evidence = groups
            .iter()
            .map(|group| {
                let mut columns = HashMap::new();
                for chunk in group.columns() {
                    let name = chunk.column_path().string();
                    let Ok(field) = parquet.schema().field_with_name(&name) else { continue };
                    let Some(Statistics::Int64(stats)) = chunk.statistics() else { continue };
                    let scalar = |v: i64| match field.data_type() {
                        DataType::Timestamp(unit, _) => Scalar::TimestampNs(i128::from(v) * ns(*unit)),
                        _ => Scalar::Int(i128::from(v)),
                    };
                    let stats = ColumnStats {
                        min: stats.min_opt().copied().map(scalar),
                        max: stats.max_opt().copied().map(scalar),
                        ..ColumnStats::default()
                    };
                    columns.insert(name, stats);
                }
                PlainEvidence { columns }
            })
            .collect();
        let metadata = ExtentMetadata {
            format: "parquet",
            version: "Parquet".into(),
            schema: parquet.schema().clone(),
            block_rows: groups.iter().map(|g| u64::try_from(g.num_rows()).unwrap()).collect(),
            byte_size: source.identity().size,
            stats_rejected: None,
        };
        Ok(Arc::new(PlainReader { bytes, parquet, metadata, evidence }))
    }

    fn start_extent(&self, _: Box<dyn Sink>, _: SchemaRef, _: &WriteOptions) -> Result<Box<dyn ExtentWriter>> {
        Err(Error::InvalidInput("not for writing".into()))
    }
}

fn ns(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

struct PlainEvidence {
    columns: HashMap<String, ColumnStats>,
}

impl Evidence for PlainEvidence {
    fn row_count(&self) -> Option<u64> {
        None
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.columns.get(name).cloned()
    }
}

struct PlainReader {
    bytes: Bytes,
    parquet: ArrowReaderMetadata,
    metadata: ExtentMetadata,
    evidence: Vec<PlainEvidence>,
}

impl ExtentReader for PlainReader {
    fn metadata(&self) -> &ExtentMetadata {
        &self.metadata
    }

    fn block_evidence(&self, block: BlockId) -> Option<&dyn Evidence> {
        self.evidence.get(block.0 as usize).map(|e| e as &dyn Evidence)
    }

    fn block_location(&self, _: BlockId) -> Option<BlockLocation> {
        None
    }

    fn evaluate_block(&self, _: BlockId, _: &BlockPredicate) -> Result<Outcomes> {
        Err(Error::InvalidInput("not needed".into()))
    }

    fn pruned_blocks(&self, _: &BlockPredicate) -> Result<Vec<BlockId>> {
        Ok((0..u32::try_from(self.metadata.block_rows.len()).unwrap()).map(BlockId).collect())
    }

    fn read_block(&self, block: BlockId, projection: &[usize]) -> Result<RecordBatch> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), self.parquet.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), projection.iter().copied());
        let group = block.0 as usize;
        let rows = usize::try_from(self.metadata.block_rows[group]).unwrap();
        let reader = builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(rows.max(1)).build();
        let wrong = |e: String| Error::corrupt("segment", "block", e);
        let batches: Vec<_> =
            reader.map_err(|e| wrong(e.to_string()))?.collect::<Result<_, _>>().map_err(|e| wrong(e.to_string()))?;
        let batch = batches.into_iter().next().unwrap();
        let order: Vec<usize> = projection
            .iter()
            .map(|i| batch.schema().index_of(self.metadata.schema.field(*i).name()).unwrap())
            .collect();
        Ok(batch.project(&order).unwrap())
    }

    fn read_rows(&self, block: BlockId, projection: &[usize], rows: &RowRanges) -> Result<RecordBatch> {
        let batch = self.read_block(block, projection)?;
        let parts: Vec<RecordBatch> = {
            let at = |v: u64| usize::try_from(v).unwrap();
            rows.0.iter().map(|r| batch.slice(at(r.start), at(r.end - r.start))).collect()
        };
        Ok(arrow::compute::concat_batches(&batch.schema(), &parts).unwrap())
    }
}

/// Every row of an extent, all columns, one batch per block.
pub fn read_all(extent: &dyn ExtentReader) -> Vec<RecordBatch> {
    let all: Vec<usize> = (0..extent.metadata().schema.fields().len()).collect();
    let blocks = extent.metadata().block_rows.len();
    (0..blocks).map(|b| extent.read_block(BlockId(u32::try_from(b).unwrap()), &all).unwrap()).collect()
}

/// The rows of a batch as JSON objects, NULLs included.
pub fn as_json(batch: &RecordBatch) -> Vec<Value> {
    let mut out = Vec::new();
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::LineDelimited>(&mut out);
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
