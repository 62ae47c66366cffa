//! The grid of an absolute bound, or of a lattice: multiples of a step.

use crate::number::value::Value;

/// Grid on which values are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantizer {
    bound: f64,
    step: f64,
    inverse_step: f64,
    /// Bits of the fill value, sign extended, if values that have them must be told from others to become exceptions.
    fill: Option<i64>,
}

impl Quantizer {
    /// The grid of an absolute bound that has passed [`crate::Config::absolute`].
    #[must_use]
    pub fn new(bound: f64) -> Self {
        Self::with_step(bound, 2.0 * bound)
    }

    /// The grid of a lattice that gives every number on it back as it is.
    #[must_use]
    pub fn exact(spacing: f64) -> Self {
        Self::with_step(0.0, spacing)
    }

    pub(crate) fn with_step(bound: f64, step: f64) -> Self {
        Self { bound, step, inverse_step: 1.0 / step, fill: None }
    }

    /// Half the distance of two neighbours on the grid, as the stream names it.
    #[must_use]
    pub fn half_step(&self) -> f64 {
        self.step / 2.0
    }

    pub(crate) fn bound(&self) -> f64 {
        self.bound
    }

    pub(crate) fn step(&self) -> f64 {
        self.step
    }

    pub(crate) fn inverse_step(&self) -> f64 {
        self.inverse_step
    }

    pub(crate) fn with_fill(self, fill: Option<i64>) -> Self {
        Self { fill, ..self }
    }

    pub(crate) fn fill(&self) -> Option<i64> {
        self.fill
    }

    /// A magnitude from which on values are certain to be of as many steps or more; infinity where the type has no other that is close.
    pub(crate) fn magnitude_of<V: Value>(&self, steps: f64) -> V {
        // More than rounding takes away, but from subnormal numbers.
        let magnitude = V::round_from(1.01 * steps * self.step);
        if magnitude.to_f64() * self.inverse_step >= steps { magnitude } else { V::round_from(f64::INFINITY) }
    }
}
