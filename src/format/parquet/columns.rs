//! Which leaf of the file a column name means, and in which domain its stored values compare.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use parquet::basic::{ColumnOrder, ConvertedType, LogicalType, TimeUnit as ParquetUnit, Type as Physical};
use parquet::file::metadata::FileMetaData;
use parquet::schema::types::ColumnDescriptor;

/// How the values of a leaf are ordered, which decides what a bound of its statistics means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// No order that is known here: bounds say nothing. (INT96, INTERVAL, GEOMETRY, VARIANT, unknown annotations.)
    Unordered,
    /// BOOLEAN.
    Bool,
    /// INT32 or INT64 as signed integers.
    Signed,
    /// INT32 or INT64 as unsigned integers.
    Unsigned,
    /// FLOAT, DOUBLE or FLOAT16.
    Float,
    /// Decimals of `scale` digits, in any physical type.
    Decimal {
        /// Digits after the point.
        scale: u8,
    },
    /// UTF-8 text.
    Text,
    /// Bytes in unsigned order; UUIDs.
    Binary,
    /// Timestamps in units of so many nanoseconds.
    Timestamp {
        /// Nanoseconds of one unit.
        unit: i128,
    },
    /// Days since the Unix epoch.
    Date,
    /// Times of the day in units of so many nanoseconds.
    Time {
        /// Nanoseconds of one unit.
        unit: i64,
    },
}

/// Which statistics of a leaf may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// `min_value`/`max_value` follow the order of the type.
    Typed,
    /// Only the deprecated pair may be used, and only where signed comparison is the order of the type.
    Legacy,
    /// The file declares an order that is not known here.
    Unknown,
}

/// One root column of the file.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The leaf, if the root is one primitive value per row.
    pub(super) leaf: Option<usize>,
    /// How its values compare.
    pub(super) domain: Domain,
    /// Which statistics may be believed.
    pub(super) order: Order,
    /// Whether a row may be NULL by the schema.
    pub(super) nullable: bool,
    /// Physical type of the leaf.
    pub(super) physical: Physical,
    /// Bytes of one value, for FIXED_LEN_BYTE_ARRAY.
    pub(super) type_length: usize,
    /// Leaves under this root, for nested columns more than one.
    pub(super) leaves: Vec<usize>,
}

/// The root columns of a file.
#[derive(Debug)]
pub(super) struct Columns {
    roots: Vec<Column>,
    /// `None` for a name that occurs more than once: no evidence can be about "the" column.
    by_name: HashMap<String, Option<usize>>,
}

impl Columns {
    /// Reads the shape of `file`, whose Arrow schema is `schema` (one field per root).
    pub(super) fn new(file: &FileMetaData, schema: &Schema) -> Self {
        let parquet = file.schema_descr();
        let mut roots: Vec<Column> = schema.fields().iter().map(|_| Column::nested()).collect();
        for leaf in 0..parquet.num_columns() {
            let root = parquet.get_column_root_idx(leaf);
            let Some(column) = roots.get_mut(root) else { continue };
            column.leaves.push(leaf);
            let descr = parquet.column(leaf);
            if descr.path().parts().len() != 1 || descr.max_rep_level() != 0 {
                continue;
            }
            column.leaf = Some(leaf);
            column.nullable = descr.max_def_level() > 0;
            column.physical = descr.physical_type();
            column.type_length = usize::try_from(descr.type_length()).unwrap_or(0);
            column.domain = domain(&descr, schema.field(root).data_type());
            column.order = match file.column_orders().map(|orders| orders.get(leaf)) {
                None => Order::Legacy,
                Some(Some(ColumnOrder::TYPE_DEFINED_ORDER(_))) => Order::Typed,
                // The total order puts -0 before +0 and NaN outside: bounds of it bound the numbers as well.
                Some(Some(ColumnOrder::IEEE_754_TOTAL_ORDER)) if column.domain == Domain::Float => Order::Typed,
                Some(_) => Order::Unknown,
            };
        }
        let mut by_name = HashMap::new();
        for (root, field) in schema.fields().iter().enumerate() {
            by_name.entry(field.name().clone()).and_modify(|seen| *seen = None).or_insert(Some(root));
        }
        Self { roots, by_name }
    }

