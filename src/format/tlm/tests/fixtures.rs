//! Files that other writers made: pyarrow (`make.py`, with its own account of what is in them) and the Arrow version the original
//! system used.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde_json::Value;

use super::python::{repr, type_name};
use super::{TlmFormat, data, open_bytes, read_all};
use crate::format::cache::ReaderCache;
use crate::format::registry::FormatRegistry;
use crate::format::{BlockId, ExtentReader, RowRanges, SegmentFormat};
use crate::predicate::Scalar;
use crate::storage::local::{LocalOptions, LocalSource};
use crate::storage::memory::MemorySource;
use crate::storage::remote::{RemoteOptions, RemoteSource, runtime};
use crate::storage::{Coalesce, Source, StorageOptions};

/// An object of an in-memory store.
fn remote(name: &str, bytes: Vec<u8>) -> Arc<dyn Source> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let location = Path::from(name);
    runtime().unwrap().block_on(store.put(&location, PutPayload::from(bytes))).unwrap();
    let options = RemoteOptions { coalesce: Coalesce { gap: 64, max_request: 1 << 20 }, ..Default::default() };
    Arc::new(RemoteSource::open_in(store, location, name, &options, Arc::default()).unwrap())
}

fn expected() -> BTreeMap<String, Value> {
    serde_json::from_slice(&std::fs::read(data("expected.json")).unwrap()).unwrap()
}

/// The same file through every kind of source.
fn readers(name: &str) -> Vec<Arc<dyn ExtentReader>> {
    let path = data(name).to_str().unwrap().to_owned();
    let local = |mmap| -> Arc<dyn Source> {
        Arc::new(LocalSource::open(&path, LocalOptions { mmap }, Arc::default()).unwrap())
    };
    let bytes = std::fs::read(&path).unwrap();
    let sources: Vec<Arc<dyn Source>> =
        vec![local(true), local(false), remote(name, bytes.clone()), Arc::new(MemorySource::new(name, bytes))];
    sources.into_iter().map(|source| TlmFormat.open_extent(source).unwrap()).collect()
}

#[test]
fn every_fixture_reads_as_recorded() {
    let expected = expected();
    assert_eq!(expected.len(), 17);
    for (name, case) in &expected {
        for reader in readers(name) {
            check_metadata(name, case, reader.as_ref());
            check_rows(name, case, reader.as_ref());
        }
    }
}

