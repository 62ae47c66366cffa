"""Arrays in a GPU's memory, of each library that is installed."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, NamedTuple

import numpy as np

import h5z_quire
from conftest import Array

# JAX would take most of the memory for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Library(NamedTuple):
    """A library that has arrays in a GPU's memory."""

    name: str
    #: From numpy, and to numpy.
    put: Callable[[Array], Any]
    get: Callable[[Any], Array]


class DriverArray:
    """An array in memory that comes from NVIDIA's driver alone, with the strides of an array of numpy. It needs no library for GPUs."""

    def __init__(self, values: Array) -> None:
        self._base = values if values.base is None else np.asarray(values.base)
        self._values = values
        self._memory = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(self._base.nbytes))
        _call("cuMemcpyHtoD_v2", self._memory, ctypes.c_void_p(self._base.ctypes.data), ctypes.c_size_t(self._base.nbytes))

    @property
    def __cuda_array_interface__(self) -> "dict[str, Any]":
        address = self._memory.value + self._values.ctypes.data - self._base.ctypes.data
        described = {"shape": self._values.shape, "strides": self._values.strides, "typestr": self._values.dtype.str}
        return {**described, "data": (address, False), "version": 3, "stream": None}

    def get(self) -> Array:
        """The values that are there now."""
        base = self._base.copy(order="K")
        assert base.strides == self._base.strides
        _call("cuMemcpyDtoH_v2", ctypes.c_void_p(base.ctypes.data), self._memory, ctypes.c_size_t(base.nbytes))
        offset = self._values.ctypes.data - self._base.ctypes.data
        return np.ndarray(self._values.shape, self._values.dtype, base.data if base.flags.c_contiguous else base.T.data, offset, self._values.strides)

    def __del__(self) -> None:
        _call("cuMemFree_v2", self._memory)


def obstacle() -> str:
    """Why there is no GPU to test with; empty if there is one."""
    try:
        _open()
    except (OSError, AssertionError) as error:
        return f"there is no driver, or no GPU: {error}"
    info = h5z_quire.info()
    return "" if info.backend == "cuda" else info.why


def library(name: str) -> Library:
    """A library by its name. Raises ImportError where it is not installed."""
    return _MAKERS[name]()


def _driver() -> Library:
    return Library("driver", DriverArray, lambda array: array.get())


def _cupy() -> Library:
    import cupy

    return Library("cupy", cupy.asarray, cupy.asnumpy)


def _numba() -> Library:
    from numba import cuda

    return Library("numba", cuda.to_device, lambda array: array.copy_to_host())


def _torch() -> Library:
    import torch

    return Library("torch", lambda values: torch.from_numpy(np.ascontiguousarray(values)).cuda(), lambda array: array.cpu().numpy())


def _jax() -> Library:
    import jax

    jax.config.update("jax_enable_x64", True)
    return Library("jax", jax.device_put, np.asarray)


_MAKERS: "dict[str, Callable[[], Library]]" = {"driver": _driver, "cupy": _cupy, "numba": _numba, "torch": _torch, "jax": _jax}
NAMES = tuple(_MAKERS)


def _open() -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", ctypes.byref(device), 0)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    _call("cuCtxSetCurrent", context)


def _call(name: str, *arguments: object) -> None:
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    assert code == 0, f"{name} says {code}"
