//! Predicates and scans of the shim.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::ffi::{PnsTexts, guard, guard_value, text, to_c_text};
use super::reader::{PnsReader, export, export_schema};
use crate::format::{BlockId, ColumnPart, RowRanges};
use crate::predicate::{BlockPredicate, lower};
use crate::scan::rows::Rows;
use crate::scan::{self, Connection, Decision, EvidenceKind, Scan};
use crate::{Error, Result};

/// A lowered predicate.
pub struct PnsPredicate(pub(super) BlockPredicate);

impl PnsPredicate {
    pub(super) fn get(&self) -> &BlockPredicate {
        &self.0
    }
}

/// One scan.
pub struct PnsScan(pub(super) Arc<Scan>);

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_predicate_lower(json: *const c_char, length: usize) -> *mut PnsPredicate {
    let predicate = guard_value(BlockPredicate::Unknown("internal error while lowering".to_owned()), || {
        // SAFETY: by the header's contract.
        let bytes = unsafe { std::slice::from_raw_parts(json.cast::<u8>(), length) };
        lower::lower_json(&String::from_utf8_lossy(bytes))
    });
    Box::into_raw(Box::new(PnsPredicate(predicate)))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_predicate_free(predicate: *mut PnsPredicate) {
    if !predicate.is_null() {
        // SAFETY: made by `pns_predicate_lower` and freed once.
        drop(unsafe { Box::from_raw(predicate) });
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_predicate_text(predicate: *const PnsPredicate) -> *mut c_char {
    // SAFETY: by the header's contract.
    guard_value(std::ptr::null_mut(), || to_c_text(&unsafe { &*predicate }.0.to_string()))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_predicate_unknown(predicate: *const PnsPredicate) -> *mut c_char {
    // SAFETY: by the header's contract.
    guard_value(std::ptr::null_mut(), || to_c_text(&unsafe { &*predicate }.0.unknown_reasons().join("; ")))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_predicate_prunes(predicate: *const PnsPredicate) -> c_int {
    // SAFETY: by the header's contract.
    guard_value(1, || c_int::from(!unsafe { &*predicate }.0.columns().is_empty()))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_new(
    instance: u64,
    connection: u64,
    query: u64,
    source: *const c_char,
    disabled: *const c_char,
) -> *mut PnsScan {
    // SAFETY: by the header's contract.
    let (source, disabled) = unsafe { (text(source), text(disabled)) };
    let names: Vec<&str> = disabled.split(',').filter(|name| !name.is_empty()).collect();
    let new = Arc::new(Scan::new(&source, &names));
    guard_value((), || scan::remember(Connection { instance, connection }, query, &new));
    Box::into_raw(Box::new(PnsScan(new)))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_free(scan: *mut PnsScan) {
    if !scan.is_null() {
        // SAFETY: made by `pns_scan_new` and freed once.
        drop(unsafe { Box::from_raw(scan) });
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_files(scan: *const PnsScan, considered: u64, skipped: u64, evidence: *const c_char) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (scan, evidence) = unsafe { (&*scan, text(evidence)) };
        let files = &scan.0.counters.files;
        files.consider(considered);
        if let Some(kind) = EvidenceKind::from_name(&evidence) {
            files.skip(kind, skipped, std::time::Instant::now());
        }
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_manifests(scan: *const PnsScan, considered: u64, skipped: u64) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let scan = unsafe { &*scan };
        let manifests = &scan.0.counters.manifests;
        manifests.consider(considered);
        manifests.skip(EvidenceKind::Time, skipped, std::time::Instant::now());
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_note(scan: *const PnsScan, note: *const c_char) {
    // SAFETY: by the header's contract.
    let (scan, note) = unsafe { (&*scan, text(note)) };
    guard_value((), || scan.0.counters.note(&note));
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_claim(
    scan: *const PnsScan,
    reader: *const PnsReader,
    block: u32,
    fixed: *const PnsPredicate,
    dynamic: *const PnsPredicate,
) -> c_int {
    // a panic while deciding keeps the block
    guard_value(1, || {
        // SAFETY: by the header's contract.
        let (scan, reader, fixed, dynamic) = unsafe { (&*scan, &*reader, fixed.as_ref(), dynamic.as_ref()) };
        let fixed = fixed.map(|predicate| &predicate.0);
        let dynamic = dynamic.map(|predicate| &predicate.0);
        match scan.0.claim(reader.extent.as_ref(), BlockId(block), fixed, dynamic) {
            Decision::Skip => 0,
            Decision::Read => 1,
            Decision::ReadAll => 2,
        }
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_uses(scan: *const PnsScan, evidence: *const c_char) -> c_int {
    guard_value(1, || {
        // SAFETY: by the header's contract.
        let (scan, evidence) = unsafe { (&*scan, text(evidence)) };
        EvidenceKind::from_name(&evidence).map_or(0, |kind| c_int::from(scan.0.uses(kind)))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_skip_block(scan: *const PnsScan, evidence: *const c_char) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (scan, evidence) = unsafe { (&*scan, text(evidence)) };
        if let Some(kind) = EvidenceKind::from_name(&evidence) {
            scan.0.counters.blocks.skip(kind, 1, std::time::Instant::now());
        }
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_candidates(
    scan: *const PnsScan,
    reader: *const PnsReader,
    block: u32,
    fixed: *const PnsPredicate,
    ranges: *mut *mut u64,
    count: *mut u64,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let fixed = fixed.as_ref().map(|predicate| &predicate.0);
            let found = (*scan).0.candidates((*reader).extent.as_ref(), BlockId(block), fixed)?;
            let flat: Box<[u64]> = found.0.iter().flat_map(|range| [range.start, range.end]).collect();
            *count = found.0.len() as u64;
            *ranges = Box::into_raw(flat).cast();
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says: `count` is the number of u64 values, not of pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_u64_free(values: *mut u64, count: u64) {
    if !values.is_null() {
        let length = usize::try_from(count).unwrap_or(0);
        // SAFETY: made by `pns_scan_candidates` with exactly this length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(values, length)) });
    }
}

/// A slice of the shim's, which may be empty and then null.
///
/// # Safety
/// `data` is valid for `length` values, or `length` is 0.
unsafe fn slice<'a, T>(data: *const T, length: u64) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    let length = usize::try_from(length).map_err(|_| Error::InvalidInput(format!("{length} values are too many")))?;
    // SAFETY: by the contract of this function.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Rows of a claimed block.
pub struct PnsRows(Rows);

/// Columns as the header writes them: each its index and the number of fields that follow it, those in the same way.
fn parts(numbers: &mut std::slice::Iter<'_, u32>, count: usize) -> Result<Vec<ColumnPart>> {
    let mut parts = Vec::new();
    for _ in 0..count {
        let (Some(column), Some(fields)) = (numbers.next(), numbers.next()) else {
            return Err(Error::InvalidInput("a projection ends within a column".to_owned()));
        };
        parts.push(ColumnPart { column: *column as usize, fields: self::parts(numbers, *fields as usize)? });
    }
    Ok(parts)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_rows_open(
    scan: *const PnsScan,
    reader: *const PnsReader,
    block: u32,
    columns: *const u32,
    column_count: u64,
    number_count: u64,
    ranges: *const u64,
    range_count: u64,
    out: *mut *mut PnsRows,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let count = usize::try_from(column_count).unwrap_or(0);
            let projection = parts(&mut slice(columns, number_count)?.iter(), count)?;
            let rows =
                RowRanges(slice(ranges, range_count * 2)?.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect());
            let rows = Rows::open(&(*scan).0, &(*reader).path, &(*reader).extent, BlockId(block), &projection, &rows)?;
            *out = Box::into_raw(Box::new(PnsRows(rows)));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_rows_next(rows: *mut PnsRows, out: *mut FFI_ArrowArray, error: *mut *mut c_char) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let batch = (*rows).0.next_batch()?;
            std::ptr::write(out, batch.map_or_else(FFI_ArrowArray::empty, export));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_rows_judge(
    rows: *const PnsRows,
    predicate: *const PnsPredicate,
    lengths: *const u64,
    count: u64,
    verdicts: *mut u8,
) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (rows, predicate, lengths) = unsafe { (&*rows, &*predicate, slice(lengths, count).unwrap_or_default()) };
        let lengths = lengths.iter().map(|length| usize::try_from(*length).unwrap_or(usize::MAX));
        let found = rows.0.verdicts(lengths, &predicate.0);
        // SAFETY: by the header's contract; there are as many verdicts as lengths, or none.
        let target = unsafe { std::slice::from_raw_parts_mut(verdicts, found.len()) };
        target.iter_mut().zip(found).for_each(|(to, verdict)| *to = verdict as u8);
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_rows_free(rows: *mut PnsRows) {
    if !rows.is_null() {
        // SAFETY: made by `pns_rows_open` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(rows) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_skip_rows(scan: *const PnsScan, evidence: *const c_char, rows: u64) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (scan, evidence) = unsafe { (&*scan, text(evidence)) };
        if let Some(kind) = EvidenceKind::from_name(&evidence) {
            scan.0.counters.rows.skip(kind, rows, std::time::Instant::now());
        }
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_summary(scan: *const PnsScan) -> *mut PnsTexts {
    // SAFETY: by the header's contract.
    let summary = guard_value(Vec::new(), || unsafe { &*scan }.0.counters.summary());
    PnsTexts::new(summary.into_iter().flat_map(<[String; 2]>::from).collect())
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_last_scans(
    instance: u64,
    connection: u64,
    out: *mut FFI_ArrowArray,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            std::ptr::write(out, export(scan::last_scans(Connection { instance, connection })?));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_last_scans_schema(out: *mut FFI_ArrowSchema, error: *mut *mut c_char) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = scan::last_scans_schema();
            std::ptr::write(out, export_schema(&schema)?);
            Ok(())
        })
    }
}
