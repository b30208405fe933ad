//! Archives written here, as the dendro crate sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use dendro::archive::{Archive as Oracle, ArchiveMut, Depth, Sniff, sniff};

use super::support::read_all;
use crate::Error;
use crate::dendro::{
    Archive, ArchiveWriteOptions, ArchiveWriter, SchemaScope, Selection, TimeColumnChoice, write_archive,
};
use crate::format::parquet::ParquetFormat;

fn batch(ts: Vec<Option<i64>>) -> RecordBatch {
    let names = ts.iter().map(|t| t.map(|t| format!("row {t}")));
    let columns: [(&str, ArrayRef); 2] = [
        ("at", Arc::new(TimestampMicrosecondArray::from(ts.clone()))),
        ("name", Arc::new(names.collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).unwrap()
}

fn options() -> ArchiveWriteOptions {
    let mut options = ArchiveWriteOptions::new("größe \"q\"", "AT");
    options.labels = BTreeMap::from([("host".into(), "web-1".into()), ("größe".into(), "\"".into())]);
    options.segment_rows = 100;
    options
}

#[test]
fn the_crate_verifies_and_rewrites_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.dendro");
    let batches = (0..5).map(|b| batch((0..70).map(|i| Some(-100 + b * 70 + i)).collect()));
    let schema = batch(vec![]).schema();
    let written = write_archive(&path, schema, options(), batches.map(Ok)).unwrap();
    assert_eq!((written.rows, written.segments), (350, 4));
    assert_eq!(written.span, Some((-100_000, 249_000)));
    assert_eq!(written.byte_size, std::fs::metadata(&path).unwrap().len());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "one file, no leftovers");

    assert_eq!(sniff(&path).unwrap(), Sniff::Stamped { version: 5 });
    let oracle = Oracle::open(&path).unwrap();
    let report = oracle.verify(Depth::Full).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.sources, report.streams, report.segments, report.wal_rows), (1, 1, 4, 0));
    let source = &oracle.read_sources().unwrap()[0];
    assert!(source.complete);
    assert_eq!(source.meta.labels, options().labels);
    assert_eq!(source.meta.clock_anchor_wall_ns, -100_000);
    assert_eq!(source.uuid.as_deref(), Some(written.source_uuid.as_str()));
    assert_eq!(oracle.total_rows(1, &options().stream).unwrap(), 350);
    assert_eq!(oracle.page_stats().unwrap().page_size, 4096);
    drop(oracle);

    let ours = read_names(&path);
    assert_eq!(ours.len(), 350);
    assert_eq!(ours[0], "row -100");
    let mut rewritable = ArchiveMut::open(&path).unwrap();
    let spec = dendro::rewrite::CompactSpec::to_rows(1000);
    assert_eq!(dendro::rewrite::compact(&mut rewritable, &spec).unwrap().after, 1);
    drop(rewritable);
    assert_eq!(read_names(&path), ours);
}

fn read_names(path: &std::path::Path) -> Vec<String> {
    use arrow::array::AsArray;
    let snapshot = Archive::open(path).unwrap().snapshot().unwrap();
    let table = snapshot.catalog().unwrap().table(&Selection::default()).unwrap();
    let schema = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::All, &TimeColumnChoice::Infer).unwrap();
    assert_eq!(schema.time_column().unwrap().name, "at");
    let open = |s| snapshot.open_segment(&schema, s, &ParquetFormat).unwrap();
    let batches: Vec<RecordBatch> = table.segments().iter().flat_map(|s| read_all(open(s).as_ref())).collect();
    batches.iter().flat_map(|b| b["name"].as_string::<i32>().iter().map(|v| v.unwrap().to_string())).collect()
}

