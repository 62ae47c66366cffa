// Stage 0 (FORMAT.md §11.3): counts over the differences of a chunk's tiles along all sets of axes. CPU: codec/src/predict/choice/tiles.rs.
#pragma once

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
