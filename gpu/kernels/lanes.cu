// Stage 5 (FORMAT.md §9.1): tokens -> 32 lanes of 16-bit words, and back to differences. CPU: codec/src/lanes.rs.
//
// A lane of a block is a lane of a warp. Forward, a warp codes a block: one ballot a step says which lanes have filled a word, and a lane
// knows where its next two words stand. Backward, a block of threads decodes a block of the stream:
//
//   warp 0         one look-up, one ballot, one popcount a step ─ symbols, a tile at a time ─┐
//   warps 1 to 3   the tile before: extra bits, runs, prefix sums, differences to their places <─┘
//
// A lane's bit string is a chain of look-ups that no second warp can shorten, so everything else is taken out of its way.
#pragma once

#include "codebook.cu"

static_assert(LANES == WARP, "a lane of a block is a lane of a warp");


/// Warps of a block that decodes: one for the lanes, the others for what their symbols stand for.
constexpr u32 LANE_WARPS = LANE_THREADS / WARP;

/// Steps of the encoder whose symbols are read ahead.
constexpr u32 AHEAD = 8;

/// A code in the highest bits and its length in the lowest five: one funnel shift, which looks at no more of its count, then appends it.
__device__ __forceinline__ u32 aligned_code(u32 code) {
  const u32 length = code >> 16;
  return length > 0 ? code << (32 - length) | length : 0;
}

/// Codes the tokens of a block.
__device__ __forceinline__ void encode_block(const EncodeJob& job, const EncodePlane& plane, PlaneState& state, const u32* codes,
                                             u32* segment_ends, u32 block, u32 group_log, u32 segments) {
  const u32 lane = lane_id();
  const u64 chunk_place = u64(blockIdx.y) * job.segments;
  const u32 first = block << group_log, end = min(first + (1u << group_log), segments);
  // At most 32 segments: one a lane.
  const bool has_segment = first + lane < end;
  const u32 ends = warp_prefix_sum(has_segment ? plane.token_counts[chunk_place + first + lane] : 0);
  const u32 tokens = __shfl_sync(ALL_LANES, ends, WARP - 1);
  const u32 extra_bits = warp_sum(has_segment ? plane.extra_bits[chunk_place + first + lane] : 0);
  __syncwarp();
  segment_ends[lane] = ends;
  __syncwarp();
  u16* words = plane.lane_words + (chunk_place + first) * LANE_SLOT;
  const u8* symbols = plane.symbols + (chunk_place + first) * SEGMENT;

  // Pending bits, their number (below 16), and where the word in the making and the one after it will stand.
  u32 pending = 0, bits = 0, place = lane, next_place = LANES + lane, next = 2 * LANES;
  const u32 below = lanes_below();
  // Symbols of up to two segments are found without a search.
  const u32 first_end = segment_ends[0], gap = SEGMENT - first_end;
  const bool few = end - first <= 2;
  u32 segment = 0, segment_start = 0, segment_end = first_end;
  const auto read = [&](u32 token) -> u32 {
    if (token >= tokens) return SYMBOLS;
    if (few) return symbols[token + (token >= first_end ? gap : 0)];
    while (token >= segment_end) {
      segment++;
      segment_start = segment_end;
      segment_end = segment_ends[segment];
    }
    return symbols[segment * SEGMENT + token - segment_start];
  };
  u32 ahead[AHEAD];
#pragma unroll
  for (u32 k = 0; k < AHEAD; k++) ahead[k] = read(k * LANES + lane);
  for (u32 step = 0; step < tokens; step += AHEAD * LANES) {
    u32 entries[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) entries[k] = codes[ahead[k]];
    if (few && step + 2 * AHEAD * LANES <= tokens) {
#pragma unroll
      for (u32 k = 0; k < AHEAD; k++) {
        const u32 token = step + (AHEAD + k) * LANES + lane;
        ahead[k] = symbols[token + (token >= first_end ? gap : 0)];
      }
    } else {
#pragma unroll
      for (u32 k = 0; k < AHEAD; k++) ahead[k] = read(step + (AHEAD + k) * LANES + lane);
    }
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) {
      pending = __funnelshift_l(entries[k], pending, entries[k]);
      bits += entries[k] & 31;
      const bool full = bits >= 16;
      const u32 ballot = __ballot_sync(ALL_LANES, full);
      bits &= 15;
      if (full) {
        words[place] = u16(pending >> bits);
        place = next_place;
        next_place = next + __popc(ballot & below);
      }
      next += __popc(ballot);
    }
  }
  words[place] = u16(pending << (16 - bits));
  words[next_place] = 0;
  __syncwarp();
  // Words of 0 at the end are cut off.
  u32 used = next, nonzero = 0;
  while (nonzero == 0 && used > 0) {
    const u32 behind = used - min(used, lane);
    nonzero = __ballot_sync(ALL_LANES, behind > 0 && words[behind - 1] != 0);
    used = nonzero ? used - (__ffs(nonzero) - 1) : used - min(used, WARP);
  }
  if (lane == 0) {
    const u32 extra_words = ceil_div(extra_bits, 16);
    plane.lane_sizes[chunk_place + block] = used;
    plane.block_sizes[chunk_place + block] = used + extra_words;
    if (used > *static_cast<volatile u32*>(&state.max_lane_words)) atomicMax(&state.max_lane_words, used);
    if (extra_words > *static_cast<volatile u32*>(&state.max_extra_words)) atomicMax(&state.max_extra_words, extra_words);
    atomicAdd(&plane.groups[u64(blockIdx.y) * job.groups + block / GROUP], used + extra_words);
  }
}

