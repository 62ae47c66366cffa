"""A process that is killed while it writes leaves readable what it had flushed, by HDF5's own rules for a single writer (SWMR)."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import h5py
import numpy as np

from conftest import HERE, in_each_python
from quire_client import FILTER_ID, absolute, assert_bound, client, smooth

PLANES, PLANE, BOUND = 400, (60, 70), 1e-3
CHUNKS = (4, 32, 32)  # a plane is a quarter of its chunks, so that each of them is written four times
KILLS = 6


def planes() -> np.ndarray:
    return smooth((PLANES, *PLANE), "f4", 8)


def write(path: str) -> None:
    """Appends planes and says how many are flushed, until it is killed."""
    data = planes()
    with h5py.File(path, "w", libver="latest") as file:
        settings = {"chunks": CHUNKS, "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
        dataset = file.create_dataset("x", (0, *PLANE), "f4", maxshape=(None, *PLANE), **settings)
        file.swmr_mode = True
        for count, plane in enumerate(data, 1):
            dataset.resize(count, axis=0)
            dataset[-1] = plane
            dataset.flush()
            print(count, flush=True)
        time.sleep(60)


@in_each_python
def test_a_killed_writer_leaves_what_it_had_flushed() -> None:
    chance, data, path = random.Random(1), planes(), "killed.h5"
    for _ in range(KILLS):
        writer = subprocess.Popen([sys.executable, HERE / "call.py", "test_killed_writer", "write", path], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        wanted, flushed = chance.randrange(1, PLANES // 2), 0
        while flushed < wanted:
            line = writer.stdout.readline()
            assert line, f"{client()}: the writer ended after {flushed} planes"
            flushed = int(line)
        # Somewhere within the next plane.
        time.sleep(chance.random() * 2e-3)
        writer.kill()
        writer.wait()
        with h5py.File(path, "r", libver="latest", swmr=True) as file:
            found = file["x"][()]
        assert len(found) >= flushed, f"{client()}: {len(found)} planes are left of {flushed}"
        assert_bound(data[:flushed], found[:flushed], BOUND, f"{flushed} planes of a writer that was killed")
