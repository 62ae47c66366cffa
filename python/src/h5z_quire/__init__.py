"""H5Z-Quire in Python: an HDF5 filter that keeps an error bound for every value, on the CPU or on an NVIDIA GPU, with the same bytes.

Importing this package makes the filter known to every HDF5 library of the process, so that h5py, netCDF4, PyTables and xarray read
what was compressed with it. `Quire` says what to keep when they write:

>>> import h5py, h5z_quire, numpy as np
>>> x = np.sin(np.arange(64 * 96) / 50).reshape(64, 96)
>>> with h5py.File("small.h5", "w") as file:
...     dataset = file.create_dataset("t", data=x, chunks=h5z_quire.chunks(x.shape), compression=h5z_quire.Quire(abs=1e-3))
>>> with h5py.File("small.h5") as file:
...     bool(abs(file["t"][:] - x).max() <= 1e-3)
True

============================ ==========================================================================
`Quire`                      what to keep: a bound, and how to code
`advise`                     what bounds cost and keep, and the largest bound that keeps what you need
`chunks`                     a chunk shape for an array
`compress`, `decompress`     arrays to streams and back, without HDF5
`write`, `read`              whole arrays into datasets of h5py and back, on all cores
`parallel`                   a block in which h5py's own indexing goes that way
`verify`                     what a copy keeps of an array: errors, dSSIM, gradients, spectra, and a page that shows them
`inspect`, `describe`        what was done to each chunk of a dataset, to a stream
`info`                       version, backend, device, and why
`register`                   again, for an HDF5 whose plugin path was replaced
`h5z_quire.xarray`           encodings for xarray
`h5z_quire.netcdf4`          for netCDF4's variables
`h5z_quire.pytables`         for PyTables
`h5z_quire.dask`             for dask's workers that write HDF5
`h5z_quire.torch`            random crops for PyTorch, from many files
`h5z_quire.virtualizarr`     VirtualiZarr's and Icechunk's references to chunks of HDF5 files, `h5z_quire.kerchunk` those of kerchunk
`h5z_quire.numcodecs`        a codec for numcodecs and zarr's format 2, `h5z_quire.zarr` one for zarr's format 3
============================ ==========================================================================

Arrays may be of numpy, or in an NVIDIA GPU's memory: of CuPy, Numba, PyTorch, JAX, and whatever has `__cuda_array_interface__` or DLPack.

Errors are ValueError, with the reason; those that HDF5 raises stay as they are. `QUIRE_BACKEND` and the other variables of docs/gpu.md steer
the library.
"""

from importlib.metadata import version as _version

from .advising import Advice, Trial, advise
from .arrays import compress, decompress
from .chunk_shapes import chunks
from .import_hooks import watch_imports
from .inspection import Chunk, Description, Info, Plane, describe, info, inspect
from .library import Unsuitable
from .options import FILTER_ID
from .parallel import parallel
from .registration import register
from .settings import Quire
from .transfers import read, write
from .verification import Report, verify

__version__ = _version("h5z-quire")

__all__ = [
    "FILTER_ID",
    "Advice",
    "Chunk",
    "Description",
    "Info",
    "Plane",
    "Quire",
    "Report",
    "Trial",
    "Unsuitable",
    "advise",
    "chunks",
    "compress",
    "decompress",
    "describe",
    "info",
    "inspect",
    "parallel",
    "read",
    "register",
    "verify",
    "write",
]

register()
watch_imports()
