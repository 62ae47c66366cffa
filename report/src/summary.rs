//! The report: what the sums come down to, and thresholds of the literature.

use std::fmt;

use serde::Serialize;

use crate::Field;
use crate::part::{Part, Slopes, picture_size};
use crate::spectrum::Powers;

/// What a copy keeps of an array. Errors are those of the copy minus the original, in the units of the data.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Extents of the array.
    pub shape: Vec<usize>,
    /// Values that count: those that are finite and not missing in both arrays. All numbers below are of these.
    pub values: u64,
    /// Values of the original that do not count.
    pub missing: u64,
    /// Values that count in one of the arrays alone.
    pub changed: u64,
    /// The bound that all values are to keep, if there is one.
    pub bound: Option<f64>,
    /// The largest error, without its sign.
    pub greatest_error: f64,
    /// The indices of its value; for complex numbers, the last index says which part it is.
    pub greatest_error_at: Vec<usize>,
    /// The mean error: a shift of all values.
    pub mean_error: f64,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// Peak signal-to-noise ratio in dB: the original's range over `rmse`; infinite where no value differs.
    pub psnr: f64,
    /// Pearson's correlation of original and copy, `None` for a constant original.
    pub correlation: Option<f64>,
    /// Of the original.
    pub original: Moments,
    /// Of the copy.
    pub copy: Moments,
    /// Structural similarity of planes, `None` where no plane has 11 rows and columns.
    pub dssim: Option<Similarity>,
    /// Differences of neighbours along the last three axes, the fastest axis first, as far as an axis has several values.
    pub gradients: Vec<Gradient>,
    /// Values that were at least 0 and became negative, or were at most 0 and became positive.
    pub crossed_zero: u64,
    /// Power along the fastest axis, `None` where no row has values that all count.
    pub spectrum: Option<Spectrum>,
    /// The errors' histogram: the width of a bin, and counts. The middle of the bins is 0.
    pub histogram: (f64, Vec<u64>),
    /// The numbers that have a threshold.
    pub checks: Vec<Check>,
    /// A plane in the middle of the array, some of its values: rows, columns, original and copy. What does not count is NaN.
    #[serde(skip)]
    pub picture: (usize, usize, Vec<[f64; 2]>),
}

/// Statistics of an array.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Moments {
    /// The mean value.
    pub mean: f64,
    /// The mean squared difference from the mean.
    pub variance: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

/// The dSSIM of planes along the two fastest axes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Similarity {
    /// The mean over all planes.
    pub mean: f64,
    /// That of the plane that has the least.
    pub least: f64,
    /// The number of this plane in C order.
    pub least_at: usize,
    /// The number of planes.
    pub planes: u64,
}

/// The differences of neighbours along one axis.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Gradient {
    /// The axis, 0 for the slowest.
    pub axis: usize,
    /// The root mean squared error of differences, as a share of the root mean square of the original's.
    pub rms_error: f64,
    /// The largest error of a difference, as a share of the original's largest difference.
    pub greatest_error: f64,
    /// Differences whose sign is reversed.
    pub inverted: u64,
    /// All differences.
    pub pairs: u64,
}

/// The mean power of stretches of rows, for each number of waves a stretch.
#[derive(Debug, Clone, Serialize)]
pub struct Spectrum {
    /// Values of a stretch.
    pub length: usize,
    /// Number of stretches.
    pub stretches: u64,
    /// Power of the original, for 1 to `length / 2` waves.
    pub original: Vec<f64>,
    /// Power of the copy.
    pub copy: Vec<f64>,
    /// Power of the error.
    pub error: Vec<f64>,
    /// The share of the wavenumbers, from the lowest on, whose power in the copy is that of the original within 1 %.
    pub kept: f64,
}

/// A number with a threshold.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// The smallest or largest number that is good.
    pub threshold: f64,
    /// Whether the number is to be at least the threshold, or else at most.
    pub is_least: bool,
    /// Whether the number is good.
    pub is_kept: bool,
    /// Where the threshold is from.
    pub source: &'static str,
}

