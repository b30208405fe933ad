//! The companion of a manifest: distinct sets, token sets and path bitmaps of its extents, one compressed section per column and kind so
//! that a reader fetches only what a predicate needs. `docs/formats/manifest-log.md` has the bytes.

use std::collections::BTreeMap;
use std::io::Read;

use roaring::RoaringBitmap;
use serde_json::{Map, Value};

use super::doc::SectionRef;
use crate::predicate::Scalar;
use crate::{Error, Result};

/// First bytes of a companion object.
pub(super) const MAGIC: &[u8; 8] = b"PNSVSET\x01";
/// Sections larger than this after decompression are treated as unknown.
const MAX_RAW: u64 = 1 << 30;
const ZSTD_LEVEL: i32 = 3;

const TAG_STRINGS: u8 = 1;
const TAG_INTS: u8 = 2;
const TAG_JSON: u8 = 3;

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Distinct,
    Tokens,
    Paths,
    /// Whatever else a column's entry of `column_stats` has, as JSON.
    Other,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Distinct, Self::Tokens, Self::Paths, Self::Other];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Distinct => "distinct",
            Self::Tokens => "tokens",
            Self::Paths => "paths",
            Self::Other => "other",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The encoded sets of one extent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ExtentSets(BTreeMap<(String, Kind), Vec<u8>>);

impl ExtentSets {
    /// Encodes `column_stats`. Entries of an unknown shape are kept as JSON.
    pub(super) fn from_column_stats(stats: &Value) -> Self {
        let mut sets = Self::default();
        let Some(columns) = stats.as_object() else { return sets };
        for (column, entry) in columns {
            let Some(entry) = entry.as_object() else { continue };
            let mut other = Map::new();
            for (key, value) in entry {
                let kind = match (key.as_str(), value) {
                    (_, Value::Null) => continue,
                    ("distinct", Value::Array(_)) => Kind::Distinct,
                    ("tokens", Value::Array(_)) => Kind::Tokens,
                    _ => {
                        other.insert(key.clone(), value.clone());
                        continue;
                    }
                };
                sets.0.insert((column.clone(), kind), encode_set(value));
            }
            if !other.is_empty() {
                sets.0.insert((column.clone(), Kind::Other), encode_json(&Value::Object(other)));
            }
        }
        sets
    }

    /// Adds the path bitmap of a dynamic column.
    pub(super) fn set_paths(&mut self, column: &str, paths: &RoaringBitmap) {
        let mut bytes = Vec::with_capacity(paths.serialized_size());
        // Writing to a vector cannot fail.
        if paths.serialize_into(&mut bytes).is_ok() {
            self.0.insert((column.to_owned(), Kind::Paths), bytes);
        }
    }

    /// The set of one column and kind, encoded.
    #[cfg(test)]
    pub(super) fn get(&self, column: &str, kind: Kind) -> Option<&[u8]> {
        // A map keyed by owned pairs cannot be looked up by borrowed ones; columns are few.
        self.0.iter().find(|((c, k), _)| c == column && *k == kind).map(|(_, blob)| blob.as_slice())
    }

    pub(super) fn insert(&mut self, column: &str, kind: Kind, blob: &[u8]) {
        self.0.insert((column.to_owned(), kind), blob.to_vec());
    }

    /// Back to `column_stats` JSON. A column of which nothing is known is left out.
    pub(super) fn to_column_stats(&self) -> Value {
        let mut columns: Map<String, Value> = Map::new();
        for ((column, kind), blob) in &self.0 {
            if *kind == Kind::Paths {
                continue;
            }
            let Some(value) = decode_json(blob) else { continue };
            let entry = columns.entry(column.clone()).or_insert_with(|| Value::Object(Map::new()));
            let Some(entry) = entry.as_object_mut() else { continue };
            match (kind, value) {
                (Kind::Other, Value::Object(other)) => entry.extend(other),
                (kind, value) => {
                    for name in ["distinct", "tokens"] {
                        entry.entry(name).or_insert(Value::Null);
                    }
                    entry.insert(kind.name().to_owned(), value);
                }
            }
        }
        Value::Object(columns)
    }

