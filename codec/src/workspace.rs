//! Whole chunks: stages in order, buffers kept from call to call.

use crate::bound::{Compressor, with_settled_bound};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layout::Axes;
use crate::layout::{Layout, Shape};
use crate::memory::{extend, lengthen, reserve, resize};
use crate::number::dispatch::{with_float, with_whole};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::narrowed::Narrowed;
use crate::number::value::Value;
use crate::predict::choice::grid::{for_floats, for_whole_numbers};
use crate::predict::choice::{Both, Choice, Chooser};
use crate::predict::coded::Coded;
use crate::predict::interpolation::Interpolation;
use crate::predict::lorenzo;
use crate::predict::predictor::Predictor;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::exceptions::{List, most_listed, predict_mask, write_list, write_marked};
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{self, Whole};
use crate::quantize::linear;
use crate::quantize::logarithm;
use crate::quantize::quantizer::Quantizer;
use crate::reader::take;
use crate::simd::vectorized;
use crate::stream::body::Fixed;
use crate::stream::header::{self, Coding, Header};
use crate::stream::plane::{self, PlaneWorkspace};

/// Buffers that compressing and decompressing need, kept from chunk to chunk so that a warm call allocates nothing that stands in proportion to its chunk.
#[derive(Debug, Default)]
pub struct Workspace {
    narrow: Buffers<i32>,
    wide: Buffers<i64>,
    shared: Shared,
}

/// Buffers of one integer width.
#[derive(Debug, Default)]
struct Buffers<C> {
    codes: Vec<C>,
    differences: Vec<C>,
}

/// Buffers of any width.
#[derive(Debug, Default)]
struct Shared {
    plane: PlaneWorkspace,
    /// Where exceptions are.
    exceptions: Bitmap,
    mask: Bitmap,
    mask_differences: Vec<i8>,
    chooser: Chooser,
    interpolation: Interpolation,
    /// What interpolation leaves; codes that are read and fit.
    residuals: Vec<i32>,
    /// What a predictor has left, as it is read, without what is far.
    near: Vec<i16>,
}

impl Shared {
    /// What a chunk is coded with, codes of its type aside.
    fn apart<'a, C>(&'a mut self, codes: &'a mut Vec<C>) -> (&'a mut Chooser, Coded<'a, C>) {
        let Self { chooser, exceptions, interpolation, residuals, .. } = self;
        (chooser, Coded { codes, exceptions, interpolation, residuals })
    }
}