/// Codes the blocks of all planes. One warp a block of threads: a block of the stream is a long chain for one warp, so that all of them
/// should begin at once, on as many multiprocessors as there are.
extern "C" __global__ void __launch_bounds__(WARP) encode_lanes(const __grid_constant__ EncodeJob job) {
  __shared__ u32 codes[SYMBOLS + 1];  // the last one stands for no token, and has no bits
  __shared__ u32 segment_ends[WARP];
  EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  for (u32 number = 0; number < PLANES; number++) {
    const u32 elements = plane_elements(job, state.exceptions, number);
    if (elements == 0) continue;
    const EncodePlane& plane = job.planes[number];
    const Book& book = plane.book[blockIdx.y];
    const u32 group_log = book.group_log, blocks = plane_blocks(elements, group_log);
    // The blocks of the smaller planes begin at the other end of the grid.
    const u32 number_here = number == CODES ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    if (number_here >= blocks) continue;
    __syncwarp();
    for (u32 symbol = threadIdx.x; symbol <= SYMBOLS; symbol += WARP) codes[symbol] = symbol < SYMBOLS ? aligned_code(book.codes[symbol]) : 0;
    __syncwarp();
    for (u32 block = number_here; block < blocks; block += gridDim.x) {
      encode_block(job, plane, state.planes[number], codes, segment_ends, block, group_log, ceil_div(elements, SEGMENT));
    }
  }
}

/// Steps of a tile, and the tokens that each thread of warps 1 to 3 takes of it.
constexpr u32 TILE_STEPS = 12;
constexpr u32 TILE_TOKENS = TILE_STEPS * LANES;
constexpr u32 EXPANDERS = LANE_THREADS - WARP;
constexpr u32 TOKENS_PER_THREAD = 4;
static_assert(TILE_TOKENS == EXPANDERS * TOKENS_PER_THREAD, "a tile is shared out evenly");
static_assert(TILE_STEPS % 2 == 0, "a tile is decoded in halves");
/// Lane words of a block that are brought to shared memory, and extra words; a block of more is read where it is. Blocks of our encoder have
/// at most 22 000 bits, but for the shortest ones.
constexpr u32 STAGE_LANE_WORDS = 1536;
constexpr u32 STAGE_EXTRA_WORDS = 1024;
/// Differences of a block that are put together in shared memory; those of a longer block, which is mostly zeros, go to their places.
constexpr u32 OUT_VALUES = 1u << ROWS_BLOCK_LOG;

