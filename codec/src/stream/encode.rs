//! Encodes a chunk: the stages in order (FORMAT.md §3, §4).

use crate::config::{CodingPolicy, SettledConfig};
use crate::error::Result;
use crate::layout::{Axes, Layout, Shape};
use crate::memory::{extend, lengthen, reserve, resize};
use crate::number::element::Element;
use crate::number::value::Value;
use crate::predict::choice::grid_kind::{for_floats, for_integers};
use crate::predict::lorenzo;
use crate::predict::predictor::Predictor;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::exceptions::{index_len, most_listed, predict_mask, write_list};
use crate::quantize::gaps::fill_gaps;
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{self, IntegerElement};
use crate::quantize::limits::{Ends, Limits};
use crate::quantize::{decimal, linear, logarithm};
use crate::simd::vectorized;
use crate::stream::buffers::{Buffers, Shared};
use crate::stream::header::Header;
use crate::stream::slabs::Slabs;

/// Most bytes of a grid in a stream: a half step, and the offset of a logarithmic grid or limits.
const MAX_GRID_BYTES: usize = 16;

/// Encodes a chunk of values of type `V`, and appends its stream to `stream`. The values must not all be equal.
pub(crate) struct Encoder<'a, V: Element> {
    pub buffers: &'a mut Buffers<V::Code>,
    pub shared: &'a mut Shared,
    pub chunk: &'a [u8],
    pub layout: &'a Layout,
    pub config: &'a SettledConfig<'a>,
    pub stream: &'a mut Vec<u8>,
}

impl<V: Value> Encoder<'_, V> {
    /// Encodes floating-point numbers.
    pub(crate) fn floats(mut self) -> Result<()> {
        let Self { chunk, layout, config, .. } = self;
        let slabs = Slabs::new(&layout.shape).filter(|_| config.coding != CodingPolicy::Bitshuffle);
        let (grid, predictor) = for_floats::<V>(chunk, layout, config, &mut self.shared.lanes)?;
        match &grid {
            Grid::Linear(quantizer) => {
                let mut ends = Ends::<V>::new(quantizer);
                let is_tokenized = match (predictor, slabs) {
                    (Predictor::Differences(axes), Some(slabs)) => {
                        slabs.tokenize::<V>(chunk, layout, (quantizer, axes), self.buffers, self.shared, &mut ends)?;
                        true
                    }
                    (Predictor::Differences(_), None) => {
                        self.quantize(|codes, exceptions| {
                            linear::quantize::<V>(chunk, layout.byte_order, quantizer, codes, exceptions);
                        })?;
                        false
                    }
                    (Predictor::Interpolation(kind), _) => {
                        let Some(fine) = quantizer.fine::<V>() else {
                            unreachable!("interpolation is chosen where there is a fine grid")
                        };
                        let Shared { exceptions, interpolation, residuals, .. } = &mut *self.shared;
                        exceptions.clear(layout.shape.elements() as usize)?;
                        interpolation.forward(chunk, layout, &fine, kind, residuals, exceptions)?;
                        false
                    }
                };
                if !is_tokenized {
                    ends.add(chunk, layout.byte_order);
                }
                // Limits are for the stream alone: no code and no residual depends on them.
                let limits = Limits::of(&ends, quantizer, predictor.is_interpolation());
                self.begin(&Grid::Linear(quantizer.with_limits(limits)))?;
                return self.planes(predictor, is_tokenized);
            }
            Grid::Logarithmic(logarithm) => {
                self.quantize(|codes, exceptions| {
                    logarithm::quantize::<V>(chunk, layout.byte_order, logarithm, codes, exceptions);
                })?;
            }
            Grid::Decimal(grid) => {
                self.quantize(|codes, exceptions| {
                    decimal::quantize::<V>(chunk, layout.byte_order, grid, codes, exceptions);
                })?;
            }
            Grid::Exact => {}
            Grid::Steps(_) => unreachable!("steps are for integers"),
        }
        self.begin(&grid)?;
        if grid == Grid::Exact { self.exact(predictor) } else { self.planes(predictor, false) }
    }
}

impl<V: IntegerElement> Encoder<'_, V> {
    /// Encodes a chunk of integers.
    pub(crate) fn integers(mut self) -> Result<()> {
        let Self { chunk, layout, config, .. } = self;
        let (grid, predictor) = for_integers::<V>(chunk, layout, config, &mut self.shared.lanes)?;
        let Grid::Steps(steps) = &grid else {
            self.begin(&grid)?;
            return self.exact(predictor);
        };
        self.quantize(|codes, exceptions| {
            integer_steps::quantize::<V>(chunk, layout.byte_order, steps, codes, exceptions);
        })?;
        self.begin(&grid)?;
        self.planes(predictor, false)
    }
}

