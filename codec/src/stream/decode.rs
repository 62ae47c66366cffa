//! Decodes a stream: the inverse stages in order (FORMAT.md §3, §4).

use crate::error::{Error, Result};
use crate::layout::{Axes, Layout, Shape};
use crate::memory::{lengthen, resize};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::patched16::Patched16;
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::exceptions::{List, most_listed, write_marked};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::grid::{Grid, Restore};
use crate::quantize::integer_steps::{self, IntegerElement};
use crate::quantize::logarithm;
use crate::simd::vectorized;
use crate::stream::body::BodyHeader;
use crate::stream::buffers::{Buffers, Shared};
use crate::stream::plane;

/// Decodes a chunk of values of type `V`. `body` is the stream's body behind the [`BodyHeader`]. Each section is taken off its front when it is read.
pub(crate) struct Decoder<'a, 's, V: Element> {
    pub body_header: &'a BodyHeader,
    pub buffers: &'a mut Buffers<V::Code>,
    pub shared: &'a mut Shared,
    pub body: &'a mut &'s [u8],
    pub layout: &'a Layout,
    pub chunk: &'a mut [u8],
}

impl<V: Value> Decoder<'_, '_, V> {
    /// Decodes floating-point numbers.
    pub(crate) fn floats(mut self) -> Result<()> {
        let Self { body_header, layout, .. } = self;
        if body_header.grid == Grid::Exact {
            return self.exact();
        }
        let list = self.take_list()?;
        match &body_header.grid {
            Grid::Logarithmic(grid) => {
                self.codes()?;
                logarithm::restore::<V>(&self.buffers.codes, grid, layout.byte_order, self.chunk);
            }
            Grid::Linear(quantizer) => {
                // An interpolated plane without a fine grid is refused with the codes: its predictor names no axes.
                match quantizer.fine::<V>().zip(plane::interpolation_kind(self.body, &layout.shape)) {
                    Some((fine, kind)) => self.interpolated(&fine, kind)?,
                    None => self.restored_codes(quantizer)?,
                }
            }
            Grid::Decimal(grid) => self.restored_codes(grid)?,
            Grid::Exact | Grid::Steps(_) => unreachable!("exact chunks are done, and steps are for integers"),
        }
        self.exceptions(&list)
    }

    /// Decodes an interpolated chunk, without its exceptions.
    fn interpolated(&mut self, fine: &FineGrid<V>, kind: InterpolationKind) -> Result<()> {
        let Self { shared, body, layout, chunk, .. } = self;
        let Shared { plane, patched16, interpolation, .. } = &mut **shared;
        resize(patched16, layout.shape.elements() as usize)?;
        plane.decode_differences(body, patched16)?;
        interpolation.inverse(&Patched16 { values: patched16, patches: plane.patches() }, layout, fine, kind, chunk)
    }

    /// Decodes the codes of a chunk and restores its values, without exceptions.
    fn restored_codes(&mut self, grid: &impl Restore) -> Result<()> {
        let &Layout { byte_order: order, shape, .. } = self.layout;
        let is_wide = size_of::<V::Code>() > size_of::<i32>();
        if !(is_wide && plane::mostly_fits_16_bits(self.body)) {
            self.codes()?;
            grid.restore::<V, _>(&self.buffers.codes, order, self.chunk);
            return Ok(());
        }
        let Self { buffers, shared, body, layout, chunk, .. } = self;
        let Shared { plane, patched16, residuals: codes32, .. } = &mut **shared;
        resize(patched16, shape.elements() as usize)?;
        let axes = plane.decode_differences_along(body, &shape, patched16)?;
        let differences = Patched16 { values: patched16, patches: plane.patches() };
        // Most codes of f64 fit 32 bits.
        if differences.sums_fit() {
            restore_patched16::<V, _>(&differences, axes, codes32, grid, layout, chunk)
        } else {
            restore_patched16::<V, _>(&differences, axes, &mut buffers.codes, grid, layout, chunk)
        }
    }
}

impl<V: IntegerElement> Decoder<'_, '_, V> {
    /// Decodes a chunk of integers.
    pub(crate) fn integers(mut self) -> Result<()> {
        let Grid::Steps(steps) = &self.body_header.grid else { return self.exact() };
        let list = self.take_list()?;
        self.codes()?;
        integer_steps::restore::<V>(&self.buffers.codes, steps, self.layout.byte_order, self.chunk);
        self.exceptions(&list)
    }
}

impl<'s, V: Element> Decoder<'_, 's, V> {
    /// Decodes a chunk of values that integers encode exactly.
    fn exact(&mut self) -> Result<()> {
        self.codes()?;
        let Self { buffers, layout, chunk, .. } = self;
        vectorized(
            #[inline(always)]
            || V::write_all(&buffers.codes, V::from_code, layout.byte_order, chunk),
        );
        Ok(())
    }

    /// Takes the list of exceptions off the front of the body.
    fn take_list(&mut self) -> Result<List<'s>> {
        List::take(self.body, self.body_header.exceptions, self.layout.shape.elements(), V::SIZE)
    }

    /// Decodes the codes of a chunk.
    fn codes(&mut self) -> Result<()> {
        resize(&mut self.buffers.codes, self.layout.shape.elements() as usize)?;
        self.shared.plane.decode(self.body, &self.layout.shape, &mut self.buffers.codes)
    }

    /// Writes the exceptions into the chunk, from the list or from their planes.
    fn exceptions(&mut self, list: &List<'_>) -> Result<()> {
        let Self { body_header, buffers, shared, body, layout, chunk } = self;
        let Layout { shape, byte_order, .. } = layout;
        let exceptions = body_header.exceptions;
        if exceptions <= most_listed(shape.elements()) {
            list.restore::<V>(*byte_order, chunk);
            return Ok(());
        }
        let Shared { plane, exceptions: marked, mask_differences, .. } = &mut **shared;
        resize(mask_differences, shape.elements() as usize)?;
        let axes = plane.decode_differences_along(body, shape, mask_differences)?;
        marked.read(mask_differences)?;
        marked.restore(shape, axes)?;
        lengthen(&mut buffers.codes, exceptions as usize)?;
        let bits = &mut buffers.codes[..exceptions as usize];
        plane.decode(body, &Shape::line(exceptions), bits)?;
        if marked.count() as u64 != exceptions {
            return Err(Error::corrupt(
                "exception mask",
                format_args!("it marks {} exceptions, {exceptions} are announced", marked.count()),
            ));
        }
        write_marked::<V>(bits, marked, *byte_order, chunk);
        Ok(())
    }
}

/// Restores values from the differences of their codes. `codes` is a buffer.
fn restore_patched16<V: Value, C: Integer>(
    differences: &Patched16<'_>,
    axes: Axes,
    codes: &mut Vec<C>,
    grid: &impl Restore,
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    resize(codes, layout.shape.elements() as usize)?;
    lorenzo::restore_patched16(differences, &layout.shape, axes, codes);
    grid.restore::<V, _>(codes, layout.byte_order, chunk);
    Ok(())
}

#[cfg(test)]
mod tests;
