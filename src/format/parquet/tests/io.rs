//! Which bytes are asked for, and when.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{fixture, one, open, write};
use crate::Result;
use crate::format::parquet::decode::last_rows;
use crate::format::parquet::{ParquetFormat, ParquetReader};
use crate::format::{BlockId, ColumnPart, ExtentReader, RowRanges, SegmentFormat, WriteOptions};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};
use crate::storage::memory::MemorySource;
use crate::storage::{Identity, IoCounters, Source};

/// Remembers the calls; one call is one request to a store that coalesces.
#[derive(Debug)]
struct Watched {
    inner: MemorySource,
    calls: Mutex<Vec<Vec<Range<u64>>>>,
}

impl Watched {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { inner: MemorySource::new("watched.parquet", bytes), calls: Mutex::default() })
    }

    fn take(&self) -> Vec<Vec<Range<u64>>> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Source for Watched {
    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        self.calls.lock().unwrap().push(ranges.to_vec());
        self.inner.read_many(ranges)
    }

    fn counters(&self) -> &Arc<IoCounters> {
        self.inner.counters()
    }
}

/// Two blocks of 50,000 rows; 5 pages of each column in each.
fn log() -> Vec<u8> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, false),
        Field::new("trace_id", DataType::Utf8, true),
        Field::new("message", DataType::Utf8, true),
    ]));
    let block = |from: i64| {
        let hash = |i: i64| (i.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ 0x5555;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(from..from + 50_000)),
            Arc::new(StringArray::from_iter_values((from..from + 50_000).map(|i| format!("{:016x}", hash(i))))),
            Arc::new(StringArray::from_iter_values(
                (from..from + 50_000).map(|i| format!("request {} took {} ms on {:x}", i, hash(i) % 977, hash(i + 7))),
            )),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    write(&schema, &[block(0), block(50_000)], &WriteOptions::default()).0
}

fn equals(column: &str, value: Scalar) -> BlockPredicate {
    BlockPredicate::Compare { column: column.to_owned(), op: CompareOp::Eq, value }
}

#[test]
fn a_file_is_opened_by_one_read() {
    let source = Watched::new(log());
    let reader = ParquetReader::open(Arc::clone(&source) as Arc<dyn Source>).unwrap();
    assert_eq!(source.take().len(), 1);
    assert_eq!(reader.metadata().block_rows, [50_000, 50_000]);
}

#[test]
fn a_lookup_by_position_reads_one_page_of_each_column() {
    let bytes = log();
    let size = u64::try_from(bytes.len()).unwrap();
    let source = Watched::new(bytes);
    let reader = ParquetReader::open(Arc::clone(&source) as Arc<dyn Source>).unwrap();
    source.take();
    let predicate = equals("n", Scalar::Int(61_234));
    assert_eq!(reader.pruned_blocks(&predicate).unwrap(), [BlockId(1)]);
    assert!(source.take().is_empty(), "row-group statistics need no read");
    let rows = reader.candidate_rows(BlockId(1), &predicate).unwrap();
    assert_eq!(rows, one(10_240..20_480));
    let index = source.take();
    assert!(index.len() <= 1, "{index:?}");
    let batch = reader.read_rows(BlockId(1), &[2, 0, 1, 0], &rows).unwrap();
    let data = source.take();
    assert_eq!(data.len(), 1, "{data:?}");
    let read: u64 = data[0].iter().map(|range| range.end - range.start).sum();
    assert!(read * 5 < size, "{read} of {size} bytes");
    assert_eq!(batch.num_rows(), 10_240);
    assert_eq!(batch.schema().field(0).name(), "message");
    assert_eq!(batch.column(1), batch.column(3));
    let n = batch.column(1).as_primitive::<arrow::datatypes::Int64Type>();
    assert_eq!((n.value(0), n.value(n.len() - 1)), (60_240, 70_479));
}

#[test]
fn bloom_filters_are_read_once_and_only_for_equality() {
    let source = Watched::new(log());
    let reader = ParquetReader::open(Arc::clone(&source) as Arc<dyn Source>).unwrap();
    source.take();
    let absent = equals("trace_id", Scalar::Str("8000000000000000".to_owned()));
    let above = BlockPredicate::Compare {
        column: "trace_id".to_owned(),
        op: CompareOp::GtEq,
        value: Scalar::Str("8000000000000000".to_owned()),
    };
    assert_eq!(reader.pruned_blocks(&above).unwrap().len(), 2);
    assert!(source.take().is_empty());
    assert!(reader.pruned_blocks(&absent).unwrap().is_empty());
    assert!(source.take().len() <= 1, "the filters of both blocks come together");
    assert!(reader.pruned_blocks(&absent).unwrap().is_empty());
    assert!(!reader.evaluate_block(BlockId(0), &absent).unwrap().may_be_true());
    assert!(source.take().is_empty(), "and stay");
    // With what was learnt, the file opens again without a read.
    let again = reader.shared_metadata().unwrap();
    assert!(again.weight() > 1000);
    let again = again.attach(Arc::clone(&source) as Arc<dyn Source>);
    assert!(again.pruned_blocks(&absent).unwrap().is_empty());
    assert!(source.take().is_empty());
}

