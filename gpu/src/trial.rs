//! A trial of the kernels when a device is opened: small chunks, both ways, whose streams and values are known.
//!
//! Streams are equal on every machine only if the kernels' machine code does what their source says. nvcc makes that code where the plugin is built, and the
//! driver makes it from PTX for GPUs that are newer than the build. Both have faults: with CUDA 11.8, 12.0 and 12.2, the decoder refused good streams. Kernels
//! that fail the trial are not used, and the CPU does the work.

use quire_codec::memory::{reserve, resize};
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{
    ByteOrder, CodingPolicy, Layout, PredictorPolicy, Scalar, SettledBound, SettledConfig, Shape, Unverified, max_stream_len,
};

use crate::error::{Error, Result, reason};
use crate::loaded::Loaded;
use crate::session::Session;

/// A trial's chunk is `[5][29][31]`: primes, so that no stage has whole blocks alone.
const EXTENTS: [u64; 3] = [5, 29, 31];

/// A chunk's type and how it is compressed, with the CRC-32 of the codec's stream and of the decoded chunk.
struct Case {
    scalar: Scalar,
    bound: SettledBound,
    coding: CodingPolicy,
    predictor: PredictorPolicy,
    stream: u32,
    decoded: u32,
}

/// Each way through the kernels that others do not share: fine and exact grids, differences and interpolation, lanes and bit planes, codes of 32 and 64 bits,
/// integers.
const CASES: [Case; 6] = {
    use CodingPolicy::{Auto, Bitshuffle};
    const CUBIC: PredictorPolicy = PredictorPolicy::Interpolation(InterpolationKind::CUBIC);
    const fn case(
        scalar: Scalar,
        bound: SettledBound,
        coding: CodingPolicy,
        predictor: PredictorPolicy,
        [stream, decoded]: [u32; 2],
    ) -> Case {
        Case { scalar, bound, coding, predictor, stream, decoded }
    }
    [
        case(Scalar::F32, SettledBound::Absolute(1e-2), Auto, PredictorPolicy::Lorenzo, [0xb824_8b67, 0x2c94_1bc9]),
        case(Scalar::F32, SettledBound::Absolute(1e-2), Auto, CUBIC, [0x4c47_26ff, 0xd9a1_b4e8]),
        case(Scalar::F32, SettledBound::Absolute(1e-2), Bitshuffle, PredictorPolicy::Lorenzo, [0xba54_fb23, 0x2c94_1bc9]),
        case(Scalar::F32, SettledBound::Lossless, Auto, PredictorPolicy::Lorenzo, [0x96a5_aa77, 0xb206_fd3a]),
        case(Scalar::F64, SettledBound::Absolute(1e-3), Auto, CUBIC, [0xdf77_239f, 0x1c8c_2405]),
        case(Scalar::I32, SettledBound::Absolute(1.0), Auto, PredictorPolicy::Lorenzo, [0x59aa_5a57, 0x8ad9_3e99]),
    ]
};

impl Case {
    fn layout(&self) -> Result<Layout> {
        Ok(Layout { scalar: self.scalar, byte_order: ByteOrder::Little, shape: Shape::new(&EXTENTS)? })
    }

    fn config(&self) -> SettledConfig<'static> {
        SettledConfig { coding: self.coding, predictor: self.predictor, ..SettledConfig::of(self.bound) }
    }

    /// The chunk: a curved field and noise, all of it exact in every type.
    fn chunk(&self) -> Result<Vec<u8>> {
        let [planes, rows, columns] = EXTENTS;
        let mut chunk = Vec::new();
        reserve(&mut chunk, (planes * rows * columns) as usize * self.scalar.size())?;
        for index in 0..planes * rows * columns {
            let (x, y, z) = (index % columns, index / columns % rows, index / columns / rows);
            let noise = (index as u32).wrapping_mul(2_654_435_761) >> 24;
            let value = 128 * (x * x + y * z) as i32 - 64 * (y * y) as i32 + noise as i32;
            match self.scalar {
                Scalar::F32 => chunk.extend((value as f32 / 1024.0).to_le_bytes()),
                Scalar::F64 => chunk.extend((f64::from(value) / 1024.0).to_le_bytes()),
                _ => chunk.extend(value.to_le_bytes()),
            }
        }
        Ok(chunk)
    }

    /// The error where the kernels have made something else.
    fn failed(&self, what: &str) -> Error {
        let Self { scalar, bound, coding, predictor, .. } = self;
        Error::Failed(reason!(
            "its kernels are of no use on this GPU: they {what} a trial chunk of {scalar:?} ({bound:?}, {coding:?}, {predictor:?}) otherwise than the CPU; \
             a build with another version of CUDA may help"
        ))
    }
}

impl Session {
    /// Compresses and decompresses the chunks of a trial.
    ///
    /// # Errors
    /// `Failed` if a stream or a value is not the codec's, or if a call of the driver fails. `OutOfMemory` or `NoHostMemory`.
    pub(crate) fn try_kernels(&mut self, loaded: &Loaded) -> Result<()> {
        let mut stream = Vec::new();
        for case in CASES {
            let (layout, config, mut chunk) = (case.layout()?, case.config(), case.chunk()?);
            let job = self.start_compressing(loaded, (&*chunk).into(), &layout, &config)?;
            self.wait()?;
            let length = self.stream_len();
            if length as u64 > max_stream_len(&layout) {
                return Err(case.failed("compress"));
            }
            resize(&mut stream, length)?;
            self.copy_stream(job, &mut stream)?;
            if crc32fast::hash(&stream) != case.stream {
                return Err(case.failed("compress"));
            }
            let job = self.start_decompressing(loaded, Unverified::read(&stream)?)?;
            match self.copy_values(job, (&mut *chunk).into()) {
                Ok(()) if crc32fast::hash(&chunk) == case.decoded => {}
                Ok(()) | Err(Error::Refused) => return Err(case.failed("decompress")),
                Err(error) => return Err(error),
            }
            // No caller has a trial's layout.
            self.forget_recorded();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_codec::Workspace;

    #[test]
    fn the_codec_makes_what_a_trial_expects() {
        let mut workspace = Workspace::default();
        let found = CASES.map(|case| {
            let (mut chunk, mut stream) = (case.chunk().expect("memory"), Vec::new());
            let (layout, config) = (case.layout().expect("a shape"), case.config());
            workspace.compress_settled(&chunk, &layout, &config, &mut stream).expect("compressed");
            workspace.decompress(&stream, &mut chunk).expect("decompressed");
            [crc32fast::hash(&stream), crc32fast::hash(&chunk)]
        });
        assert_eq!(found, CASES.map(|case| [case.stream, case.decoded]), "found: {found:#010x?}");
    }
}