/// Integers that codes can be, and the buffers for them.
trait Code: Integer {
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

impl Workspace {
    /// Compresses the bytes of one chunk and replaces `stream` with the result, of at most [`crate::max_stream_len`] bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if `chunk` has not the length that `layout` gives, or if values of its type cannot have the bound; `OutOfMemory`.
    pub fn compress(&mut self, chunk: &[u8], layout: &Layout, config: &Config, stream: &mut Vec<u8>) -> Result<()> {
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::invalid(format_args!(
                "chunk has {} bytes, its layout says {}",
                chunk.len(),
                layout.chunk_bytes()
            )));
        }
        with_settled_bound(chunk, layout, config, &mut OnCpu { workspace: self, chunk, layout, stream })?;
        Ok(())
    }

    fn compress_settled(&mut self, chunk: &[u8], layout: &Layout, config: &Config, stream: &mut Vec<u8>) -> Result<()> {
        stream.clear();
        if layout.is_constant(chunk) {
            Header { coding: Coding::Constant, layout: *layout }.write_to(stream)?;
            extend(stream, &chunk[..layout.scalar.size()])?;
        } else {
            let Self { narrow, wide, shared } = self;
            let task = Task { chunk, layout, config };
            with_float!(
                layout.scalar,
                V => encode_floats::<V>(<V as Element>::Code::buffers(narrow, wide), shared, &task, stream)?,
                else with_whole!(
                    layout.scalar,
                    V => encode_whole_numbers::<V>(<V as Element>::Code::buffers(narrow, wide), shared, &task, stream)?,
                    else unreachable!("a type is one or the other")
                )
            );
            let stored = Header { coding: Coding::Stored, layout: *layout };
            if stream.len() >= stored.encoded_len() + chunk.len() {
                stream.clear();
                stored.write_to(stream)?;
                extend(stream, chunk)?;
            }
        }
        header::seal(stream);
        Ok(())
    }

    /// Grid and predictor that [`Workspace::compress`] takes for a chunk that is not constant; `config` has a settled bound ([`crate::bound`]).
    ///
    /// # Errors
    /// `InvalidArgument` for a bound that values of the type cannot have, `OutOfMemory`.
    pub fn choose(&mut self, chunk: &[u8], layout: &Layout, config: &Config) -> Result<(Grid, Predictor)> {
        self.choose_with(chunk, layout, config, None)
    }

    /// The same choice, of which `both` may do two halves side by side. It is not called where there is nothing to share: that is so unless the
    /// bound is an absolute one of floating-point numbers, `config` leaves the predictor open, and [`is_chosen_on_tiles`](crate::predict::choice::is_chosen_on_tiles) says so.
    ///
    /// # Errors
    /// As [`Workspace::choose`].
    pub fn choose_with(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        config: &Config,
        both: Option<&mut Both<'_>>,
    ) -> Result<(Grid, Predictor)> {
        let Self { narrow, wide, shared } = self;
        let (grid, choice) = with_float!(
            layout.scalar,
            V => {
                let (chooser, mut coded) = shared.apart(&mut <V as Element>::Code::buffers(narrow, wide).codes);
                for_floats::<V>(chunk, layout, config, chooser, &mut coded, both)?
            },
            else with_whole!(
                layout.scalar,
                V => for_whole_numbers::<V>(chunk, layout, config, &mut shared.chooser)?,
                else unreachable!("a type is one or the other")
            )
        );
        Ok((grid, choice.predictor))
    }

    /// Decompresses a stream into the bytes of its chunk, in the byte order that the stream records.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion` for a bad stream, `InvalidArgument` if `chunk` has not the chunk's length, or `OutOfMemory`;
    /// the contents of `chunk` are unspecified then.
    pub fn decompress(&mut self, stream: &[u8], chunk: &mut [u8]) -> Result<()> {
        let header = Header::read_verified(stream)?;
        let layout = &header.layout;
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::invalid(format_args!(
                "stream holds a chunk of {} bytes, the caller has room for {}",
                layout.chunk_bytes(),
                chunk.len()
            )));
        }
        let mut body = &stream[header.encoded_len()..];
        let outcome = self.decode_body(&header, &mut body, chunk).and_then(|()| {
            let left = body.len();
            if left == 0 {
                Ok(())
            } else {
                Err(Error::corrupt(SECTION, format_args!("{left} bytes are left over behind the last section")))
            }
        });
        outcome.map_err(|error| error.at(stream.len() - body.len()))
    }

    fn decode_body(&mut self, header: &Header, body: &mut &[u8], chunk: &mut [u8]) -> Result<()> {
        let layout = &header.layout;
        let Self { narrow, wide, shared } = self;
        match header.coding {
            Coding::Stored => chunk.copy_from_slice(take(body, layout.chunk_bytes(), SECTION)?),
            Coding::Constant => fill(chunk, take(body, layout.scalar.size() as u64, SECTION)?),
            Coding::Quantized | Coding::Exact | Coding::Steps | Coding::Logarithmic => {
                let fixed = Fixed::read(header, body)?;
                *body = &body[fixed.len..];
                return with_float!(
                    layout.scalar,
                    V => decode_floats::<V>(&fixed, <V as Element>::Code::buffers(narrow, wide), shared, body, layout, chunk),
                    else with_whole!(
                        layout.scalar,
                        V => {
                            let buffers = <V as Element>::Code::buffers(narrow, wide);
                            decode_whole_numbers::<V>(&fixed, buffers, shared, body, layout, chunk)
                        },
                        else unreachable!("a type is one or the other")
                    )
                );
            }
        }
        Ok(())
    }
}

