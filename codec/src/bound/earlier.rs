//! The grid on which a part of a chunk was rounded before.
//!
//! HDF5 decodes a chunk, changes a part of it, and encodes all of it again. Where the bound follows the chunk, the step may then be another one, and
//! values would be rounded a second time: 30 daily appends to one chunk took `rel=1e-3` to 8 times its bound. So steps are taken from a ladder of
//! products `q * 2^k` with a few odd `q`, and the encoder looks for values that are already multiples of such a step:
//!
//! ```text
//! value        =  mantissa, an odd integer  *  2^low         a multiple of q * 2^k   if q divides the mantissa and low >= k
//! fresh values    one mantissa in q is divisible by q
//! earlier grid    nearly all are, up to k                    places between two steps (FORMAT.md 5.2) never are
//! ```

use super::values::{GROUP, for_each_group};
use crate::config::Config;
use crate::layout::Layout;
use crate::number::value::Value;
use crate::quantize::lattice::{highest_bit, lowest_bit, power_of_two};
use crate::quantize::quantizer::Quantizer;

/// Groups of values that are looked at, spread over those in which any value counts.
const SAMPLED_GROUPS: usize = 128;
/// Exponents `k` of steps that are looked for.
const LEVELS: usize = 64;
/// Multiples of a step that must be found beyond chance.
const LEAST_MULTIPLES: f64 = 8.0;
/// Different values that must show a grid coarser than the wanted one before the exact bits are taken: 50 and 100 may be special values.
const MANY_DIFFERENT: usize = 3;
/// Different values that must show any grid: one value, again and again, has a divisor by chance.
const FEW_DIFFERENT: usize = 2;

/// An odd factor of a ladder's steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odd {
    pub(super) factor: u64,
    /// Its inverse modulo 2^64. Products with it are below or at `most` for multiples of the factor alone.
    inverse: u64,
    most: u64,
}

impl Odd {
    pub(super) const fn new(factor: u64) -> Self {
        // Each round doubles the number of right bits, of which a factor as its own inverse has three.
        let (mut inverse, mut round) = (factor, 0);
        while round < 5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)));
            round += 1;
        }
        Self { factor, inverse, most: u64::MAX / factor }
    }

    #[inline(always)]
    fn divides(self, number: u64) -> bool {
        number.wrapping_mul(self.inverse) <= self.most
    }
}

/// Numbers of values by the exponents of steps of which they can be multiples, as changes from one exponent to the next.
type Changes = [i32; LEVELS + 1];

/// A search for multiples of steps `odd * 2^k`.
pub(super) struct Search<'a> {
    layout: &'a Layout,
    config: &'a Config<'a>,
    odds: &'a [Odd],
    /// Bits of the type's fraction.
    fraction_bits: i32,
    /// The least exponent `k`.
    base: i32,
}

/// The grid on which some values of a chunk were rounded before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Earlier {
    step: f64,
    /// Different values that show it, [`MANY_DIFFERENT`] at most.
    different: usize,
}

impl Earlier {
    /// The step, if it is certain enough for what a mistake would cost. A few different values that show a step above the wanted one give a half of it, a quarter,
    /// and so on, of which they are multiples, too.
    pub(super) fn step_for(self, wanted: f64) -> Option<f64> {
        let Self { mut step, different } = self;
        if step > wanted && different < MANY_DIFFERENT {
            (different >= FEW_DIFFERENT && wanted > 0.0).then_some(())?;
            while step > wanted {
                step /= 2.0;
            }
            return Some(step);
        }
        (different >= FEW_DIFFERENT || step >= 0.5 * wanted).then_some(step)
    }
}

/// Values of a sample that are multiples of an odd factor, level by level.
#[derive(Debug, Clone, Copy)]
struct Found {
    odd: Odd,
    /// Multiples beyond the number that chance gives; 0 where chance may give them all.
    excess: [f64; LEVELS],
    by_chance: [f64; LEVELS],
}

impl Found {
    fn new(of_all: &Changes, of_multiples: &Changes, odd: Odd) -> Self {
        let (mut all, mut multiples) = (0, 0);
        let mut found = Self { odd, excess: [0.0; LEVELS], by_chance: [0.0; LEVELS] };
        for level in 0..LEVELS {
            all += of_all[level];
            multiples += of_multiples[level];
            let by_chance = f64::from(all) / odd.factor as f64;
            let excess = f64::from(multiples) - by_chance;
            found.by_chance[level] = by_chance;
            // Six standard deviations.
            found.excess[level] = if excess >= 6.0 * by_chance.sqrt() + LEAST_MULTIPLES { excess } else { 0.0 };
        }
        found
    }

