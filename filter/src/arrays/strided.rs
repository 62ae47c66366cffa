//! Values of an array in memory, in any strides, and the way between them and a chunk.
//!
//! All raw pointers of the arrays are here.

use std::slice;

use quire_codec::{Error, Result, memory};

use super::touched::{MOST_AXES, Overlap, TouchedChunks};

/// The values of a box in memory: `stride` bytes from one value to the next along each axis, slowest axis first. Strides may be negative; where values are
/// only read, they may be 0.
pub(crate) struct Strided {
    /// The first value of the box.
    address: *mut u8,
    /// Bytes of a value.
    size: usize,
    strides: Vec<isize>,
}

// SAFETY: the pointer is the caller's, who vouches for the values as long as this lives (`Strided::new`). Threads read them, or write overlaps
// of one box with different chunks, which have no value in common, over strides that `values_are_apart`.
unsafe impl Send for Strided {}
// SAFETY: as above.
unsafe impl Sync for Strided {}

/// How values are stored in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Through the caches, where the next reader finds them.
    Cached,
    /// Past the caches, which then need not load the lines that are overwritten: 512 MiB were read at 29.9 GB/s in place of 25.0 (H100, chunks of 128³).
    PastCaches,
}

impl Stores {
    /// For an array of this length in bytes: one of 32 MiB and more does not stay in the caches as a whole.
    pub(crate) fn for_bytes(bytes: u64) -> Self {
        if bytes < 32 << 20 { Self::Cached } else { Self::PastCaches }
    }
}

/// How the values of a chunk lie in their bytes: C order.
pub(crate) struct Dense {
    size: usize,
    strides: Vec<isize>,
    bytes: usize,
}

impl Dense {
    /// # Errors
    /// `InvalidArgument` for a chunk that this machine cannot address.
    pub(crate) fn new(extents: &[u64], size: usize) -> Result<Self> {
        let mut strides = Vec::new();
        memory::resize(&mut strides, extents.len())?;
        let mut bytes = size as isize;
        for (stride, &extent) in strides.iter_mut().zip(extents).rev() {
            *stride = bytes;
            bytes = isize::try_from(extent).ok().and_then(|extent| bytes.checked_mul(extent)).ok_or_else(|| {
                Error::invalid(format_args!("{extents:?} values of {size} bytes are more than this machine can address"))
            })?;
        }
        Ok(Self { size, strides, bytes: bytes as usize })
    }

    /// Bytes of a chunk.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes from the chunk's first value to the overlap's.
    fn offset(&self, overlap: &Overlap) -> isize {
        offset(&overlap.in_chunk, &self.strides)
    }

    /// A copy of the overlap stays inside `length` bytes.
    fn check(&self, overlap: &Overlap, length: usize) {
        assert_eq!(length, self.bytes, "a chunk has all its bytes");
        let last = overlap.in_chunk.iter().zip(&overlap.lens).zip(&self.strides);
        let end = last.map(|((first, len), stride)| (first + len - 1) * *stride as usize).sum::<usize>() + self.size;
        assert!(end <= self.bytes, "an overlap is inside its chunk");
    }
}

impl Strided {
    /// # Safety
    /// A value of the box is at `address` plus its index along each axis times the axis's stride. Its `size` bytes are valid, and nobody changes them while
    /// this lives. If [`Strided::scatter`] or [`Strided::piece_mut`] is called, nobody else uses them.
    pub(crate) unsafe fn new(address: *mut u8, size: usize, strides: Vec<isize>) -> Self {
        Self { address, size, strides }
    }

    /// The strides of values in C order.
    ///
    /// # Errors
    /// As [`Dense::new`].
    pub(crate) fn in_c_order(count: &[u64], size: usize) -> Result<Vec<isize>> {
        Ok(Dense::new(count, size)?.strides)
    }

