//! `quire args`: converts options in words to `cd_values` in the syntax of each HDF5 client, and `cd_values` to options.

use clap::Args;
use h5zquire::{FILTER_ID, cd_values};
use serde_json::json;

use crate::arguments::{Bounds, refuse_arguments};
use crate::library::message;
use crate::output::{Outcome, print_json, say};

/// Convert options to filter parameters for h5repack, h5py, nccopy and C, and back
///
/// Prints the filter's parameters (`cd_values`) for the given options, in the syntax of each client. Given `cd_values` separated by commas, it prints the options that they encode.
///
/// Example: quire args rel=1e-3
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Options such as abs=1e-3 or rel=1e-4,coding=bitshuffle; or cd_values such as 1,3539053052,1062232653
    #[arg(value_name = "OPTIONS|NUMBERS")]
    text: Option<String>,
    #[command(flatten)]
    bounds: Bounds,
    /// Print one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Says why the options or numbers are invalid.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let said = message::<quire_codec::Error>;
    let given = match &arguments.text {
        // h5dump prints words as signed numbers.
        Some(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            let word = |word: &str| word.parse::<u32>().or_else(|_| word.parse::<i32>().map(i32::cast_unsigned));
            let words: Result<Vec<u32>, _> = words.map(word).collect();
            let words =
                words.map_err(|_| format!("{text:?} is not a list of 32-bit numbers with commas between them, such as 2,3"));
            let options = words.and_then(|words| cd_values::to_options(&words).map_err(said));
            options.unwrap_or_else(|error| refuse_arguments(&error))
        }
        Some(text) if arguments.bounds.texts().is_empty() => text.clone(),
        Some(text) => refuse_arguments(&format!("{text:?} and a bound by a flag: give one of them")),
        None => arguments.bounds.text(),
    };
    let words = cd_values::from_options(&given).unwrap_or_else(|error| refuse_arguments(&error.to_string()));
    let options = cd_values::to_options(&words).map_err(said)?;
    let listed = words.iter().map(u32::to_string).collect::<Vec<_>>();
    let (count, spaced, listed) = (words.len(), listed.join(", "), listed.join(","));
    let h5repack = format!("UD={FILTER_ID},0,{count},{listed}");
    if arguments.json {
        print_json(&json!({ "options": options, "filter": FILTER_ID, "cd_values": words, "h5repack": h5repack }));
        return Ok(Outcome::Done);
    }
    say(format_args!("options       {options}"));
    say(format_args!("cd_values     {listed}"));
    say(format_args!("h5repack      -f DATASET:{h5repack}"));
    say(format_args!("h5py, xarray  compression={FILTER_ID}, compression_opts=({spaced}{})", if count == 1 { "," } else { "" }));
    say(format_args!("nccopy        -F DATASET,{FILTER_ID},{listed}"));
    say(format_args!(
        "C             unsigned values[] = {{{listed}}}; H5Pset_filter(dcpl, {FILTER_ID}, H5Z_FLAG_MANDATORY, {count}, values);"
    ));
    Ok(Outcome::Done)
}
