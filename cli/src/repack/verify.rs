//! Reads the new file back and compares it with the old one: compressed values against their bound, everything else for equality.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::path::Path;

use hdf5::plist::dataset_create::Layout;
use hdf5::{Container, Dataset, Dataspace, File, Group, Location};
use indicatif::ProgressBar;

use super::Done;
use super::plan::{Plan, Task, TaskReader};
use crate::compare::{Difference, compare};
use crate::copied::{Buffers, Copied, Read};
use crate::datasets::{block_of, written_boxes};
use crate::jobs;
use crate::library::links::{
    self, Kind, Link, Token, attribute_names, comment, links, object_by_name, open_attribute, open_dataset, open_group,
    open_object, token,
};
use crate::library::objects::{Target, is_committed, is_external, is_same_type};
use crate::library::values::{Part, Values, follow, is_plain};
use crate::library::{chunks, message};
use crate::names::Name;
use crate::slabs::ReadChunk;

/// Compares a new file with its original. Returns the result for each dataset of the plan.
///
/// # Errors
/// Names the first difference.
pub(super) fn verify(from: &File, written: &Path, plan: &Plan, jobs: usize, bar: &ProgressBar) -> Result<Vec<Done>, String> {
    let failed = |error: String| format!("the written file cannot be read: {error}");
    let to = links::open_file(written).map_err(failed)?;
    let mut comparison = Comparison {
        old: Side { file: from, paths: HashMap::new() },
        new: Side { file: &to, paths: HashMap::new() },
        plan,
        objects: Vec::new(),
        compressed: HashMap::new(),
    };
    let root = |file: &File| open_group(file, c"/").map_err(failed);
    let (old, new) = (root(from)?, root(&to)?);
    comparison.old.paths.insert(token(&old)?, "/".into());
    comparison.new.paths.insert(token(&new)?, "/".into());
    comparison.objects.push(("/".into(), Kind::Group, (*old).clone(), (*new).clone()));
    comparison.group(&old, &new, &Name::default())?;
    // References are compared by where they lead, which is known now.
    for (path, kind, old, new) in &comparison.objects {
        comparison.compare(path, *kind, old, new).map_err(|reason| not_as_before(path, &reason))?;
    }
    let datasets = plan
        .tasks
        .iter()
        .enumerate()
        .map(|(number, task)| comparison.compressed.get(&number).ok_or_else(|| not_as_before(&task.path, "it is missing")));
    compressed(&plan.tasks, &datasets.collect::<Result<Vec<_>, _>>()?, jobs, bar)
}

fn not_as_before(path: &Name, reason: &str) -> String {
    format!(
        "{path}: the copy differs from the original, and is deleted: {reason}. If no program wrote to the original meanwhile, please report this"
    )
}

/// Compares compressed datasets chunk by chunk. The calling thread reads chunks and streams; other threads decompress and compare.
fn compressed(tasks: &[Task], datasets: &[&Dataset], jobs: usize, bar: &ProgressBar) -> Result<Vec<Done>, String> {
    let at = |index: usize| move |reason: String| not_as_before(&tasks[index].path, &reason);
    let copies = datasets.iter().enumerate().map(|(index, dataset)| {
        let copied = Copied::new(dataset, &tasks[index].source).map_err(at(index))?;
        if !copied.is_filtered {
            return Err(at(index)("HDF5 stored it without the filter".to_owned()));
        }
        Ok(copied)
    });
    let copies = copies.collect::<Result<Vec<_>, _>>()?;
    let mut differences = vec![Difference::default(); tasks.len()];
    let reader = RefCell::new(TaskReader::new(tasks.iter().collect()));
    jobs::pipeline(
        jobs,
        || {
            let Some((index, chunk)) = reader.borrow_mut().next()? else { return Ok(None) };
            let read = copies[index].read(&chunk.ranges).map_err(at(index))?;
            Ok(Some((index, read, chunk)))
        },
        |buffers: &mut Buffers, (index, read, chunk): (usize, Read, ReadChunk)| {
            let (Buffers { before, after }, task) = (buffers, &tasks[index]);
            let found = copies[index].values(&read, &chunk.ranges, after).map(|after| {
                let before = chunk.values(before);
                compare(before, after, task.kind(), Some(task.config.bound))
            });
            (found, index, chunk)
        },
        |(found, index, chunk)| {
            let (ranges, task) = (&chunk.ranges, &tasks[index]);
            let found = found.and_then(Difference::kept);
            differences[index].add(&found.map_err(|reason| at(index)(format!("{reason}; the chunk is {ranges:?}")))?);
            bar.set_message(format!("verifying {}", task.path));
            bar.inc((chunk.count() * task.source.numbers.scalar.element_size()) as u64);
            reader.borrow_mut().give_back(chunk);
            Ok(())
        },
    )?;
    let done = datasets.iter().zip(differences);
    Ok(done.map(|(dataset, difference)| Done { stored: dataset.storage_size(), difference }).collect())
}