/// The words of a block in global memory.
struct FarWords {
  const u16* lanes;
  u32 lane_count;
  const u16* extras;
  u32 extra_count;

  /// Words behind the block's are 0.
  __device__ __forceinline__ u32 lane_word(u32 index) const { return index < lane_count ? lanes[index] : 0; }
  __device__ __forceinline__ u32 extra_word(u32 index) const { return index < extra_count ? extras[index] : 0; }
  /// 64 extra bits from bit `at`, least significant first.
  __device__ __forceinline__ u64 extra_window(u32 at) const {
    const u32 word = at / 16, shift = at % 16;
    const u64 low = u64(extra_word(word)) | u64(extra_word(word + 1)) << 16 | u64(extra_word(word + 2)) << 32 | u64(extra_word(word + 3)) << 48;
    return shift ? low >> shift | u64(extra_word(word + 4)) << (64 - shift) : low;
  }
};

/// The words of a block in shared memory: a 0 stands behind the lanes' words, and eight behind the extra bits'.
struct NearWords {
  const u16* lanes;
  u32 lane_count;
  const u32* extras;
  u32 extra_count;  // of 16 bits

  __device__ __forceinline__ u32 lane_word(u32 index) const { return lanes[min(index, lane_count)]; }
  __device__ __forceinline__ u32 extra_word(u32 index) const { return index < extra_count ? extras[index / 2] >> (16 * (index % 2)) & 0xffff : 0; }
  __device__ __forceinline__ u64 extra_window(u32 at) const {
    const u32 word = min(at / 32, (extra_count + 1) / 2);
    const u32 low = extras[word], middle = extras[word + 1], high = extras[word + 2];
    return u64(__funnelshift_r(middle, high, at)) << 32 | __funnelshift_r(low, middle, at);
  }
};

/// State of a lane of the decoder.
struct Lane {
  u32 buffer;  // bits to come, the next one in the most significant place
  u32 used;    // how many of the upper 16 are used up
  u32 next;    // the block's next word, the same for all lanes
};

/// One step: this lane's symbol, and the next word for each lane that asks for one.
template <typename Words>
__device__ __forceinline__ u32 decode_step(Lane& lane, const u16* table, const Words& words) {
  const u32 entry = table[lane.buffer >> (32 - MAX_CODE_BITS)];
  const u32 length = entry & 15;
  lane.buffer <<= length;
  lane.used += length;
  const bool asks = lane.used >= 16;
  const u32 ballot = __ballot_sync(ALL_LANES, asks);
  lane.used &= 15;
  const u32 word = words.lane_word(lane.next + __popc(ballot & lanes_below()));
  lane.buffer |= asks ? word << lane.used : 0;
  lane.next += __popc(ballot);
  return entry >> 4;
}

/// How far a block is after a tile.
struct Progress {
  u32 at;        // differences
  u32 extra_at;  // extra bits
  u32 done;      // whether the block is full
  u32 tokens;    // then: tokens of the tile that belong to it
};

template <typename C>
struct DecodeBlock {
  union {
    u16 table[DECODE_TABLE_LEN];
    uint4 table_quads[DECODE_TABLE_LEN / 8];
  };
  u32 symbols[2][TILE_TOKENS / 4];
  u16 lane_words[STAGE_LANE_WORDS + 2];
  u32 extra_words[STAGE_EXTRA_WORDS / 2 + 4];
  u32 meaning[SYMBOLS];
  u32 scratch[2][LANE_WARPS];
  uint2 lanes_before[3][WARP];  // where the lanes were before the last three tiles
  Progress progress[2];
  bool good;
  // Last, so that all else stands in the same places for every type of integers.
  union {
    C out[OUT_VALUES];
    uint4 out_quads[OUT_VALUES * sizeof(C) / 16];
  };
};

