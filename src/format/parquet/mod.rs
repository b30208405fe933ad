//! Parquet extents: any Parquet file read, row group by row group, through ranged reads, and extents written so that other
//! Parquet readers open them unchanged.
//!
//! | file | what it knows |
//! |---|---|
//! | `open` | the footer: one tail read, validation |
//! | `lengths` | statistics of impossible length, taken out before they are decoded |
//! | `shown` | the Arrow schema of the columns, and the columns that have none |
//! | `annotations` | which annotation of Parquet is which extension type of Arrow |
//! | `columns` | which leaf a column name means, and how its stored values compare |
//! | `bounds` | raw statistics bytes to [`crate::predicate::Scalar`] bounds |
//! | `evidence` | row-group statistics |
//! | `bloom` | split-block bloom filters |
//! | `page_index` | column and offset indexes, fetched when asked for |
//! | `thrift` | structs looked into before the decoder does |
//! | `page_header` | sizes that pages claim, checked before they are believed |
//! | `pages` | page statistics to row ranges |
//! | `decode` | selected pages to Arrow columns |
//! | `dictionary` | columns that come as Arrow dictionaries |
//! | `reader` | the cascade over all of them |
//! | `layout` | what a written file looks like: types, encodings, filters |
//! | `writer` | row groups from blocks, encoded by any thread, appended in order |

mod annotations;
mod bloom;
mod bounds;
mod columns;
mod decode;
mod dictionary;
mod encoding;
mod evidence;
mod fetch;
mod fields;
mod interval;
mod layout;
mod lengths;
mod open;
mod page_header;
mod page_index;
mod pages;
mod reader;
mod shown;
mod thrift;
mod types;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

pub(crate) use annotations::is_shredded_variant;
pub use reader::ParquetReader;
pub use types::check_columns;
pub use writer::ParquetWriter;

use super::{ExtentReader, ExtentWriter, SegmentFormat, WriteOptions};
use crate::Result;
use crate::storage::{Sink, Source};

/// Registry name of the format.
pub const FORMAT_NAME: &str = "parquet";

/// The bytes every Parquet file begins and ends with.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// The bytes a Parquet file with an encrypted footer ends with.
const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";

/// Bytes read from the end of a file when it is opened. Holds the footer of most extents, and often the page index, which
/// writers place right before it.
const TAIL_BYTES: u64 = 64 * 1024;

/// Parquet as a format of extents.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParquetFormat;

impl SegmentFormat for ParquetFormat {
    fn name(&self) -> &'static str {
        FORMAT_NAME
    }

    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        head.starts_with(MAGIC) || head.starts_with(ENCRYPTED_MAGIC)
    }

    fn recognises_end(&self, end: &[u8]) -> bool {
        end.ends_with(MAGIC) || end.ends_with(ENCRYPTED_MAGIC)
    }

    fn open_extent(&self, source: Arc<dyn Source>) -> Result<Arc<dyn ExtentReader>> {
        Ok(Arc::new(ParquetReader::open(source)?))
    }

    fn check(&self, schema: &SchemaRef, options: &WriteOptions) -> Result<()> {
        writer::check(schema, options)
    }

    fn start_extent(
        &self,
        sink: Box<dyn Sink>,
        schema: SchemaRef,
        options: &WriteOptions,
    ) -> Result<Box<dyn ExtentWriter>> {
        Ok(Box::new(ParquetWriter::start(sink, schema, options)?))
    }
}
