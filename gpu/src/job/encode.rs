//! Compressing: parameters, states and working arrays.

use std::ffi::c_void;

use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::stages::codebook::MAX_CODE_BITS;
use quire_codec::stages::lanes::LANES;
use quire_codec::stages::{adaptive, book_lengths};

use super::common::{Fills, PLANES, SYMBOLS, Shape, Tables};
use crate::declare::{ConstPointer, Pointer, shared_constants, shared_structs};

shared_constants! {
    /// Most thresholds.
    pub const MAX_THRESHOLDS: usize = quire_codec::MAX_THRESHOLDS;
    /// Bytes kept for a stream's header.
    pub const HEADER_BYTES: usize = 32;
    /// Most codebooks of a dataset, which a plane may take besides the dictionary's.
    pub const MAX_BOOKS: usize = adaptive::MAX_BOOKS;
    /// Most bytes of a custom book in a stream.
    pub const MAX_BOOK_LEN: usize = book_lengths::MAX_BOOK_LEN;
    /// Threads of a block of `choose_book`.
    pub const CHOOSE_THREADS: u32 = 128;
    /// 16-bit words reserved for the lanes of a segment.
    pub const LANE_SLOT: usize = SEGMENT * MAX_CODE_BITS as usize / 16 + 2 * LANES;

    /// Codebook policy: the cheapest of all codebooks.
    pub const POLICY_AUTO: u32 = 0;
    /// Codebook policy: the cheapest of the dictionary's.
    pub const POLICY_DICTIONARY: u32 = 1;
    /// Codebook policy: a codebook built for the plane.
    pub const POLICY_CUSTOM: u32 = 2;
}

