//! Column and offset indexes, fetched per row group and column when something asks for them.
//!
//! An index that does not fit its column chunk is treated as absent: the chunk is then read whole.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::index_reader::{decode_column_index, decode_offset_index};
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

use super::fetch::{File, Kept, guarded};
use super::lengths;
use crate::Result;

/// A page-index region up to this size is read in one request when any part of it is needed.
const WHOLE_REGION_BYTES: u64 = 512 * 1024;

/// The two indexes of one column chunk, once known. `None` inside: absent or not to be trusted.
#[derive(Default)]
struct Slot {
    offset: OnceLock<Option<Box<OffsetIndexMetaData>>>,
    column: OnceLock<Option<Box<ColumnIndexMetaData>>>,
}

/// Every index of a file. Filled by [`PageIndex::load`]; the decoder reads it through [`PageIndexProvider`].
pub(super) struct PageIndex {
    columns: usize,
    slots: Vec<Slot>,
    /// Bytes that hold every index of the file, if they are few.
    region: Option<Range<u64>>,
}

impl fmt::Debug for PageIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.slots.iter().filter(|slot| slot.offset.get().is_some()).count();
        f.debug_struct("PageIndex").field("chunks", &self.slots.len()).field("loaded", &loaded).finish()
    }
}

/// One index that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Row group.
    pub(super) row_group: usize,
    /// Leaf column.
    pub(super) leaf: usize,
    /// Whether the column index is wanted too, or only the offset index.
    pub(super) statistics: bool,
}

impl PageIndex {
    /// The indexes that `metadata` points to, none of them loaded.
    pub(super) fn new(metadata: &ParquetMetaData) -> Self {
        let columns = metadata.file_metadata().schema_descr().num_columns();
        let mut slots = Vec::new();
        slots.resize_with(columns * metadata.num_row_groups(), Slot::default);
        let mut region: Option<Range<u64>> = None;
        for chunk in metadata.row_groups().iter().flat_map(|row_group| row_group.columns()) {
            for range in [column_range(chunk), offset_range(chunk)].into_iter().flatten() {
                region = Some(match region {
                    None => range,
                    Some(seen) => seen.start.min(range.start)..seen.end.max(range.end),
                });
            }
        }
        let region = region.filter(|region| region.end - region.start <= WHOLE_REGION_BYTES);
        Self { columns, slots, region }
    }

    fn slot(&self, row_group: usize, leaf: usize) -> Option<&Slot> {
        if leaf >= self.columns {
            return None;
        }
        self.slots.get(row_group.checked_mul(self.columns)?.checked_add(leaf)?)
    }

    /// Makes every index in `wanted` known, in at most one request.
    ///
    /// # Errors
    /// Failures of the store. An index that cannot be decoded is absent, which is not an error.
    pub(super) fn load(&self, file: &File, metadata: &ParquetMetaData, wanted: &[Wanted]) -> Result<()> {
        let mut ranges = Vec::new();
        let mut targets = Vec::new();
        for want in wanted {
            let Some(slot) = self.slot(want.row_group, want.leaf) else { continue };
            let Some(row_group) = metadata.row_groups().get(want.row_group) else { continue };
            let Some(chunk) = row_group.columns().get(want.leaf) else { continue };
            if slot.offset.get().is_none() {
                match offset_range(chunk).filter(|range| file.holds(range)) {
                    Some(range) => {
                        ranges.push(range);
                        targets.push((slot, chunk, row_group.num_rows(), false));
                    }
                    None => drop(slot.offset.set(None)),
                }
            }
            if want.statistics && slot.column.get().is_none() {
                match column_range(chunk).filter(|range| file.holds(range)) {
                    Some(range) => {
                        ranges.push(range);
                        targets.push((slot, chunk, row_group.num_rows(), true));
                    }
                    None => drop(slot.column.set(None)),
                }
            }
        }
        if ranges.is_empty() {
            return Ok(());
        }
        if let Some(region) = self.region.clone().filter(|region| file.holds(region))
            && !ranges.iter().all(|range| file.is_kept(range))
        {
            let bytes = file.fetch(std::slice::from_ref(&region))?.pop().unwrap_or_default();
            file.keep_index(Kept { offset: region.start, bytes });
        }
        // Ranges that overlap (a damaged footer) are read one by one rather than refused: this is only evidence.
        let total = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
        let buffers = if total > file.size() {
            for (slot, _, _, statistics) in targets {
                if statistics { drop(slot.column.set(None)) } else { drop(slot.offset.set(None)) }
            }
            return Ok(());
        } else {
            file.fetch(&ranges)?
        };
        let place = || "page index".to_owned();
        for ((slot, chunk, rows, statistics), bytes) in targets.into_iter().zip(buffers) {
            if statistics {
                let index = match lengths::index_is_possible(&bytes, chunk.column_type()) {
                    true => guarded(file.path(), place, || decode_column_index(&bytes, chunk.column_type())).ok(),
                    false => None,
                };
                let _ = slot.column.set(index.map(Box::new));
            } else {
                let index = if list_fits(&bytes) {
                    guarded(file.path(), place, || decode_offset_index(&bytes)).ok()
                } else {
                    None
                };
                let index = index.filter(|index| is_consistent(index, chunk, rows));
                let _ = slot.offset.set(index.map(Box::new));
            }
        }
        Ok(())
    }
}

