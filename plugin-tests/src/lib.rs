//! Real HDF5 clients against the plugin, each in a process of its own.
//!
//! A test makes a [`Sandbox`], builds a command for a client in it, and hands the command to [`succeed`] or its like. The clients'
//! side stands in `py/` and `c/`. `run.sh` installs the clients; one that is missing fails its tests.

use std::fmt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

/// The filter's id.
pub const FILTER_ID: u32 = 33791;

/// File name of the plugin.
pub const LIBRARY_NAME: &str = "libh5zquire.so";

/// Seconds after which a client counts as hanging. The slowest took 110 on two cores that had other work, too; beside programs of a higher priority it may take
/// ten times as long.
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

    /// The Python package as a wheel would install it, in a folder for `PYTHONPATH`: its sources, the plugin, and its version.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn install_package(&self) -> PathBuf {
        let folder = self.path("packages");
        let package = folder.join("h5z_quire");
        let metadata = folder.join(format!("h5z_quire-{}.dist-info", env!("CARGO_PKG_VERSION")));
        for new in [&package.join("plugins"), &metadata] {
            std::fs::create_dir_all(new).expect("no folder for the package");
        }
        let text = format!("Metadata-Version: 2.1\nName: h5z-quire\nVersion: {}\n", env!("CARGO_PKG_VERSION"));
        std::fs::write(metadata.join("METADATA"), text).expect("no metadata");
        let copy = |from: &Path, to: &Path| _ = std::fs::copy(from, to).expect("the package could not be copied");
        for entry in std::fs::read_dir(repository().join("python/src/h5z_quire")).expect("no sources of the package") {
            let path = entry.expect("unreadable entry").path();
            if path.is_file() {
                copy(&path, &package.join(path.file_name().expect("a file has a name")));
            }
        }
        copy(plugin_library(), &package.join("plugins").join(LIBRARY_NAME));
        folder
    }

    /// A command that finds the plugin by `HDF5_PLUGIN_PATH`, runs in this folder, and is ended when it hangs. Signals have their default actions: the caller
    /// of the tests may ignore some, as a shell does for `run.sh &`.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.prepared(&["timeout", "--kill-after=10", CLIENT_SECONDS], program)
    }

    /// A command like [`Sandbox::command`], but without `timeout` around it: signals meet the program itself, and nothing ends it when it hangs.
    #[must_use]
    pub fn endless_command(&self, program: impl AsRef<Path>) -> Command {
        self.prepared(&[], program)
    }

    fn prepared(&self, before: &[&str], program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .args(before)
            .arg(program.as_ref())
            .env("HDF5_PLUGIN_PATH", self.plugin_folder())
            // The scripts lie in the source tree; it stays clean.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// A command that runs a script of `py/`, which may import the decoder and what else is in `streams/`.
    #[must_use]
    pub fn python(&self, python: Python, script: &str) -> Command {
        let mut command = self.command(python.interpreter());
        command.arg(crate_folder().join("py").join(script)).env("PYTHONPATH", repository().join("streams"));
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

/// Runs the command, which must end by itself: with success or with an error, but without a signal and without hanging.
///
/// # Panics
/// If it cannot be run or is ended. The message holds all that it printed.
#[must_use]
pub fn end_in_order(command: &mut Command) -> Report {
    let (code, report) = run(command);
    assert!(code < TIMED_OUT, "{}", describe(command, code, &report));
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

/// Whether the command was ended by a signal, or by us because it hung; and what it said.
///
/// # Panics
/// If it cannot be run.
#[must_use]
pub fn crashes(command: &mut Command) -> (bool, Report) {
    let (code, report) = run(command);
    (code >= TIMED_OUT, report)
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
#[must_use]
pub fn plugin_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built(LIBRARY_NAME))
}

/// The command line, built in release.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn command_line() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("quire"))
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
#[must_use]
pub fn target_folder() -> PathBuf {
    let program = std::env::current_exe().expect("no path of the test program");
    program.ancestors().nth(3).expect("the test program does not lie in a target folder").to_path_buf()
}

/// The folder of gpu/emulator's stand-in for NVIDIA's driver: where `QUIRE_EMULATOR` says that it was built, or built now.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn emulated_driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        std::env::var_os("QUIRE_EMULATOR").map_or_else(
            || {
                let folder = target_folder().join("emulator-driver");
                let mut build = Command::new(repository().join("gpu/emulator/build.sh"));
                let status = build.arg(&folder).env("CARGO_TARGET_DIR", target_folder()).status().expect("a shell");
                assert!(status.success(), "the driver does not build");
                folder
            },
            PathBuf::from,
        )
    })
}

/// A file of `c/`, built as a shared library.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn shared_library(sandbox: &Sandbox, name: &str) -> PathBuf {
    let library = sandbox.path(&format!("lib{name}.so"));
    let source = crate_folder().join(format!("c/{name}.c"));
    let mut command = sandbox.command("gcc");
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"]);
    let _ = succeed(command.arg(&library).arg(source).arg("-ldl"));
    library
}

/// A folder with a driver that fails (`c/failing_cuda.c`), before the emulated one. It is beside the plugin, where `gpu_checks.py` looks for it.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn failing_driver(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.plugin_folder().join("failing_cuda");
    std::fs::create_dir(&folder).expect("a folder");
    let (driver, real) = (folder.join("libcuda.so.1"), folder.join("libcuda_real.so"));
    // The driver's other half is linked by its name alone.
    let mut command = sandbox.command("cc");
    let _ = succeed(command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda_real.so", "-x", "c", "/dev/null", "-o"]).arg(&real));
    let mut command = sandbox.command("cc");
    command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]).arg(crate_folder().join("c/failing_cuda.c"));
    let _ = succeed(command.arg("-Wl,--no-as-needed").arg(&real).arg("-o").arg(&driver).arg("-ldl"));
    std::fs::remove_file(&real).expect("a file");
    symlink(emulated_driver().join("libcuda.so.1"), real).expect("a link");
    symlink("libcuda.so.1", folder.join("libcuda.so")).expect("a link");
    folder
}

/// Time that attacks may take, from the environment's `QUIRE_ATTACK_MINUTES`; none for the short form that every test run has.
///
/// # Panics
/// If the variable is not a number of minutes.
#[must_use]
pub fn attack_time() -> Duration {
    let minutes = std::env::var("QUIRE_ATTACK_MINUTES").unwrap_or_else(|_| "0".to_owned());
    let seconds = minutes.parse().map(|minutes: f64| 60.0 * minutes);
    let time = seconds.ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.unwrap_or_else(|| panic!("QUIRE_ATTACK_MINUTES={minutes} is not a number of minutes"))
}

/// This crate's folder.
#[must_use]
pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The repository's folder.
#[must_use]
pub fn repository() -> &'static Path {
    crate_folder().parent().expect("the crate lies in the repository")
}
