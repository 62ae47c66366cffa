//! The choice of the predictor for chunks that are large enough for a sample of tiles.

use crate::predict::predictor::Predictor;
use std::ops::Range;

use super::residual_stats::{ColumnSums, ResidualStats, StatsOfSets, best_set};
use super::tile::{COLUMNS, SAMPLED_TILES, Tiles};
use super::{Chooser, Fork, VALUES_PER_VALUE_OUT_OF_REACH, axes_of};
use crate::error::{Error, Result};
use crate::layout::{ByteOrder, Layout};
use crate::memory::{push, resize};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::{Bitmap, WORD, bits_where};
use crate::quantize::excluded::Excluded;
use crate::quantize::fast_f32::{FastF32, FastResult};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::take_left_neighbours;
use crate::quantize::quantizer::Quantizer;
use crate::simd::vectorized;

impl Chooser {
    /// Statistics of the differences of 64-bit codes over all tiles.
    pub(super) fn try_axes_on_tiles<V: Element>(
        &mut self,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        code: impl Fn(V) -> i64,
    ) -> Result<StatsOfSets> {
        resize(&mut self.differences_64, tiles.room())?;
        resize(&mut self.tile, tiles.len * V::SIZE)?;
        tiles.mark_counted(&mut self.counted)?;
        let mut stats = StatsOfSets::default();
        for tile in 0..SAMPLED_TILES {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            for (index, slot) in tiles.codes(&mut self.differences_64).iter_mut().enumerate() {
                *slot = code(V::read(&self.tile, index, layout.byte_order));
            }
            tiles.for_each_set(&mut self.differences_64, |set, differences| {
                for (&difference, _) in differences.as_flattened().iter().zip(&self.counted).filter(|(_, counted)| **counted != 0)
                {
                    // Differences wrap to the width of the type's codes.
                    stats[set].add_one(V::Code::from_i64(difference).to_i64());
                }
            });
        }
        Ok(stats)
    }

    /// The predictor for a chunk on an absolute bound's rounding grid.
    pub(super) fn try_tiles<V: Value>(
        &mut self,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        fine: FineGrid<V>,
        fork: Option<&mut Fork<'_>>,
    ) -> Result<Predictor> {
        let stats = match fork {
            None => self.measure_tiles::<V>(0..SAMPLED_TILES, tiles, chunk, layout, quantizer, fine)?,
            Some(fork) => {
                // The vector has one element. A box would end the process if it could not be allocated.
                let mut room = self.second.take().unwrap_or_default();
                if room.is_empty() {
                    push(&mut room, Chooser::default())?;
                }
                let second = &mut room[0];
                let (mut of_first, mut of_second) = (None, None);
                fork(
                    &mut || of_first = Some(self.measure_tiles::<V>(0..SAMPLED_TILES / 2, tiles, chunk, layout, quantizer, fine)),
                    &mut || {
                        of_second = Some(second.measure_tiles::<V>(
                            SAMPLED_TILES / 2..SAMPLED_TILES,
                            tiles,
                            chunk,
                            layout,
                            quantizer,
                            fine,
                        ))
                    },
                );
                self.second = Some(room);
                let undone = || Error::invalid("the fork that chooses the predictor must run both of its jobs");
                of_first.ok_or_else(undone)??.plus(&of_second.ok_or_else(undone)??)
            }
        };
        let differences = stats.differences_with_outliers();
        let (set, _) = best_set(&sum_of(&differences), &layout.shape);
        if stats.fine_grid_in_reach && stats.interpolated.estimate().is_below(16, &differences[0][set].estimate()) {
            return Ok(Predictor::Interpolation);
        }
        Ok(axes_of(set, &layout.shape).into())
    }

