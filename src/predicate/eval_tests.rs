//! The rules of evaluation one by one. Numbers in names are those of the collection of public bug reports that each rule
//! answers.

use std::collections::HashMap;

use super::*;

#[derive(Default)]
struct Known {
    rows: Option<u64>,
    stats: HashMap<&'static str, ColumnStats>,
    distinct: HashMap<&'static str, Vec<Scalar>>,
    tokens: HashMap<&'static str, Vec<String>>,
    absent: Vec<Scalar>,
    absent_paths: Vec<Vec<String>>,
    missing: Vec<&'static str>,
}

impl Evidence for Known {
    fn row_count(&self) -> Option<u64> {
        self.rows
    }
    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.stats.get(name).cloned()
    }
    fn has_column(&self, name: &str) -> bool {
        !self.missing.contains(&name)
    }
    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        self.distinct.get(name).map(Vec::as_slice)
    }
    fn tokens(&self, name: &str) -> Option<&[String]> {
        self.tokens.get(name).map(Vec::as_slice)
    }
    fn may_contain(&self, _: &str, value: &Scalar) -> Option<bool> {
        let same = |v: &Scalar| match (v, value) {
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        self.absent.iter().any(same).then_some(false)
    }
    fn may_have_path(&self, _: &str, path: &[String]) -> Option<bool> {
        self.absent_paths.iter().any(|p| p == path).then_some(false)
    }
}

/// Ten rows; `a` within the bounds, with that many NULL and NaN.
fn bounds(min: Scalar, max: Scalar, nulls: Option<u64>, nans: Option<u64>) -> Known {
    let stats = ColumnStats {
        min: Some(min),
        max: Some(max),
        min_exact: true,
        max_exact: true,
        null_count: nulls,
        nan_count: nans,
    };
    Known { rows: Some(10), stats: HashMap::from([("a", stats)]), ..Known::default() }
}

fn ints(min: i128, max: i128) -> Known {
    bounds(Scalar::Int(min), Scalar::Int(max), Some(0), Some(0))
}

fn floats(min: f64, max: f64, nans: Option<u64>) -> Known {
    bounds(Scalar::Float(min), Scalar::Float(max), Some(0), nans)
}

fn text(min: &str, max: &str) -> Known {
    bounds(Scalar::Str(min.into()), Scalar::Str(max.into()), Some(0), Some(0))
}

fn is(op: CompareOp, value: Scalar) -> BlockPredicate {
    BlockPredicate::Compare { column: "a".into(), op, value }
}

fn int(op: CompareOp, value: i128) -> BlockPredicate {
    is(op, Scalar::Int(value))
}

fn float(op: CompareOp, value: f64) -> BlockPredicate {
    is(op, Scalar::Float(value))
}

fn within(values: &[i128]) -> BlockPredicate {
    BlockPredicate::InSet { column: "a".into(), values: values.iter().copied().map(Scalar::Int).collect() }
}

fn not(predicate: BlockPredicate) -> BlockPredicate {
    BlockPredicate::Not(Box::new(predicate))
}

fn is_null() -> BlockPredicate {
    BlockPredicate::IsNull { column: "a".into() }
}

fn outcomes(predicate: &BlockPredicate, evidence: &Known) -> String {
    evaluate(predicate, evidence).to_string()
}

use CompareOp::{DistinctFrom, Eq, Gt, GtEq, Lt, LtEq, NotDistinctFrom, NotEq};

#[test]
fn every_operator_against_bounds() {
    let e = ints(3, 5);
    let row = |op| (2..=6).map(|v| outcomes(&int(op, v), &e)).collect::<Vec<_>>().join(" ");
    assert_eq!(row(Eq), "{f} {t, f} {t, f} {t, f} {f}");
    assert_eq!(row(NotEq), "{t} {t, f} {t, f} {t, f} {t}");
    assert_eq!(row(Lt), "{f} {f} {t, f} {t, f} {t}");
    assert_eq!(row(LtEq), "{f} {t, f} {t, f} {t} {t}");
    assert_eq!(row(Gt), "{t} {t, f} {t, f} {f} {f}");
    assert_eq!(row(GtEq), "{t} {t} {t, f} {t, f} {f}");
    assert_eq!(row(DistinctFrom), row(NotEq));
    assert_eq!(row(NotDistinctFrom), row(Eq));
}

