// Exceptions (FORMAT.md §4, §5.1): values that the grid cannot hold. CPU: codec/src/quantize/exceptions.rs, codec/src/quantize/gaps.rs.
//
// While a chunk is coded, a mask has one bit a value. The bits of exceptional values, and their indices if they are few, are gathered into
// lists in the order of the chunk, at offsets that come from prefix sums over segments. A decoded mask has one byte a value.
#pragma once

#include "../predict/lorenzo.cuh"

/// Index of the last valid value from `row_start` to the start of `segment`, or NONE. For a whole block of threads.
__device__ u32 last_valid_before(const u32* last_valid, u32 segment, u32 row_start, u32* scratch) {
  const u32 lowest = row_start / SEGMENT;
  for (u32 above = segment; above > lowest;) {
    const u32 count = min(above - lowest, THREADS);
    u32 key = 0;  // index + 1
    if (threadIdx.x < count) {
      u32 last = last_valid[above - 1 - threadIdx.x];
      if (last != NONE && last >= row_start) key = last + 1;
    }
    u32 best = block_max(key, scratch);
    if (best) return best - 1;
    above -= count;
  }
  return NONE;
}

/// Index of the first valid value behind `segment` and before `row_end`, or NONE. For a whole block of threads.
__device__ u32 first_valid_behind(const u32* first_valid, u32 segment, u32 row_end, u32* scratch) {
  const u32 beyond = ceil_div(row_end, SEGMENT);
  for (u32 below = segment + 1; below < beyond; below += THREADS) {
    u32 key = 0;  // all ones - index
    if (threadIdx.x < beyond - below) {
      u32 first = first_valid[below + threadIdx.x];
      if (first != NONE && first < row_end) key = ~first;
    }
    u32 best = block_max(key, scratch);
    if (best) return ~best;
  }
  return NONE;
}

/// Counts the ones among the mask's differences.
__device__ void count_mask_ones(const EncodeJob& job, EncodeState& state, const u32* mask) {
  const u32 elements = job.shape.elements, all_axes = (1u << job.shape.rank) - 1;
  u32 ones_all = 0, ones_fastest = 0;
  for (u32 segment = blockIdx.x; segment < job.segments; segment += gridDim.x) {
    const u32 first = segment * SEGMENT + 32 * threadIdx.x, end = min((segment + 1) * SEGMENT, elements);
    if (threadIdx.x >= MASK_WORDS || first >= end) continue;
    const u32 inside = end - first >= 32 ? ALL_LANES : (1u << (end - first)) - 1;
    const StepsBack steps(job.shape, first);
    ones_all += __popc(mask_difference(mask, job.shape, first, steps, all_axes) & inside);
    ones_fastest += __popc(mask_difference(mask, job.shape, first, steps, 1) & inside);
  }
  ones_all = warp_sum(ones_all);
  ones_fastest = warp_sum(ones_fastest);
  if (lane_id() == 0) {
    if (ones_all) atomicAdd(&state.mask_ones[0], ones_all);
    if (ones_fastest) atomicAdd(&state.mask_ones[1], ones_fastest);
  }
}

/// Segments of which a block of threads finds those with exceptions at once: one a thread.
constexpr u32 SEGMENTS_AT_ONCE = THREADS;

