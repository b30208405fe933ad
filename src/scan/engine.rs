//! Arrow types that engines do not read as they are: handed over as the nearest type that loses nothing, or, where there is none, as
//! columns that only an attempt to read them refuses.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, make_array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, UnionFields};
use arrow::error::ArrowError;

use crate::format::ColumnPart;
use crate::{Error, Result};

/// The type in which values of `data_type` are handed over; `None` if it is the same. Dictionaries stay where engines share their
/// values between rows: whole columns of text. Everywhere else they become plain values.
fn engine_type(data_type: &DataType, whole_column: bool) -> Option<DataType> {
    use DataType::{
        Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, FixedSizeList, Float16, Interval, LargeList,
        LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union,
    };
    let list = |field: &FieldRef| engine_field(field);
    match data_type {
        Float16 => Some(DataType::Float32),
        // engines read a DayTime as one number of milliseconds
        Interval(IntervalUnit::DayTime) => Some(Interval(IntervalUnit::MonthDayNano)),
        Decimal32(precision, scale) | Decimal64(precision, scale) | Decimal128(precision, scale) => {
            let data_type = decimal(*precision, *scale);
            let same = DataType::Decimal128(*precision, *scale);
            (data_type != same).then_some(data_type)
        }
        Decimal256(precision, scale) => Some(decimal(*precision, *scale)),
        Dictionary(_, values) if whole_column && is_text(values) => None,
        Dictionary(_, values) => {
            let plain = plain_values(values);
            Some(engine_type(&plain, false).unwrap_or(plain))
        }
        RunEndEncoded(_, values) => {
            let inner = engine_type(values.data_type(), false);
            if whole_column && inner.is_none() {
                return None;
            }
            Some(inner.unwrap_or_else(|| values.data_type().clone()))
        }
        List(field) => list(field).map(List),
        LargeList(field) => list(field).map(LargeList),
        ListView(field) => list(field).map(ListView),
        LargeListView(field) => list(field).map(LargeListView),
        FixedSizeList(field, size) => list(field).map(|field| FixedSizeList(field, *size)),
        Map(field, sorted) => list(field).map(|field| Map(field, *sorted)),
        Struct(fields) => {
            let changed: Vec<Option<FieldRef>> = fields.iter().map(engine_field).collect();
            changed.iter().any(Option::is_some).then(|| {
                let all =
                    fields.iter().zip(changed).map(|(field, changed)| changed.unwrap_or_else(|| Arc::clone(field)));
                Struct(all.collect())
            })
        }
        Union(fields, mode) => fields.iter().any(|(_, field)| engine_field(field).is_some()).then(|| {
            let all = fields.iter().map(|(id, field)| (id, engine_field(field).unwrap_or_else(|| Arc::clone(field))));
            Union(all.collect::<UnionFields>(), *mode)
        }),
        _ => None,
    }
}

/// The type of decimals. Those of engines have up to 38 digits, at most all of them behind the point, and none that are left out before it;
/// what is wider is a DOUBLE, as `read_parquet` has it.
fn decimal(precision: u8, scale: i8) -> DataType {
    let behind = scale.max(0).unsigned_abs();
    let digits = precision.max(behind).saturating_add(scale.min(0).unsigned_abs());
    match i8::try_from(behind) {
        Ok(behind) if digits <= 38 => DataType::Decimal128(digits, behind),
        _ => DataType::Float64,
    }
}

/// A field of a nested type, if its type changes.
fn engine_field(field: &FieldRef) -> Option<FieldRef> {
    engine_type(field.data_type(), false).map(|data_type| Arc::new(field.as_ref().clone().with_data_type(data_type)))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The type of a dictionary's values once each row has its own: views of text, which may repeat without being copied.
fn plain_values(values: &DataType) -> DataType {
    if is_text(values) { DataType::Utf8View } else { values.clone() }
}

/// Why no engine can read values of `data_type`; `None` if it can.
fn refused(data_type: &DataType) -> Option<&'static str> {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union,
    };
    match data_type {
        FixedSizeList(_, 0) => Some("fixed-size lists of length 0"),
        Union(fields, _) if fields.is_empty() => Some("unions without members"),
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _)
        | RunEndEncoded(_, field) => refused(field.data_type()),
        Struct(fields) => fields.iter().find_map(|field| refused(field.data_type())),
        Union(fields, _) => fields.iter().find_map(|(_, field)| refused(field.data_type())),
        Dictionary(_, values) => refused(values),
        _ => None,
    }
}

