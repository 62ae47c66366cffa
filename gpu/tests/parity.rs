//! The GPU's streams are the CPU's, byte for byte, and each side decodes the other's; streams that the CPU refuses, the GPU refuses.
//!
//! Without a GPU each test says why it is skipped; `QUIRE_REQUIRE_CUDA=1` makes that a failure.

#[path = "../../codec/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::time::Instant;

use common::sampling::sample;
use common::{CONTENTS, Content, Random, SHAPES, chunk, layout, values};
use quire_codec::stages::adaptive::{AdaptiveDictionary, MAX_USER_BOOKS};
use quire_codec::stages::books::custom_book;
use quire_codec::stages::choice::TileChoice;
use quire_codec::stages::exceptions::most_listed;
use quire_codec::stages::header;
use quire_codec::stages::predictor::{InterpolationKind, Predictor};
use quire_codec::{
    ByteOrder, CodebookPolicy, Coding, CodingPolicy, Config, ErrorBound, Header, Layout, PredictorPolicy, Scalar, Unverified,
    Workspace,
};
use quire_gpu::{Batch, Device, Error, batch_predictor, device, statistics};

const FLOATS: [Scalar; 4] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16];
const CODINGS: [CodingPolicy; 2] = [CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

/// Whether to compare a part of all, for machines that take long: the largest chunks are left out, and few bounds are tried.
fn is_small() -> bool {
    std::env::var_os("QUIRE_SMALL_MATRIX").is_some()
}

/// On a GPU one case in one; on machines that take long one in `part`, see common/sampling.rs.
fn one_in(part: usize) -> usize {
    if is_small() { part } else { 1 }
}

/// The GPU, or `None` with the reason printed.
fn gpu() -> Option<&'static Device> {
    match device(0) {
        Ok(device) => Some(device),
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            println!("skipped: {reason}");
            None
        }
    }
}

fn compress(device: &'static Device, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let compressed = device.compress(chunk, layout, config).expect("the GPU compresses");
    let mut stream = vec![0xee; compressed.len()];
    compressed.copy_to(&mut stream).expect("the stream is fetched");
    stream
}

/// Compresses a chunk from pinned memory.
fn compress_pinned(device: &'static Device, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let mut staging = device.staging(chunk.len()).expect("memory").expect("few are lent");
    let room = staging.room();
    room.bytes.copy_from_slice(chunk);
    let compressed = device.compress_from(room.chunk(), layout, config).expect("the GPU compresses");
    let mut stream = vec![0xee; compressed.len()];
    compressed.copy_to(&mut stream).expect("the stream is fetched");
    stream
}

/// Decompresses a stream into pinned memory.
fn decompress_pinned(device: &'static Device, stream: &[u8], len: usize) -> Result<Vec<u8>, Error> {
    let mut staging = device.staging(len).expect("memory").expect("few are lent");
    let stream = Unverified::read(stream).map_err(|_| Error::Refused)?;
    device.decompress(stream)?.finish_in(staging.room())?;
    Ok(staging.room().bytes.to_vec())
}

fn decompress(device: &'static Device, stream: &[u8], len: usize) -> Result<Vec<u8>, Error> {
    let mut chunk = vec![0xee; len];
    let stream = Unverified::read(stream).map_err(|_| Error::Refused)?;
    device.decompress(stream)?.finish(&mut chunk)?;
    Ok(chunk)
}

/// Comparisons so far, and what went wrong.
#[derive(Default)]
struct Report {
    done: usize,
    failures: Vec<String>,
}

impl Report {
    fn of_all(reports: Vec<Self>) -> Self {
        let done = reports.iter().map(|report| report.done).sum();
        Self { done, failures: reports.into_iter().flat_map(|report| report.failures).collect() }
    }

    fn check(&mut self, what: &str, found: &[u8], expected: &[u8]) {
        self.done += 1;
        if found == expected {
            return;
        }
        let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
        let around = |bytes: &[u8]| format!("{:02x?}", &bytes[at.min(bytes.len())..(at + 16).min(bytes.len())]);
        self.failures.push(format!(
            "{what}: {} bytes, {} expected; first difference at {at}: {} instead of {}",
            found.len(),
            expected.len(),
            around(found),
            around(expected)
        ));
    }

    /// As [`Report::compare`], with tokens and with bit planes.
    fn compare_codings(
        &mut self,
        device: &'static Device,
        cpu: &mut Workspace,
        what: &str,
        chunk: &[u8],
        layout: &Layout,
        config: &Config,
    ) {
        for coding in CODINGS {
            self.compare(device, cpu, &format!("{what} {coding:?}"), chunk, layout, &Config { coding, ..*config });
        }
    }

    /// Both directions, with both codecs.
    fn compare(
        &mut self,
        device: &'static Device,
        cpu: &mut Workspace,
        what: &str,
        chunk: &[u8],
        layout: &Layout,
        config: &Config,
    ) {
        let mut expected = Vec::new();
        cpu.compress(chunk, layout, config, &mut expected).expect("the CPU compresses");
        let stream = compress(device, chunk, layout, config);
        self.check(&format!("{what} compressed"), &stream, &expected);
        let mut restored = vec![0; chunk.len()];
        cpu.decompress(&expected, &mut restored).expect("the CPU decompresses");
        match decompress(device, &expected, chunk.len()) {
            Ok(found) => self.check(&format!("{what} decompressed"), &found, &restored),
            Err(Error::Unsupported(_)) => {
                let coding = Header::read_from(&expected).expect("a header").coding;
                assert!(matches!(coding, Coding::Stored | Coding::Constant), "{what}");
            }
            Err(error) => self.failures.push(format!("{what} decompressed: {error}")),
        }
    }

    fn finish(self, name: &str) {
        for failure in self.failures.iter().take(12) {
            println!("{failure}");
        }
        println!("{name}: {} comparisons, {} differ", self.done, self.failures.len());
        assert!(self.failures.is_empty());
    }
}

