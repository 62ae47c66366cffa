// Stage 0 (FORMAT.md §11.3): counts over the residuals of a chunk's tiles. The host chooses the predictor by them. CPU:
// codec/src/predict/choice/tiles.rs, codec/src/predict/choice/interpolated_tiles.rs.
//
//   values -> codes -> differences along all sets of axes -> counts
//        └──> interpolation of the tile as a chunk -> residuals -> counts        (of interpolated tiles alone)
//
// TILE_THREADS threads a block. Each of 16 tiles of about 512 values has a block for each kind of interpolation, each of 64 tiles of about 64 values has
// one block. A block keeps a tile in shared memory, up to 36 KiB. Its counts are added to those of the device; the block that is done last writes all of them to
// pinned memory.
#pragma once

#include "../quantize/linear.cuh"
#include "interpolation.cuh"

/// A warp's counts over the residuals of one predictor.
struct WarpCounts {
  // 16 bits each, the name's first part in the lower ones.
  u32 zeros_and_ones;
  u32 rises_and_negative;
  u32 two_bits_and_large;
  u32 three_bits_and_magnitude_bits;

  __device__ __forceinline__ void add_to(ResidualCounts& sums) const {
    atomicAdd(&sums.zeros, zeros_and_ones & 0xffff);
    atomicAdd(&sums.ones, zeros_and_ones >> 16);
    atomicAdd(&sums.rises, rises_and_negative & 0xffff);
    atomicAdd(&sums.negative, rises_and_negative >> 16);
    atomicAdd(&sums.two_bits, two_bits_and_large & 0xffff);
    atomicAdd(&sums.large, two_bits_and_large >> 16);
    atomicAdd(&sums.three_bits, three_bits_and_magnitude_bits & 0xffff);
    atomicAdd(&sums.magnitude_bits, three_bits_and_magnitude_bits >> 16);
  }
};

/// A thread's counts over the residuals of one predictor.
struct ThreadCounts {
  // A byte each, from the lowest.
  u32 counts;   // zeros, rises, ones, negative ones
  u32 lengths;  // residuals of two bits, of three bits, large ones; bits of all magnitudes

  __device__ __forceinline__ void add(i32 residual) {
    const u32 magnitude = min(residual < 0 ? 0u - u32(residual) : u32(residual), MAX_COUNTED_MAGNITUDE);
    const bool is_large = magnitude >= LARGE_MAGNITUDE;
    counts += u32(magnitude == 0) | u32(magnitude == 1) << 16 | u32(residual < 0 && !is_large) << 24;
    lengths += u32(magnitude >> 1 == 1) | u32(magnitude >> 2 == 1) << 8 | u32(is_large) << 16 | bit_length(magnitude) << 24;
  }
  /// Counts a residual other than 0 behind a 0, if there is one.
  __device__ __forceinline__ void add_rise(bool is_rise) { counts += u32(is_rise) << 8; }

  __device__ __forceinline__ WarpCounts sum_of_warp() const {
    return {__reduce_add_sync(ALL_LANES, counts & 0xff00ff), __reduce_add_sync(ALL_LANES, counts >> 8 & 0xff00ff),
            __reduce_add_sync(ALL_LANES, lengths & 0xff00ff), __reduce_add_sync(ALL_LANES, lengths >> 8 & 0xff00ff)};
  }
};
constexpr u32 TILE_VALUES_PER_THREAD = (MAX_TILE_VALUES + TILE_THREADS - 1) / TILE_THREADS;
constexpr u32 MAX_LENGTH_IN_BITS = 16;
static_assert(MAX_COUNTED_MAGNITUDE < 1u << MAX_LENGTH_IN_BITS, "a magnitude's length");
static_assert(TILE_VALUES_PER_THREAD * MAX_LENGTH_IN_BITS < 256, "a thread's counts fit");

/// Coordinates of a tile's value.
__device__ __forceinline__ void find_in_tile(const Shape& shape, u32 index, u32 (&at)[MAX_RANK]) {
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) {
    const u32 rest = axis + 1 < MAX_RANK ? quotient<true>(index, shape.extents[axis]) : 0;
    at[axis] = index - rest * shape.extents[axis];
    index = rest;
  }
}

