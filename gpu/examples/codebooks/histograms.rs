//! Histograms, and the dictionaries from which codebooks are chosen.

use std::f64::consts::{PI, TAU};

use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::dictionary;
use quire_codec::stages::tokens::{Tokens, tokenize};

use crate::host::package_merge;
use crate::way::Alphabet;

/// Values that a histogram counts: a chunk of 64^3.
pub(crate) const VALUES: usize = 1 << 18;

/// Densities that differences of neighbours have, by inverse distribution; the second uniform number serves the Gaussian.
pub(crate) type Draw = fn(f64, f64) -> f64;
pub(crate) const FAMILIES: [(&str, Draw); 3] = [
    ("Laplace", |u, _| if u < 0.5 { (2.0 * u).ln() } else { -(2.0 - 2.0 * u).ln() }),
    ("Gaussian", |u, v| (-2.0 * u.ln()).sqrt() * (TAU * v).cos()),
    ("Cauchy", |u, _| (PI * (u - 0.5)).tan()),
];
/// In quantization steps.
pub(crate) const SCALES: [f64; 4] = [0.5, 2.0, 10.0, 50.0];

/// Whole numbers of a density; the same on every run.
pub(crate) fn sample(draw: Draw, scale: f64) -> Vec<i32> {
    let mut state = 1u64;
    let mut uniform = || {
        // A step of splitmix64; never 0, whose logarithm there is not.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ mixed >> 31) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    (0..VALUES).map(|_| (draw(uniform(), uniform()) * scale).round().clamp(-1e9, 1e9) as i32).collect()
}

/// Counts of our tokens, or of bins around 0 whose last ones take whatever lies beyond.
pub(crate) fn histogram(alphabet: &Alphabet, codes: &[i32]) -> Vec<u32> {
    if alphabet.symbols == SYMBOLS {
        let mut tokens = Tokens::default();
        tokenize(codes, &mut tokens).expect("memory");
        return tokens.count().1.iter().map(|&count| count as u32).collect();
    }
    let mut histogram = vec![0; alphabet.symbols];
    let middle = alphabet.symbols as i32 / 2;
    for &code in codes {
        histogram[(code.saturating_add(middle)).clamp(0, 2 * middle - 1) as usize] += 1;
    }
    histogram
}

/// The dictionary: the codec's for our alphabet, otherwise made as the paper says, of three densities at 25 scales each. Every symbol
/// has a code in every book.
pub(crate) fn books(alphabet: &Alphabet) -> Vec<Vec<u8>> {
    if alphabet.symbols == SYMBOLS {
        return dictionary::books().iter().map(|lengths| lengths.to_vec()).collect();
    }
    let densities: [fn(f64) -> f64; 3] = [|x| (-x.abs()).exp(), |x| (-x * x / 2.0).exp(), |x| 1.0 / (1.0 + x * x)];
    let middle = alphabet.symbols as f64 / 2.0;
    let book = |density: fn(f64) -> f64, scale: f64| {
        let weights: Vec<f64> = (0..alphabet.symbols).map(|symbol| density((symbol as f64 - middle) / scale)).collect();
        let total: f64 = weights.iter().sum();
        let whole: Vec<u64> = weights.iter().map(|weight| ((weight / total * f64::from(1 << 24)) as u64).max(1)).collect();
        package_merge(&whole, alphabet.max_bits)
    };
    let scales = || (0..25).map(|step| 0.25 * 400f64.powf(f64::from(step) / 24.0));
    densities.iter().flat_map(|&density| scales().map(move |scale| (density, scale))).map(|(d, scale)| book(d, scale)).collect()
}
