// Stages 3 and 2 back (FORMAT.md §7, §6): symbols of tokens -> differences, and where blocks hold whole rows, their sums. CPU:
// codec/src/entropy/lanes/expand.rs.
//
// A block of threads takes a block of the stream, whose symbols lanes.cuh has decoded. It expands TOKENS_PER_THREAD tokens a thread at a time:
//
//   symbols ─> numbers of extra bits ─ prefix sum ─> extra bits ─> differences and their spans ─ prefix sum ─> offsets of the differences in the block
//
// Differences are put together in shared memory, and summed there (predict/sums.cuh).
#pragma once

#include "../job.cuh"
#include "../predict/sums.cuh"
#include "alphabet.cuh"

/// Tokens that a thread expands at a time. Below, T is the number of threads of a block: FEW_SEGMENTS_EXPAND_THREADS if a job has few segments
/// for each multiprocessor, otherwise EXPAND_THREADS.
constexpr u32 TOKENS_PER_THREAD = 8;
/// A block with at most this many extra words has them copied to shared memory. Others are read from global memory.
constexpr u32 STAGE_EXTRA_WORDS = 1024;
/// A block of at most this many differences is expanded in shared memory. The encoder makes longer blocks only where an integer takes less than
/// 2.7 bits, or 1.34 bits where this is 8192 (FORMAT.md §11.4). These are expanded in global memory.
template <typename C, u32 T>
constexpr u32 OUT_VALUES = (sizeof(C) <= 4 && T > EXPAND_THREADS ? 2 : 1) << ROWS_BLOCK_LOG;

/// The extra words of a block in global memory.
struct GlobalExtraWords {
  const u16* words;
  u32 count;

  /// Words behind the block's are 0.
  __device__ __forceinline__ u32 operator[](u32 index) const { return index < count ? words[index] : 0; }
  /// 64 extra bits from bit `at`, least significant first.
  __device__ __forceinline__ u64 window(u32 at) const {
    const GlobalExtraWords& own = *this;
    const u32 word = at / 16, shift = at % 16;
    const u64 low = u64(own[word]) | u64(own[word + 1]) << 16 | u64(own[word + 2]) << 32 | u64(own[word + 3]) << 48;
    return shift ? low >> shift | u64(own[word + 4]) << (64 - shift) : low;
  }
};

/// The extra words of a block in shared memory, two in one 32-bit word. Eight words of 0 follow them.
struct SharedExtraWords {
  const u32* pairs;
  u32 count;  // of 16 bits

  __device__ __forceinline__ u32 operator[](u32 index) const { return index < count ? pairs[index / 2] >> (16 * (index % 2)) & 0xffff : 0; }
  __device__ __forceinline__ u64 window(u32 at) const {
    const u32 word = min(at / 32, (count + 1) / 2);
    const u32 low = pairs[word], middle = pairs[word + 1], high = pairs[word + 2];
    return u64(__funnelshift_r(middle, high, at)) << 32 | __funnelshift_r(low, middle, at);
  }
};

/// The symbols of a thread's tokens, four in a 32-bit word.
struct TokenSymbols {
  u32 fours[TOKENS_PER_THREAD / 4];
};

/// The symbols of a block: first those that the lanes gave, then the symbol whose code is all zeros, without end. A lane gives this symbol when its words are
/// used up.
struct BlockSymbols {
  const uint2* eights;
  u32 count;
  u32 behind;  // the symbol whose code is all zeros, in each of the four bytes

  __device__ __forceinline__ TokenSymbols read(u32 token) const {
    static_assert(TOKENS_PER_THREAD == 8 && LANES % TOKENS_PER_THREAD == 0 && FEW_LANES % TOKENS_PER_THREAD == 0,
                  "all symbols of a thread are there, or none");
    const uint2 eight = token < count ? eights[token / 8] : make_uint2(behind, behind);
    return {{eight.x, eight.y}};
  }
};

