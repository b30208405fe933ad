//! Reading a snapshot: its extents, stage 1 of the cascade over its manifests, its statistics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::stream;

use super::companion::{self, ExtentSets, Kind, Section};
use super::doc::{self, ExtentDoc, ManifestDoc, ManifestRef, PathsDoc, PathsRef, SnapshotDoc};
use super::store::{LogStore, Traffic};
use crate::catalog::paths::PathDictionary;
use crate::catalog::prune::{Cascade, EvidenceKind, Needs, PruneCounts, PruneOptions, Pruned, SetSource};
use crate::catalog::types::{Extent, ExtentStats, TimeBounds};
use crate::predicate::{BlockPredicate, Scalar};
use crate::{Error, Result};

/// Manifests read at the same time.
const CONCURRENCY: usize = 16;

/// As the trait shows it. `nameless` is the column of bounds that name none.
pub(super) fn extent(doc: &ExtentDoc, nameless: Option<&str>) -> Extent {
    Extent {
        id: doc.id,
        object_path: doc.path.clone(),
        format: doc.format.clone(),
        byte_size: doc.bytes,
        row_count: doc.rows,
        block_count: doc.blocks,
        time: TimeBounds {
            column: doc.ts_column.as_deref().or(nameless).map(str::to_owned),
            min: doc.min_ts,
            max: doc.max_ts,
            exact: true,
        },
        compaction_gen: doc.generation,
        schema_id: doc.schema_id,
        created_at: doc.created_at,
        sequence: doc.sequence,
    }
}

/// All extents of a snapshot, in the order they were added.
pub(super) async fn extents(
    store: &LogStore,
    directory: &str,
    snapshot: &SnapshotDoc,
    nameless: Option<&str>,
) -> Result<Vec<Extent>> {
    let traffic = &Traffic::default();
    // Owned items: a closure over borrowed ones is not general enough for a future that may move between threads.
    let keys: Vec<String> = snapshot.body.manifests.iter().map(|m| m.key.clone()).collect();
    let mut manifests = stream::iter(keys)
        .map(|key| async move { store.manifest(directory, &key, traffic).await })
        .buffered(CONCURRENCY);
    let mut all = Vec::new();
    while let Some(manifest) = manifests.next().await {
        all.extend(manifest?.extents.iter().map(|doc| extent(doc, nameless)));
    }
    all.sort_by_key(|e| e.sequence);
    Ok(all)
}

/// The path dictionary of a snapshot.
pub(super) async fn dictionary(
    store: &LogStore,
    directory: &str,
    chunks: &[PathsRef],
    traffic: &Traffic,
) -> Result<PathDictionary> {
    let mut dictionary = PathDictionary::default();
    for chunk in chunks {
        let key = format!("{directory}/{}", chunk.key);
        let damage = |what: String| Error::corrupt_catalog(store.name(&key), "paths", what);
        let bytes = store.get(&key, traffic).await?.ok_or_else(|| damage("the object is missing".into()))?;
        let doc: PathsDoc = doc::parse(&store.name(&key), doc::PATHS, &bytes)?;
        let counts = (u64::try_from(dictionary.len()).ok(), u64::try_from(doc.paths.len()).ok());
        if counts != (Some(chunk.first), Some(chunk.count)) {
            return Err(damage("the numbers of its paths do not continue those of the chunk before".into()));
        }
        dictionary.extend(doc.paths);
    }
    Ok(dictionary)
}

/// Stage 1 over a snapshot.
pub(super) async fn prune(
    store: &LogStore,
    directory: &str,
    snapshot: &SnapshotDoc,
    nameless: Option<&str>,
    predicate: &BlockPredicate,
    options: &PruneOptions,
) -> Result<Pruned> {
    let traffic = Traffic::default();
    let needs = Needs::of(predicate);
    let cascade = Cascade { predicate, needs: &needs, options };
    let mut counts = PruneCounts::default();
    let mut left: Vec<ManifestRef> = Vec::new();
    for manifest in &snapshot.body.manifests {
        counts.manifests_considered += 1;
        counts.extents_considered += manifest.extents;
        if cascade.keeps_time(manifest.rows, manifest.time(nameless)) {
            left.push(manifest.clone());
        } else {
            counts.manifests_skipped += 1;
            counts.skip(EvidenceKind::Time, manifest.extents);
        }
    }
    let mut dictionary = None;
    if !needs.paths.is_empty() && options.uses(EvidenceKind::Paths) && !left.is_empty() {
        match self::dictionary(store, directory, &snapshot.body.paths, &traffic).await {
            Ok(found) => dictionary = Some(found),
            Err(error) => counts.note(&format!("paths not used: {error}")),
        }
    }
    let mut extents = Vec::new();
    let (cascade, paths, shared) = (&cascade, dictionary.as_ref(), &traffic);
    let mut parts =
        stream::iter(left)
            .map(|manifest| async move {
                prune_manifest(store, directory, &manifest, nameless, cascade, paths, shared).await
            })
            .buffered(CONCURRENCY);
    while let Some(part) = parts.next().await {
        let part = part?;
        counts.add(&part.counts);
        extents.extend(part.extents);
    }
    drop(parts);
    extents.sort_by_key(|e: &Extent| e.sequence);
    counts.requests = traffic.requests.load(Ordering::Relaxed);
    counts.bytes_read = traffic.bytes.load(Ordering::Relaxed);
    Ok(Pruned { extents, counts })
}

