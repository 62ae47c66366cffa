//! Which datasets are compressed, and how; which are not, and why.

use std::collections::HashMap;
use std::path::Path;

use h5zquire::cd_values;
use quire_codec::options::{self, Options};
use quire_codec::{Config, ErrorBound, Layout};

use super::Arguments;
use super::selection::{Selection, Setting};
use crate::advice::{SMALL_CHUNK, SmallChunks, TINY_CHUNK};
use crate::arguments::{Shape, shape_text};
use crate::compare::Kind;
use crate::datasets::{Named, Source, block_of, find_in, written_boxes};
use crate::library::links::Token;
use crate::library::message;
use crate::names::Name;
use crate::skipped::Skipped;
use crate::slabs::{ChunkReader, ReadChunk};

/// The datasets of a file to compress, and the skipped ones.
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Index into `tasks` by the dataset's address.
    pub(super) by_token: HashMap<Token, usize>,
    /// Paths of the skipped datasets, with the reason.
    pub(super) skipped: Skipped,
}

/// A dataset to be compressed.
pub(super) struct Task {
    pub(super) path: Name,
    pub(super) source: Source,
    pub(super) options: String,
    pub(super) config: Config<'static>,
    pub(super) words: Vec<u32>,
    /// Of one of its new chunks.
    pub(super) layout: Layout,
    /// Its new chunks, which may reach beyond its extents.
    pub(super) chunk: Vec<usize>,
    /// What the user should know of this choice.
    pub(super) note: Option<String>,
    /// Chunks with written values. All others hold only the fill value.
    pub(super) boxes: Vec<Vec<(usize, usize)>>,
    /// Whether the user has named the dataset itself, and not a group or a pattern.
    is_named: bool,
}

impl Task {
    /// Bytes of the values that are written.
    pub(super) fn bytes_written(&self) -> u64 {
        let values = |ranges: &Vec<(usize, usize)>| ranges.iter().map(|&(_, count)| count as u64).product::<u64>();
        self.boxes.iter().map(values).sum::<u64>() * self.source.numbers.scalar.element_size() as u64
    }

    /// Whether attributes name missing values that are not the fill value, under a bound that could round them.
    pub(super) fn has_unknown_missing_values(&self) -> bool {
        !self.source.missing.is_empty() && self.config.bound != ErrorBound::Lossless
    }

    /// For comparing its values with those of the copy.
    pub(super) fn kind(&self) -> Kind<'_> {
        self.source.kind()
    }
}

impl Plan {
    /// Looks at all datasets of a file. `given` is the bound of datasets to which `--set` gives none.
    ///
    /// # Errors
    /// If the file cannot be read, or an argument matches no dataset.
    pub(super) fn new(input: &Path, arguments: &Arguments, given: Option<&str>) -> Result<Self, String> {
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
        let mut plan = Self { tasks: Vec::new(), by_token: HashMap::new(), skipped: Skipped::default() };
        let mut ranks = Vec::new();
        for named in datasets {
            // It could not be compared with its copy either.
            let dataset = named.dataset.as_ref().map_err(|reason| format!("{}: {reason}", named.name))?;
            ranks.push(dataset.ndim());
            let (path, token) = (named.path.clone(), named.token);
            match rules.task(named) {
                Ok(task) => {
                    plan.by_token.insert(token, plan.tasks.len());
                    plan.tasks.push(task);
                }
                Err(reason) => plan.skipped.0.push((path, reason)),
            }
        }
        match arguments.chunks.iter().find(|Shape(sides)| !ranks.contains(&sides.len())) {
            Some(Shape(sides)) => Err(format!("chunks of {sides:?} have {} axes, which no dataset of {name} has", sides.len())),
            None => Ok(plan),
        }
    }

    /// Takes out the datasets that need more bytes compressed (`stored`, one number a task) than they have now, unless the user has named them. Returns
    /// whether there were any.
    pub(super) fn leave_out_grown(&mut self, stored: &[u64]) -> bool {
        let is_grown: Vec<bool> = self
            .tasks
            .iter()
            .zip(stored)
            .map(|(task, &stored)| stored > task.source.dataset.storage_size() && !task.is_named)
            .collect();
        let index_after = |index: usize| index - is_grown[..index].iter().filter(|grown| **grown).count();
        self.by_token.retain(|_, index| !is_grown[*index]);
        self.by_token.values_mut().for_each(|index| *index = index_after(*index));
        let mut grown = is_grown.iter();
        for task in self.tasks.extract_if(.., |_| grown.next().is_some_and(|grown| *grown)) {
            let reason = "compressed it would take more bytes than it has: give a larger bound or larger chunks, or name it to compress it";
            self.skipped.0.push((task.path, reason.to_owned()));
        }
        is_grown.contains(&true)
    }
}

