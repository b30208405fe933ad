//! Some fields of struct columns: which leaves of the file they are, and the arrays in their full type again.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, new_null_array};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::format::ColumnPart;

/// The leaves, in file order, that hold the columns and fields of `parts`. Only the fields of plain structs can be told apart:
/// lists and maps are read whole.
pub(super) fn leaves(schema: &SchemaDescriptor, arrow: &[DataType], parts: &[ColumnPart]) -> Vec<usize> {
    let wanted = ColumnPart::by_column(parts);
    let mut leaves = Vec::new();
    let mut first = 0;
    for (root, node) in schema.root_schema().get_fields().iter().enumerate() {
        if let (Some(fields), Some(data_type)) = (wanted.get(&root), arrow.get(root)) {
            collect(node, data_type, fields, first, &mut leaves);
        }
        first += count(node);
    }
    leaves
}

fn count(node: &Type) -> usize {
    if node.is_primitive() { 1 } else { node.get_fields().iter().map(|field| count(field)).sum() }
}

fn collect(node: &Type, data_type: &DataType, parts: &[ColumnPart], first: usize, leaves: &mut Vec<usize>) {
    // fields can be left out of what is a struct there and here, field by field
    let fields = match data_type {
        DataType::Struct(fields) if !node.is_primitive() && fields.len() == node.get_fields().len() => fields,
        _ => return leaves.extend(first..first + count(node)),
    };
    if parts.is_empty() {
        return leaves.extend(first..first + count(node));
    }
    let wanted = ColumnPart::by_column(parts);
    let mut start = first;
    for (index, (child, field)) in node.get_fields().iter().zip(fields).enumerate() {
        if let Some(parts) = wanted.get(&index) {
            collect(child, field.data_type(), parts, start, leaves);
        }
        start += count(child);
    }
}

