//! The plain data that crosses the [`Catalog`](super::Catalog) trait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::ColumnType;
use crate::format::ExtentWriteResult;
use crate::stats::extent::TimeRange;
use crate::{Error, Result};

/// A database and a table in it. Names are exact: no case folding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The database (a schema to DuckDB).
    pub database: String,
    /// The table.
    pub table: String,
}

impl TableName {
    /// `database.table`.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self { database: database.into(), table: table.into() }
    }

    /// Reads `database.table`. A name in double quotes may hold anything, a quote doubled; one without ends at the first dot if it is the
    /// database's.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::InvalidInput(format!(
                "\"{text}\" is not a table name: write database.table, and a name with dots or quotes as \"a.b\""
            ))
        };
        let (database, rest) = match quoted(text) {
            Some((database, rest)) => (database, rest.strip_prefix('.').ok_or_else(wrong)?),
            None => text.split_once('.').map(|(database, rest)| (database.to_owned(), rest)).ok_or_else(wrong)?,
        };
        let table = match quoted(rest) {
            Some((table, "")) => table,
            Some(_) => return Err(wrong()),
            None => rest.to_owned(),
        };
        let unfinished =
            |part: &str, source: &str| part.is_empty() || (part.starts_with('"') && source.starts_with(part));
        if unfinished(&database, text) || unfinished(&table, rest) {
            return Err(wrong());
        }
        Ok(Self { database, table })
    }
}

/// The name in double quotes that `text` begins with, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name, exact case.
    pub name: String,
    /// Type.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
}

impl TableColumn {
    /// A nullable column.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type, nullable: true }
    }
}

/// One version of a table's columns. Columns are only ever appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Identity of this version.
    pub id: Uuid,
    /// The columns, in order.
    pub columns: Vec<TableColumn>,
}

impl TableSchema {
    /// The column whose bounds a catalog stores as the time bounds of an extent: the first with nanoseconds, which is what the original
    /// means, else the first timestamp.
    pub fn time_column(&self) -> Option<&str> {
        let nanos = self.columns.iter().find(|c| c.column_type.has_nanoseconds());
        nanos.or_else(|| self.columns.iter().find(|c| c.column_type.is_timestamp())).map(|c| c.name.as_str())
    }

    /// The timestamp column, if there is only one: what the bounds of an extent of ours must be about where nothing names their column.
    /// Earlier builds took the first nanosecond column of the rows they wrote, in the order of those rows.
    pub(crate) fn only_time_column(&self) -> Option<&str> {
        let mut all = self.columns.iter().filter(|c| c.column_type.is_timestamp());
        let only = all.next()?;
        all.next().is_none().then_some(only.name.as_str())
    }

    /// The columns after appending `added`. A name that exists (ignoring ASCII case, as DuckDB does) is a conflict.
    pub(crate) fn with_columns(&self, table: &TableName, added: &[TableColumn]) -> Result<Vec<TableColumn>> {
        let mut columns = self.columns.clone();
        for column in added {
            if columns.iter().any(|c| c.name.eq_ignore_ascii_case(&column.name)) {
                return Err(Error::Conflict {
                    table: table.to_string(),
                    what: format!("column \"{}\" already exists", column.name),
                });
            }
            columns.push(column.clone());
        }
        Ok(columns)
    }
}

/// What a snapshot added and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Rows of the extents it added.
    pub rows_added: u64,
    /// Rows of the extents it removed.
    pub rows_removed: u64,
    /// Bytes of the extents it added.
    pub bytes_added: u64,
    /// Bytes of the extents it removed.
    pub bytes_removed: u64,
    /// Extents it added, where the catalog says.
    pub extents_added: Option<u64>,
    /// Extents it removed, where the catalog says.
    pub extents_removed: Option<u64>,
}

