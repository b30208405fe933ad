//! One predicate language for every level of the cascade, and the three-valued algebra that decides what may be skipped.

mod display;
pub mod eval;
#[cfg(test)]
mod eval_tests;
mod evidence;
pub mod fold;
pub mod lower;
pub mod outcomes;
#[cfg(test)]
mod property_tests;
pub mod rows;
pub mod scalar;
mod scalar_array;
mod simplify;
pub mod text;
pub mod value;

pub use eval::{evaluate, skips};
pub use evidence::{EvidenceKind, Masked};
pub use lower::lower_json;
pub use outcomes::Outcomes;
pub use rows::evaluate_rows;
pub use scalar::Scalar;
pub use scalar_array::nanos_per_unit;

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
    /// `IS DISTINCT FROM`
    DistinctFrom,
    /// `IS NOT DISTINCT FROM`
    NotDistinctFrom,
}

#[cfg(test)]
impl CompareOp {
    /// Every operator, for random predicates.
    pub(crate) const ALL: [Self; 8] =
        [Self::Eq, Self::NotEq, Self::Lt, Self::LtEq, Self::Gt, Self::GtEq, Self::DistinctFrom, Self::NotDistinctFrom];
}

/// How a string has to match a needle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPattern {
    /// Literal pieces in order, each of which must occur, without overlap, in this order. Never empty strings.
    pub pieces: Vec<String>,
    /// The first piece must stand at the very start of the value (`LIKE 'a%'`, `prefix`).
    pub anchored_start: bool,
    /// The last piece must stand at the very end of the value (`LIKE '%a'`, `suffix`).
    pub anchored_end: bool,
    /// Case-insensitive by Unicode folding (`ILIKE`).
    pub case_insensitive: bool,
    /// Whether `pieces` is the whole condition. `false` when the pattern also has `_` wildcards, a minimum length, or came
    /// from a regular expression: then a match of the pieces is necessary, not sufficient.
    pub exact: bool,
}

/// A condition on the rows of one table, in the only language the cascade evaluates. Columns are named as in the file.
///
/// The variants of the storage format's reference are all here (`TimeRange`, `Equals` as [`BlockPredicate::Compare`] with
/// [`CompareOp::Eq`], `InSet`, `StringHas` as [`BlockPredicate::Text`], `DynamicPathExists`, `DynamicPathEquals`, `And`, `Or`,
/// `Not`), plus typed ranges and null tests.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockPredicate {
    /// Nothing is known about this condition: any outcome may occur. The text says why, for the user.
    Unknown(String),
    /// The same outcome for every row.
    Constant(Option<bool>),
    /// `start <= column < end`, both in nanoseconds since the Unix epoch; a missing bound is open.
    TimeRange {
        /// Column name.
        column: String,
        /// Inclusive lower bound.
        start: Option<i128>,
        /// Exclusive upper bound.
        end: Option<i128>,
    },
    /// `column op value`. A NULL value makes the outcome NULL for every row (except for the DISTINCT operators).
    Compare {
        /// Column name.
        column: String,
        /// The operator, with the column on the left.
        op: CompareOp,
        /// The constant.
        value: Scalar,
    },
    /// `column IN (values)`; a NULL among the values turns "not found" into NULL.
    InSet {
        /// Column name.
        column: String,
        /// The list.
        values: Vec<Scalar>,
    },
    /// `column IS NULL`.
    IsNull {
        /// Column name.
        column: String,
    },
    /// A string column matches a pattern; NULL for NULL.
    Text {
        /// Column name.
        column: String,
        /// The pattern.
        pattern: TextPattern,
    },
    /// `has_token(column, 'word')`: holding the token is necessary, not sufficient, so this is never certainly TRUE.
    HasToken {
        /// Column name.
        column: String,
        /// The word. If it is not one whole token (see [`crate::stats::tokens::is_token`]) nothing is concluded.
        token: String,
    },
    /// The dynamic column holds a value (JSON null included) at `path`, a JSONPath-like list of member names.
    DynamicPathExists {
        /// Column name.
        column: String,
        /// Member names from the root.
        path: Vec<String>,
    },
    /// The value at `path` of the dynamic column, as text, equals `value`.
    DynamicPathEquals {
        /// Column name.
        column: String,
        /// Member names from the root.
        path: Vec<String>,
        /// The text compared with.
        value: String,
    },
    /// All of them, by Kleene's AND. Empty is TRUE.
    And(Vec<BlockPredicate>),
    /// Any of them, by Kleene's OR. Empty is FALSE.
    Or(Vec<BlockPredicate>),
    /// Kleene's NOT.
    Not(Box<BlockPredicate>),
}

/// What some evidence knows about one column over a set of rows (a block, an extent, a page). Every field may be unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnStats {
    /// No non-null, non-NaN value is smaller. Compared in the type of the stored value.
    pub min: Option<Scalar>,
    /// No non-null, non-NaN value is larger.
    pub max: Option<Scalar>,
    /// `min` is the value of some row (not truncated).
    pub min_exact: bool,
    /// `max` is the value of some row (not truncated).
    pub max_exact: bool,
    /// How many rows are NULL.
    pub null_count: Option<u64>,
    /// How many rows are NaN. `Some(0)` for types that have no NaN; `None` when the writer did not say.
    pub nan_count: Option<u64>,
}

/// Something that knows about a set of rows: statistics of a block, an extent's distinct and token sets, a bloom filter.
/// Every answer may be "unknown"; a wrong answer loses rows.
pub trait Evidence {
    /// How many rows the set has, if known.
    fn row_count(&self) -> Option<u64>;
    /// Bounds and counts of a column, if known.
    fn column(&self, name: &str) -> Option<ColumnStats>;
    /// Whether a column exists in the file. A column that does not exist is NULL in every row.
    fn has_column(&self, name: &str) -> bool {
        let _ = name;
        true
    }
    /// Every distinct non-null value of the column, if known.
    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        let _ = name;
        None
    }
    /// Every token of the column (see `stats::tokens`), sorted, if known.
    fn tokens(&self, name: &str) -> Option<&[String]> {
        let _ = name;
        None
    }
    /// `Some(false)` proves that no row holds `value`; anything else proves nothing.
    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        let _ = (name, value);
        None
    }
    /// `Some(false)` proves that no row of a text column holds `piece` anywhere; anything else proves nothing.
    fn may_hold_text(&self, name: &str, piece: &str) -> Option<bool> {
        let _ = (name, piece);
        None
    }
    /// `Some(false)` proves that no row of the dynamic column has `path`.
    fn may_have_path(&self, name: &str, path: &[String]) -> Option<bool> {
        let _ = (name, path);
        None
    }
}
