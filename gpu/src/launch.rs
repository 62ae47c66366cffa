//! The kernels, and launching them. The crate's unsafe code is here and in `memory.rs`; besides, `cores.rs` asks the system for the number of cores.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUcontext, CUevent_flags, CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaStream, DeviceRepr, DriverError, result};
use quire_codec::Scalar;

use crate::error::{Context as _, Error, Result, reason};
use crate::job::{BoxJob, DecodeJob, EncodeJob, RunJob, TileJob};

// SAFETY: a `repr(C)` structure of numbers; the build has compared the offset of each field with the kernels'.
unsafe impl DeviceRepr for EncodeJob {}
// SAFETY: as above.
unsafe impl DeviceRepr for DecodeJob {}
// SAFETY: as above.
unsafe impl DeviceRepr for TileJob {}
// SAFETY: as above.
unsafe impl DeviceRepr for BoxJob {}
// SAFETY: as above.
unsafe impl DeviceRepr for RunJob {}

/// Kernels of one value type.
pub(crate) struct TypeKernels {
    pub(crate) quantize_any: CudaFunction,
    pub(crate) restore_any: CudaFunction,
    pub(crate) fill_and_gather: CudaFunction,
    pub(crate) assemble: CudaFunction,
    pub(crate) write_exceptions: CudaFunction,
    pub(crate) write_listed: CudaFunction,
    pub(crate) tokenize: CudaFunction,
    pub(crate) shuffle: CudaFunction,
    /// With few threads a block, and with many for few blocks.
    pub(crate) expand: [CudaFunction; 2],
    pub(crate) unshuffle: CudaFunction,
    pub(crate) join_columns: CudaFunction,
    pub(crate) restore_planes: CudaFunction,
    pub(crate) restore_bits: CudaFunction,
    pub(crate) copy_boxes: CudaFunction,
    /// For floating-point numbers.
    pub(crate) linear: Option<LinearKernels>,
    /// For those that have a fine grid.
    pub(crate) interpolation: Option<InterpolationKernels>,
}

/// Kernels for an absolute bound.
pub(crate) struct LinearKernels {
    pub(crate) inspect: CudaFunction,
    pub(crate) quantize: CudaFunction,
    pub(crate) measure_tiles: CudaFunction,
    pub(crate) measure_batch: CudaFunction,
}

/// Kernels for interpolation, coarse levels before fine ones.
pub(crate) struct InterpolationKernels {
    pub(crate) interpolate: [CudaFunction; 2],
    pub(crate) restore: [CudaFunction; 2],
}

/// All kernels of a device.
pub(crate) struct Kernels {
    f32: TypeKernels,
    f64: TypeKernels,
    f16: TypeKernels,
    bf16: TypeKernels,
    byte: TypeKernels,
    pub(crate) begin: CudaFunction,
    pub(crate) report_inspections: CudaFunction,
    pub(crate) choose: CudaFunction,
    pub(crate) make_tile_tables: CudaFunction,
    pub(crate) measure_kinds: CudaFunction,
    pub(crate) measure_kinds_of_large_tiles: CudaFunction,
    pub(crate) choose_by_tiles: CudaFunction,
    pub(crate) encode_lanes: CudaFunction,
    pub(crate) checksum_and_copy: CudaFunction,
    pub(crate) fetch: CudaFunction,
    pub(crate) copy_runs: CudaFunction,
    pub(crate) open_stream: CudaFunction,
    pub(crate) decode_lanes: CudaFunction,
    pub(crate) count_exceptions: CudaFunction,
    pub(crate) count_interpolated_exceptions: CudaFunction,
}

/// The kernels as the build made them.
#[cfg(quire_kernels)]
static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/quire.fatbin"));

impl Kernels {
    #[cfg(not(quire_kernels))]
    pub(crate) fn load(_context: &Arc<CudaContext>) -> Result<Self> {
        Err(crate::error::kernels_not_built())
    }

