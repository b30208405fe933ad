//! Statistics of one block: bounds and null counts of each column, computed from Arrow arrays.
//!
//! [`super::json`] has the text form. What is collected here is more than the storage format's reference lists; the extra part
//! goes into a key of its own that other readers ignore.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericStringArray, OffsetSizeTrait, PrimitiveArray, RecordBatch,
};
use arrow::compute::{max, max_boolean, min, min_boolean};
use arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// Strings longer than this many bytes have no exact bounds (the storage format's cap, §1.3 of its reference).
pub const STRING_MINMAX_CAP: usize = 256;

/// Bytes kept of a bound of a column that exceeds [`STRING_MINMAX_CAP`].
pub const TRUNCATED_BOUND: usize = 64;

/// Bounds of the non-null values of a column, in the value domain of its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Bounds {
    /// There is no non-null value.
    Empty,
    /// There are non-null values, and nothing is known of them.
    Unknown,
    /// Nanoseconds since the Unix epoch.
    Timestamp(i64, i64),
    /// Signed and unsigned integers up to 64 bits.
    Int(i128, i128),
    /// Bytewise bounds. A missing maximum is unbounded.
    Str {
        /// Smallest value, or a prefix of it.
        min: String,
        /// Largest value, or something larger than it.
        max: Option<String>,
        /// `min` is a value.
        min_exact: bool,
        /// `max` is a value.
        max_exact: bool,
    },
    /// Bounds of the values that are not NaN (`None` if all are), and how many are NaN.
    Float {
        /// Smallest and largest value that is not NaN.
        range: Option<(f64, f64)>,
        /// NaN values.
        nans: u64,
    },
    /// Days since the Unix epoch.
    Date(i64, i64),
    /// Nanoseconds since midnight.
    Time(i64, i64),
    /// FALSE < TRUE.
    Bool(bool, bool),
    /// Unscaled values at the scale of the column's type.
    Decimal(i128, i128, i8),
}

/// Statistics of one column of one block.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnBlockStats {
    /// Bounds of the non-null values.
    pub bounds: Bounds,
    /// NULL values.
    pub nulls: u64,
}

/// Statistics of one block, columns in schema order. `None` where even the nulls are not known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BlockStats {
    /// Rows of the block.
    pub row_count: u64,
    /// One entry per column.
    pub columns: Vec<Option<ColumnBlockStats>>,
}

impl BlockStats {
    /// Computes the statistics of a batch.
    pub fn of(batch: &RecordBatch) -> Self {
        Self::of_columns(batch.num_rows(), batch.columns())
    }

    /// Computes the statistics of columns of `rows` rows each.
    pub fn of_columns(rows: usize, columns: &[ArrayRef]) -> Self {
        let row_count = u64::try_from(rows).unwrap_or(u64::MAX);
        Self { row_count, columns: columns.iter().map(column_stats).collect() }
    }
}

/// Statistics of one column.
pub fn column_stats(array: &ArrayRef) -> Option<ColumnBlockStats> {
    let nulls = match array.data_type() {
        // What SQL calls NULL in these depends on the child or run: leave it unknown.
        DataType::Union(..) | DataType::RunEndEncoded(..) => return None,
        DataType::Null => array.len(),
        DataType::Dictionary(..) => array.logical_null_count(),
        _ => array.null_count(),
    };
    let bounds = if nulls == array.len() { Bounds::Empty } else { bounds_of(array) };
    Some(ColumnBlockStats { bounds, nulls: u64::try_from(nulls).ok()? })
}

