//! Statistics of a whole extent, as the catalog stores them: distinct sets, token sets, vector statistics and time bounds.
//!
//! The caps and overflow rules are the storage format's (§4.1 to §4.5 of its reference) and are observed exactly, because other
//! writers and readers of the same catalog rely on them. Blocks are summarised independently ([`ColumnPartial::of`], from any
//! thread) and merged in block order ([`ExtentStats::merge`]); the result is that of one pass over all rows.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float32Type, Int32Type, Int64Type, Schema};
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::block::{BlockStats, Bounds, ColumnBlockStats, text_at, used_values};
use super::token_set::TokenSet;

/// Distinct values kept per column.
pub const DISTINCT_SET_CAP: usize = 1000;
/// Tokens kept per column.
pub const TOKEN_SET_CAP: usize = 10_000;
/// Vectors a vector statistic is computed over at most.
pub const VECTOR_CAP: usize = 50_000;
/// Vectors with a norm up to this have no direction and are left out.
const ZERO_NORM: f64 = 1e-12;

/// A set of distinct values that gives up as the format demands: as soon as a value arrives while the set is full, even one it
/// already holds.
#[derive(Debug, Clone)]
struct Distinct<T> {
    values: Option<HashSet<T>>,
    any: bool,
    /// The most recent value, and whether that was its first occurrence.
    last: Option<(T, bool)>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { values: Some(HashSet::new()), any: false, last: None }
    }
}

impl<T: Hash + Eq + Clone> Distinct<T> {
    fn overflowed(&self) -> bool {
        self.values.is_none()
    }

    fn overflow() -> Self {
        Self { values: None, any: true, last: None }
    }

    /// Appends what `block` saw after everything seen so far.
    fn merge(&mut self, block: Self) {
        if !block.any {
            return;
        }
        self.any = true;
        let (Some(mine), Some(theirs)) = (&mut self.values, block.values) else {
            self.values = None;
            return;
        };
        // The value that fills the set must be the last one of all.
        let ends_with_new = block.last.is_some_and(|(value, first)| first && !mine.contains(&value));
        let was_full = mine.len() >= DISTINCT_SET_CAP;
        mine.extend(theirs);
        if was_full || mine.len() > DISTINCT_SET_CAP || (mine.len() == DISTINCT_SET_CAP && !ends_with_new) {
            self.values = None;
        }
    }
}

/// A set of tokens. `None` once it held more than [`TOKEN_SET_CAP`].
#[derive(Debug, Clone)]
struct Tokens(Option<TokenSet>);

impl Tokens {
    fn add(&mut self, text: &str) {
        let Some(set) = &mut self.0 else { return };
        set.add(text);
        if set.len() > TOKEN_SET_CAP {
            self.0 = None;
        }
    }

    fn merge(&mut self, block: Self) {
        match (&mut self.0, block.0) {
            (Some(mine), Some(theirs)) => {
                mine.merge(theirs);
                if mine.len() > TOKEN_SET_CAP {
                    self.0 = None;
                }
            }
            _ => self.0 = None,
        }
    }
}

/// What one block says about one column of the extent.
#[derive(Debug)]
pub struct ColumnPartial(Partial);

#[derive(Debug)]
enum Partial {
    /// The column is of a type without extent statistics.
    None,
    Text {
        distinct: Distinct<Box<str>>,
        tokens: Tokens,
    },
    Int(Distinct<i64>),
    /// Unit vectors, one after the other, and their dimension; `None` beyond the cap.
    Vectors {
        unit: Option<Vec<f32>>,
        dimension: usize,
    },
}

/// What is no longer worth computing for a column because the extent's set has overflowed. Shared with the threads that encode
/// blocks; a stale answer costs time only.
#[derive(Debug, Default)]
pub struct Given {
    distinct: AtomicBool,
    tokens: AtomicBool,
}

impl ColumnPartial {
    /// Summarises one column of one block.
    pub fn of(array: &ArrayRef, given_up: &Given) -> Self {
        Self(match array.data_type() {
            DataType::Utf8 => text_partial(array.as_string::<i32>().iter(), given_up),
            DataType::LargeUtf8 => text_partial(array.as_string::<i64>().iter(), given_up),
            DataType::Utf8View => text_partial(array.as_string_view().iter(), given_up),
            DataType::Dictionary(_, values) if values.is_string() => dictionary_partial(array),
            DataType::Int32 => {
                int_partial(array.as_primitive::<Int32Type>().iter().map(|v| v.map(i64::from)), given_up)
            }
            DataType::Int64 => int_partial(array.as_primitive::<Int64Type>().iter(), given_up),
            DataType::FixedSizeList(item, dimension) if *item.data_type() == DataType::Float32 => {
                vector_partial(array, usize::try_from(*dimension).unwrap_or(0))
            }
            _ => Partial::None,
        })
    }
}

