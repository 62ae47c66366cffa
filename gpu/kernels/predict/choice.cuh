// Stage 0 (FORMAT.md §11.3): counts over the residuals of a chunk's tiles, and the predictor that follows from them. CPU:
// codec/src/predict/choice/tiles.rs, codec/src/predict/choice/interpolated_tiles.rs, codec/src/predict/choice/tile_lanes.rs.
//
//   values -> codes -> differences along all sets of axes -> counts
//        └──> nearest positions -> interpolation of the tile as a chunk -> residuals -> counts        (of interpolated tiles alone)
//
// TILE_THREADS threads a block. Differences: a block takes one or more tiles. Interpolation: a block takes GROUP_TILES tiles and one kind. All tiles of a
// chunk have equal extents, so that neighbours and weights of a value are found once for all of them; `make_tile_tables` has done it. Positions of a value of
// the group are next to each other in shared memory, and in a batch its codes in device memory.
//
// One chunk takes as long as its longest block, so that one launch measures everything. The block that is done last writes the counts to pinned memory, and
// the host decides. A batch of chunks takes the time of all instructions, so that each launch measures only what the decision needs:
//
//   differences, nearest positions -> cubic and linear interpolation -> choose_by_tiles -> interpolation with rough axes, differences of interpolated tiles
//       along the best set of axes -> choose_by_tiles -> interpolation of the kinds around the best one -> choose_by_tiles
#pragma once

#include "estimate.cuh"
#include "tile_counts.cuh"
#include "tile_tables.cuh"
#include "tile_values.cuh"

/// Shared memory of a block that measures the differences of tiles.
struct DifferenceMemory {
  ResidualCounts counts[AXIS_SETS];
  u32 between_steps, out_of_reach;
  /// By warp: the sets of axes along which the difference of its last counted value is 0.
  u32 last_zeros[TILE_WARPS];
  /// Of one tile after the other.
  i32 codes[MAX_TILE_VALUES];
  /// Whether a value has no code.
  bool has_no_code[MAX_TILE_VALUES];
};

/// Values of a tile that a thread reads at once.
constexpr u32 READ_TOGETHER = 8;

/// Reads tiles and makes their codes.
template <typename V>
__device__ __forceinline__ void read_tiles(const TileBlock& block, DifferenceMemory& memory) {
  const TileJob& job = block.job;
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  const u32 elements = block.kind().shape.elements;
  const u32* offsets = job.offsets + block.kind_number() * MAX_TILE_VALUES;
  const WarpPart part(block);
  const bool is_there = part.tile < block.count;
  const void* tile = block.tile(is_there ? part.tile : 0);
  const u32 stride = part.warps * WARP, end = is_there ? elements : 0;
  i32* const codes = memory.codes + part.tile * elements;
  bool* const has_no_code = memory.has_no_code + part.tile * elements;
  u32 out_of_reach = 0, between_steps = 0;
  bool has_gaps = false;
  for (u32 begin = part.number * WARP + lane_id(); begin < end; begin += READ_TOGETHER * stride) {
    typename ValueType<V>::Bits bits[READ_TOGETHER];
#pragma unroll
    for (u32 k = 0; k < READ_TOGETHER; k++) {
      const u32 index = begin + k * stride;
      bits[k] = index < end ? read_bits<V>(tile, offsets[index], job.big_endian) : 0;
    }
#pragma unroll
    for (u32 k = 0; k < READ_TOGETHER; k++) {
      const u32 index = begin + k * stride;
      if (index >= end) break;
      const TileValue<V> value(job, bits[k]);
      codes[index] = value.code();
      has_no_code[index] = !value.has_code;
      has_gaps = has_gaps || !value.has_code;
      out_of_reach += value.has_code && fabs(value.scaled) >= ValueType<V>::STEPS_LIMIT;
      if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
        if (job.candidates) {
          bool is_between;
          value.entry(fine, is_between);
          between_steps += is_between;
        }
      }
    }
  }
  out_of_reach = __reduce_add_sync(ALL_LANES, out_of_reach);
  between_steps = __reduce_add_sync(ALL_LANES, between_steps);
  if (lane_id() == 0 && out_of_reach) atomicAdd(&memory.out_of_reach, out_of_reach);
  if (lane_id() == 0 && between_steps) atomicAdd(&memory.between_steps, between_steps);
  if (!__syncthreads_or(has_gaps)) return;
  // Values without a code get that of their left neighbour in the row, or 0.
  for (u32 index = threadIdx.x; index < block.count * elements; index += TILE_THREADS) {
    if (!memory.has_no_code[index]) continue;
    const u32 row = index - index % block.kind().shape.extents[0];
    u32 behind = index;
    while (behind > row && memory.has_no_code[behind - 1]) behind--;
    memory.codes[index] = behind > row ? memory.codes[behind - 1] : 0;
  }
  __syncthreads();
}

