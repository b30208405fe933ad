//! Patterns over object stores: `*` and `?` within a path segment, `**` across segments.

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::remote::{RemoteOptions, runtime, store_for};
use crate::{Error, Result};

/// Most objects a pattern is tried against, so that a pattern at the root of a huge bucket ends with a clear error.
const MAX_LISTED: usize = 1_000_000;

/// What the path of a URL cannot hold as it is.
const NOT_IN_URLS: &AsciiSet = &CONTROLS.add(b'%').add(b'#').add(b'?').add(b'\\');

/// Whether a path has wildcards.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// URLs of the objects that match `pattern`, sorted. A path without wildcards is returned as it is, whether it exists or not.
///
/// # Errors
/// If the store cannot be listed.
pub fn glob(pattern: &str, options: &RemoteOptions) -> Result<Vec<String>> {
    if !is_pattern(pattern) {
        return Ok(vec![pattern.to_owned()]);
    }
    let wildcard = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let base = pattern.get(..wildcard).and_then(|head| head.rfind('/')).map_or(0, |slash| slash + 1);
    let (prefix, rest) = pattern.split_at(base);
    let (store, root) = store_for(prefix, options)?;
    matching(store.as_ref(), &root, prefix, rest, MAX_LISTED)
}

/// URLs of the objects under `root`, which is `prefix`, that match `rest` of a pattern.
fn matching(store: &dyn ObjectStore, root: &Path, prefix: &str, rest: &str, limit: usize) -> Result<Vec<String>> {
    let failed = |what: object_store::Error| Error::io(format!("{prefix}{rest}"), "list", what);
    let Some(listed) = runtime()?.block_on(list(store, root, limit)).map_err(failed)? else {
        return Err(Error::InvalidInput(format!(
            "there are more than {limit} objects under \"{prefix}\", which is as much of \"{prefix}{rest}\" as can be \
             listed by: write more of the path before its first wildcard, or name several such patterns in a list"
        )));
    };
    let wanted: Vec<&str> = rest.split('/').collect();
    let mut found = Vec::new();
    for location in listed {
        let Some(parts) = location.prefix_match(root) else { continue };
        let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
        let borrowed: Vec<&str> = parts.iter().map(String::as_str).collect();
        if segments_match(&wanted, &borrowed) {
            found.push(format!("{prefix}{}", utf8_percent_encode(&borrowed.join("/"), NOT_IN_URLS)));
        }
    }
    found.sort();
    Ok(found)
}

/// The objects under `root`, or `None` when there are more than `limit`.
async fn list(store: &dyn ObjectStore, root: &Path, limit: usize) -> object_store::Result<Option<Vec<Path>>> {
    let mut stream = store.list(Some(root));
    let mut found = Vec::new();
    while let Some(meta) = stream.try_next().await? {
        if found.len() >= limit {
            return Ok(None);
        }
        found.push(meta.location);
    }
    Ok(Some(found))
}

fn segments_match(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            segments_match(rest, path) || path.split_first().is_some_and(|(_, tail)| segments_match(pattern, tail))
        }
        (Some((head, rest)), Some((name, tail))) => {
            segment_matches(head.as_bytes(), name.as_bytes()) && segments_match(rest, tail)
        }
        _ => false,
    }
}

fn segment_matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            segment_matches(rest, name) || name.split_first().is_some_and(|(_, tail)| segment_matches(pattern, tail))
        }
        (Some((b'?', rest)), Some((_, tail))) => segment_matches(rest, tail),
        (Some((wanted, rest)), Some((found, tail))) => wanted == found && segment_matches(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let path: Vec<&str> = path.split('/').collect();
        segments_match(&pattern, &path)
    }

    fn store(names: &[&str]) -> object_store::memory::InMemory {
        let store = object_store::memory::InMemory::new();
        for name in names {
            let path = Path::from_iter(name.split('/'));
            runtime().unwrap().block_on(store.put(&path, "x".into())).unwrap();
        }
        store
    }

    #[test]
    fn more_objects_than_the_limit_are_an_error_and_never_left_out() {
        let store = store(&["a/1.tlm", "a/2.tlm", "a/3.txt", "b/4.tlm"]);
        let root = Path::from("a");
        let all = matching(&store, &root, "s3://bucket/a/", "*.tlm", 3).unwrap();
        assert_eq!(all, ["s3://bucket/a/1.tlm", "s3://bucket/a/2.tlm"]);
        let error = matching(&store, &root, "s3://bucket/a/", "*.tlm", 2).unwrap_err().to_string();
        for part in ["more than 2 objects", "s3://bucket/a/*.tlm", "before its first wildcard"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_url_of_an_object_names_that_object_whatever_is_in_its_key() {
        let names = ["d/a\nb.tlm", "d/a#b.tlm", "d/a?b.tlm", "d/a%41.tlm", "d/a b.tlm", "d/\u{1f}é.tlm", "d/a\\b.tlm"];
        let store = store(&names);
        let found = matching(&store, &Path::from("d"), "s3://bucket/d/", "*.tlm", 100).unwrap();
        let keys: Vec<Path> = found.iter().map(|url| store_for(url, &RemoteOptions::default()).unwrap().1).collect();
        let mut listed = runtime().unwrap().block_on(list(&store, &Path::from("d"), 100)).unwrap().unwrap();
        assert_eq!(found.len(), names.len());
        let mut keys = keys;
        keys.sort();
        listed.sort();
        assert_eq!(keys, listed);
    }

    #[test]
    fn stars_stay_within_a_segment_and_double_stars_do_not() {
        assert!(matches("day=*/*.tlm", "day=1/a.tlm"));
        assert!(!matches("*.tlm", "day=1/a.tlm"));
        assert!(matches("**/*.tlm", "a/b/c.tlm"));
        assert!(matches("**/*.tlm", "c.tlm"));
        assert!(!matches("?.tlm", "ab.tlm"));
        assert!(matches("a*b*c", "axxbyyc"));
        assert!(!matches("a*b*c", "axxbyy"));
    }
}
