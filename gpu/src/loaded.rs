//! What a device has loaded: all that sessions share.

use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUdevice_attribute;

use crate::declare::ConstPointer;
use crate::error::{Context as _, Result};
use crate::job::Tables;
use crate::launch::Kernels;
use crate::memory::{DeviceMemory, upload_and_wait};
use crate::tables::tables;

/// A context with its kernels and tables.
pub(crate) struct Loaded {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) kernels: Kernels,
    pub(crate) multiprocessors: u32,
    tables: DeviceMemory,
}

impl Loaded {
    /// Loads the kernels, and sends the tables.
    pub(crate) fn new(context: Arc<CudaContext>) -> Result<Self> {
        let multiprocessors = context
            .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .context("counting multiprocessors")?;
        let kernels = Kernels::load(&context)?;
        let mut device_tables = DeviceMemory::new(context.clone());
        device_tables.grow(size_of::<Tables>())?;
        upload_and_wait(&context, &tables()?, &device_tables)?;
        Ok(Self { context, kernels, multiprocessors: multiprocessors.max(1) as u32, tables: device_tables })
    }

    /// The tables on the device.
    pub(crate) fn tables(&self) -> ConstPointer<Tables> {
        ConstPointer::new(self.tables.address())
    }
}
