//! Compiles `kernels/module.cu`, and embeds machine code for some architectures and PTX for all others. Without nvcc the crate builds all the same and says
//! at run time that it has no kernels; with `QUIRE_REQUIRE_CUDA=1` that is an error here.
//!
//! nvcc is looked for in `$NVCC`, `$CUDA_HOME/bin`, `$CUDA_PATH/bin`, the PATH, and `/usr/local/cuda/bin`. `NVCC=none` builds without it. `CUDAARCHS`, a
//! variable of CMake, names the architectures, such as `80;90`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use quire_codec::Coding;
use quire_codec::stages::alphabet::{self, ALPHABET};
use quire_codec::stages::decimal::divisor;
use quire_codec::stages::predictor::LevelSteps;
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::stages::value::Value;
use quire_codec::stages::{
    book_choice, book_lengths, choice, codebook, dictionary, fast_f32, fine_grid, fixed_log2, header, lanes, last_digit, limits,
    linear, logarithm, plane, positions, predictor, rounding, tokens,
};

#[path = "src/declare.rs"]
#[allow(dead_code, unreachable_pub, missing_docs, reason = "the crate includes this file as well")]
mod declare;
#[path = "src/job/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "written for the crate, which takes all of it")]
mod job;

use declare::{Constant, constant_text};

/// Architectures that get machine code, and the first nvcc that knows each of them.
const ARCHITECTURES: [(u32, (u32, u32)); 6] =
    [(80, (12, 4)), (86, (12, 4)), (89, (12, 4)), (90, (12, 4)), (100, (12, 8)), (120, (12, 8))];
/// The assemblers of CUDA 11.8, 12.0 and 12.2 keep stale upper halves beside 16-bit words that come from shared memory (PRMT 0x7610 in `decode_lanes` for
/// sm_90), so that the decoder refuses good streams. Kernels of 12.4, 12.6, 12.8, 12.9 and 13.0 make the CPU's bytes (gpu/tests/parity on an H100: golden,
/// batches, bounds).
const OLDEST_NVCC: (u32, u32) = (12, 4);

fn main() {
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rustc-check-cfg=cfg(quire_emulated)");
    for path in ["kernels", "src/declare.rs", "src/job"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDAARCHS", "PATH", "QUIRE_REQUIRE_CUDA"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    for (name, text) in [("constants.cuh", constants()), ("job_structs.cuh", structures())] {
        fs::write(output.join(name), text).expect("OUT_DIR is writable");
    }
    const NO_NVCC: &str = "there is no nvcc that will do in $NVCC, $CUDA_HOME, $CUDA_PATH, the PATH or /usr/local/cuda";
    let required = env::var("QUIRE_REQUIRE_CUDA").is_ok_and(|value| value == "1");
    let is_for_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let found = find_nvcc().filter(|_| is_for_linux);
    match &found {
        Some((nvcc, _)) if nvcc.ends_with("gpu/emulator/nvcc") => println!("cargo::rustc-cfg=quire_emulated"),
        Some(_) => {}
        None if required => panic!("QUIRE_REQUIRE_CUDA=1, but {NO_NVCC}"),
        // Who has said NVCC=none knows it. Other systems use no GPU.
        None if !is_for_linux || env::var_os("NVCC").is_some_and(|value| value == "none") => {}
        None => {
            println!("cargo::warning=built without GPU kernels, for the CPU alone: {NO_NVCC}; NVCC=none says that this is meant")
        }
    }
    let images = found.as_ref().map(|(nvcc, version)| compile(nvcc, *version, &output)).unwrap_or_default();
    let text = format!(
        "// Written by gpu/build.rs.\n\n/// The version of CUDA's compiler, if the kernels were built.\npub const CUDA: Option<(u32, u32)> = {:?};\n\n\
         pub(crate) static IMAGES: &[Image] = &[{images}];\n",
        found.map(|(_, version)| version)
    );
    fs::write(output.join("images.rs"), text).expect("OUT_DIR is writable");
}

