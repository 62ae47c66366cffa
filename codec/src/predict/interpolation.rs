//! Stage 2' (FORMAT.md §6.2): values → steps along an interpolation from coarse to fine, and back.
//!
//! The chunk is a stack of grids: grid `l` has every `2^l`-th value along each axis. From the coarsest grid, a single value, each finer one
//! is predicted by cubic interpolation of what is known, level by level, as in SZ3 (Zhao et al., ICDE'21) and cuSZ-i (Liu et al., SC'24);
//! values that are new along several axes take the mean of the axes' predictions (as HPEZ does, Liu et al., SIGMOD'24).
//!
//! ```text
//! o known   1 new along one axis   2 new along two        o   1   o
//! first all 1 from the o around them along one axis,      1   2   1
//! then all 2 from the 1 around them along two             o   1   o
//! ```
//!
//! Unlike differences, predictions start from restored values, and a residual is a whole number of steps: a value that its neighbours
//! foretell to within the bound costs a zero, where rounding to a grid first would leave ±1. Restored values still lie on a grid of their own,
//! eight positions a step ([`FineGrid`]): that is what lets a value that a decoder has returned keep its position for ever.

mod class_rows;
mod level;
mod line;
mod slice_ring;
mod small;

use std::slice;

use self::class_rows::{Encoder, Source};
use self::level::{Extents, Level, count, depth_of, grid, index, indices};
use self::slice_ring::{ClassRows, SliceRing};
use self::small::{SmallGrid, is_small};
use crate::error::Result;
use crate::layout::{ByteOrder, Shape};
use crate::memory::{reserve, resize};
use crate::number::patched16::{FAR, Patched16};
use crate::number::value::Value;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::{ESCAPE_FROM, FineGrid, MOST_VALUES, position_of};
use crate::quantize::positions::POSITIONS_PER_STEP;
use crate::simd::{ROW_GROUP, common_row, common_row_mut, groups_before_last, outlined, short_row, vectorized};

/// Values that are quantized together.
const PART: usize = MOST_VALUES;

/// Buffers of this stage.
#[derive(Debug, Default)]
pub struct Interpolation {
    /// Places on a whole grid, and room for the next one.
    grid: [Vec<i32>; 2],
    /// See [`SliceRing`].
    sheets: Vec<i32>,
    predictions: Vec<i32>,
    /// Values of the grids but the finest, from the second finest on.
    values: Vec<u8>,
    /// Rows of a class_rows that a glance leaves in doubt.
    doubtful: Vec<usize>,
    /// The finest of the grids that are small.
    small: SmallGrid,
}

impl Interpolation {
    /// Extents of a shape and the depth of its finest small grid, for which all is made ready.
    fn start(&mut self, shape: &Shape) -> Result<(Extents, usize)> {
        let whole = shape.extents();
        let coarsest = depth_of(whole, is_small);
        self.small.become_of(grid(whole, coarsest))?;
        let room = if coarsest > 0 { count(grid(whole, 1)) } else { 0 };
        for grid in &mut self.grid {
            resize(grid, room)?;
        }
        Ok((whole, coarsest))
    }

