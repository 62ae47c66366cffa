//! Measures the codec on one thread: `cargo run --release -p quire-codec --example bench [-- REPEATS]`.
//!
//! For each chunk, the bound is first checked in f64 on every value. Then rows give the ratio, the median and the quartiles of the time, and GB/s of
//! *uncompressed* data: a row for a copy of the chunk, which no codec can beat, and a row each for compressing and decompressing. The stages have rows of their
//! own.

use std::hint::black_box;
use std::time::Instant;

use h5_samples::{cloud, turbulence};
use quire_codec::stages::Axes;
use quire_codec::stages::bitmap::Bitmap;
use quire_codec::stages::codebook::{self, ENTRIES, MAX_CODE_BITS};
use quire_codec::stages::decimal::{self, Decimal};
use quire_codec::stages::interpolation::Interpolation;
use quire_codec::stages::linear;
use quire_codec::stages::lorenzo;
use quire_codec::stages::patched16::{PLACEHOLDER, Patch, Patched16};
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::stages::quantizer::Quantizer;
use quire_codec::stages::tokens::{TokenOffset, Tokens, tokenize};
use quire_codec::stages::value::Value;
use quire_codec::stages::{book_choice, gaps, lanes};
use quire_codec::{ByteOrder, CodebookPolicy, Config, Layout, Scalar, SettledBound, SettledConfig, Shape, Workspace};

fn main() {
    let repeats = std::env::args().nth(1).map_or(51, |text| text.parse().expect("REPEATS is a number"));
    println!("{}", h5_samples::measured());
    println!("machine: {}", h5_samples::processor());
    println!("command: cargo run --release -p quire-codec --example bench -- {repeats}");
    println!("{:<46} {:>7} {:>9} {:>19} {:>7}", "chunk and stage", "ratio", "median us", "quartiles us", "GB/s");
    let velocity = turbulence::velocity(1, [128; 3]);
    let resolved = turbulence::resolved_velocity(1, [128; 3]);
    let density = turbulence::density(1, [128; 3]);
    let water = cloud::water(1, [128; 3]);
    for relative in [1e-2, 1e-3, 1e-4] {
        whole(&format!("velocity f32 64^3 rel {relative:e}"), &cube(&velocity, 64), 64, relative, repeats);
        whole(&format!("resolved f32 64^3 rel {relative:e}"), &cube(&resolved, 64), 64, relative, repeats);
    }
    for (name, field) in [("density", &density), ("cloud", &water)] {
        whole(&format!("{name} f32 64^3 rel 1e-3"), &cube(field, 64), 64, 1e-3, repeats);
    }
    // All values of a chunk of 16^3 are measured for the choice of its predictor.
    for edge in [16, 32, 128] {
        whole(&format!("velocity f32 {edge}^3 rel 1e-3"), &cube(&velocity, edge), edge, 1e-3, repeats);
    }
    let wide: Vec<f64> = cube(&velocity, 64).iter().map(|&value| f64::from(value)).collect();
    whole("velocity f64 64^3 rel 1e-3", &wide, 64, 1e-3, repeats);
    // The sum makes 0 of -0, which would be an exception.
    let decimals: Vec<f64> = wide.iter().map(|value| (value * DIVISOR as f64).round() / DIVISOR as f64 + 0.0).collect();
    let narrow: Vec<f32> = decimals.iter().map(|&value| value as f32).collect();
    whole("velocity f32 64^3 three decimals, exact", &narrow, 64, 0.0, repeats);
    whole("velocity f64 64^3 three decimals, exact", &decimals, 64, 0.0, repeats);
    println!("stages of exact decimals f32 and f64 64^3");
    decimal_stages::<f32>("f32", &f32::bytes(&narrow), repeats);
    decimal_stages::<f64>("f64", &f64::bytes(&decimals), repeats);
    for (name, field) in [("velocity", &velocity), ("resolved", &resolved)] {
        println!("stages of {name} f32 64^3 rel 1e-3");
        let values = cube(field, 64);
        stages(&f32::bytes(&values), cubic(64), range(&values) * 1e-3, repeats);
    }
}

/// The divisor of the decimals that are measured.
const DIVISOR: u64 = 1000;

/// Measures how decimals become codes and are restored from them.
fn decimal_stages<V: Value>(name: &str, chunk: &[u8], repeats: usize) {
    let elements = chunk.len() / V::SIZE;
    let (grid, order) = (Decimal::new(DIVISOR).expect("a divisor"), ByteOrder::Little);
    let (mut codes, mut exceptions, mut restored) = (vec![V::Code::default(); elements], Bitmap::default(), chunk.to_vec());
    row(&format!("1 quantize decimals {name}"), None, chunk.len(), repeats, || {
        exceptions.clear(elements).expect("memory");
        decimal::quantize::<V>(chunk, order, &grid, &mut codes, &mut exceptions);
    });
    row(&format!("1 restore decimals {name}"), None, chunk.len(), repeats, || {
        decimal::restore::<V, _>(&codes, &grid, order, &mut restored);
    });
    assert!(exceptions.count() == 0 && restored == chunk, "decimals are exact");
}

