//! Rows of the layout's tables as the catalog's own types.

use std::time::SystemTime;

use serde_json::Value;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::instant;
use crate::catalog::sql::{self, Commit, Commits};
use crate::catalog::types::{Extent, Snapshot, TableSchema, TimeBounds};

/// Columns for [`snapshot`].
pub(super) const SNAPSHOT: &str = "s.id, s.sequence_number, s.parent_id, s.created_at, s.schema_snapshot_id, s.summary";

/// Columns for [`extent`], of `extents e` and `snapshots s`.
pub(super) const EXTENT: &str =
    "e.id, e.object_path, e.byte_size, e.row_count, e.min_timestamp, e.max_timestamp, e.compaction_gen,
    e.schema_snapshot_id, e.created_at, e.deleted_at, s.sequence_number, s.summary->>'time_column', s.created_at";

/// Where extents with their snapshots come from; `$1` is the tenant, `$2` the table.
pub(super) const FROM_EXTENTS: &str = "FROM extents e LEFT JOIN manifests m ON m.id = e.manifest_id
    LEFT JOIN snapshots s ON s.id = m.snapshot_id WHERE e.tenant_id = $1 AND e.table_id = $2";

type Result<T> = std::result::Result<T, Error>;

fn count(row: &Row, column: usize) -> Result<u64> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}

fn time(row: &Row, column: usize) -> Result<Option<SystemTime>> {
    row.try_get(column)
}

pub(super) fn snapshot(row: &Row) -> Result<Snapshot> {
    let summary: Option<Value> = row.try_get(5)?;
    let (operation, summary) = sql::summary_from_json(&summary.unwrap_or(Value::Null));
    Ok(Snapshot {
        id: row.try_get(0)?,
        sequence: count(row, 1)?,
        parent: row.try_get(2)?,
        created_at: time(row, 3)?.and_then(instant::nanos).unwrap_or(0),
        operation,
        schema_id: row.try_get::<_, Option<Uuid>>(4)?.unwrap_or_default(),
        summary,
    })
}

/// An extent of a table with this schema, and when it was removed.
pub(super) fn extent(row: &Row, schema: &TableSchema) -> Result<(Extent, Option<i64>)> {
    // A removal time that cannot be expressed is still a removal, as old as can be.
    let deleted_at = time(row, 9)?.map(|t| instant::nanos(t).unwrap_or(i64::MIN));
    let sequence: Option<i64> = row.try_get(10)?;
    let column = sql::time_column(schema, row.try_get(11)?, time(row, 8)? == time(row, 12)?);
    let extent = Extent {
        id: row.try_get(0)?,
        object_path: row.try_get(1)?,
        format: None,
        byte_size: count(row, 2)?,
        row_count: count(row, 3)?,
        block_count: None,
        time: TimeBounds {
            column,
            min: time(row, 4)?.and_then(instant::widened_min),
            max: time(row, 5)?.and_then(instant::widened_max),
            exact: false,
        },
        compaction_gen: u32::try_from(row.try_get::<_, i32>(6)?).unwrap_or(0),
        schema_id: row.try_get::<_, Option<Uuid>>(7)?.unwrap_or_default(),
        created_at: time(row, 8)?.and_then(instant::nanos).unwrap_or(0),
        sequence: sequence.and_then(|s| u64::try_from(s).ok()).unwrap_or(0),
    };
    Ok((extent, deleted_at))
}

pub(super) fn commits(snapshots: Vec<Snapshot>) -> Commits {
    Commits::new(snapshots.iter().map(Commit::of).collect())
}
