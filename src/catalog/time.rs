//! Instants as nanoseconds since the Unix epoch, and their text form in JSON and SQLite.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// Now, in nanoseconds since the Unix epoch; saturates in the year 2262.
pub(crate) fn now_nanos() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(elapsed) => i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}

/// RFC 3339 in UTC with as many fraction digits (0, 3, 6 or 9) as the value needs and a numeric zone: `2026-01-01T00:00:00+00:00`.
pub(crate) fn to_rfc3339(nanos: i64) -> String {
    DateTime::<Utc>::from_timestamp_nanos(nanos).to_rfc3339_opts(SecondsFormat::AutoSi, false)
}

/// The instant of an RFC 3339 text (any zone, `T` or blank between date and time) or, as SQLite itself writes them,
/// `YYYY-MM-DD HH:MM:SS` in UTC. `None` if it is neither or lies outside the range of nanoseconds.
pub(crate) fn from_rfc3339(text: &str) -> Option<i64> {
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return instant.timestamp_nanos_opt();
    }
    for format in ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"] {
        if let Ok(instant) = chrono::NaiveDateTime::parse_from_str(text, format) {
            return instant.and_utc().timestamp_nanos_opt();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_with_as_few_digits_as_needed() {
        for (nanos, text) in [
            (1_767_225_600_000_000_000, "2026-01-01T00:00:00+00:00"),
            (1_767_225_600_120_000_000, "2026-01-01T00:00:00.120+00:00"),
            (1_767_225_600_000_001_000, "2026-01-01T00:00:00.000001+00:00"),
            (1_767_225_600_000_000_001, "2026-01-01T00:00:00.000000001+00:00"),
            (-1, "1969-12-31T23:59:59.999999999+00:00"),
        ] {
            assert_eq!(to_rfc3339(nanos), text);
            assert_eq!(from_rfc3339(text), Some(nanos));
        }
        assert_eq!(from_rfc3339("2026-01-01T02:00:00+02:00"), Some(1_767_225_600_000_000_000));
        assert_eq!(from_rfc3339("2026-01-01 00:00:00"), Some(1_767_225_600_000_000_000));
        assert_eq!(from_rfc3339("yesterday"), None);
        assert_eq!(from_rfc3339("9999-01-01T00:00:00Z"), None);
    }
}
