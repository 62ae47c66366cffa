// Stage 0 (FORMAT.md §11.3): tables for the tiles of all chunks of a layout: offsets of the values, and neighbours and weights of those that are interpolated.
// CPU: codec/src/predict/choice/sample.rs, codec/src/predict/choice/lanes.rs.
#pragma once

#include "coarse_levels.cuh"

/// How a value of a tile is predicted along one of the axes along which it is odd in its level.
struct alignas(16) TileTerm {
  u16 neighbours[4];  // indices
  u32 weights;
  u16 index;  // of the value
  u16 axis_count;
};
static_assert(sizeof(TileTerm) == 16 && MAX_TILE_VALUES < 1u << 16, "one load");
/// In a table of counted values: the value is the first one of its row that counts.
constexpr u32 FIRST_OF_ROW = 1u << 31;

/// Terms of a kind of interpolation: `[axis][residual]`.
__device__ __forceinline__ TileTerm* terms_of(const TileJob& job, u32 interpolation) {
  const Shape& shape = job.tiles.shape;
  const u32 number = interpolation % LINEAR_INTERPOLATION + (interpolation / LINEAR_INTERPOLATION << shape.rank);
  return static_cast<TileTerm*>(job.terms) + number * shape.rank * shape.elements;
}

/// Writes the terms of the values that are odd along SIZE axes, and notes their pass.
template <u32 SIZE>
__device__ __forceinline__ void make_terms(const CoarseLevel& level, const Shape& shape, TileTerm* terms, TilePasses& passes, u32& pass) {
  const u32 begin = level.classes[FIRST_SET<SIZE>].first, end = level.classes[FIRST_SET<SIZE + 1>].first;
  if (begin == end) return;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    passes.ends[pass] = level.start + end;
    passes.sizes[pass] = SIZE;
    passes.count = pass + 1;
  }
  pass++;
  for (u32 number = begin + threadIdx.x; number < end; number += TILE_THREADS) {
    const CoarseValue<SIZE> value(level, shape, number);
#pragma unroll
    for (u32 k = 0; k < SIZE; k++) {
      const u32(&from)[4] = value.stencil.neighbours[k];
      const TileTerm term = {
          {u16(from[0]), u16(from[1]), u16(from[2]), u16(from[3])}, value.stencil.weights[k], u16(value.index), u16(value.stencil.axis_count)};
      terms[k * shape.elements + value.residual_index] = term;
    }
  }
}

/// Makes the tables of a layout: a block for the terms of each kind of interpolation, and one for where the values are.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) make_tile_tables(const __grid_constant__ TileJob job) {
  const Shape& shape = job.tiles.shape;
  if (blockIdx.x == job.candidates) {
    for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
      // Number of the value among those that count, and whether it does.
      u32 offset = 0, among_counted = 0, stride = 1, rest = index;
      bool counts = true, is_first = false, is_fastest = true;
      for (u32 axis = 0; axis < MAX_RANK; axis++) {
        const u32 extent = shape.extents[axis], at = rest % extent;
        rest /= extent;
        offset += at * job.tiles.strides[axis];
        if (extent == 1) continue;
        counts = counts && at > 0;
        is_first = is_first || (is_fastest && at == 1);
        is_fastest = false;
        among_counted += (at - 1) * stride;
        stride *= extent - 1;
      }
      job.offsets[index] = offset;
      // A tile of one value has no row longer than 1.
      if (counts) job.counted[among_counted] = index | (is_first || is_fastest ? FIRST_OF_ROW : 0);
    }
    return;
  }
  __shared__ Classes classes;
  const u32 interpolation = job.candidate_numbers[blockIdx.x];
  TileTerm* terms = terms_of(job, interpolation);
  u32 pass = 0;
  for (u32 level = job.tiles.coarsest; level-- > 0;) {
    const Extents extents = level_extents(shape, level);
    __syncthreads();
    if (warp_id() == 0) make_classes(extents, classes);
    __syncthreads();
    CoarseLevel here = {classes, extents, {}, level, extents.halved().count(), INTERPOLATION | interpolation, Worth(POSITIONS_PER_STEP)};
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) here.stride[axis] = shape.strides[axis] << level;
    make_terms<1>(here, shape, terms, *job.passes, pass);
    if (shape.rank > 1) make_terms<2>(here, shape, terms, *job.passes, pass);
    if (shape.rank > 2) make_terms<3>(here, shape, terms, *job.passes, pass);
    if (shape.rank > 3) make_terms<4>(here, shape, terms, *job.passes, pass);
  }
}