/// The compiler, and its version. One that `$NVCC` names is taken, or the build ends; others that will not do are passed over.
fn find_nvcc() -> Option<(PathBuf, (u32, u32))> {
    if let Some(nvcc) = env::var_os("NVCC").filter(|value| !value.is_empty()) {
        if nvcc == "none" {
            return None;
        }
        let nvcc = PathBuf::from(nvcc);
        let version = version_of(&nvcc).unwrap_or_else(|reason| panic!("{reason}\nNVCC=none builds without CUDA"));
        return Some((nvcc, version));
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = homes.chain(env::split_paths(&path).collect::<Vec<_>>()).chain([PathBuf::from("/usr/local/cuda/bin")]);
    folders.map(|folder| folder.join("nvcc")).filter(|nvcc| nvcc.is_file()).find_map(|nvcc| {
        let version = version_of(&nvcc).inspect_err(|reason| println!("cargo::warning={reason}")).ok()?;
        Some((nvcc, version))
    })
}

/// nvcc's version: major, minor. An error says why this one will not do.
fn version_of(nvcc: &Path) -> Result<(u32, u32), String> {
    let name = nvcc.display();
    let output = Command::new(nvcc).arg("--version").output().map_err(|error| format!("{name} does not run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "Cuda compilation tools, release 13.0, V13.0.88"
    let release =
        text.split("release ").nth(1).and_then(|rest| rest.split(',').next()).and_then(|release| release.split_once('.'));
    let Some(version) = release.and_then(|(major, minor)| major.parse().ok().zip(minor.parse().ok())) else {
        return Err(format!("{name} --version names no release: {text}"));
    };
    if version < OLDEST_NVCC {
        let ((major, minor), (least_major, least_minor)) = (version, OLDEST_NVCC);
        return Err(format!(
            "{name} is of CUDA {major}.{minor}, but kernels need {least_major}.{least_minor} or newer: older ones refuse good streams"
        ));
    }
    Ok(version)
}

/// Compiles the kernels for the architectures, side by side, and deflates them. Returns Rust's text of what `src/images.rs` embeds.
///
/// There is no fatbin: drivers before CUDA 12.4 do not read the small ones.
fn compile(nvcc: &Path, version: (u32, u32), output: &Path) -> String {
    let architectures = architectures(version);
    let mut names: Vec<String> = architectures.iter().map(|architecture| format!("sm_{architecture}")).collect();
    // PTX of the oldest one, from which drivers make machine code for every GPU that has none here.
    names.push(format!("compute_{}", architectures[0]));
    let images: Vec<OnceLock<String>> = names.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, image)) = names.iter().zip(&images).nth(next.fetch_add(1, Ordering::Relaxed)) {
                    image.get_or_init(|| image_text(nvcc, name, output));
                }
            });
        }
    });
    images.into_iter().filter_map(OnceLock::into_inner).collect::<Vec<_>>().join(",\n")
}