#[test]
fn not_swaps_outcomes_without_a_special_case() {
    let constant = ints(5, 5);
    assert_eq!(outcomes(&not(int(Eq, 5)), &constant), "{f}");
    assert_eq!(outcomes(&not(int(Lt, 5)), &constant), "{t}");
    assert_eq!(outcomes(&not(within(&[5, 6])), &constant), "{f}");
    assert_eq!(outcomes(&not(within(&[5, 6])), &ints(5, 6)), "{t, f}", "a range is not a constant");
}

#[test]
fn lesson_2_a_missing_null_count_is_unknown() {
    let unknown = bounds(Scalar::Int(1), Scalar::Int(2), None, Some(0));
    assert_eq!(outcomes(&is_null(), &unknown), "{t, f}");
    assert_eq!(outcomes(&not(is_null()), &unknown), "{t, f}");
    assert_eq!(outcomes(&int(Lt, 5), &unknown), "{t, n}", "not fully satisfied");
    assert_eq!(outcomes(&is_null(), &Known { rows: Some(10), ..Known::default() }), "{t, f}");
    assert_eq!(outcomes(&is_null(), &ints(1, 2)), "{f}");
}

#[test]
fn lesson_4_unknown_shapes_leave_only_their_branch_open() {
    let unknown = || BlockPredicate::Unknown("length(c)".into());
    assert_eq!(outcomes(&unknown(), &ints(1, 2)), "{t, f, n}");
    assert_eq!(outcomes(&BlockPredicate::And(vec![unknown(), int(Gt, 5)]), &ints(1, 2)), "{f}");
    assert_eq!(outcomes(&BlockPredicate::Or(vec![unknown(), int(Gt, 5)]), &ints(1, 2)), "{t, f, n}");
}

#[test]
fn lesson_5_and_16_truncated_bounds() {
    // Cut to three bytes below, raised above: no value is certain, the range is.
    let mut e = text("abc", "abe");
    for stats in e.stats.values_mut() {
        (stats.min_exact, stats.max_exact) = (false, false);
    }
    assert_eq!(outcomes(&is(Eq, Scalar::Str("abcdef".into())), &e), "{t, f}");
    assert_eq!(outcomes(&is(Eq, Scalar::Str("abf".into())), &e), "{f}");
    // Equal bounds that are not exact were cut and not raised: the upper one says nothing.
    let mut e = text("abc", "abc");
    e.stats.values_mut().for_each(|stats| stats.max_exact = false);
    assert_eq!(outcomes(&is(Gt, Scalar::Str("abcd".into())), &e), "{t, f}");
    assert_eq!(outcomes(&is(Lt, Scalar::Str("abc".into())), &e), "{f}");
    assert_eq!(outcomes(&is(Eq, Scalar::Str("abc".into())), &text("abc", "abc")), "{t}");
}

#[test]
fn lesson_7_no_statistics_at_all_keeps_everything() {
    let nothing = Known::default();
    assert_eq!(outcomes(&int(Eq, 5), &nothing), "{t, f, n}");
    assert_eq!(outcomes(&within(&[5]), &nothing), "{t, f, n}");
    assert_eq!(
        outcomes(&BlockPredicate::TimeRange { column: "a".into(), start: Some(1), end: Some(2) }, &nothing),
        "{t, f, n}"
    );
}

#[test]
fn lesson_8_null_is_found_by_is_null() {
    let all_null = Known {
        rows: Some(10),
        stats: HashMap::from([("a", ColumnStats { null_count: Some(10), ..ColumnStats::default() })]),
        ..Known::default()
    };
    assert_eq!(outcomes(&is_null(), &all_null), "{t}");
    assert_eq!(outcomes(&int(Eq, 5), &all_null), "{n}");
    assert_eq!(outcomes(&not(int(Eq, 5)), &all_null), "{n}");
    assert_eq!(outcomes(&int(DistinctFrom, 5), &all_null), "{t}");
    assert_eq!(outcomes(&is(NotDistinctFrom, Scalar::Null), &all_null), "{t}");
    assert_eq!(outcomes(&within(&[5]), &all_null), "{n}");
    assert_eq!(
        outcomes(&BlockPredicate::Text { column: "a".into(), pattern: TextPattern::contains("") }, &all_null),
        "{n}"
    );
}

