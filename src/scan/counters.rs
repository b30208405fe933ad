//! Counters of one scan: what was considered, what each kind of evidence ruled out, what was read.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::format::ExtentReader;
use crate::storage::IoCounters;

/// A kind of evidence, in the order in which the cascade asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// Partition values and file names, by DuckDB's own file pruning.
    Partition,
    /// Sets of distinct values in a catalog.
    Distinct,
    /// Sets of tokens in a catalog.
    Tokens,
    /// Paths of dynamic columns in a catalog.
    Paths,
    /// Bounds of timestamp columns.
    Time,
    /// Bounds and null counts of the other columns.
    MinMax,
    /// Indexes that a program stored beside its data, as a function of the user reads them.
    CallerIndex,
    /// Bounds that joins and top-N operators tightened while the scan ran.
    DynamicFilter,
    /// Bloom filters.
    Bloom,
    /// The page index inside a block.
    PageIndex,
    /// The row filter itself.
    Filter,
    /// Not evidence: what TABLESAMPLE left out.
    Sample,
}

impl EvidenceKind {
    const ALL: [Self; 12] = [
        Self::Partition,
        Self::Time,
        Self::Distinct,
        Self::Tokens,
        Self::Paths,
        Self::MinMax,
        Self::CallerIndex,
        Self::DynamicFilter,
        Self::Bloom,
        Self::Sample,
        Self::PageIndex,
        Self::Filter,
    ];

    /// Name in `pensieve_last_scan()` and in `pensieve_disable_evidence`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Distinct => "distinct",
            Self::Tokens => "tokens",
            Self::Paths => "paths",
            Self::Time => "time",
            Self::MinMax => "minmax",
            Self::CallerIndex => "caller_index",
            Self::DynamicFilter => "dynamic_filter",
            Self::Bloom => "bloom",
            Self::PageIndex => "page_index",
            Self::Filter => "filter",
            Self::Sample => "sample",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Considered and skipped units (extents, blocks, rows) per kind of evidence.
#[derive(Debug, Default)]
pub struct Evidences {
    considered: AtomicU64,
    skipped: [AtomicU64; EvidenceKind::ALL.len()],
    nanos: [AtomicU64; EvidenceKind::ALL.len()],
    read: AtomicU64,
}

/// One row of the report about a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterRow {
    /// "manifest", "extent", "block" or "row".
    pub unit: &'static str,
    /// Name of the evidence, or "read" for what was left.
    pub evidence: &'static str,
    /// What the row above left over.
    pub considered: u64,
    /// What this evidence ruled out.
    pub skipped: u64,
    /// Time spent deciding (or, for "read", decoding), in milliseconds, summed over threads.
    pub millis: f64,
}

impl Evidences {
    /// Adds `count` units to what was looked at.
    pub fn consider(&self, count: u64) {
        self.considered.fetch_add(count, Relaxed);
    }

    /// Adds `count` units that `kind` ruled out, decided since `started`.
    pub fn skip(&self, kind: EvidenceKind, count: u64, started: Instant) {
        let slot = kind as usize;
        self.skipped[slot].fetch_add(count, Relaxed);
        self.nanos[slot].fetch_add(elapsed_nanos(started), Relaxed);
    }

    /// Adds `count` units that were read.
    pub fn read(&self, count: u64) {
        self.read.fetch_add(count, Relaxed);
    }

    /// Units that `kind` ruled out.
    pub fn skipped(&self, kind: EvidenceKind) -> u64 {
        self.skipped[kind as usize].load(Relaxed)
    }

    /// Units looked at.
    pub fn considered(&self) -> u64 {
        self.considered.load(Relaxed)
    }

    fn rows(&self, unit: &'static str, out: &mut Vec<CounterRow>) {
        let mut left = self.considered();
        for kind in EvidenceKind::ALL {
            let skipped = self.skipped(kind);
            if skipped > 0 {
                let millis = millis(self.nanos[kind as usize].load(Relaxed));
                out.push(CounterRow { unit, evidence: kind.name(), considered: left, skipped, millis });
                left = left.saturating_sub(skipped);
            }
        }
        out.push(CounterRow { unit, evidence: "read", considered: left, skipped: 0, millis: 0.0 });
    }
}

