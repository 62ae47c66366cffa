//! The GPU's streams are the CPU's, byte for byte, and each side decodes the other's; streams that the CPU refuses, the GPU refuses.
//!
//! Without a GPU each test says why it is skipped; `QUIRE_REQUIRE_CUDA=1` makes that a failure.
//!
//! Scripts choose tests by a part of their names, which begin with their module.

mod calls;
mod decoding;
mod exceptions;
mod extents;
mod report;
mod settings;

#[path = "../../../codec/tests/common/mod.rs"]
mod common;
#[path = "../machine/mod.rs"]
mod machine;

use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{ByteOrder, CodingPolicy, Config, Layout, PredictorPolicy, Scalar, Unverified};
use quire_gpu::{Compressed, Device, Error};

const FLOATS: [Scalar; 4] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16];
const CODINGS: [CodingPolicy; 2] = [CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];
const CUBIC: PredictorPolicy = PredictorPolicy::Interpolation(InterpolationKind::CUBIC);

/// On a GPU one case in one; on machines that take long one in `part`, see codec/tests/common/sampling.rs.
fn one_in(part: usize) -> usize {
    if machine::is_small() { part } else { 1 }
}

fn config(bound: f64) -> Config<'static> {
    Config::absolute(bound).expect("a good bound")
}

fn compress(device: &'static Device, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    fetch(device.compress(chunk, layout, config).expect("the GPU compresses"))
}

fn fetch(compressed: Compressed) -> Vec<u8> {
    let mut stream = vec![0xee; compressed.len()];
    compressed.copy_to(&mut stream).expect("the stream is fetched");
    stream
}

fn decompress(device: &'static Device, stream: &[u8], len: usize) -> Result<Vec<u8>, Error> {
    let mut chunk = vec![0xee; len];
    let stream = Unverified::read(stream).map_err(|_| Error::Refused)?;
    device.decompress(stream)?.finish(chunk.as_mut_slice())?;
    Ok(chunk)
}
