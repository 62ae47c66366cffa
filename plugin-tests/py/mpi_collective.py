"""Processes that write one dataset together."""

from __future__ import annotations

from mpi_job import MPI, ends_the_job

import h5py  # noqa: I001

from quire_client import FILTER_ID, absolute, assert_bound, nasty
from round_trip import SHAPES

BOUND = 1e-3
DTYPES = ("<f4", ">f4", "<f8", ">f8")
CASES = [(f"rank{rank}_{dtype[1:]}_{'le' if dtype[0] == '<' else 'be'}", rank, dtype) for rank in SHAPES for dtype in DTYPES]


@ends_the_job
def write(path: str) -> None:
    world = MPI.COMM_WORLD
    assert world.size == 2, f"{world.size} ranks, 2 expected"
    assert h5py.get_config().mpi, "this h5py was built without MPI"
    with h5py.File(path, "w", driver="mpio", comm=world) as file:
        for name, rank, dtype in CASES:
            shape, chunks = SHAPES[rank]
            data = nasty(shape, dtype, rank)
            # The border of the processes cuts through a chunk, so that both have a share in it.
            border = chunks[0] * (shape[0] // chunks[0] // 2) + 1
            mine = slice(0, border) if world.rank == 0 else slice(border, None)
            options = {"chunks": chunks, "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
            group = file.create_group(name)
            group.attrs["bound"] = BOUND
            for member, settings in (("original", {}), ("compressed", options)):
                dataset = group.create_dataset(member, shape, dtype, **settings)
                with dataset.collective:
                    dataset[mine] = data[mine]
    with h5py.File(path, "r", driver="mpio", comm=world) as file:
        for name, rank, dtype in CASES:
            dataset = file[f"{name}/compressed"]
            with dataset.collective:
                read = dataset[()]
            assert_bound(nasty(SHAPES[rank][0], dtype, rank), read, BOUND, f"process {world.rank}, {name}")
    print(f"process {world.rank} of {world.size}: h5py {h5py.__version__} on parallel HDF5 {h5py.version.hdf5_version}")
