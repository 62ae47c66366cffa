// Stage 1 (FORMAT.md §5.1): values -> codes on an absolute bound's grid or a lattice, and back. CPU: codec/src/quantize/linear.rs.
//
// All arithmetic is f64, each operation rounded by itself: the build compiles with --fmad=false.
#pragma once

#include "fast_f32.cuh"
#include "fine_grid.cuh"
#include "lattice.cuh"
#include "limits.cuh"
#include "segments.cuh"

/// The rounding grid of a chunk, and what decides which values are exceptions on it.
struct Grid {
  double bound, step, inverse_step;
  double safe_limit;  // see safe_code_limit()
  FineGrid fine;
  FastF32 fast;
  Fills fills;  // values that are exceptions because they stand for missing ones
  const Keep* keep;
  bool is_halved;

  template <typename V>
  __device__ __forceinline__ bool has_fill(V value) const {
    return is_fill(fills, u64(ValueType<V>::to_bits(value)), double(value));
  }
};

/// Whether a value has few enough steps for a code. False for infinities and NaN.
template <typename V>
__device__ __forceinline__ bool has_few_steps(V value, double inverse_step) {
  return fabs(double(value) * inverse_step) < ValueType<V>::CODE_LIMIT;
}

/// The code in the sum of a value, in steps, and ROUNDING: the low bits of the sum's mantissa.
template <typename V>
__device__ __forceinline__ typename ValueType<V>::Code code_from_sum(double sum) {
  if constexpr (sizeof(typename ValueType<V>::Code) == 4) {
    return i32(__double2loint(sum));
  } else {
    return __double_as_longlong(sum) - __double_as_longlong(ROUNDING);
  }
}

/// The decoder's value for a code.
template <typename V>
__device__ __forceinline__ V restore_value(double code, double step) {
  return V(__dmul_rn(code, step));
}

/// Codes below this magnitude are certain to come back when their value is quantized again; see `SAFE_CODE_LIMIT` in codec/src/number/value.rs. 0 where steps
/// are so small that values may be subnormal.
template <typename V>
__device__ __forceinline__ double safe_code_limit(double step) {
  return step >= ValueType<V>::SMALLEST_SAFE_STEP ? ValueType<V>::SAFE_CODE_LIMIT : 0.0;
}

template <typename V>
constexpr bool IS_BINARY32 = false;
template <>
constexpr bool IS_BINARY32<float> = true;

/// See `code_on_halves` in codec/src/quantize/linear.rs.
template <typename V>
__device__ __forceinline__ bool quantize_on_halves(V value, const Grid& grid, typename ValueType<V>::Code& code) {
  const double x = double(value), limit = grid.keep->has_order ? ValueType<V>::CODE_LIMIT / 2.0 : ValueType<V>::CODE_LIMIT;
  const auto restored = [&](double at) { return double(restore_value<V>(at, grid.step)); };
  const auto nearest = [&](double of) { return __dsub_rn(__dadd_rn(__dmul_rn(of, grid.inverse_step), ROUNDING), ROUNDING); };
  const auto holds = [&](double at) {
    const double value_at = restored(at);
    return fabs(__dsub_rn(x, value_at)) <= grid.bound && fabs(at) < limit && nearest(value_at) == at && !is_crossed(*grid.keep, x, value_at);
  };
  const double even = __dmul_rn(2.0, __dsub_rn(__dadd_rn(__dmul_rn(__dmul_rn(x, grid.inverse_step), 0.5), ROUNDING), ROUNDING));
  double at = nearest(x);
  if (!(restored(at) == x && holds(at))) at = holds(even) ? even : x < restored(even) ? even - 1.0 : even + 1.0;
  code = code_from_sum<V>(__dadd_rn(at, ROUNDING));
  return holds(at) && !grid.has_fill(value);
}

/// See `is_exempt` in codec/src/quantize/linear.rs.
template <typename V>
__device__ __forceinline__ bool is_exempt(V value, double restored, const Grid& grid) {
  const double x = double(value);
  if (grid.keep->count == 0) return false;
  if (is_crossed(*grid.keep, x, restored)) return true;
  const double halves = __dsub_rn(__dadd_rn(__dmul_rn(2.0, __dmul_rn(x, grid.inverse_step)), ROUNDING), ROUNDING);
  const bool is_odd = __dmul_rn(2.0, __dsub_rn(__dadd_rn(__dmul_rn(0.5, halves), ROUNDING), ROUNDING)) != halves;
  return grid.step == 2.0 * grid.bound && is_odd && double(restore_value<V>(halves, grid.bound)) == x;
}

