//! The integers that the planes of a chunk code: differences or residuals, differences of the mask, and differences of the exceptions' bits. Stages 0 to 2 of the
//! codec make them. A test compares them with the codec's streams.

use quire_codec::stages::Axes;
use quire_codec::stages::alphabet::Histogram;
use quire_codec::stages::bitmap::Bitmap;
use quire_codec::stages::exceptions::{most_listed, predict_mask};
use quire_codec::stages::gaps;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::interpolation::Interpolation;
use quire_codec::stages::linear;
use quire_codec::stages::lorenzo;
use quire_codec::stages::predictor::Predictor;
use quire_codec::stages::quantizer::Quantizer;
use quire_codec::stages::tokens::{Tokens, tokenize};
use quire_codec::stages::value::Value;
use quire_codec::{Error, Layout, Scalar, SettledConfig, Shape, Workspace};

/// A plane before stage 3.
#[derive(Debug, Clone)]
pub struct Plane {
    /// The predictor of the plane's integers.
    pub predictor: Predictor,
    /// Differences or residuals.
    pub residuals: Vec<i64>,
}

impl Plane {
    fn new<C: Copy + Into<i64>>(predictor: Predictor, residuals: &[C]) -> Self {
        Self { predictor, residuals: residuals.iter().map(|&residual| residual.into()).collect() }
    }

    /// Numbers of the plane's tokens, and the number of their extra bits.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn count(&self) -> Result<(Histogram, u64), Error> {
        let mut tokens = Tokens::default();
        tokenize(&self.residuals, &mut tokens)?;
        let (extra_bits, histogram) = tokens.count();
        Ok((histogram, extra_bits))
    }
}

/// The planes of a chunk in the stream's order: codes or residuals, then mask and bits of the exceptions if there are many.
///
/// # Errors
/// `InvalidArgument` for other chunks than floating-point numbers with an absolute bound; `OutOfMemory`.
pub fn planes(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> Result<Vec<Plane>, Error> {
    let (grid, predictor) = Workspace::default().choose(chunk, layout, config)?;
    match (layout.scalar, grid) {
        (Scalar::F32, Grid::Linear(quantizer)) => planes_of::<f32>(chunk, layout, &quantizer, predictor),
        (Scalar::F64, Grid::Linear(quantizer)) => planes_of::<f64>(chunk, layout, &quantizer, predictor),
        (scalar, _) => Err(Error::InvalidArgument(format!(
            "{scalar:?} with {:?}: f32 or f64 with an absolute bound is needed",
            config.bound
        ))),
    }
}

fn planes_of<V: Value<Code: Into<i64>>>(
    chunk: &[u8],
    layout: &Layout,
    quantizer: &Quantizer,
    predictor: Predictor,
) -> Result<Vec<Plane>, Error> {
    let shape = &layout.shape;
    let elements = shape.elements() as usize;
    let mut codes = vec![V::Code::default(); elements];
    let mut differences = codes.clone();
    let mut exceptions = Bitmap::default();
    exceptions.clear(elements)?;
    let values = match (predictor, quantizer.fine::<V>()) {
        (Predictor::Interpolation(kind), Some(fine)) => {
            let mut residuals = Vec::new();
            let mut interpolation = Interpolation::default();
            interpolation.forward(chunk, layout, &fine, kind, &mut residuals, &mut exceptions)?;
            Plane::new(predictor, &residuals[..elements])
        }
        (Predictor::Differences(axes), _) => {
            linear::quantize::<V>(chunk, layout.byte_order, quantizer, &mut codes, &mut exceptions);
            gaps::fill_gaps(&mut codes, &exceptions, shape.row());
            lorenzo::predict(&codes, shape, axes, &mut differences);
            Plane::new(predictor, &differences)
        }
        (Predictor::Interpolation(_), None) => unreachable!("interpolation is chosen where there is a fine grid"),
    };
    if exceptions.count() as u64 <= most_listed(elements as u64) {
        return Ok(vec![values]);
    }
    let (mut mask, mut flips) = (Bitmap::default(), Vec::new());
    let axes = predict_mask(&exceptions, shape, &mut mask, &mut flips)?;
    let bits: Vec<V::Code> = exceptions.indices().map(|index| V::read(chunk, index, layout.byte_order).to_bits()).collect();
    let mut differences = vec![V::Code::default(); bits.len()];
    lorenzo::predict(&bits, &Shape::new(&[bits.len() as u64])?, Axes::FASTEST, &mut differences);
    Ok(vec![values, Plane::new(axes.into(), &flips), Plane::new(Axes::FASTEST.into(), &differences)])
}

#[cfg(test)]
mod tests {
    use h5_samples::Size;
    use quire_codec::CodebookPolicy;
    use quire_codec::stages::plane::PlaneWorkspace;

    use super::*;
    use crate::sample;

    #[test]
    fn planes_are_those_of_the_stream() {
        let mut workspace = Workspace::default();
        let mut seen = [false; 3];
        for chunk in h5_samples::all(3, Size::Small).flat_map(|field| sample::chunks(&field).take(2).collect::<Vec<_>>()) {
            let (bytes, layout) = sample::bytes_and_layout(&chunk);
            for bound in [1e-2, 1e-4] {
                let Some(mut config) = sample::config(&chunk, bound) else { continue };
                config.codebook = CodebookPolicy::Dictionary;
                let mut stream = Vec::new();
                workspace.compress_settled(&bytes, &layout, &config, &mut stream).unwrap();
                let planes = planes(&bytes, &layout, &config).unwrap();
                let mut body = Vec::new();
                for plane in &planes {
                    PlaneWorkspace::default().encode(&plane.residuals, plane.predictor, &config, &mut body).unwrap();
                }
                assert!(stream.ends_with(&body), "{} at {bound:e}", chunk.name);
                seen[0] |= planes.len() > 1;
                seen[1] |= planes[0].predictor.is_interpolation();
                seen[2] |= planes[0].predictor == Axes::all(&layout.shape).into();
            }
        }
        assert_eq!(seen, [true; 3]);
    }
}
