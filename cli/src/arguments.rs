//! What several subcommands take: bounds, in words or as flags, and shapes of chunks.

use clap::Args;
use quire_codec::options;

use crate::library::message;
use crate::names::escape;

/// What data are to be written with: an options text, or the same by flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is to hold")]
pub(crate) struct Bounds {
    /// All in one text, such as rel=1e-3,coding=bitshuffle
    #[arg(long = "options", value_name = "OPTIONS")]
    options: Vec<String>,
    /// Every value is off by no more, in the data's own units
    #[arg(long, value_name = "BOUND", allow_negative_numbers = true)]
    abs: Vec<String>,
    /// Every value is off by no more than this share of the range of its chunk
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    rel: Vec<String>,
    /// Every value is off by no more than this share of itself
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pwrel: Vec<String>,
    /// Peak signal-to-noise ratio of each chunk, in dB
    #[arg(long, value_name = "DECIBELS", allow_negative_numbers = true)]
    psnr: Vec<String>,
    /// Each chunk shrinks to one part of so many; with one --abs beside it, which is not exceeded for it
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    ratio: Vec<String>,
    /// The exact bits
    #[arg(long)]
    lossless: bool,
    /// How what the prediction leaves is coded: auto, huffman, or bitshuffle, which a GPU codes fastest
    #[arg(long, value_name = "CODING")]
    coding: Option<String>,
    /// Whether codebooks of the chunks before may be taken again: none, or history
    #[arg(long, value_name = "HOW")]
    adapt: Option<String>,
}

impl Bounds {
    /// The options texts that were given, each understood, in the words of [`options::format`].
    ///
    /// # Errors
    /// With what was wrong and what can be given.
    fn understood(&self) -> Result<Vec<String>, String> {
        let option =
            |key: &str, value: &Option<String>| value.as_ref().map(|value| format!(",{key}={value}")).unwrap_or_default();
        let coding = option("coding", &self.coding) + &option("adapt", &self.adapt);
        let mut texts: Vec<String> = self.options.iter().map(|text| format!("{text}{coding}")).collect();
        let mut abs = &self.abs[..];
        if let ([ratio], [ceiling]) = (&self.ratio[..], abs) {
            texts.push(format!("ratio={ratio},abs={ceiling}{coding}"));
            abs = &[];
        } else {
            texts.extend(self.ratio.iter().map(|ratio| format!("ratio={ratio}{coding}")));
        }
        for (key, values) in [("abs", abs), ("rel", &self.rel), ("pwrel", &self.pwrel), ("psnr", &self.psnr)] {
            texts.extend(values.iter().map(|value| format!("{key}={value}{coding}")));
        }
        if self.lossless {
            texts.push(format!("lossless{coding}"));
        }
        let formatted = |text: &String| Ok(options::format(&options::parse(text)?));
        texts.iter().map(formatted).collect::<quire_codec::Result<_>>().map_err(message)
    }

    /// The same; what makes no sense ends the program as clap would.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.understood().unwrap_or_else(|error| refuse_arguments(&error))
    }

    /// The one options text that was given; none, or more than one, end the program as clap would.
    pub(crate) fn text(&self) -> String {
        match &self.texts()[..] {
            [text] => text.clone(),
            [] => {
                refuse_arguments("no bound is given: say one of --abs, --rel, --pwrel, --psnr, --ratio, --lossless or --options")
            }
            more => refuse_arguments(&format!("{} bounds are given ({}): say one", more.len(), more.join(" and "))),
        }
    }
}

/// Ends the program with the code that clap ends it with: to be called before it has begun anything.
pub(crate) fn refuse_arguments(reason: &str) -> ! {
    eprintln!("error: {}\n\nFor more information, try '--help'.", escape(reason.as_bytes()));
    std::process::exit(2)
}

/// Extents, slowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape(pub(crate) Vec<usize>);

/// Understands extents with x between them.
///
/// # Errors
/// With the text and how to write one.
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    let sides: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    match sides {
        Ok(sides) if !sides.contains(&0) => Ok(Shape(sides)),
        _ => Err(format!("{text:?} is no shape: give extents of at least 1 with x between them, slowest first, as in 64x64x64")),
    }
}

/// Extents as [`shape`] reads them.
pub(crate) fn shape_text<T: ToString>(sides: &[T]) -> String {
    sides.iter().map(T::to_string).collect::<Vec<_>>().join("x")
}
