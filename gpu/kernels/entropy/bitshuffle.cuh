// Bit planes (FORMAT.md §9.2): the fast coding of a plane. CPU: codec/src/entropy/bitshuffle.rs.
//
// Forward, a thread transposes eight integers to a byte of each bit plane. A warp takes a bit plane and counts its words and bytes that are not 0. Prefix sums
// over the bit planes give the offsets of all parts of the block, which is put together in shared memory. Backward, a warp takes a bit plane and restores its
// words; then a thread transposes bytes to integers.
#pragma once

#include "../predict/lorenzo.cuh"
#include "../predict/sums.cuh"

/// Bytes of a bit plane of a block, and its words.
constexpr u32 BIT_PLANE_BYTES = SEGMENT / 8;
constexpr u32 BIT_PLANE_WORDS = BIT_PLANE_BYTES / 4;
constexpr u32 FLAG_BYTES = BIT_PLANE_WORDS / 8;
static_assert(BIT_PLANE_WORDS == 2 * WARP, "a lane has two words of a plane");
static_assert(BIT_PLANE_BYTES == THREADS, "a thread has a byte of a plane");

enum BitPlaneMode { EMPTY_PLANE = 0, DENSE_PLANE = 1, SPARSE_PLANE = 2 };

template <typename C>
constexpr u32 MOST_BIT_PLANES = 8 * sizeof(typename Unsigned<C>::Type);
/// The longest block: all bit planes are sparse, and none of their bytes is 0. (Our encoder writes such bit planes as dense ones.)
template <typename C>
constexpr u32 MOST_BYTES = (1 + MOST_BIT_PLANES<C> / 4 + MOST_BIT_PLANES<C> * (FLAG_BYTES + BIT_PLANE_WORDS / 2 + BIT_PLANE_BYTES) + 3) / 4 * 4;

/// A number with its sign as the lowest bit.
template <typename C>
__device__ __forceinline__ typename Unsigned<C>::Type fold(C value) {
  typedef typename Unsigned<C>::Type F;
  constexpr u32 top = 8 * sizeof(F) - 1;
  const F negative = F(0) - F(value);
  return negative << 1 ^ (F(0) - (negative >> top));
}

template <typename F>
__device__ __forceinline__ F unfold(F folded) {
  return F(0) - (folded >> 1 ^ (F(0) - (folded & 1)));
}

/// Swaps bit `b` of byte `a` with bit `a` of byte `b`.
__device__ __forceinline__ u64 transpose_octet(u64 octet) {
  u64 different = (octet ^ octet >> 7) & 0x00aa00aa00aa00aaull;
  octet ^= different ^ different << 7;
  different = (octet ^ octet >> 14) & 0x0000cccc0000ccccull;
  octet ^= different ^ different << 14;
  different = (octet ^ octet >> 28) & 0x00000000f0f0f0f0ull;
  return octet ^ different ^ different << 28;
}

/// Which bytes of a word are not 0.
__device__ __forceinline__ u32 nibble_of(u32 word) {
  const u32 any = ((word & 0x7f7f7f7f) + 0x7f7f7f7f) | word;
  return (any >> 7 & 0x01010101) * 0x01020408 >> 24;
}

/// Finds where the bytes of a lane's two words begin among a bit plane's bytes. The first words of all lanes come before all second words. `nibbles` says which
/// bytes of the words there are. For a warp.
__device__ __forceinline__ void find_bytes(const u32 (&nibbles)[2], u32 (&at)[2]) {
  const u32 own = __popc(nibbles[0]) | __popc(nibbles[1]) << 16;
  const u32 inclusive = warp_prefix_sum(own), before = inclusive - own;
  at[0] = before & 0xffff;
  at[1] = (__shfl_sync(ALL_LANES, inclusive, WARP - 1) & 0xffff) + (before >> 16);
}

/// Mode of a bit plane, its words that are not 0 if it is sparse, and its bytes in the block.
struct BitPlaneCounts {
  u32 mode, words, bytes;
};

/// Sums over bit planes: of the sparse ones, of their words that are not 0, and of bytes. They are the offsets of a block's parts.
struct BitPlaneSums {
  u32 sparse, words, bytes;

  static __device__ __forceinline__ u64 pack(u32 sparse, u32 words, u32 bytes) { return u64(sparse) << 40 | u64(words) << 20 | bytes; }
  static __device__ __forceinline__ BitPlaneSums unpack(u64 sums) { return {u32(sums >> 40), u32(sums >> 20) & 0xfffff, u32(sums) & 0xfffff}; }
};

