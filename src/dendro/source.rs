//! A segment's bytes as a [`Source`]: fetched by range, inside the snapshot, when they are asked for.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::buffer::Buffer;

use super::snapshot::Snapshot;
use super::table::Segment;
use crate::storage::{Identity, IoCounters, Source};
use crate::{Error, Result};

/// A segment up to this size is fetched in one read: finding its BLOB costs as much as reading it.
const WHOLE_BELOW: u64 = 256 * 1024;

/// Gaps up to this size are read rather than skipped. Skipping within a BLOB walks SQLite's page chain.
const COALESCE_GAP: u64 = 64 * 1024;

/// The Parquet file in one segment. Opening it reads nothing.
#[derive(Debug)]
pub struct SegmentSource {
    snapshot: Arc<Snapshot>,
    segment: Segment,
    identity: Identity,
    whole: OnceLock<Buffer>,
    touched: AtomicBool,
}

impl Snapshot {
    /// The bytes of `segment`, which must come from this snapshot's catalog. Nothing is read before the first range.
    pub fn segment_source(self: &Arc<Self>, segment: &Segment) -> Arc<dyn Source> {
        let info = &segment.info;
        let archive = match &segment.source.uuid {
            Some(uuid) => uuid.clone(),
            None => format!("inode {}", self.inode()),
        };
        let identity = Identity {
            path: format!("{} ({})", self.path(), segment.describe()),
            size: info.byte_size,
            // A segment never changes; a number may be used again only by later rows.
            version: format!("{archive}/{}/{}/{}..{}", segment.stream.name, info.seq, info.first_ts, info.last_ts),
        };
        Arc::new(SegmentSource {
            snapshot: self.clone(),
            segment: segment.clone(),
            identity,
            whole: OnceLock::new(),
            touched: AtomicBool::new(false),
        })
    }
}

impl SegmentSource {
    fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        if !self.touched.swap(true, Ordering::Relaxed) {
            self.snapshot.counters().segments_opened.fetch_add(1, Ordering::Relaxed);
        }
        self.snapshot.read_blob(self.segment.source.id, &self.segment.stream.name, &self.segment.info, ranges)
    }

    fn whole(&self) -> Result<&Buffer> {
        if let Some(buffer) = self.whole.get() {
            return Ok(buffer);
        }
        let buffer = self
            .fetch(std::slice::from_ref(&(0..self.identity.size)))?
            .pop()
            .unwrap_or_else(|| Buffer::from_vec(Vec::<u8>::new()));
        Ok(self.whole.get_or_init(|| buffer))
    }

    fn slice(&self, of: &Buffer, base: u64, range: &Range<u64>) -> Result<Buffer> {
        let start = usize::try_from(range.start - base);
        let length = usize::try_from(range.end - range.start);
        match (start, length) {
            (Ok(start), Ok(length)) if start.checked_add(length).is_some_and(|end| end <= of.len()) => {
                Ok(of.slice_with_length(start, length))
            }
            _ => Err(Error::corrupt(
                self.identity.path.clone(),
                format!("bytes {}..{}", range.start, range.end),
                format!("the read returned {} bytes", of.len()),
            )),
        }
    }
}

/// Ranges to read so that every one of `wanted` lies within one of them: ascending, with small gaps closed.
fn coalesce(wanted: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = wanted.iter().filter(|r| r.start < r.end).cloned().collect();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(COALESCE_GAP) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

impl Source for SegmentSource {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        for range in ranges {
            if range.start > range.end || range.end > self.identity.size {
                return Err(Error::corrupt(
                    self.identity.path.clone(),
                    format!("bytes {}..{}", range.start, range.end),
                    format!("the segment has {} bytes", self.identity.size),
                ));
            }
        }
        if self.identity.size <= WHOLE_BELOW {
            let whole = self.whole()?;
            return ranges.iter().map(|range| self.slice(whole, 0, range)).collect();
        }
        let merged = coalesce(ranges);
        let buffers = if merged.is_empty() { Vec::new() } else { self.fetch(&merged)? };
        ranges
            .iter()
            .map(|range| {
                if range.start == range.end {
                    return Ok(Buffer::from_vec(Vec::<u8>::new()));
                }
                let at = merged.partition_point(|m| m.end < range.end);
                match (merged.get(at), buffers.get(at)) {
                    (Some(m), Some(buffer)) if m.start <= range.start => self.slice(buffer, m.start, range),
                    _ => Err(Error::InvalidInput(format!("range {range:?} was not read"))),
                }
            })
            .collect()
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.snapshot.counters().io
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_ranges_become_one_read() {
        let far = COALESCE_GAP * 10;
        assert_eq!(coalesce(&[far..far + 5, 10..20, 15..30, 0..0]), vec![10..30, far..far + 5]);
        assert_eq!(coalesce(&[0..1, COALESCE_GAP..COALESCE_GAP + 1]), vec![0..COALESCE_GAP + 1]);
        assert!(coalesce(&[]).is_empty());
    }
}
