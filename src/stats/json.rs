//! The text form of block statistics: the JSON array at the end of a TLM v2 extent.
//!
//! `cols` is exactly what the storage format's reference (§1.3) defines: kinds `ts` (nanoseconds), `i64` and `str`, for the types
//! listed there and no others, because a reader of that format refuses an extent with a kind it does not know. Everything else is
//! in `ext`, a second key of the same per-block object, which such a reader ignores:
//!
//! | `k` | types | `min`, `max` |
//! |---|---|---|
//! | `i64` | 8 and 16-bit and unsigned integers | JSON integers (64-bit unsigned included) |
//! | `ts` | timestamps of other units than nanoseconds | nanoseconds, absent if they do not fit 64 bits |
//! | `date`, `time` | dates; times of day | days; nanoseconds |
//! | `bool` | booleans | `true`, `false` |
//! | `f64` | floats | decimal text in shortest round-trip form, `inf`, `-inf`; NaN is counted in `nans` |
//! | `dec` | decimals up to 128 bits | unscaled decimal text, with the `scale` |
//! | `str` | strings of which one is longer than 256 bytes, dictionaries | `max` absent if unbounded; `min_exact`, `max_exact` say `false` for a cut bound |
//! | `null` | any other type, bounds that do not fit, and columns without a non-null value (`nulls` tells them apart) | absent |
//!
//! Every entry has `nulls`. Text is used where a JSON number may be read back inexactly.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::block::{BlockStats, Bounds, ColumnBlockStats};
use crate::predicate::{ColumnStats, Scalar};

/// Appends the JSON object of one block to `out`.
pub fn write_block(out: &mut String, schema: &Schema, stats: &BlockStats) {
    // Names that occur twice cannot be told apart by a reader: say nothing about them.
    let mut named: BTreeMap<&str, Option<(&DataType, &ColumnBlockStats)>> = BTreeMap::new();
    for (field, column) in schema.fields().iter().zip(&stats.columns) {
        let entry = column.as_ref().map(|c| (field.data_type(), c));
        named.entry(field.name()).and_modify(|e| *e = None).or_insert(entry);
    }
    let _ = write!(out, "{{\"row_count\":{},\"cols\":{{", stats.row_count);
    let mut ext = String::new();
    let mut first = true;
    for (name, entry) in named {
        let Some((data_type, column)) = entry else { continue };
        if let Some(text) = reference_entry(data_type, column) {
            separate(out, &mut first);
            let _ = write!(out, "{}:{text}", quote(name));
        } else {
            if !ext.is_empty() {
                ext.push(',');
            }
            let _ = write!(ext, "{}:{}", quote(name), extended_entry(column));
        }
    }
    out.push('}');
    if !ext.is_empty() {
        let _ = write!(out, ",\"ext\":{{{ext}}}");
    }
    out.push('}');
}

