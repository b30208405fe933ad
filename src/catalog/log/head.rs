//! Finding snapshots: the newest one without listing the log, and the one of an instant.
//!
//! Sequence numbers are dense: if snapshot n exists, so do all from the oldest retained one up to n. So whether a number is taken is
//! monotone above any number known to exist, and the newest is found by doubling steps and bisection. The hint and the numbers this
//! process has seen are only where the search starts.

use std::sync::Arc;

use super::doc::{self, HintDoc, SnapshotDoc};
use super::store::{LogStore, Traffic};
use crate::{Error, Result};

/// Key of the hint within a table's directory.
pub(super) const HINT: &str = "head.json";

/// The newest snapshot of a table's log, dropped tables included; `None` when there is no log.
pub(super) async fn newest(store: &LogStore, directory: &str, traffic: &Traffic) -> Result<Option<Arc<SnapshotDoc>>> {
    let Some((mut known, more)) = start(store, directory, traffic).await? else { return Ok(None) };
    if more {
        known += 1;
        // Somebody else has committed, perhaps much: the hint may save most of the steps.
        if let Some(hint) = hint(store, directory, traffic).await?
            && hint > known
            && exists(store, directory, hint, traffic).await?
        {
            known = hint;
        }
        let mut step = 1;
        let mut free = loop {
            let probe = known + step;
            if !exists(store, directory, probe, traffic).await? {
                break probe;
            }
            known = probe;
            step *= 2;
        };
        while free - known > 1 {
            let middle = known + (free - known) / 2;
            if exists(store, directory, middle, traffic).await? {
                known = middle;
            } else {
                free = middle;
            }
        }
    }
    store.saw(directory, known);
    match store.snapshot(directory, known, traffic).await? {
        Some(snapshot) => Ok(Some(snapshot)),
        None => Err(Error::Conflict {
            table: store.name(directory),
            what: format!("snapshot {known} disappeared while it was read: run the query again"),
        }),
    }
}

/// A sequence number that exists and whether the next one does too: from the newest this process saw, the hint, 0, or, when all of
/// these are gone, the largest listed.
async fn start(store: &LogStore, directory: &str, traffic: &Traffic) -> Result<Option<(u64, bool)>> {
    if let Some(seen) = store.seen(directory) {
        if let Some(found) = probe(store, directory, seen, traffic).await? {
            return Ok(Some(found));
        }
        store.forget(directory);
    }
    let hint = hint(store, directory, traffic).await?;
    for candidate in hint.into_iter().chain([0]) {
        if let Some(found) = probe(store, directory, candidate, traffic).await? {
            return Ok(Some(found));
        }
    }
    Ok(listed(store, directory).await?.last().map(|newest| (*newest, false)))
}

/// Whether `sequence` exists, and the number after it.
async fn probe(store: &LogStore, directory: &str, sequence: u64, traffic: &Traffic) -> Result<Option<(u64, bool)>> {
    let (here, next) = futures::future::join(
        exists(store, directory, sequence, traffic),
        exists(store, directory, sequence + 1, traffic),
    )
    .await;
    Ok(here?.then_some((sequence, next?)))
}

/// Sequence numbers of the retained snapshots, by listing. Sorted.
pub(super) async fn listed(store: &LogStore, directory: &str) -> Result<Vec<u64>> {
    let (_, objects) = store.list(&format!("{directory}/snapshots")).await?;
    let mut numbers: Vec<u64> = objects
        .iter()
        .filter_map(|name| name.strip_suffix(".json"))
        .filter(|digits| digits.len() == 20)
        .filter_map(|digits| digits.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

async fn hint(store: &LogStore, directory: &str, traffic: &Traffic) -> Result<Option<u64>> {
    let bytes = store.get(&format!("{directory}/{HINT}"), traffic).await?;
    // A damaged hint is no hint. The largest number is kept free for the probe after it.
    Ok(bytes.and_then(|b| serde_json::from_slice::<HintDoc>(&b).ok()).map(|h| h.sequence).filter(|n| *n < 1 << 62))
}

/// Writes the hint. Failing to is harmless.
pub(super) async fn write_hint(store: &LogStore, directory: &str, sequence: u64) {
    if let Ok(json) = doc::to_json(&HintDoc { sequence }) {
        drop(store.put(&format!("{directory}/{HINT}"), json).await);
    }
}

async fn exists(store: &LogStore, directory: &str, sequence: u64, traffic: &Traffic) -> Result<bool> {
    store.exists(&format!("{directory}/{}", doc::snapshot_key(sequence)), traffic).await
}

/// The newest snapshot committed at or before `instant`, given the newest of all. Commit times grow with the sequence numbers.
/// `None` when the oldest retained snapshot is younger.
pub(super) async fn at_instant(
    store: &LogStore,
    directory: &str,
    newest: Arc<SnapshotDoc>,
    instant: i64,
    traffic: &Traffic,
) -> Result<Option<Arc<SnapshotDoc>>> {
    if newest.head.created_at <= instant {
        return Ok(Some(newest));
    }
    let (mut low, mut high) = (0, newest.head.sequence);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match store.snapshot(directory, middle, traffic).await? {
            Some(snapshot) if snapshot.head.created_at <= instant => {
                best = Some(snapshot);
                low = middle + 1;
            }
            Some(_) => high = middle,
            // Expired: everything retained is above.
            None => low = middle + 1,
        }
    }
    Ok(best)
}