/// Reads the chunks of many datasets, dataset after dataset: threads that work on them need not wait for the end of each dataset.
pub(super) struct TaskReader<'a> {
    tasks: std::iter::Enumerate<std::vec::IntoIter<&'a Task>>,
    current: Option<(usize, &'a Name, ChunkReader<'a>)>,
}

impl<'a> TaskReader<'a> {
    pub(super) fn new(tasks: Vec<&'a Task>) -> Self {
        Self { tasks: tasks.into_iter().enumerate(), current: None }
    }

    /// The next chunk, and the index of its task.
    ///
    /// # Errors
    /// HDF5's, with the dataset's path.
    pub(super) fn next(&mut self) -> Result<Option<(usize, ReadChunk)>, String> {
        loop {
            if let Some((index, path, reader)) = &mut self.current
                && let Some(chunk) = reader.next().map_err(|error| format!("{path}: {error}"))?
            {
                return Ok(Some((*index, chunk)));
            }
            let Some((index, task)) = self.tasks.next() else { return Ok(None) };
            self.current = Some((index, &task.path, ChunkReader::new(&task.source, &task.chunk, &task.boxes)));
        }
    }

    /// Takes a chunk back that is done, for its memory.
    pub(super) fn give_back(&mut self, chunk: ReadChunk) {
        if let Some((_, _, reader)) = &mut self.current {
            reader.give_back(chunk);
        }
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
    /// The task for a dataset, or the reason why it is skipped.
    fn task(&self, named: Named) -> Result<Task, String> {
        let Self { arguments, only, .. } = self;
        let (path, token) = (named.path.clone(), named.token);
        if !arguments.only.is_empty() && !only.all.contains(&token) {
            return Err("--only does not name it".to_owned());
        }
        // Of several settings for a dataset the last one holds.
        let setting = self.settings.iter().rfind(|(selection, _)| selection.all.contains(&token));
        let (given, is_set) = match setting {
            Some((_, Setting { options: None, .. })) => return Err("--set leaves it alone".to_owned()),
            Some((selection, Setting { options: Some(options), .. })) => (options.as_str(), selection.named.contains(&token)),
            None => (self.given.ok_or("no bound is given")?, false),
        };
        let is_named = is_set || only.named.contains(&token);
        let source = arguments.choice.source(named, is_named)?;
        let Options { config: given, brick } = options::parse(given).map_err(message)?;
        // A bound that is set for one dataset is meant for its integers, too, but not for names.
        let config = if is_set && !source.numbers.is_enumeration { given } else { arguments.choice.config(given, &source) };
        let (chunk, note) = self.chunk(&source, brick.is_some())?;
        let boxes = written_boxes(&source.dataset, &chunk)?;
        let options = options::format(&Options { config, brick });
        let words = cd_values::from_options(&options).map_err(message)?;
        let config = Config { fill_value: source.fill_value, ..config };
        let dims: Vec<u64> = chunk.iter().map(|&side| side as u64).collect();
        let layout = Layout::of_chunk(source.numbers.scalar, source.numbers.byte_order, &dims)
            .and_then(|layout| layout.in_bricks(brick))
            .map_err(message)?;
        quire_codec::check_bound(&layout, &config).map_err(message)?;
        Ok(Task { path, source, options, config, words, layout, chunk, note, boxes, is_named })
    }

    /// The chunks of the copy, and what the user should know of them: the chunks that the user wants, else the dataset's own, unless these are too small to
    /// compress. Where they hold bricks, small ones may be the best.
    fn chunk(&self, source: &Source, hold_bricks: bool) -> Result<(Vec<usize>, Option<String>), String> {
        let extents = &source.extents;
        if let Some(Shape(sides)) = self.arguments.chunks.iter().find(|Shape(sides)| sides.len() == extents.len()) {
            // HDF5 refuses chunks longer than an axis that cannot grow.
            let maxima = source.dataset.space().map_err(message)?.maxdims();
            let limits = maxima.iter().zip(extents).map(|(most, extent)| most.map_or(usize::MAX, |most| most.max(*extent)));
            return Ok((sides.iter().zip(limits).map(|(&side, most)| side.min(most)).collect(), None));
        }
        let Some(own) = source.chunk.clone() else { return Ok((block_of(extents), None)) };
        let small = |limit: u64| SmallChunks::of(&own, extents, source.numbers.scalar.element_size(), limit);
        Ok(match small(TINY_CHUNK) {
            Some(small) => {
                let note = format!(
                    "its chunks of {} are too small to compress: the copy has {}",
                    shape_text(&own),
                    shape_text(&small.better)
                );
                (small.better, Some(note))
            }
            None => {
                let note =
                    small(SMALL_CHUNK).filter(|_| !hold_bricks).map(|small| format!("{small}: --chunks gives the copy others"));
                (own, note)
            }
        })
    }
}
