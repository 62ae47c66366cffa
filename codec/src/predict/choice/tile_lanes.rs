//! Interpolation of up to 16 tiles at once, a tile in each lane of a vector, for the counts over their residuals (FORMAT.md §11.3).
//!
//! All tiles of a chunk have equal extents. So the value at an index is predicted from equal indices, with equal weights, in all of them.
//!
//! ```text
//! values of a tile ─ nearest positions ─> lane of the tile, [value][lane] ─ recipe of a kind ─> residuals of all lanes ─> counts
//! ```
//!
//! Residuals are those of the nearest positions, in integers: FORMAT.md §5.2, which a chunk's residuals follow, rounds each value again after its prediction.

use super::residual_stats::{ColumnSums, ResidualStats};
use super::tile::{COLUMNS, INTERPOLATED_TILES, Tiles};
use crate::error::Result;
use crate::layout::{ByteOrder, MAX_RANK};
use crate::memory::{push, reserve, resize};
use crate::number::value::Value;
use crate::predict::interpolation::mean::weights;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::{Bitmap, WORD, ones};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACING_GROWS_FROM, low_bits_at, without_low_bits};
use crate::simd::widely_vectorized;

/// A number for each tile.
type Lanes = [i32; COLUMNS];

const _: () = assert!(INTERPOLATED_TILES == COLUMNS, "each tile has a lane");

/// A value's number in its lane is its nearest position times 8, plus the bits below. One number holds both, since most of the time goes into loading.
const POSITION_SHIFT: u32 = 3;
/// The value is on its nearest position, so that its residual is a whole number of steps or an escape.
const ON_POSITION: i32 = 1;
/// The value has a code, but is out of the fine grid's reach: an exception of interpolation alone.
const OUT_OF_REACH: i32 = 2;
/// The value has no position: an exception.
const NO_POSITION: i32 = 4;
/// The value is 0, which alone is on position 0.
const ZERO: i32 = ON_POSITION;

/// A zero that is an escape, in a sum over outliers.
const ZERO_ESCAPE: i32 = 1 << 16;

/// Most neighbours of a value along an axis that have a weight, at distances -3, -1, 1 and 3.
const NEIGHBOURS_OF_AXIS: usize = 4;

/// Number of recipes that are kept: one more than there are kinds for chunks of three axes, since a dataset's chunks ask for different ones.
const KEPT_RECIPES: usize = 9;

/// The tiles of a chunk that are interpolated, and buffers for their interpolation.
#[derive(Debug, Default)]
pub(super) struct TileLanes {
    /// `[value][tile]`: position and bits of each value.
    values: Vec<Lanes>,
    /// `[value][tile]`: positions as a decoder restores them.
    restored: Vec<Lanes>,
    /// See [`ResidualStats::zero_edges`]; more than there can be where zeros cannot be exceptions.
    zero_edges: u64,
    /// Whether positions are so large that not all are on the grid. Predictions are moved to the one that there is at their value.
    are_large: bool,
    /// Recipes for tiles of these extents, those used last first.
    recipes: Vec<Recipe>,
}

/// How the values of a tile are predicted by a kind of interpolation, in the order of the residuals.
#[derive(Debug)]
struct Recipe {
    extents: [usize; MAX_RANK],
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

impl TileLanes {
    /// Makes room for tiles, of which [`TileLanes::load`] then loads each.
    pub(super) fn clear(&mut self, tiles: &Tiles) -> Result<()> {
        resize(&mut self.values, tiles.len)?;
        resize(&mut self.restored, tiles.len)?;
        if tiles.count < COLUMNS {
            self.values.fill([NO_POSITION; COLUMNS]);
        }
        self.are_large = false;
        Ok(())
    }

