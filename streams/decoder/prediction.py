"""FORMAT.md, section 6: the integers of a plane from their differences, and positions from residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from .header import StreamError
from .quantization import distances_at, on_grid

INTERPOLATION = 128  # the bit of interpolation: alone, it is cubic and without rough axes
LINEAR = 16  # the bit of linear interpolation
FINER, HALVED = 32, 64  # the bits of finer and of halved steps on coarse levels


# §6.1: differences


def undo_differences(differences: np.ndarray, extents: Sequence[int], axes: int, bits: int) -> np.ndarray:
    """Prefix sums along the axes of the set, then modulo 2^bits, signed."""
    if axes >> len(extents):
        raise StreamError("4", f"predictor {axes:#x} of a plane of rank {len(extents)}")
    plane = differences.astype(np.uint64).reshape(extents)
    for axis in range(len(extents)):
        if axes >> axis & 1:
            plane = np.cumsum(plane, axis=-1 - axis)
    return wrapped(plane.reshape(-1), bits)


def wrapped(integers: np.ndarray, bits: int) -> np.ndarray:
    """The integers modulo 2^bits, signed."""
    return integers.astype(f"i{bits // 8}").astype(np.int64)


# §6.2: interpolation

# The weights of a, b, c and d by which of a, c and d exist.
WEIGHTS = {
    (True, True, True): (-1, 9, 9, -1),
    (False, True, True): (0, 6, 12, -2),
    (True, True, False): (-2, 12, 6, 0),
    (False, True, False): (0, 8, 8, 0),
    (True, False, False): (-8, 24, 0, 0),
    (False, False, False): (0, 16, 0, 0),
}
LINEAR_WEIGHTS = {True: (0, 8, 8, 0), False: (0, 16, 0, 0)}
# Positions that a residual of 1 is worth on levels 0, 1, 2, and 3 and coarser.
WORTH = {0: (8, 8, 8, 8), FINER: (8, 6, 4, 3), HALVED: (8, 4, 2, 1)}


def interpolates(predictor: int, extents: Sequence[int]) -> bool:
    """Whether a plane's predictor is interpolation. The bits of rough axes and of linear interpolation may be 0 or 1."""
    return predictor & ~LINEAR & -1 << len(extents) in (INTERPOLATION, INTERPOLATION | FINER, INTERPOLATION | HALVED)


def undo_interpolation(residuals: np.ndarray, extents: Sequence[int], predictor: int, width: int) -> np.ndarray:
    """The positions of a chunk in C order, from its line of residuals. `width`: bytes of a value."""
    positions = np.zeros(extents, np.int32)
    last_level = (max(extents) - 1).bit_length()
    positions.reshape(-1)[:1] = restored(np.zeros(1, np.int64), residuals[:1], predictor, last_level, width)
    at = 1
    for stride, axes, there in classes(extents):
        shape = positions[there].shape
        level = positions[(slice(None, None, stride),) * len(extents)]
        some = residuals[at : at + math.prod(shape)].reshape(shape)
        positions[there] = restored(prediction(level, axes, predictor), some, predictor, stride.bit_length() - 1, width)
        at += some.size
    assert at == len(residuals)
    return positions.reshape(-1)


def classes(extents: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...], tuple[slice, ...]]]:
    """The parity classes that have values, in order. For each: the level's stride, the class's axes (0 is the slowest), the slices of its values."""
    rank = len(extents)
    numbers = sorted(range(1, 1 << rank), key=lambda number: (bin(number).count("1"), number))
    for level, number in product(reversed(range((max(extents) - 1).bit_length())), numbers):
        stride = 1 << level
        axes = tuple(rank - 1 - bit for bit in range(rank) if number >> bit & 1)
        if all(extents[axis] > stride for axis in axes):
            yield stride, axes, tuple(slice(stride * (axis in axes), None, 2 * stride) for axis in range(rank))


def restored(predictions: np.ndarray, residuals: np.ndarray, predictor: int, level: int, width: int) -> np.ndarray:
    """Positions from predictions and residuals."""
    wide = residuals.astype(np.int64)
    distances = np.where(np.abs(wide) < 65536, worth_at(predictions, predictor, level, width) * wide, wide - 98304)
    return on_grid((predictions + distances).astype(np.int32), width).astype(np.int32)


def worth_at(predictions: np.ndarray, predictor: int, level: int, width: int) -> np.ndarray:
    """S, the positions that a residual of 1 is worth."""
    return np.where(distances_at(predictions, width) > 1, 8, WORTH[predictor & (FINER | HALVED)][min(level, 3)])


def prediction(level: np.ndarray, odd: tuple[int, ...], predictor: int) -> np.ndarray:
    """The predictions of a parity class. Sums have 64 bits, which do not wrap, and are cut to 32 bits at the end."""
    smooth = [axis for axis in odd if not predictor >> (level.ndim - 1 - axis) & 1]
    sums, have_c = zip(*(along(level, axis, odd, bool(predictor & LINEAR)) for axis in smooth or odd))
    any_has_c = np.any(np.broadcast_arrays(*have_c), axis=0)
    count, total = np.int64(0), np.int64(0)
    for sum_along, has_c in zip(sums, have_c):
        counts = has_c | ~any_has_c
        count = count + counts
        total = total + np.where(counts, sum_along, 0)
    return (total + 8 * count).astype(np.int32) // (16 * count)


def along(level: np.ndarray, axis: int, odd: tuple[int, ...], linear: bool) -> tuple[np.ndarray, np.ndarray]:
    """The prediction along one axis, in sixteenths, and which values have a neighbour c along this axis."""
    even = level[tuple(slice(other in odd and other != axis, None, 2) for other in range(level.ndim))]
    # Among the even indices, the value of odd index 2j + 1 has a at j - 1, b at j, c at j + 1 and d at j + 2.
    beside = np.arange(level.shape[axis] // 2)[:, None] + np.array([-1, 0, 1, 2])
    exist = (0 <= beside) & (beside < even.shape[axis])
    weights = np.array([LINEAR_WEIGHTS[bool(c)] if linear else WEIGHTS[bool(a), bool(c), bool(d)] for a, _, c, d in exist], np.int64)
    upright = tuple(-1 if other == axis else 1 for other in range(level.ndim))
    total = np.int64(0)
    for neighbour in range(4):
        values = even.take(beside[:, neighbour], axis, mode="clip")  # clipped ones have the weight 0
        total = total + weights[:, neighbour].reshape(upright) * values
    return total, exist[:, 2].reshape(upright)
