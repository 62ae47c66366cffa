// Unsigned integers for sums that wrap. CPU: codec/src/number/integer.rs.
#pragma once

#include "../common.cuh"

/// The type in which prefix sums of a plane's integers are taken. It is unsigned, as sums wrap.
template <typename C>
struct Unsigned;
template <>
struct Unsigned<i32> {
  typedef u32 Type;
};
template <>
struct Unsigned<i64> {
  typedef u64 Type;
};
template <>
struct Unsigned<u8> {
  typedef u32 Type;
};

/// Four bytes of the mask, of which only the lowest bits count: their sum is modulo 2.
struct FourBits {
  u32 bytes;
  FourBits() = default;
  __device__ __forceinline__ explicit FourBits(u32 bytes) : bytes(bytes) {}
  __device__ __forceinline__ FourBits& operator+=(FourBits other) {
    bytes ^= other.bytes;
    return *this;
  }
};
template <>
struct Unsigned<u32> {
  typedef FourBits Type;
};
