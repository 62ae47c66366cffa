// What a launch works on. The same structures stand in `gpu/src/job.rs`; the build compares their sizes.
//
// A job is a batch of chunks of one layout (the filter's batches hold one). Every array has a part a chunk, all of one length, so
// that pointers are computed from the chunk's number. Arrays behind `zeroed` are 0 when a job begins.
#pragma once

#include "common.cuh"

constexpr u32 PLANES = 3;
enum PlaneNumber { CODES = 0, MASK = 1, BITS = 2 };
constexpr u32 MAX_RANK = 4;
/// Room for a stream's header with all extents.
constexpr u32 HEADER_ROOM = 64;

/// Extents and strides, fastest axis first; axes that a shape has not have extent 1.
struct Shape {
  u32 rank;
  u32 elements;
  u32 extents[MAX_RANK];
  u32 strides[MAX_RANK];
  u32 advance[MAX_RANK];  // THREADS as a number with these extents as its bases
};

/// What the user asked for. Stands before the chunk in the input, so that one copy may bring both.
struct EncodeParameters {
  double bound;
  double step;          // 2 * bound
  double inverse_step;  // 1 / step
  u64 fill_bits;
  i32 needed_bit;  // least exponent of a lattice that is wider than the step
  u32 has_fill;
  u32 big_endian;
  u32 policy;  // CodebookPolicy: 0 auto, 1 dictionary, 2 custom
  u32 header_len;
  u32 axes;  // of the codes' differences
  u32 kind;    // of the grid
  u32 coding;  // of a stream that is neither constant nor stored
  u64 fixed[2];   // what the body begins with, but for a lattice's half step, which only `inspect` finds
  u32 fixed_len;  // bytes of that and of the number of exceptions; 0 where there are none
  u32 books;      // that a plane may take besides the dictionary's
  u32 reserved[2];
  u8 header[HEADER_ROOM];  // coding, length and checksum still 0
  u8 book_lengths[MAX_BOOKS][SYMBOLS];
};

/// Counts of one plane that grow while it is coded.
struct PlaneState {
  u32 histogram[SYMBOLS];
  u32 max_lane_words;
  u32 max_extra_words;
};

struct EncodeState {
  u32 lattice_key;  // LATTICE_ZERO - exponent of the least significant 1 bit of all values; 0 if there is none
  u32 differs;      // whether two values differ
  u32 exceptions;
  u32 mask_ones[2];  // ones that the mask's differences along all axes, along the fastest axis leave
  u32 checksum;
  u32 tiles_done;
  u32 reserved;
  PlaneState planes[PLANES];
};

/// The book of a plane.
struct Book {
  u32 codes[SYMBOLS];  // code in the low 16 bits, length above
  u32 number;          // in the dictionary, or CUSTOM_BOOK
  u32 group_log;       // log2 of the segments in a block
  u8 lengths[SYMBOLS];
};

/// What a host wants to know of a compressed chunk.
struct EncodeResult {
  u64 length;
  u32 coding;
  u32 exceptions;
};

/// Tables made once a device.
struct Tables {
  u8 book_lengths[SYMBOL_FOURS][BOOKS_PADDED][4];  // code lengths of four symbols at a time, by book
  u16 decode_tables[BOOKS][DECODE_TABLE_LEN];  // length of the code, symbol << 4
  u32 crc_bytes[4][256];                       // CRC-32 of a byte followed by 0 to 3 zero bytes
  u32 crc_thread[256];                         // x^(128 (255 - t)) mod P
  u32 crc_tile_low[256];                       // x^(32768 t) mod P
  u32 crc_tile_high[CRC_TILE_ROWS];            // x^(32768 * 256 t) mod P
};

/// Working arrays of a plane; a segment or block each, [chunk][segment].
struct EncodePlane {
  u8* symbols;        // SEGMENT a segment
  u32* extra;         // extra_stride words a segment
  u32* token_counts;  // a segment
  u32* extra_bits;    // a segment
  u16* lane_words;    // LANE_SLOT a segment; bit planes stand in `extra`
  u32* lane_sizes;    // a block, words
  u32* block_sizes;   // a block, lane and extra words
  u32* groups;        // zeroed: sums of block_sizes
  Book* book;
  u64 extra_stride;
};

struct EncodeJob {
  Shape shape;
  u32 chunks;
  u32 segments;  // of a chunk
  u32 groups;    // of a chunk: ceil(segments / GROUP)
  u32 most_listed;  // exceptions that stand in a list; more have planes
  u32 bit_planes;   // in place of tokens and lanes
  u32 inspected;  // the host has seen that the chunks are neither constant nor on a lattice
  u32 interpolated;
  u32 reserved;
  const Tables* tables;
  EncodeParameters* parameters;
  const EncodeParameters* host_parameters;  // pinned: where they come from, unless null
  const u8* input;  // [chunk][input_stride]
  u64 input_stride;
  void* codes;           // [chunk][elements]; residuals in the order of the classes where the chunk is interpolated
  i32* places;           // [chunk][elements], of an interpolated chunk: those from which others are predicted
  void* exception_bits;  // [chunk][elements], as wide as codes
  u32* exception_list;   // [chunk][most_listed]: where few exceptions are, ascending
  u32* mask;             // [chunk][segment][MASK_WORDS], a bit a value; zeroed where the chunk is interpolated
  u32* first_valid;      // [chunk][segment]: index of the first value that is no exception, or NONE
  u32* last_valid;
  u32* exception_counts;  // [chunk][segment]
  u32* exception_groups;  // zeroed
  EncodeState* states;    // zeroed, [chunk]
  EncodePlane planes[PLANES];
  u8* output;  // [chunk][output_stride]
  u64 output_stride;
  u8* host_output;  // pinned, or null: where the stream goes as well
  EncodeResult* results;
  EncodeResult* host_results;  // pinned, or null
};

