//! Files read and written through the host (DuckDB's own file system, and with it `httpfs`, secrets and Python's fsspec).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};

use super::ranges::{Coalesce, check, coalesce, count, describe, distribute, length};
use super::{Identity, IoCounters, Sink, Source};
use crate::{Error, Result};

/// A file the host has opened for reading.
pub trait HostFile: Send + Sync {
    /// Path or URL, as the user gave it.
    fn path(&self) -> &str;
    /// Size in bytes.
    fn size(&self) -> u64;
    /// ETag or another version of the content; empty when the host has none.
    fn version(&self) -> String;
    /// Fills `out` with the bytes at `offset`, or fails. May be called concurrently.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
}

/// A [`HostFile`] as a [`Source`].
pub struct HostSource {
    identity: Identity,
    file: Box<dyn HostFile>,
    coalesce: Coalesce,
    counters: Arc<IoCounters>,
}

impl HostSource {
    /// Wraps an open file. Close ranges become one request as `coalesce` says; a gap of 0 suits local disks.
    pub fn new(file: Box<dyn HostFile>, coalesce: Coalesce, counters: Arc<IoCounters>) -> Result<Self> {
        let identity = Identity { path: file.path().to_owned(), size: file.size(), version: file.version() };
        if identity.size == 0 {
            return Err(Error::corrupt(identity.path, "offset 0", "the file is empty"));
        }
        Ok(Self { identity, file, coalesce, counters })
    }
}

impl fmt::Debug for HostSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSource").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Source for HostSource {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        check(&self.identity, ranges)?;
        let requests = coalesce(ranges, self.coalesce);
        let mut bytes = Vec::with_capacity(requests.len());
        for request in &requests {
            let failed = |e: String| Error::io(&self.identity.path, describe(request), e);
            let len = length(&self.identity, request)?;
            let mut buffer = MutableBuffer::try_from_len_zeroed(len).map_err(|e| failed(e.to_string()))?;
            self.file.read_at(request.start, buffer.as_slice_mut()).map_err(|e| match e {
                Error::Interrupted => Error::Interrupted,
                other => failed(other.to_string()),
            })?;
            count(&self.counters, 1, request.end - request.start);
            bytes.push(Buffer::from(buffer));
        }
        distribute(&self.identity, ranges, &requests, &bytes)
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }
}

/// A file the host has opened for writing. The host makes it visible under its final name in `finish`.
pub trait HostWriter: Send {
    /// The final name, for messages.
    fn path(&self) -> &str;
    /// Appends `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Completes the file.
    fn finish(&mut self) -> Result<()>;
    /// Removes what was written. Called at most once, and never after `finish`.
    fn abort(&mut self);
}

/// A [`HostWriter`] as a [`Sink`].
pub struct HostSink {
    writer: Box<dyn HostWriter>,
    written: u64,
    finished: bool,
}

impl HostSink {
    /// Wraps an open file.
    pub fn new(writer: Box<dyn HostWriter>) -> Self {
        Self { writer, written: 0, finished: false }
    }
}

impl Sink for HostSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes)?;
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn position(&self) -> u64 {
        self.written
    }

    fn path(&self) -> &str {
        self.writer.path()
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.finish()?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for HostSink {
    fn drop(&mut self) {
        if !self.finished {
            self.writer.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    use super::*;

    struct Bytes(Vec<u8>);

    impl HostFile for Bytes {
        fn path(&self) -> &str {
            "host://f"
        }
        fn size(&self) -> u64 {
            self.0.len() as u64
        }
        fn version(&self) -> String {
            "v1".into()
        }
        fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
            let start = usize::try_from(offset).unwrap();
            out.copy_from_slice(&self.0[start..start + out.len()]);
            Ok(())
        }
    }

    #[test]
    fn ranges_are_coalesced_and_counted() {
        let file = Box::new(Bytes((0u8..200).collect()));
        let source = HostSource::new(file, Coalesce { gap: 16, max_request: 1000 }, Arc::default()).unwrap();
        let got = source.read_many(&[100..104, 0..4, 10..12]).unwrap();
        assert_eq!(got[0].as_slice(), [100, 101, 102, 103]);
        assert_eq!(got[2].as_slice(), [10, 11]);
        assert_eq!(source.counters().requests.load(Ordering::Relaxed), 2);
        assert_eq!(source.counters().bytes.load(Ordering::Relaxed), 16);
        assert!(HostSource::new(Box::new(Bytes(vec![])), Coalesce { gap: 0, max_request: 1 }, Arc::default()).is_err());
    }

    #[derive(Default, Clone)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    impl HostWriter for Recorder {
        fn path(&self) -> &str {
            "host://out"
        }
        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.0.lock().unwrap().push(format!("write {}", bytes.len()));
            Ok(())
        }
        fn finish(&mut self) -> Result<()> {
            self.0.lock().unwrap().push("finish".into());
            Ok(())
        }
        fn abort(&mut self) {
            self.0.lock().unwrap().push("abort".into());
        }
    }

    #[test]
    fn an_unfinished_sink_aborts() {
        let log = Recorder::default();
        let mut sink = Box::new(HostSink::new(Box::new(log.clone())));
        sink.write(b"abc").unwrap();
        assert_eq!(sink.position(), 3);
        drop(sink);
        let mut sink = Box::new(HostSink::new(Box::new(log.clone())));
        sink.write(b"x").unwrap();
        sink.finish().unwrap();
        assert_eq!(*log.0.lock().unwrap(), ["write 3", "abort", "write 1", "finish"]);
    }
}
