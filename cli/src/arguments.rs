//! Arguments that several subcommands share: bounds (in words or as flags) and chunk shapes.

use anyhow::{Result, bail};
use clap::Args;
use quire_codec::options;

use crate::names::escape;

/// The bounds and codings to write data with, given as an options text or by one flag a bound.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bound and coding")]
pub(crate) struct Bounds {
    /// Bound and coding in one text, such as rel=1e-3,coding=bitshuffle
    #[arg(long = "options", value_name = "OPTIONS")]
    options: Vec<String>,
    /// Largest error of a value, in the units of the data; for example 0.01
    #[arg(long, value_name = "BOUND", allow_negative_numbers = true)]
    abs: Vec<String>,
    /// Largest error of a value as a fraction of its chunk's range (largest minus smallest value); 1e-3 is 0.1 %
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    rel: Vec<String>,
    /// Largest error of a value as a fraction of that value (point-wise relative); 1e-3 is 0.1 %
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pwrel: Vec<String>,
    /// Peak signal-to-noise ratio that each chunk is to have, in dB; for example 60
    #[arg(long, value_name = "DECIBELS", allow_negative_numbers = true)]
    psnr: Vec<String>,
    /// Compression ratio that each chunk is to have; 10 asks for a tenth of the bytes. Given with one --abs, that error bound also holds, even if the ratio is
    /// then missed
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    ratio: Vec<String>,
    /// Keep the exact bits of every value
    #[arg(long)]
    lossless: bool,
    /// Coding of the residuals: auto, huffman, or bitshuffle (bit planes, which a GPU codes fastest)
    #[arg(long, value_name = "CODING")]
    coding: Option<String>,
    /// What else to keep: order (no value passes another), sign:0 (values stay on their side of 0, or of other thresholds, as in sign:0:273.15), order+sign:0. Of
    /// quire advise also measures that the bound is to keep, one each: ssim=0.99995 (the least dSSIM of a plane), gradient=1e-2, psnr=60
    #[arg(long, value_name = "WHAT")]
    keep: Vec<String>,
    /// Reuse of codebooks from earlier chunks: none, or history (fewer codebooks are built)
    #[arg(long, value_name = "HOW")]
    adapt: Option<String>,
    /// Extents of a brick, slowest axis first, such as 32x32x32: a chunk's values are such bricks, one after the other, whatever its shape. A chunk must have
    /// whole rows of a brick, and compresses best if it has whole bricks
    #[arg(long, value_name = "SHAPE")]
    brick: Option<String>,
}

impl Bounds {
    /// All given bounds as canonical options texts, as [`options::format`] writes them. Invalid ones end the program with exit code 2, as clap does.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.texts_or(&[])
    }

    /// [`Bounds::texts`], or those of other bounds if none is given.
    pub(crate) fn texts_or(&self, usual: &[&str]) -> Vec<String> {
        let option =
            |key: &str, value: &Option<String>| value.as_ref().map(|value| format!(",{key}={value}")).unwrap_or_default();
        let kept: Vec<&str> = self.kept().map(String::as_str).collect();
        let keep = Some(kept.join("+")).filter(|kept| !kept.is_empty());
        let beside = [("coding", &self.coding), ("keep", &keep), ("adapt", &self.adapt), ("brick", &self.brick)];
        let coding: String = beside.iter().map(|(key, value)| option(key, value)).collect();
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
        if texts.is_empty() {
            texts = usual.iter().map(|bound| format!("{bound}{coding}")).collect();
        }
        let canonical = |text: &String| options::parse(text).map(|options| options::format(&options));
        texts.iter().map(|text| canonical(text).unwrap_or_else(|error| refuse_arguments(&error.to_string()))).collect()
    }

    /// What a stream is to keep beside its bound.
    fn kept(&self) -> impl Iterator<Item = &String> {
        self.keep.iter().filter(|text| !text.contains('='))
    }

    /// The measures that a bound is to keep, such as ssim=0.99995.
    pub(crate) fn measures(&self) -> impl Iterator<Item = &String> {
        self.keep.iter().filter(|text| text.contains('='))
    }

    /// The only given bound as a canonical options text. No bound, or several, end the program with exit code 2, as clap does.
    pub(crate) fn text(&self) -> String {
        self.text_if_any().unwrap_or_else(|| {
            refuse_arguments("no bound is given: say one of --abs, --rel, --pwrel, --psnr, --ratio, --lossless or --options")
        })
    }

    /// The only given bound as a canonical options text, if there is one. Several end the program with exit code 2, as clap does.
    pub(crate) fn text_if_any(&self) -> Option<String> {
        if let Some(measure) = self.measures().next() {
            refuse_arguments(&format!("--keep {measure}: quire advise finds the bound that keeps it"));
        }
        match &self.texts()[..] {
            [] => None,
            [text] => Some(text.clone()),
            more => refuse_arguments(&format!("{} bounds are given ({}): say one", more.len(), more.join(" and "))),
        }
    }
}

/// Prints why the arguments are invalid and ends the program with exit code 2, as clap does. Call it before any work has begun.
pub(crate) fn refuse_arguments(reason: &str) -> ! {
    eprintln!("error: {}\n\nFor more information, try '--help'.", escape(reason.as_bytes()));
    std::process::exit(2)
}

/// Extents of an array or chunk, slowest axis first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape(pub(crate) Vec<usize>);

/// Parses extents separated by x, such as 64x64x64.
///
/// # Errors
/// Quotes the text and shows how a shape is written.
pub(crate) fn shape(text: &str) -> Result<Shape> {
    let sides: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    match sides {
        Ok(sides) if !sides.contains(&0) => Ok(Shape(sides)),
        _ => bail!("{text:?} is not a shape: give extents of at least 1 with x between them, slowest first, as in 64x64x64"),
    }
}

/// Formats extents as [`shape`] parses them.
pub(crate) fn shape_text<T: ToString>(sides: &[T]) -> String {
    sides.iter().map(T::to_string).collect::<Vec<_>>().join("x")
}
