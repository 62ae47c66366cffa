//! What the environment says of the processors. It is read when the first call comes:
//!
//! | variable | values |
//! |---|---|
//! | `QUIRE_BACKEND` | `auto` (default): the GPU for chunks of [`super::GPU_FROM_BYTES`] and more, if it can; `cpu`; `cuda`: what the GPU cannot do is an error |
//! | `QUIRE_DEVICE` | `auto` (default): the GPU of the process's number on its node, see [`super::rank`]; or the number of the GPU |
//! | `QUIRE_LOG` | `1`: a line on stderr whenever the processor, or the reason for it, changes; once a reason, where it comes and goes; 0 by default |
//! | `QUIRE_THREADS` | threads that take the chunks of whole arrays, see [`crate::arrays`]; what the process may use by default |
//! | `QUIRE_DICTIONARY` | a file with codebooks to choose from besides the built-in ones, see [`crate::dictionary`]; none by default |
//! | `QUIRE_CODEBOOK` | `auto` (default), `dictionary`, `custom`: for measurements, see [`CodebookPolicy`] |

use std::ffi::CStr;
use std::fmt;
use std::num::NonZero;
use std::sync::OnceLock;

use quire_codec::{CodebookPolicy, Error, Result};

use super::rank::LocalRank;
use crate::environment::{self, Reader};
use crate::message::Lossy;

/// Most threads that take the chunks of an array.
pub(crate) const MOST_THREADS: usize = 1024;

/// What a process is to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Auto,
    Cpu,
    Cuda,
}

/// Which GPU a process is to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Number(usize),
    /// `auto`: that of the process's local rank, if it has one, else the first.
    ByRank(Option<LocalRank>),
}

impl Choice {
    /// Whether the process is a rank of a job, which takes the GPU of its number.
    pub(super) fn is_by_rank(self) -> bool {
        matches!(self, Self::ByRank(Some(_)))
    }

    /// The number of the GPU. For a rank the driver is asked how many there are; where it shows none, opening number 0 finds out why.
    pub(super) fn ordinal(self) -> usize {
        match self {
            Self::Number(number) => number,
            Self::ByRank(None) => 0,
            Self::ByRank(Some(LocalRank { rank, .. })) => rank % quire_gpu::visible_devices().max(1),
        }
    }
}

/// What the environment says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) backend: Backend,
    pub(super) device: Choice,
    pub(super) log: bool,
    pub(super) codebook: CodebookPolicy,
    pub(super) threads: Option<NonZero<usize>>,
}

impl Settings {
    /// Reads the environment once a process, or again until there is memory for the reason of a refusal.
    pub(super) fn get() -> Result<&'static Self> {
        static SETTINGS: OnceLock<Result<Settings>> = OnceLock::new();
        let found = match SETTINGS.get() {
            Some(found) => found,
            None => match Self::read(|name, read| environment::variable(name, read)) {
                Err(error @ Error::OutOfMemory { .. }) => return Err(error),
                found => SETTINGS.get_or_init(|| found),
            },
        };
        found.as_ref().map_err(Error::invalid)
    }

    /// Understands variables, of which `variable` hands the values on; an empty one counts as missing.
    fn read(variable: impl Fn(&CStr, Reader<'_>) -> Result<()>) -> Result<Self> {
        let device = Choice::ByRank(LocalRank::read(&variable)?);
        let mut settings = Self { backend: Backend::Auto, device, log: false, codebook: CodebookPolicy::Auto, threads: None };
        variable(c"QUIRE_BACKEND", &mut |value| {
            let choices = [("auto", Backend::Auto), ("cpu", Backend::Cpu), ("cuda", Backend::Cuda)];
            choose("QUIRE_BACKEND", value, &choices, &mut settings.backend)
        })?;
        variable(c"QUIRE_DEVICE", &mut |value| {
            let Some(value) = value.filter(|value| !value.is_empty() && *value != c"auto") else { return Ok(()) };
            let number = value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                let value = Lossy(value.to_bytes());
                Error::invalid(format_args!(
                    "QUIRE_DEVICE={value} is not the number of a GPU: give 0, 1, 2, ... as in nvidia-smi, or auto"
                ))
            })?;
            settings.device = Choice::Number(number);
            Ok(())
        })?;
        variable(c"QUIRE_LOG", &mut |value| choose("QUIRE_LOG", value, &[("0", false), ("1", true)], &mut settings.log))?;
        variable(c"QUIRE_CODEBOOK", &mut |value| {
            let choices =
                [("auto", CodebookPolicy::Auto), ("dictionary", CodebookPolicy::Dictionary), ("custom", CodebookPolicy::Custom)];
            choose("QUIRE_CODEBOOK", value, &choices, &mut settings.codebook)
        })?;
        variable(c"QUIRE_THREADS", &mut |value| {
            let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(()) };
            let number = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|&number| number <= MOST_THREADS);
            settings.threads = number.and_then(NonZero::new);
            settings.threads.map(|_| ()).ok_or_else(|| {
                let value = Lossy(value.to_bytes());
                Error::invalid(format_args!("QUIRE_THREADS={value} is not a number of threads: give 1 to {MOST_THREADS}"))
            })
        })?;
        Ok(settings)
    }
}

