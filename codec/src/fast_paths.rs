//! The fast paths that a stage can do without: a list of them, and in tests a switch for each. `fast_paths/bench.rs` checks that streams are equal with and
//! without each path, and measures what the path buys.

#[cfg(test)]
mod bench;

#[cfg(test)]
pub(crate) use self::bench::is_open;

/// A fast path.
#[cfg_attr(not(any(target_arch = "x86_64", test)), expect(dead_code, reason = "paths with AVX2 are for x86"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Arithmetic in binary32: `quantize/fast_f32.rs`.
    FastF32,
    /// Parts of 64 values of binary64: `encode_fast_in_f64`.
    FastF64,
    /// Levels as one slice: `is_one_slice`.
    SingleSlices,
    /// Tokens with AVX2.
    TokensAvx2,
    /// Segments with few runs and classes: `copy_between_non_literals`.
    CopiedTokens,
    /// Segments with more runs and classes: `look_up_non_literals`.
    LookedUpNonLiterals,
    /// Tokens with AVX-512.
    TokensAvx512,
    /// Segments without runs but with many classes, with AVX-512: `entropy/tokens/classes.rs`.
    ComputedClasses,
    /// Coding of 32 lanes with AVX-512.
    CodedLanesAvx512,
    /// Decoding of lanes with AVX2.
    LanesAvx2,
    /// Rounds with few classes: `write_and_overwrite`.
    OverwrittenClasses,
    /// Rounds with runs: `write_runs`.
    ScatteredRuns,
    /// Sums with AVX2.
    SumsAvx2,
}

/// Whether a path may be taken: any may, except where a test has closed it.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_open(_: Path) -> bool {
    true
}
