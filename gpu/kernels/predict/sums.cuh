// Stage 2 back (FORMAT.md §6.1): differences -> codes, and codes -> values. CPU: codec/src/predict/lorenzo.rs, codec/src/predict/sums.rs.
//
// A prefix sum along each axis in turn; the last one also turns codes into values:
//
//   rows        where they were decoded, if blocks hold whole rows; else in a kernel of their own
//   columns     likewise; then each block stores its last row, and `join_columns` sums these rows up for the blocks behind them
//   other axes  one kernel an axis, in which neighbouring threads have neighbouring columns
#pragma once

#include "../job.cuh"
#include "../number/integer.cuh"
#include "../quantize/linear.cuh"

/// Stores a restored integer over its difference.
template <typename C>
struct StoreInteger {
  C* values;
  __device__ __forceinline__ void operator()(u32 index, typename Unsigned<C>::Type value) const { values[index] = C(value); }
};

template <>
struct StoreInteger<u32> {
  u32* values;
  __device__ __forceinline__ void operator()(u32 index, FourBits value) const { values[index] = value.bytes; }
};

/// Stores the value of a restored code in the chunk, within the chunk's limits.
template <typename V>
struct StoreValue {
  u8* chunk;
  double step;
  LimitValues<V> limits;
  bool big_endian;
  __device__ __forceinline__ void operator()(u32 index, typename Unsigned<typename ValueType<V>::Code>::Type code) const {
    V value = limits.limited(restore_value<V>(double(typename ValueType<V>::Code(code)), step));
    write_bits<V>(chunk, index, big_endian, ValueType<V>::to_bits(value));
  }
};

/// Values that a lane of `sum_short_rows` has in flight.
constexpr u32 IN_FLIGHT = 8;

/// The blocks of threads that share a piece of work, and which of them this one is.
struct Blocks {
  u32 number, count;
};

/// Prefix sums along rows of at most ROW_PART values, one warp a row.
template <typename C, typename Store>
__device__ void sum_short_rows(Blocks blocks, const C* values, u32 length, u32 rows, bool sum, const Store& store) {
  typedef typename Unsigned<C>::Type U;
  const u32 warps = blocks.count * WARPS;
  for (u32 row = blocks.number * WARPS + warp_id(); row < rows; row += warps) {
    const u32 start = row * length;
    U carry = 0;
    for (u32 at = 0; at < length; at += IN_FLIGHT * WARP) {
      U value[IN_FLIGHT];
#pragma unroll
      for (u32 k = 0; k < IN_FLIGHT; k++) {
        u32 x = at + k * WARP + lane_id();
        value[k] = x < length ? U(values[start + x]) : U(0);
      }
      if (sum) {
#pragma unroll
        for (u32 k = 0; k < IN_FLIGHT; k++) value[k] = warp_prefix_sum(value[k]);
#pragma unroll
        for (u32 k = 0; k < IN_FLIGHT; k++) {
          value[k] += carry;
          carry = __shfl_sync(ALL_LANES, value[k], WARP - 1);
        }
      }
#pragma unroll
      for (u32 k = 0; k < IN_FLIGHT; k++) {
        u32 x = at + k * WARP + lane_id();
        if (x < length) store(start + x, value[k]);
      }
    }
  }
}

/// Values of one thread in a part of a long row.
constexpr u32 PART_VALUES = ROW_PART / THREADS;

/// Sum of each part of each long row.
template <typename C>
__device__ void sum_row_parts(Blocks blocks, const C* values, u32 length, u32 rows, typename Unsigned<C>::Type* sums) {
  typedef typename Unsigned<C>::Type U;
  __shared__ U scratch[WARPS + 1];
  const u32 parts = ceil_div(length, ROW_PART);
  for (u32 item = blocks.number; item < rows * parts; item += blocks.count) {
    const u32 row = item / parts, part = item % parts;
    const u32 end = min(length, (part + 1) * ROW_PART);
    U sum = 0;
    for (u32 x = part * ROW_PART + threadIdx.x; x < end; x += THREADS) sum += U(values[row * length + x]);
    U total;
    block_sum_before(sum, scratch, total);
    if (threadIdx.x == 0) sums[item] = total;
    __syncthreads();
  }
}

