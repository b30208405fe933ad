//! What the SQLite and the PostgreSQL catalog share: the JSON texts of their layout, and which snapshot removed an extent.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::evidence::{distinct_from_json, tokens_from_json};
use super::prune::{Needs, SetSource};
use super::types::{Snapshot, Summary, TableColumn, TableSchema};
use crate::predicate::Scalar;
use crate::{Error, Result};

/// Operation of the first snapshot of a table.
pub(crate) const BOOTSTRAP: &str = "bootstrap";

/// `arrow_schema` of a list of columns.
pub(crate) fn schema_to_json(columns: &[TableColumn]) -> Value {
    let fields: Vec<Value> = columns
        .iter()
        .map(|c| json!({"name": c.name, "type": c.column_type.to_string(), "nullable": c.nullable}))
        .collect();
    json!({ "fields": fields })
}

/// Reads `arrow_schema`. `place` names the table for messages.
pub(crate) fn schema_from_json(place: &str, id: Uuid, schema: &Value) -> Result<TableSchema> {
    let damage = |what: &str| Error::corrupt_catalog(place, "arrow_schema", what.to_owned());
    let fields = schema.get("fields").and_then(Value::as_array).ok_or_else(|| damage("has no list \"fields\""))?;
    let columns = fields
        .iter()
        .map(|field| {
            let text = |key: &str| {
                field.get(key).and_then(Value::as_str).ok_or_else(|| damage("a field lacks a name or type"))
            };
            let name = text("name")?;
            let type_name = text("type")?;
            let column_type = type_name.parse().map_err(|_| {
                Error::unsupported(place, format!("column \"{name}\" has type \"{type_name}\", which cannot be read"))
            })?;
            let nullable = field.get("nullable").and_then(Value::as_bool).unwrap_or(true);
            Ok(TableColumn { name: name.to_owned(), column_type, nullable })
        })
        .collect::<Result<_>>()?;
    Ok(TableSchema { id, columns })
}

/// Key in `summary` for the column whose bounds the extents of the snapshot have. The original, which ignores it, means the first
/// nanosecond column of the table, and so does every commit made here.
pub(crate) const TIME_COLUMN: &str = "time_column";

/// `summary` of a snapshot that adds extents with bounds of `time_column`.
pub(crate) fn summary_to_json(operation: &str, summary: &Summary, time_column: Option<&str>) -> Value {
    let mut json = json!({
        "operation": operation,
        "rows_added": summary.rows_added,
        "rows_removed": summary.rows_removed,
        "bytes_added": summary.bytes_added,
        "bytes_removed": summary.bytes_removed,
    });
    if let (Some(column), Some(keys)) = (time_column, json.as_object_mut()) {
        keys.insert(TIME_COLUMN.to_owned(), column.into());
    }
    json
}

/// The column that the bounds of a row of `extents` are about. `named` is what the summary of its snapshot says.
///
/// Rows without a name are the original's, which means the table's first nanosecond column, or those of earlier builds of this extension,
/// which took the first one of the rows they wrote. Only the latter have `same_clock`: their time and their snapshot's are the same.
pub(crate) fn time_column(schema: &TableSchema, named: Option<String>, same_clock: bool) -> Option<String> {
    named.or_else(|| if same_clock { schema.only_time_column() } else { schema.time_column() }.map(str::to_owned))
}

/// Reads `summary`: the operation and the counts. What is missing or odd is "unknown" and 0.
pub(crate) fn summary_from_json(summary: &Value) -> (String, Summary) {
    let count = |key: &str| summary.get(key).and_then(Value::as_u64).unwrap_or(0);
    let operation = summary.get("operation").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let summary = Summary {
        rows_added: count("rows_added"),
        rows_removed: count("rows_removed"),
        bytes_added: count("bytes_added"),
        bytes_removed: count("bytes_removed"),
        extents_added: None,
        extents_removed: None,
    };
    (operation, summary)
}

/// When a snapshot was committed, and whether it removed rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit {
    pub sequence: u64,
    pub created_at: i64,
    pub removes: bool,
}

impl Commit {
    /// Of a snapshot. The original's removals are compactions and retention, whatever their counts say.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let summary = &snapshot.summary;
        let by_name = matches!(snapshot.operation.as_str(), "compaction" | "retention");
        Self {
            sequence: snapshot.sequence,
            created_at: snapshot.created_at,
            removes: summary.rows_removed > 0 || summary.bytes_removed > 0 || by_name,
        }
    }
}

/// The commits of a table, to tell which of them removed an extent.
///
/// The layout stores a removal as a wall-clock time. Our own commits store the snapshot's time there, so the match is exact; the
/// original takes the two times one after the other, so the nearest removing snapshot is taken.
#[derive(Debug)]
pub(crate) struct Commits(Vec<Commit>);

impl Commits {
    /// From the commits of a table in any order.
    pub(crate) fn new(mut commits: Vec<Commit>) -> Self {
        commits.sort_by_key(|c| c.sequence);
        Self(commits)
    }

    /// Whether an extent with this removal time was still live at snapshot `sequence`.
    pub(crate) fn live_at(&self, sequence: u64, deleted_at: Option<i64>) -> bool {
        deleted_at.is_none_or(|deleted_at| self.removed_by(deleted_at) > sequence)
    }

