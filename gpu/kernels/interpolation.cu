// Stage 2' (FORMAT.md §6.2): values -> steps along an interpolation from coarse to fine, and back. CPU: codec/src/interpolation.rs,
// codec/src/finegrid.rs.
//
// A value is predicted from values of its own level that are new along fewer axes, and from coarser levels. So a level takes a pass for
// each number of axes, and all values of a pass are independent. Places stand in the order of the chunk, residuals in that of the classes:
//
//   coarse levels: one block of threads, places in shared memory      fine levels: a launch a pass, a warp along a row
//
// Encoding reads values and writes residuals; decoding reads residuals. Both go through the same places.
#pragma once

#include "checksum.cu"

/// Sets of axes, by bits.
constexpr u32 SETS = 1u << MAX_RANK;

/// Extents of a grid, fastest axis first.
struct Extents {
  u32 of[MAX_RANK];

  __device__ __forceinline__ Extents halved() const {
    Extents result;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) result.of[axis] = (of[axis] + 1) / 2;
    return result;
  }
  __device__ __forceinline__ u32 count() const { return of[0] * of[1] * of[2] * of[3]; }
};

/// Extents of the grid of every 2^level-th value.
__device__ __forceinline__ Extents grid_extents(const Shape& shape, u32 level) {
  Extents result;
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) result.of[axis] = (shape.extents[axis] + (1u << level) - 1) >> level;
  return result;
}

/// Extents of the class of a set: the values of a grid that stand between the coarser grid's along just these axes.
__device__ __forceinline__ Extents class_extents(const Extents& grid, u32 set) {
  Extents result;
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) result.of[axis] = set >> axis & 1 ? grid.of[axis] / 2 : (grid.of[axis] + 1) / 2;
  return result;
}

/// Where a class of a grid begins in the order of coding: behind the coarser grid and the classes of smaller sets, or of as large ones with
/// lower bits.
__device__ __forceinline__ u32 class_start(const Extents& grid, u32 set) {
  u32 start = grid.halved().count();
  for (u32 other = 1; other < SETS; other++) {
    const u32 larger = __popc(set), size = __popc(other);
    if (size < larger || (size == larger && other < set)) start += class_extents(grid, other).count();
  }
  return start;
}

/// floor((sum + 8 axes) / (16 axes)): the mean of as many predictions in sixteenths, rounded half up.
__device__ __forceinline__ i32 mean_of(i32 sum, u32 axes) {
  switch (axes) {
    case 1: return i32(u32(sum) + 8) >> 4;
    case 2: return i32(u32(sum) + 16) >> 5;
    case 3: {
      const i32 dividend = i32(u32(sum) + 24), quotient = dividend / 48;
      return quotient - (dividend % 48 < 0);
    }
    default: return i32(u32(sum) + 32) >> 6;
  }
}

/// Prediction of the value at `at` on a grid, new along the axes of `set`; `stride` and `index` say where places stand.
template <typename Places>
__device__ __forceinline__ i32 predict(const Places& places, const Extents& grid, const u32 (&stride)[MAX_RANK], const u32 (&at)[MAX_RANK], u32 index,
                                       u32 set) {
  // Sums wrap as the CPU's do.
  u32 between = 0, all = 0, between_axes = 0, all_axes = 0;
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) {
    if (!(set >> axis & 1)) continue;
    const u32 step = stride[axis];
    const bool before = at[axis] >= 3, next = at[axis] + 1 < grid.of[axis], after = at[axis] + 3 < grid.of[axis];
    const u32 b = u32(places(index - step));
    const u32 a = before ? u32(places(index - 3 * step)) : 0, c = next ? u32(places(index + step)) : 0, d = after ? u32(places(index + 3 * step)) : 0;
    u32 sum;
    if (next) {
      sum = after ? (before ? 9 * (b + c) - (a + d) : 6 * b + 12 * c - 2 * d) : before ? 12 * b + 6 * c - 2 * a : 8 * (b + c);
      between += sum;
      between_axes++;
    } else {
      sum = before ? 24 * b - 8 * a : 16 * b;
    }
    all += sum;
    all_axes++;
  }
  return between_axes ? mean_of(i32(between), between_axes) : mean_of(i32(all), all_axes);
}

