"""Shared by decoder_matrix.py and the modules beside it: the plugin and quire_decoder.py on the same streams, and what came of it."""

import struct
from collections import Counter

import h5py

from quire_decoder import StreamError, decode

FILTER = 33791
FILL = 7.25
TYPES = ("<f4", ">f4", "<f8", ">f8")


class Plugin:
    """One file in memory, in which datasets of one chunk or more are made, read and altered."""

    def __init__(self):
        self.file = h5py.File("decoder_matrix", "w", driver="core", backing_store=False, rdcc_nbytes=0)  # no cache
        self.number = 0

    def dataset(self, shape, chunks, dtype, bound, fill=0.0, coding=0):
        """A new dataset with the filter; section 10 has the codings."""
        self.number += 1
        words = struct.unpack("<III", struct.pack("<Id", 1 + 256 * coding, bound))
        return self.file.create_dataset(
            f"d{self.number}", shape, dtype, chunks=chunks, compression=FILTER, compression_opts=words, fillvalue=fill
        )

    def raw(self, dataset, offset):
        """A chunk's stream; it must have gone through the filter."""
        mask, stream = dataset.id.read_direct_chunk(offset)
        assert mask == 0, f"filter mask {mask}"
        return stream


class Tally:
    """Counts and disagreements."""

    def __init__(self):
        self.chunks = self.altered = self.refused = self.disagreements = 0
        self.crafted = 0
        self.mixtures = Counter()  # of crafted streams, by whether they are interpolated, and which planes are bit planes
        self.codings = [0, 0, 0]
        self.kept = self.escapes = 0
        self.modes = Counter()  # of planes of bits, by which plane of the chunk, bytes of a value, and mode
        self.predictors = Counter()  # of chunks, by rank, type, predictor, and whether there are exceptions
        self.slowest = (0.0, "")

    def disagree(self, text):
        self.disagreements += 1
        if self.disagreements <= 40:
            print("DISAGREE", text, flush=True)


def read_chunk(dataset, offset, dtype):
    """What the plugin makes of a chunk that lies within the dataset: bytes, or the error."""
    part = tuple(slice(o, o + c) for o, c in zip(offset, dataset.chunks))
    try:
        return dataset[part].astype(dtype, copy=False).tobytes(), None
    except OSError as error:
        return None, str(error)


def decode_or_error(stream, limit):
    """What the decoder in Python makes of it. Any exception but StreamError goes through to the top."""
    try:
        return decode(stream, limit), None
    except StreamError as error:
        return None, str(error)


def check_stream(dataset, tally, stream, name):
    """Both readers on one stream for a dataset of one chunk: the same bytes, or refused by both."""
    zero = (0,) * dataset.ndim
    limit = dataset.size * dataset.dtype.itemsize
    got, error = decode_or_error(stream, limit)
    dataset.id.write_direct_chunk(zero, stream)
    plugins, plugin_error = read_chunk(dataset, zero, dataset.dtype)
    tally.refused += plugins is None
    if plugins is None and got is not None and len(stream) > 6:
        # Section 10: the stream must agree with the dataset in length, value type and byte order.
        value_type = (dataset.dtype.itemsize == 8) + (0x80 if dataset.dtype.byteorder == ">" else 0)
        if len(got) != limit or stream[6] != value_type:
            return
    if got != plugins:
        tally.disagree(f"{name}: decoder {error or 'reads'}; plugin {plugin_error or 'reads'}")


def read_by_both(dataset, tally, stream, name):
    """A stream that both readers must read, to the same bytes; whether they did."""
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
