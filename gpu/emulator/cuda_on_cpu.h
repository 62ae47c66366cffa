// CUDA's keywords and functions in C++, so that the kernels run on the CPU. So tests compare their bytes with the codec's on machines without a GPU.
//
//   block of threads  = fibers on one thread of the operating system; a fiber runs until it has to meet others
//   warp operation    = all 32 lanes bring a value and wait for each other; in different operations or lines they may not meet
//   barrier           = as above with all threads of the block that have not ended
//   grid              = one block after another
//
// In a deadlock, the lines at which the threads wait are printed, and the process ends.
//
// This stand-in does not show
// - races between threads without a barrier in between; QUIRE_EMULATOR_ORDER=reverse or random:NUMBER finds some of them
// - missing fences: all threads of a block see every write at once
// - accesses outside of an array but inside of an allocation, except writes to the gap behind an array of a job: see `Gaps` in gpu/src/memory.rs
// - reads of memory that an earlier job has left behind
// - machine code: registers, spills, faults of nvcc.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <source_location>
#include <type_traits>

namespace cuda_on_cpu {

typedef std::source_location Where;

struct Index {
  unsigned x, y, z;
};
/// Indices of the running fiber in its grid.
struct Here {
  Index thread, block, block_size, grid;
};
inline thread_local Here here;

/// What the threads of a warp or a block do together.
enum class Kind { NONE, SYNCWARP, BALLOT, ANY, ALL, SHUFFLE, SHUFFLE_UP, SHUFFLE_XOR, ADD, MIN, MAX, XOR, BARRIER, OR, AND, COUNT };

/// Values of a warp's lanes. They stay until the lanes have met twice more.
typedef const uint64_t Lanes[32];

/// Brings a lane's value, and returns with all lanes' values when they have come. `joined`, which the last lane to come computes, is the
/// same for all.
Lanes& meet_warp(Kind kind, unsigned mask, uint64_t value, Where where, uint64_t (*join)(Lanes&), uint64_t* joined);
/// Waits for the block, and counts the threads whose predicate holds, and the threads.
struct Count {
  unsigned holding, all;
};
Count meet_block(Kind kind, bool predicate, Where where);

template <typename T>
T exchange(Kind kind, unsigned mask, T value, unsigned lane, Where where) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the hardware exchanges words of 4 and 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  Lanes& lanes = meet_warp(kind, mask, bits, where, nullptr, nullptr);
  memcpy(&value, &lanes[lane], sizeof(T));
  return value;
}

template <typename Join>
uint64_t reduce(Kind kind, unsigned mask, uint64_t value, Where where, Join) {
  uint64_t joined;
  auto join = [](Lanes& lanes) {
    uint64_t sum = lanes[0];
    for (int lane = 1; lane < 32; lane++) sum = Join()(sum, lanes[lane]);
    return sum;
  };
  meet_warp(kind, mask, value, where, join, &joined);
  return joined;
}

inline unsigned ballot(Kind kind, unsigned mask, bool predicate, Where where) {
  uint64_t joined;
  auto join = [](Lanes& lanes) {
    uint64_t bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= lanes[lane] << lane;
    return bits;
  };
  meet_warp(kind, mask, predicate, where, join, &joined);
  return unsigned(joined);
}

inline unsigned lane() { return here.thread.x % 32; }

template <typename To, typename From>
To cast_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

}  // namespace cuda_on_cpu

#define __device__
#define __global__ __attribute__((visibility("hidden")))
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// A thread of the operating system runs one block at a time; all of its shared variables are spoiled before each.
#define __shared__ static thread_local

#define threadIdx (cuda_on_cpu::here.thread)
#define blockIdx (cuda_on_cpu::here.block)
#define blockDim (cuda_on_cpu::here.block_size)
#define gridDim (cuda_on_cpu::here.grid)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// What threads do together. The line of the call is part of the operation's identity.
#define WHERE cuda_on_cpu::Where where = cuda_on_cpu::Where::current()
#define KIND(name) cuda_on_cpu::Kind::name

inline void __syncthreads(WHERE) { cuda_on_cpu::meet_block(KIND(BARRIER), false, where); }
inline int __syncthreads_or(bool predicate, WHERE) { return cuda_on_cpu::meet_block(KIND(OR), predicate, where).holding > 0; }
inline int __syncthreads_and(bool predicate, WHERE) {
  const cuda_on_cpu::Count count = cuda_on_cpu::meet_block(KIND(AND), predicate, where);
  return count.holding == count.all;
}
inline int __syncthreads_count(bool predicate, WHERE) {
  return int(cuda_on_cpu::meet_block(KIND(COUNT), predicate, where).holding);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, WHERE) { cuda_on_cpu::meet_warp(KIND(SYNCWARP), mask, 0, where, nullptr, nullptr); }
