//! Rows of the layout's tables as the catalog's own types.

use rusqlite::{Result, Row};
use serde_json::Value;
use uuid::Uuid;

use crate::catalog::sql::{self, Commit, Commits};
use crate::catalog::time;
use crate::catalog::types::{Extent, Snapshot, TableSchema, TimeBounds};

/// Columns for [`snapshot`].
pub(super) const SNAPSHOT: &str = "id, sequence_number, parent_id, created_at, schema_snapshot_id, summary";

/// Columns for [`extent`], of `extents e` and `snapshots s`; the last one is [`STATS`].
pub(super) const EXTENT: &str =
    "e.id, e.object_path, e.byte_size, e.row_count, e.min_timestamp, e.max_timestamp, e.compaction_gen,
    e.schema_snapshot_id, e.created_at, e.deleted_at, s.sequence_number, s.summary, s.created_at, e.column_stats";

/// Number of `column_stats` in [`EXTENT`].
pub(super) const STATS: usize = 13;

/// A UUID stored as 16 bytes (or, leniently, as text).
pub(super) fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid> {
    Ok(optional_uuid(row, column)?.unwrap_or_default())
}

pub(super) fn optional_uuid(row: &Row<'_>, column: usize) -> Result<Option<Uuid>> {
    use rusqlite::types::ValueRef;
    let value = row.get_ref(column)?;
    let parsed = match value {
        ValueRef::Null => return Ok(None),
        ValueRef::Blob(bytes) => Uuid::from_slice(bytes).ok(),
        ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    match parsed {
        Some(id) => Ok(Some(id)),
        None => Err(rusqlite::Error::InvalidColumnType(column, "a UUID of 16 bytes".to_owned(), value.data_type())),
    }
}

/// An instant, or `None` for NULL and for what is not one: unknown.
fn instant(row: &Row<'_>, column: usize) -> Result<Option<i64>> {
    Ok(row.get_ref(column)?.as_str_or_null().unwrap_or(None).and_then(time::from_rfc3339))
}

fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

pub(super) fn snapshot(row: &Row<'_>) -> Result<Snapshot> {
    let summary: Option<String> = row.get(5)?;
    let summary: Value = summary.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let (operation, summary) = sql::summary_from_json(&summary);
    Ok(Snapshot {
        id: uuid(row, 0)?,
        sequence: count(row, 1)?,
        parent: optional_uuid(row, 2)?,
        created_at: instant(row, 3)?.unwrap_or(0),
        operation,
        schema_id: optional_uuid(row, 4)?.unwrap_or_default(),
        summary,
    })
}

/// The column that the summary of a snapshot names.
fn named_time_column(summary: Option<&str>) -> Option<String> {
    let summary: Value = serde_json::from_str(summary.filter(|text| text.contains(sql::TIME_COLUMN))?).ok()?;
    summary.get(sql::TIME_COLUMN)?.as_str().map(str::to_owned)
}

/// An extent of a table with this schema, and when it was removed.
pub(super) fn extent(row: &Row<'_>, schema: &TableSchema) -> Result<(Extent, Option<i64>)> {
    // A removal time that cannot be read is still a removal, as old as can be.
    let deleted = !matches!(row.get_ref(9)?, rusqlite::types::ValueRef::Null);
    let deleted_at = if deleted { Some(instant(row, 9)?.unwrap_or(i64::MIN)) } else { None };
    let sequence: Option<i64> = row.get(10)?;
    let named = named_time_column(row.get_ref(11)?.as_str_or_null().unwrap_or(None));
    let same_clock = row.get_ref(8)? == row.get_ref(12)?;
    let column = sql::time_column(schema, named, same_clock);
    let extent = Extent {
        id: uuid(row, 0)?,
        object_path: row.get(1)?,
        format: None,
        byte_size: count(row, 2)?,
        row_count: count(row, 3)?,
        block_count: None,
        time: TimeBounds { column, min: instant(row, 4)?, max: instant(row, 5)?, exact: true },
        compaction_gen: u32::try_from(row.get::<_, i64>(6)?).unwrap_or(0),
        schema_id: optional_uuid(row, 7)?.unwrap_or_default(),
        created_at: instant(row, 8)?.unwrap_or(0),
        sequence: sequence.and_then(|s| u64::try_from(s).ok()).unwrap_or(0),
    };
    Ok((extent, deleted_at))
}

pub(super) fn commits(snapshots: Vec<Snapshot>) -> Commits {
    Commits::new(snapshots.iter().map(Commit::of).collect())
}
