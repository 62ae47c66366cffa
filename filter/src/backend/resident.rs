//! Values that are in a GPU's memory: whether they are, and what that GPU may do.

use std::fmt;

use quire_codec::{AdaptPolicy, Config, Error, Layout, Result};
use quire_gpu::{Device, Part};

use super::settings::{Backend, Settings};
use super::{Obstacle, say_once};
use crate::dictionary;
use crate::fence::Failure;
use crate::platform::Object;

/// The number of the GPU in whose memory an address is; `None` for the host's memory. Loads no driver: where the process has none, no address is of a GPU.
pub(crate) fn gpu_of(address: u64) -> Option<usize> {
    let _driver = Object::loaded(c"libcuda.so.1")?;
    quire_gpu::device_of_address(address)
}

/// The number of the GPU that has the chunks, all of which are of one.
pub(crate) fn gpu_of_parts(parts: &[Part<'_>]) -> Option<usize> {
    parts.first().and_then(|part| gpu_of(part.address()))
}

/// The refusal of a chunk that is not where the others are.
pub(crate) fn not_of_a_gpu(chunk: usize, address: u64, found: Option<usize>, before: Option<usize>) -> Failure {
    match (found, before) {
        (Some(found), Some(before)) => Error::invalid(format_args!(
            "chunk {chunk} is in the memory of GPU {found}, those before are in that of GPU {before}: a call is for one GPU"
        )),
        _ => Error::invalid(format_args!("the values of chunk {chunk} at {address:#x} are not in a GPU's memory")),
    }
    .into()
}

/// The GPU with this number, which has the values in its memory.
///
/// # Errors
/// `NoGpu`, and a lack of the host's memory.
pub(crate) fn device(ordinal: usize) -> std::result::Result<&'static Device, Failure> {
    let refused = |why: &dyn fmt::Display| {
        Failure::no_gpu(format_args!("the values are in the memory of GPU {ordinal}, but {why}; copy them to the host"))
    };
    if Settings::get()?.backend == Backend::Cpu {
        return Err(refused(&Obstacle::Unwanted));
    }
    quire_gpu::device(ordinal).map_err(|error| match error {
        quire_gpu::Error::NoHostMemory(bytes) => Error::OutOfMemory { bytes }.into(),
        error => refused(&error),
    })
}

/// Waits for what a caller's stream was given before.
///
/// # Errors
/// `InvalidArgument` for a stream that cannot be waited for.
///
/// # Safety
/// The stream is one of the device's primary context.
pub(crate) unsafe fn wait_for(device: &'static Device, stream: u64) -> std::result::Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { device.wait_for(stream) }.map_err(|error| failure(error.into()))
}

/// Refuses pairs, which the host splits into their parts.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_type(layout: &Layout) -> Result<()> {
    Device::check_resident(layout).map_err(Error::invalid)
}

/// A configuration with what the environment says.
///
/// # Errors
/// `InvalidArgument` for chunks that depend on those before, and for an environment that makes no sense.
pub(crate) fn config(config: &Config<'static>) -> Result<Config<'static>> {
    if config.adapt == AdaptPolicy::History {
        return Err(Error::invalid(
            "adapt=history makes each stream depend on those before: chunks in a GPU's memory go in batches, without it",
        ));
    }
    let books = dictionary::user()?.map_or(&[][..], |dictionary| &dictionary.books);
    Ok(Config { codebook: Settings::get()?.codebook, books, ..*config })
}

/// What went wrong in a batch, as this crate tells it.
pub(crate) fn failure(fault: quire_gpu::Fault) -> Failure {
    match fault {
        quire_gpu::Fault::Codec(error) => error.into(),
        // What the caller has given makes no sense, such as the stream.
        quire_gpu::Fault::Gpu(quire_gpu::Error::Unsupported(reason)) => Error::invalid(reason).into(),
        quire_gpu::Fault::Gpu(error) => Failure::no_gpu(error),
    }
}

/// Says that the GPU has refused streams that the CPU decodes.
pub(crate) fn note_refused(streams: usize) {
    if streams > 0 {
        say_once(format_args!("the GPU refused a stream that the CPU decodes. The data are right; please report this bug"));
    }
}