    /// Whether no two values of a box share a byte: see [`are_apart`].
    pub(crate) fn values_are_apart(&self, count: &[u64]) -> bool {
        are_apart(count, &self.strides, self.size)
    }

    /// The lowest byte of the box, and the number of bytes from there to its end; see [`span`].
    pub(crate) fn span(&self, count: &[u64]) -> Option<(u64, u64)> {
        span(self.address as u64, count, &self.strides, self.size)
    }

    /// Refuses values that kernels cannot access: values at addresses that are no multiples of their size.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_alignment(&self, count: &[u64]) -> Result<()> {
        let address = self.address as u64;
        if !address.is_multiple_of(self.size as u64) {
            return Err(Error::invalid(format_args!(
                "the address of the values is {address:#x}: in a GPU's memory it must be a multiple of {}",
                self.size
            )));
        }
        check_strides(count, &self.strides, self.size)
    }

    /// Bytes from one value to the next along each axis.
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The address of an overlap's first value, as a number: an address in a GPU's memory leads nowhere on the host.
    pub(crate) fn number_of(&self, overlap: &Overlap) -> u64 {
        self.overlap_address(overlap) as u64
    }

    fn overlap_address(&self, overlap: &Overlap) -> *mut u8 {
        self.address.wrapping_offset(offset(&overlap.in_box, &self.strides))
    }

    /// Whether a whole chunk lies in memory as it lies in its bytes.
    fn is_piece(&self, overlap: &Overlap, chunk: &Dense) -> bool {
        let axes = self.strides.iter().zip(&chunk.strides).zip(&overlap.lens);
        overlap.is_whole && axes.into_iter().all(|((here, there), &len)| here == there || len == 1)
    }

    /// A chunk of the box where it is, if it lies there in one piece.
    pub(crate) fn piece(&self, overlap: &Overlap, chunk: &Dense) -> Option<&[u8]> {
        // SAFETY: the values of the overlap, all of which the caller of `new` vouches for, are these bytes.
        self.is_piece(overlap, chunk).then(|| unsafe { slice::from_raw_parts(self.overlap_address(overlap), chunk.bytes) })
    }

    /// As [`Strided::piece`], to be written.
    ///
    /// # Safety
    /// The box's values are apart, and no other thread has the same chunk.
    #[expect(clippy::mut_from_ref, reason = "threads share the box and write overlaps without a value in common")]
    pub(crate) unsafe fn piece_mut(&self, overlap: &Overlap, chunk: &Dense) -> Option<&mut [u8]> {
        // SAFETY: as in `piece`, and nobody else has the bytes.
        self.is_piece(overlap, chunk).then(|| unsafe { slice::from_raw_parts_mut(self.overlap_address(overlap), chunk.bytes) })
    }

    /// Copies an overlap from the box to its place in a chunk.
    pub(crate) fn gather(&self, touched: &TouchedChunks, overlap: &Overlap, layout: &Dense, chunk: &mut [u8]) {
        layout.check(overlap, chunk.len());
        let lens = &overlap.lens[..touched.rank()];
        // SAFETY: the caller of `new` vouches for the values; the overlap is inside the chunk, as checked.
        unsafe {
            let target = chunk.as_mut_ptr().offset(layout.offset(overlap));
            copy(lens, self.size, self.overlap_address(overlap), &self.strides, target, &layout.strides, Stores::Cached);
        }
    }

    /// Copies an overlap from its place in a chunk to the box.
    ///
    /// # Safety
    /// As [`Strided::piece_mut`].
    pub(crate) unsafe fn scatter(
        &self,
        touched: &TouchedChunks,
        overlap: &Overlap,
        layout: &Dense,
        chunk: &[u8],
        stores: Stores,
    ) {
        layout.check(overlap, chunk.len());
        let lens = &overlap.lens[..touched.rank()];
        // SAFETY: as in `gather`, and nobody else has the values.
        unsafe {
            let source = chunk.as_ptr().offset(layout.offset(overlap));
            copy(lens, self.size, source, &layout.strides, self.overlap_address(overlap), &self.strides, stores);
        }
    }
}

