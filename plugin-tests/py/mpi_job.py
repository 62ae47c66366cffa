"""What the processes of an MPI job share."""

from __future__ import annotations

import functools
import traceback
from typing import Callable

from mpi4py import MPI  # before h5py, so that Debian's takes the one with MPI


def ends_the_job(call: Callable[..., None]) -> Callable[..., None]:
    """A process that meets an error ends the job: the others may wait for the process within a call of HDF5."""

    @functools.wraps(call)
    def call_or_end(*arguments: str) -> None:
        try:
            call(*arguments)
        except BaseException:
            traceback.print_exc()
            MPI.COMM_WORLD.Abort(1)

    return call_or_end
