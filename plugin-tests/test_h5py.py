"""h5py as users have it: files of one in another, in threads, and in forked processes."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py

import round_trip
from conftest import Python, Runner
from quire_client import FILTER_ID, absolute, assert_bound, nasty

BOUND = 1e-3


def version() -> str:
    return h5py.version.hdf5_version


def test_each_python_has_the_hdf5_that_it_is_meant_to_test(pythons: dict[str, Python], run: Runner) -> None:
    versions = {name: python(version).json for name, python in pythons.items()}
    assert versions["HDF5 2.0"].startswith("2.0.") and versions["HDF5 1.14"].startswith("1.14."), versions
    # Debian's h5py shares HDF5 with Debian's tools, whatever the release.
    run("h5dump", "--version").must_say(versions["Debian"])


def test_every_python_reads_what_every_python_wrote(python: Python, pythons: dict[str, Python]) -> None:
    # A process that only reads finds the plugin, too.
    python(round_trip.write, "written.h5")
    for reader in pythons.values():
        reader(round_trip.check, "written.h5")


def write_and_read(path: Path, seed: int) -> None:
    """One dataset of its own, there and back."""
    data = nasty((64, 70, 30), "<f4", seed)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 32, 16), compression=FILTER_ID, compression_opts=absolute(BOUND))
    with h5py.File(path, "r") as file:
        assert_bound(data, file["x"][()], BOUND, f"{path.name}, process {os.getpid()}")


def threads(file: str) -> None:
    path = Path(file)
    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write_and_read, path.with_suffix(f".thread{seed}"), seed) for seed in range(8)]
        readers = [pool.submit(round_trip.check, str(path)) for _ in range(8)]
        for task in (*writers, *readers):
            task.result()


def child(path: str, seed: int) -> None:
    round_trip.check(path)
    write_and_read(Path(f"{path}.child{seed}"), seed)


def forked(path: Path, seeds: range) -> None:
    """Children that read the common file and write one of their own."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=child, args=(str(path), seed)) for seed in seeds]
    for process in children:
        process.start()
    for process in children:
        process.join(120)
        assert process.exitcode == 0, f"child {process.name} ended with {process.exitcode} (negative: by that signal; None: hangs)"


def fork(file: str) -> None:
    path = Path(file)
    forked(path, range(0, 4))
    # The parent uses the filter; what it holds then (memory pools, a GPU context) must not harm its children.
    write_and_read(path.with_suffix(".parent"), 20)
    forked(path, range(4, 8))
    write_and_read(path.with_suffix(".parent"), 21)


def test_threads_and_forked_children_read_and_write(python: Python) -> None:
    python(round_trip.write, "written.h5")
    python(threads, "written.h5")
    python(fork, "written.h5")