/// Whether no two values share a byte: sorted by size, each stride leads past all values along the axes with smaller strides. Values in other strides may be
/// apart as well, but count as if they were not.
pub(crate) fn are_apart(count: &[u64], strides: &[isize], size: usize) -> bool {
    if count.contains(&0) {
        return true;
    }
    let mut axes = [(0, 0); MOST_AXES];
    let mut used = 0;
    for (&count, &stride) in count.iter().zip(strides).filter(|&(&count, _)| count > 1) {
        axes[used] = (stride.unsigned_abs() as u128, u128::from(count));
        used += 1;
    }
    axes[..used].sort_unstable();
    let mut reach = size as u128;
    axes[..used].iter().all(|&(stride, count)| {
        let apart = stride >= reach;
        reach = reach.saturating_add(stride.saturating_mul(count - 1));
        apart
    })
}

/// The lowest byte of values of `size` bytes in strides of bytes, and the number of bytes from there to the end of the highest value: 0 without values. `None`
/// where they are more than the machine can address.
pub(crate) fn span(address: u64, count: &[u64], strides: &[isize], size: usize) -> Option<(u64, u64)> {
    if count.contains(&0) {
        return Some((address, 0));
    }
    let (mut below, mut above) = (0u64, size as u64);
    for (&count, &stride) in count.iter().zip(strides) {
        let reach = (count - 1).checked_mul(stride.unsigned_abs() as u64)?;
        let side = if stride < 0 { &mut below } else { &mut above };
        *side = side.checked_add(reach)?;
    }
    let bytes = below.checked_add(above).filter(|&bytes| isize::try_from(bytes).is_ok())?;
    let lowest = address.checked_sub(below)?;
    lowest.checked_add(bytes).map(|_| (lowest, bytes))
}

/// Refuses strides between values of a GPU's memory that are no multiples of their size.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_strides(count: &[u64], strides: &[isize], size: usize) -> Result<()> {
    if count.iter().zip(strides).all(|(&count, stride)| count <= 1 || stride.unsigned_abs().is_multiple_of(size)) {
        return Ok(());
    }
    Err(Error::invalid(format_args!("strides are {strides:?} bytes: in a GPU's memory they must be multiples of {size}")))
}

fn offset(indices: &[usize], strides: &[isize]) -> isize {
    indices.iter().zip(strides).map(|(&index, &stride)| (index as isize).wrapping_mul(stride)).fold(0, isize::wrapping_add)
}

/// An axis along which values are copied: their number, and the strides of source and target in bytes.
#[derive(Clone, Copy, Default)]
struct Step {
    len: usize,
    from: isize,
    to: isize,
}

/// Copies a box of values of `size` bytes. Axes along which both sides go on without a gap become one.
///
/// # Safety
/// All values of both boxes are valid, and no value of the target is one of the source.
unsafe fn copy(
    lens: &[usize],
    size: usize,
    from: *const u8,
    from_strides: &[isize],
    to: *mut u8,
    to_strides: &[isize],
    stores: Stores,
) {
    let (mut steps, mut used, mut run) = ([Step::default(); MOST_AXES], 0, size);
    for axis in (0..lens.len()).rev().filter(|&axis| lens[axis] != 1) {
        let step = Step { len: lens[axis], from: from_strides[axis], to: to_strides[axis] };
        let before = steps[used.max(1) - 1];
        if used == 0 && (step.from, step.to) == (run as isize, run as isize) {
            run *= step.len;
        } else if used > 0 && (step.from, step.to) == (before.from * before.len as isize, before.to * before.len as isize) {
            steps[used - 1].len *= step.len;
        } else {
            steps[used] = step;
            used += 1;
        }
    }
    // SAFETY: the caller's promise; the steps reach the same values.
    unsafe { walk(&steps[..used], run, from, to, stores) }
    if stores == Stores::PastCaches {
        past_caches::end();
    }
}

