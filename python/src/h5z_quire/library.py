"""`libh5zquire.so`, the plugin that this package carries, and its C functions (`filter/include/h5z_quire.h`)."""

from __future__ import annotations

import ctypes
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from .strided import Strided, c_order

#: The folder for HDF5's plugin path. It holds nothing else.
PLUGIN_FOLDER = Path(__file__).resolve().parent / "plugins"
#: The plugin.
LIBRARY = PLUGIN_FOLDER / {"darwin": "libh5zquire.dylib", "win32": "h5zquire.dll"}.get(sys.platform, "libh5zquire.so")

_OK, _NO_MEMORY, _INTERNAL, _UNSUITABLE, _HDF5, _NO_GPU = 0, 4, 5, 6, 7, 8
_MAX_RANK = 4
# In bytes: streams in a GPU's memory begin at multiples of this number, and are at most this much longer than their chunks.
_STREAM_ALIGNMENT = 16

Buffer = npt.NDArray[np.uint8]


class Unsuitable(ValueError):
    """A dataset or a selection that h5py reads and writes, and the functions of whole arrays do not. Nothing has been read or written."""


_ERRORS: dict[int, type[Exception]] = {_NO_MEMORY: MemoryError, _INTERNAL: RuntimeError, _UNSUITABLE: Unsuitable, _HDF5: OSError}


class Task(NamedTuple):
    """What the arrays that one call compresses have in common."""

    #: The options as a text.
    options: str
    #: The number of the type in a stream's header.
    value_type: int
    shape: tuple[int, ...]
    #: An array of one value.
    fill_value: npt.NDArray[Any] | None

    def fill_value_for_c(self) -> int | None:
        """The address of the fill value."""
        return None if self.fill_value is None else self.fill_value.ctypes.data

    def for_c(self) -> tuple[object, ...]:
        """The first arguments of the functions that compress arrays of the host."""
        return _text(self.options), self.value_type, len(self.shape), _array(ctypes.c_uint64, self.shape), self.fill_value_for_c()


