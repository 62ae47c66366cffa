"""Two readers on the same streams: the decoder in Python, and the plugin through h5py."""

from __future__ import annotations

import itertools
import struct
from collections import Counter

import h5py
import numpy as np

from craft import with_grid
from decoder import StreamError, decode
from decoder.header import BFLOAT, PAIR

FILTER = 33791
TYPES = ("<f4", ">f4", "<f8", ">f8")
COUNTS: Counter[str] = Counter()  # printed at the end of the run


def words_of(mode, *numbers, coding=0):
    """Section 10's words of a mode of bits: a mode whose numbers are given by their bits."""
    return (mode + 256 * coding, *struct.unpack(f"<{2 * len(numbers)}I", struct.pack(f"<{len(numbers)}d", *numbers)))


class Target(h5py.Dataset):
    """A dataset with the filter. It is read and written as a whole, and without conversions, as numpy has no bfloat16."""

    def __init__(self, bind, element):
        super().__init__(bind)
        self.element = element

    @property
    def limit(self):
        """The length of all values, in bytes."""
        return self.size * self.element.dtype.itemsize

    def read(self):
        """All values. Those of bfloat16 are their bits."""
        values = np.empty(self.shape, self.element.dtype)
        self.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, self.id.get_type())
        return values

    def write(self, values):
        """Writes all values. The streams of the chunks, in their order."""
        values = np.ascontiguousarray(values).reshape(self.shape)
        assert values.dtype == self.element.dtype
        self.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, self.id.get_type())
        return [self.stream(corner) for corner in self.corners()]

    def corners(self):
        """Where the chunks begin."""
        return itertools.product(*map(range, [0] * self.ndim, self.shape, self.chunks))

    def stream(self, corner):
        """A chunk's stream; it must have gone through the filter."""
        mask, stream = self.id.read_direct_chunk(corner)
        assert mask == 0, f"filter mask {mask}"
        return stream


class Plugin:
    """One file in memory, in which datasets are made, read and altered."""

    def __init__(self):
        assert h5py.h5z.filter_avail(FILTER), "HDF5 finds no H5Z-Quire: HDF5_PLUGIN_PATH names the folder of libh5zquire.so"
        self.file = h5py.File("conformance", "w", driver="core", backing_store=False, rdcc_nbytes=0)  # no cache

    def dataset(self, shape, element, words=words_of(0), chunks=None, fill=0.0):
        """A new dataset with the filter, by default of one chunk. `words` are those of section 10."""
        dtype = bfloat16(element) if element.kind == BFLOAT else element.dtype
        # HDF5 does not convert a real number to a complex one.
        fill = np.array(fill, element.dtype) if element.kind == PAIR else fill
        options = {"chunks": chunks or shape, "compression": FILTER, "compression_opts": words, "fillvalue": fill}
        return Target(self.file.create_dataset(None, shape, dtype, **options).id, element)


def bfloat16(element):
    """HDF5's type with the fields of a bfloat16."""
    named = (h5py.h5t.IEEE_F16BE if element.big_endian else h5py.h5t.IEEE_F16LE).copy()
    named.set_fields(15, 7, 8, 0, 7)
    named.set_ebias(127)
    return h5py.Datatype(named)


def read_by_both(dataset, stream, name):
    """Has both readers read a stream in place of a dataset's only chunk. Both must read equal bytes, or refuse it. Whether they read it."""
    decoded = plugins = error = plugin_error = None
    try:
        decoded = decode(stream, dataset.limit)
    except StreamError as refusal:
        error = refusal
    dataset.id.write_direct_chunk((0,) * dataset.ndim, stream)
    try:
        plugins = dataset.read().tobytes()
    except OSError as refusal:
        plugin_error = refusal
    COUNTS[f"streams {'refused' if plugins is None else 'read'} by both readers"] += 1
    # Section 10: the plugin refuses a stream whose length, value type or byte order is not the dataset's. The decoder does not know the dataset.
    of_another = decoded is not None and (len(decoded) != dataset.limit or stream[8] != dataset.element.value_type)
    if not (of_another and plugins is None):
        assert decoded == plugins, f"{name}: decoder {error or 'reads'}; plugin {plugin_error or 'reads'}"
    return plugins is not None


def verdict(dataset, stream, name, good):
    """Has both readers read a stream, to equal bytes if it is good, or refuse it."""
    assert read_by_both(dataset, stream, name) == good, f"{name}: {'refused' if good else 'read'} by both"


def check_grid(dataset, name, good, planes, half_step=1.0, ones=0, offset=None, limits=None):
    """`verdict` on a body with a grid, in a stream of the dataset's type and extents."""
    grid = f"half step {half_step!r}, offset {offset}, limits {limits}, {ones} exceptions"
    stream = with_grid(planes, dataset.shape, dataset.element, half_step, ones, offset, limits)
    verdict(dataset, stream, f"{dataset.element} {dataset.shape}, {grid}: {name}", good)