/// Copies runs of bytes along axes, the slowest of which is the last.
///
/// # Safety
/// As [`copy`].
unsafe fn walk(steps: &[Step], run: usize, from: *const u8, to: *mut u8, stores: Stores) {
    let Some((step, faster)) = steps.split_last() else {
        // SAFETY: the caller's promise.
        return unsafe {
            match stores {
                Stores::Cached => to.copy_from_nonoverlapping(from, run),
                Stores::PastCaches => past_caches::copy(from, to, run),
            }
        };
    };
    // SAFETY: the caller's promise.
    unsafe {
        match (faster, run) {
            ([], 1) => each::<1>(step, from, to),
            ([], 2) => each::<2>(step, from, to),
            ([], 4) => each::<4>(step, from, to),
            ([], 8) => each::<8>(step, from, to),
            ([], 16) => each::<16>(step, from, to),
            _ => (0..step.len as isize)
                .for_each(|at| walk(faster, run, from.offset(at * step.from), to.offset(at * step.to), stores)),
        }
    }
}

/// Stores past the caches, where the processor has them.
mod past_caches {
    /// Copies a run of bytes. Lines of 64 bytes that it fills go past the caches, its ends through them.
    ///
    /// # Safety
    /// Both runs are valid, and do not overlap.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, run: usize) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const LINE: usize = 64;
        const PART: usize = size_of::<__m128i>();
        let head = to.align_offset(LINE).min(run);
        let end = head + (run - head) / LINE * LINE;
        // SAFETY: the caller's promise; from `head` on, `to` is aligned to lines, of which only whole ones are stored so.
        unsafe {
            to.copy_from_nonoverlapping(from, head);
            for at in (head..end).step_by(LINE) {
                let parts: [__m128i; LINE / PART] =
                    std::array::from_fn(|part| _mm_loadu_si128(from.add(at + part * PART).cast()));
                for (number, part) in parts.into_iter().enumerate() {
                    _mm_stream_si128(to.add(at + number * PART).cast(), part);
                }
            }
            to.add(end).copy_from_nonoverlapping(from.add(end), run - end);
        }
    }

    /// Has the stores of this thread seen by others before its next ones.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn end() {
        // SAFETY: every x86-64 has it.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }

    /// # Safety
    /// Both runs are valid, and do not overlap.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, run: usize) {
        // SAFETY: the caller's promise.
        unsafe { to.copy_from_nonoverlapping(from, run) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn end() {}
}