/// Compares the stored bytes of the chunks of two datasets, and their filter masks.
fn same_chunks(old: &Dataset, new: &Dataset, chunk: &[usize]) -> Result<(), String> {
    let corners = chunks::corners(old)?;
    if new.chunk().as_deref() != Some(chunk) {
        return Err(format!("its chunks have the shape {:?}, the original's have {chunk:?}", new.chunk()));
    }
    if corners != chunks::corners(new)? {
        return Err("its chunks are not at the offsets of the original's".to_owned());
    }
    let (mut old_bytes, mut new_bytes) = (Vec::new(), Vec::new());
    for corner in corners {
        let left_out = chunks::read(old, &corner, &mut old_bytes)?;
        if left_out != chunks::read(new, &corner, &mut new_bytes)? || old_bytes != new_bytes {
            return Err(format!("the stored bytes of its chunk at {corner:?} are not the original's"));
        }
    }
    Ok(())
}

/// A file, with the first path of each of its objects.
struct Side<'a> {
    file: &'a File,
    paths: HashMap<Token, Name>,
}

struct Comparison<'a> {
    old: Side<'a>,
    new: Side<'a>,
    plan: &'a Plan,
    objects: Vec<(Name, Kind, Location, Location)>,
    /// The new datasets of the plan's tasks.
    compressed: HashMap<usize, Dataset>,
}

