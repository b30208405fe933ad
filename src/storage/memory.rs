//! Sources that need no file: bytes in memory, bytes fetched ahead, and slow or failing sources for tests.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::buffer::Buffer;

use super::ranges::{check, count, length};
use super::{Identity, IoCounters, Source};
use crate::{Error, Result};

/// A file whose bytes are in memory.
#[derive(Debug)]
pub struct MemorySource {
    identity: Identity,
    bytes: Buffer,
    mapped: bool,
    counters: Arc<IoCounters>,
}

impl MemorySource {
    /// `bytes` under the name `path`. `version` is left empty, so nothing about it is cached.
    pub fn new(path: impl Into<String>, bytes: impl Into<Buffer>) -> Self {
        let bytes = bytes.into();
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let identity = Identity { path: path.into(), size, version: String::new() };
        Self { identity, bytes, mapped: false, counters: Arc::default() }
    }

    /// The same source with a version in its identity.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.identity.version = version.into();
        self
    }

    /// The same source, claiming to be memory-mapped.
    #[must_use]
    pub fn mapped(mut self) -> Self {
        self.mapped = true;
        self
    }
}

impl Source for MemorySource {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        check(&self.identity, ranges)?;
        ranges
            .iter()
            .map(|range| {
                count(&self.counters, 1, range.end - range.start);
                let start = length(&self.identity, &(0..range.start))?;
                Ok(self.bytes.slice_with_length(start, length(&self.identity, range)?))
            })
            .collect()
    }

    fn is_mapped(&self) -> bool {
        self.mapped
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }
}

/// A source with some of its bytes already fetched: reads inside a fetched range cost nothing, others go through.
#[derive(Debug)]
pub struct PrefetchedSource {
    base: Arc<dyn Source>,
    fetched: Vec<(Range<u64>, Buffer)>,
}

impl PrefetchedSource {
    /// Fetches `ranges` of `base` in one call.
    pub fn fetch(base: Arc<dyn Source>, ranges: &[Range<u64>]) -> Result<Self> {
        let buffers = base.read_many(ranges)?;
        Ok(Self { base, fetched: ranges.iter().cloned().zip(buffers).collect() })
    }

    /// `base`, of which `buffer` are the bytes `range`.
    pub fn with(base: Arc<dyn Source>, range: Range<u64>, buffer: Buffer) -> Self {
        Self { base, fetched: vec![(range, buffer)] }
    }

    fn find(&self, range: &Range<u64>) -> Option<Buffer> {
        let (have, buffer) =
            self.fetched.iter().find(|(have, _)| have.start <= range.start && range.end <= have.end)?;
        let start = usize::try_from(range.start.checked_sub(have.start)?).ok()?;
        let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        (start.checked_add(len)? <= buffer.len()).then(|| buffer.slice_with_length(start, len))
    }
}

impl Source for PrefetchedSource {
    fn identity(&self) -> &Identity {
        self.base.identity()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        let found: Vec<Option<Buffer>> = ranges.iter().map(|r| self.find(r)).collect();
        let missing: Vec<Range<u64>> =
            ranges.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(r, _)| r.clone()).collect();
        let mut fetched = if missing.is_empty() { Vec::new() } else { self.base.read_many(&missing)? }.into_iter();
        found
            .into_iter()
            .zip(ranges)
            .map(|(buffer, range)| {
                buffer.or_else(|| fetched.next()).ok_or_else(|| {
                    Error::io(
                        &self.identity().path,
                        super::ranges::describe(range),
                        "the source answered too few ranges",
                    )
                })
            })
            .collect()
    }

    fn is_mapped(&self) -> bool {
        self.base.is_mapped()
    }

    fn counters(&self) -> &Arc<IoCounters> {
        self.base.counters()
    }

    fn fetched_tail(&self) -> u64 {
        let size = self.identity().size;
        let own = self.fetched.iter().filter(|(range, _)| range.end == size).map(|(range, _)| range.end - range.start);
        own.max().unwrap_or(0).max(self.base.fetched_tail())
    }

    /// A file that is here as a whole stays: reading it again would cost more than the memory.
    fn base(&self) -> Option<Arc<dyn Source>> {
        let whole = 0..self.identity().size;
        if self.fetched.iter().any(|(range, _)| *range == whole) {
            return None;
        }
        Some(self.base.base().unwrap_or_else(|| Arc::clone(&self.base)))
    }
}

/// A source for tests: every call takes `latency`, and reads that touch `fail_at` fail.
#[derive(Debug)]
pub struct ThrottledSource {
    base: Arc<dyn Source>,
    latency: Duration,
    fail_at: Option<Range<u64>>,
}

impl ThrottledSource {
    /// Wraps `base`.
    pub fn new(base: Arc<dyn Source>, latency: Duration) -> Self {
        Self { base, latency, fail_at: None }
    }

    /// Reads that overlap `range` fail.
    #[must_use]
    pub fn failing_at(mut self, range: Range<u64>) -> Self {
        self.fail_at = Some(range);
        self
    }
}

impl Source for ThrottledSource {
    fn identity(&self) -> &Identity {
        self.base.identity()
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        std::thread::sleep(self.latency);
        if let Some(bad) = &self.fail_at
            && let Some(range) = ranges.iter().find(|r| r.start < bad.end && bad.start < r.end)
        {
            return Err(Error::io(&self.identity().path, super::ranges::describe(range), "injected failure"));
        }
        self.base.read_many(ranges)
    }

    fn counters(&self) -> &Arc<IoCounters> {
        self.base.counters()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn prefetched_bytes_are_not_read_again() {
        let base: Arc<dyn Source> = Arc::new(MemorySource::new("m", (0u8..100).collect::<Vec<_>>()));
        let source = PrefetchedSource::fetch(base, &[0..10, 50..100]).unwrap();
        assert_eq!(source.counters().requests.load(Ordering::Relaxed), 2);
        let got = source.read_many(&[5..8, 20..22, 60..61]).unwrap();
        let got: Vec<&[u8]> = got.iter().map(Buffer::as_slice).collect();
        assert_eq!(got, [&[5u8, 6, 7][..], &[20, 21], &[60]]);
        assert_eq!(source.counters().requests.load(Ordering::Relaxed), 3);
        assert!(source.read(99..101).is_err());
    }

    #[test]
    fn injected_failures_name_the_range() {
        let base: Arc<dyn Source> = Arc::new(MemorySource::new("m", vec![0u8; 100]));
        let source = ThrottledSource::new(base, Duration::ZERO).failing_at(10..20);
        assert!(source.read(0..10).is_ok());
        let error = source.read(15..30).unwrap_err().to_string();
        assert!(error.contains("15..30"), "{error}");
    }
}
