// The stream's checksum (FORMAT.md §3): CRC-32 of all bytes but the checksum's own. CPU: codec/src/stream/header.rs.
//
// CRC is linear: each thread takes four words, multiplies their remainder by x^(bits behind them) modulo the polynomial, and the results
// are joined by exclusive or. Pieces are counted from the stream's end, so that one table of powers of x serves streams of every length.
// `checksum_and_copy` also copies the stream to the host's pinned memory, as it reads all of it.
#pragma once

#include "plane.cuh"

constexpr u32 PIECE_WORDS = CHECKSUM_PIECE / 4;
constexpr u32 WORDS_PER_THREAD = PIECE_WORDS / THREADS;

/// CRC-32 of each byte, followed by 0 to 3 zero bytes.
typedef u32 CrcBytes[4][256];

/// A remainder times x^32.
__device__ __forceinline__ u32 four_bytes_on(const CrcBytes& bytes, u32 remainder) {
  return bytes[3][remainder & 255] ^ bytes[2][remainder >> 8 & 255] ^ bytes[1][remainder >> 16 & 255] ^ bytes[0][remainder >> 24];
}

/// Product of polynomials over two elements. Each factor is the sum of four numbers that have every fourth of its bits. Their products count up to eight ones
/// in four bits, the lowest of which is the sum modulo 2 (an idea of T. Pornin's BearSSL). A loop over 32 bits takes four times as many instructions, one after
/// the other.
__device__ __forceinline__ u64 carryless_product(u32 a, u32 b) {
  constexpr u32 EVERY_FOURTH = 0x11111111;
  u64 product = 0;
#pragma unroll
  for (u32 shift = 0; shift < 4; shift++) {
    u64 sum = 0;
#pragma unroll
    for (u32 k = 0; k < 4; k++) sum ^= u64(a & (EVERY_FOURTH << k)) * (b & (EVERY_FOURTH << ((shift - k) & 3)));
    product |= sum & (u64(EVERY_FOURTH << shift) * 0x100000001ull);
  }
  return product;
}

/// Product modulo the polynomial, lowest power of x in the highest bit.
__device__ __forceinline__ u32 multiply(const CrcBytes& bytes, u32 a, u32 b) {
  // Of a product of two such numbers, the highest bit but one is that of x^0.
  const u64 product = carryless_product(a, b) << 1;
  return u32(product >> 32) ^ four_bytes_on(bytes, u32(product));
}

/// x^(bits of `pieces` pieces).
__device__ __forceinline__ u32 power_of_piece(const Tables& tables, const CrcBytes& bytes, u32 pieces) {
  return pieces < 256 ? tables.crc_piece_low[pieces] : multiply(bytes, tables.crc_piece_low[pieces % 256], tables.crc_piece_high[pieces / 256]);
}

