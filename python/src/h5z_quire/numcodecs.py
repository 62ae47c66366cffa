"""The codec `quire` for numcodecs, and so for arrays of zarr's format 2, with zarr 2 and zarr 3::

    zarr.create_array(store, ..., zarr_format=2, filters=None, compressors=QuireCodec("abs=1e-3"))    # zarr 3
    zarr.create(..., compressor=QuireCodec("abs=1e-3"), filters=None)                                 # zarr 2

For zarr's format 3 see `h5z_quire.zarr`. numcodecs finds the codec by its name once this package is installed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs.abc import Codec

from . import arrays
from .element_types import bfloat16
from .settings import Quire


class QuireCodec(Codec):  # type: ignore[misc]
    """A codec from arrays, or bytes of arrays, to streams.

    quire       what to keep, as a Quire or as options such as "abs=1e-3"; or Quire's own keywords, as in QuireCodec(abs=1e-3)
    dtype       type of the values where the codec is given plain bytes; an array says its own
    fill_value  a value that comes back bit for bit, whatever the bound allows

    Raises ValueError for options that make no sense.
    """

    codec_id = "quire"

    def __init__(
        self, quire: Quire | str | None = None, dtype: npt.DTypeLike | None = None, fill_value: int | float | None = None, **keywords: Any
    ) -> None:
        self.quire = Quire.of_codec(quire, keywords)
        # numpy knows bfloat16 by its name where ml_dtypes is imported.
        self.dtype = None if dtype is None else bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
        # Metadata are JSON, which has no numbers of numpy, no NaN and no infinities. These come back bit for bit in any case.
        number = fill_value.item() if isinstance(fill_value, (np.generic, np.ndarray)) and fill_value.size == 1 else fill_value
        self.fill_value = None if isinstance(number, float) and not math.isfinite(number) else number
        if self.dtype is not None:
            self.quire.check(self.dtype)

    def encode(self, buf: Any) -> bytes:
        """The stream of an array, as `h5z_quire.compress` gives it; one in Fortran's order is taken as its transpose, byte for byte as it lies in memory.

        Raises ValueError for a type that cannot be compressed so, and for plain bytes if the codec has no dtype: a bound would be kept for them, not for
        the numbers that they are parts of.
        """
        values = np.asanyarray(buf) if not isinstance(buf, (bytes, bytearray)) else np.frombuffer(buf, np.uint8)
        if values.flags.f_contiguous and not values.flags.c_contiguous:
            values = values.T
        if self.dtype is not None and values.dtype != self.dtype:
            try:
                values = np.ascontiguousarray(values).reshape(-1).view(self.dtype)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{values.nbytes} bytes cannot be read as values of type {self.dtype}: {error}") from None
        elif self.dtype is None and values.dtype == np.uint8 and values.ndim == 1 and self.quire != Quire(lossless=True):
            raise ValueError("these are plain bytes: say of what type their numbers are, as in QuireCodec(options, dtype='f4'); dtype='u1' if they are numbers themselves")
        return arrays.compress(values, self.quire, fill_value=self.fill_value)

    def decode(self, buf: Any, out: Any = None) -> npt.NDArray[Any]:
        """The array of a stream, with the extents that streams keep. `out`, if given, receives its bytes and must have as many of them.

        Raises ValueError, with the reason, for a damaged stream.
        """
        values = arrays.decompress(buf)
        if out is None:
            return values
        # An array in Fortran's order gets its bytes as they lie in memory.
        in_order = out.T if isinstance(out, np.ndarray) and out.flags.f_contiguous else out
        try:
            target = np.frombuffer(in_order, np.uint8)
        except (TypeError, ValueError, BufferError) as error:
            raise ValueError(f"out must be contiguous bytes: {error}") from None
        if target.nbytes != values.nbytes or not target.flags.writeable:
            raise ValueError(f"the stream holds {values.nbytes} bytes, out has room for {target.nbytes if target.flags.writeable else 0}")
        target[...] = values.reshape(-1).view(np.uint8)
        result: npt.NDArray[Any] = np.asanyarray(out)
        return result

    def get_config(self) -> dict[str, Any]:
        """What numcodecs writes into metadata."""
        config: dict[str, Any] = {"id": self.codec_id, "quire": self.quire.options}
        if self.dtype is not None:
            config["dtype"] = "bfloat16" if self.dtype.name == "bfloat16" else self.dtype.str
        if self.fill_value is not None:
            config["fill_value"] = self.fill_value
        return config

    def __repr__(self) -> str:
        given = (f"{key}={value!r}" for key, value in self.get_config().items() if key not in ("id", "quire"))
        return f"QuireCodec({', '.join((repr(self.quire.options), *given))})"
