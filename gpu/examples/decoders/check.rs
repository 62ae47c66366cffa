//! What a way has written and decoded, against the host.

use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::lanes;

use super::Result;
use super::case::Case;
use super::device::{Arrays, Bench};
use super::way::Way;

/// Compares the decoded symbols with those that were encoded.
pub(crate) fn decoded(bench: &Bench, arrays: &Arrays, case: &Case) -> Result<()> {
    let decoded = bench.fetch(&arrays.decoded, 0..case.symbols.len())?;
    if decoded == case.symbols {
        return Ok(());
    }
    let wrong = decoded.iter().zip(&case.symbols).filter(|(found, expected)| found != expected).count();
    let first = decoded.iter().zip(&case.symbols).position(|(found, expected)| found != expected).unwrap_or(0);
    Err(format!(
        "{wrong} of {} symbols are wrong, the first at {first}: {} in place of {}",
        decoded.len(),
        decoded[first],
        case.symbols[first]
    )
    .into())
}

/// Compares what was encoded with the host's encoders: bit strings and gaps with those below, lanes with the codec's.
pub(crate) fn encoded(bench: &Bench, arrays: &Arrays, case: &Case, way: Way) -> Result<()> {
    let codes = case.codes();
    match way {
        Way::Coarse { block, .. } => {
            let mut words = Vec::new();
            let mut index = Vec::new();
            for block in case.symbols.chunks(block as usize) {
                index.push(words.len() as u32);
                words.extend(bit_string(block, &codes).0);
            }
            same("index", &bench.fetch(&arrays.index, 0..index.len())?, &index)?;
            same("words", &bench.fetch(&arrays.words, 0..words.len())?, &words)
        }
        Way::Subsequences { gaps, words, .. } => {
            let (expected, ends) = bit_string(&case.symbols, &codes);
            same("words", &bench.fetch(&arrays.words, 0..expected.len())?, &expected)?;
            if gaps {
                let expected = gap_array(&ends, 32 * words);
                same("gaps", &bench.fetch(&arrays.gaps, 0..expected.len())?, &expected)?;
            }
            Ok(())
        }
        Way::Lanes { block, .. } => {
            let blocks: Vec<&[u8]> = match block {
                Some(block) => case.symbols.chunks(block as usize).collect(),
                None => case.block_starts.windows(2).map(|ends| &case.symbols[ends[0] as usize..ends[1] as usize]).collect(),
            };
            let mut encoder = lanes::Encoder::default();
            let mut words = Vec::new();
            let mut index = vec![0];
            for block in blocks {
                words.extend_from_slice(encoder.encode(block, &codes, lanes::LaneCount::All).expect("memory"));
                index.push(words.len() as u32);
            }
            same("index", &bench.fetch(&arrays.index, 0..index.len())?, &index)?;
            same("lane words", &bench.fetch(&arrays.lane_words, 0..words.len())?, &words)
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &[T], expected: &[T]) -> Result<()> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => {
            Err(format!("{what} differ from the host's at {at}: {:x?} in place of {:x?}", found[at], expected[at]).into())
        }
    }
}

/// Codes one behind the other, the first bit the most significant of the first word; and where each code ends.
fn bit_string(symbols: &[u8], codes: &[u32; SYMBOLS]) -> (Vec<u32>, Vec<u32>) {
    let (mut words, mut ends) = (Vec::new(), Vec::with_capacity(symbols.len()));
    let (mut buffer, mut count, mut end) = (0u64, 0, 0);
    for &symbol in symbols {
        let entry = codes[usize::from(symbol)];
        let length = entry >> 16;
        buffer = buffer << length | u64::from(entry & 0xffff);
        count += length;
        end += length;
        ends.push(end);
        if count >= 32 {
            count -= 32;
            words.push((buffer >> count) as u32);
        }
    }
    if count > 0 {
        words.push((buffer << (32 - count)) as u32);
    }
    (words, ends)
}

/// Bits before the first code of each subsequence.
fn gap_array(ends: &[u32], bits: u32) -> Vec<u8> {
    let total = ends.last().copied().unwrap_or(0);
    let mut gaps = vec![0; total.div_ceil(bits) as usize];
    let mut from = 0;
    for &end in ends {
        if end / bits != from / bits
            && let Some(gap) = gaps.get_mut((end / bits) as usize)
        {
            *gap = (end % bits) as u8;
        }
        from = end;
    }
    gaps
}
