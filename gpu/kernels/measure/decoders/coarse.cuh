// A thread a block: cuSZ's first decoder (Tian et al., PACT'20), which Rivera et al. (IPDPS'22) take as their baseline. Neighbouring
// threads read and write far apart, and there are no more threads than blocks.
#pragma once

#include "job.cuh"

constexpr u32 COARSE_MOST_THREADS = 128;

/// Bit by bit, as cuSZ does it: a code is complete once its number is below the end of the codes of its length.
extern "C" __global__ void __launch_bounds__(COARSE_MOST_THREADS) coarse_bits(const __grid_constant__ DecoderJob job) {
  __shared__ u32 canonical[32 + SYMBOLS];
  for (u32 i = threadIdx.x; i < 32 + SYMBOLS; i += blockDim.x) canonical[i] = job.canonical[i];
  __syncthreads();
  const u32 tile = blockIdx.x * blockDim.x + threadIdx.x;
  if (tile >= job.tiles) return;
  const u32* words = job.words + job.index[tile];
  const u32 first = tile * job.tile_len, end = min(first + job.tile_len, job.symbol_count);
  u32 word = 0, left = 0;
  for (u32 at = first; at < end; at++) {
    u32 code = 0, length = 0;
    do {
      if (left == 0) {
        word = *words++;
        left = 32;
      }
      left--;
      code = code << 1 | (word >> left & 1);
      length++;
    } while (code >= canonical[length]);
    job.decoded[at] = u8(canonical[32 + canonical[16 + length] + code]);
  }
}

/// A look-up a code in a table, as all decoders below have it, and 16 symbols a store: what one thread a block can do at best.
extern "C" __global__ void __launch_bounds__(COARSE_MOST_THREADS) coarse_table(const __grid_constant__ DecoderJob job) {
  __shared__ Table table;
  table.load(job.table);
  __syncthreads();
  const u32 tile = blockIdx.x * blockDim.x + threadIdx.x;
  if (tile >= job.tiles) return;
  const u32 first = tile * job.tile_len, end = min(first + job.tile_len, job.symbol_count);
  BitReader<FarSource> reader(FarSource{job.words + job.index[tile]}, 0);
  u32 at = first;
  const auto four = [&] {
    u32 symbols = 0;
#pragma unroll
    for (u32 k = 0; k < 4; k++) symbols |= reader.take(table.entries) >> LENGTH_BITS << (8 * k);
    return symbols;
  };
  for (; at + 16 <= end; at += 16) {
    uint4 quad;
    quad.x = four();
    quad.y = four();
    quad.z = four();
    quad.w = four();
    *reinterpret_cast<uint4*>(job.decoded + at) = quad;
  }
  for (; at < end; at++) job.decoded[at] = u8(reader.take(table.entries) >> LENGTH_BITS);
}
