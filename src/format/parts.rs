//! Columns of a projection, of which only some fields may be wanted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{Field, Schema, SchemaRef};

/// A column of a projection, or of a struct some fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPart {
    /// Index of the column in the schema, or of the field in its struct.
    pub column: usize,
    /// The fields of a struct that are wanted; empty for all of them. The others need not be read: they may come as NULL.
    pub fields: Vec<ColumnPart>,
}

impl ColumnPart {
    /// All of a column.
    pub fn whole(column: usize) -> Self {
        Self { column, fields: Vec::new() }
    }

    /// All of the columns `projection`.
    pub fn all_whole(projection: &[usize]) -> Vec<Self> {
        projection.iter().copied().map(Self::whole).collect()
    }

    /// The columns of `parts`.
    pub fn columns(parts: &[Self]) -> Vec<usize> {
        parts.iter().map(|part| part.column).collect()
    }

    /// The wanted fields of each column or field, all of it if there are none. One that is named several times is wanted for all.
    pub(super) fn by_column(parts: &[Self]) -> BTreeMap<usize, Vec<Self>> {
        let mut wanted: BTreeMap<usize, Vec<Self>> = BTreeMap::new();
        for part in parts {
            match wanted.entry(part.column) {
                Entry::Vacant(entry) => {
                    entry.insert(part.fields.clone());
                }
                Entry::Occupied(mut entry) if part.fields.is_empty() || entry.get().is_empty() => {
                    entry.get_mut().clear();
                }
                Entry::Occupied(mut entry) => entry.get_mut().extend_from_slice(&part.fields),
            }
        }
        wanted
    }
}

/// The schema with the types of the arrays: a struct whose required fields were left out differs.
pub(super) fn as_decoded(schema: &SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    if schema.fields().iter().zip(columns).all(|(field, column)| field.data_type() == column.data_type()) {
        return Arc::clone(schema);
    }
    let field =
        |(field, column): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(column.data_type().clone());
    let fields: Vec<Field> = schema.fields().iter().zip(columns).map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_named_twice_is_wanted_for_both() {
        let part = |column, fields: &[usize]| ColumnPart { column, fields: ColumnPart::all_whole(fields) };
        let wanted = |parts: &[ColumnPart]| ColumnPart::by_column(parts);
        let both = wanted(&[part(3, &[1]), part(0, &[]), part(3, &[2])]);
        assert_eq!(both, BTreeMap::from([(0, Vec::new()), (3, ColumnPart::all_whole(&[1, 2]))]));
        for parts in [[part(3, &[1]), part(3, &[])], [part(3, &[]), part(3, &[1])]] {
            assert_eq!(wanted(&parts), BTreeMap::from([(3, Vec::new())]));
        }
    }
}
