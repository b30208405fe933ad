//! Random predicates over random data with random evidence: no row's outcome may be missing from what the evaluator allows.
//!
//! Deterministic. `PENSIEVE_PROPERTY_CASES` sets the number of cases of each test (default 20,000), `PENSIEVE_PROPERTY_SEED`
//! another starting point.

mod data;
mod evidence;
mod reference;

use super::*;
use data::{COLUMNS, Data, Random, strings};
use evidence::Computed;
use reference::Expr;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `case` the configured number of times over fresh data, five cases per data set. Counts how often it says so.
fn run(mut case: impl FnMut(&mut Random, &Data) -> bool) -> (u64, u64) {
    let cases = setting("PENSIEVE_PROPERTY_CASES", 20_000);
    let seed = setting("PENSIEVE_PROPERTY_SEED", 1);
    let mut hits = 0;
    for batch in 0..cases.div_ceil(5) {
        let mut random = Random(seed.wrapping_mul(0x0dd0_95e5).wrapping_add(batch));
        let data = Data::random(&mut random);
        for _ in 0..5 {
            hits += u64::from(case(&mut random, &data));
        }
    }
    (cases, hits)
}

/// DuckDB's semantics, written down a second time over SQL conditions, against lowering, rows and evidence together.
#[test]
fn no_outcome_of_a_sql_condition_is_missing_from_rows_or_evidence() {
    let (cases, decided) = run(|random, data| {
        let expr = Expr::random(random, data, 3);
        let json = expr.json().to_string();
        let lowered = lower_json(&json);
        let evidence = Computed::weakened(data, random);
        let allowed = evaluate(&lowered, &evidence);
        let exact = evaluate(&lowered, &Computed::exact(data));
        let by_row = evaluate_rows(&lowered, &data.batch);
        for (row, by_row) in by_row.iter().enumerate() {
            let Ok(actual) = expr.eval(data, row) else { continue };
            let context = || {
                let about = evidence.about(&lowered.columns());
                let values = COLUMNS.iter().zip(&data.columns).map(|((name, _), v)| (name, &v[row]));
                format!("row {row} is {actual}\n{json}\nlowered: {lowered}\n{:?}\n{about}", values.collect::<Vec<_>>())
            };
            assert!(actual.is_subset_of(*by_row), "rows say {by_row}: {}", context());
            assert!(actual.is_subset_of(allowed), "evidence allows {allowed}: {}", context());
            assert!(actual.is_subset_of(exact), "exact evidence allows {exact}: {}", context());
        }
        data.rows > 0 && !allowed.may_be_true() || allowed.is_satisfied()
    });
    // The test is worth nothing if the evidence never decides anything.
    assert!(decided * 5 > cases, "only {decided} of {cases} were decided");
}

/// Predicates built directly, with shapes and types that lowering never makes.
#[test]
fn no_outcome_of_a_row_is_missing_from_evidence() {
    let (cases, decided) = run(|random, data| {
        let predicate = any_predicate(random, data, 3);
        let simple = predicate.clone().simplify();
        let evidence = Computed::weakened(data, random);
        let allowed = evaluate(&predicate, &evidence);
        let exact = evaluate(&predicate, &Computed::exact(data));
        let simplified = evaluate(&simple, &evidence);
        let by_row = evaluate_rows(&predicate, &data.batch);
        for (row, actual) in by_row.iter().enumerate() {
            let context = || format!("row {row} is {actual}: {predicate}\n{}", evidence.about(&predicate.columns()));
            assert!(actual.is_subset_of(allowed), "evidence allows {allowed}, {}", context());
            assert!(actual.is_subset_of(exact), "exact evidence allows {exact}, {}", context());
            assert!(actual.is_subset_of(simplified), "as {simple} {simplified}, {}", context());
        }
        let by_row_simple = evaluate_rows(&simple, &data.batch);
        assert!(
            by_row_simple.iter().zip(&by_row).all(|(simple, full)| simple.is_subset_of(*full)),
            "{predicate} to {simple}"
        );
        data.rows > 0 && !allowed.may_be_true() || allowed.is_satisfied()
    });
    assert!(decided * 5 > cases, "only {decided} of {cases} were decided");
}

