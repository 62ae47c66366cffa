//! FORMAT.md §11.3 in no hurry: the predictor of a chunk of floating-point numbers on an absolute bound's rounding grid. The choice is tested against it.
//! [`super::plain_axes`] has the choice of axes on other grids.

use super::axes_of;
use crate::layout::{Axes, ByteOrder, Layout, MAX_RANK, Shape};
use crate::number::fixed_log2::{LOG_FRACTION, log2_fixed};
use crate::number::value::Value;
use crate::predict::interpolation::{Interpolation, plain as interpolation};
use crate::predict::lorenzo::plain as lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::{FineGrid, aligned};
use crate::quantize::linear;
use crate::quantize::quantizer::Quantizer;

/// A chunk, and what is known of each of its values.
pub(super) struct Plain<'a, V> {
    pub(super) bytes: &'a [u8],
    pub(super) layout: Layout,
    pub(super) quantizer: &'a Quantizer,
    pub(super) values: Vec<V>,
}

/// The predictor of a chunk, with what the choice of steps needs.
enum Chosen {
    Axes(Axes),
    /// A kind of interpolation, its estimate, and whether zeros are exceptions.
    Interpolation(InterpolationKind, Estimate, bool),
}

/// The estimates of a kind of interpolation: with zeros as escapes, and with zeros as exceptions if that is less.
#[derive(Clone, Copy)]
struct Residuals {
    as_escapes: Estimate,
    masked: Option<Estimate>,
}

impl Residuals {
    fn best(self) -> Estimate {
        self.masked.unwrap_or(self.as_escapes)
    }
}

/// Larger magnitudes of residuals on an absolute bound's grid count as this one.
const MOST: u64 = 1 << 15;

/// An estimate of the bits of a number of residuals, with the fraction bits of a logarithm.
#[derive(Clone, Copy)]
pub(super) struct Estimate {
    pub(super) bits: u64,
    values: u64,
}

impl Estimate {
    /// Whether the bits per value are below those of another estimate.
    fn is_less_a_value(self, other: Self) -> bool {
        u128::from(self.bits) * u128::from(other.values) < u128::from(other.bits) * u128::from(self.values)
    }
}

/// The estimate of residuals, in stretches of neighbours, and of `outliers` values that need more than a residual: `R`. Magnitudes above `most` count as
/// `most`.
pub(super) fn estimate<I: Copy + Into<i64>>(stretches: &[Vec<I>], most: u64, outliers: usize) -> Estimate {
    let w = |x: u64| if x == 0 { 0 } else { x * log2_fixed(x) };
    let split = |a: u64, b: u64| w(a + b).saturating_sub(w(a) + w(b));
    let all = || stretches.iter().flatten().map(|&residual| residual.into());
    let number = |is_counted: &dyn Fn(i64) -> bool| all().filter(|&residual| is_counted(residual)).count() as u64;
    let magnitude = |residual: i64| residual.unsigned_abs().min(most);
    let length = |residual: i64| 64 - magnitude(residual).leading_zeros();
    let zeros = number(&|residual| residual == 0);
    let others = number(&|residual| residual != 0);
    let is_rise = |pair: &&[I]| pair[0].into() == 0 && pair[1].into() != 0;
    let rises = stretches.iter().flat_map(|stretch| stretch.windows(2)).filter(is_rise).count() as u64;
    let rises = rises.min(others).min(zeros);
    let negative = number(&|residual| (-15..0).contains(&residual));
    let large = number(&|residual| magnitude(residual) >= 16);
    let [one, two, three] = [1, 2, 3].map(|bits| number(&|residual| length(residual) == bits));
    let longer = number(&|residual| length(residual) > 3);
    let further: u64 = all().map(|residual| u64::from(length(residual).saturating_sub(4))).sum();
    let low_bits: u64 = all().map(|residual| u64::from(length(residual).saturating_sub(1))).sum();
    let bits = split(zeros, others).min(split(rises, zeros - rises) + split(rises, others - rises))
        + split(negative, others - large - negative)
        + split(one, others - one)
        + split(two, others - one - two)
        + split(three, longer)
        + split(longer, further);
    Estimate { bits: bits + ((large + low_bits + 40 * outliers as u64) << LOG_FRACTION), values: all().count() as u64 }
}

