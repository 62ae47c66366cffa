// Stage 2 forward (FORMAT.md §6.1): codes -> differences along a set of axes. CPU: codec/src/predict/lorenzo.rs. predict/sums.cuh is the way back.
//
// Differences are computed where they are used, by the kernels of tokens and of bit planes: along the slow axes from codes that the caches hold, along the
// fastest from neighbours. A block of 256 threads takes a segment of 2048 integers, a thread eight neighbours. Where rows are a multiple of eight values, a
// thread's eight are in one row and are read by vector loads; otherwise neighbouring threads read neighbouring values and exchange them in shared memory.
#pragma once

#include "../job.cuh"
#include "../number/integer.cuh"

/// Index along each axis, fastest first. Axes from RANK on are not looked at.
template <u32 RANK>
struct Coordinates {
  u32 at[RANK];

  __device__ __forceinline__ Coordinates(const Shape& shape, u32 index) {
#pragma unroll
    for (u32 axis = 0; axis < RANK; axis++) {
      // The slowest axis needs no division.
      u32 rest = axis + 1 < RANK ? index / shape.extents[axis] : 0;
      at[axis] = index - rest * shape.extents[axis];
      index = rest;
    }
  }

  /// Moves THREADS values on.
  __device__ __forceinline__ void advance(const Shape& shape) {
    u32 carry = 0;
#pragma unroll
    for (u32 axis = 0; axis < RANK; axis++) {
      at[axis] += shape.advance[axis] + carry;
      carry = axis + 1 < RANK && at[axis] >= shape.extents[axis];
      if (carry) at[axis] -= shape.extents[axis];
    }
  }
};

/// The difference at `index` along those of axes 1 to RANK - 1 that are in `axes`, or along every one. A value that is the first along an axis is read in place
/// of the neighbour that it lacks, and not subtracted: so all loads can be in flight at once.
template <u32 RANK, bool EVERY, typename C, u32 ALL>
__device__ __forceinline__ C slow_difference(const C* values, const Shape& shape, u32 index, const Coordinates<ALL>& coordinates, u32 axes) {
  if constexpr (RANK == 1) {
    return values[index];
  } else {
    if (!EVERY && !(axes >> (RANK - 1) & 1)) return slow_difference<RANK - 1, EVERY>(values, shape, index, coordinates, axes);
    const bool inside = coordinates.at[RANK - 1] > 0;
    C here = slow_difference<RANK - 1, EVERY>(values, shape, index, coordinates, axes);
    C back = slow_difference<RANK - 1, EVERY>(values, shape, index - (inside ? shape.strides[RANK - 1] : 0), coordinates, axes);
    typedef typename Unsigned<C>::Type U;
    return inside ? C(U(here) - U(back)) : here;
  }
}

/// 32 bits of a mask from bit `at`, which may lie before its start.
__device__ __forceinline__ u32 mask_bits(const u32* words, i32 at) {
  const i32 word = at >> 5;
  const u32 low = word >= 0 ? words[word] : 0, high = word >= -1 && at % 32 ? words[word + 1] : 0;
  return __funnelshift_r(low, high, at & 31);
}

/// By axis: which of 32 values are not the first along it, by bits.
struct StepsBack {
  u32 inside[MAX_RANK];

  __device__ __forceinline__ StepsBack(const Shape& shape, u32 first) {
    Coordinates<MAX_RANK> coordinates(shape, first);
    // All 32 in one row.
    const bool together = shape.extents[0] % 32 == 0;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) inside[axis] = together && coordinates.at[axis] > 0 ? ALL_LANES : 0;
    if (together) {
      inside[0] |= ~1u;
      return;
    }
    for (u32 bit = 0; bit < 32; bit++) {
      u32 carry = 1;
#pragma unroll
      for (u32 axis = 0; axis < MAX_RANK; axis++) {
        inside[axis] |= u32(coordinates.at[axis] > 0) << bit;
        coordinates.at[axis] += carry;
        carry = coordinates.at[axis] >= shape.extents[axis];
        if (carry) coordinates.at[axis] = 0;
      }
    }
  }
};

