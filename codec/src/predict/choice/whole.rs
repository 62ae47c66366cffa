//! The choice of the predictor for small chunks, of which all values are measured. The residuals of the first values along an axis are a large part of
//! such a chunk, but tiles leave them out. Codes and residuals that are made on the way stay in [`Quantized`].

use super::kinds::best_kind;
use super::residual_stats::{ColumnSums, EDGES_OF_PLANES, Estimate, ResidualStats, StatsOfSets, best_set};
use super::tile::COLUMNS;
use super::{Chooser, VALUES_PER_VALUE_OUT_OF_REACH, axes_of, sets_of, with_steps};
use crate::error::Result;
use crate::layout::Axes;
use crate::layout::{ByteOrder, Layout, Shape};
use crate::memory::resize;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::predict::predictor::{InterpolationKind, Predictor};
use crate::predict::quantized::Quantized;
use crate::quantize::bitmap::{Bitmap, WORD};
use crate::quantize::excluded::Excluded;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::fill_gaps;
use crate::quantize::grid::Grid;
use crate::quantize::quantizer::Quantizer;
use crate::simd::widely_vectorized;

/// Interpolation is tried if the estimate for [`cubic`] is below the estimate for differences times this / 16. A lower limit saves time and makes streams longer.
const MAX_CUBIC_SIXTEENTHS: u128 = 24;
/// Distance of the farthest neighbour of a value that cubic interpolation at the finest level reads.
const CUBIC_REACH: usize = 3;

/// Computes the differences of codes along every set of axes. `room` is an array `[set of axes][value]` that begins with the codes. `add` gets the set and its
/// differences.
fn for_each_set<C: Integer>(room: &mut [C], shape: &Shape, mut add: impl FnMut(usize, &[C])) {
    let elements = shape.elements() as usize;
    let (sets, flat) = sets_of(shape);
    for set in (0..sets).filter(|set| set & flat == 0) {
        let (before, here) = room.split_at_mut(set * elements);
        if set > 0 {
            let axis = set.ilog2() as usize;
            let parent = &before[(set ^ 1 << axis) * elements..][..elements];
            lorenzo::predict(parent, shape, Axes::along(axis), &mut here[..elements]);
        }
        add(set, &here[..elements]);
    }
}

/// Statistics of the residuals that codes have under cubic interpolation from their neighbours' codes, along the axis with the least estimate a value, of
/// equals the fastest. It is a rough estimate for interpolation that takes as long as one set of axes. Only values with all four neighbours are measured, in
/// whole groups of [`COLUMNS`] values. `counted` is -1 for values that count and 0 for others, or empty if all count.
fn cubic(codes: &[i32], counted: &[i32], shape: &Shape) -> ResidualStats {
    let mut best = ResidualStats::default();
    widely_vectorized(
        #[inline(always)]
        || {
            let mut stride = 1;
            for extent in shape.extents() {
                let groups = stride * extent.saturating_sub(2 * CUBIC_REACH) / COLUMNS;
                let (mut columns, mut blocks) = (ColumnSums::default(), 0);
                for start in (0..codes.len()).step_by(stride * extent).filter(|_| groups > 0) {
                    let (before, left) = (groups_from(codes, start, groups), groups_from(codes, start + 2 * stride, groups));
                    let (right, behind) =
                        (groups_from(codes, start + 4 * stride, groups), groups_from(codes, start + 6 * stride, groups));
                    let middle = start + CUBIC_REACH * stride;
                    for (group, here) in groups_from(codes, middle, groups).iter().enumerate() {
                        let mut residuals = [0; COLUMNS];
                        for (i, residual) in residuals.iter_mut().enumerate() {
                            let inner = left[group][i].wrapping_add(right[group][i]).wrapping_mul(9);
                            let sum = inner.wrapping_sub(before[group][i]).wrapping_sub(behind[group][i]);
                            *residual = here[i].wrapping_sub(sum.wrapping_add(8) >> 4);
                        }
                        if !counted.is_empty() {
                            let counted = &groups_from(counted, middle, groups)[group];
                            residuals.iter_mut().zip(counted).for_each(|(residual, counted)| *residual &= counted);
                        }
                        columns.add(&residuals, &shifted(&residuals));
                    }
                    blocks += 1;
                }
                let mut stats = ResidualStats::default();
                stats.add(&columns, blocks * groups * COLUMNS, 0);
                if best.values == 0 || stats.values > 0 && stats.estimate().is_below(16, &best.estimate()) {
                    best = stats;
                }
                stride *= extent;
            }
        },
    );
    best
}

