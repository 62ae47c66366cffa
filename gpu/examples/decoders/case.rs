//! Symbols to decode: those of real streams, and some that no stream has, to try the decoders.

use h5_samples::turbulence;
use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::body::BodyHeader;
use quire_codec::stages::codebook::{self, MAX_CODE_BITS};
use quire_codec::stages::exceptions::List;
use quire_codec::stages::plane::{PlaneHeader, PlaneWorkspace};
use quire_codec::stages::tokens::{Tokens, tokenize};
use quire_codec::{ByteOrder, Config, ErrorBound, Header, Layout, Scalar, Shape, Workspace};

use super::Result;
use super::job::LENGTH_BITS;

/// A periodic cube of values.
pub(crate) struct Field {
    edge: usize,
    values: Vec<f32>,
}

/// The symbols of a plane, in their order, and the book of their codes.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) symbols: Vec<u8>,
    pub(crate) lengths: CodeLengths,
    /// Symbols before each block of the stream, and before the end.
    pub(crate) block_starts: Vec<u32>,
    /// Values of a block of the stream.
    pub(crate) block_len: usize,
    /// Values of the chunk.
    pub(crate) values: usize,
    /// The chunk's bytes over the stream's; 0 where there is no stream.
    pub(crate) ratio: f64,
    /// The whole stream and its layout.
    pub(crate) stream: Option<(Vec<u8>, Layout)>,
}

impl Case {
    /// Bytes of the chunk.
    pub(crate) fn chunk_bytes(&self) -> f64 {
        4.0 * self.values as f64
    }

    /// Bits of all codes.
    pub(crate) fn bits(&self) -> u64 {
        let mut histogram = [0u64; SYMBOLS];
        for &symbol in &self.symbols {
            histogram[usize::from(symbol)] += 1;
        }
        codebook::cost(&histogram, &self.lengths).expect("the book has a code for every symbol that occurs")
    }

    /// Codes by symbol: code, length << 16.
    pub(crate) fn codes(&self) -> [u32; SYMBOLS] {
        codebook::canonical_codes(&self.lengths)
    }

    /// Symbols and lengths by the next bits: length, symbol << [`LENGTH_BITS`].
    pub(crate) fn table(&self) -> Vec<u16> {
        let mut table = vec![0; 1 << MAX_CODE_BITS];
        for (symbol, entry) in self.codes().into_iter().enumerate().filter(|&(_, entry)| entry > 0) {
            let (code, length) = (entry & 0xffff, entry >> 16);
            let free = u32::from(MAX_CODE_BITS) - length;
            table[(code << free) as usize..][..1 << free].fill(length as u16 | (symbol as u16) << LENGTH_BITS);
        }
        assert!(table.iter().all(|&entry| entry > 0), "the code is complete");
        table
    }

    /// For decoding bit by bit, by length: the number behind the last code, 16 numbers; its first symbol's place less its first code, 16; then
    /// symbols by place.
    pub(crate) fn canonical(&self) -> Vec<u32> {
        let mut canonical = vec![0; 32];
        let mut first = 0u32;
        for length in 1..=usize::from(MAX_CODE_BITS) {
            let place = canonical.len() as u32 - 32;
            canonical.extend((0..SYMBOLS as u32).filter(|&symbol| usize::from(self.lengths[symbol as usize]) == length));
            let count = canonical.len() as u32 - 32 - place;
            canonical[length] = first + count;
            canonical[16 + length] = place.wrapping_sub(first);
            first = (first + count) << 1;
        }
        canonical.resize(32 + SYMBOLS, 0);
        canonical
    }
}

impl Field {
    /// Resolved turbulent velocity.
    pub(crate) fn new(edge: usize) -> Self {
        Self { edge, values: turbulence::resolved_velocity(1, [edge; 3]) }
    }

