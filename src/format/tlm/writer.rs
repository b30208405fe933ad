//! Writing a TLM extent.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Fields, Metadata, Schema, SchemaRef, UnionFields};
use arrow::error::ArrowError;
use arrow_ipc::convert::{IpcSchemaEncoder, metadata_to_fb};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{CompressionType, FooterBuilder, MetadataVersion};
use flatbuffers::FlatBufferBuilder;

use super::dictionary::dictionary_type;
use super::encode::{ALIGNMENT, Message, Payload, TlmEncoder};
use super::footer::BLOCK_ROWS_KEY;
use super::frame::{IPC_MAGIC, Magic, STEMS};
use crate::format::{BlockEncoder, EncodedBlock, ExtentWriteResult, ExtentWriter, WriteOptions};
use crate::stats::extent::ExtentStats;
use crate::storage::Sink;
use crate::{Error, Result};

/// On log rows level 1 takes half the time of level 3 (the default of zstd itself) for one percent more bytes.
const DEFAULT_ZSTD_LEVEL: i32 = 1;

/// How one column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// As the stored schema says.
    Plain,
    /// Text that may become a dictionary.
    Text,
    /// A dictionary of text.
    Dictionary,
}

/// What a file will look like, checked before anything is created.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the file, for messages.
    pub path: String,
    /// Schema of the batches that are appended.
    pub input: SchemaRef,
    /// Schema of the file, before dictionaries are chosen.
    pub stored: SchemaRef,
    /// How each column is stored.
    pub columns: Vec<Column>,
    /// Whether text columns may become dictionaries.
    pub choose_dictionaries: bool,
    /// Options of Arrow's encoder.
    pub ipc: IpcWriteOptions,
    magic: Magic,
}

impl Plan {
    /// Checks a schema and options.
    pub fn new(schema: &SchemaRef, options: &WriteOptions) -> Result<Self> {
        let wanted = options.magic.as_deref().unwrap_or("pensieve");
        let stem = STEMS
            .iter()
            .find(|stem| stem.eq_ignore_ascii_case(wanted))
            .ok_or_else(|| Error::InvalidInput(format!("unknown magic \"{wanted}\"; use pensieve, pnsv or kyma")))?;
        let mut columns = Vec::with_capacity(schema.fields().len());
        let mut fields = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let stored = stored_field(field, true);
            let castable =
                field.data_type() == stored.data_type() || can_cast_types(field.data_type(), stored.data_type());
            if !castable || has_direct_dictionary(stored.data_type()) {
                let what = format!("column type {} cannot be written to a TLM extent", field.data_type());
                return Err(Error::unsupported(field.name(), what));
            }
            columns.push(match stored.data_type() {
                DataType::Dictionary(..) => Column::Dictionary,
                DataType::Utf8 | DataType::LargeUtf8 => Column::Text,
                _ => Column::Plain,
            });
            fields.push(stored);
        }
        Ok(Self {
            path: String::new(),
            input: Arc::clone(schema),
            stored: Arc::new(Schema::new(fields).with_metadata(schema.metadata().clone())),
            columns,
            choose_dictionaries: options.dictionary,
            ipc: ipc_options(options.compression.as_deref())?,
            magic: Magic { stem, version: 2 },
        })
    }

    /// A failure of Arrow's encoder.
    pub fn failed(&self, error: &ArrowError) -> Error {
        Error::unsupported(&self.path, format!("a block cannot be encoded: {error}"))
    }
}

fn ipc_options(compression: Option<&str>) -> Result<IpcWriteOptions> {
    let wrong = |e: &dyn std::fmt::Display| Error::InvalidInput(format!("compression: {e}"));
    let base = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5).map_err(|e| wrong(&e))?;
    let name = compression.unwrap_or("none").to_ascii_lowercase();
    let (name, level) = name.split_once(':').map_or((name.as_str(), None), |(name, level)| (name, Some(level)));
    match (name, level) {
        ("none" | "uncompressed", None) => Ok(base),
        ("lz4", None) => base.try_with_compression(Some(CompressionType::LZ4_FRAME)).map_err(|e| wrong(&e)),
        ("zstd", level) => {
            let level = level.map_or(Ok(DEFAULT_ZSTD_LEVEL), str::parse::<i32>).map_err(|e| wrong(&e))?;
            base.try_with_compression(Some(CompressionType::ZSTD))
                .and_then(|o| o.try_with_compression_level(Some(level)))
                .map_err(|e| wrong(&e))
        }
        _ => Err(Error::InvalidInput(format!(
            "a TLM extent cannot be compressed with \"{}\"; use none, lz4, zstd or zstd:LEVEL",
            compression.unwrap_or_default()
        ))),
    }
}