/// What a thread of warps 1 to 3 knows of its tokens of a tile. Sums over threads take a barrier each, which all warps pass together: the work
/// comes in three parts with a barrier behind each.
template <typename C>
struct Expander {
  C differences[TOKENS_PER_THREAD];
  u32 spans[TOKENS_PER_THREAD];
  u32 packed, bits, any, bits_before, bit_at, total_bits, span, span_before;
  u32 counts;  // extra bits of each token, a byte each

  /// Leaves the sums of each warp in `scratch`; returns the sum over the warp's lanes before this one.
  static __device__ __forceinline__ u32 sum_before(u32 value, u32* scratch) {
    const u32 inclusive = warp_prefix_sum(value);
    if (lane_id() == WARP - 1) scratch[warp_id()] = inclusive;
    return inclusive - value;
  }

  /// Sum over the warps before this one, and over all of them.
  static __device__ __forceinline__ u32 warps_before(const u32* scratch, u32& total) {
    const u32 first = scratch[1], second = scratch[2];
    total = first + second + scratch[3];
    return (warp_id() > 1 ? first : 0) + (warp_id() > 2 ? second : 0);
  }

  /// Which tokens, and how many extra bits.
  __device__ __forceinline__ void look_up(DecodeBlock<C>& block, const u32* symbols) {
    packed = symbols[threadIdx.x - WARP];
    bits = any = counts = 0;
#pragma unroll
    for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
      const u32 meaning = block.meaning[packed >> (8 * k) & 0xff];
      counts |= (meaning >> 4 & 127) << (8 * k);
      bits += meaning >> 4 & 127;
      any |= meaning;
    }
    bits_before = sum_before(bits, block.scratch[0]);
  }

  /// The extra bits, differences, and how many differences.
  template <typename Words>
  __device__ __forceinline__ void read(DecodeBlock<C>& block, const Words& words, const Progress& from) {
    bit_at = from.extra_at + bits_before + warps_before(block.scratch[0], total_bits);
    span = 0;
    if (sizeof(C) <= 4 && !(any & WIDE_ENTRY) && bits <= 64) {
      // The bits of a thread's tokens are neighbours, and no number has more than 21.
      u64 window = bits > 0 ? words.extra_window(bit_at) : 0;
#pragma unroll
      for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
        const u32 meaning = block.meaning[packed >> (8 * k) & 0xff];
        const u32 count = meaning >> 4 & 31;
        const u32 value = u32(window) & ((1u << count) - 1);
        window >>= count;
        const i32 payload = i32(meaning) >> START_SHIFT;
        const bool run = meaning & RUN_ENTRY;
        const i32 sign = i32(value & 1);
        spans[k] = run ? u32(payload) + value : 1;
        differences[k] = run ? C(0) : C(((payload + i32(value >> 1)) ^ -sign) + sign);
        span += spans[k];
      }
    } else {
      u32 at = bit_at;
#pragma unroll
      for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
        const u32 meaning = block.meaning[packed >> (8 * k) & 0xff];
        const u32 count = meaning >> 4 & 127;
        u64 value = count > 0 ? words.extra_window(at) : 0;
        if (count < 64) value &= (1ull << count) - 1;
        at += count;
        const i32 payload = i32(meaning) >> START_SHIFT;
        const bool run = meaning & RUN_ENTRY;
        spans[k] = run ? u32(payload) + u32(value) : 1;
        span += spans[k];
        differences[k] = run ? C(0) : C(class_value(meaning & WIDE_ENTRY ? SYMBOL_START[payload] : u64(i64(payload)), value));
      }
    }
    span_before = sum_before(span, block.scratch[1]);
  }

  /// Differences to their places in `out`, a block of `length` that are 0, and how far the block is now.
  __device__ __forceinline__ void write(DecodeBlock<C>& block, const Progress& from, Progress& to, C* out, u32 length) {
    const u32 thread = threadIdx.x - WARP;
    u32 total_span;
    u32 place = from.at + span_before + warps_before(block.scratch[1], total_span);
    if (from.at + total_span < length) {
#pragma unroll
      for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
        if (differences[k] != 0) out[place] = differences[k];
        place += spans[k];
      }
      if (thread == 0) to = {from.at + total_span, from.extra_at + total_bits, 0, 0};
      return;
    }
    // The block ends here.
    u32 bit_end = bit_at;
