//! A producer of a dendro archive, with the dendro crate: what `test/python/dendro_live.py` lets DuckDB read meanwhile.
//!
//! `dendro_writer PATH SEALS KEEP` writes two streams, `s` and `Odd "name"`, in step: row timestamps 1, 2, 3, …, `n` three times
//! the timestamp, a segment of 50 rows of each per seal. `KEEP` segments of each are kept by retention; 0 keeps all. Prints
//! a line per seal. With `SEALS` 0 it goes on until it is killed.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use dendro::archive::{SourceMeta, WalRow};
use dendro::segment::{EncodeContext, EncodeResult, Segment, SegmentEncoder, encode_batch};
use dendro::writer::Writer;

const STREAMS: [&str; 2] = ["s", "Odd \"name\""];
const ROWS: i64 = 50;

/// A row is its timestamp.
struct Encoder;

impl SegmentEncoder for Encoder {
    fn encode(&self, _: &EncodeContext<'_>, rows: &[WalRow]) -> EncodeResult {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(None) };
        let ts = || rows.iter().map(|row| row.ts);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("timestamp", Arc::new(Int64Array::from_iter_values(ts()))),
            ("n", Arc::new(Int64Array::from_iter_values(ts().map(|ts| 3 * ts)))),
            ("text", Arc::new(StringArray::from_iter_values(ts().map(|ts| format!("row {ts}"))))),
        ];
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), false);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, array)| array).collect())?;
        let bytes = encode_batch(schema, &batch)?;
        let rows = u64::try_from(rows.len())?;
        Ok(Some(Segment { bytes, rows, first_ts: first.ts, last_ts: last.ts, index: None }))
    }

    fn version(&self) -> Option<&str> {
        Some("live-1")
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, seals, keep] = arguments.as_slice() else { return Err("arguments: PATH SEALS KEEP".into()) };
    let (seals, keep): (i64, i64) = (seals.parse()?, keep.parse()?);
    // log pages go back into the file often, so that readers meet checkpoints
    let mut archive =
        Writer::create_checkpointing_every(Path::new(path), Box::new(Encoder), Duration::from_millis(50))?;
    let mut source = archive.add_source(SourceMeta {
        labels: BTreeMap::from([("host".to_string(), "live".to_string())]),
        metadata: BTreeMap::new(),
        clock_anchor_wall_ns: 0,
    })?;
    let mut ts = 0;
    let mut seal = 0;
    while seals == 0 || seal < seals {
        for _ in 0..ROWS {
            ts += 1;
            let row = |stream: &str| WalRow { stream: stream.into(), ts, wall_offset: 0, row: vec![0] };
            source.wal(STREAMS.map(row).to_vec())?;
        }
        source.seal(STREAMS.map(String::from).to_vec())?;
        seal += 1;
        if keep > 0 && seal > keep {
            source.evict_before(ts - keep * ROWS + 1)?;
        }
        source.sync()?;
        println!("{seal}");
    }
    archive.finalize_single(source, (ts, 0))?;
    Ok(())
}
