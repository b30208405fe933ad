//! What this crate writes, read back by this crate and by Arrow's own reader.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
    Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationMicrosecondArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeBinaryArray, LargeListArray,
    LargeStringArray, ListArray, ListViewArray, MapArray, NullArray, RecordBatch, RecordBatchOptions, RunArray,
    StringArray, StringViewArray, StructArray, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, UnionArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Fields, Int8Type, Int32Type, IntervalDayTime, IntervalMonthDayNano, Schema, UnionFields,
};
use serde_json::json;

use super::{TlmFormat, open, open_bytes, read_all, write};
use crate::format::{BlockId, ExtentReader, ExtentWriteResult, SegmentFormat, WriteOptions};
use crate::predicate::Scalar;
use crate::stats::extent::TimeRange;
use crate::storage::memory::MemorySource;
use crate::storage::sink::{LocalSink, MemorySink};

const ROWS: usize = 6;

fn nulls() -> Option<NullBuffer> {
    Some(NullBuffer::from(vec![true, false, true, true, false, true]))
}

/// One array of every type, six rows each, two of them NULL.
fn arrays() -> Vec<(&'static str, ArrayRef)> {
    macro_rules! primitive {
        ($array:ty, $values:expr) => {
            Arc::new(<$array>::new(ScalarBuffer::from($values.to_vec()), nulls())) as ArrayRef
        };
    }
    let texts = [Some("a"), None, Some("éé"), Some("a text that is longer than a view holds inline"), None, Some("")];
    let ints = primitive!(Int32Array, [1, 0, i32::MIN, i32::MAX, 0, 5]);
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let offsets = OffsetBuffer::new(vec![0, 2, 2, 3, 6, 6, 6].into());
    let list = Arc::new(ListArray::new(Arc::clone(&item), offsets, Arc::clone(&ints), nulls()));
    let long_offsets = OffsetBuffer::new(vec![0i64, 2, 2, 3, 6, 6, 6].into());
    let members = Fields::from(vec![Field::new("n", DataType::Int32, true), Field::new("s", DataType::Utf8, true)]);
    let strings: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let structs = Arc::new(StructArray::new(members, vec![Arc::clone(&ints), Arc::clone(&strings)], nulls()));
    let entries =
        Fields::from(vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int32, true)]);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["k1", "k2", "k3", "k4", "k5", "k6"]));
    let entries = StructArray::new(entries, vec![keys, Arc::clone(&ints)], None);
    let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map_offsets = OffsetBuffer::new(vec![0, 2, 2, 3, 6, 6, 6].into());
    let decimal = |values: [i64; 6]| values.map(i128::from);
    let union_fields =
        UnionFields::try_new([0, 5], [Field::new("i", DataType::Int32, true), Field::new("s", DataType::Utf8, true)])
            .unwrap();
    let sparse = UnionArray::try_new(
        union_fields.clone(),
        vec![0i8, 5, 0, 5, 5, 0].into(),
        None,
        vec![Arc::clone(&ints), Arc::clone(&strings)],
    );
    let dense = UnionArray::try_new(
        union_fields,
        vec![0i8, 5, 0, 5, 5, 0].into(),
        Some(vec![0i32, 0, 1, 2, 3, 5].into()),
        vec![Arc::clone(&ints), Arc::clone(&strings)],
    );
    let vector = Arc::new(Field::new("item", DataType::Float32, false));
    let floats: ArrayRef = Arc::new(Float32Array::from((0..18u8).map(f32::from).collect::<Vec<_>>()));
    let nested_dictionary: ArrayRef =
        Arc::new(["x", "y", "x", "x", "z", "y"].into_iter().collect::<DictionaryArray<Int8Type>>());
    let dictionary_item = Arc::new(Field::new("item", nested_dictionary.data_type().clone(), true));
    let dictionary_offsets = OffsetBuffer::new(vec![0, 2, 2, 3, 6, 6, 6].into());
    vec![
        ("null", Arc::new(NullArray::new(ROWS))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), None, Some(true)]))),
        ("i8", primitive!(Int8Array, [1i8, 0, i8::MIN, i8::MAX, 0, 5])),
        ("i16", primitive!(Int16Array, [1i16, 0, i16::MIN, i16::MAX, 0, 5])),
        ("i32", Arc::clone(&ints)),
        ("i64", primitive!(Int64Array, [1i64, 0, i64::MIN, i64::MAX, 0, 5])),
        ("u8", primitive!(UInt8Array, [1u8, 0, 7, u8::MAX, 0, 5])),
        ("u16", primitive!(UInt16Array, [1u16, 0, 7, u16::MAX, 0, 5])),
        ("u32", primitive!(UInt32Array, [1u32, 0, 7, u32::MAX, 0, 5])),
        ("u64", primitive!(UInt64Array, [1u64, 0, 7, u64::MAX, 0, 5])),
        ("f16", cast(&primitive!(Float32Array, [0.5f32, 0.0, -1.0, 2.0, 0.0, 3.0]), &DataType::Float16).unwrap()),
        ("f32", primitive!(Float32Array, [0.1f32, 0.0, f32::NAN, f32::INFINITY, 0.0, -0.0])),
        ("f64", primitive!(Float64Array, [0.1f64, 0.0, f64::NAN, f64::NEG_INFINITY, 0.0, -0.0])),
        ("date32", primitive!(Date32Array, [1, 0, -1, i32::MAX, 0, 5])),
        ("date64", primitive!(Date64Array, [86_400_000i64, 0, -86_400_000, 0, 0, 0])),
        ("time_s", primitive!(Time32SecondArray, [1, 0, 2, 86_399, 0, 5])),
        ("time_ms", primitive!(Time32MillisecondArray, [1, 0, 2, 86_399_999, 0, 5])),
        ("time_us", primitive!(Time64MicrosecondArray, [1i64, 0, 2, 86_399_999_999, 0, 5])),
        ("time_ns", primitive!(Time64NanosecondArray, [1i64, 0, 2, 86_399_999_999_999, 0, 5])),
        ("ts_s", primitive!(TimestampSecondArray, [1i64, 0, -2, 3, 0, 5])),
        ("ts_ms", primitive!(TimestampMillisecondArray, [1i64, 0, -2, 3, 0, 5])),
        (
            "ts_us",
            Arc::new(TimestampMicrosecondArray::new(vec![1i64, 0, -2, 3, 0, 5].into(), nulls()).with_timezone("UTC")),
        ),
        ("ts_ns", primitive!(TimestampNanosecondArray, [1i64, 0, i64::MIN, i64::MAX, 0, 5])),
        ("duration", primitive!(DurationMicrosecondArray, [1i64, 0, -2, 3, 0, 5])),
        ("months", primitive!(IntervalYearMonthArray, [1, 0, -2, 3, 0, 5])),
        ("days", primitive!(IntervalDayTimeArray, [IntervalDayTime::new(1, -2); 6])),
        ("interval", primitive!(IntervalMonthDayNanoArray, [IntervalMonthDayNano::new(1, -2, 3); 6])),
        ("dec32", Arc::new(primitive_decimal32())),
        (
            "dec64",
            Arc::new(
                Decimal64Array::new(vec![1i64, 0, -5, 7, 0, 9].into(), nulls())
                    .with_precision_and_scale(15, 3)
                    .unwrap(),
            ),
        ),
        (
            "dec128",
            Arc::new(
                Decimal128Array::new(decimal([1, 0, -5, 7, 0, 9]).to_vec().into(), nulls())
                    .with_precision_and_scale(38, 10)
                    .unwrap(),
            ),
        ),
        (
            "dec256",
            cast(
                &(Arc::new(
                    Decimal128Array::new(decimal([1, 0, -5, 7, 0, 9]).to_vec().into(), nulls())
                        .with_precision_and_scale(20, 2)
                        .unwrap(),
                ) as ArrayRef),
                &DataType::Decimal256(40, 2),
            )
            .unwrap(),
        ),
        ("utf8", Arc::clone(&strings)),
        ("large_utf8", Arc::new(LargeStringArray::from(texts.to_vec()))),
        ("binary", Arc::new(BinaryArray::from(texts.map(|t| t.map(str::as_bytes)).to_vec()))),
        ("large_binary", Arc::new(LargeBinaryArray::from(texts.map(|t| t.map(str::as_bytes)).to_vec()))),
        ("utf8_view", Arc::new(StringViewArray::from(texts.to_vec()))),
        ("binary_view", Arc::new(BinaryViewArray::from(texts.map(|t| t.map(str::as_bytes)).to_vec()))),
        (
            "uuid",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    [Some([7u8; 16]), None, Some([0; 16]), Some([255; 16]), None, Some([1; 16])].into_iter(),
                    16,
                )
                .unwrap(),
            ),
        ),
        ("list", Arc::clone(&list) as ArrayRef),
        ("large_list", Arc::new(LargeListArray::new(Arc::clone(&item), long_offsets, Arc::clone(&ints), nulls()))),
        (
            "list_view",
            Arc::new(ListViewArray::new(
                Arc::clone(&item),
                vec![4, 0, 1, 1, 0, 3].into(),
                vec![2, 0, 3, 1, 0, 0].into(),
                Arc::clone(&ints),
                nulls(),
            )),
        ),
        ("vector", Arc::new(FixedSizeListArray::new(vector, 3, floats, nulls()))),
        ("struct", Arc::clone(&structs) as ArrayRef),
        ("map", Arc::new(MapArray::new(entry, map_offsets, entries, nulls(), false))),
        (
            "view_list",
            Arc::new(ListArray::new(
                Arc::new(Field::new("item", DataType::Utf8View, true)),
                OffsetBuffer::new(vec![0, 2, 2, 3, 6, 6, 6].into()),
                Arc::new(StringViewArray::from(texts.to_vec())),
                nulls(),
            )),
        ),
        ("sparse_union", Arc::new(sparse.unwrap())),
        ("dense_union", Arc::new(dense.unwrap())),
        (
            "runs",
            Arc::new(
                RunArray::<Int32Type>::try_new(
                    &Int32Array::from(vec![2, 5, 6]),
                    &StringArray::from(vec![Some("a"), None, Some("b")]),
                )
                .unwrap(),
            ),
        ),
        (
            "dictionary",
            Arc::new(
                [Some("x"), None, Some("y"), Some("x"), None, Some("x")]
                    .into_iter()
                    .collect::<DictionaryArray<Int8Type>>(),
            ),
        ),
        (
            "int_dictionary",
            Arc::new(DictionaryArray::<Int8Type>::new(
                Int8Array::from(vec![Some(0), None, Some(1), Some(0), None, Some(0)]),
                Arc::new(Int64Array::from(vec![7, 9])),
            )),
        ),
        ("dictionary_list", Arc::new(ListArray::new(dictionary_item, dictionary_offsets, nested_dictionary, nulls()))),
        ("half", Arc::new(Float16Array::from_iter((0..ROWS).map(|_| None)))),
        ("wide", Arc::new(Decimal256Array::from(vec![None; ROWS]).with_precision_and_scale(50, 5).unwrap())),
    ]
}

