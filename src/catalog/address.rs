//! What the user writes after ATTACH: the address, which tells the kind of catalog, and the options.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use url::Url;
use uuid::Uuid;

use super::log::ManifestLog;
use super::pinned::PinnedCatalog;
#[cfg(feature = "postgres")]
use super::postgres::PostgresCatalog;
use super::sqlite::SqliteCatalog;
use super::{At, Catalog};
use crate::{Error, Result};

/// Where a catalog is, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A manifest log in a local directory.
    Directory(PathBuf),
    /// A manifest log in an object store (`s3`, `gs`, `az` and their aliases, `memory` for tests).
    ObjectStore(Url),
    /// A SQLite catalog in the layout of local mode.
    Sqlite(PathBuf),
    /// A PostgreSQL catalog in the layout of the server; the whole connection string.
    Postgres(String),
}

impl Address {
    /// Reads the kind from the address: the scheme first, then the suffix; everything else is a directory.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::InvalidInput(
                "the address of a store is empty: give a directory, s3://…, gs://…, az://…, a .db or .sqlite file, or postgres://…"
                    .to_owned(),
            ));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "postgres" | "postgresql" => Ok(Self::Postgres(text.to_owned())),
                "s3" | "s3a" | "gs" | "gcs" | "az" | "azure" | "abfs" | "abfss" | "adl" | "memory" => {
                    let scheme = if scheme.eq_ignore_ascii_case("gcs") { "gs" } else { scheme };
                    let url = Url::parse(&format!("{scheme}://{rest}"))
                        .map_err(|e| Error::InvalidInput(format!("\"{text}\" is not a URL: {e}")))?;
                    Ok(Self::ObjectStore(url))
                }
                "file" => Ok(Self::from_path(&file_path(text)?)),
                "sqlite" => Ok(Self::Sqlite(PathBuf::from(rest))),
                other => Err(Error::unsupported(
                    text,
                    format!(
                        "\"{other}\" is no place for a store; use a directory, s3, gs, az, postgres, or a .db or .sqlite file"
                    ),
                )),
            };
        }
        Ok(Self::from_path(text))
    }

    fn from_path(path: &str) -> Self {
        let lower = path.to_ascii_lowercase();
        let database = [".db", ".sqlite", ".sqlite3"].iter().any(|suffix| lower.ends_with(suffix));
        if database && !std::path::Path::new(path).is_dir() {
            Self::Sqlite(PathBuf::from(path))
        } else {
            Self::Directory(PathBuf::from(path))
        }
    }
}

fn file_path(url: &str) -> Result<String> {
    Url::parse(url)
        .ok()
        .and_then(|url| url.to_file_path().ok())
        .and_then(|path| path.into_os_string().into_string().ok())
        .ok_or_else(|| Error::InvalidInput(format!("\"{url}\" does not name a local path")))
}

/// The options of ATTACH.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// STORAGE: where the extents of a SQL catalog live, a directory or an object store URL. The default of SQLite is `data` beside the
    /// database file (as in local mode); PostgreSQL needs it for reading and writing extents. A manifest log ignores it.
    pub storage: Option<String>,
    /// TENANT of a SQL catalog; the nil UUID by default.
    pub tenant: Option<Uuid>,
    /// READ_ONLY: every change is refused.
    pub read_only: bool,
    /// SNAPSHOT or SNAPSHOT_TIME: show every table as of this version or instant; implies read-only. [`At::Head`] is neither.
    pub at: At,
    /// Configuration of the object store by `object_store`'s keys (`aws_region`, `aws_endpoint`, `allow_http`, …). They win over the
    /// environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
    pub object_store: BTreeMap<String, String>,
    /// Bytes of parsed metadata kept in memory.
    pub cache_bytes: Option<u64>,
}

impl AttachOptions {
    fn is_read_only(&self) -> bool {
        self.read_only || self.at != At::Head
    }

