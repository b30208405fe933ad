//! Extent formats behind one trait. Nothing outside a format's own file names it: readers come from the bytes, writers from the
//! [`registry::FormatRegistry`].

pub mod cache;
pub mod json_view;
mod names;
pub mod parquet;
mod parts;
pub mod registry;
pub mod tlm;

pub use parts::ColumnPart;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::Result;
use crate::predicate::{BlockPredicate, Evidence, Outcomes};
use crate::stats::extent::TimeRange;
use crate::storage::{IoCounters, Sink, Source};

/// 0-based ordinal of a block (a TLM record batch, a Parquet row group) in its extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Everything known about an extent once it is open, without reading any block.
#[derive(Debug, Clone)]
pub struct ExtentMetadata {
    /// Registry name of the format ("tlm", "parquet").
    pub format: &'static str,
    /// What the file calls its version ("PENSIEVE v2", "KYMA v1", "Parquet 1.0").
    pub version: String,
    /// Arrow schema of the file.
    pub schema: SchemaRef,
    /// Rows of each block, in block order.
    pub block_rows: Vec<u64>,
    /// Size of the file in bytes.
    pub byte_size: u64,
    /// Why statistics in the file are not used, if they are not ("4 blocks but 2 statistics entries").
    pub stats_rejected: Option<String>,
}

impl ExtentMetadata {
    /// Rows of the extent.
    pub fn row_count(&self) -> u64 {
        self.block_rows.iter().sum()
    }
}

/// Where a block stands in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLocation {
    /// Absolute byte offset of the block.
    pub offset: u64,
    /// Bytes of the block (all columns).
    pub length: u64,
}

/// An open extent. Cheap to share between threads; every method may be called concurrently.
pub trait ExtentReader: Send + Sync {
    /// What the footer says.
    fn metadata(&self) -> &ExtentMetadata;

    /// Counters of everything read from the extent's file since it was opened.
    fn io_counters(&self) -> Arc<IoCounters>;

    /// What opening the extent found out, to open it again without I/O; `None` if the format has nothing to keep.
    fn shared_metadata(&self) -> Option<Arc<dyn cache::SharedMetadata>> {
        None
    }

    /// The same extent with bytes that the format gives no type as text; `None` if the format gives every column its type.
    ///
    /// # Errors
    /// If the file cannot be read so.
    fn with_text(&self) -> Result<Option<Arc<dyn ExtentReader>>> {
        Ok(None)
    }

    /// Statistics of one block, if the file has trustworthy ones.
    fn block_evidence(&self, block: BlockId) -> Option<&dyn Evidence>;

    /// Where the block's bytes are.
    fn block_location(&self, block: BlockId) -> Option<BlockLocation>;

    /// Which outcomes `predicate` may have over the rows of `block`. Conservative: unknown is every outcome.
    fn evaluate_block(&self, block: BlockId, predicate: &BlockPredicate) -> Result<Outcomes>;

    /// Whether [`ExtentReader::evaluate_block`] knows more than [`ExtentReader::block_evidence`] (bloom filters).
    fn has_finer_evidence(&self) -> bool {
        false
    }

    /// The blocks in which some row may satisfy `predicate`, in file order.
    fn pruned_blocks(&self, predicate: &BlockPredicate) -> Result<Vec<BlockId>>;

    /// Decodes the columns `projection` (indices into the schema, in the order wanted, repeats allowed) of one block. Fetches
    /// only the bytes of those columns. With an empty projection the batch has no columns and the block's row count.
    fn read_block(&self, block: BlockId, projection: &[usize]) -> Result<RecordBatch>;

    /// The rows of `block` that may satisfy `predicate`, by evidence finer than the block (page index). Called only for blocks
    /// that [`ExtentReader::evaluate_block`] kept. The default is every row.
    fn candidate_rows(&self, block: BlockId, predicate: &BlockPredicate) -> Result<RowRanges> {
        let _ = predicate;
        let rows = self.metadata().block_rows.get(block.0 as usize).copied().unwrap_or(0);
        Ok(RowRanges::all(rows))
    }

    /// Like [`ExtentReader::read_block`], for the given rows of the block only, in order.
    fn read_rows(&self, block: BlockId, projection: &[usize], rows: &RowRanges) -> Result<RecordBatch>;

    /// Decodes the given rows a batch at a time, of about `batch_rows` rows each where the format can stop within a block, so that
    /// what is decoded is still in the processor's caches when it is used. The bytes are read before this returns. Text columns
    /// that the block stores as a dictionary may come as Arrow dictionaries; the schema of a batch says which, and the next batch
    /// may differ. The default decodes all rows at once and reads fields that `projection` does not name.
    fn stream_rows(
        &self,
        block: BlockId,
        projection: &[ColumnPart],
        rows: &RowRanges,
        batch_rows: usize,
    ) -> Result<Box<dyn RowStream>> {
        let _ = batch_rows;
        Ok(Box::new(Some(self.read_rows(block, &ColumnPart::columns(projection), rows)?)))
    }
}

/// Rows of one block, decoded as they are asked for.
pub trait RowStream: Send {
    /// The next rows, in order; `None` after the last.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>>;
}

impl RowStream for Option<RecordBatch> {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.take())
    }
}

/// Rows of one block: ascending, disjoint, non-empty half-open ranges of 0-based row numbers within the block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowRanges(pub Vec<std::ops::Range<u64>>);