fn separate(out: &mut String, first: &mut bool) {
    if !std::mem::take(first) {
        out.push(',');
    }
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// The entry as the reference defines it, for the types it lists.
fn reference_entry(data_type: &DataType, column: &ColumnBlockStats) -> Option<String> {
    let nulls = column.nulls;
    match (data_type, &column.bounds) {
        (DataType::Timestamp(TimeUnit::Nanosecond, _), Bounds::Timestamp(min, max)) => {
            Some(format!("{{\"k\":\"ts\",\"min\":{min},\"max\":{max},\"nulls\":{nulls}}}"))
        }
        (DataType::Int32 | DataType::Int64, Bounds::Int(min, max)) => {
            Some(format!("{{\"k\":\"i64\",\"min\":{min},\"max\":{max},\"nulls\":{nulls}}}"))
        }
        (
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View,
            Bounds::Str { min, max: Some(max), min_exact: true, max_exact: true },
        ) if min.len() <= super::block::STRING_MINMAX_CAP && max.len() <= super::block::STRING_MINMAX_CAP => {
            Some(format!("{{\"k\":\"str\",\"min\":{},\"max\":{},\"nulls\":{nulls}}}", quote(min), quote(max)))
        }
        _ => None,
    }
}

fn extended_entry(column: &ColumnBlockStats) -> String {
    let mut body = match &column.bounds {
        Bounds::Empty | Bounds::Unknown => "\"k\":\"null\"".to_owned(),
        Bounds::Timestamp(min, max) => format!("\"k\":\"ts\",\"min\":{min},\"max\":{max}"),
        Bounds::Int(min, max) => format!("\"k\":\"i64\",\"min\":{min},\"max\":{max}"),
        Bounds::Date(min, max) => format!("\"k\":\"date\",\"min\":{min},\"max\":{max}"),
        Bounds::Time(min, max) => format!("\"k\":\"time\",\"min\":{min},\"max\":{max}"),
        Bounds::Bool(min, max) => format!("\"k\":\"bool\",\"min\":{min},\"max\":{max}"),
        Bounds::Float { range: Some((min, max)), nans } => {
            format!("\"k\":\"f64\",\"min\":\"{min:?}\",\"max\":\"{max:?}\",\"nans\":{nans}")
        }
        Bounds::Float { range: None, nans } => format!("\"k\":\"f64\",\"nans\":{nans}"),
        Bounds::Decimal(min, max, scale) => {
            format!("\"k\":\"dec\",\"min\":\"{min}\",\"max\":\"{max}\",\"scale\":{scale}")
        }
        Bounds::Str { min, max, min_exact, max_exact } => {
            let mut text = format!("\"k\":\"str\",\"min\":{}", quote(min));
            if let Some(max) = max {
                let _ = write!(text, ",\"max\":{}", quote(max));
            }
            if !min_exact {
                text.push_str(",\"min_exact\":false");
            }
            if !max_exact {
                text.push_str(",\"max_exact\":false");
            }
            text
        }
    };
    let _ = write!(body, ",\"nulls\":{}", column.nulls);
    format!("{{{body}}}")
}

/// One block as parsed, before its columns are matched with the schema.
#[derive(Debug, Deserialize)]
struct RawBlock {
    row_count: u64,
    #[serde(default)]
    cols: Map<String, Value>,
    #[serde(default)]
    ext: Map<String, Value>,
}

/// What one block's statistics say about the columns of a schema: by column name, ready to answer predicates.
pub type BlockColumns = BTreeMap<String, ColumnStats>;

/// Parses the statistics of an extent whose blocks have `block_rows` rows. Unknown keys and kinds are ignored, and so is an entry
/// that does not make sense or does not fit the type of its column.
///
/// # Errors
/// The reason why the statistics as a whole cannot be trusted: they are not JSON of the right shape, or describe other blocks
/// than the file has.
pub fn parse(json: &[u8], schema: &Schema, block_rows: &[u64]) -> Result<Vec<BlockColumns>, String> {
    let blocks: Vec<RawBlock> =
        serde_json::from_slice(json).map_err(|e| format!("the statistics are not valid: {e}"))?;
    if blocks.len() != block_rows.len() {
        return Err(format!("{} blocks but {} statistics entries", block_rows.len(), blocks.len()));
    }
    if let Some((i, (block, rows))) =
        blocks.iter().zip(block_rows).enumerate().find(|(_, (block, rows))| block.row_count != **rows)
    {
        return Err(format!("block {i} has {rows} rows but its statistics say {}", block.row_count));
    }
    let mut types: BTreeMap<&str, Option<&DataType>> = BTreeMap::new();
    for field in schema.fields() {
        types.entry(field.name()).and_modify(|t| *t = None).or_insert(Some(field.data_type()));
    }
    Ok(blocks
        .iter()
        .map(|block| {
            let mut columns = BlockColumns::new();
            for (entries, extended) in [(&block.ext, true), (&block.cols, false)] {
                for (name, entry) in entries {
                    if let Some(Some(data_type)) = types.get(name.as_str())
                        && let Some(stats) = column_entry(entry, data_type, extended, block.row_count)
                    {
                        columns.insert(name.clone(), stats);
                    }
                }
            }
            columns
        })
        .collect())
}

/// One entry, or `None` if nothing can be learned from it.
fn column_entry(entry: &Value, data_type: &DataType, extended: bool, rows: u64) -> Option<ColumnStats> {
    let entry = entry.as_object()?;
    let kind = entry.get("k")?.as_str()?;
    let nulls = match entry.get("nulls") {
        None => None,
        Some(nulls) => Some(nulls.as_u64().filter(|n| *n <= rows)?),
    };
    if !extended && !matches!(kind, "ts" | "i64" | "str") {
        return None;
    }
    let is_float = matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64);
    let mut stats =
        ColumnStats { null_count: nulls, nan_count: if is_float { None } else { Some(0) }, ..ColumnStats::default() };
    if kind == "null" {
        return Some(stats);
    }
    let bound = |name: &str| match entry.get(name) {
        None => Some(None),
        Some(value) => scalar(kind, value, entry, data_type).map(Some),
    };
    (stats.min, stats.max) = (bound("min")?, bound("max")?);
    if kind == "f64" {
        stats.nan_count = match entry.get("nans") {
            None => None,
            Some(nans) => Some(nans.as_u64().filter(|n| n.saturating_add(nulls.unwrap_or(0)) <= rows)?),
        };
    }
    let reversed = match (&stats.min, &stats.max) {
        (Some(min), Some(max)) => is_greater(min, max),
        _ => false,
    };
    // A column of nulls only has no bounds.
    let impossible = nulls == Some(rows) && (stats.min.is_some() || stats.max.is_some());
    if reversed || impossible {
        return None;
    }
    let exact = |name: &str| entry.get(name).is_none_or(|v| v.as_bool() == Some(true));
    stats.min_exact = stats.min.is_some() && exact("min_exact");
    stats.max_exact = stats.max.is_some() && exact("max_exact");
    Some(stats)
}

