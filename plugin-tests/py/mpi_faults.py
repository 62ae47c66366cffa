"""What all processes of an MPI job get where one of them meets an error; run by mpirun.

mpi_faults.py refused FILE        every process asks for a bound that is no number: each gets the reason, and the job goes on
mpi_faults.py bound FILE          one process does, while the others create the dataset
mpi_faults.py type FILE           one process asks for a type that the filter does not take
mpi_faults.py environment FILE    the filter of one process finds an environment that makes no sense
mpi_faults.py limit FILE          one process cannot write all (RLIMIT_FSIZE, as on a full disk)
mpi_faults.py dies FILE           one process is killed while the others wait for it in a collective write

HDF5 gives an error to the process that meets it, and to no other. Where the others have returned from their call, they can be told (`together`). Where they
wait within it, only the end of the job helps, MPI_Abort. `python -m mpi4py` calls it too late: h5py has closed the file before, and waits for the others.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from typing import Any, Callable

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
IS_FAULTY = WORLD.rank == WORLD.size - 1

if sys.argv[1] == "environment" and IS_FAULTY:
    os.environ["QUIRE_CODEBOOK"] = "unknown"

import h5py  # noqa: E402
import numpy as np  # noqa: E402

from quire_client import FILTER_ID, absolute, assert_words  # noqa: E402

CHUNK = (4, 128, 128)
CHUNKS = 16
LIMIT = 1 << 20


def together(call: Callable[[], Any]) -> Any:
    """A collective call. If it fails in one process, it fails in all, with the first one's reason."""
    result, reason = None, ""
    try:
        result = call()
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"process {WORLD.rank}: {error}"
    reasons = [found for found in WORLD.allgather(reason) if found]
    if reasons:
        raise RuntimeError(reasons[0])
    return result


def create(file: h5py.File, bound: float, kind: h5py.h5t.TypeID = h5py.h5t.IEEE_F32LE) -> h5py.Dataset:
    """A dataset whose chunks must be compressed."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(CHUNK)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_filter(FILTER_ID, h5py.h5z.FLAG_MANDATORY, absolute(bound))
    space = h5py.h5s.create_simple((CHUNKS * CHUNK[0], *CHUNK[1:]))
    return h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space, properties))


def write(dataset: h5py.Dataset) -> None:
    """Noise that does not shrink, 4 MiB."""
    rows = dataset.shape[0] // WORLD.size
    first = WORLD.rank * rows
    values = np.random.default_rng(WORLD.rank).normal(0, 1e30, (rows, *CHUNK[1:])).astype("<f4")
    with dataset.collective:
        dataset[first : first + rows] = values


def say(text: str) -> None:
    print(f"process {WORLD.rank}: {text}", flush=True)


def main(mode: str, path: str) -> None:
    if mode == "limit" and IS_FAULTY:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    file = h5py.File(path, "w", driver="mpio", comm=WORLD)
    if mode == "refused":
        try:
            together(lambda: create(file, float("nan")))
        except RuntimeError as error:
            assert_words(str(error), ["absolute error bound is NaN"], mode)
            say("refused")
        write(together(lambda: create(file, 1e20)))
        file.close()
        say("went on")
        return
    bound = float("nan") if mode == "bound" and IS_FAULTY else 1e20
    dataset = create(file, bound, h5py.h5t.C_S1 if mode == "type" and IS_FAULTY else h5py.h5t.IEEE_F32LE)
    if mode == "dies" and IS_FAULTY:
        time.sleep(0.2)  # so that the others wait
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        together(lambda: write(dataset))
        together(file.flush)
    except RuntimeError as error:
        say(f"was told: {error}")
    else:
        raise AssertionError(f"{mode}: nothing failed")
    file.close()
    say("went on")


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except Exception:
        traceback.print_exc()
        WORLD.Abort(1)
