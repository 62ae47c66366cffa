//! Streams of every released version stay readable, and this version still writes its own byte for byte.
//!
//! `golden/v{version}_{name}.chunk` holds a chunk's bytes and `.quire` its stream, written once by that version and never again:
//! `cargo test -p quire-codec --test golden -- --ignored` writes those that are missing.

mod common;

use std::path::{Path, PathBuf};

use common::{Content, chunk, layout, values};
use quire_codec::{ByteOrder, CodebookPolicy, CodingPolicy, Config, Header, Layout, PredictorPolicy, Scalar, Workspace};

const VERSION: &str = "v0_3_0";

struct Case {
    name: &'static str,
    content: Content,
    scalar: Scalar,
    byte_order: ByteOrder,
    dims: &'static [u64],
    bound: f64,
    coding: CodingPolicy,
    codebook: CodebookPolicy,
    predictor: PredictorPolicy,
    /// CRC-32 of the decoded bytes.
    decoded: u32,
}

const fn case(name: &'static str, content: Content, scalar: Scalar, dims: &'static [u64], bound: f64, decoded: u32) -> Case {
    let (coding, codebook, predictor) = (CodingPolicy::Auto, CodebookPolicy::Auto, PredictorPolicy::Auto);
    Case { name, content, scalar, byte_order: ByteOrder::Little, dims, bound, coding, codebook, predictor, decoded }
}

const CASES: [Case; 16] = [
    case("smooth_f32_3d", Content::Smooth, Scalar::F32, &[9, 20, 31], 1e-3, 0x675e_32c9),
    case("smooth_f64_4d", Content::Smooth, Scalar::F64, &[3, 4, 11, 13], 1e-9, 0xe5a9_68a7),
    Case {
        byte_order: ByteOrder::Big,
        ..case("mask_f32_2d_big_endian", Content::LandMask, Scalar::F32, &[60, 70], 1e-2, 0x9815_c02a)
    },
    case("gaps_f64_1d", Content::Gaps, Scalar::F64, &[3001], 1e-4, 0xb8b0_a8cf),
    case("specials_f32_1d", Content::Specials, Scalar::F32, &[777], 1e-3, 0xf6ec_11a9),
    case("sparse_f32_3d_long_blocks", Content::MostlyZero, Scalar::F32, &[20, 50, 50], 1e-2, 0x0831_1355),
    case("outliers_f32_2d", Content::Outliers, Scalar::F32, &[50, 61], 1e-3, 0xc329_8719),
    Case {
        codebook: CodebookPolicy::Custom,
        ..case("lattice_f32_2d_custom_book", Content::Lattice, Scalar::F32, &[40, 50], 1e-3, 0xf5b5_b65c)
    },
    Case {
        predictor: PredictorPolicy::Interpolation,
        ..case("interpolated_f32_3d", Content::Noise, Scalar::F32, &[17, 20, 33], 0.3, 0x8948_80e0)
    },
    Case {
        predictor: PredictorPolicy::Interpolation,
        byte_order: ByteOrder::Big,
        ..case("interpolated_gaps_f64_2d_big_endian", Content::Gaps, Scalar::F64, &[41, 70], 0.01, 0x31a6_56fb)
    },
    Case {
        predictor: PredictorPolicy::Interpolation,
        ..case("interpolated_outliers_f32_4d", Content::Outliers, Scalar::F32, &[3, 9, 10, 13], 0.1, 0x44f1_4201)
    },
    Case {
        predictor: PredictorPolicy::Axes(0b101),
        ..case("two_axes_f32_3d", Content::Smooth, Scalar::F32, &[9, 20, 31], 1e-3, 0x675e_32c9)
    },
    Case {
        coding: CodingPolicy::Bitshuffle,
        ..case("bit_planes_f32_3d", Content::Smooth, Scalar::F32, &[9, 20, 31], 1e-3, 0x675e_32c9)
    },
    Case {
        coding: CodingPolicy::Bitshuffle,
        byte_order: ByteOrder::Big,
        ..case("bit_planes_gaps_f64_2d_big_endian", Content::Gaps, Scalar::F64, &[41, 70], 1e-9, 0xc745_39ae)
    },
    case("constant_f64", Content::Constant, Scalar::F64, &[1000], 1e-3, 0xa924_39bd),
    case("stored_f64", Content::Bits, Scalar::F64, &[100], 1e-300, 0x25c1_e68f),
];

impl Case {
    fn layout(&self) -> Layout {
        layout(self.scalar, self.byte_order, self.dims)
    }

    fn path(&self, extension: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{VERSION}_{}.{extension}", self.name))
    }

    fn read(&self, extension: &str) -> Vec<u8> {
        let path = self.path(extension);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn compress(&self, original: &[u8]) -> Vec<u8> {
        let Self { coding, codebook, predictor, bound, .. } = *self;
        let config = Config { coding, codebook, predictor, ..Config::absolute(bound).unwrap() };
        let mut stream = Vec::new();
        Workspace::default().compress(original, &self.layout(), &config, &mut stream).unwrap();
        stream
    }
}

#[test]
fn golden_streams_decode_to_the_same_bytes() {
    for case in CASES {
        let (original, stream) = (case.read("chunk"), case.read("quire"));
        let header = Header::read_from(&stream).unwrap();
        assert_eq!(header.layout, case.layout(), "{}", case.name);
        let mut decoded = vec![0; original.len()];
        Workspace::default().decompress(&stream, &mut decoded).unwrap();
        assert_eq!(crc32fast::hash(&decoded), case.decoded, "{}: 0x{:08x}", case.name, crc32fast::hash(&decoded));
        for ((x, x_bytes), (y, y_bytes)) in
            common::read(&original, &case.layout()).iter().zip(common::read(&decoded, &case.layout()))
        {
            assert!(*x_bytes == y_bytes || (x - y).abs() <= case.bound, "{}: {x} became {y}", case.name);
        }
    }
}

#[test]
fn golden_chunks_encode_to_the_same_streams() {
    for case in CASES {
        assert!(case.compress(&case.read("chunk")) == case.read("quire"), "{}: the encoder writes other bytes", case.name);
    }
}

#[test]
#[ignore = "writes golden files that are missing, once a version"]
fn write_missing() {
    for case in CASES {
        if !case.path("quire").exists() {
            let original = chunk(&values(case.content, case.layout().shape.elements() as usize, 11), &case.layout(), 11);
            let stream = case.compress(&original);
            let mut decoded = vec![0; original.len()];
            Workspace::default().decompress(&stream, &mut decoded).unwrap();
            std::fs::write(case.path("chunk"), &original).unwrap();
            std::fs::write(case.path("quire"), &stream).unwrap();
            println!("{}: decoded 0x{:08x}, {} of {} bytes", case.name, crc32fast::hash(&decoded), stream.len(), original.len());
        }
    }
}
