//! Pruning against the rows themselves: an extent with a matching row always survives, and pruning does fire.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray};
use serde_json::{Value, json};

use super::*;
use crate::catalog::{EvidenceKind, PruneOptions, TableView};
use crate::predicate::rows::evaluate_rows;
use crate::predicate::text::{Like, parse_like};
use crate::predicate::{BlockPredicate, CompareOp, Scalar, TextPattern};

/// A small generator with a fixed seed: failures repeat.
pub(in crate::catalog) struct Random(u64);

impl Random {
    pub(in crate::catalog) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }
    pub(in crate::catalog) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

type Row = (Option<i64>, Option<String>, Option<String>, Option<i32>);

const SERVICES: [&str; 6] = ["auth-svc", "pay", "", "Kelvin", "search_svc", "a"];
const WORDS: [&str; 10] =
    ["OutOfMemoryError", "retry_count=3", "caf\u{e9}", "timeout", "x", "\u{212A}ilo", "fooXbar", "42", "oom", "-"];

/// Times around microsecond and nanosecond edges, before 2000 and before 1970 too.
fn time(random: &mut Random) -> i64 {
    let base = *random.pick(&[DAY_ONE, DAY_ONE + HOUR, 946_684_799_999_999_000, -HOUR, 0]);
    base + *random.pick(&[0, 1, 999, 1_000, 1_001, 2_000, 999_999])
}

fn row(random: &mut Random) -> Row {
    let null = |random: &mut Random| random.below(6) == 0;
    let at = (!null(random)).then(|| time(random));
    let service = (!null(random)).then(|| (*random.pick(&SERVICES)).to_owned());
    let words: Vec<&str> = (0..random.below(4)).map(|_| *random.pick(&WORDS)).collect();
    let message = (!null(random)).then(|| words.join(*random.pick(&[" ", "", "%", "_"])));
    let code = (!null(random)).then(|| *random.pick(&[0, 1, 2, 7, -1, i32::MAX]));
    (at, service, message, code)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let at: TimestampNanosecondArray = rows.iter().map(|r| r.0).collect();
    let service: StringArray = rows.iter().map(|r| r.1.as_deref()).collect();
    let message: StringArray = rows.iter().map(|r| r.2.as_deref()).collect();
    let code: Int32Array = rows.iter().map(|r| r.3).collect();
    RecordBatch::try_from_iter([
        ("at", Arc::new(at) as ArrayRef),
        ("service", Arc::new(service)),
        ("message", Arc::new(message)),
        ("code", Arc::new(code)),
    ])
    .unwrap()
}

/// Statistics as the reference's tokenizer and caps make them, with sets randomly missing.
fn stats(rows: &[Row], random: &mut Random) -> Value {
    let tokens = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|run| run.len() >= 2)
            .map(str::to_ascii_lowercase)
            .collect()
    };
    let mut unknown = |value: Value| if random.below(4) == 0 { Value::Null } else { value };
    let mut strings = |values: Vec<&String>| {
        let distinct: BTreeSet<&String> = values.iter().copied().collect();
        let tokens: BTreeSet<String> = values.iter().flat_map(|v| tokens(v)).collect();
        json!({"distinct": unknown(json!(distinct)), "tokens": unknown(json!(tokens))})
    };
    let service = strings(rows.iter().filter_map(|r| r.1.as_ref()).collect());
    let message = strings(rows.iter().filter_map(|r| r.2.as_ref()).collect());
    let codes: BTreeSet<i32> = rows.iter().filter_map(|r| r.3).collect();
    json!({"service": service, "message": message, "code": {"distinct": unknown(json!(codes)), "tokens": null}})
}

