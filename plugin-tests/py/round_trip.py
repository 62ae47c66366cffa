"""Writes files of pairs (`original`, stored as it is, beside `compressed`, with the attribute `bound`), and checks such files."""

from __future__ import annotations

from typing import Any, Iterator

import h5py
import numpy as np

from quire_client import BIT_PLANES, FILL_VALUES, FILTER_ID, HUFFMAN, absolute, assert_bound, decimal, nasty, smooth

# Extents and chunk extents; the chunks never divide the extents, so that every axis has a partial edge chunk.
SHAPES = {
    1: ((1003,), (96,)),
    2: ((37, 53), (16, 20)),
    3: ((19, 23, 21), (8, 8, 9)),
    4: ((5, 9, 11, 7), (2, 4, 4, 4)),
    5: ((3, 5, 7, 6, 5), (2, 2, 4, 4, 3)),
}


def write_pair(file: h5py.File, name: str, data: np.ndarray, bound: float, **options: Any) -> h5py.Dataset:
    """A group with the data as they are, and compressed within `bound`."""
    group = file.create_group(name)
    group.attrs["bound"] = bound
    group.create_dataset("original", data=data)
    options = {"compression_opts": absolute(bound), **options}
    return group.create_dataset("compressed", data=data, compression=FILTER_ID, **options)


def write(path: str) -> None:
    """Every type, byte order, rank and special content."""
    with h5py.File(path, "w") as file:
        write_ranks(file)
        write_contents(file)
        write_layouts(file)


def write_ranks(file: h5py.File) -> None:
    """Every rank, type and byte order, with a coarse and a fine bound."""
    seed = 0
    for rank, (shape, chunks) in SHAPES.items():
        for dtype in ("<f4", ">f4", "<f8", ">f8"):
            for bound in (1e-2, 1e-6):
                seed += 1
                name = f"rank{rank}_{dtype.replace('<', 'le_').replace('>', 'be_')}_{bound:g}"
                data = nasty(shape, dtype, seed)
                write_pair(file, name, data, bound, chunks=chunks)
                for coding in (HUFFMAN, BIT_PLANES):
                    dataset = write_pair(file, f"{name}_coding{coding}", data, bound, chunks=chunks, compression_opts=absolute(bound, coding))
                    if dataset.id.get_create_plist().get_filter(0)[2][0] != 1 + 256 * coding:
                        raise AssertionError(f"{name}: coding {coding} is not kept with the dataset")


def write_contents(file: h5py.File) -> None:
    """Contents and bounds at the edge of what the types hold."""
    shape, chunks = (50, 41), (16, 16)
    for dtype in ("<f4", ">f8"):
        contents = {
            "zeros": np.zeros(shape, dtype),
            "nan": np.full(shape, np.nan, dtype),
            "fill": np.full(shape, FILL_VALUES[0], dtype),
            "noise": np.random.default_rng(7).integers(0, 2**16, shape).astype(dtype),
        }
        for content, data in contents.items():
            write_pair(file, f"{content}_{dtype[1:]}", data, 1e-3, chunks=chunks)
        for bound in (1e-300, 1e-37, 1e-12, 1e30, 1e300):
            write_pair(file, f"bound_{bound:g}_{dtype[1:]}", nasty(shape, dtype, 99), bound, chunks=chunks)
        # Values of the size of the bound and far below it: the quantizer's rounding decides here.
        data = (np.linspace(-3e-3, 3e-3, 2050).reshape(shape)).astype(dtype)
        write_pair(file, f"bound_sized_{dtype[1:]}", data, 1e-3, chunks=chunks)
        denormal = (np.arange(2050) * np.finfo(dtype).smallest_subnormal).reshape(shape).astype(dtype)
        write_pair(file, f"denormals_{dtype[1:]}", denormal, 1e-6, chunks=chunks)
    data = nasty(shape, "<f4", 5)
    write_pair(file, "short_form", data, 1e-3, chunks=chunks, compression_opts=decimal(3))
    write_pair(file, "short_form_mantissa", data, 0.05, chunks=chunks, compression_opts=decimal(2, 5))


def write_layouts(file: h5py.File) -> None:
    """Chunks of one value, long thin chunks, one chunk for all, h5py's own choice, other filters behind ours, growth."""
    data = nasty((60, 70), "<f4", 3)
    for name, chunks in {"single_values": (1, 1), "row": (1, 70), "column": (60, 1), "whole": (60, 70), "guessed": True}.items():
        source = data[:5, :7] if name == "single_values" else data
        write_pair(file, f"chunks_{name}", source, 1e-3, chunks=chunks)
    write_pair(file, "megabyte_chunk", smooth((70, 64, 64), "<f4"), 1e-3, chunks=(64, 64, 64))
    write_pair(file, "fletcher32_behind", data, 1e-3, chunks=(16, 16), fletcher32=True)

    grown = write_pair(file, "grown", data[:10], 1e-3, chunks=(16, 16), maxshape=(None, None))
    grown.resize(data.shape)
    grown[10:] = data[10:]
    del file["grown/original"]
    file["grown/original"] = data

    # Only the middle is written: the rest are fill values, within chunks that hold data and in chunks that hold none.
    for number, fill in enumerate((*FILL_VALUES, np.nan, 0.0)):
        expected = np.full((60, 70), fill, "<f4")
        expected[20:30, 20:45] = data[20:30, 20:45]
        group = file.create_group(f"partly_written_{number}")
        group.attrs["bound"] = 1e-3
        group["original"] = expected
        options: dict[str, Any] = {"chunks": (16, 16), "compression": FILTER_ID, "compression_opts": absolute(1e-3)}
        dataset = group.create_dataset("compressed", (60, 70), "<f4", fillvalue=np.float32(fill), **options)
        dataset[20:30, 20:45] = data[20:30, 20:45]


def plain(path: str) -> None:
    """`compressed` of each pair is contiguous, chunked or in gzip; h5repack is to compress it within 1e-3."""
    layouts = {"contiguous": {}, "chunked": {"chunks": (20, 25)}, "gzip": {"chunks": (20, 25), "compression": "gzip", "shuffle": True}}
    with h5py.File(path, "w") as file:
        for seed, (layout, options) in enumerate(layouts.items()):
            for dtype in ("<f4", ">f4", "<f8", ">f8"):
                data = nasty((64, 53), dtype, seed)
                group = file.create_group(f"{layout}_{dtype.replace('<', 'le_').replace('>', 'be_')}")
                group.attrs["bound"] = 1e-3
                group["original"] = data
                group.create_dataset("compressed", data=data, **options)
        file["integers"] = np.arange(64 * 53, dtype="<i4").reshape(64, 53)
        file["text"] = np.array([[b"a quire", b"of leaves"]] * 20)


def pairs(file: h5py.File) -> Iterator[tuple[str, h5py.Group]]:
    """All groups, at any depth, that hold `original` beside `compressed`."""
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Group) else None)
    for name in found:
        if {"original", "compressed"} <= set(file[name]):
            yield name, file[name]


def check(path: str) -> None:
    """Every pair in the file, whoever wrote it."""
    count = 0
    with h5py.File(path, "r") as file:
        for name, group in pairs(file):
            bound = float(group.attrs["bound"])
            if "pointwise" in group.attrs:
                bound = float(group.attrs["pointwise"]) * np.abs(group["original"][()].astype(np.float64))
            assert_bound(group["original"][()], group["compressed"][()], bound, f"{path}: {name}/compressed")
            count += 1
    assert count > 0, f"{path}: no pair of original and compressed in it"