    /// Loads a tile's values into its lane. `without_code` has the bits of values without a code.
    pub(super) fn load<V: Value>(
        &mut self,
        tile: usize,
        values: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
        without_code: &Bitmap,
    ) {
        let (lanes, mut magnitudes) = (&mut self.values, 0);
        widely_vectorized(
            #[inline(always)]
            || {
                for (index, (values, lanes)) in values.chunks(WORD * V::SIZE).zip(lanes.chunks_mut(WORD)).enumerate() {
                    let (mut all, mut known) = ([V::default(); WORD], [0; WORD]);
                    V::read_all(values, order, &mut all);
                    for (value, known) in all.iter().zip(&mut known) {
                        let (position, is_near, is_on_it) = fine.nearest_position(*value);
                        let near = (position << POSITION_SHIFT) | (is_on_it >> 63) as i32;
                        // All ones or all zeros, as branches would keep the loop from being vectorized.
                        let mask = -((is_near >> 63) as i32);
                        *known = near & mask | (NO_POSITION | OUT_OF_REACH) & !mask;
                        magnitudes |= position.unsigned_abs() & mask.cast_unsigned();
                    }
                    let without = without_code.words()[index];
                    for i in ones(without) {
                        known[i] = NO_POSITION;
                    }
                    for (lanes, known) in lanes.iter_mut().zip(known) {
                        lanes[tile] = known;
                    }
                }
            },
        );
        self.are_large |= V::SPACING_GROWS && magnitudes >= SPACING_GROWS_FROM[0].unsigned_abs();
    }

    /// Zeros cannot be exceptions: they have more edges than there can be.
    pub(super) fn close_zeros(&mut self) {
        self.zero_edges = u32::MAX.into();
    }

    /// Counts the ends of rows of zeros, and `others`.
    pub(super) fn count_zero_edges(&mut self, row: usize, others: usize) {
        let values = &self.values;
        let edges: u64 = widely_vectorized(
            #[inline(always)]
            || {
                let mut edges = [0u32; COLUMNS];
                for row in values.chunks_exact(row) {
                    // A row begins with no edge.
                    let (mut was_zero, mut counts) = ([0; COLUMNS], 0);
                    for values in row {
                        for lane in 0..COLUMNS {
                            let is_zero = u32::from(values[lane] == ZERO);
                            edges[lane] += (is_zero ^ was_zero[lane]) & counts;
                            was_zero[lane] = is_zero;
                        }
                        counts = 1;
                    }
                }
                edges.iter().map(|&edges| u64::from(edges)).sum()
            },
        );
        self.zero_edges = edges + others as u64;
    }

