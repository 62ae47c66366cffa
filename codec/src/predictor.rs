//! Which prediction a chunk gets (FORMAT.md §6, §11): differences along some of its axes, or interpolation. The encoder tries all of them
//! on a few tiles of the chunk and estimates the bits of each.

mod tile;

use self::tile::{COLUMNS, Tiles};
use crate::bitmap::{Bitmap, WORD, bits_where};
use crate::codebook::{LOG_FRACTION, log2_fixed};
use crate::config::{CodingPolicy, Config, PredictorPolicy};
use crate::element::Element;
use crate::error::Result;
use crate::finegrid::FineGrid;
use crate::glance::{Glance, Seen};
use crate::integer::Integer;
use crate::interpolation::{ESCAPE_FROM, Interpolation};
use crate::layout::{ByteOrder, Layout, MAX_RANK};
use crate::lorenzo::Axes;
use crate::mask::Mask;
use crate::memory::resize;
use crate::quantize::{Quantizer, ROUNDING, Value, take_left_neighbours};
use crate::simd::vectorized;

/// How the codes of a chunk are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Codes on the bound's grid, of which differences along these axes are coded.
    Differences(Axes),
    /// Places on the fine grid, predicted by interpolation.
    Interpolation,
}

/// How a plane names interpolation; smaller bytes name axes.
pub const INTERPOLATION: u8 = 0x80;

impl Predictor {
    /// The predictor as a plane names it.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Differences(axes) => axes.to_byte(),
            Self::Interpolation => INTERPOLATION,
        }
    }
}

impl From<Axes> for Predictor {
    fn from(axes: Axes) -> Self {
        Self::Differences(axes)
    }
}

/// Differences beyond this magnitude count as this one: a few spikes are not to decide.
const LARGEST: u32 = 1 << 15;
/// Bits that a value costs which needs a place of its own: an exception or an escape.
const RARE_BITS: u64 = 40;

/// Buffers of the choice.
#[derive(Debug, Default)]
pub struct Chooser {
    interpolation: Interpolation,
    tile: Vec<u8>,
    /// Which of a tile's values count.
    counted: Vec<i32>,
    /// Codes of a tile, then its differences along each set of axes.
    differences: Vec<i32>,
    /// The same where all bits count.
    wide: Vec<i64>,
    residuals: Vec<i32>,
    exceptions: Bitmap,
}

/// What is known of the values that a predictor leaves.
#[derive(Debug, Clone, Copy, Default)]
struct Leftovers {
    values: u64,
    zeros: u64,
    /// Bits of all magnitudes.
    lengths: u64,
    rare: u64,
}

/// Counts of values, a column for each place in a vector: sums over the columns are taken once a tile.
#[derive(Default)]
struct Columns {
    zeros: [u32; COLUMNS],
    lengths: [u32; COLUMNS],
}

impl Columns {
    #[inline(always)]
    fn add(&mut self, values: &[i32]) {
        for ((&value, zeros), lengths) in values.iter().zip(&mut self.zeros).zip(&mut self.lengths) {
            *zeros += u32::from(value == 0);
            // A float's exponent tells the number of bits in vector code as well.
            let magnitude = value.unsigned_abs().min(LARGEST) as f32;
            *lengths += (magnitude.to_bits() >> 23).saturating_sub(126);
        }
    }
}

impl Leftovers {
    /// Adds what was counted of so many values, and of some zeros more.
    #[inline(always)]
    fn add(&mut self, columns: &Columns, values: usize, zeros: usize) {
        self.values += values as u64;
        self.zeros += u64::from(columns.zeros.iter().sum::<u32>()) - zeros as u64;
        self.lengths += u64::from(columns.lengths.iter().sum::<u32>());
    }

    fn with(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            zeros: self.zeros + other.zeros,
            lengths: self.lengths + other.lengths,
            rare: self.rare + other.rare,
        }
    }

    /// Estimate of the bits, in fixed point: the entropy of being zero or not; for others a sign, their bits below the highest, and the
    /// entropy of a geometric distribution of their lengths.
    fn bits(&self) -> u64 {
        let weighted = |count: u64| if count == 0 { 0 } else { count * log2_fixed(count) };
        let nonzero = self.values - self.zeros;
        let whether = weighted(self.values).saturating_sub(weighted(self.zeros) + weighted(nonzero));
        let lengths = weighted(self.lengths).saturating_sub(weighted(self.lengths - nonzero) + weighted(nonzero));
        // A sign takes the place of the highest bit.
        whether + lengths + ((self.lengths + RARE_BITS * self.rare) << LOG_FRACTION)
    }
}

