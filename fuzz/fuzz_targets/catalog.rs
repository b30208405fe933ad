//! The documents of a manifest log: one object of a sound log is replaced, and everything that a query asks is asked.
#![no_main]

use std::sync::{Arc, OnceLock};

use futures::TryStreamExt;
use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use pensieve::catalog::log::ManifestLog;
use pensieve::catalog::types::{At, Changes, NewExtent, TableColumn, TableName};
use pensieve::catalog::{Catalog, ColumnType, PruneOptions};
use pensieve::predicate::{BlockPredicate, CompareOp, Scalar, TextPattern};
use pensieve_fuzz::{seed, with_mode, written};
use serde_json::Value;

type Objects = Vec<(Path, Vec<u8>)>;

fn table() -> TableName {
    TableName::new("d", "t")
}

fn log(store: Arc<dyn ObjectStore>) -> ManifestLog {
    ManifestLog::new(store, "", "memory", true, Some(1 << 20)).expect("an empty prefix is a valid one")
}

/// A sound log: a table with two appends and an added column.
fn sound() -> &'static Objects {
    static OBJECTS: OnceLock<Objects> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let log =
            ManifestLog::new(Arc::clone(&store), "", "memory", false, None).expect("an empty prefix is a valid one");
        log.create_database("d").expect("memory takes it");
        let columns = [
            ("trace_id", ColumnType::String),
            ("n", ColumnType::Long),
            ("d", ColumnType::Real),
            ("ts", ColumnType::Timestamp),
        ];
        let columns = columns.map(|(name, kind)| TableColumn::new(name, kind));
        let mut view = log.create_table(&table(), &columns).expect("memory takes it").expect("it is new");
        for number in 0..2 {
            let mut changes = Changes::append(vec![NewExtent::ingested(written("tlm"), "tlm")]);
            if number == 1 {
                changes.add_columns.push(TableColumn::new("note", ColumnType::Dynamic));
            }
            view = log.commit(&view, &changes).expect("nobody else commits");
        }
        let all =
            block_on(store.list(None).map_ok(|object| object.location).try_collect::<Vec<_>>()).expect("memory lists");
        let get =
            |path: &Path| block_on(async { store.get(path).await?.bytes().await }).expect("it was listed").to_vec();
        all.into_iter().map(|path| (path.clone(), get(&path))).collect()
    })
}

/// The sound log with `data` as the content of every section of its companions.
fn with_sets(data: &[u8]) -> Objects {
    let mut objects = sound().clone();
    let mut sections: Vec<String> = Vec::new();
    let raw = u64::try_from(data.len()).unwrap_or(0);
    let compressed = zstd::bulk::compress(data, 1).expect("memory is enough");
    for (_, content) in &mut objects {
        let Ok(mut manifest) = serde_json::from_slice::<Value>(content) else { continue };
        let Some(stats) = manifest.get_mut("stats").filter(|stats| stats.is_object()) else { continue };
        sections.extend(stats.get("key").and_then(Value::as_str).map(str::to_owned));
        stats["size"] = compressed.len().into();
        for section in stats.get_mut("sections").and_then(Value::as_array_mut).into_iter().flatten() {
            section["offset"] = 0.into();
            section["length"] = compressed.len().into();
            section["raw"] = raw.into();
            section["crc32"] = crc32fast::hash(&compressed).into();
        }
        *content = manifest.to_string().into_bytes();
    }
    for (path, content) in &mut objects {
        if sections.iter().any(|key| path.as_ref().ends_with(key)) {
            content.clone_from(&compressed);
        }
    }
    objects
}

fn ask(objects: Objects) {
    let store = InMemory::new();
    block_on(async {
        for (path, content) in objects {
            store.put(&path, content.into()).await.expect("memory takes it");
        }
    });
    let log = log(Arc::new(store));
    for database in log.databases().unwrap_or_default() {
        let _ = log.tables(&database);
    }
    let _ = log.snapshots(&table());
    let _ = log.removed_extents(&table());
    for at in [At::Head, At::Version(1), At::Timestamp(i64::MAX), At::Timestamp(0)] {
        let Ok(Some(view)) = log.table_at(&table(), at) else { continue };
        let _ = log.extents(&view);
        let _ = log.totals(&view);
        let _ = log.visit_stats(&view, &mut |_, _| Ok(()));
        for predicate in [
            BlockPredicate::Compare {
                column: "trace_id".into(),
                op: CompareOp::Eq,
                value: Scalar::Str("id-44".into()),
            },
            BlockPredicate::Compare { column: "n".into(), op: CompareOp::Eq, value: Scalar::Int(44) },
            BlockPredicate::TimeRange { column: "ts".into(), start: Some(0), end: Some(40_000_000_280) },
            BlockPredicate::Text { column: "trace_id".into(), pattern: TextPattern::contains("id") },
            BlockPredicate::IsNull { column: "note".into() },
        ] {
            let _ = log.prune(&view, &predicate, &PruneOptions::default());
        }
    }
}

/// Modes from here on are about the sets of companions.
const SETS: u8 = 200;

fuzz_target!(init: {
    let objects = sound().iter().enumerate();
    let objects = objects.map(|(number, (_, content))| with_mode(u8::try_from(number).unwrap_or(0), content));
    seed(objects.chain([with_mode(SETS, &[9, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0])]), None);
}, |data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    if *mode >= SETS {
        return ask(with_sets(data));
    }
    let mut objects = sound().clone();
    let index = usize::from(*mode) % objects.len();
    objects[index].1 = data.to_vec();
    ask(objects);
});