template <typename C, u32 T>
struct ExpandShared {
  u32 extra_words[STAGE_EXTRA_WORDS / 2 + 4];
  u32 entries[SYMBOLS];
  u32 scratch[2][T / WARP];
  bool good;
  // The last field, so that the offsets of the others do not depend on C: `expand_plane_block` reads the memory of one type as that of another.
  union {
    C out[OUT_VALUES<C, T>];
    uint4 out_quads[OUT_VALUES<C, T> * sizeof(C) / 16];
  };
};

/// The shortest run of a symbol's entry.
__device__ __forceinline__ u32 run_start(u32 entry) { return entry >> START_SHIFT & ((1u << (FIRST_SHIFT - START_SHIFT)) - 1); }

/// The TOKENS_PER_THREAD tokens that a thread expands at a time.
template <typename C>
struct Expander {
  u32 entries[TOKENS_PER_THREAD];
  C differences[TOKENS_PER_THREAD];
  u32 spans[TOKENS_PER_THREAD];

  /// Looks up the symbols' entries (codec/src/entropy/codebook.rs, `symbol_entry`); returns how many extra bits the tokens have together. Bits 4 to 10 of
  /// an entry are a token's number of extra bits.
  __device__ __forceinline__ u32 look_up(const u32 (&symbol_entries)[SYMBOLS], const TokenSymbols& symbols) {
    u32 bits = 0;
#pragma unroll
    for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
      entries[k] = symbol_entries[symbols.fours[k / 4] >> (8 * (k % 4)) & 0xff];
      bits += entries[k] & 127 << 4;
    }
    return bits >> 4;
  }

  /// Reads `bits` extra bits from bit `bit_at` on. Computes each token's difference and its span, which is the number of differences that it expands to.
  /// Returns the sum of the spans.
  template <typename Words>
  __device__ __forceinline__ u32 read(const Words& words, u32 bit_at, u32 bits) {
    u32 span = 0, any = 0;
#pragma unroll
    for (u32 k = 0; k < TOKENS_PER_THREAD; k++) any |= entries[k];
    if (sizeof(C) <= 4 && !(any & WIDE_ENTRY) && bits <= 64) {
      // The extra bits of a thread's tokens are adjacent, and no token without WIDE_ENTRY has more than 21.
      u64 window = bits > 0 ? words.window(bit_at) : 0;
#pragma unroll
      for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
        const u32 count = entries[k] >> 4 & 31;
        const u32 value = u32(window) & ~(~0u << count);
        window >>= count;
        const i32 payload = i32(entries[k]) >> START_SHIFT;
        const bool run = entries[k] & RUN_ENTRY;
        const i32 sign = i32(value & 1);
        spans[k] = run ? run_start(entries[k]) + value : 1;
        differences[k] = run ? C(i32(entries[k]) >> FIRST_SHIFT) : C(((payload + i32(value >> 1)) ^ -sign) + sign);
        span += spans[k];
      }
      return span;
    }
    u32 at = bit_at;
#pragma unroll
    for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
      const u32 count = entries[k] >> 4 & 127;
      u64 value = count > 0 ? words.window(at) : 0;
      if (count < 64) value &= (1ull << count) - 1;
      at += count;
      const i32 payload = i32(entries[k]) >> START_SHIFT;
      const bool run = entries[k] & RUN_ENTRY;
      spans[k] = run ? run_start(entries[k]) + u32(value) : 1;
      span += spans[k];
      differences[k] = run ? C(i32(entries[k]) >> FIRST_SHIFT) : C(class_value(entries[k] & WIDE_ENTRY ? SYMBOL_START[payload] : u64(i64(payload)), value));
    }
    return span;
  }
};

/// The sum over the threads before this one, and over all. The constructor writes each warp's sum to `scratch`. Behind a barrier, `join` adds them up: then
/// `before` is the sum over the threads before this one.
template <u32 T>
struct ExpandSum {
  u32 before;

  __device__ __forceinline__ ExpandSum(u32 value, u32* scratch) {
    const u32 inclusive = warp_prefix_sum(value);
    if (lane_id() == WARP - 1) scratch[warp_id()] = inclusive;
    before = inclusive - value;
  }

