"""A disk that fills up while compressed chunks are written: an OSError that says so, and no crash."""

from __future__ import annotations

import errno
import os
import resource
import signal
from typing import Callable

import h5py
import numpy as np

from conftest import ANYHOW, IN_ORDER, Ended, InNamespace, Python, Runner
from quire_client import FILTER_ID, absolute

LIMIT = 1 << 20


def fill(path: str, *unfiltered: str) -> None:
    """Writes noise that does not shrink, four times what fits. Without a filter, what happens is HDF5's own doing."""
    failure = None
    file = h5py.File(path, "w", rdcc_nbytes=0)
    options = {"compression": FILTER_ID, "compression_opts": absolute(1e-9)} if not unfiltered else {}
    dataset = file.create_dataset("x", (64, 128, 128), "<f4", chunks=(4, 128, 128), **options)
    try:
        for step in range(64):
            dataset[step] = np.random.default_rng(step).normal(0, 1e30, (128, 128)).astype("<f4")
            file.flush()
    except (OSError, RuntimeError) as error:
        failure = error
    assert failure is not None, "four megabytes fitted on a disk of one"
    reasons = (os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG), f"errno = {errno.ENOSPC}", f"errno = {errno.EFBIG}")
    assert any(reason in str(failure) for reason in reasons), f"the error does not say why: {failure}"
    print(f"the write said: {failure}")
    # HDF5 may not be able to close a file that it cannot flush. What counts is that Python goes on.
    try:
        file.close()
    except (OSError, RuntimeError) as error:
        print(f"closing said: {error}")
    print("still running", flush=True)


def fill_limited(path: str, *unfiltered: str) -> None:
    """The same under a limit on the size of files."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    fill(path, *unfiltered)


def check_full(start: Callable[..., Ended]) -> None:
    """HDF5 1.10.8 crashes as the process ends after it has failed to write, whatever the filter; only a crash that it has with no filter as well is forgiven,
    and only after the function is through."""
    ended = start().must_say("the write said", "still running")
    if ended.code not in IN_ORDER:
        assert start("unfiltered").code not in IN_ORDER, f"without our filter it does not crash at exit: {ended}"


def test_a_limit_on_the_size_of_files_is_an_error(python: Python) -> None:
    check_full(lambda *unfiltered: python(fill_limited, "full.h5", *unfiltered, code=ANYHOW))


def test_a_full_disk_is_an_error(python: Python, run: Runner, in_namespace: InNamespace) -> None:
    (run.folder / "disk").mkdir()
    # The mount is seen by one command alone and goes with it.
    mounted = in_namespace("mount -t tmpfs -o size=1m tmpfs disk")
    check_full(lambda *unfiltered: run(*mounted, *python.command(fill, "disk/full.h5", *unfiltered), code=ANYHOW))
