//! Opening the SQLite file: which way, and who is refused.
//!
//! A file at rest (no side files) is opened `immutable`, which takes no locks and leaves nothing behind. A file with side files
//! may have a writer, so it is opened the ordinary read-only way, through the shared `-shm` index, and sees every commit. The
//! immutable way would ignore the commits in a `-wal`, so it is never used when one has bytes.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::sniff::{APPLICATION_ID, HEADER_LEN, SCHEMA_VERSIONS};
use crate::{Error, Result};

/// How long a statement waits for a lock that only a rewriting (exclusive) handle takes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Upper bound of a reader's page cache, in KiB. Segments span thousands of 4 KiB pages.
const CACHE_KIB: i64 = 64 * 1024;

/// What identifies one state of a file at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) size: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Fingerprint {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let meta = std::fs::metadata(path).map_err(|e| Error::io(path.display().to_string(), "open", e))?;
        if meta.is_dir() {
            return Err(refuse(path, "a directory, not a dendro archive; name the archive file"));
        }
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&meta);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self { size: meta.len(), modified: meta.modified().ok(), inode })
    }

    /// Text for identities of things inside the file.
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }
}

/// How a connection sees the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Through the write-ahead log; a writer may be at work.
    Live,
    /// `immutable`: valid while the file keeps this fingerprint.
    AtRest(Fingerprint),
}

/// Where the catalog keeps the caller's per-segment index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexLayout {
    /// Table `segment_indexes` (schema 5).
    Table,
    /// Column `segments.caller_index` (schema 4).
    Column,
    /// Schema 4 from before the column.
    Absent,
}

/// Which optional parts of the catalog this file has. They are looked for, never assumed from the version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) version: u32,
    pub(super) index: IndexLayout,
    pub(super) uuid: bool,
    pub(super) heartbeat: bool,
    pub(super) documents: bool,
}

pub(super) struct Opened {
    pub(super) conn: Connection,
    pub(super) mode: Mode,
    pub(super) layout: Layout,
    /// Bytes of the main file and its log when opened: no BLOB can be larger.
    pub(super) bytes_on_disk: u64,
}

pub(super) fn refuse(path: &Path, what: impl Into<String>) -> Error {
    Error::unsupported(path.display().to_string(), what)
}

/// `<path><suffix>`: SQLite appends to the whole name.
pub(super) fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Size of a side file, `None` when it does not exist.
fn side_len(path: &Path, suffix: &str) -> Option<u64> {
    std::fs::metadata(side_file(path, suffix)).ok().map(|m| m.len())
}

/// Turns an SQLite failure into the error a user can act on.
pub(super) fn sqlite_error(path: &Path, doing: &str, e: rusqlite::Error) -> Error {
    match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            refuse(path, "not a dendro archive: not a SQLite database; read it with the reader of its own format")
        }
        Some(ErrorCode::DatabaseCorrupt) => Error::corrupt(
            path.display().to_string(),
            doing,
            format!("SQLite finds the file damaged or cut short ({} bytes now): {e}", size_now(path)),
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => refuse(
            path,
            format!(
                "another program holds the archive exclusively (it is rewriting it); try again when it is done ({e})"
            ),
        ),
        _ => match e {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..) => Error::corrupt(
                path.display().to_string(),
                doing,
                format!("the catalog holds a value of a type the format does not allow: {e}"),
            ),
            e => Error::io(path.display().to_string(), format!("{doing} of"), e),
        },
    }
}

fn size_now(path: &Path) -> u64 {
    std::fs::metadata(path).map(|m| m.len()).unwrap_or(0)
}

/// `path` as an SQLite URI with `immutable=1`. Every byte that could mean something in a URI is percent-encoded.
fn immutable_uri(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        refuse(path, "the path is not valid UTF-8, which a read-only open needs; rename the file or link to it")
    })?;
    let mut uri = String::with_capacity(text.len() + 24);
    uri.push_str(if text.starts_with('/') { "file://" } else { "file:///" });
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(b)),
            _ => uri.push_str(&format!("%{b:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    Ok(uri)
}

fn open_immutable(path: &Path) -> Result<Connection> {
    // What follows `file://` up to the next slash is a host, so the path has to be absolute.
    let absolute = std::path::absolute(path).map_err(|e| Error::io(path.display().to_string(), "find", e))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(immutable_uri(&absolute)?, flags).map_err(|e| sqlite_error(path, "opening", e))
}

fn open_live(path: &Path) -> rusqlite::Result<Connection> {
    // The bundled SQLite takes a name that begins with `file:` for a URI; an absolute path never begins so.
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // The first read is what needs the side files; make it here, where the caller can fall back.
    conn.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0))?;
    Ok(conn)
}

