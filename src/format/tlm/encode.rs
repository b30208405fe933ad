//! Encoding of blocks: the part of writing that runs on many threads.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext};

use super::dictionary::{SharedDictionary, dictionary_type, encode_locally, is_low_cardinality};
use super::writer::{Column, Plan};
use crate::dictionary::encode_columns;
use crate::format::{BlockEncoder, EncodedBlock};
use crate::stats::block::BlockStats;
use crate::stats::extent::{BlockPartial, Summary};
use crate::stats::json::write_block;
use crate::{Error, Result};

/// The alignment of messages and buffers, as other writers of the format have it.
pub const ALIGNMENT: usize = 64;

/// One Arrow IPC message, framed.
#[derive(Debug)]
pub struct Message {
    /// Continuation marker, length, flatbuffer and padding.
    pub header: Vec<u8>,
    /// The buffers.
    pub body: Vec<u8>,
}

impl Message {
    /// Puts the length prefix and the padding around a message of Arrow's encoder.
    pub fn frame(data: EncodedData) -> Result<Self> {
        let length = data.ipc_message.len();
        let total = length.checked_add(8).and_then(|l| l.checked_next_multiple_of(ALIGNMENT));
        let padded = total.and_then(|t| i32::try_from(t - 8).ok().map(|p| (t, p)));
        let Some((total, padded)) = padded else {
            return Err(Error::InvalidInput(format!("a block header of {length} bytes is too large")));
        };
        let mut header = Vec::with_capacity(total);
        header.extend_from_slice(&[0xFF; 4]);
        header.extend_from_slice(&padded.to_le_bytes());
        header.extend_from_slice(&data.ipc_message);
        header.resize(total, 0);
        let mut body = data.arrow_data;
        body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
        Ok(Self { header, body })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.header.len().saturating_add(self.body.len())
    }
}

/// An encoded block of a TLM file.
#[derive(Debug)]
pub struct Payload {
    /// The record batch message.
    pub message: Message,
    /// The block's entry in the statistics.
    pub stats: String,
    /// What the block says about the extent.
    pub summary: BlockPartial,
}

/// The columns as they are in the file, known once the first block has been seen.
#[derive(Debug)]
pub struct FileLayout {
    /// Schema of the file.
    pub schema: SchemaRef,
    /// Schema of the record batch messages, in which dictionary columns are their keys.
    messages: SchemaRef,
    /// The dictionary of each dictionary column.
    pub dictionaries: Vec<Option<SharedDictionary>>,
}

impl FileLayout {
    fn new(plan: &Plan, chosen: impl Fn(usize) -> bool) -> Self {
        let mut fields = Vec::with_capacity(plan.columns.len());
        let mut messages = Vec::with_capacity(plan.columns.len());
        let mut dictionaries = Vec::with_capacity(plan.columns.len());
        for (index, (field, column)) in plan.stored.fields().iter().zip(&plan.columns).enumerate() {
            let is_dictionary = match column {
                Column::Dictionary => true,
                Column::Text => plan.choose_dictionaries && chosen(index),
                Column::Plain => false,
            };
            let with_type = |t: DataType| Arc::new(field.as_ref().clone().with_data_type(t));
            let (field, message): (Arc<Field>, Arc<Field>) = if is_dictionary {
                (with_type(dictionary_type()), with_type(DataType::Int32))
            } else {
                (Arc::clone(field), Arc::clone(field))
            };
            fields.push(field);
            messages.push(message);
            dictionaries.push(is_dictionary.then(SharedDictionary::default));
        }
        let metadata = plan.stored.metadata().clone();
        let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
        Self { schema, messages: Arc::new(Schema::new(messages)), dictionaries }
    }
}

/// Encodes blocks for one file.
pub struct TlmEncoder {
    /// What the file looks like, apart from the choice of dictionaries.
    pub plan: Plan,
    layout: OnceLock<FileLayout>,
    summary: Arc<Summary>,
    contexts: Mutex<Vec<IpcWriteContext>>,
}

