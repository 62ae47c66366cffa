//! Limits of a chunk: the least and the greatest value that a decoder gives, but for exceptions (FORMAT.md §4 and §11.3). Where they are found, restored values
//! stay in the range of the values that were rounded. Limits are positions of the fine grid. So a value that became a limit is never rounded again.

use crate::layout::ByteOrder;
use crate::number::value::Value;
use crate::quantize::fills::Fills;
use crate::quantize::fine_grid::{FineGrid, on_grid_of};
use crate::quantize::positions::POSITIONS_PER_STEP;
use crate::quantize::quantizer::Quantizer;
use crate::simd::widely_vectorized;

/// The bit of a half step that says that limits follow.
pub const LIMITS_BIT: u64 = 1 << 63;
/// Bytes of the limits in a stream.
pub const LIMITS_LEN: usize = 8;
/// Values that are compared together.
const LANES: usize = 32;

/// The limits of a chunk, as positions of its fine grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The lower limit; the least number if there is none.
    pub lower: i32,
    /// The upper limit; the greatest number if there is none.
    pub upper: i32,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { lower: i32::MIN, upper: i32::MAX };

    /// Whether there are no limits.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The limits in the stream of a chunk whose values have these ends.
    pub(crate) fn of<V: Value>(ends: &Ends<V>, quantizer: &Quantizer, is_interpolated: bool) -> Self {
        let (Some(fine), Some(ends)) = (ends.fine, ends.range()) else { return Self::NONE };
        let [lower, upper] = [(ends.0, 1), (ends.1, -1)].map(|(end, inward)| limit(end, inward, &fine));
        // Codes are rounded to whole steps. If the code of an end is beyond the limit, restored values leave the range.
        let of_code = |end: V| f64::from(POSITIONS_PER_STEP) * (end.to_f64() * quantizer.inverse_step()).round_ties_even();
        let leaves_below = lower.is_some_and(|lower| of_code(ends.0) < f64::from(lower));
        let leaves_above = upper.is_some_and(|upper| of_code(ends.1) > f64::from(upper));
        if !(is_interpolated || leaves_below || leaves_above) {
            return Self::NONE;
        }
        match (lower, upper) {
            // No position is within the range.
            (Some(lower), Some(upper)) if lower > upper => {
                let nearer = if lower.unsigned_abs() < upper.unsigned_abs() { lower } else { upper };
                Self { lower: nearer, upper: nearer }
            }
            _ => Self { lower: lower.unwrap_or(Self::NONE.lower), upper: upper.unwrap_or(Self::NONE.upper) },
        }
    }
}

/// The limit for an end of a chunk's range: the nearest position of the grid whose value is the end or on its inward side.
/// `inward` is 1 for the lower end and -1 for the upper one. `None` if the value of the position differs from the end by more
/// than the bound.
fn limit<V: Value>(end: V, inward: i32, fine: &FineGrid<V>) -> Option<i32> {
    let (nearest, is_near, _) = fine.nearest_position(end);
    if is_near >> 63 == 0 {
        return None;
    }
    let mut positions = (-POSITIONS_PER_STEP..=POSITIONS_PER_STEP).map(|distance| on_grid_of::<V>(nearest + inward * distance));
    let is_outward = |value: V| if inward > 0 { value.is_less(end) } else { end.is_less(value) };
    positions.find(|&position| !is_outward(fine.restore(position))).filter(|&position| fine.holds(end, position))
}

/// The least and the greatest of a chunk's values that may have codes: those that are not masked and have few enough steps. Each lane has those of every
/// [`LANES`]-th value, so that no value waits for the value before it.
pub(crate) struct Ends<V> {
    /// Where there is none, no value is looked at.
    fine: Option<FineGrid<V>>,
    least: [V; LANES],
    greatest: [V; LANES],
    fills: Fills,
    /// The magnitude from which on values do not count.
    beyond: V,
}

impl<V: Value> Ends<V> {
    /// The ends of no value yet.
    pub(crate) fn new(quantizer: &Quantizer) -> Self {
        let [infinity, negative] = [f64::INFINITY, f64::NEG_INFINITY].map(V::round_from);
        let (fills, beyond) = (*quantizer.fills(), quantizer.first_beyond_codes::<V>());
        Self { fine: quantizer.fine(), least: [infinity; LANES], greatest: [negative; LANES], fills, beyond }
    }

