"""A chunk shape for an array, as the user guide recommends it."""

from __future__ import annotations

from math import prod
from typing import Sequence

# 64^3 values: 1 MiB of 32-bit numbers, which fits the chunk cache of every HDF5 and is worth the way to a GPU.
MOST_VALUES = 64**3


def chunks(shape: Sequence[int]) -> tuple[int, ...]:
    """A chunk shape for an array: at most 64^3 values, about as long along every axis, and few values beyond the array's end.

    The longest extent is halved until the chunk is small enough, the fastest of equal extents. `quire repack` and `quire inspect` advise alike. Where readers
    take slices along one axis alone, longer chunks along the other axes are better: see the user guide.

    Parameters
    ----------
    shape : sequence of int
        The array's extents, slowest first.

    Raises
    ------
    ValueError
        For a shape without values.

    Examples
    --------
    >>> from h5z_quire import chunks
    >>> chunks((256, 720, 1440))
    (64, 90, 45)
    """
    sides = [int(extent) for extent in shape]
    if not sides or min(sides) < 1:
        raise ValueError(f"an array of shape {tuple(shape)} has no values to put into chunks")
    while prod(sides) > MOST_VALUES:
        longest = max(range(len(sides)), key=lambda axis: (sides[axis], axis))
        sides[longest] = (sides[longest] + 1) // 2
    return tuple(sides)
