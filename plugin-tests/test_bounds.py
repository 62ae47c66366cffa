"""Every kind of bound, in every type, as users write it: options in words, a dataset, and what comes back."""

from __future__ import annotations

from itertools import product
from typing import Any, Iterator

import h5py
import numpy as np

import quire_options
from conftest import in_each_python
from quire_client import FILTER_ID, assert_same_bits, client, smooth

SHAPE, CHUNKS = (21, 40, 50), (16, 32, 32)

# As in filter/src/cd_values.rs.
WORDS = {
    "abs=1e-3": (1, 3539053052, 1062232653),
    "lossless,coding=bitshuffle": (512,),
    "psnr=60,coding=huffman": (256 + 7, 0, 0x404E0000),
    "ratio=20,abs=5e-1": (11, 0, 0x40340000, 0, 0x3FE00000),
    "abs=1e-3,brick=16x32x64": (3 * 16777216 + 1, 16, 32, 64, 3539053052, 1062232653),
    "lossless,adapt=history,brick=7": (16777216 + 65536, 7),
    "abs=1e-3,keep=order+sign:0:-2.5": (2 * 1048576 + 131072 + 1, 0, 0, 0, 0xC0040000, 3539053052, 1062232653),
}

# Decibels that a chunk's PSNR may lack, as in codec/src/bound/psnr.rs.
PSNR_TOLERANCE = 0.05

OPTIONS = ("lossless", "abs=0", "abs=1.5", "rel=1e-3", "pwrel=1e-2", "psnr=50", "ratio=6", "ratio=50,abs=1e-2", "rel=1e-2,keep=order+sign:0:281.5", "pwrel=1e-2,keep=order+sign:281.5")
TYPES = ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "i1", "u1", "<i2", ">u2", ">i4", "<u4", "<i8", ">u8", "<c8", ">c16")


@in_each_python
def test_options_and_words_convert_to_each_other() -> None:
    """Words and options convert to each other, and nonsense is refused with the reason."""
    for options, words in WORDS.items():
        assert quire_options.cd_values(options) == words, options
        assert quire_options.options(words) == options, words
    assert quire_options.options((2, 4, 25)) == "abs=2.5e-3" and quire_options.options((12, 0, 20, 1, 5)) == "ratio=20,abs=5e-1"
    faults = {"": "no bound", "abs=1,rel=1": "more than one", "abs=-1": "error bound is -1", "eb=1": "unknown", "abs": "needs a", "abs=1,brick=8x0": "brick [8, 0]", "abs=1,keep=x": "keep=x is unknown"}
    for options, reason in faults.items():
        try:
            quire_options.cd_values(options)
        except ValueError as error:
            assert reason in str(error), f"{options!r}: {error}"
        else:
            raise AssertionError(f"{options!r} is taken")


def parts(array: np.ndarray) -> np.ndarray:
    """The values of an array: of complex numbers both parts, along an axis more."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).view(f"{array.dtype.str[0]}f{array.itemsize // 2}").reshape(*array.shape, 2)


def contents(dtype: np.dtype) -> Iterator[tuple[str, np.ndarray]]:
    """A smooth field over a good part of the type's range, and one with what is odd in the type."""
    if dtype.kind == "c":
        for name, field in contents(np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")):
            # Different parts, and oddities that are not side by side.
            yield name, np.stack([field, np.roll(field, 5) - 7], axis=-1).astype(field.dtype).view(dtype)[..., 0]
        return
    field = smooth(SHAPE, "f8", 4)
    if dtype.kind == "f":
        # Far from 0, with which HDF5 fills partial chunks up.
        field = (field * 20 + 280).astype(dtype)
        odd = field.copy()
        odd.reshape(-1)[::37] = np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, np.finfo(dtype).max], dtype), odd.reshape(-1)[::37].size)
    else:
        # Eight-byte integers of more than 53 bits would be rounded by the check.
        info, span = np.iinfo(dtype), 2.0 ** min(8 * dtype.itemsize, 50)
        middle = 0 if dtype.kind == "i" else int(span / 2)
        field = np.clip(field / 8 * span + middle, info.min, min(float(info.max), span)).astype(dtype)
        odd = field.copy()
        odd.reshape(-1)[::37] = np.resize(np.array([info.min, 0, 1, min(info.max, 2**53)], dtype), odd.reshape(-1)[::37].size)
    yield "smooth", field
    yield "odd", odd


