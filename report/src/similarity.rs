//! dSSIM: structural similarity of floating-point planes (Baker, Pinard, Hammerling, "On a Structural Similarity Index Approach for Floating-Point Data", IEEE
//! TVCG 30(9), 2024), with the constants of ldcpy, the authors' program.
//!
//! ```text
//! both planes ─> share of their common range in 256 levels ─> a Gaussian window of 11 x 11 values around each value: means, variances, covariance
//!             ─> (2 m n + C) (2 cov + C) / ((m² + n² + C) (var + var + C)) ─> mean over all windows that lie in the plane
//! ```
//!
//! Levels are whole numbers here, which scales both factors alike. Values that do not count weigh nothing, and windows around them are left out.

/// Values along a side of a window.
pub(crate) const SIDE: usize = 11;
/// The standard deviation of the window's weights, in values.
const SIGMA: f64 = 1.5;
/// The levels of a plane are 0 to this number.
const LEVELS: f64 = 255.0;
/// Added to numerator and denominator: 1e-8 where levels are 0 to 1.
const STABILIZER: f64 = 1e-8 * LEVELS * LEVELS;
/// Weighted sums of a window: both fields, their squares, their product, and the weights.
const SUMS: usize = 6;

/// Two planes of `columns` values a row.
pub(crate) struct Planes<'a> {
    pub(crate) rows: &'a dyn Fn(usize) -> [&'a [f64]; 2],
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// The smallest and the largest value of both planes.
    pub(crate) range: [f64; 2],
    /// Whether some values do not count.
    pub(crate) has_gaps: bool,
}

/// The dSSIM of two planes; `None` where no window fits.
pub(crate) fn dssim(planes: &Planes<'_>) -> Option<f64> {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || if planes.has_gaps { mean::<SUMS>(planes) } else { mean::<{ SUMS - 1 }>(planes) },
    )
}

/// With `N` sums: without gaps, the weights need not be added.
#[inline(always)]
fn mean<const N: usize>(planes: &Planes<'_>) -> Option<f64> {
    let &Planes { rows, height, width, range: [least, most], .. } = planes;
    let inner = width.checked_sub(SIDE - 1)?;
    let weights = weights();
    // A constant plane has one level, whichever.
    let scale = if most > least { LEVELS / (most - least) } else { 0.0 };
    let mut terms = [(); N].map(|()| vec![0.0; width]);
    let mut ring = vec![[(); N].map(|()| vec![0.0; inner]); SIDE];
    let mut is_inside = vec![vec![true; inner]; SIDE];
    let (mut sum, mut count) = (0.0, 0u64);
    let mut sums = [(); N].map(|()| vec![0.0; inner]);
    for y in 0..height {
        let [before, after] = rows(y);
        for x in 0..width {
            let counts = !before[x].is_nan() & !after[x].is_nan();
            let level = |value: f64| if counts { ((value - least) * scale).round_ties_even() } else { 0.0 };
            let (before, after) = (level(before[x]), level(after[x]));
            let all = [before, after, before * before, after * after, before * after, f64::from(u8::from(counts))];
            (0..N).for_each(|term| terms[term][x] = all[term]);
        }
        let slot = y % SIDE;
        (0..N).for_each(|term| convolve(|k| &terms[term][k..k + inner], &weights, &mut ring[slot][term]));
        if N == SUMS {
            let middle = &terms[SUMS - 1][SIDE / 2..SIDE / 2 + inner];
            is_inside[slot].iter_mut().zip(middle).for_each(|(is_inside, &weight)| *is_inside = weight > 0.0);
        }
        if y + 1 < SIDE {
            continue;
        }
        for term in 0..N {
            convolve(|k| &ring[(y + 1 + k) % SIDE][term][..], &weights, &mut sums[term]);
        }
        let is_inside = &is_inside[(y + 1 + SIDE / 2) % SIDE];
        for x in 0..inner {
            let weight = if N == SUMS { sums[N - 1][x] } else { 1.0 };
            let [m, n, mm, nn, mn] = [0, 1, 2, 3, 4].map(|term| sums[term][x] / weight);
            let means = (2.0 * m * n + STABILIZER) / (m * m + n * n + STABILIZER);
            let spread = (2.0 * (mn - m * n) + STABILIZER) / ((mm - m * m) + (nn - n * n) + STABILIZER);
            if is_inside[x] {
                sum += means * spread;
                count += 1;
            }
        }
    }
    (count > 0).then(|| sum / count as f64)
}

/// Weights of a row of the window; their sum is 1.
fn weights() -> [f64; SIDE] {
    let weights: [f64; SIDE] = std::array::from_fn(|k| (-(k as f64 - (SIDE / 2) as f64).powi(2) / (2.0 * SIGMA * SIGMA)).exp());
    weights.map(|weight| weight / weights.iter().sum::<f64>())
}

/// The weighted sum of [`SIDE`] arrays.
#[inline(always)]
fn convolve<'a>(array: impl Fn(usize) -> &'a [f64], weights: &[f64; SIDE], sum: &mut [f64]) {
    let arrays: [&[f64]; SIDE] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|k| &array(k)[..sum.len()]);
    for (x, sum) in sum.iter_mut().enumerate() {
        *sum = (0..SIDE).fold(0.0, |sum, k| sum + weights[k] * arrays[k][x]);
    }
}
