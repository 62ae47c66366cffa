// Self-synchronising subsequences (Weissenberger and Schmidt, ICPP'18; Rivera et al., IPDPS'22): no index at all.
//
// A thread decodes its subsequence from the first bit, as if a code began there. That is mostly wrong, but Huffman decoders fall into step
// after a few codes, so that the end of the last code is mostly right. It says where the next subsequence truly begins, and who began
// elsewhere decodes again, until nobody does:
//
//     sync_within  a block a sequence: until its subsequences agree
//     sync_across  a thread a sequence: from the true end of the sequence before, until that meets what is there; again until no
//                  sequence's end moves, which for real streams is at once
//     scan_totals  symbols before each sequence
//     staged.cuh   decodes again, and writes
//
// Rivera's version of the first stage, that a block stops as soon as all of its threads are in step, is the vote in the loop below.
#pragma once

#include "subsequences.cuh"

template <u32 COUNT, u32 LENGTH>
__device__ __forceinline__ void sync_within(const DecoderJob& job) {
  typedef SequenceWords<COUNT, LENGTH> Words;
  __shared__ Table table;
  __shared__ Words words;
  __shared__ u32 starts[COUNT + 1];  // where each subsequence begins, by the one before
  __shared__ u32 scratch[WARP + 1];
  table.load(job.table);
  if (blockIdx.x == 0 && threadIdx.x < CLASSES) job.counters[FIRST_CLASS_COUNT + threadIdx.x] = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) job.counters[CHANGED] = 0;
  for (u32 sequence = blockIdx.x; sequence < job.sequences; sequence += gridDim.x) {
    const u32 subsequence = sequence * COUNT + threadIdx.x, limit = subsequence_limit(job, subsequence);
    __syncthreads();
    words.load(job.words, sequence);
    if (threadIdx.x == 0) starts[0] = 0;
    __syncthreads();
    u32 start = 0;
    Reach reach = decode_to(words.own(), table.entries, start, limit);
    for (;;) {
      starts[threadIdx.x + 1] = reach.end - min(reach.end, Words::BITS);
      __syncthreads();
      const u32 told = starts[threadIdx.x];
      const bool differs = told != start && limit > 0;
      if (!__syncthreads_or(differs)) break;
      if (differs) {
        start = told;
        reach = decode_to(words.own(), table.entries, start, limit);
      }
    }
    u32 total;
    block_sum_before(reach.count, scratch, total);
    if (limit > 0) job.subsequences[subsequence] = noted(start, reach.count);
    if (threadIdx.x == 0) {
      job.sizes[sequence] = total;
      job.ends[sequence] = starts[COUNT];
    }
  }
}

/// Pass `job.pass`: reads the ends that the pass before has left, so that it does not matter which sequence comes first.
extern "C" __global__ void __launch_bounds__(128) sync_across(const __grid_constant__ DecoderJob job) {
  __shared__ Table table;
  table.load(job.table);
  __syncthreads();
  const u32 sequence = blockIdx.x * blockDim.x + threadIdx.x;
  if (sequence >= job.sequences) return;
  const u32* ends = job.ends + (job.pass % 2 ? job.sequences : 0);
  u32* new_ends = job.ends + (job.pass % 2 ? 0 : job.sequences);
  u32 end = ends[sequence];
  if (sequence > 0) {
    u32 start = ends[sequence - 1], gained = 0, subsequence = sequence * job.sequence_threads;
    const u32 behind = min(subsequence + job.sequence_threads, job.subsequence_count), bits = 1u << job.subsequence_log;
    for (; subsequence < behind; subsequence++) {
      const u32 old = job.subsequences[subsequence];
      if ((old & 15) == start) break;
      const FarSource source = {job.words + (u64(subsequence) << job.subsequence_log) / 32};
      const Reach reach = decode_to(source, table.entries, start, subsequence_limit(job, subsequence));
      job.subsequences[subsequence] = noted(start, reach.count);
      gained += reach.count - (old >> 4);
      start = reach.end - min(reach.end, bits);
    }
    if (gained) job.sizes[sequence] += gained;
    if (subsequence == behind && start != end) {
      end = start;
      atomicMax(&job.counters[CHANGED], job.pass + 1);
    }
  }
  new_ends[sequence] = end;
}

extern "C" __global__ void __launch_bounds__(128) sync_within_128x4(const __grid_constant__ DecoderJob job) { sync_within<128, 4>(job); }
extern "C" __global__ void __launch_bounds__(256) sync_within_256x4(const __grid_constant__ DecoderJob job) { sync_within<256, 4>(job); }
extern "C" __global__ void __launch_bounds__(128) sync_within_128x8(const __grid_constant__ DecoderJob job) { sync_within<128, 8>(job); }
