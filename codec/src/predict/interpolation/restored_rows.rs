//! Positions of the rows of a parity class, from predictions and residuals: the inverse of [`super::encoded_rows`].

use std::slice;

use super::slice_ring::ClassRows;
use crate::number::patched16::{PLACEHOLDER, Patched16};
use crate::number::value::Value;
use crate::quantize::fine_grid::{ESCAPE_FROM, Worth, to_grid};
use crate::simd::ROW_GROUP;

/// The position of a chunk's first value, which is the coarsest level.
pub(super) fn restore_first<V: Value>(worth: Worth, residuals: &Patched16<'_>) -> i32 {
    let residual = residuals.patches_in(0..1).first().map_or(i32::from(residuals.values[0]), |&(_, residual)| residual as i32);
    let mut position = [worth.position_of::<V>(0, residual)];
    to_grid::<V>(&mut position);
    position[0]
}

/// Restores the positions of rows. `first` is the index of the rows' first residual.
#[inline(always)]
pub(super) fn restore<V: Value>(
    worth: Worth,
    class_rows: &ClassRows<'_>,
    first: usize,
    predictions: &[i32],
    residuals: &Patched16<'_>,
    positions: &mut [i32],
) {
    let small_residuals = &residuals.values[first..][..class_rows.rows * class_rows.len];
    if restore_rows::<V>(worth, class_rows, predictions, small_residuals, positions) {
        restore_patches::<V>(worth, residuals, first, class_rows, predictions, positions);
    }
    to_grid::<V>(positions);
}

/// Corrects the positions whose residuals do not fit 16 bits. `first` is the index of the rows' first residual.
#[cold]
#[inline(never)]
fn restore_patches<V: Value>(
    worth: Worth,
    residuals: &Patched16<'_>,
    first: usize,
    class_rows: &ClassRows<'_>,
    predictions: &[i32],
    positions: &mut [i32],
) {
    for &(index, residual) in residuals.patches_in(first..first + class_rows.rows * class_rows.len) {
        let at = (index - first) / class_rows.len * class_rows.stride + (index - first) % class_rows.len;
        positions[at] = worth.position_of::<V>(predictions[at], residual as i32);
    }
}

/// Restores the positions of rows from residuals of 16 bits. Returns whether there is a placeholder among them: a residual that does not fit 16 bits. Its
/// position is wrong until [`restore_patches`] corrects it.
#[inline(always)]
fn restore_rows<V: Value>(
    worth: Worth,
    class_rows: &ClassRows<'_>,
    predictions: &[i32],
    residuals: &[i16],
    positions: &mut [i32],
) -> bool {
    let rows = predictions
        .chunks(class_rows.stride)
        .zip(positions.chunks_mut(class_rows.stride))
        .zip(residuals.chunks_exact(class_rows.len));
    let mut has_patches = false;
    for ((predictions, positions), residuals) in rows {
        has_patches |= restore_row::<V>(worth, &predictions[..class_rows.len], residuals, &mut positions[..class_rows.len]);
    }
    has_patches
}

/// [`restore_rows`] for one row of any length.
#[inline(always)]
fn restore_row<V: Value>(worth: Worth, predictions: &[i32], residuals: &[i16], positions: &mut [i32]) -> bool {
    // On the levels with most values a residual of 1 is worth a step. With this constant the multiplication is a shift.
    if worth.is_step() {
        restore_row_by::<V>(Worth::STEP, predictions, residuals, positions)
    } else {
        restore_row_by::<V>(worth, predictions, residuals, positions)
    }
}

