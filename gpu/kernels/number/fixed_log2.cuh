// Binary logarithms in integers, so that costs in bits are the CPU's. CPU: codec/src/number/fixed_log2.rs.
#pragma once

#include "../common.cuh"

/// 2^16 log2(value), rounded down: its floor, or one less.
__device__ __forceinline__ u64 log2_fixed(u64 value) {
  u32 whole = 63 - __clzll(i64(value));
  u64 mantissa = whole >= 31 ? value >> (whole - 31) : value << (31 - whole);
  u64 result = whole;
  for (u32 bit = 0; bit < LOG_FRACTION; bit++) {
    mantissa = (mantissa * mantissa) >> 31;
    result <<= 1;
    if (mantissa >> 32) {
      mantissa >>= 1;
      result |= 1;
    }
  }
  return result;
}
