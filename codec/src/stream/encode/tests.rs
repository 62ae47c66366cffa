use super::*;
use crate::config::{Config, ErrorBound, PredictorPolicy};
use crate::layout::{ByteOrder, Scalar};
use crate::quantize::exceptions::most_listed;
use crate::stream::body::BodyHeader;
use crate::stream::header::Coding;
use crate::stream::plane::PlaneWorkspace;
use crate::workspace::Workspace;

/// All types but pairs, of which the encoder takes the array of their parts.
fn single_types() -> impl Iterator<Item = Scalar> {
    Scalar::ALL.into_iter().filter(|scalar| !scalar.is_pair())
}

/// Bits of a value that is an exception: a NaN with a sign, or a fill value that no code gives back under the bound for the type.
fn odd_bits(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::F32 => 0xffc0_0001,
        Scalar::F64 => 0xfff8_0000_0000_0001,
        Scalar::F16 => 0xfe01,
        Scalar::BF16 => 0xffc1,
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => (-5i64).cast_unsigned(),
        _ => u64::MAX - 5,
    }
}

/// Bits of a value that is no exception under any bound of [`bounds`].
fn plain_bits(scalar: Scalar, index: usize, is_on_lattice: bool) -> u64 {
    let noise = index as u64 * 37 % 59;
    let value = if is_on_lattice { noise as f64 * 0.5 } else { 20.0 + (index as f64 * 0.2).sin() * 10.0 + noise as f64 * 0.013 };
    match scalar {
        Scalar::F32 => u64::from((value as f32).to_bits()),
        Scalar::F64 => value.to_bits(),
        Scalar::F16 | Scalar::BF16 => 0x4000 + noise,
        _ => noise,
    }
}

/// The bits of a value as an integer. Numbers with a sign are extended by their sign, other numbers by zeros.
fn extended(scalar: Scalar, bits: u64) -> i64 {
    let shift = 64 - 8 * scalar.size();
    match scalar {
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => (bits << shift >> shift).cast_signed(),
        _ => (bits << shift).cast_signed() >> shift,
    }
}

/// The bits of an integer that a code of the type has.
fn low(scalar: Scalar, integer: i64) -> i64 {
    if scalar.code_size() == 4 { i64::from(integer as i32) } else { integer }
}

fn chunk(layout: &Layout, bits: impl Fn(usize) -> u64) -> Vec<u8> {
    let size = layout.scalar.size();
    let value = |index| {
        let mut bytes = bits(index).to_le_bytes()[..size].to_vec();
        if layout.byte_order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    };
    (0..layout.shape.elements() as usize).flat_map(value).collect()
}

fn config(scalar: Scalar, bound: ErrorBound) -> Config<'static> {
    let fill_value = if scalar.is_float() { None } else { Some(odd_bits(scalar)) };
    Config { fill_value, predictor: PredictorPolicy::Lorenzo, ..Config::new(bound).unwrap() }
}

/// For a type, a bound on each grid that has exceptions, and its coding. Absolute bounds of floating-point numbers are powers of two, so that rounding makes no
/// exceptions.
fn bounds(scalar: Scalar) -> Vec<(ErrorBound, Coding)> {
    match scalar {
        Scalar::F32 | Scalar::F64 => vec![
            // The values have more than 4096 steps. No position is between two steps there.
            (ErrorBound::Absolute(1.0 / 2048.0), Coding::Quantized),
            (ErrorBound::PointwiseRelative(1e-3), Coding::Logarithmic),
            (ErrorBound::Lossless, Coding::Quantized),
        ],
        Scalar::F16 | Scalar::BF16 => vec![(ErrorBound::Absolute(0.0625), Coding::Quantized)],
        _ => vec![(ErrorBound::Absolute(3.0), Coding::Steps)],
    }
}

fn compressed(layout: &Layout, bound: ErrorBound, is_odd: impl Fn(usize) -> bool) -> Vec<u8> {
    let bits = |index| {
        let plain = plain_bits(layout.scalar, index, bound == ErrorBound::Lossless);
        if is_odd(index) { odd_bits(layout.scalar) } else { plain }
    };
    let mut stream = Vec::new();
    let config = config(layout.scalar, bound);
    Workspace::default().compress(&chunk(layout, bits), layout, &config, &mut stream).unwrap();
    stream
}

/// Takes a plane of codes off the front of a body.
fn take_plane(body: &mut &[u8], shape: &Shape) -> Vec<i64> {
    let mut codes = vec![0; shape.elements() as usize];
    PlaneWorkspace::default().decode(body, shape, &mut codes).unwrap();
    codes
}

/// The codes that FORMAT.md §5.1 gives exceptions: the code of the left neighbour. At a row's start it is the code of the row's first value that is no
/// exception, or 0 if all values of the row are exceptions.
fn filled(codes: &[i64], is_odd: impl Fn(usize) -> bool, row: usize) -> Vec<i64> {
    let mut filled = Vec::new();
    for (number, codes) in codes.chunks(row).enumerate() {
        let begin = number * row;
        let mut last = (0..row).find(|&at| !is_odd(begin + at)).map_or(0, |at| codes[at]);
        for (at, &code) in codes.iter().enumerate() {
            last = if is_odd(begin + at) { last } else { code };
            filled.push(last);
        }
    }
    filled
}