/// The field as it is stored. Views become plain text and bytes at the top level, because that is what readers of the format
/// expect there; dictionaries are kept for text at the top level and unpacked elsewhere.
fn stored_field(field: &Arc<Field>, top: bool) -> Arc<Field> {
    let data_type = match field.data_type() {
        DataType::Utf8View if top => DataType::Utf8,
        DataType::BinaryView if top => DataType::Binary,
        DataType::Dictionary(_, values) if top && values.is_string() => dictionary_type(),
        other => without_dictionaries(other),
    };
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    let stored = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(stored.with_metadata(field.metadata().clone()))
}

fn without_dictionaries(data_type: &DataType) -> DataType {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union,
    };
    let child = |f: &Arc<Field>| stored_field(f, false);
    match data_type {
        Dictionary(_, values) => without_dictionaries(values),
        List(f) => List(child(f)),
        LargeList(f) => LargeList(child(f)),
        ListView(f) => ListView(child(f)),
        LargeListView(f) => LargeListView(child(f)),
        FixedSizeList(f, size) => FixedSizeList(child(f), *size),
        Map(f, sorted) => Map(child(f), *sorted),
        Struct(fields) => Struct(fields.iter().map(child).collect::<Fields>()),
        RunEndEncoded(ends, values) => RunEndEncoded(Arc::clone(ends), child(values)),
        Union(fields, mode) => {
            let fields: Vec<(i8, Arc<Field>)> = fields.iter().map(|(id, f)| (id, child(f))).collect();
            UnionFields::try_new(fields.iter().map(|(id, _)| *id), fields.iter().map(|(_, f)| Arc::clone(f)))
                .map_or_else(|_| data_type.clone(), |fields| Union(fields, *mode))
        }
        other => other.clone(),
    }
}

fn has_direct_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values) if matches!(values.as_ref(), DataType::Dictionary(..)))
}

/// Writes one TLM extent.
pub struct TlmWriter {
    sink: Box<dyn Sink>,
    encoder: Arc<TlmEncoder>,
    stats: ExtentStats,
    stats_json: String,
    blocks: Vec<arrow_ipc::Block>,
    dictionaries: Vec<arrow_ipc::Block>,
    block_rows: Vec<u64>,
    /// Whether magic and schema have been written. They wait for the first block, which chooses the dictionaries.
    started: bool,
    /// Whether a write has failed, so that the file cannot be completed.
    failed: bool,
}

impl TlmWriter {
    /// Starts a file. Nothing is written before the first block.
    ///
    /// # Errors
    /// If an option or a column type is not supported; nothing has been written then.
    pub fn new(sink: Box<dyn Sink>, schema: &SchemaRef, options: &WriteOptions) -> Result<Self> {
        let mut plan = Plan::new(schema, options)?;
        plan.path = sink.path().to_owned();
        let stats = ExtentStats::new(&plan.stored);
        let encoder = Arc::new(TlmEncoder::new(plan, stats.summary()));
        Ok(Self {
            sink,
            encoder,
            stats,
            stats_json: String::from("["),
            blocks: Vec::new(),
            dictionaries: Vec::new(),
            block_rows: Vec::new(),
            started: false,
            failed: false,
        })
    }

    fn magic(&self) -> Magic {
        self.encoder.plan.magic
    }

    /// Offset of the next byte within the Arrow IPC body.
    fn offset(&self) -> u64 {
        self.sink.position().saturating_sub(self.magic().len())
    }

    fn write_message(&mut self, message: &Message) -> Result<arrow_ipc::Block> {
        let too_large = || Error::InvalidInput("the extent is too large".into());
        let offset = i64::try_from(self.offset()).map_err(|_| too_large())?;
        let header = i32::try_from(message.header.len()).map_err(|_| too_large())?;
        let body = i64::try_from(message.body.len()).map_err(|_| too_large())?;
        self.sink.write(&message.header)?;
        self.sink.write(&message.body)?;
        Ok(arrow_ipc::Block::new(offset, header, body))
    }