  __device__ __forceinline__ u32 join(const u32* scratch) {
    u32 total = 0;
#pragma unroll
    for (u32 warp = 0; warp < T / WARP; warp++) {
      if (warp < warp_id()) before += scratch[warp];
      total += scratch[warp];
    }
    return total;
  }
};

/// Whether the `lanes` lanes of a block that has `tokens` tokens have no 1 bit behind its last token, and no word behind it (FORMAT.md §9.1).
__device__ __forceinline__ bool lanes_end_well(const LanesEnd& end, u32 lanes, u32 tokens) {
  if (end.rounds == NONE) return false;
  // After `end.rounds` rounds all words have been read, and all bits that are left are 0. A block that has a token for each lane in all of these rounds leaves
  // nothing behind its last token.
  if (tokens >= end.rounds * lanes) return true;
  // Otherwise the last token must be in the last of these rounds: before that round there was a 1 bit or a word left. The lanes behind the last token's lane
  // have no token in the round. So they must have had no 1 bit left before it.
  const u32 before = (end.rounds - 1) * lanes;
  return tokens > before && end.lanes_before >> (tokens - before) == 0;
}

/// Expands a block of `length` differences into `out`, which is all 0. Sets `shared.good` to whether the block is as FORMAT.md says; threads may read it when
/// this function returns.
template <u32 T, typename C, typename Words>
__device__ void expand_block(ExpandShared<C, T>& shared, const BlockSymbols& symbols, const LanesEnd& end, u32 lanes, const Words& words, C* out,
                             u32 length) {
  constexpr u32 TOKENS_AT_ONCE = T * TOKENS_PER_THREAD;
  u32 at = 0, extra_at = 0, token = threadIdx.x * TOKENS_PER_THREAD;
  TokenSymbols next = symbols.read(token);
  // Every token expands to one difference at least, so that the loop ends.
  for (;; token += TOKENS_AT_ONCE) {
    Expander<C> expander;
    const u32 own_bits = expander.look_up(shared.entries, next);
    // These loads are in flight while these tokens are expanded.
    next = symbols.read(token + TOKENS_AT_ONCE);
    ExpandSum<T> bits(own_bits, shared.scratch[0]);
    __syncthreads();
    const u32 total_bits = bits.join(shared.scratch[0]), bit_at = extra_at + bits.before;
    ExpandSum<T> spans(expander.read(words, bit_at, own_bits), shared.scratch[1]);
    __syncthreads();
    const u32 total_span = spans.join(shared.scratch[1]);
    u32 offset = at + spans.before;
    if (at + total_span < length) {
#pragma unroll
      for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
        if (expander.differences[k] != 0) out[offset] = expander.differences[k];
        offset += expander.spans[k];
      }
      at += total_span;
      extra_at += total_bits;
      continue;
    }
    // The block ends here.
    u32 bit_end = bit_at;
#pragma unroll
    for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
      if (offset >= length) break;
      if (expander.differences[k] != 0) out[offset] = expander.differences[k];
      offset += expander.spans[k];
      bit_end += expander.entries[k] >> 4 & 127;
      if (offset < length) continue;
      // The block's last token, which one thread has.
      bool good = offset == length && lanes_end_well(end, lanes, token + k + 1) && ceil_div(bit_end, 16) == words.count;
      good = good && (bit_end % 16 == 0 || words[bit_end / 16] >> (bit_end % 16) == 0);
      shared.good = good;
    }
    break;
  }
  __syncthreads();
}