impl PageIndexProvider for PageIndex {
    fn has_offset_indexes(&self) -> bool {
        true
    }

    fn has_column_indexes(&self) -> bool {
        true
    }

    fn column_index(&self, row_group: usize, column: usize) -> Option<&ColumnIndexMetaData> {
        self.slot(row_group, column)?.column.get()?.as_deref()
    }

    fn offset_index(&self, row_group: usize, column: usize) -> Option<&OffsetIndexMetaData> {
        self.slot(row_group, column)?.offset.get()?.as_deref()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn range(offset: Option<i64>, length: Option<i32>) -> Option<Range<u64>> {
    let start = u64::try_from(offset?).ok()?;
    let length = u64::try_from(length?).ok()?;
    (length > 0).then_some(start..start.checked_add(length)?)
}

fn offset_range(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    range(chunk.offset_index_offset(), chunk.offset_index_length())
}

fn column_range(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    range(chunk.column_index_offset(), chunk.column_index_length())
}

/// Whether the leading list of a Thrift compact struct can have as many elements as it claims, at one byte each at least. The
/// decoder would allocate the claim.
fn list_fits(bytes: &[u8]) -> bool {
    let Some([_, list, rest @ ..]) = bytes.get(..) else { return false };
    let size = match list >> 4 {
        0x0f => {
            let mut size = 0u64;
            for (position, byte) in rest.iter().take(10).enumerate() {
                size |=
                    u64::from(byte & 0x7f).checked_shl(u32::try_from(position * 7).unwrap_or(64)).unwrap_or(u64::MAX);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            size
        }
        short => u64::from(short),
    };
    usize::try_from(size).is_ok_and(|size| size <= bytes.len())
}

/// Bytes of a column chunk; `None` when the footer's numbers make none.
pub(super) fn chunk_range(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = u64::try_from(chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset())).ok()?;
    let length = u64::try_from(chunk.compressed_size()).ok()?;
    Some(start..start.checked_add(length)?)
}

/// Whether the pages of `index` tile the rows of the chunk in order and lie inside it.
fn is_consistent(index: &OffsetIndexMetaData, chunk: &ColumnChunkMetaData, rows: i64) -> bool {
    let Some(bytes) = chunk_range(chunk) else { return false };
    let pages = index.page_locations();
    let Some(first) = pages.first() else { return false };
    if first.first_row_index != 0 || first.offset != chunk.data_page_offset() {
        return false;
    }
    let mut row = -1;
    let mut end = bytes.start;
    for page in pages {
        let (Ok(start), Ok(length)) = (u64::try_from(page.offset), u64::try_from(page.compressed_page_size)) else {
            return false;
        };
        if length == 0 || start < end || page.first_row_index <= row || page.first_row_index >= rows {
            return false;
        }
        let Some(page_end) = start.checked_add(length) else { return false };
        end = page_end;
        row = page.first_row_index;
    }
    // The decoder keeps the length of the dictionary in 32 bits.
    let dictionary = u64::try_from(first.offset).unwrap_or(u64::MAX).saturating_sub(bytes.start);
    end <= bytes.end && i32::try_from(dictionary).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_longer_than_its_bytes_is_refused() {
        assert!(list_fits(&[0x19, 0x1c, 0, 0]));
        assert!(!list_fits(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]));
        assert!(!list_fits(&[0x19]));
        assert!(!list_fits(&[0x19, 0xe0]));
    }
}
