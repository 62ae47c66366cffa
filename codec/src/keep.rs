//! Promises that a user may add to an error bound: the order of values stays, and values stay on their side of thresholds (FORMAT.md §11.5).

use std::fmt;

use crate::error::{Error, Result};

/// Most thresholds.
pub const MAX_THRESHOLDS: usize = 4;

/// Promises beside an error bound: of the order of values, and of the sides of thresholds. They do not hold for fills and NaN.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Keep {
    has_order: bool,
    is_halved: bool,
    count: usize,
    /// The first `count` are thresholds.
    thresholds: [f64; MAX_THRESHOLDS],
}

impl Keep {
    /// This, and the order: `x1 <= x2` implies `x1' <= x2'` for any two values of a chunk.
    #[must_use]
    pub fn and_order(self) -> Self {
        Self { has_order: true, ..self }
    }

    /// This, and the sides of one more threshold: values below, at and above it are restored below, at and above it.
    ///
    /// # Errors
    /// `InvalidArgument` for a threshold that is not finite, and if there are [`MAX_THRESHOLDS`].
    pub fn and_side_of(mut self, threshold: f64) -> Result<Self> {
        if !threshold.is_finite() {
            return Err(Error::invalid(format_args!("the threshold {threshold:?} is not finite")));
        }
        let Some(slot) = self.thresholds.get_mut(self.count) else {
            return Err(Error::invalid(format_args!("there are more than {MAX_THRESHOLDS} thresholds")));
        };
        (*slot, self.count) = (threshold, self.count + 1);
        Ok(self)
    }

    /// What a text asks for: `order`, `sign:C` with one threshold or more, or both, as in `order+sign:0:273.15`.
    ///
    /// # Errors
    /// `InvalidArgument` for another text, and those of [`Keep::and_side_of`].
    pub fn parse(text: &str) -> Result<Self> {
        let unknown =
            || Error::invalid(format_args!("keep={text} is unknown: give keep=order, keep=sign:0 or keep=order+sign:0:273.15"));
        let (keep, sides) = match text.strip_prefix("order") {
            Some("") => return Ok(Self::default().and_order()),
            Some(rest) => (Self::default().and_order(), rest.strip_prefix('+').ok_or_else(unknown)?),
            None => (Self::default(), text),
        };
        let mut thresholds = sides.strip_prefix("sign:").ok_or_else(unknown)?.split(':');
        thresholds.try_fold(keep, |keep, threshold| keep.and_side_of(threshold.parse().map_err(|_| unknown())?))
    }

    /// Whether nothing is kept beside the bound.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the order is kept.
    #[must_use]
    pub fn has_order(&self) -> bool {
        self.has_order
    }

    /// This, on a grid with half the step, on which values beside a threshold have codes.
    pub(crate) fn halved(self) -> Self {
        Self { is_halved: true, ..self }
    }

    /// Whether the grid has half the step.
    #[must_use]
    pub fn is_halved(&self) -> bool {
        self.is_halved
    }

    /// The thresholds whose sides are kept.
    #[must_use]
    pub fn thresholds(&self) -> &[f64] {
        &self.thresholds[..self.count]
    }

    /// Whether a restored value is on another side of a threshold than the value. False for NaN.
    #[inline(always)]
    #[must_use]
    pub fn is_crossed(&self, value: f64, restored: f64) -> bool {
        self.thresholds().iter().fold(false, |any, &threshold| any | is_on_other_side(threshold, value, restored))
    }
}

/// Whether two numbers are on different sides of a threshold: below, at or above it.
#[inline(always)]
pub(crate) fn is_on_other_side(threshold: f64, one: f64, other: f64) -> bool {
    ((one < threshold) != (other < threshold)) | ((one > threshold) != (other > threshold))
}

/// The text of [`Keep::parse`]; empty if nothing is kept.
impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_order {
            f.write_str("order")?;
        }
        if self.has_order && self.count > 0 {
            f.write_str("+")?;
        }
        for (number, threshold) in self.thresholds().iter().enumerate() {
            f.write_str(if number == 0 { "sign:" } else { ":" })?;
            match threshold.abs() {
                0.0 | 1e-4..1e15 => write!(f, "{threshold}")?,
                _ => write!(f, "{threshold:e}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_below_at_and_above() {
        let keep = Keep::default().and_side_of(0.0).unwrap().and_side_of(2.5).unwrap();
        for (value, restored, is_crossed) in [
            (0.0, 0.0, false),
            (0.0, -0.0, false),
            (0.1, 0.0, true),
            (0.0, 0.1, true),
            (-0.1, 0.1, true),
            (2.4, 2.5, true),
            (2.6, 9.0, false),
            (3.0, -1.0, true),
            (f64::NAN, f64::NAN, false),
        ] {
            assert_eq!(keep.is_crossed(value, restored), is_crossed, "{value} -> {restored}");
            assert!(!Keep::default().and_order().is_crossed(value, restored));
        }
    }
}
