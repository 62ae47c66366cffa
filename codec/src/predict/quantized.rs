//! A chunk's values as the integers that are to be coded.

use std::mem;

use crate::error::Result;
use crate::layout::Layout;
use crate::memory::resize;
use crate::number::integer::Integer;
use crate::number::value::Value;
use crate::predict::interpolation::Interpolation;
use crate::predict::predictor::Predictor;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps;
use crate::quantize::linear;
use crate::quantize::quantizer::Quantizer;

/// Room for what a chunk's values become: codes, or what interpolation leaves, and which of them are exceptions.
#[derive(Debug)]
pub(crate) struct Quantized<'a, C> {
    pub codes: &'a mut Vec<C>,
    /// Exceptions of the codes; once [`Quantized::apply`] has returned, of the predictor.
    pub exceptions: &'a mut Bitmap,
    pub interpolation: &'a mut Interpolation,
    pub residuals: &'a mut Vec<i32>,
    /// Exceptions of the residuals.
    pub residual_exceptions: &'a mut Bitmap,
    /// Whether codes, and whether residuals, are there: the choice of a predictor may have tried both.
    pub has_codes: bool,
    pub has_residuals: bool,
}

impl<C: Integer> Quantized<'_, C> {
    /// Makes room for codes, none of them an exception.
    pub(crate) fn clear(&mut self, layout: &Layout) -> Result<()> {
        let elements = layout.shape.elements() as usize;
        resize(self.codes, elements)?;
        self.exceptions.clear(elements)
    }

    /// Codes on an absolute bound's grid.
    pub(crate) fn quantize<V: Value<Code = C>>(&mut self, chunk: &[u8], layout: &Layout, quantizer: &Quantizer) -> Result<()> {
        self.clear(layout)?;
        linear::quantize::<V>(chunk, layout.byte_order, quantizer, self.codes, self.exceptions);
        self.fill_gaps(layout);
        self.has_codes = true;
        Ok(())
    }

    /// What a predictor takes of a chunk on an absolute bound's grid: codes, or residuals of interpolation. What a trial has left is not made again.
    pub(crate) fn apply<V: Value<Code = C>>(
        &mut self,
        predictor: Predictor,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
    ) -> Result<()> {
        match predictor {
            Predictor::Differences(_) if self.has_codes => {}
            Predictor::Differences(_) => self.quantize::<V>(chunk, layout, quantizer)?,
            Predictor::Interpolation => {
                if !self.has_residuals {
                    let Some(fine) = quantizer.fine::<V>() else {
                        unreachable!("interpolation is chosen where there is a fine grid")
                    };
                    self.interpolate(chunk, layout, &fine)?;
                }
                mem::swap(self.exceptions, self.residual_exceptions);
            }
        }
        Ok(())
    }

    /// Gives exceptions codes that are easily predicted.
    pub(crate) fn fill_gaps(&mut self, layout: &Layout) {
        gaps::fill_gaps(self.codes, self.exceptions, layout.shape.row());
    }

    /// What interpolation leaves.
    pub(crate) fn interpolate<V: Value<Code = C>>(&mut self, chunk: &[u8], layout: &Layout, fine: &FineGrid<V>) -> Result<()> {
        self.residual_exceptions.clear(layout.shape.elements() as usize)?;
        let Self { interpolation, residuals, residual_exceptions, .. } = self;
        interpolation.forward(chunk, layout.byte_order, &layout.shape, fine, residuals, residual_exceptions)?;
        self.has_residuals = true;
        Ok(())
    }
}
