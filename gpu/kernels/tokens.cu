// Stages 2 and 3 (FORMAT.md §6, §7): codes -> differences -> tokens, and how often each symbol occurs. CPU: codec/src/tokens.rs.
//
// A block of 256 threads turns a segment of 2048 integers into tokens:
//
//   eight neighbours a thread ─> their differences ─> one bit a zero ─> run starts ─> tokens ─ prefix sum ─> places in the segment
//
// Where rows are a multiple of eight values, a thread's eight lie in one row and are read by vector loads; otherwise neighbouring threads
// read neighbouring values, which change hands in shared memory.
//
// Segments are coded apart, so symbols and extra bits wait in slots, one a segment, until blocks are put together (lanes.cu, plane.cu).
// Reads the codes (and neighbours, from caches), writes a byte a token and the extra bits.
#pragma once

#include "alphabet.cuh"
#include "exceptions.cu"

/// Words that the extra bits of a segment's integers can take, or their bit planes: 33 bits a 32-bit integer, 65 a 64-bit one.
template <typename C>
constexpr u32 EXTRA_WORDS = SEGMENT * (8 * sizeof(C) + 1) / 32;

/// What differences need, and room for what is made of them.
template <typename C>
struct DifferenceBlock {
  union {
    C values[SEGMENT];
    uint4 quads[SEGMENT * sizeof(C) / 16];
    u32 extra[EXTRA_WORDS<C> + 2];
  };
  C before;  // the value before the segment's first
  u32 zeros[MASK_WORDS];
};

template <typename C>
struct TokenBlock : DifferenceBlock<C> {
  u32 listed;  // segments of the mask that need all threads
  u32 list[MAX_LISTED];
  union {
    u8 symbols[SEGMENT];
    u32 symbol_words[SEGMENT / 4];
  };
  // A column a lane: no two lanes of a warp ever count in the same place, or in the same bank.
  u32 histogram[SYMBOLS][WARP];
  u32 scratch[WARPS + 1];
};

/// Zeros behind the eight values of thread `thread`, to the end of the segment at most.
__device__ __forceinline__ u32 zeros_behind(const u32* zeros, u32 thread) {
  const u32 begin = (thread + 1) * VALUES_PER_THREAD;
  if (begin >= SEGMENT) return 0;
  u32 word = begin / 32;
  const u32 ones = ~(zeros[word] >> (begin % 32));  // the bits shifted in count as ones
  const u32 run = __ffs(ones) - 1;
  if (ones != 0 && run < 32 - begin % 32) return run;
  for (word++; word < MASK_WORDS && zeros[word] == ALL_LANES; word++) {
  }
  return 32 * word + (word < MASK_WORDS ? __ffs(~zeros[word]) - 1 : 0) - begin;
}

/// A thread's eight differences.
template <typename C>
struct Own {
  C differences[VALUES_PER_THREAD];
  u32 zeros;  // a bit each; 0 behind the plane's end
};

/// Eight neighbouring integers.
template <typename C>
struct Eight {
  union {
    uint4 quads[sizeof(C) / 2];
    C values[VALUES_PER_THREAD];
  };
};

template <typename C>
__device__ __forceinline__ Eight<C> read_eight(const C* values) {
  Eight<C> result;
#pragma unroll
  for (u32 i = 0; i < sizeof(C) / 2; i++) result.quads[i] = reinterpret_cast<const uint4*>(values)[i];
  return result;
}

/// As `slow_difference`, for eight values of one row.
template <u32 RANK, bool EVERY, typename C, u32 ALL>
__device__ __forceinline__ Eight<C> slow_differences(const C* values, const Shape& shape, u32 index, const Coordinates<ALL>& coordinates, u32 axes) {
  if constexpr (RANK == 1) {
    return read_eight(values + index);
  } else {
    typedef typename Unsigned<C>::Type U;
    if (!EVERY && !(axes >> (RANK - 1) & 1)) return slow_differences<RANK - 1, EVERY>(values, shape, index, coordinates, axes);
    const bool inside = coordinates.at[RANK - 1] > 0;
    Eight<C> here = slow_differences<RANK - 1, EVERY>(values, shape, index, coordinates, axes);
    Eight<C> back = slow_differences<RANK - 1, EVERY>(values, shape, index - (inside ? shape.strides[RANK - 1] : 0), coordinates, axes);
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) here.values[k] = C(U(here.values[k]) - (inside ? U(back.values[k]) : U(0)));
    return here;
  }
}

