// Stage 5 (FORMAT.md §9): tokens -> 32 lanes of 16-bit words, and back to differences. CPU: codec/src/lanes.rs.
//
// One warp codes a block, one lane of the warp a lane of the block. Forward: one ballot a step says which lanes have filled a word; a
// lane knows where its next two words stand. Backward: one look-up, one ballot and one popcount a step; what the tokens stand for is
// worked out for STEPS steps at once, so that their prefix sums overlap.
#pragma once

#include "codebook.cu"

static_assert(LANES == WARP, "a lane of a block is a lane of a warp");

constexpr u32 LANE_WARPS = 4;
constexpr u32 LANE_THREADS = LANE_WARPS * WARP;
/// Words that the lanes of a segment can take.
constexpr u32 LANE_SLOT = SEGMENT * MAX_CODE_BITS / 16 + 2 * LANES;

/// Codes the tokens of a block.
__device__ __forceinline__ void encode_block(const EncodeJob& job, const EncodePlane& plane, PlaneState& state, const u32* codes, u32 block,
                                             u32 group_log, u32 segments) {
  const u32 lane = lane_id();
  const u64 chunk_place = u64(blockIdx.y) * job.segments;
  const u32 first = block << group_log, end = min(first + (1u << group_log), segments);
  // At most 32 segments: one a lane.
  const bool has_segment = first + lane < end;
  const u32 tokens = warp_sum(has_segment ? plane.token_counts[chunk_place + first + lane] : 0);
  const u32 extra_bits = warp_sum(has_segment ? plane.extra_bits[chunk_place + first + lane] : 0);
  u16* words = plane.lane_words + (chunk_place + first) * LANE_SLOT;

  // Pending bits, their number (below 16), and where the word in the making and the one after it will stand.
  u32 pending = 0, bits = 0, place = lane, next_place = LANES + lane, next = 2 * LANES;
  u32 used = 0;  // one behind the last word that is not 0
  u32 segment = first, segment_start = 0, segment_end = plane.token_counts[chunk_place + first];
  const u8* symbols = plane.symbols + (chunk_place + first) * SEGMENT;
  for (u32 step = 0; step < tokens; step += LANES) {
    const u32 token = step + lane;
    u32 entry = 0;
    if (token < tokens) {
      while (token >= segment_end) {
        segment++;
        symbols += SEGMENT;
        segment_start = segment_end;
        segment_end += plane.token_counts[chunk_place + segment];
      }
      entry = codes[symbols[token - segment_start]];
    }
    const u32 length = entry >> 16;
    pending = pending << length | (entry & 0xffff);
    bits += length;
    const bool full = bits >= 16;
    const u32 ballot = __ballot_sync(ALL_LANES, full);
    if (full) {
      bits -= 16;
      u16 word = u16(pending >> bits);
      words[place] = word;
      if (word) used = place + 1;
      place = next_place;
      next_place = next + __popc(ballot & lanes_below());
    }
    next += __popc(ballot);
  }
  u16 word = u16(pending << (16 - bits));
  words[place] = word;
  if (word) used = max(used, place + 1);
  words[next_place] = 0;
  used = __reduce_max_sync(ALL_LANES, used);
  if (lane == 0) {
    const u32 extra_words = ceil_div(extra_bits, 16);
    plane.lane_sizes[chunk_place + block] = used;
    plane.block_sizes[chunk_place + block] = used + extra_words;
    if (used > state.max_lane_words) atomicMax(&state.max_lane_words, used);
    if (extra_words > state.max_extra_words) atomicMax(&state.max_extra_words, extra_words);
    atomicAdd(&plane.groups[u64(blockIdx.y) * job.groups + block / GROUP], used + extra_words);
  }
}

extern "C" __global__ void __launch_bounds__(LANE_THREADS) encode_lanes(const __grid_constant__ EncodeJob job) {
  __shared__ u32 codes[SYMBOLS];
  EncodeState& state = job.states[blockIdx.y];
  if (!state.differs) return;
  for (u32 number = 0; number < PLANES; number++) {
    const u32 elements = plane_elements(job, state, number);
    if (elements == 0) continue;
    const EncodePlane& plane = job.planes[number];
    const Book& book = plane.book[blockIdx.y];
    __syncthreads();
    for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += LANE_THREADS) codes[symbol] = book.codes[symbol];
    __syncthreads();
    const u32 blocks = plane_blocks(elements, book.group_log);
    // Neighbouring blocks go to different multiprocessors first.
    for (u32 block = blockIdx.x + warp_id() * gridDim.x; block < blocks; block += gridDim.x * LANE_WARPS) {
      encode_block(job, plane, state.planes[number], codes, block, book.group_log, ceil_div(elements, SEGMENT));
    }
  }
}