#pragma unroll
    for (u32 k = 0; k < TOKENS_PER_THREAD; k++) {
      if (place >= length) break;
      if (differences[k] != 0) out[place] = differences[k];
      place += spans[k];
      bit_end += counts >> (8 * k) & 127;
      // The block's last token, which one thread has.
      if (place >= length) to = {place, bit_end, 1, thread * TOKENS_PER_THREAD + k + 1};
    }
  }
};

/// Decodes a block of `length` differences into `out`, which is all 0; whether it is as FORMAT.md says ends up in `block.good`.
///
/// ```text
/// turn t      warp 0                        warps 1 to 3
///   barrier   first half of tile t + 1      write tile t - 1, look up tile t
///   barrier   second half of tile t + 1     read tile t
/// ```
template <typename C, typename Words>
__device__ void decode_block(DecodeBlock<C>& block, const Words& words, C* out, u32 length) {
  Lane lane;
  const auto decode_half = [&](u32 tile, u32 half) {
    u8* symbols = reinterpret_cast<u8*>(block.symbols[tile % 2]);
#pragma unroll
    for (u32 k = 0; k < TILE_STEPS / 2; k++) {
      const u32 step = half * (TILE_STEPS / 2) + k;
      symbols[step * LANES + lane_id()] = u8(decode_step(lane, block.table, words));
    }
  };
  const bool decodes = warp_id() == 0;
  if (decodes) {
    lane = {words.lane_word(lane_id()) << 16 | words.lane_word(LANES + lane_id()), 0, 2 * LANES};
    block.lanes_before[0][lane_id()] = make_uint2(lane.buffer, lane.next << 4 | lane.used);
    decode_half(0, 0);
    decode_half(0, 1);
  }
  if (threadIdx.x == 0) block.progress[1] = {0, 0, 0, 0};
  Expander<C> expander;
  const Progress* last = &block.progress[1];  // how far the block is behind the tile that was written last
  u32 tile_begun = 0;
  for (u32 turn = 0;; turn++) {
    __syncthreads();
    tile_begun = turn + 1;
    if (decodes) {
      block.lanes_before[(turn + 1) % 3][lane_id()] = make_uint2(lane.buffer, lane.next << 4 | lane.used);
      decode_half(turn + 1, 0);
    } else {
      if (turn > 0) expander.write(block, block.progress[turn % 2], block.progress[(turn + 1) % 2], out, length);
      expander.look_up(block, block.symbols[turn % 2]);
    }
    __syncthreads();
    last = &block.progress[(turn + 1) % 2];
    if (last->done) break;
    if (decodes) decode_half(turn + 1, 1); else expander.read(block, words, *last);
  }
  if (decodes) {
    // Back to the block's last step: the lanes that have a token in it go past its code, and nobody asks for a word any more.
    const Progress& end = *last;
    // The tile that was written last is two before the one that this warp has begun.
    const uint2 before = block.lanes_before[(tile_begun + 1) % 3][lane_id()];
    lane = {before.x, before.y & 15, before.y >> 4};
    const u32 steps = (end.tokens - 1) / LANES, last_lane = (end.tokens - 1) % LANES;
    for (u32 step = 0; step < steps; step++) decode_step(lane, block.table, words);
    if (lane_id() <= last_lane) lane.buffer <<= block.table[lane.buffer >> (32 - MAX_CODE_BITS)] & 15;
    bool good = __all_sync(ALL_LANES, lane.buffer == 0);
    good = good && end.at == length && lane.next >= words.lane_count;
    good = good && (words.lane_count == 0 || words.lane_word(words.lane_count - 1) != 0);
    good = good && ceil_div(end.extra_at, 16) == words.extra_count;
    good = good && (end.extra_at % 16 == 0 || words.extra_word(end.extra_at / 16) >> (end.extra_at % 16) == 0);
    if (lane_id() == 0) block.good = good;
  }
  // Progress is read to its end.
  __syncthreads();
}

