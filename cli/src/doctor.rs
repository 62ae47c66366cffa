//! `quire doctor`: checks HDF5, the plugin, the NVIDIA driver and the GPU, alone and together, and says how to repair what fails.

mod files;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use h5zquire::FILTER_ID;
use hdf5::File;
use hdf5::filters::Filter;
use quire_codec::stages::header;
use serde::Serialize;
use serde_json::json;

use crate::library::system::LIBRARY_NAME;
use crate::library::{chunks, plugins};
use crate::names::Name;
use crate::output::{Outcome, print_json, say};

/// Check whether the filter works on this machine, and say how to repair it if not
///
/// Looks for HDF5, its plugin folders, the plugin, the NVIDIA driver and a GPU, checks the environment variables, and writes and reads a small dataset in
/// memory through HDF5 and the plugin. The exit code is 1 if the filter does not work. A machine without a GPU is no problem: the filter then runs on the CPU.
///
/// Given files, it also says which of their datasets this HDF5 cannot read, for lack of a filter or as a newer HDF5 wrote them, which sources of virtual
/// datasets are not there, and which datasets have small chunks. The exit code is then 1 if a dataset cannot be read.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// HDF5 files to check as well, or a dataset or group in one, such as run.h5:/fields/u
    #[arg(value_name = "FILE[:/PATH]")]
    pub(crate) sources: Vec<OsString>,
    /// Print one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// The environment variables that change how HDF5 finds the plugin or how the plugin works.
const VARIABLES: [&str; 8] = [
    "HDF5_PLUGIN_PATH",
    "HDF5_PLUGIN_PRELOAD",
    "QUIRE_BACKEND",
    "QUIRE_DEVICE",
    "QUIRE_LOG",
    "QUIRE_THREADS",
    "QUIRE_DICTIONARY",
    "QUIRE_CODEBOOK",
];

const ENVIRONMENT: &str = "environment";
const PLUGIN: &str = "plugin";
/// The remedy for a plugin of another build.
const OF_THIS_BUILD: &str = "replace it by a build of the same H5Z-Quire as this program";

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Well,
    /// Worth knowing; the filter works.
    Note,
    /// The filter does not work because of it.
    Wrong,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    state: State,
    text: String,
    /// How to repair it.
    remedy: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// If a file cannot be read. A problem of the filter is a finding.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let mut findings = vec![hdf5_library()];
    findings.extend(environment());
    findings.extend(plugin_files()?);
    let is_well = |findings: &[Finding]| findings.iter().all(|finding| finding.state != State::Wrong);
    for finding in [Some(registered()), Some(driver()), backend(), Some(round_trip())].into_iter().flatten() {
        // What follows from a cause that is named already is not named once more.
        if finding.state != State::Wrong || is_well(&findings) {
            findings.push(finding);
        }
    }
    let is_working = is_well(&findings);
    for source in &arguments.sources {
        findings.extend(files::check(source)?);
    }
    let is_well = is_well(&findings);
    if arguments.json {
        print_json(json!({ "well": is_well, "findings": findings }));
    } else {
        findings.iter().for_each(Finding::print);
        say(match (is_working, is_well) {
            (true, true) => "the filter works here",
            (true, false) => "the filter works here, but not all of these datasets can be read",
            (false, _) => "the filter does not work here",
        });
    }
    Ok(if is_well { Outcome::Done } else { Outcome::Wrong })
}

impl Finding {
    fn well(about: &'static str, text: String) -> Self {
        Self { about, state: State::Well, text, remedy: None }
    }

    fn note(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about, state: State::Note, text: text.into(), remedy: Some(remedy.into()) }
    }

    fn wrong(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about, state: State::Wrong, text: text.into(), remedy: Some(remedy.into()) }
    }

    fn print(&self) {
        let mark = match self.state {
            State::Well => "ok   ",
            State::Note => "note ",
            State::Wrong => "WRONG",
        };
        say(format_args!("{mark}  {:<12}  {}", self.about, self.text));
        if let Some(remedy) = &self.remedy {
            say(format_args!("                     -> {remedy}"));
        }
    }
}

fn hdf5_library() -> Finding {
    let (major, minor, micro) = hdf5::library_version();
    let text = format!("HDF5 {major}.{minor}.{micro} is linked into this program; other programs may bring their own");
    Finding::well("HDF5", text)
}

