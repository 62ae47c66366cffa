"""What every client script shares: cd_values, arrays that are hard to compress, and the check of the error bound."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import Any, Iterable, Optional

import numpy as np

FILTER_ID = 33791

# Fill values of netCDF (NC_FILL_FLOAT) and of weather and ocean models.
FILL_VALUES = (9.969209968386869e36, 1e35)


def open_gpu() -> None:
    """Has the plugin open the GPU now, if there is one: with `auto` it would do so only after some work."""
    library = ctypes.CDLL(str(Path(os.environ["HDF5_PLUGIN_PATH"]) / "libh5zquire.so"))
    info = (ctypes.c_size_t * 2)()
    library.quire_info(info)
    library.quire_free(info)


if os.environ.get("QUIRE_TEST_OPEN") == "1":
    open_gpu()

# Codings of cd_values: Huffman codes, bit planes.
HUFFMAN, BIT_PLANES = 1, 2


def absolute(bound: float, coding: int = 0) -> tuple[int, ...]:
    """cd_values for an absolute bound: mode 1 with the coding, and the IEEE bits of the f64, low word first."""
    return (1 + 256 * coding, *struct.unpack("<2I", struct.pack("<d", bound)))


def decimal(exponent: int, mantissa: Optional[int] = None) -> tuple[int, ...]:
    """cd_values of the short form: mode 2 and the bound `mantissa * 10**-exponent`."""
    return (2, exponent) if mantissa is None else (2, exponent, mantissa)


def unsigned(values: np.ndarray) -> np.ndarray:
    """The IEEE bits of `values`, in their own byte order."""
    contiguous = np.ascontiguousarray(values).reshape(values.shape)
    return contiguous.view(contiguous.dtype.str.replace("f", "u"))


def numbers(values: np.ndarray) -> np.ndarray:
    """The values; the two parts of complex numbers, side by side; booleans as bytes."""
    if values.dtype.kind == "c":
        return np.ascontiguousarray(values).view(values.real.dtype)
    return values.view("u1") if values.dtype.kind == "b" else values


def specials(dtype: np.dtype) -> np.ndarray:
    """Values that filters are known to lose: NaNs with payloads, infinities, -0.0, denormals, the largest and fill values."""
    dtype = np.dtype(dtype)
    info = np.finfo(dtype)
    numbers = [np.inf, -np.inf, -0.0, info.tiny, info.max, info.min, *FILL_VALUES]
    values = np.array(numbers, dtype=dtype)
    if dtype.itemsize == 4:
        bits = [0x7FC00000, 0xFFC00001, 0x7F800001, 0x00000001, 0x80000001, 0x007FFFFF]
    else:
        bits = [0x7FF8 << 48, 0xFFF8 << 48 | 1, 0x7FF0 << 48 | 1, 1, 1 << 63 | 1, (1 << 52) - 1]
    raw = np.array(bits, dtype=dtype.str.replace("f", "u"))
    return np.concatenate([values, raw.view(dtype)])


def smooth(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Waves of different lengths along the axes, and a little noise."""
    random = np.random.default_rng(seed)
    field = random.normal(0.0, 1e-3, shape)
    for axis, extent in enumerate(shape):
        along = [1] * len(shape)
        along[axis] = extent
        field += np.sin(np.arange(extent) * (0.05 + 0.03 * axis) + seed).reshape(along)
    return field.astype(dtype)