    /// Adds values.
    pub(crate) fn add(&mut self, values: &[u8], order: ByteOrder) {
        if self.fine.is_none() {
            return;
        }
        widely_vectorized(
            #[inline(always)]
            || match (order, self.fills.is_none()) {
                (ByteOrder::Little, true) => self.add_lanes::<false>(values, ByteOrder::Little),
                (order, true) => self.add_lanes::<false>(values, order),
                (order, false) => self.add_lanes::<true>(values, order),
            },
        );
    }

    /// [`Ends::add`]. `FILLS` is whether some values do not count because they are fills.
    #[inline(always)]
    fn add_lanes<const FILLS: bool>(&mut self, values: &[u8], order: ByteOrder) {
        let Self { fills, beyond, .. } = *self;
        let (mut least, mut greatest) = (self.least, self.greatest);
        let nan = V::round_from(f64::NAN);
        let groups = values.chunks_exact(LANES * V::SIZE);
        let mut rest = [nan; LANES];
        V::read_all(groups.remainder(), order, &mut rest);
        for bytes in groups {
            let mut values = [V::default(); LANES];
            V::read_all(bytes, order, &mut values);
            widen::<V, FILLS>(&mut least, &mut greatest, values, fills, beyond);
        }
        widen::<V, FILLS>(&mut least, &mut greatest, rest, fills, beyond);
        (self.least, self.greatest) = (least, greatest);
    }

    /// The least and the greatest value; `None` if none counts.
    fn range(&self) -> Option<(V, V)> {
        let least = self.least.into_iter().reduce(|one, other| if other.is_less(one) { other } else { one })?;
        let greatest = self.greatest.into_iter().reduce(|one, other| if one.is_less(other) { other } else { one })?;
        least.is_below(V::round_from(f64::INFINITY)).then_some((least, greatest))
    }
}

