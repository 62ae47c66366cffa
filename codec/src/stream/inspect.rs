//! Describes a stream without decoding its values, for tools that show how each chunk was compressed.

use crate::entropy::book_choice::Choice;
use crate::error::Result;
use crate::memory;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::exceptions::{List, most_listed};
use crate::quantize::grid::Grid;
use crate::reader::take;
use crate::stream::body::BodyHeader;
use crate::stream::header::Header;
use crate::stream::plane::PlaneHeader;
use crate::stream::verified::Verified;

/// A stream, described.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Coding, type, byte order and shape.
    pub header: Header,
    /// Half the step of the grid. For floating-point numbers under an absolute bound, and for steps of integers, it is the bound. For a lattice it is half the
    /// distance of its values, for a logarithmic grid half the step of the binary logarithm. `None` for exact values and decimals.
    pub half_step: Option<f64>,
    /// Number of values that the grid cannot hold. They are kept bit for bit.
    pub exceptions: u64,
    /// Planes in the order of the stream: the codes or residuals, and the mask and the bits of exceptions if there are many.
    pub planes: Vec<Plane>,
}

/// A plane, described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// How its integers were predicted.
    pub prediction: Prediction,
    /// How its differences or residuals are coded.
    pub coding: PlaneCoding,
    /// Integers of a block.
    pub block_len: usize,
    /// Bytes of the plane.
    pub bytes: u64,
}

/// How integers were predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prediction {
    /// By differences along these axes, bit 0 the fastest.
    Differences(u8),
    /// By interpolation.
    Interpolation(InterpolationKind),
}

/// How differences or residuals are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneCoding {
    /// Huffman codes with this book of the dictionary.
    Dictionary(u8),
    /// Huffman codes with a book that is in the stream.
    Custom,
    /// Bit planes.
    BitPlanes,
}

impl Description {
    /// Describes a stream. Compares the checksum. Does not decode blocks.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt`, `UnsupportedVersion` or `OutOfMemory`.
    pub fn of(stream: &[u8]) -> Result<Self> {
        let stream = Verified::read(stream)?;
        let header = *stream.header();
        let mut description = Self { header, half_step: None, exceptions: 0, planes: Vec::new() };
        let Some((body_header, mut rest)) = planes(stream.body(), &header)? else { return Ok(description) };
        description.exceptions = body_header.exceptions;
        description.half_step = match &body_header.grid {
            Grid::Linear(quantizer) => Some(quantizer.half_step()),
            Grid::Logarithmic(grid) => Some(grid.half_step()),
            Grid::Steps(steps) => Some(steps.bound() as f64),
            Grid::Exact | Grid::Decimal(_) => None,
        };
        let elements = header.layout.shape.elements();
        let planes = if body_header.exceptions > most_listed(elements) { 3 } else { 1 };
        memory::reserve(&mut description.planes, planes)?;
        for integers in [elements, elements, body_header.exceptions].into_iter().take(planes) {
            let before = rest.len();
            let head = PlaneHeader::read(&mut rest)?;
            head.skip(&mut rest, integers as usize)?;
            description.planes.push(Plane {
                prediction: match InterpolationKind::from_byte(head.predictor, &header.layout.shape) {
                    Some(kind) => Prediction::Interpolation(kind),
                    None => Prediction::Differences(head.predictor),
                },
                coding: match head.choice {
                    Some(Choice::Dictionary(book)) => PlaneCoding::Dictionary(book),
                    Some(Choice::Custom(_)) => PlaneCoding::Custom,
                    None => PlaneCoding::BitPlanes,
                },
                block_len: head.block_len(),
                bytes: (before - rest.len()) as u64,
            });
        }
        Ok(description)
    }
}

/// The start of a stream's body, and the bytes of its planes. `None` for a stream without planes.
pub(crate) fn planes<'a>(body: &'a [u8], header: &Header) -> Result<Option<(BodyHeader, &'a [u8])>> {
    if !header.coding.has_planes() {
        return Ok(None);
    }
    let mut rest = body;
    let body_header = BodyHeader::read(header, rest)?;
    take(&mut rest, body_header.len as u64, "grid")?;
    List::take(&mut rest, body_header.exceptions, header.layout.shape.elements(), header.layout.scalar.size())?;
    Ok(Some((body_header, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::header::seal;
    use crate::{ByteOrder, CodebookPolicy, Coding, CodingPolicy, Config, Layout, Scalar, Shape, Workspace};

    fn describe(value: impl Fn(u64) -> f32, config: Config) -> Description {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[60, 70]).unwrap() };
        let chunk: Vec<u8> = (0..4200).flat_map(|index| value(index).to_le_bytes()).collect();
        let mut stream = Vec::new();
        Workspace::default().compress(&chunk, &layout, &config, &mut stream).unwrap();
        let found = Description::of(&stream).unwrap();
        for len in 0..stream.len() {
            assert!(Description::of(&stream[..len]).is_err());
        }
        let planes: u64 = found.planes.iter().map(|plane| plane.bytes).sum();
        assert!(planes < stream.len() as u64 && stream.len() as u64 - planes < 80 + 4 + 12 * 20);
        found
    }

    #[test]
    fn streams_are_described() {
        let config = Config::absolute(0.01).unwrap();
        let smooth = |index: u64| (index as f32 * 0.01).sin();
        let found = describe(smooth, config);
        assert_eq!((found.header.coding, found.exceptions, found.half_step), (Coding::Quantized, 0, Some(0.01)));
        assert_eq!(found.planes.len(), 1);
        let found = describe(smooth, Config { coding: CodingPolicy::Bitshuffle, ..config });
        assert_eq!((found.planes[0].coding, found.planes[0].block_len), (PlaneCoding::BitPlanes, 2048));
        let found = describe(smooth, Config { codebook: CodebookPolicy::Custom, ..config });
        assert_eq!(found.planes[0].coding, PlaneCoding::Custom);
        let gaps = |index: u64| if index.is_multiple_of(3) { f32::NAN } else { smooth(index) };
        let found = describe(gaps, config);
        assert_eq!((found.exceptions, found.planes.len()), (1400, 3));
        assert!(matches!(found.planes[1].prediction, Prediction::Differences(_)));
    }

    #[test]
    fn absurd_extents_do_not_allocate() {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[1 << 47]).unwrap() };
        let mut stream = Vec::new();
        Header { coding: Coding::Quantized, layout }.write_to(&mut stream).unwrap();
        stream.extend([1.0f64.to_le_bytes(), [0; 8]].concat());
        for (widths, is_good) in [([0, 0], true), ([1, 0], false)] {
            let mut stream = stream.clone();
            stream.extend([1, 0, widths[0] << 3, widths[1]]);
            seal(&mut stream);
            assert_eq!(Description::of(&stream).is_ok(), is_good, "{widths:?}");
        }
    }

    #[test]
    fn a_constant_chunk_has_no_planes() {
        let layout = Layout { scalar: Scalar::F64, byte_order: ByteOrder::Big, shape: Shape::new(&[9]).unwrap() };
        let mut stream = Vec::new();
        Workspace::default().compress(&[7; 72], &layout, &Config::absolute(1.0).unwrap(), &mut stream).unwrap();
        let found = Description::of(&stream).unwrap();
        assert_eq!((found.header.coding, found.header.layout, found.planes), (Coding::Constant, layout, vec![]));
    }
}
