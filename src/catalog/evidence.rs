//! An extent as [`Evidence`]: its time bounds and whichever of its sets have been loaded.

use std::collections::BTreeMap;

use serde_json::Value;

use super::paths;
use super::types::TimeBounds;
use crate::predicate::{ColumnStats, Evidence, Scalar};

/// Bounds of a column's values in nanoseconds since the Unix epoch. A missing bound is unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeFacts<'a> {
    /// The column the bounds are about.
    pub column: &'a str,
    pub min: Option<i64>,
    pub max: Option<i64>,
    /// Both are values of some row.
    pub exact: bool,
}

impl TimeBounds {
    /// What the bounds say, if it is known of which column.
    pub(crate) fn facts(&self) -> Option<TimeFacts<'_>> {
        let column = self.column.as_deref()?;
        Some(TimeFacts { column, min: self.min, max: self.max, exact: self.exact })
    }
}

/// What is known about a set of rows. Everything absent is unknown.
#[derive(Debug, Default)]
pub(crate) struct Facts<'a> {
    /// Rows, if known and not none.
    pub rows: Option<u64>,
    /// Time bounds, if it is known of which column.
    pub time: Option<TimeFacts<'a>>,
    /// Every distinct non-null value, per column.
    pub distinct: BTreeMap<&'a str, Vec<Scalar>>,
    /// Every token, sorted, per column.
    pub tokens: BTreeMap<&'a str, Vec<String>>,
    /// Every path present, per dynamic column.
    pub paths: BTreeMap<&'a str, Vec<String>>,
}

impl Evidence for Facts<'_> {
    fn row_count(&self) -> Option<u64> {
        self.rows
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        let bounds = self.time?;
        if bounds.column != name || (bounds.min.is_none() && bounds.max.is_none()) {
            return None;
        }
        // Reversed bounds are a broken statistic, not an empty range.
        if matches!((bounds.min, bounds.max), (Some(min), Some(max)) if min > max) {
            return None;
        }
        let scalar = |bound: Option<i64>| bound.map(|nanos| Scalar::TimestampNs(i128::from(nanos)));
        Some(ColumnStats {
            min: scalar(bounds.min),
            max: scalar(bounds.max),
            min_exact: bounds.exact && bounds.min.is_some(),
            max_exact: bounds.exact && bounds.max.is_some(),
            null_count: None,
            nan_count: Some(0),
        })
    }

    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        self.distinct.get(name).map(Vec::as_slice)
    }

    fn tokens(&self, name: &str) -> Option<&[String]> {
        self.tokens.get(name).map(Vec::as_slice)
    }

    fn may_have_path(&self, name: &str, path: &[String]) -> Option<bool> {
        let present = self.paths.get(name)?;
        let absent =
            paths::proves_absent(path, |text| present.iter().any(|candidate| paths::is_at_or_below(candidate, text)));
        absent.then_some(false)
    }
}

/// The distinct set in a column's entry of `column_stats`: all strings or all integers, else unknown.
pub(crate) fn distinct_from_json(entry: &Value) -> Option<Vec<Scalar>> {
    let values = entry.get("distinct")?.as_array()?;
    let scalars: Option<Vec<Scalar>> = values
        .iter()
        .map(|value| match value {
            Value::String(text) => Some(Scalar::Str(text.clone())),
            Value::Number(number) => {
                number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).map(Scalar::Int)
            }
            _ => None,
        })
        .collect();
    let scalars = scalars?;
    let strings = scalars.iter().filter(|s| matches!(s, Scalar::Str(_))).count();
    (strings == 0 || strings == scalars.len()).then_some(scalars)
}

/// The token set in a column's entry of `column_stats`, sorted.
pub(crate) fn tokens_from_json(entry: &Value) -> Option<Vec<String>> {
    let values = entry.get("tokens")?.as_array()?;
    let mut tokens: Vec<String> = values.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    tokens.sort_unstable();
    tokens.dedup();
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_missing_and_mixed_sets_are_unknown_but_empty_is_known() {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(distinct_from_json(&json(r#"{"distinct":null,"tokens":null}"#)), None);
        assert_eq!(distinct_from_json(&json("{}")), None);
        assert_eq!(distinct_from_json(&json(r#"{"distinct":["a",1]}"#)), None);
        assert_eq!(distinct_from_json(&json(r#"{"distinct":[1.5]}"#)), None);
        assert_eq!(distinct_from_json(&json(r#"{"distinct":[null]}"#)), None);
        assert_eq!(distinct_from_json(&json(r#"{"distinct":[]}"#)), Some(vec![]));
        assert_eq!(
            distinct_from_json(&json(r#"{"distinct":[-1,18446744073709551615]}"#)),
            Some(vec![Scalar::Int(-1), Scalar::Int(i128::from(u64::MAX))])
        );
        assert_eq!(tokens_from_json(&json(r#"{"tokens":["b","a"]}"#)), Some(vec!["a".into(), "b".into()]));
        assert_eq!(tokens_from_json(&json(r#"{"tokens":[1]}"#)), None);
    }

    #[test]
    fn reversed_or_missing_bounds_say_nothing() {
        let mut facts = Facts::default();
        assert_eq!(facts.column("at"), None);
        let bounds = |min, max| Some(TimeFacts { column: "at", min, max, exact: true });
        facts.time = bounds(Some(5), Some(4));
        assert_eq!(facts.column("at"), None);
        facts.time = bounds(Some(5), None);
        let stats = facts.column("at").unwrap();
        assert_eq!((stats.min, stats.max, stats.max_exact), (Some(Scalar::TimestampNs(5)), None, false));
        assert_eq!(facts.column("other"), None);
        let nameless = TimeBounds { column: None, min: Some(1), max: Some(2), exact: true };
        assert!(nameless.facts().is_none());
    }
}