#[test]
fn projections_keep_their_order_and_read_only_their_columns() {
    let source = Watched::new(log());
    let reader = ParquetReader::open(Arc::clone(&source) as Arc<dyn Source>).unwrap();
    source.take();
    let batch = reader.read_block(BlockId(0), &[]).unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (50_000, 0));
    assert!(source.take().is_empty());
    let before = reader.io_counters().bytes.load(Ordering::Relaxed);
    let batch = reader.read_block(BlockId(0), &[0]).unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (50_000, 1));
    let numbers = reader.io_counters().bytes.load(Ordering::Relaxed) - before;
    assert!(numbers < 50_000, "{numbers} bytes for consecutive numbers");
    let none = reader.read_rows(BlockId(0), &[1], &RowRanges(Vec::new())).unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (0, 1));
}

#[test]
fn wrong_arguments_are_errors() {
    let reader = open("pyarrow_nulls.parquet", fixture("pyarrow_nulls.parquet"));
    let message = |result: Result<RecordBatch>| result.unwrap_err().to_string();
    assert!(message(reader.read_block(BlockId(9), &[0])).contains("3 row groups"));
    assert!(message(reader.read_block(BlockId(0), &[7])).contains("1 columns"));
    assert!(message(reader.read_rows(BlockId(0), &[0], &one(5..11))).contains("beyond its 10 rows"));
    assert!(message(reader.read_rows(BlockId(0), &[0], &RowRanges(vec![5..6, 2..3]))).contains("out of order"));
    let missing = equals("nowhere", Scalar::Int(1));
    assert!(reader.pruned_blocks(&missing).unwrap().is_empty(), "a column that does not exist is NULL");
}

#[test]
fn nested_columns_are_read_whole_and_by_rows() {
    let reader = open("pyarrow_types.parquet", fixture("pyarrow_types.parquet"));
    let schema = &reader.metadata().schema;
    let roots: Vec<usize> =
        ["point", "list", "dict", "list"].iter().map(|name| schema.index_of(name).unwrap()).collect();
    let whole = reader.read_block(BlockId(1), &roots).unwrap();
    let rows = RowRanges(vec![1..3, 7..8]);
    let part = reader.read_rows(BlockId(1), &roots, &rows).unwrap();
    for (whole, part) in whole.columns().iter().zip(part.columns()) {
        assert_eq!(&whole.slice(1, 2), &part.slice(0, 2));
        assert_eq!(&whole.slice(7, 1), &part.slice(2, 1));
    }
    // its writer had a dictionary in memory, of which the file knows nothing
    assert_eq!(whole.column(2).data_type(), &DataType::Utf8);
}

/// Batches are bounded by bytes; rows that are tried again, fewer at a time, are the same ones.
#[test]
fn rows_come_in_batches_that_can_be_made_smaller() {
    let reader = open("pyarrow_types.parquet", fixture("pyarrow_types.parquet"));
    let columns = ColumnPart::all_whole(&(0..reader.metadata().schema.fields().len()).collect::<Vec<_>>());
    let total = reader.metadata().block_rows[0];
    for rows in [RowRanges::all(total), RowRanges(vec![1..4, 5..6, 7..total])] {
        let read = |batch_rows: usize| {
            let mut stream = reader.stream_rows(BlockId(0), &columns, &rows, batch_rows).unwrap();
            let mut batches = Vec::new();
            while let Some(batch) = stream.next_batch().unwrap() {
                assert!(batch.num_rows() <= batch_rows);
                batches.push(batch);
            }
            concat_batches(&batches[0].schema(), &batches).unwrap()
        };
        assert_eq!(read(1), read(4096));
        assert_eq!(read(3), read(4096));
    }
    assert_eq!(last_rows(&RowRanges(vec![1..4, 5..6, 7..9]), 6), RowRanges(vec![1..4, 5..6, 7..9]));
    assert_eq!(last_rows(&RowRanges(vec![1..4, 5..6, 7..9]), 4), RowRanges(vec![3..4, 5..6, 7..9]));
    assert_eq!(last_rows(&RowRanges(vec![1..4, 5..6, 7..9]), 2), RowRanges(std::iter::once(7..9).collect()));
    assert_eq!(last_rows(&RowRanges::all(4), 0), RowRanges(vec![]));
}

/// A column that has no Arrow type is an error when it is read, and nothing before.
#[test]
fn a_column_without_a_type_leaves_the_others_readable() {
    let message = "message m { required fixed_len_byte_array(36) d (DECIMAL(80, 2)); required int64 id; }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = FixedLenByteArray::from(vec![0u8; 36]);
    column.typed::<FixedLenByteArrayType>().write_batch(&[value.clone(), value], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[7, 8], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let reader = open("wide.parquet", writer.into_inner().unwrap());
    assert_eq!(reader.metadata().schema.field(0).data_type(), &DataType::Utf8);
    let ids = reader.read_block(BlockId(0), &[1]).unwrap();
    assert_eq!(ids.column(0).as_primitive::<arrow::datatypes::Int64Type>().values(), &[7, 8]);
    let kept = reader.pruned_blocks(&equals("id", Scalar::Int(9))).unwrap();
    assert!(kept.is_empty(), "the evidence of the others holds");
    let error = reader.read_block(BlockId(0), &[0]).unwrap_err().to_string();
    assert!(error.contains("column \"d\" cannot be read") && !error.contains("corrupt"), "{error}");
}

#[test]
fn the_format_knows_its_files() {
    assert!(ParquetFormat.recognises(&fixture("pyarrow_nulls.parquet")[..16]));
    assert!(!ParquetFormat.recognises(b"PENSIEVE\x02\0ARROW1"));
    assert!(!ParquetFormat.recognises(b"PA"));
}
