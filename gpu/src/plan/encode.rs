//! Compressing: arrays and launches.

use cudarc::driver::CudaStream;
use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::{Scalar, max_stream_len};

use super::key::{EncodeVariant, Key};
use super::levels::interpolate;
use super::sizes::{Sizes, known, shape, words_to_clear};
use super::{Memory, Plan};
use crate::declare::{ConstPointer, Pointer};
use crate::error::Result;
use crate::job::{
    CHECKSUM_PIECE, CHOOSE_THREADS, DatasetBooks, EncodeJob, EncodeParameters, EncodePlane, LANE_SLOT, MASK, PLANES, THREADS,
};
use crate::launch::TypeKernels;
use crate::loaded::Loaded;
use crate::memory::{Arena, Gaps};

/// Threads of a block that encodes lanes.
const WARP: u32 = 32;

/// 32-bit words of extra bits that a segment of the mask can have: a little more than one bit a value.
const MASK_EXTRA_WORDS: usize = 72;

/// A job for compressing chunks of one layout.
pub(crate) struct EncodePlan {
    pub(crate) job: EncodeJob,
    /// Bytes of all arrays.
    len: usize,
    /// Bytes from the states on that are 0 when the job begins.
    zeroed: usize,
    gaps: Gaps,
    /// Behind the arrays that share memory: see [`EncodePlan::new`].
    early_gaps: Gaps,
    late_gaps: Gaps,
    scalar: Scalar,
    variant: EncodeVariant,
    sizes: Sizes,
}

impl Plan for EncodePlan {
    type Variant = EncodeVariant;

