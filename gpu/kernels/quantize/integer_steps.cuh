// Stage 1 for whole numbers (FORMAT.md §5.4). CPU: codec/src/quantize/integer_steps.rs, which explains it.
#pragma once

#include "../job.cuh"

/// The multiple of `2 bound + 1` that is nearest to a value, as a code. `SIGNED` says how its bits are to be read.
template <typename V, bool SIGNED>
__device__ __forceinline__ typename ValueType<V>::Code nearest_multiple(typename ValueType<V>::Bits bits, u64 bound, double inverse_step) {
  typedef typename ValueType<V>::Code Code;
  if constexpr (sizeof(Code) == 4) {
    const i64 value = SIGNED ? i64(sign_extended<V>(bits)) : i64(bits);
    const i64 step = 2 * i64(bound) + 1, shifted = value + i64(bound);
    const i64 estimate = i64(floor(double(shifted) * inverse_step));
    const i64 rest = shifted - estimate * step;
    return Code(estimate + (rest >= step) - (rest < 0));
  } else {
    const __int128 value = SIGNED ? __int128(i64(bits)) : __int128(bits);
    const __int128 step = 2 * __int128(bound) + 1, shifted = value + __int128(bound);
    const __int128 quotient = shifted / step;
    return Code(quotient - (shifted % step < 0));
  }
}

/// Bits of a code's multiple, or of the type's nearest value if the type does not have the multiple.
template <typename V, bool SIGNED>
__device__ __forceinline__ u64 multiple_of(typename ValueType<V>::Code code, u64 bound) {
  if constexpr (sizeof(V) <= 4) {
    constexpr u32 digits = 8 * sizeof(V) - SIGNED;
    const i64 least = SIGNED ? -(1ll << digits) : 0, greatest = (1ll << digits) - 1;
    return u64(max(least, min(greatest, i64(code) * (2 * i64(bound) + 1))));
  } else {
    const __int128 multiple = __int128(code) * (2 * __int128(bound) + 1);
    const __int128 least = SIGNED ? -(__int128(1) << 63) : 0, greatest = SIGNED ? (__int128(1) << 63) - 1 : (__int128(1) << 64) - 1;
    return u64(multiple < least ? least : multiple > greatest ? greatest : multiple);
  }
}

/// See `Steps` in codec/src/quantize/integer_steps.rs.
template <typename V, bool SIGNED>
struct StepsCoder {
  typedef typename ValueType<V>::Code Code;
  typedef typename ValueType<V>::Bits Bits;
  u64 bound;
  double inverse_step;
  Fills fills;
  const Keep* keep;

  __device__ __forceinline__ StepsCoder(const EncodeParameters& parameters)
      : bound(parameters.fixed[0]), inverse_step(parameters.inverse_step), fills(parameters.fills), keep(&parameters.keep) {}

  __device__ __forceinline__ bool operator()(Bits bits, Code& code) const {
    code = nearest_multiple<V, SIGNED>(bits, bound, inverse_step);
    const auto approximate = [](Bits bits) { return SIGNED ? double(i64(sign_extended<V>(bits))) : double(u64(bits)); };
    const Bits restored = typename ValueType<V>::Stored(multiple_of<V, SIGNED>(code, bound));
    const double value = approximate(bits);
    return !(is_fill(fills, u64(bits), value) && restored != bits) && !is_crossed(*keep, value, approximate(restored));
  }
};