fn primitive_decimal32() -> Decimal32Array {
    Decimal32Array::new(vec![1, 0, -5, 7, 0, 9].into(), nulls()).with_precision_and_scale(9, 2).unwrap()
}

fn batch() -> RecordBatch {
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = arrays()
        .into_iter()
        .map(|(name, array)| {
            let field = Field::new(name, array.data_type().clone(), true);
            let metadata = HashMap::from([
                ("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned()),
                ("ARROW:extension:metadata".to_owned(), String::new()),
            ]);
            (if name == "uuid" { field.with_metadata(metadata) } else { field }, array)
        })
        .unzip();
    let schema = Schema::new(fields).with_metadata(HashMap::from([("made by".to_owned(), "test".to_owned())]));
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn every_option() -> Vec<WriteOptions> {
    let mut all = Vec::new();
    for compression in [None, Some("none"), Some("lz4"), Some("zstd"), Some("ZSTD:1")] {
        for dictionary in [false, true] {
            for magic in [None, Some("kyma")] {
                all.push(WriteOptions {
                    compression: compression.map(Into::into),
                    dictionary,
                    magic: magic.map(Into::into),
                    ..Default::default()
                });
            }
        }
    }
    all
}

/// The same values, whatever the types: dictionaries and views are compared unpacked.
fn assert_same(written: &RecordBatch, read: &RecordBatch, context: &str) {
    assert_eq!(written.num_rows(), read.num_rows(), "{context}");
    for (field, (a, b)) in written.schema().fields().iter().zip(written.columns().iter().zip(read.columns())) {
        let unpacked = match b.data_type() {
            DataType::Dictionary(_, values) => cast(b, values).unwrap(),
            _ => Arc::clone(b),
        };
        let expected =
            if a.data_type() == unpacked.data_type() { Arc::clone(a) } else { cast(a, unpacked.data_type()).unwrap() };
        assert_eq!(&expected, &unpacked, "{context} {}", field.name());
    }
}

#[test]
fn every_type_with_every_option() {
    let batch = batch();
    let blocks = [batch.clone(), batch.slice(1, 3), batch.slice(0, 0), batch.slice(5, 1)];
    for options in every_option() {
        let (bytes, result) = write(&blocks, &options).unwrap();
        assert_eq!(result.row_count, 10);
        assert_eq!(result.block_count, 4);
        assert_eq!(result.byte_size, bytes.len() as u64);
        assert_eq!(result.object_path, "memory.tlm");
        assert_eq!(result.present_paths, None);
        for mapped in [true, false] {
            let source = MemorySource::new("m", bytes.clone());
            let reader = open(if mapped { source.mapped() } else { source }).unwrap();
            assert_eq!(reader.metadata().block_rows, [6, 3, 0, 1]);
            assert_eq!(reader.metadata().stats_rejected, None);
            let schema = &reader.metadata().schema;
            assert_eq!(schema.metadata().get("made by").map(String::as_str), Some("test"));
            assert_eq!(schema.field_with_name("uuid").unwrap().metadata().len(), 2);
            for (block, read) in blocks.iter().zip(read_all(reader.as_ref()).unwrap()) {
                assert_same(block, &read, &format!("{options:?}"));
            }
            for (index, block) in blocks.iter().enumerate() {
                check_evidence(reader.as_ref(), index, block);
            }
        }
    }
}

/// The statistics say what the rows say.
fn check_evidence(reader: &dyn ExtentReader, index: usize, block: &RecordBatch) {
    let evidence = reader.block_evidence(BlockId(index as u32)).unwrap();
    for (field, column) in block.schema().fields().iter().zip(block.columns()) {
        if matches!(field.data_type(), DataType::Union(..) | DataType::RunEndEncoded(..)) {
            assert_eq!(evidence.column(field.name()), None, "{}", field.name());
            continue;
        }
        let stats = evidence.column(field.name()).unwrap_or_else(|| panic!("{}", field.name()));
        assert_eq!(stats.null_count, Some(column.logical_null_count() as u64), "{}", field.name());
        if stats.null_count == Some(block.num_rows() as u64) {
            assert_eq!((stats.min, stats.max), (None, None), "{}", field.name());
        }
    }
    if index == 0 {
        let range = |name: &str| evidence.column(name).map(|s| (s.min.unwrap(), s.max.unwrap())).unwrap();
        assert_eq!(range("u64"), (Scalar::Int(1), Scalar::Int(u64::MAX.into())));
        assert_eq!(range("ts_ns"), (Scalar::TimestampNs(i64::MIN.into()), Scalar::TimestampNs(i64::MAX.into())));
        assert_eq!(range("ts_s"), (Scalar::TimestampNs(-2_000_000_000), Scalar::TimestampNs(5_000_000_000)));
        assert_eq!(
            range("dec128"),
            (Scalar::Decimal { value: -5, scale: 10 }, Scalar::Decimal { value: 9, scale: 10 })
        );
        assert_eq!(range("dictionary"), (Scalar::Str("x".into()), Scalar::Str("y".into())));
        assert_eq!(evidence.column("f64").unwrap().nan_count, Some(1));
    }
}

#[test]
fn arrow_reads_the_body() {
    let batch = batch();
    for options in every_option() {
        let (bytes, _) = write(&[batch.clone(), batch.slice(2, 4)], &options).unwrap();
        let magic = if options.magic.is_some() { 5 } else { 9 };
        let end = bytes.windows(6).rposition(|w| w == b"ARROW1").unwrap() + 6;
        let reader = arrow_ipc::reader::FileReader::try_new(Cursor::new(&bytes[magic..end]), None).unwrap();
        let blocks: Vec<RecordBatch> = reader.map(|b| b.unwrap()).collect();
        assert_eq!(blocks.len(), 2);
        assert_same(&batch, &blocks[0], "arrow");
        assert_same(&batch.slice(2, 4), &blocks[1], "arrow");
    }
}

#[test]
fn the_body_is_what_arrow_would_write() {
    let columns = arrays().into_iter().filter(|(name, _)| !name.contains("dictionary") && !name.ends_with("_view"));
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    let mut theirs = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut theirs, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let (ours, _) = write(&[batch], &WriteOptions::default()).unwrap();
    let reader = open_bytes("x", ours.clone()).unwrap();
    let location = reader.block_location(BlockId(0)).unwrap();
    let end = (location.offset + location.length) as usize;
    assert!(ours[9..end] == theirs[..end - 9]);
}

#[test]
fn the_statistics_footer_has_the_reference_shape() {
    let batch = RecordBatch::try_from_iter([
        ("at", Arc::new(TimestampNanosecondArray::from(vec![5, 3])) as ArrayRef),
        ("label", Arc::new(StringViewArray::from(vec!["b", "a"]))),
    ])
    .unwrap();
    let options = WriteOptions { magic: Some("PNSV".into()), ..Default::default() };
    let (bytes, _) = write(&[batch], &options).unwrap();
    assert_eq!(&bytes[bytes.len() - 5..], b"PNSV\x02");
    let expected = concat!(
        r#"ARROW1[{"row_count":2,"cols":{"at":{"k":"ts","min":3,"max":5,"nulls":0},"#,
        r#""label":{"k":"str","min":"a","max":"b","nulls":0}}}]"#
    );
    let at = bytes.len() - 5 - 4 - (expected.len() - 6);
    assert_eq!(std::str::from_utf8(&bytes[at - 6..bytes.len() - 9]).unwrap(), expected);
    assert_eq!(bytes[bytes.len() - 9..bytes.len() - 5], (expected.len() as u32 - 6).to_le_bytes());
}

#[test]
fn an_extent_without_blocks() {
    for dictionary in [false, true] {
        let (sink, bytes) = MemorySink::new("empty.tlm");
        let options = WriteOptions { dictionary, ..Default::default() };
        let writer = TlmFormat.start_extent(Box::new(sink), batch().schema(), &options).unwrap();
        let result = writer.finish().unwrap();
        assert_eq!((result.row_count, result.block_count), (0, 0));
        assert!(result.time_ranges.values().all(|range| *range == TimeRange::Empty));
        let reader = open_bytes("empty.tlm", bytes.recv().unwrap()).unwrap();
        assert_eq!(reader.metadata().block_rows, [0u64; 0]);
        assert_eq!(reader.metadata().schema.fields().len(), batch().num_columns());
    }
}

#[test]
fn a_block_without_columns_keeps_its_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(17));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let (bytes, result) = write(&[batch], &WriteOptions::default()).unwrap();
    assert_eq!(result.row_count, 17);
    let reader = open_bytes("x", bytes).unwrap();
    assert_eq!(reader.read_block(BlockId(0), &[]).unwrap().num_rows(), 17);
}

