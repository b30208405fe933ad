//! Evidence computed from the data by the obvious loop, then weakened at random. Weakening never makes it a lie that a reader
//! would have to believe: bounds move outwards or become ones that must be ignored (reversed, of another type, NaN).

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use super::data::{COLUMNS, Data, Random};
use crate::predicate::{ColumnStats, Evidence, Scalar};
use crate::stats::tokens::collect_tokens;

#[derive(Debug, Default)]
struct Known {
    stats: Option<ColumnStats>,
    distinct: Option<Vec<Scalar>>,
    tokens: Option<Vec<String>>,
    membership: Option<Vec<Scalar>>,
}

#[derive(Debug)]
pub struct Computed {
    rows: Option<u64>,
    columns: HashMap<&'static str, Known>,
}

impl Computed {
    pub fn exact(data: &Data) -> Self {
        let mut columns = HashMap::new();
        for (name, _) in COLUMNS {
            let Some(array) = data.batch.column_by_name(name) else { continue };
            let all: Vec<Scalar> = (0..data.rows).map(|row| Scalar::from_array(array.as_ref(), row).unwrap()).collect();
            columns.insert(name, known(&all));
        }
        Self { rows: Some(u64::try_from(data.rows).unwrap()), columns }
    }

    pub fn weakened(data: &Data, random: &mut Random) -> Self {
        let mut this = Self::exact(data);
        if random.one_in(6) {
            this.rows = None;
        }
        let mut names: Vec<_> = this.columns.keys().copied().collect();
        names.sort_unstable();
        for name in names {
            let known = this.columns.get_mut(name).unwrap();
            if random.one_in(2) {
                known.distinct = None;
            }
            if random.one_in(3) {
                known.tokens = None;
            }
            if random.one_in(2) {
                known.membership = None;
            }
            let stats = known.stats.as_mut().unwrap();
            match random.below(12) {
                0 => known.stats = None,
                1 => stats.min = None,
                2 => stats.max = None,
                3 => stats.null_count = None,
                4 => stats.nan_count = None,
                5 => widen(stats, random),
                6 => truncate(stats),
                7 => {
                    (stats.min_exact, stats.max_exact) = (false, false);
                    stats.null_count = None;
                }
                8 => {
                    // Reversed: to be ignored. Equal bounds stay what they are.
                    std::mem::swap(&mut stats.min, &mut stats.max);
                }
                9 => {
                    let other =
                        if matches!(stats.min, Some(Scalar::Int(_))) { Scalar::Float(0.5) } else { Scalar::Int(7) };
                    *if random.one_in(2) { &mut stats.min } else { &mut stats.max } = Some(other);
                    (stats.min_exact, stats.max_exact) = (false, false);
                }
                10 if matches!(stats.min, Some(Scalar::Float(_))) => {
                    *if random.one_in(2) { &mut stats.min } else { &mut stats.max } = Some(Scalar::Float(f64::NAN));
                }
                _ => {}
            }
        }
        this
    }
}

impl Computed {
    /// What is known of these columns, for messages.
    pub fn about(&self, columns: &BTreeSet<&str>) -> String {
        let columns: Vec<_> = columns.iter().map(|name| (name, self.columns.get(name))).collect();
        format!("{:?} rows, {columns:?}", self.rows)
    }
}

fn known(all: &[Scalar]) -> Known {
    let values: Vec<&Scalar> = all.iter().filter(|v| !v.is_null()).collect();
    let ordered: Vec<&Scalar> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    let (mut min, mut max): (Option<&Scalar>, Option<&Scalar>) = (None, None);
    let mut distinct: Vec<Scalar> = Vec::new();
    for value in &ordered {
        if min.is_none_or(|m| value.compare(m) == Some(Ordering::Less)) {
            min = Some(value);
        }
        if max.is_none_or(|m| value.compare(m) == Some(Ordering::Greater)) {
            max = Some(value);
        }
    }
    for value in &values {
        if !distinct.iter().any(|d| d.compare(value) == Some(Ordering::Equal)) {
            distinct.push((*value).clone());
        }
    }
    let mut tokens = BTreeSet::new();
    values.iter().filter_map(|v| v.as_str()).for_each(|text| collect_tokens(text, &mut tokens));
    let is_text = values.iter().all(|v| v.as_str().is_some());
    let count = |n: usize| Some(u64::try_from(n).unwrap());
    Known {
        stats: Some(ColumnStats {
            min: min.cloned(),
            max: max.cloned(),
            min_exact: min.is_some(),
            max_exact: max.is_some(),
            null_count: count(all.len() - values.len()),
            nan_count: count(values.len() - ordered.len()),
        }),
        membership: Some(values.into_iter().cloned().collect()),
        distinct: Some(distinct),
        tokens: is_text.then(|| tokens.into_iter().collect()),
    }
}

fn widen(stats: &mut ColumnStats, random: &mut Random) {
    let by = i128::try_from(random.below(3)).unwrap();
    (stats.min_exact, stats.max_exact) = (false, false);
    for (bound, by) in [(&mut stats.min, -by), (&mut stats.max, by)] {
        match bound {
            Some(Scalar::Int(v) | Scalar::TimestampNs(v) | Scalar::Decimal { value: v, .. }) => *v += by,
            Some(Scalar::Date(v) | Scalar::TimeNs(v)) => *v += i64::try_from(by).unwrap(),
            _ => {}
        }
    }
}

/// Cuts strings to two characters, the upper one raised, as writers that truncate should.
fn truncate(stats: &mut ColumnStats) {
    if let Some(Scalar::Str(min)) = &stats.min
        && min.chars().count() > 2
    {
        stats.min = Some(Scalar::Str(min.chars().take(2).collect()));
        stats.min_exact = false;
    }
    if let Some(Scalar::Str(max)) = &stats.max
        && max.chars().count() > 2
    {
        let mut cut: Vec<char> = max.chars().take(2).collect();
        let raised = cut.pop().and_then(|c| char::from_u32(u32::from(c) + 1));
        stats.max = raised.map(|last| Scalar::Str(cut.into_iter().chain([last]).collect()));
        stats.max_exact = false;
    }
}

impl Evidence for Computed {
    fn row_count(&self) -> Option<u64> {
        self.rows
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.columns.get(name)?.stats.clone()
    }

    fn has_column(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        self.columns.get(name)?.distinct.as_deref()
    }

    fn tokens(&self, name: &str) -> Option<&[String]> {
        self.columns.get(name)?.tokens.as_deref()
    }

    /// Like a hash of the bits: the two zeros differ, and so do two NaN.
    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        let known = self.columns.get(name)?.membership.as_ref()?;
        let bits = |v: &Scalar| if let Scalar::Float(f) = v { Some(f.to_bits()) } else { None };
        // A test of membership only knows values of the stored type.
        if known.first().is_some_and(|first| !first.same_kind(value)) {
            return None;
        }
        Some(known.iter().any(|v| match (bits(v), bits(value)) {
            (Some(a), Some(b)) => a == b,
            _ => v == value,
        }))
    }
}
