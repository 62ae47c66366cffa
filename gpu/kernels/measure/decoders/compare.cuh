// Counts the symbols that are not what was encoded, where fetching all of them would take longer than everything else.
#pragma once

#include "job.cuh"

extern "C" __global__ void __launch_bounds__(COMPARE_THREADS) count_differences(const __grid_constant__ DecoderJob job) {
  const u32 quads = job.symbol_count / 16, thread = blockIdx.x * COMPARE_THREADS + threadIdx.x;
  u32 differences = 0;
  const auto compare = [&](u32 at) { differences += job.symbols[at] != job.decoded[at]; };
  for (u32 i = thread; i < quads; i += gridDim.x * COMPARE_THREADS) {
    const uint4 expected = reinterpret_cast<const uint4*>(job.symbols)[i], found = reinterpret_cast<const uint4*>(job.decoded)[i];
    const u32 any = (expected.x ^ found.x) | (expected.y ^ found.y) | (expected.z ^ found.z) | (expected.w ^ found.w);
    for (u32 k = 0; any && k < 16; k++) compare(16 * i + k);
  }
  if (thread < job.symbol_count % 16) compare(16 * quads + thread);
  if (differences) atomicAdd(&job.counters[DIFFERENCES], differences);
}
