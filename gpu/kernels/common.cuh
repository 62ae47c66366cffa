// Types, warp and block primitives, and counts with prefix sums that all stages share.
//
// Nothing that reaches a stream may depend on the order in which threads run. So sums and maxima of integers may come from atomics; offsets come from prefix
// sums alone.
#pragma once

#include "number/small_float.cuh"

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

/// Sum over all threads before this one; `total` is the sum over all. `scratch` has an entry for each warp and one more, and is free
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

/// Greatest value of all threads. `scratch` has an entry for each warp, and is free again after the next barrier.
__device__ __forceinline__ u32 block_max(u32 value, u32* scratch) {
  value = __reduce_max_sync(ALL_LANES, value);
  __syncthreads();
  if (lane_id() == 0) scratch[warp_id()] = value;
  __syncthreads();
  u32 best = 0;
  for (u32 warp = 0; warp < blockDim.x / WARP; warp++) best = max(best, scratch[warp]);
  return best;
}

/// Sum of `counts[0 .. index)` for all lanes of a warp. `sums[s]` is the sum of SLOTS_PER_SUM counts from `s * SLOTS_PER_SUM` on. A kernel that writes a count
/// also adds it to its sum, so that no pass over all counts is needed in between.
__device__ __forceinline__ u32 warp_sum_before(const u32* counts, const u32* sums, u32 index) {
  u32 whole = index / SLOTS_PER_SUM;
  u32 sum = 0;
  for (u32 s = lane_id(); s < whole; s += WARP) sum += sums[s];
  for (u32 i = whole * SLOTS_PER_SUM + lane_id(); i < index; i += WARP) sum += counts[i];
  return warp_sum(sum);
}

/// Sum of all of `count` values for all lanes of a warp.
__device__ __forceinline__ u32 warp_sum_all(const u32* values, u32 count) {
  u32 sum = 0;
  for (u32 i = lane_id(); i < count; i += WARP) sum += values[i];
  return warp_sum(sum);
}

/// An integer of 8 bits.
struct Byte {
  u8 bits;
};

/// The types that kernels are compiled for: their codes, their bits, and the order of their bytes in a chunk. SERVES_FLOATS and SERVES_INTEGERS say which
/// values a type's kernels are for: those of floating-point numbers take integers of that size, too, except bfloat16's.
template <typename V>
struct ValueType;
template <>
struct ValueType<float> {
  static constexpr bool SERVES_FLOATS = true, SERVES_INTEGERS = true;
  static constexpr double CODE_LIMIT = CODE_LIMIT_F32, SAFE_CODE_LIMIT = SAFE_CODE_LIMIT_F32;
  static constexpr double SMALLEST_SAFE_STEP = SMALLEST_SAFE_STEP_F32, STEPS_LIMIT = STEPS_LIMIT_F32;
  static constexpr bool SPACING_GROWS = SPACING_GROWS_F32 != 0.0;
  typedef i32 Code;
  typedef u32 Bits;    // in registers
  typedef u32 Stored;  // in a chunk
  static __device__ __forceinline__ u32 swap(u32 bits) { return __byte_perm(bits, 0, 0x0123); }
  static __device__ __forceinline__ float from_bits(u32 bits) { return __uint_as_float(bits); }
  static __device__ __forceinline__ u32 to_bits(float value) { return __float_as_uint(value); }
};
template <>
struct ValueType<double> {
  static constexpr bool SERVES_FLOATS = true, SERVES_INTEGERS = true;
  static constexpr double CODE_LIMIT = CODE_LIMIT_F64, SAFE_CODE_LIMIT = SAFE_CODE_LIMIT_F64;
  static constexpr double SMALLEST_SAFE_STEP = SMALLEST_SAFE_STEP_F64, STEPS_LIMIT = STEPS_LIMIT_F64;
  static constexpr bool SPACING_GROWS = SPACING_GROWS_F64 != 0.0;
  typedef i64 Code;
  typedef u64 Bits;
  typedef u64 Stored;
  static __device__ __forceinline__ u64 swap(u64 bits) {
    return u64(__byte_perm(u32(bits), 0, 0x0123)) << 32 | __byte_perm(u32(bits >> 32), 0, 0x0123);
  }
  static __device__ __forceinline__ double from_bits(u64 bits) { return __longlong_as_double(i64(bits)); }
  static __device__ __forceinline__ u64 to_bits(double value) { return u64(__double_as_longlong(value)); }
};

