//! Whole chunks: buffers kept from call to call.

use crate::bound::{Compressor, with_settled_bound};
use crate::config::{Config, SettledConfig};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::{extend, resize};
use crate::number::dispatch::{with_float, with_integer};
use crate::number::element::Element;
use crate::number::pairs;
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
    /// The parts of a chunk of pairs.
    parts: Vec<u8>,
    /// The stream before the last one of a chunk that is compressed several times.
    stream_before: Vec<u8>,
}

impl Workspace {
    /// Compresses the bytes of one chunk and replaces `stream` with the result, of at most [`crate::max_stream_len`] bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if `chunk` does not have the length of `layout`, if pairs lack a part, or if values of the type cannot have the bound; `OutOfMemory`.
    pub fn compress(&mut self, chunk: &[u8], layout: &Layout, config: &Config, stream: &mut Vec<u8>) -> Result<()> {
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::invalid(format_args!(
                "chunk has {} bytes, its layout says {}",
                chunk.len(),
                layout.chunk_bytes()
            )));
        }
        if !layout.scalar.is_pair() {
            return self.compress_values(chunk, layout, config, stream);
        }
        layout.check_pairs()?;
        self.with_parts(chunk.len(), |workspace, parts| {
            pairs::split(chunk, layout.scalar, parts);
            workspace.compress_values(parts, layout, config, stream)
        })
    }

    /// Compresses the values of a chunk as [`Workspace::compress`]. Pairs are already split ([`crate::stages::pairs`]).
    ///
    /// # Errors
    /// Those of [`Workspace::compress`].
    pub fn compress_values(&mut self, values: &[u8], layout: &Layout, config: &Config, stream: &mut Vec<u8>) -> Result<()> {
        with_settled_bound(
            values,
            layout,
            config,
            &mut OnCpu { workspace: self, chunk: values, layout, stream, is_first: true },
        )?;
        Ok(())
    }

    /// Calls `body` with room for the parts of a chunk of pairs, of `len` bytes.
    fn with_parts(&mut self, len: usize, body: impl FnOnce(&mut Self, &mut [u8]) -> Result<()>) -> Result<()> {
        let mut parts = std::mem::take(&mut self.parts);
        let outcome = resize(&mut parts, len).and_then(|()| body(self, &mut parts));
        self.parts = parts;
        outcome
    }

    /// Compresses the values of a chunk into one stream: no other bound is tried. A chunk that does not shrink is stored.
    ///
    /// # Errors
    /// Those of [`Workspace::choose`].
    pub fn compress_settled(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        config: &SettledConfig,
        stream: &mut Vec<u8>,
    ) -> Result<()> {
        stream.clear();
        if layout.is_constant(chunk) {
            Header { coding: Coding::Constant, layout: *layout }.write_to(stream)?;
            extend(stream, &chunk[..layout.scalar.size()])?;
        } else {
            let Self { narrow, wide, shared, .. } = self;
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

    /// Grid and predictor that [`Workspace::compress_values`] takes for a chunk that is not constant.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn choose(&mut self, chunk: &[u8], layout: &Layout, config: &SettledConfig) -> Result<(Grid, Predictor)> {
        let lanes = &mut self.shared.lanes;
        with_float!(
            layout.scalar,
            V => for_floats::<V>(chunk, layout, config, lanes),
            else with_integer!(
                layout.scalar,
                V => for_integers::<V>(chunk, layout, config, lanes),
                else unreachable!("a type is one or the other")
            )
        )
    }

    /// Decompresses a stream into the bytes of its chunk, in the byte order that the stream records.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion` for a bad stream, `InvalidArgument` if `chunk` has another length than the stream's chunk, or
    /// `OutOfMemory`; the contents of `chunk` are unspecified then.
    pub fn decompress(&mut self, stream: &[u8], chunk: &mut [u8]) -> Result<()> {
        self.decompress_verified(&Verified::read(stream)?, chunk)
    }

    /// Decompresses a stream that has been checked, as [`Workspace::decompress`].
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for a stream that breaks a rule, `InvalidArgument` if `chunk` has another length than the stream's chunk, or `OutOfMemory`.
    pub fn decompress_verified(&mut self, stream: &Verified<'_>, chunk: &mut [u8]) -> Result<()> {
        let layout = &stream.header().layout;
        // A stream may promise more than there is memory for: the length is compared first.
        if !layout.scalar.is_pair() || chunk.len() as u64 != layout.chunk_bytes() {
            return self.decompress_values(stream, chunk);
        }
        self.with_parts(chunk.len(), |workspace, parts| {
            workspace.decompress_values(stream, parts)?;
            pairs::join(parts, layout.scalar, chunk);
            Ok(())
        })
    }

    /// Decompresses the values of a chunk as [`Workspace::decompress_verified`]. Pairs stay split ([`crate::stages::pairs`]).
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for a stream that breaks a rule, `InvalidArgument` if `chunk` has another length than the stream's chunk, or `OutOfMemory`.
    pub fn decompress_values(&mut self, stream: &Verified<'_>, chunk: &mut [u8]) -> Result<()> {
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
        self.decode_body(header, &mut body, chunk).map_err(|error| error.at(stream.bytes().len() - body.len()))
    }

    /// Decodes the body of a stream. After an error, `body` has the bytes that were not read.
    fn decode_body(&mut self, header: &Header, body: &mut &[u8], chunk: &mut [u8]) -> Result<()> {
        let layout = &header.layout;
        match header.coding {
            Coding::Stored => chunk.copy_from_slice(take(body, layout.chunk_bytes(), SECTION)?),
            Coding::Constant => fill(chunk, take(body, layout.scalar.size() as u64, SECTION)?),
            Coding::Quantized | Coding::Exact | Coding::Steps | Coding::Logarithmic | Coding::Decimal => {
                self.decode_planes(header, body, chunk)?;
            }
        }
        match body.len() {
            0 => Ok(()),
            left => Err(Error::corrupt(SECTION, format_args!("{left} bytes are left over behind the last section"))),
        }
    }

    /// Decodes a body that has planes.
    fn decode_planes(&mut self, header: &Header, body: &mut &[u8], chunk: &mut [u8]) -> Result<()> {
        let layout = &header.layout;
        let body_header = BodyHeader::read(header, body)?;
        *body = &body[body_header.len..];
        let Self { narrow, wide, shared, .. } = self;
        with_float!(
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
        )
    }
}

