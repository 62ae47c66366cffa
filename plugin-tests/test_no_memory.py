"""A process that runs out of memory while it writes and reads gets errors, or its data: the plugin aborts none."""

from __future__ import annotations

import resource
import struct
from pathlib import Path

import h5py

from conftest import Python
from craft import Element, grid, plane_header, whole
from decoder.header import QUANTIZED
from quire_client import FILTER_ID, absolute, client


def test_an_address_space_that_is_used_up_is_an_error(python: Python) -> None:
    python("address_space.check")


def stream(values: int) -> bytes:
    """A quantized stream that says it has that many values, all of them zero, with a right checksum."""
    return whole(Element("<f4"), QUANTIZED, (values,), grid(1e-3) + struct.pack("<Q", 0) + plane_header(1, 0, 0, 0, 16))


def read_too_large_a_stream() -> None:
    """The dataset has 4096 bytes a chunk, but its `cd_values` are those of a later version, from which the filter takes no length. The stream says 16 GiB."""
    path = Path("large.h5")
    with h5py.File(path, "w", libver="earliest") as file:
        dataset = file.create_dataset("x", (1024,), "<f4", chunks=(1024,), compression=FILTER_ID, compression_opts=absolute(1e-3))
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
            print(error)
        else:
            raise AssertionError(f"{client()}: 16 GiB were read within {limit} bytes")


def test_a_stream_that_wants_too_much_memory_is_an_error(python: Python) -> None:
    python(read_too_large_a_stream).must_say("no memory for")
