//! The JSON documents of the manifest log, as `docs/formats/manifest-log.md` specifies them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::catalog::evidence::TimeFacts;
use crate::catalog::types::{Snapshot, Summary, TableColumn, TableName, TableSchema, Totals};
use crate::{Error, Result};

/// The major version this build writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;
/// `format` of a snapshot's head line.
pub(super) const SNAPSHOT: &str = "pensieve-snapshot";
/// `format` of a manifest.
pub(super) const MANIFEST: &str = "pensieve-manifest";
/// `format` of a chunk of the path dictionary.
pub(super) const PATHS: &str = "pensieve-paths";
/// `format` of a database marker.
pub(super) const DATABASE: &str = "pensieve-database";

/// What every document begins with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub format: String,
    pub version: u32,
}

impl Header {
    pub(super) fn new(format: &str) -> Self {
        Self { format: format.to_owned(), version: VERSION }
    }
}

/// Parses a document after checking its header, so that a newer version is named as such rather than as damage.
pub(super) fn parse<'a, T: Deserialize<'a>>(key: &str, format: &str, json: &'a [u8]) -> Result<T> {
    let header: Header = serde_json::from_slice(json)
        .map_err(|e| Error::corrupt_catalog(key, "header", format!("is not a {format} document: {e}")))?;
    if header.format != format {
        return Err(Error::corrupt_catalog(
            key,
            "header",
            format!("is a \"{}\" document, not a \"{format}\"", header.format),
        ));
    }
    if header.version > VERSION || header.version == 0 {
        return Err(Error::unsupported(
            key,
            format!(
                "manifest log version {} was written by a newer pensieve; this build reads version {VERSION}: update it",
                header.version
            ),
        ));
    }
    serde_json::from_slice(json).map_err(|e| Error::corrupt_catalog(key, format!("line {}", e.line()), e.to_string()))
}

/// First line of a snapshot object: what a listing shows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SnapshotHead {
    pub format: String,
    pub version: u32,
    pub table_id: Uuid,
    pub snapshot_id: Uuid,
    pub sequence: u64,
    #[serde(default)]
    pub parent_id: Option<Uuid>,
    /// Nanoseconds since the Unix epoch, larger than the parent's.
    pub created_at: i64,
    pub operation: String,
    /// The table ends here; a later snapshot may begin another table of the same name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    pub schema_id: Uuid,
    pub summary: SummaryDoc,
    pub totals: TotalsDoc,
}

/// Second line of a snapshot object: what a reader needs to plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SnapshotBody {
    /// All schema versions, oldest first; the head's `schema_id` is one of them.
    pub schemas: Vec<SchemaDoc>,
    /// Width of the time buckets.
    pub bucket_nanos: i64,
    #[serde(default)]
    pub manifests: Vec<ManifestRef>,
    /// Chunks of the path dictionary, in order.
    #[serde(default)]
    pub paths: Vec<PathsRef>,
    /// Extents that this snapshot removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<RemovedDoc>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct SummaryDoc {
    #[serde(default)]
    pub extents_added: u64,
    #[serde(default)]
    pub extents_removed: u64,
    #[serde(default)]
    pub rows_added: u64,
    #[serde(default)]
    pub rows_removed: u64,
    #[serde(default)]
    pub bytes_added: u64,
    #[serde(default)]
    pub bytes_removed: u64,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct TotalsDoc {
    pub extents: u64,
    pub rows: u64,
    pub bytes: u64,
}