async fn prune_manifest(
    store: &LogStore,
    directory: &str,
    manifest: &ManifestRef,
    nameless: Option<&str>,
    cascade: &Cascade<'_>,
    dictionary: Option<&PathDictionary>,
    traffic: &Traffic,
) -> Result<Pruned> {
    let doc = store.manifest(directory, &manifest.key, traffic).await?;
    let mut counts = PruneCounts::default();
    let mut left: Vec<(usize, &ExtentDoc)> = Vec::new();
    for (index, extent) in doc.extents.iter().enumerate() {
        if cascade.keeps_time(extent.rows, extent.time(nameless)) {
            left.push((index, extent));
        } else {
            counts.skip(EvidenceKind::Time, 1);
        }
    }
    let mut extents = Vec::with_capacity(left.len());
    if cascade.needs.is_empty() || left.is_empty() {
        extents.extend(left.into_iter().map(|(_, doc)| extent(doc, nameless)));
        return Ok(Pruned { extents, counts });
    }
    let mut sets = Sets { sections: HashMap::new(), index: 0, dictionary };
    let needs = cascade.needs;
    load(store, directory, &doc, &mut sets, Kind::Distinct, needs.distinct.iter(), traffic, &mut counts).await;
    let overflowed = needs
        .tokens_if_no_distinct
        .iter()
        .filter(|column| left.iter().any(|(index, _)| sets.blob_of(*index, column, Kind::Distinct).is_none()));
    let tokens: Vec<&String> = needs.tokens.iter().chain(overflowed).collect();
    load(store, directory, &doc, &mut sets, Kind::Tokens, tokens.into_iter(), traffic, &mut counts).await;
    load(store, directory, &doc, &mut sets, Kind::Paths, needs.paths.iter(), traffic, &mut counts).await;
    for (index, doc) in left {
        sets.index = index;
        match cascade.ruled_out_by(doc.rows, doc.time(nameless), &sets) {
            Some(kind) => counts.skip(kind, 1),
            None => extents.push(extent(doc, nameless)),
        }
    }
    Ok(Pruned { extents, counts })
}

/// Loads the sections of one kind. What cannot be loaded is unknown, and noted.
#[expect(clippy::too_many_arguments, reason = "one private step of prune_manifest, with its whole context")]
async fn load(
    store: &LogStore,
    directory: &str,
    doc: &Arc<ManifestDoc>,
    sets: &mut Sets<'_>,
    kind: Kind,
    columns: impl Iterator<Item = &String>,
    traffic: &Traffic,
    counts: &mut PruneCounts,
) {
    let Some(stats) = &doc.stats else { return };
    for column in columns {
        let section = stats.sections.iter().find(|s| s.column == *column && s.kind == kind.name());
        let Some(section) = section else { continue };
        match store.section(directory, &stats.key, section, doc.extents.len(), traffic).await {
            Ok(section) => {
                sets.sections.insert((column.clone(), kind), section);
            }
            Err(error) => counts.note(&format!("{} of column \"{column}\" not used: {error}", kind.name())),
        }
    }
}

/// The loaded sections of a manifest, seen from one of its extents.
struct Sets<'a> {
    sections: HashMap<(String, Kind), Arc<Section>>,
    index: usize,
    dictionary: Option<&'a PathDictionary>,
}

impl Sets<'_> {
    fn blob_of(&self, index: usize, column: &str, kind: Kind) -> Option<&[u8]> {
        self.sections.get(&(column.to_owned(), kind))?.blob(index)
    }
}

impl SetSource for Sets<'_> {
    fn distinct(&self, column: &str) -> Option<Vec<Scalar>> {
        companion::decode_distinct(self.blob_of(self.index, column, Kind::Distinct)?)
    }

    fn tokens(&self, column: &str) -> Option<Vec<String>> {
        companion::decode_tokens(self.blob_of(self.index, column, Kind::Tokens)?)
    }

    fn paths(&self, column: &str) -> Option<Vec<String>> {
        let set = companion::decode_paths(self.blob_of(self.index, column, Kind::Paths)?)?;
        self.dictionary?.decode(&set)
    }
}

/// The path dictionary for a listing: without it the paths are unknown, which is what the listing then shows.
pub(super) async fn dictionary_or_none(
    store: &LogStore,
    directory: &str,
    snapshot: &SnapshotDoc,
) -> Option<PathDictionary> {
    dictionary(store, directory, &snapshot.body.paths, &Traffic::default()).await.ok()
}

/// The extents of one manifest with all their statistics.
pub(super) async fn stats_of(
    store: &LogStore,
    directory: &str,
    manifest: &ManifestRef,
    nameless: Option<&str>,
    dictionary: Option<&PathDictionary>,
) -> Result<Vec<(Extent, ExtentStats)>> {
    let traffic = Traffic::default();
    let doc = store.manifest(directory, &manifest.key, &traffic).await?;
    let mut sets = vec![ExtentSets::default(); doc.extents.len()];
    if let Some(stats) = &doc.stats {
        for section in &stats.sections {
            let Some(kind) = Kind::from_name(&section.kind) else { continue };
            let decoded = store.section(directory, &stats.key, section, doc.extents.len(), &traffic).await;
            let Ok(decoded) = decoded else { continue };
            for (index, sets) in sets.iter_mut().enumerate() {
                if let Some(blob) = decoded.blob(index) {
                    sets.insert(&section.column, kind, blob);
                }
            }
        }
    }
    let rows = doc.extents.iter().zip(&sets).map(|(doc, sets)| {
        let mut present = std::collections::BTreeMap::new();
        for (column, bitmap) in sets.path_columns() {
            if let Some(texts) = bitmap.and_then(|set| dictionary.and_then(|d| d.decode(&set))) {
                present.insert(column.to_owned(), texts);
            }
        }
        let present_paths = (!present.is_empty()).then_some(present);
        (extent(doc, nameless), ExtentStats { column_stats: sets.to_column_stats(), present_paths })
    });
    Ok(rows.collect())
}
