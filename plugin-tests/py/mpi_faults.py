"""What all processes of an MPI job get where one of them meets an error.

meet refused       every process asks for a bound that is no number: each gets the reason, and the job goes on
meet bound         one process does, while the others create the dataset
meet type          one process asks for a type that the filter does not take
meet environment   the filter of one process finds an environment that makes no sense
meet limit         one process cannot write all (RLIMIT_FSIZE, as on a full disk)
meet dies          one process is killed while the others wait for it in a collective write
meet mandatory     the filter of one process finds no memory to compress its chunk, and stores it
meet optional      likewise, where the filter is optional
meet pairs         as `mandatory`, with complex numbers
meet gpu           the GPU of one process fails after the dataset was created, and the process stores its chunks; it can create no other dataset.
                   Under QUIRE_BACKEND=cuda and with the driver of plugin-tests/c/failing_cuda.c
meet damaged       one process finds its chunk damaged when all read, and when it is to change a part of it
meet document      as `environment`, with the functions and the `with` of docs/mpi.md

HDF5 gives an error to the process that meets it, and to no other. Where the others have returned from their call, they can be told (`together`). Where they
wait within it, only the end of the job helps, MPI_Abort. `python -m mpi4py` calls it too late: h5py has closed the file before, and waits for the others.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any, Callable

from mpi_job import MPI, ends_the_job

import h5py  # noqa: I001
import numpy as np

from markdown_text import python_block
from quire_client import create, absolute, assert_words

WORLD = MPI.COMM_WORLD
IS_FAULTY = WORLD.rank == WORLD.size - 1

CHUNK = (4, 128, 128)
CHUNKS = 16
LIMIT = 1 << 20
# Values of 4 bytes in 32 MiB, of which HDF5 takes two before it calls the filter.
LONG_CHUNK = (32, 512, 512)


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


def new(
    file: h5py.File, bound: float, kind: Any = "<f4", chunk: tuple[int, ...] = CHUNK, chunks: int = CHUNKS, is_mandatory: bool = True, name: str = "x"
) -> h5py.Dataset:
    """A dataset whose chunks must be compressed, unless the filter is optional."""
    never = h5py.h5d.FILL_TIME_NEVER
    return create(file, name, (chunks * chunk[0], *chunk[1:]), kind, chunk, absolute(bound), is_mandatory=is_mandatory, fill_time=never)


def rows_of(rank: int) -> slice:
    rows = CHUNKS * CHUNK[0] // WORLD.size
    return slice(rank * rows, (rank + 1) * rows)


def values_of(rank: int) -> np.ndarray:
    """Noise that does not shrink, 4 MiB in all."""
    rows = rows_of(rank)
    return np.random.default_rng(rank).normal(0, 1e30, (rows.stop - rows.start, *CHUNK[1:])).astype("<f4")


def write(dataset: h5py.Dataset) -> None:
    with dataset.collective:
        dataset[rows_of(WORLD.rank)] = values_of(WORLD.rank)


def write_without_memory(path: str, is_mandatory: bool, dtype: str) -> None:
    """Each process writes one long chunk. One process has room for HDF5's buffers alone."""
    values = np.random.default_rng(WORLD.rank).normal(0, 1, LONG_CHUNK).astype("<f4").view(dtype)
    rows = slice(WORLD.rank * len(values), (WORLD.rank + 1) * len(values))
    file = h5py.File(path, "w", driver="mpio", comm=WORLD)
    dataset = new(file, 1e-3, values.dtype, values.shape, WORLD.size, is_mandatory)
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    if IS_FAULTY:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + 5 * values.nbytes // 2, unlimited[1]))
    try:
        with dataset.collective:
            dataset[rows] = values
    finally:
        resource.setrlimit(resource.RLIMIT_AS, unlimited)
    file.close()
    say("has written")
    with h5py.File(path, "r") as file:
        assert np.abs((file["x"][rows] - values).view("<f4")).max() <= 1e-3
        say("has read")


def write_with_a_failing_gpu(path: str) -> None:
    file = h5py.File(path, "w", driver="mpio", comm=WORLD)
    dataset = new(file, 1e20)
    if IS_FAULTY:
        os.environ["QUIRE_TEST_LAUNCHES"] = "0"
    write(dataset)
    file.close()
    say("has written")
    if not IS_FAULTY:
        with h5py.File(path, "r") as file:
            for rank in range(WORLD.size):
                assert np.abs(file["x"][rows_of(rank)] - values_of(rank)).max() <= 1e20
        say("has read all")
    WORLD.Barrier()
    new(h5py.File(path, "r+", driver="mpio", comm=WORLD), 1e20, name="y")


def meet_a_damaged_chunk(path: str) -> None:
    file = h5py.File(path, "w", driver="mpio", comm=WORLD)
    write(new(file, 1e20))
    file.close()
    if IS_FAULTY:
        with h5py.File(path, "r+") as file:
            chunk, first = file["x"].id, (rows_of(WORLD.rank).start, 0, 0)
            stream = bytearray(chunk.read_direct_chunk(first)[1])
            stream[-1] ^= 1
            chunk.write_direct_chunk(first, bytes(stream))
    WORLD.Barrier()
    dataset = h5py.File(path, "r+", driver="mpio", comm=WORLD)["x"]
    try:
        with dataset.collective:
            dataset[rows_of(WORLD.rank)]
    except OSError as error:
        say(f"cannot read: {error}")
    else:
        say("has read")
    WORLD.Barrier()
    first = rows_of(WORLD.rank).start
    with dataset.collective:
        dataset[first : first + 1] = 0


def end_as_the_document_does(path: str, document: str) -> None:
    functions: dict[str, Any] = {}
    exec(compile(python_block(Path(document), "end_job_on_errors"), document, "exec"), functions)
    with h5py.File(path, "w", driver="mpio", comm=WORLD) as file, functions["end_job_on_errors"]():
        write(new(file, 1e20))


def say(text: str) -> None:
    print(f"process {WORLD.rank}: {text}", flush=True)


@ends_the_job
def meet(mode: str, path: str, document: str = "") -> None:
    if mode in ("environment", "document") and IS_FAULTY:
        os.environ["QUIRE_CODEBOOK"] = "unknown"
    if mode in ("mandatory", "optional", "pairs"):
        return write_without_memory(path, mode != "optional", "<c8" if mode == "pairs" else "<f4")
    if mode == "gpu":
        return write_with_a_failing_gpu(path)
    if mode == "damaged":
        return meet_a_damaged_chunk(path)
    if mode == "document":
        return end_as_the_document_does(path, document)
    if mode == "limit" and IS_FAULTY:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    file = h5py.File(path, "w", driver="mpio", comm=WORLD)
    if mode == "refused":
        try:
            together(lambda: new(file, float("nan")))
        except RuntimeError as error:
            assert_words(str(error), ["absolute error bound is NaN"], mode)
            say("refused")
        write(together(lambda: new(file, 1e20)))
        file.close()
        say("went on")
        return
    bound = float("nan") if mode == "bound" and IS_FAULTY else 1e20
    dataset = new(file, bound, h5py.h5t.C_S1 if mode == "type" and IS_FAULTY else "<f4")
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
