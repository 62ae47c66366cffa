use crate::random::Random;
use crate::spectrum::{gaussian_field, length_squared, power_law_field};

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

/// One component of a turbulent velocity with its dissipation range, m/s, `[nz][ny][nx]`, x fastest, periodic.
///
/// Imitates a direct numerical simulation that resolves the smallest eddies: the power k^(-11/3) of [`velocity`] times Pope's model of
/// dissipation, `exp(-5.2 ((k eta)^4 + 0.4^4)^(1/4) - 0.4))` (Turbulent Flows, 2000, equation 6.248), with the customary resolution
/// `k_max eta = 1.5`. Neighbouring cells differ far less than in an inertial range that the grid cuts off. Standard deviation 3 m/s.
#[must_use]
pub fn resolved_velocity(seed: u64, dims: [usize; 3]) -> Vec<f32> {
    let amplitude = |wave: &[f64]| {
        let squared = length_squared(wave);
        // The largest wave number of the grid is half a cycle a cell.
        let eta = 1.5 * squared.sqrt() / 0.5;
        let dissipation = (-5.2 * ((eta.powi(4) + 0.4_f64.powi(4)).powf(0.25) - 0.4)).exp();
        (squared.powf(-11.0 / 6.0) * dissipation).sqrt()
    };
    let mut field = gaussian_field(&mut Random::new(seed, "resolved turbulence velocity"), &dims, amplitude);
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
