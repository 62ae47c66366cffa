//! The search for the bound that gives a stream a length.

use super::values::Range;
use crate::config::ErrorBound;
use crate::error::Error;
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::quantize::logarithm::{EXP_TERMS, LOG_TERMS, exp2, log2};

/// A ratio is reached if the stream's length is off by no more than this share.
const TOLERANCE: f64 = 0.03;
/// Most attempts to reach a ratio with the whole chunk, and with a sample of it.
const ATTEMPTS: usize = 8;
/// Chunks of this many values and more have a sample, an eighth of them.
const SAMPLED_FROM: u64 = 1 << 16;
const SAMPLE: u64 = 8;

/// What is searched for, and where.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    /// log2 of the length to reach.
    wanted: f64,
    values: f64,
    /// log2 of the least bound, below which the exact bits are as good, and of the greatest.
    least: f64,
    greatest: f64,
    /// The bound that a chunk gets for an absolute one.
    settle: &'a dyn Fn(f64) -> ErrorBound,
}

/// Bounds between which the right one lies, as log2, with log2 of the lengths that they give.
#[derive(Debug, Clone, Copy, Default)]
struct Bracket {
    too_long: Option<(f64, f64)>,
    too_short: Option<(f64, f64)>,
    /// The one that was tried last.
    last: Option<(f64, f64)>,
}

/// Bounds that were tried, and the lengths of their streams: where steps are few, more than one way leads to a bound.
#[derive(Debug, Default)]
struct Tried {
    lengths: [Option<(ErrorBound, usize)>; ATTEMPTS],
    count: usize,
}

impl Tried {
    fn length(&self, bound: ErrorBound) -> Option<usize> {
        self.lengths.iter().flatten().find(|&&(tried, _)| tried == bound).map(|&(_, length)| length)
    }

    fn add(&mut self, bound: ErrorBound, length: usize) {
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
        settle: &'a dyn Fn(f64) -> ErrorBound,
    ) -> Self {
        // Beyond half the range there is nothing to gain, and below the type's own precision nothing to lose.
        let digits =
            if layout.scalar.is_float() { [10.0, 17.0, 25.0, 54.0][layout.scalar.size().ilog2() as usize] } else { 65.0 };
        let range = range.width().clamp(f64::MIN_POSITIVE, super::LARGEST);
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

    /// Where to begin if nothing is known.
    pub(super) fn start(&self) -> f64 {
        (self.least.max(self.greatest - 10.0)).min(self.greatest)
    }

    fn bound(&self, logarithm: f64) -> ErrorBound {
        if logarithm <= self.least && self.least < self.greatest {
            ErrorBound::Lossless
        } else {
            (self.settle)(exp2(logarithm, EXP_TERMS.len()))
        }
    }

    /// The bound that gives a sample of the chunk its share of the length, as log2; `None` where a sample does not tell. `length_of` says how long a sample's
    /// stream is with a bound.
    pub(super) fn on_sample<E: From<Error>>(
        &self,
        chunk: &[u8],
        layout: &Layout,
        mut length_of: impl FnMut(&[u8], &Layout, ErrorBound) -> std::result::Result<usize, E>,
    ) -> std::result::Result<Option<f64>, E> {
        let dims = layout.shape.dims();
        if layout.shape.elements() < SAMPLED_FROM || dims[0] < SAMPLE {
            return Ok(None);
        }
        let mut sample_dims = [1; MAX_RANK];
        sample_dims[..dims.len()].copy_from_slice(dims);
        sample_dims[0] = dims[0] / SAMPLE;
        let sample_layout = Layout { shape: Shape::new(&sample_dims[..dims.len()])?, ..*layout };
        let row = layout.chunk_bytes() as usize / dims[0] as usize;
        let first = (dims[0] - sample_dims[0]) as usize / 2 * row;
        let sample = &chunk[first..first + sample_layout.chunk_bytes() as usize];
        let share = sample_dims[0] as f64 / dims[0] as f64;
        let search = Self { wanted: self.wanted + log2(share, LOG_TERMS.len()), values: self.values * share, ..*self };
        let (mut at, mut bracket, mut tried) = (search.start(), Bracket::default(), Tried::default());
        for _ in 0..ATTEMPTS {
            let bound = search.bound(at);
            if tried.length(bound).is_none() {
                tried.add(bound, length_of(sample, &sample_layout, bound)?);
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

    /// Where to try next; `None` if the length is reached, or cannot be.
    fn next(&self, at: f64, length: usize, bracket: &mut Bracket) -> Option<f64> {
        let found = log2(length as f64, LOG_TERMS.len());
        let off = found - self.wanted;
        if off.abs() <= log2(1.0 + TOLERANCE, LOG_TERMS.len()) {
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
                // Straight between the two, but never so close to either that the bracket hardly shrinks.
                let share = (above / (above - below)).clamp(0.1, 0.9);
                low + (high - low) * share
            }
            // A bit a value less for each doubling of the bound (CEAZ: Zhang et al., ICS'22, section 4.3); once there are two lengths, what they say of it, and a
            // little beyond, so that the right bound lies between the two.
            _ => {
                let bits = 8.0 * (length as f64 - exp2(self.wanted, EXP_TERMS.len())) / self.values;
                let by_last = last.map(|(last_at, last_off)| 1.2 * off * (at - last_at) / (last_off - off));
                let doublings = by_last.filter(|step| step.is_finite() && step * off > 0.0).unwrap_or(bits).abs().clamp(0.5, 6.0);
                at + if off > 0.0 { doublings } else { -doublings }
            }
        };
        let next = next.clamp(self.least, self.greatest);
        ((next - at).abs() > 0.01).then_some(next)
    }

    /// Compresses until the length is reached, or no better one can be found. `compress` says how long a stream is.
    pub(super) fn run<R, E>(
        &self,
        start: f64,
        mut compress: impl FnMut(ErrorBound) -> std::result::Result<(R, usize), E>,
    ) -> std::result::Result<R, E> {
        let (mut at, mut bracket, mut tried) = (start, Bracket::default(), Tried::default());
        let mut best = (f64::INFINITY, start);
        for _ in 0..ATTEMPTS {
            let bound = self.bound(at);
            let (length, result) = match tried.length(bound) {
                Some(length) => (length, None),
                None => {
                    let (result, length) = compress(bound)?;
                    tried.add(bound, length);
                    (length, Some(result))
                }
            };
            let off = (log2(length as f64, LOG_TERMS.len()) - self.wanted).abs();
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