fn logs(rows: usize, seed: usize) -> RecordBatch {
    let text = |f: &dyn Fn(usize) -> String| Arc::new(StringArray::from_iter_values((0..rows).map(f))) as ArrayRef;
    RecordBatch::try_from_iter([
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter_values((0..rows as i64).map(|i| i + seed as i64)))
                as ArrayRef,
        ),
        ("service", text(&|i| format!("svc-{}", (i + seed) % 7))),
        ("message", text(&|i| format!("request {} took {} ms", i + seed, i * 37 % 997))),
        ("status", Arc::new(Int32Array::from_iter_values((0..rows).map(|i| (i % 5) as i32 * 100)))),
        ("id", Arc::new(Int64Array::from_iter_values((0..rows).map(|i| (i + seed) as i64)))),
    ])
    .unwrap()
}

#[test]
fn the_result_is_the_catalog_row() {
    let (_, result) = write(&[logs(500, 0), logs(700, 1000)], &WriteOptions::default()).unwrap();
    assert_eq!((result.row_count, result.block_count), (1200, 2));
    let ranges: Vec<TimeRange> = result.time_ranges.values().copied().collect();
    assert_eq!(ranges, [TimeRange::Known(0, 1_699_000)]);
    assert_eq!(result.extent_id.get_version_num(), 4);
    let stats = result.column_stats;
    let services: Vec<String> = (0..7).map(|i| format!("svc-{i}")).collect();
    assert_eq!(stats["service"], json!({"distinct": services, "tokens": ["svc"]}));
    assert_eq!(stats["status"]["distinct"], json!([0, 100, 200, 300, 400]));
    assert_eq!(stats["id"]["distinct"], json!(null));
    assert_eq!(stats["message"]["distinct"], json!(null));
    assert!(stats["message"]["tokens"].as_array().unwrap().contains(&json!("request")));
    assert_eq!(stats.get("ts"), None);
}

