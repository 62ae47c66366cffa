use crate::random::Random;
use crate::spectrum::{gaussian_field, length_squared, power_law_field};

/// Cloud water mixing ratio, kg/kg, `[nz][ny][nx]`, x fastest, periodic in y and x.
///
/// Imitates the condensate of a weather model (such as QCLOUD of Hurricane Isabel): exactly zero in about nine cells of ten, smooth
/// positive blobs of some ten cells in a layer around one third of the height, up to about 1e-3 kg/kg, with a faint turbulent texture
/// inside. Humidity is a Gaussian random field with power k^(-11/3), cut off below six cells; cloud is the square of its excess over
/// a threshold that rises away from the layer.
#[must_use]
pub fn water(seed: u64, dims: [usize; 3]) -> Vec<f32> {
    const SMALLEST_BLOB: f64 = 6.0; // cells
    const LAYER_CENTRE: f64 = 0.35; // of the height
    const LAYER_WIDTH: f64 = 0.25; // of the height
    const THRESHOLD: f64 = 0.7; // standard deviations of the humidity, in the layer's middle
    const PEAK: f64 = 2e-3; // kg/kg

    let humidity = gaussian_field(&mut Random::new(seed, "cloud humidity"), &dims, |wave| {
        let squared = length_squared(wave);
        squared.powf(-11.0 / 12.0) * (-squared * SMALLEST_BLOB * SMALLEST_BLOB).exp()
    });
    let texture = power_law_field(&mut Random::new(seed, "cloud texture"), &dims, -11.0 / 3.0);
    let layer_len = dims[1] * dims[2];
    humidity
        .iter()
        .zip(&texture)
        .enumerate()
        .map(|(index, (&humidity, &texture))| {
            let height = (index / layer_len) as f64 / dims[0] as f64;
            let threshold = THRESHOLD + ((height - LAYER_CENTRE) / LAYER_WIDTH).powi(2);
            let excess = (f64::from(humidity) - threshold).max(0.0);
            // An excess of three standard deviations is as good as never reached.
            (PEAK * (excess / 3.0).powi(2) * (0.1 * f64::from(texture)).exp()) as f32
        })
        .collect()
}
