use crate::random::Random;
use std::f64::consts::PI;

/// Time between samples, s.
const SAMPLE_TIME: f64 = 0.002;

/// Distance between receivers, m.
const RECEIVER_SPACING: f64 = 6.25;

/// Main frequency of the source, Hz.
const FREQUENCY: f64 = 25.0;

/// Root mean square of the noise; a reflection begins at about 1.
const NOISE: f64 = 2e-5;

/// Layers that reflect, between the surface and the deepest echo.
const LAYERS: usize = 48;

/// A wave that arrives at all receivers, the later the farther.
struct Event {
    time_at_source: f64, // s
    speed: f64,          // m/s
    strength: f64,
    frequency: f64, // Hz
}

impl Event {
    /// When the wave is `distance` metres from the source, s: a hyperbola for an echo, a line for a wave along the surface.
    fn arrival(&self, distance: f64) -> f64 {
        self.time_at_source.hypot(distance / self.speed)
    }
}

/// A shot record, arbitrary units of pressure, `[receiver][time]`, time fastest.
///
/// Imitates one shot of a reflection survey: a 25 Hz Ricker wavelet arrives directly, then again from each of 48 layers with
/// hyperbolic delay and with loss by spreading and absorption, over a slow and strong surface wave. Samples before the first arrival
/// hold nothing but instrument noise, five orders of magnitude below the peak and band-limited like everything an instrument records.
#[must_use]
pub fn shot_record(seed: u64, [receivers, samples]: [usize; 2]) -> Vec<f32> {
    let mut random = Random::new(seed, "seismic shot");
    let mut record = vec![0.0_f32; receivers * samples];
    if record.is_empty() {
        return record;
    }
    let events = events(&mut random, samples as f64 * SAMPLE_TIME);
    for (receiver, trace) in record.chunks_exact_mut(samples).enumerate() {
        let distance = RECEIVER_SPACING * (receiver as f64 - receivers as f64 / 2.0);
        add_noise(&mut random, trace);
        for event in &events {
            add_wavelet(trace, event, distance);
        }
    }
    record
}

fn events(random: &mut Random, duration: f64) -> Vec<Event> {
    let mut events = vec![
        Event { time_at_source: 0.02, speed: 1500.0, strength: 1.0, frequency: FREQUENCY },
        Event { time_at_source: 0.05, speed: 400.0, strength: 2.0, frequency: FREQUENCY / 3.0 },
    ];
    for _ in 0..LAYERS {
        let time = random.between(0.1, 1.0) * duration;
        events.push(Event {
            time_at_source: time,
            speed: 1600.0 + 500.0 * time, // the mean speed grows with depth
            strength: 0.3 * random.normal() * (-0.7 * time).exp(),
            frequency: FREQUENCY / (1.0 + 0.15 * time), // high notes are absorbed first
        });
    }
    events
}

/// Noise of neighbouring samples is alike: an average over five of them.
fn add_noise(random: &mut Random, trace: &mut [f32]) {
    let mut latest = [0.0; 5].map(|_: f64| random.normal());
    for (index, value) in trace.iter_mut().enumerate() {
        latest[index % latest.len()] = random.normal();
        *value += (NOISE * latest.iter().sum::<f64>() / (latest.len() as f64).sqrt()) as f32;
    }
}

/// Adds a Ricker wavelet, (1 - 2a) exp(-a) with a = (pi f t)², around the event's arrival.
fn add_wavelet(trace: &mut [f32], event: &Event, distance: f64) {
    const NEGLIGIBLE: f64 = 30.0; // of a, where exp(-a) is far below the noise
    let arrival = event.arrival(distance);
    let spreading = (1.0 + 2.0 * arrival).recip();
    let reach = NEGLIGIBLE.sqrt() / (PI * event.frequency);
    let first = ((arrival - reach) / SAMPLE_TIME).max(0.0) as usize;
    let last = (((arrival + reach) / SAMPLE_TIME).max(0.0) as usize).min(trace.len());
    for (index, value) in trace.iter_mut().enumerate().take(last).skip(first) {
        let exponent = (PI * event.frequency * (index as f64 * SAMPLE_TIME - arrival)).powi(2);
        *value += (event.strength * spreading * (1.0 - 2.0 * exponent) * (-exponent).exp()) as f32;
    }
}