fn leaf(random: &mut Random) -> BlockPredicate {
    let op = *random.pick(&CompareOp::ALL);
    let instant = |random: &mut Random| i128::from(time(random));
    match random.below(9) {
        0 => {
            let start = (random.below(3) > 0).then(|| instant(random));
            let end = (random.below(3) > 0).then(|| instant(random));
            BlockPredicate::TimeRange { column: "at".into(), start, end }
        }
        1 => BlockPredicate::Compare { column: "at".into(), op, value: Scalar::TimestampNs(instant(random)) },
        2 => BlockPredicate::Compare {
            column: "service".into(),
            op,
            value: Scalar::Str((*random.pick(&SERVICES)).to_owned()),
        },
        3 => {
            let code = i128::from(*random.pick(&[0, 1, 3, 7, -1]));
            BlockPredicate::Compare { column: "code".into(), op, value: Scalar::Int(code) }
        }
        4 => {
            let mut values = vec![Scalar::Int(7), Scalar::Int(i128::from(random.below(5)))];
            if random.below(4) == 0 {
                values.push(Scalar::Null);
            }
            BlockPredicate::InSet { column: "code".into(), values }
        }
        5 => BlockPredicate::IsNull { column: (*random.pick(&["at", "service", "message", "code"])).into() },
        6 => BlockPredicate::Text {
            column: "message".into(),
            pattern: (*random.pick(&[TextPattern::contains, TextPattern::prefix, TextPattern::suffix]))(
                random.pick::<&str>(&["oom", "Memory", "count", "retry_count", "fooXbar", "3", "time"]),
            ),
        },
        7 => {
            let pattern =
                *random.pick(&["%oom%", "OutOf%", "foo_bar", "%retry_count%", "%k%", "caf_", "%out%=3", "timeout"]);
            let like = parse_like(pattern, None, random.below(2) == 0).unwrap();
            match like {
                Like::Equals(text) => {
                    BlockPredicate::Compare { column: "message".into(), op: CompareOp::Eq, value: Scalar::Str(text) }
                }
                Like::Pattern(pattern) => BlockPredicate::Text { column: "message".into(), pattern },
            }
        }
        _ => BlockPredicate::InSet {
            column: "service".into(),
            values: vec![Scalar::Str("pay".into()), Scalar::Str("nothing".into())],
        },
    }
}

fn predicate(random: &mut Random, depth: u32) -> BlockPredicate {
    if depth == 0 || random.below(3) == 0 {
        return leaf(random);
    }
    match random.below(3) {
        0 => BlockPredicate::And((0..2).map(|_| predicate(random, depth - 1)).collect()),
        1 => BlockPredicate::Or((0..2).map(|_| predicate(random, depth - 1)).collect()),
        _ => BlockPredicate::Not(Box::new(predicate(random, depth - 1))),
    }
}

/// Random extents and predicates: what pruning drops has no matching row.
pub(in crate::catalog) fn never_loses_a_row(catalog: &dyn Catalog, seed: u64, predicates: usize) {
    let mut random = Random::new(seed);
    create_logs(catalog);
    let mut contents = Vec::new();
    let mut view: Option<TableView> = None;
    for _ in 0..12 {
        let mut extents = Vec::new();
        for _ in 0..4 {
            let rows: Vec<Row> = (0..=random.below(3)).map(|_| row(&mut random)).collect();
            let times = || rows.iter().filter_map(|r| r.0);
            let mut new = extent(rows.len() as u64, 0, 0, stats(&rows, &mut random));
            let range =
                times().min().zip(times().max()).map_or(TimeRange::Empty, |(min, max)| TimeRange::Known(min, max));
            new.written.time_ranges.insert("at".to_owned(), range);
            contents.push((new.written.extent_id, batch(&rows)));
            extents.push(new);
        }
        view = Some(append(catalog, extents));
    }
    let view = view.unwrap();
    let mut skipped = 0;
    for _ in 0..predicates {
        let predicate = predicate(&mut random, 2);
        let pruned = catalog.prune(&view, &predicate, &PruneOptions::default()).unwrap();
        let kept: BTreeSet<Uuid> = pruned.extents.iter().map(|e| e.id).collect();
        for (id, rows) in &contents {
            let matches = evaluate_rows(&predicate, rows).iter().any(|outcome| outcome.may_be_true());
            assert!(kept.contains(id) || !matches, "seed {seed}: {predicate:?} loses {rows:?}");
        }
        let counts = pruned.counts;
        let ruled_out: u64 = EvidenceKind::ALL.iter().map(|kind| counts.skipped(*kind)).sum();
        assert_eq!(counts.extents_considered, contents.len() as u64, "{predicate:?}");
        assert_eq!(ruled_out + kept.len() as u64, contents.len() as u64, "{predicate:?}: {counts:?}");
        skipped += ruled_out;
    }
    assert!(skipped > 0, "nothing was ever ruled out");
}

