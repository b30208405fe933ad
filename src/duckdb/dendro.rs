//! dendro streams as tables of the shim (`cpp/include/pensieve_dendro_ffi.h`): binding, pruning by the catalog, and segments as
//! extents.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::ffi::FFI_ArrowSchema;
use serde::Deserialize;

use super::ffi::{guard, guard_value, text, to_c_text};
use super::reader::{PnsReader, REGISTRY};
use super::scan::{PnsPredicate, PnsScan};
use crate::dendro::{
    Archive, Catalog, SchemaScope, Segment, SegmentEvidence, Selection, Snapshot, StreamTable, TableSchema,
    TimeColumnChoice,
};
use crate::format::{BlockId, BlockLocation, ExtentMetadata, ExtentReader, RowRanges};
use crate::predicate::{BlockPredicate, Evidence, Outcomes};
use crate::scan::{Decision, EvidenceKind, Scan};
use crate::storage::IoCounters;
use crate::{Error, Result};

/// A stream as a table: the segments of one instant and their columns. Holds no transaction, so it may live long.
pub struct PnsDendro(pub(super) Arc<Bound>);

pub(super) struct Bound {
    archive: Archive,
    /// The snapshot of the statement that it was bound for, while that statement runs.
    statement: Weak<Snapshot>,
    table: StreamTable,
    schema: TableSchema,
    pub(super) segments: Vec<Segment>,
    /// What the archive is missing, for the user.
    warnings: Vec<String>,
}

/// The segments of one scan, read in one snapshot.
pub struct PnsDendroScan {
    pub(super) bound: Arc<Bound>,
    pub(super) snapshot: Arc<Snapshot>,
    /// Indices into the table's segments, ascending.
    pub(super) segments: Vec<usize>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct BindOptions {
    source: Option<String>,
    stream: Option<String>,
    labels: BTreeMap<String, String>,
    union_by_name: bool,
    ts_column: Option<String>,
}

/// How a stream is bound, beside its name.
#[derive(Debug, Clone)]
pub(super) struct BindChoices {
    pub(super) selection: Selection,
    scope: SchemaScope,
    time: TimeColumnChoice,
}

/// Parses the options of `pns_dendro_bind`.
pub(super) fn choices(options: &str) -> Result<BindChoices> {
    let options: BindOptions = serde_json::from_str(options).map_err(|e| Error::InvalidInput(e.to_string()))?;
    let selection = Selection { source: options.source, stream: options.stream, labels: options.labels };
    let scope = if options.union_by_name { SchemaScope::All } else { SchemaScope::Sample };
    let time = match options.ts_column {
        None => TimeColumnChoice::Infer,
        Some(name) if name.is_empty() => TimeColumnChoice::Off,
        Some(name) => TimeColumnChoice::Named(name),
    };
    Ok(BindChoices { selection, scope, time })
}

fn bind(path: &str, options: &str) -> Result<Bound> {
    let choices = choices(options)?;
    let archive = Archive::open(path)?;
    archive.read(|snapshot| Bound::new(archive.clone(), snapshot, Weak::new(), &snapshot.catalog()?, &choices))
}

/// What the catalog says of one segment, as an extent of one block that can only be claimed.
struct CatalogExtent<'a> {
    metadata: &'a ExtentMetadata,
    evidence: SegmentEvidence,
    io: &'a Arc<IoCounters>,
}

impl CatalogExtent<'_> {
    fn unread<T>() -> Result<T> {
        Err(Error::InvalidInput("the catalog holds no rows".into()))
    }
}

impl ExtentReader for CatalogExtent<'_> {
    fn metadata(&self) -> &ExtentMetadata {
        self.metadata
    }
    fn io_counters(&self) -> Arc<IoCounters> {
        self.io.clone()
    }
    fn block_evidence(&self, _: BlockId) -> Option<&dyn Evidence> {
        Some(&self.evidence)
    }
    fn block_location(&self, _: BlockId) -> Option<BlockLocation> {
        None
    }
    fn evaluate_block(&self, _: BlockId, _: &BlockPredicate) -> Result<Outcomes> {
        Self::unread()
    }
    fn pruned_blocks(&self, _: &BlockPredicate) -> Result<Vec<BlockId>> {
        Self::unread()
    }
    fn read_block(&self, _: BlockId, _: &[usize]) -> Result<RecordBatch> {
        Self::unread()
    }
    fn read_rows(&self, _: BlockId, _: &[usize], _: &RowRanges) -> Result<RecordBatch> {
        Self::unread()
    }
}

impl Bound {
    /// The stream that `choices` names, by `catalog`, with the columns that its segments have in `snapshot`.
    pub(super) fn new(
        archive: Archive,
        snapshot: &Arc<Snapshot>,
        statement: Weak<Snapshot>,
        catalog: &Catalog,
        choices: &BindChoices,
    ) -> Result<Self> {
        let format = REGISTRY.by_name("parquet")?;
        let table = catalog.table(&choices.selection)?;
        let schema = snapshot.table_schema(&table, format.as_ref(), choices.scope, &choices.time)?;
        let segments = table.segments();
        let warnings = catalog.warnings.iter().chain(&schema.unreadable).cloned().collect();
        Ok(Self { archive, statement, table, schema, segments, warnings })
    }

