use super::*;
use crate::config::{CodebookPolicy, CodingPolicy, Config, ErrorBound, PredictorPolicy};
use crate::layout::{ByteOrder, Scalar};
use crate::predict::predictor::{INTERPOLATION, InterpolationKind};
use crate::quantize::fills::Span;
use crate::stream::header::{Coding, Header, seal};
use crate::stream::plane::PlaneHeader;
use crate::workspace::Workspace;

/// A stream, and the offsets of its sections.
struct Sample {
    name: &'static str,
    layout: Layout,
    stream: Vec<u8>,
    /// Offset of the body.
    body: usize,
    body_header: BodyHeader,
}

impl Sample {
    fn new(name: &'static str, scalar: Scalar, config: &Config, bits: impl Fn(usize) -> u64) -> Self {
        let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[6, 50]).unwrap() };
        let chunk: Vec<u8> = (0..300).flat_map(|index| bits(index).to_le_bytes().into_iter().take(scalar.size())).collect();
        let mut stream = Vec::new();
        Workspace::default().compress(&chunk, &layout, config, &mut stream).unwrap();
        let header = Header::read_from(&stream).unwrap();
        let body = header.encoded_len();
        let body_header = BodyHeader::read(&header, &stream[body..]).unwrap();
        Self { name, layout, stream, body, body_header }
    }

    /// Offset of the first plane: behind the list of exceptions, if there is one.
    fn plane(&self) -> usize {
        let mut rest = &self.stream[self.body + self.body_header.len..];
        List::take(&mut rest, self.body_header.exceptions, 300, self.layout.scalar.size()).unwrap();
        self.stream.len() - rest.len()
    }

    /// Decodes the stream with other bytes from offset `at` on, and with the checksum of the changed stream.
    fn decode_with(&self, at: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut stream = self.stream.clone();
        stream[at..at + bytes.len()].copy_from_slice(bytes);
        decode(&self.layout, stream)
    }
}

fn decode(layout: &Layout, mut stream: Vec<u8>) -> Result<Vec<u8>> {
    seal(&mut stream);
    let mut chunk = vec![0xee; layout.chunk_bytes() as usize];
    Workspace::default().decompress(&stream, &mut chunk)?;
    Ok(chunk)
}

fn wave(index: usize) -> f64 {
    20.0 + ((index % 50) as f64 * 0.2).sin() * 10.0 + (index * 37 % 11) as f64 * 0.13
}

/// Values of two decimals, in hundredths below `end`.
fn cents(index: usize, end: usize) -> f64 {
    (index * index * 977 % end) as f64 / 100.0
}

