//! Which processor does a call.
//!
//! ```text
//! environment ─> Settings ─> a GPU for this call? ─ yes ─> quire_gpu ─ done ──────────────────> log
//!                                 │ no: Obstacle               │ no: Obstacle
//!                                 └────────────────────────────┴─> quire_codec, or an error ──> log
//! ```
//!
//! Both make the same bytes: only speed depends on the processor. So with `auto` a chunk goes to whichever is free: [`auto`] says whether the GPU is, and
//! when it is worth opening. [`settings`] has what the environment says.
//!
//! Nothing of CUDA runs before a chunk asks for it; `cuda` asks when a dataset is created.

/// When `auto` opens the GPU, and when the GPU is free.
#[cfg_attr(not(target_os = "linux"), path = "backend/no_gpu.rs")]
mod auto;
/// Which of several GPUs is a process's.
mod rank;
/// Values in a GPU's memory.
pub(crate) mod resident;
/// What the environment says.
mod settings;

use std::fmt;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use quire_codec::stages::adaptive::{AdaptiveDictionary, UserDictionary};
use quire_codec::{AdaptPolicy, Config, Error, Layout, Result, Unverified, Workspace, memory};
use quire_gpu::{Chunk, ChunkRoom, Compressed, Device, Staging};

use self::auto::{Turn, Wait};
use self::rank::LocalRank;
pub(crate) use self::settings::MOST_THREADS;
use self::settings::{Backend, Choice, Settings};
use crate::dictionary;
use crate::environment;
use crate::message::Message;
use crate::platform;

/// Bytes of the uncompressed chunk from which on `auto` takes the GPU. Below it, the way to the GPU and back takes longer than the
/// CPU's work: on an H200 the two meet at 57 KiB for compressing and at 64 KiB for decompressing, by the run (h5-samples/results/gpu_codec.txt).
const GPU_FROM_BYTES: usize = 96 << 10;

/// Bytes of the longest chunks that are gathered in pinned memory: the process keeps up to 16 times as much.
const LONGEST_STAGED: usize = 16 << 20;

/// The stream of a chunk, where the processor has left it.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and a box may be refused")]
pub(crate) enum Stream<'a> {
    /// In the caller's vector.
    Kept(&'a [u8]),
    /// In pinned memory, until this is dropped.
    Pinned(Compressed),
}

impl Stream<'_> {
    /// The stream's bytes.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        match self {
            Self::Kept(bytes) => bytes,
            // `compress_on` lets none pass that is elsewhere.
            Self::Pinned(compressed) => compressed.bytes().unwrap_or_default(),
        }
    }
}

/// Compresses a chunk. `kept` is room for the stream; `history` has the codebooks of the thread's earlier chunks.
/// The chunk stays as it is, so that a failure loses nothing. The stream does not need the chunk, and can be written over it.
///
/// # Errors
/// `InvalidArgument` for a bound that values of the type cannot have, for an environment that makes no sense, and where the GPU fails but is required;
/// `OutOfMemory`.
pub(crate) fn compress<'a>(
    chunk: Chunk<'_>,
    layout: &Layout,
    config: &Config,
    workspace: &mut Workspace,
    kept: &'a mut Vec<u8>,
    history: &mut Option<AdaptiveDictionary>,
) -> Result<Stream<'a>> {
    let settings = Settings::get()?;
    let adapt = config.adapt;
    let config = Config { codebook: settings.codebook, books: dictionary::books(config, history)?, ..*config };
    let length = chunk.bytes.len();
    let attempt = settings
        .take_gpu(Direction::Compress, length)
        .and_then(|(device, _turn)| Ok((device, compress_on(device, chunk, layout, &config, kept)?)));
    let mut stream = match settings.log_attempt(Direction::Compress, attempt)? {
        Some(Some(pinned)) => Stream::Pinned(pinned),
        Some(None) => Stream::Kept(kept),
        None => {
            let watch = Watch::start(length);
            workspace.compress(chunk.bytes, layout, &config, kept)?;
            watch.note_work(settings.device);
            Stream::Kept(kept)
        }
    };
    if let Some(history) = history.as_mut().filter(|_| adapt == AdaptPolicy::History) {
        history.learn(stream.bytes());
    }
    Ok(stream)
}

