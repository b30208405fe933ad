//! An open TLM extent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow_ipc::MetadataVersion;

use super::decode::{Cursor, Decoder, Dictionaries, Shape, dictionary_id, dictionary_ids};
use super::footer::{BatchLayout, Footer, MessageRange, parse_batch, parse_dictionary};
use super::frame::{Frame, MAX_STATS, TAIL, Tail};
use super::rows::select;
use crate::format::cache::SharedMetadata;
use crate::format::names::{by_shown_name, distinct};
use crate::format::parts::as_decoded;
use crate::format::{BlockId, BlockLocation, ColumnPart, ExtentMetadata, ExtentReader, RowRanges, RowStream};
use crate::predicate::eval::evaluate;
use crate::predicate::{BlockPredicate, ColumnStats, Evidence, Outcomes};
use crate::stats::json::{self, BlockColumns};
use crate::storage::{IoCounters, Source};
use crate::{Error, Result};

/// Blocks up to this size are fetched with one request, header and all, instead of header first and then the wanted columns.
const WHOLE_BLOCK: u64 = 1 << 20;

/// Statistics of one block, as evidence.
#[derive(Debug)]
struct BlockEvidence {
    rows: u64,
    columns: BlockColumns,
    schema: SchemaRef,
}

impl Evidence for BlockEvidence {
    fn row_count(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        self.columns.get(name).cloned()
    }

    fn has_column(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }
}

/// What opening a file found out: everything but the file itself.
#[derive(Debug)]
pub struct TlmMetadata {
    metadata: ExtentMetadata,
    ipc_version: MetadataVersion,
    blocks: Vec<MessageRange>,
    dictionaries: Vec<MessageRange>,
    /// Layouts of the blocks whose messages have been read.
    layouts: Vec<OnceLock<Arc<BatchLayout>>>,
    evidence: Vec<BlockEvidence>,
    /// Whether `evidence` holds more than row counts and column names.
    has_stats: bool,
    weight: u64,
}

impl TlmMetadata {
    /// Reads the ends of the file and parses them.
    fn read(source: &dyn Source) -> Result<Self> {
        let path = &source.identity().path;
        let (head, mut tail) = Tail::read(source)?;
        let frame = Frame::parse(&head, &mut tail)?;
        // One more request for whatever did not fit into the tail.
        let first = frame.stats.as_ref().map_or(frame.footer.start, |s| s.start.min(frame.footer.start));
        let bytes = tail.get(&frame.footer, first)?;
        let footer = Footer::parse(path, &bytes, &frame.footer, &frame.body)?;
        let layouts: Vec<OnceLock<Arc<BatchLayout>>> = footer.blocks.iter().map(|_| OnceLock::new()).collect();
        let block_rows = match footer.block_rows {
            Some(rows) => rows,
            None => read_layouts(source, &tail, &footer.blocks, &layouts)?,
        };
        let stats =
            frame.stats.as_ref().map(|range| read_stats(&mut tail, range, &footer.schema, &block_rows)).transpose()?;
        let schema = distinct(&footer.schema);
        let (columns, stats_rejected, has_stats) = match stats {
            Some(Ok(columns)) => (by_shown_name(columns, &footer.schema, &schema), None, true),
            Some(Err(reason)) => (Vec::new(), Some(reason), false),
            None => (Vec::new(), None, false),
        };
        let mut columns = columns.into_iter();
        let evidence: Vec<BlockEvidence> = block_rows
            .iter()
            .map(|rows| BlockEvidence {
                rows: *rows,
                columns: columns.next().unwrap_or_default(),
                schema: Arc::clone(&schema),
            })
            .collect();
        let metadata_bytes = source.identity().size - frame.footer.start + 1024;
        let layout_bytes = footer.blocks.len().saturating_mul(footer.schema.fields().len()).saturating_mul(64);
        let metadata = ExtentMetadata {
            format: "tlm",
            version: frame.magic.describe(),
            schema,
            block_rows,
            byte_size: source.identity().size,
            stats_rejected,
        };
        Ok(Self {
            metadata,
            ipc_version: footer.version,
            blocks: footer.blocks,
            dictionaries: footer.dictionaries,
            layouts,
            evidence,
            has_stats,
            // JSON and flatbuffers grow about fourfold when parsed.
            weight: metadata_bytes.saturating_mul(4).saturating_add(u64::try_from(layout_bytes).unwrap_or(u64::MAX)),
        })
    }
}

