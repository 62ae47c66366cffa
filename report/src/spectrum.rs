//! Power spectra of rows along the fastest axis, by Welch's method: a row is cut into stretches of a power of two, which overlap where they do not fit. Each is
//! freed of its mean and weighted by a Hann window. The powers of all stretches are averaged.
//!
//! Original and copy are the real and the imaginary part of one complex transform. Rows with values that do not count are left out.

use std::f64::consts::TAU;

/// Stretches that are transformed together, one in each lane of a vector.
const LANES: usize = 8;
/// Longest stretch.
const LONGEST: usize = 4096;

type Lanes = [f64; LANES];

/// The powers of stretches of `length` values at the wavenumbers 0 to `length / 2`, in waves a stretch.
#[derive(Debug, Clone)]
pub(crate) struct Powers {
    pub(crate) length: usize,
    pub(crate) original: Vec<f64>,
    pub(crate) copy: Vec<f64>,
    pub(crate) error: Vec<f64>,
    /// Stretches whose powers were added.
    pub(crate) stretches: u64,
}

impl Powers {
    /// Of rows with `columns` values.
    pub(crate) fn new(columns: usize) -> Self {
        let length = if columns < 2 { 0 } else { 1 << columns.min(LONGEST).ilog2() };
        let zeros = || vec![0.0; length / 2 + 1];
        Self { length, original: zeros(), copy: zeros(), error: zeros(), stretches: 0 }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [(&mut self.original, &other.original), (&mut self.copy, &other.copy), (&mut self.error, &other.error)];
        for (sum, other) in pairs {
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        self.stretches += other.stretches;
    }
}

/// Collects stretches, and transforms them when all lanes are full.
pub(crate) struct Transform {
    window: Vec<f64>,
    /// Cosines and sines of whole turns divided by the length.
    turns: Vec<[f64; 2]>,
    real: Vec<Lanes>,
    imaginary: Vec<Lanes>,
    scratch: [Vec<Lanes>; 2],
    filled: usize,
}

impl Transform {
    pub(crate) fn new(powers: &Powers) -> Self {
        let length = powers.length;
        let turn = |k: usize| TAU * k as f64 / length as f64;
        let zeros = || vec![[0.0; LANES]; length];
        Self {
            window: (0..length).map(|x| 0.5 - 0.5 * turn(x).cos()).collect(),
            turns: (0..length / 2).map(|k| [turn(k).cos(), -turn(k).sin()]).collect(),
            real: zeros(),
            imaginary: zeros(),
            scratch: [zeros(), zeros()],
            filled: 0,
        }
    }

    /// Adds the stretches of a row of both arrays in which all values count.
    pub(crate) fn add_row(&mut self, before: &[f64], after: &[f64], powers: &mut Powers) {
        let length = powers.length;
        if length == 0 || before.len() < length {
            return;
        }
        let (count, room) = (before.len().div_ceil(length), before.len() - length);
        for number in 0..count {
            let start = if count > 1 { number * room / (count - 1) } else { 0 };
            let stretch = start..start + length;
            for (values, lanes) in [(&before[stretch.clone()], &mut self.real), (&after[stretch], &mut self.imaginary)] {
                let mean = values.iter().sum::<f64>() / length as f64;
                for ((lanes, value), weight) in lanes.iter_mut().zip(values).zip(&self.window) {
                    lanes[self.filled] = (value - mean) * weight;
                }
            }
            self.filled += 1;
            if self.filled == LANES {
                self.flush(powers);
            }
        }
    }

    /// Adds the powers of the stretches that are waiting.
    pub(crate) fn flush(&mut self, powers: &mut Powers) {
        if self.filled == 0 {
            return;
        }
        for lanes in self.real.iter_mut().chain(&mut self.imaginary) {
            lanes[self.filled..].fill(0.0);
        }
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                self.transform();
                self.add_powers(powers);
            },
        );
        powers.stretches += self.filled as u64;
        self.filled = 0;
    }

    /// Stockham's transform: each step leaves the results in order, so that no reordering is needed.
    #[inline(always)]
    fn transform(&mut self) {
        let Self { turns, real, imaginary, scratch: [next_real, next_imaginary], .. } = self;
        let (mut half, mut stride) = (real.len() / 2, 1);
        while half > 0 {
            for p in 0..half {
                let [cos, sin] = turns[p * stride];
                for q in 0..stride {
                    let (low, high) = (q + stride * p, q + stride * (p + half));
                    let (even, odd) = (q + stride * 2 * p, q + stride * (2 * p + 1));
                    for lane in 0..LANES {
                        let (a, b) = (real[low][lane], real[high][lane]);
                        let (c, d) = (imaginary[low][lane], imaginary[high][lane]);
                        next_real[even][lane] = a + b;
                        next_imaginary[even][lane] = c + d;
                        next_real[odd][lane] = (a - b) * cos - (c - d) * sin;
                        next_imaginary[odd][lane] = (a - b) * sin + (c - d) * cos;
                    }
                }
            }
            std::mem::swap(real, next_real);
            std::mem::swap(imaginary, next_imaginary);
            (half, stride) = (half / 2, stride * 2);
        }
    }

    /// The transform of the real part is that which has the symmetry of a real array, and of the imaginary part the rest.
    #[inline(always)]
    fn add_powers(&self, powers: &mut Powers) {
        let length = self.real.len();
        for k in 0..=length / 2 {
            let mirrored = (length - k) % length;
            let [mut original, mut copy, mut error] = [0.0; 3];
            for lane in 0..LANES {
                let (a, b) = (self.real[k][lane], self.imaginary[k][lane]);
                let (c, d) = (self.real[mirrored][lane], self.imaginary[mirrored][lane]);
                let (before, after) = ([(a + c) / 2.0, (b - d) / 2.0], [(b + d) / 2.0, (c - a) / 2.0]);
                let power = |[re, im]: [f64; 2]| re * re + im * im;
                original += power(before);
                copy += power(after);
                error += power([after[0] - before[0], after[1] - before[1]]);
            }
            powers.original[k] += original;
            powers.copy[k] += copy;
            powers.error[k] += error;
        }
    }
}
