//! Batches of chunks in device memory, whose streams are those of single chunks.

use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{ByteOrder, Coding, Config, Header, PredictorPolicy, Scalar};
use quire_gpu::{Batch, batch_choice};

use crate::common::{CONTENTS, chunk_of, layout};
use crate::report::Report;
use crate::{CODINGS, CUBIC, config};

#[test]
fn batches_are_chunk_by_chunk() {
    let Some(mut report) = Report::on_gpu() else { return };
    let layouts = [
        (Scalar::F32, &[16u64, 16, 16][..], 40),
        (Scalar::F64, &[33, 65], 9),
        (Scalar::F32, &[5001], 7),
        // Only every other chunk begins at a multiple of four bytes.
        (Scalar::F16, &[33, 65], 26),
        (Scalar::BF16, &[5001], 13),
    ];
    let linear = InterpolationKind::new(0b01, true);
    let ways = [PredictorPolicy::Lorenzo, CUBIC, PredictorPolicy::Interpolation(linear)]
        .into_iter()
        .flat_map(|way| CODINGS.map(|coding| (way, coding)));
    for ((scalar, dims, count), (predictor, coding)) in
        layouts.into_iter().flat_map(|layout| ways.clone().map(move |way| (layout, way)))
    {
        let layout = layout(scalar, ByteOrder::Little, dims);
        let chunks: Vec<Vec<u8>> = (0..count).map(|i| chunk_of(CONTENTS[i % CONTENTS.len()], &layout, i as u64)).collect();
        // A batch has one predictor. Values on a lattice are not interpolated, which a batch does not look for.
        let config = Config { predictor, coding, ..config(1e-3) };
        let chunks: Vec<&Vec<u8>> = chunks
            .iter()
            .filter(|chunk| {
                let found = batch_choice(chunk, &layout, &config);
                predictor == PredictorPolicy::Lorenzo || found.is_ok_and(|(_, predictor)| predictor.is_interpolation())
            })
            .collect();
        if chunks.is_empty() && scalar.size() == 2 {
            continue; // types of 16 bits have no fine grid
        }
        let mut batch = Batch::new(report.device, &layout, chunks.len()).expect("a batch");
        let joined: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect();
        let (streams, _) = batch.compress(&joined, &config, 1).expect("compresses");
        let mut quantized = Vec::new();
        let mut restored = Vec::new();
        for (i, (chunk, stream)) in chunks.iter().zip(&streams).enumerate() {
            let expected = report.cpu_stream(chunk, &layout, &config);
            report.check(&format!("{scalar:?} {dims:?} chunk {i}"), stream, &expected);
            if Header::read_from(&expected).expect("a header").coding == Coding::Quantized {
                restored.extend(report.cpu_chunk(&expected, chunk.len()));
                quantized.push(expected);
            }
        }
        let mut batch = Batch::new(report.device, &layout, quantized.len()).expect("a batch");
        let (chunks, _) = batch.decompress(&quantized, 1).expect("decompresses");
        report.check(&format!("{scalar:?} {dims:?} restored"), &chunks, &restored);
    }
    report.finish("batches");
}
