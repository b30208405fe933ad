//! Comparisons of a converted column, rewritten as comparisons of the column itself.
//!
//! DuckDB often compares `CAST(column AS wider type)` with a constant of that type. Where the conversion is monotone, the values
//! that satisfy the comparison are one range of the column's own type, and its ends are found by bisection over the conversion
//! itself. Nothing is ever rounded towards a guess: a conversion that is not listed here leaves the comparison unknown.
//!
//! Conversions of dates and timestamps to a narrower range raise an error for values outside it. Rows with such values make the
//! query fail when they are read, so it does not matter what is concluded about them (DuckDB's own rewriting drops the error in
//! the same way). `TRY_CAST` makes them NULL instead, so it is accepted only where the conversion cannot fail.

use std::cmp::Ordering;

use arrow::datatypes::TimeUnit;

use super::types::SqlType;
use crate::predicate::simplify::{not_null_or_null, null_or_false};
use crate::predicate::{BlockPredicate, CompareOp, Scalar, nanos_per_unit};

const DAY_NANOS: i128 = 86_400_000_000_000;
const DAY_MICROS: i128 = 86_400_000_000;
/// DuckDB's infinite timestamps are `±i64::MAX` in the unit of the type, and its infinite dates `±i32::MAX` days.
const INFINITE_TICKS: i128 = 9_223_372_036_854_775_807;
const INFINITE_DAYS: i128 = 2_147_483_647;
/// No decimal has a larger magnitude: 38 digits.
const DECIMAL_LIMIT: i128 = 10i128.pow(38);

/// How comparisons of a converted column carry over to the column.
pub enum Pullback {
    /// The conversion changes nothing about order and equality: the same constant serves.
    Identity,
    /// The conversion never decreases.
    Monotone(Monotone),
}

/// A non-decreasing conversion from a range of integers that stand for the column's values.
pub struct Monotone {
    /// Smallest and largest of the integers.
    domain: (i128, i128),
    /// The converted value.
    image: Box<dyn Fn(i128) -> Scalar>,
    /// The column's value.
    value: Box<dyn Fn(i128) -> Scalar>,
    /// What the conversion makes of the one value below the domain, `i64::MIN` of a timestamp, which DuckDB takes for finite
    /// although minus infinity is larger. Only constants above this are safe from it.
    out_of_order: Option<Scalar>,
}

impl Pullback {
    /// The pullback along `CAST(source AS target)` (`TRY_CAST` if `can_fail_silently`), or why there is none.
    pub fn new(source: SqlType, target: SqlType, can_fail_silently: bool) -> Result<Self, String> {
        Self::find(source, target, can_fail_silently)
            .ok_or_else(|| format!("the conversion of {source:?} to {target:?} is not known to be exact and monotone"))
    }