/// Prefix sums along long rows, one block a part; `sums` are those of `sum_row_parts`.
template <typename C, typename Store>
__device__ void sum_long_rows(Blocks blocks, const C* values, u32 length, u32 rows, bool sum, const typename Unsigned<C>::Type* sums,
                              const Store& store) {
  typedef typename Unsigned<C>::Type U;
  __shared__ U scratch[WARPS + 1];
  const u32 parts = ceil_div(length, ROW_PART);
  for (u32 item = blocks.number; item < rows * parts; item += blocks.count) {
    const u32 row = item / parts, part = item % parts;
    const u32 end = min(length, (part + 1) * ROW_PART);
    U carry = 0;
    if (sum) {
      U before = 0;
      for (u32 other = threadIdx.x; other < part; other += THREADS) before += sums[row * parts + other];
      block_sum_before(before, scratch, carry);
      __syncthreads();
    }
    // A thread takes every THREADS-th value, so that neighbouring threads read and write neighbouring values.
    for (u32 k = 0; k < PART_VALUES; k++) {
      u32 x = part * ROW_PART + k * THREADS + threadIdx.x;
      U value = x < end ? U(values[row * length + x]) : U(0);
      if (sum) {
        U total;
        U before = block_sum_before(value, scratch, total);
        value += before + carry;
        carry += total;
        __syncthreads();
      }
      if (x < end) store(row * length + x, value);
    }
  }
}

/// Prefix sums of a lane's four values within rows of 4 * WIDTH values. `carry` is the sum of the row's values before these.
template <u32 WIDTH, typename U>
__device__ __forceinline__ void sum_fours(U (&value)[4], U carry) {
#pragma unroll
  for (u32 k = 1; k < 4; k++) value[k] += value[k - 1];
  U sum = value[3];
#pragma unroll
  for (u32 offset = 1; offset < WIDTH; offset *= 2) {
    const U other = __shfl_up_sync(ALL_LANES, sum, offset, WIDTH);
    if (lane_id() % WIDTH >= offset) sum += other;
  }
  const U before = sum - value[3] + carry;
#pragma unroll
  for (u32 k = 0; k < 4; k++) value[k] += before;
}

/// Prefix sums along rows of differences in shared memory, which has room for whole rows behind the block's end. Rows are a power of two long. A lane takes
/// four neighbours, so that a warp takes PIECE values at a time: several rows, or one row piece after piece.
template <u32 WARPS_HERE, typename C>
__device__ __forceinline__ void sum_rows(C* out, u32 length, u32 row) {
  typedef typename Unsigned<C>::Type U;
  constexpr u32 PIECE = 4 * WARP;
  const u32 span = max(row, PIECE);
  for (u32 start = warp_id() * span; start < length; start += WARPS_HERE * span) {
    U carry = 0;
    for (u32 at = start; at < start + span; at += PIECE) {
      union Four {
        uint4 quads[sizeof(C) / 4];
        C values[4];
      };
      Four* own = reinterpret_cast<Four*>(out + at) + lane_id();
      Four four = *own;
      U value[4];
#pragma unroll
      for (u32 k = 0; k < 4; k++) value[k] = U(four.values[k]);
      switch (row) {
        case 1: break;
        case 2:
          value[1] += value[0];
          value[3] += value[2];
          break;
        case 4: sum_fours<1>(value, carry); break;
        case 8: sum_fours<2>(value, carry); break;
        case 16: sum_fours<4>(value, carry); break;
        case 32: sum_fours<8>(value, carry); break;
        case 64: sum_fours<16>(value, carry); break;
        default:
          sum_fours<WARP>(value, carry);
          if (row > PIECE) carry = __shfl_sync(ALL_LANES, value[3], WARP - 1);
      }
#pragma unroll
      for (u32 k = 0; k < 4; k++) four.values[k] = C(value[k]);
      *own = four;
    }
  }
}

