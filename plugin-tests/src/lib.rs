//! Scripts that check the format, each in a process of its own. The tests of clients are pytest's: `conftest.py`, `test_*.py`.
//!
//! A test makes a [`Sandbox`], builds a command in it, and hands the command to [`succeed`] or its like. The scripts stand in `py/`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// File name of the plugin.
pub const LIBRARY_NAME: &str = "libh5zquire.so";

/// Seconds after which a client counts as hanging. The slowest, `decoder_matrix.py`, took 110 on two cores that had other work, too; beside programs of a higher
/// priority it may take ten times as long.
const CLIENT_SECONDS: &str = "7200";

/// `timeout` ends with this code when the time is up, with 125 and more when the client could not be run or died by a signal.
const TIMED_OUT: i32 = 124;

/// A Python with h5py.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Python {
    /// The h5py wheel that carries HDF5 2.0, with netCDF4 and PyTables, which carry an HDF5 each.
    Hdf5_2_0,
    /// The h5py wheel that carries HDF5 1.14.
    Hdf5_1_14,
    /// Debian's own h5py, which links Debian's HDF5.
    Debian,
}

impl Python {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hdf5_2_0, Self::Hdf5_1_14, Self::Debian];

    /// The interpreter.
    #[must_use]
    pub fn interpreter(self) -> PathBuf {
        match self {
            Self::Hdf5_2_0 => repository().join(".venv-hdf5-2.0/bin/python"),
            Self::Hdf5_1_14 => repository().join(".venv-hdf5-1.14/bin/python"),
            Self::Debian => PathBuf::from("/usr/bin/python3"),
        }
    }
}

impl fmt::Display for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hdf5_2_0 => "h5py wheel on HDF5 2.0",
            Self::Hdf5_1_14 => "h5py wheel on HDF5 1.14",
            Self::Debian => "Debian's h5py",
        })
    }
}

/// What a client said before it ended.
#[derive(Debug, Clone)]
pub struct Report {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A temporary folder with a plugin folder that holds our plugin and nothing else. It goes when the value is dropped.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// Builds the plugin, unless this process already has, and copies it into a new folder.
    ///
    /// # Panics
    /// If the plugin does not build or the folder cannot be written.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a default value should not run cargo")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("no temporary folder");
        let sandbox = Self { folder };
        std::fs::create_dir(sandbox.plugin_folder()).expect("no plugin folder");
        std::fs::copy(plugin_library(), sandbox.plugin_folder().join(LIBRARY_NAME)).expect("the plugin could not be copied");
        sandbox
    }

    /// A path within the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder that `HDF5_PLUGIN_PATH` names.
    #[must_use]
    pub fn plugin_folder(&self) -> PathBuf {
        self.path("plugins")
    }

    /// A command that finds the plugin by `HDF5_PLUGIN_PATH`, runs in this folder, and is ended when it hangs. Signals have their default actions: the caller
    /// of the tests may ignore some, as a shell does for `run.sh &`.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("env");
        command
            .args(["--default-signal", "timeout", "--kill-after=10", CLIENT_SECONDS])
            .arg(program.as_ref())
            .env("HDF5_PLUGIN_PATH", self.plugin_folder())
            // The scripts lie in the source tree; it stays clean.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// A command that runs a script of `py/`.
    #[must_use]
    pub fn python(&self, python: Python, script: &str) -> Command {
        let mut command = self.command(python.interpreter());
        command.arg(crate_folder().join("py").join(script));
        command
    }
}

/// Runs the command, which must end with 0.
///
/// # Panics
/// If it cannot be run or ends in any other way. The message holds all that it printed.
#[must_use]
pub fn succeed(command: &mut Command) -> Report {
    let (code, report) = run(command);
    assert!(code == 0, "{}", describe(command, code, &report));
    report
}

/// Runs the command, which must end by itself with this code.
///
/// # Panics
/// If it cannot be run or ends in any other way. The message holds all that it printed.
#[must_use]
pub fn end_with(code: i32, command: &mut Command) -> Report {
    let (found, report) = run(command);
    assert!(found == code, "{code} was expected: {}", describe(command, found, &report));
    report
}

fn run(command: &mut Command) -> (i32, Report) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} could not be run: {error}"));
    let report = Report {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    // `timeout` itself dies by the signal that ended the client, or ends with 128 and the signal's number.
    (output.status.code().unwrap_or(128), report)
}

fn describe(command: &Command, code: i32, report: &Report) -> String {
    let meaning = match code {
        TIMED_OUT | 137 => format!("it was ended after {CLIENT_SECONDS} seconds, or killed for its memory"),
        127 => "there is no such program; plugin-tests/run.sh installs the clients".to_owned(),
        128.. => format!("it crashed by signal {}", code - 128),
        _ => format!("it ended with {code}"),
    };
    format!("{command:?}: {meaning}\n-- standard output\n{}\n-- standard error\n{}", report.stdout, report.stderr)
}

/// Every one of `words` stands in what the client printed.
///
/// # Panics
/// If one is missing.
pub fn assert_says(report: &Report, words: &[&str]) {
    for word in words {
        let found = report.stdout.contains(word) || report.stderr.contains(word);
        assert!(found, "\"{word}\" is missing in\n-- standard output\n{}\n-- standard error\n{}", report.stdout, report.stderr);
    }
}

/// The plugin, built in release: what users install, whatever profile the tests have.
///
/// # Panics
/// If it does not build.
fn plugin_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built(LIBRARY_NAME))
}

/// A file that comes of building the plugin and the command line in release. `QUIRE_RELEASE` names the folder where run.sh has built them; without it
/// they are built here, by one command: cargo chooses the features of dependencies for all packages that a command names, and commands that name one
/// package each would undo one another's builds.
fn built(file: &str) -> PathBuf {
    static RELEASE: OnceLock<PathBuf> = OnceLock::new();
    let release = RELEASE.get_or_init(|| std::env::var_os("QUIRE_RELEASE").map_or_else(build, PathBuf::from));
    let path = release.join(file);
    assert!(path.is_file(), "there is no {}", path.display());
    path
}

/// Builds both; the folder in which they are.
fn build() -> PathBuf {
    let target = target_folder();
    // The outer cargo waits for us without holding the lock of the build folder.
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "-p", "h5z-quire", "-p", "quire-cli", "--target-dir"])
        .arg(&target)
        .current_dir(repository())
        .status()
        .expect("cargo could not be run");
    assert!(status.success(), "the plugin and the command line do not build");
    target.join("release")
}

/// Cargo's target folder: a test runs in `<target>/<profile>/deps`.
///
/// # Panics
/// If the test program lies elsewhere.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().expect("no path of the test program");
    program.ancestors().nth(3).expect("the test program does not lie in a target folder").to_path_buf()
}

/// This crate's folder.
fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The repository's folder.
#[must_use]
pub fn repository() -> &'static Path {
    crate_folder().parent().expect("the crate lies in the repository")
}
