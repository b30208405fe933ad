//! The evaluator: which outcomes a predicate may have over a set of rows, given the evidence about them.
//!
//! Each leaf starts from "NULL may occur" and "a value may occur", settled by null counts, and narrows the outcomes of the
//! values by every piece of evidence in turn. A piece that is missing, of another type than the constant, reversed or in
//! contradiction with another one is unknown; unknown keeps the rows.

use std::cmp::Ordering;

use super::value::{from_order, in_list, null_in_list};
use super::{BlockPredicate, ColumnStats, CompareOp, Evidence, Outcomes, Scalar, TextPattern};
use crate::stats::tokens;

/// Which outcomes `predicate` may have over the rows that `evidence` describes. Rows are worth reading iff TRUE is among them.
/// A set of no rows has no outcome; it answers [`Outcomes::FALSE`], so that it is skipped.
pub fn evaluate(predicate: &BlockPredicate, evidence: &dyn Evidence) -> Outcomes {
    if evidence.row_count() == Some(0) {
        return Outcomes::FALSE;
    }
    tree(predicate, evidence)
}

/// Whether a set of rows with these outcomes may be left unread.
pub fn skips(outcomes: Outcomes) -> bool {
    outcomes.skips()
}

fn tree(predicate: &BlockPredicate, evidence: &dyn Evidence) -> Outcomes {
    match predicate {
        BlockPredicate::Unknown(_) => Outcomes::ANY,
        BlockPredicate::Constant(outcome) => Outcomes::of(*outcome),
        BlockPredicate::And(parts) => {
            let mut all = Outcomes::TRUE;
            for part in parts {
                all = all.and(tree(part, evidence));
                if all == Outcomes::FALSE {
                    break;
                }
            }
            all
        }
        BlockPredicate::Or(parts) => {
            let mut any = Outcomes::FALSE;
            for part in parts {
                any = any.or(tree(part, evidence));
                if any == Outcomes::TRUE {
                    break;
                }
            }
            any
        }
        BlockPredicate::Not(part) => tree(part, evidence).not(),
        BlockPredicate::Compare { column, op, value } => Column::new(column, evidence).compare(*op, value),
        BlockPredicate::TimeRange { column, start, end } => {
            let column = Column::new(column, evidence);
            let bound = |op, nanos: Option<i128>| {
                nanos.map_or(column.not_null(), |nanos| column.compare(op, &Scalar::TimestampNs(nanos)))
            };
            bound(CompareOp::GtEq, *start).and(bound(CompareOp::Lt, *end))
        }
        BlockPredicate::InSet { column, values } => Column::new(column, evidence).in_set(values),
        BlockPredicate::IsNull { column } => {
            let column = Column::new(column, evidence);
            column.outcomes(Outcomes::FALSE, Outcomes::TRUE)
        }
        BlockPredicate::Text { column, pattern } => Column::new(column, evidence).text(pattern),
        BlockPredicate::HasToken { column, token } => Column::new(column, evidence).has_token(token),
        BlockPredicate::DynamicPathExists { column, path } => {
            let outcomes = if evidence.may_have_path(column, path) == Some(false) {
                Outcomes::FALSE_OR_NULL
            } else {
                Outcomes::ANY
            };
            Column::new(column, evidence).outcomes(outcomes, Outcomes::NULL)
        }
        BlockPredicate::DynamicPathEquals { column, path, value: _ } => {
            let outcomes = if evidence.may_have_path(column, path) == Some(false) {
                Outcomes::FALSE_OR_NULL
            } else {
                Outcomes::ANY
            };
            Column::new(column, evidence).outcomes(outcomes, Outcomes::NULL)
        }
    }
}

