//! Output files that are renamed to their final name when they are complete.
//!
//! ```text
//! out.h5.a1B2c3.part/out.h5      the file, until it is renamed
//!                   /quire.lock  locked by the process that writes the file, for as long as it lives
//! ```
//!
//! The system releases the lock when that process ends, however it ends. A folder whose lock is free was left by a killed process; it is removed when the next
//! file of that name is begun. HDF5 locks the file itself by the same means, so the lock must be another file.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::{Builder, TempDir, TempPath};

use crate::library::system;
use crate::names::Name;

const LOCK: &str = "quire.lock";
const SUFFIX: &str = ".part";
/// Characters between the file's name and the suffix, as `tempfile` makes them.
const RANDOM: usize = 6;
/// Age up to which an empty folder without a lock file may belong to a process that has just made it. Older ones are removed.
const NEW: Duration = Duration::from_secs(60);

/// An incomplete file. Dropping this value removes it.
#[derive(Debug)]
pub(crate) struct Part {
    folder: TempDir,
    file: PathBuf,
    /// The lock file, held open until the file is complete.
    _lock: File,
}

/// Begins a file that will be renamed to `path`. First removes incomplete files that killed processes have left for `path`.
///
/// # Errors
/// With the path. A pipe or a device such as /dev/null is refused: the file would take its place.
pub(crate) fn begin(path: &Path) -> Result<Part> {
    let shown = Name::from(path);
    let name = path.file_name().with_context(|| format!("{shown}: it names no file"))?;
    let is_file = fs::metadata(path).map_or(true, |found| found.is_file());
    ensure!(is_file, "{shown} is a folder, a pipe or a device, which a file cannot replace: name a file");
    clean(path);
    begin_in(parent(path), name).with_context(|| shown.clone())
}

