// What the decoders share. `DecoderJob` and the constants are declared in `examples/decoders/job.rs`; the build writes `decoder_job.cuh` from it.
#pragma once

#include "../../common.cuh"
#include "decoder_job.cuh"

/// Symbols that a sequence of a class holds at most.
__device__ __forceinline__ constexpr u32 class_room(u32 sequence_bits, u32 number) { return sequence_bits / (CLASSES - number); }

/// The length of a code in an entry of the decoding table.
constexpr u32 LENGTH_MASK = (1 << LENGTH_BITS) - 1;

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