/// Predictors that are compared whether the encoder would choose them or not.
const PREDICTORS: [PredictorPolicy; 7] = [
    PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
    PredictorPolicy::Interpolation(InterpolationKind::new(0b0001, false)),
    PredictorPolicy::Interpolation(InterpolationKind::new(0b0110, true)),
    PredictorPolicy::Interpolation(InterpolationKind::new(0b1010, false)),
    PredictorPolicy::Axes(0),
    PredictorPolicy::Axes(1),
    PredictorPolicy::Axes(6),
];

fn config(bound: f64, codebook: CodebookPolicy, fill_value: Option<u64>) -> Config<'static> {
    let mut config = Config::absolute(bound).expect("a good bound");
    config.codebook = codebook;
    config.fill_value = fill_value;
    config
}

#[test]
fn matrix_of_contents_types_and_shapes() {
    let Some(device) = gpu() else { return };
    // Long rows, and rows that are no multiple of anything, as well.
    let shapes = SHAPES.into_iter().chain([&[3, 5000][..], &[2, 3, 4097], &[300, 70], &[5, 3, 70, 9]]);
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    // A small one for the sanitizers, which are slow.
    let small = is_small();
    let shapes: Vec<&[u64]> = shapes.filter(|dims| !small || dims.iter().product::<u64>() % 5 < 2).collect();
    let sizes = [shapes.len(), FLOATS.len(), ORDERS.len(), CONTENTS.len()];
    for [dims, scalar, order, content] in sample("matrix", sizes, one_in(3)) {
        let (dims, scalar, order, content) = (shapes[dims], FLOATS[scalar], ORDERS[order], CONTENTS[content]);
        let layout = layout(scalar, order, dims);
        let chunk = chunk(&values(content, layout.shape.elements() as usize, 9), &layout, 9);
        let bounds: &[f64] = if small { &[1e-3] } else { &[1e-300, 1e-44, 1e-12, 1e-3, 0.5, 1e3, 1e30, 1e300] };
        for &bound in bounds {
            let what = format!("{content:?} {dims:?} {scalar:?} {order:?} bound {bound:e}");
            report.compare_codings(device, &mut cpu, &what, &chunk, &layout, &config(bound, CodebookPolicy::Auto, None));
        }
        let others: &[f64] = if small { &[0.5] } else { &[1e-4, 1e-2, 0.5, 1e3] };
        let predictors = &PREDICTORS[..if small { 1 } else { PREDICTORS.len() }];
        for (&bound, &predictor) in others.iter().flat_map(|bound| predictors.iter().map(move |predictor| (bound, predictor))) {
            let what = format!("{content:?} {dims:?} {scalar:?} {order:?} bound {bound:e} {predictor:?}");
            let config = Config { predictor, ..config(bound, CodebookPolicy::Auto, None) };
            report.compare(device, &mut cpu, &what, &chunk, &layout, &config);
        }
        let config = Config {
            predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
            ..config(0.5, CodebookPolicy::Auto, None)
        };
        let what = format!("{content:?} {dims:?} {scalar:?} {order:?} interpolated");
        report.compare_codings(device, &mut cpu, &what, &chunk, &layout, &config);
    }
    report.finish("matrix");
}

#[test]
fn books_and_fill_values() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    for dims in [&[5000u64][..], &[60, 70], &[20, 30, 40]] {
        for scalar in FLOATS {
            let layout = layout(scalar, ByteOrder::Little, dims);
            for content in CONTENTS {
                let values = values(content, layout.shape.elements() as usize, 5);
                let chunk = chunk(&values, &layout, 5);
                let first = &chunk[..scalar.size()];
                let bits = first.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                for fill in [None, Some(bits), Some(0), Some(u64::MAX)] {
                    for bound in [1e-5, 1e-2, 2.0] {
                        let bit_planes = Config { coding: CodingPolicy::Bitshuffle, ..config(bound, CodebookPolicy::Auto, fill) };
                        let what = format!("{content:?} {dims:?} {scalar:?} fill {fill:x?} bit planes bound {bound:e}");
                        report.compare(device, &mut cpu, &what, &chunk, &layout, &bit_planes);
                        for codebook in [CodebookPolicy::Auto, CodebookPolicy::Dictionary, CodebookPolicy::Custom] {
                            let what = format!("{content:?} {dims:?} {scalar:?} fill {fill:x?} {codebook:?} bound {bound:e}");
                            report.compare(device, &mut cpu, &what, &chunk, &layout, &config(bound, codebook, fill));
                        }
                    }
                }
            }
        }
    }
    report.finish("books and fill values");
}

/// Bounds of every kind, in all types.
#[test]
fn bounds_and_types() {
    const BOUNDS: [ErrorBound; 10] = [
        ErrorBound::Lossless,
        ErrorBound::Absolute(3.7),
        ErrorBound::Absolute(1e6),
        ErrorBound::Relative(1e-4),
        ErrorBound::PointwiseRelative(0.9),
        ErrorBound::PointwiseRelative(1e-3),
        ErrorBound::PointwiseRelative(2e-7),
        ErrorBound::Psnr(50.0),
        ErrorBound::Ratio { ratio: 7.0, ceiling: None },
        ErrorBound::Ratio { ratio: 30.0, ceiling: Some(1e-2) },
    ];
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let small = is_small();
    let shapes: [&[u64]; 7] = [&[60, 70], &[7, 11, 13], &[31], &[1], &[5003], &[3, 5, 70, 9], &[40, 50, 41]];
    for dims in &shapes[..if small { 3 } else { 7 }] {
        for (number, scalar) in Scalar::ALL.into_iter().enumerate() {
            let order = ORDERS[(number + dims.len()) % 2];
            let layout = layout(scalar, order, dims);
            for content in CONTENTS {
                let chunk = chunk(&values(content, layout.shape.elements() as usize, 5), &layout, 5);
                let last = &chunk[chunk.len() - scalar.size()..];
                let add = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
                let fill = if order == ByteOrder::Big { last.iter().fold(0, add) } else { last.iter().rev().fold(0, add) };
                for bound in BOUNDS {
                    if quire_codec::check_bound(&layout, &Config::new(bound).expect("a bound")).is_err() {
                        continue;
                    }
                    for fill_value in [None, Some(fill)] {
                        let config = Config { fill_value, ..Config::new(bound).expect("a bound") };
                        let what = format!("{content:?} {dims:?} {scalar:?} {order:?} {bound:?} fill {fill_value:x?}");
                        report.compare(device, &mut cpu, &what, &chunk, &layout, &config);
                        let bit_planes = Config { coding: CodingPolicy::Bitshuffle, ..config };
                        report.compare(device, &mut cpu, &format!("{what} bit planes"), &chunk, &layout, &bit_planes);
                    }
                }
            }
        }
    }
    report.finish("bounds and types");
}