/// The residual before each of a group; the first one has none.
#[inline(always)]
fn shifted(residuals: &[i32; COLUMNS]) -> [i32; COLUMNS] {
    std::array::from_fn(|i| if i == 0 { 1 } else { residuals[i - 1] })
}

/// The `groups` groups from index `first` on.
#[inline(always)]
fn groups_from(values: &[i32], first: usize, groups: usize) -> &[[i32; COLUMNS]] {
    &values[first..][..groups * COLUMNS].as_chunks().0[..groups]
}

impl Chooser {
    /// Statistics of the differences of 64-bit codes over all values.
    pub(super) fn try_axes_on_whole<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        code: impl Fn(V) -> i64,
    ) -> Result<StatsOfSets> {
        let elements = layout.shape.elements() as usize;
        resize(&mut self.differences_64, sets_of(&layout.shape).0 * elements)?;
        for (index, slot) in self.differences_64[..elements].iter_mut().enumerate() {
            *slot = code(V::read(chunk, index, layout.byte_order));
        }
        let mut stats = StatsOfSets::default();
        for_each_set(&mut self.differences_64, &layout.shape, |set, differences| {
            // Differences wrap to the width of the type's codes.
            let mut is_behind_zero = false;
            for &difference in differences {
                let wrapped = V::Code::from_i64(difference).to_i64();
                stats[set].add_one(wrapped, is_behind_zero, true);
                is_behind_zero = wrapped == 0;
            }
        });
        Ok(stats)
    }

    /// The grid and the predictor for a chunk on an absolute bound's rounding grid.
    pub(super) fn try_whole<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        (fine, finer_below): (&FineGrid<V>, u32),
        coded: &mut Quantized<'_, V::Code>,
    ) -> Result<(Grid, Predictor)> {
        let shape = &layout.shape;
        let elements = shape.elements() as usize;
        resize(&mut self.differences, sets_of(shape).0 * elements)?;
        self.exceptions.clear(elements)?;
        let codes = &mut self.differences[..elements];
        low_codes::<V>(chunk, layout.byte_order, quantizer, codes, &mut self.exceptions);
        // Values without a code are exceptions under every predictor.
        let without_code = self.exceptions.count();
        fill_gaps(codes, &self.exceptions, shape.row());
        let mut stats = StatsOfSets::default();
        for_each_set(&mut self.differences, shape, |set, differences| {
            stats[set] = widely_vectorized(
                #[inline(always)]
                || ResidualStats::of_differences(differences),
            );
        });
        let (set, differences) = best_set(&stats, shape);
        let codes = &self.differences[..elements];
        let has_reach = fine.is_enabled() && count_from(codes, V::STEPS_LIMIT as u32) <= elements / VALUES_PER_VALUE_OUT_OF_REACH;
        let cubic_estimate = if has_reach {
            self.counted.clear();
            if without_code > 0 {
                resize(&mut self.counted, elements)?;
                self.counted.fill(-1);
                self.exceptions.runs().for_each(|run| self.counted[run].fill(0));
            }
            Some(cubic(codes, &self.counted, shape).estimate())
        } else {
            None
        };
        let is_interpolation_promising = |differences: &Estimate| {
            cubic_estimate.is_some_and(|cubic| cubic.values == 0 || cubic.is_below(MAX_CUBIC_SIXTEENTHS, differences))
        };
        // The best kind of interpolation, with zeros as exceptions if that takes fewer bits.
        let find_best = |coded: &mut Quantized<'_, V::Code>| -> Result<(InterpolationKind, ResidualStats)> {
            let (kind, stats) = best_kind(shape, |_| false, |kind| interpolate(chunk, layout, fine, kind, without_code, coded))?;
            // Two values cannot be masked.
            if stats.outliers == 0 || fine.masks_fill_value() {
                return Ok((kind, stats));
            }
            let (zeros, zero_edges) = zeros_of::<V>(chunk, shape);
            if zeros == 0 {
                return Ok((kind, stats));
            }
            let masking = FineGrid::<V>::new(&quantizer.masking_zeros());
            let masked = interpolate(chunk, layout, &masking, kind, without_code + zeros, coded)?;
            let masked = ResidualStats { zero_escapes: zeros as u64 + zero_edges, zero_edges, ..masked };
            Ok((kind, if masked.bits() < stats.bits() { masked } else { stats }))
        };
        let chosen = |(kind, stats): (InterpolationKind, ResidualStats)| {
            let grid = if stats.masks_zeros() { quantizer.masking_zeros() } else { *quantizer };
            (Grid::Linear(grid), Predictor::Interpolation(with_steps((kind, stats), finer_below)))
        };
        let with_differences = || (Grid::Linear(*quantizer), Predictor::from(axes_of(set, shape)));
        let mut interpolated = None;
        if is_interpolation_promising(&differences) {
            let best = find_best(coded)?;
            if best.1.bits() < differences.bits {
                return Ok(chosen(best));
            }
            interpolated = Some(best);
        }
        coded.quantize::<V>(chunk, layout, quantizer)?;
        // Exceptions of differences are mostly values between steps, which an earlier interpolation restored. If there are many of them, interpolation is
        // better.
        stats[set].outliers = coded.exceptions.count().saturating_sub(without_code) as u64;
        if stats[set].outliers == 0 {
            return Ok(with_differences());
        }
        let differences = stats[set].estimate();
        if is_interpolation_promising(&differences) {
            let best = match interpolated {
                Some(found) => found,
                None => find_best(coded)?,
            };
            if best.1.bits() < differences.bits {
                return Ok(chosen(best));
            }
        }
        Ok(with_differences())
    }
}