    #[cfg(quire_kernels)]
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self> {
        let mut fatbin = Vec::new();
        quire_codec::memory::extend(&mut fatbin, FATBIN)?;
        let module = context
            .load_module(cudarc::nvrtc::Ptx::from_binary(fatbin))
            .context("loading the kernels (built for compute capability 8.0 and newer)")?;
        let function = |name: &str| module.load_function(name).context(format_args!("looking up the kernel {name}"));
        // A kernel's name ends in the type that it depends on: the values' own, one of their size, or one whose codes are as wide.
        let of_type = |value: &str, size: &str, codes: &str| -> Result<TypeKernels> {
            let named = |name: &str, suffix: &str| function(&quire_codec::memory::text(format_args!("{name}_{suffix}"))?);
            let pair = |first: &str, second: &str, suffix: &str| -> Result<[CudaFunction; 2]> {
                Ok([named(first, suffix)?, named(second, suffix)?])
            };
            // Bytes are whole numbers alone, and only types as long as their codes have a fine grid.
            let (is_float, is_interpolated) = (value != "byte", value == codes);
            Ok(TypeKernels {
                quantize_any: named("quantize_any", value)?,
                restore_any: named("restore_any", value)?,
                fill_and_gather: named("fill_and_gather", size)?,
                assemble: named("assemble", size)?,
                write_exceptions: named("write_exceptions", size)?,
                write_listed: named("write_listed", size)?,
                tokenize: named("tokenize", codes)?,
                shuffle: named("shuffle", codes)?,
                expand: pair("expand", "expand_few", codes)?,
                unshuffle: named("unshuffle", codes)?,
                join_columns: named("join_columns", codes)?,
                restore_planes: named("restore_planes", codes)?,
                restore_bits: named("restore_bits", codes)?,
                copy_boxes: named("copy_boxes", size)?,
                linear: if is_float {
                    let [inspect, quantize] = pair("inspect", "quantize", value)?;
                    let [measure_tiles, measure_batch] = pair("measure_tiles", "measure_batch", value)?;
                    Some(LinearKernels { inspect, quantize, measure_tiles, measure_batch })
                } else {
                    None
                },
                interpolation: if is_interpolated {
                    Some(InterpolationKernels {
                        interpolate: pair("interpolate_coarse", "interpolate_pass", value)?,
                        restore: pair("restore_coarse", "restore_pass", value)?,
                    })
                } else {
                    None
                },
            })
        };
        Ok(Self {
            f32: of_type("f32", "f32", "f32")?,
            f64: of_type("f64", "f64", "f64")?,
            f16: of_type("f16", "f16", "f32")?,
            bf16: of_type("bf16", "f16", "f32")?,
            byte: of_type("byte", "byte", "f32")?,
            begin: function("begin")?,
            report_inspections: function("report_inspections")?,
            choose: function("choose")?,
            make_tile_tables: function("make_tile_tables")?,
            measure_kinds: function("measure_kinds")?,
            measure_kinds_of_large_tiles: function("measure_kinds_of_large_tiles")?,
            choose_by_tiles: function("choose_by_tiles")?,
            encode_lanes: function("encode_lanes")?,
            checksum_and_copy: function("checksum_and_copy")?,
            fetch: function("fetch")?,
            copy_runs: function("copy_runs")?,
            open_stream: function("open_stream")?,
            decode_lanes: function("decode_lanes")?,
            count_exceptions: function("count_exceptions")?,
            count_interpolated_exceptions: function("count_interpolated_exceptions")?,
        })
    }

    /// Those for a type. Whole numbers have the kernels of floating-point numbers of their size.
    pub(crate) fn of_type(&self, scalar: Scalar) -> &TypeKernels {
        match scalar {
            Scalar::F32 | Scalar::I32 | Scalar::U32 | Scalar::C64 => &self.f32,
            Scalar::F64 | Scalar::I64 | Scalar::U64 | Scalar::C128 => &self.f64,
            Scalar::F16 | Scalar::I16 | Scalar::U16 => &self.f16,
            Scalar::BF16 => &self.bf16,
            Scalar::I8 | Scalar::U8 => &self.byte,
        }
    }
}

/// Most numbers that a kernel takes besides its job.
const MOST_NUMBERS: usize = 6;