/// Prefix sums along the columns of `rows` rows in shared memory. `edge` gets the last row, unless it is null.
template <u32 THREADS_HERE, typename C>
__device__ __forceinline__ void sum_columns(C* out, u32 rows, u32 row, C* edge) {
  typedef typename Unsigned<C>::Type U;
  constexpr u32 TOGETHER = 8;
  for (u32 x = threadIdx.x; x < row; x += THREADS_HERE) {
    C* column = out + x;
    U sum = 0;
    u32 y = 0;
    for (; y + TOGETHER <= rows; y += TOGETHER, column += TOGETHER * row) {
      U value[TOGETHER];
#pragma unroll
      for (u32 k = 0; k < TOGETHER; k++) value[k] = U(column[k * row]);
#pragma unroll
      for (u32 k = 0; k < TOGETHER; k++) {
        sum += value[k];
        column[k * row] = C(sum);
      }
    }
    for (; y < rows; y++, column += row) {
      sum += U(*column);
      *column = C(sum);
    }
    if (edge) edge[x] = C(sum);
  }
}

/// Where the last row of block `index` of this chunk's codes is stored, or null if no block needs it.
template <typename C>
__device__ __forceinline__ C* edge_of(const DecodeJob& job, u32 index) {
  return job.columns_in_blocks == COLUMNS_JOINED ? static_cast<C*>(job.edges) + blockIdx.y * job.edge_stride + index * job.shape.extents[0] : nullptr;
}

/// Sums rows and columns of block `index` of the codes in shared memory, where the job does so within blocks. For a block of THREADS_HERE threads, behind a
/// barrier.
template <u32 THREADS_HERE, typename C>
__device__ __forceinline__ void sum_block(const DecodeJob& job, const DecodePlaneState& codes, u32 index, C* out, u32 length) {
  const u32 row = job.shape.extents[0];
  if (job.rows_in_blocks && (codes.predictor & 1)) {
    sum_rows<THREADS_HERE / WARP>(out, length, row);
    __syncthreads();
  }
  if (job.columns_in_blocks && (codes.predictor & 2)) {
    // A block has a part of each column, or the whole columns of one slice or more.
    const u32 rows = min(length / row, job.shape.extents[1]);
    for (u32 at = 0; at < length; at += rows * row) sum_columns<THREADS_HERE>(out + at, rows, row, edge_of<C>(job, index));
    __syncthreads();
  }
}

/// Copies a block of `length` integers from shared memory; room for it is rounded up to whole quads.
template <u32 THREADS_HERE, typename C>
__device__ __forceinline__ void copy_from_shared(C* values, const uint4* quads, u32 length) {
  uint4* to = reinterpret_cast<uint4*>(values);
  for (u32 i = threadIdx.x; i < ceil_div(length, 16 / sizeof(C)); i += THREADS_HERE) to[i] = quads[i];
}

