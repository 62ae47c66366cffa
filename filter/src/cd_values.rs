//! The filter's parameters: up to 24 unsigned 32-bit words that HDF5 calls `cd_values` and keeps with the dataset.
//!
//! Word 0 is mode + 256 × coding + 65536 × (adaptation + 2 × order + 16 × number of thresholds) + 16777216 × number of the brick's extents. These extents
//! follow, slowest first, then two words for each threshold, then the words of the mode, then those that `set_local` adds when a dataset is created.
//!
//! | mode | words of the user | meaning | the dataset keeps |
//! |---|---|---|---|
//! | 0 | – | the exact bits | 0 |
//! | 1 | `lo, hi` | absolute bound | 1 |
//! | 2 | `e` or `e, m` | the same as a decimal | 1 |
//! | 3, 4 | as 1, 2 | share of the chunk's range | 3 |
//! | 5, 6 | as 1, 2 | share of each value | 5 |
//! | 7, 8 | as 1, 2 | PSNR of the chunk, in dB | 7 |
//! | 9, 10 | as 1, 2 | compression ratio of the chunk | 9 |
//! | 11 | `lo, hi, lo, hi` | the same, and the absolute bound that is not exceeded for it | 11 |
//! | 12 | `e, m, e, m` | the same as decimals | 11 |
//!
//! A threshold has two words, `lo, hi`. `lo` and `hi` are bits 0-31 and 32-63 of an IEEE binary64. A decimal is `m * 10^-e`, rounded once to the nearest binary64; a missing `m` is 1: `2,3` is 1e-3
//! and `2,4,25` is 25e-4. Decimals are there for h5repack, whose users cannot write the bits of a number: `h5repack -f dset:UD=33791,0,2,2,3`.
//!
//! The coding is 0 for what promises the fewest bits, 1 for Huffman codes, 2 for bit planes, the fast lane of a GPU. The adaptation is 1 if books
//! of the chunks before may be taken again, else 0. The order is 1 if the order of values is kept, else 0.
//!
//! | words of `set_local` | |
//! |---|---|
//! | 1 | bits 24-31: `0x51`, bits 16-23: version of this part, 1, bits 8-15: value type as in the stream's header, bits 0-7: rank |
//! | rank | extents of the chunk after [`quire_codec::Layout::of_chunk`] and [`quire_codec::Layout::in_bricks`], slowest first |
//! | 1, or 2 for values of 64 bits | bits of the fill value, low half first, if there is one; of pairs as [`quire_codec::fill_bits`] has them |
//!
//! `set_local` may meet its own words again, when a property list is used for a second dataset or h5repack changes the chunks, and then
//! starts from the user's part. It keeps the fill value where the new dataset defines none and has the same type of values. The words steer the encoder; a
//! decoder compares streams with them but decodes without them.

use std::fmt;

use quire_codec::options::{self, Options};
use quire_codec::{
    AdaptPolicy, Brick, CodingPolicy, Config, Error, ErrorBound, Keep, Layout, MAX_RANK, MAX_THRESHOLDS, Result, Scalar, Shape,
    memory, type_of_byte,
};

use crate::message::Message;

/// Most words that a dataset has.
pub(crate) const MAX_WORDS: usize = 1 + MAX_RANK + 2 * MAX_THRESHOLDS + 4 + 1 + MAX_RANK + 2;

