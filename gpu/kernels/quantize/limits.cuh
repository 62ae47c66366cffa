// Limits of a chunk (FORMAT.md §4, §5.1, §11.3): two positions of the fine grid. Values that are no exceptions stay between them. CPU:
// codec/src/quantize/limits.rs.
//
// All arithmetic is f64, each operation rounded by itself: the build compiles with --fmad=false.
#pragma once

#include "fine_grid.cuh"
#include "lattice.cuh"

/// The values of a stream's limits, rounded to the type; infinities where there are none.
template <typename V>
struct LimitValues {
  V least, greatest;

  __device__ __forceinline__ explicit LimitValues(const DecodeParameters& parameters) : least(V(parameters.least)), greatest(V(parameters.greatest)) {}
  /// A restored value, or the limit that it is beyond.
  __device__ __forceinline__ V limited(V value) const {
    if (value < least) value = least;
    if (value > greatest) value = greatest;
    return value;
  }
};

/// Types as long as their codes have a fine grid, and so may have limits.
template <typename V>
constexpr bool MAY_HAVE_LIMITS = sizeof(V) == sizeof(typename ValueType<V>::Code);

/// The ends of a chunk in `EncodeState::ends`: its least and its greatest value that count, which are a and b of FORMAT.md §11.3.
enum End { LEAST, GREATEST, ENDS };

/// A key of a double; keys order as numbers do. 0 is the key of a NaN.
__device__ __forceinline__ u64 key_of(double value) {
  const u64 bits = u64(__double_as_longlong(value));
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
__device__ __forceinline__ double value_of_key(u64 key) { return __longlong_as_double(i64(key >> 63 ? key & ~(1ull << 63) : ~key)); }

/// The least and the greatest value that a thread has seen. Nothing is kept where no limits are wanted.
template <typename V, bool ARE_WANTED = MAY_HAVE_LIMITS<V>>
struct Ends {
  V least = V(INFINITY), greatest = V(-INFINITY);

  /// Takes a value that is not masked, and that has few enough steps for a code.
  __device__ __forceinline__ void add(V value) {
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  /// Joins what a block of threads has seen with what others have. A whole block calls it, once.
  __device__ __forceinline__ void join(EncodeState& state) const {
    __shared__ u64 keys[ENDS][WARP];
    Ends all = *this;
#pragma unroll
    for (u32 offset = WARP / 2; offset > 0; offset /= 2) {
      const V other_least = __shfl_xor_sync(ALL_LANES, all.least, offset), other_greatest = __shfl_xor_sync(ALL_LANES, all.greatest, offset);
      if (other_least < all.least) all.least = other_least;
      if (other_greatest > all.greatest) all.greatest = other_greatest;
    }
    if (lane_id() == 0) {
      // The least value has the greatest key of all negated ones.
      keys[LEAST][warp_id()] = key_of(-double(all.least));
      keys[GREATEST][warp_id()] = key_of(double(all.greatest));
    }
    __syncthreads();
    if (threadIdx.x >= ENDS) return;
    u64 key = 0;
    for (u32 warp = 0; warp < blockDim.x / WARP; warp++) key = max(key, keys[threadIdx.x][warp]);
    // A stale read costs one superfluous update.
    u64* known = &state.ends[threadIdx.x];
    if (key > *static_cast<volatile u64*>(known)) atomicMax(known, key);
  }
};
template <typename V>
struct Ends<V, false> {
  __device__ __forceinline__ void add(V) {}
  __device__ __forceinline__ void join(EncodeState&) const {}
};

/// A limit of a chunk.
struct Limit {
  i32 position;  // one that is beyond all others if there is no limit
  bool is_found;
  bool is_left;  // the step nearest to the chunk's end is beyond it, so that values restored without interpolation may leave it
};

/// The limit at an end of a chunk's values by FORMAT.md §11.3. For a whole warp, all of whose lanes get it.
template <typename V>
__device__ __forceinline__ Limit find_limit(const EncodeParameters& parameters, const EncodeState& state, u32 end) {
  const bool is_lower = end == LEAST;
  Limit limit = {i32(is_lower ? NO_LOWER_LIMIT : NO_UPPER_LIMIT), false, false};
  if constexpr (MAY_HAVE_LIMITS<V>) {
    double step = parameters.step, inverse_step = parameters.inverse_step;
    // A lattice has no fine grid. Its step is not twice the bound.
    if (parameters.kind != LINEAR || keeps_any(parameters.keep) || take_lattice(parameters, state.lattice_key, step, inverse_step) || step != 2.0 * parameters.bound) return limit;
    const FineGrid fine = make_fine_grid<V>(step, inverse_step);
    const double known = value_of_key(state.ends[end]), x = is_lower ? -known : known;
    const Nearest<V> nearest(fine, V(x), (x * fine.inverse_step + ROUNDING) - ROUNDING);
    // Without values that count, x is not finite.
    if (!(fabs(nearest.steps) < fine.steps_limit)) return limit;
    // A lane takes a position, from the outermost inward.
    const i32 inward = is_lower ? 1 : -1, distance = i32(lane_id()) - i32(POSITIONS_PER_STEP);
    const i32 position = on_grid<V>(nearest.position() + inward * distance);
    const double value = double(fine.restore<V>(position));
    const u32 inside = __ballot_sync(ALL_LANES, distance <= i32(POSITIONS_PER_STEP) && (is_lower ? value >= x : value <= x));
    if (inside == 0) return limit;
    const i32 outermost = __shfl_sync(ALL_LANES, position, __ffs(inside) - 1);
    if (!holds<V>(fine, x, parameters.bound, outermost)) return limit;
    const i32 code = __double2loint(nearest.steps + ROUNDING) * i32(POSITIONS_PER_STEP);
    limit = {outermost, true, is_lower ? code < outermost : code > outermost};
  }
  return limit;
}

/// The lower and the upper limit in the form that a stream has them.
__device__ __forceinline__ u64 limits_of(const Limit (&limits)[ENDS]) {
  i32 lower = limits[LEAST].position, upper = limits[GREATEST].position;
  // If no position is from the least value to the greatest one, both limits are the one nearer to 0.
  if (lower > upper) lower = upper = abs(lower) < abs(upper) ? lower : upper;
  return u64(u32(upper)) << 32 | u32(lower);
}
