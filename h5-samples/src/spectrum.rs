use crate::random::Random;
use rustfft::num_complex::Complex32;
use rustfft::{FftDirection, FftPlanner};

/// Neighbouring lines that are transformed together along a strided axis: 16 complex numbers fill two cache lines, so that every
/// line fetched from memory is used whole.
const LINES_TOGETHER: usize = 16;

/// A Gaussian random field of mean 0 and variance 1, periodic along every axis.
///
/// White complex noise in Fourier space is multiplied by `amplitude`, the square root of the wanted power spectrum, and transformed
/// back once; the real part is the field. `amplitude` receives the wave vector in cycles per cell, one component an axis, each
/// in [0, 1/2]; it is never asked about the zero vector, which would only shift the mean.
pub(crate) fn gaussian_field(random: &mut Random, dims: &[usize], amplitude: impl Fn(&[f64]) -> f64) -> Vec<f32> {
    let count = dims.iter().product();
    let mut grid = Vec::with_capacity(count);
    let mut position = vec![0_usize; dims.len()];
    let mut wave = vec![0.0; dims.len()];
    for index in 0..count {
        let [real, imaginary] = random.normal_pair();
        let factor = if index == 0 { 0.0 } else { amplitude(&wave) };
        grid.push(Complex32::new((factor * real) as f32, (factor * imaginary) as f32));
        for axis in (0..dims.len()).rev() {
            position[axis] = (position[axis] + 1) % dims[axis];
            wave[axis] = position[axis].min(dims[axis] - position[axis]) as f64 / dims[axis] as f64;
            if position[axis] != 0 {
                break;
            }
        }
    }
    transform(&mut grid, dims, FftDirection::Inverse);
    let mut field: Vec<f32> = grid.iter().map(|value| value.re).collect();
    standardise(&mut field);
    field
}

/// A [`gaussian_field`] with power `|k|^exponent` and nothing else.
pub(crate) fn power_law_field(random: &mut Random, dims: &[usize], exponent: f64) -> Vec<f32> {
    gaussian_field(random, dims, |wave| length_squared(wave).powf(exponent / 4.0))
}

/// |k|², (cycles per cell)².
pub(crate) fn length_squared(wave: &[f64]) -> f64 {
    wave.iter().map(|component| component * component).sum()
}

/// Shifts and scales to mean 0 and variance 1.
fn standardise(field: &mut [f32]) {
    let count = field.len() as f64;
    let mean = field.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
    let variance = field.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
    let scale = if variance > 0.0 { variance.sqrt().recip() } else { 1.0 };
    for value in field {
        *value = ((f64::from(*value) - mean) * scale) as f32;
    }
}

/// The Fourier transform along every axis, in place, not normalised.
pub(crate) fn transform(grid: &mut [Complex32], dims: &[usize], direction: FftDirection) {
    let mut planner = FftPlanner::new();
    let mut stride = 1;
    for &length in dims.iter().rev() {
        let plan = planner.plan_fft(length, direction);
        if stride == 1 {
            plan.process(grid);
        } else {
            let mut lines = vec![Complex32::default(); length * LINES_TOGETHER];
            for slab in grid.chunks_exact_mut(length * stride) {
                for start in (0..stride).step_by(LINES_TOGETHER) {
                    let width = LINES_TOGETHER.min(stride - start);
                    for (step, row) in slab.chunks_exact(stride).enumerate() {
                        for (line, value) in row[start..start + width].iter().enumerate() {
                            lines[line * length + step] = *value;
                        }
                    }
                    plan.process(&mut lines[..width * length]);
                    for (step, row) in slab.chunks_exact_mut(stride).enumerate() {
                        for (line, value) in row[start..start + width].iter_mut().enumerate() {
                            *value = lines[line * length + step];
                        }
                    }
                }
            }
        }
        stride *= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turbulence;

    /// Least-squares slope of log power, averaged over shells of equal |k|, against log |k|.
    fn spectral_slope(field: &[f32], side: usize) -> f64 {
        let mut grid: Vec<Complex32> = field.iter().map(|&value| Complex32::new(value, 0.0)).collect();
        transform(&mut grid, &[side; 3], FftDirection::Forward);
        let mut shells = vec![(0.0, 0.0); side];
        for (index, value) in grid.iter().enumerate() {
            let folded = |position: usize| position.min(side - position) as f64;
            let wave = [folded(index / side / side), folded(index / side % side), folded(index % side)];
            let shell = &mut shells[length_squared(&wave).sqrt().round() as usize];
            shell.0 += f64::from(value.norm_sqr());
            shell.1 += 1.0;
        }
        let points: Vec<(f64, f64)> =
            (3..side / 2 - 2).map(|radius| ((radius as f64).ln(), (shells[radius].0 / shells[radius].1).ln())).collect();
        let count = points.len() as f64;
        let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
        let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
        points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum::<f64>()
            / points.iter().map(|point| (point.0 - mean_x).powi(2)).sum::<f64>()
    }

    #[test]
    fn turbulence_has_the_kolmogorov_slope() {
        for seed in 1..4 {
            let slope = spectral_slope(&turbulence::velocity(seed, [64; 3]), 64);
            assert!((slope + 11.0 / 3.0).abs() < 0.3, "slope {slope}");
        }
    }

    #[test]
    fn transform_and_inverse_cancel_on_any_shape() {
        let dims = [3, 20, 7, 5];
        let mut random = Random::new(3, "transform");
        let original: Vec<Complex32> = (0..dims.iter().product()).map(|_| Complex32::new(random.normal() as f32, 0.0)).collect();
        let mut grid = original.clone();
        transform(&mut grid, &dims, FftDirection::Forward);
        transform(&mut grid, &dims, FftDirection::Inverse);
        for (before, after) in original.iter().zip(&grid) {
            assert!((after / original.len() as f32 - before).norm() < 1e-5);
        }
    }
}
