//! Helpers.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use serde_json::Value;

use crate::format::{BlockId, ExtentReader};

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

/// Every row of an extent, all columns, one batch per block.
pub fn read_all(extent: &dyn ExtentReader) -> Vec<RecordBatch> {
    let all: Vec<usize> = (0..extent.metadata().schema.fields().len()).collect();
    let blocks = extent.metadata().block_rows.len();
    (0..blocks).map(|b| extent.read_block(BlockId(u32::try_from(b).unwrap()), &all).unwrap()).collect()
}

/// The rows of a batch as JSON objects, NULLs included. Arrow knows no zone names here, and an instant needs none: timestamps
/// with a zone are written in UTC, with a `Z`.
pub fn as_json(batch: &RecordBatch) -> Vec<Value> {
    let zoned = |field: &FieldRef| matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let column = match field.data_type() {
            DataType::Timestamp(unit, Some(_)) => cast(column, &DataType::Timestamp(*unit, None)).unwrap(),
            _ => column.clone(),
        };
        (field.name(), column, true)
    });
    let plain = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut rows = plain_json(&plain);
    for field in schema.fields().iter().filter(|field| zoned(field)) {
        for row in &mut rows {
            if let Some(Value::String(text)) = row.get_mut(field.name()) {
                text.push('Z');
            }
        }
    }
    rows
}

fn plain_json(batch: &RecordBatch) -> Vec<Value> {
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
