//! Buffers of a chunk's stages, kept from chunk to chunk.

use crate::number::integer::Integer;
use crate::predict::choice::Chooser;
use crate::predict::interpolation::Interpolation;
use crate::predict::quantized::Quantized;
use crate::quantize::bitmap::Bitmap;
use crate::stream::plane::PlaneWorkspace;

/// Buffers of one integer width.
#[derive(Debug, Default)]
pub(crate) struct Buffers<C> {
    pub codes: Vec<C>,
    pub differences: Vec<C>,
}

/// Buffers of any width.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub plane: PlaneWorkspace,
    /// Where exceptions are.
    pub exceptions: Bitmap,
    pub residual_exceptions: Bitmap,
    pub mask: Bitmap,
    pub mask_differences: Vec<i8>,
    pub chooser: Chooser,
    pub interpolation: Interpolation,
    /// What interpolation leaves; codes that are read and fit.
    pub residuals: Vec<i32>,
    /// What a predictor has left, as it is read, without what is far.
    pub near: Vec<i16>,
}

impl Shared {
    /// What a chunk is coded with, codes of its type aside.
    pub(crate) fn split<'a, C>(&'a mut self, codes: &'a mut Vec<C>) -> (&'a mut Chooser, Quantized<'a, C>) {
        let Self { chooser, exceptions, interpolation, residuals, residual_exceptions, .. } = self;
        (
            chooser,
            Quantized {
                codes,
                exceptions,
                interpolation,
                residuals,
                residual_exceptions,
                has_codes: false,
                has_residuals: false,
            },
        )
    }
}

/// Integers that codes can be, and the buffers for them.
pub(crate) trait Code: Integer {
    fn buffers<'a>(narrow: &'a mut Buffers<i32>, wide: &'a mut Buffers<i64>) -> &'a mut Buffers<Self>;
}

impl Code for i32 {
    fn buffers<'a>(narrow: &'a mut Buffers<i32>, _wide: &'a mut Buffers<i64>) -> &'a mut Buffers<Self> {
        narrow
    }
}

impl Code for i64 {
    fn buffers<'a>(_narrow: &'a mut Buffers<i32>, wide: &'a mut Buffers<i64>) -> &'a mut Buffers<Self> {
        wide
    }
}
