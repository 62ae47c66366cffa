"""A stream that asks for more memory than there is ends in an error.

    memory.py FOLDER

The dataset has 4096 bytes a chunk, but its `cd_values` are those of a later version, from which the filter takes no length. The stream says 16 GiB.
"""

from __future__ import annotations

import resource
import struct
import sys
from pathlib import Path

import h5py

from craft import Element, grid, plane_header, whole
from decoder.header import QUANTIZED
from quire_client import FILTER_ID, absolute, client


def stream(values: int) -> bytes:
    """A quantized stream that says it has that many values, all of them zero, with a right checksum."""
    return whole(Element("<f4"), QUANTIZED, (values,), grid(1e-3) + struct.pack("<Q", 0) + plane_header(1, 0, 0, 0, 16))


def main(folder: Path) -> None:
    path = folder / "large.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        options = {"chunks": (1024,), "compression": FILTER_ID, "compression_opts": absolute(1e-3)}
        dataset = file.create_dataset("x", (1024,), "<f4", **options)
        dataset.id.write_direct_chunk((0,), stream(1 << 32))
    raw = path.read_bytes()
    words = struct.pack("<5I", *absolute(1e-3), 0x51010001, 1024)
    assert raw.count(words) == 1
    path.write_bytes(raw.replace(words, struct.pack("<5I", *absolute(1e-3), 0x51020001, 1024)))
    # There is memory for the chunk, but not for a second buffer of its size.
    limit = 20 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with h5py.File(path, "r") as file:
        try:
            file["x"][()]
        except (OSError, MemoryError) as error:
            print(f"{client()}: {error}")
            return
    sys.exit(f"{client()}: 16 GiB were read within {limit} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
