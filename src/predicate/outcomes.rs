//! Outcome sets: which of TRUE, FALSE and NULL a predicate may have over a set of rows.

use std::fmt;

/// A non-empty subset of {TRUE, FALSE, NULL}: the outcomes that *may* occur over a set of rows.
///
/// "Nothing is known" is [`Outcomes::ANY`]. AND, OR and NOT are Kleene's, lifted to sets: the result holds exactly the
/// outcomes that some choice of operands can produce. Lifting is monotone: a larger operand never gives a smaller result,
/// so a conservative answer stays conservative through any tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outcomes(u8);

const T: u8 = 1;
const F: u8 = 2;
const N: u8 = 4;

impl Outcomes {
    /// Every row is TRUE.
    pub const TRUE: Self = Self(T);
    /// Every row is FALSE.
    pub const FALSE: Self = Self(F);
    /// Every row is NULL.
    pub const NULL: Self = Self(N);
    /// No row is NULL.
    pub const TRUE_OR_FALSE: Self = Self(T | F);
    /// No row is FALSE.
    pub const TRUE_OR_NULL: Self = Self(T | N);
    /// No row is TRUE.
    pub const FALSE_OR_NULL: Self = Self(F | N);
    /// Nothing is known.
    pub const ANY: Self = Self(T | F | N);

    /// The set that holds one outcome; `None` is NULL.
    pub const fn of(outcome: Option<bool>) -> Self {
        match outcome {
            Some(true) => Self::TRUE,
            Some(false) => Self::FALSE,
            None => Self::NULL,
        }
    }

    /// The set of the flagged outcomes, or `None` when no flag is set.
    pub const fn from_flags(may_be_true: bool, may_be_false: bool, may_be_null: bool) -> Option<Self> {
        match bits(may_be_true, may_be_false, may_be_null) {
            0 => None,
            set => Some(Self(set)),
        }
    }

    /// Whether some row may be TRUE.
    pub const fn may_be_true(self) -> bool {
        self.0 & T != 0
    }

    /// Whether some row may be FALSE.
    pub const fn may_be_false(self) -> bool {
        self.0 & F != 0
    }

    /// Whether some row may be NULL.
    pub const fn may_be_null(self) -> bool {
        self.0 & N != 0
    }

    /// Whether a set of rows with these outcomes holds nothing for a WHERE clause.
    pub const fn skips(self) -> bool {
        !self.may_be_true()
    }

    /// Whether every row is TRUE: the row filter may be left out and counts may come from metadata.
    pub const fn is_satisfied(self) -> bool {
        self.0 == T
    }

    /// The outcomes of both sets: those of the rows of two row sets taken together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The outcomes that two independent proofs about the *same* rows leave. `None` if they contradict each other, which
    /// means that one of them is wrong: treat it as [`Outcomes::ANY`].
    pub const fn intersection(self, other: Self) -> Option<Self> {
        match self.0 & other.0 {
            0 => None,
            set => Some(Self(set)),
        }
    }

    /// Whether every outcome of `self` is in `other`.
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Kleene's AND.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let null = (self.may_be_null() && other.0 & (T | N) != 0) || (other.may_be_null() && self.0 & (T | N) != 0);
        Self(bits(self.may_be_true() && other.may_be_true(), self.may_be_false() || other.may_be_false(), null))
    }

    /// Kleene's OR.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        let null = (self.may_be_null() && other.0 & (F | N) != 0) || (other.may_be_null() && self.0 & (F | N) != 0);
        Self(bits(self.may_be_true() || other.may_be_true(), self.may_be_false() && other.may_be_false(), null))
    }

    /// Kleene's NOT: swaps TRUE and FALSE, keeps NULL.
    #[must_use]
    pub const fn not(self) -> Self {
        Self(bits(self.may_be_false(), self.may_be_true(), self.may_be_null()))
    }
}

const fn bits(may_be_true: bool, may_be_false: bool, may_be_null: bool) -> u8 {
    (if may_be_true { T } else { 0 }) | (if may_be_false { F } else { 0 }) | (if may_be_null { N } else { 0 })
}

impl fmt::Display for Outcomes {
    /// `{t, f, n}` with the letters that are in the set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(self.may_be_true(), "t"), (self.may_be_false(), "f"), (self.may_be_null(), "n")];
        let present: Vec<&str> = letters.iter().filter(|(in_set, _)| *in_set).map(|(_, letter)| *letter).collect();
        write!(f, "{{{}}}", present.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: [Option<bool>; 3] = [Some(true), Some(false), None];

    fn all() -> impl Iterator<Item = Outcomes> {
        (1..8).map(Outcomes)
    }

    fn members(set: Outcomes) -> impl Iterator<Item = Option<bool>> {
        SINGLE.into_iter().filter(move |o| Outcomes::of(*o).is_subset_of(set))
    }

    fn lift(a: Outcomes, b: Outcomes, op: fn(Option<bool>, Option<bool>) -> Option<bool>) -> Outcomes {
        let set = members(a).flat_map(|x| members(b).map(move |y| Outcomes::of(op(x, y)).0)).fold(0, |acc, x| acc | x);
        Outcomes(set)
    }

    fn kleene_and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
        match (a, b) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }

    fn kleene_or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
        match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    #[test]
    fn and_or_not_are_the_brute_force_lift_of_kleenes_tables_over_all_pairs() {
        for a in all() {
            let negated = members(a).map(|x| Outcomes::of(x.map(|x| !x)).0).fold(0, |acc, x| acc | x);
            assert_eq!(a.not(), Outcomes(negated), "NOT {a}");
            assert_eq!(a.not().not(), a);
            for b in all() {
                assert_eq!(a.and(b), lift(a, b, kleene_and), "{a} AND {b}");
                assert_eq!(a.or(b), lift(a, b, kleene_or), "{a} OR {b}");
                assert_eq!(a.and(b).not(), a.not().or(b.not()), "De Morgan {a} {b}");
            }
        }
    }

    #[test]
    fn set_operations_agree_with_membership() {
        for a in all() {
            assert_eq!(Outcomes::from_flags(a.may_be_true(), a.may_be_false(), a.may_be_null()), Some(a));
            assert_eq!(a.skips(), !members(a).any(|o| o == Some(true)));
            assert_eq!(a.is_satisfied(), members(a).eq([Some(true)]));
            for b in all() {
                for o in SINGLE {
                    let (in_a, in_b) = (members(a).any(|x| x == o), members(b).any(|x| x == o));
                    assert_eq!(members(a.union(b)).any(|x| x == o), in_a || in_b);
                    assert_eq!(a.intersection(b).is_some_and(|i| members(i).any(|x| x == o)), in_a && in_b);
                }
                assert_eq!(a.is_subset_of(b), a.union(b) == b);
            }
        }
        assert_eq!(Outcomes::from_flags(false, false, false), None);
    }

    #[test]
    fn lifting_is_monotone() {
        for a in all() {
            for wider in all().filter(|w| a.is_subset_of(*w)) {
                for b in all() {
                    assert!(a.and(b).is_subset_of(wider.and(b)));
                    assert!(a.or(b).is_subset_of(wider.or(b)));
                }
            }
        }
    }

    #[test]
    fn display_lists_the_members() {
        assert_eq!(Outcomes::ANY.to_string(), "{t, f, n}");
        assert_eq!(Outcomes::FALSE_OR_NULL.to_string(), "{f, n}");
        assert_eq!(Outcomes::TRUE.to_string(), "{t}");
    }
}
