//! Whole chunks: buffers kept from call to call.

use crate::bound::{Compressor, with_settled_bound};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::extend;
use crate::number::dispatch::{with_float, with_integer};
use crate::number::element::Element;
use crate::predict::choice::Fork;
use crate::predict::choice::grid_kind::{for_floats, for_integers};
use crate::predict::predictor::Predictor;
use crate::quantize::grid::Grid;
use crate::reader::take;
use crate::stream::body::BodyHeader;
use crate::stream::buffers::{Buffers, Code, Shared};
use crate::stream::decode::Decoder;
use crate::stream::encode::Encoder;
use crate::stream::header::{self, Coding, Header};
use crate::stream::verified::Verified;

/// Buffers that compressing and decompressing need, kept from chunk to chunk: a call for a chunk no larger than those before
/// allocates nothing in proportion to the chunk.
#[derive(Debug, Default)]
pub struct Workspace {
    narrow: Buffers<i32>,
    wide: Buffers<i64>,
    shared: Shared,
}

impl Workspace {
    /// Compresses the bytes of one chunk and replaces `stream` with the result, of at most [`crate::max_stream_len`] bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if `chunk` does not have the length of `layout`, or if values of its type cannot have the bound; `OutOfMemory`.
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
            with_float!(
                layout.scalar,
                V => {
                    let buffers = <V as Element>::Code::buffers(narrow, wide);
                    Encoder::<V> { buffers, shared, chunk, layout, config, stream }.floats()?;
                },
                else with_integer!(
                    layout.scalar,
                    V => {
                        let buffers = <V as Element>::Code::buffers(narrow, wide);
                        Encoder::<V> { buffers, shared, chunk, layout, config, stream }.integers()?;
                    },
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

    /// Grid and predictor that [`Workspace::compress`] takes for a chunk that is not constant; `config` has a settled bound.
    ///
    /// # Errors
    /// `InvalidArgument` for a bound that values of the type cannot have, `OutOfMemory`.
    pub fn choose(&mut self, chunk: &[u8], layout: &Layout, config: &Config) -> Result<(Grid, Predictor)> {
        self.choose_with(chunk, layout, config, None)
    }

    /// Makes the choice of [`Workspace::choose`] in two halves that `fork` may run at the same time. `fork` is called only if the values are floating-point numbers with
    /// an absolute bound, `config` leaves the predictor open, and [`is_chosen_on_tiles`](crate::predict::choice::is_chosen_on_tiles) is true for the chunk.
    ///
    /// # Errors
    /// As [`Workspace::choose`].
    pub fn choose_with(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        config: &Config,
        fork: Option<&mut Fork<'_>>,
    ) -> Result<(Grid, Predictor)> {
        let Self { narrow, wide, shared } = self;
        let (grid, predictor) = with_float!(
            layout.scalar,
            V => {
                let (chooser, mut quantized) = shared.split(&mut <V as Element>::Code::buffers(narrow, wide).codes);
                for_floats::<V>(chunk, layout, config, chooser, &mut quantized, fork)?
            },
            else with_integer!(
                layout.scalar,
                V => for_integers::<V>(chunk, layout, config, &mut shared.chooser)?,
                else unreachable!("a type is one or the other")
            )
        );
        Ok((grid, predictor))
    }

    /// Decompresses a stream into the bytes of its chunk, in the byte order that the stream records.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion` for a bad stream, `InvalidArgument` if `chunk` has another length than the stream's chunk, or `OutOfMemory`;
    /// the contents of `chunk` are unspecified then.
    pub fn decompress(&mut self, stream: &[u8], chunk: &mut [u8]) -> Result<()> {
        self.decompress_verified(&Verified::read(stream)?, chunk)
    }

    /// Decompresses a stream that has been checked, as [`Workspace::decompress`].
    ///
    /// # Errors
    /// As [`Workspace::decompress`].
    pub fn decompress_verified(&mut self, stream: &Verified<'_>, chunk: &mut [u8]) -> Result<()> {
        let header = stream.header();
        let layout = &header.layout;
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::invalid(format_args!(
                "stream holds a chunk of {} bytes, the caller has room for {}",
                layout.chunk_bytes(),
                chunk.len()
            )));
        }
        let mut body = stream.body();
        let outcome = self.decode_body(header, &mut body, chunk).and_then(|()| {
            let left = body.len();
            if left == 0 {
                Ok(())
            } else {
                Err(Error::corrupt(SECTION, format_args!("{left} bytes are left over behind the last section")))
            }
        });
        outcome.map_err(|error| error.at(stream.bytes().len() - body.len()))
    }

    fn decode_body(&mut self, header: &Header, body: &mut &[u8], chunk: &mut [u8]) -> Result<()> {
        let layout = &header.layout;
        let Self { narrow, wide, shared } = self;
        match header.coding {
            Coding::Stored => chunk.copy_from_slice(take(body, layout.chunk_bytes(), SECTION)?),
            Coding::Constant => fill(chunk, take(body, layout.scalar.size() as u64, SECTION)?),
            Coding::Quantized | Coding::Exact | Coding::Steps | Coding::Logarithmic => {
                let body_header = BodyHeader::read(header, body)?;
                *body = &body[body_header.len..];
                return with_float!(
                    layout.scalar,
                    V => {
                        let buffers = <V as Element>::Code::buffers(narrow, wide);
                        Decoder::<V> { body_header: &body_header, buffers, shared, body, layout, chunk }.floats()
                    },
                    else with_integer!(
                        layout.scalar,
                        V => {
                            let buffers = <V as Element>::Code::buffers(narrow, wide);
                            Decoder::<V> { body_header: &body_header, buffers, shared, body, layout, chunk }.integers()
                        },
                        else unreachable!("a type is one or the other")
                    )
                );
            }
        }
        Ok(())
    }
}

/// Compresses one chunk on the CPU under several bounds. The output of each is the length of its stream.
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
        self.workspace.decompress_verified(&Verified::just_made(self.stream)?, chunk)
    }
}

/// The name in errors of the values of a stored or constant chunk, and of bytes behind the last section.
const SECTION: &str = "values";

/// Fills a chunk with one value. Each copy doubles the part that is filled: few long copies instead of many short ones.
fn fill(chunk: &mut [u8], value: &[u8]) {
    let mut filled = value.len();
    chunk[..filled].copy_from_slice(value);
    while filled < chunk.len() {
        let length = filled.min(chunk.len() - filled);
        chunk.copy_within(..length, filled);
        filled += length;
    }
}