/// Counts the differences along all sets of the axes of tiles with RANK axes, of values that have a neighbour before them along every axis longer than 1. A
/// warp takes consecutive ones.
template <u32 RANK>
__device__ __forceinline__ void count_differences(const TileBlock& block, DifferenceMemory& memory) {
  constexpr u32 SETS_OF_RANK = 1u << RANK;
  // Four sets a word, a byte each.
  constexpr u32 WORDS = (SETS_OF_RANK + 3) / 4;
  const TileKind& kind = block.kind();
  const Shape& shape = kind.shape;
  const TileJob& job = block.job;
  const u32* counted = job.counted + block.kind_number() * MAX_TILE_VALUES;
  u32 flat = 0, back[RANK];  // the set of axes of extent 1; distances of neighbours
#pragma unroll
  for (u32 axis = 0; axis < RANK; axis++) {
    const bool is_flat = shape.extents[axis] == 1;
    flat |= u32(is_flat) << axis;
    back[axis] = is_flat ? 0 : shape.strides[axis];
  }
  const bool is_set = lane_id() < SETS_OF_RANK && !(lane_id() & flat);
  const WarpPart part(block);
  const i32* const codes = memory.codes + part.tile * shape.elements;
  const u32 of_warp = ceil_div(ceil_div(kind.counted, part.warps), WARP) * WARP, first = part.number * of_warp;
  const u32 end = part.tile < block.count ? min(kind.counted, first + of_warp) : 0;
  // The sets along which the last difference is 0; and along which the difference of the warp's first value is not, if a value before it in its row counts.
  u32 last_zeros = 0, first_others = 0;
  for (u32 turn = first; turn < end; turn += FEW_A_THREAD * WARP) {
    ThreadCounts sums[SETS_OF_RANK] = {};
    u32 rises[WORDS] = {};
    const u32 turn_end = min(end, turn + FEW_A_THREAD * WARP);
    for (u32 begin = turn; begin < turn_end; begin += WARP) {
      const u32 number = begin + lane_id();
      u32 zeros = 0, at = 0;
      if (number < turn_end) {
        at = counted[number];
        const u32 index = at & ~FIRST_OF_ROW;
        // The codes of the neighbours before the value along each set of axes; then, axis by axis, differences.
        u32 differences[SETS_OF_RANK];
#pragma unroll
        for (u32 set = 0; set < SETS_OF_RANK; set++) {
          u32 from = index;
#pragma unroll
          for (u32 axis = 0; axis < RANK; axis++) from -= set >> axis & 1 ? back[axis] : 0;
          differences[set] = u32(codes[from]);
        }
#pragma unroll
        for (u32 axis = 0; axis < RANK; axis++) {
#pragma unroll
          for (u32 set = 0; set < SETS_OF_RANK; set++) {
            if (set >> axis & 1) differences[set] = differences[set ^ 1u << axis] - differences[set];
          }
        }
#pragma unroll
        for (u32 set = 0; set < SETS_OF_RANK; set++) {
          sums[set].add(i32(differences[set]));
          zeros |= u32(differences[set] == 0) << set;
        }
      }
      const u32 lane_before = __shfl_up_sync(ALL_LANES, zeros, 1);
      const bool is_in_row = number < turn_end && !(at & FIRST_OF_ROW);
      const u32 others = is_in_row ? ~zeros : 0, of_sets = (lane_id() ? lane_before : last_zeros) & others;
#pragma unroll
      for (u32 word = 0; word < WORDS; word++) rises[word] += (of_sets >> 4 * word & 15) * 0x204081 & 0x1010101;
      if (begin == first) first_others = others;
      last_zeros = __shfl_sync(ALL_LANES, zeros, WARP - 1);
    }
    // Lane `set` adds the warp's counts of a set.
    ThreadCounts of_set = {};
    u32 of_rises = 0;
#pragma unroll
    for (u32 set = 0; set < SETS_OF_RANK; set++) {
      const ThreadCounts sum = sums[set].sum_of_few();
      if (lane_id() == set) of_set = sum;
    }
#pragma unroll
    for (u32 word = 0; word < WORDS; word++) {
      const u32 sum = __reduce_add_sync(ALL_LANES, rises[word]);
      if (lane_id() / 4 == word) of_rises = sum >> 8 * (lane_id() % 4) & 0xff;
    }
    if (is_set) add_counts(memory.counts[lane_id()], of_set.counts(turn_end - turn, of_rises));
  }
  if (lane_id() == 0) memory.last_zeros[warp_id()] = last_zeros;
  __syncthreads();
  if (first >= end) return;
  // The value before the warp's first one is the last one of the warp before.
  if (part.number == 0) return;
  const u32 rises = memory.last_zeros[warp_id() - 1] & __shfl_sync(ALL_LANES, first_others, 0);
  if (is_set && rises >> lane_id() & 1) atomicAdd(&memory.counts[lane_id()].rises, 1u);
}