/// A bound, if its kind fits the type of the column.
fn scalar(kind: &str, value: &Value, entry: &Map<String, Value>, data_type: &DataType) -> Option<Scalar> {
    let whole = || value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match kind {
        "ts" => matches!(data_type, DataType::Timestamp(..))
            .then(|| value.as_i64().map(|v| Scalar::TimestampNs(v.into())))?,
        "i64" => data_type.is_integer().then(|| whole().map(Scalar::Int))?,
        "date" => matches!(data_type, DataType::Date32).then(|| value.as_i64().map(Scalar::Date))?,
        "time" => matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
            .then(|| value.as_i64().map(Scalar::TimeNs))?,
        "bool" => matches!(data_type, DataType::Boolean).then(|| value.as_bool().map(Scalar::Bool))?,
        "str" => is_text(data_type).then(|| value.as_str().map(|v| Scalar::Str(v.to_owned())))?,
        "f64" => {
            let float = value.as_str()?.parse::<f64>().ok().filter(|v| !v.is_nan())?;
            matches!(data_type, DataType::Float32 | DataType::Float64).then_some(Scalar::Float(float))
        }
        "dec" => {
            let (DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale)) =
                data_type
            else {
                return None;
            };
            if entry.get("scale")?.as_i64()? != i64::from(*scale) {
                return None;
            }
            let value = value.as_str()?.parse::<i128>().ok()?;
            // more digits than any DECIMAL has are shown as DOUBLE, rounded: the bounds are not of what is compared
            let scale = u8::try_from(*scale).ok().filter(|scale| *scale <= 38)?;
            Some(Scalar::Decimal { value, scale })
        }
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string(),
    }
}