/// Row counts from the messages in front of the blocks, for files whose footer does not list them.
fn read_layouts(
    source: &dyn Source,
    tail: &Tail<'_>,
    blocks: &[MessageRange],
    layouts: &[OnceLock<Arc<BatchLayout>>],
) -> Result<Vec<u64>> {
    let mut headers: Vec<Option<Buffer>> = blocks.iter().map(|b| tail.have(&b.header)).collect();
    let missing: Vec<usize> = headers.iter().enumerate().filter(|(_, h)| h.is_none()).map(|(i, _)| i).collect();
    let ranges: Vec<Range<u64>> = missing.iter().filter_map(|i| blocks.get(*i)).map(|b| b.header.clone()).collect();
    if !ranges.is_empty() {
        for (index, buffer) in missing.into_iter().zip(source.read_many(&ranges)?) {
            if let Some(slot) = headers.get_mut(index) {
                *slot = Some(buffer);
            }
        }
    }
    let path = &source.identity().path;
    blocks
        .iter()
        .zip(headers)
        .zip(layouts)
        .enumerate()
        .map(|(i, ((block, header), slot))| {
            let layout = parse_batch(path, &format!("block {i}"), header.as_deref().unwrap_or_default(), block)?;
            Ok(slot.get_or_init(|| Arc::new(layout)).rows)
        })
        .collect()
}

/// The statistics, or why they are not used.
fn read_stats(
    tail: &mut Tail<'_>,
    range: &Range<u64>,
    schema: &SchemaRef,
    block_rows: &[u64],
) -> Result<std::result::Result<Vec<BlockColumns>, String>> {
    let length = range.end - range.start;
    if length > MAX_STATS {
        return Ok(Err(format!("the statistics have {length} bytes, more than the {MAX_STATS} that are read")));
    }
    let bytes = tail.get(range, range.start.saturating_sub(TAIL))?;
    Ok(json::parse(&bytes, schema, block_rows))
}

impl SharedMetadata for TlmMetadata {
    fn weight(&self) -> u64 {
        self.weight
    }

    fn format(&self) -> &'static str {
        "tlm"
    }

    fn attach(self: Arc<Self>, source: Arc<dyn Source>) -> Arc<dyn ExtentReader> {
        Arc::new(TlmReader { meta: self, source, dictionaries: Mutex::default() })
    }
}

/// An open TLM extent.
#[derive(Debug)]
pub struct TlmReader {
    meta: Arc<TlmMetadata>,
    source: Arc<dyn Source>,
    /// Dictionaries read so far, by id.
    dictionaries: Mutex<Arc<Dictionaries>>,
}

/// Turns a panic of a decoder into an error. Everything known to panic is checked beforehand; this is for what is not known.
fn no_panic<T>(path: &str, place: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::undecodable(path, place, format!("decoding gave up: {what}")))
    })
}