fn bounds_of(array: &ArrayRef) -> Bounds {
    use DataType::{
        Boolean, Date32, Decimal32, Decimal64, Decimal128, Dictionary, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeUtf8, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    match array.data_type() {
        Int8 => ints::<Int8Type>(array),
        Int16 => ints::<Int16Type>(array),
        Int32 => ints::<Int32Type>(array),
        Int64 => ints::<Int64Type>(array),
        UInt8 => ints::<UInt8Type>(array),
        UInt16 => ints::<UInt16Type>(array),
        UInt32 => ints::<UInt32Type>(array),
        UInt64 => ints::<UInt64Type>(array),
        Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(array, 1_000_000_000),
        Timestamp(TimeUnit::Millisecond, _) => timestamps::<TimestampMillisecondType>(array, 1_000_000),
        Timestamp(TimeUnit::Microsecond, _) => timestamps::<TimestampMicrosecondType>(array, 1000),
        Timestamp(TimeUnit::Nanosecond, _) => timestamps::<TimestampNanosecondType>(array, 1),
        Date32 => range::<Date32Type>(array).map_or(Bounds::Unknown, |(lo, hi)| Bounds::Date(lo.into(), hi.into())),
        Time32(TimeUnit::Second) => times(range::<Time32SecondType>(array), 1_000_000_000),
        Time32(TimeUnit::Millisecond) => times(range::<Time32MillisecondType>(array), 1_000_000),
        Time64(TimeUnit::Microsecond) => times(range::<Time64MicrosecondType>(array), 1000),
        Time64(TimeUnit::Nanosecond) => times(range::<Time64NanosecondType>(array), 1),
        Boolean => {
            let values = array.as_boolean();
            min_boolean(values).zip(max_boolean(values)).map_or(Bounds::Unknown, |(lo, hi)| Bounds::Bool(lo, hi))
        }
        Float32 => floats(array.as_primitive::<Float32Type>(), f64::from),
        Float64 => floats(array.as_primitive::<Float64Type>(), |v| v),
        Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale),
        Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale),
        Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale),
        Utf8 => text_bounds(array.as_string::<i32>()),
        LargeUtf8 => text_bounds(array.as_string::<i64>()),
        Utf8View => {
            let mut fold = TextFold::default();
            array.as_string_view().iter().flatten().for_each(|v| fold.push(v.as_bytes()));
            fold.bounds()
        }
        Dictionary(_, values) if values.is_string() => dictionary_bounds(array),
        _ => Bounds::Unknown,
    }
}

fn range<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<(T::Native, T::Native)>
where
    T::Native: PartialOrd,
{
    let values = array.as_primitive_opt::<T>()?;
    min(values).zip(max(values))
}

fn ints<T: ArrowPrimitiveType>(array: &ArrayRef) -> Bounds
where
    T::Native: PartialOrd + Into<i128>,
{
    range::<T>(array).map_or(Bounds::Unknown, |(lo, hi)| Bounds::Int(lo.into(), hi.into()))
}

fn timestamps<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, nanos: i64) -> Bounds {
    let nanos = |v: i64| v.checked_mul(nanos);
    range::<T>(array).and_then(|(lo, hi)| Some(Bounds::Timestamp(nanos(lo)?, nanos(hi)?))).unwrap_or(Bounds::Unknown)
}

fn times<N: Into<i64>>(range: Option<(N, N)>, nanos: i64) -> Bounds {
    let nanos = |v: N| v.into().checked_mul(nanos);
    range.and_then(|(lo, hi)| Some(Bounds::Time(nanos(lo)?, nanos(hi)?))).unwrap_or(Bounds::Unknown)
}

fn decimals<T: ArrowPrimitiveType>(array: &ArrayRef, scale: i8) -> Bounds
where
    T::Native: PartialOrd + Into<i128>,
{
    range::<T>(array).map_or(Bounds::Unknown, |(lo, hi)| Bounds::Decimal(lo.into(), hi.into(), scale))
}

/// NaN is left out of the range and counted; `f64::min` and `max` ignore it without a branch.
fn floats<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, widen: impl Fn(T::Native) -> f64) -> Bounds {
    let (mut lo, mut hi, mut nans) = (f64::INFINITY, f64::NEG_INFINITY, 0u64);
    let mut push = |v: f64| {
        lo = lo.min(v);
        hi = hi.max(v);
        nans += u64::from(v.is_nan());
    };
    match array.nulls().filter(|n| n.null_count() > 0) {
        None => array.values().iter().for_each(|v| push(widen(*v))),
        Some(_) => array.iter().flatten().for_each(|v| push(widen(v))),
    }
    let values = u64::try_from(array.len() - array.null_count()).unwrap_or(u64::MAX);
    Bounds::Float { range: (nans < values).then_some((lo, hi)), nans }
}

