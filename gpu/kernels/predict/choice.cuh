// Stage 0 (FORMAT.md §11.3): counts over the residuals of a chunk's tiles, and the predictor that follows from them. CPU:
// codec/src/predict/choice/tiles.rs, codec/src/predict/choice/interpolated_tiles.rs, codec/src/predict/choice/tile_lanes.rs.
//
//   values -> codes -> differences along all sets of axes -> counts
//        └──> nearest positions -> interpolation of the tile as a chunk -> residuals -> counts        (of interpolated tiles alone)
//
// TILE_THREADS threads a block. Differences: a block takes one or more tiles. Interpolation: a block takes GROUP_TILES tiles and one kind. All tiles of a
// chunk have equal extents, so that neighbours and weights of a value are found once for all of them; `make_tile_tables` has done it. Positions of a value of
// the group are next to each other in shared memory.
//
// For one chunk everything is measured in one launch, as the time is that of the longest block; the block that is done last writes the counts to pinned memory,
// and the host decides. For a batch of chunks the time is that of all instructions, so that only what the decision asks for is measured:
//
//   differences, nearest positions -> cubic and linear interpolation -> choose_kinds -> interpolation with rough axes
//       -> choose_kinds -> interpolation of the kinds around the best one -> choose_predictors
#pragma once

#include "../quantize/linear.cuh"
#include "estimate.cuh"
#include "tile_counts.cuh"
#include "tile_tables.cuh"

/// Entries of a value of GROUP_TILES tiles: first how each is coded, then its position.
struct alignas(16) GroupEntry {
  i32 of[GROUP_TILES];
};
static_assert(sizeof(GroupEntry) == 16, "one load from shared memory");
/// Groups of tiles that are interpolated.
constexpr u32 GROUPS = INTERPOLATED_TILES / GROUP_TILES;
static_assert(INTERPOLATED_TILES % GROUP_TILES == 0, "whole groups");

/// How interpolation codes a value: the lowest bits of its entry. Its nearest position is above them.
enum : u32 { HAS_NO_CODE, OUT_OF_REACH, BETWEEN_POSITIONS, ON_POSITION };
constexpr u32 ENTRY_KIND_BITS = 2;

/// A value of a tile.
template <typename V>
struct TileValue {
  typedef typename ValueType<V>::Bits Bits;
  V value;
  double scaled, sum, steps;
  bool has_code;

  __device__ __forceinline__ TileValue(const TileJob& job, Bits bits)
      : value(ValueType<V>::from_bits(bits)),
        scaled(double(value) * job.inverse_step),
        sum(scaled + ROUNDING),
        steps(sum - ROUNDING),
        has_code(fabs(scaled) < ValueType<V>::CODE_LIMIT && !(job.has_fill && u64(bits) == job.fill_bits)) {}

  /// The code modulo 2^32.
  __device__ __forceinline__ i32 code() const { return i32(u32(u64(code_from_sum<V>(sum)))); }

  /// The entry of interpolation. `is_between`: whether the value is between two steps of the fine grid, with a code or without.
  __device__ __forceinline__ i32 entry(const FineGrid& fine, bool& is_between) const {
    is_between = false;
    if (!(fabs(steps) < fine.steps_limit)) return i32(has_code ? OUT_OF_REACH : HAS_NO_CODE);
    const Nearest<V> nearest(fine, value, steps);
    is_between = nearest.exact && nearest.rest != 0.0;
    const i32 position = i32(steps * double(POSITIONS_PER_STEP) + nearest.rest);
    return i32(u32(position) << ENTRY_KIND_BITS | (has_code ? nearest.exact ? ON_POSITION : BETWEEN_POSITIONS : HAS_NO_CODE));
  }
};

/// Where a block of threads is at work.
struct TileBlock {
  const TileJob& job;
  u32 chunk;
  bool is_interpolated;  // the kind of its tiles
  u32 first, count;      // its tiles

  __device__ __forceinline__ u32 kind_number() const { return is_interpolated ? INTERPOLATED_KIND : DIFFERENCE_KIND; }
  __device__ __forceinline__ const TileKind& kind() const { return job.kinds[kind_number()]; }
  __device__ __forceinline__ KindCounts& sums() const { return job.sums[chunk].kinds[kind_number()]; }
  /// The first value of tile `number` of the block.
  __device__ __forceinline__ const void* tile(u32 number) const {
    const u64 base = job.chunks ? job.chunks[chunk] : 0;
    return reinterpret_cast<const void*>(base + job.tiles[(is_interpolated ? 0 : INTERPOLATED_TILES) + first + number]);
  }
  /// The entries of a group of a chunk, of a batch.
  __device__ __forceinline__ GroupEntry* entries() const {
    return reinterpret_cast<GroupEntry*>(job.entries) + (u64(chunk) * GROUPS + first / GROUP_TILES) * kind().shape.elements;
  }
};

