// Stage 4 (FORMAT.md §8, §11): histogram -> codebook. CPU: codec/src/entropy/book_choice.rs, codebook.rs and dictionary.rs; for the block length,
// codec/src/stream/plane.rs.
//
// Each plane of each chunk has one block of 128 threads. To compute the costs of given books, a thread takes a book; in all other steps it takes a symbol, or
// an item of package-merge. All arithmetic is on integers, so that the choice is the CPU's. Package-merge builds a custom book where the entropy says that it
// may pay.
#pragma once

#include "../number/fixed_log2.cuh"
#include "book_lengths.cuh"

static_assert(BOOKS <= CHOOSE_THREADS && MAX_BOOKS <= CHOOSE_THREADS && 2 * SYMBOLS - 1 <= 255, "a thread a book; indices of items fit a byte");

/// Bits that hold a symbol's number.
constexpr u32 SYMBOL_BITS = 7;
static_assert(SYMBOLS <= 1u << SYMBOL_BITS, "a symbol fits its bits");

struct ChooseShared {
  u32 histogram[SYMBOLS];
  u32 lengths[SYMBOLS];
  u64 scratch[CHOOSE_THREADS / WARP + 1];
  u64 keys[SYMBOLS];
  // Package-merge: leaves by weight, the items of a level and of the next one, and the indices of the leaves in each level.
  u32 leaf_symbol[SYMBOLS];
  u64 leaf_weight[SYMBOLS];
  u64 level[2][2 * SYMBOLS];
  u8 leaf_index[MAX_CODE_BITS][SYMBOLS];
  u32 coded[MAX_BOOK_WORDS];
};

__device__ __forceinline__ u64 block_sum(u64 value, u64* scratch) {
  u64 total;
  block_sum_before(value, scratch, total);
  __syncthreads();
  return total;
}

/// The least of a block's keys, in every thread.
__device__ __forceinline__ u64 block_min(u64 key, u64* scratch) {
#pragma unroll
  for (u32 offset = WARP / 2; offset > 0; offset /= 2) key = min(key, __shfl_xor_sync(ALL_LANES, key, offset));
  if (lane_id() == 0) scratch[warp_id()] = key;
  __syncthreads();
  for (u32 warp = 0; warp < CHOOSE_THREADS / WARP; warp++) key = min(key, scratch[warp]);
  __syncthreads();
  return key;
}

/// Code lengths of least cost among those of at most MAX_CODE_BITS (Larmore and Hirschberg, JACM 37(3), 1990), in `shared.lengths`.
__device__ void optimal_lengths(ChooseShared& shared) {
  const u32 t = threadIdx.x;
  const bool present = t < SYMBOLS && shared.histogram[t] > 0;
  u32 leaves = __syncthreads_count(present);
  // The lowest absent symbols join until there are two.
  bool joins = present;
  if (leaves < 2 && t < SYMBOLS && !present) {
    u32 absent_before = 0;
    for (u32 other = 0; other < t; other++) absent_before += shared.histogram[other] == 0;
    joins = absent_before < 2 - leaves;
  }
  leaves = __syncthreads_count(joins);
  if (t < SYMBOLS) shared.keys[t] = joins ? u64(shared.histogram[t]) << SYMBOL_BITS | t : ~0ull;
  __syncthreads();
  if (joins) {
    // By weight, then by symbol. Absent symbols that join have weight 0.
    const u64 key = shared.keys[t];
    u32 rank = 0;
#pragma unroll
    for (u32 other = 0; other < SYMBOLS; other++) rank += shared.keys[other] < key;
    shared.leaf_symbol[rank] = t;
    shared.leaf_weight[rank] = shared.histogram[t];
  }
  __syncthreads();
  u32 items = leaves;
  if (t < leaves) {
    shared.level[0][t] = shared.leaf_weight[t];
    shared.leaf_index[0][t] = u8(t);
  }
  __syncthreads();
  for (u32 depth = 1; depth < MAX_CODE_BITS; depth++) {
    const u64* below = shared.level[(depth - 1) % 2];
    u64* level = shared.level[depth % 2];
    const u32 pairs = items / 2;
    // Leaves go first where weights are equal.
    if (t < leaves) {
      u64 weight = shared.leaf_weight[t];
      u32 low = 0, high = pairs;
      while (low < high) {
        u32 middle = (low + high) / 2;
        if (below[2 * middle] + below[2 * middle + 1] < weight) low = middle + 1; else high = middle;
      }
      level[t + low] = weight;
      shared.leaf_index[depth][t] = u8(t + low);
    }
    if (t < pairs) {
      u64 weight = below[2 * t] + below[2 * t + 1];
      u32 low = 0, high = leaves;
      while (low < high) {
        u32 middle = (low + high) / 2;
        if (shared.leaf_weight[middle] <= weight) low = middle + 1; else high = middle;
      }
      level[t + low] = weight;
    }
    items = leaves + pairs;
    __syncthreads();
  }
  if (t < SYMBOLS) shared.lengths[t] = 0;
  __syncthreads();
  // The cheapest 2n - 2 items of the top level make the code; each package among them is made of two items of the level below.
  u32 taken = 2 * leaves - 2;
  u32 length = 0;
  for (u32 depth = MAX_CODE_BITS; depth-- > 0;) {
    bool is_taken = t < leaves && shared.leaf_index[depth][t] < taken;
    length += is_taken;
    taken = 2 * (taken - __syncthreads_count(is_taken));
  }
  if (t < leaves) shared.lengths[shared.leaf_symbol[t]] = length;
  __syncthreads();
}

