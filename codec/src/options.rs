//! The options text: `abs=1e-3,coding=huffman` and the like, for command lines, scripts, and plugin interfaces that pass strings.
//!
//! | key | value |
//! |---|---|
//! | `abs` | absolute bound, in the data's own units; with `ratio`, the largest bound that may be taken |
//! | `rel` | share of the range of each chunk's finite values |
//! | `pwrel` | point-wise relative bound: share of each value |
//! | `psnr` | PSNR of each chunk, in dB |
//! | `ratio` | compression ratio: bytes of a chunk over bytes of its stream |
//! | `lossless` | no value |
//! | `coding` | `auto`, `huffman`, `bitshuffle` |
//! | `adapt` | `none`; `history`: codebooks of earlier chunks may be used again |
//! | `keep` | `order`: the order of values; `sign:0`, `sign:0:273.15`: the sides of thresholds; `order+sign:0`: both ([`Keep`]) |
//! | `brick` | extents, slowest first, of the bricks in which a chunk's values lie, as in `32x32x32` ([`Brick`]) |

use std::fmt;

use crate::brick::Brick;
use crate::config::{AdaptPolicy, CodingPolicy, Config, ErrorBound};
use crate::error::{Error, Result};
use crate::keep::Keep;

/// Names of the codings.
const CODINGS: [(&str, CodingPolicy); 3] =
    [("auto", CodingPolicy::Auto), ("huffman", CodingPolicy::Huffman), ("bitshuffle", CodingPolicy::Bitshuffle)];
/// Names of the policies of adaptation.
const ADAPTING: [(&str, AdaptPolicy); 2] = [("none", AdaptPolicy::None), ("history", AdaptPolicy::History)];

const HOW_TO: &str = "give one of abs=, rel=, pwrel=, psnr=, ratio= (with abs= beside it, if you like) or lossless, and perhaps coding=auto, huffman or \
                      bitshuffle, adapt=none or history, keep=order or keep=sign:0, and brick=AxBxC, with commas between them, as in abs=1e-3,coding=huffman";

/// What an options text says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// What the encoder is to do.
    pub config: Config<'static>,
    /// How a chunk's values lie in its layout, for [`Layout::in_bricks`](crate::Layout::in_bricks).
    pub brick: Option<Brick>,
}

/// Parses an options text.
///
/// # Errors
/// `InvalidArgument` with the mistake and the options that exist.
pub fn parse(text: &str) -> Result<Options> {
    let refused = |detail: fmt::Arguments<'_>| Error::invalid(format_args!("options {text:?}: {detail}; {HOW_TO}"));
    let reworded = |error: Error| error.reworded(|error| refused(format_args!("{error}")));
    let mut numbers: [Option<f64>; 5] = [None; 5];
    const NUMBERS: [&str; 5] = ["abs", "rel", "pwrel", "psnr", "ratio"];
    let (mut lossless, mut coding, mut adapt, mut keep, mut brick) = (None, None, None, None, None);
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (option, None),
        };
        let twice = || refused(format_args!("{key} is given twice"));
        let unknown = || refused(format_args!("{key}={} is unknown", value.unwrap_or("")));
        if let Some(number) = NUMBERS.iter().position(|&name| name == key) {
            let value = value.ok_or_else(|| refused(format_args!("{key} needs a value")))?;
            let value: f64 = value.parse().map_err(|_| refused(format_args!("{key}={value} is not a number")))?;
            once(&mut numbers[number], value, twice)?;
        } else if key == "lossless" {
            if let Some(value) = value {
                return Err(refused(format_args!("lossless takes no value, {value:?} given")));
            }
            once(&mut lossless, (), twice)?;
        } else if key == "coding" {
            once(&mut coding, named(&CODINGS, value).ok_or_else(unknown)?, twice)?;
        } else if key == "adapt" {
            once(&mut adapt, named(&ADAPTING, value).ok_or_else(unknown)?, twice)?;
        } else if key == "keep" {
            once(&mut keep, Keep::parse(value.unwrap_or("")).map_err(reworded)?, twice)?;
        } else if key == "brick" {
            let given = Brick::parse(value.unwrap_or("")).map_err(reworded)?;
            once(&mut brick, given, twice)?;
        } else {
            return Err(refused(format_args!("{key:?} is unknown")));
        }
    }
    let bound = match (numbers, lossless) {
        ([Some(bound), None, None, None, None], None) => ErrorBound::Absolute(bound),
        ([None, Some(share), None, None, None], None) => ErrorBound::Relative(share),
        ([None, None, Some(share), None, None], None) => ErrorBound::PointwiseRelative(share),
        ([None, None, None, Some(decibels), None], None) => ErrorBound::Psnr(decibels),
        ([ceiling, None, None, None, Some(ratio)], None) => ErrorBound::Ratio { ratio, ceiling },
        ([None, None, None, None, None], Some(())) => ErrorBound::Lossless,
        ([None, None, None, None, None], None) => return Err(refused(format_args!("they have no bound"))),
        _ => return Err(refused(format_args!("they have more than one bound"))),
    };
    let config = Config::new(bound).map_err(reworded)?;
    let config =
        Config { coding: coding.unwrap_or_default(), adapt: adapt.unwrap_or_default(), keep: keep.unwrap_or_default(), ..config };
    Ok(Options { config, brick })
}