/// Opens `path` the way its side files call for, refuses what is not a readable archive, and leaves the connection unable to
/// write.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let fingerprint = Fingerprint::of(path)?;
    if fingerprint.size < u64::try_from(HEADER_LEN).unwrap_or(u64::MAX) {
        return Err(refuse(
            path,
            format!(
                "not a dendro archive: {} bytes are too few for a SQLite header (an archive cut short? copy it again)",
                fingerprint.size
            ),
        ));
    }
    let wal = side_len(path, "-wal");
    let journal = side_len(path, "-journal").unwrap_or(0);
    let pending = wal.unwrap_or(0) > 0 || journal > 0;
    let may_have_writer = pending || wal.is_some() || side_len(path, "-shm").is_some();

    // Look at the stamp first without touching anything: another application's database gets no side files from us.
    let at_rest = open_immutable(path)?;
    match read_stamp(&at_rest, path) {
        Ok(stamp) => {
            if let Err(refused) = check_stamp(path, stamp) {
                // An unstamped main file whose log has commits may carry its stamp there.
                if !(pending && stamp.0 == 0) {
                    return Err(refused);
                }
            }
        }
        // While a writer checkpoints, the header may already count pages that are not written yet.
        Err(Error::Corrupt { .. }) if may_have_writer => {}
        Err(e) => return Err(e),
    }
    let (conn, mode) = if may_have_writer {
        drop(at_rest);
        match open_live(path) {
            Ok(conn) => (conn, Mode::Live),
            Err(e) if matches!(e.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen)) => {
                if pending {
                    return Err(refuse(
                        path,
                        format!(
                            "the archive has commits in \"{}\", and reading them needs a directory in which SQLite may \
                             create the -shm file ({e}). Reading without them would miss rows: copy the archive and its \
                             -wal together to a writable directory, or let the writer finish",
                            side_file(path, if journal > 0 { "-journal" } else { "-wal" }).display()
                        ),
                    ));
                }
                (open_immutable(path)?, Mode::AtRest(fingerprint.clone()))
            }
            Err(e) => return Err(sqlite_error(path, "opening", e)),
        }
    } else {
        (at_rest, Mode::AtRest(fingerprint.clone()))
    };
    for (pragma, value) in
        [("query_only", 1), ("trusted_schema", 0), ("cell_size_check", 1), ("cache_size", -CACHE_KIB)]
    {
        conn.pragma_update(None, pragma, value).map_err(|e| sqlite_error(path, "preparing to read", e))?;
    }
    let stamp = read_stamp(&conn, path)?;
    let version = check_stamp(path, stamp)?;
    let layout = read_layout(&conn, path, version)?;
    let bytes_on_disk = fingerprint.size.saturating_add(wal.unwrap_or(0));
    Ok(Opened { conn, mode, layout, bytes_on_disk })
}

/// Whether `path` is an archive, by its content: the stamp in the main file or, before the first checkpoint, in its log. A
/// schema version that is not read is one all the same, and so is a damaged database: opening it says what is wrong.
pub(super) fn is_archive(path: &Path) -> Result<bool> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io(path.display().to_string(), "open", e))?;
    if !meta.is_file() || meta.len() < u64::try_from(HEADER_LEN).unwrap_or(u64::MAX) {
        return Ok(false);
    }
    let stamped = |conn: rusqlite::Result<Connection>| match conn
        .and_then(|conn| conn.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0)))
    {
        Ok(id) => Ok(id == i64::from(APPLICATION_ID)),
        Err(e) => match e.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Ok(false),
            Some(ErrorCode::DatabaseCorrupt) => Ok(true),
            _ => Err(sqlite_error(path, "looking at the header", e)),
        },
    };
    if stamped(Ok(open_immutable(path)?))? {
        return Ok(true);
    }
    if side_len(path, "-wal").unwrap_or(0) == 0 {
        return Ok(false);
    }
    stamped(open_live(path))
}

fn read_stamp(conn: &Connection, path: &Path) -> Result<(i64, i64)> {
    let pragma = |name: &str| {
        conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(|e| sqlite_error(path, "reading the header", e))
    };
    Ok((pragma("application_id")?, pragma("user_version")?))
}

fn check_stamp(path: &Path, (application_id, user_version): (i64, i64)) -> Result<u32> {
    if application_id == 0 {
        return Err(refuse(
            path,
            "not a dendro archive: a SQLite database without dendro's application_id. Read it with the sqlite extension; a \
             .rez recording from before dendro is upgraded by rezolus",
        ));
    }
    if application_id != i64::from(APPLICATION_ID) {
        return Err(refuse(
            path,
            format!(
                "not a dendro archive: a SQLite database of another application (application_id {application_id:#x}). Read \
                 it with that application or the sqlite extension"
            ),
        ));
    }
    u32::try_from(user_version).ok().filter(|v| SCHEMA_VERSIONS.contains(v)).ok_or_else(|| {
        refuse(
            path,
            format!(
                "dendro archive of schema version {user_version}, and this build reads versions {} to {}. Copy it into an \
                 archive of a version that is read with the program that wrote it, or use a build that knows the version",
                SCHEMA_VERSIONS.start(),
                SCHEMA_VERSIONS.end()
            ),
        )
    })
}

fn read_layout(conn: &Connection, path: &Path, version: u32) -> Result<Layout> {
    let failed = |e| sqlite_error(path, "reading the catalog", e);
    let has_table = |name: &str| {
        conn.query_row("SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)", [name], |row| {
            row.get::<_, bool>(0)
        })
        .map_err(failed)
    };
    let has_column = |table: &str, column: &str| {
        conn.query_row("SELECT EXISTS(SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)", [table, column], |row| {
            row.get::<_, bool>(0)
        })
        .map_err(failed)
    };
    for table in ["sources", "segments", "wal", "clock_offsets", "caller_rows"] {
        if !has_table(table)? {
            return Err(refuse(
                path,
                format!(
                    "stamped as a dendro archive but without its catalog (no table {table}): a copy of the main file alone, \
                     made before the writer's first checkpoint. Copy it again together with its -wal file, or have the \
                     writer make the copy (vacuum_into)"
                ),
            ));
        }
    }
    let index = if has_table("segment_indexes")? {
        IndexLayout::Table
    } else if has_column("segments", "caller_index")? {
        IndexLayout::Column
    } else {
        IndexLayout::Absent
    };
    Ok(Layout {
        version,
        index,
        uuid: has_column("sources", "uuid")?,
        heartbeat: has_column("sources", "heartbeat")? && has_column("sources", "heartbeat_interval_ns")?,
        documents: has_table("documents")?,
    })
}
