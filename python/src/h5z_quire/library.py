"""`libh5zquire.so`, the plugin that this package carries, and its C functions (`filter/include/h5z_quire.h`)."""

from __future__ import annotations

import ctypes
import math
import struct
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from .strided import Strided, c_order

#: The folder for HDF5's plugin path. It holds nothing else.
PLUGIN_FOLDER = Path(__file__).resolve().parent / "plugins"
#: The plugin.
LIBRARY = PLUGIN_FOLDER / "libh5zquire.so"

_OK, _NO_MEMORY, _INTERNAL, _UNSUITABLE, _HDF5, _NO_GPU = 0, 4, 5, 6, 7, 8
_MAX_RANK = 4
# Streams in a GPU's memory begin at multiples of this, and have at most as many bytes more than their chunks.
_STREAM_ALIGNMENT = 16

Buffer = npt.NDArray[np.uint8]


class Unsuitable(ValueError):
    """A dataset or a selection that h5py reads and writes, and the functions of whole arrays do not. Nothing has been read or written."""


_ERRORS: dict[int, type[Exception]] = {_NO_MEMORY: MemoryError, _INTERNAL: RuntimeError, _UNSUITABLE: Unsuitable, _HDF5: OSError}


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


def _load() -> ctypes.CDLL:
    if not LIBRARY.is_file():
        raise ImportError(f"{LIBRARY} is not there, as the sources alone do not have it: in H5Z-Quire's repository, pip install python/ builds and installs it")
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ImportError(f"{LIBRARY} cannot be loaded: {error}") from error
    address, length, delivered = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Bytes)
    extents = ctypes.POINTER(ctypes.c_uint64)
    library.quire_compress.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, extents, address, address, length, delivered]
    library.quire_read_layout.argtypes = [address, length, ctypes.POINTER(_Layout), delivered]
    library.quire_decompress.argtypes = [address, length, address, length, delivered]
    number, many = ctypes.c_uint32, ctypes.POINTER(address)
    library.quire_compress_batch.argtypes = [
        *library.quire_compress.argtypes[:5],
        length,
        many,
        length,
        number,
        delivered,
        delivered,
    ]
    library.quire_decompress_batch.argtypes = [length, many, ctypes.POINTER(length), many, length, number, delivered]
    chunks, counted = ctypes.POINTER(_DeviceChunks), ctypes.POINTER(ctypes.c_uint64)
    library.quire_device_compress.argtypes = [ctypes.c_char_p, address, chunks, delivered, delivered]
    library.quire_device_compress_to_device.argtypes = [ctypes.c_char_p, address, chunks, ctypes.c_uint64, ctypes.c_uint64, counted, counted, delivered]
    library.quire_device_decompress.argtypes = [many, ctypes.POINTER(length), chunks, delivered]
    library.quire_describe.argtypes = [address, length, delivered]
    library.quire_cd_values.argtypes = [ctypes.c_char_p, delivered]
    library.quire_options.argtypes = [ctypes.POINTER(number), length, delivered]
    library.quire_info.argtypes = [delivered]
    library.quire_h5_chunk_offsets.argtypes = [ctypes.c_int64, address, delivered]
    transfer = ctypes.c_void_p
    for begin in (library.quire_h5_begin_write, library.quire_h5_begin_read):
        begin.argtypes = [ctypes.c_int64, address, ctypes.POINTER(_Box), number, ctypes.POINTER(transfer), delivered]
    library.quire_transfer_step.argtypes = [transfer, counted, counted, delivered]
    library.quire_transfer_wait.argtypes = [transfer, number]
    library.quire_transfer_end.argtypes = [ctypes.POINTER(transfer)]
    library.quire_transfer_wait.restype = library.quire_transfer_end.restype = None
    library.quire_free.argtypes = [delivered]
    library.quire_free.restype = None
    return library


_LIBRARY = _load()


