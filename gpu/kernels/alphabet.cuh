// The symbols of tokens (FORMAT.md §7). CPU: codec/src/alphabet.rs, from which the build takes SYMBOL_START and SYMBOL_EXTRA_BITS.
#pragma once

#include "common.cuh"

/// What symbols stand for, where every thread can look it up.
struct Alphabet {
  u64 start[SYMBOLS];
  u8 extra_bits[SYMBOLS];

  /// For all threads of a block; a barrier must follow.
  __device__ __forceinline__ void fill() {
    for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += blockDim.x) {
      start[symbol] = SYMBOL_START[symbol];
      extra_bits[symbol] = SYMBOL_EXTRA_BITS[symbol];
    }
  }
};

struct Token {
  u32 symbol;
  u32 extra_bits;
  u64 extra;
};

/// Token of a run of 2 to SEGMENT zeros.
__device__ __forceinline__ Token run_token(u32 run, const Alphabet& alphabet) {
  u32 octave = 31 - __clz(run);
  u32 symbol = octave < 5 ? 2 * (octave - 1) + (run >> (octave - 1) & 1) : FIRST_LONG_RUN + octave - 5;
  return {symbol, alphabet.extra_bits[symbol], run - alphabet.start[symbol]};
}

/// Token of one difference.
__device__ __forceinline__ Token difference_token(i64 difference, const Alphabet& alphabet) {
  u64 magnitude = difference < 0 ? 0 - u64(difference) : u64(difference);
  if (magnitude <= DIRECT_MAX) return {u32(DIRECT_ZERO + i32(difference)), 0, 0};
  u32 octave = 63 - __clzll(i64(magnitude));
  u32 symbol = FIRST_CLASS;
  if (octave < 10) {
    symbol += 2 * (octave - 4) + (u32(magnitude >> (octave - 1)) & 1);
  } else if (octave < 16) {
    symbol += 12 + octave - 10;
  } else if (octave < 60) {
    symbol += 18 + (octave - 16) / 4;
  } else {
    symbol += 29;
  }
  u64 extra = (magnitude - alphabet.start[symbol]) << 1 | u64(difference < 0);
  return {symbol, alphabet.extra_bits[symbol], extra};
}

/// The difference that a class's start and extra bits stand for.
__device__ __forceinline__ i64 class_value(u64 start, u64 extra) {
  u64 sign = extra & 1;
  return i64(((start + (extra >> 1)) ^ (0 - sign)) + sign);
}