impl Comparison<'_> {
    fn group(&mut self, old: &Group, new: &Group, path: &Name) -> Result<(), String> {
        let (old_links, new_links) = (links(old)?, links(new)?);
        if old_links != new_links {
            let number = old_links.iter().zip(&new_links).take_while(|(old, new)| old == new).count();
            let name = |links: &[Link]| links.get(number).map(|link| link.name.clone());
            let reason = format!("its link number {number} is {:?}, the original's is {:?}", name(&new_links), name(&old_links));
            return Err(not_as_before(&path.below(c""), &reason));
        }
        for Link { name, .. } in old_links.iter().filter(|link| !link.is_hard()) {
            if Target::of(old, name)? != Target::of(new, name)? {
                return Err(not_as_before(&path.below(name), "its target is not that of the original link"));
            }
        }
        old_links
            .iter()
            .filter(|link| link.is_hard())
            .try_for_each(|link| self.object(old, new, &link.name, &path.below(&link.name)))
    }

    fn object(&mut self, old: &Group, new: &Group, name: &CStr, path: &Name) -> Result<(), String> {
        let open = |group: &Group| {
            let (kind, token) = object_by_name(group, name)?;
            Ok((kind, open_object(group, token)?))
        };
        let opened = |group: &Group| open(group).map_err(|error: String| format!("{path}: {error}"));
        let ((kind, old_object), (new_kind, new_object)) = (opened(old)?, opened(new)?);
        if kind != new_kind {
            return Err(not_as_before(path, &format!("it is a {new_kind:?}, in the original it is a {kind:?}")));
        }
        let first = |paths: &mut HashMap<Token, Name>, object: &Location| -> Result<Name, String> {
            Ok(paths.entry(token(object)?).or_insert_with(|| path.clone()).clone())
        };
        let (old_first, new_first) = (first(&mut self.old.paths, &old_object)?, first(&mut self.new.paths, &new_object)?);
        if old_first != new_first {
            let reason = format!("it is the object at {new_first}, in the original it is the object at {old_first}");
            return Err(not_as_before(path, &reason));
        }
        if old_first != *path {
            return Ok(());
        }
        let failed = |error: String| format!("{path}: {error}");
        if kind == Kind::Group {
            self.group(&open_group(old, name).map_err(failed)?, &open_group(new, name).map_err(failed)?, path)?;
        } else if kind == Kind::Dataset
            && let Some(&task) = self.plan.by_token.get(&token(&old_object)?)
        {
            self.compressed.insert(task, open_dataset(new, name, None).map_err(failed)?);
        }
        self.objects.push((path.clone(), kind, old_object, new_object));
        Ok(())
    }

    /// Compares attributes, comment, type and extents of two objects, and the values of a dataset that is not compressed.
    fn compare(&self, path: &Name, kind: Kind, old: &Location, new: &Location) -> Result<(), String> {
        self.attributes(old, new)?;
        if kind != Kind::Dataset {
            return Ok(());
        }
        if let Some(task) = self.plan.by_token.get(&token(old)?) {
            return self.form(&self.plan.tasks[*task].source.dataset, &self.compressed[task]);
        }
        let (Ok(old), Ok(new)) = (open_dataset(self.old.file, path.as_c(), None), open_dataset(self.new.file, path.as_c(), None))
        else {
            return Ok(());
        };
        self.form(&old, &new)?;
        self.dataset(&old, &new)
    }

    /// Compares attributes and comment.
    fn attributes(&self, old: &Location, new: &Location) -> Result<(), String> {
        let (names, new_names) = (attribute_names(old)?, attribute_names(new)?);
        if names != new_names {
            return Err(format!("its attributes are {new_names:?}, the original's are {names:?}"));
        }
        if comment(old)? != comment(new)? {
            return Err("its comment is not that of the original".to_owned());
        }
        for name in names {
            let (old, new) = (open_attribute(old, &name)?, open_attribute(new, &name)?);
            self.form(&old, &new).map_err(|reason| format!("attribute {name:?}: {reason}"))?;
            self.values(Values::of_attribute(&old)?, Values::of_attribute(&new)?)
                .map_err(|reason| format!("attribute {name:?}: {reason}"))?;
        }
        Ok(())
    }

    /// Compares type and extents.
    fn form(&self, old: &Container, new: &Container) -> Result<(), String> {
        let failed = message::<hdf5::Error>;
        let (old_type, new_type) = (old.dtype().map_err(failed)?, new.dtype().map_err(failed)?);
        if !is_same_type(&old_type, &new_type) {
            return Err("its type is not that of the original".to_owned());
        }
        // A committed datatype that has no path is copied as one that is not committed.
        if is_committed(&new_type) && !is_committed(&old_type) {
            return Err("its type is a named datatype, the original's is not".to_owned());
        }
        let extents = |container: &Container| container.space().and_then(|space| space.extents()).map_err(failed);
        let (old_extents, new_extents) = (extents(old)?, extents(new)?);
        if old_extents != new_extents {
            return Err(format!("its extents are {new_extents:?}, the original's are {old_extents:?}"));
        }
        Ok(())
    }

    /// Compares the values of a dataset that is as it was.
    fn dataset(&self, old: &Dataset, new: &Dataset) -> Result<(), String> {
        // What lies in other files is found from where a file stands, which may be elsewhere now.
        let properties = old.dcpl().map_err(message)?;
        if properties.layout() == Layout::Virtual || is_external(&properties) {
            return Ok(());
        }
        let failed = message::<hdf5::Error>;
        let new_properties = new.dcpl().map_err(failed)?;
        let is_plain = is_plain(&old.dtype().map_err(failed)?)?;
        // Fill values of other types are pointers, and HDF5 compares only the pointers.
        if is_plain && properties != new_properties {
            return Err("its fill value, filters or layout are not those of the original".to_owned());
        }
        if old.size() == 0 {
            return Ok(());
        }
        match old.chunk() {
            // Chunks are compared as they lie in the file: whether they can be decoded does not matter.
            Some(chunk) if is_plain => return same_chunks(old, new, &chunk),
            _ => {}
        }
        let block = old.chunk().unwrap_or_else(|| block_of(&old.shape()));
        let boxes = written_boxes(old, &block)?;
        if boxes != written_boxes(new, &block)? {
            return Err("its written chunks are not at the offsets of the original's".to_owned());
        }
        boxes.iter().try_for_each(|ranges| self.values(Values::of_box(old, ranges)?, Values::of_box(new, ranges)?))
    }

    fn values(&self, old: Values, new: Values) -> Result<(), String> {
        let are_equal = self.old.told(old)? == self.new.told(new)?;
        if are_equal { Ok(()) } else { Err("its values are not those of the original".to_owned()) }
    }
}

