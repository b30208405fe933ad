//! A set of tokens built from many texts, fast: the write path runs every string of a log through it.
//!
//! Runs of letters and digits are found eight bytes at a time. A token of up to sixteen bytes, which is nearly every one, is one
//! 128-bit number: packing, lower-casing and comparing it takes a few instructions, and finding it again one cache line.

use hashbrown::HashSet;

/// Slots of an empty table.
const SMALLEST: usize = 1024;

/// Tokens of the previous text that are remembered.
const LAST: usize = 32;

/// Tokens (see [`super::tokens`]), lower-cased.
#[derive(Debug, Clone)]
pub struct TokenSet {
    /// Tokens of up to 16 bytes, little-endian, padded with zeros, which no token contains. Open addressing: a token is in the
    /// first free slot from where its hash points. At most half of the slots are taken.
    slots: Vec<u128>,
    taken: usize,
    long: HashSet<Box<[u8]>>,
    /// The tokens of the text before, by their place in it. The lines of a log have words in common at the same places.
    last: Vec<u128>,
}

impl Default for TokenSet {
    fn default() -> Self {
        Self { slots: vec![0; SMALLEST], taken: 0, long: HashSet::new(), last: vec![0; LAST] }
    }
}

impl TokenSet {
    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.taken.saturating_add(self.long.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the tokens of `text`.
    pub fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut place = 0usize;
        for_each_run(bytes, |start, end| match end - start {
            0 | 1 => {}
            length @ 2..=16 => {
                let token = pack(bytes, start, length);
                match self.last.get_mut(place) {
                    Some(last) if *last == token => {}
                    Some(last) => {
                        *last = token;
                        self.add_short(token);
                    }
                    None => self.add_short(token),
                }
                place += 1;
            }
            _ => self.add_long(bytes.get(start..end).unwrap_or_default()),
        });
    }

    fn add_short(&mut self, token: u128) {
        // The number of slots is a power of two.
        let mask = self.slots.len() - 1;
        let mut at = hash(token) & mask;
        loop {
            match self.slots.get_mut(at) {
                Some(slot) if *slot == token => return,
                Some(slot) if *slot == 0 => {
                    *slot = token;
                    self.taken += 1;
                    break;
                }
                _ => at = (at + 1) & mask,
            }
        }
        if self.taken * 2 > self.slots.len() {
            let bigger = vec![0; self.slots.len() * 2];
            self.taken = 0;
            for token in std::mem::replace(&mut self.slots, bigger).into_iter().filter(|t| *t != 0) {
                self.add_short(token);
            }
        }
    }

    fn add_long(&mut self, run: &[u8]) {
        let lower = run.to_ascii_lowercase();
        if !self.long.contains(lower.as_slice()) {
            self.long.insert(lower.into());
        }
    }

    /// Adds the tokens of `other`.
    pub fn merge(&mut self, other: Self) {
        other.slots.into_iter().filter(|t| *t != 0).for_each(|token| self.add_short(token));
        self.long.extend(other.long);
    }

    /// The tokens in bytewise order.
    pub fn into_sorted(self) -> Vec<String> {
        let short = self.slots.into_iter().filter(|t| *t != 0);
        let short = short.map(|token| token.to_le_bytes().into_iter().take_while(|b| *b != 0).collect());
        let mut all: Vec<Vec<u8>> = short.chain(self.long.into_iter().map(<[u8]>::into_vec)).collect();
        all.sort_unstable();
        // Tokens are ASCII.
        all.into_iter().filter_map(|token| String::from_utf8(token).ok()).collect()
    }
}

/// Up to 16 letters and digits from `start` on, in lower case: setting bit 5 lower-cases an ASCII letter and leaves a digit as it is.
fn pack(bytes: &[u8], start: usize, length: usize) -> u128 {
    const LOWER: u128 = u128::from_le_bytes([0x20; 16]);
    let mask = u128::MAX >> (128 - 8 * length.clamp(1, 16));
    let word = match (bytes.get(start..).and_then(|rest| rest.first_chunk::<16>()), bytes.last_chunk::<16>()) {
        (Some(chunk), _) => u128::from_le_bytes(*chunk),
        // The last 16 bytes of the text, without those before `start`.
        (None, Some(chunk)) => u128::from_le_bytes(*chunk) >> (8 * (start + 16 - bytes.len())),
        (None, None) => {
            let mut chunk = [0u8; 16];
            let rest = bytes.get(start..).unwrap_or_default();
            chunk.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u128::from_le_bytes(chunk)
        }
    };
    (word | LOWER) & mask
}

/// A hash of a token: the highest bits of a product, which depend on all of it.
#[expect(clippy::cast_possible_truncation, reason = "the halves of the number, and bits of a hash")]
fn hash(token: u128) -> usize {
    let folded = (token as u64) ^ ((token >> 64) as u64).rotate_left(29);
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

/// Calls `visit` with start and end of each run of ASCII letters and digits.
fn for_each_run(bytes: &[u8], mut visit: impl FnMut(usize, usize)) {
    // Start of a run that reaches into the segment from before it.
    let mut open: Option<usize> = None;
    for (segment, chunk) in bytes.chunks(64).enumerate() {
        let base = segment * 64;
        let mask = alphanumeric(chunk);
        let before = mask << 1 | u64::from(open.is_some());
        let (mut starts, mut ends) = (mask & !before, !mask & before);
        while ends != 0 {
            let start = open.take().unwrap_or_else(|| {
                let start = base + as_usize(starts.trailing_zeros());
                starts &= starts - 1;
                start
            });
            visit(start, base + as_usize(ends.trailing_zeros()));
            ends &= ends - 1;
        }
        if starts != 0 {
            open = Some(base + as_usize(starts.trailing_zeros()));
        }
    }
    if let Some(start) = open {
        visit(start, bytes.len());
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
