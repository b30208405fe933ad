//! Stand-in until the evaluator is merged.

use super::{BlockPredicate, Evidence, Outcomes};

/// Knows nothing.
pub fn evaluate(_predicate: &BlockPredicate, _evidence: &dyn Evidence) -> Outcomes {
    Outcomes::ANY
}
