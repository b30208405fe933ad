//! Outcome sets: which of TRUE, FALSE and NULL a predicate may have over a set of rows.

/// A non-empty subset of {TRUE, FALSE, NULL}.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outcomes(u8);

impl Outcomes {
    /// Nothing is known.
    pub const ANY: Self = Self(7);

    /// Whether some row may be TRUE.
    pub const fn may_be_true(self) -> bool {
        self.0 & 1 != 0
    }
}
