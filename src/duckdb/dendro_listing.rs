//! Rows of the `dendro_*` listing functions.

use std::ffi::{c_char, c_int};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::ffi::{guard, guard_value, text};
use super::reader::{export, export_schema};
use crate::dendro::{
    Archive, CallerRowFilter, CatalogBatches, caller_rows_schema, clock_offsets_schema, documents_schema,
    events_schema, segments_schema, sources_schema, streams_schema,
};
use crate::{Error, Result};

/// Batches of caller rows that may wait for the reader.
const WAITING: usize = 2;

/// One listing: all rows at once, or batches from a thread that reads the archive.
pub struct PnsDendroListing(Rows);

enum Rows {
    Ready(Option<RecordBatch>),
    Streamed { batches: Option<Receiver<Result<RecordBatch>>>, worker: Option<JoinHandle<()>> },
}

impl Drop for PnsDendroListing {
    fn drop(&mut self) {
        if let Rows::Streamed { batches, worker } = &mut self.0 {
            // without a receiver the thread's next batch fails, which ends it
            drop(batches.take());
            if let Some(worker) = worker.take() {
                let _ = worker.join();
            }
        }
    }
}

fn schema(function: &str) -> Result<SchemaRef> {
    Ok(match function {
        "dendro_sources" => sources_schema(),
        "dendro_streams" => streams_schema(),
        "dendro_segments" => segments_schema(),
        "dendro_events" => events_schema(),
        "dendro_clock_offsets" => clock_offsets_schema(),
        "dendro_caller_rows" => caller_rows_schema(),
        "dendro_documents" => documents_schema(),
        other => return Err(Error::InvalidInput(format!("there is no listing function {other}"))),
    })
}

fn start(function: &str, path: &str, with_index: bool) -> Result<PnsDendroListing> {
    let archive = Archive::open(path)?;
    if function == "dendro_caller_rows" {
        return Ok(stream_caller_rows(archive));
    }
    let batch = archive.read(|snapshot| match function {
        "dendro_sources" => snapshot.catalog()?.sources_batch(),
        "dendro_streams" => snapshot.catalog()?.streams_batch(),
        "dendro_segments" => snapshot.segments_batch(&snapshot.catalog()?, with_index),
        "dendro_events" => snapshot.catalog()?.events_batch(),
        "dendro_clock_offsets" => snapshot.catalog()?.clock_offsets_batch(),
        "dendro_documents" => snapshot.documents_batch(),
        other => Err(Error::InvalidInput(format!("there is no listing function {other}"))),
    })?;
    Ok(PnsDendroListing(Rows::Ready(Some(batch))))
}

/// Reads on a thread of its own, so that no more than a few batches are in memory and the statement stays open in between.
fn stream_caller_rows(archive: Archive) -> PnsDendroListing {
    let (sender, receiver) = sync_channel(WAITING);
    let worker = std::thread::spawn(move || {
        let stopped = || Error::Interrupted;
        let outcome = archive.snapshot().and_then(|snapshot| {
            let filter = CallerRowFilter::default();
            snapshot.caller_rows(&filter, |batch| sender.send(Ok(batch)).map_err(|_| stopped()))
        });
        if let Err(error) = outcome {
            // nobody is left to tell when the receiver is gone
            let _ = sender.send(Err(error));
        }
    });
    PnsDendroListing(Rows::Streamed { batches: Some(receiver), worker: Some(worker) })
}

impl PnsDendroListing {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        match &mut self.0 {
            Rows::Ready(batch) => Ok(batch.take()),
            Rows::Streamed { batches, worker } => {
                let Some(receiver) = batches else { return Ok(None) };
                if let Ok(batch) = receiver.recv() {
                    return batch.map(Some);
                }
                *batches = None;
                // a thread that ended by a panic has not said that its rows are incomplete
                match worker.take().map(JoinHandle::join) {
                    Some(Err(_)) => Err(Error::InvalidInput("internal error while reading caller rows".into())),
                    _ => Ok(None),
                }
            }
        }
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_listing_schema(
    function: *const c_char,
    out: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = schema(&text(function))?;
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
pub unsafe extern "C" fn pns_dendro_listing(
    function: *const c_char,
    path: *const c_char,
    with_index: c_int,
    out: *mut *mut PnsDendroListing,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            *out = Box::into_raw(Box::new(start(&text(function), &text(path), with_index != 0)?));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_dendro_listing_next(
    listing: *mut PnsDendroListing,
    out: *mut FFI_ArrowArray,
    more: *mut c_int,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let batch = (*listing).next()?;
            *more = c_int::from(batch.is_some());
            if let Some(batch) = batch {
                std::ptr::write(out, export(batch));
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
pub unsafe extern "C" fn pns_dendro_listing_free(listing: *mut PnsDendroListing) {
    if !listing.is_null() {
        // SAFETY: made by `pns_dendro_listing` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(listing) }));
    }
}