/// A stream of each coding, and of each way to write exceptions and planes.
fn samples() -> Vec<Sample> {
    let of = |bound| Config { predictor: PredictorPolicy::Lorenzo, ..Config::new(bound).unwrap() };
    let absolute = of(ErrorBound::Absolute(0.01));
    let f32_bits = |index| u64::from((wave(index) as f32).to_bits());
    let with_nan =
        |every: usize| move |index: usize| if index % every == 3 { 0x7fc0_0000 + index as u64 % 7 } else { f32_bits(index) };
    let with_fill =
        |every: usize| move |index: usize| if index % every == 3 { 5 } else { (index % 50 * 9 + index * 37 % 11 + 6) as u64 };
    // The fill value 5 is an exception: its code is 1, whose value is 7.
    let steps = Config { fill_value: Some(5), ..of(ErrorBound::Absolute(3.0)) };
    // The values are within the part of f32's fine grid that has all positions.
    let interpolated =
        Config { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..of(ErrorBound::Absolute(0.05)) };
    let samples = vec![
        Sample::new("no exceptions", Scalar::F32, &absolute, f32_bits),
        Sample::new("a list", Scalar::F32, &absolute, with_nan(40)),
        Sample::new("a mask", Scalar::F32, &absolute, with_nan(5)),
        Sample::new("a mask, bit planes", Scalar::F32, &Config { coding: CodingPolicy::Bitshuffle, ..absolute }, with_nan(5)),
        Sample::new("narrow differences of f64", Scalar::F64, &absolute, |index| wave(index).to_bits()),
        Sample::new("wide differences of f64", Scalar::F64, &absolute, |index| (wave(index * index) * 1e6).to_bits()),
        Sample::new("a custom book", Scalar::F32, &Config { codebook: CodebookPolicy::Custom, ..absolute }, with_nan(7)),
        Sample::new("interpolation", Scalar::F32, &interpolated, with_nan(5)),
        Sample::new("interpolation of f64", Scalar::F64, &interpolated, |index| wave(index).to_bits()),
        Sample::new("a logarithmic grid", Scalar::F32, &of(ErrorBound::PointwiseRelative(1e-3)), with_nan(40)),
        Sample::new("exact numbers", Scalar::F32, &of(ErrorBound::Lossless), |index| u64::from((index as f32).sqrt().to_bits())),
        Sample::new("decimals", Scalar::F32, &of(ErrorBound::Lossless), |index| u64::from((cents(index, 611) as f32).to_bits())),
        Sample::new("a list of decimals", Scalar::F64, &of(ErrorBound::Lossless), |index| {
            if index % 40 == 3 { f64::NAN.to_bits() } else { cents(index, 611).to_bits() }
        }),
        Sample::new("wide decimals and a mask", Scalar::F64, &of(ErrorBound::Lossless), |index| {
            if index % 5 == 3 { f64::NAN.to_bits() } else { cents(index, 100_000_007).to_bits() }
        }),
        Sample::new("steps and a list", Scalar::I16, &steps, with_fill(40)),
        Sample::new("steps and a mask", Scalar::U64, &steps, with_fill(5)),
        Sample::new("exact integers", Scalar::I32, &of(ErrorBound::Lossless), with_fill(40)),
    ];
    let codings: Vec<Coding> = samples.iter().map(|sample| sample.body_header.grid.coding()).collect();
    let planes = [Coding::Quantized, Coding::Exact, Coding::Steps, Coding::Logarithmic, Coding::Decimal];
    assert!(planes.iter().all(|coding| codings.contains(coding)));
    for sample in &samples {
        let is_interpolated = sample.stream[sample.plane()] == INTERPOLATION;
        assert_eq!(is_interpolated, sample.name.starts_with("interpolation"), "{}", sample.name);
        let has_mask = sample.body_header.exceptions > most_listed(300);
        assert!(has_mask || !sample.name.contains("mask"), "{}", sample.name);
    }
    let fits_16_bits = |name| {
        plane::mostly_fits_16_bits(
            samples.iter().find(|sample| sample.name == name).map(|sample| &sample.stream[sample.plane()..]).unwrap(),
        )
    };
    assert!(fits_16_bits("narrow differences of f64") && !fits_16_bits("wide differences of f64"));
    assert!(fits_16_bits("a list of decimals") && !fits_16_bits("wide decimals and a mask"));
    samples
}

#[test]
fn streams_that_end_anywhere_or_go_on_are_refused() {
    for sample in samples() {
        let whole = sample.stream.len();
        for len in sample.body..whole {
            let error = decode(&sample.layout, sample.stream[..len].to_vec()).unwrap_err();
            let Error::Truncated { offset, .. } = error else { panic!("{}, {len} of {whole} bytes: {error}", sample.name) };
            assert!((sample.body..=len).contains(&(offset as usize)), "{}, {len} of {whole} bytes: {error}", sample.name);
        }
        for more in [1, 4, 100] {
            let error = decode(&sample.layout, [&sample.stream[..], &vec![0; more]].concat()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("at byte {whole}, in its values: {more} bytes are left over")),
                "{}: {error}",
                sample.name
            );
        }
    }
}

#[test]
fn wrong_numbers_of_exceptions_are_refused() {
    for sample in samples().iter().filter(|sample| sample.body_header.len > 0) {
        let at = sample.body + sample.body_header.len - 4;
        assert!(sample.decode_with(at, &(sample.body_header.exceptions as u32).to_le_bytes()).is_ok());
        for wrong in (0..=301).chain([1 << 31, u32::MAX]).filter(|&wrong| u64::from(wrong) != sample.body_header.exceptions) {
            let outcome = sample.decode_with(at, &wrong.to_le_bytes());
            assert!(outcome.is_err(), "{}: {wrong} exceptions, not {}", sample.name, sample.body_header.exceptions);
        }
    }
    // With a wrong number of exceptions, the plane of their bits may still be read: the last differences are 0. Then the mask's ones are another number.
    let samples = samples();
    let sample = samples.iter().find(|sample| sample.name == "a mask").unwrap();
    let at = sample.body + sample.body_header.len - 4;
    let told = (61..=300u32).filter(|wrong| {
        let error = sample.decode_with(at, &wrong.to_le_bytes()).unwrap_err().to_string();
        error.contains(&format!("it marks 60 exceptions, {wrong} are announced"))
    });
    assert!(told.count() > 0);
}

