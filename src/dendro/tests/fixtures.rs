//! Every archive of the manifest, value by value.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use serde_json::Value;

use super::support::{as_json, copy_of, manifest, read_all};
use crate::dendro::{
    Archive, CallerRowFilter, Catalog, CatalogBatches, SchemaScope, Selection, Snapshot, SourceInfo, StreamInfo,
    TimeColumnChoice,
};
use crate::format::parquet::ParquetFormat;
use std::sync::Arc;

fn readable() -> Vec<(String, Value)> {
    let refused = |v: &Value| v.get("open_error").is_some() || v.get("catalog_error").is_some();
    manifest().into_iter().filter(|(_, v)| !refused(v)).collect()
}

#[test]
fn every_archive_reads_as_its_manifest_says() {
    let all = readable();
    assert!(all.len() > 40, "{} readable fixtures", all.len());
    for (name, expected) in all {
        let (dir, path) = copy_of(&name);
        let before = std::fs::read(&path).unwrap();
        let archive = Archive::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let snapshot = archive.snapshot().unwrap();
        let catalog = snapshot.catalog().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Value::from(catalog.schema_version), expected["user_version"], "{name}");
        let sources = expected["sources"].as_array().unwrap();
        assert_eq!(catalog.sources.len(), sources.len(), "{name}");
        for (source, expected) in catalog.sources.iter().zip(sources) {
            check_source(&name, &snapshot, &catalog, source, expected);
        }
        check_listings(&name, &snapshot, &catalog);
        let cut_short = name == "truncated_minus_10_bytes.dendro";
        assert_eq!(!catalog.warnings.is_empty(), cut_short, "{name}: {:?}", catalog.warnings);
        drop(snapshot);

        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}: the archive was written to");
        let files = std::fs::read_dir(dir.path()).unwrap().count();
        if expected["sidecar_wal_bytes"].is_null() {
            assert_eq!(files, 1, "{name}: reading an archive at rest leaves nothing behind");
        }
    }
}

