// Stages 2 and 3 (FORMAT.md §6, §7): codes -> differences -> tokens, and how often each symbol occurs. CPU: codec/src/tokens.rs.
//
// A block of 256 threads turns a segment of 2048 integers into tokens:
//
//   differences, neighbouring threads side by side ─ shared memory ─> eight neighbours a thread
//   one bit a zero ─> run starts ─> tokens and extra bits a thread ─ prefix sum ─> places in the segment
//
// Segments are coded apart, so symbols and extra bits wait in slots, one a segment, until blocks are put together (lanes.cu, plane.cu).
// Reads the codes (and neighbours, from caches), writes a byte a token and the extra bits.
#pragma once

#include "alphabet.cuh"
#include "exceptions.cu"

/// Words that the extra bits of a segment's integers can take: 33 bits a 32-bit integer, 64 a 64-bit one.
template <typename C>
constexpr u32 EXTRA_WORDS = SEGMENT * (sizeof(C) == 4 ? 33 : 64) / 32;

template <typename C>
struct TokenBlock {
  union {
    C differences[SEGMENT];
    u32 extra[EXTRA_WORDS<C> + 2];
  };
  u32 zeros[MASK_WORDS + 1];
  union {
    u8 symbols[SEGMENT];
    u32 symbol_words[SEGMENT / 4];
  };
  u32 histogram[WARPS][SYMBOLS];
  u32 scratch[WARPS + 1];
  Alphabet alphabet;
};

/// Zeros from `place` on, to the end of the segment at most.
__device__ __forceinline__ u32 zero_run(const u32* zeros, u32 place) {
  u32 begin = place;
  u32 word = place / 32;
  u32 ones = ~(zeros[word] >> (place % 32));
  u32 run = __ffs(ones) - 1;  // the bits shifted in are 0, so that `ones` is 0 only for a whole word
  if (ones != 0 && run < 32 - place % 32) return run;
  place = 32 * (word + 1);
  for (word++; word < MASK_WORDS && zeros[word] == ALL_LANES; word++) place += 32;
  if (word < MASK_WORDS) place += __ffs(~zeros[word]) - 1;
  return place - begin;
}

/// Tokens of segment `segment` of a plane of `elements` integers, whose difference at an index `at` gives.
template <typename C, typename At>
__device__ __forceinline__ void tokenize_segment(TokenBlock<C>& block, const EncodePlane& plane, u64 place, u32 segment, u32 elements,
                                                 const At& at) {
  const u32 start = segment * SEGMENT, length = min(SEGMENT, elements - start);
  const u32 first = threadIdx.x * VALUES_PER_THREAD;
  __syncthreads();  // the last segment's extra bits have been read
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    u32 p = k * THREADS + threadIdx.x;
    block.differences[p] = p < length ? C(at(start + p)) : C(1);
  }
  __syncthreads();
  C own[VALUES_PER_THREAD];
  u32 zeros = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    own[k] = block.differences[first + k];
    zeros |= u32(own[k] == 0) << k;
  }
  reinterpret_cast<u8*>(block.zeros)[threadIdx.x] = u8(zeros);
  __syncthreads();

  const u32 zero_before = first > 0 ? block.zeros[(first - 1) / 32] >> ((first - 1) % 32) & 1 : 0;
  const u32 inside = first >= length ? 0 : min(length - first, VALUES_PER_THREAD);
  // Zeros behind another zero have no token of their own.
  const u32 starts = ~(zeros & (zeros << 1 | zero_before)) & ((1u << inside) - 1);
  u32 bits = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    if (!(starts >> k & 1)) continue;
    u32 run = zeros >> k & 1 ? zero_run(block.zeros, first + k) : 0;
    Token token = run > 1 ? run_token(run, block.alphabet) : difference_token(i64(own[k]), block.alphabet);
    bits += token.extra_bits;
    atomicAdd(&block.histogram[warp_id()][token.symbol], 1);
  }
  u32 total;
  const u32 before = block_sum_before(u32(__popc(starts)) | bits << 12, block.scratch, total);
  const u32 token_count = total & 0xfff, bit_count = total >> 12;
  for (u32 word = threadIdx.x; word < bit_count / 32 + 3 && word < EXTRA_WORDS<C> + 2; word += THREADS) block.extra[word] = 0;
  __syncthreads();
  u32 token_at = before & 0xfff, bit_at = before >> 12;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    if (!(starts >> k & 1)) continue;
    u32 run = zeros >> k & 1 ? zero_run(block.zeros, first + k) : 0;
    Token token = run > 1 ? run_token(run, block.alphabet) : difference_token(i64(own[k]), block.alphabet);
    block.symbols[token_at++] = u8(token.symbol);
    if (token.extra_bits) {
      u32 word = bit_at / 32, shift = bit_at % 32;
      atomicOr(&block.extra[word], u32(token.extra << shift));
      if (shift + token.extra_bits > 32) atomicOr(&block.extra[word + 1], u32(token.extra >> (32 - shift)));
      if (shift + token.extra_bits > 64) atomicOr(&block.extra[word + 2], u32(token.extra >> (64 - shift)));
      bit_at += token.extra_bits;
    }
  }
  __syncthreads();
  u32* symbols = reinterpret_cast<u32*>(plane.symbols + place * SEGMENT);
  for (u32 word = threadIdx.x; word < ceil_div(token_count, 4); word += THREADS) symbols[word] = block.symbol_words[word];
  u32* extra = plane.extra + place * plane.extra_stride;
  for (u32 word = threadIdx.x; word < ceil_div(bit_count, 32); word += THREADS) extra[word] = block.extra[word];
  if (threadIdx.x == 0) {
    plane.token_counts[place] = token_count;
    plane.extra_bits[place] = bit_count;
  }
}

