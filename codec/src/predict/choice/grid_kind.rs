//! Stage 0 (FORMAT.md §11): the kind of a chunk's grid (rounding grid, lattice, logarithm, steps of integers or exact bits) and its predictor.

use super::SampleLanes;
use crate::config::{SettledBound, SettledConfig};
use crate::error::Result;
use crate::layout::Layout;
use crate::number::integer::Integer as _;
use crate::number::value::Value;
use crate::predict::predictor::Predictor;
use crate::quantize::decimal::divisor;
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{IntegerElement, Steps};
use crate::quantize::lattice;
use crate::quantize::logarithm::{Logarithm, is_too_fine};
use crate::quantize::quantizer::Quantizer;

/// Chooses grid and predictor of a chunk of floating-point numbers. The chunk must not be constant.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn for_floats<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    config: &SettledConfig,
    lanes: &mut SampleLanes,
) -> Result<(Grid, Predictor)> {
    let order = layout.byte_order;
    match config.bound {
        SettledBound::Absolute(bound) => {
            let quantizer = Quantizer::for_chunk::<V>(chunk, order, bound, config.fills::<V>(), config.keep);
            lanes.choose::<V>(chunk, layout, &quantizer, config)
        }
        SettledBound::PointwiseRelative(bound) if !is_too_fine(bound, V::SIZE) => {
            let grid = Logarithm::for_chunk::<V>(chunk, order, bound, config.fill::<V>()).keeping(config.keep);
            let code = |value: V| grid.nearest(value).to_i64();
            let (axes, _) = lanes.choose_axes::<V>(chunk, layout, config.predictor, code)?;
            Ok((Grid::Logarithmic(grid), axes.into()))
        }
        SettledBound::Lossless | SettledBound::PointwiseRelative(_) => for_exact_bits::<V>(chunk, layout, config, lanes),
    }
}

/// Chooses grid and predictor of floating-point numbers that keep their exact bits. Codes of the bits, a lattice and decimals are compared by their estimated
/// bits.
fn for_exact_bits<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    config: &SettledConfig,
    lanes: &mut SampleLanes,
) -> Result<(Grid, Predictor)> {
    let (axes, bits) = lanes.choose_axes::<V>(chunk, layout, config.predictor, |value: V| value.to_code().to_i64())?;
    let mut best = (bits, Grid::Exact, axes);
    let spacing = lattice::exact_spacing::<V>(chunk, layout.byte_order);
    if let Some(spacing) = spacing {
        let inverse = spacing.recip();
        let code = |value: V| (value.to_f64() * inverse) as i64;
        let (axes, bits) = lanes.choose_axes::<V>(chunk, layout, config.predictor, code)?;
        if bits < best.0 {
            best = (bits, Grid::Linear(Quantizer::exact(spacing)), axes);
        }
    }
    if let Some(decimal) = divisor::exact_grid::<V>(chunk, layout.byte_order, spacing) {
        // An exception counts with the code of its bits, which is far from those of its neighbours.
        let code = |value: V| decimal.code(value).unwrap_or_else(|| value.to_code()).to_i64();
        let (axes, bits) = lanes.choose_axes::<V>(chunk, layout, config.predictor, code)?;
        if bits < best.0 {
            best = (bits, Grid::Decimal(decimal), axes);
        }
    }
    let (_, grid, axes) = best;
    Ok((grid, axes.into()))
}

/// Chooses grid and predictor of a chunk of integers. Under a point-wise relative bound they keep their exact bits.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn for_integers<V: IntegerElement>(
    chunk: &[u8],
    layout: &Layout,
    config: &SettledConfig,
    lanes: &mut SampleLanes,
) -> Result<(Grid, Predictor)> {
    let grid = match config.bound {
        SettledBound::Absolute(bound) if bound >= 1.0 => {
            Grid::Steps(Steps::new::<V>(bound as u64, config.fills::<V>()).keeping(config.keep))
        }
        SettledBound::Absolute(_) | SettledBound::PointwiseRelative(_) | SettledBound::Lossless => Grid::Exact,
    };
    let code = |value: V| match &grid {
        Grid::Steps(steps) => value.nearest(steps).to_i64(),
        _ => value.to_code().to_i64(),
    };
    let (axes, _) = lanes.choose_axes::<V>(chunk, layout, config.predictor, code)?;
    Ok((grid, axes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar, Shape};
    use crate::quantize::fills::Fills;

    fn layout(scalar: Scalar, values: usize) -> Layout {
        Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[values as u64]).unwrap() }
    }

    fn of_floats(values: &[f64], bound: SettledBound) -> Result<(Grid, Predictor)> {
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        for_floats::<f64>(&chunk, &layout(Scalar::F64, values.len()), &SettledConfig::of(bound), &mut SampleLanes::default())
    }

    fn of_integers(values: &[i32], bound: SettledBound) -> Result<(Grid, Predictor)> {
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        for_integers::<i32>(&chunk, &layout(Scalar::I32, values.len()), &SettledConfig::of(bound), &mut SampleLanes::default())
    }

    #[test]
    fn floats_get_the_grid_of_their_bound() {
        let rough: Vec<f64> = (1..300).map(|i| f64::from(i).sqrt() * f64::from(i * i % 17 - 8)).collect();
        let quarters: Vec<f64> = (0..300).map(|i| f64::from(i * i % 61) * 0.25).collect();
        assert!(matches!(of_floats(&rough, SettledBound::Absolute(0.1)), Ok((Grid::Linear(grid), _)) if grid.half_step() == 0.1));
        assert!(matches!(
            of_floats(&rough, SettledBound::PointwiseRelative(0.1)),
            Ok((Grid::Logarithmic(_), Predictor::Differences(_)))
        ));
        assert!(matches!(
            of_floats(&rough, SettledBound::PointwiseRelative(1e-12)),
            Ok((Grid::Exact, Predictor::Differences(_)))
        ));
        assert!(matches!(of_floats(&rough, SettledBound::Lossless), Ok((Grid::Exact, Predictor::Differences(_)))));
        let cents: Vec<f64> = (0..300).map(|i| f64::from(i * i % 611) / 100.0).collect();
        // Multiples of 1/4 are on a lattice, whose half step is 1/8; those of 1/100 are whole numbers over 100.
        assert!(matches!(of_floats(&quarters, SettledBound::Lossless), Ok((Grid::Linear(grid), _)) if grid.half_step() == 0.125));
        assert!(matches!(of_floats(&cents, SettledBound::Lossless), Ok((Grid::Decimal(grid), _)) if grid.divisor() == 100));
    }

    #[test]
    fn integers_get_steps_from_a_bound_of_1_on() {
        let values: Vec<i32> = (0..300).map(|i| i * i % 1009 - 400).collect();
        assert!(matches!(of_integers(&values, SettledBound::Absolute(0.9)), Ok((Grid::Exact, _))));
        assert!(matches!(of_integers(&values, SettledBound::Lossless), Ok((Grid::Exact, _))));
        assert!(matches!(of_integers(&values, SettledBound::PointwiseRelative(0.1)), Ok((Grid::Exact, _))));
        let (grid, _) = of_integers(&values, SettledBound::Absolute(2.7)).unwrap();
        assert_eq!(grid, Grid::Steps(Steps::new::<i32>(2, Fills::NONE)));
    }
}