#[test]
fn wrong_numbers_of_words_and_wrong_predictors_are_refused() {
    for sample in samples() {
        let plane = sample.plane();
        let mut rest = &sample.stream[plane..];
        let header = PlaneHeader::read(&mut rest).unwrap();
        let index = sample.stream.len() - rest.len();
        assert_eq!(header.block_len(), 2048, "{}: one block", sample.name);
        // The index of one block has two fields and padding.
        let word = u16::from_le_bytes([sample.stream[plane + 2], sample.stream[plane + 3]]);
        let width = usize::from(word >> 3 & 63) + usize::from(word >> 9 & 63);
        for bit in 0..width.next_multiple_of(32) {
            let at = index + bit / 8;
            let outcome = sample.decode_with(at, &[sample.stream[at] ^ 1 << (bit % 8)]);
            assert!(outcome.is_err(), "{}: bit {bit} of the index, whose fields have {width}", sample.name);
        }
        for predictor in (4..=255).filter(|&predictor| predictor != sample.stream[plane]) {
            // Only a plane on a fine grid can be interpolated.
            let is_kind = InterpolationKind::from_byte(predictor, &sample.layout.shape).is_some();
            let may_be_interpolated = sample.body_header.can_be_interpolated(sample.layout.scalar) && is_kind;
            assert_eq!(sample.decode_with(plane, &[predictor]).is_ok(), may_be_interpolated, "{}: {predictor}", sample.name);
        }
    }
}

#[test]
fn the_byte_order_of_the_header_is_that_of_the_chunk() {
    for sample in samples() {
        let little = decode(&sample.layout, sample.stream.clone()).unwrap();
        let mut big = sample.decode_with(8, &[sample.stream[8] | 0x80]).unwrap();
        big.chunks_mut(sample.layout.scalar.size()).for_each(<[u8]>::reverse);
        assert_eq!(big, little, "{}", sample.name);
    }
}

#[test]
fn values_of_f64_are_their_codes_times_the_step() {
    const BOUND: f64 = 0.0123;
    let step = 2.0 * BOUND;
    type Code = fn(i64) -> i64;
    // Differences of 16 bits whose sums fit 32 bits, or not, or with patches. Then wider differences.
    let contents: [(&str, bool, Code); 4] = [
        ("sums of 32 bits", true, |index| index * 37 % 101),
        ("sums of more bits", true, |index| index * 32_000 + index * 37 % 101),
        ("patches of more bits", true, |index| index * index % 1009 + if index % 20_000 == 77 { 1 << 45 } else { 0 }),
        ("wide differences", false, |index| (index * 37 % 101) << 40),
    ];
    let layout = Layout { scalar: Scalar::F64, byte_order: ByteOrder::Little, shape: Shape::line(70_000) };
    for (name, fits_16_bits, code) in contents {
        // Values beside the grid's values.
        let chunk: Vec<u8> = (0..70_000).flat_map(|index| ((code(index) as f64 + 0.3) * step).to_le_bytes()).collect();
        let config = Config { predictor: PredictorPolicy::Lorenzo, ..Config::absolute(BOUND).unwrap() };
        let mut stream = Vec::new();
        Workspace::default().compress(&chunk, &layout, &config, &mut stream).unwrap();
        let header = Header::read_from(&stream).unwrap();
        let body = &stream[header.encoded_len()..];
        let body_header = BodyHeader::read(&header, body).unwrap();
        assert_eq!((header.coding, body_header.exceptions), (Coding::Quantized, 0), "{name}");
        assert_eq!(plane::mostly_fits_16_bits(&body[body_header.len..]), fits_16_bits, "{name}");
        let restored = decode(&layout, stream).unwrap();
        let Grid::Linear(quantizer) = body_header.grid else { panic!("{name}") };
        let Span { least, greatest } = quantizer.limit_values::<f64>();
        let expected: Vec<u8> =
            (0..70_000).flat_map(|index| (code(index) as f64 * step).clamp(least, greatest).to_le_bytes()).collect();
        assert!(restored == expected, "{name}");
    }
}