/// Hiding kinds of evidence only ever allows more.
#[test]
fn less_evidence_allows_more() {
    run(|random, data| {
        let predicate = any_predicate(random, data, 2);
        let evidence = Computed::exact(data);
        let all = evaluate(&predicate, &evidence);
        let shown: Vec<EvidenceKind> = EvidenceKind::ALL.into_iter().filter(|_| random.one_in(2)).collect();
        let some = evaluate(&predicate, &Masked::new(&evidence, &shown));
        assert!(all.is_subset_of(some), "{predicate}: {all}, but {some} with {shown:?} only");
        false
    });
}

fn any_predicate(random: &mut Random, data: &Data, depth: usize) -> BlockPredicate {
    if depth > 0 && random.one_in(2) {
        let parts =
            |random: &mut Random| (0..random.below(4)).map(|_| any_predicate(random, data, depth - 1)).collect();
        return match random.below(3) {
            0 => BlockPredicate::And(parts(random)),
            1 => BlockPredicate::Or(parts(random)),
            _ => BlockPredicate::Not(Box::new(any_predicate(random, data, depth - 1))),
        };
    }
    let column = random.pick(&COLUMNS).0.to_owned();
    match random.below(10) {
        0..=3 => {
            let op = *random.pick(&CompareOp::ALL);
            let value = any_scalar(random, data, &column);
            BlockPredicate::Compare { column, op, value }
        }
        4 => {
            let nanos = |random: &mut Random| match any_scalar(random, data, "ts_ns") {
                Scalar::TimestampNs(nanos) => Some(nanos),
                _ => None,
            };
            let column = (*random.pick(&["ts", "ts_ns", "ts_s", "tz", "i64", "missing"])).to_owned();
            BlockPredicate::TimeRange { column, start: nanos(random), end: nanos(random) }
        }
        5 | 6 => {
            let length = *random.pick(&[0, 1, 2, 3, 30]);
            let values = (0..length).map(|_| any_scalar(random, data, &column)).collect();
            BlockPredicate::InSet { column, values }
        }
        7 => match random.below(4) {
            0 => BlockPredicate::Unknown("a reason".into()),
            1 => BlockPredicate::Constant(*random.pick(&[None, Some(true), Some(false)])),
            2 => BlockPredicate::HasToken { column, token: random.pick(&strings()).clone() },
            _ => BlockPredicate::IsNull { column },
        },
        _ => {
            let column = (*random.pick(&["s", "dict", "allnull", "i64"])).to_owned();
            let all = strings();
            let pieces = (0..random.below(3)).map(|_| random.pick(&all).clone()).filter(|p| !p.is_empty()).collect();
            let pattern = TextPattern {
                pieces,
                anchored_start: random.one_in(2),
                anchored_end: random.one_in(2),
                case_insensitive: random.one_in(2),
                exact: random.one_in(2),
            };
            BlockPredicate::Text { column, pattern }
        }
    }
}

/// A value that occurs in the column, or a hostile one of any type.
fn any_scalar(random: &mut Random, data: &Data, column: &str) -> Scalar {
    if random.one_in(15) {
        return Scalar::Null;
    }
    let same_column = COLUMNS.iter().position(|(name, _)| *name == column).unwrap();
    let from = if random.one_in(8) { random.below(COLUMNS.len()) } else { same_column };
    let (name, ty) = COLUMNS[from];
    if random.one_in(2)
        && data.rows > 0
        && let Some(array) = data.batch.column_by_name(name)
        && let Some(value) = Scalar::from_array(array.as_ref(), random.below(data.rows))
    {
        return match value {
            // The other zero: equal, with other bits.
            Scalar::Float(zero) if zero == 0.0 && random.one_in(2) => Scalar::Float(-zero),
            value => value,
        };
    }
    let value = random.pick(&data::pool(ty)).clone();
    let json = serde_json::json!({
        "k": "cmp", "op": "=", "l": {"k": "col", "name": "x", "type": ty.name()}, "r": reference::constant_json(ty, &value),
    });
    match lower_json(&json.to_string()) {
        BlockPredicate::Compare { value, .. } => value,
        other => panic!("{other}"),
    }
}