impl From<TotalsDoc> for Totals {
    fn from(doc: TotalsDoc) -> Self {
        Self { extents: doc.extents, rows: doc.rows, bytes: doc.bytes }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SchemaDoc {
    pub id: Uuid,
    pub fields: Vec<FieldDoc>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FieldDoc {
    pub name: String,
    #[serde(rename = "type")]
    pub type_name: String,
    #[serde(default = "yes")]
    pub nullable: bool,
}

fn yes() -> bool {
    true
}

impl SchemaDoc {
    pub(super) fn new(id: Uuid, columns: &[TableColumn]) -> Self {
        let fields = columns
            .iter()
            .map(|c| FieldDoc { name: c.name.clone(), type_name: c.column_type.to_string(), nullable: c.nullable })
            .collect();
        Self { id, fields }
    }

    pub(super) fn schema(&self) -> Result<TableSchema> {
        let columns = self
            .fields
            .iter()
            .map(|f| Ok(TableColumn { name: f.name.clone(), column_type: f.type_name.parse()?, nullable: f.nullable }))
            .collect::<Result<_>>()?;
        Ok(TableSchema { id: self.id, columns })
    }
}

/// A manifest as its snapshot lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ManifestRef {
    /// Key relative to the table's directory.
    pub key: String,
    /// Size of the object in bytes.
    pub size: u64,
    /// Time bucket of its extents, by their `max_ts`; absent: of extents without time bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<i64>,
    /// The column that the bounds are about: of all its extents. Absent in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts_column: Option<String>,
    /// Bounds over all its extents; absent when any of them lacks the bound or has that of another column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ts: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ts: Option<i64>,
    pub extents: u64,
    pub rows: u64,
}

impl ManifestRef {
    /// Bounds over all its extents; of the column `nameless` where the log does not say of which.
    pub(super) fn time<'a>(&'a self, nameless: Option<&'a str>) -> Option<TimeFacts<'a>> {
        let column = self.ts_column.as_deref().or(nameless)?;
        Some(TimeFacts { column, min: self.min_ts, max: self.max_ts, exact: false })
    }
}

/// A chunk of the path dictionary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PathsRef {
    pub key: String,
    /// Number of its first path.
    pub first: u64,
    /// How many paths it has.
    pub count: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RemovedDoc {
    pub id: Uuid,
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
}

/// A manifest object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ManifestDoc {
    pub format: String,
    pub version: u32,
    /// The companion with the sets of these extents; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<StatsRef>,
    pub extents: Vec<ExtentDoc>,
}

/// Where the companion is and what it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StatsRef {
    pub key: String,
    pub size: u64,
    pub sections: Vec<SectionRef>,
}

/// One section of a companion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SectionRef {
    pub column: String,
    /// "distinct", "tokens", "paths" or "other"; readers skip kinds they do not know.
    pub kind: String,
    /// Absolute offset of the compressed section.
    pub offset: u64,
    /// Bytes of the compressed section.
    pub length: u64,
    /// Bytes after decompression.
    pub raw: u64,
    /// CRC-32 (IEEE) of the compressed bytes.
    pub crc32: u32,
}

/// One extent of a manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ExtentDoc {
    pub id: Uuid,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    pub bytes: u64,
    pub rows: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// The column that the bounds are about. Absent in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts_column: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ts: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ts: Option<i64>,
    #[serde(default, rename = "gen")]
    pub generation: u32,
    pub schema_id: Uuid,
    pub created_at: i64,
    /// Snapshot that added it.
    pub sequence: u64,
}

impl ExtentDoc {
    /// Its time bounds; of the column `nameless` where the log does not say of which.
    pub(super) fn time<'a>(&'a self, nameless: Option<&'a str>) -> Option<TimeFacts<'a>> {
        let column = self.ts_column.as_deref().or(nameless)?;
        Some(TimeFacts { column, min: self.min_ts, max: self.max_ts, exact: true })
    }
}

/// The hint: where the newest snapshot was when it was written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HintDoc {
    pub sequence: u64,
}

/// A chunk of the path dictionary.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PathsDoc {
    pub format: String,
    pub version: u32,
    pub paths: Vec<String>,
}

/// A parsed snapshot object.
#[derive(Debug, Clone)]
pub(super) struct SnapshotDoc {
    pub head: SnapshotHead,
    pub body: SnapshotBody,
}

