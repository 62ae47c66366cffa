//! FORMAT.md §5.4 word for word, one value at a time and in 128 bits: the steps of integers.

use crate::keep::Keep;
use crate::number::integer::Integer;
use crate::quantize::fills::Fills;
use crate::quantize::integer_steps::IntegerElement;

/// A grid, given by its bound `e`, the fills that its encoder knows, and what is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain {
    pub(super) bound: u64,
    pub(super) fills: Fills,
    pub(super) keep: Keep,
}

impl Plain {
    fn step(&self) -> i128 {
        2 * i128::from(self.bound) + 1
    }

    /// Decoder: the value of a code.
    pub(super) fn value<V: IntegerElement>(&self, code: i64) -> i128 {
        let (least, greatest) = range::<V>();
        (i128::from(code) * self.step()).clamp(least, greatest)
    }

    /// Encoder: the code of a value, and whether the value is an exception.
    pub(super) fn code<V: IntegerElement>(&self, value: V) -> (i64, bool) {
        let x = value.exactly();
        let code = (x + i128::from(self.bound)).div_euclid(self.step()) as i64;
        let restored = self.value::<V>(code);
        (code, self.fills.has(value) && restored != x || self.keep.is_crossed(x as f64, restored as f64))
    }
}

/// The least and the greatest integer of a type.
fn range<V: IntegerElement>() -> (i128, i128) {
    let numbers = 1i128 << (8 * V::SIZE);
    let has_sign = V::from_bits(V::Code::from_i64(-1)).exactly() == -1;
    if has_sign { (-numbers / 2, numbers / 2 - 1) } else { (0, numbers - 1) }
}
