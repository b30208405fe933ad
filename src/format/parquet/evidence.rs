//! Row-group statistics as evidence.

use std::sync::Arc;

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use super::bounds::{Bound, Raw, Stored, bounds};
use super::columns::{Column, Columns, Domain, Order};
use super::open::Footer;
use crate::predicate::{ColumnStats, Evidence};

/// What the statistics of one row group prove.
#[derive(Debug)]
pub(super) struct RowGroupEvidence {
    footer: Arc<Footer>,
    row_group: usize,
}

impl RowGroupEvidence {
    /// The evidence of row group `row_group` of `footer`.
    pub(super) fn new(footer: Arc<Footer>, row_group: usize) -> Self {
        Self { footer, row_group }
    }

    fn row_group(&self) -> Option<&RowGroupMetaData> {
        self.footer.metadata.row_groups().get(self.row_group)
    }
}

impl Evidence for RowGroupEvidence {
    fn row_count(&self) -> Option<u64> {
        self.footer.block_rows.get(self.row_group).copied()
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        let rows = self.row_count()?;
        column_stats(&self.footer.columns, self.row_group()?, rows, name)
    }

    fn has_column(&self, name: &str) -> bool {
        self.footer.columns.exists(name)
    }
}

/// What the statistics of `row_group` (of `rows` rows) prove about column `name`.
pub(super) fn column_stats(
    columns: &Columns,
    row_group: &RowGroupMetaData,
    rows: u64,
    name: &str,
) -> Option<ColumnStats> {
    let (column, leaf) = columns.primitive(name)?;
    let statistics = row_group.columns().get(leaf)?.statistics();
    let mut stats = ColumnStats {
        null_count: (!column.nullable).then_some(0),
        nan_count: without_nan(column).then_some(0),
        ..ColumnStats::default()
    };
    let Some(statistics) = statistics else { return Some(stats) };
    if stats.null_count.is_none() {
        // A count that no row group could have discredits the whole entry.
        match statistics.null_count_opt() {
            Some(nulls) if nulls > rows => return Some(stats),
            nulls => stats.null_count = nulls,
        }
    }
    if stats.nan_count.is_none() {
        stats.nan_count = statistics.nan_count_opt().filter(|nans| *nans <= rows);
    }
    let (min, max) = stored(statistics);
    if !may_compare(column, statistics.is_min_max_deprecated()) {
        return Some(stats);
    }
    let (min, max) = bounds(column, min, max);
    if stats.null_count == Some(rows) && (min.is_some() || max.is_some()) {
        // "All NULL" and bounds of values: one of them is wrong.
        stats.null_count = None;
        return Some(stats);
    }
    Some(with_bounds(stats, min, max))
}

/// `stats` with the bounds filled in.
pub(super) fn with_bounds(mut stats: ColumnStats, min: Option<Bound>, max: Option<Bound>) -> ColumnStats {
    if let Some(Bound { value, exact }) = min {
        stats.min = Some(value);
        stats.min_exact = exact;
    }
    if let Some(Bound { value, exact }) = max {
        stats.max = Some(value);
        stats.max_exact = exact;
    }
    stats
}

/// Whether values of the column cannot be NaN.
pub(super) fn without_nan(column: &Column) -> bool {
    !matches!(column.domain, Domain::Float | Domain::Unordered)
}

/// Whether the stored bounds follow the order of the column's domain. The deprecated pair was always compared as signed
/// numbers, and for byte arrays by bytes of either sign: only signed integers of one word come out right. Floats are left out
/// too: the writers of that time let NaN into the comparison.
pub(super) fn may_compare(column: &Column, deprecated: bool) -> bool {
    use parquet::basic::Type as Physical;
    if !deprecated {
        return column.order == Order::Typed;
    }
    matches!(column.physical, Physical::INT32 | Physical::INT64)
        && matches!(
            column.domain,
            Domain::Signed | Domain::Date | Domain::Time { .. } | Domain::Timestamp { .. } | Domain::Decimal { .. }
        )
}

fn stored(statistics: &Statistics) -> (Option<Stored<'_>>, Option<Stored<'_>>) {
    let pair = |min: Option<Raw<'static>>, max: Option<Raw<'static>>| {
        let exact = |raw| Stored { raw, exact: true };
        (min.map(exact), max.map(exact))
    };
    match statistics {
        Statistics::Boolean(s) => pair(s.min_opt().copied().map(Raw::Bool), s.max_opt().copied().map(Raw::Bool)),
        Statistics::Int32(s) => pair(s.min_opt().copied().map(Raw::I32), s.max_opt().copied().map(Raw::I32)),
        Statistics::Int64(s) => pair(s.min_opt().copied().map(Raw::I64), s.max_opt().copied().map(Raw::I64)),
        Statistics::Int96(_) => (None, None),
        Statistics::Float(s) => pair(s.min_opt().copied().map(Raw::F32), s.max_opt().copied().map(Raw::F32)),
        Statistics::Double(s) => pair(s.min_opt().copied().map(Raw::F64), s.max_opt().copied().map(Raw::F64)),
        Statistics::ByteArray(s) => (
            s.min_bytes_opt().map(|bytes| Stored { raw: Raw::Bytes(bytes), exact: s.min_is_exact() }),
            s.max_bytes_opt().map(|bytes| Stored { raw: Raw::Bytes(bytes), exact: s.max_is_exact() }),
        ),
        Statistics::FixedLenByteArray(s) => (
            s.min_bytes_opt().map(|bytes| Stored { raw: Raw::Bytes(bytes), exact: s.min_is_exact() }),
            s.max_bytes_opt().map(|bytes| Stored { raw: Raw::Bytes(bytes), exact: s.max_is_exact() }),
        ),
    }
}
