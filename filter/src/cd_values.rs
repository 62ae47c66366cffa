//! The filter's parameters: up to ten unsigned 32-bit words that HDF5 calls `cd_values` and keeps with the dataset.
//!
//! | word | the user gives | `set_local` makes of it |
//! |---|---|---|
//! | 0 | mode, 1 or 2, + 256 × coding | 1 + 256 × coding |
//! | 1 | mode 1: bits 0-31 of the absolute bound, an IEEE binary64; mode 2: `e` | bits 0-31 of the bound |
//! | 2 | mode 1: bits 32-63 of the bound; mode 2: `m`, or nothing, which means 1 | bits 32-63 of the bound |
//! | 3 | nothing | bits 24-31: `0x51`, bits 16-23: version of this part, 1, bits 8-15: value type, bits 0-7: rank |
//! | 4 to 3 + rank | nothing | extents of the chunk after [`Shape::fold`], slowest first |
//! | the next one (binary32) or two (binary64) | nothing | bits of the fill value, low half first, if the dataset defines one |
//!
//! Mode 2 means the bound `m * 10^-e`, rounded once from the decimal to the nearest binary64: `2,3` is 1e-3 and `2,4,25` is 25e-4. It
//! is there for h5repack, whose users cannot write the bits of a number: `h5repack -f dset:UD=33791,0,2,2,3`.
//!
//! The coding is 0 for what promises the fewest bits, 1 for Huffman codes, 2 for bit planes, the fast lane of a GPU.
//!
//! The value type is 0 for binary32 and 1 for binary64, plus 0x80 for big endian, as in the stream's header.
//!
//! Words from 3 on are written by `set_local`. It may meet its own words again, when a property list is used for a second dataset or
//! h5repack changes the chunks, and then starts from words 0 to 2. The words steer the encoder; a decoder compares streams with them
//! but decodes without them.

use quire_codec::{ByteOrder, CodingPolicy, Config, Error, ErrorBound, Layout, MAX_RANK, Result, Scalar, Shape};

/// Most words that a dataset has.
pub(crate) const MAX_WORDS: usize = USER_WORDS + 1 + MAX_RANK + 2;

const MODE_ABSOLUTE_BITS: u32 = 1;
const MODE_ABSOLUTE_DECIMAL: u32 = 2;
/// The codings, by their numbers in bits 8 to 31 of word 0.
const CODINGS: [CodingPolicy; 3] = [CodingPolicy::Auto, CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
/// Words of the user's part in mode 1.
const USER_WORDS: usize = 3;
/// 'Q' in the top byte of word 3.
const FILLED_MARKER: u32 = 0x51;
const FILLED_VERSION: u32 = 1;
const BIG_ENDIAN_BIT: u32 = 0x80;

const HOW_TO: &str = "give 2,e or 2,e,m for an absolute error bound of m * 10^-e (2,3 is 1e-3), or 1,lo,hi with the two halves of the bound's \
                      64 bits, low half first (1,3539053052,1062232653 is 1e-3); add 256 to the first number for Huffman codes, 512 for bit planes \
                      (fast on a GPU)";

/// The parameters, understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CdValues {
    /// What the encoder is to do.
    pub(crate) config: Config,
    /// The chunk, once `set_local` has filled it in.
    pub(crate) layout: Option<Layout>,
}

impl CdValues {
    /// Understands words from a user or from a file.
    ///
    /// # Errors
    /// `InvalidArgument` with the value seen and what to do.
    pub(crate) fn parse(words: &[u32]) -> Result<Self> {
        if words.len() > MAX_WORDS {
            return Err(Error::InvalidArgument(format!(
                "{} cd_values are more than the {MAX_WORDS} there can be; {HOW_TO}",
                words.len()
            )));
        }
        let refused = |detail: String| Error::InvalidArgument(format!("cd_values {words:?}: {detail}; {HOW_TO}"));
        let Some((&first, rest)) = words.split_first() else {
            return Err(Error::InvalidArgument(format!("no error bound is given (cd_values are empty): {HOW_TO}")));
        };
        let (mode, number) = (first & 0xff, first >> 8);
        let coding = *CODINGS
            .get(number as usize)
            .ok_or_else(|| refused(format!("word 0 asks for coding {number} (its bits from 8 on), there are 0 to 2")))?;
        let bounded = |bound: f64, layout| match Config::absolute(bound) {
            Ok(config) => Ok(Self { config: Config { coding, ..config }, layout }),
            Err(error) => Err(refused(error.to_string())),
        };
        match (mode, rest) {
            (MODE_ABSOLUTE_BITS, &[low, high]) => bounded(from_halves(low, high), None),
            (MODE_ABSOLUTE_BITS, &[low, high, ref filled @ ..]) => {
                let (layout, fill_value) = parse_filled(filled).map_err(refused)?;
                let mut parsed = bounded(from_halves(low, high), Some(layout))?;
                parsed.config.fill_value = fill_value;
                Ok(parsed)
            }
            (MODE_ABSOLUTE_BITS, _) => {
                Err(refused(format!("mode 1 takes the two halves of the bound, {} of them given", rest.len())))
            }
            (MODE_ABSOLUTE_DECIMAL, &[exponent]) => bounded(from_decimal(1, exponent), None),
            (MODE_ABSOLUTE_DECIMAL, &[exponent, mantissa]) => bounded(from_decimal(mantissa, exponent), None),
            (MODE_ABSOLUTE_DECIMAL, _) => {
                Err(refused(format!("mode 2 takes the exponent e and perhaps m, {} values given", rest.len())))
            }
            _ => Err(refused(format!("mode {mode} is unknown, there are 1 and 2"))),
        }
    }

