//! A part of a dataset in memory: evenly spaced planes of whole chunks, on which bounds are tried.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result};
use quire_codec::options::Options;
use quire_codec::{Config, Workspace};
use quire_report::{Field, Report};

use crate::boxes::{Grid, Range, chunks_of, copy_common, values};
use crate::compare::{Difference, compare};
use crate::datasets::{Sample, Source};
use crate::jobs::pipeline;
use crate::kept;
use crate::library::process::note_reading;

/// Boxes of one shape. A box is the whole dataset, if there is room; or else it has whole planes along the two fastest axes, as far as there is room.
pub(super) struct Planes<'a> {
    /// The chunks of the boxes.
    pub(super) sample: Sample<'a>,
    boxes: Vec<Vec<Range>>,
    /// The boxes as one array.
    pub(super) field: Field,
    pub(super) bytes: Vec<u8>,
}

/// The measurements of one dataset at one bound and chunk shape.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) bytes: u64,
    pub(super) stored: u64,
    pub(super) compressing: Duration,
    pub(super) decompressing: Duration,
    pub(super) difference: Difference,
    /// `None` if there is a problem.
    pub(super) report: Option<Report>,
    /// Why the bound does not hold or is not allowed for this type.
    pub(super) problem: Option<String>,
}

impl<'a> Planes<'a> {
    /// Reads boxes of up to `room` bytes in all, but at least one. They have chunks of a shape, or else of the dataset's own.
    ///
    /// # Errors
    /// HDF5's, with the dataset's name.
    pub(super) fn read(source: &'a Source, shape: Option<&[usize]>, room: usize) -> Result<Self> {
        let (mut sample, extents, each) = (Sample::new(source, shape, 1), &source.extents, source.numbers.scalar.element_size());
        let room = room / each;
        let side = if extents.iter().product::<usize>() <= room { extents.clone() } else { planes(&sample.block, extents, room) };
        // Boxes that the dataset's end cuts short are left out: all have one shape.
        let whole: Vec<usize> = extents.iter().zip(&side).map(|(extent, side)| extent / side * side).collect();
        let grid = Grid { extents: &whole, block: &side };
        let of_boxes = grid.blocks();
        let taken = of_boxes.min((room / side.iter().product::<usize>()).max(1));
        let number = |index| (index as u128 * of_boxes as u128 / taken as u128) as usize;
        let boxes: Vec<Vec<Range>> = (0..taken).map(|index| grid.ranges(number(index))).collect();
        sample.boxes = boxes.iter().flat_map(|ranges| chunks_of(ranges, &sample.block)).collect();
        // With three axes at least, so that boxes are no rows or planes of one array.
        let axes = [&[taken][..], &vec![1; 3usize.saturating_sub(side.len())], &side].concat();
        let missing = source.elements().fill.to_vec();
        let field = Field { missing, ..Field::new(&axes, source.numbers.scalar, source.numbers.byte_order) };
        note_reading(&source.name);
        let (mut bytes, mut of_box) = (Vec::new(), Vec::new());
        for ranges in &boxes {
            source.numbers.read(&source.dataset, ranges, &mut of_box).with_context(|| source.name.clone())?;
            bytes.extend_from_slice(&of_box);
        }
        Ok(Self { sample, boxes, field, bytes })
    }

