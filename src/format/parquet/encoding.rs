//! Which encoding suits a column of a row group: decided by looking at its values.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use parquet::basic::{Encoding, Type as Physical};
use parquet::schema::types::ColumnDescriptor;

/// Stretches of rows looked at to decide on a dictionary, and rows of each. Neighbours matter: identifiers of one request
/// stand together.
const SAMPLES: usize = 32;
const SAMPLE_ROWS: usize = 64;

/// Neighbouring rows that are compressed to compare two encodings, and the level: the order of the sizes is the same at every level.
const TRIAL_ROWS: usize = 4096;
const TRIAL_LEVEL: i32 = 1;

/// Whether a leaf starts with a dictionary, and how values are written without one. `array` holds the values of a root column;
/// `zstd` says that pages are compressed by it, which finds repeats that a finer encoding may hide.
pub(super) fn choose(descr: &ColumnDescriptor, array: Option<&ArrayRef>, zstd: bool) -> (bool, Option<Encoding>) {
    let repeats = array.is_none_or(repeats);
    let or_plain = |encoding: Encoding| {
        let plain = zstd && array.is_some_and(|array| plain_is_smaller(array).unwrap_or(false));
        Some(if plain { Encoding::PLAIN } else { encoding })
    };
    match descr.physical_type() {
        Physical::BOOLEAN => (false, None),
        Physical::FLOAT | Physical::DOUBLE => (false, or_plain(Encoding::BYTE_STREAM_SPLIT)),
        Physical::INT32 => (repeats, Some(Encoding::DELTA_BINARY_PACKED)),
        Physical::INT64 => {
            let temporal = array.is_some_and(|array| {
                matches!(array.data_type(), DataType::Timestamp(..) | DataType::Time64(_) | DataType::Duration(_))
            });
            (repeats && !temporal, Some(Encoding::DELTA_BINARY_PACKED))
        }
        Physical::BYTE_ARRAY if repeats => (true, Some(Encoding::DELTA_LENGTH_BYTE_ARRAY)),
        Physical::BYTE_ARRAY => (false, or_plain(Encoding::DELTA_LENGTH_BYTE_ARRAY)),
        Physical::INT96 | Physical::FIXED_LEN_BYTE_ARRAY => (repeats, None),
    }
}

/// Whether values come back often enough for a dictionary. Unknown is yes: a dictionary that does not pay is given up while
/// writing.
fn repeats(array: &ArrayRef) -> bool {
    let rows = array.len();
    if rows == 0 || matches!(array.data_type(), DataType::Dictionary(..)) {
        return true;
    }
    let mut picked = Vec::new();
    if rows <= SAMPLES * SAMPLE_ROWS {
        picked.extend(0..rows);
    } else {
        let step = (rows - SAMPLE_ROWS) / (SAMPLES - 1);
        for sample in 0..SAMPLES {
            picked.extend(sample * step..sample * step + SAMPLE_ROWS);
        }
    }
    let picked: UInt32Array = picked.into_iter().filter_map(|row| u32::try_from(row).ok()).collect();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(array.data_type().clone()));
    let Ok(sample) = take(array, &picked, None).and_then(|sample| cast(&sample, &dictionary)) else { return true };
    let values = sample.len() - sample.null_count();
    let distinct = sample.as_any_dictionary_opt().map_or(0, |dictionary| dictionary.values().len());
    // 98 of 100 different: nothing to gain.
    distinct.saturating_mul(50) < values.saturating_mul(49) || values == 0
}

/// Whether rows from the middle take less room after zstd as plain values than in the encoding that separates their parts: the
/// bytes of numbers by significance, lengths from texts. Numbers with few digits and texts of few shapes repeat as a whole.
/// `None`: not a type with such a choice, or nothing to look at.
fn plain_is_smaller(array: &ArrayRef) -> Option<bool> {
    let rows = array.len().min(TRIAL_ROWS);
    let sample = array.slice((array.len() - rows) / 2, rows);
    let (plain, split) = match sample.data_type() {
        DataType::Float64 => numbers(sample.as_primitive::<Float64Type>().iter().flatten().map(f64::to_le_bytes)),
        DataType::Float32 => numbers(sample.as_primitive::<Float32Type>().iter().flatten().map(f32::to_le_bytes)),
        DataType::Utf8 => texts(sample.as_string::<i32>().iter().flatten().map(str::as_bytes)),
        DataType::Binary => texts(sample.as_binary::<i32>().iter().flatten()),
        _ => return None,
    };
    let size = |bytes: &[u8]| zstd::bulk::compress(bytes, TRIAL_LEVEL).ok().map(|compressed| compressed.len());
    Some(size(&plain)? < size(&split)?)
}

/// Numbers as they are, and by the significance of their bytes.
fn numbers<const WIDTH: usize>(values: impl Iterator<Item = [u8; WIDTH]>) -> (Vec<u8>, Vec<u8>) {
    let values: Vec<[u8; WIDTH]> = values.collect();
    let split = (0..WIDTH).flat_map(|byte| values.iter().map(move |value| value[byte])).collect();
    (values.concat(), split)
}

/// Texts each after its length, and all lengths before all texts. Lengths come in 16 bits where they fit: packed ones take less.
fn texts<'a>(values: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<u8>) {
    let (mut plain, mut lengths, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        plain.extend(length.to_le_bytes());
        plain.extend(value);
        match u16::try_from(length) {
            Ok(short) => lengths.extend(short.to_le_bytes()),
            Err(_) => lengths.extend(length.to_le_bytes()),
        }
        bytes.extend(value);
    }
    lengths.append(&mut bytes);
    (plain, lengths)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};

    use super::*;

    /// SplitMix64.
    fn mixed(i: u64) -> u64 {
        let i = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let i = (i ^ (i >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let i = (i ^ (i >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i ^ (i >> 31)
    }

    #[test]
    fn numbers_with_few_digits_and_texts_of_few_shapes_are_plain() {
        let few: Vec<f64> = (0..9000).map(|i| f64::from(u16::try_from(mixed(i) % 1000).unwrap()) / 250.0).collect();
        assert_eq!(plain_is_smaller(&(Arc::new(Float64Array::from(few)) as ArrayRef)), Some(true));
        let smooth: Vec<f64> = (0..9000).map(|i| f64::from_bits(1.0f64.to_bits() | mixed(i) >> 12)).collect();
        assert_eq!(plain_is_smaller(&(Arc::new(Float64Array::from(smooth)) as ArrayRef)), Some(false));
        let ids: Vec<String> = (0..9000).map(|i| format!("{:016x}", mixed(i))).collect();
        assert_eq!(plain_is_smaller(&(Arc::new(StringArray::from(ids)) as ArrayRef)), Some(false));
        assert_eq!(plain_is_smaller(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef)), None);
        let empty: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 10]));
        assert_eq!(plain_is_smaller(&empty), Some(false));
    }

    #[test]
    fn dictionaries_are_for_values_that_come_back() {
        let unique: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let few: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|i| format!("host-{}", i % 500))));
        let runs: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|i| format!("{:032x}", i / 10))));
        assert!(!repeats(&unique));
        assert!(repeats(&few));
        assert!(repeats(&runs));
    }
}
