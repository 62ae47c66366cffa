// Stage 0 (FORMAT.md §11.3): counts over the residuals of one predictor. CPU: codec/src/predict/choice/counts.rs.
#pragma once

#include "../job.cuh"
#include "../shared.cuh"

/// A thread's counts over the residuals of one predictor.
struct ThreadCounts {
  u32 packed;  // sum of the lengths of all magnitudes (16 bits, from the lowest), residuals that are 0 (8), residuals below 0 (8)

  __device__ __forceinline__ void add(i32 residual) {
    const u32 magnitude = residual < 0 ? 0u - u32(residual) : u32(residual);
    packed += 32 - __clz(i32(magnitude));
    if (residual == 0) packed += 1u << 16;
    if (residual < 0) packed += 1u << 24;
  }

  /// The counts over a warp. `rises`: those of this thread.
  __device__ __forceinline__ ResidualCounts sum_of_warp(u32 rises) const {
    return {__reduce_add_sync(ALL_LANES, packed >> 16 & 0xff), __reduce_add_sync(ALL_LANES, rises), __reduce_add_sync(ALL_LANES, packed >> 24),
            __reduce_add_sync(ALL_LANES, packed & 0xffff)};
  }
};
static_assert((MAX_TILE_VALUES / TILE_THREADS + TILE_PASSES) * GROUP_TILES < 256, "a thread's counts fit a byte");

__device__ __forceinline__ void add_counts(ResidualCounts& to, const ResidualCounts& counts) {
  atomicAdd(&to.zeros, counts.zeros);
  atomicAdd(&to.rises, counts.rises);
  atomicAdd(&to.negative, counts.negative);
  atomicAdd(&to.lengths, counts.lengths);
}
