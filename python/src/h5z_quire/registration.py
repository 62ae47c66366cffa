"""Makes the filter known to every HDF5 library of the process, those loaded already and those that come later.

A Python process may hold several: h5py's, PyTables' and netCDF4's wheels bring one each. HDF5 takes its plugin path from the environment when it is
initialized, and from calls after that. So the folder of the plugin goes into the environment, and by calls to the libraries that are initialized.

netCDF4's wheel has zstd, blosc and bzip2 in a folder of plugins. It names the folder in the environment if nobody has set the variable. Since we set the
variable, we name netCDF4's folder in it, too. h5py gets netCDF4's folder when netCDF4 is imported, as it does without us, and not before. The plugins there
call netCDF4's HDF5, so that some of them fail in h5py, and hdf5plugin leaves out its own filters where h5py finds others.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Iterator

from .library import PLUGIN_FOLDER

_VARIABLE = "HDF5_PLUGIN_PATH"
# Where HDF5 looks if the variable is not set, unless it was configured otherwise.
_DEFAULT = "/usr/local/hdf5/lib/plugin"
# Every HDF5 since 1.10.1 has it.
_PROBE = "H5PLprepend"


def register() -> None:
    """Puts the plugin's folder first on the plugin path of every HDF5. Can be called again, for a library whose path was replaced since.

    Raises
    ------
    OSError
        If a library refuses.
    """
    _register_for_later()
    _register_with_loaded()


def _register_for_later() -> None:
    """For libraries that are not initialized yet, and for child processes."""
    folders = os.environ.get(_VARIABLE) or os.pathsep.join((_DEFAULT, *_of_netcdf4()))
    if str(PLUGIN_FOLDER) not in folders.split(os.pathsep):
        os.environ[_VARIABLE] = os.pathsep.join((str(PLUGIN_FOLDER), folders))


def _is_our_own() -> bool:
    """Whether the variable has the value that we give it if nobody else has set it. A parent process may have given it."""
    return os.environ[_VARIABLE].split(os.pathsep) == [str(PLUGIN_FOLDER), _DEFAULT, *_of_netcdf4()]


def _of_netcdf4() -> list[str]:
    """The folder that netCDF4 would name, or none. netCDF4 is not imported for that."""
    try:
        found = importlib.util.find_spec("netCDF4")
    except (ImportError, ValueError):
        # Another library's finder says no in its own way, or there is a stand-in in `sys.modules`.
        return []
    places = (found and found.submodule_search_locations) or ()
    return [str(folder) for folder in (Path(place) / "plugins" for place in places) if (folder / "lib__nczhdf5filters.so").exists()]


def _register_with_loaded() -> None:
    folder = os.fsencode(PLUGIN_FOLDER)
    ours = None
    h5py = sys.modules.get("h5py")
    if h5py is not None:
        # Through h5py, which holds its lock meanwhile.
        from h5py import h5pl

        if folder not in _of_h5py(h5pl):
            h5pl.prepend(folder)
        for other in map(os.fsencode, _of_netcdf4() if _is_our_own() else ()):
            known = _of_h5py(h5pl)
            if "netCDF4" in sys.modules and other not in known:
                h5pl.append(other)
            elif "netCDF4" not in sys.modules and other in known:
                h5pl.remove(known.index(other))
        ours = _address(ctypes.CDLL(h5pl.__file__))
    for address, library in _loaded_libraries().items():
        if address != ours and folder not in _plugin_path(library):
            if library.H5PLprepend(folder) < 0:
                raise OSError(f"an HDF5 library of this process does not take {PLUGIN_FOLDER} for a folder of plugins")


def _of_h5py(h5pl: Any) -> list[bytes]:
    """The folders in which h5py's HDF5 looks for plugins."""
    return [h5pl.get(index) for index in range(h5pl.size())]


def _loaded_libraries() -> dict[int, ctypes.CDLL]:
    """The HDF5 libraries of this process by the address of one of their functions.

    A look-up also searches an object's dependencies, so that libhdf5_hl and extension modules lead to the same library.
    """
    found: dict[int, ctypes.CDLL] = {}
    for path in _mapped_objects():
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
        except OSError:
            # A file that is mapped, but not as a library.
            continue
        address = _address(library)
        if address is not None:
            found.setdefault(address, library)
    return found


def _mapped_objects() -> Iterator[str]:
    """Paths of the shared objects that are mapped into this process, each once."""
    seen = set()
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and ".so" in fields[5] and fields[5] not in seen:
            seen.add(fields[5])
            yield fields[5]


def _address(library: ctypes.CDLL) -> int | None:
    try:
        function: Any = getattr(library, _PROBE)
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def _plugin_path(library: ctypes.CDLL) -> list[bytes]:
    """The folders in which a library looks for plugins."""
    size = ctypes.c_uint()
    library.H5PLget.restype = ctypes.c_ssize_t
    if library.H5PLsize(ctypes.byref(size)) < 0:
        return []
    folders = []
    for index in range(size.value):
        buffer = ctypes.create_string_buffer(4096)
        if library.H5PLget(ctypes.c_uint(index), buffer, ctypes.c_size_t(len(buffer))) >= 0:
            folders.append(buffer.value)
    return folders