fn int_partial(values: impl Iterator<Item = Option<i64>>, given_up: &Given) -> Partial {
    if given_up.distinct.load(Ordering::Relaxed) {
        return Partial::Int(Distinct::overflow());
    }
    let mut set: HashSet<i64> = HashSet::new();
    let mut last: Option<(i64, bool)> = None;
    for value in values.flatten() {
        if set.len() >= DISTINCT_SET_CAP {
            return Partial::Int(Distinct::overflow());
        }
        let first = last.is_none_or(|(previous, _)| previous != value) && set.insert(value);
        last = Some((value, first));
    }
    Partial::Int(Distinct { any: last.is_some(), values: Some(set), last })
}

/// One pass for both sets. A value that is in the distinct set has had its tokens taken, so repeats cost one look-up.
fn text_partial<'a>(values: impl Iterator<Item = Option<&'a str>>, given_up: &Given) -> Partial {
    let mut set = (!given_up.distinct.load(Ordering::Relaxed)).then(HashSet::<&str>::new);
    let mut tokens = Tokens((!given_up.tokens.load(Ordering::Relaxed)).then(TokenSet::default));
    let mut last: Option<(&str, bool)> = None;
    for value in values.flatten() {
        let repeat = last.is_some_and(|(previous, _)| previous == value);
        let mut first = false;
        if let Some(distinct) = &mut set {
            if distinct.len() >= DISTINCT_SET_CAP {
                set = None;
            } else {
                first = !repeat && distinct.insert(value);
            }
        }
        let seen = repeat || (set.is_some() && !first);
        last = Some((value, first));
        if !seen {
            tokens.add(value);
        }
        if set.is_none() && tokens.0.is_none() {
            break;
        }
    }
    let any = last.is_some();
    let distinct = Distinct {
        values: set.map(|set| set.into_iter().map(Box::from).collect()),
        any,
        last: last.map(|(value, first)| (value.into(), first)),
    };
    Partial::Text { distinct, tokens }
}

/// As [`text_partial`], over the values that rows use. The order of the values in the dictionary says nothing about the order of
/// the rows, so the last row is looked up.
fn dictionary_partial(array: &ArrayRef) -> Partial {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Partial::None };
    let values = dictionary.values();
    let used = used_values(array);
    let mut set: HashSet<Box<str>> = HashSet::new();
    let mut tokens = Tokens(Some(TokenSet::default()));
    for (index, used) in used.iter().enumerate() {
        if *used && let Some(value) = text_at(values, index) {
            if set.len() <= DISTINCT_SET_CAP {
                set.insert(value.into());
            }
            tokens.add(value);
        }
    }
    let any = !set.is_empty();
    let last = if set.len() == DISTINCT_SET_CAP { last_value(array) } else { None };
    let overflow =
        set.len() > DISTINCT_SET_CAP || (set.len() == DISTINCT_SET_CAP && !last.as_ref().is_some_and(|l| l.1));
    let last = last.or_else(|| if any { last_value(array) } else { None });
    Partial::Text { distinct: Distinct { values: (!overflow).then_some(set), any, last }, tokens }
}

/// The value of the last row that has one, and whether no earlier row has it.
fn last_value(array: &ArrayRef) -> Option<(Box<str>, bool)> {
    let dictionary = array.as_any_dictionary_opt()?;
    let (keys, values) = (dictionary.keys(), dictionary.values());
    if values.is_empty() {
        return None;
    }
    let indices = dictionary.normalized_keys();
    let value = |row: usize| if keys.is_null(row) { None } else { text_at(values, *indices.get(row)?) };
    let row = (0..array.len()).rev().find(|row| value(*row).is_some())?;
    let text = value(row)?;
    let first = !(0..row).any(|earlier| value(earlier) == Some(text));
    Some((text.into(), first))
}