/// Compresses one chunk on the CPU under several bounds. The output of each is the length of its stream.
struct OnCpu<'a> {
    workspace: &'a mut Workspace,
    chunk: &'a [u8],
    layout: &'a Layout,
    stream: &'a mut Vec<u8>,
    /// Whether no stream of the chunk has been made yet.
    is_first: bool,
}

impl Compressor for OnCpu<'_> {
    type Output = usize;
    type Error = Error;

    fn compress(&mut self, config: &SettledConfig) -> Result<usize> {
        if !std::mem::take(&mut self.is_first) {
            std::mem::swap(self.stream, &mut self.workspace.stream_before);
        }
        self.workspace.compress_settled(self.chunk, self.layout, config, self.stream)?;
        Ok(self.stream.len())
    }

    fn stream_before(&mut self, _config: &SettledConfig) -> Result<usize> {
        std::mem::swap(self.stream, &mut self.workspace.stream_before);
        Ok(self.stream.len())
    }

    fn length(&self, output: &usize) -> usize {
        *output
    }

    fn sample_len(&mut self, sample: &[u8], layout: &Layout, config: &SettledConfig) -> Result<usize> {
        self.workspace.compress_settled(sample, layout, config, self.stream)?;
        Ok(self.stream.len())
    }

    fn decompress(&mut self, _output: &mut usize, chunk: &mut [u8]) -> Result<()> {
        self.workspace.decompress_values(&Verified::just_made(self.stream)?, chunk)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::settled;
    use crate::config::{CodingPolicy, ErrorBound};
    use crate::layout::{ByteOrder, Scalar, Shape};
    use crate::max_stream_len;
    use crate::quantize::limits::Limits;
    use crate::stream::plane::PlaneHeader;

    /// A chunk whose values have these bits, and its layout.
    fn chunk(scalar: Scalar, dims: &[u64], bits: impl Fn(u64) -> u64) -> (Vec<u8>, Layout) {
        let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() };
        let bytes = |index| bits(index).to_le_bytes().into_iter().take(scalar.size());
        ((0..layout.shape.elements()).flat_map(bytes).collect(), layout)
    }

    fn random_bits(index: u64) -> u64 {
        (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// Bits of smooth numbers. Of f32, each seventh is a NaN.
    fn smooth_bits(scalar: Scalar, index: u64) -> u64 {
        let value = ((index % 70) as f64 * 0.1).sin() * 10.0 + (index / 70) as f64 * 0.01;
        match scalar.of_values() {
            Scalar::F32 if index % 7 == 3 => 0x7fc0_0000,
            Scalar::F32 => u64::from((value as f32).to_bits()),
            // Few differences that 16 bits cannot hold.
            Scalar::F64 => (if index % 700 == 5 { value + 1e6 } else { value }).to_bits(),
            _ => (value * 50.0) as i64 as u64,
        }
    }

    /// Addresses and sizes of those buffers that are in proportion to the chunk and in reach from here.
    fn buffers(Workspace { narrow, wide, shared, parts, .. }: &Workspace) -> [(usize, usize); 8] {
        fn of<T>(buffer: &Vec<T>) -> (usize, usize) {
            (buffer.as_ptr().addr(), buffer.capacity())
        }
        [
            of(&narrow.codes),
            of(&narrow.differences),
            of(&wide.codes),
            of(&wide.differences),
            of(&shared.mask_differences),
            of(&shared.residuals),
            of(&shared.patched16),
            of(parts),
        ]
    }

    #[test]
    fn a_used_workspace_does_what_a_new_one_does_and_asks_for_no_memory() {
        let mut used = Workspace::default();
        let mut after_large = None;
        // From large chunks to small ones and back, so that buffers have what is left of larger chunks, and of other types.
        for dims in [&[40, 70][..], &[4, 7, 5], &[40, 70], &[40], &[38, 70]] {
            for scalar in [Scalar::F32, Scalar::F64, Scalar::I16, Scalar::U64, Scalar::C64, Scalar::C128] {
                let (chunk, layout) = chunk(scalar, dims, |index| smooth_bits(scalar, index));
                for bound in [ErrorBound::Absolute(0.02), ErrorBound::Absolute(1.0), ErrorBound::Lossless] {
                    for coding in [CodingPolicy::Huffman, CodingPolicy::Bitshuffle] {
                        let config = Config { coding, ..Config::new(bound).unwrap() };
                        // What a stream or a chunk had in it does not matter either.
                        let (mut fresh, mut again) = (Vec::new(), vec![0xee; 500]);
                        Workspace::default().compress(&chunk, &layout, &config, &mut fresh).unwrap();
                        used.compress(&chunk, &layout, &config, &mut again).unwrap();
                        assert!(again == fresh, "{scalar:?} {dims:?} {bound:?} {coding:?}");
                        let (mut restored, mut by_used) = (vec![0; chunk.len()], vec![0xee; chunk.len()]);
                        // A damaged stream, which is decoded in part, leaves nothing behind.
                        again.truncate(again.len() - 5);
                        header::seal(&mut again);
                        assert!(used.decompress(&again, &mut by_used).is_err());
                        Workspace::default().decompress(&fresh, &mut restored).unwrap();
                        used.decompress(&fresh, &mut by_used).unwrap();
                        assert!(by_used == restored, "{scalar:?} {dims:?} {bound:?} {coding:?} read");
                    }
                }
            }
            assert_eq!(buffers(&used), *after_large.get_or_insert_with(|| buffers(&used)), "{dims:?}");
        }
        assert!(buffers(&used).iter().all(|&(_, capacity)| capacity >= 2800), "each buffer is used");
    }

    #[test]
    fn chunks_that_do_not_shrink_are_stored_and_equal_values_are_one() {
        let (mut workspace, mut stream) = (Workspace::default(), vec![0xee; 9]);
        for scalar in Scalar::ALL.into_iter().filter(|scalar| !scalar.is_pair()) {
            for elements in [1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 300] {
                let config = Config::absolute(0.0).unwrap();
                for is_constant in [elements == 1, true] {
                    let (chunk, layout) = chunk(scalar, &[elements], |index| random_bits(if is_constant { 0 } else { index }));
                    workspace.compress(&chunk, &layout, &config, &mut stream).unwrap();
                    let header = Header::read_from(&stream).unwrap();
                    let coding = if is_constant { Coding::Constant } else { Coding::Stored };
                    assert_eq!(header, Header { coding, layout });
                    assert_eq!(stream[header::HEADER_MIN_LEN..], chunk[..if is_constant { scalar.size() } else { chunk.len() }]);
                    assert!(stream.len() as u64 <= max_stream_len(&layout));
                    let mut restored = vec![0xee; chunk.len()];
                    workspace.decompress(&stream, &mut restored).unwrap();
                    assert_eq!(restored, chunk, "{elements} of {scalar:?}");
                }
            }
        }
    }

    /// FORMAT.md §3: the stream of pairs is that of the array of their parts, with another value type.
    #[test]
    fn pairs_are_coded_as_the_array_of_their_parts() {
        let mut workspace = Workspace::default();
        let bounds = [
            ErrorBound::Absolute(0.02),
            ErrorBound::Relative(1e-3),
            ErrorBound::PointwiseRelative(1e-2),
            ErrorBound::Psnr(60.0),
            ErrorBound::Ratio { ratio: 6.0, ceiling: None },
            ErrorBound::Lossless,
        ];
        for (scalar, part) in [(Scalar::C64, Scalar::F32), (Scalar::C128, Scalar::F64)] {
            for (dims, bits) in [
                (&[80, 70][..], smooth_bits as fn(Scalar, u64) -> u64),
                (&[2, 9], |_, _| 5),
                (&[40], |_, index| random_bits(index)),
                (&[2], |_, index| random_bits(index)),
            ] {
                let (values, of_parts) = chunk(part, dims, |index| bits(part, index));
                let (layout, mut pairs) = (Layout { scalar, ..of_parts }, vec![0; values.len()]);
                pairs::join(&values, scalar, &mut pairs);
                for config in bounds.map(|bound| Config::new(bound).unwrap()) {
                    let (mut expected, mut stream, mut restored) = (Vec::new(), Vec::new(), vec![0xee; values.len()]);
                    workspace.compress(&values, &of_parts, &config, &mut expected).unwrap();
                    workspace.compress(&pairs, &layout, &config, &mut stream).unwrap();
                    let header = Header::read_from(&stream).unwrap();
                    assert_eq!(header.layout, layout);
                    workspace.decompress(&expected, &mut restored).unwrap();
                    let mut decoded = vec![0xee; values.len()];
                    workspace.decompress(&stream, &mut decoded).unwrap();
                    // All other bytes are those of the parts' stream.
                    let plain = Header { layout: of_parts, ..header };
                    stream[..plain.encoded_len()].copy_from_slice(&plain.to_bytes()[..plain.encoded_len()]);
                    header::seal(&mut stream);
                    assert!(stream == expected, "{scalar} {dims:?} {:?}", config.bound);
                    let mut joined = vec![0; values.len()];
                    pairs::join(&restored, scalar, &mut joined);
                    assert!(decoded == joined, "{scalar} {dims:?} {:?}", config.bound);
                }
            }
        }
        let odd = Layout { scalar: Scalar::C64, byte_order: ByteOrder::Little, shape: Shape::new(&[3, 2]).unwrap() };
        let error = workspace.compress(&[0; 24], &odd, &Config::absolute(1.0).unwrap(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("it must be even"), "{error}");
    }

    #[test]
    fn the_choice_is_the_one_that_is_compressed() {
        let mut workspace = Workspace::default();
        for scalar in [Scalar::F32, Scalar::F64, Scalar::I16] {
            let (chunk, layout) = chunk(scalar, &[40, 70], |index| smooth_bits(scalar, index));
            for bound in [ErrorBound::Absolute(0.02), ErrorBound::Absolute(1.0), ErrorBound::Lossless] {
                let config = Config::new(bound).unwrap();
                let settled = settled(&chunk, &layout, &config).unwrap().unwrap();
                let (grid, predictor) = workspace.choose(&chunk, &layout, &settled).unwrap();
                let mut stream = Vec::new();
                workspace.compress(&chunk, &layout, &config, &mut stream).unwrap();
                let header = Header::read_from(&stream).unwrap();
                let (found, mut planes) =
                    crate::stream::inspect::planes(&stream[header.encoded_len()..], &header).unwrap().unwrap();
                assert_eq!(header.coding, grid.coding(), "{scalar:?} {bound:?}");
                let (mut half_step, mut chosen) = (Vec::with_capacity(16), Vec::with_capacity(16));
                // The choice has no limits: they are found for the stream.
                match found.grid {
                    Grid::Linear(quantizer) => Grid::Linear(quantizer.with_limits(Limits::NONE)),
                    other => other,
                }
                .write_to(&mut half_step);
                grid.write_to(&mut chosen);
                assert_eq!((half_step, PlaneHeader::read(&mut planes).unwrap().predictor), (chosen, predictor.to_byte()));
            }
        }
    }

    #[test]
    fn chunks_and_streams_of_other_lengths_are_refused() {
        let (chunk, layout) = chunk(Scalar::I16, &[40, 7], |index| smooth_bits(Scalar::I16, index));
        let (mut workspace, config, mut stream) = (Workspace::default(), Config::absolute(1.0).unwrap(), Vec::new());
        for wrong in [0, 558, 562] {
            let error = workspace.compress(&vec![1; wrong], &layout, &config, &mut stream).unwrap_err();
            assert_eq!(error, Error::invalid(format_args!("chunk has {wrong} bytes, its layout says 560")));
        }
        workspace.compress(&chunk, &layout, &config, &mut stream).unwrap();
        for wrong in [0, 558, 562] {
            let error = workspace.decompress(&stream, &mut vec![1; wrong]).unwrap_err();
            assert_eq!(error, Error::invalid(format_args!("stream holds a chunk of 560 bytes, the caller has room for {wrong}")));
        }
    }
}