/// Computes what each block of codes must add to its part of the columns: the sum of the last rows of the blocks before it in those columns. One
/// thread a column.
template <typename C>
__device__ __forceinline__ void join_columns(const DecodeJob& job) {
  typedef typename Unsigned<C>::Type U;
  constexpr u32 TOGETHER = 8;
  const DecodeState& state = job.states[blockIdx.y];
  const DecodePlaneState& plane = state.planes[CODES];
  if (state.error || !(plane.predictor & 2)) return;
  const C* edges = static_cast<const C*>(job.edges) + blockIdx.y * job.edge_stride;
  C* carries = static_cast<C*>(job.carries) + blockIdx.y * job.edge_stride;
  const u32 row = job.shape.extents[0], blocks = job.shape.extents[1] * row >> plane.block_log;
  for (u32 item = blockIdx.x * THREADS + threadIdx.x; item < job.shape.elements / job.shape.extents[1]; item += gridDim.x * THREADS) {
    const u32 first = item / row * blocks * row + item % row;
    U carry = 0;
    for (u32 block = 0; block < blocks; block += TOGETHER) {
      U value[TOGETHER];
#pragma unroll
      for (u32 k = 0; k < TOGETHER; k++) value[k] = block + k < blocks ? U(edges[first + (block + k) * row]) : U(0);
#pragma unroll
      for (u32 k = 0; k < TOGETHER; k++) {
        if (block + k < blocks) carries[first + (block + k) * row] = C(carry);
        carry += value[k];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) join_columns_f32(const __grid_constant__ DecodeJob job) { join_columns<i32>(job); }
extern "C" __global__ void __launch_bounds__(THREADS) join_columns_f64(const __grid_constant__ DecodeJob job) { join_columns<i64>(job); }

/// Adds nothing: for columns that need no carry of other blocks.
template <typename C>
struct NothingToJoin {
  __device__ __forceinline__ void at_column(u32, u32) {}
  template <u32 COUNT>
  __device__ __forceinline__ void add(typename Unsigned<C>::Type (&)[COUNT], u32, u32) const {}
};

/// Adds the carry of the blocks before to codes whose columns are summed within blocks. For the pass along the axis behind the columns.
template <typename C>
struct JoinColumns {
  const C* carries;
  const C* column;                   // at the axis' begin; null where no block comes before
  u32 row_log, block_log, in_plane;  // of a row's length, of a block's; values of rows and columns
  u32 stride, length;                // carries a step along the axis; steps

  __device__ __forceinline__ JoinColumns(const DecodeJob& job, const DecodePlaneState& plane)
      : carries(static_cast<const C*>(job.carries) + blockIdx.y * job.edge_stride), column(nullptr), row_log(bit_length(job.shape.extents[0]) - 1),
        block_log(plane.block_log), in_plane(job.shape.strides[2]), stride(in_plane >> block_log << row_log), length(job.shape.extents[2]) {}

  /// The next values have index `x` within rows and columns, and index `outer` along the axes behind.
  __device__ __forceinline__ void at_column(u32 outer, u32 x) {
    const u32 block = x >> block_log;
    column = block ? carries + outer * length * stride + (block << row_log) + (x & ((1u << row_log) - 1)) : nullptr;
  }

  /// The values are those from step `first` on.
  template <u32 COUNT>
  __device__ __forceinline__ void add(typename Unsigned<C>::Type (&value)[COUNT], u32 first, u32 end) const {
    typedef typename Unsigned<C>::Type U;
    if (column == nullptr) return;
    U carry[COUNT];
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) carry[k] = first + k < end ? U(column[(first + k) * stride]) : U(0);
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) value[k] += carry[k];
  }
};

/// Threads of a column of `sum_axis`, and the values that each of them takes at a time.
constexpr u32 COLUMN_THREADS = THREADS / COLUMNS;
constexpr u32 PIECE_VALUES = 8;

/// Prefix sums along an axis that is not the fastest: the array is [outer][length][inner]. A block has COLUMNS columns and COLUMN_THREADS
/// threads a column. Each thread sums a piece of PIECE_VALUES values, and the sums of the pieces are joined in shared memory.
template <typename C, typename Join, typename Store>
__device__ void sum_axis(Blocks blocks, const C* values, Join join, u32 outer, u32 length, u32 inner, bool sum, const Store& store) {
  typedef typename Unsigned<C>::Type U;
  __shared__ U piece_sums[COLUMN_THREADS][COLUMNS];
  const u32 column_groups = ceil_div(inner, COLUMNS);
  const u32 column = threadIdx.x % COLUMNS, piece = threadIdx.x / COLUMNS;
  for (u32 item = blocks.number; item < outer * column_groups; item += blocks.count) {
    const u32 x = item % column_groups * COLUMNS + column;
    const u32 base = item / column_groups * length * inner + x;
    join.at_column(item / column_groups, x);
    U carry = U(0);
    for (u32 begin = 0; begin < length; begin += COLUMN_THREADS * PIECE_VALUES) {
      const u32 first = begin + piece * PIECE_VALUES;
      U value[PIECE_VALUES];
#pragma unroll
      for (u32 k = 0; k < PIECE_VALUES; k++) {
        value[k] = x < inner && first + k < length ? U(values[base + (first + k) * inner]) : U(0);
      }
      join.add(value, first, length);
      if (sum) {
#pragma unroll
        for (u32 k = 1; k < PIECE_VALUES; k++) value[k] += value[k - 1];
        piece_sums[piece][column] = value[PIECE_VALUES - 1];
        __syncthreads();
        U before = carry;
#pragma unroll
        for (u32 other = 0; other < COLUMN_THREADS; other++) {
          U other_sum = piece_sums[other][column];
          if (other < piece) before += other_sum;
          carry += other_sum;
        }
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < PIECE_VALUES; k++) value[k] += before;
      }
#pragma unroll
      for (u32 k = 0; k < PIECE_VALUES; k++) {
        if (x < inner && first + k < length) store(base + (first + k) * inner, value[k]);
      }
    }
  }
}

