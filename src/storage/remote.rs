//! Object stores: S3, Google Cloud, Azure, HTTP and memory, through `object_store`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::buffer::Buffer;
use futures::StreamExt;
use object_store::path::Path;
use object_store::{
    Attributes, GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme,
    PutPayload,
};
use tokio::runtime::Runtime;
use url::Url;

use super::memory::PrefetchedSource;
use super::ranges::{Coalesce, check, coalesce, count, describe, distribute};
use super::{Identity, IoCounters, Sink, Source};
use crate::{Error, Result};

/// How an object store is reached and read.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Credentials, endpoint, region and so on, by the names `object_store` uses ("aws_access_key_id", "endpoint", "region",
    /// "allow_http", …). Names a store does not know are ignored.
    pub options: BTreeMap<String, String>,
    /// Take what `options` leaves out from the environment variables `AWS_*`, `GOOGLE_*` and `AZURE_*`.
    pub environment: bool,
    /// Which ranges are fetched together.
    pub coalesce: Coalesce,
    /// Requests in flight for one call.
    pub concurrency: usize,
}

impl Default for RemoteOptions {
    /// No options but the environment's, [`Coalesce::default`], 8 requests at a time.
    fn default() -> Self {
        Self { options: BTreeMap::new(), environment: true, coalesce: Coalesce::default(), concurrency: 8 }
    }
}

/// The runtime that drives all object store requests, started on first use.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("pensieve-io")
                .enable_all()
                .build()
                .map_err(|e| e.to_string())
        })
        .as_ref()
        .map_err(|e| Error::io("object store", "start the I/O threads for", e.clone()))
}

/// Whether `path` names an object in a store rather than a file of the local disk.
pub fn is_remote(path: &str) -> bool {
    path.split_once("://").is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme != "file" && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
    })
}

/// Asks for S3's protocol at an address of another scheme: Google's keys for it are of that kind.
const S3_COMPATIBLE: &str = "s3_compatible";

/// Opens the store that `url` names with `settings`, by lower-case names.
pub(crate) fn connect(
    url: &Url,
    mut settings: BTreeMap<String, String>,
) -> object_store::Result<(Box<dyn ObjectStore>, Path)> {
    let mut url = url.clone();
    if settings.remove(S3_COMPATIBLE).is_some() && url.set_scheme("s3").is_ok() {
        // Google's interface takes If-None-Match of a PUT for a remark: two writers would both believe they had won
        settings.insert("aws_conditional_put".to_owned(), "disabled".to_owned());
    }
    super::tls::install();
    object_store::parse_url_opts(&url, settings)
}

/// The variables that are settings of a store, by lower-case names. Variables that are not UTF-8 cannot be meant: no name or value of a
/// store's settings is anything else.
fn from_environment(variables: impl Iterator<Item = (OsString, OsString)>) -> impl Iterator<Item = (String, String)> {
    variables
        .filter_map(|(k, v)| Some((k.into_string().ok()?.to_ascii_lowercase(), v.into_string().ok()?)))
        .filter(|(k, _)| ["aws_", "google_", "azure_"].iter().any(|prefix| k.starts_with(prefix)))
}

/// The store and the key that `url` names. Stores are kept and shared by address and options, so that connections are reused.
pub fn store_for(url: &str, options: &RemoteOptions) -> Result<(Arc<dyn ObjectStore>, Path)> {
    static STORES: OnceLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> = OnceLock::new();
    let parsed = Url::parse(url).map_err(|e| Error::io(url, "parse the URL", e))?;
    let (_, path) = ObjectStoreScheme::parse(&parsed).map_err(|e| Error::io(url, "find the object store of", e))?;
    let mut settings = BTreeMap::new();
    if options.environment {
        settings.extend(from_environment(std::env::vars_os()));
    }
    settings.extend(options.options.iter().map(|(k, v)| (k.to_ascii_lowercase(), v.clone())));
    if parsed.scheme() == "http" {
        // whoever writes http:// in full means it
        settings.entry("allow_http".to_owned()).or_insert_with(|| "true".to_owned());
    }
    // The part of the path that names a bucket or container differs by scheme, so everything before the key counts.
    let address = url.strip_suffix(path.as_ref()).unwrap_or(url).to_owned();
    let key = format!("{address}\u{0}{settings:?}");
    let mut stores = STORES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(&key) {
        return Ok((Arc::clone(store), path));
    }
    let _guard = runtime()?.enter();
    let (store, path) = connect(&parsed, settings).map_err(|e| Error::io(url, "connect to the object store of", e))?;
    let store: Arc<dyn ObjectStore> = Arc::from(store);
    stores.insert(key, Arc::clone(&store));
    Ok((store, path))
}

