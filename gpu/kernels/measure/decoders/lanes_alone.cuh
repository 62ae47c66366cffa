// 32 interleaved lanes (FORMAT.md §9.1). The product's kernels are in `entropy/lanes.cuh`; these code blocks of any number of symbols, and take their words
// from different places.
//
//     lanes_encode  a warp a block: its words, into a slot of their own, and how many
//     scan_sizes    where each block begins
//     lanes_gather  a warp a block: the words to their offsets
//
// A warp decodes a block. What differs is where a lane finds the word that it asks for, and the table:
//
//     lanes_cache   the word through the cache, one table for the warps of a block of threads
//     lanes_ring    words are brought to shared memory some steps ahead
//     lanes_banked  as lanes_ring; codes of up to nine bits are looked up in a table that each lane has in its own bank
#pragma once

#include "scan.cuh"

constexpr u32 LANE_ENCODER_WARPS = 4;
constexpr u32 MOST_LANE_WARPS = 16;
/// Steps of the encoder whose symbols are read at a time.
constexpr u32 STEPS_AHEAD = 8;

/// Symbols of a block.
struct BlockSymbols {
  u32 first, end;
  __device__ __forceinline__ BlockSymbols(const DecoderJob& job, u32 block) {
    if (job.block_starts) {
      first = job.block_starts[block];
      end = job.block_starts[block + 1];
    } else {
      first = block * job.tile_len;
      end = min(first + job.tile_len, job.symbol_count);
    }
  }
};

/// Words of the slot that a block has before its size is known.
__device__ __forceinline__ u64 slot_words(const DecoderJob& job) { return u64(job.tile_len) * MAX_CODE_BITS / 16 + 2 * LANES; }

extern "C" __global__ void __launch_bounds__(LANE_ENCODER_WARPS * WARP) lanes_encode(const __grid_constant__ DecoderJob job) {
  __shared__ u32 codes[SYMBOLS + 1];  // the last entry is for lanes without a symbol, and has no bits
  for (u32 i = threadIdx.x; i <= SYMBOLS; i += blockDim.x) codes[i] = i < SYMBOLS ? job.codes[i] : 0;
  __syncthreads();
  const u32 warps = blockDim.x / WARP, lane = lane_id(), below = lanes_below();
  for (u32 block = blockIdx.x * warps + warp_id(); block < job.tiles; block += gridDim.x * warps) {
    const BlockSymbols range(job, block);
    u16* words = job.slots + block * slot_words(job);
    // Pending bits and their number (below 16); the offsets of the word they begin and of the lane's word after it.
    u32 pending = 0, bits = 0, word_at = lane, next_word_at = LANES + lane, next = 2 * LANES;
    u32 ahead[STEPS_AHEAD];
    const auto read = [&](u32 from) {
#pragma unroll
      for (u32 k = 0; k < STEPS_AHEAD; k++) {
        const u32 at = from + k * LANES + lane;
        ahead[k] = at < range.end ? job.symbols[at] : SYMBOLS;
      }
    };
    read(range.first);
    for (u32 at = range.first; at < range.end; at += STEPS_AHEAD * LANES) {
      u32 entries[STEPS_AHEAD];
#pragma unroll
      for (u32 k = 0; k < STEPS_AHEAD; k++) entries[k] = codes[ahead[k]];
      read(at + STEPS_AHEAD * LANES);
#pragma unroll
      for (u32 k = 0; k < STEPS_AHEAD; k++) {
        const u32 length = entries[k] >> 16;
        pending = pending << length | (entries[k] & 0xffff);
        bits += length;
        const bool full = bits >= 16;
        const u32 ballot = __ballot_sync(ALL_LANES, full);
        bits &= 15;
        if (full) {
          words[word_at] = u16(pending >> bits);
          word_at = next_word_at;
          next_word_at = next + __popc(ballot & below);
        }
        next += __popc(ballot);
      }
    }
    words[word_at] = u16(pending << (16 - bits));
    words[next_word_at] = 0;
    __syncwarp();
    // Words of 0 at the end are cut off.
    u32 used = next, nonzero = 0;
    while (nonzero == 0 && used > 0) {
      const u32 behind = used - min(used, lane);
      nonzero = __ballot_sync(ALL_LANES, behind > 0 && words[behind - 1] != 0);
      used = nonzero ? used - (__ffs(int(nonzero)) - 1) : used - min(used, WARP);
    }
    if (lane == 0) job.sizes[block] = used;
  }
}

/// The index has the sum of all sizes behind the last block's offset.
extern "C" __global__ void __launch_bounds__(LANE_ENCODER_WARPS * WARP) lanes_gather(const __grid_constant__ DecoderJob job) {
  const u32 warps = blockDim.x / WARP, all = job.sums[ceil_div(job.tiles, SCAN_TILE)];
  for (u32 block = blockIdx.x * warps + warp_id(); block < job.tiles; block += gridDim.x * warps) {
    const u32 start = sum_before(job, block), end = block + 1 < job.tiles ? sum_before(job, block + 1) : all;
    const u16* from = job.slots + block * slot_words(job);
    u16* to = job.lane_words + start;
#pragma unroll 4
    for (u32 i = lane_id(); i < end - start; i += WARP) to[i] = from[i];
    if (lane_id() == 0) {
      job.index[block] = start;
      if (block + 1 == job.tiles) job.index[job.tiles] = all;
    }
  }
}

/// A block's words where they are. Words behind the block's are 0.
struct CachedWords {
  static constexpr u32 ROOM = 1;  // of a warp in shared memory: none is needed
  const u16* words;
  u32 count;