impl RowRanges {
    /// All `rows` rows of a block.
    pub fn all(rows: u64) -> Self {
        Self((rows > 0).then_some(0..rows).into_iter().collect())
    }

    /// How many rows are in the ranges.
    pub fn row_count(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }
}

/// Per-column statistics of an extent as the catalog stores them; see `docs/tlm.md`.
pub type ColumnStatsJson = serde_json::Value;

/// What a writer hands the catalog once an extent is complete. The fields and their meaning are the contract of the storage
/// format's reference.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtentWriteResult {
    /// Fresh v4 UUID.
    pub extent_id: uuid::Uuid,
    /// Object-store key or path of the file.
    pub object_path: String,
    /// Size of the file in bytes.
    pub byte_size: u64,
    /// Rows written.
    pub row_count: u64,
    /// Blocks written.
    pub block_count: u32,
    /// What is known of each timestamp column, by name: which of them has the time bounds of the extent is the catalog's to say. A column
    /// that is missing here is unknown.
    pub time_ranges: BTreeMap<String, TimeRange>,
    /// Paths present in dynamic columns, per column. `None` means unknown, which is not the same as none.
    pub present_paths: Option<BTreeMap<String, Vec<String>>>,
    /// `{"column": {"distinct": [...] | null, "tokens": [...] | null}}`.
    pub column_stats: ColumnStatsJson,
}

/// How an extent is written. Formats ignore what they have no use for.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Body compression: "none", "lz4", "zstd" (format-specific default when `None`).
    pub compression: Option<String>,
    /// Columns stored as Arrow dictionaries: `Some(true)` chooses low-cardinality string columns by looking at the first block.
    pub dictionary: bool,
    /// TLM magic stem: "pensieve" (default), "pnsv" or "kyma".
    pub magic: Option<String>,
    /// Parquet: columns that get bloom filters (patterns with `*`); `None` chooses identifier columns by name.
    pub bloom_columns: Option<Vec<String>>,
    /// The order in which the rows come already, recorded as metadata where the format can.
    pub sorted_by: Vec<SortKey>,
}

/// One column of a sort order.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct SortKey {
    /// A top-level column.
    pub column: String,
    /// Largest values first.
    #[serde(default)]
    pub descending: bool,
    /// NULLs before all values.
    #[serde(default)]
    pub nulls_first: bool,
}

/// A block that is ready to be appended: compressed, with its statistics. What is inside is the business of the format whose
/// [`BlockEncoder`] made it.
pub struct EncodedBlock {
    /// Rows of the block.
    pub rows: u64,
    /// Bytes it will take in the file, about.
    pub bytes: u64,
    /// The format's own data.
    pub payload: Box<dyn Any + Send>,
}

impl std::fmt::Debug for EncodedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncodedBlock").field("rows", &self.rows).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The part of writing that many threads can do at once.
pub trait BlockEncoder: Send + Sync {
    /// Encodes one block for the writer this encoder came from. The batch's schema must be the writer's.
    fn encode(&self, batch: &RecordBatch) -> Result<EncodedBlock>;
}

/// Writes one extent: blocks in, one file and one [`ExtentWriteResult`] out.
pub trait ExtentWriter: Send {
    /// Appends one block. The batch's schema must be the writer's.
    fn append(&mut self, batch: &RecordBatch) -> Result<()>;
    /// What encodes blocks for this writer from any thread; `None` if the format can only [`ExtentWriter::append`].
    fn encoder(&self) -> Option<Arc<dyn BlockEncoder>> {
        None
    }
    /// Appends a block that [`ExtentWriter::encoder`] has encoded. The order of the calls is the order in the file.
    fn append_encoded(&mut self, block: EncodedBlock) -> Result<()> {
        let _ = block;
        Err(crate::Error::InvalidInput("this format does not append encoded blocks".into()))
    }
    /// Bytes written so far (an estimate while buffers are pending).
    fn bytes_written(&self) -> u64;
    /// Completes the file and makes it visible.
    fn finish(self: Box<Self>) -> Result<ExtentWriteResult>;
}

/// A byte layout for extents.
pub trait SegmentFormat: Send + Sync {
    /// Registry name ("tlm", "parquet").
    fn name(&self) -> &'static str;
    /// File suffix without the dot that writers use.
    fn extension(&self) -> &'static str;
    /// Whether a file that begins with `head` (at least 16 bytes, fewer for shorter files) is of this format.
    fn recognises(&self, head: &[u8]) -> bool;
    /// Whether the last bytes of a file (16, fewer of shorter files) alone say that it is of this format, so that its start need not
    /// be read.
    fn recognises_end(&self, end: &[u8]) -> bool {
        let _ = end;
        false
    }
    /// Opens an extent for reading.
    fn open_extent(&self, source: Arc<dyn Source>) -> Result<Arc<dyn ExtentReader>>;
    /// Whether [`SegmentFormat::start_extent`] would accept this schema and these options. Creates nothing.
    fn check(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<()> {
        let _ = (schema, options);
        Ok(())
    }
    /// Starts a new extent.
    fn start_extent(
        &self,
        sink: Box<dyn Sink>,
        schema: SchemaRef,
        options: &WriteOptions,
    ) -> Result<Box<dyn ExtentWriter>>;
}