/// The code of a value; false for an exception. `KEEPS` is whether anything is kept beside the bound: the test would slow all other chunks down.
template <typename V, bool KEEPS>
__device__ __forceinline__ bool quantize_one(V value, const Grid& grid, typename ValueType<V>::Code& code) {
  if constexpr (KEEPS) {
    if (grid.is_halved) return quantize_on_halves<V>(value, grid, code);
  }
  if constexpr (IS_BINARY32<V>) {
    if (grid.fast.quantize(value, code)) {
      return !grid.has_fill(value) && !(KEEPS && is_exempt<V>(value, double(restore_value<V>(double(code), grid.step)), grid));
    }
  }
  const double sum = __dadd_rn(__dmul_rn(double(value), grid.inverse_step), ROUNDING);
  const double rounded = __dsub_rn(sum, ROUNDING);
  const V restored = restore_value<V>(rounded, grid.step);
  const double error = fabs(__dsub_rn(double(value), double(restored)));
  code = code_from_sum<V>(sum);
  bool holds = error <= grid.bound && !grid.has_fill(value) && !(KEEPS && is_exempt<V>(value, double(restored), grid));
  if (!(fabs(rounded) < grid.safe_limit)) {
    const double again = __dsub_rn(__dadd_rn(__dmul_rn(double(restored), grid.inverse_step), ROUNDING), ROUNDING);
    const double limit = KEEPS && grid.keep->has_order ? ValueType<V>::CODE_LIMIT / 2.0 : ValueType<V>::CODE_LIMIT;
    holds = holds && fabs(rounded) < limit && again == rounded;
  }
  if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
    if (fabs(rounded) < grid.fine.steps_limit) {
      // A value that interpolation has restored between two steps stays an exception, so that rewriting does not move it.
      const Nearest<V> nearest(grid.fine, value, rounded);
      holds = holds && !(nearest.exact && nearest.rest != 0.0);
    }
  }
  return holds;
}

/// The grid of a chunk.
template <typename V, bool KEEPS = false>
__device__ Grid make_grid(const EncodeParameters& parameters, u32 lattice_key) {
  Grid grid = {parameters.bound, parameters.step, parameters.inverse_step, 0.0, make_fine_grid<V>(parameters.step, parameters.inverse_step), {}, {}, &parameters.keep,
               KEEPS && parameters.keep.is_halved != 0};
  if (take_lattice(parameters, lattice_key, grid.step, grid.inverse_step)) grid.fine.steps_limit = 0.0;
  grid.is_halved = grid.is_halved && grid.step == grid.bound;
  // A step other than twice the bound is a lattice that the host has found, or the bound itself.
  if (grid.step != 2.0 * grid.bound || KEEPS) grid.fine.steps_limit = 0.0;
  grid.safe_limit = safe_code_limit<V>(grid.step);
  grid.fast.make(grid.bound, grid.step);
  if (parameters.fills.has_value) {
    V fill = ValueType<V>::from_bits(typename ValueType<V>::Bits(parameters.fills.bits));
    typename ValueType<V>::Code code;
    // Values with the fill value's bits are exceptions on this grid and on its fine grid, unless a small code gives these bits back.
    bool comes_back = quantize_one<V, KEEPS>(fill, grid, code) && fabs(double(code)) < FAR_FILL &&
                      ValueType<V>::to_bits(restore_value<V>(double(code), grid.step)) == ValueType<V>::to_bits(fill);
    grid.fills.bits = parameters.fills.bits;
    grid.fills.has_value = !comes_back || parameters.fills.has_value == IS_MASKED;
  }
  grid.fills.least = parameters.fills.least;
  grid.fills.greatest = parameters.fills.greatest;
  grid.fills.has_far = parameters.fills.has_far;
  return grid;
}

/// Codes on an absolute bound's grid, or on a lattice.
template <typename V, bool KEEPS = false>
struct LinearCoder {
  typedef Ends<V> Seen;
  Grid grid;

  LinearCoder() = default;
  __device__ LinearCoder(const EncodeParameters& parameters, const EncodeState& state) : grid(make_grid<V, KEEPS>(parameters, state.lattice_key)) {}
  __device__ __forceinline__ bool operator()(typename ValueType<V>::Bits bits, typename ValueType<V>::Code& code, Seen& seen) const {
    const V value = ValueType<V>::from_bits(bits);
    const bool has_code = quantize_one<V, KEEPS>(value, grid, code);
    // A masked value has no code.
    if (has_code || (!grid.has_fill(value) && has_few_steps(value, grid.inverse_step))) seen.add(value);
    return has_code;
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) quantize_f32(const __grid_constant__ EncodeJob job) { make_codes<float, LinearCoder<float>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_f64(const __grid_constant__ EncodeJob job) { make_codes<double, LinearCoder<double>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_f16(const __grid_constant__ EncodeJob job) { make_codes<Binary16, LinearCoder<Binary16>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_bf16(const __grid_constant__ EncodeJob job) { make_codes<BFloat16, LinearCoder<BFloat16>>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_kept_f32(const __grid_constant__ EncodeJob job) {
  make_codes<float, LinearCoder<float, true>>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) quantize_kept_f64(const __grid_constant__ EncodeJob job) {
  make_codes<double, LinearCoder<double, true>>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) quantize_kept_f16(const __grid_constant__ EncodeJob job) {
  make_codes<Binary16, LinearCoder<Binary16, true>>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) quantize_kept_bf16(const __grid_constant__ EncodeJob job) {
  make_codes<BFloat16, LinearCoder<BFloat16, true>>(job);
}
