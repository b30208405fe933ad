//! One open Parquet file as an extent: row group = block.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::bloom::{BloomEvidence, Blooms, equality_columns, filtered_leaves};
use super::decode::Stream;
use super::dictionary::DictionarySchemas;
use super::evidence::RowGroupEvidence;
use super::fetch::{File, Memory};
use super::open::{self, Footer};
use super::page_index::chunk_range;
use super::{FORMAT_NAME, decode, pages};
use crate::format::cache::SharedMetadata;
use crate::format::{BlockId, BlockLocation, ColumnPart, ExtentMetadata, ExtentReader, RowRanges, RowStream};
use crate::predicate::eval::evaluate;
use crate::predicate::{BlockPredicate, Evidence, Outcomes};
use crate::storage::{IoCounters, Source};
use crate::{Error, Result};

/// An open Parquet file. Its footer is in memory; page indexes and bloom filters join it when a predicate can use them.
#[derive(Debug)]
pub struct ParquetReader {
    file: File,
    parsed: Arc<Parsed>,
}

/// What opening a file found out: everything but the file.
#[derive(Debug)]
struct Parsed {
    memory: Arc<Memory>,
    footer: Arc<Footer>,
    blooms: Blooms,
    metadata: ExtentMetadata,
    evidence: Vec<RowGroupEvidence>,
    dictionaries: DictionarySchemas,
}

impl Parsed {
    fn new(memory: Arc<Memory>, footer: Footer, byte_size: u64) -> Self {
        let footer = Arc::new(footer);
        let metadata = ExtentMetadata {
            format: FORMAT_NAME,
            version: format!("Parquet {}.0", footer.metadata.file_metadata().version()),
            schema: Arc::clone(&footer.schema),
            block_rows: footer.block_rows.clone(),
            byte_size,
            stats_rejected: None,
        };
        let evidence = (0..footer.block_rows.len())
            .map(|row_group| RowGroupEvidence::new(Arc::clone(&footer), row_group))
            .collect();
        let blooms = Blooms::new(&footer.metadata);
        Self { memory, footer, blooms, metadata, evidence, dictionaries: DictionarySchemas::default() }
    }
}

impl SharedMetadata for Parsed {
    fn weight(&self) -> u64 {
        self.footer.weight.saturating_add(u64::try_from(self.memory.tail.bytes.len()).unwrap_or(u64::MAX))
    }

    fn format(&self) -> &'static str {
        FORMAT_NAME
    }

    fn attach(self: Arc<Self>, source: Arc<dyn Source>) -> Arc<dyn ExtentReader> {
        let file = File::new(source, Arc::clone(&self.memory));
        Arc::new(ParquetReader { file, parsed: self })
    }
}

impl ParquetReader {
    /// Opens the file behind `source`.
    ///
    /// # Errors
    /// Failures of the store, and files that are not whole, unencrypted Parquet files with a schema that Arrow can express.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let (memory, footer) = open::open(&source)?;
        let identity = source.identity();
        let parsed = Arc::new(Parsed::new(Arc::clone(&memory), footer, identity.size));
        Ok(Self { file: File::new(source, memory), parsed })
    }

    fn evidence(&self, block: BlockId) -> Result<(usize, &RowGroupEvidence)> {
        let row_group = usize::try_from(block.0).unwrap_or(usize::MAX);
        let evidence = self.parsed.evidence.get(row_group).ok_or_else(|| {
            Error::InvalidInput(format!(
                "\"{}\" has {} row groups, row group {} was asked for",
                self.file.path(),
                self.parsed.evidence.len(),
                block.0
            ))
        })?;
        Ok((row_group, evidence))
    }

    /// Makes the filters `wanted` of one row group known. Over a network those of all row groups that may still match come along: they
    /// lie side by side, and the others will be asked for next.
    fn load_blooms(&self, wanted: &[(usize, usize)], predicate: &BlockPredicate, names: &[&str]) -> Result<()> {
        let (blooms, metadata) = (&self.parsed.blooms, &self.parsed.footer.metadata);
        if blooms.are_loaded(wanted) {
            return Ok(());
        }
        if self.file.is_local() {
            return blooms.load(&self.file, metadata, wanted);
        }
        let _fetching = blooms.fetching();
        if blooms.are_loaded(wanted) {
            return Ok(());
        }
        let all: Vec<(usize, usize)> = self
            .parsed
            .evidence
            .iter()
            .enumerate()
            .filter(|(_, evidence)| evaluate(predicate, *evidence).may_be_true())
            .flat_map(|(row_group, _)| {
                filtered_leaves(&self.parsed.footer, row_group, names).map(move |leaf| (row_group, leaf))
            })
            .collect();
        blooms.load(&self.file, metadata, &all)
    }

    /// The outcomes by statistics and bloom filters, which are loaded.
    fn evaluate_with_blooms(
        &self,
        row_group: usize,
        evidence: &RowGroupEvidence,
        predicate: &BlockPredicate,
    ) -> Outcomes {
        let evidence =
            BloomEvidence { statistics: evidence, footer: &self.parsed.footer, blooms: &self.parsed.blooms, row_group };
        evaluate(predicate, &evidence)
    }
}