#[test]
fn lesson_14_nan_exceeds_bounds_that_do_not_count_it() {
    for nans in [None, Some(1)] {
        let e = floats(1.0, 2.0, nans);
        assert_eq!(outcomes(&float(Gt, 5.0), &e), "{t, f}", "a NaN is greater");
        assert_eq!(outcomes(&float(GtEq, 5.0), &e), "{t, f}");
        assert_eq!(outcomes(&float(NotEq, 1.0), &e), "{t, f}");
        assert_eq!(outcomes(&float(Eq, f64::NAN), &e), "{t, f}");
        assert_eq!(outcomes(&float(Eq, 5.0), &e), "{f}", "a NaN does not equal 5");
        assert_eq!(outcomes(&not(float(LtEq, 2.0)), &e), "{t, f}");
        assert_eq!(outcomes(&float(Lt, 0.5), &e), "{f}");
        assert_eq!(outcomes(&float(LtEq, 2.0), &e), "{t, f}", "not fully satisfied");
    }
    let e = floats(1.0, 2.0, Some(0));
    assert_eq!(outcomes(&float(Gt, 5.0), &e), "{f}");
    assert_eq!(outcomes(&float(Eq, f64::NAN), &e), "{f}");
    assert_eq!(outcomes(&float(LtEq, f64::NAN), &e), "{t}");
    let constant = floats(1.0, 1.0, None);
    assert_eq!(outcomes(&not(float(Eq, 1.0)), &constant), "{t, f}");
    // A NaN bound is no bound.
    assert_eq!(outcomes(&float(Eq, 5.0), &floats(f64::NAN, f64::NAN, Some(0))), "{t, f}");
    assert_eq!(outcomes(&float(Gt, 5.0), &floats(1.0, f64::NAN, Some(0))), "{t, f}");
}

#[test]
fn lesson_15_zeros_are_equal() {
    assert_eq!(outcomes(&float(Eq, -0.0), &floats(0.0, 1.0, Some(0))), "{t, f}");
    assert_eq!(outcomes(&float(Lt, 0.0), &floats(-0.0, 1.0, Some(0))), "{f}");
    let mut e = floats(-1.0, 1.0, Some(0));
    e.absent = vec![Scalar::Float(0.0)];
    assert_eq!(outcomes(&float(Eq, 0.0), &e), "{t, f}", "the other zero may be there");
    e.absent = vec![Scalar::Float(0.0), Scalar::Float(-0.0)];
    assert_eq!(outcomes(&float(Eq, 0.0), &e), "{f}");
    e.absent = vec![Scalar::Float(f64::NAN)];
    e.stats.values_mut().for_each(|stats| stats.nan_count = None);
    assert_eq!(outcomes(&float(Eq, f64::NAN), &e), "{t, f}", "NaN has many representations");
}

#[test]
fn lesson_16_reversed_bounds_are_ignored() {
    assert_eq!(outcomes(&int(Eq, 100), &ints(5, 3)), "{t, f}");
    assert_eq!(outcomes(&int(Eq, 4), &ints(5, 3)), "{t, f}");
}

#[test]
fn lessons_17_to_20_bounds_of_another_type_are_ignored() {
    assert_eq!(outcomes(&float(Eq, 100.0), &ints(1, 2)), "{t, f}");
    assert_eq!(outcomes(&int(Eq, 100), &floats(1.0, 2.0, Some(0))), "{t, f}");
    assert_eq!(outcomes(&is(Eq, Scalar::Str("5".into())), &ints(1, 2)), "{t, f}");
    assert_eq!(outcomes(&is(Eq, Scalar::TimestampNs(100)), &ints(1, 2)), "{t, f}");
    let decimals =
        |scale| bounds(Scalar::Decimal { value: 100, scale }, Scalar::Decimal { value: 200, scale }, Some(0), Some(0));
    assert_eq!(outcomes(&is(Eq, Scalar::Decimal { value: 500, scale: 2 }), &decimals(2)), "{f}");
    assert_eq!(outcomes(&is(Eq, Scalar::Decimal { value: 500, scale: 2 }), &decimals(3)), "{t, f}");
    let mixed = bounds(Scalar::Int(1), Scalar::Str("x".into()), Some(0), Some(0));
    assert_eq!(outcomes(&int(Lt, 0), &mixed), "{t, f}");
    // Unsigned values compare as the numbers they are.
    assert_eq!(outcomes(&int(Gt, i128::from(i64::MAX)), &ints(0, i128::from(u64::MAX))), "{t, f}");
    assert_eq!(outcomes(&int(Gt, -1), &ints(0, i128::from(u64::MAX))), "{t}");
}