impl TlmReader {
    /// Opens the file behind `source`.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let path = source.identity().path.clone();
        let meta = no_panic(&path, "footer", || TlmMetadata::read(source.as_ref()))?;
        // What was fetched ahead has been parsed; keep the file only.
        let source = source.base().unwrap_or(source);
        Ok(Self { meta: Arc::new(meta), source, dictionaries: Mutex::default() })
    }

    fn path(&self) -> &str {
        &self.source.identity().path
    }

    fn message(&self, block: BlockId) -> Result<(usize, &MessageRange)> {
        let index = usize::try_from(block.0).unwrap_or(usize::MAX);
        let range = self.meta.blocks.get(index).ok_or_else(|| {
            Error::InvalidInput(format!(
                "{}: there is no block {index}, the extent has {}",
                self.path(),
                self.meta.blocks.len()
            ))
        })?;
        Ok((index, range))
    }

    /// The layout of a block, from memory or from its message; small blocks come with all of their bytes.
    fn layout(&self, index: usize, range: &MessageRange) -> Result<(Arc<BatchLayout>, Option<Buffer>)> {
        let known = self.meta.layouts.get(index).and_then(OnceLock::get).cloned();
        let total = range.body.end - range.header.start;
        let whole = !self.source.is_mapped() && total <= WHOLE_BLOCK;
        if let (Some(layout), false) = (&known, whole) {
            return Ok((Arc::clone(layout), None));
        }
        let fetched = self.source.read(range.header.start..if whole { range.body.end } else { range.header.end })?;
        let layout = match known {
            Some(layout) => layout,
            None => {
                let length = usize::try_from(range.header.end - range.header.start).unwrap_or(usize::MAX);
                let header = fetched.get(..length).unwrap_or(&fetched);
                let layout = Arc::new(parse_batch(self.path(), &format!("block {index}"), header, range)?);
                let expected = self.meta.metadata.block_rows.get(index).copied().unwrap_or(0);
                if layout.rows != expected {
                    let what = format!("the block has {} rows but the footer says {expected}", layout.rows);
                    return Err(Error::corrupt(
                        self.path(),
                        format!("block {index}, offset {}", range.header.start),
                        what,
                    ));
                }
                match self.meta.layouts.get(index) {
                    Some(slot) => Arc::clone(slot.get_or_init(|| layout)),
                    None => layout,
                }
            }
        };
        Ok((layout, whole.then_some(fetched)))
    }

    /// Decodes columns of one message. `fetched` are the bytes of the message from its header on, if they are there already.
    fn decode(
        &self,
        fields: &[Arc<Field>],
        wanted: &BTreeMap<usize, Vec<ColumnPart>>,
        layout: &BatchLayout,
        range: &MessageRange,
        fetched: Option<&Buffer>,
        dictionaries: &Dictionaries,
    ) -> std::result::Result<HashMap<usize, ArrayRef>, DecodeError> {
        let shape = Shape { layout, version: self.meta.ipc_version };
        let mut starts = HashMap::new();
        let (mut needed, mut ignored): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut at = Cursor::default();
        let last = wanted.keys().next_back().copied();
        for (index, field) in fields.iter().enumerate().take_while(|(i, _)| last.is_some_and(|l| *i <= l)) {
            if let Some(parts) = wanted.get(&index) {
                starts.insert(index, at);
                shape.walk(field, parts, &mut at, &mut needed)?;
            } else {
                shape.walk(field, &[], &mut at, &mut ignored)?;
                ignored.clear();
            }
        }
        let mut buffers: Vec<Option<Buffer>> = vec![None; layout.buffers.len()];
        let ranges: Vec<Range<u64>> = needed.iter().filter_map(|i| layout.buffers.get(*i).cloned()).collect();
        let bytes = match fetched {
            Some(bytes) => ranges
                .iter()
                .map(|r| {
                    let start = usize::try_from(r.start.checked_sub(range.header.start)?).ok()?;
                    let length = usize::try_from(r.end - r.start).ok()?;
                    (start.checked_add(length)? <= bytes.len()).then(|| bytes.slice_with_length(start, length))
                })
                .collect::<Option<Vec<Buffer>>>()
                .ok_or_else(|| "a buffer is outside its block".to_owned())?,
            None => self.source.read_many(&ranges)?,
        };
        for (index, buffer) in needed.into_iter().zip(bytes) {
            if let Some(slot) = buffers.get_mut(index) {
                *slot = Some(buffer);
            }
        }
        let decoder = Decoder { shape, buffers: &buffers, dictionaries };
        let mut arrays = HashMap::with_capacity(wanted.len());
        for (index, mut at) in starts {
            let field = fields.get(index).ok_or_else(|| "a column is missing".to_owned())?;
            let parts = wanted.get(&index).map(Vec::as_slice).unwrap_or_default();
            let array =
                decoder.field(field, parts, &mut at).map_err(|what| format!("column \"{}\": {what}", field.name()))?;
            if u64::try_from(array.len()).ok() != Some(layout.rows) {
                let what = format!(
                    "column \"{}\" has {} values in a block of {} rows",
                    field.name(),
                    array.len(),
                    layout.rows
                );
                return Err(what.into());
            }
            arrays.insert(index, array);
        }
        Ok(arrays)
    }

    /// The dictionaries with the given ids, read on first use.
    fn dictionaries(&self, ids: &BTreeSet<i64>) -> Result<Arc<Dictionaries>> {
        let mut known = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.is_empty() || ids.iter().all(|id| known.contains_key(id)) || self.meta.dictionaries.is_empty() {
            return Ok(Arc::clone(&known));
        }
        let mut all = Dictionaries::clone(&known);
        let headers: Vec<Range<u64>> = self.meta.dictionaries.iter().map(|d| d.header.clone()).collect();
        let headers = self.source.read_many(&headers)?;
        let fields = self.dictionary_fields();
        for (i, (range, header)) in self.meta.dictionaries.iter().zip(headers).enumerate() {
            let place = format!("dictionary {i}");
            let corrupt =
                |what: String| Error::corrupt(self.path(), format!("{place}, offset {}", range.header.start), what);
            let layout = parse_dictionary(self.path(), &place, &header, range)?;
            if !ids.contains(&layout.id) || known.contains_key(&layout.id) {
                continue;
            }
            let field =
                fields.get(&layout.id).ok_or_else(|| corrupt(format!("no column uses dictionary {}", layout.id)))?;
            let values = self
                .decode(
                    std::slice::from_ref(field),
                    &BTreeMap::from([(0, Vec::new())]),
                    &layout.batch,
                    range,
                    None,
                    &all,
                )
                .map_err(|e| e.at(&corrupt))?
                .remove(&0)
                .ok_or_else(|| corrupt("the dictionary has no values".into()))?;
            let values = match (all.get(&layout.id), layout.delta) {
                (None, _) => values,
                (Some(before), true) => concat(&[before.as_ref(), values.as_ref()])
                    .map_err(|e| Error::undecodable(self.path(), &place, e.to_string()))?,
                (Some(_), false) => return Err(corrupt(format!("dictionary {} is there twice", layout.id))),
            };
            all.insert(layout.id, values);
        }
        // An id without a dictionary is a column of nulls: remember that there is nothing to read.
        for (id, field) in fields.iter().filter(|(id, _)| ids.contains(id)) {
            all.entry(*id).or_insert_with(|| arrow::array::new_empty_array(field.data_type()));
        }
        *known = Arc::new(all);
        Ok(Arc::clone(&known))
    }

    /// The value field of every dictionary of the schema, by id.
    fn dictionary_fields(&self) -> HashMap<i64, Arc<Field>> {
        fn visit(field: &Field, out: &mut HashMap<i64, Arc<Field>>) {
            use DataType::{
                Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union,
            };
            match field.data_type() {
                Dictionary(_, values) => {
                    let values = Arc::new(Field::new("values", values.as_ref().clone(), true));
                    visit(&values, out);
                    if let Some(id) = dictionary_id(field) {
                        out.insert(id, values);
                    }
                }
                List(f) | LargeList(f) | ListView(f) | LargeListView(f) | FixedSizeList(f, _) | Map(f, _) => {
                    visit(f, out)
                }
                Struct(fields) => fields.iter().for_each(|f| visit(f, out)),
                Union(fields, _) => fields.iter().for_each(|(_, f)| visit(f, out)),
                RunEndEncoded(_, values) => visit(values, out),
                _ => {}
            }
        }
        let mut out = HashMap::new();
        self.meta.metadata.schema.fields().iter().for_each(|f| visit(f, &mut out));
        out
    }

    fn read(&self, block: BlockId, parts: &[ColumnPart]) -> Result<RecordBatch> {
        let projection: &[usize] = &ColumnPart::columns(parts);
        let (index, range) = self.message(block)?;
        let schema = &self.meta.metadata.schema;
        let projected = Arc::new(schema.project(projection).map_err(|e| {
            Error::InvalidInput(format!("{}: {e}, the extent has {} columns", self.path(), schema.fields().len()))
        })?);
        let rows = self.meta.metadata.block_rows.get(index).copied().unwrap_or(0);
        let rows = usize::try_from(rows).map_err(|e| Error::InvalidInput(e.to_string()))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let corrupt =
            |what: String| Error::corrupt(self.path(), format!("block {index}, offset {}", range.header.start), what);
        if projection.is_empty() {
            return RecordBatch::try_new_with_options(projected, Vec::new(), &options)
                .map_err(|e| corrupt(e.to_string()));
        }
        let wanted = ColumnPart::by_column(parts);
        let (layout, fetched) = self.layout(index, range)?;
        let mut ids = Vec::new();
        wanted.keys().filter_map(|i| schema.fields().get(*i)).for_each(|f| dictionary_ids(f, &mut ids));
        let dictionaries = self.dictionaries(&ids.into_iter().collect())?;
        let arrays = self
            .decode(schema.fields(), &wanted, &layout, range, fetched.as_ref(), &dictionaries)
            .map_err(|e| e.at(&corrupt))?;
        let columns: Vec<ArrayRef> = projection.iter().filter_map(|i| arrays.get(i).cloned()).collect();
        let projected = as_decoded(&projected, &columns);
        RecordBatch::try_new_with_options(projected, columns, &options)
            .map_err(|e| Error::undecodable(self.path(), format!("block {index}"), e.to_string()))
    }
}

