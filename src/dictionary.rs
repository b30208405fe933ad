//! Dictionaries made on the fly of text columns with few distinct values in a block, so that whoever comes next looks at each
//! distinct value once instead of once per row: the engine that hashes and compares them, and the statistics of a block.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema};

/// More distinct values than this in a block are not worth a dictionary.
const MAX_VALUES: usize = 512;
/// Rows looked at before deciding whether to encode at all, and the distinct values that rule it out.
const SAMPLE_ROWS: usize = 2048;
const SAMPLE_VALUES: usize = 128;
/// Blocks with fewer rows are not worth it.
const MIN_ROWS: usize = 4096;
/// Power of two, at least four times [`MAX_VALUES`].
const SLOTS: usize = 4096;

/// The batch with its low-cardinality `Utf8` columns, those that `may` be, as `Dictionary(Int32, Utf8)`.
pub fn encode_batch(batch: RecordBatch, may: impl Fn(usize) -> bool) -> RecordBatch {
    let is_text = |column: &ArrayRef| column.data_type() == &DataType::Utf8;
    if batch.num_rows() < MIN_ROWS || !batch.columns().iter().any(is_text) {
        return batch;
    }
    let mut changed = false;
    let mut columns = batch.columns().to_vec();
    let mut fields = Vec::with_capacity(columns.len());
    for (index, (column, field)) in columns.iter_mut().zip(batch.schema_ref().fields()).enumerate() {
        let text = column.as_any().downcast_ref::<StringArray>().filter(|_| may(index));
        let encoded = text.and_then(encode);
        match encoded {
            Some(encoded) => {
                fields.push(Arc::new(Field::new(field.name(), encoded.data_type().clone(), true)));
                *column = encoded;
                changed = true;
            }
            None => fields.push(Arc::clone(field)),
        }
    }
    if !changed {
        return batch;
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap_or(batch)
}

/// The columns, those of text with few values as dictionaries.
pub fn encode_columns(columns: &[ArrayRef]) -> Vec<ArrayRef> {
    let encoded = |column: &ArrayRef| {
        let text = column.as_any().downcast_ref::<StringArray>().filter(|text| text.len() >= MIN_ROWS);
        text.and_then(encode).unwrap_or_else(|| Arc::clone(column))
    };
    columns.iter().map(encoded).collect()
}

/// Both ends and the length of a value: of a value of up to 16 bytes, all of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Digest {
    head: u64,
    tail: u64,
    length: usize,
}

impl Digest {
    fn of(value: &[u8]) -> Self {
        let length = value.len();
        let (head, tail) = match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => match (value.first_chunk::<4>(), value.last_chunk::<4>()) {
                (Some(head), Some(tail)) => {
                    (u64::from(u32::from_le_bytes(*head)), u64::from(u32::from_le_bytes(*tail)))
                }
                _ => match value {
                    [] => (0, 0),
                    [first, .., last] => (u64::from(*first) | u64::from(value[length / 2]) << 8, u64::from(*last)),
                    [only] => (u64::from(*only), 0),
                },
            },
        };
        Self { head, tail, length }
    }

    fn is_whole(self) -> bool {
        self.length <= 16
    }

    fn slot(self) -> usize {
        const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = self.head ^ self.tail.rotate_left(23) ^ (self.length as u64).rotate_left(47);
        usize::try_from(mixed.wrapping_mul(MULTIPLIER) >> 40).unwrap_or(0) & (SLOTS - 1)
    }
}

/// Open addressing over the distinct values found so far.
struct Table<'a> {
    slots: Vec<u16>,
    values: Vec<(Digest, &'a [u8])>,
}

impl<'a> Table<'a> {
    fn new() -> Self {
        Self { slots: vec![u16::MAX; SLOTS], values: Vec::with_capacity(64) }
    }

