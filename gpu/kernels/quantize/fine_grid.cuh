// Stage 1 for interpolation (FORMAT.md §5.2): the fine grid, on which interpolation quantizes and restores values. CPU: codec/src/quantize/fine_grid.rs,
// codec/src/quantize/positions.rs.
//
// All arithmetic is f64, each operation rounded by itself: the build compiles with --fmad=false.
#pragma once

#include "../job.cuh"

/// An integer as f64. The GPU has few units for such conversions, and many for sums.
__device__ __forceinline__ double to_double(i32 number) {
  // The bits of 2^52 with an integer from 0 to 2^32 - 1 in the lowest ones are their sum.
  constexpr u64 TWO_POW_52 = 0x433ull << 52;
  return __longlong_as_double(i64(TWO_POW_52 | (u32(number) ^ 1u << 31))) - double((1ull << 52) + (1ull << 31));
}

/// Distance of neighbouring positions of binary32's fine grid, less 1: 0, 1, 3 or 7 by the magnitude of `position`.
__device__ __forceinline__ u32 low_bits_at(i32 position) {
  const u32 magnitude = position < 0 ? 0u - u32(position) : u32(position);
  return u32(magnitude >= SPACING_TWO_FROM) | u32(magnitude >= SPACING_FOUR_FROM) << 1 | u32(magnitude >= SPACING_EIGHT_FROM) << 2;
}

/// A prediction of a value whose nearest position is `nearest`, moved to the grid that there is at `nearest`: to the greater of two equally near positions.
/// `grows`: whether the type's positions are farther apart far from 0.
__device__ __forceinline__ i32 aligned(i32 prediction, i32 nearest, bool grows) {
  const u32 low_bits = grows ? low_bits_at(nearest) : 0;
  return i32((u32(prediction) + ((low_bits + 1) >> 1)) & ~low_bits);
}

/// The position of the fine grid that is nearest to `position`.
template <typename V>
__device__ __forceinline__ i32 on_grid(i32 position) {
  return aligned(position, position, ValueType<V>::SPACING_GROWS);
}

/// The grid on which interpolation restores values (FORMAT.md §5.2): POSITIONS_PER_STEP positions to a step.
struct FineGrid {
  double step, inverse_step, spacing;
  double steps_limit;  // values of this many steps or more have no position; 0 where there is no fine grid

  __device__ __forceinline__ double value(i32 position) const {
    const i32 steps = i32(u32(position) + POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP_LOG;
    const i32 rest = i32(u32(position) - u32(steps) * POSITIONS_PER_STEP);
    return to_double(steps) * step + to_double(rest) * spacing;
  }
  template <typename V>
  __device__ __forceinline__ V restore(i32 position) const {
    return V(value(position));
  }
};

/// The fine grid of a step. This function does not test for a lattice, which has no fine grid: `make_grid` does, and the host interpolates on no lattice.
template <typename V>
__device__ __forceinline__ FineGrid make_fine_grid(double step, double inverse_step) {
  return {step, inverse_step, step * FINE_SPACING, step >= ValueType<V>::SMALLEST_SAFE_STEP ? ValueType<V>::STEPS_LIMIT : 0.0};
}

/// The numbers s and r of FORMAT.md §5.2, here `steps` and `rest`. `exact`: whether s steps and r spacings, rounded to the type, equal the value. If s is
/// also below the limit of steps, the value is on position 8 s + r. It is false where the fine grid has no such position.
template <typename V>
struct Nearest {
  double steps, rest;
  bool exact;

  __device__ __forceinline__ Nearest(const FineGrid& fine, V value, double steps) : steps(steps) {
    rest = ((double(value) * fine.inverse_step - steps) * SPACINGS_PER_STEP + ROUNDING) - ROUNDING;
    exact = V(steps * fine.step + rest * fine.spacing) == value;
    if constexpr (ValueType<V>::SPACING_GROWS) exact = exact && (u32(position()) & low_bits_at(position())) == 0;
  }
  /// Position 8 s + r.
  __device__ __forceinline__ i32 position() const {
    return __double2loint(steps + ROUNDING) * i32(POSITIONS_PER_STEP) + __double2loint(rest + ROUNDING);
  }
};

/// Whether a residual of interpolation is an escape.
__device__ __forceinline__ bool is_escape(i32 residual) { return (residual < 0 ? 0u - u32(residual) : u32(residual)) >= ESCAPE_FROM; }

/// What a residual of 1 is worth on a level of a chunk (FORMAT.md §6.2).
struct Worth {
  u32 positions;
  double per_step;  // residuals per step