/// Decompresses a stream into `chunk`, which has the length that the stream's header gives. After an error its contents are unspecified.
/// The processor that decodes the stream computes its checksum.
///
/// # Errors
/// `Truncated` or `Corrupt` for a stream that breaks a rule, `InvalidArgument` for an environment that makes no sense, and where the GPU fails but is required;
/// `OutOfMemory`.
pub(crate) fn decompress(stream: Unverified<'_>, mut chunk: ChunkRoom<'_>, workspace: &mut Workspace) -> Result<()> {
    let settings = Settings::get()?;
    let mut on_the_cpu = |chunk: &mut [u8]| workspace.decompress_verified(&stream.verify()?, chunk);
    // Constant and stored chunks are only copied, whatever the settings: nobody gains by sending them to a GPU.
    if !stream.header().coding.has_planes() {
        return on_the_cpu(chunk.bytes);
    }
    let length = chunk.bytes.len();
    let attempt = settings
        .take_gpu(Direction::Decompress, length)
        .and_then(|(device, _turn)| Ok((device, device.decompress(stream)?.finish(chunk.lend())?)));
    if let Err(Obstacle::Gpu(quire_gpu::Error::Refused)) = attempt {
        // The CPU's decoder finds the reason and has the words for it.
        on_the_cpu(chunk.bytes)?;
        say_once(format_args!("the GPU refused a stream that the CPU decodes. The data are right; please report this bug"));
        return Ok(());
    }
    if settings.log_attempt(Direction::Decompress, attempt)?.is_none() {
        let watch = Watch::start(length);
        on_the_cpu(chunk.bytes)?;
        watch.note_work(settings.device);
    }
    Ok(())
}

/// Pinned memory for a chunk: one that is gathered there and then compressed, or one that is decompressed there and then scattered. The GPU copies from and to
/// it directly. `None` where chunks of this length go to the CPU for now, where they are long, and where there is no such memory. Streams do not depend on it.
pub(crate) fn staging(chunk_bytes: usize) -> Option<Staging> {
    open_for_staging(chunk_bytes)?.staging(chunk_bytes).ok()?
}

/// The GPU that has pinned memory for chunks of this length, now or when some comes back. The GPU is opened as for a chunk.
pub(crate) fn open_for_staging(chunk_bytes: usize) -> Option<&'static Device> {
    if chunk_bytes > LONGEST_STAGED {
        return None;
    }
    let settings = Settings::get().ok()?;
    match settings.backend {
        Backend::Cpu => return None,
        Backend::Auto if chunk_bytes < GPU_FROM_BYTES => return None,
        Backend::Auto => auto::open_if_it_pays(settings.device).ok()?,
        Backend::Cuda => {}
    }
    settings.open().ok()
}

/// Measures the CPU's time for a chunk that is for a GPU.
struct Watch(Option<Instant>);

impl Watch {
    fn start(chunk_bytes: usize) -> Self {
        Self((chunk_bytes >= GPU_FROM_BYTES).then(Instant::now))
    }

    fn note_work(&self, choice: Choice) {
        if let Some(begun) = self.0 {
            auto::note_work(choice, begun.elapsed());
        }
    }
}

/// Where chunks will be compressed and decompressed, as far as can be told before there are any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// `cuda`, `cpu`, or `none` where the environment forbids every call.
    pub(crate) backend: &'static str,
    /// What the driver calls the GPU, if it is to be used.
    pub(crate) device: Option<&'static str>,
    /// Why it is this backend.
    pub(crate) why: String,
}

/// Tells where chunks will go that are long enough for a GPU, and of a type that it takes. Opens the GPU and waits for it.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn outlook() -> Result<Outlook> {
    let none = |error: Error| error_or_text(error).map(|why| Outlook { backend: "none", device: None, why });
    let settings = match Settings::get() {
        Ok(settings) => settings,
        Err(error) => return none(error),
    };
    let asked = match settings.backend {
        Backend::Cpu => Err(Obstacle::Unwanted),
        Backend::Auto | Backend::Cuda => settings.open(),
    };
    match asked {
        Ok(device) => Ok(Outlook {
            backend: "cuda",
            device: Some(device.name()),
            why: match settings.backend {
                Backend::Cuda => memory::text(format_args!("QUIRE_BACKEND=cuda; {}", settings.choice().as_str()))?,
                _ => memory::text(format_args!(
                    "{} can be used, by chunks of {GPU_FROM_BYTES} bytes and more, {}",
                    settings.choice().as_str(),
                    auto::describe(device)
                ))?,
            },
        }),
        Err(obstacle) if settings.backend == Backend::Cuda => none(obstacle.into_error()),
        Err(obstacle) => Ok(Outlook { backend: "cpu", device: None, why: memory::text(obstacle)? }),
    }
}