#[test]
fn dictionaries_are_chosen_and_change_no_answer() {
    let blocks = [logs(500, 0), logs(700, 3)];
    let plain = write(&blocks, &WriteOptions::default()).unwrap();
    let coded = write(&blocks, &WriteOptions { dictionary: true, ..Default::default() }).unwrap();
    assert!(coded.0.len() < plain.0.len());
    assert_eq!(plain.1.column_stats, coded.1.column_stats);
    let reader = open_bytes("x", coded.0).unwrap();
    let schema = &reader.metadata().schema;
    assert_eq!(schema.field(1).data_type(), &super::super::dictionary::dictionary_type());
    assert_eq!(schema.field(2).data_type(), &DataType::Utf8);
    let read = read_all(reader.as_ref()).unwrap();
    for (a, b) in blocks.iter().zip(&read) {
        assert_same(a, b, "dictionary");
    }
    // One dictionary for all blocks, so that a caller may convert it once.
    let values = |b: &RecordBatch| b.column(1).to_data().child_data()[0].buffers()[1].as_ptr();
    assert_eq!(values(&read[0]), values(&read[1]));
}

#[test]
fn blocks_are_encoded_on_many_threads() {
    let blocks: Vec<RecordBatch> = (0..12).map(|i| logs(1000, i * 10)).collect();
    for dictionary in [false, true] {
        let options = WriteOptions { dictionary, compression: Some("zstd".into()), ..Default::default() };
        let serial = write(&blocks, &options).unwrap();
        let (sink, bytes) = MemorySink::new("memory.tlm");
        let mut writer = TlmFormat.start_extent(Box::new(sink), blocks[0].schema(), &options).unwrap();
        let encoder = writer.encoder().unwrap();
        let encoded: Vec<_> = std::thread::scope(|scope| {
            let handles: Vec<_> = blocks.iter().map(|b| scope.spawn(|| encoder.encode(b).unwrap())).collect();
            handles.into_iter().map(|h| h.join().unwrap()).collect()
        });
        for block in encoded {
            assert_eq!(block.rows, 1000);
            writer.append_encoded(block).unwrap();
        }
        let result = writer.finish().unwrap();
        assert_eq!(result.column_stats, serial.1.column_stats);
        let bytes = bytes.recv().unwrap();
        if !dictionary {
            assert!(bytes == serial.0);
        }
        for (a, b) in blocks.iter().zip(read_all(open_bytes("x", bytes).unwrap().as_ref()).unwrap()) {
            assert_same(a, &b, "parallel");
        }
    }
}

