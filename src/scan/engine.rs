//! Arrow types that engines do not read as they are: handed over as the nearest type that loses nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef};

use crate::{Error, Result};

fn engine_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Float16 => Some(DataType::Float32),
        // engines read a DayTime as one number of milliseconds
        DataType::Interval(IntervalUnit::DayTime) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        _ => None,
    }
}

/// The schema in which [`convert`] hands batches over.
pub fn schema(file: &SchemaRef) -> SchemaRef {
    if file.fields().iter().all(|field| engine_type(field.data_type()).is_none()) {
        return Arc::clone(file);
    }
    let fields: Vec<Field> = file
        .fields()
        .iter()
        .map(|field| match engine_type(field.data_type()) {
            Some(data_type) => field.as_ref().clone().with_data_type(data_type),
            None => field.as_ref().clone(),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, file.metadata().clone()))
}

/// Whether the engine takes a column of the file as a dictionary as well: plain text. An extension type (JSON) is more than its
/// text.
pub fn takes_dictionary(field: &Field) -> bool {
    field.data_type() == &DataType::Utf8 && extension(field).is_none()
}

/// Whether the engine makes other values of a column than those it is stored as, so that what is known of the stored ones, even
/// which are NULL, is not known of these.
pub fn is_converted(field: &Field) -> bool {
    extension(field).is_some_and(|name| name.starts_with("pensieve.") || name == "arrow.parquet.variant")
}

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get("ARROW:extension:name").map(String::as_str)
}

/// The batch without dictionaries where the file's schema has none, except for plain `Utf8` columns: those the engine takes either
/// way. `projection` says which column of `file` each column of the batch is.
///
/// # Errors
/// If a dictionary cannot be unpacked.
pub fn plain_where_expected(batch: RecordBatch, file: &SchemaRef, projection: &[usize]) -> Result<RecordBatch> {
    let unpack = |column: &ArrayRef, field: &Field| {
        matches!(column.data_type(), DataType::Dictionary(_, _))
            && !matches!(field.data_type(), DataType::Dictionary(_, _))
            && !takes_dictionary(field)
    };
    let fields: Vec<&Field> =
        projection.iter().filter_map(|index| file.fields().get(*index)).map(AsRef::as_ref).collect();
    if !batch.columns().iter().zip(&fields).any(|(column, field)| unpack(column, field)) {
        return Ok(batch);
    }
    let failed = |error: arrow::error::ArrowError| Error::InvalidInput(format!("unpacking a dictionary: {error}"));
    let mut columns = batch.columns().to_vec();
    let mut stored: Vec<Field> = batch.schema_ref().fields().iter().map(|field| field.as_ref().clone()).collect();
    for ((column, stored), field) in columns.iter_mut().zip(&mut stored).zip(&fields) {
        if unpack(column, field) {
            *column = cast(column, field.data_type()).map_err(failed)?;
            *stored = (*field).clone();
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(stored)), columns, &options).map_err(failed)
}

/// The batch with such columns converted.
///
/// # Errors
/// If a value has no counterpart.
pub fn convert(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.columns().iter().all(|column| engine_type(column.data_type()).is_none()) {
        return Ok(batch);
    }
    let wanted = schema(&batch.schema());
    let failed = |error: arrow::error::ArrowError| Error::InvalidInput(format!("conversion for the engine: {error}"));
    let columns = batch
        .columns()
        .iter()
        .map(|column| match engine_type(column.data_type()) {
            Some(data_type) => cast(column, &data_type),
            None => Ok(Arc::clone(column)),
        })
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(failed)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(wanted, columns, &options).map_err(failed)
}
