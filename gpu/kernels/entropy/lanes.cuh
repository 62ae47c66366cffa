// Stage 5 (FORMAT.md §9.1): symbols of tokens -> 32 or 8 lanes of 16-bit words, and back to symbols. CPU: codec/src/entropy/lanes.rs, which also
// expands the symbols.
//
// A lane of a block is a lane of a warp, in both directions. A block of 8 lanes leaves the other lanes of its warp idle; planes of such blocks are short. A
// round is one token of each lane.
//
// The encoder needs one ballot a round, which says which lanes have filled a word. Each lane keeps the offsets of its next two words.
//
// The decoder does two rounds together. A round needs one look-up and one ballot, which says which lanes need a word. Two popcounts of it give the words that
// the round takes, and those before this lane's. A lane's bit string is a chain of dependent look-ups, which a second warp cannot shorten. So the kernel
// decodes as many blocks as possible at a time, and leaves the expansion of symbols to another kernel (expand.cuh).
#pragma once

#include "../job.cuh"
#include "../shared.cuh"

static_assert(LANES == WARP && FEW_LANES < WARP, "a lane of a block is a lane of a warp");

/// Rounds of the encoder whose symbols are read ahead.
constexpr u32 AHEAD = 8;

/// A code in the highest bits, and its length in the lowest five. So one funnel shift appends the code: the word is both the bits to shift in and the shift
/// count, as the instruction takes the count from the lowest five bits alone.
__device__ __forceinline__ u32 aligned_code(u32 code) {
  const u32 length = code >> 16;
  return length > 0 ? code << (32 - length) | length : 0;
}

/// Whether this lane of the warp is one of a block's `COUNT` lanes.
template <u32 COUNT>
__device__ __forceinline__ bool is_lane_of_block() {
  return COUNT == WARP || lane_id() < COUNT;
}

