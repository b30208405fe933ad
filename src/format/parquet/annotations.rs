//! Types that Parquet names by annotations and Arrow by extension types: UUID, JSON, GEOMETRY, VARIANT, times of the day in UTC,
//! INTERVAL. The decoder knows neither, so the annotations of a file become extension types of its Arrow schema here, and the other
//! way round when a file is written. What is stored is the same bytes either way, but for times with an offset and intervals.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, Time64MicrosecondArray};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, IntervalMonthDayNanoType, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use arrow::error::ArrowError;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type, TypePtr};

/// Where Arrow keeps the name of an extension type, and what belongs to it.
const NAME: &str = "ARROW:extension:name";
const METADATA: &str = "ARROW:extension:metadata";

/// Extension types of Arrow, of GeoArrow, and of this project: what the engine's side converts.
const UUID: &str = "arrow.uuid";
const JSON: &str = "arrow.json";
const VARIANT: &str = "arrow.parquet.variant";
const GEOMETRY: &str = "geoarrow.wkb";
const OPAQUE: &str = "arrow.opaque";
const TIME_TZ: &str = "pensieve.time_tz";
const SHREDDED_VARIANT: &str = "pensieve.variant";

/// The key under which GeoParquet describes its columns.
const GEO_KEY: &str = "geo";

