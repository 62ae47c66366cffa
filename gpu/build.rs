//! Compiles `kernels/module.cu` to a fatbin and embeds it. Without nvcc the crate builds all the same and says at run time that it has
//! no kernels; with `QUIRE_REQUIRE_CUDA=1` that is an error here. Those of `kernels/measure` become fatbins of their own, which examples alone embed.
//!
//! nvcc is looked for in `$NVCC`, `$CUDA_HOME/bin`, `$CUDA_PATH/bin`, the PATH, and `/usr/local/cuda/bin`. `NVCC=none` builds without it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use quire_codec::stages::alphabet::{self, ALPHABET};
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::stages::value::Value;
use quire_codec::stages::{
    book_choice, codebook, dictionary, fast_f32, fine_grid, fixed_log2, header, lanes, linear, logarithm, plane, positions,
    predictor, rounding, tokens,
};

#[path = "src/job.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod job;

/// Machine code for these, and PTX of the last one for GPUs to come.
const ARCHITECTURES: [&str; 2] = ["80", "90"];

fn main() {
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rustc-check-cfg=cfg(quire_kernels)");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=src/job.rs");
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH", "QUIRE_REQUIRE_CUDA"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    fs::write(output.join("constants.cuh"), constants()).expect("OUT_DIR is writable");
    let required = env::var("QUIRE_REQUIRE_CUDA").is_ok_and(|value| value == "1");
    match find_nvcc() {
        Some(nvcc) => {
            compile(&nvcc, &output, "kernels/module.cu", "quire.fatbin");
            compile(&nvcc, &output, "kernels/measure/codebooks.cu", "codebooks.fatbin");
            compile(&nvcc, &output, "kernels/measure/decoders.cu", "decoders.fatbin");
            println!("cargo::rustc-cfg=quire_kernels");
        }
        None if required => {
            panic!("QUIRE_REQUIRE_CUDA=1, but there is no nvcc in $NVCC, $CUDA_HOME, $CUDA_PATH, the PATH or /usr/local/cuda")
        }
        None => {}
    }
}

