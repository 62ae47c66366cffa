//! Everything of a file made anew in another: first all objects, in the order of their links; then attributes and values that may refer to them; then the chunks.

use std::collections::{HashMap, HashSet};

use hdf5::plist::link_create::CharEncoding;
use hdf5::{Dataset, Datatype, File, Group, IndexType, IterationOrder, LinkType, Location, LocationType};
use indicatif::ProgressBar;

use super::plan::{Plan, Task};
use crate::datasets::{Token, block_of, links, token, written_boxes};
use crate::library::objects::{self, Target, link_properties};
use crate::library::values::{Values, create_attribute, is_plain, transient};

/// Copies all of a file, with the datasets of the plan compressed. Notes come back on what could not be kept.
///
/// # Errors
/// With the path and the reason.
pub(super) fn copy(from: &File, to: &File, plan: &Plan, bar: &ProgressBar) -> Result<Vec<String>, String> {
    let root = |file: &File| file.group("/").map_err(|error| error.to_string());
    let (from_root, to_root) = (root(from)?, root(to)?);
    let mut copier = Copier {
        from,
        to,
        plan,
        made: HashMap::new(),
        types: HashMap::new(),
        pairs: Vec::new(),
        valued: Vec::new(),
        tasks: Vec::new(),
    };
    let staging = copier.stage_types(&from_root, &to_root)?;
    copier.made.insert(token(&from_root)?, "/".to_owned());
    copier.pairs.push(((*from_root).clone(), (*to_root).clone(), "/".to_owned()));
    copier.group(&from_root, &to_root, "")?;
    let notes = copier.attributes_and_references()?;
    if let Some(staging) = staging {
        objects::unlink(&to_root, &staging)?;
    }
    for (number, dataset) in &copier.tasks {
        bar.set_message(format!("writing {}", plan.tasks[*number].path));
        chunks(&plan.tasks[*number], dataset, bar)?;
    }
    Ok(notes)
}

/// Writes a dataset, each chunk once and as a whole: a bound that follows the chunk would be another one for a part of it.
fn chunks(task: &Task, dataset: &Dataset, bar: &ProgressBar) -> Result<(), String> {
    let mut bytes = Vec::new();
    for ranges in &task.boxes {
        let failed = |error: String| format!("{}: {error}", task.path);
        task.source.numbers.read(&task.source.dataset, ranges, &mut bytes).map_err(failed)?;
        task.source.numbers.write(dataset, ranges, &bytes).map_err(failed)?;
        bar.inc(bytes.len() as u64);
    }
    dataset.flush().map_err(|error| format!("{}: {error}", task.path))
}

struct Copier<'a> {
    from: &'a File,
    to: &'a File,
    plan: &'a Plan,
    /// The path, in the new file, of each object that has one.
    made: HashMap<Token, String>,
    /// Where committed datatypes wait for their links.
    types: HashMap<Token, String>,
    /// Every object in both files, and its path: for the attributes.
    pairs: Vec<(Location, Location, String)>,
    /// Datasets of values that are more than their bytes, such as references and texts.
    valued: Vec<(Dataset, Dataset, String)>,
    /// Datasets to be compressed, by their number in the plan.
    tasks: Vec<(usize, Dataset)>,
}