    fn most(&self) -> f64 {
        self.excess.iter().copied().fold(0.0, f64::max)
    }
}

impl<'a> Search<'a> {
    /// A search for steps from about `finest` on, up to 2^56 times that.
    pub(super) fn new(
        layout: &'a Layout,
        config: &'a Config<'a>,
        odds: &'a [Odd],
        fraction_bits: i32,
        finest: f64,
    ) -> Option<Self> {
        const FACTOR_BITS: i32 = 5;
        let base = highest_bit(finest)? - FACTOR_BITS;
        Some(Self { layout, config, odds, fraction_bits, base })
    }

    /// The step of the grid on which some values of a chunk were rounded before, if their number shows it.
    pub(super) fn run<V: Value>(&self, chunk: &[u8]) -> Option<Earlier> {
        let mut groups = 0usize;
        for_each_group::<V>(chunk, self.layout.byte_order, self.config, 1, |values| groups += usize::from(counts(values)));
        let stride = groups.div_ceil(SAMPLED_GROUPS);
        let mut of_all: Changes = [0; LEVELS + 1];
        let mut of_multiples = [of_all; MOST_ODDS];
        self.for_each_sampled::<V>(chunk, stride, |value| {
            let Some((mantissa, first, end)) = self.levels_of(value) else { return };
            of_all[first] += 1;
            of_all[end] -= 1;
            for (changes, odd) in of_multiples.iter_mut().zip(self.odds) {
                let is_multiple = i32::from(odd.divides(mantissa));
                changes[first] += is_multiple;
                changes[end] -= is_multiple;
            }
        });
        let found = of_multiples
            .iter()
            .zip(self.odds)
            .map(|(of_multiples, &odd)| Found::new(&of_all, of_multiples, odd))
            .reduce(|one, other| if other.most() > one.most() { other } else { one })
            .filter(|found| found.most() > 0.0)?;
        self.coarsest::<V>(chunk, stride, &found)
    }

    /// The coarsest step that explains about all values that any explains: as its multiples, or as places between two steps.
    fn coarsest<V: Value>(&self, chunk: &[u8], stride: usize, found: &Found) -> Option<Earlier> {
        const NOISE: f64 = 3.0;
        const ABOUT_ALL: f64 = 0.98;
        let mut explained = found.excess;
        for level in (0..LEVELS).filter(|&level| found.excess[level] > 0.0) {
            let step = self.step(found, level)?;
            let fine = Quantizer::new(step / 2.0).fine::<V>();
            self.for_each_sampled::<V>(chunk, stride, |value| {
                if fine.is_some_and(|fine| fine.is_between_steps(V::round_from(value))) {
                    explained[level] += 1.0;
                }
            });
        }
        let most = explained.iter().copied().fold(0.0, f64::max);
        let noise = NOISE * explained.iter().zip(found.by_chance).find(|&(&explained, _)| explained == most)?.1.sqrt();
        let level = explained.iter().rposition(|&explained| explained > 0.0 && explained >= ABOUT_ALL * most - noise)?;
        let step = self.step(found, level)?;
        Some(Earlier { step, different: self.count_different::<V>(chunk, stride, step) })
    }

    fn step(&self, found: &Found, level: usize) -> Option<f64> {
        Some(found.odd.factor as f64 * power_of_two(self.base + level as i32)?)
    }

    /// Number of different values that a step explains, [`MANY_DIFFERENT`] at most.
    fn count_different<V: Value>(&self, chunk: &[u8], stride: usize, step: f64) -> usize {
        let (mut different, mut count) = ([0u64; MANY_DIFFERENT], 0);
        let fine = Quantizer::new(step / 2.0).fine::<V>();
        self.for_each_sampled::<V>(chunk, stride, |value| {
            let is_explained =
                (value / step).fract() == 0.0 || fine.is_some_and(|fine| fine.is_between_steps(V::round_from(value)));
            if count < MANY_DIFFERENT && value != 0.0 && is_explained && !different[..count].contains(&value.to_bits()) {
                different[count] = value.to_bits();
                count += 1;
            }
        });
        count
    }

