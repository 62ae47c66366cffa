//! Finds the grid on which a part of a chunk was rounded before.
//!
//! HDF5 decodes a chunk, changes a part of it, and encodes the whole chunk again. Where the bound depends on the chunk, the second step may differ from the
//! first, and values would be rounded twice. With `rel=1e-3`, 30 daily appends to one chunk led to errors of 8 times the bound. So steps are products `q * 2^k`
//! with a few odd `q` ([`super::ladder`]), and the encoder searches the chunk for multiples of such a step. A fresh value has not been rounded before; an
//! earlier value has.
//!
//! ```text
//! value           mantissa * 2^low, the mantissa an odd integer; a multiple of q * 2^k if q divides the mantissa and low >= k
//! fresh values    q divides one mantissa in q
//! earlier values  q divides every mantissa, up to exponent k; of positions between two steps (FORMAT.md 5.2), one in eight
//! ```
//!
//! Values are sampled in groups of eight. Few fresh values are multiples of a power of two close to the wanted step. Groups without any such multiple are left
//! out, so that a few hundred earlier values are found among a million fresh values.

use super::values::Groups;
use crate::config::Config;
use crate::error::Result;
use crate::layout::Layout;
use crate::memory::reserve;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::lattice::{highest_bit, lowest_bit, power_of_two};
use crate::quantize::quantizer::Quantizer;
use crate::simd::widely_vectorized;

/// Number of neighbouring values that are sampled together.
const SAMPLED_TOGETHER: usize = 8;
/// Largest number of values of a sample.
const MAX_SAMPLE_VALUES: usize = 1 << 14;
/// Number of exponents `k` of the steps that are searched for. Level 0 is the least exponent.
const LEVELS: usize = 64;
/// Least number of multiples, beyond those of chance, that show a step.
const LEAST_MULTIPLES: f64 = 8.0;
/// Least number of different multiples, beyond those of chance, that show a step. Packed data have few different values, each of them many times.
const LEAST_DIFFERENT: f64 = 4.0;
/// If the multiples that chance does not give are this share of a sample or more, they need not be different.
const LEAST_SHARE: f64 = 1.0 / 16.0;
/// If an earlier step is larger than the wanted one, the exact bits are taken, but only if the step has this number of different multiples. Fewer may be a
/// user's own values, such as 50 and 100.
const CERTAIN_DIFFERENT: usize = 3;
/// Number of binary digits of the greatest odd factor.
const FACTOR_BITS: i32 = 6;
/// The first sample is for steps of at least the wanted step divided by 2 to the power of this.
const FIRST_SAMPLE_BITS: i32 = 1;

/// An odd factor of a ladder's steps. A number is a multiple of the factor if its product with `inverse`, modulo 2^64, is at most `most`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odd {
    pub(super) factor: u64,
    /// The factor's inverse modulo 2^64.
    inverse: u64,
    /// The quotient of the greatest number and the factor.
    most: u64,
}

impl Odd {
    pub(super) const fn new(factor: u64) -> Self {
        // Newton's iteration: the factor itself is its inverse in the lowest three bits, and each round doubles the number of right bits.
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

/// For each level, a number of values that can be multiples of a step of that level, as the difference from the number of the level before.
type Changes = [i32; LEVELS + 1];

/// A search for multiples of steps `odd * 2^k` in a chunk.
pub(super) struct Search<'a> {
    layout: &'a Layout,
    config: &'a Config<'a>,
    odds: &'a [Odd],
    /// Number of bits of the type's fraction.
    fraction_bits: i32,
    /// The exponent `k` of level 0, the least one.
    base: i32,
    /// Exponent of a power of two. Every multiple of a step close to the wanted one is a multiple of this power.
    first_sample: i32,
}

/// The grid on which some values of a chunk were rounded before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Earlier {
    step: f64,
    /// The step's odd factor.
    factor: u64,
    /// Number of different values that the step explains, [`CERTAIN_DIFFERENT`] at most.
    different: usize,
    /// The share of a sample's values that are multiples of the step beyond chance.
    share: f64,
}

