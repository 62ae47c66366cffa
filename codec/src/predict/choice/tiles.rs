//! Chunks of which a few tiles are tried.

use crate::predict::predictor::Predictor;
use std::ops::Range;

use super::residual_stats::{Columns, OfSets, ResidualStats, best_set};
use super::tile::{COLUMNS, TILES, Tiles};
use super::{Chooser, Fork, OUT_OF_REACH, axes_of};
use crate::error::{Error, Result};
use crate::layout::{ByteOrder, Layout};
use crate::memory::{push, resize};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::{Bitmap, WORD, bits_where};
use crate::quantize::excluded::Mask;
use crate::quantize::fast_f32::{FastF32, FastResult};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::take_left_neighbours;
use crate::quantize::quantizer::Quantizer;
use crate::simd::vectorized;

impl Chooser {
    /// What codes of which every bit counts leave of the tiles.
    pub(super) fn try_axes_on_tiles<V: Element>(
        &mut self,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        code: impl Fn(V) -> i64,
    ) -> Result<OfSets> {
        resize(&mut self.wide, tiles.room())?;
        resize(&mut self.tile, tiles.len * V::SIZE)?;
        tiles.mark_counted(&mut self.counted)?;
        let mut left = OfSets::default();
        for tile in 0..TILES {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            for (index, wide) in tiles.codes(&mut self.wide).iter_mut().enumerate() {
                *wide = code(V::read(&self.tile, index, layout.byte_order));
            }
            tiles.differ(&mut self.wide, |set, differences| {
                for (&difference, _) in differences.as_flattened().iter().zip(&self.counted).filter(|(_, counted)| **counted != 0)
                {
                    // Differences wrap in the codes' own width.
                    left[set].add_one(V::Code::from_i64(difference).to_i64());
                }
            });
        }
        Ok(left)
    }

    /// The predictor for a chunk on an absolute bound's grid.
    pub(super) fn try_tiles<V: Value>(
        &mut self,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        fine: FineGrid<V>,
        fork: Option<&mut Fork<'_>>,
    ) -> Result<Predictor> {
        let found = match fork {
            None => self.look_at::<V>(0..TILES, tiles, chunk, layout, quantizer, fine)?,
            Some(both) => {
                // A vector of one: a box cannot be refused.
                let mut room = self.second.take().unwrap_or_default();
                if room.is_empty() {
                    push(&mut room, Chooser::default())?;
                }
                let second = &mut room[0];
                let (mut of_first, mut of_second) = (None, None);
                both(
                    &mut || of_first = Some(self.look_at::<V>(0..TILES / 2, tiles, chunk, layout, quantizer, fine)),
                    &mut || of_second = Some(second.look_at::<V>(TILES / 2..TILES, tiles, chunk, layout, quantizer, fine)),
                );
                self.second = Some(room);
                let undone = || Error::invalid("a choice on two threads was not carried out");
                of_first.ok_or_else(undone)??.with(&of_second.ok_or_else(undone)??)
            }
        };
        let left = found.left();
        let (set, _) = best_set(&sum_of(&left), &layout.shape);
        if found.is_fine && found.interpolated.estimate().is_below(16, &left[0][set].estimate()) {
            return Ok(Predictor::Interpolation);
        }
        Ok(axes_of(set, &layout.shape).into())
    }

    /// What is to be seen of some tiles.
    fn look_at<V: Value>(
        &mut self,
        numbers: Range<usize>,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        mut fine: FineGrid<V>,
    ) -> Result<Found> {
        let len = tiles.len;
        let shape = tiles.shape();
        resize(&mut self.differences, tiles.room())?;
        let counted = tiles.mark_counted(&mut self.counted)?;
        let mut found = Found::default();
        resize(&mut self.tile, len * V::SIZE)?;
        for tile in numbers {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            let codes = tiles.codes(&mut self.differences);
            self.exceptions.clear(len)?;
            let rare = self::codes::<V>(&self.tile, layout.byte_order, quantizer, &fine, codes, &mut self.exceptions);
            take_left_neighbours(codes, &self.exceptions, tiles.extents[0], |_| 0);
            let masks = self.counted.as_chunks::<COLUMNS>().0;
            vectorized(
                #[inline(always)]
                || {
                    tiles.differ(
                        &mut self.differences,
                        #[inline(always)]
                        |set, differences| {
                            let mut columns = Columns::default();
                            for (differences, masks) in differences.iter().zip(masks) {
                                columns.add(&std::array::from_fn::<_, COLUMNS, _>(|i| differences[i] & masks[i]));
                            }
                            found.differences[tile % 2][set].add(&columns, counted, self.counted.len() - counted);
                        },
                    );
                },
            );
            found.between_steps[tile % 2] += rare.between_steps;
            if rare.out_of_fine_reach > len / OUT_OF_REACH {
                fine = fine.out_of_reach();
            }
            if !fine.is_there() || tile % 2 == 1 {
                continue;
            }
            self.exceptions.clear(len)?;
            let Self { interpolation, tile, residuals, exceptions, .. } = self;
            interpolation.forward(tile, layout.byte_order, &shape, &fine, residuals, exceptions)?;
            // The coarsest values are few in a chunk and many in a tile.
            let residuals = &self.residuals[tiles.coarse_values()..len];
            let left = vectorized(
                #[inline(always)]
                || ResidualStats::of_residuals(residuals),
            );
            found.interpolated = found.interpolated.with(left);
            found.interpolated.rare += rare.in_reach(self.exceptions.count());
            // Giving it up where the first tile sees it behind by a quarter or a half spares up to 22 of 65 us a chunk of 64^3, but makes streams 1.6 % or
            // 1.4 % longer over 40 arrays: tiles differ.
        }
        found.is_fine = fine.is_there();
        Ok(found)
    }
}

