//! What the report measures: chunks of the generator's fields, taken through the codec's own stages.

use h5_samples::{Field, Values, finite_range};
use quire_codec::alphabet::{ALPHABET, DIRECT_ZERO, RUN_SYMBOLS};
use quire_codec::lorenzo::{self, Axes};
use quire_codec::plane::PlaneWorkspace;
use quire_codec::quantize::{self, Quantizer, Value};
use quire_codec::tokens::{Histogram, Tokens, tokenize};
use quire_codec::{ByteOrder, CodebookPolicy, Config, Shape};

use crate::lengths::{UNLIMITED, code_bits, limited_lengths};
use crate::plain::plain_bits;

/// Most chunks of a field.
const CHUNKS: usize = 8;
/// Bytes of the fixed parts of the stream's header and of the quantized body and its plane, and for each axis (FORMAT.md §3, §4).
const HEADER_BYTES: (u64, u64) = (24 + 16 + 8, 8);

/// A chunk at a bound: what is to be coded of its codes plane.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Field that the chunk was cut from.
    pub field: &'static str,
    /// Error bound as a share of the chunk's range.
    pub bound: f64,
    /// Bytes of the chunk.
    pub chunk_bytes: u64,
    /// Values of the chunk.
    pub values: u64,
    /// Bytes of all headers, without a custom book's lengths.
    pub header_bytes: u64,
    /// Tokens of the differences.
    pub histogram: Histogram,
    /// Bits behind their codes.
    pub extra_bits: u64,
    /// Bits of the codes plane with classes but without runs, each chunk with its own book.
    pub classes_only_bits: u64,
    /// Bits of the codes plane with neither ([`plain_bits`]).
    pub plain_bits: u64,
    /// Bytes of the codes plane as the codec writes it, its header and book included.
    pub plane_bytes: u64,
}

impl Sample {
    /// Bytes of the chunk for each byte of its headers and of a codes plane of so many bits.
    #[must_use]
    pub fn ratio(&self, bits: u64) -> f64 {
        self.chunk_bytes as f64 / (self.header_bytes as f64 + bits as f64 / 8.0)
    }
}

/// Chunks of a field, at most eight, evenly spread over it. A chunk holds 64^3 values where the field is large enough.
pub fn chunks(field: &Field) -> impl Iterator<Item = Field> + '_ {
    let extents: Vec<usize> = chunk_dims(field.dims.len()).iter().zip(&field.dims).map(|(&most, &dim)| most.min(dim)).collect();
    let counts: Vec<usize> = extents.iter().zip(&field.dims).map(|(&extent, &dim)| dim.div_ceil(extent)).collect();
    let total: usize = counts.iter().product();
    let taken = total.min(CHUNKS);
    (0..taken).map(move |place| {
        let origin: Vec<usize> =
            place_in(&counts, place * total / taken).iter().zip(&extents).map(|(&index, &extent)| index * extent).collect();
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

/// Indices, slowest first, of an element by its place in C order.
fn place_in(dims: &[usize], mut place: usize) -> Vec<usize> {
    let mut indices = vec![0; dims.len()];
    for (index, &dim) in indices.iter_mut().zip(dims).rev() {
        *index = place % dim;
        place /= dim;
    }
    indices
}

/// Part of a field, clipped where it would reach beyond the field.
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
        let indices = place_in(&extents[..rank - 1], row);
        let slow = indices.iter().zip(origin).zip(dims).fold(0, |place, ((&index, &start), &dim)| place * dim + start + index);
        slow * dims[rank - 1] + origin[rank - 1]
    };
    (0..rows).flat_map(|row| values[row_start(row)..][..extents[rank - 1]].iter().copied()).collect()
}

/// The sample of a chunk at a bound relative to its range, or `None` where the range is 0 or the bound too small for the type.
#[must_use]
pub fn measure(chunk: &Field, bound: f64) -> Option<Sample> {
    let config = Config::absolute(bound * finite_range(chunk)).ok()?;
    Some(match &chunk.values {
        Values::F32(values) => measure_values(chunk, bound, values, &config),
        Values::F64(values) => measure_values(chunk, bound, values, &config),
    })
}

fn measure_values<V: Value>(chunk: &Field, bound: f64, values: &[V], config: &Config) -> Sample {
    let dims: Vec<u64> = chunk.dims.iter().map(|&dim| dim as u64).collect();
    let shape = Shape::new(&dims).expect("a chunk has 1 to 4 axes");
    let differences = differences(values, &shape, config);
    let mut tokens = Tokens::default();
    tokenize(&differences, &mut tokens);
    let (extra_bits, histogram) = tokens.count();
    let zeros = differences.iter().filter(|&&difference| difference == V::Code::default()).count() as u64;
    let mut plane = Vec::new();
    PlaneWorkspace::default().encode(&differences, Axes::all(&shape), CodebookPolicy::Auto, &mut plane);
    Sample {
        field: chunk.name,
        bound,
        chunk_bytes: (values.len() * V::SIZE) as u64,
        values: values.len() as u64,
        header_bytes: HEADER_BYTES.0 + HEADER_BYTES.1 * dims.len() as u64,
        histogram,
        extra_bits,
        classes_only_bits: classes_only_bits(&histogram, zeros),
        plain_bits: plain_bits(&differences),
        plane_bytes: plane.len() as u64,
    }
}

/// Stages 1 and 2 of the codec.
fn differences<V: Value>(values: &[V], shape: &Shape, config: &Config) -> Vec<V::Code> {
    let mut bytes = vec![0; values.len() * V::SIZE];
    for (index, value) in values.iter().enumerate() {
        value.write(&mut bytes, index, ByteOrder::Little);
    }
    let mut codes = vec![V::Code::default(); values.len()];
    let mut exceptions = Vec::new();
    quantize::quantize::<V>(&bytes, ByteOrder::Little, &Quantizer::new(config.bound), &mut codes, &mut exceptions);
    quantize::fill_gaps(&mut codes, &exceptions, shape.row());
    let mut differences = codes.clone();
    lorenzo::predict(&codes, shape, Axes::all(shape), &mut differences);
    differences
}

/// Bits with a code for each zero in place of run tokens, the table of the book for nothing.
fn classes_only_bits(histogram: &Histogram, zeros: u64) -> u64 {
    let mut without_runs = *histogram;
    without_runs[..RUN_SYMBOLS].fill(0);
    without_runs[usize::from(DIRECT_ZERO)] = zeros;
    let extra_bits: u64 = without_runs.iter().zip(&ALPHABET).map(|(&count, symbol)| count * u64::from(symbol.extra_bits)).sum();
    code_bits(&without_runs, &limited_lengths(&without_runs, UNLIMITED)) + extra_bits
}
