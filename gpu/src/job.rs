//! What kernels work on, as `kernels/job.cuh` has it: the build writes these sizes into `constants.cuh`, and nvcc compares them.
//!
//! Addresses are the device's, as integers: nothing here is ever dereferenced on the host.

/// Planes of a chunk: codes, exception mask, exception bits.
pub const PLANES: usize = 3;
/// Room for a stream's header with all extents.
pub const HEADER_ROOM: usize = 64;
/// Books of the dictionary, filled up so that rows of lengths stay aligned.
pub const BOOKS_PADDED: usize = 80;
/// Symbols of the alphabet.
pub const SYMBOLS: usize = quire_codec::stages::alphabet::SYMBOLS;
/// Symbols are kept four at a time.
pub const SYMBOL_FOURS: usize = SYMBOLS.div_ceil(4);
/// Most books that the kernels' tables have room for.
pub const BOOKS: usize = 75;
/// Most books besides those.
pub const MAX_BOOKS: usize = quire_codec::stages::adaptive::MAX_BOOKS;
/// Entries of a decoding table.
pub const DECODE_TABLE_LEN: usize = 1 << quire_codec::stages::codebook::MAX_CODE_BITS;
/// Entries of the table of high tile powers; a tile is 4096 bytes, and a row of 256 tiles has one entry.
pub const CRC_TILE_ROWS: usize = 2048;

/// Log2 of the longest block whose rows and columns are summed in shared memory.
pub const ROWS_BLOCK_LOG: u8 = 12;
/// Threads of most kernels.
pub const THREADS: u32 = 256;
/// Threads of a block of `choose`.
pub const CHOOSE_THREADS: u32 = 128;
/// Threads of a block that decodes lanes or bit planes, and of one that expands tokens.
pub const LANE_THREADS: u32 = 128;
/// See [`LANE_THREADS`].
pub const EXPAND_THREADS: u32 = 128;
/// The same where there are few blocks, so that the longest is waited for.
pub const FEW_EXPAND_THREADS: u32 = 512;
/// Counts that share a sum.
pub const GROUP: usize = 64;
/// 16-bit words that the lanes of a segment can take.
pub const LANE_SLOT: usize = quire_codec::stages::alphabet::SEGMENT * quire_codec::stages::codebook::MAX_CODE_BITS as usize / 16
    + 2 * quire_codec::stages::lanes::LANES;
/// Bytes of a tile of the checksum.
pub const CHECKSUM_TILE: usize = 4096;
/// Blocks of a plane's index that a block of threads finds.
pub const INDEX_TILE: usize = 1024;
/// Rows longer than this are cut into tiles of as many values.
pub const ROW_TILE: usize = 4096;
/// Values that a block takes side by side where it sums along a slow axis.
pub const COLUMNS: u32 = 32;

/// Most values of the grids that one block of threads interpolates, and its threads.
pub const COARSE_VALUES: usize = 4096;
/// See [`COARSE_VALUES`].
pub const COARSE_THREADS: u32 = 512;

/// Kinds of passes that undo the prediction: rows of up to [`ROW_TILE`] values.
pub const SHORT_ROWS: u32 = 0;
/// The sums of the tiles of longer rows.
pub const ROW_TILES: u32 = 1;
/// Longer rows, by these sums.
pub const LONG_ROWS: u32 = 2;
/// A slow axis.
pub const AXIS: u32 = 3;

/// How columns of codes are summed: by a pass over all of them.
pub const COLUMNS_APART: u32 = 0;
/// Within blocks, which are then joined.
pub const COLUMNS_JOINED: u32 = 1;
/// Within blocks, which hold whole ones.
pub const COLUMNS_WHOLE: u32 = 2;
/// Rows that a block has at least where columns are summed within blocks: with fewer, joining them would be as long as a pass.
pub const MIN_BLOCK_ROWS: usize = 4;

/// Kinds of grids: an absolute bound's or a lattice.
pub const LINEAR: u32 = 0;
/// Integers that order as floating-point numbers do.
pub const EXACT_FLOATS: u32 = 1;
/// Whole numbers as they are, signed.
pub const EXACT_SIGNED: u32 = 2;
/// Multiples of a whole number, signed.
pub const SIGNED_STEPS: u32 = 3;
/// Multiples of a whole number, unsigned.
pub const UNSIGNED_STEPS: u32 = 4;
/// Steps of the logarithm.
pub const LOGARITHMIC: u32 = 5;
/// Whole numbers as they are, unsigned.
pub const EXACT_UNSIGNED: u32 = 6;

/// An address in device memory, or in pinned memory that the device reaches.
pub type Address = u64;

