//! Reads the new file back and compares it with the old one: compressed values with their bound, everything else for equality.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use h5zquire::FILTER_ID;
use hdf5::plist::dataset_create::Layout;
use hdf5::{CommittedDatatype, Container, Dataset, Dataspace, Datatype, File, Location};
use indicatif::ProgressBar;

use super::Done;
use super::plan::Plan;
use crate::boxes::{self, Range, block_of};
use crate::compare::Difference;
use crate::datasets::written_boxes;
use crate::library::chunks;
use crate::library::links::{
    self, Link, ObjectKind, Tree, attribute_names, comment, open_attribute, open_dataset, open_object, token,
};
use crate::library::objects::{is_external, target};
use crate::library::values::{Values, follow, is_plain};
use crate::names::Name;
use crate::verify::copies::{Pair, compare_copies};

/// Compares a new file with its original. Returns the result for each dataset of the plan.
///
/// # Errors
/// Names the first difference.
pub(super) fn check(from: &File, written: &Path, plan: &Plan, jobs: usize, bar: &ProgressBar) -> Result<Vec<Done>> {
    const UNREADABLE: &str = "the written file cannot be read";
    let to = links::open_file(written, false).context(UNREADABLE)?;
    let side = |file| anyhow::Ok(Side { file, tree: Tree::below(file, &Name::default())? });
    let files = Files { old: side(from)?, new: side(&to).context(UNREADABLE)? };
    files.links()?;
    let root = Name::from("/");
    let by_token = plan.by_token();
    let objects = files.old.tree.objects().map(|(path, kind, token)| (path, kind, by_token.contains_key(&token)));
    for (path, kind, is_compressed) in std::iter::once((&root, ObjectKind::Group, false)).chain(objects) {
        files.object(path, kind, is_compressed).map_err(|reason| not_as_before(path, reason))?;
    }
    compressed(&to, plan, jobs, bar)
}

fn not_as_before(path: &Name, reason: anyhow::Error) -> anyhow::Error {
    anyhow!(
        "{path}: the copy differs from the original, and is deleted: {reason:#}. If no program wrote to the original meanwhile, please report this"
    )
}

/// Compares compressed datasets chunk by chunk.
fn compressed(to: &File, plan: &Plan, jobs: usize, bar: &ProgressBar) -> Result<Vec<Done>> {
    let open = |path: &Name| {
        let dataset = open_dataset(to, path, None)?;
        let is_filtered = dataset.dcpl()?.filters().iter().any(|filter| filter.id() == FILTER_ID);
        ensure!(is_filtered, "HDF5 stored it without the filter");
        Ok(dataset)
    };
    let opened = plan.tasks.iter().map(|task| open(&task.path).map_err(|reason| not_as_before(&task.path, reason)));
    let datasets = opened.collect::<Result<Vec<Dataset>>>()?;
    let pairs = plan.tasks.iter().zip(&datasets).map(|(task, copy)| {
        let promise = Some(task.config.bound);
        Pair { original: task.chunks(), copy, promise, may_be_of_a_filter: false }
    });
    let pairs: Vec<Pair<'_>> = pairs.collect();
    let mut differences = vec![Difference::default(); pairs.len()];
    compare_copies(&pairs, jobs, |number, chunk, found| {
        let (task, ranges) = (&plan.tasks[number], &chunk.ranges);
        let kept = found.and_then(|found| found.difference.kept());
        let at_chunk = |reason| not_as_before(&task.path, anyhow!("{reason:#}; the chunk is {ranges:?}"));
        differences[number].add(&kept.map_err(at_chunk)?);
        bar.set_message(format!("verifying {}", task.path));
        bar.inc((boxes::values(ranges) * task.source.numbers.scalar.element_size()) as u64);
        Ok(())
    })?;
    let done = datasets.iter().zip(differences);
    Ok(done.map(|(dataset, difference)| Done { stored: dataset.storage_size(), difference }).collect())
}

