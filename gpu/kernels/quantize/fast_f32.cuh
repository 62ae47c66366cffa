// Stage 1 in binary32 where its result is provably that of f64. CPU: codec/src/quantize/fast_f32.rs.
#pragma once

#include "fine_grid.cuh"

/// Quantizes binary32 values in binary32, and says which results are certain to be those of f64. CPU: codec/src/quantize/fast_f32.rs, which
/// bounds the errors.
struct FastF32 {
  float inverse_step;  // NaN where nothing is certain

  __device__ __forceinline__ void make(double bound, double step) {
    // On a lattice the step is not twice the bound.
    const bool is_usable = step == 2.0 * bound && step >= FAST_SMALLEST_STEP && step < 1.0 / FAST_SMALLEST_STEP;
    inverse_step = is_usable ? float(1.0 / step) : __uint_as_float(0x7fffffff);
  }

  /// The distance from a position, in spacings, below which a value of `scaled` steps may be on the position.
  static __device__ __forceinline__ float position_tolerance(float scaled) {
    return fabsf(scaled) * float(FAST_POSITION_TOLERANCE_PER_STEP) + float(FAST_POSITION_TOLERANCE);
  }

  /// True if the code is certain and keeps the bound.
  __device__ __forceinline__ bool quantize(float value, i32& code) const {
    constexpr float ROUND = float(FAST_ROUNDING);
    const float scaled = value * inverse_step, sum = scaled + ROUND;
    const float miss = scaled - (sum - ROUND), rest = miss * float(SPACINGS_PER_STEP);
    // Far from 0 positions are farther apart.
    const float apart = fabsf(scaled) < float(FAST_HALF_POSITIONS) ? 1.0f : fabsf(scaled) < 2.0f * float(FAST_HALF_POSITIONS) ? 0.5f : 0.25f;
    const float off = fabsf(rest * apart - ((rest * apart + ROUND) - ROUND));
    code = i32(__float_as_uint(sum) - __float_as_uint(ROUND));
    const bool may_be_on_position = off < position_tolerance(scaled) && fabsf(rest) > 0.5f && fabsf(scaled) < float(FAST_WHOLE_STEPS);
    return fabsf(miss) + fabsf(scaled) * float(FAST_DOUBT_SHARE) < 0.5f && !may_be_on_position;
  }

  /// Residual and position of a value on the fine grid (FORMAT.md §5.2), where they are certain.
  __device__ __forceinline__ bool encode(float value, const Worth& worth, i32 prediction, i32& residual, i32& position) const {
    constexpr float ROUND = float(FAST_ROUNDING);
    const auto code_of = [](float sum) { return i32(__float_as_uint(sum) - __float_as_uint(ROUND)); };
    const float scaled = value * inverse_step, steps = scaled + ROUND;
    const i32 predicted = i32(u32(prediction) + POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP_LOG;
    const i32 predicted_rest = i32(u32(prediction) - u32(predicted) * POSITIONS_PER_STEP);
    const float distance = scaled - float(predicted) - float(predicted_rest) * float(FINE_SPACING);
    const float per_step = float(worth.per_step), in_residuals = distance * per_step, sum = in_residuals + ROUND;
    const i32 found = code_of(sum), led_to = i32(u32(prediction) + u32(found) * worth.positions);
    const float reach = fabsf(scaled) + fabsf(distance);
    const bool is_certain = reach <= float(FAST_ALL_POSITIONS) && fabsf(in_residuals - (sum - ROUND)) + reach * (float(FAST_TIE_MARGIN_PER_STEP) * per_step) <=
                                                                     0.5f - float(FAST_TIE_MARGIN) * per_step;
    // A value that may be on a position stays there.
    const float rest = (scaled - (steps - ROUND)) * float(SPACINGS_PER_STEP), rest_sum = rest + ROUND;
    const i32 nearest = code_of(steps) * i32(POSITIONS_PER_STEP) + code_of(rest_sum);
    // Only 0 is on position 0; other values are not, however close to 0 they are.
    const bool may_be_on_another = fabsf(rest - (rest_sum - ROUND)) < position_tolerance(scaled) && nearest != led_to && (nearest != 0 || value == 0.0f);
    if (!is_certain || may_be_on_another) return false;
    residual = found;
    position = led_to;
    return true;
  }
};