/// Joins the remainders of the words of a stream of `length` bytes into `checksum`, and copies the stream to `host` unless that is null. Block `number` of
/// `blocks` takes every `blocks`-th piece. True for all threads of the block that is done last, which get the stream's checksum in `whole`.
__device__ bool join_checksum(const Tables& tables, const u32* stream, u32 length, u32* host, u32* checksum, u32* pieces_done, u32 number, u32 blocks,
                              u32& whole) {
  __shared__ CrcBytes bytes;
  __shared__ u32 parts[WARPS];
  __shared__ bool is_last;
  const u32 t = threadIdx.x;
  const u32 words = length / 4 - 1;  // without the checksum's
  const u32 pieces = ceil_div(words, PIECE_WORDS), busy = min(pieces, blocks);
  if (number >= busy) return false;
  for (u32 i = t; i < 4 * 256; i += THREADS) bytes[i / 256][i % 256] = tables.crc_bytes[i / 256][i % 256];
  const u32 thread_power = tables.crc_thread[t];
  __syncthreads();
  // From the farthest piece to the nearest: the remainder so far is multiplied by x^(bits of one piece for each block), and the next one is added.
  const u32 round = power_of_piece(tables, bytes, busy);
  u32 joined = 0;
  for (u32 pieces_left = (pieces - 1 - number) / busy + 1; pieces_left-- > 0;) {
    const u32 piece = number + pieces_left * busy;
    const i32 start = i32(words) - i32((piece + 1) * PIECE_WORDS);
    const i32 first = start + i32(t * WORDS_PER_THREAD);
    u32 remainder = 0;
#pragma unroll
    for (u32 k = 0; k < WORDS_PER_THREAD; k++) {
      const i32 word = first + i32(k);
      if (word < 0) continue;
      const u32 value = stream[u32(word) < CHECKSUM_AT / 4 ? word : word + 1];
      remainder ^= word == 0 ? ~value : value;
      remainder = four_bytes_on(bytes, remainder);
    }
    if (host) {
      // Neighbouring threads write neighbouring words. Otherwise the bus carries a quarter of the bytes a second.
      for (u32 k = 0; k < WORDS_PER_THREAD; k++) {
        const i32 word = start + i32(k * THREADS + t);
        if (word < 0) continue;
        const u32 at = u32(word) < CHECKSUM_AT / 4 ? word : word + 1;
        host[at] = stream[at];
      }
    }
    joined = multiply(bytes, joined, round) ^ remainder;
  }
  joined = __reduce_xor_sync(ALL_LANES, multiply(bytes, joined, thread_power));
  if (lane_id() == 0) parts[warp_id()] = joined;
  __syncthreads();
  if (t == 0) {
    for (u32 warp = 1; warp < WARPS; warp++) joined ^= parts[warp];
    joined = multiply(bytes, joined, power_of_piece(tables, bytes, number));
    atomicXor(checksum, joined);
    // The block that is done last sees the parts of all blocks.
    __threadfence();
    is_last = atomicAdd(pieces_done, 1) + 1 == busy;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return false;
  u32 remainder = *reinterpret_cast<volatile u32*>(checksum);
  // Bytes behind the last word: only a constant or stored chunk of short values has any.
#pragma unroll 1
  for (u32 at = length - length % 4; at < length; at++) {
    const u8 byte = reinterpret_cast<const u8*>(stream)[at];
    remainder = bytes[0][(remainder ^ byte) & 255] ^ remainder >> 8;
    if (host && t == 0) reinterpret_cast<u8*>(host)[at] = byte;
  }
  whole = ~remainder;
  return true;
}

/// Computes a stream's checksum and writes it into the stream. Copies the stream and its length to the host's pinned memory, if the job has any.
extern "C" __global__ void __launch_bounds__(THREADS) checksum_and_copy(const __grid_constant__ EncodeJob job) {
  EncodeState& state = job.states[blockIdx.y];
  u8* stream = job.output + blockIdx.y * job.output_stride;
  u8* host = job.host_output ? job.host_output + blockIdx.y * job.output_stride : nullptr;
  const u32 length = u32(job.lengths[blockIdx.y]);
  u32 whole;
  if (join_checksum(*job.tables, reinterpret_cast<const u32*>(stream), length, reinterpret_cast<u32*>(host), &state.checksum,
                    &state.pieces_done, blockIdx.x, gridDim.x, whole) &&
      threadIdx.x == 0) {
    reinterpret_cast<u32*>(stream)[CHECKSUM_AT / 4] = whole;
    if (host) reinterpret_cast<u32*>(host)[CHECKSUM_AT / 4] = whole;
    if (job.host_lengths) job.host_lengths[blockIdx.y] = job.lengths[blockIdx.y];
  }
}

/// Finds where a stream's blocks are, in the first blocks of threads, and compares its checksum, in the others.
extern "C" __global__ void __launch_bounds__(THREADS) open_stream(const __grid_constant__ DecodeJob job) {
  const u32 index_parts = ceil_div(job.segments, INDEX_PART);
  if (blockIdx.x < index_parts) return find_blocks(job, blockIdx.x);
  DecodeState& state = job.states[blockIdx.y];
  const DecodeParameters& parameters = stream_parameters(job);
  const u8* stream = chunk_stream(job);
  u32 whole;
  if (join_checksum(*job.tables, reinterpret_cast<const u32*>(stream), u32(parameters.stream_len), nullptr, &state.checksum, &state.pieces_done,
                    blockIdx.x - index_parts, gridDim.x - index_parts, whole) &&
      threadIdx.x == 0 && whole != parameters.checksum) {
    state.error = DECODE_REFUSED;
  }
}