/// Measures the differences of a block's tiles.
template <typename V>
__device__ __forceinline__ void measure_differences(const TileBlock& block, DifferenceMemory& memory) {
  u32* const words = reinterpret_cast<u32*>(memory.counts);
  for (u32 word = threadIdx.x; word < sizeof(memory.counts) / 4; word += TILE_THREADS) words[word] = 0;
  if (threadIdx.x == 0) memory.between_steps = memory.out_of_reach = 0;
  __syncthreads();
  read_tiles<V>(block, memory);
  switch (block.kind().shape.rank) {
    case 1: count_differences<1>(block, memory); break;
    case 2: count_differences<2>(block, memory); break;
    case 3: count_differences<3>(block, memory); break;
    default: count_differences<4>(block, memory);
  }
  __syncthreads();
  KindCounts& sums = block.sums();
  u32* const all = reinterpret_cast<u32*>(sums.differences);
  for (u32 word = threadIdx.x; word < sizeof(memory.counts) / 4; word += TILE_THREADS) {
    if (words[word]) atomicAdd(&all[word], words[word]);
  }
  if (threadIdx.x != 0) return;
  if (memory.between_steps) atomicAdd(&sums.between_steps, memory.between_steps);
  if (memory.out_of_reach) atomicAdd(&sums.out_of_reach, memory.out_of_reach);
  // Interpolated tiles have a block each.
  if (block.is_interpolated && memory.out_of_reach > block.job.most_out_of_reach) atomicAdd(&sums.tiles_out_of_reach, 1);
}

/// Shared memory of a block that interpolates a group of tiles of up to VALUES values.
template <u32 VALUES>
struct GroupMemory {
  GroupEntry entries[VALUES];
  /// By the number of a residual: a bit for each tile, which is 1 if its residual is 0.
  u8 zeros[VALUES];
};
static_assert(GROUP_TILES <= 8, "a bit a tile");

/// A thread's part in the interpolation of a group of tiles. ALL_BETWEEN: every value of the group is between positions, so that each has a residual.
template <typename Memory, bool ALL_BETWEEN>
struct GroupCoder {
  const TileBlock& block;
  Memory& memory;
  u32 first_counted;  // number of the first residual that counts
  bool is_linear;
  ThreadCounts sums;
  u32 residuals;  // that count
  u32 outliers;   // escapes, and exceptions that have a code

