//! Stage 1 as SQL: a condition over `extents` that is true for every extent in which some row may satisfy a predicate.
//!
//! Conditions are built in pairs, "some row may be TRUE" and "some row may be FALSE", so that NOT swaps them. Every condition is true or
//! false, never NULL, and true where nothing is known. Times are compared closed and one microsecond wide of the stored bounds, because
//! the columns hold microseconds; sets are only used where the answer is certain (a whole token, an equal value of the same kind), and the
//! evaluator looks at the survivors once more with everything it knows.

use serde_json::{Value, json};
use tokio_postgres::types::ToSql;

use super::instant::{self, MICRO};
use crate::catalog::prune::{EvidenceKind, PruneOptions};
use crate::catalog::sql::TIME_COLUMN;
use crate::catalog::types::TableSchema;
use crate::predicate::{BlockPredicate, CompareOp, Scalar, TextPattern};
use crate::stats::tokens::Fragment;

/// Lists longer than this are left to the evaluator.
const MAX_LIST: usize = 64;

/// A parameter of the statement, with its SQL type.
pub(super) struct Parameter {
    pub value: Box<dyn ToSql + Sync + Send>,
    type_name: &'static str,
}

/// A condition that is always true and mentions every parameter, numbered from `first`: simplification may have dropped the part that
/// used one, and the server refuses parameters that occur nowhere.
pub(super) fn mention(parameters: &[Parameter], first: usize) -> String {
    parameters
        .iter()
        .enumerate()
        .map(|(i, p)| format!(" AND (${}::{} IS NULL) IS NOT NULL", first + i, p.type_name))
        .collect()
}

/// Which rows have bounds of which column.
#[derive(Clone, Copy)]
pub(super) struct TimeSource<'a> {
    /// The table's time column.
    column: Option<&'a str>,
    /// It is the only timestamp, so that the bounds of every row are of it.
    only: bool,
}

impl<'a> TimeSource<'a> {
    /// Of a table with this schema.
    pub(super) fn of(schema: &'a TableSchema) -> Self {
        Self { column: schema.time_column(), only: schema.only_time_column().is_some() }
    }
}

/// Builds the condition of one predicate.
pub(super) struct Rewriter<'a> {
    time: TimeSource<'a>,
    options: &'a PruneOptions,
    /// Kinds of evidence to use.
    kinds: &'a [EvidenceKind],
    parameters: &'a mut Vec<Parameter>,
    /// Number of the first of them in the statement.
    first: usize,
}

/// May some row be TRUE, may some row be FALSE?
struct Pair {
    may_be_true: String,
    may_be_false: String,
}

const YES: &str = "true";
const NO: &str = "false";

fn pair(may_be_true: impl Into<String>, may_be_false: impl Into<String>) -> Pair {
    Pair { may_be_true: may_be_true.into(), may_be_false: may_be_false.into() }
}

/// Joins conditions, leaving out what does not matter.
fn join(parts: impl Iterator<Item = String>, all: bool) -> String {
    let (neutral, absorbing, word) = if all { (YES, NO, " AND ") } else { (NO, YES, " OR ") };
    let mut kept: Vec<String> = Vec::new();
    for part in parts {
        if part == absorbing {
            return absorbing.to_owned();
        }
        if part != neutral {
            kept.push(part);
        }
    }
    match kept.len() {
        0 => neutral.to_owned(),
        1 => kept.swap_remove(0),
        _ => format!("({})", kept.join(word)),
    }
}

/// The condition for `predicate` with the given kinds of evidence. Its parameters are appended; the first of the list has number `first`
/// in the statement.
pub(super) fn condition(
    predicate: &BlockPredicate,
    time: TimeSource<'_>,
    options: &PruneOptions,
    kinds: &[EvidenceKind],
    parameters: &mut Vec<Parameter>,
    first: usize,
) -> String {
    let mut rewriter = Rewriter { time, options, kinds, parameters, first };
    rewriter.tree(predicate).may_be_true
}

