// Stage 1 (FORMAT.md §5): values -> quantization codes and exceptions, and back. CPU: codec/src/quantize/linear.rs, codec/src/quantize/lattice.rs.
//
// All arithmetic is f64, each operation rounded by itself: the file is compiled with --fmad=false.
#pragma once

#include "job.cuh"

/// Key 0 of the lattice search means that no value decides.
constexpr i32 LATTICE_ZERO = 4096;

/// The grid on which interpolation restores values (FORMAT.md §5.2): POSITIONS_PER_STEP places a step. CPU: codec/src/quantize/fine_grid.rs.
struct FineGrid {
  double step, inverse_step, spacing;
  double limit;  // values of as many steps have no place; 0 where there is no fine grid

  __device__ __forceinline__ double value(i32 place) const {
    const i32 steps = i32(u32(place) + POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP_LOG;
    const i32 rest = i32(u32(place) - u32(steps) * POSITIONS_PER_STEP);
    return double(steps) * step + double(rest) * spacing;
  }
  template <typename V>
  __device__ __forceinline__ V restore(i32 place) const {
    return V(value(place));
  }
};

template <typename V>
__device__ __forceinline__ FineGrid make_fine_grid(double step, double inverse_step) {
  return {step, inverse_step, step * FINE_SPACING, step >= ValueType<V>::SMALLEST_SAFE_STEP ? ValueType<V>::STEPS_LIMIT : 0.0};
}

/// The place nearest to a value of so many steps, and whether the value stands there.
template <typename V>
struct Nearest {
  double steps, rest;
  bool exact;

  __device__ __forceinline__ Nearest(const FineGrid& fine, V value, double steps) : steps(steps) {
    rest = ((double(value) * fine.inverse_step - steps) * SPACINGS_PER_STEP + ROUNDING) - ROUNDING;
    exact = double(V(steps * fine.step + rest * fine.spacing)) == double(value);
  }
};

/// What arithmetic in binary32 decides for certain of most values of that type. CPU: codec/src/quantize/fast_f32.rs, where its errors are reckoned.
struct Glance {
  float inverse_step;  // NaN where nothing is certain

  __device__ __forceinline__ void make(double bound, double step) {
    // Lattices' steps do not bound the error.
    const bool of_use = step == 2.0 * bound && step >= GLANCE_SMALLEST_STEP && step < 1.0 / GLANCE_SMALLEST_STEP;
    inverse_step = of_use ? float(1.0 / step) : __uint_as_float(0x7fffffff);
  }

