//! The one error type of the core. Every variant says what happened, where, and what to do about it.

/// Result of every fallible operation of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, always with the file (and block or offset) it went wrong in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of a file are not what its format requires.
    #[error("corrupt {kind} \"{path}\": {what} (at {place}); {remedy}")]
    Corrupt {
        /// What is corrupt: an extent, a catalog.
        kind: &'static str,
        /// Path or URL of the file.
        path: String,
        /// Where in the file: a byte offset, a block number, or a named part.
        place: String,
        /// What was found and what was expected.
        what: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The file is of a format, version or type that this build does not read or write.
    #[error("{path}: {what}")]
    Unsupported {
        /// Path or URL of the file, or a column name when writing.
        path: String,
        /// What is not supported and what is.
        what: String,
    },
    /// Reading or writing bytes failed.
    #[error("{operation} \"{path}\" failed: {source}")]
    Io {
        /// Path or URL of the file.
        path: String,
        /// The operation, in the imperative ("read 64 bytes at offset 128 of").
        operation: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A caller's argument is wrong.
    #[error("{0}")]
    InvalidInput(String),
    /// Somebody else changed a table in a way that the operation cannot be rebased onto, or won every race for it.
    #[error("conflict on {table}: {what}")]
    Conflict {
        /// The table.
        table: String,
        /// What happened and what to do.
        what: String,
    },
    /// The operation was cancelled by the user.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A corruption with the standard remedy: restore the file.
    pub fn corrupt(path: impl Into<String>, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Corrupt {
            kind: "extent",
            path: path.into(),
            place: place.into(),
            what: what.into(),
            remedy: "the file is damaged or incomplete: write it again or restore it from a copy",
        }
    }

    /// A document or a row of a catalog that is not what it must be.
    pub fn corrupt_catalog(path: impl Into<String>, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Corrupt {
            kind: "catalog",
            path: path.into(),
            place: place.into(),
            what: what.into(),
            remedy: "restore this part of the catalog from a copy; the extents themselves are not affected",
        }
    }

    /// Bytes that this build does not make sense of, whether they are damaged or of a kind that it does not know.
    pub fn undecodable(path: impl Into<String>, place: impl Into<String>, what: impl Into<String>) -> Self {
        let what = what.into();
        let place = place.into();
        let advice = "if other programs read the file, report this and write the file with other types or options; if not, it is damaged";
        Self::unsupported(path, format!("cannot be decoded: {what} (at {place}); {advice}"))
    }

    /// An I/O failure of `operation` on `path`.
    pub fn io(
        path: impl Into<String>,
        operation: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Io { path: path.into(), operation: operation.into(), source: source.into() }
    }

    /// An unsupported format, version or type.
    pub fn unsupported(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.into(), what: what.into() }
    }
}