    /// The words that stand for the same parameters; always in mode 1.
    ///
    /// # Errors
    /// `InvalidArgument` if an extent does not fit 32 bits.
    pub(crate) fn to_words(self) -> Result<Vec<u32>> {
        let ErrorBound::Absolute(bound) = self.config.bound else {
            return Err(Error::InvalidArgument(format!("{:?} has no form in cd_values", self.config.bound)));
        };
        let bits = bound.to_bits();
        let coding = CODINGS.iter().position(|&coding| coding == self.config.coding).unwrap_or(0) as u32;
        let mut words = vec![coding << 8 | MODE_ABSOLUTE_BITS, bits as u32, (bits >> 32) as u32];
        if let Some(layout) = self.layout {
            let dims = layout.shape.dims();
            words.push(FILLED_MARKER << 24 | FILLED_VERSION << 16 | type_byte(&layout) << 8 | dims.len() as u32);
            for &extent in dims {
                words.push(u32::try_from(extent).map_err(|_| {
                    Error::InvalidArgument(format!(
                        "chunk dimensions {dims:?} (extents of 1 dropped, slowest ones folded to {MAX_RANK}): {extent} is more than {}; choose smaller chunks",
                        u32::MAX
                    ))
                })?);
            }
            if let Some(bits) = self.config.fill_value {
                words.extend(&[bits as u32, (bits >> 32) as u32][..fill_words(layout.scalar)]);
            }
        }
        Ok(words)
    }
}

