//! What stands between our code and every caller in C: HDF5's callbacks (`callbacks`) and programs that call us by name (`c_api`).

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use quire_codec::adaptive::AdaptiveDictionary;
use quire_codec::{Error, Result, Workspace};

use crate::float_environment::DefaultFloatEnvironment;

/// Why a call came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The codec's or our own refusal.
    Refused(Error),
    /// A bug: what the panic said.
    Panicked(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(formatter),
            Self::Panicked(text) => write!(formatter, "internal error, please report it: {text}"),
        }
    }
}

/// Runs a body in the codec's floating-point mode, and stops a panic: unwinding into C would end the process. Before a panic gets here, Rust's
/// panic hook has written it to stderr with its place in the source, which is all there is to report a bug with.
pub(crate) fn contain<R>(body: impl FnOnce() -> Result<R>) -> std::result::Result<R, Failure> {
    let _default = DefaultFloatEnvironment::enter();
    // Nothing the body touches is seen again after a panic: the thread's buffers are lost to it, see `with_kept_buffers`.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(Failure::Refused),
        Err(payload) => Err(Failure::Panicked(panic_text(&*payload).to_owned())),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "panic without a text",
    }
}

/// What a thread keeps from chunk to chunk.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) workspace: Workspace,
    pub(crate) stream: Vec<u8>,
    /// Books of the chunks before, once a dataset has asked for them.
    pub(crate) history: Option<AdaptiveDictionary>,
}

thread_local! {
    // Empty while lent, which costs nothing; new buffers would.
    static KEPT: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}

/// Lends the thread's buffers. They are taken out meanwhile, so that a panic loses them instead of leaving them half changed.
///
/// HDF5 writes the last chunks from an exit handler if the program did not close its file, and a thread has no thread-local values
/// any more by then: new buffers serve that call.
pub(crate) fn with_kept_buffers<R>(body: impl FnOnce(&mut Buffers) -> R) -> R {
    let mut buffers = KEPT.try_with(Cell::take).unwrap_or_default().unwrap_or_default();
    let result = body(&mut buffers);
    // Without thread-local values there is nothing to keep them for.
    let _ = KEPT.try_with(|kept| kept.set(Some(buffers)));
    result
}
