//! Which of several GPUs a process takes by itself: that of its number among the processes of its node, as the program that started it says.

use std::ffi::CStr;
use std::fmt;

use quire_codec::Result;

use crate::environment::Reader;

/// Variables with the local rank. Slurm's comes last: under `sbatch` it is that of the batch step for all processes that `mpirun` starts.
const VARIABLES: [&CStr; 6] = [
    c"OMPI_COMM_WORLD_LOCAL_RANK", // Open MPI
    c"MV2_COMM_WORLD_LOCAL_RANK",  // MVAPICH2
    c"MPI_LOCALRANKID",            // MPICH, Intel MPI
    c"PMIX_LOCAL_RANK",
    c"PMI_LOCAL_RANK",
    c"SLURM_LOCALID",
];

/// The number of a process on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalRank {
    variable: &'static CStr,
    pub(super) rank: usize,
}

impl LocalRank {
    /// The rank of the first variable that has a number. The other variables may come from other programs.
    pub(super) fn read(variable: impl Fn(&CStr, Reader<'_>) -> Result<()>) -> Result<Option<Self>> {
        let mut found = None;
        for name in VARIABLES {
            variable(name, &mut |value| {
                let rank = value.and_then(|value| value.to_str().ok()?.parse().ok());
                found = found.or(rank.map(|rank| Self { variable: name, rank }));
                Ok(())
            })?;
        }
        Ok(found)
    }
}

impl fmt::Display for LocalRank {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.variable.to_str().unwrap_or_default(), self.rank)
    }
}
