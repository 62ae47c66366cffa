//! Whole chunks: buffers kept from call to call.

use crate::bound::{Compressor, with_settled_bound};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::extend;
use crate::number::dispatch::{with_float, with_whole};
use crate::number::element::Element;
use crate::predict::choice::Fork;
use crate::predict::choice::grid::{for_floats, for_whole_numbers};
use crate::predict::predictor::Predictor;
use crate::quantize::grid::Grid;
use crate::reader::take;
use crate::stream::body::BodyHeader;
use crate::stream::buffers::{Buffers, Code, Shared};
use crate::stream::decode::Decoder;
use crate::stream::encode::Encoder;
use crate::stream::header::{self, Coding, Header};
use crate::stream::verified::Verified;

/// Buffers that compressing and decompressing need, kept from chunk to chunk so that a warm call allocates nothing that stands in proportion to its chunk.
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
            with_float!(
                layout.scalar,
                V => {
                    let buffers = <V as Element>::Code::buffers(narrow, wide);
                    Encoder::<V> { buffers, shared, chunk, layout, config, stream }.floats()?;
                },
                else with_whole!(
                    layout.scalar,
                    V => {
                        let buffers = <V as Element>::Code::buffers(narrow, wide);
                        Encoder::<V> { buffers, shared, chunk, layout, config, stream }.whole_numbers()?;
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

    /// The same choice, of which `fork` may do two halves side by side. It is not called where there is nothing to share: that is so unless the
    /// bound is an absolute one of floating-point numbers, `config` leaves the predictor open, and [`is_chosen_on_tiles`](crate::predict::choice::is_chosen_on_tiles) says so.
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
                let (chooser, mut coded) = shared.split(&mut <V as Element>::Code::buffers(narrow, wide).codes);
                for_floats::<V>(chunk, layout, config, chooser, &mut coded, fork)?
            },
            else with_whole!(
                layout.scalar,
                V => for_whole_numbers::<V>(chunk, layout, config, &mut shared.chooser)?,
                else unreachable!("a type is one or the other")
            )
        );
        Ok((grid, predictor))
    }

    /// Decompresses a stream into the bytes of its chunk, in the byte order that the stream records.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion` for a bad stream, `InvalidArgument` if `chunk` has not the chunk's length, or `OutOfMemory`;
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
                let fixed = BodyHeader::read(header, body)?;
                *body = &body[fixed.len..];
                return with_float!(
                    layout.scalar,
                    V => {
                        let buffers = <V as Element>::Code::buffers(narrow, wide);
                        Decoder::<V> { fixed: &fixed, buffers, shared, body, layout, chunk }.floats()
                    },
                    else with_whole!(
                        layout.scalar,
                        V => {
                            let buffers = <V as Element>::Code::buffers(narrow, wide);
                            Decoder::<V> { fixed: &fixed, buffers, shared, body, layout, chunk }.whole_numbers()
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
        self.workspace.decompress_verified(&Verified::just_made(self.stream)?, chunk)
    }
}

/// What errors call the values of a stored or constant chunk, and what follows all.
const SECTION: &str = "values";

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