/// A pass over a plane along an axis that is not the fastest.
template <typename C, typename Join, typename Store>
__device__ __forceinline__ void sum_along(u32 axis, Blocks blocks, const Shape& shape, const C* values, const Join& join, bool sum, const Store& store) {
  const u32 inner = shape.strides[axis], extent = shape.extents[axis];
  sum_axis<C>(blocks, values, join, shape.elements / (inner * extent), extent, inner, sum, store);
}

/// A pass over a plane. Undoing the prediction takes a pass for each axis, and two passes for long rows.
/// `must_store` is set where results are stored elsewhere than in `values`: then they are stored even if there is nothing to sum.
template <typename C, typename Store>
__device__ __forceinline__ void run_pass(u32 kind, u32 axis, Blocks blocks, const Shape& shape, u32 axes, const C* values, void* row_sums,
                                         const Store& store, bool must_store) {
  typedef typename Unsigned<C>::Type U;
  const u32 length = shape.extents[0], rows = shape.elements / length;
  const bool sum = axes >> axis & 1;
  if (!sum && !must_store) return;
  switch (kind) {
    case SHORT_ROWS: return sum_short_rows(blocks, values, length, rows, sum, store);
    case ROW_PARTS: return sum_row_parts(blocks, values, length, rows, static_cast<U*>(row_sums));
    case LONG_ROWS: return sum_long_rows(blocks, values, length, rows, sum, static_cast<const U*>(row_sums), store);
    default: return sum_along(axis, blocks, shape, values, NothingToJoin<C>{}, sum, store);
  }
}

/// Room for the sums of the parts of a plane's long rows.
__device__ __forceinline__ void* row_sums(const DecodeJob& job, u32 plane) {
  return job.row_sums + (u64(blockIdx.y) * PLANES + plane) * 2 * ceil_div(job.shape.elements, ROW_PART);
}

/// A pass over the mask. Where rows are a multiple of four values, slow axes are summed four columns at a time.
__device__ __forceinline__ void run_mask_pass(const PlanePass& pass, Blocks blocks, const Shape& shape, u32 axes, u8* values, void* row_sums) {
  if (pass.kind != AXIS || shape.extents[0] % 4 != 0) {
    return run_pass<u8>(pass.kind, pass.axis, blocks, shape, axes, values, row_sums, StoreInteger<u8>{values}, false);
  }
  if (!(axes >> pass.axis & 1)) return;
  u32* fours = reinterpret_cast<u32*>(values);
  const u32 inner = shape.strides[pass.axis], extent = shape.extents[pass.axis];
  sum_axis<u32>(blocks, fours, NothingToJoin<u32>{}, shape.elements / (inner * extent), extent, inner / 4, true, StoreInteger<u32>{fours});
}

