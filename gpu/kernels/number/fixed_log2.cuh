// Binary logarithms in integers, so that costs in bits are the CPU's. CPU: codec/src/number/fixed_log2.rs.
#pragma once

#include "../common.cuh"

/// log2 of each value in units of 2^-16, rounded down, or one unit less; 0 for a value of 0. The squares of one value do not wait for those of another.
template <u32 N>
__device__ __forceinline__ void log2_fixed(const u32 (&values)[N], u32 (&results)[N]) {
  u32 mantissas[N];
#pragma unroll
  for (u32 i = 0; i < N; i++) {
    const u32 zeros = __clz(i32(max(values[i], 1u)));
    mantissas[i] = max(values[i], 1u) << zeros;
    results[i] = 31 - zeros;
  }
#pragma unroll 1
  for (u32 bit = 0; bit < LOG_FRACTION; bit++) {
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      const u64 square = u64(mantissas[i]) * mantissas[i];
      const u32 is_above_two = u32(square >> 63);
      mantissas[i] = is_above_two ? u32(square >> 32) : u32(square >> 31);
      results[i] = 2 * results[i] + is_above_two;
    }
  }
}
