//! The Arrow IPC parts of a TLM file that are metadata: the footer with its schema and block list, and the message in front of
//! each block. Both are flatbuffers; they are verified before use and every number in them is checked against the file.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{CompressionType, MessageHeader, MetadataVersion};

use crate::{Error, Result};

/// Key in the footer's custom metadata under which this crate's writer puts the row counts of the blocks, as a JSON array, so that
/// a reader need not visit each block for them. Other readers ignore it.
pub const BLOCK_ROWS_KEY: &str = "pensieve.block_rows";

/// Place of one Arrow IPC message (a block or a dictionary), as absolute byte ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRange {
    /// Length prefix, flatbuffer and padding.
    pub header: Range<u64>,
    /// The buffers.
    pub body: Range<u64>,
}

/// What the Arrow IPC footer says.
#[derive(Debug)]
pub struct Footer {
    /// Schema of the blocks.
    pub schema: SchemaRef,
    /// Metadata version of all messages.
    pub version: MetadataVersion,
    /// Blocks in order.
    pub blocks: Vec<MessageRange>,
    /// Dictionaries in order.
    pub dictionaries: Vec<MessageRange>,
    /// Row counts of the blocks, if the writer left them and there is one per block.
    pub block_rows: Option<Vec<u64>>,
}

impl Footer {
    /// Parses the footer flatbuffer `bytes` of the Arrow IPC body at `body` of the file `path`.
    pub fn parse(path: &str, bytes: &[u8], footer: &Range<u64>, body: &Range<u64>) -> Result<Self> {
        let place = format!("Arrow IPC footer, offset {}", footer.start);
        let corrupt = |what: String| Error::corrupt(path, place.clone(), what);
        let parsed =
            arrow_ipc::root_as_footer(bytes).map_err(|e| corrupt(format!("the flatbuffer is not valid: {e}")))?;
        let fb_schema = parsed.schema().ok_or_else(|| corrupt("there is no schema".into()))?;
        if fb_schema.endianness() != arrow_ipc::Endianness::Little {
            return Err(Error::unsupported(path, "big-endian Arrow IPC data is not supported"));
        }
        let unknown = |what: String| Error::undecodable(path, place.clone(), what);
        let schema = try_fb_to_schema(fb_schema).map_err(|e| unknown(format!("the schema is not valid: {e}")))?;
        for field in schema.fields() {
            check_type(field, 0).map_err(|what| unknown(format!("column \"{}\": {what}", field.name())))?;
        }
        let ranges = |kind: &str, list: Option<flatbuffers::Vector<'_, arrow_ipc::Block>>| {
            list.iter()
                .flatten()
                .enumerate()
                .map(|(i, block)| {
                    // The end of the messages is the start of the footer.
                    let limit = body.start..footer.start;
                    message_range(block, &limit).ok_or_else(|| {
                        corrupt(format!(
                            "{kind} {i} is outside the file: offset {}, header {} bytes, body {} bytes",
                            block.offset(),
                            block.metaDataLength(),
                            block.bodyLength()
                        ))
                    })
                })
                .collect::<Result<Vec<MessageRange>>>()
        };
        let blocks = ranges("block", parsed.recordBatches())?;
        let dictionaries = ranges("dictionary", parsed.dictionaries())?;
        let block_rows = parsed
            .custom_metadata()
            .iter()
            .flatten()
            .find(|pair| pair.key() == Some(BLOCK_ROWS_KEY))
            .and_then(|pair| serde_json::from_str::<Vec<u64>>(pair.value()?).ok())
            .filter(|rows| rows.len() == blocks.len() && rows.iter().all(|r| *r <= MAX_ROWS));
        Ok(Self { schema: Arc::new(schema), version: parsed.version(), blocks, dictionaries, block_rows })
    }
}

/// Rows a block can have: the statistics count them in 32 bits.
pub const MAX_ROWS: u64 = u32::MAX as u64;

