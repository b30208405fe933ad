//! Binary columns that a catalog calls `dynamic`, shown as JSON text.
//!
//! The original system keeps a dynamic value as bytes: JSON text, except that a string stands there without its quotes. What is not
//! JSON is therefore shown as a JSON string. Statistics of such a column are about the bytes and are not used.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{BlockId, BlockLocation, ColumnPart, ExtentMetadata, ExtentReader, RowRanges, RowStream};
use crate::predicate::{BlockPredicate, ColumnStats, Evidence, Outcomes, Scalar};
use crate::storage::IoCounters;
use crate::{Error, Result};

/// Arrow's name for JSON text.
const JSON: &str = "arrow.json";

/// An extent some of whose binary columns are shown as JSON.
pub struct JsonView {
    inner: Arc<dyn ExtentReader>,
    metadata: ExtentMetadata,
    columns: Arc<BTreeSet<String>>,
    evidence: Vec<Hidden>,
}

impl JsonView {
    /// Shows the binary ones among the columns `names` of `inner` as JSON; `inner` itself when there are none.
    pub fn wrap(inner: Arc<dyn ExtentReader>, names: &[&str]) -> Arc<dyn ExtentReader> {
        let mut columns = BTreeSet::new();
        let schema = &inner.metadata().schema;
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .map(|field| {
                let binary = matches!(
                    field.data_type(),
                    DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
                );
                if !binary || !names.contains(&field.name().as_str()) {
                    return field.as_ref().clone();
                }
                columns.insert(field.name().clone());
                json_field(field)
            })
            .collect();
        if columns.is_empty() {
            return inner;
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let metadata = ExtentMetadata { schema, ..inner.metadata().clone() };
        let columns = Arc::new(columns);
        let blocks = u32::try_from(metadata.block_rows.len()).unwrap_or(u32::MAX);
        let evidence = (0..blocks)
            .map(|block| Hidden { inner: Arc::clone(&inner), block: BlockId(block), columns: Arc::clone(&columns) })
            .collect();
        Arc::new(Self { inner, metadata, columns, evidence })
    }

    /// The predicate without what it says about the shown columns.
    fn blind(&self, predicate: &BlockPredicate) -> BlockPredicate {
        if !predicate.columns().iter().any(|column| self.columns.contains(*column)) {
            return predicate.clone();
        }
        match predicate {
            BlockPredicate::And(parts) => BlockPredicate::And(parts.iter().map(|part| self.blind(part)).collect()),
            _ => BlockPredicate::Unknown("dynamic values have no statistics".to_owned()),
        }
    }

    fn show(&self, batch: RecordBatch) -> Result<RecordBatch> {
        show(batch, &self.columns)
    }
}

/// The batch with the columns of those names as JSON.
fn show(batch: RecordBatch, columns: &BTreeSet<String>) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let wrong = |e: arrow::error::ArrowError| Error::InvalidInput(format!("dynamic column: {e}"));
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut arrays = Vec::with_capacity(batch.num_columns());
    let schema = batch.schema();
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        if columns.contains(field.name()) {
            fields.push(json_field(field));
            arrays.push(json_text(array).map_err(wrong)?);
        } else {
            fields.push(field.as_ref().clone());
            arrays.push(Arc::clone(array));
        }
    }
    let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(wrong)
}

/// A stream whose batches are shown so.
struct Shown {
    inner: Box<dyn RowStream>,
    columns: Arc<BTreeSet<String>>,
}

impl RowStream for Shown {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.inner.next_batch()?.map(|batch| show(batch, &self.columns)).transpose()
    }
}

fn json_field(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert("ARROW:extension:name".to_owned(), JSON.to_owned());
    metadata.insert("ARROW:extension:metadata".to_owned(), String::new());
    Field::new(field.name(), DataType::Utf8, true).with_metadata(metadata)
}

