//! How far the positions of the fine grid are apart: see [`fine_grid`](crate::quantize::fine_grid).

/// Places in a step.
pub const POSITIONS_PER_STEP: i32 = 8;
/// Places between two multiples of eight stand closer than an eighth of a step by this share.
const NARROWED: f64 = 1020.0 / 1021.0;
/// Distance of such positions, in steps.
pub const SPACING: f64 = NARROWED / POSITIONS_PER_STEP as f64;
/// Such positions that a step has room for.
pub const SPACINGS_PER_STEP: f64 = POSITIONS_PER_STEP as f64 / NARROWED;
