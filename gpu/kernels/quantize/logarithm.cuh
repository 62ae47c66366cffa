// Stage 1 for a point-wise relative bound (FORMAT.md §5.5). CPU: codec/src/quantize/logarithm.rs, which explains it.
//
// All arithmetic is f64, each operation rounded by itself: the file is compiled with --fmad=false.
#pragma once

#include "../job.cuh"

constexpr double LARGEST_DOUBLE = 1.7976931348623157e308;
constexpr double SMALLEST_NORMAL_DOUBLE = 2.2250738585072014e-308;
/// Bits of the square root of 1/2.
constexpr u64 SQRT_HALF = 0x3fe6a09e667f3bcdull;

/// log2 of a positive number that is not subnormal.
template <typename V>
__device__ __forceinline__ double log2_of(double value) {
  constexpr u32 terms = sizeof(V) == 8 ? WIDE_LOG_TERMS : NARROW_LOG_TERMS;
  const u64 bits = u64(__double_as_longlong(value));
  const i64 exponent = i64(bits - SQRT_HALF) >> 52;
  const double mantissa = __longlong_as_double(i64(bits - u64(exponent << 52)));
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double z = s * s;
  double sum = LOG_TERMS[terms - 1];
#pragma unroll
  for (u32 term = terms - 1; term-- > 0;) sum = sum * z + LOG_TERMS[term];
  return double(i32(exponent)) + s * sum;
}

/// 2^exponent; 0 below 2^-1022.5 and infinity from 2^1023.5 on.
template <typename V>
__device__ __forceinline__ double exp2_of(double exponent) {
  constexpr u32 terms = sizeof(V) == 8 ? WIDE_EXP_TERMS : NARROW_EXP_TERMS;
  exponent = exponent < -2000.0 ? -2000.0 : exponent > 2000.0 ? 2000.0 : exponent;
  const double whole = (exponent + ROUNDING) - ROUNDING;
  const double f = exponent - whole;
  double power = EXP_TERMS[terms - 1];
#pragma unroll
  for (u32 term = terms - 1; term-- > 0;) power = power * f + EXP_TERMS[term];
  const i32 biased = max(-1023, min(1024, i32(whole))) + 1023;
  return power * __longlong_as_double(i64(biased) << 52);
}

/// The value of a code.
template <typename V>
__device__ __forceinline__ V logarithmic_value(i64 code, i64 offset, double step) {
  const u64 magnitude = code < 0 ? 0 - u64(code) : u64(code);
  const double size = exp2_of<V>(double(i64(magnitude + u64(offset))) * step);
  return V(code == 0 ? 0.0 : code < 0 ? -size : size);
}

/// See `Logarithm` in codec/src/quantize/logarithm.rs.
template <typename V>
struct LogarithmicCoder {
  typedef typename ValueType<V>::Code Code;
  double bound, step, inverse_step;
  i64 offset;
  u64 fill;
  bool has_fill;
  const Keep* keep;

  __device__ __forceinline__ LogarithmicCoder(const EncodeParameters& parameters)
      : bound(parameters.bound),
        step(parameters.step),
        inverse_step(parameters.inverse_step),
        offset(i64(parameters.fixed[1])),
        fill(parameters.fills.bits),
        has_fill(parameters.fills.has_value),
        keep(&parameters.keep) {}

  __device__ __forceinline__ double steps(double magnitude) const {
    return ((log2_of<V>(magnitude) * inverse_step + ROUNDING) - ROUNDING) - double(offset);
  }

  /// See `keeps` in codec/src/quantize/logarithm.rs.
  __device__ __forceinline__ bool keeps(double x, double restored) const {
    if (x == 0.0 || !keeps_any(*keep)) return true;
    const double steps = log2_of<V>(fabs(x)) * inverse_step, off = fabs(steps - ((steps + ROUNDING) - ROUNDING));
    const bool is_near_tie = keep->has_order && off + TIE_MARGIN * (fabs(steps) + inverse_step) > 0.5;
    return !is_near_tie && !is_crossed(*keep, x, restored);
  }

  __device__ __forceinline__ bool operator()(typename ValueType<V>::Bits bits, Code& code) const {
    const V value = ValueType<V>::from_bits(bits);
    const double x = double(value), size = fabs(x);
    const double here = steps(size);
    const bool in_range = here >= 1.0 && here < ValueType<V>::CODE_LIMIT && size <= LARGEST_DOUBLE && size >= SMALLEST_NORMAL_DOUBLE;
    const i64 magnitude = in_range ? i64(here) : 0;
    code = Code(x < 0.0 ? -magnitude : magnitude);
    const V restored = logarithmic_value<V>(code, offset, step);
    const double again = double(restored);
    const bool is_near = fabs(x - again) <= bound * size && fabs(again) >= SMALLEST_NORMAL_DOUBLE;
    const bool holds = x == 0.0 ? bits == 0 : in_range && is_near && steps(fabs(again)) == here;
    return holds && keeps(x, again) && !(has_fill && u64(bits) == fill && ValueType<V>::to_bits(restored) != bits);
  }
};