/// Fills the codes of exceptions: with the code of the nearest valid value to the left in the row, or of the row's first valid value, or 0. Gathers
/// the exceptions' bits. If there are too many exceptions for a list, also counts the ones among the mask's differences.
template <typename V>
__device__ void fill_and_gather(const EncodeJob& job) {
  typedef typename ValueType<V>::Code Code;
  __shared__ u32 segment_mask[MASK_WORDS];
  __shared__ u32 rank_of_word[MASK_WORDS];
  __shared__ u32 scratch[WARPS];
  __shared__ u32 list_start;
  __shared__ u32 segments_here;
  __shared__ u32 segment_list[SEGMENTS_AT_ONCE];
  EncodeState& state = job.states[blockIdx.y];
  if (state.exceptions == 0) return;
  const u32 elements = job.shape.elements, row = job.shape.extents[0];
  const u64 chunk_slot = u64(blockIdx.y) * job.segments;
  const u8* chunk = chunk_values(job);
  Code* codes = static_cast<Code*>(job.codes) + u64(blockIdx.y) * elements;
  const bool are_listed = state.exceptions <= job.most_listed;
  Code* list = static_cast<Code*>(are_listed ? job.listed_bits : job.exception_bits) + u64(blockIdx.y) * (are_listed ? job.most_listed : elements);
  u32* indices = job.listed_indices + u64(blockIdx.y) * job.most_listed;
  const u32* first_valid = job.first_valid + chunk_slot;
  const u32* last_valid = job.last_valid + chunk_slot;
  const u32* mask = job.mask + chunk_slot * MASK_WORDS;
  if (!are_listed) count_mask_ones(job, state, mask);
  const u32* counts = job.exception_counts + chunk_slot;
  for (u32 base = blockIdx.x; base < job.segments; base += SEGMENTS_AT_ONCE * gridDim.x) {
    // Most segments have no exception. Each segment writes to its own part of the lists, so that the order of segments does not matter.
    if (threadIdx.x == 0) segments_here = 0;
    __syncthreads();
    const u64 own = base + u64(threadIdx.x) * gridDim.x;
    if (own < job.segments && counts[own] != 0) segment_list[atomicAdd(&segments_here, 1)] = u32(own);
    __syncthreads();
    const u32 found = segments_here;
    for (u32 number = 0; number < found; number++) {
      const u32 segment = segment_list[number], start = segment * SEGMENT, end = min(start + SEGMENT, elements);
      __syncthreads();
      if (threadIdx.x < MASK_WORDS) segment_mask[threadIdx.x] = mask[segment * MASK_WORDS + threadIdx.x];
      if (warp_id() == WARPS - 1) {
        u32 before = warp_sum_before(job.exception_counts + chunk_slot, job.exception_sums + u64(blockIdx.y) * job.sums, segment);
        if (lane_id() == 0) list_start = before;
      }
      __syncthreads();
      if (warp_id() == 0) {
        u32 low = __popc(segment_mask[lane_id()]), high = __popc(segment_mask[WARP + lane_id()]);
        u32 low_sum = warp_prefix_sum(low), high_sum = warp_prefix_sum(high);
        rank_of_word[lane_id()] = low_sum - low;
        rank_of_word[WARP + lane_id()] = __shfl_sync(ALL_LANES, low_sum, WARP - 1) + high_sum - high;
      }
      __syncthreads();
      // The row that reaches into the segment from the left, and the one that reaches out of it.
      const u32 left_row = start - start % row;
      const u32 right_row_end = min(end - 1 - (end - 1) % row + row, elements);
      u32 before = NONE, behind = NONE;
      // Interpolation has already given exceptions a code.
      if (!job.interpolated && left_row < start && (segment_mask[0] & 1)) before = last_valid_before(last_valid, segment, left_row, scratch);
      const u32 last = end - 1 - start;
      if (!job.interpolated && right_row_end > end && (segment_mask[last / 32] >> (last % 32) & 1)) {
        behind = first_valid_behind(first_valid, segment, right_row_end, scratch);
      }
      for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
        const u32 offset = k * THREADS + threadIdx.x, index = start + offset;
        const u32 word = segment_mask[offset / 32], bit = offset % 32;
        if (index >= end || !(word >> bit & 1)) continue;
        const u32 rank = list_start + rank_of_word[offset / 32] + __popc(word & ((1u << bit) - 1));
        list[rank] = extended<V>(read_bits<V>(chunk, index, job.parameters[blockIdx.y].big_endian), job.parameters[blockIdx.y].kind);
        if (are_listed) indices[rank] = index;
        if (job.interpolated) continue;

        const u32 row_start = index - index % row, row_end = min(row_start + row, elements);
        // The search goes to the left within the segment and the row, then before the segment, then to the right.
        u32 source = NONE;
        const u32 low_offset = row_start > start ? row_start - start : 0;
        for (i32 w = i32(offset / 32); w >= i32(low_offset / 32) && source == NONE; w--) {
          u32 valid = ~segment_mask[w];
          if (u32(w) == offset / 32) valid &= (1u << bit) - 1;
          if (u32(w) == low_offset / 32) valid &= ~0u << (low_offset % 32);
          if (valid) source = start + 32 * w + bit_length(valid) - 1;
        }
        if (source == NONE && row_start < start) source = before;
        const u32 high_offset = min(row_end, end) - start;
        for (u32 w = offset / 32; 32 * w < high_offset && source == NONE; w++) {
          u32 valid = ~segment_mask[w];
          if (w == offset / 32) valid &= ~0u << bit;
          if (high_offset - 32 * w < 32) valid &= (1u << (high_offset - 32 * w)) - 1;
          if (valid) source = start + 32 * w + __ffs(valid) - 1;
        }
        if (source == NONE && row_end > end) source = behind;
        codes[index] = source == NONE ? Code(0) : codes[source];
      }
    }
    __syncthreads();
  }
}

/// Counts the exceptions that interpolation has set in the mask, for each segment, and adds them up for every SLOTS_PER_SUM segments and for the chunk.
extern "C" __global__ void __launch_bounds__(THREADS) count_interpolated_exceptions(const __grid_constant__ EncodeJob job) {
  EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  for (u32 segment = blockIdx.x * WARPS + warp_id(); segment < job.segments; segment += gridDim.x * WARPS) {
    const u64 slot = u64(blockIdx.y) * job.segments + segment;
    u32 count = 0;
    for (u32 word = lane_id(); word < MASK_WORDS; word += WARP) count += __popc(job.mask[slot * MASK_WORDS + word]);
    count = warp_sum(count);
    if (lane_id() != 0) continue;
    job.exception_counts[slot] = count;
    if (count) {
      atomicAdd(&state.exceptions, count);
      atomicAdd(&job.exception_sums[u64(blockIdx.y) * job.sums + segment / SLOTS_PER_SUM], count);
    }
  }
}