impl SnapshotDoc {
    /// Parses both lines.
    pub(super) fn parse(key: &str, bytes: &[u8]) -> Result<Self> {
        let (head, rest) = split_line(bytes)
            .ok_or_else(|| Error::corrupt_catalog(key, format!("offset {}", bytes.len()), "has no second line"))?;
        let head: SnapshotHead = parse(key, SNAPSHOT, head)?;
        let body: SnapshotBody = serde_json::from_slice(rest)
            .map_err(|e| Error::corrupt_catalog(key, format!("second line, column {}", e.column()), e.to_string()))?;
        if body.bucket_nanos <= 0 {
            return Err(Error::corrupt_catalog(key, "bucket_nanos", "is not positive"));
        }
        Ok(Self { head, body })
    }

    /// Both lines as bytes.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = to_json(&self.head)?;
        out.push(b'\n');
        out.extend(to_json(&self.body)?);
        out.push(b'\n');
        Ok(out)
    }

    /// The schema the snapshot's head names.
    pub(super) fn schema(&self, key: &str) -> Result<TableSchema> {
        self.body
            .schemas
            .iter()
            .find(|s| s.id == self.head.schema_id)
            .ok_or_else(|| Error::corrupt_catalog(key, "schema_id", "names a schema that the snapshot does not list"))?
            .schema()
    }
}

/// The bytes before the first line feed and those after it.
pub(super) fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|b| *b == b'\n')?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Compact JSON.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::InvalidInput(format!("cannot be written as JSON: {e}")))
}

impl SnapshotHead {
    /// As the trait shows it.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            id: self.snapshot_id,
            sequence: self.sequence,
            parent: self.parent_id,
            created_at: self.created_at,
            operation: self.operation.clone(),
            schema_id: self.schema_id,
            summary: Summary {
                rows_added: self.summary.rows_added,
                rows_removed: self.summary.rows_removed,
                bytes_added: self.summary.bytes_added,
                bytes_removed: self.summary.bytes_removed,
                extents_added: Some(self.summary.extents_added),
                extents_removed: Some(self.summary.extents_removed),
            },
        }
    }
}

/// A name as one path segment: ASCII letters, digits, `_` and `-` stand for themselves, every other byte is `%` and two upper-case
/// hexadecimal digits.
pub(super) fn encode_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The name of a path segment; `None` for segments that [`encode_segment`] does not make.
pub(super) fn decode_segment(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    (encode_segment(&name) == segment && !name.is_empty()).then_some(name)
}

/// The directory of a table's log, relative to the root.
pub(super) fn table_directory(name: &TableName) -> String {
    format!("_pensieve/{}/{}", encode_segment(&name.database), encode_segment(&name.table))
}

/// Key of a snapshot object within its table's directory: 20 decimal digits, so that names sort like numbers.
pub(super) fn snapshot_key(sequence: u64) -> String {
    format!("snapshots/{sequence:020}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_round_trip_and_foreign_ones_are_not_names() {
        for name in ["logs", "a.b", "..", "ünï/x", "A_b-9", "%41", " "] {
            let segment = encode_segment(name);
            assert!(!segment.contains('/') && !segment.contains('.'), "{segment}");
            assert_eq!(decode_segment(&segment).as_deref(), Some(name));
        }
        for segment in ["", "a.b", "%4", "%zz", "%61", "%ff"] {
            assert_eq!(decode_segment(segment), None, "{segment}");
        }
    }

    #[test]
    fn newer_versions_are_named_and_unknown_keys_ignored() {
        let error =
            parse::<PathsDoc>("k", PATHS, br#"{"format":"pensieve-paths","version":2,"paths":{}}"#).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        let error = parse::<PathsDoc>("k", PATHS, br#"{"format":"pensieve-manifest","version":1}"#).unwrap_err();
        assert!(error.to_string().contains("pensieve-manifest"), "{error}");
        let doc: PathsDoc =
            parse("k", PATHS, br#"{"format":"pensieve-paths","version":1,"paths":["/a"],"later":{"x":1}}"#).unwrap();
        assert_eq!(doc.paths, ["/a"]);
        assert!(parse::<PathsDoc>("k", PATHS, b"[").is_err());
        assert!(SnapshotDoc::parse("k", b"{}").is_err());
        assert!(SnapshotDoc::parse("k", b"{}\n{}\n").is_err());
    }
}
