//! dendro archives written by the shim.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use arrow::array::{RecordBatch, StructArray};
use arrow::datatypes::SchemaRef;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use serde::Deserialize;

use super::ffi::{guard, guard_value, text, to_c_text};
use super::reader::struct_type;
use super::writer::{stored_batch, stored_schema, take_schema};
use crate::dendro::{ArchiveWriteOptions, ArchiveWriter};
use crate::{Error, Result};

/// An archive being written.
pub struct PnsDendroWriter {
    path: String,
    /// Where the archive will be in the end. DuckDB may move it there from where it was told to be written.
    target: PathBuf,
    /// The schema of the arrays that DuckDB hands over, and the one that is stored.
    schema: SchemaRef,
    stored: SchemaRef,
    writer: Option<ArchiveWriter>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    stream: String,
    ts_column: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    segment_rows: Option<u64>,
    segment_bytes: Option<usize>,
}

fn parse(options: &str) -> Result<ArchiveWriteOptions> {
    let options: Options = serde_json::from_str(options).map_err(|e| Error::InvalidInput(e.to_string()))?;
    let mut write = ArchiveWriteOptions::new(options.stream, options.ts_column);
    write.labels = options.labels;
    write.metadata = options.metadata;
    write.segment_rows = options.segment_rows.unwrap_or(write.segment_rows);
    write.segment_bytes = options.segment_bytes.unwrap_or(write.segment_bytes);
    Ok(write)
}

/// A log beside the target belongs to the archive that is there now: under a new archive it would be applied to that one.
fn check_target(target: &Path) -> Result<()> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let mut side = target.as_os_str().to_owned();
        side.push(suffix);
        if Path::new(&side).exists() {
            return Err(Error::unsupported(
                target.display().to_string(),
                format!(
                    "\"{}\" exists, so the archive there is in use or was not closed; let its writer finish, or remove both \
                     files, or write elsewhere",
                    side.display()
                ),
            ));
        }
    }
    Ok(())
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_writer_check(
    options: *const c_char,
    schema: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = take_schema(schema)?;
            parse(&text(options))?.check(&stored_schema(&schema, false))
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_writer_new(
    path: *const c_char,
    target: *const c_char,
    options: *const c_char,
    schema: *mut FFI_ArrowSchema,
    out: *mut *mut PnsDendroWriter,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = take_schema(schema)?;
            let path = text(path).into_owned();
            let target = PathBuf::from(text(target).as_ref());
            check_target(&target)?;
            let stored = stored_schema(&schema, false);
            let writer = Some(ArchiveWriter::create(&path, stored.clone(), parse(&text(options))?)?);
            *out = Box::into_raw(Box::new(PnsDendroWriter { path, target, schema, stored, writer }));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_writer_append(
    writer: *mut PnsDendroWriter,
    array: *mut FFI_ArrowArray,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract; the array is owned from here on.
    unsafe {
        let array = FFI_ArrowArray::from_raw(array);
        guard(error, || {
            let writer = &mut *writer;
            let data = from_ffi_and_data_type(array, struct_type(&writer.schema))
                .map_err(|e| Error::InvalidInput(format!("rows for {}: {e}", writer.path)))?;
            let rows = RecordBatch::from(StructArray::from(data));
            // the struct's fields have lost what the schema says beside names and types
            let batch = RecordBatch::try_new(writer.schema.clone(), rows.columns().to_vec())
                .and_then(|batch| stored_batch(&batch, &writer.stored))
                .map_err(|e| Error::InvalidInput(format!("rows for {}: {e}", writer.path)))?;
            match writer.writer.as_mut() {
                Some(open) => open.append(&batch),
                None => Err(Error::InvalidInput(format!("{} is already complete", writer.path))),
            }
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_writer_finish(
    writer: *mut PnsDendroWriter,
    result: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let writer = &mut *writer;
            check_target(&writer.target)?;
            let open = writer
                .writer
                .take()
                .ok_or_else(|| Error::InvalidInput(format!("{} is already complete", writer.path)))?;
            let done = open.finish()?;
            let json = serde_json::json!({
                "source_uuid": done.source_uuid,
                "rows": done.rows,
                "segments": done.segments,
                "byte_size": done.byte_size,
                "first_ts": done.span.map(|span| span.0),
                "last_ts": done.span.map(|span| span.1),
            });
            *result = to_c_text(&json.to_string());
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_writer_free(writer: *mut PnsDendroWriter) {
    if !writer.is_null() {
        // SAFETY: made by `pns_dendro_writer_new` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(writer) }));
    }
}
