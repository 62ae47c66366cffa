#!/usr/bin/env python3
"""The plugin against quire_decoder.py, which was written from FORMAT.md alone: the same bytes from the plugin's streams,
the same verdict on altered ones and on crafted ones that the plugin would not write. What the encoder makes of values is held
against FORMAT.md as well.

    HDF5_PLUGIN_PATH=<dir of libh5zquire.so> python3 decoder_matrix.py [--all]

Deterministic; exits 1 after a disagreement. --all takes every bound for every field, alters every bit of every small stream,
and crafts more. This file has the values, and alters streams; stream_craft.py makes others, stream_edges.py and bit_plane_edges.py
those at the edges of single rules, encoder_rules.py knows what an encoder must write, and stream_check.py asks both readers.
"""

import argparse
import itertools
import sys
import time
from collections import Counter

import numpy as np

from bit_plane_edges import bit_plane_edges
from encoder_rules import Parts, check_encoder
from quire_decoder import BIT_PLANES, DENSE, EMPTY, QUANTIZED, SPARSE, StreamError, decode
from stream_check import FILL, TYPES, Plugin, Tally, check_stream, decode_or_error, read_by_both
from stream_craft import Craft, fresh_checksum, with_length
from stream_edges import edges, lists, predictors, rules

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
    """Writes values and decodes each chunk; gives the streams."""
    name = f"{name}, coding {coding}"
    dataset = plugin.dataset(values.shape, chunks, values.dtype, bound, FILL, coding)
    dataset[...] = values
    read = dataset[...]
    bits = f"u{values.dtype.itemsize}"
    streams = []
    for offset in itertools.product(*(range(0, n, c) for n, c in zip(values.shape, chunks))):
        stream = plugin.raw(dataset, offset)
        streams.append(stream)
        tally.chunks += 1
        tally.codings[stream[7]] += 1
        start = time.perf_counter()
        limit = int(np.prod(chunks)) * values.dtype.itemsize
        got, error = decode_or_error(stream, limit)
        tally.slowest = max(tally.slowest, (time.perf_counter() - start, name))
        if got is None or len(got) != limit:
            tally.disagree(f"{name} chunk {offset}: {error or len(got)}")
            continue
        inside = tuple(slice(0, min(c, n - o)) for n, c, o in zip(values.shape, chunks, offset))
        there = tuple(slice(o, o + c) for o, c in zip(offset, chunks))
        mine = np.frombuffer(got, values.dtype).reshape(chunks)[inside].copy().view(bits)
        plugins = np.ascontiguousarray(read[there]).view(bits)
        if not np.array_equal(mine, plugins):
            tally.disagree(f"{name} chunk {offset}: {int((mine != plugins).sum())} other values")
        elif stream[7] == QUANTIZED and plugins.shape == tuple(chunks):
            check_encoder(tally, stream, np.ascontiguousarray(values[there]), bound, coding, f"{name} chunk {offset}")
    return streams


