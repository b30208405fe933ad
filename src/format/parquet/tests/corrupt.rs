//! Damaged and hostile files: an error that names the file, never a panic, never a wrong answer about the footer.

use std::sync::Arc;

use super::{Random, fixture};
use crate::format::parquet::ParquetReader;
use crate::format::{BlockId, ExtentReader};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};
use crate::storage::memory::MemorySource;
use crate::{Error, Result};

/// Opens and reads everything; whatever happens must happen as a `Result`.
fn exercise(bytes: Vec<u8>) -> Result<u64> {
    let reader = ParquetReader::open(Arc::new(MemorySource::new("damaged.parquet", bytes)))?;
    let schema = Arc::clone(&reader.metadata().schema);
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let mut rows = 0;
    let mut first_error = None;
    for name in schema.fields().iter().map(|field| field.name()).take(3) {
        let predicate = BlockPredicate::Or(vec![
            BlockPredicate::Compare { column: name.clone(), op: CompareOp::Eq, value: Scalar::Int(1234) },
            BlockPredicate::Compare { column: name.clone(), op: CompareOp::Eq, value: Scalar::Str("id-5".to_owned()) },
        ]);
        for block in reader.pruned_blocks(&predicate)? {
            let candidates = reader.candidate_rows(block, &predicate)?;
            if let Err(error) = reader.read_rows(block, &all, &candidates) {
                first_error.get_or_insert(error);
            }
        }
    }
    for block in 0..reader.metadata().block_rows.len() {
        match reader.read_block(BlockId(u32::try_from(block).unwrap()), &all) {
            Ok(batch) => rows += u64::try_from(batch.num_rows()).unwrap(),
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(rows), Err)
}

fn names_the_file(error: &Error) {
    assert!(error.to_string().contains("damaged.parquet"), "{error}");
}

#[test]
fn files_cut_anywhere_in_the_footer_are_errors() {
    let bytes = fixture("pyarrow_nulls.parquet");
    for length in 0..bytes.len() {
        let error = exercise(bytes[..length].to_vec()).unwrap_err();
        names_the_file(&error);
    }
}

#[test]
fn every_flipped_bit_of_a_tail_is_survived() {
    let bytes = fixture("pyarrow_nulls.parquet");
    for position in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1 << bit;
            if let Err(error) = exercise(damaged) {
                names_the_file(&error);
            }
        }
    }
}

#[test]
fn random_damage_is_survived() {
    let mut random = Random(7);
    for name in ["pyarrow_types.parquet", "duckdb_bloom.parquet", "pyarrow_lz4_v2.parquet", "duckdb_v2.parquet"] {
        let bytes = fixture(name);
        for _ in 0..60 {
            let mut damaged = bytes.clone();
            // Half of the time near the end, where the structure is.
            let from = if random.chance(2) { damaged.len().saturating_sub(4096) } else { 0 };
            for _ in 0..1 + random.below(8) {
                let position = from + random.below(damaged.len() - from);
                damaged[position] = u8::try_from(random.next() & 0xff).unwrap();
            }
            if let Err(error) = exercise(damaged) {
                names_the_file(&error);
            }
        }
    }
}

#[test]
fn lying_lengths_are_errors() {
    let bytes = fixture("pyarrow_nulls.parquet");
    let end = bytes.len();
    for length in [0u32, 1, 4, u32::try_from(end).unwrap(), u32::MAX] {
        let mut damaged = bytes.clone();
        damaged[end - 8..end - 4].copy_from_slice(&length.to_le_bytes());
        names_the_file(&exercise(damaged).unwrap_err());
    }
    let mut encrypted = bytes.clone();
    encrypted[end - 4..].copy_from_slice(b"PARE");
    assert!(exercise(encrypted).unwrap_err().to_string().contains("encrypted"));
    let mut foreign = bytes;
    foreign[end - 4..].copy_from_slice(b"ORC1");
    assert!(exercise(foreign).unwrap_err().to_string().contains("PAR1"));
}
