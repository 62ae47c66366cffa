"""Shared by decoder_matrix.py and the modules beside it: the plugin and quire_decoder.py on the same streams, and what came of it."""

import struct
from collections import Counter

import h5py
import numpy as np

from quire_decoder import BFLOAT, PAIR, StreamError, decode

FILTER = 33791
FILL = 7.25
TYPES = ("<f4", ">f4", "<f8", ">f8")


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
        """All values."""
        values = np.ascontiguousarray(values).reshape(self.shape)
        assert values.dtype == self.element.dtype
        self.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, self.id.get_type())


class Plugin:
    """One file in memory, in which datasets of one chunk or more are made, read and altered."""

    def __init__(self):
        self.file = h5py.File("decoder_matrix", "w", driver="core", backing_store=False, rdcc_nbytes=0)  # no cache
        self.number = 0

    def dataset(self, shape, chunks, element, words, fill=0.0):
        """A new dataset with the filter; section 10 has its words."""
        self.number += 1
        dtype = bfloat16(element) if element.kind == BFLOAT else element.dtype
        # HDF5 makes no complex number of a real one.
        fill = np.array(fill, element.dtype) if element.kind == PAIR else fill
        options = {"chunks": chunks, "compression": FILTER, "compression_opts": words, "fillvalue": fill}
        return Target(self.file.create_dataset(f"d{self.number}", shape, dtype, **options).id, element)

    def raw(self, dataset, offset):
        """A chunk's stream; it must have gone through the filter."""
        mask, stream = dataset.id.read_direct_chunk(offset)
        assert mask == 0, f"filter mask {mask}"
        return stream


def bfloat16(element):
    """HDF5's type with the fields of a bfloat16."""
    named = (h5py.h5t.IEEE_F16BE if element.big_endian else h5py.h5t.IEEE_F16LE).copy()
    named.set_fields(15, 7, 8, 0, 7)
    named.set_ebias(127)
    return h5py.Datatype(named)


class Tally:
    """Counts and disagreements."""

    def __init__(self):
        self.chunks = self.altered = self.refused = self.disagreements = 0
        self.crafted = 0
        self.mixtures = Counter()  # of crafted streams, by whether they are interpolated, and which planes are bit planes
        self.bodies = Counter()  # of crafted streams, by coding, value type, and whether there are no exceptions, few or many
        self.limited = Counter()  # of crafted streams with limits, by value type and whether they are interpolated
        self.codings = Counter()  # of chunks
        self.encoded = Counter()  # of chunks that were encoded once more here, by coding, type, and whether there are exceptions
        self.kept = self.escapes = 0
        self.modes = Counter()  # of planes of bits, by which plane of the chunk, bytes of a value, and mode
        self.predictors = Counter()  # of chunks on a grid of differences, by rank, type, predictor, and whether there are exceptions
        self.slowest = (0.0, "")

    def disagree(self, text):
        self.disagreements += 1
        if self.disagreements <= 40:
            print("DISAGREE", text, flush=True)


def read_or_error(dataset):
    """What the plugin makes of a dataset: bytes, or the error."""
    try:
        return dataset.read().tobytes(), None
    except OSError as error:
        return None, str(error)


def decode_or_error(stream, limit):
    """What the decoder in Python makes of it. Any exception but StreamError goes through to the top."""
    try:
        return decode(stream, limit), None
    except StreamError as error:
        return None, str(error)


def check_stream(dataset, tally, stream, name):
    """Both readers on one stream for a dataset of one chunk: equal bytes, or refused by both."""
    got, error = decode_or_error(stream, dataset.limit)
    dataset.id.write_direct_chunk((0,) * dataset.ndim, stream)
    plugins, plugin_error = read_or_error(dataset)
    tally.refused += plugins is None
    if plugins is None and got is not None and len(stream) > 6:
        # Section 10: the stream must agree with the dataset in length, value type and byte order.
        if len(got) != dataset.limit or stream[8] != dataset.element.value_type:
            return
    if got != plugins:
        tally.disagree(f"{name}: decoder {error or 'reads'}; plugin {plugin_error or 'reads'}")


def read_by_both(dataset, tally, stream, name):
    """A stream that both readers must read, to equal bytes; returns whether they did."""
    refused, disagreements = tally.refused, tally.disagreements
    check_stream(dataset, tally, stream, name)
    if tally.disagreements == disagreements and tally.refused != refused:
        tally.disagree(f"{name}: refused by both")
    return tally.disagreements == disagreements


def verdict(dataset, tally, stream, name, good):
    """A stream at the edge of a rule, which both readers must read, or both refuse."""
    tally.altered += 1
    refused, disagreements = tally.refused, tally.disagreements
    check_stream(dataset, tally, stream, name)
    if tally.disagreements == disagreements and (tally.refused == refused) != good:
        tally.disagree(f"{name}: {'refused' if good else 'read'} by both")
