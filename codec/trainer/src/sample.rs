//! The samples that the report measures: chunks of the generator's fields, compressed by the codec's stages.

use h5_samples::{Field, Values, finite_range};
use quire_codec::stages::alphabet::{ALPHABET, DIRECT_ZERO, Histogram, Meaning};
use quire_codec::stages::book_choice::{self, Choice};
use quire_codec::stages::book_lengths::coded_len;
use quire_codec::stages::plane::{PLANE_HEADER_LEN, PlaneWorkspace};
use quire_codec::{ByteOrder, CodebookPolicy, Coding, Config, Header, Layout, Scalar, SettledBound, SettledConfig, Shape};

use crate::bins::bits_in_bins;
use crate::lengths::{UNLIMITED, code_bits, extra_bits, limited_lengths};
use crate::planes::{Plane, planes};
use crate::zeros::ZEROS;

/// Largest number of chunks of a field.
const CHUNKS: usize = 8;
/// Bytes of the half step, and of the number of exceptions (FORMAT.md §4).
const BODY_HEADER_BYTES: usize = 8 + 4;

/// A chunk at a bound, with the bits of its plane of codes in several codings.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Field that the chunk was cut from.
    pub field: &'static str,
    /// Error bound as a share of the chunk's range.
    pub bound: f64,
    /// Number of bytes of the chunk.
    pub chunk_bytes: u64,
    /// Number of values of the chunk.
    pub values: u64,
    /// Number of bytes of all headers, without a custom book's lengths.
    pub header_bytes: u64,
    /// Numbers of the tokens of the plane of codes.
    pub histogram: Histogram,
    /// Number of extra bits of these tokens.
    pub extra_bits: u64,
    /// Number of bits of the plane of codes with classes and without runs. The book is made for the chunk.
    pub classes_only_bits: u64,
    /// Number of bits of the plane of codes without classes and without runs: [`bits_in_bins`].
    pub bits_in_bins: u64,
    /// Number of bits of the plane of codes with each way to code zeros, in the order of [`ZEROS`].
    pub zeros_bits: [u64; ZEROS.len()],
    /// Number of code bits and extra bits of the plane that the codec writes.
    pub written_bits: u64,
    /// Number of bytes of a custom book in the plane that the codec writes; 0 for a book of the dictionary.
    pub book_bytes: u64,
    /// Number of bytes of the plane that the codec writes, without header and book: lane words, extra words and block index.
    pub payload_bytes: u64,
}

impl Sample {
    /// Compression ratio of the chunk with its headers and a plane of codes of `bits` bits.
    #[must_use]
    pub fn ratio(&self, bits: u64) -> f64 {
        self.chunk_bytes as f64 / (self.header_bytes as f64 + bits as f64 / 8.0)
    }

    /// Number of bytes of the headers and the plane of codes that the codec writes.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.header_bytes + self.book_bytes + self.payload_bytes
    }

    /// Compression ratio with the headers and the plane of codes that the codec writes.
    #[must_use]
    pub fn written_ratio(&self) -> f64 {
        self.chunk_bytes as f64 / self.written_bytes() as f64
    }

    /// Compression ratio if lanes and block index took no bytes.
    #[must_use]
    pub fn written_ratio_without_lanes(&self) -> f64 {
        self.ratio(self.written_bits + 8 * self.book_bytes)
    }
}

/// At most `CHUNKS` chunks of a field, evenly spread over the field. A chunk has 64^3 values if the field is large enough.
pub fn chunks(field: &Field) -> impl Iterator<Item = Field> + '_ {
    chunks_of(field, chunk_dims(field.dims.len()), CHUNKS)
}

/// At most `most` chunks of a field, evenly spread over the field. A chunk has about 32^3 values if the field is large enough.
pub fn small_chunks(field: &Field, most: usize) -> impl Iterator<Item = Field> + '_ {
    let dims: &[usize] = match field.dims.len() {
        1 => &[1 << 15],
        2 => &[181, 181],
        3 => &[32, 32, 32],
        _ => &[1, 16, 45, 45],
    };
    chunks_of(field, dims, most)
}

