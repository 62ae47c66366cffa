//! Counts over the residuals of a small chunk, which has no sample: all of its values go through the stages of the encoder.

use super::counts::Counts;
use super::lanes::wrapped;
use super::{Chooser, SETS, axes_of, long_axes};
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::memory::resize;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::predict::quantized::Quantized;
use crate::quantize::fine_grid::{FineGrid, is_escape};
use crate::quantize::quantizer::Quantizer;
use crate::simd::widely_vectorized;

/// Counts over the differences of a chunk's codes along each set of axes longer than 1, which wrap to the width of `W`. `room` has as many elements as the chunk.
fn differences<C: Integer, W: Integer>(codes: &[C], shape: &Shape, room: &mut [C]) -> [Counts; SETS] {
    let long = long_axes(shape);
    let mut counts = [Counts::default(); SETS];
    for set in (0..SETS).filter(|set| set & !long == 0) {
        lorenzo::predict(codes, shape, axes_of(set, shape), room);
        counts[set] = widely_vectorized(
            #[inline(always)]
            || Counts::of(room, wrapped::<C, W>),
        );
    }
    counts
}

impl Chooser {
    /// Counts over the differences of a chunk's codes along each set of axes. They wrap to the width of the type's codes.
    pub(super) fn differences_of_codes<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        code: impl Fn(V) -> i64,
    ) -> Result<[Counts; SETS]> {
        let Self { wide_codes, wide_differences, .. } = self;
        for room in [&mut *wide_codes, &mut *wide_differences] {
            resize(room, layout.shape.elements() as usize)?;
        }
        for (index, slot) in wide_codes.iter_mut().enumerate() {
            *slot = code(V::read(chunk, index, layout.byte_order));
        }
        Ok(differences::<i64, V::Code>(wide_codes, &layout.shape, wide_differences))
    }

    /// Counts over the differences of a chunk's codes, modulo 2^32, on the rounding grid of an absolute bound along each set of axes, and the number of codes
    /// that are out of the fine grid's reach. Leaves the codes in `quantized`.
    pub(super) fn differences_of_chunk<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        quantized: &mut Quantized<'_, V::Code>,
    ) -> Result<([Counts; SETS], usize)> {
        quantized.quantize::<V>(chunk, layout, quantizer)?;
        let Self { codes, differences: room, .. } = self;
        for room in [&mut *codes, &mut *room] {
            resize(room, layout.shape.elements() as usize)?;
        }
        codes.iter_mut().zip(quantized.codes.iter()).for_each(|(low, code)| *low = code.to_i64() as i32);
        let mut counts = differences::<i32, i32>(codes, &layout.shape, room);
        let outliers = quantized.exceptions.count() as u32;
        counts.iter_mut().for_each(|counts| counts.outliers = outliers);
        Ok((counts, codes.iter().filter(|code| code.unsigned_abs() >= V::STEPS_LIMIT as u32).count()))
    }
}

/// Whether a chunk has zeros, and the number of neighbours along a row of which one is a zero, and the other is not.
pub(super) fn zeros<V: Value>(chunk: &[u8], layout: &Layout) -> (bool, usize) {
    let is_zero = |index: usize| V::read(chunk, index, layout.byte_order).to_f64() == 0.0;
    let (row, all) = (layout.shape.row(), 0..layout.shape.elements() as usize);
    let has_zeros = all.clone().any(is_zero);
    (has_zeros, all.filter(|&index| index % row > 0 && is_zero(index) != is_zero(index - 1)).count())
}

/// Counts over a chunk's residuals of interpolation. If it has zeros, those that are escapes are as many as there are escapes fewer where zeros are masked.
pub(super) fn interpolate<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    quantizer: &Quantizer,
    kind: InterpolationKind,
    has_zeros: bool,
    quantized: &mut Quantized<'_, V::Code>,
) -> Result<Counts> {
    let escapes_of = |residuals: &[i32]| residuals.iter().filter(|&&residual| is_escape(residual)).count() as u32;
    let len = layout.shape.elements() as usize;
    quantized.interpolate(chunk, layout, &FineGrid::<V>::new(quantizer), kind)?;
    let residuals = &quantized.residuals[..len];
    let counts = widely_vectorized(
        #[inline(always)]
        || Counts::of(residuals, steps_of),
    );
    let (escapes, exceptions) = (escapes_of(residuals), quantized.residual_exceptions.count() as u32);
    let mut zero_escapes = 0;
    if has_zeros && escapes > 0 {
        quantized.interpolate(chunk, layout, &FineGrid::<V>::new(&quantizer.masking_zeros()), kind)?;
        zero_escapes = escapes.saturating_sub(escapes_of(&quantized.residuals[..len]));
    }
    Ok(Counts { outliers: exceptions + escapes - zero_escapes, zero_escapes, ..counts })
}

/// The number of steps that a residual counts: 0 for an escape.
#[inline(always)]
fn steps_of(residual: i32) -> i32 {
    if is_escape(residual) { 0 } else { residual }
}
