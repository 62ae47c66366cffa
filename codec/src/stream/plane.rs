//! A plane (FORMAT.md §4): an array of integers that stages 2 to 5 code by itself. A chunk has a plane of quantization codes or of residuals. If it has many
//! exceptions, a plane of their mask and a plane of their bits follow.
//!
//! ```text
//! codes → differences → tokens → codebook → blocks of lanes
//!                     → blocks of bit planes
//! ```

use pulp::bytemuck::cast_slice;

use crate::config::{CodingPolicy, SettledConfig};
use crate::entropy::alphabet::{ALPHABET, FIRST_CLASS, FIRST_RUN, SEGMENT};
use crate::entropy::bitshuffle::{self, Bitshuffle};
use crate::entropy::book_choice::{self, Choice};
use crate::entropy::book_lengths;
use crate::entropy::codebook::{self, MAX_CODE_BITS};
use crate::entropy::decode_tables::Tables;
use crate::entropy::dictionary;
use crate::entropy::lanes::{self, FEW_LANES, LANES, LaneCount, MAX_BLOCK};
use crate::entropy::tokens::{TokenOffset, Tokens, tokenize};
use crate::error::{Error, Result};
use crate::layout::{Axes, Shape};
use crate::memory::{HeapArray, extend, lengthen, push, reserve};
use crate::number::integer::Integer;
use crate::number::patched16::{PLACEHOLDER, Patch};
use crate::predict::lorenzo;
use crate::predict::predictor::{InterpolationKind, Predictor};
use crate::reader::{take, take_array};

/// Bytes of a plane's header, without a custom book: predictor, codebook, and a word of bits.
pub const PLANE_HEADER_LEN: usize = 4;
/// Lowest bits of the word: log2 of the block length, less [`MIN_BLOCK_LOG`].
pub const BLOCK_LOG_BITS: u32 = 3;
/// Next bits of the word: width of the block index's field for lane words. As many bits follow for extra words. The last bit says that blocks have few lanes.
pub const WIDTH_BITS: u32 = 6;
/// Codebook number of a custom book, which follows the header.
pub const CUSTOM_BOOK: u8 = 255;
/// Codebook number of a plane whose blocks are bit planes.
pub const BIT_PLANES: u8 = 254;
/// Log2 of the shortest block.
pub const MIN_BLOCK_LOG: u8 = SEGMENT.ilog2() as u8;
/// Log2 of the longest block.
pub const MAX_BLOCK_LOG: u8 = MAX_BLOCK.ilog2() as u8;
/// Least bits that the encoder wants in an average block. In shorter blocks the unused ends of lanes would take a larger share. Longer blocks would leave a GPU
/// idle.
pub const BLOCK_BITS: u64 = 11_000;
/// A plane has few lanes if codes and extra bits are at most this many bits. The unused ends of many lanes would take a large share of such a plane.
pub const FEW_LANES_BITS: u64 = 4096;
/// Most tokens of a block of more than four segments. One warp of a GPU decodes a block, and the GPU waits for the block with most tokens. After interpolation
/// most blocks have few tokens and some have many.
pub const BLOCK_TOKENS: usize = 8192;

/// A plane is decoded to 16 bits and patches if its codebook expects at most one patch in this many tokens. Each patch makes a round of the lanes slow.
const MIN_TOKENS_PER_PATCH: usize = 64;
/// First symbol of the token classes whose differences do not fit 16 bits.
const FIRST_PATCHED_CLASS: usize = {
    let mut symbol = FIRST_CLASS;
    while ALPHABET[symbol].start < PLACEHOLDER.unsigned_abs() as u64 {
        symbol += 1;
    }
    symbol
};

/// The name of a plane's header in errors.
const HEADER: &str = "plane header";
/// The name of a plane's blocks in errors.
const PAYLOAD: &str = "plane payload";

/// The header of a plane, read and checked.
#[derive(Debug, Clone, Copy)]
pub struct PlaneHeader {
    /// Byte of the predictor. It is not checked here, as the shape says which axes there are.
    pub predictor: u8,
    /// The book of the codes, or `None` for bit planes.
    pub choice: Option<Choice>,
    block_log: u8,
    lane_width: u8,
    extra_width: u8,
    lanes: LaneCount,
}

