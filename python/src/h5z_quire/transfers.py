"""Whole arrays into datasets of h5py and back, on all cores, past HDF5's filter pipeline.

The calling thread alone calls HDF5, and holds h5py's lock while it does; other threads use h5py while chunks are compressed and decompressed.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, Optional

import numpy as np
import numpy.typing as npt

from . import library
from .boxes import Box, box_of
from .datasets import is_dataset
from .element_types import type_number_in_file
from .messages import short

#: Takes the number of chunks that are done, and of all.
Progress = Callable[[int, int], Any]

# Milliseconds after which Python looks for signals such as Ctrl-C.
_PATIENCE = 100


def write(dataset: Any, array: npt.ArrayLike, selection: Any = None, *, threads: int = 0, progress: Optional[Progress] = None) -> None:
    """Writes an array to a dataset of h5py on all cores. The file has the bytes that `dataset[selection] = array` would write.

    array      of the dataset's type, in any strides; it is broadcast to the selection. What is not an array becomes one of that type
    selection  integers and slices, as h5py takes them; None for all. Chunks that it covers in part are read, changed and written
    threads    1 to 1024; 0 for what QUIRE_THREADS says, or what the process may use
    progress   is called as progress(done, total), in chunks, while the work goes on

    Chunks are written in their order. An error says how many are written, and so does a note that an exception such as KeyboardInterrupt gets; the file
    stays in order.

    Raises ValueError, with the reason, for what h5py would have to do: other filters, another type, a step, a file that is read-only. OSError if HDF5
    fails, IndexError and MemoryError.
    """
    box = box_of(selection, _shape_of(dataset))
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError("a masked array has no value where it is masked: give array.filled(value)")
    values = array if isinstance(array, np.ndarray) else np.asarray(array, dataset.dtype)
    _transfer(True, dataset, box, np.broadcast_to(values, box.shape), threads, progress)


def read(
    dataset: Any,
    selection: Any = None,
    out: Optional[npt.NDArray[Any]] = None,
    *,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> npt.NDArray[Any]:
    """Reads an array from a dataset of h5py on all cores; what `dataset[selection]` would give.

    selection  as for `write`
    out        an array of the selection's shape and the dataset's type, in any strides, that is filled and returned; None for a new one
    threads, progress  as for `write`

    Raises as `write`. After an error the values of `out` are unspecified.
    """
    box = box_of(selection, _shape_of(dataset))
    values = np.empty(box.shape, dataset.dtype) if out is None else out
    if values.shape != box.shape or not values.flags.writeable:
        raise ValueError(f"out has the shape {values.shape}, the selection {box.shape}: give an array of that shape that can be written")
    _transfer(False, dataset, box, values, threads, progress)
    return values


def _shape_of(dataset: Any) -> tuple[int, ...]:
    if not is_dataset(dataset):
        raise ValueError(f"{short(dataset)} is not an h5py dataset: open the file with h5py.File, and give file[name]")
    if not dataset:
        raise ValueError("the dataset is closed, or its file is")
    shape: Optional[tuple[int, ...]] = dataset.shape
    if shape is None:
        raise library.Unsuitable(f"{dataset.name!r} is a dataset without values")
    return shape


def _transfer(is_write: bool, dataset: Any, box: Box, values: npt.NDArray[Any], threads: int, progress: Optional[Progress]) -> None:
    from h5py._objects import phil

    number, values = type_number_in_file(values.dtype), box.with_all_axes(values)
    with phil:
        transfer = library.Transfer(is_write, dataset.id.id, _hdf5(), number, box.start, values, threads)
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


@functools.cache
def _hdf5() -> int:
    """The address of a function of h5py's HDF5, by which the library knows whose identifiers it is given."""
    from h5py import defs

    # A look-up also searches what the module depends on; in Debian's h5py this one alone depends on HDF5.
    function = ctypes.CDLL(defs.__file__).H5Dwrite
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