impl std::fmt::Debug for TlmEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlmEncoder").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl TlmEncoder {
    /// An encoder for a file as planned, whose blocks are summarised by `summary`.
    pub fn new(plan: Plan, summary: Arc<Summary>) -> Self {
        Self { plan, layout: OnceLock::new(), summary, contexts: Mutex::default() }
    }

    /// The columns of the file. The first block that is encoded chooses the dictionaries; without one there are none to choose.
    pub fn layout(&self) -> &FileLayout {
        self.layout.get_or_init(|| FileLayout::new(&self.plan, |_| false))
    }

    fn layout_for(&self, columns: &[ArrayRef]) -> &FileLayout {
        self.layout.get_or_init(|| FileLayout::new(&self.plan, |i| columns.get(i).is_some_and(is_low_cardinality)))
    }

    /// Messages of Arrow's encoder, framed: the dictionaries the batch brings along, and the batch.
    pub fn messages(&self, batch: &RecordBatch, tracker: &mut DictionaryTracker) -> Result<(Vec<Message>, Message)> {
        let pooled = self.contexts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = pooled.unwrap_or_default();
        // Keeps room for a block of the same size, which spares growing it step by step.
        context.set_reserve_scratch(true);
        let encoded = IpcDataGenerator::default().encode(batch, tracker, &self.plan.ipc, &mut context);
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner).push(context);
        let (dictionaries, batch) = encoded.map_err(|e| self.plan.failed(&e))?;
        Ok((dictionaries.into_iter().map(Message::frame).collect::<Result<_>>()?, Message::frame(batch)?))
    }

    fn check_schema(&self, batch: &RecordBatch) -> Result<()> {
        let (mine, theirs) = (self.plan.input.fields(), batch.schema_ref().fields());
        let same = mine.len() == theirs.len()
            && mine.iter().zip(theirs.iter()).all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
        if same {
            return Ok(());
        }
        Err(Error::InvalidInput(format!(
            "{}: the schema of a block differs from that of the extent: {:?} instead of {:?}",
            self.plan.path,
            summary_of(theirs),
            summary_of(mine)
        )))
    }
}

fn summary_of(fields: &arrow::datatypes::Fields) -> Vec<String> {
    fields.iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect()
}

impl BlockEncoder for TlmEncoder {
    fn encode(&self, batch: &RecordBatch) -> Result<EncodedBlock> {
        self.check_schema(batch)?;
        let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        if rows > super::footer::MAX_ROWS {
            return Err(Error::InvalidInput(format!("{}: a block of {rows} rows is too large", self.plan.path)));
        }
        let named = |i: usize, what: String| {
            let name = self.plan.input.fields().get(i).map_or("", |f| f.name());
            Error::unsupported(&self.plan.path, format!("column \"{name}\": {what}"))
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
        for (i, (array, field)) in batch.columns().iter().zip(self.plan.stored.fields()).enumerate() {
            // Dictionary columns are re-encoded below, from whatever they are.
            let keep = array.data_type() == field.data_type() || self.plan.columns.get(i) == Some(&Column::Dictionary);
            columns.push(match keep {
                true => Arc::clone(array),
                false => cast(array, field.data_type()).map_err(|e| named(i, e.to_string()))?,
            });
        }
        let layout = self.layout_for(&columns);
        let mut stored = columns.clone();
        for (i, dictionary) in layout.dictionaries.iter().enumerate() {
            if let (Some(dictionary), Some(column), Some(stored)) = (dictionary, columns.get_mut(i), stored.get_mut(i))
            {
                let local = encode_locally(column).map_err(|what| named(i, what))?;
                *stored = Arc::new(dictionary.keys(&local).map_err(|what| named(i, what))?);
                *column = Arc::new(local);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let message = RecordBatch::try_new_with_options(Arc::clone(&layout.messages), stored, &options)
            .map_err(|e| self.plan.failed(&e))?;
        let (_, message) = self.messages(&message, &mut DictionaryTracker::new(false))?;
        let compact = encode_columns(&columns);
        let block_stats = BlockStats::of_columns(batch.num_rows(), &compact);
        let mut stats = String::new();
        write_block(&mut stats, &layout.schema, &block_stats);
        let summary = self.summary.block(&compact, &block_stats);
        let bytes = u64::try_from(message.len()).unwrap_or(u64::MAX);
        Ok(EncodedBlock { rows, bytes, payload: Box::new(Payload { message, stats, summary }) })
    }
}
