//! The search for the bound with which a stream has a wanted length (FORMAT.md §11.2). Bounds and lengths are searched as logarithms: log2.

use super::values::Range;
use crate::config::SettledBound;
use crate::error::{Error, Result};
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::quantize::logarithm::{EXP_TERMS, LOG_TERMS, exp2, log2};

/// A ratio is reached if the stream's length differs from the wanted one by at most this share.
const TOLERANCE: f64 = 0.03;
/// Most attempts with the whole chunk, and with a sample of it.
const MAX_ATTEMPTS: usize = 8;
/// Least number of values of a chunk that has a sample.
const MIN_SAMPLED_VALUES: u64 = 1 << 16;
/// A chunk has this number of times the values of its sample.
const SAMPLE_DIVISOR: u64 = 8;

/// A part of a chunk: the middle one along the slowest axis.
pub(super) struct Sample<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) layout: Layout,
}

impl<'a> Sample<'a> {
    /// The sample of a chunk; `None` for a small chunk.
    pub(super) fn of(chunk: &'a [u8], layout: &Layout) -> Result<Option<Self>> {
        let dims = layout.shape.dims();
        if layout.shape.elements() < MIN_SAMPLED_VALUES || dims[0] < SAMPLE_DIVISOR {
            return Ok(None);
        }
        let mut sample_dims = [1; MAX_RANK];
        sample_dims[..dims.len()].copy_from_slice(dims);
        sample_dims[0] = dims[0] / SAMPLE_DIVISOR;
        let sample_layout = Layout { shape: Shape::new(&sample_dims[..dims.len()])?, ..*layout };
        let row = layout.chunk_bytes() as usize / dims[0] as usize;
        let first = (dims[0] - sample_dims[0]) as usize / 2 * row;
        Ok(Some(Self { bytes: &chunk[first..first + sample_layout.chunk_bytes() as usize], layout: sample_layout }))
    }
}

/// A wanted length, and the bounds among which it is searched for.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    /// log2 of the wanted length, in bytes.
    wanted: f64,
    /// Number of values.
    values: f64,
    /// log2 of the least and of the greatest bound. Below the least, the exact bits take as little space.
    least: f64,
    greatest: f64,
    /// Settles a bound that the search tries.
    settle: &'a dyn Fn(f64) -> SettledBound,
}

/// Bounds that were tried. For each: log2 of the bound, and log2 of its stream's length over the wanted length. The wanted bound is between the first two.
#[derive(Debug, Clone, Copy, Default)]
struct Bracket {
    too_long: Option<(f64, f64)>,
    too_short: Option<(f64, f64)>,
    /// The bound that was tried last.
    last: Option<(f64, f64)>,
}

/// Bounds that were tried, and the lengths of their streams, in bytes: as settled bounds are few, a search may come to one again.
#[derive(Debug, Default)]
struct Tried {
    lengths: [Option<(SettledBound, usize)>; MAX_ATTEMPTS],
    count: usize,
}

impl Tried {
    fn length(&self, bound: SettledBound) -> Option<usize> {
        self.lengths.iter().flatten().find(|&&(tried, _)| tried == bound).map(|&(_, length)| length)
    }

