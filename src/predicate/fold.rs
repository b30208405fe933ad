//! DuckDB's lower-casing, on which ILIKE rests.
//!
//! DuckDB 2.0 lower-cases both sides character by character with the *simple* mapping of utf8proc 2.9 and then matches bytes.
//! Rust's `char::to_lowercase` is the full mapping of a newer Unicode. They differ in one character that maps to two in Rust
//! (U+0130), and in the letters that became cased after utf8proc's tables were made; both are listed here, and a test holds
//! the whole mapping to a checksum taken from utf8proc itself.

use std::borrow::Cow;

/// The lower-case form of one character as DuckDB 2.0 sees it.
pub fn lower_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    match c {
        // LATIN CAPITAL LETTER I WITH DOT ABOVE.
        '\u{130}' => 'i',
        // Cased since Unicode 16 and 17: no lower case in utf8proc 2.9.
        '\u{1c89}'
        | '\u{a7cb}'
        | '\u{a7cc}'
        | '\u{a7ce}'
        | '\u{a7d2}'
        | '\u{a7d4}'
        | '\u{a7da}'
        | '\u{a7dc}'
        | '\u{10d50}'..='\u{10d65}'
        | '\u{16ea0}'..='\u{16eb8}' => c,
        _ => c.to_lowercase().next().unwrap_or(c),
    }
}

/// `text` lower-cased character by character.
pub fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(lower_char).collect())
    }
}

/// Whether a lower-cased pattern character may match something in a value whose place among ASCII letters differs: `k` and `i`
/// also match KELVIN SIGN and capital I with a dot, which end a token; LONG S and dotless i are kept clear of as well, since
/// other foldings send `s` and `i` there.
pub fn crosses_ascii(c: char) -> bool {
    matches!(c, 'k' | 'K' | 's' | 'S' | 'i' | 'I' | '\u{212a}' | '\u{17f}' | '\u{130}' | '\u{131}')
}

/// Whether a pattern has a character that lower-cases from outside ASCII into it. DuckDB swaps in an ASCII-only matcher when
/// its own statistics show no Unicode in the column, and that matcher leaves such a character as it is.
pub fn depends_on_matcher(pattern: &str) -> bool {
    pattern.chars().any(|c| !c.is_ascii() && lower_char(c).is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_is_utf8procs() {
        let changed = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| lower_char(*c) != *c);
        let mut count = 0u64;
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for c in changed {
            count += 1;
            for part in [u64::from(u32::from(c)), u64::from(u32::from(lower_char(c)))] {
                hash = (hash ^ part).wrapping_mul(0x0100_0000_01b3);
            }
        }
        assert_eq!((count, hash), UTF8PROC);
    }

    /// Characters changed by `utf8proc_tolower` of DuckDB 2.0.0's copy, and the FNV-style hash over (character, lower case).
    const UTF8PROC: (u64, u64) = (1433, 0xab53_73d0_02a2_9227);

    #[test]
    fn only_two_characters_fold_into_ascii() {
        let folding: Vec<char> =
            (0x80..=0x0010_ffff).filter_map(char::from_u32).filter(|c| lower_char(*c).is_ascii()).collect();
        assert_eq!(folding, ['\u{130}', '\u{212a}']);
        assert!(folding.iter().all(|c| crosses_ascii(*c) && crosses_ascii(lower_char(*c))));
    }

    #[test]
    fn lower_borrows_when_nothing_changes() {
        assert!(matches!(lower("abc 1"), Cow::Borrowed(_)));
        assert_eq!(lower("WAL\u{212a}ER É ΑΣ"), "walker é ασ", "no final-sigma rule");
    }
}
