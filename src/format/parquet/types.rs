//! Which Arrow types the Parquet writer takes. Some pass as a schema and fail with the first row, or panic.

use std::sync::Arc;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use crate::{Error, Result};

/// Whether columns of `schema` can be written as Parquet.
///
/// # Errors
/// [`Error::Unsupported`] names the first column that cannot, and its type.
pub fn check_columns(schema: &Schema) -> Result<()> {
    schema.fields().iter().try_for_each(|field| {
        let refused = |why: &str| {
            Error::unsupported(
                format!("column \"{}\"", field.name()),
                format!("its type ({}) has no Parquet form: {why}; cast it, for example to VARCHAR", field.data_type()),
            )
        };
        let stored = super::annotations::stored(field);
        if has_union(field.data_type()) {
            return Err(refused("a value of several types"));
        }
        let column = Arc::new(Schema::new(vec![stored.as_ref().clone().with_nullable(true)]));
        let batch = RecordBatch::try_new(Arc::clone(&column), vec![new_null_array(stored.data_type(), 1)]);
        let written = batch.map_err(ParquetError::from).and_then(|batch| {
            let mut writer = ArrowWriter::try_new(std::io::sink(), column, None)?;
            writer.write(&batch)?;
            writer.close().map(drop)
        });
        written.map_err(|e| refused(&e.to_string()))
    })
}

fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => has_union(child.data_type()),
        DataType::Struct(children) => children.iter().any(|child| has_union(child.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, IntervalUnit, TimeUnit, UnionFields, UnionMode};

    use super::*;

    fn check(data_type: DataType) -> Result<()> {
        check_columns(&Schema::new(vec![Field::new("ok", DataType::Int64, false), Field::new("c", data_type, true)]))
    }

    #[test]
    fn refused_types_name_their_column() {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let union = DataType::Union(UnionFields::empty(), UnionMode::Sparse);
        for inner in [interval, union] {
            let list = DataType::List(Arc::new(Field::new("item", inner.clone(), true)));
            let nested = DataType::Struct(vec![Field::new("x", list.clone(), true)].into());
            // an interval that is a column of its own has twelve bytes in Parquet
            let root = has_union(&inner).then_some(inner);
            for data_type in [list, nested].into_iter().chain(root) {
                let message = check(data_type).unwrap_err().to_string();
                assert!(message.contains("column \"c\""), "{message}");
            }
        }
    }

    #[test]
    fn ordinary_types_pass() {
        let item = |data_type| Arc::new(Field::new("item", data_type, true));
        for data_type in [
            DataType::Boolean,
            DataType::Utf8,
            DataType::FixedSizeBinary(16),
            DataType::Decimal128(38, 5),
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Null,
            DataType::FixedSizeList(item(DataType::Float32), 3),
            DataType::List(item(DataType::Date32)),
        ] {
            check(data_type).unwrap();
        }
    }
}
