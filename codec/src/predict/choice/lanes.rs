//! A chunk's sample in the lanes of vectors, a tile in each, and the residuals of predictors on it.
//!
//! All tiles have equal extents. So values at the same index are predicted from the same neighbours, with the same weights, in all lanes.
//!
//! ```text
//! values of a tile ─┬─> codes, [value][lane] ─ differences along all sets of axes ───────────────────────> counts
//!                   └─> nearest positions, [value][lane] ─ recipe of a kind of interpolation ─> residuals ─> counts
//! ```
//!
//! The sample's residuals of interpolation are those of the nearest positions, in integers. A chunk's own residuals are rounded from each value less its
//! prediction (FORMAT.md §5.2).

use super::counts::{Counts, LaneCounts};
use super::sample::{Sample, TILES};
use crate::error::Result;
use crate::layout::{ByteOrder, MAX_RANK};
use crate::memory::{push, reserve, resize};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::predict::interpolation::level::{Extents, Level, axes_of, coarsest_depth, count, index, indices, level_extents};
use crate::predict::interpolation::mean::weights;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::WORD;
use crate::quantize::excluded::Excluded;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACING_GROWS_FROM, low_bits_at, without_low_bits};
use crate::quantize::quantizer::Quantizer;
use crate::simd::widely_vectorized;

/// Number of sets of axes.
pub const SETS: usize = 1 << MAX_RANK;

/// A number for each tile.
type Lanes = [i32; TILES];

/// A value's number in its lane is its nearest position times 8, plus the flags below. One number has both, since most of the time goes into loading.
const POSITION_SHIFT: u32 = 3;
/// The value is on its nearest position, so that its residual is a whole number of steps or an escape.
const ON_POSITION: i32 = 1;
/// The value has a code, but is out of the fine grid's reach: an exception of interpolation alone.
const OUT_OF_REACH: i32 = 2;
/// The value has no position: an exception. Without [`OUT_OF_REACH`] it has no code, either.
const NO_POSITION: i32 = 4;
/// The number of a value of 0: no other value is on position 0.
const ZERO: i32 = ON_POSITION;
/// What a zero that is an escape adds to a sum of outliers.
const ZERO_ESCAPE: i32 = 1 << 16;

/// Most neighbours of a value along an axis that have a weight, at distances -3, -1, 1 and 3.
const NEIGHBOURS_OF_AXIS: usize = 4;

/// Number of recipes that are kept: at least all eight for chunks of three axes, as different chunks ask for different kinds.
const KEPT_RECIPES: usize = 9;

/// The tiles of a chunk's sample, and buffers.
#[derive(Debug, Default)]
pub(crate) struct SampleLanes {
    /// The bytes of a tile's values.
    tile: Vec<u8>,
    /// `[value][tile]`: codes modulo 2^32.
    codes: Vec<Lanes>,
    /// `[value][tile]`: codes of 64 bits, for other grids.
    wide_codes: Vec<[i64; TILES]>,
    /// `[value][tile]`: position and bits of each value.
    values: Vec<Lanes>,
    /// `[value][tile]`: positions as a decoder restores them.
    restored: Vec<Lanes>,
    /// Whether some positions are so large that the grid lacks some of their neighbours. Predictions are then moved to positions of the grid.
    are_large: bool,
    /// Recipes for tiles of these extents, those used last first.
    recipes: Vec<Recipe>,
}

/// How the values of a tile are predicted by a kind of interpolation, in the order of the residuals.
#[derive(Debug)]
struct Recipe {
    extents: Extents,
    kind: InterpolationKind,
    points: Vec<Point>,
    neighbours: Vec<Neighbour>,
}

/// A value of a tile.
#[derive(Debug, Clone, Copy)]
struct Point {
    index: u16,
    /// Number of neighbours from which it is predicted.
    neighbours: u8,
    /// Number of axes along which it is interpolated. The first value has none.
    axes: u8,
}

/// A neighbour of a value, and its weight in sixteenths.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    index: u16,
    weight: i8,
}

