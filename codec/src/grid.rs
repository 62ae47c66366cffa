//! Stage 0: what a chunk's values become integers by, and how those are predicted.

use crate::coded::Coded;
use crate::config::{Config, ErrorBound, is_absolute};
use crate::error::{Error, Result};
use crate::format::{Coding, Header};
use crate::integer::Integer as _;
use crate::lattice;
use crate::layout::{Layout, Scalar};
use crate::logarithm::{Logarithm, is_too_fine};
use crate::plane::take_array;
use crate::predictor::{Both, Choice, Chooser};
use crate::quantize::{Quantizer, Value};
use crate::steps::{Steps, Whole};

/// What errors call the beginning of a body.
const SECTION: &str = "grid";

/// Runs code for the floating-point type of a [`crate::Scalar`]; what follows `else` for a whole number's.
macro_rules! with_float {
    ($scalar:expr, $type:ident => $body:expr, else $other:expr) => {
        match $scalar {
            $crate::Scalar::F32 => {
                type $type = f32;
                $body
            }
            $crate::Scalar::F64 => {
                type $type = f64;
                $body
            }
            $crate::Scalar::F16 => {
                type $type = $crate::small_float::Binary16;
                $body
            }
            $crate::Scalar::BF16 => {
                type $type = $crate::small_float::BFloat16;
                $body
            }
            _ => $other,
        }
    };
}

/// Runs code for the whole numbers of a [`crate::Scalar`]; what follows `else` for a floating-point type.
macro_rules! with_whole {
    ($scalar:expr, $type:ident => $body:expr, else $other:expr) => {
        match $scalar {
            $crate::Scalar::I8 => {
                type $type = i8;
                $body
            }
            $crate::Scalar::U8 => {
                type $type = u8;
                $body
            }
            $crate::Scalar::I16 => {
                type $type = i16;
                $body
            }
            $crate::Scalar::U16 => {
                type $type = u16;
                $body
            }
            $crate::Scalar::I32 => {
                type $type = i32;
                $body
            }
            $crate::Scalar::U32 => {
                type $type = u32;
                $body
            }
            $crate::Scalar::I64 => {
                type $type = i64;
                $body
            }
            $crate::Scalar::U64 => {
                type $type = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// Runs code for the type of a [`crate::Scalar`].
macro_rules! with_element {
    ($scalar:expr, $type:ident => $body:expr) => {
        $crate::grid::with_float!($scalar, $type => $body, else $crate::grid::with_whole!($scalar, $type => $body, else unreachable!("a type is one or the other")))
    };
}

pub(crate) use {with_element, with_float, with_whole};

/// What a chunk's values become integers by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// An absolute bound's (FORMAT.md §5.1), or a lattice.
    Linear(Quantizer),
    /// Integers that stand for the values exactly (FORMAT.md §5.3).
    Exact,
    /// A whole number's multiples (FORMAT.md §5.4).
    Steps(Steps),
    /// A point-wise relative bound's (FORMAT.md §5.5).
    Logarithmic(Logarithm),
}

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
pub struct Fixed {
    /// The grid.
    pub grid: Grid,
    /// Number of exceptions.
    pub exceptions: u64,
    /// Bytes of both.
    pub len: usize,
}

impl Fixed {
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

/// Grid and predictor for a chunk of floating-point numbers that is not constant; `config` has a settled bound ([`crate::bound`]).
pub(crate) fn for_floats<V: Value>(
    chunk: &[u8],
    layout: &Layout,
    config: &Config,
    chooser: &mut Chooser,
    coded: &mut Coded<'_, V::Code>,
    both: Option<&mut Both<'_>>,
) -> Result<(Grid, Choice)> {
    let order = layout.byte_order;
    match config.bound {
        ErrorBound::Absolute(bound) => {
            let quantizer = Quantizer::for_chunk::<V>(chunk, order, bound, config.fill::<V>());
            let choice = chooser.choose::<V>(chunk, layout, &quantizer, config, coded, both)?;
            Ok((Grid::Linear(quantizer), choice))
        }
        ErrorBound::PointwiseRelative(bound) if !is_too_fine(bound, V::SIZE) => {
            let grid = Logarithm::for_chunk::<V>(chunk, order, bound, config.fill::<V>());
            let code = |value: V| grid.nearest(value).to_i64();
            let (axes, _) = chooser.choose_axes::<V>(chunk, layout, config.predictor, code)?;
            Ok((Grid::Logarithmic(grid), axes.into()))
        }
        ErrorBound::Lossless | ErrorBound::PointwiseRelative(_) => {
            let (axes, bits) = chooser.choose_axes::<V>(chunk, layout, config.predictor, |value: V| value.to_code().to_i64())?;
            if let Some(spacing) = lattice::exact_spacing::<V>(chunk, order) {
                let inverse = spacing.recip();
                let code = |value: V| (value.to_f64() * inverse) as i64;
                let (axes, lattice_bits) = chooser.choose_axes::<V>(chunk, layout, config.predictor, code)?;
                if lattice_bits < bits {
                    return Ok((Grid::Linear(Quantizer::exact(spacing)), axes.into()));
                }
            }
            Ok((Grid::Exact, axes.into()))
        }
        bound => Err(unsettled(bound)),
    }
}

/// The same for whole numbers.
pub(crate) fn for_whole_numbers<V: Whole>(
    chunk: &[u8],
    layout: &Layout,
    config: &Config,
    chooser: &mut Chooser,
) -> Result<(Grid, Choice)> {
    let grid = match config.bound {
        ErrorBound::Absolute(bound) if bound >= 1.0 => Grid::Steps(Steps::new::<V>(bound as u64, config.fill::<V>())),
        ErrorBound::Absolute(_) | ErrorBound::Lossless => Grid::Exact,
        bound => return Err(unsettled(bound)),
    };
    let code = |value: V| match &grid {
        Grid::Steps(steps) => value.nearest(steps).to_i64(),
        _ => value.to_code().to_i64(),
    };
    let (axes, _) = chooser.choose_axes::<V>(chunk, layout, config.predictor, code)?;
    Ok((grid, axes.into()))
}

fn unsettled(bound: ErrorBound) -> Error {
    Error::invalid(format_args!("{bound:?} cannot be a chunk's own bound: settle it first"))
}