/// Launches a kernel that takes a job and some numbers more. Allocates nothing, as cudarc's own launches do.
///
/// Programmatic dependent launch, by which a kernel's blocks are set up while the kernel before it still runs, was tried and left out: on
/// an H200 a recorded compression of 64^3 values took 55.1 us with it and 54.7 without, a decompression 47.9 and 39.8.
pub(crate) fn launch<J: DeviceRepr>(
    stream: &CudaStream,
    function: &CudaFunction,
    grid: (u32, u32, u32),
    threads: u32,
    job: &J,
    numbers: &[u32],
) -> Result<()> {
    const WHAT: &str = "launching a kernel";
    assert!(numbers.len() <= MOST_NUMBERS, "there is room for {MOST_NUMBERS} numbers");
    stream.context().bind_to_thread().context(WHAT)?;
    let mut arguments = [std::ptr::from_ref(job).cast_mut().cast::<c_void>(); 1 + MOST_NUMBERS];
    for (argument, number) in arguments[1..].iter_mut().zip(numbers) {
        *argument = std::ptr::from_ref(number).cast_mut().cast();
    }
    let (arguments, block) = (&mut arguments[..=numbers.len()], (threads, 1, 1));
    // SAFETY: kernels stay inside the arrays of the job: `plan/`, `tiles.rs` and `resident/boxes.rs` lay these out in memory of a session or a room, or at
    // addresses that a caller vouches for. The job and the numbers are those of the kernel's signature in `kernels`, and are copied before the call returns.
    unsafe { result::launch_kernel(function.cu_function(), grid, block, 0, stream.cu_stream(), arguments) }.context(WHAT)
}

/// Launches recorded once and started with one call.
pub(crate) struct Graph(CudaGraph);

// SAFETY: a graph belongs to one session, and a session to one thread at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `enqueue` puts into the stream.
    pub(crate) fn record(stream: &Arc<CudaStream>, enqueue: impl FnOnce() -> Result<()>) -> Result<Self> {
        const WHAT: &str = "recording the kernels";
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).context(WHAT)?;
        let enqueued = enqueue();
        let graph = stream.end_capture(CUgraphInstantiate_flags(0)).context(WHAT);
        enqueued?;
        graph?.map(Self).ok_or_else(|| Error::Failed(reason!("{WHAT}: the graph is empty")))
    }

    pub(crate) fn launch(&self) -> Result<()> {
        self.0.launch().context("launching the kernels")
    }
}

/// An event on a caller's stream, which is given as a number. It comes when the work is done that the stream had before.
pub(crate) struct CallersEvent(CudaEvent);

impl CallersEvent {
    /// # Errors
    /// `Unsupported` for a stream that cannot be waited for: the caller's mistake, no fault of the device.
    pub(crate) fn record(context: &Arc<CudaContext>, stream: u64) -> Result<Self> {
        context.bind_to_thread().context("binding the CUDA context")?;
        // An event of a captured stream would take our own streams into the capture when they wait for it.
        // SAFETY: the caller of the crate vouches for the stream.
        let status = unsafe { result::stream::is_capturing(stream as sys::CUstream) }.map_err(of_callers_stream)?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(of_callers_stream(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)));
        }
        let event = context.new_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING)).context("making a CUDA event")?;
        // SAFETY: the caller of the crate vouches for the stream; the event is ours.
        unsafe { sys::cuEventRecord(event.cu_event(), stream as sys::CUstream) }.result().map_err(of_callers_stream)?;
        Ok(Self(event))
    }

    /// Waits for the event.
    pub(crate) fn wait(&self) -> Result<()> {
        self.0.synchronize().map_err(of_callers_stream)
    }

    /// Makes a stream of ours wait for the event.
    pub(crate) fn make_wait(&self, stream: &CudaStream) -> Result<()> {
        stream.wait(&self.0).map_err(of_callers_stream)
    }
}

/// The error of a caller's stream.
fn of_callers_stream(error: DriverError) -> Error {
    Error::Unsupported(reason!(
        "the caller's CUDA stream cannot be waited for ({:?}): give a stream of the primary context that is not being captured",
        error.0
    ))
}