#[test]
fn only_the_bytes_of_the_wanted_columns_are_fetched() {
    let (bytes, _) = write(&[logs(100_000, 0), logs(100_000, 5)], &WriteOptions::default()).unwrap();
    let size = bytes.len() as u64;
    let reader = open(MemorySource::new("x", bytes)).unwrap();
    let counters = reader.io_counters();
    let opened = counters.bytes.load(Ordering::Relaxed);
    assert!(opened <= 66 * 1024 && counters.requests.load(Ordering::Relaxed) == 2, "{opened}");
    reader.read_block(BlockId(1), &[3]).unwrap();
    let read = counters.bytes.load(Ordering::Relaxed) - opened;
    assert!((400_000..410_000).contains(&read), "{read} of {size}");
    reader.read_block(BlockId(1), &[]).unwrap();
    assert_eq!(counters.bytes.load(Ordering::Relaxed) - opened, read);
}

#[test]
fn statistics_larger_than_the_tail_are_read() {
    let blocks: Vec<RecordBatch> = (0..300).map(|i| logs(20, i)).collect();
    let (bytes, _) = write(&blocks, &WriteOptions::default()).unwrap();
    let reader = open_bytes("x", bytes).unwrap();
    assert_eq!(reader.metadata().block_rows.len(), 300);
    assert!(reader.block_evidence(BlockId(299)).unwrap().column("message").unwrap().min.is_some());
    assert_same(&blocks[299], &reader.read_block(BlockId(299), &[0, 1, 2, 3, 4]).unwrap(), "last");
}