/// Sets what an option says, unless the option was given before.
fn once<T>(slot: &mut Option<T>, value: T, twice: impl FnOnce() -> Error) -> Result<()> {
    if slot.replace(value).is_some() { Err(twice()) } else { Ok(()) }
}

/// The choice with a name.
fn named<T: Copy>(choices: &[(&str, T)], value: Option<&str>) -> Option<T> {
    choices.iter().find(|(name, _)| Some(*name) == value).map(|&(_, choice)| choice)
}

/// The option for a choice, with a comma before it; empty for the default choice.
fn option<T: Copy + PartialEq + Default>(choices: &[(&str, T)], key: &str, choice: T) -> String {
    let name = choices.iter().find(|(_, other)| *other == choice && choice != T::default());
    name.map(|(name, _)| format!(",{key}={name}")).unwrap_or_default()
}

/// The text of options. [`parse`] restores them, except for fields of the configuration that have no option.
#[must_use]
pub fn format(Options { config, brick }: &Options) -> String {
    let bound = match config.bound {
        ErrorBound::Absolute(bound) => format!("abs={bound:e}"),
        ErrorBound::Relative(share) => format!("rel={share:e}"),
        ErrorBound::PointwiseRelative(share) => format!("pwrel={share:e}"),
        ErrorBound::Psnr(decibels) => format!("psnr={decibels}"),
        ErrorBound::Ratio { ratio, ceiling: None } => format!("ratio={ratio}"),
        ErrorBound::Ratio { ratio, ceiling: Some(ceiling) } => format!("ratio={ratio},abs={ceiling:e}"),
        ErrorBound::Lossless => "lossless".to_owned(),
    };
    let keep = if config.keep.is_nothing() { String::new() } else { format!(",keep={}", config.keep) };
    let brick = brick.map(|brick| format!(",brick={brick}")).unwrap_or_default();
    bound + &option(&CODINGS, "coding", config.coding) + &option(&ADAPTING, "adapt", config.adapt) + &keep + &brick
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_configurations_correspond() {
        for (text, bound) in [
            ("abs=1e-3", ErrorBound::Absolute(1e-3)),
            ("abs=2.5e2", ErrorBound::Absolute(250.0)),
            ("rel=1e-4", ErrorBound::Relative(1e-4)),
            ("pwrel=1e-2", ErrorBound::PointwiseRelative(0.01)),
            ("psnr=64.5", ErrorBound::Psnr(64.5)),
            ("ratio=20", ErrorBound::Ratio { ratio: 20.0, ceiling: None }),
            ("ratio=20,abs=1e-1", ErrorBound::Ratio { ratio: 20.0, ceiling: Some(0.1) }),
            ("lossless", ErrorBound::Lossless),
        ] {
            for (suffix, coding, adapt) in [
                ("", CodingPolicy::Auto, AdaptPolicy::None),
                (",coding=huffman", CodingPolicy::Huffman, AdaptPolicy::None),
                (",coding=bitshuffle", CodingPolicy::Bitshuffle, AdaptPolicy::None),
                (",adapt=history", CodingPolicy::Auto, AdaptPolicy::History),
                (",coding=huffman,adapt=history", CodingPolicy::Huffman, AdaptPolicy::History),
            ] {
                let config = Config { coding, adapt, ..Config::new(bound).unwrap() };
                for (suffix_2, brick) in [("", None), (",brick=8x32x32", Some(Brick::new(&[8, 32, 32]).unwrap()))] {
                    let text = format!("{text}{suffix}{suffix_2}");
                    let options = Options { config, brick };
                    assert_eq!(parse(&text), Ok(options), "{text}");
                    assert_eq!(format(&options), text);
                }
            }
        }
        for text in ["abs=1e0,keep=order", "rel=1e-3,keep=sign:0:-273.15", "lossless,adapt=history,keep=order+sign:1e-7:1e300"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
        let without_brick = |bound| Options { config: Config::absolute(bound).unwrap(), brick: None };
        assert_eq!(parse(" adapt=none, abs = 0.1 , coding=auto,"), Ok(without_brick(0.1)));
        assert_eq!(parse("abs=0").map(|options| options.config.bound), Ok(ErrorBound::Lossless));
        for bound in [0.1 + 0.2, 1e-300, f64::MIN_POSITIVE * 4.0, 1.234_567_890_123_456_7e89] {
            assert_eq!(parse(&format(&without_brick(bound))), Ok(without_brick(bound)));
        }
    }

    #[test]
    fn refusals_say_what_was_wrong_and_what_can_be_given() {
        for (text, reason) in [
            ("", "no bound"),
            ("coding=auto", "no bound"),
            ("abs", "abs needs a value"),
            ("abs=one", "abs=one is not a number"),
            ("abs=-1", "absolute error bound is -1"),
            ("abs=nan", "absolute error bound is NaN"),
            ("abs=1,rel=1", "more than one bound"),
            ("abs=1,abs=2", "abs is given twice"),
            ("lossless,abs=1", "more than one bound"),
            ("lossless=1", "takes no value"),
            ("rel=2", "relative error bound is 2"),
            ("pwrel=1", "point-wise relative error bound is 1"),
            ("psnr=0", "PSNR is 0"),
            ("ratio=1", "compression ratio is 1"),
            ("ratio=9,abs=-2", "beside the ratio is -2"),
            ("abs=1,coding=zstd", "coding=zstd is unknown"),
            ("abs=1,adapt", "adapt= is unknown"),
            ("abs=1,adapt=none,adapt=none", "adapt is given twice"),
            ("abs=1,keep=all", "keep=all is unknown"),
            ("abs=1,keep=orders", "keep=orders is unknown"),
            ("abs=1,keep=order,keep=sign:0", "keep is given twice"),
            ("abs=1,keep=sign:x", "keep=sign:x is unknown"),
            ("abs=1,keep=sign:inf", "threshold inf is not finite"),
            ("abs=1,keep=sign:1:2:3:4:5", "more than 4 thresholds"),
            ("abs=1,brick", "brick \"\": it must have 1 to 4 extents"),
            ("abs=1,brick=8x0", "brick [8, 0]: it must have"),
            ("abs=1,brick=8,brick=8", "brick is given twice"),
            ("brick=8", "no bound"),
            ("eb=1", "\"eb\" is unknown"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("abs=1e-3,coding=huffman"), "{text:?}: {error}");
        }
    }
}