#[inline(always)]
fn restore_row_by<V: Value>(worth: Worth, predictions: &[i32], residuals: &[i16], positions: &mut [i32]) -> bool {
    let mut has_patches =
        restore_groups::<V>(worth, predictions.as_chunks().0, residuals.as_chunks().0, positions.as_chunks_mut().0);
    if positions.len().is_multiple_of(ROW_GROUP) {
        return has_patches;
    }
    if let (Some(predictions), Some(residuals), Some(positions)) =
        (predictions.last_chunk(), residuals.last_chunk(), positions.last_chunk_mut())
    {
        // The last group overlaps the group before it.
        return has_patches
            | restore_groups::<V>(worth, slice::from_ref(predictions), slice::from_ref(residuals), slice::from_mut(positions));
    }
    for ((position, &prediction), &residual) in positions.iter_mut().zip(predictions).zip(residuals) {
        *position = position_of_small::<V>(worth, prediction, residual);
        has_patches |= residual == PLACEHOLDER;
    }
    has_patches
}

/// [`restore_rows`] for whole groups.
#[inline(always)]
fn restore_groups<V: Value>(
    worth: Worth,
    predictions: &[[i32; ROW_GROUP]],
    residuals: &[[i16; ROW_GROUP]],
    positions: &mut [[i32; ROW_GROUP]],
) -> bool {
    // The lowest residual at each index of the groups so far. No residual is below `PLACEHOLDER`.
    let mut lowest = [0; ROW_GROUP];
    for ((positions, predictions), residuals) in positions.iter_mut().zip(predictions).zip(residuals) {
        *positions = std::array::from_fn(|i| position_of_small::<V>(worth, predictions[i], residuals[i]));
        lowest = std::array::from_fn(|i| lowest[i].min(residuals[i]));
    }
    lowest.contains(&PLACEHOLDER)
}

/// The position from a prediction and a residual of 16 bits, which is too small to be an escape.
#[inline(always)]
fn position_of_small<V: Value>(worth: Worth, prediction: i32, residual: i16) -> i32 {
    const { assert!(i16::MIN.unsigned_abs() as i32 <= ESCAPE_FROM) };
    worth.position_from::<V>(prediction, residual.into())
}

#[cfg(test)]
mod tests {
    use super::super::level::Level;
    use super::*;
    use crate::quantize::fine_grid::ESCAPE_BASE;
    use crate::quantize::positions::on_grid;

    #[test]
    fn rows_of_any_length_are_restored() {
        let level = Level::new([80, 3, 1, 1]);
        for (len, worth) in (1..=40).flat_map(|len| [8, 3].map(|positions| (len, Worth::of(positions)))) {
            for (rows, stride) in [(1, len), (3, len), (3, len + 2)] {
                for patched in [&[][..], &[0], &[len - 1], &[len / 2, rows * len - 1]] {
                    let mut small_residuals: Vec<i16> = (0..rows * len).map(|i| (i * 37 % 201) as i16 - 100).collect();
                    let patches: Vec<_> = patched.iter().map(|&index| (index, i64::from(ESCAPE_BASE) + index as i64)).collect();
                    patched.iter().for_each(|&index| small_residuals[index] = PLACEHOLDER);
                    let class_rows = ClassRows { class: &level.classes()[0], indices: [0; 4], len, rows, stride };
                    let predictions: Vec<i32> = (0..rows * stride).map(|i| i as i32 * 1001).collect();
                    let mut positions = vec![-7; (rows - 1) * stride + len];
                    let residuals = Patched16 { values: &small_residuals, patches: &patches };
                    restore::<f32>(worth, &class_rows, 0, &predictions, &residuals, &mut positions);
                    for (at, &position) in positions.iter().enumerate() {
                        let (row, column) = (at / stride, at % stride);
                        let residual = |index: usize| {
                            let patch = patches.iter().find(|patch| patch.0 == index);
                            patch.map_or(small_residuals[index].into(), |&(_, residual)| residual as i32)
                        };
                        let led_to = |prediction| on_grid(worth.position_of::<f32>(prediction, residual(row * len + column)));
                        let expected = if column < len { led_to(predictions[at]) } else { -7 };
                        assert_eq!(position, expected, "row {row}, column {column} of {rows} x {len} with stride {stride}");
                    }
                }
            }
        }
    }
}
