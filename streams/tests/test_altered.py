"""Streams that no encoder writes: altered streams with right checksums, and random streams. Both readers must agree on them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from craft import EVERY_TYPE, Element, fresh_checksum, with_bit
from decoder import StreamError
from decoder.header import DECIMAL, LOGARITHMIC, QUANTIZED, STEPS
from decoder.planes import BIT_PLANES
from encoder import Parts
from modes import ABSOLUTE, BITS, CODINGS, LOSSLESS, POINTWISE
from random_streams import RandomStreams, extents_of
from readers import TYPES, read_by_both, verdict, words_of
from sampling import is_full, one_in
from values import field, shaped


def test_random_streams(plugin):
    """Both readers must read random streams. They must agree on random streams with a bit changed, or with too many words."""
    rng = np.random.default_rng(4)
    fitting = [(element, coding) for element in map(Element, EVERY_TYPE) for coding in element.codings]
    bodies = itertools.cycle(fitting)
    seen = Counter()
    for turn in range(2000 if is_full() else 700):
        streams = RandomStreams(rng)
        element, coding = next(bodies) if turn % 2 else (Element(TYPES[turn // 2 % 4]), QUANTIZED)
        shape = extents_of(element, rng)
        name = f"random {turn} {element} {shape}, coding {coding}"
        dataset = plugin.dataset(shape, element)
        stream = streams.any_stream(shape, element, coding)
        verdict(dataset, stream, name, True)
        seen.update(kinds_of(stream, element, coding))
        if dataset.size > 1000:
            continue
        for bit in rng.integers(8 * 10, 8 * len(stream), 5):
            read_by_both(dataset, fresh_checksum(with_bit(stream, int(bit))), f"{name}, bit {bit}")
        streams.loose = 0.5
        for _ in range(3):
            try:
                stream = streams.any_stream(shape, element, coding)
            except StreamError:  # a mask with too many words, whose ones cannot be counted
                continue
            read_by_both(dataset, stream, f"{name}, loose")
    mixtures = {("planes", *mixture[:length]) for mixture in itertools.product((False, True), repeat=4) for length in (2, 4)}
    limited = {("limits", name, interpolated) for name, interpolated in itertools.product(TYPES, (False, True))}
    codings = {("coding", element.name, coding) for element, coding in fitting}
    exceptions = {*itertools.product((QUANTIZED, STEPS, LOGARITHMIC, DECIMAL), ("none", "few", "many"))}
    missing = (mixtures | limited | codings | exceptions) - set(seen)
    assert not missing, f"no random streams of {missing}"


def kinds_of(stream, element, coding):
    """What a stream is an example of: test_random_streams must have examples of all."""
    yield "coding", element.name, coding
    if coding < QUANTIZED:
        return
    parts = Parts(stream)
    yield coding, "many" if len(parts.planes) > 1 else "few" if parts.ones else "none"
    if coding == QUANTIZED:
        # Whether the plane of values is interpolated, and which planes are bit planes.
        yield "planes", parts.interpolated, *(plane.book == BIT_PLANES for plane in parts.planes)
        if parts.grid.limits is not None:
            yield "limits", element.name, parts.interpolated


def test_altered_streams(plugin):
    """Both readers must agree on all alterations of small streams."""
    rng = np.random.default_rng(3)
    for name, values, words in one_in("streams to alter", 3, small_streams(rng)):
        dataset = plugin.dataset(values.shape, Element(values.dtype.str), words)
        (stream,) = dataset.write(values)
        for what, altered in alterations(stream, rng, 1.0 if is_full() else 0.15):
            if altered != stream:
                read_by_both(dataset, altered, f"{name}, words {words}, {what}")


def alterations(stream, rng, part):
    """Alterations of a stream: other bits, bytes cut off, more bytes, other bytes, and a wrong checksum. All other checksums are right."""
    for bit in range(len(stream) * 8):
        if bit // 8 not in range(4, 8) and (bit < 8 * 80 or rng.random() < part):
            yield f"bit {bit}", fresh_checksum(with_bit(stream, bit))
    for end in range(1, len(stream)):  # HDF5 has no chunks of 0 bytes
        if end < 60 or end > len(stream) - 8 or rng.random() < part:
            yield f"end {end}", fresh_checksum(stream[:end])
    for more in (b"\0", b"\0\0", b"\0\0\0\0", b"\1\2\3\4"):
        yield f"{len(more)} more", fresh_checksum(stream + more)
    for byte in range(8, min(len(stream), 80)):
        for value in (0, 1, 11, 12, 16, 17, 32, 33, 64, 65, 74, 75, 127, 128, 254, 255):
            yield f"byte {byte} = {value}", fresh_checksum(stream[:byte] + bytes([value]) + stream[byte + 1 :])
    yield "checksum", with_bit(stream, 32)


def small_streams(rng):
    """Streams to alter: a name, values, and the dataset's words."""

    def bound(number, coding=0):
        return words_of(ABSOLUTE, number, coding=coding)

    yield "constant", np.full((3, 4), 1.5, "<f4"), bound(1e-3)
    yield "stored", field("random bits", (5,), ">f8", 1e-3, rng), bound(1e-3)
    yield "lattice f4", np.round(np.linspace(0, 5, 24 * 9)).reshape(24, 9).astype("<f4"), bound(0.5)
    zeros = np.zeros(2100, "<f4")
    zeros[[5, 99, 2060]] = 3, np.inf, 7
    waves = 100 + 90 * np.sin(np.arange(200) / 9.0)
    holes = np.where(rng.random(200) < 0.1, 0, waves)
    for coding in CODINGS:
        yield "smooth f4", field("smooth", (3, 4, 5, 6), "<f4", 1e-3, rng), bound(1e-3, coding)
        yield "smooth f8", field("smooth", (40, 8), ">f8", 1e-5, rng), bound(1e-5, coding)
        yield "specials f4", field("specials", (9, 25), ">f4", 1e-2, rng), bound(1e-2, coding)
        yield "specials f8", field("specials", (200,), "<f8", 1e-2, rng), bound(1e-2, coding)
        yield "two blocks", zeros, bound(1e-3, coding)
        yield "pairs c8", shaped("waves", (6, 20), "<f4", 1e-2, rng).view("<c8"), bound(1e-2, coding)
        yield "pairs c16", np.where(holes, holes, np.nan).astype(">f8").view(">c16"), words_of(POINTWISE, 1e-2, coding=coding)
        yield "exact u2", waves.astype(">u2"), words_of(LOSSLESS, coding=coding)
        yield "steps i8", waves.astype("<i8"), bound(2.0, coding)
        yield "logarithms f2", waves.astype("<f2"), words_of(POINTWISE, 1e-2, coding=coding)
        yield "logarithms f8", np.where(holes, holes, np.nan).astype(">f8"), words_of(POINTWISE, 1e-3, coding=coding)
    yield "custom book", rng.choice([0.0, 9.0, 70.0], 1500, p=[0.5, 0.3, 0.2]).astype("<f4"), bound(0.5)
    for coding in CODINGS:
        yield "steps", np.tile(np.repeat([0.0, 1.0, 3.0], 7), 150).astype("<f8"), bound(0.4, coding)
    yield "waves f4", shaped("waves", (16, 17), "<f4", 1e-2, rng), bound(1e-2)
    yield "holes f8", shaped("holes", (8, 9, 10), ">f8", 1e-2, rng), bound(1e-2)
    yield "holes f4", shaped("holes", (8, 9, 10), "<f4", 1e-2, rng), bound(1e-2, BITS)
