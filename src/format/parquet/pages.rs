//! From page statistics to the rows of a row group that may satisfy a predicate.
//!
//! Columns cut their pages at different rows. The whole predicate is evaluated over each stretch of rows that no page of an
//! involved column ends within, with what is known about the pages around the stretch.

use std::collections::BTreeSet;

use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use super::bloom::remember;
use super::bounds::{Raw, Stored, bounds};
use super::columns::Column;
use super::evidence::{RowGroupEvidence, may_compare, with_bounds};
use super::fetch::File;
use super::open::Footer;
use super::page_index::Wanted;
use crate::Result;
use crate::format::RowRanges;
use crate::predicate::eval::evaluate;
use crate::predicate::{BlockPredicate, ColumnStats, Evidence};

/// One involved column: what is known about each of its pages.
struct Paged<'a> {
    name: &'a str,
    /// First row of each page, ascending, beginning with 0.
    starts: Vec<u64>,
    /// What is known about each page.
    pages: Vec<ColumnStats>,
}

/// What is known about a stretch of rows.
struct Stretch<'a> {
    rows: u64,
    whole: &'a RowGroupEvidence,
    columns: Vec<(&'a str, ColumnStats)>,
}

impl Evidence for Stretch<'_> {
    fn row_count(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        match self.columns.iter().find(|(known, _)| *known == name) {
            Some((_, stats)) => Some(stats.clone()),
            None => Some(of_part(self.whole.column(name)?, self.whole.row_count()?, self.rows)),
        }
    }

    fn has_column(&self, name: &str) -> bool {
        self.whole.has_column(name)
    }
}

/// The rows of `row_group` that may satisfy `predicate` by the page index.
pub(super) fn candidate_rows(
    file: &File,
    footer: &Footer,
    whole: &RowGroupEvidence,
    row_group: usize,
    predicate: &BlockPredicate,
) -> Result<RowRanges> {
    let rows = whole.row_count().unwrap_or(0);
    let mut names = Vec::new();
    columns_of(predicate, &mut names);
    let involved: Vec<(&str, &Column, usize)> = names
        .into_iter()
        .filter_map(|name| footer.columns.primitive(name).map(|(column, leaf)| (name, column, leaf)))
        .collect();
    let wanted: Vec<Wanted> =
        involved.iter().map(|(_, _, leaf)| Wanted { row_group, leaf: *leaf, statistics: true }).collect();
    footer.page_index.load(file, &footer.metadata, &wanted)?;
    let paged: Vec<Paged<'_>> = involved
        .into_iter()
        .filter_map(|(name, column, leaf)| paged(footer, whole, row_group, rows, (name, column, leaf)))
        .collect();
    let mut cuts: BTreeSet<u64> = paged.iter().flat_map(|column| column.starts.iter().copied()).collect();
    if cuts.len() < 2 {
        return Ok(RowRanges::all(rows));
    }
    cuts.insert(rows);
    let cuts: Vec<u64> = cuts.into_iter().collect();
    let mut at = vec![0usize; paged.len()];
    let mut kept: Vec<std::ops::Range<u64>> = Vec::new();
    for (start, end) in cuts.iter().copied().zip(cuts.iter().copied().skip(1)) {
        let mut columns = Vec::with_capacity(paged.len());
        for (column, at) in paged.iter().zip(&mut at) {
            while column.starts.get(*at + 1).is_some_and(|next| *next <= start) {
                *at += 1;
            }
            let first = column.starts.get(*at).copied().unwrap_or(0);
            let last = column.starts.get(*at + 1).copied().unwrap_or(rows);
            if let Some(stats) = column.pages.get(*at) {
                columns.push((column.name, of_part(stats.clone(), last - first, end - start)));
            }
        }
        let stretch = Stretch { rows: end - start, whole, columns };
        if !evaluate(predicate, &stretch).may_be_true() {
            continue;
        }
        match kept.last_mut() {
            Some(before) if before.end == start => before.end = end,
            _ => kept.push(start..end),
        }
    }
    Ok(RowRanges(kept))
}

/// What `stats` of `all` rows say about `part` of those rows: bounds hold, but need not be reached; counts hold only at their
/// extremes.
fn of_part(mut stats: ColumnStats, all: u64, part: u64) -> ColumnStats {
    if all == part {
        return stats;
    }
    let share = |count: Option<u64>| match count {
        Some(0) => Some(0),
        Some(count) if count == all => Some(part),
        _ => None,
    };
    stats.min_exact = false;
    stats.max_exact = false;
    stats.null_count = share(stats.null_count);
    stats.nan_count = share(stats.nan_count);
    stats
}

