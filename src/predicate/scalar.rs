//! Constants and bounds, in the value domains in which comparisons are exact.

use std::cmp::Ordering;
use std::mem::discriminant;

/// A constant of a predicate or a bound of a statistic.
///
/// `==` compares representations (a float NaN differs from itself, `1` differs from `1.0`): use [`Scalar::compare`] for the
/// order of values.
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

impl Scalar {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether this is a floating-point NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Self::Float(f) if f.is_nan())
    }

    /// The text of a string, `None` for anything else.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Whether both are values of one domain: the same kind and, for decimals, the same scale. A bound of another kind than
    /// the constant means that the file stores another type than the table shows, and that the engine converts (and may
    /// round) between them: such a bound says nothing.
    pub fn same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Decimal { scale: a, .. }, Self::Decimal { scale: b, .. }) => a == b,
            _ => discriminant(self) == discriminant(other),
        }
    }

    /// The order of two values, or `None` when they cannot be compared exactly: NULL, different kinds, or a number against a
    /// float that the engine would round first.
    ///
    /// Integers and decimals compare as the rational numbers they are. A float compares with an integer or a decimal only if
    /// that number has an exact double; infinities and NaN compare with every number. Floats are in DuckDB's order.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        use Scalar::{Bool, Bytes, Date, Decimal, Float, Int, Str, TimeNs, TimestampNs};
        match (self, other) {
            (Bool(a), Bool(b)) => Some(a.cmp(b)),
            (Int(a), Int(b)) | (TimestampNs(a), TimestampNs(b)) => Some(a.cmp(b)),
            (Float(a), Float(b)) => Some(compare_floats(*a, *b)),
            (Str(a), Str(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Bytes(a), Bytes(b)) => Some(a.cmp(b)),
            (Date(a), Date(b)) | (TimeNs(a), TimeNs(b)) => Some(a.cmp(b)),
            (Decimal { value: a, scale: p }, Decimal { value: b, scale: q }) => Some(compare_decimals(*a, *p, *b, *q)),
            (Int(a), Decimal { value, scale }) => Some(compare_decimals(*a, 0, *value, *scale)),
            (Decimal { value, scale }, Int(b)) => Some(compare_decimals(*value, *scale, *b, 0)),
            (Int(a), Float(b)) => compare_number_with_float(|| exact_double(*a), *b),
            (Decimal { value, scale }, Float(b)) => compare_number_with_float(|| exact_decimal(*value, *scale), *b),
            (Float(_), Int(_) | Decimal { .. }) => other.compare(self).map(Ordering::reverse),
            _ => None,
        }
    }
}

/// DuckDB's order of floating-point values: NaN equals itself and exceeds everything, both zeros are equal.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

/// Compares `a / 10^p` with `b / 10^q` exactly.
fn compare_decimals(a: i128, p: u8, b: i128, q: u8) -> Ordering {
    // Scale up the side with fewer digits. If that overflows, its magnitude exceeds every i128 and its sign decides.
    match p.cmp(&q) {
        Ordering::Equal => a.cmp(&b),
        Ordering::Less => match scale_up(a, q - p) {
            Some(a) => a.cmp(&b),
            None => a.cmp(&0),
        },
        Ordering::Greater => match scale_up(b, p - q) {
            Some(b) => a.cmp(&b),
            None => 0.cmp(&b),
        },
    }
}

fn scale_up(value: i128, digits: u8) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    10i128.checked_pow(u32::from(digits)).and_then(|factor| value.checked_mul(factor))
}

fn compare_number_with_float(exact: impl Fn() -> Option<f64>, float: f64) -> Option<Ordering> {
    if float.is_nan() || float == f64::INFINITY {
        Some(Ordering::Less)
    } else if float == f64::NEG_INFINITY {
        Some(Ordering::Greater)
    } else {
        exact().map(|number| compare_floats(number, float))
    }
}

/// The double that equals `value`, if there is one.
pub fn exact_double(value: i128) -> Option<f64> {
    if value == 0 {
        return Some(0.0);
    }
    let shift = value.trailing_zeros();
    let mantissa = u64::try_from(value.unsigned_abs() >> shift).ok()?;
    if mantissa > 1 << 53 {
        return None;
    }
    let high = u32::try_from(mantissa >> 32).ok()?;
    let low = u32::try_from(mantissa & u64::from(u32::MAX)).ok()?;
    let magnitude = f64::from(high) * 4_294_967_296.0 + f64::from(low);
    let scaled = magnitude * 2f64.powi(i32::try_from(shift).ok()?);
    Some(if value < 0 { -scaled } else { scaled })
}