fn chunks_of<'a>(field: &'a Field, dims: &[usize], most: usize) -> impl Iterator<Item = Field> + 'a {
    let extents: Vec<usize> = dims.iter().zip(&field.dims).map(|(&most, &dim)| most.min(dim)).collect();
    let counts: Vec<usize> = extents.iter().zip(&field.dims).map(|(&extent, &dim)| dim.div_ceil(extent)).collect();
    let total: usize = counts.iter().product();
    let taken = total.min(most);
    (0..taken).map(move |chunk| {
        let origin: Vec<usize> =
            indices_in(&counts, chunk * total / taken).iter().zip(&extents).map(|(&index, &extent)| index * extent).collect();
        cut(field, &origin, &extents)
    })
}

/// Extents of a chunk of a rank, slowest first.
fn chunk_dims(rank: usize) -> &'static [usize] {
    match rank {
        1 => &[1 << 18],
        2 => &[512, 512],
        3 => &[64, 64, 64],
        _ => &[4, 16, 64, 64],
    }
}

/// Indices of an element along each axis, slowest first. `element` is its number in C order.
fn indices_in(dims: &[usize], mut element: usize) -> Vec<usize> {
    let mut indices = vec![0; dims.len()];
    for (index, &dim) in indices.iter_mut().zip(dims).rev() {
        *index = element % dim;
        element /= dim;
    }
    indices
}

/// A part of a field. Parts at the ends of the field are smaller.
fn cut(field: &Field, origin: &[usize], extents: &[usize]) -> Field {
    let dims: Vec<usize> =
        origin.iter().zip(extents).zip(&field.dims).map(|((&start, &extent), &dim)| extent.min(dim - start)).collect();
    let values = match &field.values {
        Values::F32(values) => Values::F32(cut_values(values, &field.dims, origin, &dims)),
        Values::F64(values) => Values::F64(cut_values(values, &field.dims, origin, &dims)),
    };
    Field { dims, values, ..*field }
}

fn cut_values<V: Copy>(values: &[V], dims: &[usize], origin: &[usize], extents: &[usize]) -> Vec<V> {
    let rank = dims.len();
    let rows: usize = extents[..rank - 1].iter().product();
    let row_start = |row: usize| {
        let indices = indices_in(&extents[..rank - 1], row);
        let slow = indices.iter().zip(origin).zip(dims).fold(0, |row, ((&index, &start), &dim)| row * dim + start + index);
        slow * dims[rank - 1] + origin[rank - 1]
    };
    (0..rows).flat_map(|row| values[row_start(row)..][..extents[rank - 1]].iter().copied()).collect()
}

/// The bytes of a chunk, and their layout.
#[must_use]
pub fn bytes_and_layout(chunk: &Field) -> (Vec<u8>, Layout) {
    let dims: Vec<u64> = chunk.dims.iter().map(|&dim| dim as u64).collect();
    let shape = Shape::new(&dims).expect("a chunk has 1 to 4 axes");
    let (bytes, scalar) = match &chunk.values {
        Values::F32(values) => (values.iter().flat_map(|value| value.to_le_bytes()).collect(), Scalar::F32),
        Values::F64(values) => (values.iter().flat_map(|value| value.to_le_bytes()).collect(), Scalar::F64),
    };
    (bytes, Layout { scalar, byte_order: ByteOrder::Little, shape })
}

/// Bits of a chunk's fill value, in the form of [`Config::fill_value`].
#[must_use]
pub fn fill_bits(chunk: &Field) -> Option<u64> {
    chunk.fill.map(|fill| match &chunk.values {
        Values::F32(_) => u64::from((fill as f32).to_bits()),
        Values::F64(_) => fill.to_bits(),
    })
}

/// The encoder's configuration. The bound is this share of the chunk's range. `None` for a constant chunk, whose range is 0.
#[must_use]
pub fn config(chunk: &Field, bound: f64) -> Option<SettledConfig<'static>> {
    let bound = Some(bound * finite_range(chunk)).filter(|&bound| bound > 0.0)?;
    let config = Config::absolute(bound).ok()?.with_bound(SettledBound::Absolute(bound));
    Some(Config { fill_value: fill_bits(chunk), ..config })
}