impl Chooser {
    /// The axes for codes of which every bit counts, and the estimate of the bits that they leave of the tiles, in fixed point.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn choose_axes<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        policy: PredictorPolicy,
        code: impl Fn(V) -> i64,
    ) -> Result<(Axes, u64)> {
        let all = Axes::all(&layout.shape);
        let tiles = Tiles::new(&layout.shape);
        let Tiles { sets, flat, .. } = tiles;
        resize(&mut self.wide, tiles.room())?;
        resize(&mut self.tile, tiles.len * V::SIZE)?;
        let counted = tiles.mark_counted(&mut self.counted)? as u64;
        let mut left = [[Leftovers::default(); 1 << MAX_RANK]; 2];
        for tile in 0..tiles.count() {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            for (index, wide) in tiles.codes(&mut self.wide).iter_mut().enumerate() {
                *wide = code(V::read(&self.tile, index, layout.byte_order));
            }
            tiles.differ(&mut self.wide, |set, differences| {
                let left = &mut left[0][set];
                left.values += counted;
                for (&difference, &counted) in differences.as_flattened().iter().zip(&self.counted) {
                    // Differences wrap in the codes' own width.
                    let magnitude = V::Code::from_i64(difference).to_i64().unsigned_abs();
                    let counts = u64::from(counted != 0);
                    left.zeros += counts * u64::from(magnitude == 0);
                    left.lengths += counts * u64::from(u64::BITS - magnitude.leading_zeros());
                }
            });
        }
        let axes = |set: usize| Axes::from_byte(set as u8, &layout.shape).unwrap_or(all);
        let set = match policy {
            PredictorPolicy::Axes(byte) => usize::from(byte) & (sets - 1) & !flat,
            PredictorPolicy::Lorenzo | PredictorPolicy::Interpolation => (sets - 1) & !flat,
            PredictorPolicy::Auto | PredictorPolicy::Differences => best_set(&left, sets, flat),
        };
        Ok((axes(set), left[0][set].bits()))
    }

    /// The predictor for a chunk on an absolute bound's grid, from its values alone.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn choose<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        config: &Config,
    ) -> Result<Predictor> {
        let all = Axes::all(&layout.shape);
        match config.predictor {
            PredictorPolicy::Lorenzo => return Ok(all.into()),
            PredictorPolicy::Axes(byte) => return Ok(Axes::from_byte(byte & all.to_byte(), &layout.shape).unwrap_or(all).into()),
            PredictorPolicy::Interpolation => {
                return Ok(if quantizer.fine::<V>().is_some() { Predictor::Interpolation } else { all.into() });
            }
            PredictorPolicy::Auto | PredictorPolicy::Differences => {}
        }
        let tiles = Tiles::new(&layout.shape);
        // Along an axis of one value there are no differences.
        let Tiles { sets, flat, len, .. } = tiles;
        let shape = tiles.shape();
        resize(&mut self.differences, tiles.room())?;
        let counted = tiles.mark_counted(&mut self.counted)?;
        // Interpolation, which takes longer, is tried on every other tile.
        let mut left = [[Leftovers::default(); 1 << MAX_RANK]; 2];
        let mut interpolated = Leftovers::default();
        let mut fine = FineGrid::<V>::new(quantizer);
        if config.coding == CodingPolicy::Bitshuffle || config.predictor == PredictorPolicy::Differences {
            fine = fine.out_of_reach();
        }
        resize(&mut self.tile, len * V::SIZE)?;
        for tile in 0..tiles.count() {
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
                            left[tile % 2][set].add(&columns, counted, self.counted.len() - counted);
                        },
                    );
                },
            );
            for left in &mut left[tile % 2] {
                left.rare += rare.between_steps;
            }
            if rare.out_of_fine_reach > len / 16 {
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
            vectorized(
                #[inline(always)]
                || {
                    let (mut columns, mut escapes) = (Columns::default(), 0);
                    for residuals in residuals.chunks(COLUMNS) {
                        let mut steps = [0; COLUMNS];
                        for (step, &residual) in steps.iter_mut().zip(residuals) {
                            let is_escape = residual.unsigned_abs() >= ESCAPE_FROM.unsigned_abs();
                            escapes += u32::from(is_escape);
                            *step = if is_escape { 0 } else { residual };
                        }
                        columns.add(&steps[..residuals.len()]);
                    }
                    interpolated.add(&columns, residuals.len(), 0);
                    interpolated.rare += u64::from(escapes);
                },
            );
            interpolated.rare += rare.in_reach(self.exceptions.count());
            // Giving it up where the first tile sees it behind by a quarter or a half spares up to 22 of 65 us a chunk of 64^3, but makes streams 1.6 % or
            // 1.4 % longer over 40 arrays: tiles differ.
        }
        let set = best_set(&left, sets, flat);
        if fine.is_there() && is_less(&interpolated, &left[0][set]) {
            return Ok(Predictor::Interpolation);
        }
        Ok(Axes::from_byte(set as u8, &layout.shape).unwrap_or(all).into())
    }
}

/// The set of axes whose differences have the least estimate, of equals the one with the higher bits.
fn best_set(left: &[[Leftovers; 1 << MAX_RANK]; 2], sets: usize, flat: usize) -> usize {
    let bits = |set: &usize| left[0][*set].with(left[1][*set]).bits();
    (0..sets).rev().filter(|set| set & flat == 0).min_by_key(bits).unwrap_or(0)
}

/// Whether the estimate a value of one is less than another's.
fn is_less(one: &Leftovers, other: &Leftovers) -> bool {
    let product = |left: &Leftovers, other: &Leftovers| u128::from(left.bits()) * u128::from(other.values);
    product(one, other) < product(other, one)
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
    let glance = Glance::new(quantizer);
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
                let seen = glance.map_or(Seen::NOTHING, |glance| V::glance_codes(glance, &part, &mut part_codes));
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
                if fine.is_there() && seen.may_stand_between {
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