impl ExtentReader for ParquetReader {
    fn metadata(&self) -> &ExtentMetadata {
        &self.parsed.metadata
    }

    fn io_counters(&self) -> Arc<IoCounters> {
        Arc::clone(self.file.counters())
    }

    fn shared_metadata(&self) -> Option<Arc<dyn SharedMetadata>> {
        let parsed: Arc<Parsed> = Arc::clone(&self.parsed);
        Some(parsed)
    }

    fn with_text(&self) -> Result<Option<Arc<dyn ExtentReader>>> {
        let footer = self.parsed.footer.with_text(self.file.path())?;
        let parsed = Parsed::new(Arc::clone(&self.parsed.memory), footer, self.parsed.metadata.byte_size);
        Ok(Some(Arc::new(Self { file: self.file.clone(), parsed: Arc::new(parsed) })))
    }

    fn block_evidence(&self, block: BlockId) -> Option<&dyn Evidence> {
        self.evidence(block).ok().map(|(_, evidence)| evidence as &dyn Evidence)
    }

    fn block_location(&self, block: BlockId) -> Option<BlockLocation> {
        let row_group = self.parsed.footer.metadata.row_groups().get(usize::try_from(block.0).ok()?)?;
        let mut ranges = row_group.columns().iter().filter_map(chunk_range);
        let first = ranges.next()?;
        let (start, end) =
            ranges.fold((first.start, first.end), |(start, end), next| (start.min(next.start), end.max(next.end)));
        Some(BlockLocation { offset: start, length: end - start })
    }

    fn has_finer_evidence(&self) -> bool {
        true
    }

    fn evaluate_block(&self, block: BlockId, predicate: &BlockPredicate) -> Result<Outcomes> {
        let (row_group, evidence) = self.evidence(block)?;
        let outcomes = evaluate(predicate, evidence);
        if !outcomes.may_be_true() {
            return Ok(outcomes);
        }
        let mut names = Vec::new();
        equality_columns(predicate, &mut names);
        let wanted: Vec<(usize, usize)> =
            filtered_leaves(&self.parsed.footer, row_group, &names).map(|leaf| (row_group, leaf)).collect();
        if wanted.is_empty() {
            return Ok(outcomes);
        }
        self.load_blooms(&wanted, predicate, &names)?;
        Ok(self.evaluate_with_blooms(row_group, evidence, predicate))
    }

    fn pruned_blocks(&self, predicate: &BlockPredicate) -> Result<Vec<BlockId>> {
        let mut names = Vec::new();
        equality_columns(predicate, &mut names);
        let mut kept = Vec::new();
        let mut wanted = Vec::new();
        for (row_group, evidence) in self.parsed.evidence.iter().enumerate() {
            if evidence.row_count() == Some(0) || !evaluate(predicate, evidence).may_be_true() {
                continue;
            }
            let before = wanted.len();
            wanted.extend(filtered_leaves(&self.parsed.footer, row_group, &names).map(|leaf| (row_group, leaf)));
            kept.push((row_group, evidence, wanted.len() > before));
        }
        // The filters of every block that is left, in one request.
        self.parsed.blooms.load(&self.file, &self.parsed.footer.metadata, &wanted)?;
        kept.retain(|(row_group, evidence, filtered)| {
            !filtered || self.evaluate_with_blooms(*row_group, evidence, predicate).may_be_true()
        });
        Ok(kept.into_iter().filter_map(|(row_group, _, _)| u32::try_from(row_group).ok().map(BlockId)).collect())
    }

    fn read_block(&self, block: BlockId, projection: &[usize]) -> Result<RecordBatch> {
        decode::read(&self.file, &self.parsed.footer, &self.parsed.footer.arrow, block, projection, None)
    }

    fn candidate_rows(&self, block: BlockId, predicate: &BlockPredicate) -> Result<RowRanges> {
        let (row_group, evidence) = self.evidence(block)?;
        if evaluate(predicate, evidence).is_satisfied() {
            return Ok(RowRanges::all(evidence.row_count().unwrap_or(0)));
        }
        pages::candidate_rows(&self.file, &self.parsed.footer, evidence, row_group, predicate)
    }

    fn read_rows(&self, block: BlockId, projection: &[usize], rows: &RowRanges) -> Result<RecordBatch> {
        decode::read(&self.file, &self.parsed.footer, &self.parsed.footer.arrow, block, projection, Some(rows))
    }

    fn stream_rows(
        &self,
        block: BlockId,
        projection: &[ColumnPart],
        rows: &RowRanges,
        batch_rows: usize,
    ) -> Result<Box<dyn RowStream>> {
        let (row_group, _) = self.evidence(block)?;
        let footer = &self.parsed.footer;
        let columns = ColumnPart::columns(projection);
        let dictionaries = self.parsed.dictionaries.get(self.file.path(), footer, row_group, &columns);
        let arrow = dictionaries.as_ref().unwrap_or(&footer.arrow);
        Ok(Box::new(Stream::open(&self.file, footer, arrow, block, projection, Some(rows), batch_rows)?))
    }
}
