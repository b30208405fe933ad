//! Evidence of the rows just decoded: within a block whose rows are in some order, most runs of rows are ruled out, or proven, by
//! their smallest and largest value, which cost far less to find than the engine's filters cost to evaluate.

use std::cell::OnceCell;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

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
}

/// Statistics of columns whose smallest and largest value are found at the speed of memory. Text is left to the engine.
fn stats_of(array: &ArrayRef) -> Option<ColumnStats> {
    let data_type = array.data_type();
    if !(data_type.is_primitive() || matches!(data_type, arrow::datatypes::DataType::Boolean)) {
        return None;
    }
    let found = column_stats(array)?;
    let (range, nans) = match found.bounds {
        Bounds::None if found.nulls == u64::try_from(array.len()).ok()? => (None, 0),
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
        Bounds::Str { .. } | Bounds::None => return None,
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
    let names: Vec<&str> =
        projection.iter().filter_map(|index| file.fields().get(*index)).map(|field| field.name().as_str()).collect();
    let mut start = 0usize;
    lengths
        .map(|length| {
            let rows = length.min(batch.num_rows() - start);
            let columns = names
                .iter()
                .zip(batch.columns())
                .map(|(name, array)| (*name, array.slice(start, rows), OnceCell::new()))
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
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::predicate::CompareOp;

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
