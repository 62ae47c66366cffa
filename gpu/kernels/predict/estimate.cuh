// Stage 0 (FORMAT.md §11.3): the estimate of the bits that residuals take, and the predictor that follows from the counts over a chunk's tiles. CPU:
// codec/src/predict/choice/counts.rs, codec/src/predict/choice.rs.
//
// A warp decides on a chunk, after each round in which its tiles are measured. A lane takes an estimate, or a set of axes. All numbers are integers, so that
// the choice is the CPU's. What a later round needs is kept among the chunk's counts.
#pragma once

#include "../job.cuh"
#include "../number/fixed_log2.cuh"

typedef unsigned __int128 u128;

/// Counts whose logarithms an estimate needs.
constexpr u32 WEIGHED_COUNTS = 10;

/// Each count times its logarithm. The squares of one count do not wait for those of another.
__device__ __forceinline__ void weigh(const u32 (&counts)[WEIGHED_COUNTS], u64 (&weighted)[WEIGHED_COUNTS]) {
  u32 logarithms[WEIGHED_COUNTS];
  log2_fixed(counts, logarithms);
#pragma unroll
  for (u32 i = 0; i < WEIGHED_COUNTS; i++) weighted[i] = u64(counts[i]) * logarithms[i];
}

/// Bits that tell a things of one kind from b things of another: n log2(n) - a log2(a) - b log2(b), with n = a + b. The arguments are the three products.
__device__ __forceinline__ u64 split_bits(u64 all, u64 first, u64 second) { return all > first + second ? all - first - second : 0; }

/// Estimated bits of the escapes and exceptions of a kind of interpolation. Zeros can be exceptions unless the mask is taken by a fill value. `gain`: how many
/// bits fewer zeros take as exceptions than as escapes; 0 if they are escapes.
__device__ __forceinline__ u32 bits_of_outliers(const TileJob& job, const TileSums& sums, u32 kind, u32& gain) {
  const u32 as_escapes = OUTLIER_BITS * sums.zero_escapes[kind], as_exceptions = EDGE_BITS * (sums.zero_edges + job.edges_of_planes);
  gain = !job.fills.has_value && as_exceptions < as_escapes ? as_escapes - as_exceptions : 0;
  return OUTLIER_BITS * sums.outliers[kind] + as_escapes - gain;
}

/// Estimate of the bits that `values` residuals with these counts take, in fixed point. The bits say which residuals are 0, with or without a look at the
/// residual before; the signs of the others; where their highest bits are; and the bits below these. `outlier_bits`: those of values that need more.
__device__ __forceinline__ u64 estimated_bits(const ResidualCounts& counts, u32 values, u32 outlier_bits) {
  const u32 zeros = counts.zeros, nonzero = values - zeros, low_bits = counts.lengths - nonzero, rises = min(counts.rises, min(nonzero, zeros));
  const u32 weighed[WEIGHED_COUNTS] = {
      values, zeros, nonzero, rises, zeros - rises, nonzero - rises, counts.negative, nonzero - counts.negative, low_bits, nonzero + low_bits};
  u64 weights[WEIGHED_COUNTS];
  weigh(weighed, weights);
  const auto& [of_values, of_zeros, of_nonzero, of_rises, of_other_zeros, of_others, of_negative, of_positive, of_low_bits, of_all_bits] = weights;
  const u64 zero_bits = min(split_bits(of_values, of_zeros, of_nonzero),
                            split_bits(of_zeros, of_rises, of_other_zeros) + split_bits(of_nonzero, of_rises, of_others));
  const u64 sign_bits = split_bits(of_nonzero, of_negative, of_positive), length_bits = split_bits(of_all_bits, of_nonzero, of_low_bits);
  return zero_bits + sign_bits + length_bits + (u64(low_bits + outlier_bits) << LOG_FRACTION);
}

