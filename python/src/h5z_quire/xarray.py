"""The filter for xarray: encodings for `to_netcdf` with the engine h5netcdf, and for `to_zarr`.

xarray saves what it has opened with h5netcdf as it was compressed. Values that were rounded are then rounded once more: see `encoding`.
"""

from __future__ import annotations

from typing import Any, Hashable, Mapping, Sequence

import h5py
import numpy as np
import xarray

from . import datasets
from .arrays import as_value
from .chunk_shapes import chunks as chunk_shape
from .messages import short
from .options import FILTER_ID
from .settings import Quire

# Bytes below which a variable is not worth compressing, as for `quire repack`.
_LEAST_BYTES = 16384

# What values mean. All other entries of an encoding say how a file stores them.
_MEANING = ("_FillValue", "missing_value", "dtype", "scale_factor", "add_offset", "_Unsigned", "units", "calendar", "coordinates", "grid_mapping")


def encoding(
    dataset: xarray.Dataset,
    quire: Quire | str | Mapping[Any, Quire | str] | None = None,
    *,
    chunks: Mapping[Any, Sequence[int]] | None = None,
    zarr_format: int | None = None,
) -> dict[Hashable, dict[str, Any]]:
    """An encoding for `to_netcdf(..., engine="h5netcdf")`, or for `to_zarr`. It keeps what the variables' encodings say of the values' meaning: `_FillValue`,
    units, packing.

    Where `missing_value` alone marks gaps, it becomes `_FillValue` as well, which HDF5 and the filter know: gaps come back bit for bit, and have no part in a
    range. As wherever `_FillValue` is declared, xarray then writes it in place of NaN.

    Parameters
    ----------
    dataset : xarray.Dataset
    quire : Quire, str or mapping, optional
        What to keep of each variable, by its name. A single one is for all data variables that are stored as floating-point numbers and have 16 KiB or more.
        None is for variables that were read from files with this filter: each is kept as its file says. Then only `abs`, `pwrel` and `lossless` promise that
        values which were rounded before do not change, with the chunks that they had.
    chunks : mapping, optional
        Chunk shapes by the variables' names. Other variables have the chunks of their file, or those of `h5z_quire.chunks`, of arrays of dask within its
        blocks.
    zarr_format : {2, 3}, optional
        For `to_zarr`. None is for netCDF.

    Raises
    ------
    ValueError
        For a variable that is not there or cannot be compressed so, and where nothing is left to compress.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> from h5z_quire import Quire
    >>> from h5z_quire.xarray import encoding
    >>> dataset = xarray.Dataset({"t": (("y", "x"), np.zeros((100, 200)))})
    >>> dataset.to_netcdf("encoded.nc", engine="h5netcdf", encoding=encoding(dataset, {"t": Quire(abs=1e-3)}))
    >>> with xarray.open_dataset("encoded.nc") as opened:
    ...     encoding(opened)["t"]["chunksizes"]
    (100, 200)
    """
    if not isinstance(dataset, xarray.Dataset):
        raise ValueError(f"{short(dataset)} is not a Dataset of xarray: of an array, array.to_dataset(name=...) makes one")
    if zarr_format not in (None, 2, 3):
        raise ValueError(f"zarr_format is {zarr_format!r}: it must be 2 or 3, or None for netCDF")
    kept = _kept(dataset, quire)
    if not kept:
        raise ValueError(
            "no variable was read from a file with this filter: say what to keep, such as Quire(rel=1e-4)"
            if quire is None
            else f"no data variable is stored as floating-point numbers and has {_LEAST_BYTES} bytes: name those that are to be compressed"
        )
    unknown = set(chunks or ()) - set(kept)
    if unknown:
        raise ValueError(f"chunks are given for {sorted(map(str, unknown))}, which are not compressed")
    found: dict[Hashable, dict[str, Any]] = {}
    for name, (keep, own_chunks) in kept.items():
        variable = dataset.variables[name]
        shape = tuple((chunks or {}).get(name) or own_chunks or _advised(variable))
        try:
            keep.check(_stored_type(variable), shape)
        except ValueError as error:
            raise ValueError(f"variable {name!r}: {error}") from None
        stored = {**keep, "chunksizes": shape} if zarr_format is None else {**_codec(keep, _fill_value(variable), zarr_format), "chunks": shape}
        found[name] = {**_meaning(variable), **_declared(variable), **stored}
    return found


def drop_encoding(dataset: xarray.Dataset) -> xarray.Dataset:
    """The dataset without what its files said of compression and chunks, so that it can be saved with any engine.

    What values mean stays: `_FillValue`, units, packing. xarray's own `drop_encoding` takes that away, too.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> from h5z_quire import Quire
    >>> from h5z_quire.xarray import drop_encoding, encoding
    >>> dataset = xarray.Dataset({"t": (("y", "x"), np.zeros((100, 200)))})
    >>> dataset.to_netcdf("compressed.nc", engine="h5netcdf", encoding=encoding(dataset, {"t": Quire(abs=1e-3)}))
    >>> with xarray.open_dataset("compressed.nc", engine="h5netcdf") as opened:
    ...     drop_encoding(opened).to_netcdf("plain.nc", engine="h5netcdf")
    ...     sorted(drop_encoding(opened)["t"].encoding)
    ['_FillValue', 'dtype']
    """
    dropped = dataset.copy()
    for variable in dropped.variables.values():
        variable.encoding = _meaning(variable)
    return dropped


