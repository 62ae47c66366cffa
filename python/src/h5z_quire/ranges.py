"""Absolute bounds for whole arrays: a share of the array's range, which is read block by block.

The range is that which the filter takes of a chunk (FORMAT.md, section 11.2): of the finite values without fill values and far values.
"""

from __future__ import annotations

import importlib
import math
import sys
from itertools import product
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import datasets, device_arrays
from .arrays import as_value
from .element_types import type_number

# Values that are read at once, unless a chunk has more.
_BLOCK_VALUES = 2**22
_LARGEST_BOUND = 1e300

# The rule of far values. The constants are those of codec/src/bound/far.rs.
_MOST_FAR, _LEAST_OTHERS = 16, 8
_FAR_RANGES, _FAR_RANGES_OFTEN, _OFTEN = 64, 8, 16
# Different values at each end that the rule can need.
_AT_AN_END = _MOST_FAR + _LEAST_OTHERS


class _Different(NamedTuple):
    """Different values, sorted, and how often each occurs. Of many, those at both ends."""

    values: npt.NDArray[Any]
    counts: npt.NDArray[Any]

    def ends(self) -> _Different:
        if len(self.values) <= 2 * _AT_AN_END:
            return self
        return _Different(*(np.concatenate([each[:_AT_AN_END], each[-_AT_AN_END:]]) for each in self))


def bound_of(array: Any, share: float, fill_value: Any, *, is_rms: bool = False) -> float:
    """The bound that is a share of an array's range; if `is_rms`, the one with which evenly spread errors have that share as their root mean square."""
    if device_arrays.find(array) is not None:
        raise ValueError("the array is in a GPU's memory: give a copy on the host, cupy.asnumpy(x), or x.cpu().numpy() of PyTorch")
    array = array if hasattr(array, "shape") else np.asarray(array)
    if not math.prod(array.shape):
        raise ValueError(f"an array of shape {tuple(array.shape)} has no values, and so no range")
    found = _found(array, fill_value)
    values, counts = found.values.tolist(), found.counts.tolist()
    first, last = _span(values, counts)
    extent = values[last] - values[first] if values else 0
    bound = min(share * extent * (math.sqrt(3) if is_rms else 1), _LARGEST_BOUND)
    if found.values.dtype.kind in "iu":
        # Whole errors up to k have k (k + 1) / 3 as the mean of their squares.
        return math.floor((math.sqrt(1 + 4 * bound**2) - 1) / 2 if is_rms else bound)
    if bound < sys.float_info.min:
        return 0
    is_short = found.values.dtype.itemsize == 2 or array.dtype.name == "bfloat16"
    # Numbers of 16 bits are multiples of powers of two that are not far below usual bounds.
    return 2.0 ** math.floor(math.log2(bound)) if is_short else bound


def _found(array: Any, fill_value: Any) -> _Different:
    gaps = [] if fill_value is None else np.ravel(fill_value).tolist()
    # What the array says of itself may be of another type than its values.
    said = list(said_gaps(array))
    if not isinstance(array, np.ndarray) and getattr(array, "chunks", None):
        # Of an array of xarray, that of dask in it.
        array = getattr(array, "data", array)
    if hasattr(array, "to_delayed"):
        dask: Any = importlib.import_module("dask")
        blocks = dask.compute(*(dask.delayed(_different)(block, gaps, said) for block in array.to_delayed().ravel()))
    else:
        blocks = tuple(_different(array[box], gaps, said) for box in _boxes(array))
    values, where = np.unique(np.concatenate([block.values for block in blocks]), return_inverse=True)
    return _Different(values, np.bincount(where, np.concatenate([block.counts for block in blocks]), len(values))).ends()


def said_gaps(array: Any) -> Iterator[Any]:
    """The values that an array itself names as fill value or missing."""
    if datasets.is_dataset(array):
        from h5py import h5d

        if array.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            yield array.fillvalue
    elif not isinstance(array, np.ndarray) and getattr(array, "fill_value", None) is not None:
        yield array.fill_value
    for where in (getattr(array, "attrs", {}), getattr(array, "encoding", {})):
        for key in ("_FillValue", "missing_value"):
            yield from np.ravel(where.get(key, []))


def _boxes(array: Any) -> Iterator[tuple[slice, ...]]:
    """Boxes of whole chunks, or of whole rows where there are none, that make up an array."""
    sides = list(getattr(array, "chunks", None) or [1] * len(array.shape))
    room = _BLOCK_VALUES // math.prod(sides)
    for axis, extent in reversed(list(enumerate(array.shape))):
        count = max(1, min(room, -(-extent // sides[axis])))
        sides[axis], room = sides[axis] * count, room // count
    return product(*(map(slice, range(0, extent, side), range(side, extent + side, side)) for extent, side in zip(array.shape, sides)))


def _different(block: Any, gaps: Sequence[Any], said: Sequence[Any]) -> _Different:
    """Those of a block, without gaps and what is not finite."""
    values = block.compressed() if isinstance(block, np.ma.MaskedArray) else np.ascontiguousarray(block).reshape(-1)
    type_number(values.dtype)
    for gap in (*(as_value(gap, values.dtype) for gap in gaps), *of_type(said, values.dtype)):
        values = values[values != gap]
    if values.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    values = values.view(values.real.dtype)
    values = values[np.isfinite(values)]
    # The ends of a sample are within those of all values.
    sample = np.unique(values[:: max(1, values.size // 2048)])
    if len(sample) > 2 * _AT_AN_END:
        values = values[(values <= sample[_AT_AN_END]) | (values >= sample[-_AT_AN_END])]
    return _Different(*np.unique(values, return_counts=True)).ends()


def of_type(values: Sequence[Any], dtype: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    for value in values:
        try:
            with np.errstate(over="ignore"):
                yield as_value(value, dtype)
        except ValueError:
            continue


def _span(values: Sequence[Any], counts: Sequence[int]) -> tuple[int, int]:
    """The first and the last of different values that are not far."""
    whole = first, last = 0, len(values) - 1

    def is_far(value: int, following: int, other_end: int) -> bool:
        gap, others = abs(values[value] - values[following]), abs(values[following] - values[other_end])
        return others > 0 and (gap > _FAR_RANGES * others or (gap > _FAR_RANGES_OFTEN * others and counts[value] >= _OFTEN))

    while True:
        before = first, last
        above = range(max(first, len(values) - 1 - _MOST_FAR), last)
        last = max((at for at in above if is_far(at + 1, at, first)), default=last)
        below = range(first + 1, min(last, _MOST_FAR) + 1)
        first = min((at for at in below if is_far(at - 1, at, last)), default=first)
        if (first, last) == before:
            return before if last - first >= _LEAST_OTHERS - 1 else whole
