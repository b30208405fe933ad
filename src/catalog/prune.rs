//! Stage 1 of the cascade: which extents may hold a row that satisfies a predicate. Evidence is tried from cheap to dear, time bounds,
//! distinct sets, token sets, paths, and an extent is counted under the first that rules it out.

use std::collections::BTreeSet;

use super::evidence::{Facts, TimeFacts};
use super::types::Extent;
use crate::predicate::{BlockPredicate, CompareOp, Evidence, Scalar};

/// A kind of evidence of stage 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// Bounds of the time column.
    Time,
    /// Sets of distinct values.
    Distinct,
    /// Sets of tokens.
    Tokens,
    /// Paths of dynamic columns.
    Paths,
}

impl EvidenceKind {
    /// All, in the order they are tried.
    pub const ALL: [Self; 4] = [Self::Time, Self::Distinct, Self::Tokens, Self::Paths];

    /// The name in counters and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Distinct => "distinct",
            Self::Tokens => "tokens",
            Self::Paths => "paths",
        }
    }
}

/// How to prune.
#[derive(Debug, Clone, Default)]
pub struct PruneOptions {
    /// Evidence not to use, for debugging and measuring.
    pub disabled: BTreeSet<EvidenceKind>,
}

impl PruneOptions {
    /// From the names of evidence kinds; names of other stages' evidence are ignored.
    pub fn disabling<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        Self { disabled: EvidenceKind::ALL.into_iter().filter(|kind| names.contains(kind.name())).collect() }
    }

    pub(crate) fn uses(&self, kind: EvidenceKind) -> bool {
        !self.disabled.contains(&kind)
    }
}

/// What stage 1 looked at and ruled out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneCounts {
    /// Extents of the view.
    pub extents_considered: u64,
    /// Extents ruled out by bounds of the time column (including those in skipped manifests).
    pub skipped_time: u64,
    /// Extents ruled out by sets of distinct values.
    pub skipped_distinct: u64,
    /// Extents ruled out by sets of tokens.
    pub skipped_tokens: u64,
    /// Extents ruled out by paths of dynamic columns.
    pub skipped_paths: u64,
    /// Manifests of the view (manifest log only).
    pub manifests_considered: u64,
    /// Manifests ruled out by their bounds without being read.
    pub manifests_skipped: u64,
    /// Requests to the catalog's store. Cached objects cost none.
    pub requests: u64,
    /// Bytes fetched from the catalog's store.
    pub bytes_read: u64,
    /// Evidence that could not be used, and why.
    pub notes: Vec<String>,
}

impl PruneCounts {
    /// Extents ruled out by `kind`.
    pub fn skipped(&self, kind: EvidenceKind) -> u64 {
        match kind {
            EvidenceKind::Time => self.skipped_time,
            EvidenceKind::Distinct => self.skipped_distinct,
            EvidenceKind::Tokens => self.skipped_tokens,
            EvidenceKind::Paths => self.skipped_paths,
        }
    }

    /// Counts `extents` more as ruled out by `kind`.
    pub(crate) fn skip(&mut self, kind: EvidenceKind, extents: u64) {
        let counter = match kind {
            EvidenceKind::Time => &mut self.skipped_time,
            EvidenceKind::Distinct => &mut self.skipped_distinct,
            EvidenceKind::Tokens => &mut self.skipped_tokens,
            EvidenceKind::Paths => &mut self.skipped_paths,
        };
        *counter = counter.saturating_add(extents);
    }

    /// Adds the counts of another part of the same view.
    pub(crate) fn add(&mut self, other: &Self) {
        self.extents_considered += other.extents_considered;
        self.manifests_considered += other.manifests_considered;
        self.manifests_skipped += other.manifests_skipped;
        self.requests += other.requests;
        self.bytes_read += other.bytes_read;
        for kind in EvidenceKind::ALL {
            self.skip(kind, other.skipped(kind));
        }
        for note in &other.notes {
            self.note(note);
        }
    }

    /// Adds a note once, and not without end.
    pub(crate) fn note(&mut self, note: &str) {
        if self.notes.len() < 16 && !self.notes.iter().any(|n| n == note) {
            self.notes.push(note.to_owned());
        }
    }
}

/// The outcome of stage 1.
#[derive(Debug, Clone, Default)]
pub struct Pruned {
    /// The extents in which some row may match, in the order they were added.
    pub extents: Vec<Extent>,
    /// What was considered and ruled out.
    pub counts: PruneCounts,
}

/// Whether some row of the set described by `evidence` may satisfy `predicate`.
pub(crate) fn may_match(predicate: &BlockPredicate, evidence: &dyn Evidence) -> bool {
    crate::predicate::eval::evaluate(predicate, evidence).may_be_true()
}

/// Which sets of which columns can say something about a predicate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Columns of comparisons, lists, text patterns and null tests.
    pub distinct: BTreeSet<String>,
    /// Columns of text patterns.
    pub tokens: BTreeSet<String>,
    /// Columns compared for equality with a string: tokens help where the distinct set overflowed.
    pub tokens_if_no_distinct: BTreeSet<String>,
    /// Columns of path conditions.
    pub paths: BTreeSet<String>,
}

