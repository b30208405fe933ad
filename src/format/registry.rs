//! The formats this build knows, by name and by leading bytes.

use std::sync::Arc;

use super::parquet::ParquetFormat;
use super::tlm::TlmFormat;
use super::{ExtentReader, SegmentFormat};
use crate::storage::Source;
use crate::storage::memory::PrefetchedSource;
use crate::{Error, Result};

/// Environment variable that names the format extents are written in.
pub const WRITE_FORMAT_VARIABLE: &str = "PENSIEVE_WRITE_FORMAT";

/// The format extents are written in when nothing else says so.
pub const DEFAULT_WRITE_FORMAT: &str = "tlm";

/// Bytes of the start of a file that [`SegmentFormat::recognises`] gets.
pub const HEAD: u64 = 16;

/// Bytes of the end of an object that are asked for when it is opened for the first time: footer, statistics and page indexes of a
/// typical extent. At 100 MB/s they take 5 ms, less than the round trip of a second request.
pub const OPENING_TAIL: u64 = 512 * 1024;

/// Bytes of the end of a file that are fetched together with its start: formats keep their footers there.
const TAIL: u64 = 64 * 1024;

/// Formats in the order in which they are asked whether they recognise a file.
#[derive(Clone)]
pub struct FormatRegistry {
    formats: Vec<Arc<dyn SegmentFormat>>,
}

impl Default for FormatRegistry {
    /// Every format of this build.
    fn default() -> Self {
        let mut registry = Self::empty();
        registry.register(Arc::new(TlmFormat));
        registry.register(Arc::new(ParquetFormat));
        registry
    }
}

impl std::fmt::Debug for FormatRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl FormatRegistry {
    /// A registry without formats.
    pub fn empty() -> Self {
        Self { formats: Vec::new() }
    }

    /// Adds a format, in place of one with the same name.
    pub fn register(&mut self, format: Arc<dyn SegmentFormat>) {
        self.formats.retain(|f| f.name() != format.name());
        self.formats.push(format);
    }

    /// Names of the formats.
    pub fn names(&self) -> Vec<&'static str> {
        self.formats.iter().map(|f| f.name()).collect()
    }

    /// The format called `name`, in any case.
    ///
    /// # Errors
    /// If there is none; the message lists those there are.
    pub fn by_name(&self, name: &str) -> Result<&Arc<dyn SegmentFormat>> {
        self.formats.iter().find(|f| f.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            Error::InvalidInput(format!(
                "unknown extent format \"{name}\"; the formats are {}",
                self.names().join(", ")
            ))
        })
    }

    /// The format of a file that begins with `head`.
    pub fn recognise(&self, head: &[u8]) -> Option<&Arc<dyn SegmentFormat>> {
        self.formats.iter().find(|f| f.recognises(head))
    }

    /// The format to write: `explicit` (an option of the statement), else `setting`, else the environment variable
    /// `PENSIEVE_WRITE_FORMAT`, else TLM. Empty texts count as absent.
    pub fn writer(&self, explicit: Option<&str>, setting: Option<&str>) -> Result<&Arc<dyn SegmentFormat>> {
        let environment = std::env::var(WRITE_FORMAT_VARIABLE).ok();
        self.writer_from(explicit, setting, environment.as_deref())
    }

    fn writer_from(
        &self,
        explicit: Option<&str>,
        setting: Option<&str>,
        environment: Option<&str>,
    ) -> Result<&Arc<dyn SegmentFormat>> {
        let given = [explicit, setting, environment].into_iter().flatten().find(|name| !name.trim().is_empty());
        self.by_name(given.unwrap_or(DEFAULT_WRITE_FORMAT).trim())
    }

    /// Opens a file as what its leading bytes say it is; its name does not matter. Both ends of a file that is not mapped are
    /// fetched in one call, so a footer that fits costs no further request.
    ///
    /// # Errors
    /// If no format recognises the file (the message shows its first bytes and lists the formats), or if opening fails.
    pub fn open(&self, source: Arc<dyn Source>) -> Result<Arc<dyn ExtentReader>> {
        let size = source.identity().size;
        let head = 0..size.min(HEAD);
        let fetched = source.fetched_tail();
        if fetched >= HEAD.min(size) {
            let end = source.read(size.saturating_sub(HEAD)..size)?;
            if let Some(format) = self.formats.iter().find(|format| format.recognises_end(&end)) {
                return format.open_extent(source);
            }
        }
        let source: Arc<dyn Source> = if source.is_mapped() || fetched == size {
            source
        } else if fetched > 0 {
            Arc::new(PrefetchedSource::fetch(source, std::slice::from_ref(&head))?)
        } else {
            let tail = size.saturating_sub(TAIL);
            let (ends, whole) = ([head.clone(), tail..size], 0..size);
            let ranges = if tail <= HEAD { std::slice::from_ref(&whole) } else { &ends[..] };
            Arc::new(PrefetchedSource::fetch(source, ranges)?)
        };
        let bytes = source.read(head)?;
        match self.recognise(&bytes) {
            Some(format) => format.open_extent(source),
            None => Err(Error::unsupported(
                &source.identity().path,
                format!(
                    "not an extent of a known format: it begins with \"{}\"; the formats are {}",
                    bytes.get(..bytes.len().min(8)).unwrap_or(&bytes).escape_ascii(),
                    self.names().join(", ")
                ),
            )),
        }
    }

    /// Opens a file as the format called `name`.
    ///
    /// # Errors
    /// If there is no such format, or if the file is not of it.
    pub fn open_as(&self, name: &str, source: Arc<dyn Source>) -> Result<Arc<dyn ExtentReader>> {
        self.by_name(name)?.open_extent(source)
    }
}
