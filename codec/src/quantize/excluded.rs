//! Values that are left out of a group so that the others can go as if they were not there: see [`crate::quantize::linear`] and [`crate::quantize::fine_grid`].

use crate::number::integer::Integer as _;
use crate::number::value::Value;
use crate::quantize::bitmap::bits_where;
use crate::quantize::quantizer::Quantizer;

/// Values that can have no position on a grid, whatever the others are: the fill value, and what is beyond the grid. Not all of the latter need be found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mask<V> {
    /// From this magnitude on, values are beyond the grid. Some that are smaller may be, too.
    beyond: V,
    /// The fill value, or one that is beyond the grid.
    fill: V,
    /// Stands on no position of any grid, and so leaves no doubt.
    ordinary: V,
}

impl<V: Value> Mask<V> {
    /// For a grid that reaches as far as so many steps.
    #[must_use]
    pub(crate) fn new(quantizer: &Quantizer, steps: f64) -> Self {
        let beyond = quantizer.magnitude_of::<V>(steps);
        let fill = quantizer.fill().map_or(beyond, |bits| V::from_bits(V::Code::from_i64(bits)));
        Self { beyond, fill, ordinary: V::round_from(quantizer.step() / 16.0) }
    }

    /// Whether a value is masked.
    #[inline(always)]
    #[must_use]
    pub(crate) fn covers(&self, value: V) -> bool {
        !value.is_below(self.beyond) | (value.to_bits() == self.fill.to_bits())
    }

    /// Whether any value is masked, which is found sooner than which ones.
    #[inline(always)]
    #[must_use]
    pub(crate) fn covers_any(&self, values: &[V]) -> bool {
        values.iter().fold(false, |any, &value| any | self.covers(value))
    }

    /// Which of at most 64 values are masked: a bit for each, the first one's lowest.
    #[inline(always)]
    #[must_use]
    pub(crate) fn bits(&self, values: &[V]) -> u64 {
        bits_where(
            values,
            #[inline(always)]
            |value| self.covers(value),
        )
    }

    /// Copies values, with what leaves no doubt in position of masked ones.
    #[inline(always)]
    pub(crate) fn replace(&self, values: &[V], others: &mut [V]) {
        // In registers: memory might be among what is written.
        let mask = *self;
        for (other, &value) in others.iter_mut().zip(values) {
            *other = if mask.covers(value) { mask.ordinary } else { value };
        }
    }

    /// Whether some values are beyond the grid.
    #[inline(always)]
    #[must_use]
    pub(crate) fn has_beyond(&self, values: &[V]) -> bool {
        values.iter().fold(false, |any, value| any | !value.is_below(self.beyond))
    }

    /// Fills values up from a number of them on with what leaves no doubt.
    #[inline(always)]
    pub(crate) fn fill_up(&self, values: &mut [V], len: usize) {
        values[len..].fill(self.ordinary);
    }

    /// Copies values, with what leaves no doubt in position of those beyond the grid.
    #[inline(always)]
    pub(crate) fn replace_beyond(&self, values: &[V], others: &mut [V]) {
        let Self { beyond, ordinary, .. } = *self;
        for (other, &value) in others.iter_mut().zip(values) {
            *other = if value.is_below(beyond) { value } else { ordinary };
        }
    }
}
