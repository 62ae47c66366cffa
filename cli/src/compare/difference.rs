//! What a comparison has found: statistics of errors, broken promises, and values far from all others.

use anyhow::{Result, anyhow};
use serde::{Serialize, Serializer};
use serde_json::json;

/// A value that decides its chunk's range, by which a bound or the PSNR is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Far {
    pub(crate) value: f64,
    /// The range as a multiple of the other values' range.
    pub(crate) times: f64,
    /// Number of chunks with such a value.
    pub(crate) chunks: u64,
}

impl std::fmt::Display for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, times, chunks } = self;
        let chunks = if *chunks == 1 { "a chunk".to_owned() } else { format!("{chunks} chunks") };
        write!(
            f,
            "in {chunks} one value decides the range, by which bounds and PSNR are measured: {value:e} makes it {times:.0} times as wide. If it stands for \
             missing values, name it in an attribute missing_value; if it does not, give an absolute bound"
        )
    }
}

/// The smallest and the largest of many values, and of those between them.
#[derive(Debug, Clone)]
pub(crate) struct Extremes {
    /// The smallest value, infinity if there are none, and the smallest one above it.
    least: [f64; 2],
    /// The largest value, minus infinity if there are none, and the largest one below it.
    most: [f64; 2],
}

impl Default for Extremes {
    fn default() -> Self {
        Self { least: [f64::INFINITY; 2], most: [f64::NEG_INFINITY; 2] }
    }
}

impl Extremes {
    /// How many times as wide as that of all other values a range must be for one value to be told as far from them.
    const FAR_TIMES: f64 = 10.0;

    /// Whether a value lies between others, so that it would change nothing.
    #[inline(always)]
    pub(super) fn has(&self, value: f64) -> bool {
        (self.least[1] <= value) & (value <= self.most[1])
    }

    pub(super) fn add(&mut self, value: f64) {
        let ([least, above], [most, below]) = (self.least, self.most);
        if value < least {
            self.least = [value, least];
        } else if value > least && value < above {
            self.least[1] = value;
        }
        if value > most {
            self.most = [value, most];
        } else if value < most && value > below {
            self.most[1] = value;
        }
    }

    /// The largest minus the smallest value; 0 if there are none.
    pub(super) fn range(&self) -> f64 {
        (self.most[0] - self.least[0]).max(0.0)
    }

    /// The value without which the range would be much narrower, if there is one.
    pub(super) fn far(&self) -> Option<Far> {
        let of = |value: f64, others: f64| Far { value, times: self.range() / others, chunks: 1 };
        let ([least, above], [most, below]) = (self.least, self.most);
        let (without_least, without_most) = (of(least, most - above), of(most, below - least));
        let far = if without_least.times > without_most.times { without_least } else { without_most };
        // Of a chunk with two values none is far.
        (far.times.is_finite() && far.times >= Self::FAR_TIMES).then_some(far)
    }
}

/// Error statistics of values, and the promises that they break.
#[derive(Debug, Clone, Default)]
pub(crate) struct Difference {
    /// Number of finite values, without fill values and other values that are to be kept.
    pub(crate) values: u64,
    /// The largest error among them.
    pub(crate) greatest: f64,
    /// The largest error as a share of the error that the bound allows; 0 without a bound on each value.
    pub(crate) share: f64,
    /// Values that are off by more than the bound.
    pub(crate) beyond: u64,
    /// Fill values, missing values, NaN and infinities that did not come back bit for bit.
    pub(crate) changed: u64,
    /// The first promise that was broken; `None` if all were kept.
    pub(crate) broken: Option<String>,
    /// The value that widens a chunk's range the most. It is given if it widens the range much, and the bound or the PSNR depends on the range.
    pub(crate) far: Option<Far>,
    /// Kept values that count in a chunk's range.
    pub(super) missing: u64,
    /// The sum of the squared errors.
    pub(super) squares: f64,
    pub(super) extremes: Extremes,
}

impl Difference {
    /// Adds the statistics of another chunk.
    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.greatest = self.greatest.max(other.greatest);
        self.share = self.share.max(other.share);
        self.beyond += other.beyond;
        self.changed += other.changed;
        self.broken = self.broken.take().or_else(|| other.broken.clone());
        self.far = match (self.far, other.far) {
            (Some(one), Some(other)) => {
                let wider = if one.times < other.times { other } else { one };
                Some(Far { chunks: one.chunks + other.chunks, ..wider })
            }
            (one, other) => one.or(other),
        };
        self.squares += other.squares;
        [other.extremes.least[0], other.extremes.most[0]]
            .into_iter()
            .filter(|value| value.is_finite())
            .for_each(|value| self.extremes.add(value));
    }

    /// The range of the values, without those that are to be kept and count in no range.
    pub(crate) fn range(&self) -> f64 {
        self.extremes.range()
    }

    /// PSNR in dB; infinite if no value differs, NaN if the sum of squared errors overflows f64.
    pub(crate) fn psnr(&self) -> f64 {
        if self.greatest == 0.0 {
            return f64::INFINITY;
        }
        let psnr = 20.0 * self.extremes.range().log10() - 10.0 * (self.squares / self.values as f64).log10();
        if psnr.is_finite() { psnr } else { f64::NAN }
    }

    /// The PSNR as text for tables.
    pub(crate) fn psnr_text(&self) -> String {
        match self.psnr() {
            f64::INFINITY => "exact".to_owned(),
            psnr if psnr.is_nan() => "-".to_owned(),
            psnr => format!("{psnr:.1}"),
        }
    }

    /// These statistics if all promises were kept.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub(crate) fn kept(self) -> Result<Self> {
        match self.broken {
            Some(reason) => Err(anyhow!(reason)),
            None => Ok(self),
        }
    }
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { values, greatest, share, beyond, changed, .. } = self;
        let statistics = json!({
            "values": values, "greatest_error": greatest, "share_of_bound": share, "psnr": self.psnr(), "beyond_bound": beyond, "changed": changed,
        });
        statistics.serialize(serializer)
    }
}