impl SampleLanes {
    /// Counts over the differences of a sample's codes along each set of axes. They wrap to the width of the type's codes.
    pub(super) fn differences_of_codes<V: Element>(
        &mut self,
        sample: &Sample,
        chunk: &[u8],
        order: ByteOrder,
        code: impl Fn(V) -> i64,
    ) -> Result<[Counts; SETS]> {
        resize(&mut self.tile, sample.len * V::SIZE)?;
        resize(&mut self.wide_codes, sample.len)?;
        for tile in 0..TILES {
            sample.copy(chunk, V::SIZE, tile, &mut self.tile);
            for (index, codes) in self.wide_codes.iter_mut().enumerate() {
                codes[tile] = code(V::read(&self.tile, index, order));
            }
        }
        Ok(differences::<i64, V::Code>(sample, &self.wide_codes))
    }

    /// Loads a chunk's sample on the rounding grid of an absolute bound.
    pub(super) fn load<V: Value>(
        &mut self,
        sample: &Sample,
        chunk: &[u8],
        order: ByteOrder,
        quantizer: &Quantizer,
    ) -> Result<()> {
        resize(&mut self.tile, sample.len * V::SIZE)?;
        for lanes in [&mut self.codes, &mut self.values, &mut self.restored] {
            resize(lanes, sample.len)?;
        }
        let (excluded, fine) = (Excluded::<V>::new(quantizer, V::CODE_LIMIT), FineGrid::<V>::new(quantizer));
        let (inverse_step, mut magnitudes) = (quantizer.inverse_step(), 0);
        for tile in 0..TILES {
            sample.copy(chunk, V::SIZE, tile, &mut self.tile);
            let groups = self.tile.chunks(WORD * V::SIZE).zip(self.codes.chunks_mut(WORD)).zip(self.values.chunks_mut(WORD));
            widely_vectorized(
                #[inline(always)]
                || {
                    for ((bytes, all_codes), all_values) in groups {
                        let (mut group, mut codes, mut values) = ([V::default(); WORD], [0; WORD], [0; WORD]);
                        V::read_all(bytes, order, &mut group);
                        for i in 0..WORD {
                            let scaled = group[i].to_f64() * inverse_step;
                            // All ones or all zeros, as branches would keep the loop from being vectorized.
                            let has_code = -i32::from((scaled.abs() < V::CODE_LIMIT) & !excluded.covers(group[i]));
                            // The low bits of the sum are the nearest integer.
                            codes[i] = (scaled + ROUNDING).to_bits() as i32 & has_code;
                            let (position, is_near, is_on_it) = fine.nearest_position(group[i]);
                            let is_near = -((is_near >> 63) as i32) & has_code;
                            let near = (position << POSITION_SHIFT) | (is_on_it >> 63) as i32;
                            values[i] = near & is_near | (NO_POSITION | OUT_OF_REACH & has_code) & !is_near;
                            magnitudes |= position.unsigned_abs() & is_near.cast_unsigned();
                        }
                        for (lanes, code) in all_codes.iter_mut().zip(codes) {
                            lanes[tile] = code;
                        }
                        for (lanes, value) in all_values.iter_mut().zip(values) {
                            lanes[tile] = value;
                        }
                    }
                },
            );
        }
        self.are_large = V::SPACING_GROWS && magnitudes >= SPACING_GROWS_FROM[0].unsigned_abs();
        self.fill_gaps(sample.extents[0]);
        Ok(())
    }

    /// Gives a value without a code the code of its left neighbour in its row of `row` values, and 0 at the row's start.
    fn fill_gaps(&mut self, row: usize) {
        let rows = self.codes.chunks_exact_mut(row).zip(self.values.chunks_exact(row));
        widely_vectorized(
            #[inline(always)]
            || {
                for (codes, values) in rows {
                    let mut before = [0; TILES];
                    for (codes, values) in codes.iter_mut().zip(values) {
                        for i in 0..TILES {
                            codes[i] = if values[i] == NO_POSITION { before[i] } else { codes[i] };
                        }
                        before = *codes;
                    }
                }
            },
        );
    }

