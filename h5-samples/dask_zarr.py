"""xarray and dask.distributed, several worker processes of one thread: a field into zarr and netCDF and back, with the codec, with zarr's default, and without.

    h5-samples/measure dask_zarr [FIELD.npy] [--rel 1e-3] [--workers 2] [--rounds 5]

The workers read the field from an uncompressed zarr store and write it, each its chunks; reading is the mean over all values. Every value is first checked
against its bound in f64, by the workers. Then the ways take turns. Printed are the ratio, medians and quartiles of MB/s of uncompressed values, and the
workers' CPU time. Files lie in memory.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import xarray
from distributed import Client, LocalCluster

import h5z_quire.dask
from h5z_quire import Quire
from h5z_quire.zarr import QuireCodec
from harness import HERE, Field, Report, in_turns, parser, seconds, shape_text, spread
from peer_calls import versions

# Of a task, and of a chunk in the file: 1.1 MiB of f32.
TASK, CHUNK = (2, 16, 192, 384), (2, 16, 96, 96)
AXES = ("month", "level", "lat", "lon")


class Way:
    """One way of storing the field."""

    def __init__(self, path: Path, encoding: dict[str, Any], bound: float) -> None:
        self.path, self.encoding, self.bound = path, encoding, bound
        self.is_zarr = path.suffix == ".zarr"

    def write(self, data: xarray.Dataset) -> None:
        if self.is_zarr:
            data.to_zarr(self.path, mode="w", consolidated=False, encoding={"t": {"chunks": CHUNK, **self.encoding}})
        else:
            data.to_netcdf(self.path, engine="h5netcdf", encoding={"t": {"chunksizes": CHUNK, **self.encoding}})

    def open(self) -> xarray.Dataset:
        chunks = dict(zip(AXES, TASK))
        if self.is_zarr:
            return xarray.open_zarr(self.path, chunks=chunks, consolidated=False)
        return xarray.open_dataset(self.path, engine="h5netcdf", chunks=chunks)

    def mean(self) -> float:
        with self.open() as found:
            return float(found.t.mean().compute())

    def bytes(self) -> int:
        return sum(file.stat().st_size for file in (self.path.rglob("*") if self.is_zarr else [self.path]) if file.is_file())

    def check(self, data: xarray.Dataset) -> None:
        self.write(data)
        with self.open() as found:
            worst = float(abs(found.t.astype("f8") - data.t.astype("f8")).max().compute())
        assert worst <= self.bound, f"{self.path.name}: a value is off by {worst}, more than {self.bound}"


def measure(client: Client, report: Report, folder: Path, values: np.ndarray, bound: float, rounds: int) -> None:
    source = Way(folder / "source.zarr", {"compressors": None}, 0)
    source.write(xarray.Dataset({"t": (AXES, values)}))
    data = source.open()
    ways = {
        "zarr, no compressor": Way(folder / "none.zarr", {"compressors": None}, 0),
        "zarr, its default (zstd)": Way(folder / "default.zarr", {}, 0),
        "zarr, Quire": Way(folder / "quire.zarr", {"serializer": QuireCodec(abs=bound), "compressors": None}, bound),
        "zarr, Quire, lossless": Way(folder / "lossless.zarr", {"serializer": QuireCodec(lossless=True), "compressors": None}, 0),
        "netCDF, gzip with shuffle": Way(folder / "gzip.nc", {"compression": "gzip", "shuffle": True}, 0),
        "netCDF, Quire": Way(folder / "quire.nc", {**Quire(abs=bound)}, bound),
    }
    cpu_times: dict[tuple[str, str], list[float]] = {(name, what): [] for name in ways for what in ("write", "read")}

    def timed(key: tuple[str, str], work: Callable[[], object]) -> float:
        before = sum(client.run(time.process_time).values())
        taken = seconds(work)
        cpu_times[key].append(sum(client.run(time.process_time).values()) - before)
        return taken

    calls = {}
    for name, way in ways.items():
        way.check(data)
        calls[name, "write"] = partial(timed, (name, "write"), partial(way.write, data))
        calls[name, "read"] = partial(timed, (name, "read"), way.mean)
    taken = in_turns(calls, rounds)
    rows = [["", "ratio", "write MB/s", "CPU s", "read MB/s", "CPU s"]]
    for name, way in ways.items():
        rows.append([name, f"{values.nbytes / way.bytes():.2f}"])
        for key in ((name, "write"), (name, "read")):
            rows[-1] += [spread([values.nbytes / 1e6 / one for one in taken[key]], ".0f"), f"{median(cpu_times[key]):.2f}"]
    report.table(rows)


def main() -> None:
    options = parser(__doc__)
    default = HERE / "data" / "seed1-large" / "air_temperature.npy"
    options.add_argument("field", type=Path, nargs="?", default=default, help="an array of four axes, .npy; the generator's large air temperatures by default")
    options.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the array's range")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    warnings.filterwarnings("ignore", "Consolidated metadata")
    values = np.load(arguments.field)
    bound = arguments.rel * Field("", values).range
    report = Report(
        "dask_zarr",
        arguments.results,
        f"{arguments.workers} workers of one thread; {versions(('xarray', 'dask', 'distributed', 'zarr', 'h5netcdf', 'h5py'))}",
        f"array:   {arguments.field.stem}, {shape_text(values.shape)} {values.dtype}, tasks of {shape_text(TASK)}, chunks of {shape_text(CHUNK)}",
        f"bound:   abs={bound!r} ({arguments.rel:g} of the range), checked for every value",
        "",
    )
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        LocalCluster(n_workers=arguments.workers, threads_per_worker=1, dashboard_address=None) as cluster,
    ):
        with Client(cluster) as client:
            client.register_plugin(h5z_quire.dask.LoadFilter())
            measure(client, report, Path(folder), values, bound, arguments.rounds)


if __name__ == "__main__":
    main()
