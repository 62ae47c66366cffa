"""Arrays in the memory of an NVIDIA GPU, of any library that has `__cuda_array_interface__` (CuPy, Numba) or DLPack (PyTorch, JAX)."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
from typing import Any, Sequence

import numpy as np

from .element_types import bfloat16
from .strided import Strided, c_order

#: "cuda", "cuda:1", or the number of a GPU.
Device = str | int

# Streams as both protocols number them.
_LEGACY_DEFAULT_STREAM = 1

# DLPack: devices, kinds of numbers, the flag of an array that may not be written.
_CUDA, _CUDA_MANAGED = 2, 13
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
_BFLOAT = 4
_READ_ONLY = 1

# cuPointerGetAttribute
_MEMORY_TYPE, _DEVICE_MEMORY = 2, 2


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned. DLManagedTensor, which is older, begins with its tensor."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def find(array: Any) -> Strided | None:
    """Where an array is, if it is in a GPU's memory, and None for everything else. Raises ValueError if its memory is not what it says."""
    if isinstance(array, (np.ndarray, np.generic)):
        return None
    interface = _interface(array)
    # Before version 3 the interface says nothing of streams. DLPack does.
    if interface is not None and (interface.get("version", 0) >= 3 or not _says_cuda(array)):
        found = _of_interface(array, interface)
    elif _says_cuda(array):
        found = _of_dlpack(array)
        if interface is not None:
            # JAX says it here alone.
            found = found._replace(is_writable=found.is_writable and not interface["data"][1])
    else:
        return None
    if 0 not in found.shape:
        _check_memory(array, found)
    return found


def place_of(array: Any) -> Strided:
    """As `find`, of an array that is known to be in a GPU's memory."""
    place = find(array)
    if place is None:
        raise RuntimeError(f"the {_name(array)} does not say where in a GPU's memory it is")
    return place


def empty(shape: Sequence[int], dtype: np.dtype[Any], device: Device) -> Any:
    """A new array in the memory of a GPU: of CuPy, or of PyTorch where CuPy is not installed. Raises ValueError where there can be none."""
    said = re.fullmatch(r"cuda(?::(\d+))?|(\d+)", str(device))
    if said is None:
        raise ValueError(f"device is {device!r}: it must be 'cuda', a number as in 'cuda:1', or the number alone")
    if not dtype.isnative:
        raise ValueError(f"no library has arrays of {dtype.name} in this byte order ({dtype.str}) on a GPU: read them into an array of numpy")
    number = said[1] or said[2]
    try:
        return _empty(tuple(shape), dtype, None if number is None else int(number))
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device={device!r} has no new array of {dtype} for {tuple(shape)}: {type(error).__name__}: {reason}") from error


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any], number: int | None) -> Any:
    if cupy := _module("cupy"):
        with contextlib.nullcontext() if number is None else cupy.cuda.Device(number):
            return cupy.empty(shape, dtype)
    if torch := _module("torch"):
        return torch.empty(shape, dtype=getattr(torch, dtype.name), device="cuda" if number is None else f"cuda:{number}")
    raise ValueError("device= makes an array of CuPy or PyTorch, and neither is installed: install one, or give out=, an array of another library")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _interface(array: Any) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] | None = getattr(array, "__cuda_array_interface__", None)
    except Exception:
        # Arrays of JAX on the CPU, tensors of PyTorch that need a gradient: DLPack says more, or numpy.
        return None
    return found


def _says_cuda(array: Any) -> bool:
    """Whether DLPack says that an array is in the memory of an NVIDIA GPU."""
    try:
        return hasattr(array, "__dlpack__") and int(array.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)
    except Exception:
        # Devices that DLPack does not know, for one. numpy says what to do.
        return False


