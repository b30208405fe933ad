//! The type language of the catalogs: how the type of a column is written down.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::Error;

/// Type of a column. The first eight are the language of the SQL catalogs (which the original system reads); the others are an
/// extension that only the manifest log stores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// `bool`
    Bool,
    /// `int`: 32 bits, signed.
    Int,
    /// `long`: 64 bits, signed.
    Long,
    /// `real`: 64-bit IEEE float.
    Real,
    /// `string`: UTF-8.
    String,
    /// `timestamp`: nanoseconds since the Unix epoch, no zone.
    Timestamp,
    /// `dynamic`: a JSON value as text in binary.
    Dynamic,
    /// `vector(N)`: N 32-bit floats.
    Vector(u32),
    /// `byte`: 8 bits, signed.
    Byte,
    /// `short`: 16 bits, signed.
    Short,
    /// `ubyte`: 8 bits, unsigned.
    UByte,
    /// `ushort`: 16 bits, unsigned.
    UShort,
    /// `uint`: 32 bits, unsigned.
    UInt,
    /// `ulong`: 64 bits, unsigned.
    ULong,
    /// `float`: 32-bit IEEE float.
    Float,
    /// `decimal(P,S)`: P digits in all (1 to 38), S of them after the point.
    Decimal(u8, u8),
    /// `date`: days since the Unix epoch.
    Date,
    /// `time`: microseconds since midnight.
    Time,
    /// `timestamp_us`: microseconds since the Unix epoch, no zone.
    TimestampMicros,
    /// `timestamptz`: microseconds since the Unix epoch, an instant.
    TimestampTz,
    /// `binary`: bytes.
    Binary,
    /// `uuid`: 16 bytes, big-endian.
    Uuid,
}

/// The names the SQL catalogs accept.
pub const BASE_TYPE_NAMES: &[&str] = &["bool", "int", "long", "real", "string", "timestamp", "dynamic", "vector(N)"];

/// The names the manifest log accepts.
pub const LOG_TYPE_NAMES: &[&str] = &[
    "bool",
    "int",
    "long",
    "real",
    "string",
    "timestamp",
    "dynamic",
    "vector(N)",
    "byte",
    "short",
    "ubyte",
    "ushort",
    "uint",
    "ulong",
    "float",
    "decimal(P,S)",
    "date",
    "time",
    "timestamp_us",
    "timestamptz",
    "binary",
    "uuid",
];

impl ColumnType {
    /// Whether the type is one of the eight that the SQL catalogs name.
    pub fn is_base(&self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Int
                | Self::Long
                | Self::Real
                | Self::String
                | Self::Timestamp
                | Self::Dynamic
                | Self::Vector(_)
        )
    }

    /// Whether values are points in time whose bounds a writer may report as the extent's time bounds.
    pub fn is_timestamp(&self) -> bool {
        matches!(self, Self::Timestamp | Self::TimestampMicros | Self::TimestampTz)
    }

    /// The Arrow type of the column in an extent.
    pub fn to_arrow(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Real => DataType::Float64,
            Self::String => DataType::Utf8,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Self::Dynamic | Self::Binary => DataType::Binary,
            Self::Vector(n) => DataType::FixedSizeList(
                Arc::new(Field::new("item", DataType::Float32, false)),
                i32::try_from(*n).unwrap_or(i32::MAX),
            ),
            Self::Byte => DataType::Int8,
            Self::Short => DataType::Int16,
            Self::UByte => DataType::UInt8,
            Self::UShort => DataType::UInt16,
            Self::UInt => DataType::UInt32,
            Self::ULong => DataType::UInt64,
            Self::Float => DataType::Float32,
            Self::Decimal(precision, scale) => {
                DataType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(i8::MAX))
            }
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::TimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Uuid => DataType::FixedSizeBinary(16),
        }
    }

    /// The type that stores an Arrow column, if one can without loss.
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 => Self::Byte,
            DataType::Int16 => Self::Short,
            DataType::Int32 => Self::Int,
            DataType::Int64 => Self::Long,
            DataType::UInt8 => Self::UByte,
            DataType::UInt16 => Self::UShort,
            DataType::UInt32 => Self::UInt,
            DataType::UInt64 => Self::ULong,
            DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Real,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::String,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Binary,
            DataType::FixedSizeBinary(16) => Self::Uuid,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => Self::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::TimestampMicros,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Self::TimestampTz,
            DataType::Date32 => Self::Date,
            DataType::Time64(TimeUnit::Microsecond) => Self::Time,
            DataType::Decimal128(precision, scale) => Self::Decimal(*precision, u8::try_from(*scale).ok()?),
            DataType::FixedSizeList(item, n) if item.data_type() == &DataType::Float32 => {
                Self::Vector(u32::try_from(*n).ok().filter(|n| *n > 0)?)
            }
            DataType::Dictionary(_, value) => Self::from_arrow(value)?,
            _ => return None,
        })
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vector(n) => return write!(f, "vector({n})"),
            Self::Decimal(precision, scale) => return write!(f, "decimal({precision},{scale})"),
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Long => "long",
            Self::Real => "real",
            Self::String => "string",
            Self::Timestamp => "timestamp",
            Self::Dynamic => "dynamic",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::UByte => "ubyte",
            Self::UShort => "ushort",
            Self::UInt => "uint",
            Self::ULong => "ulong",
            Self::Float => "float",
            Self::Date => "date",
            Self::Time => "time",
            Self::TimestampMicros => "timestamp_us",
            Self::TimestampTz => "timestamptz",
            Self::Binary => "binary",
            Self::Uuid => "uuid",
        })
    }
}

