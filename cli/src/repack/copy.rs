//! Copies a file: first all objects, in the order of their links; then attributes and values, which may refer to them; then the compressed chunks.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};

use hdf5::plist::link_create::CharEncoding;
use hdf5::{Dataset, Datatype, File, Group, Location};
use indicatif::ProgressBar;

use super::plan::{Plan, Task};
use super::values;
use crate::datasets::{block_of, written_boxes};
use crate::library::links::{
    Kind, Link, Token, attribute_names, copy_comment, links, object_by_name, open_attribute, open_dataset, open_group,
    open_object, token,
};
use crate::library::message;
use crate::library::objects::{self, Target, link_properties};
use crate::library::values::{Values, create_attribute, is_plain, transient};
use crate::names::Name;

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
pub(super) fn copy(from: &File, to: &File, plan: &Plan, jobs: usize, bar: &ProgressBar) -> Result<Copied, String> {
    let root = |file: &File| open_group(file, c"/");
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
    copier.made.insert(token(&from_root)?, "/".into());
    copier.pairs.push(((*from_root).clone(), (*to_root).clone(), "/".into()));
    copier.group(&from_root, &to_root, &Name::default())?;
    let mut notes = copier.attributes_and_references()?;
    if let Some(staging) = staging {
        objects::unlink(&to_root, &staging)?;
    }
    let mut stored = vec![0; plan.tasks.len()];
    let tasks: Vec<_> = copier.tasks.iter().map(|(number, dataset)| (&plan.tasks[*number], dataset)).collect();
    let exact = values::write(&tasks, jobs, bar)?;
    for ((number, dataset), exact) in copier.tasks.iter().zip(exact) {
        let task = &plan.tasks[*number];
        if exact > 0 {
            let (path, all) = (&task.path, task.boxes.len());
            notes.push(format!(
                "{path}: {exact} of {all} chunks keep the exact bits of all values, to keep those of several missing values"
            ));
        }
        stored[*number] = dataset.storage_size();
    }
    Ok(Copied { notes, stored })
}

struct Copier<'a> {
    from: &'a File,
    to: &'a File,
    plan: &'a Plan,
    /// The path, in the new file, of each object that has one.
    made: HashMap<Token, Name>,
    /// Temporary path of each committed datatype that is not linked yet.
    types: HashMap<Token, Name>,
    /// Every object in both files, and its path: for the attributes.
    pairs: Vec<(Location, Location, Name)>,
    /// Datasets with values that hold references or pointers, such as strings.
    valued: Vec<(Dataset, Dataset, Name)>,
    /// Datasets to be compressed, by their number in the plan.
    tasks: Vec<(usize, Dataset)>,
}

