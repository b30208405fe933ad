//! The frame of a TLM file: magic, Arrow IPC body, block statistics, magic again.
//!
//! ```text
//! version 1:  magic | Arrow IPC file
//! version 2:  magic | Arrow IPC file | statistics (JSON) | u32 LE length of the statistics | magic
//! ```
//!
//! The magic is a stem (`PENSIEVE`, or `PNSV` and `KYMA` of other writers) and the version as one byte. Offsets in the Arrow IPC
//! footer are relative to the byte after the magic.

use std::ops::Range;

use arrow::buffer::{Buffer, MutableBuffer};

use crate::storage::Source;
use crate::{Error, Result};

/// The names a magic can begin with, most specific first.
pub const STEMS: [&str; 3] = ["PENSIEVE", "PNSV", "KYMA"];

/// What the last bytes of an Arrow IPC file are: footer length (i32 LE) and `ARROW1`.
pub const IPC_TRAILER: u64 = 10;

/// `ARROW1`, at both ends of an Arrow IPC file.
pub const IPC_MAGIC: &[u8] = b"ARROW1";

/// Bytes fetched from the end of a file that is not mapped: enough for footer and statistics of about fifty blocks.
pub const TAIL: u64 = 64 * 1024;

/// Statistics longer than this are not read: parsing them would take more memory than they can save.
pub const MAX_STATS: u64 = 256 << 20;

/// A magic that was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Magic {
    /// One of [`STEMS`].
    pub stem: &'static str,
    /// 1 or 2; other values are magics of versions this build does not know.
    pub version: u8,
}

impl Magic {
    /// The magic at the start of `head`.
    pub fn parse(head: &[u8]) -> Option<Self> {
        STEMS.iter().find_map(|stem| {
            let version = *head.strip_prefix(stem.as_bytes())?.first()?;
            (1..=16).contains(&version).then_some(Self { stem, version })
        })
    }

    /// The bytes of the magic.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = self.stem.as_bytes().to_vec();
        bytes.push(self.version);
        bytes
    }

    /// Length in bytes.
    pub fn len(self) -> u64 {
        // Stems are a few bytes long.
        u64::try_from(self.stem.len()).unwrap_or(0) + 1
    }

    /// "PENSIEVE v2".
    pub fn describe(self) -> String {
        format!("{} v{}", self.stem, self.version)
    }
}

/// Where the parts of a file are, as absolute byte ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The magic.
    pub magic: Magic,
    /// The Arrow IPC file.
    pub body: Range<u64>,
    /// The footer flatbuffer of the Arrow IPC file.
    pub footer: Range<u64>,
    /// The statistics, in version 2.
    pub stats: Option<Range<u64>>,
}

/// Some bytes up to the end of a file, fetched once and extended when they turn out to be too few.
#[derive(Debug)]
pub struct Tail<'a> {
    source: &'a dyn Source,
    start: u64,
    bytes: Buffer,
}

impl<'a> Tail<'a> {
    /// Reads the first 16 bytes and the tail of a file in one call.
    pub fn read(source: &'a dyn Source) -> Result<(Buffer, Self)> {
        let size = source.identity().size;
        let start = size.saturating_sub(TAIL);
        // A head that would reach into the tail is a part of it.
        let start = if start <= 16 { 0 } else { start };
        if start == 0 {
            let bytes = source.read(0..size)?;
            let head = bytes.slice_with_length(0, bytes.len().min(16));
            return Ok((head, Self { source, start, bytes }));
        }
        let mut buffers = source.read_many(&[0..16, start..size])?.into_iter();
        match (buffers.next(), buffers.next()) {
            (Some(head), Some(bytes)) => Ok((head, Self { source, start, bytes })),
            _ => Err(Error::io(&source.identity().path, "read the ends of", "the source answered too few ranges")),
        }
    }

    /// The bytes of `range`, which must lie within the file. Fetches what is missing, down to `from`, in one request.
    pub fn get(&mut self, range: &Range<u64>, from: u64) -> Result<Buffer> {
        if range.start < self.start {
            let from = from.min(range.start);
            let missing = self.source.read(from..self.start)?;
            let mut all = MutableBuffer::new(missing.len().saturating_add(self.bytes.len()));
            all.extend_from_slice(&missing);
            all.extend_from_slice(&self.bytes);
            self.bytes = all.into();
            self.start = from;
        }
        self.have(range).ok_or_else(|| {
            Error::corrupt(
                &self.source.identity().path,
                format!("offset {}", range.start),
                format!("bytes up to {} are expected but the file has {}", range.end, self.source.identity().size),
            )
        })
    }

    /// The bytes of `range` if they have been fetched already.
    pub fn have(&self, range: &Range<u64>) -> Option<Buffer> {
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        (start.checked_add(len)? <= self.bytes.len()).then(|| self.bytes.slice_with_length(start, len))
    }
}

