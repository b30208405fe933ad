//! Columns stored as Arrow dictionaries: which ones, and the values they share over all blocks.
//!
//! Every block of a column refers to one dictionary, which is written once, after the last block. (In the Arrow IPC file format the
//! place of a dictionary does not matter, and a single one spares readers the support of deltas.) Its values are collected while
//! blocks are encoded, from any number of threads; memory grows with the number of distinct values of the column.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use hashbrown::{HashMap, HashSet};

/// A column whose first block has more distinct values than this is not stored as a dictionary.
const MAX_DISTINCT: usize = 8192;
/// A dictionary is worth it if values repeat at least this often, on average, in the first block.
const MIN_REPEATS: usize = 4;

/// The type of dictionary columns in files.
pub fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Whether the values of a string column repeat enough.
pub fn is_low_cardinality(array: &ArrayRef) -> bool {
    let limit = MAX_DISTINCT.min((array.len() - array.null_count()) / MIN_REPEATS);
    let mut seen: HashSet<&str> = HashSet::new();
    let mut last = None;
    for value in texts(array).flatten() {
        if last != Some(value) {
            seen.insert(value);
            if seen.len() > limit {
                return false;
            }
            last = Some(value);
        }
    }
    !seen.is_empty()
}

/// The values of a string array, or of a dictionary of strings.
fn texts(array: &ArrayRef) -> Box<dyn Iterator<Item = Option<&str>> + '_> {
    match array.data_type() {
        DataType::Utf8 => Box::new(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => Box::new(array.as_string::<i64>().iter()),
        DataType::Utf8View => Box::new(array.as_string_view().iter()),
        DataType::Dictionary(..) => match array.as_any_dictionary_opt() {
            Some(dictionary) if !dictionary.values().is_empty() => {
                let (keys, values) = (dictionary.keys(), dictionary.values());
                let values: Vec<Option<&str>> = texts(values).collect();
                let indices = dictionary.normalized_keys();
                Box::new(indices.into_iter().enumerate().map(move |(row, index)| {
                    if keys.is_null(row) { None } else { values.get(index).copied().flatten() }
                }))
            }
            _ => Box::new(std::iter::repeat_n(None, array.len())),
        },
        _ => Box::new(std::iter::empty()),
    }
}

/// A block's column with a dictionary of its own, in order of first occurrence.
pub fn encode_locally(array: &ArrayRef) -> Result<DictionaryArray<Int32Type>, String> {
    let mut index: HashMap<&str, i32> = HashMap::new();
    let mut values: Vec<&str> = Vec::new();
    let mut last: Option<(&str, i32)> = None;
    let mut keys = Vec::with_capacity(array.len());
    for value in texts(array) {
        let Some(value) = value else {
            keys.push(None);
            continue;
        };
        let key = match last {
            Some((previous, key)) if previous == value => key,
            _ => match index.get(value) {
                Some(key) => *key,
                None => {
                    let key = i32::try_from(values.len()).map_err(|_| too_many())?;
                    values.push(value);
                    index.insert(value, key);
                    key
                }
            },
        };
        last = Some((value, key));
        keys.push(Some(key));
    }
    let values = Arc::new(StringArray::from_iter_values(values));
    DictionaryArray::try_new(Int32Array::from(keys), values).map_err(|e| e.to_string())
}

fn too_many() -> String {
    format!("more than {} distinct values do not fit into a dictionary", i32::MAX)
}

#[derive(Debug, Default)]
struct Values {
    index: HashMap<Arc<str>, i32>,
    order: Vec<Arc<str>>,
}

/// The dictionary of one column of the file.
#[derive(Debug, Default)]
pub struct SharedDictionary(Mutex<Values>);

impl SharedDictionary {
    /// The keys of a locally encoded column in terms of the shared dictionary, which gets the values it does not have yet.
    pub fn keys(&self, local: &DictionaryArray<Int32Type>) -> Result<Int32Array, String> {
        let mut map = Vec::with_capacity(local.values().len());
        {
            let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let shared = &mut *shared;
            for value in local.values().as_string::<i32>().iter().flatten() {
                let key = match shared.index.get(value) {
                    Some(key) => *key,
                    None => {
                        let key = i32::try_from(shared.order.len()).map_err(|_| too_many())?;
                        let value: Arc<str> = value.into();
                        shared.order.push(Arc::clone(&value));
                        shared.index.insert(value, key);
                        key
                    }
                };
                map.push(key);
            }
        }
        let translate = |key: i32| usize::try_from(key).ok().and_then(|k| map.get(k)).copied().unwrap_or(0);
        Ok(local.keys().unary(translate))
    }

    /// The dictionary as an array without rows.
    pub fn array(&self) -> Result<ArrayRef, String> {
        let shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = Arc::new(StringArray::from_iter_values(shared.order.iter()));
        let keys = Int32Array::from(Vec::<i32>::new());
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).map_err(|e| e.to_string())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn blocks_share_one_dictionary() {
        let shared = SharedDictionary::default();
        let first = encode_locally(&strings(&[Some("a"), None, Some("b"), Some("a")])).unwrap();
        let second = encode_locally(&strings(&[Some("c"), Some("b")])).unwrap();
        assert_eq!(shared.keys(&first).unwrap(), Int32Array::from(vec![Some(0), None, Some(1), Some(0)]));
        assert_eq!(shared.keys(&second).unwrap(), Int32Array::from(vec![2, 1]));
        let all = shared.array().unwrap();
        let values = all.as_dictionary::<Int32Type>().values().as_string::<i32>().iter().flatten().collect::<Vec<_>>();
        assert_eq!(values, ["a", "b", "c"]);
        let again: ArrayRef = Arc::new(first.clone());
        assert_eq!(encode_locally(&again).unwrap(), first);
    }

    #[test]
    fn repetition_decides() {
        let repeated: Vec<Option<&str>> = std::iter::repeat_n([Some("x"), Some("y")], 10).flatten().collect();
        assert!(is_low_cardinality(&strings(&repeated)));
        let names: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let unique: Vec<Option<&str>> = names.iter().map(|n| Some(n.as_str())).collect();
        assert!(!is_low_cardinality(&strings(&unique)));
        assert!(!is_low_cardinality(&strings(&[None, None])));
        assert!(!is_low_cardinality(&strings(&[])));
    }
}