fn environment() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, value) in std::env::vars_os() {
        let shown = Name::from(&name);
        if VARIABLES.iter().any(|&known| name == known) {
            findings.push(Finding::well(ENVIRONMENT, format!("{shown}={}", Name::from(&value))));
        } else if shown.as_bytes().starts_with(b"QUIRE_") && name != "QUIRE_REQUIRE_CUDA" {
            let remedy = format!("the variables are {}", VARIABLES[2..].join(", "));
            findings.push(Finding::note(ENVIRONMENT, format!("{shown} is set, but the filter has no such variable"), remedy));
        }
    }
    if let Err(error) = h5zquire::check_environment() {
        let remedy = "set it as it says, or unset it; until then the filter refuses every dataset";
        findings.push(Finding::wrong(ENVIRONMENT, error.to_string(), remedy));
    }
    findings
}

/// Checks the folders in which HDF5 looks for plugins, and the plugins in them.
fn plugin_files() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut files = 0;
    for folder in &plugins::folders()? {
        let shown = Name::from(folder);
        let file = folder.join(LIBRARY_NAME);
        findings.push(if file.exists() {
            files += 1;
            plugin_file(file)
        } else if folder.is_dir() {
            Finding::well(PLUGIN, format!("HDF5 looks into {shown}: no {LIBRARY_NAME} there"))
        } else {
            let remedy = if std::env::var_os("HDF5_PLUGIN_PATH").is_some() {
                "correct HDF5_PLUGIN_PATH, which has folders with colons between them, if the plugin is to be there"
            } else {
                "it is built into HDF5, and searched because HDF5_PLUGIN_PATH is not set: set it to the plugin's folder"
            };
            Finding::note(PLUGIN, format!("HDF5 looks into {shown}, which is not a folder"), remedy)
        });
    }
    if files > 1 {
        let text = format!("there are {files} files {LIBRARY_NAME}: HDF5 takes the first that loads");
        findings.push(Finding::note(PLUGIN, text, "leave the one that you mean"));
    }
    if files == 0 {
        let remedy = match beside_this_program() {
            Some(folder) => format!("export HDF5_PLUGIN_PATH={}, where there is one", Name::from(&folder)),
            None => {
                format!("build it (cargo build --release -p h5z-quire) and name the folder of {LIBRARY_NAME} in HDF5_PLUGIN_PATH")
            }
        };
        // HDF5 does not ask for a name, and a program may register the filter itself.
        let state = if Filter::get_info(FILTER_ID).is_available { State::Note } else { State::Wrong };
        let text = format!("no folder of HDF5's has {LIBRARY_NAME}");
        findings.push(Finding { about: PLUGIN, state, text, remedy: Some(remedy) });
    }
    Ok(findings)
}

fn plugin_file(file: PathBuf) -> Finding {
    let shown = Name::from(&file);
    match plugins::load_filter(&file) {
        Ok((FILTER_ID, name)) => Finding::well(PLUGIN, format!("{shown}: filter {FILTER_ID}, {name}")),
        Ok((id, name)) => {
            let text = format!("{shown} is the plugin of filter {id}, {name}: H5Z-Quire is filter {FILTER_ID}");
            Finding::wrong(PLUGIN, text, OF_THIS_BUILD)
        }
        Err(reason) => {
            let remedy = "replace it by a build for this system: `ldd -r` on it says what it misses";
            Finding::wrong(PLUGIN, format!("{shown}: {reason:#}"), remedy)
        }
    }
}

/// The folder of this program, if it holds the plugin, as cargo's build folder does.
fn beside_this_program() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.to_path_buf();
    folder.join(LIBRARY_NAME).is_file().then_some(folder)
}

/// Checks that HDF5 finds the filter by its number.
fn registered() -> Finding {
    const ABOUT: &str = "filter";
    const REPORT: &str = "name the plugin's folder in HDF5_PLUGIN_PATH; if it is there, please report this with the output of `quire doctor --json`";
    let info = Filter::get_info(FILTER_ID);
    if info.is_available && info.encode_enabled && info.decode_enabled {
        return Finding::well(ABOUT, format!("HDF5 finds filter {FILTER_ID} for writing and reading"));
    }
    match plugins::may_load_filters() {
        Ok(false) => Finding::wrong(ABOUT, "HDF5 is told to load no plugins", "unset HDF5_PLUGIN_PRELOAD"),
        _ => Finding::wrong(ABOUT, format!("HDF5 does not find filter {FILTER_ID}"), REPORT),
    }
}