    fn find(source: SqlType, target: SqlType, can_fail_silently: bool) -> Option<Self> {
        use SqlType::{Date, Decimal, Double, Float, Int, Json, Null, Other, Time, TimeNs, Timestamp};
        match (source, target) {
            (Null | Json | Other, _) => None,
            (source, target) if source == target => Some(Self::Identity),
            (source, _) if source.is_uhugeint() => None,
            (Int { min, max }, Int { min: low, max: high }) => (low <= min && max <= high).then_some(Self::Identity),
            (Int { min, max }, Decimal { width, scale }) => {
                let whole = 10i128.checked_pow(u32::from(width - scale))?;
                (min > -whole && max < whole).then(|| Self::integers(min, max, Scalar::Int))
            }
            (Int { min, max }, Double) => {
                is_64_bit(min, max).then(|| Self::integers(min, max, |v| Scalar::Float(nearest_double(v))))
            }
            (Int { min, max }, Float) => {
                is_64_bit(min, max).then(|| Self::integers(min, max, |v| Scalar::Float(f64::from(nearest_float(v)))))
            }
            (Float, Double) | (Time, TimeNs) => Some(Self::Identity),
            (Decimal { width, scale }, Decimal { width: new_width, scale: new_scale }) => {
                let total = new_scale >= scale && new_width - new_scale >= width - scale;
                total.then(|| {
                    let value = move |value| Scalar::Decimal { value, scale };
                    Self::monotone((-DECIMAL_LIMIT, DECIMAL_LIMIT), value, value, None)
                })
            }
            (Date, Timestamp { unit, zoned: false }) if !can_fail_silently => {
                let image =
                    move |days: i128| timestamp(unit, days * DAY_NANOS, days == INFINITE_DAYS, days == -INFINITE_DAYS);
                Some(Self::monotone((-INFINITE_DAYS, INFINITE_DAYS), image, date, None))
            }
            (Timestamp { unit, zoned }, Timestamp { unit: target, zoned: target_zoned }) if zoned == target_zoned => {
                let (from, to) = (i128::from(nanos_per_unit(unit)), i128::from(nanos_per_unit(target)));
                let total = from == to || (unit == TimeUnit::Nanosecond && target == TimeUnit::Microsecond);
                if (can_fail_silently && !total) || (zoned && from < to) {
                    return None;
                }
                let finite = move |ticks: i128| if from < to { rounded(ticks, to / from) * to } else { ticks * from };
                Some(Self::timestamps(unit, move |ticks| {
                    timestamp(target, finite(ticks), ticks == INFINITE_TICKS, ticks == -INFINITE_TICKS)
                }))
            }
            (Timestamp { unit, zoned: false }, Date) => {
                let total = matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond);
                (total || !can_fail_silently).then(|| Self::timestamps(unit, move |ticks| day_of(unit, ticks)))
            }
            _ => None,
        }
    }

    fn integers(min: i128, max: i128, image: impl Fn(i128) -> Scalar + 'static) -> Self {
        Self::monotone((min, max), image, Scalar::Int, None)
    }

    fn timestamps(unit: TimeUnit, image: impl Fn(i128) -> Scalar + 'static) -> Self {
        let out_of_order = image(-INFINITE_TICKS - 1);
        let scale = i128::from(nanos_per_unit(unit));
        let value = move |ticks: i128| Scalar::TimestampNs(ticks * scale);
        Self::monotone((-INFINITE_TICKS, INFINITE_TICKS), image, value, Some(out_of_order))
    }

    fn monotone(
        domain: (i128, i128),
        image: impl Fn(i128) -> Scalar + 'static,
        value: impl Fn(i128) -> Scalar + 'static,
        out_of_order: Option<Scalar>,
    ) -> Self {
        Self::Monotone(Monotone { domain, image: Box::new(image), value: Box::new(value), out_of_order })
    }

    /// `convert(column) op constant`, for a constant that is not NULL, as a predicate on the column.
    pub fn compare(&self, column: &str, op: CompareOp, constant: &Scalar) -> Result<BlockPredicate, String> {
        match self {
            Self::Identity => Ok(BlockPredicate::Compare { column: column.to_owned(), op, value: constant.clone() }),
            Self::Monotone(conversion) => conversion.compare(column, op, constant),
        }
    }

    /// The one value of the column that converts to `constant`, if there is exactly one.
    pub fn single_value(&self, constant: &Scalar) -> Option<Scalar> {
        match self {
            Self::Identity => Some(constant.clone()),
            Self::Monotone(conversion) => {
                let (first_equal, first_greater) = conversion.ends(constant).ok()?;
                (first_greater - first_equal == 1).then(|| (conversion.value)(first_equal))
            }
        }
    }
}

impl Monotone {
    /// The first integer whose image is at least the constant, and the first whose image exceeds it.
    fn ends(&self, constant: &Scalar) -> Result<(i128, i128), String> {
        let incomparable = || format!("{constant} cannot be compared exactly with the converted column");
        let order = |at: i128| (self.image)(at).compare(constant);
        if let Some(lowest) = &self.out_of_order
            && lowest.compare(constant) != Some(Ordering::Less)
        {
            return Err(format!("{constant} is too close to the earliest timestamp"));
        }
        let (first, last) = self.domain;
        order(first).and(order(last)).ok_or_else(incomparable)?;
        let first_where = |wanted: fn(Ordering) -> bool| {
            let (mut low, mut high) = (first, last + 1);
            while low < high {
                let middle = (low >> 1) + (high >> 1) + (low & high & 1);
                match order(middle) {
                    None => return None,
                    Some(order) if wanted(order) => high = middle,
                    Some(_) => low = middle + 1,
                }
            }
            Some(low)
        };
        let first_equal = first_where(Ordering::is_ge).ok_or_else(incomparable)?;
        let first_greater = first_where(Ordering::is_gt).ok_or_else(incomparable)?;
        Ok((first_equal, first_greater))
    }

