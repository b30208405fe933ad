//! Predicates and scans of the shim.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::ffi::{guard, guard_value, text, to_c_text};
use super::reader::{PnsReader, export, export_schema};
use crate::format::{BlockId, RowRanges};
use crate::predicate::{BlockPredicate, lower};
use crate::scan::{self, Decision, EvidenceKind, Scan};
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
pub unsafe extern "C" fn pns_scan_new(
    connection: u64,
    query: u64,
    source: *const c_char,
    disabled: *const c_char,
) -> *mut PnsScan {
    // SAFETY: by the header's contract.
    let (source, disabled) = unsafe { (text(source), text(disabled)) };
    let names: Vec<&str> = disabled.split(',').filter(|name| !name.is_empty()).collect();
    let new = Arc::new(Scan::new(&source, &names));
    guard_value((), || scan::remember(connection, query, &new));
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

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_read(
    scan: *const PnsScan,
    reader: *const PnsReader,
    block: u32,
    columns: *const u32,
    column_count: u64,
    ranges: *const u64,
    range_count: u64,
    windows: *mut PnsWindows,
    out: *mut FFI_ArrowArray,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let projection: Vec<usize> = slice(columns, column_count)?.iter().map(|column| *column as usize).collect();
            let rows =
                RowRanges(slice(ranges, range_count * 2)?.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect());
            let (scan, extent) = (&(*scan).0, (*reader).extent.as_ref());
            let batch = scan.read(extent, BlockId(block), &projection, &rows)?;
            if let Some(windows) = windows.as_mut()
                && let Some(predicate) = windows.predicate.as_ref()
            {
                let room = usize::try_from(windows.count).unwrap_or(0);
                let size = usize::try_from(windows.rows).unwrap_or(usize::MAX);
                let verdicts = scan.windows(extent, &batch, &projection, &rows, size, &predicate.0);
                if verdicts.len() == room {
                    let target = std::slice::from_raw_parts_mut(windows.verdicts, room);
                    target.iter_mut().zip(verdicts).for_each(|(to, verdict)| *to = verdict as u8);
                }
            }
            std::ptr::write(out, export(batch));
            Ok(())
        })
    }
}

/// The windows of a read: see the header.
#[repr(C)]
pub struct PnsWindows {
    predicate: *const PnsPredicate,
    rows: u64,
    count: u64,
    verdicts: *mut u8,
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_rows(scan: *const PnsScan, _considered: u64, skipped: u64) {
    // SAFETY: by the header's contract. The rows themselves were counted when they became candidates.
    guard_value((), || {
        unsafe { &*scan }.0.counters.rows.skip(EvidenceKind::Filter, skipped, std::time::Instant::now())
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_scan_summary(scan: *const PnsScan) -> *mut c_char {
    // SAFETY: by the header's contract.
    guard_value(std::ptr::null_mut(), || to_c_text(&unsafe { &*scan }.0.counters.summary()))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_last_scans(connection: u64, out: *mut FFI_ArrowArray, error: *mut *mut c_char) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            std::ptr::write(out, export(scan::last_scans(connection)?));
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
