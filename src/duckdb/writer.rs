//! Extents written by the shim.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use serde::Deserialize;

use super::ffi::{guard, guard_value, text, to_c_text};
use super::reader::{REGISTRY, host_result, storage_options, struct_type};
use crate::format::{
    BlockEncoder, EncodedBlock, ExtentWriteResult, ExtentWriter, SegmentFormat, SortKey, WriteOptions,
};
use crate::storage::Sink;
use crate::storage::host::{HostSink, HostWriter};
use crate::{Error, Result};

/// Name of the extension type in which DuckDB's lossless export wraps booleans (one byte each).
const BOOL8: &str = "arrow.bool8";

/// The field as it is stored: booleans as Arrow's own, which every reader knows and whose bounds prune.
fn stored_field(field: &Field) -> Field {
    let name = field.metadata().get("ARROW:extension:name");
    if name.is_some_and(|name| name == BOOL8) && field.data_type() == &DataType::Int8 {
        return Field::new(field.name(), DataType::Boolean, field.is_nullable());
    }
    let data_type = match field.data_type() {
        DataType::List(child) => DataType::List(Arc::new(stored_field(child))),
        DataType::LargeList(child) => DataType::LargeList(Arc::new(stored_field(child))),
        DataType::FixedSizeList(child, size) => DataType::FixedSizeList(Arc::new(stored_field(child)), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|child| stored_field(child)).collect()),
        DataType::Map(entries, sorted) => DataType::Map(Arc::new(stored_field(entries)), *sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// The schema as it is stored: see [`stored_field`].
pub(super) fn stored_schema(schema: &Schema, json_as_binary: bool) -> SchemaRef {
    let is_json = |field: &Field| field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.json");
    let fields = schema.fields().iter().map(|field| {
        if json_as_binary && is_json(field) {
            return Field::new(field.name(), DataType::Binary, field.is_nullable());
        }
        stored_field(field)
    });
    let fields: Vec<Field> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch in the stored schema.
pub(super) fn stored_batch(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() { Ok(Arc::clone(column)) } else { cast(column, field.data_type()) }
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<std::result::Result<_, _>>()?)
}

/// An extent being written. Blocks are encoded by many threads and appended by one at a time.
pub struct PnsWriter {
    path: String,
    /// The schema of the arrays that DuckDB hands over, and the one that is stored.
    received: SchemaRef,
    schema: SchemaRef,
    /// `None`: the format appends plain batches.
    encoder: Option<Arc<dyn BlockEncoder>>,
    writer: Mutex<Option<Box<dyn ExtentWriter>>>,
    /// Size of the finished file.
    finished_bytes: Mutex<Option<u64>>,
}

/// A block on its way into an extent.
pub struct PnsBlock(Block);

enum Block {
    Encoded(EncodedBlock),
    Plain(RecordBatch),
}

/// A file that DuckDB's file system writes (`PnsHostSink`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PnsHostSink {
    context: *mut c_void,
    write: unsafe extern "C" fn(*mut c_void, *const u8, u64) -> *mut c_char,
    finish: unsafe extern "C" fn(*mut c_void) -> *mut c_char,
    abort: unsafe extern "C" fn(*mut c_void),
    release: unsafe extern "C" fn(*mut c_void),
}

struct Host {
    callbacks: PnsHostSink,
    path: String,
}

// SAFETY: the shim's file handle may be used from any thread, one at a time.
unsafe impl Send for Host {}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the context is released exactly once, here.
        unsafe { (self.callbacks.release)(self.callbacks.context) }
    }
}

impl HostWriter for Host {
    fn path(&self) -> &str {
        &self.path
    }
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        // SAFETY: `bytes` is valid for the call.
        let message = unsafe { (self.callbacks.write)(self.callbacks.context, bytes.as_ptr(), bytes.len() as u64) };
        host_result(message).map_err(|what| Error::io(&self.path, format!("write {} bytes to", bytes.len()), what))
    }
    fn finish(&mut self) -> Result<()> {
        // SAFETY: the context is alive until `release`.
        let message = unsafe { (self.callbacks.finish)(self.callbacks.context) };
        host_result(message).map_err(|what| Error::io(&self.path, "complete", what))
    }
    fn abort(&mut self) {
        // SAFETY: as above.
        unsafe { (self.callbacks.abort)(self.callbacks.context) }
    }
}

#[derive(Deserialize)]
struct Options {
    format: String,
    compression: Option<String>,
    #[serde(default)]
    dictionary: bool,
    magic: Option<String>,
    bloom_columns: Option<Vec<String>>,
    #[serde(default)]
    sorted_by: Vec<SortKey>,
    #[serde(default)]
    json_as_binary: bool,
}

fn parse(options: &str) -> Result<(Arc<dyn SegmentFormat>, WriteOptions, bool)> {
    let options: Options = serde_json::from_str(options).map_err(|e| Error::InvalidInput(e.to_string()))?;
    let format = Arc::clone(REGISTRY.by_name(&options.format)?);
    let write = WriteOptions {
        compression: options.compression,
        dictionary: options.dictionary,
        magic: options.magic,
        bloom_columns: options.bloom_columns,
        sorted_by: options.sorted_by,
    };
    Ok((format, write, options.json_as_binary))
}

