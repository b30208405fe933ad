//! Outcomes of single values: what a leaf predicate says about one value of its column. Distinct sets and rows both end here.

use std::cmp::Ordering;

use super::{CompareOp, Outcomes, Scalar};

impl CompareOp {
    /// Whether the operator holds for a value that stands in this order to the constant, both not NULL.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Eq | Self::NotDistinctFrom => order == Ordering::Equal,
            Self::NotEq | Self::DistinctFrom => order != Ordering::Equal,
            Self::Lt => order == Ordering::Less,
            Self::LtEq => order != Ordering::Greater,
            Self::Gt => order == Ordering::Greater,
            Self::GtEq => order != Ordering::Less,
        }
    }

    /// The operator with its operands exchanged: `5 < a` is `a > 5`.
    #[must_use]
    pub fn flipped(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
            Self::Eq | Self::NotEq | Self::DistinctFrom | Self::NotDistinctFrom => self,
        }
    }

    /// Whether NULL is compared like a value.
    pub fn is_distinct_operator(self) -> bool {
        matches!(self, Self::DistinctFrom | Self::NotDistinctFrom)
    }

    /// The outcome of this operator between NULL in the column and `value`.
    pub fn of_null(self, value: &Scalar) -> Outcomes {
        match self {
            Self::DistinctFrom => Outcomes::of(Some(!value.is_null())),
            Self::NotDistinctFrom => Outcomes::of(Some(value.is_null())),
            _ => Outcomes::NULL,
        }
    }

    /// The outcome of this operator between some non-NULL value of the column and NULL.
    pub fn with_null(self) -> Outcomes {
        match self {
            Self::DistinctFrom => Outcomes::TRUE,
            Self::NotDistinctFrom => Outcomes::FALSE,
            _ => Outcomes::NULL,
        }
    }
}

/// The outcome of `value op constant`, given how the value compares with a constant that is not NULL.
pub fn from_order(op: CompareOp, order: Option<Ordering>) -> Outcomes {
    match order {
        Some(order) => Outcomes::of(Some(op.holds(order))),
        None => Outcomes::TRUE_OR_FALSE,
    }
}

/// The outcome of `value IN (list)` for a value that is not NULL; `equal` compares it with a constant that is not NULL and
/// answers `None` if the two cannot be compared.
pub fn in_list(list: &[Scalar], equal: impl Fn(&Scalar) -> Option<bool>) -> Outcomes {
    list.iter().fold(Outcomes::FALSE, |found, constant| {
        let this = match constant {
            Scalar::Null => Outcomes::NULL,
            constant => equal(constant).map_or(Outcomes::TRUE_OR_FALSE, |equal| Outcomes::of(Some(equal))),
        };
        found.or(this)
    })
}

/// The outcome of `NULL IN (list)`: NULL, or FALSE for the empty list.
pub fn null_in_list(list: &[Scalar]) -> Outcomes {
    if list.is_empty() { Outcomes::FALSE } else { Outcomes::NULL }
}
