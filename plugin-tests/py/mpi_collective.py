"""Ranks that write one dataset together; run by mpirun.

mpi_collective.py FILE
"""

from __future__ import annotations

import sys

import h5py
from mpi4py import MPI

from quire_client import FILTER_ID, absolute, assert_bound, nasty

BOUND = 1e-3
SHAPE, CHUNKS = (50, 37, 21), (16, 16, 16)


def main(path: str) -> None:
    world = MPI.COMM_WORLD
    assert world.size == 2, f"{world.size} ranks, 2 expected"
    assert h5py.get_config().mpi, "this h5py was built without MPI"
    with h5py.File(path, "w", driver="mpio", comm=world) as file:
        for dtype in ("<f4", ">f8"):
            data = nasty(SHAPE, dtype, 4)
            # The border of the ranks cuts through a chunk, so that both share one.
            border = 23
            mine = slice(0, border) if world.rank == 0 else slice(border, None)
            options = {"chunks": CHUNKS, "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
            group = file.create_group(dtype[1:])
            group.attrs["bound"] = BOUND
            for name, settings in (("original", {}), ("compressed", options)):
                dataset = group.create_dataset(name, SHAPE, dtype, **settings)
                with dataset.collective:
                    dataset[mine] = data[mine]
    with h5py.File(path, "r", driver="mpio", comm=world) as file:
        for dtype in ("<f4", ">f8"):
            dataset = file[f"{dtype[1:]}/compressed"]
            with dataset.collective:
                read = dataset[()]
            assert_bound(nasty(SHAPE, dtype, 4), read, BOUND, f"rank {world.rank}, {dtype}")
    print(f"rank {world.rank} of {world.size}: h5py {h5py.__version__} on parallel HDF5 {h5py.version.hdf5_version}")


if __name__ == "__main__":
    main(sys.argv[1])
