//! A segment as an extent with the columns of its table: what the Parquet reader gives, cast to the table's types, NULL where
//! the segment lacks a column, plus the source's columns and the wall clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, MapBuilder, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
    TimestampNanosecondArray, UInt32Array, new_null_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::schema::{TableSchema, TimeColumn, VirtualColumn, ns_per};
use super::snapshot::Snapshot;
use super::table::{Segment, SegmentEvidence};
use crate::format::{BlockId, BlockLocation, ExtentMetadata, ExtentReader, RowRanges, SegmentFormat};
use crate::predicate::{BlockPredicate, ColumnStats, Evidence, Outcomes, Scalar, evaluate};
use crate::storage::IoCounters;
use crate::{Error, Result};

/// Where a column of the table comes from in this segment.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// Column of the segment, by index.
    Inner(usize),
    /// The segment does not have it.
    Missing,
    Virtual(VirtualColumn),
}

/// One segment, opened, with its table's columns. Block numbers are the Parquet file's row groups.
pub struct SegmentExtent {
    inner: Arc<dyn ExtentReader>,
    segment: Segment,
    path: String,
    metadata: ExtentMetadata,
    origins: Vec<Origin>,
    /// The row timestamps: index in the segment, and how to read them.
    time: Option<(usize, TimeColumn)>,
    virtual_names: Vec<String>,
    /// Columns whose values are converted in a way that the segment's evidence does not survive.
    converted: Arc<BTreeSet<String>>,
    evidence: Vec<BlockEvidence>,
}

impl std::fmt::Debug for SegmentExtent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentExtent").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Opens `segment`, which must come from this snapshot's catalog, with the columns of `schema`.
    ///
    /// # Errors
    /// Whatever `format` says about damaged bytes, naming source, stream and segment; [`Error::Unsupported`] when the segment
    /// has a column that `schema` lacks (it was sampled) or a type that does not convert; [`Error::Corrupt`] when the segment
    /// contradicts the choice of the timestamp column.
    pub fn open_segment(
        self: &Arc<Self>,
        schema: &TableSchema,
        segment: &Segment,
        format: &dyn SegmentFormat,
    ) -> Result<Arc<dyn ExtentReader>> {
        let inner = format.open_extent(self.segment_source(segment))?;
        if let Some(time) = schema.time_column() {
            time.check(self.path(), segment, inner.as_ref())?;
        }
        Ok(Arc::new(SegmentExtent::new(self.path(), schema, segment, inner)?))
    }
}

impl SegmentExtent {
    fn new(path: &str, table: &TableSchema, segment: &Segment, inner: Arc<dyn ExtentReader>) -> Result<Self> {
        let path = format!("{path} ({})", segment.describe());
        let own = inner.metadata().schema.clone();
        let mut origins = Vec::with_capacity(table.schema().fields().len());
        let mut used = 0usize;
        let mut converted = BTreeSet::new();
        for (index, field) in table.schema().fields().iter().enumerate() {
            if let Some(column) = table.virtual_at(index) {
                origins.push(Origin::Virtual(column));
                continue;
            }
            let Ok(at) = own.index_of(field.name()) else {
                origins.push(Origin::Missing);
                continue;
            };
            let have = own.field(at).data_type();
            if have != field.data_type() && !arrow::compute::can_cast_types(have, field.data_type()) {
                return Err(unforeseen(
                    &path,
                    format!("column \"{}\" as {have} instead of {}", field.name(), field.data_type()),
                ));
            }
            if !evidence_survives(have, field.data_type()) {
                converted.insert(field.name().clone());
            }
            used += 1;
            origins.push(Origin::Inner(at));
        }
        if used < own.fields().len() {
            let known = |name: &str| {
                table.schema().fields().iter().take(table.segment_columns()).any(|field| field.name() == name)
            };
            let extra: Vec<String> =
                own.fields().iter().filter(|f| !known(f.name())).map(|f| format!("\"{}\"", f.name())).collect();
            if !extra.is_empty() {
                return Err(unforeseen(&path, format!("columns the others do not: {}", extra.join(", "))));
            }
        }
        let time = table.time_column().and_then(|t| Some((own.index_of(&t.name).ok()?, t.clone())));
        let shared = Arc::new(SegmentEvidence::new(table, segment));
        let virtual_names: Vec<String> = table.virtual_columns().map(|(name, _)| name.to_string()).collect();
        let converted = Arc::new(converted);
        let inner_metadata = inner.metadata();
        let metadata = ExtentMetadata { schema: table.schema().clone(), ..inner_metadata.clone() };
        let blocks = u32::try_from(inner_metadata.block_rows.len()).unwrap_or(u32::MAX);
        let evidence = (0..blocks)
            .map(|block| BlockEvidence {
                inner: inner.clone(),
                block: BlockId(block),
                own: own.clone(),
                virtual_names: virtual_names.clone(),
                converted: converted.clone(),
                segment: shared.clone(),
            })
            .collect();
        Ok(Self { inner, segment: segment.clone(), path, metadata, origins, time, virtual_names, converted, evidence })
    }