/// Extents of a tile of about `values` values.
pub(super) fn tile_extents(chunk: [usize; MAX_RANK], values: usize) -> [usize; MAX_RANK] {
    let mut sides = [1; MAX_RANK];
    while sides.iter().product::<usize>() < values {
        let shorter = (0..MAX_RANK).filter(|&axis| sides[axis] < chunk[axis]);
        let Some(axis) = shorter.min_by_key(|&axis| if axis == 0 { sides[0] / 4 } else { sides[axis] }) else { break };
        sides[axis] *= 2;
    }
    std::array::from_fn(|axis| (sides[axis] + usize::from(sides[axis] > 1)).min(chunk[axis]))
}

/// The origins of tiles.
pub(super) fn origins(chunk: [usize; MAX_RANK], sides: [usize; MAX_RANK], tiles: usize) -> Vec<[usize; MAX_RANK]> {
    let slowest = (0..MAX_RANK).rfind(|&axis| chunk[axis] > 1).unwrap_or(0);
    let origin = |tile: usize, axis: usize| {
        let origins = chunk[axis] - sides[axis] + 1;
        if axis == slowest {
            origins * (2 * tile + 1) / (2 * tiles)
        } else {
            origins * (((tile + 1) * [49_472, 37_345, 28_191, 0][axis] + 32_768) % 65_536) / 65_536
        }
    };
    (0..tiles).map(|tile| std::array::from_fn(|axis| origin(tile, axis))).collect()
}

/// Indices along the axes of the values of an array, fastest axis first, in C order.
pub(super) fn indices(extents: [usize; MAX_RANK]) -> impl Iterator<Item = [usize; MAX_RANK]> {
    (0..extents.iter().product::<usize>()).map(move |mut index: usize| {
        extents.map(|extent| {
            let at = index % extent;
            index /= extent;
            at
        })
    })
}

