use super::*;
use crate::config::{CodebookPolicy, SettledBound};
use crate::random::Random;

/// Numbers of many magnitudes, and zeros.
fn mixed(len: usize) -> Vec<i64> {
    let mut random = Random(3);
    let number = |_| {
        let bits = random.next();
        if bits >> 40 & 3 == 0 { 0 } else { (bits.cast_signed() >> 8) >> (32 + (bits >> 59)) }
    };
    (0..len).map(number).collect()
}

fn encoded(differences: &[i64], config: &SettledConfig) -> Vec<u8> {
    let mut stream = Vec::new();
    PlaneWorkspace::default().encode(differences, Axes::NONE.into(), config, &mut stream).unwrap();
    stream
}

/// A configuration for each kind of plane: book of the dictionary, custom book, bit planes.
fn configs() -> [SettledConfig<'static>; 3] {
    let config = SettledConfig::of(SettledBound::Absolute(1.0));
    [
        SettledConfig { codebook: CodebookPolicy::Dictionary, ..config },
        SettledConfig { codebook: CodebookPolicy::Custom, ..config },
        SettledConfig { coding: CodingPolicy::Bitshuffle, ..config },
    ]
}

#[test]
fn planes_of_any_length_come_back_and_take_exactly_their_bytes() {
    let mut workspace = PlaneWorkspace::default();
    for config in configs() {
        for len in [1, 2, 31, 2047, 2048, 2049, 10_007, 70_001] {
            for differences in [mixed(len), vec![0; len], vec![i64::MIN; len]] {
                let stream = [&encoded(&differences, &config)[..], &[0xee; 9]].concat();
                let (mut rest, mut skipped) = (&stream[..], &stream[..]);
                let mut found = vec![1; len];
                assert_eq!(workspace.decode_differences(&mut rest, &mut found), Ok(Axes::NONE.to_byte()));
                assert!(found == differences, "{len} integers");
                assert_eq!((rest, stream.len() % 4), (&[0xee; 9][..], 1));
                let header = PlaneHeader::read(&mut skipped).unwrap();
                header.skip(&mut skipped, len).unwrap();
                assert_eq!(skipped, rest);
            }
        }
    }
}

#[test]
fn integers_beyond_16_bits_become_patches() {
    for config in configs() {
        let mut differences: Vec<i64> = mixed(5000).iter().map(|&number| number % 1000).collect();
        for (index, value) in [(0, 32_768), (17, -32_769), (2048, -32_768), (2049, 32_767), (4999, 1 << 30)] {
            differences[index] = value;
        }
        let mut workspace = PlaneWorkspace::default();
        let mut found = vec![7i16; 5000];
        workspace.decode_differences(&mut &encoded(&differences, &config)[..], &mut found).unwrap();
        assert_eq!(workspace.patches(), [(0, 32_768), (17, -32_769), (2048, -32_768), (4999, 1 << 30)]);
        for (index, (&found, &difference)) in found.iter().zip(&differences).enumerate() {
            let is_patched = workspace.patches().iter().any(|&(at, _)| at == index);
            assert_eq!(i64::from(found), if is_patched { PLACEHOLDER.into() } else { difference }, "index {index}");
        }
    }
}

#[test]
fn differences_are_undone_along_the_axes_of_the_plane() {
    let shape = Shape::new(&[3, 5]).unwrap();
    let codes = mixed(15);
    for axes in (0..4).map(|byte| Axes::from_byte(byte, &shape).unwrap()) {
        let (mut differences, mut stream) = (vec![0; 15], Vec::new());
        lorenzo::predict(&codes, &shape, axes, &mut differences);
        let mut workspace = PlaneWorkspace::default();
        workspace.encode(&differences, axes.into(), &configs()[0], &mut stream).unwrap();
        let mut found = vec![0; 15];
        workspace.decode(&mut &stream[..], &shape, &mut found).unwrap();
        assert_eq!(found, codes);
        stream[0] = 4;
        let error = workspace.decode(&mut &stream[..], &shape, &mut found).unwrap_err().to_string();
        assert!(error.contains("its predictor is 0x4"), "{error}");
    }
}

#[test]
fn fields_of_the_index_are_filled_from_the_least_significant_bit() {
    let mut stream = vec![0xee];
    write_index(&[(1, 0), (5, 3), (7, 1)], 3, 2, &mut stream).unwrap();
    // From the lowest bit: 3 bits of 1, 2 of 0, 3 of 5, 2 of 3, 3 of 7, 2 of 1.
    assert_eq!(stream, [0xee, 0b1010_0001, 0b0011_1111, 0, 0]);
    for (lane_width, extra_width) in [(0, 0), (1, 0), (0, 7), (32, 32), (13, 19)] {
        let field = |number: u32, width: u32| (u64::from(number.wrapping_mul(2_654_435_761)) & ((1 << width) - 1)) as u32;
        let sizes: Vec<_> = (0..21).map(|number| (field(number, lane_width), field(number + 50, extra_width))).collect();
        let (mut stream, mut found) = (Vec::new(), Vec::new());
        write_index(&sizes, lane_width, extra_width, &mut stream).unwrap();
        assert_eq!(stream.len(), (21 * (lane_width + extra_width)).div_ceil(32) as usize * 4);
        read_index(&mut &stream[..], 21, lane_width, extra_width, &mut found).unwrap();
        assert_eq!(found, sizes);
        if let Some(last) = stream.last_mut().filter(|_| 21 * (lane_width + extra_width) % 32 != 0) {
            *last |= 0x80;
            assert!(read_index(&mut &stream[..], 21, lane_width, extra_width, &mut found).is_err());
        }
    }
}

#[test]
fn wrong_headers_are_refused() {
    for (header, why) in [
        ((0, 6, 0, 0, 0), "log2 of the block length is 17"),
        ((0, 7, 0, 0, 0), "log2 of the block length is 18"),
        ((0, 0, 33, 0, 0), "index widths are 33 and 0"),
        ((0, 0, 63, 0, 0), "index widths are 63 and 0"),
        ((0, 0, 0, 33, 0), "index widths are 0 and 33"),
        ((75, 0, 0, 0, 0), "codebook 75"),
        ((BIT_PLANES, 1, 0, 0, 0), "blocks of bit planes"),
        ((BIT_PLANES, 0, 0, 1, 0), "blocks of bit planes"),
        ((BIT_PLANES, 0, 0, 0, 1), "blocks of bit planes have 8 lanes"),
        ((CUSTOM_BOOK, 0, 0, 0, 0), "truncated"),
    ] {
        let (book, block_log, lane_width, extra_width, few_lanes) = header;
        let word: u16 = block_log | lane_width << 3 | extra_width << 9 | few_lanes << 15;
        let [low, high] = word.to_le_bytes();
        let error = PlaneHeader::read(&mut &[0, book, low, high][..]).unwrap_err().to_string();
        assert!(error.contains(why), "{header:?}: {error}");
    }
    let header = PlaneHeader::read(&mut &[3, 7, 0b0000_0101, 0b0100_0001][..]).unwrap();
    assert_eq!((header.predictor, header.block_len(), header.lane_width, header.extra_width), (3, 1 << 16, 32, 32));
}

#[test]
fn damaged_planes_are_refused_whole() {
    for config in configs() {
        let differences = mixed(3000);
        let stream = encoded(&differences, &config);
        let mut found = vec![0i64; 3000];
        for len in (0..stream.len()).step_by(5) {
            assert!(PlaneWorkspace::default().decode_differences(&mut &stream[..len], &mut found).is_err(), "{len} bytes");
        }
    }
}
