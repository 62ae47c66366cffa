//! FORMAT.md §5.1 word for word, one value at a time: the grid of differences and its encoder.

use crate::keep::Keep;
use crate::number::value::Value;
use crate::quantize::fills::Fills;
use crate::quantize::fine_grid::plain::Plain as FineGrid;

/// A grid, given by its half step, and what its encoder knows besides: the bound, the chunk's fills, and what is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain {
    pub(crate) half_step: f64,
    pub(crate) bound: f64,
    pub(crate) fills: Fills,
    pub(crate) keep: Keep,
}

impl Plain {
    fn step(&self) -> f64 {
        2.0 * self.half_step
    }

    /// Decoder: the value of a code.
    pub(crate) fn value<V: Value>(&self, code: i64) -> V {
        V::round_from(code as f64 * self.step())
    }

    fn nearest<V: Value>(&self, value: V) -> f64 {
        (value.to_f64() * (1.0 / self.step())).round_ties_even()
    }

    /// Encoder: the code of a value; `None` for an exception.
    pub(crate) fn code<V: Value>(&self, value: V) -> Option<i64> {
        if self.keep.is_halved() && self.half_step == self.bound / 2.0 {
            return self.code_on_halves(value);
        }
        let is_odd_multiple = |value: V| {
            let halves = (value.to_f64() * (1.0 / self.bound)).round_ties_even();
            halves.rem_euclid(2.0) == 1.0 && V::round_from(halves * self.bound).to_f64() == value.to_f64()
        };
        let is_moved = !self.keep.thresholds().is_empty() && self.half_step == self.bound && is_odd_multiple(value);
        self.held(value, self.nearest(value)).filter(|_| !is_moved)
    }

    /// The code of a value where half the step is half the bound (§11.5).
    fn code_on_halves<V: Value>(&self, value: V) -> Option<i64> {
        let x = value.to_f64();
        let at = |code: f64| V::round_from(code * self.step()).to_f64();
        let even = 2.0 * (x * (1.0 / self.step()) / 2.0).round_ties_even();
        let odd = if x < at(even) { even - 1.0 } else { even + 1.0 };
        let own = Some(self.nearest(value)).filter(|&code| at(code) == x);
        own.into_iter().chain([even, odd]).find_map(|code| self.held(value, code))
    }

    /// A code, if it and the value obey rules 1 to 7.
    fn held<V: Value>(&self, value: V, code: f64) -> Option<i64> {
        let bits = if V::SIZE == 8 { 51 } else { 31 };
        let limit = 2f64.powi(if self.keep.has_order() { bits - 1 } else { bits });
        let restored: V = self.value(code as i64);
        let is_fill_value = |value: V| self.fills.value() == Some(value.to_bits_i64());
        let rules = [
            (value.to_f64() - restored.to_f64()).abs() <= self.bound,
            code.abs() < limit,
            self.nearest(restored) == code,
            !is_fill_value(value) || is_fill_value(restored) && code.abs() < 32.0,
            !self.fine_grid::<V>().is_some_and(|fine| is_between_steps(&fine, value)),
            !self.fills.span().is_far(value.to_f64()),
            !self.keep.is_crossed(value.to_f64(), restored.to_f64()),
        ];
        (rules == [true; 7]).then_some(code as i64)
    }

    /// The fine grid, if there is one (§5.2).
    fn fine_grid<V: Value>(&self) -> Option<FineGrid> {
        let (steps_limit, least_step) = match V::SIZE {
            4 => (1 << 22, 1e-28),
            8 => (1 << 22, 1e-290),
            _ => return None,
        };
        let is_used = self.half_step == self.bound && self.keep.is_nothing();
        (is_used && self.step() >= least_step).then_some(FineGrid { bound: self.bound, steps_limit })
    }
}

/// Whether a value is on a position of the fine grid that is no multiple of 8.
fn is_between_steps<V: Value>(fine: &FineGrid, value: V) -> bool {
    fine.position(value).is_some_and(|(position, is_on)| is_on && position % 8 != 0)
}
