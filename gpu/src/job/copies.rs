//! Copies within device memory: of boxes of values, and of runs of bytes.

use crate::declare::{ConstPointer, shared_constants, shared_structs};

shared_constants! {
    /// Most axes of a box of values that is copied.
    pub const BOX_AXES: usize = 8;
}

shared_structs! {
    /// A box of values that is copied between two arrays.
    #[derive(Default)]
    pub struct CopiedBox {
        /// Address of the first value.
        pub from: u64,
        /// Address of the first value's copy.
        pub to: u64,
        /// Values along each axis, fastest axis first; 1 behind the last one.
        pub lens: [u32; BOX_AXES],
    }

    /// Boxes of values to copy between arrays in device memory.
    #[derive(Default)]
    pub struct BoxJob {
        /// Bytes from one value to the next along each axis of the arrays that are read. 0 along all axes repeats one value.
        pub from_strides: [i64; BOX_AXES],
        /// Bytes from one value to the next along each axis of the arrays that are written.
        pub to_strides: [i64; BOX_AXES],
        /// By `blockIdx.y`.
        pub boxes: ConstPointer<CopiedBox>,
        /// Axes in use.
        pub axes: u32,
        /// 0.
        pub reserved: u32,
    }

    /// A run of bytes that is copied.
    #[derive(Default)]
    pub struct CopiedRun {
        /// Address of the first byte.
        pub from: u64,
        /// Address of its copy.
        pub to: u64,
        /// Number of bytes.
        pub bytes: u64,
    }

    /// Runs of bytes to copy.
    #[derive(Default)]
    pub struct RunJob {
        /// By `blockIdx.y`.
        pub runs: ConstPointer<CopiedRun>,
    }
}
