"""A chunk shape for an array, as the user guide recommends it."""

from __future__ import annotations

from math import prod
from typing import Sequence

# 64^3 values: 1 MiB of 32-bit numbers, which fits the chunk cache of every HDF5 and is worth the way to a GPU.
MOST_VALUES = 64**3


def chunks(shape: Sequence[int]) -> tuple[int, ...]:
    """A chunk shape for an array of this shape: at most 64^3 values, about as long along every axis, and few values beyond the array's end::

        file.create_dataset("t", data=x, chunks=h5z_quire.chunks(x.shape), **Quire(abs=1e-3))

    The longest extent is halved until the chunk is small enough, of equal ones the fastest: (256, 720, 1440) gives (64, 90, 45). `quire repack` and
    `quire inspect` advise alike. Where readers take slices along one axis alone, longer chunks along the others are better: see the user guide.
    """
    sides = [int(extent) for extent in shape]
    if not sides or min(sides) < 1:
        raise ValueError(f"an array of shape {tuple(shape)} has no values to put into chunks")
    while prod(sides) > MOST_VALUES:
        longest = max(range(len(sides)), key=lambda axis: (sides[axis], axis))
        sides[longest] = (sides[longest] + 1) // 2
    return tuple(sides)