template <typename C, typename At>
__device__ __forceinline__ void tokenize_plane(TokenBlock<C>& block, const EncodeJob& job, u32 number, u32 elements, const At& at) {
  const u32 segments = ceil_div(elements, SEGMENT);
  if (blockIdx.x >= segments) return;
  for (u32 i = threadIdx.x; i < WARPS * SYMBOLS; i += THREADS) block.histogram[0][i] = 0;
  for (u32 segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    tokenize_segment<C>(block, job.planes[number], u64(blockIdx.y) * job.segments + segment, segment, elements, at);
  }
  PlaneState& state = job.states[blockIdx.y].planes[number];
  for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
    u32 count = 0;
    for (u32 warp = 0; warp < WARPS; warp++) count += block.histogram[warp][symbol];
    if (count) atomicAdd(&state.histogram[symbol], count);
  }
  __syncthreads();
}

template <typename V>
__device__ void tokenize(const EncodeJob& job) {
  typedef typename ValueType<V>::Code C;
  __shared__ TokenBlock<C> block;
  const EncodeState& state = job.states[blockIdx.y];
  if (!state.differs) return;
  block.alphabet.fill();
  __syncthreads();
  const Shape& shape = job.shape;
  const u32 elements = shape.elements, axes = (1u << shape.rank) - 1;
  const IntegerSource<C> codes = {static_cast<const C*>(job.codes) + u64(blockIdx.y) * elements};
  tokenize_plane<C>(block, job, CODES, elements, [&](u32 index) { return difference(codes, shape, index, axes); });
  if (state.exceptions == 0) return;

  const MaskSource mask = {job.mask + u64(blockIdx.y) * job.segments * MASK_WORDS};
  const u32 axes_of_mask = mask_axes(shape, state);
  tokenize_plane<C>(block, job, MASK, elements, [&](u32 index) { return difference(mask, shape, index, axes_of_mask); });

  const IntegerSource<C> bits = {static_cast<const C*>(job.exception_bits) + u64(blockIdx.y) * elements};
  tokenize_plane<C>(block, job, BITS, state.exceptions, [&](u32 index) {
    return index > 0 ? IntegerSource<C>::subtract(bits(index), bits(index - 1)) : bits(index);
  });
}

extern "C" __global__ void __launch_bounds__(THREADS) tokenize_f32(const __grid_constant__ EncodeJob job) { tokenize<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) tokenize_f64(const __grid_constant__ EncodeJob job) { tokenize<double>(job); }
