"""Writes and reads chunks on both sides of the size from which on the GPU is used. Each function prints `done`, or the error, which ends no process."""

from __future__ import annotations

from typing import Callable

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, assert_bound, create, smooth

BOUND = 1e-3
DATA = smooth((64, 128, 128), "<f4")
# 4 KiB and 2 MiB.
CHUNKS = {"small": (4, 16, 16), "large": (32, 128, 128)}


def create_all(file: h5py.File, is_mandatory: bool) -> None:
    for name, chunks in CHUNKS.items():
        create(file, name, DATA.shape, "<f4", chunks, absolute(BOUND), is_mandatory=is_mandatory)


def fill(file: h5py.File) -> None:
    for name in CHUNKS:
        file[name][...] = DATA
    file.flush()


def uncompressed_chunks(path: str) -> int:
    """Chunks that the filter could not compress, and has stored."""
    with h5py.File(path, "r") as file:
        datasets = [file[name] for name in CHUNKS]
        return sum(
            dataset.id.get_chunk_info(index).size >= np.prod(dataset.chunks) * dataset.dtype.itemsize
            for dataset in datasets
            for index in range(dataset.id.get_num_chunks())
        )


def said(call: Callable[..., None]) -> Callable[..., None]:
    """Prints what came of a call."""

    def call_and_say(*arguments: str) -> None:
        try:
            call(*arguments)
        except (OSError, ValueError, RuntimeError) as error:
            print(f"{call.__name__}: error: {error}")
        else:
            print(f"{call.__name__}: done")

    call_and_say.__module__, call_and_say.__name__ = call.__module__, call.__name__
    return call_and_say


@said
def write(path: str) -> None:
    """Creates the datasets `small` and `large`, with the filter optional as h5py has it, and writes them."""
    with h5py.File(path, "w") as file:
        create_all(file, is_mandatory=False)
        fill(file)


@said
def mandatory(path: str) -> None:
    """Creates and writes them with the filter mandatory."""
    with h5py.File(path, "w") as file:
        create_all(file, is_mandatory=True)
        fill(file)


@said
def rewrite(path: str) -> None:
    """Writes into the datasets that are there, and says how many chunks HDF5 left uncompressed."""
    # HDF5 loads plugins to create and to read datasets. A process that only writes into one finds no filter, and as ours is optional here, HDF5 would store
    # the chunks uncompressed without calling it.
    assert h5py.h5z.filter_avail(FILTER_ID)
    with h5py.File(path, "r+") as file:
        fill(file)
    print(f"rewrite: {uncompressed_chunks(path)} chunks uncompressed")


@said
def read(path: str) -> None:
    """Reads them and checks the bound."""
    with h5py.File(path, "r") as file:
        for name in CHUNKS:
            assert_bound(DATA, file[name][()], BOUND, name)


@said
def load() -> None:
    """Only has HDF5 load the plugin."""
    assert h5py.h5z.filter_avail(FILTER_ID)
