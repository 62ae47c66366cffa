//! Why a GPU did not do what it was asked for.

use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a GPU did not do what it was asked for. The CPU can do all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This process has no use of the GPU: no kernels, no driver, no device, a fork, an earlier failure.
    Unavailable(String),
    /// This chunk is not for the GPU.
    Unsupported(String),
    /// The device, or the host's pinned memory, has no room at the moment.
    OutOfMemory(String),
    /// A driver call failed. The device is not used again by this process.
    Failed(String),
    /// The stream is not as FORMAT.md says. The CPU's decoder finds the words.
    Refused,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) | Self::Unsupported(reason) | Self::OutOfMemory(reason) | Self::Failed(reason) => {
                formatter.write_str(reason)
            }
            Self::Refused => formatter.write_str("the GPU's decoder refused the stream"),
        }
    }
}

impl std::error::Error for Error {}

impl From<quire_codec::Error> for Error {
    /// What the codec itself refuses; asking the CPU gives the same error.
    fn from(error: quire_codec::Error) -> Self {
        Self::Unsupported(error.to_string())
    }
}

/// Says what the driver was asked for when it failed.
pub(crate) trait Context<T> {
    fn context(self, what: &str) -> Result<T>;
}

impl<T> Context<T> for std::result::Result<T, DriverError> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|error| {
            let name = error.error_name().map_or_else(|_| format!("{:?}", error.0), |name| name.to_string_lossy().into_owned());
            let text = error.error_string().map_or_else(|_| String::new(), |text| format!(" ({})", text.to_string_lossy()));
            let reason = format!("{what}: {name}{text}");
            if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY { Error::OutOfMemory(reason) } else { Error::Failed(reason) }
        })
    }
}