/// What the block of a tile keeps in shared memory.
template <typename V>
struct TileMemory {
  /// Values; interpolation replaces them by their positions.
  EncodeRoom<V, MAX_TILE_VALUES> values;
  /// Codes modulo 2^32; then the residuals of interpolation.
  i32 codes[MAX_TILE_VALUES];
  /// First whether a value has no code. Then the sets of axes along which its difference is 0, and 16 bits above those along which it is not.
  u32 marks[MAX_TILE_VALUES];
};
static_assert(SETS <= 16, "two bits a set of axes");

/// Reads a tile and makes its codes.
template <typename V>
__device__ __forceinline__ void read_tile(const TileJob& job, const TileKind& kind, const void* tile, TileMemory<V>& memory, KindCounts& counts) {
  const Shape& shape = kind.shape;
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  u32 out_of_reach = 0, between_steps = 0;
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    u32 at[MAX_RANK];
    find_in_tile(shape, index, at);
    const auto bits = read_bits<V>(tile, dot(at, kind.strides), job.big_endian);
    const V value = ValueType<V>::from_bits(bits);
    const double scaled = double(value) * job.inverse_step, sum = scaled + ROUNDING, steps = sum - ROUNDING;
    const bool has_code = fabs(scaled) < ValueType<V>::CODE_LIMIT && !(job.has_fill && u64(bits) == job.fill_bits);
    memory.values.slots[index] = bits;
    memory.codes[index] = i32(u32(u64(code_from_sum<V>(sum))));
    memory.marks[index] = !has_code;
    out_of_reach += has_code && fabs(scaled) >= ValueType<V>::STEPS_LIMIT;
    if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
      if (job.candidates && fabs(steps) < fine.steps_limit) {
        const Nearest<V> nearest(fine, value, steps);
        between_steps += nearest.exact && nearest.rest != 0.0;
      }
    }
  }
  out_of_reach = __reduce_add_sync(ALL_LANES, out_of_reach);
  between_steps = __reduce_add_sync(ALL_LANES, between_steps);
  if (lane_id() == 0 && out_of_reach) atomicAdd(&counts.out_of_reach, out_of_reach);
  if (lane_id() == 0 && between_steps) atomicAdd(&counts.between_steps, between_steps);
  __syncthreads();
}

/// Values of a tile without a code get that of their left neighbour in the row, or 0.
__device__ __forceinline__ void take_left_neighbours(const Shape& shape, i32* codes, const u32* marks) {
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    if (!marks[index]) continue;
    const u32 row = index - index % shape.extents[0];
    u32 behind = index;
    while (behind > row && marks[behind - 1]) behind--;
    codes[index] = behind > row ? codes[behind - 1] : 0;
  }
  __syncthreads();
}

/// Counts the differences along all sets of the axes of a tile with RANK axes, of values that have a neighbour before them along every axis longer than 1.
template <u32 RANK>
__device__ __forceinline__ void count_differences(const Shape& shape, const i32* codes, u32* marks, KindCounts& counts) {
  constexpr u32 SETS_OF_RANK = 1u << RANK;
  u32 flat = 0;  // the set of axes of extent 1
#pragma unroll
  for (u32 axis = 0; axis < RANK; axis++) flat |= u32(shape.extents[axis] == 1) << axis;
  ThreadCounts sums[SETS_OF_RANK] = {};
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    u32 at[MAX_RANK], back[RANK];
    find_in_tile(shape, index, at);
    bool is_counted = true;
#pragma unroll
    for (u32 axis = 0; axis < RANK; axis++) {
      is_counted = is_counted && (at[axis] > 0 || flat >> axis & 1);
      back[axis] = flat >> axis & 1 ? 0 : shape.strides[axis];
    }
    u32 own = 0;
    if (is_counted) {
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
        own |= (differences[set] == 0 ? 1u : 1u << 16) << set;
      }
    }
    marks[index] = own;
  }
  __syncthreads();
  if (warp_id() * WARP >= shape.elements) return;
  for (u32 index = threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    const u32 rises = index > 0 ? marks[index] >> 16 & marks[index - 1] : 0;
#pragma unroll
    for (u32 set = 0; set < SETS_OF_RANK; set++) sums[set].add_rise(rises >> set & 1);
  }
  // Lane `set` adds the warp's counts of a set.
  WarpCounts own = {};