    /// All variants whose chunks are not resident have the same arrays at the same places: a chunk is sent to `input` before its variant is known.
    fn new(key: &Key<EncodeVariant>, memory: &Memory) -> Self {
        let Key { layout, variant, .. } = *key;
        let sizes = Sizes::new(key);
        let (chunks, values, segments, sums) = (sizes.chunks, sizes.values(), sizes.all_segments(), sizes.all_sums());
        let mut arena = Arena::new(memory.arrays);
        let states = arena.take(chunks);
        let exception_sums = arena.take(sums);
        let size_sums: [Pointer<u32>; PLANES] = std::array::from_fn(|_| arena.take(sums));
        // The early arrays are last read where tokens or bit planes are made of them. The late arrays are first written after that, in the same memory.
        let (mut early, mut late) = (arena.fork(), arena.fork());
        let mask = early.take(segments * SEGMENT / 32);
        // Interpolation sets bits of the mask; other quantizers write all of it.
        let zeroed = if variant.interpolated { early.len() } else { arena.len() };
        let codes = early.take_sized(values, sizes.code);
        let exception_bits = early.take_sized(values, sizes.code);
        let output_stride = max_stream_len(&layout).next_multiple_of(16);
        let output = late.take(chunks * output_stride as usize);
        let lane_words: [Pointer<u16>; PLANES] = std::array::from_fn(|_| late.take(segments * LANE_SLOT));
        arena.go_behind(&early);
        arena.go_behind(&late);
        let input_stride = sizes.elements * sizes.value;
        // Books, parameters and values in one piece: that keeps the alignment of the values.
        let input_len = if variant.resident { 0 } else { chunks * input_stride };
        let books = arena.take_sized(1, size_of::<DatasetBooks>() + chunks * size_of::<EncodeParameters>() + input_len).address();
        let parameters = books + size_of::<DatasetBooks>() as u64;
        // Extra bits of a difference are 33 at most for 32-bit codes and 65 for 64-bit ones: see `EXTRA_WORDS` in `tokens`.
        let code_extra_words = SEGMENT * (8 * sizes.code + 1) / 32;
        let planes = std::array::from_fn(|plane| {
            let extra_stride = if plane == MASK { MASK_EXTRA_WORDS } else { code_extra_words };
            EncodePlane {
                symbols: arena.take(segments * SEGMENT),
                extra: arena.take(segments * extra_stride),
                token_counts: arena.take(segments),
                extra_bits: arena.take(segments),
                lane_words: lane_words[plane],
                lane_or_bit_plane_words: arena.take(segments),
                block_sizes: arena.take(segments),
                size_sums: size_sums[plane],
                book: arena.take(chunks),
                extra_stride: extra_stride as u64,
            }
        });
        let job = EncodeJob {
            shape: shape(&layout.shape),
            chunks: chunks as u32,
            segments: sizes.segments as u32,
            sums: sizes.sums as u32,
            most_listed: sizes.most_listed as u32,
            bit_planes: u32::from(variant.bit_planes),
            inspected: u32::from(variant.inspected),
            interpolated: u32::from(variant.interpolated),
            reserved: 0,
            tables: memory.tables,
            dataset_books: Pointer::new(books),
            parameters: Pointer::new(parameters),
            host_parameters: ConstPointer::new(memory.inbox),
            host_inspections: Pointer::new(memory.inspections),
            inputs: ConstPointer::new(memory.values),
            input: ConstPointer::new(parameters + (chunks * size_of::<EncodeParameters>()) as u64),
            input_stride: input_stride as u64,
            codes,
            // Interpolation has ended when the first exception is gathered.
            positions: Pointer::new(exception_bits.address()),
            exception_bits,
            listed_indices: arena.take(chunks * sizes.most_listed),
            listed_bits: arena.take_sized(chunks * sizes.most_listed, sizes.code),
            mask,
            first_valid: arena.take(segments),
            last_valid: arena.take(segments),
            exception_counts: arena.take(segments),
            exception_sums,
            states,
            planes,
            output,
            output_stride,
            host_output: Pointer::new(memory.streams),
            lengths: arena.take(chunks),
            host_lengths: Pointer::new(memory.results),
        };
        Self {
            job,
            len: arena.len(),
            zeroed,
            gaps: arena.gaps,
            early_gaps: early.gaps,
            late_gaps: late.gaps,
            scalar: layout.scalar,
            variant,
            sizes,
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn enqueue(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        self.begin(stream, loaded)?;
        self.gaps.watch(stream, || {
            self.early_gaps.watch(stream, || self.enqueue_coding(stream, loaded))?;
            self.late_gaps.watch(stream, || self.enqueue_assembling(stream, loaded))
        })
    }
}

impl EncodePlan {
    /// Launches the kernels that make tokens or bit planes of values: the last to read the early arrays.
    fn enqueue_coding(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        let Loaded { kernels, multiprocessors, .. } = loaded;
        let TypeKernels { linear_grid, interpolation, quantize_any, fill_and_gather, tokenize, shuffle, .. } =
            kernels.of_type(self.scalar);
        let job = &self.job;
        let grid = |per_multiprocessor| self.grid(loaded, per_multiprocessor);
        // Types without this kernel have no lattices, and the host has seen whether their chunks are constant.
        if self.variant.inspected
            && let Some(linear_grid) = linear_grid
        {
            linear_grid.inspect.launch(stream, grid(2), THREADS, job, ())?;
        }
        if self.variant.interpolated {
            interpolate(stream, &known(interpolation)?.interpolate, job, &job.shape, &self.sizes, *multiprocessors)?;
            kernels.count_interpolated_exceptions.launch(stream, grid(8), THREADS, job, ())?;
        } else {
            let quantize = match (self.variant.linear_grid, self.variant.kept) {
                (true, false) => &known(linear_grid)?.quantize,
                (true, true) => &known(linear_grid)?.quantize_kept,
                (false, _) => quantize_any,
            };
            quantize.launch(stream, grid(16), THREADS, job, ())?;
        }
        fill_and_gather.launch(stream, grid(16), THREADS, job, ())?;
        let (code_planes, per_multiprocessor) = if self.variant.bit_planes { (shuffle, 16) } else { (tokenize, 4) };
        let (blocks, chunks, _) = grid(per_multiprocessor);
        // One set of blocks for the codes, and one for the planes of exceptions.
        code_planes.launch(stream, (blocks, chunks, 2), THREADS, job, ())
    }

    /// Launches the kernels that make a stream of tokens or bit planes: the first to write the late arrays.
    fn enqueue_assembling(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        let Loaded { kernels, multiprocessors, .. } = loaded;
        let job = &self.job;
        if !self.variant.bit_planes {
            kernels.choose_book.launch(stream, (PLANES as u32, job.chunks, 1), CHOOSE_THREADS, job, ())?;
            kernels.encode_lanes.launch(stream, self.grid(loaded, 32), WARP, job, ())?;
        }
        kernels.of_type(self.scalar).assemble.launch(stream, self.grid(loaded, 8), THREADS, job, ())?;
        let pieces = job.output_stride.div_ceil(CHECKSUM_PIECE as u64) as usize;
        kernels.checksum_and_copy.launch(stream, self.sizes.grid(*multiprocessors, 3, pieces), THREADS, job, ())
    }

    /// Launch grid for work on segments.
    fn grid(&self, loaded: &Loaded, per_multiprocessor: u32) -> (u32, u32, u32) {
        self.sizes.grid(loaded.multiprocessors, per_multiprocessor, self.sizes.segments)
    }

    /// A plan for [`EncodePlan::inspect`] alone, with the few arrays that it needs.
    pub(crate) fn for_inspection(key: &Key<EncodeVariant>, memory: &Memory) -> Self {
        let mut arena = Arena::new(memory.arrays);
        let states = arena.take(key.chunks);
        let zeroed = arena.len();
        let parameters = arena.take(key.chunks);
        let whole = Self::new(key, &Memory { arrays: 0, ..*memory });
        let job = EncodeJob { states, parameters, ..whole.job };
        Self { job, len: arena.len(), zeroed, gaps: arena.gaps, ..whole }
    }

    /// Launches the kernels that look at the chunks, and tell the host whether they are constant and whether they have no lattice. `parameters` have been sent.
    /// The type is one of those that may have lattices.
    pub(crate) fn inspect(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        let (kernels, job) = (&loaded.kernels, &self.job);
        let inspect = &known(&kernels.of_type(self.scalar).linear_grid)?.inspect;
        self.begin(stream, loaded)?;
        self.gaps.watch(stream, || {
            inspect.launch(stream, self.grid(loaded, 2), THREADS, job, ())?;
            kernels.report_inspections.launch(stream, (job.chunks.div_ceil(THREADS), 1, 1), THREADS, job, ())
        })
    }

    /// Launches the kernel that fetches the parameters and clears what is 0 at first.
    fn begin(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        let (words, blocks) = words_to_clear(self.zeroed, loaded.multiprocessors);
        loaded.kernels.begin.launch(stream, (blocks, 1, 1), THREADS, &self.job, words)
    }
}

#[cfg(test)]
mod tests {
    use quire_codec::{ByteOrder, CodingPolicy, Layout, Shape};

    use super::*;

    /// Every variant's plan for chunks of 5 by 700 values.
    fn plans(memory: &Memory) -> Vec<EncodePlan> {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[5, 700]).unwrap() };
        let variants = (0..16u32).map(|bits| {
            let [inspected, interpolated, linear_grid, bit_planes] = std::array::from_fn(|bit| bits >> bit & 1 == 1);
            EncodeVariant { inspected, interpolated, linear_grid, kept: false, bit_planes, resident: false }
        });
        variants.map(|variant| EncodePlan::new(&Key { layout, chunks: 3, variant }, memory)).collect()
    }

    /// As the text of `MAX_CHUNK_BYTES` says.
    #[test]
    fn arrays_take_about_six_times_the_codes() {
        for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::U8] {
            let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[256, 256, 256]).unwrap() };
            let len =
                EncodePlan::needed(&Key { layout, chunks: 1, variant: EncodeVariant::unknown(&layout, CodingPolicy::Auto) });
            let codes = (scalar.code_size() as u64 * layout.shape.elements()) as f64;
            assert!((5.0..6.1).contains(&(len as f64 / codes)), "{scalar}: {len} bytes");
        }
    }

    #[test]
    fn arrays_are_those_of_every_variant() {
        let memory = Memory { arrays: 1 << 40, ..Memory::default() };
        let arrays = |plan: EncodePlan| {
            let flags = EncodeJob { bit_planes: 0, inspected: 0, interpolated: 0, ..plan.job };
            (plan.len, format!("{flags:?}"))
        };
        let mut plans = plans(&memory).into_iter().map(arrays);
        let first = plans.next().unwrap();
        assert!(plans.all(|other| other == first));
    }
}
