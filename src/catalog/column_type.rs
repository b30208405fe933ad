//! The type language of the catalogs: how the type of a column is written down.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};

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
    /// `hugeint`: 128 bits, signed.
    HugeInt,
    /// `uhugeint`: 128 bits, unsigned.
    UHugeInt,
    /// `float`: 32-bit IEEE float.
    Float,
    /// `decimal(P,S)`: P digits in all (1 to 38), S of them after the point.
    Decimal(u8, u8),
    /// `date`: days since the Unix epoch.
    Date,
    /// `time`: microseconds since midnight.
    Time,
    /// `time_ns`: nanoseconds since midnight.
    TimeNanos,
    /// `timetz`: microseconds since midnight and an offset from UTC, in DuckDB's 8 bytes.
    TimeTz,
    /// `timestamp_s`: seconds since the Unix epoch, no zone.
    TimestampSeconds,
    /// `timestamp_ms`: milliseconds since the Unix epoch, no zone.
    TimestampMillis,
    /// `timestamp_us`: microseconds since the Unix epoch, no zone.
    TimestampMicros,
    /// `timestamptz`: microseconds since the Unix epoch, an instant.
    TimestampTz,
    /// `timestamptz_ns`: nanoseconds since the Unix epoch, an instant.
    TimestampTzNanos,
    /// `interval`: months, days and nanoseconds.
    Interval,
    /// `binary`: bytes.
    Binary,
    /// `uuid`: 16 bytes, big-endian.
    Uuid,
    /// `bit`: a string of bits in DuckDB's bytes.
    Bit,
    /// `bignum`: a whole number of any size in DuckDB's bytes.
    BigNum,
    /// `list(T)`: any number of values.
    List(Box<ColumnType>),
    /// `array(T,N)`: N values. N floats are a `vector(N)`.
    Array(Box<ColumnType>, u32),
    /// `struct("name" T,…)`: named fields.
    Struct(Vec<(String, ColumnType)>),
    /// `map(K,V)`: keys and values.
    Map(Box<ColumnType>, Box<ColumnType>),
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
    "hugeint",
    "uhugeint",
    "float",
    "decimal(P,S)",
    "date",
    "time",
    "time_ns",
    "timetz",
    "timestamp_s",
    "timestamp_ms",
    "timestamp_us",
    "timestamptz",
    "timestamptz_ns",
    "interval",
    "binary",
    "uuid",
    "bit",
    "bignum",
    "list(T)",
    "array(T,N)",
    "struct(\"name\" T,…)",
    "map(K,V)",
];

/// The types without parameters and their names.
const PLAIN: &[(&str, ColumnType)] = &[
    ("bool", ColumnType::Bool),
    ("int", ColumnType::Int),
    ("long", ColumnType::Long),
    ("real", ColumnType::Real),
    ("string", ColumnType::String),
    ("timestamp", ColumnType::Timestamp),
    ("dynamic", ColumnType::Dynamic),
    ("byte", ColumnType::Byte),
    ("short", ColumnType::Short),
    ("ubyte", ColumnType::UByte),
    ("ushort", ColumnType::UShort),
    ("uint", ColumnType::UInt),
    ("ulong", ColumnType::ULong),
    ("hugeint", ColumnType::HugeInt),
    ("uhugeint", ColumnType::UHugeInt),
    ("float", ColumnType::Float),
    ("date", ColumnType::Date),
    ("time", ColumnType::Time),
    ("time_ns", ColumnType::TimeNanos),
    ("timetz", ColumnType::TimeTz),
    ("timestamp_s", ColumnType::TimestampSeconds),
    ("timestamp_ms", ColumnType::TimestampMillis),
    ("timestamp_us", ColumnType::TimestampMicros),
    ("timestamptz", ColumnType::TimestampTz),
    ("timestamptz_ns", ColumnType::TimestampTzNanos),
    ("interval", ColumnType::Interval),
    ("binary", ColumnType::Binary),
    ("uuid", ColumnType::Uuid),
    ("bit", ColumnType::Bit),
    ("bignum", ColumnType::BigNum),
];

