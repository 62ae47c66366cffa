// Interpolation (FORMAT.md §6.2) of the coarse levels, which one block of threads does with positions in shared memory.
#pragma once

#include "interpolation.cuh"

/// A value that is odd along the axes of a set: its coordinates in its level.
struct LevelPoint {
  u32 at[MAX_RANK];
  u32 set;
};

/// Coordinates, in its level, of the value with this number, which is small. The value is odd along SIZE axes.
template <u32 SIZE>
__device__ __forceinline__ LevelPoint find_point(const Classes& classes, u32 rank, u32 number) {
  u32 found = FIRST_SET<SIZE>;
#pragma unroll
  for (u32 other = FIRST_SET<SIZE> + 1; other < FIRST_SET<SIZE + 1>; other++) {
    // Empty classes begin where the next one does.
    if (classes[other].first <= number) found = other;
  }
  const Class& in = classes[found];
  u32 rest = number - in.first, at[MAX_RANK] = {};
#pragma unroll
  for (u32 axis = 0; axis + 1 < MAX_RANK; axis++) {
    // With fewer than four axes `rest` is now the coordinate along the third axis.
    if (axis + 2 == MAX_RANK && rank < MAX_RANK) break;
    const u32 next_rest = quotient<true>(rest, in.extents[axis]);
    at[axis] = rest - next_rest * in.extents[axis];
    rest = next_rest;
  }
  at[rank < MAX_RANK ? MAX_RANK - 2 : MAX_RANK - 1] = rest;
  LevelPoint point;
  point.set = in.set;
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) point.at[axis] = 2 * at[axis] + (point.set >> axis & 1);
  return point;
}

/// Where the neighbours of a value that is odd along SIZE axes are, and their weights. None of this depends on the neighbours' positions.
template <u32 SIZE>
struct Stencil {
  u32 neighbours[SIZE][4];  // indices of their positions
  u32 weights[SIZE];
  u32 axis_count;  // of the axes along which the value is interpolated

  Stencil() = default;
  /// For the value at `point`. `index` is that of its position in an array of positions. `stride` has the distances, in that array, of neighbouring values
  /// of the level. `kind` is the predictor's byte of the plane.
  __device__ __forceinline__ Stencil(const Extents& extents, const u32 (&stride)[MAX_RANK], const LevelPoint& point, u32 index, u32 kind) {
    u32 with_c = 0, axes[SIZE], left = point.set;
#pragma unroll
    for (u32 k = 0; k < SIZE; k++) {
      const u32 axis = axes[k] = __ffs(left) - 1;
      left &= left - 1;
      const u32 at = component(point.at, axis), extent = component(extents.of, axis), stride_along = component(stride, axis);
      const bool has_a = at >= 3, has_c = at + 1 < extent, has_d = at + 3 < extent;
      // A neighbour that does not exist has weight 0; another one is read in its place.
      neighbours[k][1] = index - stride_along;
      neighbours[k][0] = has_a ? index - 3 * stride_along : index - stride_along;
      neighbours[k][2] = has_c ? index + stride_along : index - stride_along;
      neighbours[k][3] = has_d ? index + 3 * stride_along : index - stride_along;
      weights[k] = weights_of_neighbours(has_a, has_c, has_d, kind & LINEAR_INTERPOLATION);
      with_c |= u32(has_c) << axis;
    }
    const u32 counted = counted_axes(point.set, with_c, kind);
    axis_count = __popc(counted);
#pragma unroll
    for (u32 k = 0; k < SIZE; k++) {
      if (!(counted >> axes[k] & 1)) weights[k] = 0;
    }
  }

  template <typename Positions>
  __device__ __forceinline__ i32 predict(const Positions& position) const {
    u32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < SIZE; k++) {
#pragma unroll
      for (u32 i = 0; i < 4; i++) sum += weight_of(weights[k], i) * u32(position(neighbours[k][i]));
    }
    return mean_prediction<SIZE>(sum, axis_count);
  }
};

/// The largest number of levels of an array of COARSE_VALUES values, its finest level included and the last one excluded.
constexpr u32 COARSE_LEVELS = 12;
static_assert(1u << COARSE_LEVELS == COARSE_VALUES, "each level has at most half of the values of the finer one");
static_assert(COARSE_VALUES <= SMALL_NUMBERS, "a value's number is small");

/// A level in shared memory.
struct CoarseLevel {
  const Classes& classes;
  Extents extents;
  u32 stride[MAX_RANK];  // distances of the level's neighbouring values in the array of positions
  u32 number;            // of the level; 0 is the chunk itself
  u32 start;             // where its residuals begin
  u32 kind;              // of interpolation, the predictor's byte
  Worth worth;
};

/// A value of a coarse level.
template <u32 SIZE>
struct CoarseValue {
  u32 index, chunk_index, residual_index;
  Stencil<SIZE> stencil;

  CoarseValue() = default;
  __device__ __forceinline__ CoarseValue(const CoarseLevel& level, const Shape& shape, u32 number)
      : CoarseValue(level, shape, number, find_point<SIZE>(level.classes, shape.rank, number)) {}
  __device__ __forceinline__ CoarseValue(const CoarseLevel& level, const Shape& shape, u32 number, const LevelPoint& point)
      : index(dot(point.at, level.stride)),
        chunk_index(dot(point.at, shape.strides) << level.number),
        residual_index(level.start + number),
        stencil(level.extents, level.stride, point, index, level.kind) {}
};

