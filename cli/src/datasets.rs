//! Datasets of the user's files: found by name, and read block by block, as the filter would be given chunks.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use hdf5::plist::DatasetAccess;
use hdf5::{Dataset, File};
use quire_codec::{Brick, Layout};

use crate::boxes::{Grid, Range, block_of};
use crate::compare::Elements;
use crate::kept;
use crate::library::chunks;
use crate::library::links::{self, ObjectKind, Token, Tree, object_by_name};
use crate::library::numbers::Numbers;
use crate::library::process::note_reading;
use crate::library::system;
use crate::names::Name;
use crate::output::Skipped;
use crate::slabs::Chunks;

/// Size of HDF5's cache of decoded chunks, in bytes per dataset. Blocks that cut across chunks then decode each chunk only once.
const CACHE_BYTES: usize = 64 << 20;
/// The size that the cache has if nothing is said.
const DEFAULT_CACHE_BYTES: usize = 1 << 20;
/// Number of hash slots of the chunk cache: a prime far above the number of chunks in it.
const CACHE_SLOTS: usize = 12_421;

/// A dataset with its name and address.
#[derive(Debug)]
pub(crate) struct Named {
    /// The dataset, or why HDF5 cannot open it: a newer HDF5 may have written it with features that this one lacks.
    pub(crate) dataset: Result<Dataset>,
    /// `FILE:/path/in/it`.
    pub(crate) name: Name,
    /// The path in the file.
    pub(crate) path: Name,
    pub(crate) token: Token,
    /// Whether the user has named the dataset itself, not a file or a group that it lies in.
    pub(crate) is_named: bool,
}

/// Splits a user's `FILE`, `FILE:/path` or `FILE/path` into the file and the path in it.
#[must_use]
pub(crate) fn file_and_path(name: &OsStr) -> (&Path, &[u8]) {
    let bytes = name.as_encoded_bytes();
    let file = |end: usize| Path::new(system::os_str(&bytes[..end]));
    // The name of an existing file may contain a colon.
    if Path::new(name).is_file() {
        return (Path::new(name), b"/");
    }
    let at = |wanted: u8| (0..bytes.len()).filter(move |&at| bytes[at] == wanted);
    // The names of objects may contain colons, too.
    let mut colons = at(b':').filter(|&colon| bytes[colon + 1..].starts_with(b"/"));
    if let Some(last) = colons.clone().next_back() {
        let colon = colons.rfind(|&colon| file(colon).is_file()).unwrap_or(last);
        return (file(colon), &bytes[colon + 1..]);
    }
    // The first prefix that is an existing file is the file, since no other file can lie below it.
    at(b'/').find(|&slash| file(slash).is_file()).map_or((Path::new(name), b"/"), |slash| (file(slash), &bytes[slash..]))
}

/// The datasets that a user's name refers to, each once; for a group, all datasets below it.
///
/// # Errors
/// With the name, where there is no such file or object.
pub(crate) fn find(name: &OsStr) -> Result<Vec<Named>> {
    let (path, inside) = file_and_path(name);
    find_in(path, &Name::new(inside), &Name::from(name))
}

/// The datasets that a path in a file refers to, as in [`find`]. `name` is the user's own spelling, for errors.
///
/// # Errors
/// As for [`find`].
pub(crate) fn find_in(path: &Path, inside: &Name, name: &Name) -> Result<Vec<Named>> {
    let file = open(path)?;
    if let Ok((ObjectKind::Dataset, token)) = object_by_name(&file, inside.as_c()) {
        let dataset = Ok(open_dataset(&file, inside).with_context(|| name.clone())?);
        return Ok(vec![Named { dataset, name: inside.in_file(path), path: inside.clone(), token, is_named: true }]);
    }
    let group = links::open_group(&file, inside.as_c());
    let group = group.map_err(|_| anyhow!("{name}: the file has no dataset and no group of that name"))?;
    let bytes = inside.as_bytes();
    let above = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    // Soft links are not followed: their targets are found by hard links, or do not exist.
    let tree = Tree::below(&group, &Name::new(&bytes[..above])).with_context(|| name.clone())?;
    let datasets = tree.objects().filter(|&(_, kind, _)| kind == ObjectKind::Dataset);
    let named = |(inside, _, token): (&Name, _, _)| {
        let dataset = open_dataset(&file, inside);
        Named { dataset, name: inside.in_file(path), path: inside.clone(), token, is_named: false }
    };
    Ok(datasets.map(named).collect())
}