  /// Whether the code is certain, and holds the value.
  __device__ __forceinline__ bool quantize(float value, i32& code) const {
    constexpr float ROUND = float(GLANCE_ROUNDING);
    const float scaled = value * inverse_step, sum = scaled + ROUND;
    const float miss = scaled - (sum - ROUND), rest = miss * float(SPACINGS_PER_STEP);
    const float off = fabsf(rest - ((rest + ROUND) - ROUND));
    code = i32(__float_as_uint(sum) - __float_as_uint(ROUND));
    const bool may_stand = off < float(GLANCE_STANDING) && fabsf(rest) > 0.5f && fabsf(scaled) < float(GLANCE_OUT_OF_REACH);
    return fabsf(miss) + fabsf(scaled) * float(GLANCE_DOUBT_SHARE) < 0.5f && !may_stand;
  }
};

struct Grid {
  double bound, step, inverse_step, safe_limit;
  FineGrid fine;
  Glance glance;
  u64 fill;
  bool has_fill;
};

template <typename V>
__device__ __forceinline__ typename ValueType<V>::Code code_from_sum(double sum) {
  if constexpr (sizeof(typename ValueType<V>::Code) == 4) {
    return i32(__double2loint(sum));
  } else {
    return __double_as_longlong(sum) - __double_as_longlong(ROUNDING);
  }
}

/// The decoder's value for a code.
template <typename V>
__device__ __forceinline__ V restore_value(double code, double step) {
  return V(__dmul_rn(code, step));
}

/// Below this magnitude a decoded value is certain to have its own code again; see `SAFE_CODE_LIMIT` in codec/src/quantize/linear.rs. 0 where
/// steps are so small that values may be subnormal.
template <typename V>
__device__ __forceinline__ double safe_code_limit(double step) {
  return step >= ValueType<V>::SMALLEST_SAFE_STEP ? ValueType<V>::SAFE_CODE_LIMIT : 0.0;
}

template <typename V>
constexpr bool IS_BINARY32 = false;
template <>
constexpr bool IS_BINARY32<float> = true;

/// The code of a value; false for an exception.
template <typename V>
__device__ __forceinline__ bool quantize_one(V value, const Grid& grid, typename ValueType<V>::Code& code) {
  if constexpr (IS_BINARY32<V>) {
    if (grid.glance.quantize(value, code)) return !(grid.has_fill && ValueType<V>::to_bits(value) == grid.fill);
  }
  const double sum = __dadd_rn(__dmul_rn(double(value), grid.inverse_step), ROUNDING);
  const double rounded = __dsub_rn(sum, ROUNDING);
  const V restored = restore_value<V>(rounded, grid.step);
  const double error = fabs(__dsub_rn(double(value), double(restored)));
  code = code_from_sum<V>(sum);
  bool holds = error <= grid.bound && !(grid.has_fill && u64(ValueType<V>::to_bits(value)) == grid.fill);
  if (!(fabs(rounded) < grid.safe_limit)) {
    const double again = __dsub_rn(__dadd_rn(__dmul_rn(double(restored), grid.inverse_step), ROUNDING), ROUNDING);
    holds = holds && fabs(rounded) < ValueType<V>::CODE_LIMIT && again == rounded;
  }
  if constexpr (ValueType<V>::STEPS_LIMIT > 0.0) {
    if (fabs(rounded) < grid.fine.limit) {
      // What interpolation has restored between two steps keeps its place.
      const Nearest<V> nearest(grid.fine, value, rounded);
      holds = holds && !(nearest.exact && nearest.rest != 0.0);
    }
  }
  return holds;
}

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

/// Puts the chunk's lattice in place of the bound's steps if it is wider, once `inspect` has seen all of the chunk.
__device__ __forceinline__ bool take_lattice(const EncodeParameters& parameters, u32 lattice_key, double& step, double& inverse_step) {
  i32 lowest = LATTICE_ZERO - i32(lattice_key);
  if (lattice_key == 0 || lowest < parameters.needed_bit || lowest < -1000 || lowest > 1000) return false;
  step = __longlong_as_double(i64(lowest + 1023) << 52);
  inverse_step = __longlong_as_double(i64(1023 - lowest) << 52);
  return true;
}

/// The grid of a chunk.
template <typename V>
__device__ Grid make_grid(const EncodeParameters& parameters, u32 lattice_key) {
  Grid grid = {parameters.bound, parameters.step, parameters.inverse_step, 0.0, make_fine_grid<V>(parameters.step, parameters.inverse_step), {}, 0, false};
  if (take_lattice(parameters, lattice_key, grid.step, grid.inverse_step)) grid.fine.limit = 0.0;
  // Where the step does not bound the error, it is a lattice that the host has found.
  if (grid.step != 2.0 * grid.bound) grid.fine.limit = 0.0;
  grid.safe_limit = safe_code_limit<V>(grid.step);
  grid.glance.make(grid.bound, grid.step);
  if (parameters.has_fill) {
    V fill = ValueType<V>::from_bits(typename ValueType<V>::Bits(parameters.fill_bits));
    typename ValueType<V>::Code code;
    // Values with the fill value's bits are exceptions on this grid and on its fine grid, unless a small code gives these bits back.
    bool comes_back = quantize_one<V>(fill, grid, code) && fabs(double(code)) < FAR_FILL &&
                      ValueType<V>::to_bits(restore_value<V>(double(code), grid.step)) == ValueType<V>::to_bits(fill);
    grid.has_fill = !comes_back;
    grid.fill = parameters.fill_bits;
  }
  return grid;
}

/// What values show of a chunk.
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
    if (parameters.has_fill && u64(bits) == parameters.fill_bits) continue;
    i32 lowest = lowest_bit(double(ValueType<V>::from_bits(bits)));
    if (lowest != 0x7fffffff) found.key = max(found.key, u32(LATTICE_ZERO - lowest));
  }
  return found;
}

