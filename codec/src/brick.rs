//! Bricks: parts of arrays of several axes that a program writes value after value into a dataset of one axis. `brick=32x32x32` says that every 32768 values of
//! a chunk are a brick of three axes. Predictors then know which values are neighbours.

use std::fmt;

use crate::error::{Error, Result};
use crate::layout::{Layout, MAX_RANK, Shape};

/// The extents of a brick, slowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Brick {
    extents: [u32; MAX_RANK],
    rank: u8,
}

impl Brick {
    /// A brick of 1 to 4 extents, slowest first.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no extents or more than four, or if one is 0.
    pub fn new(extents: &[u32]) -> Result<Self> {
        if !(1..=MAX_RANK).contains(&extents.len()) || extents.contains(&0) {
            return Err(refused(format_args!("{extents:?}")));
        }
        let mut brick = Self { extents: [1; MAX_RANK], rank: extents.len() as u8 };
        brick.extents[..extents.len()].copy_from_slice(extents);
        Ok(brick)
    }

    /// The brick of a text such as `32x32x32`.
    ///
    /// # Errors
    /// `InvalidArgument` for an extent that is no whole number, and for extents that [`Brick::new`] refuses.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut extents, mut rank) = ([0; MAX_RANK], 0);
        for number in text.split('x') {
            let extent = number.parse().map_err(|_| refused(format_args!("{text:?}")))?;
            *extents.get_mut(rank).ok_or_else(|| refused(format_args!("{text:?}")))? = extent;
            rank += 1;
        }
        Self::new(&extents[..rank])
    }

    /// The extents, slowest first.
    #[must_use]
    pub fn extents(&self) -> &[u32] {
        &self.extents[..usize::from(self.rank)]
    }
}

fn refused(seen: fmt::Arguments<'_>) -> Error {
    Error::invalid(format_args!("brick {seen}: it must have 1 to {MAX_RANK} extents, slowest first, each from 1 to {}", u32::MAX))
}

/// The text that [`Brick::parse`] reads.
impl fmt::Display for Brick {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, extent) in self.extents().iter().enumerate() {
            write!(formatter, "{}{extent}", if axis == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}

impl Shape {
    /// The shape of a chunk whose values lie in bricks; this shape if no brick is given. The fastest extents are those of the brick, as many as have a product
    /// that divides the number of values. The quotient is the slowest extent. So a chunk of whole bricks has all of the brick's extents, and a chunk of whole
    /// slices has two of them. The order of the values does not change.
    ///
    /// # Errors
    /// `InvalidArgument` if the chunk has no whole number of the brick's rows.
    pub fn in_bricks(self, brick: Option<Brick>) -> Result<Self> {
        let Some(brick) = brick else { return Ok(self) };
        let values = self.elements();
        // The number of runs, then the extents of a run. They are filled in from the fastest extent on.
        let mut dims = [0; MAX_RANK + 1];
        let (mut run, mut first) = (1u64, dims.len());
        for &extent in brick.extents().iter().rev() {
            match run.checked_mul(extent.into()).filter(|&longer| values.is_multiple_of(longer)) {
                Some(longer) => run = longer,
                None => break,
            }
            first -= 1;
            dims[first] = extent.into();
        }
        if first == dims.len() {
            let row = brick.extents()[brick.extents().len() - 1];
            return Err(Error::invalid(format_args!(
                "brick={brick}: a chunk has {values} values, which are no whole number of the brick's rows of {row}: choose chunks of whole bricks, \
                 or of a multiple of {row} values, or leave the brick out"
            )));
        }
        first -= 1;
        dims[first] = values / run;
        Self::fold(&dims[first..])
    }
}

impl Layout {
    /// The layout of a chunk whose elements lie in bricks ([`Shape::in_bricks`]).
    ///
    /// # Errors
    /// Those of [`Shape::in_bricks`].
    pub fn in_bricks(self, brick: Option<Brick>) -> Result<Self> {
        Self::of_chunk(self.scalar, self.byte_order, self.elements().in_bricks(brick)?.dims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brick(extents: &[u32]) -> Brick {
        Brick::new(extents).unwrap()
    }

    #[test]
    fn texts_and_bricks_are_the_same() {
        for (text, extents) in [("7", &[7][..]), ("32x32x32", &[32; 3]), ("1x2x3x4294967295", &[1, 2, 3, u32::MAX])] {
            assert_eq!(Brick::parse(text), Ok(brick(extents)));
            assert_eq!(brick(extents).to_string(), text);
        }
        for text in ["", "x", "32x", "0x32", "32x-1", "1x2x3x4x5", "4294967296", "32 x 32", "32X32", "3.5"] {
            let error = Brick::parse(text).unwrap_err().to_string();
            assert!(error.contains("1 to 4 extents, slowest first, each from 1 to 4294967295"), "{text:?}: {error}");
        }
        for extents in [&[][..], &[0], &[3, 0, 3], &[1; 5]] {
            assert!(Brick::new(extents).is_err(), "{extents:?}");
        }
    }

    #[test]
    fn a_chunk_has_the_longest_runs_of_whole_extents() {
        for (values, extents, dims) in [
            // Whole bricks: their number comes first.
            (16 * 32768, &[32, 32, 32][..], &[16, 32, 32, 32][..]),
            (32768, &[32, 32, 32], &[32, 32, 32]),
            (6 * 210, &[2, 3, 5, 7], &[12, 3, 5, 7]),
            // Whole slices and whole rows.
            (1024, &[32, 32, 32], &[32, 32]),
            (3 * 1024, &[32, 32, 32], &[3, 32, 32]),
            (1024, &[64, 64, 64], &[16, 64]),
            (64, &[64, 64, 64], &[64]),
            (33 * 32, &[32, 32, 32], &[33, 32]),
            // Extents of 1 are no axes.
            (2048, &[1, 32, 1, 32], &[2, 32, 32]),
            (35, &[5, 1], &[7, 5]),
            (7, &[1], &[7]),
            (6, &[u32::MAX, u32::MAX, u32::MAX, 3], &[2, 3]),
        ] {
            let shape = Shape::fold(&[values]).unwrap().in_bricks(Some(brick(extents))).unwrap();
            assert_eq!((shape.dims(), shape.elements()), (dims, values), "{values} values in bricks of {extents:?}");
            assert_eq!(shape.in_bricks(None), Ok(shape));
            assert_eq!(shape.in_bricks(Some(brick(extents))), Ok(shape), "values, not axes, are what a brick divides");
        }
    }

    #[test]
    fn a_chunk_without_whole_rows_is_refused() {
        for (values, extents) in [(1000, &[32, 32, 32][..]), (16, &[4, 32]), (1, &[2]), (1 << 48, &[3])] {
            let text = Shape::fold(&[values]).unwrap().in_bricks(Some(brick(extents))).unwrap_err().to_string();
            let row = extents[extents.len() - 1];
            assert!(
                text.contains(&format!("a chunk has {values} values, which are no whole number of the brick's rows of {row}")),
                "{text}"
            );
        }
    }
}