/// Bytes as JSON text: what is JSON as it is, everything else as a JSON string.
fn json_text(array: &ArrayRef) -> std::result::Result<ArrayRef, arrow::error::ArrowError> {
    let binary = cast(array, &DataType::Binary)?;
    let Some(binary) = binary.as_any().downcast_ref::<BinaryArray>() else {
        return Err(arrow::error::ArrowError::CastError("not binary".to_owned()));
    };
    let mut out = StringBuilder::with_capacity(binary.len(), binary.value_data().len());
    for value in binary {
        match value {
            None => out.append_null(),
            Some(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
                    out.append_value(&text);
                } else {
                    out.append_value(serde_json::Value::String(text.into_owned()).to_string());
                }
            }
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The evidence of one block without that of the shown columns.
struct Hidden {
    inner: Arc<dyn ExtentReader>,
    block: BlockId,
    columns: Arc<BTreeSet<String>>,
}

impl Hidden {
    fn of(&self, name: &str) -> Option<&dyn Evidence> {
        if self.columns.contains(name) { None } else { self.inner.block_evidence(self.block) }
    }
}

impl Evidence for Hidden {
    fn row_count(&self) -> Option<u64> {
        self.inner.block_evidence(self.block)?.row_count()
    }
    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.of(name)?.column(name)
    }
    fn has_column(&self, name: &str) -> bool {
        self.inner.block_evidence(self.block).is_none_or(|evidence| evidence.has_column(name))
    }
    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        self.of(name)?.distinct(name)
    }
    fn tokens(&self, name: &str) -> Option<&[String]> {
        self.of(name)?.tokens(name)
    }
    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        self.of(name)?.may_contain(name, value)
    }
    fn may_have_path(&self, name: &str, path: &[String]) -> Option<bool> {
        self.of(name)?.may_have_path(name, path)
    }
}

impl ExtentReader for JsonView {
    fn metadata(&self) -> &ExtentMetadata {
        &self.metadata
    }
    fn io_counters(&self) -> Arc<IoCounters> {
        self.inner.io_counters()
    }
    fn block_evidence(&self, block: BlockId) -> Option<&dyn Evidence> {
        self.inner.block_evidence(block)?;
        let index = usize::try_from(block.0).ok()?;
        self.evidence.get(index).map(|hidden| hidden as &dyn Evidence)
    }
    fn block_location(&self, block: BlockId) -> Option<BlockLocation> {
        self.inner.block_location(block)
    }
    fn evaluate_block(&self, block: BlockId, predicate: &BlockPredicate) -> Result<Outcomes> {
        self.inner.evaluate_block(block, &self.blind(predicate))
    }
    fn has_finer_evidence(&self) -> bool {
        self.inner.has_finer_evidence()
    }
    fn pruned_blocks(&self, predicate: &BlockPredicate) -> Result<Vec<BlockId>> {
        self.inner.pruned_blocks(&self.blind(predicate))
    }
    fn read_block(&self, block: BlockId, projection: &[usize]) -> Result<RecordBatch> {
        self.show(self.inner.read_block(block, projection)?)
    }
    fn candidate_rows(&self, block: BlockId, predicate: &BlockPredicate) -> Result<RowRanges> {
        self.inner.candidate_rows(block, &self.blind(predicate))
    }
    fn read_rows(&self, block: BlockId, projection: &[usize], rows: &RowRanges) -> Result<RecordBatch> {
        self.show(self.inner.read_rows(block, projection, rows)?)
    }
    fn stream_rows(
        &self,
        block: BlockId,
        projection: &[ColumnPart],
        rows: &RowRanges,
        batch_rows: usize,
    ) -> Result<Box<dyn RowStream>> {
        let inner = self.inner.stream_rows(block, projection, rows, batch_rows)?;
        Ok(Box::new(Shown { inner, columns: Arc::clone(&self.columns) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    #[test]
    fn what_is_not_json_is_shown_as_a_json_string() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![
            Some(b"{\"a\":1}".as_slice()),
            Some(b"abc"),
            None,
            Some(b"12"),
            Some(b"say \"hi\""),
            Some(&[0xff]),
        ]));
        let text = json_text(&bytes).unwrap();
        let expected = StringArray::from(vec![
            Some("{\"a\":1}"),
            Some("\"abc\""),
            None,
            Some("12"),
            Some("\"say \\\"hi\\\"\""),
            Some("\"\u{fffd}\""),
        ]);
        assert_eq!(text.as_any().downcast_ref::<StringArray>().unwrap(), &expected);
    }
}
