// Planes and streams (FORMAT.md §2 to §4): blocks -> stream, and stream -> where blocks are. CPU: codec/src/stream/plane.rs, codec/src/workspace.rs.
#pragma once

#include "../entropy/book_lengths.cuh"
#include "../predict/lorenzo.cuh"
#include "../quantize/limits.cuh"

// Bits of a plane's header as a word: predictor, codebook, then these.
constexpr u32 BLOCK_LOG_AT = 16, LANE_WIDTH_AT = BLOCK_LOG_AT + BLOCK_LOG_BITS;
constexpr u32 EXTRA_WIDTH_AT = LANE_WIDTH_AT + WIDTH_BITS, FEW_LANES_AT = EXTRA_WIDTH_AT + WIDTH_BITS;
static_assert(PLANE_HEADER_LEN == sizeof(u32) && FEW_LANES_AT == 31, "a plane's header is a word");

/// Offsets of the parts of a plane, and its sizes.
struct PlaneExtent {
  u32 elements, blocks, block_segments_log, lane_width, extra_width;
  u64 start, index, payload, payload_words, end;  // bytes from the stream's start
};

/// Extents of a plane that begins at 0. For a whole warp.
__device__ PlaneExtent plane_extent(const EncodeJob& job, const EncodeState& state, u32 number) {
  PlaneExtent extent = {};
  extent.elements = plane_elements(job, state.exceptions, number);
  if (extent.elements == 0) return extent;
  const EncodePlane& plane = job.planes[number];
  const Book& book = plane.book[blockIdx.y];
  extent.block_segments_log = book.block_segments_log;
  extent.blocks = plane_blocks(extent.elements, book.block_segments_log);
  extent.lane_width = bit_length(state.planes[number].max_lane_words);
  extent.extra_width = bit_length(state.planes[number].max_extra_words);
  extent.index = PLANE_HEADER_LEN + book.coded_len;
  extent.payload = extent.index + (u64(extent.blocks) * (extent.lane_width + extent.extra_width) + 31) / 32 * 4;
  extent.payload_words = warp_sum_all(plane.size_sums + u64(blockIdx.y) * job.sums, ceil_div(extent.blocks, SLOTS_PER_SUM));
  extent.end = round_up_4(extent.payload + 2 * extent.payload_words);
  return extent;
}

/// What a stored chunk is copied by: its values, as words of short chunks in a batch need not be aligned.
template <typename V>
struct Copied {
  typedef typename ValueType<V>::Stored Unit;
};
/// The header ends at a multiple of four bytes.
template <>
struct Copied<double> {
  typedef u32 Unit;
};

__device__ __forceinline__ void write_u64(u8* bytes, u64 value) {
  for (u32 i = 0; i < 8; i++) bytes[i] = u8(value >> (8 * i));
}

/// 32 bits of the index from bit `32 * word`.
__device__ u32 index_word(const u32* lane_or_bit_plane_words, const u32* block_sizes, const PlaneExtent& extent, u32 word) {
  const u32 width = extent.lane_width + extent.extra_width;
  u64 bit = 32ull * word;
  u32 result = 0;
  for (u32 filled = 0; filled < 32;) {
    const u32 block = u32(bit / width), offset = u32(bit % width);
    if (block >= extent.blocks) break;
    const u32 lanes = lane_or_bit_plane_words[block];
    const u64 entry = u64(lanes) | u64(block_sizes[block] - lanes) << extent.lane_width;
    result |= u32(entry >> offset) << filled;
    const u32 step = min(width - offset, 32 - filled);
    filled += step;
    bit += step;
  }
  return result;
}