/// Opens the object at `url` and reads its last `tail` bytes with one request, or, where the store has no such requests, opens it
/// without reading.
///
/// # Errors
/// If there is no such object, or the store cannot be reached.
pub fn open_with_tail(
    url: &str,
    options: &RemoteOptions,
    counters: Arc<IoCounters>,
    tail: u64,
) -> Result<Arc<dyn Source>> {
    let (store, location) = store_for(url, options)?;
    open_tail_in(store, location, url, options, counters, tail)
}

fn open_tail_in(
    store: Arc<dyn ObjectStore>,
    location: Path,
    url: &str,
    options: &RemoteOptions,
    counters: Arc<IoCounters>,
    tail: u64,
) -> Result<Arc<dyn Source>> {
    let request = GetOptions { range: Some(GetRange::Suffix(tail)), ..Default::default() };
    let answer = runtime()?.block_on(async {
        let answer = store.get_opts(&location, request).await?;
        let (meta, range) = (answer.meta.clone(), answer.range.clone());
        Ok((meta, range, answer.bytes().await?))
    });
    match answer {
        Ok((meta, range, bytes)) if range.end == meta.size && range.start < range.end => {
            count(&counters, 1, range.end - range.start);
            let source: Arc<dyn Source> = Arc::new(RemoteSource::with_meta(store, url, &meta, options, counters)?);
            Ok(Arc::new(PrefetchedSource::with(source, range, Buffer::from(bytes))))
        }
        Err(missing @ object_store::Error::NotFound { .. }) => Err(Error::io(url, "open", missing)),
        // no ranges from the end (Azure), or an empty object: the plain way has the answer or the better message
        _ => Ok(Arc::new(RemoteSource::open_in(store, location, url, options, counters)?)),
    }
}

/// One object of a store.
pub struct RemoteSource {
    identity: Identity,
    store: Arc<dyn ObjectStore>,
    location: Path,
    e_tag: Option<String>,
    coalesce: Coalesce,
    concurrency: usize,
    counters: Arc<IoCounters>,
}

impl RemoteSource {
    /// Opens the object at `url`, with one HEAD request.
    pub fn open(url: &str, options: &RemoteOptions, counters: Arc<IoCounters>) -> Result<Self> {
        let (store, location) = store_for(url, options)?;
        Self::open_in(store, location, url, options, counters)
    }

    /// Opens `location` of `store`, called `path` in messages and in the identity, with one HEAD request.
    pub fn open_in(
        store: Arc<dyn ObjectStore>,
        location: Path,
        path: &str,
        options: &RemoteOptions,
        counters: Arc<IoCounters>,
    ) -> Result<Self> {
        count(&counters, 1, 0);
        let meta = runtime()?.block_on(store.head(&location)).map_err(|e| Error::io(path, "open", e))?;
        Self::with_meta(store, path, &meta, options, counters)
    }

    /// Opens an object of which a listing or a catalog has already told the size (and ETag), without a request.
    pub fn with_meta(
        store: Arc<dyn ObjectStore>,
        path: &str,
        meta: &ObjectMeta,
        options: &RemoteOptions,
        counters: Arc<IoCounters>,
    ) -> Result<Self> {
        if meta.size == 0 {
            return Err(Error::corrupt(path, "offset 0", "the object is empty"));
        }
        let version = meta.e_tag.clone().or_else(|| meta.version.clone()).unwrap_or_default();
        Ok(Self {
            identity: Identity { path: path.to_owned(), size: meta.size, version },
            store,
            location: meta.location.clone(),
            e_tag: meta.e_tag.clone(),
            coalesce: options.coalesce,
            concurrency: options.concurrency.max(1),
            counters,
        })
    }

    /// The bytes of one request; a version that is no longer there is an error, never other bytes.
    async fn fetch(&self, range: Range<u64>) -> Result<Buffer> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.e_tag.clone(),
            ..Default::default()
        };
        let failed = |e: object_store::Error| match e {
            object_store::Error::Precondition { .. } => {
                Error::io(&self.identity.path, describe(&range), "the object was replaced while it was being read")
            }
            other => Error::io(&self.identity.path, describe(&range), other),
        };
        let result = self.store.get_opts(&self.location, options).await.map_err(failed)?;
        let bytes = result.bytes().await.map_err(failed)?;
        count(&self.counters, 1, range.end - range.start);
        Ok(Buffer::from(bytes))
    }
}

impl fmt::Debug for RemoteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSource").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Source for RemoteSource {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Buffer>> {
        check(&self.identity, ranges)?;
        let requests = coalesce(ranges, self.coalesce);
        let bytes: Vec<Result<Buffer>> = runtime()?.block_on(
            futures::stream::iter(requests.iter().cloned().map(|r| self.fetch(r))).buffered(self.concurrency).collect(),
        );
        let bytes = bytes.into_iter().collect::<Result<Vec<Buffer>>>()?;
        distribute(&self.identity, ranges, &requests, &bytes)
    }

    fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }
}

