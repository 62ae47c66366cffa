//! Stage 4 (FORMAT.md §8): codebooks. Canonical length-limited Huffman codes, their cost, and the tables that decode them.

#[cfg(test)]
pub(crate) mod plain;

use crate::entropy::alphabet::{ALPHABET, CodeLengths, Histogram, Meaning, SYMBOLS, Symbol};
use crate::error::{Error, Result};
use crate::number::fixed_log2::{LOG_FRACTION, log2_fixed};
use crate::number::patched16::PLACEHOLDER;

/// Length of the longest code, in bits. One look-up in a table of 4096 entries decodes any symbol.
pub const MAX_CODE_BITS: u8 = 12;

/// Bits that the codes of a histogram's symbols take, or `None` if one of them has no code.
#[must_use]
pub fn cost(histogram: &Histogram, lengths: &CodeLengths) -> Option<u64> {
    let mut bits = 0;
    for (&count, &length) in histogram.iter().zip(lengths) {
        if count > 0 && length == 0 {
            return None;
        }
        bits += count * u64::from(length);
    }
    Some(bits)
}

/// The histogram's entropy in bits, a lower bound of the cost of any code. Logarithms are in fixed point and rounded so that the result is never too high.
#[must_use]
pub fn entropy_bits(histogram: &Histogram) -> u64 {
    let total: u64 = histogram.iter().sum();
    if total == 0 {
        return 0;
    }
    // The logarithm of a count may be up to two units too low. Two are added to it, so that the difference of the logarithms is
    // never too high.
    let log_total = log2_fixed(total);
    let bits: u128 = histogram
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| u128::from(count) * u128::from(log_total.saturating_sub(log2_fixed(count) + 2)))
        .sum();
    (bits >> LOG_FRACTION) as u64
}

/// Code lengths of least cost among those of at most [`MAX_CODE_BITS`], by package-merge (Larmore and Hirschberg, JACM 37(3), 1990).
/// Ties are broken by symbol number. At least two symbols get a code, so that every code is complete.
///
/// The leaves are sorted exactly. CEAZ (ICS'22) sorts them approximately, which is faster. But the exact sort takes little of a
/// chunk's time, and codes of an approximate sort may be longer.
#[must_use]
pub fn optimal_lengths(histogram: &Histogram) -> CodeLengths {
    /// Number of levels of the merge. The length of a symbol's code is the number of levels at which its leaf is taken.
    const LEVELS: usize = MAX_CODE_BITS as usize;
    /// Largest number of items of a level: leaves, and pairs of items of the level below.
    const ITEMS: usize = 2 * SYMBOLS;
    let occurring = histogram.iter().filter(|&&count| count > 0).count();
    let missing = 2usize.saturating_sub(occurring);
    let symbols = (0..SYMBOLS)
        .filter(|&symbol| histogram[symbol] > 0)
        .chain((0..SYMBOLS).filter(|&symbol| histogram[symbol] == 0).take(missing));
    let mut leaves = [(0, 0); SYMBOLS];
    let leaves = &mut leaves[..occurring + missing];
    for (leaf, symbol) in leaves.iter_mut().zip(symbols) {
        *leaf = (histogram[symbol], symbol);
    }
    leaves.sort_unstable();

    // Each level merges the leaves with the pairs of neighbours on the level below it, by weight. A leaf goes first where weights are equal. Both lists end
    // with an item that is heavier than any other. So the merge only takes the lighter of two items, without a branch, and never tests for the end of a list.
    let count = leaves.len();
    let mut leaf_weights = [u64::MAX; SYMBOLS + 1];
    for (weight, leaf) in leaf_weights.iter_mut().zip(&*leaves) {
        *weight = leaf.0;
    }
    let mut is_leaf = [[true; ITEMS]; LEVELS];
    let (mut weights, mut length) = ([0; ITEMS], count);
    weights[..count].copy_from_slice(&leaf_weights[..count]);
    for is_leaf in &mut is_leaf[1..] {
        let mut pair_weights = [u64::MAX; SYMBOLS + 1];
        for (weight, pair) in pair_weights.iter_mut().zip(weights[..length].as_chunks::<2>().0) {
            *weight = pair[0] + pair[1];
        }
        length = count + length / 2;
        let mut leaf = 0;
        for (item, (weight, is_leaf)) in weights.iter_mut().zip(is_leaf).enumerate().take(length) {
            let (of_leaf, of_pair) = (leaf_weights[leaf], pair_weights[item - leaf]);
            *is_leaf = of_leaf <= of_pair;
            *weight = of_leaf.min(of_pair);
            leaf += usize::from(*is_leaf);
        }
    }

    // The code of `n` leaves is made from the cheapest 2n - 2 items of the top level. Each pair among these items takes two items
    // of the level below.
    let mut lengths = [0; SYMBOLS];
    let mut taken = 2 * count - 2;
    for is_leaf in is_leaf.iter().rev() {
        let of_leaves = is_leaf[..taken].iter().filter(|&&is_leaf| is_leaf).count();
        for &(_, symbol) in &leaves[..of_leaves] {
            lengths[symbol] += 1;
        }
        taken = 2 * (taken - of_leaves);
    }
    lengths
}

