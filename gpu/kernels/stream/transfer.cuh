// What the first kernel of a job copies from pinned memory itself (gpu/src/session.rs). A copy by the driver would be queued between the chunk's copy
// and the kernels, and one copy engine of the device would wait for another.
#pragma once

#include "../job.cuh"

static_assert((sizeof(DatasetBooks) + sizeof(EncodeParameters)) % sizeof(u32) == 0, "whole words");

/// Makes the first `words` words of a job's memory 0.
__device__ __forceinline__ void clear(void* memory, u32 words) {
  for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < words; i += gridDim.x * THREADS) static_cast<u32*>(memory)[i] = 0;
}

/// Begins to compress: copies the dataset's codebooks and the parameters of one chunk, if they are in pinned memory.
extern "C" __global__ void __launch_bounds__(THREADS) begin(const __grid_constant__ EncodeJob job, u32 words) {
  if (job.host_parameters) {
    const u32* from = reinterpret_cast<const u32*>(job.host_parameters);
    u32* to = reinterpret_cast<u32*>(job.dataset_books);
    constexpr u32 fetched = (sizeof(DatasetBooks) + sizeof(EncodeParameters)) / sizeof(u32);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < fetched; i += gridDim.x * THREADS) to[i] = from[i];
  }
  clear(job.states, words);
}

/// Begins to decompress: copies the parameters and the stream from pinned memory. It copies whole pieces of 16 bytes, the last of which may reach beyond the
/// stream's end.
extern "C" __global__ void __launch_bounds__(THREADS) fetch(const __grid_constant__ DecodeJob job, u32 words) {
  __shared__ u64 length;
  if (threadIdx.x == 0) length = sizeof(DecodeParameters) + reinterpret_cast<const DecodeParameters*>(job.host_input)->stream_len;
  clear(job.states, words);
  __syncthreads();
  const uint4* from = reinterpret_cast<const uint4*>(job.host_input);
  uint4* to = reinterpret_cast<uint4*>(job.input);
  for (u32 i = blockIdx.x * THREADS + threadIdx.x; i * sizeof(uint4) < length; i += gridDim.x * THREADS) to[i] = from[i];
}
