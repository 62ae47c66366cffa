// Interpolation (FORMAT.md §6.2) of the levels that are too large for one block of threads.
//
// A row has the values of a level that differ along the fastest axis, x, alone. It is odd along a set of other axes. Its values at even x are the parity class
// of that set, those at odd x the class of that set and x. The values at even x are predicted from rows that are odd along one axis less, those at odd x from
// such rows, too, and from even x of their own row. So a level takes a pass for each number of axes along which rows are odd, and a pass works on whole rows:
//
//   pass   rows odd along   values at even x                     values at odd x
//   0      no axis          known from the coarser level         from even x
//   1      y, or z          from the rows of pass 0              from the rows of pass 0, and even x
//   2      y and z          from the rows of pass 1              from the rows of pass 1, and even x
//
// A thread takes a pair of values, at x = 2i and 2i + 1. The threads of a block take consecutive pairs, row after row, and tell each other their positions at
// even x through shared memory. Where a block of threads does not hold whole rows, it also computes the positions at even x of the pairs next to its own, and
// writes nothing for these. A `Row` has what its pairs have in common; ROWS_AT_ONCE of them are prepared at a time.
//
// A pass over single parity classes is slower: it uses half of each sector of memory, as it reads and writes every other value of a row, and finds the indices
// of each value by itself. With such passes, encoding 256^3 values at 1e-2 took 563 us in place of 383 (H100).
#pragma once

#include "interpolation.cuh"

/// Rows that a block of threads prepares at a time.
constexpr u32 ROWS_AT_ONCE = 64;
static_assert(ROWS_AT_ONCE <= THREADS, "a thread a row");
/// Pairs that a block takes besides its own, before and behind them, where rows do not fit: those with neighbours of a value at odd x.
constexpr u32 PAIRS_BEFORE = 1, PAIRS_BEHIND = 2;

/// The sets of SIZE axes other than the fastest one, as binary numbers, four bits each; and how many they are.
template <u32 SIZE>
constexpr u32 ROW_SETS = SIZE == 0 ? 0x0 : SIZE == 1 ? 0x842 : SIZE == 2 ? 0xca6 : 0xe;
template <u32 SIZE>
constexpr u32 ROW_SET_COUNT = SIZE == 0 || SIZE == 3 ? 1 : 3;

/// The rows that are odd along the axes of a set.
struct RowSet {
  u32 set;
  u32 first;                          // number of its first row, among those of the pass
  u32 second, third;                  // rows along the second and the third axis
  u32 even_residuals, odd_residuals;  // indices of the first residuals of values at even and at odd x
};

/// What an axis along which rows are odd adds to predictions: indices of neighbours a, b, c and d, relative to a value, and their weights in sixteenths. A
/// neighbour that does not exist has weight 0; b is read in its place.
struct alignas(16) RowAxis {
  u32 neighbours[4];
  i32 weights[4];
};

/// Which axes count for a value. The bits below bit 3 are those of the axes along which its row is odd, in ascending order. Bit 3 is that of x. Bits 4 to 6 are
/// the number of axes that count.
struct CountedAxes {
  static constexpr u32 X = 3, COUNT = 4, BITS = 8;
  u32 bits;  // bits above the lowest BITS have no meaning

  __device__ __forceinline__ bool has(u32 axis) const { return bits >> axis & 1; }
  __device__ __forceinline__ u32 count() const { return bits >> COUNT & 7; }
};
/// Numbers of the `CountedAxes` of a row: of the values at even x, of those at odd x with a neighbour c along x, and of the last value at odd x without one.
constexpr u32 AT_EVEN = 0, AT_ODD = 1, AT_LAST_ODD = 2;

/// What the pairs of a row have in common.
template <u32 SIZE>
struct alignas(16) Row {
  u32 index;                        // of its first value in the chunk
  u32 even_residual, odd_residual;  // indices of the first residuals
  u32 counted;                      // three `CountedAxes`, from the lowest bits on
  RowAxis along[SIZE > 0 ? SIZE : 1];

  __device__ __forceinline__ CountedAxes counted_axes(u32 at) const { return {counted >> CountedAxes::BITS * at}; }
};

/// Weights of a, b, c and d along x, in sixteenths.
struct alignas(16) XWeights {
  i32 of[4];
};