/// One state of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Identity.
    pub id: Uuid,
    /// Dense number within the table, from 0.
    pub sequence: u64,
    /// The snapshot it replaced.
    pub parent: Option<Uuid>,
    /// When it was committed, in nanoseconds since the Unix epoch.
    pub created_at: i64,
    /// What was done: "create", "append", "compaction", "retention", "delete", "add column", or what another writer calls it.
    pub operation: String,
    /// Columns at that time.
    pub schema_id: Uuid,
    /// What changed.
    pub summary: Summary,
}

/// A table pinned to one snapshot. Reads that take the same view see the same extents, whatever others commit.
#[derive(Debug, Clone)]
pub struct TableView {
    /// The table's name when the view was made.
    pub name: TableName,
    /// Identity of the table: a table dropped and created again is another one.
    pub table_id: Uuid,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The columns at that snapshot.
    pub schema: Arc<TableSchema>,
}

/// Which table of a name is meant.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Whichever has it.
    Any,
    /// The one with this identity.
    Table(Uuid),
    /// The one of this view, if nothing has changed it since.
    Unchanged(&'a TableView),
}

impl Which<'_> {
    /// Whether a table in this state is meant.
    pub(crate) fn is(&self, table: Uuid, snapshot: Uuid, schema: Uuid) -> bool {
        match self {
            Self::Any => true,
            Self::Table(id) => *id == table,
            Self::Unchanged(view) => (view.table_id, view.snapshot.id, view.schema.id) == (table, snapshot, schema),
        }
    }
}

/// Which state of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum At {
    /// The newest.
    #[default]
    Head,
    /// The snapshot with this sequence number.
    Version(u64),
    /// The newest one committed at or before this instant, in nanoseconds since the Unix epoch.
    Timestamp(i64),
}

impl std::str::FromStr for At {
    type Err = Error;

    /// `version:n`, `timestamp_ns:n`, `timestamp_us:n` (units since the Unix epoch), or nothing. Commit times have nanoseconds but are often
    /// seen in microseconds, so a time in microseconds means the whole of its microsecond.
    fn from_str(text: &str) -> Result<Self> {
        let Some((unit, value)) = text.split_once(':') else {
            return if text.is_empty() { Ok(Self::Head) } else { Err(no_place_in_time(text)) };
        };
        let number = value.trim().parse::<i128>().map_err(|_| no_place_in_time(value))?;
        // No commit is outside the range of 64-bit nanoseconds, so its ends stand for everything beyond them.
        let instant = |nanos: i128| {
            let end = if nanos < 0 { i64::MIN } else { i64::MAX };
            Self::Timestamp(i64::try_from(nanos).unwrap_or(end))
        };
        match unit {
            "version" => u64::try_from(number).map(Self::Version).map_err(|_| {
                Error::InvalidInput(format!("there is no version {number}: the first version of a table is 0"))
            }),
            "timestamp_ns" => Ok(instant(number)),
            "timestamp_us" => Ok(instant(number.saturating_mul(1_000).saturating_add(999))),
            _ => Err(no_place_in_time(text)),
        }
    }
}

fn no_place_in_time(text: &str) -> Error {
    Error::InvalidInput(format!("\"{text}\" is no version number and no time: versions are counted from 0"))
}

/// Bounds of an extent's time column in nanoseconds since the Unix epoch. A missing bound is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeBounds {
    /// The column that the bounds are about. `None`: nothing tells, so they say nothing.
    pub column: Option<String>,
    /// No value is smaller.
    pub min: Option<i64>,
    /// No value is larger.
    pub max: Option<i64>,
    /// Both are values of some row. `false` where the catalog rounds (PostgreSQL, to microseconds): then both are widened.
    pub exact: bool,
}

/// Paths of the dynamic columns of an extent, as [`super::path_text`] writes them. `None` is unknown, which is not the same as none;
/// a column that is not in the map is unknown too.
pub type PresentPaths = Option<BTreeMap<String, Vec<String>>>;

