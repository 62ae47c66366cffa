//! Runs loops with the widest vector instructions that the CPU has, and cuts rows into groups of a constant length.
//!
//! A row whose length is no multiple of [`ROW_GROUP`] ends with a group that overlaps the group before it: some values are computed twice, with
//! one result, and no loop over single values is needed.

/// Bits and selections of 64 bytes.
pub(crate) mod bytes;

/// Values of a group. Rows are often short, and a loop over arrays of constant length spares the checks, such as whether slices overlap, that a compiler
/// puts before a vectorized loop over slices.
pub(crate) const ROW_GROUP: usize = 8;

/// Length of the commonest row: the odd values of a row of 64.
pub(crate) const COMMON_ROW: usize = 32;
const COMMON_GROUPS: usize = COMMON_ROW / ROW_GROUP;

/// The groups of a row of [`COMMON_ROW`] values, `None` for other lengths. A loop over this constant number of groups is unrolled.
#[inline(always)]
pub(crate) fn common_row<T>(row: &[T]) -> Option<&[[T; ROW_GROUP]; COMMON_GROUPS]> {
    if row.len() == COMMON_ROW { row.as_chunks().0.first_chunk() } else { None }
}

/// [`common_row`] for a row that is written.
#[inline(always)]
pub(crate) fn common_row_mut<T>(row: &mut [T]) -> Option<&mut [[T; ROW_GROUP]; COMMON_GROUPS]> {
    if row.len() == COMMON_ROW { row.as_chunks_mut().0.first_chunk_mut() } else { None }
}

/// Number of whole groups before the last group, which may overlap them, of a row of [`ROW_GROUP`] to [`COMMON_ROW`] - 1 values. `None` for other
/// lengths.
#[inline(always)]
pub(crate) fn groups_before_last(len: usize) -> Option<usize> {
    (ROW_GROUP..COMMON_ROW).contains(&len).then(|| (len - 1) / ROW_GROUP)
}

/// A row as `WHOLE` groups from its start and the group of its last values, which may overlap them. `None` if the row is too short.
#[inline(always)]
pub(crate) fn short_row<const WHOLE: usize, T>(row: &[T]) -> Option<(&[[T; ROW_GROUP]; WHOLE], &[T; ROW_GROUP])> {
    Some((row.as_chunks().0.first_chunk()?, row.last_chunk()?))
}

/// Calls `body`, compiled for AVX2 or NEON, as the CPU allows. `body` and all functions that it calls must be `#[inline(always)]`; others are compiled for the
/// baseline.
///
/// `body` is `FnOnce`, so that its own code is inlined. An `FnMut` would be called through a shim that is not.
#[inline(always)]
pub(crate) fn vectorized<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    let result = if let Some(simd) = pulp::x86::V3::try_new() { simd.vectorize(body) } else { body() };
    #[cfg(not(target_arch = "x86_64"))]
    let result = pulp::Arch::new().dispatch(body);
    result
}

/// [`vectorized`], but compiled for AVX-512 where the CPU has it: for loops over many counts, whose sums then stay in registers. Not every loop gains: some of
/// decompression take twice the time (docs/design-notes.md, "AVX-512").
#[inline(always)]
pub(crate) fn widely_vectorized<R>(body: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(body)
}

/// Calls a part of a [`vectorized`] body as a function of its own: in a very long function the variables of loops do not stay in registers.
#[inline(always)]
pub(crate) fn outlined<R>(body: impl FnOnce() -> R) -> R {
    vectorized(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_rows_of_any_length() {
        for len in 0..100 {
            let mut row: Vec<usize> = (0..len).collect();
            assert_eq!(common_row(&row).map(|groups| groups.as_flattened().to_vec()), (len == COMMON_ROW).then(|| row.clone()));
            if let Some(groups) = common_row_mut(&mut row) {
                groups.as_flattened_mut().iter_mut().for_each(|value| *value += 1);
                assert_eq!(row, (1..=COMMON_ROW).collect::<Vec<_>>());
                continue;
            }
            let covered = match groups_before_last(len) {
                Some(0) => covered_by::<0>(&row),
                Some(1) => covered_by::<1>(&row),
                Some(2) => covered_by::<2>(&row),
                Some(3) => covered_by::<3>(&row),
                Some(more) => panic!("{more} groups in {len} values"),
                None => {
                    assert!(!(ROW_GROUP..COMMON_ROW).contains(&len));
                    continue;
                }
            };
            assert_eq!(covered, row, "{len} values");
        }
        assert_eq!(short_row::<2, _>(&[0; 2 * ROW_GROUP - 1]), None);
    }

    /// The values of a row's groups, sorted, each once.
    fn covered_by<const WHOLE: usize>(row: &[usize]) -> Vec<usize> {
        let (groups, last) = short_row::<WHOLE, _>(row).unwrap();
        let mut values = [groups.as_flattened(), last].concat();
        values.sort_unstable();
        values.dedup();
        values
    }

    #[test]
    fn bodies_run_once_and_return() {
        let mut calls = 0;
        let sum = vectorized(|| {
            calls += 1;
            outlined(|| (0..1000u64).sum::<u64>())
        });
        assert_eq!((calls, sum), (1, 499_500));
    }
}
