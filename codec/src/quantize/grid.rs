//! The kinds of grid by which a chunk's values become integers.

use crate::layout::ByteOrder;
use crate::number::integer::Integer;
use crate::number::value::Value;
use crate::quantize::decimal::{self, Decimal};
use crate::quantize::integer_steps::Steps;
use crate::quantize::linear;
use crate::quantize::logarithm::Logarithm;
use crate::quantize::quantizer::Quantizer;

/// A chunk's grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// Multiples of a step, for an absolute bound (FORMAT.md §5.1) or a lattice.
    Linear(Quantizer),
    /// No grid: integers that encode the values exactly (FORMAT.md §5.3).
    Exact,
    /// Multiples of an odd whole number, for a bound of integers (FORMAT.md §5.4).
    Steps(Steps),
    /// Equal steps of the logarithm, for a point-wise relative bound (FORMAT.md §5.5).
    Logarithmic(Logarithm),
    /// Whole numbers over a divisor, for the exact bits of decimals (FORMAT.md §5.6).
    Decimal(Decimal),
}

/// A grid whose codes are decoded as integers of any width: most codes of f64 fit 32 bits.
pub(crate) trait Restore {
    /// Restores the values of a chunk from their codes. Exceptions are overwritten afterwards.
    fn restore<V: Value, C: Integer>(&self, codes: &[C], order: ByteOrder, chunk: &mut [u8]);
}

impl Restore for Quantizer {
    fn restore<V: Value, C: Integer>(&self, codes: &[C], order: ByteOrder, chunk: &mut [u8]) {
        linear::restore::<V, C>(codes, self, order, chunk);
    }
}

impl Restore for Decimal {
    fn restore<V: Value, C: Integer>(&self, codes: &[C], order: ByteOrder, chunk: &mut [u8]) {
        decimal::restore::<V, C>(codes, self, order, chunk);
    }
}