/// What the host has read of a stream. Stands before the stream in the input.
struct DecodeParameters {
  double step;
  u64 stream_len;
  u32 body;  // where the first plane begins, behind the list of exceptions
  u32 exceptions;
  u32 checksum;
  u32 big_endian;
  u64 extra;  // a bound of steps, or the offset of a logarithm
  u32 kind;
  u32 reserved;
};

/// Why a stream is refused; the CPU's decoder then finds the words.
enum DecodeError { DECODE_OK = 0, DECODE_REFUSED = 1 };

struct DecodePlaneState {
  u32 blocks;
  u32 block_log;
  u32 axes;
  u32 elements;
  u32 are_bit_planes;
};

struct DecodeState {
  u32 error;
  u32 checksum;
  u32 tiles_done;
  u32 exceptions_found;
  DecodePlaneState planes[PLANES];
};

/// How the lanes of a block end: after so many steps all words are read and all bits that are left are 0; and the lanes that had others before the last one. NONE
/// steps: never.
struct LanesEnd {
  u32 steps;
  u32 lanes_before;
};

struct DecodePlane {
  void* values;       // [chunk][stride]
  u64 stride;         // integers of a chunk, rounded up to a multiple of 16
  u32* lane_starts;   // [chunk][segment]: where a block's words begin, in 16-bit words from the stream's start
  u32* lane_sizes;    // words
  u32* extra_sizes;   // words
  u8* symbols;        // [chunk][segment]: SEGMENT a segment
  LanesEnd* lane_ends;
  u16* custom_table;  // [chunk][DECODE_TABLE_LEN]
  const u16** table;  // [chunk]
};

struct DecodeJob {
  Shape shape;
  u32 chunks;
  u32 segments;
  u32 groups;
  u32 most_listed;
  u32 rows_in_blocks;     // blocks of codes hold whole rows, which are summed at once
  u32 columns_in_blocks;  // the columns of those rows, too
  u32 interpolated;
  u32 reserved;
  const Tables* tables;
  u8* input;  // [chunk][input_stride]: DecodeParameters, then the stream
  const u8* host_input;  // pinned: where they come from, unless null
  u64 input_stride;
  DecodePlane planes[PLANES];
  i32* places;            // [chunk][elements], of an interpolated chunk: those from which others are predicted
  u64* row_sums;          // [chunk][plane][row tiles]: sums of the tiles of long rows
  void* edges;            // [chunk][edge_stride]: of each block of codes its last row, columns summed within the block
  void* carries;          // what the blocks before a block add to its first rows, likewise
  u64 edge_stride;
  u32* exception_counts;  // [chunk][segment]
  u32* exception_groups;  // zeroed
  DecodeState* states;    // zeroed, [chunk]
  u8* output;             // [chunk][output_stride]; the codes' place where values are as long as they and not interpolated
  u64 output_stride;
  DecodeState* host_results;  // pinned, or null
};

static_assert(sizeof(EncodeParameters) == ENCODE_PARAMETERS_SIZE, "EncodeParameters differs from gpu/src/job.rs");
static_assert(sizeof(EncodeState) == ENCODE_STATE_SIZE, "EncodeState differs from gpu/src/job.rs");
static_assert(sizeof(Book) == BOOK_SIZE, "Book differs from gpu/src/job.rs");
static_assert(sizeof(EncodeResult) == ENCODE_RESULT_SIZE, "EncodeResult differs from gpu/src/job.rs");
static_assert(sizeof(Tables) == TABLES_SIZE, "Tables differs from gpu/src/job.rs");
static_assert(sizeof(EncodeJob) == ENCODE_JOB_SIZE, "EncodeJob differs from gpu/src/job.rs");
static_assert(sizeof(DecodeParameters) == DECODE_PARAMETERS_SIZE, "DecodeParameters differs from gpu/src/job.rs");
static_assert(sizeof(DecodeState) == DECODE_STATE_SIZE, "DecodeState differs from gpu/src/job.rs");
static_assert(sizeof(DecodeJob) == DECODE_JOB_SIZE, "DecodeJob differs from gpu/src/job.rs");

/// Integers of a plane: without exceptions, or where they are listed, there are the codes alone.
template <typename Job>
__device__ __forceinline__ u32 plane_elements(const Job& job, u32 exceptions, u32 plane) {
  return plane == CODES ? job.shape.elements : exceptions <= job.most_listed ? 0 : plane == MASK ? job.shape.elements : exceptions;
}

/// Whether all values of the chunk are equal. `inspect` comes first.
__device__ __forceinline__ bool is_constant(const EncodeJob& job, const EncodeState& state) { return !job.inspected && !state.differs; }

/// Integers of block `index` of a plane.
__device__ __forceinline__ u32 block_length(const DecodePlaneState& plane, u32 index) {
  return min(plane.elements - (index << plane.block_log), 1u << plane.block_log);
}

__device__ __forceinline__ u32 plane_blocks(u32 elements, u32 group_log) {
  return ceil_div(ceil_div(elements, SEGMENT), 1u << group_log);
}