fn begin_in(parent: &Path, name: &OsStr) -> Result<Part> {
    loop {
        // Nobody else may look into the folder; who may read the file itself is for the user's umask to say.
        let folder = Builder::new().prefix(&prefix(name)).rand_bytes(RANDOM).suffix(SUFFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        match lock.try_lock() {
            // Another process has taken the folder for one that was left: before it was locked, or between that and now.
            Err(TryLockError::WouldBlock) => continue,
            Ok(()) if system::is_removed(&lock) => continue,
            // Some file systems have no locks; nobody can lock the file there, so that nobody removes it either.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let file = folder.path().join(name);
        return Ok(Part { folder, file, _lock: lock });
    }
}

impl Part {
    /// The temporary path of the incomplete file.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }

    /// Flushes the file to disk, then renames it to `path`. An existing file is replaced only if `force` is true. The new file then takes the permissions of the
    /// one that it replaces, but none for a group that is another one.
    ///
    /// # Errors
    /// With the path.
    pub(crate) fn keep(self, path: &Path, force: bool) -> Result<()> {
        self.keep_as(path, force).with_context(|| Name::from(path))
    }

    fn keep_as(self, path: &Path, force: bool) -> std::io::Result<()> {
        // Opened anew: HDF5 has written through a descriptor of its own.
        let written = system::open_for_sync(&self.file)?;
        match fs::metadata(path) {
            Ok(replaced) if force => system::take_permissions(&written, &replaced)?,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        written.sync_all()?;
        let file = TempPath::try_from_path(&self.file)?;
        let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
        match kept {
            // Some file systems cannot rename without replacing. Check for an existing file there.
            Err(error) if error.error.kind() != ErrorKind::AlreadyExists && path.symlink_metadata().is_err() => {
                error.path.persist(path)?;
            }
            kept => kept?,
        }
        // A folder that stays is removed the next time.
        let _ = self.folder.close();
        Ok(())
    }
}

/// Removes the incomplete files that killed processes have left for `path`, as far as permissions allow.
pub(crate) fn clean(path: &Path) {
    let (Some(name), Ok(entries)) = (path.file_name(), fs::read_dir(parent(path))) else { return };
    for entry in entries.flatten().filter(|entry| is_part(&entry.file_name(), name)) {
        let folder = entry.path();
        // A link to a folder is none.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let lock = folder.join(LOCK);
        // Open for writing, as file systems of other machines want it for a lock.
        match OpenOptions::new().write(true).open(&lock) {
            Ok(opened) if opened.try_lock().is_ok() => {
                // The folder is kept if it contains any other file, which is not ours.
                let _ = fs::remove_file(folder.join(name));
                let _ = fs::remove_file(lock);
                let _ = fs::remove_dir(&folder);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let age = entry.metadata().and_then(|found| found.modified()).map(|made| made.elapsed().unwrap_or_default());
                if age.is_ok_and(|age| age > NEW) {
                    let _ = fs::remove_dir(&folder);
                }
            }
            _ => {}
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn prefix(name: &OsStr) -> OsString {
    let mut prefix = name.to_owned();
    prefix.push(".");
    prefix
}

/// Whether a folder's name is one that [`begin`] makes for this file.
fn is_part(folder: &OsStr, name: &OsStr) -> bool {
    let random = folder
        .as_encoded_bytes()
        .strip_prefix(prefix(name).as_encoded_bytes())
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    random.is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    fn entries(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_kept_or_goes_without_a_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        drop(begin(&path).expect("begun"));
        assert_eq!(entries(folder.path()), [""; 0]);
        for (contents, force) in [("one", false), ("two", true)] {
            let part = begin(&path).expect("begun");
            fs::write(part.path(), contents).expect("written");
            part.keep(&path, force).expect("kept");
            assert_eq!(fs::read_to_string(&path).expect("out"), contents);
        }
        let fresh = folder.path().join("fresh");
        fs::write(&fresh, "").expect("written");
        assert_eq!(mode(&path), mode(&fresh), "a new file has the permissions that the umask leaves");
        fs::remove_file(fresh).expect("removed");
        fs::set_permissions(&path, Permissions::from_mode(0o604)).expect("changed");
        let part = begin(&path).expect("begun");
        fs::write(part.path(), "two").expect("written");
        part.keep(&path, true).expect("kept");
        assert_eq!(mode(&path), 0o604, "a file that replaces another has its permissions");
        let part = begin(&path).expect("begun");
        fs::write(part.path(), "three").expect("written");
        assert!(format!("{:#}", part.keep(&path, false).expect_err("it is there")).contains("exists"));
        assert_eq!((fs::read_to_string(&path).expect("out"), entries(folder.path())), ("two".to_owned(), vec!["out".to_owned()]));
    }

    #[test]
    fn what_was_left_goes_and_what_is_in_use_or_not_ours_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let in_use = begin(&path).expect("begun");
        let make = |name: &str, files: &[&str]| {
            fs::create_dir(folder.path().join(name)).expect("a folder");
            files.iter().for_each(|file| fs::write(folder.path().join(name).join(file), "").expect("written"));
        };
        make("out.left00.part", &["quire.lock", "out"]);
        make("out.start0.part", &["quire.lock"]);
        make("out.mine00.part", &["quire.lock", "out", "letter"]);
        make("out.nolock.part", &["out"]);
        make("out.just00.part", &[]);
        make("out.empty0.part", &[]);
        make("out.toolong.part", &["quire.lock", "out"]);
        make("other.left00.part", &["quire.lock", "other"]);
        let made =
            |name: &str, time| File::open(folder.path().join(name)).and_then(|opened| opened.set_modified(time)).expect("set");
        made("out.empty0.part", SystemTime::now() - 2 * NEW);
        // However long this test takes.
        made("out.just00.part", SystemTime::now() + 100 * NEW);
        clean(&path);
        let own = in_use.folder.path().file_name().expect("a name").to_str().expect("a name").to_owned();
        let mut left = ["other.left00.part", &own, "out.just00.part", "out.mine00.part", "out.nolock.part", "out.toolong.part"]
            .map(str::to_owned);
        left.sort();
        assert_eq!(entries(folder.path()), left);
        assert_eq!(entries(&folder.path().join("out.mine00.part")), ["letter"]);
        drop(in_use);
        clean(&path);
        assert!(!folder.path().join(own).exists());
    }
}