/// Types within types beyond this are refused: they are read by functions that call themselves.
const MAX_DEPTH: usize = 64;

/// Arrow's key for the name of an extension type, and that for what the extension adds to it.
const EXTENSION: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

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
        matches!(self, Self::TimestampSeconds | Self::TimestampMillis | Self::TimestampMicros | Self::TimestampTz)
            || self.has_nanoseconds()
    }

    /// Whether values are points in time in nanoseconds.
    pub fn has_nanoseconds(&self) -> bool {
        matches!(self, Self::Timestamp | Self::TimestampTzNanos)
    }

    /// The Arrow field of a column `name` of this type, with the extension type that tells a reader what plain Arrow does not.
    pub fn to_field(&self, name: &str) -> Field {
        let opaque = |type_name: &str| {
            Some(("arrow.opaque", serde_json::json!({"vendor_name": "DuckDB", "type_name": type_name}).to_string()))
        };
        let timestamp = |unit| DataType::Timestamp(unit, None);
        let (data_type, extension) = match self {
            Self::Bool => (DataType::Boolean, None),
            Self::Int => (DataType::Int32, None),
            Self::Long => (DataType::Int64, None),
            Self::Real => (DataType::Float64, None),
            Self::String => (DataType::Utf8, None),
            Self::Timestamp => (timestamp(TimeUnit::Nanosecond), None),
            Self::Dynamic => (DataType::Utf8, Some(("arrow.json", String::new()))),
            Self::Vector(n) => (fixed_size_list(Field::new("item", DataType::Float32, false), *n), None),
            Self::Byte => (DataType::Int8, None),
            Self::Short => (DataType::Int16, None),
            Self::UByte => (DataType::UInt8, None),
            Self::UShort => (DataType::UInt16, None),
            Self::UInt => (DataType::UInt32, None),
            Self::ULong => (DataType::UInt64, None),
            Self::HugeInt => (DataType::FixedSizeBinary(16), opaque("hugeint")),
            Self::UHugeInt => (DataType::FixedSizeBinary(16), opaque("uhugeint")),
            Self::Float => (DataType::Float32, None),
            Self::Decimal(precision, scale) => {
                (DataType::Decimal128(*precision, i8::try_from(*scale).unwrap_or(i8::MAX)), None)
            }
            Self::Date => (DataType::Date32, None),
            Self::Time => (DataType::Time64(TimeUnit::Microsecond), None),
            Self::TimeNanos => (DataType::Time64(TimeUnit::Nanosecond), None),
            Self::TimeTz => (DataType::FixedSizeBinary(8), opaque("time_tz")),
            Self::TimestampSeconds => (timestamp(TimeUnit::Second), None),
            Self::TimestampMillis => (timestamp(TimeUnit::Millisecond), None),
            Self::TimestampMicros => (timestamp(TimeUnit::Microsecond), None),
            Self::TimestampTz => (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), None),
            Self::TimestampTzNanos => (DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), None),
            Self::Interval => (DataType::Interval(IntervalUnit::MonthDayNano), None),
            Self::Binary => (DataType::Binary, None),
            Self::Uuid => (DataType::FixedSizeBinary(16), Some(("arrow.uuid", String::new()))),
            Self::Bit => (DataType::Binary, opaque("bit")),
            Self::BigNum => (DataType::Binary, opaque("bignum")),
            Self::List(item) => (DataType::List(Arc::new(item.to_field("item"))), None),
            Self::Array(item, n) => (fixed_size_list(item.to_field("item"), *n), None),
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(name, field)| field.to_field(name));
                (DataType::Struct(fields.collect()), None)
            }
            Self::Map(key, value) => {
                let entries = [key.to_field("key").with_nullable(false), value.to_field("value")];
                let entries = DataType::Struct(entries.into_iter().collect());
                (DataType::Map(Arc::new(Field::new("entries", entries, false)), false), None)
            }
        };
        let field = Field::new(name, data_type, true);
        match extension {
            None => field,
            Some((name, metadata)) => {
                let pairs = [(EXTENSION.to_owned(), name.to_owned()), (EXTENSION_METADATA.to_owned(), metadata)];
                field.with_metadata(HashMap::from(pairs))
            }
        }
    }

    /// The type that stores an Arrow column, if one can without loss. A dictionary is stored as its values.
    pub fn from_field(field: &Field) -> Option<Self> {
        Self::from_nested(field, MAX_DEPTH)
    }

    fn from_nested(field: &Field, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let child = |field: &FieldRef| Self::from_nested(field, depth).map(Box::new);
        if let Some(extension) = field.metadata().get(EXTENSION) {
            return match extension.as_str() {
                "arrow.json" => Some(Self::Dynamic),
                "arrow.uuid" => Some(Self::Uuid),
                "arrow.bool8" => Some(Self::Bool),
                "arrow.opaque" => Self::from_opaque(field.metadata().get(EXTENSION_METADATA)?),
                _ => None,
            };
        }
        Some(match field.data_type() {
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
            DataType::Timestamp(TimeUnit::Second, None) => Self::TimestampSeconds,
            DataType::Timestamp(TimeUnit::Millisecond, None) => Self::TimestampMillis,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::TimestampMicros,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => Self::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Self::TimestampTz,
            DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => Self::TimestampTzNanos,
            DataType::Date32 => Self::Date,
            DataType::Time64(TimeUnit::Microsecond) => Self::Time,
            DataType::Time64(TimeUnit::Nanosecond) => Self::TimeNanos,
            DataType::Interval(IntervalUnit::MonthDayNano) => Self::Interval,
            DataType::Decimal128(precision, scale) => Self::Decimal(*precision, u8::try_from(*scale).ok()?),
            DataType::List(item) | DataType::LargeList(item) => Self::List(child(item)?),
            DataType::FixedSizeList(item, n) => {
                let n = u32::try_from(*n).ok().filter(|n| *n > 0)?;
                match *child(item)? {
                    Self::Float => Self::Vector(n),
                    item => Self::Array(Box::new(item), n),
                }
            }
            DataType::Struct(fields) if !fields.is_empty() => {
                let fields = fields.iter().map(|field| Some((field.name().clone(), *child(field)?)));
                Self::Struct(fields.collect::<Option<_>>()?)
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) => match &**pair {
                    [key, value] => Self::Map(child(key)?, child(value)?),
                    _ => return None,
                },
                _ => return None,
            },
            DataType::Dictionary(_, value) => Self::from_nested(&Field::new("", value.as_ref().clone(), true), depth)?,
            _ => return None,
        })
    }

    /// One of DuckDB's own types, by what it says of itself.
    fn from_opaque(metadata: &str) -> Option<Self> {
        let said: serde_json::Value = serde_json::from_str(metadata).ok()?;
        if said.get("vendor_name")?.as_str()? != "DuckDB" {
            return None;
        }
        match said.get("type_name")?.as_str()? {
            "hugeint" => Some(Self::HugeInt),
            "uhugeint" => Some(Self::UHugeInt),
            "time_tz" => Some(Self::TimeTz),
            "bit" => Some(Self::Bit),
            "bignum" => Some(Self::BigNum),
            _ => None,
        }
    }
}

