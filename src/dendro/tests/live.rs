//! Reading while the dendro crate writes: in a thread, in another process, and after that process was killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use dendro::archive::{ArchiveMut, SourceMeta, WalRow};
use dendro::segment::{EncodeContext, EncodeResult, Segment as Encoded, SegmentEncoder, encode_batch};
use dendro::writer::{SourceWriter, Writer};

use super::support::read_all;
use crate::dendro::{Archive, OpenOptions, SchemaScope, Selection, Snapshot, StreamTable, TimeColumnChoice};
use crate::format::parquet::ParquetFormat;

/// A row is its value, eight bytes.
struct Rows;

impl SegmentEncoder for Rows {
    fn encode(&self, _: &EncodeContext<'_>, rows: &[WalRow]) -> EncodeResult {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(None) };
        let fields = ["timestamp", "value"].map(|name| Field::new(name, DataType::Int64, false));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let values = rows.iter().map(|r| i64::from_le_bytes(r.row[..8].try_into().unwrap()));
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.ts))),
            Arc::new(Int64Array::from_iter_values(values)),
        ];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let bytes = encode_batch(schema, &batch).unwrap();
        let rows = rows.len() as u64;
        Ok(Some(Encoded { bytes, rows, first_ts: first.ts, last_ts: last.ts, index: None }))
    }

    fn version(&self) -> Option<&str> {
        Some("rows-1")
    }
}

fn meta() -> SourceMeta {
    SourceMeta {
        labels: BTreeMap::from([("host".to_string(), "live".to_string())]),
        metadata: BTreeMap::new(),
        clock_anchor_wall_ns: 0,
    }
}

fn start(path: &Path) -> (Writer, SourceWriter) {
    let mut archive = Writer::create(path, Box::new(Rows)).unwrap();
    let writer = archive.add_source(meta()).unwrap();
    (archive, writer)
}

fn append(writer: &mut SourceWriter, ts: i64) {
    let row = WalRow { stream: "s".into(), ts, wall_offset: 0, row: (ts * 10).to_le_bytes().to_vec() };
    writer.wal(vec![row]).unwrap();
}

/// The timestamps of all sealed rows.
fn sealed(snapshot: &Arc<Snapshot>, table: &StreamTable) -> Vec<i64> {
    let schema = snapshot.table_schema(table, &ParquetFormat, SchemaScope::Sample, &TimeColumnChoice::Infer).unwrap();
    let mut out = Vec::new();
    for segment in table.segments() {
        let extent = snapshot.open_segment(&schema, &segment, &ParquetFormat).unwrap();
        for batch in read_all(extent.as_ref()) {
            out.extend(batch["timestamp"].as_primitive::<Int64Type>().values());
        }
    }
    out
}

fn stream_s() -> Selection {
    Selection { stream: Some("s".into()), ..Selection::default() }
}

/// One answer: sealed rows without a hole, the live span right behind them, nothing twice. Returns the newest timestamp.
fn check_seam(archive: &Archive) -> i64 {
    let snapshot = archive.snapshot().unwrap();
    let catalog = snapshot.catalog().unwrap();
    if catalog.streams.is_empty() {
        return 0;
    }
    let table = catalog.table(&stream_s()).unwrap();
    let rows = sealed(&snapshot, &table);
    let newest = i64::try_from(rows.len()).unwrap();
    assert!(rows.iter().copied().eq(1..=newest), "sealed rows have a hole or repeat: {rows:?}");
    let live = table.parts[0].1.live;
    let live_rows = i64::try_from(live.rows).unwrap();
    if live_rows > 0 {
        assert_eq!((live.first_ts, live.last_ts), (Some(newest + 1), Some(newest + live_rows)));
        let warning = table.unread_tails()[0].to_string();
        assert!(warning.contains("rows-1"), "{warning}");
    }
    newest + live_rows
}

#[test]
fn a_reader_in_the_writers_process_sees_every_committed_row() {
    const ROWS: i64 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.dendro");
    let (archive_writer, mut writer) = start(&path);
    let done = Arc::new(AtomicBool::new(false));
    let flag = done.clone();
    let thread = std::thread::spawn(move || {
        for ts in 1..=ROWS {
            append(&mut writer, ts);
            if ts % 40 == 0 {
                writer.seal(vec!["s".into()]).unwrap();
            }
        }
        // Finalizing seals nothing: without this the last rows would stay in the log of a complete source.
        writer.seal(vec!["s".into()]).unwrap();
        writer.sync().unwrap();
        flag.store(true, Ordering::Release);
        archive_writer.finalize_single(writer, (ROWS, 0)).unwrap();
    });
    let archive = Archive::open(&path).unwrap();
    let (mut seen, mut answers) = (0, 0);
    while !done.load(Ordering::Acquire) {
        let now = check_seam(&archive);
        assert!(now >= seen, "{now} after {seen}");
        seen = now;
        answers += 1;
    }
    assert!(answers > 0);
    assert_eq!(check_seam(&archive), ROWS);
    thread.join().unwrap();
    assert_eq!(check_seam(&archive), ROWS);
    let catalog = archive.catalog().unwrap();
    assert!(catalog.sources[0].complete);
    assert_eq!(catalog.unread_tails().len(), 0);
}

