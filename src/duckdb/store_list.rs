//! Rows of `pensieve_snapshots`, `pensieve_extents` and `pensieve_column_stats`: what a catalog says about a table.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::store::PnsTable;
use crate::catalog::{Catalog, TableView};
use crate::{Error, Result};

/// Schema of a listing function.
pub(super) fn schema(function: &str) -> Result<SchemaRef> {
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, None);
    let (text, count) = (|| DataType::Utf8, || DataType::UInt64);
    let fields: Vec<(&str, DataType)> = match function {
        "pensieve_snapshots" => vec![
            ("snapshot_id", text()),
            ("sequence", count()),
            ("parent_id", text()),
            ("created_at", time()),
            ("operation", text()),
            ("schema_id", text()),
            ("rows_added", count()),
            ("rows_removed", count()),
            ("bytes_added", count()),
            ("bytes_removed", count()),
            ("extents_added", count()),
            ("extents_removed", count()),
        ],
        "pensieve_extents" => vec![
            ("extent_id", text()),
            ("path", text()),
            ("format", text()),
            ("row_count", count()),
            ("byte_size", count()),
            ("block_count", DataType::UInt32),
            ("min_timestamp", time()),
            ("max_timestamp", time()),
            ("compaction_gen", DataType::UInt32),
            ("schema_id", text()),
            ("created_at", time()),
            ("sequence", count()),
            ("time_column", text()),
        ],
        "pensieve_column_stats" => vec![
            ("extent_id", text()),
            ("path", text()),
            ("column_name", text()),
            ("distinct_count", count()),
            ("distinct_values", text()),
            ("token_count", count()),
            ("tokens", text()),
            ("present_paths", text()),
        ],
        "pensieve_plan" => return Ok(super::store_plan::schema()),
        other => return Err(Error::InvalidInput(format!("there is no listing function {other}"))),
    };
    let fields: Vec<Field> = fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Rows of a listing function about one table.
pub(super) fn rows(function: &str, table: &PnsTable) -> Result<RecordBatch> {
    if !table.committed {
        return Ok(RecordBatch::new_empty(schema(function)?));
    }
    let (catalog, view) = (table.catalog.as_ref(), &table.view);
    let columns = match function {
        "pensieve_snapshots" => snapshots(catalog, view)?,
        "pensieve_extents" => extents(catalog, view)?,
        _ => column_stats(catalog, view)?,
    };
    RecordBatch::try_new(schema(function)?, columns).map_err(|e| Error::InvalidInput(e.to_string()))
}

fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn counts(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

fn times(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<TimestampNanosecondArray>())
}

fn snapshots(catalog: &dyn Catalog, view: &TableView) -> Result<Vec<ArrayRef>> {
    let all = catalog.snapshots(&view.name)?;
    let all = || all.iter();
    Ok(vec![
        texts(all().map(|s| Some(s.id.to_string()))),
        counts(all().map(|s| Some(s.sequence))),
        texts(all().map(|s| s.parent.map(|id| id.to_string()))),
        times(all().map(|s| Some(s.created_at))),
        texts(all().map(|s| Some(s.operation.clone()))),
        texts(all().map(|s| Some(s.schema_id.to_string()))),
        counts(all().map(|s| Some(s.summary.rows_added))),
        counts(all().map(|s| Some(s.summary.rows_removed))),
        counts(all().map(|s| Some(s.summary.bytes_added))),
        counts(all().map(|s| Some(s.summary.bytes_removed))),
        counts(all().map(|s| s.summary.extents_added)),
        counts(all().map(|s| s.summary.extents_removed)),
    ])
}

fn extents(catalog: &dyn Catalog, view: &TableView) -> Result<Vec<ArrayRef>> {
    let all = catalog.extents(view)?;
    let all = || all.iter();
    Ok(vec![
        texts(all().map(|e| Some(e.id.to_string()))),
        texts(all().map(|e| Some(catalog.extent_location(&e.object_path)))),
        texts(all().map(|e| e.format.clone())),
        counts(all().map(|e| Some(e.row_count))),
        counts(all().map(|e| Some(e.byte_size))),
        Arc::new(all().map(|e| e.block_count).collect::<UInt32Array>()),
        times(all().map(|e| e.time.facts()?.min)),
        times(all().map(|e| e.time.facts()?.max)),
        Arc::new(all().map(|e| Some(e.compaction_gen)).collect::<UInt32Array>()),
        texts(all().map(|e| Some(e.schema_id.to_string()))),
        times(all().map(|e| Some(e.created_at))),
        counts(all().map(|e| Some(e.sequence))),
        texts(all().map(|e| e.time.column.clone())),
    ])
}

/// What is known about one column of one extent.
struct ColumnRow {
    extent: String,
    path: String,
    column: String,
    distinct: Option<serde_json::Value>,
    tokens: Option<serde_json::Value>,
    paths: Option<Vec<String>>,
}

fn column_stats(catalog: &dyn Catalog, view: &TableView) -> Result<Vec<ArrayRef>> {
    let mut rows: Vec<ColumnRow> = Vec::new();
    catalog.visit_stats(view, &mut |extent, stats| {
        for column in &view.schema.columns {
            let of = |key: &str| {
                stats.column_stats.get(&column.name).and_then(|s| s.get(key)).filter(|v| v.is_array()).cloned()
            };
            rows.push(ColumnRow {
                extent: extent.id.to_string(),
                path: catalog.extent_location(&extent.object_path),
                column: column.name.clone(),
                distinct: of("distinct"),
                tokens: of("tokens"),
                paths: stats.present_paths.as_ref().and_then(|paths| paths.get(&column.name)).cloned(),
            });
        }
        Ok(())
    })?;
    let length = |set: Option<&serde_json::Value>| {
        set.and_then(serde_json::Value::as_array).and_then(|values| u64::try_from(values.len()).ok())
    };
    let all = || rows.iter();
    Ok(vec![
        texts(all().map(|r| Some(r.extent.clone()))),
        texts(all().map(|r| Some(r.path.clone()))),
        texts(all().map(|r| Some(r.column.clone()))),
        counts(all().map(|r| length(r.distinct.as_ref()))),
        texts(all().map(|r| r.distinct.as_ref().map(ToString::to_string))),
        counts(all().map(|r| length(r.tokens.as_ref()))),
        texts(all().map(|r| r.tokens.as_ref().map(ToString::to_string))),
        texts(all().map(|r| r.paths.as_ref().map(|paths| serde_json::Value::from(paths.clone()).to_string()))),
    ])
}