def _of_interface(array: Any, interface: dict[str, Any]) -> Strided:
    """By `__cuda_array_interface__`."""
    if missing := {"shape", "typestr", "data"} - interface.keys():
        raise ValueError(f"the {_name(array)} has a __cuda_array_interface__ without {', '.join(sorted(missing))}")
    if interface.get("mask") is not None:
        raise ValueError(f"the {_name(array)} has a mask, and no value where it is masked: fill it first")
    dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V" and str(getattr(array, "dtype", "")).endswith("bfloat16"):
        dtype = bfloat16()
    address, is_read_only = interface["data"]
    shape = tuple(map(int, interface["shape"]))
    strides = interface.get("strides")
    stream = interface.get("stream")
    if stream == 0:
        raise ValueError(f"the {_name(array)} has the stream 0, which __cuda_array_interface__ does not allow: 1 is the legacy default stream")
    return Strided(
        address=int(address),
        dtype=dtype,
        shape=shape,
        strides=c_order(shape, dtype.itemsize) if strides is None else tuple(map(int, strides)),
        is_writable=not is_read_only,
        owner=array,
        # Numba says None, whatever it has launched in the default stream.
        stream=_LEGACY_DEFAULT_STREAM if stream is None else int(stream),
    )


def _of_dlpack(array: Any) -> Strided:
    """By DLPack. The producer has the stream that we name wait for what it does to the array."""
    try:
        try:
            capsule = array.__dlpack__(stream=_LEGACY_DEFAULT_STREAM, max_version=(1, 0))
        except TypeError:
            # From before versions.
            capsule = array.__dlpack__(stream=_LEGACY_DEFAULT_STREAM)
    except Exception as error:
        raise ValueError(f"the {_name(array)} cannot be taken by DLPack: {error}") from error
    return of_capsule(capsule)


def of_capsule(capsule: Any) -> Strided:
    """The array of a capsule of DLPack, which is not consumed: it frees the array when it is dropped."""
    tensor, flags = _tensor(capsule)
    shape = tuple(tensor.shape[: tensor.rank])
    value_bytes = tensor.bits // 8
    if tensor.kind == _BFLOAT and tensor.bits == 16:
        dtype = bfloat16()
    elif tensor.kind in _KINDS and tensor.bits % 8 == 0 and tensor.lanes == 1:
        dtype = np.dtype(f"{_KINDS[tensor.kind]}{value_bytes}")
    else:
        raise ValueError(f"values of DLPack's kind {tensor.kind} with {tensor.bits} bits and {tensor.lanes} lanes cannot be compressed")
    return Strided(
        address=(tensor.data or 0) + tensor.byte_offset,
        dtype=dtype,
        shape=shape,
        strides=tuple(value_bytes * stride for stride in tensor.strides[: tensor.rank]) if tensor.strides else c_order(shape, value_bytes),
        is_writable=not flags & _READ_ONLY,
        owner=capsule,
        stream=_LEGACY_DEFAULT_STREAM,
    )


def _tensor(capsule: Any) -> tuple[_Tensor, int]:
    """The tensor in a capsule, and its flags."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    has_name = ctypes.pythonapi.PyCapsule_IsValid
    has_name.restype, has_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if has_name(capsule, b"dltensor_versioned"):
        versioned = _VersionedTensor.from_address(get(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ValueError(f"the array is of DLPack's version {versioned.major}.{versioned.minor}: 1 was asked for")
        return versioned.tensor, versioned.flags
    if has_name(capsule, b"dltensor"):
        return _Tensor.from_address(get(capsule, b"dltensor")), 0
    raise ValueError("__dlpack__ gave no capsule of DLPack that is still to be consumed")


def _check_memory(array: Any, found: Strided) -> None:
    """Raises ValueError unless the driver knows an array's address: without that, the library would look for its values in the host's memory."""
    driver = _driver()
    if driver is None:
        why = "this process has not loaded NVIDIA's driver, libcuda.so.1"
    elif not _is_device_memory(driver, found.address):
        why = f"its address {found.address:#x} is not one of a GPU's memory: it was freed, or is the host's"
    else:
        return
    raise ValueError(f"the {_name(array)} of shape {found.shape} and type {found.dtype} says that it is in a GPU's memory, but {why}")


def _driver() -> ctypes.CDLL | None:
    """NVIDIA's driver, if the process has loaded it: where it has not, nothing is in a GPU's memory."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _is_device_memory(driver: ctypes.CDLL, address: int) -> bool:
    kind = ctypes.c_uint32()
    status: int = driver.cuPointerGetAttribute(ctypes.byref(kind), _MEMORY_TYPE, ctypes.c_uint64(address))
    return status == 0 and kind.value == _DEVICE_MEMORY


def _name(array: Any) -> str:
    return f"{type(array).__module__.partition('.')[0]}.{type(array).__name__}"
