//! Files that are not archives, or not ones this build reads.

use super::support::{copy_of, manifest};
use crate::Error;
use crate::dendro::Archive;
use crate::format::parquet::ParquetFormat;

/// What the message must contain, by fixture.
fn remedy(name: &str) -> &'static [&'static str] {
    match name {
        "foreign_application_id.dendro" => &["another application", "0x41424344"],
        "zero_application_id.dendro" => &["without dendro's application_id"],
        "no_catalog.dendro" => &["without its catalog", "-wal"],
        "not_sqlite.dendro" => &["not a SQLite database"],
        "truncated_0.dendro" => &["0 bytes are too few"],
        "truncated_50.dendro" => &["50 bytes are too few"],
        "user_version_0.dendro" => &["schema version 0", "4 to 5"],
        "user_version_3.dendro" => &["schema version 3", "4 to 5"],
        "user_version_6.dendro" => &["schema version 6", "4 to 5"],
        "user_version_99.dendro" => &["schema version 99", "4 to 5"],
        _ => &["damaged or cut short"],
    }
}

#[test]
fn every_refusal_names_the_file_and_the_remedy() {
    let mut refused = 0;
    for (name, expected) in manifest() {
        if expected.get("open_error").is_none() && expected.get("catalog_error").is_none() {
            continue;
        }
        refused += 1;
        let (dir, path) = copy_of(&name);
        let before = std::fs::read(&path).unwrap();
        let error = Archive::open(&path).err().unwrap_or_else(|| panic!("{name} was opened"));
        assert!(matches!(error, Error::Unsupported { .. } | Error::Corrupt { .. }), "{name}: {error:?}");
        let message = error.to_string();
        assert!(message.contains(&*path.display().to_string()), "{message}");
        for part in remedy(&name) {
            assert!(message.contains(part), "{name}: {message}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{name}: nothing is left beside a refused file");
    }
    assert!(refused >= 13, "{refused}");
}

#[test]
fn missing_files_and_directories_are_not_archives() {
    let dir = tempfile::tempdir().unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("a directory"), "{error}");
    assert!(matches!(Archive::open(dir.path().join("absent")).unwrap_err(), Error::Io { .. }));
}

#[test]
fn odd_names_stay_names() {
    let (dir, path) = copy_of("basic_v5.dendro");
    for name in ["file:x?mode=memory", "a?immutable=0#b", "ü %41.dendro", "no suffix"] {
        let odd = dir.path().join(name);
        std::fs::copy(&path, &odd).unwrap();
        assert_eq!(Archive::open(&odd).unwrap().catalog().unwrap().sources.len(), 2, "{name}");
    }
}

/// The mode bits of a directory mean nothing to root; SQLite follows no link in the place of `-shm`, whoever runs it.
#[cfg(unix)]
#[test]
fn a_log_that_cannot_be_read_is_an_error_and_not_a_shorter_answer() {
    let (dir, path) = copy_of("killed_v5.dendro");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), dir.path().join("killed_v5.dendro-shm")).unwrap();
    let error = Archive::open(&path).unwrap_err().to_string();
    assert!(error.contains("killed_v5.dendro-wal") && error.contains("would miss rows"), "{error}");
}

/// Every prefix of a small archive is refused or read, and nothing panics.
#[test]
fn no_prefix_panics() {
    let (dir, path) = copy_of("caller_rows_v4.dendro");
    let bytes = std::fs::read(&path).unwrap();
    let cut = dir.path().join("cut.dendro");
    for length in (0..bytes.len()).step_by(977) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        if let Ok(archive) = Archive::open(&cut) {
            let _ = archive.catalog();
        }
    }
}

/// Flipped bytes in the catalog pages lead to errors or other values, never to a panic or a huge allocation.
#[test]
fn no_flipped_byte_panics() {
    use crate::dendro::{SchemaScope, Selection, TimeColumnChoice};
    let (dir, path) = copy_of("caller_rows_v5.dendro");
    let bytes = std::fs::read(&path).unwrap();
    let flipped = dir.path().join("flipped.dendro");
    for at in (100..bytes.len()).step_by(131) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&flipped, &damaged).unwrap();
        let Ok(archive) = Archive::open(&flipped) else { continue };
        let _ = archive.read(|snapshot| {
            let catalog = snapshot.catalog()?;
            let _ = snapshot.segments_batch(&catalog, true);
            let table = catalog.table(&Selection::default())?;
            let schema = snapshot.table_schema(&table, &ParquetFormat, SchemaScope::All, &TimeColumnChoice::Infer)?;
            for segment in table.segments() {
                let Ok(extent) = snapshot.open_segment(&schema, &segment, &ParquetFormat) else { continue };
                let all: Vec<usize> = (0..extent.metadata().schema.fields().len()).collect();
                for block in (0..).take(extent.metadata().block_rows.len()) {
                    let _ = extent.read_block(crate::format::BlockId(block), &all);
                }
            }
            Ok(())
        });
    }
}