    /// The path bitmaps, by column.
    pub(super) fn path_columns(&self) -> impl Iterator<Item = (&str, Option<RoaringBitmap>)> {
        self.0
            .iter()
            .filter(|((_, kind), _)| *kind == Kind::Paths)
            .map(|((column, _), blob)| (column.as_str(), decode_paths(blob)))
    }
}

/// An array of strings or of 64-bit integers, else JSON.
fn encode_set(value: &Value) -> Vec<u8> {
    let Some(values) = value.as_array() else { return encode_json(value) };
    if let Some(strings) = values.iter().map(Value::as_str).collect::<Option<Vec<&str>>>() {
        let mut out = vec![TAG_STRINGS];
        put_varint(&mut out, values.len());
        for text in strings {
            put_varint(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        return out;
    }
    if let Some(ints) = values.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>() {
        let mut out = vec![TAG_INTS];
        put_varint(&mut out, values.len());
        for int in ints {
            out.extend_from_slice(&int.to_le_bytes());
        }
        return out;
    }
    encode_json(value)
}

fn encode_json(value: &Value) -> Vec<u8> {
    let mut out = vec![TAG_JSON];
    out.extend_from_slice(value.to_string().as_bytes());
    out
}

fn put_varint(out: &mut Vec<u8>, value: usize) {
    let mut value = u64::try_from(value).unwrap_or(u64::MAX);
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7F).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

fn take_varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

fn decode_strings(mut bytes: &[u8]) -> Option<Vec<String>> {
    let count = take_varint(&mut bytes)?;
    // Each string takes a byte at least, so a count beyond the bytes is damage and not a size to allocate.
    let mut strings = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        let length = take_varint(&mut bytes)?;
        strings.push(std::str::from_utf8(take(&mut bytes, length)?).ok()?.to_owned());
    }
    bytes.is_empty().then_some(strings)
}

fn decode_ints(mut bytes: &[u8]) -> Option<Vec<i64>> {
    let count = take_varint(&mut bytes)?;
    if Some(bytes.len()) != count.checked_mul(8) {
        return None;
    }
    bytes.chunks_exact(8).map(|c| c.try_into().ok().map(i64::from_le_bytes)).collect()
}

fn decode_json(blob: &[u8]) -> Option<Value> {
    match blob.split_first()? {
        (&TAG_STRINGS, rest) => Some(Value::from(decode_strings(rest)?)),
        (&TAG_INTS, rest) => Some(Value::from(decode_ints(rest)?)),
        (&TAG_JSON, rest) => serde_json::from_slice(rest).ok(),
        _ => None,
    }
}

/// The distinct set of a blob. `None`: unknown.
pub(super) fn decode_distinct(blob: &[u8]) -> Option<Vec<Scalar>> {
    match blob.split_first()? {
        (&TAG_STRINGS, rest) => Some(decode_strings(rest)?.into_iter().map(Scalar::Str).collect()),
        (&TAG_INTS, rest) => Some(decode_ints(rest)?.into_iter().map(|i| Scalar::Int(i128::from(i))).collect()),
        (&TAG_JSON, rest) => {
            let mut entry = Map::new();
            entry.insert("distinct".to_owned(), serde_json::from_slice(rest).ok()?);
            crate::catalog::evidence::distinct_from_json(&Value::Object(entry))
        }
        _ => None,
    }
}

/// The token set of a blob, sorted. `None`: unknown.
pub(super) fn decode_tokens(blob: &[u8]) -> Option<Vec<String>> {
    match blob.split_first()? {
        (&TAG_STRINGS, rest) => {
            let mut tokens = decode_strings(rest)?;
            if !tokens.is_sorted() {
                tokens.sort_unstable();
            }
            Some(tokens)
        }
        _ => None,
    }
}

/// The path bitmap of a blob. `None`: unknown.
pub(super) fn decode_paths(blob: &[u8]) -> Option<RoaringBitmap> {
    RoaringBitmap::deserialize_from(blob).ok()
}

/// One decompressed section: an optional blob per extent of the manifest.
#[derive(Debug)]
pub(super) struct Section {
    raw: Vec<u8>,
    /// Where each extent's blob is in `raw`.
    spans: Vec<Option<(usize, usize)>>,
}

impl Section {
    /// The blob of extent number `index` in the manifest's order. `None`: unknown.
    pub(super) fn blob(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = self.spans.get(index).copied().flatten()?;
        self.raw.get(start..end)
    }

    /// Bytes held.
    pub(super) fn weight(&self) -> u64 {
        u64::try_from(self.raw.len() + self.spans.len() * 24 + 64).unwrap_or(u64::MAX)
    }

    /// Decompresses and checks a section. Errors mean damage; the caller treats the section as unknown.
    pub(super) fn decode(key: &str, section: &SectionRef, compressed: &[u8], extents: usize) -> Result<Self> {
        let damage = |what: &str| Error::corrupt_catalog(key, format!("offset {}", section.offset), what.to_owned());
        if crc32fast::hash(compressed) != section.crc32 {
            return Err(damage("the checksum of the section does not match"));
        }
        if section.raw > MAX_RAW {
            return Err(damage("the section is larger than 1 GiB"));
        }
        // Grows with what is really there; the declared size is a limit, not an allocation.
        let mut raw = Vec::new();
        zstd::stream::read::Decoder::new(compressed)
            .and_then(|decoder| decoder.take(section.raw + 1).read_to_end(&mut raw))
            .map_err(|e| damage(&e.to_string()))?;
        if u64::try_from(raw.len()).ok() != Some(section.raw) {
            return Err(damage("the section does not have the declared size"));
        }
        let mut spans = Vec::with_capacity(extents);
        let mut position = extents.checked_mul(4).ok_or_else(|| damage("too many extents"))?;
        for index in 0..extents {
            let field = raw.get(index * 4..index * 4 + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
            let length = field.and_then(|l| usize::try_from(l).ok()).ok_or_else(|| damage("is cut short"))?;
            if length == 0 {
                spans.push(None);
                continue;
            }
            let end = position.checked_add(length - 1).filter(|end| *end <= raw.len());
            let end = end.ok_or_else(|| damage("a set reaches past the end of the section"))?;
            spans.push(Some((position, end)));
            position = end;
        }
        Ok(Self { raw, spans })
    }
}

/// Encodes the companion of extents in the manifest's order: its bytes and its sections. `None` when nothing is known of any of them.
pub(super) fn encode(extents: &[ExtentSets]) -> Result<Option<(Vec<u8>, Vec<SectionRef>)>> {
    let names: std::collections::BTreeSet<&(String, Kind)> = extents.iter().flat_map(|e| e.0.keys()).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let mut out = MAGIC.to_vec();
    let mut sections = Vec::with_capacity(names.len());
    for name in names {
        let blobs: Vec<Option<&Vec<u8>>> = extents.iter().map(|e| e.0.get(name)).collect();
        let mut raw = Vec::new();
        for blob in &blobs {
            // 0 is unknown, n + 1 a blob of n bytes. A set too large for that is unknown.
            let field = blob.and_then(|b| u32::try_from(b.len() + 1).ok()).unwrap_or(0);
            raw.extend_from_slice(&field.to_le_bytes());
        }
        for blob in blobs.into_iter().flatten().filter(|b| u32::try_from(b.len() + 1).is_ok()) {
            raw.extend_from_slice(blob);
        }
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        if size(raw.len()) > MAX_RAW {
            continue;
        }
        let compressed = zstd::stream::encode_all(raw.as_slice(), ZSTD_LEVEL)
            .map_err(|e| Error::io("companion of a manifest", "compress", e))?;
        sections.push(SectionRef {
            column: name.0.clone(),
            kind: name.1.name().to_owned(),
            offset: size(out.len()),
            length: size(compressed.len()),
            raw: size(raw.len()),
            crc32: crc32fast::hash(&compressed),
        });
        out.extend_from_slice(&compressed);
    }
    Ok(Some((out, sections)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn column_stats_survive_the_binary_form() {
        let all = [
            stats(
                r#"{"svc":{"distinct":["a","é"],"tokens":["a"]},"n":{"distinct":[-1,9223372036854775807],"tokens":null}}"#,
            ),
            stats(r#"{"svc":{"distinct":null,"tokens":[]},"emb":{"vec":{"count":3,"radius":0.5}}}"#),
            stats(r#"{"n":{"distinct":[],"tokens":null},"u":{"distinct":[18446744073709551615],"tokens":null}}"#),
            stats("{}"),
        ];
        let sets: Vec<ExtentSets> = all.iter().map(ExtentSets::from_column_stats).collect();
        for (sets, original) in sets.iter().zip(&all) {
            assert_eq!(&sets.to_column_stats(), original);
        }
        let (bytes, sections) = encode(&sets).unwrap().unwrap();
        assert!(bytes.starts_with(MAGIC));
        let mut back = vec![ExtentSets::default(); all.len()];
        for section in &sections {
            let start = usize::try_from(section.offset).unwrap();
            let end = start + usize::try_from(section.length).unwrap();
            let decoded = Section::decode("k", section, &bytes[start..end], all.len()).unwrap();
            for (i, sets) in back.iter_mut().enumerate() {
                if let Some(blob) = decoded.blob(i) {
                    sets.insert(&section.column, Kind::from_name(&section.kind).unwrap(), blob);
                }
            }
        }
        assert_eq!(back, sets);
        assert_eq!(decode_distinct(sets[0].get("n", Kind::Distinct).unwrap()).unwrap()[0], Scalar::Int(-1));
        assert_eq!(decode_tokens(sets[1].get("svc", Kind::Tokens).unwrap()), Some(vec![]));
        assert_eq!(sets[1].get("svc", Kind::Distinct), None);
        assert_eq!(
            decode_distinct(sets[2].get("u", Kind::Distinct).unwrap()).unwrap(),
            [Scalar::Int(i128::from(u64::MAX))]
        );
    }

    #[test]
    fn paths_keep_unknown_apart_from_empty() {
        let mut sets = ExtentSets::default();
        sets.set_paths("attributes", &RoaringBitmap::new());
        sets.set_paths("other", &RoaringBitmap::from_iter([1, 70_000]));
        let decoded: BTreeMap<&str, Option<RoaringBitmap>> = sets.path_columns().collect();
        assert_eq!(decoded["attributes"], Some(RoaringBitmap::new()));
        assert_eq!(decoded["other"], Some(RoaringBitmap::from_iter([1, 70_000])));
        assert_eq!(sets.get("attributes", Kind::Distinct), None);
    }

    #[test]
    fn damage_is_an_error_never_a_panic() {
        let sets = vec![ExtentSets::from_column_stats(&stats(r#"{"a":{"distinct":["x","yy"],"tokens":["yy"]}}"#)); 3];
        let (bytes, sections) = encode(&sets).unwrap().unwrap();
        let section = &sections[0];
        let start = usize::try_from(section.offset).unwrap();
        let body = &bytes[start..start + usize::try_from(section.length).unwrap()];
        for i in 0..body.len() {
            let mut broken = body.to_vec();
            broken[i] ^= 0x40;
            assert!(Section::decode("k", section, &broken, 3).is_err());
            // With a matching checksum the decoder itself has to notice, or decode to something harmless.
            let crc = SectionRef { crc32: crc32fast::hash(&broken), ..section.clone() };
            if let Ok(decoded) = Section::decode("k", &crc, &broken, 3) {
                (0..3).for_each(|i| drop(decoded.blob(i).map(decode_distinct)));
            }
            assert!(Section::decode("k", section, &body[..i], 3).is_err());
        }
        assert!(Section::decode("k", &SectionRef { raw: section.raw - 1, ..section.clone() }, body, 3).is_err());
        assert!(Section::decode("k", section, body, 1_000_000).is_err());
        for blob in [&b""[..], b"\x01", b"\x01\xff\xff\xff\xff\x0f", b"\x02\x05", b"\x01\x01\x05ab", b"\x09", b"\x03{"]
        {
            assert_eq!(decode_distinct(blob), None);
            assert_eq!(decode_tokens(blob), None);
        }
        assert!(decode_paths(b"\x00\x01").is_none());
    }
}
