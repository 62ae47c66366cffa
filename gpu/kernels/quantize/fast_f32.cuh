// Stage 1 in binary32 where its result is provably that of f64. CPU: codec/src/quantize/fast_f32.rs.
#pragma once

#include "../job.cuh"

/// Quantizes binary32 values in binary32, and says which results are certain to be those of f64. CPU: codec/src/quantize/fast_f32.rs, which
/// bounds the errors.
struct FastF32 {
  float inverse_step;  // NaN where nothing is certain

  __device__ __forceinline__ void make(double bound, double step) {
    // On a lattice the step is not twice the bound.
    const bool of_use = step == 2.0 * bound && step >= FAST_SMALLEST_STEP && step < 1.0 / FAST_SMALLEST_STEP;
    inverse_step = of_use ? float(1.0 / step) : __uint_as_float(0x7fffffff);
  }

  /// True if the code is certain and keeps the bound.
  __device__ __forceinline__ bool quantize(float value, i32& code) const {
    constexpr float ROUND = float(FAST_ROUNDING);
    const float scaled = value * inverse_step, sum = scaled + ROUND;
    const float miss = scaled - (sum - ROUND), rest = miss * float(SPACINGS_PER_STEP);
    const float off = fabsf(rest - ((rest + ROUND) - ROUND));
    code = i32(__float_as_uint(sum) - __float_as_uint(ROUND));
    const bool may_stand = off < float(FAST_STANDING) && fabsf(rest) > 0.5f && fabsf(scaled) < float(FAST_OUT_OF_REACH);
    return fabsf(miss) + fabsf(scaled) * float(FAST_DOUBT_SHARE) < 0.5f && !may_stand;
  }
};
