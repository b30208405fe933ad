//! Evidence of the rows just decoded: within a block whose rows are in some order, most runs of rows are ruled out, or proven, by
//! their smallest and largest value, which cost far less to find than the engine's filters cost to evaluate. Text is searched as a
//! whole, row ends and all: where a needle is in none of the bytes it is in no row.

use std::cell::OnceCell;

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use memchr::memmem;

use super::engine::is_converted;
use crate::predicate::eval::evaluate;
use crate::predicate::{BlockPredicate, ColumnStats, Evidence, Outcomes, Scalar};
use crate::stats::block::{Bounds, column_stats};

/// What is known of the rows of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// No row satisfies the predicate.
    None = 0,
    /// Some may.
    Some = 1,
    /// Every row satisfies it.
    All = 2,
}

struct Window<'a> {
    file: &'a SchemaRef,
    rows: usize,
    columns: Vec<(&'a str, ArrayRef, OnceCell<Option<ColumnStats>>)>,
}

impl Evidence for Window<'_> {
    fn row_count(&self) -> Option<u64> {
        u64::try_from(self.rows).ok()
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        let (_, array, stats) = self.columns.iter().find(|(column, _, _)| *column == name)?;
        stats.get_or_init(|| stats_of(array)).clone()
    }

    fn has_column(&self, name: &str) -> bool {
        self.file.column_with_name(name).is_some()
    }

    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        self.may_hold_text(name, value.as_str()?)
    }

    fn may_hold_text(&self, name: &str, piece: &str) -> Option<bool> {
        let (_, array, _) = self.columns.iter().find(|(column, _, _)| *column == name)?;
        Some(memmem::find(text_of(array)?, piece.as_bytes()).is_some())
    }
}

/// A dictionary with more text than this is not searched for every window again.
const MAX_DICTIONARY: usize = 1 << 16;

/// All bytes of a text column, in which the rows lie one after the other.
fn text_of(array: &ArrayRef) -> Option<&[u8]> {
    fn bytes<O: OffsetSizeTrait>(text: &GenericStringArray<O>) -> Option<&[u8]> {
        let (first, last) = (text.value_offsets().first()?, text.value_offsets().last()?);
        text.value_data().get(first.as_usize()..last.as_usize())
    }
    match array.data_type() {
        DataType::Utf8 => bytes(array.as_string_opt::<i32>()?),
        DataType::LargeUtf8 => bytes(array.as_string_opt::<i64>()?),
        DataType::Dictionary(_, _) => {
            let values = array.as_any_dictionary_opt()?.values().as_string_opt::<i32>()?;
            bytes(values).filter(|text| text.len() <= MAX_DICTIONARY)
        }
        _ => None,
    }
}

/// Statistics of columns whose smallest and largest value are found at the speed of memory. Text is left to the engine.
fn stats_of(array: &ArrayRef) -> Option<ColumnStats> {
    let data_type = array.data_type();
    if !(data_type.is_primitive() || matches!(data_type, DataType::Boolean)) {
        return None;
    }
    let found = column_stats(array)?;
    let (range, nans) = match found.bounds {
        Bounds::Empty => (None, 0),
        Bounds::Timestamp(min, max) => (Some((Scalar::TimestampNs(min.into()), Scalar::TimestampNs(max.into()))), 0),
        Bounds::Int(min, max) => (Some((Scalar::Int(min), Scalar::Int(max))), 0),
        Bounds::Float { range, nans } => (range.map(|(min, max)| (Scalar::Float(min), Scalar::Float(max))), nans),
        Bounds::Date(min, max) => (Some((Scalar::Date(min), Scalar::Date(max))), 0),
        Bounds::Time(min, max) => (Some((Scalar::TimeNs(min), Scalar::TimeNs(max))), 0),
        Bounds::Bool(min, max) => (Some((Scalar::Bool(min), Scalar::Bool(max))), 0),
        Bounds::Decimal(min, max, scale) => {
            let scale = u8::try_from(scale).ok()?;
            (Some((Scalar::Decimal { value: min, scale }, Scalar::Decimal { value: max, scale })), 0)
        }
        Bounds::Str { .. } | Bounds::Unknown => return None,
    };
    let (min, max) = range.unzip();
    Some(ColumnStats {
        min_exact: min.is_some(),
        max_exact: max.is_some(),
        min,
        max,
        null_count: Some(found.nulls),
        nan_count: Some(nans),
    })
}

