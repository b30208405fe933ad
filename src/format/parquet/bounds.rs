//! Raw statistics to bounds: what a stored minimum or maximum proves about the values of a leaf.

use parquet::basic::Type as Physical;

use super::columns::{Column, Domain};
use crate::predicate::Scalar;

/// A stored bound before its meaning is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw<'a> {
    /// BOOLEAN.
    Bool(bool),
    /// INT32.
    I32(i32),
    /// INT64.
    I64(i64),
    /// FLOAT.
    F32(f32),
    /// DOUBLE.
    F64(f64),
    /// BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY.
    Bytes(&'a [u8]),
}

/// A stored bound and whether the writer says that it is the value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored<'a> {
    /// The value.
    pub(super) raw: Raw<'a>,
    /// The writer's exactness flag.
    pub(super) exact: bool,
}

/// A bound that may be compared with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    /// The value.
    pub(super) value: Scalar,
    /// Whether it is the value of some row.
    pub(super) exact: bool,
}

/// Values this short were never cut by any writer in use; the shortest prefix known is eight bytes.
const SHORTEST_PREFIX: usize = 8;

/// The pair of bounds that a stored pair proves. A NaN in either, or a minimum above the maximum, discredits both.
pub(super) fn bounds(
    column: &Column,
    min: Option<Stored<'_>>,
    max: Option<Stored<'_>>,
) -> (Option<Bound>, Option<Bound>) {
    if min.is_some_and(|min| is_nan(column, min.raw)) || max.is_some_and(|max| is_nan(column, max.raw)) {
        return (None, None);
    }
    let low = min.filter(|min| is_whole(column, *min)).and_then(|min| lower(column, min));
    let high = max.filter(|max| is_whole(column, *max)).and_then(|max| upper(column, max));
    if let (Some(low), Some(high)) = (&low, &high)
        && !low.value.compare(&high.value).is_some_and(std::cmp::Ordering::is_le)
    {
        return (None, None);
    }
    (low, high)
}

fn is_nan(column: &Column, raw: Raw<'_>) -> bool {
    value(column, raw).is_some_and(|value| matches!(value, Scalar::Float(number) if number.is_nan()))
}

/// Whether a stored value can be one of the column, or, of text and bytes, the beginning of one. A decimal cut like a string would be
/// another number: in byte arrays of any length only the flag tells.
fn is_whole(column: &Column, stored: Stored<'_>) -> bool {
    match (column.physical, stored.raw) {
        (Physical::FIXED_LEN_BYTE_ARRAY, Raw::Bytes(bytes)) => {
            let cut = column.domain == Domain::Binary && bytes.len() < column.type_length && !stored.exact;
            bytes.len() == column.type_length || cut
        }
        (Physical::BYTE_ARRAY, _) => stored.exact || !matches!(column.domain, Domain::Decimal { .. }),
        _ => true,
    }
}

fn lower(column: &Column, stored: Stored<'_>) -> Option<Bound> {
    if let (Domain::Text, Raw::Bytes(bytes)) = (column.domain, stored.raw) {
        // A minimum cut inside a character: the whole characters before the cut are still a lower bound.
        let text = valid_prefix(bytes);
        return Some(Bound { exact: stored.exact && text.len() == bytes.len(), value: Scalar::Str(text.to_owned()) });
    }
    Some(Bound { value: value(column, stored.raw)?, exact: is_exact(column, stored) })
}

fn upper(column: &Column, stored: Stored<'_>) -> Option<Bound> {
    // The format asks writers to round a cut maximum up, and gives them a flag to say that a value is whole. Without the flag
    // a long maximum may be a prefix that was not rounded up: the successor of the prefix bounds either reading.
    match (column.domain, stored.raw) {
        (Domain::Text, Raw::Bytes(bytes)) => {
            let text = valid_prefix(bytes);
            if text.len() == bytes.len() && (stored.exact || bytes.len() < SHORTEST_PREFIX) {
                return Some(Bound { value: Scalar::Str(text.to_owned()), exact: stored.exact });
            }
            Some(Bound { value: Scalar::Str(text_successor(text)?), exact: false })
        }
        (Domain::Binary, Raw::Bytes(bytes)) => {
            let whole = match column.physical {
                Physical::FIXED_LEN_BYTE_ARRAY => bytes.len() == column.type_length,
                _ => bytes.len() < SHORTEST_PREFIX,
            };
            if stored.exact || whole {
                return Some(Bound { value: Scalar::Bytes(bytes.to_vec()), exact: stored.exact });
            }
            Some(Bound { value: Scalar::Bytes(bytes_successor(bytes)?), exact: false })
        }
        (_, raw) => Some(Bound { value: value(column, raw)?, exact: is_exact(column, stored) }),
    }
}

/// Numbers of fixed width are never cut: only the flag of byte arrays says something.
fn is_exact(column: &Column, stored: Stored<'_>) -> bool {
    stored.exact || (matches!(stored.raw, Raw::Bytes(_)) && matches!(column.domain, Domain::Float))
}

