//! A chunk's values as the integers that are to be coded.

use crate::error::Result;
use crate::layout::Layout;
use crate::memory::resize;
use crate::number::integer::Integer;
use crate::number::value::Value;
use crate::predict::interpolation::Interpolation;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps;
use crate::quantize::linear;
use crate::quantize::quantizer::Quantizer;

/// Room for what a chunk's values become: codes, or what interpolation leaves, and which of them are exceptions.
#[derive(Debug)]
pub(crate) struct Coded<'a, C> {
    pub codes: &'a mut Vec<C>,
    pub exceptions: &'a mut Bitmap,
    pub interpolation: &'a mut Interpolation,
    pub residuals: &'a mut Vec<i32>,
}

impl<C: Integer> Coded<'_, C> {
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
        Ok(())
    }

    /// Gives exceptions codes that are easily predicted.
    pub(crate) fn fill_gaps(&mut self, layout: &Layout) {
        gaps::fill_gaps(self.codes, self.exceptions, layout.shape.row());
    }

    /// What interpolation leaves.
    pub(crate) fn interpolate<V: Value<Code = C>>(&mut self, chunk: &[u8], layout: &Layout, fine: &FineGrid<V>) -> Result<()> {
        self.exceptions.clear(layout.shape.elements() as usize)?;
        self.interpolation.forward(chunk, layout.byte_order, &layout.shape, fine, self.residuals, self.exceptions)
    }
}
