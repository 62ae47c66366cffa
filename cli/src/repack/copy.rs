//! Copies a file: first all objects, in the order of their links; then attributes and values, which may refer to them; then the compressed chunks, each once and
//! as a whole. A chunk that is written twice would be rounded twice.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};
use hdf5::plist::LinkCreate;
use hdf5::{CommittedDatatype, Dataset, Datatype, File, Location};
use indicatif::ProgressBar;
use quire_codec::AdaptPolicy;

use super::plan::{Plan, Task};
use crate::boxes::{self, block_of, copy_common};
use crate::datasets::written_boxes;
use crate::kept;
use crate::library::chunks;
use crate::library::links::{
    Link, ObjectKind, Token, Tree, attribute_names, copy_comment, open_attribute, open_dataset, open_group, open_object, token,
};
use crate::library::objects;
use crate::library::values::{Values, create_attribute, is_plain, transient};
use crate::names::Name;
use crate::slabs::{ReadChunk, each_chunk};

/// What became of a copy.
pub(super) struct Copied {
    /// Notes on everything that could not be kept.
    pub(super) notes: Vec<String>,
    /// Stored bytes of each dataset of the plan.
    pub(super) stored: Vec<u64>,
}

/// Copies a file and compresses the datasets of the plan.
///
/// # Errors
/// With the path and the reason.
pub(super) fn copy(from: &File, to: &File, plan: &Plan, jobs: usize, bar: &ProgressBar) -> Result<Copied> {
    let tree = Tree::below(from, &Name::default())?;
    let by_token = plan.by_token();
    let mut copier = Copier { from, to, tree: &tree, by_token, types: HashMap::new(), valued: Vec::new(), tasks: Vec::new() };
    let staging = copier.stage_types()?;
    for link in &tree.links {
        copier.link(link).with_context(|| link.path.clone())?;
    }
    let mut notes = copier.attributes_and_references()?;
    if let Some(staging) = staging {
        to.unlink(&staging)?;
    }
    let tasks = copier.tasks;
    ensure!(tasks.len() == plan.tasks.len(), "datasets are gone: let no program write to the file while it is copied");
    for ((task, _), exact) in tasks.iter().zip(write_chunks(&tasks, jobs, bar)?) {
        if exact > 0 {
            let (path, all) = (&task.path, task.boxes.len());
            notes.push(format!(
                "{path}: {exact} of {all} chunks keep the exact bits of all values, to keep those of several missing values"
            ));
        }
    }
    let stored = tasks.iter().map(|(_, dataset)| dataset.storage_size()).collect();
    Ok(Copied { notes, stored })
}

