//! Samples of large matrices: a run takes a part of the cases, another day's run another part. Every value of every dimension is in each sample.
//!
//! `QUIRE_FULL_MATRIX=1` takes all cases, before a release. Samples are drawn by a seed, the day's number unless `QUIRE_SEED` gives another one; each
//! test prints the variable that repeats its sample.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::Random;

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Whether all cases are asked for.
pub(crate) fn is_full() -> bool {
    std::env::var("QUIRE_FULL_MATRIX").as_deref() == Ok("1")
}

/// The seed of today's samples: days since 1970, or `QUIRE_SEED`.
pub(crate) fn seed() -> u64 {
    match std::env::var("QUIRE_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("QUIRE_SEED={text} is not a number")),
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() / SECONDS_A_DAY),
    }
}

/// Random numbers of the day for a matrix of this name.
pub(crate) fn random(name: &str) -> Random {
    let mix = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    Random(name.bytes().fold(seed().wrapping_mul(0x9e37_79b9_7f4a_7c15), mix))
}

/// Indices of about one in `part` cases of a matrix with dimensions of these sizes, in its order: of all cases if the whole matrix is asked for. The
/// harness shows what is printed here with a failure.
pub(crate) fn sample<const N: usize>(name: &str, sizes: [usize; N], part: usize) -> Vec<[usize; N]> {
    let all: usize = sizes.iter().product();
    if is_full() {
        println!("{name}: all {all} cases");
        return (0..all).map(|number| indices(number, &sizes)).collect();
    }
    let chosen = covering(&mut random(name), sizes, all.div_ceil(part));
    println!("{name}: {} of {all} cases; QUIRE_SEED={} takes the same ones, QUIRE_FULL_MATRIX=1 all", chosen.len(), seed());
    chosen
}

/// `count` cases, or as many more as it takes to have every value of every dimension.
fn covering<const N: usize>(random: &mut Random, sizes: [usize; N], count: usize) -> Vec<[usize; N]> {
    // Cases along a diagonal have every value, and shuffled dimensions another diagonal each day.
    let shuffled = sizes.map(|size| {
        let mut values: Vec<usize> = (0..size).collect();
        (1..size).rev().for_each(|last| values.swap(last, random.below(last as u64 + 1) as usize));
        values
    });
    let diagonal = sizes.iter().copied().max().unwrap_or(0);
    let mut chosen: BTreeSet<[usize; N]> =
        (0..diagonal).map(|at| std::array::from_fn(|axis| shuffled[axis][at % sizes[axis]])).collect();
    while chosen.len() < count.min(sizes.iter().product()) {
        chosen.insert(sizes.map(|size| random.below(size as u64) as usize));
    }
    chosen.into_iter().collect()
}

/// The indices of a case by its number, the last dimension fastest.
fn indices<const N: usize>(mut number: usize, sizes: &[usize; N]) -> [usize; N] {
    let mut found = [0; N];
    for (index, &size) in found.iter_mut().zip(sizes).rev() {
        (*index, number) = (number % size, number / size);
    }
    found
}

/// Called by one test of codec/tests: a sample has every value of every dimension and no case twice, and other seeds give other ones.
pub(crate) fn check_samples() {
    for sizes in [[1, 1, 1], [26, 8, 4], [3, 40, 2], [5, 5, 5]] {
        let all: usize = sizes.iter().product();
        let mut samples = BTreeSet::new();
        for seed in 0..50 {
            for part in [1, 3, 10, 1000] {
                let chosen = covering(&mut Random(seed), sizes, all.div_ceil(part));
                let longest = sizes[0].max(sizes[1]).max(sizes[2]);
                assert_eq!(chosen.len(), all.div_ceil(part).max(longest), "{sizes:?}, one in {part}");
                for (axis, &size) in sizes.iter().enumerate() {
                    let values: BTreeSet<usize> = chosen.iter().map(|case| case[axis]).collect();
                    assert!(values.into_iter().eq(0..size), "{sizes:?}, one in {part}, seed {seed}: dimension {axis}");
                }
                assert!(chosen.is_sorted_by(|one, other| one < other), "{sizes:?}: a case is there twice, or out of order");
                if part == 10 {
                    samples.insert(chosen);
                }
            }
        }
        assert!(all < 50 || samples.len() > 40, "{sizes:?}: {} samples of 50 seeds", samples.len());
        let whole: Vec<[usize; 3]> = (0..all).map(|number| indices(number, &sizes)).collect();
        assert_eq!(whole, covering(&mut Random(1), sizes, all), "{sizes:?}: all cases");
    }
}
