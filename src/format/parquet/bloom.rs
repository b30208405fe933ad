//! Split-block bloom filters of column chunks, fetched only when an equality is left after the statistics.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::{Buf, Bytes};
use parquet::basic::Type as Physical;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};

use super::columns::{Column, Domain};
use super::evidence::RowGroupEvidence;
use super::fetch::{File, guarded};
use super::open::Footer;
use crate::Result;
use crate::predicate::{BlockPredicate, ColumnStats, CompareOp, Evidence, Scalar};

/// The bloom filters of a file, filled as they are asked for. `None` inside: absent or unreadable.
pub(super) struct Blooms {
    columns: usize,
    /// Held while filters are fetched, so that threads that want the same ones wait for them instead of fetching them again.
    fetching: Mutex<()>,
    slots: Vec<OnceLock<Option<Box<Sbbf>>>>,
}

impl fmt::Debug for Blooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.slots.iter().filter(|slot| slot.get().is_some()).count();
        f.debug_struct("Blooms").field("chunks", &self.slots.len()).field("loaded", &loaded).finish()
    }
}

impl Blooms {
    /// No filter loaded.
    pub(super) fn new(metadata: &ParquetMetaData) -> Self {
        let columns = metadata.file_metadata().schema_descr().num_columns();
        let mut slots = Vec::new();
        slots.resize_with(columns * metadata.num_row_groups(), OnceLock::new);
        Self { columns, fetching: Mutex::new(()), slots }
    }

    /// Whether the filters of the (row group, leaf) pairs are known.
    pub(super) fn are_loaded(&self, wanted: &[(usize, usize)]) -> bool {
        wanted.iter().all(|(row_group, leaf)| self.slot(*row_group, *leaf).is_none_or(|slot| slot.get().is_some()))
    }

    /// Lets one thread at a time fetch filters.
    pub(super) fn fetching(&self) -> MutexGuard<'_, ()> {
        self.fetching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, row_group: usize, leaf: usize) -> Option<&OnceLock<Option<Box<Sbbf>>>> {
        if leaf >= self.columns {
            return None;
        }
        self.slots.get(row_group.checked_mul(self.columns)?.checked_add(leaf)?)
    }

    /// Makes the filters of the wanted (row group, leaf) pairs known, in one request where the file gives their lengths.
    ///
    /// # Errors
    /// Failures of the store. A filter that cannot be read is absent, which is not an error.
    pub(super) fn load(&self, file: &File, metadata: &ParquetMetaData, wanted: &[(usize, usize)]) -> Result<()> {
        let mut ranges = Vec::new();
        let mut targets = Vec::new();
        let mut total = 0u64;
        for (row_group, leaf) in wanted {
            let Some(slot) = self.slot(*row_group, *leaf) else { continue };
            if slot.get().is_some() {
                continue;
            }
            let Some(chunk) = metadata.row_groups().get(*row_group).and_then(|group| group.columns().get(*leaf)) else {
                continue;
            };
            match place(chunk) {
                Some(Place::Known(range)) if file.holds(&range) && pays(chunk, &range) => {
                    total = total.saturating_add(range.end - range.start);
                    ranges.push(range);
                    targets.push(slot);
                }
                Some(Place::From(_)) => {
                    let read = guarded(
                        file.path(),
                        || "bloom filter".to_owned(),
                        || Sbbf::read_from_column_chunk(chunk, &Chunks { file }),
                    );
                    let filter = read.ok().flatten().filter(|filter| filter.num_blocks() > 0);
                    let _ = slot.set(filter.map(Box::new));
                }
                _ => drop(slot.set(None)),
            }
        }
        if ranges.is_empty() {
            return Ok(());
        }
        if total > file.size() {
            // Overlapping filters: the footer is wrong about them.
            targets.into_iter().for_each(|slot| drop(slot.set(None)));
            return Ok(());
        }
        for (slot, bytes) in targets.into_iter().zip(file.fetch(&ranges)?) {
            // The decoder insists that the header's size and the footer's length agree.
            let filter = guarded(file.path(), || "bloom filter".to_owned(), || Sbbf::from_bytes(&bytes)).ok();
            let _ = slot.set(filter.filter(|filter| filter.num_blocks() > 0).map(Box::new));
        }
        Ok(())
    }

    fn get(&self, row_group: usize, leaf: usize) -> Option<&Sbbf> {
        self.slot(row_group, leaf)?.get()?.as_deref()
    }
}

enum Place {
    Known(Range<u64>),
    From(#[expect(dead_code, reason = "documents where the filter begins; the decoder reads the footer itself")] u64),
}

fn place(chunk: &ColumnChunkMetaData) -> Option<Place> {
    let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    match chunk.bloom_filter_length() {
        Some(length) => {
            let length = u64::try_from(length).ok()?;
            Some(Place::Known(start..start.checked_add(length)?))
        }
        None => Some(Place::From(start)),
    }
}

/// A filter larger than the column it speaks of costs more than it can save.
fn pays(chunk: &ColumnChunkMetaData, range: &Range<u64>) -> bool {
    u64::try_from(chunk.compressed_size()).is_ok_and(|bytes| range.end - range.start <= bytes.max(4096))
}

/// A file as the decoder of filters without a stated length reads it.
struct Chunks<'a> {
    file: &'a File,
}

