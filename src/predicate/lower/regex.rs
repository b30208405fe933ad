//! What a regular expression requires of the text it matches.
//!
//! DuckDB matches with RE2, this crate reads the expression with `regex-syntax`. Their languages overlap without being equal, so
//! an expression is read only if it keeps to the part on which they agree; anything else is unknown.

use regex_syntax::hir::{Hir, HirKind, Look};

use crate::predicate::{BlockPredicate, TextPattern};

/// Top-level alternatives beyond this number are not worth evaluating.
const MAX_ALTERNATIVES: usize = 64;

/// The condition on `column` that `regexp_matches(column, pattern, options)` implies (`regexp_full_match` if `whole`), or why
/// nothing is known. It is necessary, never sufficient.
pub fn required_text(column: &str, pattern: &str, options: &str, whole: bool) -> Result<BlockPredicate, String> {
    let mut literal = false;
    for option in options.chars() {
        match option {
            'c' | 's' | 'm' | 'n' | 'p' | ' ' | '\t' | '\n' => {}
            'l' => literal = true,
            other => return Err(format!("regular expression option '{other}'")),
        }
    }
    if literal {
        return Ok(text(column, TextPattern { exact: false, ..TextPattern::contains(pattern) }));
    }
    if !is_common_syntax(pattern) {
        return Err("the regular expression uses syntax that is not analysed".into());
    }
    let hir = regex_syntax::parse(pattern).map_err(|_| "the regular expression could not be analysed".to_owned())?;
    alternatives(column, &hir, whole)
}

fn alternatives(column: &str, hir: &Hir, whole: bool) -> Result<BlockPredicate, String> {
    match hir.kind() {
        HirKind::Capture(capture) => alternatives(column, &capture.sub, whole),
        HirKind::Alternation(branches) if branches.len() <= MAX_ALTERNATIVES => {
            let branches: Result<Vec<_>, _> = branches.iter().map(|branch| one(column, branch, whole)).collect();
            branches.map(BlockPredicate::Or)
        }
        _ => one(column, hir, whole),
    }
}

fn one(column: &str, hir: &Hir, whole: bool) -> Result<BlockPredicate, String> {
    let mut required = Required { at_start: whole, ..Required::default() };
    required.walk(hir);
    let ends_in_run = !required.run.is_empty();
    required.flush();
    if required.pieces.is_empty() {
        return Err("the regular expression requires no text".into());
    }
    Ok(text(
        column,
        TextPattern {
            pieces: required.pieces,
            anchored_start: required.anchored_start,
            anchored_end: required.anchored_end || (whole && ends_in_run),
            case_insensitive: false,
            exact: false,
        },
    ))
}

fn text(column: &str, pattern: TextPattern) -> BlockPredicate {
    BlockPredicate::Text { column: column.to_owned(), pattern }
}

/// Literal text that every match holds, collected in the order of the expression.
#[derive(Default)]
struct Required {
    pieces: Vec<String>,
    /// The literal being collected; what comes next follows it without a gap.
    run: String,
    /// Nothing but the start of the text precedes what comes next.
    at_start: bool,
    /// Something that may match text has been passed.
    consumed: bool,
    anchored_start: bool,
    /// The last piece stands at the end of the text.
    anchored_end: bool,
}

impl Required {
    fn walk(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) => {
                    self.anchored_start |= self.at_start;
                    self.at_start = false;
                    self.consumed = true;
                    self.anchored_end = false;
                    self.run.push_str(text);
                }
                Err(_) => self.gap(),
            },
            HirKind::Look(Look::Start) if !self.consumed => self.at_start = true,
            HirKind::Look(Look::End) => {
                self.anchored_end = !self.run.is_empty();
                self.flush();
            }
            // Empty matches; whatever they say, the literals on both sides are still required.
            HirKind::Look(_) => self.flush(),
            HirKind::Class(_) | HirKind::Alternation(_) => self.gap(),
            HirKind::Repetition(repetition) => {
                self.gap();
                if repetition.min > 0 {
                    self.walk(&repetition.sub);
                    self.gap();
                }
            }
            HirKind::Capture(capture) => self.walk(&capture.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.walk(part)),
        }
    }

    fn gap(&mut self) {
        self.flush();
        self.at_start = false;
        self.consumed = true;
        self.anchored_end = false;
    }

    fn flush(&mut self) {
        if !self.run.is_empty() {
            self.pieces.push(std::mem::take(&mut self.run));
        }
    }
}