    /// A cube of it as bytes; beyond its edge the field repeats.
    pub(crate) fn chunk(&self, edge: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 * edge.pow(3));
        for row in 0..edge * edge {
            let (z, y) = (row / edge % self.edge, row % edge % self.edge);
            let line = &self.values[(z * self.edge + y) * self.edge..][..self.edge];
            bytes.extend(line.iter().cycle().take(edge).flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }
}

/// Compresses a cube to about a ratio with the codec, and takes its stream apart again: what the symbols of its codes' plane are, nobody knows better.
pub(crate) fn of_stream(chunk: &[u8], edge: usize, ratio: f64) -> Result<Case> {
    let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[edge as u64; 3])? };
    let config = Config::new(ErrorBound::Ratio { ratio, ceiling: None })?;
    let mut stream = Vec::new();
    Workspace::default().compress(chunk, &layout, &config, &mut stream)?;
    let header = Header::read_from(&stream)?;
    if !header.coding.has_planes() {
        return Err(format!("{edge}^3 at ratio {ratio}: the stream has no planes").into());
    }
    let mut rest = &stream[header.encoded_len()..];
    let fixed = BodyHeader::read(&header, rest)?;
    rest = &rest[fixed.len..];
    List::take(&mut rest, fixed.exceptions, layout.shape.elements(), layout.scalar.size())?;
    let mut head = rest;
    let head = PlaneHeader::read(&mut head)?;
    let lengths = head.choice.ok_or("the plane has no codebook")?.lengths();
    let mut differences = vec![0i32; edge.pow(3)];
    PlaneWorkspace::default().decode_differences(&mut rest, &mut differences)?;
    let mut tokens = Tokens::default();
    tokenize(&differences, &mut tokens)?;
    let segments = head.block_len() / quire_codec::stages::alphabet::SEGMENT;
    let ends = tokens.segment_ends.chunks(segments).filter_map(|block| Some(block.last()?.tokens as u32));
    let block_starts = [0].into_iter().chain(ends).collect();
    Ok(Case {
        name: format!("{edge}^3"),
        symbols: tokens.symbols().to_vec(),
        lengths,
        block_starts,
        block_len: head.block_len(),
        values: edge.pow(3),
        ratio: chunk.len() as f64 / stream.len() as f64,
        stream: Some((stream, layout)),
    })
}

/// Symbols that try the decoders: codes of one length, with which subsequences never fall into step, the shortest and the longest codes, and counts
/// around the ends of everything; and a small stream. With `large`, more blocks than a tile of a scan has.
pub(crate) fn trials(large: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut long = vec![1, 2, 3, 4, 5];
    long.extend([11; 62]);
    long.extend([12; 4]);
    for count in [1, 31, 33, 1000, 4096, 70_001] {
        cases.push(trial("one bit each", &[1, 1], count));
        cases.push(trial("three bits each, never in step", &[3; 8], count));
        // Drawn evenly, the short codes of this book are rare.
        cases.push(trial("one to twelve bits", &long, count));
        cases.push(trial("four to seven bits", &[&[4; 10][..], &[6; 20], &[7; 8]].concat(), count));
    }
    if large {
        cases.push(trial("one to twelve bits", &long, 5_000_003));
    }
    cases.push(of_stream(&Field::new(32).chunk(32), 32, 8.0)?);
    Ok(cases)
}

/// Symbols drawn evenly from a book, in blocks of uneven lengths.
fn trial(name: &str, code_lengths: &[u8], count: usize) -> Case {
    const BLOCK: usize = 2048;
    let mut lengths = [0; SYMBOLS];
    // Not the first symbols, and not in the order of their lengths.
    for (place, &length) in code_lengths.iter().enumerate() {
        lengths[SYMBOLS - 1 - place] = length;
    }
    let mut state = 7u64;
    let mut draw = |below: usize| {
        // A step of a linear congruential generator (Knuth's MMIX); its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let symbols: Vec<u8> = (0..count).map(|_| (SYMBOLS - 1 - draw(code_lengths.len())) as u8).collect();
    let mut block_starts = vec![0];
    let mut at = 0;
    while at < count {
        at = count.min(at + 1 + draw(BLOCK));
        block_starts.push(at as u32);
    }
    Case {
        name: format!("{count} symbols, {name}"),
        symbols,
        lengths,
        block_starts,
        block_len: BLOCK,
        values: count,
        ratio: 0.0,
        stream: None,
    }
}
