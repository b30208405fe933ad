//! Extents opened by the shim.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::describe;
use super::ffi::{PnsTexts, guard, guard_value, text, texts, to_c_text};
use crate::format::cache::ReaderCache;
use crate::format::json_view::JsonView;
use crate::format::registry::{FormatRegistry, OPENING_TAIL};
use crate::format::{BlockId, ExtentReader};
use crate::predicate::{ColumnStats, Scalar};
use crate::storage::host::{HostFile, HostSource};
use crate::storage::remote::RemoteOptions;
use crate::storage::{Coalesce, IoCounters, Source, StorageOptions};
use crate::{Error, Result};

/// An open extent.
pub struct PnsReader {
    pub(super) extent: Arc<dyn ExtentReader>,
    pub(super) path: String,
}

/// A file that DuckDB's file system opened (`PnsHostFile`).
#[repr(C)]
pub struct PnsHostFile {
    context: *mut c_void,
    read_at: unsafe extern "C" fn(*mut c_void, u64, *mut u8, u64) -> *mut c_char,
    release: unsafe extern "C" fn(*mut c_void),
    size: u64,
    version: *const c_char,
}

unsafe extern "C" {
    fn pensieve_host_string_free(message: *mut c_char);
}

/// Takes a message of the shim: `Ok` when there is none.
pub(super) fn host_result(message: *mut c_char) -> Result<(), String> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: the shim returns NUL-terminated messages that it frees itself.
    let owned = unsafe { text(message) }.into_owned();
    // SAFETY: as above; the message is not used again.
    unsafe { pensieve_host_string_free(message) };
    Err(owned)
}

struct Host {
    context: *mut c_void,
    read_at: unsafe extern "C" fn(*mut c_void, u64, *mut u8, u64) -> *mut c_char,
    release: unsafe extern "C" fn(*mut c_void),
    path: String,
    size: u64,
    version: String,
}

// SAFETY: the shim's handle is opened for parallel access; its callbacks are safe to call from any thread.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the context is released exactly once, here.
        unsafe { (self.release)(self.context) }
    }
}