/// Most tokens of any 2^log consecutive segments that form a block of the stream. For a block of threads, all of which get the result.
__device__ u32 most_tokens_of_a_block(ChooseShared& shared, const u32* tokens, u32 segments, u32 log) {
  u64 most = 0;
  for (u32 index = threadIdx.x; index << log < segments; index += CHOOSE_THREADS) {
    u32 sum = 0;
#pragma unroll 8
    for (u32 segment = index << log; segment < min((index + 1) << log, segments); segment++) sum += tokens[segment];
    most = max(most, u64(sum));
  }
  return u32(~block_min(~most, shared.scratch));
}

/// Chooses the book of each plane and the length of its blocks. Grid: planes, chunks.
extern "C" __global__ void __launch_bounds__(CHOOSE_THREADS) choose_book(const __grid_constant__ EncodeJob job) {
  __shared__ ChooseShared shared;
  const u32 plane = blockIdx.x, t = threadIdx.x;
  const EncodeState& state = job.states[blockIdx.y];
  const u32 elements = plane_elements(job, state.exceptions, plane);
  if (is_constant(job, state) || elements == 0) return;
  const u32 policy = job.parameters[blockIdx.y].policy;
  Book& book = job.planes[plane].book[blockIdx.y];
  const u32 count = t < SYMBOLS ? state.planes[plane].histogram[t] : 0;
  if (t < SYMBOLS) shared.histogram[t] = count;
  __syncthreads();

  // The dictionary: least cost, lowest number where costs are equal.
  u64 key = ~0ull;
  if (t < BOOKS) {
    u32 lengths[SYMBOL_FOURS];
#pragma unroll
    for (u32 four = 0; four < SYMBOL_FOURS; four++) lengths[four] = *reinterpret_cast<const u32*>(job.tables->book_lengths[four][t]);
    u64 cost = 0;
#pragma unroll
    for (u32 symbol = 0; symbol < SYMBOLS; symbol++) cost += u64(shared.histogram[symbol]) * (lengths[symbol / 4] >> (8 * (symbol % 4)) & 0xff);
    key = cost << 8 | t;
  }
  key = block_min(key, shared.scratch);
  u32 number = u32(key) & 0xff;
  u64 bits = key >> 8;
  u32 length = t < SYMBOLS ? job.tables->book_lengths[t / 4][number][t % 4] : 0;

  // The encoder's other books, a user's dictionary and the history. The cost of each includes its code lengths. Books without a code for a symbol that occurs
  // are left out.
  const u32 books = job.parameters[blockIdx.y].books;
  if (policy == POLICY_AUTO && books > 0) {
    key = ~0ull;
    if (t < books) {
      const u8* lengths = job.dataset_books->lengths[t];
      u64 cost = 0;
      u32 book_bits = 0, before = 0;
      bool codes_all = true;
      for (u32 symbol = 0; symbol < SYMBOLS; symbol++) {
        codes_all &= shared.histogram[symbol] == 0 || lengths[symbol] > 0;
        cost += u64(shared.histogram[symbol]) * lengths[symbol];
        book_bits += difference_code(before, lengths[symbol]).count;
        before = lengths[symbol];
      }
      cost += 8 * book_bytes(book_bits);
      if (codes_all) key = cost << 8 | t;
    }
    key = block_min(key, shared.scratch);
    if (key >> 8 < bits) {
      number = CUSTOM_BOOK;
      bits = key >> 8;
      length = t < SYMBOLS ? job.dataset_books->lengths[key & 0xff][t] : 0;
    }
  }

  const u64 margin = bits / CUSTOM_GAIN_DIVISOR;
  bool build = policy == POLICY_CUSTOM;
  if (policy == POLICY_AUTO) {
    const u32 total_and_count[2] = {u32(block_sum(count, shared.scratch)), count};
    u64 information = 0;
    if (count > 0) {
      u32 logarithms[2];
      log2_fixed(total_and_count, logarithms);
      // A result may be almost two units below the logarithm. With two units more for the count, the entropy is never too high.
      const u32 log_total = logarithms[0], log_count = logarithms[1] + 2;
      information = u64(count) * (log_total > log_count ? log_total - log_count : 0);
    }
    const u64 entropy = block_sum(information, shared.scratch) >> LOG_FRACTION;
    const u32 expected = book_bytes(BOOK_BITS_A_SYMBOL * SYMBOLS + BOOK_BITS_A_CODE * u32(__syncthreads_count(count > 0)));
    build = entropy + entropy / ENTROPY_EXCESS_DIVISOR + 8 * expected + margin < bits;
  }
  if (build) {
    optimal_lengths(shared);
    u32 custom_length = t < SYMBOLS ? shared.lengths[t] : 0;
    const u32 before = t > 0 && t < SYMBOLS ? shared.lengths[t - 1] : 0;
    const u64 book_bits = block_sum(t < SYMBOLS ? difference_code(before, custom_length).count : 0, shared.scratch);
    const u64 custom = block_sum(u64(count) * custom_length, shared.scratch) + 8 * book_bytes(u32(book_bits));
    if (policy == POLICY_CUSTOM || custom + margin < bits) {
      number = CUSTOM_BOOK;
      length = custom_length;
    }
  }
  if (t < SYMBOLS) shared.lengths[t] = length;
  if (t < MAX_BOOK_WORDS) shared.coded[t] = 0;
  bits = block_sum(t < SYMBOLS ? u64(count) * (length + SYMBOL_EXTRA_BITS[t]) : 0, shared.scratch);

  if (t < SYMBOLS) {
    // Canonical codes are in the order of their lengths, then of their symbols. A code of n bits takes a share of 2^-n of all bit strings.
    u32 begin = 0;
#pragma unroll
    for (u32 other = 0; other < SYMBOLS; other++) {
      const u32 other_length = shared.lengths[other];
      const bool before = (other_length << SYMBOL_BITS | other) < (length << SYMBOL_BITS | t);
      begin += before && other_length > 0 ? 1u << (MAX_CODE_BITS - other_length) : 0;
    }
    book.codes[t] = (length > 0 ? begin >> (MAX_CODE_BITS - length) : 0) | length << 16;
  }
  u64 coded_bits = 0;
  if (number == CUSTOM_BOOK) {
    const DifferenceCode code = t < SYMBOLS ? difference_code(t > 0 ? shared.lengths[t - 1] : 0, length) : DifferenceCode{};
    const u32 at = u32(block_sum_before(u64(code.count), shared.scratch, coded_bits));
    const u64 shifted = u64(code.bits) << (at % 32);
    if (u32(shifted)) atomicOr(&shared.coded[at / 32], u32(shifted));
    if (u32(shifted >> 32)) atomicOr(&shared.coded[at / 32 + 1], u32(shifted >> 32));
    __syncthreads();
    if (t < MAX_BOOK_WORDS) book.coded[t] = shared.coded[t];
  }
  const u64 segments = ceil_div(elements, SEGMENT);
  u32 log = 0;
  while (log < MAX_BLOCK_LOG - MIN_BLOCK_LOG && bits << log < BLOCK_BITS * segments && segments > 1ull << log) log++;
  // A block of at most BLOCK_TOKENS values needs no count: it has no more tokens than values.
  const u32* tokens = job.planes[plane].token_counts + u64(blockIdx.y) * job.segments;
  while (SEGMENT << log > BLOCK_TOKENS && most_tokens_of_a_block(shared, tokens, u32(segments), log) > BLOCK_TOKENS) log--;
  if (t == 0) {
    book.number = number;
    book.block_segments_log = log;
    book.has_few_lanes = bits <= FEW_LANES_BITS;
    book.coded_len = book_bytes(u32(coded_bits));
  }
}
