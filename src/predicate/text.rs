//! Text patterns: reading LIKE, matching values as DuckDB does, and what bounds and token sets prove.

use std::borrow::Cow;

use super::{Outcomes, TextPattern, fold};
use crate::stats::tokens::{Fragment, fragments};

/// What a LIKE or ILIKE pattern means.
#[derive(Debug, Clone, PartialEq)]
pub enum Like {
    /// The value must equal this text.
    Equals(String),
    /// The value must match this pattern.
    Pattern(TextPattern),
}

/// Reads a LIKE pattern: `%` is any run of characters, `_` one character, and the character after `escape` stands for itself.
/// For ILIKE the pattern is lower-cased before it is read, and so is the escape character, as DuckDB does.
///
/// Fails, with the reason, for what DuckDB refuses when it runs: an escape of more than one byte, or at the end of the pattern.
pub fn parse_like(pattern: &str, escape: Option<&str>, case_insensitive: bool) -> Result<Like, String> {
    let escape = match escape {
        None | Some("") => None,
        Some(text) => match text.as_bytes() {
            [byte] if case_insensitive => Some(char::from(byte.to_ascii_lowercase())),
            [byte] => Some(char::from(*byte)),
            _ => return Err("the LIKE escape is longer than one byte".into()),
        },
    };
    // A character that lower-cases into ASCII matches or not depending on which of DuckDB's matchers runs.
    let mut exact = !(case_insensitive && fold::depends_on_matcher(pattern));
    let pattern = if case_insensitive { fold::lower(pattern) } else { Cow::Borrowed(pattern) };
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut anchored_start = true;
    let mut anchored_end = true;
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        // The escape is looked for first, so that even `%` can be one.
        let literal = if Some(c) == escape {
            match characters.next() {
                Some(next) => Some(next),
                None => return Err("the LIKE pattern ends with its escape character".into()),
            }
        } else if c == '%' {
            None
        } else if c == '_' {
            exact = false;
            None
        } else {
            Some(c)
        };
        match literal {
            Some(c) => {
                piece.push(c);
                anchored_end = true;
            }
            None => {
                anchored_start &= !(pieces.is_empty() && piece.is_empty());
                anchored_end = false;
                if !piece.is_empty() {
                    pieces.push(std::mem::take(&mut piece));
                }
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    if anchored_start && anchored_end && pieces.len() < 2 {
        let text = pieces.pop().unwrap_or_default();
        if !case_insensitive || text.is_empty() {
            return Ok(Like::Equals(text));
        }
        pieces.push(text);
    }
    Ok(Like::Pattern(TextPattern { pieces, anchored_start, anchored_end, case_insensitive, exact }))
}

impl TextPattern {
    /// The pattern of `contains(column, needle)`.
    pub fn contains(needle: &str) -> Self {
        Self::literal(needle, false, false)
    }

    /// The pattern of `starts_with(column, needle)`.
    pub fn prefix(needle: &str) -> Self {
        Self::literal(needle, true, false)
    }

    /// The pattern of `ends_with(column, needle)`.
    pub fn suffix(needle: &str) -> Self {
        Self::literal(needle, false, true)
    }

    fn literal(needle: &str, anchored_start: bool, anchored_end: bool) -> Self {
        let pieces = if needle.is_empty() { Vec::new() } else { vec![needle.to_owned()] };
        Self { pieces, anchored_start, anchored_end, case_insensitive: false, exact: true }
    }

    /// Whether a match of the pieces is the whole condition.
    fn is_sufficient(&self) -> bool {
        self.exact && !(self.case_insensitive && self.pieces.iter().any(|piece| fold::depends_on_matcher(piece)))
    }

    /// What is known of a value that is not NULL and of which nothing is known: a pattern without pieces matches everything.
    pub fn match_unknown(&self) -> Outcomes {
        if self.pieces.is_empty() && self.is_sufficient() { Outcomes::TRUE } else { Outcomes::TRUE_OR_FALSE }
    }

    fn folded<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.case_insensitive { fold::lower(text) } else { Cow::Borrowed(text) }
    }

    /// Whether `value`, not NULL, matches: exactly TRUE or FALSE for exact patterns; "TRUE or FALSE" when the pieces match but
    /// more is asked than they say. A pattern without pieces matches every value.
    pub fn match_value(&self, value: &str) -> Outcomes {
        if !self.pieces_match(&self.folded(value)) {
            Outcomes::FALSE
        } else if self.is_sufficient() {
            Outcomes::TRUE
        } else {
            Outcomes::TRUE_OR_FALSE
        }
    }

    fn pieces_match(&self, value: &str) -> bool {
        let Some(last) = self.pieces.len().checked_sub(1) else {
            return true;
        };
        let mut rest = value;
        for (i, piece) in self.pieces.iter().enumerate() {
            let piece = self.folded(piece);
            let piece = piece.as_ref();
            // The leftmost place leaves the most room for what follows, so no backtracking is needed.
            let after = match (i == 0 && self.anchored_start, i == last && self.anchored_end) {
                (true, true) => (rest == piece).then_some(""),
                (true, false) => rest.strip_prefix(piece),
                (false, true) => rest.ends_with(piece).then_some(""),
                (false, false) => rest.find(piece).and_then(|at| rest.get(at + piece.len()..)),
            };
            match after {
                Some(after) => rest = after,
                None => return false,
            }
        }
        true
    }

    /// What bounds on the values prove, both inclusive and either open. Only for patterns fixed at their start: strings
    /// with a common prefix are one contiguous range of the bytewise order.
    pub fn match_bounds(&self, lower: Option<&str>, upper: Option<&str>) -> Outcomes {
        let prefix = match self.pieces.first() {
            Some(piece) if self.anchored_start => piece.as_str(),
            _ => return self.match_unknown(),
        };
        let prefix = if self.case_insensitive { uncased_prefix(prefix) } else { prefix };
        let below = upper.is_some_and(|upper| upper.as_bytes() < prefix.as_bytes());
        let above = lower.is_some_and(|lower| lower.as_bytes() > prefix.as_bytes() && !lower.starts_with(prefix));
        if below || above {
            return Outcomes::FALSE;
        }
        let whole = self.pieces.len() == 1 && !self.anchored_end && !self.case_insensitive && self.is_sufficient();
        let within = |bound: Option<&str>| bound.is_some_and(|bound| bound.starts_with(prefix));
        if whole && within(lower) && within(upper) { Outcomes::TRUE } else { Outcomes::TRUE_OR_FALSE }
    }

    /// The alphanumeric runs that every matching value holds.
    pub fn required_fragments(&self) -> Vec<Fragment> {
        let last = self.pieces.len().saturating_sub(1);
        let blurred = |c: char| self.case_insensitive && fold::crosses_ascii(c);
        self.pieces
            .iter()
            .enumerate()
            .flat_map(|(i, piece)| {
                let (start, end) = (i == 0 && self.anchored_start, i == last && self.anchored_end);
                fragments(&self.folded(piece), start, end, blurred)
            })
            .collect()
    }

    /// Whether the complete, sorted token set of some values leaves room for one that matches.
    pub fn tokens_allow(&self, tokens: &[String]) -> bool {
        self.required_fragments().iter().all(|fragment| fragment.may_occur(tokens))
    }
}

/// The leading characters of a case-insensitive needle that only match themselves: ASCII that is not a letter. (No other
/// character lower-cases to one of them; a test of [`fold`] shows it over all of Unicode.)
fn uncased_prefix(needle: &str) -> &str {
    let end = needle.bytes().position(|b| !b.is_ascii() || b.is_ascii_alphabetic()).unwrap_or(needle.len());
    needle.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tokens::tokens;

    fn like(pattern: &str) -> TextPattern {
        match parse_like(pattern, None, false).unwrap() {
            Like::Pattern(pattern) => pattern,
            Like::Equals(text) => panic!("= {text}"),
        }
    }

    fn ilike(pattern: &str) -> TextPattern {
        match parse_like(pattern, None, true).unwrap() {
            Like::Pattern(pattern) => pattern,
            Like::Equals(text) => panic!("= {text}"),
        }
    }

    fn shape(pattern: &TextPattern) -> (Vec<&str>, bool, bool, bool) {
        let pieces = pattern.pieces.iter().map(String::as_str).collect();
        (pieces, pattern.anchored_start, pattern.anchored_end, pattern.exact)
    }

    fn set(text: &str) -> Vec<String> {
        tokens(text).into_iter().collect()
    }

    #[test]
    fn like_patterns_are_cut_at_wildcards() {
        assert_eq!(shape(&like("a%")), (vec!["a"], true, false, true));
        assert_eq!(shape(&like("%a")), (vec!["a"], false, true, true));
        assert_eq!(shape(&like("%a%%b%")), (vec!["a", "b"], false, false, true));
        assert_eq!(shape(&like("a%b")), (vec!["a", "b"], true, true, true));
        assert_eq!(shape(&like("a_b")), (vec!["a", "b"], true, true, false));
        assert_eq!(shape(&like("_a")), (vec!["a"], false, true, false));
        assert_eq!(shape(&like("a_")), (vec!["a"], true, false, false));
        assert_eq!(shape(&like("%")), (vec![], false, false, true));
        assert_eq!(shape(&like("_")), (vec![], false, false, false));
        assert_eq!(parse_like("abc", None, false), Ok(Like::Equals("abc".into())));
        assert_eq!(parse_like("", None, true), Ok(Like::Equals(String::new())));
        assert_eq!(shape(&ilike("ABc")), (vec!["abc"], true, true, true));
    }

    #[test]
    fn like_escapes() {
        let escaped = |pattern, escape| parse_like(pattern, Some(escape), false);
        assert_eq!(escaped("100!%", "!"), Ok(Like::Equals("100%".into())));
        assert_eq!(escaped("a!!b", "!"), Ok(Like::Equals("a!b".into())));
        assert_eq!(escaped("%%", "%"), Ok(Like::Equals("%".into())));
        assert_eq!(escaped("!é", "!"), Ok(Like::Equals("é".into())));
        assert!(escaped("a!", "!").is_err());
        assert!(escaped("a", "!!").is_err());
        assert!(escaped("a", "é").is_err());
        assert_eq!(escaped("a%", ""), Ok(Like::Pattern(like("a%"))));
        // DuckDB lower-cases pattern and escape of ILIKE first: X escapes.
        let Ok(Like::Pattern(pattern)) = parse_like("aX%b", Some("x"), true) else { panic!() };
        assert_eq!(pattern.pieces, ["a%b"]);
    }

    #[test]
    fn values_match_as_in_duckdb() {
        let yes =
            |pattern: &TextPattern, value: &str| assert_eq!(pattern.match_value(value), Outcomes::TRUE, "{value}");
        let no =
            |pattern: &TextPattern, value: &str| assert_eq!(pattern.match_value(value), Outcomes::FALSE, "{value}");
        yes(&like("a%"), "a");
        no(&like("a%"), "ba");
        yes(&like("%a%a%"), "aba");
        no(&like("%aa%aa%"), "aaa");
        no(&like("a%a"), "a");
        yes(&like("a%a"), "aa");
        yes(&like("%"), "");
        yes(&TextPattern::contains(""), "");
        yes(&TextPattern::suffix("é"), "né");
        assert_eq!(like("a_c").match_value("abc"), Outcomes::TRUE_OR_FALSE);
        no(&like("a_c"), "b");
        no(&TextPattern::contains("A"), "a");
        yes(&ilike("%É%"), "café");
        yes(&ilike("%k%"), "\u{212a}");
        yes(&ilike("%i%"), "\u{130}");
        no(&ilike("%s%"), "\u{17f}");
        assert_eq!(
            ilike("%\u{212a}%").match_value("k"),
            Outcomes::TRUE_OR_FALSE,
            "depends on the matcher DuckDB picks"
        );
        no(&ilike("%\u{3c2}%"), "Σ");
    }

    #[test]
    fn bounds_decide_prefixes_bytewise() {
        let p = TextPattern::prefix("ab");
        assert_eq!(p.match_bounds(Some("ac"), None), Outcomes::FALSE);
        assert_eq!(p.match_bounds(None, Some("aa\u{10ffff}")), Outcomes::FALSE);
        assert_eq!(p.match_bounds(None, Some("a")), Outcomes::FALSE, "a bound shorter than the prefix");
        assert_eq!(p.match_bounds(Some("a"), Some("b")), Outcomes::TRUE_OR_FALSE);
        assert_eq!(p.match_bounds(Some("ab"), Some("ab\u{10ffff}")), Outcomes::TRUE);
        assert_eq!(p.match_bounds(Some("ab"), None), Outcomes::TRUE_OR_FALSE);
        assert_eq!(like("ab%c").match_bounds(Some("ab"), Some("abz")), Outcomes::TRUE_OR_FALSE);
        assert_eq!(like("ab%c").match_bounds(Some("ac"), None), Outcomes::FALSE);
        assert_eq!(like("%ab").match_bounds(Some("zz"), Some("zz")), Outcomes::TRUE_OR_FALSE);
        assert_eq!(TextPattern::contains("").match_bounds(None, None), Outcomes::TRUE);
        // Past 0x7F and at the highest code point, where the next prefix would need a carry.
        let top = TextPattern::prefix("\u{10ffff}");
        assert_eq!(top.match_bounds(Some("\u{10fffe}z"), Some("\u{10ffff}\u{10ffff}")), Outcomes::TRUE_OR_FALSE);
        assert_eq!(top.match_bounds(None, Some("\u{10fffe}z")), Outcomes::FALSE);
        assert_eq!(TextPattern::prefix("é").match_bounds(Some("ê"), None), Outcomes::FALSE);
    }

    #[test]
    fn bounds_decide_case_insensitive_prefixes_by_their_uncased_part_only() {
        assert_eq!(ilike("ab%").match_bounds(Some("zz"), None), Outcomes::TRUE_OR_FALSE);
        assert_eq!(ilike("2024-a%").match_bounds(Some("2025"), None), Outcomes::FALSE);
        assert_eq!(ilike("2024-a%").match_bounds(Some("2024-b"), None), Outcomes::TRUE_OR_FALSE);
        assert_eq!(ilike("2024%").match_bounds(Some("2024"), Some("20245")), Outcomes::TRUE_OR_FALSE);
    }

    #[test]
    fn tokens_find_substrings_of_words() {
        // The original system loses this one.
        assert!(like("%ofmem%").tokens_allow(&set("OutOfMemoryError")));
        assert!(!like("%oom%").tokens_allow(&set("OutOfMemoryError")));
        assert!(like("%fooXbar%").tokens_allow(&set("a fooxbar")));
        assert!(like("foo_bar").tokens_allow(&set("fooxbar")), "_ may be a letter");
        assert!(!like("foo_bar").tokens_allow(&set("xfooxbar")), "the value starts with foo");
        assert!(like("%foo%bar%").tokens_allow(&set("xfoobarx")));
        assert!(!like("% foo %").tokens_allow(&set("xfoo foox")));
        assert!(!like("% foo%").tokens_allow(&set("xfoo")));
        assert!(!like("%foo %").tokens_allow(&set("foox")));
        assert!(like("% a %").tokens_allow(&set("xyz")), "one-character runs are dropped");
        assert!(!like("%ab%").tokens_allow(&[]), "an empty set prunes");
        assert!(like("%-%").tokens_allow(&[]));
        assert!(like("%").tokens_allow(&[]));
        assert!(like("%caf%").tokens_allow(&set("café")));
        assert!(!like("%cafe%").tokens_allow(&set("café")));
    }

    #[test]
    fn tokens_of_case_insensitive_needles_stop_at_k_s_and_i() {
        assert!(ilike("%walker%").tokens_allow(&set("wal\u{212a}er")));
        assert!(ilike("%WALKER%").tokens_allow(&set("walker")));
        assert!(!ilike("%walker%").tokens_allow(&set("wanderer")));
        assert!(ilike("% in %").tokens_allow(&set("x \u{130}n y")), "n is one character");
        assert!(ilike("%title%").tokens_allow(&set("T\u{130}TLE")));
        assert!(ilike("%mass%").tokens_allow(&set("ma\u{17f}\u{17f}")));
        assert!(!ilike("%error%").tokens_allow(&set("no such word")));
        assert!(like("%walker%").tokens_allow(&set("WALKER")), "the set has lost the case");
        assert!(!like("%walker%").tokens_allow(&set("wal\u{212a}er")));
    }
}