/// Compares the stored bytes of the chunks of two datasets, and their filter masks.
fn same_chunks(old: &Dataset, new: &Dataset, chunk: &[usize]) -> Result<()> {
    let (corners, shape) = (chunks::corners(old)?, new.chunk());
    ensure!(shape.as_deref() == Some(chunk), "its chunks have the shape {shape:?}, the original's have {chunk:?}");
    ensure!(corners == chunks::corners(new)?, "its chunks are not at the offsets of the original's");
    let (mut old_bytes, mut new_bytes) = (Vec::new(), Vec::new());
    for corner in corners {
        let masks = [chunks::read(old, &corner, &mut old_bytes)?, chunks::read(new, &corner, &mut new_bytes)?];
        let is_same = masks[0] == masks[1] && old_bytes == new_bytes;
        ensure!(is_same, "the stored bytes of its chunk at {corner:?} are not the original's");
    }
    Ok(())
}

/// A file and its links.
struct Side<'a> {
    file: &'a File,
    tree: Tree,
}

/// The old and the new file.
struct Files<'a> {
    old: Side<'a>,
    new: Side<'a>,
}

impl Files<'_> {
    /// Compares all links: their order, names and targets.
    fn links(&self) -> Result<()> {
        let (old, new) = (&self.old.tree.links, &self.new.tree.links);
        let head = |link: &Link| (link.path.clone(), link.kind, link.encoding);
        for number in 0..old.len().max(new.len()) {
            match (old.get(number), new.get(number)) {
                (Some(old), Some(new)) if head(old) == head(new) => {
                    self.targets(old, new).map_err(|reason| not_as_before(&old.path, reason))?;
                }
                links => {
                    let (old, new) = (links.0.map(|link| &link.path), links.1.map(|link| &link.path));
                    let reason = anyhow!("its link number {number} is {new:?}, the original's is {old:?}");
                    return Err(not_as_before(&"/".into(), reason));
                }
            }
        }
        Ok(())
    }

    fn targets(&self, old: &Link, new: &Link) -> Result<()> {
        let (Some((kind, token)), Some((new_kind, new_token))) = (old.object, new.object) else {
            let is_same = target(self.old.file, &old.path)? == target(self.new.file, &new.path)?;
            ensure!(is_same, "its target is not that of the original link");
            return Ok(());
        };
        ensure!(kind == new_kind, "it is a {new_kind:?}, in the original it is a {kind:?}");
        let (first, new_first) = (&self.old.tree.paths[&token], &self.new.tree.paths[&new_token]);
        ensure!(first == new_first, "it is the object at {new_first}, in the original it is the object at {first}");
        Ok(())
    }

    /// Compares attributes, comment, type and extents of an object, and the values of a dataset that is not compressed.
    fn object(&self, path: &Name, kind: ObjectKind, is_compressed: bool) -> Result<()> {
        self.attributes(path)?;
        if kind != ObjectKind::Dataset {
            return Ok(());
        }
        let (old, new) = (open_dataset(self.old.file, path, None)?, open_dataset(self.new.file, path, None)?);
        same_form(&old, &new)?;
        if is_compressed { Ok(()) } else { self.dataset(&old, &new) }
    }

    /// Compares attributes and comment.
    fn attributes(&self, path: &Name) -> Result<()> {
        let (old, new) = (&open_object(self.old.file, path)?, &open_object(self.new.file, path)?);
        let (names, new_names) = (attribute_names(old)?, attribute_names(new)?);
        ensure!(names == new_names, "its attributes are {new_names:?}, the original's are {names:?}");
        ensure!(comment(old)? == comment(new)?, "its comment is not that of the original");
        names.iter().try_for_each(|name| self.attribute(old, new, name).with_context(|| format!("attribute {name:?}")))
    }

    fn attribute(&self, old: &Location, new: &Location, name: &Name) -> Result<()> {
        let (old, new) = (open_attribute(old, name)?, open_attribute(new, name)?);
        same_form(&old, &new)?;
        self.values(Values::of_attribute(&old)?, Values::of_attribute(&new)?)
    }

    /// Compares the values of a dataset that is as it was.
    fn dataset(&self, old: &Dataset, new: &Dataset) -> Result<()> {
        // What lies in other files is found from where a file stands, which may be elsewhere now.
        let properties = old.dcpl()?;
        if properties.layout() == Layout::Virtual || is_external(&properties) {
            return Ok(());
        }
        let is_plain = is_plain(&old.dtype()?)?;
        // Fill values of other types are pointers, and HDF5 compares only the pointers.
        let is_as_before = !is_plain || properties == new.dcpl()?;
        ensure!(is_as_before, "its fill value, filters or layout are not those of the original");
        if old.size() == 0 {
            return Ok(());
        }
        match old.chunk() {
            // Chunks are compared as they lie in the file: whether they can be decoded does not matter.
            Some(chunk) if is_plain => return same_chunks(old, new, &chunk),
            _ => {}
        }
        let block = old.chunk().unwrap_or_else(|| block_of(&old.shape()));
        let boxes: Vec<Vec<Range>> = written_boxes(old, &block)?;
        ensure!(boxes == written_boxes(new, &block)?, "its written chunks are not at the offsets of the original's");
        boxes.iter().try_for_each(|ranges| self.values(Values::of_box(old, ranges)?, Values::of_box(new, ranges)?))
    }

    fn values(&self, old: Values, new: Values) -> Result<()> {
        let is_equal = self.old.contents(old)? == self.new.contents(new)?;
        ensure!(is_equal, "its values are not those of the original");
        Ok(())
    }
}