/// Compresses one chunk on the CPU. The outputs are the lengths of its streams.
struct OnCpu<'a> {
    workspace: &'a mut Workspace,
    chunk: &'a [u8],
    layout: &'a Layout,
    stream: &'a mut Vec<u8>,
}

impl Compressor for OnCpu<'_> {
    type Output = usize;
    type Error = Error;

    fn compress(&mut self, config: &Config) -> Result<usize> {
        self.workspace.compress_settled(self.chunk, self.layout, config, self.stream)?;
        Ok(self.stream.len())
    }

    fn length(&self, output: &usize) -> usize {
        *output
    }

    fn sample_len(&mut self, sample: &[u8], layout: &Layout, config: &Config) -> Result<usize> {
        self.workspace.compress(sample, layout, config, self.stream)?;
        Ok(self.stream.len())
    }

    fn decompress(&mut self, _output: &mut usize, chunk: &mut [u8]) -> Result<()> {
        self.workspace.decompress(self.stream, chunk)
    }
}

/// What errors call the values of a stored or constant chunk, and what follows all.
const SECTION: &str = "values";

/// Most bytes that a grid takes in a stream: half step and offset of a logarithmic one.
const MOST_GRID_BYTES: usize = 16;

/// Fills a chunk with one value. What is there already is copied behind itself: few long copies instead of many short ones.
fn fill(chunk: &mut [u8], value: &[u8]) {
    let mut filled = value.len();
    chunk[..filled].copy_from_slice(value);
    while filled < chunk.len() {
        let length = filled.min(chunk.len() - filled);
        chunk.copy_within(..length, filled);
        filled += length;
    }
}

/// A chunk that is to be encoded.
struct Task<'a> {
    chunk: &'a [u8],
    layout: &'a Layout,
    config: &'a Config<'a>,
}

impl Task<'_> {
    /// Begins the chunk's stream.
    fn begin(&self, grid: &Grid, stream: &mut Vec<u8>) -> Result<()> {
        Header { coding: grid.coding(), layout: *self.layout }.write_to(stream)?;
        reserve(stream, MOST_GRID_BYTES)?;
        grid.write_to(stream);
        Ok(())
    }
}

/// Appends what stands for a chunk of floating-point numbers (FORMAT.md §3, §4).
fn encode_floats<V: Value>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    task: &Task<'_>,
    stream: &mut Vec<u8>,
) -> Result<()> {
    let &Task { chunk, layout, config } = task;
    let (chooser, mut coded) = shared.apart(&mut buffers.codes);
    let (grid, Choice { predictor, is_applied }) = for_floats::<V>(chunk, layout, config, chooser, &mut coded, None)?;
    task.begin(&grid, stream)?;
    match &grid {
        Grid::Linear(_) if is_applied => {}
        Grid::Linear(quantizer) if predictor == Predictor::Interpolation => {
            let Some(fine) = quantizer.fine::<V>() else { unreachable!("interpolation is chosen where there is a fine grid") };
            coded.interpolate(chunk, layout, &fine)?;
        }
        Grid::Linear(quantizer) => coded.quantize::<V>(chunk, layout, quantizer)?,
        Grid::Logarithmic(logarithm) => {
            coded.clear(layout)?;
            logarithm::quantize::<V>(chunk, layout.byte_order, logarithm, coded.codes, coded.exceptions);
            coded.fill_gaps(layout);
        }
        Grid::Exact => return encode_exact::<V>(buffers, shared, task, predictor, stream),
        Grid::Steps(_) => unreachable!("steps are for whole numbers"),
    }
    encode_planes::<V>(buffers, shared, task, predictor, stream)
}