/// Smallest and largest of the values pushed. The first eight bytes, as a big-endian number padded with zeros, order like the
/// bytes themselves, so most values are ruled out by two integer comparisons.
#[derive(Default)]
struct TextFold<'a> {
    min: Option<(u64, &'a [u8])>,
    max: Option<(u64, &'a [u8])>,
    longest: usize,
}

impl<'a> TextFold<'a> {
    fn push(&mut self, value: &'a [u8]) {
        let prefix = match value.first_chunk::<8>() {
            Some(head) => u64::from_be_bytes(*head),
            None => {
                let mut head = [0u8; 8];
                head.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
                u64::from_be_bytes(head)
            }
        };
        self.longest = self.longest.max(value.len());
        match self.min {
            Some((least, _)) if prefix > least => {}
            Some((least, bytes)) if prefix == least && value >= bytes => {}
            _ => self.min = Some((prefix, value)),
        }
        match self.max {
            Some((most, _)) if prefix < most => {}
            Some((most, bytes)) if prefix == most && value <= bytes => {}
            _ => self.max = Some((prefix, value)),
        }
    }

    fn bounds(&self) -> Bounds {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let (Some((_, min)), Some((_, max))) = (self.min, self.max) else { return Bounds::Unknown };
        let (Some(min), Some(max)) = (text(min), text(max)) else { return Bounds::Unknown };
        if self.longest <= STRING_MINMAX_CAP {
            return Bounds::Str { min, max: Some(max), min_exact: true, max_exact: true };
        }
        let (lower, upper) = (truncate(&min), truncate(&max));
        let (min_exact, max_exact) = (lower.len() == min.len(), upper.len() == max.len());
        Bounds::Str {
            min: lower.to_owned(),
            max: if max_exact { Some(max) } else { successor(upper) },
            min_exact,
            max_exact,
        }
    }
}

fn text_bounds<O: OffsetSizeTrait>(array: &GenericStringArray<O>) -> Bounds {
    let mut fold = TextFold::default();
    match array.nulls().filter(|n| n.null_count() > 0) {
        Some(_) => array.iter().flatten().for_each(|v| fold.push(v.as_bytes())),
        None => {
            let data = array.value_data();
            for pair in array.value_offsets().windows(2) {
                if let [start, end] = pair
                    && let Some(value) = data.get(start.as_usize()..end.as_usize())
                {
                    fold.push(value);
                }
            }
        }
    }
    fold.bounds()
}

/// Bounds over the dictionary values that some row uses.
fn dictionary_bounds(array: &ArrayRef) -> Bounds {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Bounds::Unknown };
    let used = used_values(array);
    let mut fold = TextFold::default();
    let values = dictionary.values();
    for (index, used) in used.iter().enumerate() {
        if *used && let Some(value) = text_at(values, index) {
            fold.push(value.as_bytes());
        }
    }
    fold.bounds()
}

/// Which values of a dictionary array some row refers to.
pub(super) fn used_values(array: &ArrayRef) -> Vec<bool> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Vec::new() };
    let mut used = vec![false; dictionary.values().len()];
    if used.is_empty() {
        return used;
    }
    let keys = dictionary.keys();
    for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
        if keys.is_valid(row)
            && let Some(slot) = used.get_mut(key)
        {
            *slot = true;
        }
    }
    used
}

/// The text at `index` of a string array of any kind; `None` for NULL and for other types.
pub(super) fn text_at(array: &ArrayRef, index: usize) -> Option<&str> {
    if array.is_null(index) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(index)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(index)),
        DataType::Utf8View => Some(array.as_string_view().value(index)),
        _ => None,
    }
}

/// The longest prefix of at most [`TRUNCATED_BOUND`] bytes that ends at a character: a lower bound of everything it begins.
fn truncate(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TRUNCATED_BOUND)).unwrap_or(text)
}