/// Up to 16 bits of a block's extra bits from bit `16 * word`: its segments' bits are concatenated. `ends` holds where each
/// segment's bits end.
__device__ u16 extra_word(const EncodePlane& plane, u64 first_segment, const u32* ends, u32 segments, u32 word) {
  u32 bit = 16 * word, result = 0;
  const u32 total = ends[segments - 1];
  u32 segment = 0;
  for (u32 filled = 0; filled < 16 && bit < total;) {
    while (ends[segment] <= bit) segment++;
    const u32 begin = segment ? ends[segment - 1] : 0;
    const u32* source = plane.extra + (first_segment + segment) * plane.extra_stride;
    const u32 at = bit - begin, count = min(16 - filled, ends[segment] - bit);
    u64 window = source[at / 32];
    if (at % 32 + count > 32) window |= u64(source[at / 32 + 1]) << 32;
    result |= (u32(window >> (at % 32)) & ((1u << count) - 1)) << filled;
    filled += count;
    bit += count;
  }
  return u16(result);
}

/// Word `word` of a list of values' bits, which `codes` has as wide as codes; 0 behind the last value.
template <typename V>
__device__ __forceinline__ u32 list_word(const u32* codes, u32 count, u32 word) {
  if constexpr (sizeof(V) >= sizeof(u32)) {
    return codes[word];
  } else {
    constexpr u32 each = sizeof(u32) / sizeof(V);
    u32 result = 0;
#pragma unroll
    for (u32 k = 0; k < each; k++) {
      const u32 index = word * each + k;
      if (index < count) result |= u32(typename ValueType<V>::Stored(codes[index])) << (8 * sizeof(V) * k);
    }
    return result;
  }
}

/// Most warps that share a block.
constexpr u32 MAX_SHARES = 16;