template <typename C>
struct ShuffleShared : DifferenceShared<C> {
  union {
    u8 planes[MOST_BIT_PLANES<C>][BIT_PLANE_BYTES];
    u32 plane_words[MOST_BIT_PLANES<C>][BIT_PLANE_WORDS];
  };
  u8 nibbles[MOST_BIT_PLANES<C> * BIT_PLANE_WORDS];
  BitPlaneCounts counts[MOST_BIT_PLANES<C>];
  u64 sums[MOST_BIT_PLANES<C> + 1];
  typename Unsigned<C>::Type any[WARPS];
};

/// For each bit plane the sums over the bit planes before it, by a warp; behind the last, the sums over all.
template <u32 MOST, typename Sums>
__device__ __forceinline__ void sum_bit_planes(u64* sums, u32 count, const Sums& sums_of) {
  u64 carry = 0;
#pragma unroll
  for (u32 base = 0; base < MOST; base += WARP) {
    const u32 number = base + lane_id();
    const u64 own = number < count ? sums_of(number) : 0;
    const u64 inclusive = warp_prefix_sum(own);
    if (number <= count) sums[number] = carry + inclusive - own;
    carry += __shfl_sync(ALL_LANES, inclusive, WARP - 1);
  }
  if (count == MOST && lane_id() == 0) sums[MOST] = carry;
}

/// Codes a segment of `length` integers as a block of bit planes.
template <typename C>
__device__ __forceinline__ void write_bit_planes(ShuffleShared<C>& shared, const EncodeJob& job, u32 plane_number, u32 segment, u32 length,
                                             const EightDifferences<C>& own) {
  typedef typename Unsigned<C>::Type F;
  const EncodePlane& plane = job.planes[plane_number];
  const u64 slot = u64(blockIdx.y) * job.segments + segment;
  const u32 t = threadIdx.x, first = t * VALUES_PER_THREAD;
  F folded[VALUES_PER_THREAD], any = 0;
#pragma unroll
  for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
    folded[k] = first + k < length ? fold(own.differences[k]) : F(0);
    any |= folded[k];
  }
  for (u32 offset = WARP / 2; offset > 0; offset /= 2) any |= __shfl_xor_sync(ALL_LANES, any, offset);
  if (lane_id() == 0) shared.any[warp_id()] = any;
  __syncthreads();
