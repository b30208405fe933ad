//! Smaller predicates with the same outcomes, and questions about a predicate's parts.

use std::collections::BTreeSet;

use super::BlockPredicate;

impl BlockPredicate {
    /// The same predicate with nested AND and OR flattened, constants folded by Kleene's rules, double negations removed and
    /// single-armed connectives unwrapped. Over any rows its outcomes are those of the original or fewer.
    #[must_use]
    pub fn simplify(self) -> Self {
        match self {
            Self::And(parts) => Self::connective(parts, true),
            Self::Or(parts) => Self::connective(parts, false),
            Self::Not(part) => match part.simplify() {
                Self::Constant(outcome) => Self::Constant(outcome.map(|value| !value)),
                Self::Not(inner) => *inner,
                Self::Unknown(reason) => Self::Unknown(reason),
                other => Self::Not(Box::new(other)),
            },
            Self::TimeRange { column, start: None, end: None } => not_null_or_null(column),
            other => other,
        }
    }

    /// AND (`neutral` TRUE, absorbed by FALSE) or OR (the other way round).
    fn connective(parts: Vec<Self>, neutral: bool) -> Self {
        let mut kept = Vec::with_capacity(parts.len());
        let mut has_null = false;
        for part in parts {
            let flat = match (part.simplify(), neutral) {
                (Self::And(inner), true) | (Self::Or(inner), false) => inner,
                (other, _) => vec![other],
            };
            for part in flat {
                match part {
                    Self::Constant(Some(value)) if value == neutral => {}
                    Self::Constant(Some(value)) => return Self::Constant(Some(value)),
                    Self::Constant(None) => has_null = true,
                    other => kept.push(other),
                }
            }
        }
        if has_null {
            kept.push(Self::Constant(None));
        }
        match (kept.pop(), kept.is_empty()) {
            (None, _) => Self::Constant(Some(neutral)),
            (Some(only), true) => only,
            (Some(last), false) => {
                kept.push(last);
                if neutral { Self::And(kept) } else { Self::Or(kept) }
            }
        }
    }

    /// Why the parts of this predicate that say nothing say nothing, in order.
    pub fn unknown_reasons(&self) -> Vec<&str> {
        let mut reasons = Vec::new();
        self.visit(&mut |part| {
            if let Self::Unknown(reason) = part {
                reasons.push(reason.as_str());
            }
        });
        reasons
    }

    /// The names of the columns that this predicate asks about.
    pub fn columns(&self) -> BTreeSet<&str> {
        let mut columns = BTreeSet::new();
        self.visit(&mut |part| {
            if let Self::TimeRange { column, .. }
            | Self::Compare { column, .. }
            | Self::InSet { column, .. }
            | Self::IsNull { column }
            | Self::Text { column, .. }
            | Self::HasToken { column, .. }
            | Self::DynamicPathExists { column, .. }
            | Self::DynamicPathEquals { column, .. } = part
            {
                columns.insert(column.as_str());
            }
        });
        columns
    }

    fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.visit(visit)),
            Self::Not(part) => part.visit(visit),
            _ => {}
        }
    }
}

/// TRUE where the column has a value, NULL where it has none: what a test that always holds comes to.
pub(super) fn not_null_or_null(column: String) -> BlockPredicate {
    let value = BlockPredicate::Not(Box::new(BlockPredicate::IsNull { column }));
    BlockPredicate::Or(vec![value, BlockPredicate::Constant(None)])
}

/// FALSE where the column has a value, NULL where it has none: what a test that never holds comes to.
pub(super) fn null_or_false(column: String) -> BlockPredicate {
    BlockPredicate::And(vec![BlockPredicate::IsNull { column }, BlockPredicate::Constant(None)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use BlockPredicate::{And, Constant, Not, Or, Unknown};

    fn null(column: &str) -> BlockPredicate {
        BlockPredicate::IsNull { column: column.into() }
    }

    fn not(part: BlockPredicate) -> BlockPredicate {
        Not(Box::new(part))
    }

    #[test]
    fn flattens_and_folds() {
        let t = || Constant(Some(true));
        let f = || Constant(Some(false));
        assert_eq!(
            And(vec![t(), And(vec![null("a"), And(vec![null("b")])])]).simplify(),
            And(vec![null("a"), null("b")])
        );
        assert_eq!(And(vec![null("a"), Or(vec![f(), And(vec![f()])])]).simplify(), f());
        assert_eq!(Or(vec![null("a"), t()]).simplify(), t());
        assert_eq!(Or(vec![]).simplify(), f());
        assert_eq!(And(vec![]).simplify(), t());
        assert_eq!(And(vec![Constant(None), t(), Constant(None)]).simplify(), Constant(None));
        assert_eq!(And(vec![Constant(None), f()]).simplify(), f());
        assert_eq!(Or(vec![Constant(None), null("a")]).simplify(), Or(vec![null("a"), Constant(None)]));
        assert_eq!(not(not(null("a"))).simplify(), null("a"));
        assert_eq!(not(And(vec![])).simplify(), f());
        assert_eq!(not(Unknown("x".into())).simplify(), Unknown("x".into()));
        assert_eq!(not(Constant(None)).simplify(), Constant(None));
    }

    #[test]
    fn lists_reasons_and_columns() {
        let predicate = And(vec![Unknown("one".into()), not(Or(vec![null("b"), Unknown("two".into()), null("a")]))]);
        assert_eq!(predicate.unknown_reasons(), ["one", "two"]);
        assert_eq!(predicate.columns().into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
