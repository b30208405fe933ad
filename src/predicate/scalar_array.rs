//! Reading one value of an Arrow array as a [`Scalar`].

use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::array::{Array, AsArray, RunArray};
use arrow::datatypes::{DataType, RunEndIndexType, TimeUnit};

use super::Scalar;

/// Milliseconds of a day, the unit of Arrow's `Date64`.
const DAY_MILLIS: i64 = 86_400_000;

/// Nanoseconds in one unit of a timestamp or time.
pub fn nanos_per_unit(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

impl Scalar {
    /// The value of `array` at `row`, [`Scalar::Null`] for a null. `None` when the row does not exist, when the type has no
    /// scalar here (nested types, intervals, durations, unions), or when the value is outside the domain (a decimal beyond 128
    /// bits, a `Date64` that is not a whole day).
    pub fn from_array(array: &dyn Array, row: usize) -> Option<Self> {
        if row >= array.len() {
            return None;
        }
        if array.is_null(row) {
            return Some(Self::Null);
        }
        match array.data_type() {
            DataType::Null => Some(Self::Null),
            DataType::Boolean => Some(Self::Bool(array.as_boolean_opt()?.value(row))),
            DataType::Int8 => integer::<Int8Type>(array, row),
            DataType::Int16 => integer::<Int16Type>(array, row),
            DataType::Int32 => integer::<Int32Type>(array, row),
            DataType::Int64 => integer::<Int64Type>(array, row),
            DataType::UInt8 => integer::<UInt8Type>(array, row),
            DataType::UInt16 => integer::<UInt16Type>(array, row),
            DataType::UInt32 => integer::<UInt32Type>(array, row),
            DataType::UInt64 => integer::<UInt64Type>(array, row),
            DataType::Float16 => Some(Self::Float(native::<Float16Type>(array, row)?.to_f64())),
            DataType::Float32 => Some(Self::Float(f64::from(native::<Float32Type>(array, row)?))),
            DataType::Float64 => Some(Self::Float(native::<Float64Type>(array, row)?)),
            DataType::Decimal32(_, scale) => decimal(native::<Decimal32Type>(array, row)?.into(), *scale),
            DataType::Decimal64(_, scale) => decimal(native::<Decimal64Type>(array, row)?.into(), *scale),
            DataType::Decimal128(_, scale) => decimal(native::<Decimal128Type>(array, row)?, *scale),
            DataType::Decimal256(_, scale) => decimal(native::<Decimal256Type>(array, row)?.to_i128()?, *scale),
            DataType::Utf8 => Some(Self::Str(array.as_string_opt::<i32>()?.value(row).to_owned())),
            DataType::LargeUtf8 => Some(Self::Str(array.as_string_opt::<i64>()?.value(row).to_owned())),
            DataType::Utf8View => Some(Self::Str(array.as_string_view_opt()?.value(row).to_owned())),
            DataType::Binary => Some(Self::Bytes(array.as_binary_opt::<i32>()?.value(row).to_vec())),
            DataType::LargeBinary => Some(Self::Bytes(array.as_binary_opt::<i64>()?.value(row).to_vec())),
            DataType::BinaryView => Some(Self::Bytes(array.as_binary_view_opt()?.value(row).to_vec())),
            DataType::FixedSizeBinary(_) => Some(Self::Bytes(array.as_fixed_size_binary_opt()?.value(row).to_vec())),
            DataType::Timestamp(unit, _) => {
                let value = match unit {
                    TimeUnit::Second => native::<TimestampSecondType>(array, row)?,
                    TimeUnit::Millisecond => native::<TimestampMillisecondType>(array, row)?,
                    TimeUnit::Microsecond => native::<TimestampMicrosecondType>(array, row)?,
                    TimeUnit::Nanosecond => native::<TimestampNanosecondType>(array, row)?,
                };
                Some(Self::TimestampNs(i128::from(value) * i128::from(nanos_per_unit(*unit))))
            }
            DataType::Date32 => Some(Self::Date(native::<Date32Type>(array, row)?.into())),
            DataType::Date64 => {
                let millis = native::<Date64Type>(array, row)?;
                (millis % DAY_MILLIS == 0).then_some(Self::Date(millis / DAY_MILLIS))
            }
            DataType::Time32(unit) => {
                let value = match unit {
                    TimeUnit::Second => native::<Time32SecondType>(array, row)?,
                    _ => native::<Time32MillisecondType>(array, row)?,
                };
                Some(Self::TimeNs(i64::from(value).checked_mul(nanos_per_unit(*unit))?))
            }
            DataType::Time64(unit) => {
                let value = match unit {
                    TimeUnit::Microsecond => native::<Time64MicrosecondType>(array, row)?,
                    _ => native::<Time64NanosecondType>(array, row)?,
                };
                Some(Self::TimeNs(value.checked_mul(nanos_per_unit(*unit))?))
            }
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary_opt()?;
                match Self::from_array(dictionary.keys(), row)? {
                    Self::Int(key) => Self::from_array(dictionary.values().as_ref(), usize::try_from(key).ok()?),
                    _ => None,
                }
            }
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => run_value::<Int16Type>(array, row),
                DataType::Int32 => run_value::<Int32Type>(array, row),
                _ => run_value::<Int64Type>(array, row),
            },
            _ => None,
        }
    }
}

