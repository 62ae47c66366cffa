// Stage 1 (FORMAT.md §5.1): the lattice that all values of a chunk are on. CPU: codec/src/quantize/lattice.rs.
#pragma once

#include "../job.cuh"

/// Exponent of a value whose key is 0. Key 0 itself means that no value has a 1 bit.
constexpr i32 LATTICE_ZERO = 4096;

/// Exponent of the least significant 1 bit; INT_MAX for 0, infinities and NaN.
__device__ __forceinline__ i32 lowest_bit(double value) {
  u64 bits = u64(__double_as_longlong(value));
  u32 biased = u32(bits >> 52) & 0x7ff;
  u64 mantissa = bits & ((1ull << 52) - 1);
  i32 exponent = -1074;
  if (biased != 0) {
    exponent = i32(biased) - 1075;
    mantissa |= 1ull << 52;
  }
  if (mantissa == 0 || biased == 0x7ff) return 0x7fffffff;
  return exponent + __ffsll(i64(mantissa)) - 1;
}

/// Replaces the bound's step by the chunk's lattice if that is wider. `inspect` has seen all of the chunk.
__device__ __forceinline__ bool take_lattice(const EncodeParameters& parameters, u32 lattice_key, double& step, double& inverse_step) {
  i32 lowest = LATTICE_ZERO - i32(lattice_key);
  if (lattice_key == 0 || lowest < parameters.needed_bit || lowest < -1000 || lowest > 1000) return false;
  step = __longlong_as_double(i64(lowest + 1023) << 52);
  inverse_step = __longlong_as_double(i64(1023 - lowest) << 52);
  return true;
}
