//! Many threads on one table: nothing lost, nothing twice, numbers dense.

use std::collections::HashSet;

use super::*;

/// `writers` threads, each with its own attached store, append `each` extents; one more reads all the while.
pub(in crate::catalog) fn threads(attach: impl Fn() -> Arc<dyn Catalog> + Sync, writers: usize, each: usize) {
    create_logs(&*attach());
    let attach = &attach;
    let committed: Vec<Uuid> = std::thread::scope(|scope| {
        let writing: Vec<_> = (0..writers)
            .map(|writer| {
                scope.spawn(move || {
                    let catalog = attach();
                    let mut written = Vec::new();
                    for i in 0..each {
                        let at = DAY_ONE + i64::try_from(writer * each + i).unwrap() * HOUR / 7;
                        let extent = plain(at);
                        let view = catalog.table(&logs()).unwrap().unwrap();
                        written.push(extent.written.extent_id);
                        catalog.commit(&view, &Changes::append(vec![extent])).unwrap();
                    }
                    written
                })
            })
            .collect();
        let reader = scope.spawn(move || {
            let catalog = attach();
            let mut last = 0;
            while last < writers * each {
                let view = catalog.table(&logs()).unwrap().unwrap();
                // One extent per snapshot: any other number is a torn read.
                let count = catalog.extents(&view).unwrap().len();
                assert_eq!(count as u64, view.snapshot.sequence);
                assert!(count >= last);
                last = count;
            }
        });
        let written = writing.into_iter().flat_map(|t| t.join().unwrap()).collect();
        reader.join().unwrap();
        written
    });
    check(&*attach(), &committed);
}

/// The table holds exactly `committed`, one per snapshot.
pub(in crate::catalog) fn check(catalog: &dyn Catalog, committed: &[Uuid]) {
    let view = catalog.table(&logs()).unwrap().unwrap();
    let found = ids(catalog, &view);
    let unique: HashSet<&Uuid> = found.iter().collect();
    assert_eq!(unique.len(), found.len(), "an extent is there twice");
    let expected: HashSet<&Uuid> = committed.iter().collect();
    assert_eq!(unique, expected);
    let dense: Vec<u64> = (0..=committed.len() as u64).collect();
    assert_eq!(sequences(catalog), dense);
}

#[test]
fn threads_on_a_manifest_log_in_memory() {
    let address = format!("memory://{}/lake", Uuid::new_v4());
    threads(|| attach(&address), 8, 25);
}

#[test]
fn threads_on_a_manifest_log_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    threads(|| attach(dir.path().to_str().unwrap()), 8, 12);
}

#[test]
fn threads_sharing_one_store() {
    let catalog = memory();
    threads(|| Arc::clone(&catalog), 8, 25);
}