/// What a block of threads has in shared memory.
template <u32 SIZE>
struct RowMemory {
  RowSet sets[ROW_SET_COUNT<SIZE>];
  u32 first_residuals[SETS];  // of each parity class
  XWeights x_weights[8];      // by which neighbours exist: bits for a, c and d
  Row<SIZE> prepared[ROWS_AT_ONCE];
  i32 evens[2][THREADS];  // positions at even x, of this turn and of the one before
};

/// How the two values of a pair are in an array of the chunk.
template <bool IS_JOINT>
struct PairAccess {
  u32 distance;  // 1 if they are joint: then they are one aligned piece of memory

  template <typename T>
  __device__ __forceinline__ Two<T> read(const T* from, bool has_odd) const {
    if constexpr (IS_JOINT) {
      return *reinterpret_cast<const Two<T>*>(from);
    } else {
      Two<T> two = {from[0], T(0)};
      if (has_odd) two.odd = from[distance];
      return two;
    }
  }
  template <typename T>
  __device__ __forceinline__ void write(T* to, bool has_odd, const Two<T>& two) const {
    if constexpr (IS_JOINT) {
      *reinterpret_cast<Two<T>*>(to) = two;
    } else {
      to[0] = two.even;
      if (has_odd) to[distance] = two.odd;
    }
  }
};

/// The rows of a level that are odd along SIZE axes. IS_JOINT: the two values of a pair are next to each other in all arrays, and all rows are of whole pairs.
template <u32 SIZE, bool IS_JOINT, typename Side>
struct RowPass {
  const Side& side;
  const Shape& shape;
  RowMemory<SIZE>& memory;
  const u32 level;
  const Worth worth;
  const Extents extents;
  u32 stride[MAX_RANK];
  u32 pairs_in_row;
  u32 rows;  // of the pass
  bool is_linear;
  bool is_small;        // so few pairs that their numbers are small
  bool rows_are_short;  // the numbers of the pairs of ROWS_AT_ONCE rows are small
  float reciprocal;     // of the pairs in a row
  typedef typename Side::Input Input;
  typedef typename Side::Code Code;