/// Differences of a mask's bits, modulo 2, along `axes`: 32 of them, from index `first` on.
__device__ __forceinline__ u32 mask_difference(const u32* words, const Shape& shape, u32 first, const StepsBack& steps, u32 axes) {
  u32 result = 0;
  // Unrolled, so that all reads are under way at once.
#pragma unroll
  for (u32 set = 0; set < 1u << MAX_RANK; set++) {
    u32 back = 0, bits = set & ~axes ? 0 : ALL_LANES;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) {
      if (set >> axis & 1) {
        back += shape.strides[axis];
        bits &= steps.inside[axis];
      }
    }
    if (bits) result ^= mask_bits(words, i32(first - back)) & bits;
  }
  return result;
}

/// The axes of the mask's differences: all, the fastest, or none, whichever leaves the fewest ones; the first of these where they tie.
__device__ __forceinline__ u32 mask_axes(const Shape& shape, const EncodeState& state) {
  u32 all = state.mask_ones[0], fastest = state.mask_ones[1], none = state.exceptions;
  if (all <= fastest && all <= none) return (1u << shape.rank) - 1;
  return fastest <= none ? 1 : 0;
}

/// 32-bit words for the extra bits of a segment's integers, or for their bit planes: 33 bits a 32-bit integer, 65 bits a 64-bit integer.
template <typename C>
constexpr u32 EXTRA_WORDS = SEGMENT * (8 * sizeof(C) + 1) / 32;

/// Shared memory for the differences of a segment, reused for the extra bits or bit planes made of them.
template <typename C>
struct DifferenceShared {
  union {
    C values[SEGMENT];
    uint4 quads[SEGMENT * sizeof(C) / 16];
    u32 extra[EXTRA_WORDS<C> + 2];
  };
  C before;  // the value before the segment's first
  u32 zeros[MASK_WORDS];
};

/// A thread's eight differences.
template <typename C>
struct EightDifferences {
  C differences[VALUES_PER_THREAD];
  u32 zeros;  // bit k: difference k is 0; clear behind the plane's end
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
__device__ __forceinline__ void row_differences(DifferenceShared<C>& shared, const C* values, const Shape& shape, u32 start, u32 length, u32 axes,
                                                EightDifferences<C>& own) {
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
  reinterpret_cast<u8*>(shared.zeros)[threadIdx.x] = u8(own.zeros);
  __syncthreads();
}

/// Differences of a segment of a plane in memory along `axes`.
template <u32 RANK, bool EVERY, typename C>
__device__ __forceinline__ void integer_differences(DifferenceShared<C>& shared, const C* values, const Shape& shape, u32 start, u32 length, u32 axes,
                                                    EightDifferences<C>& own) {
  const bool along_row = EVERY || axes & 1;
  Coordinates<RANK> coordinates(shape, start + threadIdx.x);
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    const u32 p = k * THREADS + threadIdx.x;
    if (p < length) shared.values[p] = slow_difference<RANK, EVERY>(values, shape, start + p, coordinates, axes);
    coordinates.advance(shape);
  }
  if (threadIdx.x == 0 && start > 0) {
    shared.before = slow_difference<RANK, EVERY>(values, shape, start - 1, Coordinates<RANK>(shape, start - 1), axes);
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
  for (u32 i = 0; i < QUADS; i++) here.quads[i] = shared.quads[threadIdx.x * QUADS + i];
  U before = first > 0 ? shared.values[first - 1] : shared.before;
  u32 x = RANK == 1 ? start + first : (start + first) % shape.extents[0];
  own.zeros = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    own.differences[k] = C(U(here.values[k]) - (along_row && x > 0 ? before : U(0)));
    own.zeros |= u32(own.differences[k] == 0 && k < inside) << k;
    before = here.values[k];
    x = RANK > 1 && x + 1 == shape.extents[0] ? 0 : x + 1;
  }
  reinterpret_cast<u8*>(shared.zeros)[threadIdx.x] = u8(own.zeros);
  __syncthreads();
}

