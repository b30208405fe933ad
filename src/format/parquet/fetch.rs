//! Bytes of one file, answered from what is already in memory where possible; and the fence around the `parquet` crate, which
//! may panic on hostile bytes.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use arrow::buffer::Buffer;
use bytes::Bytes;
use parquet::errors::ParquetError;

use crate::storage::{IoCounters, Source};
use crate::{Error, Result};

/// One open file and the parts of it that are kept in memory.
#[derive(Debug, Clone)]
pub(super) struct File {
    source: Arc<dyn Source>,
    size: u64,
    memory: Arc<Memory>,
}

/// The parts of a file that stay in memory, whichever source the file is read through.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Indexes and filters that came with the first read, from before the footer.
    pub(super) tail: Kept,
    /// The page-index region, once it was read as a whole.
    index: OnceLock<Kept>,
}

/// Bytes of the file that stay in memory.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Offset of the first byte.
    pub(super) offset: u64,
    /// The bytes.
    pub(super) bytes: Bytes,
}

impl Kept {
    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start.checked_sub(self.offset)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.offset)?).ok()?;
        (start <= end && end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

impl Memory {
    /// Memory that holds `tail`.
    pub(super) fn with_tail(tail: Kept) -> Self {
        Self { tail, index: OnceLock::new() }
    }
}

impl File {
    /// The file behind `source`, parts of which are in `memory`.
    pub(super) fn new(source: Arc<dyn Source>, memory: Arc<Memory>) -> Self {
        let size = source.identity().size;
        Self { source, size, memory }
    }

    /// Path or URL, for messages.
    pub(super) fn path(&self) -> &str {
        &self.source.identity().path
    }

    /// The counters of the source.
    pub(super) fn counters(&self) -> &Arc<IoCounters> {
        self.source.counters()
    }

    /// Size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether a read costs no request.
    pub(super) fn is_local(&self) -> bool {
        self.source.is_mapped()
    }

    /// Whether `range` is a non-empty range inside the file.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        range.start < range.end && range.end <= self.size
    }

    /// Keeps the page-index region in memory.
    pub(super) fn keep_index(&self, kept: Kept) {
        if !self.source.is_mapped() {
            let _ = self.memory.index.set(kept);
        }
    }

    /// Whether `range` can be answered without a request.
    pub(super) fn is_kept(&self, range: &Range<u64>) -> bool {
        self.source.is_mapped() || self.kept(range).is_some()
    }

    fn kept(&self, range: &Range<u64>) -> Option<Bytes> {
        self.memory.tail.slice(range).or_else(|| self.memory.index.get().and_then(|kept| kept.slice(range)))
    }

    /// The bytes of every range, in order.
    ///
    /// # Errors
    /// A range that leaves the file, ranges that together exceed the file (they overlap, which no writer does), and failures
    /// of the store.
    pub(super) fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut total = 0u64;
        for range in ranges {
            if range.start > range.end || range.end > self.size {
                return Err(Error::corrupt(
                    self.path(),
                    format!("bytes {}..{}", range.start, range.end),
                    format!("the footer names bytes that the file of {} bytes does not have", self.size),
                ));
            }
            total = total.saturating_add(range.end - range.start);
        }
        if total > self.size {
            return Err(Error::corrupt(
                self.path(),
                "footer",
                format!("column chunks of one read overlap: {total} bytes in a file of {}", self.size),
            ));
        }
        let mut answers: Vec<Option<Bytes>> = ranges.iter().map(|range| self.kept(range)).collect();
        let missing: Vec<Range<u64>> = ranges
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.is_none())
            .map(|(range, _)| range.clone())
            .collect();
        if !missing.is_empty() {
            let mut read = self.source.read_many(&missing)?.into_iter();
            for (answer, range) in answers.iter_mut().zip(ranges) {
                if answer.is_some() {
                    continue;
                }
                let bytes = into_bytes(read.next().unwrap_or_else(|| Buffer::from(Vec::<u8>::new())));
                if u64::try_from(bytes.len()).ok() != Some(range.end - range.start) {
                    return Err(Error::io(
                        self.path(),
                        format!("read bytes {}..{} of", range.start, range.end),
                        format!("the store returned {} bytes", bytes.len()),
                    ));
                }
                *answer = Some(bytes);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

/// The same memory as `Bytes`; no copy.
pub(super) fn into_bytes(buffer: Buffer) -> Bytes {
    struct Owner(Buffer);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.as_slice()
        }
    }
    Bytes::from_owner(Owner(buffer))
}

/// Why the `parquet` crate did not do what it was asked for.
pub(super) enum Failure {
    /// It said so.
    Refused(ParquetError),
    /// It gave up in a place where it should not, with this text.
    GaveUp(String),
}

impl Failure {
    /// Whether a value or an offset did not fit its type: fewer rows at a time may.
    pub(super) fn is_overflow(&self) -> bool {
        match self {
            Self::Refused(error) => error.to_string().contains("overflow"),
            Self::GaveUp(text) => text.contains("overflow"),
        }
    }

    /// The error of the file at `path`. Damage is what the crate calls so; of what made it give up nobody knows.
    pub(super) fn at(self, path: &str, place: String) -> Error {
        let overflow = self.is_overflow();
        match self {
            Self::Refused(ParquetError::NYI(what)) => Error::unsupported(path, format!("{what} (at {place})")),
            Self::Refused(error @ ParquetError::ArrowError(_)) => Error::undecodable(path, place, error.to_string()),
            Self::Refused(error) if overflow => Error::undecodable(path, place, error.to_string()),
            Self::Refused(error) => Error::corrupt(path, place, error.to_string()),
            Self::GaveUp(text) => Error::undecodable(path, place, format!("decoding gave up: {text}")),
        }
    }
}

/// Runs `work` and catches its panics.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Failure::Refused),
        Err(panic) => Err(Failure::GaveUp(panic_text(panic.as_ref()).to_owned())),
    }
}

/// Runs `work`, turning its errors and its panics into an [`Error`] about `path`.
pub(super) fn guarded<T>(
    path: &str,
    place: impl Fn() -> String,
    work: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T> {
    caught(work).map_err(|failure| failure.at(path, place()))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
