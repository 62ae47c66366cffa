"""Readers in threads and forked processes, of a file written before.

processes.py threads FILE   8 threads read and write in one process
processes.py fork FILE      children forked before and after the parent has used the filter
processes.py reader FILE    a process that has never compressed anything
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py

from quire_client import FILTER_ID, absolute, assert_bound, nasty
from round_trip import check

BOUND = 1e-3


def write_and_read(path: Path, seed: int) -> None:
    """One dataset of its own, there and back."""
    data = nasty((64, 70, 30), "<f4", seed)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 32, 16), compression=FILTER_ID, compression_opts=absolute(BOUND))
    with h5py.File(path, "r") as file:
        assert_bound(data, file["x"][()], BOUND, f"{path.name}, process {os.getpid()}")


def threads(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write_and_read, path.with_suffix(f".thread{seed}"), seed) for seed in range(8)]
        readers = [pool.submit(check, str(path)) for _ in range(8)]
        for task in (*writers, *readers):
            task.result()


def child(path: str, seed: int) -> None:
    check(path)
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


def fork(path: Path) -> None:
    forked(path, range(0, 4))
    # The parent uses the filter; what it holds then (memory pools, a GPU context) must not harm its children.
    write_and_read(path.with_suffix(".parent"), 20)
    forked(path, range(4, 8))
    write_and_read(path.with_suffix(".parent"), 21)


if __name__ == "__main__":
    {"threads": threads, "fork": fork, "reader": lambda path: check(str(path))}[sys.argv[1]](Path(sys.argv[2]))