fn native<P: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<P::Native> {
    Some(array.as_primitive_opt::<P>()?.value(row))
}

fn integer<P: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Option<Scalar>
where
    P::Native: Into<i128>,
{
    Some(Scalar::Int(native::<P>(array, row)?.into()))
}

/// Arrow allows negative scales (multiples of a power of ten); they become scale 0.
fn decimal(value: i128, scale: i8) -> Option<Scalar> {
    match u8::try_from(scale) {
        Ok(scale) => Some(Scalar::Decimal { value, scale }),
        Err(_) => {
            let factor = 10i128.checked_pow(u32::from(scale.unsigned_abs()))?;
            Some(Scalar::Decimal { value: value.checked_mul(factor)?, scale: 0 })
        }
    }
}

fn run_value<R: RunEndIndexType>(array: &dyn Array, row: usize) -> Option<Scalar> {
    let runs = array.as_any().downcast_ref::<RunArray<R>>()?;
    Scalar::from_array(runs.values().as_ref(), runs.get_physical_index(row))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, i256};

    use super::*;
    use crate::predicate::Scalar;

    fn at(array: impl Array, row: usize) -> Option<Scalar> {
        Scalar::from_array(&array, row)
    }

    #[test]
    fn primitives() {
        assert_eq!(at(Int8Array::from(vec![-128]), 0), Some(Scalar::Int(-128)));
        assert_eq!(at(UInt64Array::from(vec![u64::MAX]), 0), Some(Scalar::Int(i128::from(u64::MAX))));
        assert_eq!(at(Int64Array::from(vec![i64::MIN]), 0), Some(Scalar::Int(i128::from(i64::MIN))));
        assert_eq!(at(Float32Array::from(vec![0.1f32]), 0), Some(Scalar::Float(f64::from(0.1f32))));
        assert_eq!(at(BooleanArray::from(vec![true]), 0), Some(Scalar::Bool(true)));
        assert_eq!(at(Int32Array::from(vec![Some(1), None]), 1), Some(Scalar::Null));
        assert_eq!(at(Int32Array::from(vec![1]), 1), None, "no such row");
        assert_eq!(at(NullArray::new(1), 0), Some(Scalar::Null));
    }

    #[test]
    fn decimals_of_every_width_and_sign_of_scale() {
        let expected = Some(Scalar::Decimal { value: -123, scale: 2 });
        assert_eq!(at(Decimal32Array::from(vec![-123]).with_precision_and_scale(5, 2).unwrap(), 0), expected);
        assert_eq!(at(Decimal64Array::from(vec![-123]).with_precision_and_scale(12, 2).unwrap(), 0), expected);
        assert_eq!(at(Decimal128Array::from(vec![-123]).with_precision_and_scale(38, 2).unwrap(), 0), expected);
        let wide =
            Decimal256Array::from(vec![i256::from_i128(-123), i256::MAX]).with_precision_and_scale(76, 2).unwrap();
        assert_eq!(Scalar::from_array(&wide, 0), expected);
        assert_eq!(Scalar::from_array(&wide, 1), None);
        let negative = Decimal128Array::from(vec![7]).with_precision_and_scale(5, -3).unwrap();
        assert_eq!(at(negative, 0), Some(Scalar::Decimal { value: 7000, scale: 0 }));
    }

    #[test]
    fn text_and_bytes_in_every_layout() {
        let text = Some(Scalar::Str("é".into()));
        assert_eq!(at(StringArray::from(vec!["é"]), 0), text);
        assert_eq!(at(LargeStringArray::from(vec!["é"]), 0), text);
        assert_eq!(at(StringViewArray::from(vec!["é"]), 0), text);
        let bytes = Some(Scalar::Bytes(vec![0xff]));
        assert_eq!(at(BinaryArray::from_vec(vec![&[0xff]]), 0), bytes);
        assert_eq!(at(LargeBinaryArray::from_vec(vec![&[0xff]]), 0), bytes);
        assert_eq!(at(BinaryViewArray::from_iter_values([[0xff]]), 0), bytes);
        assert_eq!(at(FixedSizeBinaryArray::try_from_iter([[0xff]].iter()).unwrap(), 0), bytes);
    }

    #[test]
    fn times_become_nanoseconds() {
        assert_eq!(
            at(TimestampSecondArray::from(vec![i64::MAX]), 0),
            Some(Scalar::TimestampNs(i128::from(i64::MAX) * 1_000_000_000))
        );
        assert_eq!(at(TimestampNanosecondArray::from(vec![-1]).with_timezone("UTC"), 0), Some(Scalar::TimestampNs(-1)));
        assert_eq!(at(Date32Array::from(vec![-1]), 0), Some(Scalar::Date(-1)));
        assert_eq!(at(Date64Array::from(vec![-86_400_000]), 0), Some(Scalar::Date(-1)));
        assert_eq!(at(Date64Array::from(vec![1]), 0), None, "not a whole day");
        assert_eq!(at(Time32MillisecondArray::from(vec![5]), 0), Some(Scalar::TimeNs(5_000_000)));
        assert_eq!(at(Time64MicrosecondArray::from(vec![5]), 0), Some(Scalar::TimeNs(5_000)));
        assert_eq!(at(Time64MicrosecondArray::from(vec![i64::MAX]), 0), None);
    }

    #[test]
    fn dictionaries_and_runs_look_through_to_their_values() {
        let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
        let dictionary = DictionaryArray::new(keys, Arc::new(StringArray::from(vec![None, Some("b")])));
        let values: Vec<_> = (0..3).map(|row| Scalar::from_array(&dictionary, row)).collect();
        assert_eq!(values, [Some(Scalar::Str("b".into())), Some(Scalar::Null), Some(Scalar::Null)]);
        let runs =
            RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int64Array::from(vec![Some(7), None]))
                .unwrap();
        let values: Vec<_> = (0..3).map(|row| Scalar::from_array(&runs, row)).collect();
        assert_eq!(values, [Some(Scalar::Int(7)), Some(Scalar::Int(7)), Some(Scalar::Null)]);
    }

    #[test]
    fn nested_types_have_no_scalar_but_their_nulls_do() {
        let fields = vec![Field::new("x", DataType::Int32, true)];
        let nested = StructArray::new(
            fields.into(),
            vec![Arc::new(Int32Array::from(vec![1, 2]))],
            Some(NullBuffer::from(vec![true, false])),
        );
        assert_eq!(Scalar::from_array(&nested, 0), None);
        assert_eq!(Scalar::from_array(&nested, 1), Some(Scalar::Null));
    }
}
