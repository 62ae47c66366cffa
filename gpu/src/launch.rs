//! The kernels, and launching them. The crate's unsafe code is here and in `memory.rs`; besides, `cores.rs` asks the system for the number of cores.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUcontext, CUevent_flags, CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaStream, DriverError, result};
use quire_codec::Scalar;

use crate::declare::SharedStruct;
use crate::error::{Context as _, Error, Result, reason};
use crate::images::image_for;
use crate::job::{BoxJob, CoarseLevels, DecodeJob, EncodeJob, FinePass, PlanePasses, RunJob, TileJob};

/// A kernel. Its parameters are a `Job` and, unless that is `()`, an `Argument`.
pub(crate) struct Kernel<Job, Argument = ()> {
    function: CudaFunction,
    parameters: PhantomData<fn(Job, Argument)>,
}

impl<Job: SharedStruct, Argument: Copy> Kernel<Job, Argument> {
    /// Launches the kernel. Allocates nothing, as cudarc's own launches do.
    ///
    /// Programmatic dependent launch was tried and left out: it sets up a kernel's blocks while the kernel before it still runs. On an H200, a recorded
    /// decompression of 64^3 values took 47.9 us with it and 39.8 without.
    pub(crate) fn launch(
        &self,
        stream: &CudaStream,
        grid: (u32, u32, u32),
        threads: u32,
        job: &Job,
        argument: Argument,
    ) -> Result<()> {
        const WHAT: &str = "launching a kernel";
        stream.context().bind_to_thread().context(WHAT)?;
        let mut parameters =
            [std::ptr::from_ref(job).cast::<c_void>(), (&raw const argument).cast()].map(<*const c_void>::cast_mut);
        let count = if size_of::<Argument>() == 0 { 1 } else { 2 };
        let (parameters, function, block) = (&mut parameters[..count], self.function.cu_function(), (threads, 1, 1));
        // SAFETY: kernels stay inside the arrays of the job: `plan/`, `tiles.rs` and `resident/boxes.rs` lay these out in memory of a session, or at addresses
        // that a caller vouches for. `Kernels` and `TypeKernels` give each kernel the types of its signature in `kernels`. Job and argument are copied before
        // the call returns.
        unsafe { result::launch_kernel(function, grid, block, 0, stream.cu_stream(), parameters) }.context(WHAT)
    }
}

/// Kernels of one value type.
pub(crate) struct TypeKernels {
    pub(crate) quantize_any: Kernel<EncodeJob>,
    pub(crate) restore_any: Kernel<DecodeJob>,
    pub(crate) fill_and_gather: Kernel<EncodeJob>,
    pub(crate) assemble: Kernel<EncodeJob>,
    pub(crate) write_exceptions: Kernel<DecodeJob>,
    pub(crate) write_listed: Kernel<DecodeJob>,
    pub(crate) tokenize: Kernel<EncodeJob>,
    pub(crate) shuffle: Kernel<EncodeJob>,
    pub(crate) expand: Kernel<DecodeJob>,
    /// For few blocks: many threads a block.
    pub(crate) expand_few: Kernel<DecodeJob>,
    pub(crate) unshuffle: Kernel<DecodeJob>,
    pub(crate) join_columns: Kernel<DecodeJob>,
    pub(crate) restore_planes: Kernel<DecodeJob, PlanePasses>,
    /// The argument is the kind of a pass.
    pub(crate) restore_bits: Kernel<DecodeJob, u32>,
    pub(crate) copy_boxes: Kernel<BoxJob>,
    /// For floating-point numbers.
    pub(crate) linear_grid: Option<LinearGridKernels>,
    /// For types that have a fine grid.
    pub(crate) interpolation: Option<InterpolationKernels>,
}

/// Kernels for the grid of an absolute bound, and for lattices.
pub(crate) struct LinearGridKernels {
    pub(crate) inspect: Kernel<EncodeJob>,
    pub(crate) quantize: Kernel<EncodeJob>,
    /// Where order or thresholds are kept.
    pub(crate) quantize_kept: Kernel<EncodeJob>,
    pub(crate) measure_tiles: Kernel<TileJob>,
    pub(crate) measure_batch: Kernel<TileJob>,
}

