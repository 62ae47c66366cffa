//! Buffers of a chunk's stages, kept from chunk to chunk.

use crate::number::integer::Integer;
use crate::predict::choice::SampleLanes;
use crate::predict::interpolation::Interpolation;
use crate::quantize::bitmap::Bitmap;
use crate::stream::plane::PlaneWorkspace;

/// Buffers for chunks whose codes have the width of `C`.
#[derive(Debug, Default)]
pub(crate) struct Buffers<C> {
    /// Quantization codes of the chunk. After the codes are in the stream, the bits of the exceptions.
    pub codes: Vec<C>,
    /// Differences of `codes`.
    pub differences: Vec<C>,
}

/// Buffers for all chunks.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub plane: PlaneWorkspace,
    pub exceptions: Bitmap,
    /// Buffer for the prediction of the exception mask.
    pub mask: Bitmap,
    /// Differences of the exception mask.
    pub mask_differences: Vec<i8>,
    pub lanes: SampleLanes,
    pub interpolation: Interpolation,
    /// Residuals of interpolation. In a decoder: codes of f64 chunks that fit 32 bits.
    pub residuals: Vec<i32>,
    /// Decoded residuals or differences in 16 bits. [`PlaneWorkspace::patches`] has those that do not fit.
    pub patched16: Vec<i16>,
}

/// The integer types of codes.
pub(crate) trait Code: Integer {
    /// The buffers for this type.
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
