//! Parquet: whole files, and sound files whose page headers, page indexes, Bloom filters or footer are replaced.
#![no_main]

use std::ops::Range;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use parquet::file::metadata::ParquetMetaDataReader;
use pensieve_fuzz::{base, exercise, seed, with_mode};

/// Where the parts of the sound file are that are replaced in place.
fn places() -> &'static [Range<usize>] {
    static PLACES: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    PLACES.get_or_init(|| {
        let file = base("parquet");
        let metadata = ParquetMetaDataReader::decode_metadata(&file[footer(file)]).expect("a sound footer");
        let mut places = Vec::new();
        let mut place = |offset: Option<i64>, length: Option<i32>| {
            if let (Some(Ok(offset)), Some(Ok(length))) = (offset.map(usize::try_from), length.map(usize::try_from)) {
                places.push(offset..(offset + length).min(file.len()));
            }
        };
        for group in metadata.row_groups() {
            for chunk in group.columns() {
                let (page, bytes) = (chunk.data_page_offset(), i32::try_from(chunk.compressed_size()).ok());
                place(Some(page), bytes);
                place(chunk.dictionary_page_offset(), bytes);
                place(chunk.offset_index_offset(), chunk.offset_index_length());
                place(chunk.column_index_offset(), chunk.column_index_length());
                place(chunk.bloom_filter_offset(), Some(32));
            }
        }
        places
    })
}

/// Where the footer is.
fn footer(base: &[u8]) -> Range<usize> {
    let end = base.len() - 8;
    let length = u32::from_le_bytes(base[end..end + 4].try_into().expect("four bytes"));
    end - usize::try_from(length).expect("a small file")..end
}

fuzz_target!(init: {
    let base = base("parquet");
    let parts = places().iter().enumerate().map(|(number, place)| with_mode(u8::try_from(number + 2).unwrap_or(2), &base[place.clone()]));
    seed([with_mode(0, base), with_mode(1, &base[footer(base)])].into_iter().chain(parts), Some("parquet"));
}, |data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    let mut file;
    match mode {
        // as it comes
        0 => file = data.to_vec(),
        // sound pages, another footer
        1 => {
            let base = base("parquet");
            file = base[..footer(base).start].to_vec();
            file.extend_from_slice(data);
            file.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
            file.extend_from_slice(b"PAR1");
        }
        // one part replaced in place, as far as the data goes
        _ => {
            let places = places();
            let place = places[usize::from(mode - 2) % places.len()].clone();
            file = base("parquet").to_vec();
            let length = data.len().min(place.len());
            file[place.start..place.start + length].copy_from_slice(&data[..length]);
        }
    }
    exercise(file);
});