  __device__ __forceinline__ CachedWords(const u16* from, u32 length, u16*) : words(from), count(length) {}
  __device__ __forceinline__ void advance(u32) {}
  __device__ __forceinline__ u32 operator()(u32 index) const { return index < count ? words[index] : 0; }
};

/// Words of a ring: a step takes 32 at most, and the next 32 are on their way in a register.
constexpr u32 RING_WORDS = 128;

/// The words to come in a ring in shared memory, 32 to 96 of them at the beginning of a step.
struct RingWords {
  static constexpr u32 ROOM = RING_WORDS;
  const u16* words;
  u32 count;
  u16* ring;
  u32 filled;
  u32 coming;

  __device__ __forceinline__ RingWords(const u16* from, u32 length, u16* memory) : words(from), count(length), ring(memory), filled(RING_WORDS) {
    // The block before has read its last words.
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < RING_WORDS; i += WARP) ring[i + lane_id()] = u16(far(i + lane_id()));
    coming = far(filled + lane_id());
    __syncwarp();
  }
  __device__ __forceinline__ u32 far(u32 index) const { return index < count ? words[index] : 0; }
  /// What it overwrites lies 33 words or more before `next`, where the step before did not read.
  __device__ __forceinline__ void advance(u32 next) {
    if (filled - next < RING_WORDS / 2) {
      ring[(filled + lane_id()) % RING_WORDS] = u16(coming);
      filled += WARP;
      coming = far(filled + lane_id());
      __syncwarp();
    }
  }
  __device__ __forceinline__ u32 operator()(u32 index) const { return ring[index % RING_WORDS]; }
};

/// One table for all lanes: 32 look-ups at random addresses meet in banks three to four times.
struct SharedTable {
  Table table;

  __device__ __forceinline__ void load(const u16* from) { table.load(from); }
  __device__ __forceinline__ u32 operator()(u32 buffer) const { return table.entries[buffer >> (32 - MAX_CODE_BITS)]; }
};

/// Longest code that a lane finds in its own bank.
constexpr u32 BANKED_BITS = 9;

/// A table for each lane, of which all entries lie in one bank, and the shared one for longer codes.
struct BankedTable {
  u32 pairs[1 << (BANKED_BITS - 1)][WARP];  // two entries; 0 where codes are longer
  Table table;

  __device__ __forceinline__ void load(const u16* from) {
    table.load(from);
    const auto entry = [&](u32 number) -> u32 {
      const u32 found = from[number << (MAX_CODE_BITS - BANKED_BITS)];
      return (found & LENGTH_MASK) <= BANKED_BITS ? found : 0;
    };
    for (u32 i = threadIdx.x; i < WARP << (BANKED_BITS - 1); i += blockDim.x) {
      const u32 pair = i / WARP;
      pairs[pair][i % WARP] = entry(2 * pair) | entry(2 * pair + 1) << 16;
    }
  }
  __device__ __forceinline__ u32 operator()(u32 buffer) const {
    const u32 number = buffer >> (32 - BANKED_BITS);
    const u32 found = reinterpret_cast<const u16*>(&pairs[number / 2][lane_id()])[number % 2];
    return found ? found : table.entries[buffer >> (32 - MAX_CODE_BITS)];
  }
};

template <typename Words, typename Entries>
__device__ __forceinline__ void decode_alone(const DecoderJob& job) {
  __shared__ Entries entries;
  __shared__ u16 room[MOST_LANE_WARPS][Words::ROOM];
  entries.load(job.table);
  __syncthreads();
  const u32 warps = blockDim.x / WARP, lane = lane_id(), below = lanes_below();
  for (u32 block = blockIdx.x * warps + warp_id(); block < job.tiles; block += gridDim.x * warps) {
    const BlockSymbols range(job, block);
    const u32 start = job.index[block];
    Words words(job.lane_words + start, job.index[block + 1] - start, room[warp_id()]);
    // Bits to come, the next one in the highest bit, and in five bits how many of them are used up, 15 at most before a step; what
    // adds up above is not looked at.
    u32 buffer = words(lane) << 16 | words(LANES + lane), used = 0, next = 2 * LANES;
    const auto step = [&]() -> u32 {
      words.advance(next);
      const u32 entry = entries(buffer);
      buffer = __funnelshift_l(0, buffer, entry);
      used += entry;
      const bool asks = used & 16;
      const u32 ballot = __ballot_sync(ALL_LANES, asks);
      used &= ~16u;
      const u32 word = words(next + __popc(ballot & below));
      buffer |= asks ? __funnelshift_l(0, word, used) : 0;
      next += __popc(ballot);
      return entry >> LENGTH_BITS;
    };
    u8* out = job.decoded + range.first + lane;
    u32 left = range.end - range.first;
#pragma unroll 4
    for (; left >= LANES; left -= LANES) {
      *out = u8(step());
      out += LANES;
    }
    if (left > 0) {
      const u32 symbol = step();
      if (lane < left) *out = u8(symbol);
    }
  }
}

extern "C" __global__ void __launch_bounds__(MOST_LANE_WARPS * WARP) lanes_cache(const __grid_constant__ DecoderJob job) {
  decode_alone<CachedWords, SharedTable>(job);
}
extern "C" __global__ void __launch_bounds__(MOST_LANE_WARPS * WARP) lanes_ring(const __grid_constant__ DecoderJob job) {
  decode_alone<RingWords, SharedTable>(job);
}
extern "C" __global__ void __launch_bounds__(MOST_LANE_WARPS * WARP) lanes_banked(const __grid_constant__ DecoderJob job) {
  decode_alone<RingWords, BankedTable>(job);
}