/// Prefix sums along rows of differences in shared memory, of which there are whole rows, those behind the block's end among them. Rows are a power of
/// two long. A lane takes four neighbours; a warp takes 128 values at a time, which are several rows, or a part of one that it then goes
/// on with.
template <typename C>
__device__ __forceinline__ void sum_rows(C* out, u32 length, u32 row) {
  typedef typename Unsigned<C>::Type U;
  constexpr u32 PIECE = 4 * WARP;
  union Four {
    uint4 quads[sizeof(C) >= 4 ? sizeof(C) / 4 : 1];
    C values[4];
  };
  const u32 span = max(row, PIECE), width = min(max(row / 4, 1u), WARP);
  for (u32 start = warp_id() * span; start < length; start += LANE_WARPS * span) {
    U carry = 0;
    for (u32 at = start; at < start + span; at += PIECE) {
      Four* place = reinterpret_cast<Four*>(out + at) + lane_id();
      Four four = *place;
      U value[4];
#pragma unroll
      for (u32 k = 0; k < 4; k++) value[k] = U(four.values[k]) + (k & (row - 1) ? value[k > 0 ? k - 1 : 0] : U(0));
      U sum = value[3];
      for (u32 offset = 1; offset < width; offset *= 2) {
        const U other = __shfl_up_sync(ALL_LANES, sum, offset, width);
        if (lane_id() % width >= offset) sum += other;
      }
      // Rows of fewer than four values end inside a lane's.
      const U before = (row < 4 ? U(0) : sum - value[3]) + carry;
      if (row > PIECE) carry += __shfl_sync(ALL_LANES, sum, WARP - 1);
#pragma unroll
      for (u32 k = 0; k < 4; k++) four.values[k] = C(value[k] + before);
      *place = four;
    }
  }
}

/// Decodes block `index` of a plane, whose table is in shared memory. `row` is not 0 where blocks hold whole rows, which are summed at
/// once. False if the block is not as FORMAT.md says.
template <typename C, typename Block>
__device__ bool decode_plane_block(const DecodeJob& job, u32 number, const DecodePlaneState& state, u32 index, DecodeBlock<Block>& memory, u32 row) {
  static_assert(sizeof(C) <= sizeof(Block), "one memory for the planes of a chunk");
  DecodeBlock<C>& block = reinterpret_cast<DecodeBlock<C>&>(memory);
  const DecodePlane& plane = job.planes[number];
  const u64 place = u64(blockIdx.y) * job.segments + index;
  const u16* stream = reinterpret_cast<const u16*>(job.input + blockIdx.y * job.input_stride + sizeof(DecodeParameters));
  const u32 lane_words = plane.lane_sizes[place], extra_words = plane.extra_sizes[place];
  const u16* words = stream + plane.lane_starts[place];
  const u32 first = index << state.block_log, length = min(state.elements - first, 1u << state.block_log);
  C* values = static_cast<C*>(plane.values) + u64(blockIdx.y) * plane.stride + first;
  const bool in_memory = length <= OUT_VALUES;
  uint4* zeroed = in_memory ? block.out_quads : reinterpret_cast<uint4*>(values);
  // The length of a plane's part is rounded up to whole quads.
  for (u32 i = threadIdx.x; i < ceil_div(length * u32(sizeof(C)), 16); i += LANE_THREADS) zeroed[i] = make_uint4(0, 0, 0, 0);
  C* out = in_memory ? block.out : values;
  if (lane_words <= STAGE_LANE_WORDS && extra_words <= STAGE_EXTRA_WORDS) {
    for (u32 i = threadIdx.x; i <= lane_words; i += LANE_THREADS) block.lane_words[i] = i < lane_words ? words[i] : 0;
    u16* halves = reinterpret_cast<u16*>(block.extra_words);
    for (u32 i = threadIdx.x; i < extra_words + 8; i += LANE_THREADS) halves[i] = i < extra_words ? words[lane_words + i] : 0;
    __syncthreads();
    decode_block(block, NearWords{block.lane_words, lane_words, block.extra_words, extra_words}, out, length);
  } else {
    __syncthreads();
    decode_block(block, FarWords{words, lane_words, words + lane_words, extra_words}, out, length);
  }
  if (in_memory) {
    if (row) {
      if constexpr (sizeof(C) >= 4) sum_rows(block.out, length, row);
      __syncthreads();
    }
    constexpr u32 VALUES_PER_QUAD = 16 / sizeof(C);
    uint4* quads = reinterpret_cast<uint4*>(values);
    for (u32 i = threadIdx.x; i < ceil_div(length, VALUES_PER_QUAD); i += LANE_THREADS) quads[i] = block.out_quads[i];
  }
  const bool good = block.good;
  __syncthreads();
  return good;
}

