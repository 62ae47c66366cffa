//! Whole chunks: stages in order, buffers kept from call to call.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::exceptions::{List, for_each_in_mask, most_listed, predict_mask, sort_indices, write_list};
use crate::format::{self, Coding, Header};
use crate::interpolation::Interpolation;
use crate::layout::{Layout, Scalar, Shape};
use crate::lorenzo::{self, Axes};
use crate::memory::{reserve, resize};
use crate::plane::{self, PlaneWorkspace, take, take_array};
use crate::predictor::{Chooser, Predictor};
use crate::quantize::{self, Quantizer, Value};

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
    /// Indices of exceptions, ascending.
    exceptions: Vec<usize>,
    mask: Buffers<i8>,
    chooser: Chooser,
    interpolation: Interpolation,
    /// What interpolation leaves.
    residuals: Vec<i32>,
}

impl Workspace {
    /// Compresses the bytes of one chunk and replaces `stream` with the result, of at most [`crate::max_stream_len`] bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if `chunk` has not the length that `layout` gives, `OutOfMemory`.
    pub fn compress(&mut self, chunk: &[u8], layout: &Layout, config: &Config, stream: &mut Vec<u8>) -> Result<()> {
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::InvalidArgument(format!(
                "chunk has {} bytes, its layout says {}",
                chunk.len(),
                layout.chunk_bytes()
            )));
        }
        stream.clear();
        let size = layout.scalar.size();
        if layout.is_constant(chunk) {
            Header { coding: Coding::Constant, layout: *layout }.write_to(stream);
            stream.extend_from_slice(&chunk[..size]);
        } else {
            let header = Header { coding: Coding::Quantized, layout: *layout };
            header.write_to(stream);
            match layout.scalar {
                Scalar::F32 => encode_values::<f32>(&mut self.narrow, &mut self.shared, chunk, layout, config, stream)?,
                Scalar::F64 => encode_values::<f64>(&mut self.wide, &mut self.shared, chunk, layout, config, stream)?,
            }
            if stream.len() >= header.encoded_len() + chunk.len() {
                stream.clear();
                Header { coding: Coding::Stored, layout: *layout }.write_to(stream);
                reserve(stream, chunk.len())?;
                stream.extend_from_slice(chunk);
            }
        }
        format::seal(stream);
        Ok(())
    }

    /// Decompresses a stream into the bytes of its chunk, in the byte order that the stream records.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion` for a bad stream, `InvalidArgument` if `chunk` has not the chunk's length, or `OutOfMemory`;
    /// the contents of `chunk` are unspecified then.
    pub fn decompress(&mut self, stream: &[u8], chunk: &mut [u8]) -> Result<()> {
        const SECTION: &str = "values";
        let header = Header::read_verified(stream)?;
        let layout = &header.layout;
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::InvalidArgument(format!(
                "stream holds a chunk of {} bytes, the caller has room for {}",
                layout.chunk_bytes(),
                chunk.len()
            )));
        }
        let mut body = &stream[header.encoded_len()..];
        match header.coding {
            Coding::Stored => chunk.copy_from_slice(take(&mut body, layout.chunk_bytes(), SECTION)?),
            Coding::Constant => {
                let value = take(&mut body, layout.scalar.size() as u64, SECTION)?;
                // What is there already is copied behind itself: few long copies instead of many short ones.
                let mut filled = value.len();
                chunk[..filled].copy_from_slice(value);
                while filled < chunk.len() {
                    let length = filled.min(chunk.len() - filled);
                    chunk.copy_within(..length, filled);
                    filled += length;
                }
            }
            Coding::Quantized => match layout.scalar {
                Scalar::F32 => decode_values::<f32>(&mut self.narrow, &mut self.shared, &mut body, layout, chunk)?,
                Scalar::F64 => decode_values::<f64>(&mut self.wide, &mut self.shared, &mut body, layout, chunk)?,
            },
        }
        if !body.is_empty() {
            return Err(Error::corrupt(SECTION, format!("{} bytes are left over behind the last section", body.len())));
        }
        Ok(())
    }
}

