// Stages 2 and 3 (FORMAT.md §6, §7): codes -> differences -> tokens, and how often each symbol occurs. CPU: codec/src/tokens.rs.
//
// A block of 256 threads turns a segment of 2048 integers into tokens:
//
//   differences along slow axes, neighbouring threads side by side ─ shared memory ─> eight neighbours a thread
//   differences along the fastest axis ─> one bit a zero ─> run starts ─> tokens of a thread ─ prefix sum ─> places in the segment
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
    C values[SEGMENT];
    uint4 quads[SEGMENT * sizeof(C) / 16];
    u32 extra[EXTRA_WORDS<C> + 2];
  };
  C before;  // the value before the segment's first
  u32 zeros[MASK_WORDS];
  union {
    u8 symbols[SEGMENT];
    u32 symbol_words[SEGMENT / 4];
  };
  // A column a lane: no two lanes of a warp ever count in the same place, or in the same bank.
  u32 histogram[SYMBOLS][WARP];
  u32 scratch[WARPS + 1];
};

/// Zeros from `place` on, to the end of the segment at most.
__device__ __forceinline__ u32 zero_run(const u32* zeros, u32 place) {
  const u32 begin = place;
  u32 word = place / 32;
  const u32 ones = ~(zeros[word] >> (place % 32));  // the bits shifted in count as ones
  const u32 run = __ffs(ones) - 1;
  if (ones != 0 && run < 32 - place % 32) return run;
  place = 32 * (word + 1);
  for (word++; word < MASK_WORDS && zeros[word] == ALL_LANES; word++) place += 32;
  if (word < MASK_WORDS) place += __ffs(~zeros[word]) - 1;
  return place - begin;
}

/// A thread's eight differences.
template <typename C>
struct Own {
  C differences[VALUES_PER_THREAD];
  u32 zeros;  // a bit each; 0 behind the plane's end
};

/// Differences of a segment of a plane of integers in memory, along all of its axes.
template <u32 RANK, typename C>
__device__ __forceinline__ void integer_differences(TokenBlock<C>& block, const C* values, const Shape& shape, u32 start, u32 length, Own<C>& own) {
  Coordinates<RANK> coordinates(shape, start + threadIdx.x);
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    const u32 p = k * THREADS + threadIdx.x;
    if (p < length) block.values[p] = slow_difference<RANK>(values, shape, start + p, coordinates);
    coordinates.advance(shape);
  }
  if (threadIdx.x == 0 && start > 0) {
    block.before = slow_difference<RANK>(values, shape, start - 1, Coordinates<RANK>(shape, start - 1));
  }
  __syncthreads();
  typedef typename Unsigned<C>::Type U;
  const u32 first = threadIdx.x * VALUES_PER_THREAD, inside = first >= length ? 0 : min(length - first, VALUES_PER_THREAD);
  constexpr u32 QUADS = VALUES_PER_THREAD * sizeof(C) / 16;
  union {
    uint4 quads[QUADS];
    C values[VALUES_PER_THREAD];
  } here;
#pragma unroll
  for (u32 i = 0; i < QUADS; i++) here.quads[i] = block.quads[threadIdx.x * QUADS + i];
  U before = first > 0 ? block.values[first - 1] : block.before;
  u32 x = RANK == 1 ? start + first : (start + first) % shape.extents[0];
  own.zeros = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    own.differences[k] = C(U(here.values[k]) - (x > 0 ? before : U(0)));
    own.zeros |= u32(own.differences[k] == 0 && k < inside) << k;
    before = here.values[k];
    x = RANK > 1 && x + 1 == shape.extents[0] ? 0 : x + 1;
  }
  reinterpret_cast<u8*>(block.zeros)[threadIdx.x] = u8(own.zeros);
  __syncthreads();
}

/// Differences of a segment of the exception mask.
template <typename C>
__device__ __forceinline__ void mask_differences(TokenBlock<C>& block, const u32* mask, const Shape& shape, u32 start, u32 length, u32 axes, bool flat,
                                                 Own<C>& own) {
  if (threadIdx.x < MASK_WORDS) {
    const u32 first = 32 * threadIdx.x;
    const u32 inside = first >= length ? 0 : length - first >= 32 ? ALL_LANES : (1u << (length - first)) - 1;
    u32 ones = inside && !flat ? mask_difference(mask, shape, start + first, axes) : 0;
    block.zeros[threadIdx.x] = ~ones & inside;
  }
  __syncthreads();
  own.zeros = reinterpret_cast<u8*>(block.zeros)[threadIdx.x];
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) own.differences[k] = C(~own.zeros >> k & 1);
}

