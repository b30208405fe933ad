//! What the fuzz targets share: small extents to damage, and everything that a query does with an extent.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};
use pensieve::format::registry::FormatRegistry;
use pensieve::format::{BlockId, ExtentReader, ExtentWriteResult, WriteOptions};
use pensieve::predicate::{BlockPredicate, CompareOp, Scalar};
use pensieve::storage::memory::MemorySource;
use pensieve::storage::sink::MemorySink;

/// Blocks of an extent that are read; a footer may claim millions.
const BLOCKS: usize = 6;
/// Larger files of the test data make slow inputs.
const LARGEST_SEED: usize = 40_000;

/// What the writer of `format` reports of the small extent.
pub fn written(format: &str) -> ExtentWriteResult {
    extent(format, &WriteOptions::default()).1
}

/// A small extent of three blocks with every kind of evidence: its bytes, and what the writer reports.
fn extent(format: &str, options: &WriteOptions) -> (Vec<u8>, ExtentWriteResult) {
    let (sink, bytes) = MemorySink::new("written");
    let blocks: Vec<RecordBatch> = (0..3).map(rows).collect();
    let registry = FormatRegistry::default();
    let format = registry.by_name(format).expect("the format is registered");
    let mut writer = format.start_extent(Box::new(sink), blocks[0].schema(), options).expect("the schema is writable");
    for block in &blocks {
        writer.append(block).expect("memory takes every block");
    }
    let written = writer.finish().expect("memory takes every file");
    (bytes.recv().expect("the sink hands over what was written"), written)
}

/// One block.
fn rows(block: i64) -> RecordBatch {
    let numbers = || (block * 40)..(block * 40 + 40);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("trace_id", Arc::new(StringArray::from_iter(numbers().map(|n| (n % 7 != 0).then(|| format!("id-{n}")))))),
        ("n", Arc::new(Int64Array::from_iter(numbers().map(|n| (n % 5 != 0).then_some(n))))),
        (
            "d",
            Arc::new(Float64Array::from_iter(
                numbers().map(|n| (n % 3 != 0).then_some(if n % 4 == 0 { f64::NAN } else { 0.5 })),
            )),
        ),
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(numbers().map(|n| n * 1_000_000_007)))),
        ("b", Arc::new(BooleanArray::from_iter(numbers().map(|n| (n % 9 != 0).then_some(n % 2 == 0))))),
        (
            "li",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                numbers()
                    .map(|n| (n % 6 != 0).then(|| (0..n % 4).map(|item| (item != 2).then_some(1)).collect::<Vec<_>>())),
            )),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("the columns are of one length")
}

/// The extent of `format`, written once.
pub fn base(format: &'static str) -> &'static [u8] {
    static TLM: OnceLock<Vec<u8>> = OnceLock::new();
    static PARQUET: OnceLock<Vec<u8>> = OnceLock::new();
    let cell = if format == "tlm" { &TLM } else { &PARQUET };
    let options = WriteOptions { bloom_columns: Some(vec!["n".to_owned()]), ..WriteOptions::default() };
    cell.get_or_init(|| extent(format, &options).0)
}

/// Writes inputs to begin with into the directory that `PENSIEVE_FUZZ_SEEDS` names: those given, and files of `data`, a folder of test/data,
/// with the mode byte that takes them as they are.
pub fn seed(inputs: impl IntoIterator<Item = Vec<u8>>, data: Option<&str>) {
    let Some(directory) = std::env::var_os("PENSIEVE_FUZZ_SEEDS").map(PathBuf::from) else { return };
    let mut all: Vec<Vec<u8>> = inputs.into_iter().collect();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../test/data");
    for entry in data
        .map(|name| std::fs::read_dir(root.join(name)).expect("the folder is there"))
        .into_iter()
        .flatten()
        .flatten()
    {
        match std::fs::read(entry.path()) {
            Ok(bytes) if bytes.len() < LARGEST_SEED => all.push(with_mode(0, &bytes)),
            _ => {}
        }
    }
    std::fs::create_dir_all(&directory).expect("the seeds can be written");
    for (number, input) in all.iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{number}")), input).expect("the seeds can be written");
    }
}

/// An input: what the target does with the bytes, and the bytes.
pub fn with_mode(mode: u8, bytes: &[u8]) -> Vec<u8> {
    [&[mode], bytes].concat()
}

/// A constant to compare a column with.
fn constant(kind: &DataType) -> Scalar {
    match kind {
        DataType::Boolean => Scalar::Bool(true),
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            _,
        ) => Scalar::TimestampNs(40_000_000_280),
        DataType::Float32 | DataType::Float64 => Scalar::Float(0.5),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Scalar::Str("id-44".to_owned()),
        _ => Scalar::Int(44),
    }
}

/// Opens bytes as an extent and does with it what queries do. Errors are what damage should give; panics are not.
pub fn exercise(bytes: Vec<u8>) {
    let Ok(reader) = FormatRegistry::default().open(Arc::new(MemorySource::new("fuzzed", bytes))) else { return };
    read(reader.as_ref());
}

fn read(reader: &dyn ExtentReader) {
    let schema = Arc::clone(&reader.metadata().schema);
    let blocks = reader.metadata().block_rows.len().min(BLOCKS);
    for field in schema.fields().iter().take(12) {
        for predicate in [
            BlockPredicate::Compare {
                column: field.name().clone(),
                op: CompareOp::Eq,
                value: constant(field.data_type()),
            },
            BlockPredicate::Compare {
                column: field.name().clone(),
                op: CompareOp::Lt,
                value: constant(field.data_type()),
            },
            BlockPredicate::IsNull { column: field.name().clone() },
        ] {
            let Ok(kept) = reader.pruned_blocks(&predicate) else { continue };
            for block in kept.into_iter().take(BLOCKS) {
                let Ok(rows) = reader.candidate_rows(block, &predicate) else { continue };
                for column in 0..schema.fields().len().min(12) {
                    let _ = reader.read_rows(block, &[column], &rows);
                }
            }
        }
    }
    let all: Vec<usize> = (0..schema.fields().len().min(64)).collect();
    for block in 0..blocks {
        let Ok(block) = u32::try_from(block) else { return };
        let _ = reader.block_location(BlockId(block));
        let _ = reader.read_block(BlockId(block), &all);
    }
}