/// One immutable file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Identity.
    pub id: Uuid,
    /// Key relative to the storage root, or a whole URL.
    pub object_path: String,
    /// Registry name of the format, if the catalog stores it; else the leading bytes tell.
    pub format: Option<String>,
    /// Size of the file in bytes.
    pub byte_size: u64,
    /// Rows.
    pub row_count: u64,
    /// Blocks, if the catalog stores it.
    pub block_count: Option<u32>,
    /// Bounds of the time column.
    pub time: TimeBounds,
    /// 0 as written by ingest; one more than its newest input for a compacted one.
    pub compaction_gen: u32,
    /// The table's schema the extent was written for. Not authoritative: the file may have more or fewer columns.
    pub schema_id: Uuid,
    /// When it was committed, in nanoseconds since the Unix epoch.
    pub created_at: i64,
    /// Sequence number of the snapshot that added it.
    pub sequence: u64,
}

/// The statistics of an extent that are not in [`Extent`] because they are large.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExtentStats {
    /// `{"column": {"distinct": [...] | null, "tokens": [...] | null}}`; `null` when there are none.
    pub column_stats: serde_json::Value,
    /// Paths of dynamic columns.
    pub present_paths: PresentPaths,
}

/// An extent that a snapshot removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedExtent {
    /// Identity.
    pub id: Uuid,
    /// Key relative to the storage root, or a whole URL.
    pub object_path: String,
    /// Size of the file in bytes.
    pub byte_size: u64,
    /// Rows.
    pub row_count: u64,
    /// When, in nanoseconds since the Unix epoch.
    pub removed_at: i64,
}

/// What a view holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Extents.
    pub extents: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A written extent that is to become visible.
#[derive(Debug, Clone, PartialEq)]
pub struct NewExtent {
    /// What the writer reported. The object must be complete in storage.
    pub written: ExtentWriteResult,
    /// Registry name of its format.
    pub format: String,
    /// 0 for ingest, `max(inputs) + 1` for a compaction.
    pub compaction_gen: u32,
}

impl NewExtent {
    /// A freshly ingested extent.
    pub fn ingested(written: ExtentWriteResult, format: impl Into<String>) -> Self {
        Self { written, format: format.into(), compaction_gen: 0 }
    }

    /// Smallest and largest value of `column`, if the writer knows them.
    pub(crate) fn time_bounds(&self, column: Option<&str>) -> Option<(i64, i64)> {
        match self.written.time_ranges.get(column?)? {
            // Reversed bounds are a broken statistic, not an empty range.
            TimeRange::Known(min, max) if min <= max => Some((*min, *max)),
            _ => None,
        }
    }
}

/// An extent that is to disappear from the table. Its object stays until garbage collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Identity.
    pub id: Uuid,
    /// Its time bounds if the caller has them: the manifest log then looks in fewer manifests.
    pub time: Option<TimeBounds>,
}

impl From<&Extent> for Removal {
    fn from(extent: &Extent) -> Self {
        Self { id: extent.id, time: Some(extent.time.clone()) }
    }
}

impl From<Uuid> for Removal {
    fn from(id: Uuid) -> Self {
        Self { id, time: None }
    }
}

/// What one commit does. A replacement is a removal and an append in one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Name of the operation for the snapshot; chosen from the changes when empty.
    pub operation: String,
    /// Extents that appear.
    pub append: Vec<NewExtent>,
    /// Extents that disappear; each must still be live.
    pub remove: Vec<Removal>,
    /// Columns appended to the schema.
    pub add_columns: Vec<TableColumn>,
}

impl Changes {
    /// Appends extents.
    pub fn append(extents: Vec<NewExtent>) -> Self {
        Self { append: extents, ..Self::default() }
    }

