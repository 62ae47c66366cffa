//! What copies keep beside their bounds: statistics by `quire-report`, as text, as a page, and as a drawing.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hdf5::Dataset;
use indicatif::ProgressBar;
use quire_codec::ErrorBound;
use quire_report::{Field, Report, Statistics};

use super::pixels::png;
use crate::boxes::{self, Range};
use crate::datasets::Source;
use crate::names::Name;
use crate::part;

/// Where statistics go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct Wanted {
    /// Print what each copy keeps beside its bound: place of the largest error, moments, dSSIM, gradients, spectrum, signs
    #[arg(long)]
    pub(super) report: bool,
    /// Write that to a page of HTML, with drawings, which needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the drawings of one dataset to a file.png or file.svg: errors, spectra, and a plane of both arrays
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

impl Wanted {
    /// Refuses drawings in a form that is not known, before any work has begun.
    ///
    /// # Errors
    /// With the name.
    pub(super) fn check(&self) -> Result<()> {
        match &self.plot {
            Some(path) if !is(path, "png") && !is(path, "svg") => {
                bail!("{}: --plot writes a file.png or file.svg", Name::from(path))
            }
            _ => Ok(()),
        }
    }

    /// Whether statistics are wanted.
    pub(super) fn any(&self) -> bool {
        self.report || !self.files().is_empty()
    }

    /// The files to write.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.html.iter().chain(&self.plot).cloned().collect()
    }

    /// Writes the files.
    ///
    /// # Errors
    /// With their names.
    pub(super) fn write(&self, heading: &str, reports: &[(String, &Report)]) -> Result<()> {
        if let Some(path) = &self.html {
            write(path, quire_report::html(heading, reports).as_bytes())?;
        }
        if let Some(path) = &self.plot {
            let [(_, report)] = reports else {
                bail!("--plot draws one dataset, and {} are compared: name one, such as run.h5:/t", reports.len());
            };
            write(path, &if is(path, "svg") { report.svg().into_bytes() } else { png(report)? })?;
        }
        Ok(())
    }
}

/// The statistics of a dataset and its copy, which are read box by box. The calling thread reads.
///
/// # Errors
/// HDF5's.
pub(super) fn report(
    source: &Source,
    copy: &Dataset,
    promise: Option<ErrorBound>,
    threads: usize,
    bar: &ProgressBar,
) -> Result<Report> {
    let (numbers, extents) = (&source.numbers, &source.extents);
    let missing = source.elements().fill.to_vec();
    let bound = match promise {
        Some(ErrorBound::Absolute(bound) | ErrorBound::Ratio { ceiling: Some(bound), .. }) => Some(bound),
        Some(ErrorBound::Lossless) => Some(0.0),
        _ => None,
    };
    let field = Field { chunk: copy.chunk(), missing, bound, ..Field::new(extents, numbers.scalar, numbers.byte_order) };
    let mut statistics = Statistics::new(field, threads);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    while let Some(ranges) = statistics.next() {
        let ranges: Vec<Range> = ranges.into_iter().map(|range| (range.start, range.len())).collect();
        numbers.read(&source.dataset, &ranges, &mut before)?;
        numbers.read(copy, &ranges, &mut after)?;
        statistics.add(&before, &after);
        bar.inc(boxes::values(&ranges) as u64);
    }
    Ok(statistics.finish())
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension() == Some(OsStr::new(extension))
}

/// Writes a file, in place of one that is there.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let part = part::begin(path)?;
    fs::write(part.path(), content).with_context(|| Name::from(path))?;
    part.keep(path, true)
}
