"""Whole arrays into datasets of h5py and back, on all cores, past HDF5's filter pipeline.

The calling thread alone calls HDF5, and holds h5py's lock while it does; other threads use h5py while chunks are compressed and decompressed.
"""

from __future__ import annotations

from typing import Any, Callable, TypeVar, overload

import numpy as np

from . import device_arrays, library
from .boxes import Box, box_of
from .datasets import hdf5, is_dataset
from .device_arrays import Device
from .element_types import type_number_in_file
from .messages import short
from .strided import Strided

#: Takes the number of chunks that are done, and of all.
Progress = Callable[[int, int], Any]

_Out = TypeVar("_Out")

# Milliseconds after which Python looks for signals such as Ctrl-C.
_PATIENCE = 100


def write(dataset: Any, array: Any, selection: Any = None, *, threads: int = 0, progress: Progress | None = None) -> None:
    """Writes an array to a dataset of h5py on all cores. The file has the bytes that `dataset[selection] = array` would write.

    Parameters
    ----------
    dataset : h5py.Dataset
    array : array_like
        Of the dataset's type, in any strides, broadcast to the selection. It is of numpy, or in a GPU's memory: of any library that has
        `__cuda_array_interface__` (CuPy, Numba) or DLPack (PyTorch, JAX). An array in a GPU's memory is compressed there, when the work of its stream is
        done. What is not an array becomes an array of the dataset's type.
    selection : int, slice, Ellipsis or tuple of them, optional
        As h5py takes it; None for all. Chunks that the selection covers in part are read, changed and written.
    threads : int, default 0
        Most threads, 1 to 1024; 0 for what QUIRE_THREADS says, or what the process may use. A write to a GPU has up to 12 threads, of an array in its memory 3.
    progress : callable, optional
        Called as ``progress(done, total)``, in chunks, while the work goes on.

    Raises
    ------
    Unsuitable
        A ValueError, with the reason, for what h5py can do alone: other filters, another type, a step, a file that is read-only.
    OSError
        If HDF5 fails.
    ValueError, IndexError
        For a selection, an array or a number of threads that makes no sense.
    MemoryError

    Notes
    -----
    Chunks are written in their order. An error says how many are written, and so does a note that an exception such as KeyboardInterrupt gets. The file
    stays in order.

    Examples
    --------
    >>> import h5py, numpy as np
    >>> from h5z_quire import Quire, read, write
    >>> x = np.sin(np.arange(64 * 96) / 50).reshape(64, 96)
    >>> with h5py.File("written.h5", "w") as file:
    ...     dataset = file.create_dataset("t", x.shape, x.dtype, chunks=(32, 32), compression=Quire(abs=1e-3))
    ...     write(dataset, x)
    ...     write(dataset, x[:8], slice(8, 16))
    ...     bool(abs(read(dataset, slice(8, 16)) - x[:8]).max() <= 1e-3)
    True
    """
    box = box_of(selection, _shape_of(dataset))
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError("a masked array has no value where it is masked: give array.filled(value)")
    values = device_arrays.find(array)
    if values is None:
        values = Strided.of_numpy(array if isinstance(array, np.ndarray) else np.asarray(array, dataset.dtype))
    _transfer(True, dataset, box, values.broadcast_to(box.shape), threads, progress)


@overload
def read(
    dataset: Any, selection: Any = None, out: None = None, *, device: Device | None = None, threads: int = 0, progress: Progress | None = None
) -> Any: ...


@overload
def read(dataset: Any, selection: Any = None, *, out: _Out, threads: int = 0, progress: Progress | None = None) -> _Out: ...


@overload
def read(dataset: Any, selection: Any, out: _Out, *, threads: int = 0, progress: Progress | None = None) -> _Out: ...


def read(
    dataset: Any, selection: Any = None, out: Any = None, *, device: Device | None = None, threads: int = 0, progress: Progress | None = None
) -> Any:
    """Reads an array from a dataset of h5py on all cores.

    Parameters
    ----------
    dataset : h5py.Dataset
    selection : int, slice, Ellipsis or tuple of them, optional
        As for `write`.
    out : array, optional
        Filled and returned: an array of the selection's shape and the dataset's type, in any strides, of numpy or in a GPU's memory as for `write`.
    device : str or int, optional
        Where a new array is to be: "cuda", "cuda:1" or 1 for a GPU's memory. The array is of CuPy, or of PyTorch where CuPy is not installed. None for
        an array of numpy.
    threads, progress
        As for `write`.

    Returns
    -------
    array
        What ``dataset[selection]`` would give. So a single value, which integers along all axes select, is a scalar of numpy, in the machine's byte order.
        An array in a GPU's memory was decompressed there, and is complete.

    Raises
    ------
    Unsuitable, OSError, ValueError, IndexError, MemoryError
        As `write`, which has an example. After an error the values of `out` are unspecified.
    """
    box = box_of(selection, _shape_of(dataset))
    is_scalar = out is None and device is None and box.shape == ()
    if out is not None and device is not None:
        raise ValueError("out and device are both given: an array in out is where it is")
    if device is not None:
        out = device_arrays.empty(box.shape, dataset.dtype, device)
    elif out is None:
        out = np.empty(box.shape, dataset.dtype)
    values = device_arrays.find(out)
    if values is None and not isinstance(out, np.ndarray):
        raise ValueError(f"out is a {type(out).__name__} that is not in a GPU's memory: in the host's, give an array of numpy")
    values = Strided.of_numpy(out) if values is None else values
    if values.shape != box.shape or not values.is_writable:
        kind = "" if values.is_writable else ", and cannot be written"
        raise ValueError(f"out has the shape {values.shape}{kind}; the selection has {box.shape}: give an array of that shape that can be written")
    _transfer(False, dataset, box, values, threads, progress)
    return out[()] if is_scalar else out


def _shape_of(dataset: Any) -> tuple[int, ...]:
    if not is_dataset(dataset):
        raise ValueError(f"{short(dataset)} is not an h5py dataset: open the file with h5py.File, and give file[name]")
    if not dataset:
        raise ValueError("the dataset is closed, or its file is")
    shape: tuple[int, ...] | None = dataset.shape
    if shape is None:
        raise library.Unsuitable(f"{dataset.name!r} is a dataset without values")
    return shape


def _transfer(is_write: bool, dataset: Any, box: Box, values: Strided, threads: int, progress: Progress | None) -> None:
    from h5py._objects import phil

    number = type_number_in_file(values.dtype)
    with phil:
        transfer = library.Transfer(is_write, dataset.id.id, hdf5(), number, box.start, box.with_all_axes(values), threads)
    try:
        while True:
            with phil:
                transfer.step()
            if progress is not None:
                progress(transfer.done, transfer.total)
            if transfer.done == transfer.total:
                return
            transfer.wait(_PATIENCE)
    except BaseException as error:
        # Notes are known from Python 3.11 on.
        if not transfer.has_failed and hasattr(error, "add_note"):
            error.add_note(f"of {transfer.total} chunks the first {transfer.done} are {'written' if is_write else 'read'}")
        raise
    finally:
        transfer.end()