/// Writes the stream of a chunk: header, fixed part of the body, list of exceptions, planes.
template <typename V>
__device__ void assemble(const EncodeJob& job) {
  __shared__ PlaneExtent extents[PLANES];
  __shared__ u32 segment_ends[WARPS][WARP];
  __shared__ Limit limits[ENDS];
  const EncodeState& state = job.states[blockIdx.y];
  const EncodeParameters& parameters = job.parameters[blockIdx.y];
  const u8* chunk = chunk_values(job);
  u8* stream = job.output + blockIdx.y * job.output_stride;
  u32 header_len = parameters.header_len;
  const u64 chunk_bytes = u64(job.shape.elements) * sizeof(V);
  const u64 chunk_slot = u64(blockIdx.y) * job.segments;
  const bool head = blockIdx.x == 0;

  u64 length = header_len + sizeof(V);
  u32 coding = CONSTANT, fixed_len = parameters.fixed_len;
  bool has_limits = false;
  if (!is_constant(job, state)) {
    if (warp_id() < PLANES) {
      const PlaneExtent extent = plane_extent(job, state, warp_id());
      if (lane_id() == 0) extents[warp_id()] = extent;
    } else if (warp_id() < PLANES + ENDS) {
      const u32 end = warp_id() - PLANES;
      const Limit limit = find_limit<V>(parameters, state, end);
      if (lane_id() == 0) limits[end] = limit;
    }
    static_assert(PLANES + ENDS <= WARPS, "a warp for each plane and each limit");
    __syncthreads();
    // Without interpolation, a limit that no code can be beyond would change nothing.
    for (const Limit& limit : limits) has_limits |= job.interpolated ? limit.is_found : limit.is_left;
    if (has_limits) fixed_len += LIMITS_LEN;
    if (threadIdx.x == 0) {
      const u32 listed = state.exceptions <= job.most_listed ? state.exceptions : 0;
      u64 start = header_len + fixed_len + listed * sizeof(u32) + round_up_4(listed * sizeof(V));
      for (PlaneExtent& extent : extents) {
        extent.start = start;
        extent.index += start;
        extent.payload += start;
        start = extent.end += start;
      }
    }
    __syncthreads();
    length = extents[PLANES - 1].end;
    coding = parameters.coding;
    if (length >= parameters.stored_header_len + chunk_bytes) {
      header_len = parameters.stored_header_len;
      length = header_len + chunk_bytes;
      coding = STORED;
    }
  }
  if (head) {
    if (threadIdx.x < header_len) {
      u8 byte = coding == STORED ? parameters.stored_header[threadIdx.x] : parameters.header[threadIdx.x];
      if (coding != STORED && threadIdx.x == HEADER_CODING_AT) byte = u8(byte - CONSTANT + coding);
      stream[threadIdx.x] = byte;
    }
    if (threadIdx.x == 0) job.lengths[blockIdx.y] = length;
  }
  if (coding == CONSTANT || coding == STORED) {
    typedef typename Copied<V>::Unit Unit;
    const u64 count = (length - header_len) / sizeof(Unit);
    const Unit* source = reinterpret_cast<const Unit*>(chunk);
    Unit* target = reinterpret_cast<Unit*>(stream + header_len);
    for (u64 index = u64(blockIdx.x) * THREADS + threadIdx.x; index < count; index += u64(gridDim.x) * THREADS) {
      target[index] = source[index];
    }
    return;
  }

  if (head && threadIdx.x == 0 && parameters.fixed_len) {
    double step = parameters.step, inverse_step = 0.0;
    take_lattice(parameters, state.lattice_key, step, inverse_step);
    const u64 half_step = u64(__double_as_longlong(step / 2.0)) | (has_limits ? LIMITS_BIT : 0);
    write_u64(stream + header_len, parameters.kind == LINEAR ? half_step : parameters.fixed[0]);
    if (parameters.fixed_len > 16) write_u64(stream + header_len + 8, parameters.fixed[1]);
    if (has_limits) write_u64(stream + header_len + 8, limits_of(limits));
    *reinterpret_cast<u32*>(stream + header_len + fixed_len - sizeof(u32)) = state.exceptions;
  }
  if (state.exceptions <= job.most_listed) {
    constexpr u32 code_words = sizeof(typename ValueType<V>::Code) / sizeof(u32);
    const u32 count = state.exceptions, words = u32(round_up_4(count * sizeof(V)) / sizeof(u32));
    const u32* indices = job.listed_indices + u64(blockIdx.y) * job.most_listed;
    const u32* bits = static_cast<const u32*>(job.listed_bits) + u64(blockIdx.y) * job.most_listed * code_words;
    u32* list = reinterpret_cast<u32*>(stream + header_len + fixed_len);
    for (u32 word = blockIdx.x * THREADS + threadIdx.x; word < count + words; word += gridDim.x * THREADS) {
      list[word] = word < count ? indices[word] : list_word<V>(bits, count, word - count);
    }
  }
  for (u32 number = 0; number < PLANES; number++) {
    const PlaneExtent& extent = extents[number];
    if (extent.elements == 0) continue;
    const EncodePlane& plane = job.planes[number];
    const u32* lane_or_bit_plane_words = plane.lane_or_bit_plane_words + chunk_slot;
    const u32* block_sizes = plane.block_sizes + chunk_slot;
    if (head) {
      const Book& book = plane.book[blockIdx.y];
      if (threadIdx.x == 0) {
        const u32 predictor =
            number == CODES ? parameters.predictor : number == MASK ? mask_axes(job.shape, state) : 1;
        *reinterpret_cast<u32*>(stream + extent.start) = predictor | book.number << 8 | extent.block_segments_log << BLOCK_LOG_AT |
                                                         extent.lane_width << LANE_WIDTH_AT | extent.extra_width << EXTRA_WIDTH_AT |
                                                         book.has_few_lanes << FEW_LANES_AT;
        if (extent.payload_words % 2) {
          reinterpret_cast<u16*>(stream + extent.payload)[extent.payload_words] = 0;
        }
      }
      if (threadIdx.x < book.coded_len / sizeof(u32)) {
        reinterpret_cast<u32*>(stream + extent.start + PLANE_HEADER_LEN)[threadIdx.x] = book.coded[threadIdx.x];
      }
    }
    u32* index = reinterpret_cast<u32*>(stream + extent.index);
    for (u32 word = blockIdx.x * THREADS + threadIdx.x; word < u32((extent.payload - extent.index) / 4);
         word += gridDim.x * THREADS) {
      index[word] = index_word(lane_or_bit_plane_words, block_sizes, extent, word);
    }
  }

  // A warp copies a block, or a share of one where there are more warps than blocks. The blocks of all planes have one numbering.
  const u32 mask_begins = extents[CODES].blocks, bits_begin = mask_begins + extents[MASK].blocks, blocks = bits_begin + extents[BITS].blocks;
  const u32 shares = max(1u, min(MAX_SHARES, gridDim.x * WARPS / blocks));
  for (u32 item = blockIdx.x + warp_id() * gridDim.x; item < blocks * shares; item += gridDim.x * WARPS) {
    const u32 share = item / blocks, numbered = item % blocks;
    const u32 number = numbered < mask_begins ? CODES : numbered < bits_begin ? MASK : BITS;
    const u32 block = numbered - (number == CODES ? 0 : number == MASK ? mask_begins : bits_begin);
    const PlaneExtent& extent = extents[number];
    const EncodePlane& plane = job.planes[number];
    const u32* block_sizes = plane.block_sizes + chunk_slot;
    u16* target = reinterpret_cast<u16*>(stream + extent.payload) + warp_sum_before(block_sizes, plane.size_sums + u64(blockIdx.y) * job.sums, block);
    const u32 words = block_sizes[block], lane_words = plane.lane_or_bit_plane_words[chunk_slot + block];
    const u32 first = block << extent.block_segments_log, count = min(1u << extent.block_segments_log, ceil_div(extent.elements, SEGMENT) - first);
    if (job.bit_planes) {
      // Blocks are a segment each, and whole words.
      const u32* source = plane.extra + (chunk_slot + block) * plane.extra_stride;
      u32* whole = reinterpret_cast<u32*>(target);
#pragma unroll 4
      for (u32 i = share * WARP + lane_id(); i < words / 2; i += shares * WARP) whole[i] = source[i];
      continue;
    }
    const u16* lanes = plane.lane_words + (chunk_slot + first) * LANE_SLOT;
    const u32 bits = lane_id() < count ? plane.extra_bits[chunk_slot + first + lane_id()] : 0;
    __syncwarp();
    segment_ends[warp_id()][lane_id()] = warp_prefix_sum(bits);
    __syncwarp();
#pragma unroll 4
    for (u32 i = share * WARP + lane_id(); i < words; i += shares * WARP) {
      target[i] = i < lane_words ? lanes[i] : extra_word(plane, chunk_slot + first, segment_ends[warp_id()], count, i - lane_words);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) assemble_f32(const __grid_constant__ EncodeJob job) { assemble<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) assemble_f64(const __grid_constant__ EncodeJob job) { assemble<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) assemble_f16(const __grid_constant__ EncodeJob job) { assemble<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) assemble_byte(const __grid_constant__ EncodeJob job) { assemble<Byte>(job); }

/// Blocks of the stream that a thread finds.
constexpr u32 BLOCKS_PER_THREAD = INDEX_PART / THREADS;

/// The index of a plane.
struct PlaneIndex {
  const u32* words;
  u32 count, lane_width, extra_width;

  /// The number of words of a block of the plane. `lanes`: how many of these are lane words.
  __device__ __forceinline__ u64 read(u32 block, u64& lanes) const {
    const u32 width = lane_width + extra_width;
    const u64 bit = u64(block) * width;
    const u32 word = u32(bit / 32), shift = u32(bit % 32);
    const auto at = [&](u32 index) { return index < count ? words[index] : 0; };
    const u64 first = u64(at(word)) | u64(at(word + 1)) << 32, behind = at(word + 2);
    const u64 entry = shift ? first >> shift | behind << (64 - shift) : first;
    lanes = entry & ((1ull << lane_width) - 1);
    return lanes + (entry >> lane_width & ((1ull << extra_width) - 1));
  }
};

/// A symbol's first index in a decoding table, and its entry.
struct CodeSpan {
  u32 begin;
  u16 entry;
};

/// Fills the decoding table of a custom book, whose lengths are in shared memory; false if its code is not complete. For a block of threads.
__device__ bool fill_table(const u8* lengths, u16* custom) {
  __shared__ CodeSpan spans[SYMBOLS];
  const u32 t = threadIdx.x;
  bool good = true;
  const u32 length = t < SYMBOLS ? lengths[t] : 0;
  // Each thread finds its symbol's first index in the table: canonical codes are in the order of their lengths, then of their symbols.
  u32 begin = 0, kraft = 0;
#pragma unroll 4
  for (u32 other = 0; other < SYMBOLS; other++) {
    const u32 other_length = lengths[other];
    const u32 share = other_length - 1 < MAX_CODE_BITS ? 1u << (MAX_CODE_BITS - other_length) : 0;
    kraft += share;
    if (other_length < length || (other_length == length && other < t)) begin += share;
  }
  good &= kraft == DECODE_TABLE_LEN;
  if (t < SYMBOLS) spans[t] = {begin, u16(t << 4 | length)};
  __syncthreads();
  // A warp fills in the entries of a symbol: short codes have many.
  for (u32 symbol = warp_id(); symbol < SYMBOLS && good; symbol += WARPS) {
    const CodeSpan span = spans[symbol];
    const u32 code_length = span.entry & 15;
    const u32 end = code_length ? span.begin + (1u << (MAX_CODE_BITS - code_length)) : 0;
    for (u32 entry = span.begin + lane_id(); entry < end; entry += WARP) custom[entry] = span.entry;
  }
  __syncthreads();
  return good;
}

/// Reads the headers of the planes and finds where their blocks are. The host has checked the stream's header; everything behind it is
/// checked here, before anything is read by it. Every block of threads reads all of the index, so that none waits for another, and finds
/// INDEX_PART blocks of each plane; the first one also says what the planes are.
__device__ void find_blocks(const DecodeJob& job, u32 part) {
  __shared__ u64 scratch[WARPS + 1];
  __shared__ u8 lengths[SYMBOLS];
  const DecodeParameters& parameters = stream_parameters(job);
  const u8* stream = chunk_stream(job);
  DecodeState& state = job.states[blockIdx.y];
  const u32 t = threadIdx.x;
  const u64 chunk_slot = u64(blockIdx.y) * job.segments, stream_len = parameters.stream_len;
  u64 at = parameters.body;
  bool good = true;
  for (u32 number = 0; number < PLANES && good; number++) {
    const u32 elements = plane_elements(job, parameters.exceptions, number);
    if (elements == 0) continue;
    const DecodePlane& plane = job.planes[number];
    const u32 rank = number == BITS ? 1 : job.shape.rank;
    good = at + PLANE_HEADER_LEN <= stream_len;
    if (!good) break;
    const u32 header = *reinterpret_cast<const u32*>(stream + at);
    at += PLANE_HEADER_LEN;
    const auto field = [&](u32 shift, u32 bits) { return header >> shift & ((1u << bits) - 1); };
    const u32 predictor = field(0, 8), book = field(8, 8), block_log = MIN_BLOCK_LOG + field(BLOCK_LOG_AT, BLOCK_LOG_BITS);
    const u32 lane_width = field(LANE_WIDTH_AT, WIDTH_BITS), extra_width = field(EXTRA_WIDTH_AT, WIDTH_BITS);
    // The host has planned by the first plane's predictor.
    const bool interpolated = number == CODES && job.interpolated;
    const u32 set = interpolated ? predictor % LINEAR_INTERPOLATION : predictor;
    good = set >> rank == 0 && (!interpolated || predictor - INTERPOLATION < LEVEL_STEPS_NUMBERS * LEVEL_STEPS);
    const bool has_few_lanes = header >> FEW_LANES_AT;
    good = good && block_log <= MAX_BLOCK_LOG && lane_width <= 32 && extra_width <= 32 && (book == CUSTOM_BOOK || book == BIT_PLANES || book < BOOKS);
    if (book == BIT_PLANES) good = good && block_log == MIN_BLOCK_LOG && extra_width == 0 && !has_few_lanes;
    // What the host has planned by: rows and columns that are summed where they are decoded.
    if (number == CODES && job.rows_in_blocks) good = good && block_log <= ROWS_BLOCK_LOG && (1u << block_log) % job.shape.extents[0] == 0;
    if (number == CODES && job.columns_in_blocks == COLUMNS_JOINED) {
      good = good && job.shape.strides[2] % (1u << block_log) == 0 && 1u << block_log >= MIN_BLOCK_ROWS * job.shape.extents[0];
    }
    if (number == CODES && job.columns_in_blocks == COLUMNS_WHOLE) good = good && (1u << block_log) % job.shape.strides[2] == 0;
    const u16* table = job.tables->decode_tables[good && book < BOOKS ? book : 0];
    if (good && book == CUSTOM_BOOK) {
      const u32 book_len = read_book(reinterpret_cast<const u32*>(stream + at), (stream_len - at) / sizeof(u32), lengths);
      good = book_len > 0;
      if (!good) break;
      at += book_len;
      u16* custom = plane.custom_table + u64(blockIdx.y) * DECODE_TABLE_LEN;
      if (part == 0) good = fill_table(lengths, custom);
      table = custom;
    }
    const u32 width = lane_width + extra_width;
    const u32 blocks = good ? ceil_div(elements, 1u << block_log) : 0;
    const u64 index_bits = u64(blocks) * width, index_len = (index_bits + 31) / 32 * 4;
    good = good && at + index_len <= stream_len;
    if (!good) break;
    const u32* index = reinterpret_cast<const u32*>(stream + at);
    const u32 index_words = u32(index_len / 4);
    if (index_bits % 32 != 0) good = index[index_words - 1] >> (index_bits % 32) == 0;
    at += index_len;
    const PlaneIndex sizes = {index, index_words, lane_width, extra_width};
    const u32 begin = part * INDEX_PART;
    u64 lanes[BLOCKS_PER_THREAD] = {}, sums[BLOCKS_PER_THREAD] = {}, own = 0, words = 0;
#pragma unroll
    for (u32 k = 0; k < BLOCKS_PER_THREAD; k++) {
      const u32 block = begin + t * BLOCKS_PER_THREAD + k;
      if (block < blocks && width > 0) sums[k] = sizes.read(block, lanes[k]);
      own += sums[k];
    }
    u64 before = block_sum_before(own, scratch, words);
    if (part > 0 || blocks > INDEX_PART) {
      // Words of all blocks, and of those before this part's; there may be fewer blocks than parts expect.
      u64 all = 0, below = 0, parts_before;
#pragma unroll 4
      for (u32 block = t; block < blocks && width > 0; block += THREADS) {
        u64 block_lanes;
        const u64 sum = sizes.read(block, block_lanes);
        all += sum;
        below += block < begin ? sum : 0;
      }
      __syncthreads();
      block_sum_before(all, scratch, words);
      __syncthreads();
      block_sum_before(below, scratch, parts_before);
      before += parts_before;
    }
#pragma unroll
    for (u32 k = 0; k < BLOCKS_PER_THREAD; k++) {
      const u32 block = begin + t * BLOCKS_PER_THREAD + k;
      if (block < blocks) {
        plane.lane_starts[chunk_slot + block] = u32(at / 2 + before);
        plane.lane_or_bit_plane_words[chunk_slot + block] = u32(lanes[k]);
        plane.extra_sizes[chunk_slot + block] = u32(sums[k] - lanes[k]);
      }
      before += sums[k];
    }
    __syncthreads();
    const u64 end = round_up_4(at + 2 * words);
    good = good && words <= stream_len && end <= stream_len;
    if (good && words % 2) good = reinterpret_cast<const u16*>(stream + at)[words] == 0;
    at = end;
    if (t == 0 && part == 0) {
      state.planes[number] = {blocks, block_log, predictor, elements, book == BIT_PLANES, has_few_lanes ? FEW_LANES : LANES};
      plane.table[blockIdx.y] = table;
    }
  }
  if (!(good && at == stream_len) && t == 0) state.error = DECODE_REFUSED;
}
