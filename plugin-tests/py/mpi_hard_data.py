"""Data never make the filter refuse a chunk of a collective write: one process alone has values that no bound can round."""

from __future__ import annotations

from itertools import product
from typing import Any

from mpi_job import MPI, ends_the_job

import h5py  # noqa: I001
import numpy as np

import quire_options
from quire_client import create, nasty, smooth
from test_bounds import CHUNKS, OPTIONS, assert_promise

TYPES = tuple(map(np.dtype, ("<f2", "<f4", ">f8", "i1", "<i4", ">u8")))
# Bounds between, below and above all values of a type, besides those of other tests.
BOUNDS = (*OPTIONS, "abs=1e-300", "abs=1e300", "rel=1e-15", "pwrel=1e-15", "psnr=1", "ratio=1.01", "ratio=1e6", "ratio=1e6,abs=1e-300")


def hard_chunks(dtype: np.dtype) -> np.ndarray:
    """One chunk after another."""
    random = np.random.default_rng(3)
    count = int(np.prod(CHUNKS))
    bits = random.integers(0, 256, count * dtype.itemsize, dtype="u1").view(dtype)
    values = [bits, np.zeros(count, dtype), np.resize(np.array([1, 0], dtype), count)]
    if dtype.kind == "f":
        info = np.finfo(dtype)
        edges = [info.max, info.min, info.tiny, -info.tiny, 0.0, -0.0, np.inf, -np.inf, np.nan]
        values += [np.full(count, value, dtype) for value in (np.nan, np.inf, -0.0, info.max, info.tiny)]
        values += [np.resize(np.array(edges, dtype), count), np.resize(np.array(edges[:2], dtype), count)]
        values.append((10.0 ** random.uniform(np.log10(info.tiny), np.log10(info.max), count)).astype(dtype))
        if dtype.itemsize > 2:
            values.append(nasty(CHUNKS, dtype).reshape(-1))
    else:
        integers = np.iinfo(dtype)
        values += [np.full(count, integers.max, dtype), np.resize(np.array([integers.min, integers.max], dtype), count)]
    return np.concatenate(values).astype(dtype).reshape(-1, *CHUNKS[1:])


def write(file: h5py.File, name: str, options: str, data: np.ndarray, first: int) -> h5py.Dataset:
    """A dataset whose chunks must be compressed; `data` are this process's rows, from `first` on."""
    extents, never = (MPI.COMM_WORLD.size * len(data), *CHUNKS[1:]), h5py.h5d.FILL_TIME_NEVER
    dataset = create(file, name, extents, data.dtype, CHUNKS, quire_options.cd_values(options), fill_time=never)
    with dataset.collective:
        dataset[first : first + len(data)] = data
    return dataset


@ends_the_job
def write_hard_data(path: str) -> None:
    world = MPI.COMM_WORLD
    cases: dict[str, Any] = {}
    with h5py.File(path, "w", driver="mpio", comm=world) as file:
        for dtype, options in product(TYPES, BOUNDS):
            if options.startswith("pwrel") and dtype.kind != "f":
                continue
            data = hard_chunks(dtype)
            if world.rank == 0:
                data = (smooth(data.shape, "f8") * 20 + 60).astype(dtype)
            name = f"{dtype.str} {options}"
            write(file, name, options, data, world.rank * len(data))
            cases[name] = data
    chunks = 0
    with h5py.File(path, "r", driver="mpio", comm=world) as file, np.errstate(all="ignore"):
        for name, data in cases.items():
            dataset, first, stored = file[name], world.rank * len(data), 0
            for row in range(0, len(data), CHUNKS[0]):
                info = dataset.id.get_chunk_info_by_coord((first + row, 0, 0))
                assert info.filter_mask == 0, f"{name}: stored without the filter"
                stored += info.size
                chunks += 1
            with dataset.collective:
                read = dataset[first : first + len(data)]
            # "odd": what a ratio promises is for smooth data.
            assert_promise(name.split(" ")[1], data, read, stored, f"process {world.rank}: odd {name}")
    print(f"process {world.rank}: {chunks} chunks were taken")
