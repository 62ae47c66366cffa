// The symbols of tokens (FORMAT.md §7). CPU: codec/src/entropy/alphabet.rs, from which the build takes SYMBOL_START and SYMBOL_EXTRA_BITS.
#pragma once

#include "../common.cuh"

/// A symbol, the number of its extra bits, and the number that these bits make. `Bits` is as wide as the differences: a 32-bit difference may have 33
/// extra bits, but the highest of them is 0.
template <typename Bits>
struct Token {
  u32 symbol;
  u32 extra_bits;
  Bits extra;
};

/// Token of a run of 2 to SEGMENT values: -1, 0 or 1, and zeros.
template <typename Bits>
__device__ __forceinline__ Token<Bits> run_token(i32 first, u32 run) {
  const u32 octave = 31 - __clz(run);
  const bool is_long = octave >= 5;
  const u32 index = is_long ? octave + 3 : 2 * (octave - 1) + (run >> (octave - 1) & 1);
  const u32 first_symbol = first == 0 ? RUNS_OF_ZEROS : first < 0 ? RUNS_OF_MINUS_ONE : RUNS_OF_ONE;
  const u32 bits = run == SEGMENT ? 0 : is_long ? octave : octave - 1;
  return {first_symbol + index, bits, Bits(run & ((1u << bits) - 1))};
}

/// Token of one difference of magnitude `magnitude`, whose highest 1 is bit `octave`.
template <typename Bits>
__device__ __forceinline__ Token<Bits> class_token(Bits magnitude, u32 octave, u32 negative) {
  // The distance from the class's start. Where a class spans an octave or half of one, it is the bits of the magnitude that the symbol does not tell.
  // Where a class spans four octaves, the start is subtracted.
  if (octave < 10) {
    const Bits rest = magnitude & ((Bits(1) << (octave - 1)) - 1);
    return {FIRST_CLASS + 2 * (octave - 4) + (u32(magnitude >> (octave - 1)) & 1), octave, rest << 1 | negative};
  }
  if (octave < 16) {
    const Bits rest = magnitude & ((Bits(1) << octave) - 1);
    return {FIRST_CLASS + 12 + octave - 10, octave + 1, rest << 1 | negative};
  }
  const u32 far_class = octave < 60 ? (octave - 16) / 4 : 11;
  const u32 start_octave = 16 + 4 * far_class;
  return {FIRST_CLASS + 18 + far_class, octave < 60 ? start_octave + 5 : 64, (magnitude - (Bits(1) << start_octave)) << 1 | negative};
}

__device__ __forceinline__ Token<u32> difference_token(i32 difference) {
  const u32 magnitude = difference < 0 ? 0 - u32(difference) : u32(difference);
  if (magnitude <= DIRECT_MAX) return {u32(DIRECT_ZERO + difference), 0, 0};
  return class_token<u32>(magnitude, 31 - __clz(i32(magnitude)), difference < 0);
}

__device__ __forceinline__ Token<u64> difference_token(i64 difference) {
  const u64 magnitude = difference < 0 ? 0 - u64(difference) : u64(difference);
  if (magnitude <= DIRECT_MAX) return {u32(DIRECT_ZERO + i32(difference)), 0, 0};
  return class_token<u64>(magnitude, 63 - __clzll(i64(magnitude)), difference < 0);
}

/// The difference of a token of a class, from the class's start and the extra bits.
__device__ __forceinline__ i64 class_value(u64 start, u64 extra) {
  u64 sign = extra & 1;
  return i64(((start + (extra >> 1)) ^ (0 - sign)) + sign);
}