/// Opens a file for reading.
///
/// # Errors
/// With its name. HDF5 would wait at a pipe for as long as nobody writes to it.
pub(crate) fn open(path: &Path) -> Result<File> {
    let name = Name::from(path);
    match path.metadata().map(|found| found.file_type()) {
        Ok(kind) if kind.is_file() || system::is_block_device(kind) => {}
        Ok(_) => bail!("{name}: it is a folder, a pipe or a device, not a file"),
        Err(_) => bail!("{name}: there is no such file"),
    }
    note_reading(&name);
    links::open_file(path, false).with_context(|| format!("{name}: it cannot be read as HDF5"))
}

/// Opens a dataset.
///
/// # Errors
/// Says, with HDF5's version, why HDF5 does not open it.
pub(crate) fn open_dataset(file: &File, path: &Name) -> Result<Dataset> {
    let (major, minor, micro) = hdf5::library_version();
    let not_opened = || format!("HDF5 {major}.{minor}.{micro}, which this program is linked with, does not open it");
    with_cache(file, path).with_context(not_opened)
}

/// Opens a dataset, with a cache of decoded chunks that is as large as its values are, up to a limit. The cache's table alone has 100 kB, which thousands of
/// small datasets must not have.
fn with_cache(file: &File, path: &Name) -> Result<Dataset> {
    let dataset = links::open_dataset(file, path, None)?;
    let bytes = dataset.dtype()?.size().saturating_mul(dataset.size());
    if bytes <= DEFAULT_CACHE_BYTES {
        return Ok(dataset);
    }
    // HDF5 gives a dataset that is open already the cache that it has.
    drop(dataset);
    let access = DatasetAccess::build().chunk_cache(CACHE_SLOTS, CACHE_BYTES, 1.0).finish()?;
    links::open_dataset(file, path, Some(&access))
}

/// A dataset of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) dataset: Dataset,
    /// The shape of the dataset's chunks, if it has any.
    pub(crate) chunk: Option<Vec<usize>>,
    /// Whether the dataset is stored without filters.
    pub(crate) is_plain: bool,
    /// `FILE:/path/in/it`.
    pub(crate) name: Name,
    pub(crate) numbers: Numbers,
    /// Bits of the fill value, if the dataset defines one.
    pub(crate) fill_value: Option<u64>,
    /// The bytes of an element where nothing was written, in the file's byte order.
    pub(crate) filling: Vec<u8>,
    /// Bits of the other values that the dataset's attributes name as missing.
    pub(crate) missing: Vec<u64>,
    /// All of these.
    fill: Vec<u64>,
    pub(crate) extents: Vec<usize>,
}

/// The blocks of a dataset that contain written values, as far as HDF5 records it. All other blocks hold only the fill value. They must not be read: HDF5 fails
/// to read unwritten strings from a file that is open for reading (seen with 1.10.8 to 2.0).
///
/// # Errors
/// HDF5's.
pub(crate) fn written_boxes(dataset: &Dataset, block: &[usize]) -> Result<Vec<Vec<Range>>> {
    let extents = dataset.shape();
    let grid = Grid { extents: &extents, block };
    if extents.contains(&0) || dataset.storage_size() == 0 {
        return Ok(Vec::new());
    }
    if dataset.chunk().as_deref() != Some(block) {
        let mut boxes = Vec::new();
        // A damaged file may give any extents.
        boxes.try_reserve_exact(grid.blocks()).map_err(|_| anyhow!("no memory for {} blocks", grid.blocks()))?;
        boxes.extend((0..grid.blocks()).map(|number| grid.ranges(number)));
        return Ok(boxes);
    }
    let starts = |corner: Vec<u64>| corner.into_iter().map(|start| start as usize).collect::<Vec<_>>();
    Ok(chunks::corners(dataset)?.into_iter().map(|corner| grid.at(&starts(corner))).collect())
}

/// The datasets that are read, and the skipped ones with the reason.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) sources: Vec<Source>,
    pub(crate) skipped: Skipped,
}

impl Found {
    /// The datasets that names refer to and that `choose` makes sources of.
    ///
    /// # Errors
    /// With the name, where there is no such file or object.
    pub(crate) fn of(names: &[OsString], choose: impl Fn(Named) -> Result<Source>) -> Result<Self> {
        let mut found = Self::default();
        for name in names {
            for named in find(name)? {
                let name = named.name.clone();
                match choose(named) {
                    Ok(source) => found.sources.push(source),
                    Err(reason) => found.skipped.add(name, &reason),
                }
            }
        }
        Ok(found)
    }
}

