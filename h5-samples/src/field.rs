use crate::{climate, cloud, lattice, ocean, particles, seismic, series, turbulence};

/// A named array with what a reader must know about it.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name of the data set and of the file.
    pub name: &'static str,
    /// Unit of the values; "1" when they have none.
    pub units: &'static str,
    /// Cells along each axis, slowest first.
    pub dims: Vec<usize>,
    /// The values in C order.
    pub values: Values,
    /// The value that marks missing values, exactly as stored (NaN marks a missing value in any field).
    pub fill: Option<f64>,
}

/// The values of a [`Field`].
#[derive(Clone, Debug)]
pub enum Values {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
}

impl Values {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values as f64, which holds every f32 exactly.
    pub fn iter(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Self::F32(values) => Box::new(values.iter().map(|&value| f64::from(value))),
            Self::F64(values) => Box::new(values.iter().copied()),
        }
    }
}

/// Size of the fields of [`all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// About 2 MB in all, 32³ cells in three dimensions: for tests.
    Small,
    /// About 100 MB in all, 128³: for the demo.
    Medium,
    /// About 800 MB in all, 256³: for benchmarks.
    Large,
}

impl Size {
    /// A length along an axis of a field in `rank` dimensions, from its length at [`Size::Medium`]. Small fields have about 1/64 of
    /// the cells in three dimensions and 1/16 in one and two, large fields eight times as many.
    fn scale(self, medium: usize, rank: u32) -> usize {
        match (self, rank) {
            (Self::Medium, _) => medium,
            (Self::Small, 1) => medium / 16,
            (Self::Small, _) => medium / 4,
            (Self::Large, 1) => medium * 8,
            (Self::Large, 2) => medium * 3,
            (Self::Large, _) => medium * 2,
        }
    }

    fn cube(self) -> [usize; 3] {
        [self.scale(128, 3); 3]
    }

    fn plane(self, rows: usize, columns: usize) -> [usize; 2] {
        [self.scale(rows, 2), self.scale(columns, 2)]
    }
}

/// All fields, each made when the iterator reaches it, so that only one need be in memory.
pub fn all(seed: u64, size: Size) -> impl Iterator<Item = Field> {
    let cube = size.cube();
    let globe = [size.scale(60, 3), size.scale(180, 3), size.scale(360, 3)];
    let air = [12, size.scale(16, 3), size.scale(96, 3), size.scale(192, 3)];
    let shot = size.plane(1024, 2048);
    let square = size.plane(1024, 1024);
    let count = size.scale(1 << 20, 1);
    let makers: Vec<Box<dyn FnOnce() -> Field>> = vec![
        Box::new(move || single("turbulence_velocity", "m/s", &cube, turbulence::velocity(seed, cube))),
        Box::new(move || single("turbulence_resolved", "m/s", &cube, turbulence::resolved_velocity(seed, cube))),
        Box::new(move || single("turbulence_density", "1/cm3", &cube, turbulence::density(seed, cube))),
        Box::new(move || single("cloud_water", "kg/kg", &cube, cloud::water(seed, cube))),
        Box::new(move || Field {
            fill: Some(f64::from(climate::LAND)),
            ..single("sea_surface_temperature", "degC", &globe, climate::sea_surface_temperature(seed, globe))
        }),
        Box::new(move || single("air_temperature", "K", &air, climate::air_temperature(seed, air))),
        Box::new(move || single("particle_position", "Mpc", &[count], particles::positions(seed, count))),
        Box::new(move || single("particle_velocity", "km/s", &[count], particles::velocities(seed, count))),
        Box::new(move || single("seismic_shot", "1", &shot, seismic::shot_record(seed, shot))),
        Box::new(move || double("ocean_height", "m", &square, ocean::surface_height(seed, square))),
        Box::new(move || double("station_temperature", "degC", &[count], series::station_temperature(seed, count))),
        Box::new(move || single("detector_counts", "1", &square, lattice::detector_counts(seed, square))),
        Box::new(move || single("thermal_eighths", "degC", &square, lattice::thermal_eighths(seed, square))),
    ];
    makers.into_iter().map(|make| make())
}

fn single(name: &'static str, units: &'static str, dims: &[usize], values: Vec<f32>) -> Field {
    Field { name, units, dims: dims.to_vec(), values: Values::F32(values), fill: None }
}

fn double(name: &'static str, units: &'static str, dims: &[usize], values: Vec<f64>) -> Field {
    Field { name, units, dims: dims.to_vec(), values: Values::F64(values), fill: None }
}

/// Largest minus smallest of the values that are finite and not the fill value; 0 when there are none. A relative bound is a
/// share of this range.
#[must_use]
pub fn finite_range(field: &Field) -> f64 {
    let (lowest, highest) = field
        .values
        .iter()
        .filter(|value| value.is_finite() && Some(*value) != field.fill)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(lowest, highest), value| (lowest.min(value), highest.max(value)));
    if lowest <= highest { highest - lowest } else { 0.0 }
}
