//! Evaluation row by row over an Arrow batch: the oracle that the tests hold all evidence to, and a filter for callers that
//! have rows in hand.

use std::cmp::Ordering;

use arrow::array::{Array, RecordBatch};

use super::eval::token_in;
use super::value::{from_order, in_list, null_in_list};
use super::{BlockPredicate, CompareOp, Outcomes, Scalar};

/// The outcome of `predicate` for each row of `batch`, in order: one outcome where the predicate decides it, several where it
/// says less than the condition it was lowered from ([`Outcomes::ANY`] for [`BlockPredicate::Unknown`]). A column that the
/// batch does not have is NULL in every row.
pub fn evaluate_rows(predicate: &BlockPredicate, batch: &RecordBatch) -> Vec<Outcomes> {
    let rows = batch.num_rows();
    match predicate {
        BlockPredicate::Unknown(_) => vec![Outcomes::ANY; rows],
        BlockPredicate::Constant(outcome) => vec![Outcomes::of(*outcome); rows],
        BlockPredicate::And(parts) => combine(parts, batch, Outcomes::TRUE, Outcomes::and),
        BlockPredicate::Or(parts) => combine(parts, batch, Outcomes::FALSE, Outcomes::or),
        BlockPredicate::Not(part) => evaluate_rows(part, batch).into_iter().map(Outcomes::not).collect(),
        BlockPredicate::Compare { column, op, value } => {
            each(batch, column, op.of_null(value), |found| compare(found, *op, value))
        }
        BlockPredicate::TimeRange { column, start, end } => each(batch, column, Outcomes::NULL, |found| {
            let bound = |op, nanos: Option<i128>| {
                nanos.map_or(Outcomes::TRUE, |nanos| compare(found, op, &Scalar::TimestampNs(nanos)))
            };
            bound(CompareOp::GtEq, *start).and(bound(CompareOp::Lt, *end))
        }),
        BlockPredicate::InSet { column, values } => each(batch, column, null_in_list(values), |found| {
            in_list(values, |constant| found?.compare(constant).map(Ordering::is_eq))
        }),
        BlockPredicate::IsNull { column } => each(batch, column, Outcomes::TRUE, |_| Outcomes::FALSE),
        BlockPredicate::Text { column, pattern } => each(batch, column, Outcomes::NULL, |found| {
            found.and_then(Scalar::as_str).map_or(pattern.match_unknown(), |text| pattern.match_value(text))
        }),
        BlockPredicate::HasToken { column, token } => each(batch, column, Outcomes::NULL, |found| {
            found.and_then(Scalar::as_str).map_or(Outcomes::TRUE_OR_FALSE, |text| token_in(text, token))
        }),
        BlockPredicate::DynamicPathExists { column, .. } | BlockPredicate::DynamicPathEquals { column, .. } => {
            each(batch, column, Outcomes::NULL, |_| Outcomes::ANY)
        }
    }
}

fn compare(found: Option<&Scalar>, op: CompareOp, constant: &Scalar) -> Outcomes {
    if constant.is_null() {
        return op.with_null();
    }
    from_order(op, found.and_then(|found| found.compare(constant)))
}

fn combine(
    parts: &[BlockPredicate],
    batch: &RecordBatch,
    neutral: Outcomes,
    op: fn(Outcomes, Outcomes) -> Outcomes,
) -> Vec<Outcomes> {
    let mut all = vec![neutral; batch.num_rows()];
    for part in parts {
        for (total, this) in all.iter_mut().zip(evaluate_rows(part, batch)) {
            *total = op(*total, this);
        }
    }
    all
}

/// One outcome per row: `of_null` for NULL, else that of the value, which is `None` if its type has no [`Scalar`].
fn each(
    batch: &RecordBatch,
    column: &str,
    of_null: Outcomes,
    of_value: impl Fn(Option<&Scalar>) -> Outcomes,
) -> Vec<Outcomes> {
    let Some(array) = batch.column_by_name(column) else {
        return vec![of_null; batch.num_rows()];
    };
    let nulls = array.logical_nulls();
    (0..array.len())
        .map(|row| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return of_null;
            }
            match Scalar::from_array(array.as_ref(), row) {
                Some(Scalar::Null) => of_null,
                value => of_value(value.as_ref()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::predicate::TextPattern;

    fn batch() -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), None, Some(vec![])]);
        RecordBatch::try_from_iter_with_nullable([
            ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef, true),
            ("s", Arc::new(StringArray::from(vec![Some("log-line"), Some("x"), None])), true),
            ("l", Arc::new(lists), true),
        ])
        .unwrap()
    }

    fn rows(predicate: BlockPredicate) -> Vec<String> {
        evaluate_rows(&predicate, &batch()).iter().map(ToString::to_string).collect()
    }

    fn is(op: CompareOp, column: &str, value: Scalar) -> BlockPredicate {
        BlockPredicate::Compare { column: column.into(), op, value }
    }

    #[test]
    fn leaves_have_one_outcome_per_row() {
        assert_eq!(rows(is(CompareOp::Gt, "a", Scalar::Int(1))), ["{f}", "{n}", "{t}"]);
        assert_eq!(rows(is(CompareOp::Eq, "a", Scalar::Null)), ["{n}", "{n}", "{n}"]);
        assert_eq!(rows(is(CompareOp::NotDistinctFrom, "a", Scalar::Null)), ["{f}", "{t}", "{f}"]);
        assert_eq!(rows(is(CompareOp::DistinctFrom, "a", Scalar::Int(1))), ["{f}", "{t}", "{t}"]);
        assert_eq!(rows(is(CompareOp::Eq, "a", Scalar::Str("1".into()))), ["{t, f}", "{n}", "{t, f}"]);
        assert_eq!(rows(is(CompareOp::Eq, "missing", Scalar::Int(1))), ["{n}", "{n}", "{n}"]);
        let values = vec![Scalar::Int(1), Scalar::Null];
        assert_eq!(rows(BlockPredicate::InSet { column: "a".into(), values }), ["{t}", "{n}", "{n}"]);
        let pattern = TextPattern::contains("line");
        assert_eq!(rows(BlockPredicate::Text { column: "s".into(), pattern }), ["{t}", "{f}", "{n}"]);
        let token = |token: &str| BlockPredicate::HasToken { column: "s".into(), token: token.into() };
        assert_eq!(rows(token("log")), ["{t, f}", "{f}", "{n}"]);
        assert_eq!(rows(token("-")), ["{t, f}", "{t, f}", "{n}"]);
    }

    #[test]
    fn types_without_scalars_still_have_nulls() {
        assert_eq!(rows(BlockPredicate::IsNull { column: "l".into() }), ["{f}", "{t}", "{f}"]);
        assert_eq!(rows(is(CompareOp::Eq, "l", Scalar::Int(1))), ["{t, f}", "{n}", "{t, f}"]);
    }

    #[test]
    fn trees_are_kleenes() {
        let unknown = BlockPredicate::Unknown("x".into());
        let one = is(CompareOp::Eq, "a", Scalar::Int(1));
        assert_eq!(rows(BlockPredicate::And(vec![one.clone(), unknown.clone()])), ["{t, f, n}", "{f, n}", "{f}"]);
        assert_eq!(rows(BlockPredicate::Or(vec![one.clone(), unknown])), ["{t}", "{t, n}", "{t, f, n}"]);
        assert_eq!(rows(BlockPredicate::Not(Box::new(one))), ["{f}", "{n}", "{t}"]);
        assert_eq!(rows(BlockPredicate::And(vec![])), ["{t}", "{t}", "{t}"]);
    }
}
