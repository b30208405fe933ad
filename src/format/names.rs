//! Names that engines can tell apart. DuckDB compares names without regard to ASCII case, and a file may have columns, or fields of
//! one struct, whose names differ in nothing else, or not at all. They are numbered as DuckDB's own Parquet reader numbers them
//! (`a`, `A_1`), once, when a file is opened: from there on a name means one column.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::parquet::is_shredded_variant;
use crate::stats::json::BlockColumns;

/// `schema` with distinct names on every level; the same one if they are distinct already.
pub(super) fn distinct(schema: &SchemaRef) -> SchemaRef {
    let fields = distinct_fields(schema.fields());
    if &fields == schema.fields() {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn distinct_fields(fields: &Fields) -> Fields {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let numbered = |field: &FieldRef| {
        let mut name = Cow::Borrowed(field.name().as_str());
        while let Some(times) = seen.get_mut(&name.to_ascii_lowercase()) {
            *times += 1;
            name = Cow::Owned(format!("{name}_{times}"));
        }
        seen.insert(name.to_ascii_lowercase(), 0);
        renamed(field, &name)
    };
    fields.iter().map(numbered).collect()
}

fn renamed(field: &FieldRef, name: &str) -> FieldRef {
    // the fields of a shredded VARIANT are keys of its objects
    let data_type =
        if is_shredded_variant(field) { field.data_type().clone() } else { distinct_type(field.data_type()) };
    if name == field.name() && &data_type == field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_name(name).with_data_type(data_type))
}

/// Elements of lists, and keys and values of maps, have their place: their own names do not matter.
fn distinct_type(data_type: &DataType) -> DataType {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    let inner = |field: &FieldRef| renamed(field, field.name());
    match data_type {
        Struct(fields) => Struct(distinct_fields(fields)),
        List(field) => List(inner(field)),
        LargeList(field) => LargeList(inner(field)),
        ListView(field) => ListView(inner(field)),
        LargeListView(field) => LargeListView(inner(field)),
        FixedSizeList(field, size) => FixedSizeList(inner(field), *size),
        Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else { return data_type.clone() };
            let fields: Fields = fields.iter().map(inner).collect();
            Map(Arc::new(Field::clone(entries).with_data_type(Struct(fields))), *sorted)
        }
        other => other.clone(),
    }
}

/// Statistics by the names in a file, by the names it is shown with. Of columns that have the same name in the file, statistics
/// by name say nothing.
pub(super) fn by_shown_name(blocks: Vec<BlockColumns>, file: &Schema, shown: &Schema) -> Vec<BlockColumns> {
    let pairs = || file.fields().iter().zip(shown.fields()).map(|(file, shown)| (file.name(), shown.name()));
    if pairs().all(|(file, shown)| file == shown) {
        return blocks;
    }
    let once = |name: &String| file.fields().iter().filter(|field| field.name() == name).count() == 1;
    let rename = |mut block: BlockColumns| -> BlockColumns {
        pairs()
            .filter(|(file, _)| once(file))
            .filter_map(|(file, shown)| Some((shown.clone(), block.remove(file)?)))
            .collect()
    };
    blocks.into_iter().map(rename).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::ColumnStats;

    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int32, true)
    }

    fn names(names: &[&str]) -> Vec<String> {
        let schema = Arc::new(Schema::new(names.iter().map(|name| field(name)).collect::<Vec<_>>()));
        distinct(&schema).fields().iter().map(|field| field.name().clone()).collect()
    }

    #[test]
    fn names_are_numbered_as_duckdb_does() {
        assert_eq!(names(&["a", "A"]), ["a", "A_1"]);
        assert_eq!(names(&["a", "a", "a"]), ["a", "a_1", "a_2"]);
        assert_eq!(names(&["", ""]), ["", "_1"]);
        assert_eq!(names(&["a", "a", "a_1"]), ["a", "a_1", "a_1_1"]);
        assert_eq!(names(&["a_1", "a", "A"]), ["a_1", "a", "A_1_1"]);
        // case is that of ASCII
        assert_eq!(names(&["é", "É", "b"]), ["é", "É", "b"]);
    }

    #[test]
    fn nested_names_too() {
        let pair = DataType::Struct(vec![field("k"), field("K")].into());
        let list = DataType::List(Arc::new(Field::new("item", pair.clone(), true)));
        let entries = DataType::Struct(vec![field("key"), Field::new("KEY", pair.clone(), true)].into());
        let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
        let schema = Arc::new(Schema::new(vec![
            Field::new("s", pair, true),
            Field::new("l", list, true),
            Field::new("m", map, true),
        ]));
        let shown = distinct(&schema);
        let text: Vec<String> = shown.fields().iter().map(|field| field.data_type().to_string()).collect();
        assert!(text.iter().all(|text| text.contains("K_1")), "{text:?}");
        assert!(text.last().is_some_and(|text| text.contains("KEY") && !text.contains("KEY_1")), "{text:?}");
        assert!(Arc::ptr_eq(&distinct(&shown), &shown));
    }

    #[test]
    fn statistics_keep_to_their_column() {
        let schema = |names: &[&str]| Schema::new(names.iter().map(|name| field(name)).collect::<Vec<_>>());
        let stats = |nulls| ColumnStats { null_count: Some(nulls), ..ColumnStats::default() };
        let block: BlockColumns = [("a".to_owned(), stats(1)), ("a_1".to_owned(), stats(2))].into_iter().collect();
        // the third column is the one that the file calls a_1; of the first two it does not say which is which
        let file = schema(&["a", "a", "a_1"]);
        let shown = distinct(&Arc::new(file.clone()));
        let renamed = by_shown_name(vec![block.clone()], &file, &shown);
        let nulls = |name: &str| renamed.first().and_then(|block| block.get(name)).and_then(|stats| stats.null_count);
        assert_eq!((nulls("a"), nulls("a_1"), nulls("a_1_1")), (None, None, Some(2)));
        assert_eq!(by_shown_name(vec![block.clone()], &shown, &shown).first().map(|block| block.len()), Some(2));
    }
}
