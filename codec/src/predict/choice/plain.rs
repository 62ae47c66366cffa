//! FORMAT.md §11.3 in no hurry: the predictor of a chunk of floating-point numbers on an absolute bound's rounding grid, and the axes of codes on other grids.
//! The choice is tested against it.

use super::axes_of;
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::number::fixed_log2::log2_fixed;
use crate::number::value::Value;
use crate::predict::interpolation::plain as interpolation;
use crate::predict::lorenzo::plain as lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::fine_grid::{FineGrid, aligned};
use crate::quantize::quantizer::Quantizer;

/// An estimate of the bits of a number of residuals, in 65536ths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) bits: u64,
    pub(super) values: u64,
}

impl Estimate {
    /// Whether the bits a value are below `sixteenths` / 16 of those of another estimate.
    fn is_below(self, sixteenths: u64, other: Self) -> bool {
        16 * u128::from(self.bits) * u128::from(other.values)
            < u128::from(sixteenths) * u128::from(other.bits) * u128::from(self.values)
    }

    fn plus(self, bits: u64) -> Self {
        Self { bits: self.bits + 65_536 * bits, ..self }
    }
}

/// The estimate of residuals, in stretches of neighbours, without the term `40 × R`.
pub(super) fn estimate<I: Copy + Into<i64>>(stretches: &[Vec<I>]) -> Estimate {
    let w = |x: u64| if x == 0 { 0 } else { x * log2_fixed(x) };
    let split = |a: u64, b: u64| w(a + b).saturating_sub(w(a) + w(b));
    let all = || stretches.iter().flatten().map(|&residual| residual.into());
    let number = |is_counted: &dyn Fn(i64) -> bool| all().filter(|&residual| is_counted(residual)).count() as u64;
    let (zeros, others, negative) = (number(&|x| x == 0), number(&|x| x != 0), number(&|x| x < 0));
    let is_rise = |pair: &&[I]| pair[0].into() == 0 && pair[1].into() != 0;
    let rises = stretches.iter().flat_map(|stretch| stretch.windows(2)).filter(is_rise).count() as u64;
    let rises = rises.min(others).min(zeros);
    let low_bits: u64 = all().filter(|&x| x != 0).map(|x| u64::from(x.unsigned_abs().ilog2())).sum();
    let bits = split(zeros, others).min(split(rises, zeros - rises) + split(rises, others - rises))
        + split(negative, others - negative)
        + split(others, low_bits);
    Estimate { bits, values: zeros + others }.plus(low_bits)
}

/// The sides of a tile.
fn tile_sides(chunk: [usize; MAX_RANK]) -> [usize; MAX_RANK] {
    let len = (chunk.iter().product::<usize>() / 4).min(512);
    let mut sides = chunk.map(|extent| extent.min(2));
    while sides.iter().product::<usize>() < len {
        let shorter = (0..MAX_RANK).filter(|&axis| sides[axis] < chunk[axis]);
        let Some(axis) = shorter.min_by_key(|&axis| sides[axis]) else { break };
        sides[axis] *= 2;
    }
    std::array::from_fn(|axis| (sides[axis] + usize::from(sides[axis] > 1)).min(chunk[axis]))
}

/// Indices along the axes of the values of an array, fastest axis first, in C order.
fn indices(extents: [usize; MAX_RANK]) -> impl Iterator<Item = [usize; MAX_RANK]> {
    (0..extents.iter().product::<usize>()).map(move |mut index: usize| {
        extents.map(|extent| {
            let at = index % extent;
            index /= extent;
            at
        })
    })
}

/// Sides and values of the tiles of an array with these extents.
fn tiles_of<T: Copy>(extents: [usize; MAX_RANK], values: &[T]) -> ([usize; MAX_RANK], Vec<Vec<T>>) {
    let sides = tile_sides(extents);
    let slowest = (0..MAX_RANK).rfind(|&axis| extents[axis] > 1).unwrap_or(0);
    let origin = |tile: usize, axis: usize| {
        let origins = (extents[axis] - sides[axis]) / 4 + 1;
        4 * if axis == slowest {
            origins * (2 * tile + 1) / 32
        } else {
            origins * (((tile + 1) * [49_472, 37_345, 28_191, 0][axis] + 32_768) % 65_536) / 65_536
        }
    };
    let index = |tile, at: [usize; MAX_RANK]| {
        (0..MAX_RANK).rev().fold(0, |index, axis| index * extents[axis] + origin(tile, axis) + at[axis])
    };
    let tile = |tile: usize| indices(sides).map(|at| values[index(tile, at)]).collect();
    (sides, (0..16).map(tile).collect())
}

/// The sets of axes longer than 1, by their numbers.
pub(super) fn sets(extents: [usize; MAX_RANK]) -> impl Iterator<Item = usize> {
    (0..1 << MAX_RANK).filter(move |set| (0..MAX_RANK).all(|axis| set >> axis & 1 == 0 || extents[axis] > 1))
}