/// Tokens of a segment of `length` integers.
template <typename C>
__device__ __forceinline__ void write_tokens(TokenBlock<C>& block, const EncodePlane& plane, u64 place, u32 length, const Own<C>& own) {
  typedef typename Unsigned<C>::Type U;
  const u32 first = threadIdx.x * VALUES_PER_THREAD;
  const u32 zero_before = first > 0 ? reinterpret_cast<u8*>(block.zeros)[threadIdx.x - 1] >> 7 : 0;
  const u32 inside = first >= length ? 0 : min(length - first, VALUES_PER_THREAD);
  // Zeros behind another zero have no token of their own.
  const u32 starts = ~(own.zeros & (own.zeros << 1 | zero_before)) & ((1u << inside) - 1);
  Token<U> tokens[VALUES_PER_THREAD];
  u32 bits = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    tokens[k] = {0, 0, 0};
    if (!(starts >> k & 1)) continue;
    const u32 run = own.zeros >> k & 1 ? zero_run(block.zeros, first + k) : 0;
    tokens[k] = run > 1 ? run_token<U>(run) : difference_token(own.differences[k]);
    bits += tokens[k].extra_bits;
    atomicAdd(&block.histogram[tokens[k].symbol][lane_id()], 1);
  }
  u32 total;
  const u32 before = block_sum_before(u32(__popc(starts)) | bits << 12, block.scratch, total);
  const u32 token_count = total & 0xfff, bit_count = total >> 12;
  for (u32 word = threadIdx.x; word < ceil_div(bit_count, 32); word += THREADS) block.extra[word] = 0;
  u32 token_at = before & 0xfff, bit_at = before >> 12;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    if (starts >> k & 1) block.symbols[token_at++] = u8(tokens[k].symbol);
  }
  __syncthreads();
  const auto put = [&](u64 value, u32 count) {
    const u32 word = bit_at / 32, shift = bit_at % 32;
    atomicOr(&block.extra[word], u32(value << shift));
    if (shift + count > 32) atomicOr(&block.extra[word + 1], u32(value >> (32 - shift)));
    if (shift + count > 64) atomicOr(&block.extra[word + 2], u32(value >> (64 - shift)));
    bit_at += count;
  };
  if (bits > 0 && bits <= 64) {
    // The bits of a thread's tokens are neighbours: joined first, they cost two or three operations on shared memory.
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
  u32* symbols = reinterpret_cast<u32*>(plane.symbols + place * SEGMENT);
  for (u32 word = threadIdx.x; word < ceil_div(token_count, 4); word += THREADS) symbols[word] = block.symbol_words[word];
  u32* extra = plane.extra + place * plane.extra_stride;
  for (u32 word = threadIdx.x; word < ceil_div(bit_count, 32); word += THREADS) extra[word] = block.extra[word];
  if (threadIdx.x == 0) {
    plane.token_counts[place] = token_count;
    plane.extra_bits[place] = bit_count;
  }
  __syncthreads();
}

/// Tokens of a plane of `elements` integers; `differences` gives those of a segment.
template <typename C, typename Differences>
__device__ __forceinline__ void tokenize_plane(TokenBlock<C>& block, const EncodeJob& job, u32 number, u32 elements, const Differences& differences) {
  const u32 segments = ceil_div(elements, SEGMENT);
  if (blockIdx.x >= segments) return;
  for (u32 i = threadIdx.x; i < SYMBOLS * WARP; i += THREADS) block.histogram[0][i] = 0;
  __syncthreads();
  for (u32 segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    const u32 start = segment * SEGMENT, length = min(SEGMENT, elements - start);
    Own<C> own;
    differences(segment, start, length, own);
    write_tokens(block, job.planes[number], u64(blockIdx.y) * job.segments + segment, length, own);
  }
  PlaneState& state = job.states[blockIdx.y].planes[number];
  for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
    u32 count = 0;
    // Each thread begins in another bank.
    for (u32 column = 0; column < WARP; column++) count += block.histogram[symbol][(column + symbol) % WARP];
    if (count) atomicAdd(&state.histogram[symbol], count);
  }
  __syncthreads();
}

template <typename V>
__device__ void tokenize(const EncodeJob& job) {
  typedef typename ValueType<V>::Code C;
  __shared__ TokenBlock<C> block;
  const EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  const Shape& shape = job.shape;
  const u32 elements = shape.elements;
  const C* codes = static_cast<const C*>(job.codes) + u64(blockIdx.y) * elements;
  tokenize_plane(block, job, CODES, elements, [&](u32, u32 start, u32 length, Own<C>& own) {
    switch (shape.rank) {
      case 1: return integer_differences<1>(block, codes, shape, start, length, own);
      case 2: return integer_differences<2>(block, codes, shape, start, length, own);
      case 3: return integer_differences<3>(block, codes, shape, start, length, own);
      default: return integer_differences<4>(block, codes, shape, start, length, own);
    }
  });
  if (state.exceptions == 0) return;

  const u32* mask = job.mask + u64(blockIdx.y) * job.segments * MASK_WORDS;
  const u32 axes = mask_axes(shape, state);
  tokenize_plane(block, job, MASK, elements, [&](u32 segment, u32 start, u32 length, Own<C>& own) {
    mask_differences(block, mask, shape, start, length, axes, mask_is_flat(job, segment), own);
  });

  const C* bits = static_cast<const C*>(job.exception_bits) + u64(blockIdx.y) * elements;
  tokenize_plane(block, job, BITS, state.exceptions, [&](u32, u32 start, u32 length, Own<C>& own) {
    integer_differences<1>(block, bits, shape, start, length, own);
  });
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) tokenize_f32(const __grid_constant__ EncodeJob job) { tokenize<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS, 3) tokenize_f64(const __grid_constant__ EncodeJob job) { tokenize<double>(job); }
