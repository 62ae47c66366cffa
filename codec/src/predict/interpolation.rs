//! Stages 1 and 2 together, for interpolation (FORMAT.md §5.2, §6.2): values → residuals, and back. Both directions go from the coarsest level to the finest.
//!
//! Level `l` of a chunk `[nw][nz][ny][nx]` has every `2^l`-th value along each axis. The coarsest level has a single value. Restored values predict the next
//! finer level by cubic interpolation, as in SZ3 (Zhao et al., ICDE'21) and cuSZ-i (Liu et al., SC'24). A value whose index is odd along several axes takes
//! the mean of its predictions along these axes, as in HPEZ (Liu et al., SIGMOD'24). Two sorts of axes do not count for the mean if other axes are left:
//! rough axes, and axes along which the value is the last. An [`InterpolationKind`] names the rough axes, and says whether interpolation is linear or cubic.
//!
//! ```text
//! o of the coarser level   1 odd along one axis   2 odd along two axes        o   1   o
//! first each 1 is predicted from the o beside it along its odd axis,          1   2   1
//! then each 2 from the 1 around it along both axes                            o   1   o
//! ```
//!
//! Predictions are made from positions of restored values. A residual is a number of steps, or of parts of a step on coarse levels, unless it is an escape. So
//! a value that is predicted to within the bound has a residual of 0, where a difference of rounded values would often be ±1. Restored values lie on a fine
//! grid of eight positions a step ([`FineGrid`]), and so keep their positions when they are compressed again.

mod encoded_rows;
pub(super) mod level;
pub(super) mod mean;
#[cfg(test)]
pub(crate) mod plain;
mod restored_rows;
mod slice_ring;

use self::encoded_rows::{LevelValues, RowEncoder};
use self::level::{Extents, Level, coarsest_depth, count, index, level_extents};
use self::restored_rows::{restore, restore_first};
use self::slice_ring::SliceRing;
use crate::error::Result;
use crate::layout::{ByteOrder, Layout, Shape};
use crate::memory::resize;
use crate::number::patched16::Patched16;
use crate::number::value::Value;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::{FineGrid, MAX_VALUES_PER_CALL, Worth};
use crate::simd::{vectorized, widely_vectorized};

/// Values that are quantized at once.
const PART_LEN: usize = MAX_VALUES_PER_CALL;

/// Buffers of this stage.
#[derive(Debug, Default)]
pub struct Interpolation {
    /// Positions of two levels in C order: the next coarser level, and the level that is coded. They are swapped after each level.
    positions: [Vec<i32>; 2],
    /// Positions of the slices in the ring: see [`SliceRing`].
    slices: Vec<i32>,
    /// Predictions of a slice.
    predictions: Vec<i32>,
    /// Values of levels 1, 2, …, one level after the other.
    values: Vec<u8>,
}

impl Interpolation {
    /// Makes room for the positions of a shape. Returns the shape's extents, fastest first, and the number of its coarsest level.
    fn prepare(&mut self, shape: &Shape) -> Result<(Extents, usize)> {
        let whole = shape.extents();
        for positions in &mut self.positions {
            resize(positions, count(level_extents(whole, 1)))?;
        }
        Ok((whole, coarsest_depth(whole)))
    }