/// Why a block cannot be decoded: its bytes cannot be had, or make no sense.
enum DecodeError {
    Read(Error),
    Corrupt(String),
}

impl DecodeError {
    fn at(self, corrupt: &dyn Fn(String) -> Error) -> Error {
        match self {
            Self::Read(error) => error,
            Self::Corrupt(what) => corrupt(what),
        }
    }
}

impl From<String> for DecodeError {
    fn from(what: String) -> Self {
        Self::Corrupt(what)
    }
}

impl From<Error> for DecodeError {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl ExtentReader for TlmReader {
    fn metadata(&self) -> &ExtentMetadata {
        &self.meta.metadata
    }

    fn io_counters(&self) -> Arc<IoCounters> {
        Arc::clone(self.source.counters())
    }

    fn shared_metadata(&self) -> Option<Arc<dyn SharedMetadata>> {
        Some(Arc::clone(&self.meta) as Arc<dyn SharedMetadata>)
    }

    fn block_evidence(&self, block: BlockId) -> Option<&dyn Evidence> {
        if !self.meta.has_stats {
            return None;
        }
        let evidence = self.meta.evidence.get(usize::try_from(block.0).ok()?)?;
        Some(evidence)
    }

    fn block_location(&self, block: BlockId) -> Option<BlockLocation> {
        let range = self.meta.blocks.get(usize::try_from(block.0).ok()?)?;
        Some(BlockLocation { offset: range.header.start, length: range.body.end - range.header.start })
    }

