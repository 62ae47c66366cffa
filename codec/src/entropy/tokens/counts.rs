//! Counts of a plane's symbols. In long planes, pairs of neighbouring symbols are counted, which takes half as many increments.
//! Two pairs in a row are seldom equal, so that an increment seldom waits for the store of the increment before it. Only the
//! counters of pairs that occur are in the cache.

use crate::entropy::alphabet::{Histogram, SEGMENT, SYMBOLS};
use crate::error::Result;
use crate::memory::HeapArray;
use crate::simd::vectorized;

/// Planes with fewer integers are counted symbol by symbol, because summing the counters of all pairs takes time as well.
const MIN_INTEGERS_FOR_PAIRS: usize = 16 * SEGMENT;
/// Number of counters for one second symbol, of which only the first 128 are used: a pair of bytes is the index of its counter.
const ROW: usize = 256;
/// Counters of single symbols that are used in turn.
const TURNS: usize = 4;

/// Counts symbols, which are below 128.
#[derive(Debug)]
pub(super) struct Counts {
    /// How often each pair occurs, at `first + ROW * second`.
    pairs: HeapArray<u16, { ROW * 128 }>,
    /// Number of pairs in `pairs`, and so the most that a counter can have.
    pair_count: usize,
    /// Counts of single symbols in a short plane.
    singles: [[u32; 128]; TURNS],
    counts_pairs: bool,
    histogram: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            pairs: HeapArray::default(),
            pair_count: 0,
            singles: [[0; 128]; TURNS],
            counts_pairs: false,
            histogram: [0; SYMBOLS],
        }
    }
}

impl Counts {
    /// Begins with a plane of `integers` integers.
    pub(super) fn begin(&mut self, integers: usize) {
        // An error may have left counts.
        self.finish();
        self.counts_pairs = integers >= MIN_INTEGERS_FOR_PAIRS;
        self.histogram = [0; SYMBOLS];
    }

    /// Counts the symbols of a segment.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline(always)]
    pub(super) fn add(&mut self, symbols: &[u8]) -> Result<()> {
        if !self.counts_pairs {
            let (quads, rest) = symbols.as_chunks::<TURNS>();
            for quad in quads {
                for (counters, &symbol) in self.singles.iter_mut().zip(quad) {
                    counters[usize::from(symbol) % 128] += 1;
                }
            }
            rest.iter().for_each(|&symbol| self.singles[0][usize::from(symbol) % 128] += 1);
            return Ok(());
        }
        if self.pair_count + SEGMENT / 2 > usize::from(u16::MAX) {
            self.finish();
        }
        let pairs = self.pairs.get()?;
        let (eights, rest) = symbols.as_chunks::<8>();
        for &eight in eights {
            let eight = u64::from_le_bytes(eight);
            for pair in [eight, eight >> 16, eight >> 32, eight >> 48] {
                pairs[pair as usize % (ROW * 128)] += 1;
            }
        }
        self.pair_count += 4 * eights.len();
        rest.iter().for_each(|&symbol| self.singles[0][usize::from(symbol) % 128] += 1);
        Ok(())
    }

    /// Sums the counters: [`Counts::histogram`] has the result.
    pub(super) fn finish(&mut self) {
        let Self { pairs, singles, histogram, .. } = self;
        if self.pair_count > 0
            && let Ok(pairs) = pairs.get()
        {
            vectorized(
                #[inline(always)]
                || sum_pairs(pairs, histogram),
            );
            self.pair_count = 0;
        }
        for counters in singles {
            for (count, counter) in histogram.iter_mut().zip(counters) {
                *count += u64::from(std::mem::take(counter));
            }
        }
    }

    /// The number of each symbol, after [`Counts::finish`].
    pub(super) fn histogram(&self) -> &Histogram {
        &self.histogram
    }
}

/// Adds the count of each pair to the counts of both of its symbols, and sets it to 0.
#[inline(always)]
fn sum_pairs(pairs: &mut [u16; ROW * 128], histogram: &mut Histogram) {
    let mut firsts = [0u32; 128];
    for (second, row) in pairs.as_chunks_mut::<ROW>().0.iter_mut().enumerate().take(SYMBOLS) {
        let mut sum = 0;
        for (first, count) in firsts.iter_mut().zip(row) {
            let count = u32::from(std::mem::take(count));
            *first += count;
            sum += count;
        }
        histogram[second] += u64::from(sum);
    }
    for (count, &first) in histogram.iter_mut().zip(&firsts) {
        *count += u64::from(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn counts_are_those_of_each_symbol() {
        let mut random = Random(1);
        let mut counts = Counts::default();
        // Symbols of all kinds, and planes of one symbol, whose counters of pairs are full after 63 segments.
        for integers in [1, 7, 4000, 16 * SEGMENT - 1, 16 * SEGMENT, 130 * SEGMENT + 3, 200 * SEGMENT, 5] {
            for kinds in [1, 3, SYMBOLS as u64] {
                counts.begin(integers);
                let mut expected = [0; SYMBOLS];
                let mut left = integers;
                while left > 0 {
                    let len = left.min(SEGMENT);
                    left -= len;
                    let symbols: Vec<u8> =
                        (0..len - (random.below(9) as usize).min(len)).map(|_| 105 - random.below(kinds) as u8).collect();
                    symbols.iter().for_each(|&symbol| expected[usize::from(symbol)] += 1);
                    counts.add(&symbols).unwrap();
                }
                counts.finish();
                assert_eq!(*counts.histogram(), expected, "{integers} integers, {kinds} symbols");
            }
        }
    }
}