    /// Hands on the values of every `stride`-th group among those in which any value counts. NaN is in place of those that do not.
    #[inline(always)]
    fn for_each_sampled<V: Value>(&self, chunk: &[u8], stride: usize, mut look: impl FnMut(f64)) {
        let mut group = 0;
        for_each_group::<V>(chunk, self.layout.byte_order, self.config, 1, |values| {
            if counts(values) {
                group += 1;
                if group % stride == 0 {
                    values.iter().for_each(|&value| look(value));
                }
            }
        });
    }

    /// The odd mantissa of a value, and the levels of the steps of which it may be a multiple, first and end: steps that are no finer than its type's own
    /// spacing there, up to the power of two in the value.
    #[inline(always)]
    fn levels_of(&self, value: f64) -> Option<(u64, usize, usize)> {
        let is_normal = value.abs() >= f64::MIN_POSITIVE;
        let spacing = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023 - self.fraction_bits;
        let fraction = value.to_bits() & ((1 << 52) - 1) | 1 << 52;
        let first = (spacing - self.base).max(0);
        let end = (lowest_bit(value).saturating_sub(self.base).saturating_add(1)).min(LEVELS as i32);
        (is_normal && first < end).then(|| (fraction >> fraction.trailing_zeros(), first as usize, end as usize))
    }
}

/// The most odd factors of a ladder.
const MOST_ODDS: usize = 8;

fn counts(values: &[f64; GROUP]) -> bool {
    values.iter().any(|&value| value.abs() > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar, Shape};

    const ODDS: [Odd; 4] = [Odd::new(17), Odd::new(21), Odd::new(25), Odd::new(31)];

    fn random(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// For a wanted step that is far wider.
    fn step_in(values: &[f32], finest: f64) -> Option<f64> {
        step_for(values, finest, f64::INFINITY)
    }

    fn step_for(values: &[f32], finest: f64, wanted: f64) -> Option<f64> {
        let layout =
            Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[values.len() as u64]).unwrap() };
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let config = Config::absolute(1.0).unwrap();
        Search::new(&layout, &config, &ODDS, 23, finest).unwrap().run::<f32>(&chunk)?.step_for(wanted)
    }

    #[test]
    fn divisors_are_found() {
        for odd in ODDS {
            for number in 0..2000u64 {
                assert_eq!(odd.divides(number), number % odd.factor == 0);
                assert_eq!(odd.divides(u64::MAX - number), (u64::MAX - number) % odd.factor == 0);
            }
        }
    }

    #[test]
    fn a_grid_is_found_among_fresh_values() {
        let mut random = random(3);
        let step = 25.0 / 1024.0;
        for share in [1.0, 0.3, 0.02] {
            let values: Vec<f32> = (0..8192)
                .map(|_| {
                    let value = 280.0 + 40.0 * random();
                    (if random() < share { (value / step).round() * step } else { value }) as f32
                })
                .collect();
            assert_eq!(step_in(&values, 1e-4), Some(step), "{share} of the values");
        }
    }

    #[test]
    fn fresh_values_have_no_grid() {
        let mut random = random(5);
        for scale in [1e-30, 1e-3, 1.0, 1e20] {
            let values: Vec<f32> = (0..8192).map(|_| (scale * (random() - 0.3)) as f32).collect();
            assert_eq!(step_in(&values, scale * 1e-6), None, "{scale}");
        }
        let decimals: Vec<f32> = (0..8192).map(|_| ((random() * 1e4).round() / 100.0) as f32).collect();
        assert_eq!(step_in(&decimals, 1e-6), None);
        let integers: Vec<f32> = (0..8192).map(|_| (random() * 1e4).round() as f32).collect();
        assert_eq!(step_in(&integers, 1e-6), None);
        // Special values that are multiples of 17 or 25, again and again.
        let mut special = |values: &[f32]| -> Vec<f32> {
            (0..8192).map(|i| if i % 3 == 0 { values[i % values.len()] } else { random() as f32 }).collect()
        };
        assert_eq!(step_in(&special(&[-9996.0 * 17.0]), 1e-6), None);
        let percent = special(&[50.0, 100.0]);
        assert_eq!((step_in(&percent, 1e-6), step_for(&percent, 1e-6, 1.0)), (Some(50.0), Some(50.0 / 64.0)));
        assert_eq!(step_in(&[0.0; 100], 1e-6), None);
    }
}
