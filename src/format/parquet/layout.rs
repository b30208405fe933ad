//! What a Parquet extent looks like: the types that are stored, the schema hint other readers see, and how each column is
//! encoded.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, ConvertedType, Type as Physical, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{
    BloomFilterPosition, EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr,
};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::fetch::guarded;
use super::{annotations, encoding};
use crate::format::{SortKey, WriteOptions};
use crate::{Error, Result};

/// The level the storage format's reference names.
const DEFAULT_ZSTD_LEVEL: i32 = 3;

/// Rows of a data page. Five of DuckDB's vectors, a twelfth of its default block: a lookup decodes few rows it does not want,
/// and pages are long enough to compress well.
const PAGE_ROWS: usize = 10_240;

/// Bytes of a data page before compression.
const PAGE_BYTES: usize = 1 << 20;

/// A dictionary that grows beyond this many bytes is given up, and so is most of its use.
const DICTIONARY_BYTES: usize = 1 << 20;

/// False positives of a bloom filter. Filters come in powers of two: at 2 % one for the default 122,880 rows takes 128 KiB, at 1 % twice
/// that.
const BLOOM_FPP: f64 = 0.02;

/// Columns that get a bloom filter when nothing is said.
const BLOOM_PATTERNS: [&str; 4] = ["*trace_id", "*span_id", "*_id", "*uuid*"];

/// A file as it will be written.
#[derive(Debug)]
pub(super) struct Layout {
    /// Schema of the batches that are appended.
    pub(super) input: SchemaRef,
    /// Schema of the arrays that are encoded: units that Parquet lacks are replaced.
    pub(super) stored: SchemaRef,
    /// The Parquet schema.
    pub(super) parquet: SchemaDescriptor,
    /// Properties of the file.
    pub(super) properties: WriterPropertiesPtr,
    base: WriterPropertiesBuilder,
    bloomed: Vec<usize>,
    /// Whether pages are compressed with zstd.
    zstd: bool,
}