    fn add(&mut self, bound: SettledBound, length: usize) {
        self.lengths[self.count] = Some((bound, length));
        self.count += 1;
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(
        ratio: f64,
        ceiling: Option<f64>,
        range: Range,
        layout: &Layout,
        settle: &'a dyn Fn(f64) -> SettledBound,
    ) -> Self {
        // A bound above half the range makes no shorter stream. Where a few large values make the range, bounds far below the type's precision at these values
        // are of use.
        let digits =
            if layout.scalar.is_float() { 3.0 * [10.0, 17.0, 25.0, 54.0][layout.scalar.size().ilog2() as usize] } else { 65.0 };
        let range = range.width().clamp(f64::MIN_POSITIVE, super::LARGEST_BOUND);
        let greatest = log2(range.min(ceiling.unwrap_or(range)).max(f64::MIN_POSITIVE), LOG_TERMS.len());
        let bytes = layout.chunk_bytes() as f64;
        Self {
            wanted: log2(bytes / ratio, LOG_TERMS.len()),
            values: layout.shape.elements() as f64,
            least: (log2(range, LOG_TERMS.len()) - digits).min(greatest),
            greatest,
            settle,
        }
    }

    /// log2 of the first bound, without a sample.
    pub(super) fn start(&self) -> f64 {
        (self.least.max(self.greatest - 10.0)).min(self.greatest)
    }

    /// log2 of a length over the wanted one; 0 if the length is near enough.
    fn off(&self, length: usize) -> f64 {
        let off = log2(length as f64, LOG_TERMS.len()) - self.wanted;
        if off.abs() <= log2(1.0 + TOLERANCE, LOG_TERMS.len()) { 0.0 } else { off }
    }

    /// Whether a stream of this length, in bytes, does not have the ratio.
    pub(super) fn is_too_long(&self, length: usize) -> bool {
        self.off(length) > 0.0
    }

    /// The settled bound for log2 of a bound; the exact bits for the least.
    fn bound(&self, logarithm: f64) -> SettledBound {
        if logarithm <= self.least && self.least < self.greatest {
            SettledBound::Lossless
        } else {
            (self.settle)(exp2(logarithm, EXP_TERMS.len()))
        }
    }

    /// Searches on a sample of the chunk, which is to have its share of the wanted length. Returns log2 of the bound with which the search on the chunk starts;
    /// `None` if the chunk has no sample, or if the sample's length is reached or cannot be. `length_of` returns the length of a sample's stream, in bytes.
    pub(super) fn on_sample<E: From<Error>>(
        &self,
        chunk: &[u8],
        layout: &Layout,
        mut length_of: impl FnMut(&[u8], &Layout, SettledBound) -> std::result::Result<usize, E>,
    ) -> std::result::Result<Option<f64>, E> {
        let Some(sample) = Sample::of(chunk, layout)? else { return Ok(None) };
        let share = sample.bytes.len() as f64 / chunk.len() as f64;
        let search = Self { wanted: self.wanted + log2(share, LOG_TERMS.len()), values: self.values * share, ..*self };
        let (mut at, mut bracket, mut tried) = (search.start(), Bracket::default(), Tried::default());
        for _ in 0..MAX_ATTEMPTS {
            let bound = search.bound(at);
            if tried.length(bound).is_none() {
                tried.add(bound, length_of(sample.bytes, &sample.layout, bound)?);
            }
            let Some(next) = tried.length(bound).and_then(|length| search.next(at, length, &mut bracket)) else {
                return Ok(None);
            };
            if (next - at).abs() < 0.05 {
                return Ok(Some(next));
            }
            at = next;
        }
        Ok(Some(at))
    }

    /// log2 of the next bound, after the bound `at` gave `length` bytes; `None` if the length is reached, or cannot be.
    fn next(&self, at: f64, length: usize, bracket: &mut Bracket) -> Option<f64> {
        let off = self.off(length);
        if off == 0.0 {
            return None;
        }
        if off > 0.0 {
            bracket.too_long = Some((at, off))
        } else {
            bracket.too_short = Some((at, off))
        }
        let last = bracket.last.replace((at, off));
        let next = match (bracket.too_long, bracket.too_short) {
            (Some((low, above)), Some((high, below))) => {
                // Linear between the two bounds (false position), but at least a tenth of the bracket from either, so that it shrinks.
                let share = (above / (above - below)).clamp(0.1, 0.9);
                low + (high - low) * share
            }
            // Each doubling of the bound takes a bit per value off the stream (CEAZ: Zhang et al., ICS'22, section 4.3). From the second length on, the step is
            // 1.2 times that of the secant through the last two lengths, so that the wanted bound comes to lie between two bounds that were tried.
            _ => {
                let bits = 8.0 * (length as f64 - exp2(self.wanted, EXP_TERMS.len())) / self.values;
                let by_last = last.map(|(last_at, last_off)| 1.2 * off * (at - last_at) / (last_off - off));
                let doublings =
                    by_last.filter(|step| step.is_finite() && step * off > 0.0).unwrap_or(bits).abs().clamp(0.5, 12.0);
                at + if off > 0.0 { doublings } else { -doublings }
            }
        };
        let next = next.clamp(self.least, self.greatest);
        ((next - at).abs() > 0.01).then_some(next)
    }

    /// Compresses until the length is reached, or no better one can be found. `compress` returns a stream and its length, in bytes. Returns the stream whose
    /// length is the nearest.
    pub(super) fn run<R, E>(
        &self,
        start: f64,
        mut compress: impl FnMut(SettledBound) -> std::result::Result<(R, usize), E>,
    ) -> std::result::Result<R, E> {
        let (mut at, mut bracket, mut tried) = (start, Bracket::default(), Tried::default());
        let mut best = (f64::INFINITY, start);
        for _ in 0..MAX_ATTEMPTS {
            let bound = self.bound(at);
            let (length, result) = match tried.length(bound) {
                Some(length) => (length, None),
                None => {
                    let (result, length) = compress(bound)?;
                    tried.add(bound, length);
                    (length, Some(result))
                }
            };
            let off = self.off(length).abs();
            if off < best.0 {
                best = (off, at);
            }
            match (self.next(at, length, &mut bracket), result) {
                (Some(next), _) => at = next,
                (None, Some(result)) if best.1 == at => return Ok(result),
                (None, _) => break,
            }
        }
        Ok(compress(self.bound(best.1))?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar};

    fn layout(dims: &[u64]) -> Layout {
        Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() }
    }

    /// Searches a model of a coder: `bits` per value with a bound of 1, and one less for each doubling. Returns the length, in bytes, and the number of
    /// attempts.
    fn search(ratio: f64, ceiling: Option<f64>, bits: f64, least_bits: f64) -> (usize, usize) {
        let range = Range::Float { least: 0.0, greatest: 1000.0 };
        let (layout, settle) = (layout(&[10_007]), SettledBound::Absolute);
        let search = Search::new(ratio, ceiling, range, &layout, &settle);
        let mut attempts = 0;
        let length = search.run(search.start(), |bound| {
            attempts += 1;
            let bits = match bound {
                SettledBound::Absolute(bound) => {
                    assert!(bound <= ceiling.unwrap_or(1000.0) * 1.000_001, "{bound}");
                    (bits - bound.log2()).clamp(least_bits, 32.0)
                }
                _ => 32.0,
            };
            let length = (bits * 10_007.0 / 8.0) as usize;
            Ok::<_, Error>((length, length))
        });
        (length.unwrap(), attempts)
    }

    #[test]
    fn lengths_of_a_model_are_reached() {
        for ratio in [1.5, 2.0, 4.0, 10.0, 30.0] {
            for bits in [4.0, 7.5, 12.0, 19.0] {
                let (length, attempts) = search(ratio, None, bits, 0.01);
                let wanted = 4.0 * 10_007.0 / ratio;
                let is_reachable = 32.0 / ratio > bits - 1000f64.log2() && 32.0 / ratio < bits - 1000f64.log2() + 25.0;
                let off = (length as f64 / wanted - 1.0).abs();
                assert!(!is_reachable || off <= TOLERANCE, "{ratio} with {bits} bits: {length} bytes");
                assert!(attempts <= MAX_ATTEMPTS + 1, "{attempts} attempts");
            }
        }
    }

    #[test]
    fn ceilings_are_kept_where_a_ratio_is_out_of_reach() {
        let (length, _) = search(30.0, Some(1.0), 12.0, 0.01);
        assert_eq!(length, 12 * 10_007 / 8, "the length of the ceiling");
        let (length, _) = search(30.0, None, 12.0, 8.0);
        assert_eq!(length, 10_007, "the coder has no shorter stream");
    }

    #[test]
    fn samples_are_the_middle_eighth_of_large_chunks() {
        let (range, settle) = (Range::Float { least: 0.0, greatest: 1000.0 }, SettledBound::Absolute);
        for (dims, first) in [
            (&[8u64, 8192][..], Some(3)),
            (&[7, 9363], None),
            (&[8, 8191], None),
            (&[65_536], Some(28_672)),
            (&[1, 1, 70_000], None),
        ] {
            let layout = layout(dims);
            let chunk: Vec<u8> = (0..layout.shape.elements() as u32).flat_map(u32::to_le_bytes).collect();
            let search = Search::new(4.0, None, range, &layout, &settle);
            let mut samples = Vec::new();
            let found = search.on_sample(&chunk, &layout, |sample, of_sample, bound| {
                assert_eq!(sample.len() as u64, of_sample.chunk_bytes());
                samples.push(u32::from_le_bytes(sample[..4].try_into().unwrap()));
                let SettledBound::Absolute(bound) = bound else { return Ok(sample.len()) };
                Ok::<_, Error>(((12.0 - bound.log2()).clamp(0.1, 32.0) / 32.0 * sample.len() as f64) as usize)
            });
            let row = layout.shape.elements() as u32 / dims[0] as u32;
            assert!(samples.iter().all(|&value| Some(value) == first.map(|first| first * row)), "{dims:?}: {samples:?}");
            assert_eq!(found.unwrap().is_some() || !samples.is_empty(), first.is_some(), "{dims:?}");
        }
    }
}