/// Exceptions of each segment, from the decoded mask.
extern "C" __global__ void __launch_bounds__(THREADS) count_exceptions(const __grid_constant__ DecodeJob job) {
  __shared__ u32 scratch[WARPS + 1];
  DecodeState& state = job.states[blockIdx.y];
  if (state.error || state.planes[MASK].elements == 0) return;
  const u8* mask = plane_values<u8>(job, MASK);
  for (u32 segment = blockIdx.x; segment < job.segments; segment += gridDim.x) {
    u32 count = 0;
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      u32 index = segment * SEGMENT + k * THREADS + threadIdx.x;
      if (index < job.shape.elements) count += mask[index] & 1;
    }
    u32 total;
    block_sum_before(count, scratch, total);
    if (threadIdx.x == 0) {
      job.exception_counts[u64(blockIdx.y) * job.segments + segment] = total;
      if (total) {
        atomicAdd(&job.exception_sums[u64(blockIdx.y) * job.sums + segment / SLOTS_PER_SUM], total);
        atomicAdd(&state.exceptions_found, total);
      }
    }
    __syncthreads();
  }
}

/// Overwrites the decoded values of exceptions with their bits.
template <typename V>
__device__ void write_exceptions(const DecodeJob& job) {
  typedef typename ValueType<V>::Code Code;
  __shared__ u32 scratch[WARPS + 1];
  __shared__ u32 list_start;
  DecodeState state = job.states[blockIdx.y];
  const u32 listed = state.planes[BITS].elements;
  if (state.planes[MASK].elements != 0 && state.exceptions_found != listed) state.error = DECODE_REFUSED;
  report(job, state);
  if (state.error || state.planes[MASK].elements == 0) return;
  const DecodeParameters& parameters = stream_parameters(job);
  const u32 elements = job.shape.elements;
  const u64 chunk_slot = u64(blockIdx.y) * job.segments;
  const u8* mask = plane_values<u8>(job, MASK);
  const Code* list = plane_values<Code>(job, BITS);
  for (u32 segment = blockIdx.x; segment < job.segments; segment += gridDim.x) {
    if (job.exception_counts[chunk_slot + segment] == 0) continue;
    if (warp_id() == 0) {
      u32 before = warp_sum_before(job.exception_counts + chunk_slot, job.exception_sums + u64(blockIdx.y) * job.sums, segment);
      if (lane_id() == 0) list_start = before;
    }
    // Eight neighbouring values a thread.
    const u32 start = segment * SEGMENT + threadIdx.x * VALUES_PER_THREAD;
    u32 own = 0;
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      if (start + k < elements) own |= u32(mask[start + k] & 1) << k;
    }
    u32 total;
    u32 before = block_sum_before(u32(__popc(own)), scratch, total);
    u32 from = list_start + before;
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      if (own >> k & 1) {
        write_bits<V>(chunk_output(job), start + k, parameters.big_endian != 0,
                      typename ValueType<V>::Bits(list[from++]));
      }
    }
    __syncthreads();
  }
}

/// Overwrites the decoded values of listed exceptions. The list is before the first plane; the host has checked it.
template <typename V>
__device__ void write_listed(const DecodeJob& job) {
  typedef typename ValueType<V>::Bits Bits;
  typedef typename ValueType<V>::Stored Stored;
  const DecodeState& state = job.states[blockIdx.y];
  const DecodeParameters& parameters = stream_parameters(job);
  const u32 count = parameters.exceptions;
  if (state.error || count > job.most_listed) return;
  const u32* bits = reinterpret_cast<const u32*>(chunk_stream(job) + parameters.body - round_up_4(count * sizeof(V)));
  const u32* indices = bits - count;
  for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
    Bits value;
    if constexpr (sizeof(V) <= 4) {
      value = reinterpret_cast<const Stored*>(bits)[i];
    } else {
      value = bits[2 * i] | Bits(bits[2 * i + 1]) << 32;
    }
    write_bits<V>(chunk_output(job), indices[i], parameters.big_endian != 0, value);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) fill_and_gather_f32(const __grid_constant__ EncodeJob job) { fill_and_gather<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) fill_and_gather_f64(const __grid_constant__ EncodeJob job) { fill_and_gather<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) fill_and_gather_f16(const __grid_constant__ EncodeJob job) { fill_and_gather<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) fill_and_gather_byte(const __grid_constant__ EncodeJob job) { fill_and_gather<Byte>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_exceptions_f32(const __grid_constant__ DecodeJob job) { write_exceptions<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_exceptions_f64(const __grid_constant__ DecodeJob job) { write_exceptions<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_exceptions_f16(const __grid_constant__ DecodeJob job) { write_exceptions<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_exceptions_byte(const __grid_constant__ DecodeJob job) { write_exceptions<Byte>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_listed_f32(const __grid_constant__ DecodeJob job) { write_listed<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_listed_f64(const __grid_constant__ DecodeJob job) { write_listed<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_listed_f16(const __grid_constant__ DecodeJob job) { write_listed<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) write_listed_byte(const __grid_constant__ DecodeJob job) { write_listed<Byte>(job); }
