//! Interpolation of small levels from tables. [`super::slice_ring`] takes too long for short rows.
//!
//! A level's positions are in a buffer of slots. The buffer has a section for the next coarser level, then one for each parity class. All sections have the
//! extents of the coarser level. So each value has its neighbours along an axis at the same distances. A table has the weight of each neighbour, 0 beyond the
//! level's ends. Tables depend on the shape and on the kind of interpolation alone, and are kept from chunk to chunk.
//!
//! ```text
//! level of 5x3   o 1 o 1 o    sections, each of 3x2 and padded to a multiple of 8:
//!                2 3 2 3 2    coarser level o o o o o o │ class {x} 1 1 - 1 1 - │ class {y} 2 2 2 - - - │ class {x, y} 3 3 - - - -
//!                o 1 o 1 o
//! ```
//!
//! A prediction is a sum of positions times integer weights, modulo 2^32. So the order of the additions does not matter.

mod tables;

use self::tables::{NEIGHBOURS, SECTIONS_BEFORE, SLOTS, SmallLevel, SmallParityClass, Stage, Tables};
use super::PART_LEN;
use super::level::{Extents, count};
use super::mean::mean;
use super::restored_rows::restore_row;
use crate::error::Result;
use crate::fast_paths::{Path, is_open};
use crate::layout::ByteOrder;
use crate::memory::{push, resize};
use crate::number::patched16::Patched16;
use crate::number::value::Value;
use crate::predict::predictor::{InterpolationKind, LevelSteps};
use crate::quantize::bitmap::ones;
use crate::quantize::fine_grid::{FineGrid, Worth, to_grid};
use crate::simd::ROW_GROUP;

/// Most values of a level that is interpolated from tables.
const MAX_SMALL_LEVEL_VALUES: usize = 2048;
/// As [`MAX_SMALL_LEVEL_VALUES`], of a level with short rows.
const MAX_SHORT_ROWS_VALUES: usize = 6144;
/// Most values of a short row.
const MAX_SHORT_ROW_VALUES: usize = 16;

/// Number of tables that are kept. The chunks of a dataset may take turns with all kinds that the encoder tries.
const KEPT_TABLES: usize = 9;

/// Whether a level of these extents is interpolated from tables.
pub(super) fn is_small(extents: Extents) -> bool {
    let most = match extents[0] {
        ..=MAX_SHORT_ROW_VALUES => MAX_SHORT_ROWS_VALUES,
        _ => MAX_SMALL_LEVEL_VALUES,
    };
    count(extents) == 1 || count(extents) <= most && is_open(Path::SmallLevels)
}

/// The small levels of a chunk, and buffers for their positions.
#[derive(Debug, Default)]
pub(super) struct SmallLevels {
    /// At most [`KEPT_TABLES`]. The tables used last come first.
    tables: Vec<Tables>,
    /// Number of the finest small level.
    finest: usize,
    steps: LevelSteps,
    /// Positions of a level and of the next coarser level: [`SLOTS`] slots.
    level_buffer: Vec<i32>,
    /// Predictions: [`SLOTS`] slots.
    predictions: Vec<i32>,
    /// Positions of one level in C order.
    positions: Vec<i32>,
}

