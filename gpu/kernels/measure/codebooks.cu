// Building a codebook against choosing one, for any number of symbols: what `examples/codebooks/` measures. No part of the plugin.
//
// Both are one block of threads that reads a histogram and leaves canonical codes by symbol, as a coder would read them next:
//
//     build   histogram -> sort -> package-merge -> lengths -> codes
//     choose  histogram -> exact cost of each book -> the cheapest one's codes, read from a table
//
// `build` is meant to be as fast as one block can be, so that the comparison is with a good opponent: the leaves are sorted by a bitonic
// network, each level is merged by binary searches, and a thread keeps its leaf's places in registers.
#include "../common.cuh"

/// Books of a dictionary, and lengths that a lane of `choose` reads at once.
constexpr u32 LENGTHS_A_WORD = 4;
constexpr u32 WORDS_A_SYMBOL = BOOKS_PADDED / LENGTHS_A_WORD;
static_assert(BOOKS <= BOOKS_PADDED && BOOKS_PADDED % WARP == 16 && WORDS_A_SYMBOL <= WARP, "a warp reads a symbol's lengths at once");

/// Bit at which a code's length begins in its entry; Huffman codes without a limit, which the host makes, fit below.
constexpr u32 LENGTH_SHIFT = 27;

template <u32 COUNT, u32 MAX_BITS, u32 BLOCK>
struct BuildMemory {
  u64 keys[2][BLOCK];
  u32 weights[BLOCK];
  u32 level[2][2 * BLOCK];
  u32 counts[MAX_BITS + 1][WARP];  // symbols by length and warp, then those in warps before
  u32 totals[MAX_BITS + 1];
  u8 lengths[BLOCK];
};

/// Sorts a key a thread. Partners within a warp shuffle; others meet in `keys`, whose halves take turns so that one barrier does.
template <u32 BLOCK>
__device__ __forceinline__ u64 sort_block(u64 key, u64 (*keys)[BLOCK]) {
  const u32 t = threadIdx.x;
  u32 half = 0;
#pragma unroll
  for (u32 size = 2; size <= BLOCK; size *= 2) {
#pragma unroll
    for (u32 stride = size / 2; stride > 0; stride /= 2) {
      u64 other;
      if (stride < WARP) {
        other = __shfl_xor_sync(ALL_LANES, key, stride);
      } else {
        keys[half][t] = key;
        __syncthreads();
        other = keys[half][t ^ stride];
        half ^= 1;
      }
      bool keeps_lesser = ((t & stride) == 0) == ((t & size) == 0);
      if ((other < key) == keeps_lesser) key = other;
    }
  }
  return key;
}

/// Lengths of least cost among those of at most MAX_BITS bits, by package-merge (Larmore and Hirschberg, JACM 37(3), 1990), and their
/// canonical codes. The histogram has at least two symbols, and its sum times MAX_BITS fits 32 bits.
template <u32 COUNT, u32 MAX_BITS, u32 BLOCK>
__device__ __forceinline__ void build(const u32* histogram, u32* codes) {
  __shared__ BuildMemory<COUNT, MAX_BITS, BLOCK> memory;
  static_assert(COUNT <= BLOCK && BLOCK <= WARP * WARP, "a thread a symbol");
  const u32 t = threadIdx.x;
  const u32 count = t < COUNT ? histogram[t] : 0;
  memory.lengths[t] = 0;
  const u32 leaves = __syncthreads_count(count > 0);
  const u64 key = sort_block<BLOCK>(count > 0 ? u64(count) << 32 | t : ~0ull, memory.keys);

  // Each level merges the leaves with the pairs of the level below, leaves first where weights are equal.
  const u32 weight = u32(key >> 32);
  u32 places[MAX_BITS];
  u32 items = leaves;
  places[0] = t;
  if (t < leaves) memory.weights[t] = memory.level[0][t] = weight;
  __syncthreads();
#pragma unroll
  for (u32 depth = 1; depth < MAX_BITS; depth++) {
    const u32* below = memory.level[(depth - 1) % 2];
    u32* level = memory.level[depth % 2];
    const u32 pairs = items / 2;
    if (t < leaves) {
      u32 low = 0, high = pairs;
      while (low < high) {
        u32 middle = (low + high) / 2;
        if (below[2 * middle] + below[2 * middle + 1] < weight) low = middle + 1; else high = middle;
      }
      places[depth] = t + low;
      level[t + low] = weight;
    }
    if (t < pairs) {
      const u32 sum = below[2 * t] + below[2 * t + 1];
      u32 low = 0, high = leaves;
      while (low < high) {
        u32 middle = (low + high) / 2;
        if (memory.weights[middle] <= sum) low = middle + 1; else high = middle;
      }
      level[t + low] = sum;
    }
    items = leaves + pairs;
    __syncthreads();
  }
  // The cheapest 2n - 2 items of the top level make the code; each package among them is made of two items of the level below.
  u32 taken = 2 * leaves - 2, length = 0;
#pragma unroll
  for (u32 depth = MAX_BITS; depth-- > 0;) {
    bool is_taken = t < leaves && places[depth] < taken;
    length += is_taken;
    taken = 2 * (taken - __syncthreads_count(is_taken));
  }
  if (t < leaves) memory.lengths[u32(key)] = u8(length);
  for (u32 i = t; i < (MAX_BITS + 1) * WARP; i += BLOCK) memory.counts[i / WARP][i % WARP] = 0;
  __syncthreads();

  // A code's rank among those of its length: in its warp, then over the warps before.
  length = memory.lengths[t];
  const u32 alike = __match_any_sync(ALL_LANES, length);
  const u32 rank = __popc(alike & lanes_below());
  if (rank == 0) memory.counts[length][warp_id()] = __popc(alike);
  __syncthreads();
  for (u32 bits = 1 + warp_id(); bits <= MAX_BITS; bits += BLOCK / WARP) {
    const u32 own = memory.counts[bits][lane_id()];
    const u32 inclusive = warp_prefix_sum(own);
    memory.counts[bits][lane_id()] = inclusive - own;
    if (lane_id() == WARP - 1) memory.totals[bits] = inclusive;
  }
  __syncthreads();
  u32 code = 0;
#pragma unroll
  for (u32 bits = 1; bits < MAX_BITS; bits++) {
    if (bits < length) code = (code + memory.totals[bits]) << 1;
  }
  if (t < COUNT) codes[t] = length > 0 ? code + memory.counts[length][warp_id()] + rank | length << LENGTH_SHIFT : 0;
}

