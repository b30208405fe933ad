//! TLM: whole files, statistics of sound files, and footers of Arrow's file format.
#![no_main]

use std::ops::Range;

use libfuzzer_sys::fuzz_target;
use pensieve_fuzz::{base, exercise, seed, with_mode};

/// `PENSIEVE` and the version.
const MAGIC: usize = 9;

/// Where the statistics of the sound file begin and end, and where the footer of its Arrow file begins and ends.
fn parts(base: &[u8]) -> (Range<usize>, Range<usize>) {
    let end = base.len() - MAGIC - 4;
    let length = u32::from_le_bytes(base[end..end + 4].try_into().expect("four bytes"));
    let start = end - usize::try_from(length).expect("a small file");
    let footer = i32::from_le_bytes(base[start - 10..start - 6].try_into().expect("four bytes"));
    (start..end, start - 10 - usize::try_from(footer).expect("a small file")..start - 10)
}

fuzz_target!(init: {
    let base = base("tlm");
    let (statistics, footer) = parts(base);
    seed([with_mode(0, base), with_mode(1, &base[statistics]), with_mode(2, &base[footer])], Some("tlm"));
}, |data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    let base = base("tlm");
    let (statistics, footer) = parts(base);
    let mut file;
    match mode % 3 {
        // as it comes
        0 => file = data.to_vec(),
        // sound blocks, other statistics
        1 => {
            file = base[..statistics.start].to_vec();
            file.extend_from_slice(data);
            file.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
            file.extend_from_slice(&base[base.len() - MAGIC..]);
        }
        // sound blocks, another footer of the Arrow file (version 1 has nothing after it)
        _ => {
            file = base[..footer.start].to_vec();
            file[MAGIC - 1] = 1;
            file.extend_from_slice(data);
            file.extend_from_slice(&i32::try_from(data.len()).unwrap_or(i32::MAX).to_le_bytes());
            file.extend_from_slice(b"ARROW1");
        }
    }
    exercise(file);
});
