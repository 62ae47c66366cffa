//! Small chunks, of which every value is tried. What the first values along an axis cost is a good part of them, and tiles do not see it: over 40 arrays at
//! three bounds, chunks of 512, 1024, 2048 and 4096 values were 3.9, 3.8, 3.3 and 2.5 % longer than with the best predictor where tiles chose it, and are 0.7,
//! 0.8, 1.0 and 1.1 % longer where this does. What the trials make of the chunk is left in [`Quantized`].

use super::residual_stats::{Columns, Estimate, OfSets, ResidualStats, best_set};
use super::tile::COLUMNS;
use super::{Chooser, OUT_OF_REACH, axes_of, sets_of};
use crate::error::Result;
use crate::layout::Axes;
use crate::layout::{ByteOrder, Layout, Shape};
use crate::memory::resize;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::predict::predictor::Predictor;
use crate::predict::quantized::Quantized;
use crate::quantize::bitmap::{Bitmap, WORD};
use crate::quantize::excluded::Mask;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::fill_gaps;
use crate::quantize::quantizer::Quantizer;
use crate::simd::vectorized;

/// Interpolation is tried if what [`cubic`] says of it is below so many sixteenths of the estimate for differences: then it is mostly better. Below 16 of them,
/// chunks of 4096 values are 0.7 % longer, below 20 they are 0.4 % shorter and take 7 % longer.
const HOPEFUL: u128 = 17;
/// Neighbours of a value on one side that cubic interpolation at the finest level spans.
const REACH: usize = 3;

