//! What the kernels work on, as `kernels/measure/decoders/job.cuh` has it, which explains the fields.

use cudarc::driver::DeviceRepr;

/// Classes of sequences by how many symbols they hold.
pub(crate) const CLASSES: usize = 4;
/// Place of the pass that changed something last, plus 1, among the counters.
pub(crate) const CHANGED: usize = 1;
/// Where the classes' counters stand.
pub(crate) const FIRST_CLASS_COUNT: usize = 2;
/// Where the number of symbols stands that are not what was encoded.
pub(crate) const DIFFERENCES: usize = FIRST_CLASS_COUNT + CLASSES;
/// Counters in all.
pub(crate) const COUNTERS: usize = DIFFERENCES + 1;
/// Threads of a block that compares symbols.
pub(crate) const COMPARE_THREADS: u32 = 256;
/// What a block of a scan sums up.
pub(crate) const SCAN_TILE: u32 = 4096;
/// Threads of a block of a scan.
pub(crate) const SCAN_THREADS: u32 = 1024;
/// Threads of a block that encodes a plain bit string, or lanes, a tile a warp.
pub(crate) const ENCODER_THREADS: u32 = 128;

/// Addresses are the device's.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Job {
    pub(crate) symbols: u64,
    pub(crate) decoded: u64,
    pub(crate) codes: u64,
    pub(crate) table: u64,
    pub(crate) canonical: u64,
    pub(crate) words: u64,
    pub(crate) lane_words: u64,
    pub(crate) slots: u64,
    pub(crate) block_starts: u64,
    pub(crate) sizes: u64,
    pub(crate) sums: u64,
    pub(crate) index: u64,
    pub(crate) gaps: u64,
    pub(crate) subsequences: u64,
    pub(crate) ends: u64,
    pub(crate) lists: u64,
    pub(crate) counters: u64,
    pub(crate) symbol_count: u32,
    pub(crate) tile_len: u32,
    pub(crate) tiles: u32,
    pub(crate) is_aligned: u32,
    pub(crate) scanned: u32,
    pub(crate) total_bits: u32,
    pub(crate) subsequence_count: u32,
    pub(crate) subsequence_log: u32,
    pub(crate) sequences: u32,
    pub(crate) sequence_threads: u32,
    pub(crate) pass: u32,
    pub(crate) reserved: u32,
}

const _: () = assert!(size_of::<Job>() == 184, "the kernels say so too");

// SAFETY: a `repr(C)` structure of numbers.
unsafe impl DeviceRepr for Job {}