#[test]
fn pinned_chunks() {
    const BOUNDS: [ErrorBound; 5] = [
        ErrorBound::Lossless,
        ErrorBound::Absolute(1e-3),
        ErrorBound::Absolute(1e6),
        ErrorBound::Relative(1e-4),
        ErrorBound::Psnr(50.0),
    ];
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let shapes: [&[u64]; 3] = [&[7, 11, 13], &[5003], &[40, 50, 41]];
    for dims in &shapes[..if is_small() { 2 } else { 3 }] {
        for scalar in [Scalar::F32, Scalar::F64, Scalar::C64, Scalar::I16] {
            let layout = layout(scalar, ByteOrder::Little, dims);
            for content in CONTENTS {
                let chunk = chunk(&values(content, layout.shape.elements() as usize, 5), &layout, 5);
                for bound in BOUNDS {
                    let config = Config::new(bound).expect("a bound");
                    if quire_codec::check_bound(&layout, &config).is_err() {
                        continue;
                    }
                    let what = format!("{content:?} {dims:?} {scalar:?} {bound:?}");
                    let (mut expected, mut restored) = (Vec::new(), vec![0; chunk.len()]);
                    cpu.compress(&chunk, &layout, &config, &mut expected).expect("the CPU compresses");
                    report.check(&what, &compress_pinned(device, &chunk, &layout, &config), &expected);
                    cpu.decompress(&expected, &mut restored).expect("the CPU decompresses");
                    if let Ok(found) = decompress_pinned(device, &expected, chunk.len()) {
                        report.check(&format!("{what} decompressed"), &found, &restored);
                    } else {
                        // As it is for chunks that are not pinned.
                        assert!(decompress(device, &expected, chunk.len()).is_err(), "{what}");
                    }
                }
            }
        }
    }
    report.finish("pinned chunks");
}

#[test]
fn stagings_are_lent_up_to_a_number_and_come_back() {
    let Some(device) = gpu() else { return };
    let lend = || device.staging(1000).expect("memory");
    for _ in 0..3 {
        let lent: Vec<_> = std::iter::from_fn(lend).take(100).collect();
        // Tests beside this one may have some.
        assert!((8..=16).contains(&lent.len()), "{}", lent.len());
    }
}

#[test]
fn large_chunks() {
    let Some(device) = gpu() else { return };
    let dims: [&[u64]; 7] =
        [&[64, 64, 64], &[128, 128, 96], &[1_000_003], &[3, 700_001], &[1000, 1037], &[256, 256, 256], &[17, 33, 65, 129]];
    // So large that several blocks of threads read the index, at one time more of them than it has blocks for.
    const MANY_SEGMENTS: &[u64] = &[66, 256, 128];
    let (dims, scalars) = if is_small() { (&[MANY_SEGMENTS][..], &FLOATS[..1]) } else { (&dims[..], &FLOATS[..]) };
    // Most of the time is the host's.
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = scalars
            .iter()
            .flat_map(|&scalar| dims.iter().map(move |&dims| layout(scalar, ByteOrder::Little, dims)))
            .map(|layout| scope.spawn(move || compare_large_chunks(device, &layout)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    Report::of_all(reports).finish("large chunks");
}

/// Compares chunks of a layout with all contents; of very large ones with a few.
fn compare_large_chunks(device: &'static Device, layout: &Layout) -> Report {
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let huge = layout.chunk_bytes() > 40 << 20;
    let bounds = [1e-4, 0.3, 1e-2, 1e-3];
    let bounds = match (is_small(), huge) {
        (true, _) => &bounds[..2],
        (false, true) => &bounds[3..],
        (false, false) => &bounds[..3],
    };
    for content in CONTENTS {
        let is_taken = match content {
            Content::Smooth | Content::LandMask => true,
            Content::Noise => !is_small(),
            _ => !is_small() && !huge,
        };
        if !is_taken {
            continue;
        }
        let chunk = chunk(&values(content, layout.shape.elements() as usize, 3), layout, 3);
        for &bound in bounds {
            let what = format!("{content:?} {:?} {:?} bound {bound:e}", layout.shape.dims(), layout.scalar);
            report.compare_codings(device, &mut cpu, &what, &chunk, layout, &config(bound, CodebookPolicy::Auto, None));
        }
    }
    report
}

/// Interpolation of levels that do not fit into one block of threads: rows shorter and longer than a block, of even and odd extents, that are odd along up to
/// three other axes.
#[test]
fn interpolated_rows_of_any_length() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let shapes: [&[u64]; 13] = [
        &[9_001],
        &[16_384],
        &[5_000, 1],
        &[5_000, 2],
        &[70, 129],
        &[33, 256],
        &[9, 1_027],
        &[21, 23, 25],
        &[17, 18, 20],
        &[16, 32, 64],
        &[3, 5, 700],
        &[9, 10, 11, 13],
        &[6, 3, 5, 128],
    ];
    let kinds = [(0b0000, false), (0b0001, false), (0b0110, true), (0b1011, false), (0b0101, true)];
    for (dims, scalar) in shapes.into_iter().flat_map(|dims| [Scalar::F32, Scalar::F64].map(|scalar| (dims, scalar))) {
        for (at, (rough, linear)) in kinds.into_iter().enumerate() {
            let layout = layout(scalar, ORDERS[at % ORDERS.len()], dims);
            let content = [Content::Smooth, Content::Noise][at % 2];
            let chunk = chunk(&values(content, layout.shape.elements() as usize, at as u64), &layout, at as u64);
            let predictor = PredictorPolicy::Interpolation(InterpolationKind::new(rough, linear));
            let config = Config { predictor, ..config(1e-2, CodebookPolicy::Auto, None) };
            report.compare(device, &mut cpu, &format!("{content:?} {dims:?} {scalar:?} {predictor:?}"), &chunk, &layout, &config);
        }
    }
    report.finish("interpolated rows");
}

/// Long runs of exceptions over rows and segments: the code of a gap comes from far away.
#[test]
fn gaps_of_all_lengths() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    const DIMS: [&[u64]; 4] = [&[30_000], &[7, 4300], &[3, 70, 143], &[600_000]];
    const ROUNDS: usize = 12;
    const SCALARS: [Scalar; 2] = [Scalar::F32, Scalar::F16];
    for [dims, round, scalar] in sample("gaps", [DIMS.len(), ROUNDS, SCALARS.len()], one_in(3)) {
        let (dims, scalar) = (DIMS[dims], SCALARS[scalar]);
        let elements = dims.iter().product();
        let layout = layout(scalar, ByteOrder::Little, dims);
        let mut random = Random(77 + (ROUNDS * scalar.size() + round) as u64);
        let mut values = values(Content::Smooth, elements as usize, round as u64);
        for _ in 0..=round {
            let start = random.below(elements) as usize;
            let len = 1 + random.below([3, 100, 5000, elements][round % 4]) as usize;
            for value in values.iter_mut().skip(start).take(len) {
                *value = f64::NAN;
            }
        }
        if round == ROUNDS - 1 {
            values.fill(f64::NAN);
            values[random.below(elements) as usize] = 1.0;
        }
        let chunk = chunk(&values, &layout, round as u64);
        report.compare_codings(
            device,
            &mut cpu,
            &format!("gaps {dims:?} {scalar:?} round {round}"),
            &chunk,
            &layout,
            &config(1e-3, CodebookPolicy::Auto, None),
        );
    }
    report.finish("gaps");
}

