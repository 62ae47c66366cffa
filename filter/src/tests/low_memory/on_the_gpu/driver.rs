//! NVIDIA's driver, or gpu/emulator's, as a program of CUDA uses it.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::tests::low_memory::whole_arrays::{Place, bytes_of};

/// The driver's library, and the first GPU's primary context.
pub(crate) struct Driver {
    handle: *mut c_void,
}

// SAFETY: the handle of a library that stays open.
unsafe impl Sync for Driver {}

/// Methods with the signatures of functions.
macro_rules! functions {
    ($($name:ident = $symbol:literal($($argument:ident: $type:ty),*);)*) => {$(
        fn $name(&self, $($argument: $type),*) {
            // SAFETY: the function has this signature since CUDA 4.
            let code = unsafe {
                let address = libc::dlsym(self.handle, $symbol.as_ptr());
                assert!(!address.is_null(), "the driver lacks {:?}", $symbol);
                let function: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(address);
                function($($argument),*)
            };
            assert_eq!(code, 0, "{:?}", $symbol);
        }
    )*};
}

impl Driver {
    pub(crate) fn open() -> Self {
        // SAFETY: the driver may be loaded by anybody.
        let driver = Self { handle: unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) } };
        assert!(!driver.handle.is_null(), "there is a driver");
        driver.init(0);
        driver.enter();
        driver
    }

    functions! {
        init = c"cuInit"(flags: c_uint);
        device = c"cuDeviceGet"(device: *mut c_int, ordinal: c_int);
        retain = c"cuDevicePrimaryCtxRetain"(context: *mut *mut c_void, device: c_int);
        set_current = c"cuCtxSetCurrent"(context: *mut c_void);
        allocate = c"cuMemAlloc_v2"(address: *mut u64, bytes: usize);
        copy_in = c"cuMemcpyHtoD_v2"(to: u64, from: *const c_void, bytes: usize);
        copy_out = c"cuMemcpyDtoH_v2"(to: *mut c_void, from: u64, bytes: usize);
        memory = c"cuMemGetInfo_v2"(left: *mut usize, total: *mut usize);
    }

    /// Whether it is gpu/emulator's, which takes a second for a thousand chunks.
    pub(crate) fn is_emulated(&self) -> bool {
        // SAFETY: the library stays open.
        !unsafe { libc::dlsym(self.handle, c"quire_emulator_launched".as_ptr()) }.is_null()
    }

    /// Makes the context the calling thread's.
    fn enter(&self) {
        let (mut device, mut context) = (0, null_mut());
        self.device(&mut device, 0);
        self.retain(&mut context, device);
        self.set_current(context);
    }

    /// Bytes of the GPU's memory that are in use.
    pub(crate) fn in_use(&self) -> u64 {
        let (mut left, mut total) = (0, 0);
        self.memory(&mut left, &mut total);
        (total - left) as u64
    }

    /// Puts bytes into the GPU's memory, where they are left.
    pub(crate) fn put_bytes(&self, bytes: &[u8]) -> u64 {
        let mut address = 0;
        self.allocate(&mut address, bytes.len());
        self.copy_in(address, bytes.as_ptr().cast(), bytes.len());
        address
    }

    /// Bytes of the GPU's memory, on any thread.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        self.enter();
        let mut bytes = vec![0; length];
        self.copy_out(bytes.as_mut_ptr().cast(), address, length);
        bytes
    }
}

impl Place for Driver {
    fn put(&self, values: &[f32]) -> u64 {
        self.put_bytes(&bytes_of(values))
    }

    fn fetch(&self, address: u64, count: usize) -> Vec<f32> {
        self.bytes(address, 4 * count).as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
    }
}
