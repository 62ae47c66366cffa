//! The grids that a chunk's values may become integers by.

use crate::quantize::integer_steps::Steps;
use crate::quantize::logarithm::Logarithm;
use crate::quantize::quantizer::Quantizer;

/// What a chunk's values become integers by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// An absolute bound's (FORMAT.md §5.1), or a lattice.
    Linear(Quantizer),
    /// Integers that stand for the values exactly (FORMAT.md §5.3).
    Exact,
    /// A whole number's multiples (FORMAT.md §5.4).
    Steps(Steps),
    /// A point-wise relative bound's (FORMAT.md §5.5).
    Logarithmic(Logarithm),
}