/// Isolated exceptions: as many as a list holds, and a few more or less.
#[test]
fn lists_and_masks() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    const DIMS: [&[u64]; 3] = [&[30, 40], &[25, 60, 70], &[128, 128, 128]];
    const PREDICTORS: [PredictorPolicy; 2] = [PredictorPolicy::Lorenzo, PredictorPolicy::Interpolation(InterpolationKind::CUBIC)];
    for [dims, scalar, count, predictor] in sample("lists and masks", [DIMS.len(), FLOATS.len(), 4, 2], one_in(3)) {
        let (dims, scalar, order) = (DIMS[dims], FLOATS[scalar], ORDERS[scalar % 2]);
        let layout = layout(scalar, order, dims);
        let elements = layout.shape.elements();
        let limit = most_listed(elements);
        let count = [1, limit - 1, limit, limit + 1][count];
        let mut values = values(Content::Smooth, elements as usize, count);
        let mut random = Random(count);
        let mut left = count;
        while left > 0 {
            let value = &mut values[random.below(elements) as usize];
            left -= u64::from(value.is_finite());
            *value = f64::INFINITY;
        }
        let chunk = chunk(&values, &layout, 1);
        let config = Config { predictor: PREDICTORS[predictor], ..config(1e-3, CodebookPolicy::Auto, None) };
        report.compare_codings(device, &mut cpu, &format!("{count} exceptions in {dims:?} {scalar:?}"), &chunk, &layout, &config);
    }
    report.finish("lists and masks");
}

/// Exceptions of whole numbers, which fill values alone can be: lists of all lengths modulo four, and masks.
#[test]
fn lists_of_fill_values() {
    const FILL: u64 = 101; // no multiple of the step
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let whole = Scalar::ALL.into_iter().filter(|scalar| !scalar.is_float());
    for (scalar, order) in whole.flat_map(|scalar| ORDERS.map(|order| (scalar, order))) {
        for dims in [&[30u64, 40][..], &[5, 21, 67]] {
            let layout = layout(scalar, order, dims);
            let elements = layout.shape.elements();
            let limit = most_listed(elements);
            for count in [1, 2, 3, limit, limit + 1, elements / 7] {
                let mut chunk = chunk(&values(Content::Smooth, elements as usize, count), &layout, count);
                let size = scalar.size();
                let fill = &FILL.to_le_bytes()[..size];
                let mut random = Random(count);
                for _ in 0..count {
                    let value = &mut chunk[random.below(elements) as usize * size..][..size];
                    value.copy_from_slice(fill);
                    if order == ByteOrder::Big {
                        value.reverse();
                    }
                }
                let config = config(3.0, CodebookPolicy::Auto, Some(FILL));
                let what = format!("{count} fill values in {dims:?} {scalar:?} {order:?}");
                report.compare_codings(device, &mut cpu, &what, &chunk, &layout, &config);
            }
        }
    }
    report.finish("lists of fill values");
}

/// All values that short types have: whatever rounding can meet.
#[test]
fn every_value_of_short_types() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let bounds = [1e-9, 3e-5, 1e-3, 0.3, 4.0, 1e3, 1e6]
        .map(ErrorBound::Absolute)
        .into_iter()
        .chain([1e-3, 0.03, 0.9].map(ErrorBound::PointwiseRelative))
        .chain([ErrorBound::Lossless]);
    for (scalar, order) in
        Scalar::ALL.into_iter().filter(|scalar| scalar.size() < 4).flat_map(|scalar| ORDERS.map(|order| (scalar, order)))
    {
        let layout = layout(scalar, order, &[256, if scalar.size() == 1 { 1 } else { 256 }]);
        let bytes = |bits: u64| match order {
            ByteOrder::Little => bits.to_le_bytes()[..scalar.size()].to_vec(),
            ByteOrder::Big => bits.to_be_bytes()[8 - scalar.size()..].to_vec(),
        };
        let chunk: Vec<u8> = (0..layout.shape.elements()).flat_map(bytes).collect();
        for bound in bounds.clone() {
            let config = Config::new(bound).expect("a bound");
            if quire_codec::check_bound(&layout, &config).is_ok() {
                report.compare_codings(device, &mut cpu, &format!("{scalar:?} {order:?} {bound:?}"), &chunk, &layout, &config);
            }
        }
    }
    report.finish("every value of short types");
}