impl Earlier {
    /// The earlier step, for a wanted step. If the earlier step is larger than the wanted one, the chunk's exact bits are taken, which costs compression. So
    /// where only a few different values show the earlier step, it is halved until it is at most the wanted one. The values are multiples of the halved step,
    /// too.
    pub(super) fn step_for(self, wanted: f64) -> f64 {
        let Self { mut step, different, .. } = self;
        while wanted > 0.0 && step > wanted && different < CERTAIN_DIFFERENT {
            step /= 2.0;
        }
        step
    }
}

/// Numbers of a sample's values that are multiples of `odd * 2^k`, by level.
#[derive(Debug, Clone, Copy)]
struct Multiples {
    odd: Odd,
    /// Number of multiples minus the number that chance gives, or 0 where chance may give all of them.
    excess: [f64; LEVELS],
    /// Number of multiples that chance gives: one value in `odd.factor`.
    by_chance: [f64; LEVELS],
}

impl Multiples {
    fn new(of_all: &Changes, of_multiples: &Changes, odd: Odd, least: f64) -> Self {
        let (mut all, mut multiples) = (0, 0);
        let mut found = Self { odd, excess: [0.0; LEVELS], by_chance: [0.0; LEVELS] };
        for level in 0..LEVELS {
            all += of_all[level];
            multiples += of_multiples[level];
            let by_chance = f64::from(all) / odd.factor as f64;
            let excess = f64::from(multiples) - by_chance;
            found.by_chance[level] = by_chance;
            // Six standard deviations of the number that chance gives.
            found.excess[level] = if excess >= 6.0 * by_chance.sqrt() + least { excess } else { 0.0 };
        }
        found
    }

    fn largest_excess(&self) -> f64 {
        self.excess.iter().copied().fold(0.0, f64::max)
    }
}

impl<'a> Search<'a> {
    /// A search for steps from about `finest` to 2^56 times `finest`. `wanted` is the step of a chunk of fresh values.
    pub(super) fn new(
        layout: &'a Layout,
        config: &'a Config<'a>,
        odds: &'a [Odd],
        fraction_bits: i32,
        finest: f64,
        wanted: f64,
    ) -> Option<Self> {
        let base = highest_bit(finest)? - FACTOR_BITS;
        let first_sample = highest_bit(wanted).map_or(base, |exponent| base.max(exponent - FIRST_SAMPLE_BITS - FACTOR_BITS));
        Some(Self { layout, config, odds, fraction_bits, base, first_sample })
    }

    /// The grid on which some values of a chunk were rounded before; `None` if no step has more multiples than chance gives.
    pub(super) fn run<V: Value>(&self, chunk: &[u8]) -> Result<Option<Earlier>> {
        let earlier = self.run_on::<V>(self.sample::<V>(chunk, self.first_sample)?);
        if earlier.is_none() || self.first_sample == self.base {
            return Ok(earlier);
        }
        // Some earlier values may be on a finer step, of which the first sample has too few multiples.
        Ok(self.run_on::<V>(self.sample::<V>(chunk, self.base)?).or(earlier))
    }

    /// The grid that a sample shows. If its multiples are a small share of the sample, the search is repeated with each different value once, and must find the
    /// same odd factor.
    fn run_on<V: Value>(&self, mut values: Vec<f64>) -> Option<Earlier> {
        let found = self.best_grid_of::<V>(&values, LEAST_MULTIPLES)?;
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let is_certain = found.share >= LEAST_SHARE
            || self.best_grid_of::<V>(&values, LEAST_DIFFERENT).is_some_and(|different| different.factor == found.factor);
        is_certain.then_some(found)
    }

    /// The grid whose odd factor has the largest number of multiples beyond chance, `least` or more.
    fn best_grid_of<V: Value>(&self, values: &[f64], least: f64) -> Option<Earlier> {
        let mut of_all: Changes = [0; LEVELS + 1];
        let mut of_multiples = [of_all; MAX_ODDS];
        for (mantissa, first, end) in values.iter().filter_map(|&value| self.levels_of(value)) {
            of_all[first] += 1;
            of_all[end] -= 1;
            for (changes, odd) in of_multiples.iter_mut().zip(self.odds) {
                if odd.divides(mantissa) {
                    changes[first] += 1;
                    changes[end] -= 1;
                }
            }
        }
        let found = of_multiples
            .iter()
            .zip(self.odds)
            .map(|(of_multiples, &odd)| Multiples::new(&of_all, of_multiples, odd, least))
            .reduce(|one, other| if other.largest_excess() > one.largest_excess() { other } else { one })
            .filter(|found| found.largest_excess() > 0.0)?;
        self.coarsest::<V>(values, &found)
    }

