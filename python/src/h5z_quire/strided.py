"""Arrays in memory as the library takes them: an address, and strides."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt


class Strided(NamedTuple):
    """An array in the memory of the host or of a GPU."""

    #: The address of its first value.
    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    #: Bytes from one value to the next along each axis.
    strides: tuple[int, ...]
    is_writable: bool
    #: The object that keeps the memory.
    owner: object
    #: The CUDA stream whose work comes before ours, as a number. None for the host's memory.
    stream: int | None = None

    @classmethod
    def of_numpy(cls, array: npt.NDArray[Any]) -> Strided:
        """An array of numpy."""
        return cls(array.ctypes.data, array.dtype, array.shape, array.strides, array.flags.writeable, array)

    def with_shape(self, shape: Sequence[int], strides: Sequence[int]) -> Strided:
        """The same memory, seen as another shape."""
        return self._replace(shape=tuple(shape), strides=tuple(strides))

    def broadcast_to(self, shape: Sequence[int]) -> Strided:
        """The array repeated along new axes and axes of one value, as numpy's rules have it. Raises ValueError where it does not fit."""
        missing = len(shape) - len(self.shape)
        extents, strides = (1,) * missing + self.shape, (0,) * missing + self.strides
        if missing < 0 or any(extent not in (1, wanted) for extent, wanted in zip(extents, shape)):
            raise ValueError(f"an array of shape {self.shape} could not be broadcast to {tuple(shape)}")
        return self.with_shape(shape, [0 if extent != wanted else stride for extent, wanted, stride in zip(extents, shape, strides)])


def c_order(shape: Sequence[int], value_bytes: int) -> tuple[int, ...]:
    """The strides of an array in C order."""
    return tuple(value_bytes * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
