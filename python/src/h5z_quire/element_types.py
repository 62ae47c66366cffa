"""Types of values, as numpy names them and as a stream's header numbers them (filter/include/h5z_quire.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

# In the order of their numbers.
_TYPES = ("f4", "f8", "f2", "bfloat16", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16")
_BFLOAT16 = _TYPES.index("bfloat16")
_BIG_ENDIAN = 128


def type_number(dtype: np.dtype[Any]) -> int:
    """The number of a type in a stream's header. Raises ValueError for a type that cannot be compressed."""
    if dtype.name == "bfloat16" and dtype.isnative:
        return _BFLOAT16
    code = dtype.str[1:]
    if dtype.kind not in "fiuc" or code not in _TYPES:
        raise ValueError(
            f"values of type {dtype} cannot be compressed, only float16, float32, float64, bfloat16, complex64, complex128, and integers of 8 to 64 "
            "bits: convert them with astype, or view their bits as one of these types"
        )
    return _TYPES.index(code) + (_BIG_ENDIAN if dtype.str[0] == ">" else 0)


def type_number_in_file(dtype: np.dtype[Any]) -> int:
    """As `type_number`, for values of a dataset: h5py stores booleans as an enumeration of integers of 8 bits."""
    return type_number(np.dtype("i1") if dtype.kind == "b" else dtype)


def numpy_type(number: int) -> np.dtype[Any]:
    """The type in which numpy receives the values of a stream. Of bfloat16, that is an integer of 16 bits without a sign."""
    order = ">" if number >= _BIG_ENDIAN else "<"
    return np.dtype(order + ("u2" if is_bfloat16(number) else _TYPES[number % _BIG_ENDIAN]))


def is_bfloat16(number: int) -> bool:
    """Whether a type's number is that of bfloat16, in either byte order."""
    return number % _BIG_ENDIAN == _BFLOAT16


def bfloat16() -> np.dtype[Any]:
    """bfloat16 of ml_dtypes. Raises ValueError where ml_dtypes is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        raise ValueError("the stream holds bfloat16, which numpy does not have: install ml_dtypes") from None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found