/// The differences of a tile's codes that count, in stretches of neighbours.
fn counted_differences(sides: [usize; MAX_RANK], codes: &[i64], set: usize, width: u32) -> Vec<Vec<i64>> {
    let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| sides[MAX_RANK - 1 - axis] as u64);
    let shape = Shape::new(&dims).unwrap();
    let mut stretches = vec![Vec::new()];
    for (at, difference) in indices(sides).zip(lorenzo::differences(codes, &shape, axes_of(set, &shape))) {
        if (0..MAX_RANK).all(|axis| sides[axis] == 1 || at[axis] > 0) {
            stretches.last_mut().unwrap().push(wrapped(difference, width));
        } else {
            stretches.push(Vec::new());
        }
    }
    stretches
}

fn wrapped(number: i64, width: u32) -> i64 {
    number << (64 - width) >> (64 - width)
}

/// The set with the least estimate, of those of all sets, and this estimate.
fn best_set(extents: [usize; MAX_RANK], of_sets: &[Estimate]) -> (usize, Estimate) {
    let mut estimates: Vec<u128> = of_sets.iter().map(|estimate| estimate.bits.into()).collect();
    for axis in 0..MAX_RANK {
        let extent = extents[axis] as u128;
        for set in sets(extents).filter(|set| set >> axis & 1 == 1) {
            estimates[set] = (estimates[set] * (extent - 1) + estimates[set ^ 1 << axis]) / extent;
        }
    }
    let set = sets(extents).min_by_key(|&set| (estimates[set], set == 0 && estimates[set] == 0)).unwrap();
    (set, Estimate { bits: estimates[set] as u64, ..of_sets[set] })
}

/// The best set of axes for codes of as many bits, which are extended to 64 bits by their sign, and its estimate before it is corrected.
pub(super) fn axes_of_codes(codes: &[i64], width: u32, shape: &Shape) -> (usize, Vec<Estimate>) {
    let extents = shape.extents();
    let (sides, tiles) = tiles_of(extents, codes);
    let of_set =
        |set: usize| estimate(&tiles.iter().flat_map(|tile| counted_differences(sides, tile, set, width)).collect::<Vec<_>>());
    let mut of_sets = vec![Estimate { bits: 0, values: 0 }; 1 << MAX_RANK];
    sets(extents).for_each(|set| of_sets[set] = of_set(set));
    (best_set(extents, &of_sets).0, of_sets)
}

/// A chunk of floating-point numbers.
pub(super) struct Plain<'a, V> {
    pub(super) layout: Layout,
    pub(super) quantizer: &'a Quantizer,
    pub(super) values: Vec<V>,
    /// Whether interpolation is a candidate, if there is a fine grid.
    pub(super) is_interpolation_open: bool,
}

/// Counts over a chunk's tiles for which no kind of interpolation is needed.
struct Counted {
    of_sets: Vec<Estimate>,
    out_of_reach: usize,
    looked_at: usize,
    zero_edges: usize,
}

/// The estimate of a kind's residuals without `R`, the zeros in `R`, and the others in it.
type OfKind = (Estimate, usize, usize);