    /// Counts over the differences of the codes along each set of axes. Where there is a fine grid, values between steps are outliers of every set, as they are
    /// exceptions of differences. An earlier interpolation has restored such values.
    pub(super) fn differences(&self, sample: &Sample, has_fine_grid: bool) -> [Counts; SETS] {
        let mut counts = differences::<i32, i32>(sample, &self.codes);
        if has_fine_grid {
            let is_between = |value: &&i32| {
                **value & (ON_POSITION | NO_POSITION) == ON_POSITION && (*value >> POSITION_SHIFT) % POSITIONS_PER_STEP != 0
            };
            let between = self.values.as_flattened().iter().filter(is_between).count();
            let among_counted = (between * sample.counted_len() / sample.len) as u32;
            counts.iter_mut().filter(|counts| counts.values > 0).for_each(|counts| counts.outliers = among_counted);
        }
        counts
    }

    /// Number of the sample's values that have a code, but are out of the fine grid's reach.
    pub(super) fn out_of_reach(&self) -> usize {
        self.values.as_flattened().iter().filter(|&&value| value & OUT_OF_REACH != 0).count()
    }

    /// Number of neighbours along a row of which one is a zero, and the other is not.
    pub(super) fn zero_edges(&self, row: usize) -> usize {
        let mut edges = [0u32; TILES];
        for row in self.values.chunks_exact(row) {
            for (before, here) in row.iter().zip(&row[1..]) {
                for i in 0..TILES {
                    edges[i] += u32::from((before[i] == ZERO) != (here[i] == ZERO));
                }
            }
        }
        edges.iter().sum::<u32>() as usize
    }

    /// Interpolates the tiles, each as a chunk of its own, and counts the residuals that count ([`Sample::uncounted_residuals`]).
    pub(super) fn interpolate(&mut self, sample: &Sample, kind: InterpolationKind) -> Result<Counts> {
        self.prepare(sample.extents, kind)?;
        let uncounted = sample.uncounted_residuals();
        let Self { values, restored, are_large, recipes, .. } = self;
        let Some(Recipe { points, neighbours, .. }) = recipes.first() else { return Ok(Counts::default()) };
        Ok(widely_vectorized(
            #[inline(always)]
            || {
                let (mut counts, mut outliers, mut follows_zero) = (LaneCounts::default(), [0; TILES], [0; TILES]);
                let mut neighbours = &neighbours[..];
                for (number, point) in points.iter().enumerate() {
                    let (of_point, rest) = neighbours.split_at(usize::from(point.neighbours));
                    neighbours = rest;
                    let mut prediction = predict(of_point, point.axes, restored);
                    let index = usize::from(point.index);
                    if *are_large {
                        for (prediction, value) in prediction.iter_mut().zip(&values[index]) {
                            *prediction = without_low_bits(*prediction, low_bits_at(value >> POSITION_SHIFT));
                        }
                    }
                    let (residuals, are_outliers) = encode(&prediction, &values[index], &mut restored[index]);
                    if number >= uncounted {
                        follows_zero = counts.add(&residuals, &follows_zero);
                        for (sum, is_outlier) in outliers.iter_mut().zip(&are_outliers) {
                            *sum += is_outlier;
                        }
                    }
                }
                Counts {
                    outliers: outliers.iter().map(|&sum| (sum % ZERO_ESCAPE) as u32).sum(),
                    zero_escapes: outliers.iter().map(|&sum| (sum / ZERO_ESCAPE) as u32).sum(),
                    ..counts.sum()
                }
            },
        ))
    }

    /// Moves the recipe to the front; makes it unless it is kept.
    fn prepare(&mut self, extents: Extents, kind: InterpolationKind) -> Result<()> {
        if let Some(number) = self.recipes.iter().position(|recipe| (recipe.extents, recipe.kind) == (extents, kind)) {
            self.recipes[..=number].rotate_right(1);
            return Ok(());
        }
        let recipe = Recipe::new(extents, kind)?;
        self.recipes.truncate(KEPT_RECIPES - 1);
        push(&mut self.recipes, recipe)?;
        self.recipes.rotate_right(1);
        Ok(())
    }
}

