//! What page headers claim, read before the decoder allocates it.
//!
//! The decoder makes room for a page's stated size before it decompresses. A damaged header may state two gigabytes for a
//! hundred bytes. The first three fields of a header are the page type and the two sizes.

use parquet::basic::Compression;

use super::thrift::{I32, Thrift};

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
        let Some((uncompressed, compressed)) = page_sizes(&mut thrift) else { return Ok(()) };
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

/// The uncompressed and the compressed size of a page header; leaves the position behind the header.
fn page_sizes(thrift: &mut Thrift<'_>) -> Option<(i64, i64)> {
    let (mut uncompressed, mut compressed) = (None, None);
    thrift.fields(&mut |header, number, kind| {
        match (number, kind) {
            (2, I32) => uncompressed = Some(header.zigzag()?),
            (3, I32) => compressed = Some(header.zigzag()?),
            _ => header.skip(kind)?,
        }
        Some(())
    })?;
    Some((uncompressed?, compressed?))
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