/// Prepares the calling thread for calls of the driver. When this is dropped, the thread has its CUDA context and its capture mode of before: the host program
/// may use others. Guards of one thread must end in the reverse order of their beginning.
///
/// While the program captures a graph, the driver refuses allocations, waits and other calls: to the capturing thread, and to all threads if the capture's mode
/// is global. The attempt also ends the capture. Our streams are in no such capture, so that these calls do no harm: a thread in relaxed mode may make them.
pub(crate) struct ThreadGuard {
    context: Option<CUcontext>,
    capture_mode: Option<CUstreamCaptureMode>,
}

impl ThreadGuard {
    /// Call it after the driver was initialised.
    pub(crate) fn new() -> Self {
        let context = result::ctx::get_current().ok().flatten();
        Self { context, capture_mode: exchange_capture_mode(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED) }
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        if let Some(mode) = self.capture_mode {
            exchange_capture_mode(mode);
        }
        // SAFETY: the context was current before, or none was.
        let _ = unsafe { result::ctx::set_current(self.context.unwrap_or(std::ptr::null_mut())) };
    }
}

/// Sets the calling thread's capture mode. Returns the mode before; `None` if the driver fails.
fn exchange_capture_mode(mut mode: CUstreamCaptureMode) -> Option<CUstreamCaptureMode> {
    // SAFETY: the driver reads a mode and writes another one.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result().ok().map(|()| mode)
}

/// Opens a device's primary context.
pub(crate) fn open_context(ordinal: usize) -> std::result::Result<Arc<CudaContext>, DriverError> {
    let context = CudaContext::new(ordinal)?;
    // With its tracking of events, cudarc would wait for all work of the host program in this context before it makes a second stream.
    // SAFETY: the events are for slices of cudarc's, and this crate makes none.
    unsafe { context.disable_event_tracking() };
    Ok(context)
}

/// Whether the driver's library can be loaded.
pub(crate) fn driver_is_present() -> bool {
    // SAFETY: loads a library by name; NVIDIA's does nothing before it is called.
    unsafe { sys::is_culib_present() }
}

/// Bytes of a card's address on the PCI bus, such as `0000:0f:00.0`, with room to spare.
pub(crate) const BUS_ID_ROOM: usize = 32;

/// A device's address on the PCI bus, in lower case, and its length in bytes; nothing where the driver does not say.
pub(crate) fn pci_bus_id(device: sys::CUdevice) -> Option<([u8; BUS_ID_ROOM], usize)> {
    if !has_function("cuDeviceGetPCIBusId") {
        return None;
    }
    let mut bytes = [0; BUS_ID_ROOM];
    // SAFETY: the driver writes a text of C into a room of that length.
    unsafe { sys::cuDeviceGetPCIBusId(bytes.as_mut_ptr().cast(), BUS_ID_ROOM as i32, device) }.result().ok()?;
    bytes.make_ascii_lowercase();
    let length = bytes.iter().position(|&byte| byte == 0)?;
    Some((bytes, length))
}

/// Whether a server of the Multi-Process Service runs what contexts on a device do. Drivers before CUDA 12.4 do not know, and say no.
pub(crate) fn is_shared_by_mps(device: sys::CUdevice) -> bool {
    /// `CU_DEVICE_ATTRIBUTE_MPS_ENABLED`, which cudarc's enumeration for CUDA 12.2 does not have.
    const MPS_ENABLED: c_int = 133;
    type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, sys::CUdevice) -> c_int;
    // SAFETY: the function has this signature, an enumeration being an int in C.
    let Ok(get) = (unsafe { sys::culib().get::<GetAttribute>(b"cuDeviceGetAttribute") }) else { return false };
    let mut value = 0;
    // SAFETY: writes a number; an attribute that it does not know is an error.
    unsafe { get(&raw mut value, MPS_ENABLED, device) == 0 && value != 0 }
}

/// Functions of the driver that this crate calls and old drivers may not have.
pub(crate) const FUNCTIONS: [&str; 14] = [
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuModuleLoadData",
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuStreamBeginCapture_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuPointerGetAttribute",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
];

/// Whether the driver, which is present, has a function.
pub(crate) fn has_function(name: &str) -> bool {
    // SAFETY: the symbol is looked up, not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
}