#pragma unroll
  for (u32 warp = 0; warp < WARPS; warp++) any |= shared.any[warp];
  const u32 count = sizeof(F) == 8 ? 64 - __clzll(any) : 32 - __clz(u32(any));
  u32 bytes = 0;
  if (count > 0) {
    for (u32 level = 0; level < count; level += 8) {
      u64 octet = 0;
#pragma unroll
      for (u32 k = 0; k < VALUES_PER_THREAD; k++) octet |= u64(u8(folded[k] >> level)) << (8 * k);
      octet = transpose_octet(octet);
#pragma unroll
      for (u32 at = 0; at < 8; at++) shared.planes[level + at][t] = u8(octet >> (8 * at));
    }
    __syncthreads();
    const u32 words = ceil_div(length, 32);
    for (u32 number = warp_id(); number < count; number += WARPS) {
      const u32 a = shared.plane_words[number][lane_id()], b = shared.plane_words[number][WARP + lane_id()];
      const u32 there = __popc(__ballot_sync(ALL_LANES, a != 0)) + __popc(__ballot_sync(ALL_LANES, b != 0));
      const u32 nonzero = __reduce_add_sync(ALL_LANES, __popc(nibble_of(a)) + __popc(nibble_of(b)));
      const bool sparse = 8 * FLAG_BYTES + 4 * there + 8 * nonzero < 32 * words;
      if (lane_id() == 0) {
        shared.counts[number] = there == 0 ? BitPlaneCounts{EMPTY_PLANE, 0, 0}
                                : sparse   ? BitPlaneCounts{SPARSE_PLANE, there, nonzero}
                                           : BitPlaneCounts{DENSE_PLANE, 0, 4 * words};
      }
    }
    __syncthreads();
    if (warp_id() == 0) {
      sum_bit_planes<MOST_BIT_PLANES<C>>(shared.sums, count, [&](u32 number) {
        const BitPlaneCounts counts = shared.counts[number];
        return BitPlaneSums::pack(counts.mode == SPARSE_PLANE, counts.words, counts.bytes);
      });
    }
    __syncthreads();
    const BitPlaneSums all = BitPlaneSums::unpack(shared.sums[count]);
    const u32 flags_at = 1 + ceil_div(count, 4), nibbles_at = flags_at + FLAG_BYTES * all.sparse, bytes_at = nibbles_at + ceil_div(all.words, 2);
    bytes = bytes_at + all.bytes;
    // What the differences needed is free again.
    u8* stream = reinterpret_cast<u8*>(shared.extra);
    if (t < flags_at) {
      u32 value = count;
      if (t > 0) {
        value = 0;
        for (u32 k = 0; k < 4; k++) {
          const u32 number = 4 * (t - 1) + k;
          if (number < count) value |= shared.counts[number].mode << (2 * k);
        }
      }
      stream[t] = u8(value);
    }
    // Up to a whole word.
    if (t < 4) stream[bytes + t] = 0;
    for (u32 number = warp_id(); number < count; number += WARPS) {
      const u32 mode = shared.counts[number].mode;
      if (mode == EMPTY_PLANE) continue;
      const BitPlaneSums at = BitPlaneSums::unpack(shared.sums[number]);
      const u32 words_of_lane[2] = {shared.plane_words[number][lane_id()], shared.plane_words[number][WARP + lane_id()]};
      u8* to = stream + bytes_at + at.bytes;
      if (mode == DENSE_PLANE) {
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
          const u32 word = half * WARP + lane_id();
          for (u32 k = 0; k < 4 && word < words; k++) to[4 * word + k] = u8(words_of_lane[half] >> (8 * k));
        }
        continue;
      }
      const u32 low = __ballot_sync(ALL_LANES, words_of_lane[0] != 0), high = __ballot_sync(ALL_LANES, words_of_lane[1] != 0);
      if (lane_id() < FLAG_BYTES) stream[flags_at + FLAG_BYTES * at.sparse + lane_id()] = u8((lane_id() < 4 ? low : high) >> (8 * (lane_id() % 4)));
      const u32 nibble[2] = {nibble_of(words_of_lane[0]), nibble_of(words_of_lane[1])};
      const u32 ranks[2] = {at.words + __popc(low & lanes_below()), at.words + __popc(low) + __popc(high & lanes_below())};
      u32 next_byte[2];
      find_bytes(nibble, next_byte);
#pragma unroll
      for (u32 half = 0; half < 2; half++) {
        if (nibble[half]) shared.nibbles[ranks[half]] = u8(nibble[half]);
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
          if (nibble[half] >> k & 1) to[next_byte[half]++] = u8(words_of_lane[half] >> (8 * k));
        }
      }
    }
    __syncthreads();
    for (u32 i = t; i < ceil_div(all.words, 2); i += THREADS) {
      stream[nibbles_at + i] = u8(shared.nibbles[2 * i] | (2 * i + 1 < all.words ? shared.nibbles[2 * i + 1] << 4 : 0));
    }
    __syncthreads();
    u32* target = plane.extra + slot * plane.extra_stride;
    for (u32 i = t; i < ceil_div(bytes, 4); i += THREADS) target[i] = shared.extra[i];
  }
  if (t == 0) {
    const u32 words = 2 * ceil_div(bytes, 4);
    PlaneState& state = job.states[blockIdx.y].planes[plane_number];
    plane.lane_or_bit_plane_words[slot] = plane.block_sizes[slot] = words;
    if (words > *static_cast<volatile u32*>(&state.max_lane_words)) atomicMax(&state.max_lane_words, words);
    if (words) atomicAdd(&plane.size_sums[u64(blockIdx.y) * job.sums + segment / SLOTS_PER_SUM], words);
  }
  __syncthreads();
}

/// Codes a plane of `elements` integers; `differences` gives those of a segment.
template <typename C, typename Differences>
__device__ __forceinline__ void shuffle_plane(ShuffleShared<C>& shared, const EncodeJob& job, u32 number, u32 elements, const Differences& differences) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    Book& book = job.planes[number].book[blockIdx.y];
    book.number = BIT_PLANES;
    book.block_segments_log = 0;
    book.has_few_lanes = 0;
    book.coded_len = 0;
  }
  const u32 segments = ceil_div(elements, SEGMENT);
  for (u32 segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    const u32 start = segment * SEGMENT, length = min(SEGMENT, elements - start);
    EightDifferences<C> own;
    differences(start, length, own);
    write_bit_planes(shared, job, number, segment, length, own);
  }
}