impl Source {
    /// Checks that a dataset holds numbers, and makes a source of it.
    ///
    /// # Errors
    /// Says why the dataset is skipped.
    pub(crate) fn new(dataset: Dataset, name: Name) -> Result<Self> {
        let numbers = Numbers::of(&dataset)?;
        let extents = dataset.shape();
        ensure!(dataset.size() > 0, "it has no values");
        let properties = dataset.dcpl()?;
        let chunk = properties.chunk();
        let is_plain = properties.filters().is_empty();
        let (fill_value, filling) = numbers.filling(&properties)?;
        let mut missing = Vec::new();
        for attribute in kept::ATTRIBUTES {
            missing.extend(numbers.of_attribute(&dataset, &attribute.into()));
        }
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|&bits| Some(bits) != fill_value);
        let fill = missing.iter().copied().chain(fill_value).collect();
        Ok(Self { dataset, chunk, is_plain, name, numbers, fill_value, filling, missing, fill, extents })
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> u64 {
        self.extents.iter().map(|&extent| extent as u64).product::<u64>() * self.numbers.scalar.element_size() as u64
    }

    /// The elements for a comparison with a copy by `repack`, which keeps missing values as the filter keeps the fill value.
    pub(crate) fn elements(&self) -> Elements<'_> {
        let Numbers { scalar, byte_order, .. } = self.numbers;
        Elements { scalar, byte_order, fill: &self.fill, missing: &[] }
    }

    /// The elements for a comparison with a copy by a filter. It knows the fill value alone, and counts missing values in a chunk's range.
    pub(crate) fn elements_for_filters(&self) -> Elements<'_> {
        Elements { fill: self.fill_value.as_slice(), missing: &self.missing, ..self.elements() }
    }
}

/// Evenly spaced blocks of a dataset, as the filter would be given chunks.
pub(crate) struct Sample<'a> {
    pub(crate) source: &'a Source,
    /// The shape of a block.
    pub(crate) block: Vec<usize>,
    /// Number of blocks in the dataset.
    pub(crate) of_blocks: usize,
    pub(crate) boxes: Vec<Vec<Range>>,
}

impl<'a> Sample<'a> {
    /// Takes at most the given number of blocks. They have the given shape if it has the dataset's rank, or else the shape of the dataset's own chunks.
    pub(crate) fn new(source: &'a Source, shape: Option<&[usize]>, most: usize) -> Self {
        let extents = &source.extents;
        let own = || source.chunk.clone().unwrap_or_else(|| block_of(extents));
        let shape = shape.filter(|shape| shape.len() == extents.len()).map_or_else(own, <[usize]>::to_vec);
        let block: Vec<usize> = shape.iter().zip(extents).map(|(&side, &extent)| side.min(extent)).collect();
        let grid = Grid { extents, block: &block };
        let (of_blocks, taken) = (grid.blocks(), grid.blocks().min(most));
        let number = |index| (index as u128 * of_blocks as u128 / taken as u128) as usize;
        let boxes = (0..taken).map(|index| grid.ranges(number(index))).collect();
        Self { source, block, of_blocks, boxes }
    }

    /// The blocks to read.
    pub(crate) fn chunks(&self) -> Chunks<'_> {
        note_reading(&self.source.name);
        Chunks { name: &self.source.name, source: self.source, shape: &self.block, boxes: &self.boxes }
    }

    /// The layout of a block in bricks. A block that the dataset's end cuts short keeps its layout if it has no whole rows of bricks.
    ///
    /// # Errors
    /// If a whole block has no whole rows of bricks.
    pub(crate) fn layout(&self, ranges: &[Range], brick: Option<Brick>) -> Result<Layout> {
        let extents: Vec<usize> = ranges.iter().map(|&(_, count)| count).collect();
        let layout = self.source.numbers.layout(&extents)?;
        match layout.in_bricks(brick) {
            Err(_) if extents != self.block => Ok(layout),
            in_bricks => Ok(in_bricks?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_where_its_file_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let named = |rest: &str| {
            let mut name = folder.path().join("run").into_os_string();
            name.push(rest);
            name
        };
        for file in [".h5", ".h5:a"] {
            std::fs::write(named(file), "").expect("written");
        }
        for (name, file, inside) in [
            (".h5", ".h5", "/"),
            (".h5:/t", ".h5", "/t"),
            (".h5/t", ".h5", "/t"),
            (".h5:/a,b:c=d", ".h5", "/a,b:c=d"),
            (".h5:/g:/u", ".h5", "/g:/u"),
            (".h5:/g/u:", ".h5", "/g/u:"),
            (".h5/g:u", ".h5", "/g:u"),
            (".h5:a", ".h5:a", "/"),
            (".h5:a:/t", ".h5:a", "/t"),
            (".h5:t", ".h5:t", "/"),
            (".nc:/t", ".nc", "/t"),
        ] {
            let given = named(name);
            assert_eq!(file_and_path(&given), (Path::new(&named(file)), inside.as_bytes()), "{name}");
        }
    }
}
