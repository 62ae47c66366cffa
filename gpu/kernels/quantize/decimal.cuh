// Stage 1 for the exact bits of decimals (FORMAT.md §5.6). CPU: codec/src/quantize/decimal.rs, which explains it.
//
// All arithmetic is f64, each operation rounded by itself: the file is compiled with --fmad=false.
#pragma once

#include "linear.cuh"

/// The value of a code.
template <typename V>
__device__ __forceinline__ V decimal_value(double code, double divisor) {
  return V(__ddiv_rn(code, divisor));
}

/// Codes that give the bits of their values back.
template <typename V>
struct DecimalCoder {
  double divisor;

  __device__ __forceinline__ explicit DecimalCoder(double divisor) : divisor(divisor) {}
  __device__ __forceinline__ explicit DecimalCoder(const EncodeParameters& parameters) : divisor(double(parameters.fixed[0])) {}

  __device__ __forceinline__ bool operator()(typename ValueType<V>::Bits bits, typename ValueType<V>::Code& code) const {
    const double sum = __dadd_rn(__dmul_rn(double(ValueType<V>::from_bits(bits)), divisor), ROUNDING);
    const double nearest = __dsub_rn(sum, ROUNDING);
    code = code_from_sum<V>(sum);
    return fabs(nearest) < ValueType<V>::CODE_LIMIT && ValueType<V>::to_bits(decimal_value<V>(nearest, divisor)) == bits;
  }
};
