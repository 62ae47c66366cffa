use crate::random::Random;
use std::f64::consts::TAU;

/// Readings a day: one every ten minutes.
const READINGS_A_DAY: f64 = 144.0;

/// Air temperature at a weather station, °C, `[time]`, f64, NaN where the station was silent.
///
/// Imitates a long record at ten-minute steps: yearly and daily cycles, a slow warming, weather that remembers about two days, and
/// the sensor's noise of 0.02 K. Gaps of some hours to some days take about seven in a hundred readings.
#[must_use]
pub fn station_temperature(seed: u64, count: usize) -> Vec<f64> {
    const GAP_SHARE: f64 = 0.07;
    const MEAN_GAP: f64 = 150.0; // readings
    const MEMORY: f64 = 0.9965; // of the weather, from one reading to the next: 1/e in 285 readings
    let mut random = Random::new(seed, "station temperature");
    let mut weather = 0.0;
    let mut silent = 0_u32;
    (0..count)
        .map(|step| {
            let [push, noise] = random.normal_pair();
            weather = MEMORY * weather + (1.0 - MEMORY * MEMORY).sqrt() * push;
            if silent == 0 && random.uniform() < GAP_SHARE / (1.0 - GAP_SHARE) / MEAN_GAP {
                silent = (MEAN_GAP * random.exponential()).ceil() as u32;
            }
            if silent > 0 {
                silent -= 1;
                return f64::NAN;
            }
            let day = step as f64 / READINGS_A_DAY;
            let year = day / 365.25;
            10.0 + 0.03 * year - 9.0 * (TAU * year).cos() - 4.0 * (TAU * day).cos() + 4.0 * weather + 0.02 * noise
        })
        .collect()
}
