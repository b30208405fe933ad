//! Values as Python's `repr` shows them, which is how the expectations beside the fixtures were recorded.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};

fn bytes(value: &[u8]) -> String {
    let mut out = String::from("b'");
    for byte in value {
        match byte {
            b'\\' | b'\'' => {
                out.push('\\');
                out.push(*byte as char);
            }
            0x20..0x7f => out.push(*byte as char),
            _ => write!(out, "\\x{byte:02x}").unwrap(),
        }
    }
    out + "'"
}

fn float(value: f64) -> String {
    if value.is_nan() {
        "nan".into()
    } else if value.is_infinite() {
        if value > 0.0 { "inf".into() } else { "-inf".into() }
    } else {
        format!("{value:?}")
    }
}

fn date(days: i32) -> (i64, i64, i64) {
    // The civil-from-days algorithm.
    let z = i64::from(days) + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

fn list(values: &ArrayRef) -> String {
    let items: Vec<String> = (0..values.len()).map(|i| repr(values, i)).collect();
    format!("[{}]", items.join(", "))
}

/// Python's text for one value.
pub fn repr(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "None".into();
    }
    match array.data_type() {
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => if array.as_boolean().value(row) { "True" } else { "False" }.into(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().value(row).to_string()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).to_string()
        }
        DataType::Utf8 => format!("'{}'", array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => format!("'{}'", array.as_string::<i64>().value(row)),
        DataType::Utf8View => format!("'{}'", array.as_string_view().value(row)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::Date32 => {
            let (year, month, day) = date(array.as_primitive::<Date32Type>().value(row));
            format!("datetime.date({year}, {month}, {day})")
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let micros = array.as_primitive::<Time64MicrosecondType>().value(row);
            let (h, m, s, u) =
                (micros / 3_600_000_000, micros / 60_000_000 % 60, micros / 1_000_000 % 60, micros % 1_000_000);
            format!("datetime.time({h}, {m}, {s}, {u})")
        }
        DataType::Decimal128(_, _) => {
            format!("Decimal('{}')", array.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let members = fields.iter().zip(array.columns()).map(|(f, c)| format!("'{}': {}", f.name(), repr(c, row)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let pair = |i| format!("({}, {})", repr(entries.column(0), i), repr(entries.column(1), i));
            format!("[{}]", (0..entries.len()).map(pair).collect::<Vec<_>>().join(", "))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            repr(dictionary.values(), dictionary.normalized_keys()[row])
        }
        other => panic!("no Python text for {other}"),
    }
}

/// pyarrow's name of a type.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int32 => "int32".into(),
        DataType::Int64 => "int64".into(),
        DataType::UInt64 => "uint64".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Boolean => "bool".into(),
        DataType::Utf8 => "string".into(),
        DataType::LargeUtf8 => "large_string".into(),
        DataType::Utf8View => "string_view".into(),
        DataType::Binary => "binary".into(),
        DataType::Date32 => "date32[day]".into(),
        DataType::Time64(TimeUnit::Microsecond) => "time64[us]".into(),
        DataType::Decimal128(p, s) => format!("decimal128({p}, {s})"),
        DataType::Timestamp(unit, zone) => {
            let unit = if *unit == TimeUnit::Nanosecond { "ns" } else { "us" };
            zone.as_ref().map_or_else(|| format!("timestamp[{unit}]"), |zone| format!("timestamp[{unit}, tz={zone}]"))
        }
        DataType::List(f) => format!("list<{}: {}>", f.name(), type_name(f.data_type())),
        DataType::FixedSizeList(f, n) => {
            let null = if f.is_nullable() { "" } else { " not null" };
            format!("fixed_size_list<{}: {}{null}>[{n}]", f.name(), type_name(f.data_type()))
        }
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{}: {}", f.name(), type_name(f.data_type()))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(f) => format!("map<{}, {}>", type_name(f[0].data_type()), type_name(f[1].data_type())),
            other => panic!("{other}"),
        },
        DataType::Dictionary(key, value) => {
            format!("dictionary<values={}, indices={}, ordered=0>", type_name(value), type_name(key))
        }
        other => panic!("no pyarrow name for {other}"),
    }
}
