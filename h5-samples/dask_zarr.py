"""xarray and dask.distributed, several worker processes of one thread: a field into zarr and netCDF and back, with the codec, with zarr's default, and without.

    target/release/generate data --size large
    python h5-samples/dask_zarr.py data/air_temperature.npy [--rel 1e-3] [--workers 2] [--rounds 5] [--folder DIR]

The workers read the field from an uncompressed zarr store and write it, each its chunks; reading is the mean over all values. Every value is first checked
against its bound in f64, by the workers. Then the ways take turns, so that what else the machine does hits all of them alike. Printed are the ratio, medians
of MB/s of uncompressed values with their spread, and the workers' CPU time. Files lie in memory. Needs the package h5z_quire, xarray, h5netcdf, zarr,
dask and distributed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shlex
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
import xarray
from distributed import Client, LocalCluster

import h5z_quire.dask
from h5z_quire import Quire
from h5z_quire.zarr import QuireCodec
from measured import measured

# Of a task, and of a chunk in the file: 1.1 MiB of f32.
TASK, CHUNK = (2, 16, 192, 384), (2, 16, 96, 96)
AXES = ("month", "level", "lat", "lon")
PACKAGES = ("xarray", "dask", "distributed", "zarr", "h5netcdf", "h5py")


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

    def bytes(self) -> int:
        return sum(file.stat().st_size for file in (self.path.rglob("*") if self.is_zarr else [self.path]) if file.is_file())

    def check(self, data: xarray.Dataset) -> None:
        self.write(data)
        with self.open() as found:
            worst = float(abs(found.t.astype("f8") - data.t.astype("f8")).max().compute())
        assert worst <= self.bound, f"{self.path.name}: a value is off by {worst}, more than {self.bound}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("field", type=Path, help="an array of four axes, .npy")
    parser.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the array's range")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "Consolidated metadata")
    folder = Path(tempfile.mkdtemp(prefix="quire_dask_", dir=arguments.folder))
    try:
        with LocalCluster(n_workers=arguments.workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            client.register_plugin(h5z_quire.dask.LoadFilter())
            run(client, arguments, folder)
    finally:
        shutil.rmtree(folder)


def run(client: Client, arguments: argparse.Namespace, folder: Path) -> None:
    values = np.load(arguments.field)
    bound = arguments.rel * float(values.max() - values.min())
    source = Way(folder / "source.zarr", {"compressors": None}, 0)
    source.write(xarray.Dataset({"t": (AXES, values)}))
    data = source.open()
    ours = Quire(abs=bound)
    ways = {
        "zarr, no compressor": Way(folder / "none.zarr", {"compressors": None}, 0),
        "zarr, its default (zstd)": Way(folder / "default.zarr", {}, 0),
        "zarr, Quire": Way(folder / "quire.zarr", {"serializer": QuireCodec(ours), "compressors": None}, bound),
        "zarr, Quire, lossless": Way(folder / "lossless.zarr", {"serializer": QuireCodec(lossless=True), "compressors": None}, 0),
        "netCDF, gzip with shuffle": Way(folder / "gzip.nc", {"compression": "gzip", "shuffle": True}, 0),
        "netCDF, Quire": Way(folder / "quire.nc", {**ours}, bound),
    }
    print(measured())
    print(f"command: python {shlex.join(sys.argv)}")
    processor = next((line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown")
    print(f"machine: {processor.strip()}, {arguments.workers} workers of one thread; " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES))
    print(f"array:   {arguments.field.stem}, {'x'.join(map(str, values.shape))} {values.dtype}, tasks of {'x'.join(map(str, TASK))}, chunks of {'x'.join(map(str, CHUNK))}")
    print(f"bound:   {ours.options} ({arguments.rel:g} of the range), checked for every value\n")
    for way in ways.values():
        way.check(data)
    seconds: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            written = timed(client, lambda: way.write(data))
            seconds[name].append((*written, *timed(client, lambda: mean(way))))
    print(f"{'':26} {'ratio':>6} {'write MB/s':>11} {'spread':>12} {'CPU s':>6} {'read MB/s':>11} {'spread':>12} {'CPU s':>6}")
    for name, way in ways.items():
        write, write_cpu, read, read_cpu = zip(*seconds[name])
        columns = [f"{speeds(values.nbytes, wall)} {statistics.median(cpu):6.2f}" for wall, cpu in ((write, write_cpu), (read, read_cpu))]
        print(f"{name:26} {values.nbytes / way.bytes():6.2f} {' '.join(columns)}")


def mean(way: Way) -> float:
    with way.open() as found:
        return float(found.t.mean().compute())


def timed(client: Client, work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and the workers' seconds of CPU time."""
    before = sum(client.run(time.process_time).values())
    start = time.perf_counter()
    work()
    return time.perf_counter() - start, sum(client.run(time.process_time).values()) - before


def speeds(size: int, wall: tuple[float, ...]) -> str:
    low, middle, high = (size / 1e6 / seconds for seconds in (max(wall), statistics.median(wall), min(wall)))
    return f"{middle:11.0f} {f'{low:.0f}-{high:.0f}':>12}"


if __name__ == "__main__":
    main()
