"""`with parallel():` h5py's own indexing, on all cores."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import threading
from contextvars import ContextVar
from typing import Any, Callable, NamedTuple

import numpy as np

from . import device_arrays
from .boxes import Box, box_of
from .element_types import type_number_in_file
from .library import Unsuitable
from .settings import names_filter
from .strided import Strided
from .transfers import Progress, read, write


class _Settings(NamedTuple):
    threads: int
    progress: Progress | None
    #: Of the block around this one.
    outer: _Settings | None = None


# Of the innermost block that the calling thread, or task, is in.
_current: ContextVar[_Settings | None] = ContextVar("h5z_quire.parallel", default=None)
_lock = threading.RLock()
# Of `enable`, for all threads.
_enabled: _Settings | None = None
# Blocks that have begun and not ended, in all threads.
_blocks = 0
# The methods of h5py that ours stand in front of: their class, their name, h5py's, ours.
_replaced: list[tuple[Any, str, Callable[..., Any], Callable[..., Any]]] = []
_said: set[str] = set()


class parallel(contextlib.ContextDecorator):
    """Inside this block, what is indexed, assigned and created with h5py goes the way of `read` and `write`, where it can.

    Parameters
    ----------
    threads, progress
        As for `write`.

    Notes
    -----
    An array that is assigned or given as data may be in a GPU's memory, as for `write`. An array that is read is of numpy.

    Anything else is left to h5py, with the same results: other filters, types that are converted, lists, masks and steps, files that several processes have
    opened with MPI. So is what h5py does as fast: a single chunk, or parts of chunks that fit its chunk cache. `QUIRE_LOG=1` says what is left to h5py, and
    why.

    A block counts for its thread. Blocks can be nested; the innermost counts. A function can be decorated with `@h5z_quire.parallel()`. `parallel.enable()`
    is a block for all threads that `parallel.disable()` ends. When the last block has ended, h5py is as it was before.

    Examples
    --------
    >>> import h5py, h5z_quire, numpy as np
    >>> x = np.sin(np.arange(64 * 96) / 50).reshape(64, 96)
    >>> with h5py.File("parallel.h5", "w") as file, h5z_quire.parallel(threads=2):
    ...     dataset = file.create_dataset("t", data=x, chunks=(32, 32), compression=h5z_quire.Quire(abs=1e-3))
    ...     bool(abs(dataset[:] - x).max() <= 1e-3)
    True
    """

    def __init__(self, *, threads: int = 0, progress: Progress | None = None) -> None:
        self._settings = _Settings(threads, progress)

    def __enter__(self) -> None:
        _begin()
        _current.set(self._settings._replace(outer=_current.get()))

    def __exit__(self, *_: object) -> None:
        if (ended := _current.get()) is not None:
            _current.set(ended.outer)
        _end()

    @staticmethod
    def enable(*, threads: int = 0, progress: Progress | None = None) -> None:
        """Has all threads go this way, until `disable`. A second call changes threads and progress."""
        global _enabled
        with _lock:
            if _enabled is None:
                _begin()
            _enabled = _Settings(threads, progress)

    @staticmethod
    def disable() -> None:
        """Ends what `enable` has begun, if it has been called. Blocks go on."""
        global _enabled
        with _lock:
            if _enabled is not None:
                _enabled = None
                _end()

    @staticmethod
    def is_enabled() -> bool:
        """Whether the calling thread goes this way, by a block or by `enable`."""
        return _settings() is not None


def _settings() -> _Settings | None:
    return _current.get() or _enabled


def _begin() -> None:
    """Puts our methods in front of h5py's for the first block. Outside of a block they only call h5py's."""
    global _blocks
    import h5py

    from .h5py_additions import Bfloat16Dataset

    with _lock:
        _blocks += 1
        if _replaced:
            return
        for owner in (h5py.Dataset, Bfloat16Dataset):
            _replace(owner, "__getitem__", _getitem)
            _replace(owner, "__setitem__", _setitem)
        _replace(h5py.Group, "create_dataset", _create_dataset)


def _end() -> None:
    """Takes our methods away after the last block. If another library has put its own method in front of one, all of ours stay for the next block."""
    global _blocks
    with _lock:
        _blocks -= 1
        if _blocks == 0 and all(vars(owner)[name] is ours for owner, name, _, ours in _replaced):
            for owner, name, original, _ in _replaced:
                setattr(owner, name, original)
            _replaced.clear()


def _replace(owner: Any, name: str, ours: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        settings = _settings()
        if settings is None:
            return original(self, *arguments, **keywords)
        return ours(functools.partial(original, self), settings, self, *arguments, **keywords)

    setattr(owner, name, method)
    _replaced.append((owner, name, original, method))


def _getitem(original: Callable[..., Any], settings: _Settings, dataset: Any, args: Any, new_dtype: Any = None) -> Any:
    try:
        if new_dtype is not None:
            raise Unsuitable("the type is converted")
        _leave_small_box(dataset, _suitable_box(dataset, args))
        return read(dataset, args, threads=settings.threads, progress=settings.progress)
    except Unsuitable as reason:
        _say(dataset, "read", reason)
    # h5py decides, and words the error.
    return original(args) if new_dtype is None else original(args, new_dtype)


def _setitem(original: Callable[..., Any], settings: _Settings, dataset: Any, args: Any, value: Any) -> Any:
    resident = device_arrays.find(value)
    try:
        box = _suitable_box(dataset, args)
        if resident is None:
            _leave_small_box(dataset, box)
            if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
                raise Unsuitable(f"the value is of type {type(value).__name__}, not an array of numpy or in a GPU's memory")
        try:
            values = resident or Strided.of_numpy(value)
            # h5py writes pairs of numbers as complex ones, for one.
            type_number_in_file(values.dtype)
            values.broadcast_to(box.shape)
        except ValueError as error:
            raise Unsuitable(str(error)) from None
        return write(dataset, value, args, threads=settings.threads, progress=settings.progress)
    except Unsuitable as reason:
        _say(dataset, "written", reason)
        if resident is not None:
            # h5py refuses most of them. The reason then stays with its error.
            return original(args, value)
    return original(args, value)


def _create_dataset(
    original: Callable[..., Any], _settings: _Settings, group: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **keywords: Any
) -> Any:
    values = None
    if names_filter(keywords.get("compression")) and not isinstance(data, np.ma.MaskedArray):
        values = Strided.of_numpy(data) if isinstance(data, np.ndarray) else device_arrays.find(data)
    if values is None or not _is_type(dtype, values.dtype) or not _is_shape(shape, values.shape) or 0 in values.shape:
        return original(name, shape, dtype, data, **keywords)
    dataset = original(name, values.shape, values.dtype, None, **keywords)
    # By the method above.
    dataset[...] = data
    return dataset


def _is_type(given: Any, dtype: np.dtype[Any]) -> bool:
    """Whether `create_dataset` is given this type, or none. An enumeration of h5py equals its integers but for the metadata."""
    return given is None or bool(given == dtype and getattr(given, "metadata", None) == dtype.metadata)


def _is_shape(given: Any, shape: tuple[int, ...]) -> bool:
    """Whether `create_dataset` is given this shape, or none. A list or an array will do."""
    return given is None or (np.ndim(given) == 1 and tuple(given) == shape)


def _suitable_box(dataset: Any, selection: Any) -> Box:
    """The box of a dataset. Raises Unsuitable where there is none; the library looks at all the rest."""
    if dataset.chunks is None or not dataset.shape or str in map(type, selection if isinstance(selection, tuple) else (selection,)):
        raise Unsuitable("the dataset is not stored in chunks, or a field of it is selected")
    if selection is None:
        # h5py takes it for a new axis, `read` and `write` for all values.
        raise Unsuitable("None selects nothing of a dataset")
    try:
        type_number_in_file(dataset.dtype)
        return box_of(selection, dataset.shape)
    except (TypeError, ValueError, IndexError) as reason:
        raise reason if isinstance(reason, Unsuitable) else Unsuitable(str(reason)) from None


def _leave_small_box(dataset: Any, box: Box) -> None:
    """Raises Unsuitable where all cores have too little to do."""
    chunks = box.chunks(dataset.chunks)
    if chunks < 2:
        raise Unsuitable("it touches one chunk at most")
    cache: int = dataset.id.get_access_plist().get_chunk_cache()[1]
    chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize
    if box.cuts_chunks(dataset.chunks, dataset.shape) and chunks * chunk_bytes <= cache:
        raise Unsuitable("parts of chunks are selected, and all of these chunks fit HDF5's chunk cache")


def _say(dataset: Any, participle: str, reason: Unsuitable) -> None:
    """Says what is left to h5py, once, if the user wants to know."""
    if os.environ.get("QUIRE_LOG") == "1":
        line = f"H5Z-Quire: {dataset.name!r} is {participle} by h5py: {reason}"
        if line not in _said:
            _said.add(line)
            print(line, file=sys.stderr)