/// Takes a schema of the shim.
///
/// # Safety
/// `schema` is a valid, unreleased schema that the caller gives up.
pub(super) unsafe fn take_schema(schema: *mut FFI_ArrowSchema) -> Result<SchemaRef> {
    // SAFETY: by the contract of this function; the copy now owns the release callback.
    let owned = unsafe { FFI_ArrowSchema::from_raw(schema) };
    Schema::try_from(&owned).map(Arc::new).map_err(|e| Error::InvalidInput(e.to_string()))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_check(
    options: *const c_char,
    schema: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = take_schema(schema)?;
            let (format, write, json_as_binary) = parse(&text(options))?;
            let (sink, _bytes) = crate::storage::sink::MemorySink::new("options");
            let schema = stored_schema(&schema, json_as_binary);
            format.check(&schema, &write)?;
            format.start_extent(Box::new(sink), schema, &write).map(drop)
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_new(
    path: *const c_char,
    options: *const c_char,
    host: *const PnsHostSink,
    remote: *const c_char,
    schema: *mut FFI_ArrowSchema,
    out: *mut *mut PnsWriter,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract; the host's context is owned from here on.
    let (path, host) = unsafe {
        let path = text(path).into_owned();
        let host = host.as_ref().map(|callbacks| Host { callbacks: *callbacks, path: path.clone() });
        (path, host)
    };
    // SAFETY: as above.
    unsafe {
        guard(error, || {
            let received = take_schema(schema)?;
            let (format, write, json_as_binary) = parse(&text(options))?;
            let schema = stored_schema(&received, json_as_binary);
            let sink: Box<dyn Sink> = match host {
                Some(host) => Box::new(HostSink::new(Box::new(host))),
                None => crate::storage::create(&path, &storage_options(&text(remote))?)?,
            };
            let writer = format.start_extent(sink, Arc::clone(&schema), &write)?;
            let encoder = writer.encoder();
            let writer = PnsWriter {
                path,
                received,
                schema,
                encoder,
                writer: Mutex::new(Some(writer)),
                finished_bytes: Mutex::default(),
            };
            *out = Box::into_raw(Box::new(writer));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_encode(
    writer: *const PnsWriter,
    array: *mut FFI_ArrowArray,
    out: *mut *mut PnsBlock,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract; the array is owned from here on.
    unsafe {
        let array = FFI_ArrowArray::from_raw(array);
        guard(error, || {
            let writer = &*writer;
            let data = from_ffi_and_data_type(array, struct_type(&writer.received))
                .map_err(|e| Error::InvalidInput(format!("block of \"{}\": {e}", writer.path)))?;
            let batch = stored_batch(&RecordBatch::from(StructArray::from(data)), &writer.schema)
                .map_err(|e| Error::InvalidInput(format!("block of \"{}\": {e}", writer.path)))?;
            let block = match &writer.encoder {
                Some(encoder) => Block::Encoded(encoder.encode(&batch)?),
                None => Block::Plain(batch),
            };
            *out = Box::into_raw(Box::new(PnsBlock(block)));
            Ok(())
        })
    }
}

fn with_writer(writer: &PnsWriter, body: impl FnOnce(&mut dyn ExtentWriter) -> Result<()>) -> Result<()> {
    let mut guard = writer.writer.lock().unwrap_or_else(PoisonError::into_inner);
    match guard.as_mut() {
        Some(writer) => body(writer.as_mut()),
        None => Err(Error::InvalidInput(format!("\"{}\" is already complete", writer.path))),
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_append(
    writer: *const PnsWriter,
    block: *mut PnsBlock,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract; the block is owned from here on.
    unsafe {
        let block = Box::from_raw(block);
        guard(error, || {
            with_writer(&*writer, |writer| match block.0 {
                Block::Encoded(block) => writer.append_encoded(block),
                Block::Plain(batch) => writer.append(&batch),
            })
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_block_free(block: *mut PnsBlock) {
    if !block.is_null() {
        // SAFETY: made by `pns_writer_encode` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(block) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_bytes(writer: *const PnsWriter) -> u64 {
    guard_value(0, || {
        // SAFETY: by the header's contract.
        let writer = unsafe { &*writer };
        if let Some(bytes) = *writer.finished_bytes.lock().unwrap_or_else(PoisonError::into_inner) {
            return bytes;
        }
        let guard = writer.writer.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().map_or(0, |writer| writer.bytes_written())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_finish(
    writer: *const PnsWriter,
    result: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let writer = &*writer;
            let inner = writer.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(inner) = inner else {
                return Err(Error::InvalidInput(format!("\"{}\" is already complete", writer.path)));
            };
            let written = inner.finish()?;
            *writer.finished_bytes.lock().unwrap_or_else(PoisonError::into_inner) = Some(written.byte_size);
            *result = to_c_text(&result_json(&written).to_string());
            Ok(())
        })
    }
}

/// The fields of an [`ExtentWriteResult`], under their own names.
fn result_json(written: &ExtentWriteResult) -> serde_json::Value {
    serde_json::json!({
        "extent_id": written.extent_id.to_string(),
        "object_path": written.object_path,
        "byte_size": written.byte_size,
        "row_count": written.row_count,
        "block_count": written.block_count,
        "time_ranges": written.time_ranges,
        "present_paths": written.present_paths,
        "column_stats": written.column_stats,
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_writer_free(writer: *mut PnsWriter) {
    if !writer.is_null() {
        // SAFETY: made by `pns_writer_new` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(writer) }));
    }
}