  __device__ __forceinline__ RowPass(const Side& side, const Shape& shape, RowMemory<SIZE>& memory, u32 level)
      : side(side),
        shape(shape),
        memory(memory),
        level(level),
        worth(side.kind, level),
        extents(level_extents(shape, level)),
        pairs_in_row((extents.of[0] + 1) / 2),
        is_linear(side.kind & LINEAR_INTERPOLATION),
        rows_are_short(pairs_in_row < SMALL_NUMBERS / ROWS_AT_ONCE),
        reciprocal(1.0f / float(pairs_in_row)) {
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) stride[axis] = shape.strides[axis] << level;
    rows = 0;
#pragma unroll
    for (u32 k = 0; k < ROW_SET_COUNT<SIZE>; k++) {
      u32 along[MAX_RANK];
      rows_along(ROW_SETS<SIZE> >> 4 * k & (SETS - 1), along);
      rows += along[1] * along[2] * along[3];
    }
    is_small = rows * pairs_in_row < SMALL_NUMBERS;
  }

  /// How many rows that are odd along the axes of a set there are along each axis but the first.
  __device__ __forceinline__ void rows_along(u32 set, u32 (&rows)[MAX_RANK]) const {
#pragma unroll
    for (u32 axis = 1; axis < MAX_RANK; axis++) rows[axis] = set >> axis & 1 ? extents.of[axis] / 2 : (extents.of[axis] + 1) / 2;
  }

  /// A quotient of numbers that are at most that of all pairs of the pass.
  __device__ __forceinline__ u32 divide(u32 dividend, u32 divisor) const {
    return is_small ? quotient<true>(dividend, divisor) : dividend / divisor;
  }

  /// Finds the sets of rows. The first warp calls it.
  __device__ __forceinline__ void make_sets() const {
    __shared__ Classes classes;
    make_classes(extents, classes);
    __syncwarp();
    const u32 lane = lane_id(), start = extents.halved().count();
    if (lane < CLASSES) memory.first_residuals[classes[lane].set] = start + classes[lane].first;
    __syncwarp();
    const bool is_set = lane < ROW_SET_COUNT<SIZE>;
    const u32 set = is_set ? ROW_SETS<SIZE> >> 4 * lane & (SETS - 1) : 0;
    u32 along[MAX_RANK];
    rows_along(set, along);
    const u32 count = is_set ? along[1] * along[2] * along[3] : 0, end = warp_prefix_sum(count);
    if (is_set) memory.sets[lane] = {set, end - count, along[1], along[2], memory.first_residuals[set], memory.first_residuals[set | 1]};
    if (lane < 8) {
      const u32 weights = weights_of_neighbours(lane & 1, lane >> 1 & 1, lane >> 2 & 1, is_linear);
#pragma unroll
      for (u32 i = 0; i < 4; i++) memory.x_weights[lane].of[i] = i32(weight_of(weights, i));
    }
  }

  /// Prepares a row.
  __device__ __forceinline__ void prepare(u32 number, Row<SIZE>& row) const {
    u32 found = 0;
#pragma unroll
    for (u32 other = 1; other < ROW_SET_COUNT<SIZE>; other++) {
      // Empty sets begin where the next one does.
      if (memory.sets[other].first <= number) found = other;
    }
    const RowSet& in = memory.sets[found];
    const u32 of_set = number - in.first;
    const u32 rest = divide(of_set, in.second), second = of_set - rest * in.second;
    const u32 fourth = shape.rank < MAX_RANK ? 0 : divide(rest, in.third), third = rest - fourth * in.third;
    const u32 at[MAX_RANK] = {0, 2 * second + (in.set >> 1 & 1), 2 * third + (in.set >> 2 & 1), 2 * fourth + (in.set >> 3 & 1)};
    row.index = dot(at, stride);
    row.even_residual = in.even_residuals + of_set * pairs_in_row;
    row.odd_residual = in.odd_residuals + of_set * (extents.of[0] / 2);
    u32 with_c = 0, axes[SIZE + 1], left = in.set;
#pragma unroll
    for (u32 k = 0; k != SIZE; k++) {
      const u32 axis = axes[k] = __ffs(left) - 1;
      left &= left - 1;
      const u32 here = component(at, axis), extent = component(extents.of, axis), along = component(stride, axis);
      const bool has_a = here >= 3, has_c = here + 1 < extent, has_d = here + 3 < extent;
      with_c |= u32(has_c) << axis;
      RowAxis& to = row.along[k];
      to.neighbours[1] = 0 - along;
      to.neighbours[0] = has_a ? 0 - 3 * along : 0 - along;
      to.neighbours[2] = has_c ? along : 0 - along;
      to.neighbours[3] = has_d ? 3 * along : 0 - along;
      const u32 weights = weights_of_neighbours(has_a, has_c, has_d, is_linear);
#pragma unroll
      for (u32 i = 0; i < 4; i++) to.weights[i] = i32(weight_of(weights, i));
    }
    const auto packed = [&](u32 counted) {
      u32 bits = (counted & 1) << CountedAxes::X | __popc(counted) << CountedAxes::COUNT;
#pragma unroll
      for (u32 k = 0; k != SIZE; k++) bits |= (counted >> axes[k] & 1) << k;
      return bits;
    };
    row.counted = packed(counted_axes(in.set, with_c, side.kind)) << CountedAxes::BITS * AT_EVEN |
                  packed(counted_axes(in.set | 1, with_c | 1, side.kind)) << CountedAxes::BITS * AT_ODD |
                  packed(counted_axes(in.set | 1, with_c, side.kind)) << CountedAxes::BITS * AT_LAST_ODD;
  }

  /// A thread's pair, from even to odd x.
  struct Pair {
    PairIndices at;
    u32 x;  // of its first value
    bool is_own;
    i32 even;              // position
    CountedAxes odd_axes;  // of the value at odd x
    u32 odd_sum;           // its prediction along these axes but x, in sixteenths
    Two<Input> input;
    Two<Code> output;
  };

  /// Finds the position at even x, and the part of the prediction at odd x that does not need it. `offset`: number of the pair in the prepared rows.
  __device__ __forceinline__ void code_even(u32 offset, Pair& pair) const {
    const u32 row_number = rows_are_short ? u32((float(offset) + 0.5f) * reciprocal) : offset / pairs_in_row;
    const Row<SIZE>& row = memory.prepared[row_number];
    const u32 in_row = offset - row_number * pairs_in_row, x = 2 * in_row;
    const bool has_odd = IS_JOINT || x + 1 < extents.of[0], has_c = x + 2 < extents.of[0];
    pair.x = x;
    pair.at = {row.index + x * stride[0], row.even_residual + in_row, row.odd_residual + in_row, has_odd};
    pair.odd_axes = row.counted_axes(has_c ? AT_ODD : AT_LAST_ODD);
    const PairAccess<IS_JOINT> access = {stride[0]};
    pair.input = side.template inputs<(SIZE > 0)>(access, pair.at);
    const i32* known = side.positions;
    if constexpr (SIZE == 0) {
      pair.even = known[pair.at.index];
    } else {
      const CountedAxes even_axes = row.counted_axes(AT_EVEN);
      u32 even_sum = 0;
#pragma unroll
      for (u32 k = 0; k < SIZE; k++) {
        const RowAxis along = row.along[k];
        Two<u32> sum = {0, 0};
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
          const Two<i32> neighbour = access.read(known + (pair.at.index + along.neighbours[i]), has_odd);
          sum.even += u32(along.weights[i]) * u32(neighbour.even);
          sum.odd += u32(along.weights[i]) * u32(neighbour.odd);
        }
        if (even_axes.has(k)) even_sum += sum.even;
        if (pair.odd_axes.has(k)) pair.odd_sum += sum.odd;
      }
      const i32 prediction = mean_prediction<SIZE>(even_sum, even_axes.count());
      pair.even = side.code(pair.input.even, pair.at.index, worth, prediction, pair.is_own, pair.output.even);
    }
  }

  /// Codes the value at odd x, and writes the pair. `b`: the pair's position at even x in shared memory, with the neighbours' around it.
  __device__ __forceinline__ void code_odd(Pair& pair, const i32* b, bool is_last) const {
    const PairAccess<IS_JOINT> access = {stride[0]};
    i32 odd = 0;
    if (pair.at.has_odd) {
      const bool has_a = pair.x > 0, has_c = pair.x + 2 < extents.of[0], has_d = pair.x + 4 < extents.of[0];
      u32 sum = pair.odd_sum;
      if (pair.odd_axes.has(CountedAxes::X)) {
        const XWeights weights = memory.x_weights[u32(has_a) | u32(has_c) << 1 | u32(has_d) << 2];
        sum += u32(weights.of[0]) * u32(b[has_a ? -1 : 0]) + u32(weights.of[1]) * u32(b[0]) + u32(weights.of[2]) * u32(b[has_c ? 1 : 0]) +
               u32(weights.of[3]) * u32(b[has_d ? 2 : 0]);
      }
      const i32 prediction = mean_prediction<SIZE + 1>(sum, pair.odd_axes.count());
      odd = side.code(pair.input.odd, pair.at.index + stride[0], worth, prediction, true, pair.output.odd);
    }
    const Two<i32> positions = {pair.even, odd};
    side.template write<(SIZE > 0)>(access, pair.at, positions, pair.output);
    if (is_last) return;
    if constexpr (SIZE > 0) {
      access.write(side.positions + pair.at.index, pair.at.has_odd, positions);
    } else {
      if (pair.at.has_odd) side.positions[pair.at.index + stride[0]] = odd;
    }
  }

  /// Codes the pairs of this block of threads. All blocks take equal numbers of consecutive pairs.
  __device__ __forceinline__ void run() const {
    if (warp_id() == 0) make_sets();
    const bool is_power_of_2 = (pairs_in_row & (pairs_in_row - 1)) == 0;
    const bool fits = is_power_of_2 && pairs_in_row <= THREADS, fits_warp = is_power_of_2 && pairs_in_row <= WARP;
    const u32 before = fits ? 0 : PAIRS_BEFORE, own = fits ? THREADS : THREADS - PAIRS_BEFORE - PAIRS_BEHIND;
    // Nothing is predicted from the positions of the last pass, so they are not stored.
    const bool is_last = level == 0 && SIZE + 1 == shape.rank;
    const u32 all = rows * pairs_in_row, tiles = fits ? ceil_div(all, THREADS) : ceil_div(all, THREADS - PAIRS_BEFORE - PAIRS_BEHIND);
    const u32 each = divide(tiles + gridDim.x - 1, gridDim.x) * own, begin = blockIdx.x * each, end = min(all, begin + each);
    u32 turn = 0;
    // A batch has the pairs of the rows that are prepared at a time.
    for (u32 batch = begin, batch_end; batch < end; batch = batch_end) {
      const u32 first_row = divide(batch, pairs_in_row), batch_rows = min(ROWS_AT_ONCE, rows - first_row);
      const u32 first_pair = first_row * pairs_in_row, pairs = batch_rows * pairs_in_row;
      batch_end = min(end, first_pair + pairs);
      // The sets of rows are made, and rows prepared before are no longer read.
      __syncthreads();
      if (threadIdx.x < batch_rows) prepare(first_row + threadIdx.x, memory.prepared[threadIdx.x]);
      __syncthreads();
      for (u32 first = batch; first < batch_end; first += own, turn ^= 1) {
        const u32 number = first + threadIdx.x - before, offset = number - first_pair;
        Pair pair;
        pair.is_own = threadIdx.x - before < own && number < batch_end;
        pair.odd_sum = 0;
        pair.even = 0;
        if (offset < pairs) code_even(offset, pair);
        i32* even = memory.evens[turn] + threadIdx.x;
        *even = pair.even;
        if (fits_warp) {
          __syncwarp();
        } else {
          __syncthreads();
        }
        if (pair.is_own) code_odd(pair, even, is_last);
      }
    }
  }
};