fn check_source(name: &str, snapshot: &Arc<Snapshot>, catalog: &Catalog, source: &Arc<SourceInfo>, expected: &Value) {
    assert_eq!(Value::from(source.id), expected["id"], "{name}");
    assert_eq!(Value::from(source.uuid.clone()), expected["uuid"], "{name}");
    assert_eq!(Value::from(source.complete), expected["complete"], "{name}");
    assert_eq!(Value::from(source.clock_anchor_wall_ns), expected["clock_anchor_wall_ns"], "{name}");
    assert_eq!(serde_json::json!(source.labels), expected["labels"], "{name}");
    assert_eq!(serde_json::json!(source.metadata), expected["metadata"], "{name}");
    let offsets: Vec<Value> = source.clock.observations().iter().map(|(ts, o)| serde_json::json!([ts, o])).collect();
    assert_eq!(Value::from(offsets), expected["clock_offsets"], "{name}");

    for caller in expected["caller_rows"].as_array().unwrap() {
        let stream = caller["stream"].as_str().unwrap().to_string();
        let filter = CallerRowFilter { source_id: Some(source.id), stream: Some(stream), ..CallerRowFilter::default() };
        let mut found = Vec::new();
        snapshot
            .caller_rows(&filter, |batch| {
                let ts = batch["ts"].as_primitive::<Int64Type>();
                let blobs = batch["blob"].as_binary::<i32>();
                for (ts, blob) in ts.iter().zip(blobs.iter()) {
                    let hex: String = blob.unwrap().iter().map(|b| format!("{b:02x}")).collect();
                    found.push(serde_json::json!([ts.unwrap(), hex]));
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(Value::from(found), caller["rows"], "{name}");
    }

    let streams = expected["streams"].as_array().unwrap();
    let own: Vec<_> = catalog.streams.iter().filter(|s| s.source_id == source.id).collect();
    assert_eq!(own.len(), streams.len(), "{name}");
    for expected in streams {
        let stream = own.iter().find(|s| s.name == expected["stream"].as_str().unwrap());
        let stream = stream.unwrap_or_else(|| panic!("{name}: no stream {}", expected["stream"]));
        check_stream(name, snapshot, catalog, source, stream, expected);
    }
}

fn check_stream(
    name: &str,
    snapshot: &Arc<Snapshot>,
    catalog: &Catalog,
    source: &SourceInfo,
    stream: &StreamInfo,
    expected: &Value,
) {
    let place = format!("{name}, source {}, stream {}", source.id, stream.name);
    let live = serde_json::json!({
        "rows": stream.live.rows, "first_ts": stream.live.first_ts, "last_ts": stream.live.last_ts,
    });
    assert_eq!(live, expected["live"], "{place}");
    assert_eq!(Value::from(stream.live.rows + stream.shadowed_rows), expected["wal_rows_raw"], "{place}");
    assert_eq!(Value::from(stream.catalog_rows()), expected["sealed"]["catalog_rows"], "{place}");
    assert_eq!(Value::from(stream.sealed_span().map(|s| s.0)), expected["sealed"]["first_ts"], "{place}");
    assert_eq!(Value::from(stream.sealed_span().map(|s| s.1)), expected["sealed"]["last_ts"], "{place}");
    let indexes = snapshot.caller_indexes(source.id, &stream.name).unwrap();
    let segments = expected["segments"].as_array().unwrap();
    assert_eq!(stream.segments.len(), segments.len(), "{place}");
    for ((segment, (seq, index)), expected) in stream.segments.iter().zip(&indexes).zip(segments) {
        assert_eq!(segment.seq, *seq, "{place}");
        assert_eq!(Value::from(segment.seq), expected["seq"], "{place}");
        assert_eq!(Value::from(segment.rows), expected["catalog_rows"], "{place}");
        assert_eq!(Value::from(segment.first_ts), expected["first_ts"], "{place}");
        assert_eq!(Value::from(segment.last_ts), expected["last_ts"], "{place}");
        assert_eq!(Value::from(segment.byte_size), expected["bytes"], "{place}");
        let text = index.as_ref().map(|bytes| String::from_utf8(bytes.clone()).unwrap());
        assert_eq!(segment.index_size, text.as_ref().map(|t| t.len() as u64), "{place}");
        assert_eq!(Value::from(text), expected["caller_index_utf8"], "{place}");
    }

    let selection = Selection {
        source: Some(source.uuid.clone().unwrap_or_else(|| source.id.to_string())),
        stream: Some(stream.name.clone()),
        ..Selection::default()
    };
    let table = catalog.table(&selection).unwrap();
    assert_eq!(table.unread_tails().len(), usize::from(stream.live.rows > 0), "{place}");
    assert_eq!(table.require_sealed().is_err(), stream.live.rows > 0, "{place}");
    let schema = match snapshot.table_schema(&table, &ParquetFormat, SchemaScope::All, &TimeColumnChoice::Infer) {
        Ok(schema) => schema,
        Err(e) => {
            assert!(segments.iter().all(|s| !s["decode_error"].is_null()), "{place}: {e}");
            assert!(e.to_string().contains(&format!("stream \"{}\", segment", stream.name)), "{e}");
            return;
        }
    };
    let mut rows = Vec::new();
    for (segment, expected) in table.segments().iter().zip(segments) {
        match snapshot.open_segment(&schema, segment, &ParquetFormat) {
            Ok(extent) => {
                assert!(expected["decode_error"].is_null(), "{place}");
                assert_eq!(Value::from(extent.metadata().row_count()), expected["parquet_rows"], "{place}");
                rows.extend(read_all(extent.as_ref()).iter().flat_map(as_json));
            }
            Err(e) => {
                assert!(!expected["decode_error"].is_null(), "{place}: {e}");
                assert!(e.to_string().contains(&segment.describe()), "{e}");
            }
        }
    }
    let sealed = &expected["sealed"];
    if segments.iter().all(|s| s["decode_error"].is_null()) {
        assert_eq!(Value::from(rows.len()), sealed["parquet_rows"], "{place}");
        check_row(&place, rows.first(), &sealed["first_row"]);
        check_row(&place, rows.last(), &sealed["last_row"]);
    }
    let has_timestamp = rows.first().is_some_and(|row| row.get("timestamp").is_some());
    if has_timestamp {
        assert_eq!(schema.time_column().map(|t| t.name.as_str()), Some("timestamp"), "{place}");
    }
    for row in &rows {
        assert_eq!(row["source_id"], Value::from(source.id), "{place}");
        assert_eq!(row["source_uuid"], Value::from(source.uuid.clone()), "{place}");
        assert_eq!(row["labels"], serde_json::json!(source.labels), "{place}");
    }
}

/// The row has the manifest's values, and nothing else but what the table adds and columns of other segments.
fn check_row(place: &str, row: Option<&Value>, expected: &Value) {
    let Some(row) = row else {
        assert!(expected.is_null(), "{place}");
        return;
    };
    for (column, value) in expected.as_object().unwrap() {
        assert_eq!(&row[column], value, "{place}, column {column}");
    }
    for (column, value) in row.as_object().unwrap() {
        let added = ["source_id", "source_uuid", "labels", "wall_ts"].contains(&column.as_str());
        assert!(added || value.is_null() || expected.get(column).is_some(), "{place}, column {column}: {value}");
    }
}

fn check_listings(name: &str, snapshot: &Arc<Snapshot>, catalog: &Catalog) {
    let sources = catalog.sources_batch().unwrap();
    assert_eq!(sources.num_rows(), catalog.sources.len(), "{name}");
    let streams = catalog.streams_batch().unwrap();
    assert_eq!(streams.num_rows(), catalog.streams.len(), "{name}");
    let warnings = streams["warning"].as_string::<i32>();
    for (row, stream) in catalog.streams.iter().enumerate() {
        assert_eq!(warnings.is_valid(row), stream.live.rows > 0, "{name}");
    }
    let read_before = snapshot.counters().segments_opened.load(std::sync::atomic::Ordering::Relaxed);
    let segments = snapshot.segments_batch(catalog, true).unwrap();
    let count: usize = catalog.streams.iter().map(|s| s.segments.len()).sum();
    assert_eq!(segments.num_rows(), count, "{name}");
    assert_eq!(snapshot.counters().segments_opened.load(std::sync::atomic::Ordering::Relaxed), read_before, "{name}");
    catalog.events_batch().unwrap();
    catalog.clock_offsets_batch().unwrap();
    snapshot.documents_batch().unwrap();
}

fn table_of(name: &str, stream: &str) -> Vec<Value> {
    let (_dir, path) = copy_of(name);
    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    let catalog = snapshot.catalog().unwrap();
    let selection = Selection { stream: Some(stream.into()), ..Selection::default() };
    let table = catalog.table(&selection).unwrap();
    let schema = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::Sample, &TimeColumnChoice::Infer).unwrap();
    let open = |s| snapshot.open_segment(&schema, s, &ParquetFormat).unwrap();
    table.segments().iter().flat_map(|s| read_all(open(s).as_ref())).flat_map(|b| as_json(&b)).collect()
}

#[test]
fn columns_that_come_and_go_are_null_elsewhere() {
    let rows = table_of("schema_churn_v5.dendro", "churn");
    assert_eq!(rows.len(), 30);
    assert_eq!(rows[0]["b"], Value::Null);
    assert_eq!(rows[15]["c"], Value::Null);
    assert_eq!(rows[29]["a"], Value::Null);
    assert!(rows[29]["c"].is_number());
}

#[test]
fn a_stream_name_spans_its_sources() {
    let rows = table_of("basic_v5.dendro", "cpu");
    assert_eq!(rows.len(), 120);
    assert_eq!(rows[59]["labels"]["host"], "web-01");
    assert_eq!(rows[60]["labels"]["host"], "web-02");
    // The offset observed when a segment was sealed is exact for its last row.
    for row in &rows {
        assert!(row["wall_ts"].is_string(), "{row}");
    }
    assert_eq!(rows[59]["wall_ts"], "2025-10-09T08:54:19.000000005");
}

#[test]
fn rows_come_in_seq_order() {
    let rows = table_of("seq_gaps_v4.dendro", "cpu");
    let ts: Vec<i64> = rows.iter().map(|r| r["timestamp"].as_i64().unwrap()).collect();
    assert!(ts.is_sorted());
    assert_eq!(ts.len(), 30);
}

#[test]
fn selections_say_what_there_is() {
    let (_dir, path) = copy_of("basic_v4.dendro");
    let catalog = Archive::open(&path).unwrap().catalog().unwrap();
    let message = |selection: Selection| catalog.table(&selection).unwrap_err().to_string();
    let none = Selection::default();
    assert!(message(none).contains("\"cpu\", \"events\", \"größe \"q\"\", \"net/eth0\""));
    let absent = Selection { stream: Some("disk".into()), ..Selection::default() };
    assert!(message(absent).contains("no stream \"disk\""));
    let other = Selection { source: Some("7".into()), ..Selection::default() };
    assert!(message(other).contains("uuid 22222222-2222-4222-8222-222222222222"));
    let by_label = Selection {
        labels: [("host".to_string(), "web-02".to_string())].into(),
        stream: Some("cpu".into()),
        ..Selection::default()
    };
    let table = catalog.table(&by_label).unwrap();
    assert_eq!(table.parts.len(), 1);
    assert_eq!(table.parts[0].0.id, 2);
}

#[test]
fn a_stream_without_segments_is_a_stream() {
    let (_dir, path) = copy_of("live_with_sidecar_v5.dendro");
    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    assert!(snapshot.is_live());
    let catalog = snapshot.catalog().unwrap();
    let selection = Selection { stream: Some("quiet".into()), ..Selection::default() };
    let table = catalog.table(&selection).unwrap();
    let schema = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::All, &TimeColumnChoice::Infer).unwrap();
    assert_eq!(schema.segment_columns(), 0);
    assert_eq!(schema.schema().fields().len(), 4);
    let warning = table.unread_tails()[0].to_string();
    assert!(warning.contains("stream \"quiet\": 55 rows") && warning.contains("not sealed"), "{warning}");
}

#[test]
fn events_and_documents_are_listed() {
    let (_dir, path) = copy_of("resumed_v5.dendro");
    let events = Archive::open(&path).unwrap().catalog().unwrap().events_batch().unwrap();
    assert!(events.num_rows() >= 1);
    assert_eq!(events["kind"].as_string::<i32>().value(0), "writer_session");

    let (_dir, path) = copy_of("documents_v5.dendro");
    let documents = Archive::open(&path).unwrap().snapshot().unwrap().documents_batch().unwrap();
    assert!(documents.num_rows() > 1);
    let rows = as_json(&documents);
    for name in rows.iter().map(|r| &r["name"]) {
        let of_name: Vec<&Value> = rows.iter().filter(|r| &r["name"] == name).collect();
        let current = of_name.iter().filter(|r| r["current"] == true).count();
        let deleted = of_name.last().unwrap()["body"].is_null();
        assert_eq!(current, usize::from(!deleted), "{name}");
    }
}