/// Chunks that do not shrink, and constant ones, of all lengths modulo four: the only streams that do not end with a whole word.
#[test]
fn streams_of_any_length() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let mut random = Random(3);
    let small = is_small();
    // Around a tile of the checksum, several of them, and more than kernels write to the host themselves.
    let lengths = [1, 2, 3, 5, 30, 31, 4065, 4066, 4067, 9001, 70_002, 70_003, 5_000_001];
    for elements in lengths.into_iter().filter(|&elements| !small || elements < 70_003) {
        for scalar in Scalar::ALL.into_iter().filter(|scalar| scalar.size() < 4) {
            let layout = layout(scalar, ByteOrder::Big, &[elements]);
            let bytes: Vec<u8> = (0..layout.chunk_bytes()).map(|_| random.next() as u8).collect();
            let constant = bytes[..scalar.size()].repeat(elements as usize);
            for (what, coding, chunk) in [("random", Coding::Stored, bytes), ("constant", Coding::Constant, constant)] {
                let mut stream = Vec::new();
                let config = Config::new(ErrorBound::Lossless).expect("a bound");
                cpu.compress(&chunk, &layout, &config, &mut stream).expect("the CPU compresses");
                let found = Header::read_from(&stream).expect("a header").coding;
                assert!(found == coding || elements == 1, "{what} {elements} {scalar:?}: {found:?}");
                report.compare(device, &mut cpu, &format!("{what} {elements} {scalar:?}"), &chunk, &layout, &config);
            }
        }
    }
    report.finish("streams of any length");
}

/// The streams of the folder `streams/`: those that our encoder writes, those that it does not, and faulty ones. With them those of the folder
/// that QUIRE_STREAMS names: random ones of plugin-tests/py/random_streams.py.
#[test]
fn golden_streams() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    // By cargo, or by hand in the repository's root on a machine without it.
    let root = std::env::var("CARGO_MANIFEST_DIR").map_or_else(|_| PathBuf::from("."), |gpu| Path::new(&gpu).join(".."));
    let random = std::env::var_os("QUIRE_STREAMS").map(PathBuf::from);
    println!("random streams, of QUIRE_STREAMS: {random:?}");
    let (mut read, mut refused, mut left) = (0, 0, 0);
    let roots = [root.join("streams")].into_iter().chain(random);
    for (streams, folder) in roots.flat_map(|streams| ["valid", "uncommon", "faulty"].map(|folder| (streams.clone(), folder))) {
        for entry in std::fs::read_dir(streams.join(folder)).expect("a folder of streams") {
            let path = entry.expect("an entry").path();
            let (name, stream) = (path.display().to_string(), std::fs::read(&path).expect("a stream"));
            let len = Header::read_from(&stream).map_or(0, |header| header.layout.chunk_bytes() as usize);
            let mut expected = vec![0; len];
            let decoded = cpu.decompress(&stream, &mut expected);
            assert_eq!(decoded.is_err(), folder == "faulty", "{name}: {decoded:?}");
            match (decoded, decompress(device, &stream, len)) {
                (Ok(()), Ok(chunk)) => {
                    read += 1;
                    report.check(&name, &chunk, &expected);
                }
                (Err(_), Err(Error::Refused)) => refused += 1,
                (_, Err(Error::Unsupported(_))) => left += 1,
                (decoded, gpu) => report.failures.push(format!("{name}: CPU {decoded:?}, GPU {:?}", gpu.map(|_| ()))),
            }
        }
    }
    println!("golden streams: {read} read, {refused} refused, {left} not for the GPU");
    assert!(read > 100 && refused > 100);
    report.finish("golden streams");
}

