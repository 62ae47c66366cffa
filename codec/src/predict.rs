//! Stage 2 (FORMAT.md §6): integers → what a predictor leaves of them, and back; and the choice of the predictor.

pub mod choice;
pub mod interpolation;
pub mod lorenzo;
pub mod predictor;
pub(crate) mod quantized;
mod sums;