/// What a block of threads has in shared memory, in each of the passes.
union AnyRowMemory {
  RowMemory<0> none;
  RowMemory<1> one;
  RowMemory<2> two;
  RowMemory<3> three;
};

template <u32 SIZE, typename Side>
__device__ __forceinline__ void fine_pass(const Side& side, const Shape& shape, RowMemory<SIZE>& memory, u32 level) {
  if (level == 0 && shape.extents[0] % 2 == 0 && side.values_are_aligned()) {
    RowPass<SIZE, true, Side>(side, shape, memory, level).run();
  } else {
    RowPass<SIZE, false, Side>(side, shape, memory, level).run();
  }
}

template <typename Side>
__device__ __forceinline__ void fine_pass(const Side& side, const Shape& shape, const FinePass& pass) {
  __shared__ AnyRowMemory memory;
  switch (pass.size) {
    case 0: return fine_pass(side, shape, memory.none, pass.level);
    case 1: return fine_pass(side, shape, memory.one, pass.level);
    case 2: return fine_pass(side, shape, memory.two, pass.level);
    default: return fine_pass(side, shape, memory.three, pass.level);
  }
}

template <typename V>
__device__ __forceinline__ void interpolate_pass(const EncodeJob& job, const FinePass& pass) {
  const EncodeSide<V> side(job);
  if (side.nothing_to_do()) return;
  fine_pass(side, job.shape, pass);
  side.seen.join(job.states[blockIdx.y]);
}
template <typename V>
__device__ __forceinline__ void restore_pass(const DecodeJob& job, const FinePass& pass) {
  const DecodeSide<V> side(job, pass.level);
  if (!side.nothing_to_do()) fine_pass(side, job.shape, pass);
}

extern "C" __global__ void __launch_bounds__(THREADS, PASS_BLOCKS) interpolate_pass_f32(const __grid_constant__ EncodeJob job, FinePass pass) {
  interpolate_pass<float>(job, pass);
}
extern "C" __global__ void __launch_bounds__(THREADS, PASS_BLOCKS) interpolate_pass_f64(const __grid_constant__ EncodeJob job, FinePass pass) {
  interpolate_pass<double>(job, pass);
}
extern "C" __global__ void __launch_bounds__(THREADS, PASS_BLOCKS) restore_pass_f32(const __grid_constant__ DecodeJob job, FinePass pass) {
  restore_pass<float>(job, pass);
}
extern "C" __global__ void __launch_bounds__(THREADS, PASS_BLOCKS) restore_pass_f64(const __grid_constant__ DecodeJob job, FinePass pass) {
  restore_pass<double>(job, pass);
}
