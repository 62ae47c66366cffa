"""Streams that no encoder has written: altered ones with right checksums, and crafted ones. Both readers must agree on them."""

import itertools

import numpy as np

from encoder_rules import Parts
from matrix_values import field, shaped
from mode_rules import ABSOLUTE, BITS, CODINGS, LOSSLESS, POINTWISE
from quire_decoder import BIT_PLANES, DECIMAL, LOGARITHMIC, QUANTIZED, STEPS, StreamError
from stream_check import TYPES, check_stream, read_by_both, words_of
from stream_craft import EVERY_TYPE, Craft, Element, fresh_checksum


def alterations(stream, rng, part):
    """Altered streams with right checksums: bits, ends, more bytes."""
    for bit in range(len(stream) * 8):
        if bit // 8 in range(4, 8) or not (bit < 8 * 80 or rng.random() < part):
            continue
        altered = bytearray(stream)
        altered[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", fresh_checksum(bytes(altered))
    for end in range(1, len(stream)):  # HDF5 has no chunks of 0 bytes
        if end < 60 or end > len(stream) - 8 or rng.random() < part:
            yield f"end {end}", fresh_checksum(stream[:end])
    for more in (b"\0", b"\0\0", b"\0\0\0\0", b"\1\2\3\4"):
        yield f"{len(more)} more", fresh_checksum(stream + more)
    for byte in range(8, min(len(stream), 80)):
        for value in (0, 1, 11, 12, 16, 17, 32, 33, 64, 65, 74, 75, 127, 128, 254, 255):
            altered = bytearray(stream)
            altered[byte] = value
            if bytes(altered) != stream:
                yield f"byte {byte} = {value}", fresh_checksum(bytes(altered))
    yield "checksum", stream[:4] + bytes([stream[4] ^ 1]) + stream[5:]


def check_altered(plugin, tally, values, words, name, rng, part):
    """Both readers on alterations of a small stream."""
    dataset = plugin.dataset(values.shape, values.shape, Element(values.dtype.str), words)
    dataset.write(values)
    stream = plugin.raw(dataset, (0,) * values.ndim)
    for what, altered in alterations(stream, rng, part):
        if altered != stream:
            tally.altered += 1
            check_stream(dataset, tally, altered, f"{name}, {what}")
    return len(stream)


def crafted(plugin, tally, rng, number):
    """Streams by Craft, which both must read; and what becomes of them with words too many or other bits."""
    shapes = ((1,), (33,), (700,), (5000,), (70000,), (9, 13), (2, 600), (600, 2), (5, 6, 7), (1, 9, 1), (3, 4, 5, 6))
    fitting = [(element, coding) for element in map(Element, EVERY_TYPE) for coding in element.codings]
    bodies_of = itertools.cycle(fitting)
    for turn in range(number):
        craft = Craft(rng)
        shape = shapes[int(rng.integers(len(shapes)))]
        if shape == (70000,) and rng.random() < 0.8:
            continue
        element, coding = next(bodies_of) if turn % 2 else (Element(TYPES[turn // 2 % 4]), QUANTIZED)
        name = f"crafted {turn} {element} {shape}, coding {coding}"
        dataset = plugin.dataset(shape, shape, element, words_of(LOSSLESS))
        stream = craft.any_stream(shape, element, coding)
        tally.crafted += 1
        if not read_by_both(dataset, tally, stream, name):
            continue
        has = "none"
        if coding >= QUANTIZED:
            parts = Parts(stream)
            has = "many" if len(parts.planes) > 1 else "few" if parts.ones else "none"
            if coding == QUANTIZED:
                tally.mixtures[(parts.interpolated, *(plane.book == BIT_PLANES for plane in parts.planes))] += 1
                tally.limited[element.name, parts.interpolated] += parts.grid.limits is not None
        tally.bodies[element.name, coding] += 1
        tally.bodies[coding, has] += 1
        if dataset.size > 1000:
            continue
        for at in rng.integers(8 * 10, 8 * len(stream), 5):
            altered = bytearray(stream)
            altered[at // 8] ^= 1 << at % 8
            tally.altered += 1
            check_stream(dataset, tally, fresh_checksum(bytes(altered)), f"{name}, bit {at}")
        craft.loose = 0.5
        for _ in range(3):
            tally.altered += 1
            try:
                stream = craft.any_stream(shape, element, coding)
            except StreamError:  # a loose mask, which has no count of ones
                continue
            check_stream(dataset, tally, stream, f"{name}, loose")
    for mixture in itertools.product((False, True), repeat=4):
        if not tally.mixtures[mixture] or not tally.mixtures[mixture[:2]]:
            tally.disagree(f"no crafted stream of interpolation and bit planes for values, mask, exceptions: {mixture}")
    for name, interpolated in itertools.product(TYPES, (False, True)):
        if not tally.limited[name, interpolated]:
            tally.disagree(f"no crafted stream of {name} with limits, interpolated: {interpolated}")
    for element, coding in fitting:
        if not tally.bodies[element.name, coding]:
            tally.disagree(f"no crafted stream of {element}, coding {coding}")
    for coding, has in itertools.product((QUANTIZED, STEPS, LOGARITHMIC, DECIMAL), ("none", "few", "many")):
        if not tally.bodies[coding, has]:
            tally.disagree(f"no crafted stream of coding {coding} with {has} exceptions")


def small_streams(rng):
    """What gets altered: a name, values, and the words of the dataset."""
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