/// Counts over the differences of codes along each set of axes, which wrap to the width of `W`. Only values with a neighbour before them along every axis
/// longer than 1 count.
fn differences<C: Integer, W: Integer>(sample: &Sample, codes: &[[C; TILES]]) -> [Counts; SETS] {
    match sample.extents.iter().filter(|&&extent| extent > 1).count() {
        0 => differences_of_corners::<C, W, 1>(sample, codes),
        1 => differences_of_corners::<C, W, 2>(sample, codes),
        2 => differences_of_corners::<C, W, 4>(sample, codes),
        3 => differences_of_corners::<C, W, 8>(sample, codes),
        _ => differences_of_corners::<C, W, 16>(sample, codes),
    }
}

/// A number wrapped to the width of `W`.
#[inline(always)]
fn wrapped<C: Integer, W: Integer>(number: C) -> C {
    C::from_i64(W::from_i64(number.to_i64()).to_i64())
}

/// [`differences`] where there are `CORNERS` sets of the axes longer than 1. A value is the last corner of a cube of so many codes. Its differences follow from
/// these corners, axis by axis. A difference along a set with the axis is that of two differences along the set without the axis.
fn differences_of_corners<C: Integer, W: Integer, const CORNERS: usize>(sample: &Sample, codes: &[[C; TILES]]) -> [Counts; SETS] {
    // The set of axes of each corner, and the corner's distance from the value.
    let (mut sets, mut backs, mut corner, mut stride) = ([0; CORNERS], [0; CORNERS], 1, 1);
    for (axis, extent) in sample.extents.into_iter().enumerate().filter(|&(_, extent)| extent > 1) {
        for other in 0..corner {
            sets[corner + other] = sets[other] | 1 << axis;
            backs[corner + other] = backs[other] + stride;
        }
        corner *= 2;
        stride *= extent;
    }
    // A row is along the fastest axis longer than 1.
    let mut long = [1; MAX_RANK];
    let of_long = sample.extents.into_iter().filter(|&extent| extent > 1);
    long.iter_mut().zip(of_long).for_each(|(long, extent)| *long = extent);
    let [nx, ny, nz, nw] = long;
    let [x0, y0, z0, w0] = long.map(|extent| usize::from(extent > 1));
    let mut counts = [LaneCounts::default(); CORNERS];
    widely_vectorized(
        #[inline(always)]
        || {
            for (w, z, y) in (w0..nw).flat_map(|w| (z0..nz).flat_map(move |z| (y0..ny).map(move |y| (w, z, y)))) {
                let mut follows_zero = [[0; TILES]; CORNERS];
                for x in x0..nx {
                    let index = ((w * nz + z) * ny + y) * nx + x;
                    let mut differences = [[C::default(); TILES]; CORNERS];
                    for (corner, back) in differences.iter_mut().zip(backs) {
                        *corner = codes[index - back];
                    }
                    let mut axis = 1;
                    while axis < CORNERS {
                        for corner in (0..CORNERS).filter(|corner| corner & axis != 0) {
                            // A function of whole vectors: with a loop here, the compiler would put corners into the lanes of a vector, and gather.
                            differences[corner] = subtract(differences[corner ^ axis], differences[corner]);
                        }
                        axis *= 2;
                    }
                    for set in 0..CORNERS {
                        for difference in &mut differences[set] {
                            *difference = wrapped::<C, W>(*difference);
                        }
                        follows_zero[set] = counts[set].add(&differences[set], &follows_zero[set]);
                    }
                }
            }
        },
    );
    let mut of_sets = [Counts::default(); SETS];
    for (set, counts) in sets.into_iter().zip(counts) {
        of_sets[set] = counts.sum();
    }
    of_sets
}

/// The difference of two numbers in each lane.
#[inline(always)]
fn subtract<C: Integer>(mut numbers: [C; TILES], others: [C; TILES]) -> [C; TILES] {
    for (number, other) in numbers.iter_mut().zip(others) {
        *number = number.sub(other);
    }
    numbers
}

