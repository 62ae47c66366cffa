//! What the body of a stream begins with (FORMAT.md §4): the grid, and the number of exceptions.

use crate::config::is_absolute;
use crate::error::{Error, Result};
use crate::layout::{Layout, Scalar};
use crate::number::dispatch::{with_float, with_whole};
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{Steps, Whole};
use crate::quantize::logarithm::Logarithm;
use crate::quantize::quantizer::Quantizer;
use crate::reader::take_array;
use crate::stream::header::{Coding, Header};

/// What errors call it.
const SECTION: &str = "grid";

impl Grid {
    /// How a stream names it.
    #[must_use]
    pub fn coding(&self) -> Coding {
        match self {
            Self::Linear(_) => Coding::Quantized,
            Self::Exact => Coding::Exact,
            Self::Steps(_) => Coding::Steps,
            Self::Logarithmic(_) => Coding::Logarithmic,
        }
    }

    /// Appends what the body of a stream says of the grid.
    pub(crate) fn write_to(&self, stream: &mut Vec<u8>) {
        match self {
            Self::Linear(quantizer) => stream.extend_from_slice(&quantizer.half_step().to_le_bytes()),
            Self::Exact => {}
            Self::Steps(steps) => stream.extend_from_slice(&steps.bound().to_le_bytes()),
            Self::Logarithmic(grid) => {
                stream.extend_from_slice(&grid.half_step().to_le_bytes());
                stream.extend_from_slice(&grid.offset().to_le_bytes());
            }
        }
    }
}

/// What the body of a stream begins with (FORMAT.md §4), read and checked.
#[derive(Debug, Clone, Copy)]
pub struct BodyHeader {
    /// The grid.
    pub grid: Grid,
    /// Number of exceptions.
    pub exceptions: u64,
    /// Bytes of both.
    pub len: usize,
}

impl BodyHeader {
    /// Reads it from the body of a stream that is neither stored nor constant.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn read(header: &Header, body: &[u8]) -> Result<Self> {
        let Layout { scalar, shape, .. } = &header.layout;
        let mut rest = body;
        let mut take_u64 = || Ok(u64::from_le_bytes(*take_array(&mut rest, SECTION)?));
        let half_step = |bits: u64| {
            let half_step = f64::from_bits(bits);
            if is_absolute(half_step) { Ok(half_step) } else { Err(bad_half_step(half_step)) }
        };
        let grid = match header.coding {
            Coding::Quantized => Grid::Linear(Quantizer::new(half_step(take_u64()?)?)),
            Coding::Logarithmic => Grid::Logarithmic(Logarithm::new(half_step(take_u64()?)?, take_u64()?.cast_signed())),
            Coding::Steps => Grid::Steps(with_whole!(
                scalar,
                V => steps_of::<V>(take_u64()?)?,
                else return Err(Error::corrupt(SECTION, format_args!("{scalar:?} has no steps")))
            )),
            Coding::Exact | Coding::Stored | Coding::Constant => return Ok(Self { grid: Grid::Exact, exceptions: 0, len: 0 }),
        };
        let exceptions = take_u64()?;
        let elements = shape.elements();
        if exceptions > elements {
            return Err(Error::corrupt(
                SECTION,
                format_args!("it says {exceptions} exceptions, the chunk has {elements} values"),
            ));
        }
        Ok(Self { grid, exceptions, len: body.len() - rest.len() })
    }

    /// Whether values of a type can have been interpolated on the grid.
    #[must_use]
    pub fn can_be_interpolated(&self, scalar: Scalar) -> bool {
        match &self.grid {
            Grid::Linear(quantizer) => with_float!(scalar, V => quantizer.fine::<V>().is_some(), else false),
            _ => false,
        }
    }
}

fn bad_half_step(half_step: f64) -> Error {
    Error::corrupt(
        SECTION,
        format_args!("half step is {half_step:e}: it must be above 0, and neither twice that nor the inverse may overflow"),
    )
}

fn steps_of<V: Whole>(bound: u64) -> Result<Steps> {
    if bound == 0 || bound > V::WIDEST {
        return Err(Error::corrupt(SECTION, format_args!("its bound is {bound}, not 1 to {}", V::WIDEST)));
    }
    Ok(Steps::new::<V>(bound, None))
}
