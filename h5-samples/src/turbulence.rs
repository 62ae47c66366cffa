use crate::random::Random;
use crate::spectrum::power_law_field;

/// Root mean square of [`velocity`], m/s.
const VELOCITY_SPREAD: f32 = 3.0;

/// One component of a turbulent velocity, m/s, `[nz][ny][nx]`, x fastest, periodic.
///
/// Imitates a snapshot of isotropic turbulence in its inertial range: a Gaussian random field whose three-dimensional power spectrum
/// falls as k^(-11/3), which is Kolmogorov's energy spectrum k^(-5/3) spread over shells. Mean 0, standard deviation 3 m/s.
#[must_use]
pub fn velocity(seed: u64, dims: [usize; 3]) -> Vec<f32> {
    let mut field = power_law_field(&mut Random::new(seed, "turbulence velocity"), &dims, -11.0 / 3.0);
    field.iter_mut().for_each(|value| *value *= VELOCITY_SPREAD);
    field
}

/// Number density of interstellar gas, 1/cm³, `[nz][ny][nx]`, x fastest, periodic.
///
/// Imitates the density of supersonic turbulence in cosmology and star formation: log-normal, the logarithm being a Gaussian random
/// field with power k^(-11/3), stretched over exactly nine decades from 1e-3 to 1e6. Almost all the range belongs to a few cells.
#[must_use]
pub fn density(seed: u64, dims: [usize; 3]) -> Vec<f32> {
    let logarithm = power_law_field(&mut Random::new(seed, "turbulence density"), &dims, -11.0 / 3.0);
    let lowest = f64::from(logarithm.iter().copied().fold(f32::INFINITY, f32::min));
    let highest = f64::from(logarithm.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let stretch = if highest > lowest { 9.0 / (highest - lowest) } else { 0.0 };
    logarithm.iter().map(|&value| 10_f64.powf((f64::from(value) - lowest) * stretch - 3.0) as f32).collect()
}
