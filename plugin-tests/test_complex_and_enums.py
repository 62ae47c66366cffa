"""Complex numbers in each way to store them, their fill values, and enumerations, which no bound changes."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from conftest import in_each_python
from decoder import decode
from quire_client import FILTER_ID, absolute, assert_bound, assert_same_bits, assert_words, client, create, smooth
from test_bounds import parts

SHAPE, CHUNKS = (30, 41), (16, 16)
BOUND = 1e-3
MODES = {"abs": absolute(1.0), "rel": (4, 1), "pwrel": (6, 1), "psnr": (8, 0, 20), "ratio": (10, 0, 50), "lossless": (0,)}


def waves(dtype: Any) -> np.ndarray:
    """Complex numbers whose parts differ."""
    return (smooth(SHAPE, "f8", 1) + 1j * (smooth(SHAPE, "f8", 2) * 3 - 50)).astype(dtype)


def new(file: h5py.File, name: str, datatype: h5py.h5t.TypeID, words: tuple[int, ...], fill: Any = None) -> h5py.Dataset:
    return create(file, name, SHAPE, datatype, CHUNKS, words, fill=fill)


def compound(part: h5py.h5t.TypeID, names: tuple[bytes, bytes]) -> h5py.h5t.TypeID:
    """A compound of two members of one type."""
    made = h5py.h5t.create(h5py.h5t.COMPOUND, 2 * part.get_size())
    for number, name in enumerate(names):
        made.insert(name, number * part.get_size(), part)
    return made


def ways() -> dict[str, tuple[str, h5py.h5t.TypeID]]:
    """Types of HDF5 for complex numbers, with numpy's for their bytes."""
    found = {}
    for names in ((b"r", b"i"), (b"real", b"imag"), (b"x", b"y")):
        for part, dtype in ((h5py.h5t.IEEE_F32LE, "<c8"), (h5py.h5t.IEEE_F64BE, ">c16")):
            found[f"{names[0].decode()}, {dtype}"] = dtype, compound(part, names)
    for dtype, name in (("<c8", "F32LE"), (">c8", "F32BE"), ("<c16", "F64LE"), (">c16", "F64BE")):
        # From HDF5 2.0 on, and where h5py knows it.
        if hasattr(h5py.h5t, f"COMPLEX_IEEE_{name}"):
            found[f"class complex, {dtype}"] = dtype, getattr(h5py.h5t, f"COMPLEX_IEEE_{name}")
    return found


def pairs(file: h5py.File) -> None:
    """Each way to store complex numbers; the independent decoder reads the streams."""
    for name, (dtype, datatype) in ways().items():
        values = waves(dtype)
        dataset = new(file, name, datatype, absolute(BOUND))
        # In the type of the file: some ways of writing them are not what h5py makes of a complex array.
        dataset.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, datatype)
        words = dataset.id.get_create_plist().get_filter(0)[2]
        number = {"c8": 12, "c16": 13}[dtype[1:]] + 128 * (dtype[0] == ">")
        assert words[3:] == (0x51010002 | number << 8, 2 * CHUNKS[0], CHUNKS[1]), f"{client()}: {name}: {words}"
        read = np.empty(SHAPE, dtype)
        for corner in ((0, 0), (16, 32)):
            mask, stream = dataset.id.read_direct_chunk(corner)
            assert mask == 0 and stream[8] == number
            chunk = np.frombuffer(decode(stream), dtype).reshape(CHUNKS)
            part = values[corner[0] : corner[0] + 16, corner[1] : corner[1] + 16]
            assert_bound(parts(part), parts(chunk[: part.shape[0], : part.shape[1]]), BOUND, f"{name}, decoder in Python")
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, read, datatype)
        assert_bound(parts(values), parts(read), BOUND, name)


def fill_values(file: h5py.File) -> None:
    """One part is kept bit for bit, the other one needs it not; two that need it are refused, except where all values keep their bits."""
    nan, infinite = np.nan, np.inf
    for dtype in ("<c8", ">c16"):
        datatype = h5py.h5t.py_create(np.dtype(dtype), logical=True)
        for fill in ((0, 0), (1e20, 0), (0, 1e20), (1e20, 1e20), (nan, 0), (nan, nan), (-9999.4, nan), (infinite, -9999.4)):
            pair = np.array([fill], f"{dtype[0]}f{np.dtype(dtype).itemsize // 2}").view(dtype).reshape(())
            values = waves(dtype)
            values[3:9, 5:30] = pair
            label = f"fill {fill} {dtype}"
            dataset = new(file, label, datatype, absolute(0.7), pair)
            dataset[:20] = values[:20]  # the rest are fill values that HDF5 puts there
            values[20:] = pair
            read = dataset[()]
            is_fill = np.zeros(SHAPE, bool)
            is_fill[3:9, 5:30] = is_fill[20:] = True
            assert_same_bits(parts(values)[is_fill], parts(read)[is_fill], label)
            assert_bound(parts(values), parts(read), 0.7, label)
        try:
            new(file, f"refused {dtype}", datatype, absolute(BOUND), np.array(-9999 + 1j, dtype))
        except (ValueError, OSError, RuntimeError) as error:
            assert_words(str(error), ["fill value (-9999, 1)", "two different parts", "choose"], "two different parts")
        else:
            raise AssertionError(f"{client()}: a fill value with two different parts was accepted")
        exact = new(file, f"exact {dtype}", datatype, (0,), np.array(-9999 + 1j, dtype))
        exact[:20] = waves(dtype)[:20]
        assert_same_bits(parts(waves(dtype)[:20]), parts(exact[:20]), f"lossless beside a fill value of two parts, {dtype}")
        assert (exact[20:] == -9999 + 1j).all()


def names(file: h5py.File) -> None:
    """Enumerations come back as they were under each kind of bound, and keep mode 0."""
    colours = h5py.enum_dtype({"RED": 1, "GREEN": 2, "BLUE": 300}, basetype=">i2")
    random = np.random.default_rng(3)
    for what, values in (
        ("booleans", smooth(SHAPE, "f4") > 0.1),
        ("enumeration", random.choice([1, 2, 300], SHAPE).astype(colours)),
    ):
        for mode, words in MODES.items():
            for coding in (0, 512, 65536):
                label = f"{what} {mode} {coding}"
                words = (words[0] % 256 + coding, *words[1:])
                dataset = file.create_dataset(label, data=values, chunks=CHUNKS, compression=FILTER_ID, compression_opts=words)
                read = dataset[()]
                assert read.dtype == values.dtype and np.array_equal(read, values), f"{client()}: {label}"
                kept = dataset.id.get_create_plist().get_filter(0)[2]
                assert kept[0] == coding and kept[1] >> 24 == 0x51, f"{client()}: {label}: the dataset keeps {kept}"
                # Compressed: an optional filter that fails leaves a chunk as it is.
                assert dataset.id.get_chunk_info(0).filter_mask == 0, f"{client()}: {label} is stored without the filter"


@in_each_python
def test_complex_numbers_keep_their_bounds_and_enumerations_their_names() -> None:
    # Without a cache of chunks: what is read has gone through the filter.
    with h5py.File("names.h5", "w", rdcc_nbytes=0) as file:
        pairs(file)
        fill_values(file)
        names(file)