/// The place that a residual leads to.
__device__ __forceinline__ i32 restore_place(i32 prediction, i32 residual) {
  const u32 magnitude = residual < 0 ? 0u - u32(residual) : u32(residual);
  return i32(u32(prediction) + (magnitude < ESCAPE_FROM ? u32(residual) * PLACES : u32(residual) - ESCAPE_BASE));
}

/// Residual of a value, and its place; false for an exception, whose place is its prediction.
template <typename V>
__device__ __forceinline__ bool encode_place(V value, const EncodeParameters& parameters, const FineGrid& fine, i32 prediction, i32& residual, i32& place) {
  const double x = double(value), scaled = x * fine.inverse_step;
  residual = 0;
  place = prediction;
  if (!(fabs(scaled) < fine.limit)) return false;
  const Nearest<V> nearest(fine, value, (scaled + ROUNDING) - ROUNDING);
  if (!(fabs(nearest.steps) < fine.limit)) return false;
  const i32 nearest_place = i32(nearest.steps * double(PLACES) + nearest.rest);
  const i32 limit = i32(fine.limit) * i32(PLACES) - i32(PLACES) / 2;
  const auto holds = [&](i32 candidate) {
    return candidate >= -limit && candidate < limit && fabs(x - double(fine.restore<V>(candidate))) <= parameters.bound;
  };
  const double steps = ((x - fine.value(prediction)) * fine.inverse_step + ROUNDING) - ROUNDING;
  if (fabs(steps) < double(ESCAPE_FROM)) {
    const i32 candidate = i32(u32(prediction) + u32(i32(steps)) * PLACES);
    if (holds(candidate) && (!nearest.exact || candidate == nearest_place)) {
      residual = i32(steps);
      place = candidate;
      return true;
    }
  }
  const i32 distance = i32(u32(nearest_place) - u32(prediction));
  if (distance < -i32(ESCAPE_REACH) || distance >= i32(ESCAPE_REACH) || !holds(nearest_place)) return false;
  residual = distance + i32(ESCAPE_BASE);
  place = nearest_place;
  return true;
}

/// What encoding needs of a chunk.
template <typename V>
struct EncodeSide {
  typedef typename ValueType<V>::Code Code;
  const EncodeJob& job;
  const EncodeParameters& parameters;
  const u8* chunk;
  Code* residuals;
  i32* places;
  FineGrid fine;
  bool has_fill;

  __device__ __forceinline__ explicit EncodeSide(const EncodeJob& job)
      : job(job),
        parameters(*job.parameters),
        chunk(job.input + blockIdx.y * job.input_stride),
        residuals(static_cast<Code*>(job.codes) + u64(blockIdx.y) * job.shape.elements),
        places(job.places + u64(blockIdx.y) * job.shape.elements),
        fine(make_fine_grid<V>(parameters.step, parameters.inverse_step)) {
    // The fill value is coded where the bound's own grid gives it back bit for bit.
    has_fill = make_grid<V>(parameters, 0).has_fill;
  }

  __device__ __forceinline__ bool nothing_to_do() const { return is_constant(job, job.states[blockIdx.y]); }
  __device__ __forceinline__ V value(u32 index) const { return ValueType<V>::from_bits(read_bits<V>(chunk, index, parameters.big_endian)); }

  /// Codes the value at `index` and returns its place.
  __device__ __forceinline__ i32 take(V value, u32 index, u32 coded, i32 prediction) const {
    i32 residual = 0, place = prediction;
    const bool filled = has_fill && u64(ValueType<V>::to_bits(value)) == parameters.fill_bits;
    if (filled || !encode_place(value, parameters, fine, prediction, residual, place)) {
      // The mask is 0 where a job begins. Its bits may be set in any order.
      atomicOr(&job.mask[(u64(blockIdx.y) * job.segments + index / SEGMENT) * MASK_WORDS + index % SEGMENT / 32], 1u << (index % 32));
    }
    residuals[coded] = Code(residual);
    return place;
  }
};

