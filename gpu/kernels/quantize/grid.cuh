// Grids other than those of an absolute bound (FORMAT.md §5.3 to §5.6). CPU: codec/src/quantize/grid.rs, codec/src/number/element.rs.
//
// One kernel in each direction serves all of these grids: their arithmetic takes little time beside reading and writing the values, and all threads
// take one branch. Decoding is a pass of its own, so that the pass for an absolute bound needs no branch.
#pragma once

#include "../number/integer.cuh"
#include "decimal.cuh"
#include "integer_steps.cuh"
#include "linear.cuh"
#include "logarithm.cuh"

/// Maps the bits of a floating-point number, sign-extended, to an integer in the order of the numbers. The map is its own inverse.
template <typename V>
__device__ __forceinline__ typename ValueType<V>::Code order_of(typename ValueType<V>::Bits bits) {
  typedef typename ValueType<V>::Code Code;
  typedef typename Unsigned<Code>::Type U;
  const Code code = sign_extended<V>(bits);
  return code < 0 ? Code(U(code) ^ (~U(0) >> (1 + 8 * (sizeof(U) - sizeof(V))))) : code;
}

/// Turns a value's bits into a code, on any grid that is not linear.
template <typename V>
struct AnyCoder {
  typedef typename ValueType<V>::Code Code;
  typedef Ends<V, false> Seen;
  const EncodeParameters* parameters;

  AnyCoder() = default;
  __device__ AnyCoder(const EncodeParameters& parameters, const EncodeState&) : parameters(&parameters) {}
  __device__ __forceinline__ bool operator()(typename ValueType<V>::Bits bits, Code& code, Seen&) const {
    switch (parameters->kind) {
      case EXACT_FLOATS: code = order_of<V>(bits); return true;
      case SIGNED_STEPS:
        if constexpr (ValueType<V>::SERVES_INTEGERS) return StepsCoder<V, true>(*parameters)(bits, code);
        break;
      case UNSIGNED_STEPS:
        if constexpr (ValueType<V>::SERVES_INTEGERS) return StepsCoder<V, false>(*parameters)(bits, code);
        break;
      case LOGARITHMIC:
        if constexpr (ValueType<V>::SERVES_FLOATS) return LogarithmicCoder<V>(*parameters)(bits, code);
        break;
      case DECIMAL:
        if constexpr (ValueType<V>::SERVES_FLOATS) return DecimalCoder<V>(*parameters)(bits, code);
        break;
    }
    code = extended<V>(bits, parameters->kind);
    return true;
  }
};

/// Writes the values of all codes to the chunk.
template <typename V>
__device__ void restore_any(const DecodeJob& job) {
  typedef typename ValueType<V>::Code Code;
  typedef typename ValueType<V>::Bits Bits;
  const DecodeState& state = job.states[blockIdx.y];
  report(job, state);
  if (state.error) return;
  const DecodeParameters& parameters = stream_parameters(job);
  const Code* codes = plane_values<Code>(job, CODES);
  for (u32 index = blockIdx.x * THREADS + threadIdx.x; index < job.shape.elements; index += gridDim.x * THREADS) {
    const Code code = codes[index];
    Bits bits = Bits(code);
    switch (parameters.kind) {
      case EXACT_FLOATS: bits = Bits(order_of<V>(Bits(code))); break;
      case SIGNED_STEPS: bits = Bits(multiple_of<V, true>(code, parameters.extra)); break;
      case UNSIGNED_STEPS: bits = Bits(multiple_of<V, false>(code, parameters.extra)); break;
      case LOGARITHMIC:
        if constexpr (ValueType<V>::SERVES_FLOATS) bits = ValueType<V>::to_bits(logarithmic_value<V>(code, i64(parameters.extra), parameters.step));
        break;
      case DECIMAL:
        if constexpr (ValueType<V>::SERVES_FLOATS) bits = ValueType<V>::to_bits(decimal_value<V>(double(code), double(parameters.extra)));
        break;
      case LINEAR:
        // Values as long as their codes have been written by the last sum.
        if constexpr (ValueType<V>::SERVES_FLOATS && sizeof(V) < sizeof(Code)) {
          bits = ValueType<V>::to_bits(restore_value<V>(double(code), parameters.step));
        }
        break;
    }
    write_bits<V>(chunk_output(job), index, parameters.big_endian != 0, bits);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) quantize_any_f32(const __grid_constant__ EncodeJob job) { make_codes<float, AnyCoder<float>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_any_f64(const __grid_constant__ EncodeJob job) { make_codes<double, AnyCoder<double>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_any_f16(const __grid_constant__ EncodeJob job) { make_codes<Binary16, AnyCoder<Binary16>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_any_bf16(const __grid_constant__ EncodeJob job) {
  make_codes<BFloat16, AnyCoder<BFloat16>>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) quantize_any_byte(const __grid_constant__ EncodeJob job) { make_codes<Byte, AnyCoder<Byte>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_any_f32(const __grid_constant__ DecodeJob job) { restore_any<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_any_f64(const __grid_constant__ DecodeJob job) { restore_any<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_any_f16(const __grid_constant__ DecodeJob job) { restore_any<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_any_bf16(const __grid_constant__ DecodeJob job) { restore_any<BFloat16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_any_byte(const __grid_constant__ DecodeJob job) { restore_any<Byte>(job); }