template <typename V>
struct SmallFloatType {
  typedef i32 Code;
  typedef u32 Bits;
  typedef u16 Stored;
  static __device__ __forceinline__ u16 swap(u16 bits) { return u16(bits << 8 | bits >> 8); }
  static __device__ __forceinline__ V from_bits(u32 bits) { return V::from_bits(u16(bits)); }
  static __device__ __forceinline__ u32 to_bits(V value) { return value.bits; }
};
template <>
struct ValueType<Binary16> : SmallFloatType<Binary16> {
  static constexpr bool SERVES_FLOATS = true, SERVES_INTEGERS = true;
  static constexpr double CODE_LIMIT = CODE_LIMIT_F16, SAFE_CODE_LIMIT = SAFE_CODE_LIMIT_F16;
  static constexpr double SMALLEST_SAFE_STEP = SMALLEST_SAFE_STEP_F16, STEPS_LIMIT = STEPS_LIMIT_F16;
  static constexpr bool SPACING_GROWS = SPACING_GROWS_F16 != 0.0;
};
template <>
struct ValueType<BFloat16> : SmallFloatType<BFloat16> {
  static constexpr bool SERVES_FLOATS = true, SERVES_INTEGERS = false;
  static constexpr double CODE_LIMIT = CODE_LIMIT_BF16, SAFE_CODE_LIMIT = SAFE_CODE_LIMIT_BF16;
  static constexpr double SMALLEST_SAFE_STEP = SMALLEST_SAFE_STEP_BF16, STEPS_LIMIT = STEPS_LIMIT_BF16;
  static constexpr bool SPACING_GROWS = SPACING_GROWS_BF16 != 0.0;
};
template <>
struct ValueType<Byte> {
  static constexpr bool SERVES_FLOATS = false, SERVES_INTEGERS = true;
  typedef i32 Code;
  typedef u32 Bits;
  typedef u8 Stored;
  static __device__ __forceinline__ u8 swap(u8 bits) { return bits; }
};

/// Bits of value `index` of a chunk, with zeros above them.
template <typename V>
__device__ __forceinline__ typename ValueType<V>::Bits read_bits(const void* chunk, u32 index, bool big_endian) {
  auto bits = static_cast<const typename ValueType<V>::Stored*>(chunk)[index];
  return big_endian ? ValueType<V>::swap(bits) : bits;
}

/// Writes a value: the low bits of `bits`.
template <typename V>
__device__ __forceinline__ void write_bits(void* chunk, u32 index, bool big_endian, typename ValueType<V>::Bits bits) {
  typedef typename ValueType<V>::Stored Stored;
  static_cast<Stored*>(chunk)[index] = big_endian ? ValueType<V>::swap(Stored(bits)) : Stored(bits);
}

/// A value's bits as a code, sign-extended.
template <typename V>
__device__ __forceinline__ typename ValueType<V>::Code sign_extended(typename ValueType<V>::Bits bits) {
  typedef typename ValueType<V>::Code Code;
  constexpr u32 above = 8 * (sizeof(Code) - sizeof(V));
  return Code(bits << above) >> above;
}

/// A value's bits as a code: zero-extended for unsigned integers, sign-extended for all others.
template <typename V>
__device__ __forceinline__ typename ValueType<V>::Code extended(typename ValueType<V>::Bits bits, u32 kind) {
  const bool is_unsigned = kind == EXACT_UNSIGNED || kind == UNSIGNED_STEPS;
  return is_unsigned ? typename ValueType<V>::Code(bits) : sign_extended<V>(bits);
}
