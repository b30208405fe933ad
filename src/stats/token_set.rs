//! A set of tokens built from many texts, fast: the write path runs every string of a log through it.
//!
//! Runs of letters and digits are found eight bytes at a time. A token of up to sixteen bytes, which is nearly every one, is one
//! 128-bit number: packing, lower-casing and comparing it takes a few instructions, and a small table of the numbers seen last
//! answers for the words that occur in every line.

use hashbrown::HashSet;

/// Entries of the table of tokens seen last. With 16 bytes each it stays in the first-level cache.
const RECENT: usize = 1024;

/// Tokens (see [`super::tokens`]), lower-cased.
#[derive(Debug, Clone)]
pub struct TokenSet {
    /// Tokens of up to 16 bytes, little-endian, padded with zeros (which no token contains).
    short: HashSet<u128>,
    long: HashSet<Box<[u8]>>,
    recent: Vec<u128>,
}

impl Default for TokenSet {
    fn default() -> Self {
        Self { short: HashSet::new(), long: HashSet::new(), recent: vec![0; RECENT] }
    }
}

impl TokenSet {
    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.short.len().saturating_add(self.long.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the tokens of `text`.
    pub fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        for_each_run(bytes, |start, end| {
            let Some(run) = bytes.get(start..end) else { return };
            match run.len() {
                0 | 1 => {}
                2..=16 => self.add_short(pack(bytes, start, run)),
                _ => self.add_long(run),
            }
        });
    }

    fn add_short(&mut self, token: u128) {
        let slot = self.recent.get_mut(slot(token));
        if slot.as_ref().is_some_and(|seen| **seen == token) {
            return;
        }
        if let Some(slot) = slot {
            *slot = token;
        }
        self.short.insert(token);
    }

    fn add_long(&mut self, run: &[u8]) {
        let lower = run.to_ascii_lowercase();
        if !self.long.contains(lower.as_slice()) {
            self.long.insert(lower.into());
        }
    }

    /// Adds the tokens of `other`.
    pub fn merge(&mut self, other: Self) {
        self.short.extend(other.short);
        self.long.extend(other.long);
    }

    /// The tokens in bytewise order.
    pub fn into_sorted(self) -> Vec<String> {
        let short =
            self.short.into_iter().map(|token| token.to_le_bytes().into_iter().take_while(|b| *b != 0).collect());
        let mut all: Vec<Vec<u8>> = short.chain(self.long.into_iter().map(<[u8]>::into_vec)).collect();
        all.sort_unstable();
        // Tokens are ASCII.
        all.into_iter().filter_map(|token| String::from_utf8(token).ok()).collect()
    }
}

/// The bytes of `run`, which begins at `start` of `bytes`, in lower case. Setting bit 5 lower-cases an ASCII letter and leaves a
/// digit as it is.
fn pack(bytes: &[u8], start: usize, run: &[u8]) -> u128 {
    const LOWER: u128 = u128::from_le_bytes([0x20; 16]);
    let mask = u128::MAX >> (128 - 8 * run.len().min(16));
    let word = match bytes.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(chunk) => u128::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0u8; 16];
            chunk.iter_mut().zip(run).for_each(|(to, from)| *to = *from);
            u128::from_le_bytes(chunk)
        }
    };
    (word | LOWER) & mask
}

/// Where a token goes in the table of recent ones.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a hash: the halves of the number, and the highest ten bits of the product"
)]
fn slot(token: u128) -> usize {
    let folded = (token as u64) ^ ((token >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT.trailing_zeros())) as usize
}

/// Calls `visit` with start and end of each run of ASCII letters and digits.
fn for_each_run(bytes: &[u8], mut visit: impl FnMut(usize, usize)) {
    let mut start = None;
    for (segment, chunk) in bytes.chunks(64).enumerate() {
        let base = segment * 64;
        let mask = alphanumeric(chunk);
        let mut at = 0u32;
        while at < 64 {
            match start {
                None => {
                    let rest = mask >> at;
                    if rest == 0 {
                        break;
                    }
                    at += rest.trailing_zeros();
                    start = Some(base + as_usize(at));
                }
                Some(from) => {
                    let rest = !mask >> at;
                    if rest == 0 {
                        break;
                    }
                    at += rest.trailing_zeros();
                    visit(from, base + as_usize(at));
                    start = None;
                }
            }
        }
    }
    if let Some(from) = start {
        visit(from, bytes.len());
    }
}

/// A bit position below 64.
fn as_usize(bit: u32) -> usize {
    usize::try_from(bit).unwrap_or(0)
}

/// One bit for each of up to 64 bytes: whether it is an ASCII letter or digit.
fn alphanumeric(chunk: &[u8]) -> u64 {
    let mut mask = 0u64;
    let (words, rest) = chunk.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        mask |= alphanumeric8(u64::from_le_bytes(*word)) << (8 * i);
    }
    if !rest.is_empty() {
        let mut word = [0u8; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        mask |= alphanumeric8(u64::from_le_bytes(word)) << (8 * words.len());
    }
    mask
}

/// The same for eight bytes in one word. Each comparison is an addition that carries into the byte's highest bit, which is free
/// because non-ASCII bytes are taken out first.
fn alphanumeric8(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    const fn at_least(bytes: u64, limit: u8) -> u64 {
        bytes + (0x80 - limit as u64) * ONES
    }
    let ascii = word & !HIGH;
    let folded = ascii | (0x20 * ONES);
    let digit = at_least(ascii, b'0') & !at_least(ascii, b'9' + 1);
    let letter = at_least(folded, b'a') & !at_least(folded, b'z' + 1);
    let found = ((digit | letter) & !word & HIGH) >> 7;
    // Gathers bit 0 of every byte in the highest byte, in order.
    found.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tokens::tokens;
    use super::*;

    fn check(text: &str) {
        let mut set = TokenSet::default();
        set.add(text);
        set.add(text);
        let expected: BTreeSet<String> = tokens(text).into_iter().collect();
        assert_eq!(set.len(), expected.len(), "{text:?}");
        assert_eq!(set.into_sorted(), expected.into_iter().collect::<Vec<_>>(), "{text:?}");
    }

    #[test]
    fn every_byte_is_classified() {
        for byte in 0..=255u8 {
            for position in 0..8 {
                for filler in [0u8, b'-', 0xFF, b'a'] {
                    let mut word = [filler; 8];
                    word[position] = byte;
                    let expected =
                        word.iter().rev().fold(0, |mask, b| mask << 1 | u64::from(b.is_ascii_alphanumeric()));
                    assert_eq!(alphanumeric8(u64::from_le_bytes(word)), expected, "{word:?}");
                }
            }
        }
    }

    #[test]
    fn tokens_of_every_length_at_every_place() {
        for length in 0..70 {
            for before in 0..70 {
                let token: String = ('A'..='Z').chain('0'..='9').cycle().take(length).collect();
                for after in ["", "-", "é", " x y", "-a much longer rest of the text than sixteen bytes"] {
                    check(&format!("{}{token}{after}", "-".repeat(before)));
                }
            }
        }
    }

    #[test]
    fn odd_texts() {
        for text in
            ["", "a", "aB", "a-b", "OutOfMemoryError: retry_count=3 café", "\u{212a}ab", "@[`{/:", "x\0y\0zz", "ÀB2 x"]
        {
            check(text);
        }
    }
}
