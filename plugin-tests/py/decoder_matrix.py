#!/usr/bin/env python3
"""The plugin against quire_decoder.py, which was written from FORMAT.md alone: the same bytes from the plugin's streams,
the same verdict on altered ones and on crafted ones that the plugin would not write. What the encoder makes of values is held
against FORMAT.md as well.

    HDF5_PLUGIN_PATH=<dir of libh5zquire.so> python3 decoder_matrix.py [--all]

Exits 1 after a disagreement. The matrix of section 10's modes and the streams to alter are sampled, see sampling.py; all else is the same in each run,
and the whole with QUIRE_FULL_MATRIX=1. --all takes every bound for every field, alters every bit of every small stream,
crafts more, and looks at the least numbers of binary64. This file has the values, and alters streams; stream_craft.py makes others,
stream_edges.py and bit_plane_edges.py those at the edges of single rules, encoder_rules.py knows what an encoder must write and what
modes promise, and stream_check.py asks both readers.
"""

import argparse
import itertools
import sys
import time
from collections import Counter

import numpy as np

from bit_plane_edges import bit_plane_edges
from encoder_rules import (
    ABSOLUTE, LOSSLESS, POINTWISE, PSNR, RATIO, RATIO_WITHIN, RELATIVE, Parts, Request, check_encoder, check_promise, in_binary64,
)  # fmt: skip
from quire_decoder import (
    BFLOAT, BIT_PLANES, CONSTANT, DECIMAL, DENSE, EMPTY, EXACT, LOGARITHMIC, QUANTIZED, SPARSE, STEPS, STORED, StreamError, decode,
    read_header, rounded,
)  # fmt: skip
from sampling import one_in, said, sample
from stream_check import FILL, TYPES, Plugin, Tally, check_stream, decode_or_error, read_by_both, words_of
from stream_craft import EVERY_TYPE, Craft, Element, fresh_checksum
from stream_edges import bodies, decimals, edges, exact, lists, logarithms, predictors, rules, steps

NAMES = ("stored", "constant", "quantized", "exact", "steps", "logarithmic", "decimal")  # section 2's codings
HUFFMAN, BITS = 1, 2  # section 10's codings
CODINGS = (0, BITS)
FIELDS = ("smooth", "noisy", "zeros", "lattice", "specials", "constant", "random bits", "dynamic")
SHAPED = ("waves", "holes", "walk", "ramp")
BOUNDS = (1e-12, 1e-6, 1e-3, 0.5, 10.0)
SHAPES = (
    (1,), (2,), (31,), (33,), (2047,), (2048,), (2049,), (5000,),
    (1, 1), (2, 31), (33, 2), (50, 100), (1, 2049), (2049, 1),
    (2, 3, 5), (17, 16, 15), (1, 40, 1), (16, 16, 16),
    (2, 3, 4, 5), (7, 6, 5, 11), (1, 2, 1, 3), (3, 1, 1, 700),
    (2, 3, 2, 3, 2), (1, 2, 3, 4, 5), (4, 3, 5, 7, 6), (1, 1, 1, 1, 1),
)  # fmt: skip
# Shapes for predictors to choose by: even, odd, powers of two and one beside them, and extents of 1.
GRIDS = (
    (64,), (65,), (127,), (3000,),
    (16, 17), (64, 48), (1, 300), (300, 1), (33, 40), (5, 129),
    (8, 9, 10), (16, 16, 16), (17, 18, 33), (1, 40, 30), (12, 1, 50), (3, 33, 34),
    (8, 9, 10, 11), (5, 6, 7, 8), (1, 12, 13, 14), (2, 16, 1, 33), (9, 8, 1, 8), (2, 3, 9, 10, 11),
)  # fmt: skip
# Types, contents and the chunk of the matrix of section 10's modes.
MODES_TYPES = ("<f2", ">f4", "<f8", "<bfloat16", ">bfloat16", "i1", "u1", ">i2", "u2", "<i4", ">u4", "i8", "u8")
CONTENTS = ("smooth", "noise", "specials", "filled", "decimals")
CHUNK = (11, 17, 16)
MOST_REQUESTS = 11  # of a floating-point type, see requests()