/// Unit vectors of the usable rows: the norm in 64-bit floats, the components rounded to 32 bits after the division (§4.4).
fn vector_partial(array: &ArrayRef, dimension: usize) -> Partial {
    let Some(list) = array.as_fixed_size_list_opt() else { return Partial::None };
    let mut unit: Vec<f32> = Vec::new();
    if dimension == 0 {
        return Partial::Vectors { unit: Some(unit), dimension };
    }
    for row in (0..list.len()).filter(|row| list.is_valid(*row)) {
        let values = list.value(row);
        let values = values.as_primitive::<Float32Type>().values();
        let norm = values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>().sqrt();
        if norm <= ZERO_NORM {
            continue;
        }
        if unit.len() / dimension >= VECTOR_CAP {
            return Partial::Vectors { unit: None, dimension };
        }
        unit.extend(values.iter().map(|v| to_f32(f64::from(*v) / norm)));
    }
    Partial::Vectors { unit: Some(unit), dimension }
}

#[expect(clippy::cast_possible_truncation, reason = "the format stores unit vectors rounded to 32 bits")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// What is known of the values of a timestamp column, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeRange {
    /// There is no value.
    #[default]
    Empty,
    /// The smallest and the largest value.
    Known(i64, i64),
    /// There are values, and nothing is known of them: of a type or size whose nanoseconds do not fit 64 bits, for instance.
    Unknown,
}

impl TimeRange {
    /// What a block's statistics say. No statistics is unknown.
    fn of(stats: Option<&ColumnBlockStats>) -> Self {
        match stats.map(|stats| &stats.bounds) {
            Some(Bounds::Empty) => Self::Empty,
            Some(Bounds::Timestamp(min, max)) => Self::Known(*min, *max),
            _ => Self::Unknown,
        }
    }

    /// What is known of the values of both.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, range) | (range, Self::Empty) => range,
            (Self::Known(a, b), Self::Known(min, max)) => Self::Known(a.min(min), b.max(max)),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
        }
    }
}

/// What one block says about the extent.
#[derive(Debug)]
pub struct BlockPartial {
    columns: Vec<ColumnPartial>,
    /// Of the timestamp columns, in order.
    times: Vec<TimeRange>,
}

/// The statistics of an extent, merged from its blocks.
#[derive(Debug)]
pub struct ExtentStats {
    names: Vec<String>,
    columns: Vec<Partial>,
    /// Of the timestamp columns, in order.
    times: Vec<TimeRange>,
    summary: Arc<Summary>,
}

/// Summarises blocks for [`ExtentStats`]; shared between threads.
#[derive(Debug)]
pub struct Summary {
    given_up: Vec<Given>,
    /// Which columns are timestamps.
    time_columns: Vec<usize>,
}

impl Summary {
    /// Summarises one block, given its columns and their block statistics.
    pub fn block(&self, columns: &[ArrayRef], stats: &BlockStats) -> BlockPartial {
        let range = |column: &usize| TimeRange::of(stats.columns.get(*column).and_then(Option::as_ref));
        BlockPartial {
            columns: columns.iter().zip(&self.given_up).map(|(array, given)| ColumnPartial::of(array, given)).collect(),
            times: self.time_columns.iter().map(range).collect(),
        }
    }
}

impl ExtentStats {
    /// The statistics of an extent without blocks.
    pub fn new(schema: &Schema) -> Self {
        let columns = schema
            .fields()
            .iter()
            .map(|field| ColumnPartial::of(&arrow::array::new_empty_array(field.data_type()), &Given::default()).0)
            .collect();
        let is_time = |(_, field): &(usize, &Arc<Field>)| matches!(field.data_type(), DataType::Timestamp(..));
        let time_columns: Vec<usize> = schema.fields().iter().enumerate().filter(is_time).map(|(i, _)| i).collect();
        let given_up = schema.fields().iter().map(|_| Given::default()).collect();
        Self {
            names: schema.fields().iter().map(|f| f.name().clone()).collect(),
            columns,
            times: vec![TimeRange::Empty; time_columns.len()],
            summary: Arc::new(Summary { given_up, time_columns }),
        }
    }

    /// What summarises the blocks of this extent.
    pub fn summary(&self) -> Arc<Summary> {
        Arc::clone(&self.summary)
    }

    /// Adds a whole batch: [`Summary::block`] and [`ExtentStats::merge`] in one.
    pub fn add(&mut self, batch: &RecordBatch, stats: &BlockStats) {
        let partial = self.summary.block(batch.columns(), stats);
        self.merge(partial);
    }

