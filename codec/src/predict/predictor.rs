//! The predictors of a plane, as a stream names them (FORMAT.md §6).

use crate::layout::{Axes, Shape};

/// How the codes of a chunk are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Differences, along these axes, of codes on the rounding grid.
    Differences(Axes),
    /// Interpolation of positions on the fine grid.
    Interpolation(InterpolationKind),
}

/// What a residual of 1 is worth on each level of a chunk (FORMAT.md §6.2). Smaller steps on coarse levels cost few bits, as these levels have few values, and
/// make the predictions of all finer levels better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LevelSteps {
    /// A residual of 1 is worth a step on all levels.
    #[default]
    Equal,
    /// A residual of 1 is worth less on coarser levels, down to three eighths of a step.
    Finer,
    /// A residual of 1 is worth half as much on each coarser level, down to an eighth of a step.
    Halved,
}

impl LevelSteps {
    /// All steps, in the order of their numbers in a plane's byte.
    pub const ALL: [Self; 3] = [Self::Equal, Self::Finer, Self::Halved];

    /// Positions that a residual of 1 is worth on a level; the chunk is level 0.
    #[must_use]
    pub const fn positions(self, level: usize) -> i32 {
        const OF_LEVELS: [[i32; 4]; 3] = [[8, 8, 8, 8], [8, 6, 4, 3], [8, 4, 2, 1]];
        OF_LEVELS[self as usize][if level < 3 { level } else { 3 }]
    }
}

/// How a value is interpolated from its neighbours (FORMAT.md §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterpolationKind {
    /// Set of the rough axes; bit 0 is the fastest axis. A value is interpolated along rough axes only if its index is even along all others.
    rough: u8,
    /// Whether interpolation is linear, from two neighbours along an axis. Otherwise it is cubic, from four.
    is_linear: bool,
    steps: LevelSteps,
}

/// A plane's byte for cubic interpolation without rough axes. Smaller bytes are sets of axes.
pub const INTERPOLATION: u8 = 0x80;
/// The bit of a plane's byte that says that interpolation is linear. The bits below it are the rough axes.
pub const LINEAR_INTERPOLATION: u8 = 0x10;
/// The lowest bit of the number of [`LevelSteps`] in a plane's byte, which has two bits.
pub const LEVEL_STEPS: u8 = 0x20;

impl InterpolationKind {
    /// Cubic interpolation without rough axes, the default.
    pub const CUBIC: Self = Self::new(0, false);

    /// Interpolation with a set of rough axes, and with equal steps on all levels.
    #[must_use]
    pub const fn new(rough: u8, is_linear: bool) -> Self {
        Self { rough, is_linear, steps: LevelSteps::Equal }
    }

    /// This kind of interpolation, with these steps in place of its own.
    #[must_use]
    pub const fn with_steps(self, steps: LevelSteps) -> Self {
        Self { steps, ..self }
    }

    /// The kind of a plane's byte. `None` if the byte is a set of axes or reserved, or if the shape lacks a rough axis of the byte.
    #[must_use]
    pub fn from_byte(byte: u8, shape: &Shape) -> Option<Self> {
        let rough = byte & (LINEAR_INTERPOLATION - 1);
        let is_known = byte & INTERPOLATION != 0 && Axes::from_byte(rough, shape).is_some();
        let steps = LevelSteps::ALL.get(usize::from((byte & !INTERPOLATION) / LEVEL_STEPS)).filter(|_| is_known)?;
        Some(Self { rough, is_linear: byte & LINEAR_INTERPOLATION != 0, steps: *steps })
    }

    /// The kind's byte in a plane.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        INTERPOLATION | (LEVEL_STEPS * self.steps as u8) | if self.is_linear { LINEAR_INTERPOLATION } else { 0 } | self.rough
    }

    /// Number of the kind among all kinds of equal steps, from 0: the low bits of its byte.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.to_byte() & (LEVEL_STEPS - 1))
    }

    /// What residuals are worth.
    #[must_use]
    pub fn steps(self) -> LevelSteps {
        self.steps
    }

    /// Whether interpolation is linear; otherwise it is cubic.
    #[must_use]
    pub fn is_linear(self) -> bool {
        self.is_linear
    }

    /// The set of rough axes.
    #[must_use]
    pub fn rough(self) -> u8 {
        self.rough
    }

    /// The set of axes along which a value is interpolated. `odd`: the axes along which the value's index is odd, at least one.
    #[must_use]
    #[inline(always)]
    pub fn axes_of(self, odd: usize) -> usize {
        let smooth = odd & !usize::from(self.rough);
        if smooth == 0 { odd } else { smooth }
    }
}

impl Predictor {
    /// The predictor's byte in a plane.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Self::Differences(axes) => axes.to_byte(),
            Self::Interpolation(kind) => kind.to_byte(),
        }
    }

    /// Whether the predictor is interpolation.
    #[must_use]
    pub fn is_interpolation(self) -> bool {
        matches!(self, Self::Interpolation(_))
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

    #[test]
    fn no_set_of_axes_is_taken_for_interpolation() {
        let shape = Shape::new(&[2, 3, 4, 5]).unwrap();
        for byte in 0..=255 {
            let (axes, kind) = (Axes::from_byte(byte, &shape), InterpolationKind::from_byte(byte, &shape));
            assert!(axes.is_none() || kind.is_none());
            assert_eq!(axes.is_some(), byte < 16);
            assert_eq!(kind.is_some(), (128..224).contains(&byte));
            for predictor in axes.map(Predictor::from).into_iter().chain(kind.map(Predictor::Interpolation)) {
                assert_eq!(predictor.to_byte(), byte);
            }
        }
        assert_eq!(InterpolationKind::CUBIC.to_byte(), INTERPOLATION);
    }

    #[test]
    fn the_rough_axes_are_those_of_the_shape() {
        let shape = Shape::new(&[3, 4]).unwrap();
        for byte in 128..224 {
            assert_eq!(InterpolationKind::from_byte(byte, &shape).is_some(), byte & 0b1100 == 0, "{byte}");
        }
    }

    #[test]
    fn coarse_levels_have_smaller_steps() {
        for (byte, of_levels) in [(0x80, [8, 8, 8, 8, 8]), (0xa0, [8, 6, 4, 3, 3]), (0xc0, [8, 4, 2, 1, 1])] {
            let kind = InterpolationKind::from_byte(byte, &Shape::new(&[9]).unwrap()).unwrap();
            assert_eq!([0, 1, 2, 3, 30].map(|level| kind.steps().positions(level)), of_levels);
            assert_eq!((kind.to_byte(), kind.number()), (byte, 0));
            assert_eq!(InterpolationKind::CUBIC.with_steps(kind.steps()), kind);
        }
    }

    #[test]
    fn rough_axes_count_where_no_others_are_odd() {
        let kind = InterpolationKind::new(0b0101, false);
        for (odd, axes) in [(0b0001, 0b0001), (0b0011, 0b0010), (0b0101, 0b0101), (0b1111, 0b1010), (0b1000, 0b1000)] {
            assert_eq!(kind.axes_of(odd), axes, "{odd:04b}");
        }
    }
}
