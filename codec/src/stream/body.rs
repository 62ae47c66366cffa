//! The start of a body with a grid (FORMAT.md §4): half step, bound or divisor, then offset or limits, then the number of exceptions.

use crate::config::is_absolute;
use crate::error::{Error, Result};
use crate::layout::{Layout, Scalar};
use crate::number::dispatch::{with_float, with_integer};
use crate::quantize::decimal::Decimal;
use crate::quantize::exceptions::index_len;
use crate::quantize::fills::Fills;
use crate::quantize::grid::Grid;
use crate::quantize::integer_steps::{IntegerElement, Steps};
use crate::quantize::limits::{LIMITS_BIT, Limits};
use crate::quantize::logarithm::Logarithm;
use crate::quantize::quantizer::Quantizer;
use crate::reader::{take, take_array};
use crate::stream::header::{Coding, Header};

/// The section's name in errors.
const SECTION: &str = "grid";

impl Grid {
    /// The coding of streams with this grid.
    #[must_use]
    pub fn coding(&self) -> Coding {
        match self {
            Self::Linear(_) => Coding::Quantized,
            Self::Exact => Coding::Exact,
            Self::Steps(_) => Coding::Steps,
            Self::Logarithmic(_) => Coding::Logarithmic,
            Self::Decimal(_) => Coding::Decimal,
        }
    }

    /// Appends half step, bound or divisor, then offset or limits. `stream` has 16 bytes of spare capacity.
    pub(crate) fn write_to(&self, stream: &mut Vec<u8>) {
        match self {
            Self::Linear(quantizer) => {
                let (bits, limits) = (quantizer.half_step().to_bits(), quantizer.limits());
                if limits.is_none() {
                    stream.extend_from_slice(&bits.to_le_bytes());
                } else {
                    stream.extend_from_slice(&(bits | LIMITS_BIT).to_le_bytes());
                    [limits.lower, limits.upper].iter().for_each(|limit| stream.extend_from_slice(&limit.to_le_bytes()));
                }
            }
            Self::Exact => {}
            Self::Steps(steps) => stream.extend_from_slice(&steps.bound().to_le_bytes()),
            Self::Decimal(grid) => stream.extend_from_slice(&grid.divisor().to_le_bytes()),
            Self::Logarithmic(grid) => {
                stream.extend_from_slice(&grid.half_step().to_le_bytes());
                stream.extend_from_slice(&grid.offset().to_le_bytes());
            }
        }
    }
}

/// The start of a body, read and checked.
#[derive(Debug, Clone, Copy)]
pub struct BodyHeader {
    /// The grid.
    pub grid: Grid,
    /// Number of exceptions.
    pub exceptions: u64,
    /// Bytes of grid and number of exceptions. 0 for an exact chunk, which has neither.
    pub len: usize,
}

impl BodyHeader {
    /// Reads the start of the body of a stream that is neither stored nor constant.
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
            Coding::Quantized => {
                let bits = take_u64()?;
                let quantizer = Quantizer::new(half_step(bits & !LIMITS_BIT)?);
                let has_limits = bits & LIMITS_BIT != 0;
                Grid::Linear(if has_limits { limited(quantizer, take_u64()?, *scalar)? } else { quantizer })
            }
            Coding::Logarithmic => Grid::Logarithmic(Logarithm::new(half_step(take_u64()?)?, take_u64()?.cast_signed())),
            Coding::Steps => Grid::Steps(with_integer!(
                scalar,
                V => steps_of::<V>(take_u64()?)?,
                else return Err(Error::corrupt(SECTION, format_args!("{scalar:?} has no steps")))
            )),
            Coding::Decimal => Grid::Decimal(decimal_of(take_u64()?)?),
            Coding::Exact | Coding::Stored | Coding::Constant => return Ok(Self { grid: Grid::Exact, exceptions: 0, len: 0 }),
        };
        let elements = shape.elements();
        let count = take(&mut rest, index_len(elements) as u64, SECTION)?;
        let exceptions = count.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        if exceptions > elements {
            return Err(Error::corrupt(
                SECTION,
                format_args!("it says {exceptions} exceptions, the chunk has {elements} values"),
            ));
        }
        Ok(Self { grid, exceptions, len: body.len() - rest.len() })
    }

    /// Whether the plane of a chunk of this value type may be interpolated: there is a fine grid.
    #[must_use]
    pub fn can_be_interpolated(&self, scalar: Scalar) -> bool {
        match &self.grid {
            Grid::Linear(quantizer) => has_fine_grid(quantizer, scalar),
            _ => false,
        }
    }
}

fn has_fine_grid(quantizer: &Quantizer, scalar: Scalar) -> bool {
    with_float!(scalar, V => quantizer.fine::<V>().is_some(), else false)
}

/// The grid with the limits of a stream. The lower limit is in the low half of `limits`, the upper limit in the high half.
fn limited(quantizer: Quantizer, limits: u64, scalar: Scalar) -> Result<Quantizer> {
    let limits = Limits { lower: limits as u32 as i32, upper: (limits >> 32) as u32 as i32 };
    if !has_fine_grid(&quantizer, scalar) {
        return Err(Error::corrupt(SECTION, format_args!("it has limits, and {scalar:?} no fine grid with this step")));
    }
    if limits.lower > limits.upper {
        return Err(Error::corrupt(
            SECTION,
            format_args!("the lower limit, {}, is above the upper one, {}", limits.lower, limits.upper),
        ));
    }
    Ok(quantizer.with_limits(limits))
}

fn bad_half_step(half_step: f64) -> Error {
    Error::corrupt(
        SECTION,
        format_args!("half step is {half_step:e}: it must be above 0, and neither twice that nor the inverse may overflow"),
    )
}

