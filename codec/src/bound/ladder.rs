//! The steps that settled bounds may have.
//!
//! A bound that depends on the chunk gets a step from a ladder. So values that were rounded to an earlier step of the ladder are recognised
//! ([`super::earlier`]), and are not rounded again out of their bound. With a step `s` that was found in the chunk, and a wanted step `S`:
//!
//! ```text
//! S < s               the exact bits: a finer grid would move the multiples of s
//! s <= S < about 6 s  s itself
//! about 6 s <= S      a step of at most S - 4/3 s, so that both errors together are within the bound
//! ```
//!
//! Integers and floating-point numbers of 16 bits are never interpolated, and not searched for earlier values. Steps of integers are powers of three: a value
//! rounded to one step and then to three steps is the value rounded to three steps at once. Types of 16 bits have too few bits to tell an earlier grid from
//! chance, and hold few multiples of steps that are no power of two. They get the greatest power of two up to half of the wanted step: however often such a
//! step doubles, the sum of all errors is below the last step.

use super::earlier::{Earlier, Odd, Search};
use super::values::Range;
use crate::config::{Config, SettledBound, is_absolute};
use crate::error::Result;
use crate::layout::{Layout, Scalar};
use crate::number::value::Value;
use crate::quantize::lattice::{highest_bit, power_of_two};

/// Odd factors of the steps of binary32 and binary64. A step is 2.7 % below the wanted one in the mean. No factor is a multiple of 5: numbers that a user has
/// rounded, to hundreds of metres for example, would be multiples of such a step.
const ODDS: [Odd; 14] = {
    const FACTORS: [u64; 14] = [17, 23, 33, 37, 39, 41, 43, 49, 51, 53, 57, 59, 61, 63];
    let (mut odds, mut index) = ([Odd::new(1); FACTORS.len()], 0);
    while index < FACTORS.len() {
        odds[index] = Odd::new(FACTORS[index]);
        index += 1;
    }
    odds
};

/// A number of the type's spacings. A wanted step below twice this number becomes a power of two, as too few bits are left to recognise other steps. A wider
/// step is lowered by this number of spacings.
const FINE_STEP_SPACINGS: f64 = 64.0;
/// Share of a bound that is kept for errors of earlier steps below 2^-11 of the wanted one, which are not searched for.
const UNSEEN_ERRORS: f64 = 1.0 / 1024.0;
/// Least ratio of a step to an earlier one that it replaces.
const LEAST_GROWTH: f64 = 4.0;
/// Sum of the errors of all earlier steps, in half steps of the last one: at most 1 + 1/4 + 1/16 + … with [`LEAST_GROWTH`].
const EARLIER_ERRORS: f64 = 4.0 / 3.0;
/// Largest factor by which the first bound for a noise may grow.
pub(super) const MOST_WIDENING: f64 = 4.0;
/// Exponent of the largest step of integers, a power of three: half of it is exact in binary64.
const MAX_EXPONENT_OF_THREE: u32 = 33;

/// Whether values of a chunk were rounded before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rounded {
    Never,
    /// To the step that is settled, which is wider than the wanted one.
    ToWider,
    /// To another step.
    ToOther,
}

/// A chunk for which steps are chosen from the ladder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ladder<'a> {
    chunk: &'a [u8],
    layout: &'a Layout,
    config: &'a Config<'a>,
    range: Range,
}

impl<'a> Ladder<'a> {
    pub(super) fn new(chunk: &'a [u8], layout: &'a Layout, config: &'a Config<'a>, range: Range) -> Self {
        Self { chunk, layout, config, range }
    }

    /// Settles an absolute bound for floating-point values.
    pub(super) fn settle(&self, bound: f64) -> Result<SettledBound> {
        let wanted = 2.0 * bound.clamp(0.0, super::LARGEST_BOUND);
        Ok(self.settle_beside(wanted, self.earlier_step(wanted / 2048.0, wanted)?))
    }

    /// Settles an absolute bound for noise. The noise is measured afterwards, so that an earlier step may be wider than the wanted one.
    pub(super) fn settle_for_noise(&self, bound: f64) -> Result<(SettledBound, Rounded)> {
        let wanted = 2.0 * bound.clamp(0.0, super::LARGEST_BOUND);
        let earlier = self.earlier_step(wanted / 2048.0, wanted)?;
        Ok(match earlier {
            Some(wider) if wanted < wider && wider <= MOST_WIDENING * wanted => (bound_of(wider), Rounded::ToWider),
            Some(_) => (self.settle_beside(wanted, earlier), Rounded::ToOther),
            None => (self.settle_beside(wanted, earlier), Rounded::Never),
        })
    }

    /// Settles an absolute bound for a wanted step, and for the earlier step if there is one.
    fn settle_beside(&self, wanted: f64, earlier: Option<f64>) -> SettledBound {
        let step = match earlier {
            Some(earlier) if wanted < earlier => return SettledBound::Lossless,
            Some(earlier) => {
                let coarser = rung(wanted - EARLIER_ERRORS * earlier);
                if coarser >= LEAST_GROWTH * earlier { coarser } else { earlier }
            }
            None => self.fresh(wanted * (1.0 - UNSEEN_ERRORS)),
        };
        bound_of(step)
    }

