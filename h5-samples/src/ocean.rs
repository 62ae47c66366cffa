use crate::random::Random;
use crate::spectrum::gaussian_field;
use crate::spectrum::length_squared;

/// Fronts across the field.
const FRONTS: usize = 3;

/// Height of the sea above the geoid, m, `[ny][nx]`, x fastest, f64.
///
/// Imitates the sea surface height of an eddying ocean model: eddies of 0.2 m whose power is flat up to a fortieth of the width and
/// falls as k^(-5) below it, and three meandering fronts, across each of which the height changes by about 0.5 m within six cells, as
/// across the Gulf Stream.
#[must_use]
pub fn surface_height(seed: u64, dims: [usize; 2]) -> Vec<f64> {
    const EDDY_HEIGHT: f64 = 0.2; // m
    const STEP: f64 = 0.25; // m, half of a front's height
    const FRONT_WIDTH: f64 = 3.0; // cells
    let [rows, columns] = dims;
    let widest = 1.0 / 40.0;
    let mut random = Random::new(seed, "ocean height");
    let eddies = gaussian_field(&mut random, &dims, |wave| (length_squared(wave) + widest * widest).powf(-1.25));
    // A front's line is a row for every column: one dimension, smooth, wandering over a tenth of the field.
    let lines: Vec<Vec<f64>> = (1..=FRONTS)
        .map(|front| {
            let meander =
                gaussian_field(&mut random, &[columns], |wave| (-length_squared(wave) * (columns as f64 / 16.0).powi(2)).exp());
            let mean = rows as f64 * front as f64 / (FRONTS + 1) as f64;
            meander.iter().map(|&offset| mean + 0.03 * rows as f64 * f64::from(offset)).collect()
        })
        .collect();
    eddies
        .iter()
        .enumerate()
        .map(|(index, &eddy)| {
            let (row, column) = ((index / columns) as f64, index % columns);
            let fronts: f64 = lines.iter().map(|line| ((row - line[column]) / FRONT_WIDTH).tanh()).sum();
            EDDY_HEIGHT * f64::from(eddy) - STEP * fronts
        })
        .collect()
}
