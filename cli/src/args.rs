//! `quire args`: converts options in words to `cd_values` in the syntax of each HDF5 client, and `cd_values` to options.

use anyhow::{Context as _, Result};
use clap::Args;
use h5zquire::{FILTER_ID, cd_values};
use serde_json::json;

use crate::arguments::{Bounds, refuse_arguments};
use crate::output::{Outcome, print_json, say};

/// Convert options to filter parameters for h5repack, h5py, nccopy and C, and back
///
/// Prints the filter's parameters (`cd_values`) for the given options, in the syntax of each client, and in their short form where there is one. Given
/// `cd_values`, separated by commas or spaces, it prints the options that they encode.
///
/// Example: quire args rel=1e-3
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Options such as abs=1e-3 or rel=1e-4,coding=bitshuffle; or cd_values such as 2,3 or 1,3539053052,1062232653
    #[arg(value_name = "OPTIONS|NUMBERS", allow_negative_numbers = true)]
    texts: Vec<String>,
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
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let joined = arguments.texts.join(",");
    let given = match Some(&joined).filter(|text| !text.is_empty()) {
        Some(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            options_of(text).unwrap_or_else(|error| refuse_arguments(&format!("{error:#}")))
        }
        Some(text) if arguments.bounds.texts().is_empty() => text.clone(),
        Some(text) => refuse_arguments(&format!("{text:?} and a bound by a flag: give one of them")),
        None => arguments.bounds.text(),
    };
    let words = cd_values::from_options(&given).unwrap_or_else(|error| refuse_arguments(&error.to_string()));
    let options = cd_values::to_options(&words)?;
    let listed = words.iter().map(u32::to_string).collect::<Vec<_>>();
    let (count, spaced, listed) = (words.len(), listed.join(", "), listed.join(","));
    let short = short_form(&words);
    let h5repack = format!("UD={FILTER_ID},0,{count},{listed}");
    if arguments.json {
        print_json(json!({ "options": options, "filter": FILTER_ID, "cd_values": words, "short": short, "h5repack": h5repack }));
        return Ok(Outcome::Done);
    }
    say(format_args!("options       {options}"));
    say(format_args!("cd_values     {listed}"));
    if let Some(short) = &short {
        say(format_args!("short form    {short}, which the filter turns into these"));
    }
    say(format_args!("h5repack      -f DATASET:{h5repack}"));
    say(format_args!("h5py, xarray  compression={FILTER_ID}, compression_opts=({spaced}{})", if count == 1 { "," } else { "" }));
    say(format_args!("nccopy        -F DATASET,{FILTER_ID},{listed}"));
    say(format_args!(
        "C             unsigned values[] = {{{listed}}}; H5Pset_filter(dcpl, {FILTER_ID}, H5Z_FLAG_MANDATORY, {count}, values);"
    ));
    Ok(Outcome::Done)
}

/// The options that a list of `cd_values` encodes.
fn options_of(text: &str) -> Result<String> {
    // h5dump prints words as signed numbers.
    let word = |word: &str| word.parse::<u32>().or_else(|_| word.parse::<i32>().map(i32::cast_unsigned));
    let words: Result<Vec<u32>, _> = text.split([',', ' ']).filter(|word| !word.is_empty()).map(word).collect();
    let words =
        words.ok().with_context(|| format!("{text:?} is not a list of 32-bit numbers with commas between them, such as 2,3"))?;
    Ok(cd_values::to_options(&words)?)
}

/// The short form of `cd_values`, if they have one: the bound `m * 10^-e` as the words `e,m`, or `e` alone where `m` is 1. Its mode is one more than that of
/// the long form, whose words are the bound's bits.
fn short_form(words: &[u32]) -> Option<String> {
    let (&first, rest) = words.split_first()?;
    // The brick's extents and the thresholds stay as they are.
    let (kept, bits) = rest.split_at_checked((first >> 24) as usize + 2 * (first >> 20 & 15) as usize)?;
    let mut short = vec![first.checked_add(1)?];
    short.extend_from_slice(kept);
    let numbers: Vec<f64> =
        bits.as_chunks::<2>().0.iter().map(|&[low, high]| f64::from_bits(u64::from(high) << 32 | u64::from(low))).collect();
    for &number in &numbers {
        // The shortest digits that give the number back, without the decimal point.
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e')?;
        let places = digits.split_once('.').map_or(0, |(_, places)| places.len() as i32);
        let mantissa: u32 = digits.replace('.', "").parse().ok()?;
        let exponent = places - exponent.parse::<i32>().ok()?;
        let scale = 10u32.checked_pow(u32::try_from(-exponent.min(0)).ok()?)?;
        let (mantissa, exponent) = (mantissa.checked_mul(scale)?, u32::try_from(exponent.max(0)).ok()?);
        short.push(exponent);
        // Clients make 0 of a fraction, so that a 0 alone is refused. A mode with two numbers takes four words.
        if mantissa != 1 || exponent == 0 || numbers.len() > 1 {
            short.push(mantissa);
        }
    }
    // What the filter would understand is what counts.
    let is_same =
        numbers.len() * 2 == bits.len() && !numbers.is_empty() && cd_values::to_options(&short) == cd_values::to_options(words);
    is_same.then(|| short.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_those_of_the_format() {
        for (options, short) in [
            ("abs=1e-3", Some("2,3")),
            ("abs=0.0025", Some("2,4,25")),
            ("abs=1", Some("2,0,1")),
            ("abs=250", Some("2,0,250")),
            ("abs=1e-3,coding=bitshuffle", Some("514,3")),
            ("abs=1e-3,adapt=history", Some("65538,3")),
            ("rel=1e-4", Some("4,4")),
            ("psnr=60", Some("8,0,60")),
            ("ratio=20,abs=0.1", Some("12,0,20,1,1")),
            ("abs=0.0009765625", Some("2,10,9765625")),
            ("abs=0.1234567890123", None),
            ("abs=1e12", None),
            ("abs=1e-3,brick=16x32x64", Some("50331650,16,32,64,3")),
            ("abs=1e-3,keep=order", Some("131074,3")),
            ("abs=1e-3,keep=sign:0", Some("1048578,0,0,3")),
            ("lossless", None),
        ] {
            let words = cd_values::from_options(options).expect("options");
            assert_eq!(short_form(&words).as_deref(), short, "{options}");
        }
    }
}