    /// Measures the tiles with these numbers.
    fn measure_tiles<V: Value>(
        &mut self,
        numbers: Range<usize>,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        mut fine: FineGrid<V>,
    ) -> Result<TileStats> {
        let len = tiles.len;
        let shape = tiles.shape();
        resize(&mut self.differences, tiles.room())?;
        let counted = tiles.mark_counted(&mut self.counted)?;
        let mut stats = TileStats::default();
        resize(&mut self.tile, len * V::SIZE)?;
        for tile in numbers {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            let codes = tiles.codes(&mut self.differences);
            self.exceptions.clear(len)?;
            let outliers = self::codes::<V>(&self.tile, layout.byte_order, quantizer, &fine, codes, &mut self.exceptions);
            take_left_neighbours(codes, &self.exceptions, tiles.extents[0], |_| 0);
            let masks = self.counted.as_chunks::<COLUMNS>().0;
            vectorized(
                #[inline(always)]
                || {
                    tiles.for_each_set(
                        &mut self.differences,
                        #[inline(always)]
                        |set, differences| {
                            let mut columns = ColumnSums::default();
                            for (differences, masks) in differences.iter().zip(masks) {
                                columns.add(&std::array::from_fn::<_, COLUMNS, _>(|i| differences[i] & masks[i]));
                            }
                            stats.differences[tile % 2][set].add(&columns, counted, self.counted.len() - counted);
                        },
                    );
                },
            );
            stats.between_steps[tile % 2] += outliers.between_steps;
            if outliers.out_of_fine_reach > len / VALUES_PER_VALUE_OUT_OF_REACH {
                fine = fine.without_positions();
            }
            if !fine.has_positions() || tile % 2 == 1 {
                continue;
            }
            self.exceptions.clear(len)?;
            let Self { interpolation, tile, residuals, exceptions, .. } = self;
            interpolation.forward(tile, layout.byte_order, &shape, &fine, residuals, exceptions)?;
            // The share of the coarse levels is small in a chunk, but large in a tile: their values do not count.
            let residuals = &self.residuals[tiles.coarse_values()..len];
            let of_tile = vectorized(
                #[inline(always)]
                || ResidualStats::of_residuals(residuals),
            );
            stats.interpolated = stats.interpolated.plus(of_tile);
            stats.interpolated.outliers += outliers.with_code(self.exceptions.count());
            // The first tile alone does not decide against interpolation: streams would be longer (docs/design-notes.md, "Choice of the predictor").
        }
        stats.fine_grid_in_reach = fine.has_positions();
        Ok(stats)
    }
}

/// Statistics of some tiles.
#[derive(Default)]
struct TileStats {
    /// Statistics of the differences of tiles with even and with odd numbers.
    differences: [StatsOfSets; 2],
    /// Number of values between two steps of the fine grid, in tiles with even and with odd numbers. They are exceptions of differences.
    between_steps: [u64; 2],
    /// Statistics of the residuals of interpolation, of tiles with even numbers: interpolation takes longer than differences.
    interpolated: ResidualStats,
    /// Whether enough values are in the fine grid's reach.
    fine_grid_in_reach: bool,
}

impl TileStats {
    /// Adds the statistics of other tiles. A thread that has found the fine grid out of reach no longer counts values between steps, but a second thread
    /// may. Two threads nevertheless choose as one does: interpolation is not chosen then, and these values add equally to the estimates of all sets of axes.
    fn plus(mut self, other: &Self) -> Self {
        for (differences, other) in self.differences.as_flattened_mut().iter_mut().zip(other.differences.as_flattened()) {
            *differences = differences.plus(*other);
        }
        for (between_steps, other) in self.between_steps.iter_mut().zip(other.between_steps) {
            *between_steps += other;
        }
        self.interpolated = self.interpolated.plus(other.interpolated);
        self.fine_grid_in_reach &= other.fine_grid_in_reach;
        self
    }

    /// Statistics of the differences of tiles with even and with odd numbers. Values between steps are counted as outliers.
    fn differences_with_outliers(&self) -> [StatsOfSets; 2] {
        let mut stats = self.differences;
        for (stats, between_steps) in stats.iter_mut().zip(self.between_steps) {
            for stats in stats {
                stats.outliers += between_steps;
            }
        }
        stats
    }
}

