//! Streams that are given: those of the folder `streams/`, random ones, and damaged ones.

use std::path::{Path, PathBuf};

use quire_codec::stages::header;
use quire_codec::{ByteOrder, CodebookPolicy, Coding, Config, Header, Scalar};
use quire_gpu::Error;

use crate::common::checks::bits;
use crate::common::sampling::sample;
use crate::common::{Content, Random, chunk_of, layout};
use crate::report::Report;
use crate::{CODINGS, config, decompress, one_in};

/// The streams of the folder `streams/`: those that our encoder writes, those that it does not, and faulty ones. With them those of the folder
/// that QUIRE_STREAMS names: random ones of streams/random_streams.py.
#[test]
fn golden_streams() {
    let Some(mut report) = Report::on_gpu() else { return };
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
            let decoded = report.cpu.decompress(&stream, &mut expected);
            assert_eq!(decoded.is_err(), folder == "faulty", "{name}: {decoded:?}");
            match (decoded, decompress(report.device, &stream, len)) {
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
    let Some(mut report) = Report::on_gpu() else { return };
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
        let chunk = chunk_of(content, &layout, 2);
        // Of whole numbers, the first value is the fill value: where it is no multiple of the step, there are exceptions.
        let first = bits(&chunk[..scalar.size()], layout.byte_order);
        let (bound, fill_value) = if scalar.is_float() { (bound, None) } else { (1.0, Some(first)) };
        let config = Config { coding, codebook, fill_value, ..config(bound) };
        let stream = report.cpu_stream(&chunk, &layout, &config);
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
            let decoded = report.cpu.decompress(&damaged, &mut expected);
            match (decoded, decompress(report.device, &damaged, chunk.len())) {
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
