//! From a stream to its chunk: the stages backwards (FORMAT.md §3, §4).

use crate::error::{Error, Result};
use crate::layout::{Axes, Layout, Shape};
use crate::memory::{lengthen, resize};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::patched16::Patched16;
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::quantize::exceptions::{List, most_listed, write_marked};
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{self, Whole};
use crate::quantize::quantizer::Quantizer;
use crate::quantize::{linear, logarithm};
use crate::simd::vectorized;
use crate::stream::body::BodyHeader;
use crate::stream::buffers::{Buffers, Shared};
use crate::stream::plane;

/// Decodes a chunk of elements of a type from the body of a stream, behind its fixed part. `body` is shortened by what has been read.
pub(crate) struct Decoder<'a, 's, V: Element> {
    pub fixed: &'a BodyHeader,
    pub buffers: &'a mut Buffers<V::Code>,
    pub shared: &'a mut Shared,
    pub body: &'a mut &'s [u8],
    pub layout: &'a Layout,
    pub chunk: &'a mut [u8],
}

impl<V: Value> Decoder<'_, '_, V> {
    /// Decodes floating-point numbers.
    pub(crate) fn floats(mut self) -> Result<()> {
        let Self { fixed, layout, .. } = self;
        if fixed.grid == Grid::Exact {
            return self.exact();
        }
        let list = self.take_list()?;
        match &fixed.grid {
            Grid::Logarithmic(grid) => {
                self.codes()?;
                logarithm::restore::<V>(&self.buffers.codes, grid, layout.byte_order, self.chunk);
            }
            Grid::Linear(quantizer) => self.linear(quantizer)?,
            Grid::Exact | Grid::Steps(_) => unreachable!("exact ones are done, and steps are for whole numbers"),
        }
        self.exceptions(&list)
    }

    /// Decodes all but the exceptions of a chunk on an absolute bound's grid, or on a lattice.
    fn linear(&mut self, quantizer: &Quantizer) -> Result<()> {
        let &Layout { byte_order: order, shape, .. } = self.layout;
        let elements = shape.elements() as usize;
        // Without a fine grid the plane's predictor is refused.
        let fine = quantizer.fine::<V>().filter(|_| plane::is_interpolated(self.body));
        let is_wide = size_of::<V::Code>() > size_of::<i32>();
        if fine.is_none() && !(is_wide && plane::is_narrow(self.body)) {
            self.codes()?;
            linear::restore::<V, _>(&self.buffers.codes, quantizer, order, self.chunk);
            return Ok(());
        }
        let Self { buffers, shared, body, layout, chunk, .. } = self;
        let Shared { plane, near, residuals: narrow_codes, interpolation, .. } = &mut **shared;
        resize(near, elements)?;
        if let Some(fine) = fine {
            plane.decode_differences(body, near)?;
            return interpolation.inverse(&Patched16 { near, far: plane.far() }, &shape, &fine, order, chunk);
        }
        let axes = plane.decode_differences_along(body, &shape, near)?;
        let differences = Patched16 { near, far: plane.far() };
        // Codes of 64 bits are mostly far from needing them.
        if differences.sums_fit() {
            restore_patched16::<V, _>(&differences, axes, narrow_codes, quantizer, layout, chunk)
        } else {
            restore_patched16::<V, _>(&differences, axes, &mut buffers.codes, quantizer, layout, chunk)
        }
    }
}

impl<V: Whole> Decoder<'_, '_, V> {
    /// Decodes whole numbers.
    pub(crate) fn whole_numbers(mut self) -> Result<()> {
        let Grid::Steps(steps) = &self.fixed.grid else { return self.exact() };
        let list = self.take_list()?;
        self.codes()?;
        integer_steps::restore::<V>(&self.buffers.codes, steps, self.layout.byte_order, self.chunk);
        self.exceptions(&list)
    }
}

impl<'s, V: Element> Decoder<'_, 's, V> {
    /// Decodes the integers that stand for the values.
    fn exact(&mut self) -> Result<()> {
        self.codes()?;
        let Self { buffers, layout, chunk, .. } = self;
        vectorized(
            #[inline(always)]
            || V::write_all(&buffers.codes, V::from_code, layout.byte_order, chunk),
        );
        Ok(())
    }

    fn take_list(&mut self) -> Result<List<'s>> {
        List::take(self.body, self.fixed.exceptions, self.layout.shape.elements(), V::SIZE)
    }

    /// Decodes the codes of a chunk.
    fn codes(&mut self) -> Result<()> {
        resize(&mut self.buffers.codes, self.layout.shape.elements() as usize)?;
        self.shared.plane.decode(self.body, &self.layout.shape, &mut self.buffers.codes)
    }

    /// Decodes exceptions and writes them over what the grid gave.
    fn exceptions(&mut self, list: &List<'_>) -> Result<()> {
        let Self { fixed, buffers, shared, body, layout, chunk } = self;
        let Layout { shape, byte_order, .. } = layout;
        let exceptions = fixed.exceptions;
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

/// Restores values from the differences of their codes; the vector is room for these.
fn restore_patched16<V: Value, C: Integer>(
    differences: &Patched16<'_>,
    axes: Axes,
    codes: &mut Vec<C>,
    quantizer: &Quantizer,
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    resize(codes, layout.shape.elements() as usize)?;
    lorenzo::restore_patched16(differences, &layout.shape, axes, codes);
    linear::restore::<V, _>(codes, quantizer, layout.byte_order, chunk);
    Ok(())
}
