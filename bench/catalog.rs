//! How planning grows with the number of extents: a manifest log with statistics, one time filter of an hour and one equality.
//!
//! `cargo run --release --no-default-features --example catalog_scale -- [extents …]`. Each size is planned in a process of its own, so
//! that the peak of its memory can be read.

use std::process::Command;
use std::time::Instant;

use pensieve::catalog::{
    AttachOptions, Catalog, Changes, ColumnType, NewExtent, PruneOptions, TableColumn, TableName, open,
};
use pensieve::format::ExtentWriteResult;
use pensieve::predicate::{BlockPredicate, CompareOp, Scalar};
use pensieve::stats::extent::TimeRange;
use serde_json::json;

const MINUTE: i64 = 60_000_000_000;
const DAY_ONE: i64 = 1_767_225_600_000_000_000;
const PER_COMMIT: i64 = 1000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn extent(number: i64) -> NewExtent {
    let extent_id = uuid::Uuid::new_v4();
    let services: Vec<String> = (0..3).map(|i| format!("svc-{}", (number * 7 + i * 13) % 50)).collect();
    let traces: Vec<String> = (0..20).map(|i| format!("trace-{:08x}", number * 20 + i)).collect();
    let tokens: Vec<String> = (0..60).map(|i| format!("word{}", (number * 31 + i * 97) % 5000)).collect();
    NewExtent::ingested(
        ExtentWriteResult {
            extent_id,
            object_path: format!("otel/logs/{extent_id}.tlm"),
            byte_size: 1 << 20,
            row_count: 10_000,
            block_count: 1,
            time_ranges: [(
                "at".to_owned(),
                TimeRange::Known(DAY_ONE + number * MINUTE, DAY_ONE + (number + 1) * MINUTE),
            )]
            .into(),
            present_paths: None,
            column_stats: json!({
                "service": {"distinct": services, "tokens": null},
                "trace": {"distinct": traces, "tokens": null},
                "message": {"distinct": null, "tokens": tokens},
            }),
        },
        "tlm",
    )
}

fn build(root: &str, extents: i64) -> Outcome<()> {
    let catalog = open(root, &AttachOptions::default())?;
    let name = TableName::new("otel", "logs");
    catalog.create_database("otel")?;
    let columns = [
        ("at", ColumnType::Timestamp),
        ("service", ColumnType::String),
        ("trace", ColumnType::String),
        ("message", ColumnType::String),
    ];
    let columns: Vec<TableColumn> = columns.into_iter().map(|(n, t)| TableColumn::new(n, t)).collect();
    let mut view = catalog.create_table(&name, &columns, None)?.ok_or("the table exists")?;
    for start in (0..extents).step_by(1000) {
        let end = (start + PER_COMMIT).min(extents);
        view = catalog.commit(&view, &Changes::append((start..end).map(extent).collect()))?;
    }
    Ok(())
}

/// Plans cold and warm in this process and prints one line.
fn plan(root: &str, extents: i64) -> Outcome<()> {
    let compare = |op, value| BlockPredicate::Compare { column: "at".into(), op, value };
    let from = DAY_ONE + extents / 2 * MINUTE;
    let predicate = BlockPredicate::And(vec![
        compare(CompareOp::GtEq, Scalar::TimestampNs(i128::from(from))),
        compare(CompareOp::Lt, Scalar::TimestampNs(i128::from(from + 60 * MINUTE))),
        BlockPredicate::Compare { column: "service".into(), op: CompareOp::Eq, value: Scalar::Str("svc-7".into()) },
    ]);
    let run = |catalog: &dyn Catalog| -> Outcome<_> {
        let started = Instant::now();
        let view = catalog.table(&TableName::new("otel", "logs"))?.ok_or("no table")?;
        let pruned = catalog.prune(&view, &predicate, &PruneOptions::default())?;
        Ok((started.elapsed().as_secs_f64() * 1000.0, pruned))
    };
    let started = Instant::now();
    let catalog = open(root, &AttachOptions::default())?;
    let opened = started.elapsed().as_secs_f64() * 1000.0;
    let (cold, pruned) = run(&*catalog)?;
    let mut warm: Vec<f64> = (0..21).map(|_| run(&*catalog).map(|r| r.0)).collect::<Outcome<_>>()?;
    warm.sort_by(f64::total_cmp);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown").trim().to_owned();
    let counts = &pruned.counts;
    println!(
        "{extents:>9} extents: cold {:.1} ms, warm median {:.2} ms, peak memory {peak}; {} left, {} by time, {} by distinct; {} of {} manifests read, {} requests, {} bytes",
        opened + cold,
        warm.get(10).copied().unwrap_or_default(),
        pruned.extents.len(),
        counts.skipped_time,
        counts.skipped_distinct,
        counts.manifests_considered.saturating_sub(counts.manifests_skipped),
        counts.manifests_considered,
        counts.requests,
        counts.bytes_read,
    );
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, root, extents] = arguments.as_slice()
        && mode == "plan"
    {
        return plan(root, extents.parse()?);
    }
    let mut sizes: Vec<i64> = arguments.iter().map(|a| a.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1_000, 10_000, 100_000];
    }
    for extents in sizes {
        let root = std::env::temp_dir().join(format!("pensieve-catalog-{}", uuid::Uuid::new_v4()));
        let path = root.display().to_string();
        let started = Instant::now();
        let built = build(&path, extents).and_then(|()| {
            println!("{extents:>9} extents: written in {:.1} s", started.elapsed().as_secs_f64());
            Command::new(std::env::current_exe()?).args(["plan", &path, &extents.to_string()]).status()?;
            Ok(())
        });
        drop(std::fs::remove_dir_all(&root));
        built?;
    }
    Ok(())
}