/// Differences of a segment of a plane in memory along `axes`, where rows are a multiple of eight values.
template <u32 RANK, bool EVERY, typename C>
__device__ __forceinline__ void row_differences(DifferenceBlock<C>& block, const C* values, const Shape& shape, u32 start, u32 length, u32 axes,
                                                Own<C>& own) {
  typedef typename Unsigned<C>::Type U;
  const u32 first = threadIdx.x * VALUES_PER_THREAD;
  const bool inside = first < length;
  Eight<C> here = {};
  U before = 0;
  Coordinates<RANK> coordinates(shape, start + first);
  if (inside) {
    here = slow_differences<RANK, EVERY>(values, shape, start + first, coordinates, axes);
    // The first lane has no neighbour to ask.
    if (lane_id() == 0 && coordinates.at[0] > 0) before = slow_difference<RANK, EVERY>(values, shape, start + first - 1, coordinates, axes);
  }
  const U neighbour = __shfl_up_sync(ALL_LANES, U(here.values[VALUES_PER_THREAD - 1]), 1);
  if (lane_id() > 0 && coordinates.at[0] > 0) before = neighbour;
  own.zeros = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    own.differences[k] = C(U(here.values[k]) - (EVERY || axes & 1 ? before : U(0)));
    own.zeros |= u32(own.differences[k] == 0) << k;
    before = here.values[k];
  }
  if (!inside) own.zeros = 0;
  reinterpret_cast<u8*>(block.zeros)[threadIdx.x] = u8(own.zeros);
  __syncthreads();
}

/// Differences of a segment of a plane in memory along `axes`.
template <u32 RANK, bool EVERY, typename C>
__device__ __forceinline__ void integer_differences(DifferenceBlock<C>& block, const C* values, const Shape& shape, u32 start, u32 length, u32 axes,
                                                    Own<C>& own) {
  const bool along_row = EVERY || axes & 1;
  Coordinates<RANK> coordinates(shape, start + threadIdx.x);
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    const u32 p = k * THREADS + threadIdx.x;
    if (p < length) block.values[p] = slow_difference<RANK, EVERY>(values, shape, start + p, coordinates, axes);
    coordinates.advance(shape);
  }
  if (threadIdx.x == 0 && start > 0) {
    block.before = slow_difference<RANK, EVERY>(values, shape, start - 1, Coordinates<RANK>(shape, start - 1), axes);
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
    own.differences[k] = C(U(here.values[k]) - (along_row && x > 0 ? before : U(0)));
    own.zeros |= u32(own.differences[k] == 0 && k < inside) << k;
    before = here.values[k];
    x = RANK > 1 && x + 1 == shape.extents[0] ? 0 : x + 1;
  }
  reinterpret_cast<u8*>(block.zeros)[threadIdx.x] = u8(own.zeros);
  __syncthreads();
}

/// Differences of a segment of the exception mask.
template <typename C>
__device__ __forceinline__ void mask_differences(DifferenceBlock<C>& block, const u32* mask, const Shape& shape, u32 start, u32 length, u32 axes,
                                                 Own<C>& own) {
  if (threadIdx.x < MASK_WORDS) {
    const u32 first = 32 * threadIdx.x;
    const u32 inside = first >= length ? 0 : length - first >= 32 ? ALL_LANES : (1u << (length - first)) - 1;
    u32 ones = inside ? mask_difference(mask, shape, start + first, StepsBack(shape, start + first), axes) : 0;
    block.zeros[threadIdx.x] = ~ones & inside;
  }
  __syncthreads();
  own.zeros = reinterpret_cast<u8*>(block.zeros)[threadIdx.x];
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) own.differences[k] = C(~own.zeros >> k & 1);
}

