//! Tests of the format as a whole.

mod corruption;
mod fixtures;
mod python;
mod round_trip;

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;

use super::TlmFormat;
use crate::Result;
use crate::format::{BlockId, ExtentReader, ExtentWriteResult, SegmentFormat, WriteOptions};
use crate::storage::Source;
use crate::storage::memory::MemorySource;
use crate::storage::sink::MemorySink;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("test/data/tlm").join(name)
}

fn open_bytes(name: &str, bytes: impl Into<Buffer>) -> Result<Arc<dyn ExtentReader>> {
    open(MemorySource::new(name, bytes))
}

fn open(source: impl Source + 'static) -> Result<Arc<dyn ExtentReader>> {
    TlmFormat.open_extent(Arc::new(source))
}

/// Every block with every column.
fn read_all(reader: &dyn ExtentReader) -> Result<Vec<RecordBatch>> {
    let columns: Vec<usize> = (0..reader.metadata().schema.fields().len()).collect();
    let blocks = reader.metadata().block_rows.len() as u32;
    (0..blocks).map(|i| reader.read_block(BlockId(i), &columns)).collect()
}

/// Writes blocks into memory.
fn write(batches: &[RecordBatch], options: &WriteOptions) -> Result<(Vec<u8>, ExtentWriteResult)> {
    let (sink, bytes) = MemorySink::new("memory.tlm");
    let mut writer = TlmFormat.start_extent(Box::new(sink), batches[0].schema(), options)?;
    for batch in batches {
        writer.append(batch)?;
    }
    let result = writer.finish()?;
    Ok((bytes.recv().unwrap(), result))
}
