"""The datasets that functions of this package are given, in whatever form, and what h5py says of their filters."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from typing import Any, Iterator, Sequence

from . import library
from .messages import short

#: Ends the name of a file in texts such as `run.h5:/t`.
_IN_FILE = ":/"


def is_dataset(thing: Any) -> bool:
    """Whether an object is a dataset of h5py. A file and a group have an identifier, too."""
    return hasattr(getattr(thing, "id", None), "get_num_chunks")


def filters(dataset: Any) -> dict[int, tuple[int, ...]]:
    """The parameters of a dataset's filters by their numbers, in the order in which a write applies them."""
    properties = dataset.id.get_create_plist()
    listed = (properties.get_filter(index) for index in range(properties.get_nfilters()))
    return {number: tuple(map(int, words)) for number, _, words, _ in listed}


def chunk_offsets(dataset: Any) -> list[tuple[int, ...]]:
    """Indices of the first value of each chunk that a dataset of h5py has in its file, the last axis fastest.

    h5py's `get_chunk_info`, `get_chunk_info_by_coord` and `chunk_iter` give chunks the offsets of others where one axis is unlimited and is not the first one.
    """
    from h5py._objects import phil

    with phil:
        return library.chunk_offsets(dataset.id.id, hdf5(), dataset.ndim)


@functools.cache
def hdf5() -> int:
    """The address of a function of h5py's HDF5, by which the library knows whose identifiers it is given."""
    from h5py import defs

    # A look-up also searches what the module depends on. In Debian's h5py, `defs` alone depends on HDF5.
    function = ctypes.CDLL(defs.__file__).H5Dwrite
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


@contextlib.contextmanager
def opened(thing: Any) -> Iterator[Any]:
    """The dataset of h5py that is given, that a variable of h5netcdf, netCDF4 or xarray was read from, or that a text such as `run.h5:/t` names.

    Raises ValueError for anything else, KeyError or OSError if the file does not have the dataset or cannot be opened.
    """
    if is_dataset(thing):
        yield thing
    elif is_dataset(getattr(thing, "_h5ds", None)):
        yield thing._h5ds
    else:
        import h5py

        file, path = _in_file(thing)
        with h5py.File(file, "r") as source:
            found = [source.get(path)] if path.startswith("/") else of_variable(groups(source), path, thing)
            if len(found) > 1:
                paths = ", ".join(dataset.name for dataset in found)
                raise ValueError(f"{file!r} has {paths}, and xarray does not say from which group {path!r} was read: give 'FILE:/PATH'")
            if not found or not is_dataset(found[0]):
                raise ValueError(f"{file!r} has no dataset {path!r}: name one that it has, as in 'run.h5:/group/t'")
            yield found[0]


def groups(file: Any) -> list[Any]:
    """The groups of a file of h5py, itself among them."""
    found = [file]
    file.visititems(lambda _, item: found.append(item) if hasattr(item, "visititems") else None)
    return found


def of_variable(groups: Sequence[Any], name: str, variable: Any) -> list[Any]:
    """The datasets in these groups that a variable of xarray may be from. Its encoding says what the dataset was like, but not in which group it is."""
    found = [group[name] for group in groups if is_dataset(group.get(name))]
    encoding = variable.encoding
    for key, of_h5py in (("original_shape", "shape"), ("compression_opts", "compression_opts"), ("chunksizes", "chunks")):
        # Where none fits, the user has changed the encoding.
        found = [dataset for dataset in found if key in encoding and getattr(dataset, of_h5py) == encoding[key]] or found
    return found


def _in_file(thing: Any) -> tuple[str, str]:
    """The file, and the path in it, of what `opened` is given. Of a variable of xarray, the name in place of the path."""
    if isinstance(thing, (str, os.PathLike)):
        file, colon, path = os.fspath(thing).rpartition(_IN_FILE)
        if not colon:
            raise ValueError(f"{os.fspath(thing)!r} names no dataset: write FILE:/PATH, such as 'run.h5:/t'")
        return file, "/" + path
    netcdf4 = sys.modules.get("netCDF4")
    if netcdf4 is not None and isinstance(thing, netcdf4.Variable):
        group = thing.group()
        return group.filepath(), f"{group.path.rstrip('/')}/{thing.name}"
    if hasattr(thing, "encoding") and hasattr(thing, "name"):
        if not thing.encoding.get("source"):
            raise ValueError(f"{short(thing)} was not read from a file, or no longer knows from which: give 'FILE:/PATH'")
        return thing.encoding["source"], str(thing.name)
    raise ValueError(
        f"{short(thing)} is not a dataset: give one of h5py (file[name]), a variable of netCDF4, h5netcdf or xarray that was read from a file, or a text "
        "such as 'run.h5:/t'"
    )