fn fixed_size_list(item: Field, n: u32) -> DataType {
    DataType::FixedSizeList(Arc::new(item), i32::try_from(n).unwrap_or(i32::MAX))
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(n) => write!(f, "vector({n})"),
            Self::Decimal(precision, scale) => write!(f, "decimal({precision},{scale})"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Array(item, n) => write!(f, "array({item},{n})"),
            Self::Map(key, value) => write!(f, "map({key},{value})"),
            Self::Struct(fields) => {
                f.write_str("struct(")?;
                for (i, (name, field)) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}\"{}\" {field}", name.replace('"', "\"\""))?;
                }
                f.write_str(")")
            }
            plain => f.write_str(PLAIN.iter().find(|(_, other)| other == plain).map_or("", |(name, _)| *name)),
        }
    }
}

impl FromStr for ColumnType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parser = Parser { rest: text };
        parser.column_type(MAX_DEPTH).filter(|_| parser.rest.is_empty()).ok_or_else(|| {
            Error::unsupported(
                format!("column type \"{text}\""),
                format!("is not one of {}", LOG_TYPE_NAMES.join(", ")),
            )
        })
    }
}

/// Reads a type from the front of a text. `None`: there is none there.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn take(&mut self, symbol: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(symbol)?.trim_start();
        Some(())
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        digits.parse().ok()
    }

    fn quoted(&mut self) -> Option<String> {
        let mut name = String::new();
        self.rest = self.rest.strip_prefix('"')?;
        loop {
            let (part, rest) = self.rest.split_once('"')?;
            name.push_str(part);
            self.rest = rest;
            match rest.strip_prefix('"') {
                Some(rest) => {
                    name.push('"');
                    self.rest = rest;
                }
                None => return Some(name),
            }
        }
    }

    fn column_type(&mut self, depth: usize) -> Option<ColumnType> {
        let depth = depth.checked_sub(1)?;
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        if let Some((_, plain)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
            return Some(plain.clone());
        }
        self.take('(')?;
        let found = match name {
            "vector" => ColumnType::Vector(self.number().filter(|n| is_length(*n))?),
            "decimal" => {
                let precision = self.number().filter(|p| (1..=38).contains(p))?;
                self.take(',')?;
                ColumnType::Decimal(precision, self.number().filter(|scale| *scale <= precision)?)
            }
            "list" => ColumnType::List(Box::new(self.column_type(depth)?)),
            "array" => {
                let item = Box::new(self.column_type(depth)?);
                self.take(',')?;
                ColumnType::Array(item, self.number().filter(|n| is_length(*n))?)
            }
            "map" => {
                let key = Box::new(self.column_type(depth)?);
                self.take(',')?;
                ColumnType::Map(key, Box::new(self.column_type(depth)?))
            }
            "struct" => {
                let mut fields = Vec::new();
                loop {
                    let name = self.quoted()?;
                    self.rest = self.rest.trim_start();
                    fields.push((name, self.column_type(depth)?));
                    if self.take(',').is_none() {
                        break ColumnType::Struct(fields);
                    }
                }
            }
            _ => return None,
        };
        self.take_last(')')?;
        Some(found)
    }

    /// As `take`, without the spaces after it.
    fn take_last(&mut self, symbol: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(symbol)?;
        Some(())
    }
}