impl Rewriter<'_> {
    fn uses(&self, kind: EvidenceKind) -> bool {
        self.kinds.contains(&kind) && self.options.uses(kind)
    }

    fn parameter(&mut self, value: impl ToSql + Sync + Send + 'static, type_name: &'static str) -> String {
        self.parameters.push(Parameter { value: Box::new(value), type_name });
        format!("${}::{type_name}", self.first + self.parameters.len() - 1)
    }

    fn tree(&mut self, predicate: &BlockPredicate) -> Pair {
        match predicate {
            BlockPredicate::Constant(outcome) => {
                pair(if *outcome == Some(true) { YES } else { NO }, if *outcome == Some(false) { YES } else { NO })
            }
            BlockPredicate::And(parts) => self.list(parts, true),
            BlockPredicate::Or(parts) => self.list(parts, false),
            BlockPredicate::Not(part) => {
                let Pair { may_be_true, may_be_false } = self.tree(part);
                pair(may_be_false, may_be_true)
            }
            BlockPredicate::TimeRange { column, start, end } if Some(column.as_str()) == self.time.column => {
                let inside = [
                    start.map(|start| self.relation(CompareOp::GtEq, start)),
                    end.map(|end| self.relation(CompareOp::Lt, end)),
                ];
                let outside = [
                    start.map(|start| self.relation(CompareOp::Lt, start)),
                    end.map(|end| self.relation(CompareOp::GtEq, end)),
                ];
                pair(join(inside.into_iter().flatten(), true), join(outside.into_iter().flatten(), false))
            }
            BlockPredicate::Compare { column, op, value: Scalar::TimestampNs(nanos) }
                if Some(column.as_str()) == self.time.column =>
            {
                match opposite(*op) {
                    Some(opposite) => {
                        let may_be_true = self.relation(*op, *nanos);
                        pair(may_be_true, self.relation(opposite, *nanos))
                    }
                    None => pair(YES, YES),
                }
            }
            BlockPredicate::Compare { column, op: CompareOp::Eq | CompareOp::NotDistinctFrom, value } => {
                pair(self.equals(column, value), YES)
            }
            BlockPredicate::Compare { column, op: CompareOp::NotEq, value } => pair(YES, self.equals(column, value)),
            BlockPredicate::InSet { column, values } if values.len() <= MAX_LIST => {
                let any: Vec<String> = values.iter().map(|value| self.equals(column, value)).collect();
                pair(join(any.into_iter(), false), YES)
            }
            BlockPredicate::Text { column, pattern } => pair(self.text(column, pattern), YES),
            _ => pair(YES, YES),
        }
    }

    fn list(&mut self, parts: &[BlockPredicate], and: bool) -> Pair {
        let pairs: Vec<Pair> = parts.iter().map(|part| self.tree(part)).collect();
        let (may_be_true, may_be_false): (Vec<_>, Vec<_>) =
            pairs.into_iter().map(|p| (p.may_be_true, p.may_be_false)).unzip();
        pair(join(may_be_true.into_iter(), and), join(may_be_false.into_iter(), !and))
    }

    /// Whether some value of the time column may stand in this relation to `nanos`.
    fn relation(&mut self, op: CompareOp, nanos: i128) -> String {
        if !self.uses(EvidenceKind::Time) {
            return YES.to_owned();
        }
        // The stored minimum may exceed the true one by less than a microsecond, the true maximum the stored one. A constant outside the
        // range of the type settles nothing here.
        let (Some(below), Some(above)) =
            (instant::at_or_before(nanos.saturating_sub(MICRO)), instant::at_or_after(nanos.saturating_add(MICRO)))
        else {
            return YES.to_owned();
        };
        let low = |this: &mut Self| {
            let parameter = this.parameter(above, "timestamptz");
            this.where_bounds_are_of_the_column(&format!("e.min_timestamp <= {parameter}"))
        };
        let high = |this: &mut Self| {
            let parameter = this.parameter(below, "timestamptz");
            this.where_bounds_are_of_the_column(&format!("e.max_timestamp >= {parameter}"))
        };
        match op {
            CompareOp::Lt | CompareOp::LtEq => low(self),
            CompareOp::Gt | CompareOp::GtEq => high(self),
            CompareOp::Eq | CompareOp::NotDistinctFrom => {
                let low = low(self);
                format!("({low} AND {})", high(self))
            }
            CompareOp::NotEq | CompareOp::DistinctFrom => YES.to_owned(),
        }
    }

    /// A condition about the bounds, true where there are none or they are another column's: `sql::time_column` as SQL.
    fn where_bounds_are_of_the_column(&mut self, bound: &str) -> String {
        match self.time.column {
            Some(column) if !self.time.only && !column.contains('\0') => {
                let column = self.parameter(column.to_owned(), "text");
                format!(
                    "CASE WHEN s.summary->>'{TIME_COLUMN}' = {column} OR
                     (s.summary->>'{TIME_COLUMN}' IS NULL AND s.created_at IS DISTINCT FROM e.created_at)
                     THEN coalesce({bound}, true) ELSE true END"
                )
            }
            Some(_) if self.time.only => format!("coalesce({bound}, true)"),
            _ => YES.to_owned(),
        }
    }

    /// Whether some value of a column may equal `value`.
    fn equals(&mut self, column: &str, value: &Scalar) -> String {
        let (kind, value): (&str, Value) = match value {
            Scalar::Str(text) => ("string", json!([text])),
            Scalar::Int(int) => match i64::try_from(*int) {
                Ok(int) => ("number", json!([int])),
                Err(_) => return YES.to_owned(),
            },
            _ => return YES.to_owned(),
        };
        if !self.uses(EvidenceKind::Distinct) {
            return YES.to_owned();
        }
        self.set_holds(column, "distinct", kind, value)
    }

    /// Whether a column's set is unknown, of another kind, or contains `value` (an array).
    fn set_holds(&mut self, column: &str, set: &str, kind: &str, value: Value) -> String {
        // jsonb and text cannot hold NUL.
        if column.contains('\0') || value.to_string().contains("\\u0000") {
            return YES.to_owned();
        }
        let column = self.parameter(column.to_owned(), "text");
        let value = self.parameter(value, "jsonb");
        let path = format!("e.column_stats->{column}->'{set}'");
        format!(
            "CASE WHEN jsonb_typeof({path}) IS DISTINCT FROM 'array' THEN true
             WHEN jsonb_array_length({path}) = 0 THEN false
             WHEN jsonb_typeof({path}->0) IS DISTINCT FROM '{kind}' THEN true
             ELSE {path} @> {value} END"
        )
    }

    /// Whether every token that each matching value must hold whole may be there.
    fn text(&mut self, column: &str, pattern: &TextPattern) -> String {
        if !self.uses(EvidenceKind::Tokens) {
            return YES.to_owned();
        }
        let whole: Vec<String> = pattern
            .required_fragments()
            .into_iter()
            .filter(|Fragment { text, starts_token, ends_token }| *starts_token && *ends_token && text.len() >= 2)
            .map(|fragment| fragment.text)
            .collect();
        if whole.is_empty() { YES.to_owned() } else { self.set_holds(column, "tokens", "string", json!(whole)) }
    }
}

