//! What kernels work on: structures and constants that host and kernels share.
//!
//! This is the only declaration. `build.rs` writes the structures to `job_structs.cuh` and the constants to `constants.cuh`, with these
//! comments, and nvcc checks the offset of every field.
//!
//! A job is a batch of chunks of one layout; batches of the filter's callbacks hold one chunk. Every array of a job has one part a chunk, all parts of
//! one length, so that kernels compute pointers from the chunk's index. `[chunk][segment]` gives the order of an array's entries, slowest
//! index first. A segment is `SEGMENT` consecutive values; a block of the stream has a power of two of segments, and its entry is that
//! of the segment with the block's index.

use std::ffi::c_void;

use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::stages::codebook::MAX_CODE_BITS;
use quire_codec::stages::lanes::LANES;
use quire_codec::stages::{adaptive, alphabet, book_lengths, choice};

use super::declare::{ConstPointer, Pointer, shared_constants, shared_structs};

shared_constants! {
    /// Planes of a chunk: codes, exception mask, exception bits.
    pub const PLANES: usize = 3;
    /// Index of the plane of quantization codes.
    pub const CODES: usize = 0;
    /// Index of the plane of the exception mask.
    pub const MASK: usize = 1;
    /// Index of the plane of the exceptions' bits.
    pub const BITS: usize = 2;
    /// Most axes of a chunk.
    pub const MAX_RANK: usize = quire_codec::MAX_RANK;
    /// Most axes of a box of values that is copied.
    pub const BOX_AXES: usize = 8;
    /// Bytes kept for a stream's header.
    pub const HEADER_ROOM: usize = 32;

    /// Symbols of the alphabet.
    pub const SYMBOLS: usize = alphabet::SYMBOLS;
    /// Groups of four symbols.
    pub const SYMBOL_FOURS: usize = SYMBOLS.div_ceil(4);
    /// Codebooks of the dictionary.
    pub const BOOKS: usize = 75;
    /// Codebooks of the dictionary, filled up so that rows of code lengths stay aligned.
    pub const BOOKS_PADDED: usize = 80;
    /// Most codebooks of a dataset, which a plane may take besides the dictionary's.
    pub const MAX_BOOKS: usize = adaptive::MAX_BOOKS;
    /// Most bytes of a custom book in a stream.
    pub const MAX_BOOK_LEN: usize = book_lengths::MAX_BOOK_LEN;
    /// Entries of a decoding table.
    pub const DECODE_TABLE_LEN: usize = 1 << MAX_CODE_BITS;
    /// Entries of the table of high tile powers: one for each row of 256 tiles of the checksum.
    pub const CRC_TILE_ROWS: usize = 2048;

    /// Threads of most kernels' blocks.
    pub const THREADS: u32 = 256;
    /// Threads of a block of `choose`.
    pub const CHOOSE_THREADS: u32 = 128;
    /// Threads of a block that decodes lanes or bit planes.
    pub const LANE_THREADS: u32 = 128;
    /// Threads of a block that expands tokens, where a job has many segments for each multiprocessor.
    pub const EXPAND_THREADS: u32 = 128;
    /// Threads of a block that expands tokens, where a job has few segments for each multiprocessor: the job then takes as long as its longest block.
    pub const FEW_SEGMENTS_EXPAND_THREADS: u32 = 512;

    /// Consecutive slots whose counts have one sum in an array of sums.
    pub const SLOTS_PER_SUM: usize = 64;
    /// 16-bit words reserved for the lanes of a segment.
    pub const LANE_SLOT: usize = SEGMENT * MAX_CODE_BITS as usize / 16 + 2 * LANES;
    /// Bytes of a tile of the checksum.
    pub const CHECKSUM_TILE: usize = 4096;
    /// Entries of a plane's index that one block of threads reads.
    pub const INDEX_TILE: usize = 1024;

    /// Log2 of the longest block of the stream whose rows and columns are summed in shared memory.
    pub const ROWS_BLOCK_LOG: u8 = 12;
    /// Values of a tile of a row: longer rows are cut into tiles.
    pub const ROW_TILE: usize = 4096;
    /// Neighbouring columns that a block of threads takes where it sums along a slow axis.
    pub const COLUMNS: u32 = 32;
    /// Most values of the levels that one block of threads interpolates.
    pub const COARSE_VALUES: usize = 4096;
    /// Threads of a block that interpolates coarse levels.
    pub const COARSE_THREADS: u32 = 512;
    /// Blocks of a pass over a fine level that a multiprocessor holds at a time, which is all that it gets.
    pub const PASS_BLOCKS: u32 = 4;
    /// Threads of a block that measures tiles.
    pub const TILE_THREADS: u32 = 128;
    /// Interpolated tiles that a block takes at once.
    pub const GROUP_TILES: u32 = 4;
    /// Most passes of the interpolation of a tile: up to one for each number of axes, for each of twelve levels.
    pub const TILE_PASSES: usize = 48;
    /// Most kinds of interpolation with rough axes that are measured for a chunk, and most kinds around the best one of these: without each of its rough axes
    /// but the last, and linear in place of cubic or the reverse.
    pub const MAX_ROUGH_KINDS: usize = MAX_RANK - 1;
    /// In place of the number of a kind of interpolation: there is none.
    pub const NO_KIND: u32 = 255;
    /// Rounds in which a batch's kinds are measured: without rough axes, with rough axes, around the best one of these.
    pub const FIRST_ROUND: u32 = 0;
    pub const ROUGH_ROUND: u32 = 1;
    pub const LAST_ROUND: u32 = 2;
    /// Tiles of up to this number of values, as all with fewer than four axes are that are not thin, leave room for more blocks on a multiprocessor.
    pub const SMALL_TILE_VALUES: usize = 896;

    /// Sets of axes of a chunk.
    pub const AXIS_SETS: usize = choice::SETS;
    /// Tiles on which a predictor is chosen, of both kinds.
    pub const MOST_TILES: usize = choice::INTERPOLATED_TILES + choice::DIFFERENCE_TILES;
    /// Kinds of interpolation, by the low bits of their bytes.
    pub const INTERPOLATION_KINDS: usize = choice::KINDS;
    /// Kinds of tiles.
    pub const TILE_KINDS: usize = 2;
    /// Index of the kind of tiles that are interpolated.
    pub const INTERPOLATED_KIND: usize = 0;
    /// Index of the kind of tiles of which only differences are measured.
    pub const DIFFERENCE_KIND: usize = 1;

    /// Kind of pass over a plane: sums rows of up to `ROW_TILE` values.
    pub const SHORT_ROWS: u32 = 0;
    /// Kind of pass over a plane: computes the sum of each tile of longer rows.
    pub const ROW_TILES: u32 = 1;
    /// Kind of pass over a plane: sums longer rows, by the sums of their tiles.
    pub const LONG_ROWS: u32 = 2;
    /// Kind of pass over a plane: sums along a slow axis.
    pub const AXIS: u32 = 3;

    /// `columns_in_blocks`: a pass over all codes sums the columns.
    pub const COLUMNS_BY_PASS: u32 = 0;
    /// `columns_in_blocks`: columns are summed within blocks, then joined across blocks.
    pub const COLUMNS_JOINED: u32 = 1;
    /// `columns_in_blocks`: blocks hold whole columns, and sum them.
    pub const COLUMNS_WHOLE: u32 = 2;
    /// Fewest rows of a block whose columns are summed within it: with fewer, joining blocks takes as long as a pass over all codes.
    pub const MIN_BLOCK_ROWS: usize = 4;

    /// Kind of grid: an absolute bound's, or a lattice.
    pub const LINEAR: u32 = 0;
    /// Kind of grid: integers in the order of the floating-point numbers.
    pub const EXACT_FLOATS: u32 = 1;
    /// Kind of grid: all signed integers.
    pub const EXACT_SIGNED: u32 = 2;
    /// Kind of grid: multiples of an integer, signed.
    pub const SIGNED_STEPS: u32 = 3;
    /// Kind of grid: multiples of an integer, unsigned.
    pub const UNSIGNED_STEPS: u32 = 4;
    /// Kind of grid: powers of one base, for a point-wise relative bound.
    pub const LOGARITHMIC: u32 = 5;
    /// Kind of grid: all unsigned integers.
    pub const EXACT_UNSIGNED: u32 = 6;
    /// Kind of grid: whole numbers over a divisor, for the exact bits of decimals.
    pub const DECIMAL: u32 = 7;

    /// Codebook policy: the cheapest of all codebooks.
    pub const POLICY_AUTO: u32 = 0;
    /// Codebook policy: the cheapest of the dictionary's.
    pub const POLICY_DICTIONARY: u32 = 1;
    /// Codebook policy: a codebook built for the plane.
    pub const POLICY_CUSTOM: u32 = 2;

    /// `DecodeState::error`: the stream is as FORMAT.md says, so far.
    pub const DECODE_OK: u32 = 0;
    /// `DecodeState::error`: the stream is refused; the CPU's decoder then finds the reason.
    pub const DECODE_REFUSED: u32 = 1;
}