impl PlaneHeader {
    /// Takes a plane's header off the front of `stream`, and a custom book if there is one.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn read(stream: &mut &[u8]) -> Result<Self> {
        let [predictor, book, low, high] = *take_array::<PLANE_HEADER_LEN>(stream, HEADER)?;
        let word = u16::from_le_bytes([low, high]);
        let field = |shift: u32, bits: u32| (word >> shift & ((1 << bits) - 1)) as u8;
        let block_log = MIN_BLOCK_LOG + field(0, BLOCK_LOG_BITS);
        let lane_width = field(BLOCK_LOG_BITS, WIDTH_BITS);
        let extra_width = field(BLOCK_LOG_BITS + WIDTH_BITS, WIDTH_BITS);
        let lanes = if word >> (BLOCK_LOG_BITS + 2 * WIDTH_BITS) == 1 { LaneCount::Few } else { LaneCount::All };
        if block_log > MAX_BLOCK_LOG {
            return Err(Error::corrupt(
                HEADER,
                format_args!("log2 of the block length is {block_log}, not {MIN_BLOCK_LOG} to {MAX_BLOCK_LOG}"),
            ));
        }
        if lane_width > 32 || extra_width > 32 {
            return Err(Error::corrupt(
                HEADER,
                format_args!("index widths are {lane_width} and {extra_width} bits, not 0 to 32"),
            ));
        }
        if book == BIT_PLANES && (block_log != MIN_BLOCK_LOG || extra_width != 0) {
            return Err(Error::corrupt(
                HEADER,
                format_args!("blocks of bit planes have 2^{block_log} integers and extra words of {extra_width} bits"),
            ));
        }
        if book == BIT_PLANES && lanes == LaneCount::Few {
            return Err(Error::corrupt(HEADER, format_args!("blocks of bit planes have {FEW_LANES} lanes")));
        }
        let choice = match book {
            BIT_PLANES => None,
            CUSTOM_BOOK => Some(Choice::Custom(book_lengths::read(stream)?)),
            _ if usize::from(book) < dictionary::books().len() => Some(Choice::Dictionary(book)),
            _ => {
                let books = dictionary::books().len();
                return Err(Error::corrupt(HEADER, format_args!("codebook {book} is not in the dictionary of {books}")));
            }
        };
        Ok(Self { predictor, choice, block_log, lane_width, extra_width, lanes })
    }

    /// Integers of a block.
    #[must_use]
    pub fn block_len(&self) -> usize {
        1 << self.block_log
    }

    /// Takes the block index off the front of `stream`. `sizes` gets the number of lane words and of extra words of each block.
    /// Returns the bytes of all words.
    fn read_index(&self, stream: &mut &[u8], integers: usize, sizes: &mut Vec<(u32, u32)>) -> Result<u64> {
        let blocks = integers.div_ceil(self.block_len());
        read_index(stream, blocks, u32::from(self.lane_width), u32::from(self.extra_width), sizes)?;
        let words: u64 = sizes.iter().map(|&(lanes, extras)| u64::from(lanes) + u64::from(extras)).sum();
        Ok(words.saturating_mul(2))
    }

    /// Takes the block index and the payload of a plane of `integers` integers off the front of `stream`.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `OutOfMemory`.
    pub fn skip(&self, stream: &mut &[u8], integers: usize) -> Result<()> {
        if self.lane_width == 0 && self.extra_width == 0 {
            // The index of empty blocks has no bits. There may be so many blocks that a list of their sizes takes too much memory.
            return Ok(());
        }
        let bytes = self.read_index(stream, integers, &mut Vec::new())?;
        take(stream, bytes.next_multiple_of(4), PAYLOAD).map(|_| ())
    }
}

/// Buffers of the plane stages.
#[derive(Debug, Default)]
pub struct PlaneWorkspace {
    tokens: Tokens,
    encoder: lanes::Encoder,
    payload: Vec<u16>,
    extra_bytes: Vec<u8>,
    sizes: Vec<(u32, u32)>,
    tables: Tables,
    bitshuffle: Bitshuffle,
    /// Integers of a block of bit planes that is decoded to 16 bits and patches.
    unpatched_block: HeapArray<i32, { bitshuffle::BLOCK }>,
    patches: Vec<Patch>,
}