/// Adds a value to the ends of each lane.
#[inline(always)]
fn widen<V: Value, const FILLS: bool>(
    least: &mut [V; LANES],
    greatest: &mut [V; LANES],
    mut values: [V; LANES],
    fills: Fills,
    beyond: V,
) {
    let [infinity, negative, nan] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(V::round_from);
    if FILLS && fills.has_any(&values) {
        values = values.map(
            #[inline(always)]
            |value| if fills.has(value) { nan } else { value },
        );
    }
    // Values that do not count become infinities. With NaN for both, or with indices in place of iterators, the compiler writes
    // the ends to memory for each value.
    for ((value, least), greatest) in values.iter().zip(least).zip(greatest) {
        let counts = value.is_below(beyond);
        let (low, high) = if counts { (*value, *value) } else { (infinity, negative) };
        *least = if low.is_less(*least) { low } else { *least };
        *greatest = if greatest.is_less(high) { high } else { *greatest };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::chunk_of;
    use crate::quantize::fills::Span;
    use crate::quantize::fine_grid::plain::{Plain, on_grid};
    use crate::random::Random;

    /// The limits of a chunk, whose values are looked at in two parts.
    fn limits_of<V: Value>(chunk: &[u8], order: ByteOrder, quantizer: &Quantizer, is_interpolated: bool) -> Limits {
        let mut ends = Ends::<V>::new(quantizer);
        let (front, back) = chunk.split_at(chunk.len() / V::SIZE / 3 * V::SIZE);
        ends.add(front, order);
        ends.add(back, order);
        Limits::of(&ends, quantizer, is_interpolated)
    }

    /// FORMAT.md §11.3 word for word, for one end of the values.
    fn plain_limit<V: Value>(plain: Plain, end: V, inward: i32) -> Option<i32> {
        let (nearest, _) = plain.position(end)?;
        let mut positions: Vec<i32> = (-8..=8).map(|distance| on_grid(nearest + distance, V::SIZE == 4)).collect();
        positions.sort_unstable_by_key(|position| position * inward);
        let value = |position: i32| V::round_from(plain.value(position)).to_f64();
        let limit = positions.into_iter().find(|&position| f64::from(inward) * (value(position) - end.to_f64()) >= 0.0).unwrap();
        let t = 1 << 22;
        ((-8 * t + 4..8 * t - 4).contains(&limit) && (value(limit) - end.to_f64()).abs() <= plain.bound).then_some(limit)
    }

    fn check_limits<V: Value + std::fmt::Debug>() {
        let (mut random, mut found, mut written) = (Random(7), [0; 2], [0; 2]);
        for round in 0..3000 {
            let bound = 10f64.powf(-8.0 * random.unit().abs());
            let plain = Plain { bound, steps_limit: 1 << 22 };
            // From parts of a step to beyond the last position.
            let [center, width] = [0, 1].map(|_| bound * 2f64.powf(28.0 * random.unit().abs() - 3.0) * random.unit());
            let len = 1 + round % 150;
            let value = |random: &mut Random| match random.below(20) {
                0 => f64::NAN,
                1 => [f64::NEG_INFINITY, -1e30, 1e36, bound * 2f64.powi(32)][random.below(4) as usize],
                2 => 0.0,
                3 => V::round_from(plain.value(random.below(40) as i32 - 20)).to_f64(),
                _ => center + width * random.unit(),
            };
            let values: Vec<V> = (0..len).map(|_| V::round_from(value(&mut random))).collect();
            let order = [ByteOrder::Little, ByteOrder::Big][round % 2];
            let chunk = chunk_of(&values, order);
            let span =
                if round % 3 == 0 { Span { least: center - 0.5 * width.abs(), greatest: f64::INFINITY } } else { Span::ALL };
            let fills = Fills::new((round % 4 == 0).then_some(values[0]), span);
            let quantizer = Quantizer::new(bound).with_fills(fills);
            let may_have_code = |value: &V| (value.to_f64() * (1.0 / (2.0 * bound))).abs() < V::CODE_LIMIT;
            let counted: Vec<V> = values.into_iter().filter(|value| may_have_code(value) && !fills.has(*value)).collect();
            let end = |inward: i32| {
                counted
                    .iter()
                    .copied()
                    .max_by(|x, y| (y.to_f64() * f64::from(inward)).total_cmp(&(x.to_f64() * f64::from(inward))))
            };
            let limits = [1, -1].map(|inward| end(inward).and_then(|end| plain_limit(plain, end, inward)));
            let [lower, upper] = [limits[0].unwrap_or(i32::MIN), limits[1].unwrap_or(i32::MAX)];
            let code = |inward| end(inward).map_or(0.0, |end| 8.0 * (end.to_f64() * (1.0 / (2.0 * bound))).round_ties_even());
            let [lower, upper] = match [lower, upper] {
                [lower, upper] if lower > upper => [if lower.abs() < upper.abs() { lower } else { upper }; 2],
                limits => limits,
            };
            let is_written =
                limits[0].is_some_and(|lower| code(1) < lower.into()) || limits[1].is_some_and(|upper| code(-1) > upper.into());
            let interpolated = limits_of::<V>(&chunk, order, &quantizer, true);
            assert_eq!(interpolated, Limits { lower, upper }, "bound {bound}, {counted:?}");
            let of_differences = limits_of::<V>(&chunk, order, &quantizer, false);
            assert_eq!(of_differences, if is_written { interpolated } else { Limits::NONE }, "bound {bound}");
            found[usize::from(interpolated.is_none())] += 1;
            written[usize::from(of_differences.is_none())] += 1;
            let Span { least, greatest } = quantizer.with_limits(interpolated).limit_values::<V>();
            assert!(
                counted
                    .iter()
                    .all(|value| limits[0].is_none() || (value.to_f64() - least).abs() <= bound || value.to_f64() > least)
            );
            assert!(least <= greatest);
        }
        assert!(found.into_iter().chain(written).all(|count| count > 50), "{found:?} {written:?}");
    }

    #[test]
    fn limits_are_those_of_the_format() {
        check_limits::<f32>();
        check_limits::<f64>();
    }

    #[test]
    fn lattices_and_types_of_16_bits_have_none() {
        use crate::number::small_float::Binary16;
        let chunk = chunk_of(&[0.3f32, 0.7], ByteOrder::Little);
        fn has_limits<V: Value>(chunk: &[u8], quantizer: Quantizer) -> bool {
            !limits_of::<V>(chunk, ByteOrder::Little, &quantizer, true).is_none()
        }
        assert!(has_limits::<f32>(&chunk, Quantizer::new(0.1)));
        assert!(!has_limits::<f32>(&chunk, Quantizer::exact(0.1)));
        assert!(!has_limits::<Binary16>(&chunk, Quantizer::new(0.1)));
        assert!(!has_limits::<f32>(&[], Quantizer::new(0.1)));
    }
}