/// A whole stored value in the domain of its column; `None` if it has no place there.
pub(super) fn value(column: &Column, raw: Raw<'_>) -> Option<Scalar> {
    Some(match (column.domain, raw) {
        (Domain::Bool, Raw::Bool(flag)) => Scalar::Bool(flag),
        (Domain::Signed, Raw::I32(number)) => Scalar::Int(number.into()),
        (Domain::Signed, Raw::I64(number)) => Scalar::Int(number.into()),
        (Domain::Unsigned, Raw::I32(number)) => Scalar::Int(number.cast_unsigned().into()),
        (Domain::Unsigned, Raw::I64(number)) => Scalar::Int(number.cast_unsigned().into()),
        (Domain::Float, Raw::F32(number)) => Scalar::Float(number.into()),
        (Domain::Float, Raw::F64(number)) => Scalar::Float(number),
        (Domain::Float, Raw::Bytes(bytes)) => Scalar::Float(half(u16::from_le_bytes(bytes.try_into().ok()?))),
        (Domain::Decimal { scale }, Raw::I32(number)) => Scalar::Decimal { value: number.into(), scale },
        (Domain::Decimal { scale }, Raw::I64(number)) => Scalar::Decimal { value: number.into(), scale },
        (Domain::Decimal { scale }, Raw::Bytes(bytes)) => Scalar::Decimal { value: big_endian(bytes)?, scale },
        (Domain::Text, Raw::Bytes(bytes)) => Scalar::Str(std::str::from_utf8(bytes).ok()?.to_owned()),
        (Domain::Binary, Raw::Bytes(bytes)) => Scalar::Bytes(bytes.to_vec()),
        (Domain::Timestamp { unit }, Raw::I64(number)) => Scalar::TimestampNs(i128::from(number) * unit),
        (Domain::Date, Raw::I32(days)) => Scalar::Date(days.into()),
        (Domain::Time { unit }, Raw::I32(number)) => Scalar::TimeNs(i64::from(number).checked_mul(unit)?),
        (Domain::Time { unit }, Raw::I64(number)) => Scalar::TimeNs(number.checked_mul(unit)?),
        _ => return None,
    })
}

/// The two's-complement number of any length, if it fits 128 bits.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first()? & 0x80 != 0;
    let fill = if negative { 0xff } else { 0x00 };
    let cut = bytes.len().saturating_sub(16);
    let (extension, digits) = bytes.split_at(cut);
    if extension.iter().any(|byte| *byte != fill) {
        return None;
    }
    let mut whole = [fill; 16];
    whole.get_mut(16 - digits.len()..)?.copy_from_slice(digits);
    let number = i128::from_be_bytes(whole);
    (number.is_negative() == negative).then_some(number)
}

/// IEEE 754 binary16 as a double, which holds every such value.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f64::from(bits & 0x3ff) / 1024.0;
    match exponent {
        0 => sign * fraction * 2f64.powi(-14),
        0x1f if fraction == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        _ => sign * (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

/// The longest prefix of `bytes` that is whole UTF-8 characters.
fn valid_prefix(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            bytes.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok()).unwrap_or_default()
        }
    }
}

/// The smallest text greater than every text that begins with `prefix`; `None` if there is none.
fn text_successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => u32::from(last).checked_add(1).and_then(char::from_u32),
        };
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// The smallest byte string greater than every one that begins with `prefix`; `None` if there is none.
fn bytes_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_any_length_are_twos_complement() {
        assert_eq!(big_endian(&[0xff]), Some(-1));
        assert_eq!(big_endian(&[0x00, 0x80]), Some(128));
        assert_eq!(big_endian(&i128::MIN.to_be_bytes()), Some(i128::MIN));
        let mut long = vec![0xff; 32];
        assert_eq!(big_endian(&long), Some(-1));
        long[0] = 0;
        assert_eq!(big_endian(&long), None);
        // 17 bytes, sign-extended, but the 128-bit half has the other sign.
        let mut edge = vec![0x00; 17];
        edge[1] = 0x80;
        assert_eq!(big_endian(&edge), None);
        assert_eq!(big_endian(&[]), None);
    }

    #[test]
    fn halves_are_exact() {
        assert_eq!(half(0x3c00), 1.0);
        assert_eq!(half(0xc000), -2.0);
        assert_eq!(half(0x0001), 2f64.powi(-24));
        assert_eq!(half(0x7bff), 65504.0);
        assert_eq!(half(0xfc00), f64::NEG_INFINITY);
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn successors_carry() {
        assert_eq!(text_successor("ab").as_deref(), Some("ac"));
        assert_eq!(text_successor("a\u{7f}").as_deref(), Some("a\u{80}"));
        assert_eq!(text_successor("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(text_successor("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(text_successor("\u{10ffff}"), None);
        assert_eq!(bytes_successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(bytes_successor(&[0xff]), None);
    }
}
