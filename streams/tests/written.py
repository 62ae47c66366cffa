"""Chunks that the plugin writes: the decoder reads what the plugin reads, and the chunks are what FORMAT.md asks of an encoder."""

from __future__ import annotations

import numpy as np

from craft import Element
from decoder import decode
from encoder import check_encoder
from modes import ABSOLUTE, Request
from readers import COUNTS, words_of
from values import FILL, bits_of, fill_bits

NAMES = ("stored", "constant", "quantized", "exact", "steps", "logarithmic", "decimal")  # section 2's codings


def check_bound(plugin, seen, values, bound, name, coding=0, chunks=None):
    """Writes values with an absolute bound, and checks each chunk. The streams."""
    element = Element(values.dtype.str)
    request = Request(ABSOLUTE, (bound,), coding, fill_bits(element, FILL))
    return check_values(plugin, seen, element, values, request, FILL, f"{name}, coding {coding}", chunks)[0]


def check_values(plugin, seen, element, values, request, fill, name, chunks=None):
    """Writes values, and checks each chunk. The streams, and the values that the plugin reads."""
    dataset = plugin.dataset(values.shape, element, words_of(request.mode, *request.numbers, coding=request.coding), chunks, fill)
    streams = dataset.write(values)
    read = dataset.read()
    for corner, stream in zip(dataset.corners(), streams):
        COUNTS[f"{NAMES[stream[9] & 15]} chunks written"] += 1
        there = tuple(slice(at, at + extent) for at, extent in zip(corner, dataset.chunks))
        visible = read[there]
        decoded = np.frombuffer(decode(stream), element.dtype).reshape(dataset.chunks)[tuple(map(slice, visible.shape))]
        other = bits_of(decoded) != bits_of(visible)
        assert not other.any(), f"{name}, chunk {corner}: the plugin reads {other.sum()} other values than the decoder"
        if visible.shape == dataset.chunks:
            check_encoder(seen, stream, bits_of(values[there]), request, f"{name}, chunk {corner}")
    return streams, read
