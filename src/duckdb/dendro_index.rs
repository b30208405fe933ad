//! Segments that a function of the user rules out by the index that the archive's producer stored beside each.

use std::ffi::{c_char, c_int};
use std::time::Instant;

use super::dendro::PnsDendroScan;
use super::ffi::{guard, guard_value};
use super::scan::PnsScan;
use crate::scan::EvidenceKind;
use crate::{Error, Result};

fn caller_index(scan: &PnsDendroScan, index: u64) -> Result<Option<Vec<u8>>> {
    let segment = usize::try_from(index)
        .ok()
        .and_then(|index| scan.segments.get(index))
        .and_then(|at| scan.bound.segments.get(*at))
        .ok_or_else(|| Error::InvalidInput(format!("no segment number {index}")))?;
    match segment.info.index_size {
        None => Ok(None),
        Some(_) => scan.snapshot.caller_index(segment.source.id, &segment.stream.name, &segment.info),
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_scan_index(
    scan: *const PnsDendroScan,
    index: u64,
    out: *mut *mut u8,
    length: *mut u64,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            *out = std::ptr::null_mut();
            *length = 0;
            if let Some(bytes) = caller_index(&*scan, index)? {
                // the allocation of an empty index is a dangling pointer, which is not null
                let bytes = bytes.into_boxed_slice();
                *length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                *out = Box::into_raw(bytes).cast();
            }
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_index_free(bytes: *mut u8, length: u64) {
    if let (false, Ok(length)) = (bytes.is_null(), usize::try_from(length)) {
        // SAFETY: made by `pns_dendro_scan_index` with this length and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, length)) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_scan_retain(
    dendro: *mut PnsDendroScan,
    scan: *const PnsScan,
    keep: *const u8,
    count: u64,
    millis: f64,
) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (dendro, scan) = unsafe { (&mut *dendro, &*scan) };
        let Ok(count) = usize::try_from(count) else { return };
        if count == 0 {
            return;
        }
        // SAFETY: by the header's contract.
        let keep = unsafe { std::slice::from_raw_parts(keep, count) };
        let before = dendro.segments.len();
        let mut flags = keep.iter();
        dendro.segments.retain(|_| flags.next().is_none_or(|flag| *flag != 0));
        let skipped = u64::try_from(before - dendro.segments.len()).unwrap_or(u64::MAX);
        if skipped > 0 {
            let elapsed = std::time::Duration::try_from_secs_f64(millis / 1000.0).unwrap_or_default();
            let now = Instant::now();
            scan.0.counters.files.skip(EvidenceKind::CallerIndex, skipped, now.checked_sub(elapsed).unwrap_or(now));
        }
    });
}
