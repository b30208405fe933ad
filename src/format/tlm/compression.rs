//! Decompression of one buffer: an i64 with the uncompressed length (-1: stored as it is), then the compressed bytes.

use std::cell::RefCell;
use std::io::BufRead;

use arrow::buffer::Buffer;

use super::footer::Codec;
use super::pool;

/// The most that one compressed byte of LZ4 can stand for (a match length grows by 255 per byte).
const LZ4_RATIO: u64 = 255;
/// A run-length block of zstd is four bytes for 128 KiB.
const ZSTD_RATIO: u64 = 32 * 1024;
/// Room for headers and for tiny inputs.
const SLACK: u64 = 128 * 1024;
/// No buffer of a block is larger: string offsets are 32 bits, and a block is meant to fit into memory.
const MAX_BUFFER: u64 = 4 << 30;

/// Decompresses `buffer`. The length it claims is believed only up to what the codec could produce from its compressed bytes, and
/// memory is taken from the system as it fills, so a lying length costs no memory.
pub fn decompress(codec: Codec, buffer: &Buffer) -> Result<Buffer, String> {
    if buffer.is_empty() {
        return Ok(buffer.clone());
    }
    let (prefix, compressed) =
        buffer.split_first_chunk::<8>().ok_or("a compressed buffer is shorter than its length prefix")?;
    let claimed = match i64::from_le_bytes(*prefix) {
        -1 => return Ok(buffer.slice(8)),
        0 => return Ok(Buffer::from(Vec::<u8>::new())),
        length => u64::try_from(length).map_err(|_| format!("an uncompressed length of {length} is not possible"))?,
    };
    let ratio = match codec {
        Codec::Lz4 => LZ4_RATIO,
        Codec::Zstd => ZSTD_RATIO,
    };
    let input = u64::try_from(compressed.len()).unwrap_or(u64::MAX);
    let limit = input.saturating_mul(ratio).saturating_add(SLACK).min(MAX_BUFFER);
    if claimed > limit {
        return Err(format!(
            "{input} compressed bytes claim to be {claimed} bytes, more than the {limit} that are possible"
        ));
    }
    let length = usize::try_from(claimed).map_err(|e| e.to_string())?;
    let mut out = pool::take(length)?;
    match codec {
        Codec::Lz4 => lz4(compressed, length, &mut out)?,
        Codec::Zstd => zstd(compressed, &mut out)?,
    }
    if out.len() != length {
        return Err(format!("a buffer decompresses to {} bytes instead of {length}", out.len()));
    }
    Ok(pool::give(out))
}

/// Magic number of an LZ4 frame, then: version 01, no checksums, no dictionary; bit 5 says that blocks are independent.
const LZ4_FRAME: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
const LZ4_INDEPENDENT: u8 = 0b0010_0000;
const LZ4_CONTENT_SIZE: u8 = 0b0000_1000;
const LZ4_VERSION: u8 = 0b0100_0000;
/// How far back a linked block may refer.
const LZ4_WINDOW: usize = 64 * 1024;

/// The blocks of a frame of the plain kind that Arrow writers make, or `None` if it has features that the library must handle.
fn lz4_blocks(compressed: &[u8]) -> Option<(bool, &[u8])> {
    let rest = compressed.strip_prefix(&LZ4_FRAME)?;
    let (&flags, rest) = rest.split_first()?;
    if flags & !(LZ4_INDEPENDENT | LZ4_CONTENT_SIZE) != LZ4_VERSION {
        return None;
    }
    // block descriptor, content size, header checksum
    let header = 1 + if flags & LZ4_CONTENT_SIZE == 0 { 0 } else { 8 } + 1;
    Some((flags & LZ4_INDEPENDENT != 0, rest.get(header..)?))
}