/// Number of a chunk's zeros, and of the ends of their rows ([`ResidualStats::zero_edges`]).
fn zeros_of<V: Value>(chunk: &[u8], shape: &Shape) -> (usize, u64) {
    // The order of a zero's bytes does not matter.
    let is_zero = |index: usize| V::read(chunk, index, ByteOrder::Little).to_bits() == V::Code::default();
    let zeros = (0..shape.elements() as usize).filter(|&index| is_zero(index)).count();
    let edges = (0..shape.elements() as usize).filter(|&index| index % shape.row() > 0 && is_zero(index) != is_zero(index - 1));
    (zeros, (edges.count() + EDGES_OF_PLANES) as u64)
}

/// Interpolates a chunk and measures its residuals. `without_code` values are exceptions under every predictor and do not count.
fn interpolate<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    fine: &FineGrid<V>,
    kind: InterpolationKind,
    without_code: usize,
    coded: &mut Quantized<'_, V::Code>,
) -> Result<ResidualStats> {
    coded.interpolate(chunk, layout, fine, kind)?;
    let mut stats = widely_vectorized(
        #[inline(always)]
        || ResidualStats::of_residuals(&coded.residuals[..layout.shape.elements() as usize]),
    );
    stats.outliers += coded.residual_exceptions.count().saturating_sub(without_code) as u64;
    Ok(stats)
}

/// Writes the codes of values modulo 2^32 and sets the bits of values without a code. The codes may break the bound: they are good enough for an estimate.
fn low_codes<V: Value>(chunk: &[u8], order: ByteOrder, quantizer: &Quantizer, codes: &mut [i32], without_code: &mut Bitmap) {
    let mask = Excluded::<V>::new(quantizer, V::CODE_LIMIT);
    widely_vectorized(
        #[inline(always)]
        || {
            for (index, (values, codes)) in chunk.chunks(WORD * V::SIZE).zip(codes.chunks_mut(WORD)).enumerate() {
                let (mut all, mut sums, mut group) = ([V::default(); WORD], [0; WORD], [0; WORD]);
                V::read_all(values, order, &mut all);
                if mask.covers_any(&all) {
                    without_code.set_word(index, mask.bits(&all) & u64::MAX >> (WORD - codes.len()));
                }
                for (sum, value) in sums.iter_mut().zip(&all) {
                    *sum = (value.to_f64() * quantizer.inverse_step() + ROUNDING).to_bits();
                }
                for (code, &sum) in group.iter_mut().zip(&sums) {
                    *code = sum as i32;
                }
                codes.copy_from_slice(&group[..codes.len()]);
            }
        },
    );
}

