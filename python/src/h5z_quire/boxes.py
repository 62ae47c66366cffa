"""Boxes of datasets: indices as numpy and h5py take them, if they are integers and slices without a step."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple, Sequence

import numpy as np

from .library import Unsuitable
from .strided import Strided


class Box(NamedTuple):
    """A box of a dataset."""

    #: Indices of its first value, slowest axis first.
    start: tuple[int, ...]
    #: Values along each axis.
    extents: tuple[int, ...]
    #: Whether an axis was taken by an integer, and is dropped from the array's shape.
    dropped: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(extent for extent, dropped in zip(self.extents, self.dropped) if not dropped)

    def with_all_axes(self, array: Strided) -> Strided:
        """An array of `shape` with the dropped axes, too."""
        strides = iter(array.strides)
        return array.with_shape(self.extents, [0 if dropped else next(strides) for dropped in self.dropped])

    def chunks(self, chunk: Sequence[int]) -> int:
        """How many chunks of a shape it touches."""
        axes = zip(self.start, self.extents, chunk)
        return math.prod((start + extent - 1) // side - start // side + 1 if extent else 0 for start, extent, side in axes)

    def cuts_chunks(self, chunk: Sequence[int], shape: Sequence[int]) -> bool:
        """Whether it has a part of a chunk without the rest that is inside a dataset of a shape."""
        axes = zip(self.start, self.extents, chunk, shape)
        return any(start % side or ((start + extent) % side and start + extent < most) for start, extent, side, most in axes)


def box_of(selection: Any, extents: Sequence[int]) -> Box:
    """The box that a selection takes of a dataset. None selects all. Raises Unsuitable for lists, masks and steps, IndexError for indices outside."""
    given = () if selection is None else selection if isinstance(selection, tuple) else (selection,)
    ellipses = sum(index is Ellipsis for index in given)
    missing = len(extents) - (len(given) - ellipses)
    if ellipses > 1 or missing < 0:
        raise IndexError(f"selection {selection!r} has {len(given)} indices, the dataset {len(extents)} axes, and one ellipsis is enough")
    at = next((number for number, index in enumerate(given) if index is Ellipsis), len(given))
    indices = (*given[:at], *[slice(None)] * missing, *given[at + 1 :])
    return Box(*zip(*map(_along, indices, extents))) if indices else Box((), (), ())


def _along(index: Any, extent: int) -> tuple[int, int, bool]:
    """Start, count, and whether the axis is dropped."""
    if isinstance(index, slice):
        try:
            start, stop, step = index.indices(extent)
        except TypeError as error:
            raise Unsuitable(f"{index!r} is no range of indices: {error}") from None
        if step != 1:
            raise Unsuitable(f"{index!r} takes every {step}th value: only those without a step are read and written as whole arrays")
        return start, max(stop - start, 0), False
    if isinstance(index, (bool, np.bool_)):
        raise Unsuitable("a mask selects values: only integers and slices are read and written as whole arrays")
    try:
        number = operator.index(index)
    except TypeError:
        raise Unsuitable(f"{type(index).__name__} selects values: only integers and slices are read and written as whole arrays") from None
    if not -extent <= number < extent:
        raise IndexError(f"index {number} is outside of an axis of {extent} values")
    return number % extent, 1, True