/// Codes all planes of a chunk as bit planes. blockIdx.y is the chunk. The blocks along x share the segments.
template <typename V>
__device__ void shuffle(const EncodeJob& job) {
  __shared__ ShuffleShared<typename ValueType<V>::Code> shared;
  code_planes<V>(shared, job, [&](u32 number, u32 elements, const auto& differences) { shuffle_plane(shared, job, number, elements, differences); });
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) shuffle_f32(const __grid_constant__ EncodeJob job) { shuffle<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS, 4) shuffle_f64(const __grid_constant__ EncodeJob job) { shuffle<double>(job); }

/// Warps of a block of threads that decodes.
constexpr u32 UNSHUFFLE_WARPS = LANE_THREADS / WARP;
/// Bytes of each plane that a thread has.
constexpr u32 OCTETS = BIT_PLANE_BYTES / LANE_THREADS;

template <typename C>
struct UnshuffleShared {
  union {
    u32 words[MOST_BYTES<C> / 4];
    C out[SEGMENT];
    uint4 out_quads[SEGMENT * sizeof(C) / 16];
  };
  union {
    u8 planes[MOST_BIT_PLANES<C>][BIT_PLANE_BYTES];
    u32 plane_words[MOST_BIT_PLANES<C>][BIT_PLANE_WORDS];
  };
  u64 flags[MOST_BIT_PLANES<C>];
  u32 modes[MOST_BIT_PLANES<C>];
  u32 bytes[MOST_BIT_PLANES<C>];
  u64 sums[MOST_BIT_PLANES<C> + 1];
};

/// Reads modes and flags of a block of `size` bytes, and sums up sparse bit planes and their words. For a warp. False if these parts are not as FORMAT.md
/// says.
template <typename C>
__device__ __forceinline__ bool find_bit_planes(UnshuffleShared<C>& shared, const u8* stream, u32 size, u32 count, u32 most, u32 words) {
  bool good = count >= 1 && count <= most;
  const u32 flags_at = 1 + ceil_div(count, 4);
  good = good && flags_at <= size;
  if (!good) return false;
  u32 sparse_before = 0;
  for (u32 base = 0; base < 4 * (flags_at - 1); base += WARP) {
    const u32 number = base + lane_id();
    const bool has_mode = number < 4 * (flags_at - 1);
    const u32 mode = has_mode ? stream[1 + number / 4] >> (2 * (number % 4)) & 3 : 0;
    good = good && mode <= SPARSE_PLANE && (number < count || mode == EMPTY_PLANE) && (number != count - 1 || mode != EMPTY_PLANE);
    const u32 sparse = __ballot_sync(ALL_LANES, mode == SPARSE_PLANE);
    const u32 at = flags_at + FLAG_BYTES * (sparse_before + __popc(sparse & lanes_below()));
    u64 flags = 0;
    if (mode == SPARSE_PLANE) {
      if (at + FLAG_BYTES <= size) {
        for (u32 k = 0; k < FLAG_BYTES; k++) flags |= u64(stream[at + k]) << (8 * k);
      }
      good = good && flags != 0 && (words == BIT_PLANE_WORDS || flags >> words == 0);
    }
    sparse_before += __popc(sparse);
    if (number < MOST_BIT_PLANES<C>) {
      shared.modes[number] = mode;
      shared.flags[number] = flags;
    }
  }
  __syncwarp();
  sum_bit_planes<MOST_BIT_PLANES<C>>(shared.sums, count, [&](u32 number) {
    return BitPlaneSums::pack(shared.modes[number] == SPARSE_PLANE, __popcll(shared.flags[number]), 0);
  });
  return __all_sync(ALL_LANES, good);
}