/// Copies values of a size that the compiler knows.
///
/// # Safety
/// As [`copy`].
unsafe fn each<const SIZE: usize>(step: &Step, from: *const u8, to: *mut u8) {
    for at in 0..step.len as isize {
        // SAFETY: the caller's promise; arrays of bytes need no alignment.
        unsafe { to.offset(at * step.to).cast::<[u8; SIZE]>().write(from.offset(at * step.from).cast::<[u8; SIZE]>().read()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gathers all chunks of a box of `size`-byte values in these strides, and scatters them back into zeros.
    fn round_trip(count: [u64; 3], chunk: [u64; 3], size: usize, strides: [isize; 3], stores: Stores) {
        let extent = |axis: usize| (count[axis] as isize - 1) * strides[axis];
        let (low, high) = (0..3).fold((0, 0), |(low, high), axis| (low + extent(axis).min(0), high + extent(axis).max(0)));
        let room = (high - low) as usize + size;
        let mut source: Vec<u8> = (0..room).map(|at| (at * 7 % 251) as u8).collect();
        let mut target = vec![0; room];
        let touched = TouchedChunks::new(&count, &chunk, &[0; 3], &count).expect("a box");
        let dense = Dense::new(&chunk, size).expect("a chunk");
        // SAFETY: all values lie between the lowest and the highest address.
        let [source_box, target_box] = unsafe {
            [&mut source, &mut target].map(|bytes| Strided::new(bytes.as_mut_ptr().offset(-low), size, strides.to_vec()))
        };
        assert!(target_box.values_are_apart(&count));
        for number in 0..touched.count() {
            let overlap = touched.overlap(number);
            let mut values = vec![0xee; dense.bytes()];
            source_box.gather(&touched, &overlap, &dense, &mut values);
            if let Some(piece) = source_box.piece(&overlap, &dense) {
                assert_eq!(piece, values);
            }
            // SAFETY: one chunk at a time.
            unsafe { target_box.scatter(&touched, &overlap, &dense, &values, stores) };
        }
        for (z, y, x) in (0..count[0]).flat_map(|z| (0..count[1]).flat_map(move |y| (0..count[2]).map(move |x| (z, y, x)))) {
            let at = (z as isize * strides[0] + y as isize * strides[1] + x as isize * strides[2] - low) as usize;
            assert_eq!(source[at..at + size], target[at..at + size], "{z} {y} {x}");
        }
    }

    #[test]
    fn values_in_any_strides_come_back() {
        for size in [1, 2, 4, 8, 16] {
            let bytes = size as isize;
            for chunk in [[2, 3, 5], [4, 6, 8], [1, 1, 1], [5, 1, 8]] {
                // C order; transposed; reversed; every other value; with gaps between rows.
                for [z, y, x] in [[48, 8, 1], [1, 5, 30], [-48, -8, -1], [96, 16, 2], [100, 11, 1]] {
                    for stores in [Stores::Cached, Stores::PastCaches] {
                        round_trip([5, 6, 8], chunk, size, [z * bytes, y * bytes, x * bytes], stores);
                    }
                }
            }
        }
    }

    #[test]
    fn long_runs_come_back_past_the_caches() {
        // Rows of 200, 216 and 205 bytes, and of whole lines.
        for (row, size) in [(25, 8), (27, 8), (205, 1), (64, 4)] {
            let bytes = size as isize;
            round_trip(
                [5, 6, 3 * row],
                [2, 4, row],
                size,
                [18 * row as isize * bytes, 3 * row as isize * bytes, bytes],
                Stores::PastCaches,
            );
        }
    }

    #[test]
    fn the_span_of_a_box_has_all_its_values_and_one_beyond_all_memory_is_none() {
        assert_eq!(span(1000, &[3, 5], &[20, 4], 4), Some((1000, 60)));
        assert_eq!(span(1000, &[3, 5], &[-20, 4], 4), Some((960, 60)));
        assert_eq!(span(1000, &[3, 0], &[isize::MIN, 4], 4), Some((1000, 0)));
        assert_eq!(span(1000, &[1, 1], &[isize::MIN, isize::MAX], 8), Some((1000, 8)));
        for (count, strides) in
            [([2, 2], [isize::MAX, 4]), ([2, 1], [isize::MIN, 4]), ([u64::MAX, 2], [8, 8]), ([300, 1], [-4, 4])]
        {
            assert_eq!(span(1000, &count, &strides, 4), None, "{count:?} {strides:?}");
        }
    }

    #[test]
    fn strides_that_let_values_overlap_are_found() {
        let apart = |count: &[u64], strides: &[isize]| {
            // SAFETY: no value is touched.
            unsafe { Strided::new(std::ptr::null_mut(), 4, strides.to_vec()) }.values_are_apart(count)
        };
        assert!(apart(&[3, 5], &[20, 4]) && apart(&[3, 5], &[4, 12]) && apart(&[3, 5], &[-20, 4]) && apart(&[1, 5], &[0, 4]));
        assert!(apart(&[0, 5], &[0, 0]), "there are no values");
        assert!(!apart(&[3, 5], &[0, 4]) && !apart(&[3, 5], &[16, 4]) && !apart(&[5], &[2]) && !apart(&[2, 2], &[4, 4]));
    }
}