    /// The same condition for the Parquet reader, which does not know the virtual columns: a test of one of them is unknown to
    /// it, not a test of a column that is missing. So is a test of a column whose values it has before their conversion.
    fn inner_predicate(&self, predicate: &BlockPredicate) -> BlockPredicate {
        let all = |list: &[BlockPredicate]| list.iter().map(|p| self.inner_predicate(p)).collect();
        match predicate {
            BlockPredicate::And(list) => BlockPredicate::And(all(list)),
            BlockPredicate::Or(list) => BlockPredicate::Or(all(list)),
            BlockPredicate::Not(inner) => BlockPredicate::Not(Box::new(self.inner_predicate(inner))),
            BlockPredicate::Unknown(_) | BlockPredicate::Constant(_) => predicate.clone(),
            BlockPredicate::TimeRange { column, .. }
            | BlockPredicate::Compare { column, .. }
            | BlockPredicate::InSet { column, .. }
            | BlockPredicate::IsNull { column }
            | BlockPredicate::Text { column, .. }
            | BlockPredicate::HasToken { column, .. }
            | BlockPredicate::DynamicPathExists { column, .. }
            | BlockPredicate::DynamicPathEquals { column, .. } => {
                if self.virtual_names.contains(column) {
                    BlockPredicate::Unknown(format!("\"{column}\" is not in the segment"))
                } else if self.converted.contains(column) {
                    BlockPredicate::Unknown(format!("\"{column}\" has another type in the segment"))
                } else {
                    predicate.clone()
                }
            }
        }
    }

    /// The columns to ask the segment for, each once, and the position of the row timestamps among them if they are needed.
    fn inner_projection(&self, projection: &[usize]) -> Result<(Vec<usize>, Option<usize>)> {
        let mut wanted: Vec<usize> = Vec::with_capacity(projection.len());
        let mut need_time = false;
        for index in projection {
            match self.origins.get(*index) {
                Some(Origin::Inner(at)) if !wanted.contains(at) => wanted.push(*at),
                Some(Origin::Virtual(VirtualColumn::WallTs)) => need_time = true,
                Some(_) => {}
                None => return Err(Error::InvalidInput(format!("{}: no column number {index}", self.path))),
            }
        }
        let Some((at, _)) = self.time.as_ref().filter(|_| need_time) else { return Ok((wanted, None)) };
        let position = wanted.iter().position(|w| w == at).unwrap_or_else(|| {
            wanted.push(*at);
            wanted.len() - 1
        });
        Ok((wanted, Some(position)))
    }

    fn assemble(
        &self,
        projection: &[usize],
        wanted: &[usize],
        time_at: Option<usize>,
        batch: &RecordBatch,
    ) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let failed = |e: arrow::error::ArrowError| Error::corrupt(self.path.clone(), "a block", e.to_string());
        let mut fields: Vec<Arc<Field>> = Vec::with_capacity(projection.len());
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(projection.len());
        for index in projection {
            let field = Arc::new(self.metadata.schema.field(*index).clone());
            let column = match self.origins.get(*index) {
                Some(Origin::Inner(at)) => {
                    let position = wanted.iter().position(|w| w == at).unwrap_or(usize::MAX);
                    let column = batch.columns().get(position).ok_or_else(|| {
                        Error::corrupt(
                            self.path.clone(),
                            "a block",
                            format!("column \"{}\" was not read", field.name()),
                        )
                    })?;
                    if column.data_type() == field.data_type() {
                        column.clone()
                    } else {
                        let strict = CastOptions { safe: false, ..CastOptions::default() };
                        cast_with_options(column, field.data_type(), &strict).map_err(failed)?
                    }
                }
                Some(Origin::Virtual(column)) => {
                    let time = time_at.and_then(|at| batch.columns().get(at));
                    self.virtual_array(*column, rows, time, field.data_type()).map_err(failed)?
                }
                Some(Origin::Missing) | None => new_null_array(field.data_type(), rows),
            };
            fields.push(field);
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(failed)
    }