shared_structs! {
    /// Extents and strides, fastest axis first; axes from `rank` on have extent 1.
    #[derive(Default)]
    pub struct Shape {
        /// Axes of the chunk.
        pub rank: u32,
        /// Values of the chunk.
        pub elements: u32,
        /// Values along each axis.
        pub extents: [u32; MAX_RANK],
        /// Values from one to the next along each axis.
        pub strides: [u32; MAX_RANK],
        /// The digits of THREADS in the mixed radix of `extents`: what a thread adds to its coordinates to move on by THREADS values.
        pub advance: [u32; MAX_RANK],
    }

    /// Codebooks of a dataset, from which the encoder may choose besides the dictionary's.
    pub struct DatasetBooks {
        /// Code lengths by symbol.
        pub lengths: [[u8; SYMBOLS]; MAX_BOOKS],
    }

    /// What the host tells the encoder of a chunk.
    pub struct EncodeParameters {
        /// The absolute error bound; 0 on a lattice that the host has found; the relative bound on a logarithmic grid.
        pub bound: f64,
        /// Width of the grid: twice the bound on an absolute bound's.
        pub step: f64,
        /// 1 / `step`.
        pub inverse_step: f64,
        /// Bits of the fill value.
        pub fill_bits: u64,
        /// Least exponent of a lattice that is wider than `step`.
        pub needed_bit: i32,
        /// 1 if there is a fill value.
        pub has_fill: u32,
        /// 1 if values are big-endian.
        pub big_endian: u32,
        /// Codebook policy: `POLICY_AUTO`, `POLICY_DICTIONARY` or `POLICY_CUSTOM`.
        pub policy: u32,
        /// Bytes of `header`.
        pub header_len: u32,
        /// The predictor's byte: a set of axes along which codes are differenced, or a kind of interpolation.
        pub predictor: u32,
        /// Kind of grid: `LINEAR` to `EXACT_UNSIGNED`.
        pub kind: u32,
        /// Coding byte of a stream that is neither constant nor stored.
        pub coding: u32,
        /// First numbers of the body. On a linear grid `assemble` writes the half step that `inspect` has found in place of the first.
        pub fixed: [u64; 2],
        /// Bytes of `fixed` and of the number of exceptions behind it; 0 where the grid has no exceptions.
        pub fixed_len: u32,
        /// Codebooks of the dataset.
        pub books: u32,
        /// Bytes of `stored_header`.
        pub stored_header_len: u32,
        /// 0.
        pub reserved: u32,
        /// The header of a constant stream, in which `assemble` changes the coding; the checksum is still 0.
        pub header: [u8; HEADER_ROOM],
        /// The header of a stored stream; the checksum is still 0.
        pub stored_header: [u8; HEADER_ROOM],
    }

    /// The tiles of one kind.
    #[derive(Default)]
    pub struct TileKind {
        /// Shape of a tile, with the chunk's axes. `advance` is not used.
        pub shape: Shape,
        /// Values from one to the next along each axis, where tiles are read: in the chunk, or in a copy of the tile.
        pub strides: [u32; MAX_RANK],
        /// Tiles of this kind.
        pub count: u32,
        /// Number of a tile's coarsest level, a single value.
        pub coarsest: u32,
        /// A tile's residuals of interpolation, from the first one on, that do not count.
        pub uncounted_residuals: u32,
        /// A tile's values that have a neighbour before them along every axis longer than 1.
        pub counted: u32,
    }

    /// Counts over residuals of one predictor.
    #[derive(Default)]
    pub struct ResidualCounts {
        /// Residuals that are 0.
        pub zeros: u32,
        /// Residuals other than 0 that are directly behind a 0.
        pub rises: u32,
        /// Residuals that are 1 or -1.
        pub ones: u32,
        /// Residuals with a magnitude of 2 or 3.
        pub two_bits: u32,
        /// Residuals with a magnitude of 4 to 7.
        pub three_bits: u32,
        /// Residuals with a magnitude of LARGE_MAGNITUDE or more.
        pub large: u32,
        /// Residuals below 0 whose magnitude is smaller.
        pub negative: u32,
        /// Sum of the lengths in bits of all magnitudes, each at most MAX_COUNTED_MAGNITUDE.
        pub magnitude_bits: u32,
    }

    /// Counts over the tiles of one kind.
    #[derive(Default)]
    pub struct KindCounts {
        /// Differences along each set of axes.
        pub differences: [ResidualCounts; AXIS_SETS],
        /// Residuals of each kind of interpolation.
        pub residuals: [ResidualCounts; INTERPOLATION_KINDS],
        /// By kind of interpolation: escapes among these residuals, and exceptions that have a code.
        pub outliers: [u32; INTERPOLATION_KINDS],
        /// Values between two steps of the fine grid.
        pub between_steps: u32,
        /// Values with a code that are out of the fine grid's reach.
        pub out_of_reach: u32,
        /// Tiles that forbid interpolation, as too many of their values are out of reach.
        pub tiles_out_of_reach: u32,
    }

    /// Counts over all tiles of a chunk.
    #[derive(Default)]
    pub struct TileSums {
        /// By kind: `INTERPOLATED_KIND`, `DIFFERENCE_KIND`.
        pub kinds: [KindCounts; TILE_KINDS],
        /// Blocks of threads that have added their counts.
        pub blocks_done: u32,
        // What follows is of a batch alone.
        /// 1 if interpolation is a candidate.
        pub is_interpolation_open: u32,
        /// Numbers of the kinds of interpolation with rough axes that are measured, then `NO_KIND`.
        pub rough_kinds: [u32; MAX_ROUGH_KINDS],
        /// Numbers of the kinds that are measured last, then `NO_KIND`.
        pub last_kinds: [u32; MAX_ROUGH_KINDS],
        /// The best set of axes, and the number of the best kind of interpolation so far.
        pub set: u32,
        pub best_kind: u32,
        /// Estimates of the bits of that kind; and of that set, with and without the correction for the chunk's first values along the axes.
        pub best_bits: u64,
        pub set_bits: u64,
        pub uncorrected_set_bits: u64,
    }

    /// The passes of the interpolation of a tile. The values of a pass are independent of each other; their residuals are consecutive.
    pub struct TilePasses {
        /// Number of passes.
        pub count: u32,
        /// Number of the residual behind a pass.
        pub ends: [u32; TILE_PASSES],
        /// Number of axes along which its values are odd.
        pub sizes: [u32; TILE_PASSES],
    }

    /// The tiles of a chunk to measure.
    pub struct TileJob {
        /// Width of the grid.
        pub step: f64,
        /// 1 / `step`.
        pub inverse_step: f64,
        /// Bits of the fill value.
        pub fill_bits: u64,
        /// 1 if values with the bits of the fill value are exceptions.
        pub has_fill: u32,
        /// 1 if values are big-endian.
        pub big_endian: u32,
        /// Kinds of interpolation to measure: 0 if interpolation is no candidate.
        pub candidates: u32,
        /// Most values of an interpolated tile that may be out of the fine grid's reach.
        pub most_out_of_reach: u32,
        /// By kind: `INTERPOLATED_KIND`, `DIFFERENCE_KIND`.
        pub kinds: [TileKind; TILE_KINDS],
        /// Address of each tile's first value: `[INTERPOLATED_TILES]`, then `[DIFFERENCE_TILES]`. 0 where there are fewer tiles.
        pub tiles: [u64; MOST_TILES],
        /// Numbers of the candidates, the kinds of interpolation; the first one is 0. Then zeros.
        pub candidate_numbers: [u8; INTERPOLATION_KINDS],
        /// Extents of a chunk, fastest first.
        pub extents: [u32; MAX_RANK],
        /// Kinds of interpolation with rough axes to measure in a batch: one less than there are axes longer than 1.
        pub rough_kinds: u32,
        /// Tiles of `DIFFERENCE_KIND` that a block takes.
        pub tiles_per_block: u32,
        /// By kind of tiles and index of a value, where it is read, in values from a tile's first one: `[TILE_KINDS][MAX_TILE_VALUES]`.
        pub offsets: Pointer<u32>,
        /// By kind of tiles, the values whose differences count: `[TILE_KINDS][MAX_TILE_VALUES]`.
        pub counted: Pointer<u32>,
        /// The passes of interpolation.
        pub passes: Pointer<TilePasses>,
        /// Where the neighbours of an interpolated tile's values are, and their weights: `[kind of interpolation][axis][residual]`, 16 bytes each.
        pub terms: Pointer<c_void>,
        /// Addresses of the chunks of a batch: `[chunk]`, and `tiles` has offsets in bytes. Null for one chunk.
        pub chunks: ConstPointer<u64>,
        /// Counts so far: `[chunk]`. 0 when the job begins and when it ends.
        pub sums: Pointer<TileSums>,
        /// Pinned memory to which the counts are copied: `[chunk]`. For one chunk alone.
        pub host_sums: Pointer<TileSums>,
        /// How interpolation codes the values of tiles: `[chunk][group of tiles][value][tile of the group]`. For a batch alone.
        pub entries: Pointer<i32>,
        /// Codes of these values, in the same order, for differences along the best set of axes. For a batch alone.
        pub codes: Pointer<i32>,
        /// Pinned memory to which the predictors of a batch are written: `[chunk]`.
        pub host_predictors: Pointer<u32>,
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
        /// LATTICE_ZERO less the exponent of the least significant 1 bit of all values; 0 if no value has a 1 bit.
        pub lattice_key: u32,
        /// 1 if two values differ.
        pub differs: u32,
        /// Exceptions of the chunk.
        pub exceptions: u32,
        /// Ones among the exception mask's differences along all axes, and along the fastest axis alone.
        pub mask_ones: [u32; 2],
        /// Remainders of the checksum's tiles that are done, joined.
        pub checksum: u32,
        /// Blocks of threads that have joined their tiles.
        pub tiles_done: u32,
        /// 0.
        pub reserved: u32,
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
    }

    /// What the host reads of a compressed chunk.
    #[derive(Default)]
    pub struct EncodeResult {
        /// Bytes of the stream.
        pub length: u64,
        /// Coding byte of the stream.
        pub coding: u32,
        /// Exceptions of the chunk.
        pub exceptions: u32,
    }

    /// Look-up tables, made once a device.
    pub struct Tables {
        /// Code lengths of four symbols at a time, by codebook: `[four symbols][codebook][symbol of the four]`.
        pub book_lengths: [[[u8; 4]; BOOKS_PADDED]; SYMBOL_FOURS],
        /// By the next MAX_CODE_BITS bits: length of the code, and symbol << 4.
        pub decode_tables: [[u16; DECODE_TABLE_LEN]; BOOKS],
        /// CRC-32 of a byte followed by 0 to 3 zero bytes.
        pub crc_bytes: [[u32; 256]; 4],
        /// x^(128 (255 - t)) mod P.
        pub crc_thread: [u32; 256],
        /// x^(32768 t) mod P.
        pub crc_tile_low: [u32; 256],
        /// x^(32768 * 256 t) mod P.
        pub crc_tile_high: [u32; CRC_TILE_ROWS],
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

    /// A batch of chunks to compress.
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
        /// 1 if `inspect` is not launched: no chunk is constant, and none needs a search for a lattice.
        pub needs_no_inspection: u32,
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
        /// Bits of the exceptions, as wide as codes: `[chunk][elements]`.
        pub exception_bits: Pointer<c_void>,
        /// Indices of the exceptions, ascending, where they are listed: `[chunk][most_listed]`.
        pub exception_list: Pointer<u32>,
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
        /// `[chunk]`.
        pub results: Pointer<EncodeResult>,
        /// Pinned memory to which `checksum_and_copy` copies `results`, or null.
        pub host_results: Pointer<EncodeResult>,
    }

    /// A box of values that is copied between two arrays.
    #[derive(Default)]
    pub struct CopiedBox {
        /// Address of the first value.
        pub from: u64,
        /// Address of the first value's copy.
        pub to: u64,
        /// Values along each axis, fastest axis first; 1 behind the last one.
        pub lens: [u32; BOX_AXES],
    }

    /// Boxes of values to copy between arrays in device memory.
    #[derive(Default)]
    pub struct BoxJob {
        /// Bytes from one value to the next along each axis of the arrays that are read. 0 along all axes repeats one value.
        pub from_strides: [i64; BOX_AXES],
        /// Bytes from one value to the next along each axis of the arrays that are written.
        pub to_strides: [i64; BOX_AXES],
        /// By `blockIdx.y`.
        pub boxes: ConstPointer<CopiedBox>,
        /// Axes in use.
        pub axes: u32,
        /// 0.
        pub reserved: u32,
    }

    /// A run of bytes that is copied.
    #[derive(Default)]
    pub struct CopiedRun {
        /// Address of the first byte.
        pub from: u64,
        /// Address of its copy.
        pub to: u64,
        /// Number of bytes.
        pub bytes: u64,
    }

    /// Runs of bytes to copy.
    #[derive(Default)]
    pub struct RunJob {
        /// By `blockIdx.y`.
        pub runs: ConstPointer<CopiedRun>,
    }

    /// What the host has read of a stream. It comes right before the stream in device memory.
    #[derive(Default)]
    pub struct DecodeParameters {
        /// Width of the grid.
        pub step: f64,
        /// Bytes of the stream.
        pub stream_len: u64,
        /// Offset of the first plane, behind the list of exceptions.
        pub body: u32,
        /// Exceptions of the chunk.
        pub exceptions: u32,
        /// The checksum that the stream's header has.
        pub checksum: u32,
        /// 1 if values are big-endian.
        pub big_endian: u32,
        /// The bound of a grid of integer multiples, the offset of a logarithmic grid, or the divisor of decimals.
        pub extra: u64,
        /// Kind of grid: `LINEAR` to `EXACT_UNSIGNED`.
        pub kind: u32,
        /// 0.
        pub reserved: u32,
    }

    /// What a plane's header says.
    #[derive(Default)]
    pub struct DecodePlaneState {
        /// Blocks of the plane.
        pub blocks: u32,
        /// Log2 of a block's integers.
        pub block_log: u32,
        /// The predictor's byte: a set of axes along which the plane is differenced, or a kind of interpolation.
        pub predictor: u32,
        /// Integers of the plane; 0 for a plane that the stream does not have.
        pub elements: u32,
        /// 1 if the plane is coded as bit planes.
        pub are_bit_planes: u32,
        /// Lanes of a block: LANES or FEW_LANES.
        pub lanes: u32,
    }

    /// What the kernels find of a stream. The host reads it when the job has ended.
    #[derive(Default)]
    pub struct DecodeState {
        /// `DECODE_OK` or `DECODE_REFUSED`.
        pub error: u32,
        /// Remainders of the checksum's tiles that are done, joined.
        pub checksum: u32,
        /// Blocks of threads that have joined their tiles.
        pub tiles_done: u32,
        /// Ones of the decoded exception mask.
        pub exceptions_found: u32,
        /// By plane.
        pub planes: [DecodePlaneState; PLANES],
    }

    /// How the lanes of a block end.
    #[derive(Default)]
    pub struct LanesEnd {
        /// Rounds after which all words are read and all bits that are left are 0; NONE if no number of rounds leads there.
        pub rounds: u32,
        /// The lanes that had a 1 bit left before the last of these rounds, by bits.
        pub lanes_before: u32,
    }

    /// Working arrays of a plane that is decoded.
    #[derive(Default)]
    pub struct DecodePlane {
        /// Integers: `[chunk][stride]`; as wide as codes, but for the mask's, of a byte each.
        pub values: Pointer<c_void>,
        /// Integers of a chunk, rounded up to a multiple of 16.
        pub stride: u64,
        /// Offset of the block's words from the stream's start, in 16-bit words: `[chunk][block]`.
        pub lane_starts: Pointer<u32>,
        /// 16-bit words of the lanes, or of the bit planes: `[chunk][block]`.
        pub lane_or_bit_plane_words: Pointer<u32>,
        /// 16-bit words of the extra bits: `[chunk][block]`.
        pub extra_sizes: Pointer<u32>,
        /// Symbols of tokens: `[chunk][segment][SEGMENT]`. Null where no plane has tokens.
        pub symbols: Pointer<u8>,
        /// `[chunk][block]`. Null where no plane has tokens.
        pub lane_ends: Pointer<LanesEnd>,
        /// Decoding table of the plane's own codebook: `[chunk][DECODE_TABLE_LEN]`.
        pub custom_table: Pointer<u16>,
        /// The decoding table: one of the dictionary's, or the plane's own: `[chunk]`.
        pub table: Pointer<ConstPointer<u16>>,
    }

    /// A batch of streams to decompress.
    #[derive(Default)]
    pub struct DecodeJob {
        /// Shape of a chunk.
        pub shape: Shape,
        /// Chunks of the batch.
        pub chunks: u32,
        /// Segments of a chunk.
        pub segments: u32,
        /// Sums of a chunk in `exception_sums`: ceil(`segments` / SLOTS_PER_SUM).
        pub sums: u32,
        /// Most exceptions that a chunk has in a list; more of them have a mask and a plane of bits.
        pub most_listed: u32,
        /// 1 if blocks of codes hold whole rows, which are summed where they are decoded.
        pub rows_in_blocks: u32,
        /// Where the columns of those rows are summed: `COLUMNS_BY_PASS`, `COLUMNS_JOINED` or `COLUMNS_WHOLE`.
        pub columns_in_blocks: u32,
        /// 1 if values are interpolated.
        pub interpolated: u32,
        /// 0.
        pub reserved: u32,
        /// The device's tables.
        pub tables: ConstPointer<Tables>,
        /// DecodeParameters, then the stream: `[chunk][input_stride]`, bytes.
        pub input: Pointer<u8>,
        /// Pinned memory from which `fetch` copies `input`, or null.
        pub host_input: ConstPointer<u8>,
        /// Bytes reserved for the parameters and the stream of a chunk.
        pub input_stride: u64,
        /// By plane: `CODES`, `MASK`, `BITS`.
        pub planes: [DecodePlane; PLANES],
        /// Of an interpolated chunk: position of each value on the fine grid, from which others are predicted: `[chunk][elements]`.
        pub positions: Pointer<i32>,
        /// Sums of the tiles of long rows: `[chunk][plane][row tile]`.
        pub row_sums: Pointer<u64>,
        /// Last row of each block of codes, its columns summed within the block: `[chunk][edge_stride]`.
        pub edges: Pointer<c_void>,
        /// What the blocks before a block add to its first rows: `[chunk][edge_stride]`.
        pub carries: Pointer<c_void>,
        /// Integers of `edges` a chunk, and of `carries`.
        pub edge_stride: u64,
        /// Exceptions: `[chunk][segment]`.
        pub exception_counts: Pointer<u32>,
        /// Sums of SLOTS_PER_SUM `exception_counts` each: `[chunk][sums]`. 0 when the job begins.
        pub exception_sums: Pointer<u32>,
        /// `[chunk]`. 0 when the job begins.
        pub states: Pointer<DecodeState>,
        /// Addresses to which the chunks' values are written where a caller wants them: `[chunk]`. Null if they go to `output`.
        pub outputs: ConstPointer<u64>,
        /// Values: `[chunk][output_stride]`, bytes. The array of codes itself where values are as long as codes and not interpolated.
        pub output: Pointer<u8>,
        /// Bytes from one chunk's values to the next one's.
        pub output_stride: u64,
        /// Pinned memory to which the states are copied, or null.
        pub host_results: Pointer<DecodeState>,
    }
}
