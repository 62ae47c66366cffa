"""Chunks that the plugin writes under absolute bounds (see written.py). test_modes.py has section 10's other modes."""

from __future__ import annotations

import itertools
import math

import numpy as np

from craft import Element
from decoder import decode
from decoder.bit_planes import DENSE, EMPTY, SPARSE
from decoder.header import QUANTIZED
from encoder import Parts, Seen
from modes import ABSOLUTE, BITS, CODINGS, HUFFMAN
from readers import TYPES, words_of
from sampling import is_full
from values import FILL, field, shaped
from written import check_bound

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
# Shapes that lead to different predictors. Extents are even, odd, powers of two, 1 more or less than these, and 1.
GRIDS = (
    (64,), (65,), (127,), (3000,),
    (16, 17), (64, 48), (1, 300), (300, 1), (33, 40), (5, 129),
    (8, 9, 10), (16, 16, 16), (17, 18, 33), (1, 40, 30), (12, 1, 50), (3, 33, 34),
    (8, 9, 10, 11), (5, 6, 7, 8), (1, 12, 13, 14), (2, 16, 1, 33), (9, 8, 1, 8), (2, 3, 9, 10, 11),
)  # fmt: skip


def with_bounds(*dimensions):
    """All cases, each with one bound, the next one in turn; with all bounds if the whole matrix is asked for."""
    turn = itertools.cycle(BOUNDS)
    for case in itertools.product(*dimensions):
        for bound in BOUNDS if is_full() else (next(turn),):
            yield *case, bound


def test_every_kind_of_chunk_is_what_the_format_asks_for(plugin):
    seen = Seen()
    write_matrix(plugin, seen, np.random.default_rng(1))
    kept = write_again(plugin, seen, np.random.default_rng(6))
    print(f"{kept} values kept, {seen.escapes} escapes")
    assert kept and seen.escapes
    check_seen(seen)


def write_matrix(plugin, seen, rng):
    """All kinds, types and shapes, in each coding."""
    for shape, kind, dtype, bound in with_bounds(SHAPES, FIELDS, TYPES):
        values = field(kind, shape, dtype, bound, rng)
        name = f"{kind} {dtype} {shape} {bound}"
        streams = {coding: check_bound(plugin, seen, values, bound, name, coding) for coding in CODINGS}
        # Section 10: coding 0 is Huffman codes in this version.
        huffman = plugin.dataset(shape, Element(values.dtype.str), words_of(ABSOLUTE, bound, coding=HUFFMAN), fill=FILL)
        assert huffman.write(values) == streams[0], f"{name}: codings 0 and {HUFFMAN} differ"
        if len(shape) in (2, 3) and math.prod(shape) < 3000:
            chunks = tuple(max(1, n - n // 3) for n in shape)
            check_bound(plugin, seen, values, bound, f"{name} chunks {chunks}", int(rng.choice(CODINGS)), chunks)


def write_again(plugin, seen, rng):
    """Writes values that make the encoder choose between predictors, and part of them again. How many values had to stay."""
    kept = 0
    others = itertools.cycle(((BITS, BITS), (0, BITS), (BITS, 0)))
    for shape, kind, dtype, bound in with_bounds(GRIDS, SHAPED, TYPES):
        values = shaped(kind, shape, dtype, bound, rng)
        new = rng.random(shape) < rng.choice([0.1, 0.5])
        beside = shaped(str(rng.choice(SHAPED)), shape, dtype, bound, rng)
        name = f"{kind} {dtype} {shape} {bound}"
        # Values that were rounded to one grid stay there in the other coding, too.
        for first, then in ((0, 0), next(others)):
            kept += check_kept(plugin, seen, values, np.where(new, beside, 0), new, bound, name, first, then)
    # Values near the numbers of steps where the fine grid of interpolation grows coarser or ends (section 5.2).
    for dtype, last, sign, then in itertools.product(TYPES, (1024, 2048, 4096, 1 << 16), (1, -1), CODINGS):
        shape, bound = (17, 18, 33), 1e-3
        along = (np.indices(shape).T * (0.23, 0.17, 0.31)).sum(-1).T
        steps = sign * (last - 20 + 19.45 * np.sin(along))
        values = (2 * bound * steps).astype(dtype)
        kept += check_kept(plugin, seen, values, values, np.zeros(shape, bool), bound, f"reach {dtype} {sign}", 0, then)
    return kept


def check_kept(plugin, seen, values, beside, new, bound, name, first, then):
    """Writes a chunk, and again with new values in part of it, perhaps in another coding. Values that were rounded must stay. How many had to stay."""
    shape, dtype = values.shape, values.dtype
    (stream,) = check_bound(plugin, seen, values, bound, name, first)
    if stream[9] & 15 != QUANTIZED:
        return 0
    parts = Parts(stream)
    if parts.grid.half_step != bound:
        return 0
    rounded = np.frombuffer(decode(stream), dtype).reshape(shape)
    (stream,) = check_bound(plugin, seen, np.where(new, beside, rounded).astype(dtype), bound, f"{name}, again", then)
    again = np.frombuffer(decode(stream), dtype).reshape(shape)
    kept = ~new & ~parts.exceptions.reshape(shape)
    bits = f"u{dtype.itemsize}"
    moved = kept & (rounded.view(bits) != again.view(bits))
    assert not moved.any(), f"{name}: {moved.sum()} rounded values moved, the first from {rounded[moved][0]!r} to {again[moved][0]!r}"
    return int(kept.sum())


def check_seen(seen):
    """There were interpolated chunks of all ranks and types, with exceptions and without, many sets of axes, and bit planes of all modes."""
    for rank, dtype, has in itertools.product(range(1, 5), TYPES, (False, True)):
        assert seen.predictors[rank, dtype, "interpolated", has], f"no interpolated chunk: rank {rank}, {dtype}, exceptions {has}"
    for rank in range(1, 5):
        kinds = {kind for its_rank, _, kind, _ in seen.predictors if its_rank == rank}
        assert len(kinds) >= min(1 << rank, 6), f"few sets of axes at rank {rank}: {kinds}"
    for kind in itertools.product(("values", "mask", "exceptions"), (4, 8), (EMPTY, DENSE, SPARSE)):
        # A mask's differences are 0 or 1, so that its blocks have one bit plane, which is not empty.
        assert seen.modes[kind] or (kind[0], kind[2]) == ("mask", EMPTY), f"no plane of bits: {kind}"


def test_large_chunks(plugin):
    """Chunks of 64^3 values, and chunks with blocks of more than 2048 integers."""
    rng = np.random.default_rng(2)
    x = np.linspace(0, 6, 64)
    values = np.sin(x)[:, None, None] * np.cos(2 * x)[:, None] + np.sin(3 * x)
    for dtype, scale in (("<f4", 1e-3), (">f8", 1e-5)):
        noisy = (values + rng.normal(0, scale, values.shape)).astype(dtype)
        for coding in CODINGS:
            check_bound(plugin, Seen(), noisy, 1e-4, f"64^3 {dtype} {scale}", coding)
    sparse = np.where(rng.random((3, 100, 1000)) < 1e-3, np.nan, 0).astype("<f8")
    for coding in CODINGS:
        check_bound(plugin, Seen(), sparse, 1e-4, "sparse NaN", coding)
