// Plain bit strings: code behind code, the first bit as the highest one. One for each block that one thread will decode, which
// then begins at a word; or one for all symbols.
//
//     plain_sizes  a warp a tile: bits of its codes
//     scan_sizes   where each tile begins
//     plain_write  a warp a tile: the codes
//
// A word belongs to the tile that has its last bit. The bits before it in the word are codes of the tile before, which this warp codes as well;
// so no word is written twice, and none has to be cleared first.
#pragma once

#include "scan.cuh"

constexpr u32 PLAIN_THREADS = 128;
constexpr u32 PLAIN_WARPS = PLAIN_THREADS / WARP;
/// Symbols that a lane takes at a time.
constexpr u32 LANE_SYMBOLS = 4;
constexpr u32 WARP_SYMBOLS = LANE_SYMBOLS * WARP;
/// Words that their codes reach into.
constexpr u32 WINDOW_WORDS = (31 + WARP_SYMBOLS * MAX_CODE_BITS) / 32 + 2;
static_assert(LANE_SYMBOLS * MAX_CODE_BITS <= 48, "the codes of a lane fit three words anywhere");

extern "C" __global__ void __launch_bounds__(PLAIN_THREADS) plain_sizes(const __grid_constant__ DecoderJob job) {
  __shared__ u32 codes[SYMBOLS];
  for (u32 i = threadIdx.x; i < SYMBOLS; i += PLAIN_THREADS) codes[i] = job.codes[i];
  __syncthreads();
  for (u32 tile = blockIdx.x * PLAIN_WARPS + warp_id(); tile < job.tiles; tile += gridDim.x * PLAIN_WARPS) {
    const u32 first = tile * job.tile_len, end = min(first + job.tile_len, job.symbol_count);
    u32 bits = 0;
    for (u32 at = first + LANE_SYMBOLS * lane_id(); at < end; at += WARP_SYMBOLS) {
      const u32 four = *reinterpret_cast<const u32*>(job.symbols + at);
#pragma unroll
      for (u32 k = 0; k < LANE_SYMBOLS; k++) bits += at + k < end ? codes[four >> (8 * k) & 0xff] >> 16 : 0;
    }
    bits = warp_sum(bits);
    if (lane_id() == 0) job.sizes[tile] = job.is_aligned ? (bits + 31) / 32 * 32 : bits;
  }
}

/// What the codes before `first` leave in the word in which its codes begin, `bits` of it.
__device__ __forceinline__ u32 begun_word(const DecoderJob& job, const u32* codes, u32 first, u32 bits) {
  // Lane l has the code l positions before; no more than 31 of them fit.
  const u32 entry = lane_id() < first ? codes[job.symbols[first - 1 - lane_id()]] : 0;
  const u32 length = entry >> 16, behind = warp_prefix_sum(length) - length;
  const u32 end = bits - min(bits, behind);
  return __reduce_xor_sync(ALL_LANES, end > 0 ? u32(u64(entry & 0xffff) << (32 - end)) : 0);
}

template <bool GAPS>
__device__ __forceinline__ void write_plain(const DecoderJob& job) {
  __shared__ u32 codes[SYMBOLS];
  __shared__ u32 windows[PLAIN_WARPS][WINDOW_WORDS];
  for (u32 i = threadIdx.x; i < SYMBOLS; i += PLAIN_THREADS) codes[i] = job.codes[i];
  __syncthreads();
  u32* window = windows[warp_id()];
  const u32 total = job.sums[ceil_div(job.tiles, SCAN_TILE)];  // bits
  for (u32 tile = blockIdx.x * PLAIN_WARPS + warp_id(); tile < job.tiles; tile += gridDim.x * PLAIN_WARPS) {
    const u32 first = tile * job.tile_len, end = min(first + job.tile_len, job.symbol_count);
    u32 position = sum_before(job, tile);
    if (job.index && lane_id() == 0) job.index[tile] = position / 32;
    if (GAPS && tile == 0 && lane_id() == 0) job.gaps[0] = 0;
    u32 carry = position % 32 ? begun_word(job, codes, first, position % 32) : 0;
    for (u32 group = first; group < end; group += WARP_SYMBOLS) {
      const u32 at = group + LANE_SYMBOLS * lane_id();
      const u32 four = at < end ? *reinterpret_cast<const u32*>(job.symbols + at) : 0;
      u64 bits = 0;
      u32 length = 0, lengths[LANE_SYMBOLS];
#pragma unroll
      for (u32 k = 0; k < LANE_SYMBOLS; k++) {
        const u32 entry = at + k < end ? codes[four >> (8 * k) & 0xff] : 0;
        lengths[k] = entry >> 16;
        bits = bits << lengths[k] | (entry & 0xffff);
        length += lengths[k];
      }
      const u32 inclusive = warp_prefix_sum(length), written = __shfl_sync(ALL_LANES, inclusive, WARP - 1);
      const u32 first_bit = position % 32 + inclusive - length;
      for (u32 i = lane_id(); i < WINDOW_WORDS; i += WARP) window[i] = i == 0 ? carry : 0;
      __syncwarp();
      if (length > 0) {
        const u64 top = bits << (64 - length);
        const u32 shift = first_bit % 32, low = shift ? u32(top) << (32 - shift) : 0;
        atomicOr(&window[first_bit / 32], u32(top >> 32 >> shift));
        if (shift + length > 32) atomicOr(&window[first_bit / 32 + 1], u32(top >> shift));
        if (low) atomicOr(&window[first_bit / 32 + 2], low);
      }
      if (GAPS) {
        // A code that ends in another subsequence than it begins in says where that one's first code begins.
        u32 from = position + inclusive - length;
#pragma unroll
        for (u32 k = 0; k < LANE_SYMBOLS; k++) {
          const u32 to = from + lengths[k], subsequence = to >> job.subsequence_log;
          // Behind the last code nothing begins, but the last subsequence may have bits there.
          if (subsequence != from >> job.subsequence_log && subsequence << job.subsequence_log < total) {
            job.gaps[subsequence] = u8(to & ((1u << job.subsequence_log) - 1));
          }
          from = to;
        }
      }
      __syncwarp();
      const u32 full = (position % 32 + written) / 32;
      for (u32 i = lane_id(); i < full; i += WARP) job.words[position / 32 + i] = window[i];
      carry = window[full];
      position += written;
      __syncwarp();
    }
    if (position % 32 && (job.is_aligned || end == job.symbol_count) && lane_id() == 0) job.words[position / 32] = carry;
  }
}

extern "C" __global__ void __launch_bounds__(PLAIN_THREADS) plain_write(const __grid_constant__ DecoderJob job) { write_plain<false>(job); }
extern "C" __global__ void __launch_bounds__(PLAIN_THREADS) plain_write_gaps(const __grid_constant__ DecoderJob job) { write_plain<true>(job); }
