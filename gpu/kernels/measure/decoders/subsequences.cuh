// A bit string in subsequences of a few words, one a thread, and sequences, one a block of threads: what the self-synchronising decoder
// and the gap array's share.
#pragma once

#include "scan.cuh"

/// The words of a sequence in shared memory, and two behind it: subsequence t is column t, so that neighbours never meet in a bank.
template <u32 COUNT, u32 LENGTH>
struct SequenceWords {
  static_assert(LENGTH % 4 == 0, "words are read four at a time");
  static constexpr u32 BITS = 32 * LENGTH;
  u32 words[LENGTH][COUNT + 1];

  /// All threads of the block come; a barrier has to follow.
  __device__ __forceinline__ void load(const u32* stream, u32 sequence) {
    const u32* from = stream + u64(sequence) * COUNT * LENGTH;
#pragma unroll
    for (u32 word = 0; word < LENGTH; word += 4) {
      const uint4 quad = *reinterpret_cast<const uint4*>(from + threadIdx.x * LENGTH + word);
      words[word][threadIdx.x] = quad.x;
      words[word + 1][threadIdx.x] = quad.y;
      words[word + 2][threadIdx.x] = quad.z;
      words[word + 3][threadIdx.x] = quad.w;
    }
    if (threadIdx.x < 2) words[threadIdx.x][COUNT] = from[COUNT * LENGTH + threadIdx.x];
  }

  /// Words of this thread's subsequence by number; a code may reach into the next one, and the reader is two words ahead.
  struct Source {
    const u32* first;
    __device__ __forceinline__ u32 operator()(u32 index) const {
      return first[index * (COUNT + 1) - (index >= LENGTH ? LENGTH * (COUNT + 1) - 1 : 0)];
    }
  };
  __device__ __forceinline__ Source own() const { return {&words[0][threadIdx.x]}; }
};

/// Bits of a subsequence that belong to the string.
__device__ __forceinline__ u32 subsequence_limit(const DecoderJob& job, u32 subsequence) {
  if (subsequence >= job.subsequence_count) return 0;
  return min(1u << job.subsequence_log, job.total_bits - (subsequence << job.subsequence_log));
}

/// What a decoder notes of a subsequence.
__device__ __forceinline__ u16 noted(u32 start, u32 count) { return u16(start | count << 4); }