impl PlaneWorkspace {
    /// Appends a plane. `differences` are what its predictor leaves: differences or residuals.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode<C: Integer>(
        &mut self,
        differences: &[C],
        predictor: Predictor,
        config: &SettledConfig,
        stream: &mut Vec<u8>,
    ) -> Result<()> {
        match config.coding {
            CodingPolicy::Bitshuffle => self.encode_bit_planes(differences, predictor, stream),
            CodingPolicy::Auto | CodingPolicy::Huffman => {
                tokenize(differences, &mut self.tokens)?;
                self.encode_tokens(predictor, config, stream)
            }
        }
    }

    /// The tokens of the plane that [`PlaneWorkspace::encode_tokens`] will append.
    pub(crate) fn tokens_mut(&mut self) -> &mut Tokens {
        &mut self.tokens
    }

    fn encode_bit_planes<C: Integer>(&mut self, differences: &[C], predictor: Predictor, stream: &mut Vec<u8>) -> Result<()> {
        self.payload.clear();
        self.sizes.clear();
        for block in differences.chunks(bitshuffle::BLOCK) {
            let words = self.bitshuffle.encode(block)?.as_chunks::<2>().0;
            reserve(&mut self.payload, words.len())?;
            self.payload.extend(words.iter().map(|&word| u16::from_le_bytes(word)));
            push(&mut self.sizes, (words.len() as u32, 0))?;
        }
        self.write(predictor, None, MIN_BLOCK_LOG, LaneCount::All, self.payload.len(), stream)
    }

    /// Appends the plane of the tokens in [`PlaneWorkspace::tokens_mut`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn encode_tokens(&mut self, predictor: Predictor, config: &SettledConfig, stream: &mut Vec<u8>) -> Result<()> {
        let (extra_bits, histogram) = self.tokens.count();
        let choice = book_choice::choose(&histogram, config.codebook, config.books);
        let lengths = choice.lengths();
        let code_bits = codebook::cost(&histogram, &lengths).unwrap_or(0);
        let segments = self.tokens.segment_ends.len() as u64;
        let block_segments_log = (0..MAX_BLOCK_LOG - MIN_BLOCK_LOG)
            .find(|&log| (code_bits + extra_bits) << log >= BLOCK_BITS * segments || segments <= 1 << log)
            .unwrap_or(MAX_BLOCK_LOG - MIN_BLOCK_LOG);
        let block_segments_log =
            (0..=block_segments_log).rev().find(|&log| self.tokens.most_tokens_of_a_block(1 << log) <= BLOCK_TOKENS).unwrap_or(0);

        let lanes = if code_bits + extra_bits <= FEW_LANES_BITS { LaneCount::Few } else { LaneCount::All };
        let codes = codebook::canonical_codes(&lengths);
        self.sizes.clear();
        // At most two words of a lane, and one extra word of a block, are not full. So the buffer need not grow block by block.
        let blocks = self.tokens.segment_ends.len();
        lengthen(&mut self.payload, ((code_bits + extra_bits) / 16) as usize + (3 * LANES + 1) * blocks)?;
        let (mut start, mut payload_len) = (TokenOffset::default(), 0);
        for group in self.tokens.segment_ends.chunks(1 << block_segments_log) {
            let end = group[group.len() - 1];
            let words = self.encoder.encode(&self.tokens.symbols()[start.tokens..end.tokens], &codes, lanes)?;
            let extra_words = payload_len + words.len();
            lengthen(&mut self.payload, extra_words)?;
            self.payload[payload_len..extra_words].copy_from_slice(words);
            payload_len = self.tokens.extra.copy_to(start.extra_bits, end.extra_bits, &mut self.payload, extra_words)?;
            push(&mut self.sizes, (words.len() as u32, (payload_len - extra_words) as u32))?;
            start = end;
        }

        self.write(predictor, Some(&choice), MIN_BLOCK_LOG + block_segments_log, lanes, payload_len, stream)
    }

    /// Appends the plane of the blocks in `self.sizes`. Their words are the first `payload_len` words of `self.payload`. `choice` is the book of the codes, or
    /// `None` for bit planes.
    fn write(
        &self,
        predictor: Predictor,
        choice: Option<&Choice>,
        block_log: u8,
        lanes: LaneCount,
        payload_len: usize,
        stream: &mut Vec<u8>,
    ) -> Result<()> {
        let (book, lengths) = match choice {
            None => (BIT_PLANES, None),
            Some(Choice::Dictionary(book)) => (*book, None),
            Some(Choice::Custom(lengths)) => (CUSTOM_BOOK, Some(lengths)),
        };
        let width = |size: fn(&(u32, u32)) -> u32| 32 - self.sizes.iter().map(size).max().unwrap_or(0).leading_zeros();
        let (lane_width, extra_width) = (width(|size| size.0), width(|size| size.1));
        let word = u32::from(block_log - MIN_BLOCK_LOG)
            | lane_width << BLOCK_LOG_BITS
            | extra_width << (BLOCK_LOG_BITS + WIDTH_BITS)
            | u32::from(lanes == LaneCount::Few) << (BLOCK_LOG_BITS + 2 * WIDTH_BITS);
        let [low, high] = (word as u16).to_le_bytes();
        extend(stream, &[predictor.to_byte(), book, low, high])?;
        if let Some(lengths) = lengths {
            book_lengths::write(lengths, stream)?;
        }
        write_index(&self.sizes, lane_width, extra_width, stream)?;
        let words = &self.payload[..payload_len];
        let end = stream.len() + 2 * payload_len;
        reserve(stream, end.next_multiple_of(4) - stream.len())?;
        if cfg!(target_endian = "little") {
            stream.extend_from_slice(cast_slice(words));
        } else {
            stream.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        stream.resize(end.next_multiple_of(4), 0);
        Ok(())
    }

    /// Takes a plane of differences off the front of `stream`, decodes it, and restores the integers.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `OutOfMemory`.
    pub fn decode<C: Integer>(&mut self, stream: &mut &[u8], shape: &Shape, codes: &mut [C]) -> Result<()> {
        let axes = self.decode_differences_along(stream, shape, codes)?;
        lorenzo::restore(codes, shape, axes);
        Ok(())
    }

    /// Takes a plane of differences off the front of `stream` and decodes them. Returns their axes.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `OutOfMemory`.
    pub fn decode_differences_along<C: Integer>(
        &mut self,
        stream: &mut &[u8],
        shape: &Shape,
        differences: &mut [C],
    ) -> Result<Axes> {
        let byte = self.decode_differences(stream, differences)?;
        Axes::from_byte(byte, shape).ok_or_else(|| {
            Error::corrupt(
                HEADER,
                format_args!("its predictor is {byte:#x}, which names no axes of the {} there are", shape.dims().len()),
            )
        })
    }

    /// Patches of the last decoded plane: index and value of each difference that its integers cannot hold, ascending by index. The plane has
    /// [`Integer::PLACEHOLDER`] at these indices.
    #[must_use]
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Takes a plane off the front of `stream` and decodes its differences or residuals. Returns the predictor's byte. What `C` cannot hold goes to
    /// [`PlaneWorkspace::patches`].
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `OutOfMemory`.
    pub fn decode_differences<C: Integer>(&mut self, stream: &mut &[u8], codes: &mut [C]) -> Result<u8> {
        let head = PlaneHeader::read(stream)?;
        let table = head.choice.as_ref().map(|choice| self.tables.get(choice, C::PLACEHOLDER.is_some())).transpose()?;
        self.patches.clear();
        let mut outcome = Ok(());
        let block_len = head.block_len();
        let payload_bytes = head.read_index(stream, codes.len(), &mut self.sizes)?;
        let payload = take(stream, payload_bytes, PAYLOAD)?;
        let mut rest = payload;
        for (number, (block, &(lane_words, extra_words))) in codes.chunks_mut(block_len).zip(&self.sizes).enumerate() {
            let mut keep_patch = |index: usize, value| {
                if let Err(error) = push(&mut self.patches, (number * block_len + index, value)) {
                    outcome = Err(error);
                }
            };
            let (lane_bytes, after) = rest.split_at(2 * lane_words as usize);
            let (extra_bytes, after) = after.split_at(2 * extra_words as usize);
            rest = after;
            let Some(table) = table else {
                if let Some(placeholder) = C::PLACEHOLDER {
                    let integers = &mut self.unpatched_block.get()?[..block.len()];
                    self.bitshuffle.decode(lane_bytes, integers)?;
                    for (index, (value, integer)) in block.iter_mut().zip(integers).enumerate() {
                        let integer = integer.to_i64();
                        *value = C::from_i64(integer);
                        if *value == placeholder || value.to_i64() != integer {
                            *value = placeholder;
                            keep_patch(index, integer);
                        }
                    }
                } else {
                    self.bitshuffle.decode(lane_bytes, block)?;
                }
                continue;
            };
            self.payload.clear();
            reserve(&mut self.payload, lane_words as usize + lanes::LANE_PADDING)?;
            self.payload.extend(lane_bytes.as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word)));
            self.payload.extend_from_slice(&[0; lanes::LANE_PADDING]);
            self.extra_bytes.clear();
            extend(&mut self.extra_bytes, extra_bytes)?;
            extend(&mut self.extra_bytes, &[0; lanes::EXTRA_PADDING])?;
            lanes::decode(&self.payload, head.lanes, &self.extra_bytes, table, block, &mut keep_patch)?;
        }
        outcome?;
        let padding = (payload.len().next_multiple_of(4) - payload.len()) as u64;
        if take(stream, padding, PAYLOAD)?.iter().any(|&byte| byte != 0) {
            return Err(Error::corrupt(PAYLOAD, "its padding is not 0"));
        }
        Ok(head.predictor)
    }
}

