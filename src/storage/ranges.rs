//! Range arithmetic shared by the sources: bounds checks, coalescing of close ranges, and the IO counters.

use std::ops::Range;
use std::sync::atomic::Ordering;

use arrow::buffer::Buffer;

use super::{Identity, IoCounters};
use crate::{Error, Result};

/// How ranges are merged into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalesce {
    /// Two ranges at most this many bytes apart become one request (the bytes between are fetched and dropped).
    pub gap: u64,
    /// A merged request does not grow beyond this many bytes (a single longer range stays one request).
    pub max_request: u64,
}

impl Default for Coalesce {
    /// 2 MiB gaps: at 100 MB/s that is 20 ms, about the round trip to an object store that they save.
    fn default() -> Self {
        Self { gap: 2 << 20, max_request: 32 << 20 }
    }
}

/// Fails unless every range lies within the file and is not reversed.
pub(super) fn check(identity: &Identity, ranges: &[Range<u64>]) -> Result<()> {
    for range in ranges {
        if range.start > range.end || range.end > identity.size {
            return Err(Error::io(
                &identity.path,
                describe(range),
                format!("the range is outside the file, which has {} bytes", identity.size),
            ));
        }
    }
    Ok(())
}

/// The operation of an error about `range`.
pub(super) fn describe(range: &Range<u64>) -> String {
    format!("read bytes {}..{} of", range.start, range.end)
}

/// A length in memory for a range, or an error on machines where it does not fit.
pub(super) fn length(identity: &Identity, range: &Range<u64>) -> Result<usize> {
    usize::try_from(range.end.saturating_sub(range.start))
        .map_err(|_| Error::io(&identity.path, describe(range), "the range does not fit into memory"))
}

/// Adds `requests` requests of `bytes` bytes in total to the counters.
pub(super) fn count(counters: &IoCounters, requests: u64, bytes: u64) {
    counters.requests.fetch_add(requests, Ordering::Relaxed);
    counters.bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// Merges `ranges` (any order, empty and overlapping ones allowed) into ascending disjoint requests that cover them all.
pub fn coalesce(ranges: &[Range<u64>], how: Coalesce) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.iter().filter(|r| r.start < r.end).cloned().collect();
    sorted.sort_by_key(|r| (r.start, r.end));
    let mut out: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        if let Some(last) = out.last_mut() {
            let close = range.start <= last.end.saturating_add(how.gap);
            let small = range.end.max(last.end) - last.start <= how.max_request;
            let overlaps = range.start < last.end;
            if overlaps || (close && small) {
                last.end = last.end.max(range.end);
                continue;
            }
        }
        out.push(range);
    }
    out
}

/// Answers each of `ranges` from the fetched `requests` (as [`coalesce`] made them, with their bytes) without copying.
pub(super) fn distribute(
    identity: &Identity,
    ranges: &[Range<u64>],
    requests: &[Range<u64>],
    bytes: &[Buffer],
) -> Result<Vec<Buffer>> {
    ranges
        .iter()
        .map(|range| {
            if range.start == range.end {
                return Ok(Buffer::from(Vec::<u8>::new()));
            }
            let found = requests.partition_point(|r| r.start <= range.start).checked_sub(1);
            let slice = found.and_then(|i| Some((requests.get(i)?, bytes.get(i)?))).and_then(|(request, buffer)| {
                let start = usize::try_from(range.start.checked_sub(request.start)?).ok()?;
                let len = usize::try_from(range.end - range.start).ok()?;
                (start.checked_add(len)? <= buffer.len()).then(|| buffer.slice_with_length(start, len))
            });
            slice.ok_or_else(|| Error::io(&identity.path, describe(range), "the store returned fewer bytes"))
        })
        .collect()
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::single_range_in_vec_init,
    reason = "numbers of tests are small, and a list of one range is meant"
)]
mod tests {
    use super::*;

    const HOW: Coalesce = Coalesce { gap: 10, max_request: 100 };

    #[test]
    fn close_ranges_become_one_request() {
        type Ranges = &'static [Range<u64>];
        let table: &[(Ranges, Ranges)] = &[
            (&[], &[]),
            (&[5..5], &[]),
            (&[0..10, 20..30], &[0..30]),
            (&[0..10, 21..30], &[0..10, 21..30]),
            (&[20..30, 0..10], &[0..30]),
            (&[0..90, 95..120], &[0..90, 95..120]),
            (&[0..500, 505..510], &[0..500, 505..510]),
            (&[0..500, 400..600], &[0..600]),
            (&[0..100, 10..20], &[0..100]),
        ];
        for (input, output) in table {
            assert_eq!(&coalesce(input, HOW), output, "{input:?}");
        }
    }

    #[test]
    fn distribution_finds_every_range() {
        let identity = Identity { path: "x".into(), size: 100, version: String::new() };
        let data: Vec<u8> = (0..100).collect();
        let ranges = [50..60, 0..10, 12..20, 7..7];
        let requests = coalesce(&ranges, HOW);
        let bytes: Vec<Buffer> =
            requests.iter().map(|r| Buffer::from(data[r.start as usize..r.end as usize].to_vec())).collect();
        let out = distribute(&identity, &ranges, &requests, &bytes).unwrap();
        for (range, buffer) in ranges.iter().zip(out) {
            assert_eq!(buffer.as_slice(), &data[range.start as usize..range.end as usize]);
        }
        assert!(distribute(&identity, &[90..95], &requests, &bytes).is_err());
    }
}
