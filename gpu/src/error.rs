//! Why a GPU did not do what it was asked for.

use std::borrow::Cow;
use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use quire_codec::memory;

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a GPU did not do what it was asked for. The CPU can do all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This process has no use of the GPU: no kernels, no driver, no device, a fork, an earlier failure.
    Unavailable(Reason),
    /// This chunk is not for the GPU.
    Unsupported(Reason),
    /// The device, or the host's pinned memory, has no room at the moment.
    OutOfMemory(Reason),
    /// A driver call failed, or the trial of the kernels. The device is not used again by this process.
    Failed(Reason),
    /// The host has no memory for this number of bytes at the moment.
    NoHostMemory(u64),
    /// The stream breaks a rule of FORMAT.md. The CPU's decoder says which.
    Refused,
}

/// The error of a build that had no nvcc, or that is for another system than Linux.
pub(crate) fn kernels_not_built() -> Error {
    Error::Unavailable(Reason::from(match cfg!(target_os = "linux") {
        true => "this build has no GPU kernels: it was made without nvcc (see README, GPU)",
        false => "GPUs are used on Linux alone",
    }))
}

/// A reason as a text. Where there is no memory for the text, the reason says so instead.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reason(Cow<'static, str>);

/// Replaces a text that there is no memory for.
const NO_TEXT: &str = "something for which the host has no memory to say it";

impl Reason {
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self(memory::text(text).map_or(Cow::Borrowed(NO_TEXT), Cow::Owned))
    }
}

impl Error {
    /// Whether the error has its own text, so that later calls may repeat it.
    pub(crate) fn can_be_noted(&self) -> bool {
        match self {
            Self::Unavailable(reason) | Self::Unsupported(reason) | Self::OutOfMemory(reason) | Self::Failed(reason) => {
                reason.0 != NO_TEXT
            }
            Self::NoHostMemory(_) | Self::Refused => false,
        }
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl Clone for Reason {
    fn clone(&self) -> Self {
        match &self.0 {
            Cow::Borrowed(text) => Self::from(*text),
            Cow::Owned(text) => Self::new(text),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A [`Reason`], as `format!` makes a text.
macro_rules! reason {
    ($($arguments:tt)*) => { $crate::error::Reason::new(format_args!($($arguments)*)) };
}
pub(crate) use reason;

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) | Self::Unsupported(reason) | Self::OutOfMemory(reason) | Self::Failed(reason) => {
                reason.fmt(formatter)
            }
            Self::NoHostMemory(bytes) => write!(formatter, "the host has no memory for {bytes} bytes"),
            Self::Refused => formatter.write_str("the GPU's decoder refused the stream"),
        }
    }
}

impl std::error::Error for Error {}

impl From<quire_codec::Error> for Error {
    /// What the codec itself refuses; asking the CPU gives the same error.
    fn from(error: quire_codec::Error) -> Self {
        match error {
            quire_codec::Error::OutOfMemory { bytes } => Self::NoHostMemory(bytes),
            other => Self::Unsupported(reason!("{other}")),
        }
    }
}

/// Says what the driver was asked for when it failed.
pub(crate) trait Context<T> {
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> Context<T> for std::result::Result<T, DriverError> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| {
            // Both texts are the driver's constants.
            let name = error.error_name().ok().and_then(|name| name.to_str().ok());
            let reason = match (name, error.error_string().ok().and_then(|text| text.to_str().ok())) {
                (Some(name), Some(text)) => reason!("{what}: {name} ({text})"),
                (Some(name), None) => reason!("{what}: {name}"),
                _ => reason!("{what}: {:?}", error.0),
            };
            if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY { Error::OutOfMemory(reason) } else { Error::Failed(reason) }
        })
    }
}
