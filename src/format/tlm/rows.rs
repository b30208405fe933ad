//! Which rows of a block are wanted.

use arrow::array::{RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take_record_batch;

use crate::format::RowRanges;

/// The given rows of a batch: a slice where they are one range, else a copy.
pub fn select(batch: &RecordBatch, rows: &RowRanges) -> std::result::Result<RecordBatch, String> {
    let total = u64::try_from(batch.num_rows()).map_err(|e| e.to_string())?;
    let mut end = 0;
    for range in &rows.0 {
        if range.start < end || range.start >= range.end || range.end > total {
            return Err(format!("rows {}..{} do not follow {end} within {total} rows", range.start, range.end));
        }
        end = range.end;
    }
    let as_usize = |v: u64| usize::try_from(v).map_err(|e| e.to_string());
    match rows.0.as_slice() {
        [] => Ok(batch.slice(0, 0)),
        [range] => Ok(batch.slice(as_usize(range.start)?, as_usize(range.end - range.start)?)),
        ranges if batch.num_columns() == 0 => {
            let count = as_usize(ranges.iter().map(|r| r.end - r.start).sum())?;
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            RecordBatch::try_new_with_options(batch.schema(), Vec::new(), &options).map_err(|e| e.to_string())
        }
        ranges => {
            let indices = UInt64Array::from_iter_values(ranges.iter().cloned().flatten());
            take_record_batch(batch, &indices).map_err(|e| e.to_string())
        }
    }
}
