use crate::random::Random;
use crate::spectrum::power_law_field;

/// Photons counted by a pixel detector, `[ny][nx]`, x fastest: whole numbers in f32.
///
/// Imitates a frame of X-ray diffraction: Poisson counts over a background that falls from 6 in the beam's centre to about 1, with
/// powder rings and a few hundred sharp spots of up to a thousand counts. Lossy coding finds a lattice here: a bound
/// below one half must keep every count.
#[must_use]
pub fn detector_counts(seed: u64, [rows, columns]: [usize; 2]) -> Vec<f32> {
    const RINGS: [f64; 5] = [0.17, 0.26, 0.31, 0.40, 0.46]; // radii, of the detector's side
    let mut random = Random::new(seed, "detector counts");
    let side = rows.max(columns) as f64;
    let mut expected = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let radius = (row as f64 - rows as f64 / 2.0).hypot(column as f64 - columns as f64 / 2.0) / side;
            let rings: f64 = RINGS.iter().map(|ring| 8.0 * (-((radius - ring) / 0.003).powi(2)).exp()).sum();
            expected.push(1.0 + 5.0 * (-radius * 5.0).exp() + rings);
        }
    }
    for _ in 0..rows * columns / 4000 {
        let (row, column) = (random.between(0.0, rows as f64), random.between(0.0, columns as f64));
        let peak = 3.0 * (6.0 * random.uniform()).exp();
        add_spot(&mut expected, [rows, columns], [row, column], peak);
    }
    expected.iter().map(|&mean| random.poisson(mean) as f32).collect()
}

/// Adds a round spot 1.2 pixels wide.
fn add_spot(expected: &mut [f64], [rows, columns]: [usize; 2], [row, column]: [f64; 2], peak: f64) {
    const WIDTH: f64 = 1.2; // pixels
    const REACH: usize = 5; // pixels
    for y in (row as usize).saturating_sub(REACH)..(row as usize + REACH).min(rows) {
        for x in (column as usize).saturating_sub(REACH)..(column as usize + REACH).min(columns) {
            let squared = (y as f64 - row).powi(2) + (x as f64 - column).powi(2);
            expected[y * columns + x] += peak * (-squared / (2.0 * WIDTH * WIDTH)).exp();
        }
    }
}

/// Readings of a thermal camera, °C, `[ny][nx]`, x fastest: multiples of 1/8 in f32.
///
/// Imitates a digitised image: a smooth scene with power k^(-11/3) around 20 °C, spread over 4 °C, with sensor noise of 0.05 °C, that
/// the converter rounded to its step of 1/8 °C.
#[must_use]
pub fn thermal_eighths(seed: u64, dims: [usize; 2]) -> Vec<f32> {
    let mut random = Random::new(seed, "thermal eighths");
    let scene = power_law_field(&mut random, &dims, -11.0 / 3.0);
    scene.iter().map(|&value| ((20.0 + 4.0 * f64::from(value) + 0.05 * random.normal()) * 8.0).round() as f32 / 8.0).collect()
}
