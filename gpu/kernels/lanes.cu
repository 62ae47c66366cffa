// Stage 5 (FORMAT.md §9.1): tokens -> 32 lanes of 16-bit words, and back. CPU: codec/src/lanes.rs.
//
// A lane of a block is a lane of a warp, either way. Forward, one ballot a step says which lanes have filled a word, and a lane knows where
// its next two words stand. Backward, a step is one look-up, one ballot and one popcount. A lane's bit string is a chain of look-ups that no
// second warp can shorten: as many blocks as possible are under way at once, and what symbols stand for is left to tokens.cu.
#pragma once

#include "codebook.cu"

static_assert(LANES == WARP, "a lane of a block is a lane of a warp");

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

/// Lane words of a block that are brought to shared memory; those of a block of more are read where they are. Blocks of our encoder have at
/// most 22 000 bits, but for the shortest ones.
constexpr u32 STAGE_LANE_WORDS = 1536;

/// The words of a block in global memory.
struct FarLaneWords {
  const u16* words;
  u32 count;

  /// Words behind the block's are 0.
  __device__ __forceinline__ u32 operator[](u32 index) const { return index < count ? words[index] : 0; }
  /// A word that is known to be there.
  __device__ __forceinline__ u32 inside(u32 index) const { return words[index]; }
};

/// The words of a block in shared memory, behind which stands a 0.
struct NearLaneWords {
  const u16* words;
  u32 count;

  __device__ __forceinline__ u32 operator[](u32 index) const { return words[min(index, count)]; }
  __device__ __forceinline__ u32 inside(u32 index) const { return words[index]; }
};

/// State of a lane of the decoder.
struct Lane {
  u32 buffer;  // bits to come, the next one in the most significant place
  u32 used;    // how many of the upper 16 are used up
  u32 next;    // the block's next word, the same for all lanes

  /// One step: this lane's symbol, and the next word for each lane that asks for one. `word_at` reads a word.
  template <typename WordAt>
  __device__ __forceinline__ u32 step(const u16* table, const WordAt& word_at) {
    const u32 entry = table[buffer >> (32 - MAX_CODE_BITS)];
    const u32 length = entry & 15;
    buffer <<= length;
    used += length;
    const bool asks = used >= 16;
    const u32 ballot = __ballot_sync(ALL_LANES, asks);
    used &= 15;
    const u32 word = word_at(next + __popc(ballot & lanes_below()));
    buffer |= asks ? word << used : 0;
    next += __popc(ballot);
    return entry >> 4;
  }
};

/// Steps between two looks at whether words come to their end.
constexpr u32 STEPS_AHEAD = 4;

/// Decodes the lanes of a block, of at most `most` steps, by a warp. It ends where all words are read and no lane has a bit that is not 0: what tokens follow,
/// their codes are all zeros.
template <typename Words>
__device__ __forceinline__ LanesEnd decode_block_lanes(const u16* table, const Words& words, u8* symbols, u32 most) {
  Lane lane = {words[lane_id()] << 16 | words[LANES + lane_id()], 0, 2 * LANES};
  u32 step = 0, before = 0;
  symbols += lane_id();
  // Every word that these steps can ask for is there.
  for (; step + STEPS_AHEAD <= most && lane.next + STEPS_AHEAD * LANES <= words.count; step += STEPS_AHEAD) {
#pragma unroll
    for (u32 k = 0; k < STEPS_AHEAD; k++) symbols[(step + k) * LANES] = u8(lane.step(table, [&](u32 index) { return words.inside(index); }));
  }
  for (;;) {
    const u32 left = __ballot_sync(ALL_LANES, lane.buffer != 0);
    if (lane.next >= words.count && left == 0) break;
    if (step == most) return {NONE, 0};
    before = left;
    symbols[step * LANES] = u8(lane.step(table, [&](u32 index) { return words[index]; }));
    step++;
  }
  // The last word is not 0, so that it was read before the last step: had that step read it, a lane would still have its bits.
  const bool good = words.count == 0 || words[words.count - 1] != 0;
  return good ? LanesEnd{step, before} : LanesEnd{NONE, 0};
}

/// Warps of a block of threads, each with a block of the stream.
constexpr u32 LANE_WARPS = LANE_THREADS / WARP;

/// Decodes the lanes of all planes of a chunk: their blocks are numbered through, so that those of the mask do not wait for those of the codes.
extern "C" __global__ void __launch_bounds__(LANE_THREADS) decode_lanes(const __grid_constant__ DecodeJob job) {
  __shared__ union {
    u16 entries[DECODE_TABLE_LEN];
    uint4 quads[DECODE_TABLE_LEN / 8];
  } table;
  __shared__ u32 staged[LANE_WARPS][STAGE_LANE_WORDS / 2 + 1];
  const DecodeState& state = job.states[blockIdx.y];
  if (state.error) return;
  const u16* stream = reinterpret_cast<const u16*>(job.input + blockIdx.y * job.input_stride + sizeof(DecodeParameters));
  u32 table_of = PLANES;
  // A block of threads takes so many neighbouring blocks of one plane at a time.
  u32 item = blockIdx.x;
  for (u32 number = 0; number < PLANES; number++) {
    const DecodePlaneState plane_state = state.planes[number];
    const DecodePlane& plane = job.planes[number];
    const u32 blocks = plane_state.are_bit_planes ? 0 : plane_state.blocks, items = ceil_div(blocks, LANE_WARPS);
    for (; item < items; item += gridDim.x) {
      if (number != table_of) {
        __syncthreads();
        const uint4* from = reinterpret_cast<const uint4*>(plane.table[blockIdx.y]);
        for (u32 i = threadIdx.x; i < DECODE_TABLE_LEN / 8; i += LANE_THREADS) table.quads[i] = from[i];
        __syncthreads();
        table_of = number;
      }
      const u32 index = item * LANE_WARPS + warp_id();
      if (index >= blocks) continue;
      const u64 place = u64(blockIdx.y) * job.segments + index;
      const u32 count = plane.lane_sizes[place], most = ceil_div(block_length(plane_state, index), LANES);
      const u16* words = stream + plane.lane_starts[place];
      u8* symbols = plane.symbols + u64(blockIdx.y) * job.segments * SEGMENT + (u64(index) << plane_state.block_log);
      LanesEnd end;
      if (count <= STAGE_LANE_WORDS) {
        // Two words at a time: a block may begin in the middle of two.
        const u32 odd = plane.lane_starts[place] % 2;
        const u32* pairs = reinterpret_cast<const u32*>(words - odd);
        u32* near = staged[warp_id()];
        __syncwarp();
#pragma unroll 8
        for (u32 i = lane_id(); i < ceil_div(odd + count, 2); i += WARP) near[i] = pairs[i];
        __syncwarp();
        u16* near_words = reinterpret_cast<u16*>(near) + odd;
        if (lane_id() == 0) near_words[count] = 0;
        __syncwarp();
        end = decode_block_lanes(table.entries, NearLaneWords{near_words, count}, symbols, most);
      } else {
        end = decode_block_lanes(table.entries, FarLaneWords{words, count}, symbols, most);
      }
      if (lane_id() == 0) plane.lane_ends[place] = end;
    }
    item -= items;
  }
}
