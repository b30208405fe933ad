//! Columns whose pages are all dictionary-encoded, read as Arrow dictionaries: the strings are decoded once per block, not once
//! per row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;

use super::fetch::guarded;
use super::open::Footer;

/// Schemas in which some columns are dictionaries, by those columns.
#[derive(Debug, Default)]
pub(super) struct DictionarySchemas {
    known: Mutex<HashMap<Vec<usize>, Option<ArrowReaderMetadata>>>,
}

/// More different sets of dictionary columns than this in one file are not remembered.
const REMEMBERED: usize = 64;

impl DictionarySchemas {
    /// The reader metadata in which those of `projection` that `row_group` stores wholly as dictionaries of text are Arrow
    /// dictionaries; `None` if there are none.
    pub(super) fn get(
        &self,
        path: &str,
        footer: &Footer,
        row_group: usize,
        projection: &[usize],
    ) -> Option<ArrowReaderMetadata> {
        let mut roots: Vec<usize> =
            projection.iter().copied().filter(|root| is_dictionary(footer, row_group, *root)).collect();
        roots.sort_unstable();
        roots.dedup();
        if roots.is_empty() {
            return None;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(metadata) = known.get(&roots) {
            return metadata.clone();
        }
        let metadata = guarded(
            path,
            || "schema".to_owned(),
            || {
                let options =
                    ArrowReaderOptions::new().with_schema(Arc::new(with_dictionaries(footer.arrow.schema(), &roots)));
                ArrowReaderMetadata::try_new(Arc::clone(footer.arrow.metadata()), options)
            },
        )
        .ok();
        if known.len() < REMEMBERED {
            known.insert(roots, metadata.clone());
        }
        metadata
    }
}

fn with_dictionaries(schema: &Schema, roots: &[usize]) -> Schema {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(root, field)| {
            let field = field.as_ref().clone();
            if roots.binary_search(&root).is_err() {
                return field;
            }
            let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(field.data_type().clone()));
            field.with_data_type(data_type)
        })
        .collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn is_dictionary(footer: &Footer, row_group: usize, root: usize) -> bool {
    let text = footer.schema.fields().get(root).is_some_and(|field| *field.data_type() == DataType::Utf8);
    let leaf = footer.columns.root(root).and_then(|column| column.leaf).filter(|_| text);
    let chunk = leaf.and_then(|leaf| footer.metadata.row_groups().get(row_group)?.columns().get(leaf));
    chunk.is_some_and(only_dictionary_pages)
}

/// Whether every data page refers to the dictionary. Writers that do not count encodings by page leave it open, unless no
/// other encoding occurs at all.
fn only_dictionary_pages(chunk: &ColumnChunkMetaData) -> bool {
    if chunk.dictionary_page_offset().is_none() {
        return false;
    }
    let refers = |encoding: Encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
    match chunk.page_encoding_stats_mask() {
        Some(mask) => mask.encodings().next().is_some() && mask.encodings().all(refers),
        None => chunk.encodings().all(|encoding| {
            #[expect(deprecated, reason = "old files name it for their levels")]
            let levels = matches!(encoding, Encoding::RLE | Encoding::BIT_PACKED);
            refers(encoding) || levels
        }),
    }
}
