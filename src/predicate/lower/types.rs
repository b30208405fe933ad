//! DuckDB's types by name, and constants of them.

use arrow::datatypes::TimeUnit;

use crate::predicate::{Scalar, nanos_per_unit};

/// What matters here about a DuckDB type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlType {
    /// The type of an untyped NULL.
    Null,
    /// `BOOLEAN`
    Boolean,
    /// An integer type with its smallest and largest value. `UHUGEINT` is cut at `i128::MAX`.
    Int {
        /// Smallest value.
        min: i128,
        /// Largest value.
        max: i128,
    },
    /// `FLOAT`
    Float,
    /// `DOUBLE`
    Double,
    /// `DECIMAL(width, scale)`
    Decimal {
        /// Digits in all.
        width: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `VARCHAR` with the binary collation.
    Varchar,
    /// `BLOB`
    Blob,
    /// `UUID`
    Uuid,
    /// `DATE`
    Date,
    /// `TIME` (microseconds)
    Time,
    /// `TIME_NS`
    TimeNs,
    /// `TIMESTAMP`, `TIMESTAMP_S`, `TIMESTAMP_MS`, `TIMESTAMP_NS`, `TIMESTAMP WITH TIME ZONE`, `TIMESTAMPTZ_NS`
    Timestamp {
        /// The unit it is stored in.
        unit: TimeUnit,
        /// An instant, shown in the session's time zone.
        zoned: bool,
    },
    /// `JSON`
    Json,
    /// Anything else: nested types, enums, intervals, bit strings, types of other extensions.
    Other,
}

/// `UHUGEINT` as far as this crate holds it.
const UHUGEINT: SqlType = SqlType::Int { min: 0, max: i128::MAX };

impl SqlType {
    /// The type that DuckDB's `LogicalType::ToString` writes as `name`.
    pub fn parse(name: &str) -> Self {
        let int = |min: i128, max: i128| Self::Int { min, max };
        let timestamp = |unit, zoned| Self::Timestamp { unit, zoned };
        match name {
            "NULL" | "\"NULL\"" => Self::Null,
            "BOOLEAN" => Self::Boolean,
            "TINYINT" => int(i8::MIN.into(), i8::MAX.into()),
            "SMALLINT" => int(i16::MIN.into(), i16::MAX.into()),
            "INTEGER" => int(i32::MIN.into(), i32::MAX.into()),
            "BIGINT" => int(i64::MIN.into(), i64::MAX.into()),
            "HUGEINT" => int(i128::MIN, i128::MAX),
            "UTINYINT" => int(0, u8::MAX.into()),
            "USMALLINT" => int(0, u16::MAX.into()),
            "UINTEGER" => int(0, u32::MAX.into()),
            "UBIGINT" => int(0, u64::MAX.into()),
            "UHUGEINT" => UHUGEINT,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "VARCHAR" => Self::Varchar,
            "BLOB" => Self::Blob,
            "UUID" => Self::Uuid,
            "DATE" => Self::Date,
            "TIME" => Self::Time,
            "TIME_NS" => Self::TimeNs,
            "TIMESTAMP_S" => timestamp(TimeUnit::Second, false),
            "TIMESTAMP_MS" => timestamp(TimeUnit::Millisecond, false),
            "TIMESTAMP" => timestamp(TimeUnit::Microsecond, false),
            "TIMESTAMP_NS" => timestamp(TimeUnit::Nanosecond, false),
            "TIMESTAMP WITH TIME ZONE" => timestamp(TimeUnit::Microsecond, true),
            "TIMESTAMPTZ_NS" => timestamp(TimeUnit::Nanosecond, true),
            "JSON" => Self::Json,
            _ => Self::parse_decimal(name).unwrap_or(Self::Other),
        }
    }

    fn parse_decimal(name: &str) -> Option<Self> {
        let (width, scale) = name.strip_prefix("DECIMAL(")?.strip_suffix(')')?.split_once(',')?;
        let (width, scale) = (width.trim().parse().ok()?, scale.trim().parse().ok()?);
        (scale <= width && width <= 38).then_some(Self::Decimal { width, scale })
    }

    /// Whether this is `UHUGEINT`, whose upper half has no [`Scalar`].
    pub fn is_uhugeint(self) -> bool {
        self == UHUGEINT
    }

    /// Whether a column of this type and a constant of `constant` type are compared as they are, without a conversion.
    pub fn compares_with(self, constant: Self) -> bool {
        match (self, constant) {
            (Self::Int { .. }, Self::Int { .. }) => true,
            (Self::Float | Self::Double, Self::Float | Self::Double) => true,
            (Self::Decimal { scale: a, .. }, Self::Decimal { scale: b, .. }) => a == b,
            (Self::Null | Self::Json | Self::Other, _) => false,
            (column, constant) => column == constant,
        }
    }