/// All counters of a scan.
#[derive(Debug)]
pub struct Counters {
    /// What is scanned, for display.
    pub source: String,
    /// Manifests of a table's snapshot, where the catalog keeps such.
    pub manifests: Evidences,
    /// Files.
    pub files: Evidences,
    /// Blocks.
    pub blocks: Evidences,
    /// Rows of the blocks that were not skipped.
    pub rows: Evidences,
    read_nanos: AtomicU64,
    io: Mutex<Vec<Arc<IoCounters>>>,
    notes: Mutex<Vec<String>>,
}

impl Counters {
    /// Zeroes.
    pub fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            manifests: Evidences::default(),
            files: Evidences::default(),
            blocks: Evidences::default(),
            rows: Evidences::default(),
            read_nanos: AtomicU64::new(0),
            io: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    /// Counts the I/O of a reader from its opening on. Repeats are harmless.
    pub fn watch(&self, reader: &dyn ExtentReader) {
        let counters = reader.io_counters();
        let mut watched = self.io.lock().unwrap_or_else(PoisonError::into_inner);
        // the file being read is nearly always the last one added
        if !watched.iter().rev().any(|known| Arc::ptr_eq(known, &counters)) {
            watched.push(counters);
        }
    }

    /// Adds time spent fetching and decoding.
    pub fn add_read_time(&self, started: Instant) {
        self.read_nanos.fetch_add(elapsed_nanos(started), Relaxed);
    }

    /// A remark for the user: what could not be used for pruning, and why.
    pub fn note(&self, text: &str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// The remarks, joined.
    pub fn notes(&self) -> String {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
    }

    /// Bytes and requests of the readers watched so far.
    pub fn io(&self) -> (u64, u64) {
        let watched = self.io.lock().unwrap_or_else(PoisonError::into_inner);
        watched.iter().fold((0, 0), |(bytes, requests), io| {
            (bytes + io.bytes.load(Relaxed), requests + io.requests.load(Relaxed))
        })
    }

    /// The report: manifests (where there are any), extents, blocks, rows, each kind of evidence that ruled something out, and what was left to read.
    pub fn report(&self) -> Vec<CounterRow> {
        let mut out = Vec::new();
        if self.manifests.considered() > 0 {
            self.manifests.rows("manifest", &mut out);
        }
        self.files.rows("extent", &mut out);
        self.blocks.rows("block", &mut out);
        self.rows.rows("row", &mut out);
        if let Some(last) = out.last_mut() {
            last.millis = millis(self.read_nanos.load(Relaxed));
        }
        out
    }

    /// Titles and values for EXPLAIN ANALYZE.
    pub fn summary(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let units =
            [("Manifests", &self.manifests), ("Extents", &self.files), ("Blocks", &self.blocks), ("Rows", &self.rows)];
        let absent = usize::from(self.manifests.considered() == 0);
        for (title, unit) in units.into_iter().skip(absent) {
            let mut rows = Vec::new();
            unit.rows("", &mut rows);
            let left = rows.last().map_or(0, |row| row.considered);
            let mut value = format!("{left} of {} read", unit.considered());
            for row in rows.iter().filter(|row| row.skipped > 0) {
                let _ = write!(value, ", {} skipped by {}", row.skipped, row.evidence);
            }
            out.push((title.to_owned(), value));
        }
        let (bytes, requests) = self.io();
        out.push(("Bytes Read".to_owned(), format!("{bytes} in {requests} requests")));
        let notes = self.notes();
        if !notes.is_empty() {
            out.push(("Cannot Prune By".to_owned(), notes));
        }
        out
    }
}

fn elapsed_nanos(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a duration for display: 52 bits of nanoseconds are 52 days")]
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
