//! `quire`: what H5Z-Quire's users do from a shell.
//!
//! ```text
//! arguments: bounds, shapes ─┐                      ┌─> output: tables, JSON, files that come under their name when they are whole
//! datasets: the user's files ┴─> one module a subcommand
//!      └─ library: HDF5's calls that have no safe form
//! ```

mod args;
mod arguments;
mod datasets;
mod doctor;
mod estimate;
mod inspect;
mod library;
mod output;
mod promise;
mod repack;
mod shell;
mod train;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use output::Outcome;

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
    Estimate(estimate::Arguments),
    Repack(repack::Arguments),
    Doctor(doctor::Arguments),
    Train(train::Arguments),
    Completions(shell::Completions),
    Man(shell::Manual),
}

const EXIT_CODES: &str = "Exit codes: 0 all is done and well; 1 it failed, or something is wrong that it says; 2 the arguments make no sense.\n\
    Errors and notes go to standard error; with --json, standard output is one JSON value, or nothing after an error.";

/// Exit code of a failure; clap ends with 2 for arguments that it does not understand.
const FAILURE: u8 = 1;

/// The arguments, as they are parsed, completed and printed in manuals.
fn description() -> clap::Command {
    Arguments::command().after_help(EXIT_CODES).mut_subcommands(|subcommand| subcommand.after_help(EXIT_CODES))
}

fn main() -> ExitCode {
    // Errors come back as values; HDF5 need not print them as well.
    hdf5::silence_errors(true);
    library::end_with_a_closed_pipe();
    let arguments = Arguments::from_arg_matches(&description().get_matches()).unwrap_or_else(|error| error.exit());
    let done = match arguments.command {
        Command::Args(arguments) => args::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Estimate(arguments) => estimate::run(&arguments),
        Command::Repack(arguments) => repack::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments, description()),
        Command::Man(arguments) => shell::manual(&arguments, description()),
    };
    match done {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Wrong) => ExitCode::from(FAILURE),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(FAILURE)
        }
    }
}