/// What is seen of some tiles.
#[derive(Default)]
struct Found {
    /// Of even and odd tiles.
    differences: [OfSets; 2],
    between_steps: [u64; 2],
    /// What interpolation, which takes longer, leaves of even tiles.
    interpolated: ResidualStats,
    /// The fine grid is in reach.
    is_fine: bool,
}

impl Found {
    /// With that of other tiles. One thread would not ask for a fine grid any more where tiles before have seen that it is out of reach, two may: then
    /// interpolation is not chosen anyhow, and values between steps cost all sets of axes alike.
    fn with(mut self, other: &Self) -> Self {
        for (differences, other) in self.differences.as_flattened_mut().iter_mut().zip(other.differences.as_flattened()) {
            *differences = differences.with(*other);
        }
        for (between_steps, other) in self.between_steps.iter_mut().zip(other.between_steps) {
            *between_steps += other;
        }
        self.interpolated = self.interpolated.with(other.interpolated);
        self.is_fine &= other.is_fine;
        self
    }

    /// What differences leave of even and odd tiles.
    fn left(&self) -> [OfSets; 2] {
        let mut left = self.differences;
        for (left, between_steps) in left.iter_mut().zip(self.between_steps) {
            for left in left {
                left.rare += between_steps;
            }
        }
        left
    }
}

/// Of even and odd tiles together.
fn sum_of(left: &[OfSets; 2]) -> OfSets {
    std::array::from_fn(|set| left[0][set].with(left[1][set]))
}

/// Values that are looked at together.
const PART: usize = WORD;

/// Values of a tile that cost more than others.
#[derive(Debug, Clone, Copy, Default)]
struct Rare {
    /// Interpolation has restored them, or seems to: exceptions where differences are coded.
    between_steps: u64,
    /// Exceptions of interpolation alone.
    out_of_fine_reach: usize,
    /// Exceptions in any case.
    out_of_reach: usize,
}

impl Rare {
    /// Exceptions of interpolation that are none otherwise.
    fn in_reach(self, exceptions: usize) -> u64 {
        exceptions.saturating_sub(self.out_of_reach) as u64
    }
}

/// Codes of a tile's values, modulo 2^32. Those without one are marked in `without_code`, zeros so far, and left to [`take_left_neighbours`].
fn codes<V: Value>(
    values: &[u8],
    order: ByteOrder,
    quantizer: &Quantizer,
    fine: &FineGrid<V>,
    codes: &mut [i32],
    without_code: &mut Bitmap,
) -> Rare {
    let mut rare = Rare::default();
    let below_limit = V::STEPS_LIMIT.to_bits().wrapping_sub(1);
    let glance = FastF32::new(quantizer);
    let mask = Mask::<V>::new(quantizer, V::CODE_LIMIT);
    vectorized(
        #[inline(always)]
        || {
            for (index, (values, codes)) in values.chunks(PART * V::SIZE).zip(codes.chunks_mut(PART)).enumerate() {
                let (mut all, mut part, mut part_codes) =
                    ([V::default(); PART], [V::default(); PART], [V::Code::default(); PART]);
                V::read_all(values, order, &mut all);
                mask.fill_up(&mut all, codes.len());
                let mut without = if mask.covers_any(&all) { mask.bits(&all) } else { 0 };
                mask.replace_beyond(&all, &mut part);
                let mut doubts = 0;
                let seen = glance.map_or(FastResult::NOTHING, |glance| glance.codes(&part, &mut part_codes));
                if !seen.codes_are_certain {
                    for (value, code) in part.iter().zip(&mut part_codes) {
                        let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
                        *code = V::code_from_sum(sum);
                        doubts |= below_limit.wrapping_sub((sum - ROUNDING).abs().to_bits());
                    }
                }
                let (mut low_codes, mut far) = ([0; PART], 0);
                for (code, part_code) in low_codes.iter_mut().zip(&part_codes) {
                    *code = part_code.to_i64() as i32;
                    far |= (V::STEPS_LIMIT as i32 - 1).wrapping_sub(code.wrapping_abs());
                }
                codes.copy_from_slice(&low_codes[..codes.len()]);
                doubts |= i64::from(far).cast_unsigned();
                if fine.is_there() && seen.may_be_between_steps {
                    for &value in &part {
                        let steps = value.to_f64() * quantizer.inverse_step() + ROUNDING - ROUNDING;
                        rare.between_steps += fine.between_steps_sign(value, steps) >> 63;
                    }
                }
                if doubts >> 63 == 1 {
                    let part = &part[..codes.len()];
                    let inverse_step = quantizer.inverse_step();
                    // NaN has none.
                    without |= !bits_where(
                        part,
                        #[inline(always)]
                        |value| (value.to_f64() * inverse_step).abs() < V::CODE_LIMIT,
                    );
                    let far = bits_where(
                        part,
                        #[inline(always)]
                        |value| (value.to_f64() * inverse_step).abs() >= V::STEPS_LIMIT,
                    );
                    rare.out_of_fine_reach += (far & !without).count_ones() as usize;
                }
                // Not those of what fills the part up.
                without_code.set_word(index, without & u64::MAX >> (PART - codes.len()));
            }
        },
    );
    rare.out_of_reach = without_code.count();
    rare
}
