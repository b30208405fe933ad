//! Which columns and rows of a block are wanted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::format::{ColumnPart, RowRanges};

/// All of the columns `projection`.
pub fn whole(projection: &[usize]) -> Vec<ColumnPart> {
    projection.iter().map(|column| ColumnPart::whole(*column)).collect()
}

/// The wanted fields of each column, all of it if there are none.
pub fn by_column(parts: &[ColumnPart]) -> BTreeMap<usize, Vec<ColumnPart>> {
    let mut wanted: BTreeMap<usize, Vec<ColumnPart>> = BTreeMap::new();
    for part in parts {
        match wanted.entry(part.column) {
            Entry::Vacant(entry) => {
                entry.insert(part.fields.clone());
            }
            Entry::Occupied(mut entry) if part.fields.is_empty() || entry.get().is_empty() => entry.get_mut().clear(),
            Entry::Occupied(mut entry) => entry.get_mut().extend_from_slice(&part.fields),
        }
    }
    wanted
}

/// The schema with the types of the arrays: a struct whose required fields were left out differs.
pub fn as_decoded(schema: SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    if schema.fields().iter().zip(columns).all(|(field, column)| field.data_type() == column.data_type()) {
        return schema;
    }
    let field =
        |(field, column): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(column.data_type().clone());
    let fields: Vec<Field> = schema.fields().iter().zip(columns).map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The given rows of a batch: a slice where they are one range, else a copy.
pub fn select(batch: &RecordBatch, rows: &RowRanges) -> std::result::Result<RecordBatch, String> {
    let total = u64::try_from(batch.num_rows()).map_err(|e| e.to_string())?;
    let mut end = 0;
    for range in &rows.0 {
        if range.start < end || range.start >= range.end || range.end > total {
            return Err(format!("rows {}..{} do not follow {end} within {total} rows", range.start, range.end));
        }
        end = range.end;
    }
    let as_usize = |v: u64| usize::try_from(v).map_err(|e| e.to_string());
    match rows.0.as_slice() {
        [] => Ok(batch.slice(0, 0)),
        [range] => Ok(batch.slice(as_usize(range.start)?, as_usize(range.end - range.start)?)),
        ranges if batch.num_columns() == 0 => {
            let count = as_usize(ranges.iter().map(|r| r.end - r.start).sum())?;
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            RecordBatch::try_new_with_options(batch.schema(), Vec::new(), &options).map_err(|e| e.to_string())
        }
        ranges => {
            let indices = UInt64Array::from_iter_values(ranges.iter().cloned().flatten());
            take_record_batch(batch, &indices).map_err(|e| e.to_string())
        }
    }
}
