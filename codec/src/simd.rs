//! Runs loops with the widest vector instructions that the CPU has, and cuts rows into groups of a constant length.
//!
//! A row whose length is no multiple of [`ROW_GROUP`] ends with a group that overlaps the group before it: some values are computed twice, with
//! one result, and no loop over single values is needed.

/// Bits and selections of 64 bytes.
pub(crate) mod bytes;

/// Values of a group. A compiler puts checks before a vectorized loop over slices, such as whether the slices overlap. Rows are often short, so that these
/// checks would take much of the time. A loop over arrays of constant length has no such checks.
pub(crate) const ROW_GROUP: usize = 8;

/// Calls `body`, compiled for AVX2 or NEON if the CPU has them. `body` and all functions that it calls must be `#[inline(always)]`: other functions are
/// compiled for the baseline.
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

/// [`vectorized`], but compiled for AVX-512 where the CPU has it: for loops over many counts, whose sums then stay in registers, and for most loops of
/// compression. Some loops of decompression would take twice the time.
#[inline(always)]
pub(crate) fn widely_vectorized<R>(body: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(body)
}

/// Whether loops in [`vectorized`] and [`widely_vectorized`] multiply and add in one instruction. Elsewhere `mul_add` calls a slow function.
#[inline(always)]
pub(crate) fn has_fused_multiply_add() -> bool {
    #[cfg(target_arch = "x86_64")]
    let result = pulp::x86::V3::try_new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    let result = cfg!(target_arch = "aarch64");
    result
}

/// Calls `body`, compiled for AVX-512, as [`vectorized`] does for AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn with_avx512<R>(v4: pulp::x86::V4, body: impl FnOnce() -> R) -> R {
    v4.vectorize(body)
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
    fn bodies_run_once_and_return() {
        let mut calls = 0;
        let sum = vectorized(|| {
            calls += 1;
            outlined(|| (0..1000u64).sum::<u64>())
        });
        assert_eq!((calls, sum), (1, 499_500));
    }
}
