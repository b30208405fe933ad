//! Evidence with some of its kinds hidden: to find out which kind made a set of rows skippable, and to switch kinds off.

use super::{ColumnStats, Evidence, Scalar};

/// The kinds of evidence that [`Evidence`] can give, in the order of their cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvidenceKind {
    /// Smallest and largest value, NULL and NaN counts.
    Bounds,
    /// The set of distinct values.
    Distinct,
    /// The set of tokens.
    Tokens,
    /// Paths of dynamic columns.
    Paths,
    /// Bloom filters and other tests of membership.
    Membership,
}

impl EvidenceKind {
    /// Every kind, cheapest first.
    pub const ALL: [Self; 5] = [Self::Bounds, Self::Distinct, Self::Tokens, Self::Paths, Self::Membership];

    /// The name users see and give in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bounds => "minmax",
            Self::Distinct => "distinct",
            Self::Tokens => "tokens",
            Self::Paths => "paths",
            Self::Membership => "bloom",
        }
    }
}

/// Evidence of which only some kinds show. Row counts and the list of columns always do.
pub struct Masked<'a> {
    inner: &'a dyn Evidence,
    shown: &'a [EvidenceKind],
}

impl<'a> Masked<'a> {
    /// `inner` with only the kinds in `shown`.
    pub fn new(inner: &'a dyn Evidence, shown: &'a [EvidenceKind]) -> Self {
        Self { inner, shown }
    }

    fn shows(&self, kind: EvidenceKind) -> bool {
        self.shown.contains(&kind)
    }
}

impl Evidence for Masked<'_> {
    fn row_count(&self) -> Option<u64> {
        self.inner.row_count()
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        if self.shows(EvidenceKind::Bounds) { self.inner.column(name) } else { None }
    }

    fn has_column(&self, name: &str) -> bool {
        self.inner.has_column(name)
    }

    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        if self.shows(EvidenceKind::Distinct) { self.inner.distinct(name) } else { None }
    }

    fn tokens(&self, name: &str) -> Option<&[String]> {
        if self.shows(EvidenceKind::Tokens) { self.inner.tokens(name) } else { None }
    }

    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        if self.shows(EvidenceKind::Membership) { self.inner.may_contain(name, value) } else { None }
    }

    fn may_have_path(&self, name: &str, path: &[String]) -> Option<bool> {
        if self.shows(EvidenceKind::Paths) { self.inner.may_have_path(name, path) } else { None }
    }
}