shared_structs! {
    /// Codebooks of a dataset, from which the encoder may choose besides the dictionary's.
    pub struct DatasetBooks {
        /// Code lengths by symbol.
        pub lengths: [[u8; SYMBOLS]; MAX_BOOKS],
    }

    /// Whether the order of values, or the sides of thresholds, are kept: see `Keep` of the codec.
    #[derive(Default)]
    pub struct Keep {
        /// Thresholds whose sides are kept.
        pub thresholds: [f64; MAX_THRESHOLDS],
        /// Number of thresholds.
        pub count: u32,
        /// 1 if the order of values is kept.
        pub has_order: u32,
        /// 1 if the step is the bound, but for a lattice.
        pub is_halved: u32,
        /// Aligns the structure.
        pub reserved: u32,
    }

    /// What the host tells the encoder of a chunk.
    pub struct EncodeParameters {
        /// The absolute error bound, which is 0 on a lattice that the host has found. On a logarithmic grid, the relative bound.
        pub bound: f64,
        /// Width of the grid: twice the bound on an absolute bound's.
        pub step: f64,
        /// 1 / `step`.
        pub inverse_step: f64,
        /// The values that stand for missing ones.
        pub fills: Fills,
        /// The order and the thresholds that are kept.
        pub keep: Keep,
        /// Least exponent of a lattice that is wider than `step`.
        pub needed_bit: i32,
        /// 1 if values are big-endian.
        pub big_endian: u32,
        /// Codebook policy: `POLICY_AUTO`, `POLICY_DICTIONARY` or `POLICY_CUSTOM`.
        pub policy: u32,
        /// Bytes of `header`.
        pub header_len: u32,
        /// The predictor's byte: a set of axes along which codes are differenced, or a kind of interpolation.
        pub predictor: u32,
        /// Kind of grid: `LINEAR` to `DECIMAL`.
        pub kind: u32,
        /// Coding byte of a stream that is neither constant nor stored.
        pub coding: u32,
        /// Bytes of `stored_header`.
        pub stored_header_len: u32,
        /// First numbers of the body. On a linear grid `assemble` writes the half step that `inspect` has found in place of the first.
        pub fixed: [u64; 2],
        /// Bytes of `fixed` and of the number of exceptions behind it, without limits; 0 where the grid has no exceptions.
        pub fixed_len: u32,
        /// Codebooks of the dataset.
        pub books: u32,
        /// The header of a constant stream, in which `assemble` changes the coding; the checksum is still 0.
        pub header: [u8; HEADER_BYTES],
        /// The header of a stored stream; the checksum is still 0.
        pub stored_header: [u8; HEADER_BYTES],
    }

    /// Counts of one plane that grow while it is coded.
    pub struct PlaneState {
        /// Tokens by symbol.
        pub histogram: [u32; SYMBOLS],
        /// Most 16-bit words that the lanes of one block take.
        pub max_lane_words: u32,
        /// Most 16-bit words that the extra bits of one block take.
        pub max_extra_words: u32,
    }

    /// Counts of a chunk that grow while it is coded.
    pub struct EncodeState {
        /// Of the values that count for limits: keys of the least one's negative and of the greatest one. Keys order as numbers do; 0 is less than all.
        pub ends: [u64; 2],
        /// LATTICE_ZERO less the exponent of the least significant 1 bit of all values; 0 if no value has a 1 bit.
        pub lattice_key: u32,
        /// 1 if two values differ.
        pub differs: u32,
        /// Exceptions of the chunk.
        pub exceptions: u32,
        /// Ones among the exception mask's differences along all axes, and along the fastest axis alone.
        pub mask_ones: [u32; 2],
        /// Remainders of the checksum's pieces that are done, joined.
        pub checksum: u32,
        /// Blocks of threads that have joined their pieces.
        pub pieces_done: u32,
        /// 1 if the bound is below the last digit of most values of a sample; found for `host_inspections` alone.
        pub is_bound_below_digits: u32,
        /// By plane.
        pub planes: [PlaneState; PLANES],
    }

    /// The codebook of a plane.
    pub struct Book {
        /// By symbol: code in the low 16 bits, its length above.
        pub codes: [u32; SYMBOLS],
        /// Index in the dictionary, or `CUSTOM_BOOK`.
        pub number: u32,
        /// Log2 of the segments in a block.
        pub block_segments_log: u32,
        /// 1 if blocks have FEW_LANES lanes in place of LANES.
        pub has_few_lanes: u32,
        /// Bytes of `coded`; 0 for a book of the dictionary, and for none.
        pub coded_len: u32,
        /// Code lengths of a custom book as they are in a stream.
        pub coded: [u32; MAX_BOOK_LEN / 4],
    }

    /// What `inspect` has found in a chunk.
    #[derive(Default)]
    pub struct Inspection {
        /// 1 if two values differ.
        pub differs: u32,
        /// 1 if the values show that the chunk has no lattice.
        pub has_no_lattice: u32,
        /// 1 if the bound is below the last digit of most values of a sample.
        pub is_bound_below_digits: u32,
    }

    /// Working arrays of a plane that is encoded.
    #[derive(Default)]
    pub struct EncodePlane {
        /// Symbols of tokens: `[chunk][segment][SEGMENT]`.
        pub symbols: Pointer<u8>,
        /// Extra bits of tokens, or bit planes: `[chunk][segment][extra_stride]`, 32-bit words.
        pub extra: Pointer<u32>,
        /// Tokens: `[chunk][segment]`.
        pub token_counts: Pointer<u32>,
        /// Extra bits: `[chunk][segment]`.
        pub extra_bits: Pointer<u32>,
        /// Words of the lanes: `[chunk][segment][LANE_SLOT]`.
        pub lane_words: Pointer<u16>,
        /// 16-bit words of the lanes, or of the bit planes: `[chunk][block]`.
        pub lane_or_bit_plane_words: Pointer<u32>,
        /// 16-bit words of the lanes and of the extra bits: `[chunk][block]`.
        pub block_sizes: Pointer<u32>,
        /// Sums of SLOTS_PER_SUM `block_sizes` each: `[chunk][sums]`. 0 when the job begins.
        pub size_sums: Pointer<u32>,
        /// Codebook: `[chunk]`.
        pub book: Pointer<Book>,
        /// 32-bit words of `extra` a segment.
        pub extra_stride: u64,
    }

    /// A batch of chunks to compress. `mask`, `codes`, `positions` and `exception_bits` are gone when lanes are encoded or a stream is written.
    #[derive(Default)]
    pub struct EncodeJob {
        /// Shape of a chunk.
        pub shape: Shape,
        /// Chunks of the batch.
        pub chunks: u32,
        /// Segments of a chunk.
        pub segments: u32,
        /// Sums of a chunk in `exception_sums`, and in the `size_sums` of each plane: ceil(`segments` / SLOTS_PER_SUM).
        pub sums: u32,
        /// Most exceptions that a chunk has in a list; more of them have a mask and a plane of bits.
        pub most_listed: u32,
        /// 1 if planes are coded as bit planes, in place of tokens and lanes.
        pub bit_planes: u32,
        /// 1 if `inspect` is launched; otherwise no chunk is constant.
        pub inspected: u32,
        /// 1 if values are interpolated, in place of differences.
        pub interpolated: u32,
        /// 0.
        pub reserved: u32,
        /// The device's tables.
        pub tables: ConstPointer<Tables>,
        /// The dataset's codebooks, with `parameters` right behind them.
        pub dataset_books: Pointer<DatasetBooks>,
        /// `[chunk]`.
        pub parameters: Pointer<EncodeParameters>,
        /// Pinned memory from which `begin` copies `dataset_books` and the parameters of one chunk, or null.
        pub host_parameters: ConstPointer<u8>,
        /// Pinned memory to which `report_inspections` copies what `inspect` has found, or null: `[chunk]`.
        pub host_inspections: Pointer<Inspection>,
        /// Addresses of the chunks' values where a caller has them: `[chunk]`. Null if they are in `input`.
        pub inputs: ConstPointer<u64>,
        /// Values: `[chunk][input_stride]`, bytes.
        pub input: ConstPointer<u8>,
        /// Bytes of a chunk.
        pub input_stride: u64,
        /// Quantization codes, or the residuals of interpolation in the order of coding: `[chunk][elements]`.
        pub codes: Pointer<c_void>,
        /// Of an interpolated chunk: position of each value on the fine grid, from which others are predicted: `[chunk][elements]`.
        pub positions: Pointer<i32>,
        /// Bits of the exceptions, as wide as codes, where they are too many for a list: `[chunk][elements]`.
        pub exception_bits: Pointer<c_void>,
        /// Indices of the exceptions, ascending, where they are listed: `[chunk][most_listed]`.
        pub listed_indices: Pointer<u32>,
        /// Bits of the exceptions, as wide as codes, where they are listed: `[chunk][most_listed]`.
        pub listed_bits: Pointer<c_void>,
        /// Exception mask, a bit a value: `[chunk][segment][MASK_WORDS]`. 0 when the job begins if values are interpolated.
        pub mask: Pointer<u32>,
        /// Index of the first value that is no exception, or NONE: `[chunk][segment]`.
        pub first_valid: Pointer<u32>,
        /// Index of the last value that is no exception, or NONE: `[chunk][segment]`.
        pub last_valid: Pointer<u32>,
        /// Exceptions: `[chunk][segment]`.
        pub exception_counts: Pointer<u32>,
        /// Sums of SLOTS_PER_SUM `exception_counts` each: `[chunk][sums]`. 0 when the job begins.
        pub exception_sums: Pointer<u32>,
        /// `[chunk]`. 0 when the job begins.
        pub states: Pointer<EncodeState>,
        /// By plane: `CODES`, `MASK`, `BITS`.
        pub planes: [EncodePlane; PLANES],
        /// Streams: `[chunk][output_stride]`, bytes.
        pub output: Pointer<u8>,
        /// Bytes reserved for a stream.
        pub output_stride: u64,
        /// Pinned memory to which `checksum_and_copy` copies the streams, or null.
        pub host_output: Pointer<u8>,
        /// Bytes of each stream: `[chunk]`.
        pub lengths: Pointer<u64>,
        /// Pinned memory to which `checksum_and_copy` copies `lengths`, or null.
        pub host_lengths: Pointer<u64>,
    }
}
