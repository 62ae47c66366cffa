// What a launch works on: `EncodeJob` or `DecodeJob`. Their structures are declared in `gpu/src/job`, which says what each field holds; the build
// writes `job_structs.cuh` from it.
#pragma once

#include "common.cuh"
#include "job_structs.cuh"

/// Number of integers of a plane. A chunk whose exceptions are listed, or that has none, has the plane of codes alone.
template <typename Job>
__device__ __forceinline__ u32 plane_elements(const Job& job, u32 exceptions, u32 plane) {
  return plane == CODES ? job.shape.elements : exceptions <= job.most_listed ? 0 : plane == MASK ? job.shape.elements : exceptions;
}

/// Whether a value is the fill value or far. `value` is the value of `bits`, rounded to f64.
__device__ __forceinline__ bool is_fill(const Fills& fills, u64 bits, double value) {
  return (fills.has_value && bits == fills.bits) || (fills.has_far && (value < fills.least || value > fills.greatest));
}

/// Whether anything is kept beside the bound.
__device__ __forceinline__ bool keeps_any(const Keep& keep) { return keep.count > 0 || keep.has_order; }

/// Whether a restored value is on another side of a threshold than the value.
__device__ __forceinline__ bool is_crossed(const Keep& keep, double value, double restored) {
  bool any = false;
  for (u32 k = 0; k < keep.count; k++) {
    const double threshold = keep.thresholds[k];
    any |= (value < threshold) != (restored < threshold) || (value > threshold) != (restored > threshold);
  }
  return any;
}

/// The values of this chunk.
__device__ __forceinline__ const u8* chunk_values(const EncodeJob& job) {
  return job.inputs ? reinterpret_cast<const u8*>(job.inputs[blockIdx.y]) : job.input + blockIdx.y * job.input_stride;
}

/// What the host has read of this chunk's stream.
__device__ __forceinline__ const DecodeParameters& stream_parameters(const DecodeJob& job) {
  return *reinterpret_cast<const DecodeParameters*>(job.input + blockIdx.y * job.input_stride);
}

/// The stream of this chunk.
__device__ __forceinline__ const u8* chunk_stream(const DecodeJob& job) { return job.input + blockIdx.y * job.input_stride + sizeof(DecodeParameters); }

/// Where the values of this chunk are written.
__device__ __forceinline__ u8* chunk_output(const DecodeJob& job) {
  return job.outputs ? reinterpret_cast<u8*>(job.outputs[blockIdx.y]) : job.output + blockIdx.y * job.output_stride;
}

/// Whether all values of the chunk are equal. Valid once `inspect` has run, if it does.
__device__ __forceinline__ bool is_constant(const EncodeJob& job, const EncodeState& state) { return job.inspected && !state.differs; }

/// Number of integers of block `index` of a plane.
__device__ __forceinline__ u32 block_length(const DecodePlaneState& plane, u32 index) {
  return min(plane.elements - (index << plane.block_log), 1u << plane.block_log);
}

/// Number of blocks of a plane with this number of integers.
__device__ __forceinline__ u32 plane_blocks(u32 elements, u32 block_segments_log) {
  return ceil_div(ceil_div(elements, SEGMENT), 1u << block_segments_log);
}

/// Copies the state to the host. The last launch that can refuse a stream does this.
__device__ __forceinline__ void report(const DecodeJob& job, const DecodeState& state) {
  if (job.host_results && blockIdx.x == 0 && threadIdx.x == 0) job.host_results[blockIdx.y] = state;
}

/// The integers of a plane of this chunk.
template <typename C>
__device__ __forceinline__ C* plane_values(const DecodeJob& job, u32 plane) {
  return static_cast<C*>(job.planes[plane].values) + blockIdx.y * job.planes[plane].stride;
}
