//! The smallest and the largest of many values, in vector lanes, and the value that is far from all others.

use super::difference::Far;

/// Values that are added at once, one a vector lane, so that comparisons do not wait for each other.
pub(super) const LANES: usize = 8;
/// How many times as wide as that of all other values a range must be for one value to be told as far from them.
const FAR_TIMES: f64 = 10.0;

/// The smallest and the largest value of each lane.
pub(super) struct Extremes {
    pub(super) least: [f64; LANES],
    pub(super) most: [f64; LANES],
}

impl Default for Extremes {
    fn default() -> Self {
        Self { least: [f64::INFINITY; LANES], most: [f64::NEG_INFINITY; LANES] }
    }
}

impl Extremes {
    /// Adds values, whose number is a multiple of [`LANES`]; those that are NaN do not count.
    #[inline(always)]
    pub(super) fn add(&mut self, values: &[f64]) {
        for values in values.as_chunks::<LANES>().0 {
            for ((least, most), &value) in self.least.iter_mut().zip(&mut self.most).zip(values) {
                // One instruction each, which `f64::min` is not. A comparison with NaN is false.
                *least = if value < *least { value } else { *least };
                *most = if value > *most { value } else { *most };
            }
        }
    }

    pub(super) fn least(&self) -> f64 {
        self.least.into_iter().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn most(&self) -> f64 {
        self.most.into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.least() > self.most()
    }

    /// One of two values, if it is far from all between them, of which these are the extremes.
    pub(super) fn far(&self, least: f64, most: f64) -> Option<Far> {
        let of = |value: f64, others: f64| Far { value, times: (most - least) / others, chunks: 1 };
        let (without_least, without_most) = (of(least, most - self.least()), of(most, self.most() - least));
        let far = if without_least.times > without_most.times { without_least } else { without_most };
        // Of a chunk with two values none is far.
        (far.times.is_finite() && far.times >= FAR_TIMES).then_some(far)
    }
}
