//! The next snapshot of a table: appended extents into manifests by time bucket, removals, and the merging that keeps both the number of
//! buckets and of manifests per bucket small.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::companion::{self, ExtentSets, Kind};
use super::doc::{
    self, ExtentDoc, Header, ManifestDoc, ManifestRef, PathsDoc, PathsRef, RemovedDoc, SchemaDoc, SnapshotDoc,
    SnapshotHead, StatsRef, SummaryDoc,
};
use super::read;
use super::store::{LogStore, Traffic};
use crate::catalog::paths::PathDictionary;
use crate::catalog::time;
use crate::catalog::types::{Changes, NewExtent, Removal, TableSchema, TableView};
use crate::{Error, Result};

/// Manifests a bucket may have after a commit.
pub(super) const MAX_PER_BUCKET: usize = 16;
/// Manifests a full bucket is merged down to.
const MERGED_PER_BUCKET: usize = 8;
/// Width of the time buckets of a new table: one hour.
pub(super) const INITIAL_BUCKET_NANOS: i64 = 3_600_000_000_000;
/// A quiet bucket with more manifests than this is merged when a new bucket begins...
const QUIET_MANIFESTS: usize = 2;
/// ...unless it has more extents than this.
const QUIET_EXTENTS: u64 = 4096;
/// Chunks of the path dictionary before they are merged.
const MAX_PATH_CHUNKS: usize = 16;

/// Buckets a table of `extents` extents may have before their width doubles.
fn max_buckets(extents: u64) -> usize {
    usize::try_from((extents / 256).clamp(256, 2048)).unwrap_or(2048)
}

/// Extents with their sets, in the order they get in a manifest.
#[derive(Debug, Default)]
struct Loaded {
    extents: Vec<ExtentDoc>,
    sets: Vec<ExtentSets>,
}

