// Stage 0 (FORMAT.md §11.3): counts over the residuals of interpolation of a group of tiles. CPU: codec/src/predict/choice/lanes.rs.
#pragma once

#include "tile_counts.cuh"
#include "tile_tables.cuh"
#include "tile_values.cuh"

/// Shared memory of a block that interpolates a group of tiles of up to VALUES values.
template <u32 VALUES>
struct GroupMemory {
  GroupEntry entries[VALUES];
  /// By the number of a residual: a bit for each tile, which is 1 if its residual is 0.
  u8 zeros[VALUES];
};
static_assert(GROUP_TILES <= 8, "a bit a tile");

/// A zero that is an escape, in a thread's sum over outliers.
constexpr u32 ZERO_ESCAPE = 1u << 16;

/// A thread's part in the interpolation of a group of tiles. ALL_BETWEEN: no value of the group is on a position or out of reach, so that each has a residual.
template <typename Memory, bool ALL_BETWEEN>
struct GroupCoder {
  const TileBlock& block;
  Memory& memory;
  u32 first_counted;  // number of the first residual that counts
  bool is_linear;
  ThreadCounts sums;
  u32 outliers;  // escapes, and exceptions that have a code; zeros that are escapes count ZERO_ESCAPE

  /// Codes the value of each tile at an index and puts its position in place of its entry. The residual is that of the nearest position.
  __device__ __forceinline__ void code_values(u32 index, u32 number, const i32 (&predictions)[GROUP_TILES]) {
    GroupEntry entry = memory.entries[index];
    const bool counts = number >= first_counted;
    u32 zeros = 0;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      const u32 how = ALL_BETWEEN ? BETWEEN_POSITIONS : u32(entry.of[tile]) & ENTRY_KINDS;
      const i32 nearest = entry.of[tile] >> ENTRY_KIND_BITS;
      const i32 prediction = aligned(predictions[tile], nearest, block.job.spacing_grows && how >= BETWEEN_POSITIONS);
      const i32 distance = i32(u32(nearest) - u32(prediction));
      const bool is_escape = how == ON_POSITION && u32(distance) % POSITIONS_PER_STEP != 0;
      const bool is_coded = how >= BETWEEN_POSITIONS && !is_escape;
      const i32 residual = is_coded ? i32(u32(distance) + POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP_LOG : 0;
      entry.of[tile] = is_escape ? nearest : i32(u32(prediction) + u32(residual) * POSITIONS_PER_STEP);
      zeros |= u32(residual == 0) << tile;
      if (counts) {
        sums.add(residual);
        outliers += is_escape ? nearest == 0 ? ZERO_ESCAPE : 1 : how == OUT_OF_REACH;
      }
    }
    memory.entries[index] = entry;
    memory.zeros[number] = u8(zeros);
  }

  /// Codes the values with the residuals `begin` to `end`, which are odd along SIZE axes. `terms`: of the kind of interpolation.
  template <u32 SIZE>
  __device__ __forceinline__ void code_pass(const TileTerm* terms, u32 begin, u32 end) {
    const u32 elements = block.shape().elements;
    for (u32 number = begin + threadIdx.x; number < end; number += TILE_THREADS) {
      u32 values[GROUP_TILES] = {}, index = 0, axis_count = 0;
#pragma unroll
      for (u32 k = 0; k < SIZE; k++) {
        const TileTerm term = terms[k * elements + number];
        if (k == 0) index = term.index, axis_count = term.axis_count;
        const auto add = [&](u32 i) {
          const u32 weight = weight_of(term.weights, i);
          const GroupEntry neighbour = memory.entries[term.neighbours[i]];
#pragma unroll
          for (u32 tile = 0; tile < GROUP_TILES; tile++) values[tile] += weight * u32(neighbour.of[tile]);
        };
        add(1);
        add(2);
        // Linear interpolation has no others.
        if (!is_linear) add(0), add(3);
      }
      i32 predictions[GROUP_TILES];
#pragma unroll
      for (u32 tile = 0; tile < GROUP_TILES; tile++) predictions[tile] = mean_prediction<SIZE>(values[tile], axis_count);
      code_values(index, number, predictions);
    }
  }
};

/// Makes the entries of a group of tiles.
template <typename V, typename Memory>
__device__ __forceinline__ void make_entries(const TileBlock& block, Memory& memory) {
  const FineGrid fine = make_fine_grid<V>(block.job.step, block.job.inverse_step);
#pragma unroll 2
  for (u32 index = threadIdx.x; index < block.shape().elements; index += TILE_THREADS) {
    typename ValueType<V>::Bits bits[GROUP_TILES];
    block.read<V>(index, bits);
    GroupEntry entry;
    bool is_between;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) entry.of[tile] = TileValue<V>(block.job, bits[tile]).entry(fine, is_between);
    memory.entries[index] = entry;
  }
}

/// Loads the entries of a group of tiles of a batch. Whether any of this thread's is not between positions.
template <typename Memory>
__device__ __forceinline__ bool load_entries(const TileBlock& block, Memory& memory) {
  const GroupEntry* entries = block.entries();
  u32 others = 0;
#pragma unroll 4
  for (u32 index = threadIdx.x; index < block.shape().elements; index += TILE_THREADS) {
    const GroupEntry entry = entries[index];
    memory.entries[index] = entry;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) others |= u32(entry.of[tile]) ^ BETWEEN_POSITIONS;
  }
  return others & ENTRY_KINDS;
}

/// Interpolates a group of tiles, whose entries are in `memory`, and counts its residuals. `interpolation`: the number of its kind. The caller has
/// passed a barrier behind its writes of the entries.
template <bool ALL_BETWEEN, typename Memory>
__device__ __forceinline__ void measure_residuals(const TileBlock& block, Memory& memory, u32 interpolation) {
  const TilePasses& passes = *block.job.passes;
  const TileTerm* terms = terms_of(block.job, interpolation);
  const u32 first = block.job.tiles.uncounted_residuals;
  GroupCoder<Memory, ALL_BETWEEN> coder = {block, memory, first, (interpolation & LINEAR_INTERPOLATION) != 0, {}, 0};
  if (threadIdx.x == 0) {
    const i32 predictions[GROUP_TILES] = {};
    coder.code_values(0, 0, predictions);
  }
  for (u32 pass = 0, begin = 1; pass < passes.count; pass++) {
    const u32 end = passes.ends[pass];
    __syncthreads();
    switch (passes.sizes[pass]) {
      case 1: coder.template code_pass<1>(terms, begin, end); break;
      case 2: coder.template code_pass<2>(terms, begin, end); break;
      case 3: coder.template code_pass<3>(terms, begin, end); break;
      default: coder.template code_pass<4>(terms, begin, end);
    }
    begin = end;
  }
  __syncthreads();
  u32 rises = 0;
  for (u32 index = first + 1 + threadIdx.x; index < block.shape().elements; index += TILE_THREADS) {
    rises += __popc(u32(memory.zeros[index - 1]) & ~u32(memory.zeros[index]));
  }
  const ResidualCounts counted = coder.sums.sum_of_warp(rises);
  const u32 outliers = __reduce_add_sync(ALL_LANES, coder.outliers % ZERO_ESCAPE), zero_escapes = __reduce_add_sync(ALL_LANES, coder.outliers / ZERO_ESCAPE);
  if (lane_id() == 0) {
    add_counts(block.sums().residuals[interpolation], counted);
    if (outliers) atomicAdd(&block.sums().outliers[interpolation], outliers);
    if (zero_escapes) atomicAdd(&block.sums().zero_escapes[interpolation], zero_escapes);
  }
}
