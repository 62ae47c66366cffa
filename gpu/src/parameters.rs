//! What the host tells the kernels of a chunk or a stream, before they see any of it.

use quire_codec::stages;
use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::stages::body::BodyHeader;
use quire_codec::stages::exceptions::List;
use quire_codec::stages::fills::Span;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::header::{CHECKSUM_AT, HEADER_MAX_LEN};
use quire_codec::stages::lattice::{self, highest_bit};
use quire_codec::stages::plane::interpolation_kind;
use quire_codec::stages::predictor::Predictor;
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::{CodebookPolicy, Coding, Header, Layout, Scalar, SettledBound, SettledConfig, Unverified, max_stream_len};

use crate::error::{Error, Reason, Result, reason};
use crate::job::{
    DECIMAL, DatasetBooks, DecodeParameters, EXACT_FLOATS, EXACT_SIGNED, EXACT_UNSIGNED, EncodeParameters, Fills, HEADER_BYTES,
    IS_MASKED, Keep, LINEAR, LOGARITHMIC, POLICY_AUTO, POLICY_CUSTOM, POLICY_DICTIONARY, SIGNED_STEPS, SYMBOLS, UNSIGNED_STEPS,
};
use crate::plan::DecodeVariant;

/// Parameters of a constant chunk: the kernels will find that it is constant.
pub(crate) fn constant_parameters(layout: &Layout) -> EncodeParameters {
    of_grid(layout, LINEAR, 1.0, &[])
}

/// The kernels' kind of grid for a coding; `None` for codings without a grid.
fn kind_of(coding: Coding, scalar: Scalar) -> Option<u32> {
    let is_unsigned = matches!(scalar, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64);
    Some(match coding {
        Coding::Stored | Coding::Constant => return None,
        Coding::Quantized => LINEAR,
        Coding::Exact if scalar.is_float() => EXACT_FLOATS,
        Coding::Exact if is_unsigned => EXACT_UNSIGNED,
        Coding::Exact => EXACT_SIGNED,
        Coding::Steps if is_unsigned => UNSIGNED_STEPS,
        Coding::Steps => SIGNED_STEPS,
        Coding::Logarithmic => LOGARITHMIC,
        Coding::Decimal => DECIMAL,
    })
}

/// The codebooks of a configuration, for the kernels.
pub(crate) fn dataset_books(books: &[CodeLengths]) -> DatasetBooks {
    DatasetBooks { lengths: std::array::from_fn(|book| books.get(book).copied().unwrap_or([0; SYMBOLS])) }
}

/// Parameters of a grid, without the encoder's other choices.
fn of_grid(layout: &Layout, kind: u32, half_step: f64, fixed: &[u64]) -> EncodeParameters {
    let step = 2.0 * half_step;
    let [stored, header] = [Coding::Stored, Coding::Constant].map(|coding| Header { coding, layout: *layout });
    let padded = |header: &Header| {
        let mut padded = [0; HEADER_BYTES];
        padded[..HEADER_MAX_LEN].copy_from_slice(&header.to_bytes());
        padded
    };
    let is_exact = matches!(kind, EXACT_FLOATS | EXACT_SIGNED | EXACT_UNSIGNED);
    let fixed_len = if is_exact { 0 } else { (size_of_val(fixed) + size_of::<u32>()) as u32 };
    EncodeParameters {
        bound: half_step,
        step,
        inverse_step: 1.0 / step,
        fills: Fills::default(),
        keep: Keep::default(),
        // Steps are positive, so that there is a highest bit.
        needed_bit: highest_bit(step).unwrap_or(0) + 1,
        big_endian: u32::from(layout.byte_order == quire_codec::ByteOrder::Big),
        policy: POLICY_AUTO,
        header_len: header.encoded_len() as u32,
        predictor: 0,
        kind,
        coding: 0,
        fixed: std::array::from_fn(|number| fixed.get(number).copied().unwrap_or(0)),
        fixed_len,
        books: 0,
        stored_header_len: stored.encoded_len() as u32,
        header: padded(&header),
        stored_header: padded(&stored),
    }
}

