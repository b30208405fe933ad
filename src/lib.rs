//! `pensieve`: logs, traces and metrics as immutable columnar extents, queried from DuckDB by reading almost none of them.
//!
//! The crate is a core that knows nothing of DuckDB (`predicate`, `stats`, `format`, `storage`, `scan`) and one room,
//! `duckdb`, that binds it to the DuckDB extension ABI. `docs/architecture.md` has the map.

pub mod catalog;
pub mod dendro;
pub mod dictionary;
#[cfg(feature = "duckdb")]
pub mod duckdb;
pub mod error;
pub mod format;
pub mod predicate;
pub mod scan;
pub mod stats;
pub mod storage;

pub use error::{Error, Result};
