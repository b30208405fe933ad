//! Connections to the database file, and the transactions that retry when another process holds the lock.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::catalog::retry::{MAX_ATTEMPTS, pause};
use crate::{Error, Result};

/// How long SQLite itself waits for a lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections kept open while unused.
const MAX_IDLE: usize = 8;

/// A database file with a few open connections.
#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    pub display: String,
    read_only: bool,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) fn new(path: &Path, read_only: bool) -> Self {
        Self { path: path.to_owned(), display: path.display().to_string(), read_only, idle: Mutex::default() }
    }

    /// The error of a statement.
    pub(super) fn failed(&self, operation: &str, error: rusqlite::Error) -> Error {
        Error::io(&self.display, operation, error)
    }

    fn open(&self) -> Result<Connection> {
        let access = if self.read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(|e| self.failed("open", e))?;
        let set_up = || {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            if !self.read_only {
                connection.pragma_update(None, "journal_mode", "WAL")?;
                connection.pragma_update(None, "synchronous", "FULL")?;
            }
            connection.pragma_update(None, "foreign_keys", false)
        };
        set_up().map_err(|e| self.failed("set up", e))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }

    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.open(), Ok)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    /// Runs `body` in a transaction that sees one state of the file, and commits it. A write transaction holds the lock from its start, so
    /// that what it read is still true when it commits. Lock failures are retried.
    pub(super) fn transaction<T>(
        &self,
        write: bool,
        mut body: impl FnMut(&Transaction<'_>) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let behavior = if write { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
        let mut connection = self.take()?;
        let mut attempt = 0;
        loop {
            let outcome = connection.transaction_with_behavior(behavior).map_err(Failure::Sqlite).and_then(|t| {
                let value = body(&t)?;
                t.commit()?;
                Ok(value)
            });
            match outcome {
                Ok(value) => {
                    self.give_back(connection);
                    return Ok(value);
                }
                Err(Failure::Sqlite(error)) if is_locked(&error) && attempt < MAX_ATTEMPTS => {
                    std::thread::sleep(pause(attempt));
                    attempt += 1;
                }
                Err(Failure::Sqlite(error)) => return Err(self.failed("read or write", error)),
                Err(Failure::Ours(error)) => {
                    self.give_back(connection);
                    return Err(error);
                }
            }
        }
    }
}

/// Why the body of a transaction stopped.
#[derive(Debug)]
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