    fn evaluate_block(&self, block: BlockId, predicate: &BlockPredicate) -> Result<Outcomes> {
        let (index, _) = self.message(block)?;
        // Without statistics a predicate can still be decided by the columns that the file does not have.
        Ok(self.meta.evidence.get(index).map_or(Outcomes::ANY, |evidence| evaluate(predicate, evidence)))
    }

    fn pruned_blocks(&self, predicate: &BlockPredicate) -> Result<Vec<BlockId>> {
        let count = u32::try_from(self.meta.blocks.len()).unwrap_or(u32::MAX);
        let mut kept = Vec::new();
        for block in (0..count).map(BlockId) {
            if self.evaluate_block(block, predicate)?.may_be_true() {
                kept.push(block);
            }
        }
        Ok(kept)
    }

    fn read_block(&self, block: BlockId, projection: &[usize]) -> Result<RecordBatch> {
        self.read_parts(block, &ColumnPart::all_whole(projection))
    }

    fn read_rows(&self, block: BlockId, projection: &[usize], rows: &RowRanges) -> Result<RecordBatch> {
        self.select(block, self.read_block(block, projection)?, rows)
    }

    fn stream_rows(
        &self,
        block: BlockId,
        projection: &[ColumnPart],
        rows: &RowRanges,
        _batch_rows: usize,
    ) -> Result<Box<dyn RowStream>> {
        // the buffers of a block are compressed as a whole
        Ok(Box::new(Some(self.select(block, self.read_parts(block, projection)?, rows)?)))
    }
}

impl TlmReader {
    fn read_parts(&self, block: BlockId, parts: &[ColumnPart]) -> Result<RecordBatch> {
        no_panic(self.path(), &format!("block {}", block.0), || self.read(block, parts))
    }

    fn select(&self, block: BlockId, batch: RecordBatch, rows: &RowRanges) -> Result<RecordBatch> {
        select(&batch, rows).map_err(|what| Error::InvalidInput(format!("{}, block {}: {what}", self.path(), block.0)))
    }
}
