//! FORMAT.md §5.2 word for word, one value at a time: the fine grid and its encoder.

use crate::number::value::Value;
use crate::quantize::fills::Fills;

/// `C` and `P` of the format.
const C: f64 = f64::from_bits(0x3fbf_f7f9_fb7c_9d76);
const P: f64 = f64::from_bits(0x4020_0404_0404_0404);

/// A fine grid, given by its bound and by `T`: its values have fewer than `T` steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain {
    pub(crate) bound: f64,
    pub(crate) steps_limit: i32,
}

impl Plain {
    fn step(&self) -> f64 {
        2.0 * self.bound
    }

    fn inverse_step(&self) -> f64 {
        1.0 / self.step()
    }

    /// Whether a position is on the grid.
    fn is_on_grid<V: Value>(position: i32) -> bool {
        position % distance_at(position, V::SIZE == 4) == 0
    }

    /// Value of a position, before it is rounded to the type.
    pub(crate) fn value(&self, position: i32) -> f64 {
        let steps = position.wrapping_add(4).div_euclid(8);
        let rest = position.wrapping_sub(steps.wrapping_mul(8));
        f64::from(steps) * self.step() + f64::from(rest) * (self.step() * C)
    }

    /// `s`, `r`, and whether the value is on position `8 s + r`, if `|s| < T`.
    fn nearest<V: Value>(&self, value: V) -> Option<(i32, i32, bool)> {
        let scaled = value.to_f64() * self.inverse_step();
        let s = scaled.round_ties_even();
        let r = ((scaled - s) * P).round_ties_even();
        let restored: V = V::round_from(s * self.step() + r * (self.step() * C));
        (s.abs() < f64::from(self.steps_limit)).then(|| {
            let is_on = restored.to_f64() == value.to_f64() && Self::is_on_grid::<V>(8 * s as i32 + r as i32);
            (s as i32, r as i32, is_on)
        })
    }

    /// Position `8 s + r`, and whether the value is on it.
    pub(crate) fn position<V: Value>(&self, value: V) -> Option<(i32, bool)> {
        self.nearest(value).map(|(s, r, is_on)| (8 * s + r, is_on))
    }

    fn holds<V: Value>(&self, value: V, position: i32) -> bool {
        let restored: V = V::round_from(self.value(position));
        (-8 * self.steps_limit + 4..8 * self.steps_limit - 4).contains(&position)
            && (value.to_f64() - restored.to_f64()).abs() <= self.bound
    }

    /// Residual and position of a value by the encoder's rules 1 to 4; `None` for an exception. `of_level` is the `S` of the value's level.
    pub(crate) fn encode<V: Value>(&self, value: V, prediction: i32, of_level: i32, masked: Fills) -> Option<(i32, i32)> {
        let x = value.to_f64();
        if masked.has(value) {
            return None;
        }
        let (nearest, is_on) = self.position(value)?;
        let aligned = nearest_multiple(prediction, distance_at(nearest, V::SIZE == 4));
        let worth = worth_at(prediction, of_level, V::SIZE == 4);
        let m = ((x - self.value(aligned)) * self.inverse_step() * (8.0 / f64::from(worth))).round_ties_even();
        if m.abs() < 65_536.0 {
            let position = on_grid(prediction.wrapping_add(worth * m as i32), V::SIZE == 4);
            if self.holds(value, position) && (!is_on || nearest == position) {
                return Some((m as i32, position));
            }
        }
        let position = on_grid(nearest, V::SIZE == 4);
        let escape = position.wrapping_sub(prediction).wrapping_add(98_304);
        (self.holds(value, position) && escape.unsigned_abs() >= 65_536).then_some((escape, position))
    }
}

/// The grid's position that is nearest to a position. `spacing_grows`: the grid is that of binary32.
pub(crate) fn on_grid(position: i32, spacing_grows: bool) -> i32 {
    nearest_multiple(position, distance_at(position, spacing_grows))
}

/// `S` at a prediction, from that of a level.
pub(crate) fn worth_at(prediction: i32, of_level: i32, spacing_grows: bool) -> i32 {
    if spacing_grows && prediction.unsigned_abs() >= 8192 { 8 } else { of_level }
}

/// The distance of the grid's positions at a position: `g` of the format.
fn distance_at(position: i32, spacing_grows: bool) -> i32 {
    match position.unsigned_abs() {
        _ if !spacing_grows => 1,
        0..8192 => 1,
        8192..16384 => 2,
        16384..32768 => 4,
        _ => 8,
    }
}

fn nearest_multiple(position: i32, g: i32) -> i32 {
    position.wrapping_add(g / 2).div_euclid(g).wrapping_mul(g)
}