/// Builds one candidate snapshot. Dropped objects are named in `written`, so that a lost race can clean up.
pub(super) struct Builder<'a> {
    pub store: &'a LogStore,
    pub directory: &'a str,
    pub base: &'a TableView,
    pub changes: &'a Changes,
    /// The column of time bounds that name none: see [`TableSchema::only_time_column`].
    pub nameless: Option<String>,
    /// Keys (relative to the directory) of the objects this attempt created.
    pub written: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(store: &'a LogStore, directory: &'a str, base: &'a TableView, changes: &'a Changes) -> Self {
        Self { store, directory, base, changes, nameless: None, written: Vec::new() }
    }

    /// The snapshot that follows `head`.
    pub(super) async fn next(&mut self, head: &SnapshotDoc) -> Result<SnapshotDoc> {
        let traffic = Traffic::default();
        let now = time::now_nanos().max(head.head.created_at.saturating_add(1));
        let sequence = head.head.sequence + 1;
        let mut body = head.body.clone();
        body.removed = Vec::new();
        let mut schema = head.schema(&self.store.name(self.directory))?;
        self.nameless = schema.only_time_column().map(str::to_owned);
        if !self.changes.add_columns.is_empty() {
            let columns = schema.with_columns(&self.base.name, &self.changes.add_columns)?;
            schema = TableSchema { id: Uuid::new_v4(), columns };
            body.schemas.push(SchemaDoc::new(schema.id, &schema.columns));
        }
        let time_column = schema.time_column();

        self.remove(&mut body, &traffic).await?;
        // Before the new extents are put into manifests, so that a load of many years does not write one for every hour.
        let new: Vec<i64> =
            self.changes.append.iter().filter_map(|e| e.time_bounds(time_column)).map(|(_, max)| max).collect();
        let extents = body
            .manifests
            .iter()
            .fold(u64::try_from(self.changes.append.len()).unwrap_or(0), |n, m| n.saturating_add(m.extents));
        widen_buckets(&mut body.manifests, &mut body.bucket_nanos, extents, &new);
        let mut touched = HashSet::new();
        if !self.changes.append.is_empty() {
            self.append(&mut body, time_column, sequence, now, &mut touched, &traffic).await?;
        }
        self.merge_full_buckets(&mut body.manifests, &traffic).await?;
        let new_bucket = touched.iter().any(|b| !head.body.manifests.iter().any(|m| m.bucket == *b));
        if new_bucket && body.bucket_nanos == head.body.bucket_nanos {
            self.merge_one_quiet_bucket(&mut body.manifests, &touched, &traffic).await?;
        }

        let added = self.changes.added();
        let sum = |f: fn(&RemovedDoc) -> u64| body.removed.iter().fold(0_u64, |n, r| n.saturating_add(f(r)));
        let summary = SummaryDoc {
            extents_added: added.extents_added.unwrap_or(0),
            extents_removed: u64::try_from(body.removed.len()).unwrap_or(u64::MAX),
            rows_added: added.rows_added,
            rows_removed: sum(|r| r.rows),
            bytes_added: added.bytes_added,
            bytes_removed: sum(|r| r.bytes),
        };
        let mut totals = head.head.totals;
        totals.extents = (totals.extents + summary.extents_added).saturating_sub(summary.extents_removed);
        totals.rows = totals.rows.saturating_add(summary.rows_added).saturating_sub(summary.rows_removed);
        totals.bytes = totals.bytes.saturating_add(summary.bytes_added).saturating_sub(summary.bytes_removed);
        let Header { format, version } = Header::new(doc::SNAPSHOT);
        let head = SnapshotHead {
            format,
            version,
            table_id: head.head.table_id,
            snapshot_id: Uuid::new_v4(),
            sequence,
            parent_id: Some(head.head.snapshot_id),
            created_at: now,
            operation: self.changes.operation_name().to_owned(),
            dropped: false,
            schema_id: schema.id,
            summary,
            totals,
        };
        Ok(SnapshotDoc { head, body })
    }

    /// Takes the removed extents out of their manifests.
    async fn remove(&mut self, body: &mut doc::SnapshotBody, traffic: &Traffic) -> Result<()> {
        let mut wanted: HashMap<Uuid, &Removal> = self.changes.remove.iter().map(|r| (r.id, r)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        // First the manifests that the known time bounds point to, then, for what is still missing, all others.
        for by_bounds in [true, false] {
            for index in 0..body.manifests.len() {
                let Some(manifest) = body.manifests.get(index).cloned() else { continue };
                if wanted.is_empty() || (by_bounds && !wanted.values().any(|r| could_hold(&manifest, r))) {
                    continue;
                }
                let doc = self.store.manifest(self.directory, &manifest.key, traffic).await?;
                if !doc.extents.iter().any(|e| wanted.contains_key(&e.id)) {
                    continue;
                }
                let mut keep = Loaded::default();
                let all = self.load(&doc, traffic).await?;
                for (extent, sets) in all.extents.into_iter().zip(all.sets) {
                    if wanted.remove(&extent.id).is_some() {
                        body.removed.push(RemovedDoc {
                            id: extent.id,
                            path: extent.path,
                            rows: extent.rows,
                            bytes: extent.bytes,
                        });
                    } else {
                        keep.extents.push(extent);
                        keep.sets.push(sets);
                    }
                }
                let rewritten =
                    if keep.extents.is_empty() { None } else { Some(self.write(keep, manifest.bucket).await?) };
                if let Some(place) = body.manifests.get_mut(index) {
                    // An emptied manifest is marked by its extent count and dropped below, so that indices stay put.
                    *place = rewritten.unwrap_or(ManifestRef { extents: 0, rows: 0, ..manifest });
                }
            }
        }
        if let Some(missing) = wanted.keys().next() {
            return Err(Error::Conflict {
                table: self.base.name.to_string(),
                what: format!(
                    "extent {missing} is no longer part of the table: another commit removed it; plan the operation again"
                ),
            });
        }
        body.manifests.retain(|m| m.extents > 0);
        Ok(())
    }

    /// Adds the new extents, one manifest per time bucket.
    async fn append(
        &mut self,
        body: &mut doc::SnapshotBody,
        time_column: Option<&str>,
        sequence: u64,
        now: i64,
        touched: &mut HashSet<Option<i64>>,
        traffic: &Traffic,
    ) -> Result<()> {
        let mut dictionary = PathDictionary::default();
        let has_paths = self.changes.append.iter().any(|e| e.written.present_paths.is_some());
        if has_paths {
            dictionary = read::dictionary(self.store, self.directory, &body.paths, traffic).await?;
        }
        let known = dictionary.len();
        let mut buckets: BTreeMap<Option<i64>, Loaded> = BTreeMap::new();
        for extent in &self.changes.append {
            let (doc, sets) = encode_extent(extent, time_column, self.base.schema.id, sequence, now, &mut dictionary);
            let bucket = doc.max_ts.map(|max| max.div_euclid(body.bucket_nanos));
            let group = buckets.entry(bucket).or_default();
            group.extents.push(doc);
            group.sets.push(sets);
        }
        if dictionary.len() > known {
            self.write_paths(body, &dictionary, known).await?;
        }
        for (bucket, group) in buckets {
            touched.insert(bucket);
            let written = self.write(group, bucket).await?;
            body.manifests.push(written);
        }
        Ok(())
    }

    /// Writes the dictionary's new paths as a chunk; all of them when there are many chunks.
    async fn write_paths(
        &mut self,
        body: &mut doc::SnapshotBody,
        dictionary: &PathDictionary,
        known: usize,
    ) -> Result<()> {
        let first = if body.paths.len() < MAX_PATH_CHUNKS { known } else { 0 };
        if first == 0 {
            body.paths.clear();
        }
        let Header { format, version } = Header::new(doc::PATHS);
        let paths = dictionary.texts_from(first).to_vec();
        let count = u64::try_from(paths.len()).unwrap_or(0);
        let key = format!("paths/{}.json", Uuid::new_v4());
        self.put(&key, doc::to_json(&PathsDoc { format, version, paths })?).await?;
        body.paths.push(PathsRef { key, first: u64::try_from(first).unwrap_or(0), count });
        Ok(())
    }

    /// Merges the smallest manifests of every bucket that has too many.
    async fn merge_full_buckets(&mut self, manifests: &mut Vec<ManifestRef>, traffic: &Traffic) -> Result<()> {
        let mut sizes: BTreeMap<Option<i64>, usize> = BTreeMap::new();
        for manifest in manifests.iter() {
            *sizes.entry(manifest.bucket).or_default() += 1;
        }
        for (bucket, count) in sizes.into_iter().filter(|(_, count)| *count > MAX_PER_BUCKET) {
            let mut of_bucket: Vec<ManifestRef> = manifests.iter().filter(|m| m.bucket == bucket).cloned().collect();
            // The large ones stay as they are, so that an extent is rewritten a logarithmic number of times.
            of_bucket.sort_by_key(|m| m.extents);
            of_bucket.truncate(count + 1 - MERGED_PER_BUCKET);
            self.merge(manifests, &of_bucket, traffic).await?;
        }
        Ok(())
    }

    /// Merges the bucket with most manifests among those that this commit did not touch, if it is worth it.
    async fn merge_one_quiet_bucket(
        &mut self,
        manifests: &mut Vec<ManifestRef>,
        touched: &HashSet<Option<i64>>,
        traffic: &Traffic,
    ) -> Result<()> {
        let mut quiet: BTreeMap<Option<i64>, Vec<ManifestRef>> = BTreeMap::new();
        for manifest in manifests.iter().filter(|m| !touched.contains(&m.bucket)) {
            quiet.entry(manifest.bucket).or_default().push(manifest.clone());
        }
        let extents = |group: &[ManifestRef]| group.iter().fold(0_u64, |n, m| n.saturating_add(m.extents));
        let best = quiet
            .into_values()
            .filter(|group| group.len() > QUIET_MANIFESTS && extents(group) <= QUIET_EXTENTS)
            .max_by_key(Vec::len);
        match best {
            Some(group) => self.merge(manifests, &group, traffic).await,
            None => Ok(()),
        }
    }

    /// Replaces manifests of one bucket by one that has all their extents.
    async fn merge(
        &mut self,
        manifests: &mut Vec<ManifestRef>,
        group: &[ManifestRef],
        traffic: &Traffic,
    ) -> Result<()> {
        let mut all = Loaded::default();
        for manifest in group {
            let doc = self.store.manifest(self.directory, &manifest.key, traffic).await?;
            let part = self.load(&doc, traffic).await?;
            all.extents.extend(part.extents);
            all.sets.extend(part.sets);
        }
        let bucket = group.first().and_then(|m| m.bucket);
        let merged = self.write(all, bucket).await?;
        manifests.retain(|m| !group.iter().any(|g| g.key == m.key));
        manifests.push(merged);
        Ok(())
    }

    /// The extents of a manifest with all their sets. A companion that is missing or damaged counts as unknown; one that cannot be
    /// read right now is an error, since writing the manifest again would lose it.
    async fn load(&self, doc: &Arc<ManifestDoc>, traffic: &Traffic) -> Result<Loaded> {
        let mut sets = vec![ExtentSets::default(); doc.extents.len()];
        if let Some(stats) = &doc.stats {
            for section in &stats.sections {
                let Some(kind) = Kind::from_name(&section.kind) else { continue };
                let key = &stats.key;
                match self.store.section(self.directory, key, section, doc.extents.len(), traffic).await {
                    Ok(decoded) => {
                        for (index, sets) in sets.iter_mut().enumerate() {
                            if let Some(blob) = decoded.blob(index) {
                                sets.insert(&section.column, kind, blob);
                            }
                        }
                    }
                    Err(Error::Corrupt { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Loaded { extents: doc.extents.clone(), sets })
    }

    /// Writes a manifest and its companion.
    async fn write(&mut self, mut group: Loaded, bucket: Option<i64>) -> Result<ManifestRef> {
        let mut order: Vec<usize> = (0..group.extents.len()).collect();
        order.sort_by_key(|i| group.extents.get(*i).map(|e| (e.sequence, *i)));
        group.sets = order.iter().filter_map(|i| group.sets.get(*i).cloned()).collect();
        group.extents = order.iter().filter_map(|i| group.extents.get(*i).cloned()).collect();

        let id = Uuid::new_v4();
        let mut stats = None;
        if let Some((bytes, sections)) = companion::encode(&group.sets)? {
            let key = format!("stats/{id}.bin");
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.put(&key, bytes).await?;
            stats = Some(StatsRef { key, size, sections });
        }
        group.extents.iter_mut().for_each(|extent| self.name_bounds(extent));
        let ts_column = group.extents.first().and_then(|e| e.ts_column.clone());
        let of_one_column = || group.extents.iter().filter(|e| e.ts_column == ts_column);
        let all = |bound: fn(&ExtentDoc) -> Option<i64>| {
            let bounds: Vec<i64> = of_one_column().filter_map(bound).collect();
            (bounds.len() == group.extents.len()).then_some(bounds)
        };
        let min_ts = all(|e| e.min_ts).and_then(|bounds| bounds.into_iter().min());
        let max_ts = all(|e| e.max_ts).and_then(|bounds| bounds.into_iter().max());
        let rows = group.extents.iter().fold(0_u64, |n, e| n.saturating_add(e.rows));
        let extents = u64::try_from(group.extents.len()).unwrap_or(u64::MAX);
        let Header { format, version } = Header::new(doc::MANIFEST);
        let bytes = doc::to_json(&ManifestDoc { format, version, stats, extents: group.extents })?;
        let key = format!("manifests/{id}.json");
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.put(&key, bytes).await?;
        Ok(ManifestRef { key, size, bucket, ts_column, min_ts, max_ts, extents, rows })
    }

    /// Writes down of which column the bounds are where an earlier build did not. Bounds that nobody can attribute are dropped.
    fn name_bounds(&self, extent: &mut ExtentDoc) {
        if extent.ts_column.is_some() || (extent.min_ts.is_none() && extent.max_ts.is_none()) {
            return;
        }
        extent.ts_column.clone_from(&self.nameless);
        if extent.ts_column.is_none() {
            (extent.min_ts, extent.max_ts) = (None, None);
        }
    }

    async fn put(&mut self, key: &str, bytes: Vec<u8>) -> Result<()> {
        self.written.push(key.to_owned());
        self.store.put(&format!("{}/{key}", self.directory), bytes).await
    }
}

/// Whether a manifest with these bounds can hold an extent with the removal's bounds.
fn could_hold(manifest: &ManifestRef, removal: &Removal) -> bool {
    let Some(time) = &removal.time else { return true };
    if time.column != manifest.ts_column {
        return true;
    }
    let below = matches!((time.min, manifest.min_ts), (Some(extent), Some(all)) if extent < all);
    let above = matches!((time.max, manifest.max_ts), (Some(extent), Some(all)) if extent > all);
    !below && !above
}

/// Doubles the width of the buckets until those of the manifests and of the `new` times are few enough. A bucket of the double width is exactly two old ones, so manifests only
/// change their label.
fn widen_buckets(manifests: &mut [ManifestRef], bucket_nanos: &mut i64, extents: u64, new: &[i64]) {
    loop {
        let of_new = new.iter().map(|max| max.div_euclid(*bucket_nanos));
        let distinct: HashSet<i64> = manifests.iter().filter_map(|m| m.bucket).chain(of_new).collect();
        let Some(double) = bucket_nanos.checked_mul(2) else { return };
        if distinct.len() <= max_buckets(extents) {
            return;
        }
        *bucket_nanos = double;
        for manifest in manifests.iter_mut() {
            manifest.bucket = manifest.bucket.map(|b| b.div_euclid(2));
        }
    }
}

fn encode_extent(
    new: &NewExtent,
    time_column: Option<&str>,
    schema_id: Uuid,
    sequence: u64,
    now: i64,
    dictionary: &mut PathDictionary,
) -> (ExtentDoc, ExtentSets) {
    let written = &new.written;
    let mut sets = ExtentSets::from_column_stats(&written.column_stats);
    for (column, paths) in written.present_paths.iter().flatten() {
        if let Some(bitmap) = dictionary.encode(paths) {
            sets.set_paths(column, &bitmap);
        }
    }
    let (min_ts, max_ts) = new.time_bounds(time_column).unzip();
    let doc = ExtentDoc {
        id: written.extent_id,
        path: written.object_path.clone(),
        format: Some(new.format.clone()).filter(|f| !f.is_empty()),
        bytes: written.byte_size,
        rows: written.row_count,
        blocks: Some(written.block_count),
        ts_column: time_column.filter(|_| min_ts.is_some()).map(str::to_owned),
        min_ts,
        max_ts,
        generation: new.compaction_gen,
        schema_id,
        created_at: now,
        sequence,
    };
    (doc, sets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TimeBounds;

    fn manifest(bucket: Option<i64>) -> ManifestRef {
        ManifestRef {
            key: String::new(),
            size: 0,
            bucket,
            ts_column: Some("at".to_owned()),
            min_ts: None,
            max_ts: None,
            extents: 1,
            rows: 1,
        }
    }

    #[test]
    fn wider_buckets_are_unions_of_narrow_ones() {
        let mut manifests: Vec<ManifestRef> = (-300..300).map(|b| manifest(Some(b))).chain([manifest(None)]).collect();
        let mut width = 10;
        widen_buckets(&mut manifests, &mut width, 600, &[]);
        assert_eq!(width, 40);
        for (i, manifest) in manifests.iter().take(600).enumerate() {
            let first_value = (i64::try_from(i).unwrap() - 300) * 10;
            assert_eq!(manifest.bucket, Some(first_value.div_euclid(width)));
        }
        assert_eq!(manifests[600].bucket, None);
        let times: Vec<i64> = (0..1_000).map(|i| i * 10).collect();
        let mut width = 10;
        widen_buckets(&mut [], &mut width, 1_000, &times);
        assert_eq!(width, 40);
    }

    #[test]
    fn bounds_only_exclude_manifests_that_cannot_hold_the_extent() {
        let of = |min, max| ManifestRef { min_ts: min, max_ts: max, ..manifest(None) };
        let of_column = |column: &str, min, max| {
            let column = Some(column.to_owned());
            Removal { id: Uuid::nil(), time: Some(TimeBounds { column, min, max, exact: true }) }
        };
        let removal = |min, max| of_column("at", min, max);
        assert!(could_hold(&of(Some(0), Some(10)), &of_column("seen", Some(3), Some(11))));
        assert!(could_hold(&of(Some(0), Some(10)), &removal(Some(3), Some(10))));
        assert!(!could_hold(&of(Some(0), Some(10)), &removal(Some(3), Some(11))));
        assert!(!could_hold(&of(Some(0), Some(10)), &removal(Some(-1), Some(10))));
        assert!(could_hold(&of(None, None), &removal(Some(-1), Some(10))));
        assert!(could_hold(&of(Some(0), Some(10)), &removal(None, None)));
        assert!(could_hold(&of(Some(0), Some(10)), &Removal::from(Uuid::nil())));
    }
}