#[test]
fn nothing_written_is_still_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.dendro");
    let written = write_archive(&path, batch(vec![]).schema(), options(), [Ok(batch(vec![]))]).unwrap();
    assert_eq!((written.rows, written.segments, written.span), (0, 0, None));
    assert!(Oracle::open(&path).unwrap().verify(Depth::Full).unwrap().is_sound());
    let catalog = Archive::open(&path).unwrap().catalog().unwrap();
    assert!(catalog.sources[0].complete && catalog.streams.is_empty());
}

#[test]
fn an_archive_written_here_can_be_resumed() {
    use dendro::segment::{EncodeContext, EncodeResult, SegmentEncoder};
    struct Silent;
    impl SegmentEncoder for Silent {
        fn encode(&self, _: &EncodeContext<'_>, _: &[dendro::archive::WalRow]) -> EncodeResult {
            Ok(None)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resumed.dendro");
    let written = write_archive(&path, batch(vec![]).schema(), options(), [Ok(batch(vec![Some(1), Some(2)]))]).unwrap();
    let mut writer = dendro::writer::Writer::open(&path, Box::new(Silent)).unwrap();
    writer.put_document("note", "n", "text/1", "{}").unwrap();
    drop(writer);
    let archive = Archive::open(&path).unwrap();
    assert_eq!(archive.catalog().unwrap().sources[0].uuid, Some(written.source_uuid));
    assert_eq!(archive.snapshot().unwrap().documents_batch().unwrap().num_rows(), 1);
}

#[test]
fn what_cannot_be_an_archive_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.dendro");
    let message = |batches: Vec<RecordBatch>, options: ArchiveWriteOptions| {
        let error = write_archive(&path, batch(vec![]).schema(), options, batches.into_iter().map(Ok)).unwrap_err();
        assert!(matches!(error, Error::InvalidInput(_) | Error::Unsupported { .. }), "{error:?}");
        error.to_string()
    };
    let falls = message(vec![batch(vec![Some(5)]), batch(vec![Some(5), Some(4)])], options());
    assert!(falls.contains("falls in row 3") && falls.contains("ORDER BY"), "{falls}");
    let null = message(vec![batch(vec![Some(5), None])], options());
    assert!(null.contains("NULL in row 2"), "{null}");
    let far = message(vec![batch(vec![Some(i64::MAX)])], options());
    assert!(far.contains("2262"), "{far}");
    let absent = message(vec![], ArchiveWriteOptions { ts_column: "nope".into(), ..options() });
    assert!(absent.contains("at, name"), "{absent}");
    let text = message(vec![], ArchiveWriteOptions { ts_column: "name".into(), ..options() });
    assert!(text.contains("BIGINT"), "{text}");
    let unnamed = message(vec![], ArchiveWriteOptions { stream: String::new(), ..options() });
    assert!(unnamed.contains("STREAM"), "{unnamed}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);

    std::fs::write(dir.path().join("bad.dendro-wal"), b"commits").unwrap();
    let in_use = message(vec![], options());
    assert!(in_use.contains("bad.dendro-wal"), "{in_use}");
    std::fs::remove_file(dir.path().join("bad.dendro-wal")).unwrap();
    std::fs::write(&path, b"something").unwrap();
    let there = message(vec![], ArchiveWriteOptions { overwrite: false, ..options() });
    assert!(there.contains("exists"), "{there}");
    // A COPY that fails half way leaves the old file.
    let mut writer = ArchiveWriter::create(&path, batch(vec![]).schema(), options()).unwrap();
    writer.append(&batch((0..250).map(Some).collect())).unwrap();
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), b"something");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    write_archive(&path, batch(vec![]).schema(), options(), [Ok(batch(vec![Some(1)]))]).unwrap();
    assert_eq!(read_names(&path), ["row 1"]);
    let ints: [(&str, ArrayRef); 1] = [("at", Arc::new(Int64Array::from(vec![1])))];
    let other = RecordBatch::try_from_iter(ints).unwrap();
    let mut writer = ArchiveWriter::create(&path, batch(vec![]).schema(), options()).unwrap();
    assert!(writer.append(&other).is_err());
}
