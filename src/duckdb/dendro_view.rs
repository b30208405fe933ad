//! An archive as one statement sees it: the catalog of one snapshot, from which every stream of the statement is bound.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use super::dendro::{BindChoices, Bound, PnsDendro, choices};
use super::ffi::{guard, guard_value, text, to_c_text};
use crate::dendro::{Archive, Catalog, Snapshot};
use crate::{Error, Result};

/// See the module. Holds a read transaction, so it ends with the statement.
pub struct PnsDendroView {
    archive: Archive,
    snapshot: Arc<Snapshot>,
    catalog: Catalog,
    choices: BindChoices,
    /// Streams of the chosen sources, each once, in their order.
    names: Vec<String>,
}

impl PnsDendroView {
    fn open(path: &str, options: &str) -> Result<Self> {
        let choices = choices(options)?;
        let archive = Archive::open(path)?;
        let (snapshot, catalog) = archive.read(|snapshot| Ok((snapshot.clone(), snapshot.catalog()?)))?;
        let sources = catalog.select_sources(&choices.selection)?;
        let mut names: Vec<String> = catalog
            .streams
            .iter()
            .filter(|stream| sources.iter().any(|source| source.id == stream.source_id))
            .map(|stream| stream.name.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        Ok(Self { archive, snapshot, catalog, choices, names })
    }

    fn bind(&self, index: usize) -> Result<Bound> {
        let name = self
            .names
            .get(index)
            .ok_or_else(|| Error::InvalidInput(format!("{}: no stream number {index}", self.catalog.path)))?;
        let mut choices = self.choices.clone();
        choices.selection.stream = Some(name.clone());
        let in_snapshot = |snapshot: &Arc<Snapshot>| {
            Bound::new(self.archive.clone(), snapshot, Arc::downgrade(&self.snapshot), &self.catalog, &choices)
        };
        match in_snapshot(&self.snapshot) {
            // a writer started on a file at rest: the footers of the segments in our catalog are still the same
            Err(_) if self.snapshot.changed_at_rest() => in_snapshot(&self.archive.snapshot()?),
            done => done,
        }
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_is_archive(path: *const c_char, out: *mut c_int, error: *mut *mut c_char) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            *out = c_int::from(Archive::is_archive(&*text(path))?);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_view(
    path: *const c_char,
    options: *const c_char,
    out: *mut *mut PnsDendroView,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            *out = Box::into_raw(Box::new(PnsDendroView::open(&text(path), &text(options))?));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_view_free(view: *mut PnsDendroView) {
    if !view.is_null() {
        // SAFETY: made by `pns_dendro_view` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(view) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_view_count(view: *const PnsDendroView) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || u64::try_from(unsafe { &*view }.names.len()).unwrap_or(u64::MAX))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_view_name(view: *const PnsDendroView, index: u64) -> *mut c_char {
    guard_value(std::ptr::null_mut(), || {
        // SAFETY: by the header's contract.
        let names = unsafe { &(*view).names };
        let name = usize::try_from(index).ok().and_then(|index| names.get(index));
        name.map_or(std::ptr::null_mut(), |name| to_c_text(name))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_view_bind(
    view: *const PnsDendroView,
    index: u64,
    out: *mut *mut PnsDendro,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let bound = (*view).bind(usize::try_from(index).unwrap_or(usize::MAX))?;
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
pub unsafe extern "C" fn pns_dendro_notes(dendro: *const PnsDendro) -> *mut c_char {
    // SAFETY: by the header's contract.
    guard_value(std::ptr::null_mut(), || to_c_text(&unsafe { &*dendro }.0.notes().join("; ")))
}