/// A pass over the codes of a chunk.
template <typename C, typename Store>
__device__ __forceinline__ void run_codes_pass(const PlanePass& pass, const DecodeJob& job, const DecodePlaneState& plane, const C* values,
                                               const Store& store, bool must_store) {
  const Blocks blocks = {blockIdx.x, pass.blocks};
  // The axis behind the columns comes first, and joins them.
  if (pass.kind == AXIS && pass.axis == 2 && job.columns_in_blocks == COLUMNS_JOINED && (plane.predictor & 2)) {
    return sum_along(2, blocks, job.shape, values, JoinColumns<C>(job, plane), plane.predictor >> 2 & 1, store);
  }
  run_pass<C>(pass.kind, pass.axis, blocks, job.shape, plane.predictor, values, row_sums(job, CODES), store, must_store);
}

/// The passes of a launch over the codes and over the mask.
template <typename V>
__device__ __forceinline__ void restore_planes(const DecodeJob& job, const PlanePasses& passes) {
  typedef typename ValueType<V>::Code C;
  const DecodeState& state = job.states[blockIdx.y];
  if (passes.writes_values) report(job, state);
  if (state.error) return;
  const u32 codes_blocks = passes.codes.blocks;
  if (blockIdx.x < codes_blocks) {
    C* values = plane_values<C>(job, CODES);
    const DecodePlaneState& plane = state.planes[CODES];
    if (passes.writes_values) {
      const DecodeParameters& parameters = stream_parameters(job);
      const StoreValue<V> store = {chunk_output(job), parameters.step, LimitValues<V>(parameters), parameters.big_endian != 0};
      run_codes_pass<C>(passes.codes, job, plane, values, store, true);
    } else {
      run_codes_pass<C>(passes.codes, job, plane, values, StoreInteger<C>{values}, false);
    }
  } else if (state.planes[MASK].elements != 0) {
    const Blocks blocks = {blockIdx.x - codes_blocks, passes.mask.blocks};
    run_mask_pass(passes.mask, blocks, job.shape, state.planes[MASK].predictor, plane_values<u8>(job, MASK), row_sums(job, MASK));
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) restore_planes_f32(const __grid_constant__ DecodeJob job, const __grid_constant__ PlanePasses passes) {
  restore_planes<float>(job, passes);
}
extern "C" __global__ void __launch_bounds__(THREADS) restore_planes_f64(const __grid_constant__ DecodeJob job, const __grid_constant__ PlanePasses passes) {
  restore_planes<double>(job, passes);
}

/// Sums the plane of the exceptions' bits: one row of as many integers as the chunk has exceptions.
template <typename C>
__device__ __forceinline__ void restore_line(const DecodeJob& job, u32 kind) {
  const DecodeState& state = job.states[blockIdx.y];
  const u32 elements = state.planes[BITS].elements;
  if (state.error || elements == 0) return;
  C* values = plane_values<C>(job, BITS);
  const Shape line = {1, elements, {elements, 1, 1, 1}, {1, 1, 1, 1}, {}};
  run_pass<C>(kind, 0, {blockIdx.x, gridDim.x}, line, state.planes[BITS].predictor, values, row_sums(job, BITS), StoreInteger<C>{values}, false);
}

extern "C" __global__ void __launch_bounds__(THREADS) restore_bits_f32(const __grid_constant__ DecodeJob job, u32 kind) { restore_line<i32>(job, kind); }
extern "C" __global__ void __launch_bounds__(THREADS) restore_bits_f64(const __grid_constant__ DecodeJob job, u32 kind) { restore_line<i64>(job, kind); }