/// Encodes the symbols of a block's tokens in `COUNT` lanes.
template <u32 COUNT>
__device__ __forceinline__ void encode_block(const EncodeJob& job, const EncodePlane& plane, PlaneState& state, const u32* codes,
                                             u32* segment_ends, u32 block, u32 block_segments_log, u32 segments) {
  const u32 lane = lane_id();
  const u64 chunk_slot = u64(blockIdx.y) * job.segments;
  const u32 first = block << block_segments_log, end = min(first + (1u << block_segments_log), segments);
  // At most 32 segments: one a lane.
  const bool has_segment = first + lane < end;
  const u32 ends = warp_prefix_sum(has_segment ? plane.token_counts[chunk_slot + first + lane] : 0);
  const u32 tokens = __shfl_sync(ALL_LANES, ends, WARP - 1);
  const u32 extra_bits = warp_sum(has_segment ? plane.extra_bits[chunk_slot + first + lane] : 0);
  __syncwarp();
  segment_ends[lane] = ends;
  __syncwarp();
  u16* words = plane.lane_words + (chunk_slot + first) * LANE_SLOT;
  // Otherwise the compiler computes the address again for each word.
  keep_in_registers(words);
  const u8* symbols = plane.symbols + (chunk_slot + first) * SEGMENT;

  // The lowest `bits` bits of `pending`, fewer than 16, are in no word yet; those above them are in earlier words. `word_at` is the offset of the word
  // that they will fill, `next_word_at` of the lane's word after it. `next` is the block's next free offset.
  u32 pending = 0, bits = 0, word_at = lane, next_word_at = COUNT + lane, next = 2 * COUNT;
  const u32 below = lanes_below();
  // The next token to read ahead and the segment that has it; the numbers of the block's tokens before that segment's start and before its end.
  u32 next_token = 0, segment = 0, segment_start = 0, segment_end = segment_ends[0];
  u32 ahead[AHEAD];
  const auto read_ahead = [&] {
    while (next_token >= segment_end && next_token < tokens) {
      segment_start = segment_end;
      segment_end = segment_ends[++segment];
    }
    const u8* from = symbols + segment * SEGMENT + next_token - segment_start + lane;
    if (!is_lane_of_block<COUNT>()) {
#pragma unroll
      for (u32 k = 0; k < AHEAD; k++) ahead[k] = SYMBOLS;
    } else if (next_token + AHEAD * COUNT <= segment_end) {
#pragma unroll
      for (u32 k = 0; k < AHEAD; k++) ahead[k] = from[k * COUNT];
    } else {
      u32 in = segment, in_start = segment_start, in_end = segment_end;
#pragma unroll
      for (u32 k = 0; k < AHEAD; k++) {
        const u32 token = next_token + k * COUNT + lane;
        while (token >= in_end && token < tokens) {
          in_start = in_end;
          in_end = segment_ends[++in];
        }
        ahead[k] = token < tokens ? symbols[in * SEGMENT + token - in_start] : SYMBOLS;
      }
    }
    next_token += AHEAD * COUNT;
  };
  read_ahead();
  for (u32 token = 0; token < tokens; token += AHEAD * COUNT) {
    u32 entries[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) entries[k] = codes[ahead[k]];
    read_ahead();
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) {
      pending = __funnelshift_l(entries[k], pending, entries[k]);
      bits += entries[k] & 31;
      const bool full = bits >= 16;
      const u32 ballot = __ballot_sync(ALL_LANES, full);
      bits &= 15;
      store_if(full, words + word_at, pending >> bits);
      word_at = full ? next_word_at : word_at;
      next_word_at = full ? next + __popc(ballot & below) : next_word_at;
      next += __popc(ballot);
    }
  }
  if (is_lane_of_block<COUNT>()) {
    words[word_at] = u16(pending << (16 - bits));
    words[next_word_at] = 0;
  }
  __syncwarp();
  // Words of 0 at the block's end are no part of the stream: `used_words` does not count them.
  u32 used_words = next, nonzero = 0;
  while (nonzero == 0 && used_words > 0) {
    const u32 candidate = used_words - min(used_words, lane);
    nonzero = __ballot_sync(ALL_LANES, candidate > 0 && words[candidate - 1] != 0);
    used_words = nonzero ? used_words - (__ffs(nonzero) - 1) : used_words - min(used_words, WARP);
  }
  if (lane == 0) {
    const u32 extra_words = ceil_div(extra_bits, 16);
    plane.lane_or_bit_plane_words[chunk_slot + block] = used_words;
    plane.block_sizes[chunk_slot + block] = used_words + extra_words;
    if (used_words > *static_cast<volatile u32*>(&state.max_lane_words)) atomicMax(&state.max_lane_words, used_words);
    if (extra_words > *static_cast<volatile u32*>(&state.max_extra_words)) atomicMax(&state.max_extra_words, extra_words);
    atomicAdd(&plane.size_sums[u64(blockIdx.y) * job.sums + block / SLOTS_PER_SUM], used_words + extra_words);
  }
}

/// Encodes the blocks of all planes. A block of the stream is a long chain of dependent instructions for one warp. Each block of threads is one warp, so that
/// the warps spread over all multiprocessors and begin at once.
extern "C" __global__ void __launch_bounds__(WARP) encode_lanes(const __grid_constant__ EncodeJob job) {
  __shared__ u32 codes[SYMBOLS + 1];  // the last entry is for lanes without a token, and has no bits
  __shared__ u32 segment_ends[WARP];
  EncodeState& state = job.states[blockIdx.y];
  if (is_constant(job, state)) return;
  for (u32 number = 0; number < PLANES; number++) {
    const u32 elements = plane_elements(job, state.exceptions, number);
    if (elements == 0) continue;
    const EncodePlane& plane = job.planes[number];
    const Book& book = plane.book[blockIdx.y];
    const u32 block_segments_log = book.block_segments_log, blocks = plane_blocks(elements, block_segments_log);
    // The blocks of the smaller planes go to the last blocks of threads first. Of the plane of codes, these have the fewest blocks, or none.
    const u32 first_block = number == CODES ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    if (first_block >= blocks) continue;
    __syncwarp();
    for (u32 symbol = threadIdx.x; symbol <= SYMBOLS; symbol += WARP) codes[symbol] = symbol < SYMBOLS ? aligned_code(book.codes[symbol]) : 0;
    __syncwarp();
    const u32 segments = ceil_div(elements, SEGMENT);
    for (u32 block = first_block; block < blocks; block += gridDim.x) {
      if (book.has_few_lanes) {
        encode_block<FEW_LANES>(job, plane, state.planes[number], codes, segment_ends, block, block_segments_log, segments);
      } else {
        encode_block<LANES>(job, plane, state.planes[number], codes, segment_ends, block, block_segments_log, segments);
      }
    }
  }
}

