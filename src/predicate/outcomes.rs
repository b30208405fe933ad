//! Outcome sets: which of TRUE, FALSE and NULL a predicate may have over a set of rows.

/// A non-empty subset of {TRUE, FALSE, NULL}.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outcomes(u8);