#[test]
fn lesson_19_infinite_timestamps_stay_beyond_finite_ones() {
    let ts = |nanos| Scalar::TimestampNs(nanos);
    let infinity_micros = i128::from(i64::MAX) * 1_000;
    let e = bounds(ts(0), ts(infinity_micros), Some(0), Some(0));
    assert_eq!(outcomes(&is(Gt, ts(i128::from(i64::MAX))), &e), "{t, f}");
    assert_eq!(outcomes(&is(Gt, ts(infinity_micros)), &e), "{f}");
}

#[test]
fn lesson_24_null_never_satisfies() {
    let none = BlockPredicate::Constant(None);
    assert_eq!(outcomes(&BlockPredicate::And(vec![none.clone(), int(Eq, 1)]), &ints(1, 2)), "{f, n}");
    assert!(skips(evaluate(&is(Eq, Scalar::Null), &ints(1, 2))));
    assert_eq!(outcomes(&not(is(Eq, Scalar::Null)), &ints(1, 2)), "{n}");
    let some_null = bounds(Scalar::Int(1), Scalar::Int(2), Some(3), Some(0));
    assert_eq!(outcomes(&int(Lt, 5), &some_null), "{t, n}");
    assert_eq!(outcomes(&is(DistinctFrom, Scalar::Null), &some_null), "{t, f}");
    assert_eq!(outcomes(&is(NotDistinctFrom, Scalar::Null), &ints(1, 2)), "{f}");
    assert_eq!(outcomes(&int(DistinctFrom, 9), &some_null), "{t}");
    assert_eq!(outcomes(&int(NotDistinctFrom, 9), &some_null), "{f}");
    assert_eq!(outcomes(&BlockPredicate::Or(vec![none, int(Lt, 5)]), &ints(1, 2)), "{t}");
}

#[test]
fn lesson_25_a_missing_column_is_null() {
    let e = Known { missing: vec!["a"], ..ints(1, 2) };
    assert_eq!(outcomes(&int(Eq, 1), &e), "{n}");
    assert_eq!(outcomes(&is_null(), &e), "{t}");
    assert_eq!(outcomes(&int(DistinctFrom, 1), &e), "{t}");
    assert_eq!(outcomes(&BlockPredicate::TimeRange { column: "a".into(), start: None, end: Some(0) }, &e), "{n}");
    assert_eq!(outcomes(&BlockPredicate::DynamicPathExists { column: "a".into(), path: vec![] }, &e), "{n}");
}

#[test]
fn in_lists() {
    let null_in = |values: &[i128]| {
        let mut values: Vec<Scalar> = values.iter().copied().map(Scalar::Int).collect();
        values.push(Scalar::Null);
        BlockPredicate::InSet { column: "a".into(), values }
    };
    let e = ints(3, 5);
    assert_eq!(outcomes(&within(&[1, 9]), &e), "{f}");
    assert_eq!(outcomes(&within(&[1, 4]), &e), "{t, f}");
    assert_eq!(outcomes(&null_in(&[1, 9]), &e), "{n}");
    assert_eq!(outcomes(&not(null_in(&[1, 9])), &e), "{n}");
    assert_eq!(outcomes(&not(null_in(&[4])), &e), "{f, n}", "NOT IN with a NULL is never true");
    assert_eq!(outcomes(&not(within(&[1, 9])), &e), "{t}");
    assert_eq!(outcomes(&within(&[]), &e), "{f}");
    assert_eq!(outcomes(&within(&[7, 5]), &ints(5, 5)), "{t}");
}