/// Whether the codebook of the plane at the front of `stream` expects nearly all differences to fit 16 bits.
#[must_use]
pub fn mostly_fits_16_bits(mut stream: &[u8]) -> bool {
    let Ok(PlaneHeader { choice: Some(choice), .. }) = PlaneHeader::read(&mut stream) else { return false };
    let patched = &choice.lengths()[FIRST_PATCHED_CLASS..FIRST_RUN[1]];
    patched.iter().map(|&length| codebook::entry_count(length)).sum::<usize>() <= (1 << MAX_CODE_BITS) / MIN_TOKENS_PER_PATCH
}

/// How the plane at the front of `stream` is interpolated, in a chunk of this shape. `None` if the plane has differences.
#[must_use]
pub fn interpolation_kind(stream: &[u8], shape: &Shape) -> Option<InterpolationKind> {
    InterpolationKind::from_byte(*stream.first()?, shape)
}

/// Whether the blocks of the plane at the front of `stream` are bit planes.
#[must_use]
pub fn is_of_bit_planes(stream: &[u8]) -> bool {
    stream.get(1) == Some(&BIT_PLANES)
}

/// Log2 of the block length that the plane at the front of `stream` announces. It is not checked. `None` if the stream ends before it.
#[must_use]
pub fn announced_block_log(stream: &[u8]) -> Option<u8> {
    stream.get(2).map(|low| MIN_BLOCK_LOG + (low & ((1 << BLOCK_LOG_BITS) - 1)))
}

