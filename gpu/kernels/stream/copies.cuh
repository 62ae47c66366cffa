// Copies between a caller's arrays in device memory and chunks in C order, and of streams between their slots and one packed array (gpu/src/resident.rs).
//
//   array, any strides ── copy_boxes ──> chunks ── kernels ──> slots, one a stream ── copy_runs ──> packed streams
//
// A block of threads belongs to one box or run, `blockIdx.y`.
#pragma once

#include "../job.cuh"

/// Values that a thread loads before it stores the first of them.
constexpr u32 COPIES_PER_THREAD = 4;

/// Copies boxes of values of one size.
template <typename T>
__device__ __forceinline__ void copy_boxes(const BoxJob& job) {
  const CopiedBox& box = job.boxes[blockIdx.y];
  u32 elements = 1;
  for (u32 axis = 0; axis < job.axes; axis++) elements *= box.lens[axis];
  const u32 stride = gridDim.x * COPIES_PER_THREAD * THREADS;
  u32 start = blockIdx.x * COPIES_PER_THREAD * THREADS + threadIdx.x;
  // A box may have almost 2^32 values, so that sums of indices are not formed before they are known to be below that.
  for (u32 left = elements - min(start, elements); left > 0; start += stride, left -= min(stride, left)) {
    T values[COPIES_PER_THREAD];
    T* targets[COPIES_PER_THREAD];
#pragma unroll
    for (u32 k = 0; k < COPIES_PER_THREAD; k++) {
      if (k * THREADS >= left) continue;
      u32 rest = start + k * THREADS;
      i64 from = i64(box.from), to = i64(box.to);
      for (u32 axis = 0; axis < job.axes; axis++) {
        const u32 len = box.lens[axis], whole = rest / len, at = rest - whole * len;
        from += at * job.from_strides[axis];
        to += at * job.to_strides[axis];
        rest = whole;
      }
      values[k] = *reinterpret_cast<const T*>(from);
      targets[k] = reinterpret_cast<T*>(to);
    }
#pragma unroll
    for (u32 k = 0; k < COPIES_PER_THREAD; k++) {
      if (k * THREADS < left) *targets[k] = values[k];
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) copy_boxes_f32(const __grid_constant__ BoxJob job) { copy_boxes<u32>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) copy_boxes_f64(const __grid_constant__ BoxJob job) { copy_boxes<u64>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) copy_boxes_f16(const __grid_constant__ BoxJob job) { copy_boxes<u16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) copy_boxes_byte(const __grid_constant__ BoxJob job) { copy_boxes<u8>(job); }

/// Copies a run in pieces of a type.
template <typename T>
__device__ __forceinline__ void copy_run(const CopiedRun& run) {
  const T* from = reinterpret_cast<const T*>(run.from);
  T* to = reinterpret_cast<T*>(run.to);
  const u64 whole = run.bytes / sizeof(T);
#pragma unroll 4
  for (u64 i = u64(blockIdx.x) * THREADS + threadIdx.x; i < whole; i += u64(gridDim.x) * THREADS) to[i] = from[i];
  // Bytes behind the last piece.
  const u64 at = whole * sizeof(T) + threadIdx.x;
  if (blockIdx.x == 0 && at < run.bytes) reinterpret_cast<u8*>(run.to)[at] = reinterpret_cast<const u8*>(run.from)[at];
}

/// Copies runs of bytes, in pieces of 16 or 4 bytes where both ends are aligned to them.
extern "C" __global__ void __launch_bounds__(THREADS) copy_runs(const __grid_constant__ RunJob job) {
  const CopiedRun run = job.runs[blockIdx.y];
  const u64 ends = run.from | run.to;
  if (ends % sizeof(uint4) == 0) return copy_run<uint4>(run);
  if (ends % sizeof(u32) == 0) return copy_run<u32>(run);
  copy_run<u8>(run);
}