def nasty(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """A smooth field with a jump of scale, a block of fill values, and all `specials` sprinkled in."""
    random = np.random.default_rng(seed + 1)
    field = smooth(shape, dtype, seed)
    flat = field.reshape(-1)
    size = flat.size
    flat[size // 2 : size // 2 + size // 8] *= 1e6
    flat[size // 4 : size // 4 + size // 8] = FILL_VALUES[seed % 2]
    odd = specials(field.dtype)
    indices = random.choice(size, min(size, 2 * odd.size), replace=False)
    # Bits, not values: an assignment between float arrays may quiet a signalling NaN.
    unsigned_flat = flat.view(field.dtype.str.replace("f", "u"))
    unsigned_flat[indices] = np.resize(unsigned(odd), indices.size)
    return field


def assert_bound(original: np.ndarray, read: np.ndarray, bound: "float | np.ndarray", label: str) -> None:
    """|x - x'| <= bound for every finite value, of floating-point numbers in f64, and equal bits for every NaN and infinity."""
    label = f"{client()}: {label}"
    assert original.shape == read.shape, f"{label}: shape {read.shape}, expected {original.shape}"
    assert original.dtype == read.dtype, f"{label}: type {read.dtype.str}, expected {original.dtype.str}"
    original, read = numbers(original), numbers(read)
    with np.errstate(all="ignore"):
        wide, wide_read = original.astype(np.float64), read.astype(np.float64)
        # A NaN that came back for a number makes `error <= bound` false as well.
        held = np.abs(wide - wide_read) <= bound
        if original.dtype.kind in "iu":
            # f64 would round long integers.
            held = np.maximum(original, read).astype("u8") - np.minimum(original, read).astype("u8") <= bound
    same_bits = unsigned(original) == unsigned(read)
    good = np.where(np.isfinite(wide), held, same_bits)
    if good.all():
        return
    bad = np.argwhere(~good)
    at = tuple(int(i) for i in bad[0])
    raise AssertionError(
        f"{label}: {len(bad)} of {good.size} values miss the bound {np.max(bound):g}; the first at {at}: "
        f"wrote {wide[at]!r} (bits {int(unsigned(original)[at]):x}), read {wide_read[at]!r} (bits {int(unsigned(read)[at]):x})"
    )


def assert_same_bits(expected: np.ndarray, read: np.ndarray, label: str) -> None:
    """The two arrays agree bit for bit."""
    expected, read = numbers(expected), numbers(read)
    differ = np.argwhere(unsigned(expected) != unsigned(read))
    if len(differ):
        at = tuple(int(i) for i in differ[0])
        raise AssertionError(f"{client()}: {label}: {len(differ)} values changed, the first at {at}: {expected[at]!r} -> {read[at]!r}")


def create(
    file: Any, name: str, shape: tuple[int, ...], datatype: Any, chunks: tuple[int, ...], words: Optional[tuple[int, ...]], *, is_mandatory: bool = True,
    maxshape: Optional[tuple[Optional[int], ...]] = None, fill: Any = None, fill_time: Optional[int] = None, alloc_time: Optional[int] = None,
) -> Any:  # fmt: skip
    """A dataset that is created as a C program does it: of a type of HDF5 or numpy, with the filter unless `words` are None. h5py itself makes filters
    optional."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunks)
    if words is not None:
        properties.set_filter(FILTER_ID, h5py.h5z.FLAG_MANDATORY if is_mandatory else h5py.h5z.FLAG_OPTIONAL, words)
    if fill is not None:
        properties.set_fill_value(np.asarray(fill))
    if fill_time is not None:
        properties.set_fill_time(fill_time)
    if alloc_time is not None:
        properties.set_alloc_time(alloc_time)
    space = h5py.h5s.create_simple(shape, tuple(h5py.h5s.UNLIMITED if extent is None else extent for extent in maxshape or shape))
    kind = datatype if isinstance(datatype, h5py.h5t.TypeID) else h5py.h5t.py_create(np.dtype(datatype), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, properties))


def stored(dataset: Any) -> dict[tuple[int, ...], tuple[int, bytes]]:
    """Filter mask and bytes of every chunk that the file has, by the indices of its first value."""
    dataset.file.flush()
    offsets = [dataset.id.get_chunk_info(number).chunk_offset for number in range(dataset.id.get_num_chunks())]
    return {offset: dataset.id.read_direct_chunk(offset) for offset in sorted(offsets)}


def assert_words(text: str, words: Iterable[str], label: str) -> None:
    """Every one of `words` is in `text`, whatever its case."""
    missing = [word for word in words if word.lower() not in text.lower()]
    assert not missing, f"{client()}: {label}: the message does not say {missing}: {text!r}"


def client() -> str:
    """The HDF5 client of this process, for messages."""
    h5py = sys.modules.get("h5py")
    return f"h5py {h5py.__version__} on HDF5 {h5py.version.hdf5_version}" if h5py else "client"
