//! `quire`: the command line of H5Z-Quire.
//!
//! ```text
//! arguments: bounds, shapes ─┐                      ┌─> output: tables, lines, JSON; part: output files that are renamed when complete
//! datasets: the user's files ┴─> one module a subcommand
//!      └─ library: unsafe calls of HDF5, with names of any bytes, in a child process because damaged files can crash HDF5
//! ```

mod advise;
mod args;
mod arguments;
mod boxes;
mod choice;
mod compare;
mod datasets;
mod doctor;
mod filters;
mod inspect;
mod jobs;
mod kept;
mod library;
mod names;
mod output;
mod part;
mod repack;
mod shell;
mod slabs;
mod small_chunks;
mod train;
mod verify;

use std::ffi::OsString;
use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use library::process::{self, End, Signal};
use names::{Name, escape};
use output::{Outcome, complain};

/// The command line of H5Z-Quire, the HDF5 filter that compresses within an error bound
#[derive(Debug, Parser)]
#[command(name = "quire", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Args(args::Arguments),
    Inspect(inspect::Arguments),
    Advise(advise::Arguments),
    Repack(repack::Arguments),
    Verify(verify::Arguments),
    Doctor(doctor::Arguments),
    Train(train::Arguments),
    Completions(shell::Completions),
    Man(shell::Manual),
}

const EXIT_CODES: &str = "Exit codes: 0 success; 1 the command failed or reported a problem; 2 invalid arguments.\n\
    Errors and notes go to standard error. With --json, standard output is one JSON value, or empty after an error.";

/// Exit code of a failure. Invalid arguments end with 2, which is clap's code.
const FAILURE: u8 = 1;

/// The description of all arguments, from which clap parses them and prints help, completions and manual pages.
fn description() -> clap::Command {
    Arguments::command().after_help(EXIT_CODES).mut_subcommands(|subcommand| subcommand.after_help(EXIT_CODES))
}

/// Parses the arguments. Invalid ones, and requests for help, end the program.
fn parse_arguments() -> Arguments {
    let parsed = |arguments: &[OsString]| {
        description().try_get_matches_from(arguments).and_then(|matches| Arguments::from_arg_matches(&matches))
    };
    let given: Vec<OsString> = std::env::args_os().collect();
    parsed(&given).unwrap_or_else(|error| {
        // clap quotes arguments in its errors. It parses escaped ones for that, so that no control character reaches the terminal.
        let shown: Vec<OsString> = given.iter().map(|argument| escape(argument.as_encoded_bytes()).into()).collect();
        parsed(&shown).err().unwrap_or(error).exit()
    })
}

fn main() -> ExitCode {
    process::end_with_a_closed_pipe();
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no reason is given");
        let location = panic.location().map(|location| format!(" ({}:{})", location.file(), location.line())).unwrap_or_default();
        complain(format_args!("error: this should not happen, unless the file is damaged: {message}{location}"));
    }));
    let arguments = parse_arguments();
    let outputs = arguments.command.outputs();
    if !arguments.command.reads_files() {
        return ExitCode::from(run(arguments.command));
    }
    let end = process::in_child(|| run(arguments.command));
    if let End::Signal(_) = end {
        outputs.iter().for_each(|output| part::clean(output));
    }
    match end {
        End::Code(code) => ExitCode::from(code),
        End::Signal(signal) => {
            process::end_as_asked(signal);
            // Erase the rest of a progress bar.
            if stderr().is_terminal() {
                eprint!("\r\x1b[2K");
            }
            complain(format_args!("error: {}", killed(signal, process::noted().as_ref(), &outputs)));
            ExitCode::from(FAILURE)
        }
    }
}

/// The error message for a child process that a signal ended: the signal, the dataset it was reading, and the state of the output files.
fn killed(signal: Signal, reading: Option<&Name>, outputs: &[PathBuf]) -> String {
    let on_reading = reading.map(|name| format!(" on reading {name}")).unwrap_or_default();
    let mut text = if process::is_crash(signal) {
        format!("HDF5 crashed{on_reading} ({}): the file is probably damaged", process::describe(signal))
    } else {
        format!("this program was ended{on_reading} ({}), as the system does where memory has run out", process::describe(signal))
    };
    let is_there = |output: &PathBuf| output.symlink_metadata().is_ok();
    match outputs {
        [] => {}
        [output] => {
            text += &format!("; {} {}", Name::from(output), if is_there(output) { "is as it was" } else { "was not made" })
        }
        outputs => {
            let missing: Vec<String> =
                outputs.iter().filter(|output| !is_there(output)).map(|output| Name::from(output).to_string()).collect();
            text += &format!("; {} of {} files were not made: {}", missing.len(), outputs.len(), missing.join(", "));
        }
    }
    text
}

impl Command {
    /// Whether the subcommand reads HDF5 files, which may be damaged; it then runs in a child process.
    fn reads_files(&self) -> bool {
        match self {
            Self::Inspect(_) | Self::Advise(_) | Self::Repack(_) | Self::Verify(_) | Self::Train(_) => true,
            Self::Doctor(arguments) => !arguments.sources.is_empty(),
            _ => false,
        }
    }

    /// The files that the subcommand writes.
    fn outputs(&self) -> Vec<PathBuf> {
        match self {
            Self::Repack(arguments) => arguments.outputs(),
            Self::Train(arguments) => vec![arguments.output.clone()],
            Self::Verify(arguments) => arguments.wanted.files(),
            _ => Vec::new(),
        }
    }
}

/// Runs a subcommand and returns the exit code.
fn run(command: Command) -> u8 {
    // Errors are returned as values, so HDF5 does not print them.
    hdf5::silence_errors(true);
    let done = match command {
        Command::Args(arguments) => args::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Repack(arguments) => repack::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments, description()),
        Command::Man(arguments) => shell::manual(&arguments, description()),
    };
    match done {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Wrong) => FAILURE,
        Err(error) => {
            complain(format_args!("error: {error:#}"));
            FAILURE
        }
    }
}
