//! Patterns over object stores: `*` and `?` within a path segment, `**` across segments.

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;

use super::remote::{RemoteOptions, runtime, store_for};
use crate::{Error, Result};

/// Most objects a pattern is tried against, so that a pattern at the root of a huge bucket ends with a clear error.
const MAX_LISTED: usize = 1_000_000;

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
    let wanted: Vec<&str> = rest.split('/').collect();
    let listed = runtime()?.block_on(list(store.as_ref(), &root)).map_err(|e| Error::io(pattern, "list", e))?;
    let mut found = Vec::new();
    for location in listed {
        let Some(parts) = location.prefix_match(&root) else { continue };
        let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
        let borrowed: Vec<&str> = parts.iter().map(String::as_str).collect();
        if segments_match(&wanted, &borrowed) {
            found.push(format!("{prefix}{}", borrowed.join("/")));
        }
    }
    found.sort();
    Ok(found)
}

async fn list(store: &dyn ObjectStore, root: &Path) -> object_store::Result<Vec<Path>> {
    let mut stream = store.list(Some(root));
    let mut found = Vec::new();
    while let Some(meta) = stream.try_next().await? {
        if found.len() == MAX_LISTED {
            break;
        }
        found.push(meta.location);
    }
    Ok(found)
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
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let path: Vec<&str> = path.split('/').collect();
        segments_match(&pattern, &path)
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