/// The sum of the statistics of tiles with even and with odd numbers.
fn sum_of(stats: &[StatsOfSets; 2]) -> StatsOfSets {
    std::array::from_fn(|set| stats[0][set].plus(stats[1][set]))
}

/// Number of values that are quantized at once.
const PART_LEN: usize = WORD;

/// Numbers of values of a tile that need more than a residual.
#[derive(Debug, Clone, Copy, Default)]
struct Outliers {
    /// Number of values between two steps of the fine grid. Most of them were restored by an earlier interpolation. They are exceptions of differences.
    between_steps: u64,
    /// Number of values with a code, but out of the fine grid's reach. They are exceptions of interpolation alone.
    out_of_fine_reach: usize,
    /// Number of values without a code. They are exceptions of every predictor.
    without_code: usize,
}

impl Outliers {
    /// The number of exceptions of interpolation that have a code, of `exceptions` in all.
    fn with_code(self, exceptions: usize) -> u64 {
        exceptions.saturating_sub(self.without_code) as u64
    }
}

/// Writes the codes of a tile's values, modulo 2^32. Sets the bits of values without a code in `without_code`, whose bits must be 0;
/// [`take_left_neighbours`] then fills their codes.
fn codes<V: Value>(
    values: &[u8],
    order: ByteOrder,
    quantizer: &Quantizer,
    fine: &FineGrid<V>,
    codes: &mut [i32],
    without_code: &mut Bitmap,
) -> Outliers {
    let mut outliers = Outliers::default();
    let below_limit = V::STEPS_LIMIT.to_bits().wrapping_sub(1);
    let fast_f32 = FastF32::new(quantizer);
    let mask = Excluded::<V>::new(quantizer, V::CODE_LIMIT);
    vectorized(
        #[inline(always)]
        || {
            for (index, (values, codes)) in values.chunks(PART_LEN * V::SIZE).zip(codes.chunks_mut(PART_LEN)).enumerate() {
                let (mut all, mut part, mut part_codes) =
                    ([V::default(); PART_LEN], [V::default(); PART_LEN], [V::Code::default(); PART_LEN]);
                V::read_all(values, order, &mut all);
                mask.fill_up(&mut all, codes.len());
                let mut without = if mask.covers_any(&all) { mask.bits(&all) } else { 0 };
                mask.replace_beyond(&all, &mut part);
                // Bit 63 is set if any value may have no code, or none on the fine grid.
                let mut uncertain = 0;
                let fast = fast_f32.map_or(FastResult::NOTHING, |fast_f32| fast_f32.codes(&part, &mut part_codes));
                if !fast.codes_are_certain {
                    for (value, code) in part.iter().zip(&mut part_codes) {
                        let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
                        *code = V::code_from_sum(sum);
                        uncertain |= below_limit.wrapping_sub((sum - ROUNDING).abs().to_bits());
                    }
                }
                let (mut low_codes, mut beyond_steps) = ([0; PART_LEN], 0);
                for (code, part_code) in low_codes.iter_mut().zip(&part_codes) {
                    *code = part_code.to_i64() as i32;
                    beyond_steps |= (V::STEPS_LIMIT as i32 - 1).wrapping_sub(code.wrapping_abs());
                }
                codes.copy_from_slice(&low_codes[..codes.len()]);
                uncertain |= i64::from(beyond_steps).cast_unsigned();
                if fine.has_positions() && fast.may_be_between_steps {
                    for &value in &part {
                        let steps = value.to_f64() * quantizer.inverse_step() + ROUNDING - ROUNDING;
                        outliers.between_steps += fine.between_steps_sign(value, steps) >> 63;
                    }
                }
                if uncertain >> 63 == 1 {
                    let part = &part[..codes.len()];
                    let inverse_step = quantizer.inverse_step();
                    // The comparison is false for NaN, which has no code.
                    without |= !bits_where(
                        part,
                        #[inline(always)]
                        |value| (value.to_f64() * inverse_step).abs() < V::CODE_LIMIT,
                    );
                    let beyond_steps = bits_where(
                        part,
                        #[inline(always)]
                        |value| (value.to_f64() * inverse_step).abs() >= V::STEPS_LIMIT,
                    );
                    outliers.out_of_fine_reach += (beyond_steps & !without).count_ones() as usize;
                }
                // The bits of padding values are cleared.
                without_code.set_word(index, without & u64::MAX >> (PART_LEN - codes.len()));
            }
        },
    );
    outliers.without_code = without_code.count();
    outliers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of values on a grid of step 1, the numbers of outliers, and the indices of values without a code.
    fn codes_of<V: Value>(values: &[V]) -> (Vec<i32>, Outliers, Vec<usize>) {
        let quantizer = Quantizer::new(0.5);
        let fine = FineGrid::<V>::new(&quantizer);
        let mut bytes = vec![0; values.len() * V::SIZE];
        values.iter().enumerate().for_each(|(i, value)| value.write(&mut bytes, i, ByteOrder::Big));
        let (mut codes, mut without_code) = (vec![0; values.len()], Bitmap::default());
        without_code.clear(values.len()).unwrap();
        let outliers = super::codes::<V>(&bytes, ByteOrder::Big, &quantizer, &fine, &mut codes, &mut without_code);
        (codes, outliers, without_code.indices().collect())
    }

    fn outliers_are_counted<V: Value>() {
        let limit = V::STEPS_LIMIT;
        for len in (1..140).chain([509, 512, 513]) {
            // Steps, eighths of steps, values out of the fine grid's reach, values without a code.
            let cases = [2.0, -7.0, 3.375, -0.0, limit, -limit - 1.0, f64::NAN, f64::INFINITY, -1e300, 4.125];
            let case = |i: usize| (i * i + i / 3) % cases.len();
            let values: Vec<V> = (0..len).map(|i| V::round_from(cases[case(i)])).collect();
            let (codes, outliers, without_code) = codes_of(&values);
            let of = |wanted: &[usize]| (0..len).filter(|&i| wanted.contains(&case(i))).collect::<Vec<_>>();
            assert_eq!(without_code, of(&[6, 7, 8]), "{len} values");
            assert_eq!(outliers.without_code, of(&[6, 7, 8]).len());
            assert_eq!(outliers.out_of_fine_reach, of(&[4, 5]).len());
            assert_eq!(outliers.between_steps, of(&[2, 9]).len() as u64);
            assert_eq!(outliers.with_code(of(&[4, 5, 6, 7, 8]).len()), of(&[4, 5]).len() as u64);
            for i in of(&[0, 1, 2, 3, 4, 5, 9]) {
                assert_eq!(codes[i], cases[case(i)].round_ties_even() as i32, "{len} values, value {i}");
            }
        }
    }

    #[test]
    fn outliers_of_tiles_are_counted() {
        outliers_are_counted::<f32>();
        outliers_are_counted::<f64>();
    }

    #[test]
    fn statistics_of_two_halves_are_those_of_all_tiles() {
        let stats = |values| ResidualStats { values, zeros: 1, magnitude_bits: 2 * values, outliers: 0 };
        let of = |values, between_steps, fine_grid_in_reach| TileStats {
            differences: [[stats(values); 16], [stats(values + 1); 16]],
            between_steps,
            interpolated: stats(values),
            fine_grid_in_reach,
        };
        let sum = of(10, [1, 2], true).plus(&of(20, [30, 40], true));
        assert!(sum.fine_grid_in_reach && !of(10, [0; 2], true).plus(&of(20, [0; 2], false)).fine_grid_in_reach);
        assert_eq!(sum.interpolated.values, 30);
        let [even, odd] = sum.differences_with_outliers();
        assert_eq!((even[5].values, even[5].outliers, odd[5].values, odd[5].outliers), (30, 31, 32, 42));
        let all = sum_of(&[even, odd]);
        assert_eq!((all[5].values, all[5].zeros, all[5].outliers), (62, 4, 73));
    }
}