#[test]
fn distinct_sets_answer_equality_and_order() {
    let set = |values: &[i128], nulls| Known {
        rows: Some(10),
        stats: HashMap::from([("a", ColumnStats { null_count: nulls, ..ColumnStats::default() })]),
        distinct: HashMap::from([("a", values.iter().copied().map(Scalar::Int).collect())]),
        ..Known::default()
    };
    let e = set(&[1, 5], Some(0));
    assert_eq!(outcomes(&int(Eq, 3), &e), "{f}");
    assert_eq!(outcomes(&int(Eq, 5), &e), "{t, f}");
    assert_eq!(outcomes(&int(NotEq, 3), &e), "{t}");
    assert_eq!(outcomes(&int(Gt, 5), &e), "{f}");
    assert_eq!(outcomes(&int(LtEq, 5), &e), "{t}");
    assert_eq!(outcomes(&within(&[3, 4]), &e), "{f}");
    assert_eq!(outcomes(&within(&[1, 5, 9]), &e), "{t}");
    assert_eq!(outcomes(&not(within(&[1, 5, 9])), &e), "{f}");
    let many: Vec<i128> = (100..200).collect();
    assert_eq!(outcomes(&within(&many), &set(&(0..100).collect::<Vec<_>>(), Some(0))), "{f}");
    assert_eq!(outcomes(&within(&many), &set(&(0..101).collect::<Vec<_>>(), Some(0))), "{t, f}");
    assert_eq!(outcomes(&within(&many), &set(&(120..150).collect::<Vec<_>>(), Some(0))), "{t}");
    // No value at all.
    assert_eq!(outcomes(&int(Eq, 3), &set(&[], None)), "{n}");
    assert_eq!(outcomes(&int(Eq, 3), &set(&[], Some(0))), "{t, f}", "no value and no NULL: a contradiction");
    let strings = Known { distinct: HashMap::from([("a", vec![Scalar::Str("x".into())])]), ..ints(1, 9) };
    assert_eq!(outcomes(&int(Eq, 3), &strings), "{t, f}", "another type says nothing");
}

#[test]
fn contradicting_evidence_is_unknown() {
    let mut e = ints(1, 2);
    e.distinct.insert("a", vec![Scalar::Int(7)]);
    assert_eq!(outcomes(&int(Eq, 7), &e), "{t, f, n}");
    // All NULL by count, but a bound that is some row's value.
    let e = bounds(Scalar::Int(1), Scalar::Int(2), Some(10), Some(0));
    assert_eq!(outcomes(&int(Eq, 1), &e), "{t, f, n}");
    let e = bounds(Scalar::Int(1), Scalar::Int(2), Some(11), Some(0));
    assert_eq!(outcomes(&is_null(), &e), "{t, f}", "more NULLs than rows");
}

#[test]
fn membership_tests_only_prove_absence() {
    let e = Known { absent: vec![Scalar::Int(4)], ..ints(1, 9) };
    assert_eq!(outcomes(&int(Eq, 4), &e), "{f}");
    assert_eq!(outcomes(&int(NotEq, 4), &e), "{t}");
    assert_eq!(outcomes(&int(NotDistinctFrom, 4), &e), "{f}");
    assert_eq!(outcomes(&int(DistinctFrom, 4), &e), "{t}");
    assert_eq!(outcomes(&int(Eq, 5), &e), "{t, f}");
    assert_eq!(outcomes(&int(Lt, 4), &e), "{t, f}");
    assert_eq!(outcomes(&within(&[4, 20]), &e), "{f}");
    assert_eq!(outcomes(&within(&[4, 5]), &e), "{t, f}");
}

#[test]
fn tokens_answer_equality_and_search() {
    let e = |words: &[&str]| Known {
        rows: Some(10),
        tokens: HashMap::from([("a", words.iter().map(ToString::to_string).collect())]),
        ..Known::default()
    };
    let equals = |text: &str| is(Eq, Scalar::Str(text.into()));
    assert_eq!(outcomes(&equals("foo bar"), &e(&["bar", "baz"])), "{f, n}");
    assert_eq!(outcomes(&equals("Foo-bar x"), &e(&["bar", "foo"])), "{t, f, n}");
    assert_eq!(outcomes(&equals("fo"), &e(&["foo"])), "{f, n}", "equality wants whole tokens");
    assert_eq!(outcomes(&equals("x"), &e(&[])), "{t, f, n}", "short runs are not in the set");
    assert_eq!(outcomes(&not(equals("foo")), &e(&["bar"])), "{t, n}");
    let contains = |needle: &str| BlockPredicate::Text { column: "a".into(), pattern: TextPattern::contains(needle) };
    assert_eq!(outcomes(&contains("ofmem"), &e(&["outofmemoryerror"])), "{t, f, n}");
    assert_eq!(outcomes(&contains("oom"), &e(&["outofmemoryerror"])), "{f, n}");
    assert_eq!(outcomes(&contains("oom"), &e(&[])), "{f, n}");
    let has = |token: &str| BlockPredicate::HasToken { column: "a".into(), token: token.into() };
    assert_eq!(outcomes(&has("memory"), &e(&["outofmemoryerror"])), "{f, n}");
    assert_eq!(outcomes(&has("foo"), &e(&["foo"])), "{t, f, n}");
    assert_eq!(outcomes(&has("a b"), &e(&[])), "{t, f, n}");
}