def _call(function: Any, *arguments: object) -> bytes:
    """What a function delivers. ValueError or one of `_ERRORS`, with its reason, if its status is not 0."""
    delivered = _Bytes()
    status = function(*arguments, ctypes.byref(delivered))
    try:
        content = ctypes.string_at(delivered.address, delivered.length) if delivered.address else b""
    finally:
        _LIBRARY.quire_free(ctypes.byref(delivered))
    if status == _OK:
        return content
    reason = content.decode("utf-8", "replace") or "no memory for the reason"
    # The library knows of no Python.
    how = ": cupy.asnumpy(x), or x.cpu().numpy() of PyTorch" if status == _NO_GPU else ""
    raise _ERRORS.get(status, ValueError)(reason + how)


def compress(options: str, value_type: int, extents: tuple[int, ...], fill_value: npt.NDArray[Any] | None, values: npt.NDArray[Any]) -> bytes:
    """The stream of an array, which lies in C order in memory."""
    return _call(_LIBRARY.quire_compress, *_task(options, value_type, extents, fill_value), values.ctypes.data, values.nbytes)


def compress_batch(
    options: str, value_type: int, extents: tuple[int, ...], fill_value: npt.NDArray[Any] | None, values: Sequence[npt.NDArray[Any]]
) -> list[bytes]:
    """The streams of arrays of one type and shape, made on all cores. Each lies in C order in memory."""
    count, length = len(values), values[0].nbytes if values else 0
    streams = (_Bytes * count)()
    addresses = _addresses(values)
    try:
        _call(_LIBRARY.quire_compress_batch, *_task(options, value_type, extents, fill_value), count, addresses, length, 0, streams)
        return [ctypes.string_at(stream.address, stream.length) for stream in streams]
    finally:
        for stream in streams:
            _LIBRARY.quire_free(ctypes.byref(stream))


def _task(options: str, value_type: int, extents: tuple[int, ...], fill_value: npt.NDArray[Any] | None) -> tuple[object, ...]:
    """The first arguments of the functions that compress."""
    given = (ctypes.c_uint64 * len(extents))(*extents)
    return _text(options), value_type, len(extents), given, None if fill_value is None else fill_value.ctypes.data


def _text(options: str) -> bytes:
    # A 0 would end the text early for C.
    if "\0" in options:
        raise ValueError(f"options {options!r} hold a character 0")
    return options.encode()


def _addresses(values: Sequence[npt.NDArray[Any]]) -> Any:
    return (ctypes.c_void_p * len(values))(*(array.ctypes.data for array in values))


def read_layout(stream: Buffer) -> tuple[int, tuple[int, ...]]:
    """Value type and extents of a stream, whose checksum is verified."""
    layout = _Layout()
    _call(_LIBRARY.quire_read_layout, stream.ctypes.data, stream.nbytes, ctypes.byref(layout))
    return layout.value_type, tuple(layout.extents[: layout.rank])


def decompress(stream: Buffer, values: npt.NDArray[Any]) -> None:
    """Decompresses a stream into an array, which lies in C order in memory and has the stream's length."""
    _call(_LIBRARY.quire_decompress, stream.ctypes.data, stream.nbytes, values.ctypes.data, values.nbytes)


def decompress_batch(streams: Sequence[Buffer], values: Sequence[npt.NDArray[Any]]) -> None:
    """Decompresses streams into arrays of one length, on all cores. As `decompress` for each."""
    lengths = (ctypes.c_size_t * len(streams))(*(stream.nbytes for stream in streams))
    length = values[0].nbytes if values else 0
    _call(_LIBRARY.quire_decompress_batch, len(streams), _addresses(streams), lengths, _addresses(values), length, 0)


def device_compress(options: str, value_type: int, fill_value: npt.NDArray[Any] | None, chunks: Sequence[Strided]) -> list[bytes]:
    """The streams of chunks of one type and shape in a GPU's memory."""
    made: list[bytes] = [b""] * len(chunks)
    for numbers in _with_equal_strides(chunks):
        given = _device_chunks(value_type, [chunks[number] for number in numbers])
        streams = (_Bytes * len(numbers))()
        try:
            _call(_LIBRARY.quire_device_compress, *_device_task(options, fill_value), given, streams)
            for number, stream in zip(numbers, streams):
                made[number] = ctypes.string_at(stream.address, stream.length)
        finally:
            for stream in streams:
                _LIBRARY.quire_free(ctypes.byref(stream))
    return made