/// What an error says; a lack of memory stays an error.
fn error_or_text(error: Error) -> Result<String> {
    if matches!(error, Error::OutOfMemory { .. }) { Err(error) } else { memory::text(error) }
}

/// Finds reasons against compressing a dataset when it is created. HDF5 passes over an optional filter's failure to compress
/// a chunk, and h5py and netCDF make all filters optional; a failure to create the dataset is always an error.
///
/// # Errors
/// `InvalidArgument` for an environment that makes no sense, that names a dictionary which is none, or that asks for a GPU which is not to be had.
pub(crate) fn check_dataset(layout: &Layout) -> Result<()> {
    let settings = Settings::get()?;
    if let Some(UserDictionary { origin, books }) = dictionary::user()?.filter(|_| settings.log) {
        say_once(format_args!("{} more codebooks: {origin}", books.len()));
    }
    if settings.backend != Backend::Cuda {
        return Ok(());
    }
    let possible = Device::check_layout(layout).map_err(Obstacle::Gpu).and_then(|()| settings.open());
    possible.map(|_| ()).map_err(Obstacle::into_error)
}

/// Whether the process was started as a rank of a job.
pub(crate) fn is_rank() -> bool {
    LocalRank::read(|name, read| environment::variable(name, read)).is_ok_and(|rank| rank.is_some())
}

/// The number of threads that `QUIRE_THREADS` asks for, if it asks for any.
///
/// # Errors
/// `InvalidArgument` for an environment that makes no sense.
pub fn threads_of_environment() -> Result<Option<NonZero<usize>>> {
    Ok(Settings::get()?.threads)
}

/// Says something once, if `QUIRE_LOG=1` is set.
pub(crate) fn log_once(text: fmt::Arguments<'_>) {
    if Settings::get().is_ok_and(|settings| settings.log) {
        say_once(text);
    }
}

/// Reads the filter's environment variables as the first chunk would, and the dictionary that they name.
///
/// # Errors
/// `InvalidArgument` with the variable, its value and what to give.
pub fn check_environment() -> Result<()> {
    Settings::get()?;
    dictionary::user().map(|_| ())
}

/// Compresses a chunk on the GPU. The stream stays in pinned memory if it is there; it goes to `kept` if it has to be fetched, which may
/// fail while the chunk is still whole.
fn compress_on(
    device: &'static Device,
    chunk: Chunk<'_>,
    layout: &Layout,
    config: &Config,
    kept: &mut Vec<u8>,
) -> std::result::Result<Option<Compressed>, Obstacle> {
    let mut compressed = device.compress(chunk, layout, config)?;
    if compressed.bytes().is_some() {
        return Ok(Some(compressed));
    }
    let length = compressed.len();
    // Only bytes that the vector has never had are zeroed: once a thread.
    memory::resize(kept, length).map_err(|_| Obstacle::NoMemory(length))?;
    compressed.copy_to(kept)?;
    Ok(None)
}

impl Settings {
    /// Opens the GPU and takes leave to use it, if a chunk of `chunk_bytes` bytes goes there.
    fn take_gpu(&self, direction: Direction, chunk_bytes: usize) -> std::result::Result<(&'static Device, Turn), Obstacle> {
        match self.backend {
            Backend::Cpu => Err(Obstacle::Unwanted),
            Backend::Auto if chunk_bytes < GPU_FROM_BYTES => Err(Obstacle::Small),
            Backend::Auto => {
                auto::open_if_it_pays(self.device)?;
                let device = self.open()?;
                Ok((device, Turn::take(device, direction, chunk_bytes)?))
            }
            Backend::Cuda => Ok((self.open()?, Turn::without_lock())),
        }
    }

