//! The traps of Parquet statistics, each in a file that another writer made. `test/data/parquet/GENERATION.md` says how.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use serde_json::Value;

use super::{check_sound, fixture, open, read_all};
use crate::format::{BlockId, ExtentReader};
use crate::predicate::{BlockPredicate, CompareOp, Scalar};

fn scalar(value: &Value) -> Scalar {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    let number = |value: &Value| value.as_str().unwrap().parse::<i128>().unwrap();
    match kind.as_str() {
        "int" => Scalar::Int(number(value)),
        "float" => Scalar::Float(value.as_str().unwrap().parse().unwrap()),
        "str" => Scalar::Str(value.as_str().unwrap().to_owned()),
        "bytes" => {
            let hex = value.as_str().unwrap();
            Scalar::Bytes((0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect())
        }
        "ts" => Scalar::TimestampNs(number(value)),
        "date" => Scalar::Date(value.as_i64().unwrap()),
        "time" => Scalar::TimeNs(i64::try_from(number(value)).unwrap()),
        "dec" => Scalar::Decimal { value: number(&value[0]), scale: u8::try_from(value[1].as_u64().unwrap()).unwrap() },
        "bool" => Scalar::Bool(value.as_bool().unwrap()),
        other => panic!("{other}"),
    }
}

fn predicate(case: &Value) -> BlockPredicate {
    let column = case["column"].as_str().unwrap().to_owned();
    let op = match case["op"].as_str().unwrap() {
        "=" => CompareOp::Eq,
        "<" => CompareOp::Lt,
        "<=" => CompareOp::LtEq,
        ">" => CompareOp::Gt,
        ">=" => CompareOp::GtEq,
        "is null" => return BlockPredicate::IsNull { column },
        "is not null" => return BlockPredicate::Not(Box::new(BlockPredicate::IsNull { column })),
        other => panic!("{other}"),
    };
    BlockPredicate::Compare { column, op, value: scalar(&case["value"]) }
}

fn check(names: &[&str]) {
    let expected: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&fixture("expected.json")).unwrap();
    for name in names {
        let reader = open(name, fixture(name));
        let blocks = read_all(&reader);
        let rows: u64 = blocks.iter().map(|block| u64::try_from(block.num_rows()).unwrap()).sum();
        assert_eq!(rows, reader.metadata().row_count());
        for case in &expected[*name] {
            let predicate = predicate(case);
            let (count, kept) = check_sound(&reader, &blocks, &predicate, name);
            let why = format!("{name}: {predicate:?}: {}", case["why"]);
            assert_eq!(count, usize::try_from(case["count"].as_u64().unwrap()).unwrap(), "rows, {why}");
            let blocks: Vec<usize> = case["blocks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|b| usize::try_from(b.as_u64().unwrap()).unwrap())
                .collect();
            assert_eq!(kept, blocks, "row groups, {why}");
        }
    }
}

#[test]
fn every_fixture_has_a_test() {
    let expected: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&fixture("expected.json")).unwrap();
    let source = include_str!("fixtures.rs");
    for name in expected.keys() {
        assert!(source.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn unsigned_bounds_compare_unsigned() {
    check(&["pyarrow_unsigned.parquet"]);
}

#[test]
fn nan_is_above_every_bound() {
    check(&["pyarrow_nan.parquet"]);
}

#[test]
fn both_zeros_are_one_value() {
    check(&["pyarrow_zeros.parquet"]);
}

#[test]
fn a_nan_bound_is_no_bound() {
    check(&["nan_bounds.parquet"]);
}

#[test]
fn timestamps_dates_and_times_of_every_unit() {
    check(&["pyarrow_timestamps.parquet"]);
}

#[test]
fn types_without_logical_types() {
    check(&["legacy_types.parquet"]);
}

#[test]
fn int96_has_no_order() {
    check(&["pyarrow_int96.parquet"]);
}

#[test]
fn decimals_of_every_physical_type() {
    check(&["pyarrow_decimals.parquet", "pyarrow_decimals_flba.parquet", "decimal_byte_array.parquet"]);
}

#[test]
fn strings_compare_bytewise() {
    check(&["pyarrow_strings.parquet"]);
}

#[test]
fn cut_strings_bound_their_prefix() {
    check(&["truncated_strings.parquet", "split_character.parquet"]);
}

#[test]
fn the_deprecated_pair_is_for_signed_numbers() {
    check(&["deprecated_min_max.parquet"]);
}

#[test]
fn bounds_need_a_known_order() {
    check(&["no_column_orders.parquet", "unknown_column_order.parquet", "unknown_logical_type.parquet"]);
}

#[test]
fn reversed_bounds_are_ignored() {
    check(&["reversed_bounds.parquet"]);
}

#[test]
fn null_counts() {
    check(&[
        "pyarrow_nulls.parquet",
        "no_null_counts.parquet",
        "impossible_null_counts.parquet",
        "no_statistics.parquet",
    ]);
}

#[test]
fn other_types_of_pyarrow() {
    check(&["pyarrow_types.parquet"]);
}

#[test]
fn pages_that_end_at_different_rows() {
    check(&["pyarrow_pages.parquet"]);
}

#[test]
fn codecs_and_data_page_versions() {
    check(&[
        "pyarrow_none_v1.parquet",
        "pyarrow_none_v2.parquet",
        "pyarrow_gzip_v1.parquet",
        "pyarrow_gzip_v2.parquet",
        "pyarrow_brotli_v1.parquet",
        "pyarrow_brotli_v2.parquet",
        "pyarrow_lz4_v1.parquet",
        "pyarrow_lz4_v2.parquet",
    ]);
}

#[test]
fn files_of_duckdb() {
    check(&["duckdb_types.parquet", "duckdb_v2.parquet"]);
}

#[test]
fn intervals_are_read_whole() {
    let reader = open("duckdb_types.parquet", fixture("duckdb_types.parquet"));
    let (column, field) = reader.metadata().schema.column_with_name("iv").unwrap();
    assert_eq!(field.data_type(), &DataType::Interval(IntervalUnit::MonthDayNano));
    let batch = reader.read_block(BlockId(0), &[column]).unwrap();
    let values = batch.column(0).as_primitive::<IntervalMonthDayNanoType>();
    for (row, value) in values.values().iter().enumerate() {
        assert_eq!(*value, IntervalMonthDayNano::new(0, i32::try_from(row).unwrap(), 0));
    }
}

#[test]
fn bloom_filters_of_duckdb() {
    check(&["duckdb_bloom.parquet", "bloom_without_length.parquet"]);
}