    /// The coarsest step that explains about as many values as the best step does. A step explains its multiples and the values on positions between two steps.
    fn coarsest<V: Value>(&self, values: &[f64], found: &Multiples) -> Option<Earlier> {
        const STANDARD_DEVIATIONS: f64 = 3.0;
        const SHARE_OF_MOST: f64 = 0.98;
        let mut explained = found.excess;
        for level in (0..LEVELS).filter(|&level| found.excess[level] > 0.0) {
            let step = self.step(found, level)?;
            let is_between = is_between_steps::<V>(step);
            explained[level] += values.iter().filter(|&&value| is_between(value)).count() as f64;
        }
        let most = explained.iter().copied().fold(0.0, f64::max);
        let noise =
            STANDARD_DEVIATIONS * explained.iter().zip(found.by_chance).find(|&(&explained, _)| explained == most)?.1.sqrt();
        let level = explained.iter().rposition(|&explained| explained > 0.0 && explained >= SHARE_OF_MOST * most - noise)?;
        let step = self.step(found, level)?;
        Some(Earlier {
            step,
            factor: found.odd.factor,
            different: count_different::<V>(values, step),
            share: found.excess[level] / values.len() as f64,
        })
    }

    fn step(&self, found: &Multiples, level: usize) -> Option<f64> {
        Some(found.odd.factor as f64 * power_of_two(self.base + level as i32)?)
    }

    /// A sample in groups of eight values. It is spread evenly over the groups in which some value other than 0 is a multiple of `2^exponent`. Whenever the
    /// sample is full, every other group is dropped and the stride is doubled.
    fn sample<V: Value>(&self, chunk: &[u8], exponent: i32) -> Result<Vec<f64>> {
        let mut sample = Vec::new();
        let Some(inverse) = power_of_two(-exponent) else { return Ok(sample) };
        reserve(&mut sample, MAX_SAMPLE_VALUES.min((chunk.len() / V::SIZE).next_multiple_of(SAMPLED_TOGETHER)))?;
        let (mut stride, mut left) = (1, 1);
        widely_vectorized(
            #[inline(always)]
            || {
                Groups::<V>::new(chunk, self.layout.byte_order, self.config).for_each(
                    1,
                    #[inline(always)]
                    |values| {
                        for eight in values.as_chunks::<SAMPLED_TOGETHER>().0 {
                            let is_multiple = eight.map(
                                #[inline(always)]
                                |value| {
                                    let scaled = value * inverse;
                                    (scaled + ROUNDING - ROUNDING == scaled) & (scaled != 0.0)
                                },
                            );
                            if is_multiple == [false; SAMPLED_TOGETHER] {
                                continue;
                            }
                            left -= 1;
                            if left > 0 {
                                continue;
                            }
                            if sample.len() == MAX_SAMPLE_VALUES {
                                for kept in 0..MAX_SAMPLE_VALUES / SAMPLED_TOGETHER / 2 {
                                    sample.copy_within(
                                        (2 * kept + 1) * SAMPLED_TOGETHER..(2 * kept + 2) * SAMPLED_TOGETHER,
                                        kept * SAMPLED_TOGETHER,
                                    );
                                }
                                sample.truncate(MAX_SAMPLE_VALUES / 2);
                                stride *= 2;
                            }
                            sample.extend_from_slice(eight);
                            left = stride;
                        }
                    },
                );
            },
        );
        Ok(sample)
    }

