"""A process that runs out of address space while it writes and reads gets errors, or its data: the plugin aborts none.

Each step is a child that may take fewer bytes than the one before: from enough for everything to none. What Python and HDF5 make of a refusal is
counted. A child that a signal ends fails the test, unless its last words are those of another library. This module imports no more than it needs: what
Python's allocator has left over from importing would serve the steps.
"""

from __future__ import annotations

import collections
import os
import resource
import signal
from pathlib import Path

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, client, smooth

SHAPE, BOUND = (256, 256), 1e-3
# Steps with the plugin still to be loaded, and without; each with the bytes of the first one.
STEPS = {False: (60, 24 << 20), True: (140, 4 << 20)}
UNLIMITED = resource.getrlimit(resource.RLIMIT_AS)
WRITTEN, REFUSED, NO_MEMORY, WRONG = range(10, 14)
NAMES = {WRITTEN: "written and read", REFUSED: "errors of HDF5", NO_MEMORY: "errors of Python", WRONG: "wrong values"}


def limit_to(more: int) -> None:
    # The stack grows into the address space too, where a refusal is a SIGSEGV whoever needs it: it is made long enough before.
    nested: list[object] = []
    for _ in range(900):
        nested = [nested]
    repr(nested)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, UNLIMITED[1]))


def write_and_read(path: str, data: np.ndarray, is_loaded: bool, more: int) -> int:
    options = {"chunks": SHAPE, "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
    # HDF5 itself reads what it could not allocate when it makes a file.
    with h5py.File(path, "w") as file:
        file.create_dataset("before", data=np.zeros(SHAPE, "f4"), chunks=SHAPE, compression="gzip")
        if is_loaded:
            h5py.h5z.filter_avail(FILTER_ID)
        limit_to(more)
        try:
            file.create_dataset("x", data=data, **options)
            file["x"].id.refresh()
            read = file["x"][()]
            return WRITTEN if np.abs(read - data).max() <= BOUND else WRONG
        except MemoryError:
            return NO_MEMORY
        except Exception:
            return REFUSED
        finally:
            resource.setrlimit(resource.RLIMIT_AS, UNLIMITED)


def run(data: np.ndarray, is_loaded: bool, more: int) -> tuple[int, str]:
    """The exit status of a child, negative for a signal, and what it wrote to stderr."""
    said = Path("stderr.txt")
    child = os.fork()
    if child == 0:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        # The interpreter's own way out takes memory.
        os._exit(write_and_read("low.h5", data, is_loaded, more))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text(errors="replace")


def check() -> None:
    os.environ["QUIRE_BACKEND"] = "cpu"
    data = smooth(SHAPE, "f4", 5)
    # Rust's allocator, its panics, and glibc on behalf of a library that is loaded late.
    ours = ("memory allocation of", "panicked at", "TLS destructor", "thread-local data")
    for is_loaded, (steps, most) in STEPS.items():
        counts: collections.Counter[str] = collections.Counter()
        for step in range(steps):
            more = most * (steps - 1 - step) // (steps - 1)
            status, said = run(data, is_loaded, more)
            name = NAMES.get(status) or f"{signal.Signals(-status).name}: {said.strip().splitlines()[-1:]}"
            is_ours = status == WRONG or status not in NAMES and (not said or any(words in said for words in ours))
            assert not is_ours, f"{client()}: with {more} bytes more, plugin loaded before: {is_loaded}: {name}"
            counts[name] += 1
        assert counts[NAMES[WRITTEN]] and counts[NAMES[REFUSED]], f"the steps do not reach from enough memory to too little: {counts}"