/// Number of pairs of 16-bit words that a ring in shared memory holds, the ring's size in bytes, and the size of a word in bytes.
constexpr u32 RING_PAIRS = 256, RING_BYTES = RING_PAIRS * sizeof(u32), WORD_BYTES = sizeof(u16);
/// The largest number of rounds between two checks for the block's end, and the most bytes that they can read.
constexpr u32 ROUNDS_TOGETHER = 4, BYTES_TOGETHER = ROUNDS_TOGETHER * LANES * WORD_BYTES;
/// Bytes that a warp copies to shared memory at a time.
constexpr u32 BROUGHT_TOGETHER = WARP * sizeof(u32);
static_assert(BYTES_TOGETHER + BROUGHT_TOGETHER <= RING_BYTES / 2, "at most half of the ring is ahead of what has been read");

/// The words of a block, which a warp reads in order. Offsets are in bytes from the 32-bit pair in which the block begins; words behind the
/// block's end read as 0.
struct LaneWords {
  const u32* pairs;
  SharedRing<RING_BYTES> ring;
  u32 first, end;  // offsets of the block's first word and of its end
  u32 brought;     // pairs before this offset have been copied to the ring
  u32 coming;      // a load in flight: this lane's pair, at `brought` + 4 * lane_id()

  __device__ __forceinline__ LaneWords(const u16* words, u32 count, const SharedRing<RING_BYTES>& ring) : ring(ring), brought(0) {
    first = u32(reinterpret_cast<u64>(words)) % sizeof(u32);
    end = first + count * WORD_BYTES;
    pairs = reinterpret_cast<const u32*>(words - first / WORD_BYTES);
    u32 start[RING_BYTES / 2 / BROUGHT_TOGETHER];
#pragma unroll
    for (u32 k = 0; k < RING_BYTES / 2 / BROUGHT_TOGETHER; k++) start[k] = ask(k * BROUGHT_TOGETHER);
    __syncwarp();
#pragma unroll
    for (u32 pair : start) put(pair);
    coming = ask(brought);
    __syncwarp();
  }
  __device__ __forceinline__ u32 own(u32 offset) const { return offset + lane_id() * sizeof(u32); }
  __device__ __forceinline__ u32 ask(u32 offset) const { return own(offset) < end ? pairs[own(offset) / sizeof(u32)] : 0; }
  __device__ __forceinline__ void put(u32 pair) {
    const u32 offset = own(brought);
    ring.store(offset, offset + WORD_BYTES == end ? pair & 0xffff : pair);
    brought += BROUGHT_TOGETHER;
  }
  /// Copies the words that the next ROUNDS_TOGETHER rounds can read, from offset `next` on.
  __device__ __forceinline__ void bring(u32 next) {
    while (brought < next + BYTES_TOGETHER) {
      put(coming);
      coming = ask(brought);
      __syncwarp();
    }
  }
  __device__ __forceinline__ u32 operator[](u32 offset) const { return ring.load(offset); }
};

/// A decoding table in shared memory. Its 16-bit entries are not those of the CPU: bits 0 to 3 are the code's length, the bits above them the symbol.
struct SharedTable {
  SharedMemory memory;

  __device__ __forceinline__ u32 operator[](u32 bits) const { return memory.load((bits >> (32 - MAX_CODE_BITS)) * sizeof(u16)); }
};
static_assert(DECODE_TABLE_LEN == 1u << MAX_CODE_BITS, "an entry for each value of MAX_CODE_BITS bits");

/// The state of a warp that decodes the `COUNT` lanes of a block. Other lanes of the warp have a buffer of 0; they shift nothing and write nothing.
template <u32 COUNT>
struct LaneState {
  u32 buffer;  // the next bits, the first of them most significant
  u32 empty;   // lowest bits of `buffer` that are empty, because codes were shifted out: 0 to 15 between rounds
  u32 next;    // offset of the block's next word; equal in all lanes
  u32 rounds;  // rounds done

  /// Length of the code of a table's entry.
  __device__ __forceinline__ u32 length_of(u32 entry) const { return is_lane_of_block<COUNT>() ? entry & 15 : 0; }
  /// Writes the symbol of a table's entry, this lane's in a round.
  __device__ __forceinline__ void write(u8* symbols, u32 round, u32 entry) const {
    if (is_lane_of_block<COUNT>()) symbols[round * COUNT] = u8(entry >> 4);
  }

