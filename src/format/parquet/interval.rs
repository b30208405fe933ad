//! Parquet's INTERVAL: twelve bytes of months, days and milliseconds. The decoder knows no Arrow type that holds all three: it would
//! read either the months or the rest. So such columns are decoded as their bytes and converted here.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use parquet::basic::ConvertedType;
use parquet::errors::Result;
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type};

/// The Arrow type of such columns.
pub(super) const TYPE: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Roots that are an INTERVAL, and roots that have one further down.
#[derive(Debug, Default, Clone)]
pub(super) struct Intervals {
    /// One value per row: read.
    pub(super) columns: Vec<usize>,
    /// Within lists, maps and structs: refused.
    pub(super) nested: Vec<usize>,
}

impl Intervals {
    /// Those of a file.
    pub(super) fn of(metadata: &ParquetMetaData) -> Self {
        let descriptor = metadata.file_metadata().schema_descr();
        let mut found = Self::default();
        for (index, leaf) in descriptor.columns().iter().enumerate() {
            if leaf.converted_type() == ConvertedType::INTERVAL {
                let plain = leaf.path().parts().len() == 1 && leaf.max_rep_level() == 0;
                let roots = if plain { &mut found.columns } else { &mut found.nested };
                roots.push(descriptor.get_column_root_idx(index));
            }
        }
        found
    }
}

/// The footer as if the root columns `plain` had no annotations: plain bytes and numbers; `None` if there are no such columns.
pub(super) fn as_bytes(
    metadata: &ParquetMetaData,
    plain: &[usize],
    pages: Arc<dyn PageIndexProvider>,
) -> Result<Option<ParquetMetaData>> {
    if plain.is_empty() {
        return Ok(None);
    }
    let file = metadata.file_metadata();
    let root = file.schema();
    let field = |(index, field): (usize, &Arc<Type>)| {
        if plain.contains(&index) { without_annotations(field) } else { Ok(Arc::clone(field)) }
    };
    let fields = root.get_fields().iter().enumerate().map(field).collect::<Result<Vec<_>>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        file.column_orders().cloned(),
    );
    let builder = ParquetMetaDataBuilder::new(file).set_row_groups(metadata.row_groups().to_vec());
    Ok(Some(builder.set_page_index(Some(pages)).build()))
}

fn without_annotations(field: &Type) -> Result<Arc<Type>> {
    let info = field.get_basic_info();
    let plain = match field {
        Type::PrimitiveType { physical_type, type_length, .. } => {
            Type::primitive_type_builder(info.name(), *physical_type)
                .with_length(*type_length)
                .with_repetition(info.repetition())
                .build()?
        }
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| without_annotations(field)).collect::<Result<Vec<_>>>()?;
            Type::group_type_builder(info.name()).with_repetition(info.repetition()).with_fields(fields).build()?
        }
    };
    Ok(Arc::new(plain))
}

/// Decoded bytes as intervals; other arrays as they are.
pub(super) fn from_bytes(array: &ArrayRef) -> ArrayRef {
    let Some(bytes) = array.as_fixed_size_binary_opt().filter(|bytes| bytes.value_length() == 12) else {
        return Arc::clone(array);
    };
    let number = |value: &[u8], at: usize| {
        let bytes = value.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| i32::from_le_bytes(*bytes))
    };
    let interval = |value: &[u8]| IntervalMonthDayNano {
        months: number(value, 0),
        days: number(value, 4),
        // unsigned as the two others, which engines take for signed all the same
        nanoseconds: i64::from(number(value, 8).cast_unsigned()) * 1_000_000,
    };
    Arc::new(bytes.iter().map(|value| value.map(interval)).collect::<IntervalMonthDayNanoArray>())
}

#[cfg(test)]
mod tests {
    use arrow::array::FixedSizeBinaryArray;
    use arrow::datatypes::IntervalMonthDayNanoType;

    use super::*;

    #[test]
    fn twelve_bytes_are_months_days_and_milliseconds() {
        let mut value = Vec::new();
        for number in [14i32, -3, 90_061_001] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        let rows = [Some(value.as_slice()), None, Some(&[0xff; 12])];
        let bytes = FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows.into_iter(), 12).unwrap();
        let read = from_bytes(&(Arc::new(bytes) as ArrayRef));
        let read: Vec<_> = read.as_primitive::<IntervalMonthDayNanoType>().iter().collect();
        let expected = [
            Some(IntervalMonthDayNano::new(14, -3, 90_061_001_000_000)),
            None,
            Some(IntervalMonthDayNano::new(-1, -1, 4_294_967_295_000_000)),
        ];
        assert_eq!(read, expected);
    }
}