/// The same for whole numbers.
fn encode_whole_numbers<V: Whole>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    task: &Task<'_>,
    stream: &mut Vec<u8>,
) -> Result<()> {
    let &Task { chunk, layout, config } = task;
    let (chooser, mut coded) = shared.apart(&mut buffers.codes);
    let (grid, Choice { predictor, .. }) = for_whole_numbers::<V>(chunk, layout, config, chooser)?;
    task.begin(&grid, stream)?;
    let Grid::Steps(steps) = &grid else { return encode_exact::<V>(buffers, shared, task, predictor, stream) };
    coded.clear(layout)?;
    integer_steps::quantize::<V>(chunk, layout.byte_order, steps, coded.codes, coded.exceptions);
    coded.fill_gaps(layout);
    encode_planes::<V>(buffers, shared, task, predictor, stream)
}

/// Appends the plane of the integers that stand for the values.
fn encode_exact<V: Element>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    task: &Task<'_>,
    predictor: Predictor,
    stream: &mut Vec<u8>,
) -> Result<()> {
    let Task { chunk, layout: &Layout { byte_order, shape, .. }, config } = *task;
    let Buffers { codes, differences } = buffers;
    resize(codes, shape.elements() as usize)?;
    resize(differences, shape.elements() as usize)?;
    vectorized(
        #[inline(always)]
        || codes.iter_mut().enumerate().for_each(|(index, code)| *code = V::read(chunk, index, byte_order).to_code()),
    );
    lorenzo::predict(codes, &shape, axes_of(predictor), differences);
    shared.plane.encode(differences, predictor, config, stream)
}

fn axes_of(predictor: Predictor) -> Axes {
    match predictor {
        Predictor::Differences(axes) => axes,
        Predictor::Interpolation => unreachable!("only an absolute bound's grid is interpolated"),
    }
}

/// Appends number of exceptions and planes, of codes or residuals that are there.
fn encode_planes<V: Element>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    task: &Task<'_>,
    predictor: Predictor,
    stream: &mut Vec<u8>,
) -> Result<()> {
    let Task { chunk, layout: &Layout { byte_order, shape, .. }, config } = *task;
    let elements = shape.elements() as usize;
    let Buffers { codes, differences } = buffers;
    let Shared { plane, exceptions, mask, mask_differences, residuals, .. } = shared;
    resize(differences, elements)?;
    let count = exceptions.count();
    extend(stream, &(count as u64).to_le_bytes())?;
    let are_listed = count as u64 <= most_listed(elements as u64);
    if are_listed {
        write_list::<V>(exceptions, chunk, byte_order, elements as u64, stream)?;
    }
    match predictor {
        Predictor::Interpolation => plane.encode(&residuals[..elements], predictor, config, stream)?,
        Predictor::Differences(axes) => {
            lorenzo::predict(codes, &shape, axes, differences);
            plane.encode(differences, predictor, config, stream)?;
        }
    }
    if are_listed {
        return Ok(());
    }

    let axes = predict_mask(exceptions, &shape, mask, mask_differences)?;
    plane.encode(mask_differences, axes.into(), config, stream)?;

    // The codes are coded: their places serve for the bits.
    resize(codes, elements)?;
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

/// Inverse of [`encode_exact`].
fn decode_exact<V: Element>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    let codes = decode_codes(buffers, shared, body, layout)?;
    vectorized(
        #[inline(always)]
        || V::write_all(codes, V::from_code, layout.byte_order, chunk),
    );
    Ok(())
}

/// Decodes a chunk of floating-point numbers.
fn decode_floats<V: Value>(
    fixed: &Fixed,
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    if fixed.grid == Grid::Exact {
        return decode_exact::<V>(buffers, shared, body, layout, chunk);
    }
    let order = layout.byte_order;
    let list = take_list::<V>(fixed, body, layout)?;
    match &fixed.grid {
        Grid::Logarithmic(grid) => logarithm::restore::<V>(decode_codes(buffers, shared, body, layout)?, grid, order, chunk),
        Grid::Linear(quantizer) => decode_linear::<V>(quantizer, buffers, shared, body, layout, chunk)?,
        Grid::Exact | Grid::Steps(_) => unreachable!("exact ones are done, and steps are for whole numbers"),
    }
    decode_exceptions::<V>(fixed, &list, buffers, shared, body, layout, chunk)
}

