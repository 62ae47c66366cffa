//! Measuring the tiles of a chunk, or of a batch of chunks, to choose a predictor.

use std::ffi::c_void;

use quire_codec::stages::choice;

use super::common::{Fills, MAX_RANK, Shape};
use crate::declare::{ConstPointer, Pointer, shared_constants, shared_structs};

shared_constants! {
    /// Tiles of a chunk.
    pub const TILES: usize = choice::TILES;
    /// Sets of axes of a chunk.
    pub const AXIS_SETS: usize = choice::SETS;
    /// Kinds of interpolation, by the low bits of their bytes.
    pub const INTERPOLATION_KINDS: usize = choice::KINDS;

    /// Threads of a block that measures tiles.
    pub const TILE_THREADS: u32 = 128;
    /// Tiles that a block takes at once.
    pub const GROUP_TILES: u32 = 4;
    /// Most passes of the interpolation of a tile: up to one for each number of axes, for each of twelve levels.
    pub const TILE_PASSES: usize = 48;
    /// Tiles of up to this number of values leave room for more blocks on a multiprocessor. Only thin tiles and tiles with four axes have more values.
    pub const SMALL_TILE_VALUES: usize = 896;

    /// Stands where a number of a kind of interpolation is expected and there is none.
    pub const NO_KIND: u32 = 255;
    /// Beside a predictor's byte: zeros are exceptions.
    pub const MASKS_ZEROS: u32 = 256;

    /// Round in which a batch's kinds are measured: those without rough axes.
    pub const FIRST_ROUND: u32 = 0;
    /// Round in which a batch's kinds are measured: those with rough axes.
    pub const ROUGH_ROUND: u32 = 1;
    /// Round in which a batch's kinds are measured: those around the best one so far.
    pub const LAST_ROUND: u32 = 2;
}

shared_structs! {
    /// The tiles of a chunk.
    #[derive(Default)]
    pub struct TileShape {
        /// Shape of a tile, with the chunk's axes. `advance` is not used.
        pub shape: Shape,
        /// Values from one to the next along each axis, where tiles are read: in the chunk, or in a copy of the tile.
        pub strides: [u32; MAX_RANK],
        /// Number of a tile's coarsest level, a single value.
        pub coarsest: u32,
        /// How many of a tile's first residuals of interpolation do not count.
        pub uncounted_residuals: u32,
        /// A tile's values that have a neighbour before them along every axis longer than 1.
        pub counted: u32,
    }

    /// Counts over residuals of one predictor.
    #[derive(Default)]
    pub struct ResidualCounts {
        /// Residuals that are 0.
        pub zeros: u32,
        /// Residuals other than 0 that are directly behind a 0.
        pub rises: u32,
        /// Residuals below 0.
        pub negative: u32,
        /// Sum of the lengths in bits of all magnitudes.
        pub lengths: u32,
    }

    /// Counts over the tiles of a chunk.
    #[derive(Default)]
    pub struct TileSums {
        /// Differences along each set of axes.
        pub differences: [ResidualCounts; AXIS_SETS],
        /// Residuals of each kind of interpolation.
        pub residuals: [ResidualCounts; INTERPOLATION_KINDS],
        /// By kind of interpolation: escapes among these residuals, and exceptions that have a code; zeros do not count.
        pub outliers: [u32; INTERPOLATION_KINDS],
        /// By kind of interpolation: zeros among these residuals that are escapes.
        pub zero_escapes: [u32; INTERPOLATION_KINDS],
        /// Pairs of neighbours along a row of which exactly one is a zero.
        pub zero_edges: u32,
        /// Values between two steps of the fine grid.
        pub between_steps: u32,
        /// Values with a code that are out of the fine grid's reach.
        pub out_of_reach: u32,
        /// Blocks of threads that have added their counts.
        pub blocks_done: u32,
        // What follows is of a batch alone.
        /// 1 if interpolation is a candidate.
        pub is_interpolation_open: u32,
        /// Number of the better one of cubic and linear interpolation without rough axes.
        pub first_kind: u32,
        /// Number of the kind that is measured last, or `NO_KIND`.
        pub last_kind: u32,
        /// The best set of axes.
        pub set: u32,
        /// Number of the best kind of interpolation so far.
        pub best_kind: u32,
        /// Unused, so that the numbers behind it are aligned.
        pub padding: u32,
        /// Estimate of the bits of `best_kind`.
        pub best_bits: u64,
        /// Estimate of the bits of cubic interpolation without rough axes.
        pub cubic_bits: u64,
        /// Estimate of the bits of `set`, corrected for the chunk's first values along the axes.
        pub set_bits: u64,
    }

    /// The passes of the interpolation of a tile. The values of a pass are independent of each other; their residuals are consecutive.
    pub struct TilePasses {
        /// Number of passes.
        pub count: u32,
        /// Number of the residual behind a pass.
        pub ends: [u32; TILE_PASSES],
        /// Number of axes along which its values are odd.
        pub sizes: [u32; TILE_PASSES],
    }

    /// The tiles of a chunk to measure.
    pub struct TileJob {
        /// Width of the grid.
        pub step: f64,
        /// 1 / `step`.
        pub inverse_step: f64,
        /// The values that are exceptions because they stand for missing ones.
        pub fills: Fills,
        /// 1 if values are big-endian.
        pub big_endian: u32,
        /// 1 if positions are farther apart far from 0, as those of binary32 are.
        pub spacing_grows: u32,
        /// Kinds of interpolation to measure: 0 if interpolation is no candidate.
        pub candidates: u32,
        /// Shape of the tiles.
        pub tiles: TileShape,
        /// Address of each tile's first value.
        pub addresses: [u64; TILES],
        /// Numbers of the candidates, the kinds of interpolation; the first one is 0. Then zeros.
        pub candidate_numbers: [u8; INTERPOLATION_KINDS],
        /// Extents of a chunk, fastest first.
        pub extents: [u32; MAX_RANK],
        /// Kinds of interpolation with a rough axis that are measured in a batch: as many as axes are longer than 1, if several are.
        pub rough_kinds: u32,
        /// The tiles' share of the fixed cost of the planes of exceptions, in edges between zeros and other values.
        pub edges_of_planes: u32,
        /// Estimated bits per residual, in fixed point, below which interpolation has finer steps on coarse levels.
        pub finer_steps_below: u32,
        /// By index of a value, where it is read, in values from a tile's first one: `[MAX_TILE_VALUES]`.
        pub offsets: Pointer<u32>,
        /// The values whose differences count: `[MAX_TILE_VALUES]`.
        pub counted: Pointer<u32>,
        /// The passes of interpolation.
        pub passes: Pointer<TilePasses>,
        /// Where the neighbours of a tile's values are, and their weights: `[kind of interpolation][axis][residual]`, 16 bytes each.
        pub terms: Pointer<c_void>,
        /// Addresses of the chunks of a batch: `[chunk]`, and `addresses` has offsets in bytes. Null for one chunk.
        pub chunks: ConstPointer<u64>,
        /// Counts so far: `[chunk]`. 0 when the job begins and when it ends.
        pub sums: Pointer<TileSums>,
        /// Pinned memory to which the counts are copied: `[chunk]`. For one chunk alone.
        pub host_sums: Pointer<TileSums>,
        /// How interpolation codes the values of tiles: `[chunk][group of tiles][value][tile of the group]`. For a batch alone.
        pub entries: Pointer<i32>,
        /// Pinned memory to which the predictors of a batch are written: `[chunk]`.
        pub host_predictors: Pointer<u32>,
    }
}