/// Kernels for interpolation, in both directions.
pub(crate) struct InterpolationKernels {
    pub(crate) interpolate: LevelKernels<EncodeJob>,
    pub(crate) restore: LevelKernels<DecodeJob>,
}

/// Kernels for the levels of interpolation.
pub(crate) struct LevelKernels<Job> {
    pub(crate) coarse: Kernel<Job, CoarseLevels>,
    pub(crate) pass: Kernel<Job, FinePass>,
}

/// All kernels of a device.
pub(crate) struct Kernels {
    f32: TypeKernels,
    f64: TypeKernels,
    f16: TypeKernels,
    bf16: TypeKernels,
    byte: TypeKernels,
    /// The argument is a number of words to clear.
    pub(crate) begin: Kernel<EncodeJob, u32>,
    pub(crate) report_inspections: Kernel<EncodeJob>,
    pub(crate) choose_book: Kernel<EncodeJob>,
    pub(crate) make_tile_tables: Kernel<TileJob>,
    /// The argument is a round, here and of the two kernels that follow.
    pub(crate) measure_kinds: Kernel<TileJob, u32>,
    pub(crate) measure_kinds_of_large_tiles: Kernel<TileJob, u32>,
    pub(crate) choose_by_tiles: Kernel<TileJob, u32>,
    pub(crate) encode_lanes: Kernel<EncodeJob>,
    pub(crate) checksum_and_copy: Kernel<EncodeJob>,
    /// The argument is a number of words to clear.
    pub(crate) fetch: Kernel<DecodeJob, u32>,
    pub(crate) copy_runs: Kernel<RunJob>,
    pub(crate) open_stream: Kernel<DecodeJob>,
    pub(crate) decode_lanes: Kernel<DecodeJob>,
    pub(crate) count_exceptions: Kernel<DecodeJob>,
    pub(crate) count_interpolated_exceptions: Kernel<EncodeJob>,
}

/// The module with all kernels.
struct Module(Arc<cudarc::driver::CudaModule>);

impl Module {
    fn load(context: &Arc<CudaContext>) -> Result<Self> {
        let capability = context.compute_capability().context("asking for the compute capability")?;
        let image = cudarc::nvrtc::Ptx::from_binary(image_for(capability)?);
        Ok(Self(context.load_module(image).context("loading the kernels")?))
    }

    fn kernel<Job, Argument>(&self, name: &str) -> Result<Kernel<Job, Argument>> {
        let function = self.0.load_function(name).context(format_args!("looking up the kernel {name}"))?;
        Ok(Kernel { function, parameters: PhantomData })
    }

    /// A kernel whose name ends in a type.
    fn typed<Job, Argument>(&self, name: &str, of_type: &str) -> Result<Kernel<Job, Argument>> {
        self.kernel(&quire_codec::memory::text(format_args!("{name}_{of_type}"))?)
    }

    /// Kernels of a type. Their names end in the type that they depend on: the values' own, one of their size, or one whose codes are as wide.
    fn of_type(&self, value: &str, size: &str, codes: &str) -> Result<TypeKernels> {
        // Bytes are whole numbers alone, and only types as long as their codes have a fine grid.
        let (is_float, is_interpolated) = (value != "byte", value == codes);
        let linear_grid = || -> Result<LinearGridKernels> {
            Ok(LinearGridKernels {
                inspect: self.typed("inspect", value)?,
                quantize: self.typed("quantize", value)?,
                quantize_kept: self.typed("quantize_kept", value)?,
                measure_tiles: self.typed("measure_tiles", value)?,
                measure_batch: self.typed("measure_batch", value)?,
            })
        };
        let interpolation = || -> Result<InterpolationKernels> {
            Ok(InterpolationKernels {
                interpolate: LevelKernels {
                    coarse: self.typed("interpolate_coarse", value)?,
                    pass: self.typed("interpolate_pass", value)?,
                },
                restore: LevelKernels { coarse: self.typed("restore_coarse", value)?, pass: self.typed("restore_pass", value)? },
            })
        };
        Ok(TypeKernels {
            quantize_any: self.typed("quantize_any", value)?,
            restore_any: self.typed("restore_any", value)?,
            fill_and_gather: self.typed("fill_and_gather", size)?,
            assemble: self.typed("assemble", size)?,
            write_exceptions: self.typed("write_exceptions", size)?,
            write_listed: self.typed("write_listed", size)?,
            tokenize: self.typed("tokenize", codes)?,
            shuffle: self.typed("shuffle", codes)?,
            expand: self.typed("expand", codes)?,
            expand_few: self.typed("expand_few", codes)?,
            unshuffle: self.typed("unshuffle", codes)?,
            join_columns: self.typed("join_columns", codes)?,
            restore_planes: self.typed("restore_planes", codes)?,
            restore_bits: self.typed("restore_bits", codes)?,
            copy_boxes: self.typed("copy_boxes", size)?,
            linear_grid: if is_float { Some(linear_grid()?) } else { None },
            interpolation: if is_interpolated { Some(interpolation()?) } else { None },
        })
    }
}