inline unsigned __ballot_sync(unsigned mask, bool predicate, WHERE) { return cuda_on_cpu::ballot(KIND(BALLOT), mask, predicate, where); }
inline int __any_sync(unsigned mask, bool predicate, WHERE) { return cuda_on_cpu::ballot(KIND(ANY), mask, predicate, where) != 0; }
inline int __all_sync(unsigned mask, bool predicate, WHERE) {
  return cuda_on_cpu::ballot(KIND(ALL), mask, predicate, where) == 0xffffffffu;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, WHERE) {
  const unsigned first = cuda_on_cpu::lane() & ~unsigned(width - 1);
  return cuda_on_cpu::exchange(KIND(SHUFFLE), mask, value, first | (unsigned(from) & unsigned(width - 1)), where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, WHERE) {
  const unsigned lane = cuda_on_cpu::lane(), first = lane & ~unsigned(width - 1);
  return cuda_on_cpu::exchange(KIND(SHUFFLE_UP), mask, value, lane >= first + by ? lane - by : lane, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int with, WHERE) {
  return cuda_on_cpu::exchange(KIND(SHUFFLE_XOR), mask, value, (cuda_on_cpu::lane() ^ unsigned(with)) & 31, where);
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, WHERE) {
  return unsigned(cuda_on_cpu::reduce(KIND(ADD), mask, value, where, [](uint64_t a, uint64_t b) { return a + b; }));
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, WHERE) {
  return unsigned(cuda_on_cpu::reduce(KIND(XOR), mask, value, where, [](uint64_t a, uint64_t b) { return a ^ b; }));
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, WHERE) {
  return unsigned(cuda_on_cpu::reduce(KIND(MIN), mask, value, where, [](uint64_t a, uint64_t b) { return a < b ? a : b; }));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, WHERE) {
  return unsigned(cuda_on_cpu::reduce(KIND(MAX), mask, value, where, [](uint64_t a, uint64_t b) { return a > b ? a : b; }));
}
#undef WHERE
#undef KIND

// Blocks of several streams run at once, each on its caller's thread.
template <typename T, typename U>
T atomicAdd(T* at, U value) {
  return __atomic_fetch_add(at, T(value), __ATOMIC_RELAXED);
}
template <typename T, typename U>
T atomicOr(T* at, U value) {
  return __atomic_fetch_or(at, T(value), __ATOMIC_RELAXED);
}
template <typename T, typename U>
T atomicXor(T* at, U value) {
  return __atomic_fetch_xor(at, T(value), __ATOMIC_RELAXED);
}
template <typename T, typename U>
T atomicMax(T* at, U value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < T(value) && !__atomic_compare_exchange_n(at, &old, T(value), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return old;
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Words and bits.
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(uint64_t value) { return __builtin_popcountll(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __ffsll(long long value) { return __builtin_ffsll(value); }
inline int __clz(int value) { return value ? __builtin_clz(unsigned(value)) : 32; }
inline int __clzll(long long value) { return value ? __builtin_clzll(uint64_t(value)) : 64; }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return unsigned((uint64_t(high) << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) { return unsigned((uint64_t(high) << 32 | low) >> (by & 31)); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) result |= unsigned(bytes >> (8 * (selectors >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  typedef std::common_type_t<A, B> T;
  return T(b) < T(a) ? T(b) : T(a);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  typedef std::common_type_t<A, B> T;
  return T(a) < T(b) ? T(b) : T(a);
}

// Numbers. The library is compiled without contraction, so that plain operations round once.
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline long long __double_as_longlong(double value) { return cuda_on_cpu::cast_bits<long long>(value); }
inline double __longlong_as_double(long long bits) { return cuda_on_cpu::cast_bits<double>(bits); }
inline unsigned __float_as_uint(float value) { return cuda_on_cpu::cast_bits<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return cuda_on_cpu::cast_bits<float>(bits); }
/// An error of 2 units in the last place is allowed: it is taken, up or down.
inline float __fdividef(float a, float b) {
  const unsigned quotient = __float_as_uint(a / b);
  return __uint_as_float(__builtin_parity(__float_as_uint(a) ^ __float_as_uint(b)) ? quotient + 2 : quotient - 2);
}
inline int __double2loint(double value) { return int(cuda_on_cpu::cast_bits<uint64_t>(value)); }
