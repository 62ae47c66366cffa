// Stage 0 (FORMAT.md §11.1): what is found of a chunk before it gets a predictor: whether all values are equal, their lattice, and whether the bound is below
// their last digit. CPU: codec/src/quantize/lattice.rs, codec/src/quantize/last_digit.rs.
//
// All arithmetic is f64, each operation rounded by itself: the build compiles with --fmad=false.
#pragma once

#include "decimal.cuh"
#include "lattice.cuh"

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

/// What the last digit of a value says of the bound.
enum LastDigit { NOT_COUNTED, BELOW_BOUND, ABOVE_BOUND };

/// Whether the last digit of a value, binary or decimal, is about a step or more.
template <typename V>
__device__ __forceinline__ LastDigit last_digit(const EncodeParameters& parameters, typename ValueType<V>::Bits bits) {
  const double value = double(ValueType<V>::from_bits(bits));
  if (is_fill(parameters.fills, u64(bits), value)) return NOT_COUNTED;
  const double magnitude = fabs(value), step = parameters.step;
  if (!(magnitude > 0.0 && magnitude < ValueType<V>::CODE_LIMIT * step)) return NOT_COUNTED;
  constexpr double TELLING = ValueType<V>::SAFE_CODE_LIMIT / CHANCE_OF_DECIMALS;
  const bool is_telling = sizeof(typename ValueType<V>::Stored) == 2 || magnitude < TELLING * step;
  if (is_telling && lowest_bit(magnitude) >= parameters.needed_bit - 1) return ABOVE_BOUND;
  double divisor = 1.0;
  while (divisor < MAX_DIVISOR && divisor * step < 1.0 && magnitude * (10.0 * divisor) < TELLING) divisor *= 10.0;
  typename ValueType<V>::Code code;
  const bool is_above = divisor * step < 10.0 && magnitude * divisor < TELLING && DecimalCoder<V>(divisor)(bits, code);
  return is_above ? ABOVE_BOUND : BELOW_BOUND;
}

/// Whether the bound is below the last digit of most values of a sample. For a warp, all of whose lanes get the answer.
template <typename V>
__device__ __forceinline__ bool is_bound_below_digits(const EncodeParameters& parameters, const u8* chunk, u32 elements) {
  static_assert(MAX_COUNTED == WARP, "a lane has one value of the sample");
  LastDigit found = NOT_COUNTED;
  typename ValueType<V>::Bits bits = 0;  // 0 is not counted
  if (lane_id() < elements) {
    const u32 fraction = u32(SAMPLE_STRIDE) * lane_id();
    bits = read_bits<V>(chunk, u32(u64(fraction) * elements >> 32), parameters.big_endian);
    found = last_digit<V>(parameters, bits);
  }
  // A value counts once.
  for (u32 lane = 0; lane < WARP - 1; ++lane) {
    const u64 earlier = __shfl_sync(ALL_LANES, u64(bits), lane);
    if (lane < lane_id() && earlier == bits) found = NOT_COUNTED;
  }
  const u32 above = __popc(__ballot_sync(ALL_LANES, found == ABOVE_BOUND)), below = __popc(__ballot_sync(ALL_LANES, found == BELOW_BOUND));
  return above >= LEAST_ENDING && above >= below;
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
  if (job.host_inspections && blockIdx.x == 0 && warp_id() == 0) {
    const bool is_below = is_bound_below_digits<V>(parameters, chunk, elements);
    if (lane_id() == 0) state.is_bound_below_digits = is_below;
  }
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
    job.host_inspections[chunk] = {state.differs, has_no_lattice, state.is_bound_below_digits};
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) inspect_f32(const __grid_constant__ EncodeJob job) { inspect<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_f64(const __grid_constant__ EncodeJob job) { inspect<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_f16(const __grid_constant__ EncodeJob job) { inspect<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_bf16(const __grid_constant__ EncodeJob job) { inspect<BFloat16>(job); }
