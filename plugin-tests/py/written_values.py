"""What the plugin makes of values: quire_decoder.py reads the same from its chunks, and FORMAT.md asks an encoder for them."""

import itertools
import time

import numpy as np

from encoder_rules import check_encoder
from matrix_values import bits_of, fill_bits
from mode_rules import ABSOLUTE, Request
from stream_check import FILL, decode_or_error, words_of
from stream_craft import Element


def check_dataset(plugin, tally, values, chunks, bound, name, coding=0):
    """Writes values with an absolute bound, and decodes each chunk; gives the streams."""
    element = Element(values.dtype.str)
    request = Request(ABSOLUTE, (bound,), coding, fill_bits(element, FILL))
    return check_values(plugin, tally, element, values, chunks, request, FILL, f"{name}, coding {coding}")[0]


def check_values(plugin, tally, element, values, chunks, request, fill, name):
    """Writes values, and decodes each chunk; gives the streams, and what the plugin reads."""
    dataset = plugin.dataset(values.shape, chunks, element, words_of(request.mode, *request.numbers, coding=request.coding), fill)
    dataset.write(values)
    read = dataset.read()
    streams = []
    for offset in itertools.product(*(range(0, n, c) for n, c in zip(values.shape, chunks))):
        stream = plugin.raw(dataset, offset)
        streams.append(stream)
        tally.chunks += 1
        tally.codings[stream[9] & 15] += 1
        start = time.perf_counter()
        limit = int(np.prod(chunks)) * element.width
        got, error = decode_or_error(stream, limit)
        tally.slowest = max(tally.slowest, (time.perf_counter() - start, name))
        if got is None or len(got) != limit:
            tally.disagree(f"{name} chunk {offset}: {error or len(got)}")
            continue
        inside = tuple(slice(0, min(c, n - o)) for n, c, o in zip(values.shape, chunks, offset))
        there = tuple(slice(o, o + c) for o, c in zip(offset, chunks))
        mine = bits_of(np.frombuffer(got, element.dtype).reshape(chunks)[inside])
        plugins = bits_of(read[there])
        if not np.array_equal(mine, plugins):
            tally.disagree(f"{name} chunk {offset}: {int((mine != plugins).sum())} other values")
        elif plugins.shape == tuple(chunks):
            check_encoder(tally, stream, bits_of(values[there]), request, f"{name} chunk {offset}")
    return streams, read