fn find_nvcc() -> Option<PathBuf> {
    if let Some(nvcc) = env::var_os("NVCC").filter(|value| !value.is_empty()) {
        return (nvcc != "none").then(|| PathBuf::from(nvcc));
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = homes.chain(env::split_paths(&path).collect::<Vec<_>>()).chain([PathBuf::from("/usr/local/cuda/bin")]);
    folders.map(|folder| folder.join("nvcc")).find(|nvcc| nvcc.is_file())
}

fn compile(nvcc: &Path, output: &Path, source: &str, fatbin: &str) {
    let mut command = Command::new(nvcc);
    // No contraction of products and sums: the bytes must be the CPU's.
    command.args(["--fatbin", "--std=c++17", "-O3", "--fmad=false", "--Werror", "all-warnings"]);
    for architecture in ARCHITECTURES {
        command.arg(format!("--generate-code=arch=compute_{architecture},code=sm_{architecture}"));
    }
    let last = ARCHITECTURES[ARCHITECTURES.len() - 1];
    command.arg(format!("--generate-code=arch=compute_{last},code=compute_{last}"));
    command.arg("-I").arg(output).arg("-o").arg(output.join(fatbin)).arg(source);
    let result = command.output().unwrap_or_else(|error| panic!("{} does not run: {error}", nvcc.display()));
    if !result.status.success() {
        panic!(
            "{} failed ({}): {command:?}\n{}{}\nNVCC=none builds without CUDA",
            nvcc.display(),
            result.status,
            String::from_utf8_lossy(&result.stdout),
            String::from_utf8_lossy(&result.stderr)
        );
    }
}

/// The numbers of a floating-point type.
fn limits<V: Value>(suffix: &str, real: &mut impl FnMut(&str, f64)) {
    real(&format!("CODE_LIMIT_{suffix}"), V::CODE_LIMIT);
    real(&format!("SAFE_CODE_LIMIT_{suffix}"), V::SAFE_CODE_LIMIT);
    real(&format!("SMALLEST_SAFE_STEP_{suffix}"), V::SMALLEST_SAFE_STEP);
    real(&format!("STEPS_LIMIT_{suffix}"), V::STEPS_LIMIT);
}

/// The format's numbers, for the kernels.
fn constants() -> String {
    let mut text = String::from("// Written by gpu/build.rs from quire-codec and gpu/src/job.rs.\n#pragma once\n");
    let mut number =
        |name: &str, value: usize| writeln!(text, "constexpr unsigned int {name} = {value};").expect("a String takes all");
    number("SYMBOLS", alphabet::SYMBOLS);
    number("SYMBOL_FOURS", job::SYMBOL_FOURS);
    number("SEGMENT", alphabet::SEGMENT);
    number("SEGMENT_LOG", alphabet::SEGMENT.ilog2() as usize);
    number("DIRECT_MAX", alphabet::DIRECT_MAX as usize);
    number("DIRECT_ZERO", usize::from(alphabet::DIRECT_ZERO));
    number("FIRST_CLASS", alphabet::FIRST_CLASS);
    for (name, first) in ["RUNS_OF_ZEROS", "RUNS_OF_MINUS_ONE", "RUNS_OF_ONE"].into_iter().zip(alphabet::FIRST_RUN) {
        number(name, first);
    }
    number("HALVES_TOGETHER", tokens::HALVES_TOGETHER as usize);
    number("MAX_CODE_BITS", usize::from(codebook::MAX_CODE_BITS));
    number("PACKED_LENGTHS", codebook::PACKED_LENGTHS);
    number("CUSTOM_MARGIN", book_choice::CUSTOM_MARGIN as usize);
    number("CUSTOM_EXCESS", book_choice::CUSTOM_EXCESS as usize);
    number("LOG_FRACTION", fixed_log2::LOG_FRACTION as usize);
    number("RUN_ENTRY", codebook::RUN_ENTRY as usize);
    number("WIDE_ENTRY", codebook::WIDE_ENTRY as usize);
    number("SPECIAL_ENTRY", codebook::SPECIAL_ENTRY as usize);
    number("START_SHIFT", codebook::START_SHIFT as usize);
    number("FIRST_SHIFT", codebook::FIRST_SHIFT as usize);
    number("LANES", lanes::LANES);
    number("PLANE_HEADER_LEN", plane::PLANE_HEADER_LEN);
    number("CUSTOM_BOOK", usize::from(plane::CUSTOM_BOOK));
    number("BIT_PLANES", usize::from(plane::BIT_PLANES));
    number("MIN_BLOCK_LOG", usize::from(plane::MIN_BLOCK_LOG));
    number("MAX_BLOCK_LOG", usize::from(plane::MAX_BLOCK_LOG));
    number("BLOCK_BITS", plane::BLOCK_BITS as usize);
    number("BLOCK_TOKENS", plane::BLOCK_TOKENS);
    number("HEADER_CODING_AT", header::CODING_AT);
    number("HEADER_LENGTH_AT", header::LENGTH_AT);
    number("CHECKSUM_AT", header::CHECKSUM_AT.start);
    number("BOOKS_PADDED", job::BOOKS_PADDED);
    number("DECODE_TABLE_LEN", job::DECODE_TABLE_LEN);
    number("CRC_TILE_ROWS", job::CRC_TILE_ROWS);
    number("ROWS_BLOCK_LOG", usize::from(job::ROWS_BLOCK_LOG));
    number("THREADS", job::THREADS as usize);
    number("CHOOSE_THREADS", job::CHOOSE_THREADS as usize);
    number("LANE_THREADS", job::LANE_THREADS as usize);
    number("EXPAND_THREADS", job::EXPAND_THREADS as usize);
    number("FEW_EXPAND_THREADS", job::FEW_EXPAND_THREADS as usize);
    number("COLUMNS_APART", job::COLUMNS_APART as usize);
    number("COLUMNS_JOINED", job::COLUMNS_JOINED as usize);
    number("COLUMNS_WHOLE", job::COLUMNS_WHOLE as usize);
    number("MIN_BLOCK_ROWS", job::MIN_BLOCK_ROWS);
    number("GROUP", job::GROUP);
    number("LANE_SLOT", job::LANE_SLOT);
    number("CHECKSUM_TILE", job::CHECKSUM_TILE);
    number("INDEX_TILE", job::INDEX_TILE);
    number("ROW_TILE", job::ROW_TILE);
    number("COARSE_VALUES", job::COARSE_VALUES);
    number("COARSE_THREADS", job::COARSE_THREADS as usize);
    number("INTERPOLATION", usize::from(predictor::INTERPOLATION));
    number("POSITIONS_PER_STEP", positions::POSITIONS_PER_STEP as usize);
    number("POSITIONS_PER_STEP_LOG", positions::POSITIONS_PER_STEP.ilog2() as usize);
    number("ESCAPE_FROM", fine_grid::ESCAPE_FROM as usize);
    number("ESCAPE_BASE", fine_grid::ESCAPE_BASE as usize);
    number("ESCAPE_REACH", fine_grid::ESCAPE_REACH as usize);
    number("COLUMNS", job::COLUMNS as usize);
    number("SHORT_ROWS", job::SHORT_ROWS as usize);
    number("ROW_TILES", job::ROW_TILES as usize);
    number("LONG_ROWS", job::LONG_ROWS as usize);
    number("AXIS", job::AXIS as usize);
    number("LINEAR", job::LINEAR as usize);
    number("EXACT_FLOATS", job::EXACT_FLOATS as usize);
    number("EXACT_SIGNED", job::EXACT_SIGNED as usize);
    number("EXACT_UNSIGNED", job::EXACT_UNSIGNED as usize);
    number("SIGNED_STEPS", job::SIGNED_STEPS as usize);
    number("UNSIGNED_STEPS", job::UNSIGNED_STEPS as usize);
    number("LOGARITHMIC", job::LOGARITHMIC as usize);
    number("NARROW_LOG_TERMS", logarithm::NARROW_TERMS.0);
    number("NARROW_EXP_TERMS", logarithm::NARROW_TERMS.1);
    number("WIDE_LOG_TERMS", logarithm::LOG_TERMS.len());
    number("WIDE_EXP_TERMS", logarithm::EXP_TERMS.len());
    assert_eq!(dictionary::books().len(), job::BOOKS, "the dictionary has grown: change BOOKS in gpu/src/job.rs");
    number("BOOKS", job::BOOKS);
    number("MAX_BOOKS", job::MAX_BOOKS);
    number("ENCODE_PARAMETERS_SIZE", size_of::<job::EncodeParameters>());
    number("ENCODE_STATE_SIZE", size_of::<job::EncodeState>());
    number("BOOK_SIZE", size_of::<job::Book>());
    number("ENCODE_RESULT_SIZE", size_of::<job::EncodeResult>());
    number("TABLES_SIZE", size_of::<job::Tables>());
    number("ENCODE_JOB_SIZE", size_of::<job::EncodeJob>());
    number("DECODE_PARAMETERS_SIZE", size_of::<job::DecodeParameters>());
    number("DECODE_STATE_SIZE", size_of::<job::DecodeState>());
    number("DECODE_JOB_SIZE", size_of::<job::DecodeJob>());
    let mut real = |name: &str, value: f64| writeln!(text, "constexpr double {name} = {value:e};").expect("a String takes all");
    limits::<f32>("F32", &mut real);
    limits::<f64>("F64", &mut real);
    limits::<Binary16>("F16", &mut real);
    limits::<BFloat16>("BF16", &mut real);
    real("FAR_FILL", linear::FAR_FILL);
    real("FINE_SPACING", positions::SPACING);
    real("GLANCE_SMALLEST_STEP", fast_f32::SMALLEST_STEP);
    real("GLANCE_ROUNDING", f64::from(rounding::ROUNDING_F32));
    real("GLANCE_DOUBT_SHARE", f64::from(fast_f32::DOUBT_SHARE));
    real("GLANCE_STANDING", f64::from(fast_f32::STANDING));
    real("GLANCE_OUT_OF_REACH", f64::from(fast_f32::OUT_OF_REACH));
    real("SPACINGS_PER_STEP", positions::SPACINGS_PER_STEP);
    for (name, terms) in [("LOG_TERMS", &logarithm::LOG_TERMS[..]), ("EXP_TERMS", &logarithm::EXP_TERMS)] {
        let terms: Vec<String> = terms.iter().map(|term| format!("{term:e}")).collect();
        writeln!(text, "__constant__ const double {name}[] = {{{}}};", terms.join(", ")).expect("a String takes all");
    }
    let mut table = |kind: &str, name: &str, value: fn(usize) -> u64| {
        let values: Vec<String> = (0..ALPHABET.len()).map(|symbol| value(symbol).to_string() + "u").collect();
        writeln!(text, "__constant__ const {kind} {name}[] = {{{}}};", values.join(", ")).expect("a String takes all");
    };
    table("unsigned long long", "SYMBOL_START", |symbol| ALPHABET[symbol].start);
    table("unsigned char", "SYMBOL_EXTRA_BITS", |symbol| u64::from(ALPHABET[symbol].extra_bits));
    table("unsigned int", "SYMBOL_ENTRY", |symbol| u64::from(codebook::symbol_entry(symbol, codebook::WIDE_START)));
    text
}