#[test]
fn many_exceptions_have_a_mask_and_their_bits_behind_filled_codes() {
    // A whole row, both ends of rows, and some within a row.
    let is_odd = |index: usize| matches!((index / 200, index % 200), (2, _) | (1, 0..3) | (0, 10..12) | (4..6, 199));
    let count = (0..1200).filter(|&index| is_odd(index)).count();
    for scalar in single_types() {
        let layout = Layout { scalar, byte_order: ByteOrder::Big, shape: Shape::new(&[6, 200]).unwrap() };
        for (bound, coding) in bounds(scalar) {
            let stream = compressed(&layout, bound, is_odd);
            let header = Header::read_from(&stream).unwrap();
            assert_eq!((header.coding, header.layout), (coding, layout));
            let mut body = &stream[header.encoded_len()..];
            let body_header = BodyHeader::read(&header, body).unwrap();
            assert_eq!(body_header.exceptions, count as u64, "{scalar:?} {bound:?}");
            body = &body[body_header.len..];

            let codes: Vec<i64> = take_plane(&mut body, &layout.shape).into_iter().map(|code| low(scalar, code)).collect();
            assert_eq!(filled(&codes, is_odd, 200), codes, "{scalar:?} {bound:?}");
            assert!(codes[400..600].iter().all(|&code| code == 0));
            let mask: Vec<bool> = take_plane(&mut body, &layout.shape).iter().map(|integer| integer % 2 != 0).collect();
            assert_eq!(mask, (0..1200).map(is_odd).collect::<Vec<_>>(), "{scalar:?} {bound:?}");
            assert_eq!(body[0], Axes::FASTEST.to_byte());
            let bits = extended(scalar, odd_bits(scalar));
            let found = take_plane(&mut body, &Shape::line(count as u64));
            assert!(
                found.iter().all(|&found| low(scalar, found) == low(scalar, bits)),
                "{scalar:?} {bound:?}: {found:?}, not {bits}"
            );
            assert!(body.is_empty(), "{} bytes are left", body.len());
        }
    }
}

#[test]
fn few_exceptions_are_listed_with_their_bits() {
    for (dims, most) in [(&[5, 819][..], 16), (&[4096], 17)] {
        let shape = Shape::new(dims).unwrap();
        assert_eq!(most_listed(shape.elements()), most);
        for scalar in single_types() {
            for byte_order in [ByteOrder::Little, ByteOrder::Big] {
                let layout = Layout { scalar, byte_order, shape };
                for (bound, coding) in bounds(scalar) {
                    for count in [0, 1, 3, most, most + 1] {
                        // The first and the last value are among them.
                        let indices: Vec<usize> = (0..count)
                            .map(|number| (number * (shape.elements() - 1)).div_ceil((count - 1).max(1)) as usize)
                            .collect();
                        let stream = compressed(&layout, bound, |index| indices.contains(&index));
                        let header = Header::read_from(&stream).unwrap();
                        assert_eq!(header.coding, coding, "{count} exceptions of {scalar:?} under {bound:?}");
                        let body = &stream[header.encoded_len()..];
                        let at = if coding == Coding::Logarithmic { 16 } else { 8 };
                        assert_eq!(body[at..at + 4], (count as u32).to_le_bytes());
                        let mut list = Vec::new();
                        if count <= most {
                            list.extend(indices.iter().flat_map(|&index| (index as u32).to_le_bytes()));
                            list.extend(odd_bits(scalar).to_le_bytes()[..scalar.size()].repeat(indices.len()));
                            list.resize(list.len().next_multiple_of(4), 0);
                        }
                        let mut rest = &body[at + 4..];
                        assert!(rest.starts_with(&list), "{count} exceptions of {scalar:?}, {byte_order:?}");
                        rest = &rest[list.len()..];
                        take_plane(&mut rest, &shape);
                        assert_eq!(rest.is_empty(), count <= most, "{count} exceptions");
                    }
                }
            }
        }
    }
}

#[test]
fn exact_chunks_are_a_plane_of_the_codes_of_their_values() {
    for scalar in single_types() {
        let layout = Layout { scalar, byte_order: ByteOrder::Big, shape: Shape::new(&[6, 50]).unwrap() };
        // A -0 keeps floating-point numbers off a lattice of powers of two.
        let odd = if scalar.is_float() { 1 << (8 * scalar.size() - 1) } else { odd_bits(scalar) };
        let bits = |index: usize| if index % 50 == 7 { odd } else { plain_bits(scalar, index / 20, false) };
        let chunk = chunk(&layout, bits);
        let mut stream = Vec::new();
        Workspace::default().compress(&chunk, &layout, &Config::absolute(0.0).unwrap(), &mut stream).unwrap();
        let header = Header::read_from(&stream).unwrap();
        assert_eq!(header.coding, Coding::Exact, "{scalar:?}");
        let mut body = &stream[header.encoded_len()..];
        let codes = take_plane(&mut body, &layout.shape);
        assert!(body.is_empty());
        let most = i64::MAX >> (64 - 8 * scalar.size());
        for (index, code) in codes.into_iter().enumerate() {
            let bits = extended(scalar, bits(index));
            let expected = if scalar.is_float() && bits < 0 { bits ^ most } else { bits };
            assert_eq!(low(scalar, code), low(scalar, expected), "value {index} of {scalar:?}");
        }
    }
}