/// Bytes of one part of a multipart upload. S3 asks for at least 5 MiB and allows 10,000 parts, which makes 80 GiB.
const PART: usize = 8 << 20;

/// Writes one object: a single PUT if it fits into one part, else a multipart upload. The object appears when it is complete;
/// dropping the sink aborts the upload.
pub struct RemoteSink {
    path: String,
    store: Arc<dyn ObjectStore>,
    location: Path,
    buffer: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
    pending: Vec<tokio::task::JoinHandle<object_store::Result<()>>>,
    written: u64,
}

impl RemoteSink {
    /// Starts the object at `url`.
    pub fn create(url: &str, options: &RemoteOptions) -> Result<Self> {
        let (store, location) = store_for(url, options)?;
        Ok(Self::create_in(store, location, url))
    }

    /// Starts `location` of `store`, called `path` in messages.
    pub fn create_in(store: Arc<dyn ObjectStore>, location: Path, path: &str) -> Self {
        let path = path.to_owned();
        Self { path, store, location, buffer: Vec::new(), upload: None, pending: Vec::new(), written: 0 }
    }

    /// Sends one part, at most four at a time so that memory stays bounded.
    async fn send(&mut self, part: Vec<u8>) -> object_store::Result<()> {
        if self.upload.is_none() {
            self.upload = Some(self.store.put_multipart(&self.location).await?);
        }
        if self.pending.len() >= 4 {
            join(self.pending.remove(0)).await?;
        }
        if let Some(upload) = &mut self.upload {
            self.pending.push(tokio::spawn(upload.put_part(PutPayload::from(part))));
        }
        Ok(())
    }

    async fn complete(&mut self) -> object_store::Result<()> {
        let rest = std::mem::take(&mut self.buffer);
        if self.upload.is_none() {
            let options = object_store::PutOptions { attributes: Attributes::new(), ..Default::default() };
            self.store.put_opts(&self.location, PutPayload::from(rest), options).await?;
            return Ok(());
        }
        if !rest.is_empty() {
            self.send(rest).await?;
        }
        for part in std::mem::take(&mut self.pending) {
            join(part).await?;
        }
        if let Some(upload) = &mut self.upload {
            upload.complete().await?;
        }
        self.upload = None;
        Ok(())
    }
}

async fn join(part: tokio::task::JoinHandle<object_store::Result<()>>) -> object_store::Result<()> {
    part.await.map_err(|e| object_store::Error::JoinError { source: e })?
}