/// `schema` (of the decoder) with the extension types that the annotations of the file name.
pub(super) fn shown(schema: &SchemaRef, metadata: &ParquetMetaData) -> SchemaRef {
    let file = metadata.file_metadata();
    let descriptor = file.schema_descr();
    let mut variants = Vec::new();
    let mut start = 0;
    for node in descriptor.root_schema().get_fields() {
        find_variants(node, &mut start, &mut variants);
    }
    let geometries = geo_columns(file.key_value_metadata().map(Vec::as_slice).unwrap_or_default());
    let mut marker = Marker { descriptor, variants, geometries, leaf: 0 };
    let fields: Fields = schema.fields().iter().map(|field| marker.mark(field)).collect();
    // another number of leaves than the file has: the schema is not what it is taken for
    if marker.leaf != descriptor.num_columns() || &fields == schema.fields() {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The first leaf and the number of leaves of every VARIANT group.
fn find_variants(node: &Type, leaf: &mut usize, found: &mut Vec<(usize, usize)>) {
    let start = *leaf;
    if node.is_primitive() {
        *leaf += 1;
        return;
    }
    node.get_fields().iter().for_each(|field| find_variants(field, leaf, found));
    if matches!(node.get_basic_info().logical_type_ref(), Some(LogicalType::Variant(_))) {
        found.push((start, *leaf - start));
    }
}

/// The columns that GeoParquet's metadata calls geometries in WKB, with their coordinate reference systems.
fn geo_columns(entries: &[KeyValue]) -> HashMap<String, Option<serde_json::Value>> {
    let text = entries.iter().find(|entry| entry.key == GEO_KEY).and_then(|entry| entry.value.as_deref());
    let parsed = text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let columns = parsed.as_ref().and_then(|geo| geo.get("columns")?.as_object());
    let wkb = |(name, column): (&String, &serde_json::Value)| {
        let encoding = column.get("encoding").and_then(serde_json::Value::as_str)?;
        // absent means longitude and latitude, null that it is not known
        let crs = column.get("crs").map_or_else(|| Some(serde_json::Value::from("OGC:CRS84")), |crs| Some(crs.clone()));
        let crs = crs.filter(|crs| !crs.is_null());
        encoding.eq_ignore_ascii_case("WKB").then(|| (name.clone(), crs))
    };
    columns.into_iter().flatten().filter_map(wkb).collect()
}

/// Walks the Arrow schema, whose leaves are those of the file, in order.
struct Marker<'a> {
    descriptor: &'a SchemaDescriptor,
    variants: Vec<(usize, usize)>,
    geometries: HashMap<String, Option<serde_json::Value>>,
    leaf: usize,
}

impl Marker<'_> {
    fn mark(&mut self, field: &FieldRef) -> FieldRef {
        use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
        let start = self.leaf;
        let data_type = match field.data_type() {
            Struct(fields) => Struct(fields.iter().map(|field| self.mark(field)).collect()),
            List(child) => List(self.mark(child)),
            LargeList(child) => LargeList(self.mark(child)),
            ListView(child) => ListView(self.mark(child)),
            LargeListView(child) => LargeListView(self.mark(child)),
            FixedSizeList(child, size) => FixedSizeList(self.mark(child), *size),
            Map(child, sorted) => Map(self.mark(child), *sorted),
            other => {
                self.leaf += 1;
                other.clone()
            }
        };
        let extension = match &data_type {
            _ if field.metadata().contains_key(NAME) => None,
            Struct(fields) => self.variant(start, fields),
            _ => self.leaf_extension(start, &data_type),
        };
        if extension.is_none() && &data_type == field.data_type() {
            return Arc::clone(field);
        }
        let field = Field::clone(field).with_data_type(data_type);
        Arc::new(match extension {
            Some((name, text)) => with_extension(field, name, text),
            None => field,
        })
    }

    /// A VARIANT as it is stored: its metadata, its value, and what was taken out of the value.
    fn variant(&self, start: usize, fields: &Fields) -> Option<(&'static str, String)> {
        let named = |name: &str| fields.iter().find(|field| field.name() == name);
        let binary = |field: &FieldRef| {
            matches!(field.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        };
        if !self.variants.contains(&(start, self.leaf - start)) || !named("metadata").is_some_and(binary) {
            return None;
        }
        let whole = fields.len() == 2 && named("value").is_some_and(binary);
        Some((if whole { VARIANT } else { SHREDDED_VARIANT }, String::new()))
    }

    fn leaf_extension(&self, leaf: usize, data_type: &DataType) -> Option<(&'static str, String)> {
        let descr = self.descriptor.columns().get(leaf)?;
        match (annotation(descr)?, data_type) {
            (Annotation::Uuid, DataType::FixedSizeBinary(16)) => Some((UUID, String::new())),
            (Annotation::Json, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
                Some((JSON, String::new()))
            }
            (Annotation::UtcTime, DataType::Time32(_) | DataType::Time64(_)) => Some((TIME_TZ, String::new())),
            (Annotation::Geometry(crs), DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => {
                Some((GEOMETRY, geo_metadata(crs.map(serde_json::Value::String))))
            }
            (Annotation::None, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => {
                let crs =
                    self.geometries.get(descr.path().parts().first()?).filter(|_| descr.path().parts().len() == 1)?;
                Some((GEOMETRY, geo_metadata(crs.clone())))
            }
            _ => None,
        }
    }
}

enum Annotation {
    None,
    Uuid,
    Json,
    UtcTime,
    Geometry(Option<String>),
}

fn annotation(descr: &ColumnDescriptor) -> Option<Annotation> {
    match descr.logical_type_ref() {
        Some(LogicalType::Uuid) => Some(Annotation::Uuid),
        Some(LogicalType::Json) => Some(Annotation::Json),
        Some(LogicalType::Time(time)) if time.is_adjusted_to_u_t_c => Some(Annotation::UtcTime),
        Some(LogicalType::Geometry(geometry)) => Some(Annotation::Geometry(geometry.crs.clone())),
        Some(LogicalType::Geography(geography)) => Some(Annotation::Geometry(geography.crs.clone())),
        Some(_) => None,
        None if descr.converted_type() == ConvertedType::JSON => Some(Annotation::Json),
        None => Some(Annotation::None),
    }
}

fn geo_metadata(crs: Option<serde_json::Value>) -> String {
    crs.map_or_else(|| "{}".to_owned(), |crs| serde_json::json!({ "crs": crs }).to_string())
}

fn with_extension(field: Field, name: &str, text: String) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(NAME.to_owned(), name.to_owned());
    metadata.insert(METADATA.to_owned(), text);
    field.with_metadata(metadata)
}

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(NAME).map(String::as_str)
}

/// `schema` (of the decoder) with bytes as text, where the schema that is `shown` does not say what the bytes are.
pub(super) fn with_text(schema: &SchemaRef, shown: &SchemaRef) -> SchemaRef {
    let fields: Fields =
        schema.fields().iter().zip(shown.fields()).map(|(field, shown)| as_text(field, shown)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn as_text(field: &FieldRef, shown: &FieldRef) -> FieldRef {
    use DataType::{
        Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, LargeUtf8, List, Map, Struct, Utf8, Utf8View,
    };
    if extension(shown).is_some() {
        return Arc::clone(field);
    }
    let data_type = match (field.data_type(), shown.data_type()) {
        (Binary, _) => Utf8,
        (LargeBinary, _) => LargeUtf8,
        (BinaryView, _) => Utf8View,
        (Struct(fields), Struct(shown)) => {
            Struct(fields.iter().zip(shown).map(|(field, shown)| as_text(field, shown)).collect())
        }
        (List(field), List(shown)) => List(as_text(field, shown)),
        (LargeList(field), LargeList(shown)) => LargeList(as_text(field, shown)),
        (FixedSizeList(field, size), FixedSizeList(shown, _)) => FixedSizeList(as_text(field, shown), *size),
        (Map(field, sorted), Map(shown, _)) => Map(as_text(field, shown), *sorted),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Whether `field` is the engine's own time with an offset.
fn is_time_tz(field: &Field) -> bool {
    extension(field) == Some(OPAQUE)
        && field.data_type() == &DataType::FixedSizeBinary(8)
        && field.metadata().get(METADATA).is_some_and(|text| text.contains("time_tz"))
}

/// Whether `field` is a VARIANT of which some parts are stored as columns of their own.
pub(crate) fn is_shredded_variant(field: &Field) -> bool {
    extension(field) == Some(SHREDDED_VARIANT)
}

/// The column as Parquet can hold it: times with an offset as times in UTC, intervals as their twelve bytes. Intervals within other
/// types stay, and are refused.
pub(super) fn stored(field: &FieldRef) -> FieldRef {
    if matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano)) {
        return Arc::new(Field::clone(field).with_data_type(DataType::FixedSizeBinary(12)));
    }
    stored_field(field)
}

fn stored_field(field: &FieldRef) -> FieldRef {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    if is_time_tz(field) {
        return Arc::new(Field::new(field.name(), DataType::Time64(TimeUnit::Microsecond), field.is_nullable()));
    }
    let data_type = match field.data_type() {
        Struct(fields) => Struct(fields.iter().map(stored_field).collect()),
        List(child) => List(stored_field(child)),
        LargeList(child) => LargeList(stored_field(child)),
        FixedSizeList(child, size) => FixedSizeList(stored_field(child), *size),
        Map(child, sorted) => Map(stored_field(child), *sorted),
        _ => return Arc::clone(field),
    };
    if &data_type == field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// `array` of column `field` as [`stored`] has it.
///
/// # Errors
/// Intervals that Parquet cannot hold exactly.
pub(super) fn stored_array(array: &ArrayRef, field: &FieldRef) -> std::result::Result<ArrayRef, ArrowError> {
    if matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano)) {
        return interval_bytes(array);
    }
    stored_values(array, field)
}

fn stored_values(array: &ArrayRef, field: &FieldRef) -> std::result::Result<ArrayRef, ArrowError> {
    let target = stored_field(field);
    if &target == field {
        return Ok(Arc::clone(array));
    }
    if is_time_tz(field) {
        return Ok(utc_times(array));
    }
    let data = array.to_data();
    let children: Vec<&FieldRef> = match field.data_type() {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => vec![child],
        _ => return Ok(Arc::clone(array)),
    };
    let converted = data
        .child_data()
        .iter()
        .zip(children)
        .map(|(child, field)| Ok(stored_values(&arrow::array::make_array(child.clone()), field)?.to_data()))
        .collect::<std::result::Result<Vec<_>, ArrowError>>()?;
    let data = data.into_builder().data_type(target.data_type().clone()).child_data(converted).build()?;
    Ok(arrow::array::make_array(data))
}

/// The engine's times with an offset (microseconds of the local time above 24 bits of `57599 - offset`, offset in seconds) as
/// microseconds of UTC.
fn utc_times(array: &ArrayRef) -> ArrayRef {
    const DAY: i64 = 86_400_000_000;
    let Some(bytes) = array.as_fixed_size_binary_opt() else { return Arc::clone(array) };
    let utc = |value: &[u8]| {
        let bits = u64::from_le_bytes(*value.first_chunk::<8>()?);
        let local = i64::try_from(bits >> 24).ok()?;
        let offset = 57_599 - i64::try_from(bits & 0xff_ffff).ok()?;
        Some((local - offset * 1_000_000).rem_euclid(DAY))
    };
    Arc::new(bytes.iter().map(|value| value.and_then(utc)).collect::<Time64MicrosecondArray>())
}

/// Months, days and milliseconds, each an unsigned number of four bytes.
fn interval_bytes(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    let Some(intervals) = array.as_primitive_opt::<IntervalMonthDayNanoType>() else { return Ok(Arc::clone(array)) };
    let mut bytes = FixedSizeBinaryBuilder::with_capacity(intervals.len(), 12);
    for value in intervals {
        let Some(value) = value else {
            bytes.append_null();
            continue;
        };
        let millis = (value.nanoseconds % 1_000_000 == 0).then_some(value.nanoseconds / 1_000_000);
        let parts = [i64::from(value.months), i64::from(value.days), millis.unwrap_or(-1)];
        let mut encoded = [0u8; 12];
        for (slot, part) in encoded.chunks_exact_mut(4).zip(parts) {
            let part = u32::try_from(part).map_err(|_| {
                ArrowError::CastError(format!(
                    "an interval of {} months, {} days and {} ns: Parquet counts months, days and whole milliseconds, none of \
                     them negative; write TLM, or cast the column to VARCHAR",
                    value.months, value.days, value.nanoseconds
                ))
            })?;
            slot.copy_from_slice(&part.to_le_bytes());
        }
        bytes.append_value(encoded)?;
    }
    Ok(Arc::new(bytes.finish()))
}

/// `schema`, made from `fields` (which are [`stored`] ones of `inputs`), with the annotations that name their types.
///
/// # Errors
/// Those of the Parquet schema.
pub(super) fn annotated(schema: &SchemaDescriptor, inputs: &Fields) -> Result<SchemaDescriptor> {
    let root = schema.root_schema();
    let fields =
        root.get_fields().iter().zip(inputs).map(|(node, field)| annotate(node, field)).collect::<Result<Vec<_>>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn annotate(node: &TypePtr, field: &Field) -> Result<TypePtr> {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    let inner = |node: &TypePtr, index: usize| {
        node.get_fields()
            .get(index)
            .cloned()
            .ok_or_else(|| ParquetError::General(format!("group {} is empty", node.name())))
    };
    match field.data_type() {
        _ if node.is_primitive() => annotate_leaf(node, field),
        Struct(fields) => {
            let variant = extension(field) == Some(VARIANT);
            let children = node.get_fields().iter().zip(fields).map(|(node, field)| annotate(node, field));
            group(node, children.collect::<Result<_>>()?, variant.then(|| LogicalType::variant(Some(1))))
        }
        List(child) | LargeList(child) | FixedSizeList(child, _) => {
            let repeated = inner(node, 0)?;
            let element = annotate(&inner(&repeated, 0)?, child)?;
            group(node, vec![group(&repeated, vec![element], None)?], None)
        }
        Map(entries, _) => {
            let Struct(fields) = entries.data_type() else { return Ok(Arc::clone(node)) };
            let repeated = inner(node, 0)?;
            let children = repeated.get_fields().iter().zip(fields).map(|(node, field)| annotate(node, field));
            group(node, vec![group(&repeated, children.collect::<Result<_>>()?, None)?], None)
        }
        _ => Ok(Arc::clone(node)),
    }
}

fn group(node: &TypePtr, fields: Vec<TypePtr>, logical: Option<LogicalType>) -> Result<TypePtr> {
    if logical.is_none() && fields.iter().zip(node.get_fields()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(node));
    }
    let info = node.get_basic_info();
    let mut builder = Type::group_type_builder(info.name())
        .with_converted_type(info.converted_type())
        .with_logical_type(logical.or_else(|| info.logical_type_ref().cloned()))
        .with_fields(fields)
        .with_id(info.has_id().then(|| info.id()));
    if info.has_repetition() {
        builder = builder.with_repetition(info.repetition());
    }
    builder.build().map(Arc::new)
}

fn annotate_leaf(node: &TypePtr, field: &Field) -> Result<TypePtr> {
    let (converted, logical) = match (extension(field), field.data_type()) {
        (Some(UUID), DataType::FixedSizeBinary(16)) => (ConvertedType::NONE, Some(LogicalType::Uuid)),
        (Some(JSON), DataType::Utf8 | DataType::LargeUtf8) => (ConvertedType::JSON, Some(LogicalType::Json)),
        (Some(GEOMETRY), DataType::Binary | DataType::LargeBinary) => {
            (ConvertedType::NONE, Some(LogicalType::geometry(crs_of(field))))
        }
        (_, DataType::Interval(_)) => (ConvertedType::INTERVAL, None),
        _ if is_time_tz(field) => (ConvertedType::NONE, Some(LogicalType::time(true, ParquetUnit::MICROS))),
        _ => return Ok(Arc::clone(node)),
    };
    let Type::PrimitiveType { basic_info: info, physical_type, type_length, .. } = node.as_ref() else {
        return Ok(Arc::clone(node));
    };
    Type::primitive_type_builder(info.name(), *physical_type)
        .with_length(*type_length)
        .with_repetition(info.repetition())
        .with_converted_type(converted)
        .with_logical_type(logical)
        .with_id(info.has_id().then(|| info.id()))
        .build()
        .map(Arc::new)
}

/// The coordinate reference system that GeoArrow's metadata names.
fn crs_of(field: &Field) -> Option<String> {
    let text = field.metadata().get(METADATA)?;
    let metadata: serde_json::Value = serde_json::from_str(text).ok()?;
    match metadata.get("crs")? {
        serde_json::Value::Null => None,
        serde_json::Value::String(crs) => Some(crs.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{FixedSizeBinaryArray, IntervalMonthDayNanoArray, ListArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{IntervalMonthDayNano, Time64MicrosecondType};
    use parquet::arrow::ArrowSchemaConverter;

    use super::*;

    fn time_tz(name: &str) -> Field {
        with_extension(
            Field::new(name, DataType::FixedSizeBinary(8), true),
            OPAQUE,
            "{\"type_name\":\"time_tz\",\"vendor_name\":\"DuckDB\"}".to_owned(),
        )
    }

    fn bits(micros: u64, offset: i64) -> [u8; 8] {
        ((micros << 24) | u64::try_from(57_599 - offset).unwrap()).to_le_bytes()
    }

    #[test]
    fn times_with_an_offset_are_stored_in_utc() {
        let hour = 3_600_000_000u64;
        let rows = [bits(10 * hour, 2 * 3600), bits(hour, 2 * 3600), bits(23 * hour, -2 * 3600)];
        let values = rows.iter().map(|row| Some(row.as_slice())).chain([None]);
        let values: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 8).unwrap());
        let field = Arc::new(time_tz("t"));
        let list = ListArray::new(Arc::clone(&field), OffsetBuffer::from_lengths([1, 3]), Arc::clone(&values), None);
        let expected = [Some(8), Some(23), Some(1), None].map(|hours| hours.map(|hours| hours * 3_600_000_000i64));
        let stored = stored_array(&values, &field).unwrap();
        assert_eq!(stored.as_primitive::<Time64MicrosecondType>().iter().collect::<Vec<_>>(), expected);
        let column = Arc::new(Field::new("l", list.data_type().clone(), true));
        let stored_list = stored_array(&(Arc::new(list) as ArrayRef), &column).unwrap();
        assert_eq!(stored_list.data_type(), stored_field(&column).data_type());
        assert_eq!(stored_list.as_list::<i32>().values().to_data(), stored.to_data());
    }

    #[test]
    fn intervals_are_stored_exactly_or_not_at_all() {
        let field = Arc::new(Field::new("i", DataType::Interval(IntervalUnit::MonthDayNano), true));
        let array = |months, days, nanos| -> ArrayRef {
            Arc::new(IntervalMonthDayNanoArray::from(vec![Some(IntervalMonthDayNano::new(months, days, nanos)), None]))
        };
        let stored = stored_array(&array(1, 2, 3_000_000), &field).unwrap();
        let stored = stored.as_fixed_size_binary();
        assert_eq!((stored.value(0), stored.is_null(1)), ([1u8, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0].as_slice(), true));
        for wrong in [array(-1, 0, 0), array(0, -1, 0), array(0, 0, -1_000_000), array(0, 0, 1), array(0, 0, i64::MAX)]
        {
            assert!(stored_array(&wrong, &field).unwrap_err().to_string().contains("whole milliseconds"));
        }
    }

    /// What is written is read as the same extension types, at any depth.
    #[test]
    fn annotations_come_back() {
        let uuid = || with_extension(Field::new("u", DataType::FixedSizeBinary(16), true), UUID, String::new());
        let json = || with_extension(Field::new("j", DataType::Utf8, true), JSON, String::new());
        let geometry =
            with_extension(Field::new("g", DataType::Binary, true), GEOMETRY, "{\"crs\":\"OGC:CRS84\"}".to_owned());
        let parts = vec![Field::new("metadata", DataType::Binary, false), Field::new("value", DataType::Binary, true)];
        let variant =
            || with_extension(Field::new("v", DataType::Struct(parts.clone().into()), true), VARIANT, String::new());
        let list = |field: Field| DataType::List(Arc::new(field));
        let inputs: Fields = vec![
            uuid(),
            Field::new("s", DataType::Struct(vec![json(), Field::new("l", list(uuid()), true)].into()), true),
            geometry.clone(),
            variant(),
            Field::new("lv", list(variant()), true),
            time_tz("t"),
            Field::new("n", DataType::Int32, true),
        ]
        .into();
        let stored: Vec<FieldRef> = inputs.iter().map(stored).collect();
        let plain = ArrowSchemaConverter::new().convert(&Schema::new(stored.clone())).unwrap();
        let annotated = annotated(&plain, &inputs).unwrap();
        let logical: Vec<_> = annotated.columns().iter().map(|leaf| leaf.logical_type_ref().cloned()).collect();
        let utc = LogicalType::time(true, ParquetUnit::MICROS);
        let crs = LogicalType::geometry(Some("OGC:CRS84".to_owned()));
        assert_eq!(
            logical[..4],
            [Some(LogicalType::Uuid), Some(LogicalType::Json), Some(LogicalType::Uuid), Some(crs)]
        );
        assert_eq!(logical[8..], [Some(utc), None]);
        let file = parquet::file::metadata::FileMetaData::new(2, 0, None, None, Arc::new(annotated), None);
        let metadata = ParquetMetaData::new(file, Vec::new());
        let bare: Fields = stored.iter().map(bare).collect();
        let shown = shown(&Arc::new(Schema::new(bare)), &metadata);
        for (shown, input) in shown.fields().iter().zip(&inputs).filter(|(field, _)| field.name() != "t") {
            assert_eq!(shown, input);
        }
        assert_eq!(shown.field_with_name("t").ok().and_then(|field| extension(field)), Some(TIME_TZ));
    }

    /// Without extension types, as the decoder has it.
    fn bare(field: &FieldRef) -> FieldRef {
        let data_type = match field.data_type() {
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(bare).collect()),
            DataType::List(child) => DataType::List(bare(child)),
            other => other.clone(),
        };
        Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
    }

    #[test]
    fn geoparquet_names_its_columns() {
        let geo = r#"{"version":"1.1.0","columns":{"g":{"encoding":"WKB","crs":null},"p":{"encoding":"point"},"h":{"encoding":"WKB","crs":{"id":1}}}}"#;
        let found = geo_columns(&[KeyValue::new(GEO_KEY.to_owned(), geo.to_owned())]);
        assert_eq!(found.len(), 2);
        assert_eq!(found.get("g"), Some(&None));
        assert!(found.get("h").is_some_and(Option::is_some));
        let geo = r#"{"columns":{"g":{"encoding":"WKB"}}}"#;
        let found = geo_columns(&[KeyValue::new(GEO_KEY.to_owned(), geo.to_owned())]);
        assert_eq!(found.get("g"), Some(&Some("OGC:CRS84".into())));
        for damaged in ["", "[]", "{\"columns\":3}"] {
            assert!(geo_columns(&[KeyValue::new(GEO_KEY.to_owned(), damaged.to_owned())]).is_empty());
        }
    }
}
