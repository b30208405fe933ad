//! Pruned against unpruned: random tables, layouts and predicates.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array,
    RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

use super::{Random, check_sound, open, read_all, write};
use crate::format::{BlockId, ExtentReader, WriteOptions};
use crate::predicate::{BlockPredicate, CompareOp, Scalar, TextPattern};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int32, true),
        Field::new("u", DataType::UInt64, true),
        Field::new("d", DataType::Float64, true),
        Field::new("f", DataType::Float32, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("b", DataType::Binary, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("day", DataType::Date32, true),
        Field::new("us", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("ns", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true),
        Field::new("dec", DataType::Decimal128(38, 3), true),
    ]))
}

const FLOATS: [f64; 10] =
    [f64::NAN, -0.0, 0.0, 1.0, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::MIN, 16_777_217.0, 3.25];
const INTS: [i32; 8] = [i32::MIN, -1, 0, 1, 7, 8, 1000, i32::MAX];
const UNSIGNED: [u64; 6] = [0, 1, 5, 1 << 63, u64::MAX - 1, u64::MAX];
const INSTANTS: [i64; 8] = [i64::MIN, -1, 0, 999, 1000, 1001, 1_700_000_000_000_000, i64::MAX];
const DECIMALS: [i128; 6] = [-(10i128.pow(37)), -1, 0, 1, 1234, 10i128.pow(37)];

fn texts() -> Vec<String> {
    let mut texts: Vec<String> =
        ["", "a", "b", "ab", "a\u{7f}", "é", "e\u{301}", "\u{212a}", "K", "k", "\u{10ffff}", "zzz", "out of memory"]
            .iter()
            .map(|text| (*text).to_owned())
            .collect();
    texts.extend([63, 64, 65, 255, 256, 257].map(|n| "x".repeat(n)));
    texts.extend([62, 63, 64].map(|n| format!("{}é\u{10ffff}", "y".repeat(n))));
    texts.push("\u{10ffff}".repeat(30));
    texts
}

/// Values drawn from a window of the domain, so that blocks and pages differ.
struct Window {
    from: usize,
    width: usize,
    nulls: usize,
}

impl Window {
    fn draw(random: &mut Random) -> Self {
        Self { from: random.below(16), width: 1 + random.below(4), nulls: *random.pick(&[0, 0, 3, 1]) }
    }

    fn pick<T: Clone>(&self, random: &mut Random, domain: &[T]) -> Option<T> {
        if self.nulls > 0 && random.chance(self.nulls) {
            return None;
        }
        Some(domain[(self.from + random.below(self.width)) % domain.len()].clone())
    }
}