    /// The snapshot to read segments in: the statement's while it can be read. Segments do not change, so a later one shows the
    /// same rows, or that a segment is gone.
    fn snapshot(&self) -> Result<Arc<Snapshot>> {
        match self.statement.upgrade() {
            Some(statement) if !statement.changed_at_rest() => Ok(Arc::new(statement.share())),
            _ => self.archive.snapshot(),
        }
    }

    /// The segments that `predicate` leaves, by the catalog alone. Counts them as the scan's extents.
    fn survivors(&self, scan: &Scan, disabled: &[&str], predicate: Option<&BlockPredicate>) -> Vec<usize> {
        let started = Instant::now();
        let files = &scan.counters.files;
        files.consider(u64::try_from(self.segments.len()).unwrap_or(u64::MAX));
        let metadata = ExtentMetadata {
            format: "dendro",
            version: String::new(),
            schema: Arc::new(self.claim_schema()),
            block_rows: vec![1],
            byte_size: 0,
            stats_rejected: None,
        };
        let io = Arc::new(IoCounters::default());
        // decides as the scan does, but its blocks are our segments
        let probe = Scan::new("", disabled);
        let kept: Vec<usize> = self
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| {
                let evidence = SegmentEvidence::new(&self.schema, segment);
                let extent = CatalogExtent { metadata: &metadata, evidence, io: &io };
                predicate.is_none() || probe.claim(&extent, BlockId(0), predicate, None) != Decision::Skip
            })
            .map(|(index, _)| index)
            .collect();
        for kind in [EvidenceKind::Time, EvidenceKind::MinMax] {
            let skipped = probe.counters.blocks.skipped(kind);
            if skipped > 0 {
                files.skip(kind, skipped, started);
            }
        }
        kept
    }

    /// The table's schema, with the row timestamps as a timestamp whatever their type: a test of them is a test of time.
    fn claim_schema(&self) -> Schema {
        let time = self.schema.time_column().map(|time| time.index);
        let instant = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let fields = self.schema.schema().fields().iter().enumerate().map(|(index, field)| {
            if Some(index) == time { Arc::new(Field::new(field.name(), instant.clone(), true)) } else { field.clone() }
        });
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// What a scan does not return, and what cannot be read, for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        self.table.unread_tails().iter().map(ToString::to_string).chain(self.warnings.iter().cloned()).collect()
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_bind(
    path: *const c_char,
    options: *const c_char,
    out: *mut *mut PnsDendro,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let bound = bind(&text(path), &text(options))?;
            *out = Box::into_raw(Box::new(PnsDendro(Arc::new(bound))));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_free(dendro: *mut PnsDendro) {
    if !dendro.is_null() {
        // SAFETY: made by `pns_dendro_bind` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(dendro) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_schema(
    dendro: *const PnsDendro,
    out: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let bound = &(*dendro).0;
            let exported = FFI_ArrowSchema::try_from(bound.schema.schema().as_ref())
                .map_err(|e| Error::unsupported(bound.table.path.clone(), e.to_string()))?;
            std::ptr::write(out, exported);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_stream(dendro: *const PnsDendro) -> *mut c_char {
    // SAFETY: by the header's contract.
    guard_value(std::ptr::null_mut(), || to_c_text(&unsafe { &*dendro }.0.table.name))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_segment_count(dendro: *const PnsDendro) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || u64::try_from(unsafe { &*dendro }.0.segments.len()).unwrap_or(u64::MAX))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_row_estimate(dendro: *const PnsDendro) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || unsafe { &*dendro }.0.segments.iter().fold(0, |sum: u64, s| sum.saturating_add(s.info.rows)))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_start(
    dendro: *const PnsDendro,
    scan: *const PnsScan,
    disabled: *const c_char,
    fixed: *const PnsPredicate,
    strict: c_int,
    out: *mut *mut PnsDendroScan,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let bound = (*dendro).0.clone();
            let scan = &(*scan).0;
            if strict != 0 {
                bound
                    .table
                    .require_sealed()
                    .map_err(|e| Error::InvalidInput(format!("{e}, or SET pensieve_strict = false")))?;
            }
            bound.notes().iter().for_each(|note| scan.counters.note(note));
            let disabled = text(disabled);
            let names: Vec<&str> = disabled.split(',').filter(|name| !name.is_empty()).collect();
            let segments = bound.survivors(scan, &names, fixed.as_ref().map(|predicate| &predicate.0));
            let snapshot = bound.snapshot()?;
            *out = Box::into_raw(Box::new(PnsDendroScan { bound, snapshot, segments }));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_scan_free(scan: *mut PnsDendroScan) {
    if !scan.is_null() {
        // SAFETY: made by `pns_dendro_start` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(scan) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_scan_count(scan: *const PnsDendroScan) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || u64::try_from(unsafe { &*scan }.segments.len()).unwrap_or(u64::MAX))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_scan_open(
    scan: *const PnsDendroScan,
    index: u64,
    out: *mut *mut PnsReader,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let scan = &*scan;
            let bound = &scan.bound;
            let segment = usize::try_from(index)
                .ok()
                .and_then(|index| scan.segments.get(index))
                .and_then(|at| bound.segments.get(*at))
                .ok_or_else(|| Error::InvalidInput(format!("{}: no segment number {index}", bound.table.path)))?;
            let format = REGISTRY.by_name("parquet")?;
            let extent = scan.snapshot.open_segment(&bound.schema, segment, format.as_ref())?;
            let path = format!("{} ({})", bound.table.path, segment.describe());
            *out = Box::into_raw(Box::new(PnsReader { extent, path }));
            Ok(())
        })
    }
}