/// Number of codes whose magnitude is at least `magnitude`.
fn count_from(codes: &[i32], magnitude: u32) -> usize {
    widely_vectorized(
        #[inline(always)]
        || codes.iter().fold(0u32, |count, code| count + u32::from(code.unsigned_abs() >= magnitude)),
    ) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_along_every_set_can_be_undone() {
        for dims in [&[1][..], &[17], &[1, 9], &[5, 3], &[4, 1, 5], &[2, 3, 4, 5]] {
            let shape = Shape::new(dims).unwrap();
            let elements = shape.elements() as usize;
            let (sets, flat) = sets_of(&shape);
            let mut room = vec![77i32; sets * elements];
            let codes: Vec<i32> = (0..elements).map(|i| (i as i32).wrapping_mul(0x9e37_79b9_u32 as i32)).collect();
            room[..elements].copy_from_slice(&codes);
            let mut seen = Vec::new();
            for_each_set(&mut room, &shape, |set, differences| {
                seen.push(set);
                let mut restored = differences.to_vec();
                lorenzo::restore(&mut restored, &shape, axes_of(set, &shape));
                assert_eq!(restored, codes, "{dims:?} set {set:b}");
            });
            assert_eq!(seen, (0..sets).filter(|set| set & flat == 0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn cubic_interpolation_leaves_nothing_of_cubic_polynomials() {
        let shape = Shape::new(&[20, 30]).unwrap();
        let at = |i: usize| ((i % 30) as i32 - 9, (i / 30) as i32 - 4);
        let codes: Vec<i32> = (0..600).map(at).map(|(x, y)| x * x * x - 5 * x * x + 7 * y * y * y - y * x + 11).collect();
        let stats = cubic(&codes, &[], &shape);
        assert_eq!((stats.values, stats.zeros, stats.magnitude_bits), (stats.values, stats.values, 0));
        // Groups along x: 24 of 30 values have neighbours, one group of 16.
        assert_eq!(stats.values, 20 * 16);
        // Along y all 14 rows of 30 are 26 groups. Nothing is left of what is rough along x alone.
        let rough: Vec<i32> = (0..600).map(|i: i32| (i % 30).pow(5) % 1009).collect();
        let stats = cubic(&rough, &[], &shape);
        assert_eq!((stats.values, stats.zeros), (26 * 16, 26 * 16));
        let mut spike = codes.clone();
        spike[10 * 30 + 5] += 1000;
        let stats = cubic(&spike, &[], &shape);
        assert!(stats.zeros < stats.values);
        // The residuals of a value that does not count are zeros.
        let rough: Vec<i32> = (0..600).map(|i: i32| i * i * i % 1009).collect();
        let stats = cubic(&rough, &[0; 600], &shape);
        assert_eq!(stats.zeros, stats.values);
        // Along axes of up to six values no value has all four neighbours.
        assert_eq!(cubic(&rough, &[], &Shape::new(&[6, 5, 4, 5]).unwrap()).values, 0);
    }

    #[test]
    fn codes_are_rounded_modulo_2_to_the_32_and_missing_ones_marked() {
        let quantizer = Quantizer::new(0.5);
        let values = [0.0, -0.0, 1.25, -7.75, f64::MIN_POSITIVE, 4_294_967_301.0, f64::NAN, f64::INFINITY, -1e300];
        for len in [1, 9, 63, 64, 65, 130] {
            let chunk: Vec<u8> = (0..len).flat_map(|i| values[i % 9].to_be_bytes()).collect();
            let (mut codes, mut without_code) = (vec![0; len], Bitmap::default());
            without_code.clear(len).unwrap();
            low_codes::<f64>(&chunk, ByteOrder::Big, &quantizer, &mut codes, &mut without_code);
            assert_eq!(without_code.indices().collect::<Vec<_>>(), (0..len).filter(|i| i % 9 >= 6).collect::<Vec<_>>());
            for (i, &code) in codes.iter().enumerate().filter(|(i, _)| i % 9 < 6) {
                assert_eq!(code, [0, 0, 1, -8, 0, 5][i % 9], "value {i} of {len}");
            }
        }
    }

    #[test]
    fn codes_from_a_magnitude_on_are_counted() {
        let codes = [0, 511, -511, 512, -512, 513, i32::MIN, i32::MAX];
        assert_eq!((count_from(&codes, 512), count_from(&codes, 0), count_from(&[], 1)), (5, 8, 0));
    }
}
