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

/// Reads a book from the first words of `words`, of which `available` are there: lengths to `lengths`, in shared memory. Returns its bytes, or 0 if it is cut off or
/// its padding is not 0. For a block of threads.
__device__ u32 read_book(const u32* words, u64 available, u8* lengths) {
  __shared__ u32 coded[MAX_BOOK_WORDS];
  __shared__ u32 bytes;
  const u32 t = threadIdx.x;
  __syncthreads();
  if (t < MAX_BOOK_WORDS) coded[t] = t < available ? words[t] : 0;
  __syncthreads();
  if (t == 0) {
    u64 buffer = 0;
    u32 in_buffer = 0, next = 0, used = 0, length = 0;
    for (u32 symbol = 0; symbol < SYMBOLS; symbol++) {
      if (in_buffer <= MAX_MAGNITUDE) {
        buffer |= u64(next < MAX_BOOK_WORDS ? coded[next] : 0) << in_buffer;
        next++;
        in_buffer += 32;
      }
      const u32 magnitude = min(u32(__ffs(i32(~u32(buffer)))) - 1, MAX_MAGNITUDE);
      const u32 sign_at = magnitude + (magnitude < MAX_MAGNITUDE);
      const u32 count = magnitude == 0 ? 1 : sign_at + 1;
      const bool is_negative = magnitude > 0 && (buffer >> sign_at & 1);
      length = (length + (is_negative ? LENGTHS - magnitude : magnitude)) % LENGTHS;
      lengths[symbol] = u8(length);
      buffer >>= count;
      in_buffer -= count;
      used += count;
    }
    const u32 behind = used % 32;
    const bool good = book_bytes(used) <= available * sizeof(u32) && (behind == 0 || coded[used / 32] >> behind == 0);
    bytes = good ? book_bytes(used) : 0;
  }
  __syncthreads();
  return bytes;
}
