//! Tests over whole files: those of other writers, those of this one, damaged ones.

mod corrupt;
mod fixtures;
mod io;
mod random;
mod written;

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use super::{ParquetFormat, ParquetReader};
use crate::format::{BlockId, ExtentReader, ExtentWriteResult, RowRanges, SegmentFormat, WriteOptions};
use crate::predicate::BlockPredicate;
use crate::predicate::rows::evaluate_rows;
use crate::storage::memory::MemorySource;
use crate::storage::sink::MemorySink;

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("test/data/parquet").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn open(name: &str, bytes: Vec<u8>) -> ParquetReader {
    ParquetReader::open(Arc::new(MemorySource::new(name, bytes))).unwrap()
}

fn write(schema: &SchemaRef, blocks: &[RecordBatch], options: &WriteOptions) -> (Vec<u8>, ExtentWriteResult) {
    let (sink, written) = MemorySink::new("written.parquet");
    let mut writer = ParquetFormat.start_extent(Box::new(sink), Arc::clone(schema), options).unwrap();
    for block in blocks {
        writer.append(block).unwrap();
    }
    let result = writer.finish().unwrap();
    (written.recv().unwrap(), result)
}

/// One range of rows.
fn one(range: std::ops::Range<u64>) -> RowRanges {
    RowRanges(std::iter::once(range).collect())
}

/// The columns that can be read: all but those of Parquet's INTERVAL, which are refused (Arrow would lose their months).
fn readable(reader: &dyn ExtentReader) -> Vec<usize> {
    (0..reader.metadata().schema.fields().len()).collect()
}

/// Every readable column of every block.
fn read_all(reader: &dyn ExtentReader) -> Vec<RecordBatch> {
    let all = readable(reader);
    (0..reader.metadata().block_rows.len())
        .map(|block| reader.read_block(BlockId(u32::try_from(block).unwrap()), &all).unwrap())
        .collect()
}

/// Rows of `batch` that certainly satisfy `predicate`.
fn matching(predicate: &BlockPredicate, batch: &RecordBatch) -> Vec<bool> {
    evaluate_rows(predicate, batch).into_iter().map(|outcome| outcome.is_satisfied()).collect()
}

/// What every kind of pruning must keep: pruned blocks hold no match, candidate rows hold all of them, and reading the
/// candidates gives what reading everything gives. Returns how many rows match and which blocks were kept.
fn check_sound(
    reader: &dyn ExtentReader,
    blocks: &[RecordBatch],
    predicate: &BlockPredicate,
    about: &str,
) -> (usize, Vec<usize>) {
    let kept: Vec<usize> = reader.pruned_blocks(predicate).unwrap().iter().map(|id| id.0 as usize).collect();
    let all = readable(reader);
    let mut total = 0;
    for (block, whole) in blocks.iter().enumerate() {
        let id = BlockId(u32::try_from(block).unwrap());
        let matches = matching(predicate, whole);
        let count = matches.iter().filter(|found| **found).count();
        total += count;
        let outcomes = reader.evaluate_block(id, predicate).unwrap();
        assert_eq!(
            outcomes.may_be_true() && whole.num_rows() > 0,
            kept.contains(&block),
            "{about}: {predicate:?}, block {block}"
        );
        for (row, outcome) in evaluate_rows(predicate, whole).into_iter().enumerate() {
            // A row whose outcome is known must be among those the block may have.
            let known = [outcome.may_be_true(), outcome.may_be_false(), outcome.may_be_null()];
            if known.iter().filter(|may| **may).count() == 1 {
                let may = [outcomes.may_be_true(), outcomes.may_be_false(), outcomes.may_be_null()];
                assert!(
                    known.iter().zip(may).all(|(known, may)| !known || may),
                    "{about}: {predicate:?}, block {block}, row {row}: {outcome} is not in {outcomes}"
                );
            }
        }
        if !kept.contains(&block) {
            assert_eq!(count, 0, "{about}: {predicate:?} lost {count} rows of block {block}");
            continue;
        }
        let rows = reader.candidate_rows(id, predicate).unwrap();
        let mut candidate = vec![false; whole.num_rows()];
        for range in &rows.0 {
            for row in range.clone() {
                candidate[usize::try_from(row).unwrap()] = true;
            }
        }
        for (row, (found, kept)) in matches.iter().zip(&candidate).enumerate() {
            assert!(!found || *kept, "{about}: {predicate:?} lost row {row} of block {block}");
        }
        let read = reader.read_rows(id, &all, &rows).unwrap();
        let expected = filter_record_batch(whole, &BooleanArray::from(candidate)).unwrap();
        assert_eq!(read, expected, "{about}: rows {rows:?} of block {block}");
    }
    (total, kept)
}

/// A small seeded generator: results must not depend on a crate's version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Some rows of `rows`.
    fn rows(&mut self, rows: u64) -> RowRanges {
        let mut ranges = Vec::new();
        let mut at = 0;
        let longest = usize::try_from(rows / 3 + 2).unwrap();
        while at < rows {
            at += u64::try_from(self.below(longest)).unwrap();
            let end = (at + 1 + u64::try_from(self.below(longest)).unwrap()).min(rows);
            if at < end {
                ranges.push(at..end);
            }
            at = end + 1;
        }
        RowRanges(ranges)
    }
}
