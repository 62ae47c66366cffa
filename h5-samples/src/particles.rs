use crate::random::Random;

/// Side of the periodic box, Mpc.
pub const BOX_SIDE: f64 = 256.0;

/// Share of the particles that belong to a halo; the others are spread evenly.
const CLUSTERED_SHARE: f64 = 0.6;

/// Particles that share a halo, on average.
const PARTICLES_A_HALO: usize = 500;

/// One coordinate of the particles of an N-body simulation, Mpc, `[particle]`, unsorted, in [0, [`BOX_SIDE`]).
///
/// Imitates `x` of a cosmology code such as HACC: sixty in a hundred particles lie in halos whose masses follow a power law and whose
/// density falls as 1/r², the others anywhere. Neighbours in the file are not neighbours in space, so that no predictor helps.
#[must_use]
pub fn positions(seed: u64, count: usize) -> Vec<f32> {
    particles(seed, count).map(|particle| particle.position).collect()
}

/// Velocities of those particles along that axis, in km/s, `[particle]`.
///
/// Halos drift with 300 km/s; their members swarm the faster, the heavier the halo; the others move with 150 km/s.
#[must_use]
pub fn velocities(seed: u64, count: usize) -> Vec<f32> {
    particles(seed, count).map(|particle| particle.velocity).collect()
}

struct Particle {
    position: f32,
    velocity: f32,
}

struct Halo {
    centre: f64,   // Mpc
    radius: f64,   // Mpc
    drift: f64,    // km/s
    swarming: f64, // km/s
}

fn particles(seed: u64, count: usize) -> impl Iterator<Item = Particle> {
    let mut random = Random::new(seed, "particles");
    let (halos, shares) = halos(&mut random, count.div_ceil(PARTICLES_A_HALO).max(1));
    (0..count).map(move |_| {
        let (position, velocity) = if random.uniform() < CLUSTERED_SHARE {
            let wanted = random.uniform();
            let halo = &halos[shares.partition_point(|&share| share < wanted).min(halos.len() - 1)];
            // In a density of 1/r² every radius is equally likely; a coordinate is the radius times an evenly spread cosine.
            let offset = halo.radius * random.uniform() * random.between(-1.0, 1.0);
            (halo.centre + offset, halo.drift + halo.swarming * random.normal())
        } else {
            (random.between(0.0, BOX_SIDE), 150.0 * random.normal())
        };
        // Rounding to f32 may reach the far wall, which is the near one.
        let position = position.rem_euclid(BOX_SIDE) as f32;
        Particle { position: if f64::from(position) < BOX_SIDE { position } else { 0.0 }, velocity: velocity as f32 }
    })
}

/// The halos, each with the cumulative fraction of the total mass up to and including it.
fn halos(random: &mut Random, count: usize) -> (Vec<Halo>, Vec<f64>) {
    let mut halos = Vec::with_capacity(count);
    let mut masses = Vec::with_capacity(count);
    for _ in 0..count {
        // Number of halos heavier than m falls as 1/m, from 1 to 1000.
        let mass = (1.0 - random.uniform() * 0.999).recip();
        masses.push(mass);
        halos.push(Halo {
            centre: random.between(0.0, BOX_SIDE),
            radius: 0.2 * mass.cbrt(),
            drift: 300.0 * random.normal(),
            swarming: 100.0 * mass.cbrt(),
        });
    }
    let total: f64 = masses.iter().sum();
    let mut below = 0.0;
    let shares = masses.iter().map(|mass| {
        below += mass / total;
        below
    });
    let shares = shares.collect();
    (halos, shares)
}