impl HostFile for Host {
    fn path(&self) -> &str {
        &self.path
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn version(&self) -> String {
        self.version.clone()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let length = out.len() as u64;
        // SAFETY: `out` is valid for `length` bytes; the callback fills them or reports an error.
        let message = unsafe { (self.read_at)(self.context, offset, out.as_mut_ptr(), length) };
        host_result(message)
            .map_err(|what| Error::io(&self.path, format!("read {length} bytes at offset {offset} of"), what))
    }
}

pub(super) static REGISTRY: LazyLock<FormatRegistry> = LazyLock::new(FormatRegistry::default);
pub(super) static CACHE: LazyLock<ReaderCache> = LazyLock::new(ReaderCache::default);

/// Configuration of an object store from the shim: a JSON object, or nothing.
pub(super) fn remote_settings(json: &str) -> Result<BTreeMap<String, String>> {
    if json.is_empty() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_str(json).map_err(|e| Error::InvalidInput(format!("object store configuration: {e}")))
}

/// How files are reached with that configuration.
pub(super) fn storage_options(json: &str) -> Result<StorageOptions> {
    let remote = RemoteOptions { options: remote_settings(json)?, ..RemoteOptions::default() };
    Ok(StorageOptions { remote, ..StorageOptions::default() })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_open(
    path: *const c_char,
    format: *const c_char,
    host: *const PnsHostFile,
    remote: *const c_char,
    out: *mut *mut PnsReader,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract; the host's context is owned from here on.
    let (path, format, host, remote) = unsafe {
        let path = text(path).into_owned();
        let host = host.as_ref().map(|host| Host {
            context: host.context,
            read_at: host.read_at,
            release: host.release,
            path: path.clone(),
            size: host.size,
            version: text(host.version).into_owned(),
        });
        (path, text(format), host, text(remote))
    };
    // SAFETY: `error` and `out` are valid for writes.
    unsafe {
        guard(error, || {
            let counters = Arc::new(IoCounters::default());
            let source: Arc<dyn Source> = match host {
                Some(host) => Arc::new(HostSource::new(Box::new(host), Coalesce::default(), counters)?),
                None => open_source(&path, &storage_options(&remote)?, counters)?,
            };
            let wanted = (!format.is_empty()).then_some(format.as_ref());
            let extent = CACHE.open(&REGISTRY, source, wanted)?;
            *out = Box::into_raw(Box::new(PnsReader { extent, path }));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_show_json(reader: *mut PnsReader, names: *const *const c_char, count: u64) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (reader, names) = unsafe { (&mut *reader, texts(names, count)) };
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        reader.extent = JsonView::wrap(Arc::clone(&reader.extent), &names);
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_show_text(reader: *mut PnsReader, error: *mut *mut c_char) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let reader = &mut *reader;
            if let Some(extent) = reader.extent.with_text()? {
                reader.extent = extent;
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
pub unsafe extern "C" fn pns_reader_free(reader: *mut PnsReader) {
    if !reader.is_null() {
        // SAFETY: made by `pns_reader_open` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(reader) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_schema(
    reader: *const PnsReader,
    out: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = crate::scan::engine::schema(&(*reader).extent.metadata().schema);
            let exported = FFI_ArrowSchema::try_from(schema.as_ref())
                .map_err(|cause| Error::unsupported(&(*reader).path, format!("schema {schema}: {cause}")))?;
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
pub unsafe extern "C" fn pns_reader_block_count(reader: *const PnsReader) -> u32 {
    // SAFETY: by the header's contract.
    guard_value(0, || u32::try_from(unsafe { &*reader }.extent.metadata().block_rows.len()).unwrap_or(u32::MAX))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_block_rows(reader: *const PnsReader, block: u32) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || unsafe { &*reader }.extent.metadata().block_rows.get(block as usize).copied().unwrap_or(0))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_block_bytes(reader: *const PnsReader, block: u32) -> u64 {
    guard_value(0, || {
        // SAFETY: by the header's contract.
        unsafe { &*reader }.extent.block_location(BlockId(block)).map_or(0, |location| location.length)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_row_count(reader: *const PnsReader) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || unsafe { &*reader }.extent.metadata().row_count())
}

/// `PnsColumnStats` of the header.
#[repr(C)]
pub struct PnsColumnStats {
    min: *mut c_char,
    max: *mut c_char,
    min_exact: c_int,
    max_exact: c_int,
    nulls: i64,
    nans: i64,
    rows: u64,
}

/// A bound as the header's text; `None` for bounds without such a text.
fn bound_text(bound: &Scalar) -> Option<String> {
    match bound {
        Scalar::Bool(value) => Some(if *value { "1" } else { "0" }.to_owned()),
        Scalar::Int(value) | Scalar::TimestampNs(value) | Scalar::Decimal { value, .. } => Some(value.to_string()),
        Scalar::Float(value) => value.is_finite().then(|| format!("{value:?}")),
        Scalar::Str(value) => Some(value.clone()),
        Scalar::Date(value) | Scalar::TimeNs(value) => Some(value.to_string()),
        Scalar::Bytes(_) | Scalar::Null => None,
    }
}

fn stats_of(extent: &dyn ExtentReader, column: &str, block: i64) -> Option<(ColumnStats, u64)> {
    let blocks = &extent.metadata().block_rows;
    if let Ok(block) = u32::try_from(block) {
        let rows = blocks.get(block as usize).copied()?;
        return Some((extent.block_evidence(BlockId(block))?.column(column)?, rows));
    }
    describe::merge_blocks(extent, column).map(|stats| (stats, blocks.iter().sum()))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_column_stats(
    reader: *const PnsReader,
    column: *const c_char,
    block: i64,
    out: *mut PnsColumnStats,
) -> c_int {
    guard_value(0, || {
        // SAFETY: by the header's contract.
        let (reader, column) = unsafe { (&*reader, text(column)) };
        let Some((stats, rows)) = stats_of(reader.extent.as_ref(), &column, block) else {
            return 0;
        };
        let bound = |bound: &Option<Scalar>| {
            bound.as_ref().and_then(bound_text).map_or(std::ptr::null_mut(), |text| to_c_text(&text))
        };
        let count = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1);
        let result = PnsColumnStats {
            min: bound(&stats.min),
            max: bound(&stats.max),
            min_exact: c_int::from(stats.min_exact),
            max_exact: c_int::from(stats.max_exact),
            nulls: count(stats.null_count),
            nans: count(stats.nan_count),
            rows,
        };
        // SAFETY: by the header's contract.
        unsafe { std::ptr::write(out, result) };
        1
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_describe_schema(
    function: *const c_char,
    out: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = describe::schema(&text(function))?;
            std::ptr::write(out, export_schema(&schema)?);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_reader_describe(
    reader: *const PnsReader,
    function: *const c_char,
    out: *mut FFI_ArrowArray,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let reader = &*reader;
            let batch = describe::rows(&text(function), &reader.path, reader.extent.as_ref())?;
            std::ptr::write(out, export(batch));
            Ok(())
        })
    }
}

/// A schema for the shim.
pub(super) fn export_schema(schema: &arrow::datatypes::Schema) -> Result<FFI_ArrowSchema> {
    FFI_ArrowSchema::try_from(schema).map_err(|e| Error::InvalidInput(e.to_string()))
}

/// Opens a file that the core reads itself. One that is known needs no more than its version checked.
pub(super) fn open_source(path: &str, storage: &StorageOptions, counters: Arc<IoCounters>) -> Result<Arc<dyn Source>> {
    if CACHE.knows(path) {
        return crate::storage::open(path, storage, counters);
    }
    crate::storage::open_with_tail(path, storage, counters, OPENING_TAIL)
}

/// A batch as a struct array for the shim.
pub(super) fn export(batch: arrow::array::RecordBatch) -> FFI_ArrowArray {
    use arrow::array::Array;
    FFI_ArrowArray::new(&arrow::array::StructArray::from(batch).to_data())
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_glob(
    pattern: *const c_char,
    remote: *const c_char,
    out: *mut *mut PnsTexts,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let found = crate::storage::glob::glob(&text(pattern), &storage_options(&text(remote))?.remote)?;
            *out = PnsTexts::new(found);
            Ok(())
        })
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pns_set_metadata_cache_bytes(bytes: u64) {
    guard_value((), || CACHE.set_capacity(bytes));
}

/// The struct type of a schema, as arrays from the shim have it.
pub(super) fn struct_type(schema: &arrow::datatypes::Schema) -> DataType {
    DataType::Struct(schema.fields().iter().cloned().collect::<Vec<Arc<Field>>>().into())
}