impl Layout {
    /// Checks a schema and options.
    ///
    /// # Errors
    /// Options that make no sense, sort columns that do not exist, types that Parquet cannot hold.
    pub(super) fn new(path: &str, input: &SchemaRef, options: &WriteOptions) -> Result<Self> {
        let stored: Fields = input
            .fields()
            .iter()
            .map(annotations::stored)
            .map(|field| with_type(&field, parquet_type(field.data_type())))
            .collect();
        let stored = Arc::new(Schema::new_with_metadata(stored, input.metadata().clone()));
        let shown: Fields =
            stored.fields().iter().map(|field| with_type(field, plain_type(field.data_type()))).collect();
        let shown = Schema::new_with_metadata(shown, stored.metadata().clone());
        let parquet = guarded(path, || "schema".to_owned(), || ArrowSchemaConverter::new().convert(&stored))
            .map_err(|error| Error::unsupported(path, format!("the schema cannot be written as Parquet: {error}")))?;
        let parquet = guarded(path, || "schema".to_owned(), || annotations::annotated(&parquet, input.fields()))?;
        let compression = compression(options.compression.as_deref())?;
        let zstd = matches!(compression, Compression::ZSTD(_));
        let base = WriterProperties::builder()
            .set_compression(compression)
            .set_created_by(concat!("pensieve version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_max_row_group_row_count(None)
            .set_bloom_filter_position(BloomFilterPosition::End);
        let bloomed = bloomed(&parquet, options.bloom_columns.as_deref());
        let sorting = sorting(&parquet, &options.sorted_by)?;
        let mut properties = base.clone().set_sorting_columns((!sorting.is_empty()).then_some(sorting)).build();
        add_encoded_arrow_schema_to_metadata(&shown, &mut properties);
        Ok(Self { input: Arc::clone(input), stored, parquet, properties: Arc::new(properties), base, bloomed, zstd })
    }

    /// The arrays of a batch as they are stored.
    ///
    /// # Errors
    /// If the batch has another schema than the file, or a value does not fit the unit it is stored in.
    pub(super) fn columns(&self, path: &str, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        if columns.len() != self.input.fields().len() {
            return Err(Error::InvalidInput(format!(
                "\"{path}\" has {} columns, the block has {}",
                self.input.fields().len(),
                columns.len()
            )));
        }
        let exact = CastOptions { safe: false, ..CastOptions::default() };
        columns
            .iter()
            .zip(self.input.fields().iter().zip(self.stored.fields()))
            .map(|(array, (input, stored))| {
                if array.data_type() != input.data_type() {
                    return Err(Error::InvalidInput(format!(
                        "column \"{}\" of \"{path}\" is {}, the block has {}",
                        input.name(),
                        input.data_type(),
                        array.data_type()
                    )));
                }
                if input.data_type() == stored.data_type() {
                    return Ok(Arc::clone(array));
                }
                let array = annotations::stored_array(array, input);
                array.and_then(|array| cast_with_options(&array, stored.data_type(), &exact)).map_err(|error| {
                    Error::InvalidInput(format!("column \"{}\" of \"{path}\" cannot be stored: {error}", input.name()))
                })
            })
            .collect()
    }

    /// Properties for one row group of `rows` rows whose stored columns are `columns`: encodings chosen by looking at them.
    pub(super) fn row_group_properties(&self, columns: &[ArrayRef], rows: usize) -> WriterPropertiesPtr {
        let mut builder = self.base.clone();
        for (leaf, descr) in self.parquet.columns().iter().enumerate() {
            let path = descr.path().clone();
            let root = self.parquet.get_column_root_idx(leaf);
            let array = columns.get(root).filter(|_| descr.path().parts().len() == 1);
            let (dictionary, encoding) = encoding::choose(descr, array, self.zstd);
            builder = builder.set_column_dictionary_enabled(path.clone(), dictionary);
            if let Some(encoding) = encoding {
                builder = builder.set_column_encoding(path.clone(), encoding);
            }
            if self.bloomed.contains(&leaf) {
                // The filter starts at this size and is folded to what the distinct values need.
                let distinct = u64::try_from(rows).unwrap_or(u64::MAX).clamp(1, 1 << 24);
                builder = builder
                    .set_column_bloom_filter_enabled(path.clone(), true)
                    .set_column_bloom_filter_fpp(path.clone(), BLOOM_FPP)
                    .set_column_bloom_filter_max_ndv(path, distinct);
            }
        }
        Arc::new(builder.build())
    }
}

fn compression(option: Option<&str>) -> Result<Compression> {
    let given = option.unwrap_or("zstd").to_ascii_lowercase();
    let (name, level) = given.split_once(':').map_or((given.as_str(), None), |(name, level)| (name, Some(level)));
    let wrong = || {
        Error::InvalidInput(format!(
            "a Parquet extent cannot be compressed with \"{given}\"; use none, snappy, lz4, zstd or zstd:LEVEL (1 to 22)"
        ))
    };
    match (name, level) {
        ("none" | "uncompressed", None) => Ok(Compression::UNCOMPRESSED),
        ("snappy", None) => Ok(Compression::SNAPPY),
        ("lz4" | "lz4_raw", None) => Ok(Compression::LZ4_RAW),
        ("zstd", level) => {
            let level = level.map_or(Ok(DEFAULT_ZSTD_LEVEL), str::parse::<i32>).map_err(|_| wrong())?;
            let level = Some(level).filter(|level| (1..=22).contains(level)).ok_or_else(wrong)?;
            Ok(Compression::ZSTD(ZstdLevel::try_new(level).map_err(|_| wrong())?))
        }
        _ => Err(wrong()),
    }
}

/// Leaves that get a bloom filter: primitive root columns of types whose stored bytes have one form per value.
fn bloomed(parquet: &SchemaDescriptor, patterns: Option<&[String]>) -> Vec<usize> {
    let matches = |name: &str| match patterns {
        Some(patterns) => patterns.iter().any(|pattern| matches_pattern(name, pattern)),
        None => BLOOM_PATTERNS.iter().any(|pattern| matches_pattern(name, pattern)),
    };
    let is_hashed = |descr: &ColumnDescriptor| {
        descr.path().parts().len() == 1
            && descr.max_rep_level() == 0
            && !matches!(descr.physical_type(), Physical::BOOLEAN | Physical::INT96)
            // equal intervals (30 days, one month) have different bytes
            && descr.converted_type() != ConvertedType::INTERVAL
    };
    parquet
        .columns()
        .iter()
        .enumerate()
        .filter(|(_, descr)| is_hashed(descr) && matches(descr.name()))
        .map(|(leaf, _)| leaf)
        .collect()
}

/// Whether `name` has the shape of `pattern`, in which `*` stands for any text. ASCII case does not matter.
fn matches_pattern(name: &str, pattern: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let pattern = pattern.to_ascii_lowercase();
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = rest.get(at + piece.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn sorting(parquet: &SchemaDescriptor, keys: &[SortKey]) -> Result<Vec<SortingColumn>> {
    keys.iter()
        .map(|key| {
            let name = &key.column;
            let leaf = parquet
                .columns()
                .iter()
                .position(|descr| descr.path().parts() == [name.clone()] && descr.max_rep_level() == 0)
                .and_then(|leaf| i32::try_from(leaf).ok());
            let column_idx = leaf.ok_or_else(|| {
                Error::InvalidInput(format!("the rows cannot be sorted by \"{name}\": there is no such plain column"))
            })?;
            Ok(SortingColumn { column_idx, descending: key.descending, nulls_first: key.nulls_first })
        })
        .collect()
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    if *field.data_type() == data_type {
        return Arc::clone(field);
    }
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()))
}

/// The type that Parquet has an annotation for: it knows no seconds and no milliseconds of dates.
fn parquet_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        other => nested(other, parquet_type),
    }
}

/// The type that every reader of Arrow knows: no views, no dictionaries.
fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        other => nested(other, plain_type),
    }
}

fn nested(data_type: &DataType, change: fn(&DataType) -> DataType) -> DataType {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    let child = |field: &FieldRef| with_type(field, change(field.data_type()));
    match data_type {
        List(field) => List(child(field)),
        LargeList(field) => LargeList(child(field)),
        FixedSizeList(field, size) => FixedSizeList(child(field), *size),
        Map(field, sorted) => Map(child(field), *sorted),
        Struct(fields) => Struct(fields.iter().map(child).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (name, pattern, expected) in [
            ("trace_id", "*trace_id", true),
            ("Parent_Span_ID", "*span_id", true),
            ("idx", "*_id", false),
            ("request_uuid_v4", "*uuid*", true),
            ("uuid", "*uuid*", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("abcabc", "a*b*c", true),
            ("abc", "*", true),
            ("ab", "ab*b", false),
        ] {
            assert_eq!(matches_pattern(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn compression_names() {
        assert_eq!(compression(None).unwrap(), Compression::ZSTD(ZstdLevel::try_new(3).unwrap()));
        assert_eq!(compression(Some("ZSTD:9")).unwrap(), Compression::ZSTD(ZstdLevel::try_new(9).unwrap()));
        assert_eq!(compression(Some("lz4")).unwrap(), Compression::LZ4_RAW);
        for wrong in ["gzip", "zstd:0", "zstd:x", "snappy:3"] {
            assert!(compression(Some(wrong)).unwrap_err().to_string().contains("use none, snappy"));
        }
    }
}