/// Whether Arrow has fixed-size lists of that length.
fn is_length(n: u32) -> bool {
    n > 0 && i32::try_from(n).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A type of each name.
    fn samples() -> Vec<ColumnType> {
        let examples = [
            ("(N)", "(3)"),
            ("(P,S)", "(18,4)"),
            ("list(T)", "list(list(uuid))"),
            ("(T,N)", "(dynamic,2)"),
            ("(\"name\" T,…)", "(\"a\" int,\"b \"\"c\"\", (\" map(string,decimal(3,1)))"),
            ("(K,V)", "(string,list(struct(\"v\" vector(4))))"),
        ];
        let fill = |name: &str| examples.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
        LOG_TYPE_NAMES.iter().map(|name| fill(name).parse().unwrap()).collect()
    }

    #[test]
    fn every_name_reads_back_and_has_an_arrow_type() {
        assert_eq!(samples().len(), LOG_TYPE_NAMES.len());
        for (sample, name) in samples().into_iter().zip(LOG_TYPE_NAMES) {
            assert_eq!(sample.to_string().parse::<ColumnType>().unwrap(), sample, "{name}");
            assert_eq!(ColumnType::from_field(&sample.to_field("c")), Some(sample.clone()), "{name}");
            assert_eq!(sample.is_base(), BASE_TYPE_NAMES.contains(name), "{name}");
            for nested in [
                ColumnType::List(Box::new(sample.clone())),
                ColumnType::Struct(vec![("\"x\"".to_owned(), sample.clone()), (String::new(), ColumnType::Bool)]),
                ColumnType::Map(Box::new(sample.clone()), Box::new(sample.clone())),
            ] {
                assert_eq!(nested.to_string().parse::<ColumnType>().unwrap(), nested);
                assert_eq!(ColumnType::from_field(&nested.to_field("c")), Some(nested.clone()), "{nested}");
                assert!(!nested.is_base());
            }
        }
        assert_eq!(ColumnType::List(Box::new(ColumnType::Int)).to_string(), "list(int)");
        let pair =
            ColumnType::Struct(vec![("a".to_owned(), ColumnType::Int), ("B".to_owned(), ColumnType::Decimal(9, 2))]);
        assert_eq!(pair.to_string(), "struct(\"a\" int,\"B\" decimal(9,2))");
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
            "list",
            "list()",
            "list(int",
            "list(int))",
            "list(int) ",
            "array(int,0)",
            "struct()",
            "struct(a int)",
            "struct(\"a\")",
            "struct(\"a int)",
            "map(int)",
            "int(3)",
        ] {
            assert!(name.parse::<ColumnType>().is_err(), "{name}");
        }
        assert_eq!("vector( 8 )".parse::<ColumnType>().unwrap(), ColumnType::Vector(8));
        assert_eq!("decimal( 8 , 2 )".parse::<ColumnType>().unwrap(), ColumnType::Decimal(8, 2));
    }

    #[test]
    fn types_within_types_have_an_end() {
        let nested = |depth: usize| format!("{}int{}", "list(".repeat(depth), ")".repeat(depth));
        assert!(nested(MAX_DEPTH - 1).parse::<ColumnType>().is_ok());
        for depth in [MAX_DEPTH, 1_000_000] {
            assert!(nested(depth).parse::<ColumnType>().is_err());
        }
        let deep = (0..MAX_DEPTH).fold(Field::new("i", DataType::Int32, true), |item, _| {
            Field::new("l", DataType::List(Arc::new(item)), true)
        });
        assert_eq!(ColumnType::from_field(&deep), None);
    }

    #[test]
    fn extensions_of_others_are_not_taken_for_plain_types() {
        let with = |data_type, name: &str, metadata: &str| {
            let pairs = [(EXTENSION.to_owned(), name.to_owned()), (EXTENSION_METADATA.to_owned(), metadata.to_owned())];
            ColumnType::from_field(&Field::new("c", data_type, true).with_metadata(HashMap::from(pairs)))
        };
        assert_eq!(with(DataType::Int8, "arrow.bool8", ""), Some(ColumnType::Bool));
        let bits = r#"{"type_name":"bit","vendor_name":"DuckDB"}"#;
        assert_eq!(with(DataType::Binary, "arrow.opaque", bits), Some(ColumnType::Bit));
        for (name, metadata) in [
            ("geoarrow.wkb", "{}"),
            ("arrow.opaque", ""),
            ("arrow.opaque", "[1]"),
            ("arrow.opaque", r#"{"type_name":"bit","vendor_name":"other"}"#),
            ("arrow.opaque", r#"{"type_name":"geometry","vendor_name":"DuckDB"}"#),
        ] {
            assert_eq!(with(DataType::Binary, name, metadata), None, "{name} {metadata}");
        }
    }
}
