// Interpolation (FORMAT.md §6.2): values -> residuals, from the coarsest level to the finest, and back. CPU: codec/src/predict/interpolation.rs,
// codec/src/quantize/fine_grid.rs.
//
// A value that is odd along one axis is predicted from the coarser level. Any other value is predicted from those of its level that are odd along one axis
// less. So a level takes a pass for each number of axes, and all values of a pass are independent. Restored values are kept as positions on the fine grid.
// Positions are in the order of the chunk, residuals in that of the parity classes.
//
// This file has what all levels share. One block of threads does the coarse levels (coarse_levels.cuh); each pass of a fine level is a launch
// (fine_levels.cuh).
//
// Encoding reads values and writes residuals; decoding reads residuals and writes values. Both compute equal positions.
#pragma once

#include "../job.cuh"
#include "../quantize/linear.cuh"

/// The number of sets of axes, with the empty one.
constexpr u32 SETS = 1u << MAX_RANK;

/// Extents of a level, fastest axis first.
struct Extents {
  u32 of[MAX_RANK];

  __device__ __forceinline__ Extents halved() const {
    Extents result;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) result.of[axis] = (of[axis] + 1) / 2;
    return result;
  }
  __device__ __forceinline__ u32 count() const { return of[0] * of[1] * of[2] * of[3]; }
};

/// Extents of a level: it has every 2^level-th value of the chunk along each axis.
__device__ __forceinline__ Extents level_extents(const Shape& shape, u32 level) {
  Extents result;
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) result.of[axis] = (shape.extents[axis] + (1u << level) - 1) >> level;
  return result;
}

/// The non-empty sets of axes in the order of coding: by number of axes, then as binary numbers. Each takes four bits.
constexpr u64 SETS_IN_ORDER = 0xfedb7ca96538421;
constexpr u32 CLASSES = SETS - 1;
static_assert(SETS <= WARP, "a lane a class, and one more");
/// Index, in that order, of the first set of SIZE axes.
template <u32 SIZE>
constexpr u32 FIRST_SET = SIZE == 1 ? 0 : SIZE == 2 ? 4 : SIZE == 3 ? 10 : SIZE == 4 ? 14 : CLASSES;
static_assert(MAX_RANK == 4, "sets of as many axes");

/// A parity class: the values of a level whose coordinates are odd along the axes of a set and even along all others. The values that the next coarser level
/// lacks are numbered from 0, in the order of coding.
struct Class {
  u32 first;       // number of its first value
  u32 extents[3];  // along three axes, fastest first; what remains after division by these is the index along the fourth
  u32 set;
};

/// The classes of a level in their order; behind them one that says where they end.
typedef Class Classes[CLASSES + 1];

/// Fills `classes` with the parity classes of the level with these extents. A whole warp calls it.
__device__ __forceinline__ void make_classes(const Extents& extents, Classes& classes) {
  const u32 lane = lane_id(), set = u32(SETS_IN_ORDER >> 4 * min(lane, CLASSES - 1)) & (SETS - 1);
  u32 of_class[MAX_RANK];
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) of_class[axis] = set >> axis & 1 ? extents.of[axis] / 2 : (extents.of[axis] + 1) / 2;
  const u32 count = lane < CLASSES ? of_class[0] * of_class[1] * of_class[2] * of_class[3] : 0;
  const u32 first = warp_prefix_sum(count) - count;
  if (lane <= CLASSES) classes[lane] = {first, {of_class[0], of_class[1], of_class[2]}, set};
}

/// Numbers below this are divided in floating point, which takes fewer instructions and gives the exact quotient.
constexpr u32 SMALL_NUMBERS = 1u << 18;
template <bool SMALL>
__device__ __forceinline__ u32 quotient(u32 dividend, u32 divisor) {
  return SMALL ? u32(__fdividef(float(dividend) + 0.5f, float(divisor))) : dividend / divisor;
}

__device__ __forceinline__ u32 dot(const u32 (&a)[MAX_RANK], const u32 (&b)[MAX_RANK]) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