impl Sink for RemoteSink {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(PART.saturating_sub(self.buffer.len())));
            self.buffer.extend_from_slice(head);
            bytes = tail;
            if self.buffer.len() >= PART {
                let part = std::mem::take(&mut self.buffer);
                let sent = runtime()?.block_on(self.send(part));
                sent.map_err(|e| Error::io(&self.path, "upload a part of", e))?;
            }
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.written
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        runtime()?.block_on(self.complete()).map_err(|e| Error::io(&self.path, "complete the upload of", e))
    }
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        if let (Some(mut upload), Ok(runtime)) = (self.upload.take(), runtime()) {
            // An upload that cannot be aborted either is left to the store's own expiry of incomplete uploads.
            let _ = runtime.block_on(upload.abort());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use object_store::memory::InMemory;

    use super::*;

    fn options(gap: u64) -> RemoteOptions {
        RemoteOptions { coalesce: Coalesce { gap, max_request: 1 << 30 }, ..Default::default() }
    }

    fn put(store: &Arc<dyn ObjectStore>, name: &str, bytes: Vec<u8>) {
        runtime().unwrap().block_on(store.put(&Path::from(name), PutPayload::from(bytes))).unwrap();
    }

    #[test]
    fn ranges_are_coalesced() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, "a/b", (0u8..200).collect());
        let source =
            RemoteSource::open_in(store, Path::from("a/b"), "memory:///a/b", &options(10), Arc::default()).unwrap();
        assert_eq!(source.identity().size, 200);
        assert!(!source.identity().version.is_empty());
        let got = source.read_many(&[150..151, 0..2, 10..11, 5..5]).unwrap();
        let got: Vec<&[u8]> = got.iter().map(Buffer::as_slice).collect();
        assert_eq!(got, [&[150u8][..], &[0, 1], &[10], &[]]);
        // One HEAD, two GETs.
        assert_eq!(source.counters().requests.load(Ordering::Relaxed), 3);
        assert_eq!(source.counters().bytes.load(Ordering::Relaxed), 12);
        assert!(source.read(199..201).unwrap_err().to_string().contains("199..201"));
    }

    #[test]
    fn an_object_is_opened_with_its_end_in_one_request() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, "o", (0u8..200).collect());
        let open = |tail| {
            open_tail_in(Arc::clone(&store), Path::from("o"), "memory:///o", &options(10), Arc::default(), tail)
                .unwrap()
        };
        let source = open(50);
        assert_eq!((source.identity().size, source.fetched_tail()), (200, 50));
        assert_eq!(source.read(160..162).unwrap().as_slice(), [160, 161]);
        assert_eq!(source.counters().requests.load(Ordering::Relaxed), 1);
        assert_eq!(source.read(0..2).unwrap().as_slice(), [0, 1]);
        assert_eq!(source.counters().requests.load(Ordering::Relaxed), 2);
        assert!(source.base().is_some());
        let whole = open(1000);
        assert_eq!(whole.read(0..2).unwrap().as_slice(), [0, 1]);
        assert_eq!(whole.counters().requests.load(Ordering::Relaxed), 1);
        assert!(whole.base().is_none());
        put(&store, "empty", vec![]);
        for name in ["missing", "empty"] {
            let error =
                open_tail_in(Arc::clone(&store), Path::from(name), name, &options(10), Arc::default(), 50).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_replaced_object_is_an_error() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, "x", vec![1; 50]);
        let source =
            RemoteSource::open_in(Arc::clone(&store), Path::from("x"), "memory:///x", &options(0), Arc::default())
                .unwrap();
        put(&store, "x", vec![2; 50]);
        let error = source.read(0..1).unwrap_err().to_string();
        assert!(error.contains("replaced"), "{error}");
    }

    #[test]
    fn missing_and_empty_objects_are_named() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, "empty", vec![]);
        for name in ["missing", "empty"] {
            let url = format!("memory:///{name}");
            let error = RemoteSource::open_in(Arc::clone(&store), Path::from(name), &url, &options(0), Arc::default())
                .unwrap_err()
                .to_string();
            assert!(error.contains(&url), "{error}");
        }
    }

    #[test]
    fn small_and_large_objects_are_uploaded_and_dropped_ones_are_not() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for size in [0usize, 10, PART, 3 * PART + 17] {
            let mut sink = Box::new(RemoteSink::create_in(Arc::clone(&store), Path::from("o"), "memory:///o"));
            let data: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
            for piece in data.chunks(1_000_003) {
                sink.write(piece).unwrap();
            }
            assert_eq!(sink.position(), size as u64);
            sink.finish().unwrap();
            let back = runtime()
                .unwrap()
                .block_on(async { store.get(&Path::from("o")).await.unwrap().bytes().await.unwrap() });
            assert!(back == data, "{size} bytes");
        }
        let mut sink = Box::new(RemoteSink::create_in(Arc::clone(&store), Path::from("gone"), "memory:///gone"));
        sink.write(&vec![0; PART + 1]).unwrap();
        drop(sink);
        assert!(runtime().unwrap().block_on(store.head(&Path::from("gone"))).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn variables_that_are_not_utf_8_are_left_out() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
        let variables = [
            (bytes(b"AWS_REGION"), bytes(b"eu-central-1")),
            (bytes(b"AWS_\xff"), bytes(b"x")),
            (bytes(b"GOOGLE_BUCKET"), bytes(b"\xfe\xff")),
            (bytes(b"OTHER"), bytes(b"\xff")),
            (bytes(b"PATH"), bytes(b"/bin")),
        ];
        let kept: Vec<_> = from_environment(variables.into_iter()).collect();
        assert_eq!(kept, [("aws_region".to_owned(), "eu-central-1".to_owned())]);
    }

    #[test]
    fn an_object_without_an_etag_or_version_has_no_identity_that_could_be_cached() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, "x", vec![1; 50]);
        let meta = ObjectMeta {
            location: Path::from("x"),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size: 50,
            e_tag: None,
            version: None,
        };
        let source = RemoteSource::with_meta(store, "http://h/x", &meta, &options(0), Arc::default()).unwrap();
        assert_eq!(source.identity().version, "");
    }

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://b/k", "gs://b/k", "az://c/k", "https://h/k", "memory:///k"] {
            assert!(is_remote(url), "{url}");
        }
        for path in ["a/b", "/a/b", "C:/x", "C://x", "file:///x", "a b://x"] {
            assert!(!is_remote(path), "{path}");
        }
        let options = RemoteOptions::default();
        let (first, path) = store_for("s3://bucket/a/b.tlm", &options).unwrap();
        assert_eq!(path.as_ref(), "a/b.tlm");
        let (second, _) = store_for("s3://bucket/c.tlm", &options).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let (other, _) = store_for("s3://other/c.tlm", &options).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(store_for("nonsense://x/y", &options).is_err());
    }
}