/// Flips and cuts, with the checksum made right again, so that the checks behind it are reached.
#[test]
fn damaged_streams_are_refused_alike() {
    let Some(device) = gpu() else { return };
    let mut cpu = Workspace::default();
    const SCALARS: [Scalar; 6] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16, Scalar::I8, Scalar::U16];
    let (mut refused, mut accepted) = (0, 0);
    let cases = [
        (Content::Smooth, &[9u64, 20, 31][..], 1e-3, CodebookPolicy::Auto),
        (Content::LandMask, &[60, 70], 1e-2, CodebookPolicy::Auto),
        (Content::Specials, &[777], 1e-3, CodebookPolicy::Custom),
        (Content::MostlyZero, &[20, 50, 50], 1e-2, CodebookPolicy::Auto),
        (Content::Outliers, &[50, 61], 1e-3, CodebookPolicy::Custom),
        (Content::HugeRange, &[40, 50], 1e-3, CodebookPolicy::Auto),
    ];
    for [case, scalar, coding] in sample("damaged streams", [cases.len(), SCALARS.len(), CODINGS.len()], one_in(3)) {
        let mut random = Random(11 + (100 * case + 10 * scalar + coding) as u64);
        let ((content, dims, bound, codebook), scalar, coding) = (cases[case], SCALARS[scalar], CODINGS[coding]);
        let layout = layout(scalar, ByteOrder::Little, dims);
        let chunk = chunk(&values(content, layout.shape.elements() as usize, 2), &layout, 2);
        let mut stream = Vec::new();
        // Of whole numbers, the first value is the fill value: where it is no multiple of the step, there are exceptions.
        let first = chunk[..scalar.size()].iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        let (bound, fill) = if scalar.is_float() { (bound, None) } else { (1.0, Some(first)) };
        let config = Config { coding, ..config(bound, codebook, fill) };
        cpu.compress(&chunk, &layout, &config, &mut stream).expect("the CPU compresses");
        let header = Header::read_from(&stream).expect("a header");
        if header.coding == Coding::Stored {
            continue; // not for the GPU: nothing of it is read there
        }
        let start = header.encoded_len();
        let header_bits = 8 * 64;
        for round in 0..600 {
            let mut damaged = stream.clone();
            let resealed = round % 8 != 0;
            if round % 10 == 9 {
                damaged.truncate(damaged.len() - 1 - random.below(damaged.len() as u64 / 2) as usize);
            } else {
                let bits = (damaged.len() - start) as u64 * 8;
                let bit = if round % 2 == 0 { random.below(bits) } else { random.below(bits.min(header_bits)) };
                damaged[start + bit as usize / 8] ^= 1 << (bit % 8);
            }
            if resealed && damaged.len() > 64 {
                header::seal(&mut damaged);
            }
            let mut expected = vec![0; chunk.len()];
            let decoded = cpu.decompress(&damaged, &mut expected);
            match (decoded, decompress(device, &damaged, chunk.len())) {
                (Ok(()), Ok(found)) => {
                    assert_eq!(found, expected, "{content:?} {scalar:?} round {round}");
                    accepted += 1;
                }
                (Err(_), Err(Error::Refused)) => refused += 1,
                (Ok(()), Err(Error::Unsupported(_))) => {}
                (cpu, gpu) => panic!("{content:?} {scalar:?} round {round}: CPU {cpu:?}, GPU {:?}", gpu.map(|_| ())),
            }
        }
    }
    println!("damaged streams: {refused} refused, {accepted} read alike");
    assert!(refused > 1000 && accepted > 100);
}

#[test]
fn batches_are_chunk_by_chunk() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let layouts = [
        (Scalar::F32, &[16u64, 16, 16][..], 40),
        (Scalar::F64, &[33, 65], 9),
        (Scalar::F32, &[5001], 7),
        // Only every other chunk begins at a multiple of four bytes.
        (Scalar::F16, &[33, 65], 26),
        (Scalar::BF16, &[5001], 13),
    ];
    let linear = InterpolationKind::new(0b01, true);
    let ways = [
        PredictorPolicy::Lorenzo,
        PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
        PredictorPolicy::Interpolation(linear),
    ]
    .into_iter()
    .flat_map(|way| CODINGS.map(|coding| (way, coding)));
    for ((scalar, dims, count), (predictor, coding)) in
        layouts.into_iter().flat_map(|layout| ways.clone().map(move |way| (layout, way)))
    {
        let layout = layout(scalar, ByteOrder::Little, dims);
        let chunks: Vec<Vec<u8>> = (0..count)
            .map(|i| chunk(&values(CONTENTS[i % CONTENTS.len()], layout.shape.elements() as usize, i as u64), &layout, i as u64))
            .collect();
        // A batch has one predictor. Values on a lattice are not interpolated, which a batch does not look for.
        let config = Config { predictor, coding, ..config(1e-3, CodebookPolicy::Auto, None) };
        let chunks: Vec<&Vec<u8>> = chunks
            .iter()
            .filter(|chunk| {
                let found = batch_predictor(chunk, &layout, &config);
                predictor == PredictorPolicy::Lorenzo || found.is_ok_and(Predictor::is_interpolation)
            })
            .collect();
        if chunks.is_empty() && scalar.size() == 2 {
            continue; // types of 16 bits have no fine grid
        }
        let mut batch = Batch::new(device, &layout, chunks.len()).expect("a batch");
        let joined: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect();
        let (streams, _) = batch.compress(&joined, &config, 1).expect("compresses");
        let mut quantized = Vec::new();
        let mut restored = Vec::new();
        for (i, (chunk, stream)) in chunks.iter().zip(&streams).enumerate() {
            let mut expected = Vec::new();
            cpu.compress(chunk, &layout, &config, &mut expected).expect("the CPU compresses");
            report.check(&format!("{scalar:?} {dims:?} chunk {i}"), stream, &expected);
            if Header::read_from(&expected).expect("a header").coding == Coding::Quantized {
                let mut chunk = vec![0; chunk.len()];
                cpu.decompress(&expected, &mut chunk).expect("the CPU decompresses");
                restored.extend(chunk);
                quantized.push(expected);
            }
        }
        let mut batch = Batch::new(device, &layout, quantized.len()).expect("a batch");
        let (chunks, _) = batch.decompress(&quantized, 1).expect("decompresses");
        report.check(&format!("{scalar:?} {dims:?} restored"), &chunks, &restored);
    }
    report.finish("batches");
}

/// Counts of tiles, from copies and from device memory, compared with the codec's own, and the predictors that follow from them.
#[derive(Default)]
struct TileReport {
    on_host: usize,
    on_device: usize,
    interpolated: usize,
    without_interpolation: usize,
    failures: Vec<String>,
}

