// The gap array (Yamamoto et al., ICPP'20; Rivera et al., IPDPS'22): the encoder notes for each subsequence the number of bits before its
// first code, a byte each. Nobody has to guess:
//
//     count_gaps   a block a sequence: symbols of each subsequence
//     scan_totals  symbols before each sequence
//     staged.cuh   decodes again, and writes
#pragma once

#include "subsequences.cuh"

template <u32 COUNT, u32 LENGTH>
__device__ __forceinline__ void count_gaps(const DecoderJob& job) {
  __shared__ Table table;
  __shared__ SequenceWords<COUNT, LENGTH> words;
  __shared__ u32 scratch[WARP + 1];
  table.load(job.table);
  if (blockIdx.x == 0 && threadIdx.x < CLASSES) job.counters[FIRST_CLASS_COUNT + threadIdx.x] = 0;
  for (u32 sequence = blockIdx.x; sequence < job.sequences; sequence += gridDim.x) {
    const u32 subsequence = sequence * COUNT + threadIdx.x, limit = subsequence_limit(job, subsequence);
    const u32 start = limit > 0 ? job.gaps[subsequence] : 0;
    __syncthreads();
    words.load(job.words, sequence);
    __syncthreads();
    const Reach reach = decode_to(words.own(), table.entries, start, limit);
    u32 total;
    block_sum_before(reach.count, scratch, total);
    if (limit > 0) job.subsequences[subsequence] = noted(start, reach.count);
    if (threadIdx.x == 0) job.sizes[sequence] = total;
  }
}

extern "C" __global__ void __launch_bounds__(128) count_gaps_128x4(const __grid_constant__ DecoderJob job) { count_gaps<128, 4>(job); }
extern "C" __global__ void __launch_bounds__(256) count_gaps_256x4(const __grid_constant__ DecoderJob job) { count_gaps<256, 4>(job); }
extern "C" __global__ void __launch_bounds__(128) count_gaps_128x8(const __grid_constant__ DecoderJob job) { count_gaps<128, 8>(job); }
