//! What a bound is to keep, and the search for the largest bound that keeps it.

use std::fmt;

use anyhow::{Context as _, Result};
use quire_codec::options::Options;
use quire_codec::{Config, ErrorBound};
use quire_report::LEAST_DSSIM;

use super::planes::{Planes, Trial};
use crate::choice::Choice;
use crate::datasets::Source;

/// Bounds that are tried below the range: eight decades. Below them is hardly a float's own precision.
const STEPS: i32 = 24;

/// A number that says how near a copy is to its original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Ssim,
    Gradient,
    Psnr,
}

impl Measure {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A measure, and the limit that a copy is to keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    measure: Measure,
    limit: f64,
}

/// The target if the user gives none: the least dSSIM that `quire verify` calls good.
pub(super) const USUAL: Target = Target { measure: Measure::Ssim, limit: LEAST_DSSIM };

/// Parses a target such as `ssim=0.99995`.
///
/// # Errors
/// Names the measures that there are.
pub(super) fn target(text: &str) -> Result<Target> {
    let how_to =
        || format!("{text:?}: give ssim=, gradient= or psnr= and a number, as in ssim=0.99995, gradient=1e-2 or psnr=60");
    let (key, limit) = text.split_once('=').with_context(how_to)?;
    let measures = [Measure::Ssim, Measure::Gradient, Measure::Psnr];
    let measure = measures.into_iter().find(|measure| measure.name() == key).with_context(how_to)?;
    let limit = limit.parse().ok().filter(|&limit| limit > 0.0 && (measure != Measure::Ssim || limit < 1.0));
    Ok(Target { measure, limit: limit.with_context(how_to)? })
}

impl Target {
    /// What a trial has; `None` if the array has no such measure.
    fn of(self, trial: &Trial) -> Option<f64> {
        match self.measure {
            Measure::Ssim => trial.dssim(),
            Measure::Gradient => trial.gradient_error(),
            Measure::Psnr => Some(trial.difference.psnr()),
        }
    }

    /// That in words.
    pub(super) fn found(&self, trial: &Trial) -> String {
        let name = self.measure.name();
        self.of(trial).map_or_else(|| format!("there is no {name} of such an array"), |found| format!("{name} is {found:.6}"))
    }

    fn is_kept(self, trial: &Trial) -> bool {
        let is_better = |found| if self.measure == Measure::Gradient { found <= self.limit } else { found >= self.limit };
        trial.problem.is_none() && self.of(trial).is_none_or(is_better)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.measure.name(), self.limit)
    }
}

/// Bounds that people write: 1, 2 and 5 times powers of ten; for types of 16 bits, powers of two.
#[derive(Clone, Copy)]
struct Ladder {
    is_binary: bool,
}

impl Ladder {
    fn bound(self, step: i32) -> f64 {
        let text = format!("{}e{}", [1, 2, 5][step.rem_euclid(3) as usize], step.div_euclid(3));
        if self.is_binary { 2f64.powi(step) } else { text.parse().unwrap_or(f64::NAN) }
    }

    /// The step of the largest bound that is at most a number above 0.
    fn below(self, most: f64) -> i32 {
        let mut step = if self.is_binary { most.log2().ceil() } else { 3.0 * most.log10().ceil() } as i32;
        while self.bound(step) > most {
            step -= 1;
        }
        step
    }
}

/// How bounds are tried.
pub(super) struct How<'a> {
    /// Options whose bound is sought: coding, brick, and what is kept beside the bound.
    pub(super) beside: Options,
    pub(super) choice: &'a Choice,
    pub(super) threads: usize,
}

impl How<'_> {
    /// Options for a dataset: integers may keep their exact bits.
    pub(super) fn options(&self, given: Options, source: &Source) -> Options {
        Options { config: self.choice.config(given.config, source), ..given }
    }

    /// The largest absolute bound that keeps all targets, with its options and trial. It is at most `most` and the range. `None` where no bound keeps them, as of integers
    /// that keep their exact bits.
    ///
    /// # Errors
    /// Those of a trial.
    pub(super) fn largest(
        &self,
        planes: &Planes<'_>,
        targets: &[Target],
        range: f64,
        most: f64,
    ) -> Result<Option<(Options, Trial)>> {
        let source = planes.sample.source;
        let ladder = Ladder { is_binary: source.numbers.scalar.is_float() && source.numbers.scalar.size() == 2 };
        let mut best = None;
        if !(range > 0.0 && range.is_finite() && most > 0.0) {
            return Ok(best);
        }
        let (mut kept, mut missed) = (ladder.below(range) - STEPS, ladder.below(range.min(most)) + 1);
        let mut step = missed - 1;
        while step > kept {
            let config = self.beside.config.with_bound(Config::absolute(ladder.bound(step))?.bound);
            let options = self.options(Options { config, ..self.beside }, source);
            let trial = planes.try_options(&options, self.threads)?;
            if options.config.bound == ErrorBound::Lossless {
                return Ok(None);
            }
            if targets.iter().all(|target| target.is_kept(&trial)) {
                kept = step;
                best = Some((options, trial));
            } else {
                missed = step;
            }
            step = (kept + missed).div_euclid(2);
        }
        Ok(best)
    }
}