    fn compare(&self, column: &str, op: CompareOp, constant: &Scalar) -> Result<BlockPredicate, String> {
        let (first_equal, first_greater) = self.ends(constant)?;
        let column = || column.to_owned();
        let test = |op, at: i128| BlockPredicate::Compare { column: column(), op, value: (self.value)(at) };
        let below = |at: i128| match at {
            at if at > self.domain.1 => not_null_or_null(column()),
            at if at <= self.domain.0 => null_or_false(column()),
            at => test(CompareOp::Lt, at),
        };
        let from = |at: i128| match at {
            at if at > self.domain.1 => null_or_false(column()),
            at if at <= self.domain.0 => not_null_or_null(column()),
            at => test(CompareOp::GtEq, at),
        };
        let not = |part| BlockPredicate::Not(Box::new(part));
        Ok(match op {
            CompareOp::Lt => below(first_equal),
            CompareOp::LtEq => below(first_greater),
            CompareOp::Gt => from(first_greater),
            CompareOp::GtEq => from(first_equal),
            _ => match (op, first_greater - first_equal) {
                (op, 1) => test(op, first_equal),
                (CompareOp::NotDistinctFrom, 0) => BlockPredicate::Constant(Some(false)),
                (CompareOp::DistinctFrom, 0) => BlockPredicate::Constant(Some(true)),
                (CompareOp::NotEq, 0) => not_null_or_null(column()),
                (_, 0) => null_or_false(column()),
                (op, _) => {
                    let equal = BlockPredicate::And(vec![from(first_equal), below(first_greater)]);
                    // For the DISTINCT operators NULL is a value like any other, which no constant equals.
                    let present = || not(BlockPredicate::IsNull { column: column() });
                    match op {
                        CompareOp::NotEq => not(equal),
                        CompareOp::NotDistinctFrom => BlockPredicate::And(vec![present(), equal]),
                        CompareOp::DistinctFrom => not(BlockPredicate::And(vec![present(), equal])),
                        _ => equal,
                    }
                }
            },
        })
    }
}

fn is_64_bit(min: i128, max: i128) -> bool {
    min >= i128::from(i64::MIN) && max <= i128::from(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "DuckDB's own conversion: to the nearest double, ties to even")]
fn nearest_double(value: i128) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "DuckDB's own conversion: to the nearest float, ties to even")]
fn nearest_float(value: i128) -> f32 {
    value as f32
}

fn date(days: i128) -> Scalar {
    Scalar::Date(i64::try_from(days.clamp(-INFINITE_DAYS, INFINITE_DAYS)).unwrap_or(0))
}

/// A timestamp of the unit: infinite, or kept within its finite range (DuckDB raises an error outside).
fn timestamp(unit: TimeUnit, nanos: i128, infinite: bool, minus_infinite: bool) -> Scalar {
    let scale = i128::from(nanos_per_unit(unit));
    Scalar::TimestampNs(if infinite {
        INFINITE_TICKS * scale
    } else if minus_infinite {
        -INFINITE_TICKS * scale
    } else {
        nanos.clamp((1 - INFINITE_TICKS) * scale, (INFINITE_TICKS - 1) * scale)
    })
}

/// DuckDB's rounding of a timestamp to a coarser unit: half away from the epoch.
fn rounded(ticks: i128, factor: i128) -> i128 {
    let halves = ticks / (factor / 2);
    (if halves < 0 { halves - 1 } else { halves + 1 }) / 2
}

