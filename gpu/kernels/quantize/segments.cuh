// Stage 1 for any grid: values -> codes and an exception mask, a segment at a time. CPU: `quantize` of codec/src/quantize/linear.rs, integer_steps.rs and
// logarithm.rs.
#pragma once

#include "../job.cuh"

/// The bytes of a thread's values of a segment, as the chunk has them; 0 behind the chunk's end.
template <typename V>
struct SegmentValues {
  typename ValueType<V>::Stored of[VALUES_PER_THREAD];

  __device__ __forceinline__ void read(const u8* chunk, u32 start, u32 elements) {
    typedef typename ValueType<V>::Stored Stored;
    const Stored* from = reinterpret_cast<const Stored*>(chunk) + start + threadIdx.x;
    const u32 left = elements - min(start + threadIdx.x, elements);
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) of[k] = k * THREADS < left ? from[k * THREADS] : Stored(0);
  }
};

/// Codes, and a bit for each exception. The codes of exceptions are left to `fill_and_gather`. `Coder` is made once a block of threads and says what a value's
/// bits become, and whether that is an exception. `Coder::Seen` are the ends of the values that it has seen.
template <typename V, typename Coder>
__device__ __forceinline__ void make_codes(const EncodeJob& job) {
  typedef typename ValueType<V>::Code Code;
  __shared__ Coder coder;
  __shared__ u32 segment_mask[MASK_WORDS];
  const EncodeParameters& parameters = job.parameters[blockIdx.y];
  EncodeState& state = job.states[blockIdx.y];
  const u8* chunk = chunk_values(job);
  const u32 elements = job.shape.elements;
  const bool big_endian = parameters.big_endian;
  // These loads are in flight while the grid is made.
  SegmentValues<V> next;
  next.read(chunk, blockIdx.x * SEGMENT, elements);
  if (is_constant(job, state)) return;
  if (threadIdx.x == 0) coder = Coder(parameters, state);
  __syncthreads();
  Code* codes = static_cast<Code*>(job.codes) + u64(blockIdx.y) * elements;
  const Coder own = coder;
  typename Coder::Seen seen;
  for (u32 segment = blockIdx.x; segment < job.segments; segment += gridDim.x) {
    const u64 slot = u64(blockIdx.y) * job.segments + segment;
    const u32 start = segment * SEGMENT;
    const SegmentValues<V> here = next;
    // These loads are in flight while this segment is coded.
    if (segment + gridDim.x < job.segments) next.read(chunk, start + gridDim.x * SEGMENT, elements);
    Code* to = codes + start + threadIdx.x;
    const u32 left = elements - min(start + threadIdx.x, elements);
    // A warp makes a word of the mask with each of its values; a lane keeps one of them.
    u32 own_word = 0, any = 0;
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      bool exception = false;
      if (k * THREADS < left) {
        Code code;
        exception = !own(big_endian ? ValueType<V>::swap(here.of[k]) : here.of[k], code, seen);
        to[k * THREADS] = code;
      }
      const u32 word = __ballot_sync(ALL_LANES, exception);
      any |= word;
      own_word = lane_id() == k ? word : own_word;
    }
    if (lane_id() < VALUES_PER_THREAD) {
      const u32 at = lane_id() * WARPS + warp_id();
      segment_mask[at] = own_word;
      job.mask[slot * MASK_WORDS + at] = own_word;
    }
    const u32 end = min(start + SEGMENT, elements);
    u32 count = 0, first = start, last = end - 1;
    if (__syncthreads_or(any != 0)) {
      if (warp_id() == 0) {
        first = NONE;
        last = 0;
        for (u32 word = lane_id(); word < MASK_WORDS; word += WARP) {
          u32 begin = start + 32 * word;
          u32 inside = begin >= end ? 0 : end - begin >= 32 ? ALL_LANES : (1u << (end - begin)) - 1;
          u32 valid = ~segment_mask[word] & inside;
          count += __popc(segment_mask[word]);
          if (valid) {
            first = min(first, begin + __ffs(valid) - 1);
            last = max(last, begin + bit_length(valid));  // one behind it: 0 means none
          }
        }
        count = warp_sum(count);
        first = __reduce_min_sync(ALL_LANES, first);
        last = __reduce_max_sync(ALL_LANES, last) - 1;  // NONE if there is none
      }
    }
    if (threadIdx.x == 0) {
      job.exception_counts[slot] = count;
      job.first_valid[slot] = first;
      job.last_valid[slot] = last;
      if (count) {
        atomicAdd(&state.exceptions, count);
        atomicAdd(&job.exception_sums[u64(blockIdx.y) * job.sums + segment / SLOTS_PER_SUM], count);
      }
    }
    __syncthreads();
  }
  seen.join(state);
}
