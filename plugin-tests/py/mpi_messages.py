"""Runs the block of Python for messages in docs/mpi.md in each process, and sends and gathers arrays with its functions."""

from __future__ import annotations

from pathlib import Path

from mpi_job import MPI, ends_the_job

import numpy as np

from markdown_text import python_block
from quire_client import assert_bound, nasty

SHAPE, BOUND = (19, 23, 21), 1e-3


@ends_the_job
def send_and_gather(document: str) -> None:
    functions: dict[str, object] = {}
    exec(compile(python_block(Path(document), "gather"), document, "exec"), functions)
    rank = MPI.COMM_WORLD.rank
    for number, dtype in enumerate(("<f4", ">f8")):
        data = [nasty(SHAPE, dtype, 10 * number + sender) for sender in range(MPI.COMM_WORLD.size)]
        if rank == 0:
            functions["send"](data[0], 1, f"abs={BOUND}")
        elif rank == 1:
            assert_bound(data[0], functions["receive"](0, SHAPE), BOUND, "a message")
        gathered = functions["gather"](np.array(data[rank]), f"abs={BOUND}")
        assert (gathered is None) == (rank != 0)
        for original, read in zip(data, gathered or []):
            assert_bound(original, read, BOUND, "gathered")
    print(f"process {rank} of {MPI.COMM_WORLD.size}: the bound holds")
