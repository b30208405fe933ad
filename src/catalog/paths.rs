//! Text form of paths into dynamic values, and the per-table dictionary that numbers them.

use std::collections::HashMap;

use roaring::RoaringBitmap;

/// Paths a table's dictionary numbers at most; extents with paths beyond store "unknown".
pub(crate) const MAX_PATHS: usize = 1 << 16;

/// A path as text: RFC 6901 (JSON Pointer), `/` before each member name, `~` as `~0` and `/` as `~1` within names.
pub fn path_text(path: &[String]) -> String {
    let mut out = String::new();
    for member in path {
        out.push('/');
        out.push_str(&member.replace('~', "~0").replace('/', "~1"));
    }
    out
}

/// Whether a set of present paths proves that nothing stands at `path`. `present` says whether a path text, or one that starts with
/// it and `/`, is in the set.
///
/// A member name made of digits may be an array index, about which the set says nothing, and the root is always there.
pub(crate) fn proves_absent(path: &[String], any_below: impl FnOnce(&str) -> bool) -> bool {
    let numeric = |member: &String| !member.is_empty() && member.bytes().all(|b| b.is_ascii_digit());
    if path.is_empty() || path.iter().any(numeric) {
        return false;
    }
    !any_below(&path_text(path))
}

/// Whether `candidate` is `path` itself or lies below it.
pub(crate) fn is_at_or_below(candidate: &str, path: &str) -> bool {
    candidate.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Numbers path texts within one table. Numbers are never reused or changed, so bitmaps stay valid as the dictionary grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathDictionary {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl PathDictionary {
    /// Appends texts in order; repeated ones keep their first number.
    pub(crate) fn extend(&mut self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            if let Ok(number) = u32::try_from(self.texts.len()) {
                self.numbers.entry(text.clone()).or_insert(number);
                self.texts.push(text);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The texts from number `first` on.
    pub(crate) fn texts_from(&self, first: usize) -> &[String] {
        self.texts.get(first..).unwrap_or_default()
    }

    /// The set of numbers of `paths`, numbering new ones. `None` when the dictionary is full: unknown.
    pub(crate) fn encode(&mut self, paths: &[String]) -> Option<RoaringBitmap> {
        let mut set = RoaringBitmap::new();
        for path in paths {
            let number = match self.numbers.get(path) {
                Some(number) => *number,
                None if self.texts.len() < MAX_PATHS => {
                    self.extend([path.clone()]);
                    *self.numbers.get(path)?
                }
                None => return None,
            };
            set.insert(number);
        }
        Some(set)
    }

    /// The texts of a set. `None` when it has a number the dictionary lacks: unknown.
    pub(crate) fn decode(&self, set: &RoaringBitmap) -> Option<Vec<String>> {
        set.iter().map(|n| usize::try_from(n).ok().and_then(|n| self.texts.get(n)).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &[&str]) -> Vec<String> {
        text.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn pointers_escape_their_separators() {
        assert_eq!(path_text(&path(&["http.method"])), "/http.method");
        assert_eq!(path_text(&path(&["a/b", "~c"])), "/a~1b/~0c");
        assert_eq!(path_text(&[]), "");
    }

    #[test]
    fn absence_needs_the_path_and_everything_below_to_be_missing() {
        let present = ["/a/b", "/ab"];
        let absent = |p: &[&str]| proves_absent(&path(p), |text| present.iter().any(|c| is_at_or_below(c, text)));
        assert!(!absent(&["a"]));
        assert!(!absent(&["a", "b"]));
        assert!(absent(&["b"]));
        assert!(absent(&["a", "b", "c"]));
        assert!(!absent(&["z", "0"]), "an array index is never in the set");
        assert!(!absent(&[]));
    }

    #[test]
    fn dictionary_numbers_once_and_tells_empty_from_unknown() {
        let mut dictionary = PathDictionary::default();
        let set = dictionary.encode(&path(&["/a", "/b"])).unwrap();
        assert_eq!(dictionary.encode(&path(&["/b"])).unwrap(), RoaringBitmap::from_iter([1]));
        assert_eq!(dictionary.decode(&set).unwrap(), path(&["/a", "/b"]));
        assert_eq!(dictionary.encode(&[]), Some(RoaringBitmap::new()));
        assert_eq!(dictionary.decode(&RoaringBitmap::from_iter([9])), None);
        dictionary.extend((0..MAX_PATHS).map(|i| format!("/x{i}")));
        assert_eq!(dictionary.encode(&path(&["/new"])), None);
    }
}
