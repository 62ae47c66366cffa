//! FORMAT.md §6.2 word for word: interpolation, value by value. Tests compare the fast paths with these functions.

use super::level::{Extents, count, index, indices};
use crate::layout::MAX_RANK;
use crate::number::patched16::{PLACEHOLDER, Patch, Patched16};
use crate::predict::predictor::{InterpolationKind, LevelSteps};
use crate::quantize::fine_grid::plain::{on_grid, worth_at};
use crate::random::Random;

/// The position that follows from a prediction and a residual or an escape, before it is moved to the grid.
pub(super) fn position(prediction: i32, residual: i32, worth: i32) -> i32 {
    if residual.unsigned_abs() < 65536 {
        prediction.wrapping_add(residual.wrapping_mul(worth))
    } else {
        prediction.wrapping_add(residual).wrapping_sub(98304)
    }
}

/// 16 times the prediction along an axis, from the neighbours at distances -3, -1, +1 and +3.
fn sum_along(neighbours: [Option<i32>; 4], is_linear: bool) -> i32 {
    let weighted = |pairs: &[(i32, i32)]| pairs.iter().fold(0i32, |sum, &(weight, p)| sum.wrapping_add(p.wrapping_mul(weight)));
    match neighbours {
        [_, Some(b), Some(c), _] if is_linear => weighted(&[(8, b), (8, c)]),
        [_, Some(b), None, _] if is_linear => weighted(&[(16, b)]),
        [Some(a), Some(b), Some(c), Some(d)] => weighted(&[(-1, a), (9, b), (9, c), (-1, d)]),
        [None, Some(b), Some(c), Some(d)] => weighted(&[(6, b), (12, c), (-2, d)]),
        [Some(a), Some(b), Some(c), None] => weighted(&[(-2, a), (12, b), (6, c)]),
        [None, Some(b), Some(c), None] => weighted(&[(8, b), (8, c)]),
        [Some(a), Some(b), None, _] => weighted(&[(24, b), (-8, a)]),
        [None, Some(b), None, _] => weighted(&[(16, b)]),
        [_, None, ..] => panic!("the neighbour at distance -1 always exists"),
    }
}

/// The prediction of the value at `at`. `set` has the axes along which its index is odd.
fn predict(level: Extents, positions: &[i32], at: Extents, set: usize, kind: InterpolationKind) -> i32 {
    let smooth = set & !usize::from(kind.rough());
    let axes = if smooth == 0 { set } else { smooth };
    let sums: Vec<(bool, i32)> = (0..MAX_RANK)
        .filter(|axis| axes >> axis & 1 == 1)
        .map(|axis| {
            let neighbours = [-3isize, -1, 1, 3].map(|distance| {
                let other = at[axis].checked_add_signed(distance).filter(|&other| other < level[axis])?;
                let mut neighbour = at;
                neighbour[axis] = other;
                Some(positions[index(level, neighbour)])
            });
            (neighbours[2].is_some(), sum_along(neighbours, kind.is_linear()))
        })
        .collect();
    let any_has_c = sums.iter().any(|sum| sum.0);
    let counting: Vec<i32> = sums.iter().filter(|sum| sum.0 || !any_has_c).map(|sum| sum.1).collect();
    let n = counting.len() as i32;
    counting.into_iter().fold(8 * n, i32::wrapping_add).div_euclid(16 * n)
}