/// What is known about one column, with everything that contradicts itself taken out.
struct Column<'a> {
    name: &'a str,
    evidence: &'a dyn Evidence,
    /// Some row may be NULL.
    may_be_null: bool,
    /// Some row may hold a value. At least one of the two is set.
    may_hold_value: bool,
    /// No value that is not NaN is smaller.
    lower: Option<Scalar>,
    /// No value that is not NaN is larger.
    upper: Option<Scalar>,
    /// The writer counted NaN and found none.
    no_nan: bool,
    /// Every distinct value; not empty.
    distinct: Option<&'a [Scalar]>,
    tokens: Option<&'a [String]>,
}

impl<'a> Column<'a> {
    fn new(name: &'a str, evidence: &'a dyn Evidence) -> Self {
        let mut column = Self {
            name,
            evidence,
            may_be_null: true,
            may_hold_value: false,
            lower: None,
            upper: None,
            no_nan: false,
            distinct: None,
            tokens: None,
        };
        if !evidence.has_column(name) {
            return column;
        }
        let stats = evidence.column(name).unwrap_or_default();
        // A bound that is the value of some row proves that there is one.
        let holds_value = (stats.min.is_some() && stats.min_exact) || (stats.max.is_some() && stats.max_exact);
        column.may_hold_value = true;
        match (stats.null_count, evidence.row_count()) {
            (Some(nulls), Some(rows)) if nulls > rows => {}
            (Some(0), _) => column.may_be_null = false,
            (Some(nulls), Some(rows)) => column.may_hold_value = nulls < rows || holds_value,
            _ => {}
        }
        match evidence.distinct(name) {
            // No value at all: every row is NULL, unless something else saw a value.
            Some([]) => column.may_hold_value &= !column.may_be_null || holds_value,
            Some(values) if values.iter().any(Scalar::is_null) => {}
            values => column.distinct = values,
        }
        column.tokens = evidence.tokens(name);
        column.no_nan = stats.nan_count == Some(0);
        (column.lower, column.upper) = bounds(stats);
        column
    }

    /// The outcomes of the rows, from those of the values and that of NULL.
    fn outcomes(&self, of_values: Outcomes, of_null: Outcomes) -> Outcomes {
        match (self.may_hold_value, self.may_be_null) {
            (true, true) => of_values.union(of_null),
            (true, false) => of_values,
            (false, _) => of_null,
        }
    }

    /// TRUE for values, NULL for NULL.
    fn not_null(&self) -> Outcomes {
        self.outcomes(Outcomes::TRUE, Outcomes::NULL)
    }

    fn compare(&self, op: CompareOp, constant: &Scalar) -> Outcomes {
        let of_values = if constant.is_null() { op.with_null() } else { self.compare_values(op, constant) };
        self.outcomes(of_values, op.of_null(constant))
    }

    fn compare_values(&self, op: CompareOp, constant: &Scalar) -> Outcomes {
        let mut proof = Proof::new();
        proof.add(self.compare_by_bounds(op, constant));
        if let Some(values) = self.distinct {
            proof.add(over(values, |value| from_order(op, order(value, constant))));
        }
        let equality = match op {
            CompareOp::Eq | CompareOp::NotDistinctFrom => Some(Outcomes::FALSE),
            CompareOp::NotEq | CompareOp::DistinctFrom => Some(Outcomes::TRUE),
            _ => None,
        };
        if let Some(absent) = equality
            && self.lacks(constant)
        {
            proof.add(absent);
        }
        proof.outcomes
    }

    fn compare_by_bounds(&self, op: CompareOp, constant: &Scalar) -> Outcomes {
        let lower = self.lower.as_ref().and_then(|bound| order(bound, constant));
        let upper = self.upper.as_ref().and_then(|bound| order(bound, constant));
        // Which orders to the constant a value that is not NaN may have.
        let less = !matches!(lower, Some(Ordering::Equal | Ordering::Greater));
        let greater = !matches!(upper, Some(Ordering::Equal | Ordering::Less));
        let equal = lower != Some(Ordering::Greater) && upper != Some(Ordering::Less);
        // Writers leave NaN out of their bounds, and NaN exceeds every bound: it joins in unless it was counted as absent.
        let nan = (self.may_hold_nan(constant)).then(|| order(&Scalar::Float(f64::NAN), constant)).flatten();
        let possible = [
            less.then_some(Ordering::Less),
            equal.then_some(Ordering::Equal),
            greater.then_some(Ordering::Greater),
            nan,
        ];
        possible
            .into_iter()
            .flatten()
            .map(|order| from_order(op, Some(order)))
            .reduce(Outcomes::union)
            .unwrap_or(Outcomes::TRUE_OR_FALSE)
    }