fn from_halves(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

/// `mantissa * 10^-exponent` rounded once. Multiplying by a power of ten would round twice, so the decimal is parsed.
fn from_decimal(mantissa: u32, exponent: u32) -> f64 {
    format!("{mantissa}e-{exponent}").parse().unwrap_or(f64::NAN)
}

fn type_byte(layout: &Layout) -> u32 {
    let scalar = match layout.scalar {
        Scalar::F32 => 0,
        Scalar::F64 => 1,
    };
    match layout.byte_order {
        ByteOrder::Little => scalar,
        ByteOrder::Big => scalar | BIG_ENDIAN_BIT,
    }
}

/// Words that a fill value takes.
fn fill_words(scalar: Scalar) -> usize {
    scalar.size() / size_of::<u32>()
}

/// Understands the words that `set_local` has written: layout, and bits of the fill value.
fn parse_filled(filled: &[u32]) -> std::result::Result<(Layout, Option<u64>), String> {
    let (description, rest) = filled.split_first().ok_or("the chunk's layout is missing")?;
    let [marker, version, value_type, rank] = description.to_be_bytes().map(u32::from);
    if marker != FILLED_MARKER {
        return Err(format!("word 3 is {description:#010x}: nothing may follow the bound but what the filter itself appends"));
    }
    if version != FILLED_VERSION {
        return Err(format!("word 3 has version {version}, this build knows {FILLED_VERSION}: install a newer H5Z-Quire"));
    }
    let scalar = match value_type & !BIG_ENDIAN_BIT {
        0 => Scalar::F32,
        1 => Scalar::F64,
        other => return Err(format!("value type {other} in word 3 is unknown")),
    };
    let byte_order = if value_type & BIG_ENDIAN_BIT == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let (extents, fill) = rest
        .split_at_checked(rank as usize)
        .ok_or_else(|| format!("word 3 announces {rank} extents, {} words follow", rest.len()))?;
    let fill_value = match *fill {
        [] => None,
        [low] if fill_words(scalar) == 1 => Some(u64::from(low)),
        [low, high] if fill_words(scalar) == 2 => Some(u64::from(high) << 32 | u64::from(low)),
        _ => return Err(format!("word 3 announces {rank} extents, {} more words follow than those", fill.len())),
    };
    let dims: Vec<u64> = extents.iter().map(|&extent| u64::from(extent)).collect();
    let shape = Shape::new(&dims).map_err(|error| error.to_string())?;
    Ok((Layout { scalar, byte_order, shape }, fill_value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_codec::{Coding, Header};

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
        assert_eq!(bound_of(&[2, 0]), 1.0);
        assert_eq!(bound_of(&[2, 0, 250]), 250.0);
        assert_eq!(bound_of(&[2, 4, 25]), 0.0025);
        assert_eq!(bound_of(&[2, 22, 3]), 3e-22);
        assert_eq!(bound_of(&[2, 23, 1]), 1e-23); // 1.0 / 1e23 gives its neighbour
        assert_eq!(bound_of(&[2, 300, 4294967295]), 4294967295e-300);
        assert_eq!(bound_of(&[2, 300]).to_bits(), 1e-300f64.to_bits());
    }

    #[test]
    fn any_accepted_bound_survives_bit_for_bit() {
        for bound in [1e-3, 1.0, f64::MIN_POSITIVE * 4.0, 1e300, 0.1 + 0.2] {
            let parsed = CdValues { config: Config::absolute(bound).expect("a bound"), layout: None };
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
    fn the_value_type_is_the_streams() {
        for scalar in [Scalar::F32, Scalar::F64] {
            for byte_order in [ByteOrder::Little, ByteOrder::Big] {
                let layout = layout(scalar, byte_order, &[1]);
                let mut stream = Vec::new();
                Header { coding: Coding::Stored, layout }.write_to(&mut stream);
                assert_eq!(type_byte(&layout), u32::from(stream[6]));
            }
        }
    }

    #[test]
    fn empty_words_are_refused() {
        assert_refused(&[], "no error bound is given");
    }

    #[test]
    fn codings_survive() {
        for (number, coding) in CODINGS.into_iter().enumerate() {
            let parsed = CdValues::parse(&[(number as u32) << 8 | 2, 3]).expect("accepted");
            assert_eq!(parsed.config, Config { coding, ..Config::absolute(1e-3).expect("a bound") });
            let words = parsed.to_words().expect("words");
            assert_eq!(words, [(number as u32) << 8 | 1, 3539053052, 1062232653]);
            assert_eq!(CdValues::parse(&words), Ok(parsed));
        }
        assert_refused(&[0x302, 3], "coding 3");
        assert_refused(&[0x1_0002, 3], "coding 256");
        assert_refused(&[u32::MAX], "coding 16777215");
    }

    #[test]
    fn unknown_modes_are_refused() {
        for mode in [0, 3, 4, 255] {
            assert_refused(&[mode], &format!("mode {mode} is unknown"));
            assert_refused(&[mode, 1, 2, 3], &format!("mode {mode} is unknown"));
        }
    }

    #[test]
    fn a_wrong_number_of_words_is_refused() {
        assert_refused(&[1], "0 of them given");
        assert_refused(&[1, 7], "1 of them given");
        assert_refused(&[2], "0 values given");
        assert_refused(&[2, 3, 1, 0], "3 values given");
    }

    #[test]
    fn senseless_bounds_are_refused() {
        for bound in [0.0, -0.0, -1e-3, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::from_bits(1)] {
            let bits = bound.to_bits();
            assert_refused(&[1, bits as u32, (bits >> 32) as u32], "absolute error bound is");
        }
        assert_refused(&[2, 3, 0], "absolute error bound is 0");
        assert_refused(&[2, 400], "absolute error bound is 0");
        assert_refused(&[2, u32::MAX], "absolute error bound is 0");
    }

    #[test]
    fn anything_else_behind_the_bound_is_refused() {
        let with = |tail: &[u32]| [&[1, 3539053052, 1062232653], tail].concat();
        assert_refused(&with(&[0]), "word 3 is 0x00000000");
        assert_refused(&with(&[0x5001_0001, 8]), "word 3 is 0x50010001");
        assert_refused(&with(&[0x5102_0001, 8]), "version 2");
        assert_refused(&with(&[0x5101_0201, 8]), "value type 2");
        assert_refused(&with(&[0x5101_0000]), "dimensions");
        assert_refused(&with(&[0x5101_0001]), "announces 1 extents, 0 words follow");
        assert_refused(&with(&[0x5101_0001, 8, 8, 8]), "announces 1 extents, 2 more words follow");
        assert_refused(&with(&[0x5101_0101, 8, 8]), "announces 1 extents, 1 more words follow");
        assert_refused(&with(&[0x5101_0005, 1, 1, 1, 1, 1]), "chunk has 5 dimensions");
        assert_refused(&with(&[0x5101_0005, 1, 1, 1, 1, 1, 1, 1]), "11 cd_values are more than the 10");
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