/// How far the power of a wavenumber may be from the original's, as a share of it (Jin et al., IPDPS 2020, arXiv 2004.00224).
const POWER_TOLERANCE: f64 = 0.01;
/// The least dSSIM of a plane that is good. `python/src/h5z_quire/advising.py` has it, too.
pub const LEAST_DSSIM: f64 = 0.9995;
const DSSIM_SOURCE: &str =
    "ldcpy, CompChecker, by the authors of dSSIM: Baker, Pinard, Hammerling, IEEE TVCG 30(9), 2024, arXiv 2202.02616";
const CORRELATION_SOURCE: &str = "Baker et al., LNCS 10524, pages 30 to 42, 2017; ldcpy, check_metrics";

impl Report {
    pub(crate) fn new(field: &Field, part: &Part, plane: (usize, usize)) -> Self {
        let count = part.values as f64;
        let moments = |array: usize| Moments {
            mean: part.spreads[array].mean,
            variance: part.spreads[array].squares / count,
            least: part.least[array],
            most: part.most[array],
        };
        let [before, after, errors] = part.spreads;
        let rmse = (errors.squares / count + errors.mean * errors.mean).sqrt();
        let psnr =
            if part.greatest_error == 0.0 { f64::INFINITY } else { 20.0 * ((part.most[0] - part.least[0]) / rmse).log10() };
        let product = (before.squares * after.squares).sqrt();
        // Twice the covariance is the sum of both variances minus that of the errors. This form is exact where the correlation is near 1.
        let correlation = (product > 0.0).then(|| (before.squares + after.squares - errors.squares) / (2.0 * product));
        let similar = &part.similarities;
        let dssim = (similar.planes > 0).then(|| Similarity {
            mean: similar.sum / similar.planes as f64,
            least: similar.least,
            least_at: similar.least_at,
            planes: similar.planes,
        });
        let rank = field.shape.len();
        let gradients = part.slopes.iter().enumerate().filter(|(_, slopes)| slopes.pairs > 0);
        let (rows, columns) = picture_size(plane);
        let mut pixels = vec![[f64::NAN; 2]; rows * columns];
        part.pixels.iter().for_each(|&(pixel, values)| pixels[pixel] = values);
        let mut report = Self {
            shape: field.shape.clone(),
            values: part.values,
            missing: part.missing,
            changed: part.changed,
            bound: field.bound,
            greatest_error: part.greatest_error,
            greatest_error_at: place(field, part.greatest_at),
            mean_error: errors.mean,
            rmse,
            psnr,
            correlation,
            original: moments(0),
            copy: moments(1),
            dssim,
            gradients: gradients.map(|(axis, slopes)| Gradient::new(rank - 1 - axis, slopes)).collect(),
            crossed_zero: part.crossed,
            spectrum: Spectrum::new(&part.powers),
            histogram: (part.histogram.width, part.histogram.counts.to_vec()),
            checks: Vec::new(),
            picture: (rows, columns, pixels),
        };
        report.checks = checks(&report);
        report
    }
}

/// The indices of a value.
fn place(field: &Field, (index, half): (usize, usize)) -> Vec<usize> {
    let mut rest = index;
    let mut place: Vec<usize> = field.shape.iter().rev().map(|extent| (rest % extent, rest /= extent).0).collect();
    place.reverse();
    place.extend(field.scalar.is_pair().then_some(half));
    place
}

impl Gradient {
    fn new(axis: usize, slopes: &Slopes) -> Self {
        let share = |[whole, error]: [f64; 2]| if error == 0.0 { 0.0 } else { error / whole };
        let rms_error = share(slopes.squares).sqrt();
        Self { axis, rms_error, greatest_error: share(slopes.greatest), inverted: slopes.inverted, pairs: slopes.pairs }
    }
}