/// Canonical codes: ascending by length, then by symbol. An entry has the code in its low 16 bits and the length above.
#[must_use]
pub fn canonical_codes(lengths: &CodeLengths) -> [u32; SYMBOLS] {
    const LENGTHS: usize = MAX_CODE_BITS as usize + 1;
    let mut next = [0u32; LENGTHS];
    for &length in lengths {
        next[usize::from(length)] += 1;
    }
    // Replaces the number of codes of each length by the first code of that length. Length 0 means no code.
    let mut first = 0;
    for count in &mut next[1..] {
        first <<= 1;
        first += std::mem::replace(count, first);
    }
    let mut codes = [0; SYMBOLS];
    for (code, &length) in codes.iter_mut().zip(lengths).filter(|&(_, &length)| length > 0) {
        let next = &mut next[usize::from(length)];
        *code = *next | u32::from(length) << 16;
        *next += 1;
    }
    codes
}

/// The table that decodes a book. The next [`MAX_CODE_BITS`] bits of a lane, as a number, are the index of the entry of the next token.
///
/// ```text
/// bits  0 ..  3   length of the code, in bits
/// bits  4 .. 10   number of extra bits that follow, 0 to 64
/// bit  11         set for a run
/// bit  12         set for a wide class: its start does not fit bits 14 .. 31, or its differences do not fit the integers that are decoded
/// bit  13         set for runs and classes, 0 for direct codes
/// bits 14 .. 31   of a direct code: its difference, two's complement
///                 of a class that is not wide: its start
///                 of a wide class: its symbol
///                 of a run: its start in bits 14 .. 25, and its first value in bits 26 .. 31, two's complement
/// ```
pub type DecodeTable = [u32; 1 << MAX_CODE_BITS];

/// Bit of a [`DecodeTable`]'s entry that is set for a run.
pub const RUN_ENTRY: u32 = 1 << 11;
/// Bit of an entry that is set for a wide class.
pub const WIDE_ENTRY: u32 = 1 << 12;
/// Bit of an entry that is set for a run or a class.
pub const NON_LITERAL_ENTRY: u32 = 1 << 13;
/// Lowest bit of an entry's difference, start or symbol.
pub const START_SHIFT: u32 = 14;

/// Lowest bit of a run's first value in its entry.
pub const FIRST_SHIFT: u32 = 26;
const _: () = assert!(crate::entropy::alphabet::SEGMENT < 1 << (FIRST_SHIFT - START_SHIFT));

/// The least start that does not fit a [`DecodeTable`]'s entry.
pub const WIDE_START: i64 = 1 << (31 - START_SHIFT);

/// The [`DecodeTable`] entry of a symbol, with 0 as the length of its code. Classes are wide if their start is `wide_start` or more.
#[must_use]
pub const fn symbol_entry(symbol: usize, wide_start: i64) -> u32 {
    let Symbol { meaning, first, start, extra_bits } = ALPHABET[symbol];
    let run = if matches!(meaning, Meaning::Run) { RUN_ENTRY | ((first as i32) << FIRST_SHIFT).cast_unsigned() } else { 0 };
    let start = start.cast_signed();
    let start = if start < wide_start && start < WIDE_START {
        (start as u32) << START_SHIFT
    } else {
        (symbol as u32) << START_SHIFT | WIDE_ENTRY
    };
    let non_literal = if matches!(meaning, Meaning::Direct) { 0 } else { NON_LITERAL_ENTRY };
    (extra_bits as u32) << 4 | run | non_literal | start
}

/// [`symbol_entry`] of all symbols.
pub type SymbolEntries = [u32; SYMBOLS];
/// The entries for decoding without patches. The integers have 32 bits or more, or they are the mask's, whose higher bits do not
/// count.
pub static ENTRIES: SymbolEntries = symbol_entries(WIDE_START);
/// The entries for decoding to integers of 16 bits with patches. Classes whose differences do not fit are wide.
pub static PATCHED16_ENTRIES: SymbolEntries = symbol_entries(-(PLACEHOLDER as i64));

const fn symbol_entries(wide_start: i64) -> SymbolEntries {
    let mut entries = [0; SYMBOLS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        entries[symbol] = symbol_entry(symbol, wide_start);
        symbol += 1;
    }
    entries
}

/// Number of entries of a [`DecodeTable`] that decode one code of this length.
#[must_use]
pub fn entry_count(length: u8) -> usize {
    if length > 0 { 1 << MAX_CODE_BITS >> length } else { 0 }
}

