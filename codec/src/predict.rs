//! Stage 2 (FORMAT.md §6): integers → what a predictor leaves of them, and back; and the choice of the predictor.

pub mod choice;
pub(crate) mod coded;
pub mod interpolation;
pub mod lorenzo;
pub mod predictor;
mod sums;