#[test]
fn text_against_bounds_and_distinct_values() {
    let like = |pattern| BlockPredicate::Text { column: "a".into(), pattern };
    assert_eq!(outcomes(&like(TextPattern::prefix("ab")), &text("b", "c")), "{f}");
    assert_eq!(outcomes(&like(TextPattern::prefix("ab")), &text("aba", "abz")), "{t}");
    assert_eq!(outcomes(&like(TextPattern::contains("x")), &text("a", "z")), "{t, f}");
    assert_eq!(outcomes(&like(TextPattern::contains("x")), &text("axb", "axb")), "{t}", "a constant column");
    assert_eq!(outcomes(&like(TextPattern::suffix("x")), &text("axb", "axb")), "{f}");
    assert_eq!(outcomes(&like(TextPattern::prefix("5")), &ints(1, 2)), "{t, f}");
    let mut e = text("a", "z");
    e.distinct.insert("a", vec![Scalar::Str("abc".into()), Scalar::Str("xbc".into())]);
    assert_eq!(outcomes(&like(TextPattern::suffix("bc")), &e), "{t}");
    assert_eq!(outcomes(&like(TextPattern::contains("y")), &e), "{f}");
}

#[test]
fn time_ranges_are_half_open() {
    let range = |start, end| BlockPredicate::TimeRange { column: "a".into(), start, end };
    let e = bounds(Scalar::TimestampNs(10), Scalar::TimestampNs(20), Some(0), Some(0));
    assert_eq!(outcomes(&range(Some(20), Some(30)), &e), "{t, f}", "the latest row is at the start");
    assert_eq!(outcomes(&range(Some(21), Some(30)), &e), "{f}");
    assert_eq!(outcomes(&range(Some(0), Some(10)), &e), "{f}", "the end is exclusive");
    assert_eq!(outcomes(&range(Some(10), Some(21)), &e), "{t}");
    assert_eq!(outcomes(&range(None, None), &e), "{t}");
    let single = bounds(Scalar::TimestampNs(10), Scalar::TimestampNs(10), Some(0), Some(0));
    assert_eq!(outcomes(&range(Some(10), Some(11)), &single), "{t}");
}

#[test]
fn zero_rows_are_skipped_whatever_is_asked() {
    let empty = Known { rows: Some(0), ..Known::default() };
    for predicate in
        [BlockPredicate::Constant(Some(true)), is_null(), BlockPredicate::Unknown("x".into()), not(int(Eq, 1))]
    {
        assert!(skips(evaluate(&predicate, &empty)), "{predicate}");
    }
}

#[test]
fn paths_of_dynamic_columns() {
    let path = || vec!["http".to_owned(), "method".to_owned()];
    let exists = BlockPredicate::DynamicPathExists { column: "a".into(), path: path() };
    let equals = BlockPredicate::DynamicPathEquals { column: "a".into(), path: path(), value: "GET".into() };
    let absent = Known { rows: Some(1), absent_paths: vec![path()], ..Known::default() };
    for predicate in [exists, equals] {
        assert_eq!(outcomes(&predicate, &absent), "{f, n}");
        assert_eq!(outcomes(&predicate, &Known::default()), "{t, f, n}");
    }
}

#[test]
fn hidden_evidence_says_which_kind_decided() {
    let e = Known { absent: vec![Scalar::Int(4)], ..ints(1, 9) };
    let with = |kinds: &[EvidenceKind]| evaluate(&int(Eq, 4), &Masked::new(&e, kinds)).skips();
    assert!(!with(&[EvidenceKind::Bounds, EvidenceKind::Distinct, EvidenceKind::Tokens]));
    assert!(with(&[EvidenceKind::Membership]));
    assert!(with(&EvidenceKind::ALL));
}
