"""A disk that fills up while compressed chunks are written: an OSError that says so, and no crash.

full_disk.py limit DIR [unfiltered]     a limit on the size of files (RLIMIT_FSIZE)
full_disk.py disk DIR [unfiltered]      DIR lies on a disk of 1 MB

With `unfiltered` the dataset has no filter at all: what happens then is HDF5's own doing.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from pathlib import Path

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute

LIMIT = 1 << 20


def fill(path: Path, filtered: bool) -> None:
    """Writes noise that does not shrink, four times what fits."""
    failure = None
    file = h5py.File(path, "w", rdcc_nbytes=0)
    options = {"compression": FILTER_ID, "compression_opts": absolute(1e-9)} if filtered else {}
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


def main(mode: str, folder: Path, filtered: bool) -> None:
    if mode == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    fill(folder / "full.h5", filtered)
    print("still running", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "unfiltered" not in sys.argv[3:])