/// The axis with this number among those longer than 1, as a set.
__device__ __forceinline__ u32 long_axis(const TileJob& job, u32 number) {
  u32 found = 0;
#pragma unroll
  for (u32 axis = 0; axis < MAX_RANK; axis++) {
    if (job.extents[axis] > 1 && number-- == 0) found = 1u << axis;
  }
  return found;
}

/// The decisions on a chunk. All lanes of a warp have them.
struct TileDecision {
  const TileJob& job;
  TileSums& sums;

  /// After the first round: the best set of axes, and the better one of cubic and linear interpolation.
  __device__ __forceinline__ void decide_first() {
    const TileShape& tiles = job.tiles;
    const u32 lane = lane_id(), flat = flat_axes();
    const bool is_open = job.candidates && sums.out_of_reach <= TILES * tiles.shape.elements / VALUES_PER_VALUE_OUT_OF_REACH;
    // Lane `set` has the estimate of the differences along a set of axes. The next two lanes have those of cubic and of linear interpolation.
    const bool is_set = lane < 1u << tiles.shape.rank && !(lane & flat), is_kind = is_open && lane >= AXIS_SETS && lane < AXIS_SETS + 2;
    const u32 own_kind = lane == AXIS_SETS + 1 ? LINEAR_INTERPOLATION : 0;
    u64 bits = 0;
    u32 gain;
    if (is_set) bits = estimated_bits(sums.differences[lane], differences(), OUTLIER_BITS * (sums.between_steps * tiles.counted / tiles.shape.elements));
    if (is_kind) bits = estimated_bits(sums.residuals[own_kind], residuals(), bits_of_outliers(job, sums, own_kind, gain));
    const u64 cubic = __shfl_sync(ALL_LANES, bits, AXIS_SETS), linear = __shfl_sync(ALL_LANES, bits, AXIS_SETS + 1);
    const bool is_linear = is_better(linear, cubic);
    u64 set_bits;
    const u32 set = best_set(bits, is_set, set_bits);
    if (lane != 0) return;
    sums.is_interpolation_open = is_open;
    sums.set = set;
    sums.set_bits = set_bits;
    sums.best_kind = sums.first_kind = is_linear ? LINEAR_INTERPOLATION : 0;
    sums.best_bits = is_linear ? linear : cubic;
    sums.cubic_bits = cubic;
  }

  /// Makes the best one of the kinds of a round the best so far if it is better.
  __device__ __forceinline__ void take_best(u32 round) {
    const u32 lane = lane_id(), first = sums.first_kind, last = sums.last_kind;
    u32 kind = NO_KIND, gain;
    if (round == LAST_ROUND && lane == 0) kind = last;
    if (round == ROUGH_ROUND && lane < job.rough_kinds) kind = first | long_axis(job, lane);
    u64 own = ~0ull;
    if (kind != NO_KIND) own = estimated_bits(sums.residuals[kind], residuals(), bits_of_outliers(job, sums, kind, gain));
    u64 best_bits = sums.best_bits;
    u32 best_kind = sums.best_kind;
#pragma unroll
    for (u32 number = 0; number < MAX_RANK; number++) {
      const u64 of_kind = __shfl_sync(ALL_LANES, own, number);
      const u32 there = __shfl_sync(ALL_LANES, kind, number);
      if (is_better(of_kind, best_bits)) best_bits = of_kind, best_kind = there;
    }
    __syncwarp();
    if (lane == 0) sums.best_bits = best_bits, sums.best_kind = best_kind;
    __syncwarp();
  }

  /// The last kind: if the best one has a rough axis, linear in place of cubic or the reverse.
  __device__ __forceinline__ void find_last_kind() {
    if (lane_id() == 0) sums.last_kind = sums.best_kind & (AXIS_SETS - 1) ? sums.best_kind ^ LINEAR_INTERPOLATION : NO_KIND;
  }

