// The last stage of both decoders of subsequences: a block decodes a sequence of which all is known but the symbols, puts these together
// in shared memory, and writes them side by side (Rivera et al., IPDPS'22, "decode and write").
//
// How many symbols a sequence holds depends on how well they compress; room for the most that it can hold, one a bit, would keep blocks off
// a multiprocessor. So sequences are listed by how many symbols they have, and each class has a kernel with as much shared memory as it
// needs, which is what the paper tunes online. The last class's kernel takes all sequences where there are no lists: one size for all.
#pragma once

#include "subsequences.cuh"

template <u32 ROOM>
union Stage {
  u8 symbols[(ROOM + 15) / 16 * 16 + 16];
  uint4 quads[(ROOM + 15) / 16 + 1];
};

template <u32 COUNT, u32 LENGTH, u32 CLASS>
__device__ __forceinline__ void write_staged(const DecoderJob& job) {
  typedef SequenceWords<COUNT, LENGTH> Words;
  __shared__ Table table;
  __shared__ Words words;
  __shared__ Stage<class_room(COUNT * Words::BITS, CLASS)> stage;
  __shared__ u32 scratch[WARP + 1];
  table.load(job.table);
  const u32 sequences = job.lists ? job.counters[FIRST_CLASS_COUNT + CLASS] : job.sequences;
  for (u32 i = blockIdx.x; i < sequences; i += gridDim.x) {
    const u32 sequence = job.lists ? job.lists[CLASS * job.sequences + i] : i;
    const u32 subsequence = sequence * COUNT + threadIdx.x;
    const u32 note = subsequence < job.subsequence_count ? job.subsequences[subsequence] : 0;
    __syncthreads();
    words.load(job.words, sequence);
    u32 total;
    // Its barriers come between the words' arrival and their first use.
    const u32 before = block_sum_before(note >> 4, scratch, total);
    const u32 first_symbol = sum_before(job, sequence), shift = first_symbol % 16;
    u8* out = stage.symbols + shift + before;
    BitReader<typename Words::Source> reader(words.own(), note & 15);
    for (u32 count = note >> 4; count > 0; count--) *out++ = u8(reader.take(table.entries) >> LENGTH_BITS);
    __syncthreads();
    // Quads of the symbols' own alignment; the first and the last one are shared with other sequences.
    u8* to = job.decoded + (first_symbol - shift);
    const u32 end = shift + total;
    for (u32 at = 16 * threadIdx.x; at < end; at += 16 * COUNT) {
      if (at >= shift && at + 16 <= end) {
        *reinterpret_cast<uint4*>(to + at) = stage.quads[at / 16];
      } else {
        for (u32 k = max(at, shift); k < min(at + 16, end); k++) to[k] = stage.symbols[k];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) write_128x4_0(const __grid_constant__ DecoderJob job) { write_staged<128, 4, 0>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x4_1(const __grid_constant__ DecoderJob job) { write_staged<128, 4, 1>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x4_2(const __grid_constant__ DecoderJob job) { write_staged<128, 4, 2>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x4_3(const __grid_constant__ DecoderJob job) { write_staged<128, 4, 3>(job); }
extern "C" __global__ void __launch_bounds__(256) write_256x4_0(const __grid_constant__ DecoderJob job) { write_staged<256, 4, 0>(job); }
extern "C" __global__ void __launch_bounds__(256) write_256x4_1(const __grid_constant__ DecoderJob job) { write_staged<256, 4, 1>(job); }
extern "C" __global__ void __launch_bounds__(256) write_256x4_2(const __grid_constant__ DecoderJob job) { write_staged<256, 4, 2>(job); }
extern "C" __global__ void __launch_bounds__(256) write_256x4_3(const __grid_constant__ DecoderJob job) { write_staged<256, 4, 3>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x8_0(const __grid_constant__ DecoderJob job) { write_staged<128, 8, 0>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x8_1(const __grid_constant__ DecoderJob job) { write_staged<128, 8, 1>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x8_2(const __grid_constant__ DecoderJob job) { write_staged<128, 8, 2>(job); }
extern "C" __global__ void __launch_bounds__(128) write_128x8_3(const __grid_constant__ DecoderJob job) { write_staged<128, 8, 3>(job); }