/// Differences of a segment of the codes.
template <typename V>
__device__ __forceinline__ void code_differences(DifferenceBlock<typename ValueType<V>::Code>& block, const EncodeJob& job, u32 start, u32 length,
                                                 Own<typename ValueType<V>::Code>& own) {
  typedef typename ValueType<V>::Code C;
  const Shape& shape = job.shape;
  const C* codes = static_cast<const C*>(job.codes) + u64(blockIdx.y) * shape.elements;
  // What interpolation leaves is a line of its own.
  const u32 axes = job.interpolated ? 0 : job.parameters->axes, rank = job.interpolated ? 1 : shape.rank;
  const bool in_rows = (job.interpolated ? shape.elements : shape.extents[0]) % VALUES_PER_THREAD == 0;
  // Along all axes, the number of reads is known to the compiler, and they are under way together.
  const bool every = axes == (1u << rank) - 1;
  switch (rank | u32(in_rows) << 3 | u32(every) << 4) {
    case 1: return integer_differences<1, false>(block, codes, shape, start, length, axes, own);
    case 2: return integer_differences<2, false>(block, codes, shape, start, length, axes, own);
    case 3: return integer_differences<3, false>(block, codes, shape, start, length, axes, own);
    case 4: return integer_differences<4, false>(block, codes, shape, start, length, axes, own);
    case 8 | 1: return row_differences<1, false>(block, codes, shape, start, length, axes, own);
    case 8 | 2: return row_differences<2, false>(block, codes, shape, start, length, axes, own);
    case 8 | 3: return row_differences<3, false>(block, codes, shape, start, length, axes, own);
    case 8 | 4: return row_differences<4, false>(block, codes, shape, start, length, axes, own);
    case 16 | 1: return integer_differences<1, true>(block, codes, shape, start, length, axes, own);
    case 16 | 2: return integer_differences<2, true>(block, codes, shape, start, length, axes, own);
    case 16 | 3: return integer_differences<3, true>(block, codes, shape, start, length, axes, own);
    case 16 | 4: return integer_differences<4, true>(block, codes, shape, start, length, axes, own);
    case 24 | 1: return row_differences<1, true>(block, codes, shape, start, length, axes, own);
    case 24 | 2: return row_differences<2, true>(block, codes, shape, start, length, axes, own);
    case 24 | 3: return row_differences<3, true>(block, codes, shape, start, length, axes, own);
    default: return row_differences<4, true>(block, codes, shape, start, length, axes, own);
  }
}

/// Differences of a segment of the bits of many exceptions.
template <typename C>
__device__ __forceinline__ void bits_differences(DifferenceBlock<C>& block, const EncodeJob& job, u32 start, u32 length, Own<C>& own) {
  const C* bits = static_cast<const C*>(job.exception_bits) + u64(blockIdx.y) * job.shape.elements;
  integer_differences<1, true>(block, bits, job.shape, start, length, 1, own);
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
  const u32 last = 1u << (VALUES_PER_THREAD - 1);
  // Only a run that begins here and reaches the last value goes on behind it.
  const u32 behind = (own.zeros & last) && (starts & own.zeros) ? zeros_behind(block.zeros, threadIdx.x) : 0;
  Token<U> tokens[VALUES_PER_THREAD];
  u32 bits = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    tokens[k] = {0, 0, 0};
    if (!(starts >> k & 1)) continue;
    u32 run = __ffs(~(own.zeros >> k)) - 1;
    if (run == VALUES_PER_THREAD - k) run += behind;
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

template <typename C>
__device__ __forceinline__ void count_from_zero(TokenBlock<C>& block) {
  for (u32 i = threadIdx.x; i < SYMBOLS * WARP; i += THREADS) block.histogram[0][i] = 0;
  __syncthreads();
}

/// Adds what this block of threads has counted to the plane's counts.
template <typename C>
__device__ __forceinline__ void add_counts(TokenBlock<C>& block, PlaneState& state) {
  for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
    u32 count = 0;
    // Each thread begins in another bank.
    for (u32 column = 0; column < WARP; column++) count += block.histogram[symbol][(column + symbol) % WARP];
    if (count) atomicAdd(&state.histogram[symbol], count);
  }
  __syncthreads();
}