    /// Reads options as SQL gives them. Names are case-insensitive; an unknown one is an error that lists the known ones.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut options = Self::default();
        for (name, value) in pairs {
            let wrong =
                |what: &str| Error::InvalidInput(format!("ATTACH option {}: \"{value}\" {what}", name.to_uppercase()));
            match name.to_ascii_lowercase().as_str() {
                "storage" => options.storage = Some(value.to_owned()),
                "tenant" => options.tenant = Some(value.parse().map_err(|_| wrong("is not a UUID"))?),
                "read_only" | "readonly" => {
                    options.read_only = match value.to_ascii_lowercase().as_str() {
                        "" | "true" | "1" | "yes" | "on" => true,
                        "false" | "0" | "no" | "off" => false,
                        _ => return Err(wrong("is not true or false")),
                    }
                }
                "snapshot" | "snapshot_time" if options.at != At::Head => {
                    return Err(Error::InvalidInput(
                        "ATTACH options SNAPSHOT and SNAPSHOT_TIME exclude each other: give one of them".to_owned(),
                    ));
                }
                "snapshot" => {
                    options.at = At::Version(value.trim().parse().map_err(|_| wrong("is not a snapshot number"))?);
                }
                "snapshot_time" => {
                    options.at = value.parse().map_err(|_| wrong("is not a time"))?;
                }
                _ => {
                    return Err(Error::InvalidInput(format!(
                        "unknown ATTACH option {}: the options of a store are STORAGE, TENANT, READ_ONLY, SNAPSHOT, SNAPSHOT_TIME",
                        name.to_uppercase()
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// Opens the store at `address`. A directory is created unless read-only; a SQLite file too.
pub fn open(address: &str, options: &AttachOptions) -> Result<Arc<dyn Catalog>> {
    let catalog: Arc<dyn Catalog> = match Address::parse(address)? {
        Address::Directory(path) => Arc::new(open_directory(&path, options)?),
        Address::ObjectStore(url) => Arc::new(open_object_store(&url, options)?),
        Address::Sqlite(path) => {
            let storage = options.storage.clone().unwrap_or_else(|| local_storage(&path));
            let tenant = options.tenant.unwrap_or_default();
            Arc::new(SqliteCatalog::open(&path, storage, tenant, options.is_read_only())?)
        }
        Address::Postgres(address) => open_postgres(&address, options)?,
    };
    Ok(match options.at {
        At::Head => catalog,
        at => Arc::new(PinnedCatalog { inner: catalog, at }),
    })
}

#[cfg(feature = "postgres")]
fn open_postgres(address: &str, options: &AttachOptions) -> Result<Arc<dyn Catalog>> {
    let Some(storage) = options.storage.clone() else {
        return Err(Error::InvalidInput(
            "a PostgreSQL catalog needs the option STORAGE: the directory or URL its extents live under".to_owned(),
        ));
    };
    let prefix = std::env::var("PENSIEVE_PATH_PREFIX").unwrap_or_else(|_| "pensieve".to_owned());
    let tenant = options.tenant.unwrap_or_default();
    Ok(Arc::new(PostgresCatalog::open(address, storage, prefix, tenant, options.is_read_only())?))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(_: &str, _: &AttachOptions) -> Result<Arc<dyn Catalog>> {
    // the address may hold a password, so it is not repeated
    Err(Error::InvalidInput(
        "this build of pensieve leaves PostgreSQL out; build it with the feature \"postgres\"".to_owned(),
    ))
}

/// Where local mode keeps extents: `PENSIEVE_LOCAL_DATA`, else `data` beside the database file.
fn local_storage(database: &std::path::Path) -> String {
    std::env::var("PENSIEVE_LOCAL_DATA").unwrap_or_else(|_| {
        let directory = database.parent().filter(|p| !p.as_os_str().is_empty());
        directory.map_or_else(|| PathBuf::from("data"), |d| d.join("data")).display().to_string()
    })
}

fn open_directory(path: &std::path::Path, options: &AttachOptions) -> Result<ManifestLog> {
    let display = path.display().to_string();
    let read_only = options.is_read_only();
    if !read_only {
        std::fs::create_dir_all(path).map_err(|e| Error::io(&display, "create the directory", e))?;
    } else if !path.is_dir() {
        return Err(Error::InvalidInput(format!("{display} is not a directory, and READ_ONLY does not create it")));
    }
    let store = LocalFileSystem::new_with_prefix(path)
        .map_err(|e| Error::io(&display, "open the directory", e))?
        .with_fsync(true);
    ManifestLog::new(Arc::new(store), "", &display, read_only, options.cache_bytes)
}

fn open_object_store(url: &Url, options: &AttachOptions) -> Result<ManifestLog> {
    let read_only = options.is_read_only();
    let (store, prefix) = object_store_of(url, &options.object_store)?;
    ManifestLog::new(store, &prefix, url.as_str(), read_only, options.cache_bytes)
}

/// The store a URL is in, and the path within it. Configuration comes from the environment, then from `config`.
fn object_store_of(url: &Url, config: &BTreeMap<String, String>) -> Result<(Arc<dyn ObjectStore>, String)> {
    if url.scheme() == "memory" {
        let name = url.host_str().unwrap_or_default().to_owned();
        return Ok((memory_store(&name), url.path().trim_matches('/').to_owned()));
    }
    let mut merged: BTreeMap<String, String> = std::env::vars()
        .map(|(key, value)| (key.to_ascii_lowercase(), value))
        .filter(|(key, _)| ["aws_", "google_", "azure_"].iter().any(|prefix| key.starts_with(prefix)))
        .collect();
    merged.extend(config.iter().map(|(key, value)| (key.to_ascii_lowercase(), value.clone())));
    let (store, path) = crate::storage::remote::connect(url, merged)
        .map_err(|e| Error::io(url.as_str(), "open the object store of", e))?;
    Ok((Arc::from(store), path.as_ref().to_owned()))
}

/// Stores in the memory of this process, by name: `memory://name/prefix`. They live as long as the process.
fn memory_store(name: &str) -> Arc<dyn ObjectStore> {
    static STORES: OnceLock<Mutex<HashMap<String, Arc<InMemory>>>> = OnceLock::new();
    let mut stores = STORES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    Arc::<InMemory>::clone(stores.entry(name.to_owned()).or_default()) as Arc<dyn ObjectStore>
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_read_from_the_address() {
        let directory = |p: &str| Address::Directory(PathBuf::from(p));
        assert_eq!(Address::parse("lake/").unwrap(), directory("lake/"));
        assert_eq!(Address::parse("/data/lake").unwrap(), directory("/data/lake"));
        assert_eq!(Address::parse("file:///data/lake").unwrap(), directory("/data/lake"));
        for text in ["catalog.db", "x.SQLite", "/a/b.sqlite3"] {
            assert_eq!(Address::parse(text).unwrap(), Address::Sqlite(PathBuf::from(text)));
        }
        let text = "postgres://u:p@localhost:5432/db?sslmode=require";
        assert_eq!(Address::parse(text).unwrap(), Address::Postgres(text.to_owned()));
        for text in ["s3://bucket/prefix", "gs://b/p", "az://c/p", "memory://x/y"] {
            assert_eq!(Address::parse(text).unwrap(), Address::ObjectStore(Url::parse(text).unwrap()));
        }
        assert_eq!(Address::parse("gcs://b/p").unwrap(), Address::ObjectStore(Url::parse("gs://b/p").unwrap()));
        for text in ["", "ftp://x/y", "https://x/y"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("odd.db");
        std::fs::create_dir(&odd).unwrap();
        assert_eq!(Address::parse(odd.to_str().unwrap()).unwrap(), Address::Directory(odd));
    }

    #[test]
    fn options_are_checked_by_name_and_value() {
        let options = AttachOptions::from_pairs([
            ("STORAGE", "s3://b/p"),
            ("tenant", "00000000-0000-0000-0000-000000000007"),
            ("READ_ONLY", ""),
            ("snapshot", "41"),
        ])
        .unwrap();
        assert_eq!(options.storage.as_deref(), Some("s3://b/p"));
        assert_eq!((options.tenant, options.read_only, options.at), (Some(Uuid::from_u128(7)), true, At::Version(41)));
        let at = AttachOptions::from_pairs([("snapshot_time", "timestamp_us:1")]).unwrap();
        assert_eq!((at.at, at.is_read_only()), (At::Timestamp(1_999), true));
        let both = AttachOptions::from_pairs([("snapshot", "1"), ("snapshot_time", "timestamp_us:1")]);
        assert!(both.unwrap_err().to_string().contains("exclude each other"));
        let error = AttachOptions::from_pairs([("STORAG", "x")]).unwrap_err().to_string();
        assert!(error.contains("STORAGE, TENANT"), "{error}");
        for pair in [("tenant", "x"), ("snapshot", "-1"), ("snapshot_time", "soon"), ("read_only", "maybe")] {
            assert!(AttachOptions::from_pairs([pair]).is_err(), "{pair:?}");
        }
    }

    #[test]
    fn read_only_does_not_create_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none");
        let read_only = AttachOptions { read_only: true, ..AttachOptions::default() };
        assert!(open(path.to_str().unwrap(), &read_only).is_err());
        assert!(!path.exists());
        open(path.to_str().unwrap(), &AttachOptions::default()).unwrap();
        assert!(path.is_dir());
    }
}