    fn may_hold_nan(&self, constant: &Scalar) -> bool {
        !self.no_nan && matches!(constant, Scalar::Float(_))
    }

    /// Whether some evidence of membership proves that no row equals `constant`.
    fn lacks(&self, constant: &Scalar) -> bool {
        if let (Scalar::Str(text), Some(set)) = (constant, self.tokens)
            && !tokens::fragments(text, true, true, |_| false).iter().all(|fragment| fragment.may_occur(set))
        {
            return true;
        }
        let absent = |value: &Scalar| self.evidence.may_contain(self.name, value) == Some(false);
        match constant {
            // Two NaN may differ in their bits and so in their hash; the two zeros do differ and are equal.
            Scalar::Float(float) if float.is_nan() => false,
            Scalar::Float(float) if *float == 0.0 => absent(&Scalar::Float(0.0)) && absent(&Scalar::Float(-0.0)),
            constant => absent(constant),
        }
    }

    fn in_set(&self, list: &[Scalar]) -> Outcomes {
        let mut proof = Proof::new();
        let by_constant = list.iter().fold(Outcomes::FALSE, |found, constant| {
            if found == Outcomes::TRUE {
                return found;
            }
            let this = match constant {
                Scalar::Null => Outcomes::NULL,
                constant => self.compare_values(CompareOp::Eq, constant),
            };
            found.or(this)
        });
        proof.add(by_constant);
        if let Some(values) = self.distinct {
            let lookup = Lookup::new(list, values.len());
            proof.add(over(values, |value| lookup.find(value)));
        }
        self.outcomes(proof.outcomes, null_in_list(list))
    }

    fn text(&self, pattern: &TextPattern) -> Outcomes {
        let unknown = pattern.match_unknown();
        let mut proof = Proof { outcomes: unknown, broken: false };
        let (lower, upper) = (self.lower.as_ref(), self.upper.as_ref());
        // A bound of another kind says that the column is no string column.
        if [lower, upper].iter().flatten().all(|bound| bound.as_str().is_some()) {
            let (lower, upper) = (lower.and_then(Scalar::as_str), upper.and_then(Scalar::as_str));
            proof.add(pattern.match_bounds(lower, upper));
            if let (Some(lower), Some(upper)) = (lower, upper)
                && lower == upper
            {
                proof.add(pattern.match_value(lower));
            }
        }
        if let Some(values) = self.distinct {
            proof.add(over(values, |value| value.as_str().map_or(unknown, |v| pattern.match_value(v))));
        }
        let absent = |piece: &String| self.evidence.may_hold_text(self.name, piece) == Some(false);
        if self.tokens.is_some_and(|set| !pattern.tokens_allow(set))
            || (!pattern.case_insensitive && pattern.pieces.iter().any(absent))
        {
            proof.add(Outcomes::FALSE);
        }
        self.outcomes(proof.outcomes, Outcomes::NULL)
    }

    fn has_token(&self, token: &str) -> Outcomes {
        let mut proof = Proof { outcomes: Outcomes::TRUE_OR_FALSE, broken: false };
        if tokens::is_token(token) {
            if let Some(values) = self.distinct {
                proof.add(over(values, |value| value.as_str().map_or(Outcomes::TRUE_OR_FALSE, |v| token_in(v, token))));
            }
            let fragments = tokens::fragments(token, true, true, |_| false);
            if self.tokens.is_some_and(|set| !fragments.iter().all(|fragment| fragment.may_occur(set))) {
                proof.add(Outcomes::FALSE);
            }
        }
        self.outcomes(proof.outcomes, Outcomes::NULL)
    }
}

