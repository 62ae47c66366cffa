"""dask.distributed: several processes write and read zarr arrays and HDF5 files through xarray."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator

import h5py
import numpy as np
import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
dask_array = pytest.importorskip("dask.array")
xarray = pytest.importorskip("xarray")

import h5z_quire.dask  # noqa: E402
from h5z_quire import Quire, compress, inspect  # noqa: E402
from conftest import Array, RunPython, assert_bound, field  # noqa: E402

SHAPE, CHUNK, BOUND = (6, 40, 50), (1, 40, 25), 1e-3


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two worker processes, which find the plugin by what the package does and by nothing else."""
    # On a busy machine a process takes its time to start and to answer.
    patience = {"distributed.comm.timeouts.connect": "1h", "distributed.comm.timeouts.tcp": "1h", "distributed.scheduler.worker-ttl": None}
    with pytest.MonkeyPatch.context() as environment, dask.config.set(patience):
        environment.delenv("HDF5_PLUGIN_PATH", raising=False)
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
            processes = set(client.run(os.getpid).values())
            assert len(processes) == 2 and os.getpid() not in processes
            yield client


def lazy(values: Array) -> Any:
    return xarray.Dataset({"t": (("time", "y", "x"), dask_array.from_array(values, chunks=CHUNK))})


def read(found: Any) -> Array:
    """The values as the workers read them, chunk by chunk."""
    assert found.t.data.npartitions == 12
    values: Array = found.t.data.compute()
    return values


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_workers_write_and_read_zarr(client: Any, zarr_format: int, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3.1")
    values = field("f4", SHAPE)
    if zarr_format == 3:
        from h5z_quire.zarr import QuireCodec

        encoding = {"serializer": QuireCodec(abs=BOUND), "compressors": None}
    else:
        from h5z_quire.numcodecs import QuireCodec as NumcodecsCodec

        encoding = {"compressors": NumcodecsCodec(abs=BOUND), "filters": None}
    folder = tmp_path / "t.zarr"
    lazy(values).to_zarr(str(folder), encoding={"t": encoding}, zarr_format=zarr_format)
    assert_bound(values, read(xarray.open_zarr(str(folder), chunks={})), BOUND)
    # Whoever writes a chunk, it is the stream of its values. xarray gives the array NaN as its fill value.
    fill = np.nan if zarr_format == 3 else None
    for time in range(SHAPE[0]):
        for column in range(2):
            stored = folder / "t" / (f"c/{time}/0/{column}" if zarr_format == 3 else f"{time}.0.{column}")
            assert stored.read_bytes() == compress(values[time : time + 1, :, 25 * column : 25 * column + 25], Quire(abs=BOUND), fill_value=fill)
    assert zarr.open_array(str(folder / "t")).metadata.zarr_format == zarr_format


def test_workers_write_and_read_hdf5(client: Any, tmp_path: Path) -> None:
    values = field("f4", SHAPE)
    quire = Quire(abs=BOUND)
    client.register_plugin(h5z_quire.dask.LoadFilter())
    lazy(values).to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding={"t": {**quire, "chunksizes": CHUNK}})
    with h5py.File(tmp_path / "t.nc") as file:
        rows = inspect(file["t"])
        assert len(rows) == 12 and {row.coding for row in rows} == {"quantized"}, "chunks are stored uncompressed"
        for row in rows:
            time, _, column = row.offset
            _, stored = file["t"].id.read_direct_chunk(row.offset)
            assert bytes(stored) == compress(values[time : time + 1, :, column : column + 25], quire, fill_value=np.nan)
    assert_bound(values, read(xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf", chunks=dict(zip(("time", "y", "x"), CHUNK)))), BOUND)


def test_a_worker_that_starts_later_has_the_filter(client: Any) -> None:
    client.register_plugin(h5z_quire.dask.LoadFilter())
    client.cluster.scale(3)
    client.wait_for_workers(3)
    # HDF5 has it already: the path is not searched again.
    assert all(client.run(is_loaded).values())
    client.cluster.scale(2)


def test_a_worker_without_the_plugin_is_an_error(run_python: RunPython) -> None:
    run_python("""
from h5py import h5pl
import h5z_quire.dask
while h5pl.size():
    h5pl.remove(0)
try:
    h5z_quire.dask.LoadFilter().setup(None)
except RuntimeError as error:
    assert "does not find filter 33791" in str(error), error
else:
    raise AssertionError("it is taken for loaded")
""")


def is_loaded() -> bool:
    """Whether this process has mapped the plugin."""
    return "libh5zquire" in Path("/proc/self/maps").read_text()


def test_a_bound_that_cannot_be_is_the_error_of_the_call(client: Any, tmp_path: Path) -> None:
    from h5z_quire.zarr import QuireCodec

    with pytest.raises(ValueError, match="point-wise"):
        lazy(field("i4", SHAPE)).to_zarr(str(tmp_path / "t.zarr"), encoding={"t": {"serializer": QuireCodec(pwrel=0.1), "compressors": None}})