    /// Appends a block after those merged so far.
    pub fn merge(&mut self, block: BlockPartial) {
        self.times.iter_mut().zip(block.times).for_each(|(mine, theirs)| *mine = mine.merge(theirs));
        for ((mine, theirs), given) in self.columns.iter_mut().zip(block.columns).zip(&self.summary.given_up) {
            match (mine, theirs.0) {
                (Partial::Text { distinct, tokens }, Partial::Text { distinct: d, tokens: t }) => {
                    distinct.merge(d);
                    tokens.merge(t);
                    given.distinct.store(distinct.overflowed(), Ordering::Relaxed);
                    given.tokens.store(tokens.0.is_none(), Ordering::Relaxed);
                }
                (Partial::Int(distinct), Partial::Int(d)) => {
                    distinct.merge(d);
                    given.distinct.store(distinct.overflowed(), Ordering::Relaxed);
                }
                (Partial::Vectors { unit, dimension }, Partial::Vectors { unit: more, .. }) => {
                    match (unit.as_mut(), more) {
                        (Some(all), Some(more)) => {
                            all.extend(more);
                            if *dimension > 0 && all.len() / *dimension > VECTOR_CAP {
                                *unit = None;
                            }
                        }
                        _ => *unit = None,
                    }
                }
                // Whatever the block holds, nothing is known of it.
                (mine, _) => *mine = Partial::None,
            }
        }
    }

    /// What is known of each timestamp column over all blocks, by name. A name that two columns have is left out.
    pub fn time_ranges(&self) -> BTreeMap<String, TimeRange> {
        let is_unique = |name: &String| self.names.iter().filter(|other| *other == name).count() == 1;
        let named = self.summary.time_columns.iter().map(|column| self.names.get(*column));
        let named = named.zip(&self.times).filter_map(|(name, range)| Some((name?.clone(), *range)));
        named.filter(|(name, _)| is_unique(name)).collect()
    }

    /// The JSON object the catalog stores: by column name, `distinct` and `tokens` (sorted, or null when unknown), or `vec`.
    pub fn column_stats(self) -> Value {
        let mut out = Map::new();
        let mut twice = Vec::new();
        for (name, column) in self.names.into_iter().zip(self.columns) {
            let entry = match column {
                Partial::None => continue,
                Partial::Text { distinct, tokens } => {
                    // PostgreSQL's jsonb has no NUL character: a set with one could not be stored.
                    let distinct = distinct.values.filter(|set| !set.iter().any(|v| v.contains('\0')));
                    json!({ "distinct": distinct.map(sorted), "tokens": tokens.0.map(TokenSet::into_sorted) })
                }
                Partial::Int(distinct) => json!({ "distinct": distinct.values.map(sorted), "tokens": null }),
                Partial::Vectors { unit: None, .. } => continue,
                Partial::Vectors { unit: Some(unit), dimension } => match vector_stats(&unit, dimension) {
                    Some(stats) => json!({ "vec": stats }),
                    None => continue,
                },
            };
            if out.insert(name.clone(), entry).is_some() {
                twice.push(name);
            }
        }
        for name in twice {
            out.remove(&name);
        }
        Value::Object(out)
    }
}

fn sorted<T: Ord>(set: HashSet<T>) -> Vec<T> {
    let mut list: Vec<T> = set.into_iter().collect();
    list.sort_unstable();
    list
}