/// Component `axis` of a vector. An index unknown to the compiler would put the vector into memory, so a few selections are made instead.
__device__ __forceinline__ u32 component(const u32 (&of)[MAX_RANK], u32 axis) {
  return axis == 0 ? of[0] : axis == 1 ? of[1] : axis == 2 ? of[2] : of[3];
}

/// Weights of the neighbours a, b, c and d of FORMAT.md §6.2, at distances -3, -1, +1 and +3 along an axis: in sixteenths, a byte each.
__device__ __forceinline__ constexpr u32 weights_of(i32 a, i32 b, i32 c, i32 d) {
  return (u32(a) & 255) | (u32(b) & 255) << 8 | (u32(c) & 255) << 16 | u32(d) << 24;
}

/// Weights along an axis, by which neighbours there are beside b. Those that do not exist have weight 0.
__device__ __forceinline__ u32 weights_of_neighbours(bool has_a, bool has_c, bool has_d, bool is_linear) {
  return is_linear ? (has_c ? weights_of(0, 8, 8, 0) : weights_of(0, 16, 0, 0))
         : has_d ? (has_a ? weights_of(-1, 9, 9, -1) : weights_of(0, 6, 12, -2))
         : has_c ? (has_a ? weights_of(-2, 12, 6, 0) : weights_of(0, 8, 8, 0))
         : has_a ? weights_of(-8, 24, 0, 0)
                 : weights_of(0, 16, 0, 0);
}

/// The axes that count for a value that is odd along the axes of `set` and has a neighbour c along those of `with_c`. Rough axes count only if the value is odd
/// along no others. Axes without c count only if no axis that is left has one.
__device__ __forceinline__ u32 counted_axes(u32 set, u32 with_c, u32 kind) {
  const u32 smooth = set & ~kind, used = smooth ? smooth : set;
  return used & with_c ? used & with_c : used;
}

/// The weight of neighbour `i`, in sixteenths.
__device__ __forceinline__ u32 weight_of(u32 weights, u32 i) { return u32(i32(weights << (24 - 8 * i)) >> 24); }

/// floor((sum + 8 axis_count) / (16 axis_count)): the mean of as many predictions in sixteenths, rounded half up. Sums wrap as the CPU's do. `axis_count` is at
/// most SIZE.
template <u32 SIZE>
__device__ __forceinline__ i32 mean_prediction(u32 sum, u32 axis_count) {
  sum += 8 * axis_count;
  if (SIZE >= 3 && axis_count == 3) {
    const i32 quotient = i32(sum) / 48;
    return quotient - (i32(sum) % 48 < 0);
  }
  return i32(sum) >> (axis_count == 1 ? 4 : axis_count == 2 ? 5 : 6);
}

/// Two neighbours of a row, at even and at odd x, or what belongs to them.
template <typename T>
struct alignas(2 * sizeof(T)) Two {
  T even, odd;
};

/// Indices of a pair: of its first value in the chunk, and of its residuals.
struct PairIndices {
  u32 index, even_residual, odd_residual;
  bool has_odd;  // the last pair of a row may have one value
};

/// Values of a chunk that one block of threads interpolates, in shared memory. A value's position overwrites the value.
template <typename V>
struct EncodeMemory {
  typedef typename ValueType<V>::Bits Bits;
  Bits slots[COARSE_VALUES];

  __device__ __forceinline__ V input(u32 index, u32) const { return ValueType<V>::from_bits(slots[index]); }
  __device__ __forceinline__ void set_position(u32 index, i32 position) { slots[index] = Bits(u32(position)); }
  __device__ __forceinline__ i32 position(u32 index) const { return i32(u32(slots[index])); }
};

/// What encoding needs of a chunk.
template <typename V>
struct EncodeSide {
  typedef typename ValueType<V>::Code Code;
  typedef EncodeMemory<V> Memory;
  typedef V Input;
  static constexpr u32 BLOCK_THREADS = COARSE_THREADS;
  const EncodeJob& job;
  const u8* chunk;
  Code* residuals;
  i32* positions;
  u32 kind;  // the predictor's byte
  bool is_big_endian;
  FineGrid fine;
  FastF32 fast;
  double bound;
  Fills fills;
  mutable Ends<V> seen;  // by this thread, while it codes