/// The file in which the NVIDIA driver gives its version.
const DRIVER: &str = "/proc/driver/nvidia/version";

fn driver() -> Finding {
    const ABOUT: &str = "driver";
    let Ok(text) = std::fs::read_to_string(DRIVER) else {
        let remedy = "where there is an NVIDIA GPU, install its driver; without one, nothing is to be done";
        return Finding::note(ABOUT, format!("no NVIDIA driver is loaded: there is no {DRIVER}"), remedy);
    };
    Finding::well(ABOUT, text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Asks the plugin which backend it will use; `None` without a plugin.
fn backend() -> Option<Finding> {
    const ABOUT: &str = "GPU";
    let file = plugins::folders().ok()?.into_iter().map(|folder| folder.join(LIBRARY_NAME)).find(|file| file.is_file())?;
    let info = match plugins::info_of(&file) {
        Ok(info) => info,
        Err(reason) => return Some(Finding::note(ABOUT, format!("{}: {reason:#}", Name::from(&file)), OF_THIS_BUILD)),
    };
    let text_of = |key: &str| info[key].as_str().unwrap_or_default();
    let (version, device, why) = (text_of("version"), text_of("device"), text_of("why"));
    let drivers = info["oldest_driver"]
        .as_str()
        .map(|oldest| format!("; its kernels need a driver of {oldest} or newer"))
        .unwrap_or_default();
    Some(match text_of("backend") {
        "cuda" => Finding::well(ABOUT, format!("the plugin, version {version}, uses {device}: {why}{drivers}")),
        "cpu" => {
            let remedy = "the CPU does the work; README, GPU, says what a GPU needs";
            Finding::note(ABOUT, format!("the plugin, version {version}, uses the CPU: {why}{drivers}"), remedy)
        }
        _ => {
            let text = format!("the plugin can use neither GPU nor CPU: {why}");
            Finding::wrong(ABOUT, text, "unset QUIRE_BACKEND, or see README, GPU")
        }
    })
}

/// Writes a small dataset through HDF5 and the plugin, and reads it back.
fn round_trip() -> Finding {
    const ABOUT: &str = "round trip";
    let remedy = "unless it says what to do, please report this with the output of `quire doctor --json`";
    try_round_trip().map_or_else(|reason| Finding::wrong(ABOUT, format!("{reason:#}"), remedy), |text| Finding::well(ABOUT, text))
}

/// Number of values of that dataset: more than the chunk cache holds, so that reading decompresses.
const VALUES: usize = 1 << 19;
const BOUND: f64 = 1e-3;

fn try_round_trip() -> Result<String> {
    // HDF5 skips an optional filter that it does not find, and the crate `hdf5` makes all filters optional. The stored bytes are therefore checked below.
    let words = h5zquire::cd_values::from_options(&format!("abs={BOUND}"))?;
    let memory = File::with_options().with_fapl(|list| list.core_filebacked(false)).create("quire-doctor")?;
    let values: Vec<f32> = (0..VALUES).map(|index| (index as f32 * 1e-3).sin()).collect();
    let builder = memory.new_dataset::<f32>().shape(VALUES).chunk(VALUES).add_filter(FILTER_ID, &words);
    builder.create("values")?.write_raw(&values)?;
    let dataset = memory.dataset("values")?;
    let mut stream = Vec::new();
    ensure!(chunks::read(&dataset, &[0], &mut stream)? == 0, "HDF5 stored the data without the filter");
    let read = dataset.read_raw::<f32>()?;
    let is_kept = |(&before, &after): (&f32, &f32)| (f64::from(before) - f64::from(after)).abs() <= BOUND;
    let are_kept = read.len() == VALUES && values.iter().zip(&read).all(is_kept);
    ensure!(are_kept, "values that were read back differ by more than the bound, {BOUND:e}");
    let text = |(major, minor)| format!("{major}.{minor}");
    let (version, own) = (header::version_of(&stream).map(text).unwrap_or_default(), text(header::VERSION));
    let ratio = (VALUES * size_of::<f32>()) as f64 / stream.len() as f64;
    ensure!(
        version == own,
        "the plugin writes streams of format {version}, this program reads {own}: install both from one build"
    );
    Ok(format!("{VALUES} values through HDF5 and the plugin: within the bound, ratio {ratio:.1}, streams of format {version}"))
}
