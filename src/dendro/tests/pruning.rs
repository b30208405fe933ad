//! What is read, counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{
    ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};

use super::support::{copy_of, read_all};
use crate::dendro::{
    Archive, ArchiveWriteOptions, ArchiveWriter, SchemaScope, SegmentEvidence, Selection, Snapshot, TimeColumnChoice,
    TsRange, write_archive,
};
use crate::format::parquet::ParquetFormat;
use crate::predicate::{BlockPredicate, CompareOp, Evidence, Scalar};

fn opened(snapshot: &Snapshot) -> u64 {
    snapshot.counters().segments_opened.load(Ordering::Relaxed)
}

#[test]
fn a_time_range_over_ten_thousand_segments_reads_only_its_own() {
    const SEGMENTS: i64 = 10_000;
    const ROWS: i64 = 4;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.dendro");
    let ts: Vec<i64> = (0..SEGMENTS * ROWS).map(|i| i * 1000).collect();
    let columns: [(&str, ArrayRef); 2] = [
        ("ts", Arc::new(Int64Array::from(ts.clone()))),
        ("other", Arc::new(Int64Array::from_iter_values(ts.iter().map(|v| v % 77)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut options = ArchiveWriteOptions::new("cpu", "ts");
    options.segment_rows = u64::try_from(ROWS).unwrap();
    let written = write_archive(&path, batch.schema(), options, [Ok(batch)]).unwrap();
    assert_eq!(written.segments, 10_000);

    let archive = Archive::open(&path).unwrap();
    let bind = archive.snapshot().unwrap();
    let table = bind.catalog().unwrap().table(&Selection::default()).unwrap();
    assert_eq!(opened(&bind), 0, "listing reads no BLOB");
    let schema = bind.table_schema(&table, &ParquetFormat, SchemaScope::Sample, &TimeColumnChoice::Infer).unwrap();
    assert!(opened(&bind) <= 18, "{} footers", opened(&bind));
    assert!(!schema.exact);
    assert_eq!(schema.time_column().unwrap().name, "ts");
    drop(bind);

    let scan = archive.snapshot().unwrap();
    let table = scan.catalog().unwrap().table(&Selection::default()).unwrap();
    let range = TsRange { low: Some(20_000_000), high: Some(20_014_000) };
    let mut found = Vec::new();
    for segment in table.segments_in(range) {
        let extent = scan.open_segment(&schema, &segment, &ParquetFormat).unwrap();
        for batch in read_all(extent.as_ref()) {
            found.extend(batch["ts"].as_primitive::<Int64Type>().values().iter().copied());
        }
    }
    assert_eq!(opened(&scan), 4, "of 10,000");
    assert!(found.contains(&20_000_000) && found.contains(&20_014_000));
    assert_eq!(found.len(), 16);
}

#[test]
fn large_segments_are_read_by_range() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.dendro");
    let rows = 200_000i64;
    // Text that does not compress to nothing.
    let text = (0..rows).map(|i| format!("{:x}", i.wrapping_mul(-7_046_029_254_386_353_131)));
    let columns: [(&str, ArrayRef); 2] = [
        ("ts", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("text", Arc::new(StringArray::from_iter_values(text))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_archive(&path, batch.schema(), ArchiveWriteOptions::new("s", "ts"), [Ok(batch)]).unwrap();
    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    let table = snapshot.catalog().unwrap().table(&Selection::default()).unwrap();
    let segment = &table.segments()[0];
    let size = segment.info.byte_size;
    assert!(size > 2_000_000, "{size}");
    let source = snapshot.segment_source(segment);
    let bytes = || snapshot.counters().io.bytes.load(Ordering::Relaxed);
    assert_eq!(bytes(), 0);
    let parts = source.read_many(&[size - 4..size, 0..4, size - 8..size - 4, 100..100]).unwrap();
    assert_eq!((&*parts[0], &*parts[1], parts[3].len()), (b"PAR1".as_slice(), b"PAR1".as_slice(), 0));
    assert_eq!(bytes(), 12);
    let whole = source.read(0..size).unwrap();
    assert_eq!(&whole[whole.len() - 8..whole.len() - 4], &*parts[2]);
    assert!(source.read(size - 1..size + 1).is_err());
}

#[test]
fn the_catalogs_evidence_bounds_time_and_names_the_source() {
    let (_dir, path) = copy_of("basic_v5.dendro");
    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    let selection = Selection { stream: Some("cpu".into()), ..Selection::default() };
    let table = snapshot.catalog().unwrap().table(&selection).unwrap();
    let schema = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::Sample, &TimeColumnChoice::Infer).unwrap();
    let segment = &table.segments()[2];
    let evidence = SegmentEvidence::new(&schema, segment);
    let time = evidence.column("timestamp").unwrap();
    assert_eq!(time.min, Some(Scalar::Int(1_760_000_040_000_000_000)));
    assert_eq!(time.max, Some(Scalar::Int(1_760_000_059_000_000_000)));
    let wall = evidence.column("wall_ts").unwrap();
    assert_eq!(wall.min, Some(Scalar::TimestampNs(1_760_000_040_000_000_003)));
    assert_eq!(wall.max, Some(Scalar::TimestampNs(1_760_000_059_000_000_005)));
    assert_eq!(evidence.column("source_id").unwrap().max, Some(Scalar::Int(1)));
    assert_eq!(evidence.row_count(), None);
    assert!(evidence.column("counter").is_none());

    let extent = snapshot.open_segment(&schema, segment, &ParquetFormat).unwrap();
    let block = extent.block_evidence(crate::format::BlockId(0)).unwrap();
    assert!(block.has_column("wall_ts") && !block.has_column("absent"));
    assert!(block.column("counter").unwrap().min.is_some());
    assert_eq!(block.column("wall_ts"), evidence.column("wall_ts"));
}

#[test]
fn the_time_column_is_what_the_footers_prove() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("micro.dendro");
    let micros = |step: i64| TimestampMicrosecondArray::from_iter_values((0..100).map(|i| 1_000_000 + i * step));
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(micros(7).with_timezone("UTC"))),
        ("at", Arc::new(micros(10))),
        ("n", Arc::new(Int64Array::from_iter_values(0..100))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut options = ArchiveWriteOptions::new("s", "at");
    options.segment_rows = 10;
    write_archive(&path, batch.schema(), options, [Ok(batch)]).unwrap();
    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    let table = snapshot.catalog().unwrap().table(&Selection::default()).unwrap();
    let with = |choice| snapshot.table_schema(&table, &ParquetFormat, SchemaScope::Sample, &choice);
    let schema = with(TimeColumnChoice::Infer).unwrap();
    assert_eq!(schema.time_column().map(|t| (t.name.as_str(), t.unit)), Some(("at", 1000)));
    assert!(with(TimeColumnChoice::Off).unwrap().time_column().is_none());
    let wrong = with(TimeColumnChoice::Named("n".into())).unwrap_err().to_string();
    assert!(wrong.contains("does not hold them"), "{wrong}");
    let absent = with(TimeColumnChoice::Named("x".into())).unwrap_err().to_string();
    assert!(absent.contains("\"at\"") && absent.contains("\"n\""), "{absent}");

    let segment = &table.segments()[1];
    let extent = snapshot.open_segment(&schema, segment, &ParquetFormat).unwrap();
    let batch = &read_all(extent.as_ref())[0];
    let at = batch["at"].as_primitive::<TimestampMicrosecondType>();
    let wall = batch["wall_ts"].as_primitive::<arrow::datatypes::TimestampNanosecondType>();
    assert_eq!(at.value(0) * 1000, wall.value(0));
    // Any order, repeats, and columns that need the time column without returning it.
    let schema = extent.metadata().schema.clone();
    let index = |name: &str| schema.index_of(name).unwrap();
    let picked = extent.read_block(crate::format::BlockId(0), &[index("wall_ts"), index("n"), index("n")]).unwrap();
    assert_eq!(picked.num_columns(), 3);
    assert_eq!(picked.column(0).as_ref(), batch["wall_ts"].as_ref() as &dyn arrow::array::Array);
}

#[test]
fn a_sampled_schema_never_drops_a_column_silently() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd.dendro");
    let columns: [(&str, ArrayRef); 1] = [("ts", Arc::new(Int64Array::from_iter_values(0..400)))];
    let plain = RecordBatch::try_from_iter(columns).unwrap();
    let mut options = ArchiveWriteOptions::new("s", "ts");
    options.segment_rows = 1;
    let mut writer = ArchiveWriter::create(&path, plain.schema(), options).unwrap();
    writer.append(&plain).unwrap();
    writer.finish().unwrap();
    // One segment in the middle, between those that are looked at, gets another column.
    let odd: [(&str, ArrayRef); 2] =
        [("ts", Arc::new(Int64Array::from(vec![13]))), ("rare", Arc::new(Int64Array::from(vec![1])))];
    let odd = RecordBatch::try_from_iter(odd).unwrap();
    let mut bytes = Vec::new();
    let mut parquet = parquet::arrow::ArrowWriter::try_new(&mut bytes, odd.schema(), None).unwrap();
    parquet.write(&odd).unwrap();
    parquet.close().unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute("UPDATE segments SET bytes = ?1 WHERE seq = 13", [bytes]).unwrap();
    drop(conn);

    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    let table = snapshot.catalog().unwrap().table(&Selection::default()).unwrap();
    let sampled = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::Sample, &TimeColumnChoice::Infer).unwrap();
    let segment = &table.segments()[13];
    let error = snapshot.open_segment(&sampled, segment, &ParquetFormat).err().unwrap().to_string();
    assert!(error.contains("\"rare\"") && error.contains("union_by_name"), "{error}");
    let all = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::All, &TimeColumnChoice::Infer).unwrap();
    assert!(all.exact);
    assert_eq!(read_all(snapshot.open_segment(&all, segment, &ParquetFormat).unwrap().as_ref())[0].num_rows(), 1);
}

/// A table of microseconds over a segment of nanoseconds, as a sampled schema may have it.
#[test]
fn evidence_does_not_speak_through_a_cast_that_rounds() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, seen: ArrayRef, at: ArrayRef| {
        let path = dir.path().join(name);
        let batch = RecordBatch::try_from_iter([("at", at), ("seen", seen)]).unwrap();
        write_archive(&path, batch.schema(), ArchiveWriteOptions::new("s", "at"), [Ok(batch)]).unwrap();
        Archive::open(&path).unwrap().snapshot().unwrap()
    };
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1_i64, 1]));
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_500_i64, 1_500]));
    let coarse = write("coarse.dendro", Arc::clone(&micros), micros);
    let fine = write("fine.dendro", Arc::clone(&nanos), nanos);
    let choice = TimeColumnChoice::Named("at".into());
    let table = coarse.catalog().unwrap().table(&Selection::default()).unwrap();
    let schema = coarse.table_schema(&table, &ParquetFormat, SchemaScope::All, &choice).unwrap();

    let table = fine.catalog().unwrap().table(&Selection::default()).unwrap();
    let extent = fine.open_segment(&schema, &table.segments()[0], &ParquetFormat).unwrap();
    let batch = &read_all(extent.as_ref())[0];
    assert_eq!(batch["seen"].as_primitive::<TimestampMicrosecondType>().values(), &[1, 1]);
    let wall = batch["wall_ts"].as_primitive::<arrow::datatypes::TimestampNanosecondType>();
    assert_eq!(wall.values(), &[1_500, 1_500], "the wall clock is that of the segment's own unit");
    let block = crate::format::BlockId(0);
    for column in ["seen", "at"] {
        let value = Scalar::TimestampNs(1_000);
        let equal = BlockPredicate::Compare { column: column.into(), op: CompareOp::Eq, value };
        assert!(!extent.evaluate_block(block, &equal).unwrap().skips(), "{column}");
        assert!(extent.pruned_blocks(&equal).unwrap().contains(&block), "{column}");
        assert!(extent.candidate_rows(block, &equal).unwrap().row_count() > 0, "{column}");
    }
    assert_eq!(extent.block_evidence(block).unwrap().column("seen"), None);
}
