//! Runs loops with the widest vector instructions that the CPU has.

/// Masks of bytes.
pub(crate) mod bytes;

/// Values that loops over rows take at a time, as arrays. Rows are often so short that what a compiler puts before and behind a loop of vector code,
/// such as the question whether slices overlap, costs as much as the loop.
pub(crate) const ROW_GROUP: usize = 8;

/// Length of the commonest row: what is new at the finest level of a row of 64.
pub(crate) const COMMON_ROW: usize = 32;
const COMMON_GROUPS: usize = COMMON_ROW / ROW_GROUP;

/// The groups of a row of the commonest length: a loop over so many needs no question where it ends.
#[inline(always)]
pub(crate) fn common_row<T>(row: &[T]) -> Option<&[[T; ROW_GROUP]; COMMON_GROUPS]> {
    if row.len() == COMMON_ROW { row.as_chunks().0.first_chunk() } else { None }
}

/// The same, to be written.
#[inline(always)]
pub(crate) fn common_row_mut<T>(row: &mut [T]) -> Option<&mut [[T; ROW_GROUP]; COMMON_GROUPS]> {
    if row.len() == COMMON_ROW { row.as_chunks_mut().0.first_chunk_mut() } else { None }
}

/// How many whole groups a row shorter than the commonest has before its last one, if it has one: loops over so many need no question where they end.
#[inline(always)]
pub(crate) fn groups_before_last(len: usize) -> Option<usize> {
    (ROW_GROUP..COMMON_ROW).contains(&len).then(|| (len - 1) / ROW_GROUP)
}

/// A short row as so many whole groups and the last one, which goes together with what stands before it.
#[inline(always)]
pub(crate) fn short_row<const WHOLE: usize, T>(row: &[T]) -> Option<(&[[T; ROW_GROUP]; WHOLE], &[T; ROW_GROUP])> {
    Some((row.as_chunks().0.first_chunk()?, row.last_chunk()?))
}

/// Calls `body` in a context where the compiler may use AVX2, AVX-512 or NEON, as the CPU at hand allows. `body` and all that it calls
/// must be `#[inline(always)]`, else they are compiled for the baseline.
///
/// The bound on `FnOnce` matters: it makes the closure's own body the one that is inlined, where a closure that could be called again
/// would be reached through a shim that is not.
#[inline(always)]
pub(crate) fn vectorized<R>(body: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(body)
}

/// The same for a part of such a body that is to be a function of its own: in one of a thousand lines, what loops need does not stay in registers.
#[inline(always)]
pub(crate) fn outlined<R>(body: impl FnOnce() -> R) -> R {
    vectorized(body)
}