  /// One round: each lane looks up a symbol; then the lanes that have used up a word get the block's next words, in the order of the lanes.
  __device__ __forceinline__ void one_round(SharedTable table, const LaneWords& words, u8* symbols) {
    const u32 entry = table[buffer], length = length_of(entry);
    empty += length;
    const u32 ballot = __ballot_sync(ALL_LANES, empty >= 16);
    const u32 word = words[next + __popc(ballot & lanes_below()) * WORD_BYTES];
    // A lane with `empty` below 16 needs no word. Its shift count wraps to a large number, so that the shift makes the word 0.
    buffer = buffer << length | shift_left_or_0(word, empty - 16);
    empty %= 16;
    next += __popc(ballot) * WORD_BYTES;
    write(symbols, rounds, entry);
    rounds++;
  }

  /// One or two rounds. A round takes as long as its chain of dependent instructions, so two overlap: the second looks up the bits that the first leaves,
  /// before the first one's words arrive. If a lane's second code continues in such a word, which is rare, the second round is not taken.
  __device__ __forceinline__ void two_rounds(SharedTable table, const LaneWords& words, u8* symbols) {
    const u32 entry = table[buffer], length = length_of(entry), first_empty = empty + length;
    u32 left = buffer << length;
    const u32 second_entry = table[left], second_length = length_of(second_entry), second_empty = first_empty % 16 + second_length;
    const u32 ballot = __ballot_sync(ALL_LANES, first_empty >= 16), second_ballot = __ballot_sync(ALL_LANES, second_empty >= 16);
    const u32 second_next = next + __popc(ballot) * WORD_BYTES;
    const u32 word = words[next + __popc(ballot & lanes_below()) * WORD_BYTES];
    const u32 second_word = words[second_next + __popc(second_ballot & lanes_below()) * WORD_BYTES];
    const bool is_second_cut = __any_sync(ALL_LANES, first_empty + second_length > 32);
    write(symbols, rounds, entry);
    write(symbols, rounds + 1, second_entry);
    left |= shift_left_or_0(word, first_empty - 16);
    buffer = is_second_cut ? left : left << second_length | shift_left_or_0(second_word, second_empty - 16);
    empty = (is_second_cut ? first_empty : second_empty) % 16;
    next = is_second_cut ? second_next : second_next + __popc(second_ballot) * WORD_BYTES;
    rounds += is_second_cut ? 1 : 2;
  }

  /// Each lane by itself decodes the bits that are left when all words are read, until all its bits are 0. Returns the number of rounds after which all
  /// lanes are at that point, and which lanes had a 1 bit before the last of these rounds. If `most` rounds are not enough, the number is NONE. If no lane has
  /// a 1 bit at first, the set of lanes is empty: the block has no lane words, or its last one is 0, so that the block is refused.
  __device__ __forceinline__ LanesEnd decode_rest(SharedTable table, u8* symbols, u32 most) {
    const u32 start = rounds;
    u32 mine = rounds;
    for (; buffer != 0 && mine < most; mine++) {
      const u32 entry = table[buffer];
      buffer <<= entry & 15;
      write(symbols, mine, entry);
    }
    rounds = __reduce_max_sync(ALL_LANES, mine);
    if (__any_sync(ALL_LANES, buffer != 0)) return {NONE, 0};
    for (u32 rest = mine; rest < rounds; rest++) write(symbols, rest, table[0]);
    return {rounds, rounds > start ? __ballot_sync(ALL_LANES, mine == rounds) : 0};
  }
};

