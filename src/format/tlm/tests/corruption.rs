//! Damaged and hostile files: an error that names the file and the place, or correct rows; never a panic.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::{data, open, open_bytes, read_all, write};
use crate::format::{BlockId, WriteOptions};
use crate::predicate::BlockPredicate;
use crate::storage::memory::MemorySource;

/// Small files of every shape: foreign and our own, both versions, compressed or not, with dictionaries.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        ["timestamp_units.tlm", "rich_types.tlm", "edge_values.tlm", "empty_no_blocks.tlm"]
            .map(|name| (name.to_owned(), std::fs::read(data(name)).unwrap()))
            .into();
    let v1 = std::fs::read(data("sample_v1.kyma")).unwrap();
    files.push(("v1".into(), v1));
    let texts: Vec<String> = (0..64).map(|i| format!("value {}", i % 3)).collect();
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(0..64)) as ArrayRef),
        ("s", Arc::new(StringArray::from_iter_values(texts))),
    ])
    .unwrap();
    for compression in ["none", "lz4", "zstd"] {
        let options = WriteOptions { compression: Some(compression.into()), dictionary: true, ..Default::default() };
        let (bytes, _) = write(&[batch.clone(), batch.slice(0, 10)], &options).unwrap();
        files.push((format!("own-{compression}"), bytes));
    }
    files
}

/// Opens and reads everything. Errors must name the file, and must not come from a caught panic.
fn exercise(name: &str, bytes: Vec<u8>, what: &str) -> bool {
    let check = |error: crate::Error| {
        let text = error.to_string();
        assert!(text.contains(name), "{name} {what}: {text}");
        assert!(!text.contains("decoding failed"), "{name} {what}: {text}");
    };
    let reader = match open(MemorySource::new(name, bytes).mapped()) {
        Ok(reader) => reader,
        Err(error) => {
            check(error);
            return false;
        }
    };
    let columns: Vec<usize> = (0..reader.metadata().schema.fields().len()).collect();
    let mut good = true;
    for block in 0..reader.metadata().block_rows.len().min(8) as u32 {
        if let Err(error) = reader.read_block(BlockId(block), &columns) {
            check(error);
            good = false;
        }
        let column = reader.metadata().schema.fields().first().map(|f| f.name().clone()).unwrap_or_default();
        reader.evaluate_block(BlockId(block), &BlockPredicate::IsNull { column }).unwrap();
    }
    good
}

#[test]
fn truncation_at_every_byte() {
    for (name, bytes) in files() {
        assert!(exercise(&name, bytes.clone(), "whole"));
        for length in 0..bytes.len() {
            let error =
                open_bytes(&name, bytes[..length].to_vec()).err().unwrap_or_else(|| panic!("{name} at {length}"));
            let error = error.to_string();
            assert!(error.contains(&name) && !error.contains("decoding failed"), "{name} at {length}: {error}");
        }
    }
}

#[test]
fn every_flipped_bit() {
    for (name, bytes) in files() {
        for byte in 0..bytes.len() {
            // Every bit of the small files, one bit of every byte of the others.
            for bit in if bytes.len() > 1500 { byte % 8..byte % 8 + 1 } else { 0..8 } {
                let mut damaged = bytes.clone();
                damaged[byte] ^= 1 << bit;
                exercise(&name, damaged, &format!("byte {byte} bit {bit}"));
            }
        }
    }
}

#[test]
fn extreme_numbers_at_every_place_of_the_footer() {
    for (name, bytes) in files() {
        let start = bytes.len().saturating_sub(1500);
        for at in start..bytes.len() - 8 {
            for value in [u64::MAX, i64::MAX as u64, 1 << 40] {
                let mut damaged = bytes.clone();
                damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
                exercise(&name, damaged, &format!("{value:x} at {at}"));
            }
        }
    }
}

#[test]
fn a_lying_length_of_the_statistics_is_located() {
    let bytes = std::fs::read(data("logs_v2_pensieve.tlm")).unwrap();
    let at = bytes.len() - 9 - 4;
    let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    for lie in [0, 1, length - 1, length + 1, length * 2, 23_000, u32::MAX, i32::MAX as u32] {
        let mut damaged = bytes.clone();
        damaged[at..at + 4].copy_from_slice(&lie.to_le_bytes());
        let error = open_bytes("lying.tlm", damaged).err().unwrap().to_string();
        assert!(error.contains("lying.tlm") && error.contains(&format!("offset {at}")), "{lie}: {error}");
    }
    let footer = at - length as usize - 10;
    for lie in [0, -1, 1, i32::MAX, i32::MIN, 5000] {
        let mut damaged = bytes.clone();
        damaged[footer..footer + 4].copy_from_slice(&i32::to_le_bytes(lie));
        let error = open_bytes("lying.tlm", damaged).err().unwrap().to_string();
        assert!(error.contains("lying.tlm") && error.contains("offset"), "{lie}: {error}");
    }
}

#[test]
fn other_files_are_told_what_they_are() {
    let cases: &[(&[u8], &str)] = &[
        (b"PAR1\x15\x04\x15\x10PAR1", "Parquet"),
        (b"ARROW1\0\0\xff\xff\xff\xff", "plain Arrow IPC"),
        (b"ts,level\n1,INFO\n", "\"ts,level\""),
        (b"KYMA\x03ARROW1\0\0aaaaaaaaaa", "newer"),
        (b"KYMA\x02", "ends after 5 bytes"),
        (b"PENSIEVE\x02ARROW1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "does not end with its magic"),
    ];
    for (bytes, needle) in cases {
        let error = open_bytes("odd", bytes.to_vec()).err().unwrap().to_string();
        assert!(error.contains("odd") && error.contains(needle), "{error}");
    }
}

#[test]
fn statistics_that_are_not_json_cost_time_only() {
    let bytes = std::fs::read(data("logs_v2_pensieve.tlm")).unwrap();
    let at = bytes.len() - 9 - 4;
    let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut damaged = bytes.clone();
    damaged[at - length] = b'{';
    let reader = open_bytes("x", damaged).unwrap();
    assert!(reader.metadata().stats_rejected.as_ref().unwrap().contains("not valid"));
    assert!(reader.block_evidence(BlockId(0)).is_none());
    let rows: usize = read_all(reader.as_ref()).unwrap().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 160);
}

#[test]
fn invalid_utf8_in_a_block_is_an_error_that_names_the_column() {
    let bytes = std::fs::read(data("logs_v2_pensieve.tlm")).unwrap();
    let at = bytes.windows(6).position(|w| w == b"svc-0s").unwrap();
    let mut damaged = bytes.clone();
    damaged[at] = 0xFF;
    let reader = open_bytes("x.tlm", damaged).unwrap();
    let error = reader.read_block(BlockId(0), &[1]).unwrap_err().to_string();
    assert!(error.contains("service_name") && error.contains("block 0") && error.contains("x.tlm"), "{error}");
    // The other columns of the block are not affected.
    assert!(reader.read_block(BlockId(0), &[0, 2]).is_ok());
}

#[test]
fn a_failing_read_names_its_range() {
    use crate::storage::memory::ThrottledSource;
    let bytes = std::fs::read(data("logs_v2_pensieve.tlm")).unwrap();
    let base = Arc::new(MemorySource::new("flaky.tlm", bytes));
    let source = ThrottledSource::new(base.clone(), std::time::Duration::ZERO).failing_at(0..u64::MAX);
    let error = open(source).err().unwrap().to_string();
    assert!(error.contains("flaky.tlm") && error.contains("injected"), "{error}");
}