impl Needs {
    /// What `predicate` needs.
    pub(crate) fn of(predicate: &BlockPredicate) -> Self {
        let mut needs = Self::default();
        needs.collect(predicate);
        needs
    }

    /// Whether time bounds are all that could help.
    pub(crate) fn is_empty(&self) -> bool {
        self.distinct.is_empty() && self.tokens.is_empty() && self.paths.is_empty()
    }

    fn collect(&mut self, predicate: &BlockPredicate) {
        match predicate {
            BlockPredicate::Unknown(_) | BlockPredicate::Constant(_) | BlockPredicate::TimeRange { .. } => {}
            BlockPredicate::Compare { column, op, value } => {
                let range = matches!(op, CompareOp::Lt | CompareOp::LtEq | CompareOp::Gt | CompareOp::GtEq);
                self.values(column, std::slice::from_ref(value), !range);
            }
            BlockPredicate::InSet { column, values } => self.values(column, values, true),
            BlockPredicate::IsNull { column } => {
                self.distinct.insert(column.clone());
            }
            BlockPredicate::Text { column, .. } | BlockPredicate::HasToken { column, .. } => {
                self.distinct.insert(column.clone());
                self.tokens.insert(column.clone());
            }
            BlockPredicate::DynamicPathExists { column, .. } | BlockPredicate::DynamicPathEquals { column, .. } => {
                self.paths.insert(column.clone());
            }
            BlockPredicate::And(parts) | BlockPredicate::Or(parts) => parts.iter().for_each(|part| self.collect(part)),
            BlockPredicate::Not(part) => self.collect(part),
        }
    }

    fn values(&mut self, column: &str, values: &[Scalar], equality: bool) {
        // Only strings and integers have sets; a time comparison is answered by the bounds.
        if values.iter().any(|v| !matches!(v, Scalar::TimestampNs(_) | Scalar::Date(_) | Scalar::TimeNs(_))) {
            self.distinct.insert(column.to_owned());
        }
        if equality && values.iter().any(|v| matches!(v, Scalar::Str(_))) {
            self.tokens_if_no_distinct.insert(column.to_owned());
        }
    }
}

/// Where the sets of one extent come from.
pub(crate) trait SetSource {
    /// Every distinct value of a column, if known.
    fn distinct(&self, column: &str) -> Option<Vec<Scalar>>;
    /// Every token of a column, sorted, if known.
    fn tokens(&self, column: &str) -> Option<Vec<String>>;
    /// Every path of a dynamic column, if known.
    fn paths(&self, column: &str) -> Option<Vec<String>>;
}

/// A predicate ready to be evaluated against many extents of one table.
pub(crate) struct Cascade<'a> {
    pub predicate: &'a BlockPredicate,
    pub needs: &'a Needs,
    pub options: &'a PruneOptions,
}

impl<'a> Cascade<'a> {
    /// Facts of the first stage: rows and time bounds.
    fn facts<'b>(&self, rows: u64, time: Option<TimeFacts<'b>>) -> Facts<'b>
    where
        'a: 'b,
    {
        let time = time.filter(|_| self.options.uses(EvidenceKind::Time));
        // A count that could not be read is 0: that proves nothing.
        Facts { rows: Some(rows).filter(|rows| *rows > 0), time, ..Facts::default() }
    }

    /// Whether rows with these time bounds may match. For extents and, with the bounds of all its extents, for a manifest.
    pub(crate) fn keeps_time(&self, rows: u64, time: Option<TimeFacts<'_>>) -> bool {
        may_match(self.predicate, &self.facts(rows, time))
    }

    /// The first evidence that rules out the extent, trying the sets of `source` after the bounds.
    pub(crate) fn ruled_out_by(
        &self,
        rows: u64,
        time: Option<TimeFacts<'_>>,
        source: &dyn SetSource,
    ) -> Option<EvidenceKind> {
        let mut facts = self.facts(rows, time);
        if !may_match(self.predicate, &facts) {
            return Some(EvidenceKind::Time);
        }
        if self.options.uses(EvidenceKind::Distinct) {
            for column in &self.needs.distinct {
                if let Some(set) = source.distinct(column) {
                    facts.distinct.insert(column, set);
                }
            }
            if !facts.distinct.is_empty() && !may_match(self.predicate, &facts) {
                return Some(EvidenceKind::Distinct);
            }
        }
        if self.options.uses(EvidenceKind::Tokens) {
            let fallback = self.needs.tokens_if_no_distinct.iter().filter(|c| !facts.distinct.contains_key(c.as_str()));
            for column in self.needs.tokens.iter().chain(fallback) {
                if let Some(set) = source.tokens(column) {
                    facts.tokens.insert(column, set);
                }
            }
            if !facts.tokens.is_empty() && !may_match(self.predicate, &facts) {
                return Some(EvidenceKind::Tokens);
            }
        }
        if self.options.uses(EvidenceKind::Paths) {
            for column in &self.needs.paths {
                if let Some(set) = source.paths(column) {
                    facts.paths.insert(column, set);
                }
            }
            if !facts.paths.is_empty() && !may_match(self.predicate, &facts) {
                return Some(EvidenceKind::Paths);
            }
        }
        None
    }
}