/// Bytes of the index of `blocks` blocks, with its padding.
fn index_bytes(blocks: usize, lane_width: u32, extra_width: u32) -> u64 {
    (blocks as u64 * u64::from(lane_width + extra_width)).div_ceil(32) * 4
}

/// Appends the block index. For each block it has the number of lane words in `lane_width` bits, and the number of extra words in `extra_width` bits.
fn write_index(sizes: &[(u32, u32)], lane_width: u32, extra_width: u32, stream: &mut Vec<u8>) -> Result<()> {
    let end = stream.len() + index_bytes(sizes.len(), lane_width, extra_width) as usize;
    // A last byte is written even if it has no bits. `resize` cuts it off.
    reserve(stream, end + 1 - stream.len())?;
    let mut buffer = 0u128;
    let mut count = 0;
    for &(lane_words, extra_words) in sizes {
        buffer |= (u128::from(lane_words) | u128::from(extra_words) << lane_width) << count;
        count += lane_width + extra_width;
        while count >= 8 {
            stream.push(buffer as u8);
            buffer >>= 8;
            count -= 8;
        }
    }
    stream.push(buffer as u8);
    stream.resize(end, 0);
    Ok(())
}

/// Inverse of [`write_index`]: takes the index off the front of `stream`.
fn read_index(stream: &mut &[u8], blocks: usize, lane_width: u32, extra_width: u32, sizes: &mut Vec<(u32, u32)>) -> Result<()> {
    let bytes = take(stream, index_bytes(blocks, lane_width, extra_width), "block index")?;
    let mut bytes = bytes.iter();
    let mut buffer = 0u128;
    let mut count = 0;
    let mut field = |width: u32| {
        while count < width {
            buffer |= u128::from(*bytes.next().unwrap_or(&0)) << count;
            count += 8;
        }
        let value = (buffer & ((1 << width) - 1)) as u32;
        buffer >>= width;
        count -= width;
        value
    };
    sizes.clear();
    reserve(sizes, blocks)?;
    sizes.extend((0..blocks).map(|_| (field(lane_width), field(extra_width))));
    if bytes.any(|&byte| byte != 0) || buffer != 0 {
        return Err(Error::corrupt("block index", "its padding is not 0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