/// The verdict on each window of `batch`: `lengths` says how many rows each has, from the first on. The columns of the batch are
/// the columns `projection` of the file.
pub fn judge(
    batch: &RecordBatch,
    file: &SchemaRef,
    projection: &[usize],
    lengths: impl Iterator<Item = usize>,
    predicate: &BlockPredicate,
) -> Vec<Verdict> {
    let fields: Vec<&FieldRef> = projection.iter().filter_map(|index| file.fields().get(*index)).collect();
    let mut start = 0usize;
    lengths
        .map(|length| {
            let rows = length.min(batch.num_rows() - start);
            let columns = fields
                .iter()
                .zip(batch.columns())
                .filter(|(field, _)| !is_converted(field))
                .map(|(field, array)| (field.name().as_str(), array.slice(start, rows), OnceCell::new()))
                .collect();
            start += rows;
            match evaluate(predicate, &Window { file, rows, columns }) {
                Outcomes::TRUE => Verdict::All,
                outcomes if outcomes.may_be_true() => Verdict::Some,
                _ => Verdict::None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::predicate::{CompareOp, TextPattern};

    #[test]
    fn needles_that_are_nowhere_rule_windows_out() {
        let file: SchemaRef = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
        let texts = StringArray::from(vec![Some("ab"), Some("cd"), None, Some(""), Some("xéy"), Some("ab")]);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let plain: ArrayRef = Arc::new(texts);
        use Verdict::{None as No, Some as May};
        let all = [&plain, &cast(&plain, &DataType::LargeUtf8).unwrap(), &cast(&plain, &dictionary).unwrap()];
        for (number, array) in all.into_iter().enumerate() {
            let field = Field::new("s", array.data_type().clone(), true);
            let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::clone(array)]).unwrap();
            let judged = |predicate: &BlockPredicate| judge(&batch, &file, &[0], [2, 2, 2].into_iter(), predicate);
            let text = |pattern| BlockPredicate::Text { column: "s".to_owned(), pattern };
            let equals = |value: &str| BlockPredicate::Compare {
                column: "s".to_owned(),
                op: CompareOp::Eq,
                value: Scalar::Str(value.to_owned()),
            };
            // a dictionary is searched as a whole
            let only_first = if number == 2 { [May, May, May] } else { [May, No, No] };
            assert_eq!(judged(&text(TextPattern::contains("cd"))), only_first);
            // found across two rows: that proves nothing
            assert_eq!(judged(&text(TextPattern::contains("bc")))[1..], if number == 2 { [May; 2] } else { [No; 2] });
            assert_eq!(judged(&text(TextPattern::suffix("zz"))), [No; 3]);
            assert_eq!(judged(&text(TextPattern::contains(""))), [May; 3]);
            assert_eq!(judged(&equals("é")), if number == 2 { [May; 3] } else { [No, No, May] });
            assert_eq!(judged(&equals("")), [May; 3]);
            assert_eq!(judged(&equals("Ab")), [No; 3]);
            let shouted = TextPattern { case_insensitive: true, ..TextPattern::contains("CD") };
            assert_eq!(judged(&text(shouted)), [May; 3]);
        }
    }

    #[test]
    fn windows_are_ruled_out_and_proven() {
        let file: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("x", DataType::Utf8, true),
            Field::new("i", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
        ]));
        let ints: Int64Array = (0..100).map(|i| (i != 95).then_some(i)).collect();
        let floats: Float64Array = (0..100).map(|i| if i == 15 { f64::NAN } else { f64::from(i) }).collect();
        let texts: StringArray = (0..100).map(|i| Some(i.to_string())).collect();
        let schema = Arc::new(Schema::new(vec![file.field(1).clone(), file.field(2).clone(), file.field(0).clone()]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(ints), Arc::new(floats), Arc::new(texts)]).unwrap();
        let lengths = [10, 10, 10, 5, 10, 10, 10, 10, 10, 10, 5];
        let judged = |predicate| judge(&batch, &file, &[1, 2, 0], lengths.into_iter(), &predicate);
        let at_least =
            |column: &str, value| BlockPredicate::Compare { column: column.to_owned(), op: CompareOp::GtEq, value };
        use Verdict::{All, None as No, Some as May};
        // windows end at 10, 20, 30, 35, 45, 55, … 95, 100; a NULL is in the last
        let expected = [No, No, No, No, May, All, All, All, All, All, May];
        assert_eq!(judged(at_least("i", Scalar::Int(40))), expected);
        // NaN is the greatest value
        let expected = [No, May, No, No, May, All, All, All, All, All, All];
        assert_eq!(judged(at_least("f", Scalar::Float(40.0))), expected);
        assert_eq!(judged(at_least("x", Scalar::Str("zzz".to_owned()))), [May; 11]);
        assert_eq!(judged(BlockPredicate::IsNull { column: "i".to_owned() })[9..], [No, May]);
    }
}