/// What `$CUDAARCHS` names, or all architectures that this nvcc knows, in ascending order.
fn architectures(version: (u32, u32)) -> Vec<u32> {
    let Some(text) = env::var("CUDAARCHS").ok().filter(|text| !text.is_empty()) else {
        return ARCHITECTURES.into_iter().filter(|&(_, first)| version >= first).map(|(architecture, _)| architecture).collect();
    };
    let number = |part: &str| part.parse().ok().filter(|&architecture| architecture >= ARCHITECTURES[0].0);
    let numbers = text.split(';').map(number).collect::<Option<Vec<u32>>>();
    let mut numbers = numbers.unwrap_or_else(|| panic!("CUDAARCHS={text}: give numbers from 80 on, such as 80;90, or unset it"));
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The kernels for an architecture: machine code for a name such as `sm_80`, PTX for `compute_80`.
fn image_text(nvcc: &Path, name: &str, output: &Path) -> String {
    let (kind, architecture) = name.split_once('_').expect("a name has a kind");
    let is_ptx = kind == "compute";
    let file = output.join(name);
    let mut command = Command::new(nvcc);
    // No contraction of products and sums: the bytes must be the CPU's.
    command.args([if is_ptx { "--ptx" } else { "--cubin" }, "--std=c++17", "-O3", "--fmad=false", "--Werror", "all-warnings"]);
    command.arg(format!("--gpu-architecture={name}")).arg("-I").arg(output).arg("-o").arg(&file).arg("kernels/module.cu");
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
    let mut image = fs::read(&file).unwrap_or_else(|error| panic!("nvcc has written no {}: {error}", file.display()));
    // The driver takes PTX as a text of C.
    image.extend(is_ptx.then_some(0));
    let deflated = file.with_extension("deflate");
    fs::write(&deflated, miniz_oxide::deflate::compress_to_vec(&image, 10)).expect("OUT_DIR is writable");
    let len = image.len();
    format!("Image {{ architecture: {architecture}, is_ptx: {is_ptx}, len: {len}, deflated: include_bytes!({deflated:?}) }}")
}

/// The structures of `src/job`, for the kernels.
fn structures() -> String {
    format!("// Written by gpu/build.rs from gpu/src/job.\n#pragma once\n{}", job::struct_declarations())
}

/// The limits of a floating-point type's grids.
fn limits_of<V: Value>(suffix: &str) -> [(String, f64); 5] {
    [
        (format!("CODE_LIMIT_{suffix}"), V::CODE_LIMIT),
        (format!("SAFE_CODE_LIMIT_{suffix}"), V::SAFE_CODE_LIMIT),
        (format!("SMALLEST_SAFE_STEP_{suffix}"), V::SMALLEST_SAFE_STEP),
        (format!("STEPS_LIMIT_{suffix}"), V::STEPS_LIMIT),
        (format!("SPACING_GROWS_{suffix}"), f64::from(u8::from(V::SPACING_GROWS))),
    ]
}

/// Constants of the codec whose names are kept in the kernels, by module.
macro_rules! of_codec {
    ($($module:ident: $($name:ident),+;)+) => {
        [$($((stringify!($name), $module::$name as u64)),+),+]
    };
}

/// What a residual of 1 is worth on levels 0 to 3 by each [`LevelSteps`]: four bits each.
fn positions_of_levels() -> u64 {
    let of_levels = LevelSteps::ALL.into_iter().flat_map(|steps| (0..4).map(move |level| steps.positions(level)));
    of_levels.enumerate().fold(0, |packed, (number, positions)| packed | (positions as u64) << (4 * number))
}

/// The codec's constants and those of `src/job`, for the kernels.
fn constants() -> String {
    assert_eq!(dictionary::books().len(), job::BOOKS, "the dictionary has grown: change BOOKS in gpu/src/job/common.rs");
    let mut text = String::from("// Written by gpu/build.rs from quire-codec and gpu/src/job.\n#pragma once\n\n");
    text.extend(job::constants().map(constant_text));
    let same = of_codec! {
        alphabet: SEGMENT, DIRECT_MAX, DIRECT_ZERO, FIRST_CLASS;
        book_choice: BOOK_BITS_A_SYMBOL, BOOK_BITS_A_CODE, CUSTOM_GAIN_DIVISOR, ENTROPY_EXCESS_DIVISOR;
        book_lengths: MAX_MAGNITUDE;
        choice: MAX_TILE_VALUES, OUTLIER_BITS, EDGE_BITS, MASKED_SIXTEENTHS, KIND_MARGIN, CUBIC_MARGIN, VALUES_PER_VALUE_OUT_OF_REACH;
        codebook: MAX_CODE_BITS, RUN_ENTRY, WIDE_ENTRY, START_SHIFT, FIRST_SHIFT;
        fixed_log2: LOG_FRACTION;
        last_digit: MAX_COUNTED, LEAST_ENDING;
        divisor: SAMPLE_STRIDE;
        lanes: LANES, FEW_LANES;
        limits: LIMITS_LEN;
        plane: PLANE_HEADER_LEN, CUSTOM_BOOK, BIT_PLANES, MIN_BLOCK_LOG, MAX_BLOCK_LOG, BLOCK_LOG_BITS, WIDTH_BITS, BLOCK_BITS, BLOCK_TOKENS,
            FEW_LANES_BITS;
        predictor: INTERPOLATION, LINEAR_INTERPOLATION, LEVEL_STEPS;
        positions: POSITIONS_PER_STEP;
        fine_grid: ESCAPE_FROM, ESCAPE_BASE;
        tokens: TWICE_MIN_ZEROS_PER_STRETCH;
    };
    let renamed = [
        ("RUNS_OF_ZEROS", alphabet::FIRST_RUN[0] as u64),
        ("RUNS_OF_MINUS_ONE", alphabet::FIRST_RUN[1] as u64),
        ("RUNS_OF_ONE", alphabet::FIRST_RUN[2] as u64),
        ("HEADER_CODING_AT", header::CODING_AT as u64),
        ("CHECKSUM_AT", header::CHECKSUM_AT.start as u64),
        ("STORED", u64::from(Coding::Stored.to_byte())),
        ("CONSTANT", u64::from(Coding::Constant.to_byte())),
        ("SPACING_TWO_FROM", positions::SPACING_GROWS_FROM[0] as u64),
        ("SPACING_FOUR_FROM", positions::SPACING_GROWS_FROM[1] as u64),
        ("SPACING_EIGHT_FROM", positions::SPACING_GROWS_FROM[2] as u64),
        ("POSITIONS_PER_STEP_LOG", u64::from(positions::POSITIONS_PER_STEP.ilog2())),
        ("NO_LOWER_LIMIT", u64::from(limits::Limits::NONE.lower.cast_unsigned())),
        ("NO_UPPER_LIMIT", u64::from(limits::Limits::NONE.upper.cast_unsigned())),
        ("LEVEL_STEPS_NUMBERS", LevelSteps::ALL.len() as u64),
        ("NARROW_LOG_TERMS", logarithm::NARROW_TERMS.0 as u64),
        ("NARROW_EXP_TERMS", logarithm::NARROW_TERMS.1 as u64),
        ("WIDE_LOG_TERMS", logarithm::LOG_TERMS.len() as u64),
        ("WIDE_EXP_TERMS", logarithm::EXP_TERMS.len() as u64),
    ];
    for (name, value) in same.into_iter().chain(renamed) {
        text += &constant_text(&Constant { name, documentation: &[], value });
    }
    for (name, value) in [("POSITIONS_OF_LEVELS", positions_of_levels()), ("LIMITS_BIT", limits::LIMITS_BIT)] {
        text += &format!("constexpr unsigned long long {name} = {value}ull;\n");
    }
    let limits = [limits_of::<f32>("F32"), limits_of::<f64>("F64"), limits_of::<Binary16>("F16"), limits_of::<BFloat16>("BF16")];
    let reals = [
        ("FAR_FILL", linear::FAR_FILL),
        ("TIE_MARGIN", logarithm::TIE_MARGIN),
        ("CHANCE_OF_DECIMALS", divisor::CHANCE),
        ("MAX_DIVISOR", last_digit::MAX_DIVISOR),
        ("FINE_SPACING", positions::SPACING),
        ("FAST_SMALLEST_STEP", fast_f32::SMALLEST_STEP),
        ("FAST_ROUNDING", f64::from(rounding::ROUNDING_F32)),
        ("FAST_DOUBT_SHARE", f64::from(fast_f32::MAX_RELATIVE_ERROR)),
        ("FAST_POSITION_TOLERANCE", f64::from(fast_f32::POSITION_TOLERANCE)),
        ("FAST_POSITION_TOLERANCE_PER_STEP", f64::from(fast_f32::POSITION_TOLERANCE_PER_STEP)),
        ("FAST_WHOLE_STEPS", f64::from(fast_f32::MIN_STEPS_OF_WHOLE_STEPS)),
        ("FAST_HALF_POSITIONS", f64::from(fast_f32::MIN_STEPS_OF_HALF_POSITIONS)),
        ("FAST_ALL_POSITIONS", f64::from(fast_f32::MAX_STEPS_OF_ALL_POSITIONS)),
        ("FAST_TIE_MARGIN", f64::from(fast_f32::TIE_MARGIN)),
        ("FAST_TIE_MARGIN_PER_STEP", f64::from(fast_f32::TIE_MARGIN_PER_STEP)),
        ("SPACINGS_PER_STEP", positions::SPACINGS_PER_STEP),
    ];
    let reals = reals.into_iter().map(|(name, value)| (name.to_owned(), value));
    text.extend(limits.into_iter().flatten().chain(reals).map(|(name, value)| format!("constexpr double {name} = {value:e};\n")));
    for (name, terms) in [("LOG_TERMS", &logarithm::LOG_TERMS[..]), ("EXP_TERMS", &logarithm::EXP_TERMS)] {
        let terms: Vec<String> = terms.iter().map(|term| format!("{term:e}")).collect();
        text += &format!("__constant__ const double {name}[] = {{{}}};\n", terms.join(", "));
    }
    let mut table = |kind: &str, name: &str, value: fn(usize) -> u64| {
        let values: Vec<String> = (0..ALPHABET.len()).map(|symbol| value(symbol).to_string() + "u").collect();
        text += &format!("__constant__ const {kind} {name}[] = {{{}}};\n", values.join(", "));
    };
    table("unsigned long long", "SYMBOL_START", |symbol| ALPHABET[symbol].start);
    table("unsigned char", "SYMBOL_EXTRA_BITS", |symbol| u64::from(ALPHABET[symbol].extra_bits));
    table("unsigned int", "SYMBOL_ENTRY", |symbol| u64::from(codebook::symbol_entry(symbol, codebook::WIDE_START)));
    text
}