/// Centroid and radius of unit vectors (§4.4). A component that is not a number becomes null, which readers take as "unknown".
fn vector_stats(unit: &[f32], dimension: usize) -> Option<Value> {
    let count = unit.len().checked_div(dimension)?;
    if count == 0 {
        return None;
    }
    let divisor = f64::from(u32::try_from(count).ok()?);
    let mut centroid = vec![0.0f64; dimension];
    for vector in unit.chunks_exact(dimension) {
        centroid.iter_mut().zip(vector).for_each(|(sum, v)| *sum += f64::from(*v));
    }
    centroid.iter_mut().for_each(|sum| *sum /= divisor);
    let distance =
        |vector: &[f32]| vector.iter().zip(&centroid).map(|(v, c)| (f64::from(*v) - c).powi(2)).sum::<f64>().sqrt();
    let radius = unit.chunks_exact(dimension).map(distance).fold(0.0f64, f64::max);
    Some(json!({ "centroid": centroid, "radius": radius, "count": count, "metric": "cosine" }))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        DictionaryArray, FixedSizeListArray, Float32Array, Int32Array, Int64Array, StringArray,
        TimestampMicrosecondArray, TimestampNanosecondArray,
    };
    use arrow::datatypes::Field;

    use super::*;

    fn batch(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap()
    }

    /// The statistics of the column `c` over the blocks.
    fn stats(blocks: Vec<ArrayRef>) -> Value {
        let mut extent = ExtentStats::new(&batch(Arc::clone(&blocks[0])).schema());
        for block in blocks {
            let batch = batch(block);
            extent.add(&batch, &BlockStats::of(&batch));
        }
        extent.column_stats()["c"].clone()
    }

    fn ints(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn strings(values: &[String]) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(values))
    }

    fn dictionary(values: &[String]) -> ArrayRef {
        Arc::new(values.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>())
    }

    /// The reference rule, over all rows at once.
    fn naive_distinct<T: Ord + Clone>(rows: &[T]) -> Option<Vec<T>> {
        let mut set = std::collections::BTreeSet::new();
        for row in rows {
            if set.len() >= DISTINCT_SET_CAP {
                return None;
            }
            set.insert(row.clone());
        }
        Some(set.into_iter().collect())
    }

    #[test]
    fn the_thousandth_value_must_be_the_last() {
        let range = |n: i64| (0..n).collect::<Vec<i64>>();
        let mut repeated = range(1000);
        repeated.push(5);
        let mut early = vec![5];
        early.extend(range(1000));
        let cases = [range(999), range(1000), range(1001), repeated, early, vec![7; 5000], vec![]];
        for rows in cases {
            let expected = naive_distinct(&rows);
            let text: Vec<String> = rows.iter().map(|v| format!("v{v:05}")).collect();
            let expected_text = naive_distinct(&text);
            // However the rows are cut into blocks.
            for size in [1usize, 7, 500, 999, 1000, 1001, 10_000] {
                if size == 1 && rows.len() > 1001 {
                    continue;
                }
                let mut blocks: Vec<ArrayRef> = rows.chunks(size).map(ints).collect();
                blocks.push(ints(&[]));
                assert_eq!(stats(blocks)["distinct"], json!(expected), "{} rows by {size}", rows.len());
                for make in [strings, dictionary] {
                    let mut blocks: Vec<ArrayRef> = text.chunks(size).map(make).collect();
                    blocks.push(make(&[]));
                    assert_eq!(stats(blocks)["distinct"], json!(expected_text), "{} texts by {size}", rows.len());
                }
            }
        }
    }

    #[test]
    fn nulls_after_the_thousandth_value_do_not_matter() {
        let mut values: Vec<Option<i32>> = (0..1000).map(Some).collect();
        values.push(None);
        assert_eq!(stats(vec![Arc::new(Int32Array::from(values))])["distinct"].as_array().unwrap().len(), 1000);
        let none: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>, None]));
        assert_eq!(stats(vec![none]), json!({"distinct": [], "tokens": []}));
    }

    #[test]
    fn ten_thousand_tokens_survive_and_one_more_does_not() {
        for (n, kept) in [(10_000usize, true), (10_001, false)] {
            let rows: Vec<String> = (0..n).map(|i| format!("tok{i} Again-AGAIN")).collect();
            // "again" is one of them.
            let rows = &rows[1..];
            for size in [rows.len(), 999] {
                let column = stats(rows.chunks(size).map(strings).collect());
                assert_eq!(column["distinct"], Value::Null);
                assert_eq!(column["tokens"].as_array().map(Vec::len), kept.then_some(n), "{n} by {size}");
            }
        }
    }

    #[test]
    fn tokens_are_those_of_the_tokenizer() {
        let rows = ["OutOfMemoryError: retry_count=3 café", "log-line_42 é", "", "a b cc", "ÀB2 x", "K\u{212a}ab"]
            .map(str::to_owned);
        let expected: std::collections::BTreeSet<String> =
            rows.iter().flat_map(|row| crate::stats::tokens::tokens(row)).collect();
        let expected = json!(expected.into_iter().collect::<Vec<_>>());
        for make in [strings, dictionary] {
            assert_eq!(stats(vec![make(&rows)])["tokens"], expected);
        }
        assert!(expected.as_array().unwrap().contains(&json!("caf")));
    }

    #[test]
    fn sets_are_sorted_and_a_nul_character_drops_the_distinct_set() {
        let column = stats(vec![strings(&["b".into(), "é".into(), "a".into(), "B".into()])]);
        assert_eq!(column["distinct"], json!(["B", "a", "b", "é"]));
        assert_eq!(stats(vec![ints(&[3, -1, 0, 3])]), json!({"distinct": [-1, 0, 3], "tokens": null}));
        let column = stats(vec![strings(&["a\0bc".into()])]);
        assert_eq!(column, json!({"distinct": null, "tokens": ["bc"]}));
    }

    fn vectors(rows: &[Option<[f32; 2]>]) -> ArrayRef {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let values: Vec<f32> = rows.iter().flat_map(|r| r.unwrap_or_default()).collect();
        let nulls = rows.iter().map(Option::is_some).collect::<Vec<bool>>();
        Arc::new(FixedSizeListArray::new(item, 2, Arc::new(Float32Array::from(values)), Some(nulls.into())))
    }

    #[test]
    fn vectors_are_normalised_and_zero_vectors_left_out() {
        let column = stats(vec![vectors(&[Some([3.0, 0.0]), None, Some([0.0, 0.0])]), vectors(&[Some([0.0, 5.0])])]);
        let stats = &column["vec"];
        assert_eq!(stats["centroid"], json!([0.5, 0.5]));
        assert_eq!(stats["count"], 2);
        assert_eq!(stats["metric"], "cosine");
        assert!((stats["radius"].as_f64().unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(self::stats(vec![vectors(&[None, Some([0.0, 0.0])])]), Value::Null);
        let many = vec![Some([1.0, 1.0]); 30_000];
        assert_eq!(self::stats(vec![vectors(&many), vectors(&many)]), Value::Null);
        assert_eq!(self::stats(vec![vectors(&many), vectors(&many[..20_000])])["vec"]["count"], 50_000);
    }

    fn ranges(blocks: &[RecordBatch]) -> BTreeMap<String, TimeRange> {
        let mut extent = ExtentStats::new(&blocks[0].schema());
        blocks.iter().for_each(|block| extent.add(block, &BlockStats::of(block)));
        extent.time_ranges()
    }

    #[test]
    fn each_timestamp_column_has_a_range_under_its_name() {
        let us: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(1), Some(9)]));
        let ns: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(5), None]));
        let none: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![None, None]));
        let columns = [("us", us), ("ns", Arc::clone(&ns)), ("none", none), ("i", ints(&[1, 2]))];
        let all = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
        let expected =
            [("none", TimeRange::Empty), ("ns", TimeRange::Known(5, 5)), ("us", TimeRange::Known(1000, 9000))];
        assert_eq!(ranges(&[all.slice(0, 0), all]), expected.map(|(n, r)| (n.to_owned(), r)).into());
        let twice = RecordBatch::try_from_iter_with_nullable([("a", Arc::clone(&ns), true), ("a", ns, true)]).unwrap();
        assert_eq!(ranges(&[twice]), BTreeMap::new());
    }

    #[test]
    fn a_block_whose_times_do_not_fit_makes_the_extent_unknown_whatever_its_place() {
        let block = |values: &[Option<i64>]| batch(Arc::new(TimestampMicrosecondArray::from(values.to_vec())));
        let (near, far, none) = (block(&[Some(7)]), block(&[Some(i64::MAX / 10), Some(3)]), block(&[None]));
        let of = |blocks: &[&RecordBatch]| ranges(&blocks.iter().map(|b| (*b).clone()).collect::<Vec<_>>())["c"];
        assert_eq!(of(&[&none, &near, &none]), TimeRange::Known(7000, 7000));
        assert_eq!(of(&[&none, &none]), TimeRange::Empty);
        for blocks in [[&near, &far, &none], [&far, &near, &none], [&none, &far, &near], [&far, &none, &near]] {
            assert_eq!(of(&blocks), TimeRange::Unknown);
        }
    }

    #[test]
    fn ranges_survive_the_way_to_the_catalog() {
        for range in [TimeRange::Empty, TimeRange::Known(i64::MIN, i64::MAX), TimeRange::Unknown] {
            let text = serde_json::to_string(&range).unwrap();
            assert_eq!(serde_json::from_str::<TimeRange>(&text).unwrap(), range);
        }
    }
}