fn message_range(block: &arrow_ipc::Block, limit: &Range<u64>) -> Option<MessageRange> {
    let start = limit.start.checked_add(u64::try_from(block.offset()).ok()?)?;
    let header_end = start.checked_add(u64::try_from(block.metaDataLength()).ok().filter(|l| *l >= 8)?)?;
    let end = header_end.checked_add(u64::try_from(block.bodyLength()).ok()?)?;
    (end <= limit.end).then_some(MessageRange { header: start..header_end, body: header_end..end })
}

/// Fails for types that the conversion from flatbuffers lets through but that no array can have: they would be refused, less
/// clearly, when a block is decoded.
fn check_type(field: &Field, depth: usize) -> std::result::Result<(), String> {
    use DataType::{
        Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, FixedSizeBinary, FixedSizeList, LargeList,
        LargeListView, List, ListView, Map, RunEndEncoded, Struct, Time32, Time64, Union,
    };
    if depth > 64 {
        return Err("types are nested more than 64 deep".into());
    }
    let depth = depth + 1;
    let data_type = field.data_type();
    let wrong = || Err(format!("{data_type} is not a valid type"));
    match data_type {
        List(f) | LargeList(f) | ListView(f) | LargeListView(f) => check_type(f, depth),
        FixedSizeList(f, size) if *size >= 0 => check_type(f, depth),
        FixedSizeList(..) => wrong(),
        FixedSizeBinary(size) if *size < 0 => wrong(),
        Struct(fields) => fields.iter().try_for_each(|f| check_type(f, depth)),
        Map(entries, _) => match entries.data_type() {
            Struct(fields) if fields.len() == 2 => fields.iter().try_for_each(|f| check_type(f, depth)),
            _ => wrong(),
        },
        Union(fields, _) => fields.iter().try_for_each(|(_, f)| check_type(f, depth)),
        RunEndEncoded(ends, values) => match ends.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => check_type(values, depth),
            _ => wrong(),
        },
        Dictionary(key, values) if key.is_integer() && !matches!(values.as_ref(), Dictionary(..)) => {
            check_type(&Field::new("values", values.as_ref().clone(), true), depth)
        }
        Dictionary(..) => wrong(),
        Time32(TimeUnit::Microsecond | TimeUnit::Nanosecond) | Time64(TimeUnit::Second | TimeUnit::Millisecond) => {
            wrong()
        }
        Decimal32(precision, _) if !(1..=9).contains(precision) => wrong(),
        Decimal64(precision, _) if !(1..=18).contains(precision) => wrong(),
        Decimal128(precision, _) if !(1..=38).contains(precision) => wrong(),
        Decimal256(precision, _) if !(1..=76).contains(precision) => wrong(),
        _ => Ok(()),
    }
}

/// How the buffers of a message are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// LZ4 frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// One array of a message, in depth-first order of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Values.
    pub len: usize,
    /// NULL values.
    pub nulls: usize,
}

/// The layout of a block's body: what its message says, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLayout {
    /// Rows.
    pub rows: u64,
    /// Arrays.
    pub nodes: Vec<Node>,
    /// Buffers, as absolute byte ranges of the file.
    pub buffers: Vec<Range<u64>>,
    /// Number of data buffers of each string or binary view array.
    pub variadic: Vec<usize>,
    /// Compression of every buffer.
    pub codec: Option<Codec>,
}

/// A dictionary message.
#[derive(Debug)]
pub struct DictionaryLayout {
    /// Which dictionary.
    pub id: i64,
    /// Whether its values come after those of earlier messages with this id.
    pub delta: bool,
    /// The values, as a batch of one column.
    pub batch: BatchLayout,
}

/// Parses the message in front of a block.
pub fn parse_batch(path: &str, place: &str, header: &[u8], at: &MessageRange) -> Result<BatchLayout> {
    let corrupt = |what: String| Error::corrupt(path, format!("{place}, offset {}", at.header.start), what);
    let message = message(header).map_err(&corrupt)?;
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| corrupt(format!("expected a record batch, found {:?}", message.header_type())))?;
    check_codec(path, &batch)?;
    layout(&batch, at).map_err(corrupt)
}