/// What decoding needs of a chunk.
template <typename V>
struct DecodeSide {
  typedef typename ValueType<V>::Code Code;
  const DecodeJob& job;
  const Code* residuals;
  i32* places;

  __device__ __forceinline__ explicit DecodeSide(const DecodeJob& job)
      : job(job), residuals(plane_values<Code>(job, CODES)), places(job.places + u64(blockIdx.y) * job.shape.elements) {}

  __device__ __forceinline__ bool nothing_to_do() const { return job.states[blockIdx.y].error != 0; }
  __device__ __forceinline__ V value(u32) const { return V(0); }
  __device__ __forceinline__ i32 take(V, u32, u32 coded, i32 prediction) const { return restore_place(prediction, i32(residuals[coded])); }
};

/// Quotient of numbers below 2^18, without the steps that an integer division takes.
__device__ __forceinline__ u32 small_quotient(u32 dividend, u32 divisor) { return u32(__fdividef(float(dividend) + 0.5f, float(divisor))); }

/// Index along each axis of value `number` of a grid of few values.
__device__ __forceinline__ void small_coordinates(u32 number, const Extents& extents, u32 (&at)[MAX_RANK]) {
#pragma unroll
  for (u32 axis = 0; axis + 1 < MAX_RANK; axis++) {
    const u32 rest = small_quotient(number, extents.of[axis]);
    at[axis] = number - rest * extents.of[axis];
    number = rest;
  }
  at[MAX_RANK - 1] = number;
}

/// Levels that a grid of COARSE_VALUES values can have below it.
constexpr u32 COARSE_LEVELS = 12;
static_assert(1u << COARSE_LEVELS == COARSE_VALUES && COARSE_LEVELS * SETS <= COARSE_THREADS, "a thread a level and set");

/// All levels down to `level`, the first whose grid has at most COARSE_VALUES values. One block of threads a chunk. A value waits in shared
/// memory where its place will stand.
template <typename V, typename Side>
__device__ __forceinline__ void coarse_levels(const Side& side, const Shape& shape, u32 level, u32 top) {
  typedef typename ValueType<V>::Bits Bits;
  __shared__ Bits waiting[COARSE_VALUES];
  __shared__ u32 starts[COARSE_LEVELS][SETS];
  const Extents whole = grid_extents(shape, level);
  const u32 total = whole.count();
  const auto chunk_index = [&](const u32 (&at)[MAX_RANK], u32 shift) {
    u32 index = 0;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) index += (at[axis] << shift) * shape.strides[axis];
    return index;
  };
  if (threadIdx.x < (top - level) * SETS) {
    starts[threadIdx.x / SETS][threadIdx.x % SETS] = class_start(grid_extents(shape, level + threadIdx.x / SETS), threadIdx.x % SETS);
  }
  for (u32 number = threadIdx.x; number < total; number += COARSE_THREADS) {
    u32 at[MAX_RANK];
    small_coordinates(number, whole, at);
    waiting[number] = ValueType<V>::to_bits(side.value(chunk_index(at, level)));
  }
  __syncthreads();
  if (threadIdx.x == 0) waiting[0] = Bits(u32(side.take(ValueType<V>::from_bits(waiting[0]), 0, 0, 0)));
  const auto places = [&](u32 index) { return i32(u32(waiting[index])); };
  // Strides in the coarsest grid's own room.
  u32 stride[MAX_RANK];
  stride[0] = 1;
