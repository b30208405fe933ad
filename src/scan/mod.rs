//! The cascade over the blocks of open extents: which blocks to read, which of their rows, and the count of both.
//!
//! A [`Scan`] belongs to one table function call. It holds no cursor: the caller decides in which order blocks are claimed and
//! from how many threads, the scan decides what may be skipped and keeps the counters.

pub mod counters;
pub mod engine;
mod history;
pub mod rows;
pub mod windows;

use std::collections::BTreeSet;
use std::time::Instant;

use arrow::datatypes::DataType;

pub use counters::{Counters, EvidenceKind, Evidences};
pub use history::{Connection, last_scans, last_scans_schema, remember};

use crate::Result;
use crate::format::{BlockId, ExtentReader, RowRanges};
use crate::predicate::eval::evaluate;
use crate::predicate::{BlockPredicate, Outcomes};

/// What to do with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No row can satisfy the predicate.
    Skip,
    /// Some row may.
    Read,
    /// Every row does: the row filter need not run.
    ReadAll,
}

/// One scan of one table function call.
#[derive(Debug)]
pub struct Scan {
    /// What was considered, skipped and read.
    pub counters: Counters,
    disabled: BTreeSet<EvidenceKind>,
}

impl Scan {
    /// A scan of `source` (a path, for display) that ignores the evidence kinds named in `disabled` (unknown names are ignored).
    pub fn new(source: &str, disabled: &[&str]) -> Self {
        let disabled = disabled.iter().filter_map(|name| EvidenceKind::from_name(name.trim())).collect();
        Self { counters: Counters::new(source), disabled }
    }

    /// Whether a kind of evidence is in use.
    pub fn uses(&self, kind: EvidenceKind) -> bool {
        !self.disabled.contains(&kind)
    }

    /// Decides on a block by its statistics, without I/O. `fixed` is the query's filter, `dynamic` a bound that other operators
    /// tighten while the query runs. The kinds are asked in the order of the counters: time, other bounds, dynamic bounds.
    pub fn claim(
        &self,
        reader: &dyn ExtentReader,
        block: BlockId,
        fixed: Option<&BlockPredicate>,
        dynamic: Option<&BlockPredicate>,
    ) -> Decision {
        let started = Instant::now();
        self.counters.watch(reader);
        self.counters.blocks.consider(1);
        let Some(evidence) = reader.block_evidence(block) else {
            // without statistics only an empty block can be ruled out
            if reader.metadata().block_rows.get(block.0 as usize) == Some(&0) {
                self.counters.blocks.skip(EvidenceKind::MinMax, 1, started);
                return Decision::Skip;
            }
            return Decision::Read;
        };
        let conjuncts = fixed.map(conjuncts).unwrap_or_default();
        let mut all_hold = fixed.is_some();
        for (kind, on_time) in [(EvidenceKind::Time, true), (EvidenceKind::MinMax, false)] {
            if !self.uses(kind) {
                all_hold = false;
                continue;
            }
            for conjunct in conjuncts.iter().filter(|conjunct| is_on_time(reader, conjunct) == on_time) {
                let outcomes = evaluate(conjunct, evidence);
                if !outcomes.may_be_true() {
                    self.counters.blocks.skip(kind, 1, started);
                    return Decision::Skip;
                }
                all_hold &= outcomes == Outcomes::TRUE;
            }
        }
        if let Some(dynamic) = dynamic
            && self.uses(EvidenceKind::DynamicFilter)
            && !evaluate(dynamic, evidence).may_be_true()
        {
            self.counters.blocks.skip(EvidenceKind::DynamicFilter, 1, started);
            return Decision::Skip;
        }
        if all_hold { Decision::ReadAll } else { Decision::Read }
    }

    /// The rows of a claimed block worth decoding, by evidence that may need I/O (bloom filters, page index).
    ///
    /// # Errors
    /// When reading the evidence fails. Corrupt evidence is not an error: it proves nothing.
    pub fn candidates(
        &self,
        reader: &dyn ExtentReader,
        block: BlockId,
        fixed: Option<&BlockPredicate>,
    ) -> Result<RowRanges> {
        let rows = reader.metadata().block_rows.get(block.0 as usize).copied().unwrap_or(0);
        let started = Instant::now();
        if let Some(fixed) = fixed {
            // a bloom answer includes the bounds, so it is not asked where those are to be ignored
            let bloom =
                [EvidenceKind::Bloom, EvidenceKind::MinMax, EvidenceKind::Time].into_iter().all(|kind| self.uses(kind));
            if bloom && reader.has_finer_evidence() && !reader.evaluate_block(block, fixed)?.may_be_true() {
                self.counters.blocks.skip(EvidenceKind::Bloom, 1, started);
                return Ok(RowRanges(Vec::new()));
            }
            if self.uses(EvidenceKind::PageIndex) {
                let ranges = reader.candidate_rows(block, fixed)?;
                let kept = ranges.row_count();
                self.counters.rows.consider(rows);
                self.counters.rows.skip(EvidenceKind::PageIndex, rows.saturating_sub(kept), started);
                if kept > 0 {
                    self.counters.blocks.read(1);
                }
                return Ok(ranges);
            }
        }
        self.counters.rows.consider(rows);
        self.counters.blocks.read(1);
        Ok(RowRanges::all(rows))
    }
}

/// The conjuncts of a predicate: a predicate is skipped iff one of them cannot be true.
fn conjuncts(predicate: &BlockPredicate) -> Vec<&BlockPredicate> {
    match predicate {
        BlockPredicate::And(parts) => parts.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// Whether a conjunct restricts nothing but one timestamp column.
fn is_on_time(reader: &dyn ExtentReader, conjunct: &BlockPredicate) -> bool {
    let columns = conjunct.columns();
    let schema = &reader.metadata().schema;
    let mut names = columns.iter();
    match (names.next(), names.next()) {
        (Some(name), None) => schema
            .column_with_name(name)
            .is_some_and(|(_, field)| matches!(field.data_type(), DataType::Timestamp(_, _))),
        _ => false,
    }
}
