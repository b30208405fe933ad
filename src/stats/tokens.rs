//! The word tokenizer of the storage format, and what a set of its tokens proves about a search.
//!
//! A token is a maximal run of ASCII letters and digits, lower-cased, of at least two characters. Every other character ends a
//! run: punctuation, spaces, the underscore, and every non-ASCII character, combining marks included. There are no stop words
//! and no length limit. Runs of one character are dropped, so a token set says nothing about them.

use std::collections::BTreeSet;

/// The shortest run that is a token, in characters.
pub const MIN_TOKEN_LEN: usize = 2;

/// Calls `visit` for each token of `text` in order, repeats included. The token is not yet lower-cased: it borrows from
/// `text`, and a caller that looks for one word can compare it with `eq_ignore_ascii_case` without a copy.
pub fn for_each_run<'a>(text: &'a str, mut visit: impl FnMut(&'a str)) {
    // Bytes of multi-byte characters are not alphanumeric, so runs start and end at character boundaries.
    for run in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        if run.len() >= MIN_TOKEN_LEN {
            visit(run);
        }
    }
}

/// Adds the tokens of `text` to `set`.
pub fn collect_tokens(text: &str, set: &mut BTreeSet<String>) {
    for_each_run(text, |run| {
        // Most values repeat words that are there already: look up before allocating where no upper case is in the way.
        if run.bytes().any(|b| b.is_ascii_uppercase()) {
            set.insert(run.to_ascii_lowercase());
        } else if !set.contains(run) {
            set.insert(run.to_owned());
        }
    });
}

/// The distinct tokens of `text`, in bytewise order.
pub fn tokens(text: &str) -> BTreeSet<String> {
    let mut set = BTreeSet::new();
    collect_tokens(text, &mut set);
    set
}

/// Whether `word`, which must be a single token, is a token of `text`, ASCII case aside.
pub fn has_token(text: &str, word: &str) -> bool {
    let mut found = false;
    for_each_run(text, |run| found |= run.eq_ignore_ascii_case(word));
    found
}

/// Whether `word` is one whole token in itself: ASCII letters and digits only, at least two of them.
pub fn is_token(word: &str) -> bool {
    word.len() >= MIN_TOKEN_LEN && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// A run of letters and digits that some value must hold, and what is known about its two ends there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The run, lower-cased.
    pub text: String,
    /// Nothing alphanumeric stands before it in the value: the token starts here.
    pub starts_token: bool,
    /// Nothing alphanumeric stands after it in the value: the token ends here.
    pub ends_token: bool,
}

impl Fragment {
    /// Whether `tokens`, sorted bytewise and complete, leaves room for a value that holds this fragment. A fragment of one
    /// character proves nothing, because runs of one character are not in the set.
    pub fn may_occur(&self, tokens: &[String]) -> bool {
        if self.text.len() < MIN_TOKEN_LEN {
            return true;
        }
        let text = self.text.as_str();
        match (self.starts_token, self.ends_token) {
            (true, true) => tokens.binary_search_by(|token| token.as_str().cmp(text)).is_ok(),
            (true, false) => {
                let first = tokens.partition_point(|token| token.as_str() < text);
                tokens.get(first).is_some_and(|token| token.starts_with(text))
            }
            (false, true) => tokens.iter().any(|token| token.ends_with(text)),
            (false, false) => tokens.iter().any(|token| token.contains(text)),
        }
    }
}

/// Splits a needle into the runs that any value holding it must hold.
///
/// `closed_start` and `closed_end` say that the needle stands at the very start or end of the value; otherwise anything may
/// precede or follow it. `blurred` tells characters that may be a letter in the value or may stand for a non-ASCII character
/// that ends a token there (see [`crate::predicate::fold`]): runs are cut at them, and the cut ends are open.
pub fn fragments(needle: &str, closed_start: bool, closed_end: bool, blurred: impl Fn(char) -> bool) -> Vec<Fragment> {
    let mut found = Vec::new();
    let mut current = String::new();
    let mut starts_token = closed_start;
    for c in needle.chars() {
        let is_blurred = blurred(c);
        if c.is_ascii_alphanumeric() && !is_blurred {
            current.push(c.to_ascii_lowercase());
            continue;
        }
        if !current.is_empty() {
            found.push(Fragment { text: std::mem::take(&mut current), starts_token, ends_token: !is_blurred });
        }
        starts_token = !is_blurred;
    }
    if !current.is_empty() {
        found.push(Fragment { text: current, starts_token, ends_token: closed_end });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        tokens(text).into_iter().collect()
    }

    #[test]
    fn tokenizes_as_the_format_reference_shows() {
        assert_eq!(list("OutOfMemoryError: retry_count=3 café"), ["caf", "count", "outofmemoryerror", "retry"]);
        assert_eq!(list("log-line_42 é"), ["42", "line", "log"]);
        assert_eq!(list("6fa459ea-ee8a-3ca4-894e-db77e160355e"), ["3ca4", "6fa459ea", "894e", "db77e160355e", "ee8a"]);
        assert_eq!(list("a b c é \u{301}"), Vec::<String>::new());
        assert_eq!(list("cafe\u{301}s wal\u{212a}er"), ["cafe", "er", "wal"]);
        assert_eq!(list(&"x".repeat(10_000)), ["x".repeat(10_000)]);
        assert_eq!(list(""), Vec::<String>::new());
    }

    #[test]
    fn has_token_wants_the_whole_run() {
        assert!(has_token("GET /oom?x=1", "OOM"));
        assert!(!has_token("OutOfMemoryError", "memory"));
        assert!(!has_token("a", "a"), "runs of one character are not tokens");
        assert!(is_token("a1") && !is_token("a") && !is_token("a-b") && !is_token("né"));
    }

    fn frag(text: &str, starts_token: bool, ends_token: bool) -> Fragment {
        Fragment { text: text.into(), starts_token, ends_token }
    }

    #[test]
    fn a_needle_splits_into_whole_suffix_prefix_and_substring_runs() {
        let split = |needle| fragments(needle, false, false, |_| false);
        assert_eq!(split("oom"), [frag("oom", false, false)]);
        assert_eq!(split("Foo Bar-baz"), [frag("foo", false, true), frag("bar", true, true), frag("baz", true, false)]);
        assert_eq!(split("-x-"), [frag("x", true, true)]);
        assert_eq!(split("éab"), [frag("ab", true, false)]);
        assert_eq!(fragments("ab", true, true, |_| false), [frag("ab", true, true)]);
        assert_eq!(split("--"), []);
    }

    #[test]
    fn blurred_characters_cut_and_leave_the_ends_open() {
        let split = |needle| fragments(needle, true, true, |c| "ksi".contains(c));
        assert_eq!(split("walker"), [frag("wal", true, false), frag("er", false, true)]);
        assert_eq!(split("k"), []);
    }

    #[test]
    fn fragments_against_a_set() {
        let set = list("OutOfMemoryError foo_bar x");
        assert!(frag("oryerr", false, false).may_occur(&set));
        assert!(frag("outof", true, false).may_occur(&set));
        assert!(frag("error", false, true).may_occur(&set));
        assert!(frag("foo", true, true).may_occur(&set));
        assert!(!frag("error", true, true).may_occur(&set));
        assert!(!frag("memory", true, false).may_occur(&set));
        assert!(!frag("memory", false, true).may_occur(&set));
        assert!(!frag("zz", true, false).may_occur(&set), "past the last token");
        assert!(frag("q", true, true).may_occur(&set), "one character proves nothing");
        assert!(!frag("ab", false, false).may_occur(&[]), "an empty set holds nothing");
    }
}
