//! Stage 0 (FORMAT.md §11): what a chunk's values become integers by, and how those are predicted.

use super::{Chooser, Fork};
use crate::config::{Config, ErrorBound};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::number::integer::Integer as _;
use crate::number::value::Value;
use crate::predict::predictor::Predictor;
use crate::predict::quantized::Quantized;
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{Steps, Whole};
use crate::quantize::lattice;
use crate::quantize::logarithm::{Logarithm, is_too_fine};
use crate::quantize::quantizer::Quantizer;

/// Grid and predictor for a chunk of floating-point numbers that is not constant; `config` has a settled bound ([`crate::bound`]).
pub(crate) fn for_floats<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    config: &Config,
    chooser: &mut Chooser,
    coded: &mut Quantized<'_, V::Code>,
    fork: Option<&mut Fork<'_>>,
) -> Result<(Grid, Predictor)> {
    let order = layout.byte_order;
    match config.bound {
        ErrorBound::Absolute(bound) => {
            let quantizer = Quantizer::for_chunk::<V>(chunk, order, bound, config.fill::<V>());
            let predictor = chooser.choose::<V>(chunk, layout, &quantizer, config, coded, fork)?;
            Ok((Grid::Linear(quantizer), predictor))
        }
        ErrorBound::PointwiseRelative(bound) if !is_too_fine(bound, V::SIZE) => {
            let grid = Logarithm::for_chunk::<V>(chunk, order, bound, config.fill::<V>());
            let code = |value: V| grid.nearest(value).to_i64();
            let (axes, _) = chooser.choose_axes::<V>(chunk, layout, config.predictor, code)?;
            Ok((Grid::Logarithmic(grid), axes.into()))
        }
        ErrorBound::Lossless | ErrorBound::PointwiseRelative(_) => {
            let (axes, bits) = chooser.choose_axes::<V>(chunk, layout, config.predictor, |value: V| value.to_code().to_i64())?;
            if let Some(spacing) = lattice::exact_spacing::<V>(chunk, order) {
                let inverse = spacing.recip();
                let code = |value: V| (value.to_f64() * inverse) as i64;
                let (axes, lattice_bits) = chooser.choose_axes::<V>(chunk, layout, config.predictor, code)?;
                if lattice_bits < bits {
                    return Ok((Grid::Linear(Quantizer::exact(spacing)), axes.into()));
                }
            }
            Ok((Grid::Exact, axes.into()))
        }
        bound => Err(unsettled(bound)),
    }
}

/// Grid and predictor of a chunk of integers whose bound is settled.
pub(crate) fn for_whole_numbers<V: Whole>(
    chunk: &[u8],
    layout: &Layout,
    config: &Config,
    chooser: &mut Chooser,
) -> Result<(Grid, Predictor)> {
    let grid = match config.bound {
        ErrorBound::Absolute(bound) if bound >= 1.0 => Grid::Steps(Steps::new::<V>(bound as u64, config.fill::<V>())),
        ErrorBound::Absolute(_) | ErrorBound::Lossless => Grid::Exact,
        bound => return Err(unsettled(bound)),
    };
    let code = |value: V| match &grid {
        Grid::Steps(steps) => value.nearest(steps).to_i64(),
        _ => value.to_code().to_i64(),
    };
    let (axes, _) = chooser.choose_axes::<V>(chunk, layout, config.predictor, code)?;
    Ok((grid, axes.into()))
}

fn unsettled(bound: ErrorBound) -> Error {
    Error::invalid(format_args!("{bound:?} cannot be a chunk's own bound: settle it first"))
}
