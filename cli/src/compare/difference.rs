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

/// Error statistics of values, and the promises that they break.
#[derive(Debug, Clone)]
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
    /// The sum of the squared errors.
    pub(super) squares: f64,
    /// The smallest value; infinity if there are none.
    pub(super) least: f64,
    /// The largest value; minus infinity if there are none.
    pub(super) most: f64,
}

impl Default for Difference {
    fn default() -> Self {
        Self {
            values: 0,
            greatest: 0.0,
            share: 0.0,
            beyond: 0,
            changed: 0,
            broken: None,
            far: None,
            squares: 0.0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        }
    }
}

impl Difference {
    /// Adds the statistics of another chunk.
    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.greatest = self.greatest.max(other.greatest);
        self.share = self.share.max(other.share);
        self.beyond += other.beyond;
        self.changed += other.changed;
        if self.broken.is_none() {
            self.broken.clone_from(&other.broken);
        }
        self.far = match (self.far, other.far) {
            (Some(one), Some(other)) => {
                let wider = if one.times < other.times { other } else { one };
                Some(Far { chunks: one.chunks + other.chunks, ..wider })
            }
            (one, other) => one.or(other),
        };
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// The largest minus the smallest value; 0 if there are none.
    pub(crate) fn range(&self) -> f64 {
        if self.least <= self.most { self.most - self.least } else { 0.0 }
    }

    /// PSNR in dB; infinite if no value differs, NaN if the sum of squared errors overflows f64.
    pub(crate) fn psnr(&self) -> f64 {
        if self.greatest == 0.0 {
            return f64::INFINITY;
        }
        let psnr = 20.0 * self.range().log10() - 10.0 * (self.squares / self.values as f64).log10();
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
