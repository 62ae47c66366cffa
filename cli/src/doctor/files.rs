//! What keeps HDF5 from reading the datasets of a file: filters, sources of virtual datasets, and parts of the file format that only a newer HDF5 knows.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hdf5::Dataset;
use hdf5::plist::dataset_create::Layout;

use super::{Finding, State};
use crate::datasets::{Named, file_and_path, find, find_in};
use crate::filters::{NAME_ITS_FOLDER, not_found};
use crate::inspect::small_chunks;
use crate::library::objects::virtual_sources;
use crate::library::process::note_reading;
use crate::library::system;
use crate::names::Name;
use crate::output::grouped;

const ABOUT: &str = "file";
const READ_BY_A_NEWER_ONE: &str = "read it with a newer HDF5, as h5py's wheels have; or have its writer choose an older form, \
                                   libver=(\"earliest\", \"v110\") in h5py, H5Pset_libver_bounds in C";
const PUT_IT_THERE: &str = "put the files beside that of the virtual dataset, or name their folder in HDF5_VDS_PREFIX";

/// Datasets, each with what is to be said of it.
#[derive(Default)]
struct Said {
    unread: Vec<(Name, String)>,
    too_new: Vec<(Name, String)>,
    without_filter: Vec<(Name, String)>,
    without_source: Vec<(Name, String)>,
    small: Vec<(Name, String)>,
    datasets: usize,
    /// Sources of virtual datasets, by file and path.
    met: HashSet<(PathBuf, Name)>,
}

/// Checks the datasets that a name refers to, and the sources of those that are virtual.
///
/// # Errors
/// If the file cannot be read for another reason than its age.
pub(super) fn check(source: &OsStr) -> Result<Vec<Finding>> {
    let mut said = Said::default();
    match find(source) {
        Ok(found) => {
            for Named { dataset, name, .. } in found {
                note_reading(&name);
                said.datasets += 1;
                match dataset {
                    Ok(dataset) => said.dataset(&dataset, file_and_path(source).0, &name)?,
                    Err(reason) => said.unopened(name, format!("{reason:#}")),
                }
            }
        }
        Err(error) if is_of_a_newer_format(&format!("{error:#}")) => {
            let (name, reason) = (Name::from(source), format!("{error:#}"));
            let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason).to_owned();
            said.too_new.push((name, reason));
        }
        Err(error) => return Err(error),
    }
    Ok(said.findings(source))
}

/// Whether HDF5 says of a part of a file that it does not know the version. Damage can look the same.
fn is_of_a_newer_format(reason: &str) -> bool {
    ["bad version number", "bad superblock version number", "header version"].iter().any(|words| reason.contains(words))
}

impl Said {
    fn unopened(&mut self, name: Name, reason: String) {
        let list = if is_of_a_newer_format(&reason) { &mut self.too_new } else { &mut self.unread };
        list.push((name, reason));
    }

    fn dataset(&mut self, dataset: &Dataset, file: &Path, name: &Name) -> Result<()> {
        let properties = dataset.dcpl()?;
        if let Some(reason) = not_found(&properties.get_filters()?) {
            self.without_filter.push((name.clone(), format!("{reason}, and cannot read it")));
        }
        self.small.extend(small_chunks(dataset).map(|small| (name.clone(), small.to_string())));
        if properties.layout() == Layout::Virtual {
            for (source, path) in virtual_sources(&properties)? {
                self.source(name, file, &source, &path)?;
            }
        }
        Ok(())
    }

    /// Looks at a source of a virtual dataset, which may be virtual itself.
    fn source(&mut self, virtual_name: &Name, file: &Path, source: &Name, path: &Name) -> Result<()> {
        let not_there = |what: String| {
            (virtual_name.clone(), format!("it is virtual, and HDF5 gives fill values, without an error, in place of {what}"))
        };
        let Some(found) = file_of_source(file, source) else {
            self.without_source.push(not_there(format!("what its source {source} has, which is not there")));
            return Ok(());
        };
        if !self.met.insert((found.clone(), path.clone())) {
            return Ok(());
        }
        let name = Name::new([b"/", path.as_bytes().strip_prefix(b"/").unwrap_or(path.as_bytes())].concat()).in_file(&found);
        match find_in(&found, path, &name).map(|named| named.into_iter().next()) {
            Ok(Some(Named { dataset: Ok(dataset), is_named: true, .. })) => self.dataset(&dataset, &found, &name)?,
            Ok(_) => self.without_source.push(not_there(format!("what its source {name} has, which is no dataset"))),
            Err(error) => {
                let reason = format!("{error:#}");
                let list = if is_of_a_newer_format(&reason) { &mut self.too_new } else { &mut self.without_source };
                list.push(not_there(format!("what a source has: {reason}")));
            }
        }
        Ok(())
    }

