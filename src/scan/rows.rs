//! Rows of a claimed block on their way to the engine, a batch at a time.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;

use super::windows::{Verdict, judge};
use super::{EvidenceKind, Scan, engine};
use crate::Result;
use crate::format::{BlockId, ColumnPart, ExtentReader, RowRanges, RowStream};
use crate::predicate::BlockPredicate;

/// Rows decoded at a time: eight vectors of the engine; fewer cost more calls than the caches give back (measured: 2,048 to 131,072).
const BATCH_ROWS: usize = 16_384;

/// Rows of one block, as the engine takes them.
pub struct Rows {
    scan: Arc<Scan>,
    reader: Arc<dyn ExtentReader>,
    projection: Vec<usize>,
    stream: Box<dyn RowStream>,
    last: Option<RecordBatch>,
}

impl Rows {
    /// Starts to decode columns of the given rows of a block; their bytes are read here. Text columns with few distinct values may
    /// come as dictionaries.
    ///
    /// # Errors
    /// As [`ExtentReader::stream_rows`], and columns of `path` that the engine has no type for.
    pub fn open(
        scan: &Arc<Scan>,
        path: &str,
        reader: &Arc<dyn ExtentReader>,
        block: BlockId,
        projection: &[ColumnPart],
        rows: &RowRanges,
    ) -> Result<Self> {
        engine::check_readable(path, &reader.metadata().schema, projection)?;
        let started = Instant::now();
        scan.counters.watch(reader.as_ref());
        let stream = reader.stream_rows(block, projection, rows, BATCH_ROWS)?;
        scan.counters.add_read_time(started);
        let projection = ColumnPart::columns(projection);
        Ok(Self { scan: Arc::clone(scan), reader: Arc::clone(reader), projection, stream, last: None })
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// Bytes that cannot be decoded.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let started = Instant::now();
        self.last = None;
        let Some(batch) = self.stream.next_batch()? else { return Ok(None) };
        let file = &self.reader.metadata().schema;
        let batch = engine::plain_where_expected(batch, file, &self.projection)?;
        let batch = crate::dictionary::encode_batch(engine::convert(batch)?, |index| {
            self.projection
                .get(index)
                .and_then(|column| file.fields().get(*column))
                .is_some_and(|field| engine::takes_dictionary(field))
        });
        self.scan.counters.add_read_time(started);
        self.last = Some(batch.clone());
        Ok(Some(batch))
    }

    /// The verdict of `predicate` on every window of so many rows of the last batch, which follow each other; empty where such
    /// evidence is switched off.
    pub fn verdicts(&self, lengths: impl Iterator<Item = usize>, predicate: &BlockPredicate) -> Vec<Verdict> {
        let usable = self.scan.uses(EvidenceKind::MinMax) && self.scan.uses(EvidenceKind::Time);
        match self.last.as_ref().filter(|_| usable) {
            Some(batch) => judge(batch, &self.reader.metadata().schema, &self.projection, lengths, predicate),
            None => Vec::new(),
        }
    }
}