#[test]
fn wrong_options_and_schemas_are_refused() {
    let schema = logs(1, 0).schema();
    let cases = [
        (WriteOptions { compression: Some("brotli".into()), ..Default::default() }, "brotli"),
        (WriteOptions { compression: Some("lz4:3".into()), ..Default::default() }, "lz4:3"),
        (WriteOptions { compression: Some("zstd:99".into()), ..Default::default() }, "99"),
        (WriteOptions { magic: Some("PAR1".into()), ..Default::default() }, "PAR1"),
    ];
    for (options, needle) in cases {
        let error = TlmFormat.check(&schema, &options).unwrap_err().to_string();
        assert!(error.contains(needle), "{error}");
        let (sink, _bytes) = MemorySink::new("x");
        assert!(TlmFormat.start_extent(Box::new(sink), Arc::clone(&schema), &options).is_err());
    }
    let (sink, _bytes) = MemorySink::new("x.tlm");
    let mut writer = TlmFormat.start_extent(Box::new(sink), schema, &WriteOptions::default()).unwrap();
    let other = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = writer.append(&other).unwrap_err().to_string();
    assert!(error.contains("x.tlm") && error.contains("schema"), "{error}");
    writer.append(&logs(3, 0)).unwrap();
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tlm");
    let start = || -> Box<dyn crate::format::ExtentWriter> {
        let sink = LocalSink::create(path.to_str().unwrap()).unwrap();
        TlmFormat.start_extent(Box::new(sink), logs(1, 0).schema(), &WriteOptions::default()).unwrap()
    };
    let mut writer = start();
    writer.append(&logs(1000, 0)).unwrap();
    assert!(writer.bytes_written() > 0);
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let mut writer = start();
    writer.append(&logs(1000, 0)).unwrap();
    let result: ExtentWriteResult = writer.finish().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), result.byte_size);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