/// Fails if `projection` names a column that no engine can read. Such columns are there in the schema, as text, so that the others can
/// be read.
///
/// # Errors
/// [`Error::Unsupported`] names the column and its type.
pub fn check_readable(path: &str, file: &SchemaRef, projection: &[ColumnPart]) -> Result<()> {
    projection.iter().filter_map(|part| file.fields().get(part.column)).try_for_each(|field| {
        match refused(field.data_type()) {
            None => Ok(()),
            Some(what) => Err(Error::unsupported(
                path,
                format!(
                    "column \"{}\" cannot be read: its type ({}) has {what}; select the other columns",
                    field.name(),
                    field.data_type()
                ),
            )),
        }
    })
}

/// The schema in which [`convert`] hands batches over.
pub fn schema(file: &SchemaRef) -> SchemaRef {
    let shown = |field: &Field| match refused(field.data_type()) {
        Some(_) => Some(DataType::Utf8),
        None => engine_type(field.data_type(), true),
    };
    if file.fields().iter().all(|field| shown(field).is_none()) {
        return Arc::clone(file);
    }
    let fields: Vec<Field> = file
        .fields()
        .iter()
        .map(|field| match shown(field) {
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
    let failed = |error: ArrowError| Error::InvalidInput(format!("unpacking a dictionary: {error}"));
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
    if batch.columns().iter().all(|column| engine_type(column.data_type(), true).is_none()) {
        return Ok(batch);
    }
    let failed = |error: ArrowError| Error::InvalidInput(format!("conversion for the engine: {error}"));
    let columns = batch
        .columns()
        .iter()
        .map(|column| engine_array(column, true))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(failed)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema(&batch.schema()), columns, &options).map_err(failed)
}

/// `array` in the type that [`engine_type`] says.
fn engine_array(array: &ArrayRef, whole_column: bool) -> std::result::Result<ArrayRef, ArrowError> {
    let Some(target) = engine_type(array.data_type(), whole_column) else { return Ok(Arc::clone(array)) };
    match array.data_type() {
        DataType::Dictionary(_, values) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(new_null_array(&target, array.len()));
            }
            let plain = cast(dictionary.values(), &plain_values(values))?;
            take(&engine_array(&plain, false)?, dictionary.keys(), None)
        }
        DataType::RunEndEncoded(_, values) => engine_array(&cast(array, values.data_type())?, false),
        _ => {
            let data = array.to_data();
            if data.child_data().is_empty() {
                return cast(array, &target);
            }
            let child = |child: &ArrayData| Ok(engine_array(&make_array(child.clone()), false)?.into_data());
            let children = data.child_data().iter().map(child).collect::<std::result::Result<Vec<_>, ArrowError>>()?;
            Ok(make_array(data.into_builder().data_type(target).child_data(children).build()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, Decimal128Array, DictionaryArray, FixedSizeListArray, Float16Array, Int8Array, Int32Array,
        ListArray, StringArray, StructArray,
    };
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::{ArrowPrimitiveType, Float16Type, Int8Type, Int32Type};
    use arrow::util::display::array_value_to_string;

    use super::*;

    fn shown(column: &ArrayRef) -> (DataType, Vec<String>) {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", Arc::clone(column), true)]).unwrap();
        let wanted = schema(&batch.schema()).field(0).data_type().clone();
        let read = convert(batch).unwrap().column(0).clone();
        assert_eq!(read.data_type(), &wanted);
        (wanted, (0..read.len()).map(|row| array_value_to_string(&read, row).unwrap()).collect())
    }

    fn item(data_type: &DataType) -> FieldRef {
        Arc::new(Field::new("item", data_type.clone(), true))
    }

    fn text_dictionary(keys: Vec<Option<i8>>) -> ArrayRef {
        let values = Arc::new(StringArray::from(vec!["x", "y"]));
        Arc::new(DictionaryArray::<Int8Type>::try_new(Int8Array::from(keys), values).unwrap())
    }

    #[test]
    fn dictionaries_stay_where_a_whole_column_is_text() {
        let text = text_dictionary(vec![Some(1), None, Some(0)]);
        assert!(matches!(shown(&text).0, DataType::Dictionary(..)));
        let keys = || Int32Array::from(vec![Some(1), None, Some(0)]);
        let flags = DictionaryArray::<Int32Type>::try_new(keys(), Arc::new(BooleanArray::from(vec![true, false])));
        assert_eq!(
            shown(&(Arc::new(flags.unwrap()) as ArrayRef)),
            (DataType::Boolean, ["false", "", "true"].map(str::to_owned).to_vec())
        );
        let numbers = Decimal128Array::from(vec![150, -25]).with_precision_and_scale(5, 2).unwrap();
        let numbers = DictionaryArray::<Int32Type>::try_new(keys(), Arc::new(numbers)).unwrap();
        let expected = ["-0.25", "", "1.50"].map(str::to_owned).to_vec();
        assert_eq!(shown(&(Arc::new(numbers) as ArrayRef)), (DataType::Decimal128(5, 2), expected));
    }

    #[test]
    fn dictionaries_below_the_top_are_plain_text() {
        let words = text_dictionary(vec![Some(0), Some(1), None, Some(1), Some(1), Some(0)]);
        let pairs = FixedSizeListArray::new(item(words.data_type()), 2, Arc::clone(&words), None);
        let (data_type, rows) = shown(&(Arc::new(pairs) as ArrayRef));
        assert_eq!(data_type, DataType::FixedSizeList(item(&DataType::Utf8View), 2));
        assert_eq!(rows, ["[x, y]", "[, y]", "[y, x]"]);

        let offsets = OffsetBuffer::new(vec![0, 0, 2, 6].into());
        let lists = ListArray::new(
            item(words.data_type()),
            offsets,
            Arc::clone(&words),
            Some(NullBuffer::from(vec![true, true, false])),
        );
        let fields = vec![Field::new("l", lists.data_type().clone(), true), Field::new("h", DataType::Float16, true)];
        let halves = Float16Array::from(
            [0.5, f32::NAN, f32::INFINITY].map(<Float16Type as ArrowPrimitiveType>::Native::from_f32).to_vec(),
        );
        let rows = StructArray::new(fields.into(), vec![Arc::new(lists), Arc::new(halves)], None);
        let sliced: ArrayRef = Arc::new(rows.slice(1, 2));
        assert_eq!(shown(&sliced).1, ["{l: [x, y], h: NaN}", "{l: , h: inf}"]);

        let none = text_dictionary(Vec::new());
        let empty = ListArray::new(item(none.data_type()), OffsetBuffer::new(vec![0, 0, 0].into()), none, None);
        assert_eq!(shown(&(Arc::new(empty) as ArrayRef)).1, ["[]", "[]"]);
    }

    #[test]
    fn decimals_of_any_width() {
        use arrow::array::Decimal256Array;
        use arrow::datatypes::i256;
        let wide = |precision| {
            let numbers = Decimal256Array::from(vec![Some(i256::from(-12345)), None]);
            Arc::new(numbers.with_precision_and_scale(precision, 2).unwrap()) as ArrayRef
        };
        assert_eq!(shown(&wide(38)), (DataType::Decimal128(38, 2), vec!["-123.45".to_owned(), String::new()]));
        assert_eq!(shown(&wide(39)), (DataType::Float64, vec!["-123.45".to_owned(), String::new()]));
        let scaled = |precision, scale| {
            let data = Decimal128Array::from(vec![-25]).into_data().into_builder();
            let data = data.data_type(DataType::Decimal128(precision, scale)).build().unwrap();
            shown(&make_array(data))
        };
        assert_eq!(scaled(5, 5), (DataType::Decimal128(5, 5), vec!["-0.00025".to_owned()]));
        assert_eq!(scaled(5, 7), (DataType::Decimal128(7, 7), vec!["-0.0000025".to_owned()]));
        assert_eq!(scaled(5, -2), (DataType::Decimal128(7, 0), vec!["-2500".to_owned()]));
        assert_eq!(scaled(38, -2), (DataType::Float64, vec!["-2500.0".to_owned()]));
    }

    #[test]
    fn types_without_values_are_refused_when_they_are_read() {
        let nothing = DataType::FixedSizeList(item(&DataType::Int32), 0);
        let nested = DataType::List(item(&DataType::Struct(vec![Field::new("z", nothing.clone(), true)].into())));
        for data_type in [nothing, nested] {
            let fields = vec![Field::new("id", DataType::Int64, true), Field::new("c", data_type, true)];
            let file: SchemaRef = Arc::new(Schema::new(fields));
            assert_eq!(schema(&file).field(1).data_type(), &DataType::Utf8);
            assert!(check_readable("f", &file, &[ColumnPart::whole(0)]).is_ok());
            let message = check_readable("f", &file, &[ColumnPart::whole(1)]).unwrap_err().to_string();
            assert!(message.contains("column \"c\" cannot be read"), "{message}");
        }
    }
}
