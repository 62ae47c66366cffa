//! A card's device file, `/dev/nvidiaN`, by whose locks processes share the card.
//!
//! The file is the card's own: it is always there, all users and containers that have it from the host have the same one, and the kernel unlocks it when a
//! process ends in any way. `flock` locks the whole file, `F_OFD_SETLK` single bytes of it; neither sees the other. A child that was forked while its parent
//! held a lock shares it: once both have ended, it is gone.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd as _;

use crate::environment::read_file;
use crate::message::{Message, OsError};

/// The device file of a card.
pub(super) struct CardFile(File);

impl CardFile {
    /// The file of the card with this address on the PCI bus.
    pub(super) fn open(bus_id: Option<&str>) -> Result<Self, NoFile> {
        let facts = path(format_args!("/proc/driver/nvidia/gpus/{}/information", bus_id.ok_or(NoFile::BusUnknown)?));
        let facts = File::open(facts.as_str()).map_err(|error| NoFile::FactsUnreadable(OsError::of(&error)))?;
        let minor = device_minor(facts).ok_or(NoFile::MinorMissing)?;
        let device = path(format_args!("/dev/nvidia{minor}"));
        Self::at(device.as_str()).map_err(|error| NoFile::Unavailable(minor, OsError::of(&error)))
    }

    /// Who may not write to the file can lock all of it, but no byte.
    pub(super) fn at(path: &str) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).or_else(|_| File::open(path)).map(Self)
    }

    /// Locks the file as a whole, without waiting. False where another process has locked it.
    pub(super) fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Closing would not unlock the file: a forked child may have it open as well. An error is passed over: a file that cannot be unlocked was never locked.
    pub(super) fn unlock(&self) {
        let _ = self.0.unlock();
    }

    /// Locks a byte of the file, without waiting. False where another process has locked it. An error where the system has no such locks, and where this
    /// process may not write to the file.
    pub(super) fn try_lock_byte(&self, index: usize) -> io::Result<bool> {
        match self.set_byte(index, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An error is passed over: a byte that cannot be unlocked was never locked.
    pub(super) fn unlock_byte(&self, index: usize) {
        let _ = self.set_byte(index, libc::F_UNLCK);
    }

    fn set_byte(&self, index: usize, kind: libc::c_int) -> io::Result<()> {
        // SAFETY: numbers alone, of which 0 is one. Such a lock wants `l_pid` to be 0.
        let mut byte: libc::flock = unsafe { std::mem::zeroed() };
        (byte.l_type, byte.l_whence, byte.l_len) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short, 1);
        byte.l_start = index as libc::off_t;
        // SAFETY: the file is open, and the call reads the structure.
        let answer = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLK, &raw const byte) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Why a card has no file.
#[derive(Debug)]
pub(super) enum NoFile {
    BusUnknown,
    FactsUnreadable(OsError),
    MinorMissing,
    Unavailable(u32, OsError),
}

impl fmt::Display for NoFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BusUnknown => formatter.write_str("the driver does not say on which bus it is"),
            Self::FactsUnreadable(error) => {
                write!(formatter, "/proc/driver/nvidia/gpus does not say which device file it has: {error}")
            }
            Self::MinorMissing => formatter.write_str("/proc/driver/nvidia/gpus names no device file for it"),
            Self::Unavailable(minor, error) => write!(formatter, "/dev/nvidia{minor} cannot be opened: {error}"),
        }
    }
}

/// A path on the stack: std copies long paths alone.
fn path(text: fmt::Arguments<'_>) -> Message<128> {
    Message::new(text)
}

/// The number N of a card's `/dev/nvidiaN`, from what the driver says of the card: the line of "Device Minor".
fn device_minor(facts: impl io::Read) -> Option<u32> {
    let mut bytes = [0; 4096];
    let length = read_file(facts, &mut bytes).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Device Minor:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_the_minor_number_that_the_driver_says() {
        let facts =
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 33\nBus Location: \t 0000:0f:00.0\nDevice Minor: \t 3\nGPU Excluded:\t No\n";
        assert_eq!(device_minor(facts.as_bytes()), Some(3));
        for strange in ["", "Device Minor:\n", "Device Minor: \t -1\n", "Device Minor: \t ../../etc\n", "Minor: 3\n"] {
            assert_eq!(device_minor(strange.as_bytes()), None, "{strange}");
        }
    }

    #[test]
    fn a_card_that_the_driver_does_not_describe_has_no_file_and_a_reason() {
        let words = "/proc/driver/nvidia/gpus does not say which device file it has: ";
        for (bus_id, words) in [(None, "the driver does not say on which bus it is"), (Some("ffff:ff:ff.f"), words)] {
            let reason = CardFile::open(bus_id).err().expect("no such card").to_string();
            assert!(reason.starts_with(words), "{reason}");
        }
    }
}