/// A type of values that the benchmark measures.
trait Element: Copy + Into<f64> {
    const SCALAR: Scalar;
    fn bytes(values: &[Self]) -> Vec<u8>;
    fn values(bytes: &[u8]) -> Vec<Self>;
}

impl Element for f32 {
    const SCALAR: Scalar = Scalar::F32;
    fn bytes(values: &[Self]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }
    fn values(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|&raw| Self::from_le_bytes(raw)).collect()
    }
}

impl Element for f64 {
    const SCALAR: Scalar = Scalar::F64;
    fn bytes(values: &[Self]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }
    fn values(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|&raw| Self::from_le_bytes(raw)).collect()
    }
}

/// Measures a chunk under a bound that is a share of the range; a share of 0 means the exact bits.
fn whole<T: Element>(name: &str, values: &[T], edge: u64, relative: f64, repeats: usize) {
    let chunk = T::bytes(values);
    let bound = range(values) * relative;
    let config = Config::absolute(bound).expect("a field has a range");
    let layout = layout(T::SCALAR, edge);
    let mut workspace = Workspace::default();
    let (mut stream, mut restored) = (Vec::new(), vec![0; chunk.len()]);
    workspace.compress(&chunk, &layout, &config, &mut stream).expect("compresses");
    workspace.decompress(&stream, &mut restored).expect("decompresses");
    for (original, decoded) in values.iter().zip(T::values(&restored)) {
        assert!(((*original).into() - decoded.into()).abs() <= bound, "bound broken");
    }
    let ratio = chunk.len() as f64 / stream.len() as f64;
    let mut copied = vec![0; chunk.len()];
    row(&format!("{name} floor: copy"), None, chunk.len(), repeats, || copied.copy_from_slice(black_box(&chunk)));
    row(&format!("{name} compress"), Some(ratio), chunk.len(), repeats, || {
        workspace.compress(black_box(&chunk), &layout, &config, &mut stream).expect("compresses");
    });
    row(&format!("{name} decompress"), Some(ratio), chunk.len(), repeats, || {
        workspace.decompress(black_box(&stream), &mut restored).expect("decompresses");
    });
}

