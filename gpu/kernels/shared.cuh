// Instructions that the compiler does not choose by itself: loads from shared memory that wait for no branch, addresses that stay in registers, stores under a
// predicate. They are for loops in which a warp's chain of dependent instructions takes all the time. The emulator has them in plain C++.
#pragma once

#include "common.cuh"

#ifdef __CUDACC__

/// Keeps a pointer in registers; otherwise the compiler computes it again for each use.
template <typename T>
__device__ __forceinline__ void keep_in_registers(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}

/// Writes a word if the condition holds: one instruction under a predicate, in place of a branch behind which all lanes meet.
__device__ __forceinline__ void store_if(bool condition, u16* to, u32 word) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.u16 [%1], %2; }" ::"r"(u32(condition)), "l"(to), "h"(u16(word))
      : "memory");
}

/// A word shifted left. It is 0 if it is shifted by 32 bits or more.
__device__ __forceinline__ u32 shift_left_or_0(u32 word, u32 by) {
  u32 result;
  asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(word), "r"(by));
  return result;
}

/// 16 bits of shared memory. The compiler would let loads wait for branches that do not concern them.
__device__ __forceinline__ u32 load_shared(u32 address) {
  u16 value;
  asm volatile("ld.volatile.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  return value;
}

/// An object in shared memory, by its address there.
struct SharedMemory {
  u32 address;

  __device__ __forceinline__ explicit SharedMemory(const void* pointer) : address(u32(__cvta_generic_to_shared(pointer))) {
    asm volatile("" : "+r"(address));
  }
  /// The 16 bits at byte `at`.
  __device__ __forceinline__ u32 load(u32 at) const { return load_shared(address + at); }
};

/// A ring buffer of BYTES bytes. It begins at the next multiple of BYTES, so that an address is an offset's lowest bits and the ring's address, joined by OR.
template <u32 BYTES>
struct SharedRing {
  u32 address;

  __device__ __forceinline__ explicit SharedRing(const void* pointer) : address((SharedMemory(pointer).address + BYTES - 1) & ~(BYTES - 1)) {}
  __device__ __forceinline__ u32 address_of(u32 at) const { return (at & (BYTES - 1)) | address; }
  __device__ __forceinline__ u32 load(u32 at) const { return load_shared(address_of(at)); }
  __device__ __forceinline__ void store(u32 at, u32 pair) const {
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(address_of(at)), "r"(pair) : "memory");
  }
};

#else

template <typename T>
void keep_in_registers(T*&) {}

inline void store_if(bool condition, u16* to, u32 word) {
  if (condition) *to = u16(word);
}

inline u32 shift_left_or_0(u32 word, u32 by) { return by < 32 ? word << by : 0; }

struct SharedMemory {
  const u8* bytes;

  explicit SharedMemory(const void* pointer) : bytes(static_cast<const u8*>(pointer)) {}
  u32 load(u32 at) const { return *reinterpret_cast<const u16*>(bytes + at); }
};

template <u32 BYTES>
struct SharedRing {
  u8* bytes;

  explicit SharedRing(void* pointer) : bytes(static_cast<u8*>(pointer)) {}
  u32 load(u32 at) const { return *reinterpret_cast<const u16*>(bytes + at % BYTES); }
  void store(u32 at, u32 pair) const { *reinterpret_cast<u32*>(bytes + at % BYTES) = pair; }
};

#endif