#pragma unroll
  for (u32 axis = 1; axis < MAX_RANK; axis++) stride[axis] = stride[axis - 1] * whole.of[axis - 1];
  for (u32 depth = top; depth-- > level;) {
    const Extents grid = grid_extents(shape, depth);
    const u32 shift = depth - level;
    u32 level_stride[MAX_RANK];
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) level_stride[axis] = stride[axis] << shift;
    for (u32 size = 1; size <= shape.rank; size++) {
      __syncthreads();
      u32 before = 0;
      for (u32 set = 1; set < SETS; set++) {
        if (u32(__popc(set)) != size) continue;
        const Extents extents = class_extents(grid, set);
        const u32 count = extents.count();
        // The classes of a pass share the threads.
        for (u32 number = (threadIdx.x - before) % COARSE_THREADS; number < count; number += COARSE_THREADS) {
          u32 at[MAX_RANK], index = 0;
          small_coordinates(number, extents, at);
#pragma unroll
          for (u32 axis = 0; axis < MAX_RANK; axis++) {
            at[axis] = 2 * at[axis] + (set >> axis & 1);
            index += at[axis] * level_stride[axis];
          }
          const i32 prediction = predict(places, grid, level_stride, at, index, set);
          const V value = ValueType<V>::from_bits(waiting[index]);
          waiting[index] = Bits(u32(side.take(value, chunk_index(at, depth), starts[shift][set] + number, prediction)));
        }
        before += count;
      }
    }
  }
  __syncthreads();
  for (u32 number = threadIdx.x; number < total; number += COARSE_THREADS) {
    u32 at[MAX_RANK];
    small_coordinates(number, whole, at);
    side.places[chunk_index(at, level)] = places(number);
  }
}

/// The values of a level that are new along `size` axes. A warp takes neighbours in a row of a class.
template <typename V, typename Side>
__device__ __forceinline__ void fine_pass(const Side& side, const Shape& shape, u32 level, u32 size) {
  __shared__ u32 starts[SETS];
  const Extents grid = grid_extents(shape, level);
  if (threadIdx.x < SETS) starts[threadIdx.x] = class_start(grid, threadIdx.x);
  __syncthreads();
  u32 stride[MAX_RANK];
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) stride[axis] = shape.strides[axis] << level;
  const i32* known = side.places;
  const auto places = [&](u32 index) { return known[index]; };
  const u32 warps = gridDim.x * WARPS, warp = blockIdx.x * WARPS + warp_id();
  u32 items_before = 0;
  for (u32 set = 1; set < SETS; set++) {
    if (u32(__popc(set)) != size) continue;
    const Extents extents = class_extents(grid, set);
    if (extents.count() == 0) continue;
    const u32 pieces = ceil_div(extents.of[0], WARP), items = pieces * extents.of[1] * extents.of[2] * extents.of[3];
    // All classes' items are dealt out in turn.
    for (u32 item = (warp + warps - items_before % warps) % warps; item < items; item += warps) {
      const u32 row = item / pieces, x = item % pieces * WARP + lane_id();
      if (x >= extents.of[0]) continue;
      const u32 y = row % extents.of[1], slow = row / extents.of[1];
      const u32 z = slow % extents.of[2], w = slow / extents.of[2];
      const u32 at[MAX_RANK] = {2 * x + (set & 1), 2 * y + (set >> 1 & 1), 2 * z + (set >> 2 & 1), 2 * w + (set >> 3 & 1)};
      const u32 index = at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3];
      const V value = side.value(index);
      const i32 prediction = predict(places, grid, stride, at, index, set);
      side.places[index] = side.take(value, index, starts[set] + row * extents.of[0] + x, prediction);
    }
    items_before += items;
  }
}

template <typename V>
__device__ __forceinline__ void interpolate_coarse(const EncodeJob& job, u32 level, u32 top) {
  const EncodeSide<V> side(job);
  if (!side.nothing_to_do()) coarse_levels<V>(side, job.shape, level, top);
}
template <typename V>
__device__ __forceinline__ void interpolate_pass(const EncodeJob& job, u32 level, u32 size) {
  const EncodeSide<V> side(job);
  if (!side.nothing_to_do()) fine_pass<V>(side, job.shape, level, size);
}
template <typename V>
__device__ __forceinline__ void restore_coarse(const DecodeJob& job, u32 level, u32 top) {
  const DecodeSide<V> side(job);
  if (!side.nothing_to_do()) coarse_levels<V>(side, job.shape, level, top);
}
template <typename V>
__device__ __forceinline__ void restore_pass(const DecodeJob& job, u32 level, u32 size) {
  const DecodeSide<V> side(job);
  if (!side.nothing_to_do()) fine_pass<V>(side, job.shape, level, size);
}