struct Copier<'a> {
    from: &'a File,
    to: &'a File,
    tree: &'a Tree,
    by_token: HashMap<Token, &'a Task>,
    /// Temporary path of each committed datatype.
    types: HashMap<Token, Name>,
    /// Datasets with values that hold references or pointers, such as strings.
    valued: Vec<(Dataset, Dataset, &'a Name)>,
    /// Datasets to be compressed, in the plan's order, which is that of the links.
    tasks: Vec<(&'a Task, Dataset)>,
}

impl<'a> Copier<'a> {
    /// Copies committed datatypes into a temporary group and returns its path. A dataset or attribute may need a datatype before its link is copied.
    fn stage_types(&mut self) -> Result<Option<String>> {
        let types: Vec<_> = self.tree.objects().filter(|&(_, kind, _)| kind == ObjectKind::Datatype).collect();
        if types.is_empty() {
            return Ok(None);
        }
        let mut name = "/.quire-types".to_owned();
        while self.from.link_exists(&name) {
            name.push('-');
        }
        let link = LinkCreate::try_new()?;
        self.to.create_group(&name)?;
        for (number, (path, _, token)) in types.into_iter().enumerate() {
            let staged = Name::new(format!("{name}/{number}"));
            objects::copy(&open_object(self.from, path)?, self.to, &staged, &link, None)?;
            self.types.insert(token, staged);
        }
        Ok(Some(name))
    }

    /// Creates a link, and the object that it leads to if this is the first link to it.
    fn link(&mut self, link: &'a Link) -> Result<()> {
        let properties = &LinkCreate::build().char_encoding(link.encoding).finish()?;
        let (from, to, path) = (self.from, self.to, &link.path);
        let Some((kind, token)) = link.object else { return objects::copy_link(link, from, to, properties) };
        let first = &self.tree.paths[&token];
        if first != path {
            return objects::link_again(to, first, path, properties);
        }
        match kind {
            ObjectKind::Group => {
                objects::create_group(to, path, properties, &open_group(from, path.as_c())?)?;
                Ok(())
            }
            ObjectKind::Dataset => self.dataset(path, token, properties),
            ObjectKind::Datatype => objects::link_again(to, &self.types[&token], path, properties),
            ObjectKind::Other => bail!("it is neither a group nor a dataset nor a datatype, and cannot be copied"),
        }
    }

    /// Creates a dataset.
    fn dataset(&mut self, path: &'a Name, token: Token, link: &LinkCreate) -> Result<()> {
        let dataset = open_dataset(self.from, path, None)?;
        let datatype = dataset.dtype()?;
        let task = self.by_token.get(&token).copied();
        // HDF5 copies other values as well, but makes references null, and loses fill values of variable length (seen with 1.10.8).
        if task.is_none() && is_plain(&datatype)? {
            return objects::copy(&dataset, self.to, path, link, self.staged(&datatype)?);
        }
        let (space, properties) = (dataset.space()?, dataset.dcpl()?);
        if let Some(Task { chunk, words, .. }) = task {
            objects::compress(&properties, chunk, words)?;
        }
        let made = objects::create_dataset(self.to, path, link, &self.datatype(&datatype)?, &space, &properties)?;
        match task {
            Some(task) => self.tasks.push((task, made)),
            None => self.valued.push((dataset, made, path)),
        }
        Ok(())
    }

    /// The path of a committed datatype's copy.
    fn staged(&self, datatype: &Datatype) -> Result<Option<&Name>> {
        match CommittedDatatype::try_from(datatype.clone()) {
            Ok(committed) => Ok(self.types.get(&token(&committed)?)),
            Err(_) => Ok(None),
        }
    }

    /// The same datatype for the new file: a committed one that has no path becomes one that is not.
    fn datatype(&self, datatype: &Datatype) -> Result<Datatype> {
        match self.staged(datatype)? {
            Some(path) => Ok(open_object(self.to, path)?.as_datatype()?),
            None => transient(datatype),
        }
    }

    /// Gives all objects their attributes, and datasets their values, where these are more than bytes. Notes come back on references that lead nowhere.
    fn attributes_and_references(&self) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let root = Name::from("/");
        for path in std::iter::once(&root).chain(self.tree.objects().map(|(path, ..)| path)) {
            let attributes = || {
                let (from, to) = (open_object(self.from, path)?, open_object(self.to, path)?);
                copy_comment(&from, &to)?;
                attribute_names(&from).map(|names| (from, to, names))
            };
            let (from, to, names) = attributes().with_context(|| path.clone())?;
            for name in names {
                let location = format!("{path}, attribute {name:?}");
                notes.extend(note(self.attribute(&from, &to, &name), &location)?);
            }
        }
        for (from, to, path) in &self.valued {
            notes.extend(note(self.values(from, to), &path.to_string())?);
        }
        Ok(notes)
    }

    /// Copies an attribute; how many of its references lead nowhere comes back.
    fn attribute(&self, from: &Location, to: &Location, name: &Name) -> Result<usize> {
        let attribute = open_attribute(from, name)?;
        let made = create_attribute(&attribute, name, &self.datatype(&attribute.dtype()?)?, to)?;
        let mut values = Values::of_attribute(&attribute)?;
        let gone = self.translate(&mut values)?;
        values.write_attribute(&made)?;
        Ok(gone)
    }

    /// Copies the values of a dataset; how many of its references lead nowhere comes back.
    fn values(&self, from: &Dataset, to: &Dataset) -> Result<usize> {
        let block = from.chunk().unwrap_or_else(|| block_of(&from.shape()));
        written_boxes(from, &block)?.into_iter().try_fold(0, |gone, ranges| {
            let mut values = Values::of_box(from, &ranges)?;
            let more = self.translate(&mut values)?;
            values.write_box(to, &ranges)?;
            Ok(gone + more)
        })
    }

    fn translate(&self, values: &mut Values) -> Result<usize> {
        values.translate(self.from, self.to, |object| self.tree.paths.get(&token(object).ok()?).cloned())
    }
}

/// A note on references that lead nowhere, if there are any, of which this is the number.
fn note(gone: Result<usize>, location: &str) -> Result<Option<String>> {
    let gone = gone.with_context(|| location.to_owned())?;
    Ok((gone > 0).then(|| format!("{location}: {gone} references lead to nothing that the file has, and are null in the copy")))
}

/// Writes the chunks of datasets on `jobs` threads: the calling thread reads them and writes streams, others compress in between. Returns for each dataset the
/// number of chunks that keep the exact bits for the sake of missing values.
///
/// # Errors
/// HDF5's and the filter's, with the dataset's path.
fn write_chunks(tasks: &[(&Task, Dataset)], jobs: usize, bar: &ProgressBar) -> Result<Vec<usize>> {
    // With a history each chunk depends on those that its thread has compressed before.
    let jobs = if tasks.iter().any(|(task, _)| task.config.adapt == AdaptPolicy::History) { 1 } else { jobs };
    let mut exact = vec![0; tasks.len()];
    each_chunk(
        jobs,
        tasks.iter().map(|(task, _)| task.chunks()),
        |_, _| Ok(()),
        |buffer: &mut Vec<u8>, number, read, ()| stream(tasks[number].0, buffer, read),
        |number, read, stream| {
            let (task, dataset) = &tasks[number];
            let written = stream.and_then(|(stream, is_exact)| {
                exact[number] += usize::from(is_exact);
                chunks::write(dataset, &boxes::corner(&read.ranges), &stream)
            });
            bar.set_message(format!("writing {}", task.path));
            bar.inc((boxes::values(&read.ranges) * task.layout.scalar.element_size()) as u64);
            written.with_context(|| task.path.clone())
        },
    )?;
    Ok(exact)
}

/// The stream of a chunk, and whether it keeps the exact bits for the sake of missing values, which the filter does not know.
fn stream(task: &Task, buffer: &mut Vec<u8>, read: &ReadChunk) -> Result<(Vec<u8>, bool)> {
    let Task { source, chunk, config, layout, .. } = task;
    let mut values = read.values(buffer);
    let whole = boxes::with_extents(&read.ranges, chunk);
    let mut padded;
    if read.ranges != whole {
        // What lies beyond the dataset's extents has the fill value, as HDF5 does it.
        padded = source.filling.repeat(boxes::values(&whole));
        copy_common(&read.ranges, values, &whole, &mut padded);
        values = &padded;
    }
    Ok(kept::compress(values, layout, config, &source.missing, |config| h5zquire::compress(values, layout, config))?)
}