/// The outcome of `has_token(value, token)`: holding the token is necessary for TRUE, not sufficient (the function may be
/// stricter about case).
pub fn token_in(value: &str, token: &str) -> Outcomes {
    if !tokens::is_token(token) || tokens::has_token(value, token) { Outcomes::TRUE_OR_FALSE } else { Outcomes::FALSE }
}

/// The bounds that can be believed: not NULL, not NaN, not reversed, of one type.
fn bounds(stats: ColumnStats) -> (Option<Scalar>, Option<Scalar>) {
    let usable = |bound: &Scalar| !bound.is_null() && !bound.is_nan();
    let (lower, upper) = (stats.min.filter(usable), stats.max.filter(usable));
    match (&lower, &upper) {
        (Some(min), Some(max)) => match order(min, max) {
            Some(Ordering::Less) => (lower, upper),
            // Truncated strings whose upper bound was cut but not raised look like this.
            Some(Ordering::Equal)
                if matches!(min, Scalar::Str(_) | Scalar::Bytes(_)) && !(stats.min_exact && stats.max_exact) =>
            {
                (lower, None)
            }
            Some(Ordering::Equal) => (lower, upper),
            Some(Ordering::Greater) | None => (None, None),
        },
        _ => (lower, upper),
    }
}

/// The order of two values of one kind; `None` for kinds that the engine would convert first.
fn order(value: &Scalar, constant: &Scalar) -> Option<Ordering> {
    if value.same_kind(constant) { value.compare(constant) } else { None }
}

fn over(values: &[Scalar], outcome: impl Fn(&Scalar) -> Outcomes) -> Outcomes {
    let mut all: Option<Outcomes> = None;
    for value in values {
        let this = outcome(value);
        let union = all.map_or(this, |all| all.union(this));
        if union == Outcomes::ANY {
            return union;
        }
        all = Some(union);
    }
    all.unwrap_or(Outcomes::ANY)
}

/// Independent proofs about the same values, narrowed one by the other. Two that contradict each other void all.
struct Proof {
    outcomes: Outcomes,
    broken: bool,
}

impl Proof {
    fn new() -> Self {
        Self { outcomes: Outcomes::ANY, broken: false }
    }

    fn add(&mut self, outcomes: Outcomes) {
        match self.outcomes.intersection(outcomes) {
            Some(both) if !self.broken => self.outcomes = both,
            _ => {
                self.broken = true;
                self.outcomes = Outcomes::ANY;
            }
        }
    }
}

/// An IN list prepared for many lookups: a linear walk for small work, sorted for large.
struct Lookup<'a> {
    list: &'a [Scalar],
    /// The constants, sorted, if all are of one kind (NULL aside).
    sorted: Option<Vec<&'a Scalar>>,
}

impl<'a> Lookup<'a> {
    fn new(list: &'a [Scalar], lookups: usize) -> Self {
        let mut sorted = None;
        if list.len() > 16 && lookups > 16 {
            let mut values: Vec<&Scalar> = list.iter().filter(|constant| !constant.is_null()).collect();
            if values.windows(2).all(|pair| matches!(pair, [a, b] if a.same_kind(b))) {
                values.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
                sorted = Some(values);
            }
        }
        Self { list, sorted }
    }

    fn find(&self, value: &Scalar) -> Outcomes {
        match self.sorted.as_deref() {
            Some([first, ..]) if first.same_kind(value) => {
                let sorted = self.sorted.as_deref().unwrap_or_default();
                if sorted.binary_search_by(|c| c.compare(value).unwrap_or(Ordering::Equal)).is_ok() {
                    Outcomes::TRUE
                } else if sorted.len() < self.list.len() {
                    Outcomes::NULL
                } else {
                    Outcomes::FALSE
                }
            }
            _ => in_list(self.list, |constant| order(value, constant).map(Ordering::is_eq)),
        }
    }
}