impl TileReport {
    fn compare(&mut self, batch: &mut Batch, cpu: &mut Workspace, what: &str, chunk: &[u8], layout: &Layout, config: &Config) {
        let measured = batch.measure_on_host(chunk, config, 0).expect("measures");
        let there = batch.measure_on_device(chunk, config, 0).expect("measures");
        let Some(choice) = TileChoice::of_chunk(chunk, layout, config) else {
            assert!(measured.is_none() && there.is_none(), "{what}");
            return;
        };
        let expected = choice.measure(chunk, layout).expect("memory");
        let predictor = cpu.choose(chunk, layout, config).expect("memory").1;
        self.on_host += 1;
        self.on_device += usize::from(there.is_some());
        self.interpolated += usize::from(predictor.is_interpolation());
        self.without_interpolation += usize::from(choice.interpolated_tiles().is_some() && expected.interpolated.is_none());
        for (place, found) in [("copies", measured), ("device memory", there)] {
            let is_right = found.as_ref().is_none_or(|found| (found.counts, found.predictor) == (expected, predictor));
            if !is_right {
                self.failures.push(format!("{what}, {place}: {found:?} in place of {expected:?} and {predictor:?}"));
            }
        }
        // In a batch the kernels decide, and measure the kinds of interpolation and the differences of interpolated tiles that they need.
        for found in batch.choose(&chunk.repeat(batch.chunks()), &choice, 0).expect("chooses").0 {
            let mut of_kinds = expected;
            if let Some(counts) = &mut of_kinds.interpolated {
                for kind in (0..counts.outliers.len()).filter(|kind| !found.kinds.contains(kind)) {
                    (counts.residuals[kind], counts.outliers[kind]) = Default::default();
                }
                for set in (0..counts.differences.len()).filter(|&set| found.set != Some(set)) {
                    counts.differences[set] = Default::default();
                }
            }
            if (found.counts, found.predictor) != (of_kinds, Some(predictor)) {
                self.failures.push(format!("{what}, batch: {found:?} in place of {of_kinds:?} and {predictor:?}"));
            }
        }
    }

    fn finish(self) {
        for failure in self.failures.iter().take(6) {
            println!("{failure}");
        }
        let Self { on_host, on_device, interpolated, without_interpolation, failures } = self;
        println!(
            "tiles of {on_host} chunks, of {on_device} in device memory; {interpolated} are interpolated, {without_interpolation} are out of reach; {} differ",
            failures.len()
        );
        assert!(failures.is_empty());
        assert!(on_device > 20 && interpolated > 5 && without_interpolation > 5);
    }
}

/// Tiles of all types and ranks, with all that keeps a value from having a code or a position.
#[test]
fn tiles_are_measured_as_on_the_cpu() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), TileReport::default());
    const DIMS: [&[u64]; 11] = [
        &[16_001],
        &[131, 203],
        &[40, 41, 43],
        &[2, 7, 3001],
        &[11, 13, 17, 19],
        &[1, 170, 180],
        &[90, 1, 233],
        &[31, 600, 1],
        &[3, 5, 9001],
        &[5000, 3, 2],
        &[2, 2, 2, 5003],
    ];
    const BOUNDS: [f64; 5] = [1e-9, 1e-4, 0.01, 0.3, 1e30];
    // No fill value; the chunk's first value; 0.
    const FILLS: usize = 3;
    let sizes = [DIMS.len(), FLOATS.len(), ORDERS.len(), CONTENTS.len(), BOUNDS.len(), FILLS, 2];
    for [dims, scalar, order, content, bound, fill, coding] in sample("tiles", sizes, one_in(10) * 6) {
        let (dims, scalar, order, content, bound) = (DIMS[dims], FLOATS[scalar], ORDERS[order], CONTENTS[content], BOUNDS[bound]);
        let layout = layout(scalar, order, dims);
        let chunk = chunk(&values(content, layout.shape.elements() as usize, 7), &layout, 7);
        let add = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
        let first = &chunk[..scalar.size()];
        let first = if order == ByteOrder::Big { first.iter().fold(0, add) } else { first.iter().rev().fold(0, add) };
        let config =
            Config { coding: CODINGS[coding], ..config(bound, CodebookPolicy::Auto, [None, Some(first), Some(0)][fill]) };
        if layout.is_constant(&chunk) {
            continue; // no predictor is chosen for it
        }
        let mut batch = Batch::new(device, &layout, 1).expect("a batch");
        let what = format!("{content:?} {dims:?} {scalar:?} {order:?} {config:?}");
        report.compare(&mut batch, &mut cpu, &what, &chunk, &layout, &config);
        // What interpolation has restored is between steps.
        if fill == 0 && scalar.size() > 2 {
            let (mut stream, mut restored) = (Vec::new(), vec![0; chunk.len()]);
            let interpolated = Config { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..config };
            cpu.compress(&chunk, &layout, &interpolated, &mut stream).expect("compresses");
            cpu.decompress(&stream, &mut restored).expect("decompresses");
            report.compare(&mut batch, &mut cpu, &format!("{what} restored"), &restored, &layout, &config);
        }
    }
    report.finish();
}

/// Smooth fields with noise, of which a box is out of the fine grid's reach, and has gaps. Some are made of values that interpolation has restored.
#[test]
fn tiles_in_part_out_of_reach_are_measured_as_on_the_cpu() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), TileReport::default());
    const EDGES: [usize; 3] = [24, 40, 48];
    let mut random = Random(5);
    for round in 0..(if is_small() { 60 } else { 600 }) {
        let layout = layout(FLOATS[round / 2 % 2], ORDERS[round / 4 % 2], &EDGES.map(|edge| edge as u64));
        let waves: [f64; 3] = std::array::from_fn(|_| 0.05 + random.below(100) as f64 * 0.004);
        let noise = [0.0, 0.01, 0.05][round % 3];
        let low = EDGES.map(|edge| random.below(edge as u64 / 2) as usize);
        let high: [usize; 3] = std::array::from_fn(|axis| low[axis] + 8 + random.below(EDGES[axis] as u64) as usize);
        let field: Vec<f64> = (0..EDGES.iter().product())
            .map(|index: usize| {
                let at = [index / EDGES[2] / EDGES[1], index / EDGES[2] % EDGES[1], index % EDGES[2]];
                let wave: f64 = at.iter().zip(waves).map(|(&at, wave)| (at as f64 * wave).sin()).sum();
                let value = wave + noise * random.unit();
                let is_in_box = (0..3).all(|axis| (low[axis]..high[axis]).contains(&at[axis]));
                match round % 4 {
                    0 => value,
                    _ if !is_in_box => value,
                    1 if random.below(9) == 0 => f64::NAN,
                    2 if random.below(3) == 0 => 1e35,
                    _ => value + 1e5,
                }
            })
            .collect();
        let mut chunk = chunk(&field, &layout, 1);
        let config = config(0.01, CodebookPolicy::Auto, None);
        if round % 2 == 0 {
            let mut stream = Vec::new();
            let interpolated = Config { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..config };
            cpu.compress(&chunk, &layout, &interpolated, &mut stream).expect("compresses");
            cpu.decompress(&stream, &mut chunk).expect("decompresses");
        }
        let mut batch = Batch::new(device, &layout, 1).expect("a batch");
        report.compare(&mut batch, &mut cpu, &format!("round {round}"), &chunk, &layout, &config);
    }
    report.finish();
}