def alterations(stream, rng, part):
    """Altered streams with right checksums: bits, ends, lengths."""
    for bit in range(len(stream) * 8):
        if bit // 8 in range(12, 16) or not (bit < 8 * 80 or rng.random() < part):
            continue
        altered = bytearray(stream)
        altered[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", fresh_checksum(bytes(altered))
    for end in range(1, len(stream)):  # HDF5 has no chunks of 0 bytes
        if end < 60 or end > len(stream) - 8 or rng.random() < part:
            yield f"end {end}", fresh_checksum(stream[:end])
            yield f"end {end}, length set", fresh_checksum(with_length(stream[:end]))
    for more in (b"\0", b"\0\0", b"\0\0\0\0", b"\1\2\3\4"):
        yield f"{len(more)} more", fresh_checksum(stream + more)
        yield f"{len(more)} more, length set", fresh_checksum(with_length(stream + more))
    for byte in range(6, min(len(stream), 96)):
        for value in (0, 1, 11, 12, 16, 17, 32, 33, 64, 65, 74, 75, 127, 128, 254, 255):
            altered = bytearray(stream)
            altered[byte] = value
            if bytes(altered) != stream:
                yield f"byte {byte} = {value}", fresh_checksum(bytes(altered))
    yield "checksum", stream[:12] + bytes([stream[12] ^ 1]) + stream[13:]


def check_altered(plugin, tally, values, bound, coding, name, rng, part):
    """Both readers on alterations of a small stream."""
    dataset = plugin.dataset(values.shape, values.shape, values.dtype, bound, coding=coding)
    dataset[...] = values
    stream = plugin.raw(dataset, (0,) * values.ndim)
    for what, altered in alterations(stream, rng, part):
        if altered != stream:
            tally.altered += 1
            check_stream(dataset, tally, altered, f"{name}, {what}")
    return len(stream)


def crafted(plugin, tally, rng, number):
    """Streams by Craft, which both must read; and what becomes of them with words too many or other bits."""
    shapes = ((1,), (33,), (700,), (5000,), (70000,), (9, 13), (2, 600), (600, 2), (5, 6, 7), (1, 9, 1), (3, 4, 5, 6))
    for turn in range(number):
        craft = Craft(rng)
        shape = shapes[int(rng.integers(len(shapes)))]
        if shape == (70000,) and rng.random() < 0.8:
            continue
        dtype = np.dtype(TYPES[turn % 4])
        bound = float(rng.choice([1e-12, 1e-3, 10.0, 1e30, 3e-309, 8e307, 7e-46]))
        name = f"crafted {turn} {dtype} {shape} {bound}"
        dataset = plugin.dataset(shape, shape, dtype, 1e-3)
        stream = craft.stream(shape, dtype, bound)
        tally.crafted += 1
        if not read_by_both(dataset, tally, stream, name):
            continue
        parts = Parts(stream)
        tally.mixtures[(parts.interpolated, *(plane.book == BIT_PLANES for plane in parts.planes))] += 1
        if dataset.size > 1000:
            continue
        for at in rng.integers(8 * 24, 8 * len(stream), 5):
            altered = bytearray(stream)
            altered[at // 8] ^= 1 << at % 8
            tally.altered += 1
            check_stream(dataset, tally, fresh_checksum(bytes(altered)), f"{name}, bit {at}")
        craft.loose = 0.5
        for _ in range(3):
            tally.altered += 1
            try:
                stream = craft.stream(shape, dtype, bound)
            except StreamError:  # a loose mask, which has no count of ones
                continue
            check_stream(dataset, tally, stream, f"{name}, loose")
    for mixture in itertools.product((False, True), repeat=4):
        if not tally.mixtures[mixture] or not tally.mixtures[mixture[:2]]:
            tally.disagree(f"no crafted stream of interpolation and bit planes for values, mask, exceptions: {mixture}")


def matrix(plugin, tally, rng, every_bound):
    """All kinds, types and shapes, in each coding, with all bounds or with bounds taken in turn."""
    turn = itertools.cycle((bound,) for bound in BOUNDS)
    cases = itertools.product(SHAPES, FIELDS, TYPES)
    for shape, kind, dtype, bound in (case + (b,) for case in cases for b in (BOUNDS if every_bound else next(turn))):
        values = field(kind, shape, dtype, bound, rng)
        name = f"{kind} {dtype} {shape} {bound}"
        streams = {coding: check_dataset(plugin, tally, values, shape, bound, name, coding) for coding in CODINGS}
        # Section 10: to this version, what promises the fewest bits is Huffman codes.
        huffman = plugin.dataset(shape, shape, values.dtype, bound, FILL, HUFFMAN)
        huffman[...] = values
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
    if stream[7] != QUANTIZED:
        return
    parts = Parts(stream)
    if parts.half_step != bound:
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
    """What gets altered: a name, values, bound and coding."""
    yield "constant", np.full((3, 4), 1.5, "<f4"), 1e-3, 0
    yield "stored", field("random bits", (5,), ">f8", 1e-3, rng), 1e-3, 0
    yield "lattice f4", np.round(np.linspace(0, 5, 24 * 9)).reshape(24, 9).astype("<f4"), 0.5, 0
    zeros = np.zeros(2100, "<f4")
    zeros[[5, 99, 2060]] = 3, np.inf, 7
    for coding in CODINGS:
        yield "smooth f4", field("smooth", (3, 4, 5, 6), "<f4", 1e-3, rng), 1e-3, coding
        yield "smooth f8", field("smooth", (40, 8), ">f8", 1e-5, rng), 1e-5, coding
        yield "specials f4", field("specials", (9, 25), ">f4", 1e-2, rng), 1e-2, coding
        yield "specials f8", field("specials", (200,), "<f8", 1e-2, rng), 1e-2, coding
        yield "two blocks", zeros, 1e-3, coding
    steps = np.tile(np.repeat([0.0, 1.0, 3.0], 7), 150).astype("<f8")
    yield "custom book", rng.choice([0.0, 9.0, 70.0], 1500, p=[0.5, 0.3, 0.2]).astype("<f4"), 0.5, 0
    yield "steps", steps, 0.4, 0
    yield "steps", steps, 0.4, BITS
    yield "waves f4", shaped("waves", (16, 17), "<f4", 1e-2, rng), 1e-2, 0
    yield "holes f8", shaped("holes", (8, 9, 10), ">f8", 1e-2, rng), 1e-2, 0
    yield "holes f4", shaped("holes", (8, 9, 10), "<f4", 1e-2, rng), 1e-2, BITS


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
    edges(plugin, tally, np.random.default_rng(8), 5000 if arguments.all else 600)
    print(f"rules: {time.perf_counter() - start:.1f} s, {tally.altered} streams at edges")
    large(plugin, tally, np.random.default_rng(2))
    begun = time.perf_counter()
    crafted(plugin, tally, np.random.default_rng(4), 2000 if arguments.all else 300)
    print(f"{tally.crafted} crafted streams: {time.perf_counter() - begun:.1f} s")
    rng = np.random.default_rng(3)
    for name, values, bound, coding in small_streams(rng):
        before, begun = tally.altered, time.perf_counter()
        size = check_altered(plugin, tally, values, bound, coding, name, rng, 1.0 if arguments.all else 0.15)
        print(f"{name}, coding {coding}: {size} bytes, {tally.altered - before} alterations, {time.perf_counter() - begun:.1f} s")
    stored, constant, quantized = tally.codings
    print(
        f"{tally.chunks} chunks ({stored} stored, {constant} constant, {quantized} quantized), "
        f"{tally.crafted} crafted streams, {tally.altered} altered ones ({tally.refused} refused), {tally.disagreements} disagreements, "
        f"slowest chunk {tally.slowest[0]:.2f} s ({tally.slowest[1]}), {time.perf_counter() - start:.1f} s"
    )
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