    /// Interpolates the tiles, each as a chunk of its own, and measures the residuals that count ([`Tiles::uncounted_residuals`]).
    pub(super) fn measure(&mut self, tiles: &Tiles, kind: InterpolationKind) -> Result<ResidualStats> {
        self.prepare(tiles.extents, kind)?;
        let uncounted = tiles.uncounted_residuals();
        let mut stats = ResidualStats::default();
        let Self { values, restored, zero_edges, are_large, recipes } = self;
        let Some(Recipe { points, neighbours, .. }) = recipes.first() else { return Ok(stats) };
        widely_vectorized(
            #[inline(always)]
            || {
                let (mut columns, mut outliers, mut before) = (ColumnSums::default(), [0; COLUMNS], [1; COLUMNS]);
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
                        columns.add(&residuals, &before);
                        for (sum, is_outlier) in outliers.iter_mut().zip(&are_outliers) {
                            *sum += is_outlier;
                        }
                        before = residuals;
                    }
                }
                // The residuals of lanes without a tile are zeros.
                let counted = points.len() - uncounted;
                stats.add(&columns, tiles.count * counted, (COLUMNS - tiles.count) * counted);
                stats.outliers = outliers.iter().map(|&sum| (sum % ZERO_ESCAPE) as u64).sum();
                stats.zero_escapes = outliers.iter().map(|&sum| (sum / ZERO_ESCAPE) as u64).sum();
                stats.zero_edges = *zero_edges;
            },
        );
        Ok(stats)
    }

    /// Moves the recipe to the front; makes it unless it is kept.
    fn prepare(&mut self, extents: [usize; MAX_RANK], kind: InterpolationKind) -> Result<()> {
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

/// Predictions of a value in all lanes, from its neighbours along a number of axes.
#[inline(always)]
fn predict(neighbours: &[Neighbour], axes: u8, restored: &[Lanes]) -> Lanes {
    let mut sums = [0i32; COLUMNS];
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

/// Residuals of a value in all lanes, and what outliers there are: [`ZERO_ESCAPE`] for a zero that is an escape, 1 for another escape or an exception that has a
/// code, else 0. Restores its positions.
#[inline(always)]
fn encode(prediction: &Lanes, values: &Lanes, restored: &mut Lanes) -> (Lanes, Lanes) {
    let (mut residuals, mut outliers) = ([0; COLUMNS], [0; COLUMNS]);
    for i in 0..COLUMNS {
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
    fn new(extents: [usize; MAX_RANK], kind: InterpolationKind) -> Result<Self> {
        let len = extents.iter().product();
        let mut recipe = Self { extents, kind, points: Vec::new(), neighbours: Vec::new() };
        reserve(&mut recipe.points, len)?;
        reserve(&mut recipe.neighbours, NEIGHBOURS_OF_AXIS * MAX_RANK * len)?;
        recipe.points.push(Point { index: 0, neighbours: 0, axes: 0 });
        let levels = extents.iter().map(|extent| extent.next_power_of_two().ilog2()).max().unwrap_or(0);
        let mut sets: [usize; (1 << MAX_RANK) - 1] = std::array::from_fn(|number| number + 1);
        sets.sort_by_key(|set| (set.count_ones(), *set));
        for level in (0..levels).rev() {
            for set in sets {
                recipe.add_class(level, set);
            }
        }
        Ok(recipe)
    }

    /// Adds the values of a level that are odd along the axes of `set` and even along all others.
    fn add_class(&mut self, level: u32, set: usize) {
        let of_level = self.extents.map(|extent| extent.div_ceil(1 << level));
        let odd = |axis: usize| set >> axis & 1;
        // Numbers of the class's values along the axes.
        let counts: [usize; MAX_RANK] = std::array::from_fn(|axis| (of_level[axis] + 1 - odd(axis)) / 2);
        let mut strides = [1 << level; MAX_RANK];
        for axis in 1..MAX_RANK {
            strides[axis] = strides[axis - 1] * self.extents[axis - 1];
        }
        for number in 0..counts.iter().product::<usize>() {
            let mut rest = number;
            let at: [usize; MAX_RANK] = std::array::from_fn(|axis| {
                let in_class = rest % counts[axis];
                rest /= counts[axis];
                2 * in_class + odd(axis)
            });
            let index: usize = at.iter().zip(strides).map(|(at, stride)| at * stride).sum();
            let mut axes = self.kind.axes_of(set);
            // Axes without a neighbour behind the value count only if no axis has one.
            let with_c = (0..MAX_RANK).filter(|&axis| at[axis] + 1 < of_level[axis]).fold(0, |set, axis| set | 1 << axis);
            if axes & with_c != 0 {
                axes &= with_c;
            }
            let before = self.neighbours.len();
            for axis in (0..MAX_RANK).filter(|axis| axes >> axis & 1 == 1) {
                let exists = [at[axis] >= 3, true, at[axis] + 1 < of_level[axis], at[axis] + 3 < of_level[axis]];
                let stride = strides[axis];
                let indices = [index.wrapping_sub(3 * stride), index - stride, index + stride, index + 3 * stride];
                for (index, weight) in indices.into_iter().zip(weights(exists, self.kind.is_linear())) {
                    if weight != 0 {
                        self.neighbours.push(Neighbour { index: index as u16, weight });
                    }
                }
            }
            let neighbours = (self.neighbours.len() - before) as u8;
            self.points.push(Point { index: index as u16, neighbours, axes: axes.count_ones() as u8 });
        }
    }
}
