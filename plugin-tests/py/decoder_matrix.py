#!/usr/bin/env python3
"""The plugin against quire_decoder.py, which was written from FORMAT.md alone: the same bytes from the plugin's streams,
the same verdict on altered ones and on crafted ones that the plugin would not write. What the encoder makes of values is held
against FORMAT.md as well.

    HDF5_PLUGIN_PATH=<dir of libh5zquire.so> python3 decoder_matrix.py [--all]

Exits 1 after a disagreement. The matrix of section 10's modes and the streams to alter are sampled, see sampling.py; all else is the same in each run,
and the whole with QUIRE_FULL_MATRIX=1. --all takes every bound for every field, alters every bit of every small stream,
crafts more, and looks at the least numbers of binary64.

This file has the matrix of types, shapes and contents. Beside it:

    matrix_values.py                       values to compress
    written_values.py                      compares what the plugin makes of them
    encoder_rules.py, mode_rules.py        what FORMAT.md asks of an encoder, and of section 10's modes
    mode_matrix.py                         the matrix of those modes
    stream_craft.py                        makes streams without the plugin
    altered_streams.py                     altered streams, and crafted ones
    stream_edges.py, bit_plane_edges.py    streams at the edges of single rules
    stream_check.py                        asks both readers
"""

import argparse
import itertools
import sys
import time
from collections import Counter

import numpy as np

from altered_streams import check_altered, crafted, small_streams
from bit_plane_edges import bit_plane_edges
from encoder_rules import Parts
from matrix_values import field, shaped
from mode_matrix import bounds, every_number, least_numbers, modes
from mode_rules import ABSOLUTE, BITS, CODINGS, HUFFMAN
from quire_decoder import DENSE, EMPTY, QUANTIZED, SPARSE, decode
from sampling import one_in, said
from stream_check import FILL, TYPES, Plugin, Tally, words_of
from stream_craft import Element
from stream_edges import bodies, decimals, edges, exact, limits, lists, logarithms, predictors, rules, steps
from written_values import check_dataset

NAMES = ("stored", "constant", "quantized", "exact", "steps", "logarithmic", "decimal")  # section 2's codings
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
    """Values up to where the fine grid of interpolation grows coarser or ends (section 5.2), written again in either coding."""
    for dtype, last, sign, then in itertools.product(TYPES, (1024, 2048, 4096, 1 << 16), (1, -1), CODINGS):
        shape, bound = (17, 18, 33), 1e-3
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
    limits(plugin, tally, np.random.default_rng(19))
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
