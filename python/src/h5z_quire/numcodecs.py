"""The codec `quire` for numcodecs, and so for arrays of zarr's format 2, with zarr 2 and zarr 3::

    zarr.create_array(store, ..., zarr_format=2, filters=None, compressors=QuireCodec("abs=1e-3"))    # zarr 3
    zarr.create(..., compressor=QuireCodec("abs=1e-3"), filters=None)                                 # zarr 2

For zarr's format 3 see `h5z_quire.zarr`. numcodecs finds the codec by its name once this package is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs.abc import Codec

from . import arrays
from .element_types import bfloat16
from .fill_values import number_of, to_json
from .messages import short
from .settings import Quire


class QuireCodec(Codec):  # type: ignore[misc]
    """A codec from arrays, or bytes of arrays, to streams.

    Parameters
    ----------
    quire : Quire or str, optional
        What to keep. Or give Quire's own keywords, as in ``QuireCodec(abs=1e-3)``.
    dtype : dtype, optional
        Type of the values where the codec is given plain bytes. An array says its own type.
    fill_value : number, optional
        A value that comes back bit for bit, whatever the bound allows, and has no part in a range. Give the array's fill value, which a codec does not see.

    Raises
    ------
    ValueError
        For options that make no sense.

    Examples
    --------
    >>> import numpy as np
    >>> from h5z_quire.numcodecs import QuireCodec
    >>> codec = QuireCodec("abs=1e-3", dtype="f8")
    >>> x = np.sin(np.arange(4096) / 50)
    >>> bool(abs(codec.decode(codec.encode(x.tobytes())) - x).max() <= 1e-3)
    True
    """

    codec_id = "quire"

    def __init__(
        self, quire: Quire | str | None = None, dtype: npt.DTypeLike | None = None, fill_value: Any = None, **keywords: Any
    ) -> None:
        self.quire = Quire.of_codec(quire, keywords)
        # numpy knows bfloat16 by its name where ml_dtypes is imported.
        self.dtype = None if dtype is None else bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
        self.fill_value = number_of(fill_value)
        if self.dtype is not None:
            self.quire.check(self.dtype)

    def encode(self, buf: Any) -> bytes:
        """The stream of an array, as `h5z_quire.compress` gives it. An array in Fortran's order is taken as its transpose, byte for byte as it lies in memory.

        Plain bytes, booleans, dates and whatever else is not a number are taken for values of the codec's `dtype`.

        Raises ValueError for a type that cannot be compressed so, and for numbers of another type than the codec's `dtype`. Raises ValueError also for plain
        bytes if the codec has no `dtype`: the bound would be kept for bytes, not for numbers. Raises TypeError for objects and lists of texts.
        """
        values = np.asanyarray(buf) if not isinstance(buf, (bytes, bytearray)) else np.frombuffer(buf, np.uint8)
        holds_texts = isinstance(buf, (list, tuple)) and values.dtype.kind in "SU"
        if values.dtype.hasobject or holds_texts:
            what = "a list of texts" if holds_texts else f"an array of {values.dtype}"
            raise TypeError(f"{what} holds objects of Python, which have no values of a number type: convert it first")
        if values.flags.f_contiguous and not values.flags.c_contiguous:
            values = values.T
        if self.dtype is not None and values.dtype != self.dtype:
            values = _of_bytes(values, self.dtype)
        elif self.dtype is None and values.dtype == np.uint8 and values.ndim == 1 and self.quire != Quire(lossless=True):
            raise ValueError(
                "these are plain bytes: say of what type their numbers are, as in QuireCodec(options, dtype='f4'); dtype='u1' if they are numbers themselves"
            )
        return arrays.compress(values, self.quire, fill_value=self.fill_value)

    def decode(self, buf: Any, out: Any = None) -> npt.NDArray[Any]:
        """The array of a stream, with the extents that streams keep. `out`, if given, receives the array's bytes and must have room for just as many.

        Raises ValueError, with the reason, for a damaged stream, and for an `out` that cannot have these values. Raises TypeError for an `out` of objects.
        """
        values = arrays.decompress(buf)
        if out is None:
            return values
        try:
            result: npt.NDArray[Any] = out if isinstance(out, np.ndarray) else np.asarray(memoryview(out))
        except (TypeError, ValueError) as error:
            raise ValueError(f"out must be contiguous bytes: {error}") from None
        if result.dtype.hasobject:
            raise TypeError(f"out is {short(out)}: its elements are objects of Python, not values")
        if self.dtype is None and _is_number(values.dtype) and _is_number(result.dtype) and result.dtype != values.dtype:
            raise ValueError(f"the stream holds values of type {values.dtype}, out has {result.dtype}: give an out of the stream's type, or of bytes")
        # An array in Fortran's order gets its bytes as they lie in memory.
        in_order = result.T if result.flags.f_contiguous else result
        if not in_order.flags.c_contiguous or isinstance(result, np.ma.MaskedArray):
            raise ValueError(f"out must be contiguous bytes: {short(out)} has gaps, or a mask")
        if result.nbytes != values.nbytes or not result.flags.writeable:
            raise ValueError(f"the stream holds {values.nbytes} bytes, out has room for {result.nbytes if result.flags.writeable else 0}")
        in_order.reshape(-1).view(np.uint8)[...] = values.reshape(-1).view(np.uint8)
        return result

    def get_config(self) -> dict[str, Any]:
        """What numcodecs writes into metadata."""
        config: dict[str, Any] = {"id": self.codec_id, "quire": self.quire.options}
        if self.dtype is not None:
            config["dtype"] = "bfloat16" if self.dtype.name == "bfloat16" else self.dtype.str
        if self.fill_value is not None:
            config["fill_value"] = to_json(self.fill_value)
        return config

    def __repr__(self) -> str:
        given = (f"{key}={value!r}" for key, value in self.get_config().items() if key not in ("id", "quire"))
        return f"QuireCodec({', '.join((repr(self.quire.options), *given))})"


def _of_bytes(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What is not of the codec's type as values of this type."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError("a masked array has no value where it is masked: give array.filled(value), and fill_value=value")
    if _is_number(values.dtype):
        raise ValueError(
            f"these are values of type {values.dtype}, and the codec has dtype={str(dtype)!r}: give the type of the array, and no filter before this codec "
            "that makes another one, such as BitRound"
        )
    try:
        return np.ascontiguousarray(values).reshape(-1).view(dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{values.nbytes} bytes of type {values.dtype} cannot be read as values of type {dtype}: {error}") from None


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of numbers, and not of bytes, which may be integers of 8 bits."""
    return dtype.itemsize > 1 and dtype.kind in "fiuc" or dtype.name == "bfloat16"