impl Length for Chunks<'_> {
    fn len(&self) -> u64 {
        self.file.size()
    }
}

impl ChunkReader for Chunks<'_> {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(fetch(self.file, start, self.file.size())?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        fetch(self.file, start, start.saturating_add(length).min(self.file.size()))
    }
}

fn fetch(file: &File, start: u64, end: u64) -> Result<Bytes, ParquetError> {
    let read =
        file.fetch(std::slice::from_ref(&(start..end))).map_err(|error| ParquetError::External(Box::new(error)))?;
    Ok(read.into_iter().next().unwrap_or_default())
}

/// The columns that `predicate` compares with values by equality, wherever in the tree.
pub(super) fn equality_columns<'a>(predicate: &'a BlockPredicate, into: &mut Vec<&'a str>) {
    match predicate {
        BlockPredicate::Compare { column, op: CompareOp::Eq | CompareOp::NotEq, .. }
        | BlockPredicate::Compare { column, op: CompareOp::NotDistinctFrom | CompareOp::DistinctFrom, .. }
        | BlockPredicate::InSet { column, .. } => {
            remember(column, into);
        }
        BlockPredicate::And(parts) | BlockPredicate::Or(parts) => {
            parts.iter().for_each(|part| equality_columns(part, into));
        }
        BlockPredicate::Not(inner) => equality_columns(inner, into),
        _ => {}
    }
}

/// Adds a name that is not there yet.
pub(super) fn remember<'a>(column: &'a str, into: &mut Vec<&'a str>) {
    if !into.contains(&column) {
        into.push(column);
    }
}

/// The leaves of `row_group` among `names` that have a filter.
pub(super) fn filtered_leaves<'a>(
    footer: &'a Footer,
    row_group: usize,
    names: &'a [&str],
) -> impl Iterator<Item = usize> {
    names.iter().filter_map(move |name| {
        let (_, leaf) = footer.columns.primitive(name)?;
        let chunk = footer.metadata.row_groups().get(row_group)?.columns().get(leaf)?;
        chunk.bloom_filter_offset().map(|_| leaf)
    })
}

/// The statistics of a row group, with its bloom filters.
pub(super) struct BloomEvidence<'a> {
    /// The statistics.
    pub(super) statistics: &'a RowGroupEvidence,
    /// The footer.
    pub(super) footer: &'a Footer,
    /// The filters, loaded.
    pub(super) blooms: &'a Blooms,
    /// The row group.
    pub(super) row_group: usize,
}

impl Evidence for BloomEvidence<'_> {
    fn row_count(&self) -> Option<u64> {
        self.statistics.row_count()
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.statistics.column(name)
    }

    fn has_column(&self, name: &str) -> bool {
        self.statistics.has_column(name)
    }

    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        let (column, leaf) = self.footer.columns.primitive(name)?;
        let filter = self.blooms.get(self.row_group, leaf)?;
        probe(column, filter, value)
    }
}

/// Whether `filter` of a chunk of `column` may hold `value`. The filter hashes the plain encoding of the stored value, so the
/// constant has to have exactly one, and everything that does not is "unknown".
fn probe(column: &Column, filter: &Sbbf, value: &Scalar) -> Option<bool> {
    match (column.physical, column.domain, value) {
        (Physical::INT32, Domain::Signed, Scalar::Int(number)) => Some(filter.check(&i32::try_from(*number).ok()?)),
        (Physical::INT32, Domain::Unsigned, Scalar::Int(number)) => {
            Some(filter.check(&u32::try_from(*number).ok()?.cast_signed()))
        }
        (Physical::INT64, Domain::Signed, Scalar::Int(number)) => Some(filter.check(&i64::try_from(*number).ok()?)),
        (Physical::INT64, Domain::Unsigned, Scalar::Int(number)) => {
            Some(filter.check(&u64::try_from(*number).ok()?.cast_signed()))
        }
        (Physical::INT32, Domain::Date, Scalar::Date(days)) => Some(filter.check(&i32::try_from(*days).ok()?)),
        (Physical::INT64, Domain::Timestamp { unit }, Scalar::TimestampNs(nanos)) => {
            if nanos % unit != 0 {
                return None;
            }
            Some(filter.check(&i64::try_from(nanos / unit).ok()?))
        }
        (Physical::INT64, Domain::Time { unit }, Scalar::TimeNs(nanos)) => {
            (nanos % unit == 0).then(|| filter.check(&(nanos / unit)))
        }
        (Physical::INT32, Domain::Time { unit }, Scalar::TimeNs(nanos)) => {
            if nanos % unit != 0 {
                return None;
            }
            Some(filter.check(&i32::try_from(nanos / unit).ok()?))
        }
        // Two zeros have two hashes and one value; NaN has many.
        (Physical::DOUBLE, Domain::Float, Scalar::Float(number)) if !number.is_nan() => {
            Some(if *number == 0.0 { filter.check(&0.0f64) || filter.check(&-0.0f64) } else { filter.check(number) })
        }
        (Physical::BYTE_ARRAY, Domain::Text, Scalar::Str(text)) => Some(filter.check(text.as_bytes())),
        (Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY, Domain::Binary, Scalar::Bytes(bytes)) => {
            Some(filter.check(bytes.as_slice()))
        }
        // Decimals: writers disagree about the width that is hashed.
        _ => None,
    }
}