/// The book of least exact cost, the lowest number where costs are equal, and its codes. A warp adds up every so-many-th symbol, four
/// books a lane.
template <u32 COUNT, u32 BLOCK>
__device__ __forceinline__ void choose_book(const u32* histogram, const u32* lengths, const u32* book_codes, u32* codes, u32* number) {
  __shared__ u64 costs[BLOCK / WARP][BOOKS_PADDED];
  __shared__ u64 best[BOOKS_PADDED / WARP + 1];
  const u32 t = threadIdx.x;
  if (lane_id() < WORDS_A_SYMBOL) {
    u64 sums[LENGTHS_A_WORD] = {};
#pragma unroll 8
    for (u32 symbol = warp_id(); symbol < COUNT; symbol += BLOCK / WARP) {
      const u64 count = histogram[symbol];
      const u32 word = lengths[symbol * WORDS_A_SYMBOL + lane_id()];
#pragma unroll
      for (u32 i = 0; i < LENGTHS_A_WORD; i++) sums[i] += count * (word >> 8 * i & 0xff);
    }
#pragma unroll
    for (u32 i = 0; i < LENGTHS_A_WORD; i++) costs[warp_id()][lane_id() * LENGTHS_A_WORD + i] = sums[i];
  }
  __syncthreads();
  u64 key = ~0ull;
  if (t < BOOKS) {
    u64 cost = 0;
#pragma unroll
    for (u32 warp = 0; warp < BLOCK / WARP; warp++) cost += costs[warp][t];
    key = cost << 8 | t;
  }
  if (t < sizeof(best) / sizeof(best[0]) * WARP) {
#pragma unroll
    for (u32 offset = WARP / 2; offset > 0; offset /= 2) key = min(key, __shfl_xor_sync(ALL_LANES, key, offset));
    if (lane_id() == 0) best[warp_id()] = key;
  }
  __syncthreads();
  key = best[0];
  for (u32 warp = 1; warp < sizeof(best) / sizeof(best[0]); warp++) key = min(key, best[warp]);
  const u32 chosen = u32(key) & 0xff;
  for (u32 symbol = t; symbol < COUNT; symbol += BLOCK) codes[symbol] = book_codes[chosen * COUNT + symbol];
  if (t == 0) *number = chosen;
}

/// Takes what `build` takes, and does nothing: the floor of a launch.
extern "C" __global__ void empty(const u32*, u32*) {}

/// The sort alone that `build` begins with: symbols by weight, those that do not occur last.
template <u32 COUNT, u32 BLOCK>
__device__ __forceinline__ void sort_symbols(const u32* histogram, u32* symbols) {
  __shared__ u64 keys[2][BLOCK];
  const u32 t = threadIdx.x;
  const u32 count = t < COUNT ? histogram[t] : 0;
  const u64 key = sort_block<BLOCK>(count > 0 ? u64(count) << 32 | t : ~0ull, keys);
  if (t < COUNT) symbols[t] = u32(key);
}

/// The kernels of a symbol count: the longest code, and the threads of a block. `examples/codebooks/` has the same numbers.
#define CODEBOOK_KERNELS(COUNT, MAX_BITS, BUILD_BLOCK, CHOOSE_BLOCK)                                                        \
  extern "C" __global__ void __launch_bounds__(BUILD_BLOCK) build_##COUNT(const u32* histogram, u32* codes) {               \
    build<COUNT, MAX_BITS, BUILD_BLOCK>(histogram, codes);                                                                  \
  }                                                                                                                         \
  extern "C" __global__ void __launch_bounds__(BUILD_BLOCK) sort_##COUNT(const u32* histogram, u32* symbols) {              \
    sort_symbols<COUNT, BUILD_BLOCK>(histogram, symbols);                                                                   \
  }                                                                                                                         \
  extern "C" __global__ void __launch_bounds__(CHOOSE_BLOCK)                                                                \
      choose_##COUNT(const u32* histogram, u32* codes, const u32* lengths, const u32* book_codes, u32* number) {            \
    choose_book<COUNT, CHOOSE_BLOCK>(histogram, lengths, book_codes, codes, number);                                        \
  }
CODEBOOK_KERNELS(106, 12, 128, 256)
CODEBOOK_KERNELS(256, 12, 256, 512)
CODEBOOK_KERNELS(1024, 16, 1024, 1024)
