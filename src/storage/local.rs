//! Files of the local disk: memory-mapped, or read with positioned reads.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use memmap2::{Advice, Mmap};

use super::ranges::{check, count, describe, length};
use super::{Identity, IoCounters, Source};
use crate::{Error, Result};

/// How local files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalOptions {
    /// Map files into memory (no copy). Off, every read is a positioned read into fresh memory: slower, but a file that another
    /// process truncates while it is being queried is then an error instead of a fault.
    pub mmap: bool,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { mmap: true }
    }
}

/// One open file of the local disk.
#[derive(Debug)]
pub struct LocalSource {
    identity: Identity,
    file: File,
    map: Option<(Arc<Mmap>, Buffer)>,
    counters: Arc<IoCounters>,
}

/// Keeps the mapping alive for as long as a buffer points into it.
struct Mapping(Arc<Mmap>);

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Ranges of at least this many bytes are announced to the kernel, so that a cold file is read ahead in large requests.
const ADVISE_FROM: u64 = 64 * 1024;

impl LocalSource {
    /// Opens `path`. A missing file, a directory and an empty file are errors that say so.
    pub fn open(path: &str, options: LocalOptions, counters: Arc<IoCounters>) -> Result<Self> {
        let file = File::open(Path::new(path)).map_err(|e| Error::io(path, "open", e))?;
        let metadata = file.metadata().map_err(|e| Error::io(path, "read the size of", e))?;
        if metadata.is_dir() {
            return Err(Error::io(path, "open", "it is a directory, not a file"));
        }
        let size = metadata.len();
        if size == 0 {
            return Err(Error::corrupt(path, "offset 0", "the file is empty"));
        }
        let identity = Identity { path: path.to_owned(), size, version: version_of(&metadata) };
        let map = if options.mmap && metadata.is_file() {
            // SAFETY: the mapping is read-only and private to this process's address space. Extents are immutable and replaced
            // by rename, which leaves the mapped inode untouched; the size is checked again before every read, so a file that
            // was truncated in between is reported instead of touched.
            let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, "memory-map", e))?);
            let buffer = Buffer::from(bytes::Bytes::from_owner(Mapping(Arc::clone(&map))));
            Some((map, buffer))
        } else {
            None
        };
        Ok(Self { identity, file, map, counters })
    }

    /// Fails if the file is no longer as long as it was when it was opened.
    fn check_size(&self) -> Result<()> {
        let now = self.file.metadata().map_err(|e| Error::io(&self.identity.path, "read the size of", e))?.len();
        if now < self.identity.size {
            return Err(Error::io(
                &self.identity.path,
                "read",
                format!("the file shrank from {} to {now} bytes while it was open", self.identity.size),
            ));
        }
        Ok(())
    }
}

impl Source for LocalSource {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        check(&self.identity, ranges)?;
        self.check_size()?;
        let mut out = Vec::with_capacity(ranges.len());
        for range in ranges {
            let len = length(&self.identity, range)?;
            count(&self.counters, 1, range.end - range.start);
            out.push(match &self.map {
                Some((map, buffer)) => {
                    let start = length(&self.identity, &(0..range.start))?;
                    if range.end - range.start >= ADVISE_FROM {
                        // Only a hint: a kernel that does not take it reads page by page.
                        let _ = map.advise_range(Advice::WillNeed, start, len);
                    }
                    buffer.slice_with_length(start, len)
                }
                None => {
                    let mut bytes = MutableBuffer::try_from_len_zeroed(len)
                        .map_err(|e| Error::io(&self.identity.path, describe(range), e.to_string()))?;
                    read_exact_at(&self.file, bytes.as_slice_mut(), range.start)
                        .map_err(|e| Error::io(&self.identity.path, describe(range), e))?;
                    bytes.into()
                }
            });
        }
        Ok(out)
    }

    fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }
}

#[cfg(unix)]
fn version_of(metadata: &std::fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{}-{}{:09}", metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
}

#[cfg(not(unix))]
fn version_of(metadata: &std::fs::Metadata) -> String {
    let since = metadata.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    since.map(|d| format!("0-{}", d.as_nanos())).unwrap_or_default()
}

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                out = out.get_mut(n..).unwrap_or_default();
                offset = offset.saturating_add(u64::try_from(n).unwrap_or(0));
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn open(path: &Path, mmap: bool) -> Result<LocalSource> {
        LocalSource::open(path.to_str().unwrap(), LocalOptions { mmap }, Arc::default())
    }

    #[test]
    fn reads_ranges_mapped_and_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        for mmap in [true, false] {
            let source = open(&path, mmap).unwrap();
            assert_eq!(source.is_mapped(), mmap);
            let got = source.read_many(&[2..5, 0..0, 9..10, 0..10]).unwrap();
            let got: Vec<&[u8]> = got.iter().map(Buffer::as_slice).collect();
            assert_eq!(got, [&b"234"[..], b"", b"9", b"0123456789"]);
            assert_eq!(source.counters().bytes.load(Ordering::Relaxed), 14);
            let error = source.read(5..11).unwrap_err().to_string();
            assert!(error.contains("bytes 5..11") && error.contains("10 bytes"), "{error}");
            #[expect(clippy::reversed_empty_ranges, reason = "the point of the test")]
            let reversed = source.read(5..4);
            assert!(reversed.is_err());
        }
    }

    #[test]
    fn a_mapped_buffer_outlives_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, vec![7u8; 100_000]).unwrap();
        let buffer = open(&path, true).unwrap().read(10..90_000).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(buffer.iter().all(|b| *b == 7));
    }

    #[test]
    fn bad_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        let cases = [
            (dir.path().to_path_buf(), "directory"),
            (dir.path().join("missing"), "missing"),
            (empty, "the file is empty"),
        ];
        for (path, needle) in cases {
            let error = open(&path, true).unwrap_err().to_string();
            assert!(error.contains(needle) && error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn a_shrunken_file_is_an_error_and_a_rewritten_one_another_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, vec![1u8; 10_000]).unwrap();
        let source = open(&path, true).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        let error = source.read(0..10_000).unwrap_err().to_string();
        assert!(error.contains("shrank from 10000 to 10"), "{error}");

        let before = open(&path, true).unwrap().identity().clone();
        let other = dir.path().join("g");
        std::fs::write(&other, vec![2u8; 10]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(&before, open(&path, true).unwrap().identity());
    }
}