#pragma unroll
  for (u32 set = 0; set < SETS_OF_RANK; set++) {
    const WarpCounts sum = sums[set].sum_of_warp();
    if (lane_id() == set) own = sum;
  }
  if (lane_id() < SETS_OF_RANK && !(lane_id() & flat)) own.add_to(counts.differences[lane_id()]);
}

/// What interpolation needs of a tile: the side of `coarse_levels` that encodes.
template <typename V>
struct TileSide {
  typedef EncodeRoom<V, MAX_TILE_VALUES> Room;
  static constexpr u32 BLOCK_THREADS = TILE_THREADS;
  const TileJob& job;
  i32* residuals;
  i32* positions;  // not used: no level is left for others
  u32 kind;        // of interpolation, the predictor's byte
  FineGrid fine;
  u32 first_counted;  // number of the first residual that counts
  u32& outliers;      // of this thread: escapes, and exceptions that have a code

  /// The values are in the room already.
  __device__ __forceinline__ void load(Room&, u32, u32) const {}

  /// Codes a value and returns its position: the residual is that of the nearest position.
  __device__ __forceinline__ i32 code_value(V value, u32, u32 residual_index, i32 prediction) const {
    const double scaled = double(value) * fine.inverse_step;
    const bool has_code = fabs(scaled) < ValueType<V>::CODE_LIMIT && !(job.has_fill && u64(ValueType<V>::to_bits(value)) == job.fill_bits);
    const Nearest<V> nearest(fine, value, (scaled + ROUNDING) - ROUNDING);
    i32 residual = 0, position = prediction;
    bool is_outlier = has_code;
    if (has_code && fabs(nearest.steps) < fine.steps_limit) {
      const i32 nearest_position = i32(nearest.steps * double(POSITIONS_PER_STEP) + nearest.rest);
      const i32 distance = i32(u32(nearest_position) - u32(prediction));
      is_outlier = nearest.exact && distance % i32(POSITIONS_PER_STEP) != 0;
      if (!is_outlier) residual = i32(u32(distance) + POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP_LOG;
      position = is_outlier ? nearest_position : i32(u32(prediction) + u32(residual) * POSITIONS_PER_STEP);
    }
    residuals[residual_index] = residual;
    outliers += is_outlier && residual_index >= first_counted;
    return position;
  }
};

/// Interpolates a tile and counts its residuals. `way`: the number of the kind of interpolation.
template <typename V>
__device__ __forceinline__ void count_residuals(const TileJob& job, const TileKind& kind, TileMemory<V>& memory, u32 way, KindCounts& counts) {
  const Shape& shape = kind.shape;
  const u32 first = kind.uncounted_residuals;
  u32 outliers = 0;
  const FineGrid fine = make_fine_grid<V>(job.step, job.inverse_step);
  const TileSide<V> side = {job, memory.codes, nullptr, INTERPOLATION | way, fine, first, outliers};
  coarse_levels(side, memory.values, shape, 0, kind.coarsest);
  const i32* residuals = memory.codes;
  ThreadCounts sums = {};
  for (u32 index = first + threadIdx.x; index < shape.elements; index += TILE_THREADS) {
    sums.add(residuals[index]);
    sums.add_rise(index > first && residuals[index] != 0 && residuals[index - 1] == 0);
  }
  const WarpCounts counted = sums.sum_of_warp();
  outliers = __reduce_add_sync(ALL_LANES, outliers);
  if (lane_id() == 0) {
    counted.add_to(counts.residuals[way]);
    atomicAdd(&counts.outliers[way], outliers);
  }
}

/// Counts the differences of a tile.
__device__ __forceinline__ void count_differences(const Shape& shape, const i32* codes, u32* marks, KindCounts& counts) {
  switch (shape.rank) {
    case 1: return count_differences<1>(shape, codes, marks, counts);
    case 2: return count_differences<2>(shape, codes, marks, counts);
    case 3: return count_differences<3>(shape, codes, marks, counts);
    default: return count_differences<4>(shape, codes, marks, counts);
  }
}

/// Measures a tile; an interpolated one by the kind of interpolation with number `way`. What does not depend on the kind is counted with kind 0. Types
/// without a fine grid are not interpolated.
template <typename V>
__device__ __forceinline__ void measure_tile(const TileJob& job, const TileKind& kind, const void* tile, bool is_interpolated, u32 way, KindCounts& counts) {
  __shared__ TileMemory<V> memory;
  read_tile(job, kind, tile, memory, counts);
  const bool is_out_of_reach = counts.out_of_reach > job.most_out_of_reach;
  if (way == 0) {
    take_left_neighbours(kind.shape, memory.codes, memory.marks);
    count_differences(kind.shape, memory.codes, memory.marks, counts);
    __syncthreads();
    if (is_interpolated && is_out_of_reach && threadIdx.x == 0) counts.tiles_out_of_reach = 1;
  } else {
    __syncthreads();
    if (threadIdx.x == 0) counts.out_of_reach = counts.between_steps = 0;
  }
  if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
    if (is_interpolated && !is_out_of_reach) count_residuals(job, kind, memory, way, counts);
  }
}

