//! Decompressing: parameters, states and working arrays.

use std::ffi::c_void;

use super::common::{PLANES, Shape, Tables};
use crate::declare::{ConstPointer, Pointer, shared_constants, shared_structs};

shared_constants! {
    /// Threads of a block that decodes lanes or bit planes.
    pub const LANE_THREADS: u32 = 128;
    /// Threads of a block that expands tokens, where a job has many segments for each multiprocessor.
    pub const EXPAND_THREADS: u32 = 128;
    /// Threads of a block that expands tokens, where a job has few segments for each multiprocessor: the job then takes as long as its longest block.
    pub const FEW_SEGMENTS_EXPAND_THREADS: u32 = 512;
    /// Entries of a plane's index that one block of threads reads.
    pub const INDEX_PART: usize = 1024;

    /// Log2 of the longest block of the stream whose rows and columns are summed in shared memory.
    pub const ROWS_BLOCK_LOG: u8 = 12;
    /// Values of a part of a row: longer rows are cut into parts.
    pub const ROW_PART: usize = 4096;
    /// Neighbouring columns that a block of threads takes where it sums along a slow axis.
    pub const COLUMNS: u32 = 32;

    /// Kind of pass over a plane: sums rows of up to `ROW_PART` values.
    pub const SHORT_ROWS: u32 = 0;
    /// Kind of pass over a plane: computes the sum of each part of longer rows.
    pub const ROW_PARTS: u32 = 1;
    /// Kind of pass over a plane: sums longer rows, by the sums of their parts.
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

    /// `DecodeState::error`: the stream is as FORMAT.md says, so far.
    pub const DECODE_OK: u32 = 0;
    /// `DecodeState::error`: the stream is refused; the CPU's decoder then finds the reason.
    pub const DECODE_REFUSED: u32 = 1;
}

shared_structs! {
    /// What the host has read of a stream. It comes right before the stream in device memory.
    #[derive(Default)]
    pub struct DecodeParameters {
        /// Width of the grid.
        pub step: f64,
        /// Value of the lower limit, rounded to the type; negative infinity if there is none.
        pub least: f64,
        /// Value of the upper limit, rounded to the type; infinity if there is none.
        pub greatest: f64,
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
        /// Kind of grid: `LINEAR` to `DECIMAL`.
        pub kind: u32,
        /// 0.
        pub reserved: u32,
    }

    /// A pass over a plane, by some of the blocks of threads of a launch.
    #[derive(Default)]
    pub struct PlanePass {
        /// `SHORT_ROWS` to `AXIS`.
        pub kind: u32,
        /// The axis.
        pub axis: u32,
        /// Blocks of threads; 0 if there is no pass.
        pub blocks: u32,
    }

    /// What a launch of `restore_planes` does.
    pub struct PlanePasses {
        /// Over the codes, by the first blocks of threads.
        pub codes: PlanePass,
        /// Over the mask, by the blocks of threads behind those.
        pub mask: PlanePass,
        /// 1 if the pass over the codes writes values. It is the last one over the codes.
        pub writes_values: u32,
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
        /// Remainders of the checksum's pieces that are done, joined.
        pub checksum: u32,
        /// Blocks of threads that have joined their pieces.
        pub pieces_done: u32,
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
        /// Sums of the parts of long rows: `[chunk][plane][part]`.
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
