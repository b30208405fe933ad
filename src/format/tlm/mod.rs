//! TLM, the native extent format: an Arrow IPC file between magics, with block statistics at the end.
//!
//! `docs/tlm.md` has the byte layout.

mod compression;
mod decode;
mod dictionary;
mod encode;
mod footer;
mod frame;
mod pool;
mod reader;
mod rows;
mod writer;

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::single_range_in_vec_init,
    reason = "numbers of tests are small, and a list of one range is meant"
)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

pub use frame::STEMS;
pub use reader::TlmReader;
pub use writer::TlmWriter;

use super::{ExtentReader, ExtentWriter, SegmentFormat, WriteOptions};
use crate::Result;
use crate::storage::{Sink, Source};

/// The TLM format.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlmFormat;

impl SegmentFormat for TlmFormat {
    fn name(&self) -> &'static str {
        "tlm"
    }

    fn extension(&self) -> &'static str {
        "tlm"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        frame::Magic::parse(head).is_some()
    }

    fn open_extent(&self, source: Arc<dyn Source>) -> Result<Arc<dyn ExtentReader>> {
        Ok(Arc::new(TlmReader::open(source)?))
    }

    fn check(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<()> {
        writer::Plan::new(schema, options).map(drop)
    }

    fn start_extent(
        &self,
        sink: Box<dyn Sink>,
        schema: SchemaRef,
        options: &WriteOptions,
    ) -> Result<Box<dyn ExtentWriter>> {
        Ok(Box::new(TlmWriter::new(sink, &schema, options)?))
    }
}
