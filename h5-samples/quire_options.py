"""The filter's options in words, as HDF5's `cd_values`, and back, by the plugin's own functions: for scripts of this repository, which run without the package.

    import quire_options
    f.create_dataset("t", data=x, chunks=..., compression=quire_options.FILTER_ID, compression_opts=quire_options.cd_values("rel=1e-4"))

The plugin is that of HDF5_PLUGIN_PATH, or the one that cargo has built. `quire args` prints what h5py, h5repack, nccopy and C programs take.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from pathlib import Path
from typing import Any, Sequence

#: Number under which HDF5 knows the filter.
FILTER_ID = 33791

_BUILT = Path(__file__).resolve().parents[1] / "target" / "release"


class _Bytes(ctypes.Structure):
    """quire_bytes"""

    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


@functools.cache
def _library() -> ctypes.CDLL:
    folders = (*filter(None, os.environ.get("HDF5_PLUGIN_PATH", "").split(":")), os.environ.get("QUIRE_RELEASE", _BUILT))
    found = [path for path in (Path(folder) / "libh5zquire.so" for folder in folders) if path.is_file()]
    if not found:
        raise FileNotFoundError(f"no libh5zquire.so in {', '.join(map(str, folders))}: name its folder in HDF5_PLUGIN_PATH")
    return ctypes.CDLL(str(found[0]))


def _call(name: str, *arguments: Any) -> bytes:
    """What a function of the plugin delivers. ValueError with its reason, if it fails."""
    delivered = _Bytes()
    status = getattr(_library(), name)(*arguments, ctypes.byref(delivered))
    content = ctypes.string_at(delivered.address, delivered.length)
    _library().quire_free(ctypes.byref(delivered))
    if status:
        raise ValueError(content.decode())
    return content


def cd_values(text: str) -> tuple[int, ...]:
    """The words for options such as `abs=1e-3,coding=huffman`."""
    words = _call("quire_cd_values", text.encode())
    return struct.unpack(f"{len(words) // 4}I", words)


def options(words: Sequence[int]) -> str:
    """The options that words say, a user's or those that a dataset keeps."""
    return _call("quire_options", (ctypes.c_uint * len(words))(*words), ctypes.c_size_t(len(words))).decode()