/// Compares type and extents.
fn same_form(old: &Container, new: &Container) -> Result<()> {
    let (old_type, new_type) = (old.dtype()?, new.dtype()?);
    ensure!(old_type == new_type, "its type is not that of the original");
    // A committed datatype that has no path is copied as one that is not committed.
    let is_committed = |datatype: Datatype| CommittedDatatype::try_from(datatype).is_ok();
    ensure!(!is_committed(new_type) || is_committed(old_type), "its type is a named datatype, the original's is not");
    let (old_extents, new_extents) = (old.space()?.extents()?, new.space()?.extents()?);
    ensure!(old_extents == new_extents, "its extents are {new_extents:?}, the original's are {old_extents:?}");
    Ok(())
}

impl Side<'_> {
    /// The contents of values, independent of their addresses in memory and in the file.
    fn contents(&self, values: Values) -> Result<Vec<u8>> {
        values.contents(|kind, reference, contents| {
            // A reference that leads nowhere says as little as one that is null.
            let is_null = reference.iter().all(|&byte| byte == 0);
            let found = if is_null { None } else { follow(self.file, kind, reference) };
            let path = found.as_ref().and_then(|(object, _)| self.tree.paths.get(&token(object).ok()?));
            contents.extend_from_slice(path.map_or(&b""[..], Name::as_bytes));
            contents.push(0);
            if let (Some(_), Some((_, Some(region)))) = (path, &found) {
                contents.extend_from_slice(&selection(region)?);
            }
            Ok(())
        })
    }
}

/// A region's extents and its selection. HDF5 encodes extents in one of two versions, which depend on the file's age and strategy, and on nothing in them.
fn selection(region: &Dataspace) -> Result<Vec<u8>> {
    let encoded = region.encode()?;
    // H5Sencode: three bytes, the length of the encoded extents, the extents, the selection.
    let selection = encoded
        .get(3..)
        .and_then(<[u8]>::split_first_chunk)
        .and_then(|(length, rest)| rest.get(u32::from_le_bytes(*length) as usize..))
        .context("HDF5 encodes a region in a form that is not known")?;
    Ok([format!("{:?}", (region.shape(), region.maxdims())).as_bytes(), selection].concat())
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
            copy::copy(&original, &written, &Plan::default(), 2, &ProgressBar::hidden()).expect("copied");
            change(&written).expect("changed");
            written.close().expect("closed");
            match check(&original, &path, &Plan::default(), 2, &ProgressBar::hidden()) {
                Ok(_) => assert!(reason.is_empty(), "{reason} was not found"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!reason.is_empty() && error.contains(reason), "{error} for {reason}");
                }
            }
        }
    }
}