fn check_metadata(name: &str, case: &Value, reader: &dyn ExtentReader) {
    let metadata = reader.metadata();
    assert_eq!(metadata.byte_size, case["bytes"].as_u64().unwrap(), "{name}");
    assert_eq!(metadata.row_count(), case["rows"].as_u64().unwrap(), "{name}");
    let rows: Vec<u64> = case["block_rows"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
    assert_eq!(metadata.block_rows, rows, "{name}");
    assert!(metadata.version.ends_with(&format!(" v{}", case["version"])), "{name}: {}", metadata.version);
    let stem = name.trim_end_matches(".tlm").rsplit('_').next().unwrap().to_uppercase();
    if super::super::STEMS.contains(&stem.as_str()) {
        assert!(metadata.version.starts_with(&stem), "{name}: {}", metadata.version);
    }
    let schema = case["schema"].as_array().unwrap();
    assert_eq!(metadata.schema.fields().len(), schema.len(), "{name}");
    for (field, expected) in metadata.schema.fields().iter().zip(schema) {
        assert_eq!(field.name(), expected[0].as_str().unwrap(), "{name}");
        assert_eq!(type_name(field.data_type()), expected[1].as_str().unwrap(), "{name}");
        assert_eq!(field.is_nullable(), expected[2].as_bool().unwrap(), "{name}");
    }
}

fn check_rows(name: &str, case: &Value, reader: &dyn ExtentReader) {
    let batches = read_all(reader).unwrap();
    for (i, field) in reader.metadata().schema.fields().iter().enumerate() {
        let nulls: usize = batches.iter().map(|b| b.column(i).logical_null_count()).sum();
        assert_eq!(nulls as u64, case["nulls"][field.name()].as_u64().unwrap(), "{name} {}", field.name());
        let Some(values) = case.get("values").and_then(|v| v.get(field.name())) else { continue };
        let expected: Vec<String> = values
            .as_array()
            .unwrap()
            .iter()
            .map(|v| match v {
                Value::String(text) => text.clone(),
                Value::Null => "None".into(),
                number => number.to_string(),
            })
            .collect();
        let read: Vec<String> = batches
            .iter()
            .flat_map(|b| (0..b.num_rows()).map(|row| repr(b.column(i), row)).collect::<Vec<_>>())
            .collect();
        assert_eq!(read, expected, "{name} {}", field.name());
    }
}

/// Names of the fixtures whose statistics must not be used.
const DISTRUSTED: [(&str, &str); 2] =
    [("stats_too_short.tlm", "4 blocks but 2 statistics"), ("stats_row_count_lies.tlm", "block 0 has 40 rows")];

#[test]
fn statistics_are_as_recorded_or_not_used() {
    for (name, case) in &expected() {
        for reader in readers(name) {
            let rejected = DISTRUSTED.iter().find(|(n, _)| n == name);
            let reason = reader.metadata().stats_rejected.clone();
            match rejected {
                Some((_, needle)) => assert!(reason.unwrap().contains(needle), "{name}"),
                None => assert_eq!(reason, None, "{name}"),
            }
            let stats = case["stats"].as_array().filter(|_| rejected.is_none());
            for block in 0..reader.metadata().block_rows.len() {
                let evidence = reader.block_evidence(BlockId(block as u32));
                let Some(stats) = stats else {
                    assert!(evidence.is_none(), "{name}");
                    continue;
                };
                let evidence = evidence.unwrap();
                let stats = &stats[block];
                assert_eq!(evidence.row_count(), stats["row_count"].as_u64(), "{name}");
                for field in reader.metadata().schema.fields() {
                    let found = evidence.column(field.name());
                    let entry = stats["cols"].get(field.name()).filter(|e| e["k"] != "f64");
                    let Some(entry) = entry else {
                        assert_eq!(found, None, "{name} {}", field.name());
                        continue;
                    };
                    let found = found.unwrap();
                    let scalar = |v: &Value| match entry["k"].as_str().unwrap() {
                        "ts" => Scalar::TimestampNs(v.as_i64().unwrap().into()),
                        "i64" => Scalar::Int(v.as_i64().unwrap().into()),
                        _ => Scalar::Str(v.as_str().unwrap().into()),
                    };
                    assert_eq!(found.min, Some(scalar(&entry["min"])), "{name} {}", field.name());
                    assert_eq!(found.max, Some(scalar(&entry["max"])), "{name} {}", field.name());
                    assert_eq!(found.null_count, entry["nulls"].as_u64(), "{name} {}", field.name());
                    assert!(found.min_exact && found.max_exact, "{name}");
                }
            }
        }
    }
}

#[test]
fn columns_come_in_the_order_asked_for() {
    for name in ["logs_v2_pensieve.tlm", "logs_v2_zstd.tlm", "rich_types.tlm"] {
        for reader in readers(name) {
            let all = read_all(reader.as_ref()).unwrap().remove(0);
            let last = all.num_columns() - 1;
            for projection in [vec![last], vec![last, 0, 3], vec![2, 2, 1, 2], vec![], (0..=last).rev().collect()] {
                let batch = reader.read_block(BlockId(0), &projection).unwrap();
                assert_eq!(batch.num_rows(), all.num_rows());
                assert_eq!(batch.num_columns(), projection.len());
                for (i, column) in projection.iter().enumerate() {
                    assert_eq!(batch.column(i), all.column(*column), "{name} {projection:?}");
                    assert_eq!(batch.schema().field(i), all.schema().field(*column));
                }
            }
            assert!(reader.read_block(BlockId(0), &[last + 1]).unwrap_err().to_string().contains(name));
            assert!(reader.read_block(BlockId(99), &[0]).unwrap_err().to_string().contains("no block 99"));
        }
    }
}

#[test]
fn rows_are_selected() {
    for reader in readers("logs_v2_lz4.tlm") {
        let all = reader.read_block(BlockId(1), &[0, 3]).unwrap();
        let cases: [&[std::ops::Range<u64>]; 5] = [&[], &[0..40], &[3..7], &[0..1, 5..8, 39..40], &[2..3, 3..4]];
        for ranges in cases {
            let rows = RowRanges(ranges.to_vec());
            let some = reader.read_rows(BlockId(1), &[0, 3], &rows).unwrap();
            assert_eq!(some.num_rows() as u64, rows.row_count());
            for (i, row) in ranges.iter().cloned().flatten().enumerate() {
                assert_eq!(some.slice(i, 1), all.slice(row as usize, 1));
            }
            assert_eq!(reader.read_rows(BlockId(1), &[], &rows).unwrap().num_rows() as u64, rows.row_count());
        }
        #[expect(clippy::reversed_empty_ranges, reason = "what must be refused")]
        let bad: [&[std::ops::Range<u64>]; 4] = [&[0..41], &[5..5], &[7..3], &[5..7, 6..8]];
        for ranges in bad {
            assert!(reader.read_rows(BlockId(1), &[0], &RowRanges(ranges.to_vec())).is_err(), "{ranges:?}");
        }
    }
}

#[test]
fn files_of_the_original_arrow_version_read() {
    let blocks: Vec<Vec<_>> = ["sample_v1.kyma", "sample_v2.kyma", "sample_v2.pnsv"]
        .map(|n| read_all(readers(n)[0].as_ref()).unwrap())
        .into();
    assert!(blocks[0].iter().map(|b| b.num_rows()).sum::<usize>() > 0);
    assert_eq!(blocks[0], blocks[1]);
    assert_eq!(blocks[0], blocks[2]);
    let reader = &readers("sample_v2.pnsv")[0];
    assert_eq!(reader.metadata().stats_rejected, None);
    assert!(reader.block_evidence(BlockId(0)).unwrap().column("at").unwrap().min.is_some());
}

#[test]
fn locations_point_at_the_blocks() {
    let bytes = std::fs::read(data("logs_v2_pensieve.tlm")).unwrap();
    let reader = open_bytes("x", bytes.clone()).unwrap();
    let mut end = 0;
    for block in 0..4 {
        let location = reader.block_location(BlockId(block)).unwrap();
        assert!(location.offset >= end && location.length > 0);
        assert_eq!(bytes[location.offset as usize..][..4], [0xFF; 4]);
        end = location.offset + location.length;
    }
    assert_eq!(reader.block_location(BlockId(4)), None);
}

#[test]
fn the_registry_dispatches_on_bytes_and_the_cache_saves_requests() {
    let registry = FormatRegistry::default();
    let cache = ReaderCache::default();
    let path = data("logs_v2_kyma.tlm").to_str().unwrap().to_owned();
    let options = StorageOptions { local: LocalOptions { mmap: false }, ..Default::default() };
    for (round, requests) in [1, 0].into_iter().enumerate() {
        let source = crate::storage::open(&path, &options, Arc::default()).unwrap();
        let counters = Arc::clone(source.counters());
        let reader = cache.open(&registry, source, None).unwrap();
        // The file is smaller than what is fetched ahead.
        assert_eq!(counters.requests.load(std::sync::atomic::Ordering::Relaxed), requests, "round {round}");
        assert_eq!(reader.metadata().row_count(), 160);
        assert_eq!(read_all(reader.as_ref()).unwrap().len(), 4);
    }
    assert_eq!(cache.hits_and_misses(), (1, 1));
    let unversioned = || Arc::new(MemorySource::new("m", std::fs::read(&path).unwrap()));
    cache.open(&registry, unversioned(), Some("tlm")).unwrap();
    cache.open(&registry, unversioned(), Some("TLM")).unwrap();
    assert_eq!(cache.hits_and_misses(), (1, 3));
    let error = registry.open(Arc::new(MemorySource::new("what.bin", b"\x00abc".to_vec()))).err().unwrap().to_string();
    assert!(error.contains("what.bin") && error.contains("\\x00abc") && error.contains("tlm"), "{error}");
    assert!(registry.open_as("nope", unversioned()).err().unwrap().to_string().contains("\"nope\""));
}