    /// The constant of this type that the text `value` encodes, NULL for none. `None` when it has no exact [`Scalar`].
    ///
    /// Integers are decimal; decimals are their unscaled integer; blobs are hexadecimal; dates are days, times are in their own
    /// unit since midnight, timestamps in their own unit since 1970.
    pub fn constant(self, value: Option<&str>) -> Option<Scalar> {
        let Some(value) = value else {
            return Some(Scalar::Null);
        };
        match self {
            Self::Boolean => value.parse().ok().map(Scalar::Bool),
            Self::Int { min, max } => value.parse().ok().filter(|v| (min..=max).contains(v)).map(Scalar::Int),
            // Parsed in its own precision: 0.1 as FLOAT is not 0.1 as DOUBLE.
            Self::Float => value.parse::<f32>().ok().map(|v| Scalar::Float(f64::from(v))),
            Self::Double => value.parse().ok().map(Scalar::Float),
            Self::Decimal { scale, .. } => value.parse().ok().map(|value| Scalar::Decimal { value, scale }),
            Self::Varchar => Some(Scalar::Str(value.to_owned())),
            Self::Blob => hex(value.as_bytes()).map(Scalar::Bytes),
            // DuckDB orders UUIDs like their sixteen bytes.
            Self::Uuid => hex(value.replace('-', "").as_bytes()).filter(|b| b.len() == 16).map(Scalar::Bytes),
            Self::Date => value.parse::<i32>().ok().map(|days| Scalar::Date(days.into())),
            Self::Time => value.parse::<i64>().ok().and_then(|micros| micros.checked_mul(1_000)).map(Scalar::TimeNs),
            Self::TimeNs => value.parse().ok().map(Scalar::TimeNs),
            Self::Timestamp { unit, .. } => {
                let ticks = value.parse::<i64>().ok()?;
                Some(Scalar::TimestampNs(i128::from(ticks) * i128::from(nanos_per_unit(unit))))
            }
            Self::Null | Self::Json | Self::Other => None,
        }
    }
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(name: &str, value: &str) -> Option<Scalar> {
        SqlType::parse(name).constant(Some(value))
    }

    #[test]
    fn constants_are_read_exactly_or_not_at_all() {
        assert_eq!(constant("UBIGINT", "18446744073709551615"), Some(Scalar::Int(u64::MAX.into())));
        assert_eq!(constant("TINYINT", "128"), None);
        assert_eq!(constant("UHUGEINT", "340282366920938463463374607431768211455"), None);
        assert_eq!(constant("FLOAT", "0.1"), Some(Scalar::Float(f64::from(0.1f32))));
        assert_eq!(constant("DOUBLE", "-inf"), Some(Scalar::Float(f64::NEG_INFINITY)));
        assert!(constant("DOUBLE", "nan").is_some_and(|v| v.is_nan()));
        assert_eq!(constant("DECIMAL(10,2)", "-150"), Some(Scalar::Decimal { value: -150, scale: 2 }));
        assert_eq!(constant("BLOB", "00fF"), Some(Scalar::Bytes(vec![0, 255])));
        assert_eq!(constant("BLOB", "0"), None);
        assert_eq!(constant("BLOB", "zz"), None);
        assert_eq!(
            constant("UUID", "00000000-0000-0000-0000-0000000000ff").map(|v| v == Scalar::Bytes(vec![0; 16])),
            Some(false)
        );
        assert_eq!(constant("UUID", "00"), None);
        assert_eq!(
            constant("TIMESTAMP_S", "9223372036854775807"),
            Some(Scalar::TimestampNs(i128::from(i64::MAX) * 1_000_000_000))
        );
        assert_eq!(constant("TIMESTAMP WITH TIME ZONE", "1"), Some(Scalar::TimestampNs(1_000)));
        assert_eq!(constant("TIMESTAMPTZ_NS", "1"), Some(Scalar::TimestampNs(1)));
        assert_eq!(constant("TIME", "1"), Some(Scalar::TimeNs(1_000)));
        assert_eq!(constant("TIME_NS", "1"), Some(Scalar::TimeNs(1)));
        assert_eq!(constant("ENUM('a', 'b')", "a"), None);
        assert_eq!(constant("INTERVAL", "1 day"), None);
        assert_eq!(SqlType::parse("STRUCT(a INTEGER)").constant(None), Some(Scalar::Null));
        assert_eq!(SqlType::parse("DECIMAL(5,9)"), SqlType::Other);
    }
}
