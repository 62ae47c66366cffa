// Stage 0 (FORMAT.md §11.3): groups of GROUP_TILES interpolated tiles, and counts over their residuals; in a batch also over their differences along one set
// of axes. CPU: codec/src/predict/choice/interpolated_tiles.rs, codec/src/predict/choice/tile_lanes.rs.
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

/// A thread's part in the interpolation of a group of tiles. ALL_BETWEEN: every value of the group is between positions, so that each has a residual.
template <typename Memory, bool ALL_BETWEEN>
struct GroupCoder {
  const TileBlock& block;
  Memory& memory;
  u32 first_counted;  // number of the first residual that counts
  bool is_linear;
  ThreadCounts sums;
  u32 residuals;  // that count
  u32 outliers;   // escapes, and exceptions that have a code; zeros that are escapes count ZERO_ESCAPE

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
      if (counts && tile < block.count) {
        sums.add(residual);
        outliers += is_escape ? nearest == 0 ? ZERO_ESCAPE : 1 : how == OUT_OF_REACH;
      }
    }
    if (counts) residuals += block.count;
    memory.entries[index] = entry;
    memory.zeros[number] = u8(zeros);
  }

  /// Codes the values with the residuals `begin` to `end`, which are odd along SIZE axes. `terms`: of the kind of interpolation.
  template <u32 SIZE>
  __device__ __forceinline__ void code_pass(const TileTerm* terms, u32 begin, u32 end) {
    const u32 elements = block.kind().shape.elements;
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
  const TileJob& job = block.job;
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  const u32* offsets = job.offsets + INTERPOLATED_KIND * MAX_TILE_VALUES;
#pragma unroll 2
  for (u32 index = threadIdx.x; index < block.kind().shape.elements; index += TILE_THREADS) {
    const u32 offset = offsets[index];
    typename ValueType<V>::Bits bits[GROUP_TILES];
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      // Tiles that the group does not have are read as its first one, and do not count.
      bits[tile] = read_bits<V>(block.tile(tile < block.count ? tile : 0), offset, job.big_endian);
    }
    GroupEntry entry;
    bool is_between;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) entry.of[tile] = TileValue<V>(job, bits[tile]).entry(fine, is_between);
    memory.entries[index] = entry;
  }
}

/// Makes the entries and the codes of a group of tiles of a batch.
template <typename V>
__device__ __forceinline__ void read_group(const TileBlock& block, u32 (&out_of_reach)[GROUP_TILES]) {
  const TileJob& job = block.job;
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  const u32* offsets = job.offsets + INTERPOLATED_KIND * MAX_TILE_VALUES;
  const Shape& shape = block.kind().shape;
  GroupEntry *const entries = block.entries(), *const codes = block.codes();
  u32 between_steps = 0, own_out_of_reach[GROUP_TILES] = {};
  bool is_special = false;  // a value is out of reach or has no code
#pragma unroll 2
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    const u32 offset = offsets[index];
    typename ValueType<V>::Bits bits[GROUP_TILES];
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      // Tiles that the group does not have are read as its first one, and do not count.
      bits[tile] = read_bits<V>(block.tile(tile < block.count ? tile : 0), offset, job.big_endian);
    }
    GroupEntry entry, code;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      const TileValue<V> value(job, bits[tile]);
      bool is_between;
      entry.of[tile] = value.entry(fine, is_between);
      code.of[tile] = value.code();
      const bool is_far = value.has_code && fabs(value.scaled) >= ValueType<V>::STEPS_LIMIT;
      between_steps += tile < block.count && is_between;
      own_out_of_reach[tile] += is_far;
      is_special = is_special || is_far || !value.has_code;
    }
    entries[index] = entry;
    codes[index] = code;
  }
  KindCounts& sums = block.sums();
  between_steps = __reduce_add_sync(ALL_LANES, between_steps);
  if (lane_id() == 0 && between_steps) atomicAdd(&sums.between_steps, between_steps);
  if (!__syncthreads_or(is_special)) return;
  if (threadIdx.x < GROUP_TILES) out_of_reach[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (u32 tile = 0; tile < GROUP_TILES; tile++) {
    const u32 of_warp = __reduce_add_sync(ALL_LANES, own_out_of_reach[tile]);
    if (lane_id() == 0 && of_warp) atomicAdd(&out_of_reach[tile], of_warp);
  }
  __syncthreads();
  if (threadIdx.x < block.count) {
    const u32 of_tile = out_of_reach[threadIdx.x];
    if (of_tile) atomicAdd(&sums.out_of_reach, of_tile);
    if (of_tile > job.most_out_of_reach) atomicAdd(&sums.tiles_out_of_reach, 1);
  }
  // Values without a code get that of their left neighbour in the row, or 0.
  const auto has_no_code = [&](u32 index, u32 tile) { return (u32(entries[index].of[tile]) & ENTRY_KINDS) == HAS_NO_CODE; };
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    const u32 row = index - index % shape.extents[0];
    for (u32 tile = 0; tile < block.count; tile++) {
      if (!has_no_code(index, tile)) continue;
      u32 behind = index;
      while (behind > row && has_no_code(behind - 1, tile)) behind--;
      codes[index].of[tile] = behind > row ? codes[behind - 1].of[tile] : 0;
    }
  }
}