/// The codings, by their numbers in bits 8 to 15 of word 0.
const CODINGS: [CodingPolicy; 3] = [CodingPolicy::Auto, CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
/// In bits 16 to 23 of word 0: books of earlier chunks may be taken again. Bits 24 to 31 are the number of the brick's extents.
const HISTORY: u8 = 1;
/// In bits 16 to 23 of word 0: the order of values is kept.
const ORDER: u8 = 2;
/// The lowest bit of the number of thresholds, which is in bits 20 to 23 of word 0.
const THRESHOLD: u8 = 16;
/// 'Q' in the top byte of the first word of `set_local`.
const FILLED_MARKER: u32 = 0x51;
const FILLED_VERSION: u32 = 1;

const LOSSLESS: u32 = 0;
const ABSOLUTE: u32 = 1;
const RELATIVE: u32 = 3;
const POINTWISE_RELATIVE: u32 = 5;
const PSNR: u32 = 7;
const RATIO: u32 = 9;
const CAPPED_RATIO: u32 = 11;
/// The mode of a bound in decimals is one more than its mode in bits.
const LAST_MODE: u32 = CAPPED_RATIO + 1;

const HOW_TO: &str = "give 2,e or 2,e,m for an absolute error bound of m * 10^-e (2,3 is 1e-3), or 1,lo,hi with the two halves of the bound's \
                      64 bits, low half first (1,3539053052,1062232653 is 1e-3); 4 or 3 in place of 2 or 1 for a share of the chunk's range, 6 \
                      or 5 for a share of each value, 8 or 7 for a PSNR, 10 or 9 for a ratio, 0 alone for the exact bits; add 256 to the first \
                      number for Huffman codes, 512 for bit planes (fast on a GPU), 65536 for codebooks of the chunks before, 131072 to \
                      keep the order of values, 1048576 for each threshold whose sides are kept, and 16777216 for each extent of a brick; the extents \
                      follow the first number, then the two halves of each threshold";

/// An error that names the words and the reason.
type Refused<'a> = &'a dyn Fn(fmt::Arguments<'_>) -> Error;

/// The parameters, understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CdValues {
    /// What the encoder is to do.
    pub(crate) config: Config<'static>,
    /// How a chunk's values lie in it.
    pub(crate) brick: Option<Brick>,
    /// The chunk, once `set_local` has filled it in.
    pub(crate) layout: Option<Layout>,
}

/// The `cd_values` for an options text such as `abs=1e-3,coding=huffman` ([`quire_codec::options`]).
///
/// # Errors
/// `InvalidArgument` with the words seen and those that are possible.
pub fn from_options(text: &str) -> Result<Vec<u32>> {
    let Options { config, brick } = options::parse(text)?;
    CdValues { config, brick, layout: None }.to_words()
}

/// The options text of `cd_values`, a user's or a dataset's.
///
/// # Errors
/// `InvalidArgument` with the words seen and what to do.
pub fn to_options(words: &[u32]) -> Result<String> {
    let CdValues { config, brick, .. } = CdValues::parse(words)?;
    Ok(options::format(&Options { config, brick }))
}

impl CdValues {
    /// Understands words from a user or from a file.
    ///
    /// # Errors
    /// `InvalidArgument` with the value seen and what to do.
    pub(crate) fn parse(words: &[u32]) -> Result<Self> {
        if words.len() > MAX_WORDS {
            return Err(Error::invalid(format_args!(
                "there are {} cd_values: the filter has at most {MAX_WORDS}; {HOW_TO}",
                words.len()
            )));
        }
        let refused = |detail: fmt::Arguments<'_>| Error::invalid(format_args!("cd_values {words:?}: {detail}; {HOW_TO}"));
        let Some((&first, rest)) = words.split_first() else {
            return Err(Error::invalid(format_args!("no error bound is given (cd_values are empty): {HOW_TO}")));
        };
        let [rank, kept, coding, mode] = first.to_be_bytes();
        let coding = *CODINGS
            .get(usize::from(coding))
            .ok_or_else(|| refused(format_args!("word 0 asks for coding {coding} (its bits 8 to 15), there are 0 to 2")))?;
        if kept % THRESHOLD > HISTORY + ORDER {
            return Err(refused(format_args!("word 0 has {} in its bits 16 to 19, there are 0 to 3", kept % THRESHOLD)));
        }
        let adapt = if kept & HISTORY == 0 { AdaptPolicy::None } else { AdaptPolicy::History };
        let mode = u32::from(mode);
        if mode > LAST_MODE {
            return Err(refused(format_args!("mode {mode} is unknown, there are 0 to {LAST_MODE}")));
        }
        let (extents, rest) = rest.split_at_checked(usize::from(rank)).ok_or_else(|| {
            refused(format_args!("word 0 announces a brick of {rank} extents (its bits from 24 on), {} words follow", rest.len()))
        })?;
        let brick = match extents {
            [] => None,
            extents => Some(Brick::new(extents).map_err(|error| error.reworded(|error| refused(format_args!("{error}"))))?),
        };
        let (thresholds, rest) = rest.split_at_checked(2 * usize::from(kept / THRESHOLD)).ok_or_else(|| {
            let count = kept / THRESHOLD;
            refused(format_args!(
                "word 0 announces {count} thresholds of two words (its bits 20 to 23), {} words follow",
                rest.len()
            ))
        })?;
        let keep = if kept & ORDER == 0 { Keep::default() } else { Keep::default().and_order() };
        let keep = (thresholds.as_chunks().0.iter())
            .try_fold(keep, |keep, &[low, high]| keep.and_side_of(binary64(low, high)))
            .map_err(|error| error.reworded(|error| refused(format_args!("{error}"))))?;
        let (numbers, filled) = take_numbers(mode, rest, &refused)?;
        // The odd mode, of bits, also stands for the even mode behind it, of decimals.
        let bound = match (mode.next_multiple_of(2).saturating_sub(1), numbers) {
            (ABSOLUTE, [bound, _]) => ErrorBound::Absolute(bound),
            (RELATIVE, [share, _]) => ErrorBound::Relative(share),
            (POINTWISE_RELATIVE, [share, _]) => ErrorBound::PointwiseRelative(share),
            (PSNR, [decibels, _]) => ErrorBound::Psnr(decibels),
            (RATIO, [ratio, _]) => ErrorBound::Ratio { ratio, ceiling: None },
            (CAPPED_RATIO, [ratio, ceiling]) => ErrorBound::Ratio { ratio, ceiling: Some(ceiling) },
            (LOSSLESS, _) => ErrorBound::Lossless,
            _ => return Err(refused(format_args!("mode {mode} has no bound"))),
        };
        let config = Config::new(bound).map_err(|error| error.reworded(|error| refused(format_args!("{error}"))))?;
        let (layout, fill_value) = if filled.is_empty() { (None, None) } else { parse_filled(filled, &refused)? };
        Ok(Self { config: Config { coding, adapt, keep, fill_value, ..config }, brick, layout })
    }

    /// The fill value that the words carry, where they were filled in for values of this type. A copy of a dataset may define none: nccopy takes the words along
    /// and creates the dataset in netCDF's no-fill mode. The bits are those of the value, in whatever order the bytes lie.
    pub(crate) fn given_fill_value(&self, scalar: Scalar) -> Option<u64> {
        self.config.fill_value.filter(|_| self.layout.is_some_and(|layout| layout.scalar == scalar))
    }

    /// The parameters as words. Bounds are written as bits, never as decimals.
    ///
    /// # Errors
    /// `InvalidArgument` if an extent does not fit 32 bits.
    pub(crate) fn to_words(self) -> Result<Vec<u32>> {
        let (mode, numbers) = match self.config.bound {
            ErrorBound::Lossless => (LOSSLESS, [None; 2]),
            ErrorBound::Absolute(bound) => (ABSOLUTE, [Some(bound), None]),
            ErrorBound::Relative(share) => (RELATIVE, [Some(share), None]),
            ErrorBound::PointwiseRelative(share) => (POINTWISE_RELATIVE, [Some(share), None]),
            ErrorBound::Psnr(decibels) => (PSNR, [Some(decibels), None]),
            ErrorBound::Ratio { ratio, ceiling: None } => (RATIO, [Some(ratio), None]),
            ErrorBound::Ratio { ratio, ceiling: Some(ceiling) } => (CAPPED_RATIO, [Some(ratio), Some(ceiling)]),
        };
        let coding = CODINGS.iter().position(|&coding| coding == self.config.coding).unwrap_or(0) as u32;
        let Config { adapt, keep, .. } = self.config;
        let kept = [(HISTORY, adapt == AdaptPolicy::History), (ORDER, keep.has_order())]
            .map(|(bit, is_set)| if is_set { bit } else { 0 });
        let kept = u32::from(kept[0] + kept[1]) + keep.thresholds().len() as u32 * u32::from(THRESHOLD);
        let mut words = Vec::new();
        memory::reserve(&mut words, MAX_WORDS)?;
        let extents = self.brick.as_ref().map_or(&[][..], Brick::extents);
        words.push((extents.len() as u32) << 24 | kept << 16 | coding << 8 | mode);
        words.extend_from_slice(extents);
        let numbers = keep.thresholds().iter().copied().chain(numbers.into_iter().flatten());
        words.extend(numbers.map(f64::to_bits).flat_map(|bits| [bits as u32, (bits >> 32) as u32]));
        if let Some(layout) = self.layout {
            let dims = layout.shape.dims();
            words.push(FILLED_MARKER << 24 | FILLED_VERSION << 16 | u32::from(layout.type_byte()) << 8 | dims.len() as u32);
            for &extent in dims {
                words.push(u32::try_from(extent).map_err(|_| {
                    Error::invalid(format_args!(
                        "chunk dimensions {dims:?} (extents of 1 dropped, slowest ones folded to {MAX_RANK}): {extent} is more than {}; choose smaller chunks",
                        u32::MAX
                    ))
                })?);
            }
            if let Some(bits) = self.config.fill_value {
                words.extend_from_slice(&[bits as u32, (bits >> 32) as u32][..fill_words(layout.scalar)]);
            }
        }
        Ok(words)
    }
}

/// The number of which these are the two halves.
fn binary64(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

/// Reads a mode's numbers from the words behind word 0, and gives back the words behind them, which are those of `set_local`. Numbers that the mode does not
/// have are 0. Decimals are a user's: no words may follow them.
fn take_numbers<'a>(mode: u32, words: &'a [u32], refused: Refused<'_>) -> Result<([f64; 2], &'a [u32])> {
    let given = words.len();
    match (mode, words) {
        (LOSSLESS, filled) => Ok(([0.0; 2], filled)),
        (CAPPED_RATIO, &[low, high, low_2, high_2, ref filled @ ..]) => {
            Ok(([binary64(low, high), binary64(low_2, high_2)], filled))
        }
        (LAST_MODE, &[exponent, mantissa, exponent_2, mantissa_2]) => {
            Ok(([decimal(mantissa, exponent, refused)?, decimal(mantissa_2, exponent_2, refused)?], &[]))
        }
        (CAPPED_RATIO | LAST_MODE, _) => {
            Err(refused(format_args!("mode {mode} takes four words, two for the ratio and two for the bound, {given} given")))
        }
        (mode, &[low, high, ref filled @ ..]) if mode % 2 == 1 => Ok(([binary64(low, high), 0.0], filled)),
        (mode, _) if mode % 2 == 1 => {
            Err(refused(format_args!("mode {mode} takes the two halves of a number, {given} of them given")))
        }
        // HDF5's parameters are whole numbers, and h5py makes 0 of (2, 1e-3) without a word: the bound would be 1.
        (mode, &[0]) => Err(refused(format_args!(
            "mode {mode} and 0 alone would be a bound of 1. Parameters are whole numbers, and clients cut a fraction such as 1e-3 to 0: give its \
             exponent, as in {mode},3, or {mode},0,1 if 1 is meant"
        ))),
        (_, &[exponent]) => Ok(([decimal(1, exponent, refused)?, 0.0], &[])),
        (_, &[exponent, mantissa]) => Ok(([decimal(mantissa, exponent, refused)?, 0.0], &[])),
        _ => Err(refused(format_args!("mode {mode} takes the exponent e and perhaps m, {given} values given"))),
    }
}

/// `mantissa * 10^-exponent` rounded once. Multiplying by a power of ten would round twice, so the decimal is parsed.
fn decimal(mantissa: u32, exponent: u32, refused: Refused<'_>) -> Result<f64> {
    let number = Message::<32>::new(format_args!("{mantissa}e-{exponent}")).as_str().parse().unwrap_or(f64::NAN);
    if number == 0.0 && mantissa > 0 {
        return Err(refused(format_args!("{mantissa}e-{exponent} is too small for a binary64")));
    }
    Ok(number)
}

/// Words that a fill value takes.
fn fill_words(scalar: Scalar) -> usize {
    scalar.size().div_ceil(size_of::<u32>())
}

/// Understands the words that `set_local` has written: layout, and bits of the fill value.
fn parse_filled(filled: &[u32], refused: Refused<'_>) -> Result<(Option<Layout>, Option<u64>)> {
    let (description, rest) = filled.split_first().ok_or_else(|| refused(format_args!("the chunk's layout is missing")))?;
    let [marker, version, value_type, rank] = description.to_be_bytes();
    if u32::from(marker) != FILLED_MARKER {
        return Err(refused(format_args!(
            "{description:#010x} follows the bound: nothing may follow it but what the filter itself appends"
        )));
    }
    if u32::from(version) != FILLED_VERSION {
        return Err(refused(format_args!(
            "the filter's own words have version {version}, this build knows {FILLED_VERSION}: install a newer H5Z-Quire"
        )));
    }
    let (scalar, byte_order) = type_of_byte(value_type)
        .ok_or_else(|| refused(format_args!("value type {value_type} in {description:#010x} is unknown")))?;
    let (extents, fill) = rest
        .split_at_checked(usize::from(rank))
        .ok_or_else(|| refused(format_args!("{description:#010x} announces {rank} extents, {} words follow", rest.len())))?;
    let fill_value = match *fill {
        [] => None,
        [low] if fill_words(scalar) == 1 => Some(u64::from(low)),
        [low, high] if fill_words(scalar) == 2 => Some(u64::from(high) << 32 | u64::from(low)),
        _ => {
            let more = fill.len();
            return Err(refused(format_args!(
                "{description:#010x} announces {rank} extents, {more} more words follow than those"
            )));
        }
    };
    // No more than all words that there can be: `Shape` says which ranks are possible.
    let mut dims = [0; MAX_WORDS];
    let dims = &mut dims[..extents.len()];
    for (dim, &extent) in dims.iter_mut().zip(extents) {
        *dim = extent.into();
    }
    let shape = Shape::new(dims).map_err(|error| error.reworded(|error| refused(format_args!("{error}"))))?;
    let layout = Layout { scalar, byte_order, shape };
    layout.check_pairs().map_err(|error| error.reworded(|error| refused(format_args!("{error}"))))?;
    Ok((Some(layout), fill_value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_codec::{ByteOrder, Coding, Header};

    fn bound_of(words: &[u32]) -> f64 {
        let ErrorBound::Absolute(bound) = CdValues::parse(words).expect("accepted").config.bound else { panic!("not absolute") };
        bound
    }

    fn layout(scalar: Scalar, byte_order: ByteOrder, dims: &[u64]) -> Layout {
        Layout { scalar, byte_order, shape: Shape::new(dims).expect("a shape") }
    }

    fn assert_refused(words: &[u32], reason: &str) {
        let text = CdValues::parse(words).expect_err("refused").to_string();
        assert!(text.contains(reason), "{words:?}: {text:?} does not say {reason:?}");
        assert!(text.contains("2,3 is 1e-3") && text.contains("1,3539053052,1062232653 is 1e-3"), "{text:?} shows no way out");
    }

    #[test]
    fn the_examples_of_the_refusal_are_right() {
        assert_eq!(bound_of(&[2, 3]), 1e-3);
        assert_eq!(bound_of(&[1, 3539053052, 1062232653]), 1e-3);
    }

    #[test]
    fn decimals_are_rounded_once() {
        assert_eq!(bound_of(&[2, 0, 1]), 1.0);
        assert_eq!(bound_of(&[2, 0, 250]), 250.0);
        assert_eq!(bound_of(&[2, 4, 25]), 0.0025);
        assert_eq!(bound_of(&[2, 22, 3]), 3e-22);
        assert_eq!(bound_of(&[2, 23, 1]), 1e-23); // 1.0 / 1e23 gives its neighbour
        assert_eq!(bound_of(&[2, 300, 4294967295]), 4294967295e-300);
        assert_eq!(bound_of(&[2, 300]).to_bits(), 1e-300f64.to_bits());
    }

    #[test]
    fn every_mode_has_both_forms_and_survives() {
        let halves = |number: f64| [number.to_bits() as u32, (number.to_bits() >> 32) as u32];
        for (mode, decimal, number, bound) in [
            (1, &[2, 3, 25][..], 0.025, ErrorBound::Absolute(0.025)),
            (3, &[4, 3], 1e-3, ErrorBound::Relative(1e-3)),
            (5, &[6, 2, 5], 0.05, ErrorBound::PointwiseRelative(0.05)),
            (7, &[8, 1, 645], 64.5, ErrorBound::Psnr(64.5)),
            (9, &[10, 0, 20], 20.0, ErrorBound::Ratio { ratio: 20.0, ceiling: None }),
        ] {
            let config = Config::new(bound).expect("a bound");
            let words = [&[mode][..], &halves(number)].concat();
            for given in [decimal, &words] {
                let parsed = CdValues::parse(given).expect("accepted");
                assert_eq!(parsed, CdValues { config, brick: None, layout: None });
                assert_eq!(parsed.to_words().expect("words"), words);
            }
        }
        let capped = Config::new(ErrorBound::Ratio { ratio: 20.0, ceiling: Some(0.1) }).expect("a bound");
        let words = [&[11][..], &halves(20.0), &halves(0.1)].concat();
        for given in [&[12, 0, 20, 1, 1][..], &words] {
            let mut parsed = CdValues::parse(given).expect("accepted");
            assert_eq!(parsed, CdValues { config: capped, brick: None, layout: None });
            assert_eq!(parsed.to_words().expect("words"), words);
            parsed.layout = Some(layout(Scalar::U64, ByteOrder::Big, &[5, 6, 7, 8]));
            parsed.config.fill_value = Some(u64::MAX);
            parsed.brick = Some(Brick::new(&[5, 6, 7, 8]).expect("a brick"));
            let keep = [0.0, -1.5, 1e300, 2.0].into_iter().try_fold(parsed.config.keep, Keep::and_side_of);
            parsed.config.keep = keep.expect("thresholds");
            let filled = parsed.to_words().expect("words");
            assert_eq!((filled.len(), CdValues::parse(&filled)), (MAX_WORDS, Ok(parsed)));
        }
        for given in [&[0][..], &[1, 0, 0], &[2, 7, 0]] {
            let mut parsed = CdValues::parse(given).expect("accepted");
            assert_eq!((parsed.config.bound, parsed.to_words()), (ErrorBound::Lossless, Ok(vec![0])));
            parsed.layout = Some(layout(Scalar::I8, ByteOrder::Little, &[7]));
            let filled = parsed.to_words().expect("words");
            assert_eq!((filled.as_slice(), CdValues::parse(&filled)), (&[0, 0x5101_0401, 7][..], Ok(parsed)));
        }
    }

    #[test]
    fn options_and_words_are_the_same() {
        for (text, words) in [
            ("abs=1e-3", &[1, 3539053052, 1062232653][..]),
            ("lossless,coding=bitshuffle", &[512]),
            ("psnr=60,coding=huffman", &[256 + 7, 0, 0x404e_0000]),
            ("abs=1e-3,keep=order+sign:0:2.5", &[0x22_0001, 0, 0, 0, 0x4004_0000, 3539053052, 1062232653]),
            ("abs=1e-3,coding=bitshuffle,adapt=history", &[65536 + 512 + 1, 3539053052, 1062232653]),
            ("ratio=20,abs=5e-1", &[11, 0, 0x4034_0000, 0, 0x3fe0_0000]),
            ("abs=1e-3,brick=16x32x64", &[3 << 24 | 1, 16, 32, 64, 3539053052, 1062232653]),
            ("lossless,adapt=history,brick=7", &[1 << 24 | 1 << 16, 7]),
        ] {
            assert_eq!(from_options(text).expect("accepted"), words);
            assert_eq!(to_options(words).expect("accepted"), text);
        }
        assert_eq!(to_options(&[2, 3]), Ok("abs=1e-3".to_owned()));
        assert_eq!(to_options(&[50331650, 16, 32, 64, 3]), Ok("abs=1e-3,brick=16x32x64".to_owned()));
        assert_eq!(to_options(&[50331650, 16, 32, 64, 4, 25]), Ok("abs=2.5e-3,brick=16x32x64".to_owned()));
        assert!(from_options("abs=x").is_err() && to_options(&[99]).is_err());
    }

    #[test]
    fn any_accepted_bound_survives_bit_for_bit() {
        for bound in [1e-3, 1.0, f64::MIN_POSITIVE * 4.0, 1e300, 0.1 + 0.2] {
            let parsed = CdValues { config: Config::absolute(bound).expect("a bound"), brick: None, layout: None };
            let words = parsed.to_words().expect("words");
            assert_eq!(words.len(), 3);
            assert_eq!(bound_of(&words).to_bits(), bound.to_bits());
        }
    }

    #[test]
    fn filled_words_have_the_documented_form() {
        let parsed = CdValues {
            layout: Some(layout(Scalar::F64, ByteOrder::Big, &[16, 32, 64])),
            ..CdValues::parse(&[2, 3]).expect("accepted")
        };
        let words = parsed.to_words().expect("words");
        assert_eq!(words, [1, 3539053052, 1062232653, 0x5101_8103, 16, 32, 64]);
        assert_eq!(CdValues::parse(&words), Ok(parsed));
    }

    #[test]
    fn filling_is_repeatable_and_follows_the_new_chunk() {
        for scalar in [Scalar::F32, Scalar::F64] {
            for byte_order in [ByteOrder::Little, ByteOrder::Big] {
                let mut words = vec![2, 5, 3];
                for dims in [&[7][..], &[1, 2, 3, 4], &[9, 9], &[4, 3, 2, 1], &[u64::from(u32::MAX)]] {
                    let layout = layout(scalar, byte_order, dims);
                    let mut parsed = CdValues::parse(&words).expect("accepted");
                    parsed.layout = Some(layout);
                    words = parsed.to_words().expect("words");
                    assert!(words.len() <= MAX_WORDS);
                    assert_eq!(bound_of(&words), 3e-5);
                    assert_eq!(CdValues::parse(&words).expect("accepted").layout, Some(layout));
                }
            }
        }
    }

    #[test]
    fn a_brick_is_kept_apart_from_the_layout_of_each_new_chunk() {
        for (bound, filled_bound) in
            [(&[2, 3][..], &[1, 3539053052, 1062232653][..]), (&[2, 3, 1], &[1, 3539053052, 1062232653]), (&[0], &[0])]
        {
            for extents in [&[8][..], &[4, 8], &[2, 4, 8], &[3, 2, 4, 8]] {
                let brick = Brick::new(extents).expect("a brick");
                let with_brick = |words: &[u32]| [&[(extents.len() as u32) << 24 | words[0]], extents, &words[1..]].concat();
                let mut words = with_brick(bound);
                for chunk in [8, 64, 192, 1920] {
                    let mut parsed = CdValues::parse(&words).expect("accepted");
                    assert_eq!(parsed.brick, Some(brick));
                    let line = layout(Scalar::F64, ByteOrder::Little, &[chunk]);
                    let shape = line.shape.in_bricks(parsed.brick).expect("whole rows");
                    parsed.layout = Some(Layout { shape, ..line });
                    parsed.config.fill_value = Some(7 << 32 | 9);
                    words = parsed.to_words().expect("words");
                    let dims: Vec<u32> = shape.dims().iter().map(|&extent| extent as u32).collect();
                    let filled = [&with_brick(filled_bound)[..], &[0x5101_0100 | dims.len() as u32], &dims, &[9, 7]].concat();
                    assert_eq!((&words, CdValues::parse(&words)), (&filled, Ok(parsed)));
                }
            }
        }
    }

    #[test]
    fn bricks_that_cannot_be_are_refused() {
        assert_refused(&[1 << 24 | 2], "a brick of 1 extents (its bits from 24 on), 0 words follow");
        assert_refused(&[3 << 24, 8, 8], "a brick of 3 extents (its bits from 24 on), 2 words follow");
        assert_refused(&[2 << 24, 8, 0], "brick [8, 0]: it must have 1 to 4 extents");
        assert_refused(&[5 << 24, 8, 8, 8, 8, 8], "brick [8, 8, 8, 8, 8]: it must have 1 to 4 extents");
        assert_refused(&[2 << 24 | 2, 8, 8], "mode 2 takes the exponent e and perhaps m, 0 values given");
        assert_refused(&[1 << 24 | 1, 8, 3], "takes the two halves of a number, 1 of them given");
    }

    #[test]
    fn fill_values_survive_bit_for_bit() {
        for (scalar, bits, words) in [(Scalar::F32, 0xc61c_3c00, 1), (Scalar::F64, 0x7ff8_0000_0000_0001, 2), (Scalar::F64, 0, 2)]
        {
            let mut parsed = CdValues::parse(&[2, 3]).expect("accepted");
            parsed.layout = Some(layout(scalar, ByteOrder::Big, &[5, 6, 7, 8]));
            parsed.config.fill_value = Some(bits);
            let filled = parsed.to_words().expect("words");
            assert_eq!(filled.len(), 8 + words);
            assert!(filled.len() <= MAX_WORDS);
            assert_eq!(CdValues::parse(&filled), Ok(parsed));
        }
    }

    #[test]
    fn a_given_fill_value_is_of_its_type() {
        let filled = CdValues::parse(&[0, 0x5101_0001, 5, 7]).expect("accepted");
        assert_eq!((filled.given_fill_value(Scalar::F32), filled.given_fill_value(Scalar::I32)), (Some(7), None));
        for words in [&[0][..], &[0, 0x5101_0001, 5]] {
            assert_eq!(CdValues::parse(words).expect("accepted").given_fill_value(Scalar::F32), None);
        }
    }

    #[test]
    fn the_value_type_is_the_streams() {
        for scalar in Scalar::ALL {
            for byte_order in [ByteOrder::Little, ByteOrder::Big] {
                let layout = layout(scalar, byte_order, &[1]);
                let mut stream = Vec::new();
                Header { coding: Coding::Stored, layout }.write_to(&mut stream).expect("memory");
                let parsed = CdValues { layout: Some(layout), ..CdValues::parse(&[0]).expect("accepted") };
                assert_eq!(parsed.to_words().expect("words")[1] >> 8 & 0xff, u32::from(stream[8]));
            }
        }
    }

    #[test]
    fn empty_words_are_refused() {
        assert_refused(&[], "no error bound is given");
    }

    #[test]
    fn codings_and_adaptations_survive() {
        let adapting = CdValues::parse(&[65536 + 512 + 2, 3]).expect("accepted");
        assert_eq!((adapting.config.coding, adapting.config.adapt), (CodingPolicy::Bitshuffle, AdaptPolicy::History));
        assert_eq!(adapting.to_words().expect("words")[0], 65536 + 512 + 1);
        for (number, coding) in CODINGS.into_iter().enumerate() {
            let parsed = CdValues::parse(&[(number as u32) << 8 | 2, 3]).expect("accepted");
            assert_eq!(parsed.config, Config { coding, ..Config::absolute(1e-3).expect("a bound") });
            let words = parsed.to_words().expect("words");
            assert_eq!(words, [(number as u32) << 8 | 1, 3539053052, 1062232653]);
            assert_eq!(CdValues::parse(&words), Ok(parsed));
        }
        assert_refused(&[0x302, 3], "coding 3");
        assert_refused(&[0x4_0002, 3], "word 0 has 4 in its bits 16 to 19, there are 0 to 3");
        assert_refused(&[0x10_0002, 3], "announces 1 thresholds of two words");
        assert_refused(&[0x10_0000, 0, 0x7ff0_0000], "the threshold inf is not finite");
        assert_refused(&[&[0x50_0000][..], &[0; 10]].concat(), "more than 4 thresholds");
        assert_refused(&[u32::MAX], "coding 255");
    }

    #[test]
    fn unknown_modes_are_refused() {
        for mode in [13, 14, 255] {
            assert_refused(&[mode], &format!("mode {mode} is unknown"));
            assert_refused(&[mode, 1, 2, 3], &format!("mode {mode} is unknown"));
        }
    }

    #[test]
    fn a_wrong_number_of_words_is_refused() {
        assert_refused(&[1], "0 of them given");
        assert_refused(&[1, 7], "1 of them given");
        assert_refused(&[2], "0 values given");
        assert_refused(&[2, 0], "give its exponent, as in 2,3, or 2,0,1 if 1 is meant");
        assert_refused(&[2, 3, 1, 0], "3 values given");
        assert_refused(&[7, 3], "takes the two halves of a number, 1 of them given");
        assert_refused(&[11, 3, 1, 0], "takes four words");
        assert_refused(&[12, 3, 1, 0], "takes four words");
        assert_refused(&[12, 3, 1, 0, 1, 1], "takes four words");
    }

    #[test]
    fn senseless_bounds_are_refused() {
        for bound in [-1e-3, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::from_bits(1)] {
            let bits = bound.to_bits();
            assert_refused(&[1, bits as u32, (bits >> 32) as u32], "absolute error bound is");
        }
        assert_refused(&[2, 400], "1e-400 is too small");
        assert_refused(&[2, u32::MAX], "1e-4294967295 is too small");
        assert_refused(&[4, 0, 2], "relative error bound is 2");
        assert_refused(&[6, 0, 1], "point-wise relative error bound is 1");
        assert_refused(&[8, 0, 0], "PSNR is 0");
        assert_refused(&[10, 0, 1], "compression ratio is 1");
        assert_refused(&[12, 0, 10, 400, 1], "1e-400 is too small");
    }

    #[test]
    fn anything_else_behind_the_bound_is_refused() {
        let with = |tail: &[u32]| [&[1, 3539053052, 1062232653], tail].concat();
        assert_refused(&with(&[0]), "0x00000000 follows the bound");
        assert_refused(&with(&[0x5001_0001, 8]), "0x50010001 follows the bound");
        assert_refused(&with(&[0x5102_0001, 8]), "version 2");
        assert_refused(&with(&[0x5101_0e01, 8]), "value type 14");
        assert_refused(&with(&[0x5101_0c01, 7]), "the slowest extent of a chunk of pairs is 7");
        assert_refused(&[0, 1], "0x00000001 follows the bound");
        assert_refused(&with(&[0x5101_0000]), "dimensions");
        assert_refused(&with(&[0x5101_0001]), "announces 1 extents, 0 words follow");
        assert_refused(&with(&[0x5101_0001, 8, 8, 8]), "announces 1 extents, 2 more words follow");
        assert_refused(&with(&[0x5101_0101, 8, 8]), "announces 1 extents, 1 more words follow");
        assert_refused(&with(&[0x5101_0005, 1, 1, 1, 1, 1]), "chunk has 5 dimensions");
        assert_refused(&with(&[&[0x5101_0005][..], &[1; 21]].concat()), "there are 25 cd_values: the filter has at most 24");
        assert_refused(&with(&[0x5101_00ff, 1]), "announces 255 extents, 1 words follow");
        assert_refused(&with(&[0x5101_0001, 0]), "no elements");
        assert_refused(&with(&[0x5101_0004, u32::MAX, u32::MAX, u32::MAX, u32::MAX]), "more than 2^48");
    }

    #[test]
    fn an_extent_of_more_than_32_bits_is_refused() {
        let parsed = CdValues {
            layout: Some(layout(Scalar::F32, ByteOrder::Little, &[1 << 32])),
            ..CdValues::parse(&[2, 3]).expect("accepted")
        };
        let text = parsed.to_words().expect_err("refused").to_string();
        assert!(text.contains("4294967296 is more than 4294967295; choose smaller chunks"), "{text}");
    }
}