/// The values of a coarse level that are odd along SIZE axes. The first values of a pass go to threads that the pass before left idle, which find their
/// stencils while that pass runs. `turn` counts the threads needed so far.
template <u32 SIZE, typename Side>
__device__ __forceinline__ void coarse_pass(const Side& side, typename Side::Memory& memory, const CoarseLevel& level, const Shape& shape, u32& turn) {
  const auto positions = [&](u32 index) { return memory.position(index); };
  const u32 begin = level.classes[FIRST_SET<SIZE>].first, end = level.classes[FIRST_SET<SIZE + 1>].first;
  u32 number = begin + (threadIdx.x - turn) % Side::BLOCK_THREADS;
  turn += ceil_div(end - begin, WARP) * WARP;
  CoarseValue<SIZE> value;
  if (number < end) value = CoarseValue<SIZE>(level, shape, number);
  __syncthreads();
  while (number < end) {
    const auto input = memory.input(value.index, value.residual_index);
    const i32 prediction = value.stencil.predict(positions);
    memory.set_position(value.index, side.code_value(input, value.chunk_index, value.residual_index, level.worth, prediction));
    number += Side::BLOCK_THREADS;
    if (number < end) value = CoarseValue<SIZE>(level, shape, number);
  }
}

/// All of `levels`, whose values fit into `memory`, in shared memory. One block of threads a chunk.
template <typename Side>
__device__ __forceinline__ void coarse_levels(const Side& side, typename Side::Memory& memory, const Shape& shape, const CoarseLevels& levels) {
  const u32 finest = levels.finest, coarsest = levels.coarsest;
  __shared__ Classes classes[COARSE_LEVELS];
  const Extents whole = level_extents(shape, finest);
  const u32 total = whole.count();
  const auto chunk_index = [&](u32 number) {
    u32 index = 0;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) {
      const u32 rest = axis + 1 < MAX_RANK ? quotient<true>(number, whole.of[axis]) : 0;
      index += (number - rest * whole.of[axis] << finest) * shape.strides[axis];
      number = rest;
    }
    return index;
  };
  for (u32 number = threadIdx.x; number < total; number += Side::BLOCK_THREADS) side.load(memory, number, chunk_index(number));
  for (u32 k = warp_id(); k < coarsest - finest; k += Side::BLOCK_THREADS / WARP) make_classes(level_extents(shape, finest + k), classes[k]);
  __syncthreads();
  if (threadIdx.x == 0) memory.set_position(0, side.code_value(memory.input(0, 0), 0, 0, Worth(side.kind, coarsest), 0));
  // Strides of the array in shared memory, which has the extents of level `finest`.
  u32 own_stride[MAX_RANK];
  own_stride[0] = 1;
#pragma unroll
  for (u32 axis = 1; axis < MAX_RANK; axis++) own_stride[axis] = own_stride[axis - 1] * whole.of[axis - 1];
  u32 turn = WARP;
  for (u32 level = coarsest; level-- > finest;) {
    CoarseLevel here = {classes[level - finest], level_extents(shape, level), {}, level, 0, side.kind, Worth(side.kind, level)};
    here.start = here.extents.halved().count();
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) here.stride[axis] = own_stride[axis] << (level - finest);
    coarse_pass<1>(side, memory, here, shape, turn);
    if (shape.rank > 1) coarse_pass<2>(side, memory, here, shape, turn);
    if (shape.rank > 2) coarse_pass<3>(side, memory, here, shape, turn);
    if (shape.rank > 3) coarse_pass<4>(side, memory, here, shape, turn);
  }
  __syncthreads();
  // Finer levels are predicted from these positions.
  if (finest == 0) return;
  for (u32 number = threadIdx.x; number < total; number += Side::BLOCK_THREADS) side.positions[chunk_index(number)] = memory.position(number);
}

template <typename V>
__device__ __forceinline__ void interpolate_coarse(const EncodeJob& job, const CoarseLevels& levels) {
  __shared__ typename EncodeSide<V>::Memory memory;
  const EncodeSide<V> side(job);
  if (side.nothing_to_do()) return;
  coarse_levels(side, memory, job.shape, levels);
  side.seen.join(job.states[blockIdx.y]);
}
template <typename V>
__device__ __forceinline__ void restore_coarse(const DecodeJob& job, const CoarseLevels& levels) {
  __shared__ typename DecodeSide<V>::Memory memory;
  const DecodeSide<V> side(job, levels.finest);
  report(job, job.states[blockIdx.y]);
  if (!side.nothing_to_do()) coarse_levels(side, memory, job.shape, levels);
}

extern "C" __global__ void __launch_bounds__(COARSE_THREADS) interpolate_coarse_f32(const __grid_constant__ EncodeJob job, CoarseLevels levels) {
  interpolate_coarse<float>(job, levels);
}
extern "C" __global__ void __launch_bounds__(COARSE_THREADS) interpolate_coarse_f64(const __grid_constant__ EncodeJob job, CoarseLevels levels) {
  interpolate_coarse<double>(job, levels);
}
extern "C" __global__ void __launch_bounds__(COARSE_THREADS) restore_coarse_f32(const __grid_constant__ DecodeJob job, CoarseLevels levels) {
  restore_coarse<float>(job, levels);
}
extern "C" __global__ void __launch_bounds__(COARSE_THREADS) restore_coarse_f64(const __grid_constant__ DecodeJob job, CoarseLevels levels) {
  restore_coarse<double>(job, levels);
}
