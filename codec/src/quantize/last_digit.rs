//! Whether a bound is below the last digit of a chunk's values (FORMAT.md §11.1). For example, 0.001 is below the last digit of
//! values with two decimals, and of whole numbers.
//!
//! The grid of such a bound spends bits on digits that no value has. Then the exact bits may take less space and are tried. A look at a few values decides, as
//! the values of most chunks have more digits than their bound keeps.

use crate::config::{SettledBound, SettledConfig};
use crate::layout::ByteOrder;
use crate::number::value::Value;
use crate::quantize::decimal::{Decimal, divisor};
use crate::quantize::fills::Fills;
use crate::quantize::lattice::{highest_bit, lowest_bit};

/// A look ends when this many values have counted.
pub const MAX_COUNTED: usize = 32;
/// For an absolute bound, at least this many values must have their last digit above the bound. Chunks with fewer values that are
/// not 0 have no divisor either.
pub const LEAST_ENDING: usize = 4;
/// Most values that are looked at for a point-wise relative bound. Zeros do not count, and most of a chunk's values may be 0.
const MAX_LOOKED_AT: usize = 4096;
/// Share of a point-wise relative bound's step that is compared with last digits. The grid of such a bound has steps of all sizes. Where only the largest steps
/// are above the last digit, the exact bits may still take less space.
const SHARE_OF_STEP: f64 = 0.125;
/// The greatest power of ten that is tried as a divisor.
pub const MAX_DIVISOR: f64 = 1e7;

/// Whether the bound of `config` is below the last digit of most values that a look finds.
pub(crate) fn is_above_bound<V: Value>(chunk: &[u8], order: ByteOrder, config: &SettledConfig) -> bool {
    let fills = config.fills::<V>();
    match config.bound {
        SettledBound::Absolute(bound) => {
            let (ending, others) = look::<V>(chunk, order, &fills, MAX_COUNTED, |_| 2.0 * bound);
            ending >= LEAST_ENDING && ending >= others
        }
        SettledBound::PointwiseRelative(bound) => {
            let (ending, others) =
                look::<V>(chunk, order, &fills, MAX_LOOKED_AT, |magnitude| SHARE_OF_STEP * 2.0 * bound * magnitude);
            ending >= others
        }
        SettledBound::Lossless => false,
    }
}

/// Looks at up to `most` values. Returns how many values have their last digit above the bound, and how many have more digits.
/// `step` is the grid's step at a magnitude. Of equal values only the first counts. The look ends when [`MAX_COUNTED`] values
/// have counted, or when more than half of that number have more digits.
fn look<V: Value>(chunk: &[u8], order: ByteOrder, fills: &Fills, most: usize, step: impl Fn(f64) -> f64) -> (usize, usize) {
    let count = chunk.len() / V::SIZE;
    let (mut ending, mut others) = (0, 0);
    let mut counted = [V::Code::default(); MAX_COUNTED];
    for number in 0..count.min(most) {
        let value = V::read(chunk, divisor::sampled_index(number, count), order);
        if fills.has(value) || counted[..ending + others].contains(&value.to_bits()) {
            continue;
        }
        let Some(ends) = ends_above(value, step(value.to_f64().abs())) else { continue };
        counted[ending + others] = value.to_bits();
        if ends {
            ending += 1;
        } else {
            others += 1;
        }
        if ending + others == MAX_COUNTED || 2 * others > MAX_COUNTED {
            break;
        }
    }
    (ending, others)
}