    fn virtual_array(
        &self,
        column: VirtualColumn,
        rows: usize,
        time: Option<&ArrayRef>,
        data_type: &DataType,
    ) -> std::result::Result<ArrayRef, arrow::error::ArrowError> {
        let source = &self.segment.source;
        Ok(match column {
            VirtualColumn::SourceId => Arc::new(Int64Array::from_value(source.id, rows)),
            VirtualColumn::SourceUuid => match &source.uuid {
                Some(uuid) => repeat(&StringArray::from_iter_values([uuid]), rows)?,
                None => new_null_array(data_type, rows),
            },
            VirtualColumn::Labels => {
                let mut labels = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
                for (key, value) in &source.labels {
                    labels.keys().append_value(key);
                    labels.values().append_value(value);
                }
                labels.append(true)?;
                repeat(&labels.finish(), rows)?
            }
            VirtualColumn::WallTs => match (time, &self.time) {
                (Some(time), Some((_, column))) => Arc::new(self.wall_clock(time, column)?),
                _ => new_null_array(data_type, rows),
            },
        })
    }

    fn wall_clock(
        &self,
        time: &ArrayRef,
        column: &TimeColumn,
    ) -> std::result::Result<TimestampNanosecondArray, arrow::error::ArrowError> {
        // the segment may have another unit than the table
        let unit = match time.data_type() {
            DataType::Timestamp(unit, _) => ns_per(*unit),
            _ => column.unit,
        };
        // UInt64 values beyond Int64 become NULL, which is what is known about their wall clock.
        let raw = match time.data_type() {
            DataType::Timestamp(unit, _) => cast(&cast(time, &DataType::Timestamp(*unit, None))?, &DataType::Int64)?,
            _ => cast(time, &DataType::Int64)?,
        };
        let raw = raw.as_any().downcast_ref::<Int64Array>().ok_or_else(|| {
            arrow::error::ArrowError::CastError(format!("column \"{}\" is not read as integers", column.name))
        })?;
        let clock = &self.segment.source.clock;
        Ok(raw.iter().map(|v| clock.wall_ts(v?.checked_mul(unit)?)).collect())
    }
}

/// Whether what is known about values of the type `have` holds for them as `want`: the conversion is exact, and both are spoken of
/// in the same kind of constants.
fn evidence_survives(have: &DataType, want: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Dictionary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8,
        Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let integer = |t: &DataType| match t {
        Int8 => Some((true, 8)),
        Int16 => Some((true, 16)),
        Int32 => Some((true, 32)),
        Int64 => Some((true, 64)),
        UInt8 => Some((false, 8)),
        UInt16 => Some((false, 16)),
        UInt32 => Some((false, 32)),
        UInt64 => Some((false, 64)),
        _ => None,
    };
    if let (Some((signed, bits)), Some((want_signed, want_bits))) = (integer(have), integer(want)) {
        return if signed == want_signed { bits <= want_bits } else { want_signed && bits < want_bits };
    }
    match (have, want) {
        (Dictionary(_, have), Dictionary(_, want)) => evidence_survives(have, want),
        (Dictionary(_, have), want) => evidence_survives(have, want),
        (have, Dictionary(_, want)) => evidence_survives(have, want),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView)
        | (Float16, Float32 | Float64)
        | (Float32, Float64) => true,
        (Timestamp(have, zone), Timestamp(want, want_zone)) => {
            zone.is_some() == want_zone.is_some() && ns_per(*want) <= ns_per(*have)
        }
        _ => have == want,
    }
}

fn unforeseen(path: &str, what: String) -> Error {
    Error::unsupported(path, format!("the segment has {what}; read the stream with union_by_name := true"))
}

