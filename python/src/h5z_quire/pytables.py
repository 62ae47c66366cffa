"""The filter for PyTables. PyTables reads compressed arrays like any others, but its own `Filters` know a fixed list of compressors.

`create_carray` makes the dataset through the HDF5 library that PyTables has loaded. Tables, EArrays and VLArrays cannot be made so: make their files with h5py.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt
import tables
from tables import hdf5extension

from .arrays import as_value
from .options import FILTER_ID
from .registration import register
from .settings import Quire

_MANDATORY = 0
_DEFAULT = 0
_TYPES = {"f4": "H5T_IEEE_F32", "f8": "H5T_IEEE_F64"}
_TYPES.update({f"{kind}{size}": f"H5T_STD_{kind.upper()}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)})

_hid = ctypes.c_int64

# PyTables is loaded by now, and may be the first that needs an HDF5 library of its own.
register()


def create_carray(
    file: tables.File, where: Any, name: str, quire: Quire | str, *, obj: npt.ArrayLike, chunkshape: Sequence[int], fill_value: Any = None
) -> Any:
    """Makes a compressed CArray of `obj`, like `file.create_carray(where, name, obj=obj, chunkshape=chunkshape)`, and gives it.

    Parameters
    ----------
    file : tables.File
    where : str or tables.Group
        Path of a group, or the group.
    name : str
    quire : Quire or str
        What to keep.
    obj : array_like
        Of float32, float64, or integers of 8 to 64 bits, in either byte order, with one axis or more.
    chunkshape : sequence of int
        Extents of a chunk, as many as `obj` has.
    fill_value : number, optional
        A value that comes back bit for bit, whatever the bound allows, and has no part in a range.

    Raises
    ------
    ValueError
        For a type or a shape that cannot be.
    tables.HDF5ExtError, tables.NodeError, tables.FileModeError
        As PyTables raises them; the first has HDF5's reasons.

    Examples
    --------
    >>> import numpy as np, tables
    >>> from h5z_quire import Quire
    >>> from h5z_quire.pytables import create_carray
    >>> x = np.sin(np.arange(4096) / 50)
    >>> with tables.open_file("carray.h5", "w") as file:
    ...     array = create_carray(file, "/", "t", Quire(abs=1e-3), obj=x, chunkshape=(1024,))
    ...     bool(abs(array[:] - x).max() <= 1e-3)
    True
    """
    values, quire = np.asanyarray(obj), Quire.of(quire)
    quire.check(values.dtype)
    if values.dtype.str[1:] not in _TYPES:
        raise ValueError(f"values of type {values.dtype} cannot be stored by this function: make the file with h5py")
    if len(chunkshape) != values.ndim or not values.ndim or min(chunkshape) < 1:
        raise ValueError(f"chunkshape is {tuple(chunkshape)}: for an array of shape {values.shape} it must have {values.ndim} extents of 1 or more")
    if file.mode == "r":
        raise tables.FileModeError(f"{file.filename!r} was opened to be read only")
    group = file.get_node(where, classname="Group")
    if name in group:
        raise tables.NodeError(f"group {group._v_pathname!r} has a node {name!r} already")
    tables.path.check_name_validity(name)
    fill = None if fill_value is None else as_value(fill_value, values.dtype)
    _create(group._v_objectid, name, quire, values, chunkshape, fill)
    if "_v_children" in vars(group):
        # PyTables has listed the group's children, and has no public call to list them again.
        group._g_add_children_names()
    node = file.get_node(group, name)
    node[...] = values
    return node


def _create(group: int, name: str, quire: Quire, values: npt.NDArray[Any], chunkshape: Sequence[int], fill: npt.NDArray[Any] | None) -> None:
    """Makes the dataset, without its values."""
    library = ctypes.CDLL(hdf5extension.__file__)
    extents, chunk = ((ctypes.c_uint64 * values.ndim)(*map(int, given)) for given in (values.shape, chunkshape))
    words = (ctypes.c_uint * len(quire.cd_values))(*quire.cd_values)
    order = "BE" if values.dtype.str[0] == ">" else "LE"
    element = _hid.in_dll(library, f"{_TYPES[values.dtype.str[1:]]}{order}_g")
    for function in (library.H5Screate_simple, library.H5Pcreate, library.H5Dcreate2):
        function.restype = _hid
    with ExitStack() as open_ids:

        def opened(identifier: int, close: Any) -> Any:
            """An identifier that is closed in the end."""
            if identifier < 0:
                # It takes HDF5's own reasons along.
                raise tables.HDF5ExtError(f"HDF5 did not create {name!r} in chunks of {tuple(chunkshape)}")
            open_ids.callback(close, _hid(identifier))
            return _hid(identifier)

        space = opened(library.H5Screate_simple(values.ndim, extents, None), library.H5Sclose)
        properties = opened(library.H5Pcreate(_hid.in_dll(library, "H5P_CLS_DATASET_CREATE_ID_g")), library.H5Pclose)
        library.H5Pset_chunk(properties, values.ndim, chunk)
        if fill is not None:
            library.H5Pset_fill_value(properties, element, ctypes.c_void_p(fill.ctypes.data))
        if library.H5Pset_filter(properties, FILTER_ID, _MANDATORY, ctypes.c_size_t(len(words)), words) < 0:
            raise tables.HDF5ExtError(f"PyTables' HDF5 ({tables.hdf5_version}) does not find filter {FILTER_ID} on its plugin path: call h5z_quire.register()")
        default = _hid(_DEFAULT)
        opened(library.H5Dcreate2(_hid(group), name.encode(), element, space, default, properties, default), library.H5Dclose)