impl SmallLevels {
    /// Makes the tables for a kind of interpolation, unless they are kept. The finest small level has number `finest` and these extents.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn prepare(&mut self, extents: Extents, finest: usize, kind: InterpolationKind) -> Result<()> {
        (self.finest, self.steps) = (finest, kind.steps());
        // Tables do not depend on steps.
        let kind = kind.with_steps(LevelSteps::Equal);
        resize(&mut self.level_buffer, SLOTS)?;
        resize(&mut self.predictions, SLOTS)?;
        resize(&mut self.positions, count(extents))?;
        if let Some(number) = self.tables.iter().position(|tables| (tables.extents, tables.kind) == (extents, kind)) {
            self.tables[..=number].rotate_right(1);
            return Ok(());
        }
        let tables = Tables::new(extents, kind)?;
        self.tables.truncate(KEPT_TABLES - 1);
        push(&mut self.tables, tables)?;
        self.tables.rotate_right(1);
        Ok(())
    }

    /// Positions of the finest small level in C order, after [`SmallLevels::forward`] or [`SmallLevels::inverse`].
    pub(super) fn positions(&mut self) -> &[i32] {
        if let Some(finest) = self.tables.first().and_then(|tables| tables.levels.last()) {
            finest.merge(&self.level_buffer, &mut self.positions);
        }
        &self.positions
    }

    /// Writes the residuals of all small levels. `values` are those of the finest small level in C order. Calls `exception` with the index of each exception in
    /// that level.
    #[inline(always)]
    pub(super) fn forward<V: Value>(
        &mut self,
        values: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
        residuals: &mut [i32],
        had_excluded: &mut bool,
        mut exception: impl FnMut(usize),
    ) {
        self.for_each_part(
            #[inline(always)]
            |worth, start, order_of_part, predictions, positions| {
                let len = order_of_part.len();
                let mut part = [V::default(); PART_LEN];
                // A constant byte order keeps the branch out of the loop.
                match order {
                    ByteOrder::Little => read_indexed(values, order_of_part, ByteOrder::Little, &mut part[..len]),
                    ByteOrder::Big => read_indexed(values, order_of_part, ByteOrder::Big, &mut part[..len]),
                }
                let exceptions = fine.with_worth(worth).encode(
                    &part[..len],
                    &predictions[..len],
                    &mut residuals[start..start + len],
                    &mut positions[..len],
                    had_excluded,
                );
                ones(exceptions).for_each(|at| exception(usize::from(order_of_part[at])));
            },
        );
    }

    /// Restores the positions of all small levels from residuals.
    #[inline(always)]
    pub(super) fn inverse<V: Value>(&mut self, residuals: &Patched16<'_>) {
        self.for_each_part(
            #[inline(always)]
            |worth, start, order, predictions, positions| {
                let (predictions, positions) = (&predictions[..order.len()], &mut positions[..order.len()]);
                let part = start..start + order.len();
                if restore_row::<V>(worth, predictions, &residuals.values[part.clone()], positions) {
                    for &(index, residual) in residuals.patches_in(part) {
                        positions[index - start] = worth.position_of::<V>(predictions[index - start], residual as i32);
                    }
                }
                to_grid::<V>(positions);
            },
        );
    }

    /// Calls `code_part` for parts of the values in the order of the residuals. It gets what a residual of 1 is worth, the index of the part's first residual,
    /// the values' indices in the finest small level, and their predictions. It writes their positions. Predictions and positions may be longer than the part.
    #[inline(always)]
    fn for_each_part(&mut self, mut code_part: impl FnMut(Worth, usize, &[u16], &[i32; PART_LEN], &mut [i32; PART_LEN])) {
        let Self { tables, positions, finest, steps, .. } = self;
        let (Some(Tables { order, slots, levels, .. }), Some(level_buffer), Some(predictions)) =
            (tables.first(), self.level_buffer.first_chunk_mut::<SLOTS>(), self.predictions.first_chunk_mut::<SLOTS>())
        else {
            unreachable!("`prepare` makes tables and buffers")
        };
        let (mut predicted, mut coded) = ([0; PART_LEN], [0; PART_LEN]);
        let worth = |coarser_than_finest: usize| Worth::of(steps.positions(*finest + coarser_than_finest));
        code_part(worth(levels.len()), 0, &order[..1], &predicted, &mut coded);
        positions[0] = coded[0];
        let mut coarser: Option<&SmallLevel> = None;
        for (number, level) in levels.iter().enumerate() {
            let worth = worth(levels.len() - 1 - number);
            if let Some(coarser) = coarser.replace(level) {
                coarser.merge(level_buffer, positions);
            }
            let SmallLevel { known, section_len, stages, .. } = level;
            level_buffer[SECTIONS_BEFORE * *section_len..][..*known].copy_from_slice(&positions[..*known]);
            for Stage { values, classes } in stages {
                for class in classes {
                    let predictions = predictions[class.start..][..*section_len].as_chunks_mut().0;
                    match class.along.len() {
                        1 => class.predict::<1>(level_buffer, predictions),
                        2 => class.predict::<2>(level_buffer, predictions),
                        3 => class.predict::<3>(level_buffer, predictions),
                        _ => class.predict::<4>(level_buffer, predictions),
                    }
                }
                let parts = order[values.clone()].chunks(PART_LEN).zip(slots[values.clone()].chunks(PART_LEN));
                for (part, (order, slots)) in parts.enumerate() {
                    for (predicted, &slot) in predicted.iter_mut().zip(slots) {
                        *predicted = predictions[usize::from(slot) % SLOTS];
                    }
                    code_part(worth, values.start + part * PART_LEN, order, &predicted, &mut coded);
                    for (&slot, &position) in slots.iter().zip(&coded) {
                        level_buffer[usize::from(slot) % SLOTS] = position;
                    }
                }
            }
        }
    }
}

/// Reads the values at these indices.
#[inline(always)]
fn read_indexed<V: Value>(values: &[u8], indices: &[u16], order: ByteOrder, read: &mut [V]) {
    for (value, &index) in read.iter_mut().zip(indices) {
        *value = V::read(values, usize::from(index), order);
    }
}