    /// Residuals of a chunk's values, in the order of the classes. Exceptions are marked in `exceptions`, zeros so far.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn forward<V: Value>(
        &mut self,
        chunk: &[u8],
        order: ByteOrder,
        shape: &Shape,
        fine: &FineGrid<V>,
        residuals: &mut Vec<i32>,
        exceptions: &mut Bitmap,
    ) -> Result<()> {
        let (whole, coarsest) = self.start(shape)?;
        resize(residuals, count(whole))?;
        resize(&mut self.values, (1..=coarsest).map(|depth| count(grid(whole, depth))).sum::<usize>() * V::SIZE)?;
        self.doubtful.clear();
        reserve(&mut self.doubtful, whole[1])?;
        vectorized(
            #[inline(always)]
            || {
                let mut before = chunk;
                let mut room = &mut self.values[..];
                for depth in 0..coarsest {
                    let (values, rest) = room.split_at_mut(count(grid(whole, depth + 1)) * V::SIZE);
                    thin_out::<V>(before, grid(whole, depth), order, values);
                    (before, room) = (values, rest);
                }
                let mut were_masked = false;
                let small = grid(whole, coarsest);
                outlined(
                    #[inline(always)]
                    || {
                        self.small.forward(before, order, fine, residuals, &mut were_masked, |index| {
                            exceptions.set(if coarsest == 0 {
                                index
                            } else {
                                self::index(whole, indices(small, index).map(|index| index << coarsest))
                            });
                        })
                    },
                );
                if coarsest > 0 {
                    self.grid[0][..count(small)].copy_from_slice(self.small.positions());
                }
                let mut encoder = Encoder::new(fine, exceptions, &mut self.doubtful, were_masked);
                let mut end = self.values.len();
                for depth in (0..coarsest).rev() {
                    let extents = grid(whole, depth);
                    end -= count(grid(whole, depth + 1)) * V::SIZE;
                    let values = if depth == 0 { chunk } else { &self.values[end - count(extents) * V::SIZE..end] };
                    let level = Level::new(extents);
                    let [from, to] = &mut self.grid;
                    let source = Source { values, extents, depth, whole, order };
                    run(
                        &level,
                        from,
                        &mut self.sheets,
                        &mut self.predictions,
                        #[inline(always)]
                        |class_rows, predictions, positions| {
                            encoder.encode(&source, class_rows, predictions, residuals, positions)
                        },
                        #[inline(always)]
                        |first, evens, odds| {
                            if depth > 0 {
                                interleave(evens, odds, &mut to[first..first + evens.len() + odds.len()]);
                            }
                        },
                    )?;
                    self.grid.swap(0, 1);
                }
                Ok(())
            },
        )
    }

    /// Restores the values of a chunk from their residuals.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn inverse<V: Value>(
        &mut self,
        residuals: &Patched16<'_>,
        shape: &Shape,
        fine: &FineGrid<V>,
        order: ByteOrder,
        chunk: &mut [u8],
    ) -> Result<()> {
        let (whole, coarsest) = self.start(shape)?;
        vectorized(
            #[inline(always)]
            || {
                outlined(
                    #[inline(always)]
                    || self.small.inverse(residuals),
                );
                if coarsest == 0 {
                    V::write_all(
                        self.small.positions(),
                        #[inline(always)]
                        |position| fine.restore(position),
                        order,
                        chunk,
                    );
                    return Ok(());
                }
                let positions = self.small.positions();
                self.grid[0][..positions.len()].copy_from_slice(positions);
                for depth in (0..coarsest).rev() {
                    let level = Level::new(grid(whole, depth));
                    let [from, to] = &mut self.grid;
                    run(
                        &level,
                        from,
                        &mut self.sheets,
                        &mut self.predictions,
                        #[inline(always)]
                        |class_rows, predictions, positions| {
                            let len = class_rows.len;
                            let first = class_rows.class.start + index(class_rows.class.extents, class_rows.indices);
                            let near = &residuals.near[first..][..class_rows.rows * len];
                            if restore_rows(class_rows, predictions, near, positions) {
                                restore_far(residuals, first, class_rows, predictions, positions);
                            }
                        },
                        #[inline(always)]
                        |first, evens, odds| {
                            let row = first..first + evens.len() + odds.len();
                            if depth > 0 {
                                interleave(evens, odds, &mut to[row]);
                            } else {
                                fine.restore_row(evens, odds, order, &mut chunk[row.start * V::SIZE..row.end * V::SIZE]);
                            }
                        },
                    )?;
                    self.grid.swap(0, 1);
                }
                Ok(())
            },
        )
    }
}

