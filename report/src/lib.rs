//! What a copy by a lossy compressor keeps of an array, whichever compressor made it. `quire verify`, `quire advise` and Python's `h5z_quire.verify` use it.
//!
//! An array is taken box by box, so that it need not be in memory: [`Statistics::next`] says which box is wanted, [`Statistics::add`] takes its bytes, and
//! [`Statistics::finish`] makes the [`Report`]. [`compare`] does all of that for two arrays in memory.
//!
//! ```text
//! windows: which box is next ─> boxes of both arrays ─> numbers: f64, NaN for what does not count ─> part: one a unit of the box, on all threads
//!                                                          part ─ sums, gradients, histogram ┬ similarity: dSSIM of each plane ┬ spectrum ┐
//!                                                                               page: HTML <─┴ report: numbers and thresholds <──────────┘
//! ```
//!
//! [`Precision`] is what an array is worth by itself: its digits and its noise.
//!
//! Axes are `[nz][ny][nx]`, x fastest. An array with more axes is a row of such boxes. The two parts of complex numbers are two arrays.
//!
//! ```
//! use quire_report::{ByteOrder, Field, Scalar, compare};
//!
//! let values: Vec<f32> = (0..64 * 64).map(|i| (i as f32 / 50.0).sin()).collect();
//! let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
//! let copied: Vec<f32> = values.iter().map(|value| (value / 2e-3).round() * 2e-3).collect();
//! let field = Field { bound: Some(1e-3), ..Field::new(&[64, 64], Scalar::F32, ByteOrder::Little) };
//! let report = compare(field, &bytes(&values), &bytes(&copied), 1);
//! assert!(report.greatest_error <= 1e-3 * 1.001 && report.psnr > 60.0 && report.dssim.expect("a plane").mean > 0.9);
//! println!("{report}");
//! ```

#![forbid(unsafe_code)]

mod numbers;
mod page;
mod part;
mod precision;
mod similarity;
mod spectrum;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;
mod windows;

pub use page::{Anchor, Canvas, DRAWING, html};
pub use precision::{Precision, typical};
pub use quire_codec::{ByteOrder, Scalar};
pub use statistics::{Statistics, compare};
pub use summary::{Check, Gradient, LEAST_DSSIM, Moments, Report, Similarity, Spectrum};

/// An array that is compared with its copy.
#[derive(Debug, Clone)]
pub struct Field {
    /// Extents, slowest axis first. None may be 0.
    pub shape: Vec<usize>,
    /// Extents of the chunks in which the array is stored, if it is: boxes have whole chunks along the slowest axis where memory allows.
    pub chunk: Option<Vec<usize>>,
    /// The type of the values.
    pub scalar: Scalar,
    /// The order of their bytes.
    pub byte_order: ByteOrder,
    /// Bits of values that stand for no value, such as the fill value. They count nowhere, as NaN and infinities do not.
    pub missing: Vec<u64>,
    /// The largest error that is allowed, in the units of the data, if there is one for all values: the histogram counts in it.
    pub bound: Option<f64>,
}

impl Field {
    /// An array without missing values and without a bound.
    #[must_use]
    pub fn new(shape: &[usize], scalar: Scalar, byte_order: ByteOrder) -> Self {
        Self { shape: shape.to_vec(), chunk: None, scalar, byte_order, missing: Vec::new(), bound: None }
    }
}
