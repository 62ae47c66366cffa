//! Stage 2 (FORMAT.md §6): codes → differences, or values → residuals of interpolation, and back. Stage 0 chooses the predictor.

pub mod choice;
pub mod interpolation;
pub mod lorenzo;
pub mod predictor;
mod sums;
