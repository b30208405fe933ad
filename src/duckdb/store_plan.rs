//! Rows of `pensieve_plan`: what a scan of a store's table would read, and what it would skip and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use uuid::Uuid;

use super::store::PnsTable;
use crate::catalog::{ColumnType, EvidenceKind as StageOne, PruneOptions};
use crate::format::json_view::JsonView;
use crate::format::{BlockId, ExtentReader, RowRanges};
use crate::predicate::BlockPredicate;
use crate::scan::{Decision, EvidenceKind, Scan};
use crate::{Error, Result};

/// Schema of `pensieve_plan`.
pub(super) fn schema() -> SchemaRef {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("action", DataType::Utf8),
        field("evidence", DataType::Utf8),
        field("file", DataType::Utf8),
        field("row_group", DataType::UInt32),
        field("byte_offset", DataType::UInt64),
        field("byte_length", DataType::UInt64),
        field("row_count", DataType::UInt64),
        field("candidate_rows", DataType::UInt64),
    ]))
}

#[derive(Default)]
struct Rows {
    action: Vec<&'static str>,
    evidence: Vec<Option<&'static str>>,
    file: Vec<String>,
    row_group: Vec<Option<u32>>,
    offset: Vec<Option<u64>>,
    length: Vec<Option<u64>>,
    rows: Vec<u64>,
    candidates: Vec<u64>,
}

/// Decides on every extent and block of the table, without reading data. `open` opens the extent at a location as a scan would.
pub(super) fn rows(
    table: &PnsTable,
    predicate: &BlockPredicate,
    disabled: &[&str],
    open: &dyn Fn(&str) -> Result<Arc<dyn ExtentReader>>,
) -> Result<RecordBatch> {
    let mut out = Rows::default();
    let catalog = &table.catalog;
    // which evidence rules an extent out: the one without which it would stay, in the order they are tried
    let mut ruled_out: BTreeMap<Uuid, &'static str> = BTreeMap::new();
    let mut off: Vec<&str> = StageOne::ALL.iter().map(|kind| kind.name()).collect();
    let mut before = table.extents()?;
    let all = before.clone();
    for kind in StageOne::ALL {
        off.retain(|name| *name != kind.name());
        let names = off.iter().copied().chain(disabled.iter().copied());
        let kept = table.prune(predicate, &PruneOptions::disabling(names))?.extents;
        let live: std::collections::BTreeSet<Uuid> = kept.iter().map(|extent| extent.id).collect();
        for extent in before.iter().filter(|extent| !live.contains(&extent.id)) {
            ruled_out.entry(extent.id).or_insert(kind.name());
        }
        before = kept;
    }
    let dynamic: Vec<&str> = table
        .view
        .schema
        .columns
        .iter()
        .filter(|column| column.column_type == ColumnType::Dynamic)
        .map(|column| column.name.as_str())
        .collect();
    let scan = Scan::new("pensieve_plan", disabled);
    let committed = all.iter().map(|e| (ruled_out.get(&e.id).copied(), &e.object_path, e.byte_size, e.row_count));
    let pending = table.pending.append.iter().map(|e| &e.written);
    let pending = pending.map(|w| (None, &w.object_path, w.byte_size, w.row_count));
    for (skipped_by, object_path, bytes, row_count) in committed.chain(pending) {
        let location = catalog.extent_location(object_path);
        if let Some(evidence) = skipped_by {
            out.push("skip extent", Some(evidence), &location, None, Some((0, bytes)), row_count, 0);
            continue;
        }
        let extent = JsonView::wrap(open(&location)?, &dynamic);
        for (index, rows) in extent.metadata().block_rows.iter().enumerate() {
            let number = u32::try_from(index).map_err(|e| Error::InvalidInput(e.to_string()))?;
            let block = BlockId(number);
            let place = extent.block_location(block).map(|place| (place.offset, place.length));
            let before = skips(&scan);
            let candidates = match scan.claim(extent.as_ref(), block, Some(predicate), None) {
                Decision::Skip => RowRanges(Vec::new()),
                Decision::Read | Decision::ReadAll => scan.candidates(extent.as_ref(), block, Some(predicate))?,
            };
            let count = candidates.row_count();
            let by = skips(&scan).into_iter().zip(before).find(|(after, before)| after.1 > before.1).map(|(a, _)| a.0);
            let action = if count == 0 { "skip block" } else { "read" };
            out.push(action, by, &location, Some(number), place, *rows, count);
        }
    }
    out.finish()
}

/// What each kind of evidence has ruled out so far, blocks first, then rows.
fn skips(scan: &Scan) -> Vec<(&'static str, u64)> {
    let kinds = [EvidenceKind::Time, EvidenceKind::MinMax, EvidenceKind::Bloom, EvidenceKind::PageIndex];
    let of = |counters: &crate::scan::Evidences| {
        kinds.map(|kind| (kind.name(), counters.skipped(kind))).into_iter().collect::<Vec<_>>()
    };
    let mut all = of(&scan.counters.blocks);
    all.extend(of(&scan.counters.rows));
    all
}

impl Rows {
    #[expect(clippy::too_many_arguments, reason = "one argument per column of the listing")]
    fn push(
        &mut self,
        action: &'static str,
        evidence: Option<&'static str>,
        file: &str,
        row_group: Option<u32>,
        place: Option<(u64, u64)>,
        rows: u64,
        candidates: u64,
    ) {
        self.action.push(action);
        self.evidence.push(evidence);
        self.file.push(file.to_owned());
        self.row_group.push(row_group);
        self.offset.push(place.map(|(offset, _)| offset));
        self.length.push(place.map(|(_, length)| length));
        self.rows.push(rows);
        self.candidates.push(candidates);
    }

    fn finish(self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(self.action)),
            Arc::new(StringArray::from(self.evidence)),
            Arc::new(StringArray::from(self.file)),
            Arc::new(UInt32Array::from(self.row_group)),
            Arc::new(UInt64Array::from(self.offset)),
            Arc::new(UInt64Array::from(self.length)),
            Arc::new(UInt64Array::from(self.rows)),
            Arc::new(UInt64Array::from(self.candidates)),
        ];
        RecordBatch::try_new(schema(), columns).map_err(|e| Error::InvalidInput(e.to_string()))
    }
}
