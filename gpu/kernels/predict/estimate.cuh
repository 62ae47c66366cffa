// Stage 0 (FORMAT.md §11.3): the estimate of the bits that residuals take, and the predictor that follows from the counts over a chunk's tiles. CPU:
// codec/src/predict/choice/residual_stats.rs, codec/src/predict/choice/kinds.rs, codec/src/predict/choice/tiles.rs.
//
// A warp decides on a chunk. A lane takes an estimate, or a set of axes. Only integers, so that the choice is the CPU's.
#pragma once

#include "../job.cuh"
#include "../number/fixed_log2.cuh"

typedef unsigned __int128 u128;

/// `count` times its logarithm.
__device__ __forceinline__ u64 weighted(u64 count) { return count ? count * log2_fixed(count) : 0; }

/// Bits that say to which of two kinds each of `first + second` residuals belongs.
__device__ __forceinline__ u64 split_bits(u64 first, u64 second) {
  const u64 all = weighted(first + second), parts = weighted(first) + weighted(second);
  return all > parts ? all - parts : 0;
}

/// Estimate of the bits that `values` residuals with these counts take, and `outliers` values that need more, in fixed point.
__device__ __forceinline__ u64 estimated_bits(const ResidualCounts& counts, u64 values, u64 outliers) {
  const u64 zeros = counts.zeros, nonzero = values - zeros, low_bits = counts.magnitude_bits - nonzero;
  const u64 rises = min(u64(counts.rises), min(nonzero, zeros));
  const u64 of_zeros = min(split_bits(zeros, nonzero), split_bits(rises, zeros - rises) + split_bits(rises, nonzero - rises));
  const u64 of_signs = split_bits(counts.negative, nonzero - counts.large - counts.negative);
  const u64 from_two_bits = nonzero - counts.ones, from_three_bits = from_two_bits - counts.two_bits, from_four_bits = from_three_bits - counts.three_bits;
  const u64 of_short =
      split_bits(counts.ones, from_two_bits) + split_bits(counts.two_bits, from_three_bits) + split_bits(counts.three_bits, from_four_bits);
  const u64 of_long = split_bits(from_four_bits, low_bits - counts.two_bits - 2 * u64(counts.three_bits) - 3 * from_four_bits);
  const u64 whole = counts.large + low_bits + OUTLIER_BITS * outliers;
  return of_zeros + of_signs + of_short + of_long + (whole << LOG_FRACTION);
}

/// Values of all tiles of a kind that have a neighbour before them along every axis longer than 1: their differences count.
__device__ __forceinline__ u64 counted_values(const TileKind& kind) { return u64(kind.count) * kind.counted; }

/// Values between steps that are expected among these.
__device__ __forceinline__ u64 counted_outliers(const TileKind& kind, const KindCounts& counts) {
  return u64(counts.between_steps) * kind.counted / kind.shape.elements;
}

/// A kind of interpolation and its estimate.
struct KindBits {
  u64 bits;
  u32 kind;
};

/// The decision on a chunk. All lanes of a warp have it.
struct TileDecision {
  const TileJob& job;
  const TileSums& sums;
  /// Lane `set`: the estimate of the differences along a set of axes. The next two lanes: those of cubic and of linear interpolation without rough axes.
  u64 bits;
  /// Whether interpolation is a candidate.
  bool is_interpolation_open;
  /// The kinds with rough axes that are tried, in their order; then `NO_KIND`.
  u32 rough_kinds[MAX_ROUGH_KINDS];

  __device__ __forceinline__ TileDecision(const TileJob& job, const TileSums& sums) : job(job), sums(sums), bits(0), rough_kinds() {
    const TileKind& tiles = job.kinds[DIFFERENCE_KIND];
    const KindCounts& counts = sums.kinds[DIFFERENCE_KIND];
    const u32 lane = lane_id();
    is_interpolation_open = job.candidates && counts.out_of_reach <= tiles.count * tiles.shape.elements / VALUES_PER_VALUE_OUT_OF_REACH &&
                            sums.kinds[INTERPOLATED_KIND].tiles_out_of_reach == 0;
    if (lane < 1u << tiles.shape.rank) {
      if (!(lane & flat_axes())) bits = estimated_bits(counts.differences[lane], counted_values(tiles), counted_outliers(tiles, counts));
    } else if (is_interpolation_open && lane >= AXIS_SETS && lane < AXIS_SETS + 2) {
      bits = bits_of_kind((lane - AXIS_SETS) * LINEAR_INTERPOLATION);
    }
    // Rough axes are tried with the better one. The roughest axis comes first: its differences have the greatest estimate. Of equals it is the slower axis.
    u32 kind = better_of_first() ? LINEAR_INTERPOLATION : 0, left = ~flat_axes();
#pragma unroll
    for (u32 number = 0; number < MAX_ROUGH_KINDS; number++) {
      u32 roughest = 0;
      u64 most = 0;
      bool is_found = false;
#pragma unroll
      for (u32 axis = MAX_RANK; axis-- > 0;) {
        const u64 of_axis = __shfl_sync(ALL_LANES, bits, 1u << axis);
        if ((left >> axis & 1) && (!is_found || of_axis > most)) {
          roughest = axis;
          most = of_axis;
          is_found = true;
        }
      }
      left &= ~(1u << roughest);
      kind |= 1u << roughest;
      rough_kinds[number] = number < job.rough_kinds ? kind : NO_KIND;
    }
  }

