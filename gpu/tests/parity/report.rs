//! Comparisons of the GPU's codec with the CPU's.

use quire_codec::{Coding, Config, Header, Layout, Workspace};
use quire_gpu::{Device, Error};

use crate::machine::gpu;
use crate::{CODINGS, compress, decompress};

/// Both codecs, the number of comparisons so far, and what went wrong.
pub(crate) struct Report {
    pub(crate) device: &'static Device,
    pub(crate) cpu: Workspace,
    done: usize,
    pub(crate) failures: Vec<String>,
}

impl Report {
    /// `None` without a GPU, with the reason printed.
    pub(crate) fn on_gpu() -> Option<Self> {
        gpu().map(Self::new)
    }

    pub(crate) fn new(device: &'static Device) -> Self {
        Self { device, cpu: Workspace::default(), done: 0, failures: Vec::new() }
    }

    pub(crate) fn include(&mut self, other: Self) {
        self.done += other.done;
        self.failures.extend(other.failures);
    }

    /// The CPU's stream of a chunk.
    pub(crate) fn cpu_stream(&mut self, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
        let mut stream = Vec::new();
        self.cpu.compress(chunk, layout, config, &mut stream).expect("the CPU compresses");
        stream
    }

    /// The chunk of `len` bytes that the CPU decodes.
    pub(crate) fn cpu_chunk(&mut self, stream: &[u8], len: usize) -> Vec<u8> {
        let mut chunk = vec![0; len];
        self.cpu.decompress(stream, &mut chunk).expect("the CPU decompresses");
        chunk
    }

    pub(crate) fn check(&mut self, what: &str, found: &[u8], expected: &[u8]) {
        self.done += 1;
        if found == expected {
            return;
        }
        let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
        let around = |bytes: &[u8]| format!("{:02x?}", &bytes[at.min(bytes.len())..(at + 16).min(bytes.len())]);
        self.failures.push(format!(
            "{what}: {} bytes, {} expected; first difference at {at}: {} instead of {}",
            found.len(),
            expected.len(),
            around(found),
            around(expected)
        ));
    }

    /// Compares both codecs with tokens and with bit planes, in both directions.
    pub(crate) fn compare_codings(&mut self, what: &str, chunk: &[u8], layout: &Layout, config: &Config) {
        for coding in CODINGS {
            self.compare(&format!("{what} {coding:?}"), chunk, layout, &Config { coding, ..*config });
        }
    }

    /// Compares both codecs in both directions.
    pub(crate) fn compare(&mut self, what: &str, chunk: &[u8], layout: &Layout, config: &Config) {
        let expected = self.cpu_stream(chunk, layout, config);
        let stream = compress(self.device, chunk, layout, config);
        self.check(&format!("{what} compressed"), &stream, &expected);
        let restored = self.cpu_chunk(&expected, chunk.len());
        match decompress(self.device, &expected, chunk.len()) {
            Ok(found) => self.check(&format!("{what} decompressed"), &found, &restored),
            Err(Error::Unsupported(_)) => {
                let coding = Header::read_from(&expected).expect("a header").coding;
                assert!(matches!(coding, Coding::Stored | Coding::Constant), "{what}");
            }
            Err(error) => self.failures.push(format!("{what} decompressed: {error}")),
        }
    }

    pub(crate) fn finish(self, name: &str) {
        for failure in self.failures.iter().take(12) {
            println!("{failure}");
        }
        println!("{name}: {} comparisons, {} differ", self.done, self.failures.len());
        assert!(self.failures.is_empty());
    }
}