/// The smallest text of at most as many characters that is greater than everything beginning with `prefix`. UTF-8 orders
/// bytewise as its code points do, so the last code point that has a successor is replaced by it. `None` if none has one.
fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match u32::from(last) {
            0xD7FF => Some('\u{E000}'),
            code => char::from_u32(code.checked_add(1)?),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int32Array, NullArray, StringArray,
        StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    };

    use super::*;

    fn stats(array: impl Array + 'static) -> ColumnBlockStats {
        let array: ArrayRef = Arc::new(array);
        column_stats(&array).unwrap()
    }

    fn text(min: &str, max: Option<&str>, min_exact: bool, max_exact: bool) -> Bounds {
        Bounds::Str { min: min.into(), max: max.map(Into::into), min_exact, max_exact }
    }

    #[test]
    fn bounds_by_type() {
        let i = stats(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)]));
        assert_eq!(i, ColumnBlockStats { bounds: Bounds::Int(i32::MIN.into(), i32::MAX.into()), nulls: 1 });
        assert_eq!(stats(UInt64Array::from(vec![0, u64::MAX])).bounds, Bounds::Int(0, u64::MAX.into()));
        assert_eq!(stats(TimestampNanosecondArray::from(vec![i64::MIN, 5])).bounds, Bounds::Timestamp(i64::MIN, 5));
        assert_eq!(stats(TimestampMicrosecondArray::from(vec![-1, 5])).bounds, Bounds::Timestamp(-1000, 5000));
        assert_eq!(stats(TimestampMicrosecondArray::from(vec![-1, i64::MAX])).bounds, Bounds::Unknown);
        assert_eq!(
            stats(Time64MicrosecondArray::from(vec![1, 86_399_999_999])).bounds,
            Bounds::Time(1000, 86_399_999_999_000)
        );
        assert_eq!(stats(BooleanArray::from(vec![Some(true), None])).bounds, Bounds::Bool(true, true));
        let d = Decimal128Array::from(vec![-5, 7]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(stats(d).bounds, Bounds::Decimal(-5, 7, 2));
        assert_eq!(stats(NullArray::new(3)), ColumnBlockStats { bounds: Bounds::Empty, nulls: 3 });
        assert_eq!(stats(Int32Array::from(vec![None, None])), ColumnBlockStats { bounds: Bounds::Empty, nulls: 2 });
        assert_eq!(stats(Int32Array::from(Vec::<i32>::new())), ColumnBlockStats { bounds: Bounds::Empty, nulls: 0 });
    }

    #[test]
    fn floats_leave_nan_out_and_count_it() {
        let nan = stats(Float64Array::from(vec![Some(f64::NAN), None, Some(1.5), Some(f64::NEG_INFINITY)]));
        assert_eq!(nan.bounds, Bounds::Float { range: Some((f64::NEG_INFINITY, 1.5)), nans: 1 });
        let all = stats(Float64Array::from(vec![f64::NAN, f64::NAN]));
        assert_eq!(all.bounds, Bounds::Float { range: None, nans: 2 });
    }

    #[test]
    fn strings_are_exact_up_to_the_cap() {
        let longest = "a".repeat(256);
        let exact = stats(StringArray::from(vec!["", longest.as_str(), "é\u{212a}"]));
        assert_eq!(exact.bounds, text("", Some("é\u{212a}"), true, true));
        let over = "b".repeat(257);
        let capped = stats(StringArray::from(vec![Some(over.as_str()), Some("x"), None]));
        assert_eq!(capped.bounds, text(&"b".repeat(64), Some("x"), false, true));
        let capped = stats(StringArray::from(vec![over.as_str(), "a"]));
        let upper = format!("{}c", "b".repeat(63));
        assert_eq!(capped.bounds, text("a", Some(&upper), true, false));
        let views = stats(StringViewArray::from(vec![Some("z"), None, Some("a longer string than inline")]));
        assert_eq!(views.bounds, text("a longer string than inline", Some("z"), true, true));
    }

    #[test]
    fn truncation_keeps_characters_whole_and_successors_are_larger() {
        let value = "é".repeat(200);
        assert_eq!(truncate(&value), "é".repeat(32));
        let odd = format!("x{value}");
        assert_eq!(truncate(&odd), format!("x{}", "é".repeat(31)));
        assert_eq!(successor("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(successor("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(successor("\u{7f}").as_deref(), Some("\u{80}"));
        assert_eq!(successor("\u{10FFFF}\u{10FFFF}"), None);
        assert_eq!(successor(""), None);
        for prefix in ["a", "az", "\u{7f}", "\u{7ff}", "\u{ffff}", "\u{d7ff}"] {
            let next = successor(prefix).unwrap();
            assert!(next.as_bytes() > format!("{prefix}\u{10FFFF}\u{10FFFF}").as_bytes(), "{prefix:?}");
        }
    }

    #[test]
    fn prefixes_order_like_the_values() {
        let values =
            ["", "\0", "\0\0", "a", "a\0", "a\0b", "aaaaaaaa", "aaaaaaaaa", "aaaaaaab", "b", "é", "\u{10FFFF}"];
        for a in values {
            for b in values {
                let bounds = stats(StringArray::from(vec![a, b])).bounds;
                assert_eq!(bounds, text(a.min(b), Some(a.max(b)), true, true), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn dictionaries_count_only_what_rows_use() {
        let values = Arc::new(StringArray::from(vec![Some("a"), Some("m"), Some("z"), None]));
        let keys = Int32Array::from(vec![Some(1), None, Some(1), Some(3)]);
        let stats = stats(DictionaryArray::new(keys, values));
        assert_eq!(stats, ColumnBlockStats { bounds: text("m", Some("m"), true, true), nulls: 2 });
    }
}