/// Differences along all sets of axes of the codes that `room` begins with; it has room for all of them. `add` gets those of each set.
fn differ<C: Integer>(room: &mut [C], shape: &Shape, mut add: impl FnMut(usize, &[C])) {
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

/// What cubic interpolation of codes leaves, as the finest level would where all others were given: a stand-in for interpolation that costs as much as one set of
/// axes. Of values with neighbours on both sides, as many as make whole groups. Bits of residuals that do not count are 0 in `counted`, which is empty if all do.
fn cubic(codes: &[i32], counted: &[i32], shape: &Shape) -> ResidualStats {
    let mut left = ResidualStats::default();
    vectorized(
        #[inline(always)]
        || {
            let mut stride = 1;
            for extent in shape.extents() {
                let groups = stride * extent.saturating_sub(2 * REACH) / COLUMNS;
                let (mut columns, mut blocks) = (Columns::default(), 0);
                for start in (0..codes.len()).step_by(stride * extent).filter(|_| groups > 0) {
                    let (before, left) = (groups_of(codes, start, groups), groups_of(codes, start + 2 * stride, groups));
                    let (right, behind) =
                        (groups_of(codes, start + 4 * stride, groups), groups_of(codes, start + 6 * stride, groups));
                    let middle = start + REACH * stride;
                    for (group, here) in groups_of(codes, middle, groups).iter().enumerate() {
                        let mut residuals = [0; COLUMNS];
                        for (i, residual) in residuals.iter_mut().enumerate() {
                            let near = left[group][i].wrapping_add(right[group][i]).wrapping_mul(9);
                            let sum = near.wrapping_sub(before[group][i]).wrapping_sub(behind[group][i]);
                            *residual = here[i].wrapping_sub(sum.wrapping_add(8) >> 4);
                        }
                        if !counted.is_empty() {
                            let counted = &groups_of(counted, middle, groups)[group];
                            residuals.iter_mut().zip(counted).for_each(|(residual, counted)| *residual &= counted);
                        }
                        columns.add(&residuals);
                    }
                    blocks += 1;
                }
                left.add(&columns, blocks * groups * COLUMNS, 0);
                stride *= extent;
            }
        },
    );
    left
}

/// So many groups from a value on.
#[inline(always)]
fn groups_of(values: &[i32], first: usize, groups: usize) -> &[[i32; COLUMNS]] {
    &values[first..][..groups * COLUMNS].as_chunks().0[..groups]
}

impl Chooser {
    /// What codes of which every bit counts leave.
    pub(super) fn try_axes_on_whole<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        code: impl Fn(V) -> i64,
    ) -> Result<OfSets> {
        let elements = layout.shape.elements() as usize;
        resize(&mut self.wide, sets_of(&layout.shape).0 * elements)?;
        for (index, wide) in self.wide[..elements].iter_mut().enumerate() {
            *wide = code(V::read(chunk, index, layout.byte_order));
        }
        let mut left = OfSets::default();
        differ(&mut self.wide, &layout.shape, |set, differences| {
            // Differences wrap in the codes' own width.
            differences.iter().for_each(|&difference| left[set].add_one(V::Code::from_i64(difference).to_i64()));
        });
        Ok(left)
    }

    /// The predictor for a chunk on an absolute bound's grid.
    pub(super) fn try_whole<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        fine: &FineGrid<V>,
        coded: &mut Quantized<'_, V::Code>,
    ) -> Result<Predictor> {
        let shape = &layout.shape;
        let elements = shape.elements() as usize;
        resize(&mut self.differences, sets_of(shape).0 * elements)?;
        self.exceptions.clear(elements)?;
        let codes = &mut self.differences[..elements];
        near_codes::<V>(chunk, layout.byte_order, quantizer, codes, &mut self.exceptions);
        // These are exceptions whatever is predicted.
        let without_code = self.exceptions.count();
        fill_gaps(codes, &self.exceptions, shape.row());
        let mut left = OfSets::default();
        differ(&mut self.differences, shape, |set, differences| {
            left[set] = vectorized(
                #[inline(always)]
                || ResidualStats::of(differences),
            );
        });
        let (set, differences) = best_set(&left, shape);
        let codes = &self.differences[..elements];
        let has_reach = fine.is_there() && number_from(codes, V::STEPS_LIMIT as u32) <= elements / OUT_OF_REACH;
        let stand_in = if has_reach {
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
        let is_hopeful = |differences: &Estimate| {
            stand_in.is_some_and(|stand_in| stand_in.values == 0 || stand_in.is_below(HOPEFUL, differences))
        };
        let mut interpolated = None;
        if is_hopeful(&differences) {
            let estimate = interpolate(chunk, layout, fine, without_code, coded)?;
            if estimate.bits < differences.bits {
                return Ok(Predictor::Interpolation);
            }
            interpolated = Some(estimate);
        }
        coded.quantize::<V>(chunk, layout, quantizer)?;
        // Mostly what interpolation has restored once, and differences would round again: where that is much of the chunk, it had better be interpolated.
        left[set].rare = coded.exceptions.count().saturating_sub(without_code) as u64;
        if left[set].rare == 0 {
            return Ok(axes_of(set, shape).into());
        }
        let differences = left[set].estimate();
        if is_hopeful(&differences) {
            let estimate = match interpolated {
                Some(estimate) => estimate,
                None => interpolate(chunk, layout, fine, without_code, coded)?,
            };
            if estimate.bits < differences.bits {
                return Ok(Predictor::Interpolation);
            }
        }
        Ok(axes_of(set, shape).into())
    }
}

/// Interpolates a chunk of which so many values are exceptions in any case.
fn interpolate<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    fine: &FineGrid<V>,
    without_code: usize,
    coded: &mut Quantized<'_, V::Code>,
) -> Result<Estimate> {
    coded.interpolate(chunk, layout, fine)?;
    let mut left = vectorized(
        #[inline(always)]
        || ResidualStats::of_residuals(&coded.residuals[..layout.shape.elements() as usize]),
    );
    left.rare += coded.residual_exceptions.count().saturating_sub(without_code) as u64;
    Ok(left.estimate())
}

/// Codes of values modulo 2^32, as near as no bound needs, and marks those that have none.
fn near_codes<V: Value>(chunk: &[u8], order: ByteOrder, quantizer: &Quantizer, codes: &mut [i32], without_code: &mut Bitmap) {
    let mask = Mask::<V>::new(quantizer, V::CODE_LIMIT);
    vectorized(
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

/// How many codes are of a magnitude or more.
fn number_from(codes: &[i32], magnitude: u32) -> usize {
    vectorized(
        #[inline(always)]
        || codes.iter().fold(0u32, |count, code| count + u32::from(code.unsigned_abs() >= magnitude)),
    ) as usize
}