fn paged<'a>(
    footer: &Footer,
    whole: &RowGroupEvidence,
    row_group: usize,
    rows: u64,
    (name, column, leaf): (&'a str, &Column, usize),
) -> Option<Paged<'a>> {
    let locations = footer.page_index.offset_index(row_group, leaf)?.page_locations();
    let index = footer.page_index.column_index(row_group, leaf)?;
    if index.num_pages() != u64::try_from(locations.len()).ok()? {
        return None;
    }
    let starts: Vec<u64> =
        locations.iter().map(|page| u64::try_from(page.first_row_index)).collect::<Result<_, _>>().ok()?;
    let chunk = whole.column(name)?;
    let mut pages = Vec::with_capacity(starts.len());
    for (page, start) in starts.iter().enumerate() {
        let end = starts.get(page + 1).copied().unwrap_or(rows);
        pages.push(page_stats(column, index, page, end.checked_sub(*start)?, rows, &chunk));
    }
    Some(Paged { name, starts, pages })
}

/// What the column index says about one page of `rows` rows, with what the chunk of `all` rows says where it is silent.
fn page_stats(
    column: &Column,
    index: &ColumnIndexMetaData,
    page: usize,
    rows: u64,
    all: u64,
    chunk: &ColumnStats,
) -> ColumnStats {
    let count = |counts: Option<&Vec<i64>>| {
        let count = counts.and_then(|counts| counts.get(page)).and_then(|count| u64::try_from(*count).ok());
        count.filter(|count| *count <= rows)
    };
    let inherited = of_part(chunk.clone(), all, rows);
    let mut stats = ColumnStats {
        null_count: if inherited.null_count == Some(0) { Some(0) } else { count(index.null_counts()) },
        nan_count: inherited.nan_count.filter(|nans| *nans == 0).or_else(|| count(index.nan_counts())),
        ..ColumnStats::default()
    };
    if index.is_null_page(page) {
        match stats.null_count {
            Some(nulls) if nulls != rows => stats.null_count = None,
            _ => stats.null_count = Some(rows),
        }
        return stats;
    }
    if may_compare(column, false) {
        let (min, max) = stored(index, page);
        let (min, max) = bounds(column, min, max);
        stats = with_bounds(stats, min, max);
        stats.min_exact = false;
        stats.max_exact = false;
        if stats.null_count == Some(rows) && (stats.min.is_some() || stats.max.is_some()) {
            stats = ColumnStats { nan_count: stats.nan_count, ..ColumnStats::default() };
        }
    }
    if stats.min.is_none() {
        stats.min = inherited.min;
    }
    if stats.max.is_none() {
        stats.max = inherited.max;
    }
    stats
}

/// The stored bounds of a page. The column index has no exactness flags: byte arrays may be cut.
fn stored(index: &ColumnIndexMetaData, page: usize) -> (Option<Stored<'_>>, Option<Stored<'_>>) {
    use ColumnIndexMetaData as I;
    let pair = |min: Option<Raw<'static>>, max: Option<Raw<'static>>| {
        let whole = |raw| Stored { raw, exact: true };
        (min.map(whole), max.map(whole))
    };
    match index {
        I::BOOLEAN(i) => pair(i.min_value(page).copied().map(Raw::Bool), i.max_value(page).copied().map(Raw::Bool)),
        I::INT32(i) => pair(i.min_value(page).copied().map(Raw::I32), i.max_value(page).copied().map(Raw::I32)),
        I::INT64(i) => pair(i.min_value(page).copied().map(Raw::I64), i.max_value(page).copied().map(Raw::I64)),
        I::INT96(_) => (None, None),
        I::FLOAT(i) => pair(i.min_value(page).copied().map(Raw::F32), i.max_value(page).copied().map(Raw::F32)),
        I::DOUBLE(i) => pair(i.min_value(page).copied().map(Raw::F64), i.max_value(page).copied().map(Raw::F64)),
        I::BYTE_ARRAY(i) | I::FIXED_LEN_BYTE_ARRAY(i) => {
            let cut = |bytes| Stored { raw: Raw::Bytes(bytes), exact: false };
            (i.min_value(page).map(cut), i.max_value(page).map(cut))
        }
    }
}

/// The columns that `predicate` speaks of, each once.
fn columns_of<'a>(predicate: &'a BlockPredicate, into: &mut Vec<&'a str>) {
    use BlockPredicate as P;
    match predicate {
        P::TimeRange { column, .. }
        | P::Compare { column, .. }
        | P::InSet { column, .. }
        | P::IsNull { column }
        | P::Text { column, .. } => {
            remember(column, into);
        }
        P::And(parts) | P::Or(parts) => parts.iter().for_each(|part| columns_of(part, into)),
        P::Not(inner) => columns_of(inner, into),
        // Tokens and paths of dynamic columns have no page statistics.
        _ => {}
    }
}