/// Whether the expression keeps to syntax that RE2 and `regex-syntax` read alike. Left out are flags and named groups, escapes
/// other than the plain ones (`\<` is a letter to one and a word boundary to the other), nested classes and class operators,
/// and counted repetitions without a lower bound.
fn is_common_syntax(pattern: &str) -> bool {
    let characters: Vec<char> = pattern.chars().collect();
    let at = |i: usize| characters.get(i).copied();
    let mut in_class = false;
    let mut i = 0;
    while let Some(c) = at(i) {
        match (c, at(i + 1), in_class) {
            ('\\', Some(escaped), _) => {
                let plain = ".+*?()|[]{}^$\\/-dDwWsSntr".contains(escaped);
                let boundary = !in_class && (escaped == 'b' || escaped == 'B') && at(i + 2) != Some('{');
                if !plain && !boundary {
                    return false;
                }
                i += 1;
            }
            ('\\', None, _) => return false,
            ('(', Some('?'), false) if at(i + 2) != Some(':') => return false,
            ('{', Some(','), false) => return false,
            ('[', next, false) => {
                in_class = true;
                // A bracket in first place is a member of the class.
                let first = if next == Some('^') { i + 2 } else { i + 1 };
                i = if at(first) == Some(']') { first } else { first - 1 };
            }
            ('[' | '&' | '~', _, true) | ('-', Some('-'), true) => return false,
            (']', _, true) => in_class = false,
            _ => {}
        }
        i += 1;
    }
    !in_class
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(pattern: &str) -> String {
        match required_text("m", pattern, "", false) {
            Ok(predicate) => predicate.to_string(),
            Err(reason) => format!("unknown: {reason}"),
        }
    }

    #[test]
    fn literals_are_required_in_order() {
        assert_eq!(required("timeout"), "m LIKE '%timeout%'~");
        assert_eq!(required("time.*out"), "m LIKE '%time%out%'~");
        assert_eq!(required("^GET /[a-z]+/x"), "m LIKE 'GET /%/x%'~");
        assert_eq!(required("ms$"), "m LIKE '%ms'~");
        assert_eq!(required("a(bc)d"), "m LIKE '%abcd%'~");
        assert_eq!(required("a(?:bc)?d"), "m LIKE '%a%d%'~");
        assert_eq!(required("(ab)+"), "m LIKE '%ab%'~");
        assert_eq!(required("(ab){2,}c"), "m LIKE '%ab%c%'~");
        assert_eq!(required(r"\d+\.\d+"), "m LIKE '%.%'~");
        assert_eq!(required("é+"), "m LIKE '%é%'~");
        assert_eq!(required(r"\berr\b"), "m LIKE '%err%'~");
        assert_eq!(required("a^b"), "m LIKE '%a%b%'~", "never matches, and keeps what it says");
        assert_eq!(required("(?:^a)b"), "m LIKE 'ab%'~");
    }

    #[test]
    fn alternatives_each_require_their_own() {
        assert_eq!(required("timeout|refused"), "m LIKE '%timeout%'~ OR m LIKE '%refused%'~");
        assert_eq!(required("(timeout|refused)"), "m LIKE '%timeout%'~ OR m LIKE '%refused%'~");
        assert!(required("timeout|.*").starts_with("unknown"));
        assert_eq!(required("x(a|bc)y"), "m LIKE '%x%y%'~");
    }

    #[test]
    fn whole_matches_are_anchored() {
        let whole = |pattern| required_text("m", pattern, "", true).unwrap().to_string();
        assert_eq!(whole("abc"), "m LIKE 'abc'~");
        assert_eq!(whole("abc.*"), "m LIKE 'abc%'~");
        assert_eq!(whole(".*abc"), "m LIKE '%abc'~");
        assert_eq!(whole("a.*c"), "m LIKE 'a%c'~");
    }

    #[test]
    fn syntax_that_differs_between_the_libraries_is_unknown() {
        for pattern in [
            r"\<err",
            r"\b{start}err",
            "(?i)err",
            "(?x) e r r",
            "(?P<n>err)",
            "[a&&b]err",
            "[a--b]err",
            "[[:alpha:]]err",
            "err{,2}",
            r"\Qerr\E",
            r"\C",
            r"\p{Greek}err",
            r"\x41",
            "err\\",
            "(err",
            "[err",
            "err{",
            "a~[~~]",
        ] {
            assert!(required(pattern).starts_with("unknown"), "{pattern}: {}", required(pattern));
        }
        assert!(required("").starts_with("unknown"));
        assert!(required("[ab]").starts_with("unknown"));
        assert_eq!(required("[]a]x"), "m LIKE '%x%'~");
        assert_eq!(required("[^]a]x"), "m LIKE '%x%'~");
        assert_eq!(required(r"[\]a]x"), "m LIKE '%x%'~");
    }

    #[test]
    fn options() {
        let with = |options| required_text("m", "a.c", options, false).map(|p| p.to_string());
        assert_eq!(with("c s"), Ok("m LIKE '%a%c%'~".into()));
        assert_eq!(with("l"), Ok("m LIKE '%a.c%'~".into()));
        assert!(with("i").is_err());
        assert!(with("ci").is_err());
        assert!(with("z").is_err());
    }
}