/// Up to eight bytes of `bytes` for a message: as text where printable.
pub fn show(bytes: &[u8]) -> String {
    let bytes = bytes.get(..bytes.len().min(8)).unwrap_or(bytes);
    format!("\"{}\"", bytes.escape_ascii())
}

impl Frame {
    /// Finds the parts of the file behind `tail`, of which `head` are the first bytes.
    pub fn parse(head: &[u8], tail: &mut Tail<'_>) -> Result<Self> {
        let path = tail.source.identity().path.clone();
        let size = tail.source.identity().size;
        let corrupt = |at: u64, what: String| Error::corrupt(&path, format!("offset {at}"), what);
        let magic = Magic::parse(head).ok_or_else(|| {
            let is = if head.starts_with(b"PAR1") {
                ": it is a Parquet file"
            } else if head.starts_with(IPC_MAGIC) {
                ": it is a plain Arrow IPC file"
            } else {
                ""
            };
            Error::unsupported(
                &path,
                format!(
                    "not a TLM extent{is}; it begins with {}, and a TLM extent with PENSIEVE, PNSV or KYMA and a version byte",
                    show(head)
                ),
            )
        })?;
        if !(1..=2).contains(&magic.version) {
            let what = format!("{} is newer than this build reads (versions 1 and 2)", magic.describe());
            return Err(Error::unsupported(&path, what));
        }
        let frame = if magic.version == 1 { 0 } else { magic.len() + 4 };
        let smallest = magic.len() + IPC_TRAILER + frame;
        if size < smallest {
            return Err(corrupt(size, format!("the file ends after {size} bytes; the shortest extent has {smallest}")));
        }
        let (body_end, stats) = if magic.version == 1 {
            (size, None)
        } else {
            let stats = Self::stats_range(&path, magic, size, tail)?;
            (stats.start, Some(stats))
        };
        let trailer_start = body_end - IPC_TRAILER;
        let trailer = tail.get(&(trailer_start..body_end), trailer_start.saturating_sub(TAIL))?;
        let (length, arrow) = trailer.split_at(4);
        if arrow != IPC_MAGIC {
            let blame = if stats.is_some() {
                format!("; the length of the statistics at offset {} may be wrong", size - magic.len() - 4)
            } else {
                String::new()
            };
            return Err(corrupt(
                trailer_start + 4,
                format!("the Arrow IPC body does not end with \"ARROW1\" but with {}{blame}", show(arrow)),
            ));
        }
        let length = i32::from_le_bytes(length.try_into().unwrap_or_default());
        let footer_start = u64::try_from(length).ok().and_then(|l| trailer_start.checked_sub(l));
        let footer_start = footer_start.filter(|start| *start >= magic.len() && length > 0).ok_or_else(|| {
            let room = trailer_start - magic.len();
            corrupt(
                trailer_start,
                format!("the Arrow IPC footer has a length of {length}, but there are {room} bytes before it"),
            )
        })?;
        Ok(Self { magic, body: magic.len()..body_end, footer: footer_start..trailer_start, stats })
    }

    fn stats_range(path: &str, magic: Magic, size: u64, tail: &mut Tail<'_>) -> Result<Range<u64>> {
        let end_magic = size - magic.len();
        let found = tail.get(&(end_magic..size), end_magic)?;
        if found.as_slice() != magic.bytes() {
            return Err(Error::corrupt(
                path,
                format!("offset {end_magic}"),
                format!("the file does not end with its magic ({}) but with {}", magic.describe(), show(&found)),
            ));
        }
        let length_at = end_magic - 4;
        let length = tail.get(&(length_at..end_magic), length_at)?;
        let length = u64::from(u32::from_le_bytes(length.as_slice().try_into().unwrap_or_default()));
        let room = length_at.saturating_sub(magic.len() + IPC_TRAILER);
        if length > room {
            return Err(Error::corrupt(
                path,
                format!("offset {length_at}"),
                format!("the statistics have a length of {length}, but there are {room} bytes before them"),
            ));
        }
        Ok(length_at - length..length_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magics_are_told_apart() {
        type Case = (&'static [u8], Option<(&'static str, u8)>);
        let cases: &[Case] = &[
            (b"PENSIEVE\x02ARROW1", Some(("PENSIEVE", 2))),
            (b"PENSIEVE\x01", Some(("PENSIEVE", 1))),
            (b"PNSV\x02ARROW1", Some(("PNSV", 2))),
            (b"KYMA\x01ARROW1", Some(("KYMA", 1))),
            (b"KYMA\x03", Some(("KYMA", 3))),
            (b"KYMA\x00", None),
            (b"KYMAx", None),
            (b"PENSIEVE", None),
            (b"PAR1", None),
            (b"", None),
        ];
        for (head, expected) in cases {
            assert_eq!(Magic::parse(head).map(|m| (m.stem, m.version)), *expected, "{head:?}");
        }
        assert_eq!(Magic { stem: "PENSIEVE", version: 2 }.bytes(), b"PENSIEVE\x02");
    }
}
