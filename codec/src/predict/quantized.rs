//! A quantized chunk: the integers that stages 3 to 5 code, and which values are exceptions.

use crate::error::Result;
use crate::layout::Layout;
use crate::memory::resize;
use crate::number::integer::Integer;
use crate::number::value::Value;
use crate::predict::interpolation::Interpolation;
use crate::predict::predictor::Predictor;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::gaps;
use crate::quantize::linear;
use crate::quantize::quantizer::Quantizer;

/// A chunk's codes or residuals of interpolation, with their exceptions.
#[derive(Debug)]
pub(crate) struct Quantized<'a, C> {
    /// Codes on the rounding grid, in C order.
    pub codes: &'a mut Vec<C>,
    /// Exceptions of the codes; after [`Quantized::apply`] with interpolation, exceptions of the residuals.
    pub exceptions: &'a mut Bitmap,
    /// Buffers of interpolation.
    pub interpolation: &'a mut Interpolation,
    /// Residuals of interpolation, in the order of levels and parity classes.
    pub residuals: &'a mut Vec<i32>,
}

impl<C: Integer> Quantized<'_, C> {
    /// Quantizes a chunk. `quantize` writes the codes and marks the exceptions, which then get the codes of neighbours: so differences are small there.
    pub(crate) fn quantize_by(&mut self, layout: &Layout, quantize: impl FnOnce(&mut [C], &mut Bitmap)) -> Result<()> {
        let elements = layout.shape.elements() as usize;
        resize(self.codes, elements)?;
        self.exceptions.clear(elements)?;
        quantize(self.codes, self.exceptions);
        gaps::fill_gaps(self.codes, self.exceptions, layout.shape.row());
        Ok(())
    }

    /// Quantizes a chunk on an absolute bound's rounding grid.
    pub(crate) fn quantize<V: Value<Code = C>>(&mut self, chunk: &[u8], layout: &Layout, quantizer: &Quantizer) -> Result<()> {
        self.quantize_by(layout, |codes, exceptions| {
            linear::quantize::<V>(chunk, layout.byte_order, quantizer, codes, exceptions);
        })
    }

    /// Makes codes or residuals of a chunk, whichever `predictor` needs. The chunk has an absolute bound's rounding grid.
    pub(crate) fn apply<V: Value<Code = C>>(
        &mut self,
        predictor: Predictor,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
    ) -> Result<()> {
        match predictor {
            Predictor::Differences(_) => self.quantize::<V>(chunk, layout, quantizer)?,
            Predictor::Interpolation(kind) => {
                let Some(fine) = quantizer.fine::<V>() else {
                    unreachable!("interpolation is chosen where there is a fine grid")
                };
                self.exceptions.clear(layout.shape.elements() as usize)?;
                self.interpolation.forward(chunk, layout, &fine, kind, self.residuals, self.exceptions)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Axes, ByteOrder, Scalar, Shape};
    use crate::predict::predictor::InterpolationKind;
    use crate::stream::buffers::Shared;

    #[test]
    fn a_chunk_has_the_integers_and_the_exceptions_of_its_predictor() {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[23, 31]).unwrap() };
        let value = |i: usize| if i % 50 == 7 { f32::NAN } else { (i as f32 * 0.03).sin() * 40.0 };
        let chunk: Vec<u8> = (0..23 * 31).flat_map(|i| value(i).to_le_bytes()).collect();
        let quantizer = Quantizer::new(0.25);
        let (mut shared, mut codes) = (Shared::default(), Vec::new());
        let mut quantized = shared.quantized(&mut codes);
        let expected: Vec<usize> = (7..23 * 31).step_by(50).collect();
        quantized.apply::<f32>(Predictor::Differences(Axes::FASTEST), &chunk, &layout, &quantizer).unwrap();
        assert_eq!(quantized.exceptions.indices().collect::<Vec<_>>(), expected);
        for (i, &code) in quantized.codes.iter().enumerate().filter(|(i, _)| i % 50 != 7) {
            assert!((f64::from(value(i)) - 0.5 * f64::from(code)).abs() <= 0.25, "value {i}");
        }
        let kind = InterpolationKind::new(0b10, true);
        quantized.apply::<f32>(Predictor::Interpolation(kind), &chunk, &layout, &quantizer).unwrap();
        assert_eq!(quantized.exceptions.indices().collect::<Vec<_>>(), expected, "exceptions of interpolation");
        assert_eq!(quantized.residuals.len(), 23 * 31);
    }

    #[test]
    fn codes_of_exceptions_are_those_of_neighbours() {
        let layout = Layout { scalar: Scalar::F64, byte_order: ByteOrder::Big, shape: Shape::new(&[2, 4]).unwrap() };
        let values = [f64::NAN, 3.0, f64::INFINITY, -5.0, 8.0, f64::NEG_INFINITY, 1e300, 9.0];
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        let (mut shared, mut codes) = (Shared::default(), Vec::new());
        let mut quantized = shared.quantized(&mut codes);
        quantized.quantize::<f64>(&chunk, &layout, &Quantizer::new(0.5)).unwrap();
        assert_eq!(*quantized.codes, [3, 3, 3, -5, 8, 8, 8, 9]);
        quantized.quantize_by(&layout, |_, _| ()).unwrap();
        assert_eq!(quantized.exceptions.count(), 0);
    }
}
