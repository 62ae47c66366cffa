"""Files that an older HDF5, or one without a filter, cannot read whole.

    unreadable.py FOLDER    virtual.h5, whose sources are first.h5, second.h5 and third.h5; new.h5 and newer.h5, of a newer HDF5
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute

SHAPE = (40, 100)


def main(folder: Path) -> None:
    names = ("first", "second", "third")
    for number, name in enumerate(names):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            data = np.arange(4000.0).reshape(SHAPE) + 5000 * number
            file.create_dataset("x", data=data, chunks=SHAPE, compression=FILTER_ID, compression_opts=absolute(1e-3))
    layout = h5py.VirtualLayout((120, 100), "<f8")
    for number, name in enumerate(names):
        layout[40 * number : 40 * number + 40] = h5py.VirtualSource(f"{name}.h5", "x", SHAPE)
    with h5py.File(folder / "virtual.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    # HDF5 2.0 gives filtered chunks and complex numbers forms that HDF5 1.10 does not know.
    with h5py.File(folder / "new.h5", "w", libver="latest") as file:
        file.create_dataset("old_form", data=np.arange(4000.0))
        file.create_dataset("new_form", data=np.arange(4000.0), chunks=(4000,), compression="gzip")
    # The version of a superblock that no HDF5 has yet.
    contents = bytearray((folder / "new.h5").read_bytes())
    contents[8] = 99
    (folder / "newer.h5").write_bytes(contents)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
