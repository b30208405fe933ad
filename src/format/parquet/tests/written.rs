//! What the writer writes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, ListArray, RecordBatch, StringArray, StringViewArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, IntervalUnit, Schema, SchemaRef, TimeUnit};
use parquet::basic::Encoding;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::{open, read_all, write};
use crate::format::parquet::ParquetFormat;
use crate::format::{BlockId, ColumnPart, ExtentReader, RowRanges, SegmentFormat, SortKey, WriteOptions};
use crate::stats::extent::TimeRange;
use crate::storage::sink::MemorySink;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
        Field::new("value", DataType::Float64, true),
        Field::new("host", DataType::Utf8, true),
        Field::new("trace_id", DataType::Utf8, true),
        Field::new("view", DataType::Utf8View, true),
        Field::new("tags", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true),
        Field::new("n", DataType::Int32, true),
    ]))
}

fn block(from: i64, rows: i64) -> RecordBatch {
    let numbers = || from..from + rows;
    let columns: Vec<ArrayRef> =
        vec![
            Arc::new(TimestampNanosecondArray::from_iter_values(
                numbers().map(|i| 1_700_000_000_000_000_000 + i * 1_000_003),
            )),
            Arc::new(Float64Array::from_iter(numbers().map(|i| {
                (i % 11 != 0).then(|| if i % 13 == 0 { f64::NAN } else { f64::from(i32::try_from(i).unwrap()) / 3.0 })
            }))),
            Arc::new(StringArray::from_iter_values(numbers().map(|i| format!("host-{}", i % 12)))),
            Arc::new(StringArray::from_iter_values(numbers().map(|i| {
                format!("{:032x}", u128::from(i.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5677))
            }))),
            Arc::new(StringViewArray::from_iter_values(numbers().map(|i| format!("a longer message, number {i}")))),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                numbers().map(|i| (i % 5 != 0).then(|| vec![Some(i32::try_from(i).unwrap()), None])),
            )),
            Arc::new(Int32Array::from_iter_values(numbers().map(|i| i32::try_from(i % 7).unwrap()))),
        ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn footer(bytes: &[u8]) -> ParquetMetaData {
    let end = bytes.len();
    let length = usize::try_from(u32::from_le_bytes(bytes[end - 8..end - 4].try_into().unwrap())).unwrap();
    ParquetMetaDataReader::decode_metadata(&bytes[end - 8 - length..end - 8]).unwrap()
}

#[test]
fn what_is_written_is_read() {
    for compression in [None, Some("none"), Some("snappy"), Some("lz4"), Some("zstd"), Some("zstd:1")] {
        let options = WriteOptions { compression: compression.map(str::to_owned), ..WriteOptions::default() };
        let blocks = [block(0, 30_000), block(30_000, 7), block(30_007, 2500)];
        let (bytes, result) = write(&schema(), &blocks, &options);
        assert_eq!(result.byte_size, u64::try_from(bytes.len()).unwrap());
        assert_eq!((result.row_count, result.block_count), (32_507, 3));
        let (first, last) = (1_700_000_000_000_000_000, 1_700_000_000_000_000_000 + 32_506 * 1_000_003);
        assert!(result.time_ranges.values().any(|range| *range == TimeRange::Known(first, last)));
        let reader = open("written.parquet", bytes);
        assert_eq!(reader.metadata().block_rows, [30_000, 7, 2500]);
        for (read, written) in read_all(&reader).iter().zip(&blocks) {
            for (index, field) in schema().fields().iter().enumerate() {
                // Views are written as plain text.
                let written = arrow::compute::cast(written.column(index), read.column(index).data_type()).unwrap();
                assert_eq!(read.column(index), &written, "{}", field.name());
            }
        }
        assert_eq!(reader.metadata().schema.field(4).data_type(), &DataType::Utf8);
        assert_eq!(reader.metadata().schema.field(5), schema().field(5));
    }
}

fn ascending(column: &str) -> SortKey {
    SortKey { column: column.to_owned(), descending: false, nulls_first: false }
}

