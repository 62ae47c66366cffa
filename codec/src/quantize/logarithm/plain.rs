//! FORMAT.md §5.5 word for word, one value at a time: the steps of the logarithm and their encoder.

use crate::keep::Keep;
use crate::number::value::Value;

/// `L(x)` of a positive number that is not subnormal. Its terms are those from `last` down to 0.
pub(super) fn log2(x: f64, last: u32) -> f64 {
    let lowest = f64::from_bits(0x3fe6_a09e_667f_3bcd);
    let log2_e = f64::from_bits(0x3ff7_1547_652b_82fe);
    let (mut m, mut k) = (x, 0.0);
    while m < lowest {
        (m, k) = (m * 2.0, k - 1.0);
    }
    while m >= 2.0 * lowest {
        (m, k) = (m / 2.0, k + 1.0);
    }
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let u = |i: u32| 2.0 * log2_e / f64::from(2 * i + 1);
    let q = (0..last).rev().fold(u(last), |q, i| q * z + u(i));
    k + s * q
}

/// `exp2(y)`. Its terms are those from `last` down to 0.
pub(super) fn exp2(y: f64, last: u32) -> f64 {
    let ln_2 = f64::from_bits(0x3fe6_2e42_fefa_39ef);
    let y = y.clamp(-2000.0, 2000.0);
    let n = y.round_ties_even();
    let f = y - n;
    let t = |i: u32| (1..=i).fold(1.0, |before, i| before * ln_2 / f64::from(i));
    let p = (0..last).rev().fold(t(last), |p, i| p * f + t(i));
    let power = match n as i32 {
        ..-1022 => 0.0,
        n @ -1022..=1023 => 2f64.powi(n),
        1024.. => f64::INFINITY,
    };
    p * power
}

/// Whether a value is finite and not below 2^-1022 in magnitude.
fn counts<V: Value>(value: V) -> bool {
    value.to_f64().is_normal()
}

/// A grid, given by its half step and its offset, and what its encoder knows besides: the bound `r`, the fill value, and what is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain<V> {
    pub(super) half_step: f64,
    pub(super) offset: i64,
    bound: f64,
    fill: Option<V>,
    keep: Keep,
}

impl<V: Value> Plain<V> {
    /// Numbers of the last terms of `L` and of `exp2`.
    const LAST: (u32, u32) = if V::SIZE == 8 { (10, 14) } else { (5, 8) };

    /// Encoder: the grid for a chunk.
    pub(super) fn for_chunk(values: &[V], bound: f64, fill: Option<V>, keep: Keep) -> Self {
        let mut grid = Self { half_step: log2(1.0 + bound, 10), offset: 0, bound, fill, keep };
        let magnitudes = values.iter().filter(|&&value| counts(value)).map(|value| value.to_f64().abs());
        if let Some(least) = magnitudes.reduce(f64::min) {
            grid.offset = (log2(least, Self::LAST.0) * (1.0 / grid.step())).floor() as i64 - 1;
        }
        grid
    }

    fn step(&self) -> f64 {
        2.0 * self.half_step
    }

    /// Decoder: the value of a code.
    pub(super) fn value(&self, code: i64) -> V {
        if code == 0 {
            return V::round_from(0.0);
        }
        let steps = code.unsigned_abs().cast_signed().wrapping_add(self.offset);
        let magnitude = exp2(steps as f64 * self.step(), Self::LAST.1);
        V::round_from(if code < 0 { -magnitude } else { magnitude })
    }

    /// `j` of a value that is finite and not below 2^-1022 in magnitude.
    fn steps(&self, value: V) -> f64 {
        (log2(value.to_f64().abs(), Self::LAST.0) * (1.0 / self.step())).round_ties_even() - self.offset as f64
    }

    /// Whether the magnitude of a value is so near a tie that the order of codes might not be that of the values.
    fn is_near_tie(&self, value: V) -> bool {
        let inverse_step = 1.0 / self.step();
        let steps = log2(value.to_f64().abs(), Self::LAST.0) * inverse_step;
        (steps - steps.round_ties_even()).abs() + 2f64.powi(-50) * (steps.abs() + inverse_step) > 0.5
    }

    /// Encoder: the code of a value by rules 1 to 7; `None` for an exception.
    pub(super) fn code(&self, value: V) -> Option<i64> {
        let x = value.to_f64();
        let limit = 2f64.powi(if V::SIZE == 8 { 51 } else { 31 });
        if value.to_bits_i64() == 0 {
            return Some(0);
        } else if !counts(value) {
            return None;
        }
        let j = self.steps(value);
        let code = if x < 0.0 { -(j as i64) } else { j as i64 };
        let restored = self.value(code);
        let is_fill = |value: V| self.fill.is_some_and(|fill| fill.to_bits() == value.to_bits());
        let rules = [
            1.0 <= j && j < limit,
            (x - restored.to_f64()).abs() <= self.bound * x.abs(),
            counts(restored) && self.steps(restored) == j,
            !is_fill(value) || is_fill(restored),
            !self.keep.is_crossed(x, restored.to_f64()),
            !(self.keep.has_order() && self.is_near_tie(value)),
        ];
        (rules == [true; 6]).then_some(code)
    }
}