/// Appends half the grid's step, number of exceptions and planes (FORMAT.md §4).
fn encode_values<V: Value>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    chunk: &[u8],
    layout: &Layout,
    config: &Config,
    stream: &mut Vec<u8>,
) -> Result<()> {
    let shape = &layout.shape;
    let elements = shape.elements() as usize;
    let Buffers { codes, differences } = buffers;
    let Shared { plane, exceptions, mask, chooser, interpolation, residuals } = shared;
    resize(codes, elements)?;
    resize(differences, elements)?;
    exceptions.clear();
    let quantizer = Quantizer::for_chunk::<V>(chunk, layout.byte_order, config);
    let predictor = chooser.choose::<V>(chunk, layout, &quantizer, config)?;
    stream.extend_from_slice(&quantizer.half_step().to_le_bytes());
    match (predictor, quantizer.fine::<V>()) {
        (Predictor::Interpolation, Some(fine)) => {
            interpolation.forward(chunk, layout.byte_order, shape, &fine, residuals, exceptions)?;
            sort_indices(exceptions, elements, &mut mask.codes)?;
        }
        (Predictor::Differences(axes), _) => {
            quantize::quantize::<V>(chunk, layout.byte_order, &quantizer, codes, exceptions)?;
            quantize::fill_gaps(codes, exceptions, shape.row());
            lorenzo::predict(codes, shape, axes, differences);
        }
        (Predictor::Interpolation, None) => unreachable!("interpolation is chosen where there is a fine grid"),
    }
    stream.extend_from_slice(&(exceptions.len() as u64).to_le_bytes());
    let are_listed = exceptions.len() as u64 <= most_listed(elements as u64);
    if are_listed {
        write_list::<V>(exceptions, chunk, layout.byte_order, elements as u64, stream);
    }
    if predictor == Predictor::Interpolation {
        plane.encode(&residuals[..elements], predictor, config, stream)?;
    } else {
        plane.encode(differences, predictor, config, stream)?;
    }
    if are_listed {
        return Ok(());
    }

    let axes = predict_mask(exceptions, shape, &mut mask.codes, &mut mask.differences)?;
    plane.encode(&mask.differences, axes.into(), config, stream)?;

    // The codes are coded: their places serve for the bits.
    let (bits, differences) = (&mut codes[..exceptions.len()], &mut differences[..exceptions.len()]);
    for (bits, &index) in bits.iter_mut().zip(&*exceptions) {
        *bits = V::read(chunk, index, layout.byte_order).to_bits();
    }
    lorenzo::predict(bits, &Shape::line(exceptions.len() as u64), Axes::FASTEST, differences);
    plane.encode(differences, Axes::FASTEST.into(), config, stream)
}

/// Inverse of [`encode_values`].
fn decode_values<V: Value>(
    buffers: &mut Buffers<V::Code>,
    shared: &mut Shared,
    body: &mut &[u8],
    layout: &Layout,
    chunk: &mut [u8],
) -> Result<()> {
    const SECTION: &str = "quantization header";
    let shape = &layout.shape;
    let elements = shape.elements() as usize;
    let half_step = f64::from_le_bytes(*take_array(body, SECTION)?);
    let config = Config::absolute(half_step).map_err(|error| Error::corrupt(SECTION, error.to_string()))?;
    let exceptions = u64::from_le_bytes(*take_array(body, SECTION)?);
    if exceptions > elements as u64 {
        return Err(Error::corrupt(SECTION, format!("it says {exceptions} exceptions, the chunk has {elements} values")));
    }
    let list = List::take(body, exceptions, elements as u64, size_of::<V>())?;
    let codes = &mut buffers.codes;
    resize(codes, elements)?;
    let quantizer = Quantizer::new(config.bound);
    if plane::is_interpolated(body) {
        let fine = quantizer
            .fine::<V>()
            .ok_or_else(|| Error::corrupt(SECTION, format!("half step {half_step:e} is too small to interpolate")))?;
        resize(&mut shared.residuals, elements)?;
        let residuals = &mut shared.residuals[..elements];
        shared.plane.decode_differences(body, residuals)?;
        shared.interpolation.inverse(residuals, shape, &fine, layout.byte_order, chunk)?;
    } else {
        shared.plane.decode(body, shape, codes)?;
        quantize::restore::<V>(codes, &quantizer, layout.byte_order, chunk);
    }
    if exceptions <= most_listed(elements as u64) {
        list.restore::<V>(layout.byte_order, chunk);
        return Ok(());
    }

    let mask = &mut shared.mask.codes;
    resize(mask, elements)?;
    shared.plane.decode(body, shape, mask)?;
    let bits = &mut codes[..exceptions as usize];
    shared.plane.decode(body, &Shape::line(exceptions), bits)?;
    let mut marked = 0;
    for_each_in_mask(mask, |index| {
        if let Some(&bits) = bits.get(marked) {
            V::from_bits(bits).write(chunk, index, layout.byte_order);
        }
        marked += 1;
    });
    if marked as u64 != exceptions {
        return Err(Error::corrupt("exception mask", format!("it marks {marked} exceptions, {exceptions} are announced")));
    }
    Ok(())
}