impl<V: Value> Plain<'_, V> {
    fn extents(&self) -> [usize; MAX_RANK] {
        self.layout.shape.extents()
    }

    /// The sets of axes longer than 1.
    fn sets(&self) -> Vec<usize> {
        let is_long = |axis: usize| self.extents()[axis] > 1;
        (0..1usize << MAX_RANK).filter(|set| (0..MAX_RANK).all(|axis| set >> axis & 1 == 0 || is_long(axis))).collect()
    }

    fn scaled(&self, value: V) -> f64 {
        value.to_f64() * self.quantizer.inverse_step()
    }

    fn has_code(&self, value: V) -> bool {
        self.scaled(value).abs() < V::CODE_LIMIT && !self.quantizer.fills().has(value)
    }

    fn is_out_of_reach(&self, value: V) -> bool {
        self.has_code(value) && self.scaled(value).abs() >= V::STEPS_LIMIT
    }

    /// Codes modulo 2^32 of the values of a chunk or a tile. One without a code has that of its left neighbour in the row; `fill_start` says whether at a row's
    /// start it has that of the row's first value with a code, as in a plane, in place of 0.
    fn codes(&self, values: &[V], row: usize, fill_start: bool) -> Vec<i32> {
        let code = |value: V| self.scaled(value).round_ties_even() as i64 as i32;
        let of_row = |row: &[V]| {
            let first = row.iter().copied().find(|&value| fill_start && self.has_code(value)).map_or(0, code);
            let codes = row.iter().scan(first, |before, &value| {
                *before = if self.has_code(value) { code(value) } else { *before };
                Some(*before)
            });
            codes.collect::<Vec<_>>()
        };
        values.chunks(row).flat_map(of_row).collect()
    }

    /// The values of a tile.
    fn tile(&self, origin: [usize; MAX_RANK], sides: [usize; MAX_RANK]) -> Vec<V> {
        let [nx, ny, nz, _] = self.extents();
        let index = |at: [usize; MAX_RANK]| {
            (((origin[3] + at[3]) * nz + origin[2] + at[2]) * ny + origin[1] + at[1]) * nx + origin[0] + at[0]
        };
        indices(sides).map(|at| self.values[index(at)]).collect()
    }

    /// The estimate of a set's differences on tiles: of the values that have a neighbour before them along every axis longer than 1.
    fn differences_of_tiles(&self, tiles: &[Vec<V>], sides: [usize; MAX_RANK], set: usize, fine: &FineGrid<V>) -> Estimate {
        let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| sides[MAX_RANK - 1 - axis] as u64);
        let shape = Shape::new(&dims).unwrap();
        let counts = |at: [usize; MAX_RANK]| (0..MAX_RANK).all(|axis| sides[axis] == 1 || at[axis] > 0);
        let (mut stretches, mut between_steps, mut counted) = (Vec::new(), 0, 0);
        for tile in tiles {
            let differences = lorenzo::differences(&self.codes(tile, sides[0], false), &shape, axes_of(set, &shape));
            let mut before = false;
            for (at, difference) in indices(sides).zip(differences) {
                let is_counted = counts(at);
                if is_counted && !before {
                    stretches.push(Vec::new());
                }
                if is_counted {
                    stretches.last_mut().unwrap().push(difference);
                    counted += 1;
                }
                before = is_counted;
            }
            between_steps +=
                tile.iter().filter(|&&value| fine.is_enabled() && self.has_code(value) && fine.is_between_steps(value)).count();
        }
        let outliers = between_steps * (counted / tiles.len()) / tiles[0].len();
        estimate(&stretches, MOST, outliers)
    }

    /// How many neighbours along a row there are of which one is a zero; `None` if zeros cannot be masked.
    fn zero_edges(&self, values: &[V], row: usize, is_zero: impl Fn(V) -> bool) -> Option<usize> {
        let ends = |row: &[V]| row.windows(2).filter(|pair| is_zero(pair[0]) != is_zero(pair[1])).count();
        self.quantizer.fills().value().is_none().then(|| values.chunks(row).map(ends).sum())
    }

    /// The estimates of interpolated tiles' residuals.
    fn residuals_of_tiles(
        &self,
        tiles: &[Vec<V>],
        sides: [usize; MAX_RANK],
        kind: InterpolationKind,
        fine: &FineGrid<V>,
    ) -> Residuals {
        let uncounted: usize = match sides.iter().filter(|&&side| side > 1).count() {
            3.. => sides.iter().map(|side| side.div_ceil(4)).product(),
            _ => 0,
        };
        let (mut stretches, mut outliers, mut zeros) = (Vec::new(), 0, 0);
        for tile in tiles {
            let mut number = 0;
            let mut residuals = interpolation::residuals(sides, kind, |index, prediction, _| {
                number += 1;
                let value = tile[index];
                let nearest = fine.position(value).filter(|_| self.has_code(value));
                let prediction = nearest.map_or(prediction, |(position, _)| aligned::<V>(prediction, position));
                let is_escape = |(position, is_on): (i32, bool)| is_on && (position - prediction) % 8 != 0;
                match nearest {
                    Some(nearest) if !is_escape(nearest) => {
                        let residual = (nearest.0 - prediction + 4).div_euclid(8);
                        (residual, prediction + 8 * residual)
                    }
                    nearest => {
                        let counts = usize::from(self.has_code(value) && number > uncounted);
                        if value.to_f64() == 0.0 {
                            zeros += counts
                        } else {
                            outliers += counts
                        };
                        (0, nearest.map_or(prediction, |(position, _)| position))
                    }
                }
            });
            residuals.drain(..uncounted);
            stretches.push(residuals);
        }
        let is_zero = |value: V| value.to_f64() == 0.0 && self.has_code(value);
        let edges = tiles.iter().try_fold(0, |sum, tile| Some(sum + self.zero_edges(tile, sides[0], is_zero)?));
        let of_planes = 128 * tiles.len() * tiles[0].len() / self.values.len();
        let as_escapes = estimate(&stretches, MOST, outliers + zeros);
        let others = estimate(&stretches, MOST, outliers);
        let edges = edges.map(|edges| edges + of_planes).filter(|edges| 8 * edges < 40 * zeros);
        let masked = edges.map(|edges| Estimate { bits: others.bits + (8 * edges as u64) * 65_536, ..others });
        Residuals { as_escapes, masked }
    }

    /// The best kind of interpolation and its estimate.
    fn best_kind(&self, mut of_kind: impl FnMut(InterpolationKind) -> Estimate) -> (InterpolationKind, Estimate) {
        let mut try_kind = |rough, is_linear| {
            let kind = InterpolationKind::new(rough, is_linear);
            (kind, of_kind(kind))
        };
        let best_of = |tried: &[(InterpolationKind, Estimate)]| *tried.iter().min_by_key(|(_, estimate)| estimate.bits).unwrap();
        let mut tried = vec![try_kind(0, false), try_kind(0, true)];
        let is_linear = best_of(&tried).0.is_linear();
        let axes: Vec<usize> = (0..MAX_RANK).filter(|&axis| self.extents()[axis] > 1).collect();
        if axes.len() > 1 {
            axes.into_iter().for_each(|axis| tried.push(try_kind(1 << axis, is_linear)));
        }
        let rough = best_of(&tried).0.rough();
        if rough > 0 {
            tried.push(try_kind(rough, !is_linear));
        }
        best_of(&tried)
    }

    /// The predictor's byte, and whether zeros are exceptions. `fine` is disabled where interpolation is no candidate.
    pub(super) fn predictor(&self, fine: &FineGrid<V>, for_less_noise: bool) -> (u8, bool) {
        let sides = tile_extents(self.extents(), 64);
        let is_small = self.values.len() / 64 < sides.iter().product();
        match if is_small { self.by_all_values(fine) } else { self.by_tiles(fine) } {
            Chosen::Axes(axes) => (axes.to_byte(), false),
            Chosen::Interpolation(kind, estimate, masks_zeros) => {
                let axes = self.extents().into_iter().filter(|&extent| extent > 1).count();
                let few_bits = u128::from(estimate.bits) < 26_214 * u128::from(estimate.values);
                let is_finer = if for_less_noise { axes >= 2 } else { axes >= 3 && few_bits };
                (kind.to_byte() | if is_finer { 0x20 } else { 0 }, masks_zeros)
            }
        }
    }

    fn by_tiles(&self, fine: &FineGrid<V>) -> Chosen {
        let chunk = self.extents();
        let tiles =
            |sides, count| origins(chunk, sides, count).into_iter().map(|origin| self.tile(origin, sides)).collect::<Vec<_>>();
        let sides = tile_extents(chunk, 64);
        let small = tiles(sides, 64);
        let of_set = |set: usize| self.differences_of_tiles(&small, sides, set, fine);
        // The first values along an axis have differences along the other ones.
        let mut estimates = [u128::MAX; 1 << MAX_RANK];
        for set in self.sets() {
            estimates[set] = of_set(set).bits.into();
        }
        for axis in 0..MAX_RANK {
            for set in self.sets().into_iter().filter(|set| set >> axis & 1 == 1) {
                estimates[set] = (estimates[set] * (chunk[axis] as u128 - 1) + estimates[set ^ 1 << axis]) / chunk[axis] as u128;
            }
        }
        let set = self.sets().into_iter().min_by_key(|&set| (estimates[set], set == 0 && estimates[set] == 0)).unwrap();
        let sides = tile_extents(chunk, 512);
        let large = tiles(sides, 16.min(self.values.len() / sides.iter().product::<usize>()).max(1));
        let is_in_reach = |values: &[V]| values.iter().filter(|&&value| self.is_out_of_reach(value)).count() <= values.len() / 2;
        if fine.is_enabled() && is_in_reach(&small.concat()) && large.iter().all(|tile| is_in_reach(tile)) {
            let of_kind = |kind| self.residuals_of_tiles(&large, sides, kind, fine);
            let mut differences = self.differences_of_tiles(&large, sides, set, fine);
            if of_set(set).bits > 0 {
                differences.bits = (u128::from(differences.bits) * estimates[set] / u128::from(of_set(set).bits)) as u64;
            }
            let more = Estimate { bits: differences.bits + 49_152 * differences.values, ..differences };
            if more.is_less_a_value(of_kind(InterpolationKind::CUBIC).best()) {
                return Chosen::Axes(axes_of(set, &self.layout.shape));
            }
            let (kind, estimate) = self.best_kind(|kind| of_kind(kind).best());
            let Residuals { as_escapes, masked } = of_kind(kind);
            let limit = Estimate { bits: differences.bits * 13, values: differences.values * 16 };
            if as_escapes.is_less_a_value(differences) || masked.is_some_and(|masked| masked.is_less_a_value(limit)) {
                return Chosen::Interpolation(kind, estimate, masked.is_some());
            }
        }
        Chosen::Axes(axes_of(set, &self.layout.shape))
    }

    fn by_all_values(&self, fine: &FineGrid<V>) -> Chosen {
        let codes = self.codes(&self.values, self.layout.shape.row(), true);
        let differences = |set: usize| lorenzo::differences(&codes, &self.layout.shape, axes_of(set, &self.layout.shape));
        let of_set = |set: usize, outliers: usize| estimate(&[differences(set)], MOST, outliers);
        let key = |set: usize| (of_set(set, 0).bits, set == 0 && of_set(set, 0).bits == 0);
        let set = self.sets().into_iter().min_by_key(|&set| key(set)).unwrap();
        let axes = axes_of(set, &self.layout.shape);
        let without_code = self.values.iter().filter(|&&value| !self.has_code(value)).count();
        let far = codes.iter().filter(|code| code.unsigned_abs() >= V::STEPS_LIMIT as u32).count();
        let stand_in = self.stand_in(&codes);
        let is_promising = |best: Estimate| {
            let is_near = stand_in.is_none_or(|stand_in| {
                16 * u128::from(stand_in.bits) * u128::from(best.values)
                    < 24 * u128::from(best.bits) * u128::from(stand_in.values)
            });
            fine.is_enabled() && far <= self.values.len() / 2 && is_near
        };
        let zeros = self.values.iter().filter(|value| value.to_bits() == V::Code::default()).count();
        let interpolated = |kind: InterpolationKind, fine: &FineGrid<V>, masked: usize| {
            let (mut residuals, mut exceptions) = (Vec::new(), Bitmap::default());
            exceptions.clear(self.values.len()).unwrap();
            Interpolation::default().forward(self.bytes, &self.layout, fine, kind, &mut residuals, &mut exceptions).unwrap();
            let is_escape = |residual: i32| residual.unsigned_abs() >= 65_536;
            let escapes = residuals.iter().filter(|&&residual| is_escape(residual)).count();
            residuals.iter_mut().filter(|residual| is_escape(**residual)).for_each(|residual| *residual = 0);
            let outliers = escapes + exceptions.count() - without_code - masked;
            (estimate(&[residuals], MOST, outliers), outliers)
        };
        let of_kind = |kind: InterpolationKind| interpolated(kind, fine, 0).0;
        let mut exact = vec![V::Code::default(); codes.len()];
        let mut exceptions = Bitmap::default();
        exceptions.clear(codes.len()).unwrap();
        linear::quantize::<V>(self.bytes, ByteOrder::Little, self.quantizer, &mut exact, &mut exceptions);
        for outliers in [0, exceptions.count() - without_code] {
            let best = of_set(set, outliers);
            if is_promising(best) {
                let (kind, mut estimate) = self.best_kind(of_kind);
                let edges = self.zero_edges(&self.values, self.layout.shape.row(), |value| value.to_bits() == V::Code::default());
                let mut masks_zeros = false;
                if let (Some(edges), true) = (edges, zeros > 0 && interpolated(kind, fine, 0).1 > 0) {
                    let (mut masked, _) = interpolated(kind, &FineGrid::new(&self.quantizer.masking_zeros()), zeros);
                    masked.bits += 8 * (edges as u64 + 128) * 65_536;
                    masks_zeros = masked.bits < estimate.bits;
                    estimate = if masks_zeros { masked } else { estimate };
                }
                if estimate.bits < best.bits {
                    return Chosen::Interpolation(kind, estimate, masks_zeros);
                }
            }
        }
        Chosen::Axes(axes)
    }

    /// The stand-in for interpolation of a small chunk; `None` if no axis is long enough.
    fn stand_in(&self, codes: &[i32]) -> Option<Estimate> {
        let mut best: Option<Estimate> = None;
        let mut stride = 1;
        for extent in self.extents() {
            // Groups of 16 values with all neighbours, in each block of values that is not cut along the axis.
            let len = stride * extent.saturating_sub(6) / 16 * 16;
            let mut stretches = Vec::new();
            for start in (0..codes.len()).step_by(stride * extent).map(|start| start + 3 * stride) {
                let residual = |index: usize| {
                    let at = |distance: isize| codes[index.wrapping_add_signed(distance * stride as isize)];
                    let sum = at(-1).wrapping_add(at(1)).wrapping_mul(9).wrapping_sub(at(-3)).wrapping_sub(at(3));
                    let is_counted = self.has_code(self.values[index]);
                    if is_counted { at(0).wrapping_sub(sum.wrapping_add(8) >> 4) } else { 0 }
                };
                stretches
                    .extend((start..start + len).step_by(16).map(|first| (first..first + 16).map(residual).collect::<Vec<_>>()));
            }
            let found = estimate(&stretches, MOST, 0);
            if found.values > 0 && best.is_none_or(|best| found.is_less_a_value(best)) {
                best = Some(found);
            }
            stride *= extent;
        }
        best
    }
}
