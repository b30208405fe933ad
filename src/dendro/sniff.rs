//! What the first bytes of a file say. The name of a file is never asked.

/// `application_id` of an archive: the ASCII bytes `dend`, big-endian at offset 68 of the SQLite header.
pub const APPLICATION_ID: u32 = 0x6465_6e64;

/// Schema versions (`user_version`, big-endian at offset 60) that are read. Version 5 is written.
pub const SCHEMA_VERSIONS: std::ops::RangeInclusive<u32> = 4..=5;

/// Bytes of a SQLite header, all that [`sniff_bytes`] wants.
pub const HEADER_LEN: usize = 100;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sniff {
    /// A dendro archive of this schema version, which may be one that is not read.
    Archive {
        /// The header's `user_version`.
        version: u32,
    },
    /// A SQLite database that is not stamped as an archive.
    OtherSqlite {
        /// The header's `application_id`; 0 is an ordinary database.
        application_id: u32,
    },
    /// Begins like SQLite but ends within the header.
    TruncatedHeader,
    /// Not SQLite.
    NotSqlite,
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_be_bytes(four))
}

/// Classifies a file by its first [`HEADER_LEN`] bytes (fewer when the file is shorter).
///
/// For bytes that are already in hand, from any store. Do not open a local archive with plain file I/O to get them: closing
/// that descriptor drops the locks that SQLite connections of this process hold on the file. [`super::Archive::open`] asks
/// through SQLite instead.
pub fn sniff_bytes(head: &[u8]) -> Sniff {
    if head.len() < MAGIC.len() || head.get(..MAGIC.len()) != Some(MAGIC.as_slice()) {
        return Sniff::NotSqlite;
    }
    if head.len() < HEADER_LEN {
        return Sniff::TruncatedHeader;
    }
    match (be_u32(head, 68), be_u32(head, 60)) {
        (Some(APPLICATION_ID), Some(version)) => Sniff::Archive { version },
        (Some(application_id), Some(_)) => Sniff::OtherSqlite { application_id },
        _ => Sniff::TruncatedHeader,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_apart() {
        let mut head = vec![0u8; HEADER_LEN];
        assert_eq!(sniff_bytes(&head), Sniff::NotSqlite);
        assert_eq!(sniff_bytes(b""), Sniff::NotSqlite);
        head[..16].copy_from_slice(MAGIC);
        assert_eq!(sniff_bytes(&head), Sniff::OtherSqlite { application_id: 0 });
        head[68..72].copy_from_slice(b"dend");
        head[60..64].copy_from_slice(&5u32.to_be_bytes());
        assert_eq!(sniff_bytes(&head), Sniff::Archive { version: 5 });
        assert_eq!(sniff_bytes(&head[..99]), Sniff::TruncatedHeader);
        assert_eq!(sniff_bytes(&head[..15]), Sniff::NotSqlite);
    }
}