/// Fills, for the kernels.
pub(crate) fn fills_of(fills: &stages::fills::Fills, layout: &Layout) -> Fills {
    let (value, Span { least, greatest }) = (fills.value(), fills.span());
    Fills {
        bits: value.unwrap_or(0).cast_unsigned() & u64::MAX >> (64 - 8 * layout.scalar.size()),
        least,
        greatest,
        has_value: u32::from(value.is_some()),
        has_far: u32::from(fills.span() != Span::ALL),
    }
}

/// The order and the thresholds of a configuration, for the kernels. Grids of exact bits do not look at them.
fn keep_of(keep: &quire_codec::Keep) -> Keep {
    let thresholds = keep.thresholds();
    Keep {
        thresholds: std::array::from_fn(|number| thresholds.get(number).copied().unwrap_or(0.0)),
        count: thresholds.len() as u32,
        has_order: u32::from(keep.has_order()),
        is_halved: u32::from(keep.is_halved()),
        reserved: 0,
    }
}

/// Parameters of a chunk.
pub(crate) fn encode_parameters(layout: &Layout, config: &SettledConfig, grid: &Grid, predictor: Predictor) -> EncodeParameters {
    let kind = kind_of(grid.coding(), layout.scalar).unwrap_or(LINEAR);
    let of_grid = |half_step: f64, fixed: &[u64]| of_grid(layout, kind, half_step, fixed);
    let (of_grid, fills) = match (grid, config.bound) {
        // The kernels find the lattice themselves, and then whether the fill value is masked.
        (Grid::Linear(grid), SettledBound::Absolute(bound)) => {
            let value = config.fill_value.map(u64::cast_signed);
            let fills = fills_of(&stages::fills::Fills::from_bits(value, config.span), layout);
            let fills = if grid.masks_zeros() { Fills { bits: 0, has_value: IS_MASKED, ..fills } } else { fills };
            let whole = of_grid(bound, &[bound.to_bits()]);
            let halved = EncodeParameters { step: bound, inverse_step: 1.0 / bound, ..whole };
            (if config.keep.is_halved() { halved } else { whole }, fills)
        }
        (Grid::Linear(lattice), SettledBound::PointwiseRelative(_) | SettledBound::Lossless) => {
            let half_step = lattice.half_step();
            (EncodeParameters { bound: 0.0, ..of_grid(half_step, &[half_step.to_bits()]) }, fills_of(lattice.fills(), layout))
        }
        (Grid::Exact, _) => (of_grid(1.0, &[]), Fills::default()),
        (Grid::Steps(steps), _) => (of_grid(steps.bound() as f64 + 0.5, &[steps.bound()]), fills_of(steps.fills(), layout)),
        (Grid::Logarithmic(grid), _) => {
            let of_grid = of_grid(grid.half_step(), &[grid.half_step().to_bits(), grid.offset().cast_unsigned()]);
            (
                EncodeParameters { bound: grid.bound(), ..of_grid },
                fills_of(&stages::fills::Fills::from_bits(grid.fill(), Span::ALL), layout),
            )
        }
        (Grid::Decimal(grid), _) => (of_grid(grid.step() / 2.0, &[grid.divisor()]), Fills::default()),
    };
    EncodeParameters {
        fills,
        keep: keep_of(&config.keep),
        policy: match config.codebook {
            CodebookPolicy::Auto => POLICY_AUTO,
            CodebookPolicy::Dictionary => POLICY_DICTIONARY,
            CodebookPolicy::Custom => POLICY_CUSTOM,
            // A new policy needs code in `choose_book`.
            _ => unreachable!("a codebook policy that the kernels do not know"),
        },
        predictor: u32::from(predictor.to_byte()),
        coding: u32::from(grid.coding().to_byte()),
        books: config.books.len() as u32,
        ..of_grid
    }
}

/// Values at a chunk's start that the host looks at.
const FIRST_VALUES: usize = 256;

