//! Reading and writing dendro archives: one SQLite file that holds sources, their streams, and each stream as a sequence of
//! Parquet segments. `docs/formats/dendro.md` describes the file.
//!
//! Nothing here runs a producer's encoder, so rows that a writer has not sealed into a segment yet are reported (how many, over
//! which span) and never returned.
//!
//! The way through: [`Archive::open`] checks that the file is an archive; [`Archive::snapshot`] starts one answer, a read
//! transaction that sees one instant; [`Snapshot::catalog`] lists what is there; [`Catalog::table`] picks a stream;
//! [`Snapshot::table_schema`] looks at segment footers; [`Snapshot::open_segment`] turns a segment into an
//! [`ExtentReader`](crate::format::ExtentReader) with the columns of that schema.

mod batches;
mod catalog;
mod clock;
mod connect;
mod extent;
mod schema;
mod snapshot;
mod sniff;
mod source;
mod table;
mod write;

#[cfg(test)]
mod tests;

pub use batches::{
    CallerRowFilter, CatalogBatches, caller_rows_schema, clock_offsets_schema, documents_schema, events_schema,
    labels_type, segments_schema, sources_schema, streams_schema,
};
pub use catalog::{Catalog, Event, LiveSpan, SegmentInfo, SourceInfo, StreamInfo};
pub use clock::ClockSeries;
pub use extent::SegmentExtent;
pub use schema::{SchemaScope, TableSchema, TimeColumn, TimeColumnChoice, VirtualColumn};
pub use snapshot::{Archive, OpenOptions, ScanCounters, Snapshot};
pub use sniff::{APPLICATION_ID, HEADER_LEN, SCHEMA_VERSIONS, Sniff, sniff_bytes};
pub use source::SegmentSource;
pub use table::{Segment, SegmentEvidence, Selection, StreamTable, TsRange, UnreadTail};
pub use write::{ArchiveWriteOptions, ArchiveWriteResult, ArchiveWriter, write_archive};
