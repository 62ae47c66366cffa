use crate::random::Random;
use crate::spectrum::{gaussian_field, length_squared, power_law_field};
use std::f64::consts::{PI, TAU};

/// The fill value on land, where there is no sea temperature.
pub const LAND: f32 = 1e35;

/// Share of the globe's cells that are land.
pub const LAND_SHARE: f64 = 0.3;

/// Steps of time a year: the fields are monthly means.
const STEPS_A_YEAR: f64 = 12.0;

/// Where sea water freezes, °C: the temperature under ice.
const FREEZING: f64 = -1.8;

/// Temperature of the sea surface, °C, `[time][latitude][longitude]`, longitude fastest, [`LAND`] on land.
///
/// Imitates monthly means of an ocean model: 29 °C at the equator, falling with sin² of the latitude, a yearly cycle of opposite
/// phase in the two hemispheres, anomalies of about 1 °C with a steep spectrum that live for some months, and exactly -1.8 °C
/// where the sea is frozen. Continents are coherent and cover [`LAND_SHARE`] of the cells.
#[must_use]
pub fn sea_surface_temperature(seed: u64, dims: [usize; 3]) -> Vec<f32> {
    let [_, latitudes, longitudes] = dims;
    let land = land_mask(seed, [latitudes, longitudes]);
    let anomalies = anomalies(&mut Random::new(seed, "sea surface anomalies"), &dims);
    let cells = latitudes * longitudes;
    anomalies
        .iter()
        .enumerate()
        .map(|(index, &anomaly)| {
            if land[index % cells] {
                return LAND;
            }
            let latitude = latitude(index / longitudes % latitudes, latitudes);
            let mean = 29.0 - 36.0 * latitude.sin().powi(2);
            let season = -4.0 * latitude.sin() * (TAU * (index / cells) as f64 / STEPS_A_YEAR).cos();
            (mean + season + f64::from(anomaly)).max(FREEZING) as f32
        })
        .collect()
}

/// Temperature of the air, K, `[time][level][latitude][longitude]`, longitude fastest.
///
/// Imitates a reanalysis on model levels, evenly spaced from the ground to 20 km: 6.5 K/km colder with height up to a tropopause that
/// lies at 17 km over the equator and 9 km over the poles, a little warmer above it, a yearly cycle that fades with height, and
/// weather of 3 K whose waves lean with height.
#[must_use]
pub fn air_temperature(seed: u64, dims: [usize; 4]) -> Vec<f32> {
    const TOP: f64 = 20.0; // km
    const LAPSE_RATE: f64 = 6.5; // K/km
    let [times, levels, latitudes, longitudes] = dims;
    let weather = anomalies(&mut Random::new(seed, "air weather"), &[times, latitudes, longitudes]);
    let wake = anomalies(&mut Random::new(seed, "air wake"), &[times, latitudes, longitudes]);
    let eddies = power_law_field(&mut Random::new(seed, "air eddies"), &dims, -4.5);
    let cells = latitudes * longitudes;
    eddies
        .iter()
        .enumerate()
        .map(|(index, &eddy)| {
            let cell = index % cells;
            let level = index / cells % levels;
            let time = index / cells / levels;
            let latitude = latitude(cell / longitudes, latitudes);
            let height = TOP * level as f64 / levels as f64;
            let tropopause = 9.0 + 8.0 * latitude.cos().powi(2);
            let ground = 301.0 - 45.0 * latitude.sin().powi(2);
            let season = -12.0 * latitude.sin() * (TAU * time as f64 / STEPS_A_YEAR).cos() * (-height / 10.0).exp();
            let column = -LAPSE_RATE * height.min(tropopause) + 1.0 * (height - tropopause).max(0.0);
            let (sine, cosine) = (PI * height / TOP).sin_cos();
            let wave = cosine * f64::from(weather[time * cells + cell]) + sine * f64::from(wake[time * cells + cell]);
            (ground + season + column + 3.0 * wave + 0.5 * f64::from(eddy)) as f32
        })
        .collect()
}

/// Which cells are land, `[latitude][longitude]`: the highest parts of a random relief, periodic in longitude only.
fn land_mask(seed: u64, [latitudes, longitudes]: [usize; 2]) -> Vec<bool> {
    // The relief is made twice as tall and cut, so that the poles do not touch.
    let mut relief = power_law_field(&mut Random::new(seed, "land relief"), &[2 * latitudes, longitudes], -4.0);
    relief.truncate(latitudes * longitudes);
    let mut sorted = relief.clone();
    sorted.sort_by(f32::total_cmp);
    let sea_cells = (sorted.len() as f64 * (1.0 - LAND_SHARE)).round() as usize;
    let shore = sorted.get(sea_cells).copied().unwrap_or(f32::INFINITY);
    relief.iter().map(|&height| height >= shore).collect()
}

/// Anomalies of standard deviation 1, `[time][latitude][longitude]`: power k^(-4) in space; large patterns live for some steps.
fn anomalies(random: &mut Random, dims: &[usize; 3]) -> Vec<f32> {
    // In the spectrum, one step of time is as long as eight of 360 cells of longitude, so that small patterns change from step to step and
    // large ones stay. No pattern is wider than a quarter of the globe.
    let step_of_time = dims[2] as f64 * 8.0 / 360.0;
    let widest = 4.0 / dims[2] as f64;
    gaussian_field(random, dims, |wave| length_squared(&[wave[0] / step_of_time, wave[1], wave[2], widest]).recip())
}

/// Latitude of a row's middle, radians, from south to north.
fn latitude(row: usize, rows: usize) -> f64 {
    PI * ((row as f64 + 0.5) / rows as f64 - 0.5)
}