    /// Settles a bound for floating-point values of a ratio with a ceiling: however often parts of the chunk are written, the sum of all errors is within
    /// `ceiling`. An earlier step grows by doubling only, as the errors of such steps sum up to less than the last step.
    pub(super) fn settle_within(&self, bound: f64, ceiling: f64, earlier: Option<f64>) -> SettledBound {
        let (wanted, limit) = (2.0 * bound.min(ceiling), 2.0 * ceiling);
        bound_of(match earlier {
            Some(earlier) if earlier > limit => return SettledBound::Lossless,
            Some(earlier) => {
                let wanted = wanted.min(ceiling);
                let mut step = earlier;
                while 2.0 * step <= wanted {
                    step *= 2.0;
                }
                step
            }
            None => self.fresh(wanted),
        })
    }

    /// The step for a chunk in which no earlier grid was found.
    fn fresh(&self, wanted: f64) -> f64 {
        let fine = FINE_STEP_SPACINGS * self.spacing_at_magnitude();
        if self.has_16_bit_values() || wanted < 2.0 * fine { below_half(wanted) } else { rung(wanted - fine) }
    }

    /// The step, about `finest` or more, of the grid on which some values were rounded before. `wanted` is the step that the chunk would have without them.
    pub(super) fn earlier_step(&self, finest: f64, wanted: f64) -> Result<Option<f64>> {
        let earlier = match self.layout.scalar.of_values() {
            Scalar::F32 => self.search::<f32>(finest, wanted)?,
            Scalar::F64 => self.search::<f64>(finest, wanted)?,
            _ => None,
        };
        Ok(earlier.map(|earlier| earlier.step_for(wanted)))
    }

    /// Whether some values may have been rounded before, with a bound of about `bound`.
    pub(super) fn may_have_earlier_values(&self, bound: f64) -> Result<bool> {
        Ok(self.has_16_bit_values() || self.earlier_step(bound / 1024.0, 2.0 * bound)?.is_some())
    }

    fn search<V: Value>(&self, finest: f64, wanted: f64) -> Result<Option<Earlier>> {
        match Search::new(self.layout, self.config, &ODDS, self.fraction_bits(), finest, wanted) {
            Some(search) => search.run::<V>(self.chunk),
            None => Ok(None),
        }
    }

    fn has_16_bit_values(&self) -> bool {
        self.layout.scalar.size() == 2
    }

    fn fraction_bits(&self) -> i32 {
        if self.layout.scalar.of_values() == Scalar::F32 { 23 } else { 52 }
    }

    /// Distance of neighbouring numbers of the type at the chunk's largest magnitude.
    fn spacing_at_magnitude(&self) -> f64 {
        highest_bit(self.range.magnitude()).and_then(|exponent| power_of_two(exponent - self.fraction_bits())).unwrap_or(0.0)
    }
}

/// Settles a bound for integers: the step is the greatest power of three up to `2 * bound + 1`. The points of each such grid are points of all finer ones.
pub(super) fn settle_integer(bound: u64) -> SettledBound {
    let mut step = 1u64;
    for _ in 0..MAX_EXPONENT_OF_THREE {
        if (3 * step - 1) / 2 > bound {
            break;
        }
        step *= 3;
    }
    if step > 1 { SettledBound::Absolute(((step - 1) / 2) as f64) } else { SettledBound::Lossless }
}

/// The absolute bound of a step, or the exact bits if no grid can have the step.
pub(super) fn bound_of(step: f64) -> SettledBound {
    let bound = step / 2.0;
    if is_absolute(bound) { SettledBound::Absolute(bound) } else { SettledBound::Lossless }
}

/// The greatest step `odd * 2^k` of the ladder up to `wanted`; 0 if there is none.
fn rung(wanted: f64) -> f64 {
    let Some(exponent) = highest_bit(wanted).filter(|_| wanted > 0.0) else { return 0.0 };
    let step = |odd: &Odd| {
        let factor = odd.factor as f64;
        let power = power_of_two(exponent - odd.factor.ilog2() as i32).unwrap_or(0.0);
        if factor * power > wanted { factor * power / 2.0 } else { factor * power }
    };
    ODDS.iter().map(step).fold(0.0, f64::max)
}

/// The greatest power of two up to half of a step; 0 if there is none. However often such a step doubles, the sum of all errors is within the bound.
fn below_half(wanted: f64) -> f64 {
    highest_bit(wanted).filter(|_| wanted > 0.0).and_then(|exponent| power_of_two(exponent - 1)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_close_below() {
        for i in 0..3000 {
            let wanted = 1e-30 * 1.05f64.powi(i);
            let step = rung(wanted);
            assert!(step <= wanted && step > 0.91 * wanted, "{step:e} for {wanted:e}");
            assert_eq!(rung(step), step);
            let half = below_half(wanted);
            assert!(half <= wanted / 2.0 && half > wanted / 4.0);
        }
        for nothing in [0.0, -1.0, f64::NAN] {
            assert_eq!(rung(nothing), 0.0);
            assert_eq!(below_half(nothing), 0.0);
        }
    }

    #[test]
    fn steps_of_integers_are_powers_of_three() {
        let bound = |bound| match settle_integer(bound) {
            SettledBound::Absolute(bound) => bound,
            _ => 0.0,
        };
        for (asked, settled) in [(0, 0.0), (1, 1.0), (3, 1.0), (4, 4.0), (12, 4.0), (13, 13.0), (1000, 364.0)] {
            assert_eq!(bound(asked), settled, "{asked}");
        }
        assert_eq!(bound(u64::MAX) as u64, (3u64.pow(33) - 1) / 2);
    }
}
