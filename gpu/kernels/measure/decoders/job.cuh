// What a launch of these kernels works on. The same structure stands in `examples/decoders/job.rs`.
#pragma once

#include "../../common.cuh"

/// Classes of sequences by how many symbols they hold: at most a quarter as many as bits, a third, half, or more.
constexpr u32 CLASSES = 4;

/// Symbols that a sequence of a class holds at most.
__device__ __forceinline__ constexpr u32 class_room(u32 sequence_bits, u32 number) { return sequence_bits / (CLASSES - number); }

/// Where a symbol begins in an entry of the table. With five bits below, a shift that looks at no more of its count takes the entry as it is.
constexpr u32 LENGTH_BITS = 5;
constexpr u32 LENGTH_MASK = (1 << LENGTH_BITS) - 1;

/// Places of `counters`; the classes have one each.
enum Counter { TICKET = 0, CHANGED = 1, FIRST_CLASS_COUNT = 2, DIFFERENCES = FIRST_CLASS_COUNT + CLASSES };

struct DecoderJob {
  const u8* symbols;  // to encode
  u8* decoded;
  const u32* codes;      // by symbol: code, length << 16
  const u16* table;      // by the next MAX_CODE_BITS bits: length, symbol << LENGTH_BITS
  const u32* canonical;  // by length: the code behind the last one, 16 numbers; place less code, 16; then symbols by place
  u32* words;            // of plain bit strings: the first bit is the most significant of the first word
  u16* lane_words;
  u16* slots;               // lane words of each block before they are brought together
  const u32* block_starts;  // symbols before each block and before the end, or null where blocks hold `tile_len` each
  u32* sizes;               // what is summed up; then the sums before, within a tile of SCAN_TILE
  u32* sums;                // of these tiles; then the sums before, and the sum of all behind them
  u32* index;               // where each block begins
  u8* gaps;                 // a subsequence: bits before its first code
  u16* subsequences;        // bits before the first code, number of codes << 4
  u32* ends;                // [2][sequences]: bits of the last code that stand in the next sequence
  u32* lists;               // [CLASSES][sequences]: numbers of the sequences of each class, or null
  u32* counters;
  u32 symbol_count;
  u32 tile_len;  // symbols of a block, or of what a warp encodes; a multiple of 128
  u32 tiles;
  u32 is_aligned;  // tiles begin at multiples of 32 bits
  u32 scanned;     // how many `sizes`
  u32 total_bits;
  u32 subsequence_count;
  u32 subsequence_log;  // log2 of its bits
  u32 sequences;
  u32 sequence_threads;  // subsequences of a sequence
  u32 pass;
  u32 reserved;
};
static_assert(sizeof(DecoderJob) == 184, "DecoderJob differs from examples/decoders/job.rs");

/// The decoding table in shared memory.
union Table {
  u16 entries[DECODE_TABLE_LEN];
  uint4 quads[DECODE_TABLE_LEN / 8];

  /// All threads of the block come; a barrier has to follow.
  __device__ __forceinline__ void load(const u16* from) {
    for (u32 i = threadIdx.x; i < DECODE_TABLE_LEN / 8; i += blockDim.x) quads[i] = reinterpret_cast<const uint4*>(from)[i];
  }
};

/// Reads a plain bit string whose words `Source` gives by their number.
template <typename Source>
struct BitReader {
  Source source;
  u32 high, low;  // the word that is being read, and the one behind it
  u32 used;       // bits of `high` that are behind, below 32
  u32 next;

  __device__ __forceinline__ BitReader(Source words, u32 at) : source(words), used(at % 32), next(at / 32 + 2) {
    high = source(next - 2);
    low = source(next - 1);
  }
  __device__ __forceinline__ u32 window() const { return __funnelshift_l(low, high, used); }
  __device__ __forceinline__ void skip(u32 bits) {
    used += bits;
    if (used >= 32) {
      high = low;
      low = source(next++);
      used -= 32;
    }
  }
  /// The entry of the next code, which is passed.
  __device__ __forceinline__ u32 take(const u16* table) {
    const u32 entry = table[window() >> (32 - MAX_CODE_BITS)];
    skip(entry & LENGTH_MASK);
    return entry;
  }
};

/// Words in global memory.
struct FarSource {
  const u32* words;
  __device__ __forceinline__ u32 operator()(u32 index) const { return words[index]; }
};

/// How far codes go that begin before bit `limit`, and how many they are.
struct Reach {
  u32 end, count;
};
template <typename Source>
__device__ __forceinline__ Reach decode_to(const Source& source, const u16* table, u32 from, u32 limit) {
  BitReader<Source> reader(source, from);
  Reach reach = {from, 0};
  while (reach.end < limit) {
    reach.end += reader.take(table) & LENGTH_MASK;
    reach.count++;
  }
  return reach;
}
