//! The columns of a stream as a table: the union over its segments, plus what the catalog adds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::batches::labels_type;
use super::catalog::SegmentInfo;
use super::snapshot::Snapshot;
use super::table::{Segment, StreamTable};
use crate::format::{BlockId, ExtentReader, SegmentFormat};
use crate::predicate::Scalar;
use crate::{Error, Result};

/// Segments looked at when the schema is sampled, besides the first and last of every source.
const SAMPLES: usize = 16;

/// Most segments looked at when the schema is sampled and keeps differing.
const MOST_SAMPLES: usize = 256;

/// Which segments' footers are read to learn the columns of a stream. The catalog does not know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaScope {
    /// The first and last of every source, some in between, and more where neighbours differ. A scan that meets a column this
    /// missed is an error that names [`SchemaScope::All`]'s option, `union_by_name`.
    #[default]
    Sample,
    /// All of them.
    All,
}

/// Which column holds the row timestamps that the catalog's bounds are about. The catalog does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TimeColumnChoice {
    /// The column whose smallest and largest value equal `first_ts` and `last_ts` in every segment looked at, if there is one.
    #[default]
    Infer,
    /// This one.
    Named(String),
    /// None: no pruning by the catalog, and no wall clock.
    Off,
}

/// A column with the row timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeColumn {
    /// Index into the table's schema.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Row timestamps per unit of the column: 1 for integers and nanoseconds, 1000 for microseconds, and so on.
    pub unit: i64,
    timestamp: bool,
}

/// A column that is not in the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VirtualColumn {
    /// `source_id`: the source's id in this file, Int64.
    SourceId,
    /// `source_uuid`: the source's identity across files, Utf8, NULL when unknown.
    SourceUuid,
    /// `labels`: the source's labels, Map(Utf8, Utf8).
    Labels,
    /// `wall_ts`: the wall clock at the row, Timestamp(ns); NULL when the clock was not observed.
    WallTs,
}

impl VirtualColumn {
    const ALL: [Self; 4] = [Self::SourceId, Self::SourceUuid, Self::Labels, Self::WallTs];

    /// The name it has unless a segment has a column of that name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SourceId => "source_id",
            Self::SourceUuid => "source_uuid",
            Self::Labels => "labels",
            Self::WallTs => "wall_ts",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::SourceId => DataType::Int64,
            Self::SourceUuid => DataType::Utf8,
            Self::Labels => labels_type(),
            Self::WallTs => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }
}

/// The columns of a [`StreamTable`].
#[derive(Debug, Clone)]
pub struct TableSchema {
    schema: SchemaRef,
    segment_columns: usize,
    time: Option<TimeColumn>,
    /// Segments whose footer was read.
    pub probed: usize,
    /// Every segment was looked at.
    pub exact: bool,
    /// Segments that could not be opened, and why. Reading them is an error; the others read.
    pub unreadable: Vec<String>,
}

impl TimeColumn {
    fn of(schema: &Schema, index: usize) -> Option<Self> {
        let field = schema.fields().get(index)?;
        let (unit, timestamp) = match field.data_type() {
            DataType::Int64 | DataType::UInt64 => (1, false),
            DataType::Timestamp(unit, _) => (ns_per(*unit), true),
            _ => return None,
        };
        Some(Self { index, name: field.name().clone(), unit, timestamp })
    }

    /// `ns`, a multiple of the unit, as a constant comparable with the column.
    fn scalar(&self, ns: i128) -> Scalar {
        if self.timestamp { Scalar::TimestampNs(ns) } else { Scalar::Int(ns) }
    }

    /// A lower bound of the column where `ts` is one of the row timestamps.
    pub fn lower(&self, ts: i64) -> Scalar {
        let unit = i128::from(self.unit);
        self.scalar(i128::from(ts).div_euclid(unit) * unit)
    }

    /// An upper bound of the column where `ts` is one of the row timestamps, whichever way the producer rounded.
    pub fn upper(&self, ts: i64) -> Scalar {
        let unit = i128::from(self.unit);
        self.scalar(-(-i128::from(ts)).div_euclid(unit) * unit)
    }

    /// Row timestamps between which every value of the column lies where `bounds` are the catalog's; `None` when that leaves
    /// the range of a row timestamp.
    pub fn span(&self, (first, last): (i64, i64)) -> Option<(i64, i64)> {
        let unit = i128::from(self.unit);
        let low = i128::from(first).div_euclid(unit) * unit;
        let high = -(-i128::from(last)).div_euclid(unit) * unit;
        Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
    }

    fn matches(&self, segment: &SegmentInfo, (min, max): &(Scalar, Scalar)) -> bool {
        *min == self.lower(segment.first_ts) && *max == self.lower(segment.last_ts)
    }