impl<V: Element> Encoder<'_, V> {
    /// Quantizes the chunk. `quantize` writes the codes and marks the exceptions. Exceptions then get the codes of neighbours, so that differences are small.
    fn quantize(&mut self, quantize: impl FnOnce(&mut [V::Code], &mut Bitmap)) -> Result<()> {
        let (codes, exceptions) = (&mut self.buffers.codes, &mut self.shared.exceptions);
        let elements = self.layout.shape.elements() as usize;
        resize(codes, elements)?;
        exceptions.clear(elements)?;
        quantize(codes, exceptions);
        fill_gaps(codes, exceptions, self.layout.shape.row());
        Ok(())
    }

    /// Begins the chunk's stream: header and grid.
    fn begin(&mut self, grid: &Grid) -> Result<()> {
        Header { coding: grid.coding(), layout: *self.layout }.write_to(self.stream)?;
        reserve(self.stream, MAX_GRID_BYTES)?;
        grid.write_to(self.stream);
        Ok(())
    }

    /// Appends the plane of the integers that encode the values exactly.
    fn exact(&mut self, predictor: Predictor) -> Result<()> {
        let Predictor::Differences(axes) = predictor else { unreachable!("only an absolute bound's grid is interpolated") };
        let Self { chunk, layout: &Layout { byte_order, shape, .. }, config, .. } = *self;
        let Buffers { codes, differences } = &mut *self.buffers;
        resize(codes, shape.elements() as usize)?;
        resize(differences, shape.elements() as usize)?;
        vectorized(
            #[inline(always)]
            || codes.iter_mut().enumerate().for_each(|(index, code)| *code = V::read(chunk, index, byte_order).to_code()),
        );
        lorenzo::predict(codes, &shape, axes, differences);
        self.shared.plane.encode(differences, predictor, config, self.stream)
    }

    /// Appends the number of exceptions, their list, and the planes. If `is_tokenized`, the first plane's tokens are in its workspace. Otherwise the plane's codes
    /// or residuals are in the buffers.
    fn planes(&mut self, predictor: Predictor, is_tokenized: bool) -> Result<()> {
        let Self { chunk, layout: &Layout { byte_order, shape, .. }, config, .. } = *self;
        let stream = &mut *self.stream;
        let elements = shape.elements() as usize;
        let Buffers { codes, differences } = &mut *self.buffers;
        let Shared { plane, exceptions, mask, mask_differences, residuals, .. } = &mut *self.shared;
        let count = exceptions.count();
        extend(stream, &(count as u64).to_le_bytes()[..index_len(elements as u64)])?;
        let are_listed = count as u64 <= most_listed(elements as u64);
        if are_listed {
            write_list::<V>(exceptions, chunk, byte_order, elements as u64, stream)?;
        }
        match predictor {
            _ if is_tokenized => plane.encode_tokens(predictor, config, stream)?,
            Predictor::Interpolation(_) => plane.encode(&residuals[..elements], predictor, config, stream)?,
            Predictor::Differences(axes) => {
                resize(differences, elements)?;
                lorenzo::predict(codes, &shape, axes, differences);
                plane.encode(differences, predictor, config, stream)?;
            }
        }
        if are_listed {
            return Ok(());
        }

        let axes = predict_mask(exceptions, &shape, mask, mask_differences)?;
        plane.encode(mask_differences, axes.into(), config, stream)?;

        // The buffer of the codes, which are in the stream now, takes the bits of the exceptions.
        lengthen(codes, count)?;
        lengthen(differences, count)?;
        let (bits, differences) = (&mut codes[..count], &mut differences[..count]);
        let mut rest = &mut *bits;
        for run in exceptions.runs() {
            let (of_run, others) = rest.split_at_mut(run.len());
            rest = others;
            for (bits, index) in of_run.iter_mut().zip(run) {
                *bits = V::read(chunk, index, byte_order).to_bits();
            }
        }
        lorenzo::predict(bits, &Shape::line(count as u64), Axes::FASTEST, differences);
        plane.encode(differences, Axes::FASTEST.into(), config, stream)
    }
}

#[cfg(test)]
mod tests;