    fn removed_by(&self, deleted_at: i64) -> u64 {
        if let Some(exact) = self.0.iter().find(|c| c.created_at == deleted_at) {
            return exact.sequence;
        }
        let distance = |c: &&Commit| c.created_at.abs_diff(deleted_at);
        if let Some(nearest) = self.0.iter().filter(|c| c.removes).min_by_key(distance) {
            return nearest.sequence;
        }
        // Nothing says which commit it was: gone from the first one after that time on, at the latest from the newest.
        let after = self.0.iter().find(|c| c.created_at >= deleted_at).or(self.0.last());
        after.map_or(0, |c| c.sequence)
    }
}

/// The sets of one extent in its `column_stats` text, parsed for the needed columns only.
#[derive(Debug, Default)]
pub(crate) struct JsonSets(HashMap<String, Value>);

impl JsonSets {
    /// Parses what `needs` asks for. Text that is no JSON object says nothing.
    pub(crate) fn parse(text: &str, needs: &Needs) -> Self {
        let Ok(columns) = serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(text) else {
            return Self::default();
        };
        let needed = |column: &str| {
            needs.distinct.contains(column)
                || needs.tokens.contains(column)
                || needs.tokens_if_no_distinct.contains(column)
        };
        let parsed = columns
            .into_iter()
            .filter(|(column, _)| needed(column))
            .filter_map(|(column, raw)| Some((column.into_owned(), serde_json::from_str(raw.get()).ok()?)));
        Self(parsed.collect())
    }
}

impl SetSource for JsonSets {
    fn distinct(&self, column: &str) -> Option<Vec<Scalar>> {
        distinct_from_json(self.0.get(column)?)
    }

    fn tokens(&self, column: &str) -> Option<Vec<String>> {
        tokens_from_json(self.0.get(column)?)
    }

    /// The layout stores an empty list for "unknown", so it says nothing about paths.
    fn paths(&self, _: &str) -> Option<Vec<String>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ColumnType;

    #[test]
    fn schemas_round_trip_and_unknown_types_are_named() {
        let columns =
            vec![TableColumn::new("at", ColumnType::Timestamp), TableColumn::new("emb", ColumnType::Vector(3))];
        let json = schema_to_json(&columns);
        assert_eq!(json["fields"][1]["type"], "vector(3)");
        assert_eq!(schema_from_json("t", Uuid::nil(), &json).unwrap().columns, columns);
        let absent: Value = serde_json::from_str(r#"{"fields":[{"name":"a","type":"long"}]}"#).unwrap();
        assert!(schema_from_json("t", Uuid::nil(), &absent).unwrap().columns[0].nullable);
        let odd: Value = serde_json::from_str(r#"{"fields":[{"name":"a","type":"arrow:Date32"}]}"#).unwrap();
        let error = schema_from_json("otel.logs", Uuid::nil(), &odd).unwrap_err().to_string();
        assert!(error.contains("otel.logs") && error.contains("arrow:Date32"), "{error}");
        assert!(schema_from_json("t", Uuid::nil(), &Value::Null).is_err());
    }

    #[test]
    fn bounds_without_a_name_are_of_the_first_column_only_where_the_original_wrote_them() {
        let schema = |columns: &[&str]| TableSchema {
            id: Uuid::nil(),
            columns: columns.iter().map(|name| TableColumn::new(*name, ColumnType::Timestamp)).collect(),
        };
        let (one, two) = (schema(&["at"]), schema(&["at", "seen"]));
        let of = |schema, named: Option<&str>, same_clock| time_column(schema, named.map(str::to_owned), same_clock);
        assert_eq!(of(&two, Some("seen"), true).as_deref(), Some("seen"));
        assert_eq!(of(&two, None, false).as_deref(), Some("at"));
        assert_eq!(of(&two, None, true), None);
        assert_eq!(of(&one, None, true).as_deref(), Some("at"));
        assert_eq!(of(&schema(&[]), None, false), None);
        let json = summary_to_json("ingest", &Summary::default(), Some("at"));
        assert_eq!(json[TIME_COLUMN], "at");
        assert_eq!(summary_from_json(&json), ("ingest".to_owned(), Summary::default()));
    }

    #[test]
    fn removals_belong_to_the_commit_that_made_them() {
        let commit = |sequence, created_at, removes| Commit { sequence, created_at, removes };
        let commits = Commits::new(vec![
            commit(3, 400, true),
            commit(0, 100, false),
            commit(1, 200, false),
            commit(2, 300, true),
        ]);
        assert!(commits.live_at(1, Some(300)) && !commits.live_at(2, Some(300)));
        // The original's clock was read a little before or after the snapshot's.
        for near in [290, 310] {
            assert!(commits.live_at(1, Some(near)) && !commits.live_at(2, Some(near)), "{near}");
        }
        assert!(commits.live_at(9, None));
        let silent = Commits::new(vec![commit(0, 100, false), commit(1, 200, false)]);
        assert!(silent.live_at(0, Some(150)) && !silent.live_at(1, Some(150)));
        assert!(!silent.live_at(1, Some(999)));
    }

    #[test]
    fn only_needed_columns_are_parsed() {
        let needs = Needs { distinct: ["a".to_owned()].into(), ..Needs::default() };
        let sets = JsonSets::parse(r#"{"a":{"distinct":[1],"tokens":null},"b":{"distinct":[2]}}"#, &needs);
        assert_eq!(sets.distinct("a"), Some(vec![Scalar::Int(1)]));
        assert_eq!(sets.distinct("b"), None);
        assert_eq!(JsonSets::parse("not json", &needs).distinct("a"), None);
        assert_eq!(JsonSets::parse("null", &needs).distinct("a"), None);
    }
}