/// The relation that holds of the values of which `op` does not.
fn opposite(op: CompareOp) -> Option<CompareOp> {
    Some(match op {
        CompareOp::Eq => CompareOp::NotEq,
        CompareOp::NotEq => CompareOp::Eq,
        CompareOp::Lt => CompareOp::GtEq,
        CompareOp::LtEq => CompareOp::Gt,
        CompareOp::Gt => CompareOp::LtEq,
        CompareOp::GtEq => CompareOp::Lt,
        // NULL stands in these relations too, so bounds settle only one side.
        CompareOp::DistinctFrom | CompareOp::NotDistinctFrom => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(predicate: &BlockPredicate) -> (String, usize) {
        let mut parameters = Vec::new();
        let time = TimeSource { column: Some("at"), only: true };
        let text = condition(predicate, time, &PruneOptions::default(), &EvidenceKind::ALL, &mut parameters, 1);
        (text, parameters.len())
    }

    fn compare(column: &str, op: CompareOp, value: Scalar) -> BlockPredicate {
        BlockPredicate::Compare { column: column.into(), op, value }
    }

    #[test]
    fn unknown_parts_vanish_where_they_cannot_help() {
        let unknown = BlockPredicate::Unknown(String::new());
        let service = compare("service", CompareOp::Eq, Scalar::Str("a".into()));
        assert_eq!(sql(&unknown).0, "true");
        assert_eq!(sql(&BlockPredicate::Not(Box::new(unknown.clone()))).0, "true");
        assert_eq!(sql(&BlockPredicate::Or(vec![unknown.clone(), service.clone()])).0, "true");
        assert_eq!(sql(&BlockPredicate::And(vec![unknown, service.clone()])), sql(&service));
        assert_eq!(sql(&BlockPredicate::Constant(None)).0, "false");
        assert_eq!(sql(&BlockPredicate::Not(Box::new(service))).0, "true");
        assert_eq!(sql(&BlockPredicate::And(vec![])).0, "true");
        assert_eq!(sql(&BlockPredicate::Or(vec![])).0, "false");
    }

    #[test]
    fn values_that_jsonb_or_timestamptz_cannot_hold_settle_nothing() {
        assert_eq!(sql(&compare("service", CompareOp::Eq, Scalar::Str("a\0b".into()))).0, "true");
        assert_eq!(sql(&compare("code", CompareOp::Eq, Scalar::Int(i128::MAX))).0, "true");
        assert_eq!(sql(&compare("code", CompareOp::Eq, Scalar::Float(1.0))).0, "true");
        assert_eq!(sql(&compare("at", CompareOp::Lt, Scalar::TimestampNs(i128::from(i64::MAX) * 1_000_000))).0, "true");
        assert_eq!(sql(&compare("other", CompareOp::Lt, Scalar::TimestampNs(0))).0, "true");
    }

    #[test]
    fn negated_ranges_use_the_other_bound() {
        let before = compare("at", CompareOp::Lt, Scalar::TimestampNs(5_000));
        assert_eq!(sql(&before), ("coalesce(e.min_timestamp <= $1::timestamptz, true)".into(), 2));
        let negated = sql(&BlockPredicate::Not(Box::new(before)));
        assert_eq!(negated, ("coalesce(e.max_timestamp >= $2::timestamptz, true)".into(), 2));
    }
}
