//! Statistics whose values have a length that no value of their type has: looked for before the footer and the column indexes are decoded,
//! because the decoder takes the beginning of what is too long for a value, and refuses the whole footer over what is too short.

use std::ops::Range;

use parquet::basic::Type as Physical;

use super::thrift::{BINARY, I32, I64, LIST, STRUCT, Thrift};

/// Bytes of a value of the physical type that has this number in files; `None` for byte arrays.
fn width(physical: i64) -> Option<usize> {
    match physical {
        0 => Some(1),
        1 | 4 => Some(4),
        2 | 5 => Some(8),
        3 => Some(12),
        _ => None,
    }
}

/// The footer without the impossible values among its statistics; `None` if it has none, or cannot be followed.
pub(super) fn without_impossible(footer: &[u8]) -> Option<Vec<u8>> {
    let edits = edits(footer).filter(|edits| !edits.is_empty())?;
    let mut result = Vec::with_capacity(footer.len());
    let mut copied = 0;
    for (range, statistics) in edits {
        result.extend_from_slice(footer.get(copied..range.start)?);
        result.extend_from_slice(&statistics);
        copied = range.end;
    }
    result.extend_from_slice(footer.get(copied..)?);
    Some(result)
}

/// What stands in the place of which bytes of `footer`, in order.
fn edits(footer: &[u8]) -> Option<Vec<(Range<usize>, Vec<u8>)>> {
    let mut edits = Vec::new();
    let mut column = |chunk: &mut Thrift<'_>| {
        let mut physical = None;
        chunk.fields(&mut |metadata, number, kind| match (number, kind) {
            (1, I32) => {
                physical = Some(metadata.zigzag()?);
                Some(())
            }
            (12, STRUCT) => {
                let start = footer.len().checked_sub(metadata.bytes.len())?;
                let kept = possible(metadata, physical.and_then(width))?;
                edits.extend(kept.map(|kept| (start..footer.len() - metadata.bytes.len(), kept)));
                Some(())
            }
            _ => metadata.skip(kind),
        })
    };
    Thrift { bytes: footer }.fields(&mut |file, number, kind| match (number, kind) {
        (4, LIST) => file.elements(&mut |group, _| {
            group.fields(&mut |group, number, kind| match (number, kind) {
                (1, LIST) => group.elements(&mut |chunk, _| {
                    chunk.fields(&mut |chunk, number, kind| match (number, kind) {
                        (3, STRUCT) => column(chunk),
                        _ => chunk.skip(kind),
                    })
                }),
                _ => group.skip(kind),
            })
        }),
        _ => file.skip(kind),
    })?;
    Some(edits)
}

/// Reads a struct of statistics about values of `width` bytes. What is possible of it, encoded again; `None` inside if that is all.
fn possible(statistics: &mut Thrift<'_>, width: Option<usize>) -> Option<Option<Vec<u8>>> {
    let mut kept = Vec::new();
    let mut dropped = false;
    statistics.fields(&mut |fields, number, kind| {
        let before = fields.bytes;
        let holds = match (number, kind) {
            // max, min, max_value, min_value
            (1 | 2 | 5 | 6, BINARY) => {
                let value = fields.binary()?;
                width.is_none_or(|width| value.len() == width)
            }
            // null_count, distinct_count, nan_count
            (3 | 4 | 9, I64) => fields.zigzag()? >= 0,
            _ => {
                fields.skip(kind)?;
                true
            }
        };
        if holds {
            // the type, and the number not as a difference to the field before
            kept.extend([kind, u8::try_from(number).ok().filter(|number| *number < 64)? << 1]);
            kept.extend_from_slice(before.get(..before.len() - fields.bytes.len())?);
        }
        dropped |= !holds;
        Some(())
    })?;
    kept.push(0);
    Some(dropped.then_some(kept))
}

/// Whether every value of a column index has the length of values of its type. Pages of NULLs have no value.
pub(super) fn index_is_possible(index: &[u8], physical: Physical) -> bool {
    let Some(width) = width(physical as i64) else { return true };
    let walked = Thrift { bytes: index }.fields(&mut |index, number, kind| match (number, kind) {
        (2 | 3, LIST) => index.elements(&mut |values, kind| {
            let length = if kind == BINARY { values.binary()?.len() } else { return None };
            (length == 0 || length == width).then_some(())
        }),
        _ => index.skip(kind),
    });
    walked.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct of statistics: null_count, max_value, min_value and "the maximum is exact".
    fn statistics(nulls: u8, max: &[u8], min: &[u8]) -> Vec<u8> {
        let length = |value: &[u8]| u8::try_from(value.len()).unwrap();
        let mut bytes = vec![0x36, nulls, 0x28, length(max)];
        bytes.extend(max);
        bytes.extend([0x18, length(min)]);
        bytes.extend(min);
        bytes.extend([0x11, 0]);
        bytes
    }

    fn footer(physical: u8, statistics: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x15, 4, 0x39, 0x1c, 0x19, 0x1c, 0x26, 0, 0x1c, 0x15, physical << 1, 0xbc];
        bytes.extend(statistics);
        // one more field of each struct, so that what follows the statistics is seen to be in its place
        bytes.extend([0x16, 8, 0, 0, 0x16, 10, 0, 0x18, 1, b'x', 0]);
        bytes
    }

    #[test]
    fn values_of_another_length_than_their_type_are_dropped() {
        let fine = footer(2, &statistics(2, &[1; 8], &[2; 8]));
        assert_eq!(without_impossible(&fine), None);
        assert_eq!(without_impossible(&footer(6, &statistics(2, &[1; 9], &[]))), None);
        // max too long, min too short: each goes by itself, and the counts stay
        let mut kept = vec![6, 6, 2, 8, 12, 8];
        kept.extend([2; 8]);
        kept.extend([1, 14, 0]);
        let long = footer(2, &statistics(2, &[1; 9], &[2; 8]));
        assert_eq!(without_impossible(&long), Some(footer(2, &kept)));
        let short = footer(1, &statistics(2, &[1; 8], &[2; 3]));
        assert_eq!(without_impossible(&short), Some(footer(1, &[6, 6, 2, 1, 14, 0])));
        // a negative number of NULLs
        let negative = footer(6, &statistics(1, &[], b"b"));
        assert_eq!(without_impossible(&negative), Some(footer(6, &[8, 10, 0, 8, 12, 1, b'b', 1, 14, 0])));
        for end in 0..long.len() {
            assert_eq!(without_impossible(&long[..end]), None, "{end}");
        }
    }

    #[test]
    fn an_index_with_such_a_value_is_none() {
        let index = |value: &[u8]| {
            let mut bytes = vec![0x19, 0x21, 1, 2, 0x19, 0x28, 4, 1, 0, 0, 0, u8::try_from(value.len()).unwrap()];
            bytes.extend(value);
            bytes.extend([0x19, 0x28, 0, 0, 0x15, 0, 0]);
            bytes
        };
        assert!(index_is_possible(&index(&[]), Physical::INT32));
        assert!(index_is_possible(&index(&[1; 4]), Physical::FLOAT));
        assert!(index_is_possible(&index(&[1; 7]), Physical::BYTE_ARRAY));
        assert!(!index_is_possible(&index(&[1; 5]), Physical::INT32));
        assert!(!index_is_possible(&index(&[1; 3]), Physical::INT32));
    }
}
