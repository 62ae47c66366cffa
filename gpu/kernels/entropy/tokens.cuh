// Stages 2 and 3 forward (FORMAT.md §6, §7): codes -> differences -> tokens, and how often each symbol occurs. CPU: codec/src/entropy/tokens.rs.
// entropy/expand.cuh is the way back.
//
// A block of 256 threads turns a segment of 2048 integers into tokens:
//
//   eight adjacent integers for each thread ─> differences ─> a bit for each 0, a bit for each 1 or -1 ─> runs ─> tokens ─ prefix sum ─> offsets
//
// Each segment is coded by itself: its symbols and extra bits go to a slot, one a segment, and stay there until blocks are put together
// (lanes.cuh, stream/plane.cuh). The kernel reads each code from memory once. When it is read again as another code's neighbour, it comes
// from a cache. The kernel writes a byte a token and the extra bits.
#pragma once

#include "../predict/lorenzo.cuh"
#include "alphabet.cuh"

template <typename C>
struct TokenShared : DifferenceShared<C> {
  union {
    u8 symbols[SEGMENT];
    u32 symbol_words[SEGMENT / 4];
  };
  // Each lane has a column: lanes of a warp count without conflicts of addresses or banks.
  u32 histogram[SYMBOLS][WARP];
  u32 scratch[WARPS + 1];
  u32 counts[WARPS];     // low half: zeros among a warp's values; high half: stretches of consecutive zeros
  u32 ones[MASK_WORDS];  // bits of differences of 1 and -1
};

/// Number of adjacent zeros directly behind the eight values of thread `thread`, to the end of the segment at most.
__device__ __forceinline__ u32 zeros_behind(const u32* zeros, u32 thread) {
  const u32 begin = (thread + 1) * VALUES_PER_THREAD;
  if (begin >= SEGMENT) return 0;
  u32 word = begin / 32;
  const u32 nonzeros = ~(zeros[word] >> (begin % 32));  // the bits shifted in count as values that are not 0
  const u32 run = __ffs(nonzeros) - 1;
  if (nonzeros != 0 && run < 32 - begin % 32) return run;
  for (word++; word < MASK_WORDS && zeros[word] == ~0u; word++) {
  }
  return 32 * word + (word < MASK_WORDS ? __ffs(~zeros[word]) - 1 : 0) - begin;
}

/// Tokens of a segment of `length` integers.
template <typename C>
__device__ __forceinline__ void write_tokens(TokenShared<C>& shared, const EncodePlane& plane, u64 slot, u32 length, const EightDifferences<C>& own) {
  typedef typename Unsigned<C>::Type U;
  const u32 first = threadIdx.x * VALUES_PER_THREAD;
  const u32 zero_before = first > 0 ? reinterpret_cast<u8*>(shared.zeros)[threadIdx.x - 1] >> 7 : 0;
  const u32 inside = first >= length ? 0 : min(length - first, VALUES_PER_THREAD);
  const u32 all = (1u << inside) - 1;
  u32 ones = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) ones |= u32(own.differences[k] == C(1) || own.differences[k] == C(-1)) << k;
  ones &= all;
  reinterpret_cast<u8*>(shared.ones)[threadIdx.x] = u8(ones);
  const u32 stretches = own.zeros & ~(own.zeros << 1 | zero_before);
  const u32 count = warp_prefix_sum(u32(__popc(own.zeros)) | u32(__popc(stretches)) << 16);
  if (lane_id() == WARP - 1) shared.counts[warp_id()] = count;
  __syncthreads();
  u32 counts = 0;