def field(kind, shape, dtype, bound, rng):
    """Values of one kind."""
    count = int(np.prod(shape))
    native = np.dtype(dtype).newbyteorder("=")
    at = np.arange(count)
    if kind == "smooth":
        values = 3 * np.sin(at / 37.0) + np.cos(at / 501.0)
    elif kind == "noisy":
        values = rng.normal(0, 40 * bound, count) + np.sin(at / 90.0)
    elif kind == "zeros":
        values = np.where(rng.random(count) < 0.01, rng.normal(0, 5, count), 0.0)
    elif kind == "lattice":
        values = rng.integers(-50, 50, count) * 1.0
    elif kind == "specials":
        values = np.sin(at / 37.0)
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e35, -1e35, 1e-40, 5e-324, 3.4e38])
        with np.errstate(over="ignore"):
            values = values.astype(native)
            some = rng.random(count) < 0.05
            values[some] = rng.choice(special, int(some.sum())).astype(native)
        values[count // 3 : count // 2] = 1e35
        bits = values.view(f"u{native.itemsize}")
        bits[:: max(1, count // 7)] = int("7fa12345" if native.itemsize == 4 else "7ff4123456789abc", 16)  # signalling
    elif kind == "constant":
        values = np.full(count, -1.2345)
    elif kind == "random bits":
        values = np.frombuffer(rng.bytes(count * native.itemsize), native)
    else:
        top = 37 if native.itemsize == 4 else 300
        values = 10.0 ** rng.uniform(-top, top, count) * rng.choice([-1, 1], count)
    return np.asarray(values).astype(dtype).reshape(shape)


def shaped(kind, shape, dtype, bound, rng):
    """Values that a predictor suits: all of a size that the bound is coarse for."""
    native = np.dtype(dtype).newbyteorder("=")
    at = np.indices(shape)
    slopes = rng.uniform(0.1, 0.4, len(shape)).reshape(-1, *[1] * len(shape))
    if kind == "walk":
        values = np.cumsum(rng.normal(0, 20 * bound, shape), int(rng.integers(len(shape))))
    elif kind == "ramp":
        values = 3.7 * bound * (at * slopes * 30).sum(0)
    else:
        values = 50 * bound * np.sin((at * slopes).sum(0) + rng.uniform(0, 6))
    values = values.astype(native)
    if kind == "holes":
        flat = values.reshape(-1)
        flat[rng.random(flat.size) < 0.01] += native.type(3000 * bound)  # out of reach for binary32
        flat[rng.random(flat.size) < 0.01] += native.type(1e7 * bound)  # and for both
        some = rng.random(flat.size) < 0.02
        flat[some] = rng.choice(np.array([np.nan, np.inf, -np.inf, FILL, 1e35, -0.0], native), int(some.sum()))
        flat.view(f"u{native.itemsize}")[:: max(1, flat.size // 7)] = int("7fa12345" if native.itemsize == 4 else "7ff4123456789abc", 16)
    return values.astype(dtype)


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


def bits_of(values):
    """The bits of values, as numbers of this machine."""
    unsigned = f"u{values.dtype.itemsize}"
    return np.ascontiguousarray(values).view(np.dtype(unsigned).newbyteorder(values.dtype.byteorder)).astype(unsigned)


def fill_bits(element, fill):
    """The bits of a fill value."""
    return int(bits_of(of_numbers(np.array([fill], float), element))[0])


def of_numbers(numbers, element):
    """Numbers of binary64 as values of a type, in memory."""
    if element.kind in "iu":
        info = np.iinfo(element.dtype)
        whole = [min(max(int(number), int(info.min)), int(info.max)) for number in np.rint(numbers).reshape(-1)]
        return np.array(whole, element.dtype).reshape(numbers.shape)
    return rounded(numbers, element).astype(f"u{element.width}").astype(bits_type(element)).view(element.dtype)


def bits_type(element):
    """The unsigned type of a value's bits in memory."""
    return np.dtype(f"{'>' if element.big_endian else '<'}u{element.width}")


def content(kind, shape, element, rng):
    """Values of any type: of a size that the bounds of requests() are coarse for."""
    scale = {1: 1, 2: 200, 4: 10**6, 8: 10**9}[element.width] if element.kind in "iu" else 1
    at = np.indices(shape)
    slopes = np.array([0.21, 0.13, 0.17]).reshape(-1, 1, 1, 1)
    waves = 50 * np.sin((at * slopes).sum(0)) + 12 * np.cos(0.4 * at[2])
    numbers = rng.normal(0, 20, shape) if kind == "noise" else waves.round(2 if element.width > 2 else 0) if kind == "decimals" else waves
    if element.kind == "u":
        numbers = numbers + 128
    values = of_numbers(scale * numbers, element)
    flat = values.reshape(-1)
    if kind == "filled":
        filled = (at[1] > 5) & (at[2] < 9) | (rng.random(shape) < 0.01)
        values[filled] = of_numbers(np.array([fill_of(element)], float), element)[0]
        flat[rng.random(flat.size) < 0.02] = of_numbers(np.array([0.0]), element)[0]
    elif kind == "specials":
        special = ends(element)
        some = rng.random(flat.size) < 0.04
        flat[some] = rng.choice(special, int(some.sum()))
        flat[: len(special)] = special
    return values


def ends(element):
    """The values at the ends of a type: of floating-point types NaNs, infinities, zeros and subnormal numbers, too."""
    top = 8 * element.width - 1
    if element.kind in "iu":
        bits = [0, 1, 2, (1 << top) - 2, (1 << top) - 1, 1 << top, (1 << top) + 1, (2 << top) - 2, (2 << top) - 1]
    else:
        mantissa = {"<bfloat16": 7, ">bfloat16": 7}.get(element.name, {2: 10, 4: 23, 8: 52}[element.width])
        infinity = (1 << top) - (1 << mantissa)
        bits = [0, 1, 2, 3, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, infinity - 1, infinity, infinity + 1]
        bits += [infinity + (1 << (mantissa - 1)), infinity + (1 << mantissa) - 1]
        bits += [one | 1 << top for one in bits]
    return np.array(bits, f"u{element.width}").astype(bits_type(element)).view(element.dtype)


def fill_of(element):
    """The fill value: far beyond other values where there is room, none that a bound's grid has by chance."""
    return 7 if element.width == 1 else -9999 if element.kind == "i" else 54321 if element.kind == "u" else -9984.0


def requests(element):
    """Modes of bits and their numbers; an absolute bound that is coarse for content() and one that is fine."""
    coarse, fine = 0.05, 1e-3
    if element.kind in "iu":
        coarse = 1.5 * {1: 2, 2: 200, 4: 10**6, 8: 10**9}[element.width]
        fine = 1.0
    yield LOSSLESS, ()
    yield ABSOLUTE, (coarse,)
    yield ABSOLUTE, (fine,)
    yield RELATIVE, (0.01,)
    yield RELATIVE, (2.5e-4,)
    if element.kind not in "iu":
        yield POINTWISE, (0.02,)
        yield POINTWISE, (1e-4,)
    yield PSNR, (45.0,)
    yield PSNR, (80.5,)
    yield RATIO, (5.5,)
    yield RATIO_WITHIN, (12.0, coarse)


def modes(plugin, tally, rng):
    """Section 10: every mode of bits, for all types of values in both codings, keeps what it promises; decimals give equal results."""
    chosen = {}
    for name, kind, number, coding in sample("modes", (MODES_TYPES, CONTENTS, range(MOST_REQUESTS), CODINGS), 3):
        if number < len(list(requests(Element(name)))):
            chosen.setdefault((name, kind), []).append((number, coding))
    for (name, kind), asked in chosen.items():
        element = Element(name)
        shape = (CHUNK[0] * (2 if kind in ("smooth", "filled") else 1), *CHUNK[1:])
        values = content(kind, shape, element, rng)
        values[CHUNK[0] :] = values[CHUNK[0] :][::-1, ::-1]
        fill = fill_of(element)
        of_element = list(requests(element))
        for (mode, numbers), coding in ((of_element[number], coding) for number, coding in asked):
            what = f"{kind} {element}, mode {mode} of {numbers}, coding {coding}"
            request = Request(mode, numbers, coding, fill_bits(element, fill))
            streams, read = check_values(plugin, tally, element, values, CHUNK, request, fill, what)
            for stream, at in zip(streams, range(0, shape[0], CHUNK[0])):
                there = slice(at, at + CHUNK[0])
                header, _ = read_header(stream)
                before, after = bits_of(values[there]), bits_of(read[there])
                check_promise(tally, request, header, before, after, len(stream), kind, f"{what}, chunk at {at}")
            check_kept(plugin, tally, element, values, request, fill, streams, what)
            if mode in (ABSOLUTE, POINTWISE) and all(stream[9] & 15 != QUANTIZED for stream in streams):
                _, again = check_values(plugin, tally, element, read, CHUNK, request, fill, f"{what}, again")
                if not np.array_equal(bits_of(again), bits_of(read)):
                    tally.disagree(f"{what}: {int((bits_of(again) != bits_of(read)).sum())} values moved when they were written again")


def any_bits(element, count, rng):
    """Values of any size, or of about one size, and some at the ends of their type."""
    floating = element.kind not in "iu"
    kind = int(rng.integers(5))
    if kind == 0:
        bits = np.frombuffer(rng.bytes(count * element.width), f"u{element.width}").copy()
    elif kind == 1:
        near = int.from_bytes(rng.bytes(element.width), "little")
        bits = np.array([(near + int(by)) % (1 << 8 * element.width) for by in rng.integers(-300, 300, count)], f"u{element.width}")
    else:
        numbers = rng.normal(0, 1, count) * 10.0 ** rng.uniform(-4, 6)
        if kind == 3:
            numbers = 10.0 ** rng.uniform(-30, 30, count) * rng.choice([-1, 1], count) if floating else np.cumsum(numbers)
        elif kind == 4:
            numbers = np.round(numbers) * 0.25
        bits = bits_of(of_numbers(numbers, element))
    if rng.random() < 0.5:
        some = rng.random(count) < rng.choice([0.001, 0.01, 0.2])
        bits[some] = rng.choice(bits_of(ends(element)), int(some.sum()))
    return bits


def not_encoded(tally):
    """Types and codings of which bounds() is to have chunks, with exceptions and without, and has none."""
    for element in map(Element, EVERY_TYPE):
        for coding in element.codings:
            there = [tally.encoded[coding, element.name, has] for has in (False, True)]
            if coding not in (STORED, CONSTANT) and (not any(there) or coding != EXACT and not there[True]):
                yield f"no chunk of {element}, coding {coding}, or none with exceptions"


def bounds(plugin, tally, rng, number):
    """Chunks of any values, shape and fill value, with bounds of any size: encoded as section 5 says, and kept as section 10 promises."""
    shapes = ((1,), (17,), (300,), (2100,), (9, 40), (5, 6, 7), (3, 4, 5, 6), (2, 1100))
    for turn in itertools.count():
        # Where the matrix of modes is sampled, it may take more chunks to have them all.
        if turn >= number and (turn == 4 * number or turn % 100 == 0 and not list(not_encoded(tally))):
            break
        element, shape = Element(EVERY_TYPE[turn % len(EVERY_TYPE)]), shapes[int(rng.integers(len(shapes)))]
        bits = any_bits(element, int(np.prod(shape)), rng)
        fill = int(rng.choice(bits)) if rng.random() < 0.6 else int.from_bytes(rng.bytes(element.width), "little")
        one = np.array([fill], f"u{element.width}")
        with np.errstate(all="ignore"):
            numbers = in_binary64(bits, element)
            if not np.isfinite(in_binary64(one, element)[0]):
                fill, one = 0, one * 0
            if rng.random() < 0.3:
                bits[rng.random(bits.size) < 0.1] = fill
            finite = numbers[np.isfinite(numbers)]
            size = float(np.median(np.abs(finite))) if finite.size else 0
        # The fill value as a number that h5py takes: HDF5 makes a bfloat16 of it.
        of_fill = in_binary64(one, element)[0] if element.kind == BFLOAT else one.astype(bits_type(element)).view(element.dtype)[0]
        bound = float(np.clip((size or 1) * 10.0 ** rng.uniform(-12, 2), 1e-300, 1e300))
        if element.kind in "iu":
            bound = float(rng.choice([bound, 0.7, 1, 2.5]))
        share, ratio = float(10.0 ** rng.uniform(-12, 0)), float(rng.uniform(1.2, 40))
        mode, asked = [
            (LOSSLESS, ()), (ABSOLUTE, (bound,)), (RELATIVE, (share,)), (POINTWISE, (float(10.0 ** rng.uniform(-8, -0.6)),)),
            (PSNR, (float(rng.uniform(5, 200)),)), (RATIO, (ratio,)), (RATIO_WITHIN, (ratio, bound)),
        ][int(rng.choice(7, p=[0.15, 0.25, 0.15, 0.3, 0.05, 0.05, 0.05]))]  # fmt: skip
        if mode == POINTWISE and POINTWISE not in {mode for mode, _ in requests(element)}:
            mode, asked = ABSOLUTE, (bound,)
        request = Request(mode, asked, int(rng.choice(CODINGS)), fill)
        values = bits.astype(bits_type(element)).view(element.dtype).reshape(shape)
        name = f"any {turn} {element} {shape}, fill value {fill:#x}, mode {mode} of {asked}, coding {request.coding}"
        (stream,), read = check_values(plugin, tally, element, values, shape, request, of_fill, name)
        header, _ = read_header(stream)
        check_promise(tally, request, header, bits, bits_of(read).reshape(-1), len(stream), "any", name)
        if mode in (LOSSLESS, ABSOLUTE, POINTWISE) and stream[9] & 15 != QUANTIZED:
            _, again = check_values(plugin, tally, element, read, shape, request, of_fill, f"{name}, again")
            if not np.array_equal(bits_of(again), bits_of(read)):
                tally.disagree(f"{name}: values moved when they were written again")
    for missing in not_encoded(tally):
        tally.disagree(missing)


def every_number(plugin, tally, rng):
    """Every number of 16 bits, and numbers of 32 bits in steps so small that the terms of logarithms count (sections 5.1, 5.5)."""
    shape = (1 << 13,)
    numbers = rng.uniform(1, 2, shape)
    cases = [(Element("<f4"), of_numbers(numbers, Element("<f4")), ((POINTWISE, 1.3e-7), (POINTWISE, 4e-7)))]
    asked = ((POINTWISE, 0.95), (POINTWISE, 0.6), (POINTWISE, 0.3), (POINTWISE, 4e-3), (ABSOLUTE, 1e-7), (ABSOLUTE, 0.03), (ABSOLUTE, 20.0))
    for name, magnitudes in itertools.product(("<f2", "<bfloat16"), np.arange(1 << 15).reshape(-1, shape[0] // 2)):
        # Both signs, so that rows change it; in order, so that chunks get smaller.
        bits = np.concatenate([magnitudes, magnitudes | 1 << 15]).astype("<u2")
        cases.append((Element(name), bits.view(Element(name).dtype), asked))
    for element, values, requested in cases:
        for mode, number in requested:
            request, name = Request(mode, (number,), 0, 0), f"every number of {element}, mode {mode} of {number}, from {values[0]!r} on"
            (stream,), read = check_values(plugin, tally, element, values, shape, request, 0, name)
            header, _ = read_header(stream)
            check_promise(tally, request, header, bits_of(values), bits_of(read), len(stream), "every", name)


def least_numbers(plugin, tally):
    """Section 5.5 where logarithms end: subnormal numbers of binary64 do not vanish, and 0 has the code 0."""
    element, shape = Element("<f8"), (40,)
    for share in (0.3, 0.5, 0.51, 0.6, 0.9, 0.99, 0.999999):
        values = 1 + np.arange(40) / 40
        values[:8] = 2.0**-1022, 0.0, -0.0, 5e-324, -5e-324, 1.5e-323, 2.0**-1022 - 5e-324, 0.0
        request = Request(POINTWISE, (share,), 0, 0)
        name = f"least numbers, mode {POINTWISE} of {share}"
        (stream,), read = check_values(plugin, tally, element, values, shape, request, 0, name)
        header, _ = read_header(stream)
        check_promise(tally, request, header, bits_of(values), bits_of(read), len(stream), "any", name)


def check_kept(plugin, tally, element, values, request, fill, streams, name):
    """Section 10: the words that the dataset keeps; and decimals, which keep equal words and give equal streams."""
    by_bits = words_of(request.mode, *request.numbers, coding=request.coding)
    own = [0x51010000 | element.value_type << 8 | 3, *CHUNK, request.fill & 0xFFFFFFFF, request.fill >> 32]
    expected = (*by_bits, *own[: 6 if element.width == 8 else 5])
    decimals = [word for number in request.numbers for word in decimal(number)]
    by_decimals = [request.mode + 1 + 256 * request.coding, *decimals] if decimals else [256 * request.coding]
    for words in (by_bits, by_decimals):
        dataset = plugin.dataset(values.shape, CHUNK, element, tuple(words), fill)
        kept = dataset.id.get_create_plist().get_filter(0)[2]
        if tuple(kept) != expected:
            tally.disagree(f"{name}: words {words} are kept as {kept}, by section 10 {expected}")
    dataset.write(values)
    if [plugin.raw(dataset, (at, 0, 0)) for at in range(0, values.shape[0], CHUNK[0])] != streams:
        tally.disagree(f"{name}: other streams by words {words}")


def decimal(number):
    """Section 10: a number's decimal, as its exponent and its mantissa."""
    for exponent in range(20):
        mantissa = round(number * 10**exponent)
        if float(f"{mantissa}e-{exponent}") == number:
            return exponent, mantissa
    raise AssertionError(number)


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
    for element, coding in fitting:
        if not tally.bodies[element.name, coding]:
            tally.disagree(f"no crafted stream of {element}, coding {coding}")
    for coding, has in itertools.product((QUANTIZED, STEPS, LOGARITHMIC, DECIMAL), ("none", "few", "many")):
        if not tally.bodies[coding, has]:
            tally.disagree(f"no crafted stream of coding {coding} with {has} exceptions")


def matrix(plugin, tally, rng, every_bound):
    """All kinds, types and shapes, in each coding, with all bounds or with bounds taken in turn."""
    turn = itertools.cycle((bound,) for bound in BOUNDS)
    cases = itertools.product(SHAPES, FIELDS, TYPES)
    for shape, kind, dtype, bound in (case + (b,) for case in cases for b in (BOUNDS if every_bound else next(turn))):
        values = field(kind, shape, dtype, bound, rng)
        name = f"{kind} {dtype} {shape} {bound}"
        streams = {coding: check_dataset(plugin, tally, values, shape, bound, name, coding) for coding in CODINGS}
        # Section 10: to this version, what promises the fewest bits is Huffman codes.
        huffman = plugin.dataset(shape, shape, Element(values.dtype.str), words_of(ABSOLUTE, bound, coding=HUFFMAN), FILL)
        huffman.write(values)
        if [plugin.raw(huffman, (0,) * len(shape))] != streams[0]:
            tally.disagree(f"{name}: encoder, codings 0 and {HUFFMAN} differ")
        if len(shape) in (2, 3) and np.prod(shape) < 3000:
            chunks = tuple(max(1, n - n // 3) for n in shape)
            check_dataset(plugin, tally, values, chunks, bound, f"{name} chunks {chunks}", int(rng.choice(CODINGS)))


def chosen(plugin, tally, rng, every_bound):
    """Values that make the encoder choose between predictors, and what becomes of them when a part is written again."""
    turn = itertools.cycle((bound,) for bound in BOUNDS)
    others = itertools.cycle(((BITS, BITS), (0, BITS), (BITS, 0)))
    cases = itertools.product(GRIDS, SHAPED, TYPES)
    for shape, kind, dtype, bound in (case + (b,) for case in cases for b in (BOUNDS if every_bound else next(turn))):
        values = shaped(kind, shape, dtype, bound, rng)
        new = rng.random(shape) < rng.choice([0.1, 0.5])
        beside = shaped(str(rng.choice(SHAPED)), shape, dtype, bound, rng)
        name = f"{kind} {dtype} {shape} {bound}"
        # What was rounded to either grid stays there in the other coding, too.
        for first, then in ((0, 0), next(others)):
            written_again(plugin, tally, values, np.where(new, beside, 0), new, bound, name, first, then)


def reach(plugin, tally):
    """Values up to where the fine grid of interpolation ends (section 5.2), written again in either coding."""
    for dtype, sign, then in itertools.product(TYPES, (1, -1), CODINGS):
        shape, bound = (17, 18, 33), 1e-3
        last = 512 if dtype.endswith("4") else 32768
        along = (np.indices(shape).T * (0.23, 0.17, 0.31)).sum(-1).T
        steps = sign * (last - 20 + 19.45 * np.sin(along))
        values = (2 * bound * steps).astype(dtype)
        written_again(plugin, tally, values, values, np.zeros(shape, bool), bound, f"reach {dtype} {sign}", 0, then)


def written_again(plugin, tally, values, beside, new, bound, name, first, then):
    """Some values of a chunk are written again, in another coding perhaps: what was rounded stays, whatever is written beside it."""
    shape, dtype = values.shape, values.dtype
    (stream,) = check_dataset(plugin, tally, values, shape, bound, name, first)
    if stream[9] & 15 != QUANTIZED:
        return
    parts = Parts(stream)
    if parts.grid.half_step != bound:
        return
    rounded = np.frombuffer(decode(stream), dtype).reshape(shape)
    (stream,) = check_dataset(plugin, tally, np.where(new, beside, rounded).astype(dtype), shape, bound, f"{name}, again", then)
    again = np.frombuffer(decode(stream), dtype).reshape(shape)
    kept = ~new & ~parts.exceptions.reshape(shape)
    bits = f"u{dtype.itemsize}"
    moved = kept & (rounded.view(bits) != again.view(bits))
    tally.kept += int(kept.sum())
    if moved.any():
        was, now = rounded[moved][0], again[moved][0]
        tally.disagree(f"{name}: {int(moved.sum())} values that were rounded once moved, the first from {was!r} to {now!r}")


def covered(tally):
    """Interpolated chunks of all ranks and types, with exceptions and without, many sets of axes, and planes of bits of all modes."""
    for rank, dtype, has in itertools.product(range(1, 5), TYPES, (False, True)):
        if not tally.predictors[rank, dtype, "interpolated", has]:
            tally.disagree(f"no interpolated chunk of rank {rank}, {dtype}, {'with' if has else 'without'} exceptions")
    for rank in range(1, 5):
        kinds = Counter()
        for (its_rank, _, kind, _), chunks in tally.predictors.items():
            if its_rank == rank:
                kinds[kind] += chunks
        print(f"rank {rank}: " + ", ".join(f"{kind} {chunks}" for kind, chunks in sorted(kinds.items(), key=lambda one: -one[1])))
        if len(kinds) < min(1 << rank, 6):
            tally.disagree(f"few sets of axes at rank {rank}: {dict(kinds)}")
    if not tally.escapes:
        tally.disagree("no escapes")
    modes = ", ".join(f"{kind} {count}" for kind, count in sorted(tally.modes.items()))
    print(f"planes of bits, by what they are of, bytes of a value, and mode: {modes}")
    for kind in itertools.product(("values", "mask", "exceptions"), (4, 8), (EMPTY, DENSE, SPARSE)):
        # A mask's differences are 0 or 1, so that it has one plane, which is not empty.
        if not tally.modes[kind] and (kind[0], kind[2]) != ("mask", EMPTY):
            tally.disagree(f"no plane of bits: {kind}")


def large(plugin, tally, rng):
    """64^3 once, and blocks longer than 2048."""
    x = np.linspace(0, 6, 64)
    values = np.sin(x)[:, None, None] * np.cos(2 * x)[:, None] + np.sin(3 * x)
    for dtype, scale in (("<f4", 1e-3), (">f8", 1e-5)):
        noisy = (values + rng.normal(0, scale, values.shape)).astype(dtype)
        start = time.perf_counter()
        for coding in CODINGS:
            check_dataset(plugin, tally, noisy, noisy.shape, 1e-4, f"64^3 {dtype} {scale}", coding)
        print(f"64^3 {dtype}, noise {scale}: {time.perf_counter() - start:.1f} s")
    sparse = np.where(rng.random((3, 100, 1000)) < 1e-3, np.nan, 0).astype("<f8")
    for coding in CODINGS:
        check_dataset(plugin, tally, sparse, sparse.shape, 1e-4, "sparse NaN", coding)


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


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--all", action="store_true")
    arguments = arguments.parse_args()
    start = time.perf_counter()
    tally = Tally()
    plugin = Plugin()
    matrix(plugin, tally, np.random.default_rng(1), arguments.all)
    print(f"matrix: {time.perf_counter() - start:.1f} s")
    chosen(plugin, tally, np.random.default_rng(6), arguments.all)
    print(f"predictors chosen: {time.perf_counter() - start:.1f} s, {tally.kept} values kept, {tally.escapes} escapes")
    reach(plugin, tally)
    covered(tally)
    rules(plugin, tally, np.random.default_rng(5))
    predictors(plugin, tally, np.random.default_rng(7))
    lists(plugin, tally, np.random.default_rng(9))
    bit_plane_edges(plugin, tally, np.random.default_rng(10))
    bodies(plugin, tally, np.random.default_rng(11))
    exact(plugin, tally, np.random.default_rng(12))
    steps(plugin, tally, np.random.default_rng(13))
    logarithms(plugin, tally, np.random.default_rng(14), 1000 if arguments.all else 60)
    decimals(plugin, tally, np.random.default_rng(18))
    edges(plugin, tally, np.random.default_rng(8), 5000 if arguments.all else 600)
    print(f"rules: {time.perf_counter() - start:.1f} s, {tally.altered} streams at edges")
    large(plugin, tally, np.random.default_rng(2))
    begun = time.perf_counter()
    modes(plugin, tally, np.random.default_rng(15))
    bounds(plugin, tally, np.random.default_rng(16), 20000 if arguments.all else 1200)
    every_number(plugin, tally, np.random.default_rng(17))
    least_numbers(plugin, tally)
    print(f"modes and bounds: {time.perf_counter() - begun:.1f} s")
    begun = time.perf_counter()
    crafted(plugin, tally, np.random.default_rng(4), 2000 if arguments.all else 700)
    print(f"{tally.crafted} crafted streams: {time.perf_counter() - begun:.1f} s")
    rng = np.random.default_rng(3)
    for name, values, words in one_in("streams to alter", 3, small_streams(rng)):
        before, begun = tally.altered, time.perf_counter()
        size = check_altered(plugin, tally, values, words, name, rng, 1.0 if arguments.all else 0.15)
        print(f"{name}, words {words}: {size} bytes, {tally.altered - before} alterations, {time.perf_counter() - begun:.1f} s")
    codings = ", ".join(f"{tally.codings[coding]} {name}" for coding, name in enumerate(NAMES))
    print(
        f"{tally.chunks} chunks ({codings}), "
        f"{tally.crafted} crafted streams, {tally.altered} altered ones ({tally.refused} refused), {tally.disagreements} disagreements with {said()}, "
        f"slowest chunk {tally.slowest[0]:.2f} s ({tally.slowest[1]}), {time.perf_counter() - start:.1f} s"
    )
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
