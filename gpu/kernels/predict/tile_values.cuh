// Stage 0 (FORMAT.md §11.3): the values of a chunk's tiles as codes and as positions, and the tiles that a block of threads takes. CPU:
// codec/src/predict/choice/lanes.rs.
#pragma once

#include "../quantize/linear.cuh"

/// One value of each of GROUP_TILES tiles: its entry (see ENTRY_KINDS), which its position replaces when it is interpolated, or its code.
struct alignas(16) GroupEntry {
  i32 of[GROUP_TILES];
};
static_assert(sizeof(GroupEntry) == 16, "one load from shared memory");
/// Groups of tiles.
constexpr u32 GROUPS = TILES / GROUP_TILES;
static_assert(TILES % GROUP_TILES == 0, "whole groups");

/// How interpolation codes a value: the lowest bits of its entry. Its nearest position is above them.
enum : u32 { HAS_NO_CODE, OUT_OF_REACH, BETWEEN_POSITIONS, ON_POSITION };
constexpr u32 ENTRY_KIND_BITS = 2, ENTRY_KINDS = (1u << ENTRY_KIND_BITS) - 1;
/// The entry of a zero: no other value is on position 0.
constexpr i32 ZERO = ON_POSITION;

/// A value of a tile.
template <typename V>
struct TileValue {
  typedef typename ValueType<V>::Bits Bits;
  V value;
  double scaled, sum, steps;
  bool has_code;

  __device__ __forceinline__ TileValue(const TileJob& job, Bits bits)
      : value(ValueType<V>::from_bits(bits)),
        scaled(double(value) * job.inverse_step),
        sum(scaled + ROUNDING),
        steps(sum - ROUNDING),
        has_code(fabs(scaled) < ValueType<V>::CODE_LIMIT && !is_fill(job.fills, u64(bits), double(value))) {}

  /// The code modulo 2^32.
  __device__ __forceinline__ i32 code() const { return i32(u32(u64(code_from_sum<V>(sum)))); }

  /// The entry of interpolation. `is_between`: whether the value has a code and is between two steps of the fine grid.
  __device__ __forceinline__ i32 entry(const FineGrid& fine, bool& is_between) const {
    is_between = false;
    if (!(fabs(steps) < fine.steps_limit)) return i32(has_code ? OUT_OF_REACH : HAS_NO_CODE);
    const Nearest<V> nearest(fine, value, steps);
    const i32 rest = i32(nearest.rest);
    is_between = has_code && nearest.exact && rest != 0;
    const u32 position = u32(__double2loint(sum)) * POSITIONS_PER_STEP + u32(rest);
    return i32(position << ENTRY_KIND_BITS | (has_code ? nearest.exact ? ON_POSITION : BETWEEN_POSITIONS : HAS_NO_CODE));
  }
};

/// The group of tiles that a block of threads takes.
struct TileBlock {
  const TileJob& job;
  u32 chunk, group;

  __device__ __forceinline__ const Shape& shape() const { return job.tiles.shape; }
  __device__ __forceinline__ TileSums& sums() const { return job.sums[chunk]; }
  /// The first value of tile `number` of the group.
  __device__ __forceinline__ const void* tile(u32 number) const {
    const u64 base = job.chunks ? job.chunks[chunk] : 0;
    return reinterpret_cast<const void*>(base + job.addresses[group * GROUP_TILES + number]);
  }
  /// The entries of the group, in a batch.
  __device__ __forceinline__ GroupEntry* entries() const {
    return reinterpret_cast<GroupEntry*>(job.entries) + (u64(chunk) * GROUPS + group) * shape().elements;
  }

  /// Reads the values of the group at an index.
  template <typename V>
  __device__ __forceinline__ void read(u32 index, typename ValueType<V>::Bits (&bits)[GROUP_TILES]) const {
    const u32 offset = job.offsets[index];
#pragma unroll
    for (u32 number = 0; number < GROUP_TILES; number++) bits[number] = read_bits<V>(tile(number), offset, job.big_endian);
  }
};
