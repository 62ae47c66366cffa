// Stage 1 (FORMAT.md §5.1): the lattice that all values of a chunk are on, and whether all values are equal. CPU: codec/src/quantize/lattice.rs.
#pragma once

#include "../job.cuh"

/// Exponent of a value whose key is 0. Key 0 itself means that no value has a 1 bit.
constexpr i32 LATTICE_ZERO = 4096;

/// Exponent of the least significant 1 bit; INT_MAX for 0, infinities and NaN.
__device__ __forceinline__ i32 lowest_bit(double value) {
  u64 bits = u64(__double_as_longlong(value));
  u32 biased = u32(bits >> 52) & 0x7ff;
  u64 mantissa = bits & ((1ull << 52) - 1);
  i32 exponent = -1074;
  if (biased != 0) {
    exponent = i32(biased) - 1075;
    mantissa |= 1ull << 52;
  }
  if (mantissa == 0 || biased == 0x7ff) return 0x7fffffff;
  return exponent + __ffsll(i64(mantissa)) - 1;
}

/// Replaces the bound's step by the chunk's lattice if that is wider. `inspect` has seen all of the chunk.
__device__ __forceinline__ bool take_lattice(const EncodeParameters& parameters, u32 lattice_key, double& step, double& inverse_step) {
  i32 lowest = LATTICE_ZERO - i32(lattice_key);
  if (lattice_key == 0 || lowest < parameters.needed_bit || lowest < -1000 || lowest > 1000) return false;
  step = __longlong_as_double(i64(lowest + 1023) << 52);
  inverse_step = __longlong_as_double(i64(1023 - lowest) << 52);
  return true;
}

/// What `look` finds among some values: the greatest key, and whether one differs from the chunk's first value.
struct Finding {
  u32 key;
  bool differs;
};

/// Looks at the values from `start` on, one or more a thread.
template <typename V, u32 EACH>
__device__ __forceinline__ Finding look(const EncodeParameters& parameters, const u8* chunk, u32 start, u32 elements, typename ValueType<V>::Bits first) {
  Finding found = {0, false};
#pragma unroll
  for (u32 k = 0; k < EACH; k++) {
    u32 index = start + k * THREADS + threadIdx.x;
    if (index >= elements) continue;
    auto bits = read_bits<V>(chunk, index, parameters.big_endian);
    found.differs |= bits != first;
    const double value = double(ValueType<V>::from_bits(bits));
    if (is_fill(parameters.fills, u64(bits), value)) continue;
    i32 lowest = lowest_bit(value);
    if (lowest != 0x7fffffff) found.key = max(found.key, u32(LATTICE_ZERO - lowest));
  }
  return found;
}

/// Finds whether all values are equal, and the lattice that they share. If the first few values rule out both, as most do, the search ends there.
template <typename V>
__device__ void inspect(const EncodeJob& job) {
  __shared__ u32 scratch[WARPS];
  const EncodeParameters& parameters = job.parameters[blockIdx.y];
  EncodeState& state = job.states[blockIdx.y];
  const u8* chunk = chunk_values(job);
  const u32 elements = job.shape.elements;
  const auto first = read_bits<V>(chunk, 0, parameters.big_endian);
  const u32 off_lattice = u32(LATTICE_ZERO - parameters.needed_bit);  // keys above this end the search
  const Finding first_values = look<V, 1>(parameters, chunk, 0, elements, first);
  if (__syncthreads_or(first_values.differs) && __syncthreads_or(first_values.key > off_lattice)) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      state.differs = 1;
      state.lattice_key = off_lattice + 1;
    }
    return;
  }
  for (u32 start = blockIdx.x * SEGMENT; start < elements; start += gridDim.x * SEGMENT) {
    const Finding found = look<V, VALUES_PER_THREAD>(parameters, chunk, start, elements, first);
    const bool differs = __syncthreads_or(found.differs);
    const u32 key = block_max(found.key, scratch);
    bool done = false;
    if (threadIdx.x == 0) {
      // Another block may have found this already. A stale read costs one superfluous update.
      const u32 known = *static_cast<volatile u32*>(&state.lattice_key);
      if (key > known) atomicMax(&state.lattice_key, key);
      const bool known_to_differ = *static_cast<volatile u32*>(&state.differs);
      if (differs && !known_to_differ) *static_cast<volatile u32*>(&state.differs) = 1;
      done = (differs || known_to_differ) && max(key, known) > off_lattice;
    }
    if (__syncthreads_or(done)) return;
  }
}

/// Tells the host what `inspect` has found in the chunks of a batch.
extern "C" __global__ void __launch_bounds__(THREADS) report_inspections(const __grid_constant__ EncodeJob job) {
  for (u32 chunk = blockIdx.x * THREADS + threadIdx.x; chunk < job.chunks; chunk += gridDim.x * THREADS) {
    const EncodeState& state = job.states[chunk];
    const bool has_no_lattice = state.lattice_key != 0 && LATTICE_ZERO - i32(state.lattice_key) < job.parameters[chunk].needed_bit;
    job.host_inspections[chunk] = {state.differs, has_no_lattice};
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) inspect_f32(const __grid_constant__ EncodeJob job) { inspect<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_f64(const __grid_constant__ EncodeJob job) { inspect<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_f16(const __grid_constant__ EncodeJob job) { inspect<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_bf16(const __grid_constant__ EncodeJob job) { inspect<BFloat16>(job); }
