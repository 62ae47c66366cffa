"""Chunks that were damaged on disk: reading raises OSError with a reason, or gives the data back; it never ends the process.

    damage.py DIR
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, assert_bound, assert_words, smooth

BOUND = 1e-3
LOSSLESS, POINTWISE = (0,), 5  # words of the exact bits; the mode of a share of each value's magnitude


def attempt(dataset: h5py.Dataset, stream: bytes, label: str) -> None:
    """Replaces the only chunk by `stream`: reading it must fail with our text."""
    dataset.id.write_direct_chunk((0, 0), stream)
    try:
        dataset[()]
    except OSError as error:
        assert_words(str(error), ["quire"], label)
        assert any(word in str(error) for word in ("damaged", "truncated", "version", "chunk")), f"{label}: no reason: {error}"
    else:
        raise AssertionError(f"{label}: damage was not noticed")


def contents() -> Iterator[tuple[str, np.ndarray, tuple[int, ...], float]]:
    """Small chunks in every coding, with the words of their datasets and what bound these keep here."""
    shape = (12, 13)
    for dtype in ("<f4", ">f8"):
        yield f"smooth{dtype[1:]}", smooth(shape, dtype), absolute(BOUND), BOUND
        yield f"constant{dtype[1:]}", np.full(shape, 9.97e36, dtype), absolute(BOUND), BOUND
        noise = np.random.default_rng(3).normal(0, 1e30, shape).astype(dtype)  # does not shrink
        yield f"noise{dtype[1:]}", noise, absolute(BOUND), BOUND
    whole = np.round(1000 * smooth(shape, "<f8"))
    yield "exact", whole.astype(">i4"), LOSSLESS, 0.0
    yield "steps", whole.astype("<i8"), absolute(3.0), 3.0
    yield "decimal", whole / 1000, LOSSLESS, 0.0
    share = absolute(0.01)[1:]
    yield "logarithmic", smooth(shape, "<f4"), (POINTWISE, *share), 0.01 * 4


def every_byte(file: h5py.File) -> int:
    """Flips every byte in three ways, cuts the stream at every length, and adds to it."""
    attempts = 0
    codings = set()
    for content, data, words, bound in contents():
        dataset = file.create_dataset(content, data=data, chunks=data.shape, compression=FILTER_ID, compression_opts=words)
        file.flush()
        mask, stream = dataset.id.read_direct_chunk((0, 0))
        assert mask == 0, f"{dataset.name}: the chunk was stored without the filter"
        codings.add(stream[9] & 15)
        for at in range(len(stream)):
            for flip in (0x01, 0x80, 0xFF):
                damaged = bytearray(stream)
                damaged[at] ^= flip
                attempt(dataset, bytes(damaged), f"{dataset.name}: byte {at} ^ {flip:#x}")
                attempts += 1
        for length in range(1, len(stream)):
            attempt(dataset, stream[:length], f"{dataset.name}: cut to {length} bytes")
            attempts += 1
        for more in (b"\0", b"\0" * 4096, stream):
            attempt(dataset, stream + more, f"{dataset.name}: {len(more)} bytes added")
            attempts += 1
        for value in (0, 0xFF):
            attempt(dataset, bytes([value]) * 4096, f"{dataset.name}: 4096 bytes of {value}")
            attempts += 1
        dataset.id.write_direct_chunk((0, 0), stream)
        assert_bound(data, dataset[()], bound, f"{dataset.name}: undamaged again")
    assert codings == set(range(7)), f"codings {codings}"
    return attempts


def wrong_chunk(file: h5py.File) -> None:
    """A sound stream in the wrong dataset: the chunk there has another size."""
    streams = {}
    for name, shape in (("small", (12, 13)), ("large", (24, 26))):
        options = {"chunks": shape, "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
        streams[name] = file.create_dataset(name, data=smooth(shape, "<f4"), **options)
    file.flush()
    small, large = (streams[name].id.read_direct_chunk((0, 0))[1] for name in ("small", "large"))
    attempt(streams["small"], large, "the stream of a larger chunk")
    attempt(streams["large"], small, "the stream of a smaller chunk")


def on_disk(path: Path) -> None:
    """Bytes of the file itself, as a bad disk would change them."""
    data = smooth((40, 50), "<f4")
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=data, chunks=(16, 16), compression=FILTER_ID, compression_opts=absolute(BOUND))
        file.flush()
        chunk = dataset.id.get_chunk_info(4)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset + chunk.size // 2)
        byte = raw.read(1)[0]
        raw.seek(-1, 1)
        raw.write(bytes([byte ^ 0x10]))
    with h5py.File(path, "r") as file:
        try:
            file["x"][()]
        except OSError as error:
            assert_words(str(error), ["quire", "damaged"], "a flipped bit in the file")
        else:
            raise AssertionError("a flipped bit in the file was not noticed")
        # The other chunks are as good as ever.
        assert_bound(data[:16], file["x"][:16], BOUND, "chunks beside the damaged one")


def skipped_filter(path: Path) -> None:
    """A chunk whose mask says that the filter was skipped holds plain values."""
    data = smooth((12, 13), "<f4")
    options = {"chunks": data.shape, "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("skipped", data.shape, data.dtype, **options)
        dataset.id.write_direct_chunk((0, 0), data.tobytes(), filter_mask=1)
    # Opened again: until then HDF5 remembers the mask of before the write (1.10.8 to 2.0, with any filter).
    with h5py.File(path, "r") as file:
        assert_bound(data, file["skipped"][()], 0.0, "filter skipped by its mask")


def main(folder: Path) -> None:
    with h5py.File(folder / "damage.h5", "w") as file:
        attempts = every_byte(file)
        wrong_chunk(file)
    skipped_filter(folder / "skipped.h5")
    on_disk(folder / "on_disk.h5")
    print(f"{attempts} damaged streams refused")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