impl<V: Value> Plain<'_, V> {
    fn extents(&self) -> [usize; MAX_RANK] {
        self.layout.shape.extents()
    }

    fn fine(&self) -> FineGrid<V> {
        FineGrid::new(self.quantizer)
    }

    fn has_fine_grid(&self) -> bool {
        self.is_interpolation_open && self.fine().is_enabled()
    }

    fn scaled(&self, value: V) -> f64 {
        value.to_f64() * self.quantizer.inverse_step()
    }

    fn has_code(&self, value: V) -> bool {
        self.scaled(value).abs() < V::CODE_LIMIT && !self.quantizer.fills().has(value)
    }

    fn zero_edges(&self, values: &[V], row: usize) -> usize {
        let is_zero = |value: V| value.to_f64() == 0.0 && self.has_code(value);
        values.chunks(row).map(|row| row.windows(2).filter(|pair| is_zero(pair[0]) != is_zero(pair[1])).count()).sum()
    }

    /// The predictor's byte, and whether zeros are exceptions.
    pub(super) fn predictor(&self, for_less_noise: bool) -> (u8, bool) {
        let (sides, tiles) = tiles_of(self.extents(), &self.values);
        let fine = self.fine();
        let all = || tiles.iter().flatten().copied();
        let code = |value: V| self.scaled(value).round_ties_even() as i64 as i32;
        let codes: Vec<Vec<i64>> = tiles
            .iter()
            .map(|tile| {
                let of_row = |row: &[V]| {
                    let codes = row.iter().scan(0, |before, &value| {
                        *before = if self.has_code(value) { code(value) } else { *before };
                        Some(i64::from(*before))
                    });
                    codes.collect::<Vec<_>>()
                };
                tile.chunks(sides[0]).flat_map(of_row).collect()
            })
            .collect();
        let between_steps =
            all().filter(|&value| self.has_fine_grid() && self.has_code(value) && fine.is_between_steps(value)).count();
        let counted: usize = sides.iter().map(|&side| (side - 1).max(1)).product();
        let outliers = between_steps * counted / tiles[0].len();
        let mut of_sets = vec![Estimate { bits: 0, values: 0 }; 1 << MAX_RANK];
        for set in sets(self.extents()) {
            let stretches: Vec<_> = codes.iter().flat_map(|codes| counted_differences(sides, codes, set, 32)).collect();
            of_sets[set] = estimate(&stretches).plus(40 * outliers as u64);
        }
        let counted = Counted {
            of_sets,
            out_of_reach: all()
                .filter(|&value| self.has_code(value) && self.scaled(value).round_ties_even().abs() >= V::STEPS_LIMIT)
                .count(),
            looked_at: all().count(),
            zero_edges: tiles.iter().map(|tile| self.zero_edges(tile, sides[0])).sum(),
        };
        self.decide(&counted, for_less_noise, |kind| self.residuals_of_tiles(sides, &tiles, kind))
    }

    fn residuals_of_tiles(&self, sides: [usize; MAX_RANK], tiles: &[Vec<V>], kind: InterpolationKind) -> OfKind {
        let uncounted: usize = match sides.iter().filter(|&&side| side > 1).count() {
            3.. => sides.iter().map(|side| side.div_ceil(4)).product(),
            _ => 0,
        };
        let fine = self.fine();
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
                        *(if value.to_f64() == 0.0 { &mut zeros } else { &mut outliers }) += counts;
                        (0, nearest.map_or(prediction, |(position, _)| position))
                    }
                }
            });
            residuals.drain(..uncounted);
            stretches.push(residuals);
        }
        (estimate(&stretches), zeros, outliers)
    }

    fn decide(&self, counted: &Counted, for_less_noise: bool, of_kind: impl Fn(InterpolationKind) -> OfKind) -> (u8, bool) {
        let (set, differences) = best_set(self.extents(), &counted.of_sets);
        let by_differences = (axes_of(set, &self.layout.shape).to_byte(), false);
        if !self.has_fine_grid() || counted.out_of_reach > counted.looked_at / 2 {
            return by_differences;
        }
        let k = (counted.zero_edges + 128 * counted.looked_at / self.values.len()) as u64;
        let can_mask = self.quantizer.fills().value().is_none();
        // The estimate of a kind, that with zeros as escapes, and whether zeros are masked.
        let estimates = |kind| {
            let (estimate, zeros, outliers) = of_kind(kind);
            let as_escapes = estimate.plus(40 * (outliers + zeros) as u64);
            let masks_zeros = can_mask && 8 * k < 40 * zeros as u64;
            (if masks_zeros { estimate.plus(40 * outliers as u64 + 8 * k) } else { as_escapes }, as_escapes, masks_zeros)
        };
        let bits = |rough, is_linear| {
            let kind = InterpolationKind::new(rough, is_linear);
            (estimates(kind).0.bits, kind)
        };
        let cubic = estimates(InterpolationKind::CUBIC).0;
        if differences.plus(0).is_below(16, Estimate { bits: cubic.bits.saturating_sub(49_152 * cubic.values), ..cubic }) {
            return by_differences;
        }
        let values = cubic.values;
        let first = |tried: &[(u64, InterpolationKind)]| {
            *tried.iter().reduce(|best, other| if other.0 + 256 * values < best.0 { other } else { best }).unwrap()
        };
        let mut tried = vec![bits(0, false), bits(0, true)];
        let is_linear = first(&tried).1.is_linear();
        let axes: Vec<usize> = (0..MAX_RANK).filter(|&axis| self.extents()[axis] > 1).collect();
        if axes.len() > 1 {
            axes.iter().for_each(|axis| tried.push(bits(1 << axis, is_linear)));
        }
        let rough = first(&tried).1.rough();
        if rough > 0 {
            tried.push(bits(rough, !is_linear));
        }
        let kind = first(&tried).1;
        let (best, as_escapes, masks_zeros) = estimates(kind);
        let is_better = best.is_below(if masks_zeros { 13 } else { 16 }, differences);
        if !is_better && !as_escapes.is_below(16, differences) {
            return by_differences;
        }
        let is_finer = if for_less_noise { axes.len() >= 2 } else { axes.len() >= 3 && best.bits < 26_214 * best.values };
        (kind.to_byte() | if is_finer { 0x20 } else { 0 }, masks_zeros)
    }
}