def device_room(chunk: Strided) -> int:
    """The bytes that suffice for a stream of `device_compress_to_device`."""
    return _aligned(chunk.dtype.itemsize * math.prod(chunk.shape) + _STREAM_ALIGNMENT)


def _aligned(offset: int) -> int:
    """Where the next stream begins."""
    return (offset + _STREAM_ALIGNMENT - 1) // _STREAM_ALIGNMENT * _STREAM_ALIGNMENT


def device_compress_to_device(
    options: str, value_type: int, fill_value: npt.NDArray[Any] | None, chunks: Sequence[Strided], target: int, capacity: int
) -> list[tuple[int, int]]:
    """Puts the streams of chunks into the memory of their GPU, into the `capacity` bytes at `target`. Offset and length of each."""
    made = [(0, 0)] * len(chunks)
    used = 0
    for numbers in _with_equal_strides(chunks):
        given = _device_chunks(value_type, [chunks[number] for number in numbers])
        offsets, lengths = (ctypes.c_uint64 * len(numbers))(), (ctypes.c_uint64 * len(numbers))()
        _call(
            _LIBRARY.quire_device_compress_to_device,
            *_device_task(options, fill_value),
            given,
            target + used,
            capacity - used,
            offsets,
            lengths,
        )
        for number, offset, length in zip(numbers, offsets, lengths):
            made[number] = (used + offset, length)
        used = _aligned(made[numbers[-1]][0] + lengths[-1])
    return made


def device_decompress(value_type: int, streams: Sequence[tuple[int, int]], chunks: Sequence[Strided]) -> None:
    """Decompresses streams, by address and length in the memory of the host or of the GPU, into chunks in the GPU's memory."""
    for numbers in _with_equal_strides(chunks):
        given = _device_chunks(value_type, [chunks[number] for number in numbers])
        addresses = (ctypes.c_void_p * len(numbers))(*(streams[number][0] for number in numbers))
        lengths = (ctypes.c_size_t * len(numbers))(*(streams[number][1] for number in numbers))
        _call(_LIBRARY.quire_device_decompress, addresses, lengths, given)


def _device_task(options: str, fill_value: npt.NDArray[Any] | None) -> tuple[object, object]:
    return _text(options), None if fill_value is None else fill_value.ctypes.data


def _device_chunks(value_type: int, chunks: Sequence[Strided]) -> _DeviceChunks:
    first = chunks[0]
    if not first.shape:
        # As on the host, one value counts as an array of one.
        return _device_chunks(value_type, [chunk.broadcast_to((1,)) for chunk in chunks])
    rank = len(first.shape)
    return _DeviceChunks(
        value_type,
        rank,
        (ctypes.c_uint64 * rank)(*first.shape),
        len(chunks),
        (ctypes.c_uint64 * len(chunks))(*(chunk.address for chunk in chunks)),
        None if first.strides == c_order(first.shape, first.dtype.itemsize) else (ctypes.c_int64 * rank)(*first.strides),
        None,
        first.stream,
    )


def _with_equal_strides(chunks: Sequence[Strided]) -> list[list[int]]:
    """The numbers of the chunks that one call takes together."""
    found: dict[object, list[int]] = {}
    for number, chunk in enumerate(chunks):
        found.setdefault((chunk.strides, chunk.stream), []).append(number)
    return list(found.values())


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
        rank = len(start)
        indices = ctypes.c_uint64 * rank
        strides = (ctypes.c_int64 * rank)(*values.strides)
        box = _Box(value_type, rank, indices(*start), indices(*values.shape), strides, values.address, values.stream)
        self._address = ctypes.c_void_p()
        # The threads use its memory.
        self._values = values
        self._done, self._total = ctypes.c_uint64(), ctypes.c_uint64()
        #: Whether a step has failed.
        self.has_failed = False
        begin = _LIBRARY.quire_h5_begin_write if write else _LIBRARY.quire_h5_begin_read
        if not 0 <= threads < 2**32:
            raise ValueError(f"threads is {threads}: give 1 to 1024, or 0 to let the library choose")
        _call(begin, dataset, hdf5, box, threads, ctypes.byref(self._address))

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
        # Threads must not outlive the values. An exception in `__init__` has left none where there is no address yet.
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