#[test]
fn encodings_indexes_filters_and_metadata() {
    let options = WriteOptions { sorted_by: vec![ascending("ts")], ..WriteOptions::default() };
    let (bytes, _) = write(&schema(), &[block(0, 50_000)], &options);
    let metadata = footer(&bytes);
    let chunk = |name: &str| {
        let group = metadata.row_group(0);
        group.columns().iter().find(|chunk| chunk.column_path().parts()[0] == name).unwrap()
    };
    let has = |name: &str, encoding: Encoding| chunk(name).encodings().any(|used| used == encoding);
    assert!(has("ts", Encoding::DELTA_BINARY_PACKED) && chunk("ts").dictionary_page_offset().is_none());
    assert!(has("value", Encoding::BYTE_STREAM_SPLIT) && chunk("value").dictionary_page_offset().is_none());
    assert!(chunk("host").dictionary_page_offset().is_some());
    // numbered identifiers repeat as a whole: plain values compress better
    assert!(has("trace_id", Encoding::PLAIN) && chunk("trace_id").dictionary_page_offset().is_none());
    for chunk in metadata.row_group(0).columns() {
        assert!(
            chunk.offset_index_offset().is_some() && chunk.column_index_offset().is_some(),
            "{}",
            chunk.column_path()
        );
        assert_eq!(chunk.bloom_filter_offset().is_some(), chunk.column_path().string() == "trace_id");
    }
    let bloom = chunk("trace_id").bloom_filter_length().unwrap();
    assert!((50_000..200_000).contains(&bloom), "{bloom} bytes for 50,000 values");
    let sorting = metadata.row_group(0).sorting_columns().unwrap();
    assert_eq!((sorting.len(), sorting[0].column_idx, sorting[0].descending), (1, 0, false));
    let keys: Vec<&str> =
        metadata.file_metadata().key_value_metadata().unwrap().iter().map(|entry| entry.key.as_str()).collect();
    // statistics are only where a tool that rewrites the file makes new ones
    assert_eq!(keys, ["ARROW:schema"]);
}

#[test]
fn nan_counts_are_known() {
    let (bytes, _) = write(&schema(), &[block(0, 1000), block(14, 10)], &WriteOptions::default());
    let reader = open("written.parquet", bytes);
    let stats = |block: u32| reader.block_evidence(BlockId(block)).unwrap().column("value").unwrap();
    assert_eq!(stats(0).nan_count, Some(70));
    assert_eq!(stats(1).nan_count, Some(0));
    assert_eq!(stats(0).null_count, Some(91));
    assert_eq!(stats(0).min, Some(crate::predicate::Scalar::Float(1.0 / 3.0)));
}

#[test]
fn bloom_columns_are_an_option() {
    let options =
        WriteOptions { bloom_columns: Some(vec!["HOST".to_owned(), "n*".to_owned()]), ..WriteOptions::default() };
    let (bytes, _) = write(&schema(), &[block(0, 100)], &options);
    let metadata = footer(&bytes);
    let with: Vec<String> = metadata
        .row_group(0)
        .columns()
        .iter()
        .filter(|chunk| chunk.bloom_filter_offset().is_some())
        .map(|chunk| chunk.column_path().string())
        .collect();
    assert_eq!(with, ["host", "n"]);
    let none = WriteOptions { bloom_columns: Some(Vec::new()), ..WriteOptions::default() };
    let (bytes, _) = write(&schema(), &[block(0, 100)], &none);
    assert!(footer(&bytes).row_group(0).columns().iter().all(|chunk| chunk.bloom_filter_offset().is_none()));
}

#[test]
fn dictionary_columns_come_as_dictionaries() {
    let (bytes, _) = write(&schema(), &[block(0, 30_000)], &WriteOptions::default());
    let reader = open("written.parquet", bytes);
    for rows in [RowRanges::all(30_000), RowRanges(vec![5..6, 11_000..25_000])] {
        let plain = reader.read_rows(BlockId(0), &[2, 3, 2, 0], &rows).unwrap();
        let parts = [2, 3, 2, 0].map(ColumnPart::whole);
        let mut stream = reader.stream_rows(BlockId(0), &parts, &rows, 4096).unwrap();
        let mut start = 0;
        let mut dictionaries = Vec::new();
        while let Some(dict) = stream.next_batch().unwrap() {
            let plain = plain.slice(start, dict.num_rows());
            start += dict.num_rows();
            assert!(dict.num_rows() <= 4096);
            let types: Vec<bool> =
                dict.columns().iter().map(|column| matches!(column.data_type(), DataType::Dictionary(..))).collect();
            assert_eq!(types, [true, false, true, false]);
            for (plain, dict) in plain.columns().iter().zip(dict.columns()) {
                assert_eq!(plain, &arrow::compute::cast(dict, plain.data_type()).unwrap());
            }
            dictionaries.push(arrow::array::AsArray::as_any_dictionary(dict.column(0).as_ref()).values().to_data());
        }
        assert_eq!((start, dictionaries[0].len()), (plain.num_rows(), 12));
        // one dictionary for all batches: whoever keeps its values needs to convert them once
        assert!(dictionaries.iter().all(|next| next.ptr_eq(&dictionaries[0])));
    }
}

