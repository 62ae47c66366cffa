//! What stands for `auto` where GPUs are not used, which is everywhere but on Linux: each chunk asks for the GPU at once, and hears so.

use std::fmt;
use std::time::Duration;

use quire_gpu::Device;

use super::Direction;
use super::settings::Choice;

/// Why `auto` does not take the GPU now: there is no such reason.
#[derive(Debug)]
pub(super) enum Wait {}

impl Wait {
    pub(super) fn comes_and_goes(&self) -> bool {
        match *self {}
    }

    pub(super) fn is_busy(&self) -> bool {
        match *self {}
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// Leave to use the GPU.
pub(super) struct Turn;

impl Turn {
    pub(super) fn take(_: &'static Device, _: Direction, _: usize) -> Result<Self, Wait> {
        Ok(Self)
    }

    pub(super) fn without_lock() -> Self {
        Self
    }
}

pub(super) fn describe(_: &'static Device) -> &'static str {
    "always"
}

pub(super) fn open_if_it_pays(_: Choice) -> Result<(), Wait> {
    Ok(())
}

pub(super) fn note_opened_by_caller() {}

pub(super) fn note_work(_: Choice, _: Duration) {}
