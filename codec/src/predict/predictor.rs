//! The predictors of a plane, as a stream names them (FORMAT.md §6).

use crate::layout::Axes;

/// How the codes of a chunk are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Differences, along these axes, of codes on the rounding grid.
    Differences(Axes),
    /// Interpolation of positions on the fine grid.
    Interpolation,
}

/// A plane's byte for interpolation; smaller bytes are sets of axes.
pub const INTERPOLATION: u8 = 0x80;

impl Predictor {
    /// The predictor's byte in a plane.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Differences(axes) => axes.to_byte(),
            Self::Interpolation => INTERPOLATION,
        }
    }
}

impl From<Axes> for Predictor {
    fn from(axes: Axes) -> Self {
        Self::Differences(axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;

    #[test]
    fn no_set_of_axes_is_taken_for_interpolation() {
        let shape = Shape::new(&[2, 3, 4, 5]).unwrap();
        assert_eq!(Axes::from_byte(INTERPOLATION, &shape), None);
        for byte in 0..16 {
            let axes = Axes::from_byte(byte, &shape).unwrap();
            assert_eq!(Predictor::from(axes).to_byte(), byte);
        }
        assert_eq!(Predictor::Interpolation.to_byte(), INTERPOLATION);
    }
}
