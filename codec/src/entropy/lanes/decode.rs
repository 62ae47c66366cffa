//! Words of a block's lanes and its extra bits → differences (FORMAT.md §9.1).

use super::expand::{BlockWriter, KeepPatch};
use super::extra_bits::{EXTRA_PADDING, read_window};
use super::round::{self, Lanes, VectorOps, WORDS_OFFERED};
use super::{FEW_LANES, LANES, LaneCount};
use crate::entropy::codebook::DecodeTable;
use crate::error::{Error, Result};
#[cfg(target_arch = "x86_64")]
use crate::fast_paths::{Path, is_open};
use crate::number::integer::Integer;
use crate::simd::vectorized;

/// Number of zero words that [`decode`] needs behind a block's lane words.
pub const LANE_PADDING: usize = WORDS_OFFERED;

/// If a block has fewer lane bits for each value than this, all its values are set to 0 before the block is decoded. Extra bits
/// do not count.
const ZERO_FILL_BITS_PER_VALUE: usize = 2;

/// Decodes a block of `values.len()` differences. `lane_words` are the block's lane words and [`LANE_PADDING`] zeros; `extra` are
/// its extra bits and [`EXTRA_PADDING`] zero bytes.
///
/// If `C` has an [`Integer::PLACEHOLDER`], `table` must have `WIDE_ENTRY` in some entries: in those with a difference that equals
/// the placeholder or does not fit `C`. Differences of other entries are written without a check, and `keep_patch` is not called
/// for them.
///
/// # Errors
/// `Corrupt` if the tokens have more values than the block, if extra bits are missing or left over, if lane words are left over or their last one is 0, or if
/// bits behind the last token are not all 0. Missing lane words are no error: they are read as 0.
pub fn decode<C: Integer>(
    lane_words: &[u16],
    lanes: LaneCount,
    extra: &[u8],
    table: &DecodeTable,
    values: &mut [C],
    keep_patch: KeepPatch<'_>,
) -> Result<()> {
    match lanes {
        LaneCount::Few => decode_lanes::<C, FEW_LANES>(lane_words, extra, table, values, keep_patch),
        LaneCount::All => decode_lanes::<C, LANES>(lane_words, extra, table, values, keep_patch),
    }
}

/// [`decode`], of a block with `COUNT` lanes.
fn decode_lanes<C: Integer, const COUNT: usize>(
    lane_words: &[u16],
    extra: &[u8],
    table: &DecodeTable,
    values: &mut [C],
    keep_patch: KeepPatch<'_>,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new().filter(|_| is_open(Path::LanesAvx2)) {
        return vectorized(
            #[inline(always)]
            || decode_block::<C, COUNT>(round::Avx2(v3), lane_words, extra, table, values, keep_patch),
        );
    }
    vectorized(
        #[inline(always)]
        || decode_block::<C, COUNT>(round::Portable, lane_words, extra, table, values, keep_patch),
    )
}

#[inline(always)]
fn decode_block<C: Integer, const COUNT: usize>(
    ops: impl VectorOps,
    lane_words: &[u16],
    extra: &[u8],
    table: &DecodeTable,
    values: &mut [C],
    keep_patch: KeepPatch<'_>,
) -> Result<()> {
    const SECTION: &str = "block";
    // Number of the block's lane words, and index of the first word of the padding. All words of the padding are 0.
    let zeros_at = lane_words.len().saturating_sub(LANE_PADDING);
    let word = |index: usize| u32::from(lane_words[index.min(zeros_at)]);
    let mut lanes: Lanes<COUNT> =
        Lanes { buffers: std::array::from_fn(|lane| word(lane) << 16 | word(COUNT + lane)), empty: [0; COUNT] };
    let mut next = (2 * COUNT).min(zeros_at);
    // A block with few lane bits mostly consists of zeros and runs. Its values are set to 0 first, so that most zeros of runs
    // need not be written. Only `expand_any` writes the zeros of each run all the same.
    let is_zero_filled = 16 * lane_words.len() < ZERO_FILL_BITS_PER_VALUE * values.len();
    if is_zero_filled {
        values.fill(C::default());
    }
    let mut output = BlockWriter { values, is_zero_filled, written: 0, extra, extra_at: 0, keep_patch };
    let mut unused_entries_are_first = true;
    while output.written < output.values.len() {
        let next_words = lane_words[next..].first_chunk().unwrap_or(&[0; WORDS_OFFERED]);
        let found = ops.decode_rounds(&mut lanes, table, next_words);
        next = (next + found.taken).min(zeros_at);
        let tokens = output.expand(&found, ops);
        // `decode_rounds` also looks up tokens behind the block's last token. By FORMAT.md §9.1, all buffers must be 0 behind the
        // last token. If each entry that was looked up behind the last token is `table[0]`, only zeros were shifted out of the
        // buffers. So the buffers were 0 if they are 0 now, which is checked below.
        unused_entries_are_first = found.entries[tokens..].iter().all(|&entry| entry == table[0]);
    }

    let BlockWriter { values, written, extra_at, .. } = output;
    if written != values.len() {
        return Err(Error::corrupt(SECTION, format_args!("a run ends {} values behind the block", written - values.len())));
    }
    let extra_bits = 8 * (extra.len() - EXTRA_PADDING);
    if extra_at.next_multiple_of(16) != extra_bits {
        return Err(Error::corrupt(SECTION, format_args!("its tokens need {extra_at} extra bits, it has {extra_bits}")));
    }
    let last_is_zero = zeros_at > 0 && word(zeros_at - 1) == 0;
    if next != zeros_at
        || last_is_zero
        || !unused_entries_are_first
        || lanes.buffers != [0; COUNT]
        || read_window(extra, extra_at) != 0
    {
        return Err(Error::corrupt(SECTION, "behind its last token are bits that are not 0, or words that must be cut off"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