impl SmallParityClass {
    /// Predicts every slot of the class's section. Slots without a value get any number.
    #[inline(always)]
    fn predict<const AXES: usize>(&self, level_buffer: &[i32], predictions: &mut [[i32; ROW_GROUP]]) {
        let groups = predictions.len();
        let weights = self.weights.as_chunks().0;
        let mut known: [[&[[i32; ROW_GROUP]]; NEIGHBOURS]; AXES] = [[&[]; NEIGHBOURS]; AXES];
        let mut weighing: [[&[[i8; ROW_GROUP]]; NEIGHBOURS]; AXES] = [[&[]; NEIGHBOURS]; AXES];
        for (axis, &(start, stride)) in self.along.iter().enumerate().take(AXES) {
            for neighbour in 0..NEIGHBOURS {
                known[axis][neighbour] = &level_buffer[start + neighbour * stride - stride..].as_chunks().0[..groups];
                weighing[axis][neighbour] = &weights[(axis * NEIGHBOURS + neighbour) * groups..][..groups];
            }
        }
        for (group, predictions) in predictions.iter_mut().enumerate() {
            let mut sums = [0i32; ROW_GROUP];
            for (known, weights) in known.iter().zip(&weighing) {
                for (known, weights) in known.iter().zip(weights) {
                    for ((sum, known), &weight) in sums.iter_mut().zip(&known[group]).zip(&weights[group]) {
                        *sum = sum.wrapping_add(known.wrapping_mul(i32::from(weight)));
                    }
                }
            }
            *predictions = sums;
        }
        for (prediction, &axes) in predictions.as_flattened_mut().iter_mut().zip(&self.axes) {
            let sum = *prediction;
            *prediction = mean(sum, 1);
            for count in 2..=AXES {
                *prediction = if axes == count as i32 { mean(sum, count) } else { *prediction };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain;
    use super::*;
    use crate::quantize::quantizer::Quantizer;

    const SHAPES: [Extents; 16] = [
        [1, 1, 1, 1],
        [2, 1, 1, 1],
        [3, 1, 1, 1],
        [64, 1, 1, 1],
        [2048, 1, 1, 1],
        [1, 13, 1, 1],
        [2, 2, 1, 1],
        [2, 2, 2, 2],
        [3, 3, 3, 75],
        [5, 1, 7, 1],
        [31, 17, 1, 1],
        [2, 1000, 1, 1],
        [9, 9, 9, 1],
        [8, 8, 8, 4],
        [1, 1, 1, 2048],
        [8, 46, 12, 1],
    ];

    #[test]
    fn small_chunks_are_restored_as_the_format_says() {
        // All shapes share one value, so that it makes tables anew. Each shape comes twice, so that tables are used again.
        let mut small = SmallLevels::default();
        for extents in SHAPES.into_iter().flat_map(|extents| [extents; 2]) {
            assert!(is_small(extents), "{extents:?}");
            let residuals = plain::some_residuals(count(extents), 13);
            for kind in plain::some_kinds() {
                small.prepare(extents, 0, kind).unwrap();
                plain::with_patched(&residuals, |patched| small.inverse::<f32>(patched));
                assert_eq!(small.positions(), plain::restore(extents, &residuals, kind, true), "{extents:?}, {kind:?}");
                plain::with_patched(&residuals, |patched| small.inverse::<f64>(patched));
                assert_eq!(small.positions(), plain::restore(extents, &residuals, kind, false), "{extents:?}, {kind:?}");
            }
        }
    }

    #[test]
    fn residuals_and_exceptions_of_small_chunks_give_the_values_back() {
        let quantizer = Quantizer::new(0.25);
        let fine = quantizer.fine::<f32>().unwrap();
        let mut small = SmallLevels::default();
        for (extents, kind) in SHAPES.into_iter().zip(plain::some_kinds().cycle()) {
            small.prepare(extents, 0, kind).unwrap();
            let special = |i: usize| [f32::NAN, f32::INFINITY, f32::MIN, 1e30][i % 4];
            let value = |i: usize| if i % 11 == 3 { special(i / 11) } else { ((i * i) as f32 * 0.37) % 400.0 - 200.0 };
            let values: Vec<f32> = (0..count(extents)).map(value).collect();
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let bytes: Vec<u8> = values
                    .iter()
                    .flat_map(|value| match order {
                        ByteOrder::Little => value.to_le_bytes(),
                        ByteOrder::Big => value.to_be_bytes(),
                    })
                    .collect();
                let (mut residuals, mut exceptions) = (vec![0; values.len()], Vec::new());
                small.forward(&bytes, order, &fine, &mut residuals, &mut false, |index| exceptions.push(index));
                exceptions.sort_unstable();
                assert_eq!(exceptions, (3..values.len()).step_by(11).collect::<Vec<_>>(), "{extents:?}");
                for (i, &position) in
                    plain::restore(extents, &residuals, kind, true).iter().enumerate().filter(|(i, _)| i % 11 != 3)
                {
                    let error = f64::from(values[i]) - f64::from(fine.restore(position));
                    assert!(error.abs() <= 0.25, "{extents:?}: value {i} is off by {error}");
                }
            }
        }
    }

    #[test]
    fn the_slots_are_enough_for_all_small_extents() {
        assert!(!is_small([2049, 1, 1, 1]) && !is_small([3, 2049, 1, 1]) && !is_small([17, 121, 1, 1]));
        let mut small = SmallLevels::default();
        for x in [2, 3, 5, 9, 17, 33] {
            for y in [2, 3, 5, 9, 17, 33] {
                for z in [1, 2, 3, 5, 9] {
                    let most = if x <= MAX_SHORT_ROW_VALUES { MAX_SHORT_ROWS_VALUES } else { MAX_SMALL_LEVEL_VALUES };
                    let w = most / (x * y * z);
                    if w > 0 {
                        // It asserts that there are enough slots.
                        small.prepare([x, y, z, w], 0, InterpolationKind::CUBIC).unwrap();
                    }
                }
            }
        }
    }
}