/// Values of all places.
template <typename V>
__device__ __forceinline__ void restore_values(const DecodeJob& job) {
  const DecodeState& state = job.states[blockIdx.y];
  report(job, state);
  if (state.error) return;
  const auto& parameters = *reinterpret_cast<const DecodeParameters*>(job.input + blockIdx.y * job.input_stride);
  // The way back needs no inverse.
  const FineGrid fine = make_fine_grid<V>(parameters.step, 0.0);
  const i32* places = job.places + u64(blockIdx.y) * job.shape.elements;
  for (u32 index = blockIdx.x * THREADS + threadIdx.x; index < job.shape.elements; index += gridDim.x * THREADS) {
    write_bits<V>(job.output + blockIdx.y * job.output_stride, index, parameters.big_endian != 0, ValueType<V>::to_bits(fine.restore<V>(places[index])));
  }
}

/// Counts what stages before have marked in the mask.
extern "C" __global__ void __launch_bounds__(THREADS) count_marked(const __grid_constant__ EncodeJob job) {
  EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  for (u32 segment = blockIdx.x * WARPS + warp_id(); segment < job.segments; segment += gridDim.x * WARPS) {
    const u64 place = u64(blockIdx.y) * job.segments + segment;
    u32 count = 0;
    for (u32 word = lane_id(); word < MASK_WORDS; word += WARP) count += __popc(job.mask[place * MASK_WORDS + word]);
    count = warp_sum(count);
    if (lane_id() != 0) continue;
    job.exception_counts[place] = count;
    if (count) {
      atomicAdd(&state.exceptions, count);
      atomicAdd(&job.exception_groups[u64(blockIdx.y) * job.groups + segment / GROUP], count);
    }
  }
}

extern "C" __global__ void __launch_bounds__(COARSE_THREADS) interpolate_coarse_f32(const __grid_constant__ EncodeJob job, u32 level, u32 top) {
  interpolate_coarse<float>(job, level, top);
}
extern "C" __global__ void __launch_bounds__(COARSE_THREADS) interpolate_coarse_f64(const __grid_constant__ EncodeJob job, u32 level, u32 top) {
  interpolate_coarse<double>(job, level, top);
}
extern "C" __global__ void __launch_bounds__(THREADS) interpolate_pass_f32(const __grid_constant__ EncodeJob job, u32 level, u32 size) {
  interpolate_pass<float>(job, level, size);
}
extern "C" __global__ void __launch_bounds__(THREADS) interpolate_pass_f64(const __grid_constant__ EncodeJob job, u32 level, u32 size) {
  interpolate_pass<double>(job, level, size);
}
extern "C" __global__ void __launch_bounds__(COARSE_THREADS) restore_coarse_f32(const __grid_constant__ DecodeJob job, u32 level, u32 top) {
  restore_coarse<float>(job, level, top);
}
extern "C" __global__ void __launch_bounds__(COARSE_THREADS) restore_coarse_f64(const __grid_constant__ DecodeJob job, u32 level, u32 top) {
  restore_coarse<double>(job, level, top);
}
extern "C" __global__ void __launch_bounds__(THREADS) restore_pass_f32(const __grid_constant__ DecodeJob job, u32 level, u32 size) {
  restore_pass<float>(job, level, size);
}
extern "C" __global__ void __launch_bounds__(THREADS) restore_pass_f64(const __grid_constant__ DecodeJob job, u32 level, u32 size) {
  restore_pass<double>(job, level, size);
}
extern "C" __global__ void __launch_bounds__(THREADS) restore_values_f32(const __grid_constant__ DecodeJob job) { restore_values<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_values_f64(const __grid_constant__ DecodeJob job) { restore_values<double>(job); }
