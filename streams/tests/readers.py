"""Two readers on the same streams: the decoder in Python, and the plugin through h5py."""

from __future__ import annotations

import itertools
import struct
from collections import Counter

import h5py
import numpy as np

from decoder import StreamError, decode
from decoder.header import BFLOAT, PAIR

FILTER = 33791
TYPES = ("<f4", ">f4", "<f8", ">f8")
COUNTS: Counter[str] = Counter()  # what the run ends with


def words_of(mode, *numbers, coding=0):
    """Section 10's words of a mode of bits, with its numbers."""
    return (mode + 256 * coding, *struct.unpack(f"<{2 * len(numbers)}I", struct.pack(f"<{len(numbers)}d", *numbers)))


class Target(h5py.Dataset):
    """A dataset with the filter, which is read and written as a whole and without conversions: numpy has no bfloat16."""

    def __init__(self, bind, element):
        super().__init__(bind)
        self.element = element

    @property
    def limit(self):
        """The length of all values."""
        return self.size * self.element.dtype.itemsize

    def read(self):
        """All values; those of bfloat16 as their bits."""
        values = np.empty(self.shape, self.element.dtype)
        self.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, self.id.get_type())
        return values

    def write(self, values):
        """All values. The streams of its chunks, in their order."""
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
        """A new dataset with the filter, of one chunk if nothing else is said; section 10 has its words."""
        dtype = bfloat16(element) if element.kind == BFLOAT else element.dtype
        # HDF5 makes no complex number of a real one.
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
    """Both readers on one stream for a dataset of one chunk: equal bytes, or refused by both. Whether they read it."""
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
    # Section 10: the stream must agree with the dataset in length, value type and byte order, of which the decoder knows nothing.
    of_another = decoded is not None and (len(decoded) != dataset.limit or stream[8] != dataset.element.value_type)
    if not (of_another and plugins is None):
        assert decoded == plugins, f"{name}: decoder {error or 'reads'}; plugin {plugin_error or 'reads'}"
    return plugins is not None


def verdict(dataset, stream, name, good):
    """A stream which both readers must read, to equal bytes, or which both must refuse."""
    assert read_by_both(dataset, stream, name) == good, f"{name}: {'refused' if good else 'read'} by both"