/// The sample of a chunk at a bound that is a share of its range. `None` if the range is 0, or if the bound is no usable one.
#[must_use]
pub fn measure(chunk: &Field, bound: f64) -> Option<Sample> {
    let config = config(chunk, bound)?;
    let (bytes, layout) = bytes_and_layout(chunk);
    let planes = planes(&bytes, &layout, &config).expect("memory for a chunk");
    let Plane { predictor, residuals } = &planes[0];
    let (histogram, extra_bits) = planes[0].count().expect("memory for a chunk");
    let zeros = residuals.iter().filter(|&&residual| residual == 0).count() as u64;
    let mut plane = Vec::new();
    PlaneWorkspace::default().encode(residuals, *predictor, &config, &mut plane).expect("memory for a chunk");
    let choice = book_choice::choose(&histogram, CodebookPolicy::Auto, &[]);
    let book_bytes = if let Choice::Custom(lengths) = &choice { coded_len(lengths) as u64 } else { 0 };
    Some(Sample {
        field: chunk.name,
        bound,
        chunk_bytes: bytes.len() as u64,
        values: layout.shape.elements(),
        header_bytes: (Header { coding: Coding::Quantized, layout }.encoded_len() + BODY_HEADER_BYTES + PLANE_HEADER_LEN) as u64,
        histogram,
        extra_bits,
        classes_only_bits: classes_only_bits(&histogram, zeros),
        bits_in_bins: bits_in_bins(residuals),
        zeros_bits: ZEROS.map(|way| way.bits(residuals)),
        written_bits: code_bits(&histogram, &choice.lengths()) + extra_bits,
        book_bytes,
        payload_bytes: (plane.len() - PLANE_HEADER_LEN) as u64 - book_bytes,
    })
}

/// Number of bits if each value had a code of its own in place of run tokens. The code lengths do not count.
fn classes_only_bits(histogram: &Histogram, zeros: u64) -> u64 {
    let mut without_runs = *histogram;
    for (symbol, meaning) in ALPHABET.iter().enumerate().filter(|(_, symbol)| symbol.meaning == Meaning::Run) {
        without_runs[(i16::from(DIRECT_ZERO) + i16::from(meaning.first)) as usize] += std::mem::take(&mut without_runs[symbol]);
    }
    without_runs[usize::from(DIRECT_ZERO)] = zeros;
    code_bits(&without_runs, &limited_lengths(&without_runs, UNLIMITED)) + extra_bits(&without_runs)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sample of which only the histogram matters.
    pub(crate) fn sample_of(histogram: Histogram) -> Sample {
        Sample {
            field: "made by hand",
            bound: 1e-3,
            chunk_bytes: 1 << 20,
            values: 1 << 18,
            header_bytes: 72,
            histogram,
            extra_bits: 0,
            classes_only_bits: 0,
            bits_in_bins: 0,
            zeros_bits: [0; ZEROS.len()],
            written_bits: 0,
            book_bytes: 0,
            payload_bytes: 0,
        }
    }

    fn ramp(dims: &[usize]) -> Field {
        let count: usize = dims.iter().product();
        Field {
            name: "ramp",
            units: "1",
            dims: dims.to_vec(),
            values: Values::F32((0..count).map(|index| index as f32).collect()),
            fill: None,
        }
    }

    #[test]
    fn chunks_end_with_the_field_and_have_its_values() {
        let field = ramp(&[3, 70, 100]);
        let chunks: Vec<Field> = chunks(&field).collect();
        let dims: Vec<&[usize]> = chunks.iter().map(|chunk| &chunk.dims[..]).collect();
        assert_eq!(dims, [&[3, 64, 64], &[3, 64, 36], &[3, 6, 64], &[3, 6, 36]]);
        let Values::F32(values) = &chunks[3].values else { panic!("f32 stays f32") };
        assert_eq!((values[0], values[36], values[6 * 36]), (6464.0, 6564.0, 13464.0));
        assert_eq!(super::chunks(&ramp(&[1 << 20])).count(), 4);
        assert_eq!(super::chunks(&ramp(&[2048, 2048])).count(), CHUNKS);
    }

    #[test]
    fn a_ramp_costs_little_and_a_constant_is_left_out() {
        let mut chunk = ramp(&[4096]);
        let Values::F32(values) = &mut chunk.values else { panic!("a ramp is f32") };
        values.iter_mut().for_each(|value| *value *= 1.1); // off any lattice
        // Interpolation predicts all values but those at the ends of its levels.
        let sample = measure(&chunk, 1.0 / 40950.0).unwrap();
        let symbols: u64 = sample.histogram.iter().sum();
        assert!(symbols < 100 && sample.written_bits < 1000, "{symbols} symbols, {} bits", sample.written_bits);
        assert!(sample.written_bytes() > sample.header_bytes + sample.written_bits / 8);
        chunk.values = Values::F32(vec![7.0; 4096]);
        assert!(measure(&chunk, 1e-3).is_none());
    }
}