    /// The GPU, which is opened unless it is open.
    fn open(&self) -> std::result::Result<&'static Device, Obstacle> {
        let opened = quire_gpu::device(self.device.ordinal());
        // Whether it is open or not, the next chunk hears so at once, and does not wait for more work of the CPU.
        auto::note_opened_by_caller();
        let device = opened?;
        if self.log && self.device.is_by_rank() {
            say_once(format_args!("QUIRE_DEVICE=auto: {}", self.choice().as_str()));
        }
        Ok(device)
    }

    /// The GPU that is open, and why it is this one. Not inlined, as it has a message in its frame.
    #[inline(never)]
    fn choice(&self) -> Message<256> {
        match self.device {
            Choice::Number(number) => Message::new(format_args!("GPU {number}")),
            Choice::ByRank(None) => Message::new("GPU 0"),
            Choice::ByRank(Some(rank)) => {
                let (number, visible) = (self.device.ordinal(), quire_gpu::visible_devices());
                Message::new(format_args!("GPU {number} of {visible} for {rank}"))
            }
        }
    }

    /// Logs how an attempt on the GPU has ended, and hands on what the GPU has made; `None` if the call is the CPU's.
    ///
    /// # Errors
    /// `InvalidArgument` if the CPU may not do it.
    fn log_attempt<T>(&self, direction: Direction, attempt: std::result::Result<(&Device, T), Obstacle>) -> Result<Option<T>> {
        let obstacle = match attempt {
            Ok((device, made)) => {
                self.log(direction, format_args!("on cuda:{} ({})", self.device.ordinal(), device.name()));
                return Ok(Some(made));
            }
            Err(obstacle) if self.backend == Backend::Cuda => return Err(obstacle.into_error()),
            Err(obstacle) => obstacle,
        };
        match obstacle {
            // These come and go, and threads meet them at different times.
            Obstacle::Auto(wait) if wait.comes_and_goes() => {
                let also = if wait.is_busy() { " as well" } else { "" };
                log_once(format_args!("{} on the CPU{also}: {wait}", direction.name()));
            }
            _ if obstacle.is_surprise() && !self.log => {
                say_once(format_args!("{} on the CPU: {obstacle}", direction.name()));
            }
            _ => self.log(direction, format_args!("on the CPU: {obstacle}")),
        }
        Ok(None)
    }

    /// Logs the processor of a call, unless it is that of the last call of this direction.
    fn log(&self, direction: Direction, processor: fmt::Arguments<'_>) {
        if self.log {
            Self::log_now(direction, processor);
        }
    }

    #[inline(never)]
    fn log_now(direction: Direction, processor: fmt::Arguments<'_>) {
        static LAST: [Mutex<String>; 2] = [const { Mutex::new(String::new()) }; 2];
        let line: Message = Message::new(format_args!("{} {processor}", direction.name()));
        {
            // Held for as short as can be: a fork in another thread meanwhile would leave it locked in the child.
            let mut last = LAST[direction as usize].lock().unwrap_or_else(PoisonError::into_inner);
            if *last == line.as_str() {
                return;
            }
            // Without memory to note it, it is said once more.
            *last = memory::text(line.as_str()).unwrap_or_default();
        }
        say(format_args!("{}", line.as_str()));
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Compress,
    Decompress,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::Compress => "compress",
            Self::Decompress => "decompress",
        }
    }
}

/// What keeps a call from the GPU.
#[derive(Debug)]
enum Obstacle {
    /// `QUIRE_BACKEND=cpu`
    Unwanted,
    /// The chunk is faster on the CPU.
    Small,
    /// The host has no room for a stream of this length in bytes.
    NoMemory(usize),
    /// `auto` does not take the GPU now.
    Auto(Wait),
    /// The GPU itself.
    Gpu(quire_gpu::Error),
}

impl Obstacle {
    /// Whether a GPU that was there has let us down. That is said even where nobody asked.
    fn is_surprise(&self) -> bool {
        matches!(self, Self::Gpu(quire_gpu::Error::Failed(_) | quire_gpu::Error::OutOfMemory(_)))
    }