  /// The predictor's byte in a plane, where interpolation is a candidate, and MASKS_ZEROS if zeros are exceptions. All kinds have been measured.
  __device__ __forceinline__ u32 predictor() const {
    // Where cubic interpolation is hopeless, no other kind counts.
    if (u128(sums.cubic_bits) * differences() > (u128(sums.set_bits) + CUBIC_MARGIN * differences()) * residuals()) return sums.set;
    u32 gain;
    bits_of_outliers(job, sums, sums.best_kind, gain);
    const auto is_below = [&](u64 bits, u32 sixteenths) {
      return 16 * u128(bits) * differences() < sixteenths * u128(sums.set_bits) * residuals();
    };
    if (!is_below(sums.best_bits, gain ? MASKED_SIXTEENTHS : 16) && !is_below(sums.best_bits + (u64(gain) << LOG_FRACTION), 16)) return sums.set;
    const bool is_finer = sums.best_bits < u64(job.finer_steps_below) * residuals();
    return INTERPOLATION | u32(is_finer) * LEVEL_STEPS | sums.best_kind | (gain ? MASKS_ZEROS : 0);
  }

 private:
  /// The set of axes of extent 1.
  __device__ __forceinline__ u32 flat_axes() const {
    u32 flat = 0;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) flat |= u32(job.extents[axis] == 1) << axis;
    return flat;
  }

  /// Whether a kind of interpolation takes the place of the best so far.
  __device__ __forceinline__ bool is_better(u64 bits, u64 best_bits) const { return bits < best_bits && best_bits - bits > KIND_MARGIN * residuals(); }

  /// Residuals of interpolation that count.
  __device__ __forceinline__ u32 residuals() const { return TILES * (job.tiles.shape.elements - job.tiles.uncounted_residuals); }

  /// Differences along a set of axes that count.
  __device__ __forceinline__ u32 differences() const { return TILES * job.tiles.counted; }

  /// The set of axes whose differences have the least estimate, once estimates are corrected for the chunk's first values along the axes. That estimate becomes
  /// `set_bits`. `bits`: the estimate of set `lane_id()`, if that is a set of the chunk's.
  __device__ __forceinline__ u32 best_set(u64 bits, bool is_set, u64& set_bits) const {
    const u32 lane = lane_id();
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) {
      const u64 without_axis = __shfl_xor_sync(ALL_LANES, bits, 1 << axis);
      const u64 extent = job.extents[axis];
      // floor((bits * (extent - 1) + without_axis) / extent)
      if (is_set && (lane >> axis & 1)) {
        const bool is_more = without_axis >= bits;
        const u64 change = (is_more ? without_axis - bits : bits - without_axis + extent - 1) / extent;
        bits = is_more ? bits + change : bits - change;
      }
    }
    u32 best = 0;
    set_bits = ~0ull;
    const u32 possible = __ballot_sync(ALL_LANES, is_set);
#pragma unroll
    for (u32 set = 0; set < AXIS_SETS; set++) {
      const u64 of_set = __shfl_sync(ALL_LANES, bits, set);
      // Of equal sets the first one. But where all estimates are 0, the empty set comes last.
      if ((possible >> set & 1) && (of_set < set_bits || (of_set == 0 && best == 0))) {
        best = set;
        set_bits = of_set;
      }
    }
    return best;
  }
};

/// Decides on a chunk when all its tiles of a round have been measured. A warp calls this.
__device__ __forceinline__ void decide(const TileJob& job, u32 chunk, u32 round) {
  TileDecision decision = {job, job.sums[chunk]};
  TileSums& sums = decision.sums;
  if (round == FIRST_ROUND) {
    decision.decide_first();
    __syncwarp();
  } else if (sums.is_interpolation_open) {
    decision.take_best(round);
  }
  if (!sums.is_interpolation_open) {
    if (round == FIRST_ROUND && lane_id() == 0) job.host_predictors[chunk] = sums.set;
    return;
  }
  // With one axis there are no rough ones: the first round is the last one.
  if (round == FIRST_ROUND && job.rough_kinds > 0) return;
  if (round == ROUGH_ROUND) return decision.find_last_kind();
  const u32 predictor = decision.predictor();
  if (lane_id() == 0) job.host_predictors[chunk] = predictor;
}
