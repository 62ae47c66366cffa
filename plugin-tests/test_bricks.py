"""Datasets of one axis whose values lie in bricks: each chunk is the stream of a dataset that has the brick's axes."""

from __future__ import annotations

from math import prod
from typing import Any

import h5py
import numpy as np

from conftest import Python
from quire_client import BIT_PLANES, FILL_VALUES, FILTER_ID, HUFFMAN, absolute, assert_bound, client, decimal, nasty, smooth, stored

# Brick, values of a chunk, values of the dataset. The last chunk is partial where they do not divide.
CASES = (
    ((8, 8, 8), 4 * 512, 9 * 512),
    ((8, 8, 8), 512, 2 * 512),
    ((8, 8, 8), 64, 512),
    ((8, 8, 8), 3 * 64, 512),
    ((16, 16, 16), 64, 1000),
    ((2, 3, 5, 7), 2 * 210, 1003),
    ((2, 3, 5, 7), 35, 210),
    ((9, 13), 3 * 117, 500),
    ((1, 11, 1), 33, 100),
    ((7,), 21, 50),
    ((1,), 1, 3),
)
TYPES = ("<f4", ">f4", "<f8", ">f8", "<i2", ">u4", "u1")
BOUND = 1e-3


def with_brick(words: tuple[int, ...], brick: tuple[int, ...]) -> tuple[int, ...]:
    """cd_values with a brick: the number of its extents in bits 24 to 31 of word 0, the extents behind word 0."""
    return (words[0] + (len(brick) << 24), *brick, *words[1:])


def chunk_of(values: int, brick: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of a chunk of `values` values: as many of the brick's fastest ones as divide it, and the rest in front."""
    for first in range(len(brick)):
        run = prod(brick[first:])
        if values % run == 0:
            return (values // run, *brick[first:])
    raise AssertionError(f"{values} values are not whole rows of {brick}")


def content(dtype: str, count: int, seed: int) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return nasty((count,), dtype, seed)
    return np.clip(smooth((count,), "f8", seed) * 60 + 100, 0, 255).astype(dtype)


def pair(file: h5py.File, name: str, data: np.ndarray, brick: tuple[int, ...], bound: float) -> h5py.Group:
    group = file.create_group(name)
    group.attrs["bound"], group.attrs["brick"] = bound, brick
    group["original"] = data
    return group


def write(path: str) -> None:
    with h5py.File(path, "w") as file:
        for number, (brick, chunk, count) in enumerate(CASES):
            for dtype in TYPES:
                bound = BOUND if "f" in dtype else 1
                words = absolute(bound, (0, HUFFMAN, BIT_PLANES)[number % 3])
                data = content(dtype, count, number)
                name = f"{number}_{dtype.replace('<', 'le_').replace('>', 'be_')}"
                options: dict[str, Any] = {"chunks": (chunk,), "compression": FILTER_ID, "compression_opts": with_brick(words, brick)}
                compressed = pair(file, name, data, brick, bound).create_dataset("compressed", data=data, maxshape=(None,), **options)
                kept = compressed.id.get_create_plist().get_filter(0)[2]
                extents = tuple(extent for extent in chunk_of(chunk, brick) if extent != 1) or (1,)
                if len(extents) == 5:
                    extents = (extents[0] * extents[1], *extents[2:])
                expected = with_brick(words, brick)
                assert kept[: len(expected)] == expected and kept[len(expected) + 1 :] == extents, f"{client()}: {name}: the dataset keeps {kept}"
        # A part is written, the rest of the chunks and all of the last one are fill values.
        data = np.full(2000, FILL_VALUES[1], "<f4")
        data[300:900] = smooth((600,), "<f4")
        options = {"chunks": (512,), "compression": FILTER_ID, "compression_opts": with_brick(decimal(3), (8, 8, 8)), "fillvalue": data[0]}
        dataset = pair(file, "partly_written", data, (8, 8, 8), BOUND).create_dataset("compressed", data.shape, "<f4", **options)
        dataset[300:900] = data[300:900]
        constant = np.full(1024, 7.25, "<f4")
        options = {"chunks": (512,), "compression": FILTER_ID, "compression_opts": with_brick((0,), (8, 8, 8))}
        pair(file, "constant", constant, (8, 8, 8), 0).create_dataset("compressed", data=constant, **options)
        # h5py's `chunks` of several axes: what counts is the number of a chunk's values.
        rows = smooth((6, 512), "<f4")
        options = {"chunks": (4, 512), "compression": FILTER_ID, "compression_opts": with_brick(decimal(3), (8, 8, 8))}
        pair(file, "rows", rows, (8, 8, 8), BOUND).create_dataset("compressed", data=rows, **options)


def plain(path: str) -> None:
    """`compressed` is not compressed yet; h5repack is to do it within BOUND, in bricks of 8 x 8 x 8. `cut` ends within a row."""
    with h5py.File(path, "w") as file:
        data = smooth((8, 8, 8 * 9), "<f4", 5).reshape(8, 8, 9, 8).transpose(2, 0, 1, 3).reshape(-1)
        pair(file, "boxes", data, (8, 8, 8), BOUND)["compressed"] = data
        file["cut"] = data[:-5]


def check(path: str, source: str = "") -> None:
    """Every pair in the file, whoever wrote it: the bound, and the streams of the values that it was made from. A file by h5repack has those of `source`."""
    count = 0
    with h5py.File(path, "r") as file, h5py.File("memory", "w", driver="core", backing_store=False) as memory:
        for name, group in file.items():
            if not isinstance(group, h5py.Group):
                continue
            original, compressed, brick = group["original"][()], group["compressed"], tuple(int(extent) for extent in group.attrs["brick"])
            label = f"{client()}: {path}: {name}"
            assert_bound(original, compressed[()], float(group.attrs["bound"]), label)
            if source:
                with h5py.File(source, "r") as before:
                    original = before[name]["compressed"][()]
            # The same values in a dataset that has the chunk's axes, without a brick; what HDF5 fills the last chunk up with, too.
            values = prod(compressed.chunks)
            chunks = -(-len(original) // compressed.chunks[0])
            padded = np.full((chunks * compressed.chunks[0], *original.shape[1:]), compressed.fillvalue, original.dtype)
            padded[: len(original)] = original
            extents = chunk_of(values, brick)
            kept = compressed.id.get_create_plist().get_filter(0)[2]
            words = (kept[0] % (1 << 24), *kept[1 + len(brick) :])
            words = words[: 1 if words[0] % 256 == 0 else 3]
            boxes = memory.create_dataset(
                name, (chunks * extents[0], *extents[1:]), original.dtype, chunks=extents, compression=FILTER_ID, compression_opts=words,
                fillvalue=compressed.fillvalue,
            )  # fmt: skip
            written = [number for number in range(chunks) if name != "partly_written" or number < 2]
            for number in written:
                boxes[number * extents[0] : (number + 1) * extents[0]] = padded.reshape(-1)[number * values : (number + 1) * values].reshape(extents)
            ours, theirs = ([stream for _, stream in stored(dataset).values()] for dataset in (compressed, boxes))
            assert ours == theirs and len(ours) == len(written), f"{label}: its streams are not those of {extents}"
            count += 1
    assert count, f"{path}: nothing to check"


def test_values_in_bricks_have_the_streams_of_their_boxes(python: Python) -> None:
    python(write, "bricks.h5")
    python(check, "bricks.h5")