/// Understands a variable with a few values. Where it is missing, the choice stays as it is.
fn choose<T: Copy>(name: &str, value: Option<&CStr>, choices: &[(&str, T)], choice: &mut T) -> Result<()> {
    let Some(value) = value.map(CStr::to_bytes).filter(|value| !value.is_empty()) else { return Ok(()) };
    let found = choices.iter().find(|(text, _)| text.as_bytes() == value);
    (_, *choice) = *found
        .ok_or_else(|| Error::invalid(format_args!("{name}={} is unknown: the choices are {}", Lossy(value), Names(choices))))?;
    Ok(())
}

/// The names of choices, with commas between them.
struct Names<'a, T>(&'a [(&'a str, T)]);

impl<T> fmt::Display for Names<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, _)) in self.0.iter().enumerate() {
            write!(formatter, "{}{name}", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::ffi::CString;

    /// Settings of these variables.
    pub(in crate::backend) fn read(variables: &[(&str, &str)]) -> Result<Settings> {
        Settings::read(|name, read| {
            let value = variables.iter().find(|(known, _)| Ok(*known) == name.to_str());
            read(value.map(|(_, value)| CString::new(*value).expect("a C string")).as_deref())
        })
    }

    fn reason(variables: &[(&str, &str)]) -> String {
        read(variables).expect_err("refused").to_string()
    }

    #[test]
    fn nothing_set_means_auto() {
        let device = Choice::ByRank(None);
        let default = Settings { backend: Backend::Auto, device, log: false, codebook: CodebookPolicy::Auto, threads: None };
        assert_eq!(read(&[]), Ok(default));
        assert_eq!(read(&[("QUIRE_BACKEND", ""), ("QUIRE_DEVICE", ""), ("QUIRE_LOG", "")]), read(&[]));
        assert_eq!(read(&[("QUIRE_DEVICE", "auto")]), read(&[]));
    }

    #[test]
    fn every_value_is_understood() {
        let variables = [("QUIRE_BACKEND", "cuda"), ("QUIRE_DEVICE", "3"), ("QUIRE_LOG", "1"), ("QUIRE_CODEBOOK", "custom")];
        let device = Choice::Number(3);
        let all = Settings { backend: Backend::Cuda, device, log: true, codebook: CodebookPolicy::Custom, threads: None };
        assert_eq!(read(&variables), Ok(all));
        assert_eq!(read(&[("QUIRE_BACKEND", "cpu")]).map(|settings| settings.backend), Ok(Backend::Cpu));
        assert_eq!(read(&[("QUIRE_THREADS", "7")]).map(|settings| settings.threads), Ok(NonZero::new(7)));
        assert_eq!(read(&[("QUIRE_CODEBOOK", "dictionary")]).map(|settings| settings.codebook), Ok(CodebookPolicy::Dictionary));
    }

    #[test]
    fn the_local_rank_is_that_of_the_program_that_started_the_process() {
        let chosen = |variables: &[(&str, &str)]| match read(variables).expect("settings").device {
            Choice::ByRank(rank) => rank.map_or_else(|| "none".to_owned(), |rank| rank.to_string()),
            Choice::Number(number) => number.to_string(),
        };
        let (slurm, open_mpi) = (("SLURM_LOCALID", "0"), ("OMPI_COMM_WORLD_LOCAL_RANK", "5"));
        assert_eq!(chosen(&[slurm]), "SLURM_LOCALID=0");
        assert_eq!(chosen(&[slurm, open_mpi]), "OMPI_COMM_WORLD_LOCAL_RANK=5", "mpirun under sbatch");
        assert_eq!(chosen(&[("MPI_LOCALRANKID", "-1"), ("PMI_LOCAL_RANK", "3")]), "PMI_LOCAL_RANK=3");
        assert_eq!(chosen(&[("MPI_LOCALRANKID", "")]), "none");
        assert_eq!(chosen(&[open_mpi, ("QUIRE_DEVICE", "2")]), "2");
    }

    #[test]
    fn other_values_are_refused_with_the_choices() {
        assert_eq!(reason(&[("QUIRE_BACKEND", "gpu")]), "QUIRE_BACKEND=gpu is unknown: the choices are auto, cpu, cuda");
        assert_eq!(reason(&[("QUIRE_LOG", "yes")]), "QUIRE_LOG=yes is unknown: the choices are 0, 1");
        assert_eq!(
            reason(&[("QUIRE_CODEBOOK", "best")]),
            "QUIRE_CODEBOOK=best is unknown: the choices are auto, dictionary, custom"
        );
        for threads in ["0", "-1", "all", "1025"] {
            assert!(
                reason(&[("QUIRE_THREADS", threads)]).starts_with(&format!("QUIRE_THREADS={threads} is not a number of threads"))
            );
        }
        for device in ["-1", "one", "0x1", "99999999999999999999"] {
            assert!(
                reason(&[("QUIRE_DEVICE", device)]).starts_with(&format!("QUIRE_DEVICE={device} is not the number of a GPU"))
            );
        }
    }
}
