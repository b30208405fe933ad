//! The local sink: a temporary file beside the target, renamed over it once complete.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Sink;
use crate::{Error, Result};

/// Writes to `.{name}.{uuid}.tmp` in the target's directory; [`Sink::finish`] syncs it and renames it over the target, so that a
/// reader sees the old file, the new file or no file, never a part. Dropping the sink removes the temporary.
#[derive(Debug)]
pub struct LocalSink {
    path: String,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
    written: u64,
}

/// Small pieces (message headers, statistics) are gathered; blocks are larger than this and go straight through.
const BUFFER: usize = 256 * 1024;

impl LocalSink {
    /// Starts a file that will be called `path`. The directory must exist.
    pub fn create(path: &str) -> Result<Self> {
        let target = Path::new(path);
        let name = target.file_name().ok_or_else(|| Error::io(path, "create", "the path has no file name"))?;
        if target.is_dir() {
            return Err(Error::io(path, "create", "it is a directory, not a file"));
        }
        let name = format!(".{}.{}.tmp", name.to_string_lossy(), uuid::Uuid::new_v4());
        let temporary = target.with_file_name(name);
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&temporary)
            .map_err(|e| Error::io(path, "create a temporary file beside", e))?;
        Ok(Self { path: path.to_owned(), temporary, file: Some(BufWriter::with_capacity(BUFFER, file)), written: 0 })
    }

    fn complete(&mut self) -> std::io::Result<()> {
        let Some(writer) = self.file.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(&self.temporary, &self.path)?;
        self.temporary = PathBuf::new();
        sync_directory(Path::new(&self.path));
        Ok(())
    }
}

/// Makes the rename itself durable. Best effort: not every file system can sync a directory, and the data already is.
fn sync_directory(path: &Path) {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if let Ok(directory) = File::open(parent) {
        let _ = directory.sync_all();
    }
}

impl Sink for LocalSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let offset = self.written;
        let file = self.file.as_mut().ok_or_else(|| Error::io(&self.path, "write to", "the file is complete"))?;
        file.write_all(bytes)
            .map_err(|e| Error::io(&self.path, format!("write {} bytes at offset {offset} of", bytes.len()), e))?;
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn position(&self) -> u64 {
        self.written
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.complete().map_err(|e| Error::io(&self.path, "complete", e))
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if let Some(writer) = self.file.take() {
            // Without this the buffered rest would still be written to a file that is about to go.
            drop(writer.into_parts());
        }
        if !self.temporary.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// A sink into memory, for tests and for small files that are sent in one request.
#[derive(Debug, Default)]
pub struct MemorySink {
    path: String,
    bytes: Vec<u8>,
    out: Option<std::sync::mpsc::Sender<Vec<u8>>>,
}

impl MemorySink {
    /// A sink named `path`, and where its bytes arrive once it is finished.
    pub fn new(path: impl Into<String>) -> (Self, std::sync::mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        (Self { path: path.into(), bytes: Vec::new(), out: Some(sender) }, receiver)
    }
}

impl Sink for MemorySink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn position(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if let Some(out) = self.out.take() {
            // A receiver that is gone has no use for the bytes.
            let _ = out.send(std::mem::take(&mut self.bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_visible_before_finish_and_nothing_stays_after_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.tlm");
        std::fs::write(&path, b"old").unwrap();
        let mut sink = Box::new(LocalSink::create(path.to_str().unwrap()).unwrap());
        sink.write(b"new content").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(sink);
        assert_eq!(names(dir.path()), ["out.tlm"]);

        let mut sink = Box::new(LocalSink::create(path.to_str().unwrap()).unwrap());
        sink.write(b"new ").unwrap();
        sink.write(&vec![b'x'; BUFFER * 2]).unwrap();
        assert_eq!(sink.position(), 4 + 2 * BUFFER as u64);
        sink.finish().unwrap();
        assert_eq!(names(dir.path()), ["out.tlm"]);
        assert_eq!(std::fs::read(&path).unwrap().len(), 4 + 2 * BUFFER);
    }

    #[test]
    fn impossible_targets_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_path_buf(), dir.path().join("no/such/dir/f"), PathBuf::from("/")] {
            let error = LocalSink::create(path.to_str().unwrap()).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }
}
