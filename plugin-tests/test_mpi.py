"""Processes of an MPI job that use one file together. Their parts are in py/mpi_*.py, which Debian's h5py with MPI runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

import round_trip
from conftest import ANYHOW, HERE, IN_ORDER, REPOSITORY, Ended, Environment, Python, Runner

DOCUMENT = REPOSITORY / "docs/mpi.md"
# What ends a job: MPI_Abort is given this code.
ABORTED = 1

Mpi = Callable[..., Ended]


@pytest.fixture
def mpirun(run: Runner) -> Mpi:
    """Runs a program in two processes, and ends them where they hang."""

    def mpirun(*command: object, **expected: Any) -> Ended:
        # A container may forbid what Open MPI uses between processes of one machine; it then only warns.
        return run("mpirun", "--allow-run-as-root", "--oversubscribe", "--timeout", 600, "-n", 2, *command, **expected)

    return mpirun


@pytest.fixture
def job(mpirun: Mpi, debian: Python) -> Mpi:
    """Calls a function of one of the modules in two processes."""
    return lambda function, *arguments, **expected: mpirun(*debian.command(function, *arguments), **expected)


@pytest.fixture
def faults(job: Mpi) -> Mpi:
    """A job in which one process, or both, meets an error."""
    return lambda mode, *arguments, **expected: job("mpi_faults.meet", mode, "faults.h5", *arguments, **expected)


@pytest.fixture
def compile_mpi(run: Runner, compile_c: Callable[..., Path]) -> Callable[..., Path]:
    """Compiles a program for Debian's parallel HDF5, which its h5py with MPI brings without headers. Those of the serial HDF5 are of one version with it, and
    declare what is parallel where they are told that it is."""
    headers = run("pkg-config", "--cflags", "hdf5-serial").stdout.split()
    return lambda source: compile_c("mpicc", source, "-I.", *headers, "-DH5_HAVE_PARALLEL=1", "-l:libhdf5_openmpi.so.103")


def c_block(function: str) -> str:
    """The block of C in docs/mpi.md that defines a function."""
    blocks = [rest.partition("\n```")[0] for rest in DOCUMENT.read_text().split("\n```c\n")[1:]]
    return next(block for block in blocks if f" {function}(" in block) + "\n"


def test_two_processes_write_collectively(job: Mpi, pythons: dict[str, Python]) -> None:
    job("mpi_collective.write", "mpi.h5").must_say("process 0 of 2", "process 1 of 2")
    for python in pythons.values():
        python(round_trip.check, "mpi.h5")


def test_each_process_reads_whole_arrays_and_is_told_how_to_write(job: Mpi, package: Environment) -> None:
    done = job("mpi_whole_arrays.read_and_write", "mpi.h5", env=package)
    done.must_say("process 0 of 2 read its boxes", "process 1 of 2 read its boxes")


def test_what_all_processes_refuse_is_an_error_in_each(faults: Mpi) -> None:
    ended = faults("refused").must_say("process 0: refused", "process 1: refused", "process 0: went on", "process 1: went on")
    # Each rank prints why: its program may wait for the others before it does.
    lines = [line for line in ended.stderr.splitlines() if line.startswith("H5Z-Quire: ") and "absolute error bound is NaN" in line]
    assert len(lines) == 2, ended


REASONS = [
    ("bound", "absolute error bound is NaN"),
    ("type", "the dataset's elements are strings"),
    ("environment", "QUIRE_CODEBOOK=unknown is unknown"),
]


@pytest.mark.parametrize("case, reason", REASONS)
def test_what_one_process_refuses_ends_the_job(faults: Mpi, case: str, reason: str) -> None:
    faults(case, code=ABORTED).must_say(reason)


def test_what_one_process_refuses_ends_the_job_as_the_document_says(faults: Mpi, mpirun: Mpi, compile_mpi: Callable[..., Path], tmp_path: Path) -> None:
    """The functions of the document that end a job: h5py closes the file when a program leaves its `with`, and that would wait for the others."""
    faults("document", DOCUMENT, code=ABORTED).must_say("QUIRE_CODEBOOK=unknown is unknown")
    (tmp_path / "mpi_end_job_of_the_document.h").write_text(c_block("end_job_on_errors"))
    ended = mpirun(compile_mpi(HERE / "c/mpi_end_job.c"), "end_job.h5", code=ABORTED).must_say("QUIRE_CODEBOOK=unknown is unknown")
    assert "rank 1" not in ended.stdout


def test_data_of_one_process_are_never_refused(job: Mpi) -> None:
    done = job("mpi_hard_data.write_hard_data", "hard.h5")
    done.must_say("process 0: 855 chunks were taken", "process 1: 855 chunks were taken")


@pytest.mark.parametrize("case", ["mandatory", "optional", "pairs"])
def test_a_chunk_that_one_process_has_no_memory_to_compress_is_stored(faults: Mpi, case: str) -> None:
    """Also where the filter is optional: HDF5 1.10 would write the chunk without the mark that the filter has not seen it."""
    ended = faults(case, env={"QUIRE_BACKEND": "cpu"})
    ended.must_say("no memory for ", " bytes of a chunk: ", "; the chunk is stored uncompressed", "process 0: has read", "process 1: has read")


def test_chunks_that_the_gpu_of_one_process_fails_on_are_stored(faults: Mpi, failing_driver: Path) -> None:
    """The process can create no further dataset, which ends the job."""
    driver = {"LD_LIBRARY_PATH": str(failing_driver), "QUIRE_TEST_LAUNCHES": "1000000"}
    faults("gpu", env={**driver, "QUIRE_BACKEND": "cuda", "QUIRE_LOG": "1", "QUIRE_DEVICE": "0"}, code=ABORTED).must_say(
        "compress on cuda:0",
        "process 0: has written",
        "process 1: has written",
        "process 0: has read all",
        "QUIRE_BACKEND=cuda, but launching the kernels: CUDA_ERROR_LAUNCH_FAILED",
        "; the chunk is stored uncompressed",
        "ValueError: Unable to create dataset (H5Z-Quire: QUIRE_BACKEND=cuda, but the GPU failed earlier",
    )


def test_a_damaged_chunk_is_an_error_in_the_process_that_reads_it(faults: Mpi) -> None:
    damaged = "(H5Z-Quire: stream is damaged"
    ended = faults("damaged", code=ABORTED).must_say("process 0: has read", f"process 1: cannot read: Can't read data {damaged}")
    # It is read before a part of it is changed.
    ended.must_say(f"OSError: Can't write data {damaged}")


def test_a_write_that_fails_in_one_process_fails_in_each(faults: Mpi) -> None:
    ended = faults("limit")
    for process in ("process 0", "process 1"):
        ended.must_say(f"{process}: was told: process 1: Can't write data", f"{process}: went on")


def test_a_process_that_dies_ends_the_job(faults: Mpi) -> None:
    ended = faults("dies", code=ANYHOW).must_say("exited on signal 9 (Killed)")
    assert ended.code not in IN_ORDER, ended


def test_the_example_of_the_document_writes_collectively_and_says_what_is_missing(run: Runner, mpirun: Mpi, compile_mpi: Callable[..., Path]) -> None:
    program = compile_mpi(REPOSITORY / "docs/example_mpi.c")
    done = mpirun(program, "example_mpi.h5")
    done.must_say("rank 0 of 2: ratio ", "rank 1 of 2: ratio ", "within the bound of 0.001")
    # The file is one for every program.
    run("h5dump", "-d", "field", "-s", "64,0,0", "-c", "1,1,2", "example_mpi.h5").must_say("(64,0,0): 0.034, 0.084")
    lost = mpirun(program, "example_mpi.h5", env={"HDF5_PLUGIN_PATH": "/nowhere"}, code=ABORTED)
    lost.must_say("finding the filter (is HDF5_PLUGIN_PATH set for this rank?) failed")


def test_the_c_functions_of_the_document_send_an_array(mpirun: Mpi, compile_c: Callable[..., Path], with_plugin: list[object], tmp_path: Path) -> None:
    (tmp_path / "mpi_messages_of_the_document.h").write_text(c_block("receive_cube"))
    program = compile_c("mpicc", HERE / "c/mpi_messages.c", "-I.", *with_plugin)
    mpirun(program).must_say("received, largest error", "within the bound of 0.001")
    mpirun(program, "abs=much", code=ABORTED).must_say("abs=much")


def test_the_python_functions_of_the_document_send_and_gather_arrays(job: Mpi, package: Environment) -> None:
    done = job("mpi_messages.send_and_gather", DOCUMENT, env=package)
    done.must_say("process 0 of 2: the bound holds", "process 1 of 2: the bound holds")