/// Decodes all but the exceptions of a chunk on an absolute bound's grid, or on a lattice.
fn decode_linear<V: Value>(
    quantizer: &Quantizer,
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    let &Layout { byte_order: order, shape, .. } = layout;
    let elements = shape.elements() as usize;
    // Without a fine grid the plane's predictor is refused.
    let fine = quantizer.fine::<V>().filter(|_| plane::is_interpolated(body));
    let is_wide = size_of::<V::Code>() > size_of::<i32>();
    if fine.is_none() && !(is_wide && plane::is_narrow(body)) {
        linear::restore::<V, _>(decode_codes(buffers, shared, body, layout)?, quantizer, order, chunk);
        return Ok(());
    }
    let Shared { plane, near, residuals: narrow_codes, interpolation, .. } = shared;
    resize(near, elements)?;
    if let Some(fine) = fine {
        plane.decode_differences(body, near)?;
        return interpolation.inverse(&Narrowed { near, far: plane.far() }, &shape, &fine, order, chunk);
    }
    let axes = plane.decode_differences_along(body, &shape, near)?;
    let differences = Narrowed { near, far: plane.far() };
    // Codes of 64 bits are mostly far from needing them.
    if differences.sums_fit() {
        restore_narrowed::<V, _>(&differences, axes, narrow_codes, quantizer, layout, chunk)
    } else {
        restore_narrowed::<V, _>(&differences, axes, &mut buffers.codes, quantizer, layout, chunk)
    }
}

/// Restores values from the differences of their codes; the vector is room for these.
fn restore_narrowed<V: Value, C: Integer>(
    differences: &Narrowed<'_>,
    axes: Axes,
    codes: &mut Vec<C>,
    quantizer: &Quantizer,
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    resize(codes, layout.shape.elements() as usize)?;
    lorenzo::restore_narrowed(differences, &layout.shape, axes, codes);
    linear::restore::<V, _>(codes, quantizer, layout.byte_order, chunk);
    Ok(())
}

/// Decodes a chunk of whole numbers.
fn decode_whole_numbers<V: Whole>(
    fixed: &Fixed,
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    let Grid::Steps(steps) = &fixed.grid else { return decode_exact::<V>(buffers, shared, body, layout, chunk) };
    let list = take_list::<V>(fixed, body, layout)?;
    let codes = decode_codes(buffers, shared, body, layout)?;
    integer_steps::restore::<V>(codes, steps, layout.byte_order, chunk);
    decode_exceptions::<V>(fixed, &list, buffers, shared, body, layout, chunk)
}

fn take_list<'a, V: Element>(fixed: &Fixed, body: &mut &'a [u8], layout: &Layout) -> Result<List<'a>> {
    List::take(body, fixed.exceptions, layout.shape.elements(), V::SIZE)
}

/// Decodes the codes of a chunk.
fn decode_codes<'a, C: Integer>(
    buffers: &'a mut Buffers<C>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
) -> Result<&'a [C]> {
    resize(&mut buffers.codes, layout.shape.elements() as usize)?;
    shared.plane.decode(body, &layout.shape, &mut buffers.codes)?;
    Ok(&buffers.codes)
}

/// Decodes exceptions and writes them over what the grid gave.
fn decode_exceptions<V: Element>(
    fixed: &Fixed,
    list: &List<'_>,
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    let Layout { shape, byte_order, .. } = layout;
    let exceptions = fixed.exceptions;
    if exceptions <= most_listed(shape.elements()) {
        list.restore::<V>(*byte_order, chunk);
        return Ok(());
    }
    let Shared { plane, exceptions: marked, mask_differences, .. } = shared;
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
