// The code lengths of a custom book in a stream (FORMAT.md §8): a prefix code of the differences of successive lengths.
// CPU: codec/src/entropy/book_lengths.rs.
#pragma once

#include "../job.cuh"

/// Number of different lengths: differences are modulo this.
constexpr u32 LENGTHS = MAX_CODE_BITS + 1;
/// Most 32-bit words of a book.
constexpr u32 MAX_BOOK_WORDS = MAX_BOOK_LEN / sizeof(u32);

/// The bits of a difference: their number, and the bits, the first one lowest.
struct DifferenceCode {
  u32 count, bits;
};

/// The code of the difference between a symbol's length and the one before it.
__device__ __forceinline__ DifferenceCode difference_code(u32 before, u32 length) {
  const u32 difference = (length + LENGTHS - before) % LENGTHS;
  const bool is_negative = difference > MAX_MAGNITUDE;
  const u32 magnitude = is_negative ? LENGTHS - difference : difference;
  // The largest magnitude needs no zero behind its ones, and 0 has no sign.
  const u32 sign_at = magnitude + (magnitude < MAX_MAGNITUDE);
  if (magnitude == 0) return {1, 0};
  return {sign_at + 1, ((1u << magnitude) - 1) | u32(is_negative) << sign_at};
}

/// Bytes of a book whose differences take this many bits.
__device__ __forceinline__ u32 book_bytes(u32 bits) { return ceil_div(bits, 32) * sizeof(u32); }

/// Bits in which a difference may begin.
constexpr u32 BOOK_BITS = 32 * MAX_BOOK_WORDS;

/// A difference between two lengths as it is read: the number of its bits, and itself, modulo LENGTHS.
struct ReadDifference {
  u32 count, difference;
};

/// The difference whose code begins at a bit. `coded` has a word behind the book's.
__device__ __forceinline__ ReadDifference read_difference(const u32* coded, u32 bit) {
  const u32 bits = __funnelshift_r(coded[bit / 32], coded[bit / 32 + 1], bit % 32);
  const u32 magnitude = min(u32(__ffs(i32(~bits))) - 1, MAX_MAGNITUDE);
  if (magnitude == 0) return {1, 0};
  const u32 sign_at = magnitude + (magnitude < MAX_MAGNITUDE);
  return {sign_at + 1, bits >> sign_at & 1 ? LENGTHS - magnitude : magnitude};
}

/// Reads a book from the first words of `words`, of which `available` are there: lengths to `lengths`, in shared memory. Returns its bytes, or 0 if it is cut
/// off or its padding is not 0. For a block of at least a warp of threads.
///
/// A difference begins where the one before it ends. So each thread takes some bits and finds where a difference that began there would end. A round has the
/// ends of 1, 2, 4 ... differences in a row, and doubles the number of symbols whose beginnings are known.
__device__ u32 read_book(const u32* words, u64 available, u8* lengths) {
  static_assert(SYMBOLS <= 4 * WARP, "a lane sums four differences");
  __shared__ u32 coded[MAX_BOOK_WORDS + 1];
  __shared__ u16 ends[2][BOOK_BITS];
  __shared__ u16 begins[SYMBOLS + 1];
  const u32 t = threadIdx.x;
  __syncthreads();
  for (u32 word = t; word <= MAX_BOOK_WORDS; word += blockDim.x) coded[word] = word < available && word < MAX_BOOK_WORDS ? words[word] : 0;
  if (t == 0) begins[0] = 0;
  __syncthreads();
  // No book's difference ends behind the last bit: other ends may be cut off.
  for (u32 bit = t; bit < BOOK_BITS; bit += blockDim.x) ends[0][bit] = u16(min(bit + read_difference(coded, bit).count, BOOK_BITS - 1));
  __syncthreads();
  u32 now = 0;
  for (u32 known = 1; known <= SYMBOLS; known *= 2) {
    for (u32 i = t; i < known && known + i <= SYMBOLS; i += blockDim.x) begins[known + i] = ends[now][begins[i]];
    for (u32 bit = t; bit < BOOK_BITS; bit += blockDim.x) ends[now ^ 1][bit] = ends[now][ends[now][bit]];
    now ^= 1;
    __syncthreads();
  }
  if (warp_id() == 0) {
    const u32 first = 4 * lane_id();
    u32 differences[4], sum = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      differences[i] = first + i < SYMBOLS ? read_difference(coded, begins[first + i]).difference : 0;
      sum += differences[i];
    }
    u32 length = warp_prefix_sum(sum) - sum;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      length += differences[i];
      if (first + i < SYMBOLS) lengths[first + i] = u8(length % LENGTHS);
    }
  }
  const u32 used = begins[SYMBOLS], behind = used % 32;
  const bool good = book_bytes(used) <= available * sizeof(u32) && (behind == 0 || coded[used / 32] >> behind == 0);
  __syncthreads();
  return good ? book_bytes(used) : 0;
}