impl Kernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self> {
        let module = Module::load(context)?;
        Ok(Self {
            f32: module.of_type("f32", "f32", "f32")?,
            f64: module.of_type("f64", "f64", "f64")?,
            f16: module.of_type("f16", "f16", "f32")?,
            bf16: module.of_type("bf16", "f16", "f32")?,
            byte: module.of_type("byte", "byte", "f32")?,
            begin: module.kernel("begin")?,
            report_inspections: module.kernel("report_inspections")?,
            choose_book: module.kernel("choose_book")?,
            make_tile_tables: module.kernel("make_tile_tables")?,
            measure_kinds: module.kernel("measure_kinds")?,
            measure_kinds_of_large_tiles: module.kernel("measure_kinds_of_large_tiles")?,
            choose_by_tiles: module.kernel("choose_by_tiles")?,
            encode_lanes: module.kernel("encode_lanes")?,
            checksum_and_copy: module.kernel("checksum_and_copy")?,
            fetch: module.kernel("fetch")?,
            copy_runs: module.kernel("copy_runs")?,
            open_stream: module.kernel("open_stream")?,
            decode_lanes: module.kernel("decode_lanes")?,
            count_exceptions: module.kernel("count_exceptions")?,
            count_interpolated_exceptions: module.kernel("count_interpolated_exceptions")?,
        })
    }

    /// The kernels for a type. Whole numbers have those of floating-point numbers of their size.
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

/// An event on a caller's stream, which is given as a number. The event comes when the stream has done its work so far.
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

/// Prepares the calling thread for calls of the driver. When this is dropped, the thread gets back the CUDA context and the capture mode of the host program.
/// Guards of one thread must end in the reverse order of their beginning.
///
/// While the program captures a graph, the driver refuses allocations, waits and other calls: to the capturing thread, and to all threads if the capture's mode
/// is global. A refused call also ends the capture. A thread in relaxed mode may make these calls. They do not harm the capture, because our streams are not in
/// it.
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

/// The version of CUDA that the driver, which is present, was made for: major, minor.
pub(crate) fn driver_version() -> Option<(u32, u32)> {
    let mut version = 0;
    if !has_function("cuDriverGetVersion") {
        return None;
    }
    // SAFETY: the driver writes a number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().ok()?;
    let version = u32::try_from(version).ok()?;
    Some((version / 1000, version % 1000 / 10))
}

/// Bytes of a card's address on the PCI bus, such as `0000:0f:00.0`, with room to spare.
pub(crate) const BUS_ID_BYTES: usize = 32;

/// A device's address on the PCI bus, in lower case, and its length in bytes; nothing where the driver does not say.
pub(crate) fn pci_bus_id(device: sys::CUdevice) -> Option<([u8; BUS_ID_BYTES], usize)> {
    if !has_function("cuDeviceGetPCIBusId") {
        return None;
    }
    let mut bytes = [0; BUS_ID_BYTES];
    // SAFETY: the driver writes a text of C into that many bytes.
    unsafe { sys::cuDeviceGetPCIBusId(bytes.as_mut_ptr().cast(), BUS_ID_BYTES as i32, device) }.result().ok()?;
    bytes.make_ascii_lowercase();
    let length = bytes.iter().position(|&byte| byte == 0)?;
    Some((bytes, length))
}

/// Whether a server of the Multi-Process Service runs what contexts on a device do. Drivers before CUDA 12.4 do not know, and say no.
pub(crate) fn is_shared_by_mps(device: sys::CUdevice) -> bool {
    /// `CU_DEVICE_ATTRIBUTE_MPS_ENABLED`, which cudarc's enumeration for CUDA 12.0 does not have.
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