/// Extents and strides, fastest axis first.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    pub rank: u32,
    pub elements: u32,
    pub extents: [u32; 4],
    pub strides: [u32; 4],
    pub advance: [u32; 4],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EncodeParameters {
    pub bound: f64,
    pub step: f64,
    pub inverse_step: f64,
    pub fill_bits: u64,
    pub needed_bit: i32,
    pub has_fill: u32,
    pub big_endian: u32,
    pub policy: u32,
    pub header_len: u32,
    pub axes: u32,
    pub kind: u32,
    pub coding: u32,
    pub fixed: [u64; 2],
    pub fixed_len: u32,
    pub books: u32,
    pub reserved: [u32; 2],
    pub header: [u8; HEADER_ROOM],
    pub book_lengths: [[u8; SYMBOLS]; MAX_BOOKS],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PlaneState {
    pub histogram: [u32; SYMBOLS],
    pub max_lane_words: u32,
    pub max_extra_words: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EncodeState {
    pub lattice_key: u32,
    pub differs: u32,
    pub exceptions: u32,
    pub mask_ones: [u32; 2],
    pub checksum: u32,
    pub tiles_done: u32,
    pub reserved: u32,
    pub planes: [PlaneState; PLANES],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Book {
    pub codes: [u32; SYMBOLS],
    pub number: u32,
    pub group_log: u32,
    pub lengths: [u8; SYMBOLS],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodeResult {
    pub length: u64,
    pub coding: u32,
    pub exceptions: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    pub book_lengths: [[[u8; 4]; BOOKS_PADDED]; SYMBOL_FOURS],
    pub decode_tables: [[u16; DECODE_TABLE_LEN]; BOOKS],
    pub crc_bytes: [[u32; 256]; 4],
    pub crc_thread: [u32; 256],
    pub crc_tile_low: [u32; 256],
    pub crc_tile_high: [u32; CRC_TILE_ROWS],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodePlane {
    pub symbols: Address,
    pub extra: Address,
    pub token_counts: Address,
    pub extra_bits: Address,
    pub lane_words: Address,
    pub lane_sizes: Address,
    pub block_sizes: Address,
    pub groups: Address,
    pub book: Address,
    pub extra_stride: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodeJob {
    pub shape: Shape,
    pub chunks: u32,
    pub segments: u32,
    pub groups: u32,
    pub most_listed: u32,
    pub bit_planes: u32,
    pub inspected: u32,
    pub interpolated: u32,
    pub reserved: u32,
    pub tables: Address,
    pub parameters: Address,
    pub host_parameters: Address,
    pub input: Address,
    pub input_stride: u64,
    pub codes: Address,
    pub places: Address,
    pub exception_bits: Address,
    pub exception_list: Address,
    pub mask: Address,
    pub first_valid: Address,
    pub last_valid: Address,
    pub exception_counts: Address,
    pub exception_groups: Address,
    pub states: Address,
    pub planes: [EncodePlane; PLANES],
    pub output: Address,
    pub output_stride: u64,
    pub host_output: Address,
    pub results: Address,
    pub host_results: Address,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeParameters {
    pub step: f64,
    pub stream_len: u64,
    pub body: u32,
    pub exceptions: u32,
    pub checksum: u32,
    pub big_endian: u32,
    pub extra: u64,
    pub kind: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodePlaneState {
    pub blocks: u32,
    pub block_log: u32,
    pub axes: u32,
    pub elements: u32,
    pub are_bit_planes: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeState {
    pub error: u32,
    pub checksum: u32,
    pub tiles_done: u32,
    pub exceptions_found: u32,
    pub planes: [DecodePlaneState; PLANES],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodePlane {
    pub values: Address,
    pub stride: u64,
    pub lane_starts: Address,
    pub lane_sizes: Address,
    pub extra_sizes: Address,
    pub symbols: Address,
    pub lane_ends: Address,
    pub custom_table: Address,
    pub table: Address,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeJob {
    pub shape: Shape,
    pub chunks: u32,
    pub segments: u32,
    pub groups: u32,
    pub most_listed: u32,
    pub rows_in_blocks: u32,
    pub columns_in_blocks: u32,
    pub interpolated: u32,
    pub reserved: u32,
    pub tables: Address,
    pub input: Address,
    pub host_input: Address,
    pub input_stride: u64,
    pub planes: [DecodePlane; PLANES],
    pub places: Address,
    pub row_sums: Address,
    pub edges: Address,
    pub carries: Address,
    pub edge_stride: u64,
    pub exception_counts: Address,
    pub exception_groups: Address,
    pub states: Address,
    pub output: Address,
    pub output_stride: u64,
    pub host_results: Address,
}