impl Copier<'_> {
    /// Copies committed datatypes into a temporary group and returns its name. A dataset or attribute may need a datatype before its link is copied.
    fn stage_types(&mut self, from: &Group, to: &Group) -> Result<Option<CString>, String> {
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
        let group = to.create_group(&name).map_err(message)?;
        for (number, (token, datatype)) in found.into_iter().enumerate() {
            let path = Name::new(format!("/{name}/{number}"));
            objects::copy(&datatype, &group, path.as_c(), &link, None)?;
            self.types.insert(token, path);
        }
        Ok(Some(Name::new(name).as_c().to_owned()))
    }

    /// Creates the links and objects of a group.
    fn group(&mut self, from: &Group, to: &Group, path: &Name) -> Result<(), String> {
        for link in links(from).map_err(|error| format!("{path}/: {error}"))? {
            let path = path.below(&link.name);
            self.link(from, to, &link, &path).map_err(|error| about(&path, error))?;
        }
        Ok(())
    }

    /// Creates a link, and the object that it leads to if this is the first link to it.
    fn link(&mut self, from: &Group, to: &Group, link: &Link, path: &Name) -> Result<(), String> {
        let (name, properties) = (&*link.name, link_properties(link.encoding)?);
        if !link.is_hard() {
            return Target::of(from, name)?.link(to, name, &properties);
        }
        let (kind, key) = object_by_name(from, name)?;
        if let Some(first) = self.made.get(&key) {
            return objects::link_again(to, first, name, &properties);
        }
        self.made.insert(key, path.clone());
        let object = Object { kind, from: open_object(from, key)?, token: key, parent: from, name, path };
        self.object(&object, to, &properties)
    }

    /// Creates an object that has not been copied yet.
    fn object(&mut self, object: &Object<'_>, to: &Group, link: &hdf5::plist::LinkCreate) -> Result<(), String> {
        let &Object { kind, ref from, token, parent, name, path } = object;
        let (mut made, mut below) = (None, None);
        match kind {
            Kind::Group => {
                let group = open_group(parent, name)?;
                let copy = objects::create_group(to, name, link, &group)?;
                made = Some((*copy).clone());
                below = Some((group, copy));
            }
            Kind::Dataset => {
                made = self.dataset(&open_dataset(parent, name, None)?, object, to, link)?;
            }
            Kind::Datatype => {
                let staged = self.types.get(&token).ok_or(
                    "the named datatype was not in the file when copying began: let no program write to it while it is copied",
                )?;
                objects::link_again(to, staged, name, link)?;
            }
            Kind::Other => return Err("it is neither a group nor a dataset nor a datatype, and cannot be copied".to_owned()),
        }
        let made = match made {
            Some(made) => made,
            None => open_object(to, object_by_name(to, name)?.1)?,
        };
        self.pairs.push((from.clone(), made, path.clone()));
        match below {
            Some((group, made)) => self.group(&group, &made, path),
            None => Ok(()),
        }
    }

    /// Creates a dataset. Where HDF5 copies it, the copy has to be opened.
    fn dataset(
        &mut self,
        dataset: &Dataset,
        object: &Object<'_>,
        to: &Group,
        link: &hdf5::plist::LinkCreate,
    ) -> Result<Option<Location>, String> {
        let failed = message::<hdf5::Error>;
        let datatype = dataset.dtype().map_err(failed)?;
        let task = self.plan.by_token.get(&object.token).copied();
        // HDF5 copies other values as well, but makes references null, and loses fill values of variable length (seen with 1.10.8).
        if task.is_none() && is_plain(&datatype)? {
            objects::copy(&object.from, to, object.name, link, self.staged(&datatype)?.as_ref())?;
            return Ok(None);
        }
        let (space, properties) = (dataset.space().map_err(failed)?, dataset.dcpl().map_err(failed)?);
        if let Some(task) = task {
            let Task { chunk, words, .. } = &self.plan.tasks[task];
            objects::compress(&properties, chunk, words)?;
        }
        let made = objects::create_dataset(to, object.name, link, &self.datatype(&datatype)?, &space, &properties)?;
        let location = (**made).clone();
        match task {
            Some(task) => self.tasks.push((task, made)),
            None => self.valued.push((dataset.clone(), made, object.path.clone())),
        }
        Ok(Some(location))
    }

    /// The path of a committed datatype's copy.
    fn staged(&self, datatype: &Datatype) -> Result<Option<Name>, String> {
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
            copy_comment(from, to).map_err(|error| format!("{path}: {error}"))?;
            for name in attribute_names(from).map_err(|error| format!("{path}: {error}"))? {
                let location = format!("{path}, attribute {name:?}");
                let gone = self.attribute(from, to, &name).map_err(|error| format!("{location}: {error}"))?;
                notes.extend(note(gone, &location));
            }
        }
        for (from, to, path) in &self.valued {
            let gone = self.values(from, to).map_err(|error| format!("{path}: {error}"))?;
            notes.extend(note(gone, &path.to_string()));
        }
        Ok(notes)
    }

    /// Copies an attribute; how many of its references lead nowhere comes back.
    fn attribute(&self, from: &Location, to: &Location, name: &Name) -> Result<usize, String> {
        let attribute = open_attribute(from, name)?;
        let datatype = attribute.dtype().map_err(message)?;
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
    kind: Kind,
    from: Location,
    token: Token,
    parent: &'a Group,
    name: &'a CStr,
    path: &'a Name,
}

/// Adds a path to an error, unless the error already has the path of an object further down.
fn about(path: &Name, error: String) -> String {
    if error.starts_with('/') { error } else { format!("{path}: {error}") }
}

fn note(gone: usize, location: &str) -> Option<String> {
    (gone > 0).then(|| format!("{location}: {gone} references lead to nothing that the file has, and are null in the copy"))
}

/// The address of a committed datatype.
fn token_of_type(datatype: &Datatype) -> Result<Token, String> {
    let committed = hdf5::datatype::CommittedDatatype::try_from(datatype.clone()).map_err(message)?;
    token(&committed)
}

/// Committed datatypes that hard links lead to, each once.
fn committed_types(group: &Group, met: &mut HashSet<Token>, found: &mut Vec<(Token, Location)>) -> Result<(), String> {
    if !met.insert(token(group)?) {
        return Ok(());
    }
    for link in links(group)?.into_iter().filter(Link::is_hard) {
        match object_by_name(group, &link.name)? {
            (Kind::Group, _) => committed_types(&open_group(group, &link.name)?, met, found)?,
            (Kind::Datatype, key) if met.insert(key) => found.push((key, open_object(group, key)?)),
            _ => {}
        }
    }
    Ok(())
}
