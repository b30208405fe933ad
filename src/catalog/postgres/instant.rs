//! `timestamptz` (microseconds) and our nanoseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds of a microsecond.
pub(super) const MICRO: i128 = 1_000;
/// 2000-01-01T00:00:00Z in nanoseconds: the original rounds towards it.
const Y2K: i128 = 946_684_800_000_000_000;
/// Instants further from the epoch (about 6,300 years) are left alone; the type begins in 4713 BC.
const LIMIT_MICROS: i128 = 200_000_000_000 * 1_000_000;

fn from_micros(micros: i128) -> Option<SystemTime> {
    if !(-LIMIT_MICROS..=LIMIT_MICROS).contains(&micros) {
        return None;
    }
    let distance = Duration::from_micros(u64::try_from(micros.unsigned_abs()).ok()?);
    if micros >= 0 { UNIX_EPOCH.checked_add(distance) } else { UNIX_EPOCH.checked_sub(distance) }
}

/// The last microsecond not after `nanos`.
pub(super) fn at_or_before(nanos: i128) -> Option<SystemTime> {
    from_micros(nanos.div_euclid(MICRO))
}

/// The first microsecond not before `nanos`.
pub(super) fn at_or_after(nanos: i128) -> Option<SystemTime> {
    from_micros(nanos.div_euclid(MICRO) + i128::from(nanos.rem_euclid(MICRO) > 0))
}

/// Nanoseconds of a stored instant. `None` for infinities and for what does not fit.
pub(super) fn nanos(time: SystemTime) -> Option<i64> {
    let nanos = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_nanos()).ok()?,
        Err(before) => -i128::try_from(before.duration().as_nanos()).ok()?,
    };
    i64::try_from(nanos).ok()
}

/// The instant to store for one of ours, at or before it.
pub(super) fn stored(nanos: i64) -> SystemTime {
    at_or_before(i128::from(nanos)).unwrap_or(UNIX_EPOCH)
}

/// What to store for the largest timestamp of an extent: one microsecond after its floor, so that it bounds all values and the original,
/// which treats the bounds as half open, finds an extent whose rows share one timestamp.
pub(super) fn stored_max(nanos: i64) -> SystemTime {
    at_or_before(i128::from(nanos) + MICRO).unwrap_or(UNIX_EPOCH)
}

/// A lower bound for what a stored minimum was rounded from.
pub(super) fn widened_min(stored: SystemTime) -> Option<i64> {
    let nanos = nanos(stored)?;
    if i128::from(nanos) < Y2K { nanos.checked_sub(999) } else { Some(nanos) }
}

/// An upper bound for what a stored maximum was rounded from.
pub(super) fn widened_max(stored: SystemTime) -> Option<i64> {
    nanos(stored)?.checked_add(999)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_brackets_the_instant() {
        for value in [0, 1, 999, 1_000, 1_001, -1, -999, -1_000, -1_001, 1_767_225_600_000_000_001] {
            let (below, above) = (at_or_before(value).unwrap(), at_or_after(value).unwrap());
            assert!(i128::from(nanos(below).unwrap()) <= value && value <= i128::from(nanos(above).unwrap()));
            assert!(nanos(above).unwrap() - nanos(below).unwrap() <= 1_000);
            let value = i64::try_from(value).unwrap();
            assert!(widened_min(stored(value)).unwrap() <= value);
            assert!(nanos(stored_max(value)).unwrap() > value, "half-open bounds must include it");
            assert!(widened_max(stored(value)).unwrap() >= value, "also as the original stores it");
        }
        assert_eq!(at_or_before(i128::MAX), None);
        assert_eq!(at_or_after(i128::MIN), None);
    }
}
