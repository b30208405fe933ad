//! Rows of `tlm_metadata` and `tlm_blocks`: what a file says about itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::format::{BlockId, ExtentReader};
use crate::predicate::{ColumnStats, Scalar};
use crate::{Error, Result};

/// Schema of a listing function.
pub(super) fn schema(function: &str) -> Result<SchemaRef> {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let fields = match function {
        "tlm_metadata" => vec![
            field("file", DataType::Utf8),
            field("format", DataType::Utf8),
            field("version", DataType::Utf8),
            field("row_count", DataType::UInt64),
            field("block_count", DataType::UInt32),
            field("byte_size", DataType::UInt64),
            field("column_count", DataType::UInt32),
            field("schema", DataType::Utf8),
            field("min_timestamp", DataType::Timestamp(TimeUnit::Nanosecond, None)),
            field("max_timestamp", DataType::Timestamp(TimeUnit::Nanosecond, None)),
            field("stats_rejected", DataType::Utf8),
        ],
        "tlm_blocks" => vec![
            field("file", DataType::Utf8),
            field("block_id", DataType::UInt32),
            field("row_count", DataType::UInt64),
            field("byte_offset", DataType::UInt64),
            field("byte_size", DataType::UInt64),
            field("column_name", DataType::Utf8),
            field("kind", DataType::Utf8),
            field("min", DataType::Utf8),
            field("max", DataType::Utf8),
            field("null_count", DataType::UInt64),
        ],
        other => return Err(Error::InvalidInput(format!("there is no listing function {other}"))),
    };
    Ok(Arc::new(Schema::new(fields)))
}

/// Rows of a listing function about one file.
pub(super) fn rows(function: &str, path: &str, extent: &dyn ExtentReader) -> Result<RecordBatch> {
    let columns = if function == "tlm_metadata" { metadata(path, extent) } else { blocks(path, extent) };
    RecordBatch::try_new(schema(function)?, columns).map_err(|e| Error::InvalidInput(e.to_string()))
}

/// Statistics of a column over all blocks: unknown as soon as one block does not say.
pub(super) fn merge_blocks(extent: &dyn ExtentReader, column: &str) -> Option<ColumnStats> {
    let mut merged: Option<ColumnStats> = None;
    for (index, rows) in extent.metadata().block_rows.iter().enumerate() {
        if *rows == 0 {
            continue;
        }
        let block = BlockId(u32::try_from(index).ok()?);
        let stats = extent.block_evidence(block)?.column(column)?;
        merged = Some(match merged {
            None => stats,
            Some(known) => merge(known, stats, *rows),
        });
    }
    merged
}

fn all_null(stats: &ColumnStats, rows: u64) -> bool {
    stats.null_count == Some(rows)
}

fn merge(known: ColumnStats, stats: ColumnStats, rows: u64) -> ColumnStats {
    let null_count = known.null_count.zip(stats.null_count).map(|(a, b)| a + b);
    let nan_count = known.nan_count.zip(stats.nan_count).map(|(a, b)| a + b);
    // a block of nothing but nulls has no bounds and loosens none
    if all_null(&stats, rows) {
        return ColumnStats { null_count, nan_count, ..known };
    }
    let pick = |a: &Option<Scalar>, b: &Option<Scalar>, wanted: std::cmp::Ordering| -> Option<bool> {
        let (a, b) = (a.as_ref()?, b.as_ref()?);
        Some(a.compare(b)? == wanted)
    };
    let (min, min_exact) = match pick(&stats.min, &known.min, std::cmp::Ordering::Less) {
        Some(true) => (stats.min, stats.min_exact),
        Some(false) => (known.min, known.min_exact),
        None => (None, false),
    };
    let (max, max_exact) = match pick(&stats.max, &known.max, std::cmp::Ordering::Greater) {
        Some(true) => (stats.max, stats.max_exact),
        Some(false) => (known.max, known.max_exact),
        None => (None, false),
    };
    ColumnStats { min, max, min_exact, max_exact, null_count, nan_count }
}