/// Measures all tiles of the chunks. Grid: blocks of a chunk, chunks. First come the blocks of interpolated tiles, which take longer.
template <typename V>
__device__ __forceinline__ void measure_tiles(const TileJob& job) {
  __shared__ KindCounts counts;
  __shared__ bool is_last;
  const u32 interpolated_blocks = INTERPOLATED_TILES * job.candidates;
  const bool is_interpolated = blockIdx.x < interpolated_blocks;
  const u32 kind = is_interpolated ? INTERPOLATED_KIND : DIFFERENCE_KIND;
  const u32 way = is_interpolated ? job.candidate_numbers[blockIdx.x / INTERPOLATED_TILES] : 0;
  const u32 number = is_interpolated ? blockIdx.x % INTERPOLATED_TILES : blockIdx.x - interpolated_blocks;
  u32* own = reinterpret_cast<u32*>(&counts);
  for (u32 word = threadIdx.x; word < sizeof(counts) / 4; word += TILE_THREADS) own[word] = 0;
  __syncthreads();
  if (number < job.kinds[kind].count) {
    const u64 chunk = job.chunks ? job.chunks[blockIdx.y] : 0;
    const void* tile = reinterpret_cast<const void*>(chunk + job.tiles[is_interpolated ? number : INTERPOLATED_TILES + number]);
    measure_tile<V>(job, job.kinds[kind], tile, is_interpolated, way, counts);
  }
  __syncthreads();
  u32* sums = reinterpret_cast<u32*>(&job.sums[blockIdx.y].kinds[kind]);
  for (u32 word = threadIdx.x; word < sizeof(counts) / 4; word += TILE_THREADS) {
    if (own[word]) atomicAdd(&sums[word], own[word]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // Whoever is done last sees the counts of all.
    __threadfence();
    is_last = atomicAdd(&job.sums[blockIdx.y].blocks_done, 1) + 1 == gridDim.x;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  // The next launch begins with zeros again.
  volatile u32* all = reinterpret_cast<volatile u32*>(&job.sums[blockIdx.y]);
  for (u32 word = threadIdx.x; word < sizeof(TileSums) / 4; word += TILE_THREADS) {
    reinterpret_cast<u32*>(&job.host_sums[blockIdx.y])[word] = all[word];
    all[word] = 0;
  }
}

extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2) measure_tiles_f32(const __grid_constant__ TileJob job) { measure_tiles<float>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2) measure_tiles_f64(const __grid_constant__ TileJob job) { measure_tiles<double>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2) measure_tiles_f16(const __grid_constant__ TileJob job) { measure_tiles<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 2) measure_tiles_bf16(const __grid_constant__ TileJob job) { measure_tiles<BFloat16>(job); }