  __device__ __forceinline__ explicit EncodeSide(const EncodeJob& job) : EncodeSide(job, job.parameters[blockIdx.y]) {}
  __device__ __forceinline__ EncodeSide(const EncodeJob& job, const EncodeParameters& parameters)
      : job(job),
        chunk(chunk_values(job)),
        residuals(static_cast<Code*>(job.codes) + u64(blockIdx.y) * job.shape.elements),
        positions(job.positions + u64(blockIdx.y) * job.shape.elements),
        kind(parameters.predictor),
        is_big_endian(parameters.big_endian),
        fine(make_fine_grid<V>(parameters.step, parameters.inverse_step)),
        bound(parameters.bound) {
    // Whether the fill value is masked follows from the grid of differences (FORMAT.md §5.1).
    const Grid grid = make_grid<V>(parameters, 0);
    fills = grid.fills;
    fast = grid.fast;
  }

  __device__ __forceinline__ bool nothing_to_do() const { return is_constant(job, job.states[blockIdx.y]); }
  __device__ __forceinline__ V input(u32 index, u32) const { return ValueType<V>::from_bits(read_bits<V>(chunk, index, is_big_endian)); }

  /// Loads value `number` of the coarse level, which the chunk has at `index`.
  __device__ __forceinline__ void load(Memory& memory, u32 number, u32 index) const {
    memory.slots[number] = read_bits<V>(chunk, index, is_big_endian);
  }

  /// Encodes the value at `index` and returns its position. An exception is noted only if `is_own`.
  __device__ __forceinline__ i32 code(V value, u32 index, const Worth& worth, i32 prediction, bool is_own, Code& output) const {
    i32 residual = 0, position = on_grid<V>(prediction);
    const bool filled = is_fill(fills, u64(ValueType<V>::to_bits(value)), double(value));
    if constexpr (IS_BINARY32<V>) {
      if (!filled && fast.encode(value, worth, prediction, residual, position)) {
        seen.add(value);
        output = residual;
        return position;
      }
    }
    if (!filled && has_few_steps(value, fine.inverse_step)) seen.add(value);
    if ((filled || !encode_position(value, bound, fine, worth, prediction, residual, position)) && is_own) {
      // The mask is 0 where a job begins. Its bits may be set in any order.
      atomicOr(&job.mask[(u64(blockIdx.y) * job.segments + index / SEGMENT) * MASK_WORDS + index % SEGMENT / 32], 1u << (index % 32));
    }
    output = Code(residual);
    return position;
  }
  /// Encodes the value at `index` and returns its position. `residual_index` is in the order of coding.
  __device__ __forceinline__ i32 code_value(V value, u32 index, u32 residual_index, const Worth& worth, i32 prediction) const {
    return code(value, index, worth, prediction, true, residuals[residual_index]);
  }

  __device__ __forceinline__ bool values_are_aligned() const { return u64(chunk) % (2 * sizeof(V)) == 0; }
  /// The values of a pair.
  template <bool HAS_EVEN, typename Access>
  __device__ __forceinline__ Two<V> inputs(const Access& access, const PairIndices& at) const {
    typedef typename ValueType<V>::Stored Stored;
    const Two<Stored> two = access.read(reinterpret_cast<const Stored*>(chunk) + at.index, at.has_odd);
    const auto value = [&](Stored bits) { return ValueType<V>::from_bits(is_big_endian ? ValueType<V>::swap(bits) : bits); };
    return {value(two.even), value(two.odd)};
  }
  /// Writes the residuals of a pair.
  template <bool HAS_EVEN, typename Access>
  __device__ __forceinline__ void write(const Access&, const PairIndices& at, const Two<i32>&, const Two<Code>& output) const {
    if (HAS_EVEN) residuals[at.even_residual] = output.even;
    if (at.has_odd) residuals[at.odd_residual] = output.odd;
  }
};