    fn findings(&self, source: &OsStr) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (list, state, remedy) in [
            (&self.unread, State::Wrong, "take the file from a backup, if it was readable before"),
            (&self.too_new, State::Wrong, READ_BY_A_NEWER_ONE),
            (&self.without_filter, State::Wrong, NAME_ITS_FOLDER),
            (&self.without_source, State::Note, PUT_IT_THERE),
            (&self.small, State::Note, "`quire repack --chunks SHAPE` gives a copy other chunks"),
        ] {
            let finding = |line: &String| {
                let (text, remedy) = (line.trim_start().to_owned(), Some(remedy.to_owned()));
                Finding { about: ABOUT, state, text, remedy }
            };
            findings.extend(grouped("", list).iter().map(finding));
        }
        if findings.is_empty() {
            let sources =
                if self.met.is_empty() { String::new() } else { format!(" and of {} sources of virtual ones", self.met.len()) };
            let text = format!("{}: HDF5 finds the filters of all {} datasets{sources} here", Name::from(source), self.datasets);
            findings.push(Finding::well(ABOUT, text));
        }
        findings
    }
}

/// The file that HDF5 would open for a source of a virtual dataset, if it is there. In a name for many files, `%b` stands for their numbers: the first file counts.
fn file_of_source(file: &Path, source: &Name) -> Option<PathBuf> {
    if source.as_bytes() == b"." {
        return Some(file.to_path_buf());
    }
    let named = PathBuf::from(system::os_str(&first_of_many(source.as_bytes())));
    if named.is_absolute() && named.is_file() {
        return Some(named);
    }
    // HDF5 looks for a file that has moved by the last part of its name.
    let relative = if named.is_absolute() { PathBuf::from(named.file_name()?) } else { named };
    let folder = file.parent().unwrap_or(Path::new(""));
    let prefixes = std::env::var_os("HDF5_VDS_PREFIX").unwrap_or_default();
    let prefixes = prefixes.as_encoded_bytes().split(|&byte| byte == b':').filter(|prefix| !prefix.is_empty());
    let of_prefix = |prefix: &[u8]| match prefix.strip_prefix(b"${ORIGIN}") {
        Some(rest) => folder.join(system::os_str(rest.strip_prefix(b"/").unwrap_or(rest))),
        None => PathBuf::from(system::os_str(prefix)),
    };
    let folders = prefixes.map(of_prefix).chain([folder.to_path_buf(), PathBuf::new()]);
    folders.map(|folder| folder.join(&relative)).find(|path| path.is_file())
}

/// A source's name with its number, if it has one, as 0.
fn first_of_many(name: &[u8]) -> Vec<u8> {
    let (mut first, mut bytes) = (Vec::new(), name.iter());
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'b')) => first.push(b'0'),
            (b'%', Some(b'%')) => first.push(b'%'),
            _ => {
                first.push(byte);
                continue;
            }
        }
        bytes.next();
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_files_is_named() {
        for (name, first) in [("a.h5", "a.h5"), ("f-%b.h5", "f-0.h5"), ("100%%-%b", "100%-0"), ("a%", "a%"), ("%d", "%d")] {
            assert_eq!(first_of_many(name.as_bytes()), first.as_bytes(), "{name}");
        }
    }

    #[test]
    fn versions_that_hdf5_does_not_know_are_told_from_other_faults() {
        for reason in
            ["bad superblock version number", "x: bad version number for layout message", "wrong fixed array header version"]
        {
            assert!(is_of_a_newer_format(reason), "{reason}");
        }
        for reason in ["file signature not found", "unable to open file"] {
            assert!(!is_of_a_newer_format(reason), "{reason}");
        }
    }
}
