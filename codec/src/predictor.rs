//! Which prediction a chunk gets (FORMAT.md §6, §11): differences along some of its axes, or interpolation. The encoder tries all of them
//! on a few tiles of the chunk and estimates the bits of each.

use crate::bitmap::Bitmap;
use crate::codebook::{LOG_FRACTION, log2_fixed};
use crate::config::{CodingPolicy, Config, PredictorPolicy};
use crate::element::Element;
use crate::error::Result;
use crate::finegrid::FineGrid;
use crate::glance::{Glance, Seen};
use crate::integer::Integer;
use crate::interpolation::{ESCAPE_FROM, Interpolation};
use crate::layout::{ByteOrder, Layout, MAX_RANK, Shape};
use crate::lorenzo::Axes;
use crate::memory::resize;
use crate::quantize::{Quantizer, ROUNDING, Value};
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

/// Most tiles of a chunk that are tried.
const TILES: usize = 8;
/// How much longer than its other sides a tile's rows are: long rows go faster.
const LONGER: usize = 2;
/// About so many values a tile.
const TILE_VALUES: usize = 512;
/// Differences beyond this magnitude count as this one: a few spikes are not to decide.
const LARGEST: u32 = 1 << 15;
/// Bits that a value costs which needs a place of its own: an exception or an escape.
const RARE_BITS: u64 = 40;

/// Rows of a tile have as many differences, where the chunk allows it.
const COLUMNS: usize = 16;

/// Buffers of the choice.
#[derive(Debug, Default)]
pub struct Chooser {
    interpolation: Interpolation,
    tile: Vec<u8>,
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

/// Counts of a tile, a column for each place in a vector: sums over the columns are taken once a tile.
#[derive(Default)]
struct Columns {
    values: u64,
    zeros: [u32; COLUMNS],
    lengths: [u32; COLUMNS],
}

impl Columns {
    #[inline(always)]
    fn add(&mut self, row: &[i32]) {
        self.values += row.len() as u64;
        let (rows, rest) = row.as_chunks::<COLUMNS>();
        rows.iter().for_each(|row| self.add_to_columns(row));
        self.add_to_columns(rest);
    }

