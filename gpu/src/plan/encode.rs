//! Compressing: arrays and launches.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::{Layout, Scalar, max_stream_len};

use super::Memory;
use super::key::{EncodeVariant, Key};
use super::levels::interpolate;
use super::sizes::{Sizes, known, shape, words_to_clear};
use crate::declare::{ConstPointer, Pointer};
use crate::error::Result;
use crate::job::{
    CHECKSUM_TILE, CHOOSE_THREADS, DatasetBooks, EncodeJob, EncodeParameters, EncodePlane, LANE_SLOT, MASK, PLANES, THREADS,
};
use crate::launch::{Kernels, TypeKernels, launch};
use crate::memory::Arena;

/// Threads of a block that encodes lanes.
const WARP: u32 = 32;

/// 32-bit words of extra bits that a segment of the mask can have: a little more than one bit a value.
const MASK_EXTRA_WORDS: usize = 72;

/// A job for compressing chunks of one layout.
pub(crate) struct EncodePlan {
    pub(crate) job: EncodeJob,
    /// Bytes of all arrays.
    pub(crate) len: usize,
    /// Bytes from the states on that are 0 when the job begins.
    zeroed: usize,
    scalar: Scalar,
    variant: EncodeVariant,
    sizes: Sizes,
}

impl EncodePlan {
    /// A plan whose arrays are in this memory.
    ///
    /// The arrays, and their order, are those of every variant of the key whose chunks are not resident: a chunk is sent to `input` before its variant is
    /// known, and the plan that then compresses it may be another one.
    pub(crate) fn new(key: &Key, layout: &Layout, variant: EncodeVariant, memory: &Memory) -> Self {
        let sizes = Sizes::new(key);
        let (chunks, values, segments, sums) = (sizes.chunks, sizes.values(), sizes.all_segments(), sizes.all_sums());
        let mut arena = Arena::new(memory.arrays);
        let states = arena.take(chunks);
        let exception_sums = arena.take(sums);
        let size_sums: [Pointer<u32>; PLANES] = std::array::from_fn(|_| arena.take(sums));
        let before_mask = arena.len();
        let mask = arena.take(segments * SEGMENT / 32);
        // Interpolation sets bits of the mask; other quantizers write all of it.
        let zeroed = if variant.interpolated { arena.len() } else { before_mask };
        let input_stride = sizes.elements * sizes.value;
        // Books, parameters and values in one piece: that keeps the alignment of the values.
        let input_len = if variant.resident { 0 } else { chunks * input_stride };
        let books = arena.take_sized(1, size_of::<DatasetBooks>() + chunks * size_of::<EncodeParameters>() + input_len).address();
        let parameters = books + size_of::<DatasetBooks>() as u64;
        // Positions are taken for every chunk that may be interpolated.
        let positions = if variant.resident && !variant.interpolated { 0 } else { values };
        // Extra bits of a difference are 33 at most for 32-bit codes and 65 for 64-bit ones: see `EXTRA_WORDS` in `tokens`.
        let code_extra_words = SEGMENT * (8 * sizes.code + 1) / 32;
        let planes = std::array::from_fn(|plane| {
            let extra_stride = if plane == MASK { MASK_EXTRA_WORDS } else { code_extra_words };
            EncodePlane {
                symbols: arena.take(segments * SEGMENT),
                extra: arena.take(segments * extra_stride),
                token_counts: arena.take(segments),
                extra_bits: arena.take(segments),
                lane_words: arena.take(segments * LANE_SLOT),
                lane_or_bit_plane_words: arena.take(segments),
                block_sizes: arena.take(segments),
                size_sums: size_sums[plane],
                book: arena.take(chunks),
                extra_stride: extra_stride as u64,
            }
        });
        let output_stride = max_stream_len(layout).next_multiple_of(16);
        let job = EncodeJob {
            shape: shape(&key.shape),
            chunks: chunks as u32,
            segments: sizes.segments as u32,
            sums: sizes.sums as u32,
            most_listed: sizes.most_listed as u32,
            bit_planes: u32::from(variant.bit_planes),
            needs_no_inspection: u32::from(variant.needs_no_inspection),
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
            codes: arena.take_sized(values, sizes.code),
            positions: arena.take(positions),
            exception_bits: arena.take_sized(values, sizes.code),
            exception_list: arena.take(chunks * sizes.most_listed),
            mask,
            first_valid: arena.take(segments),
            last_valid: arena.take(segments),
            exception_counts: arena.take(segments),
            exception_sums,
            states,
            planes,
            output: arena.take(chunks * output_stride as usize),
            output_stride,
            host_output: Pointer::new(memory.streams),
            results: arena.take(chunks),
            host_results: Pointer::new(memory.results),
        };
        Self { job, len: arena.len(), zeroed, scalar: key.scalar, variant, sizes }
    }

    /// A plan for [`EncodePlan::inspect`] alone, with the few arrays that it needs.
    pub(crate) fn for_inspection(key: &Key, layout: &Layout, variant: EncodeVariant, memory: &Memory) -> Self {
        let mut arena = Arena::new(memory.arrays);
        let states = arena.take(key.chunks);
        let zeroed = arena.len();
        let parameters = arena.take(key.chunks);
        let whole = Self::new(key, layout, variant, &Memory { arrays: 0, ..*memory });
        let job = EncodeJob { states, parameters, ..whole.job };
        Self { job, len: arena.len(), zeroed, ..whole }
    }