fn stages(chunk: &[u8], shape: Shape, bound: f64, repeats: usize) {
    let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape };
    let axes = Axes::all(&layout.shape);
    let quantizer = Quantizer::for_chunk::<f32>(
        chunk,
        ByteOrder::Little,
        bound,
        quire_codec::stages::fills::Fills::NONE,
        quire_codec::Keep::default(),
    );
    let elements = layout.shape.elements() as usize;
    let (mut codes, mut differences) = (vec![0; elements], vec![0; elements]);
    let (mut exceptions, mut restored) = (Bitmap::default(), chunk.to_vec());
    let (mut workspace, config) = (Workspace::default(), SettledConfig::of(SettledBound::Absolute(bound)));
    row("0 choose a predictor", None, chunk.len(), repeats, || {
        black_box(workspace.choose(chunk, &layout, &config).expect("memory"));
    });
    row("1 quantize", None, chunk.len(), repeats, || {
        exceptions.clear(elements).expect("memory");
        linear::quantize::<f32>(chunk, ByteOrder::Little, &quantizer, &mut codes, &mut exceptions);
    });
    gaps::fill_gaps(&mut codes, &exceptions, layout.shape.row());
    row("2 predict", None, chunk.len(), repeats, || lorenzo::predict(&codes, &layout.shape, axes, &mut differences));
    let mut tokens = Tokens::default();
    row("3 tokens, with their histogram", None, chunk.len(), repeats, || tokenize(&differences, &mut tokens).expect("memory"));
    let (_, histogram) = tokens.count();
    row("4 choose from the dictionary", None, chunk.len(), repeats, || {
        black_box(book_choice::choose(black_box(&histogram), CodebookPolicy::Auto, &[]));
    });
    row("4 build a custom book", None, chunk.len(), repeats, || {
        black_box(book_choice::choose(black_box(&histogram), CodebookPolicy::Custom, &[]));
    });
    row("4 sort by weight, as the book begins", None, chunk.len(), repeats, || {
        let mut leaves: Vec<(u64, usize)> = black_box(&histogram)
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(symbol, &count)| (count, symbol))
            .collect();
        leaves.sort_unstable();
        black_box(leaves);
    });
    let lengths = book_choice::choose(&histogram, CodebookPolicy::Auto, &[]).lengths();
    let codes_of = codebook::canonical_codes(&lengths);
    let mut encoder = lanes::Encoder::default();
    row("5 code in lanes (blocks of 4096)", None, chunk.len(), repeats, || {
        let mut start = 0;
        for group in tokens.segment_ends.chunks(2) {
            let end = group[group.len() - 1].tokens;
            black_box(encoder.encode(&tokens.symbols()[start..end], &codes_of, lanes::LaneCount::All).expect("memory"));
            start = end;
        }
    });
    let mut table = Box::new([0; 1 << MAX_CODE_BITS]);
    row("4 fill the decoding table", None, chunk.len(), repeats, || {
        codebook::fill_decode_table(&lengths, &ENTRIES, &mut table).expect("a good book");
    });
    let mut blocks = Vec::new();
    let mut start = TokenOffset::default();
    for group in tokens.segment_ends.chunks(2) {
        let end = group[group.len() - 1];
        let mut words = encoder
            .encode(&tokens.symbols()[start.tokens..end.tokens], &codes_of, lanes::LaneCount::All)
            .expect("memory")
            .to_vec();
        words.extend([0; lanes::LANE_PADDING]);
        let extra = tokens.extra.words(start.extra_bits, end.extra_bits).expect("memory");
        let mut extra: Vec<u8> = extra.iter().flat_map(|word| word.to_le_bytes()).collect();
        extra.extend([0; lanes::EXTRA_PADDING]);
        blocks.push((words, extra));
        start = end;
    }
    row("5 decode lanes (blocks of 4096)", None, chunk.len(), repeats, || {
        for (block, (words, extra)) in differences.chunks_mut(4096).zip(&blocks) {
            lanes::decode(words, lanes::LaneCount::All, extra, &table, block, &mut |_, _| {}).expect("decodes");
        }
    });
    let mut work = differences.clone();
    row("2 undo the prediction", None, chunk.len(), repeats, || {
        work.copy_from_slice(&differences);
        lorenzo::restore(&mut work, &layout.shape, axes);
    });
    assert_eq!(work, codes);
    row("checksum of a stream of 1/8 of the chunk", None, chunk.len(), repeats, || {
        black_box(crc32fast::hash(black_box(&chunk[..chunk.len() / 8])));
    });
    row("1 restore values", None, chunk.len(), repeats, || {
        linear::restore::<f32, _>(&codes, &quantizer, ByteOrder::Little, &mut restored);
    });
    let Some(fine) = quantizer.fine::<f32>() else { return };
    let (mut interpolation, mut residuals) = (Interpolation::default(), Vec::new());
    row("2' quantize and interpolate", None, chunk.len(), repeats, || {
        exceptions.clear(elements).expect("memory");
        interpolation.forward(chunk, &layout, &fine, InterpolationKind::CUBIC, &mut residuals, &mut exceptions).expect("memory");
    });
    let values: Vec<i16> = residuals.iter().map(|&residual| i16::try_from(residual).unwrap_or(PLACEHOLDER)).collect();
    let patches: Vec<Patch> = (residuals.iter().zip(&values).enumerate())
        .filter(|(_, (_, value))| **value == PLACEHOLDER)
        .map(|(index, (&residual, _))| (index, i64::from(residual)))
        .collect();
    let residuals = Patched16 { values: &values, patches: &patches };
    row("2' undo the interpolation, restore values", None, chunk.len(), repeats, || {
        interpolation.inverse(&residuals, &layout, &fine, InterpolationKind::CUBIC, &mut restored).expect("memory");
    });
}

fn row(name: &str, ratio: Option<f64>, bytes: usize, repeats: usize, mut run: impl FnMut()) {
    for _ in 0..3 {
        run();
    }
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let speed = bytes as f64 / at(0.5) / 1e3;
    println!("{name:<46} {ratio:>7} {:>9.1} {:>9.1} {:>9.1} {speed:>7.2}", at(0.5), at(0.25), at(0.75));
}

fn layout(scalar: Scalar, edge: u64) -> Layout {
    Layout { scalar, byte_order: ByteOrder::Little, shape: cubic(edge) }
}

fn cubic(edge: u64) -> Shape {
    Shape::new(&[edge; 3]).expect("a cube")
}

/// The values of a corner of a 128^3 field, a cube with sides of `edge` values.
fn cube(field: &[f32], edge: u64) -> Vec<f32> {
    let edge = edge as usize;
    (0..edge * edge).flat_map(|row| &field[(row / edge * 128 + row % edge) * 128..][..edge]).copied().collect()
}

fn range<T: Element>(values: &[T]) -> f64 {
    let fold = |start, pick: fn(f64, f64) -> f64| values.iter().map(|&value| value.into()).fold(start, pick);
    fold(f64::NEG_INFINITY, f64::max) - fold(f64::INFINITY, f64::min)
}