/// Goes through a level: see [`SliceRing::run`]. The vectors are room.
#[inline(always)]
fn run(
    level: &Level,
    coarse: &[i32],
    positions: &mut Vec<i32>,
    predictions: &mut Vec<i32>,
    code: impl FnMut(&ClassRows<'_>, &[i32], &mut [i32]),
    merge: impl FnMut(usize, &[i32], &[i32]),
) -> Result<()> {
    if line::is_line(level.fine) {
        line::run(level, coarse, positions, predictions, code, merge)
    } else {
        SliceRing::new(level, positions, predictions)?.run(coarse, code, merge);
        Ok(())
    }
}

/// Puts right the positions of a class_rows in which there are residuals that are far. The class_rows begins at index `first`.
#[cold]
#[inline(never)]
fn restore_far(residuals: &Patched16<'_>, first: usize, class_rows: &ClassRows<'_>, predictions: &[i32], positions: &mut [i32]) {
    for &(index, residual) in residuals.far_in(first..first + class_rows.rows * class_rows.len) {
        let at = (index - first) / class_rows.len * class_rows.stride + (index - first) % class_rows.len;
        positions[at] = position_of(predictions[at], residual as i32);
    }
}

/// The positions that residuals of a class_rows's rows lead to from predictions; says whether one of the residuals is far, and its position wrong.
#[inline(always)]
fn restore_rows(class_rows: &ClassRows<'_>, predictions: &[i32], residuals: &[i16], positions: &mut [i32]) -> bool {
    match groups_before_last(class_rows.len) {
        Some(0) => outlined(
            #[inline(always)]
            || restore_short_rows::<0>(class_rows, predictions, residuals, positions),
        ),
        Some(1) => outlined(
            #[inline(always)]
            || restore_short_rows::<1>(class_rows, predictions, residuals, positions),
        ),
        Some(2) => outlined(
            #[inline(always)]
            || restore_short_rows::<2>(class_rows, predictions, residuals, positions),
        ),
        Some(3) => outlined(
            #[inline(always)]
            || restore_short_rows::<3>(class_rows, predictions, residuals, positions),
        ),
        _ => {
            let rows = predictions
                .chunks(class_rows.stride)
                .zip(positions.chunks_mut(class_rows.stride))
                .zip(residuals.chunks_exact(class_rows.len));
            let mut is_far = false;
            for ((predictions, positions), residuals) in rows {
                is_far |= restore_row(&predictions[..class_rows.len], residuals, &mut positions[..class_rows.len]);
            }
            is_far
        }
    }
}

/// The same for rows of so many whole groups and a last one.
#[inline(always)]
fn restore_short_rows<const WHOLE: usize>(
    class_rows: &ClassRows<'_>,
    predictions: &[i32],
    residuals: &[i16],
    positions: &mut [i32],
) -> bool {
    let mut lowest = [0; ROW_GROUP];
    for (row, residuals) in residuals.chunks_exact(class_rows.len).enumerate() {
        let at = row * class_rows.stride..row * class_rows.stride + class_rows.len;
        let positions = &mut positions[at.clone()];
        let (Some((predictions, last_predictions)), Some((residuals, last_residuals))) =
            (short_row::<WHOLE, _>(&predictions[at]), short_row::<WHOLE, _>(residuals))
        else {
            continue;
        };
        if let Some(positions) = positions.as_chunks_mut().0.first_chunk_mut::<WHOLE>() {
            for group in 0..WHOLE {
                restore_group(&predictions[group], &residuals[group], &mut positions[group], &mut lowest);
            }
        }
        if let Some(positions) = positions.last_chunk_mut() {
            restore_group(last_predictions, last_residuals, positions, &mut lowest);
        }
    }
    lowest.contains(&FAR)
}

/// The same for a row of any length.
#[inline(always)]
fn restore_row(predictions: &[i32], residuals: &[i16], positions: &mut [i32]) -> bool {
    if let (Some(predictions), Some(residuals), Some(positions)) =
        (common_row(predictions), common_row(residuals), common_row_mut(&mut *positions))
    {
        return restore_groups(predictions, residuals, positions);
    }
    let mut is_far = restore_groups(predictions.as_chunks().0, residuals.as_chunks().0, positions.as_chunks_mut().0);
    if positions.len().is_multiple_of(ROW_GROUP) {
        return is_far;
    }
    if let (Some(predictions), Some(residuals), Some(positions)) =
        (predictions.last_chunk(), residuals.last_chunk(), positions.last_chunk_mut())
    {
        // The last group ends with the last value and overlaps the group before it.
        return is_far | restore_groups(slice::from_ref(predictions), slice::from_ref(residuals), slice::from_mut(positions));
    }
    for ((position, &prediction), &residual) in positions.iter_mut().zip(predictions).zip(residuals) {
        *position = restore_near(prediction, residual);
        is_far |= residual == FAR;
    }
    is_far
}

#[inline(always)]
fn restore_groups(predictions: &[[i32; ROW_GROUP]], residuals: &[[i16; ROW_GROUP]], positions: &mut [[i32; ROW_GROUP]]) -> bool {
    let mut lowest = [0; ROW_GROUP];
    for ((positions, predictions), residuals) in positions.iter_mut().zip(predictions).zip(residuals) {
        restore_group(predictions, residuals, positions, &mut lowest);
    }
    lowest.contains(&FAR)
}

/// The positions that a group's residuals lead to; `lowest` becomes the lowest residual at each position of a group.
#[inline(always)]
fn restore_group(
    predictions: &[i32; ROW_GROUP],
    residuals: &[i16; ROW_GROUP],
    positions: &mut [i32; ROW_GROUP],
    lowest: &mut [i16; ROW_GROUP],
) {
    *positions = std::array::from_fn(|i| restore_near(predictions[i], residuals[i]));
    *lowest = std::array::from_fn(|i| lowest[i].min(residuals[i]));
}

/// The position that a residual of 16 bits leads to.
#[inline(always)]
fn restore_near(prediction: i32, residual: i16) -> i32 {
    const { assert!(i16::MIN.unsigned_abs() as i32 <= ESCAPE_FROM) };
    prediction.wrapping_add(i32::from(residual) * POSITIONS_PER_STEP)
}

/// Copies the values of a grid that the next coarser one has too.
#[inline(always)]
fn thin_out<V: Value>(values: &[u8], extents: Extents, order: ByteOrder, thinned: &mut [u8]) {
    let coarse = extents.map(|extent| extent.div_ceil(2));
    let mut part_values = [V::default(); PART];
    for (row, thinned) in thinned.chunks_exact_mut(coarse[0] * V::SIZE).enumerate() {
        let at = [0, row % coarse[1], row / coarse[1] % coarse[2], row / coarse[1] / coarse[2]];
        let values = &values[index(extents, at.map(|index| 2 * index)) * V::SIZE..][..extents[0] * V::SIZE];
        for (part, thinned) in thinned.chunks_mut(PART * V::SIZE).enumerate() {
            let part_values = &mut part_values[..thinned.len() / V::SIZE];
            V::read_alternate(&values[2 * part * PART * V::SIZE..], false, order, part_values);
            V::write_all(
                part_values,
                #[inline(always)]
                |value| value,
                order,
                thinned,
            );
        }
    }
}

/// Puts the even and the odd positions of a row together.
#[inline(always)]
fn interleave(evens: &[i32], odds: &[i32], row: &mut [i32]) {
    let (pairs, last) = row.as_chunks_mut::<2>();
    for ((pair, &even), &odd) in pairs.iter_mut().zip(evens).zip(odds) {
        *pair = [even, odd];
    }
    if let (Some(last), Some(&even)) = (last.first_mut(), evens.last()) {
        *last = even;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::fine_grid::ESCAPE_BASE;

    #[test]
    fn rows_of_any_length_are_restored() {
        let level = Level::new([80, 3, 1, 1]);
        for len in 1..=40 {
            for (rows, stride) in [(1, len), (3, len), (3, len + 2)] {
                for fars in [&[][..], &[0], &[len - 1], &[len / 2, rows * len - 1]] {
                    let mut near: Vec<i16> = (0..rows * len).map(|i| (i * 37 % 201) as i16 - 100).collect();
                    let far: Vec<_> = fars.iter().map(|&index| (index, i64::from(ESCAPE_BASE) + index as i64)).collect();
                    fars.iter().for_each(|&index| near[index] = FAR);
                    let class_rows = ClassRows { class: &level.classes()[0], indices: [0; 4], len, rows, stride };
                    let predictions: Vec<i32> = (0..rows * stride).map(|i| i as i32 * 1001).collect();
                    let mut positions = vec![-7; (rows - 1) * stride + len];
                    let is_far = restore_rows(&class_rows, &predictions, &near, &mut positions);
                    assert_eq!(is_far, !fars.is_empty());
                    if is_far {
                        restore_far(&Patched16 { near: &near, far: &far }, 0, &class_rows, &predictions, &mut positions);
                    }
                    for (at, &position) in positions.iter().enumerate() {
                        let (row, column) = (at / stride, at % stride);
                        let residual = |index: usize| {
                            far.iter().find(|far| far.0 == index).map_or(near[index].into(), |&(_, residual)| residual as i32)
                        };
                        let expected = if column < len { position_of(predictions[at], residual(row * len + column)) } else { -7 };
                        assert_eq!(position, expected, "row {row}, column {column} of {rows} x {len}, {stride} apart");
                    }
                }
            }
        }
    }
}