/// Expands block `index` of a plane. False if it is not as FORMAT.md says.
template <typename C, typename Widest, u32 T>
__device__ bool expand_plane_block(const DecodeJob& job, u32 number, const DecodePlaneState& state, u32 index, ExpandShared<Widest, T>& memory) {
  static_assert(sizeof(C) <= sizeof(Widest), "one memory for the planes of a chunk");
  ExpandShared<C, T>& shared = reinterpret_cast<ExpandShared<C, T>&>(memory);
  const DecodePlane& plane = job.planes[number];
  const u64 slot = u64(blockIdx.y) * job.segments + index;
  const LanesEnd end = plane.lane_ends[slot];
  const u32 count = plane.extra_sizes[slot], start = plane.lane_starts[slot] + plane.lane_or_bit_plane_words[slot], length = block_length(state, index);
  const u16* words = reinterpret_cast<const u16*>(chunk_stream(job)) + start;
  const u64 first = u64(index) << state.block_log;
  const u32 zero_symbol = plane.table[blockIdx.y][0] >> 4;
  const BlockSymbols symbols = {reinterpret_cast<const uint2*>(plane.symbols + u64(blockIdx.y) * job.segments * SEGMENT + first),
                                end.rounds == NONE ? 0 : end.rounds * state.lanes, zero_symbol * 0x01010101};
  C* values = static_cast<C*>(plane.values) + u64(blockIdx.y) * plane.stride + first;
  const bool in_shared = length <= OUT_VALUES<Widest, T>;
  uint4* zeroed = in_shared ? shared.out_quads : reinterpret_cast<uint4*>(values);
  // The last quad may reach over the block's end: the arrays have room for whole quads.
  for (u32 i = threadIdx.x; i < ceil_div(length * u32(sizeof(C)), 16); i += T) zeroed[i] = make_uint4(0, 0, 0, 0);
  C* out = in_shared ? shared.out : values;
  if (count <= STAGE_EXTRA_WORDS) {
    u16* halves = reinterpret_cast<u16*>(shared.extra_words);
#pragma unroll 4
    for (u32 i = threadIdx.x; i < count + 8; i += T) halves[i] = i < count ? words[i] : 0;
    __syncthreads();
    expand_block(shared, symbols, end, state.lanes, SharedExtraWords{shared.extra_words, count}, out, length);
  } else {
    __syncthreads();
    expand_block(shared, symbols, end, state.lanes, GlobalExtraWords{words, count}, out, length);
  }
  const bool good = shared.good;
  if (in_shared) {
    if constexpr (sizeof(C) >= 4) {
      if (number == CODES) sum_block<T>(job, state, index, shared.out, length);
    }
    copy_from_shared<T>(values, shared.out_quads, length);
  }
  __syncthreads();
  return good;
}

/// Expands the blocks of all planes of a chunk. Blocks of all planes have one numbering, so that the mask's do not wait for the codes'.
template <typename C, u32 T>
__device__ void expand(const DecodeJob& job) {
  __shared__ ExpandShared<C, T> shared;
  DecodeState& state = job.states[blockIdx.y];
  // Other blocks of this launch set `error` too: all threads of this one must see one answer.
  if (__syncthreads_or(state.error != 0)) return;
  for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += T) shared.entries[symbol] = SYMBOL_ENTRY[symbol];
  bool good = true;
  u32 index = blockIdx.x;
  for (u32 number = 0; number < PLANES; number++) {
    const DecodePlaneState plane = state.planes[number];
    const u32 blocks = plane.are_bit_planes ? 0 : plane.blocks;
    for (; index < blocks; index += gridDim.x) {
      good &= number == MASK ? expand_plane_block<u8>(job, MASK, plane, index, shared) : expand_plane_block<C>(job, number, plane, index, shared);
    }
    index -= blocks;
  }
  if (!good && threadIdx.x == 0) state.error = DECODE_REFUSED;
}

extern "C" __global__ void __launch_bounds__(EXPAND_THREADS, 8) expand_f32(const __grid_constant__ DecodeJob job) { expand<i32, EXPAND_THREADS>(job); }
extern "C" __global__ void __launch_bounds__(EXPAND_THREADS, 4) expand_f64(const __grid_constant__ DecodeJob job) { expand<i64, EXPAND_THREADS>(job); }
extern "C" __global__ void __launch_bounds__(FEW_SEGMENTS_EXPAND_THREADS) expand_few_f32(const __grid_constant__ DecodeJob job) {
  expand<i32, FEW_SEGMENTS_EXPAND_THREADS>(job);
}
extern "C" __global__ void __launch_bounds__(FEW_SEGMENTS_EXPAND_THREADS) expand_few_f64(const __grid_constant__ DecodeJob job) {
  expand<i64, FEW_SEGMENTS_EXPAND_THREADS>(job);
}
