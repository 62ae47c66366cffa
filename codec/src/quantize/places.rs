//! How far the places of the fine grid are apart: see [`fine_grid`](crate::quantize::fine_grid).

/// Places in a step.
pub const PLACES: i32 = 8;
/// Places between two multiples of eight stand closer than an eighth of a step by this share.
const NARROWED: f64 = 1020.0 / 1021.0;
/// Distance of such places, in steps.
pub const SPACING: f64 = NARROWED / PLACES as f64;
/// Such places that a step has room for.
pub const PLACES_A_STEP: f64 = PLACES as f64 / NARROWED;