/// The date of a timestamp: it is rounded to microseconds, then cut to the day.
fn day_of(unit: TimeUnit, ticks: i128) -> Scalar {
    let micros = match unit {
        _ if ticks == INFINITE_TICKS => return date(INFINITE_DAYS),
        _ if ticks == -INFINITE_TICKS => return date(-INFINITE_DAYS),
        TimeUnit::Second => ticks * 1_000_000,
        TimeUnit::Millisecond => ticks * 1_000,
        TimeUnit::Microsecond => ticks,
        TimeUnit::Nanosecond => rounded(ticks, 1_000),
    };
    date(micros.div_euclid(DAY_MICROS).clamp(1 - INFINITE_DAYS, INFINITE_DAYS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowered(source: &str, target: &str, op: CompareOp, constant: Scalar) -> String {
        let pullback = Pullback::new(SqlType::parse(source), SqlType::parse(target), false).unwrap();
        pullback.compare("a", op, &constant).unwrap().simplify().to_string()
    }

    fn refused(source: &str, target: &str, can_fail_silently: bool) -> bool {
        Pullback::new(SqlType::parse(source), SqlType::parse(target), can_fail_silently).is_err()
    }

    fn dec(value: i128, scale: u8) -> Scalar {
        Scalar::Decimal { value, scale }
    }

    #[test]
    fn integers_against_decimals_move_to_the_next_integer() {
        use CompareOp::*;
        let int = |op, value| lowered("INTEGER", "DECIMAL(11,1)", op, dec(value, 1));
        assert_eq!(int(Gt, 15), "a >= 2");
        assert_eq!(int(Gt, 10), "a >= 2");
        assert_eq!(int(GtEq, 15), "a >= 2");
        assert_eq!(int(Lt, 15), "a < 2");
        assert_eq!(int(LtEq, -15), "a < -1");
        assert_eq!(int(Eq, 20), "a = 2");
        assert_eq!(int(Eq, 15), "a IS NULL AND NULL");
        assert_eq!(int(NotEq, 15), "a IS NOT NULL OR NULL");
        assert_eq!(int(NotDistinctFrom, 15), "false");
        assert_eq!(int(DistinctFrom, 20), "a IS DISTINCT FROM 2");
        assert_eq!(int(Lt, 99_999_999_999), "a IS NOT NULL OR NULL");
        assert_eq!(int(Gt, 99_999_999_999), "a IS NULL AND NULL");
    }

    #[test]
    fn integers_against_doubles_follow_the_rounding() {
        use CompareOp::*;
        let big = 9_007_199_254_740_992.0; // 2^53: 2^53 + 1 rounds to it
        let int = |op, value| lowered("BIGINT", "DOUBLE", op, Scalar::Float(value));
        assert_eq!(int(Eq, big), "a >= 9007199254740992 AND a < 9007199254740994");
        assert_eq!(int(NotEq, big), "NOT (a >= 9007199254740992 AND a < 9007199254740994)");
        assert_eq!(int(Gt, big), "a >= 9007199254740994");
        assert_eq!(int(Gt, 1.5), "a >= 2");
        assert_eq!(int(LtEq, f64::NAN), "a IS NOT NULL OR NULL");
        assert_eq!(int(Gt, f64::NEG_INFINITY), "a IS NOT NULL OR NULL");
        assert_eq!(int(Eq, f64::INFINITY), "a IS NULL AND NULL");
        assert_eq!(lowered("INTEGER", "FLOAT", Eq, Scalar::Float(16_777_216.0)), "a >= 16777216 AND a < 16777218");
        assert_eq!(int(NotDistinctFrom, big), "a IS NOT NULL AND a >= 9007199254740992 AND a < 9007199254740994");
    }

    #[test]
    fn conversions_that_fail_or_lose_are_refused() {
        for (source, target) in [
            ("BIGINT", "INTEGER"),
            ("INTEGER", "UBIGINT"),
            ("HUGEINT", "DOUBLE"),
            ("UHUGEINT", "HUGEINT"),
            ("BIGINT", "DECIMAL(18,0)"),
            ("INTEGER", "VARCHAR"),
            ("VARCHAR", "INTEGER"),
            ("DOUBLE", "FLOAT"),
            ("DOUBLE", "BIGINT"),
            ("DECIMAL(10,2)", "DECIMAL(10,3)"),
            ("DECIMAL(10,2)", "DECIMAL(10,1)"),
            ("DECIMAL(10,2)", "DOUBLE"),
            ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
            ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP"),
            ("TIMESTAMP WITH TIME ZONE", "DATE"),
            ("TIMESTAMPTZ_NS", "TIMESTAMP WITH TIME ZONE"),
            ("DATE", "TIMESTAMP WITH TIME ZONE"),
            ("BOOLEAN", "INTEGER"),
            ("ENUM('a')", "VARCHAR"),
            ("TIME_NS", "TIME"),
            ("INTERVAL", "INTERVAL"),
        ] {
            assert!(refused(source, target, false), "{source} to {target}");
        }
        for (source, target) in [("DATE", "TIMESTAMP"), ("TIMESTAMP", "TIMESTAMP_NS"), ("TIMESTAMP_S", "DATE")] {
            assert!(refused(source, target, true), "TRY_CAST of {source} to {target}");
        }
        assert!(!refused("INTEGER", "BIGINT", true));
        assert!(!refused("TIMESTAMP_NS", "DATE", true));
    }

    #[test]
    fn dates_against_timestamps() {
        use CompareOp::*;
        let noon = Scalar::TimestampNs(DAY_NANOS / 2);
        let midnight = Scalar::TimestampNs(DAY_NANOS);
        assert_eq!(lowered("DATE", "TIMESTAMP", Lt, noon.clone()), "a < '1970-01-02'");
        assert_eq!(lowered("DATE", "TIMESTAMP", GtEq, noon.clone()), "a >= '1970-01-02'");
        assert_eq!(lowered("DATE", "TIMESTAMP", LtEq, noon.clone()), "a < '1970-01-02'");
        assert_eq!(lowered("DATE", "TIMESTAMP_NS", Eq, noon), "a IS NULL AND NULL");
        assert_eq!(lowered("DATE", "TIMESTAMP", Eq, midnight), "a = '1970-01-02'");
        let infinity = Scalar::TimestampNs(INFINITE_TICKS * 1_000);
        assert_eq!(lowered("DATE", "TIMESTAMP", Eq, infinity), "a = 2147483647d");
    }

    #[test]
    fn timestamps_between_units() {
        use CompareOp::*;
        let at = |nanos| Scalar::TimestampNs(nanos);
        assert_eq!(lowered("TIMESTAMP", "TIMESTAMP_NS", Gt, at(1_500)), "a >= '1970-01-01 00:00:00.000002'");
        assert_eq!(lowered("TIMESTAMP", "TIMESTAMP_NS", Eq, at(1_500)), "a IS NULL AND NULL");
        // DuckDB rounds half away from the epoch: 500 ns is 1 µs.
        assert_eq!(lowered("TIMESTAMP_NS", "TIMESTAMP", GtEq, at(1_000)), "a >= '1970-01-01 00:00:00.000000500'");
        let infinity = at(INFINITE_TICKS);
        assert_eq!(
            lowered("TIMESTAMP_S", "TIMESTAMP_NS", Eq, infinity),
            format!("a = {}ns", INFINITE_TICKS * 1_000_000_000),
            "infinity is infinity in every unit"
        );
        assert_eq!(
            lowered("TIMESTAMP_NS", "DATE", Eq, Scalar::Date(1)),
            "a >= '1970-01-01 23:59:59.999999500' AND a < '1970-01-02 23:59:59.999999500'"
        );
        assert_eq!(
            lowered("TIMESTAMP", "DATE", Eq, Scalar::Date(1)),
            "a >= '1970-01-02 00:00:00' AND a < '1970-01-03 00:00:00'"
        );
    }

    #[test]
    fn constants_near_the_earliest_timestamp_are_refused() {
        let pullback = Pullback::new(SqlType::parse("TIMESTAMP"), SqlType::Date, false).unwrap();
        assert!(pullback.compare("a", CompareOp::Lt, &Scalar::Date(-106_751_992)).is_err());
        assert!(pullback.compare("a", CompareOp::Lt, &Scalar::Date(-106_751_990)).is_ok());
    }
}