impl Spectrum {
    fn new(powers: &Powers) -> Option<Self> {
        let mean =
            |powers: &[f64], stretches: u64| powers.iter().skip(1).map(|power| power / stretches as f64).collect::<Vec<f64>>();
        let [original, copy, error] = [&powers.original, &powers.copy, &powers.error].map(|sum| mean(sum, powers.stretches));
        let is_kept = |(original, copy): (&f64, &f64)| (copy - original).abs() <= POWER_TOLERANCE * original;
        let kept = original.iter().zip(&copy).take_while(|&pair| is_kept(pair)).count() as f64 / original.len().max(1) as f64;
        (powers.stretches > 0).then_some(Self { length: powers.length, stretches: powers.stretches, original, copy, error, kept })
    }
}

/// The numbers of a report that have a threshold.
fn checks(report: &Report) -> Vec<Check> {
    let numbers = [
        report.bound.map(|bound| ("largest error", report.greatest_error, bound, false, "the bound")),
        report.dssim.map(|dssim| ("least dSSIM", dssim.least, LEAST_DSSIM, true, DSSIM_SOURCE)),
        report.correlation.map(|correlation| ("correlation", correlation, 0.99999, true, CORRELATION_SOURCE)),
    ];
    let check = |(name, value, threshold, is_least, source)| {
        let is_kept = if is_least { value >= threshold } else { value <= threshold };
        Check { name, value, threshold, is_least, is_kept, source }
    };
    numbers.into_iter().flatten().map(check).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.lines() {
            writeln!(f, "{name:<24}  {value}")?;
        }
        self.checks.iter().try_for_each(|check| writeln!(f, "{check}"))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, threshold, source, .. } = self;
        let (side, verdict) = (if self.is_least { "at least" } else { "at most" }, if self.is_kept { "good" } else { "POOR" });
        write!(f, "{verdict}  {name} {} ({side} {threshold}: {source})", number(*value))
    }
}

/// A number as texts show it.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || (1e-2..1e6).contains(&value.abs()) { format!("{value:.7}") } else { format!("{value:.4e}") }
}

impl Report {
    /// All numbers as texts, with their names.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let change = |of: fn(&Moments) -> f64| {
            let (before, after) = (of(&self.original), of(&self.copy));
            format!("{before:.7e}, in the copy {:+.2e}", after - before)
        };
        let mut lines = vec![
            ("values".to_owned(), format!("{}; {} missing, {} changed", self.values, self.missing, self.changed)),
            ("largest error".to_owned(), format!("{:.4e} at {:?}", self.greatest_error, self.greatest_error_at)),
            ("mean and rms error".to_owned(), format!("{:.4e}, {:.4e}", self.mean_error, self.rmse)),
            ("PSNR".to_owned(), format!("{:.2} dB", self.psnr)),
            ("mean".to_owned(), change(|moments| moments.mean)),
            ("variance".to_owned(), change(|moments| moments.variance)),
            ("smallest value".to_owned(), change(|moments| moments.least)),
            ("largest value".to_owned(), change(|moments| moments.most)),
            ("values that crossed zero".to_owned(), self.crossed_zero.to_string()),
        ];
        lines.extend(self.correlation.map(|correlation| ("correlation".to_owned(), format!("1 - {:.2e}", 1.0 - correlation))));
        lines.extend(self.dssim.map(|Similarity { mean, least, least_at, planes }| {
            ("dSSIM".to_owned(), format!("mean {mean:.7}, least {least:.7} in plane {least_at} of {planes}"))
        }));
        lines.extend(self.gradients.iter().map(|gradient| {
            let Gradient { axis, rms_error, greatest_error, inverted, pairs } = gradient;
            let shares = format!("rms {rms_error:.2e} and largest {greatest_error:.2e} of the original's");
            (format!("gradient along axis {axis}"), format!("error {shares}; {inverted} of {pairs} slopes inverted"))
        }));
        lines.extend(self.spectrum.as_ref().map(|spectrum| {
            let kept =
                format!("power within 1 % (Jin et al., IPDPS 2020) up to {:.1} % of the wavenumbers", 100.0 * spectrum.kept);
            ("spectrum".to_owned(), format!("{kept}; {} stretches of {} values", spectrum.stretches, spectrum.length))
        }));
        lines
    }
}