/// Finds whether all values are equal, and the lattice that they share. The first few values mostly tell: then nobody looks any further.
template <typename V>
__device__ void inspect(const EncodeJob& job) {
  __shared__ u32 scratch[WARPS];
  const EncodeParameters& parameters = *job.parameters;
  EncodeState& state = job.states[blockIdx.y];
  const u8* chunk = job.input + blockIdx.y * job.input_stride;
  const u32 elements = job.shape.elements;
  const auto first = read_bits<V>(chunk, 0, parameters.big_endian);
  const u32 off_lattice = u32(LATTICE_ZERO - parameters.needed_bit);  // keys above this end the search
  const Finding glance = look<V, 1>(parameters, chunk, 0, elements, first);
  if (__syncthreads_or(glance.differs) && __syncthreads_or(glance.key > off_lattice)) {
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
      // Others may have found as much already: what is read here may be old, which costs no more than an update too many.
      const u32 known = *static_cast<volatile u32*>(&state.lattice_key);
      if (key > known) atomicMax(&state.lattice_key, key);
      const bool known_to_differ = *static_cast<volatile u32*>(&state.differs);
      if (differs && !known_to_differ) *static_cast<volatile u32*>(&state.differs) = 1;
      done = (differs || known_to_differ) && max(key, known) > off_lattice;
    }
    if (__syncthreads_or(done)) return;
  }
}

/// A thread's values of a segment as they stand in the chunk; 0 behind its end.
template <typename V>
struct SegmentValues {
  typename ValueType<V>::Stored of[VALUES_PER_THREAD];

  __device__ __forceinline__ void read(const u8* chunk, u32 start, u32 elements) {
    typedef typename ValueType<V>::Stored Stored;
    const Stored* from = reinterpret_cast<const Stored*>(chunk) + start + threadIdx.x;
    const u32 left = elements - min(start + threadIdx.x, elements);
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) of[k] = k * THREADS < left ? from[k * THREADS] : Stored(0);
  }
};