  /// Codes the value of each tile at an index and puts its position in place of its entry. The residual is that of the nearest position.
  __device__ __forceinline__ void code_values(u32 index, u32 number, const i32 (&predictions)[GROUP_TILES]) {
    GroupEntry entry = memory.entries[index];
    const bool counts = number >= first_counted;
    u32 zeros = 0;
#pragma unroll
    for (u32 tile = 0; tile < GROUP_TILES; tile++) {
      const u32 how = ALL_BETWEEN ? BETWEEN_POSITIONS : u32(entry.of[tile]) & ENTRY_KINDS;
      const i32 nearest = entry.of[tile] >> ENTRY_KIND_BITS, distance = i32(u32(nearest) - u32(predictions[tile]));
      const bool is_escape = how == ON_POSITION && u32(distance) % POSITIONS_PER_STEP != 0;
      const bool is_coded = how >= BETWEEN_POSITIONS && !is_escape;
      const i32 residual = is_coded ? i32(u32(distance) + POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP_LOG : 0;
      entry.of[tile] = is_escape ? nearest : i32(u32(predictions[tile]) + u32(residual) * POSITIONS_PER_STEP);
      zeros |= u32(residual == 0) << tile;
      if (counts && tile < block.count) {
        sums.add(residual);
        outliers += is_escape || how == OUT_OF_REACH;
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

/// Interpolates a group of tiles, whose entries are in `memory`, and counts its residuals. `interpolation`: the number of its kind. The caller has
/// passed a barrier behind its writes of the entries.
template <bool ALL_BETWEEN, typename Memory>
__device__ __forceinline__ void measure_residuals(const TileBlock& block, Memory& memory, u32 interpolation) {
  const TileKind& kind = block.kind();
  const TilePasses& passes = *block.job.passes;
  const TileTerm* terms = terms_of(block.job, interpolation);
  const u32 first = kind.uncounted_residuals;
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
  const u32 outliers = __reduce_add_sync(ALL_LANES, coder.outliers);
  if (lane_id() == 0) {
    add_counts(block.sums().residuals[interpolation], counted);
    atomicAdd(&block.sums().outliers[interpolation], outliers);
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

/// Measures the differences that block `number` of a chunk takes: first come the blocks of interpolated tiles.
template <typename V>
__device__ __forceinline__ void measure_differences(const TileJob& job, u32 number, DifferenceMemory& memory) {
  const u32 tiles = job.kinds[INTERPOLATED_KIND].count, all = job.kinds[DIFFERENCE_KIND].count;
  if (number < INTERPOLATED_TILES) {
    if (number < tiles) measure_differences<V>({job, blockIdx.y, true, number, 1}, memory);
    return;
  }
  const u32 first = (number - INTERPOLATED_TILES) * job.tiles_per_block;
  if (first < all) measure_differences<V>({job, blockIdx.y, false, first, min(all - first, job.tiles_per_block)}, memory);
}

/// Measures all that the host may ask for of a chunk's tiles. First come the blocks of interpolation, which take longer.
template <typename V>
__device__ __forceinline__ void measure_tiles(const TileJob& job) {
  __shared__ union {
    DifferenceMemory of_differences;
    GroupMemory<MAX_TILE_VALUES> of_group;
  } memory;
  __shared__ bool is_last;
  const u32 tiles = job.kinds[INTERPOLATED_KIND].count, interpolating = GROUPS * job.candidates;
  if (blockIdx.x >= interpolating) {
    measure_differences<V>(job, blockIdx.x - interpolating, memory.of_differences);
  } else if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
    const u32 first = blockIdx.x % GROUPS * GROUP_TILES;
    if (first < tiles) {
      const TileBlock block = {job, 0, true, first, min(tiles - first, GROUP_TILES)};
      make_entries<V>(block, memory.of_group);
      __syncthreads();
      measure_residuals<false>(block, memory.of_group, job.candidate_numbers[blockIdx.x / GROUPS]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // The block that is done last sees the counts of all blocks.
    __threadfence();
    is_last = atomicAdd(&job.sums->blocks_done, 1) + 1 == gridDim.x;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  // The next launch begins with zeros again.
  volatile u32* all = reinterpret_cast<volatile u32*>(job.sums);
  for (u32 word = threadIdx.x; word < sizeof(TileSums) / 4; word += TILE_THREADS) {
    reinterpret_cast<u32*>(job.host_sums)[word] = all[word];
    all[word] = 0;
  }
}

/// Reads the interpolated tiles of a batch, and measures the differences of the others. Grid: groups of interpolated tiles and then blocks of differences;
/// chunks.
template <typename V>
__device__ __forceinline__ void measure_batch(const TileJob& job) {
  __shared__ union {
    DifferenceMemory of_differences;
    u32 out_of_reach[GROUP_TILES];
  } memory;
  if (blockIdx.x >= GROUPS) return measure_differences<V>(job, INTERPOLATED_TILES + blockIdx.x - GROUPS, memory.of_differences);
  if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
    const u32 tiles = job.kinds[INTERPOLATED_KIND].count, first = blockIdx.x * GROUP_TILES;
    if (first < tiles) read_group<V>({job, blockIdx.y, true, first, min(tiles - first, GROUP_TILES)}, memory.out_of_reach);
  }
}

/// Measures kinds of interpolation of a batch: cubic and linear, or those that were decided on; in the second round also differences along the best set of
/// axes. Grid: groups of tiles and kinds; chunks.
template <u32 VALUES>
__device__ __forceinline__ void measure_kinds_of_batch(const TileJob& job, u32 round) {
  __shared__ GroupMemory<VALUES> memory;
  const TileSums& sums = job.sums[blockIdx.y];
  const u32 tiles = job.kinds[INTERPOLATED_KIND].count, number = blockIdx.x / GROUPS, first = blockIdx.x % GROUPS * GROUP_TILES;
  if (first >= tiles || (round != FIRST_ROUND && !sums.is_interpolation_open)) return;
  const TileBlock block = {job, blockIdx.y, true, first, min(tiles - first, GROUP_TILES)};
  if (round == ROUGH_ROUND && number == job.rough_kinds) {
    switch (block.kind().shape.rank) {
      case 1: return count_differences_of_set<1>(block, memory, sums.set);
      case 2: return count_differences_of_set<2>(block, memory, sums.set);
      case 3: return count_differences_of_set<3>(block, memory, sums.set);
      default: return count_differences_of_set<4>(block, memory, sums.set);
    }
  }
  const u32 kind = round == FIRST_ROUND   ? number * LINEAR_INTERPOLATION
                   : round == ROUGH_ROUND ? sums.rough_kinds[number]
                                          : sums.last_kinds[number];
  if (kind == NO_KIND) return;
  if (__syncthreads_or(load_entries(block, memory))) {
    measure_residuals<false>(block, memory, kind);
  } else {
    measure_residuals<true>(block, memory, kind);
  }
}

/// Decides after a round: on what the next one measures, or on the predictors. A warp takes a chunk.
extern "C" __global__ void __launch_bounds__(WARP) choose_by_tiles(const __grid_constant__ TileJob job, u32 round) { decide(job, blockIdx.x, round); }

extern "C" __global__ void __launch_bounds__(TILE_THREADS, 6) measure_tiles_f32(const __grid_constant__ TileJob job) { measure_tiles<float>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 6) measure_tiles_f64(const __grid_constant__ TileJob job) { measure_tiles<double>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 6) measure_tiles_f16(const __grid_constant__ TileJob job) { measure_tiles<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 6) measure_tiles_bf16(const __grid_constant__ TileJob job) { measure_tiles<BFloat16>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 8) measure_batch_f32(const __grid_constant__ TileJob job) { measure_batch<float>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 8) measure_batch_f64(const __grid_constant__ TileJob job) { measure_batch<double>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 8) measure_batch_f16(const __grid_constant__ TileJob job) { measure_batch<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 8) measure_batch_bf16(const __grid_constant__ TileJob job) { measure_batch<BFloat16>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 10) measure_kinds(const __grid_constant__ TileJob job, u32 round) {
  measure_kinds_of_batch<SMALL_TILE_VALUES>(job, round);
}
extern "C" __global__ void __launch_bounds__(TILE_THREADS) measure_kinds_of_large_tiles(const __grid_constant__ TileJob job, u32 round) {
  measure_kinds_of_batch<MAX_TILE_VALUES>(job, round);
}