/// Tokens of a plane of `elements` integers; `differences` gives those of a segment.
template <typename C, typename Differences>
__device__ __forceinline__ void tokenize_plane(TokenBlock<C>& block, const EncodeJob& job, u32 number, u32 elements, const Differences& differences) {
  const u32 segments = ceil_div(elements, SEGMENT);
  if (blockIdx.x >= segments) return;
  count_from_zero(block);
  for (u32 segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    const u32 start = segment * SEGMENT, length = min(SEGMENT, elements - start);
    Own<C> own;
    differences(start, length, own);
    write_tokens(block, job.planes[number], u64(blockIdx.y) * job.segments + segment, length, own);
  }
  add_counts(block, job.states[blockIdx.y].planes[number]);
}

/// Tokens of the exception mask. Where no exception is near, a segment is one run of zeros, which one lane writes.
template <typename C>
__device__ __forceinline__ void tokenize_mask(TokenBlock<C>& block, const EncodeJob& job, const EncodeState& state) {
  const Shape& shape = job.shape;
  const u32* mask = job.mask + u64(blockIdx.y) * job.segments * MASK_WORDS;
  const u32 axes = mask_axes(shape, state);
  const EncodePlane& plane = job.planes[MASK];
  count_from_zero(block);
  for (u32 base = blockIdx.x; base < job.segments; base += MAX_LISTED * gridDim.x) {
    if (threadIdx.x == 0) block.listed = 0;
    __syncthreads();
    for (u32 k = warp_id(); k < MAX_LISTED && base + k * gridDim.x < job.segments; k += WARPS) {
      const u32 segment = base + k * gridDim.x, length = min(SEGMENT, shape.elements - segment * SEGMENT);
      const bool flat = mask_is_flat(job, segment);
      if (lane_id() != 0) continue;
      if (!flat) {
        block.list[atomicAdd(&block.listed, 1)] = segment;
        continue;
      }
      const u64 place = u64(blockIdx.y) * job.segments + segment;
      const Token<u32> token = length > 1 ? run_token<u32>(length) : Token<u32>{DIRECT_ZERO, 0, 0};
      plane.symbols[place * SEGMENT] = u8(token.symbol);
      plane.extra[place * plane.extra_stride] = token.extra;
      plane.token_counts[place] = 1;
      plane.extra_bits[place] = token.extra_bits;
      atomicAdd(&block.histogram[token.symbol][0], 1);
    }
    __syncthreads();
    // Every segment has its own slot, so that their order does not matter.
    const u32 listed = block.listed;
    for (u32 k = 0; k < listed; k++) {
      const u32 segment = block.list[k], start = segment * SEGMENT, length = min(SEGMENT, shape.elements - start);
      Own<C> own;
      mask_differences(block, mask, shape, start, length, axes, own);
      write_tokens(block, plane, u64(blockIdx.y) * job.segments + segment, length, own);
    }
    __syncthreads();
  }
  add_counts(block, job.states[blockIdx.y].planes[MASK]);
}

/// Tokens of the planes that there are only with many exceptions.
template <typename C>
__device__ __forceinline__ void tokenize_exceptions(TokenBlock<C>& block, const EncodeJob& job, const EncodeState& state) {
  if (state.exceptions <= job.most_listed) return;
  tokenize_mask(block, job, state);
  tokenize_plane(block, job, BITS, state.exceptions,
                 [&](u32 start, u32 length, Own<C>& own) { bits_differences<C>(block, job, start, length, own); });
}

/// Tokens of all planes of a chunk. Grid: segments, chunks, 2: blocks of threads for the codes, and blocks for exceptions.
template <typename V>
__device__ void tokenize(const EncodeJob& job) {
  typedef typename ValueType<V>::Code C;
  __shared__ TokenBlock<C> block;
  const EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  if (blockIdx.z == 1) return tokenize_exceptions(block, job, state);
  tokenize_plane(block, job, CODES, job.shape.elements,
                 [&](u32 start, u32 length, Own<C>& own) { code_differences<V>(block, job, start, length, own); });
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) tokenize_f32(const __grid_constant__ EncodeJob job) { tokenize<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS, 3) tokenize_f64(const __grid_constant__ EncodeJob job) { tokenize<double>(job); }