/// Whether two bounds of the same entry are the wrong way round.
fn is_greater(min: &Scalar, max: &Scalar) -> bool {
    match (min, max) {
        (Scalar::Int(a), Scalar::Int(b)) | (Scalar::TimestampNs(a), Scalar::TimestampNs(b)) => a > b,
        (Scalar::Decimal { value: a, .. }, Scalar::Decimal { value: b, .. }) => a > b,
        (Scalar::Date(a), Scalar::Date(b)) | (Scalar::TimeNs(a), Scalar::TimeNs(b)) => a > b,
        (Scalar::Bool(a), Scalar::Bool(b)) => a & !b,
        (Scalar::Str(a), Scalar::Str(b)) => a > b,
        (Scalar::Float(a), Scalar::Float(b)) => a > b,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array,
        RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
    };

    use super::*;

    fn batch() -> RecordBatch {
        let long = "x".repeat(300);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("at", Arc::new(TimestampNanosecondArray::from(vec![Some(7), None]))),
            ("at_us", Arc::new(TimestampMicrosecondArray::from(vec![7, -7]))),
            ("b\"in", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"x"), None]))),
            ("d", Arc::new(Decimal128Array::from(vec![1, -5]).with_precision_and_scale(5, 1).unwrap())),
            ("day", Arc::new(Date32Array::from(vec![1, 2]))),
            ("f", Arc::new(Float64Array::from(vec![f64::NAN, 0.1]))),
            ("flag", Arc::new(BooleanArray::from(vec![true, false]))),
            ("i8", Arc::new(Int8Array::from(vec![-1, 3]))),
            ("n32", Arc::new(Int32Array::from(vec![-1, 3]))),
            ("none", Arc::new(Int32Array::from(vec![None, None]))),
            ("s", Arc::new(StringArray::from(vec!["a\n", "é"]))),
            ("s_long", Arc::new(StringArray::from(vec![long.as_str(), "a"]))),
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
    }

    fn text(batch: &RecordBatch) -> String {
        let mut out = String::new();
        write_block(&mut out, &batch.schema(), &BlockStats::of(batch));
        out
    }

    #[test]
    fn the_reference_part_has_its_exact_shape() {
        let json = text(&batch());
        let expected = concat!(
            r#"{"row_count":2,"cols":{"at":{"k":"ts","min":7,"max":7,"nulls":1},"#,
            r#""n32":{"k":"i64","min":-1,"max":3,"nulls":0},"s":{"k":"str","min":"a\n","max":"é","nulls":0}},"ext":{"#
        );
        assert!(json.starts_with(expected), "{json}");
        assert!(json.contains(r#""b\"in":{"k":"null","nulls":1}"#), "{json}");
        assert!(json.contains(r#""f":{"k":"f64","min":"0.1","max":"0.1","nans":1,"nulls":0}"#), "{json}");
        assert!(json.contains(r#""none":{"k":"null","nulls":2}"#), "{json}");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let batch = batch();
        let json = format!("[{}]", text(&batch));
        let parsed = parse(json.as_bytes(), &batch.schema(), &[2]).unwrap();
        let columns = &parsed[0];
        let range = |name: &str| {
            let stats = columns.get(name).unwrap();
            (stats.min.clone().unwrap(), stats.max.clone().unwrap())
        };
        assert_eq!(range("at"), (Scalar::TimestampNs(7), Scalar::TimestampNs(7)));
        assert_eq!(range("at_us"), (Scalar::TimestampNs(-7000), Scalar::TimestampNs(7000)));
        assert_eq!(range("d"), (Scalar::Decimal { value: -5, scale: 1 }, Scalar::Decimal { value: 1, scale: 1 }));
        assert_eq!(range("day"), (Scalar::Date(1), Scalar::Date(2)));
        assert_eq!(range("f"), (Scalar::Float(0.1), Scalar::Float(0.1)));
        assert_eq!(columns["f"].nan_count, Some(1));
        assert_eq!(range("flag"), (Scalar::Bool(false), Scalar::Bool(true)));
        assert_eq!(range("u"), (Scalar::Int(0), Scalar::Int(u64::MAX.into())));
        assert_eq!(range("s"), (Scalar::Str("a\n".into()), Scalar::Str("é".into())));
        assert!(columns["s"].min_exact && columns["s"].max_exact);
        assert_eq!(range("s_long"), (Scalar::Str("a".into()), Scalar::Str(format!("{}y", "x".repeat(63)))));
        assert!(columns["s_long"].min_exact && !columns["s_long"].max_exact);
        assert_eq!(columns["none"].null_count, Some(2));
        assert_eq!(columns["b\"in"].null_count, Some(1));
    }

    #[test]
    fn statistics_of_other_blocks_are_rejected_as_a_whole() {
        let batch = batch();
        let schema = batch.schema();
        let good = text(&batch);
        let cases: &[(String, &[u64], &str)] = &[
            (format!("[{good}]"), &[2, 2], "2 blocks but 1"),
            (format!("[{good}]"), &[3], "block 0 has 3 rows but its statistics say 2"),
            ("[{}]".into(), &[2], "row_count"),
            ("{}".into(), &[2], "not valid"),
            ("[".into(), &[2], "not valid"),
            (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), &[2], "not valid"),
            ("[{\"row_count\":-2}]".into(), &[2], "not valid"),
            ("[{\"row_count\":2,\"cols\":[]}]".into(), &[2], "not valid"),
        ];
        for (json, rows, needle) in cases {
            let error = parse(json.as_bytes(), &schema, rows).unwrap_err();
            assert!(error.contains(needle), "{error}");
        }
    }

    #[test]
    fn nonsense_about_one_column_is_ignored() {
        let batch = batch();
        let entries: &[(&str, &str)] = &[
            ("n32", r#"{"k":"i64","min":3,"max":-1,"nulls":0}"#),
            ("n32", r#"{"k":"i64","min":-1,"max":3,"nulls":3}"#),
            ("n32", r#"{"k":"i64","min":-1,"max":3,"nulls":2}"#),
            ("n32", r#"{"k":"i64","min":-1,"max":3,"nulls":-1}"#),
            ("n32", r#"{"k":"i64","min":"a","max":3,"nulls":0}"#),
            ("n32", r#"{"k":"i64","min":0.5,"max":3,"nulls":0}"#),
            ("n32", r#"{"k":"str","min":"a","max":"b","nulls":0}"#),
            ("n32", r#"{"k":"f64","min":"0","max":"3","nulls":0}"#),
            ("n32", r#"{"k":"new","min":0,"max":3,"nulls":0}"#),
            ("n32", r#"{"min":0,"max":3,"nulls":0}"#),
            ("n32", "17"),
            ("s", r#"{"k":"i64","min":0,"max":3,"nulls":0}"#),
            ("at", r#"{"k":"i64","min":0,"max":3,"nulls":0}"#),
            ("f", r#"{"k":"f64","min":"0","max":"1","nulls":0}"#),
            ("missing", r#"{"k":"i64","min":0,"max":3,"nulls":0}"#),
        ];
        for (name, entry) in entries {
            let json = format!("[{{\"row_count\":2,\"cols\":{{\"{name}\":{entry}}},\"other\":1}}]");
            let parsed = parse(json.as_bytes(), &batch.schema(), &[2]).unwrap();
            assert!(parsed[0].is_empty(), "{entry} gave {:?}", parsed[0]);
        }
        let json = r#"[{"row_count":2,"ext":{"f":{"k":"f64","min":"NaN","max":"1","nulls":0},
            "d":{"k":"dec","min":"1","max":"2","scale":2,"nulls":0}}}]"#;
        assert!(parse(json.as_bytes(), &batch.schema(), &[2]).unwrap()[0].is_empty());
        let without_nulls = r#"[{"row_count":2,"cols":{"n32":{"k":"i64","min":-1,"max":3}}}]"#;
        assert_eq!(parse(without_nulls.as_bytes(), &batch.schema(), &[2]).unwrap()[0]["n32"].null_count, None);
    }

    #[test]
    fn a_name_that_occurs_twice_has_no_statistics() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let field = arrow::datatypes::Field::new("a", DataType::Int32, true);
        let schema = Arc::new(Schema::new(vec![field.clone(), field]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&column), column]).unwrap();
        assert_eq!(text(&batch), r#"{"row_count":1,"cols":{}}"#);
        let json = r#"[{"row_count":1,"cols":{"a":{"k":"i64","min":1,"max":1,"nulls":0}}}]"#;
        assert!(parse(json.as_bytes(), &schema, &[1]).unwrap()[0].is_empty());
    }
}