    /// The number of `value`, added if it is new; `None` when there are too many.
    fn number(&mut self, value: &'a [u8], most: usize) -> Option<u16> {
        let digest = Digest::of(value);
        let mut slot = digest.slot();
        loop {
            let number = self.slots[slot];
            if number == u16::MAX {
                if self.values.len() >= most {
                    return None;
                }
                let number = u16::try_from(self.values.len()).ok()?;
                self.slots[slot] = number;
                self.values.push((digest, value));
                return Some(number);
            }
            let (known, bytes) = self.values[usize::from(number)];
            if known == digest && (digest.is_whole() || bytes == value) {
                return Some(number);
            }
            slot = (slot + 1) & (SLOTS - 1);
        }
    }
}

fn encode(column: &StringArray) -> Option<ArrayRef> {
    let offsets = column.value_offsets();
    let data = column.value_data();
    let nulls = column.nulls();
    let mut table = Table::new();
    let mut keys: Vec<i32> = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            keys.push(0);
            continue;
        }
        let start = usize::try_from(offsets[row]).ok()?;
        let end = usize::try_from(offsets[row + 1]).ok()?;
        let most = if row < SAMPLE_ROWS { SAMPLE_VALUES } else { MAX_VALUES };
        keys.push(i32::from(table.number(data.get(start..end)?, most)?));
    }
    let mut values = StringBuilder::with_capacity(table.values.len(), 1024);
    for (_, value) in &table.values {
        values.append_value(std::str::from_utf8(value).ok()?);
    }
    let keys = Int32Array::new(keys.into(), nulls.cloned());
    Some(Arc::new(DictionaryArray::try_new(keys, Arc::new(values.finish())).ok()?))
}

#[cfg(test)]
mod tests {
    use arrow::compute::cast;

    use super::*;

    fn round_trip(values: Vec<Option<String>>) -> bool {
        let column: ArrayRef = Arc::new(StringArray::from(values));
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::clone(&column)]).unwrap();
        let encoded = encode_batch(batch, |_| true);
        assert_eq!(&cast(encoded.column(0), &DataType::Utf8).unwrap(), &column);
        matches!(encoded.column(0).data_type(), DataType::Dictionary(_, _))
    }

    #[test]
    fn few_values_become_a_dictionary_and_many_do_not() {
        let few = |i: usize| (i % 7 != 3).then(|| format!("service-{}", i % 20));
        assert!(round_trip((0..10_000).map(few).collect()));
        assert!(!round_trip((0..10_000).map(|i| Some(format!("request {i}"))).collect()));
        assert!(!round_trip((0..100).map(few).collect()));
        assert!(round_trip(vec![None; 5000]));
        // same length and ends, different middles: the table must compare whole values
        assert!(round_trip((0..9000).map(|i| Some(format!("aaaaaaaa{}bbbbbbbb", i % 3))).collect()));
        assert!(round_trip((0..9000).map(|i| Some(["", "a", "é\u{212a}"][i % 3].to_owned())).collect()));
        // few values at first, many later
        assert!(!round_trip((0..9000).map(|i| Some(if i < 4000 { "x".into() } else { i.to_string() })).collect()));
    }

    #[test]
    fn statistics_are_those_of_the_plain_column() {
        use crate::stats::block::BlockStats;
        use crate::stats::extent::ExtentStats;
        let of = |columns: Vec<ArrayRef>, schema: &Schema| {
            let batch = RecordBatch::try_from_iter_with_nullable(vec![("a", Arc::clone(&columns[0]), true)]).unwrap();
            let stats = BlockStats::of(&batch);
            let mut extent = ExtentStats::new(schema);
            extent.add(&batch, &stats);
            (stats, extent.column_stats())
        };
        let schema = Schema::new(vec![Field::new("a", DataType::Utf8, true)]);
        for distinct in [1usize, 2, 127, 300, 511, 512, 600, 6000] {
            let values = (0..6000).map(|i| (i % 11 != 0).then(|| format!("value {} x", (i * i) % distinct)));
            let plain: Vec<ArrayRef> = vec![Arc::new(values.collect::<StringArray>())];
            assert_eq!(of(encode_columns(&plain), &schema), of(plain, &schema), "{distinct}");
        }
    }
}
