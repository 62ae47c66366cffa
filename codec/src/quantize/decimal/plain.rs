//! FORMAT.md §5.6 word for word, one value at a time: the grid of quotients and its encoder.

use crate::number::value::Value;

/// A grid, given by its divisor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain {
    pub(super) divisor: u64,
}

impl Plain {
    /// Decoder: the value of a code.
    pub(super) fn value<V: Value>(self, code: i64) -> V {
        V::round_from(code as f64 / self.divisor as f64)
    }

    /// Encoder: the code of a value; `None` for an exception.
    pub(super) fn code<V: Value>(self, value: V) -> Option<i64> {
        let code = (value.to_f64() * self.divisor as f64).round_ties_even();
        let limit = 2f64.powi(if V::SIZE == 8 { 51 } else { 31 });
        (code.abs() < limit && self.value::<V>(code as i64).to_bits() == value.to_bits()).then_some(code as i64)
    }
}
