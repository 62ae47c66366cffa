//! Fills: the values of a chunk that stand for missing ones. A fill is the dataset's fill value, or a far value (FORMAT.md §11.2). Fills are restored bit for
//! bit, and count for no range.

use crate::number::element::Element;
use crate::number::integer::Integer as _;

/// The range of those values of a chunk that are not far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub greatest: f64,
}

impl Span {
    /// The span of a chunk without far values.
    pub const ALL: Self = Self { least: f64::NEG_INFINITY, greatest: f64::INFINITY };

    /// Whether a value is far. False for NaN.
    #[inline(always)]
    #[must_use]
    pub fn is_far(self, value: f64) -> bool {
        (value < self.least) | (value > self.greatest)
    }
}

/// The fills of a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fills {
    /// Bits of the fill value, sign extended.
    value: Option<i64>,
    span: Span,
}

impl Fills {
    /// No value is a fill.
    pub const NONE: Self = Self { value: None, span: Span::ALL };

    /// The fills of a chunk with a fill value and a span.
    #[must_use]
    pub fn new<V: Element>(value: Option<V>, span: Span) -> Self {
        Self::from_bits(value.map(Element::to_bits_i64), span)
    }

    /// The fills of a chunk with the bits of a fill value, sign extended, and a span.
    #[must_use]
    pub fn from_bits(value: Option<i64>, span: Span) -> Self {
        Self { value, span }
    }

    /// These fills without the fill value.
    pub(crate) fn far_values(self) -> Self {
        Self { value: None, ..self }
    }

    /// Bits of the fill value, sign extended.
    #[must_use]
    pub fn value(&self) -> Option<i64> {
        self.value
    }

    /// The span of the values that are not far.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// Whether no value is a fill.
    #[inline(always)]
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether a value is a fill.
    #[inline(always)]
    #[must_use]
    pub fn has<V: Element>(&self, value: V) -> bool {
        self.value == Some(value.to_bits_i64()) || self.span != Span::ALL && self.span.is_far(value.approximate())
    }

    /// Whether any value is a fill.
    #[inline(always)]
    #[must_use]
    pub fn has_any<V: Element>(&self, values: &[V]) -> bool {
        let is_value = |bits: i64| values.iter().fold(false, |any, value| any | (value.to_bits() == V::Code::from_i64(bits)));
        let is_far = |span: Span| values.iter().fold(false, |any, value| any | span.is_far(value.approximate()));
        self.value.is_some_and(is_value) || self.span != Span::ALL && is_far(self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_are_found_by_their_bits_or_by_the_span() {
        let fills = Fills::new(Some(0.0f32), Span { least: -1.5, greatest: 300.0 });
        for (value, is_fill) in [
            (0.0f32, true),
            (-0.0, false),
            (-1.5, false),
            (-1.500_001, true),
            (300.0, false),
            (300.1, true),
            (f32::NAN, false),
            (f32::INFINITY, true),
        ] {
            assert_eq!((fills.has(value), fills.has_any(&[7.0, value])), (is_fill, is_fill), "{value}");
        }
        assert!(Fills::NONE.is_none() && !fills.is_none() && !Fills::NONE.has_any(&[f64::MAX, f64::NAN, f64::INFINITY]));
        assert!(!fills.far_values().has(0.0f32) && fills.far_values().has(-9999.0f32));
    }
}