impl Copier<'_> {
    /// Copies committed datatypes into a group of their own, whose name comes back: a dataset or an attribute may need one before its link's turn comes.
    fn stage_types(&mut self, from: &Group, to: &Group) -> Result<Option<String>, String> {
        let mut found = Vec::new();
        committed_types(from, &mut HashSet::new(), &mut found)?;
        if found.is_empty() {
            return Ok(None);
        }
        let mut name = ".quire-types".to_owned();
        while from.link_exists(&name) {
            name.push('-');
        }
        let link = link_properties(CharEncoding::Ascii)?;
        let group = to.create_group(&name).map_err(|error| error.to_string())?;
        for (number, (token, datatype)) in found.into_iter().enumerate() {
            objects::copy(&datatype, &group, &number.to_string(), &link, None)?;
            self.types.insert(token, format!("/{name}/{number}"));
        }
        Ok(Some(name))
    }

    /// Makes what a group holds.
    fn group(&mut self, from: &Group, to: &Group, path: &str) -> Result<(), String> {
        for (name, info) in links(from).map_err(|error| format!("{path}/: {error}"))? {
            let path = format!("{path}/{name}");
            let failed = |error: String| format!("{path}: {error}");
            let link = link_properties(info.char_encoding).map_err(failed)?;
            if info.link_type == LinkType::Hard {
                let object = from.loc_info_by_name(&name).and_then(|info| Ok((info.loc_type, from.open_by_token(info.token)?)));
                let (kind, object) = object.map_err(|error| format!("{path}: {error}"))?;
                let key = token(&object).map_err(failed)?;
                match self.made.get(&key) {
                    Some(first) => objects::link_again(to, first, &name, &link).map_err(failed)?,
                    None => {
                        self.made.insert(key.clone(), path.clone());
                        self.object(
                            &Object { kind, from: object, token: key, parent: from, name: &name, path: &path },
                            to,
                            &link,
                        )?;
                    }
                }
            } else {
                Target::of(from, &name).and_then(|target| target.link(to, &name, &link)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Makes an object that is met for the first time.
    fn object(&mut self, object: &Object<'_>, to: &Group, link: &hdf5::plist::LinkCreate) -> Result<(), String> {
        let &Object { kind, ref from, ref token, parent, name, path } = object;
        let refused = |error: String| format!("{path}: {error}");
        let failed = |error: hdf5::Error| format!("{path}: {error}");
        let mut below = None;
        match kind {
            LocationType::Group => {
                let group = parent.group(name).map_err(failed)?;
                let made = objects::create_group(to, name, link, &group).map_err(refused)?;
                below = Some((group, made));
            }
            LocationType::Dataset => self.dataset(&parent.dataset(name).map_err(failed)?, object, to, link).map_err(refused)?,
            LocationType::NamedDatatype => {
                let staged = self.types.get(token).ok_or_else(|| format!("{path}: this datatype was not there a moment ago"))?;
                objects::link_again(to, staged, name, link).map_err(refused)?;
            }
            #[allow(unreachable_patterns, reason = "HDF5 1.12 has one kind more")]
            _ => return Err(format!("{path}: it is neither a group nor a dataset nor a datatype, and cannot be copied")),
        }
        let made = to.loc_info_by_name(name).and_then(|info| to.open_by_token(info.token)).map_err(failed)?;
        self.pairs.push((from.clone(), made, path.to_owned()));
        match below {
            Some((group, made)) => self.group(&group, &made, path),
            None => Ok(()),
        }
    }

    fn dataset(
        &mut self,
        dataset: &Dataset,
        object: &Object<'_>,
        to: &Group,
        link: &hdf5::plist::LinkCreate,
    ) -> Result<(), String> {
        let failed = |error: hdf5::Error| error.to_string();
        let datatype = dataset.dtype().map_err(failed)?;
        let task = self.plan.by_token.get(&object.token).copied();
        // HDF5 copies other values as well, but makes references null, and loses fill values of variable length (seen with 1.10.8).
        if task.is_none() && is_plain(&datatype)? {
            return objects::copy(&object.from, to, object.name, link, self.staged(&datatype)?.as_deref());
        }
        let (space, properties) = (dataset.space().map_err(failed)?, dataset.dcpl().map_err(failed)?);
        if let Some(task) = task {
            let Task { chunk, words, .. } = &self.plan.tasks[task];
            objects::compress(&properties, chunk, words)?;
        }
        let made = objects::create_dataset(to, object.name, link, &self.datatype(&datatype)?, &space, &properties)?;
        match task {
            Some(task) => self.tasks.push((task, made)),
            None => self.valued.push((dataset.clone(), made, object.path.to_owned())),
        }
        Ok(())
    }

    /// The path of a committed datatype's copy.
    fn staged(&self, datatype: &Datatype) -> Result<Option<String>, String> {
        if !objects::is_committed(datatype) {
            return Ok(None);
        }
        Ok(self.types.get(&token_of_type(datatype)?).cloned())
    }

    /// The same datatype for the new file: a committed one that has no path becomes one that is not.
    fn datatype(&self, datatype: &Datatype) -> Result<Datatype, String> {
        match self.staged(datatype)? {
            Some(path) => objects::open_datatype(self.to, &path),
            None => transient(datatype),
        }
    }

    /// Gives all objects their attributes, and datasets their values, where these are more than bytes. Notes come back on references that lead nowhere.
    fn attributes_and_references(&self) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for (from, to, path) in &self.pairs {
            objects::copy_comment(from, to).map_err(|error| format!("{path}: {error}"))?;
            for name in attribute_names(from).map_err(|error| format!("{path}: {error}"))? {
                let place = format!("{path}, attribute {name:?}");
                let gone = self.attribute(from, to, &name).map_err(|error| format!("{place}: {error}"))?;
                notes.extend(note(gone, &place));
            }
        }
        for (from, to, path) in &self.valued {
            let gone = self.values(from, to).map_err(|error| format!("{path}: {error}"))?;
            notes.extend(note(gone, path));
        }
        Ok(notes)
    }

    /// Copies an attribute; how many of its references lead nowhere comes back.
    fn attribute(&self, from: &Location, to: &Location, name: &str) -> Result<usize, String> {
        let attribute = from.attr(name).map_err(|error| error.to_string())?;
        let datatype = attribute.dtype().map_err(|error| error.to_string())?;
        let made = create_attribute(&attribute, name, &self.datatype(&datatype)?, to)?;
        let mut values = Values::of_attribute(&attribute)?;
        let gone = self.translate(&mut values)?;
        values.write_attribute(&made)?;
        Ok(gone)
    }

    /// Copies the values of a dataset.
    fn values(&self, from: &Dataset, to: &Dataset) -> Result<usize, String> {
        let block = from.chunk().unwrap_or_else(|| block_of(&from.shape()));
        written_boxes(from, &block)?.into_iter().try_fold(0, |gone, ranges| {
            let mut values = Values::of_box(from, &ranges)?;
            let more = self.translate(&mut values)?;
            values.write_box(to, &ranges)?;
            Ok(gone + more)
        })
    }

    fn translate(&self, values: &mut Values) -> Result<usize, String> {
        values.translate(self.from, self.to, |object| self.made.get(&token(object).ok()?).cloned())
    }
}

/// An object that a hard link leads to.
struct Object<'a> {
    kind: LocationType,
    from: Location,
    token: Token,
    parent: &'a Group,
    name: &'a str,
    path: &'a str,
}

fn note(gone: usize, place: &str) -> Option<String> {
    (gone > 0).then(|| format!("{place}: {gone} references lead to nothing that the file has, and are null in the copy"))
}

/// Names of attributes, in the order in which they were made if the object knows it, and else by name.
///
/// # Errors
/// HDF5's.
pub(super) fn attribute_names(object: &Location) -> Result<Vec<String>, String> {
    let index = if objects::knows_order_of_attributes(object)? { IndexType::CreationOrder } else { IndexType::Name };
    object.attr_names_by(index, IterationOrder::Increasing).map_err(|error| error.to_string())
}

/// The place of a committed datatype.
fn token_of_type(datatype: &Datatype) -> Result<Token, String> {
    let committed = hdf5::datatype::CommittedDatatype::try_from(datatype.clone()).map_err(|error| error.to_string())?;
    token(&committed)
}

/// Committed datatypes that hard links lead to, each once.
fn committed_types(group: &Group, met: &mut HashSet<Token>, found: &mut Vec<(Token, Location)>) -> Result<(), String> {
    let failed = |error: hdf5::Error| error.to_string();
    if !met.insert(token(group)?) {
        return Ok(());
    }
    for (name, _) in links(group).map_err(failed)?.into_iter().filter(|(_, info)| info.link_type == LinkType::Hard) {
        let info = group.loc_info_by_name(&name).map_err(failed)?;
        match info.loc_type {
            LocationType::Group => committed_types(&group.group(&name).map_err(failed)?, met, found)?,
            LocationType::NamedDatatype => {
                let datatype = group.open_by_token(info.token).map_err(failed)?;
                let key = token(&datatype)?;
                if met.insert(key.clone()) {
                    found.push((key, datatype));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
