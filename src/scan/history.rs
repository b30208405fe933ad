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

/// A connection of one of the databases that are open in this process. Connections are numbered from 1 in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Number of the database instance; none is given twice in a process.
    pub instance: u64,
    /// Number of the connection within the instance.
    pub connection: u64,
}

#[derive(Default)]
struct History {
    connections: HashMap<Connection, Remembered>,
    order: VecDeque<Connection>,
}

#[derive(Default)]
struct Remembered {
    query: u64,
    scans: VecDeque<(u64, Arc<Scan>)>,
}

static HISTORY: LazyLock<Mutex<History>> = LazyLock::new(Mutex::default);
static NEXT_SCAN: AtomicU64 = AtomicU64::new(1);

/// Files a scan under its connection; scans of an earlier query of that connection are forgotten.
pub fn remember(connection: Connection, query: u64, scan: &Arc<Scan>) {
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
pub fn last_scans(connection: Connection) -> Result<RecordBatch> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_of_other_instances_and_earlier_queries_are_not_shown() {
        let rows = |instance, connection| {
            let batch = last_scans(Connection { instance, connection }).unwrap();
            let sources = batch.column_by_name("source").unwrap();
            let sources = sources.as_any().downcast_ref::<StringArray>().unwrap();
            sources.iter().flatten().map(ToOwned::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        let scan = |source: &str| Arc::new(Scan::new(source, &[]));
        // numbers that no other test uses
        let (one, two) = (1 << 40, 2 << 40);
        remember(Connection { instance: one, connection: 1 }, 7, &scan("a"));
        remember(Connection { instance: one, connection: 1 }, 7, &scan("b"));
        remember(Connection { instance: two, connection: 1 }, 7, &scan("c"));
        remember(Connection { instance: one, connection: 2 }, 7, &scan("d"));
        assert_eq!(rows(one, 1), ["a", "b"].map(ToOwned::to_owned).into());
        assert_eq!(rows(two, 1), ["c"].map(ToOwned::to_owned).into());
        assert!(rows(two, 2).is_empty());
        remember(Connection { instance: one, connection: 1 }, 8, &scan("e"));
        assert_eq!(rows(one, 1), ["e"].map(ToOwned::to_owned).into());
    }
}
