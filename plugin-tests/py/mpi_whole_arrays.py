"""The functions of whole arrays in processes of an MPI job.

Every process reads boxes of its own, whenever it likes, of a file that all have opened together. Writing is refused with the reason, in each process and
before anything is written, so that none waits for another.
"""

from __future__ import annotations

from mpi_job import MPI, ends_the_job

import h5py  # noqa: I001
import h5z_quire
import numpy as np

from quire_client import assert_bound, assert_same_bits, assert_words, nasty

SHAPE, CHUNKS, BOUND = (19, 43, 41), (8, 16, 16), 1e-3


def read_boxes(dataset: h5py.Dataset, data: np.ndarray) -> None:
    """As many boxes as the rank has: nothing here is collective."""
    random = np.random.default_rng(MPI.COMM_WORLD.rank)
    for _ in range(3 + 2 * MPI.COMM_WORLD.rank):
        ends = [sorted(random.choice(extent + 1, 2, replace=False)) for extent in SHAPE]
        box = tuple(slice(int(start), int(end)) for start, end in ends)
        read = h5z_quire.read(dataset, box)
        assert_bound(data[box], read, BOUND, f"process {MPI.COMM_WORLD.rank}, {box}")
        assert_same_bits(dataset[box], read, f"process {MPI.COMM_WORLD.rank}, {box}")


@ends_the_job
def read_and_write(path: str) -> None:
    world = MPI.COMM_WORLD
    data = nasty(SHAPE, "<f4", 3)
    rows = slice(0, 9) if world.rank == 0 else slice(9, None)
    with h5py.File(path, "w", driver="mpio", comm=world) as file:
        dataset = file.create_dataset("x", SHAPE, "<f4", chunks=CHUNKS, **h5z_quire.Quire(abs=BOUND))
        with dataset.collective:
            dataset[rows] = data[rows]
        # A file that is open for writing, too.
        read_boxes(dataset, data)
        before = [dataset.id.get_chunk_info(index).byte_offset for index in range(dataset.id.get_num_chunks())]
        if world.rank == 0:
            try:
                h5z_quire.write(dataset, data)
                raise AssertionError("a file of MPI was written")
            except h5z_quire.Unsuitable as error:
                assert_words(str(error), ["opened with MPI", "H5Dwrite", "collective"], "write")
        assert before == [dataset.id.get_chunk_info(index).byte_offset for index in range(len(before))]
        # The block leaves such a write to h5py.
        with h5z_quire.parallel(), dataset.collective:
            dataset[rows] = data[rows]
    with h5py.File(path, "r", driver="mpio", comm=world) as file:
        read_boxes(file["x"], data)
    print(f"process {world.rank} of {world.size} read its boxes")
