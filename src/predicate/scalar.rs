//! Constants and bounds, in the value domains in which comparisons are exact.

/// A constant of a predicate or a bound of a statistic.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// NULL of any type.
    Null,
    /// A boolean.
    Bool(bool),
    /// Any integer type up to 128 bits, and nothing else. (`UHUGEINT` beyond `i128::MAX` is unknown.)
    Int(i128),
    /// FLOAT or DOUBLE. NaN is the greatest value and equals itself; -0.0 equals +0.0.
    Float(f64),
    /// `value / 10^scale`.
    Decimal {
        /// The unscaled value.
        value: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// UTF-8 text, compared bytewise.
    Str(String),
    /// Bytes, compared bytewise.
    Bytes(Vec<u8>),
    /// A timestamp of any unit, with or without zone, as nanoseconds since the Unix epoch. Infinities of DuckDB are the
    /// extreme values of the stored unit, scaled: they stay beyond every finite value.
    TimestampNs(i128),
    /// Days since the Unix epoch.
    Date(i64),
    /// Nanoseconds since midnight.
    TimeNs(i64),
}
