"""For dask's workers that write HDF5 files, as xarray's `to_netcdf` has them do::

    client.register_plugin(h5z_quire.dask.LoadFilter())
    dataset.to_netcdf("t.nc", engine="h5netcdf", encoding={"t": {**Quire(abs=1e-3), "chunksizes": (2, 256, 256)}})

HDF5 loads a filter to create and to read datasets, not to write. A worker writes into a dataset that another process has created. Without this plugin,
HDF5 stores the worker's chunks uncompressed, and no error says so. Workers that write zarr or read HDF5 need nothing.
"""

from __future__ import annotations

from typing import Any

from distributed import WorkerPlugin

from .options import FILTER_ID


class LoadFilter(WorkerPlugin):
    """Has h5py's HDF5 load the filter in every worker, also in workers that start later. Raises RuntimeError in a worker that does not find the filter."""

    name = "h5z-quire"

    def setup(self, worker: Any) -> None:
        """Loads the filter. Unpickling this object has imported the package, which has told HDF5 where it is."""
        import h5py

        if not h5py.h5z.filter_avail(FILTER_ID):
            raise RuntimeError(
                f"HDF5 {h5py.version.hdf5_version} of this worker does not find filter {FILTER_ID}: its plugin path was replaced; call h5z_quire.register()"
            )