/// The double that equals `value / 10^scale`, if there is one that DuckDB's own conversion (a division of two doubles) is
/// certain to give: both operands must be exact, hence at most 2^53 and 10^22.
fn exact_decimal(value: i128, scale: u8) -> Option<f64> {
    if value.unsigned_abs() > 1 << 53 || scale > 22 {
        return None;
    }
    // value / 10^s = (value / 5^s) / 2^s: a dyadic fraction only if 5^s divides the value.
    let fives = 5i128.checked_pow(u32::from(scale))?;
    if value % fives != 0 {
        return None;
    }
    exact_double(value / fives).map(|quotient| quotient / 2f64.powi(i32::from(scale)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{Equal, Greater, Less};

    fn dec(value: i128, scale: u8) -> Scalar {
        Scalar::Decimal { value, scale }
    }

    #[test]
    fn integers_compare_over_the_whole_128_bits() {
        assert_eq!(Scalar::Int(-1).compare(&Scalar::Int(i128::from(u64::MAX))), Some(Less));
        assert_eq!(Scalar::Int(i128::MAX).compare(&Scalar::Int(i128::MIN)), Some(Greater));
    }

    #[test]
    fn integers_and_decimals_compare_as_rationals() {
        assert_eq!(Scalar::Int(5).compare(&dec(500, 2)), Some(Equal));
        assert_eq!(Scalar::Int(5).compare(&dec(501, 2)), Some(Less));
        assert_eq!(dec(-501, 2).compare(&Scalar::Int(-5)), Some(Less));
        assert_eq!(dec(15, 1).compare(&dec(1500, 3)), Some(Equal));
        assert_eq!(dec(1, 38).compare(&dec(0, 0)), Some(Greater));
        assert_eq!(dec(0, 200).compare(&dec(0, 0)), Some(Equal));
        assert_eq!(Scalar::Int(i128::MAX).compare(&dec(i128::MAX, 1)), Some(Greater));
        assert_eq!(Scalar::Int(i128::MIN).compare(&dec(i128::MIN, 1)), Some(Less));
        assert_eq!(dec(i128::MAX, 1).compare(&Scalar::Int(i128::MAX)), Some(Less));
        assert_eq!(dec(1, 255).compare(&Scalar::Int(1)), Some(Less));
    }

    #[test]
    fn decimals_agree_with_cross_multiplication() {
        for a in -30i128..30 {
            for b in -30i128..30 {
                for p in 0..3u8 {
                    for q in 0..3u8 {
                        let expected = (a * 10i128.pow(u32::from(q))).cmp(&(b * 10i128.pow(u32::from(p))));
                        assert_eq!(dec(a, p).compare(&dec(b, q)), Some(expected));
                    }
                }
            }
        }
    }

    #[test]
    fn floats_are_in_duckdbs_order() {
        let f = Scalar::Float;
        assert_eq!(f(f64::NAN).compare(&f(f64::NAN)), Some(Equal));
        assert_eq!(f(-f64::NAN).compare(&f(f64::INFINITY)), Some(Greater));
        assert_eq!(f(-0.0).compare(&f(0.0)), Some(Equal));
        assert_eq!(f(f64::NEG_INFINITY).compare(&f(f64::MIN)), Some(Less));
    }

    #[test]
    fn numbers_against_floats_only_when_exact() {
        let two53 = 1i128 << 53;
        assert_eq!(Scalar::Int(two53).compare(&Scalar::Float(9_007_199_254_740_992.0)), Some(Equal));
        assert_eq!(Scalar::Int(two53 + 1).compare(&Scalar::Float(9_007_199_254_740_992.0)), None);
        assert_eq!(Scalar::Int(two53 + 2).compare(&Scalar::Float(9_007_199_254_740_992.0)), Some(Greater));
        assert_eq!(Scalar::Int(i128::MIN).compare(&Scalar::Float(-(2f64.powi(127)))), Some(Equal));
        assert_eq!(Scalar::Int(i128::MAX).compare(&Scalar::Float(0.0)), None);
        assert_eq!(Scalar::Int(i128::MAX).compare(&Scalar::Float(f64::NAN)), Some(Less));
        assert_eq!(Scalar::Float(f64::NEG_INFINITY).compare(&Scalar::Int(i128::MIN)), Some(Less));
        assert_eq!(dec(15, 1).compare(&Scalar::Float(1.5)), Some(Equal));
        assert_eq!(dec(1, 1).compare(&Scalar::Float(0.1)), None);
        assert_eq!(Scalar::Float(2.0).compare(&Scalar::Int(-3)), Some(Greater));
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "the reference is the hardware's conversion")]
    fn exact_double_agrees_with_the_hardware() {
        for base in [0i128, 1, 3, 1 << 52, 1 << 53, 1 << 63, 1 << 100, i128::from(i64::MAX), i128::from(u64::MAX)] {
            for value in (-70..70).flat_map(|d| [base + d, -base + d]) {
                let rounded = value as f64;
                #[expect(clippy::cast_possible_truncation, reason = "magnitudes stay far below 2^127")]
                let exact = rounded as i128 == value;
                assert_eq!(exact_double(value), exact.then_some(rounded), "{value}");
            }
        }
    }

    #[test]
    fn other_kinds_compare_within_themselves_only() {
        assert_eq!(Scalar::Str("é".into()).compare(&Scalar::Str("z".into())), Some(Greater));
        assert_eq!(Scalar::Str(String::new()).compare(&Scalar::Str("\0".into())), Some(Less));
        assert_eq!(Scalar::Bytes(vec![0xff]).compare(&Scalar::Bytes(vec![0xff, 0])), Some(Less));
        assert_eq!(Scalar::Bool(false).compare(&Scalar::Bool(true)), Some(Less));
        let kinds = [
            Scalar::Null,
            Scalar::Bool(true),
            Scalar::Str("1".into()),
            Scalar::Bytes(vec![1]),
            Scalar::TimestampNs(1),
            Scalar::Date(1),
            Scalar::TimeNs(1),
            Scalar::Int(1),
        ];
        for (i, a) in kinds.iter().enumerate() {
            for (j, b) in kinds.iter().enumerate() {
                assert_eq!(a.compare(b), (i == j && i > 0).then_some(Equal), "{a:?} {b:?}");
                assert_eq!(a.same_kind(b), i == j);
            }
        }
        assert!(!dec(1, 1).same_kind(&dec(1, 2)));
    }
}