impl Side<'_> {
    /// The contents of values, independent of their addresses in memory and in the file.
    fn told(&self, mut values: Values) -> Result<Vec<u8>, String> {
        let mut told = Vec::new();
        values.visit(|part| {
            match part {
                Part::Bytes(bytes) => told.extend_from_slice(bytes),
                Part::Text(None) => told.push(0),
                Part::Text(Some(text)) => {
                    told.push(1);
                    told.extend_from_slice(text.to_bytes_with_nul());
                }
                Part::Length(length) => told.extend_from_slice(&length.to_le_bytes()),
                Part::Reference(kind, bytes) => {
                    // A reference that leads nowhere says as little as one that is null.
                    let found = if bytes.iter().all(|&byte| byte == 0) { None } else { follow(self.file, kind, bytes) };
                    let path = found.as_ref().and_then(|(object, _)| self.paths.get(&token(object).ok()?));
                    told.extend_from_slice(path.map_or(&b""[..], Name::as_bytes));
                    told.push(0);
                    if let (Some(_), Some((_, Some(region)))) = (path, &found) {
                        told.extend_from_slice(&told_region(region)?);
                    }
                }
            }
            Ok(())
        })?;
        Ok(told)
    }
}

/// A region's extents and its selection. HDF5 encodes extents in one of two versions, which depend on the file's age and strategy, and on nothing in them.
fn told_region(region: &Dataspace) -> Result<Vec<u8>, String> {
    let encoded = region.encode().map_err(message)?;
    // H5Sencode: three bytes, the length of the encoded extents, the extents, the selection.
    let selection = encoded
        .get(3..)
        .and_then(<[u8]>::split_first_chunk)
        .and_then(|(length, rest)| rest.get(u32::from_le_bytes(*length) as usize..))
        .ok_or("HDF5 encodes a region in a form that is not known")?;
    let mut told = format!("{:?}", (region.shape(), region.maxdims())).into_bytes();
    told.extend_from_slice(selection);
    Ok(told)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hdf5::plist::file_access::FileCloseDegree;

    use super::*;
    use crate::repack::copy;

    fn file(path: &PathBuf) -> File {
        File::with_options().with_fapl(|list| list.fclose_degree(FileCloseDegree::Strong)).create(path).expect("a file")
    }

    fn fill(file: &File) {
        let group = file.create_group("group").expect("a group");
        group.new_attr::<i32>().create("number").and_then(|attribute| attribute.write_scalar(&5)).expect("an attribute");
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        group.new_dataset_builder().with_data(&values).create("values").expect("a dataset");
        file.new_dataset_builder().with_data(&values).chunk(30).create("chunked").expect("a dataset");
        file.link_soft("/group", "soft").expect("a link");
        file.link_hard("/group/values", "again").expect("a link");
    }

    fn nothing() -> Plan {
        Plan { tasks: Vec::new(), by_token: HashMap::new(), skipped: crate::skipped::Skipped::default() }
    }

    #[test]
    fn whatever_differs_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let original = file(&folder.path().join("original.h5"));
        fill(&original);
        let path = folder.path().join("copy.h5");
        type Change = fn(&File) -> hdf5::Result<()>;
        let changes: [(Change, &str); 9] = [
            (|_| Ok(()), ""),
            (|copy| copy.group("group")?.attr("number")?.write_scalar(&6), "/group: the copy differs from the original"),
            (|copy| copy.group("group")?.delete_attr("number"), "its attributes are [], the original's are [\"number\"]"),
            (|copy| copy.dataset("again")?.write_slice(&[7.0], 3..4), "its values are not those of the original"),
            (|copy| copy.dataset("chunked")?.write_slice(&[7.0], 3..4), "the stored bytes of its chunk at [0]"),
            (|copy| copy.unlink("again"), "its link number"),
            (
                |copy| copy.unlink("soft").and_then(|()| copy.link_soft("/again", "soft")),
                "its target is not that of the original link",
            ),
            (
                |copy| copy.unlink("again").and_then(|()| copy.new_dataset::<f64>().shape(100).create("again").map(|_| ())),
                "in the original it is the object at",
            ),
            (
                |copy| {
                    copy.unlink("group/values")
                        .and_then(|()| copy.new_dataset::<f32>().shape(100).create("group/values").map(|_| ()))
                },
                "/group/values",
            ),
        ];
        for (change, reason) in changes {
            let written = file(&path);
            copy::copy(&original, &written, &nothing(), 2, &ProgressBar::hidden()).expect("copied");
            change(&written).expect("changed");
            written.close().expect("closed");
            match verify(&original, &path, &nothing(), 2, &ProgressBar::hidden()) {
                Ok(_) => assert!(reason.is_empty(), "{reason} was not found"),
                Err(error) => assert!(!reason.is_empty() && error.contains(reason), "{error} for {reason}"),
            }
        }
    }
}