/// Loads the entries of a group of tiles of a batch. Whether any of this thread's is not between positions.
template <typename Memory>
__device__ __forceinline__ bool load_entries(const TileBlock& block, Memory& memory) {
  const GroupEntry* entries = block.entries();
  u32 others = 0;
#pragma unroll 4
  for (u32 index = threadIdx.x; index < block.kind().shape.elements; index += TILE_THREADS) {
    const GroupEntry entry = entries[index];
    memory.entries[index] = entry;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) others |= u32(entry.of[tile]) ^ BETWEEN_POSITIONS;
  }
  return others & ENTRY_KINDS;
}

/// Counts the neighbours along a row of a group of tiles of which one is a zero.
template <typename Memory>
__device__ __forceinline__ void count_zero_edges(const TileBlock& block, const Memory& memory) {
  const Shape& shape = block.kind().shape;
  u32 edges = 0;
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    if (index % shape.extents[0] == 0) continue;
    const GroupEntry here = memory.entries[index], before = memory.entries[index - 1];
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) edges += tile < block.count && (here.of[tile] == ZERO) != (before.of[tile] == ZERO);
  }
  edges = __reduce_add_sync(ALL_LANES, edges);
  if (lane_id() == 0 && edges) atomicAdd(&block.sums().zero_edges, edges);
}

/// Interpolates a group of tiles, whose entries are in `memory`, and counts its residuals. `interpolation`: the number of its kind. The caller has
/// passed a barrier behind its writes of the entries.
template <bool ALL_BETWEEN, typename Memory>
__device__ __forceinline__ void measure_residuals(const TileBlock& block, Memory& memory, u32 interpolation) {
  const TileKind& kind = block.kind();
  const TilePasses& passes = *block.job.passes;
  const TileTerm* terms = terms_of(block.job, interpolation);
  const u32 first = kind.uncounted_residuals;
  // The entries are the same for all kinds of interpolation: one of them counts the edges of zeros, before positions replace the entries.
  if (!ALL_BETWEEN && interpolation == 0) {
    count_zero_edges(block, memory);
    __syncthreads();
  }
  GroupCoder<Memory, ALL_BETWEEN> coder = {block, memory, first, (interpolation & LINEAR_INTERPOLATION) != 0, {}, 0, 0};
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
  const u32 here = (1u << block.count) - 1;
  u32 rises = 0;
  for (u32 index = first + 1 + threadIdx.x; index < kind.shape.elements; index += TILE_THREADS) {
    rises += __popc(u32(memory.zeros[index - 1]) & ~u32(memory.zeros[index]) & here);
  }
  const ResidualCounts counted = coder.sums.sum_of_warp(__reduce_add_sync(ALL_LANES, coder.residuals), __reduce_add_sync(ALL_LANES, rises));
  const u32 outliers = __reduce_add_sync(ALL_LANES, coder.outliers % ZERO_ESCAPE), zero_escapes = __reduce_add_sync(ALL_LANES, coder.outliers / ZERO_ESCAPE);
  if (lane_id() == 0) {
    add_counts(block.sums().residuals[interpolation], counted);
    atomicAdd(&block.sums().outliers[interpolation], outliers);
    if (zero_escapes) atomicAdd(&block.sums().zero_escapes[interpolation], zero_escapes);
  }
}

/// Counts the differences along one set of axes of a group of tiles of a batch, which have RANK axes. They are of the values that `count_differences` takes.
template <u32 RANK, typename Memory>
__device__ __forceinline__ void count_differences_of_set(const TileBlock& block, Memory& memory, u32 set) {
  const TileKind& kind = block.kind();
  const u32* counted = block.job.counted + INTERPOLATED_KIND * MAX_TILE_VALUES;
  const GroupEntry* codes = block.codes();
  ThreadCounts sums = {};
  u32 residuals = 0, rises = 0;
  for (u32 number = threadIdx.x; number < kind.counted; number += TILE_THREADS) {
    const u32 index = counted[number] & ~FIRST_OF_ROW;
    u32 differences[GROUP_TILES] = {};
    // The codes of the neighbours before the value along each subset of the set.
#pragma unroll
    for (u32 subset = 0; subset < 1u << RANK; subset++) {
      if (subset & ~set) continue;
      u32 from = index;
#pragma unroll
      for (u32 axis = 0; axis < RANK; axis++) from -= subset >> axis & 1 ? kind.shape.strides[axis] : 0;
      const GroupEntry code = codes[from];
#pragma unroll
      for (u32 tile = 0; tile < GROUP_TILES; tile++) {
        differences[tile] += __popc(subset) % 2 ? 0u - u32(code.of[tile]) : u32(code.of[tile]);
      }
    }
    u32 zeros = 0;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      zeros |= u32(differences[tile] == 0) << tile;
      if (tile < block.count) sums.add(i32(differences[tile]));
    }
    residuals += block.count;
    memory.zeros[number] = u8(zeros);
  }
  __syncthreads();
  const u32 here = (1u << block.count) - 1;
  for (u32 number = threadIdx.x; number < kind.counted; number += TILE_THREADS) {
    if (!(counted[number] & FIRST_OF_ROW)) rises += __popc(u32(memory.zeros[number - 1]) & ~u32(memory.zeros[number]) & here);
  }
  const ResidualCounts all = sums.sum_of_warp(__reduce_add_sync(ALL_LANES, residuals), __reduce_add_sync(ALL_LANES, rises));
  if (lane_id() == 0) add_counts(block.sums().differences[set], all);
}
