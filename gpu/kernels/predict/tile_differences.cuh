// Stage 0 (FORMAT.md §11.3): counts over the differences of a group of tiles along all sets of axes. CPU: codec/src/predict/choice/lanes.rs.
#pragma once

#include "tile_counts.cuh"
#include "tile_tables.cuh"
#include "tile_values.cuh"

/// Shared memory of a block that measures the differences of a group of tiles.
struct DifferenceMemory {
  GroupEntry codes[MAX_TILE_VALUES];
  /// By the number of a value that counts, GROUP_TILES bits for each set of axes: a bit is 1 if the difference of its tile is 0.
  u64 zeros[MAX_TILE_VALUES];
};
static_assert(AXIS_SETS * GROUP_TILES <= 64, "a bit for each set and tile");

/// Reads a group of tiles, makes codes, and counts values that are no ordinary ones. Writes the entries of interpolation where `entries` is not null.
template <typename V>
__device__ __forceinline__ void read_group(const TileBlock& block, DifferenceMemory& memory, GroupEntry* entries) {
  const TileJob& job = block.job;
  const Shape& shape = block.shape();
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  // By index, a bit for each tile: its value has no code; it is 0. The place is for the zeros of differences later.
  u8* const without_code = reinterpret_cast<u8*>(memory.zeros);
  u8* const are_zero = without_code + MAX_TILE_VALUES;
  u32 out_of_reach = 0, between_steps = 0, edges = 0;
  bool has_gaps = false;
#pragma unroll 2
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    typename ValueType<V>::Bits bits[GROUP_TILES];
    block.read<V>(index, bits);
    GroupEntry code, entry = {};
    u32 gaps = 0, zeros = 0;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      const TileValue<V> value(job, bits[tile]);
      code.of[tile] = value.code();
      gaps |= u32(!value.has_code) << tile;
      if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
        if (job.candidates) {
          bool is_between;
          entry.of[tile] = value.entry(fine, is_between);
          between_steps += is_between;
          out_of_reach += (u32(entry.of[tile]) & ENTRY_KINDS) == OUT_OF_REACH;
          zeros |= u32(entry.of[tile] == ZERO) << tile;
        }
      }
    }
    memory.codes[index] = code;
    without_code[index] = u8(gaps);
    are_zero[index] = u8(zeros);
    has_gaps = has_gaps || gaps;
    if (entries) entries[index] = entry;
  }
  has_gaps = __syncthreads_or(has_gaps);
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    if (index % shape.extents[0]) edges += __popc(are_zero[index] ^ are_zero[index - 1]);
    // Values without a code get that of their left neighbour in the row, or 0.
    for (u32 tile = 0; has_gaps && tile < GROUP_TILES; tile++) {
      if (!(without_code[index] >> tile & 1)) continue;
      const u32 row = index - index % shape.extents[0];
      u32 behind = index;
      while (behind > row && without_code[behind - 1] >> tile & 1) behind--;
      memory.codes[index].of[tile] = behind > row ? memory.codes[behind - 1].of[tile] : 0;
    }
  }
  out_of_reach = __reduce_add_sync(ALL_LANES, out_of_reach);
  between_steps = __reduce_add_sync(ALL_LANES, between_steps);
  edges = __reduce_add_sync(ALL_LANES, edges);
  if (lane_id() != 0) return;
  if (out_of_reach) atomicAdd(&block.sums().out_of_reach, out_of_reach);
  if (between_steps) atomicAdd(&block.sums().between_steps, between_steps);
  if (edges) atomicAdd(&block.sums().zero_edges, edges);
}

/// Counts the differences along all sets of the axes of tiles with RANK axes, of values that have a neighbour before them along every axis longer than 1.
template <u32 RANK>
__device__ __forceinline__ void count_differences(const TileBlock& block, DifferenceMemory& memory) {
  constexpr u32 SETS = 1u << RANK;
  const TileJob& job = block.job;
  const Shape& shape = block.shape();
  u32 back[RANK];  // distances of neighbours
#pragma unroll
  for (u32 axis = 0; axis < RANK; axis++) back[axis] = shape.extents[axis] == 1 ? 0 : shape.strides[axis];
  ThreadCounts sums[SETS] = {};
  for (u32 number = threadIdx.x; number < job.tiles.counted; number += TILE_THREADS) {
    const u32 index = job.counted[number] & ~FIRST_OF_ROW;
    // The codes of the neighbours before the value along each set of axes; then, axis by axis, differences.
    GroupEntry differences[SETS];
#pragma unroll
    for (u32 set = 0; set < SETS; set++) {
      u32 from = index;
#pragma unroll
      for (u32 axis = 0; axis < RANK; axis++) from -= set >> axis & 1 ? back[axis] : 0;
      differences[set] = memory.codes[from];
    }
#pragma unroll
    for (u32 axis = 0; axis < RANK; axis++) {
#pragma unroll
      for (u32 set = 0; set < SETS; set++) {
        if (!(set >> axis & 1)) continue;
#pragma unroll
        for (u32 tile = 0; tile < GROUP_TILES; tile++) {
          differences[set].of[tile] = i32(u32(differences[set ^ 1u << axis].of[tile]) - u32(differences[set].of[tile]));
        }
      }
    }
    u64 zeros = 0;
#pragma unroll
    for (u32 set = 0; set < SETS; set++) {
#pragma unroll
      for (u32 tile = 0; tile < GROUP_TILES; tile++) {
        sums[set].add(differences[set].of[tile]);
        zeros |= u64(differences[set].of[tile] == 0) << (set * GROUP_TILES + tile);
      }
    }
    memory.zeros[number] = zeros;
  }
  __syncthreads();
  u32 rises[SETS] = {};
  for (u32 number = threadIdx.x; number < job.tiles.counted; number += TILE_THREADS) {
    if (job.counted[number] & FIRST_OF_ROW) continue;
    const u64 of_value = memory.zeros[number - 1] & ~memory.zeros[number];
#pragma unroll
    for (u32 set = 0; set < SETS; set++) rises[set] += __popc(u32(of_value >> set * GROUP_TILES) & ((1u << GROUP_TILES) - 1));
  }
  // Lane `set` adds the warp's counts of a set.
  ResidualCounts of_set = {};
#pragma unroll
  for (u32 set = 0; set < SETS; set++) {
    const ResidualCounts sum = sums[set].sum_of_warp(rises[set]);
    if (lane_id() == set) of_set = sum;
  }
  bool is_set = lane_id() < SETS;
#pragma unroll
  for (u32 axis = 0; axis < RANK; axis++) is_set = is_set && !(shape.extents[axis] == 1 && lane_id() >> axis & 1);
  if (is_set) add_counts(block.sums().differences[lane_id()], of_set);
}

/// Measures the differences of a group of tiles.
template <typename V>
__device__ __forceinline__ void measure_differences(const TileBlock& block, DifferenceMemory& memory, GroupEntry* entries) {
  read_group<V>(block, memory, entries);
  __syncthreads();
  switch (block.shape().rank) {
    case 1: return count_differences<1>(block, memory);
    case 2: return count_differences<2>(block, memory);
    case 3: return count_differences<3>(block, memory);
    default: return count_differences<4>(block, memory);
  }
}