/// Whether the kernel `inspect` has to look for a lattice, on which only the grid of an absolute bound can be. The first values of most chunks show that there
/// is none.
pub(crate) fn may_have_lattice(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> bool {
    let SettledBound::Absolute(bound) = config.bound else { return false };
    let first_values = &chunk[..chunk.len().min(FIRST_VALUES * layout.scalar.size())];
    let (order, step) = (layout.byte_order, 2.0 * bound);
    match layout.scalar.of_values() {
        Scalar::F32 => !lattice::is_off::<f32>(first_values, order, step, config.fills::<f32>()),
        Scalar::F64 => !lattice::is_off::<f64>(first_values, order, step, config.fills::<f64>()),
        Scalar::F16 => !lattice::is_off::<Binary16>(first_values, order, step, config.fills::<Binary16>()),
        Scalar::BF16 => !lattice::is_off::<BFloat16>(first_values, order, step, config.fills::<BFloat16>()),
        _ => false,
    }
}

/// The layout of a stream of `length` bytes, its parameters for the kernels, and the variant of its launches. Constant and stored streams are not for the GPU.
/// `stream` may hold the first bytes alone, up to the header of the first plane.
pub(crate) fn decode_parameters(stream: Unverified<'_>, length: usize) -> Result<(Layout, DecodeParameters, DecodeVariant)> {
    let header = stream.header();
    let (stream, body) = (stream.bytes(), stream.body());
    let (scalar, shape) = (header.layout.scalar, &header.layout.shape);
    let kind = kind_of(header.coding, scalar)
        .ok_or_else(|| Error::Unsupported(reason!("a {:?} chunk is only copied", header.coding)))?;
    if length as u64 > max_stream_len(&header.layout) {
        // Our encoder writes no such stream; the CPU reads it.
        return Err(Error::Unsupported(Reason::from("the stream is longer than its chunk")));
    }
    let fixed = BodyHeader::read(header, body).map_err(|_| Error::Refused)?;
    let checksum = stream[CHECKSUM_AT].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
    // The kernels read the list as it is; they refuse a stream that is too short for a plane behind it.
    let mut planes = &body[fixed.len..];
    List::take(&mut planes, fixed.exceptions, shape.elements(), scalar.size()).map_err(|_| Error::Refused)?;
    let (half_step, extra) = match fixed.grid {
        Grid::Linear(quantizer) => (quantizer.half_step(), 0),
        Grid::Logarithmic(grid) => (grid.half_step(), grid.offset().cast_unsigned()),
        Grid::Steps(steps) => (0.0, steps.bound()),
        Grid::Decimal(grid) => (0.0, grid.divisor()),
        Grid::Exact => (0.0, 0),
    };
    // Only these types have a fine grid, on which limits are.
    let Span { least, greatest } = match (fixed.grid, scalar.of_values()) {
        (Grid::Linear(quantizer), Scalar::F32) => quantizer.limit_values::<f32>(),
        (Grid::Linear(quantizer), Scalar::F64) => quantizer.limit_values::<f64>(),
        _ => Span::ALL,
    };
    let parameters = DecodeParameters {
        step: 2.0 * half_step,
        least,
        greatest,
        stream_len: length as u64,
        body: (stream.len() - planes.len()) as u32,
        exceptions: u32::try_from(fixed.exceptions).map_err(|_| Error::Unsupported(Reason::from("more than 2^32 exceptions")))?,
        checksum,
        big_endian: u32::from(header.layout.byte_order == quire_codec::ByteOrder::Big),
        extra,
        kind,
        reserved: 0,
    };
    if interpolation_kind(planes, shape).is_some() && !fixed.can_be_interpolated(scalar) {
        return Err(Error::Refused);
    }
    let in_place = kind == LINEAR && scalar.size() == scalar.code_size();
    let variant = DecodeVariant::new(shape, in_place, fixed.exceptions, planes);
    Ok((header.layout, parameters, variant))
}