/// Chunks one after another with the books of those before, and with as many others as there may be.
#[test]
fn adaptive_dictionaries() {
    let Some(device) = gpu() else { return };
    let (mut cpu, mut report) = (Workspace::default(), Report::default());
    let mut taken = 0;
    for (scalar, dims) in [(Scalar::F32, &[16u64, 16, 16][..]), (Scalar::F64, &[33, 65]), (Scalar::F32, &[20_000])] {
        let layout = layout(scalar, ByteOrder::Little, dims);
        let mut history = AdaptiveDictionary::new(&common::books()[..MAX_USER_BOOKS]).unwrap();
        for round in 0..6 {
            for (content, bound) in CONTENTS.into_iter().flat_map(|content| [1e-1, 1e-3].map(|bound| (content, bound))) {
                let chunk = chunk(&values(content, layout.shape.elements() as usize, round), &layout, round);
                for (books, name) in [(history.books(), "history"), (common::books(), "all")] {
                    let config = Config { books, ..config(bound, CodebookPolicy::Auto, None) };
                    let what = format!("{content:?} {dims:?} {scalar:?} bound {bound:e} round {round} {name}");
                    report.compare(device, &mut cpu, &what, &chunk, &layout, &config);
                }
                let config = Config { books: history.books(), ..config(bound, CodebookPolicy::Auto, None) };
                let stream = compress(device, &chunk, &layout, &config);
                taken += usize::from(custom_book(&stream).is_some_and(|book| history.books().contains(&book)));
                history.learn(&stream);
            }
        }
    }
    println!("adaptive dictionaries: {taken} books taken");
    assert!(taken > 50, "{taken}");
    report.finish("adaptive dictionaries");
}

/// After the first call of a kind, a call opens nothing, allocates nothing on the device or pinned, and records nothing; and its bytes
/// stay the same.
#[test]
fn warm_calls_do_only_their_work() {
    let Some(device) = gpu() else { return };
    // Other tests of this process count as well: this one runs on a session of its own count only when it is alone.
    if std::env::var_os("QUIRE_ALONE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "warm_calls_do_only_their_work", "--nocapture"])
            .env("QUIRE_ALONE", "1")
            .status()
            .expect("runs");
        assert!(status.success());
        return;
    }
    let layouts = [layout(Scalar::F32, ByteOrder::Little, &[64, 64, 64]), layout(Scalar::F64, ByteOrder::Little, &[100, 50])];
    let chunks: Vec<Vec<u8>> =
        layouts.iter().map(|layout| chunk(&values(Content::LandMask, layout.shape.elements() as usize, 1), layout, 1)).collect();
    let config = config(1e-3, CodebookPolicy::Auto, None);
    let run = || -> Vec<Vec<u8>> {
        layouts
            .iter()
            .zip(&chunks)
            .map(|(layout, chunk)| {
                let stream = compress(device, chunk, layout, &config);
                decompress(device, &stream, chunk.len()).expect("decompresses");
                stream
            })
            .collect()
    };
    run();
    let streams = run();
    let warm = statistics();
    for _ in 0..200 {
        assert_eq!(run(), streams);
    }
    assert_eq!(statistics(), warm);
    assert_eq!(warm.contexts, 1);
    println!("800 warm calls: {warm:?} before and after");
}

#[test]
fn threads_share_the_device() {
    let Some(device) = gpu() else { return };
    const THREADS: usize = 12;
    let layout = layout(Scalar::F32, ByteOrder::Little, &[64, 64, 64]);
    let config = config(1e-3, CodebookPolicy::Auto, None);
    let chunks: Vec<Vec<u8>> = (0..THREADS)
        .map(|i| chunk(&values(CONTENTS[i], layout.shape.elements() as usize, i as u64), &layout, i as u64))
        .collect();
    let expected: Vec<Vec<u8>> = chunks.iter().map(|chunk| compress(device, chunk, &layout, &config)).collect();
    let work = |i: usize, rounds: usize| {
        for _ in 0..rounds {
            assert_eq!(compress(device, &chunks[i], &layout, &config), expected[i]);
            if let Ok(found) = decompress(device, &expected[i], chunks[i].len()) {
                let mut restored = vec![0; found.len()];
                Workspace::default().decompress(&expected[i], &mut restored).expect("the CPU decompresses");
                assert_eq!(found, restored);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|i| _ = scope.spawn(move || work(i, 20))));
    // Speed: compressing alone, all threads against one after another.
    let rounds = 100;
    let compress_only = |i: usize| (0..rounds).for_each(|_| _ = compress(device, &chunks[i], &layout, &config));
    let clock = Instant::now();
    (0..THREADS).for_each(compress_only);
    let serial = clock.elapsed();
    let clock = Instant::now();
    std::thread::scope(|scope| (0..THREADS).for_each(|i| _ = scope.spawn(move || compress_only(i))));
    let together = clock.elapsed();
    println!("{THREADS} threads, {rounds} chunks each: one after another {serial:.1?}, together {together:.1?}");
}

#[test]
fn what_is_missing_is_named() {
    let reason = device(63).err().expect("there are no 64 GPUs").to_string();
    assert!(
        ["no GPU kernels", "no NVIDIA driver", "there is no GPU 63", "starting the NVIDIA driver"]
            .iter()
            .any(|text| reason.contains(text)),
        "{reason}"
    );
    let reason = device(64).err().expect("numbers end at 63").to_string();
    assert!(reason.contains("63"), "{reason}");
}