/// Steps of the decoder between two looks at what the tokens stand for.
constexpr u32 STEPS = 8;
/// Words of a block that are brought to shared memory; what lies behind them is read where it is.
constexpr u32 STAGE_WORDS = 2560;

struct BlockWords {
  const u16* words;
  u32 count;
  /// Words behind the block's are 0.
  __device__ __forceinline__ u32 operator[](u32 index) const { return index < count ? words[index] : 0; }
};

/// `count` bits from bit `at`, least significant first.
__device__ __forceinline__ u64 read_extra(const BlockWords& extra, u32 at, u32 count) {
  const u32 word = at / 16, shift = at % 16;
  u64 window = u64(extra[word]) | u64(extra[word + 1]) << 16 | u64(extra[word + 2]) << 32;
  if (count > 32) {
    window |= u64(extra[word + 3]) << 48;
    u64 high = extra[word + 4];
    window = shift ? window >> shift | high << (64 - shift) : window;
  } else {
    window >>= shift;
  }
  return count == 64 ? window : window & ((1ull << count) - 1);
}

struct Lane {
  u32 buffer;
  u32 used;  // bits of the buffer's upper half that are used up
};

/// One step: the entry of this lane's token, and the next word for each lane that asks for one.
__device__ __forceinline__ u32 decode_step(Lane& lane, u32& next, const u32* table, const BlockWords& lanes) {
  const u32 entry = table[lane.buffer >> (32 - MAX_CODE_BITS)];
  const u32 length = entry & 15;
  lane.buffer <<= length;
  lane.used += length;
  const bool asks = lane.used >= 16;
  const u32 ballot = __ballot_sync(ALL_LANES, asks);
  if (asks) {
    lane.used -= 16;
    lane.buffer |= lanes[next + __popc(ballot & lanes_below())] << lane.used;
  }
  next += __popc(ballot);
  return entry;
}

__device__ __forceinline__ u32 entry_extra_bits(u32 entry) { return entry >> 4 & 127; }

/// Decodes a block of `length` differences; false if it is not as FORMAT.md says.
template <typename C>
__device__ bool decode_block(const BlockWords& lanes, const BlockWords& extra, const u32* table, const Alphabet& alphabet, C* values, u32 length) {
  for (u32 i = lane_id(); i < length; i += WARP) values[i] = 0;
  __syncwarp();
  Lane lane = {lanes[lane_id()] << 16 | lanes[LANES + lane_id()], 0};
  u32 next = 2 * LANES;
  u32 at = 0, extra_at = 0;
  while (true) {
    const Lane lane_before = lane;
    const u32 next_before = next;
    u32 entries[STEPS];
    bool any_special = false;
#pragma unroll
    for (u32 step = 0; step < STEPS; step++) {
      entries[step] = decode_step(lane, next, table, lanes);
      any_special |= (entries[step] & SPECIAL_ENTRY) != 0;
    }
    u32 place[STEPS], span[STEPS], bits_before[STEPS];
    i64 difference[STEPS];
    u32 end = at;
    if (__any_sync(ALL_LANES, any_special)) {
#pragma unroll
      for (u32 step = 0; step < STEPS; step++) bits_before[step] = warp_prefix_sum(entry_extra_bits(entries[step]));
#pragma unroll
      for (u32 step = 0; step < STEPS; step++) {
        const u32 count = entry_extra_bits(entries[step]);
        const u32 total = __shfl_sync(ALL_LANES, bits_before[step], WARP - 1);
        bits_before[step] += extra_at - count;
        extra_at += total;
        const u64 bits = count ? read_extra(extra, bits_before[step], count) : 0;
        const i32 payload = i32(entries[step]) >> START_SHIFT;
        const bool run = entries[step] & RUN_ENTRY;
        span[step] = run ? u32(payload) + u32(bits) : 1;
        if (entries[step] & WIDE_ENTRY) {
          difference[step] = class_value(alphabet.start[u32(payload)], bits);
        } else {
          difference[step] = class_value(u64(i64(payload)), bits);
        }
        if (run) difference[step] = 0;
      }
#pragma unroll
      for (u32 step = 0; step < STEPS; step++) place[step] = warp_prefix_sum(span[step]);
#pragma unroll
      for (u32 step = 0; step < STEPS; step++) {
        const u32 total = __shfl_sync(ALL_LANES, place[step], WARP - 1);
        place[step] += end - span[step];
        end += total;
      }
    } else {
#pragma unroll
      for (u32 step = 0; step < STEPS; step++) {
        bits_before[step] = extra_at;
        span[step] = 1;
        difference[step] = i32(entries[step]) >> START_SHIFT;
        place[step] = end + lane_id();
        end += WARP;
      }
    }
#pragma unroll
    for (u32 step = 0; step < STEPS; step++) {
      // A run's zeros are there already.
      if (place[step] < length && difference[step] != 0) values[place[step]] = C(difference[step]);
    }
    at = end;
    if (at < length) continue;

    // The block is full. Its last step is the first one behind which it is; the lanes go back to where they were before it.
    Lane last = lane_before;
    u32 words_read = next_before;
    bool good = false;
    u32 full_at = 0, bits_used = 0;
    bool found = false;
#pragma unroll
    for (u32 step = 0; step < STEPS; step++) {
      if (found) continue;
      const bool token = place[step] < length;
      // Tokens of a block are those that begin inside; the last one must end with it.
      const u32 tokens = __popc(__ballot_sync(ALL_LANES, token));
      const u32 step_end = __shfl_sync(ALL_LANES, place[step] + span[step], tokens - 1);
      if (step_end < length) {
        decode_step(last, words_read, table, lanes);
        continue;
      }
      found = true;
      full_at = step_end;
      bits_used = __shfl_sync(ALL_LANES, bits_before[step] + entry_extra_bits(entries[step]), tokens - 1);
      if (token) last.buffer <<= entries[step] & 15;
      good = __all_sync(ALL_LANES, last.buffer == 0);
    }
    good = good && full_at == length && words_read >= lanes.count;
    good = good && (lanes.count == 0 || lanes[lanes.count - 1] != 0);
    good = good && ceil_div(bits_used, 16) == extra.count;
    good = good && (bits_used % 16 == 0 || extra[bits_used / 16] >> (bits_used % 16) == 0);
    return good;
  }
}