fn batch(random: &mut Random, rows: usize) -> RecordBatch {
    // Stretches of rows draw from their own windows, so that pages can be told apart.
    fn column<T: Clone>(random: &mut Random, rows: usize, domain: &[T]) -> Vec<Option<T>> {
        let mut out = Vec::with_capacity(rows);
        while out.len() < rows {
            let window = Window::draw(random);
            let stretch = (1 + random.below(rows)).min(rows - out.len());
            out.extend((0..stretch).map(|_| window.pick(random, domain)));
        }
        out
    }
    #[expect(clippy::cast_possible_truncation, reason = "the nearest float is meant")]
    let singles: Vec<f32> = FLOATS.iter().map(|number| *number as f32).collect();
    let bytes: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 255], vec![255; 70], vec![127], vec![128], vec![200, 1]];
    let days: Vec<i32> = INTS.to_vec();
    let texts = texts();
    let strings = column(random, rows, &texts);
    let blobs = column(random, rows, &bytes);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(column(random, rows, &INTS))),
        Arc::new(UInt64Array::from(column(random, rows, &UNSIGNED))),
        Arc::new(Float64Array::from(column(random, rows, &FLOATS))),
        Arc::new(Float32Array::from(column(random, rows, &singles))),
        Arc::new(StringArray::from_iter(strings)),
        Arc::new(BinaryArray::from_iter(blobs)),
        Arc::new(BooleanArray::from(column(random, rows, &[false, true]))),
        Arc::new(Date32Array::from(column(random, rows, &days))),
        Arc::new(TimestampMicrosecondArray::from(column(random, rows, &INSTANTS))),
        Arc::new(TimestampNanosecondArray::from(column(random, rows, &INSTANTS)).with_timezone("UTC")),
        Arc::new(Decimal128Array::from(column(random, rows, &DECIMALS)).with_precision_and_scale(38, 3).unwrap()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn value(random: &mut Random, column: &str) -> Scalar {
    if random.chance(25) {
        return Scalar::Null;
    }
    match column {
        "i" => Scalar::Int(i128::from(*random.pick(&INTS)) + i128::from(random.next() % 3) - 1),
        "u" => Scalar::Int(i128::from(*random.pick(&UNSIGNED)) + i128::from(random.next() % 3) - 1),
        "d" | "f" => Scalar::Float(*random.pick(&FLOATS)),
        "s" => {
            let texts = texts();
            let mut text = random.pick(&texts).clone();
            if random.chance(4) {
                text.push('a');
            }
            Scalar::Str(text)
        }
        "b" => Scalar::Bytes(random.pick(&[vec![], vec![0u8], vec![255], vec![128], vec![255; 71], vec![1]]).clone()),
        "flag" => Scalar::Bool(random.chance(2)),
        "day" => Scalar::Date(i64::from(*random.pick(&INTS))),
        "us" => Scalar::TimestampNs(i128::from(*random.pick(&INSTANTS)) * 1000 + i128::from(random.next() % 3) - 1),
        "ns" => Scalar::TimestampNs(i128::from(*random.pick(&INSTANTS)) + i128::from(random.next() % 3) - 1),
        _ => Scalar::Decimal { value: *random.pick(&DECIMALS) + i128::from(random.next() % 3) - 1, scale: 3 },
    }
}

fn predicate(random: &mut Random, depth: usize) -> BlockPredicate {
    if depth > 0 && random.chance(2) {
        let parts = |random: &mut Random| (0..1 + random.below(3)).map(|_| predicate(random, depth - 1)).collect();
        return match random.below(3) {
            0 => BlockPredicate::And(parts(random)),
            1 => BlockPredicate::Or(parts(random)),
            _ => BlockPredicate::Not(Box::new(predicate(random, depth - 1))),
        };
    }
    let schema = schema();
    let column = random.pick(schema.fields()).name().clone();
    match random.below(8) {
        0 => BlockPredicate::IsNull { column },
        1 => {
            let values = (0..1 + random.below(3)).map(|_| value(random, &column)).collect();
            BlockPredicate::InSet { column, values }
        }
        2 => BlockPredicate::Text {
            column: "s".to_owned(),
            pattern: TextPattern {
                pieces: vec![(*random.pick(&["a", "x", "zz", "é", "of", "k"])).to_owned()],
                anchored_start: random.chance(2),
                anchored_end: random.chance(3),
                case_insensitive: random.chance(3),
                exact: true,
            },
        },
        3 => BlockPredicate::TimeRange {
            column: (*random.pick(&["us", "ns"])).to_owned(),
            start: random.chance(2).then(|| i128::from(*random.pick(&INSTANTS))),
            end: random.chance(2).then(|| i128::from(*random.pick(&INSTANTS)) * 1000),
        },
        _ => {
            let op = *random.pick(&CompareOp::ALL);
            let value = value(random, &column);
            BlockPredicate::Compare { column, op, value }
        }
    }
}

/// A file by the stock writer under some settings.
fn other_layout(random: &mut Random, blocks: &[RecordBatch]) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(*random.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW]))
        .set_writer_version(*random.pick(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]))
        .set_statistics_enabled(*random.pick(&[
            EnabledStatistics::None,
            EnabledStatistics::Chunk,
            EnabledStatistics::Page,
            EnabledStatistics::Page,
        ]))
        .set_dictionary_enabled(random.chance(2))
        .set_bloom_filter_enabled(random.chance(2))
        .set_data_page_row_count_limit(1 + random.below(20))
        .set_write_batch_size(1 + random.below(20))
        .set_column_index_truncate_length(*random.pick(&[None, Some(1), Some(2), Some(64)]))
        .set_statistics_truncate_length(*random.pick(&[None, Some(1), Some(2), Some(64)]))
        .set_offset_index_disabled(random.chance(8))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema(), Some(properties)).unwrap();
    for block in blocks {
        writer.write(block).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn pruning_loses_nothing() {
    let cases = std::env::var("PENSIEVE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    for seed in 0..cases {
        let mut random = Random(seed);
        let blocks: Vec<RecordBatch> = (0..1 + random.below(4))
            .map(|_| {
                let rows = 1 + random.below(60);
                batch(&mut random, rows)
            })
            .collect();
        let bytes = if random.chance(3) {
            let options = WriteOptions { bloom_columns: Some(vec!["*".to_owned()]), ..WriteOptions::default() };
            write(&schema(), &blocks, &options).0
        } else {
            other_layout(&mut random, &blocks)
        };
        let reader = open("random.parquet", bytes);
        let read = read_all(&reader);
        for (read, written) in read.iter().zip(&blocks) {
            assert_eq!(read.columns(), written.columns(), "seed {seed}");
        }
        for _ in 0..40 {
            let predicate = predicate(&mut random, 2);
            check_sound(&reader, &read, &predicate, &format!("seed {seed}"));
        }
        for (block, whole) in read.iter().enumerate() {
            let rows = random.rows(u64::try_from(whole.num_rows()).unwrap());
            let id = BlockId(u32::try_from(block).unwrap());
            let part = reader.read_rows(id, &[4, 0, 4], &rows).unwrap();
            let mut at = 0;
            for range in &rows.0 {
                let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
                assert_eq!(
                    &part.column(0).slice(at, end - start),
                    &whole.column(4).slice(start, end - start),
                    "seed {seed}"
                );
                at += end - start;
            }
            assert_eq!(at, part.num_rows());
        }
    }
}
