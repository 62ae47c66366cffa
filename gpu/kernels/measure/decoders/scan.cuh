// Prefix sums in one launch: a block sums up a tile, and the block that is done last sums up the tiles. What is summed are whole numbers,
// so that the order in which blocks are done does not matter.
#pragma once

#include "job.cuh"

/// Sum of the numbers before `index`, after the scan.
__device__ __forceinline__ u32 sum_before(const DecoderJob& job, u32 index) { return job.sizes[index] + job.sums[index / SCAN_TILE]; }

/// Appends a sequence to the list of its class. The order in a list is any: it says only who does what. All threads of the block come.
__device__ __forceinline__ void list_sequences(const DecoderJob& job, u32 first, const u32 (&totals)[SCAN_EACH]) {
  __shared__ u32 counts[CLASSES], begins[CLASSES];
  const u32 bits = job.sequence_threads << job.subsequence_log;
  if (threadIdx.x < CLASSES) counts[threadIdx.x] = 0;
  __syncthreads();
  u32 rank[SCAN_EACH], number[SCAN_EACH];
#pragma unroll
  for (u32 k = 0; k < SCAN_EACH; k++) {
    number[k] = CLASSES;
    if (first + k < job.scanned) {
      number[k] = 0;
      while (totals[k] > class_room(bits, number[k])) number[k]++;
    }
    // A warp counts together: thousands of sequences would wait for one counter.
#pragma unroll
    for (u32 c = 0; c < CLASSES; c++) {
      const u32 alike = __ballot_sync(ALL_LANES, number[k] == c);
      u32 begin = lane_id() == 0 && alike ? atomicAdd(&counts[c], u32(__popc(alike))) : 0;
      begin = __shfl_sync(ALL_LANES, begin, 0);
      if (number[k] == c) rank[k] = begin + __popc(alike & lanes_below());
    }
  }
  __syncthreads();
  if (threadIdx.x < CLASSES) begins[threadIdx.x] = atomicAdd(&job.counters[FIRST_CLASS_COUNT + threadIdx.x], counts[threadIdx.x]);
  __syncthreads();
#pragma unroll
  for (u32 k = 0; k < SCAN_EACH; k++) {
    if (number[k] < CLASSES) job.lists[number[k] * job.sequences + begins[number[k]] + rank[k]] = first + k;
  }
}

__device__ __forceinline__ void scan(const DecoderJob& job, bool lists) {
  __shared__ u32 scratch[WARP + 1];
  __shared__ bool is_last;
  const u32 first = blockIdx.x * SCAN_TILE + threadIdx.x * SCAN_EACH;
  u32 values[SCAN_EACH], sum = 0, total;
#pragma unroll
  for (u32 k = 0; k < SCAN_EACH; k++) {
    values[k] = first + k < job.scanned ? job.sizes[first + k] : 0;
    sum += values[k];
  }
  u32 before = block_sum_before(sum, scratch, total);
#pragma unroll
  for (u32 k = 0; k < SCAN_EACH; k++) {
    if (first + k < job.scanned) job.sizes[first + k] = before;
    before += values[k];
  }
  if (lists) list_sequences(job, first, values);
  if (threadIdx.x == 0) {
    job.sums[blockIdx.x] = total;
    __threadfence();
    is_last = atomicAdd(&job.counters[TICKET], 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  u32 carry = 0;
  for (u32 from = 0; from < gridDim.x; from += SCAN_THREADS) {
    const u32 at = from + threadIdx.x;
    // Other blocks have written these while this one ran.
    const u32 value = at < gridDim.x ? static_cast<volatile u32*>(job.sums)[at] : 0;
    const u32 sum_here = block_sum_before(value, scratch, total);
    if (at < gridDim.x) job.sums[at] = carry + sum_here;
    carry += total;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    job.sums[gridDim.x] = carry;
    job.counters[TICKET] = 0;
  }
}

/// Sizes of what an encoder writes.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) scan_sizes(const __grid_constant__ DecoderJob job) { scan(job, false); }

/// Codes of each sequence; the sequences are listed by class as well, if there are lists.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) scan_totals(const __grid_constant__ DecoderJob job) { scan(job, job.lists != nullptr); }
