// Stage 0 (FORMAT.md §11.3): counts over the residuals of one predictor. CPU: codec/src/predict/choice/residual_stats.rs,
// codec/src/predict/choice/tile_counts.rs.
#pragma once

#include "../job.cuh"
#include "../shared.cuh"

/// Length in bits of the largest magnitude that counts.
constexpr u32 MAX_LENGTH = 16;

/// A thread's counts over the residuals of one predictor.
struct ThreadCounts {
  u32 lengths;  // residuals of one bit, of two, three and four bits: a byte each, from the lowest
  u32 others;   // bits of all magnitudes (16 bits), residuals that are negative and not large (8), zeros (8)

  __device__ __forceinline__ void add(i32 residual) {
    const u32 magnitude = residual < 0 ? 0u - u32(residual) : u32(residual);
    const i32 highest = 31 - __clz(i32(magnitude));  // -1 for 0
    lengths += shift_left_or_0(1, 8 * u32(highest));
    others += u32(min(highest, i32(MAX_LENGTH) - 1) + 1);
    if (u32(residual) + (LARGE_MAGNITUDE - 1) < LARGE_MAGNITUDE - 1) others += 1u << 16;
    if (residual == 0) others += 1u << 24;
  }

  /// The sums over a warp of which each thread has up to FEW_A_THREAD residuals: no part of a word overflows.
  __device__ __forceinline__ ThreadCounts sum_of_few() const { return {__reduce_add_sync(ALL_LANES, lengths), __reduce_add_sync(ALL_LANES, others)}; }

  /// The counts of `residuals` residuals.
  __device__ __forceinline__ ResidualCounts counts(u32 residuals, u32 rises) const {
    return counts_of(residuals, rises, lengths & 0xff00ff, lengths >> 8 & 0xff00ff, (others >> 16 & 0xff) | others >> 24 << 16, others & 0xffff);
  }

  /// The counts over a warp, which has `residuals` residuals.
  __device__ __forceinline__ ResidualCounts sum_of_warp(u32 residuals, u32 rises) const {
    return counts_of(residuals, rises, __reduce_add_sync(ALL_LANES, lengths & 0xff00ff), __reduce_add_sync(ALL_LANES, lengths >> 8 & 0xff00ff),
                     __reduce_add_sync(ALL_LANES, (others >> 16 & 0xff) | others >> 24 << 16), __reduce_add_sync(ALL_LANES, others & 0xffff));
  }

 private:
  /// Two counts a word, 16 bits each.
  static __device__ __forceinline__ ResidualCounts counts_of(u32 residuals, u32 rises, u32 one_and_three, u32 two_and_four, u32 negative_and_zeros, u32 bits) {
    ResidualCounts counts;
    counts.zeros = negative_and_zeros >> 16;
    counts.rises = rises;
    counts.ones = one_and_three & 0xffff;
    counts.two_bits = two_and_four & 0xffff;
    counts.three_bits = one_and_three >> 16;
    counts.large = residuals - counts.zeros - counts.ones - counts.two_bits - counts.three_bits - (two_and_four >> 16);
    counts.negative = negative_and_zeros & 0xffff;
    counts.magnitude_bits = bits;
    return counts;
  }
};
/// Residuals of a thread that `ThreadCounts::sum_of_few` takes at most.
constexpr u32 FEW_A_THREAD = 7;
static_assert(FEW_A_THREAD * WARP < 256 && FEW_A_THREAD * WARP * MAX_LENGTH < 1u << 16, "a byte for each count, and 16 bits for those of the magnitudes");
static_assert(MAX_COUNTED_MAGNITUDE == 1u << (MAX_LENGTH - 1), "longer magnitudes count as this one");
static_assert(LARGE_MAGNITUDE == 16, "a magnitude that is not large has up to four bits");
static_assert((MAX_TILE_VALUES / TILE_THREADS + TILE_PASSES) * GROUP_TILES < 256, "a thread's counts fit a byte");

__device__ __forceinline__ void add_counts(ResidualCounts& to, const ResidualCounts& counts) {
  atomicAdd(&to.zeros, counts.zeros);
  atomicAdd(&to.rises, counts.rises);
  atomicAdd(&to.ones, counts.ones);
  atomicAdd(&to.two_bits, counts.two_bits);
  atomicAdd(&to.three_bits, counts.three_bits);
  atomicAdd(&to.large, counts.large);
  atomicAdd(&to.negative, counts.negative);
  atomicAdd(&to.magnitude_bits, counts.magnitude_bits);
}
