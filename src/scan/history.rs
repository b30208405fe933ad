//! The counters of recent scans, per connection, for `pensieve_last_scan()`.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::Scan;
use crate::{Error, Result};

/// Connections whose scans are remembered; the longest-idle one is forgotten first.
const CONNECTIONS: usize = 256;
/// Scans of one query that are remembered.
const SCANS: usize = 64;

#[derive(Default)]
struct History {
    connections: HashMap<u64, Remembered>,
    order: VecDeque<u64>,
}

#[derive(Default)]
struct Remembered {
    query: u64,
    scans: VecDeque<(u64, Arc<Scan>)>,
}

static HISTORY: LazyLock<Mutex<History>> = LazyLock::new(Mutex::default);
static NEXT_SCAN: AtomicU64 = AtomicU64::new(1);

/// Files a scan under its connection; scans of an earlier query of that connection are forgotten.
pub fn remember(connection: u64, query: u64, scan: &Arc<Scan>) {
    let mut history = HISTORY.lock().unwrap_or_else(PoisonError::into_inner);
    let History { connections, order } = &mut *history;
    if !connections.contains_key(&connection) {
        order.push_back(connection);
        if order.len() > CONNECTIONS
            && let Some(oldest) = order.pop_front()
        {
            connections.remove(&oldest);
        }
    }
    let remembered = connections.entry(connection).or_default();
    if remembered.query != query {
        remembered.query = query;
        remembered.scans.clear();
    }
    if remembered.scans.len() == SCANS {
        remembered.scans.pop_front();
    }
    remembered.scans.push_back((NEXT_SCAN.fetch_add(1, Relaxed), Arc::clone(scan)));
}

/// Schema of [`last_scans`].
pub fn last_scans_schema() -> SchemaRef {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("scan_id", DataType::UInt64),
        field("source", DataType::Utf8),
        field("unit", DataType::Utf8),
        field("evidence", DataType::Utf8),
        field("considered", DataType::UInt64),
        field("skipped", DataType::UInt64),
        field("bytes_read", DataType::UInt64),
        field("requests", DataType::UInt64),
        field("millis", DataType::Float64),
        field("note", DataType::Utf8),
    ]))
}

/// The counters of the scans of a connection's last query that scanned extents: one row per scan, unit and kind of evidence.
/// Bytes, requests and notes stand in the last row of each scan.
///
/// # Errors
/// Only if Arrow refuses its own columns.
pub fn last_scans(connection: u64) -> Result<RecordBatch> {
    let scans: Vec<(u64, Arc<Scan>)> = {
        let history = HISTORY.lock().unwrap_or_else(PoisonError::into_inner);
        history.connections.get(&connection).map(|found| found.scans.iter().cloned().collect()).unwrap_or_default()
    };
    let (mut ids, mut sources, mut units, mut kinds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut considered, mut skipped, mut millis) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut requests, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (id, scan) in &scans {
        let report = scan.counters.report();
        let (scan_bytes, scan_requests) = scan.counters.io();
        let note = scan.counters.notes();
        let last = report.len().saturating_sub(1);
        for (index, row) in report.into_iter().enumerate() {
            ids.push(*id);
            sources.push(scan.counters.source.clone());
            units.push(row.unit);
            kinds.push(row.evidence);
            considered.push(row.considered);
            skipped.push(row.skipped);
            millis.push(row.millis);
            bytes.push(if index == last { scan_bytes } else { 0 });
            requests.push(if index == last { scan_requests } else { 0 });
            notes.push((index == last && !note.is_empty()).then(|| note.clone()));
        }
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(ids)),
        Arc::new(StringArray::from(sources)),
        Arc::new(StringArray::from(units)),
        Arc::new(StringArray::from(kinds)),
        Arc::new(UInt64Array::from(considered)),
        Arc::new(UInt64Array::from(skipped)),
        Arc::new(UInt64Array::from(bytes)),
        Arc::new(UInt64Array::from(requests)),
        Arc::new(Float64Array::from(millis)),
        Arc::new(StringArray::from(notes)),
    ];
    RecordBatch::try_new(last_scans_schema(), columns).map_err(|error| Error::InvalidInput(error.to_string()))
}