/// Decodes the blocks of all planes of a chunk. They are numbered through, so that those of the mask do not wait for those of the codes.
template <typename C>
__device__ void decode_lanes(const DecodeJob& job) {
  __shared__ DecodeBlock<C> block;
  DecodeState& state = job.states[blockIdx.y];
  // Blocks of this launch set it too: its threads have to agree on what they have seen.
  if (__syncthreads_or(state.error != 0)) return;
  const DecodePlaneState planes[PLANES] = {state.planes[CODES], state.planes[MASK], state.planes[BITS]};
  const auto blocks_of = [&](u32 number) { return planes[number].are_bit_planes ? 0 : planes[number].blocks; };
  const u32 mask_begins = blocks_of(CODES), bits_begin = mask_begins + blocks_of(MASK), end = bits_begin + blocks_of(BITS);
  const u32 row = job.rows_in_blocks && (planes[CODES].axes & 1) ? job.shape.extents[0] : 0;
  for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += LANE_THREADS) {
    block.meaning[symbol] = SYMBOL_ENTRY[symbol];
  }
  bool good = true;
  u32 table_of = PLANES;
  for (u32 index = blockIdx.x; index < end; index += gridDim.x) {
    const u32 number = index < mask_begins ? CODES : index < bits_begin ? MASK : BITS;
    if (number != table_of) {
      const uint4* table = reinterpret_cast<const uint4*>(job.planes[number].table[blockIdx.y]);
      for (u32 i = threadIdx.x; i < DECODE_TABLE_LEN / 8; i += LANE_THREADS) block.table_quads[i] = table[i];
      table_of = number;
    }
    // The barrier that the table needs stands before its first use.
    if (number == MASK) {
      good = good & decode_plane_block<u8>(job, MASK, planes[MASK], index - mask_begins, block, 0);
    } else {
      const bool codes = number == CODES;
      good = good & decode_plane_block<C>(job, number, planes[number], index - (codes ? 0 : bits_begin), block, codes ? row : 0);
    }
  }
  if (!good && threadIdx.x == 0) state.error = DECODE_REFUSED;
}

extern "C" __global__ void __launch_bounds__(LANE_THREADS, 7) decode_lanes_f32(const __grid_constant__ DecodeJob job) { decode_lanes<i32>(job); }
extern "C" __global__ void __launch_bounds__(LANE_THREADS, 4) decode_lanes_f64(const __grid_constant__ DecodeJob job) { decode_lanes<i64>(job); }