    /// Whether statistics of the column stay within the catalog's bounds. Unknown does.
    fn within(&self, segment: &SegmentInfo, (min, max): &(Scalar, Scalar)) -> bool {
        let number = |scalar: &Scalar| match scalar {
            Scalar::Int(v) | Scalar::TimestampNs(v) => Some(*v),
            _ => None,
        };
        let Some((first, last)) = segment.ts_bounds() else { return true };
        let low = number(&self.lower(first)).zip(number(min)).is_none_or(|(bound, v)| bound <= v);
        let high = number(&self.upper(last)).zip(number(max)).is_none_or(|(bound, v)| v <= bound);
        low && high
    }

    /// Fails when the footer of `segment` contradicts the catalog about this column: then the catalog must not prune by it.
    pub(super) fn check(&self, path: &str, segment: &Segment, reader: &dyn ExtentReader) -> Result<()> {
        match column_bounds(reader, &self.name) {
            Some(bounds) if !self.within(&segment.info, &bounds) => Err(Error::corrupt(
                path,
                segment.describe(),
                format!(
                    "column \"{}\" has values outside the segment's row timestamps {}..{}, so it does not hold the row \
                     timestamps; name the column that does with ts_column, or '' for none",
                    self.name, segment.info.first_ts, segment.info.last_ts
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// Nanoseconds in one unit.
pub(super) fn ns_per(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

impl TableSchema {
    /// Segment columns first, then the virtual ones. Every column is nullable: a segment may lack it.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many of the columns come from the segments.
    pub fn segment_columns(&self) -> usize {
        self.segment_columns
    }

    /// The column with the row timestamps, if known.
    pub fn time_column(&self) -> Option<&TimeColumn> {
        self.time.as_ref()
    }

    /// The virtual columns and their names in this table, in schema order.
    pub fn virtual_columns(&self) -> impl Iterator<Item = (&str, VirtualColumn)> {
        let names = self.schema.fields().iter().skip(self.segment_columns).map(|f| f.name().as_str());
        names.zip(VirtualColumn::ALL)
    }

    /// Which virtual column stands at `index`.
    pub fn virtual_at(&self, index: usize) -> Option<VirtualColumn> {
        VirtualColumn::ALL.get(index.checked_sub(self.segment_columns)?).copied()
    }

    fn new(columns: Vec<Arc<Field>>) -> Self {
        let segment_columns = columns.len();
        let mut taken: BTreeSet<String> = columns.iter().map(|f| f.name().to_lowercase()).collect();
        let mut fields = columns;
        for column in VirtualColumn::ALL {
            let mut name = column.name().to_string();
            let mut suffix = 1;
            while !taken.insert(name.clone()) {
                name = format!("{}_{suffix}", column.name());
                suffix += 1;
            }
            fields.push(Arc::new(Field::new(name, column.data_type(), true)));
        }
        Self {
            schema: Arc::new(Schema::new(fields)),
            segment_columns,
            time: None,
            probed: 0,
            exact: true,
            unreadable: Vec::new(),
        }
    }
}

/// What one footer says.
struct Probe {
    schema: SchemaRef,
    /// Smallest and largest value of the columns that could hold row timestamps; absent is unknown.
    bounds: BTreeMap<String, (Scalar, Scalar)>,
    empty: bool,
}

/// Smallest and largest value of a column over all blocks, if every block knows.
fn column_bounds(reader: &dyn ExtentReader, name: &str) -> Option<(Scalar, Scalar)> {
    let number = |scalar: &Scalar| match scalar {
        Scalar::Int(v) | Scalar::TimestampNs(v) => Some(*v),
        _ => None,
    };
    let mut found: Option<(Scalar, Scalar)> = None;
    for (block, rows) in reader.metadata().block_rows.iter().enumerate() {
        if *rows == 0 {
            continue;
        }
        let stats = reader.block_evidence(BlockId(u32::try_from(block).ok()?))?.column(name)?;
        let (min, max) = (stats.min?, stats.max?);
        found = Some(match found {
            None => (min, max),
            Some((low, high)) => (
                if number(&min)? < number(&low)? { min } else { low },
                if number(&max)? > number(&high)? { max } else { high },
            ),
        });
    }
    found
}

impl Snapshot {
    /// Learns the columns of `table` from segment footers, read with `format` (Parquet).
    ///
    /// # Errors
    /// The first failure when no segment can be opened; [`Error::Unsupported`] when a column has types that have no common one;
    /// [`Error::InvalidInput`] when the named time column does not exist or cannot hold row timestamps.
    pub fn table_schema(
        self: &Arc<Self>,
        table: &StreamTable,
        format: &dyn SegmentFormat,
        scope: SchemaScope,
        time: &TimeColumnChoice,
    ) -> Result<TableSchema> {
        let segments = table.segments();
        let mut probes: BTreeMap<usize, Probe> = BTreeMap::new();
        let mut failed: BTreeMap<usize, Error> = BTreeMap::new();
        let mut pending: Vec<usize> = match scope {
            SchemaScope::All => (0..segments.len()).collect(),
            SchemaScope::Sample => samples(table, segments.len()),
        };
        while !pending.is_empty() {
            for index in pending.drain(..) {
                let Some(segment) = segments.get(index) else { continue };
                match self.probe(segment, format) {
                    Ok(probe) => drop(probes.insert(index, probe)),
                    // Damage stays within its segment; anything else would hit the others as well.
                    Err(e @ (Error::Corrupt { .. } | Error::Unsupported { .. })) => drop(failed.insert(index, e)),
                    Err(e) => return Err(e),
                }
            }
            if scope == SchemaScope::Sample && probes.len() < MOST_SAMPLES {
                pending = between_differing(&probes, &failed);
            }
        }
        if probes.is_empty()
            && let Some((_, e)) = failed.pop_first()
        {
            return Err(e);
        }
        let columns = union(table, &segments, &probes)?;
        let mut schema = TableSchema::new(columns);
        schema.probed = probes.len() + failed.len();
        schema.exact = schema.probed == segments.len();
        schema.unreadable = failed.into_values().map(|e| e.to_string()).collect();
        schema.time = choose_time(table, &segments, &probes, &schema, time)?;
        Ok(schema)
    }

    fn probe(self: &Arc<Self>, segment: &Segment, format: &dyn SegmentFormat) -> Result<Probe> {
        let reader = format.open_extent(self.segment_source(segment))?;
        let schema = reader.metadata().schema.clone();
        let bounds = (0..schema.fields().len())
            .filter_map(|index| TimeColumn::of(&schema, index))
            .filter_map(|column| Some((column.name.clone(), column_bounds(reader.as_ref(), &column.name)?)))
            .collect();
        Ok(Probe { schema, bounds, empty: reader.metadata().row_count() == 0 })
    }
}

/// The first and last segment of every source, and some in between, as indices into the table's segments.
fn samples(table: &StreamTable, count: usize) -> Vec<usize> {
    let mut chosen = BTreeSet::new();
    let mut start = 0usize;
    for (_, stream) in &table.parts {
        if let Some(last) = stream.segments.len().checked_sub(1) {
            chosen.extend([start, start + last]);
        }
        start += stream.segments.len();
    }
    let steps = SAMPLES.min(count);
    chosen.extend((0..steps).map(|i| i * count / steps.max(1)));
    chosen.into_iter().filter(|i| *i < count).collect()
}

/// Segments halfway between neighbours whose schemas differ, so that the places where columns come and go are found.
fn between_differing(probes: &BTreeMap<usize, Probe>, failed: &BTreeMap<usize, Error>) -> Vec<usize> {
    let pairs = probes.iter().zip(probes.iter().skip(1));
    pairs
        .filter(|((_, a), (_, b))| a.schema.fields() != b.schema.fields())
        .map(|((i, _), (j, _))| i + (j - i) / 2)
        .filter(|middle| !probes.contains_key(middle) && !failed.contains_key(middle))
        .collect()
}

fn union(table: &StreamTable, segments: &[Segment], probes: &BTreeMap<usize, Probe>) -> Result<Vec<Arc<Field>>> {
    let mut order: Vec<(Arc<Field>, usize)> = Vec::new();
    let mut position: BTreeMap<String, usize> = BTreeMap::new();
    for (index, probe) in probes {
        for field in probe.schema.fields() {
            let Some((seen, first)) = position.get(field.name()).and_then(|at| order.get_mut(*at)) else {
                position.insert(field.name().clone(), order.len());
                order.push((Arc::new(field.as_ref().clone().with_nullable(true)), *index));
                continue;
            };
            if seen.data_type() == field.data_type() {
                continue;
            }
            let common = common_type(seen.data_type(), field.data_type()).ok_or_else(|| {
                let name = |i: usize| segments.get(i).map(Segment::describe).unwrap_or_default();
                Error::unsupported(
                    table.path.clone(),
                    format!(
                        "column \"{}\" is {} in {} and {} in {}, which have no common type; read the sources apart",
                        field.name(),
                        seen.data_type(),
                        name(*first),
                        field.data_type(),
                        name(*index)
                    ),
                )
            })?;
            *seen = Arc::new(seen.as_ref().clone().with_data_type(common));
        }
    }
    Ok(order.into_iter().map(|(field, _)| field).collect())
}

/// The type that holds every value of both exactly, if there is one.
fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Dictionary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8,
        Null, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    if a == b {
        return Some(a.clone());
    }
    let rank = |t: &DataType| match t {
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
    let signed = |bits| match bits {
        8 => Some(Int8),
        16 => Some(Int16),
        32 => Some(Int32),
        64 => Some(Int64),
        _ => None,
    };
    if let (Some((sa, ba)), Some((sb, bb))) = (rank(a), rank(b)) {
        return match (sa, sb) {
            (true, true) => signed(ba.max(bb)),
            (false, false) => Some(if ba > bb { a.clone() } else { b.clone() }),
            (true, false) => signed(ba.max(bb * 2)),
            (false, true) => signed(bb.max(ba * 2)),
        };
    }
    match (a, b) {
        (Null, other) | (other, Null) => Some(other.clone()),
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => common_type(value, other),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Some(LargeUtf8),
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => Some(LargeBinary),
        (Float16 | Float32, Float16 | Float32) => Some(Float32),
        (Float16 | Float32, Float64) | (Float64, Float16 | Float32) => Some(Float64),
        (Float64, int) | (int, Float64) => rank(int).filter(|(_, bits)| *bits <= 32).map(|_| Float64),
        _ => None,
    }
}

fn choose_time(
    table: &StreamTable,
    segments: &[Segment],
    probes: &BTreeMap<usize, Probe>,
    schema: &TableSchema,
    choice: &TimeColumnChoice,
) -> Result<Option<TimeColumn>> {
    let fields = schema.schema.fields();
    let candidates =
        || (0..schema.segment_columns).filter_map(|index| TimeColumn::of(&schema.schema, index)).collect::<Vec<_>>();
    let probed = || probes.iter().filter_map(|(i, probe)| Some((segments.get(*i)?, probe))).filter(|(_, p)| !p.empty);
    match choice {
        TimeColumnChoice::Off => Ok(None),
        TimeColumnChoice::Named(name) => {
            let index = fields.iter().take(schema.segment_columns).position(|f| f.name().eq_ignore_ascii_case(name));
            let column = index.and_then(|index| TimeColumn::of(&schema.schema, index)).ok_or_else(|| {
                let names: Vec<String> = candidates().into_iter().map(|c| format!("\"{}\"", c.name)).collect();
                Error::InvalidInput(format!(
                    "{}: stream \"{}\" has no integer or timestamp column \"{name}\" for ts_column; it has {}",
                    table.path,
                    table.name,
                    if names.is_empty() { "none".to_string() } else { names.join(", ") }
                ))
            })?;
            for (segment, probe) in probed() {
                if probe.bounds.get(&column.name).is_some_and(|bounds| !column.within(&segment.info, bounds)) {
                    return Err(Error::InvalidInput(format!(
                        "{}: ts_column \"{name}\" has values outside the row timestamps of {}; it does not hold them",
                        table.path,
                        segment.describe()
                    )));
                }
            }
            Ok(Some(column))
        }
        TimeColumnChoice::Infer => {
            let fits = |column: &TimeColumn| {
                let mut evidence = probed().map(|(segment, probe)| {
                    probe.bounds.get(&column.name).is_some_and(|bounds| column.matches(&segment.info, bounds))
                });
                probed().next().is_some() && evidence.all(|fits| fits)
            };
            let mut fitting: Vec<TimeColumn> = candidates().into_iter().filter(fits).collect();
            let usual = ["timestamp", "ts", "time"];
            fitting.sort_by_key(|c| usual.iter().position(|n| c.name.eq_ignore_ascii_case(n)).unwrap_or(usual.len()));
            Ok(fitting.into_iter().next())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_types_lose_nothing() {
        use DataType::*;
        assert_eq!(common_type(&Int32, &Int64), Some(Int64));
        assert_eq!(common_type(&UInt32, &Int8), Some(Int64));
        assert_eq!(common_type(&UInt64, &Int64), None);
        assert_eq!(common_type(&Int64, &Float64), None);
        assert_eq!(common_type(&Int32, &Float64), Some(Float64));
        assert_eq!(common_type(&Null, &Utf8), Some(Utf8));
        assert_eq!(common_type(&Utf8, &Int64), None);
        let dictionary = Dictionary(Box::new(Int32), Box::new(Utf8));
        assert_eq!(common_type(&dictionary, &Utf8), Some(Utf8));
    }

    #[test]
    fn bounds_of_a_coarser_column_are_widened() {
        let schema = Schema::new(vec![Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true)]);
        let column = TimeColumn::of(&schema, 0).unwrap();
        assert_eq!(column.lower(-1), Scalar::TimestampNs(-1000));
        assert_eq!(column.upper(-1), Scalar::TimestampNs(0));
        assert_eq!(column.upper(1), Scalar::TimestampNs(1000));
        assert_eq!(column.lower(i64::MIN), Scalar::TimestampNs(-9_223_372_036_854_776_000));
    }
}