  /// The best kind of those without rough axes and `rough_kinds`, which have been measured.
  __device__ __forceinline__ KindBits best_of_rough() const {
    const u64 cubic = bits_of_lane(AXIS_SETS), linear = bits_of_lane(AXIS_SETS + 1);
    return best_of(linear < cubic ? KindBits{linear, LINEAR_INTERPOLATION} : KindBits{cubic, 0}, rough_kinds);
  }

  /// The kinds around one: without each of its rough axes if it has several, then linear in place of cubic or the reverse if it has any. Those of
  /// `rough_kinds` have been measured before.
  __device__ __forceinline__ void find_last_kinds(u32 kind, u32 (&kinds)[MAX_LAST_KINDS]) const {
    const u32 rough = kind & (AXIS_SETS - 1);
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) {
      kinds[axis] = (rough >> axis & 1) && __popc(rough) > 1 ? kind & ~(1u << axis) : NO_KIND;
#pragma unroll
      for (u32 number = 0; number < MAX_ROUGH_KINDS; number++) kinds[axis] = kinds[axis] == rough_kinds[number] ? NO_KIND : kinds[axis];
    }
    kinds[MAX_RANK] = rough ? kind ^ LINEAR_INTERPOLATION : NO_KIND;
  }

  /// The better one of `best` and of these kinds, the first of equals.
  template <u32 N>
  __device__ __forceinline__ KindBits best_of(KindBits best, const u32 (&kinds)[N]) const {
    u32 own_kind = NO_KIND;
#pragma unroll
    for (u32 number = 0; number < N; number++) own_kind = lane_id() == number ? kinds[number] : own_kind;
    const u64 own = own_kind == NO_KIND ? ~0ull : bits_of_kind(own_kind);
#pragma unroll
    for (u32 number = 0; number < N; number++) {
      const u64 of_kind = __shfl_sync(ALL_LANES, own, number);
      if (of_kind < best.bits) best = {of_kind, kinds[number]};
    }
    return best;
  }

  /// The set of axes of extent 1.
  __device__ __forceinline__ u32 flat_axes() const {
    u32 flat = 0;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) flat |= u32(job.extents[axis] == 1) << axis;
    return flat;
  }

  /// Residuals of interpolation that count.
  __device__ __forceinline__ u64 residuals() const {
    const TileKind& tiles = job.kinds[INTERPOLATED_KIND];
    return u64(tiles.count) * (tiles.shape.elements - tiles.uncounted_residuals);
  }

  __device__ __forceinline__ u64 bits_of_kind(u32 kind) const {
    const KindCounts& counts = sums.kinds[INTERPOLATED_KIND];
    return estimated_bits(counts.residuals[kind], residuals(), counts.outliers[kind]);
  }

  /// Whether linear interpolation is better than cubic, without rough axes.
  __device__ __forceinline__ bool better_of_first() const { return bits_of_lane(AXIS_SETS + 1) < bits_of_lane(AXIS_SETS); }
  __device__ __forceinline__ u64 bits_of_lane(u32 lane) const { return __shfl_sync(ALL_LANES, bits, lane); }

  /// The predictor's byte in a plane. All kinds have been measured.
  __device__ __forceinline__ u32 predictor() const {
    u64 set_bits = 0;
    const u32 set = best_set(set_bits);
    const u64 measured = bits_of_lane(set);
    if (!is_interpolation_open) return set;
    KindBits best = best_of_rough();
    u32 last_kinds[MAX_LAST_KINDS];
    find_last_kinds(best.kind, last_kinds);
    best = best_of(best, last_kinds);
    // The chunk's first values along the axes make its differences longer than those of tiles.
    const TileKind& tiles = job.kinds[INTERPOLATED_KIND];
    const KindCounts& counts = sums.kinds[INTERPOLATED_KIND];
    u64 differences = estimated_bits(counts.differences[set], counted_values(tiles), counted_outliers(tiles, counts));
    if (measured) differences = u64(u128(differences) * set_bits / measured);
    const bool is_better = u128(best.bits) * counted_values(tiles) < u128(differences) * residuals();
    return is_better ? INTERPOLATION | best.kind : set;
  }

  /// The set of axes whose differences have the least estimate, which becomes `set_bits`, corrected for the chunk's first values along the axes.
  __device__ __forceinline__ u32 best_set(u64& set_bits) const {
    const u32 lane = lane_id(), flat = flat_axes();
    const bool is_set = lane < 1u << job.kinds[DIFFERENCE_KIND].shape.rank && !(lane & flat);
    u64 own = bits;
#pragma unroll
    for (u32 axis = 0; axis < MAX_RANK; axis++) {
      const u64 without_axis = __shfl_xor_sync(ALL_LANES, own, 1 << axis);
      const u64 extent = job.extents[axis];
      if (is_set && (lane >> axis & 1)) own = u64((u128(own) * (extent - 1) + without_axis) / extent);
    }
    u32 best = 0;
    set_bits = ~0ull;
#pragma unroll
    for (u32 set = 0; set < AXIS_SETS; set++) {
      const u64 of_set = __shfl_sync(ALL_LANES, own, set);
      const bool is_possible = set < 1u << job.kinds[DIFFERENCE_KIND].shape.rank && !(set & flat);
      // Of equals the first one; but where nothing is left, the empty set is the last one.
      if (is_possible && (of_set < set_bits || (of_set == 0 && best == 0))) {
        best = set;
        set_bits = of_set;
      }
    }
    return best;
  }
};
