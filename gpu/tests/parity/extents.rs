//! Chunks, rows and streams of all lengths.

use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{ByteOrder, Coding, Config, ErrorBound, Header, Layout, PredictorPolicy, Scalar};
use quire_gpu::Device;

use crate::common::{CONTENTS, Content, Random, chunk_of, layout};
use crate::machine::is_small;
use crate::report::Report;
use crate::{FLOATS, ORDERS, config};

#[test]
fn large_chunks() {
    let Some(mut report) = Report::on_gpu() else { return };
    let device = report.device;
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
    reports.into_iter().for_each(|part| report.include(part));
    report.finish("large chunks");
}

/// Compares chunks of a layout with all contents; of very large ones with a few.
fn compare_large_chunks(device: &'static Device, layout: &Layout) -> Report {
    let mut report = Report::new(device);
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
        let chunk = chunk_of(content, layout, 3);
        for &bound in bounds {
            let what = format!("{content:?} {:?} {:?} bound {bound:e}", layout.shape.dims(), layout.scalar);
            report.compare_codings(&what, &chunk, layout, &config(bound));
        }
    }
    report
}

/// Interpolation of levels that do not fit into one block of threads: rows shorter and longer than a block, of even and odd extents, that are odd along up to
/// three other axes.
#[test]
fn interpolated_rows_of_any_length() {
    let Some(mut report) = Report::on_gpu() else { return };
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
            let chunk = chunk_of(content, &layout, at as u64);
            let predictor = PredictorPolicy::Interpolation(InterpolationKind::new(rough, linear));
            let config = Config { predictor, ..config(1e-2) };
            report.compare(&format!("{content:?} {dims:?} {scalar:?} {predictor:?}"), &chunk, &layout, &config);
        }
    }
    report.finish("interpolated rows");
}

/// Chunks that do not shrink, and constant ones, of all lengths modulo four: the only streams that do not end with a whole word.
#[test]
fn streams_of_any_length() {
    let Some(mut report) = Report::on_gpu() else { return };
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
                let config = Config::new(ErrorBound::Lossless).expect("a bound");
                let stream = report.cpu_stream(&chunk, &layout, &config);
                let found = Header::read_from(&stream).expect("a header").coding;
                assert!(found == coding || elements == 1, "{what} {elements} {scalar:?}: {found:?}");
                report.compare(&format!("{what} {elements} {scalar:?}"), &chunk, &layout, &config);
            }
        }
    }
    report.finish("streams of any length");
}