struct DecodeBlockMemory {
  u32 table[DECODE_TABLE_LEN];
  u16 stage[LANE_WARPS][STAGE_WORDS];
  Alphabet alphabet;
};

template <typename C>
__device__ void decode_plane(const DecodeJob& job, u32 number, DecodeBlockMemory& memory) {
  DecodeState& state = job.states[blockIdx.y];
  const DecodePlane& plane = job.planes[number];
  const DecodePlaneState& plane_state = state.planes[number];
  const u32 elements = plane_state.elements;
  if (elements == 0 || blockIdx.x >= plane_state.blocks) return;
  const u64 chunk_place = u64(blockIdx.y) * job.segments;
  const u16* stream = reinterpret_cast<const u16*>(job.input + blockIdx.y * job.input_stride + sizeof(DecodeParameters));
  const u32* table = plane.table[blockIdx.y];
  C* values = static_cast<C*>(plane.values) + u64(blockIdx.y) * job.shape.elements;
  __syncthreads();
  for (u32 i = threadIdx.x; i < DECODE_TABLE_LEN / 4; i += LANE_THREADS) {
    reinterpret_cast<uint4*>(memory.table)[i] = reinterpret_cast<const uint4*>(table)[i];
  }
  __syncthreads();
  u16* stage = memory.stage[warp_id()];
  bool good = true;
  for (u32 block = blockIdx.x + warp_id() * gridDim.x; block < plane_state.blocks; block += gridDim.x * LANE_WARPS) {
    const u32 start = plane.lane_starts[chunk_place + block];
    const u32 lane_words = plane.lane_sizes[chunk_place + block], extra_words = plane.extra_sizes[chunk_place + block];
    const u16* words = stream + start;
    if (lane_words + extra_words <= STAGE_WORDS) {
      __syncwarp();
      for (u32 i = lane_id(); i < lane_words + extra_words; i += WARP) stage[i] = words[i];
      __syncwarp();
      words = stage;
    }
    const u32 first = block << plane_state.block_log;
    const u32 length = min(elements - first, 1u << plane_state.block_log);
    good &= decode_block<C>({words, lane_words}, {words + lane_words, extra_words}, memory.table, memory.alphabet, values + first, length);
  }
  if (!good && lane_id() == 0) state.error = DECODE_REFUSED;
}

template <typename C>
__device__ void decode_lanes(const DecodeJob& job) {
  __shared__ __align__(16) DecodeBlockMemory memory;
  if (job.states[blockIdx.y].error) return;
  memory.alphabet.fill();
  decode_plane<C>(job, CODES, memory);
  decode_plane<u8>(job, MASK, memory);
  decode_plane<C>(job, BITS, memory);
}

extern "C" __global__ void __launch_bounds__(LANE_THREADS) decode_lanes_f32(const __grid_constant__ DecodeJob job) { decode_lanes<i32>(job); }
extern "C" __global__ void __launch_bounds__(LANE_THREADS) decode_lanes_f64(const __grid_constant__ DecodeJob job) { decode_lanes<i64>(job); }
