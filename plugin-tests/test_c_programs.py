"""C programs: linked with HDF5 as h5cc does it, with the plugin itself, and with neither."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from conftest import HERE, IN_ORDER, REPOSITORY, Python, Runner

CompileC = Callable[..., Path]

# One dataset of each type and rank is enough to see that the program came through.
DATASETS = ("f32_little_rank1", "f32_big_rank2", "f64_little_rank3", "f64_big_rank4", "f64_big_rank5")


@pytest.fixture
def written(run: Runner, compile_c: CompileC) -> str:
    """A file by a C program that shares HDF5's library."""
    program = compile_c("h5cc", HERE / "c/round_trip.c", "-shlib", name="shared")
    run(program, "write", "c.h5").must_say(*DATASETS, "refusal: its reason is on the error stack")
    return "c.h5"


def read_round_trip(file: str) -> None:
    import h5py

    x = h5py.File(file)["f32_big_rank2"][0, :2]
    # Value 0 is a NaN, value 1 is 10 sin(0.01) + cos(0.2).
    assert x[0] != x[0] and abs(x[1] - 1.08) < 0.02, x


def read_arrays(module: str, file: str) -> None:
    """Reads the file of the example of whole arrays by a module that knows nothing of the library but the plugin."""
    import importlib

    opened = {"h5py": "File", "netCDF4": "Dataset"}[module]
    x = getattr(importlib.import_module(module), opened)(file)["field"][0, 0, :2]
    assert abs(x[1] - 0.05) < 0.002, x


def test_a_c_program_writes_and_reads(written: str, python: Python) -> None:
    python(read_round_trip, written)


def test_a_program_with_hdf5_linked_in_reads_and_says_why_it_cannot_write(run: Runner, compile_c: CompileC, written: str) -> None:
    # Such a program exports none of HDF5's functions. Decoding needs none of them.
    program = compile_c("h5cc", HERE / "c/round_trip.c", "-noshlib")
    run(program, "read", written).must_say(*DATASETS)
    run(program, "write", "refused.h5", code=IN_ORDER).must_say("H5Z-Quire", "shared", "failed: dataset >= 0")


def test_the_example_of_the_documents_runs_and_says_what_is_missing(run: Runner, compile_c: CompileC) -> None:
    program = compile_c("h5cc", REPOSITORY / "docs/example.c", "-shlib")
    run(program, "example.h5").must_say("ratio ", "within the bound of 0.001")
    lost = run(program, "example.h5", env={"HDF5_PLUGIN_PATH": "/nowhere"}, code=IN_ORDER)
    lost.must_say("finding the filter (is HDF5_PLUGIN_PATH set?) failed")


def test_the_example_of_whole_arrays_runs(run: Runner, compile_c: CompileC, with_plugin: list[object], newest: Python, pythons: dict[str, Python]) -> None:
    program = compile_c("h5cc", REPOSITORY / "docs/example_arrays.c", "-shlib", *with_plugin)
    done = run(program, "arrays.h5").must_say("20 chunks, ratio ", "within the bound of 0.001")
    # Chunks at the edge that the file did not have are no errors, and HDF5 has not said so.
    assert done.stderr == ""
    run("h5dump", "-d", "field", "-s", "0,0,0", "-c", "1,1,2", "arrays.h5").must_say("(0,0,0): 0, 0.05")
    newest(read_arrays, "netCDF4", "arrays.h5")
    for python in pythons.values():
        python(read_arrays, "h5py", "arrays.h5")


def test_a_c_program_compresses_arrays_without_hdf5(run: Runner, compile_c: CompileC, with_plugin: list[object]) -> None:
    program = compile_c("gcc", HERE / "c/arrays.c", "-std=c99", "-pedantic", *with_plugin)
    run(program).must_say("arrays come back")


def test_the_header_is_for_cpp_too(run: Runner) -> None:
    options = ["-x", "c++", "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run("g++", *options, REPOSITORY / "filter/include/h5z_quire.h")