def chunks_of(array: np.ndarray) -> Iterator[tuple[slice, ...]]:
    starts = (range(0, extent, step) for extent, step in zip(array.shape, CHUNKS))
    return (tuple(slice(at, at + step) for at, step in zip(corner, CHUNKS)) for corner in product(*starts))


def assert_kept(keep: str, before: np.ndarray, after: np.ndarray, label: str) -> None:
    """No value passes another one of its chunk, and each stays on its side of the thresholds. Of 16-byte numbers parts are values."""
    for threshold in map(float, keep.partition("sign:")[2].split(":")):
        known = ~np.isnan(before)
        assert (np.sign(before - threshold) == np.sign(after - threshold))[known].all(), f"{label}: a value crossed {threshold}"
    order = np.argsort(before, axis=None, kind="stable")
    order = order[~np.isnan(before.reshape(-1)[order])]
    steps, restored = np.diff(before.reshape(-1)[order]), np.diff(after.reshape(-1)[order])
    assert not (restored < 0).any() and not (restored[steps == 0] != 0).any(), f"{label}: values passed each other"


def assert_promise(options: str, original: np.ndarray, read: np.ndarray, stored: int, label: str) -> None:
    """What an option promises holds for every value, or every chunk."""
    original, read = parts(original), parts(read)
    bound_text, _, keep = options.partition(",keep=")
    if keep:
        for chunk in chunks_of(original):
            assert_kept(keep, original[chunk].astype("f8"), read[chunk].astype("f8"), label)
    key, _, number = bound_text.split(",")[-1].partition("=")
    if key == "lossless" or options == "abs=0":
        return assert_same_bits(original, read, label)
    bound, wide, wide_read = float(number), original.astype("f8"), read.astype("f8")
    finite = np.isfinite(wide)
    assert_same_bits(original[~finite], read[~finite], label)
    error = np.abs(np.where(finite, wide, 0) - np.where(finite, wide_read, 0))
    if key == "pwrel":
        assert (error[finite] <= bound * np.abs(wide[finite])).all() and (np.signbit(wide) == np.signbit(wide_read))[finite].all(), label
    elif key == "abs":
        assert (error <= bound).all(), f"{label}: {error.max()}"
    elif key == "ratio":
        ratio = original.nbytes / stored
        assert "odd" in label or original.dtype.itemsize < 4 or abs(ratio / bound - 1) <= 0.05, f"{label}: {ratio}"
    for chunk in chunks_of(original):
        here = finite[chunk]
        span = float(np.ptp(wide[chunk][here])) if here.any() else 0.0
        if key == "rel":
            assert (error[chunk] <= bound * span).all(), f"{label}: {error[chunk].max()} where {bound * span} was asked for"
        elif key == "psnr" and here.any() and np.isfinite(span):
            # In units of the range: squares of errors beside the largest number overflow.
            noise = span * np.sqrt(np.mean((error[chunk][here] / (span or 1.0)) ** 2))
            assert noise <= span * 10 ** ((PSNR_TOLERANCE - bound) / 20), f"{label}: noise {noise}, range {span}"


def cases() -> Iterator[tuple[str, str, np.ndarray]]:
    """Name, options and data of each dataset."""
    for dtype, options in product(map(np.dtype, TYPES), OPTIONS):
        if options.startswith("pwrel") and dtype.kind not in "fc":
            continue
        for content, data in contents(dtype):
            # A ratio is that of whole chunks: what HDF5 fills a partial chunk up with would count.
            whole = options.startswith("ratio")
            yield f"{dtype.str} {content} {options}", options, data[:16, :32, :32] if whole else data


@in_each_python
def test_every_bound_holds_in_every_type() -> None:
    path = "bounds.h5"
    with h5py.File(path, "w") as file:
        for name, options, data in cases():
            settings: dict[str, Any] = {"compression": FILTER_ID, "compression_opts": quire_options.cd_values(options)}
            file.create_dataset(name, data=data, chunks=CHUNKS, **settings)
    # Opened again: HDF5's chunk cache would give back what was written.
    with h5py.File(path, "r") as file:
        for name, options, data in cases():
            dataset, label = file[name], f"{client()}: {name}"
            kept = dataset.id.get_create_plist().get_filter(0)[2]
            expected = quire_options.options(quire_options.cd_values(options))
            assert quire_options.options(kept) == expected, f"{label}: the dataset keeps {kept}"
            assert_promise(options, data, dataset[()], dataset.id.get_storage_size(), label)