/// Predictions of a value in all lanes, from its neighbours along a number of axes.
#[inline(always)]
fn predict(neighbours: &[Neighbour], axes: u8, restored: &[Lanes]) -> Lanes {
    let mut sums = [0i32; TILES];
    for neighbour in neighbours {
        let weight = i32::from(neighbour.weight);
        for (sum, position) in sums.iter_mut().zip(&restored[usize::from(neighbour.index)]) {
            *sum = sum.wrapping_add(position.wrapping_mul(weight));
        }
    }
    // The function `mean` of interpolation gives equal numbers, but the whole choice of the predictor took 6 % longer with it.
    match axes {
        0 => sums,
        1 => sums.map(|sum| sum.wrapping_add(8) >> 4),
        2 => sums.map(|sum| sum.wrapping_add(16) >> 5),
        3 => sums.map(|sum| sum.wrapping_add(24).div_euclid(48)),
        _ => sums.map(|sum| sum.wrapping_add(32) >> 6),
    }
}

/// Residuals of a value in all lanes, and outliers: [`ZERO_ESCAPE`] for a zero that is an escape, 1 for another escape or an exception that has a code, else 0.
/// Writes the restored positions.
#[inline(always)]
fn encode(prediction: &Lanes, values: &Lanes, restored: &mut Lanes) -> (Lanes, Lanes) {
    let (mut residuals, mut outliers) = ([0; TILES], [0; TILES]);
    for i in 0..TILES {
        let position = values[i] >> POSITION_SHIFT;
        let distance = position.wrapping_sub(prediction[i]);
        let is_escape = values[i] & ON_POSITION != 0 && distance & (POSITIONS_PER_STEP - 1) != 0;
        let steps = distance.wrapping_add(POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP.trailing_zeros();
        let residual = if is_escape || values[i] & NO_POSITION != 0 { 0 } else { steps };
        let nearest = prediction[i].wrapping_add(residual.wrapping_mul(POSITIONS_PER_STEP));
        restored[i] = if is_escape { position } else { nearest };
        residuals[i] = residual;
        let escape = if values[i] == ZERO { ZERO_ESCAPE } else { 1 };
        outliers[i] = if is_escape { escape } else { i32::from(values[i] & OUT_OF_REACH != 0) };
    }
    (residuals, outliers)
}

impl Recipe {
    fn new(extents: Extents, kind: InterpolationKind) -> Result<Self> {
        let len = count(extents);
        let mut recipe = Self { extents, kind, points: Vec::new(), neighbours: Vec::new() };
        reserve(&mut recipe.points, len)?;
        reserve(&mut recipe.neighbours, NEIGHBOURS_OF_AXIS * MAX_RANK * len)?;
        recipe.points.push(Point { index: 0, neighbours: 0, axes: 0 });
        for depth in (0..coarsest_depth(extents)).rev() {
            let level = Level::new(level_extents(extents, depth));
            for class in level.classes() {
                for number in 0..count(class.extents) {
                    recipe.add(level.extents, depth, class.set, class.in_level(indices(class.extents, number)));
                }
            }
        }
        Ok(recipe)
    }

    /// Adds the value with the indices `at` in a level of extents `of_level`. The indices are odd along the axes of `set`.
    fn add(&mut self, of_level: Extents, depth: usize, set: usize, at: Extents) {
        let index_of = |at: Extents| index(self.extents, at.map(|index| index << depth)) as u16;
        let mut axes = self.kind.axes_of(set);
        // Axes without a neighbour behind the value count only if no axis has one.
        let with_next = (0..MAX_RANK).filter(|&axis| at[axis] + 1 < of_level[axis]).fold(0, |set, axis| set | 1 << axis);
        if axes & with_next != 0 {
            axes &= with_next;
        }
        let before = self.neighbours.len();
        for axis in axes_of(axes) {
            let exists = [at[axis] >= 3, true, at[axis] + 1 < of_level[axis], at[axis] + 3 < of_level[axis]];
            for (distance, weight) in [-3, -1, 1, 3].into_iter().zip(weights(exists, self.kind.is_linear())) {
                if weight != 0 {
                    let mut neighbour = at;
                    neighbour[axis] = neighbour[axis].wrapping_add_signed(distance);
                    self.neighbours.push(Neighbour { index: index_of(neighbour), weight });
                }
            }
        }
        let neighbours = (self.neighbours.len() - before) as u8;
        self.points.push(Point { index: index_of(at), neighbours, axes: axes.count_ones() as u8 });
    }
}