/// Positions of a level in C order. `coarse` has the positions of the next coarser level. `position` gives the position of each other value, in the order of the
/// residuals, from the value's indices in the level and its prediction.
pub(super) fn positions_of_level(
    level: Extents,
    coarse: &[i32],
    kind: InterpolationKind,
    mut position: impl FnMut(Extents, i32) -> i32,
) -> Vec<i32> {
    let mut positions = vec![0; count(level)];
    let parity = |at: Extents| (0..MAX_RANK).fold(0, |set, axis| set | (at[axis] & 1) << axis);
    let values_of = |set: usize| (0..count(level)).map(move |i| indices(level, i)).filter(move |&at| parity(at) == set);
    for (at, &coarse) in values_of(0).zip(coarse) {
        positions[index(level, at)] = coarse;
    }
    let mut sets: Vec<usize> = (1..1 << MAX_RANK).collect();
    sets.sort_by_key(|set| (set.count_ones(), *set));
    for set in sets {
        for at in values_of(set) {
            positions[index(level, at)] = position(at, predict(level, &positions, at, set, kind));
        }
    }
    positions
}

/// Positions of a chunk in C order, from all its residuals.
pub(crate) fn restore(shape: Extents, chunk_residuals: &[i32], kind: InterpolationKind, spacing_grows: bool) -> Vec<i32> {
    let (mut positions, mut rest) = (vec![0; count(shape)], chunk_residuals.iter());
    residuals(shape, kind, |index, prediction, worth| {
        let residual = *rest.next().unwrap();
        let led_to = position(prediction, residual, worth_at(prediction, worth, spacing_grows));
        positions[index] = on_grid(led_to, spacing_grows);
        (residual, positions[index])
    });
    assert_eq!(rest.len(), 0);
    positions
}

/// Residuals of a chunk in their order. `encode` gets a value's index in the chunk, its prediction and the `S` of its level, and returns the value's residual
/// and position.
pub(crate) fn residuals(
    shape: Extents,
    kind: InterpolationKind,
    mut encode: impl FnMut(usize, i32, i32) -> (i32, i32),
) -> Vec<i32> {
    let extents = |l: usize| shape.map(|extent| extent.div_ceil(1 << l));
    let last = (0..).find(|&l| count(extents(l)) == 1).unwrap();
    let (residual, position) = encode(0, 0, kind.steps().positions(last));
    let (mut residuals, mut positions) = (vec![residual], vec![position]);
    for l in (0..last).rev() {
        positions = positions_of_level(extents(l), &positions, kind, |at, prediction| {
            let (residual, position) = encode(index(shape, at.map(|index| index << l)), prediction, kind.steps().positions(l));
            residuals.push(residual);
            position
        });
    }
    residuals
}

/// Kinds of interpolation with and without rough axes, cubic and linear, with each choice of [`LevelSteps`].
pub(super) fn some_kinds() -> impl Iterator<Item = InterpolationKind> + Clone {
    let kinds = [0, 0b0001, 0b0010, 0b0110, 0b1101]
        .into_iter()
        .flat_map(|rough| [false, true].map(|linear| InterpolationKind::new(rough, linear)));
    kinds.enumerate().map(|(number, kind)| kind.with_steps(LevelSteps::ALL[number % 3]))
}

/// Residuals of all magnitudes: most are small, some are large, some are escapes.
pub(super) fn some_residuals(len: usize, seed: u64) -> Vec<i32> {
    let mut random = Random(seed);
    let residual = |_| {
        let number = random.next();
        let bits = [3, 3, 3, 10, 15, 17, 31, 32][(number >> 61) as usize];
        ((number >> 20) as u32).cast_signed() >> (32 - bits)
    };
    (0..len).map(residual).collect()
}

/// Calls `body` with the residuals in the form in which a decoder reads them: 16 bits each, and patches.
pub(crate) fn with_patched<R>(residuals: &[i32], body: impl FnOnce(&Patched16<'_>) -> R) -> R {
    let fits = |residual: i32| i16::try_from(residual).ok().filter(|&small| small != PLACEHOLDER);
    let values: Vec<i16> = residuals.iter().map(|&residual| fits(residual).unwrap_or(PLACEHOLDER)).collect();
    let patches: Vec<Patch> =
        residuals.iter().enumerate().filter(|(_, r)| fits(**r).is_none()).map(|(i, &r)| (i, i64::from(r))).collect();
    body(&Patched16 { values: &values, patches: &patches })
}