def _kept(dataset: xarray.Dataset, quire: Quire | str | Mapping[Any, Quire | str] | None) -> dict[Hashable, tuple[Quire, tuple[int, ...] | None]]:
    """What to keep of the variables that are to be compressed, and the chunks that they have in their file, if they are to keep them."""
    if quire is None:
        return _of_files(dataset)
    if isinstance(quire, (Quire, str)):
        given: Mapping[Any, Quire | str] = {name: quire for name in dataset.data_vars if _is_suitable(dataset.variables[name])}
    elif isinstance(quire, Mapping):
        given = quire
    else:
        raise ValueError(f"{short(quire)} does not say what to keep: give a Quire, a text, or either by the variables' names")
    kept: dict[Hashable, tuple[Quire, tuple[int, ...] | None]] = {}
    for name, keep in given.items():
        if name not in dataset.variables:
            raise ValueError(f"the dataset has no variable {name!r}: it has {', '.join(map(str, dataset.variables))}")
        variable, keep = dataset.variables[name], Quire.of(keep)
        if not variable.ndim:
            raise ValueError(f"variable {name!r} is a scalar, which HDF5 cannot compress")
        kept[name] = keep, None
    return kept


def _of_files(dataset: xarray.Dataset) -> dict[Hashable, tuple[Quire, tuple[int, ...] | None]]:
    """As `_kept`, by the files that variables were read from. Variables without this filter in their file are left out."""
    by_source: dict[str, list[Hashable]] = {}
    for name, variable in dataset.variables.items():
        source = variable.encoding.get("source")
        if isinstance(source, str) and h5py.is_hdf5(source):
            by_source.setdefault(source, []).append(name)
    kept: dict[Hashable, tuple[Quire, tuple[int, ...] | None]] = {}
    for source, names in by_source.items():
        with h5py.File(source, "r") as file:
            groups = datasets.groups(file)
            for name in names:
                variable = dataset.variables[name]
                found = {_of_dataset(of_file, variable) for of_file in datasets.of_variable(groups, str(name), variable)}
                if len(found) > 1:
                    raise ValueError(
                        f"variable {name!r}: {source!r} has several of this name, and xarray does not say from which group it was read: say what to keep "
                        "of each variable, such as {'t': Quire(abs=1e-3)}"
                    )
                kept.update((name, of_file) for of_file in found if of_file is not None)
    return {name: kept[name] for name in dataset.variables if name in kept}


def _of_dataset(of_file: Any, variable: xarray.Variable) -> tuple[Quire, tuple[int, ...] | None] | None:
    if FILTER_ID not in datasets.filters(of_file):
        return None
    return Quire.from_dataset(of_file), of_file.chunks if of_file.shape == variable.shape else None


def _is_suitable(variable: xarray.Variable) -> bool:
    stored = _stored_type(variable)
    return variable.ndim > 0 and stored.kind == "f" and variable.size * stored.itemsize >= _LEAST_BYTES


def _stored_type(variable: xarray.Variable) -> np.dtype[Any]:
    """The type in the file, which packing or time units may have made another one. An encoding may name it by a text."""
    try:
        stored: np.dtype[Any] = np.dtype(variable.encoding.get("dtype", variable.dtype))
    except TypeError:
        # One of pandas' own types.
        stored = np.dtype(object)
    return stored


def _meaning(variable: xarray.Variable) -> dict[str, Any]:
    return {key: value for key, value in variable.encoding.items() if key in _MEANING}


def _declared(variable: xarray.Variable) -> dict[str, Any]:
    """What an encoding lacks for HDF5 to know the fill value: `_FillValue`, if it is nowhere yet, and a `missing_value` of the same value and type."""
    fill_value = _fill_value(variable)
    if fill_value is None or variable.attrs.get("_FillValue") is not None:
        return {}
    in_encoding = variable.encoding.get("missing_value") is not None
    return {"_FillValue": fill_value, **({"missing_value": fill_value} if in_encoding else {})}


def _fill_value(variable: xarray.Variable) -> Any:
    """The value that marks gaps in the file, in the type of the file: `_FillValue`, or else `missing_value`.

    None if there is no such value, or if the type does not have it.
    """
    places = ((where, key) for key in ("_FillValue", "missing_value") for where in (variable.encoding, variable.attrs))
    given = next((where[key] for where, key in places if where.get(key) is not None), None)
    stored = _stored_type(variable)
    try:
        return None if given is None else as_value(np.asarray(given).item(), stored)[0]
    except ValueError:
        # Several values, a text, or one of another type.
        return None


def _codec(keep: Quire, fill_value: Any, zarr_format: int) -> dict[str, Any]:
    """The part of an encoding for zarr by which it compresses."""
    if zarr_format == 3:
        from .zarr import QuireCodec

        return {"serializer": QuireCodec(keep, fill_value), "compressors": None, "filters": None}
    import zarr

    from .numcodecs import QuireCodec as Version2

    # Zarr 2 knows one compressor.
    key = "compressor" if zarr.__version__.startswith("2.") else "compressors"
    return {key: Version2(keep, fill_value=fill_value), "filters": None}


def _advised(variable: xarray.Variable) -> tuple[int, ...]:
    # A chunk that lies in two blocks of dask would be written twice.
    shape = variable.shape if variable.chunks is None else tuple(max(blocks) for blocks in variable.chunks)
    return chunk_shape(shape)