#[test]
fn blocks_encoded_elsewhere_are_the_same_file() {
    let blocks: Vec<RecordBatch> = (0..6).map(|i| block(i * 3000, 3000)).collect();
    let (expected, _) = write(&schema(), &blocks, &WriteOptions::default());
    let (sink, written) = MemorySink::new("written.parquet");
    let mut writer = ParquetFormat.start_extent(Box::new(sink), schema(), &WriteOptions::default()).unwrap();
    let encoder = writer.encoder().unwrap();
    let encoded: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = blocks.iter().map(|block| scope.spawn(|| encoder.encode(block).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for block in encoded {
        assert!(block.bytes > 1000);
        writer.append_encoded(block).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(written.recv().unwrap(), expected);
}

#[test]
fn empty_blocks_and_empty_files() {
    let (bytes, result) = write(&schema(), &[], &WriteOptions::default());
    assert_eq!((result.row_count, result.block_count), (0, 0));
    assert!(open("empty.parquet", bytes).metadata().block_rows.is_empty());
    let (bytes, result) = write(&schema(), &[block(0, 0), block(0, 5), block(5, 0)], &WriteOptions::default());
    assert_eq!((result.row_count, result.block_count), (5, 1));
    assert_eq!(open("one.parquet", bytes).metadata().block_rows, [5]);
}

#[test]
fn units_without_a_parquet_type_are_converted() {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Timestamp(TimeUnit::Second, None), true)]));
    let good: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(-1), None, Some(5)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![good]).unwrap();
    let (bytes, _) = write(&schema, &[batch], &WriteOptions::default());
    let reader = open("seconds.parquet", bytes);
    assert_eq!(reader.metadata().schema.field(0).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, None));
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![far]).unwrap();
    let (sink, _written) = MemorySink::new("far.parquet");
    let mut writer = ParquetFormat.start_extent(Box::new(sink), schema, &WriteOptions::default()).unwrap();
    let error = writer.append(&batch).unwrap_err().to_string();
    assert!(error.contains("\"s\" of \"far.parquet\""), "{error}");
}

#[test]
fn unsupported_types_and_options_are_refused_before_anything_is_written() {
    let item = Arc::new(Field::new("item", DataType::Interval(IntervalUnit::MonthDayNano), true));
    let interval = Arc::new(Schema::new(vec![Field::new("iv", DataType::List(item), true)]));
    let error = ParquetFormat.check(&interval, &WriteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("column \"iv\"") && error.contains("Parquet"), "{error}");
    ParquetFormat.check(&schema(), &WriteOptions::default()).unwrap();
    let options = WriteOptions { sorted_by: vec![ascending("nowhere")], ..WriteOptions::default() };
    assert!(ParquetFormat.check(&schema(), &options).unwrap_err().to_string().contains("nowhere"));
    let options = WriteOptions { compression: Some("gzip".to_owned()), ..WriteOptions::default() };
    assert!(ParquetFormat.check(&schema(), &options).unwrap_err().to_string().contains("snappy"));
}

/// Writes a file for other readers to open: `PENSIEVE_KEEP=/tmp/x.parquet cargo test … a_file_for_other_readers`.
#[test]
fn a_file_for_other_readers() {
    let Some(path) = std::env::var_os("PENSIEVE_KEEP") else { return };
    let options = WriteOptions { sorted_by: vec![ascending("ts")], ..WriteOptions::default() };
    let (bytes, _) = write(&schema(), &[block(0, 50_000), block(50_000, 20_000)], &options);
    std::fs::write(path, bytes).unwrap();
}