/// What the block of a tile's differences keeps in shared memory.
struct DifferenceMemory {
  ResidualCounts counts[AXIS_SETS];
  u32 between_steps, out_of_reach;
  /// Of one tile after the other.
  i32 codes[MAX_TILE_VALUES];
  /// First whether a value has no code. Then, by the number of a counted value, the sets of axes along which its difference is 0.
  u16 marks[MAX_TILE_VALUES];
};
static_assert(SETS <= 16, "a bit a set of axes");

/// Reads tiles and makes their codes. Of tiles that are interpolated in other blocks, of a batch, it writes the entries.
template <typename V>
__device__ __forceinline__ void read_tiles(const TileBlock& block, DifferenceMemory& memory) {
  const TileJob& job = block.job;
  const TileKind& kind = block.kind();
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  const u32 elements = kind.shape.elements;
  const u32* offsets = job.offsets + block.kind_number() * MAX_TILE_VALUES;
  u32 out_of_reach = 0, between_steps = 0;
  bool has_gaps = false;
  for (u32 index = threadIdx.x; index < block.count * elements; index += TILE_THREADS) {
    const u32 number = quotient<true>(index, elements), in_tile = index - number * elements;
    const TileValue<V> value(job, read_bits<V>(block.tile(number), offsets[in_tile], job.big_endian));
    memory.codes[index] = value.code();
    memory.marks[index] = !value.has_code;
    has_gaps = has_gaps || !value.has_code;
    out_of_reach += value.has_code && fabs(value.scaled) >= ValueType<V>::STEPS_LIMIT;
    if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
      if (job.candidates) {
        bool is_between;
        const i32 entry = value.entry(fine, is_between);
        between_steps += is_between;
        if (job.entries && block.is_interpolated) block.entries()[in_tile].of[(block.first + number) % GROUP_TILES] = entry;
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
    if (!memory.marks[index]) continue;
    const u32 row = index - index % kind.shape.extents[0];
    u32 behind = index;
    while (behind > row && memory.marks[behind - 1]) behind--;
    memory.codes[index] = behind > row ? memory.codes[behind - 1] : 0;
  }
  __syncthreads();
}

/// Counts the differences along all sets of the axes of tiles with RANK axes, of values that have a neighbour before them along every axis longer than 1.
template <u32 RANK>
__device__ __forceinline__ void count_differences(const TileBlock& block, DifferenceMemory& memory) {
  constexpr u32 SETS_OF_RANK = 1u << RANK;
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
  const u32 count = block.count * kind.counted;
  ThreadCounts sums[SETS_OF_RANK] = {};
  u32 own_count = 0;
  for (u32 number = threadIdx.x; number < count; number += TILE_THREADS, own_count++) {
    const u32 tile = quotient<true>(number, kind.counted);
    const u32 index = tile * shape.elements + (counted[number - tile * kind.counted] & ~FIRST_OF_ROW);
    // The codes of the neighbours before the value along each set of axes; then, axis by axis, differences.
    u32 differences[SETS_OF_RANK], own = 0;
#pragma unroll
    for (u32 set = 0; set < SETS_OF_RANK; set++) {
      u32 from = index;
#pragma unroll
      for (u32 axis = 0; axis < RANK; axis++) from -= set >> axis & 1 ? back[axis] : 0;
      differences[set] = u32(memory.codes[from]);
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
      own |= u32(differences[set] == 0) << set;
    }
    memory.marks[number] = u16(own);
  }
  __syncthreads();
  if (warp_id() * WARP >= count) return;
  // Four sets a word, a byte each.
  constexpr u32 WORDS = (SETS_OF_RANK + 3) / 4;
  u32 rises[WORDS] = {};
  for (u32 number = threadIdx.x; number < count; number += TILE_THREADS) {
    const u32 tile = quotient<true>(number, kind.counted);
    if (counted[number - tile * kind.counted] & FIRST_OF_ROW) continue;
    const u32 of_sets = u32(memory.marks[number - 1]) & ~u32(memory.marks[number]);
#pragma unroll
    for (u32 word = 0; word < WORDS; word++) rises[word] += (of_sets >> 4 * word & 15) * 0x204081 & 0x1010101;
  }
  const u32 residuals = __reduce_add_sync(ALL_LANES, own_count);
  // Lane `set` adds the warp's counts of a set.
  ResidualCounts own = {};
#pragma unroll
  for (u32 set = 0; set < SETS_OF_RANK; set++) {
    ResidualCounts sum = sums[set].sum_of_warp(residuals);
    sum.rises = __reduce_add_sync(ALL_LANES, rises[set / 4] >> 8 * (set % 4) & 0xff);
    if (lane_id() == set) own = sum;
  }
  if (lane_id() < SETS_OF_RANK && !(lane_id() & flat)) add_counts(memory.counts[lane_id()], own);
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

/// What the block of a group of tiles of up to VALUES values keeps in shared memory.
template <u32 VALUES>
struct GroupMemory {
  GroupEntry entries[VALUES];
  /// By the number of a residual: a bit for each tile, which is 1 if its residual is 0.
  u8 zeros[VALUES];
};
static_assert(GROUP_TILES <= 8, "a bit a tile");

/// A thread's part in the interpolation of a group of tiles.
template <typename Memory>
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
      const u32 how = u32(entry.of[tile]) & ((1u << ENTRY_KIND_BITS) - 1);
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

/// Loads the entries of a group of tiles of a batch.
template <typename Memory>
__device__ __forceinline__ void load_entries(const TileBlock& block, Memory& memory) {
  const GroupEntry* entries = block.entries();
  for (u32 index = threadIdx.x; index < block.kind().shape.elements; index += TILE_THREADS) memory.entries[index] = entries[index];
}

/// Interpolates a group of tiles, whose entries are in `memory`, and counts its residuals. `way`: the number of the kind of interpolation.
template <typename Memory>
__device__ __forceinline__ void measure_residuals(const TileBlock& block, Memory& memory, u32 way) {
  const TileKind& kind = block.kind();
  const TilePasses& passes = *block.job.passes;
  const TileTerm* terms = terms_of(block.job, way);
  const u32 first = kind.uncounted_residuals;
  GroupCoder<Memory> coder = {block, memory, first, (way & LINEAR_INTERPOLATION) != 0, {}, 0, 0};
  __syncthreads();
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
  ResidualCounts counted = coder.sums.sum_of_warp(__reduce_add_sync(ALL_LANES, coder.residuals));
  counted.rises = __reduce_add_sync(ALL_LANES, rises);
  const u32 outliers = __reduce_add_sync(ALL_LANES, coder.outliers);
  if (lane_id() == 0) {
    add_counts(block.sums().residuals[way], counted);
    atomicAdd(&block.sums().outliers[way], outliers);
  }
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
      measure_residuals(block, memory.of_group, job.candidate_numbers[blockIdx.x / GROUPS]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // Whoever is done last sees the counts of all.
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

/// Measures the differences of a batch, and writes the entries of interpolated tiles. Grid: blocks of a chunk, chunks.
template <typename V>
__device__ __forceinline__ void measure_batch(const TileJob& job) {
  __shared__ DifferenceMemory memory;
  measure_differences<V>(job, blockIdx.x, memory);
}

/// Measures kinds of interpolation of a batch: cubic and linear, or those that `choose_kinds` has chosen. Grid: groups of tiles and kinds, chunks.
template <u32 VALUES>
__device__ __forceinline__ void measure_kinds_of_batch(const TileJob& job, u32 round) {
  __shared__ GroupMemory<VALUES> memory;
  const TileSums& sums = job.sums[blockIdx.y];
  const u32 tiles = job.kinds[INTERPOLATED_KIND].count, number = blockIdx.x / GROUPS, first = blockIdx.x % GROUPS * GROUP_TILES;
  if (first >= tiles || (round != FIRST_ROUND && !sums.is_interpolation_open)) return;
  const u32 kind = round == FIRST_ROUND   ? number * LINEAR_INTERPOLATION
                   : round == ROUGH_ROUND ? sums.rough_kinds[number]
                                          : sums.last_kinds[number];
  if (kind == NO_KIND) return;
  const TileBlock block = {job, blockIdx.y, true, first, min(tiles - first, GROUP_TILES)};
  load_entries(block, memory);
  measure_residuals(block, memory, kind);
}

/// Chooses the kinds of interpolation that are measured in a round. A warp a chunk.
extern "C" __global__ void __launch_bounds__(WARP) choose_kinds(const __grid_constant__ TileJob job, u32 round) {
  TileSums& sums = job.sums[blockIdx.x];
  const TileDecision decision(job, sums);
  u32 last_kinds[MAX_LAST_KINDS];
  if (round == LAST_ROUND) decision.find_last_kinds(decision.best_of_rough().kind, last_kinds);
  if (lane_id() != 0) return;
  if (round == ROUGH_ROUND) {
    sums.is_interpolation_open = decision.is_interpolation_open;
    for (u32 number = 0; number < MAX_ROUGH_KINDS; number++) sums.rough_kinds[number] = decision.rough_kinds[number];
  } else {
    for (u32 number = 0; number < MAX_LAST_KINDS; number++) sums.last_kinds[number] = last_kinds[number];
  }
}

/// Chooses the predictors. A warp a chunk.
extern "C" __global__ void __launch_bounds__(WARP) choose_predictors(const __grid_constant__ TileJob job) {
  const TileDecision decision(job, job.sums[blockIdx.x]);
  const u32 predictor = decision.predictor();
  if (lane_id() == 0) job.host_predictors[blockIdx.x] = predictor;
}

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