/// Differences of a segment of the exception mask.
template <typename C>
__device__ __forceinline__ void mask_differences(DifferenceShared<C>& shared, const u32* mask, const Shape& shape, u32 start, u32 length, u32 axes,
                                                 EightDifferences<C>& own) {
  if (threadIdx.x < MASK_WORDS) {
    const u32 first = 32 * threadIdx.x;
    const u32 inside = first >= length ? 0 : length - first >= 32 ? ALL_LANES : (1u << (length - first)) - 1;
    u32 ones = inside ? mask_difference(mask, shape, start + first, StepsBack(shape, start + first), axes) : 0;
    shared.zeros[threadIdx.x] = ~ones & inside;
  }
  __syncthreads();
  own.zeros = reinterpret_cast<u8*>(shared.zeros)[threadIdx.x];
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) own.differences[k] = C(~own.zeros >> k & 1);
}

/// Differences of a segment of `codes` along `axes`. Along all axes, the compiler knows the number of loads, and all of them are in flight at once.
template <u32 RANK, typename C>
__device__ __forceinline__ void differences_of_rank(DifferenceShared<C>& shared, const C* codes, const Shape& shape, u32 start, u32 length, u32 axes,
                                                    bool in_rows, EightDifferences<C>& own) {
  const bool every = axes == (1u << RANK) - 1;
  if (in_rows && every) return row_differences<RANK, true>(shared, codes, shape, start, length, axes, own);
  if (in_rows) return row_differences<RANK, false>(shared, codes, shape, start, length, axes, own);
  if (every) return integer_differences<RANK, true>(shared, codes, shape, start, length, axes, own);
  integer_differences<RANK, false>(shared, codes, shape, start, length, axes, own);
}

/// Differences of a segment of the codes.
template <typename V>
__device__ __forceinline__ void code_differences(DifferenceShared<typename ValueType<V>::Code>& shared, const EncodeJob& job, u32 start, u32 length,
                                                 EightDifferences<typename ValueType<V>::Code>& own) {
  typedef typename ValueType<V>::Code C;
  const Shape& shape = job.shape;
  const C* codes = static_cast<const C*>(job.codes) + u64(blockIdx.y) * shape.elements;
  // Residuals of interpolation are one row, and not differenced.
  const u32 axes = job.interpolated ? 0 : job.parameters[blockIdx.y].predictor;
  const bool in_rows = (job.interpolated ? shape.elements : shape.extents[0]) % VALUES_PER_THREAD == 0;
  switch (job.interpolated ? 1 : shape.rank) {
    case 1: return differences_of_rank<1>(shared, codes, shape, start, length, axes, in_rows, own);
    case 2: return differences_of_rank<2>(shared, codes, shape, start, length, axes, in_rows, own);
    case 3: return differences_of_rank<3>(shared, codes, shape, start, length, axes, in_rows, own);
    default: return differences_of_rank<4>(shared, codes, shape, start, length, axes, in_rows, own);
  }
}

/// Differences of a segment of the bits of many exceptions.
template <typename C>
__device__ __forceinline__ void bits_differences(DifferenceShared<C>& shared, const EncodeJob& job, u32 start, u32 length, EightDifferences<C>& own) {
  const C* bits = static_cast<const C*>(job.exception_bits) + u64(blockIdx.y) * job.shape.elements;
  integer_differences<1, true>(shared, bits, job.shape, start, length, 1, own);
}

/// Has `code_plane` code the planes of a chunk: it gets a plane's number, its number of integers, and what finds the differences of a segment. The blocks of
/// threads with blockIdx.z = 0 take the codes. Those with blockIdx.z = 1 take the mask and the bits of the exceptions, if these have planes.
template <typename V, typename Coder>
__device__ __forceinline__ void code_planes(DifferenceShared<typename ValueType<V>::Code>& shared, const EncodeJob& job, const Coder& code_plane) {
  typedef EightDifferences<typename ValueType<V>::Code> Own;
  const EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  if (blockIdx.z == 0) {
    code_plane(CODES, job.shape.elements, [&](u32 start, u32 length, Own& own) { code_differences<V>(shared, job, start, length, own); });
  } else if (state.exceptions > job.most_listed) {
    const u32 axes = mask_axes(job.shape, state);
    const u32* mask = job.mask + u64(blockIdx.y) * job.segments * MASK_WORDS;
    code_plane(MASK, job.shape.elements, [&](u32 start, u32 length, Own& own) { mask_differences(shared, mask, job.shape, start, length, axes, own); });
    code_plane(BITS, state.exceptions, [&](u32 start, u32 length, Own& own) { bits_differences(shared, job, start, length, own); });
  }
}
