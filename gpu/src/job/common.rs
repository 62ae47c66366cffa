//! What several jobs share: planes, grids, shapes and look-up tables.

use quire_codec::stages::alphabet;
use quire_codec::stages::codebook::MAX_CODE_BITS;

use crate::declare::{shared_constants, shared_structs};

shared_constants! {
    /// In `Fills`: the fill value is masked, even where its code gives it back.
    pub const IS_MASKED: u32 = 2;
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

    /// Symbols of the alphabet.
    pub const SYMBOLS: usize = alphabet::SYMBOLS;
    /// Groups of four symbols.
    pub const SYMBOL_FOURS: usize = SYMBOLS.div_ceil(4);
    /// Codebooks of the dictionary.
    pub const BOOKS: usize = 75;
    /// Codebooks of the dictionary, filled up so that rows of code lengths stay aligned.
    pub const BOOKS_PADDED: usize = 80;
    /// Entries of a decoding table.
    pub const DECODE_TABLE_LEN: usize = 1 << MAX_CODE_BITS;
    /// Entries of the table of high powers: one for each row of 256 pieces of the checksum.
    pub const CRC_PIECE_ROWS: usize = 2048;

    /// Threads of most kernels' blocks.
    pub const THREADS: u32 = 256;
    /// Consecutive slots whose counts have one sum in an array of sums.
    pub const SLOTS_PER_SUM: usize = 64;
    /// Bytes of a piece of the checksum.
    pub const CHECKSUM_PIECE: usize = 4096;

    /// Most values of the levels that one block of threads interpolates.
    pub const COARSE_VALUES: usize = 4096;
    /// Threads of a block that interpolates coarse levels.
    pub const COARSE_THREADS: u32 = 512;
    /// Blocks of threads of a pass over a fine level for each multiprocessor, which holds all of them at a time.
    pub const PASS_BLOCKS: u32 = 4;

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

    /// The coarse levels of an interpolated chunk, which one launch does.
    pub struct CoarseLevels {
        /// Number of the finest of these levels.
        pub finest: u32,
        /// Number of the coarsest level, a single value.
        pub coarsest: u32,
    }

    /// A pass over a fine level of an interpolated chunk.
    pub struct FinePass {
        /// Number of the level.
        pub level: u32,
        /// Axes, besides the fastest one, along which the rows of the pass are odd.
        pub size: u32,
    }

    /// The values of a chunk that stand for missing ones: see `Fills` of the codec.
    #[derive(Default)]
    pub struct Fills {
        /// Bits of the fill value.
        pub bits: u64,
        /// The least value that is not far.
        pub least: f64,
        /// The greatest value that is not far.
        pub greatest: f64,
        /// 1 if there is a fill value, IS_MASKED if it is masked on every grid.
        pub has_value: u32,
        /// 1 if values may be far.
        pub has_far: u32,
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
        pub crc_piece_low: [u32; 256],
        /// x^(32768 * 256 t) mod P.
        pub crc_piece_high: [u32; CRC_PIECE_ROWS],
    }
}
