"""The standard library takes the stack of a thread from RUST_MIN_STACK, unless the thread asks for one. Too little ends the process with SIGSEGV."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import repack_jobs
import round_trip
from conftest import HERE, LIBRARY_NAME, Ended, Environment, Python, Runner
from test_gpu import Gpu, check_auto

SMALL = {"RUST_MIN_STACK": "20000"}


def test_threads_have_a_stack_whatever_the_environment_says(newest: Python, package: Environment, quire: Callable[..., Ended]) -> None:
    newest(round_trip.write, "filter.h5", env=SMALL)
    newest("whole_arrays.check_same", env={**SMALL, **package})
    newest(repack_jobs.make, "in.h5", env=SMALL)
    for arguments in (
        ["repack", "in.h5", "out.h5", "--abs", "1e-3"],
        ["verify", "in.h5", "out.h5"],
        ["inspect", "out.h5"],
        ["estimate", "in.h5", "--abs", "1e-3"],
        ["train", "in.h5", "--options", "abs=1e-3", "--output", "out.books"],
    ):
        quire(*arguments, env={**SMALL, "QUIRE_THREADS": "4"})


def test_threads_for_a_gpu_have_a_stack_whatever_the_environment_says(run: Runner, newest: Python, plugins: Path, emulated_driver: Path) -> None:
    """Threads that open a GPU, copy to it, or take arrays in its memory."""
    driver = {"LD_LIBRARY_PATH": str(emulated_driver)}
    check_auto(Gpu(newest, plugins / LIBRARY_NAME, driver), SMALL)
    settings = {**SMALL, **driver, "QUIRE_REQUIRE_CUDA": "1"}
    run(newest.interpreter, HERE / "py/resident.py", plugins / LIBRARY_NAME, ".", "few", env=settings)
