//! Interpolation as FORMAT.md §6.2 defines it, value by value: the tests compare the fast paths with it.

use super::level::{Extents, count, index, indices};
use crate::layout::MAX_RANK;
use crate::number::patched16::{PLACEHOLDER, Patch, Patched16};
use crate::predict::predictor::{InterpolationKind, LevelSteps};
use crate::quantize::fine_grid::plain::{on_grid, worth_at};

/// The position from a prediction and a residual, which may be an escape, before it is moved to the grid.
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

/// The prediction of the value at `at`, whose indices are odd along the axes of `set`.
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

/// Positions of level `number` in C order, from those of the next coarser level and from the residuals of all other values of this level.
pub(super) fn restore_level(
    level: Extents,
    coarse: &[i32],
    residuals: &[i32],
    (kind, number): (InterpolationKind, usize),
    spacing_grows: bool,
) -> Vec<i32> {
    let mut positions = vec![0; count(level)];
    let parity = |at: Extents| (0..MAX_RANK).fold(0, |set, axis| set | (at[axis] & 1) << axis);
    let values_of = |set: usize| (0..count(level)).map(move |i| indices(level, i)).filter(move |&at| parity(at) == set);
    for (at, &coarse) in values_of(0).zip(coarse) {
        positions[index(level, at)] = coarse;
    }
    let mut sets: Vec<usize> = (1..1 << MAX_RANK).collect();
    sets.sort_by_key(|set| (set.count_ones(), *set));
    let mut residuals = residuals.iter();
    for set in sets {
        for at in values_of(set) {
            let prediction = predict(level, &positions, at, set, kind);
            let worth = worth_at(prediction, kind.steps().positions(number), spacing_grows);
            let led_to = position(prediction, *residuals.next().unwrap(), worth);
            positions[index(level, at)] = on_grid(led_to, spacing_grows);
        }
    }
    assert_eq!(residuals.len(), 0);
    positions
}

/// Positions of a chunk in C order, from all its residuals.
pub(crate) fn restore(shape: Extents, residuals: &[i32], kind: InterpolationKind, spacing_grows: bool) -> Vec<i32> {
    let extents = |l: usize| shape.map(|extent| extent.div_ceil(1 << l));
    let last = (0..).find(|&l| count(extents(l)) == 1).unwrap();
    let mut positions = vec![on_grid(position(0, residuals[0], kind.steps().positions(last)), spacing_grows)];
    for l in (0..last).rev() {
        let level = extents(l);
        positions = restore_level(level, &positions, &residuals[positions.len()..count(level)], (kind, l), spacing_grows);
    }
    positions
}

/// Residuals of all values of a chunk in their order. `encode` gets a value's index in the chunk, its prediction and the `S` of its level, and returns its
/// residual and its position.
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
        let (level, coarse) = (extents(l), std::mem::replace(&mut positions, vec![0; count(extents(l))]));
        let parity = |at: Extents| (0..MAX_RANK).fold(0, |set, axis| set | (at[axis] & 1) << axis);
        let values_of = |set: usize| (0..count(level)).map(move |i| indices(level, i)).filter(move |&at| parity(at) == set);
        for (at, &coarse) in values_of(0).zip(&coarse) {
            positions[index(level, at)] = coarse;
        }
        let mut sets: Vec<usize> = (1..1 << MAX_RANK).collect();
        sets.sort_by_key(|set| (set.count_ones(), *set));
        for set in sets {
            for at in values_of(set) {
                let prediction = predict(level, &positions, at, set, kind);
                let (residual, position) =
                    encode(index(shape, at.map(|index| index << l)), prediction, kind.steps().positions(l));
                positions[index(level, at)] = position;
                residuals.push(residual);
            }
        }
    }
    residuals
}

/// Kinds of interpolation: with and without rough axes, cubic and linear, with all steps of levels.
pub(super) fn some_kinds() -> impl Iterator<Item = InterpolationKind> + Clone {
    let kinds = [0, 0b0001, 0b0010, 0b0110, 0b1101]
        .into_iter()
        .flat_map(|rough| [false, true].map(|linear| InterpolationKind::new(rough, linear)));
    kinds.enumerate().map(|(number, kind)| kind.with_steps(LevelSteps::ALL[number % 3]))
}

/// Residuals of all magnitudes: most are small, some are large, some are escapes.
pub(super) fn some_residuals(len: usize, seed: u64) -> Vec<i32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = [3, 3, 3, 10, 15, 17, 31, 32][(state >> 61) as usize];
            ((state >> 20) as u32).cast_signed() >> (32 - bits)
        })
        .collect()
}

/// Calls `body` with residuals as a decoder reads them.
pub(crate) fn with_patched<R>(residuals: &[i32], body: impl FnOnce(&Patched16<'_>) -> R) -> R {
    let fits = |residual: i32| i16::try_from(residual).ok().filter(|&small| small != PLACEHOLDER);
    let values: Vec<i16> = residuals.iter().map(|&residual| fits(residual).unwrap_or(PLACEHOLDER)).collect();
    let patches: Vec<Patch> =
        residuals.iter().enumerate().filter(|(_, r)| fits(**r).is_none()).map(|(i, &r)| (i, i64::from(r))).collect();
    body(&Patched16 { values: &values, patches: &patches })
}