    /// Writes the residuals of a chunk's values, in the order of levels and parity classes (FORMAT.md §6.2). Sets the bits of exceptions in
    /// `exceptions`, by index in the chunk; all its bits must be 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn forward<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        fine: &FineGrid<V>,
        kind: InterpolationKind,
        residuals: &mut Vec<i32>,
        exceptions: &mut Bitmap,
    ) -> Result<()> {
        let &Layout { byte_order: order, ref shape, .. } = layout;
        let (whole, coarsest) = self.prepare(shape)?;
        resize(residuals, count(whole))?;
        resize(&mut self.values, (1..=coarsest).map(|depth| count(level_extents(whole, depth))).sum::<usize>() * V::SIZE)?;
        vectorized(
            #[inline(always)]
            || {
                let mut finer = chunk;
                let mut room = &mut self.values[..];
                for depth in 0..coarsest {
                    let (values, rest) = room.split_at_mut(count(level_extents(whole, depth + 1)) * V::SIZE);
                    downsample::<V>(finer, level_extents(whole, depth), order, values);
                    (finer, room) = (values, rest);
                }
                let mut encoder = RowEncoder::new(fine, exceptions);
                encoder.set_worth(Worth::of(kind.steps().positions(coarsest)));
                self.positions[0][0] = encoder.encode_first(V::read(chunk, 0, order), &mut residuals[0]);
                let mut end = self.values.len();
                for depth in (0..coarsest).rev() {
                    let extents = level_extents(whole, depth);
                    end -= count(level_extents(whole, depth + 1)) * V::SIZE;
                    let values = if depth == 0 { chunk } else { &self.values[end - count(extents) * V::SIZE..end] };
                    let level = Level::new(extents);
                    let [from, to] = &mut self.positions;
                    let source = LevelValues { values, extents, depth, whole, order };
                    encoder.set_worth(Worth::of(kind.steps().positions(depth)));
                    SliceRing::new(&level, kind, &mut self.slices, &mut self.predictions)?.run(
                        from,
                        #[inline(always)]
                        |class_rows, predictions, positions| {
                            // Only rows of binary32 gain from the widest vectors.
                            if V::as_f32(&[]).is_some() {
                                widely_vectorized(
                                    #[inline(always)]
                                    || encoder.encode(&source, class_rows, predictions, residuals, positions),
                                );
                            } else {
                                encoder.encode(&source, class_rows, predictions, residuals, positions);
                            }
                        },
                        #[inline(always)]
                        |first, evens, odds| {
                            if depth > 0 {
                                interleave(evens, odds, &mut to[first..first + evens.len() + odds.len()]);
                            }
                        },
                    );
                    self.positions.swap(0, 1);
                }
                Ok(())
            },
        )
    }

    /// Restores the values of a chunk from their residuals, which are in the order of levels and parity classes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn inverse<V: Value>(
        &mut self,
        residuals: &Patched16<'_>,
        layout: &Layout,
        fine: &FineGrid<V>,
        kind: InterpolationKind,
        chunk: &mut [u8],
    ) -> Result<()> {
        let &Layout { byte_order: order, ref shape, .. } = layout;
        let (whole, coarsest) = self.prepare(shape)?;
        vectorized(
            #[inline(always)]
            || {
                let worth = Worth::of(kind.steps().positions(coarsest));
                self.positions[0][0] = restore_first::<V>(worth, residuals);
                if coarsest == 0 {
                    V::write(fine.restore_limited(self.positions[0][0]), chunk, 0, order);
                    return Ok(());
                }
                for depth in (0..coarsest).rev() {
                    let level = Level::new(level_extents(whole, depth));
                    let worth = Worth::of(kind.steps().positions(depth));
                    let [from, to] = &mut self.positions;
                    SliceRing::new(&level, kind, &mut self.slices, &mut self.predictions)?.run(
                        from,
                        #[inline(always)]
                        |class_rows, predictions, positions| {
                            let first = class_rows.class.start + index(class_rows.class.extents, class_rows.indices);
                            restore::<V>(worth, class_rows, first, predictions, residuals, positions);
                        },
                        #[inline(always)]
                        |first, evens, odds| {
                            let row = first..first + evens.len() + odds.len();
                            if depth > 0 {
                                interleave(evens, odds, &mut to[row]);
                            } else {
                                fine.write_values(evens, odds, order, &mut chunk[row.start * V::SIZE..row.end * V::SIZE]);
                            }
                        },
                    );
                    self.positions.swap(0, 1);
                }
                Ok(())
            },
        )
    }
}

/// Copies the values of the next coarser level from those of a level with these extents.
#[inline(always)]
fn downsample<V: Value>(values: &[u8], extents: Extents, order: ByteOrder, downsampled: &mut [u8]) {
    let coarse = extents.map(|extent| extent.div_ceil(2));
    let mut part_values = [V::default(); PART_LEN];
    for (row, downsampled) in downsampled.chunks_exact_mut(coarse[0] * V::SIZE).enumerate() {
        let at = [0, row % coarse[1], row / coarse[1] % coarse[2], row / coarse[1] / coarse[2]];
        let values = &values[index(extents, at.map(|index| 2 * index)) * V::SIZE..][..extents[0] * V::SIZE];
        for (part, downsampled) in downsampled.chunks_mut(PART_LEN * V::SIZE).enumerate() {
            let part_values = &mut part_values[..downsampled.len() / V::SIZE];
            V::read_alternate(&values[2 * part * PART_LEN * V::SIZE..], false, order, part_values);
            V::write_all(
                part_values,
                #[inline(always)]
                |value| value,
                order,
                downsampled,
            );
        }
    }
}