/// Parses a dictionary message.
pub fn parse_dictionary(path: &str, place: &str, header: &[u8], at: &MessageRange) -> Result<DictionaryLayout> {
    let corrupt = |what: String| Error::corrupt(path, format!("{place}, offset {}", at.header.start), what);
    let message = message(header).map_err(&corrupt)?;
    let dictionary = message
        .header_as_dictionary_batch()
        .ok_or_else(|| corrupt(format!("expected a dictionary, found {:?}", message.header_type())))?;
    let batch = dictionary.data().ok_or_else(|| corrupt("the dictionary has no values".into()))?;
    check_codec(path, &batch)?;
    let batch = layout(&batch, at).map_err(corrupt)?;
    Ok(DictionaryLayout { id: dictionary.id(), delta: dictionary.isDelta(), batch })
}

/// The flatbuffer behind the length prefix (with the continuation marker of current writers, or without).
fn message(header: &[u8]) -> std::result::Result<arrow_ipc::Message<'_>, String> {
    let flatbuffer = match header.get(..4) {
        Some([0xFF, 0xFF, 0xFF, 0xFF]) => header.get(8..),
        _ => header.get(4..),
    };
    let flatbuffer = flatbuffer.ok_or("the message is shorter than its length prefix")?;
    let message =
        arrow_ipc::root_as_message(flatbuffer).map_err(|e| format!("the message is not a valid flatbuffer: {e}"))?;
    match message.header_type() {
        MessageHeader::RecordBatch | MessageHeader::DictionaryBatch => Ok(message),
        other => Err(format!("the message is a {other:?}")),
    }
}

/// A compression that is not known here is one of a newer version of the format, not damage.
fn check_codec(path: &str, batch: &arrow_ipc::RecordBatch<'_>) -> Result<()> {
    match batch.compression().map(|compression| compression.codec()) {
        None | Some(CompressionType::LZ4_FRAME | CompressionType::ZSTD) => Ok(()),
        Some(other) => {
            Err(Error::unsupported(path, format!("the compression {other:?} is not read, LZ4 and Zstandard are")))
        }
    }
}

fn layout(batch: &arrow_ipc::RecordBatch<'_>, at: &MessageRange) -> std::result::Result<BatchLayout, String> {
    let rows = u64::try_from(batch.length()).ok().filter(|rows| *rows <= MAX_ROWS);
    let rows = rows.ok_or_else(|| format!("a row count of {} is not possible", batch.length()))?;
    let nodes = batch
        .nodes()
        .iter()
        .flatten()
        .map(|node| {
            let (len, nulls) = (node.length(), node.null_count());
            let checked = usize::try_from(len).ok().zip(usize::try_from(nulls).ok());
            // Longer arrays could not be addressed in bits.
            checked
                .filter(|(l, n)| n <= l && *l <= usize::MAX / 1024)
                .map(|(len, nulls)| Node { len, nulls })
                .ok_or_else(|| format!("an array of length {len} with {nulls} nulls is not possible"))
        })
        .collect::<std::result::Result<Vec<Node>, String>>()?;
    let buffers = batch
        .buffers()
        .iter()
        .flatten()
        .map(|buffer| {
            let start = u64::try_from(buffer.offset()).ok().and_then(|o| at.body.start.checked_add(o));
            let end = start.zip(u64::try_from(buffer.length()).ok()).and_then(|(s, l)| s.checked_add(l));
            start.zip(end).filter(|(_, end)| *end <= at.body.end).map(|(start, end)| start..end).ok_or_else(|| {
                let size = at.body.end - at.body.start;
                format!(
                    "a buffer at {} of {} bytes is outside the body of {size} bytes",
                    buffer.offset(),
                    buffer.length()
                )
            })
        })
        .collect::<std::result::Result<Vec<Range<u64>>, String>>()?;
    let variadic = batch
        .variadicBufferCounts()
        .iter()
        .flatten()
        .map(|count| usize::try_from(count).map_err(|_| format!("{count} data buffers are not possible")))
        .collect::<std::result::Result<Vec<usize>, String>>()?;
    let codec = match batch.compression().map(|c| c.codec()) {
        None => None,
        Some(CompressionType::LZ4_FRAME) => Some(Codec::Lz4),
        Some(_) => Some(Codec::Zstd),
    };
    Ok(BatchLayout { rows, nodes, buffers, variadic, codec })
}