    /// Compresses and decompresses all chunks. Where the options do not hold for one, the trial says why.
    ///
    /// # Errors
    /// If there are no threads.
    pub(super) fn try_options(&self, options: &Options, threads: usize) -> Result<Trial> {
        let length = self.bytes.len() / self.boxes.len();
        let (mut trial, mut copy) = (Trial::default(), vec![0; self.bytes.len()]);
        let of_box =
            |number: usize| chunks_of(&self.boxes[number], &self.sample.block).into_iter().map(move |chunk| (number, chunk));
        let mut chunks = (0..self.boxes.len()).flat_map(of_box);
        pipeline(
            threads,
            || Ok(chunks.next()),
            |room: &mut Room, (number, ranges): (usize, Vec<Range>)| {
                let mut original = vec![0; values(&ranges) * self.sample.source.numbers.scalar.element_size()];
                copy_common(&self.boxes[number], &self.bytes[number * length..][..length], &ranges, &mut original);
                (number, room.try_chunk(&self.sample, options, &ranges, &original), ranges)
            },
            |(number, tried, ranges)| {
                match tried {
                    Ok((of_chunk, decoded)) => {
                        copy_common(&ranges, &decoded, &self.boxes[number], &mut copy[number * length..][..length]);
                        trial.add(&of_chunk);
                    }
                    Err(problem) => drop(trial.problem.get_or_insert_with(|| format!("{problem:#}"))),
                }
                Ok(())
            },
        )?;
        if trial.problem.is_none() {
            trial.report = Some(quire_report::compare(self.field.clone(), &self.bytes, &copy, threads));
        }
        Ok(trial)
    }
}

/// The sides of a box: chunks side by side along the two fastest axes, or of a dataset of one axis a chunk.
fn planes(chunk: &[usize], extents: &[usize], room: usize) -> Vec<usize> {
    let mut side = chunk.to_vec();
    for axis in (chunk.len().saturating_sub(2)..chunk.len()).rev().filter(|_| chunk.len() > 1) {
        let most = (room / side.iter().product::<usize>()).max(1);
        side[axis] = extents[axis].min(side[axis].saturating_mul(most));
    }
    side
}

/// What a thread tries chunks with.
#[derive(Default)]
struct Room {
    workspace: Workspace,
    /// Whether a chunk was tried. The first try allocates the buffers, so it is repeated before its time counts.
    is_made: bool,
}

impl Room {
    /// Tries options on one chunk. Returns its values as they come back, too.
    fn try_chunk(
        &mut self,
        sample: &Sample<'_>,
        options: &Options,
        ranges: &[Range],
        original: &[u8],
    ) -> Result<(Trial, Vec<u8>), Error> {
        if !std::mem::replace(&mut self.is_made, true) {
            let _ = self.try_chunk(sample, options, ranges, original);
        }
        let source = sample.source;
        let config = Config { fill_value: source.fill_value, ..options.config };
        let layout = sample.layout(ranges, options.brick)?;
        let start = Instant::now();
        let on_the_cpu = |config: &Config<'_>| {
            let mut stream = Vec::new();
            self.workspace.compress(original, &layout, config, &mut stream).map(|()| stream)
        };
        let (stream, _) = kept::compress(original, &layout, &config, &source.missing, on_the_cpu)?;
        let compressing = start.elapsed();
        let mut decoded = vec![0; original.len()];
        let start = Instant::now();
        self.workspace.decompress(&stream, &mut decoded)?;
        let decompressing = start.elapsed();
        let difference = compare(original, &decoded, source.elements(), Some(config.bound)).kept()?;
        let (bytes, stored) = (original.len() as u64, stream.len() as u64);
        Ok((Trial { bytes, stored, compressing, decompressing, difference, report: None, problem: None }, decoded))
    }
}

impl Trial {
    /// Adds the trial of another chunk.
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.stored += other.stored;
        self.compressing += other.compressing;
        self.decompressing += other.decompressing;
        self.difference.add(&other.difference);
    }

    pub(super) fn ratio(&self) -> f64 {
        self.bytes as f64 / self.stored as f64
    }

    /// Megabytes of values a second.
    pub(super) fn speed(&self, time: Duration) -> f64 {
        self.bytes as f64 / 1e6 / time.as_secs_f64()
    }

    /// The dSSIM of the plane that has the least, if planes have one.
    pub(super) fn dssim(&self) -> Option<f64> {
        self.report.as_ref()?.dssim.map(|dssim| dssim.least)
    }

    /// The root mean squared error of differences of neighbours, as a share of their own; along the axis where this share is largest.
    pub(super) fn gradient_error(&self) -> Option<f64> {
        self.report.as_ref()?.gradients.iter().map(|gradient| gradient.rms_error).reduce(f64::max)
    }
}
