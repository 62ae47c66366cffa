//! The GPU that the tests of this folder need, and the share of their cases that this machine takes.

use quire_gpu::{Device, device};

/// Whether to compare a part of all, for machines that take long: the largest chunks are left out, and few bounds are tried.
pub(crate) fn is_small() -> bool {
    std::env::var_os("QUIRE_SMALL_MATRIX").is_some()
}

/// The GPU, or `None` with the reason printed.
pub(crate) fn gpu() -> Option<&'static Device> {
    match device(0) {
        Ok(device) => Some(device),
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            println!("skipped: {reason}");
            None
        }
    }
}