#pragma unroll
  for (u32 warp = 0; warp < WARPS; warp++) counts += shared.counts[warp];
  // A segment whose zeros come in short stretches has no runs.
  const u32 has_runs = 2 * (counts & 0xffff) >= TWICE_MIN_ZEROS_PER_STRETCH * (counts >> 16) ? all : 0;
  const u32 one_before = first > 0 ? reinterpret_cast<u8*>(shared.ones)[threadIdx.x - 1] >> 7 : 0;
  // If the segment has runs, a zero directly behind a 0, 1 or -1 has no token of its own.
  const u32 starts = all & ~(has_runs & own.zeros & ((own.zeros | ones) << 1 | zero_before | one_before));
  const u32 heads = has_runs & (own.zeros | ones) & starts, last = 1u << (VALUES_PER_THREAD - 1);
  // A run of this thread goes on behind its eight values only if it begins among them and takes the last of them.
  const u32 behind = ((own.zeros | ones) & last) && heads ? zeros_behind(shared.zeros, threadIdx.x) : 0;
  Token<U> tokens[VALUES_PER_THREAD];
  u32 bits = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    tokens[k] = {0, 0, 0};
    if (!(starts >> k & 1)) continue;
    u32 run = heads >> k & 1 ? __ffs(~(own.zeros >> (k + 1))) : 0;
    if (run == VALUES_PER_THREAD - k) run += behind;
    tokens[k] = run > 1 ? run_token<U>(i32(own.differences[k]), run) : difference_token(own.differences[k]);
    bits += tokens[k].extra_bits;
    atomicAdd(&shared.histogram[tokens[k].symbol][lane_id()], 1);
  }
  u32 total;
  const u32 before = block_sum_before(u32(__popc(starts)) | bits << 12, shared.scratch, total);
  const u32 token_count = total & 0xfff, bit_count = total >> 12;
  for (u32 word = threadIdx.x; word < ceil_div(bit_count, 32); word += THREADS) shared.extra[word] = 0;
  u32 token_at = before & 0xfff, bit_at = before >> 12;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    if (starts >> k & 1) shared.symbols[token_at++] = u8(tokens[k].symbol);
  }
  __syncthreads();
  const auto put = [&](u64 value, u32 count) {
    const u32 word = bit_at / 32, shift = bit_at % 32;
    atomicOr(&shared.extra[word], u32(value << shift));
    if (shift + count > 32) atomicOr(&shared.extra[word + 1], u32(value >> (32 - shift)));
    if (shift + count > 64) atomicOr(&shared.extra[word + 2], u32(value >> (64 - shift)));
    bit_at += count;
  };
  if (bits > 0 && bits <= 64) {
    // The extra bits of a thread's tokens are adjacent: joined in a register first, they take one to three operations on shared memory.
    u64 joined = 0;
    u32 count = 0;
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      if (tokens[k].extra_bits) joined |= u64(tokens[k].extra) << count;
      count += tokens[k].extra_bits;
    }
    put(joined, bits);
  } else if (bits > 0) {
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      if (tokens[k].extra_bits) put(tokens[k].extra, tokens[k].extra_bits);
    }
  }
  __syncthreads();
  u32* symbols = reinterpret_cast<u32*>(plane.symbols + slot * SEGMENT);
  for (u32 word = threadIdx.x; word < ceil_div(token_count, 4); word += THREADS) symbols[word] = shared.symbol_words[word];
  u32* extra = plane.extra + slot * plane.extra_stride;
  for (u32 word = threadIdx.x; word < ceil_div(bit_count, 32); word += THREADS) extra[word] = shared.extra[word];
  if (threadIdx.x == 0) {
    plane.token_counts[slot] = token_count;
    plane.extra_bits[slot] = bit_count;
  }
  __syncthreads();
}

template <typename C>
__device__ __forceinline__ void count_from_zero(TokenShared<C>& shared) {
  for (u32 i = threadIdx.x; i < SYMBOLS * WARP; i += THREADS) shared.histogram[0][i] = 0;
  __syncthreads();
}

/// Adds what this block of threads has counted to the plane's counts.
template <typename C>
__device__ __forceinline__ void add_counts(TokenShared<C>& shared, PlaneState& state) {
  for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
    u32 count = 0;
    // Each thread of a warp reads another bank.
    for (u32 column = 0; column < WARP; column++) count += shared.histogram[symbol][(column + symbol) % WARP];
    if (count) atomicAdd(&state.histogram[symbol], count);
  }
  __syncthreads();
}

/// Tokens of a plane of `elements` integers; `differences` gives those of a segment.
template <typename C, typename Differences>
__device__ __forceinline__ void tokenize_plane(TokenShared<C>& shared, const EncodeJob& job, u32 number, u32 elements, const Differences& differences) {
  const u32 segments = ceil_div(elements, SEGMENT);
  if (blockIdx.x >= segments) return;
  count_from_zero(shared);
  for (u32 segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    const u32 start = segment * SEGMENT, length = min(SEGMENT, elements - start);
    EightDifferences<C> own;
    differences(start, length, own);
    write_tokens(shared, job.planes[number], u64(blockIdx.y) * job.segments + segment, length, own);
  }
  add_counts(shared, job.states[blockIdx.y].planes[number]);
}

/// Tokens of all planes of a chunk. blockIdx.y is the chunk. The blocks along x share the segments.
template <typename V>
__device__ void tokenize(const EncodeJob& job) {
  __shared__ TokenShared<typename ValueType<V>::Code> shared;
  code_planes<V>(shared, job, [&](u32 number, u32 elements, const auto& differences) { tokenize_plane(shared, job, number, elements, differences); });
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) tokenize_f32(const __grid_constant__ EncodeJob job) { tokenize<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS, 3) tokenize_f64(const __grid_constant__ EncodeJob job) { tokenize<double>(job); }
