//! The Arrow schema in which a file is read: what its writer meant, as far as it can be taken, and the roots that cannot be read at all,
//! which must not keep anybody from reading the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type as Physical;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::SchemaDescriptor;

/// The footer with the Arrow schema in which its columns are decoded.
pub(super) fn arrow_metadata(metadata: &Arc<ParquetMetaData>) -> Result<ArrowReaderMetadata> {
    // A damaged or foreign ARROW:schema is a hint that cannot be taken, not a reason to refuse the file.
    hinted(metadata, ArrowReaderOptions::new())
        .or_else(|_| hinted(metadata, ArrowReaderOptions::new().with_skip_arrow_metadata(true)))
}

fn hinted(metadata: &Arc<ParquetMetaData>, options: ArrowReaderOptions) -> Result<ArrowReaderMetadata> {
    let arrow = ArrowReaderMetadata::try_new(Arc::clone(metadata), options)?;
    let wanted = wanted(arrow.schema(), metadata.file_metadata().schema_descr());
    if &wanted == arrow.schema().as_ref() {
        return Ok(arrow);
    }
    ArrowReaderMetadata::try_new(Arc::clone(metadata), ArrowReaderOptions::new().with_schema(Arc::new(wanted)))
}

/// The schema with timestamps of 96 bits in microseconds without a time zone, as `read_parquet` has them (nanoseconds end in the year
/// 2262), and without the dictionaries that the writer had in memory: they say nothing about the file, and not all of them can be read.
fn wanted(schema: &Schema, file: &SchemaDescriptor) -> Schema {
    let mut leaf = 0;
    let fields: Vec<FieldRef> = schema.fields().iter().map(|field| field_wanted(field, file, &mut leaf)).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn field_wanted(field: &FieldRef, file: &SchemaDescriptor, leaf: &mut usize) -> FieldRef {
    let data_type = type_wanted(field.data_type(), file, leaf);
    if &data_type == field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()))
}

fn type_wanted(data_type: &DataType, file: &SchemaDescriptor, leaf: &mut usize) -> DataType {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct, Timestamp};
    let mut inner = |field: &FieldRef| field_wanted(field, file, leaf);
    match data_type {
        List(field) => List(inner(field)),
        LargeList(field) => LargeList(inner(field)),
        ListView(field) => ListView(inner(field)),
        LargeListView(field) => LargeListView(inner(field)),
        FixedSizeList(field, size) => FixedSizeList(inner(field), *size),
        Map(field, sorted) => Map(inner(field), *sorted),
        Struct(fields) => Struct(fields.iter().map(inner).collect::<Fields>()),
        Dictionary(_, values) => type_wanted(values, file, leaf),
        _ => {
            let physical = (*leaf < file.num_columns()).then(|| file.column(*leaf).physical_type());
            *leaf += 1;
            match (physical, data_type) {
                (Some(Physical::INT96), Timestamp(..)) => Timestamp(TimeUnit::Microsecond, None),
                _ => data_type.clone(),
            }
        }
    }
}

/// The roots that have no Arrow type, and why.
pub(super) fn without_type(metadata: &ParquetMetaData) -> BTreeMap<usize, String> {
    let file = metadata.file_metadata().schema_descr();
    let fails = |mask| parquet_to_arrow_field_levels(file, mask, None).err();
    let root = |root: usize| Some((root, reason(&fails(ProjectionMask::roots(file, [root]))?)));
    (0..file.root_schema().get_fields().len()).filter_map(root).collect()
}

fn reason(error: &ParquetError) -> String {
    match error {
        ParquetError::General(what) | ParquetError::NYI(what) | ParquetError::ArrowError(what) => what.clone(),
        other => other.to_string(),
    }
}
