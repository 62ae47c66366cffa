"""The filter for variables of netCDF4, in netCDF-4 files and in zarr (`file:///folder#mode=zarr,file`). netCDF4's own `createVariable` has only the filters
that it knows by name.

The calls go to the netCDF-C library that netCDF4 has loaded.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from typing import Any

import netCDF4
import numpy as np
from netCDF4 import _netCDF4

from .library import PLUGIN_FOLDER
from .messages import short
from .options import FILTER_ID
from .registration import register
from .settings import Quire

_NOT_FOUND = -136  # NC_ENOFILTER

# netCDF4 is loaded by now, and may be the first that needs an HDF5 library of its own.
register()


class _PluginFolders(ctypes.Structure):
    """netCDF-C's `NCPluginList`."""

    _fields_ = [("count", ctypes.c_size_t), ("folders", ctypes.POINTER(ctypes.c_char_p))]


def _library() -> ctypes.CDLL:
    """netCDF-C, by way of the extension module that links it."""
    library = ctypes.CDLL(_netCDF4.__file__)
    if not hasattr(library, "nc_def_var_filter"):
        raise OSError(f"netCDF-C {netCDF4.__netcdf4libversion__} has no nc_def_var_filter: it must be 4.6.0 or newer")
    library.nc_strerror.restype = ctypes.c_char_p
    return library


def _name_the_plugin_to_nczarr() -> None:
    """Adds the package's plugin to those that netCDF-C, from 4.9.3 on, looks for when it first reads or writes zarr."""
    library, found = _library(), _PluginFolders()
    if not hasattr(library, "nc_plugin_path_set") or library.nc_plugin_path_get(ctypes.byref(found)):
        return
    folders = [*(found.folders[number] for number in range(found.count)), os.fsencode(PLUGIN_FOLDER)]
    named = (ctypes.c_char_p * len(folders))(*folders)
    library.nc_plugin_path_set(ctypes.byref(_PluginFolders(len(folders), named)))


_name_the_plugin_to_nczarr()


def def_var_filter(variable: Any, quire: Quire | str) -> None:
    """Compresses what will be written to a variable. Call it after createVariable, before data are written and before any `sync`.

    Parameters
    ----------
    variable : netCDF4.Variable
        With dimensions, in chunks. Give `chunksizes` to createVariable, or netCDF-C chooses them.
    quire : Quire or str
        What to keep.

    Warns
    -----
    UserWarning
        In no-fill mode (`fill_value=False`, `set_fill_off`), where HDF5 and so the filter do not know the fill value. Fill values may then be rounded.

    Raises
    ------
    ValueError
        For a type or a variable that cannot be compressed with this bound.
    OSError
        With netCDF-C's words, for anything else.

    Examples
    --------
    >>> import netCDF4, numpy as np
    >>> from h5z_quire import Quire
    >>> from h5z_quire.netcdf4 import def_var_filter, inq_var_filter
    >>> with netCDF4.Dataset("variable.nc", "w") as dataset:
    ...     dimension = dataset.createDimension("x", 4096)
    ...     variable = dataset.createVariable("t", "f8", ("x",), chunksizes=(1024,))
    ...     def_var_filter(variable, Quire(abs=1e-3))
    ...     variable[:] = np.sin(np.arange(4096) / 50)
    ...     inq_var_filter(variable)
    Quire(abs=0.001)
    """
    if not isinstance(variable, netCDF4.Variable):
        raise ValueError(f"{short(variable)} is not a netCDF4 variable: give dataset.variables[name]")
    if not variable.ndim:
        raise ValueError(f"variable {variable.name!r} is a scalar, which HDF5 cannot compress")
    if not isinstance(variable.dtype, np.dtype):
        raise ValueError(f"variable {variable.name!r} has values of type {variable.dtype}, which cannot be compressed")
    quire = Quire.of(quire)
    quire.check(variable.dtype)
    words = (ctypes.c_uint * len(quire.cd_values))(*quire.cd_values)
    library = _library()
    without_fill = ctypes.c_int()
    if library.nc_inq_var_fill(variable._grpid, variable._varid, ctypes.byref(without_fill), None) == 0 and without_fill.value:
        warnings.warn(
            f"variable {variable.name!r} is in netCDF's no-fill mode, in which HDF5 and the filter do not know its fill value: such values may be rounded "
            "like others. Leave out fill_value=False and set_fill_off() for a variable that has gaps",
            stacklevel=2,
        )
    status = library.nc_def_var_filter(variable._grpid, variable._varid, ctypes.c_uint(FILTER_ID), ctypes.c_size_t(len(words)), words)
    if status:
        raise OSError(
            f"variable {variable.name!r}: nc_def_var_filter says {library.nc_strerror(status).decode()!r} ({status}); "
            "the file must be of format NETCDF4, and nothing written to the variable yet"
        )


def inq_var_filter(variable: Any) -> Quire | None:
    """What a variable is compressed with; None if it is not compressed with this filter. `def_var_filter` has an example.

    Raises
    ------
    ValueError
        For anything but a variable of netCDF4.
    OSError
        With netCDF-C's words.
    """
    if not isinstance(variable, netCDF4.Variable):
        raise ValueError(f"{short(variable)} is not a netCDF4 variable: give dataset.variables[name]")
    library = _library()
    count = ctypes.c_size_t()
    inquire = library.nc_inq_var_filter_info
    arguments = (variable._grpid, variable._varid, ctypes.c_uint(FILTER_ID), ctypes.byref(count))
    status = inquire(*arguments, None)
    if status == _NOT_FOUND:
        return None
    words = (ctypes.c_uint * count.value)()
    if status == 0:
        status = inquire(*arguments, words)
    if status:
        raise OSError(f"variable {variable.name!r}: nc_inq_var_filter_info says {library.nc_strerror(status).decode()!r} ({status})")
    return Quire.from_cd_values(tuple(words))
