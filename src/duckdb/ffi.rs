//! Strings, errors and panics at the boundary with the shim (`cpp/include/pensieve_ffi.h`).

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, Result};

/// `PnsErrorKind` of an error.
pub(super) fn error_kind(error: &Error) -> c_int {
    match error {
        Error::InvalidInput(_) => 1,
        Error::Io { .. } => 2,
        Error::Corrupt { .. } => 3,
        Error::Unsupported { .. } => 4,
        Error::Interrupted => 5,
        Error::Conflict { .. } => 7,
    }
}

/// Text for the shim; NUL bytes, which C text cannot hold, become U+FFFD.
pub(super) fn to_c_text(text: &str) -> *mut c_char {
    CString::new(text.replace('\0', "\u{fffd}")).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// Text from the shim.
///
/// # Safety
/// `text` is null or NUL-terminated and valid for the call.
pub(super) unsafe fn text<'a>(text: *const c_char) -> std::borrow::Cow<'a, str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// Texts from the shim.
///
/// # Safety
/// `texts` is null or has `count` texts as [`text`] takes them.
pub(super) unsafe fn texts<'a>(texts: *const *const c_char, count: u64) -> Vec<std::borrow::Cow<'a, str>> {
    let count = usize::try_from(count).unwrap_or(0);
    if texts.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: by the contract of this function.
    unsafe { std::slice::from_raw_parts(texts, count).iter().map(|each| text(*each)).collect() }
}

/// Texts for the shim, which may hold any character.
pub struct PnsTexts(Vec<String>);

impl PnsTexts {
    /// For `out` parameters of the header.
    pub(super) fn new(texts: Vec<String>) -> *mut Self {
        Box::into_raw(Box::new(Self(texts)))
    }
}

/// How many texts there are.
///
/// # Safety
/// `texts` was returned by a function of the header and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_texts_count(texts: *const PnsTexts) -> u64 {
    // SAFETY: by the contract of this function.
    unsafe { &*texts }.0.len() as u64
}

/// A text and its bytes, which are valid until the texts are freed. Null beyond the end.
///
/// # Safety
/// As for [`pns_texts_count`]; `length` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_texts_get(texts: *const PnsTexts, index: u64, length: *mut u64) -> *const c_char {
    // SAFETY: by the contract of this function.
    let found = usize::try_from(index).ok().and_then(|index| unsafe { &*texts }.0.get(index));
    let Some(found) = found else { return std::ptr::null() };
    // SAFETY: as above.
    unsafe { *length = found.len() as u64 };
    found.as_ptr().cast()
}

/// Frees texts.
///
/// # Safety
/// `texts` is null or was returned by a function of the header and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_texts_free(texts: *mut PnsTexts) {
    if !texts.is_null() {
        // SAFETY: by the contract of this function.
        drop(unsafe { Box::from_raw(texts) });
    }
}

/// Runs `body`, turning errors and panics into a kind and a message.
///
/// # Safety
/// `error` is null or valid for writes.
pub(super) unsafe fn guard(error: *mut *mut c_char, body: impl FnOnce() -> Result<()>) -> c_int {
    let (kind, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => (error_kind(&error), error.to_string()),
        Err(panic) => {
            let what = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            (6, format!("internal error: {what}; please report it with the query and, if possible, the file"))
        }
    };
    if !error.is_null() {
        // SAFETY: by the contract of this function.
        unsafe { *error = to_c_text(&message) };
    }
    kind
}

/// Runs `body` where no error can be reported: a panic yields `fallback`.
pub(super) fn guard_value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Frees text that a function of this module returned, or that the shim allocated with `malloc`-compatible allocators.
///
/// # Safety
/// `text` is null or was returned by [`to_c_text`] and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: by the contract of this function.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Version of the extension.
#[unsafe(no_mangle)]
pub extern "C" fn pns_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