    #[inline(always)]
    fn add_to_columns(&mut self, row: &[i32]) {
        for ((&value, zeros), lengths) in row.iter().zip(&mut self.zeros).zip(&mut self.lengths) {
            *zeros += u32::from(value == 0);
            // A float's exponent tells the number of bits in vector code as well.
            let magnitude = value.unsigned_abs().min(LARGEST) as f32;
            *lengths += (magnitude.to_bits() >> 23).saturating_sub(126);
        }
    }
}

impl Leftovers {
    #[inline(always)]
    fn add(&mut self, columns: &Columns) {
        self.values += columns.values;
        self.zeros += u64::from(columns.zeros.iter().sum::<u32>());
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
        let whole = layout.shape.extents();
        let extents = tile_extents(whole);
        let len: usize = extents.iter().product();
        let sets = usize::from(all.to_byte()) + 1;
        let flat = flat_axes(extents);
        resize(&mut self.wide, sets * len)?;
        resize(&mut self.tile, len * V::SIZE)?;
        let mut left = [[Leftovers::default(); 1 << MAX_RANK]; 2];
        for tile in 0..tile_count(whole, len) {
            copy_tile(chunk, V::SIZE, whole, extents, tile, &mut self.tile);
            for (index, wide) in self.wide[..len].iter_mut().enumerate() {
                *wide = code(V::read(&self.tile, index, layout.byte_order));
            }
            differ(&mut self.wide, len, extents, sets, |set, row| {
                let left = &mut left[0][set];
                left.values += row.len() as u64;
                for &difference in row {
                    // Differences wrap in the codes' own width.
                    let magnitude = V::Code::from_i64(difference).to_i64().unsigned_abs();
                    left.zeros += u64::from(magnitude == 0);
                    left.lengths += u64::from(u64::BITS - magnitude.leading_zeros());
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
        let whole = layout.shape.extents();
        let extents = tile_extents(whole);
        let len: usize = extents.iter().product();
        let sets = usize::from(all.to_byte()) + 1;
        // Along an axis of one value there are no differences.
        let flat = flat_axes(extents);
        resize(&mut self.differences, sets * len)?;
        // Interpolation, which takes longer, is tried on every other tile.
        let mut left = [[Leftovers::default(); 1 << MAX_RANK]; 2];
        let mut interpolated = Leftovers::default();
        let mut fine = FineGrid::<V>::new(quantizer);
        if config.coding == CodingPolicy::Bitshuffle || config.predictor == PredictorPolicy::Differences {
            fine = fine.out_of_reach();
        }
        resize(&mut self.tile, len * V::SIZE)?;
        for tile in 0..tile_count(whole, len) {
            copy_tile(chunk, V::SIZE, whole, extents, tile, &mut self.tile);
            let rare = codes::<V>(&self.tile, layout.byte_order, quantizer, &fine, &mut self.differences[..len], extents[0]);
            vectorized(
                #[inline(always)]
                || {
                    let mut columns = [(); 1 << MAX_RANK].map(|()| Columns::default());
                    differ(
                        &mut self.differences,
                        len,
                        extents,
                        sets,
                        #[inline(always)]
                        |set, row| columns[set].add(row),
                    );
                    for (left, columns) in left[tile % 2].iter_mut().zip(&columns) {
                        left.add(columns);
                    }
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
            let shape = tile_shape(extents);
            let Self { interpolation, tile, residuals, exceptions, .. } = self;
            interpolation.forward(tile, layout.byte_order, &shape, &fine, residuals, exceptions)?;
            // The coarsest values are few in a chunk and many in a tile.
            let residuals = &mut self.residuals[coarse_values(extents)..len];
            for residual in &mut *residuals {
                if residual.unsigned_abs() >= ESCAPE_FROM.unsigned_abs() {
                    interpolated.rare += 1;
                    *residual = 0;
                }
            }
            vectorized(
                #[inline(always)]
                || {
                    let mut columns = Columns::default();
                    columns.add(residuals);
                    interpolated.add(&columns);
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

/// Extents of a tile: about [`TILE_VALUES`] values, as even as the chunk allows. One value more than a power of two lets interpolation end
/// on a known value, as most of a chunk's values see it.
fn tile_extents(whole: [usize; MAX_RANK]) -> [usize; MAX_RANK] {
    let mut side = [1; MAX_RANK];
    while side.iter().product::<usize>() < TILE_VALUES {
        let growing = (0..MAX_RANK)
            .filter(|&axis| side[axis] < whole[axis])
            .min_by_key(|&axis| if axis == 0 { side[0] / LONGER } else { side[axis] });
        let Some(axis) = growing else { break };
        side[axis] *= 2;
    }
    std::array::from_fn(|axis| if side[axis] == 1 { 1 } else { (side[axis] + 1).min(whole[axis]) })
}

/// Tiles that are tried: those of a small chunk would be the same values again and again. A quarter as many in chunks below 32 tiles makes chunks of 4096 values
/// twice as fast to compress, but 1.3 to 1.9 % longer over 40 arrays, the worst of them by a fifth; half as many 1.3 to 1.4 times as fast, and 0.7 % longer.
fn tile_count(whole: [usize; MAX_RANK], tile: usize) -> usize {
    (whole.iter().product::<usize>() / tile).clamp(1, TILES)
}

/// Axes along which there is but one value.
fn flat_axes(extents: [usize; MAX_RANK]) -> usize {
    (0..MAX_RANK).filter(|&axis| extents[axis] == 1).fold(0, |set, axis| set | 1 << axis)
}

fn tile_shape(extents: [usize; MAX_RANK]) -> Shape {
    let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| extents[MAX_RANK - 1 - axis] as u64);
    #[expect(clippy::unwrap_used, reason = "four small extents above 0")]
    Shape::new(&dims).unwrap()
}

/// Values of a tile's grid of every fourth value.
fn coarse_values(extents: [usize; MAX_RANK]) -> usize {
    extents.iter().map(|extent| extent.div_ceil(4)).product()
}

/// Where tiles begin along the axes, in thirds of the way.
const ORIGINS: [[usize; MAX_RANK]; TILES] =
    [[0, 1, 2, 3], [1, 3, 0, 2], [2, 0, 3, 1], [3, 2, 1, 0], [0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 0, 0, 1]];

/// Copies a tile's values.
fn copy_tile(chunk: &[u8], size: usize, whole: [usize; MAX_RANK], extents: [usize; MAX_RANK], tile: usize, values: &mut [u8]) {
    let origin: [usize; MAX_RANK] = std::array::from_fn(|axis| (whole[axis] - extents[axis]) * ORIGINS[tile][axis] / 3);
    let [len, ny, nz, _] = extents;
    for (row, values) in values.chunks_exact_mut(len * size).enumerate() {
        let (y, z, w) = (row % ny + origin[1], row / ny % nz + origin[2], row / ny / nz + origin[3]);
        let first = ((w * whole[2] + z) * whole[1] + y) * whole[0] + origin[0];
        values.copy_from_slice(&chunk[first * size..(first + len) * size]);
    }
}

/// Values that are looked at together.
const PART: usize = 64;

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

/// Codes of a tile's values, modulo 2^32; values without one take their left neighbour's.
fn codes<V: Value>(
    values: &[u8],
    order: ByteOrder,
    quantizer: &Quantizer,
    fine: &FineGrid<V>,
    codes: &mut [i32],
    row: usize,
) -> Rare {
    let mut rare = Rare::default();
    let below_limit = V::STEPS_LIMIT.to_bits().wrapping_sub(1);
    let glance = Glance::new(quantizer);
    vectorized(
        #[inline(always)]
        || {
            let mut doubts = 0;
            for (values, codes) in values.chunks(PART * V::SIZE).zip(codes.chunks_mut(PART)) {
                let (mut part, mut part_codes) = ([V::default(); PART], [V::Code::default(); PART]);
                V::read_all(values, order, &mut part);
                // Not what fills the part up: zeros stand on a place.
                let part = &part[..codes.len()];
                let seen = glance.map_or(Seen::NOTHING, |glance| V::glance_codes(glance, part, &mut part_codes));
                if !seen.codes_are_certain {
                    for (value, code) in part.iter().zip(&mut part_codes) {
                        let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
                        *code = V::code_from_sum(sum);
                        doubts |= below_limit.wrapping_sub((sum - ROUNDING).abs().to_bits());
                    }
                }
                for (code, part_code) in codes.iter_mut().zip(part_codes) {
                    *code = part_code.to_i64() as i32;
                    doubts |= i64::from((V::STEPS_LIMIT as i32 - 1).wrapping_sub(code.wrapping_abs())).cast_unsigned();
                }
                if fine.is_there() && seen.may_stand_between {
                    for &value in part {
                        let steps = value.to_f64() * quantizer.inverse_step() + ROUNDING - ROUNDING;
                        rare.between_steps += fine.between_steps_sign(value, steps) >> 63;
                    }
                }
            }
            if doubts >> 63 == 1 || quantizer.fill().is_some() {
                for (values, codes) in values.chunks_exact(row * V::SIZE).zip(codes.chunks_exact_mut(row)) {
                    careful_codes::<V>(values, order, quantizer, codes, &mut rare);
                }
            }
        },
    );
    rare
}

/// Codes of a row in a tile in which some values are out of reach or fill values.
fn careful_codes<V: Value>(values: &[u8], order: ByteOrder, quantizer: &Quantizer, codes: &mut [i32], rare: &mut Rare) {
    let mut last = 0;
    for (index, code) in codes.iter_mut().enumerate() {
        let value = V::read(values, index, order);
        let scaled = value.to_f64() * quantizer.inverse_step();
        if scaled.abs() < V::CODE_LIMIT && quantizer.fill() != Some(value.to_bits_i64()) {
            rare.out_of_fine_reach += usize::from(scaled.abs() >= V::STEPS_LIMIT);
            last = *code;
        } else {
            rare.out_of_reach += 1;
        }
        *code = last;
    }
}

/// Differences of a tile's codes along all sets of axes; `add` gets the rows of each set beyond the tile's first values along each axis.
#[inline(always)]
fn differ<C: Integer>(
    differences: &mut [C],
    len: usize,
    extents: [usize; MAX_RANK],
    sets: usize,
    mut add: impl FnMut(usize, &[C]),
) {
    let first = extents.map(|extent| usize::from(extent > 1));
    let mut stride = [1; MAX_RANK];
    for axis in 1..MAX_RANK {
        stride[axis] = stride[axis - 1] * extents[axis - 1];
    }
    let flat = flat_axes(extents);
    for set in (0..sets).filter(|set| set & flat == 0) {
        if set > 0 {
            let axis = set.ilog2() as usize;
            let (before, here) = differences.split_at_mut(set * len);
            let parent = &before[(set ^ 1 << axis) * len..][..len];
            let back = stride[axis];
            for ((difference, &code), &other) in here[back..len].iter_mut().zip(&parent[back..]).zip(parent) {
                *difference = code.sub(other);
            }
        }
        let here = &differences[set * len..(set + 1) * len];
        for w in first[3]..extents[3] {
            for z in first[2]..extents[2] {
                for y in first[1]..extents[1] {
                    let start = ((w * extents[2] + z) * extents[1] + y) * extents[0];
                    add(set, &here[start + first[0]..start + extents[0]]);
                }
            }
        }
    }
}
