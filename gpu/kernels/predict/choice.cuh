// Stage 0 (FORMAT.md §11.3): counts over the residuals of a chunk's tiles, and the predictor that follows from them. CPU: codec/src/predict/choice.rs,
// codec/src/predict/choice/lanes.rs.
//
//   values -> codes -> differences along all sets of axes -> counts
//        └──> nearest positions -> interpolation of the tile as a chunk -> residuals -> counts
//
// A block of TILE_THREADS threads takes GROUP_TILES tiles, and their differences or one kind of interpolation. All tiles of a chunk have equal extents, so that
// neighbours and weights of a value are found once for all of them; `make_tile_tables` has done it. Positions of a value of the group are next to each other in
// shared memory, and so are its codes.
//
// One chunk takes as long as its longest block, so that one launch measures everything. The block that is done last writes the counts to pinned memory, and
// the host decides. A batch of chunks takes the time of all instructions, so that each launch measures only what the decision needs:
//
//   differences, nearest positions -> cubic and linear interpolation -> choose_by_tiles -> interpolation with rough axes -> choose_by_tiles
//       -> interpolation of the last kind -> choose_by_tiles
#pragma once

#include "estimate.cuh"
#include "tile_differences.cuh"
#include "tile_groups.cuh"

/// Measures all that the host may ask for of a chunk's tiles. First come the blocks of interpolation, which take longer.
template <typename V>
__device__ __forceinline__ void measure_tiles(const TileJob& job) {
  __shared__ union {
    DifferenceMemory of_differences;
    GroupMemory<MAX_TILE_VALUES> of_group;
  } memory;
  __shared__ bool is_last;
  const TileBlock block = {job, 0, blockIdx.x % GROUPS};
  const u32 number = blockIdx.x / GROUPS;
  if (number == job.candidates) {
    measure_differences<V>(block, memory.of_differences, nullptr);
  } else if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
    make_entries<V>(block, memory.of_group);
    __syncthreads();
    measure_residuals<false>(block, memory.of_group, job.candidate_numbers[number]);
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

/// Reads the tiles of a batch, and measures their differences. Grid: groups of tiles; chunks.
template <typename V>
__device__ __forceinline__ void measure_batch(const TileJob& job) {
  __shared__ DifferenceMemory memory;
  const TileBlock block = {job, blockIdx.y, blockIdx.x};
  measure_differences<V>(block, memory, job.candidates ? block.entries() : nullptr);
}

/// Measures kinds of interpolation of a batch: cubic and linear, or those that were decided on. Grid: groups of tiles and kinds; chunks.
template <u32 VALUES>
__device__ __forceinline__ void measure_kinds_of_batch(const TileJob& job, u32 round) {
  __shared__ GroupMemory<VALUES> memory;
  const TileSums& sums = job.sums[blockIdx.y];
  if (round != FIRST_ROUND && !sums.is_interpolation_open) return;
  const u32 number = blockIdx.x / GROUPS;
  const u32 kind = round == FIRST_ROUND   ? number * LINEAR_INTERPOLATION
                   : round == ROUGH_ROUND ? sums.first_kind | long_axis(job, number)
                                          : sums.last_kind;
  if (kind == NO_KIND) return;
  const TileBlock block = {job, blockIdx.y, blockIdx.x % GROUPS};
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