/// Fills the decoding table of a book. `entries` is [`ENTRIES`] or [`PATCHED16_ENTRIES`].
///
/// # Errors
/// `Corrupt` if a length passes [`MAX_CODE_BITS`] or the lengths do not make a complete prefix code.
pub fn fill_decode_table(lengths: &CodeLengths, entries: &SymbolEntries, table: &mut DecodeTable) -> Result<()> {
    // By length: the index of the next code's first entry. The first loop counts the entries of each length, the second sums the
    // counts.
    let mut next = [0; MAX_CODE_BITS as usize + 1];
    for &length in lengths.iter().filter(|&&length| (1..=MAX_CODE_BITS).contains(&length)) {
        next[usize::from(length)] += entry_count(length);
    }
    let mut end = 0;
    for next in &mut next {
        end += std::mem::replace(next, end);
    }
    if end > table.len() {
        return Err(Error::corrupt(
            "codebook",
            format_args!("its code lengths make no prefix code: they use {end} of {} codes", table.len()),
        ));
    }
    if end != table.len() || lengths.iter().any(|&length| length > MAX_CODE_BITS) {
        return Err(Error::corrupt(
            "codebook",
            format_args!("its code lengths use {end} of {} codes, or pass {MAX_CODE_BITS} bits", table.len()),
        ));
    }
    for (&entry, &length) in entries.iter().zip(lengths).filter(|&(_, &length)| length > 0) {
        let next = &mut next[usize::from(length)];
        table[*next..*next + entry_count(length)].fill(entry | u32::from(length));
        *next += entry_count(length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::dictionary;
    use crate::random::Random;

    fn geometric(ratio: u64) -> Histogram {
        std::array::from_fn(|symbol| 1 << (60 / ratio).saturating_sub(symbol as u64 / ratio))
    }

    #[test]
    fn lengths_below_the_limit_are_those_of_huffman() {
        // Weights 1, 1, 2, 4, 8: Huffman's lengths are 4, 4, 3, 2, 1.
        let mut histogram = [0; SYMBOLS];
        histogram[..5].copy_from_slice(&[1, 1, 2, 4, 8]);
        assert_eq!(optimal_lengths(&histogram)[..5], [4, 4, 3, 2, 1]);
    }

    /// Histograms of few and of many symbols, with equal counts and with counts of all magnitudes.
    fn histograms() -> Vec<Histogram> {
        let mut random = Random(1);
        let mut histograms = vec![[0; SYMBOLS], [1; SYMBOLS], [1 << 40; SYMBOLS]];
        histograms.extend([1, 2, 5, 9].map(geometric));
        histograms.extend([1, 2, 5, 9].map(|ratio| geometric(ratio).map(|count| count >> 16)));
        histograms.extend([0, 30, 75].map(|single| std::array::from_fn(|symbol| if symbol == single { 5 } else { 0 })));
        for turn in 0..400 {
            let rarity = [1, 2, 5, 40, 100][turn % 5];
            let most = [2, 4, 1000, 1 << 20, 1 << 40][turn / 5 % 5];
            histograms.push(std::array::from_fn(|_| {
                if random.next().is_multiple_of(rarity) { (random.next() % most) >> (random.next() % 20) } else { 0 }
            }));
        }
        histograms
    }

    #[test]
    fn optimal_lengths_are_those_of_the_plain_definition() {
        for histogram in histograms() {
            let lengths = optimal_lengths(&histogram);
            assert_eq!(lengths, plain::optimal_lengths(&histogram), "entropy/codebook: lengths for {histogram:?}");
            assert!(plain::is_book(&lengths));
            assert!(entropy_bits(&histogram) <= cost(&histogram, &lengths).unwrap());
        }
    }

    /// The dictionary, books of planes, and copies of both with a few wrong lengths, of which most are no books.
    fn books() -> Vec<CodeLengths> {
        let mut random = Random(1);
        let mut books = dictionary::books().to_vec();
        books.extend(histograms().iter().map(optimal_lengths));
        for turn in 0..books.len() {
            let mut lengths = books[turn];
            for _ in 0..=turn % 3 {
                lengths[random.next() as usize % SYMBOLS] = (random.next() % 14) as u8;
            }
            books.push(lengths);
        }
        let mut pair = [0; SYMBOLS];
        pair[7..9].fill(1);
        books.extend([[0; SYMBOLS], [1; SYMBOLS], [12; SYMBOLS], pair]);
        pair[105] = 15;
        books.push(pair);
        books
    }

    #[test]
    fn codes_and_tables_are_those_of_the_plain_definition() {
        let mut table = [0; 1 << MAX_CODE_BITS];
        let (mut filled, mut refused) = (0, 0);
        for lengths in books() {
            for entries in [&ENTRIES, &PATCHED16_ENTRIES] {
                let is_filled = fill_decode_table(&lengths, entries, &mut table).is_ok();
                assert_eq!(is_filled, plain::is_book(&lengths), "entropy/codebook: {lengths:?}");
                if !is_filled {
                    refused += 1;
                    continue;
                }
                let codes = plain::codes(&lengths);
                let mut expected = [0; SYMBOLS];
                codes.iter().for_each(|&(symbol, code)| expected[symbol] = code.bits | code.length << 16);
                assert_eq!(canonical_codes(&lengths), expected, "entropy/codebook: codes of {lengths:?}");
                for (bits, &entry) in table.iter().enumerate() {
                    let (symbol, length) = plain::decode(&codes, bits as u32).unwrap();
                    assert_eq!(entry, entries[symbol] | length, "entropy/codebook: {bits:012b} of {lengths:?}");
                }
                filled += 1;
            }
        }
        assert!(filled > 900 && refused > 500, "{filled} books, {refused} others");
    }
}