/// Each kind of evidence rules out what it should, alone, and not when it is disabled.
pub(in crate::catalog) fn each_kind_fires(catalog: &dyn Catalog, paths: bool) {
    create_logs(catalog);
    let set = |service: &str, words: &[&str]| json!({"service": {"distinct": [service], "tokens": [service]}, "message": {"distinct": null, "tokens": words}});
    let a = with_paths(extent(3, DAY_ONE, DAY_ONE + 10_000, set("auth", &["outofmemoryerror"])), &["/http/method"]);
    let b = with_paths(extent(3, DAY_ONE + HOUR, DAY_ONE + HOUR, set("pay", &["timeout"])), &[]);
    let c = extent(3, DAY_ONE + 2 * HOUR, DAY_ONE + 2 * HOUR, json!({}));
    let [a_id, b_id, c_id] = [&a, &b, &c].map(|e| e.written.extent_id);
    let view = append(catalog, vec![a, b, c]);
    let compare = |column: &str, op, value| BlockPredicate::Compare { column: column.into(), op, value };
    let text = |needle: &str| BlockPredicate::Text { column: "message".into(), pattern: TextPattern::contains(needle) };
    let cases = [
        // An extent whose rows share one timestamp is found at exactly that time.
        (compare("at", CompareOp::Eq, Scalar::TimestampNs(i128::from(DAY_ONE + HOUR))), EvidenceKind::Time, vec![b_id]),
        (compare("at", CompareOp::LtEq, Scalar::TimestampNs(i128::from(DAY_ONE))), EvidenceKind::Time, vec![a_id]),
        (compare("service", CompareOp::Eq, Scalar::Str("auth".into())), EvidenceKind::Distinct, vec![a_id, c_id]),
        // A part of a word finds the word: the original loses this one.
        (text("Memory"), EvidenceKind::Tokens, vec![a_id, c_id]),
        (
            BlockPredicate::DynamicPathExists { column: "attributes".into(), path: vec!["http".into()] },
            EvidenceKind::Paths,
            if paths { vec![a_id, c_id] } else { vec![a_id, b_id, c_id] },
        ),
    ];
    for (predicate, kind, expected) in cases {
        let pruned = catalog.prune(&view, &predicate, &PruneOptions::default()).unwrap();
        let kept: BTreeSet<Uuid> = pruned.extents.iter().map(|e| e.id).collect();
        assert_eq!(kept, expected.iter().copied().collect(), "{predicate:?}");
        assert_eq!(pruned.counts.skipped(kind), 3 - expected.len() as u64, "{predicate:?}");
        // Tokens stand in for distinct sets that are not used.
        let without = PruneOptions::disabling([kind.name(), "tokens", "bloom"]);
        let all = catalog.prune(&view, &predicate, &without).unwrap();
        assert_eq!(all.extents.len(), 3, "{predicate:?}");
    }
}

#[test]
fn manifest_log_prunes_soundly() {
    for seed in 1..6 {
        never_loses_a_row(&*memory(), seed * 7919, 150);
    }
    each_kind_fires(&*memory(), true);
}
