//! The card that a device is on, as other processes see it.

use cudarc::driver::sys::CUdevice;

use crate::launch::{BUS_ID_BYTES, is_shared_by_mps, pci_bus_id};

/// What tells a card from others on the machine, and how processes share it.
#[derive(Debug)]
pub struct Card {
    bus_id: Option<([u8; BUS_ID_BYTES], usize)>,
    contexts: Contexts,
}

/// How a card runs the work of several processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contexts {
    /// One process at a time, in turns.
    TakeTurns,
    /// All at once, through a server of NVIDIA's Multi-Process Service.
    ShareByMps,
    /// This process has a slice of the card (Multi-Instance GPU), and does not know who shares the slice.
    HaveSlices,
}

impl Card {
    /// Asks the driver. Where the driver does not answer, the card has no address and no MPS.
    pub(crate) fn new(device: CUdevice, name: &str) -> Self {
        let contexts = if is_shared_by_mps(device) {
            Contexts::ShareByMps
        } else if name.contains(" MIG ") {
            // The driver names slices "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
            Contexts::HaveSlices
        } else {
            Contexts::TakeTurns
        };
        Self { bus_id: pci_bus_id(device), contexts }
    }

    /// The address on the PCI bus in lower case, as Linux names it below `/proc/driver/nvidia/gpus`.
    #[must_use]
    pub fn bus_id(&self) -> Option<&str> {
        let (bytes, length) = self.bus_id.as_ref()?;
        std::str::from_utf8(bytes.get(..*length)?).ok()
    }

    /// How processes share the card.
    #[must_use]
    pub fn contexts(&self) -> Contexts {
        self.contexts
    }
}