  __device__ __forceinline__ explicit Worth(u32 positions) : positions(positions), per_step(double(POSITIONS_PER_STEP) / double(positions)) {}
  /// On a level, by the predictor's byte.
  __device__ __forceinline__ Worth(u32 predictor, u32 level)
      : Worth(u32(POSITIONS_OF_LEVELS >> 4 * (4 * ((predictor & ~INTERPOLATION) / LEVEL_STEPS) + min(level, 3u))) & 15) {}

  /// At a prediction: a step where not all positions are on the grid.
  template <typename V>
  __device__ __forceinline__ bool is_step_at(i32 prediction) const {
    return ValueType<V>::SPACING_GROWS && low_bits_at(prediction) != 0;
  }
  template <typename V>
  __device__ __forceinline__ u32 positions_at(i32 prediction) const {
    return is_step_at<V>(prediction) ? POSITIONS_PER_STEP : positions;
  }
  template <typename V>
  __device__ __forceinline__ double per_step_at(i32 prediction) const {
    return is_step_at<V>(prediction) ? 1.0 : per_step;
  }
};

/// The position to which a residual leads from a prediction.
template <typename V>
__device__ __forceinline__ i32 position_of(i32 prediction, i32 residual, const Worth& worth) {
  const u32 distance = is_escape(residual) ? u32(residual) - ESCAPE_BASE : u32(residual) * worth.positions_at<V>(prediction);
  return on_grid<V>(i32(u32(prediction) + distance));
}

/// Whether a position holds a value (FORMAT.md §5.2): it has fewer steps than the limit, and its value keeps the bound.
template <typename V>
__device__ __forceinline__ bool holds(const FineGrid& fine, double x, double bound, i32 position) {
  constexpr i32 POSITION_LIMIT = i32(ValueType<V>::STEPS_LIMIT) * i32(POSITIONS_PER_STEP) - i32(POSITIONS_PER_STEP) / 2;
  return position >= -POSITION_LIMIT && position < POSITION_LIMIT && fabs(x - double(fine.restore<V>(position))) <= bound;
}

/// Residual and position of a value by the rules of FORMAT.md §5.2; false for an exception, with a residual of 0 and its position. Callers test before whether
/// the value has the bits of a masked fill value, which is an exception, too.
template <typename V>
__device__ __forceinline__ bool encode_position(V value, double bound, const FineGrid& fine, const Worth& worth, i32 prediction, i32& residual,
                                                i32& position) {
  const double x = double(value), scaled = x * fine.inverse_step;
  residual = 0;
  position = on_grid<V>(prediction);
  const Nearest<V> nearest(fine, value, (scaled + ROUNDING) - ROUNDING);
  if (!(fabs(nearest.steps) < fine.steps_limit)) return false;
  const i32 nearest_position = nearest.position();
  const double distance = (x - fine.value(aligned(prediction, nearest_position, ValueType<V>::SPACING_GROWS))) * fine.inverse_step;
  const double sum = distance * worth.per_step_at<V>(prediction) + ROUNDING;
  if (fabs(sum - ROUNDING) < double(ESCAPE_FROM)) {
    const i32 found = __double2loint(sum), candidate = on_grid<V>(i32(u32(prediction) + u32(found) * worth.positions_at<V>(prediction)));
    if (holds<V>(fine, x, bound, candidate) && (!nearest.exact || candidate == nearest_position)) {
      residual = found;
      position = candidate;
      return true;
    }
  }
  const i32 escaped_to = on_grid<V>(nearest_position);
  const i32 escape = i32(u32(escaped_to) - u32(prediction) + ESCAPE_BASE);
  if (!is_escape(escape) || !holds<V>(fine, x, bound, escaped_to)) return false;
  residual = escape;
  position = escaped_to;
  return true;
}