/// The writing half of the next test: runs only when that test starts it, in its own process, until it is killed.
#[test]
#[ignore = "started by a_killed_process_leaves_every_committed_row"]
fn writing_process() {
    let Ok(path) = std::env::var("PENSIEVE_DENDRO_CHILD") else { return };
    let (_archive, mut writer) = start(Path::new(&path));
    for ts in 1.. {
        append(&mut writer, ts);
        if ts % 25 == 0 {
            writer.seal(vec!["s".into()]).unwrap();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_killed_process_leaves_every_committed_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("killed.dendro");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dendro::tests::live::writing_process", "--ignored", "--nocapture"])
        .env("PENSIEVE_DENDRO_CHILD", &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let mut seen = 0;
    while seen < 200 && std::time::Instant::now() < deadline {
        // Until the writer has created the catalog the file is refused, one way or the other.
        let Ok(archive) = Archive::open(&path) else { continue };
        let now = check_seam(&archive);
        assert!(now >= seen, "{now} after {seen}");
        seen = now;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen >= 200, "the writer got to {seen}");
    let archive = Archive::open(&path).unwrap();
    let after = check_seam(&archive);
    assert!(after >= seen, "{after} after {seen}");
    assert!(!archive.catalog().unwrap().sources[0].complete);
    let oracle = dendro::archive::Archive::open(&path).unwrap();
    let all = oracle.total_rows(1, "s").unwrap() + oracle.live_wal_span(1, "s").unwrap().rows;
    assert_eq!(all, u64::try_from(after).unwrap());
}

/// Ten segments of ten rows, and the writer still open.
fn sealed_tens(path: &Path) -> (Writer, SourceWriter) {
    let (archive, mut writer) = start(path);
    for ts in 1..=100 {
        append(&mut writer, ts);
        if ts % 10 == 0 {
            writer.seal(vec!["s".into()]).unwrap();
        }
    }
    writer.sync().unwrap();
    (archive, writer)
}

#[test]
fn a_held_snapshot_outlives_retention() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("held.dendro");
    let (_archive, mut writer) = sealed_tens(&path);
    let snapshot = Archive::open(&path).unwrap().snapshot().unwrap();
    let table = snapshot.catalog().unwrap().table(&stream_s()).unwrap();
    assert_eq!(writer.evict_before(51).unwrap().segments, 5);
    append(&mut writer, 101);
    writer.sync().unwrap();
    assert_eq!(sealed(&snapshot, &table).len(), 100);
    let later = Archive::open(&path).unwrap().catalog().unwrap();
    assert_eq!(later.streams[0].segments.len(), 5);
    assert_eq!(later.streams[0].live.rows, 1);
}

#[test]
fn a_segment_that_went_away_after_the_hold_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("expired.dendro");
    let (_archive, mut writer) = sealed_tens(&path);
    let options = OpenOptions { hold_snapshot: Duration::ZERO };
    let snapshot = Archive::open_with(&path, options).unwrap().snapshot().unwrap();
    let table = snapshot.catalog().unwrap().table(&stream_s()).unwrap();
    let segments = table.segments();
    writer.evict_before(51).unwrap();
    writer.sync().unwrap();
    let error = snapshot.segment_source(&segments[0]).read(0..4).unwrap_err().to_string();
    assert!(error.contains("changed during the scan") && error.contains("segment 0 is gone"), "{error}");
    assert_eq!(&*snapshot.segment_source(&segments[9]).read(0..4).unwrap(), b"PAR1");
}

#[test]
fn a_writer_that_starts_on_a_file_at_rest_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rest.dendro");
    let (archive, writer) = sealed_tens(&path);
    archive.finalize_single(writer, (100, 0)).unwrap();
    let at_rest = Archive::open(&path).unwrap();
    let snapshot = at_rest.snapshot().unwrap();
    assert!(!snapshot.is_live());
    let table = snapshot.catalog().unwrap().table(&stream_s()).unwrap();

    let mut db = ArchiveMut::open(&path).unwrap();
    // While it is open this handle holds the file exclusively.
    let error = at_rest.snapshot().unwrap_err().to_string();
    assert!(error.contains("exclusively"), "{error}");
    db.evict_before(1, 51).unwrap();
    drop(db);

    let error = snapshot.segment_source(&table.segments()[0]).read(0..4).unwrap_err().to_string();
    assert!(error.contains("changed during the scan") && error.contains("run the query again"), "{error}");
    assert_eq!(at_rest.catalog().unwrap().streams[0].segments.len(), 5);
}

/// Both crates' releases agree with the reader about who holds what.
#[test]
fn the_previous_release_reads_as_well() {
    use super::support::copy_of;
    for name in ["basic_v4.dendro", "live_with_sidecar_v4.dendro", "negative_ts_v4.dendro", "retention_v4.dendro"] {
        let (_dir, path) = copy_of(name);
        let catalog = Archive::open(&path).unwrap().catalog().unwrap();
        let oracle = dendro_v4::archive::Archive::open(&path).unwrap();
        for stream in &catalog.streams {
            let live = oracle.live_wal_span(stream.source_id, &stream.name).unwrap();
            assert_eq!(
                (live.rows, live.first_ts, live.last_ts),
                (stream.live.rows, stream.live.first_ts, stream.live.last_ts)
            );
            let (count, _) = oracle.segment_span(stream.source_id, &stream.name).unwrap();
            assert_eq!(count, stream.segments.len() as u64, "{name}");
        }
    }
}