    fn start(&mut self) -> Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let mut head = self.magic().bytes();
        head.extend_from_slice(IPC_MAGIC);
        head.resize(head.len() - IPC_MAGIC.len() + ALIGNMENT, 0);
        self.sink.write(&head)?;
        let encoder = Arc::clone(&self.encoder);
        let schema = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            &encoder.layout().schema,
            &mut DictionaryTracker::new(false),
            &encoder.plan.ipc,
        );
        self.write_message(&Message::frame(schema)?)?;
        Ok(())
    }

    fn append_payload(&mut self, rows: u64, payload: Payload) -> Result<()> {
        self.start()?;
        let block = self.write_message(&payload.message)?;
        if !self.blocks.is_empty() {
            self.stats_json.push(',');
        }
        self.stats_json.push_str(&payload.stats);
        self.stats.merge(payload.summary);
        self.blocks.push(block);
        self.block_rows.push(rows);
        Ok(())
    }

    /// The dictionaries, each complete, after the blocks that refer to them.
    fn write_dictionaries(&mut self) -> Result<()> {
        let encoder = Arc::clone(&self.encoder);
        let layout = encoder.layout();
        let mut tracker = DictionaryTracker::new(false);
        let mut columns = Vec::new();
        for (field, dictionary) in layout.schema.fields().iter().zip(&layout.dictionaries) {
            if let Some(dictionary) = dictionary {
                // Ids are numbers in the order of the columns, as in the schema message.
                tracker.next_dict_id();
                let array = dictionary.array().map_err(|what| Error::unsupported(field.name(), what))?;
                columns.push((field.name(), array, true));
            }
        }
        if columns.is_empty() {
            return Ok(());
        }
        let batch = RecordBatch::try_from_iter_with_nullable(columns).map_err(|e| encoder.plan.failed(&e))?;
        let (messages, _) = encoder.messages(&batch, &mut tracker)?;
        for message in messages {
            let block = self.write_message(&message)?;
            self.dictionaries.push(block);
        }
        Ok(())
    }

    fn write_footer(&mut self) -> Result<()> {
        // The end-of-stream marker of the Arrow IPC stream inside the file.
        self.sink.write(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0])?;
        let mut builder = FlatBufferBuilder::new();
        let dictionaries = builder.create_vector(&self.dictionaries);
        let blocks = builder.create_vector(&self.blocks);
        let mut tracker = DictionaryTracker::new(false);
        let schema = IpcSchemaEncoder::new()
            .with_dictionary_tracker(&mut tracker)
            .schema_to_fb_offset(&mut builder, &self.encoder.layout().schema);
        let rows = serde_json::to_string(&self.block_rows).map_err(|e| Error::InvalidInput(e.to_string()))?;
        let mut custom = Metadata::new();
        custom.insert(BLOCK_ROWS_KEY.to_owned(), rows);
        let custom = metadata_to_fb(&mut builder, &custom);
        let mut footer = FooterBuilder::new(&mut builder);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(blocks);
        footer.add_custom_metadata(custom);
        let root = footer.finish();
        builder.finish(root, None);
        let bytes = builder.finished_data();
        let length = i32::try_from(bytes.len()).map_err(|_| Error::InvalidInput("the footer is too large".into()))?;
        self.sink.write(bytes)?;
        self.sink.write(&length.to_le_bytes())?;
        self.sink.write(IPC_MAGIC)?;
        self.stats_json.push(']');
        let length = u32::try_from(self.stats_json.len())
            .map_err(|_| Error::InvalidInput("the block statistics are too large: use larger blocks".into()))?;
        self.sink.write(self.stats_json.as_bytes())?;
        self.sink.write(&length.to_le_bytes())?;
        self.sink.write(&self.magic().bytes())
    }

    fn complete(&mut self) -> Result<()> {
        self.start()?;
        self.write_dictionaries()?;
        self.write_footer()
    }

    fn check_usable(&self) -> Result<()> {
        if self.failed {
            return Err(Error::io(self.sink.path(), "write", "an earlier write failed, the extent is incomplete"));
        }
        Ok(())
    }
}

impl ExtentWriter for TlmWriter {
    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_usable()?;
        let block = self.encoder.encode(batch)?;
        self.append_encoded(block)
    }

    fn encoder(&self) -> Option<Arc<dyn BlockEncoder>> {
        Some(Arc::clone(&self.encoder) as Arc<dyn BlockEncoder>)
    }

    fn append_encoded(&mut self, block: EncodedBlock) -> Result<()> {
        self.check_usable()?;
        let payload = block.payload.downcast::<Payload>().map_err(|_| {
            Error::InvalidInput(format!("{}: the block was encoded for another format", self.sink.path()))
        })?;
        let result = self.append_payload(block.rows, *payload);
        self.failed = result.is_err();
        result
    }

    fn bytes_written(&self) -> u64 {
        self.sink.position()
    }

    fn finish(mut self: Box<Self>) -> Result<ExtentWriteResult> {
        self.check_usable()?;
        self.complete()?;
        let Self { sink, stats, block_rows, .. } = *self;
        let (object_path, byte_size) = (sink.path().to_owned(), sink.position());
        sink.finish()?;
        Ok(ExtentWriteResult {
            extent_id: uuid::Uuid::new_v4(),
            object_path,
            byte_size,
            row_count: block_rows.iter().sum(),
            block_count: u32::try_from(block_rows.len()).unwrap_or(u32::MAX),
            time_ranges: stats.time_ranges(),
            present_paths: None,
            column_stats: stats.column_stats(),
        })
    }
}
