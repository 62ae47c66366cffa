// Types, warp and block primitives, and counts with prefix sums that all stages share.
//
// Nothing that reaches a stream may depend on the order in which threads run: sums and maxima of integers may go through atomics,
// positions may not; they come from prefix sums.
#pragma once

#include "constants.cuh"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;
constexpr u32 NONE = 0xffffffffu;
// Most kernels have THREADS threads a block; those that work on segments take eight values each.
constexpr u32 WARPS = THREADS / WARP;
constexpr u32 VALUES_PER_THREAD = SEGMENT / THREADS;
/// Words of a segment's bit mask.
constexpr u32 MASK_WORDS = SEGMENT / 32;

__device__ __forceinline__ u32 lane_id() { return threadIdx.x % WARP; }
__device__ __forceinline__ u32 warp_id() { return threadIdx.x / WARP; }
__device__ __forceinline__ u32 lanes_below() { return (1u << lane_id()) - 1; }
__device__ __forceinline__ u32 ceil_div(u32 a, u32 b) { return (a + b - 1) / b; }
__device__ __forceinline__ u64 round_up_4(u64 bytes) { return (bytes + 3) & ~3ull; }
__device__ __forceinline__ u32 bit_length(u32 value) { return 32 - __clz(value); }

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (u32 offset = WARP / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(ALL_LANES, value, offset);
  return value;
}

/// Sum over the lanes up to and including this one.
template <typename T>
__device__ __forceinline__ T warp_prefix_sum(T value) {
#pragma unroll
  for (u32 offset = 1; offset < WARP; offset *= 2) {
    T other = __shfl_up_sync(ALL_LANES, value, offset);
    if (lane_id() >= offset) value += other;
  }
  return value;
}

/// Sum over all threads before this one; `total` is the sum over all. `scratch` has a place for each warp and one more, and is free
/// again after the next barrier.
template <typename T>
__device__ __forceinline__ T block_sum_before(T value, T* scratch, T& total) {
  const u32 warps = blockDim.x / WARP;
  T inclusive = warp_prefix_sum(value);
  if (lane_id() == WARP - 1) scratch[warp_id()] = inclusive;
  __syncthreads();
  if (warp_id() == 0) {
    T sum = lane_id() < warps ? scratch[lane_id()] : T(0);
    T before = warp_prefix_sum(sum) - sum;
    if (lane_id() < warps) scratch[lane_id()] = before;
    if (lane_id() == warps - 1) scratch[warps] = before + sum;
  }
  __syncthreads();
  total = scratch[warps];
  return scratch[warp_id()] + inclusive - value;
}

/// Greatest value of all threads. `scratch` has a place for each warp, and is free again after the next barrier.
__device__ __forceinline__ u32 block_max(u32 value, u32* scratch) {
  value = __reduce_max_sync(ALL_LANES, value);
  __syncthreads();
  if (lane_id() == 0) scratch[warp_id()] = value;
  __syncthreads();
  u32 best = 0;
  for (u32 warp = 0; warp < blockDim.x / WARP; warp++) best = max(best, scratch[warp]);
  return best;
}

/// Sum of `counts[0 .. index)` for all lanes of a warp. `groups[g]` holds the sum of the counts `g * GROUP` and on: whoever writes a
/// count adds it to its group, so that no pass over all counts is needed in between.
__device__ __forceinline__ u32 warp_sum_before(const u32* counts, const u32* groups, u32 index) {
  u32 group = index / GROUP;
  u32 sum = 0;
  for (u32 g = lane_id(); g < group; g += WARP) sum += groups[g];
  for (u32 i = group * GROUP + lane_id(); i < index; i += WARP) sum += counts[i];
  return warp_sum(sum);
}

/// Sum of all of `count` values for all lanes of a warp.
__device__ __forceinline__ u32 warp_sum_all(const u32* values, u32 count) {
  u32 sum = 0;
  for (u32 i = lane_id(); i < count; i += WARP) sum += values[i];
  return warp_sum(sum);
}

/// The value types: their integers, and how their bytes stand in a chunk.
template <typename V>
struct ValueType;
template <>
struct ValueType<float> {
  typedef i32 Code;
  typedef u32 Bits;
  static __device__ __forceinline__ u32 swap(u32 bits) { return __byte_perm(bits, 0, 0x0123); }
  static __device__ __forceinline__ float from_bits(u32 bits) { return __uint_as_float(bits); }
  static __device__ __forceinline__ u32 to_bits(float value) { return __float_as_uint(value); }
};
template <>
struct ValueType<double> {
  typedef i64 Code;
  typedef u64 Bits;
  static __device__ __forceinline__ u64 swap(u64 bits) {
    return u64(__byte_perm(u32(bits), 0, 0x0123)) << 32 | __byte_perm(u32(bits >> 32), 0, 0x0123);
  }
  static __device__ __forceinline__ double from_bits(u64 bits) { return __longlong_as_double(i64(bits)); }
  static __device__ __forceinline__ u64 to_bits(double value) { return u64(__double_as_longlong(value)); }
};

/// IEEE bits of value `index` of a chunk.
template <typename V>
__device__ __forceinline__ typename ValueType<V>::Bits read_bits(const void* chunk, u32 index, bool big_endian) {
  auto bits = static_cast<const typename ValueType<V>::Bits*>(chunk)[index];
  return big_endian ? ValueType<V>::swap(bits) : bits;
}

template <typename V>
__device__ __forceinline__ void write_bits(void* chunk, u32 index, bool big_endian, typename ValueType<V>::Bits bits) {
  static_cast<typename ValueType<V>::Bits*>(chunk)[index] = big_endian ? ValueType<V>::swap(bits) : bits;
}
