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
use crate::element::Element;
use crate::lattice::{highest_bit, lowest_bit, power_of_two};
use crate::layout::Layout;

/// Groups of values that are looked at, spread over those in which any value counts.
const SAMPLED_GROUPS: usize = 128;
/// Exponents `k` of steps that are looked for.
const LEVELS: usize = 64;
/// Multiples of a step that must be found beyond chance, and values among them that must differ: a few special values may have a divisor in common.
const LEAST_MULTIPLES: f64 = 8.0;
const LEAST_DIFFERENT: usize = 3;

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
    pub(super) layout: &'a Layout,
    pub(super) config: &'a Config<'a>,
    pub(super) odds: &'a [Odd],
    /// Bits of the type's fraction.
    pub(super) fraction_bits: i32,
    /// The least exponent `k`.
    base: i32,
}

/// A step that many sampled values are multiples of.
#[derive(Debug, Clone, Copy)]
struct Found {
    odd: Odd,
    level: usize,
    /// Multiples beyond the number that chance gives.
    excess: f64,
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
    pub(super) fn run<V: Element>(&self, chunk: &[u8]) -> Option<f64> {
        let order = self.layout.byte_order;
        let mut groups = 0usize;
        for_each_group::<V>(chunk, order, self.config, 1, |values| groups += usize::from(counts(values)));
        let stride = groups.div_ceil(SAMPLED_GROUPS);
        let mut of_all: Changes = [0; LEVELS + 1];
        let mut of_multiples = [of_all; MOST_ODDS];
        let mut group = 0;
        for_each_group::<V>(chunk, order, self.config, 1, |values| {
            if !counts(values) {
                return;
            }
            group += 1;
            if group % stride != 0 {
                return;
            }
            for &value in values {
                let Some((mantissa, first, end)) = self.levels_of(value) else { continue };
                of_all[first] += 1;
                of_all[end] -= 1;
                for (changes, odd) in of_multiples.iter_mut().zip(self.odds) {
                    let is_multiple = i32::from(odd.divides(mantissa));
                    changes[first] += is_multiple;
                    changes[end] -= is_multiple;
                }
            }
        });
        let found = of_multiples
            .iter()
            .zip(self.odds)
            .filter_map(|(of_multiples, &odd)| most_beyond_chance(&of_all, of_multiples, odd))
            .reduce(|one, other| if other.excess > one.excess { other } else { one })?;
        self.are_different::<V>(chunk, &found).then_some(())?;
        Some(found.odd.factor as f64 * power_of_two(self.base + found.level as i32)?)
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

    /// Whether the multiples of a step are not just a few values, again and again.
    fn are_different<V: Element>(&self, chunk: &[u8], found: &Found) -> bool {
        let (mut different, mut count) = ([0u64; LEAST_DIFFERENT], 0);
        for_each_group::<V>(chunk, self.layout.byte_order, self.config, 1, |values| {
            for value in values.iter().take(if count < LEAST_DIFFERENT { GROUP } else { 0 }) {
                let is_multiple = self
                    .levels_of(*value)
                    .is_some_and(|(mantissa, first, end)| found.odd.divides(mantissa) && (first..end).contains(&found.level));
                if is_multiple && count < LEAST_DIFFERENT && !different[..count].contains(&value.to_bits()) {
                    different[count] = value.to_bits();
                    count += 1;
                }
            }
        });
        count == LEAST_DIFFERENT
    }
}

/// The most odd factors of a ladder.
const MOST_ODDS: usize = 8;

fn counts(values: &[f64; GROUP]) -> bool {
    values.iter().any(|&value| value.abs() > 0.0)
}

/// The coarsest level that has about all multiples beyond chance, if they are more than chance allows. Finer levels have them, too, and the next coarser one half of
/// them.
fn most_beyond_chance(of_all: &Changes, of_multiples: &Changes, odd: Odd) -> Option<Found> {
    const ABOUT_ALL: f64 = 0.75;
    let (mut all, mut multiples) = (0, 0);
    let excesses: [f64; LEVELS] = std::array::from_fn(|level| {
        all += of_all[level];
        multiples += of_multiples[level];
        let by_chance = f64::from(all) / odd.factor as f64;
        let excess = f64::from(multiples) - by_chance;
        // Six standard deviations.
        if excess >= 6.0 * by_chance.sqrt() + LEAST_MULTIPLES { excess } else { 0.0 }
    });
    let most = excesses.iter().copied().fold(0.0, f64::max);
    let level = excesses.iter().rposition(|&excess| excess > 0.0 && excess >= ABOUT_ALL * most)?;
    Some(Found { odd, level, excess: most })
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

    fn step_in(values: &[f32], finest: f64) -> Option<f64> {
        let layout =
            Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[values.len() as u64]).unwrap() };
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let config = Config::absolute(1.0).unwrap();
        Search::new(&layout, &config, &ODDS, 23, finest).unwrap().run::<f32>(&chunk)
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
        // A special value that is a multiple of 17, again and again.
        let special: Vec<f32> = (0..8192).map(|i| if i % 3 == 0 { -9996.0 * 17.0 } else { random() as f32 }).collect();
        assert_eq!(step_in(&special, 1e-6), None);
        assert_eq!(step_in(&[0.0; 100], 1e-6), None);
    }
}