    /// Removes extents.
    pub fn remove(extents: impl IntoIterator<Item = impl Into<Removal>>) -> Self {
        Self { remove: extents.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Appends a column.
    pub fn add_column(column: TableColumn) -> Self {
        Self { add_columns: vec![column], ..Self::default() }
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.append.is_empty() && self.remove.is_empty() && self.add_columns.is_empty()
    }

    /// The operation's name: the given one, or what the changes amount to. The SQL catalogs use the words of the original.
    pub(crate) fn operation_name(&self) -> &str {
        match (self.operation.as_str(), self.append.is_empty(), self.remove.is_empty()) {
            ("", false, true) => "ingest",
            ("", false, false) => "replace",
            ("", true, false) => "delete",
            ("", true, true) => "add column",
            (given, _, _) => given,
        }
    }

    /// Rows and bytes of the appended extents.
    pub(crate) fn added(&self) -> Summary {
        let sum = |f: fn(&ExtentWriteResult) -> u64| {
            self.append.iter().fold(0_u64, |total, e| total.saturating_add(f(&e.written)))
        };
        Summary {
            rows_added: sum(|w| w.row_count),
            bytes_added: sum(|w| w.byte_size),
            extents_added: u64::try_from(self.append.len()).ok(),
            extents_removed: Some(0),
            ..Summary::default()
        }
    }

    /// Refuses what no catalog could commit: repeated extents and removals, columns twice.
    pub(crate) fn validate(&self, table: &TableName) -> Result<()> {
        let mut seen = std::collections::HashSet::new();
        for id in self.append.iter().map(|e| e.written.extent_id).chain(self.remove.iter().map(|r| r.id)) {
            if !seen.insert(id) {
                return Err(Error::InvalidInput(format!("{table}: extent {id} occurs twice in one commit")));
            }
        }
        for (i, column) in self.add_columns.iter().enumerate() {
            check_column_name(table, &column.name)?;
            if self.add_columns.iter().take(i).any(|c| c.name.eq_ignore_ascii_case(&column.name)) {
                return Err(Error::InvalidInput(format!("{table}: column \"{}\" is added twice", column.name)));
            }
        }
        Ok(())
    }
}

fn check_column_name(table: &TableName, name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::InvalidInput(format!("{table}: a column name must not be empty or contain NUL")));
    }
    Ok(())
}