    /// Launches the kernels that look at the chunks, and tell the host whether they are constant and on which lattice. `parameters` are there; nothing is
    /// looked at where the type has no lattices.
    pub(crate) fn inspect(&self, stream: &Arc<CudaStream>, kernels: &Kernels, multiprocessors: u32) -> Result<()> {
        let job = &self.job;
        let (words, blocks) = words_to_clear(self.zeroed, multiprocessors);
        launch(stream, &kernels.begin, (blocks, 1, 1), THREADS, job, &[words])?;
        let inspect = &known(&kernels.of_type(self.scalar).linear)?.inspect;
        launch(stream, inspect, self.sizes.grid(multiprocessors, 2, self.sizes.segments), THREADS, job, &[])?;
        launch(stream, &kernels.report_inspections, (job.chunks.div_ceil(THREADS), 1, 1), THREADS, job, &[])
    }

    /// Launches the kernels in order. `observe` is called with a name after each step, and may time it.
    pub(crate) fn enqueue(
        &self,
        stream: &Arc<CudaStream>,
        kernels: &Kernels,
        multiprocessors: u32,
        mut observe: impl FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let TypeKernels { linear, interpolation, quantize_any, fill_and_gather, tokenize, shuffle, assemble, .. } =
            kernels.of_type(self.scalar);
        let grid = |per_multiprocessor| self.sizes.grid(multiprocessors, per_multiprocessor, self.sizes.segments);
        let job = &self.job;
        let (words, blocks) = words_to_clear(self.zeroed, multiprocessors);
        launch(stream, &kernels.begin, (blocks, 1, 1), THREADS, job, &[words])?;
        observe("begin")?;
        // Types without this kernel have no lattices, and the host has seen whether their chunks are constant.
        if !self.variant.needs_no_inspection
            && let Some(linear) = linear
        {
            launch(stream, &linear.inspect, grid(2), THREADS, job, &[])?;
            observe("1 inspect")?;
        }
        if self.variant.interpolated {
            let pair = &known(interpolation)?.interpolate;
            interpolate(stream, pair, job, &job.shape, &self.sizes, multiprocessors, &mut observe)?;
            launch(stream, &kernels.count_interpolated_exceptions, grid(8), THREADS, job, &[])?;
            observe("1 count")?;
        } else {
            let quantize = if self.variant.linear { &known(linear)?.quantize } else { quantize_any };
            launch(stream, quantize, grid(16), THREADS, job, &[])?;
            observe("1 quantize")?;
        }
        launch(stream, fill_and_gather, grid(16), THREADS, job, &[])?;
        observe("1 exceptions")?;
        if self.variant.bit_planes {
            let (blocks, chunks, _) = grid(16);
            launch(stream, shuffle, (blocks, chunks, 2), THREADS, job, &[])?;
            observe("2, 5 bit planes")?;
        } else {
            let (blocks, chunks, _) = grid(4);
            launch(stream, tokenize, (blocks, chunks, 2), THREADS, job, &[])?;
            observe("2, 3 tokens")?;
            launch(stream, &kernels.choose, (PLANES as u32, job.chunks, 1), CHOOSE_THREADS, job, &[])?;
            observe("4 choose")?;
            launch(stream, &kernels.encode_lanes, grid(32), WARP, job, &[])?;
            observe("5 lanes")?;
        }
        launch(stream, assemble, grid(8), THREADS, job, &[])?;
        observe("assemble")?;
        let tiles = job.output_stride.div_ceil(CHECKSUM_TILE as u64) as usize;
        launch(stream, &kernels.checksum_and_copy, self.sizes.grid(multiprocessors, 3, tiles), THREADS, job, &[])?;
        observe("checksum")
    }
}

#[cfg(test)]
mod tests {
    use quire_codec::{ByteOrder, Shape};

    use super::*;
    use crate::plan::Variant;

    /// Every variant's plan for chunks of 5 by 700 values.
    fn plans(memory: &Memory) -> Vec<EncodePlan> {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[5, 700]).unwrap() };
        let variants = (0..32u32).map(|bits| {
            let [needs_no_inspection, to_host, interpolated, linear, bit_planes] =
                std::array::from_fn(|bit| bits >> bit & 1 == 1);
            EncodeVariant { needs_no_inspection, to_host, interpolated, linear, bit_planes, resident: false }
        });
        let plan = |variant| {
            let key = Key { scalar: layout.scalar, shape: layout.shape, chunks: 3, variant: Variant::Encode(variant) };
            EncodePlan::new(&key, &layout, variant, memory)
        };
        variants.map(plan).collect()
    }

    #[test]
    fn arrays_are_those_of_every_variant() {
        let memory = Memory { arrays: 1 << 40, ..Memory::default() };
        let arrays = |plan: EncodePlan| {
            let flags = EncodeJob { bit_planes: 0, needs_no_inspection: 0, interpolated: 0, ..plan.job };
            (plan.len, format!("{flags:?}"))
        };
        let mut plans = plans(&memory).into_iter().map(arrays);
        let first = plans.next().unwrap();
        assert!(plans.all(|other| other == first));
    }
}