/// `array`, decoded from the leaves of `parts` of a column of type `full`, in that type: fields that were not read are NULL, also
/// those that the schema requires, so that the type of the array says that they may be.
pub(super) fn complete(array: &ArrayRef, full: &DataType, parts: &[ColumnPart]) -> Result<ArrayRef, ArrowError> {
    let (DataType::Struct(fields), DataType::Struct(_)) = (full, array.data_type()) else {
        return Ok(Arc::clone(array));
    };
    if array.data_type() == full {
        return Ok(Arc::clone(array));
    }
    let array = array.as_struct();
    // names may repeat: what was read is known by its place
    let wanted = ColumnPart::by_column(parts);
    let mut columns = array.columns().iter();
    let mut completed = Vec::with_capacity(fields.len());
    let mut children = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let read = if parts.is_empty() { Some(parts) } else { wanted.get(&index).map(Vec::as_slice) };
        let child = match read {
            Some(parts) => {
                let column = columns
                    .next()
                    .ok_or_else(|| ArrowError::SchemaError(format!("field \"{}\" was not decoded", field.name())))?;
                complete(column, field.data_type(), parts)?
            }
            None => new_null_array(field.data_type(), array.len()),
        };
        completed.push(field.as_ref().clone().with_data_type(child.data_type().clone()).with_nullable(true));
        children.push(child);
    }
    Ok(Arc::new(StructArray::try_new_with_length(completed.into(), children, array.nulls().cloned(), array.len())?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray};
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Fields, Schema};
    use parquet::arrow::ArrowSchemaConverter;

    use super::*;

    fn part(column: usize, fields: &[ColumnPart]) -> ColumnPart {
        ColumnPart { column, fields: fields.to_vec() }
    }

    #[test]
    fn leaves_of_nested_fields() {
        let inner = DataType::Struct(Fields::from(vec![
            Field::new("x", DataType::Int32, true),
            Field::new("y", DataType::Utf8, true),
        ]));
        let outer = DataType::Struct(Fields::from(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("s", inner.clone(), true),
            Field::new("l", DataType::List(Arc::new(Field::new("item", inner, true))), true),
        ]));
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("o", outer.clone(), true),
            Field::new("z", DataType::Int64, true),
        ]);
        let file = ArrowSchemaConverter::new().convert(&schema).unwrap();
        let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let of = |parts: &[ColumnPart]| leaves(&file, &types, parts);
        assert_eq!(of(&[part(2, &[]), part(0, &[])]), [0, 6]);
        assert_eq!(of(&[part(1, &[])]), [1, 2, 3, 4, 5]);
        assert_eq!(of(&[part(1, &[part(0, &[])])]), [1]);
        assert_eq!(of(&[part(1, &[part(1, &[part(1, &[])])])]), [3]);
        assert_eq!(of(&[part(1, &[part(1, &[])])]), [2, 3]);
        // within a list nothing is left out
        assert_eq!(of(&[part(1, &[part(2, &[part(0, &[])])])]), [4, 5]);
        assert_eq!(of(&[part(1, &[part(0, &[])]), part(1, &[])]), [1, 2, 3, 4, 5]);
        assert_eq!(of(&[]), Vec::<usize>::new());
    }

    #[test]
    fn what_was_not_read_is_null() {
        let field = |name: &str, data_type: DataType, nullable| Field::new(name, data_type, nullable);
        let inner = |fields: Vec<Field>| DataType::Struct(Fields::from(fields));
        let full = inner(vec![
            field("a", DataType::Int32, false),
            field("s", inner(vec![field("x", DataType::Utf8, true), field("y", DataType::Utf8, true)]), true),
        ]);
        let y: ArrayRef = Arc::new(StringArray::from(vec![Some("1"), None]));
        let s = StructArray::new(vec![field("y", DataType::Utf8, true)].into(), vec![y], None);
        let nulls = NullBuffer::from(vec![true, false]);
        let read: ArrayRef = Arc::new(StructArray::new(
            vec![field("s", s.data_type().clone(), true)].into(),
            vec![Arc::new(s)],
            Some(nulls.clone()),
        ));
        let whole = complete(&read, &full, &[part(1, &[part(1, &[])])]).unwrap();
        let whole = whole.as_struct();
        assert_eq!(whole.nulls(), Some(&nulls));
        assert_eq!(whole.column(0).null_count(), 2);
        let s = whole.column(1).as_struct();
        assert_eq!((s.column(0).null_count(), s.column(1).as_string::<i32>().value(0)), (2, "1"));
        let plain: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert_eq!(&complete(&plain, &DataType::Int32, &[]).unwrap(), &plain);
    }

    /// A required field below the first level once made the outer struct one of the fields that were read alone.
    #[test]
    fn required_fields_at_any_depth_may_be_left_out() {
        let inner = |fields: Vec<Field>| DataType::Struct(Fields::from(fields));
        let required = Field::new("x", DataType::Int64, false);
        let text = Field::new("y", DataType::Utf8, true);
        let full = inner(vec![Field::new("n", inner(vec![required, text.clone()]), true)]);
        let y: ArrayRef = Arc::new(StringArray::from(vec!["1", "2"]));
        let n = StructArray::new(vec![text].into(), vec![y], None);
        let outer = vec![Field::new("n", n.data_type().clone(), true)];
        let read: ArrayRef = Arc::new(StructArray::new(outer.into(), vec![Arc::new(n)], None));
        let whole = complete(&read, &full, &[part(0, &[part(1, &[])])]).unwrap();
        let n = whole.as_struct().column(0).as_struct();
        assert_eq!((n.num_columns(), n.column(0).null_count(), n.column(1).as_string::<i32>().value(1)), (2, 2, "2"));
    }

    /// The second of two fields of one name once took the place of the first.
    #[test]
    fn fields_of_one_name_are_told_apart() {
        let field = Field::new("k", DataType::Int32, true);
        let full = DataType::Struct(Fields::from(vec![field.clone(), field.clone()]));
        let k: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let read: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![k], None));
        let whole = complete(&read, &full, &[part(1, &[])]).unwrap();
        let whole = whole.as_struct();
        assert_eq!((whole.column(0).null_count(), whole.column(1).null_count()), (1, 0));
    }
}