class _Bytes(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Layout(ctypes.Structure):
    _fields_ = [("value_type", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("extents", ctypes.c_uint64 * _MAX_RANK)]


class _Box(ctypes.Structure):
    _fields_ = [
        ("value_type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("start", ctypes.POINTER(ctypes.c_uint64)),
        ("count", ctypes.POINTER(ctypes.c_uint64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("values", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


class _DeviceChunks(ctypes.Structure):
    _fields_ = [
        ("value_type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("extents", ctypes.POINTER(ctypes.c_uint64)),
        ("count", ctypes.c_size_t),
        ("addresses", ctypes.POINTER(ctypes.c_uint64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("counts", ctypes.POINTER(ctypes.c_uint64)),
        ("stream", ctypes.c_void_p),
    ]


_TEXT, _POINTER, _LENGTH, _NUMBER, _ADDRESS, _ID = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
# Each gives a status. The last pointer is to what it delivers.
_FUNCTIONS: dict[str, tuple[type, ...]] = {
    "quire_compress": (_TEXT, _NUMBER, _NUMBER, _POINTER, _POINTER, _POINTER, _LENGTH, _POINTER),
    "quire_compress_batch": (_TEXT, _NUMBER, _NUMBER, _POINTER, _POINTER, _LENGTH, _POINTER, _LENGTH, _NUMBER, _POINTER, _POINTER),
    "quire_read_layout": (_POINTER, _LENGTH, _POINTER, _POINTER),
    "quire_decompress": (_POINTER, _LENGTH, _POINTER, _LENGTH, _POINTER),
    "quire_decompress_batch": (_LENGTH, _POINTER, _POINTER, _POINTER, _LENGTH, _NUMBER, _POINTER),
    "quire_device_compress": (_TEXT, _POINTER, _POINTER, _POINTER, _POINTER),
    "quire_device_compress_to_device": (_TEXT, _POINTER, _POINTER, _ADDRESS, _ADDRESS, _POINTER, _POINTER, _POINTER),
    "quire_device_decompress": (_POINTER, _POINTER, _POINTER, _POINTER),
    "quire_describe": (_POINTER, _LENGTH, _POINTER),
    "quire_cd_values": (_TEXT, _POINTER),
    "quire_options": (_POINTER, _LENGTH, _POINTER),
    "quire_info": (_POINTER,),
    "quire_h5_chunk_offsets": (_ID, _POINTER, _POINTER),
    "quire_h5_begin_write": (_ID, _POINTER, _POINTER, _NUMBER, _POINTER, _POINTER),
    "quire_h5_begin_read": (_ID, _POINTER, _POINTER, _NUMBER, _POINTER, _POINTER),
    "quire_transfer_step": (_POINTER, _POINTER, _POINTER, _POINTER),
    "quire_report_begin": (_NUMBER, _TEXT, _NUMBER, _POINTER, _POINTER),
    "quire_report_next": (_POINTER, _POINTER),
    "quire_report_add": (_POINTER, _POINTER, _POINTER, _LENGTH, _POINTER),
    "quire_report_write": (_POINTER, _NUMBER, _TEXT, _POINTER),
}
_FUNCTIONS_WITHOUT_STATUS: dict[str, tuple[type, ...]] = {
    "quire_transfer_wait": (_POINTER, _NUMBER),
    "quire_transfer_end": (_POINTER,),
    "quire_report_end": (_POINTER,),
    "quire_free": (_POINTER,),
}


def _load() -> ctypes.CDLL:
    if not LIBRARY.is_file():
        raise ImportError(f"{LIBRARY} is not there, as the sources alone do not have it: in H5Z-Quire's repository, pip install python/ builds and installs it")
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ImportError(f"{LIBRARY} cannot be loaded: {error}") from error
    for name, types in {**_FUNCTIONS, **_FUNCTIONS_WITHOUT_STATUS}.items():
        getattr(library, name).argtypes = types
    for name in _FUNCTIONS_WITHOUT_STATUS:
        getattr(library, name).restype = None
    return library


_LIBRARY = _load()


def _array(kind: Any, numbers: Iterable[int]) -> Any:
    """Numbers as an array of C."""
    listed = tuple(numbers)
    return (kind * len(listed))(*listed)


def _text(options: str) -> bytes:
    """Raises ValueError for a text that C would see the beginning of alone."""
    if "\0" in options:
        raise ValueError(f"options {options!r} hold a character 0")
    return options.encode()


def _call(function: Any, *arguments: object) -> bytes:
    """What a function delivers. ValueError or one of `_ERRORS`, with the library's reason, if the status says that the function has failed."""
    delivered = _Bytes()
    status = function(*arguments, ctypes.byref(delivered))
    (content,) = _taken([delivered])
    if status == _OK:
        return content
    reason = content.decode("utf-8", "replace") or "no memory for the reason"
    # The library knows of no Python.
    how = ": cupy.asnumpy(x), or x.cpu().numpy() of PyTorch" if status == _NO_GPU else ""
    raise _ERRORS.get(status, ValueError)(reason + how)


def _call_for_streams(count: int, function: Any, *arguments: object) -> list[bytes]:
    """As `_call`, of a function that writes `count` streams to the pointer behind the arguments."""
    streams = (_Bytes * count)()
    try:
        _call(function, *arguments, streams)
    except Exception:
        _taken(streams)
        raise
    return _taken(streams)


def _taken(delivered: Iterable[_Bytes]) -> list[bytes]:
    """The contents of what the library has delivered, which is freed."""
    try:
        return [ctypes.string_at(one.address, one.length) if one.address else b"" for one in delivered]
    finally:
        for one in delivered:
            _LIBRARY.quire_free(ctypes.byref(one))


def compress(task: Task, values: Sequence[npt.NDArray[Any]]) -> list[bytes]:
    """The streams of arrays of the task's type and shape, which lie in C order in memory. Several arrays are compressed on all cores."""
    length = values[0].nbytes
    if len(values) == 1:
        return [_call(_LIBRARY.quire_compress, *task.for_c(), values[0].ctypes.data, length)]
    return _call_for_streams(len(values), _LIBRARY.quire_compress_batch, *task.for_c(), len(values), _addresses(values), length, 0)


def _addresses(arrays: Iterable[npt.NDArray[Any]]) -> Any:
    return _array(ctypes.c_void_p, (array.ctypes.data for array in arrays))


def read_layout(stream: Buffer) -> tuple[int, tuple[int, ...]]:
    """Value type and extents of a stream, whose checksum is verified."""
    layout = _Layout()
    _call(_LIBRARY.quire_read_layout, stream.ctypes.data, stream.nbytes, ctypes.byref(layout))
    return layout.value_type, tuple(layout.extents[: layout.rank])


def decompress(streams: Sequence[Buffer], values: Sequence[npt.NDArray[Any]]) -> None:
    """Decompresses streams into arrays, which lie in C order in memory and have the streams' lengths. All cores work on several arrays of one length."""
    if len({array.nbytes for array in values}) == 1 < len(values):
        lengths = _array(ctypes.c_size_t, (stream.nbytes for stream in streams))
        _call(_LIBRARY.quire_decompress_batch, len(streams), _addresses(streams), lengths, _addresses(values), values[0].nbytes, 0)
    else:
        for stream, array in zip(streams, values):
            _call(_LIBRARY.quire_decompress, stream.ctypes.data, stream.nbytes, array.ctypes.data, array.nbytes)


def device_compress(task: Task, chunks: Sequence[Strided]) -> list[bytes]:
    """The streams of chunks of the task's type and shape in a GPU's memory."""
    made: list[bytes] = [b""] * len(chunks)
    for numbers, given in _device_calls(task.value_type, chunks):
        arguments = (_text(task.options), task.fill_value_for_c(), ctypes.byref(given))
        for number, stream in zip(numbers, _call_for_streams(len(numbers), _LIBRARY.quire_device_compress, *arguments)):
            made[number] = stream
    return made


def device_room(chunk: Strided) -> int:
    """The bytes that suffice for a stream of `device_compress_to_device`."""
    return _aligned(chunk.dtype.itemsize * math.prod(chunk.shape) + _STREAM_ALIGNMENT)


def _aligned(offset: int) -> int:
    """Where the next stream begins."""
    return -(-offset // _STREAM_ALIGNMENT) * _STREAM_ALIGNMENT


def device_compress_to_device(task: Task, chunks: Sequence[Strided], target: int, capacity: int) -> list[tuple[int, int]]:
    """Puts the streams of chunks into the memory of their GPU, into the `capacity` bytes at `target`. Offset and length of each, in bytes."""
    made = [(0, 0)] * len(chunks)
    used = 0
    for numbers, given in _device_calls(task.value_type, chunks):
        offsets, lengths = (ctypes.c_uint64 * len(numbers))(), (ctypes.c_uint64 * len(numbers))()
        arguments = (_text(task.options), task.fill_value_for_c(), ctypes.byref(given), target + used, capacity - used, offsets, lengths)
        _call(_LIBRARY.quire_device_compress_to_device, *arguments)
        for number, offset, length in zip(numbers, offsets, lengths):
            made[number] = (used + offset, length)
        used = _aligned(used + offsets[-1] + lengths[-1])
    return made


def device_decompress(value_type: int, streams: Sequence[tuple[int, int]], chunks: Sequence[Strided]) -> None:
    """Decompresses streams, by address and length in the memory of the host or of the GPU, into chunks in the GPU's memory."""
    for numbers, given in _device_calls(value_type, chunks):
        addresses = _array(ctypes.c_void_p, (streams[number][0] for number in numbers))
        lengths = _array(ctypes.c_size_t, (streams[number][1] for number in numbers))
        _call(_LIBRARY.quire_device_decompress, addresses, lengths, ctypes.byref(given))


def _device_calls(value_type: int, chunks: Sequence[Strided]) -> Iterator[tuple[list[int], _DeviceChunks]]:
    """The calls that take all chunks, each for chunks with equal strides and one stream of CUDA: the chunks' numbers, and the chunks as C takes them."""
    calls: dict[object, list[int]] = {}
    for number, chunk in enumerate(chunks):
        calls.setdefault((chunk.strides, chunk.stream), []).append(number)
    for numbers in calls.values():
        # As on the host, a bare number counts as an array of one value.
        first = chunks[numbers[0]] if chunks[0].shape else chunks[numbers[0]].broadcast_to((1,))
        in_order = first.strides == c_order(first.shape, first.dtype.itemsize)
        addresses = _array(ctypes.c_uint64, (chunks[number].address for number in numbers))
        strides = None if in_order else _array(ctypes.c_int64, first.strides)
        yield numbers, _DeviceChunks(
            value_type, len(first.shape), _array(ctypes.c_uint64, first.shape), len(numbers), addresses, strides, None, first.stream
        )


def describe(stream: Buffer) -> bytes:
    """The description of a stream, as JSON."""
    return _call(_LIBRARY.quire_describe, stream.ctypes.data, stream.nbytes)


def cd_values(options: str) -> tuple[int, ...]:
    """The filter's parameters in HDF5 for options as a text."""
    words = _call(_LIBRARY.quire_cd_values, _text(options))
    return struct.unpack(f"{len(words) // 4}I", words)


def options(words: Sequence[int]) -> str:
    """The options that parameters of the filter say."""
    return _call(_LIBRARY.quire_options, (ctypes.c_uint32 * len(words))(*words), len(words)).decode()


def info() -> bytes:
    """What the library says of itself, as JSON."""
    return _call(_LIBRARY.quire_info)


def chunk_offsets(dataset: int, hdf5: int, rank: int) -> list[tuple[int, ...]]:
    """Indices of the first value of each chunk that a dataset has in its file. Calls HDF5. `hdf5` is the address of a function."""
    indices = np.frombuffer(_call(_LIBRARY.quire_h5_chunk_offsets, dataset, hdf5), np.uint64)
    return [tuple(first) for first in indices.reshape(-1, rank).tolist()]


class Transfer:
    """A write or a read of a box of a dataset on its way. `step` calls HDF5; `wait` and `end` do not."""

    def __init__(self, write: bool, dataset: int, hdf5: int, value_type: int, start: tuple[int, ...], values: Strided, threads: int) -> None:
        """Calls HDF5. `start` are the indices of the box's first value, `values` has an axis for each of the dataset's. `hdf5` is the address of a function."""
        if not 0 <= threads < 2**32:
            raise ValueError(f"threads is {threads}: give 1 to 1024, or 0 to let the library choose")
        indices, extents, strides = _array(ctypes.c_uint64, start), _array(ctypes.c_uint64, values.shape), _array(ctypes.c_int64, values.strides)
        box = _Box(value_type, len(start), indices, extents, strides, values.address, values.stream)
        self._address = ctypes.c_void_p()
        # The threads use its memory.
        self._values = values
        self._done, self._total = ctypes.c_uint64(), ctypes.c_uint64()
        #: Whether a step has failed.
        self.has_failed = False
        begin = _LIBRARY.quire_h5_begin_write if write else _LIBRARY.quire_h5_begin_read
        _call(begin, dataset, hdf5, ctypes.byref(box), threads, ctypes.byref(self._address))

    def step(self) -> None:
        """Does what HDF5 has to do now. Its errors say how far the transfer has come."""
        try:
            _call(_LIBRARY.quire_transfer_step, self._address, ctypes.byref(self._done), ctypes.byref(self._total))
        except Exception:
            self.has_failed = True
            raise

    def wait(self, milliseconds: int) -> None:
        """Waits until a step has something to do, or the time is up."""
        _LIBRARY.quire_transfer_wait(self._address, milliseconds)

    def end(self) -> None:
        """Stops the threads. The transfer cannot be used any more."""
        # The library leaves a null there: nothing is ended twice, wherever a signal may strike.
        _LIBRARY.quire_transfer_end(ctypes.byref(self._address))

    def __del__(self) -> None:
        # Threads must not outlive the values. After an exception in `__init__` there may be no address yet.
        if hasattr(self, "_address"):
            self.end()

    @property
    def done(self) -> int:
        """Chunks that are written or read, after the first step."""
        return int(self._done.value)

    @property
    def total(self) -> int:
        """Chunks that the box touches, after the first step."""
        return int(self._total.value)


class Statistics:
    """What a copy keeps of an array, of which one box after the other is given."""

    def __init__(self, value_type: int, field: dict[str, Any], threads: int) -> None:
        self._address = ctypes.c_void_p()
        _call(_LIBRARY.quire_report_begin, value_type, json.dumps(field).encode(), threads, ctypes.byref(self._address))

    def next(self) -> list[tuple[int, int]] | None:
        """Start and end of the box that is wanted next, along each axis."""
        found: list[tuple[int, int]] | None = json.loads(_call(_LIBRARY.quire_report_next, self._address))
        return found

    def add(self, original: npt.NDArray[Any], copy: npt.NDArray[Any]) -> None:
        """Adds that box of both arrays, which lie in C order in memory."""
        _call(_LIBRARY.quire_report_add, self._address, original.ctypes.data, copy.ctypes.data, original.nbytes)

    def write(self, format: int, name: str = "") -> str:
        """What was found, as text (0), JSON (1), HTML (2) or SVG (3)."""
        return _call(_LIBRARY.quire_report_write, self._address, format, _text(name)).decode()

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            _LIBRARY.quire_report_end(ctypes.byref(self._address))