/// The only value of `one`, `rows` times.
fn repeat(one: &dyn Array, rows: usize) -> std::result::Result<ArrayRef, arrow::error::ArrowError> {
    take(one, &UInt32Array::from_value(0, rows), None)
}

impl ExtentReader for SegmentExtent {
    fn metadata(&self) -> &ExtentMetadata {
        &self.metadata
    }

    fn io_counters(&self) -> Arc<IoCounters> {
        self.inner.io_counters()
    }

    fn block_evidence(&self, block: BlockId) -> Option<&dyn Evidence> {
        self.evidence.get(usize::try_from(block.0).ok()?).map(|evidence| evidence as &dyn Evidence)
    }

    fn block_location(&self, block: BlockId) -> Option<BlockLocation> {
        self.inner.block_location(block)
    }

    fn has_finer_evidence(&self) -> bool {
        self.inner.has_finer_evidence()
    }

    fn evaluate_block(&self, block: BlockId, predicate: &BlockPredicate) -> Result<Outcomes> {
        if let Some(evidence) = self.block_evidence(block) {
            let outcomes = evaluate(predicate, evidence);
            if outcomes.skips() {
                return Ok(outcomes);
            }
        }
        self.inner.evaluate_block(block, &self.inner_predicate(predicate))
    }

    fn pruned_blocks(&self, predicate: &BlockPredicate) -> Result<Vec<BlockId>> {
        let mut blocks = self.inner.pruned_blocks(&self.inner_predicate(predicate))?;
        blocks.retain(|block| self.block_evidence(*block).is_none_or(|e| !evaluate(predicate, e).skips()));
        Ok(blocks)
    }

    fn read_block(&self, block: BlockId, projection: &[usize]) -> Result<RecordBatch> {
        let (wanted, time_at) = self.inner_projection(projection)?;
        let batch = self.inner.read_block(block, &wanted)?;
        self.assemble(projection, &wanted, time_at, &batch)
    }

    fn candidate_rows(&self, block: BlockId, predicate: &BlockPredicate) -> Result<RowRanges> {
        self.inner.candidate_rows(block, &self.inner_predicate(predicate))
    }

    fn read_rows(&self, block: BlockId, projection: &[usize], rows: &RowRanges) -> Result<RecordBatch> {
        let (wanted, time_at) = self.inner_projection(projection)?;
        let batch = self.inner.read_rows(block, &wanted, rows)?;
        self.assemble(projection, &wanted, time_at, &batch)
    }
}

/// What is known about a block: the footer's statistics, and the catalog's for the columns that are not in the segment.
struct BlockEvidence {
    inner: Arc<dyn ExtentReader>,
    block: BlockId,
    own: SchemaRef,
    virtual_names: Vec<String>,
    converted: Arc<BTreeSet<String>>,
    segment: Arc<SegmentEvidence>,
}

impl BlockEvidence {
    fn is_virtual(&self, name: &str) -> bool {
        self.virtual_names.iter().any(|n| n == name)
    }

    /// The footer's evidence, for columns that are the segment's and mean the same in the table.
    fn footer(&self, name: &str) -> Option<&dyn Evidence> {
        if self.is_virtual(name) || self.converted.contains(name) {
            None
        } else {
            self.inner.block_evidence(self.block)
        }
    }
}

impl Evidence for BlockEvidence {
    fn row_count(&self) -> Option<u64> {
        let block = usize::try_from(self.block.0).ok()?;
        self.inner.metadata().block_rows.get(block).copied()
    }

    fn column(&self, name: &str) -> Option<ColumnStats> {
        if !self.has_column(name) {
            return None;
        }
        self.footer(name).and_then(|e| e.column(name)).or_else(|| self.segment.column(name))
    }

    fn has_column(&self, name: &str) -> bool {
        self.is_virtual(name) || self.own.index_of(name).is_ok()
    }

    fn distinct(&self, name: &str) -> Option<&[Scalar]> {
        self.footer(name)?.distinct(name)
    }

    fn tokens(&self, name: &str) -> Option<&[String]> {
        self.footer(name)?.tokens(name)
    }

    fn may_contain(&self, name: &str, value: &Scalar) -> Option<bool> {
        self.footer(name)?.may_contain(name, value)
    }

    fn may_have_path(&self, name: &str, path: &[String]) -> Option<bool> {
        self.footer(name)?.may_have_path(name, path)
    }
}