/// Whether the last digit of a value, binary or decimal, is about a step or more. `None` for values that do not count: 0, and those that no grid of this step
/// holds.
#[inline]
fn ends_above<V: Value>(value: V, step: f64) -> Option<bool> {
    let magnitude = value.to_f64().abs();
    // False for NaN.
    let counts = magnitude > 0.0 && magnitude < V::CODE_LIMIT * step;
    if !counts {
        return None;
    }
    // With a step near the type's spacing, values are multiples of a power of two by chance. Types of 16 bits have no larger codes.
    let is_telling = V::SIZE == 2 || magnitude < V::SAFE_CODE_LIMIT / divisor::CHANCE * step;
    if is_telling && highest_bit(step).is_none_or(|highest| lowest_bit(magnitude) >= highest) {
        return Some(true);
    }
    // The divisor is the least power of ten whose grid has steps of at most `step`. But it stays smaller where its codes would
    // restore most values by chance.
    let mut divisor = 1.0;
    while divisor < MAX_DIVISOR && divisor * step < 1.0 && divisor::is_telling::<V>(magnitude * (10.0 * divisor)) {
        divisor *= 10.0;
    }
    let is_tried = divisor * step < 10.0 && divisor::is_telling::<V>(magnitude * divisor);
    Some(is_tried && Decimal { divisor }.code(value).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::small_float::Binary16;
    use crate::quantize::chunk_of;

    #[test]
    fn last_digits_are_compared_with_the_step() {
        for (value, step, expected) in [
            (0.25, 0.3, Some(true)),
            (0.25, 0.6, Some(false)),
            (-3.0, 1.9, Some(true)),
            (-3.0, 2.0, Some(true)),
            (-3.0, 20.0, Some(false)),
            (0.37, 0.01, Some(true)),
            (0.37, 0.05, Some(true)),
            (0.37, 0.11, Some(false)),
            (0.371, 0.011, Some(false)),
            (1e7 + 0.1, 1e-3, Some(true)),
            (std::f64::consts::PI, 1e-9, Some(false)),
            (0.123_456_7, 1e-12, Some(true)),
            (0.123_456_78, 1e-12, Some(false)),
            (0.0, 1.0, None),
            (-0.0, 1.0, None),
            (f64::NAN, 1.0, None),
            (f64::INFINITY, 1.0, None),
            (1e35, 1e-3, None),
            (1.5, 1e-300, None),
            (5e-324, 0.0, None),
        ] {
            assert_eq!(ends_above::<f64>(value, step), expected, "{value} and {step}");
        }
        // A binary32 has no digits below its spacing.
        assert_eq!(ends_above::<f32>(300.123, 1e-5), Some(true));
        assert_eq!(ends_above::<f32>(300.123_45, 1e-4), Some(false));
        assert_eq!(ends_above::<f32>(0.2, 1e-3), Some(true));
        assert_eq!(ends_above::<Binary16>(Binary16::from_f64(0.2), 1e-2), Some(true));
    }

    #[test]
    fn most_values_decide() {
        let is_above = |values: &[f64], bound: SettledBound| {
            let chunk = chunk_of(values, ByteOrder::Big);
            let config = SettledConfig { fill_value: Some((-7.0f64).to_bits()), ..SettledConfig::of(bound) };
            is_above_bound::<f64>(&chunk, ByteOrder::Big, &config)
        };
        let (absolute, share) = (SettledBound::Absolute(1e-3), SettledBound::PointwiseRelative(1e-3));
        let mixed = |count: usize, irrational: usize, rest: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..count).map(|i| if i < irrational { (2.0 + i as f64).sqrt() + 1e-5 } else { rest(i) }).collect()
        };
        for bound in [absolute, share] {
            let quarters = |i: usize| 0.25 + i as f64;
            assert!(is_above(&mixed(32, 12, &quarters), bound) && !is_above(&mixed(32, 20, &quarters), bound), "{bound:?}");
            assert!(!is_above(&mixed(32, 12, &|_| 0.25), bound), "a value counts once");
            assert!(!is_above(&mixed(32, 4, &|_| -7.0), bound), "the fill value does not count");
        }
        // An absolute bound needs four values that count.
        assert!(
            is_above(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5], absolute)
                && !is_above(&[1.0, 2.0, 3.0], absolute)
                && is_above(&[1.0], share)
        );
        let sparse: Vec<f64> = (0..20_000).map(|i| if i % 100 == 7 { 3.0 + (i / 100) as f64 * 0.125 } else { 0.0 }).collect();
        assert!(!is_above(&sparse, absolute) && is_above(&sparse, share));
        assert!(!is_above(&[1.0; 100], SettledBound::Lossless) && !is_above(&[], absolute) && is_above(&[], share));
    }
}