impl FromStr for ColumnType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::unsupported(
                format!("column type \"{text}\""),
                format!("is not one of {}", LOG_TYPE_NAMES.join(", ")),
            )
        };
        if let Some(inner) = text.strip_prefix("vector(").and_then(|t| t.strip_suffix(')')) {
            return match inner.trim().parse::<u32>() {
                Ok(n) if n > 0 && i32::try_from(n).is_ok() => Ok(Self::Vector(n)),
                _ => Err(unknown()),
            };
        }
        if let Some(inner) = text.strip_prefix("decimal(").and_then(|t| t.strip_suffix(')')) {
            let (precision, scale) = inner.split_once(',').ok_or_else(unknown)?;
            return match (precision.trim().parse::<u8>(), scale.trim().parse::<u8>()) {
                (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(Self::Decimal(precision, scale)),
                _ => Err(unknown()),
            };
        }
        Ok(match text {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "long" => Self::Long,
            "real" => Self::Real,
            "string" => Self::String,
            "timestamp" => Self::Timestamp,
            "dynamic" => Self::Dynamic,
            "byte" => Self::Byte,
            "short" => Self::Short,
            "ubyte" => Self::UByte,
            "ushort" => Self::UShort,
            "uint" => Self::UInt,
            "ulong" => Self::ULong,
            "float" => Self::Float,
            "date" => Self::Date,
            "time" => Self::Time,
            "timestamp_us" => Self::TimestampMicros,
            "timestamptz" => Self::TimestampTz,
            "binary" => Self::Binary,
            "uuid" => Self::Uuid,
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_has_an_arrow_type() {
        for name in LOG_TYPE_NAMES {
            let name = name.replace("(N)", "(3)").replace("(P,S)", "(18,4)");
            let parsed: ColumnType = name.parse().unwrap();
            assert_eq!(parsed.to_string(), name);
            let back = ColumnType::from_arrow(&parsed.to_arrow());
            // Dynamic is binary in the file: only the catalog tells them apart.
            let expected = if parsed == ColumnType::Dynamic { ColumnType::Binary } else { parsed.clone() };
            assert_eq!(back, Some(expected), "{name}");
            let base = BASE_TYPE_NAMES.iter().any(|b| b.replace("(N)", "(3)") == name);
            assert_eq!(parsed.is_base(), base, "{name}");
        }
    }

    #[test]
    fn names_outside_the_language_are_refused() {
        for name in [
            "",
            "datetime",
            "arrow:Date32",
            "vector(0)",
            "vector(-1)",
            "vector(99999999999)",
            "decimal(39,0)",
            "decimal(3,4)",
            "decimal(3)",
        ] {
            assert!(name.parse::<ColumnType>().is_err(), "{name}");
        }
        assert_eq!("vector( 8 )".parse::<ColumnType>().unwrap(), ColumnType::Vector(8));
    }
}
