"""Writes and reads chunks on both sides of the size from which on the GPU is used, and prints what came of it.

    backend.py write FILE       creates the datasets `small` and `large`, with the filter optional as h5py has it, and writes them
    backend.py rewrite FILE     writes into the datasets that are there; one line says how many chunks HDF5 left uncompressed
    backend.py mandatory FILE   creates and writes them with the filter mandatory
    backend.py read FILE        reads them and checks the bound
    backend.py load             only has HDF5 load the plugin

Ends with 0 whether HDF5 reports an error or not: the line says which.
"""

from __future__ import annotations

import sys

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, assert_bound, smooth

BOUND = 1e-3
DATA = smooth((64, 128, 128), "<f4")
# 4 KiB and 2 MiB.
CHUNKS = {"small": (4, 16, 16), "large": (32, 128, 128)}


def create(file: h5py.File, flag: int) -> None:
    for name, chunks in CHUNKS.items():
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk(chunks)
        properties.set_filter(FILTER_ID, flag, absolute(BOUND))
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(DATA.shape), properties)


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


def main(what: str, path: str = "") -> None:
    try:
        if what in ("write", "mandatory"):
            with h5py.File(path, "w") as file:
                create(file, h5py.h5z.FLAG_OPTIONAL if what == "write" else h5py.h5z.FLAG_MANDATORY)
                fill(file)
        elif what == "rewrite":
            # HDF5 loads plugins to create and to read datasets. A process that only writes into one finds no filter, and as ours is
            # optional here, HDF5 would store the chunks uncompressed without calling it.
            assert h5py.h5z.filter_avail(FILTER_ID)
            with h5py.File(path, "r+") as file:
                fill(file)
            print(f"rewrite: {uncompressed_chunks(path)} chunks uncompressed")
        elif what == "read":
            with h5py.File(path, "r") as file:
                for name in CHUNKS:
                    assert_bound(DATA, file[name][()], BOUND, name)
        elif what == "load":
            assert h5py.h5z.filter_avail(FILTER_ID)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"{what}: error: {error}")
    else:
        print(f"{what}: done")


if __name__ == "__main__":
    main(*sys.argv[1:])
