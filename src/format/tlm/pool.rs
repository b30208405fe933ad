//! Memory of decompressed buffers, reused from block to block: taking fresh pages from the system for every block costs more than
//! decompressing into them.

use std::sync::{Mutex, PoisonError};

use arrow::buffer::Buffer;
use bytes::Bytes;

/// Bytes the pool keeps at most while nobody uses them.
const KEEP: usize = 64 << 20;
/// Smaller buffers come from the allocator's own free lists.
const SMALL: usize = 64 << 10;

#[derive(Default)]
struct Free {
    vectors: Vec<Vec<u8>>,
    bytes: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { vectors: Vec::new(), bytes: 0 });

/// Takes a vector with room for `length` bytes. It may still hold what it held before: whoever writes all of it need not clear it
/// first.
///
/// # Errors
/// If there is no memory.
pub fn take(length: usize) -> Result<Vec<u8>, String> {
    if length >= SMALL {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |vector: &Vec<u8>| vector.capacity() >= length && vector.capacity() / 4 <= length;
        if let Some(position) = free.vectors.iter().position(fits) {
            let vector = free.vectors.swap_remove(position);
            free.bytes -= vector.capacity();
            return Ok(vector);
        }
    }
    let mut vector = Vec::new();
    vector.try_reserve_exact(length).map_err(|e| format!("no memory for a buffer of {length} bytes: {e}"))?;
    Ok(vector)
}

struct Pooled(Vec<u8>);

impl Drop for Pooled {
    fn drop(&mut self) {
        let vector = std::mem::take(&mut self.0);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + vector.capacity() <= KEEP {
            free.bytes += vector.capacity();
            free.vectors.push(vector);
        }
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of `vector` as a buffer that gives its memory back to the pool.
pub fn give(vector: Vec<u8>) -> Buffer {
    if vector.capacity() < SMALL {
        return Buffer::from_vec(vector);
    }
    Buffer::from(Bytes::from_owner(Pooled(vector)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_after_the_last_reference() {
        let mut vector = take(100_000).unwrap();
        vector.resize(100_000, 7);
        let buffer = give(vector);
        let slice = buffer.slice(50_000);
        drop(buffer);
        assert!(slice.iter().all(|byte| *byte == 7));
        drop(slice);
        // another test may take it first, so only the room is certain
        let again = take(100_000).unwrap();
        assert!(again.capacity() >= 100_000);
    }
}