/// Decodes the lanes of a block, in at most `most` rounds, by a warp. Ends when all words are read and no lane has a 1 bit left. All tokens after that have
/// the code whose bits are all 0; their symbols are not written.
template <u32 COUNT>
__device__ __forceinline__ LanesEnd decode_block_lanes(SharedTable table, LaneWords words, u8* symbols, u32 most) {
  symbols += lane_id();
  // Otherwise the compiler computes the address again for each symbol.
  keep_in_registers(symbols);
  const u32 own = words.first + lane_id() * WORD_BYTES;
  LaneState<COUNT> lanes = {words[own] << 16 | words[own + COUNT * WORD_BYTES], 0, words.first + 2 * COUNT * WORD_BYTES, 0};
  if (!is_lane_of_block<COUNT>()) lanes.buffer = 0;
  // The round that reads the last word must be found exactly. If one of several rounds done together reads it, they are done again one by one.
  while (lanes.rounds + ROUNDS_TOGETHER <= most) {
    words.bring(lanes.next);
    LaneState<COUNT> ahead = lanes;
#pragma unroll
    for (u32 k = 0; k < ROUNDS_TOGETHER; k += 2) ahead.two_rounds(table, words, symbols);
    if (ahead.next >= words.end) break;
    lanes = ahead;
  }
  while (lanes.next < words.end) {
    if (lanes.rounds == most) return {NONE, 0};
    words.bring(lanes.next);
    lanes.one_round(table, words, symbols);
  }
  return lanes.decode_rest(table, symbols, most);
}

/// Warps of a block of threads, each with a block of the stream.
constexpr u32 LANE_WARPS = LANE_THREADS / WARP;

/// Decodes the lanes of all planes; `blockIdx.y` is the chunk. The items of all planes are numbered one after the other. So blocks of the exception mask need
/// not wait until all blocks of the plane of codes are done.
extern "C" __global__ void __launch_bounds__(LANE_THREADS) decode_lanes(const __grid_constant__ DecodeJob job) {
  constexpr u32 QUADS = DECODE_TABLE_LEN / 8;
  __shared__ uint4 table[QUADS];
  // One ring more, as each begins at a multiple of its length.
  __shared__ u32 rings[LANE_WARPS + 1][RING_PAIRS];
  const SharedRing<RING_BYTES> ring(rings[warp_id()]);
  const DecodeState& state = job.states[blockIdx.y];
  if (state.error) return;
  const u16* stream = reinterpret_cast<const u16*>(chunk_stream(job));
  u32 table_of = PLANES;
  // An item is LANE_WARPS neighbouring blocks of one plane, which a block of threads decodes at a time.
  u32 item = blockIdx.x;
  for (u32 number = 0; number < PLANES; number++) {
    const DecodePlaneState plane_state = state.planes[number];
    const DecodePlane& plane = job.planes[number];
    const u32 blocks = plane_state.are_bit_planes ? 0 : plane_state.blocks, items = ceil_div(blocks, LANE_WARPS);
    for (; item < items; item += gridDim.x) {
      const u32 index = item * LANE_WARPS + warp_id();
      const bool is_there = index < blocks;
      const u64 slot = u64(blockIdx.y) * job.segments + index;
      const u32 count = is_there ? plane.lane_or_bit_plane_words[slot] : 0;
      const u16* from = stream + (is_there ? plane.lane_starts[slot] : 0);
      if (number != table_of) {
        __syncthreads();
        const uint4* entries = reinterpret_cast<const uint4*>(plane.table[blockIdx.y]) + threadIdx.x;
        uint4 own[QUADS / LANE_THREADS];
#pragma unroll
        for (u32 k = 0; k < QUADS / LANE_THREADS; k++) own[k] = entries[k * LANE_THREADS];
#pragma unroll
        for (u32 k = 0; k < QUADS / LANE_THREADS; k++) table[k * LANE_THREADS + threadIdx.x] = own[k];
        __syncthreads();
        table_of = number;
      }
      if (!is_there) continue;
      // FORMAT.md §9.1: the last word is not 0, and no lane gets a word after the last round. Only the first rule is tested, as the second follows from it:
      // a lane that gets a last word other than 0 has a 1 bit left, and another round decodes it.
      const bool is_good = count == 0 || from[count - 1] != 0;
      u8* symbols = plane.symbols + u64(blockIdx.y) * job.segments * SEGMENT + (u64(index) << plane_state.block_log);
      const u32 most = ceil_div(block_length(plane_state, index), plane_state.lanes);
      const SharedTable shared_table = {SharedMemory(table)};
      const LaneWords words(from, count, ring);
      const LanesEnd end = plane_state.lanes == FEW_LANES ? decode_block_lanes<FEW_LANES>(shared_table, words, symbols, most)
                                                          : decode_block_lanes<LANES>(shared_table, words, symbols, most);
      if (lane_id() == 0) plane.lane_ends[slot] = is_good ? end : LanesEnd{NONE, 0};
    }
    item -= items;
  }
}