fn metadata(path: &str, extent: &dyn ExtentReader) -> Vec<ArrayRef> {
    let metadata = extent.metadata();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let time = metadata
        .schema
        .fields()
        .iter()
        .find(|field| matches!(field.data_type(), DataType::Timestamp(_, _)))
        .and_then(|field| merge_blocks(extent, field.name()));
    let nanos = |bound: Option<&Scalar>| match bound {
        Some(Scalar::TimestampNs(value)) => i64::try_from(*value).ok(),
        _ => None,
    };
    let columns: Vec<String> =
        metadata.schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    vec![
        Arc::new(StringArray::from(vec![path])),
        Arc::new(StringArray::from(vec![metadata.format])),
        Arc::new(StringArray::from(vec![metadata.version.as_str()])),
        Arc::new(UInt64Array::from(vec![metadata.row_count()])),
        Arc::new(UInt32Array::from(vec![count(metadata.block_rows.len())])),
        Arc::new(UInt64Array::from(vec![metadata.byte_size])),
        Arc::new(UInt32Array::from(vec![count(columns.len())])),
        Arc::new(StringArray::from(vec![columns.join(", ")])),
        Arc::new(TimestampNanosecondArray::from(vec![nanos(time.as_ref().and_then(|stats| stats.min.as_ref()))])),
        Arc::new(TimestampNanosecondArray::from(vec![nanos(time.as_ref().and_then(|stats| stats.max.as_ref()))])),
        Arc::new(StringArray::from(vec![metadata.stats_rejected.as_deref()])),
    ]
}

fn kind(stats: &ColumnStats) -> Option<&'static str> {
    Some(match stats.min.as_ref().or(stats.max.as_ref())? {
        Scalar::TimestampNs(_) => "ts",
        Scalar::Int(_) => "i64",
        Scalar::Str(_) => "str",
        Scalar::Float(_) => "f64",
        Scalar::Bool(_) => "bool",
        Scalar::Decimal { .. } => "dec",
        Scalar::Date(_) => "date",
        Scalar::TimeNs(_) => "time",
        Scalar::Bytes(_) => "bytes",
        Scalar::Null => return None,
    })
}

fn blocks(path: &str, extent: &dyn ExtentReader) -> Vec<ArrayRef> {
    let metadata = extent.metadata();
    let (mut ids, mut rows, mut offsets, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut names, mut kinds, mut mins, mut maxs, mut nulls) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, row_count) in metadata.block_rows.iter().enumerate() {
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        let location = extent.block_location(BlockId(id));
        for field in metadata.schema.fields() {
            let stats = extent.block_evidence(BlockId(id)).and_then(|evidence| evidence.column(field.name()));
            ids.push(id);
            rows.push(*row_count);
            offsets.push(location.map(|location| location.offset));
            sizes.push(location.map(|location| location.length));
            names.push(field.name().clone());
            kinds.push(stats.as_ref().and_then(kind));
            mins.push(stats.as_ref().and_then(|stats| stats.min.as_ref()).map(display));
            maxs.push(stats.as_ref().and_then(|stats| stats.max.as_ref()).map(display));
            nulls.push(stats.as_ref().and_then(|stats| stats.null_count));
        }
    }
    vec![
        Arc::new(StringArray::from(vec![path; ids.len()])),
        Arc::new(UInt32Array::from(ids)),
        Arc::new(UInt64Array::from(rows)),
        Arc::new(UInt64Array::from(offsets)),
        Arc::new(UInt64Array::from(sizes)),
        Arc::new(StringArray::from(names)),
        Arc::new(StringArray::from(kinds)),
        Arc::new(StringArray::from(mins)),
        Arc::new(StringArray::from(maxs)),
        Arc::new(UInt64Array::from(nulls)),
    ]
}

/// A bound as a person reads it.
fn display(bound: &Scalar) -> String {
    match bound {
        Scalar::Str(text) => text.clone(),
        other => other.to_string().trim_matches('\'').to_owned(),
    }
}