    /// The error where nothing but the GPU will do.
    fn into_error(self) -> Error {
        match self {
            Self::NoMemory(bytes) => Error::OutOfMemory { bytes: bytes as u64 },
            obstacle => Error::invalid(format_args!("QUIRE_BACKEND=cuda, but {obstacle}")),
        }
    }
}

impl From<Wait> for Obstacle {
    fn from(wait: Wait) -> Self {
        Self::Auto(wait)
    }
}

impl From<quire_gpu::Error> for Obstacle {
    fn from(error: quire_gpu::Error) -> Self {
        Self::Gpu(error)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwanted => formatter.write_str("QUIRE_BACKEND=cpu"),
            Self::Small => write!(formatter, "chunks below {GPU_FROM_BYTES} bytes are no gain for the GPU"),
            Self::NoMemory(bytes) => write!(formatter, "the host has no memory for a stream of {bytes} bytes"),
            Self::Auto(wait) => wait.fmt(formatter),
            Self::Gpu(error) => error.fmt(formatter),
        }
    }
}

/// Writes a line to stderr, in one piece and without memory. `eprintln!` panics where stderr is closed.
#[inline(never)]
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let line: Message = Message::new(format_args!("H5Z-Quire: {text}\n"));
    let bytes = line.as_str().as_bytes();
    platform::write_to_stderr(bytes);
}

/// Writes a line to stderr, unless this process has written it before. A line that there is no memory to note may come again.
#[inline(never)]
pub(crate) fn say_once(text: fmt::Arguments<'_>) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let text: Message = Message::new(text);
    {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if said.iter().any(|known| known == text.as_str()) {
            return;
        }
        let _ = memory::text(text.as_str()).and_then(|text| memory::push(&mut said, text));
    }
    say(format_args!("{}", text.as_str()));
}

#[cfg(test)]
mod tests {
    use super::settings::tests::read;
    use super::*;

    #[test]
    fn a_forced_gpu_takes_chunks_of_any_size_and_gives_reasons_for_an_error() {
        let forced = read(&[("QUIRE_BACKEND", "cuda"), ("QUIRE_DEVICE", "64")]).expect("settings");
        let Err(obstacle @ Obstacle::Gpu(_)) = forced.take_gpu(Direction::Compress, 4) else { panic!("there are no 65 GPUs") };
        let error = forced.log_attempt::<()>(Direction::Compress, Err(obstacle)).expect_err("forced").to_string();
        assert_eq!(error, "QUIRE_BACKEND=cuda, but there is no GPU 64: numbers go up to 63");
    }

    #[test]
    fn auto_leaves_small_chunks_and_what_the_gpu_cannot_do_to_the_cpu() {
        let auto = read(&[("QUIRE_DEVICE", "64")]).expect("settings");
        let small = format!("chunks below {GPU_FROM_BYTES} bytes ");
        for (bytes, text) in [(GPU_FROM_BYTES - 1, small.as_str()), (GPU_FROM_BYTES, "there is no GPU 64")] {
            let Err(obstacle) = auto.take_gpu(Direction::Compress, bytes) else { panic!("there are no 65 GPUs") };
            assert!(obstacle.to_string().starts_with(text), "{obstacle}");
            assert_eq!(auto.log_attempt::<()>(Direction::Compress, Err(obstacle)), Ok(None));
        }
    }

    #[test]
    fn the_outlook_gives_a_reason() {
        let outlook = outlook().expect("memory");
        assert!(["cuda", "cpu", "none"].contains(&outlook.backend) && !outlook.why.is_empty(), "{outlook:?}");
        assert_eq!(outlook.device.is_some(), outlook.backend == "cuda");
    }

    #[test]
    fn only_what_a_gpu_has_broken_off_is_told_unasked() {
        let text = || quire_gpu::Reason::default();
        assert!(Obstacle::Gpu(quire_gpu::Error::Failed(text())).is_surprise());
        assert!(Obstacle::Gpu(quire_gpu::Error::OutOfMemory(text())).is_surprise());
        for quiet in [Obstacle::Unwanted, Obstacle::Small, Obstacle::Gpu(quire_gpu::Error::Unavailable(text()))] {
            assert!(!quiet.is_surprise(), "{quiet:?}");
        }
    }
}
