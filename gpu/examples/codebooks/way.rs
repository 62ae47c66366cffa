//! The alphabets, the ways from a histogram to codes, and the times that each way takes.

use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::codebook;

use crate::job::BOOKS;

/// Symbols, longest code, threads of the kernels `build` and `choose`: the last lines of `codebooks.cu`.
pub(crate) struct Alphabet {
    pub(crate) symbols: usize,
    pub(crate) max_bits: u8,
    pub(crate) build_threads: u32,
    pub(crate) choose_threads: u32,
}

pub(crate) const ALPHABETS: [Alphabet; 3] = [
    Alphabet { symbols: SYMBOLS, max_bits: codebook::MAX_CODE_BITS, build_threads: 128, choose_threads: 256 },
    Alphabet { symbols: 256, max_bits: 12, build_threads: 256, choose_threads: 512 },
    Alphabet { symbols: 1024, max_bits: 16, build_threads: 1024, choose_threads: 1024 },
];

/// What turns a histogram into codes on the device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Way {
    Empty,
    HostHuffman,
    HostPackageMerge,
    Sort,
    Build,
    Choose,
    OursDictionary,
    OursAuto,
    OursCustom,
}

impl Way {
    pub(crate) fn name(self, alphabet: &Alphabet) -> String {
        match self {
            Self::Empty => "floor: an empty kernel".to_owned(),
            Self::HostHuffman => "host: Huffman, two queues".to_owned(),
            Self::HostPackageMerge => "host: the codec's package-merge".to_owned(),
            Self::Sort => "device: package-merge's sort alone".to_owned(),
            Self::Build => format!("device: package-merge, {} bits", alphabet.max_bits),
            Self::Choose => format!("choose: of {BOOKS} books"),
            Self::OursDictionary => "ours: dictionary".to_owned(),
            Self::OursAuto => "ours: auto".to_owned(),
            Self::OursCustom => "ours: dictionary, and custom".to_owned(),
        }
    }

    pub(crate) fn is_on_host(self) -> bool {
        matches!(self, Self::HostHuffman | Self::HostPackageMerge)
    }
}

/// Microseconds of one way.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) clock: Vec<f64>,
    pub(crate) events: Vec<f64>,
    pub(crate) row: Vec<f64>,
    /// Fetching, building and sending, for ways over the host.
    pub(crate) parts: [Vec<f64>; 3],
}