    /// Whether a column of that name exists.
    pub(super) fn exists(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The one column of that name, if it is one primitive value per row.
    pub(super) fn primitive(&self, name: &str) -> Option<(&Column, usize)> {
        let root = self.by_name.get(name).copied().flatten()?;
        let column = self.roots.get(root)?;
        column.leaf.map(|leaf| (column, leaf))
    }

    /// The root column `index` of the schema.
    pub(super) fn root(&self, index: usize) -> Option<&Column> {
        self.roots.get(index)
    }
}

impl Column {
    fn nested() -> Self {
        Self {
            leaf: None,
            domain: Domain::Unordered,
            order: Order::Unknown,
            nullable: true,
            physical: Physical::BYTE_ARRAY,
            type_length: 0,
            leaves: Vec::new(),
        }
    }
}

/// What the schema says about the meaning of a physical value, from the logical type or, without one, the converted type.
enum Annotation {
    Plain,
    Int { signed: bool },
    Decimal { scale: i32 },
    Date,
    Time(ParquetUnit),
    Timestamp(ParquetUnit),
    Text,
    Bytes,
    Uuid,
    Float16,
    Other,
}

fn annotation(descr: &ColumnDescriptor) -> Annotation {
    match descr.logical_type_ref() {
        Some(LogicalType::String | LogicalType::Json) => Annotation::Text,
        Some(LogicalType::Enum | LogicalType::Bson) => Annotation::Bytes,
        Some(LogicalType::Decimal(decimal)) => Annotation::Decimal { scale: decimal.scale },
        Some(LogicalType::Date) => Annotation::Date,
        Some(LogicalType::Time(time)) => Annotation::Time(time.unit),
        Some(LogicalType::Timestamp(timestamp)) => Annotation::Timestamp(timestamp.unit),
        Some(LogicalType::Integer(int)) => Annotation::Int { signed: int.is_signed },
        Some(LogicalType::Uuid) => Annotation::Uuid,
        Some(LogicalType::Float16) => Annotation::Float16,
        Some(_) => Annotation::Other,
        None => match descr.converted_type() {
            ConvertedType::NONE => Annotation::Plain,
            ConvertedType::UTF8 | ConvertedType::JSON => Annotation::Text,
            ConvertedType::ENUM | ConvertedType::BSON => Annotation::Bytes,
            ConvertedType::DECIMAL => Annotation::Decimal { scale: descr.type_scale() },
            ConvertedType::DATE => Annotation::Date,
            ConvertedType::TIME_MILLIS => Annotation::Time(ParquetUnit::MILLIS),
            ConvertedType::TIME_MICROS => Annotation::Time(ParquetUnit::MICROS),
            ConvertedType::TIMESTAMP_MILLIS => Annotation::Timestamp(ParquetUnit::MILLIS),
            ConvertedType::TIMESTAMP_MICROS => Annotation::Timestamp(ParquetUnit::MICROS),
            ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32 | ConvertedType::INT_64 => {
                Annotation::Int { signed: true }
            }
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => {
                Annotation::Int { signed: false }
            }
            _ => Annotation::Other,
        },
    }
}

/// The domain of a leaf that the reader returns as `arrow`. Every combination that is not known to keep the stored order is
/// [`Domain::Unordered`].
fn domain(descr: &ColumnDescriptor, arrow: &DataType) -> Domain {
    use DataType as A;
    use Physical as P;
    let arrow = match arrow {
        A::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    match (descr.physical_type(), annotation(descr), arrow) {
        (P::BOOLEAN, Annotation::Plain, A::Boolean) => Domain::Bool,
        (P::INT32, Annotation::Plain | Annotation::Int { signed: true }, A::Int8 | A::Int16 | A::Int32)
        | (P::INT64, Annotation::Plain | Annotation::Int { signed: true }, A::Int64) => Domain::Signed,
        (P::INT32, Annotation::Int { signed: false }, A::UInt8 | A::UInt16 | A::UInt32)
        | (P::INT64, Annotation::Int { signed: false }, A::UInt64) => Domain::Unsigned,
        (P::FLOAT, Annotation::Plain, A::Float32) | (P::DOUBLE, Annotation::Plain, A::Float64) => Domain::Float,
        (P::FIXED_LEN_BYTE_ARRAY, Annotation::Float16, A::Float16) => Domain::Float,
        (
            P::INT32 | P::INT64 | P::FIXED_LEN_BYTE_ARRAY | P::BYTE_ARRAY,
            Annotation::Decimal { scale },
            A::Decimal32(digits, shown)
            | A::Decimal64(digits, shown)
            | A::Decimal128(digits, shown)
            | A::Decimal256(digits, shown),
            // wider ones are handed over as DOUBLE, rounded: the bounds are not of what is compared
        ) if i32::from(*shown) == scale && *digits <= 38 => {
            u8::try_from(scale).map_or(Domain::Unordered, |scale| Domain::Decimal { scale })
        }
        (
            P::BYTE_ARRAY,
            Annotation::Text | Annotation::Bytes | Annotation::Plain,
            A::Utf8 | A::LargeUtf8 | A::Utf8View,
        ) => Domain::Text,
        (P::BYTE_ARRAY, Annotation::Bytes | Annotation::Plain, A::Binary | A::LargeBinary | A::BinaryView) => {
            Domain::Binary
        }
        (P::FIXED_LEN_BYTE_ARRAY, Annotation::Plain | Annotation::Uuid, A::FixedSizeBinary(_)) => Domain::Binary,
        (P::INT32, Annotation::Date, A::Date32) => Domain::Date,
        (P::INT32, Annotation::Time(ParquetUnit::MILLIS), A::Time32(TimeUnit::Millisecond)) => {
            Domain::Time { unit: 1_000_000 }
        }
        (P::INT64, Annotation::Time(ParquetUnit::MICROS), A::Time64(TimeUnit::Microsecond)) => {
            Domain::Time { unit: 1_000 }
        }
        (P::INT64, Annotation::Time(ParquetUnit::NANOS), A::Time64(TimeUnit::Nanosecond)) => Domain::Time { unit: 1 },
        // Seconds exist only as a hint of ARROW:schema over a plain INT64.
        (P::INT64, Annotation::Plain, A::Timestamp(unit, _)) => Domain::Timestamp { unit: nanoseconds(*unit) },
        (P::INT64, Annotation::Timestamp(stored), A::Timestamp(shown, _)) if same_unit(stored, *shown) => {
            Domain::Timestamp { unit: nanoseconds(*shown) }
        }
        _ => Domain::Unordered,
    }
}

fn same_unit(stored: ParquetUnit, shown: TimeUnit) -> bool {
    matches!(
        (stored, shown),
        (ParquetUnit::MILLIS, TimeUnit::Millisecond)
            | (ParquetUnit::MICROS, TimeUnit::Microsecond)
            | (ParquetUnit::NANOS, TimeUnit::Nanosecond)
    )
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