/// What one block of threads keeps in shared memory to decode: residuals in the order of coding, and positions.
struct DecodeMemory {
  i32 residuals[COARSE_VALUES];
  i32 positions[COARSE_VALUES];

  __device__ __forceinline__ i32 input(u32, u32 residual_index) const { return residuals[residual_index]; }
  __device__ __forceinline__ void set_position(u32 index, i32 position) { positions[index] = position; }
  __device__ __forceinline__ i32 position(u32 index) const { return positions[index]; }
};

/// What decoding needs of a chunk.
template <typename V>
struct DecodeSide {
  typedef typename ValueType<V>::Code Code;
  typedef typename ValueType<V>::Bits Bits;
  typedef DecodeMemory Memory;
  typedef Code Input;
  static constexpr u32 BLOCK_THREADS = COARSE_THREADS;
  const DecodeJob& job;
  const Code* residuals;
  i32* positions;
  u8* output;
  u32 kind;  // the predictor's byte
  bool is_big_endian;
  /// Values are written at the finest level, which has all of them: those of coarser levels are restored again from their positions, and go out beside their
  /// neighbours.
  bool writes_values;
  FineGrid fine;
  LimitValues<V> limits;

  __device__ __forceinline__ DecodeSide(const DecodeJob& job, u32 level)
      : DecodeSide(job, stream_parameters(job), level) {}
  __device__ __forceinline__ DecodeSide(const DecodeJob& job, const DecodeParameters& parameters, u32 level)
      : job(job),
        residuals(plane_values<Code>(job, CODES)),
        positions(job.positions + u64(blockIdx.y) * job.shape.elements),
        output(chunk_output(job)),
        kind(job.states[blockIdx.y].planes[CODES].predictor),
        is_big_endian(parameters.big_endian),
        writes_values(level == 0),
        // Decoding does not use 1 / step.
        fine(make_fine_grid<V>(parameters.step, 0.0)),
        limits(parameters) {}

  __device__ __forceinline__ bool nothing_to_do() const { return job.states[blockIdx.y].error != 0; }
  __device__ __forceinline__ Bits bits_of(i32 position) const {
    const Bits bits = ValueType<V>::to_bits(limits.limited(fine.restore<V>(position)));
    return is_big_endian ? ValueType<V>::swap(bits) : bits;
  }
  __device__ __forceinline__ i32 input(u32, u32 residual_index) const { return i32(residuals[residual_index]); }

  /// Loads residual `number`.
  __device__ __forceinline__ void load(Memory& memory, u32 number, u32) const { memory.residuals[number] = i32(residuals[number]); }

  /// The position of a value.
  __device__ __forceinline__ i32 code(Code residual, u32, const Worth& worth, i32 prediction, bool, Code&) const {
    return position_of<V>(prediction, i32(residual), worth);
  }
  /// Restores the value at `index` from its residual and returns its position.
  __device__ __forceinline__ i32 code_value(i32 residual, u32 index, u32, const Worth& worth, i32 prediction) const {
    const i32 position = position_of<V>(prediction, residual, worth);
    if (writes_values) reinterpret_cast<Bits*>(output)[index] = bits_of(position);
    return position;
  }

  __device__ __forceinline__ bool values_are_aligned() const { return u64(output) % (2 * sizeof(V)) == 0; }
  /// The residuals of a pair.
  template <bool HAS_EVEN, typename Access>
  __device__ __forceinline__ Two<Code> inputs(const Access&, const PairIndices& at) const {
    return {HAS_EVEN ? residuals[at.even_residual] : Code(0), at.has_odd ? residuals[at.odd_residual] : Code(0)};
  }
  /// Writes the values of a pair.
  template <bool HAS_EVEN, typename Access>
  __device__ __forceinline__ void write(const Access& access, const PairIndices& at, const Two<i32>& positions, const Two<Code>&) const {
    if (writes_values) access.write(reinterpret_cast<Bits*>(output) + at.index, at.has_odd, Two<Bits>{bits_of(positions.even), bits_of(positions.odd)});
  }
};