/// Decodes a block of `size` bytes in `shared.words` into `length` integers in `shared.out`; false if they are not as
/// FORMAT.md says for integers of `most` bits. For LANE_THREADS threads, all of which get the same answer.
template <typename C>
__device__ bool read_bit_planes(UnshuffleShared<C>& shared, const u8* stream, u32 size, u32 most, u32 length) {
  typedef typename Unsigned<C>::Type F;
  const u32 t = threadIdx.x, words = ceil_div(length, 32), count = stream[0];
  bool good = true;
  if (warp_id() == 0) good = find_bit_planes(shared, stream, size, count, most, words);
  if (!__syncthreads_and(good)) return false;
  const BitPlaneSums all = BitPlaneSums::unpack(shared.sums[count]);
  const u32 flags_at = 1 + ceil_div(count, 4), nibbles_at = flags_at + FLAG_BYTES * all.sparse, bytes_at = nibbles_at + ceil_div(all.words, 2);
  if (bytes_at > size) return false;
  const auto nibble = [&](u32 rank) { return u32(stream[nibbles_at + rank / 2]) >> (4 * (rank % 2)) & 15; };
  // This lane's nibbles of a plane.
  const auto nibbles_of = [&](u32 number, u32 (&nibbles)[2]) {
    const u64 flags = shared.flags[number];
    const u32 low = u32(flags), high = u32(flags >> 32), at = BitPlaneSums::unpack(shared.sums[number]).words;
    nibbles[0] = low >> lane_id() & 1 ? nibble(at + __popc(low & lanes_below())) : 0;
    nibbles[1] = high >> lane_id() & 1 ? nibble(at + __popc(low) + __popc(high & lanes_below())) : 0;
    return (nibbles[0] != 0) == (low >> lane_id() & 1) && (nibbles[1] != 0) == (high >> lane_id() & 1);
  };
  for (u32 number = warp_id(); number < count; number += UNSHUFFLE_WARPS) {
    const u32 mode = shared.modes[number];
    u32 bytes = mode == DENSE_PLANE ? 4 * words : 0;
    if (mode == SPARSE_PLANE) {
      u32 nibbles[2];
      const bool fit = nibbles_of(number, nibbles);
      good = good && fit;
      bytes = __reduce_add_sync(ALL_LANES, __popc(nibbles[0]) + __popc(nibbles[1]));
    }
    if (lane_id() == 0) shared.bytes[number] = bytes;
  }
  // Half a byte of nibbles may be left.
  if (all.words % 2 && nibble(all.words) != 0) good = false;
  if (!__syncthreads_and(good)) return false;
  if (warp_id() == 0) {
    // Again, now with the numbers of bytes.
    sum_bit_planes<MOST_BIT_PLANES<C>>(shared.sums, count, [&](u32 number) {
      return BitPlaneSums::pack(shared.modes[number] == SPARSE_PLANE, __popcll(shared.flags[number]), shared.bytes[number]);
    });
    __syncwarp();
    const u32 end = bytes_at + BitPlaneSums::unpack(shared.sums[count]).bytes;
    // Up to a whole word.
    good = end <= size && size - end < 4;
    for (u32 at = end; good && at < size; at++) good = stream[at] == 0;
  }
  if (!__syncthreads_and(good)) return false;
  for (u32 number = warp_id(); number < (count + 7) / 8 * 8; number += UNSHUFFLE_WARPS) {
    const u32 mode = number < count ? shared.modes[number] : EMPTY_PLANE;
    u32 words_of_lane[2] = {0, 0};
    if (mode != EMPTY_PLANE) {
      const u8* from = stream + bytes_at + BitPlaneSums::unpack(shared.sums[number]).bytes;
      u32 nibbles[2] = {lane_id() < words ? 15u : 0u, WARP + lane_id() < words ? 15u : 0u};
      if (mode == SPARSE_PLANE) nibbles_of(number, nibbles);
      u32 next_byte[2];
      find_bytes(nibbles, next_byte);
#pragma unroll
      for (u32 half = 0; half < 2; half++) {
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
          if (nibbles[half] >> k & 1) words_of_lane[half] |= u32(from[next_byte[half]++]) << (8 * k);
        }
        good = good && (mode == DENSE_PLANE || nibble_of(words_of_lane[half]) == nibbles[half]);
      }
    }
    // All lanes take part, also those that have found a fault.
    const bool is_empty = !__any_sync(ALL_LANES, words_of_lane[0] | words_of_lane[1]);
    if (number == count - 1 && is_empty) good = false;
    shared.plane_words[number][lane_id()] = words_of_lane[0];
    shared.plane_words[number][WARP + lane_id()] = words_of_lane[1];
  }
  // Integers take the place of the bytes.
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < OCTETS; i++) {
    const u32 column = i * LANE_THREADS + t;
    F folded[8] = {};
    for (u32 level = 0; level < count; level += 8) {
      u64 octet = 0;
#pragma unroll
      for (u32 at = 0; at < 8; at++) octet |= u64(shared.planes[level + at][column]) << (8 * at);
      octet = transpose_octet(octet);
#pragma unroll
      for (u32 k = 0; k < 8; k++) folded[k] |= F(u8(octet >> (8 * k))) << level;
    }
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
      shared.out[8 * column + k] = C(unfold(folded[k]));
      good = good && (folded[k] == 0 || 8 * column + k < length);
    }
  }
  return __syncthreads_and(good);
}

