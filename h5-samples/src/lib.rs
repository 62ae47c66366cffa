//! Seeded scientific-looking fields: data to compress when no real data is at hand.
//!
//! Every generator is a function of a seed and a shape. The same seed gives the same bytes on the same machine; the sines and
//! logarithms of another machine's mathematics library may differ in the last bit. Shapes are written slowest axis first, as in
//! C, HDF5 and numpy: `[nz][ny][nx]`, x fastest.
//!
//! | family | module |
//! |---|---|
//! | turbulent velocity, log-normal density | [`turbulence`] |
//! | sparse cloud water | [`cloud`] |
//! | sea surface and air temperature | [`climate`] |
//! | positions and velocities of particles | [`particles`] |
//! | seismic shot record | [`seismic`] |
//! | sea surface height | [`ocean`] |
//! | time series with gaps | [`series`] |
//! | detector counts, readings in eighths | [`lattice`] |
#![forbid(unsafe_code)]

mod field;
mod measured;
/// numpy's file format, as far as it is needed to write arrays.
pub mod npy;
mod random;
mod spectrum;

/// Temperature over the globe, with and without land.
pub mod climate;
/// Mostly empty cloud water.
pub mod cloud;
/// Values that lie on a lattice: counts and digitised readings.
pub mod lattice;
/// Height of the sea, with fronts.
pub mod ocean;
/// Clustered particles of an N-body simulation.
pub mod particles;
/// A seismic shot record.
pub mod seismic;
/// Time series with gaps.
pub mod series;
/// Gaussian and log-normal fields with power-law spectra.
pub mod turbulence;

pub use field::{Field, Size, Values, all, finite_range};
pub use measured::{measured, processor};
