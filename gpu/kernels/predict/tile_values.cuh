// Stage 0 (FORMAT.md §11.3): the values of a chunk's tiles as codes and as positions, and the tiles that a block of threads takes. CPU:
// codec/src/predict/choice/interpolated_tiles.rs, codec/src/predict/choice/tiles.rs.
#pragma once

#include "../quantize/linear.cuh"

/// One value of each of GROUP_TILES tiles: its entry (see ENTRY_KINDS), which its position replaces when it is interpolated, or its code.
struct alignas(16) GroupEntry {
  i32 of[GROUP_TILES];
};
static_assert(sizeof(GroupEntry) == 16, "one load from shared memory");
/// Groups of tiles that are interpolated.
constexpr u32 GROUPS = INTERPOLATED_TILES / GROUP_TILES;
static_assert(INTERPOLATED_TILES % GROUP_TILES == 0, "whole groups");

/// How interpolation codes a value: the lowest bits of its entry. Its nearest position is above them.
enum : u32 { HAS_NO_CODE, OUT_OF_REACH, BETWEEN_POSITIONS, ON_POSITION };
constexpr u32 ENTRY_KIND_BITS = 2, ENTRY_KINDS = (1u << ENTRY_KIND_BITS) - 1;
/// The entry of a zero, which alone is on position 0.
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

  /// The entry of interpolation. `is_between`: whether the value is between two steps of the fine grid, with a code or without.
  __device__ __forceinline__ i32 entry(const FineGrid& fine, bool& is_between) const {
    is_between = false;
    if (!(fabs(steps) < fine.steps_limit)) return i32(has_code ? OUT_OF_REACH : HAS_NO_CODE);
    const Nearest<V> nearest(fine, value, steps);
    const i32 rest = i32(nearest.rest);
    is_between = nearest.exact && rest != 0;
    const u32 position = u32(__double2loint(sum)) * POSITIONS_PER_STEP + u32(rest);
    return i32(position << ENTRY_KIND_BITS | (has_code ? nearest.exact ? ON_POSITION : BETWEEN_POSITIONS : HAS_NO_CODE));
  }
};

/// The tiles that a block of threads takes.
struct TileBlock {
  const TileJob& job;
  u32 chunk;
  bool is_interpolated;  // the kind of its tiles
  u32 first, count;      // its tiles

  __device__ __forceinline__ u32 kind_number() const { return is_interpolated ? INTERPOLATED_KIND : DIFFERENCE_KIND; }
  __device__ __forceinline__ const TileKind& kind() const { return job.kinds[kind_number()]; }
  __device__ __forceinline__ KindCounts& sums() const { return job.sums[chunk].kinds[kind_number()]; }
  /// The first value of tile `number` of the block.
  __device__ __forceinline__ const void* tile(u32 number) const {
    const u64 base = job.chunks ? job.chunks[chunk] : 0;
    return reinterpret_cast<const void*>(base + job.tiles[(is_interpolated ? 0 : INTERPOLATED_TILES) + first + number]);
  }
  /// The entries of the block's group of tiles, in a batch.
  __device__ __forceinline__ GroupEntry* entries() const { return of_group(job.entries); }
  /// The codes of the block's group of tiles, in a batch.
  __device__ __forceinline__ GroupEntry* codes() const { return of_group(job.codes); }

 private:
  __device__ __forceinline__ GroupEntry* of_group(i32* all) const {
    return reinterpret_cast<GroupEntry*>(all) + (u64(chunk) * GROUPS + first / GROUP_TILES) * kind().shape.elements;
  }
};

/// Warps of a block that measures tiles.
constexpr u32 TILE_WARPS = TILE_THREADS / WARP;

/// The part that a warp takes of a block's tiles: a whole tile where there are several.
struct WarpPart {
  u32 tile, warps, number;  // the tile, the warps that share it, and this one's number among these

  __device__ __forceinline__ explicit WarpPart(const TileBlock& block)
      : warps(block.count > TILE_WARPS / 2 ? 1 : TILE_WARPS / block.count) {
    tile = warp_id() / warps;
    number = warp_id() % warps;
  }
};
static_assert(TILE_WARPS == 4, "a block has up to four tiles");