fn decimal_of(divisor: u64) -> Result<Decimal> {
    Decimal::new(divisor)
        .ok_or_else(|| Error::corrupt(SECTION, format_args!("its divisor is {divisor}, not 1 to {}", Decimal::MAX_DIVISOR)))
}

fn steps_of<V: IntegerElement>(bound: u64) -> Result<Steps> {
    if bound == 0 || bound > V::WIDEST {
        return Err(Error::corrupt(SECTION, format_args!("its bound is {bound}, not 1 to {}", V::WIDEST)));
    }
    Ok(Steps::new::<V>(bound, Fills::NONE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Shape};

    fn header(coding: Coding, scalar: Scalar) -> Header {
        Header { coding, layout: Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[10]).unwrap() } }
    }

    fn body(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn grids_come_back_with_their_exceptions() {
        let grids = [
            (Grid::Linear(Quantizer::new(0.1)), Scalar::F32, 12),
            (Grid::Linear(Quantizer::new(f64::MIN_POSITIVE)), Scalar::F64, 12),
            (Grid::Linear(Quantizer::new(0.1).with_limits(Limits { lower: -7, upper: i32::MAX })), Scalar::F64, 20),
            (Grid::Linear(Quantizer::new(0.1).with_limits(Limits { lower: i32::MIN, upper: -9 })), Scalar::F32, 20),
            (Grid::Logarithmic(Logarithm::new(1e-3, -77)), Scalar::F64, 20),
            (Grid::Steps(Steps::new::<i16>(3, Fills::NONE)), Scalar::I16, 12),
            (Grid::Decimal(Decimal::new(1).unwrap()), Scalar::F16, 12),
            (Grid::Decimal(Decimal::new(Decimal::MAX_DIVISOR).unwrap()), Scalar::F64, 12),
        ];
        for (grid, scalar, len) in grids {
            let mut bytes = Vec::with_capacity(16);
            grid.write_to(&mut bytes);
            bytes.extend(10u32.to_le_bytes());
            bytes.extend([0xee; 5]);
            let found = BodyHeader::read(&header(grid.coding(), scalar), &bytes).unwrap();
            assert_eq!((found.exceptions, found.len), (10, len));
            let mut again = Vec::with_capacity(16);
            found.grid.write_to(&mut again);
            assert_eq!((found.grid.coding(), &again[..]), (grid.coding(), &bytes[..len - 4]));
            for short in 0..len {
                let error = BodyHeader::read(&header(grid.coding(), scalar), &bytes[..short]).unwrap_err();
                assert!(matches!(error, Error::Truncated { .. }), "{short} of {len} bytes: {error}");
            }
        }
        let exact = BodyHeader::read(&header(Coding::Exact, Scalar::F32), &[]).unwrap();
        assert_eq!((exact.grid.coding(), exact.exceptions, exact.len), (Coding::Exact, 0, 0));
    }

    #[test]
    fn numbers_that_no_grid_has_are_refused() {
        let refused = |coding, scalar, words: &[u64], why: &str| {
            let error = BodyHeader::read(&header(coding, scalar), &body(words)).unwrap_err().to_string();
            assert!(error.contains(why), "{words:x?}: {error}");
        };
        refused(Coding::Logarithmic, Scalar::F32, &[(-1.0f64).to_bits(), 0, 0], "half step");
        let with_limits = |step: f64, [lower, upper]: [i32; 2]| {
            [(-step).to_bits(), u64::from(upper.cast_unsigned()) << 32 | u64::from(lower.cast_unsigned()), 0]
        };
        refused(Coding::Quantized, Scalar::F32, &with_limits(1.0, [3, 2]), "the lower limit, 3, is above the upper one, 2");
        refused(Coding::Quantized, Scalar::F16, &with_limits(1.0, [2, 3]), "no fine grid");
        refused(Coding::Quantized, Scalar::F32, &with_limits(1e-30, [2, 3]), "no fine grid");
        for half_step in [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MAX, f64::from_bits(1)] {
            refused(Coding::Quantized, Scalar::F32, &[half_step.to_bits(), 0], "half step");
            refused(Coding::Logarithmic, Scalar::F32, &[half_step.to_bits(), 0, 0], "half step");
        }
        for (scalar, bound) in [(Scalar::I8, 0), (Scalar::U32, 1 << 31), (Scalar::I64, 1 << 63), (Scalar::U64, u64::MAX)] {
            refused(Coding::Steps, scalar, &[bound, 0], "its bound is");
        }
        for divisor in [0, (1 << 53) + 1, 100.0f64.to_bits(), u64::MAX] {
            refused(Coding::Decimal, Scalar::F64, &[divisor, 0], "its divisor is");
        }
        refused(Coding::Quantized, Scalar::F32, &[1.0f64.to_bits(), 11], "11 exceptions, the chunk has 10 values");
        refused(Coding::Quantized, Scalar::F32, &[1.0f64.to_bits(), u64::MAX], "exceptions");
    }

    #[test]
    fn only_linear_grids_are_interpolated() {
        let of = |grid| BodyHeader { grid, exceptions: 0, len: 0 };
        assert!(of(Grid::Linear(Quantizer::new(0.5))).can_be_interpolated(Scalar::F32));
        assert!(!of(Grid::Linear(Quantizer::new(0.5))).can_be_interpolated(Scalar::I32));
        assert!(!of(Grid::Logarithmic(Logarithm::new(0.5, 0))).can_be_interpolated(Scalar::F32));
        assert!(!of(Grid::Decimal(Decimal::new(10).unwrap())).can_be_interpolated(Scalar::F64));
        assert!(!of(Grid::Exact).can_be_interpolated(Scalar::F64));
    }
}