/// Decodes block `index` of a plane. False if it is not as FORMAT.md says.
template <typename C, typename Widest>
__device__ bool unshuffle_block(const DecodeJob& job, u32 number, const DecodePlaneState& state, u32 index, UnshuffleShared<Widest>& memory) {
  static_assert(sizeof(UnshuffleShared<C>) <= sizeof(UnshuffleShared<Widest>), "one memory for the planes of a chunk");
  UnshuffleShared<C>& shared = reinterpret_cast<UnshuffleShared<C>&>(memory);
  const DecodePlane& plane = job.planes[number];
  const u64 slot = u64(blockIdx.y) * job.segments + index;
  const u32* input = reinterpret_cast<const u32*>(chunk_stream(job));
  const u32 start = plane.lane_starts[slot];
  const u32 first = index * SEGMENT, length = min(state.elements - first, SEGMENT), halves = plane.lane_or_bit_plane_words[slot];
  C* values = static_cast<C*>(plane.values) + u64(blockIdx.y) * plane.stride + first;
  constexpr u32 VALUES_PER_QUAD = 16 / sizeof(C);
  uint4* quads = reinterpret_cast<uint4*>(values);
  if (halves > MOST_BYTES<C> / 2) return false;
  if (halves == 0) {
    for (u32 i = threadIdx.x; i < ceil_div(length, VALUES_PER_QUAD); i += LANE_THREADS) quads[i] = make_uint4(0, 0, 0, 0);
    C* edge = number == CODES ? edge_of<C>(job, index) : nullptr;
    for (u32 x = threadIdx.x; edge && x < job.shape.extents[0]; x += LANE_THREADS) edge[x] = 0;
    return true;
  }
  // Blocks are whole words.
  if (halves % 2 || start % 2) return false;
  for (u32 i = threadIdx.x; i < halves / 2; i += LANE_THREADS) shared.words[i] = input[start / 2 + i];
  __syncthreads();
  // Residuals have 32 bits even for 64-bit values.
  const u32 most = number == CODES && job.interpolated ? 32 : MOST_BIT_PLANES<C>;
  const bool good = read_bit_planes(shared, reinterpret_cast<const u8*>(shared.words), 2 * halves, most, length);
  if (good) {
    if constexpr (sizeof(C) >= 4) {
      if (number == CODES) sum_block<LANE_THREADS>(job, state, index, shared.out, length);
    }
    copy_from_shared<LANE_THREADS>(values, shared.out_quads, length);
  }
  __syncthreads();
  return good;
}

/// Decodes the blocks of all planes of a chunk that are bit planes.
template <typename C>
__device__ void unshuffle(const DecodeJob& job) {
  __shared__ UnshuffleShared<C> shared;
  DecodeState& state = job.states[blockIdx.y];
  // Other blocks of this launch set `error` too: all threads of this one must see one answer.
  if (__syncthreads_or(state.error != 0)) return;
  bool good = true;
  for (u32 number = 0; number < PLANES; number++) {
    const DecodePlaneState plane = state.planes[number];
    if (!plane.are_bit_planes) continue;
    for (u32 index = blockIdx.x; index < plane.blocks; index += gridDim.x) {
      good &= number == MASK ? unshuffle_block<u8>(job, MASK, plane, index, shared) : unshuffle_block<C>(job, number, plane, index, shared);
    }
  }
  if (!good && threadIdx.x == 0) state.error = DECODE_REFUSED;
}

extern "C" __global__ void __launch_bounds__(LANE_THREADS, 12) unshuffle_f32(const __grid_constant__ DecodeJob job) { unshuffle<i32>(job); }
extern "C" __global__ void __launch_bounds__(LANE_THREADS, 6) unshuffle_f64(const __grid_constant__ DecodeJob job) { unshuffle<i64>(job); }
