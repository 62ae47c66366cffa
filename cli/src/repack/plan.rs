//! Which datasets are compressed, and how; which are not, and why.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use h5zquire::cd_values;
use quire_codec::options::{self, Options};
use quire_codec::{Config, ErrorBound, Layout};

use super::Arguments;
use super::selection::{Selection, Setting};
use crate::arguments::{Shape, shape_text};
use crate::boxes::{self, Range, block_of};
use crate::datasets::{Named, Source, find_in, written_boxes};
use crate::library::links::Token;
use crate::names::Name;
use crate::output::Skipped;
use crate::slabs::Chunks;
use crate::small_chunks::{SMALL_CHUNK, SmallChunks, TINY_CHUNK};

/// The datasets of a file to compress, in the order of their links, and the skipped datasets.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Paths of the skipped datasets, with the reason.
    pub(super) skipped: Skipped,
}

/// A dataset to be compressed.
pub(super) struct Task {
    pub(super) path: Name,
    pub(super) token: Token,
    pub(super) source: Source,
    pub(super) options: String,
    pub(super) config: Config<'static>,
    pub(super) words: Vec<u32>,
    /// The layout of one of its new chunks.
    pub(super) layout: Layout,
    /// Its new chunks, which may reach beyond its extents.
    pub(super) chunk: Vec<usize>,
    /// What the user should know of this choice.
    pub(super) note: Option<String>,
    /// Chunks with written values. All others hold only the fill value.
    pub(super) boxes: Vec<Vec<Range>>,
    /// Whether the user has named the dataset itself, and not a group or a pattern.
    is_named: bool,
}

impl Task {
    /// Bytes of the values that are written.
    pub(super) fn bytes_written(&self) -> u64 {
        let values: u64 = self.boxes.iter().map(|ranges| boxes::values(ranges) as u64).sum();
        values * self.source.numbers.scalar.element_size() as u64
    }

    /// Whether attributes name missing values that are not the fill value, under a bound that could round them.
    pub(super) fn has_unknown_missing_values(&self) -> bool {
        !self.source.missing.is_empty() && self.config.bound != ErrorBound::Lossless
    }

    /// The chunks that are written.
    pub(super) fn chunks(&self) -> Chunks<'_> {
        Chunks { name: &self.path, source: &self.source, shape: &self.chunk, boxes: &self.boxes }
    }
}

impl Plan {
    /// Looks at all datasets of a file. `given` is the bound of datasets to which `--set` gives none.
    ///
    /// # Errors
    /// If the file cannot be read, or an argument matches no dataset.
    pub(super) fn new(input: &Path, arguments: &Arguments, given: Option<&str>) -> Result<Self> {
        let name = Name::from(input);
        let datasets = find_in(input, &"/".into(), &name)?;
        let select = |paths: &[&std::ffi::OsStr]| {
            let mut selection = Selection::default();
            paths.iter().try_for_each(|path| selection.add(path, input, &datasets)).map(|()| selection)
        };
        let only = select(&arguments.only.iter().map(|path| &**path).collect::<Vec<_>>())?;
        let mut rules = Rules { arguments, only, settings: Vec::new(), given };
        for setting in &arguments.settings {
            rules.settings.push((select(&[&setting.path])?, setting));
        }
        let mut plan = Self::default();
        let mut ranks = Vec::new();
        for named in datasets {
            // It could not be compared with its copy either.
            let dataset = named.dataset.as_ref().map_err(|reason| anyhow!("{}: {reason:#}", named.name))?;
            ranks.push(dataset.ndim());
            let path = named.path.clone();
            match rules.task(named) {
                Ok(task) => plan.tasks.push(task),
                Err(reason) => plan.skipped.add(path, &reason),
            }
        }
        match arguments.chunks.iter().find(|Shape(sides)| !ranks.contains(&sides.len())) {
            Some(Shape(sides)) => bail!("chunks of {sides:?} have {} axes, which no dataset of {name} has", sides.len()),
            None => Ok(plan),
        }
    }

    /// The tasks by the addresses of their datasets.
    pub(super) fn by_token(&self) -> HashMap<Token, &Task> {
        self.tasks.iter().map(|task| (task.token, task)).collect()
    }