/// Interleaves the even and the odd positions of a row.
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
    use crate::layout::Scalar;
    use crate::quantize::quantizer::Quantizer;

    const SHAPES: [&[u64]; 16] = [
        &[1],
        &[2],
        &[61],
        &[2049],
        &[5003],
        &[1, 3000],
        &[3000, 1],
        &[53, 61],
        &[2, 1031],
        &[64, 64],
        &[17, 13, 19],
        &[16, 16, 16],
        &[3, 1, 701],
        &[7, 5, 11, 13],
        &[2, 2, 2, 300],
        &[300, 2, 2, 2],
    ];

    #[test]
    fn chunks_are_restored_as_the_format_says() {
        let mut interpolation = Interpolation::default();
        fn check<V: Value>(scalar: Scalar, dims: &[u64], kind: InterpolationKind, interpolation: &mut Interpolation) {
            let fine = Quantizer::new(0.5).fine::<V>().unwrap();
            let shape = Shape::new(dims).unwrap();
            let layout = Layout { scalar, byte_order: ByteOrder::Little, shape };
            let residuals = plain::some_residuals(shape.elements() as usize, 17);
            let mut chunk = vec![0; residuals.len() * V::SIZE];
            plain::with_patched(&residuals, |patched| {
                interpolation.inverse(patched, &layout, &fine, kind, &mut chunk).unwrap();
            });
            for (i, position) in plain::restore(shape.extents(), &residuals, kind, V::SPACING_GROWS).into_iter().enumerate() {
                let value = V::read(&chunk, i, ByteOrder::Little);
                assert!(value.to_bits() == fine.restore(position).to_bits(), "{dims:?} {kind:?} value {i}");
            }
        }
        for (dims, kind) in SHAPES.into_iter().flat_map(|dims| plain::some_kinds().map(move |kind| (dims, kind))) {
            check::<f32>(Scalar::F32, dims, kind, &mut interpolation);
            check::<f64>(Scalar::F64, dims, kind, &mut interpolation);
        }
    }

    #[test]
    fn residuals_restore_values_within_the_bound() {
        let mut interpolation = Interpolation::default();
        let (mut residuals, mut exceptions) = (Vec::new(), Bitmap::default());
        let quantizer = Quantizer::new(0.5);
        let fine = quantizer.fine::<f32>().unwrap();
        let is_special = |i: usize| i % 29 == 5 || (700..800).contains(&i);
        for (dims, kind) in SHAPES.into_iter().zip(plain::some_kinds().cycle()) {
            let shape = Shape::new(dims).unwrap();
            let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape };
            let n = shape.elements() as usize;
            let special = |i: usize| [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX][i % 4];
            let regular = |i: usize| ((i as f32 * 0.01).sin() * 700.0, -0.0, f32::from_bits(1));
            let value = |i: usize| {
                let (smooth, zero, subnormal) = regular(i);
                if is_special(i) {
                    special(i)
                } else {
                    [smooth, smooth, smooth, smooth, zero, subnormal, 60_000.0 * smooth][i % 7]
                }
            };
            let chunk: Vec<u8> = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
            exceptions.clear(n).unwrap();
            interpolation.forward(&chunk, &layout, &fine, kind, &mut residuals, &mut exceptions).unwrap();
            let positions = plain::restore(shape.extents(), &residuals[..n], kind, true);
            let exception_indices: Vec<usize> = exceptions.indices().collect();
            for (i, &position) in positions.iter().enumerate() {
                let error = (f64::from(value(i)) - f64::from(fine.restore(position))).abs();
                // Not every escape leads to the position of a 0, and some values are beyond the fine grid. No other value may be an exception.
                let is_exception = exception_indices.binary_search(&i).is_ok();
                assert!(is_exception || error <= 0.5, "{dims:?} value {i}: {} is off by {error}", value(i));
                assert!(is_exception || !is_special(i), "{dims:?} value {i} is no exception");
                let may_be_exception = is_special(i) || value(i) == 0.0 || fine.position(value(i)).is_none();
                assert!(!is_exception || may_be_exception, "{dims:?} value {i} is an exception");
            }
        }
    }
}