/// Decompresses straight into the target: the library's frame reader goes through buffers of its own, which it clears every time.
fn lz4(compressed: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let Some((independent, mut blocks)) = lz4_blocks(compressed) else {
        out.clear();
        return lz4_frame(compressed, length, out);
    };
    out.resize(length, 0);
    let mut filled = 0;
    loop {
        let (size, rest) = blocks.split_first_chunk::<4>().ok_or("LZ4: the frame ends without an end mark")?;
        let size = u32::from_le_bytes(*size);
        if size == 0 {
            break;
        }
        let stored = size & 0x8000_0000 != 0;
        let size = usize::try_from(size & 0x7FFF_FFFF).map_err(|e| e.to_string())?;
        let (block, rest) = rest.split_at_checked(size).ok_or("LZ4: a block is longer than its frame")?;
        let (done, target) = out.split_at_mut(filled);
        let written = if stored {
            let target = target.get_mut(..size).ok_or("LZ4: more data than the buffer's length")?;
            target.copy_from_slice(block);
            size
        } else if independent {
            lz4_flex::block::decompress_into(block, target).map_err(|e| format!("LZ4: {e}"))?
        } else {
            let window = done.get(done.len().saturating_sub(LZ4_WINDOW)..).unwrap_or_default();
            lz4_flex::block::decompress_into_with_dict(block, target, window).map_err(|e| format!("LZ4: {e}"))?
        };
        filled += written;
        blocks = rest;
    }
    out.truncate(filled);
    Ok(())
}

fn lz4_frame(compressed: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let mut decoder = lz4_flex::frame::FrameDecoder::new(compressed);
    loop {
        let chunk = decoder.fill_buf().map_err(|e| format!("LZ4: {e}"))?;
        if chunk.is_empty() {
            return Ok(());
        }
        if chunk.len() > length - out.len() {
            return Err(format!("a buffer decompresses to more than its {length} bytes"));
        }
        out.extend_from_slice(chunk);
        let taken = chunk.len();
        decoder.consume(taken);
    }
}

thread_local! {
    /// A zstd context is expensive to make and cheap to reuse.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Fills the capacity of `out` at most.
fn zstd(compressed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    ZSTD.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(zstd::bulk::Decompressor::new().map_err(|e| format!("zstd: {e}"))?),
        };
        decompressor.decompress_to_buffer(compressed, out).map_err(|e| format!("zstd: {e}"))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compress(codec: Codec, data: &[u8], claimed: i64) -> Buffer {
        let mut out = claimed.to_le_bytes().to_vec();
        match codec {
            Codec::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut out);
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap();
            }
            Codec::Zstd => out.extend(zstd::bulk::compress(data, 3).unwrap()),
        }
        Buffer::from_vec(out)
    }

    #[test]
    fn round_trip_and_lies() {
        let zeros = vec![0u8; 8 << 20];
        let mixed: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for codec in [Codec::Lz4, Codec::Zstd] {
            for data in [&b"x"[..], &zeros, &mixed] {
                let length = i64::try_from(data.len()).unwrap();
                assert_eq!(decompress(codec, &compress(codec, data, length)).unwrap().as_slice(), data);
                for lie in [1, length - 1, length + 1, length * 2, i64::MAX, -2, i64::MIN, 1 << 40] {
                    if lie != length && lie > 0 || lie < -1 {
                        assert!(decompress(codec, &compress(codec, data, lie)).is_err(), "{codec:?} {length} {lie}");
                    }
                }
            }
            let stored = Buffer::from_vec([(-1i64).to_le_bytes().as_slice(), b"abc"].concat());
            assert_eq!(decompress(codec, &stored).unwrap().as_slice(), b"abc");
            assert!(decompress(codec, &Buffer::from_vec(vec![1, 2, 3])).is_err());
            assert!(decompress(codec, &Buffer::from_vec([8i64.to_le_bytes(), [7; 8]].concat())).is_err());
            assert!(decompress(codec, &Buffer::from_vec(Vec::<u8>::new())).unwrap().is_empty());
        }
    }
}
