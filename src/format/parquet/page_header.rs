//! What page headers claim, read before the decoder allocates it.
//!
//! The decoder makes room for a page's stated size before it decompresses. A damaged header may state two gigabytes for a
//! hundred bytes. Headers are Thrift compact structs; the first three fields are the page type and the two sizes.

use parquet::basic::Compression;

/// The most that `compressed` bytes of a page can become; `None` where the codec has no useful limit and its decoder writes
/// only what it decodes.
fn limit(codec: Compression, compressed: u64) -> Option<u64> {
    let ratio = match codec {
        Compression::UNCOMPRESSED => 1,
        // At best a copy of 64 bytes from three.
        Compression::SNAPPY => 64,
        // At best 255 bytes of a match length from one.
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        // Deflate: 258 bytes from two bits.
        Compression::GZIP(_) => 1040,
        _ => return None,
    };
    Some(compressed.saturating_mul(ratio).saturating_add(64))
}

/// Checks the headers of the pages that follow each other in `bytes`.
///
/// # Errors
/// A text that says which page claims a size that its bytes cannot have. Bytes that are no header end the check without an
/// error: the decoder has its own words for them.
pub(super) fn check(mut bytes: &[u8], codec: Compression) -> Result<(), String> {
    while !bytes.is_empty() {
        let mut thrift = Thrift { bytes };
        let Some((uncompressed, compressed)) = thrift.page_sizes() else { return Ok(()) };
        let (Ok(uncompressed), Ok(length)) = (u64::try_from(uncompressed), usize::try_from(compressed)) else {
            return Err(format!("a page claims {compressed} compressed and {uncompressed} uncompressed bytes"));
        };
        let most = limit(codec, u64::try_from(length).unwrap_or(u64::MAX));
        if most.is_some_and(|most| uncompressed > most) {
            return Err(format!("a page of {length} bytes claims to hold {uncompressed}"));
        }
        match thrift.bytes.get(length..) {
            Some(rest) => bytes = rest,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// As much of the Thrift compact protocol as it takes to find the end of a struct.
struct Thrift<'a> {
    bytes: &'a [u8],
}

/// Structs within structs: page headers have three levels.
const DEEPEST: usize = 16;

impl Thrift<'_> {
    /// The uncompressed and the compressed size of a page header; leaves the position behind the header.
    fn page_sizes(&mut self) -> Option<(i64, i64)> {
        let (mut uncompressed, mut compressed) = (None, None);
        let mut field = 0i64;
        loop {
            let (kind, number) = match self.field(field)? {
                Some(found) => found,
                None => return Some((uncompressed?, compressed?)),
            };
            field = number;
            match (number, kind) {
                (2, 5) => uncompressed = Some(self.zigzag()?),
                (3, 5) => compressed = Some(self.zigzag()?),
                _ => self.skip(kind, DEEPEST)?,
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Type and number of the next field after field `last`; `None` inside at the end of the struct.
    fn field(&mut self, last: i64) -> Option<Option<(u8, i64)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let number = match head >> 4 {
            0 => self.zigzag()?,
            delta => last.checked_add(i64::from(delta))?,
        };
        Some(Some((head & 0x0f, number)))
    }

    fn take(&mut self, length: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(length).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.take(1),
            4..=6 => self.varint().map(drop),
            7 => self.take(8),
            8 => {
                let length = self.varint()?;
                self.take(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..count {
                    match head & 0x0f {
                        // Booleans in lists take a byte each.
                        1 | 2 => self.take(1)?,
                        kind => self.skip(kind, depth)?,
                    }
                }
                Some(())
            }
            12 => {
                let mut field = 0;
                while let Some((kind, number)) = self.field(field)? {
                    field = number;
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data page header: type 0, the sizes, a nested struct with a binary in it.
    fn header(uncompressed: u8, compressed: u8) -> Vec<u8> {
        vec![
            0x15,
            0,
            0x15,
            uncompressed * 2,
            0x15,
            compressed * 2,
            0x2c,
            0x15,
            2,
            0x15,
            0,
            0x15,
            6,
            0x15,
            6,
            0x1c,
            0x18,
            2,
            b'a',
            b'b',
            0,
            0,
            0,
        ]
    }

    #[test]
    fn pages_are_followed_to_the_end() {
        let mut bytes = header(5, 5);
        bytes.extend([0; 5]);
        bytes.extend(header(60, 2));
        bytes.extend([0; 2]);
        assert_eq!(check(&bytes, Compression::SNAPPY), Ok(()));
        let mut lying = bytes.clone();
        lying.extend([0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 4, 0]);
        lying.extend([0; 2]);
        let error = check(&lying, Compression::SNAPPY).unwrap_err();
        assert_eq!(error, "a page of 2 bytes claims to hold 2147483647");
        assert!(check(&lying, Compression::LZ4_RAW).is_err());
        assert_eq!(check(&lying, Compression::BROTLI(Default::default())), Ok(()));
    }

    #[test]
    fn bytes_that_are_no_header_are_left_to_the_decoder() {
        assert_eq!(check(&[0xff; 40], Compression::SNAPPY), Ok(()));
        assert_eq!(check(&[0x15], Compression::SNAPPY), Ok(()));
        // A list that claims more elements than there are bytes, nested without end.
        assert_eq!(check(&[0x19, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x7f], Compression::SNAPPY), Ok(()));
        assert_eq!(check(&[0x1c; 4000], Compression::SNAPPY), Ok(()));
        let negative = [0x15, 0, 0x15, 1, 0x15, 1, 0];
        assert!(check(&negative, Compression::SNAPPY).is_err());
    }
}