    /// Takes out the datasets that need more bytes compressed (`stored`, one number a task) than they have now, unless the user has named them. Returns
    /// whether there were any.
    pub(super) fn leave_out_grown(&mut self, stored: &[u64]) -> bool {
        const REASON: &str =
            "compressed it would take more bytes than it has: give a larger bound or larger chunks, or name it to compress it";
        let mut stored = stored.iter();
        let is_grown =
            |task: &mut Task| stored.next().is_some_and(|&stored| stored > task.source.dataset.storage_size() && !task.is_named);
        let grown: Vec<Task> = self.tasks.extract_if(.., is_grown).collect();
        self.skipped.0.extend(grown.iter().map(|task| (task.path.clone(), REASON.to_owned())));
        !grown.is_empty()
    }
}

/// What the arguments say about the datasets of a file.
struct Rules<'a> {
    arguments: &'a Arguments,
    only: Selection,
    settings: Vec<(Selection, &'a Setting)>,
    given: Option<&'a str>,
}

impl Rules<'_> {
    /// The task for a dataset.
    ///
    /// # Errors
    /// Says why the dataset is skipped.
    fn task(&self, named: Named) -> Result<Task> {
        let Self { arguments, only, .. } = self;
        let (path, token) = (named.path.clone(), named.token);
        ensure!(arguments.only.is_empty() || only.all.contains(&token), "--only does not name it");
        // Of several settings for a dataset the last one holds.
        let setting = self.settings.iter().rfind(|(selection, _)| selection.all.contains(&token));
        let (given, is_set) = match setting {
            Some((_, Setting { options: None, .. })) => bail!("--set leaves it alone"),
            Some((selection, Setting { options: Some(options), .. })) => (options.as_str(), selection.named.contains(&token)),
            None => (self.given.context("no bound is given")?, false),
        };
        let is_named = is_set || only.named.contains(&token);
        let source = arguments.choice.source(named, is_named)?;
        let Options { config: given, brick } = options::parse(given)?;
        // A bound that is set for one dataset is meant for its integers, too, but not for names.
        let config = if is_set && !source.numbers.is_enumeration { given } else { arguments.choice.config(given, &source) };
        let (chunk, note) = self.chunk(&source, brick.is_some())?;
        let boxes = written_boxes(&source.dataset, &chunk)?;
        let options = options::format(&Options { config, brick });
        let words = cd_values::from_options(&options)?;
        let config = Config { fill_value: source.fill_value, ..config };
        let layout = source.numbers.layout(&chunk)?.in_bricks(brick)?;
        quire_codec::check_bound(&layout, &config)?;
        Ok(Task { path, token, source, options, config, words, layout, chunk, note, boxes, is_named })
    }

    /// The chunks of the copy, and what the user should know of them: the chunks that the user wants, else the dataset's own, unless these are too small to
    /// compress. Where they hold bricks, small ones may be the best.
    fn chunk(&self, source: &Source, hold_bricks: bool) -> Result<(Vec<usize>, Option<String>)> {
        let extents = &source.extents;
        if let Some(Shape(sides)) = self.arguments.chunks.iter().find(|Shape(sides)| sides.len() == extents.len()) {
            // HDF5 refuses chunks longer than an axis that cannot grow.
            let maxima = source.dataset.space()?.maxdims();
            let limits = maxima.iter().zip(extents).map(|(most, extent)| most.map_or(usize::MAX, |most| most.max(*extent)));
            return Ok((sides.iter().zip(limits).map(|(&side, most)| side.min(most)).collect(), None));
        }
        let Some(own) = source.chunk.clone() else { return Ok((block_of(extents), None)) };
        let small = |limit: u64| SmallChunks::of(&own, extents, source.numbers.scalar.element_size(), limit);
        if let Some(SmallChunks { better, .. }) = small(TINY_CHUNK) {
            let (old, new) = (shape_text(&own), shape_text(&better));
            return Ok((better, Some(format!("its chunks of {old} are too small to compress: the copy has {new}"))));
        }
        let note = small(SMALL_CHUNK).filter(|_| !hold_bricks).map(|small| format!("{small}: --chunks gives the copy others"));
        Ok((own, note))
    }
}