/// Codes, and a bit for each exception. The codes of exceptions are left to `fill_gaps`. `Coder` is made once a block of threads and says what a value's
/// bits become, and whether that is an exception.
template <typename V, typename Coder>
__device__ __forceinline__ void make_codes(const EncodeJob& job) {
  typedef typename ValueType<V>::Code Code;
  __shared__ Coder coder;
  __shared__ u32 bad[MASK_WORDS];
  const EncodeParameters& parameters = *job.parameters;
  EncodeState& state = job.states[blockIdx.y];
  const u8* chunk = job.input + blockIdx.y * job.input_stride;
  const u32 elements = job.shape.elements;
  const bool big_endian = parameters.big_endian;
  // Under way while the grid is made.
  SegmentValues<V> next;
  next.read(chunk, blockIdx.x * SEGMENT, elements);
  if (is_constant(job, state)) return;
  if (threadIdx.x == 0) coder = Coder(parameters, state);
  __syncthreads();
  Code* codes = static_cast<Code*>(job.codes) + u64(blockIdx.y) * elements;
  const Coder own = coder;
  for (u32 segment = blockIdx.x; segment < job.segments; segment += gridDim.x) {
    const u64 place = u64(blockIdx.y) * job.segments + segment;
    const u32 start = segment * SEGMENT;
    const SegmentValues<V> here = next;
    // Under way while this segment is coded.
    if (segment + gridDim.x < job.segments) next.read(chunk, start + gridDim.x * SEGMENT, elements);
    Code* to = codes + start + threadIdx.x;
    const u32 left = elements - min(start + threadIdx.x, elements);
    // A warp makes a word of the mask with each of its values; a lane keeps one of them.
    u32 own_word = 0, any = 0;
#pragma unroll
    for (u32 k = 0; k < VALUES_PER_THREAD; k++) {
      bool exception = false;
      if (k * THREADS < left) {
        Code code;
        exception = !own(big_endian ? ValueType<V>::swap(here.of[k]) : here.of[k], code);
        to[k * THREADS] = code;
      }
      const u32 word = __ballot_sync(ALL_LANES, exception);
      any |= word;
      own_word = lane_id() == k ? word : own_word;
    }
    if (lane_id() < VALUES_PER_THREAD) {
      const u32 at = lane_id() * WARPS + warp_id();
      bad[at] = own_word;
      job.mask[place * MASK_WORDS + at] = own_word;
    }
    const u32 end = min(start + SEGMENT, elements);
    u32 count = 0, first = start, last = end - 1;
    if (__syncthreads_or(any != 0)) {
      if (warp_id() == 0) {
        first = NONE;
        last = 0;
        for (u32 word = lane_id(); word < MASK_WORDS; word += WARP) {
          u32 begin = start + 32 * word;
          u32 inside = begin >= end ? 0 : end - begin >= 32 ? ALL_LANES : (1u << (end - begin)) - 1;
          u32 valid = ~bad[word] & inside;
          count += __popc(bad[word]);
          if (valid) {
            first = min(first, begin + __ffs(valid) - 1);
            last = max(last, begin + bit_length(valid));  // one behind it: 0 means none
          }
        }
        count = warp_sum(count);
        first = __reduce_min_sync(ALL_LANES, first);
        last = __reduce_max_sync(ALL_LANES, last) - 1;  // NONE if there is none
      }
    }
    if (threadIdx.x == 0) {
      job.exception_counts[place] = count;
      job.first_valid[place] = first;
      job.last_valid[place] = last;
      if (count) {
        atomicAdd(&state.exceptions, count);
        atomicAdd(&job.exception_groups[u64(blockIdx.y) * job.groups + segment / GROUP], count);
      }
    }
    __syncthreads();
  }
}

/// An absolute bound's grid, or a lattice.
template <typename V>
struct LinearCoder {
  Grid grid;

  LinearCoder() = default;
  __device__ LinearCoder(const EncodeParameters& parameters, const EncodeState& state) : grid(make_grid<V>(parameters, state.lattice_key)) {}
  __device__ __forceinline__ bool operator()(typename ValueType<V>::Bits bits, typename ValueType<V>::Code& code) const {
    return quantize_one<V>(ValueType<V>::from_bits(bits), grid, code);
  }
};

template <typename V>
__device__ void quantize(const EncodeJob& job) {
  make_codes<V, LinearCoder<V>>(job);
}

extern "C" __global__ void __launch_bounds__(THREADS) inspect_f32(const __grid_constant__ EncodeJob job) { inspect<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_f64(const __grid_constant__ EncodeJob job) { inspect<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_f16(const __grid_constant__ EncodeJob job) { inspect<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) inspect_bf16(const __grid_constant__ EncodeJob job) { inspect<BFloat16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_f32(const __grid_constant__ EncodeJob job) { quantize<float>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_f64(const __grid_constant__ EncodeJob job) { quantize<double>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_f16(const __grid_constant__ EncodeJob job) { quantize<Binary16>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) quantize_bf16(const __grid_constant__ EncodeJob job) { quantize<BFloat16>(job); }