    /// The odd mantissa of a value, and the first level and the end of the levels whose steps may have the value as a multiple. The levels reach from the
    /// spacing of the type at the value to the greatest power of two that divides the value.
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

/// Largest number of odd factors of a ladder.
const MAX_ODDS: usize = 14;

/// A test whether a value is on a position of the fine grid between two steps.
fn is_between_steps<V: Value>(step: f64) -> impl Fn(f64) -> bool {
    let fine = Quantizer::new(step / 2.0).fine::<V>();
    move |value| fine.is_some_and(|fine| fine.is_between_steps(V::round_from(value)))
}

/// Number of different values that a step explains, [`CERTAIN_DIFFERENT`] at most: multiples of the step, and values on a position between two steps.
fn count_different<V: Value>(values: &[f64], step: f64) -> usize {
    let (mut different, mut count) = ([0u64; CERTAIN_DIFFERENT], 0);
    let is_between = is_between_steps::<V>(step);
    let is_explained = |value: f64| (value / step).fract() == 0.0 || is_between(value);
    for value in values.iter().filter(|&&value| value != 0.0 && is_explained(value)) {
        if count < CERTAIN_DIFFERENT && !different[..count].contains(&value.to_bits()) {
            different[count] = value.to_bits();
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar, Shape};
    use crate::random::Random;

    const ODDS: [Odd; 4] = [Odd::new(17), Odd::new(21), Odd::new(25), Odd::new(31)];

    fn step_in(values: &[f32], finest: f64) -> Option<f64> {
        step_for(values, finest, 2048.0 * finest)
    }

    fn step_for(values: &[f32], finest: f64, wanted: f64) -> Option<f64> {
        let layout =
            Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[values.len() as u64]).unwrap() };
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let config = Config::absolute(1.0).unwrap();
        Some(Search::new(&layout, &config, &ODDS, 23, finest, wanted).unwrap().run::<f32>(&chunk).unwrap()?.step_for(wanted))
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
        let mut random = Random(3);
        let step = 25.0 / 1024.0;
        for share in [1.0, 0.3, 0.02] {
            let values: Vec<f32> = (0..8192)
                .map(|_| {
                    let value = 280.0 + 40.0 * random.share();
                    (if random.share() < share { (value / step).round() * step } else { value }) as f32
                })
                .collect();
            assert_eq!(step_in(&values, 1e-4), Some(step), "{share} of the values");
        }
    }

    #[test]
    fn a_few_hundred_values_show_their_grid_among_a_million() {
        let mut random = Random(7);
        let step = 25.0 / 256.0;
        let mut values: Vec<f32> = (0..1 << 20).map(|_| (40.0 * random.share() - 20.0) as f32).collect();
        for value in values.iter_mut().skip(777_777).take(300) {
            *value = ((f64::from(*value) / step).round() * step) as f32;
        }
        for wanted in [0.98 * step, 1.02 * step, 4.0 * step] {
            assert_eq!(step_for(&values, step / 1024.0, wanted), Some(step));
        }
    }

    #[test]
    fn fresh_values_have_no_grid() {
        let mut random = Random(5);
        for scale in [1e-30, 1e-3, 1.0, 1e20] {
            let values: Vec<f32> = (0..8192).map(|_| (scale * (random.share() - 0.3)) as f32).collect();
            assert_eq!(step_in(&values, scale * 1e-6), None, "{scale}");
        }
        let decimals: Vec<f32> = (0..8192).map(|_| ((random.share() * 1e4).round() / 100.0) as f32).collect();
        assert_eq!(step_in(&decimals, 1e-6), None);
        let integers: Vec<f32> = (0..8192).map(|_| (random.share() * 1e4).round() as f32).collect();
        assert_eq!(step_in(&integers, 1e-6), None);
        // Few values that are multiples of 17 or 25, each of them many times.
        let mut special = |values: &[f32]| -> Vec<f32> {
            (0..8192).map(|i| if i % 3 == 0 { values[i % values.len()] } else { random.share() as f32 }).collect()
        };
        let percent = special(&[50.0, 100.0]);
        assert_eq!((step_for(&percent, 1e-3, 30.0), step_for(&percent, 1e-6, 1.0)), (Some(25.0), Some(50.0 / 64.0)));
        assert_eq!(step_in(&[0.0; 100], 1e-6), None);
    }
}