/// Refuses column lists that no catalog could create: none, repeated names, types `supported` refuses.
pub(crate) fn validate_columns(
    table: &TableName,
    columns: &[TableColumn],
    type_names: &[&str],
    supported: impl Fn(&ColumnType) -> bool,
) -> Result<()> {
    if columns.is_empty() {
        return Err(Error::InvalidInput(format!("{table}: a table needs at least one column")));
    }
    for (i, column) in columns.iter().enumerate() {
        check_column_name(table, &column.name)?;
        if columns.iter().take(i).any(|c| c.name.eq_ignore_ascii_case(&column.name)) {
            return Err(Error::InvalidInput(format!("{table}: column \"{}\" occurs twice", column.name)));
        }
        if !supported(&column.column_type) {
            return Err(Error::unsupported(
                table.to_string(),
                format!(
                    "column \"{}\" has type {}, which this catalog cannot name; it can name {}",
                    column.name,
                    column.column_type,
                    type_names.join(", ")
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses database and table names that cannot be stored.
pub(crate) fn validate_name(kind: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') || name.len() > 200 {
        return Err(Error::InvalidInput(format!(
            "\"{}\" cannot be a {kind} name: it must have 1 to 200 bytes and no NUL",
            name.escape_debug()
        )));
    }
    Ok(())
}

/// `root/path`, unless `path` is a whole URL or an absolute path.
pub(crate) fn join_location(root: &str, path: &str) -> String {
    if path.contains("://") || path.starts_with('/') || root.is_empty() {
        return path.to_owned();
    }
    format!("{}/{path}", root.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, ColumnType)]) -> TableSchema {
        TableSchema { id: Uuid::nil(), columns: columns.iter().map(|(n, t)| TableColumn::new(*n, t.clone())).collect() }
    }

    #[test]
    fn the_time_column_has_nanoseconds_and_bounds_without_a_name_need_a_table_with_one() {
        use ColumnType::{Int, Timestamp, TimestampMicros};
        for (columns, time, only) in [
            (&[("n", Int), ("at", Timestamp), ("b", Timestamp)][..], Some("at"), None),
            (&[("n", Int), ("us", TimestampMicros)], Some("us"), Some("us")),
            (&[("us", TimestampMicros), ("at", Timestamp)], Some("at"), None),
            (&[("at", Timestamp), ("us", TimestampMicros)], Some("at"), None),
            (&[("at", Timestamp), ("n", Int)], Some("at"), Some("at")),
            (&[("n", Int)], None, None),
        ] {
            let schema = schema(columns);
            assert_eq!((schema.time_column(), schema.only_time_column()), (time, only), "{columns:?}");
        }
    }

    #[test]
    fn places_in_time_do_not_overflow_and_microseconds_are_whole() {
        let parse = |text: &str| text.parse::<At>();
        assert_eq!(parse("").unwrap(), At::Head);
        assert_eq!(parse("version:7").unwrap(), At::Version(7));
        assert_eq!(parse("timestamp_ns:-5").unwrap(), At::Timestamp(-5));
        assert_eq!(parse("timestamp_us:1").unwrap(), At::Timestamp(1_999));
        assert_eq!(parse("timestamp_us:-1").unwrap(), At::Timestamp(-1));
        for far in [16_725_225_600_000_000_i64, i64::MAX] {
            assert_eq!(parse(&format!("timestamp_us:{far}")).unwrap(), At::Timestamp(i64::MAX));
            assert_eq!(parse(&format!("timestamp_us:-{far}")).unwrap(), At::Timestamp(i64::MIN));
        }
        let error = parse("version:-1").unwrap_err().to_string();
        assert_eq!(error, "there is no version -1: the first version of a table is 0");
        for text in ["version:1.5", "version:x", "later:1", "now"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn locations_join_unless_absolute() {
        assert_eq!(join_location("/data", "a/b.pnsv"), "/data/a/b.pnsv");
        assert_eq!(join_location("s3://b/p", "a/b.pnsv"), "s3://b/p/a/b.pnsv");
        assert_eq!(join_location("/data", "s3://x/y"), "s3://x/y");
        assert_eq!(join_location("/data", "/y"), "/y");
    }

    #[test]
    fn names_and_changes_that_make_no_sense_are_refused() {
        for text in
            ["logs", "", ".logs", "otel.", "\"a.b\"", "\"a\"b.c", "\"a.b", "a.\"b", "a.\"b\"c", "\"\".a", "a.\"\""]
        {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
        for (text, database, table) in [
            ("otel.logs", "otel", "logs"),
            ("otel.logs.old", "otel", "logs.old"),
            ("\"otel\".\"logs\"", "otel", "logs"),
            ("\"a.b\".\"c.d\"", "a.b", "c.d"),
            ("\"a\"\"b\".c", "a\"b", "c"),
            ("a.\"b\"\"\"", "a", "b\""),
            ("\"\"\"a\".b", "\"a", "b"),
        ] {
            assert_eq!(TableName::parse(text).unwrap(), TableName::new(database, table), "{text}");
        }
        let table = TableName::new("a", "b");
        let id = Uuid::new_v4();
        assert!(Changes::remove([id, id]).validate(&table).is_err());
        let twice = Changes {
            add_columns: vec![TableColumn::new("x", ColumnType::Int), TableColumn::new("X", ColumnType::Int)],
            ..Changes::default()
        };
        assert!(twice.validate(&table).is_err());
        assert!(validate_columns(&table, &[], &[], |_| true).is_err());
        assert!(validate_name("table", "").is_err());
    }
}
